"""Inverted lists: rows sorted by their nearest centre, so that a query need only look at the lists around it.

Centres come from a short k-means on a sample. How many lists a query looks at ("probes") is found on a sample of rows
whose true neighbours are searched in all lists: the smallest number that keeps the share of neighbours that is asked
for. With all lists probed the search is exact; lists that are too far away by the triangle inequality are left out.

Source: the inverted file of Jégou, Douze & Schmid (2011), "Product quantization for nearest neighbor search", section
IV, without its quantised codes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.relations._lists import Found, Lists, one_list, search_all

FLAT = 4096
"""Up to this many rows one list is searched faster than several."""
_PROBES_AT_ONCE = 2**22  # 32 MiB of lists and distances
_PER_CENTER, _ROUNDS = 20, 5  # of the k-means: rows in the sample for each centre, passes
_TUNING = 300  # queries on which the number of probes is found
_SPARE = 0.2  # share of the permitted misses that is kept in hand: the sample is not all rows


class InvertedLists:
    """A search structure over the rows of X.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Kept by reference.
    rng : numpy.random.Generator
        Draws the samples of the k-means and of the tuning.
    n_jobs : int
    """

    def __init__(self, X: Floats, rng: np.random.Generator, n_jobs: int) -> None:
        self.X, self.n_jobs, self._rng = X, n_jobs, rng
        self.scale = power_of_two(X)
        n = len(X)
        if n <= FLAT:
            self.lists = one_list(X, self.scale, n_jobs)
            self._centers = one_list(self.lists.centers, self.scale, 1)
            return
        n_lists = round(2 * math.sqrt(n))
        centers = self._centers_of(n_lists)
        self._centers = one_list(centers, self.scale, 1)
        labels = self._nearest_centers(X, np.arange(n), 1)[0][:, 0]
        self.lists = Lists(X, centers, labels, self.scale, n_jobs)

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.lists.centers)

    def neighbors(self, k: int, n_probes: int) -> Found:
        """Return the k nearest other rows of each row."""
        order = self.lists.members.astype(np.int64)  # rows of a list one after the other: they probe the same lists
        indices, distances = self._search(self.X, order, k, n_probes, own=True)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return indices[place], distances[place]

    def query(self, Q: Floats, k: int, n_probes: int) -> Found:
        """Return the k nearest rows of X to each row of Q; each answer depends on its row alone."""
        return self._search(np.ascontiguousarray(Q, self.X.dtype), np.arange(len(Q)), k, n_probes, own=False)

    def probes_for(self, k: int, recall: float) -> int:
        """Return how many lists a query must probe to find this share of its k neighbours, on the average."""
        sample = np.sort(self._rng.choice(len(self.X), min(_TUNING, len(self.X)), replace=False))
        probes = self._nearest_centers(self.X, sample, self.n_lists)
        found, _ = self.lists.search(self.X, sample, k, probes, self.n_jobs, own=True)
        label = np.empty(len(self.X), np.int32)
        label[self.lists.members] = np.repeat(np.arange(self.n_lists, dtype=np.int32), self.lists.sizes)
        rank = np.empty_like(probes[0])
        np.put_along_axis(rank, probes[0], np.arange(self.n_lists, dtype=np.int32)[None], axis=1)
        needed = np.sort(np.take_along_axis(rank, label[found], axis=1), axis=None)
        permitted = (1.0 - recall) * (1.0 - _SPARE)
        return int(needed[math.ceil((1.0 - permitted) * needed.size) - 1]) + 1

    def _search(self, Q: Floats, rows: NDArray[np.int64], k: int, n_probes: int, *, own: bool) -> Found:
        indices = np.empty((len(rows), k), np.int32)
        distances = np.empty((len(rows), k), np.float32)
        at_once = max(1, _PROBES_AT_ONCE // n_probes)
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            probes = self._nearest_centers(Q, rows[part], n_probes)
            indices[part], distances[part] = self.lists.search(Q, rows[part], k, probes, self.n_jobs, own=own)
        short = np.flatnonzero(indices[:, -1] < 0)
        if len(short) and n_probes < self.n_lists:  # their lists hold too few rows: look at all of them
            indices[short], distances[short] = self._search(Q, rows[short], k, self.n_lists, own=own)
        return indices, distances

    def _nearest_centers(self, Q: Floats, rows: NDArray[np.int64], k: int) -> Found:
        return search_all(self._centers, Q, rows, k, self.n_jobs)

    def _centers_of(self, n_lists: int) -> Floats:
        """k-means on a sample, from rows drawn at random; a centre without rows moves to the row farthest from its."""
        X, n = self.X, len(self.X)
        chosen = self._rng.choice(n, min(n, _PER_CENTER * n_lists), replace=False)
        centers = X[chosen[:n_lists]]
        sample = X[np.sort(chosen)]
        everyone = np.arange(len(sample))
        for _ in range(_ROUNDS):
            near = search_all(one_list(centers, self.scale, 1), sample, everyone, 1, self.n_jobs)
            labels = near[0][:, 0]
            counts = np.bincount(labels, minlength=n_lists)
            filled = np.flatnonzero(counts)
            order = np.argsort(labels, kind="stable")
            starts = np.cumsum(counts)[filled] - counts[filled]
            centers = np.empty_like(centers)
            centers[filled] = np.add.reduceat(sample[order], starts) / counts[filled, None].astype(X.dtype)
            empty = np.flatnonzero(counts == 0)
            centers[empty] = sample[np.argsort(-near[1][:, 0], kind="stable")[: len(empty)]]
        return centers[_chain(centers)]


def _chain(centers: Floats) -> NDArray[np.int64]:
    """Order centres so that each is followed by the nearest of those that are left: neighbours share their lists."""
    left = centers.astype(np.float64)
    left -= left.mean(axis=0)
    squares = np.einsum("ij,ij->i", left, left)
    order = np.arange(len(left))
    for t in range(1, len(left)):
        nearest = t + int(np.argmin(squares[t:] - 2 * (left[t:] @ left[t - 1])))
        for array in (left, squares, order):
            array[[t, nearest]] = array[[nearest, t]]
    return order


def power_of_two(X: Floats) -> float:
    """Return the power of 2 that brings the widest column of X to a width between 1/2 and 1."""
    width = float((X.max(axis=0) - X.min(axis=0)).max(initial=0.0))
    return 2.0 ** -math.frexp(width)[1]
