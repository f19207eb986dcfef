"""Rows in lists around centres, and the search of some of the lists for each query.

The work is done by :mod:`nearfar.relations._neighbor_kernels`, block by block; what a query finds depends on its own
lists alone. A single list with all rows makes the exact search of small data, and finds the nearest centres of many.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar._vector import LANES
from nearfar.contracts import Floats
from nearfar.relations._neighbor_kernels import centre_members, search_block, work_arrays

Found = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Indices and distances, shape (queries, k), nearest first."""

_BLOCK = 256  # queries that share their products


class Lists:
    """Rows in lists around centres.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Kept by reference.
    centers : ndarray of shape (a, d), dtype of X
    labels : ndarray of shape (n,), integers
        The list of each row; copies of a row must be in the same list.
    scale : float
        A power of 2 that brings the numbers near 1.
    n_jobs : int
    """

    def __init__(self, X: Floats, centers: Floats, labels: NDArray[np.integer[Any]], scale: float, n_jobs: int) -> None:
        d, n_lists = X.shape[1], len(centers)
        self.X, self.centers, self.scale = X, centers, X.dtype.type(scale)
        self.starts = np.zeros(n_lists + 1, np.int64)
        np.cumsum(np.bincount(labels, minlength=n_lists), out=self.starts[1:])
        self.members = np.argsort(labels, kind="stable").astype(np.int32)
        self.panel_starts = np.zeros(n_lists + 1, np.int64)
        np.cumsum(-(-self.sizes // LANES), out=self.panel_starts[1:])
        self.panels = np.empty(int(self.panel_starts[-1]) * LANES * d, np.float32)
        self.squares = np.empty(int(self.panel_starts[-1]) * LANES, np.float32)
        self.radii = np.zeros(n_lists, np.float32)

        def centre(_block: int, start: int, stop: int) -> None:
            centre_members(
                X, self.members, centers, self.starts, self.panel_starts, self.scale,
                self.panels, self.squares, self.radii, start, stop,
            )  # fmt: skip

        run_blocks(centre, even_bounds(n_lists, 16), n_jobs)
        # The error of a sum of d terms in float32, as of a random walk (Higham & Mary 2019, "A new approach to
        # probabilistic rounding error analysis"), with room for the roundings of differences and norms.
        self.growth = np.float32((4.0 * math.sqrt(d) + 16.0) * 2.0**-24)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each list."""
        return np.diff(self.starts)

    def search(
        self, Q: Floats, rows: NDArray[np.int64], k: int, probes: Found, n_jobs: int, *, own: bool = False
    ) -> Found:
        """Return the k nearest rows of X to each of ``Q[rows]`` among the lists that it probes.

        ``probes`` are the lists and the distances of their centres, nearest first; ``own`` says that Q is X, whose rows
        leave themselves out. Where the lists hold fewer than k rows the indices end with -1.
        """
        indices = np.empty((len(rows), k), np.int32)
        distances = np.empty((len(rows), k), np.float32)
        order = np.argsort(probes[0][:, 0], kind="stable")  # queries of a block then share most of their lists

        def task(_block: int, start: int, stop: int) -> None:
            block = order[start:stop]
            near = np.empty((len(block), k), np.int32), np.empty((len(block), k), np.float32)
            lists, gaps = probes[0][block], probes[1][block]
            work = work_arrays(len(block), k, Q.shape[1], self.X.dtype)
            search_block(
                Q, rows[block], own, self.X, self.scale, self.centers, self.starts, self.members, self.panel_starts,
                self.panels, self.squares, self.radii, self.growth, lists, gaps, *_by_list(lists, len(self.centers)),
                k, work, *near,
            )  # fmt: skip
            indices[block], distances[block] = near

        run_blocks(task, even_bounds(len(rows), _BLOCK), n_jobs)
        return indices, distances


def _by_list(lists: NDArray[np.int32], n_lists: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where the pairs (query, rank) of each list begin, the pairs by list, and the lists by their best rank.

    Near lists first: their members make for low thresholds.
    """
    flat = lists.ravel()
    small = flat.astype(np.int16) if n_lists < 2**15 else flat  # for which sorting is linear
    pairs = np.argsort(small, kind="stable")
    starts = np.zeros(n_lists + 1, np.int64)
    np.cumsum(np.bincount(flat, minlength=n_lists), out=starts[1:])
    probed = np.flatnonzero(np.diff(starts))
    best = np.minimum.reduceat(pairs % lists.shape[1], starts[probed])
    return starts, pairs, probed[np.argsort(best, kind="stable")]


def one_list(X: Floats, scale: float, n_jobs: int) -> Lists:
    """Return all rows in one list around their mean."""
    center = X.mean(axis=0, dtype=np.float64).astype(X.dtype)[None]
    return Lists(X, center, np.zeros(len(X), np.int8), scale, n_jobs)


def search_all(lists: Lists, Q: Floats, rows: NDArray[np.int64], k: int, n_jobs: int, *, own: bool = False) -> Found:
    """Return the k nearest rows to each of ``Q[rows]`` in a single list."""
    everything = np.zeros((len(rows), 1), np.int32), np.zeros((len(rows), 1), np.float32)
    return lists.search(Q, rows, k, everything, n_jobs, own=own)
