"""Compiled kernels of ranks: distances from a row to all others, their order, and what two orders have in common.

One row of the comparison takes O(n) time: the bits of a non-negative float32, read as an integer, grow with the number,
so that distances are sorted by counting, digit by digit. Such a sort is stable: equal distances stay in the order of
their indices.
"""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator"
import math

import numpy as np
from numba import njit

from nearfar._vector import FAST

_DIGIT = 11  # bits: three passes, and counts that stay in the first-level cache
_VALUES = 1 << _DIGIT


@njit(cache=True, nogil=True, fastmath=FAST)
def euclidean_rows(X, queries, out):
    """Write the Euclidean distances of rows ``queries`` of X from all rows, shape (q, n), float32.

    From the differences, not from scalar products: those would lose all digits of points much closer to each other than
    to the origin. X passes through the cache once for all queries.
    """
    n, d = X.shape
    tile = max(16, 32768 // d)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        for q in range(queries.shape[0]):
            x = X[queries[q]]
            for j in range(low, high):
                total = X.dtype.type(0)
                for c in range(d):
                    difference = X[j, c] - x[c]
                    total += difference * difference
                out[q, j] = math.sqrt(total)


@njit(cache=True, nogil=True)
def _sort(keys, order, other_keys, other_order):
    """Sort ``order`` by its keys, stably, by counting each of three digits; the other arrays, and keys, are scratch."""
    counts = np.zeros((3, _VALUES), np.int64)
    for key in keys:
        counts[0, key & (_VALUES - 1)] += 1
        counts[1, (key >> _DIGIT) & (_VALUES - 1)] += 1
        counts[2, key >> (2 * _DIGIT)] += 1
    from_keys, from_order, to_keys, to_order = keys, order, other_keys, other_order
    for digit in range(3):
        first = 0
        for value in range(_VALUES):
            count = counts[digit, value]
            counts[digit, value] = first
            first += count
        for t in range(keys.shape[0]):
            value = (from_keys[t] >> (digit * _DIGIT)) & (_VALUES - 1)
            place = counts[digit, value]
            counts[digit, value] = place + 1
            to_keys[place], to_order[place] = from_keys[t], from_order[t]
        from_keys, to_keys = to_keys, from_keys
        from_order, to_order = to_order, from_order
    keys[:], order[:] = from_keys, from_order  # an odd number of passes ends in the scratch


@njit(cache=True, nogil=True)
def nearest_first(distances, itself, order, keys, other_keys, other_order):
    """Write the indices of all rows but ``itself`` by growing distance, ties by index.

    ``distances``: (n,) float32, >= 0, finite, no negative zero; ``order``: (n - 1,) int32. The rest is scratch of
    length n - 1: keys uint32, ``other_order`` int32.
    """
    bits = distances.view(np.uint32)
    t = 0
    for j in range(distances.shape[0]):
        if j != itself:
            keys[t], order[t] = bits[j], j
            t += 1
    _sort(keys, order, other_keys, other_order)


@njit(cache=True, nogil=True)
def mean_ranks(values):
    """Return the ranks of non-negative float32 numbers, from 0; equal ones have the mean of their ranks."""
    n = values.shape[0]
    keys, order = values.view(np.uint32).copy(), np.arange(n).astype(np.int32)
    _sort(keys, order, np.empty(n, np.uint32), np.empty(n, np.int32))
    ranks = np.empty(n)
    first = 0
    for t in range(n):
        if t == n - 1 or keys[t + 1] != keys[t]:
            for equal in range(first, t + 1):
                ranks[order[equal]] = 0.5 * (first + t)
            first = t + 1
    return ranks


@njit(cache=True, nogil=True)
def compare_orders(true_order, map_order, ks, weights, ranks, fresh, overlaps, sums):
    """Compare the neighbours of one row in the data with those in the map; return its weighted overlap.

    Parameters
    ----------
    true_order, map_order : (n - 1,) int32
        The other rows, nearest first.
    ks : (s,) int64
        Sizes of neighbourhoods.
    weights : (n - 1,) float64
        For each K = 1 .. n - 1 the weight of the overlap of the two K-neighbourhoods in the result.
    ranks : (n,) int32
        Scratch.
    fresh : (n - 1,) uint8
        Scratch: how many neighbours the two neighbourhoods come to share at K (0, 1 or 2).
    overlaps : (n - 1,) int64
        To the K-th is added how many neighbours the two K-neighbourhoods share.
    sums : (3, s) float64
        For each k: by how much the ranks of the intruders of the map exceed k, the same of those that it lost, and how
        many neighbours are shared.
    """
    others = true_order.shape[0]
    for t in range(others):
        ranks[true_order[t]] = t + 1
        fresh[t] = 0
    sums[:] = 0
    largest = ks.max()
    for t in range(others):
        map_rank, true_rank = t + 1, ranks[map_order[t]]
        fresh[max(map_rank, true_rank) - 1] += 1
        if min(map_rank, true_rank) <= largest:
            for s in range(ks.shape[0]):
                k = ks[s]
                if map_rank <= k and true_rank <= k:
                    sums[2, s] += 1
                elif map_rank <= k:
                    sums[0, s] += true_rank - k
                elif true_rank <= k:
                    sums[1, s] += map_rank - k
    shared = 0
    total = 0.0
    for t in range(others):
        shared += fresh[t]
        overlaps[t] += shared
        total += weights[t] * shared
    return total


@njit(cache=True, nogil=True)
def vote(labels, order, k, votes):
    """Return the most frequent label among the k nearest; of several, the one of the nearest of their rows.

    ``votes``: scratch, one zero per label; left so.
    """
    most = 0
    for t in range(k):
        votes[labels[order[t]]] += 1
        most = max(most, votes[labels[order[t]]])
    winner = -1
    for t in range(k):
        label = labels[order[t]]
        if winner < 0 and votes[label] == most:
            winner = label
    for t in range(k):
        votes[labels[order[t]]] = 0
    return winner


@njit(cache=True, nogil=True, fastmath=FAST)
def moments(true_distances, map_distances):
    """Return the sums of r, d, r², d² and r d over one row, float64; the row itself adds nothing."""
    r_sum, d_sum, rr, dd, rd = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(true_distances.shape[0]):
        r, d = np.float64(true_distances[j]), np.float64(map_distances[j])
        r_sum += r
        d_sum += d
        rr += r * r
        dd += d * d
        rd += r * d
    return r_sum, d_sum, rr, dd, rd
