"""SciPy multiplies small relations as compiled code would, and nothing is compiled."""

import itertools
import pickle

import numpy as np
import pytest

import nearfar as nf
from nearfar.relations import kernels, operators
from nearfar.relations.operators import Sparse, ThreadProducts, times

N, M = 61, 47


def two_ways(rng, *, weighted, scaled, symmetric=False):
    """A matrix with a hub, a row and a column of its own, empty ones; multiplied by SciPy, and by compiled code."""
    m = N if symmetric else M
    A = (rng.random((N, m)) < 0.1) * rng.uniform(0.1, 3, (N, m))
    A[7], A[:, 11] = 0.5, 0.25
    A[[0, 20, 60]], A[:, [0, 20, 30]] = 0, 0
    if symmetric:
        A[30], A[:, 60] = 0, 0
        A += A.T
    indices = np.concatenate([np.flatnonzero(row) for row in A]).astype(np.int32)
    indptr = np.append(0, np.cumsum((A > 0).sum(axis=1)))
    data = A[A > 0].astype(np.float32) if weighted else None
    scale = rng.uniform(0.2, 2, N).astype(np.float32) if scaled else None
    both = [Sparse(indptr, indices, data, A.shape[1], symmetric=symmetric).scaled(scale) for _ in range(2)]
    assert both[0].is_small
    both[1].is_small = False
    return both


@pytest.mark.parametrize(
    ("scaled", "weighted", "dtype"),
    [
        *itertools.product((True, False), (True, False), (np.float32,)),
        (False, False, np.float64),
        (False, True, np.float64),
        *(pytest.param(True, weighted, np.float64, marks=pytest.mark.slow) for weighted in (True, False)),
    ],
)
@pytest.mark.parametrize("width", [1, 2, 33, 130])
@pytest.mark.parametrize("kind", ["two kinds", "symmetric"])
def test_plain_products_are_those_of_compiled_code(kind, weighted, scaled, width, dtype, rng):
    both = two_ways(rng, weighted=weighted, scaled=scaled, symmetric=kind == "symmetric")
    tolerance = 3e-6 if dtype == np.float32 else 1e-14
    for transposed in (False, True):
        X = rng.normal(size=(both[0].shape[not transposed], width)).astype(dtype)
        base = rng.normal(size=(both[0].shape[transposed], width)).astype(dtype)
        for kept in (None, "apart", "in place"):
            for factor in (1.0, 0.37):
                found = []
                for operator in both:
                    out = base.copy() if kept == "in place" else np.full_like(base, np.nan)
                    given = {None: None, "apart": base, "in place": out}[kept]
                    times(operator, ThreadProducts(), X, given, factor, out, transposed=transposed)
                    found.append(out)
                assert found[0].dtype == dtype
                scale = abs(found[1]).max()
                np.testing.assert_allclose(found[0], found[1], rtol=tolerance, atol=tolerance * scale)
                assert not np.array_equal(found[0], base)


def test_a_single_column_is_added_up_in_float64(rng):
    A = rng.uniform(0.1, 3, (2, kernels.FEW_ROWS)).astype(np.float32)
    x = rng.normal(size=A.shape[1]).astype(np.float32)
    rel = nf.Relation.from_matrix(A)
    assert rel.operator.is_small
    np.testing.assert_allclose(rel @ x, A.astype(np.float64) @ x, rtol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_finite_comes_out_where_compiled_code_lets_it(value, width, dtype, rng):
    both = two_ways(rng, weighted=True, scaled=True)
    X = rng.normal(size=(M, width)).astype(dtype)
    X[[5, 20]] = value  # nothing is related to 20
    X[8] = -value
    X[9] = np.finfo(dtype).max
    found = []
    for operator in both:
        out = np.empty((N, width), dtype)
        threads = ThreadProducts(1, out)
        times(operator, threads, X, factor=2.0, out=out)
        assert threads.overflown == [0]
        found.append(out)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(found[0]), kind(found[1]))
    assert np.isfinite(found[0]).all(axis=1).any()


def test_each_block_that_is_not_finite_is_named():
    n = kernels.FEW_ROWS
    ring = nf.Relation.from_edges(np.stack([np.arange(n), np.roll(np.arange(n), -1)], axis=1)).operator
    assert ring.is_small
    X, out = np.ones((n, 2), np.float32), np.empty((n, 2), np.float32)
    X[n - 3] = np.nan
    threads = ThreadProducts(1, out)
    times(ring, threads, X, out=out)
    assert threads.overflown == [1]


def test_the_size_of_the_data_decides(monkeypatch):
    few, rows = kernels.FEW_ENTRIES, kernels.FEW_ROWS
    assert kernels.is_small((rows, 1), few)
    for shape, n_entries in (((rows + 1, 1), 5), ((1, rows + 1), 5), ((rows, rows), few + 1)):
        assert not kernels.is_small(shape, n_entries)
    rel = nf.Relation.from_edges([("a", "b"), ("b", "c")])
    large = nf.Relation.from_edges([(k, k + 1) for k in range(rows)])
    other = nf.Relation.from_matrix(np.ones((3, rows + 1)), rel.row_ids)
    for made in (rel, rel.T, rel.random_walk(3), rel.random_walk(2).T, (rel @ rel).normalized(), rel + 2 * rel):
        assert made.operator.is_small
    for made in (large, other, other.T, rel @ other, rel + other @ other.T, large.random_walk(3)):
        assert not made.operator.is_small


def test_without_its_isolates_a_relation_is_as_large_as_before(monkeypatch):
    """One in files keeps them, and is fitted with the same bits."""
    monkeypatch.setattr(kernels, "FEW_ROWS", 5)
    for n in (5, 6):
        A = np.zeros((n, n))
        A[1, 2] = A[2, 1] = 1
        walk = nf.Relation.from_matrix(A).random_walk(2)
        left = walk.operator.without(walk.isolates)
        assert left.shape == (2, 2)
        assert left.is_small == pickle.loads(pickle.dumps(left)).is_small == (n == 5)


def test_what_scipy_multiplies_with_belongs_to_one_matrix(rng):
    operator = two_ways(rng, weighted=True, scaled=True, symmetric=True)[0]
    X = rng.random((N, 3))
    size, before = operator.nbytes, len(pickle.dumps(operator))
    kept = len(operators._FOR_SCIPY)
    plain, transposed = operator.matmat(X, n_jobs=1), operator.rmatmat(X, n_jobs=1)
    dense = operator.rows(0, N).toarray()
    np.testing.assert_allclose(transposed, dense.T @ X, rtol=1e-6)
    assert operator.nbytes == size
    assert len(pickle.dumps(operator)) <= before + 100  # whether it is small
    other = operator.scaled(np.arange(1, N + 1, dtype=np.float32))
    A = other.rows(0, N).toarray()
    np.testing.assert_allclose(other.matmat(X, n_jobs=1), A @ X, rtol=1e-6)
    np.testing.assert_allclose(other.rmatmat(X, n_jobs=1), A.T @ X, rtol=1e-6)
    again = pickle.loads(pickle.dumps(operator))
    np.testing.assert_array_equal(again.matmat(X, n_jobs=1), plain)
    np.testing.assert_array_equal(again.rmatmat(X, n_jobs=1), transposed)
    del operator, other, again
    assert len(operators._FOR_SCIPY) <= kept
