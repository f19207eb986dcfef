"""Neighbours by a relation, by which a map of a relation is judged.

What is related is one step away, the stronger the nearer: with the weights w_ij of both directions together, ::

    r_ij = 1.5 - 0.5 w_ij / max_l w_il

All else is as far as the steps to it, and what no steps reach one step farther than the farthest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.types import Flags, Indices, Longs, Singles
from nearfar.errors import InputError
from nearfar.evaluate.few_rows import Distances
from nearfar.relations.matrix import Relation
from nearfar.search.nearest import Neighbors

FAR = 3
"""A neighbour is far on the other side where it is not among so many times k neighbours there."""
_BLOCK = 2**22  # comparisons at a time


def relation_of(drawn: object) -> Relation | None:
    """Return the relation that a fitted map was drawn of; None where it was rows or distances, or is not known."""
    relation = getattr(drawn, "relation_", None)
    return relation if isinstance(relation, Relation) and getattr(drawn, "affinities_", relation) is None else None


class Shares(NamedTuple):
    """What a map keeps of the k nearest neighbours of each of n points, or of its k strongest relations at most.

    Parameters
    ----------
    near : ndarray of int32, shape (n, k)
        The neighbours, nearest first; the point itself where no more are related.
    distances : ndarray of float32, shape (n, k)
    torn : ndarray of bool, shape (n, k)
        Which of them are far away in the map: not among ``FAR`` times k neighbours.
    missing, false : ndarray of float32, shape (n,)
        The share of these; and of as many neighbours in the map, the share that is far away in the data, or not
        related.
    """

    near: Indices
    distances: Singles
    torn: Flags
    missing: Singles
    false: Singles


class Related(Distances):
    """Distances by a relation of objects of one kind."""

    unit = 1.0

    def __init__(self, owner: str, relation: Relation) -> None:
        if not relation.is_square:
            raise InputError(owner, "X", "a relation of objects of one kind", f"one of shape {relation.shape}")
        self.ids, self.n = relation.row_ids, relation.shape[0]
        W = relation.to_scipy()
        W = csr_array(W + W.T)
        W.setdiag(0)
        W.eliminate_zeros()
        W.sort_indices()
        self._W = W
        self._rows = np.repeat(np.arange(self.n), np.diff(W.indptr))
        strongest = np.zeros(self.n, np.float32)
        np.maximum.at(strongest, self._rows, W.data)
        self._distances = (1.5 - 0.5 * W.data / strongest[self._rows]).astype(np.float32)

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        for row, line in zip(rows.tolist(), out, strict=True):
            line.fill(-1)
            line[row] = 0
            stored = slice(self._W.indptr[row], self._W.indptr[row + 1])
            reached, steps = self._W.indices[stored], 1
            line[reached] = self._distances[stored]
            while reached.size:
                beyond = self._W[reached].indices
                reached, steps = np.unique(beyond[line[beyond] < 0]), steps + 1
                line[reached] = steps
            line[line < 0] = steps

    def shares(self, in_map: Indices, k: int) -> Shares:
        """Return what a map keeps of the k strongest relations, by its nearest, shape (n, FAR k)."""
        n, W = self.n, self._W
        order = np.lexsort((-W.data, self._rows))
        place = np.arange(W.nnz) - W.indptr[self._rows]
        kept = place < k
        near = np.repeat(np.arange(n, dtype=np.int32)[:, None], k, axis=1)
        distances = np.zeros((n, k), np.float32)
        at = self._rows[kept], place[kept]
        near[at], distances[at] = W.indices[order][kept], self._distances[order][kept]
        there = near != np.arange(n)[:, None]
        counts = there.sum(axis=1)
        torn = lost_neighbors(near, in_map[:, : FAR * k]) & there
        pairs = np.arange(n)[:, None] * n + in_map[:, :k]
        unrelated = ~np.isin(pairs, self._rows * n + W.indices) & (np.arange(k) < counts[:, None])
        missing, false = (lost.sum(axis=1) / np.maximum(counts, 1) for lost in (torn, unrelated))
        return Shares(near, distances, torn, missing.astype(np.float32), false.astype(np.float32))


def shares_of(found: Neighbors, in_map: Indices, k: int) -> Shares:
    """Return what a map keeps of the k nearest rows, by its nearest and those of the data, both of shape (n, FAR k)."""
    near, distances = found.indices[:, :k], found.distances[:, :k]
    torn = lost_neighbors(near, in_map[:, : FAR * k])
    false = lost_neighbors(in_map[:, :k], found.indices[:, : FAR * k])
    missing, spurious = (lost.mean(axis=1, dtype=np.float32) for lost in (torn, false))
    return Shares(near, distances, torn, missing, spurious)


def lost_neighbors(near: Indices, others: Indices) -> Flags:
    """Return which neighbours of each row are not among its neighbours on the other side.

    Parameters
    ----------
    near : ndarray of int32, shape (n, k)
        Neighbours in one space.
    others : ndarray of int32, shape (n, m)
        Neighbours in the other one.

    Returns
    -------
    ndarray of bool, shape (n, k)
    """
    lost = np.empty(near.shape, np.bool_)
    step = max(1, _BLOCK // (near.shape[1] * others.shape[1]))
    for start in range(0, len(near), step):
        rows = slice(start, start + step)
        lost[rows] = (near[rows, :, None] != others[rows, None, :]).all(axis=2)
    return lost
