"""Distances from some rows to all rows, block by block: never all of them at once, unless they were given."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar import _checks
from nearfar.contracts import Floats
from nearfar.errors import InputError

# Those of scikit-learn and SciPy that need no more than the two rows.
_SPARSE = ("euclidean", "cosine", "manhattan")
_NUMBERS = (*_SPARSE, "braycurtis", "canberra", "chebyshev", "correlation", "hamming", "sqeuclidean")
_SETS = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
METRICS = (*_NUMBERS, *_SETS, "precomputed")

_SAFE = (1e-15, 1e15)  # largest entries whose squares, summed, neither overflow nor vanish in float32


class Distances(Protocol):
    """Distances among n rows, divided by ``unit``."""

    n: int
    unit: float

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows, shape (q, n): float32, finite, from a row to itself 0."""


def distances_of(owner: str, X: Any, metric: str) -> Distances:
    """Check X and return its distances."""
    from scipy.sparse import issparse

    metric = _checks.check_choice(owner, "metric", metric, METRICS)
    sparse = issparse(X)
    if sparse and metric not in _SPARSE:
        known = ", ".join(repr(name) for name in _SPARSE)
        raise InputError(owner, "X", f"dense with metric={metric!r}", "a sparse matrix", f"Sparse X: {known}.")
    if sparse:
        return (
            _SparseEuclidean(owner, X)
            if metric == "euclidean"
            else _Pairwise(owner, _checks.check_sparse(owner, "X", X).astype(np.float64, copy=False), metric)
        )
    checked = _checks.check_matrix(owner, "X", X)
    if metric == "precomputed":
        return _Precomputed(owner, checked)
    if checked.shape[1] < 1:
        raise InputError(owner, "X", "of at least one column", f"shape {checked.shape}")
    if metric == "euclidean":
        return Euclidean(checked)
    return _Pairwise(owner, checked != 0 if metric in _SETS else checked, metric)


class Euclidean:
    """Euclidean distances of the rows of a dense matrix."""

    def __init__(self, X: Floats) -> None:
        self.n = len(X)
        self._X, self.unit = _in_units(X)

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows."""
        from nearfar.evaluate._rank_kernels import euclidean_rows

        euclidean_rows(self._X, rows, out)


class _Precomputed:
    """Distances that are there already; row i holds those from row i."""

    def __init__(self, owner: str, D: Floats) -> None:
        if D.shape[0] != D.shape[1]:
            raise InputError(owner, "X", "square with metric='precomputed'", f"shape {D.shape}")
        negative = np.flatnonzero((D < 0).any(axis=1))
        if negative.size:
            got = f"negative ones in {negative.size} row(s), first {negative[:5].tolist()}"
            raise InputError(owner, "X", "distances >= 0 with metric='precomputed'", got)
        self.n = len(D)
        self._D, self.unit = _in_units(D)

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows."""
        np.add(self._D[rows], 0, out=out, casting="same_kind")  # a negative zero becomes zero
        out[np.arange(len(rows)), rows] = 0


class _SparseEuclidean:
    """Euclidean distances of sparse rows, ``r² = |x|² + |y|² - 2 x . y`` in float64."""

    def __init__(self, owner: str, X: Any) -> None:
        checked = _checks.check_sparse(owner, "X", X).astype(np.float64, copy=False)
        self.n = checked.shape[0]
        self.unit = _unit(checked.data)
        self._X = checked / self.unit
        self._squares = np.asarray(self._X.multiply(self._X).sum(axis=1)).ravel()

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows."""
        lengths = self._squares[rows][:, None] + self._squares
        squares = lengths - 2 * (self._X[rows] @ self._X.T).toarray()
        squares[squares < 1e-14 * lengths] = 0  # what rounding leaves of the difference of equal rows
        np.sqrt(squares, out=out, casting="same_kind")
        out[np.arange(len(rows)), rows] = 0


class _Pairwise:
    """Distances by scikit-learn."""

    unit = 1.0

    def __init__(self, owner: str, X: Any, metric: str) -> None:
        self.n = X.shape[0]
        self._owner, self._X, self._metric = owner, X, metric

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows."""
        from sklearn.metrics import pairwise_distances

        found = np.asarray(pairwise_distances(self._X[rows], self._X, metric=self._metric))
        found[np.arange(len(rows)), rows] = 0
        with np.errstate(over="ignore"):
            np.maximum(found, 0, out=out, casting="same_kind")
        bad = rows[~np.isfinite(out).all(axis=1)]
        if bad.size:
            got = f"NaN or an infinite distance from {bad.size} or more row(s), first {bad[:5].tolist()}"
            raise InputError(self._owner, "X", f"such that metric={self._metric!r} has a value for all pairs", got)


def _in_units(X: Floats) -> tuple[Floats, float]:
    unit = _unit(X)
    return (X if unit == 1 else X.astype(np.float64) / unit), unit


def _unit(entries: Floats) -> float:
    """Return 1, or, where distances in float32 could overflow or vanish, the largest entry."""
    largest = float(max(entries.max(initial=0), -entries.min(initial=0)))
    return 1.0 if largest == 0 or _SAFE[0] <= largest <= _SAFE[1] else largest
