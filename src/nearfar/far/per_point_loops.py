"""Compiled sums over all pairs of points whose kernels differ, see :mod:`nearfar.far.per_point`."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST, LANES, load, multiply_add, multiply_add_lanes, store, zeros_like
from nearfar.far.fields import CHUNK


@jit(fastmath=FAST, error_model="numpy", inline="always")
def pair_sums(functions, Y, parameters, given, outs, start, stop):
    """Write value and gradient of a potential, and sums of c dw/dtheta, at rows ``start`` to ``stop``.

    ``functions`` are those of the kernel, whether there are two components, whether the potential is w ln w - w, and
    whether the last sums are wanted.
    Y is (d, columns), zeros behind the points, so that no loop has a remainder that is no vector; ``given`` are the
    charges, zero where there is no point. Of ``outs`` the second takes -V' of each pair, from row ``outs[2]`` on, if it
    has room.
    """
    (d, width), (out, slopes, first_kept), (theta, units) = Y.shape, outs, parameters
    sums, f, forces, charges = np.empty(2 + d), np.empty(CHUNK, Y.dtype), np.empty(width, Y.dtype), given.copy()
    for i in range(start, stop):
        sums[:] = 0.0
        row = slopes[i - first_kept] if slopes.size > 0 else forces
        charges[i] = Y.dtype.type(0)  # the point itself: at distance 0 neither the force nor dw/dtheta is anything
        for first in range(0, width, CHUNK):
            pairs = i, first, min(first + CHUNK, width)
            if functions[1][0]:
                _add_in_plane(functions, Y, pairs, (theta[i], units), charges, row, sums)
            else:
                _add_chunk(functions, Y, pairs, (theta[i], units), charges, row, (f, sums))
        charges[i] = given[i]
        out[0, i] = sums[0]
        for k in range(1, 1 + d):
            out[k, i] = -2.0 * sums[k]
        out[1 + d, i] = sums[1 + d]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_in_plane(functions, Y, pairs, parameters, all_charges, row, sums):
    """Do what ``_add_chunk`` does, with two components."""
    (own, units), (i, first, last), scalar = parameters, pairs, Y.dtype.type
    # Slices, so that no index might be negative, which would keep the loop from vectorising.
    x, y, charges, forces = Y[0, first:last], Y[1, first:last], all_charges[first:last], row[first:last]
    a, b = Y[0, i], Y[1, i]
    total = along = across = rises = scalar(0)
    for j in range(len(x)):
        dx, dy, q = a - x[j], b - y[j], charges[j]
        value, force, rise = _of_pair(functions, dx * dx + dy * dy, own, units)
        forces[j] = force
        total += q * value
        if functions[1][2]:
            rises += q * rise
        along += q * force * dx
        across += q * force * dy
    sums[0] += total
    sums[1] += along
    sums[2] += across
    sums[3] += rises


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_chunk(functions, Y, pairs, parameters, all_charges, row, outs):
    """Add the others ``first`` to ``last``: sum of c V, of -c V' (y_i - y_j), and of c dw/dtheta; write -V'."""
    (own, units), (i, first, last), (of_f, sums), scalar = parameters, pairs, outs, Y.dtype.type
    d, m, total, rises = len(Y), last - first, scalar(0), scalar(0)
    f, charges, forces = of_f[:m], all_charges[first:last], row[first:last]
    f[:] = scalar(0)
    for k in range(d):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    for j in range(m):
        value, forces[j], rise = _of_pair(functions, f[j], own, units)
        total += charges[j] * value
        if functions[1][2]:
            rises += charges[j] * rise
    sums[0] += total
    sums[1 + d] += rises
    for k in range(d):
        a, y, total = Y[k, i], Y[k, first:last], scalar(0)
        for j in range(m):
            total += charges[j] * forces[j] * (a - y[j])
        sums[1 + k] += total


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _of_pair(functions, f, own, units):
    """Return V, -V' and dw/dtheta."""
    kernel, kind = functions
    w, log_w, slope, rise = kernel.together(f, own, *units)
    return (w * log_w - w, slope * log_w, rise) if kind[1] else (w, slope, rise)


@jit(fastmath=FAST, error_model="numpy")
def add_columns(Y, slopes, charges, first_row, out, start, stop):
    """Add the gradients at points ``start`` to ``stop`` of what some rows do to them, by the kernels of the rows.

    Four rows together: so the sums are read and written a quarter as often.
    """
    d, width, last = Y.shape[0], Y.shape[1], len(slopes) - 1
    sums, ones = np.zeros((d, stop - start + LANES), Y.dtype), np.ones(LANES, Y.dtype)
    one, zero, none = load(ones, 0, LANES), zeros_like(Y), Y.dtype.type(0)
    for r in range(0, last + 1, 4):
        r1, r2, r3, first = min(r + 1, last), min(r + 2, last), min(r + 3, last), first_row
        q0, q1 = charges[first + r], charges[first + r1] if r + 1 <= last else none
        q2, q3 = charges[first + r2] if r + 2 <= last else none, charges[first + r3] if r + 3 <= last else none
        for k in range(d):
            a0, a1, a2, a3 = -Y[k, first + r], -Y[k, first + r1], -Y[k, first + r2], -Y[k, first + r3]
            for at in range(start, stop, LANES):
                left, to = min(stop - at, LANES), k * sums.shape[1] + at - start
                y, total = load(Y, k * width + at, left), load(sums, to, LANES)
                row0, row1 = load(slopes, r * width + at, left), load(slopes, r1 * width + at, left)
                row2, row3 = load(slopes, r2 * width + at, left), load(slopes, r3 * width + at, left)
                total = multiply_add_lanes(multiply_add(q0, row0, zero), multiply_add(a0, one, y), total)
                total = multiply_add_lanes(multiply_add(q1, row1, zero), multiply_add(a1, one, y), total)
                total = multiply_add_lanes(multiply_add(q2, row2, zero), multiply_add(a2, one, y), total)
                total = multiply_add_lanes(multiply_add(q3, row3, zero), multiply_add(a3, one, y), total)
                store(sums, to, LANES, total)
    for k in range(d):
        for j in range(stop - start):
            out[start + j, k] -= 2.0 * sums[k, j]
