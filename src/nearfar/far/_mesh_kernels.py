"""Compiled parts of the particle mesh: sorting points by mesh row, spreading charges, reading the potential.

Lengths are in mesh steps. A point in cell (r, c) touches rows r .. r + 3 and columns c .. c + 3 with the weights of
a cubic B-spline. Points are sorted by row, and four rows at a time lie interleaved in a short buffer, so that the
sixteen entries that a point touches are contiguous: one vector.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST

BATCH = 128  # points whose weights are computed together


@njit(cache=True, nogil=True)
def bounds_of_block(Y, start, stop, low, high):
    """Write the smallest and largest coordinates of rows ``start`` to ``stop``; return how many are not finite."""
    bad = 0
    for k in range(Y.shape[1]):
        smallest, largest = Y[start, k], Y[start, k]
        for i in range(start, stop):
            y = Y[i, k]
            bad += 0 if np.isfinite(y) else 1
            smallest = min(smallest, y)
            largest = max(largest, y)
        low[k], high[k] = smallest, largest
    return bad


@njit(cache=True, nogil=True)
def count_rows(Y, start, stop, low, scale, counts):
    """Count the points of each mesh row; the last coordinate decides."""
    k = Y.shape[1] - 1
    for i in range(start, stop):
        counts[np.int64((Y[i, k] - low) * scale)] += 1


@njit(cache=True, nogil=True)
def sort_rows(Y, start, stop, low_column, low_row, scale, places, order, columns, offsets):
    """Put points at their ``places``, one running place per row: index, position along the row, offset across it."""
    k = Y.shape[1] - 1
    zero = Y.dtype.type(0)
    for i in range(start, stop):
        position = (Y[i, k] - low_row) * scale
        row = np.int64(position)
        place = places[row]
        places[row] = place + 1
        order[place] = i
        columns[place] = (Y[i, 0] - low_column) * scale if k > 0 else zero
        offsets[place] = position - Y.dtype.type(row)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def spread(first_row, last_row, starts, order, columns, offsets, charges, width, mesh):
    """Add the charges (none given: ones) of the points in some rows to the mesh, ``width`` columns of it."""
    one = mesh.dtype.type(1)
    strip = np.zeros(4 * width, mesh.dtype)
    w = np.empty(8 * BATCH, mesh.dtype)
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            _weights(columns[first:last], offsets[first:last], w)
            for p in range(last - first):
                q = charges[order[first + p]] if len(charges) > 0 else one
                _add(strip, np.uint64(columns[first + p]), q, p, w)
        for k in range(4):
            line = mesh[row + k]
            for c in range(width):
                line[c] += strip[4 * c + k]
        strip[:] = mesh.dtype.type(0)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def gather(first_row, last_row, starts, order, columns, offsets, charges, width, mesh, own, factors, value, gradient):
    """Write value and gradient of the interpolated potential at the points in some rows, themselves left out.

    ``own`` are the coefficients of what a point of charge 1 adds to its own value, a polynomial in t (1 - t) of both
    directions. ``factors`` are (of the mesh, the same / step, constant potential, sum of all charges).
    """
    scale, per_step, constant, total = factors
    one = mesh.dtype.type(1)
    strip = np.empty(4 * width, mesh.dtype)
    w = np.empty(19 * BATCH, mesh.dtype)
    d = gradient.shape[1]
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        for k in range(4):
            line = mesh[row + k]
            for c in range(width):
                strip[4 * c + k] = line[c]
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            _weights(columns[first:last], offsets[first:last], w)
            _slopes(columns[first:last], offsets[first:last], own, w)
            for p in range(last - first):
                i = order[first + p]
                q = charges[i] if len(charges) > 0 else one
                phi, along, across = _interpolate(strip, np.uint64(columns[first + p]), p, w)
                value[i] = scale * (phi - q * w[16 * BATCH + p]) + constant * (total - q)
                if d > 1:
                    gradient[i, 0] = per_step * (along - q * w[17 * BATCH + p])
                gradient[i, d - 1] = per_step * (across - q * w[18 * BATCH + p])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _weights(columns, offsets, w):
    """Write the spline weights of some points: w[:4] along the row, w[4:8] across it, one BATCH for each.

    One flat array: with several of them nothing would vectorise, because they might overlap.
    """
    one = w.dtype.type(1)
    for p in range(len(columns)):
        t = columns[p] - w.dtype.type(np.int32(columns[p]))
        w[p], w[BATCH + p], w[2 * BATCH + p], w[3 * BATCH + p] = _spline(t, one)
        w[4 * BATCH + p], w[5 * BATCH + p], w[6 * BATCH + p], w[7 * BATCH + p] = _spline(offsets[p], one)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _slopes(columns, offsets, own, w):
    """Write their derivatives to w[8:16], and to w[16:19] what the points find of themselves."""
    one = w.dtype.type(1)
    for p in range(len(columns)):
        x = columns[p] - w.dtype.type(np.int32(columns[p]))
        y = offsets[p]
        w[8 * BATCH + p], w[9 * BATCH + p], w[10 * BATCH + p], w[11 * BATCH + p] = _spline_slope(x, one)
        w[12 * BATCH + p], w[13 * BATCH + p], w[14 * BATCH + p], w[15 * BATCH + p] = _spline_slope(y, one)
        w[16 * BATCH + p], w[17 * BATCH + p], w[18 * BATCH + p] = _own(own, x, y, one)


@njit(cache=True, nogil=True, inline="always")
def _add(strip, column, q, p, w):
    """Add a point's charge to the sixteen entries of the strip that it touches."""
    x0, x1, x2, x3 = q * w[p], q * w[BATCH + p], q * w[2 * BATCH + p], q * w[3 * BATCH + p]
    y0, y1, y2, y3 = w[4 * BATCH + p], w[5 * BATCH + p], w[6 * BATCH + p], w[7 * BATCH + p]
    at = column * np.uint64(4)
    s = strip[at : at + np.uint64(16)]
    s[0] += x0 * y0
    s[1] += x0 * y1
    s[2] += x0 * y2
    s[3] += x0 * y3
    s[4] += x1 * y0
    s[5] += x1 * y1
    s[6] += x1 * y2
    s[7] += x1 * y3
    s[8] += x2 * y0
    s[9] += x2 * y1
    s[10] += x2 * y2
    s[11] += x2 * y3
    s[12] += x3 * y0
    s[13] += x3 * y1
    s[14] += x3 * y2
    s[15] += x3 * y3


@njit(cache=True, nogil=True, inline="always")
def _interpolate(strip, column, p, w):
    """Return value and slopes along and across the row, from the sixteen entries that a point touches."""
    at = column * np.uint64(4)
    s = strip[at : at + np.uint64(16)]
    x0, x1, x2, x3 = w[p], w[BATCH + p], w[2 * BATCH + p], w[3 * BATCH + p]
    r0 = x0 * s[0] + x1 * s[4] + x2 * s[8] + x3 * s[12]
    r1 = x0 * s[1] + x1 * s[5] + x2 * s[9] + x3 * s[13]
    r2 = x0 * s[2] + x1 * s[6] + x2 * s[10] + x3 * s[14]
    r3 = x0 * s[3] + x1 * s[7] + x2 * s[11] + x3 * s[15]
    x0, x1, x2, x3 = w[8 * BATCH + p], w[9 * BATCH + p], w[10 * BATCH + p], w[11 * BATCH + p]
    g0 = x0 * s[0] + x1 * s[4] + x2 * s[8] + x3 * s[12]
    g1 = x0 * s[1] + x1 * s[5] + x2 * s[9] + x3 * s[13]
    g2 = x0 * s[2] + x1 * s[6] + x2 * s[10] + x3 * s[14]
    g3 = x0 * s[3] + x1 * s[7] + x2 * s[11] + x3 * s[15]
    y0, y1, y2, y3 = w[4 * BATCH + p], w[5 * BATCH + p], w[6 * BATCH + p], w[7 * BATCH + p]
    value, along = y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3, y0 * g0 + y1 * g1 + y2 * g2 + y3 * g3
    y0, y1, y2, y3 = w[12 * BATCH + p], w[13 * BATCH + p], w[14 * BATCH + p], w[15 * BATCH + p]
    return value, along, y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3


@njit(cache=True, nogil=True, inline="always")
def _spline(t, one):
    """Return the four weights of a point at offset t in its cell."""
    half, sixth = one / (one + one), one / (one + one + one + one + one + one)
    s = one - t
    t2, s2 = t * t, s * s
    two_thirds = sixth + half
    return s2 * s * sixth, two_thirds - t2 * (one - half * t), two_thirds - s2 * (one - half * s), t2 * t * sixth


@njit(cache=True, nogil=True, inline="always")
def _spline_slope(t, one):
    """Return their derivatives in t."""
    half = one / (one + one)
    s = one - t
    return -half * s * s, t * (half * t + t - one - one), s * (one + one - half * s - s), half * t * t


@njit(cache=True, nogil=True, inline="always")
def _own(own, tx, ty, one):
    """Return what a point of charge 1 finds of itself: its potential, and half the gradient of that."""
    zx, zy = tx * (one - tx), ty * (one - ty)
    a0 = own[0, 0] + zy * (own[0, 1] + zy * (own[0, 2] + zy * own[0, 3]))
    a1 = own[1, 0] + zy * (own[1, 1] + zy * (own[1, 2] + zy * own[1, 3]))
    a2 = own[2, 0] + zy * (own[2, 1] + zy * (own[2, 2] + zy * own[2, 3]))
    a3 = own[3, 0] + zy * (own[3, 1] + zy * (own[3, 2] + zy * own[3, 3]))
    # The same function of x and y: own is a symmetric matrix.
    b1 = own[1, 0] + zx * (own[1, 1] + zx * (own[1, 2] + zx * own[1, 3]))
    b2 = own[2, 0] + zx * (own[2, 1] + zx * (own[2, 2] + zx * own[2, 3]))
    b3 = own[3, 0] + zx * (own[3, 1] + zx * (own[3, 2] + zx * own[3, 3]))
    two, three = one + one, one + one + one
    half = one / two
    value = a0 + zx * (a1 + zx * (a2 + zx * a3))
    slope_x = (a1 + zx * (two * a2 + zx * three * a3)) * (half - tx)
    slope_y = (b1 + zy * (two * b2 + zy * three * b3)) * (half - ty)
    return value, slope_x, slope_y
