"""Neighbours in the data against neighbours in the map, row by row, in blocks on several threads.

Each block holds the distances of a few rows to all others, in the data and in the map; only counts and sums outlive it.
Counts are integers and sums are kept per row, so that the result does not depend on the blocks or the threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.evaluate._distances import Distances

_BLOCK = 2**22  # distances of a block, in each of the two spaces


@dataclass(frozen=True, eq=False)
class RowScores:
    """What the sampled rows add up to (``overlaps``), and what each of them says; m rows, s sizes of neighbourhood.

    Parameters
    ----------
    overlaps : ndarray, shape (n - 1,), int64
        For each K, how many neighbours are shared, summed over the rows.
    weighted : ndarray, shape (m,)
        Weighted sum over K of how many neighbours are shared.
    intruders, lost : ndarray, shape (m, s)
        By how much the ranks of intruding neighbours exceed k; the same of the lost ones.
    shared : ndarray, shape (m, s)
        How many of the k neighbours are shared.
    hits : ndarray, shape (2, m, s)
        Whether the k nearest, in the data and in the map, vote for the label of the row.
    moments : ndarray, shape (m, 5)
        Sums of r, d, r², d², r d over the others.
    pairs : ndarray, shape (2, m, p), float32
        Distances r and d to some others.
    """

    overlaps: NDArray[np.int64]
    weighted: NDArray[np.float64]
    intruders: NDArray[np.float64]
    lost: NDArray[np.float64]
    shared: NDArray[np.float64]
    hits: NDArray[np.float64]
    moments: NDArray[np.float64]
    pairs: NDArray[np.float32]


def score_rows(
    data: Distances,
    plane: Distances,
    rows: NDArray[np.int64],
    ks: NDArray[np.int64],
    weights: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    partners: NDArray[np.int64],
    n_jobs: int,
) -> RowScores:
    """Compare the neighbours of ``rows`` in the data with those in the map.

    Parameters
    ----------
    data, plane : Distances
        In the data and in the map, each divided by its unit.
    rows : ndarray, shape (m,)
        Which rows to judge; their neighbours are sought among all n rows.
    ks : ndarray, shape (s,)
        Sizes of neighbourhoods, each at most n - 1.
    weights : ndarray, shape (n - 1,)
        For ``weighted``, one for each K.
    labels : ndarray, shape (n,), optional
        Numbers from 0.
    partners : ndarray, shape (m, p), values in [0, n - 2]
        For ``pairs``: places among the others of a row.
    n_jobs : int
        Number of threads.

    Returns
    -------
    RowScores
        O(m n (log n + columns)) time; a few arrays of 2**22 numbers, or of length n, per thread.
    """
    run = _Run(data, plane, rows, ks, weights, labels, partners)
    bounds = even_bounds(len(rows), int(np.clip(_BLOCK // data.n, 4, 64)))
    with single_threaded_blas():
        run_blocks(run.block, bounds, n_jobs)
    return run.scores()


class _Scratch:
    """The arrays of one thread."""

    def __init__(self, n: int, n_sizes: int, n_labels: int) -> None:
        self.orders = np.empty((2, n - 1), np.int32)
        self.sorting = np.empty(n - 1, np.uint32), np.empty(n - 1, np.uint32), np.empty(n - 1, np.int32)
        self.ranks = np.empty(n, np.int32)
        self.fresh = np.empty(n - 1, np.uint8)
        self.overlaps = np.zeros(n - 1, np.int64)
        self.sums = np.empty((3, n_sizes))
        self.votes = np.zeros(n_labels, np.int64)


class _Run:
    """One comparison: what all its blocks need, and where they write."""

    def __init__(
        self,
        data: Distances,
        plane: Distances,
        rows: NDArray[np.int64],
        ks: NDArray[np.int64],
        weights: NDArray[np.float64],
        labels: NDArray[np.int64] | None,
        partners: NDArray[np.int64],
    ) -> None:
        m, s = len(rows), len(ks)
        self.spaces, self.n, self.rows = (data, plane), data.n, rows
        self.ks, self.weights, self.labels, self.partners = ks, weights, labels, partners
        self.weighted, self.moments = np.zeros(m), np.zeros((m, 5))
        self.sums, self.hits = np.zeros((m, 3, s)), np.zeros((2, m, s))
        self.pairs = np.empty((2, *partners.shape), np.float32)
        self.scratches: list[_Scratch] = []
        self.free: list[_Scratch] = []

    def scores(self) -> RowScores:
        return RowScores(
            overlaps=np.sum([scratch.overlaps for scratch in self.scratches], axis=0),
            weighted=self.weighted,
            intruders=self.sums[:, 0],
            lost=self.sums[:, 1],
            shared=self.sums[:, 2],
            hits=self.hits,
            moments=self.moments,
            pairs=self.pairs,
        )

    def block(self, _block: int, start: int, stop: int) -> None:
        scratch = self._scratch()
        distances = np.empty((2, stop - start, self.n), np.float32)
        for space, out in zip(self.spaces, distances, strict=True):
            space.write(self.rows[start:stop], out)
        for at in range(start, stop):
            self._row(at, distances[:, at - start], scratch)
        self.free.append(scratch)

    def _scratch(self) -> _Scratch:
        try:
            return self.free.pop()
        except IndexError:
            n_labels = 0 if self.labels is None else int(self.labels.max()) + 1
            scratch = _Scratch(self.n, len(self.ks), n_labels)
            self.scratches.append(scratch)
            return scratch

    def _row(self, at: int, distances: NDArray[np.float32], scratch: _Scratch) -> None:
        from nearfar.evaluate import _rank_kernels as kernels

        row = int(self.rows[at])
        others = self.partners[at] + (self.partners[at] >= row)
        self.pairs[:, at] = distances[:, others]
        self.moments[at] = kernels.moments(distances[0], distances[1])
        true_order, map_order = scratch.orders
        for line, order in zip(distances, scratch.orders, strict=True):
            kernels.nearest_first(line, row, order, *scratch.sorting)
        self.weighted[at] = kernels.compare_orders(
            true_order,
            map_order,
            self.ks,
            self.weights,
            scratch.ranks,
            scratch.fresh,
            scratch.overlaps,
            scratch.sums,
        )
        self.sums[at] = scratch.sums
        if self.labels is not None:
            for space, order in enumerate(scratch.orders):
                for s, k in enumerate(self.ks):
                    winner = kernels.vote(self.labels, order, k, scratch.votes)
                    self.hits[space, at, s] = winner == self.labels[row]
