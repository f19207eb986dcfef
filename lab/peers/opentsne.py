"""openTSNE: the gradient phase from a given P and start, or the whole fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix


def optimize(
    P: csr_array, start: NDArray[Any], *, early: int, late: int, exaggeration: float, n_jobs: int
) -> NDArray[Any]:
    """Return the map after both phases, FFT repulsion, with openTSNE's own learning rate and momentum."""
    import openTSNE

    affinities = openTSNE.affinity.Affinities()
    affinities.P = csr_matrix(P, dtype=np.float64)
    map_ = openTSNE.TSNEEmbedding(
        start.astype(np.float64), affinities, negative_gradient_method="fft", n_jobs=n_jobs, random_state=0
    )
    map_.optimize(early, exaggeration=exaggeration, momentum=0.8, inplace=True)
    map_.optimize(late, momentum=0.8, inplace=True)
    return np.asarray(map_)


def fit(X: NDArray[Any], *, perplexity: float, n_jobs: int) -> NDArray[Any]:
    """Return the map of the points with openTSNE's defaults."""
    import openTSNE

    return np.asarray(openTSNE.TSNE(perplexity=perplexity, n_jobs=n_jobs, random_state=0).fit(X))
