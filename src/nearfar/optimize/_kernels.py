"""Kernels of the solvers: one step of a block of rows, in place."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST


@njit(cache=True, nogil=True, fastmath=FAST)
def sphere_step(X, G, learning_rate):
    """Move each row along the sphere: x <- sqrt(1 - η²) x - η g''; a row without a tangent gradient stays.

    What rounding did to the length of x in one step is put right in the next: a pass over the row less.
    """
    eta = X.dtype.type(learning_rate)
    keep = X.dtype.type(np.sqrt(1.0 - learning_rate * learning_rate))
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        along, square = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            along += x[c] * g[c]
            square += x[c] * x[c]
        if not square > 0:
            continue
        along /= square
        length = X.dtype.type(0)
        for c in range(d):
            g[c] -= along * x[c]
            length += g[c] * g[c]
        if not length > 0:
            continue
        stay, move = keep / np.sqrt(square), eta / np.sqrt(length)
        for c in range(d):
            x[c] = stay * x[c] - move * g[c]


@njit(cache=True, nogil=True, fastmath=FAST)
def ball_step(X, G, learning_rate):
    """Move each row by η against its normalised gradient, and back to the unit ball if it left it."""
    one = X.dtype.type(1)
    eta = X.dtype.type(learning_rate)
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        length = X.dtype.type(0)
        for c in range(d):
            length += g[c] * g[c]
        if not length > 0:
            continue
        move = eta / np.sqrt(length)
        norm = X.dtype.type(0)
        for c in range(d):
            x[c] -= move * g[c]
            norm += x[c] * x[c]
        if norm > 1:
            scale = one / np.sqrt(norm)
            for c in range(d):
                x[c] *= scale
