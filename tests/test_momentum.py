"""The solver of maps against delta-bar-delta in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.maps.solver import Momentum


def twin(Y, gradients, rate, momentum, longest):
    """Jacobs' rule, written down once more."""
    Y, gains, velocity = Y.copy(), np.ones_like(Y), np.zeros_like(Y)
    for G in gradients:
        opposed = np.sign(G) * np.sign(velocity) < 0
        gains = np.where(opposed, gains + 0.2, np.maximum(gains * 0.8, 0.01))
        velocity = momentum * velocity - rate * gains * G
        length = np.linalg.norm(velocity, axis=1, keepdims=True)
        velocity *= np.minimum(1, longest / np.maximum(length, 1e-300))
        Y = Y + velocity
        Y -= Y.mean(axis=0)
    return Y


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("longest", [np.inf, 0.3])
def test_steps_are_those_of_the_rule(d, longest):
    rng = np.random.default_rng(d)
    start, gradients = rng.normal(size=(40, d)), rng.normal(size=(30, 40, d))
    gradients[::7, ::5] = 0  # also where nothing pulls
    start -= start.mean(axis=0)
    Y, solver = start.copy(), Momentum(0.7, longest=longest, n_jobs=2)
    for G in gradients:
        solver.step(Y, G, learning_rate=0.1)
    np.testing.assert_allclose(Y, twin(start, gradients, 0.1, 0.7, longest), atol=1e-12)
    assert solver.gradient_norm == pytest.approx(np.linalg.norm(gradients[-1]))


def test_a_mirrored_start_takes_mirrored_steps():
    """Also in the first step, before which nothing has moved."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(9, 20, 2))
    ends = []
    for sign in (1.0, -1.0):
        Y, solver = np.zeros((20, 2)), Momentum()
        for step in G:
            solver.step(Y, sign * step, learning_rate=0.5)
        ends.append(sign * Y)
    np.testing.assert_array_equal(*ends)
