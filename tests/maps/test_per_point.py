"""Maps by row whose kernel has a parameter for each point: the compiled sums against the master equation, the maps."""

import numpy as np
import pytest
from master import value_and_gradient
from quick import by_python
from sklearn.base import clone
from test_neighbor_objective import DIVERGENCES, N
from test_neighbor_objective import sparse_p as any_p

import nearfar as nf
from nearfar.divergences import KL, NeRV
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, rise
from nearfar.maps.per_point import PerPointObjective, check_points
from nearfar.methods.maps import slopes_in_nu

slow = pytest.mark.slow


def by_row(rng, n=N):
    """Return P as a fit has it: the types of its places, too, are what a loop is compiled for."""
    P = any_p(rng, "row", n)
    P.indptr, P.indices = P.indptr.astype(np.int64), P.indices.astype(np.int64)
    return P


def kernels(rng, n=N):
    return {
        "exponential": Exponential(np.exp(rng.uniform(-1.2, 1.2, n))),
        "student": InhomogeneousStudentT(np.exp(rng.uniform(-0.7, 4.0, n))),
        "heavy": HeavyTailed(0.4, np.exp(rng.uniform(-1.2, 1.2, n))),
    }


# Reverse KL is NeRV at its end, and Jensen-Shannon has no fixed part either: what the loops do is in the others. Each
# divergence, kernel and type is compiled anew.
PAIRS = [(divergence, "student") for divergence in ("kl", "nerv at its ends", "nerv", "js", "js at 1", "reverse")]
PAIRS += [("nerv", kernel) for kernel in ("heavy", "exponential")]


@slow
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("dtype", "near"), [(float, 1e-10), (np.float32, 1e-4)])
@pytest.mark.parametrize(("divergence", "name"), PAIRS)
def test_the_objective_is_the_master_equation(rng, divergence, name, dtype, near, d):
    check_the_objective(rng, 1030, DIVERGENCES[divergence], name, dtype, near, d)  # more than a chunk, and than a block


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("divergence", ["kl", "nerv"])
def test_the_objective_by_python_is_the_master_equation(rng, divergence):
    check_the_objective(rng, 30, DIVERGENCES[divergence], "student", float, 1e-10, 2)


def check_the_objective(rng, n, divergence, name, dtype, near, d):
    Y, P, kernel = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d), by_row(rng, n), kernels(rng, n)[name]
    objective = PerPointObjective(P, kernel, divergence, dtype=dtype, n_jobs=2)
    for exaggeration in (1.0, 4.0) if isinstance(divergence, KL) else (1.0,):
        cost, G = value_and_gradient(Y, P, kernel, divergence, "row", exaggeration=exaggeration)
        found, found_cost = objective.evaluate(Y.astype(dtype), exaggeration, cost=True)
        assert found_cost == pytest.approx(cost, rel=near / 10)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, G, rtol=near, atol=near * np.abs(G).max())
    assert objective.evaluate(Y.astype(dtype))[1] is None
    early = PerPointObjective(P, kernel, divergence, dtype=dtype, n_jobs=1).early().evaluate(Y.astype(dtype), 2.0)[0]
    G = value_and_gradient(Y, P, kernel, KL(), "row", exaggeration=2.0)[1]
    np.testing.assert_allclose(early, G, rtol=near, atol=near * np.abs(G).max())


def learning(P, kernel, dtype=float, n_jobs=1):
    objective = PerPointObjective(P, kernel, KL(), dtype=dtype, n_jobs=n_jobs)
    objective.learns = True
    return objective


@pytest.fixture
def in_python(monkeypatch):
    """Have the loops run by Python: for few points of float64 none is compiled."""
    monkeypatch.setattr("nearfar.maps.per_point.bind", by_python)


@pytest.mark.usefixtures("in_python")
def test_slopes_in_nu_are_central_differences_and_the_closed_form(rng):
    """Half the sum over j of [ln(1 + f/nu) - f (nu + 1) / (nu² (1 + f/nu))] (p - q), as the paper has it."""
    Y, P, nu = rng.normal(size=(N, 2)) * 2, by_row(rng), np.exp(rng.uniform(-0.5, 4.5, N))
    objective = learning(P, InhomogeneousStudentT(nu))
    G = objective.evaluate(Y, 4.0, cost=True)[0]  # exaggerated are the forces alone
    f, p, v = ((Y[:, None] - Y) ** 2).sum(axis=2), P.toarray(), nu[:, None]
    w = InhomogeneousStudentT(nu).weight(f) * ~np.eye(N, dtype=bool)
    q = w / w.sum(axis=1, keepdims=True) * p.sum(axis=1, keepdims=True)
    expected = ((np.log1p(f / v) - f * (v + 1) / (v**2 * (1 + f / v))) * (p - q)).sum(axis=1) / 2
    assert expected[3] == 0  # a point without a neighbour
    for found in (objective.slopes, slopes_in_nu(Y, P, nu, slice(0, N))):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(slopes_in_nu(Y, P, nu, slice(7, 9)), slopes_in_nu(Y, P, nu, slice(0, N))[7:9])
    G = objective.evaluate(Y)[0]
    for i, k in ((2, 1), (17, 0)):
        step = np.zeros_like(Y)
        step[i, k] = 1e-4
        costs = [objective.value(Y + s * step) for s in (1, -1)]
        assert (costs[0] - costs[1]) / 2e-4 == pytest.approx(G[i, k], rel=1e-6, abs=1e-7)
        more = 1e-3 * nu[i] * (np.arange(N) == i)
        costs = [learning(P, InhomogeneousStudentT(nu + s * more)).value(Y) for s in (1, -1)]
        assert (costs[0] - costs[1]) / (2e-3 * nu[i]) == pytest.approx(expected[i], rel=1e-5, abs=1e-9)


def test_the_rise_of_a_kernel_in_nu_is_a_difference_of_its_logarithms():
    for nu in (0.3, 1.0, 7.0, 100.0):
        for f in (0.0, 0.1, 2.0, 30.0):
            more, less = (InhomogeneousStudentT(nu * (1 + s)).log_weight(np.array([f]))[0] for s in (1e-5, -1e-5))
            assert rise.py_func(f, nu, 1.0, 0.5) == pytest.approx((more - less) / (2e-5 * nu), rel=1e-6, abs=1e-9)


@slow  # the loop that learns is compiled for it
def test_many_degrees_of_freedom_stay_precise_in_single_precision(rng, request):
    Y, P, kernel = (rng.normal(size=(60, 2)), by_row(rng, 60), InhomogeneousStudentT(np.exp(12 * rng.random(60))))
    single = learning(P, kernel, np.float32).value(Y.astype(np.float32))
    request.getfixturevalue("in_python")
    assert single == pytest.approx(learning(P, kernel).value(Y), rel=2e-6)


@slow
@pytest.mark.parametrize("divergence", [KL(), NeRV()], ids=["kl", "nerv"])
def test_same_bits_for_any_number_of_workers(rng, divergence):
    P, Y, kernel = by_row(rng, 900), rng.normal(size=(900, 2)).astype(np.float32), kernels(rng, 900)["student"]
    one, three = (PerPointObjective(P, kernel, divergence, dtype="f4", n_jobs=n).evaluate(Y, cost=True) for n in (1, 3))
    np.testing.assert_array_equal(one[0], three[0])
    assert one[1] == three[1]


@slow
@pytest.mark.parametrize("divergence", ["kl", "nerv"])
def test_points_that_coincide_or_are_far_apart_stay_finite(rng, divergence):
    options = {"dtype": np.float32, "n_jobs": 1}
    objective = PerPointObjective(by_row(rng), kernels(rng)["student"], DIVERGENCES[divergence], **options)
    for scale in (0.0, 1e-6, 30.0, 1e4):
        G, cost = objective.evaluate((rng.normal(size=(N, 2)) * scale).astype(np.float32), cost=True)
        assert np.isfinite(G).all()
        assert np.isfinite(cost)


# -- maps -----------------------------------------------------------------------------------------------------------

SHORT = {"perplexity": 10, "max_iter": 60, "random_state": 0}


@pytest.mark.parametrize(("by", "n"), [("pair", 90), ("row", 90), pytest.param("row", 210, marks=slow)])
def test_a_map_costs_what_it_says_is_the_same_cloned_and_on_any_threads(rng, by, n):
    X, scales = rng.normal(size=(n, 4)), np.exp(rng.uniform(-1, 1, n))
    kernel, listed = (
        (HeavyTailed(0.4, given) if by == "pair" else InhomogeneousStudentT(given))
        for given in (scales, scales.tolist())
    )
    est = nf.NeighborEmbedding(
        kernel=kernel, normalization=by, n_jobs=1, **{**SHORT, "max_iter": 30, "early_exaggeration_iter": 10}
    ).fit(X)
    assert est.cost_ < est.cost_curve_[0, 1]
    assert est.cost_ == pytest.approx(est.cost_and_gradient(est.embedding_)[0], rel=1e-4)
    for other in (clone(est), clone(est).set_params(n_jobs=3, kernel=listed)):
        np.testing.assert_array_equal(other.fit(X).embedding_, est.embedding_)


@pytest.mark.parametrize(("one", "other"), [
    pytest.param(Exponential(np.full(60, 0.7)), Exponential(0.7), marks=slow),
    pytest.param(HeavyTailed(0.4, np.full(60, 0.7)), HeavyTailed(0.4, 0.7), marks=slow),
    (HeavyTailed(1.0, np.ones(60)), nf.kernels.StudentT()),
])  # fmt: skip
@pytest.mark.parametrize("by", ["row", "pair"])
def test_equal_parameters_are_one_parameter(rng, by, one, other):
    X = rng.normal(size=(60, 4))
    brief = {**SHORT, "max_iter": 20}
    maps = [nf.NeighborEmbedding(kernel=k, normalization=by, **brief).fit(X) for k in (one, other)]
    np.testing.assert_array_equal(maps[0].embedding_, maps[1].embedding_)
    np.testing.assert_array_equal(maps[0].transform(X[:3]), maps[1].transform(X[:3]))


def test_a_fit_that_will_take_long_says_first_how_long():
    with pytest.warns(nf.errors.NearfarWarning, match="750 iterations over all pairs of 15,000 points .* 28 minutes"):
        check_points("X", 15_000, 750, 2, 5e7)
    check_points("X", 5_000, 750, 2, 5e7)


def test_too_many_points_are_refused_before_their_neighbours_are_searched(monkeypatch):
    monkeypatch.setattr(nf.Affinities, "_fit", None)
    with pytest.raises(nf.errors.InputError, match="at most 20,000 rows"):
        nf.InhomogeneousTSNE().fit(np.arange(20_001.0)[:, None])
