"""DeepWalk (Perozzi et al. 2014) at its best: compiled uniform walks, then gensim's skip-gram.

How many walks it gets decides its time. Here it is the fewest walks per node within 0.01 of its NMI plateau, found
on one graph per setting (``fewest_walks``) and kept for all others of that setting. One pass of gensim over the
walks: more walks are worth more than more passes over the same ones. Isolated nodes have no walks and a row of
zeros. With p and q other than 1 the walks are those of node2vec (Grover & Leskovec 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.peers._walks import biased_walks, uniform_walks

WALK_COUNTS = (1, 2, 5, 10, 20, 40)
WALK_LENGTH = 40
WINDOW = 10


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

    model = Word2Vec(
        sentences,
        vector_size=n_components,
        window=window,
        min_count=0,
        sg=1,
        hs=0,
        negative=5,
        sample=0,
        epochs=1,
        workers=workers,
        seed=seed + 1,
    )
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
