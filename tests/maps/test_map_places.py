"""Maps at each place: one text, whose formulas and their quicker forms give the gradient of the master equation."""

from itertools import product

import numpy as np
import pytest
from master import value_and_gradient
from quick import by_python, often, with_slow
from test_neighbor_objective import N, sparse_p

from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.engines.plain import Plain
from nearfar.engines.threads import FORMS_OF_PAIRS, Threads
from nearfar.far import ExactField, NoisePairs
from nearfar.kernels import Exponential, HeavyTailed, StudentT
from nearfar.maps.objective import NeighborObjective, NoiseObjective, union_pattern
from nearfar.methods import density, maps, noise_maps

pytestmark = pytest.mark.usefixtures("few_compiled")


def on_torch():
    torch = pytest.importorskip("torch")
    from nearfar.engines.torch.place import Device

    return Device("test", torch.device("cpu"))


PLACES = {"plain": Plain, "threads": lambda: Threads(2), "torch": on_torch}
PARTS = {
    "t-SNE": (KL(), StudentT(), "pair"),
    "by row": (KL(), Exponential(0.7), "row"),
    "reverse KL by pair": (ReverseKL(0.05), StudentT(), "pair"),
    "NeRV": (NeRV(0.3), StudentT(), "row"),
    "heavy tails": (KL(), HeavyTailed(0.4, 0.8), "pair"),
    "Jensen-Shannon": (JensenShannon(0.4), StudentT(), "row"),
    "Jensen-Shannon by pair": (JensenShannon(0.4), StudentT(), "pair"),
}


@pytest.mark.parametrize(
    ("case", "place"), often(product(PARTS, PLACES), lambda case, place: case in ("t-SNE", "NeRV") or place == "plain")
)
def test_near_and_far_are_the_master_equation_at_each_place(rng, place, case):
    divergence, kernel, normalization = PARTS[case]
    Y, P, where = rng.normal(size=(N, 2)), sparse_p(rng, normalization), PLACES[place]()
    counted = P if normalization == "row" else (P + P.T) / 2
    value, expected = value_and_gradient(Y, counted, kernel, divergence, normalization)
    options = {"dtype": float, "n_jobs": 1, "place": where}
    objective = NeighborObjective(P, kernel, divergence, normalization, ExactField(), **options)
    G, cost = objective.evaluate(where.bring(Y.copy()), cost=True)
    np.testing.assert_allclose(where.fetch(G, Y.copy()), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    assert cost == pytest.approx(value, rel=1e-10)
    assert objective.value(where.bring(Y.copy())) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("place", PLACES)
def test_points_of_importance_at_each_place(rng, place):
    Y, P, where, weights = rng.normal(size=(N, 2)), sparse_p(rng, "pair"), PLACES[place](), rng.uniform(0.5, 2, N)
    value, expected = value_and_gradient(Y, (P + P.T) / 2, StudentT(), KL(), "pair", weights=weights)
    options = {"dtype": float, "n_jobs": 1, "place": where, "weights": weights}
    G, cost = NeighborObjective(P, StudentT(), KL(), "pair", ExactField(), **options).evaluate(
        where.bring(Y.copy()), cost=True
    )
    np.testing.assert_allclose(where.fetch(G, Y.copy()), expected, rtol=1e-9, atol=1e-12)
    assert cost == pytest.approx(value, rel=1e-10)


# Of float64 on threads, a loop is compiled for each.
@pytest.mark.parametrize(
    ("place", "dtype", "d"), with_slow([("threads", np.float32, 2), ("torch", float, 3)], slow=[("threads", float, 3)])
)
@pytest.mark.parametrize(
    "noise",
    with_slow(
        [NoisePairs(3), NoisePairs(4, normalizer="umap")],
        slow=[NoisePairs(3, normalizer=150.0), NoisePairs(4, "global")],
    ),
    ids=repr,
)
def test_sampled_pairs_are_those_of_the_plain_place(rng, place, dtype, d, noise):
    Y, P, found = rng.normal(size=(N, d)).astype(dtype), sparse_p(rng, "pair"), []
    for where, of in ((Plain(), float), (PLACES[place](), dtype)):
        rng_of_fit = np.random.default_rng(3)
        objective = NoiseObjective(P, StudentT(), noise, rng=rng_of_fit, dtype=of, n_jobs=1, place=where)
        G, cost = objective.evaluate(where.bring(Y.astype(of)), cost=True)
        found.append((np.array(where.fetch(G, Y.astype(of))), cost))
    rounding = 1e-9 if dtype is float else 1e-4
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=rounding, atol=rounding / 100)
    assert found[1][1] == pytest.approx(found[0][1], rel=rounding / 10)


def test_the_density_of_a_map_on_the_plain_place(rng):
    pattern, found = union_pattern(sparse_p(rng, "pair"), float, symmetric=True)[:2], []
    Y = rng.normal(size=(N, 2))
    wanted = density.Wanted(pattern, rng.normal(size=N), N)
    for where in (Plain(), Threads(2)):
        gradient = density.add_gradient(where, wanted, where.bring(Y.copy()), where.bring(np.ones_like(Y)), 2.0)
        found.append((where.fetch(gradient, Y.copy()), density.correlation(where, wanted, where.bring(Y.copy()))))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9, atol=1e-12)
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-12)


def test_every_quicker_form_for_pairs_was_compared_with_its_formula(rng, monkeypatch):
    """Each in the tests above, at both places: a form that is never asked is not compared with anything."""
    asked = set()

    def counted(form, formula):
        def run(*given, **shared):
            asked.add(formula)
            return form(*given, **shared)

        return run

    for formula, form in dict(FORMS_OF_PAIRS).items():
        monkeypatch.setitem(FORMS_OF_PAIRS, formula, counted(form, formula))
    for case in ("NeRV", "t-SNE"):
        test_near_and_far_are_the_master_equation_at_each_place(rng, "threads", case)
    monkeypatch.setattr("nearfar.engines.threads.noise.bind", by_python)
    for noise in (NoisePairs(3), NoisePairs(4, "global")):
        test_sampled_pairs_are_those_of_the_plain_place(rng, "threads", float, 2, noise)
    test_the_density_of_a_map_on_the_plain_place(rng)
    assert asked == set(FORMS_OF_PAIRS)
    modules = (maps, noise_maps, density)
    assert {formula.__module__ for formula in asked} == {module.__name__ for module in modules}
