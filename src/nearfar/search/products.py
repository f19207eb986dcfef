"""Exact nearest rows of a matrix, by blocks of matrix products.

For a block of queries Q and a block of rows Y the scores Q Yᵀ are one matrix product in the precision of Y. Only the
rows whose score comes near a query's k-th best so far can matter. Their scores are computed again in float64, one
scalar product at a time. The result is therefore that of a float64 search: it does not depend on the blocks, on the
number of threads or on the BLAS library. Equal rows have equal scores, and the order of the rows breaks such ties.

"Near" is a rounding error: a float32 product of d terms errs by at most (d + 8) 2⁻²⁴ |q| |y| (Higham 2002, Accuracy and
Stability of Numerical Algorithms, eq. 3.5; the 8 allows for the roundings of q, of the norms and of the bound itself).
A row among the best k can thus be found at most twice that below the k-th best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nearfar._core.lazy import ROWS, Matrix
from nearfar._core.threads import run_blocks, single_threaded_blas
from nearfar._core.types import Floats, RowNumbers
from nearfar.errors import InputError

_QUERIES, _SCORES = 256, 2**21  # queries of a block; its scores at a time, 8 MiB of float32 for each thread
_CACHED = 2**23  # numbers that caches hold
_FEW = 32  # queries that threads do not divide
_GROUPS = 256  # groups of rows, whose largest scores bound the k-th best from below
_PAIRS = 2**18  # candidates that are ranked together
_SAFE = (1e-15, 1e15)  # norms whose products neither overflow nor vanish in float32


def row_norms(X: Matrix) -> NDArray[np.float64]:
    """Return the Euclidean norm of each row, shape (n,), float64, without overflow; O(1) extra memory beside it."""
    norms = np.empty(len(X))
    for start in range(0, len(X), ROWS):
        block = X[start : start + ROWS].astype(np.float64)
        peak = np.abs(block).max(axis=1, initial=0.0)
        block /= np.where(peak > 0, peak, 1.0)[:, None]
        norms[start : start + ROWS] = peak * np.sqrt(np.einsum("ij,ij->i", block, block))
    return norms


def unit_rows(X: Floats) -> NDArray[np.float64]:
    """Return the rows divided by their norms, float64; rows of zeros stay."""
    norms = row_norms(X)
    return X / np.where(norms > 0, norms, 1.0)[:, None]


def nearest_rows(
    Q: Floats,
    Y: Matrix,
    k: int,
    *,
    norms: NDArray[np.float64] | None = None,
    lengths: NDArray[np.float64] | None = None,
    skip: RowNumbers | None = None,
    n_jobs: int = 1,
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """Return the k rows of Y with the largest scalar product with each row of Q.

    Parameters
    ----------
    Q : ndarray, shape (q, d)
        The queries.
    Y : ndarray, shape (n, d), float32 or float64, or Mixtures, or rows in parts
        The rows that are searched.
    k : int
        How many, at least 1 and at most n, or n - 1 with ``skip``.
    norms : ndarray, shape (n,), float64, optional
        Norms of the rows of Y. With them the score is the cosine, for which the rows of Q must have norm 1 (or 0);
        rows of zeros have cosine 0.
    lengths : ndarray, shape (n,), float64, optional
        Norms of the rows of Y where they are known and the score is the scalar product; found anew otherwise.
    skip : ndarray, shape (q,), int64, optional
        For each query one row that is left out.
    n_jobs : int
        Number of threads.

    Returns
    -------
    rows : ndarray, shape (q, k), int64
    scores : ndarray, shape (q, k), float64
        Best first, ties in the order of the rows. O(q n d) time, 8 MiB and the k best for each thread.
    """
    known = norms if norms is not None else lengths
    search = Y.search(Q, k, norms, skip) if isinstance(Y, Searching) else Search(Q, Y, k, norms, skip, known)
    count = max(-(-len(Q) // _QUERIES), min(n_jobs, len(Q) // _FEW))
    if count > 1:
        count = -(-count // n_jobs) * n_jobs  # every thread has as many queries
    bounds = np.arange(count + 1) * len(Q) // max(count, 1)
    if count > 1 and n_jobs > 1:
        with single_threaded_blas():
            run_blocks(search.block, bounds, n_jobs)
    else:  # one block of queries: the threads of BLAS share its product
        run_blocks(search.block, bounds, 1)
    return search.rows, search.scores


def best_rows(
    owner: str,
    queries: Floats,
    Y: Matrix,
    k: int,
    metric: str,
    lengths: NDArray[np.float64],
    *,
    skip: RowNumbers | None = None,
    n_jobs: int = 1,
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """Return the k best rows by ``"cosine"`` or ``"dot"``, see :func:`nearest_rows`; ``lengths`` are norms of Y.

    Raises
    ------
    InputError
        If scalar products leave the range of float64.
    """
    if metric == "cosine":
        return nearest_rows(unit_rows(queries), Y, k, norms=lengths, skip=skip, n_jobs=n_jobs)
    longest = row_norms(queries).max(initial=0.0), lengths.max(initial=0.0)
    if not longest[0] <= np.finfo(np.float64).max / max(longest[1], 1.0):
        got = f"lengths up to {longest[0]:.3g} and {longest[1]:.3g}"
        hint = "Take metric='cosine', or vectors in another unit."
        raise InputError(owner, "Q", "of vectors whose scalar products are in the range of float64", got, hint)
    return nearest_rows(queries, Y, k, lengths=lengths, skip=skip, n_jobs=n_jobs)


def alike(counts: NDArray[np.int64]) -> list[RowNumbers]:
    """Return the queries in groups whose numbers of answers differ by a factor of 16 at most.

    What is searched for a group is as much as the largest of it needs: one query of which nearly all is left out does
    not make all of them long.
    """
    size = np.frexp(counts)[1] // 4
    return [np.flatnonzero(size == one) for one in np.unique(size)]


def allowed(
    rows: RowNumbers, scores: NDArray[np.float64], left_out: Sequence[RowNumbers], k: int
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """Return the first k answers of each query that are not left out of it.

    Parameters
    ----------
    rows, scores : ndarray, shape (q, any number)
        Best first; what has an infinite score is no answer.
    left_out : sequence of q arrays of rows
    k : int

    Returns
    -------
    rows : ndarray, shape (q, k), int64
        -1 behind the last answer, where they are fewer than k.
    scores : ndarray, shape (q, k), float64
        -inf there.
    """
    good = np.isfinite(scores)
    for query, out in enumerate(left_out):
        if len(out):
            good[query] &= rows[query] != out[0] if len(out) == 1 else ~np.isin(rows[query], out)
    first = np.argsort(~good, axis=1, kind="stable")[:, :k]
    there = np.take_along_axis(good, first, axis=1)
    missing = (0, 0), (0, k - first.shape[1])
    found = np.where(there, np.take_along_axis(rows, first, axis=1), -1)
    best = np.where(there, np.take_along_axis(scores, first, axis=1), -np.inf)
    return np.pad(found, missing, constant_values=-1), np.pad(best, missing, constant_values=-np.inf)


@runtime_checkable
class Searching(Protocol):
    """Rows with a search of their own, such as mixtures, whose products are sparse."""

    def search(self, Q: Floats, k: int, norms: NDArray[np.float64] | None, skip: RowNumbers | None) -> Search:
        """Return what :func:`nearest_rows` runs."""


class Search:
    """The state of one search, which all blocks of queries share, and its results."""

    def __init__(
        self,
        Q: Floats,
        Y: Matrix,
        k: int,
        norms: NDArray[np.float64] | None,
        skip: RowNumbers | None,
        lengths: NDArray[np.float64] | None,
    ) -> None:
        lengths = row_norms(Y) if lengths is None else lengths
        self._begin(Q, Y, k, norms, skip, _working_dtype(Y, lengths, row_norms(Q)))
        unit = float(np.finfo(self.dtype).eps) / 2
        longest = float(lengths.max(initial=0.0)) if norms is None else 1.0
        self.margins = 2 * (Y.shape[1] + 8) * unit * longest * row_norms(self.Q)

    def _begin(
        self,
        Q: Floats,
        Y: Matrix,
        k: int,
        norms: NDArray[np.float64] | None,
        skip: RowNumbers | None,
        dtype: type[np.float32] | type[np.float64],
    ) -> None:
        self.Q, self.Y, self.k, self.norms, self.skip = Q.astype(np.float64), Y, k, norms, skip
        self.dtype = dtype
        self.rows = np.empty((len(Q), k), np.int64)
        self.scores = np.empty((len(Q), k))

    def block(self, _block: int, start: int, stop: int) -> None:
        """Find the best rows for queries start .. stop - 1."""
        n_queries, margins = stop - start, self.margins[start:stop]
        n_rows = max(_SCORES // max(n_queries, min(self.Y.shape[1], _QUERIES)), 1)
        none = np.empty(0, np.int64)
        best = none, none, np.empty(0)
        waiting: list[tuple[RowNumbers, RowNumbers]] = []
        n_waiting = 0
        floors = np.full(n_queries, np.finfo(self.dtype).min, self.dtype)
        for first in range(0, len(self.Y), n_rows):
            last = min(first + n_rows, len(self.Y))
            scores = self._products(start, stop, first, last)
            if self.norms is not None:
                scores *= inverse_norms(self.norms[first:last])[:, None].astype(scores.dtype)
            if self.skip is not None:
                at = self.skip[start:stop] - first
                here = np.flatnonzero((at >= 0) & (at < last - first))
                scores[at[here], here] = -np.inf
            found = np.flatnonzero(scores >= floors) if len(best[0]) else None
            if found is None or len(found) > 4 * self.k * n_queries:
                floors = np.maximum(floors, (_kth_of_groups(scores, self.k) - margins).astype(self.dtype))
                found = np.flatnonzero(scores >= floors)
            for piece in range(0, len(found), _PAIRS):
                rows, queries = np.divmod(found[piece : piece + _PAIRS], n_queries)
                waiting.append((queries, rows + first))
                n_waiting += len(rows)
                if n_waiting >= min(_PAIRS, self.k * n_queries):
                    best, waiting, n_waiting = self._merge(start, best, waiting), [], 0
            if not waiting and len(best[0]) == self.k * n_queries:
                floors = np.maximum(floors, (best[2].reshape(-1, self.k)[:, -1] - margins).astype(self.dtype))
        _, rows, exact = self._merge(start, best, waiting)
        self.rows[start:stop], self.scores[start:stop] = rows.reshape(-1, self.k), exact.reshape(-1, self.k)

    def _products(self, start: int, stop: int, first: int, last: int) -> Floats:
        """Return the products of rows first .. last - 1 with queries start .. stop - 1, one column for each query."""
        part: Floats = self.Y[first:last].astype(self.dtype, copy=False)
        queries: Floats = self.Q[start:stop].astype(self.dtype)
        products: Floats
        if len(queries) == 1 and len(self.Y) * self.Y.shape[1] > _CACHED:  # as fast as memory is read, unlike BLAS
            products = np.einsum("ij,j->i", part, queries[0])[:, None]
        else:
            products = part @ queries.T
        return products

    def _merge(
        self,
        start: int,
        best: tuple[RowNumbers, RowNumbers, NDArray[np.float64]],
        waiting: list[tuple[RowNumbers, RowNumbers]],
    ) -> tuple[RowNumbers, RowNumbers, NDArray[np.float64]]:
        """Return the best candidates of each query: queries, rows and exact scores, best first in each query."""
        if not waiting:
            return best
        queries, rows = (np.concatenate(parts) for parts in zip(best[:2], *waiting, strict=True))
        n_best = len(best[2])
        exact = np.concatenate([best[2], self._exact(start + queries[n_best:], rows[n_best:])])
        order = np.lexsort((-exact, queries))  # stable: rows are ascending among equal scores
        queries = queries[order]
        counts = np.bincount(queries)
        kept = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts) < self.k
        return queries[kept], rows[order[kept]], exact[order[kept]]

    def _exact(self, queries: RowNumbers, rows: RowNumbers) -> NDArray[np.float64]:
        """Return the scores of pairs in float64."""
        scores, step = np.empty(len(rows)), max(2**18 // max(self.Y.shape[1], 1), 1)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            # einsum sums every row in the same order, whatever its position; a matrix product does not.
            np.einsum("ij,ij->i", self.Y[rows[some]].astype(np.float64), self.Q[queries[some]], out=scores[some])
        if self.norms is None:
            return scores
        return cosines(scores, self.norms[rows])


def inverse_norms(norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / norm, and 0 for rows of zeros."""
    return np.divide(1.0, norms, out=np.zeros(norms.shape), where=norms > 0)


def cosines(products: NDArray[np.float64], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines of products with unit vectors, by the norms of the other vectors; 0 for rows of zeros."""
    return np.clip(products * inverse_norms(norms), -1.0, 1.0)


def _kth_of_groups(scores: Floats, k: int) -> Floats:
    """Return a score for each query that at least k rows reach: the k-th largest of the largest scores of groups."""
    n_groups = max(_GROUPS, 4 * k)
    n_members = max(len(scores) // n_groups, 1)
    if n_members > 1:
        scores = scores[: n_groups * n_members].reshape(n_members, n_groups, -1).max(axis=0)
    if len(scores) < k:
        return np.full(scores.shape[1], np.finfo(scores.dtype).min)
    lowest: Floats = np.maximum(np.partition(scores, len(scores) - k, axis=0)[-k], np.finfo(scores.dtype).min)
    return lowest


def _working_dtype(Y: Matrix, *norms: NDArray[np.float64]) -> type[np.float32] | type[np.float64]:
    if Y.dtype == np.float64:
        return np.float64
    for lengths in norms:
        if lengths.max(initial=0.0) > _SAFE[1]:
            return np.float64
        if lengths.min(initial=1.0) < _SAFE[0] and (lengths[lengths > 0] < _SAFE[0]).any():
            return np.float64
    return np.float32
