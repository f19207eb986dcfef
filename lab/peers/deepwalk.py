"""DeepWalk (Perozzi et al. 2014) at its best: compiled uniform walks, then gensim's skip-gram.

How many walks it gets decides its time. Here it is the fewest walks per node within 0.01 of its NMI plateau, found
on one graph per setting (``fewest_walks``) and kept for all others of that setting. One pass of gensim over the
walks: more walks are worth more than more passes over the same ones. Isolated nodes have no walks and a row of
zeros. With p and q other than 1 the walks are those of node2vec (Grover & Leskovec 2016). ``embed_weighted`` walks on a
graph with weights and, where it has such, directions: a step is taken in proportion to the weights, and a walk ends
where a node points to none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

WALK_COUNTS = (1, 2, 5, 10, 20, 40)
WALK_LENGTH = 40
WINDOW = 10


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


def embed(
    adjacency: Any,
    n_components: int,
    *,
    n_walks: int,
    walk_length: int = WALK_LENGTH,
    window: int = WINDOW,
    seed: int = 0,
    workers: int = 2,
    p: float = 1.0,
    q: float = 1.0,
) -> NDArray[np.float32]:
    """Return vectors of shape (n, n_components); ``n_walks`` walks start at every node with an edge."""
    rng = np.random.default_rng(seed)
    n = adjacency.shape[0]
    connected = np.flatnonzero(np.diff(adjacency.indptr)).astype(np.int32)
    names = np.array([str(node) for node in range(n)], dtype=object)
    sentences: list[list[str]] = []
    for _ in range(n_walks):
        starts = rng.permutation(connected)
        of_graph = adjacency.indptr, adjacency.indices, starts, walk_length, int(rng.integers(2**31))
        walks = uniform_walks(*of_graph) if p == q == 1 else biased_walks(*of_graph, p, q)
        whole = walks[:, -1] >= 0
        sentences += names[walks[whole]].tolist()
        sentences += [names[walk[walk >= 0]].tolist() for walk in walks[~whole]]  # directed graphs only
    return skip_gram(sentences, n, n_components, window=window, seed=seed, workers=workers)


def skip_gram(
    sentences: list[list[str]], n: int, n_components: int, *, window: int, seed: int, workers: int
) -> NDArray[np.float32]:
    """Return gensim's vectors of nodes from their walks, shape (n, n_components): of zeros where no walk goes."""
    from gensim.models import Word2Vec

    how = {"window": window, "min_count": 0, "sg": 1, "hs": 0, "negative": 5, "sample": 0, "epochs": 1}
    model = Word2Vec(sentences, vector_size=n_components, workers=workers, seed=seed + 1, **how)
    vectors = np.zeros((n, n_components), dtype=np.float32)
    rows = np.array([int(key) for key in model.wv.index_to_key])
    vectors[rows] = model.wv.vectors
    return vectors


def fewest_walks(
    score: Callable[[int], float], counts: tuple[int, ...] = WALK_COUNTS, within: float = 0.01
) -> tuple[int, dict[int, float]]:
    """Return the fewest walks whose score is within ``within`` of the best, and the scores of all that were tried.

    ``score(n_walks)`` is asked in rising order, until two more steps have not gained ``within``; not before the fifth,
    as a hard graph shows nothing at all on the first few.
    """
    scores: dict[int, float] = {}
    for count in counts:
        scores[count] = score(count)
        last = list(scores.values())
        if len(last) >= 5 and max(last[-2:]) < max(last[:-2]) + within:
            break
    best = max(scores.values())
    return next(count for count, value in scores.items() if value >= best - within), scores


# ---------------------------------------------------------------- weights and directions


def weighted_walks(matrix: Any, starts: NDArray[np.int64], length: int, rng: np.random.Generator) -> NDArray[np.int32]:
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


def embed_weighted(
    matrix: Any, n_components: int, *, n_walks: int, walk_length: int = 40, window: int = 10, seed: int = 0
) -> NDArray[np.float32]:
    """Return vectors of shape (n, n_components), of zeros where no walk goes; ``n_walks`` walks start at every node."""
    rng = np.random.default_rng(seed)
    n = matrix.shape[0]
    names = np.array([str(node) for node in range(n)], dtype=object)
    sentences: list[list[str]] = []
    for _ in range(n_walks):
        walks = weighted_walks(matrix, rng.permutation(n), walk_length, rng)
        sentences += [names[walk[walk >= 0]].tolist() for walk in walks if walk[1] >= 0]
    return skip_gram(sentences, n, n_components, window=window, seed=seed, workers=1)
