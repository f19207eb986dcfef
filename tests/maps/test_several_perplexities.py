"""Several perplexities and "multiscale": rows of probabilities, the maps, whom errors name."""

import warnings

import numpy as np
import pytest

import nearfar as nf
from nearfar.relations.affinities import ENTRIES, perplexities_of


def points(n=120, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(2, 0.5, d)


def dense(affinities):
    return affinities.relation_.to_scipy().toarray()


@pytest.mark.parametrize("perplexity", [[5, 30, 12.5], (7,), np.array([20.0, 3.0]), [10, 10]], ids=repr)
def test_rows_are_the_mean_of_those_of_each(perplexity):
    X = points()
    found = nf.Affinities(perplexity).fit(X)
    each = [nf.Affinities(float(one)).fit(X) for one in perplexity]
    np.testing.assert_allclose(dense(found), np.mean([dense(one) for one in each], axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(dense(found).sum(axis=1), 1, rtol=1e-5)
    assert found.perplexities_ == tuple(float(one) for one in perplexity)
    assert found.indices_.shape[1] == 3 * int(max(perplexity))
    if len(perplexity) > 1:
        for name in ("betas_", "intrinsic_dimension_"):
            np.testing.assert_array_equal(getattr(found, name), np.column_stack([getattr(one, name) for one in each]))
    else:
        np.testing.assert_array_equal(found.betas_, each[0].betas_)


def test_a_given_number_of_neighbours_is_that_of_all():
    X = points()
    for n_neighbors in (100, "all"):
        found = nf.Affinities([5, 30], n_neighbors=n_neighbors).fit(X)
        each = [nf.Affinities(one, n_neighbors=n_neighbors).fit(X) for one in (5, 30)]
        np.testing.assert_allclose(dense(found), np.mean([dense(one) for one in each], axis=0), rtol=1e-6, atol=1e-9)


def test_uniform_weights():
    X = points()
    found = nf.Affinities([4, 10], kernel="uniform").fit(X)
    expected = np.mean([dense(nf.Affinities(one, kernel="uniform").fit(X)) for one in (4, 10)], axis=0)
    np.testing.assert_allclose(dense(found), expected, rtol=1e-6)
    assert found.betas_ is found.intrinsic_dimension_ is None


def test_new_rows_get_all_of_them():
    X, new = points(), points(7, seed=1)
    found = nf.Affinities([5, 30]).fit(X)
    each = [nf.Affinities(one).fit(X).transform(new).toarray() for one in (5, 30)]
    np.testing.assert_allclose(found.transform(new).toarray(), np.mean(each, axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.transform(new[2:3]).toarray(), found.transform(new).toarray()[2:3])


@pytest.mark.parametrize(
    ("n", "expected"),
    [(4, (2,)), (30, (8, 4, 2)), (120, (32, 16, 8, 4, 2)), (1000, tuple(2.0**u for u in range(8, 0, -1)))],
)
def test_multiscale_is_powers_of_two(n, expected):
    assert perplexities_of("test", "multiscale", n) == expected


def test_multiscale_of_many_points_stays_affordable():
    for n, largest in ((8000, 2048), (70_000, 256), (1_000_000, 32), (50_000_000, 32)):
        found = perplexities_of("test", "multiscale", n)
        assert (found[0], found[-1]) == (largest, 2)
        assert 3 * found[0] * n <= ENTRIES or found[0] == 32


def test_multiscale_is_the_mean_over_its_scales_and_warns_of_nothing():
    X = points()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nf.Affinities("multiscale").fit(X)
    assert found.perplexities_ == (32, 16, 8, 4, 2)
    given = nf.Affinities([32, 16, 8, 4, 2]).fit(X)
    np.testing.assert_array_equal(dense(found), dense(given))
    for n in (4, 5, 9, 13):
        few = nf.Affinities("multiscale").fit(points(n))
        assert np.isfinite(dense(few)).all()


@pytest.mark.parametrize("perplexity", [[5, 30], "multiscale"], ids=repr)
def test_maps_take_them(perplexity):
    X = points()
    est = nf.TSNE(perplexity=perplexity, random_state=0, max_iter=10, early_exaggeration_iter=5).fit(X)
    np.testing.assert_array_equal(dense(est.affinities_), dense(nf.Affinities(perplexity).fit(X.astype(float))))
    assert est.transform(X[:3]).shape == (3, 2)
    assert est.get_params()["perplexity"] is perplexity
