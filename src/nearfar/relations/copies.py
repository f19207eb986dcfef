"""Equal rows: which rows of data are copies of an earlier one.

A map has one place for them. Each row is read as bytes, by what the metric sees of it: its direction by the cosine, its
non-zero columns by the distances of sets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from scipy.sparse import csr_array, issparse

from nearfar._core.checks import check_matrix, check_sparse
from nearfar._core.threads import even_bounds
from nearfar._core.types import Floats, Longs, RowNumbers
from nearfar.search.distances import are_neighbors
from nearfar.search.elsewhere import SETS
from nearfar.search.nearest import Neighbors

if TYPE_CHECKING:
    Rows = Floats | csr_array[np.floating]

_FEWEST = 3  # different rows that are put in the place of all
_AT_ONCE = 4096  # rows that are read together


class Copies(NamedTuple):
    """Which rows are equal.

    Parameters
    ----------
    first : ndarray of shape (m,), int64
        The different rows, by the first of each, in the order of the rows.
    same : ndarray of shape (n,), int64
        Which of these each row is.
    """

    first: RowNumbers
    same: RowNumbers

    @classmethod
    def among(cls, X: Rows, metric: object) -> Self | None:
        """Return which rows are equal, None where all are different.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n, d)
            Finite; with ``metric="precomputed"`` the distances, of which equal rows have the same to all.
        metric : str or callable
        """
        n = X.shape[0]
        if not min(X.shape):
            return None
        if not isinstance(X, np.ndarray) and not (X.has_canonical_format and X.data.all()):
            X = X.copy()  # such that equal rows have equal arrays
            X.sum_duplicates()
            X.eliminate_zeros()
        codes = np.empty(n, np.int64)
        for start, stop in pairwise(even_bounds(n, _AT_ONCE).tolist()):
            codes[start:stop] = list(map(hash, _read(X, np.arange(start, stop), metric)))
        _, firsts, which = np.unique(codes, return_index=True, return_inverse=True)
        earliest = firsts[which]
        later = np.flatnonzero(earliest != np.arange(n))
        for start, stop in pairwise(even_bounds(len(later), _AT_ONCE).tolist()):
            some = later[start:stop]
            both = zip(_read(X, some, metric), _read(X, earliest[some], metric), strict=True)
            differ = some[[one != other for one, other in both]]
            earliest[differ] = differ
        is_first = earliest == np.arange(n)
        if is_first.all():
            return None
        return cls(np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[earliest])

    def spread(self, found: Neighbors, out: Neighbors | None = None) -> Neighbors:
        """Return the neighbours of all rows: a copy has those of its first, each by the first of its rows.

        Parameters
        ----------
        found : Neighbors
            Of the different rows, by their numbers.
        out : Neighbors, optional
            Where those of all rows go; the first of these may be ``found``.
        """
        out = out or Neighbors.empty(len(self.same), found.indices.shape[1])
        for start, stop in reversed(list(pairwise(even_bounds(len(self.same), _AT_ONCE).tolist()))):
            rows = self.same[start:stop]  # none of which comes later than its copies
            out.indices[start:stop] = self.first[found.indices[rows]]
            out.distances[start:stop] = found.distances[rows]
        return out

    def means(self, rows: Floats) -> Floats:
        """Return the mean of the rows that are copies of each other, a row for each of the different ones."""
        sums = np.zeros((len(self.first), rows.shape[1]))
        np.add.at(sums, self.same, rows)
        return sums / self.counts[:, None]

    def shared(self, rows: Floats) -> Floats:
        """Return what each row has of those of the different ones, which all copies have the same part of."""
        return (rows / self.counts[:, None])[self.same]

    def gathered(self, P: csr_array[np.floating]) -> csr_array[np.floating]:
        """Return a matrix with a column for each row of data as one with a column for each of the different ones."""
        found = csr_array((P.data, self.same[P.indices], P.indptr), shape=(P.shape[0], len(self.first)))
        found.sum_duplicates()
        return found

    @property
    def counts(self) -> Longs:
        """How often each of the different rows is there."""
        return np.bincount(self.same, minlength=len(self.first))


def without_copies(owner: str, X: Any, metric: object) -> tuple[Any, Copies | None]:
    """Return the different rows of X, of distances those between these, and which rows are equal, if some are.

    X is checked. What holds the distances of some pairs alone, a sparse matrix or neighbours, stays as it is, and so do
    fewer than three different rows, of which there is no map.
    """
    precomputed = isinstance(metric, str) and metric == "precomputed"
    if are_neighbors(X, metric) or (precomputed and issparse(X)):
        return X, None
    X = check_sparse(owner, "X", X) if issparse(X) else check_matrix(owner, "X", X)
    copies = Copies.among(X, metric)
    if copies is None or len(copies.first) < _FEWEST:
        return X, None
    kept = X[copies.first]
    return kept[:, copies.first] if precomputed else kept, copies


def _read(X: Rows, rows: RowNumbers, metric: object) -> list[bytes]:
    """Return what a metric sees of some rows; equal numbers have equal bytes, also 0 and -0."""
    cosine, as_set = isinstance(metric, str) and metric == "cosine", isinstance(metric, str) and metric in SETS
    if isinstance(X, np.ndarray):
        block = X[rows]
        if as_set:
            block = block != 0
        elif cosine:  # quotients are rounded rightly: those of rows in proportion are the same
            peaks = np.abs(block).max(axis=1, initial=0.0, keepdims=True)
            block = np.divide(block, peaks, out=np.zeros_like(block), where=peaks > 0)
        block = np.ascontiguousarray(block + block.dtype.type(0))
        return cast("list[bytes]", block.view(f"V{block.shape[1] * block.itemsize}").ravel().tolist())
    found = []
    for row in rows.tolist():
        part = slice(X.indptr[row], X.indptr[row + 1])
        columns, values = X.indices[part], X.data[part]
        if cosine and len(values):
            values = values / np.abs(values).max()
        found.append(columns.tobytes() + (b"" if as_set else values.tobytes()))
    return found
