"""Spectral and GSVD of scikit-network, and Cleora (pycleora): embeddings of a graph at their defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, triu


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


def cleora(adjacency: Any, n_components: int, *, seed: int = 0, **options: Any) -> NDArray[np.float32]:
    """Return Cleora's vectors, in the order of the nodes; a node without an edge has a row of zeros."""
    import pycleora

    edges = triu(adjacency, 1).tocoo()
    lines = (f"{u} {v}" for u, v in zip(edges.row.tolist(), edges.col.tolist(), strict=True))
    graph = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    found = pycleora.embed(graph, feature_dim=n_components, seed=seed, num_workers=1, **options)
    vectors = np.zeros((adjacency.shape[0], n_components), np.float32)
    vectors[[int(name) for name in graph.entity_ids]] = found
    return vectors
