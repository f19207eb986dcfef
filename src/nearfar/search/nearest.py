"""Nearest rows: what an answer of a search is, and how the best of many are put in order.

Whatever is searched, the answer is in the order of distance, then of rows: so it does not depend on blocks or threads.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer
from nearfar._core.types import Floats, Indices, Integers, Singles
from nearfar.errors import InputError

Whole = TypeVar("Whole", bound=np.integer)
Real = TypeVar("Real", bound=np.floating)
RANGE = (1e-30, 1e37)
"""Between which the largest distance is to be: distances are float32."""
_ROWS = 512  # of given distances that are sorted at a time


class Neighbors(NamedTuple):
    """Nearest neighbours of some rows, nearest first; ties in the order of the rows.

    Parameters
    ----------
    indices : ndarray of shape (n, k), int32
        Row numbers of the neighbours.
    distances : ndarray of shape (n, k), float32
        In the units of the metric.
    """

    indices: Indices
    distances: Singles

    @staticmethod
    def empty(n: int, k: int) -> Neighbors:
        """Return the arrays of k neighbours of n rows, to be filled."""
        return Neighbors(np.empty((n, k), np.int32), np.empty((n, k), np.float32))

    def first(self, k: int) -> Neighbors:
        """Return the first k neighbours of each row, in arrays of their own."""
        return Neighbors(np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k]))

    def written(self, out: Neighbors | None) -> Neighbors:
        """Return neighbours, in the arrays ``out`` if they are given."""
        if out is None:
            return self
        out.indices[:], out.distances[:] = self
        return out


class NeighborIndex(Protocol):
    """What finds neighbours: made from data, then asked for those of its rows or of new ones."""

    n_rows: int
    """Number of rows that are searched."""
    most: int
    """Neighbours that a row has at most."""

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X; each answer depends on its row alone."""


def check_k(owner: str, name: str, k: object, n: int) -> int:
    """Return a number of neighbours that n rows have."""
    if n < 2:
        raise InputError(owner, "X", "of two rows at least", f"n_samples = {n}", "A single point has no neighbour.")
    k = check_integer(owner, name, k, low=1)
    if k > n - 1:
        raise InputError(owner, name, f"at most {n - 1}, the number of other rows", k)
    return k


def best_first(
    rows: NDArray[Whole], distances: NDArray[Real], k: int | None = None
) -> tuple[NDArray[Whole], NDArray[Real]]:
    """Return the first k of each line, all by default, in the order of distance, then of rows."""
    order = np.lexsort((rows, distances), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(distances, order, axis=1)


def by_distance(indices: Integers, distances: Floats) -> Neighbors:
    """Return neighbours in the order of distance, then of rows."""
    rows, ordered = best_first(indices, distances)
    return Neighbors(rows.astype(np.int32), ordered.astype(np.float32))


def smallest(distances: Floats, k: int, *, skip_self: bool) -> Neighbors:
    """Return the k smallest of each row, without the diagonal if it is the rows' own; ties go to the first."""
    found = Neighbors.empty(len(distances), k)
    for start in range(0, len(distances), _ROWS):
        block = distances[start : start + _ROWS].copy()
        rows = np.arange(len(block))
        if skip_self:
            block[rows, start + rows] = np.inf
        chosen = np.argpartition(block, k - 1, axis=1)[:, :k]
        largest = np.take_along_axis(block, chosen, 1).max(axis=1, keepdims=True)
        for row in np.flatnonzero(np.count_nonzero(block <= largest, axis=1) > k).tolist():
            below, at = (np.flatnonzero(each(block[row], largest[row])) for each in (np.less, np.equal))
            chosen[row] = np.append(below, at[: k - len(below)])
        nearest = by_distance(chosen, np.take_along_axis(block, chosen, 1))
        found.indices[start : start + _ROWS], found.distances[start : start + _ROWS] = nearest
    return found
