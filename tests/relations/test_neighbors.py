"""Nearest neighbours against a direct search in float64: ties, copies, precision, lists, metrics, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from quick import with_slow
from scipy.sparse import csr_array, random_array

from nearfar._core.jit import soonest
from nearfar._core.lanes import at_most, load
from nearfar.relations.neighbors import nearest_neighbors, neighbor_index
from nearfar.search import lists as _inverted_lists
from nearfar.search.kernels import kth_smallest, sort_pairs
from nearfar.search.lists import VectorIndex


def direct(X, k, Q=None):
    """The k nearest by float64 differences; the row itself left out, ties by index."""
    A = np.asarray(X, np.float64)
    B = A if Q is None else np.asarray(Q, np.float64)
    D = np.sqrt(((B[:, None] - A[None]) ** 2).sum(axis=2))
    if Q is None:
        np.fill_diagonal(D, np.inf)
    indices = np.argsort(D, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(D, indices, 1)


def clustered(n, d, rng, spread=0.05, n_centers=7):
    return (rng.normal(size=(n_centers, d)) * 3)[rng.integers(n_centers, size=n)] + spread * rng.normal(size=(n, d))


def make_index(X, **options):
    given_options = {"metric": "euclidean", "method": "exact", "n_jobs": 1, "random_state": 0, **options}
    return neighbor_index("test", X, **given_options)


@pytest.fixture(params=["NumPy", "compiled"])
def either(request, monkeypatch):
    """Few rows are searched in NumPy: search them by compiled code, too."""
    if request.param == "compiled":
        monkeypatch.setattr(_inverted_lists, "FEW", 0)
        monkeypatch.setattr(_inverted_lists, "FEW_STEPS", 0)


@pytest.fixture
def small_lists(monkeypatch):
    """Inverted lists from 50 rows on."""
    monkeypatch.setattr(_inverted_lists, "FLAT", 50)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("n", "d", "k"), [(2, 1, 1), (17, 3, 16), (40, 1, 7), (300, 19, 25), (150, 70, 149)])
def test_exact_search_is_the_direct_one(n, d, k, dtype):
    X = np.random.default_rng(n).normal(size=(n, d))
    X = (np.round(16 * X) / 16).astype(dtype)  # sums of squares are exact in float32 too
    found = nearest_neighbors(X, k, method="exact")
    indices, distances = direct(X, k)
    assert found.indices.dtype == np.int32
    assert found.distances.dtype == np.float32
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=3e-6)


@pytest.mark.parametrize("flat", [True, False])
def test_lists_searched_whole_are_exact(flat, monkeypatch):
    monkeypatch.setattr(_inverted_lists, "FEW_STEPS", 0)
    monkeypatch.setattr(_inverted_lists, "FLAT", 10**9 if flat else 50)
    rng = np.random.default_rng(4)
    X = np.concatenate([clustered(400, 6, rng), rng.normal(size=(100, 6))]).astype(np.float32)
    found = nearest_neighbors(X, 30, method="exact", random_state=1)
    indices, distances = direct(X, 30)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)


@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_ties_go_to_the_first_row(n, d, levels, seed):
    X = np.random.default_rng(seed).integers(levels, size=(n, d)).astype(np.float32)  # many copies, many ties
    k = 1 + seed % (n - 1)
    indices, distances = direct(X, k)
    for steps in (_inverted_lists.FEW_STEPS, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_inverted_lists, "FEW", 0)
            patch.setattr(_inverted_lists, "FEW_STEPS", steps)
            found = nearest_neighbors(X, k, method="exact")
        np.testing.assert_array_equal(found.indices, indices)
        np.testing.assert_allclose(found.distances, distances, rtol=1e-6)


def test_many_copies(small_lists):
    k = 40
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8)).astype(np.float32)
    X[rng.permutation(600)[:450]] = X[7]
    found = nearest_neighbors(X, k, method="exact", random_state=0)
    indices, distances = direct(X, k)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)
    all_alike = nearest_neighbors(np.full((150, 3), 2.5, np.float32), k)
    np.testing.assert_array_equal(all_alike.indices, direct(np.zeros((150, 1)), k)[0])
    assert not all_alike.distances.any()


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("dtype", with_slow([np.float32], slow=[np.float64]))
def test_near_copies_far_from_the_origin_are_told_apart(dtype):
    # Distances of 1e-3 in numbers of 1e3 (float32) or 1e7 (float64): gone in a product, not in a difference.
    rng = np.random.default_rng(2)
    step, offset = (2.0**-10, 1e3) if dtype == np.float32 else (2.0**-20, 1e7)
    X = (offset + step * rng.integers(-50, 50, size=(200, 5))).astype(dtype)
    X[:5] -= offset  # and a few rows that are far away
    found = nearest_neighbors(X, 10, method="exact")
    indices, distances = direct(X, 10)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)
    np.testing.assert_array_equal(found.indices, indices)


@pytest.mark.parametrize("factor", [1e-25, 1e25])
def test_scale_does_not_matter(factor):
    X = np.random.default_rng(3).normal(size=(80, 4))
    plain = nearest_neighbors(X.astype(np.float32), 9)
    scaled = nearest_neighbors((X * factor).astype(np.float32), 9)
    np.testing.assert_array_equal(plain.indices, scaled.indices)
    np.testing.assert_allclose(scaled.distances, plain.distances * factor, rtol=1e-5)


def test_constant_columns_and_translation_change_nothing():
    X = np.random.default_rng(5).integers(-8, 8, size=(90, 4)).astype(np.float64)
    plain = nearest_neighbors(X, 12)
    wide = np.insert(X, 2, 5e3, axis=1) + 1024.0
    np.testing.assert_array_equal(nearest_neighbors(wide, 12).indices, plain.indices)
    np.testing.assert_array_equal(nearest_neighbors(wide, 12).distances, plain.distances)


# ---------------------------------------------------------------- inverted lists


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(8)
    return np.concatenate([clustered(2500, 12, rng, 1.0), rng.normal(size=(500, 12))]).astype(np.float32)


def recall(found, true):
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, true, strict=True)])


def test_inverted_lists_find_nearly_all(cloud, small_lists):
    true = nearest_neighbors(cloud, 20, method="exact")
    found = nearest_neighbors(cloud, 20, method="inverted-lists", random_state=3)
    assert recall(found.indices, true.indices) > 0.98
    assert recall(found.indices, true.indices) < 1.0  # not all lists are looked at
    same = (found.indices == true.indices).all(axis=1)
    np.testing.assert_array_equal(found.distances[same], true.distances[same])
    assert (found.indices != np.arange(len(cloud))[:, None]).all()


@pytest.mark.slow
def test_probes_fall_with_the_recall_that_is_asked_for(cloud, small_lists):
    def needed(recall):
        rng = np.random.default_rng(0)
        index = VectorIndex("test", cloud, cosine=False, recall=recall, rng=rng, n_jobs=1)
        index.neighbors(20)
        return index.n_probes[20]

    assert 1 <= needed(0.5) < needed(0.99) <= needed(1.0) <= 110


def test_results_depend_on_the_seed_alone(cloud, small_lists):
    one = nearest_neighbors(cloud, 15, method="inverted-lists", random_state=3, n_jobs=1)
    more = nearest_neighbors(cloud, 15, method="inverted-lists", random_state=3, n_jobs=3)
    np.testing.assert_array_equal(one.indices, more.indices)
    np.testing.assert_array_equal(one.distances, more.distances)


def test_more_neighbours_than_the_probed_lists_hold(small_lists):
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(300, 2)), 50 + 0.01 * rng.normal(size=(6, 2))]).astype(np.float32)
    index = VectorIndex("test", X, cosine=False, recall=0.01, rng=rng, n_jobs=1)
    indices, distances = index.neighbors(20)
    assert index.n_probes[20] == 1
    assert (indices >= 0).all()
    assert np.isfinite(distances).all()
    np.testing.assert_array_equal(indices[-6:], direct(X, 20)[0][-6:])


@pytest.mark.parametrize("method", ["exact", "inverted-lists"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_query_does_not_depend_on_the_rows_beside_it(cloud, method, metric, small_lists):
    index = make_index(cloud, method=method, metric=metric)
    Q = cloud[::37] + np.float32(0.1)
    together = index.query(Q, 20)
    for chosen in ([3], [60, 5, 17], list(range(40, 0, -1))):
        apart = index.query(Q[chosen], 20)
        np.testing.assert_array_equal(apart.indices, together.indices[chosen])
        np.testing.assert_array_equal(apart.distances, together.distances[chosen])
    if method == "exact" and metric == "euclidean":
        indices, distances = direct(cloud, 20, Q)
        np.testing.assert_array_equal(together.indices, indices)
        np.testing.assert_allclose(together.distances, distances, rtol=1e-5)


def test_a_fitted_row_finds_itself():
    X = np.random.default_rng(2).normal(size=(50, 3))
    found = make_index(X).query(X, 4)
    np.testing.assert_array_equal(found.indices[:, 0], np.arange(50))
    assert not found.distances[:, 0].any()


@pytest.mark.slow
@pytest.mark.parametrize("distance", [1e3, 1e9, 1e14])
def test_queries_from_far_away(distance, small_lists):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    Q = np.array([[1.0, 0, 0], [0, -1, 0]]) * distance
    for method in ("exact", "inverted-lists"):
        found = make_index(X, method=method).query(Q, 5)
        assert (np.sort(found.indices, axis=1) >= 0).all()
        np.testing.assert_allclose(found.distances, distance, rtol=5 / min(distance, 1e6))
    np.testing.assert_array_equal(make_index(X).query(Q[:, :], 5).indices, direct(X, 5, Q)[0])


# ---------------------------------------------------------------- other metrics


def test_cosine_is_one_minus_the_cosine():
    X = np.random.default_rng(9).normal(size=(120, 6)) * np.logspace(-100, 100, 120)[:, None]
    found = nearest_neighbors(X, 8, metric="cosine")
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    D = 1.0 - U @ U.T
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(D, axis=1)[:, :8])
    np.testing.assert_allclose(found.distances, np.sort(D, axis=1)[:, :8], rtol=1e-5)


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", lambda a, b: float(np.abs(a - b).sum())])
def test_any_metric_of_scikit_learn(metric):
    X = np.random.default_rng(10).normal(size=(70, 3))
    D = np.abs(X[:, None] - X[None])
    D = D.max(axis=2) if metric == "chebyshev" else D.sum(axis=2)
    np.fill_diagonal(D, np.inf)
    found = nearest_neighbors(X, 6, metric=metric, n_jobs=1)
    np.testing.assert_array_equal(found.indices, np.argsort(D, axis=1)[:, :6])
    np.testing.assert_allclose(found.distances, np.sort(D, axis=1)[:, :6], rtol=1e-5)
    index = make_index(X, metric=metric)
    np.testing.assert_array_equal(index.query(X[5:6] + 1e-3, 3).indices, index.query(X + 1e-3, 3).indices[5:6])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_rows(metric):
    X = random_array((90, 40), density=0.2, random_state=np.random.default_rng(11), format="csr")
    sparse, dense = nearest_neighbors(X, 5, metric=metric), nearest_neighbors(X.toarray(), 5, metric=metric)
    np.testing.assert_array_equal(sparse.indices, dense.indices)
    np.testing.assert_allclose(sparse.distances, dense.distances, rtol=1e-4)
    found = make_index(X, metric=metric).query(X[3:5], 2)
    np.testing.assert_array_equal(found.indices[:, 0], [3, 4])


def test_precomputed_distances_and_graphs():
    from sklearn.neighbors import kneighbors_graph

    X = np.random.default_rng(12).normal(size=(60, 4))
    wanted = nearest_neighbors(X, 7)
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    graph = kneighbors_graph(X, 9, mode="distance")
    with_self = csr_array(kneighbors_graph(X, 9, mode="distance", include_self=True))
    for given_distances in (D, D.astype(np.float32), graph, with_self):
        before = given_distances.copy()
        found = nearest_neighbors(given_distances, 7, metric="precomputed")
        np.testing.assert_array_equal(found.indices, wanted.indices)
        np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-5)
        assert (given_distances != before).sum() == 0
    Q = X[:3] + 0.2
    new = np.sqrt(((Q[:, None] - X[None]) ** 2).sum(axis=2))
    found, wanted = make_index(D, metric="precomputed").query(new, 7), make_index(X).query(Q, 7)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(
        make_index(graph, metric="precomputed").query(csr_array(new), 7).indices, found.indices
    )


def test_ties_of_precomputed_distances_go_to_the_first_row():
    D = np.random.default_rng(13).integers(1, 4, size=(700, 700)).astype(np.float64)
    D = np.maximum(D, D.T)
    np.fill_diagonal(D, 0)
    found = nearest_neighbors(D, 9, metric="precomputed")
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(D, axis=1, kind="stable")[:, :9])


# ---------------------------------------------------------------- the small kernels


@njit
def lanes_at_most(array, limit):
    return at_most(load(array, 0, 16), limit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_at_most(dtype):
    array = np.arange(16, dtype=dtype)[::-1].copy()
    array[[3, 9]] = np.nan, -np.inf
    for limit in (-1.0, 4.0, np.inf):
        wanted = sum(1 << lane for lane in range(16) if array[lane] <= limit)
        assert lanes_at_most(array, dtype(limit)) == wanted


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.data())
def test_selection_and_sort(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    values = np.array(numbers, np.float32)
    assert soonest(kth_smallest, 0)(values.copy(), len(values), k) == np.sort(values)[k - 1]
    ids = np.random.default_rng(0).permutation(len(values)).astype(np.int32)
    order = np.lexsort((ids, values))
    wanted = values[order], ids[order]
    soonest(sort_pairs, 0)(values, ids, len(values))
    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(ids, wanted[1])


@pytest.mark.slow
def test_threads_find_the_same_by_a_metric_whose_distances_share_a_buffer():
    X = np.random.default_rng(4).normal(size=(1000, 4))
    index = make_index(X, metric="mahalanobis", metric_params={"VI": np.diag([4.0, 1, 1, 1])}, n_jobs=2)
    expected = direct(X * [2.0, 1, 1, 1], 5)[0]
    for _ in range(4):  # it did not go wrong each time
        np.testing.assert_array_equal(index.neighbors(5).indices, expected)
