"""Uniform random walks on a graph, compiled."""

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
