"""What a map of distances starts from: classical scaling, chance, or a given matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_matrix
from nearfar._parallel import single_threaded_blas
from nearfar.errors import InputError
from nearfar.models._mds_pairs import Pairs

_DENSE_UP_TO = 300  # objects, up to which all eigenvectors are computed at once
_JITTER = 1e-3  # of the unit


def start(owner: str, init: Any, pairs: Pairs, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
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
    _, _, own, product, _ = pairs.measures(Y)
    return np.asarray(Y * (product / own))


def classical(pairs: Pairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coordinates of classical scaling in units, shape (n, d), and the eigenvalues behind them.

    The largest eigenvalues of ``B = -1/2 J R² J`` (J centres) and their vectors, times the root of the eigenvalue; a
    column of zeros where that is not positive. The sign: the entry farthest from 0 is positive.
    """
    n = pairs.n
    if n <= max(_DENSE_UP_TO, 4 * d):
        values, vectors = _all_eigenpairs(pairs, d)
    else:
        values, vectors = _largest_eigenpairs(pairs, d)
    noise = n * np.finfo(pairs.dtype).eps * max(values[0], 0)
    Y = vectors * np.sqrt(np.where(values > noise, values, 0))
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


def _all_eigenpairs(pairs: Pairs, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.linalg import eigh

    n = pairs.n
    squares = np.column_stack([pairs.squared_product(unit) for unit in np.eye(n)])
    squares -= squares.mean(axis=0)
    squares -= squares.mean(axis=1, keepdims=True)
    with single_threaded_blas():
        values, vectors = eigh(-squares / 2, subset_by_index=[n - d, n - 1])
    return values[::-1], vectors[:, ::-1]


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
