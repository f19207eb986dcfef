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

import threading
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nearfar._core.lazy import ROWS, Matrix
from nearfar._core.threads import run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Flags, Floats, FloatType, RowNumbers
from nearfar.errors import InputError

_QUERIES, _SCORES = 256, 2**21  # queries of a block; its scores at a time, 8 MiB of float32 for each thread
_CACHED = 2**23  # numbers that caches hold
_FEW = 32  # queries that threads do not divide
_LOWER = 64  # powers of two by which rows become shorter whose length no float64 holds
_GROUPS = 256  # groups of rows, whose largest scores bound the k-th best from below
_PAIRS = 2**18  # candidates that are ranked together
_SAFE = (1e-15, 1e15)  # norms whose products neither overflow nor vanish in float32


Best = tuple[RowNumbers, RowNumbers, Doubles]
"""Queries, rows and scores."""


class LeftOut(NamedTuple):
    """Which rows are left out of the answer to each query.

    Parameters
    ----------
    starts : ndarray of shape (q + 1,), int64
        Where those of each query begin in ``rows``.
    rows : ndarray, int64
        Distinct for each query, and ascending.
    """

    starts: RowNumbers
    rows: RowNumbers

    @classmethod
    def of(cls, rows: RowNumbers, counts: RowNumbers, own: RowNumbers | None = None) -> LeftOut:
        """Return what lists of rows say, one after the other, and rows that are the queries themselves.

        Parameters
        ----------
        rows : ndarray
            -1 stands for no row.
        counts : ndarray of shape (q,)
            How many of them are for each query.
        own : ndarray of shape (q,), optional
        """
        queries = np.repeat(np.arange(len(counts)), counts)
        if own is not None:
            queries, rows = np.append(queries, np.arange(len(own))), np.append(rows, own)
        n = int(rows.max(initial=0)) + 1
        keys = np.sort((queries * n + rows)[rows >= 0])
        keys = keys[np.diff(keys, prepend=-1) > 0]
        return cls(np.searchsorted(keys, np.arange(len(counts) + 1) * n), keys % n)

    @classmethod
    def of_own(cls, own: RowNumbers | None, n_queries: int) -> LeftOut:
        """Return rows that are the queries themselves, -1 for a query that is none, or nothing."""
        if own is None:
            return cls(np.zeros(n_queries + 1, np.int64), np.empty(0, np.int64))
        return cls(np.concatenate([[0], np.cumsum(own >= 0)]), own[own >= 0])

    @property
    def counts(self) -> RowNumbers:
        """How many rows are left out for each query."""
        return np.diff(self.starts)

    @property
    def fewest(self) -> int:
        """How many rows are left out for every query, at least."""
        return int(self.counts.min()) if len(self.starts) > 1 else 0

    def of_queries(self, some: RowNumbers) -> LeftOut:
        """Return what is left out of the answers to some queries."""
        counts = self.counts[some]
        starts = np.append(0, np.cumsum(counts))
        return LeftOut(starts, self.rows[np.arange(starts[-1]) + np.repeat(self.starts[some] - starts[:-1], counts)])

    def among(self, numbers: RowNumbers) -> LeftOut:
        """Return the same for a selection of the rows: ``numbers`` are theirs in it, -1 for rows that are not."""
        found = numbers[self.rows]
        return self._of(found, found >= 0)

    def within(self, start: int, stop: int) -> LeftOut:
        """Return the same for the rows start .. stop - 1."""
        return self._of(self.rows - start, (self.rows >= start) & (self.rows < stop))

    def _of(self, rows: RowNumbers, chosen: Flags) -> LeftOut:
        return LeftOut(np.append(0, np.cumsum(chosen))[self.starts], rows[chosen])

    def has(self, rows: RowNumbers) -> Flags:
        """Return which of some rows for each query, shape (q, k), are left out of its answer."""
        n = max(int(self.rows.max(initial=0)), int(rows.max(initial=0))) + 1
        keys = np.repeat(np.arange(len(rows)), self.counts) * n + self.rows
        return np.isin(np.arange(len(rows))[:, None] * n + rows, keys)


def row_norms(X: Matrix) -> Doubles:
    """Return the Euclidean norm of each row, shape (n,), float64, without overflow; O(1) extra memory beside it."""
    norms = np.empty(len(X))
    for start in range(0, len(X), ROWS):
        block = X[start : start + ROWS].astype(np.float64)
        peak = np.abs(block).max(axis=1, initial=0.0)
        block /= np.where(peak > 0, peak, 1.0)[:, None]
        with np.errstate(over="ignore"):  # of entries near the largest number: infinity
            norms[start : start + ROWS] = peak * np.sqrt(np.einsum("ij,ij->i", block, block))
    return norms


def unit_rows(X: Floats) -> Doubles:
    """Return the rows divided by their norms, float64; rows of zeros stay."""
    norms = row_norms(X)
    if np.isinf(norms).any():
        X = np.ldexp(X, -_LOWER)
        norms = row_norms(X)
    return X / np.where(norms > 0, norms, 1.0)[:, None]


def nearest_rows(
    Q: Floats,
    Y: Matrix,
    k: int,
    *,
    norms: Doubles | None = None,
    lengths: Doubles | None = None,
    skip: LeftOut | RowNumbers | None = None,
    n_jobs: int = 1,
) -> tuple[RowNumbers, Doubles]:
    """Return the k rows of Y with the largest scalar product with each row of Q.

    Parameters
    ----------
    Q : ndarray, shape (q, d)
        The queries.
    Y : ndarray, shape (n, d), float32 or float64, or Mixtures, or rows in parts
        The rows that are searched.
    k : int
        How many, from 1 to n.
    norms : ndarray, shape (n,), float64, optional
        Norms of the rows of Y. With them the score is the cosine, for which the rows of Q must have norm 1 (or 0);
        rows of zeros have cosine 0.
    lengths : ndarray, shape (n,), float64, optional
        Norms of the rows of Y where they are known and the score is the scalar product; found anew otherwise.
    skip : LeftOut, or ndarray, shape (q,), int64, optional
        Rows that are left out of the answer to each query, or one row for each.
    n_jobs : int
        Number of threads.

    Returns
    -------
    rows : ndarray, shape (q, k), int64
    scores : ndarray, shape (q, k), float64
        Best first, ties in the order of the rows. Where fewer than k rows are left, -1 and -inf at the end. O(q n d)
        time, 8 MiB and the k best for each thread.
    """
    if isinstance(skip, np.ndarray):
        skip = LeftOut.of_own(skip, len(skip))
    search: Search
    if hasattr(Y, "search"):  # as mixtures have, whose products are sparse
        search = Y.search(Q, k, norms, skip)
    else:
        known = norms if norms is not None else row_norms(Y) if lengths is None else lengths
        dtype, longest = _working_dtype(Y, known, row_norms(Q)), 1.0 if norms is not None else known.max(initial=0.0)
        margin = 2 * (Y.shape[1] + 8) * (float(np.finfo(dtype).eps) / 2) * float(longest)
        search = Search(Q, Y, k, norms, skip, dtype, margin)
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
    lengths: Doubles,
    *,
    skip: LeftOut | RowNumbers | None = None,
    n_jobs: int = 1,
) -> tuple[RowNumbers, Doubles]:
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


class Search:
    """The state of one search, which all blocks of queries share, and its results."""

    def __init__(
        self, Q: Floats, Y: Matrix, k: int, norms: Doubles | None, skip: LeftOut | None, dtype: FloatType, margin: float
    ) -> None:
        self.Q, self.Y, self.k, self.norms, self.skip = Q.astype(np.float64), Y, k, norms, skip
        self.margins = margin * row_norms(self.Q)  # by which scores may err
        self.dtype, self._rooms = dtype, threading.local()
        self.rows = np.full((len(Q), k), -1)
        self.scores = np.full((len(Q), k), -np.inf)

    def block(self, _block: int, start: int, stop: int) -> None:
        """Find the best rows for queries start .. stop - 1."""
        n_queries, margins = stop - start, self.margins[start:stop]
        n_rows = max(_SCORES // max(n_queries, min(self.Y.shape[1], _QUERIES)), 1)
        none = np.empty(0, np.int64)
        best = none, none, np.empty(0)
        waiting: list[tuple[RowNumbers, RowNumbers]] = []
        n_waiting = 0
        floors = np.full(n_queries, np.finfo(self.dtype).min, self.dtype)
        left_out = self._left_out(start, stop, n_rows)
        for first in range(0, len(self.Y), n_rows):
            last = min(first + n_rows, len(self.Y))
            scores = self._products(start, stop, first, last)
            if self.norms is not None:
                scores *= inverse_norms(self.norms[first:last])[:, None].astype(scores.dtype)
            if self.skip is not None:
                scores[left_out[first // n_rows]] = -np.inf
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
            if not waiting:
                kth: slice | RowNumbers = slice(self.k - 1, None, self.k)
                full: slice | RowNumbers = slice(None)
                if len(best[0]) < self.k * n_queries:  # only some have as many as k
                    ends = np.searchsorted(best[0], np.arange(n_queries + 1))
                    full = np.flatnonzero(np.diff(ends) == self.k)
                    kth = ends[full + 1] - 1
                floors[full] = np.maximum(floors[full], (best[2][kth] - margins[full]).astype(self.dtype))
        queries, rows, exact = self._merge(start, best, waiting)
        if len(rows) == self.k * n_queries:
            self.rows[start:stop], self.scores[start:stop] = rows.reshape(-1, self.k), exact.reshape(-1, self.k)
        else:
            place = np.arange(len(rows)) - np.searchsorted(queries, queries)
            self.rows[start + queries, place], self.scores[start + queries, place] = rows, exact

    def _left_out(self, start: int, stop: int, n_rows: int) -> list[tuple[RowNumbers, RowNumbers]]:
        """Return the rows that are left out for queries start .. stop - 1, and of which query each is, block by block.

        A block is of ``n_rows`` rows, which are numbered in it.
        """
        if self.skip is None:
            return []
        starts = self.skip.starts[start : stop + 1]
        rows = self.skip.rows[starts[0] : starts[-1]]
        queries, n_blocks = np.repeat(np.arange(stop - start), np.diff(starts)), -(-len(self.Y) // n_rows)
        blocks = (rows // n_rows).astype(np.uint16 if n_blocks < 2**16 else np.int64)  # sorted in linear time
        order = np.argsort(blocks, kind="stable")
        bounds = np.searchsorted(blocks[order], np.arange(n_blocks + 1))
        parts = [order[a:b] for a, b in pairwise(bounds)]
        return [(rows[part] - block * n_rows, queries[part]) for block, part in enumerate(parts)]

    def _products(self, start: int, stop: int, first: int, last: int) -> Floats:
        """Return the products of rows first .. last - 1 with queries start .. stop - 1, one column for each query."""
        part: Floats = self.Y[first:last].astype(self.dtype, copy=False)
        queries: Floats = self.Q[start:stop].astype(self.dtype)
        products: Floats
        if len(queries) == 1 and len(self.Y) * self.Y.shape[1] > _CACHED:  # as fast as memory is read, unlike BLAS
            products = np.einsum("ij,j->i", part, queries[0])[:, None]
        else:
            # An array of the thread: to ask for as much memory in each block takes a tenth of the time.
            n, room = len(part) * len(queries), getattr(self._rooms, "numbers", None)
            if room is None or room.size < n:
                room = self._rooms.numbers = np.empty(n, self.dtype)
            products = np.matmul(part, queries.T, out=room[:n].reshape(len(part), len(queries)))
        return products

    def _merge(self, start: int, best: Best, waiting: list[tuple[RowNumbers, RowNumbers]]) -> Best:
        """Return the best candidates of each query: queries, rows and exact scores, best first in each query."""
        if not waiting:
            return best
        queries, rows = (np.concatenate(parts) for parts in zip(best[:2], *waiting, strict=True))
        n_best = len(best[2])
        of, new, step = start + queries[n_best:], rows[n_best:], max(2**18 // max(self.Y.shape[1], 1), 1)
        scores = np.empty(len(new))
        for first in range(0, len(new), step):
            some = slice(first, first + step)
            # In float64: einsum sums every row in the same order, whatever its position; a matrix product does not.
            np.einsum("ij,ij->i", self.Y[new[some]].astype(np.float64), self.Q[of[some]], out=scores[some])
        exact = np.concatenate([best[2], scores if self.norms is None else cosines(scores, self.norms[new])])
        order = np.lexsort((-exact, queries))  # stable: rows are ascending among equal scores
        queries = queries[order]
        counts = np.bincount(queries)
        kept = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts) < self.k
        return queries[kept], rows[order[kept]], exact[order[kept]]


def inverse_norms(norms: Doubles) -> Doubles:
    """Return 1 / norm, and 0 for rows of zeros."""
    return np.divide(1.0, norms, out=np.zeros(norms.shape), where=norms > 0)


def cosines(products: Doubles, norms: Doubles) -> Doubles:
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
    return np.maximum(np.partition(scores, len(scores) - k, axis=0)[-k], np.finfo(scores.dtype).min)


def _working_dtype(Y: Matrix, *norms: Doubles) -> type[np.float32] | type[np.float64]:
    if Y.dtype == np.float64:
        return np.float64
    for lengths in norms:
        if lengths.max(initial=0.0) > _SAFE[1]:
            return np.float64
        if lengths.min(initial=1.0) < _SAFE[0] and (lengths[lengths > 0] < _SAFE[0]).any():
            return np.float64
    return np.float32
