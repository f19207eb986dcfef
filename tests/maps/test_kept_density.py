"""The density of the data kept in a map: local radii, the gradient of their correlation, and whole maps."""

import pickle

import numpy as np
import pytest
from comparisons import assert_is_gradient
from quick import with_slow
from sklearn.base import clone

import nearfar as nf
from nearfar.engines import on_threads
from nearfar.engines.plain import Plain
from nearfar.engines.threads import Threads
from nearfar.far.fields import ExactField
from nearfar.kernels import StudentT
from nearfar.maps.objective import NeighborObjective, probabilities_of_map
from nearfar.maps.terms import KeptDensity, correlation_of, log_of, radii_of_data, radii_of_map
from nearfar.methods.density import FLOOR, SHIFT, correlation

pytestmark = pytest.mark.usefixtures("few_compiled")

QUICK = {"perplexity": 8, "max_iter": 200, "early_exaggeration_iter": 60, "random_state": 0, "n_jobs": 1}


def groups(n=40, seed=0):
    """Three groups, each three times as wide as the one before."""
    rng = np.random.default_rng(seed)
    at = np.repeat(np.arange(3), n)
    return rng.normal(size=(3 * n, 5)) * 3.0 ** at[:, None] + 60 * np.eye(3, 5)[at]


def twin(p, d2):
    """Return the local radii of weights in plain NumPy."""
    return (p * d2).sum(axis=1) / p.sum(axis=1)


def in_map(p, Y):
    """Return those of a map."""
    f = all_squares(Y)
    return twin((p > 0) / np.sqrt(1 + f), f)


def all_squares(X):
    return ((X[:, None] - X) ** 2).sum(axis=2)


def kept(X, Y, normalization="pair", place=None, weight=0.7):
    """Return an objective that keeps densities, and p as it counts there."""
    P = probabilities_of_map("test", nf.Affinities(5).fit(X).relation_, normalization)
    of_map = NeighborObjective(
        P, StudentT(), nf.divergences.KL(), normalization, ExactField(), dtype=Y.dtype, n_jobs=2, place=on_threads(2)
    )
    found = KeptDensity(of_map, place or Plain(), P, log_of(radii_of_data(P)), weight, 0, 2, counts=True)
    p = P.to_csr().toarray()
    return found, (p + p.T) / 2


def test_local_radii_are_mean_squares_of_distances():
    X, Y = groups(20), np.random.default_rng(1).normal(size=(60, 2))
    P = probabilities_of_map("test", nf.Affinities(5).fit(X).relation_, "pair")
    p = P.to_csr().toarray()
    np.testing.assert_allclose(radii_of_data(P), twin(p + p.T, all_squares(X)), rtol=1e-5)
    np.testing.assert_allclose(radii_of_map(P, Y), in_map(p + p.T, Y), rtol=1e-6)
    logs = np.log(twin(p + p.T, all_squares(X))), np.log(in_map(p + p.T, Y))
    assert correlation_of(P, Y) == pytest.approx(np.corrcoef(*logs)[0, 1], abs=1e-4)


@pytest.mark.parametrize("normalization", with_slow(["pair"], slow=["row"]))
@pytest.mark.parametrize("place", [Plain(), Threads(2)], ids=["plain", "threads"])
def test_gradient_is_that_of_the_correlation(place, normalization):
    X, Y = groups(12), np.random.default_rng(2).normal(size=(36, 2))
    objective, p = kept(X, Y, normalization, place)
    o = log_of(radii_of_data(objective.P))

    def rho(Y):
        e = np.log(in_map(p, Y) + FLOOR)
        return (o * (e - e.mean())).mean() / np.sqrt(e.var() + SHIFT)

    gradient, cost = objective.evaluate(Y.copy(), cost=True)
    assert correlation(place, objective.wanted, Y) == pytest.approx(rho(Y), abs=1e-6)
    assert_is_gradient(gradient, lambda at: objective.value(at) - 0.7 * rho(at), Y, 1e-5)
    assert cost == pytest.approx(objective.value(Y))  # of the map alone
    before, objective.counts = gradient.copy(), False
    assert not np.allclose(objective.evaluate(Y.copy())[0], before)


def test_rows_may_be_in_another_order():
    X, Y = groups(12), np.random.default_rng(2).normal(size=(36, 2))
    objective, _ = kept(X, Y, place=Threads(2))
    wanted, order = objective.evaluate(Y.copy())[0].copy(), np.random.default_rng(3).permutation(36)
    for some in (order, order[::-1].copy()):
        assert objective.reorder(some)
        Y, wanted = Y[some], wanted[some]
        np.testing.assert_allclose(objective.evaluate(Y.copy())[0], wanted, atol=1e-9)


@pytest.mark.parametrize(
    "recipe", with_slow([nf.TSNE], slow=[nf.JSE, nf.UMAP, nf.InhomogeneousTSNE]), ids=lambda recipe: recipe.__name__
)
def test_a_map_keeps_densities(recipe):
    X, seen = groups(25), {}

    def look(weight):
        return [lambda progress: seen.setdefault((weight, progress.epoch), progress.state.X.copy()) is None]

    without, dense = (recipe(density_weight=w, callbacks=look(w), **QUICK).fit(X) for w in (0, 1.0))
    assert dense.density_correlation_ > max(without.density_correlation_ + 0.1, 0.85)
    for t in (50, 100):  # the last 30 % of 200 iterations alone
        np.testing.assert_array_equal(seen[0, t], seen[1.0, t])
    assert not np.array_equal(seen[0, 150], seen[1.0, 150])
    assert dense.n_iter_ == 200


@pytest.mark.slow
def test_engines_workers_and_affinities_give_the_same():
    X = groups(32)
    make = nf.TSNE(density_weight=0.5, far="exact", **{**QUICK, "max_iter": 60, "early_exaggeration_iter": 20})
    one, rho = make.fit_transform(X), make.density_correlation_
    np.testing.assert_array_equal(clone(make).set_params(n_jobs=2).fit_transform(X), one)
    affinities = nf.Affinities(8, random_state=0).fit(X)
    make.set_params(init=one)
    again = make.fit_transform(X)
    for data in (affinities, affinities.relation_):
        make.set_params(perplexity=30.0)
        np.testing.assert_array_equal(make.fit_transform(data), again)
        assert make.density_correlation_ == pytest.approx(rho, abs=0.1)
    plain = clone(make).set_params(engine="plain", max_iter=30, early_exaggeration_iter=5, init=one).fit(X)
    threads = clone(plain).set_params(engine="threads").fit(X)
    np.testing.assert_allclose(plain.embedding_, threads.embedding_, atol=1e-3)


@pytest.mark.slow
def test_copies_ids_precision_pickles_and_new_points():
    X = groups()
    start = np.random.default_rng(0).normal(size=(123, 2))
    twice = nf.Embedding(np.concatenate([X, X[:3]]), [f"a{i}" for i in range(123)])
    est = nf.TSNE(density_weight=0.5, init=start, **QUICK).fit(twice)
    assert est.embedding_.dtype == np.float64
    np.testing.assert_array_equal(est.embedding_[:3], est.embedding_[120:])
    again = pickle.loads(pickle.dumps(est))
    assert again.density_correlation_ == est.density_correlation_ > 0.5
    assert again.get_params()["density_weight"] == 0.5
    placed = est.transform(X[:5])
    again.density_weight = 0.0
    np.testing.assert_array_equal(again.transform(X[:5]), placed)
    grown = est.grow(nf.Embedding(X[:4] + 0.1, ["b", "c", "d", "e"]))
    assert len(grown.embedding_) == 127
    assert grown.density_correlation_ > 0.5


def test_points_without_neighbours_have_no_radius():
    X = np.zeros((40, 41))
    X[:39, 0], X[:39, 1:] = 1, np.random.default_rng(0).exponential(size=(39, 40)) * np.linspace(0.1, 2, 39)[:, None]
    X[39, :] = 0
    X[39, 40], X[:39, 40] = 1, 0
    with pytest.warns(nf.errors.NearfarWarning, match="greatest distance"):
        affinities = nf.Affinities(5, metric="cosine").fit(X)
    P = probabilities_of_map("test", affinities.relation_, "pair")
    assert np.isnan(radii_of_data(P)[39])
    make = nf.TSNE(**{**QUICK, "perplexity": 5})
    without = make.fit(affinities).density_correlation_
    est = make.set_params(density_weight=1.0).fit(affinities)
    assert np.isfinite(est.embedding_).all()
    assert est.density_correlation_ > without
    assert log_of(np.full(5, np.nan)).tolist() == [0] * 5
    assert log_of(np.full(5, 2.0)).tolist() == [0] * 5


def test_rows_of_probability_are_read_in_blocks():
    affinities = nf.Affinities(8).fit(groups())
    P = probabilities_of_map("test", affinities.relation_, "pair")
    whole = radii_of_data(P)
    P.bounds = np.array([0, 50, 51, 120])
    np.testing.assert_allclose(radii_of_data(P), whole)
