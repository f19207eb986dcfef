"""Sums over the pairs within groups of points, and over near pairs.

``groups`` is (order, bounds, offsets, flat): the members of group g are ``order[bounds[g] : bounds[g + 1]]``, and the
distances of its pairs i < j, row by row, stand in ``flat[offsets[g] : offsets[g + 1]]``. ``near`` is (indptr, others,
lengths, weights), every pair in the rows of both its points.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

import math

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST
from nearfar.divergences.stress import cost_and_pull

# ------------------------------------------------------------
# Sums over all pairs of points of a map and their distances in the data, each pair once.
#
# ``source`` is (flat, square, coordinates): the distances stand in ``flat``, a matrix of n x n where ``square``, else
# its
# upper triangle, row by row; or, where there are ``coordinates``, of shape (p, n), they are computed from those. They
# are
# multiplied by ``scale`` in passing. Every kernel with a source does the pairs of some rows i with all j > i.

BLOCK = 512  # pairs at a time, so that what lies between the short loops stays in the nearest cache


@jit(fastmath=FAST, error_model="numpy")
def _squares(points, i, start, out):
    """Write the squared distances of point i and those from ``start`` on; ``points`` is (d, n)."""
    n = out.shape[0]
    row = points[0]
    at, others = row[i], row[start : start + n]
    for j in range(n):
        t = at - others[j]
        out[j] = t * t
    for c in range(1, points.shape[0]):
        row = points[c]
        at, others = row[i], row[start : start + n]
        for j in range(n):
            t = at - others[j]
            out[j] += t * t


@jit(fastmath=FAST, error_model="numpy")
def _as_they_stand(source, i, start, out):
    """Return the distances in the data of i and those from ``start`` on: a part of the source, or ``out``."""
    flat, square, coordinates = source
    n = out.shape[0]
    if coordinates.shape[0] > 0:
        _squares(coordinates, i, start, out)
        for j in range(n):
            out[j] = math.sqrt(out[j])
        return out
    total = coordinates.shape[1]
    at = i * total + start if square else i * total - i * (i + 1) // 2 + start - i - 1
    return flat[at : at + n]


@jit(fastmath=FAST, error_model="numpy")
def _distances(source, scale, i, start, out):
    """Write the scaled distances in the data of i and those from ``start`` on."""
    row = _as_they_stand(source, i, start, out)
    for j in range(out.shape[0]):
        out[j] = scale * row[j]


@jit(fastmath=FAST, error_model="numpy")
def _push(points, i, start, f, r, scale, family, constants, forces):
    """Return the cost of i and those from ``start`` on, and add the gradient to ``forces``; ``f`` is overwritten."""
    n = r.shape[0]
    _squares(points, i, start, f)
    cost = points.dtype.type(0)
    for j in range(n):
        value, pull = cost_and_pull(family, constants, points.dtype.type(scale * r[j]), f[j])
        cost += value
        f[j] = pull
    for c in range(points.shape[0]):
        row, out = points[c], forces[c]
        at, others, target = row[i], row[start : start + n], out[start : start + n]
        moment = points.dtype.type(0)
        for j in range(n):
            force = f[j] * (at - others[j])
            moment += force
            target[j] -= force
        out[i] += moment
    return cost


@jit(fastmath=FAST, error_model="numpy")
def _push_in_the_plane(points, i, start, r, scale, family, constants, forces):
    """Do what ``_push`` does for two dimensions, in a single loop."""
    n = r.shape[0]
    at_x, at_y = points[0, i], points[1, i]
    xs, ys = points[0][start : start + n], points[1][start : start + n]
    to_x, to_y = forces[0][start : start + n], forces[1][start : start + n]
    cost = sum_x = sum_y = points.dtype.type(0)
    for j in range(n):
        x, y = at_x - xs[j], at_y - ys[j]
        value, pull = cost_and_pull(family, constants, points.dtype.type(scale * r[j]), x * x + y * y)
        cost += value
        force_x, force_y = pull * x, pull * y
        sum_x += force_x
        sum_y += force_y
        to_x[j] -= force_x
        to_y[j] -= force_y
    forces[0, i] += sum_x
    forces[1, i] += sum_y
    return cost


@jit(fastmath=FAST, error_model="numpy")
def _push_two_in_the_plane(points, i, start, r, s, scale, family, constants, forces):
    """Do the same for i and i + 1, whose distances are r and s: each of the others is read and written once."""
    n = r.shape[0]
    at_x, at_y, by_x, by_y = points[0, i], points[1, i], points[0, i + 1], points[1, i + 1]
    xs, ys = points[0][start : start + n], points[1][start : start + n]
    to_x, to_y = forces[0][start : start + n], forces[1][start : start + n]
    cost = sum_x = sum_y = total_x = total_y = points.dtype.type(0)
    for j in range(n):
        x, y = at_x - xs[j], at_y - ys[j]
        value, pull = cost_and_pull(family, constants, points.dtype.type(scale * r[j]), x * x + y * y)
        force_x, force_y = pull * x, pull * y
        x, y = by_x - xs[j], by_y - ys[j]
        other_value, pull = cost_and_pull(family, constants, points.dtype.type(scale * s[j]), x * x + y * y)
        other_x, other_y = pull * x, pull * y
        cost += value + other_value
        sum_x += force_x
        sum_y += force_y
        total_x += other_x
        total_y += other_y
        to_x[j] -= force_x + other_x
        to_y[j] -= force_y + other_y
    forces[0, i] += sum_x
    forces[1, i] += sum_y
    forces[0, i + 1] += total_x
    forces[1, i + 1] += total_y
    return cost


@jit(fastmath=FAST, error_model="numpy")
def _stress_rows_in_the_plane(first, last, source, scale, points, family, constants, scratch, forces):
    """Do what ``stress_rows`` does for two dimensions, two rows at a time: three times as fast."""
    n = points.shape[1]
    cost = 0.0
    for i in range(first, last, 2):
        two = i + 1 < last
        begin = i + 1
        if two:
            r = _as_they_stand(source, i, i + 1, scratch[0][:1])
            cost += _push_in_the_plane(points, i, i + 1, r, scale, family, constants, forces)
            begin = i + 2
        for start in range(begin, n, BLOCK):
            size = min(BLOCK, n - start)
            r = _as_they_stand(source, i, start, scratch[0][:size])
            if two:
                s = _as_they_stand(source, i + 1, start, scratch[1][:size])
                cost += _push_two_in_the_plane(points, i, start, r, s, scale, family, constants, forces)
            else:
                cost += _push_in_the_plane(points, i, start, r, scale, family, constants, forces)
    return cost


@jit(fastmath=FAST, error_model="numpy")
def stress_rows(first, last, source, scale, points, family, constants, scratch, forces):
    """Return the cost of the pairs of rows first..last, and add its gradient to ``forces``, shape (d, n)."""
    d, n = points.shape
    if d == 2:
        return _stress_rows_in_the_plane(first, last, source, scale, points, family, constants, scratch, forces)
    cost = 0.0
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r = _as_they_stand(source, i, start, scratch[0][:size])
            cost += _push(points, i, start, scratch[1][:size], r, scale, family, constants, forces)
    return cost


@jit(fastmath=FAST, error_model="numpy")
def measure(r, f, family, constants, totals):
    """Add sum r, sum r², sum d², sum r d, sum (r - d)² and the cost to ``totals``, each pair in float64."""
    length, square, own, product, gap, cost = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(r.shape[0]):
        here, there = np.float64(r[j]), math.sqrt(np.float64(f[j]))
        length += here
        square += here * here
        own += there * there
        product += here * there
        gap += (here - there) ** 2
        cost += cost_and_pull(family, constants, here, np.float64(f[j]))[0]
    totals[0] += length
    totals[1] += square
    totals[2] += own
    totals[3] += product
    totals[4] += gap
    totals[5] += cost


@jit(fastmath=FAST, error_model="numpy")
def measure_rows(first, last, source, scale, points, family, constants, scratch, totals):
    """Add what :func:`measure` adds, for the pairs of rows first..last; ``constants`` are float64."""
    n = points.shape[1]
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r, f = scratch[0][:size], scratch[1][:size]
            _distances(source, scale, i, start, r)
            _squares(points, i, start, f)
            measure(r, f, family, constants, totals)


@jit(fastmath=FAST, error_model="numpy")
def measure_tile(first, start, tile, scale, points, family, constants, scratch, totals):
    """Add the same for a tile of distances, of the rows from ``first`` on and those from ``start`` on, where i < j."""
    for k in range(tile.shape[0]):
        skip = max(0, first + k + 1 - start)
        for low in range(skip, tile.shape[1], BLOCK):
            size = min(BLOCK, tile.shape[1] - low)
            r, f = scratch[0][:size], scratch[1][:size]
            for j in range(size):
                r[j] = scale * tile[k, low + j]
            _squares(points, first + k, start + low, f)
            measure(r, f, family, constants, totals)


@jit(fastmath=FAST, error_model="numpy")
def length_rows(first, last, source, scale, scratch, totals):
    """Add sum r and sum r² to ``totals``."""
    n = source[2].shape[1]
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            r = scratch[0][: min(BLOCK, n - start)]
            _distances(source, scale, i, start, r)
            length, square = 0.0, 0.0
            for j in range(r.shape[0]):
                here = np.float64(r[j])
                length += here
                square += here * here
            totals[0] += length
            totals[1] += square


@jit(fastmath=FAST, error_model="numpy")
def squared_product_rows(first, last, source, scale, vector, scratch, out):
    """Add the product of the matrix of squared distances, of these pairs, and a vector."""
    n = vector.shape[0]
    for i in range(first, last):
        own = 0.0
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r = scratch[0][:size]
            _distances(source, scale, i, start, r)
            others, target = vector[start : start + size], out[start : start + size]
            for j in range(size):
                square = np.float64(r[j]) * np.float64(r[j])
                own += square * others[j]
                target[j] += square * vector[i]
        out[i] += own


@jit(fastmath=FAST, error_model="numpy")
def distances_of_products(products, norms, other_norms, rows, others, share):
    """Turn the scalar products of ``rows`` and ``others`` into distances; their squared lengths are the norms.

    The square of a distance below ``share`` of the norms would have lost digits; it is computed from the differences.
    """
    zero = share - share
    for i in range(products.shape[0]):
        row, norm, x = products[i], norms[i], rows[i]
        close = 0
        for j in range(row.shape[0]):
            both = norm + other_norms[j]
            square = both - (row[j] + row[j])
            close += 1 if square <= share * both else 0
            row[j] = square
        if close > 0:
            for j in range(row.shape[0]):
                if row[j] <= share * (norm + other_norms[j]):
                    other, total = others[j], zero
                    for c in range(x.shape[0]):
                        t = x[c] - other[c]
                        total += t * t
                    row[j] = total
        for j in range(row.shape[0]):
            row[j] = math.sqrt(row[j])


@jit
def keep_tile(first, start, tile, n, flat):
    """Write a tile of distances, of rows from ``first`` on and from ``start`` on, into the upper triangle ``flat``."""
    for k in range(tile.shape[0]):
        i = first + k
        skip = max(0, i + 1 - start)
        at = i * n - i * (i + 1) // 2 + start - i - 1
        for j in range(skip, tile.shape[1]):
            flat[at + j] = tile[k, j]


@jit
def _gather(points, order, first, here):
    """Copy the positions of the members of a group."""
    for c in range(here.shape[0]):
        for k in range(here.shape[1]):
            here[c, k] = points[c, order[first + k]]


@jit(fastmath=FAST, error_model="numpy")
def stress_groups(first, last, groups, scale, points, family, constants, scratch, weight, forces):
    """Return the cost of the pairs within groups first..last, and add ``weight`` times its gradient to ``forces``.

    Those are float64 of shape (d, n); no two groups have a member in common.
    """
    order, bounds, offsets, flat = groups
    d, cost = points.shape[0], 0.0
    for g in range(first, last):
        size = bounds[g + 1] - bounds[g]
        here = np.empty((d, size), points.dtype)
        pulls = np.zeros((d, size), points.dtype)
        _gather(points, order, bounds[g], here)
        source = (flat[offsets[g] : offsets[g + 1]], False, np.empty((0, size), points.dtype))
        cost += stress_rows(0, size, source, scale, here, family, constants, scratch, pulls)
        for c in range(d):
            for k in range(size):
                forces[c, order[bounds[g] + k]] += weight * pulls[c, k]
    return cost


@jit(fastmath=FAST, error_model="numpy")
def measure_groups(first, last, groups, scale, points, family, constants, scratch, totals):
    """Add what ``measure`` adds, for the pairs within groups first..last."""
    order, bounds, offsets, flat = groups
    for g in range(first, last):
        size = bounds[g + 1] - bounds[g]
        here = np.empty((points.shape[0], size), points.dtype)
        _gather(points, order, bounds[g], here)
        source = (flat[offsets[g] : offsets[g + 1]], False, np.empty((0, size), points.dtype))
        measure_rows(0, size, source, scale, here, family, constants, scratch, totals)


@jit(fastmath=FAST, error_model="numpy")
def stress_near(first, last, near, scale, points, family, constants, forces):
    """Return the cost of the near pairs of rows first..last, half of each, and add its gradient to ``forces``."""
    indptr, others, lengths, weights = near
    d, cost = points.shape[0], 0.0
    for i in range(first, last):
        for at in range(indptr[i], indptr[i + 1]):
            j = others[at]
            f = points.dtype.type(0)
            for c in range(d):
                t = points[c, i] - points[c, j]
                f += t * t
            value, pull = cost_and_pull(family, constants, scale * lengths[at], f)
            cost += np.float64(weights[at] * value) / 2
            pull *= weights[at]
            for c in range(d):
                forces[c, i] += pull * (points[c, i] - points[c, j])
    return cost


@jit(fastmath=FAST, error_model="numpy")
def measure_near(first, last, near, members, scale, points, family, constants, scratch, every, within):
    """Add what ``measure`` adds for the near pairs of rows first..last to ``every``, each once.

    To ``within`` are added those whose points are in the same group, ``members`` being the group of each point.
    """
    indptr, others, lengths, _ = near
    r, f = scratch[0][:1], scratch[1][:1]
    for i in range(first, last):
        for at in range(indptr[i], indptr[i + 1]):
            j = others[at]
            if j > i:
                r[0], f[0] = scale * lengths[at], 0
                for c in range(points.shape[0]):
                    t = points[c, i] - points[c, j]
                    f[0] += t * t
                measure(r, f, family, constants, every)
                if members[i] == members[j]:
                    measure(r, f, family, constants, within)
