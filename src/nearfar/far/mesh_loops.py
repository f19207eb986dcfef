"""Compiled parts of the particle mesh: sorting points by mesh row, spreading charges, reading the potential.

Lengths are in mesh steps. A point in cell (r, c) touches P rows from r on and P columns from c on with the weights of
a B-spline of degree P - 1. The kernels get P as the length of a tuple, ``taps``, which numba knows when it
compiles: loops over the weights unroll. Points are sorted by row, and the rows that they touch lie interleaved in a
short buffer, ``lanes`` numbers for each column, so that all entries that a point touches are contiguous: a few
vectors. Six rows take eight lanes, two of them empty.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST

BATCH = 128  # points whose weights are computed together


@jit
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


@jit
def count_rows(Y, start, stop, low, scale, counts):
    """Count the points of each mesh row; the last coordinate decides."""
    k = Y.shape[1] - 1
    for i in range(start, stop):
        counts[np.int64((Y[i, k] - low) * scale)] += 1


@jit
def sort_rows(Y, start, stop, grid, places, points):
    """Put points at their ``places``, one running place per row: index, position along the row, offset across it.

    ``grid`` are the lowest column and row and the number of cells in a unit of length.
    """
    low_column, low_row, scale = grid
    order, columns, offsets = points
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


@jit(fastmath=FAST, error_model="numpy")
def spread_charges(spline, rows, points, charges, level):
    """Add the charges (none given: ones) of the points in some rows to a mesh.

    ``spline`` are a tuple of the length of its order and its coefficients, ``level`` is a mesh and how many of its
    columns are used.
    """
    (taps, _), (mesh, width) = spline, level
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    one = mesh.dtype.type(1)
    lanes = 4 if len(taps) == 4 else 8
    strip = np.zeros(lanes * width, mesh.dtype)
    w = np.zeros((4 * lanes + 5) * BATCH, mesh.dtype)
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            for p in range(last - first):
                q, column = charges[order[first + p]] if len(charges) > 0 else one, np.uint64(columns[first + p])
                Y = lanes * BATCH + p
                y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
                if len(taps) > 4:
                    Y = Y + 4 * BATCH
                    y4, y5, y6, y7 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
                for a in range(len(taps)):
                    x = q * w[a * BATCH + p]
                    at = (column + np.uint64(a)) * np.uint64(lanes)
                    s = strip[at : at + np.uint64(lanes)]
                    s[0] += x * y0
                    s[1] += x * y1
                    s[2] += x * y2
                    s[3] += x * y3
                    if len(taps) > 4:
                        s[4] += x * y4
                        s[5] += x * y5
                        s[6] += x * y6
                        s[7] += x * y7
        if len(taps) * (starts[row + 1] - starts[row]) < width:  # few points: only what they touch
            for p in range(starts[row], starts[row + 1]):
                for a in range(len(taps)):  # zeros are left: several points may touch the same
                    touched = np.uint64(columns[p]) + np.uint64(a)
                    for k in range(len(taps)):
                        at = touched * np.uint64(lanes) + np.uint64(k)
                        mesh[row + k, touched] += strip[at]
                        strip[at] = mesh.dtype.type(0)
            continue
        for k in range(len(taps)):
            line = mesh[row + k]
            for c in range(width):
                line[c] += strip[lanes * c + k]
        strip[:] = mesh.dtype.type(0)


@jit(fastmath=FAST, error_model="numpy")
def gather(spline, rows, points, sources, field, outs):
    """Write value and gradient of the interpolated potential at the points in some rows, themselves left out.

    ``sources`` are, for each kind of charge, the charges and the coefficients of what a point of charge 1 adds to its
    own value, a polynomial in t (1 - t) of both directions. ``field`` are a mesh, how many of its columns are used, and
    factors (of the mesh, the same / step, a constant to be added).
    """
    (taps, _), (charges, own), (mesh, width, factors), (value, gradient) = spline, sources, field, outs
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    scale, per_step, constant = factors
    lanes = 4 if len(taps) == 4 else 8
    strip = np.zeros(lanes * width, mesh.dtype)
    w = np.zeros((4 * lanes + 6) * BATCH, mesh.dtype)
    found = (4 * lanes + 2) * BATCH
    d, one = gradient.shape[1], mesh.dtype.type(1)
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        if len(taps) * (starts[row + 1] - starts[row]) < width:  # few points: only what they touch
            for p in range(starts[row], starts[row + 1]):
                for a in range(len(taps)):
                    touched = np.uint64(columns[p]) + np.uint64(a)
                    for k in range(len(taps)):
                        strip[touched * np.uint64(lanes) + np.uint64(k)] = mesh[row + k, touched]
        else:
            for k in range(len(taps)):
                line = mesh[row + k]
                for c in range(width):
                    strip[lanes * c + k] = line[c]
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            w[found : found + 3 * BATCH] = mesh.dtype.type(0)
            for kind in range(len(own)):
                for p in range(last - first):  # ones if none are given
                    q = charges[kind, order[first + p]] if charges.shape[1] > 0 else one
                    w[(4 * lanes + 5) * BATCH + p] = q
                _own(taps, own[kind], last - first, w)
            for p in range(last - first):
                i = order[first + p]
                phi, along, across = _interpolate(taps, strip, np.uint64(columns[first + p]), p, w)
                value[i] = scale * (phi - w[found + p]) + constant
                if d > 1:
                    gradient[i, 0] = per_step * (along - w[found + BATCH + p])
                gradient[i, d - 1] = per_step * (across - w[found + 2 * BATCH + p])


@jit(fastmath=FAST, error_model="numpy")
def write_weights(spline, columns, offsets, w):
    """Write the spline weights of some points: one BATCH for each number.

    With L lanes, w[:L] are weights along the row, w[L:2L] across it, w[2L:4L] their slopes, w[4L:] the offsets of the
    points in their cells, from the middle. One flat array: with several of them nothing would vectorise, because they
    might overlap.
    """
    taps, table = spline
    lanes = 4 if len(taps) == 4 else 8
    one = w.dtype.type(1)
    zero, half = one - one, one / (one + one)
    at = 4 * lanes * BATCH
    n = len(columns)
    for p in range(n):
        w[at + p] = columns[p] - w.dtype.type(np.int32(columns[p])) - half
        w[at + BATCH + p] = offsets[p] - half
    for side in range(2):
        t = at + side * BATCH
        for a in range(len(taps)):
            to = (side * lanes + a) * BATCH
            for p in range(n):
                x, weight, slope = w[t + p], zero, zero
                for k in range(len(taps)):  # Horner's rule
                    slope = slope * x + weight
                    weight = weight * x + table[a, k]
                w[to + p] = weight
                w[to + 2 * lanes * BATCH + p] = slope


@jit(inline="always")
def _interpolate(taps, strip, column, p, w):
    """Return value and slopes along and across the row, from the entries that a point touches."""
    lanes = 4 if len(taps) == 4 else 8
    zero = w.dtype.type(0)
    r0, r1, r2, r3, r4, r5, r6, r7 = zero, zero, zero, zero, zero, zero, zero, zero
    g0, g1, g2, g3, g4, g5, g6, g7 = zero, zero, zero, zero, zero, zero, zero, zero
    for a in range(len(taps)):
        x, slope = w[a * BATCH + p], w[(2 * lanes + a) * BATCH + p]
        at = (column + np.uint64(a)) * np.uint64(lanes)
        s = strip[at : at + np.uint64(lanes)]
        r0, r1, r2, r3 = r0 + x * s[0], r1 + x * s[1], r2 + x * s[2], r3 + x * s[3]
        g0, g1, g2, g3 = g0 + slope * s[0], g1 + slope * s[1], g2 + slope * s[2], g3 + slope * s[3]
        if len(taps) > 4:
            r4, r5, r6, r7 = r4 + x * s[4], r5 + x * s[5], r6 + x * s[6], r7 + x * s[7]
            g4, g5, g6, g7 = g4 + slope * s[4], g5 + slope * s[5], g6 + slope * s[6], g7 + slope * s[7]
    Y = lanes * BATCH + p
    y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
    value, along = y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3, y0 * g0 + y1 * g1 + y2 * g2 + y3 * g3
    D = 3 * lanes * BATCH + p
    y0, y1, y2, y3 = w[D], w[D + BATCH], w[D + 2 * BATCH], w[D + 3 * BATCH]
    across = y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3
    if len(taps) > 4:
        Y, D = Y + 4 * BATCH, D + 4 * BATCH
        y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
        value += y0 * r4 + y1 * r5 + y2 * r6 + y3 * r7
        along += y0 * g4 + y1 * g5 + y2 * g6 + y3 * g7
        y0, y1, y2, y3 = w[D], w[D + BATCH], w[D + 2 * BATCH], w[D + 3 * BATCH]
        across += y0 * r4 + y1 * r5 + y2 * r6 + y3 * r7
    return value, along, across


@jit(fastmath=FAST, error_model="numpy")
def _own(taps, own, n, w):
    """Add what points find of themselves, their potential and half its gradient, behind their offsets.

    By Horner's rule, once with the powers of the offset across the row outside, once with those along it.
    """
    one = w.dtype.type(1)
    zero, half = one - one, one / (one + one)
    at = 4 * (4 if len(taps) == 4 else 8) * BATCH
    for p in range(n):
        x, y = w[at + p], w[at + BATCH + p]
        zx, zy = half * half - x * x, half * half - y * y
        value, slope_y, swapped, slope_x = zero, zero, zero, zero
        for s in range(len(taps)):
            along, across = zero, zero
            for t in range(len(taps)):
                along = along * zx + own[s, t]
                across = across * zy + own[t, s]
            slope_y = slope_y * zy + value
            value = value * zy + along
            slope_x = slope_x * zx + swapped
            swapped = swapped * zx + across
        q = w[at + 5 * BATCH + p]
        w[at + 2 * BATCH + p] += q * value
        w[at + 3 * BATCH + p] -= q * slope_x * x
        w[at + 4 * BATCH + p] -= q * slope_y * y


@jit(fastmath=FAST, error_model="numpy")
def add_product(wave, spectrum, start, factor, out):
    """Add waves, pairs of a real and an imaginary part, times the columns of a real spectrum from ``start`` on."""
    for m in range(spectrum.shape[0]):
        one, real, total = wave[m], spectrum[m][start:], out[m]
        for k in range(total.size // 2):
            share = factor * real[k]
            total[2 * k] += one[2 * k] * share
            total[2 * k + 1] += one[2 * k + 1] * share


# Compiled passage between a mesh and one of F times its step, by the two-scale relation of B-splines.
#
# A B-spline of order P and F times the step is the sum of fine ones with the coefficients C of ``filter_``, (F - 1) P +
# 1 of them. A point in cell c touches the mesh points c .. c + P - 1, so mesh point M of the coarse mesh takes part in
# those of the fine mesh from F (M - P + 1) + P - 1 on. Both kernels work on some rows of what they write.


@jit(fastmath=FAST, error_model="numpy")
def restrict_mesh(fine_level, filter_, factor, coarse_level, start, stop):
    """Write charges of the fine mesh on the coarse one: the transpose of ``prolong_mesh``."""
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    line = np.empty(width, fine.dtype)
    for M in range(start, stop):
        first = _first(M, filter_.size, factor)
        line[:] = fine.dtype.type(0)
        for k in range(max(0, -first), min(filter_.size, fine.shape[0] - first)):
            c, row = filter_[k], fine[first + k]
            for t in range(width):
                line[t] += c * row[t]
        coarse[M] = fine.dtype.type(0)
        for N in range(coarse_width):
            first, total = _first(N, filter_.size, factor), fine.dtype.type(0)
            for k in range(max(0, -first), min(filter_.size, width - first)):
                total += filter_[k] * line[first + k]
            coarse[M, N] = total


@jit(fastmath=FAST, error_model="numpy")
def prolong_mesh(coarse_level, filter_, factor, fine_level, start, stop):
    """Add the potential of the coarse mesh to the fine one.

    First along the rows of the coarse mesh, which are few, then across them.
    """
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    lowest, highest = start // factor, min(coarse.shape[0], (stop - 1 + filter_.size) // factor + 1)
    long = np.zeros((highest - lowest, width), fine.dtype)
    for M in range(lowest, highest):
        line = long[M - lowest]
        for N in range(coarse_width):
            first, value = _first(N, filter_.size, factor), coarse[M, N]
            for k in range(max(0, -first), min(filter_.size, width - first)):
                line[first + k] += value * filter_[k]
    for m in range(start, stop):
        out = fine[m]
        for M in range(m // factor, highest):
            k = m - _first(M, filter_.size, factor)
            if k < 0:
                break
            if k < filter_.size:
                c, line = filter_[k], long[M - lowest]
                for t in range(width):
                    out[t] += c * line[t]


@jit
def _first(M, taps, factor):
    """Return the first mesh point of the fine mesh that takes part in point M of the coarse one."""
    order = (taps - 1) // (factor - 1)
    return factor * (M - order + 1) + order - 1
