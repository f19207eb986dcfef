"""Compiled search in lists: a block of queries against the lists that they probe.

For a query x and the members y of a list with centre c the squared distance is, with u = x - c and v = y - c,

    |x - y|² = |u|² + |v|² - 2 u·v

so that products find candidates, eight queries by sixteen members at a time, and what is small against the centre's
distance is never cancelled away. In single precision they err by at most e = g (|u| + |v|)². A candidate therefore
stays while it is within 2 e of the k-th best, and in the end all that stayed are measured again, directly, by
``sum (x_j - y_j)²`` in the precision of the data. The answer is thus that of a direct search among the probed lists:
it depends on no block and no thread; equal distances come in the order of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, at_most, load, multiply_add, store, zeros_like
from nearfar._core.types import Floats, Indices, Longs, Singles
from nearfar._core.vector import FAST

TILE = 8
"""Queries whose products are taken together; the members beside them are the LANES of a vector."""
OPEN = np.float32(3e38)  # a threshold that lets everything in, but not what fills up the last vector of a list
_DONE = np.float32(-3e38)  # ... and one that lets nothing in


class ListArrays(NamedTuple):
    """Rows in lists around centres, as compiled code takes them.

    The members of list a, ``members[starts[a] : starts[a + 1]]`` in the order of the rows, take up whole panels: LANES
    members side by side, coordinate by coordinate, minus their centre and times ``scale``. What fills up the last panel
    is infinitely far away. ``squares`` are those of their norms, ``radii`` the largest norm in each list, and
    ``growth`` is the factor g of the rounding error.
    """

    X: Floats
    scale: np.floating
    centers: Floats
    starts: Longs
    members: Indices
    panel_starts: Longs
    panels: Singles
    squares: Singles
    radii: Singles
    growth: np.float32


class Probes(NamedTuple):
    """The lists that each query of a block looks at, nearest first, and the distances of their centres.

    ``pairs[starts[a] : starts[a + 1]]`` are the positions of list a in ``lists``; ``order`` are the lists that are
    probed, those to begin with first.
    """

    lists: Indices
    gaps: Singles
    starts: Longs
    pairs: Longs
    order: Longs


class Work(NamedTuple):
    """The arrays of a search, made outside of compiled code, because their making would take long to compile."""

    values: Singles  # candidates of each query: squared distances, all but
    ids: Indices  # ... and rows
    counts: Longs  # ... how many
    thresholds: Singles  # what a candidate must not exceed
    errors: Singles  # of the squared distances
    scratch: Singles
    exact: Floats
    queries: Singles  # minus a centre
    offsets: Singles  # ... squares of their norms
    which: Longs  # ... which they are
    products: Singles


@jit(fastmath=FAST)
def squared_distance(x, y, scale):
    """Return ``sum_j ((x_j - y_j) scale)²``: always in the same order, so that it is the same in both directions."""
    total = x.dtype.type(0)
    for j in range(x.size):
        difference = (x[j] - y[j]) * scale
        total += difference * difference
    return total


@jit(fastmath=FAST)
def centred(x, center, scale, out):
    """Write ``(x - center) scale`` in single precision, return its squared norm."""
    square = np.float32(0)
    for j in range(x.size):
        out[j] = (x[j] - center[j]) * scale
        square += out[j] * out[j]
    return square


@jit
def kth_smallest(values, n, k):
    """Reorder ``values[:n]`` and return the k-th smallest of them (k from 1): Hoare's selection."""
    low, high, k = 0, n - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@jit
def _comes_before(d, i, e, j):
    return d < e or (d == e and i < j)


@jit
def sort_pairs(distances, ids, n):
    """Sort by distance, then by id, in place: a heap sort, short to compile and never slow."""
    for end in range(n, 1, -1):
        # The first round makes the heap, the later ones mend it from the top.
        for start in range(n // 2 - 1 if end == n else 0, -1, -1):
            d, i, at = distances[start], ids[start], start
            while True:
                child = 2 * at + 1
                if child >= end:
                    break
                if child + 1 < end and _comes_before(
                    distances[child], ids[child], distances[child + 1], ids[child + 1]
                ):
                    child += 1
                if not _comes_before(d, i, distances[child], ids[child]):
                    break
                distances[at], ids[at] = distances[child], ids[child]
                at = child
            distances[at], ids[at] = d, i
        last = end - 1
        distances[0], distances[last] = distances[last], distances[0]
        ids[0], ids[last] = ids[last], ids[0]


@jit
def _measure(x, X, scale, ids, n, exact):
    """Write the direct distances of ``ids[:n]`` from x, and sort both."""
    for t in range(n):
        exact[t] = squared_distance(x, X[ids[t]], scale)
    sort_pairs(exact, ids, n)


@jit
def _tighten(x, points, k, candidates, error, room):
    """Drop candidates that cannot be among the k best; return how many are left and the new threshold.

    When too many are too close to tell apart, as among copies of one row, they are measured. Members come in the order
    of their rows and copies are in one list: once k copies are found no later one can take their place.
    """
    (X, scale), (values, ids, n), (scratch, exact) = points, candidates, room
    for t in range(n):  # copying a slice takes seconds to compile
        scratch[t] = values[t]
    bound = kth_smallest(scratch, n, k) + 2 * error
    kept = np.int64(0)  # a literal would have what follows compiled twice
    for t in range(n):
        if values[t] <= bound:
            values[kept], ids[kept] = values[t], ids[t]
            kept += 1
    if 2 * kept > values.size:
        _measure(x, X, scale, ids, kept, exact)
        kept = k
        for t in range(k):
            values[t] = exact[t]
        bound = _DONE if exact[k - 1] == 0 else values[k - 1] + 2 * error
    return kept, bound


@jit
def _products(queries, first, d, panels, squares, panel, out):
    """Write ``|v|² - 2 u·v`` of TILE queries, from row ``first`` on, and the members of a panel."""
    at = panel * d * LANES
    # Unsigned positions: no code is made for counting from the end.
    step = np.uint64(d)
    q0 = np.uint64(first) * step
    q1 = q0 + step
    q2 = q1 + step
    q3 = q2 + step
    q4 = q3 + step
    q5 = q4 + step
    q6 = q5 + step
    q7 = q6 + step
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = zeros_like(panels)
    for j in range(step):
        v = load(panels, at, LANES)
        t0 = multiply_add(queries[q0 + j], v, t0)
        t1 = multiply_add(queries[q1 + j], v, t1)
        t2 = multiply_add(queries[q2 + j], v, t2)
        t3 = multiply_add(queries[q3 + j], v, t3)
        t4 = multiply_add(queries[q4 + j], v, t4)
        t5 = multiply_add(queries[q5 + j], v, t5)
        t6 = multiply_add(queries[q6 + j], v, t6)
        t7 = multiply_add(queries[q7 + j], v, t7)
        at += LANES
    square = load(squares, panel * LANES, LANES)
    store(out, 0 * LANES, LANES, multiply_add(-2.0, t0, square))
    store(out, 1 * LANES, LANES, multiply_add(-2.0, t1, square))
    store(out, 2 * LANES, LANES, multiply_add(-2.0, t2, square))
    store(out, 3 * LANES, LANES, multiply_add(-2.0, t3, square))
    store(out, 4 * LANES, LANES, multiply_add(-2.0, t4, square))
    store(out, 5 * LANES, LANES, multiply_add(-2.0, t5, square))
    store(out, 6 * LANES, LANES, multiply_add(-2.0, t6, square))
    store(out, 7 * LANES, LANES, multiply_add(-2.0, t7, square))


@jit
def _insert(bits, found, members, first, itself, candidates):
    """Add the products of the lanes in ``bits`` to the candidates; there is no branch to be guessed wrongly."""
    (products, at, offset), (values, ids, n) = found, candidates
    for lane in range(LANES):
        if bits >> lane == 0:
            break
        member = members[min(first + lane, members.size - 1)]
        values[n], ids[n] = products[at + lane] + offset, member
        n += (bits >> lane) & (member != itself)
    return n


@jit
def measure_block(Q, rows, lists, work, out):
    """Measure the candidates that are left, and write the nearest, as many as ``out`` has columns.

    Where there are fewer the indices are -1 and the distances infinite.
    """
    exact = work.exact
    k = out.indices.shape[1]
    for i in range(rows.size):
        x, values, ids, n = Q[rows[i]], work.values[i], work.ids[i], work.counts[i]
        if n > k and work.thresholds[i] >= 0:
            n, _ = _tighten(x, (lists.X, lists.scale), k, (values, ids, n), work.errors[i], (work.scratch, exact))
        _measure(x, lists.X, lists.scale, ids, n, exact)
        for t in range(k):
            there = t < n
            out.indices[i, t] = ids[t] if there else -1
            out.distances[i, t] = np.sqrt(exact[t]) / lists.scale if there else np.inf


@jit
def search_block(Q, rows, skip_self, k, lists, probes, work):
    """Find candidates for the k nearest members of the probed lists, for the queries ``Q[rows]``.

    ``skip_self`` says that queries are rows of X, each of which leaves itself out.
    """
    X, scale, centers, starts, members, panel_starts, panels, squares, radii, growth = lists
    values, ids, counts, thresholds, errors, scratch, exact, centred_queries, offsets, who, products = work
    p, d = probes.lists.shape[1], X.shape[1]
    capacity = values.shape[1]
    for a in probes.order:
        active = 0
        for pair in probes.pairs[probes.starts[a] : probes.starts[a + 1]]:
            i = pair // p
            # No member can be nearer than this; the factor makes room for the rounding of both.
            gap = probes.gaps[i, pair % p] * scale * np.float32(0.99999) - radii[a]
            if thresholds[i] < 0 or (gap > 0 and gap * gap > thresholds[i]):
                continue
            offsets[active] = centred(Q[rows[i]], centers[a], scale, centred_queries[active * d : (active + 1) * d])
            reach = np.sqrt(offsets[active]) + radii[a]
            error = growth * (reach * reach)
            if error > errors[i]:
                thresholds[i] += 2 * (error - errors[i])
                errors[i] = error
            who[active] = i
            active += 1
        for low in range(0, active, TILE):
            high = min(low + TILE, active)
            for panel in range(panel_starts[a], panel_starts[a + 1]):
                _products(centred_queries, low, d, panels, squares, panel, products)
                first = starts[a] + (panel - panel_starts[a]) * LANES
                running = False
                for t in range(low, high):
                    i, at = who[t], (t - low) * LANES
                    bits = at_most(load(products, at, LANES), thresholds[i] - offsets[t])
                    running |= thresholds[i] >= 0
                    if bits == 0:
                        continue
                    if counts[i] + LANES > capacity:
                        candidates = values[i], ids[i], counts[i]
                        counts[i], thresholds[i] = _tighten(
                            Q[rows[i]], (X, scale), k, candidates, errors[i], (scratch, exact)
                        )
                        bits = at_most(load(products, at, LANES), thresholds[i] - offsets[t])
                    itself = rows[i] if skip_self else -1
                    found = products, at, offsets[t]
                    counts[i] = _insert(bits, found, members, first, itself, (values[i], ids[i], counts[i]))
                if not running:
                    break
