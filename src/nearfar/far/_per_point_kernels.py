"""Kernels that differ from point to point, compiled: w(f; theta) of a pair, and sums over all pairs of points.

Which kernel is told by the length of the tuple ``family``, as in scores/_kernels.py: () exponential with precisions
theta, (0,) inhomogeneous Student's t with degrees of freedom theta. ``units`` is (1, 1/2) in the type of the positions.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.scores._kernels import exp, ln

CHUNK = 1024  # others whose sums stay in the type of the positions; the chunks are added up in float64


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
def ln1p(one, x):
    """ln(1 + x), x >= 0, with a small relative error also where x is small: with many degrees of freedom it is."""
    u = one + x
    return ln(u) + (x - (u - one)) / u


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def log_weight(family, units, theta, f):
    """Return ln w(f; theta)."""
    one, half = units
    if len(family) == 0:
        return -theta * f
    return -half * (theta + one) * ln1p(one, f / theta)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pull(family, units, theta, f):
    """Return -w'/w, w' the derivative in f."""
    one, half = units
    if len(family) == 0:
        return theta
    return half * (theta + one) / (theta + f)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def rise(family, units, theta, f):
    """Return d ln w / d theta."""
    one, half = units
    if len(family) == 0:
        return -f
    x = f / theta
    return half * ((theta + one) * x / (theta + f) - ln1p(one, x))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pair_sums(Y, start, stop, kernel, mine, kinds, charges, outs):
    """Write values and gradients of potentials at rows ``start`` to ``stop``, and sums of dw/dtheta.

    ``Y`` has shape (d, n), ``kernel`` is (family, units, theta). ``mine`` is (0,) for the kernel of the row, () for
    that of each of the others. ``kinds`` are those of w, of w ln w - w and of dw/dtheta: () for what is not asked for,
    (0,) for charges of one, (0, 0) for given ``charges``; the last has charges of one. Each of ``outs`` has shape
    (1 + d, n), the last (1, n).
    """
    d, n = Y.shape
    sums = np.empty((3, 1 + d))
    buffers = np.empty((3, CHUNK), Y.dtype)
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk(Y, i, first, last, kernel, mine, kinds, charges, buffers, sums)
            first = last
        for kind in range(2):
            if outs[kind].shape[1] > 0:
                outs[kind][0, i] = sums[kind, 0]
                for k in range(1, 1 + d):
                    outs[kind][k, i] = -2.0 * sums[kind, k]
        if len(kinds[2]) > 0:
            outs[2][0, i] = sums[2, 0]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add_chunk(Y, i, first, last, kernel, mine, kinds, charges, buffers, sums):
    """Add the others ``first`` to ``last``: sum of c V, and of -c V' (y_i - y_j)."""
    family, units, theta = kernel
    weight_kind, entropy_kind, rise_kind = kinds
    m = last - first
    own, others = theta[i], theta[first:last]
    weight_charge, entropy_charge = charges[0][first:last], charges[1][first:last]
    f, weight_force, entropy_force = buffers[0, :m], buffers[1, :m], buffers[2, :m]
    zero = Y.dtype.type(0)
    f[:] = zero
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    w_sum, e_sum, r_sum = zero, zero, zero
    for j in range(m):
        t = own if len(mine) > 0 else others[j]
        log_w = log_weight(family, units, t, f[j])
        w = exp(log_w)
        force = w * pull(family, units, t, f[j])
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w_sum += value
            weight_force[j] = slope
        if len(entropy_kind) > 0:
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e_sum += value
            entropy_force[j] = slope
        if len(rise_kind) > 0:
            r_sum += w * rise(family, units, t, f[j])
    sums[0, 0] += w_sum
    sums[1, 0] += e_sum
    sums[2, 0] += r_sum
    _add_forces(Y, i, first, last, kinds, weight_force, entropy_force, sums)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add_forces(Y, i, first, last, kinds, weight_force, entropy_force, sums):
    weight_kind, entropy_kind, _ = kinds
    m, zero = last - first, Y.dtype.type(0)
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        w_sum, e_sum = zero, zero
        for j in range(m):
            if len(weight_kind) > 0:
                w_sum += weight_force[j] * (a - y[j])
            if len(entropy_kind) > 0:
                e_sum += entropy_force[j] * (a - y[j])
        sums[0, 1 + k] += w_sum
        sums[1, 1 + k] += e_sum
