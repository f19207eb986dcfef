"""Kernels of the step with momentum: one pass over positions, gradient, velocity and gains, in place."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def momentum_step(Y, G, velocity, gains, constants, sums, start, stop):
    """Move rows start..stop; write the sums of their new positions, and of the squared gradient, to ``sums``."""
    learning_rate, momentum, up, down, least, longest = constants
    zero, d = Y.dtype.type(0), Y.shape[1]
    sums[:] = 0
    for i in range(start, stop):
        square = zero
        for c in range(d):
            g = G[i, c]
            v = velocity[i, c]
            opposed = (v > zero) & (g < zero) | (v < zero) & (g > zero)  # their product might underflow
            gain = gains[i, c] + up if opposed else max(gains[i, c] * down, least)
            v = momentum * v - learning_rate * gain * g
            gains[i, c] = gain
            velocity[i, c] = v
            square += v * v
        # A point that would leap is held back, by the same factor in all components.
        shrink = longest / np.sqrt(square) if square > longest * longest else Y.dtype.type(1)
        for c in range(d):
            v = shrink * velocity[i, c]
            velocity[i, c] = v
            Y[i, c] += v
            sums[c] += np.float64(Y[i, c])
            sums[d] += np.float64(G[i, c]) * np.float64(G[i, c])


@njit(cache=True, nogil=True, fastmath=FAST)
def shift(Y, by, start, stop):
    """Subtract a vector from rows start..stop."""
    for i in range(start, stop):
        for c in range(Y.shape[1]):
            Y[i, c] -= by[c]
