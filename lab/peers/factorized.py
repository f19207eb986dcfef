"""NetMF and ProNE, written from their papers: factorisations of what walks and edges say.

NetMF (Qiu et al. 2018, equations 5 and 6): the matrix that DeepWalk with window T and b negatives factorises,
``log max(1, vol / (b T) (sum_r P^r) D^-1)``, P the transition matrix. It is dense: the exact one up to ``MOST_EXACT``
nodes, above from the 256 leading eigenvectors of ``D^-1/2 A D^-1/2`` (algorithm 4), and no more than ``MOST_DENSE``
nodes at all. ProNE (Zhang et al. 2019): a sparse matrix of ``ln p_ij - ln P_j`` on the edges with ``P_j`` of negative
sampling (power 3/4), a randomised decomposition, then a band-pass filter of the graph's Laplacian by Chebyshev
polynomials (order 10, mu = 0.2, theta = 0.5), and an orthogonal basis of that. Spectral and GSVD are scikit-network's,
at their defaults.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, diags_array, eye_array
from scipy.sparse.linalg import eigsh
from scipy.special import iv
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

MOST_EXACT, MOST_DENSE = 6_000, 20_000


def netmf(
    adjacency: Any, n_components: int, *, window: int = 10, negatives: float = 1.0, seed: int = 0
) -> NDArray[np.float32]:
    """Return vectors of shape (n, n_components): left singular vectors times the roots of the values."""
    A = csr_array(adjacency, dtype=np.float32)
    n = A.shape[0]
    if n > MOST_DENSE:
        raise ValueError(f"NetMF needs a dense matrix of {n} x {n}")
    degrees = np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-12)
    root = degrees**-0.5
    S = diags_array(root) @ A @ diags_array(root)  # D^1/2 P D^-1/2
    if n <= MOST_EXACT:
        M = S.toarray()
        for _ in range(window - 1):  # Horner: S + S (S + S (...))
            M = S @ M + S.toarray()
        M /= window
    else:
        start = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
        values, U = eigsh(S.astype(np.float32), 256, v0=start, tol=1e-3)
        powers = sum(values**r for r in range(1, window + 1)) / window
        M = (U * np.maximum(powers, 0)) @ U.T
    M = M * (root * (degrees.sum() / negatives))[:, None] * root
    np.log(np.maximum(M, 1, out=M), out=M)
    U, s, _ = randomized_svd(M, n_components, n_iter=5, random_state=seed)
    return np.ascontiguousarray(U * np.sqrt(s), dtype=np.float32)


def prone(
    adjacency: Any, n_components: int, *, order: int = 10, mu: float = 0.2, theta: float = 0.5, seed: int = 0
) -> NDArray[np.float32]:
    """Return vectors of shape (n, n_components), of length 1."""
    A = csr_array(adjacency, dtype=np.float64)
    P = csr_array(normalize(A, norm="l1"))
    negatives = np.asarray(P.sum(axis=0)).ravel() ** 0.75
    negatives = np.maximum(negatives / negatives.sum(), 1e-12)
    F = P.copy()
    F.data = np.log(F.data) - np.log(negatives[F.indices])
    R = _basis(*randomized_svd(F, n_components, n_iter=5, random_state=seed)[:2])

    # The filter exp(-theta ((lambda - mu)^2 - 1) / 2) of the Laplacian's eigenvalues, expanded in Bessel functions.
    n = A.shape[0]
    loops = A + eye_array(n)
    T = csr_array(normalize(loops, norm="l1"))
    shifted = csr_array((1 - mu) * eye_array(n) - T)
    before, now = R, 0.5 * (shifted @ (shifted @ R)) - R
    total = iv(0, theta) * before - 2 * iv(1, theta) * now
    for i in range(2, order):
        step = shifted @ (shifted @ now) - 2 * now
        before, now = now, step - before
        total += (-1) ** i * 2 * iv(i, theta) * now
    spread = T @ (R - total)
    return _basis(*np.linalg.svd(spread, full_matrices=False)[:2]).astype(np.float32)


def _basis(U: NDArray[Any], s: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(normalize(U * np.sqrt(s)))


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
