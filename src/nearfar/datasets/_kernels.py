"""Compiled inner loops of the graph generator; each works on arrays alone and may run in several threads.

Random numbers come from splitmix64, a counter passed through a mixing function: a block of draws depends on its own
seed and on nothing else, so the graph is the same on one worker and on many, and nobody's random state is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nearfar._draws import STEP, splitmix

_S11 = np.uint64(11)
_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def draw_pairs(
    keys: NDArray[np.int64],
    seed: Any,
    n_nodes: int,
    members_a: NDArray[np.int32],
    threshold_a: NDArray[np.float64],
    alias_a: NDArray[np.int32],
    members_b: NDArray[np.int32],
    threshold_b: NDArray[np.float64],
    alias_b: NDArray[np.int32],
) -> None:
    """Fill ``keys`` with pairs (i of class a, j of class b), both drawn by weight, as ``min * n_nodes + max``.

    A pair of a node with itself is written as -1.
    """
    size_a, size_b = members_a.size, members_b.size
    state = seed
    for e in range(keys.size):
        u = (splitmix(state) >> _S11) * (_UNIT * size_a)
        state += STEP
        cell = int(u)
        i = members_a[cell] if u - cell < threshold_a[cell] else members_a[alias_a[cell]]
        u = (splitmix(state) >> _S11) * (_UNIT * size_b)
        state += STEP
        cell = int(u)
        j = members_b[cell] if u - cell < threshold_b[cell] else members_b[alias_b[cell]]
        if i == j:
            keys[e] = -1
        elif i < j:
            keys[e] = np.int64(i) * n_nodes + j
        else:
            keys[e] = np.int64(j) * n_nodes + i


@njit(cache=True, nogil=True)
def thin_pairs(
    keys: NDArray[np.int64],
    seed: Any,
    labels: NDArray[np.int32],
    theta: NDArray[np.float64],
    rates: NDArray[np.float64],
    boost: float,
    likely: float,
) -> int:
    """Keep each distinct pair of the sorted ``keys`` with the chance that makes its probability exact; return how many.

    A pair of rate p (its wanted probability) was drawn a Poisson number of times with mean ``boost * p``, so it is
    there with probability ``1 - exp(-boost p) >= p`` and is kept with ``p / (1 - exp(-boost p))``. Pairs with
    p > ``likely`` are dropped: they are drawn one by one elsewhere. The survivors are moved to the front, in order.
    """
    n = labels.size
    kept, last, state = 0, np.int64(-1), seed
    for e in range(keys.size):
        key = keys[e]
        if key == last:  # drawn again, or -1
            continue
        last = key
        i = key // n
        j = key - i * n
        p = theta[i] * theta[j] * rates[labels[i], labels[j]]
        u = (splitmix(state) >> _S11) * _UNIT
        state += STEP
        if p <= likely and u * -np.expm1(-boost * p) < p:
            keys[kept] = key
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def draw_likely_pairs(
    seed: Any,
    n_nodes: int,
    members_a: NDArray[np.int32],
    members_b: NDArray[np.int32],
    same: bool,
    theta: NDArray[np.float64],
    rate: float,
    likely: float,
) -> NDArray[np.int64]:
    """Return the keys of the pairs with p = theta_i theta_j rate > ``likely``, each taken with probability min(1, p).

    Both classes are sorted by falling theta, so that the partners of a node are the first ones of the other class.
    About (edges / ``likely``) pairs are looked at, at most.
    """
    capacity, found = 1024, 0
    keys = np.empty(capacity, np.int64)
    state = seed
    for a in range(members_a.size):
        i = members_a[a]
        for b in range(a + 1 if same else 0, members_b.size):
            j = members_b[b]
            p = theta[i] * theta[j] * rate
            if p <= likely:
                break
            u = (splitmix(state) >> _S11) * _UNIT
            state += STEP
            if u < p:
                if found == capacity:
                    capacity *= 2
                    grown = np.empty(capacity, np.int64)
                    grown[:found] = keys
                    keys = grown
                keys[found] = np.int64(min(i, j)) * n_nodes + max(i, j)
                found += 1
    return keys[:found]


@njit(cache=True, nogil=True)
def split_keys(keys: NDArray[np.int64], n_nodes: int, edges: NDArray[np.int32]) -> None:
    """Write the two nodes of each key into ``edges``, shape (len(keys), 2)."""
    for e in range(keys.size):
        i = keys[e] // n_nodes
        edges[e, 0] = i
        edges[e, 1] = keys[e] - i * n_nodes


@njit(cache=True, nogil=True)
def mirror_edges(
    edges: NDArray[np.int32], start: NDArray[np.int64], indices: NDArray[np.int32], fill: NDArray[np.int64]
) -> None:
    """Write both directions of sorted edges (i < j) into CSR column indices, sorted within each row.

    ``start`` holds the first position of each row; ``fill`` is scratch of the same shape.
    """
    fill[:] = start
    for e in range(edges.shape[0]):  # the smaller neighbours of each row: they come in rising order
        j = edges[e, 1]
        indices[fill[j]] = edges[e, 0]
        fill[j] += 1
    for e in range(edges.shape[0]):  # then the larger ones
        i = edges[e, 0]
        indices[fill[i]] = edges[e, 1]
        fill[i] += 1
