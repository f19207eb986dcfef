"""Kernels that place new rows before a mixture of Gaussians, each row by itself, in float64 and without BLAS.

A row's result therefore does not depend on the rows beside it, to the last bit.
"""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
import math

import numpy as np
from numba import njit

from nearfar._vector import FAST


@njit(cache=True, nogil=True, fastmath=FAST)
def _value(x, offset, log_shares, means, covariances, gradient, scratch):
    """Return ``offset . x + log sum_a share_a exp(x . mu_a + x . Omega_a x / 2)``; write its gradient."""
    d = x.shape[0]
    top, total = -np.inf, 0.0
    for a in range(log_shares.shape[0]):
        energy = log_shares[a]
        for j in range(d):
            curved = 0.0
            for c in range(d):
                curved += covariances[a, j, c] * x[c]
            energy += x[j] * (means[a, j] + 0.5 * curved)
            scratch[j] = means[a, j] + curved
        # A streaming log-sum-exp: the gradient is the mean of the components' by their shares of the sum.
        old, new = 1.0, math.exp(min(0.0, energy - top))
        if energy > top:
            old, new, top = math.exp(top - energy), 1.0, energy
        total = total * old + new
        for j in range(d):
            gradient[j] = gradient[j] * old + new * scratch[j] if a > 0 else scratch[j]
    value = math.log(total) + top
    for j in range(d):
        gradient[j] = gradient[j] / total + offset[j]
        value += offset[j] * x[j]
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def minimiser_of_bound(x, gradient, curvature, on_sphere, out):
    """Write the minimiser of ``gradient . y + curvature/2 |y - x|²`` over the sphere or the ball; |out - x|."""
    d = x.shape[0]
    square = 0.0
    for j in range(d):
        out[j] = curvature * x[j] - gradient[j]
        square += out[j] * out[j]
    scale = math.sqrt(square)
    if not on_sphere:
        scale = max(scale, curvature)
    moved = 0.0
    for j in range(d):
        out[j] = out[j] / scale if scale > 0 else x[j]
        moved += (out[j] - x[j]) ** 2
    return math.sqrt(moved)


@njit(cache=True, nogil=True, fastmath=FAST)
def place_rows(offsets, log_shares, means, covariances, on_sphere, curvature, tolerance, n_steps, out):
    """Minimise ``_value`` for each row of ``offsets``; return how many rows did not come to rest."""
    n, d = offsets.shape
    x, y = np.empty(d), np.empty(d)
    gradient, new_gradient, scratch = np.empty(d), np.empty(d), np.empty(d)
    unfinished = 0
    for i in range(n):
        offset, bound = offsets[i], curvature
        x[:] = 0.0
        _value(x, offset, log_shares, means, covariances, gradient, scratch)
        if not minimiser_of_bound(x, gradient, 0.0, True, y) > 0:
            y[:] = 1.0 / math.sqrt(d)
        x, y = y, x
        value = _value(x, offset, log_shares, means, covariances, gradient, scratch)
        moved = np.inf
        for _ in range(n_steps):
            while True:
                moved = minimiser_of_bound(x, gradient, bound, on_sphere, y)
                new_value = _value(y, offset, log_shares, means, covariances, new_gradient, scratch)
                expected = value + 0.5 * bound * moved * moved
                for j in range(d):
                    expected += gradient[j] * (y[j] - x[j])
                if new_value <= expected + 1e-13 or bound > 1e6:
                    break
                bound *= 2.0
            x, y = y, x
            gradient, new_gradient = new_gradient, gradient
            value = new_value
            if moved <= tolerance:
                break
        unfinished += moved > tolerance
        for j in range(d):
            out[i, j] = x[j]
    return unfinished
