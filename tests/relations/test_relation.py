"""Relations against dense matrices: every operation must be what NumPy makes of the multiplied-out matrix."""

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nearfar as nf
from nearfar.errors import DataError
from nearfar.relations.operators import NearProduct, NearWalk, near_field


def random_matrix(n, m, rng, density=0.2, symmetric=False, weighted=True):
    A = (rng.random((n, m)) < density) * (rng.uniform(0.1, 3, (n, m)) if weighted else 1.0)
    A[0, m - 1] = A[n - 1, 0] = 1.0
    A = A.astype(np.float32).astype(np.float64)
    return np.maximum(A, A.T) if symmetric else A


def walk(A, steps):
    sums = A.sum(axis=1, keepdims=True)
    B = np.divide(A, sums, out=np.zeros_like(A), where=sums > 0)
    return sum(np.linalg.matrix_power(B, k) for k in range(1, steps + 1)) / steps


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("width", [1, 17, 33, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_any_width_agree_with_dense(width, dtype):
    rng = np.random.default_rng(width)
    A = random_matrix(37, 23, rng)
    rel = nf.Relation.from_matrix(A)
    X, Y = rng.normal(size=(23, width)).astype(dtype), rng.normal(size=(37, width)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert (rel @ X).dtype == dtype
    np.testing.assert_allclose(rel @ X, A @ X, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(rel.rmatmat(Y), A.T @ Y, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(rel @ X[:, 0], A @ X[:, 0], atol=tolerance, rtol=tolerance)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_random_walk_is_the_mean_of_powers(symmetric, weighted, steps):
    rng = np.random.default_rng(7)
    A = random_matrix(19, 19, rng, 0.15, symmetric, weighted)
    A[5], A[:, 5] = 0, 0
    rel = nf.Relation.from_matrix(A)
    assert rel.operator.symmetric == symmetric
    P, X = walk(A, steps), rng.normal(size=(19, 6)).astype(np.float32)
    w = rel.random_walk(steps)
    np.testing.assert_allclose(w.to_scipy().toarray(), P, atol=1e-6)
    np.testing.assert_allclose(w @ X, P @ X, atol=5e-6)
    np.testing.assert_allclose(w.rmatmat(X), P.T @ X, atol=5e-6)
    np.testing.assert_allclose(w.T @ X, P.T @ X, atol=5e-6)
    np.testing.assert_allclose(w.T.to_scipy().toarray(), P.T, atol=1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_near_field_is_both_products(symmetric, steps):
    rng = np.random.default_rng(3)
    A = random_matrix(300, 300, rng, 0.02, symmetric)
    operator = nf.Relation.from_matrix(A).random_walk(steps).operator
    P, X = walk(A, steps), rng.normal(size=(300, 5)).astype(np.float32)
    for both, expected in ((True, (P + P.T) @ X), (False, P @ X)):
        near = near_field(operator, "both" if both else "rows", n_jobs=1 + steps % 2)
        assert isinstance(near, NearWalk if symmetric or not both else NearProduct)
        for _ in range(2):  # buffers of the first sweep are used again
            pull = near.prepare(X)
            got = np.vstack([pull[lo : min(lo + 77, 300)] for lo in range(0, 300, 77)])
            np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.usefixtures("products")
def test_algebra_keeps_factors_and_agrees_with_dense():
    rng = np.random.default_rng(0)
    A, B, C = random_matrix(9, 14, rng), random_matrix(14, 11, rng), random_matrix(9, 11, rng)
    a, b, c = (nf.Relation.from_matrix(M) for M in (A, B, C))
    X, Y = rng.normal(size=(11, 3)), rng.normal(size=(9, 3))
    rel = 0.25 * (a @ b) + 2 * c + c
    dense = 0.25 * A @ B + 3 * C
    assert rel.nnz == a.nnz + b.nnz + 2 * c.nnz
    np.testing.assert_allclose(rel @ X, dense @ X, rtol=1e-6)
    np.testing.assert_allclose(rel.rmatmat(Y), dense.T @ Y, rtol=1e-6)
    np.testing.assert_allclose(rel.to_scipy().toarray(), dense, rtol=1e-6)
    np.testing.assert_allclose(rel.row_sums, dense.sum(1), rtol=1e-6)
    np.testing.assert_allclose(rel.column_sums, dense.sum(0), rtol=1e-6)
    normal = rel.normalized()
    np.testing.assert_allclose(normal @ X, (dense / dense.sum(1, keepdims=True)) @ X, rtol=1e-5)
    np.testing.assert_allclose(normal.rmatmat(Y), (dense / dense.sum(1, keepdims=True)).T @ Y, rtol=1e-5)
    np.testing.assert_allclose(normal.to_scipy().toarray(), dense / dense.sum(1, keepdims=True), rtol=1e-5)
    long = a @ b @ c.T @ a  # three intermediate blocks
    Z = rng.normal(size=(14, 4))
    np.testing.assert_allclose(long @ Z, A @ B @ C.T @ A @ Z, rtol=1e-5)
    np.testing.assert_allclose(long.rmatmat(Y), (A @ B @ C.T @ A).T @ Y, rtol=1e-5)
    square = nf.Relation.from_matrix(A).T @ nf.Relation.from_matrix(A)
    np.testing.assert_allclose(square.random_walk(3) @ Z, walk(A.T @ A, 3) @ Z, rtol=1e-4, atol=1e-6)


def test_normalizing_twice_changes_nothing():
    rel = nf.Relation.from_matrix(random_matrix(6, 6, np.random.default_rng(1), 0.4))
    np.testing.assert_array_equal(
        rel.normalized().normalized().to_scipy().toarray(), rel.normalized().to_scipy().toarray()
    )


def information(A, shift=0.0):
    chance = A.sum(axis=1)[:, None] * A.sum(axis=0) / A.sum()
    ratio = np.divide(A, chance, out=np.zeros_like(A), where=A > 0)
    return np.maximum(np.log(ratio, out=np.full_like(A, -np.inf), where=ratio > 0) - shift, 0)


@pytest.mark.parametrize("shift", [0.0, 0.3, -0.5])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["symmetric", "directed", "two kinds", "stored"])
def test_information_agrees_with_dense(kind, weighted, shift, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.relations.operators.PIECE", 50)
    rng = np.random.default_rng(0)
    n, m = 40, 25 if kind == "two kinds" else 40
    A = random_matrix(n, m, rng, symmetric=kind in ("symmetric", "stored"), weighted=weighted)
    A[7], A[:, 7] = 0, 0  # related to nothing
    rel = nf.Relation.from_matrix(A)
    if kind == "stored":
        rel.save(tmp_path / "rel")
        rel = nf.Relation.open(tmp_path / "rel")
    found = rel.ppmi(shift)
    expected = information(A, shift)
    np.testing.assert_allclose(found.to_scipy().toarray(), expected, rtol=2e-6, atol=1e-7)
    assert found.nnz == np.count_nonzero(expected > 1e-7)
    assert 7 in found.isolates if kind != "two kinds" else True
    assert found.is_square == (kind != "two kinds")
    assert (found.T is found) == (kind in ("symmetric", "stored"))
    np.testing.assert_array_equal(rel.T.ppmi(shift).to_scipy().toarray(), found.to_scipy().toarray().T)
    X = rng.normal(size=(m, 3))
    np.testing.assert_allclose(found @ X, expected @ X, rtol=1e-5, atol=1e-5)
    if kind == "symmetric":
        np.testing.assert_allclose(found.random_walk(2).to_scipy().toarray(), walk(expected, 2), atol=1e-6)
        found.save(tmp_path / "ppmi")
        assert (nf.Relation.open(tmp_path / "ppmi").to_scipy() != found.to_scipy()).nnz == 0


def test_information_of_counts_is_that_of_a_text():
    text = nf.Corpus([["a", "b", "c", "a"], ["b", "c", "d"], ["d", "a"]] * 3).encode(min_count=1)
    found = nf.Relation.from_corpus(text, window=2).ppmi(0.1)
    expected = nf.Relation.from_corpus(text, window=2, weighting="ppmi", shift=0.1)
    np.testing.assert_array_equal(found.to_scipy().toarray(), expected.to_scipy().toarray())
    assert found.row_ids == expected.row_ids


def test_hubs_that_meet_by_chance_alone_become_isolated():
    """Two hubs that meet each other, and each a crowd: what joins them is expected."""
    edges = [("hub", "other", 1.0), *(("hub", f"a{k}", 1.0) for k in range(30))]
    edges += [("other", f"b{k}", 1.0) for k in range(30)]
    rel = nf.Relation.from_edges(edges)
    found = rel.ppmi()
    assert "other" not in dict(found.neighbors("hub"))
    assert dict(found.neighbors("a0"))["hub"] == pytest.approx(np.log(122 / 31))
    vectors = nf.EDRep(4, random_state=0, n_jobs=1).fit(found.normalized()).vectors_
    assert vectors.ids == rel.row_ids
    assert vectors.similarity("a0", "a1") > vectors.similarity("a0", "b0")


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_the_number_of_workers_changes_no_bit(n_jobs):
    rng = np.random.default_rng(0)
    A = sp.random_array((9000, 9000), density=0.001, random_state=rng, format="csr", dtype=np.float32)
    rel = nf.Relation.from_matrix(A).random_walk(3)
    X = rng.normal(size=(9000, 7)).astype(np.float32)
    np.testing.assert_array_equal(rel.matmat(X, n_jobs=n_jobs), rel.matmat(X, n_jobs=1))
    np.testing.assert_array_equal(rel.rmatmat(X, n_jobs=n_jobs), rel.rmatmat(X, n_jobs=1))


edge_lists = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(0.125, 8, width=16)), min_size=1, max_size=60
)


@given(edge_lists, st.booleans(), st.booleans())
def test_edges_add_up_as_in_a_dense_matrix(edges, directed, self_loops):
    dense = np.zeros((13, 13))
    for u, v, w in edges:
        if u == v and not self_loops:
            continue
        dense[u, v] += w
        if not directed and u != v:
            dense[v, u] += w
    if not dense.any():
        with pytest.raises(DataError, match="at least one edge"):
            nf.Relation.from_edges(edges, directed=directed, self_loops=self_loops)
        return
    rel = nf.Relation.from_edges(edges, directed=directed, self_loops=self_loops)
    order = np.array(rel.row_ids.to_list())
    np.testing.assert_allclose(rel.to_scipy().toarray(), dense[np.ix_(order, order)], rtol=1e-6)
    csr = rel.to_scipy()
    assert csr.has_sorted_indices
    assert csr.has_canonical_format


def test_duplicates_without_weights_are_counted_and_hubs_sorted():
    star = [("hub", k) for k in range(100, 0, -1)]
    rel = nf.Relation.from_edges([*star, ("hub", 7), (7, "hub")])
    assert dict(rel.neighbors("hub"))[7] == 3.0
    assert rel.neighbors(7) == [("hub", 3.0)]
    assert nf.Relation.from_edges(star).operator.data is None  # all weights 1: none are stored


def test_unweighted_matrix_stores_no_weights_and_input_is_not_changed():
    A = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    before = A.copy()
    rel = nf.Relation.from_matrix(A, ids="abc")
    assert rel.operator.data is None
    assert rel.operator.symmetric
    assert rel.T is rel
    assert (before != A).nnz == 0
    assert A.dtype == before.dtype


def test_bipartite_edges_give_a_rectangular_relation():
    rel = nf.Relation.from_edges([("ann", "film", 5), ("bob", "film", 3), ("ann", "song", 1)], bipartite=True)
    assert rel.shape == (2, 2)
    assert not rel.is_square
    assert rel.column_ids.to_list() == ["film", "song"]
    np.testing.assert_array_equal(rel.to_scipy().toarray(), [[5, 1], [3, 0]])
    walk_on_users = (rel @ rel.T).random_walk(2)
    assert walk_on_users.row_ids.to_list() == ["ann", "bob"]


def test_isolates_and_sinks_are_counted():
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    graph.add_node("alone")
    rel = nf.Relation.from_edges(graph)
    assert [rel.row_ids[i] for i in rel.isolates] == ["alone"]
    assert [rel.row_ids[i] for i in rel.sinks] == ["c"]
    described = rel.describe()
    assert described["isolates"] == 1
    assert described["sinks"] == 1
    assert described["n_entries"] == 2
    assert nf.Relation.from_edges(nx.Graph(graph)).sinks.size == 0
    rectangular = nf.Relation.from_matrix(np.array([[1.0, 0, 2], [0, 0, 0]]))
    assert rectangular.isolates.tolist() == [1]
    assert rectangular.sinks.size == 0


def test_a_pickled_relation_runs_the_same_machine_code(monkeypatch):
    """Arrays from a pickle can be written to: for compiled code another type."""
    from nearfar.relations.kernels import product

    monkeypatch.setattr("nearfar.relations.kernels.FEW_ENTRIES", -1)
    weighted = nf.Relation.from_edges([(0, 1, 2.0), (1, 2, 0.5)], directed=True)
    near = nf.Affinities(1, n_neighbors=2).fit(np.arange(8.0).reshape(4, 2)).relation_
    near.operator.matmat(np.ones((4, 3), np.float32), n_jobs=1)  # worked out, and kept
    for rel in (weighted, weighted.T, weighted.random_walk(2), near):
        X = np.ones((rel.shape[1], 3), np.float32)
        found = rel.operator.matmat(X, n_jobs=1)
        compiled = set(product.signatures)
        assert compiled
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(rel)).operator.matmat(X, n_jobs=1), found)
        assert set(product.signatures) == compiled


def test_two_kinds_with_equal_ids_stay_two(tmp_path):
    edges = [(1, 1), (1, 2), (2, 1)]  # users 1 and 2, items 1 and 2
    rel = nf.Relation.from_edges(edges, bipartite=True)
    stored = nf.Relation.from_edges(edges, bipartite=True, storage=tmp_path / "stored")
    rel.save(tmp_path / "saved")
    again = [nf.Relation.open(tmp_path / name) for name in ("stored", "saved")]
    for two in (rel, stored, *again, pickle.loads(pickle.dumps(rel))):
        for made in (two, two.T, two.normalized(), 2.0 * two, two + two):
            assert not made.is_square
        assert (two @ two.T).is_square
        assert nf.EDRep(2, n_epochs=1, random_state=0).fit(two.normalized()).vectors_.context_ids.to_list() == [1, 2]
    one = nf.Relation.from_matrix(np.eye(2) + 1, ids=["a", "b"], column_ids=["a", "b"])
    one.save(tmp_path / "saved")
    assert one.is_square
    assert nf.Relation.open(tmp_path / "saved").is_square
