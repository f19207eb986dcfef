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

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nearfar._core.jit import bind
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Flags, RowNumbers
from nearfar.callbacks import Trainer
from nearfar.contracts import Field, Floats, Kernel, Objective, Place, Potential, Term
from nearfar.divergences.probability import KL
from nearfar.engines import in_numpy, on_threads
from nearfar.far import mesh as meshes
from nearfar.far.fields import ExactField, FieldPart, linear_kernel, pair_sums, pair_sums_any
from nearfar.kernels import squared_distances
from nearfar.maps.objective import EXACT_UP_TO, RowBlocks
from nearfar.maps.solver import MapState, Watch
from nearfar.maps.terms import Pull, radius
from nearfar.methods.descent import Phase, cost_of_pull, descend, pull_of
from nearfar.methods.maps import Cost, attraction, entry_cost

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
        What stands for the sum of all w, see :class:`nearfar.maps.settling.FrozenObjective`.
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
            in_numpy() if self.sums.plain else on_threads(self.sums.n_jobs),
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
    found = []
    for places, jumps_early in starts:
        at = _moved(by, objective, places, EXAGGERATION)
        if jumps_early:
            at = _moved(by, objective, jumped(by, objective, at, EXAGGERATION), EXAGGERATION)
        found.append(_moved(by, objective, jumped(by, objective, _moved(by, objective, at), leans)))
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


def _moved(
    by: Growing, objective: FrozenObjective, Y: Floats, exaggeration: float = 1.0, n_iter: int | None = None
) -> Floats:
    """Return where points come to in a phase; exaggerated, steps are shorter."""
    lost, trainer = "the new points left the finite numbers.", Trainer(by.owner, by.phase.n_iter)  # which tells nobody
    watch = Watch(by.owner, MapState(Y.copy()), 1.0, 0.0, by.phase.n_iter, trainer, lost)
    rate, n_iter = by.phase.learning_rate / exaggeration, by.phase.n_iter if n_iter is None else n_iter
    phase = replace(by.phase, exaggeration=exaggeration, learning_rate=rate, n_iter=n_iter)
    descend(objective.place, objective, [phase], watch)
    return watch.state.Y


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
    from scipy.sparse.csgraph import connected_components

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
    from scipy.spatial import KDTree

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
            inside = rng.normal(size=(len(group), d))  # of mean square 1 around 0: principal components, or random
            if data is not None:
                rows: Any = data[group]
                rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)
                rows = rows - rows.mean(axis=0)
                axes = np.linalg.svd(rows, full_matrices=False)[2][:d]
                axes = axes * np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1, 1)[:, None]
                inside[:, : len(axes)] = rows @ axes.T
            length = np.sqrt((inside**2).sum(axis=1).mean())
            inside = inside / (length if length > 0 else 1.0)
            Y[group] = grid[int(np.argmin(away))] + _FILLED * disc * inside
            free = np.minimum(free, KDTree(Y[group]).query(grid)[0])
    return Y


STRONGEST = 15
"""Neighbours to whose places a point may jump, and by whom groups hang together."""
_ROWS = 64  # of a block, where all points that rest are summed
_COARSEST = 0.1
_MARGIN = 0.25  # of a map's width that the mesh reaches beyond the points that rest


class InNumPy(NamedTuple):
    """Pair by pair in NumPy: the reference, and what few points need no compiled code for."""

    Y: Floats
    kernel: Kernel

    def at(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the potential at some places, and its gradient."""
        Y = np.asarray(self.Y, np.float64)
        f = squared_distances(np.asarray(X, np.float64), Y)
        slope = 2 * self.kernel.slope(f)
        gradient = slope.sum(axis=1)[:, None] * X - slope @ Y
        return self.kernel.weight(f).sum(axis=1).astype(X.dtype), gradient.astype(X.dtype)


class FieldInNumPy(FieldPart):
    """The same as a field: sums over points at these points, each left out of its own."""

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:  # noqa: ARG002 - of all fields
        """Take in the positions and the kernel."""
        self._Y, self._rest, self._own = Y, InNumPy(Y, kernel), float(kernel.weight(np.zeros((1, 1)))[0, 0])

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potential of w, once for each term."""
        value, gradient = self._rest.at(self._Y)
        return [Potential(value - self._Y.dtype.type(self._own), gradient) for _ in terms]


class PairByPair:
    """Pair by pair, by the compiled sums of :class:`nearfar.far.ExactField`."""

    def __init__(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        self._Y, self._kernel, self._n_jobs = Y, linear_kernel("PairByPair", kernel, {}), n_jobs

    def at(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the potential at some places, which are points without a charge."""
        n, d, dtype = len(X), X.shape[1], X.dtype
        rows = np.ascontiguousarray(np.concatenate([X, self._Y]).T)
        if d == 1:  # a line is a plane without width
            rows = np.concatenate([rows, np.zeros_like(rows)])
        charges, out, none = np.ones(rows.shape[1], dtype), np.empty((1 + len(rows), n), dtype), np.empty((1, 0), dtype)
        charges[:n] = 0
        sums = bind(pair_sums if len(rows) <= 3 else pair_sums_any, (self._kernel.functions, False))
        parameters = tuple(map(dtype.type, self._kernel.parameters))
        shared = (rows, (0,) * len(rows)), parameters, (charges, np.ones(1, dtype)), (out, none)
        run_blocks(lambda _block, start, stop: sums(*shared, start, stop), even_bounds(n, _ROWS), self._n_jobs)
        return out[0], np.ascontiguousarray(out[1 : 1 + d].T)


class OnMesh:
    """On a mesh, by the steps of :class:`nearfar.far.MeshField`: made once for a box, and read anywhere in it."""

    def __init__(self, Y: Floats, kernel: Kernel, tolerance: float, n_jobs: int) -> None:
        self._Y, self._kernel, self._n_jobs = Y, linear_kernel("OnMesh", kernel, {}), n_jobs
        self._tolerance, self._read = tolerance, meshes.Buffers()
        low, high = Y.min(axis=0), Y.max(axis=0)
        self._cover(low, high)

    def _cover(self, low: Floats, high: Floats) -> None:
        """Make the potential on a mesh of a box and some room around it."""
        Y, n_jobs, room, buffers = self._Y, self._n_jobs, _MARGIN * (high - low).max(), meshes.Buffers()
        self._low, self._high = low - room, high + room
        self._mesh = mesh = meshes.choose_mesh(
            self._high - self._low, *meshes.wanted_mesh(self._kernel, self._tolerance), len(Y)
        )
        rho = np.empty((mesh.rows, mesh.shape.columns), Y.dtype)
        meshes.spread(meshes.sort_points(Y, self._low, mesh, n_jobs, buffers), mesh, np.empty(0, Y.dtype), rho, n_jobs)
        self._influence = meshes.influence(self._kernel, "weight", mesh.shape, Y.dtype)
        self._potential = meshes.convolve([rho], mesh, [[(0, self._influence)]], n_jobs, buffers)[0]

    def at(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the potential at some places, and its gradient."""
        low, high = X.min(axis=0), X.max(axis=0)
        if (low < self._low).any() or (high > self._high).any():
            self._cover(np.minimum(low, self._low), np.maximum(high, self._high))
        points = meshes.sort_points(X, self._low, self._mesh, self._n_jobs, self._read)
        parts = [
            (np.zeros(len(X), X.dtype), self._influence)
        ]  # places have no charge: nothing of their own to leave out
        totals = [float(len(self._Y))]
        return meshes.read(points, self._mesh, self._potential, parts, self._n_jobs, self._read, "at", totals)


Resting = InNumPy | PairByPair | OnMesh
"""The potential sum_j w(|x - y_j|²) of points that rest: ``at`` returns it at some places, and its gradient there."""


@dataclass(frozen=True)
class Sums:
    """How the points of a map are summed over: of few in NumPy, of some pair by pair, of many on a mesh.

    Parameters
    ----------
    kernel : Kernel
    n, d : int
        Of the map: the number of its points, and of its components.
    n_jobs : int
    plain : bool
        Whether nothing is compiled.
    """

    kernel: Kernel
    n: int
    d: int
    n_jobs: int
    plain: bool

    @property
    def _tolerance(self) -> float:
        accuracy = KL().accuracy
        return accuracy.few if self.n < accuracy.many_from else accuracy.many

    def resting(self, Y: Floats) -> Resting:
        """Return the potential of some points."""
        if self.plain:
            return InNumPy(Y, self.kernel)
        if self.n <= EXACT_UP_TO or self.d > 2:
            return PairByPair(Y, self.kernel, self.n_jobs)
        return OnMesh(Y, self.kernel, self._tolerance, self.n_jobs)

    def field(self, m: int) -> Field:
        """Return what sums over m points that move; the smaller their part of all forces, the less accurately."""
        if self.plain:
            return FieldInNumPy()
        if m <= EXACT_UP_TO or self.d > 2:
            return ExactField()
        return meshes.MeshField(min(self._tolerance * math.sqrt(self.n / m), _COARSEST))

    def total(self, Y: Floats) -> float:
        """Return the sum of w over all ordered pairs of some points."""
        field = self.field(len(Y))
        field.place(np.ascontiguousarray(Y), self.kernel, self.n_jobs)
        return float(field.evaluate([Term("weight")])[0].value.sum(dtype=np.float64))


@dataclass(frozen=True)
class Edges:
    """What the points that move have to do with all others.

    Parameters
    ----------
    p : csr_array of shape (m, n)
        p_ij of the points that move, first to each other, then to those that rest; the total over all pairs is 1.
    rows : csr_array of shape (m, n)
        Their rows of P.
    share : ndarray of shape (n,), float64
        Which part of the row of each point, in the order of the map, goes to those that move.
    order : ndarray of shape (n,), int64
        The points: those that move, then those that rest.
    """

    p: csr_array
    rows: csr_array
    share: NDArray[np.float64]
    order: RowNumbers

    @classmethod
    def among(cls, P: RowBlocks, moves: RowNumbers, n_jobs: int) -> Edges:
        """Return what some points have to do with all others; P is by pair, its total 1."""
        n, m = P.shape[0], len(moves)
        rests = np.ones(n, bool)
        rests[moves] = False
        order = np.concatenate([moves, np.flatnonzero(rests)])
        at = np.empty(n, np.int32)
        at[order] = np.arange(n, dtype=np.int32)
        share = np.zeros(n)

        def task(_block: int, start: int, stop: int) -> tuple[NDArray[np.generic], ...]:
            block = P.read(start, stop)
            to = at[block.indices]
            some = np.flatnonzero((to < m) | np.repeat(at[start:stop] < m, np.diff(block.indptr)))
            of = at[start + np.searchsorted(block.indptr, some, side="right") - 1]
            to, p = to[some], block.data[some].astype(np.float64)
            kept = (p > 0) & (to != of)
            of, to, p = of[kept], to[kept], p[kept]
            share[start:stop] = np.bincount(order[of[to < m]] - start, p[to < m], stop - start)
            return of, to, p

        of, to, p = map(np.concatenate, zip(*run_blocks(task, P.bounds, n_jobs), strict=True))
        total = P.sums * (P.factors if P.factors is not None else 1.0)
        share = np.divide(share, total, out=np.zeros(n), where=total > 0)
        mine, theirs = of < m, to < m
        rows = csr_array(coo_array((p[mine], (of[mine], to[mine])), shape=(m, n)))
        ends = np.concatenate([of[mine], to[theirs]]), np.concatenate([to[mine], of[theirs]])
        both = csr_array(coo_array((np.concatenate([p[mine], p[theirs]]) / 2, ends), shape=(m, n)))
        return cls(both, rows, share, order)


def strongest(P: csr_array) -> tuple[RowNumbers, RowNumbers]:
    """Return which entries are the largest of their rows, and which of these each is."""
    row = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    order = np.lexsort((P.indices, -P.data, row))
    rank = np.arange(len(order)) - P.indptr[row]
    return order[rank < STRONGEST], rank[rank < STRONGEST]


@dataclass
class FrozenObjective(Objective):
    """KL by pair of points that move among others that rest; its rows are those that move.

    Parameters
    ----------
    edges : Edges
    kernel : Kernel
        With formulas.
    rest : Resting or None
        The potential of the points that rest; None if there is none.
    Y_rest : ndarray of shape (n - m, d)
        Where they are.
    Z_rest : float
        The sum of w over their ordered pairs.
    among : Field or Resting
        Sums over the points that move.
    place : Place
    pull : Pull
        Of the points that move.
    new : int
        How many of the points that move, the first, are new: exaggerated is what they have to do with each other.
    Z : float, optional
        What stands for Z, of a cost that takes pairs one by one.
    """

    edges: Edges
    kernel: Kernel
    rest: Resting | None
    Y_rest: Floats
    Z_rest: float
    among: Field
    place: Place
    pull: Pull
    new: int
    n_jobs: int
    Z: float | None = None

    def __post_init__(self) -> None:
        self.n, self.m, self.dtype = self.edges.p.shape[1], self.edges.p.shape[0], self.Y_rest.dtype
        self.cost = Cost(self.kernel, KL(), False, self.n, self.dtype)
        indptr, columns, p = self.edges.p.indptr, self.edges.p.indices, self.edges.p.data
        self._pattern = indptr.astype(np.int64), columns.astype(np.uint32)
        self._row = np.repeat(np.arange(self.m), np.diff(indptr))
        self._p, self._is_new = p.astype(self.dtype), (self._row < self.new) & (columns < self.new)
        counted = np.where(columns < self.m, self._p, 2 * self._p)  # of a pair that one of rests, one is here
        self._counted = np.maximum(counted, self.dtype.type(self.cost.smallest))
        self._of_p = float(np.log(self._counted.astype(np.float64)) @ self._counted)
        self._Y = np.concatenate([np.zeros((self.m, self.Y_rest.shape[1]), self.dtype), self.Y_rest])
        self.held = (self.pull.weights / self.n).astype(self.dtype)
        self._places = np.where(self.held[:, None] > 0, self.pull.places, 0).astype(self.dtype)

    def sums(self, Y: Floats) -> tuple[float, Floats]:
        """Return Z, and the gradient of the potential of all points at those that move."""
        self.among.place(Y, self.kernel, self.n_jobs)
        [own] = self.among.evaluate([Term("weight")])
        Z, slope = self.Z_rest + float(own.value.sum(dtype=np.float64)), own.gradient
        if self.rest is not None:
            value, more = self.rest.at(Y)
            Z, slope = Z + 2 * float(value.sum(dtype=np.float64)), slope + more
        return Z, slope

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, new points exaggerated in what they have to do with each other, and the cost.

        The cost is right up to a constant.
        """
        self._Y[: self.m] = Y
        p = self._p if exaggeration == 1 else np.where(self._is_new, exaggeration * self._p, self._p)
        rows, shared = (self._Y,), {"cost": self.cost, "totals": [np.ones(1)], "error": 0.0}
        found = self.place.pairs(attraction, self._pattern, rows, rows, p, None, None, exaggeration=1.0, **shared)
        Z, slope = self.sums(Y)
        gradient = found[0][: self.m] + self.dtype.type(2 / (self.Z or Z)) * slope
        pull_of(gradient, Y, self._places, self.held)
        if not cost:
            return gradient, None
        entries = self.place.pairs(entry_cost, self._pattern, rows, rows, self._counted, **shared)[0]
        far = math.log(Z) if self.Z is None else Z / self.Z
        of_pull = float(cost_of_pull(Y, self._places, self.held)[0])
        return gradient, far + float(entries[: self.m].sum()) - self._of_p + of_pull
