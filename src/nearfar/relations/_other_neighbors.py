"""Neighbours by any other metric, through scikit-learn, and by distances that are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_matrix, check_sparse
from nearfar.errors import DataError, InputError
from nearfar.relations.neighbors import Neighbors, check_k

_ROWS = 512  # that are sorted or compared at a time
_SLACK = 16  # units in the last place by which two distances of the same pair may differ


class MetricIndex:
    """Neighbours by a metric of scikit-learn, or among the rows of a sparse matrix.

    Parameters
    ----------
    owner : str
    X : array-like or sparse matrix of shape (n, d)
    metric : str or callable
    n_jobs : int
    """

    def __init__(self, owner: str, X: Any, metric: str | Callable[..., float], n_jobs: int) -> None:
        from sklearn.neighbors import NearestNeighbors

        self._owner = owner
        self._X = _rows(owner, X)
        check_k(owner, "k", 1, self.n_rows)
        self._search = NearestNeighbors(metric=metric, n_jobs=n_jobs)
        try:
            self._search.fit(self._X)
        except (ValueError, TypeError) as error:
            raise InputError(
                owner, "metric", "one that scikit-learn knows for such X", f"{metric!r} ({error})"
            ) from error

    @property
    def n_rows(self) -> int:
        """Number of rows that are searched."""
        return int(self._X.shape[0])

    def neighbors(self, k: int) -> Neighbors:
        """Return the k nearest other rows of each row."""
        return self._answer(None, k)

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X."""
        return self._answer(_rows(self._owner, X, int(self._X.shape[1])), k)

    def _answer(self, X: Any, k: int) -> Neighbors:
        distances, indices = self._search.kneighbors(X, k)
        if not np.all(distances >= 0):
            bad = float(distances[~(distances >= 0)][0])
            raise InputError(self._owner, "metric", "one whose distances are not negative", f"a distance of {bad}")
        return _by_distance(indices, distances)


class PrecomputedIndex:
    """Neighbours by distances that are given.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, n), or sparse matrix of that shape
        A sparse matrix holds the distances of some pairs; what it stores on the diagonal is passed over.
    """

    def __init__(self, owner: str, X: Any) -> None:
        from scipy.sparse import csr_array, issparse

        self._owner = owner
        self._graph = issparse(X)
        if self._graph:
            self._X: Any = csr_array(X)
            values = self._X.data
        else:
            self._X = values = check_matrix(owner, "X", X)
        n, m = self._X.shape
        if n != m:
            hint = "Rows of numbers need another metric than 'precomputed'."
            raise InputError(owner, "X", "a square matrix of distances", f"shape {(n, m)}", hint)
        _check_distances(owner, values, self._X)
        if not self._graph:
            _check_symmetric(owner, self._X)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._X.shape[0])

    def neighbors(self, k: int) -> Neighbors:
        """Return the k nearest other rows of each row."""
        if self._graph:
            return self._from_graph(self._X, k, own=True)
        return _smallest(self._X, k, own=True)

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows for each row of X, its distances from all rows or, sparse, from some."""
        from scipy.sparse import csr_array, issparse

        if issparse(X):
            graph: Any = csr_array(X)  # type: ignore[call-overload]
            if graph.shape[1] != self.n_rows:
                raise InputError(self._owner, "X", f"of {self.n_rows} columns", f"{graph.shape[1]}")
            _check_distances(self._owner, graph.data, graph)
            return self._from_graph(graph, k, own=False)
        matrix = check_matrix(self._owner, "X", X, columns=self.n_rows)
        _check_distances(self._owner, matrix, matrix)
        return _smallest(matrix, k, own=False)

    def _from_graph(self, graph: Any, k: int, *, own: bool) -> Neighbors:
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        kept = graph.indices != rows if own else np.ones(graph.nnz, bool)
        rows, columns, values = rows[kept], graph.indices[kept], graph.data[kept].astype(np.float32)
        counts = np.bincount(rows, minlength=graph.shape[0])
        short = np.flatnonzero(counts < k)
        if short.size:
            got = f"{int(counts[short[0]])} in row {int(short[0])} ({short.size} row(s) with fewer)"
            hint = f"Ask for at most {int(counts.min())} neighbours, or store more distances."
            raise DataError(self._owner, "X", f"a graph with {k} distances in each row at least", got, hint)
        order = np.lexsort((columns, values, rows))
        first = (np.cumsum(counts) - counts)[:, None] + np.arange(k)
        chosen = order[first]
        return Neighbors(columns[chosen].astype(np.int32), values[chosen])


def _rows(owner: str, X: Any, columns: int | None = None) -> Any:
    """Return X as a finite matrix, or as a CSR array if it is sparse."""
    from scipy.sparse import issparse

    return (check_sparse if issparse(X) else check_matrix)(owner, "X", X, columns=columns)


def _by_distance(indices: NDArray[Any], distances: NDArray[Any]) -> Neighbors:
    """Put neighbours in the order of distance, then of rows."""
    order = np.lexsort((indices, distances), axis=1)
    taken = np.take_along_axis(indices, order, 1), np.take_along_axis(distances, order, 1)
    return Neighbors(taken[0].astype(np.int32), taken[1].astype(np.float32))


def _smallest(distances: NDArray[Any], k: int, *, own: bool) -> Neighbors:
    """Return the k smallest of each row, without the diagonal if it is the rows' own; ties go to the first."""
    found = Neighbors(np.empty((len(distances), k), np.int32), np.empty((len(distances), k), np.float32))
    for start in range(0, len(distances), _ROWS):
        block = distances[start : start + _ROWS].copy()
        rows = np.arange(len(block))
        if own:
            block[rows, start + rows] = np.inf
        chosen = np.argpartition(block, k - 1, axis=1)[:, :k]
        largest = np.take_along_axis(block, chosen, 1).max(axis=1, keepdims=True)
        tied = np.flatnonzero(np.count_nonzero(block <= largest, axis=1) > k)
        chosen[tied] = np.argsort(block[tied], axis=1, kind="stable")[:, :k]
        nearest = _by_distance(chosen, np.take_along_axis(block, chosen, 1))
        found.indices[start : start + _ROWS], found.distances[start : start + _ROWS] = nearest
    return found


def _check_distances(owner: str, values: NDArray[Any], X: Any) -> None:
    bad = np.flatnonzero(~(values >= 0) | ~np.isfinite(values))
    if not bad.size:
        return
    at = int(bad[0])
    if values.ndim == 2:
        row, column = divmod(at, values.shape[1])
    else:
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    got = f"{values.ravel()[at]} in row {row}, column {column} ({bad.size} such entries)"
    raise DataError(owner, "X", "distances, finite and not negative", got, "Similarities must be turned round first.")


def _check_symmetric(owner: str, X: NDArray[Any]) -> None:
    for start in range(0, len(X), _ROWS):
        block, mirrored = X[start : start + _ROWS, start:], X[start:, start : start + _ROWS].T
        differ = np.abs(block - mirrored) > _SLACK * np.finfo(np.float32).eps * np.maximum(block, mirrored)
        if differ.any():
            i, j = np.unravel_index(int(differ.argmax()), differ.shape)
            a, b = block[i, j], mirrored[i, j]
            got = f"{a} from row {start + i} to {start + j} and {b} back"
            raise DataError(owner, "X", "symmetric distances", got, "Take the mean of X and its transpose.")
