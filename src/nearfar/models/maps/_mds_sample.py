"""Near pairs exactly and far pairs by chance: estimates of sums over all pairs, in linear time and memory.

The points are put at random into groups of equal size, and the pairs within the groups are the sample. Every pair is in
it with the same probability, by symmetry: the number of pairs within groups over that of all, known exactly. Divided by
it, the sum over the sample is an unbiased estimate of that over all pairs, and so is its gradient. The near pairs, of a
point and its nearest neighbours, are taken one and all with weight 1, and are left out of the sample.

Groups rather than single pairs: their distances are products of small matrices, and nothing is gathered from afar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.divergences.stress import MetricStress, Sammon, Stress
from nearfar.models.maps import _mds_kernels, _mds_rows
from nearfar.models.maps import _mds_sample_kernels as kernels
from nearfar.models.maps._mds_rows import EuclideanRows, Rows

EXACT_UP_TO = 20_000
"""Rows up to which a finished map is judged by all pairs."""
DRAWS = 2
"""Groups that each point is in, of different members: with a single one nothing would hold the groups together."""
_FRESH, _FRESH_SIZE = 8, 128  # draws that a finished map is judged by, and the size of their groups
_ROWS = 4096


@dataclass(frozen=True)
class Draw:
    """All points in random groups, with the distances within.

    Parameters
    ----------
    groups : tuple
        As the kernels of :mod:`nearfar.models.maps._mds_sample_kernels` have it.
    members : ndarray of shape (n,)
        The group of each point.
    probability : float
        That a pair is within a group.
    """

    groups: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], Floats]
    members: NDArray[np.int32]
    probability: float

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Blocks of groups."""
        return even_bounds(len(self.groups[1]) - 1, 8)


def draw(rows: Rows, size: int, dtype: Any, rng: np.random.Generator) -> Draw:
    """Put the rows into groups of ``size`` or a little more."""
    n = rows.n
    count = max(n // size, 1)
    bounds = np.arange(count + 1) * n // count
    order = rng.permutation(n).astype(np.int32)
    members = np.empty(n, np.int32)
    members[order] = np.repeat(np.arange(count, dtype=np.int32), np.diff(bounds))
    pairs = np.diff(bounds) * (np.diff(bounds) - 1) // 2
    offsets = np.concatenate([[0], np.cumsum(pairs)])
    flat = np.empty(offsets[-1], dtype)

    def fill(_: int, first: int, last: int) -> None:
        for g in range(first, last):
            own = order[bounds[g] : bounds[g + 1]]
            own.sort()
            _mds_kernels.keep_tile(0, 0, rows.group(own), len(own), flat[offsets[g] : offsets[g + 1]])

    with single_threaded_blas():
        run_blocks(fill, even_bounds(count, 8), rows.n_jobs)
    return Draw((order, bounds, offsets, flat), members, float(offsets[-1] / max(n * (n - 1) // 2, 1)))


class SampledPairs:
    """Estimates of what :class:`nearfar.models.maps._mds_pairs.Pairs` sums up, from the same sample each time.

    Parameters
    ----------
    owner : str
    rows : EuclideanRows or MetricRows
    dtype : dtype
        What is computed in.
    metric : str or callable
    n_neighbors, n_samples : int
        Near pairs of each point, random partners of each.
    rng : numpy.random.Generator
    n_jobs : int

    Attributes
    ----------
    unit : float
        Root mean square of the distances of the data, estimated; 0 where all are.
    total : float
        Sum of all r in that unit, estimated.
    """

    def __init__(
        self,
        owner: str,
        rows: Rows,
        dtype: Any,
        metric: Any,
        n_neighbors: int,
        n_samples: int,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> None:
        self.rows, self.n, self.dtype, self.n_jobs = rows, rows.n, np.dtype(dtype), n_jobs
        self.rng = rng
        self.draws = [draw(rows, n_samples // DRAWS + 1, dtype, rng) for _ in range(DRAWS)]
        self.near = self._near(owner, metric, min(n_neighbors, self.n - 1))
        self.unit, self.total, self.scale = 0.0, 0.0, 0.0
        largest = max(float(flat.max(initial=0)) for flat in (*(d.groups[3] for d in self.draws), self.near[2]))
        if not largest >= np.finfo(self.dtype).tiny:
            return
        self.scale = 1 / largest
        length, square = self.measures(np.zeros((self.n, 1)))[:2]
        root = float(np.sqrt(square / self.count))
        self.unit, self.total = rows.within * largest * root, float(length / root)
        self.scale = 1 / (largest * root)

    @property
    def count(self) -> int:
        """Number of all pairs."""
        return self.n * (self.n - 1) // 2

    def stress(self, Y: Floats, stress: Stress) -> tuple[float, NDArray[np.float64]]:
        """Return the estimated cost of positions in units, shape (n, d), and its gradient."""
        from nearfar.divergences._stress_kernels import constants_of

        points = self._points(Y)
        constants = constants_of(self.dtype)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), points, stress.family, constants)
        bounds = even_bounds(self.n, _ROWS)
        costs, forces = np.zeros(len(bounds) - 1), np.zeros(points.shape)

        def near(block: int, first: int, last: int) -> None:
            costs[block] = kernels.stress_near(first, last, self.near, *parts, forces)

        run_blocks(near, bounds, self.n_jobs)
        cost = float(costs.sum())
        for one in self.draws:
            cost += self._far(one, parts, forces)
        return cost, np.ascontiguousarray(forces.T)

    def _far(self, one: Draw, parts: tuple[Any, ...], forces: NDArray[np.float64]) -> float:
        """Return the cost that one draw estimates, and add its gradient to ``forces``."""
        weight, costs = 1 / (DRAWS * one.probability), np.zeros(len(one.bounds) - 1)

        def task(block: int, first: int, last: int) -> None:
            arguments = (one.groups, *parts, self._scratch(), weight, forces)
            costs[block] = kernels.stress_groups(first, last, *arguments)

        run_blocks(task, one.bounds, self.n_jobs)
        return weight * float(costs.sum())

    def measures(self, Y: Floats, stress: Stress | None = None) -> NDArray[np.float64]:
        """Return estimates of sum r, sum r², sum d², sum r d, sum (r - d)² and the cost, from the same sample."""
        return np.asarray(np.mean([self._estimate(one, Y, stress or MetricStress()) for one in self.draws], axis=0))

    def judge(self, Y: Floats, stress: Stress) -> tuple[NDArray[np.float64], float]:
        """Return the same of a finished map, and the standard error of the last of them.

        From all pairs up to ``EXACT_UP_TO`` rows, else from samples of its own: the map has been fitted to the first.
        That of Sammon's stress is the error of the cost that is divided by sum r.
        """
        if self.n <= EXACT_UP_TO:
            return self._of_all_pairs(Y, stress), 0.0
        found = np.array(
            [self._estimate(draw(self.rows, _FRESH_SIZE, self.dtype, self.rng), Y, stress) for _ in range(_FRESH)]
        )
        means = found.mean(axis=0)
        costs = found[:, 5]
        if isinstance(stress, Sammon):
            costs = costs - means[5] / means[0] * found[:, 0]
        return means, float(costs.std(ddof=1) / np.sqrt(_FRESH))

    def _estimate(self, one: Draw, Y: Floats, stress: Stress) -> NDArray[np.float64]:
        from nearfar.divergences._stress_kernels import constants_of

        constants = constants_of(np.float64)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), self._points(Y), stress.family, constants)
        bounds = even_bounds(self.n, _ROWS)
        totals, near = np.zeros((len(one.bounds) - 1, 6)), np.zeros((len(bounds) - 1, 2, 6))

        def groups(block: int, first: int, last: int) -> None:
            kernels.measure_groups(first, last, one.groups, *parts, self._scratch(), totals[block])

        def pairs(block: int, first: int, last: int) -> None:
            arguments = (self.near, one.members, *parts, self._scratch(), *near[block])
            kernels.measure_near(first, last, *arguments)

        run_blocks(groups, one.bounds, self.n_jobs)
        run_blocks(pairs, bounds, self.n_jobs)
        every, within = near.sum(axis=0)
        return np.asarray(every + (totals.sum(axis=0) - within) / one.probability)

    def _of_all_pairs(self, Y: Floats, stress: Stress) -> NDArray[np.float64]:
        from nearfar.divergences._stress_kernels import constants_of

        constants = constants_of(np.float64)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), self._points(Y), stress.family, constants)
        totals = np.zeros((len(_mds_rows.tile_bounds(self.rows)) - 1, 6))

        def add(block: int, first: int, start: int, tile: Floats) -> None:
            _mds_kernels.measure_tile(first, start, tile, *parts, self._scratch(), totals[block])

        _mds_rows.each_tile(self.rows, add)
        return np.asarray(totals.sum(axis=0))

    def _near(self, owner: str, metric: Any, k: int) -> tuple[Any, ...]:
        """Return the near pairs as the kernels have them; a pair within a group is taken out there by its weight."""
        from nearfar.relations.neighbors import neighbor_index

        X = self.rows.X
        if k == 0:
            empty = np.empty(0, np.int32)
            return np.zeros(self.n + 1, np.int64), empty, np.empty(0, self.dtype), np.empty(0, self.dtype)
        index = neighbor_index(owner, X, metric=metric, method="auto", n_jobs=self.n_jobs, random_state=self.rng)
        found = index.neighbors(k)
        here, there = np.repeat(np.arange(self.n), k), found.indices.ravel().astype(np.int64)
        codes = np.minimum(here, there) * self.n + np.maximum(here, there)
        codes, first = np.unique(codes, return_index=True)
        low, high = codes // self.n, codes % self.n
        lengths = self._lengths(low, high, found.distances.ravel()[first])
        weights = np.ones(len(codes))
        for one in self.draws:
            weights -= (one.members[low] == one.members[high]) / (DRAWS * one.probability)
        rows, others = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((others, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n))])
        values = (np.concatenate([part, part])[order].astype(self.dtype) for part in (lengths, weights))
        return indptr, others[order].astype(np.int32), *values

    def _lengths(self, low: NDArray[Any], high: NDArray[Any], found: Floats) -> Floats:
        """Return the distances of pairs: those that were found, anew where they are computed in double precision."""
        if self.dtype == np.float32 or not isinstance(self.rows, EuclideanRows):
            return found
        gaps = self.rows.X[low] - self.rows.X[high]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)))

    def _points(self, Y: Floats) -> Floats:
        return np.ascontiguousarray(np.asarray(Y).T, dtype=self.dtype)

    def _scratch(self) -> Floats:
        return np.empty((2, _mds_kernels.BLOCK), self.dtype)
