"""Spectral clustering by the Bethe-Hessian matrix (Dall'Amico, Couillet & Tremblay 2019, 2021).

The method is made for connected graphs (a small dense component has crossings of its own), so it gets the giant
component; all other nodes have a row of zeros. If the eigensolver does not converge, the leading eigenvectors of
the regularised Laplacian D_tau^-1/2 A D_tau^-1/2 with tau = mean degree are taken instead; the second value
returned says which.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, dia_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from lab.papers.spectral import bethe_hessian


def embed(adjacency: Any, n_clusters: int, *, seed: int = 0) -> tuple[NDArray[np.float64], str]:
    """Return (vectors of shape (n, n_clusters - 1), name of the method); the graph is undirected."""
    whole = csr_array(adjacency, dtype=np.float64)
    _, component = connected_components(whole, directed=False)
    giant = np.flatnonzero(component == np.bincount(component).argmax())
    A = whole[giant][:, giant]
    degrees = np.asarray(A.sum(axis=1)).ravel()
    start = np.random.default_rng(seed).standard_normal(giant.size)
    try:
        found, method = bethe_hessian(A, n_clusters, start), "Bethe-Hessian"
    except ArpackNoConvergence:
        found, method = _regularised_laplacian(A, degrees, n_clusters, start), "regularised Laplacian"
    vectors = np.zeros((whole.shape[0], n_clusters - 1))
    vectors[giant] = found
    return vectors, method


def _regularised_laplacian(
    A: Any, degrees: NDArray[np.float64], q: int, start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the second to q-th leading eigenvectors; the first follows the degrees."""
    scale = 1.0 / np.sqrt(degrees + degrees.mean())
    S = dia_array((scale[None, :], [0]), shape=A.shape)
    _, vectors = eigsh(csr_array(S @ A @ S), k=q, which="LA", v0=start, tol=1e-3)
    return vectors[:, ::-1][:, 1:]
