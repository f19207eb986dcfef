"""HSSNE that learns how heavy its kernel's tail is: the derivative in alpha, and whole maps."""

import pickle
import warnings

import numpy as np
import pytest
from master import value_and_gradient
from sklearn.base import clone
from sklearn.datasets import load_digits
from test_neighbor_objective import N, sparse_p

import nearfar as nf
from nearfar.divergences import KL
from nearfar.engines import on_threads
from nearfar.engines.plain import Plain
from nearfar.far import ExactField
from nearfar.kernels import HeavyTailed
from nearfar.maps.objective import ALPHA_LEAST, ALPHA_MOST, RowBlocks, TailObjective
from nearfar.methods.tails import slope_in_alpha

QUICK = {"perplexity": 15, "max_iter": 300, "early_exaggeration_iter": 100, "random_state": 0, "n_jobs": 1}


def objective(P, alpha, place, begins=0, dtype=float):
    where = {"dtype": dtype, "n_jobs": 1, "place": place}
    return TailObjective(RowBlocks(P), HeavyTailed(alpha), ExactField(), begins, **where)


@pytest.mark.parametrize("alpha", [0.2, 0.7, 1.0, 4.0])
@pytest.mark.parametrize("place", [Plain(), on_threads(2)], ids=["plain", "threads"])
@pytest.mark.usefixtures("few_compiled")
def test_slope_is_that_of_the_cost(rng, place, alpha):
    Y, P = 3 * rng.normal(size=(N, 2)), sparse_p(rng, "pair")
    P_both, h = (P + P.T) / 2, 1e-5
    below, above = (value_and_gradient(Y, P_both, HeavyTailed(alpha + by), KL(), "pair")[0] for by in (-h, h))
    learns = objective(P, alpha, place)
    slope = slope_in_alpha(place, learns.cost, learns.near(), learns.field, Y.copy())
    assert slope == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-8)


def test_alpha_walks_downhill_within_its_bounds(rng):
    Y, P = (3 * rng.normal(size=(N, 2))).astype(np.float32), sparse_p(rng, "pair")
    walks = objective(P, 0.5, Plain(), begins=20, dtype=np.float32)
    seen = []
    for iteration in range(600):
        walks.advance(Y, iteration)
        seen.append(walks.alpha)
    assert seen[:20] == [0.5] * 20
    assert seen[21] != 0.5
    assert ALPHA_LEAST <= min(seen) <= max(seen) <= ALPHA_MOST
    costs = [objective(P, alpha, Plain()).value(Y) for alpha in (seen[-1] * 0.9, seen[-1], seen[-1] * 1.1)]
    assert seen[-1] in (ALPHA_LEAST, ALPHA_MOST) or costs[1] == min(costs)


@pytest.fixture(scope="module")
def learned():
    X = load_digits().data[:120]
    return X, nf.HSSNE(alpha="learn", **QUICK).fit(X)


@pytest.mark.slow
def test_a_learned_tail_costs_less_than_those_beside_it(learned):
    X, est = learned
    for factor in (0.6, 1.0, 1.6):
        other = nf.HSSNE(alpha=est.alpha_ * factor, engine="threads", **QUICK).fit(X)
        assert other.alpha_ == est.alpha_ * factor
        assert est.cost_ < other.cost_ + (0.01 if factor == 1 else 0)
    assert est.cost_and_gradient(est.embedding_)[0] == pytest.approx(est.cost_, abs=1e-4)
    np.testing.assert_array_equal(clone(est).set_params(n_jobs=2).fit(X).embedding_, est.embedding_)


@pytest.mark.slow
def test_learned_tails_are_pickled_and_place_new_points(learned):
    X, est = learned
    again = pickle.loads(pickle.dumps(est))
    assert again.alpha_ == est.alpha_
    assert again.get_params()["alpha"] == "learn"
    placed = again.transform(X[:20])
    assert np.median(np.linalg.norm(placed - est.embedding_[:20], axis=1)) < 1
    before, alpha = est.embedding_.copy(), again.alpha_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that some rows may belong nowhere
        again.grow(X[:9] + 0.1)
    assert (again.alpha_, again.alpha) == (alpha, "learn")
    assert np.median(np.linalg.norm(again.embedding_[: len(X)] - before, axis=1)) < 1
    held = nf.HSSNE(alpha=alpha, **QUICK).fit(np.concatenate([X, X[:9] + 0.1]))
    assert again.cost_ == pytest.approx(held.cost_and_gradient(again.embedding_)[0], rel=1e-3)
    dense = clone(est).set_params(density_weight=1.0).fit(X)
    assert dense.density_correlation_ > est.density_correlation_ + 0.1
    assert dense.alpha_ != est.alpha_
