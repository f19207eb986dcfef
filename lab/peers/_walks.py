"""Random walks on a graph, compiled: uniform ones, and those of node2vec."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def uniform_walks(
    indptr: NDArray[Any], indices: NDArray[np.int32], starts: NDArray[np.int32], length: int, seed: int
) -> NDArray[np.int32]:
    """Walk ``length`` nodes from each start; a node without a neighbour ends the walk, the rest is -1."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own state, of this thread alone
    walks = np.full((starts.size, length), -1, np.int32)
    for w in range(starts.size):
        node = starts[w]
        walks[w, 0] = node
        for step in range(1, length):
            first, degree = indptr[node], indptr[node + 1] - indptr[node]
            if degree == 0:
                break
            node = indices[first + np.random.randint(degree)]  # noqa: NPY002
            walks[w, step] = node
    return walks


@njit(cache=True, nogil=True)
def biased_walks(
    indptr: NDArray[Any],
    indices: NDArray[np.int32],
    starts: NDArray[np.int32],
    length: int,
    seed: int,
    p: float,
    q: float,
) -> NDArray[np.int32]:
    """Walk as node2vec does (indices sorted): back with weight 1 / p, to a neighbour of the last node 1, else 1 / q."""
    np.random.seed(seed)  # noqa: NPY002
    walks = np.full((starts.size, length), -1, np.int32)
    largest = max(1.0, 1.0 / p, 1.0 / q)
    for w in range(starts.size):
        before, node = -1, starts[w]
        walks[w, 0] = node
        for step in range(1, length):
            first, last = indptr[node], indptr[node + 1]
            if first == last:
                break
            while True:  # rejection: a draw among the neighbours, kept with its weight over the largest
                new = indices[first + np.random.randint(last - first)]  # noqa: NPY002
                if before < 0:
                    break
                weight = 1.0 / q
                if new == before:
                    weight = 1.0 / p
                else:
                    near = indices[indptr[before] : indptr[before + 1]]
                    at = np.searchsorted(near, new)
                    if at < near.size and near[at] == new:
                        weight = 1.0
                if np.random.random() * largest < weight:  # noqa: NPY002
                    break
            before, node = node, new
            walks[w, step] = node
    return walks
