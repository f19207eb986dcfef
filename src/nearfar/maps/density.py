"""The density of the data kept in a map, as by densMAP: local radii, and the objective that has their correlation.

    C - lambda corr(ln R_data, ln R_map)
    R_data_i = sum_j p_ij d_ij² / sum_j p_ij,     R_map_i = sum_j w_ij f_ij / sum_j w_ij,     w = (1 + f)^(-1/2)

with p symmetric, over the stored pairs, d distances of the data and f squared ones of the map. Source: Narayan, Berger
& Cho (2021), "Assessing single-cell transcriptomic variability through density-preserving data visualization"; the
equations are those of :mod:`nearfar.methods.density`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.threads import even_bounds
from nearfar.contracts import Floats, Kernel, Objective, Place, Rows
from nearfar.maps.objective import RowBlocks, row_sums, union_pattern
from nearfar.methods.density import Wanted, add_gradient
from nearfar.relations.affinities import CalibratedRows

SHARE = 0.3
"""Share of the iterations, the last ones, in which the density counts: before, the map finds its form."""
_AT_ONCE = 2**18  # pairs
_LEAST = 1e-8  # of the mean of the radii: what is added to each of the data, of which some may be 0
_ALIKE = 1e-6  # of the spread of their logarithms, which are then all the same but for rounding


def has_distances(P: RowBlocks) -> bool:
    """Return whether P was made of distances, and still has them."""
    return hasattr(P.source, "distances")


def radii_of_data(P: RowBlocks) -> NDArray[np.float64]:
    """Return the local radius of each point in the data, NaN where it has no neighbour."""
    n = P.shape[0]
    totals, masses = np.zeros((2, n))
    for start, stop in pairwise(P.bounds.tolist()):
        rows = P.read(start, stop)
        p = rows.data.astype(np.float64)
        distances = cast("CalibratedRows", P.source).distances(start, stop).ravel()
        for whole, part in ((totals, p * distances**2), (masses, p)):
            whole[start:stop] += row_sums(rows.indptr, part)
            whole += np.bincount(rows.indices, part, n)
    return np.asarray(np.divide(totals, masses, out=np.full(n, np.nan), where=masses > 0))


def radii_of_map(P: RowBlocks, Y: Floats, n_jobs: int = 1) -> NDArray[np.float64]:
    """Return the local radius of each point in a map, NaN where it has no neighbour."""
    n = len(Y)
    indptr, columns, *_ = union_pattern(P, np.float32, symmetric=True, n_jobs=n_jobs)
    found = np.full(n, np.nan)
    for start, stop in pairwise(even_bounds(n, max(1, _AT_ONCE * n // max(len(columns), 1))).tolist()):
        ends = indptr[start : stop + 1] - indptr[start]
        ways = np.repeat(Y[start:stop], np.diff(ends), axis=0) - Y[columns[indptr[start] : indptr[stop]]]
        f = (ways.astype(np.float64) ** 2).sum(axis=1)
        w = 1 / np.sqrt(1 + f)
        related = np.diff(ends) > 0
        found[start:stop][related] = row_sums(ends, w * f)[related] / row_sums(ends, w)[related]
    return found


def log_of(radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of local radii, of mean 0 and variance 1 where they differ; 0 where there are none."""
    known = np.isfinite(radii)
    if not known.any():
        return np.zeros(len(radii))
    mean = radii[known].mean() or 1.0
    logs = np.log(radii / mean + _LEAST)
    logs -= logs[known].mean()
    spread = logs[known].std()
    return np.where(known, logs / (spread if spread > _ALIKE else np.inf), 0.0)


def correlation_of(P: RowBlocks, Y: Floats, n_jobs: int = 1) -> float:
    """Return the correlation of log local radii in data and map; NaN without distances, or where all are alike."""
    if not has_distances(P):
        return np.nan
    radii = radii_of_data(P)
    in_data, in_map = log_of(radii), log_of(radii_of_map(P, Y, n_jobs))
    return float((in_data * in_map)[np.isfinite(radii)].mean()) if in_data.any() and in_map.any() else np.nan


@dataclass
class KeptDensity(Objective):
    """An objective that keeps the density, too, from some iteration on.

    The cost that it tells is that of the map alone.

    Parameters
    ----------
    of_map : Objective
        The cost of the map.
    place : Place
        Where the positions are.
    P : RowBlocks
        The probabilities of the data.
    log_radii : ndarray of shape (n,), float64
        Those of the data, see :func:`log_of`.
    weight : float
        lambda, in units of ``of_map``.
    begins : int
        The iteration.
    n_jobs : int
    """

    of_map: Objective
    place: Place
    P: RowBlocks
    log_radii: NDArray[np.float64]
    weight: float
    begins: int
    n_jobs: int
    order: NDArray[np.integer] | None = None
    counts: bool = False
    _wanted: Wanted | None = field(default=None, repr=False)

    def wanted(self) -> Wanted:
        """Return what the data say of the density, in the order of the rows; made when it is first asked for."""
        if self._wanted is None:
            pattern = union_pattern(self.P, np.float32, symmetric=True, order=self.order, n_jobs=self.n_jobs)[:2]
            order = slice(None) if self.order is None else self.order
            self._wanted = Wanted(pattern, self.log_radii[order], int(np.count_nonzero(np.diff(pattern[0]))))
        return self._wanted

    def evaluate(self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Rows, float | None]:
        """Return the gradient and, if it is asked for, the cost of the map."""
        gradient, found = self.of_map.evaluate(Y, exaggeration, cost=cost)
        if self.counts:
            gradient = add_gradient(self.place, self.wanted(), Y, gradient, self.weight)
        return gradient, found

    def value(self, Y: Rows) -> float:
        """Return the cost of the map."""
        return self.of_map.value(Y)

    def early(self, kernel: Kernel | None = None) -> Objective:
        """Return the map's own with KL: the density counts later."""
        return self.of_map.early(kernel)

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was."""
        done = self.of_map.reorder(order)
        if done:
            self.order, self._wanted = order if self.order is None else self.order[order], None
        return done

    def advance(self, Y: Rows, iteration: int) -> None:
        """Let what is learned beside the positions take a step, and the density count from its iteration on."""
        self.of_map.advance(Y, iteration)
        self.counts = iteration + 1 >= self.begins
