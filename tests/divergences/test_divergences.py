"""Divergences of probabilities: values against closed forms, derivatives against differences, limits."""

from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refusals
from scipy.special import rel_entr

from nearfar import divergences as divergences_module
from nearfar.contracts import Divergence
from nearfar.divergences import KL, Accuracy, Formulas, JensenShannon, NeRV, ReverseKL
from nearfar.divergences.probability import accuracy_of, as_divergence, floored, linear_formulas, strength_of

ALL = [KL(), ReverseKL(), NeRV(), NeRV(0.9), JensenShannon(), JensenShannon(0.05), JensenShannon(1.0)]
divergences = pytest.mark.parametrize("divergence", ALL, ids=repr)


@pytest.fixture
def p(rng):
    p = rng.random(12) ** 3
    return p / p.sum()


@pytest.fixture
def q(rng):
    q = rng.random(12) + 0.05
    return q / q.sum()


@divergences
def test_keeps_to_the_protocol(divergence, p, q):
    assert isinstance(divergence, Divergence)
    assert isinstance(divergence, divergences_module.Divergence)
    assert divergence.value(p, q).shape == divergence.derivative(p, q).shape == p.shape
    assert divergence.value(p.astype(np.float32), q.astype(np.float32)).dtype == np.float64


@divergences
def test_cost_is_zero_at_q_equal_p_and_positive_elsewhere(divergence, p, q):
    assert divergence.value(p, p).sum() == pytest.approx(0, abs=1e-14)
    assert divergence.value(p, q).sum() > 0.01


@divergences
@pytest.mark.parametrize("uniform", [0.0, 1 / 12])
def test_derivative_is_that_of_the_value(divergence, p, q, uniform):
    step = 6e-6 * q
    high, low = (divergence.value(p, q + sign * step, uniform) for sign in (1, -1))
    slope = divergence.derivative(p, q, uniform)
    np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-6, atol=1e-9)


def test_values_are_the_known_divergences(p, q):
    assert KL().value(p, q).sum() == pytest.approx(rel_entr(p, q).sum(), rel=1e-13)
    assert ReverseKL().value(p, q).sum() == pytest.approx(rel_entr(q, p).sum(), rel=1e-13)
    assert NeRV(0.3).value(p, q).sum() == pytest.approx(0.3 * rel_entr(p, q).sum() + 0.7 * rel_entr(q, p).sum())
    z = 0.2 * p + 0.8 * q
    expected = rel_entr(p, z).sum() / 0.8 + rel_entr(q, z).sum() / 0.2
    assert JensenShannon(0.2).value(p, q).sum() == pytest.approx(expected, rel=1e-13)


def test_ends_of_the_parameters(p, q):
    for end, same in (
        (NeRV(1.0), KL()),
        (NeRV(0.0), ReverseKL()),
        (JensenShannon(0.0), KL()),
        (JensenShannon(1.0), ReverseKL()),
    ):
        assert end.limit() == same
        assert end.formulas(0.1).far_log == same.formulas(0.1).far_log
        assert isinstance(end.accuracy, Accuracy)
        np.testing.assert_array_equal(end.value(p, q), same.value(p, q))
        np.testing.assert_array_equal(end.derivative(p, q), same.derivative(p, q))
    near_end = JensenShannon(1e-7)
    assert near_end.value(p, q).sum() == pytest.approx(KL().value(p, q).sum(), rel=1e-6)
    shift = near_end.derivative(p, q) - KL().derivative(p, q)
    assert np.ptp(shift) < 1e-5  # a constant drops out of the gradient
    assert JensenShannon(1 - 1e-9).value(p, q).sum() == pytest.approx(ReverseKL().value(p, q).sum(), rel=1e-6)


def test_zeros_of_p_are_harmless(q):
    p = np.zeros(12)
    p[3] = 1
    for divergence in ALL:
        assert np.isfinite(divergence.value(p, q, 1 / 12)).all()
        assert np.isfinite(divergence.derivative(p, q, 1 / 12)).all()


@pytest.mark.parametrize("kappa", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_q_that_has_vanished_costs_what_a_tiny_one_does(kappa, dtype):
    p, gone, tiny = np.array([0.5, 0.0], dtype), np.zeros(2, dtype), np.full(2, np.finfo(dtype).tiny)
    js = JensenShannon(kappa)
    for method in (js.value, js.derivative):
        np.testing.assert_array_equal(method(p, gone), method(p, tiny))
        assert np.isfinite(method(p, gone)).all()
    rel = 1e-2 if dtype == np.float32 else 1e-10  # two logarithms cancel
    assert js.value(p, gone)[0] == pytest.approx(-0.5 * np.log(kappa) / (1 - kappa), rel=rel)


def test_the_floor_keeps_the_sum(p):
    mixed = floored(p, 0.1, 1 / 12)
    assert mixed.sum() == pytest.approx(1)
    assert mixed.min() >= 0.1 / 12
    assert floored(p, 0.1, 0.0) is p


def test_the_far_part_of_the_derivative_is_what_is_left_where_p_is_zero(q):
    for divergence in ALL:
        at_zero, formulas = divergence.derivative(np.zeros(12), q, 1 / 12), linear_formulas(divergence, 1 / 12)
        assert isinstance(formulas, Formulas)
        b = formulas.far_log
        np.testing.assert_allclose(at_zero, b * np.log(q) + b + formulas.constant, rtol=1e-12)


@divergences
def test_formulas_are_those_of_value_and_derivative(divergence, p, q):
    formulas = linear_formulas(divergence, 1 / 12)
    cost = getattr(formulas.entry_cost, "py_func", formulas.entry_cost)
    found = cost(p, q, np.log(q), *formulas.parameters)
    zero = np.zeros(12)
    np.testing.assert_allclose(found, divergence.value(p, q, 1 / 12) - divergence.value(zero, q, 1 / 12), atol=1e-12)
    near = divergence.derivative(p, q, 1 / 12) - divergence.derivative(zero, q, 1 / 12)
    np.testing.assert_allclose(strength_of(formulas, p, q), -q * near, rtol=1e-9, atol=1e-12)


def test_names_stand_for_defaults():
    assert as_divergence("X", "kl") == KL()
    assert as_divergence("X", "jensen-shannon") == JensenShannon()


test_wrong_parameters_are_refused = refusals(
    lambda make: make(),
    [
        (lambda: NeRV(1.5), r"NeRV: lam must be a finite number in \[0, 1\]"),
        (lambda: NeRV(floor=0), r"NeRV: floor must be a finite number in \(0, 1\)"),
        (lambda: ReverseKL(1.0), r"ReverseKL: floor must be a finite number in \(0, 1\)"),
        (lambda: JensenShannon(-0.1), r"JensenShannon: kappa must be a finite number in \[0, 1\]"),
        *(
            (
                lambda wrong=wrong: as_divergence("X", wrong),
                r"X: divergence must be one of 'kl', .* or a divergence object",
            )
            for wrong in ("js", None, KL, 3)
        ),
        (
            lambda: as_divergence("X", SimpleNamespace(value=KL().value, derivative=KL().derivative)),
            r"a divergence object; .* One of your own inherits from nearfar\.divergences\.Divergence\.",
        ),
    ],
)


def test_what_a_divergence_of_ones_own_leaves_open():
    class Least(Divergence):
        def value(self, p, q):
            return (p - q) ** 2

        def derivative(self, p, q):
            return 2 * (q - p)

    least = as_divergence("X", Least())
    assert (least.floor, least.for_probabilities) == (0.0, False)
    assert accuracy_of(least) == divergences_module.Divergence.accuracy
