"""New points find their places in a map whose old points rest: the recipe of a map that grows.

Points cannot pass through groups that are in their way, and a group that was not there before has no place. So there
are two starts: every point at the mean of its neighbours; and points that have most of their neighbours among the new
ones gathered on a free disc. From both the new points move, what they have to do with each other exaggerated at first,
and between they jump to the places of their neighbours where these cost less. Which start is kept is a matter of the
cost alone, and so it is that which says whether there is a new group. At last old points that have to do with new ones
make room, drawn back to where they were. Where there are new groups, what new points have to do with each other is
exaggerated then, too, and less and less: where old points move the borders of the groups are drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from nearfar._core.types import Flags, RowNumbers
from nearfar.contracts import Floats, Objective
from nearfar.errors import NumericalError
from nearfar.maps.frozen import STRONGEST, Edges, FrozenObjective, Sums, strongest
from nearfar.maps.objective import RowBlocks
from nearfar.maps.pull import Pull, radius
from nearfar.methods.maps import MapState, Phase, descend

EXAGGERATION = 4.0
ROOM = (8.0, 4.0, 2.0, 1.0)
"""Exaggerations of new groups while old points make room, each for a sixth of the iterations, before new ones jump."""
LEANS = 2.0
"""Exaggeration of new groups at their last jumps: what is between them and old ones would be nearer to them in a fresh
map, where they have the place that suits them best."""
TOUCHED = 0.1
"""Share of its neighbourhood that is new, from which an old point makes room."""
MARGIN = 0.1
"""Nats for each new point that gathered groups may cost more: a map with a group in pieces hardly costs more."""
_NOISE = 0.1  # how near to the place of a neighbour a point jumps
_JITTER = 0.01
_SWEEPS = 200  # of means of neighbours
_OWN = 0.25  # of the rest of its weight that a point of a group has among the new ones, beyond their share of all
_LEAST = 30  # points of a group
_DISC, _FILLED = 0.6, 0.8  # radius of a group's disc, of that of as many points of the map; how far points fill it
_GRID, _REACH = {1: 4001, 2: 151, 3: 41}, 2.5  # places that are tried, per component; radii of the map they reach to


class Growing(NamedTuple):
    """What new points are placed by.

    Parameters
    ----------
    owner : str
        Whom errors name.
    P : RowBlocks of shape (n, n)
        Its total is 1.
    new : ndarray of bool, shape (n,)
        The points that have no place.
    data : ndarray or sparse array of shape (n, p), or None
        The rows of numbers.
    sums : Sums
    phase : Phase
        Some iterations.
    Z : float, optional
        What stands for the sum of all w, see :class:`nearfar.maps.frozen.FrozenObjective`.
    rng : Generator
    """

    owner: str
    P: RowBlocks
    new: Flags
    data: Floats | None
    sums: Sums
    phase: Phase
    Z: float | None
    rng: np.random.Generator

    def objective(self, edges: Edges, Y: Floats, pull: Pull | None = None, n_new: int | None = None) -> FrozenObjective:
        """Return the cost of the points that move; all others rest at Y."""
        m = edges.p.shape[0]
        rest = np.ascontiguousarray(Y[edges.order[m:]])
        none = Pull(np.zeros((m, Y.shape[1])), np.zeros(m))
        return FrozenObjective(
            edges,
            self.sums.kernel,
            self.sums.resting(rest) if len(rest) else None,
            rest,
            self.sums.total(rest) if len(rest) else 0.0,
            self.sums.field(m),
            self.sums.place,
            none if pull is None else pull,
            m if n_new is None else n_new,
            self.sums.n_jobs,
            self.Z,
        )


class Placed(NamedTuple):
    """A map in which new points have places among old ones that rest.

    Parameters
    ----------
    Y : ndarray of shape (n, d)
    share : ndarray of shape (n,), float64
        Which part of its neighbourhood is new, of each point.
    grouped : bool
        Whether there are groups of new points.
    """

    Y: Floats
    share: NDArray[np.float64]
    grouped: bool


def with_places(by: Growing, Y: Floats) -> Placed:
    """Return the map in which new points have found their places."""
    new = np.flatnonzero(by.new)
    if not len(new):  # new rows may all be copies of old ones
        return Placed(Y, np.zeros(len(Y)), grouped=False)
    edges = Edges.among(by.P, new, by.sums.n_jobs)
    objective = by.objective(edges, Y)
    first = means_of_neighbors(edges.rows, objective.Y_rest)
    data = None if by.data is None else by.data[new]
    jitter = by.rng.normal(0, by.phase.longest * _JITTER, first.shape)
    starts = [((first + jitter).astype(Y.dtype), True)]
    groups = groups_of(edges.rows)
    leans = LEANS if groups else 1.0
    if first.shape[1] in _GRID and groups:
        gathers = gathered(groups, first, objective.Y_rest, data, by.rng)
        starts.append(((gathers + jitter).astype(Y.dtype), False))
    found = [_settled(by, objective, start, leans, jumps_early=early) for start, early in starts]
    costs = [objective.value(places) for places in found]
    gathers_cost_less = len(found) > 1 and costs[1] <= costs[0] + MARGIN * len(new) / len(Y)
    Y = Y.copy()
    Y[new] = found[int(gathers_cost_less)]
    return Placed(Y, edges.share, grouped=bool(groups))


def with_room(by: Growing, placed: Placed, pull: Pull, n_iter: int) -> tuple[Floats, int]:
    """Return the map in which old points have made room for new ones, against the pull, and the iterations it took."""
    new, Y = np.flatnonzero(by.new), placed.Y.copy()
    if not len(new):
        return Y, 0
    touched = np.flatnonzero(~by.new & (placed.share > TOUCHED))
    moves = np.concatenate([new, touched])
    edges = Edges.among(by.P, moves, by.sums.n_jobs)
    of_moving = Pull(pull.places[moves], pull.weights[moves])
    objective = by.objective(edges, Y, of_moving, len(new))
    found, each = np.ascontiguousarray(Y[moves]), n_iter // (len(ROOM) + 2)
    last = n_iter - len(ROOM) * each
    if placed.grouped:
        for exaggeration in ROOM:
            found = _moved(by, objective, found, exaggeration, each)
        found = jumped(by, objective, found, LEANS)
    Y[moves] = _moved(by, objective, found, n_iter=last)
    return Y, n_iter if placed.grouped else last


@dataclass
class _Unwatched:
    """A descent that nobody watches."""

    state: MapState
    owner: str
    scale: float = 1.0

    def begin(self, objective: Objective) -> None:
        """Do nothing."""

    def step(self) -> None:
        """Count an iteration."""
        self.state.n_iter += 1

    def look(self, phase: Phase, cost: float | None, square: float) -> bool:  # noqa: ARG002 - of all that watch
        """Note the iteration; refuse what is not finite."""
        if cost is None or not np.isfinite(cost):
            raise NumericalError(f"{self.owner}: the new points left the finite numbers. Take a smaller learning_rate.")
        self.state.cost_iterations.append(self.state.n_iter)
        return False


def _moved(
    by: Growing, objective: FrozenObjective, Y: Floats, exaggeration: float = 1.0, n_iter: int | None = None
) -> Floats:
    """Return where points come to in a phase; exaggerated, steps are shorter."""
    watch = _Unwatched(MapState(Y.copy()), by.owner)
    rate, n_iter = by.phase.learning_rate / exaggeration, by.phase.n_iter if n_iter is None else n_iter
    phase = replace(by.phase, exaggeration=exaggeration, learning_rate=rate, n_iter=n_iter)
    descend(objective.place, objective, [phase], watch)
    return watch.state.Y


def _settled(by: Growing, objective: FrozenObjective, Y: Floats, leans: float, *, jumps_early: bool) -> Floats:
    """Return where new points settle from a start."""
    Y = _moved(by, objective, Y, EXAGGERATION)
    if jumps_early:
        Y = _moved(by, objective, jumped(by, objective, Y, EXAGGERATION), EXAGGERATION)
    Y = _moved(by, objective, Y)
    return _moved(by, objective, jumped(by, objective, Y, leans))


def jumped(by: Growing, objective: FrozenObjective, Y: Floats, exaggeration: float = 1.0) -> Floats:
    """Let each new point go to the best of its own place and those of its neighbours.

    What it costs point i to be at x is 2 (-sum_j p_ij ln w(|x - y_j|^2) + sum_j w(|x - y_j|^2) / Z).
    """
    P, (m, d) = csr_array(objective.edges.p[: objective.new]), (objective.new, Y.shape[1])
    everywhere, lengths = np.concatenate([Y, objective.Y_rest]), np.diff(P.indptr)
    row, column = np.repeat(np.arange(m), lengths), P.indices
    near, rank = strongest(P)
    places = np.repeat(Y[:m, None], 1 + STRONGEST, axis=1)
    places[row[near], 1 + rank] = everywhere[column[near]] + by.rng.normal(0, _NOISE * by.phase.longest, (len(near), d))
    at = places.reshape(-1, d)
    Z, _ = objective.sums(Y)
    far = by.sums.resting(Y).at(at)[0].astype(np.float64)
    if objective.rest is not None:
        far += objective.rest.at(at)[0]
    own = ((places - Y[:m, None]) ** 2).sum(axis=2)
    costs = (far.reshape(m, -1) - objective.kernel.weight(own)) / (objective.Z or Z)
    p = (P.data * np.where(column < m, exaggeration, 1.0)).astype(Y.dtype)
    filled, theirs = np.flatnonzero(lengths), [np.ascontiguousarray(c) for c in everywhere[column].T]
    for k in range(1 + STRONGEST):
        f = sum((np.repeat(mine, lengths) - y) ** 2 for mine, y in zip(places[:, k].T, theirs, strict=True))
        near_costs = p * objective.cost.log_weight(np.asarray(f))
        costs[filled, k] -= np.add.reduceat(near_costs, P.indptr[filled], dtype=np.float64)
    found = Y.copy()
    found[:m] = places[np.arange(m), costs.argmin(axis=1)]
    return found


def means_of_neighbors(P: csr_array, Y: Floats) -> NDArray[np.float64]:
    """Return the places of new points that are the means of the places of their neighbours, new ones among them.

    ``P`` has a row for each new point: entries of the new points, then of those at Y. A point that no chain of
    neighbours leads to an old one from is in the middle.
    """
    m = P.shape[0]
    total = np.asarray(P.sum(axis=1)).ravel()
    P = csr_array(P.multiply(1 / np.where(total > 0, total, 1)[:, None]))
    to_new, to_old, middle = csr_array(P[:, :m]), csr_array(P[:, m:]), Y.mean(axis=0, dtype=np.float64)
    from_old = to_old @ (Y - middle)  # around the middle, where those stay that have no neighbour
    places = np.asarray(from_old)
    for _ in range(_SWEEPS):
        places = to_new @ places + from_old
    return np.asarray(places + middle)


def groups_of(P: csr_array) -> list[RowNumbers]:
    """Return the groups of new points that have most to do with each other, the largest first.

    Each of two points of a group is among the strongest neighbours of the other; ``P`` is as for
    :func:`means_of_neighbors`.
    """
    m, n = P.shape
    row, column = np.repeat(np.arange(m), np.diff(P.indptr)), P.indices
    total = np.bincount(row, P.data, m)
    own = np.bincount(row[column < m], P.data[column < m], m) / np.where(total > 0, total, 1)
    inner = own > m / n + (1 - m / n) * _OWN
    strong, _ = strongest(P)
    strong = strong[column[strong] < m]
    strong = strong[inner[row[strong]] & inner[column[strong]]]
    A = csr_array((np.ones(len(strong), np.int8), (row[strong], column[strong])), shape=(m, m))
    _, labels = connected_components(A.multiply(A.T), directed=False)
    sizes = np.bincount(labels[inner], minlength=labels.max(initial=0) + 1)
    large = [c for c in np.argsort(-sizes, kind="stable").tolist() if sizes[c] >= _LEAST]
    return [np.flatnonzero(inner & (labels == c)) for c in large]


def gathered(
    groups: list[RowNumbers], first: Floats, placed: Floats, data: Floats | None, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return a start in which each group is on a disc where nobody is, as near as may be to where its points are."""
    Y, d = np.array(first, np.float64), first.shape[1]
    middle, size = placed.mean(axis=0), radius(placed)
    line = np.linspace(-_REACH * size, _REACH * size, _GRID[d])
    grid = middle + np.stack(np.meshgrid(*[line] * d, indexing="ij"), axis=-1).reshape(-1, d)
    free = KDTree(placed).query(grid)[0]
    for group in groups:
        disc = _DISC * size * (len(group) / len(placed)) ** (1 / d)
        away = ((grid - np.median(first[group], axis=0)) ** 2).sum(axis=1)
        away[free <= disc] = np.inf
        if np.isfinite(away).any():
            inside = _spread(None if data is None else data[group], len(group), d, rng)
            Y[group] = grid[int(np.argmin(away))] + _FILLED * disc * inside
            free = np.minimum(free, KDTree(Y[group]).query(grid)[0])
    return Y


def _spread(data: Floats | None, m: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return m points of mean square 1 around 0: principal components of the data, or random ones."""
    found = rng.normal(size=(m, d))
    if data is not None:
        rows = np.asarray(data.toarray() if hasattr(data, "toarray") else data, np.float64)
        rows = rows - rows.mean(axis=0)
        axes = np.linalg.svd(rows, full_matrices=False)[2][:d]
        axes = axes * np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1, 1)[:, None]
        found[:, : len(axes)] = rows @ axes.T
    length = np.sqrt((found**2).sum(axis=1).mean())
    return np.asarray(found / (length if length > 0 else 1.0))
