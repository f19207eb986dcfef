"""What a map minimises beside its cost: a pull to given places, and the density of the data that it keeps.

A pull draws points to places, each with a weight of its own::

    F = C + (1/n) sum_i m_i / 2 |y_i - y0_i|²

The density is kept as by densMAP, by the correlation of local radii::

    C - lambda corr(ln R_data, ln R_map)
    R_data_i = sum_j p_ij d_ij² / sum_j p_ij,     R_map_i = sum_j w_ij f_ij / sum_j w_ij,     w = (1 + f)^(-1/2)

with p symmetric, over the stored pairs, d distances of the data and f squared ones of the map. Source: Narayan, Berger
& Cho (2021), "Assessing single-cell transcriptomic variability through density-preserving data visualization". The
equations are those of :mod:`nearfar.methods.descent` and :mod:`nearfar.methods.density`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nearfar._core.threads import even_bounds
from nearfar._core.types import Doubles, Flags, Integers
from nearfar.contracts import Floats, Kernel, Objective, Place, Rows
from nearfar.maps.objective import RowBlocks, row_sums, union_pattern
from nearfar.methods.density import Wanted, add_gradient
from nearfar.methods.descent import cost_of_pull, pull_of
from nearfar.relations.affinities import CalibratedRows
from nearfar.relations.copies import Copies

STIFFNESS = 0.02
"""Weight of a pull by default, in nats for the square of the distance at which n points fill a square as wide as the
radius of the map: with ten times as much old points hardly make room, with a tenth the map swells and drifts."""
SHARE = 0.3
"""Share of the iterations, the last ones, in which the density counts: before, the map finds its form."""
_AT_ONCE = 2**18  # pairs
_LEAST = 1e-8  # of the mean of the radii: what is added to each of the data, of which some may be 0
_ALIKE = 1e-6  # of the spread of their logarithms, which are then all the same but for rounding


def radius(Y: Floats) -> float:
    """Return the radius of a map: the root of the mean square of the distances from its middle."""
    return float(np.sqrt(((Y - Y.mean(axis=0)) ** 2).sum(axis=1).mean()))


class Pull(NamedTuple):
    """Where points are drawn to.

    Parameters
    ----------
    places : ndarray of shape (n, d)
        NaN for a point that has none.
    weights : ndarray of shape (n,), float64
        m_i >= 0; 0 for a point that has no place.
    """

    places: Floats
    weights: Doubles

    @property
    def known(self) -> Flags:
        """Which points are drawn to a place."""
        return np.asarray(self.weights > 0)

    def of_different(self, copies: Copies | None) -> Pull:
        """Return the pull on the different rows: copies of a row are one point, drawn to the mean of their places."""
        if copies is None:
            return self
        at: Floats = np.zeros_like(self.places[: len(copies.first)])
        weights = np.bincount(copies.same, self.weights, len(copies.first)).astype(np.float64)
        np.add.at(at, copies.same[self.known], self.weights[self.known, None] * self.places[self.known])
        with np.errstate(invalid="ignore"):
            return Pull(at / weights[:, None], weights)


def usual_weight(places: Floats) -> float:
    """Return the weight of a pull by default: by how dense the places are, as maps of short tails are far smaller."""
    return STIFFNESS * len(places) / (radius(places) ** 2 or 1.0)


@dataclass
class PulledObjective(Objective):
    """An objective and a pull, in the order of the rows.

    Parameters
    ----------
    of_map : Objective
        The cost of the map.
    place : Place
        Where the positions are.
    pull : Pull
        Its places are of the type of the positions.
    scale : float
        What turns the cost of the map into that which is reported, per point.
    """

    of_map: Objective
    place: Place
    pull: Pull
    scale: float

    def __post_init__(self) -> None:
        places, weights = self.pull
        at, share = np.where(weights[:, None] > 0, places, 0), weights / (len(weights) * self.scale)
        self._rows: tuple[Rows, Rows] = (
            self.place.bring(at.astype(places.dtype)),
            self.place.bring(share.astype(places.dtype)),
        )
        self.held = self._rows[1]  # the second derivative of the pull in the position of each row
        self.advance = self.of_map.advance

    def evaluate(self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Rows, float | None]:
        """Return the gradient and, if it is asked for, the cost."""
        gradient, found = self.of_map.evaluate(Y, exaggeration, cost=cost)
        gradient = self.place.each(pull_of, gradient, Y, *self._rows)[0]
        if found is not None:
            found += float(self.place.each(cost_of_pull, Y, *self._rows)[1])
        return gradient, found

    def reorder(self, order: Integers) -> bool:
        """Let row r be what row ``order[r]`` was."""
        done = self.of_map.reorder(order)
        if done:
            self.pull = Pull(self.pull.places[order], self.pull.weights[order])
            self.__post_init__()
        return done


def radii_of_data(P: RowBlocks) -> Doubles:
    """Return the local radius of each point in the data, NaN where it has no neighbour, or no distances are there."""
    n = P.shape[0]
    if not isinstance(P.source, CalibratedRows):
        return np.full(n, np.nan)
    totals, masses = np.zeros((2, n))
    for start, stop in pairwise(P.bounds.tolist()):
        rows = P.read(start, stop)
        p = rows.data.astype(np.float64)
        distances = P.source.distances(start, stop).ravel()
        for whole, part in ((totals, p * distances**2), (masses, p)):
            whole[start:stop] += row_sums(rows.indptr, part)
            whole += np.bincount(rows.indices, part, n)
    return np.asarray(np.divide(totals, masses, out=np.full(n, np.nan), where=masses > 0))


def radii_of_map(P: RowBlocks, Y: Floats, n_jobs: int = 1) -> Doubles:
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


def log_of(radii: Doubles) -> Doubles:
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
    radii = radii_of_data(P)
    if not np.isfinite(radii).any():
        return np.nan
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
    log_radii: Doubles
    weight: float
    begins: int
    n_jobs: int
    order: Integers | None = None
    counts: bool = False
    wanted: Wanted | None = field(default=None, repr=False)

    def evaluate(self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Rows, float | None]:
        """Return the gradient and, if it is asked for, the cost of the map."""
        gradient, found = self.of_map.evaluate(Y, exaggeration, cost=cost)
        if self.counts:
            if self.wanted is None:  # what the data say of the density, in the order of the rows
                pattern = union_pattern(self.P, np.float32, symmetric=True, order=self.order, n_jobs=self.n_jobs)[:2]
                order = slice(None) if self.order is None else self.order
                self.wanted = Wanted(pattern, self.log_radii[order], int(np.count_nonzero(np.diff(pattern[0]))))
            gradient = add_gradient(self.place, self.wanted, Y, gradient, self.weight)
        return gradient, found

    def early(self, kernel: Kernel | None = None) -> Objective:
        """Return the map's own with KL: the density counts later."""
        return self.of_map.early(kernel)

    def value(self, Y: Rows) -> float:
        """Return the cost of the map."""
        return self.of_map.value(Y)

    def reorder(self, order: Integers) -> bool:
        """Let row r be what row ``order[r]`` was."""
        done = self.of_map.reorder(order)
        if done:
            self.order, self.wanted = order if self.order is None else self.order[order], None
        return done

    def advance(self, Y: Rows, iteration: int) -> None:
        """Let what is learned beside the positions take a step, and the density count from its iteration on."""
        if self.of_map.advance is not None:
            self.of_map.advance(Y, iteration)
        self.counts = iteration + 1 >= self.begins
