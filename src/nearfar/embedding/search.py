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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats

Rows = NDArray[np.int64]

_QUERIES, _ROWS = 64, 32768  # 8 MiB of float32 scores at a time for each thread
_SAFE = (1e-15, 1e15)  # norms whose products neither overflow nor vanish in float32


def row_norms(X: Floats) -> NDArray[np.float64]:
    """Return the Euclidean norm of each row, shape (n,), float64, without overflow; O(1) extra memory beside it."""
    norms = np.empty(len(X))
    for start in range(0, len(X), _ROWS):
        block = X[start : start + _ROWS].astype(np.float64)
        peak = np.abs(block).max(axis=1, initial=0.0)
        block /= np.where(peak > 0, peak, 1.0)[:, None]
        norms[start : start + _ROWS] = peak * np.sqrt(np.einsum("ij,ij->i", block, block))
    return norms


def unit_rows(X: Floats) -> NDArray[np.float64]:
    """Return the rows divided by their norms, float64; rows of zeros stay."""
    norms = row_norms(X)
    return X / np.where(norms > 0, norms, 1.0)[:, None]


def nearest_rows(
    Q: Floats,
    Y: Floats,
    k: int,
    *,
    norms: NDArray[np.float64] | None = None,
    skip: Rows | None = None,
    n_jobs: int = 1,
) -> tuple[Rows, NDArray[np.float64]]:
    """Return the k rows of Y with the largest scalar product with each row of Q.

    Parameters
    ----------
    Q : ndarray, shape (q, d)
        The queries.
    Y : ndarray, shape (n, d), float32 or float64, or Mixtures
        The rows that are searched.
    k : int
        How many, at least 1 and at most n, or n - 1 with ``skip``.
    norms : ndarray, shape (n,), float64, optional
        Norms of the rows of Y. With them the score is the cosine, for which the rows of Q must have norm 1 (or 0);
        rows of zeros have cosine 0.
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
    search = Search(Q, Y, k, norms, skip) if isinstance(Y, np.ndarray) else Y.search(Q, k, norms, skip)
    bounds = even_bounds(len(Q), _QUERIES)
    if len(bounds) > 2 and n_jobs > 1:
        with single_threaded_blas():
            run_blocks(search.block, bounds, n_jobs)
    else:  # one block of queries: the threads of BLAS share its product
        run_blocks(search.block, bounds, 1)
    return search.rows, search.scores


class Search:
    """The state of one search, which all blocks of queries share, and its results."""

    def __init__(self, Q: Floats, Y: Floats, k: int, norms: NDArray[np.float64] | None, skip: Rows | None) -> None:
        lengths = row_norms(Y) if norms is None else norms
        self._begin(Q, Y, k, norms, skip, _working_dtype(Y, lengths, row_norms(Q)))
        unit = float(np.finfo(self.dtype).eps) / 2
        longest = float(lengths.max(initial=0.0)) if norms is None else 1.0
        self.margins = 2 * (Y.shape[1] + 8) * unit * longest * row_norms(self.Q)

    def _begin(
        self, Q: Floats, Y: Any, k: int, norms: NDArray[np.float64] | None, skip: Rows | None, dtype: type
    ) -> None:
        self.Q, self.Y, self.k, self.norms, self.skip = Q.astype(np.float64), Y, k, norms, skip
        self.dtype: type[np.floating[Any]] = dtype
        self.inverse = None if norms is None else np.divide(1.0, norms, out=np.zeros(len(Y)), where=norms > 0)
        self.rows = np.empty((len(Q), k), np.int64)
        self.scores = np.empty((len(Q), k))

    def block(self, _block: int, start: int, stop: int) -> None:
        best: list[tuple[Rows, NDArray[np.float64]]] = [(np.empty(0, np.int64), np.empty(0))] * (stop - start)
        for first in range(0, len(self.Y), _ROWS):
            last = min(first + _ROWS, len(self.Y))
            scores = self._products(start, stop, first, last)
            if self.inverse is not None:
                scores *= self.inverse[first:last].astype(self.dtype)
            for i in range(stop - start):
                best[i] = self._merge(start + i, best[i], scores[i], first)
        for i, (rows, exact) in enumerate(best):
            self.rows[start + i], self.scores[start + i] = rows, exact

    def _products(self, start: int, stop: int, first: int, last: int) -> Floats:
        """Return the products of queries start .. stop - 1 with rows first .. last - 1, one row for each query."""
        part = self.Y[first:last].astype(self.dtype, copy=False)
        products: Floats = self.Q[start:stop].astype(self.dtype) @ part.T
        return products

    def _merge(
        self, query: int, best: tuple[Rows, NDArray[np.float64]], scores: Floats, first: int
    ) -> tuple[Rows, NDArray[np.float64]]:
        rows, exact = best
        margin = self.margins[query]
        if self.skip is not None and 0 <= self.skip[query] - first < len(scores):
            scores[self.skip[query] - first] = -np.inf
        floor = exact[-1] - margin if len(exact) == self.k else np.finfo(self.dtype).min
        found = np.flatnonzero(scores >= self.dtype(floor))
        if len(found) > 4 * self.k:  # rows clearly below the k-th best of these are not among the k best
            kth = np.partition(scores[found], len(found) - self.k)[len(found) - self.k]
            found = found[scores[found] >= self.dtype(kth - margin)]
        if not len(found):
            return best
        rows = np.concatenate([rows, found + first])
        exact = np.concatenate([exact, self._exact(query, found + first)])
        order = np.argsort(-exact, kind="stable")[: self.k]  # rows are ascending among equal scores
        return rows[order], exact[order]

    def _exact(self, query: int, rows: Rows) -> NDArray[np.float64]:
        # einsum sums every row in the same order, whatever its position; a matrix product does not.
        scores: NDArray[np.float64] = np.einsum("ij,j->i", self.Y[rows].astype(np.float64), self.Q[query])
        if self.inverse is None:
            return scores
        cosines: NDArray[np.float64] = np.clip(scores * self.inverse[rows], -1.0, 1.0)
        return cosines


def _working_dtype(Y: Floats, *norms: NDArray[np.float64]) -> type[np.floating[Any]]:
    if Y.dtype == np.float64:
        return np.float64
    for lengths in norms:
        positive = lengths[lengths > 0]
        if positive.size and (positive.min() < _SAFE[0] or positive.max() > _SAFE[1]):
            return np.float64
    return np.float32
