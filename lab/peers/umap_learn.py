"""umap-learn: a whole fit, or its optimisation alone, from a given graph and start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix


def optimize(graph: csr_array, start: NDArray[Any], *, n_jobs: int) -> NDArray[Any]:
    """Return the map with umap-learn's defaults (200 or 500 epochs, min_dist .1, five negative samples)."""
    import numba
    from umap.umap_ import find_ab_params, simplicial_set_embedding

    a, b = find_ab_params(1.0, 0.1)
    before = numba.get_num_threads()
    numba.set_num_threads(min(n_jobs, before))
    try:
        found, _ = simplicial_set_embedding(
            data=start,  # not looked at: the graph and the start are given
            graph=csr_matrix(graph, dtype=np.float32).tocoo(),
            n_components=start.shape[1],
            initial_alpha=1.0,
            a=a,
            b=b,
            gamma=1.0,
            negative_sample_rate=5,
            n_epochs=None,
            init=start,  # which it scales to a box of 10
            random_state=np.random.RandomState(0),
            metric="euclidean",
            metric_kwds={},
            densmap=False,
            densmap_kwds={},
            output_dens=False,
            parallel=n_jobs > 1,
        )
    finally:
        numba.set_num_threads(before)
    return np.asarray(found)


def fit(X: NDArray[Any], seed: int, *, densmap: bool = False) -> NDArray[Any]:
    """Return the map of a whole fit at umap-learn's defaults, or densMAP's; with a seed it uses one worker."""
    from umap import UMAP

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that a seed means one worker
        return np.asarray(UMAP(random_state=seed, densmap=densmap).fit_transform(X))
