"""What is compared of data and map, row by row, and what a map keeps of the neighbours of a few rows, in NumPy.

That is the same as the compiled loops of :mod:`nearfar.evaluate.neighborhoods`, which take seconds to compile on a new
machine, for a block of rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Longs, Singles

FEW = 2**22
"""Distances that are compared here."""
_BLOCK = 2**18  # at once
_PLACE = np.uint64(0xFFFFFFFF)


class Distances(Protocol):
    """Distances among n rows, divided by ``unit``."""

    n: int
    unit: float

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows, shape (q, n): float32, finite, from a row to itself 0."""

    def in_numpy(self) -> Distances:
        """Return the same, by which nothing is compiled."""
        return self


@dataclass(frozen=True, eq=False)
class RowScores:
    """What the sampled rows add up to (``overlaps``), and what each of them says; m rows, s sizes of neighbourhood.

    Parameters
    ----------
    overlaps : ndarray, shape (n - 1,), int64
        For each K, how many neighbours are shared, summed over the rows.
    weighted : ndarray, shape (m,)
        Weighted sum over K of how many neighbours are shared.
    sums : ndarray, shape (m, 3, s)
        By how much the ranks of intruding neighbours exceed k, the same of the lost ones, and how many of the k
        neighbours are shared.
    hits : ndarray, shape (2, m, s)
        Whether the k nearest, in the data and in the map, vote for the label of the row.
    moments : ndarray, shape (m, 5)
        Sums of r, d, r², d², r d over the others.
    pairs : ndarray, shape (2, m, p), float32
        Distances r and d to some others.
    """

    overlaps: Longs
    weighted: Doubles
    sums: Doubles
    hits: Doubles
    moments: Doubles
    pairs: Singles


class Judged(NamedTuple):
    """Which rows are judged, and by what.

    Attributes
    ----------
    rows : ndarray, shape (m,)
        Their neighbours are sought among all n rows.
    ks : ndarray, shape (s,)
        Sizes of neighbourhoods, each at most n - 1.
    weights : ndarray, shape (n - 1,)
        For ``weighted``, one for each K.
    labels : ndarray, shape (n,), optional
        Numbers from 0.
    partners : ndarray, shape (m, p), values in [0, n - 2]
        For ``pairs``: places among the others of a row.
    """

    rows: Longs
    ks: Longs
    weights: Doubles
    labels: Longs | None
    partners: Longs


def score_few(found: RowScores, data: Distances, plane: Distances, judged: Judged, n_jobs: int) -> None:
    """Write what :func:`nearfar.evaluate.neighborhoods.score_rows` returns."""
    rows, ks, weights, labels, partners = judged
    lock = Lock()

    def task(_block: int, start: int, stop: int) -> None:
        here, some, picked = slice(start, stop), rows[start:stop], partners[start:stop]
        lines = np.empty((2, len(some), data.n), np.float32)
        for space, out in zip((data, plane), lines, strict=True):
            space.write(some, out)
        found.pairs[:, here] = np.take_along_axis(lines, (picked + (picked >= some[:, None]))[None], axis=2)
        r, d = lines.astype(np.float64)
        squares = (np.einsum("ij,ij->i", a, b) for a, b in ((r, r), (d, d), (r, d)))
        found.moments[here] = np.stack([r.sum(axis=1), d.sum(axis=1), *squares], axis=1)
        orders = [orders_of(side, some) for side in lines]
        shared, found.sums[here] = compare_all(orders[0], orders[1], ks)
        found.weighted[here] = shared @ weights
        with lock:  # whole numbers: in any order
            found.overlaps[:] += shared.sum(axis=0)
        if labels is not None:
            for hits, order in zip(found.hits, orders, strict=True):
                hits[here] = votes_of(labels, order, ks.tolist()) == labels[some, None]

    with single_threaded_blas():
        run_blocks(task, even_bounds(len(rows), max(1, _BLOCK // data.n)), n_jobs)


def orders_of(distances: Singles, rows: Longs) -> Longs:
    """Return all rows but itself by growing distance, ties by number, for each of q ``rows``: shape (q, n - 1).

    Parameters
    ----------
    distances : ndarray, shape (q, n), float32, >= 0
        From ``rows`` to all n rows.
    rows : ndarray, shape (q,)
    """
    keys = _sortable(distances)
    keys[np.arange(len(rows)), rows] = 0
    keys.sort(axis=1)
    return (keys & _PLACE).astype(np.int64)[:, 1:]


def _sortable(values: Singles) -> NDArray[np.uint64]:
    """Return keys above 0 in the order of each line, with the places in the line as their last 32 bits.

    The bits of a non-negative float32 grow with the number. All keys differ, and are sorted faster than by argsort.
    """
    bits = values.view(np.uint32).astype(np.uint64) + np.uint64(1)
    return (bits << np.uint64(32)) | np.arange(values.shape[-1], dtype=np.uint64)


def compare_all(true_orders: Longs, map_orders: Longs, ks: Longs) -> tuple[Longs, Doubles]:
    """Compare the neighbours of rows in the data with those in the map.

    Parameters
    ----------
    true_orders, map_orders : ndarray, shape (q, n - 1)
        The other rows, nearest first.
    ks : ndarray, shape (s,)
        Sizes of neighbourhoods.

    Returns
    -------
    shared : ndarray, shape (q, n - 1)
        For K = 1 .. n - 1 how many neighbours the two K-neighbourhoods share.
    sums : ndarray, shape (q, 3, s)
        By how much the ranks of the intruders of the map exceed k, the same of those that it lost, and how many of the
        k neighbours are shared.
    """
    q, others = true_orders.shape
    places = np.arange(1, others + 1)
    ranks = np.empty((q, others + 1), np.int64)
    np.put_along_axis(ranks, true_orders, places[None], axis=1)
    true_ranks = np.take_along_axis(ranks, map_orders, axis=1)
    fresh = np.maximum(true_ranks, places) - 1 + others * np.arange(q)[:, None]
    shared = np.cumsum(np.bincount(fresh.ravel(), minlength=q * others).reshape(q, others), axis=1)
    sums = np.empty((q, 3, len(ks)))
    for s, k in enumerate(ks.tolist()):
        intruding = np.maximum(true_ranks[:, :k] - k, 0)
        lost = (true_ranks[:, k:] <= k) * (places[k:] - k)
        sums[:, :, s] = np.stack([intruding.sum(axis=1), lost.sum(axis=1), shared[:, k - 1]], axis=1)
    return shared, sums


def votes_of(labels: Longs, orders: Longs, ks: Sequence[int]) -> Longs:
    """Return the most frequent label among the k nearest, of several that of the nearest row: shape (q, s)."""
    winners = np.empty((len(orders), len(ks)), np.int64)
    for at, line in enumerate(labels[orders[:, : max(ks)]]):
        for s, k in enumerate(ks):
            counts = np.bincount(line[:k])[line[:k]]
            winners[at, s] = line[np.argmax(counts)]
    return winners


def mean_ranks_of(values: Singles) -> Doubles:
    """Return the ranks of non-negative numbers, from 0; equal ones have the mean of their ranks."""
    keys = np.sort(_sortable(values))
    first = np.flatnonzero(np.diff(keys >> np.uint64(32), prepend=0))
    counts = np.diff(first, append=len(keys))
    ranks = np.empty(len(keys))
    ranks[(keys & _PLACE).astype(np.int64)] = np.repeat(first + (counts - 1) / 2, counts)
    return ranks
