"""``nearfar warmup``: compiling ahead of need."""

from __future__ import annotations

import time

import click

from nearfar._core.slow import hush
from nearfar.cli.options import command
from nearfar.cli.shared import quiet_option

# ruff: noqa: D301 - as in cli/__init__.py


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
    >>> seconds = nf.warmup()  # doctest: +SKIP
    """
    import numpy as np

    from nearfar.estimators.edrep import EDRep
    from nearfar.maps.recipes import JSE, TSNE, UMAP
    from nearfar.relations.kernels import FEW_ENTRIES
    from nearfar.relations.matrix import Relation
    from nearfar.search.lists import FLAT
    from nearfar.words.skipgram import SkipGram

    hush()
    started = time.perf_counter()
    nodes = np.arange(FEW_ENTRIES // 2)  # nothing is compiled for a smaller relation
    ring = np.concatenate([np.stack([nodes, np.roll(nodes, step)], axis=1) for step in (1, 5, 9)])
    weighted = np.column_stack([ring, 0.5 + ring[:, 0] % 3])
    for edges in (ring, weighted):
        for directed in (False, True):
            relation = Relation.from_edges(edges, directed=directed)
            for steps in (1, 2):
                walk = relation.random_walk(steps)
                for gradient in ("forward", "paper"):
                    EDRep(2, gradient=gradient, n_epochs=1, random_state=0).fit(walk)
    users = Relation.from_edges(ring, bipartite=True).normalized()
    EDRep(2, n_clusters=2, n_epochs=1, random_state=0).fit(users).transform(users)
    points = np.random.default_rng(0).normal(size=(FLAT + 1, 3)).astype(np.float32)
    for far in ("exact", "fft"):
        TSNE(perplexity=3, max_iter=2, far=far, random_state=0).fit(points[:40]).transform(points[:2])
    for metric in ("euclidean", "cosine"):  # many, on a wide map
        TSNE(metric=metric, max_iter=2, init=100 * points[:, :2], random_state=0).fit(points)
    TSNE(perplexity=50, max_iter=2, random_state=0).fit(points.astype(np.float64))  # more neighbours than NumPy joins
    JSE(perplexity=3, max_iter=2, early_exaggeration_iter=1, far="fft", random_state=0).fit(points[:40])
    UMAP(max_iter=2, random_state=0).fit(points)
    SkipGram(2, n_epochs=1, min_count=1, sample=1.0, random_state=0).fit(["a word and another", "and a third word"] * 9)
    return time.perf_counter() - started


@command("Compile ahead what is used most.", "warmup")
@quiet_option
def warm(quiet: bool) -> None:
    """Compile now what the usual fits need, so that the first one does not wait for it.

    Once for each machine and version, as where an image is built. The code is kept: NEARFAR_CACHE_DIR says where.

    \b
    Example:
      nearfar warmup
    """
    seconds = warmup()
    if not quiet:
        click.echo(f"compiled in {seconds:.1f} s", err=True)
