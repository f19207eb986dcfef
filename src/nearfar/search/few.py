"""Search of few rows in NumPy: nothing is compiled, which on a new machine takes seconds.

Products in single precision find candidates, as in :mod:`nearfar.search.kernels`: with u and v, the rows minus their
mean, ``|u - v|² = |u|² + |v|² - 2 u·v`` errs by at most e = g (|u| + |v|)². The k nearest by it and some more are
measured directly, in float64; where the first that was left out is not farther by 2 e than the k-th, all that are not.
"""

from __future__ import annotations

import math

import numpy as np

from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Floats
from nearfar.search.nearest import Neighbors, best_first

_BLOCK = 256  # queries whose products are taken together
_MORE = 16  # candidates beside the k nearest
_AT_ONCE = 2**20  # differences that are held


def search_few(X: Floats, Q: Floats, scale: float, k: int, *, skip_self: bool, n_jobs: int) -> tuple[Neighbors, Floats]:
    """Return the k nearest rows of X to each of Q, and the squared distances, shape (m, k), float64.

    Parameters
    ----------
    X, Q : ndarray of shapes (n, d) and (m, d)
    scale : float
        A power of 2 that brings the numbers near 1.
    k : int
    skip_self : bool
        Whether Q is X, whose rows leave themselves out.
    n_jobs : int
    """
    n, d = X.shape
    center = X.mean(axis=0, dtype=np.float64)
    members, queries = (((rows - center) * scale).astype(np.float32) for rows in (X, Q))
    exact, asked = (rows.astype(np.float64, copy=False) for rows in (X, Q))
    squares = np.einsum("ij,ij->i", members, members)
    most = min(k + _MORE, n - skip_self)
    growth = np.float32((4.0 * math.sqrt(d) + 16.0) * 2.0**-24)  # as of the panels in lists
    found, distances = Neighbors.empty(len(Q), k), np.empty((len(Q), k))

    def task(_block: int, start: int, stop: int) -> None:
        U = queries[start:stop]
        rough = squares - 2 * (U @ members.T)
        if skip_self:
            rough[np.arange(stop - start), np.arange(start, stop)] = np.inf
        chosen = np.argpartition(rough, most - 1, axis=1)[:, :most].astype(np.int32)
        values = np.take_along_axis(rough, chosen.astype(np.int64), axis=1)
        error = growth * (np.sqrt(np.einsum("ij,ij->i", U, U)) + np.sqrt(squares.max())) ** 2
        kth = np.partition(values, k - 1, axis=1)[:, k - 1]
        sure = (values.max(axis=1) > kth + 2 * error) | (most == n - skip_self)
        for first in range(start, stop, rows_at_once(most, d)):
            some = slice(first, min(first + rows_at_once(most, d), stop))
            candidates = chosen[some.start - start : some.stop - start]
            gaps = (asked[some, None] - exact[candidates]) * scale
            lengths = np.einsum("ijk,ijk->ij", gaps, gaps)
            found.indices[some], distances[some] = best_first(candidates, lengths, k)
        for row in np.flatnonzero(~sure).tolist():
            close = np.flatnonzero(rough[row] <= kth[row] + 2 * error[row])
            gaps = (asked[start + row] - exact[close]) * scale
            nearest = best_first(close[None], np.einsum("ij,ij->i", gaps, gaps)[None], k)
            found.indices[start + row], distances[start + row] = nearest[0][0], nearest[1][0]

    with single_threaded_blas():
        run_blocks(task, even_bounds(len(Q), _BLOCK), n_jobs)
    return found, distances


def rows_at_once(n_candidates: int, d: int) -> int:
    """Return of how many queries the differences from candidates are held at a time."""
    return max(1, _AT_ONCE // (n_candidates * d))
