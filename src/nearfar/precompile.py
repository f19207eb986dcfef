"""Compiling ahead of need."""

from __future__ import annotations

import io
import time


def warmup() -> float:
    """Compile the kernels of the usual fits now, so that the first one does not wait for it.

    Compiled kernels are kept on disk, in ``__pycache__`` beside the package or, where that cannot be written, in the
    user's cache folder; the environment variable ``NEARFAR_CACHE_DIR`` names another one. One call per machine and
    version is enough. Useful when an image is built.

    Returns
    -------
    float
        Seconds that it took; about a second when all kernels were on disk already.

    Examples
    --------
    >>> import nearfar as nf
    >>> seconds = nf.warmup()
    """
    import numpy as np

    from nearfar.estimators.edrep import EDRep
    from nearfar.maps.recipes import TSNE
    from nearfar.relations.kernels import FEW
    from nearfar.relations.matrix import Relation

    started = time.perf_counter()
    nodes = np.arange(FEW // 2)  # nothing is compiled for a smaller relation
    ring = np.concatenate([np.stack([nodes, np.roll(nodes, step)], axis=1) for step in (1, 5, 9)])
    weighted = np.column_stack([ring, 0.5 + ring[:, 0] % 3])
    for edges in (ring, weighted):
        for directed in (False, True):
            relation = Relation.from_edges(edges, directed=directed)
            for steps in (1, 2):
                walk = relation.random_walk(steps)
                for gradient in ("forward", "paper"):
                    EDRep(2, gradient=gradient, n_epochs=1, random_state=0).fit(walk)
    for separator in (" ", " id"):  # files of integer ids, and of others
        lines = "\n".join(f"{u}{separator}{v}" for u, v in ring[:9])
        Relation.from_edges(io.StringIO(lines), delimiter=" ")
    users = Relation.from_edges(ring, bipartite=True).normalized()
    EDRep(2, n_clusters=2, n_epochs=1, random_state=0).fit(users).transform(users)
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    for far in ("exact", "fft"):
        TSNE(perplexity=3, max_iter=2, far=far, random_state=0).fit(points).transform(points[:2])
    return time.perf_counter() - started
