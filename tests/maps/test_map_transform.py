"""New points in a fitted map: the cost of a row, its gradient, and where it leads."""

import warnings
from itertools import product

import numpy as np
import pytest
from quick import by_python, often, with_slow
from scipy.optimize import minimize
from scipy.sparse import csr_array

from nearfar._core.jit import compiled, soonest
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.divergences.probability import linear_formulas, no_strength
from nearfar.errors import NearfarWarning
from nearfar.kernels import Exponential, HeavyTailed, StudentT, compiled_kernel
from nearfar.maps import new_points
from nearfar.maps import transform as kernels
from nearfar.maps.transform import places_of_new

KERNELS = [Exponential(0.7), StudentT(), HeavyTailed(0.5, 1.3)]
DIVERGENCES = [
    KL(),
    ReverseKL(),
    NeRV(0.3, floor=0.02),
    NeRV(0.0),
    NeRV(1.0),
    JensenShannon(0.4),
    JensenShannon(1e-9),
    JensenShannon(0.0),
    JensenShannon(1.0),
]
# Each kernel and each divergence with one of the others: what a loop is compiled for. NeRV and reverse KL, its end, go
# with a kernel of short tails, the others with Student's t: so there is an entropy of both.
PAIRS = [(KERNELS[0] if isinstance(each.limit(), NeRV | ReverseKL) else StudentT(), each) for each in DIVERGENCES]
PAIRS += [(kernel, NeRV(0.3, 0.02)) for kernel in KERNELS[1:]]
every_pair = pytest.mark.parametrize(("kernel", "divergence"), PAIRS, ids=repr)
# The search takes ten seconds to compile for each: in a quick run it is run by Python, and so is the cost of a row, the
# part of it that they change, for all.
QUICK = [(StudentT(), KL()), (Exponential(0.7), NeRV(0.3, 0.02))]
LONG = [pair for pair in [*PAIRS, (Exponential(0.7), NeRV(1.0))] if pair not in QUICK]
SEARCHED = with_slow(QUICK, slow=LONG)
every_search = pytest.mark.parametrize(("kernel", "divergence"), SEARCHED, ids=repr)
every_loop = pytest.mark.parametrize(
    ("kernel", "divergence", "run"),
    with_slow([(*pair, "by Python") for pair in QUICK], slow=[(*pair, "compiled") for pair in QUICK + LONG]),
    ids=repr,
)


def irregular_map(rng, n=60, d=2):
    return rng.normal(size=(n, d)) * np.linspace(3, 1, d) + rng.random((n, 1))


def scattered(rng, n, k=9):
    p = np.zeros(n)
    p[rng.choice(n, k, replace=False)] = rng.random(k) + 0.01
    return p / p.sum()


def neighbours(rng, Y, k=9):
    """Probabilities of the k points nearest to some place, and a little of one far away."""
    f = ((Y - Y[rng.integers(len(Y))] - rng.normal(size=Y.shape[1]) / 4) ** 2).sum(axis=1)
    p = np.zeros(len(Y))
    p[np.argsort(f)[:k]] = rng.random(k) + 0.5
    p[np.argmax(f)] = 0.2
    return p / p.sum()


def plain_cost(x, p, Y, kernel, divergence):
    levels = kernel.log_weight(((x - Y) ** 2).sum(axis=1))
    w = np.exp(levels - levels.max())
    q = np.maximum(w / w.sum(), 1e-300)
    return float(np.sum(divergence.value(p, q, 1 / len(Y))))


def plain_slopes(x, p, Y, kernel, divergence):
    """Return the gradient of the plain cost, by differences, and the curvature of the attraction."""
    costs = [[plain_cost(x + s * h, p, Y, kernel, divergence) for s in (1, -1)] for h in 6e-6 * np.eye(len(x))]
    f = ((x - Y) ** 2).sum(axis=1)
    curvature = 2 * np.sum(p * -kernel.slope(f) / kernel.weight(f))
    return np.subtract(*np.transpose(costs)) / 1.2e-5, curvature


def cost_in_python(x, p, Y, kernel, divergence):
    d = Y.shape[1]
    columns, gradient = np.flatnonzero(p), np.empty(d)
    scratch = (np.empty((3, kernels.BLOCK)), np.empty(2), np.empty((2, d)))
    formulas, found = linear_formulas(divergence, 1 / len(Y)), compiled_kernel(kernel)
    shares = p[columns]
    fixed = np.zeros_like(shares) if formulas.fixed is None else formulas.fixed(shares)
    row = columns, shares, fixed, shares if formulas.prepared is None else formulas.prepared(shares)
    of_row = (compiled(one) for one in (formulas.strength or no_strength, formulas.entry_cost))
    of_divergence = tuple(map(float, formulas.parameters)), (float(formulas.far_log), float(formulas.constant))
    model = np.ascontiguousarray(Y.T), found.parameters, *of_divergence
    cost = by_python(kernels.row_cost, (found.functions, *of_row, found.heaviness >= 0.5))
    value, curvature = cost(x, row, model, scratch, gradient)
    return value, gradient, curvature


@every_pair
@pytest.mark.parametrize(("n", "d"), [(60, 2), (kernels.BLOCK + 7, 3)])
def test_cost_and_gradient_of_a_row(rng, kernel, divergence, n, d):
    Y, p, x = irregular_map(rng, n, d), scattered(rng, n), rng.normal(size=d)
    value, gradient, curvature = cost_in_python(x, p, Y, kernel, divergence)
    assert value == pytest.approx(plain_cost(x, p, Y, kernel, divergence), rel=1e-11)
    difference, expected = plain_slopes(x, p, Y, kernel, divergence)
    np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
    assert curvature == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kernel", "divergence"),
    with_slow(
        [(StudentT(), KL())],
        slow=[
            *product([StudentT()], (ReverseKL(1e-9), JensenShannon(0.3))),
            *product(KERNELS, [NeRV(0.4, floor=1e-9)]),
        ],
    ),
    ids=repr,
)
def test_a_point_goes_where_its_probabilities_come_from(rng, kernel, divergence):
    Y = irregular_map(rng)
    places = Y[:5] + rng.normal(size=(5, 2)) * 0.3
    W = kernel.weight(((places[:, None] - Y) ** 2).sum(axis=2))
    found = places_of_new(csr_array(7.5 * W), Y, kernel, divergence, n_jobs=1)  # only proportions count
    np.testing.assert_allclose(found, places, atol=1e-4)  # the floors


@every_loop
def test_loops_find_the_places_that_numpy_finds_for_few(rng, kernel, divergence, run, monkeypatch):
    """To the precision of the search; a point finds the same place alone, to the last bit."""
    Y = irregular_map(rng)
    P = csr_array(np.stack([neighbours(rng, Y, k) for k in (9, 5, 20, 1)]) * [[1], [1], [0], [1]])
    few = places_of_new(P, Y, kernel, divergence, n_jobs=1)
    alone = [places_of_new(P[[i]], Y, kernel, divergence, n_jobs=1)[0] for i in range(4)]
    np.testing.assert_array_equal(few, alone)
    monkeypatch.setattr(kernels, "FEW_PAIRS", 0)
    if run == "by Python":
        monkeypatch.setattr(kernels, "bind", by_python)
    loops = places_of_new(P, Y, kernel, divergence, n_jobs=1)
    np.testing.assert_allclose(loops, few, atol=1e-6 * np.ptp(Y))
    np.testing.assert_array_equal(loops[2], few[2])


@every_search
def test_a_place_is_a_minimum_and_no_worse_than_that_of_a_general_optimiser(rng, kernel, divergence):
    Y = irregular_map(rng)
    P = np.stack([neighbours(rng, Y) for _ in range(4)])
    for x, p in zip(places_of_new(csr_array(P), Y, kernel, divergence, n_jobs=1), P, strict=True):
        value, (gradient, curvature) = (of(x, p, Y, kernel, divergence) for of in (plain_cost, plain_slopes))
        assert np.linalg.norm(gradient) < 1e-4 * curvature
        mean = minimize(plain_cost, p @ Y, args=(p, Y, kernel, divergence), method="Nelder-Mead")
        first = minimize(plain_cost, Y[p.argmax()], args=(p, Y, kernel, divergence), method="Nelder-Mead")
        assert value <= max(mean.fun, first.fun) + 1e-6


@every_search
def test_scattered_neighbours_lead_no_farther_than_a_little_outside_the_map(rng, kernel, divergence):
    Y = irregular_map(rng)
    low, high = Y.min(axis=0), Y.max(axis=0)
    low, high = low - 0.05 * (high - low).max(), high + 0.05 * (high - low).max()
    P = np.stack([scattered(rng, len(Y)) for _ in range(6)])
    for x, p in zip(places_of_new(csr_array(P), Y, kernel, divergence, n_jobs=1), P, strict=True):
        assert np.all((x >= low) & (x <= high))
        gradient, curvature = plain_slopes(x, p, Y, kernel, divergence)
        inward = np.where(x == low, np.minimum(gradient, 0), np.where(x == high, np.maximum(gradient, 0), gradient))
        assert np.linalg.norm(inward) < 1e-4 * curvature


@pytest.mark.parametrize(
    ("kernel", "divergence"),
    with_slow([(KERNELS[0], NeRV(0.3))], slow=[(StudentT(), KL()), *product(KERNELS[1:], [NeRV(0.3)])]),
    ids=repr,
)
def test_the_cost_never_rises(rng, kernel, divergence):
    Y = irregular_map(rng)
    p = neighbours(rng, Y)
    costs = [min(plain_cost(x, p, Y, kernel, divergence) for x in (p @ Y, Y[p.argmax()]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        for looks in range(3, 30, 2):
            x = places_of_new(csr_array(p[None]), Y, kernel, divergence, n_jobs=1, max_iter=looks)[0]
            costs.append(plain_cost(x, p, Y, kernel, divergence))
    assert np.all(np.diff(costs) <= 1e-13 * abs(costs[0]))
    assert costs[-1] < costs[0]


@pytest.mark.slow
def test_a_row_of_the_fit_lands_near_its_own_place(rng):
    centres = np.array([[0, 0, 0], [6, 0, 1], [0, 7, 2]])
    X = centres[rng.integers(3, size=90)] + rng.normal(size=(90, 3))
    P = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    np.fill_diagonal(P, 0)
    P /= P.sum(axis=1, keepdims=True)

    def cost(y):
        Y = y.reshape(-1, 2)
        difference = Y[:, None] - Y
        W = 1 / (1 + (difference**2).sum(axis=2))
        np.fill_diagonal(W, 0)
        Q = W / W.sum(axis=1, keepdims=True)
        K = (P - Q) * W
        K = K + K.T
        positive = P > 0
        return -np.sum(P[positive] * np.log(Q[positive])), 2 * np.einsum("ij,ijd->id", K, difference).ravel()

    Y = minimize(cost, 0.1 * X[:, :2].ravel(), jac=True, method="L-BFGS-B").x.reshape(-1, 2)
    found = np.stack(
        [
            places_of_new(csr_array(np.delete(P[[i]], i, 1)), np.delete(Y, i, 0), StudentT(), KL(), n_jobs=1)[0]
            for i in range(0, 90, 2)
        ]
    )
    away = np.linalg.norm(found - Y[::2], axis=1) / np.ptp(Y, axis=0).max()
    assert np.median(away) < 0.03
    assert np.quantile(away, 0.9) < 0.15


@pytest.mark.parametrize(
    "divergence", often(DIVERGENCES, lambda each: isinstance(each, NeRV) and each.lam < 1), ids=repr
)
def test_nothing_vanishes_far_from_every_point(rng, divergence):
    # Half way between two groups every weight is exp(-10_000).
    Y = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + np.array([200, 0])])
    p = np.zeros(40)
    p[[0, 20]] = 0.5, 0.5
    value, gradient, _ = cost_in_python(np.array([100.0, 0.0]), p, Y, Exponential(), divergence)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    found = places_of_new(csr_array(p[None]), Y, Exponential(), divergence, n_jobs=1)
    assert np.isfinite(found).all()
    assert plain_cost(found[0], p, Y, HeavyTailed(1e-6), divergence) < np.inf


@pytest.mark.parametrize(("kernel", "divergence"), with_slow(QUICK, slow=product(KERNELS, DIVERGENCES)), ids=repr)
def test_points_that_coincide(rng, kernel, divergence):
    P = csr_array(scattered(rng, 30)[None])
    same = places_of_new(P, np.full((30, 2), 1.5), kernel, divergence, n_jobs=1)
    np.testing.assert_allclose(same, [[1.5, 1.5]])
    twice = np.repeat(irregular_map(rng, 15), 2, axis=0)
    assert np.isfinite(places_of_new(P, twice, kernel, divergence, n_jobs=1)).all()


def test_a_row_without_neighbours_gets_the_centre(rng):
    Y = irregular_map(rng, 20)
    P = csr_array(np.stack([np.zeros(20), neighbours(rng, Y)]))
    P.data[0] = 0.0  # a stored zero is no neighbour
    found = places_of_new(P, Y, StudentT(), KL(), n_jobs=1)
    np.testing.assert_allclose(found[0], Y.mean(axis=0))
    np.testing.assert_array_equal(found[1:], places_of_new(P[[1]], Y, StudentT(), KL(), n_jobs=1))
    np.testing.assert_array_equal(found, places_of_new(P.toarray(), Y, StudentT(), KL(), n_jobs=1))
    assert places_of_new(csr_array((0, 20)), Y, StudentT(), KL(), n_jobs=1).shape == (0, 2)
    tiny = csr_array(P.toarray() * 1e-310)
    np.testing.assert_allclose(places_of_new(tiny, Y, StudentT(), KL(), n_jobs=1)[1], found[1], atol=1e-3)


def test_a_point_that_does_not_come_to_rest_is_told(rng):
    Y = irregular_map(rng, 20)
    P = csr_array(neighbours(rng, Y)[None])
    with pytest.warns(NearfarWarning, match="1 of 1 points still moved after 4"):
        places_of_new(P, Y, StudentT(), KL(), n_jobs=1, max_iter=4)


def test_starts_of_several_are_those_of_each(rng):
    points, columns, shares = rng.normal(size=(2, 40)), np.array([3, 17, 30, 8]), np.array([0.2, 0.4, 0.1, 0.3])
    here = np.empty((3, 2))
    soonest(kernels._starts, 0)(columns, shares, points, here)
    row = [np.stack([part, part]) for part in (columns, shares)]
    there = new_points._starts((*row, None, None, row[1] > 0), points)
    np.testing.assert_allclose(there[:, 1], here, rtol=1e-12)
