"""Spectral and GSVD of scikit-network: embeddings of a graph at their defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


def spectral(adjacency: Any, n_components: int, *, seed: int = 0) -> NDArray[Any]:
    """Return scikit-network's spectral embedding; it draws its start from numpy's global state."""
    from sknetwork.embedding import Spectral

    np.random.seed(seed)  # noqa: NPY002
    return np.asarray(Spectral(n_components).fit_transform(csr_matrix(adjacency)))


def gsvd(adjacency: Any, n_components: int, *, seed: int = 0) -> NDArray[Any]:
    """Return scikit-network's generalised singular vectors of the adjacency matrix."""
    from sknetwork.embedding import GSVD

    np.random.seed(seed)  # noqa: NPY002
    return np.asarray(GSVD(n_components).fit_transform(csr_matrix(adjacency)))
