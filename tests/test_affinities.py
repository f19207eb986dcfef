"""Perplexity against scikit-learn and closed forms; affinities of points: the relation, its joint, new points."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.manifold._utils import _binary_search_perplexity
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning, NotFittedError
from nearfar.relations.affinities import calibrate


def entropy(P):
    P = np.asarray(P, np.float64)
    return -np.sum(P * np.log(np.where(P > 0, P, 1.0)), axis=1)


def points(n=90, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# ---------------------------------------------------------------- perplexity


@pytest.mark.parametrize("perplexity", [2.0, 7.5, 30.0, 89.0])
def test_perplexity_is_that_of_scikit_learn(perplexity):
    R = np.random.default_rng(1).gamma(3.0, size=(120, 90)).astype(np.float32)
    found = calibrate(R, perplexity)
    reference = _binary_search_perplexity(R**2, perplexity, 0)
    np.testing.assert_allclose(found.weights, reference, atol=1e-5)  # scikit-learn stops at an entropy off by 1e-5
    np.testing.assert_allclose(entropy(found.weights), np.log(perplexity), rtol=1e-6)
    P = np.exp(-found.betas[:, None] * (R.astype(float) ** 2 - R.min(axis=1, keepdims=True).astype(float) ** 2))
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.weights, P, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(entropy(P), np.log(perplexity), rtol=1e-10)


def test_two_neighbours_in_closed_form():
    # p = 1 / (1 + exp(-beta (s - r))), whose entropy is ln(perplexity).
    p, r, s = 0.8, 1.5, 4.0
    perplexity = np.exp(-p * np.log(p) - (1 - p) * np.log(1 - p))
    found = calibrate(np.sqrt([[r, s], [s, r]]), perplexity)
    np.testing.assert_allclose(found.weights, [[p, 1 - p], [1 - p, p]], rtol=1e-6)
    np.testing.assert_allclose(found.betas, np.log(p / (1 - p)) / (s - r), rtol=1e-8)
    beta = found.betas[0]
    np.testing.assert_allclose(found.dimensions, 2 * beta**2 * p * (1 - p) * (s - r) ** 2, rtol=1e-8)


def test_dimension_is_minus_twice_the_slope_of_the_entropy():
    R = np.random.default_rng(2).gamma(3.0, size=(1, 40))
    found = calibrate(R, 12.0)

    def entropy_at(log_beta):
        P = np.exp(-np.exp(log_beta) * (R**2 - R.min() ** 2))
        return entropy(P / P.sum())[0]

    t, h = np.log(found.betas[0]), 1e-5
    slope = (entropy_at(t + h) - entropy_at(t - h)) / (2 * h)
    np.testing.assert_allclose(found.dimensions[0], -2 * slope, rtol=1e-7)


def test_dimension_of_uniform_data():
    # Inside of a cube: away from its walls the number of neighbours grows as r^d.
    X = np.random.default_rng(3).random((3000, 2))
    inner = np.all(np.abs(X - 0.5) < 0.25, axis=1)
    found = nf.Affinities(20, n_neighbors=150, method="exact").fit(X)
    np.testing.assert_allclose(found.intrinsic_dimension_[inner].mean(), 2, rtol=0.1)


@given(st.integers(1, 40), st.floats(-25, 25), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_any_distances_give_probabilities_of_the_perplexity(k, exponent, seed, share):
    rng = np.random.default_rng(seed)
    R = (10.0**exponent * rng.integers(0, 5, size=(3, k)) * rng.choice([1.0, 1e-4, 1.0 + 1e-7], size=(3, k))).astype(
        "f4"
    )
    perplexity = 1 + share * (k - 1)
    found = calibrate(R, perplexity)
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.betas).all()
    assert (found.betas >= 0).all()
    assert (found.dimensions >= 0).all()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    for r, p in zip(R, found.weights, strict=True):
        assert (np.diff(p[np.argsort(r, kind="stable")]) <= 1e-9).all()  # the nearer, the more
        ties = np.sum(r == r.min())
        wanted = max(np.log(perplexity), np.log(ties))
        np.testing.assert_allclose(entropy(p[None])[0], wanted, rtol=1e-4, atol=1e-5)


def test_scale_of_distances():
    R = np.random.default_rng(4).gamma(3.0, size=(5, 30))
    plain = calibrate(R, 8.0)
    for factor in (1e-140, 1e140):
        scaled = calibrate(R * factor, 8.0)
        np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-6)
        np.testing.assert_allclose(scaled.betas * factor**2, plain.betas, rtol=1e-6)
        np.testing.assert_allclose(scaled.dimensions, plain.dimensions, rtol=1e-6)


def test_ties():
    R = [[2.0, 2, 2, 2], [0, 0, 0, 0], [1, 1, 1, 5], [0, 0, 3, 0]]
    found = calibrate(R, 2.0)
    np.testing.assert_allclose(found.weights[:2], 0.25)
    np.testing.assert_allclose(found.weights[2:], np.array([[1, 1, 1, 0], [1, 1, 0, 1]]) / 3, rtol=1e-6)
    assert (found.betas[:2] == 0).all()
    assert (found.betas[2:] > 10).all()
    np.testing.assert_array_equal(calibrate(R, 4.0).betas, 0)  # the perplexity of uniform weights
    np.testing.assert_allclose(calibrate([[1.0, 2, 3]], 1.0).weights, [[1, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("distances", "perplexity", "message"),
    [
        ([[1.0, 2.0]], 3.0, r"in \[1.0, 2.0\]; got 3.0"),
        ([[1.0, 2.0]], 0.5, r"in \[1.0, 2.0\]; got 0.5"),
        ([[1.0, 2.0], [1.0, -2.0]], 2.0, "-2.0 in row 1"),
        ([[1.0, np.nan]], 2.0, r"NaN or infinity in 1 row\(s\), first \[0\]"),
        ([[]], 2.0, "one column at least"),
    ],
)
def test_bad_distances(distances, perplexity, message):
    with pytest.raises(InputError, match=message):
        calibrate(distances, perplexity)


# ---------------------------------------------------------------- affinities


def test_relation_of_all_pairs_is_the_dense_calibration():
    X = points()
    found = nf.Affinities(10, n_neighbors="all").fit(X)
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    P = np.exp(-found.betas_[:, None] * D)
    np.fill_diagonal(P, 0)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.relation_.to_scipy().toarray(), P, rtol=2e-4, atol=1e-9)
    np.testing.assert_allclose(entropy(P), np.log(10), rtol=1e-5)
    assert found.indices_.shape == (90, 89)
    assert found.n_features_in_ == 4


def test_neighbours_default_to_three_perplexities():
    X = points()
    found = nf.Affinities(10).fit(X)
    assert found.indices_.shape == found.distances_.shape == (90, 30)
    P = found.relation_.to_scipy()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert not P.diagonal().any()
    np.testing.assert_array_equal(np.sort(found.indices_[7]), P.indices[P.indptr[7] : P.indptr[8]])
    assert found.relation_.row_ids.is_range
    assert found.relation_.is_square


def test_uniform_kernel():
    found = nf.Affinities(6.4, kernel="uniform").fit(points())
    P = found.relation_.to_scipy()
    assert (np.diff(P.indptr) == 6).all()
    np.testing.assert_allclose(P.data, 1 / 6, rtol=1e-6)
    assert found.betas_ is None
    assert found.intrinsic_dimension_ is None
    assert nf.Affinities(kernel="uniform", n_neighbors=3).fit(points()).indices_.shape == (90, 3)
    assert nf.Affinities(kernel="uniform").fit(points(12)).indices_.shape == (12, 11)
    np.testing.assert_allclose(found.transform(points(3, seed=1)).sum(axis=1), 1, rtol=1e-6)


def test_joint_probabilities():
    found = nf.Affinities(10).fit(points())
    J = found.joint()
    dense, P = J.to_scipy().toarray(), found.relation_.to_scipy().toarray()
    np.testing.assert_allclose(dense, (P + P.T) / 180, rtol=1e-6)
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(), 1, rtol=1e-6)
    assert J.T is J
    assert J.row_ids == found.relation_.row_ids


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_transform_does_not_depend_on_the_rows_beside_it(metric):
    X, Q = points(200), points(40, seed=5)
    found = nf.Affinities(10, metric=metric).fit(X)
    together = found.transform(Q)
    assert together.shape == (40, 200)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(entropy(together.toarray()), np.log(10), rtol=1e-5)
    for i in (0, 17, 39):
        np.testing.assert_array_equal(found.transform(Q[[i]]).toarray(), together[[i]].toarray())
    np.testing.assert_array_equal(found.transform(Q[::-1]).toarray(), together.toarray()[::-1])


def test_transform_puts_a_fitted_point_on_itself():
    X = points()
    placed = nf.Affinities(5).fit(X).transform(X).toarray()
    np.testing.assert_array_equal(placed.argmax(axis=1), np.arange(90))


def test_thousands_of_copies():
    X = points(1500)
    X[200:1400] = X[3]
    found = nf.Affinities(10).fit(X)
    P = found.relation_.to_scipy()
    assert np.isfinite(P.data).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(P[[700]].data, 1 / 30, rtol=1e-6)  # 30 of the 1,199 copies, all alike
    assert np.isfinite(found.transform(X[:5]).data).all()
    alike = nf.Affinities(10).fit(np.ones((100, 2)))
    np.testing.assert_allclose(alike.relation_.to_scipy().data, 1 / 30, rtol=1e-6)


def test_precomputed_distances_and_graphs_give_the_same():
    X = points()
    direct = nf.Affinities(10).fit(X)
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    graph = kneighbors_graph(X, 30, mode="distance")
    for given_distances in (D, graph):
        found = nf.Affinities(10, metric="precomputed").fit(given_distances)
        np.testing.assert_allclose(
            found.relation_.to_scipy().toarray(), direct.relation_.to_scipy().toarray(), rtol=1e-4, atol=1e-9
        )
    with pytest.raises(DataError, match="a graph with 31 distances in each row at least; got 30 in row 0"):
        nf.Affinities(10, n_neighbors=31, metric="precomputed").fit(graph)


def test_sparse_rows():
    X = np.where(points() > 0.3, points(), 0.0)
    sparse, dense = nf.Affinities(8).fit(csr_array(X)), nf.Affinities(8).fit(X)
    np.testing.assert_allclose(sparse.distances_, dense.distances_, rtol=1e-4, atol=1e-6)


def test_manners_of_scikit_learn():
    X = points()
    affinities = nf.Affinities(perplexity=7, metric="cosine", random_state=3)
    assert clone(affinities).get_params() == affinities.get_params()
    assert repr(affinities) == "Affinities(perplexity=7, metric='cosine', random_state=3)"
    assert affinities.set_params(perplexity=9) is affinities
    assert affinities.fit(X, None) is affinities
    np.testing.assert_array_equal(affinities.fit_transform(X).toarray(), affinities.relation_.to_scipy().toarray())
    copy = pickle.loads(pickle.dumps(affinities))
    np.testing.assert_array_equal(copy.transform(X[:3]).toarray(), affinities.transform(X[:3]).toarray())
    pipeline = make_pipeline(StandardScaler(), nf.Affinities(5)).fit(X)
    assert pipeline.transform(X[:2]).shape == (2, 90)
    with pytest.raises(InputError, match="one of"):
        affinities.set_params(perplexities=9)


def test_the_same_for_any_number_of_workers():
    X = points(1500, 6)
    one, two = (nf.Affinities(20, method="inverted-lists", n_jobs=n, random_state=0).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.relation_.to_scipy().data, two.relation_.to_scipy().data)
    np.testing.assert_array_equal(one.indices_, two.indices_)
    np.testing.assert_array_equal(one.betas_, two.betas_)


def test_constant_columns_change_nothing():
    X = points()
    wide = np.insert(X, 1, 3.0, axis=1)
    np.testing.assert_array_equal(nf.Affinities(10).fit(X).distances_, nf.Affinities(10).fit(wide).distances_)


# ---------------------------------------------------------------- bad input


def test_a_perplexity_of_more_than_a_third_is_warned_of():
    X = points(31)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.Affinities(10).fit(X)
    with pytest.warns(NearfarWarning, match="perplexity 10.1 is more than a third of the 30 other points"):
        found = nf.Affinities(10.1).fit(X)
    assert found.indices_.shape == (31, 30)


NAN = points(40)
NAN[[3, 30], 1] = np.nan


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, points(20), "perplexity must be below 19, .* got 30.0. With 20 points take a perplexity of at most 6.33"),
        ({}, points(3), "perplexity must be below 2, .* got 30.0. So few points have no neighbourhoods to speak of"),
        ({"perplexity": 0.5}, points(20), "perplexity must be a finite number >= 1"),
        ({"perplexity": "30"}, points(20), "perplexity must be a finite number >= 1"),
        ({"perplexity": 5, "n_neighbors": 20}, points(20), "n_neighbors must be at most 19"),
        ({"perplexity": 5, "n_neighbors": 4}, points(20), "n_neighbors must be at least the perplexity, 5; got 4"),
        ({"perplexity": 5, "n_neighbors": 0}, points(20), "n_neighbors must be an integer >= 1"),
        ({"perplexity": 5, "n_neighbors": "most"}, points(20), "n_neighbors must be an integer >= 1"),
        ({"perplexity": 5, "kernel": "step"}, points(20), "kernel must be one of 'gaussian', 'uniform'"),
        ({"perplexity": 5}, NAN, r"Affinities: X must be finite; .* 2 row\(s\), first \[3, 30\]"),
        ({"perplexity": 5}, points(1), "two rows at least"),
        ({"perplexity": 5, "metric": "precomputed"}, points(20), "a square matrix of distances"),
        ({"perplexity": 5, "n_jobs": 0}, points(20), "n_jobs"),
    ],
)
def test_bad_input_is_named(options, X, message):
    with pytest.raises(InputError, match=message):
        nf.Affinities(**options).fit(X)


def test_unfitted():
    for ask in (lambda: nf.Affinities().transform(points()), lambda: nf.Affinities().joint()):
        with pytest.raises(NotFittedError, match="Call fit first"):
            ask()


@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn():
    reasons = {
        "check_dtype_object": "an InputError is a ValueError, not a TypeError",
        "check_transformer_data_not_an_array": "fit_transform gives the neighbours among the others, a sparse matrix",
        "check_transformer_general": "a fitted row that is given again to transform finds itself, in a fit it does not",
        "check_transformer_preserve_dtypes": "probabilities are kept in float32",
    }
    check_estimator(nf.Affinities(3), expected_failed_checks=reasons)
