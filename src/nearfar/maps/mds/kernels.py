"""Compiled sums over pairs of points: the stress and its gradient, and the moments of the distances.

Kernels take the functions of the stress as their first argument, a tuple that :mod:`nearfar.divergences.stress`
describes. ``points`` and gradients have shape (d, n), so that the innermost loops run over points.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.divergences.stress import StressFunctions
from nearfar.maps.transform import write_squared_distances

BLOCK = 512  # pairs at a time, so that what lies between the short loops stays in the nearest cache


class Source(NamedTuple):
    """Where the distances of all pairs come from, and what they are multiplied by.

    ``flat`` is a matrix of n x n where ``square``, else its upper triangle, row by row. Where there are
    ``coordinates``, shape (p, n), Euclidean distances are computed from those.
    """

    flat: Floats
    square: bool
    coordinates: Floats
    scale: np.floating


class Groups(NamedTuple):
    """All points in random groups, with the distances within each group.

    The members of group g are ``order[bounds[g] : bounds[g + 1]]``; the distances of its pairs, row by row, stand in
    ``flat[offsets[g] : offsets[g + 1]]``, to be multiplied by ``scale``. ``group`` is that of each point.
    """

    order: NDArray[np.int32]
    bounds: NDArray[np.int64]
    offsets: NDArray[np.int64]
    flat: Floats
    group: NDArray[np.int32]
    scale: np.floating


class Near(NamedTuple):
    """Near pairs as sparse rows, each pair in the rows of both its points; lengths are multiplied by ``scale``."""

    indptr: NDArray[np.int64]
    others: NDArray[np.int32]
    lengths: Floats
    weights: Floats
    scale: np.floating


class GroupFunctions(NamedTuple):
    """What the sum within groups calls: the kernel of all pairs of some rows, and the functions of the stress."""

    of_rows: Callable[..., float]
    stress: StressFunctions


@jit(fastmath=FAST, error_model="numpy")
def _unscaled(source, i, start, out):
    """Return the distances of i and those from ``start`` on: a part of the source, or ``out``."""
    n = out.shape[0]
    if source.coordinates.shape[0] > 0:
        write_squared_distances(source.coordinates[:, i], source.coordinates, start, out)
        for j in range(n):
            out[j] = math.sqrt(out[j])
        return out
    total = source.coordinates.shape[1]
    at = i * total + start if source.square else i * total - i * (i + 1) // 2 + start - i - 1
    return source.flat[at : at + n]


@jit(fastmath=FAST, error_model="numpy", inline="always")
def stress_rows(stress, first, last, source, points, gradient):
    """Return the cost of the pairs of rows first..last with all later ones, and add its gradient."""
    d, n = points.shape
    number = points.dtype.type
    scratch = np.empty((2, BLOCK), points.dtype)
    total = 0.0
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            f = scratch[1][:size]
            r = _unscaled(source, i, start, scratch[0][:size])
            write_squared_distances(points[:, i], points, start, f)
            cost = number(0)
            for j in range(size):
                value, slope = stress.cost_and_slope(number(source.scale * r[j]), f[j])
                cost += value
                f[j] = slope
            total += cost
            for c in range(d):
                row, out = points[c], gradient[c]
                at, others, target = row[i], row[start : start + size], out[start : start + size]
                moment = number(0)
                for j in range(size):
                    # Gradients, distance-based embedding: half of 2 sum_j c'(d_ij) / d_ij (y_i - y_j), pairs once
                    force = f[j] * (at - others[j])
                    moment += force
                    target[j] -= force
                out[i] += moment
    return total


@jit(fastmath=FAST, error_model="numpy")
def _two_rows(stress, i, start, r, s, scale, points, gradient):
    """Do the pairs of i and i + 1, whose distances are r and s, with those from ``start`` on, in the plane."""
    n = r.shape[0]
    number = points.dtype.type
    x1, y1, x2, y2 = points[0, i], points[1, i], points[0, i + 1], points[1, i + 1]
    xs, ys = points[0][start : start + n], points[1][start : start + n]
    to_x, to_y = gradient[0][start : start + n], gradient[1][start : start + n]
    cost = sum_x1 = sum_y1 = sum_x2 = sum_y2 = number(0)
    for j in range(n):
        x, y = x1 - xs[j], y1 - ys[j]
        value, slope = stress.cost_and_slope(number(scale * r[j]), x * x + y * y)
        force_x1, force_y1 = number(slope * x), number(slope * y)
        x, y = x2 - xs[j], y2 - ys[j]
        other_value, slope = stress.cost_and_slope(number(scale * s[j]), x * x + y * y)
        force_x2, force_y2 = number(slope * x), number(slope * y)
        cost += number(value + other_value)
        sum_x1 += force_x1
        sum_y1 += force_y1
        sum_x2 += force_x2
        sum_y2 += force_y2
        to_x[j] -= force_x1 + force_x2
        to_y[j] -= force_y1 + force_y2
    gradient[0, i] += sum_x1
    gradient[1, i] += sum_y1
    gradient[0, i + 1] += sum_x2
    gradient[1, i + 1] += sum_y2
    return cost


@jit(fastmath=FAST, error_model="numpy", inline="always")
def stress_rows_in_plane(stress, first, last, source, points, gradient):
    """Do what ``stress_rows`` does, for d = 2 and an even ``first``: two rows at a time, three times as fast."""
    n = points.shape[1]
    number = points.dtype.type
    scratch = np.empty((2, BLOCK), points.dtype)
    total = 0.0
    for i in range(first, min(last, n - 1), 2):  # of an odd number of points the last one has no later ones
        r = _unscaled(source, i, i + 1, scratch[0][:1])
        x, y = points[0, i] - points[0, i + 1], points[1, i] - points[1, i + 1]
        value, slope = stress.cost_and_slope(number(source.scale * r[0]), x * x + y * y)
        total += value
        gradient[0, i] += slope * x
        gradient[1, i] += slope * y
        gradient[0, i + 1] -= slope * x
        gradient[1, i + 1] -= slope * y
        for start in range(i + 2, n, BLOCK):
            size = min(BLOCK, n - start)
            r = _unscaled(source, i, start, scratch[0][:size])
            s = _unscaled(source, i + 1, start, scratch[1][:size])
            total += _two_rows(stress, i, start, r, s, source.scale, points, gradient)
    return total


@jit(fastmath=FAST, error_model="numpy")
def _members(points, groups, g):
    """Return the distances within a group and the positions of its members."""
    first, size = groups.bounds[g], groups.bounds[g + 1] - groups.bounds[g]
    positions = np.empty((points.shape[0], size), points.dtype)
    for c in range(points.shape[0]):
        for k in range(size):
            positions[c, k] = points[c, groups.order[first + k]]
    flat = groups.flat[groups.offsets[g] : groups.offsets[g + 1]]
    return Source(flat, False, np.empty((0, size), points.dtype), groups.scale), positions


@jit(fastmath=FAST, error_model="numpy", inline="always")
def stress_groups(functions, first, last, groups, points, weight, gradient):
    """Return the cost of the pairs within groups first..last, and add ``weight`` times its gradient, in float64.

    No two groups have a member in common.
    """
    cost = 0.0
    for g in range(first, last):
        source, positions = _members(points, groups, g)
        found = np.zeros(positions.shape, points.dtype)
        cost += functions.of_rows(functions.stress, 0, positions.shape[1], source, positions, found)
        for c in range(found.shape[0]):
            for k in range(found.shape[1]):
                gradient[c, groups.order[groups.bounds[g] + k]] += weight * found[c, k]
    return cost


@jit(fastmath=FAST, error_model="numpy", inline="always")
def stress_near(stress, first, last, near, points, gradient):
    """Return the cost of the near pairs of rows first..last, half of each, and add its gradient, in float64."""
    number = points.dtype.type
    d, cost = points.shape[0], 0.0
    for i in range(first, last):
        for at in range(near.indptr[i], near.indptr[i + 1]):
            j = near.others[at]
            f = number(0)
            for c in range(d):
                t = points[c, i] - points[c, j]
                f += t * t
            value, slope = stress.cost_and_slope(number(near.scale * near.lengths[at]), f)
            cost += np.float64(near.weights[at] * value) / 2
            slope *= near.weights[at]
            for c in range(d):
                gradient[c, i] += slope * (points[c, i] - points[c, j])
    return cost


# The moments of a map, summed in float64: sum r, sum r², sum d², sum r d, sum (r - d)² and the cost.


@jit(fastmath=FAST, error_model="numpy")
def _moments(stress, i, start, r, scale, points, totals):
    """Add those of point i and at most BLOCK points from ``start`` on, whose distances are r."""
    n = r.shape[0]
    f = np.empty(n, points.dtype)
    write_squared_distances(points[:, i], points, start, f)
    length, square, map_square, product, gap, cost = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        here, there = np.float64(scale * r[j]), math.sqrt(np.float64(f[j]))
        length += here
        square += here * here
        map_square += there * there
        product += here * there
        gap += (here - there) * (here - there)
        cost += stress.cost_and_slope(here, np.float64(f[j]))[0]
    totals[0] += length
    totals[1] += square
    totals[2] += map_square
    totals[3] += product
    totals[4] += gap
    totals[5] += cost


@jit(fastmath=FAST, error_model="numpy", inline="always")
def measure_rows(stress, first, last, source, points, totals):
    """Add the moments of the pairs of rows first..last with all later ones."""
    n = points.shape[1]
    scratch = np.empty(BLOCK, points.dtype)
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            r = _unscaled(source, i, start, scratch[: min(BLOCK, n - start)])
            _moments(stress, i, start, r, source.scale, points, totals)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def measure_tile(stress, corner, tile, scale, points, totals):
    """Add the moments of the pairs i < j of a tile of distances, whose first row and column are the ``corner``."""
    first, start = corner
    for k in range(tile.shape[0]):
        for low in range(max(0, first + k + 1 - start), tile.shape[1], BLOCK):
            _moments(stress, first + k, start + low, tile[k, low : low + BLOCK], scale, points, totals)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def measure_groups(stress, first, last, groups, points, totals):
    """Add the moments of the pairs within groups first..last."""
    for g in range(first, last):
        source, positions = _members(points, groups, g)
        measure_rows(stress, 0, positions.shape[1], source, positions, totals)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def measure_near(stress, first, last, near, group, points, totals):
    """Add the moments of the near pairs of rows first..last to ``totals[0]``, and of those in one group to the next."""
    for i in range(first, last):
        for at in range(near.indptr[i], near.indptr[i + 1]):
            j = np.int64(near.others[at])
            if j > i:
                r = near.lengths[at : at + 1]
                for k in range(2 if group[i] == group[j] else 1):
                    _moments(stress, i, j, r, near.scale, points, totals[k])


@jit(fastmath=FAST, error_model="numpy")
def squared_product_rows(first, last, source, vector, out):
    """Add the product of the matrix of squared distances, of the pairs of rows first..last, and a vector."""
    n = vector.shape[0]
    scratch = np.empty(BLOCK, source.coordinates.dtype)
    for i in range(first, last):
        here = 0.0
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r = _unscaled(source, i, start, scratch[:size])
            others, target = vector[start : start + size], out[start : start + size]
            for j in range(size):
                square = np.float64(source.scale * r[j]) * np.float64(source.scale * r[j])
                here += square * others[j]
                target[j] += square * vector[i]
        out[i] += here


@jit(fastmath=FAST, error_model="numpy", inline="always")
def stress_of_point(stress, r, points, y, gradient):
    """Return the cost of a point at y, r from the others in the data, and write its gradient."""
    d, n = points.shape
    total = 0.0
    gradient[:] = 0.0
    for j in range(n):
        f = 0.0
        for c in range(d):
            t = y[c] - points[c, j]
            f += t * t
        cost, slope = stress.cost_and_slope(r[j], f)
        total += cost
        for c in range(d):
            gradient[c] += slope * (y[c] - points[c, j])
    return total
