"""Spectral clustering by the Bethe-Hessian matrix (Dall'Amico, Couillet & Tremblay 2019, 2021).

    H_r = (r^2 - 1) I + D - r A

For each p = 2 .. q the value r = zeta_p in (1, sqrt(rho)) is found at which the p-th smallest eigenvalue of H_r
crosses 0 (rho: the spectral radius of the non-backtracking matrix). The null vector there follows the communities
and not the degrees. The rows of these q - 1 vectors, scaled to length 1, are what k-means gets.

With S = (D + (r^2 - 1) I)^(-1/2), S H_r S = I - r S A S has as many negative eigenvalues as H_r, so the crossing is
where the p-th largest eigenvalue of S A S is 1 / r: a bounded spectrum with a good gap, whatever the degrees. Each
zeta_p is found by Newton's method in its bracket, as the slope is known: ds/dr = 2 r - x'Ax for s = x'H_r x and a
unit vector x. An eigenvalue that does not cross (too hard a graph) leaves r = sqrt(rho).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh

_TOLERANCE = 1e-3  # of the crossing, in units of the eigenvalue of H_r


def bethe_hessian(A: Any, q: int, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the q - 1 null vectors of a connected graph, shape (n, q - 1); ``start`` is what eigsh begins with."""
    degrees = np.asarray(A.sum(axis=1)).ravel()
    r = float(np.sqrt(_spectral_radius(A, degrees, start)))
    values, vectors = _smallest(A, degrees, r, q, start)
    columns = []
    for p in range(q, 1, -1):  # zeta_q is the largest; each one is the upper end for the next
        if values[p - 1] < -_TOLERANCE:
            r, values, vectors = _crossing(A, degrees, r, p, values, vectors)
        columns.append(vectors[:, p - 1])
    return np.column_stack(columns)


def _crossing(
    A: Any, degrees: NDArray[np.float64], r: float, p: int, values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return zeta_p in (1, r) and the p lowest pairs there, from those at r, where the p-th is negative."""
    low, high = 1.0, r
    while abs(values[p - 1]) > _TOLERANCE and high - low > 1e-6:
        s, x = values[p - 1], vectors[:, p - 1]
        low, high = (low, r) if s < 0 else (r, high)
        newton = r - s / (2.0 * r - x @ (A @ x))
        r = newton if low < newton < high else 0.5 * (low + high)
        values, vectors = _smallest(A, degrees, r, p, vectors.sum(axis=1))
    return r, values, vectors


def _smallest(
    A: Any, degrees: NDArray[np.float64], r: float, k: int, start: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return s = x'H_r x, rising in sign, and the unit vectors x in columns, for the k lowest directions of S H_r S."""
    scale = 1.0 / np.sqrt(degrees + r * r - 1.0)
    S = diags_array(scale)
    largest, turned = eigsh(csr_array(S @ A @ S), k=k, which="LA", v0=start, ncv=max(3 * k, 30), tol=1e-6)
    order = np.argsort(-largest)
    x = scale[:, None] * turned[:, order]
    squared = (x * x).sum(axis=0)
    return (1.0 - r * largest[order]) / squared, x / np.sqrt(squared)


def _spectral_radius(A: Any, degrees: NDArray[np.float64], start: NDArray[np.float64]) -> float:
    """Return rho, the largest root of s_1(H_r) = 0, from <d^2>/<d> - 1 by the root of the Rayleigh quotient."""
    rho = float((degrees @ degrees) / degrees.sum() - 1.0)
    for _ in range(20):
        _, vectors = _smallest(A, degrees, rho, 1, start)
        x = start = vectors[:, 0]
        a, d = x @ (A @ x), x @ (degrees * x)
        new = 0.5 * (a + np.sqrt(max(a * a - 4.0 * (d - 1.0), 0.0)))
        if abs(new - rho) < 1e-3 * rho:
            return float(new)
        rho = float(new)
    return rho
