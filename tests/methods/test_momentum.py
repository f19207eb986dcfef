"""The solver of maps against delta-bar-delta in NumPy."""

import numpy as np
import pytest
from quick import with_slow

from nearfar._core.jit import jit
from nearfar.engines import on_threads
from nearfar.engines.plain import Plain
from nearfar.engines.threads import maps as threads
from nearfar.methods import descent
from nearfar.methods.descent import momentum_step

PLACES = [Plain(), on_threads(2)]


def steps(place, start, gradients, rate, momentum, longest):
    """Return where steps lead at a place, and the square of the last gradient."""
    moving, moved = (start.copy(), np.zeros_like(start), np.ones_like(start)), np.zeros(start.shape[1])
    options = {"n": len(start), "rate": rate, "momentum": momentum, "longest": longest}
    for G in gradients:
        moving, moved, square = place.each(momentum_step, moving, G, moved=moved, **options)
        np.testing.assert_allclose(moved, moving[0].sum(axis=0, dtype=float), atol=1e-9)
    return moving[0], square


def twin(Y, gradients, rate, momentum, longest):
    """Jacobs' rule, written down once more; the mean is put to 0 a step later."""
    Y, gains, velocity, mean = Y.copy(), np.ones_like(Y), np.zeros_like(Y), 0
    for G in gradients:
        opposed = np.sign(G) * np.sign(velocity) < 0
        gains = np.where(opposed, gains + 0.2, np.maximum(gains * 0.8, 0.01))
        velocity = momentum * velocity - rate * gains * G
        length = np.linalg.norm(velocity, axis=1, keepdims=True)
        velocity *= np.minimum(1, longest / np.maximum(length, 1e-300))
        Y = Y - mean + velocity
        mean = Y.mean(axis=0)
    return Y


@pytest.mark.parametrize("place", with_slow(PLACES[:1], slow=PLACES[1:]), ids=lambda place: type(place).__name__)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("longest", [np.inf, 0.3])
def test_steps_are_those_of_the_rule(place, d, longest):
    rng = np.random.default_rng(d)
    start, gradients = rng.normal(size=(40, d)), rng.normal(size=(30, 40, d))
    gradients[::7, ::5] = 0  # also where nothing pulls
    start -= start.mean(axis=0)
    Y, square = steps(place, start, gradients, 0.1, 0.7, longest)
    np.testing.assert_allclose(Y, twin(start, gradients, 0.1, 0.7, longest), atol=1e-12)
    assert square == pytest.approx((gradients[-1] ** 2).sum())


@pytest.mark.parametrize("place", with_slow(PLACES[:1], slow=PLACES[1:]), ids=lambda place: type(place).__name__)
def test_a_mirrored_start_takes_mirrored_steps(place):
    """Also in the first step, before which nothing has moved."""
    G, start = np.random.default_rng(0).normal(size=(9, 20, 2)), np.zeros((20, 2))
    left, right = (sign * steps(place, start, sign * G, 0.5, 0.8, np.inf)[0] for sign in (1.0, -1.0))
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", with_slow([np.float32], slow=[np.float64]))
def test_compiled_steps_are_those_of_the_formula(dtype):
    rng = np.random.default_rng(0)
    start, G = rng.normal(size=(30, 3)).astype(dtype), rng.normal(size=(6, 30, 3)).astype(dtype)
    (left, square), (right, same) = (steps(place, start, G, 0.3, 0.7, 0.5) for place in PLACES)
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    assert square == pytest.approx(same, rel=1e-5)


@pytest.mark.slow
def test_another_rule_of_gains_holds_at_every_place(monkeypatch):
    """The rule is one text, which is compiled in where steps are."""

    def rule(gain, velocity, g, up, down, least):
        return gain + up

    assert threads.gain_of.py_func is descent.next_gain
    monkeypatch.setattr(descent, "next_gain", rule)
    monkeypatch.setattr(threads, "gain_of", jit(rule, **threads.gain_of.options))
    monkeypatch.setattr(threads, "move", jit(threads.move.py_func, **threads.move.options))
    G, rate = np.random.default_rng(0).normal(size=(6, 30, 3)), 0.3
    way = -rate * np.tensordot(1 + descent.UP * np.arange(1, 7), G, axes=1)
    for place in PLACES:
        Y, _ = steps(place, np.zeros((30, 3)), G, rate, 0.0, np.inf)
        np.testing.assert_allclose(Y - Y.mean(axis=0), way - way.mean(axis=0), atol=1e-12)
