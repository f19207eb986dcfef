"""What a map of distances starts from: classical scaling, chance, or a given matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_matrix
from nearfar._parallel import single_threaded_blas
from nearfar.errors import InputError
from nearfar.models.maps._mds_pairs import Pairs
from nearfar.models.maps._mds_rows import EuclideanRows
from nearfar.models.maps._mds_sample import SampledPairs

_DENSE_UP_TO = 300  # objects, up to which all eigenvectors are computed at once
_JITTER = 1e-3  # of the unit
_LANDMARKS = 500


def start(owner: str, init: Any, pairs: Pairs | SampledPairs, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return first positions in units, shape (n, d).

    A random start is scaled to have the lowest metric stress; a given one is taken as it is.
    """
    if init is None or (isinstance(init, str) and init not in ("classical", "random")):
        raise InputError(owner, "init", "one of 'classical', 'random' or an array", repr(init))
    if not isinstance(init, str):
        return check_matrix(owner, "init", init, rows=pairs.n, columns=d).astype(np.float64) / pairs.unit
    if init == "classical":
        return apart(*classical(pairs, d))
    Y = rng.normal(size=(pairs.n, d))
    _, _, own, product, _, _ = pairs.measures(Y)
    return np.asarray(Y * (product / own))


def classical(pairs: Pairs | SampledPairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coordinates of classical scaling in units, shape (n, d), and the eigenvalues behind them.

    The largest eigenvalues of ``B = -1/2 J R² J`` (J centres) and their vectors, times the root of the eigenvalue; a
    column of zeros where that is not positive. Of Euclidean rows that is PCA. Where pairs are sampled, by any other
    metric, it is done for some rows, the landmarks. The sign: the entry farthest from 0 is positive.
    """
    n = pairs.n
    if isinstance(pairs.rows, EuclideanRows) and pairs.rows.X.shape[1] <= n:
        Y, values = _principal_components(pairs.rows, pairs.scale, d)
    elif isinstance(pairs, SampledPairs):
        Y, values = _by_landmarks(pairs, d)
    else:
        values, vectors = (_all_eigenpairs if n <= max(_DENSE_UP_TO, 4 * d) else _largest_eigenpairs)(pairs, d)
        Y = vectors * np.sqrt(np.maximum(values, 0))
    noise = n * np.finfo(pairs.dtype).eps * max(values[0], 0)
    Y = np.where(values > noise, Y, 0)
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1), values


def apart(Y: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the positions with a little added where no force would part them: points in one place, empty columns.

    What is added depends on nothing: the classical start has no chance in it.
    """
    together = len(np.unique(Y, axis=0)) < len(Y)
    if not together and np.all(Y.any(axis=0)) and np.all(values > 0):
        return Y
    noise = np.random.default_rng(0).normal(0, _JITTER, Y.shape)
    return Y + (noise if together else noise * ~Y.any(axis=0))


def _principal_components(rows: EuclideanRows, scale: float, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    axes, values = rows.axes()
    found = min(d, len(values))
    Y, variances = np.zeros((rows.n, d)), np.zeros(d)
    Y[:, :found] = rows.X @ (scale * axes[:, :found]).astype(rows.X.dtype)
    variances[:found] = scale**2 * values[:found]
    return Y, variances


def _by_landmarks(pairs: SampledPairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the classical scaling of some rows, and the others where their distances from these put them.

    Source: de Silva & Tenenbaum (2004), "Sparse multidimensional scaling using landmark points": with the squared
    distances δ of a row from the landmarks, their means μ and eigenvalues λ, its position is -1/2 V^T (δ - μ) / √λ.
    """
    rows, n = pairs.rows, pairs.n
    chosen = np.sort(pairs.rng.choice(n, min(_LANDMARKS, n), replace=False))
    squares = np.square(pairs.scale * rows.group(chosen), dtype=np.float64)
    means = squares.mean(axis=0)
    centred = squares - means
    centred -= centred.mean(axis=1, keepdims=True)
    values, vectors = _eigenpairs(-(centred + centred.T) / 4, d)
    roots = np.sqrt(np.where(values > 0, values, np.inf))
    Y = np.empty((n, d))
    for first in range(0, n, 1024):
        members = np.arange(first, min(first + 1024, n))
        found = np.square(pairs.scale * rows.between(members, chosen), dtype=np.float64)
        Y[members] = (means - found) @ vectors / (2 * roots)
    return Y - Y.mean(axis=0), values * n / len(chosen)


def _eigenpairs(B: NDArray[np.float64], d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest d eigenvalues of B and their vectors."""
    from scipy.linalg import eigh

    n = len(B)
    with single_threaded_blas():
        values, vectors = eigh(B, subset_by_index=[n - d, n - 1])
    return values[::-1], vectors[:, ::-1]


def _all_eigenpairs(pairs: Pairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    squares = np.column_stack([pairs.squared_product(unit) for unit in np.eye(pairs.n)])
    squares -= squares.mean(axis=0)
    squares -= squares.mean(axis=1, keepdims=True)
    return _eigenpairs(-squares / 2, d)


def _largest_eigenpairs(pairs: Pairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        found = pairs.squared_product(vector - vector.mean())
        return np.asarray((found.mean() - found) / 2)

    n = pairs.n
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    first = np.random.default_rng(0).normal(size=n)
    try:
        with single_threaded_blas():
            values, vectors = eigsh(operator, d, which="LA", v0=first, tol=1e-9, maxiter=100, ncv=min(n, 2 * d + 12))
    except ArpackNoConvergence as error:  # eigenvalues close together: any mixture of their vectors is as good a start
        values, vectors = np.zeros(d), np.zeros((n, d))
        values[: len(error.eigenvalues)], vectors[:, : len(error.eigenvalues)] = error.eigenvalues, error.eigenvectors
    order = np.argsort(-values)
    return values[order], vectors[:, order]
