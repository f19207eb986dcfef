"""Compiled sums over all pairs of points of a map: values and gradients of the potentials of far/fields.py.

Positions come as d contiguous rows, so that the innermost loop runs over the other points and vectorises. What is asked
for is told by the lengths of tuples, which numba knows when it compiles (see scores/_kernels.py): ``weight_kind`` and
``entropy_kind`` are () for a potential that is not asked for, (0,) for charges of one, (0, 0) for given charges.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.scores import _kernels as score

CHUNK = 1024  # others whose sums stay in the type of the positions; the chunks are added up in float64


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pair_sums(Y, dims, start, stop, kernel, kinds, charges, weight_out, entropy_out):
    """Write values and gradients of rows ``start`` to ``stop``, in one to three dimensions.

    ``Y`` has shape (d, n), ``dims`` is a tuple of length d, ``kernel`` is (family, constants), ``kinds`` and
    ``charges`` are those of w and of the entropy. Each ``out`` has shape (1 + d, n); what is not asked for is not
    touched.
    """
    weight_kind, entropy_kind = kinds
    sums = np.empty(8)
    n = Y.shape[1]
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk(Y, dims, i, first, last, kernel, kinds, charges, sums)
            first = last
        if len(weight_kind) > 0:
            _store(sums, 0, i, weight_out)
        if len(entropy_kind) > 0:
            _store(sums, 4, i, entropy_out)


@njit(cache=True, nogil=True, inline="always")
def _store(sums, at, i, out):
    out[0, i] = sums[at]
    for k in range(1, out.shape[0]):
        out[k, i] = -2.0 * sums[at + k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add_chunk(Y, dims, i, first, last, kernel, kinds, charges, sums):
    """Add the others ``first`` to ``last``: sum of c V and of -c V' (y_i - y_j), for w in sums[:4], entropy behind."""
    family, constants = kernel
    weight_kind, entropy_kind = kinds
    weight_charges, entropy_charges = charges
    k1, k2 = min(1, len(dims) - 1), len(dims) - 1
    a0, a1, a2 = Y[0, i], Y[k1, i], Y[k2, i]
    # Loops over slices from 0: an index that might be negative would keep them from vectorising.
    y0, y1, y2 = Y[0, first:last], Y[k1, first:last], Y[k2, first:last]
    weight_charge, entropy_charge = weight_charges[first:last], entropy_charges[first:last]
    zero = Y.dtype.type(0)
    w0, w1, w2, w3 = zero, zero, zero, zero
    e0, e1, e2, e3 = zero, zero, zero, zero
    for j in range(last - first):
        b0, b1, b2 = a0 - y0[j], a1 - y1[j], a2 - y2[j]
        f = b0 * b0
        if len(dims) > 1:
            f += b1 * b1
        if len(dims) > 2:
            f += b2 * b2
        w = score.weight(family, constants, f)
        force = w * score.pull(family, constants, f)
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w0 += value
            w1 += slope * b0
            w2 += slope * b1
            w3 += slope * b2
        if len(entropy_kind) > 0:
            log_w = score.log_weight(family, constants, f)
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e0 += value
            e1 += slope * b0
            e2 += slope * b1
            e3 += slope * b2
    sums[0] += w0
    sums[1] += w1
    sums[2] += w2
    sums[3] += w3
    sums[4] += e0
    sums[5] += e1
    sums[6] += e2
    sums[7] += e3


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pair_sums_any(Y, start, stop, kernel, kinds, charges, weight_out, entropy_out):
    """Write the same for any number of dimensions: chunk by chunk, through short buffers."""
    weight_kind, entropy_kind = kinds
    d, n = Y.shape
    weight_sums, entropy_sums = np.empty(1 + d), np.empty(1 + d)
    buffers = np.empty((3, CHUNK), Y.dtype)
    for i in range(start, stop):
        weight_sums[:] = 0.0
        entropy_sums[:] = 0.0
        first = 0
        while first < n:
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk_any(Y, i, first, last, kernel, kinds, charges, buffers, weight_sums, entropy_sums)
            first = last
        if len(weight_kind) > 0:
            _store(weight_sums, 0, i, weight_out)
        if len(entropy_kind) > 0:
            _store(entropy_sums, 0, i, entropy_out)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add_chunk_any(Y, i, first, last, kernel, kinds, charges, buffers, weight_sums, entropy_sums):
    family, constants = kernel
    weight_kind, entropy_kind = kinds
    weight_charges, entropy_charges = charges
    m = last - first
    weight_charge, entropy_charge = weight_charges[first:last], entropy_charges[first:last]
    f, weight_force, entropy_force = buffers[0, :m], buffers[1, :m], buffers[2, :m]
    f[:] = Y.dtype.type(0)
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    w_sum, e_sum = Y.dtype.type(0), Y.dtype.type(0)
    for j in range(m):
        w = score.weight(family, constants, f[j])
        force = w * score.pull(family, constants, f[j])
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w_sum += value
            weight_force[j] = slope
        if len(entropy_kind) > 0:
            log_w = score.log_weight(family, constants, f[j])
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e_sum += value
            entropy_force[j] = slope
    weight_sums[0] += w_sum
    entropy_sums[0] += e_sum
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        w_sum, e_sum = Y.dtype.type(0), Y.dtype.type(0)
        for j in range(m):
            if len(weight_kind) > 0:
                w_sum += weight_force[j] * (a - y[j])
            if len(entropy_kind) > 0:
                e_sum += entropy_force[j] * (a - y[j])
        weight_sums[1 + k] += w_sum
        entropy_sums[1 + k] += e_sum
