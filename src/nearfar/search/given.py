"""Neighbours by distances that are given, or that another search has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_matrix, check_numbers
from nearfar._core.types import Floats, Integers
from nearfar.errors import DataError, InputError
from nearfar.search.distances import check_distances, check_distances_from, not_negative
from nearfar.search.nearest import RANGE, Neighbors, by_distance, smallest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr = csr_array[np.floating]
Given = TypeVar("Given", bound="Csr | Floats")
_AT_ONCE = 4096  # rows that are looked at together
Pair = tuple[ArrayLike, ArrayLike]
"""Row numbers and distances."""


class PrecomputedIndex:
    """Neighbours by distances that are given.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, n), or sparse matrix of that shape
        A sparse matrix holds the distances of some pairs; what it stores on the diagonal is passed over.
    """

    def __init__(self, owner: str, X: object) -> None:
        self._owner = owner
        self._X = _in_range(owner, check_distances(owner, X))
        self.n_rows = n = int(self._X.shape[0])
        self.most = n - 1

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return self._nearest(self._X, k, skip_self=True).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows for each row of X, its distances from all rows or, sparse, from some."""
        new = _in_range(self._owner, check_distances_from(self._owner, X, self.n_rows))
        return self._nearest(new, k, skip_self=False)

    def _nearest(self, graph: Csr | Floats, k: int, *, skip_self: bool) -> Neighbors:
        if isinstance(graph, np.ndarray):
            return smallest(graph, k, skip_self=skip_self)
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        kept = graph.indices != rows if skip_self else np.ones(graph.nnz, bool)
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


def are_neighbors(X: object, metric: object) -> TypeGuard[Pair]:
    """Return whether X is the answer of another search, a pair (indices, distances)."""
    if not (isinstance(metric, str) and metric == "precomputed" and isinstance(X, tuple)):
        return False
    try:
        return len(X) == 2 and all(np.ndim(part) == 2 for part in X)
    except ValueError:  # rows of unequal length
        return False


class GivenIndex:
    """Neighbours that another search has found.

    Parameters
    ----------
    owner : str
    X : tuple of two array-likes of shape (n, k)
        Row numbers and distances, in any order; a row among its own neighbours is passed over.
    """

    def __init__(self, owner: str, X: Pair) -> None:
        self._owner = owner
        indices, distances = self._checked(X, None)
        self.n_rows, k = indices.shape
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, self.n_rows, _AT_ONCE)]
        rows = np.arange(self.n_rows)[:, None]
        owned = any((indices[block] == rows[block]).any() for block in blocks)
        self.most = k - owned
        if self.most == 0:
            raise InputError(owner, "X", "neighbours beside the row itself", f"indices of shape {indices.shape}")
        as_wanted = indices.dtype == np.int32 and distances.dtype == np.float32 and indices.flags.c_contiguous
        ordered = as_wanted and not owned
        for block in blocks if ordered else []:
            steps = np.diff(distances[block], axis=1)
            later = np.diff(indices[block], axis=1) > 0
            ordered = ordered and bool(((steps > 0) | ((steps == 0) & later)).all())
        if ordered:  # also where they are mapped from a file
            self._found = Neighbors(indices, distances)  # type: ignore[arg-type] # int32
            return
        self._found = Neighbors.empty(self.n_rows, self.most)
        for block in blocks:
            others = np.where(indices[block] == rows[block], np.inf, distances[block])
            found = by_distance(indices[block], others)
            self._found.indices[block] = found.indices[:, : self.most]
            self._found.distances[block] = found.distances[:, : self.most]

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return self._found.first(self._enough(k, self.most)).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X, a pair (indices, distances) of new rows."""
        if not are_neighbors(X, "precomputed"):
            expected = "a pair (indices, distances) of the neighbours among the rows of the fit"
            raise InputError(self._owner, "X", expected, type(X).__name__, "The fit was to such a pair.")
        found = by_distance(*self._checked(X, self.n_rows))
        return found.first(self._enough(k, found.indices.shape[1]))

    def _enough(self, k: int, there: int) -> int:
        if k > there:
            hint = "Search for more, or take fewer (n_neighbors, a smaller perplexity)."
            raise InputError(self._owner, "X", f"{k} neighbours of each row at least", there, hint)
        return k

    def _checked(self, X: Pair, n: int | None) -> tuple[Integers, Floats]:
        """Return indices and distances; refuse what cannot be neighbours among n rows (None: as many as there are)."""
        indices = check_numbers(self._owner, "X[0], the indices", X[0])
        distances = not_negative(self._owner, check_matrix(self._owner, "X[1], the distances", X[1]))
        _in_range(self._owner, distances)
        n = len(indices) if n is None else n
        if indices.shape != distances.shape:
            got = f"{indices.shape} and {distances.shape}"
            raise InputError(self._owner, "X", "indices and distances of one shape", got)
        if indices.dtype.kind not in "iu":
            hint = "They come first: X = (indices, distances)."
            raise InputError(self._owner, "X", "indices that are whole numbers", str(indices.dtype), hint)
        bad, twice = [], []
        for start in range(0, len(indices), _AT_ONCE):
            block = indices[start : start + _AT_ONCE]
            bad.append(np.argwhere((block < 0) | (block >= n)) + np.array([start, 0]))
            ordered = np.sort(block, axis=1)
            twice.append(np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)) + start)
        entries, rows = np.concatenate([np.empty((0, 2), int), *bad]), np.concatenate([np.empty(0, int), *twice])
        if len(entries):
            row, column = entries[0]
            got = f"{indices[row, column]} in row {row} ({len(entries)} such entries)"
            hint = "A search that finds too few often says so by -1: search for more, or fewer neighbours."
            raise DataError(self._owner, "X", f"indices from 0 to {n - 1}", got, hint)
        if len(rows):
            got = f"one twice in row {rows[0]} ({len(rows)} such rows)"
            raise DataError(self._owner, "X", "indices that are different in each row", got)
        return indices, distances


def _in_range(owner: str, distances: Given) -> Given:
    """Return distances; refuse those that float32 cannot tell apart."""
    largest = float(distances.max()) if min(distances.shape) else 0.0
    if largest and not RANGE[0] < largest < RANGE[1]:
        expected = f"distances of which the largest is between {RANGE[0]:g} and {RANGE[1]:g}"
        raise DataError(owner, "X", expected, f"{largest:g}", "Multiply X by a constant.")
    return distances
