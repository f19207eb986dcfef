"""The solver of maps against delta-bar-delta in NumPy."""

import subprocess
import sys

import numpy as np
import pytest

from nearfar.engines import on_threads
from nearfar.engines.plain import Plain
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


@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
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


@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
def test_a_mirrored_start_takes_mirrored_steps(place):
    """Also in the first step, before which nothing has moved."""
    G, start = np.random.default_rng(0).normal(size=(9, 20, 2)), np.zeros((20, 2))
    left, right = (sign * steps(place, start, sign * G, 0.5, 0.8, np.inf)[0] for sign in (1.0, -1.0))
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_steps_are_those_of_the_formula(dtype):
    rng = np.random.default_rng(0)
    start, G = rng.normal(size=(30, 3)).astype(dtype), rng.normal(size=(6, 30, 3)).astype(dtype)
    (left, square), (right, same) = (steps(place, start, G, 0.3, 0.7, 0.5) for place in PLACES)
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    assert square == pytest.approx(same, rel=1e-5)


RULE = """
import numpy as np
from nearfar.methods import descent

def next_gain(gain, velocity, g, up, down, least):
    return gain + up

descent.next_gain = next_gain  # before a place has it
from nearfar.engines import in_numpy, on_threads

G = np.random.default_rng(0).normal(size=(6, 30, 3))
found = []
for place in (in_numpy(), on_threads(2)):
    moving, moved = (np.zeros((30, 3)), np.zeros((30, 3)), np.ones((30, 3))), np.zeros(3)
    for g in G:
        options = {"n": 30, "rate": 0.3, "momentum": 0.7, "longest": 0.5}
        moving, moved, _ = place.each(descent.momentum_step, moving, g, moved=moved, **options)
    np.testing.assert_allclose(moving[2], 1 + 6 * descent.UP)
    found.append(moving[0])
np.testing.assert_allclose(*found, atol=1e-12)
"""


def test_another_rule_of_gains_holds_at_every_place():
    """The rule is one text, which is compiled in where steps are."""
    subprocess.run([sys.executable, "-c", RULE], check=True)
