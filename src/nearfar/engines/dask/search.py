"""Nearest rows on the workers of a cluster, as on one machine, to the bit.

The best rows for a few queries, exactly: each part is searched where it is, the best are merged in a tree. Scores of
candidates are scalar products in float64, one by one. So they do not depend on the parts, and ties are broken by the
order of the rows.

The neighbours of all rows, as affinities need them: each worker gets all rows, and searches them for its parts of the
rows. The search is that of :class:`nearfar.search.lists.VectorIndex`, where the answer to a query depends on no
other; the client makes the centres of its lists from a sample. Each part is calibrated where it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nearfar._core.lazy import Matrix, RowsInParts
from nearfar._core.types import Doubles, Floats, Indices, RowNumbers, Singles
from nearfar.engines.dask.client import client_of, gathered, rows_of
from nearfar.engines.dask.rows import Owners, Parts, bounds_of, kept, sent
from nearfar.engines.dask.rows import Rows as SparseRows
from nearfar.search.lists import VectorIndex
from nearfar.search.nearest import NeighborIndex, Neighbors, best_first
from nearfar.search.products import LeftOut, best_rows, row_norms

if TYPE_CHECKING:
    from distributed import Client

Known = TypeVar("Known")
Best = tuple[RowNumbers, Doubles]


def nearest_on_workers(
    owner: str, queries: Floats, Y: Matrix, k: int, metric: str, skip: LeftOut | None = None
) -> Best:
    """Return the k best rows of Y for each query, and their scores; best first, ties in the order of the rows."""
    with client_of(owner) as client:
        owners, bounds = Owners(client), bounds_of(len(Y))
        n, parts = len(bounds) - 1, sent(owners, Y if isinstance(Y, RowsInParts) else np.asarray(Y), bounds)
        asked = owners.submit(0, n, kept, (queries, skip))
        best = owners.each(n, best_of_part, owner, asked, parts, bounds[:-1], k, metric, what="search")
        return gathered(owner, client, [owners.joined(best, n, merged, k)], rows_of(bounds))[0]


class NeighborParts:
    """The neighbours of all rows of an index: found on workers, and calibrated there, in parts of the rows.

    Parameters
    ----------
    client : distributed.Client
    owner : str
        For errors.
    index : NeighborIndex
        What it finds is found on workers if each row can be searched by itself (:class:`VectorIndex`), else here.

    Attributes
    ----------
    rows : list of Future
        The calibrated probabilities, each part a ``Rows``.
    """

    def __init__(self, client: Client, owner: str, index: NeighborIndex) -> None:
        self._client, self._owner, self._index, self._owners = client, owner, index, Owners(client)
        self._bounds = bounds_of(index.n_rows)
        self._ends = list(pairwise(self._bounds))
        self._each = partial(self._owners.each, len(self._ends))
        self._found, self.rows = Parts(), Parts()

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        if isinstance(self._index, VectorIndex):  # each row can be searched by itself
            # Each worker has all rows, in lists, and searches them for those of its parts.
            owners, index, n = self._owners, self._index, len(self._ends)
            parts = sent(owners, index.X, self._bounds)
            light, labels = owners.submit(0, n, kept, index.without_rows()), Parts()
            if index.centers is not None:
                labels = self._each(VectorIndex.labels_of, light, parts)
                index.labels = np.concatenate(self._gather(labels))
            homes = [owners.of(q, n) for q in range(n)]
            indexes = {
                home: owners.submit(homes.index(home), n, index_of, light, parts, labels, what="index")
                for home in dict.fromkeys(homes)
            }
            index.n_probes[k] = index.n_lists
            if index.approximate:
                probes = owners.submit(0, n, VectorIndex.probes_for, indexes[homes[0]], k, index.sample())
                index.n_probes[k] = self._gather([probes])[0]
            own = [indexes[home] for home in homes]
            self._found = self._each(neighbors_of, own, k, index.n_probes[k], self._ends, what="neighbors")
            out = out or Neighbors.empty(index.n_rows, k)
            for part, (a, b) in zip(self._found, self._ends, strict=True):
                out.indices[a:b], out.distances[a:b] = self._gather([part])[0]
            return out
        found = self._index.neighbors(k, out)
        cut = [Neighbors(found.indices[a:b].copy(), found.distances[a:b].copy()) for a, b in self._ends]
        self._found = self._each(kept, cut)
        return found

    def calibrated(self, calibrate: Callable[[Neighbors], tuple[Known, Singles]]) -> list[Known]:
        """Calibrate each part where it is; return what that says beside the probabilities, which stay there."""
        made = self._each(calibrated_part, self._found, calibrate, what="calibration")
        self.rows = self._each(itemgetter(1), made)
        return self._gather(self._each(itemgetter(0), made))

    def _gather(self, futures: Parts) -> list[Any]:
        return gathered(self._owner, self._client, futures, rows_of(self._bounds))


# What the tasks do.


def index_of(index: VectorIndex, parts: list[Floats], labels: list[Indices]) -> VectorIndex:
    """Return the index with all rows."""
    return index.with_rows(np.concatenate(parts), np.concatenate(labels) if labels else None)


def neighbors_of(index: VectorIndex, k: int, n_probes: int, rows: tuple[int, int]) -> Neighbors:
    """Return the neighbours of some rows."""
    one = copy.copy(index)  # several threads may have the same
    one.n_probes = {k: n_probes}
    return one.neighbors(k, rows=rows)


def calibrated_part(
    found: Neighbors, calibrate: Callable[[Neighbors], tuple[Known, Singles]]
) -> tuple[Known, SparseRows]:
    """Return what the client must know of some rows, and their probabilities."""
    known, p = calibrate(found)
    indptr = np.arange(len(p) + 1) * p.shape[1]
    return known, SparseRows(indptr, found.indices.ravel(), p.ravel(), None, None)


def best_of_part(owner: str, asked: tuple[Floats, LeftOut | None], Y: Floats, start: int, k: int, metric: str) -> Best:
    """Return the best rows of a part, at most k."""
    queries, skip = asked
    if not len(Y):
        return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
    skip = None if skip is None else skip.within(start, start + len(Y))
    rows, scores = best_rows(owner, queries, Y, min(k, len(Y)), metric, row_norms(Y), skip=skip)
    return np.where(rows < 0, rows, rows + start), scores


def merged(found: list[Best], k: int) -> Best:
    """Return the k best of the best of several parts."""
    rows, scores = (np.concatenate(several, axis=1) for several in zip(*found, strict=True))
    best, distances = best_first(rows, -scores, k)
    return best, -distances
