"""DeepWalk on a graph with weights and, where it has such, directions: a step is taken in proportion to the weights.

A walk ends after ``walk_length`` nodes, or where a node points to none. Then gensim's skip-gram, as in ``deepwalk.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.peers.deepwalk import skip_gram


def walks_of(matrix: Any, starts: NDArray[np.int64], length: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Walk ``length`` nodes from each start; the rest of a walk that ends before is -1."""
    sums = np.concatenate([[0.0], np.cumsum(matrix.data, dtype=np.float64)])
    walks = np.full((starts.size, length), -1, np.int32)
    walks[:, 0] = starts
    on, at = np.arange(starts.size), starts
    for step in range(1, length):
        first, last = matrix.indptr[at], matrix.indptr[at + 1]
        on, first, last = (part[last > first] for part in (on, first, last))
        if not on.size:
            break
        drawn = sums[first] + rng.random(on.size) * (sums[last] - sums[first])
        chosen = np.clip(np.searchsorted(sums, drawn, side="right") - 1, first, last - 1)
        at = matrix.indices[chosen]
        walks[on, step] = at
    return walks


def embed(
    matrix: Any, n_components: int, *, n_walks: int, walk_length: int = 40, window: int = 10, seed: int = 0
) -> NDArray[np.float32]:
    """Return vectors of shape (n, n_components), of zeros where no walk goes; ``n_walks`` walks start at every node."""
    rng = np.random.default_rng(seed)
    n = matrix.shape[0]
    names = np.array([str(node) for node in range(n)], dtype=object)
    sentences: list[list[str]] = []
    for _ in range(n_walks):
        walks = walks_of(matrix, rng.permutation(n), walk_length, rng)
        sentences += [names[walk[walk >= 0]].tolist() for walk in walks if walk[1] >= 0]
    return skip_gram(sentences, n, n_components, window=window, seed=seed, workers=1)
