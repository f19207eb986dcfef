"""The linear-time objective of maps against the master equation, which is exact and plain."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from master import value_and_gradient
from quick import often, with_slow
from scipy.sparse import csr_array

import nearfar as nf
from nearfar._core.jit import soonest
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.far.fields import ExactField
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, StudentT
from nearfar.maps import objective as pattern
from nearfar.maps.objective import NeighborObjective, Pattern, probabilities_of_map, union_pattern
from nearfar.methods.maps import AllPairs

pytestmark = pytest.mark.usefixtures("few_compiled")

DIVERGENCES = {
    "kl": KL(),
    "reverse": ReverseKL(0.05),
    "nerv": NeRV(0.3),
    "nerv at its ends": NeRV(1.0),
    "js": JensenShannon(0.4),
    "js at 1": JensenShannon(1.0, floor=0.2),
}
KERNELS = {
    "exponential": Exponential(0.7),
    "student": StudentT(),
    "heavy": HeavyTailed(0.4, 0.8),
    "one nu": InhomogeneousStudentT(3.0),
}
N = 40


def sparse_p(rng, normalization, n=N):
    """Irregular and asymmetric, with an empty row, an isolate, an entry without its reverse, and a self-loop."""
    A = rng.random((n, n)) ** 3 * (rng.random((n, n)) < rng.uniform(0.02, 0.4, n)[:, None])
    A[3], A[5], A[:, 5] = 0, 0, 0
    A[7, 7], A[2, 4], A[4, 2] = 0, 0.3, 0
    np.fill_diagonal(A, 0)
    sums = A.sum(axis=1, keepdims=True)
    return csr_array(A / np.where(sums > 0, sums, 1) if normalization == "row" else A / A.sum())


# What a loop is compiled for is the kernel and the divergence: each with one of the others, not all with all.
ALL = [(divergence, "student", 2, by) for divergence in DIVERGENCES for by in ("row", "pair")]
ALL += [("nerv", kernel, 2, by) for kernel in ("exponential", "heavy", "one nu") for by in ("row", "pair")]
ALL += [("nerv", "student", 3, "row"), ("nerv", "student", 3, "pair"), ("js", "heavy", 2, "row")]
ALL += [("js", "heavy", 2, "pair"), ("kl", "heavy", 2, "pair"), ("kl", "exponential", 2, "row")]
by_parts = ("divergence", "kernel", "d", "normalization")
# Each kind of pairs is compiled in one of the two types, those of t-SNE in both; all in the long run.
BOTH = [("kl", "student", 2, "row"), ("kl", "student", 2, "pair"), ("nerv at its ends", "student", 2, "pair")]
OF_FLOAT64 = [*BOTH, ("reverse", "student", 2, "pair"), ("js at 1", "student", 2, "pair")]
OF_FLOAT64 += [("nerv", "student", 2, "row"), ("js", "student", 2, "row")]
OF_FLOAT32 = [*BOTH, ("nerv", "student", 2, "row")]
OF_FLOAT32 += [("kl", "exponential", 2, "row"), ("kl", "heavy", 2, "pair")]
IN_FLOAT64, IN_FLOAT32 = often(ALL, OF_FLOAT64), often(ALL, OF_FLOAT32)
IN_OTHER_SIZES = often(product(["nerv"], ["student"], (1, 5), ("row", "pair")), [("nerv", "student", 1, "row")])


@pytest.mark.parametrize(by_parts, IN_FLOAT64 + IN_OTHER_SIZES)
def test_near_and_far_are_the_master_equation(rng, divergence, kernel, normalization, d):
    divergence, kernel = DIVERGENCES[divergence], KERNELS[kernel]
    Y, P = rng.normal(size=(N, d)) * rng.uniform(0.5, 2, d), sparse_p(rng, normalization)
    counted = P if normalization == "row" else (P + P.T) / 2
    for exaggeration in (1.0, 4.0) if isinstance(divergence, KL) else (1.0,):
        expected = value_and_gradient(Y, counted, kernel, divergence, normalization, exaggeration=exaggeration)
        objective = NeighborObjective(P, kernel, divergence, normalization, ExactField(), dtype=float, n_jobs=1)
        G, cost = objective.evaluate(Y, exaggeration, cost=True)
        assert cost == pytest.approx(expected[0], rel=1e-10)
        np.testing.assert_allclose(G, expected[1], rtol=1e-10, atol=1e-10 * np.abs(expected[1]).max())
        assert objective.evaluate(Y, exaggeration)[1] is None


@pytest.mark.parametrize(by_parts, IN_FLOAT32)
def test_float32_is_close_to_the_master_equation(rng, divergence, kernel, normalization, d):
    divergence, kernel = DIVERGENCES[divergence], KERNELS[kernel]
    Y, P = (rng.normal(size=(N, d)) * 2).astype(np.float32), sparse_p(rng, normalization)
    counted = P if normalization == "row" else (P + P.T) / 2
    expected_cost, expected = value_and_gradient(Y.astype(float), counted, kernel, divergence, normalization)
    objective = NeighborObjective(P, kernel, divergence, normalization, ExactField(), dtype=np.float32, n_jobs=1)
    G, cost = objective.evaluate(Y, cost=True)
    assert G.dtype == np.float32
    assert cost == pytest.approx(expected_cost, rel=1e-5)
    np.testing.assert_allclose(G, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    for scale in (0.0, 1e-12, 30.0, 1e4):  # where points coincide, or are far apart
        G, cost = objective.evaluate((rng.normal(size=(N, d)) * scale).astype(np.float32), cost=True)
        assert np.isfinite(G).all()
        assert np.isfinite(cost)


@pytest.mark.parametrize(
    ("divergence", "normalization"),
    with_slow([(KL(), "row"), (KL(), "pair")], slow=[(NeRV(0.3), "row"), (NeRV(0.3), "pair")]),
    ids=repr,
)
def test_same_bits_for_any_number_of_workers(rng, divergence, normalization):
    P = sparse_p(rng, normalization, n=530)
    Y = rng.normal(size=(530, 2)).astype(np.float32)
    results = []
    for n_jobs in (1, 3):
        field = ExactField()
        objective = NeighborObjective(P, StudentT(), divergence, normalization, field, dtype=np.float32, n_jobs=n_jobs)
        results.append(objective.evaluate(Y, cost=True))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_union_of_the_pattern(rng):
    P = sparse_p(rng, "row")
    P = P + csr_array(np.diag(np.arange(N) % 3))
    indptr, columns, p_ij, p_ji = union_pattern(P, np.float64)
    dense = P.toarray()
    np.fill_diagonal(dense, 0)
    for values, expected in ((p_ij, dense), (p_ji, dense.T)):
        np.testing.assert_array_equal(
            csr_array((values, columns.astype(np.int32), indptr), P.shape).toarray(), expected
        )
    assert len(columns) == ((dense > 0) | (dense.T > 0)).sum()
    mean = union_pattern(P, np.float64, symmetric=True)
    assert mean[2] is mean[3]
    np.testing.assert_allclose(mean[2], (p_ij + p_ji) / 2)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_pattern_of_few_entries_has_the_bits_of_many(rng, symmetric, monkeypatch):
    P, order = sparse_p(rng, "row") + csr_array(np.diag(np.arange(N) % 3)), rng.permutation(N)
    few = union_pattern(P, np.float32, symmetric=symmetric, order=order)
    monkeypatch.setattr(pattern, "_FEW_ENTRIES", -1)
    for loop in ("scatter_rows", "merge_rows"):
        monkeypatch.setattr(pattern, loop, soonest(getattr(pattern, loop), 0))
    for one, other in zip(few, union_pattern(P, np.float32, symmetric=symmetric, order=order), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("divergence", "normalization"),
    with_slow([(KL(), "pair"), (NeRV(), "row")], slow=[(KL(), "row"), (NeRV(), "pair")]),
    ids=repr,
)
def test_another_order_of_the_rows_is_the_same_map(rng, divergence, normalization):
    Y, P = rng.normal(size=(N, 2)), sparse_p(rng, normalization)
    objective = NeighborObjective(P, StudentT(), divergence, normalization, ExactField(), dtype=float, n_jobs=1)
    G, cost = objective.evaluate(Y, cost=True)
    G, order = G.copy(), rng.permutation(N)
    assert objective.reorder(order)
    moved, same_cost = objective.evaluate(Y[order], cost=True)
    np.testing.assert_allclose(moved, G[order], rtol=1e-10, atol=1e-12 * np.abs(G).max())
    assert same_cost == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize(
    ("divergence", "kernel", "normalization"),
    with_slow(
        [(NeRV(0.3), StudentT(), "row"), (ReverseKL(0.05), StudentT(), "pair")],
        slow=product((NeRV(0.3), JensenShannon(0.4)), [Exponential(0.7)], ("row", "pair")),
    ),
    ids=repr,
)
def test_the_first_phases_minimise_kl_and_maybe_by_pair_under_another_kernel(rng, divergence, kernel, normalization):
    """Also in another order of the rows, and without formulas; the objective itself stays as it is."""
    Y, P = rng.normal(size=(N, 2)), sparse_p(rng, normalization)
    objective = NeighborObjective(P, kernel, divergence, normalization, ExactField(), dtype=float, n_jobs=1)
    own_cost = objective.evaluate(Y, cost=True)[1]
    counted = P if normalization == "row" else (P + P.T) / 2
    plain = AllPairs(counted, kernel, divergence, normalization)
    pairs = ((P + P.T) / (2 * P.sum())).toarray()
    order = rng.permutation(N)
    objective.reorder(order)
    for student, expected in (
        (None, value_and_gradient(Y, counted, kernel, KL(), normalization, exaggeration=4.0)),
        (HeavyTailed(1.0, 2.5), value_and_gradient(Y, pairs, HeavyTailed(1.0, 2.5), KL(), "pair", exaggeration=4.0)),
    ):
        G, cost = objective.early(student).evaluate(Y[order], 4.0, cost=True)
        assert cost == pytest.approx(expected[0], rel=1e-10)
        np.testing.assert_allclose(G, expected[1][order], rtol=1e-9, atol=1e-10 * np.abs(expected[1]).max())
        G, cost = plain.early(student).evaluate(Y, 4.0, cost=True)
        assert cost == pytest.approx(expected[0], rel=1e-10)
        np.testing.assert_allclose(G, expected[1], rtol=1e-9, atol=1e-10 * np.abs(expected[1]).max())
    assert objective.evaluate(Y[order], cost=True)[1] == pytest.approx(own_cost, rel=1e-12)


@pytest.mark.slow
def test_the_pattern_is_made_in_little_more_room_than_it_takes(rng, monkeypatch):
    """A million points are drawn on small machines; also the same in another order, for any number of threads."""
    for name, value in (("_AT_ONCE", 2**11), ("_LEAST_STRIP", 2**11), ("_ROWS", 64), ("_FEW_ENTRIES", 0)):
        monkeypatch.setattr(f"nearfar.maps.objective.{name}", value)
    n, k = 1000, 40
    distances = np.sort(rng.random((n, k)), axis=1)
    neighbors = (np.arange(n)[:, None] + np.argsort(rng.random((n, 3 * k)), axis=1)[:, :k] + 1) % n
    affinities = nf.Affinities(10, metric="precomputed", n_neighbors=k).fit((neighbors, distances))
    P = probabilities_of_map("test", affinities.relation_, "row")
    assert len(P.bounds) > 10
    order = rng.permutation(n)
    union_pattern(P, np.float32, order=order)  # compiled
    tracemalloc.start()
    made = union_pattern(P, np.float32, symmetric=True, order=order)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.8 * sum(values.nbytes for values in made[:3])
    expected = P.to_csr()[order][:, order].toarray()
    for n_jobs in (1, 3):
        indptr, columns, p_ij, p_ji = union_pattern(P, np.float32, order=order, n_jobs=n_jobs)
        for values, dense in ((p_ij, expected), (p_ji, expected.T)):
            np.testing.assert_array_equal(csr_array((values, columns.astype(np.int32), indptr)).toarray(), dense)
        original = order[columns]
        assert (np.diff(original)[np.diff(np.repeat(np.arange(n), np.diff(indptr))) == 0] > 0).all()
    np.testing.assert_array_equal(made[1], columns)
    np.testing.assert_array_equal(made[2], (p_ij + p_ji) / 2)
    taken_again(P, order, rng.permutation(n), symmetric=True)
    taken_again(P, order, rng.permutation(n), symmetric=False)


def taken_again(P, order, then, *, symmetric):
    """A pattern whose rows are put in order once more is the one that is made so, in its own room."""
    expected = union_pattern(P, np.float32, order=order[then], symmetric=symmetric)
    Pattern(*union_pattern(P, np.float32, order=order, symmetric=symmetric)).in_order(then, 2)  # compiled
    again = Pattern(*union_pattern(P, np.float32, order=order, symmetric=symmetric))
    tracemalloc.start()
    made = again.in_order(then, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * sum(values.nbytes for values in made[: 3 + (not symmetric)])
    for some, others in zip(made, expected, strict=True):
        np.testing.assert_array_equal(some, others)
    assert (made[3] is made[2]) == symmetric
