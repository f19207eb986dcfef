"""Distances of rows of numbers, a tile of the matrix at a time: the whole of it need never be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.models.maps import _mds_kernels as kernels

_CLOSE = 0.02  # of the squared lengths: products lose too many digits of smaller squared distances


class EuclideanRows:
    """Euclidean distances, from blocked products of matrices.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    dtype : dtype
        What is computed in.
    n_jobs : int

    Attributes
    ----------
    X : ndarray of shape (n, p)
        The rows, centred, in units of their largest entry: squares of entries in an odd unit could leave the range of
        numbers, and rows far from the origin would lose the digits of their distances.
    within : float
        That unit; 1 where all rows are alike.
    """

    tile = (256, 512)

    def __init__(self, X: Floats, dtype: Any, n_jobs: int) -> None:
        X = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        largest = float(max(X.max(initial=0), -X.min(initial=0)))
        self.within = 1.0
        if largest >= np.finfo(dtype).tiny:
            self.within = largest
            X /= X.dtype.type(largest)
        else:
            X = np.zeros(X.shape)
        self.X = np.ascontiguousarray(X, dtype)
        self.n, self.n_jobs = len(X), n_jobs
        self._norms = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64).astype(dtype)

    def block(self, first: int, last: int, start: int, stop: int) -> Floats:
        """Return the distances of rows first..last from rows start..stop."""
        rows, others = slice(first, last), slice(start, stop)
        return _distances(self.X[rows], self.X[others], self._norms[rows], self._norms[others])

    def group(self, members: NDArray[Any]) -> Floats:
        """Return the distances of some rows from each other."""
        return self.between(members, members)

    def between(self, rows: NDArray[Any], others: NDArray[Any]) -> Floats:
        """Return the distances of some rows from others."""
        return _distances(self.X[rows], self.X[others], self._norms[rows], self._norms[others])

    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the principal axes, one per column, and the sums of squares along them; the largest first."""
        scatter = np.zeros((self.X.shape[1],) * 2)
        for start in range(0, self.n, 4096):
            part = self.X[start : start + 4096].astype(np.float64)
            scatter += part.T @ part
        values, axes = np.linalg.eigh(scatter)
        return axes[:, ::-1], values[::-1]


class MetricRows:
    """Distances by any metric of scikit-learn; X is an ndarray or a CSR array."""

    tile = (256, 4096)
    n_jobs = 1  # a function that is given need not be fit for threads
    within = 1.0

    def __init__(self, owner: str, X: Any, metric: str | Callable[..., float], dtype: Any) -> None:
        self.X, self.n = X, int(X.shape[0])
        self._owner, self._metric, self._dtype = owner, metric, dtype

    def block(self, first: int, last: int, start: int, stop: int) -> Floats:
        """Return the distances of rows first..last from rows start..stop."""
        return self.between(np.arange(first, last), np.arange(start, stop))

    def group(self, members: NDArray[Any]) -> Floats:
        """Return the distances of some rows from each other."""
        return self.between(members, members)

    def between(self, rows: NDArray[Any], others: NDArray[Any]) -> Floats:
        """Return the distances of some rows from others."""
        from sklearn.metrics import pairwise_distances

        try:  # two arrays, also where they are the same: else some metrics would take their scale from these rows
            found = np.asarray(pairwise_distances(self.X[rows], self.X[others], metric=self._metric))
        except (ValueError, TypeError) as error:
            expected = "'precomputed', or one that scikit-learn can compute for X"
            raise InputError(self._owner, "metric", expected, f"{self._metric!r} ({error})") from error
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1) | (found < 0).any(axis=1))
        if bad.size:
            got = f"none, infinite or negative in row(s) {rows[bad[:5]].tolist()}"
            raise InputError(
                self._owner, "metric", "one that has a distance for all rows of X", f"{self._metric!r} ({got})"
            )
        return found.astype(self._dtype, copy=False)


Rows = EuclideanRows | MetricRows


def rows_of(owner: str, X: Any, metric: Any, dtype: Any, n_jobs: int) -> Rows:
    """Return the rows of a matrix, dense or sparse, with their metric."""
    if isinstance(X, np.ndarray) and isinstance(metric, str) and metric == "euclidean":
        return EuclideanRows(X, dtype, n_jobs)
    return MetricRows(owner, X, metric, dtype)


def each_tile(rows: Rows, task: Callable[[int, int, int, Floats], None]) -> None:
    """Call ``task(block, first, start, tile)`` for tiles that cover all pairs i < j; the blocks are those of rows."""
    wide = rows.tile[1]

    def work(block: int, first: int, last: int) -> None:
        for start in range(first, rows.n, wide):
            stop = min(start + wide, rows.n)
            task(block, first, start, rows.block(first, last, start, stop))

    with single_threaded_blas():
        run_blocks(work, tile_bounds(rows), rows.n_jobs)


def tile_bounds(rows: Rows) -> NDArray[np.int64]:
    """Return the bounds of the blocks of rows that :func:`each_tile` does."""
    return even_bounds(rows.n, rows.tile[0])


def triangle(rows: Rows, dtype: Any) -> Floats:
    """Return the distances of all pairs i < j, row by row."""
    flat = np.empty(rows.n * (rows.n - 1) // 2, dtype)
    each_tile(rows, lambda _, first, start, tile: kernels.keep_tile(first, start, tile, rows.n, flat))
    return flat


def _distances(rows: Floats, others: Floats, norms: Floats, other_norms: Floats) -> Floats:
    products = rows @ others.T
    kernels.distances_of_products(products, norms, other_norms, rows, others, rows.dtype.type(_CLOSE))
    return products
