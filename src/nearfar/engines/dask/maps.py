"""Maps on the workers of a Dask cluster: charges on meshes move, and rows of neighbours, never all points.

Each part of the rows of a map stays on one worker: positions, velocities, and its rows of the pattern of P and Pᵀ. The
tasks of an iteration:

1. the bounding box and the mean of all positions, from those of each part: they choose the mesh;
2. each part spreads its charges on a mesh of its own, and these are added up in a tree of pairs;
3. one task convolves the sum with the kernel; each part reads its potentials from the result;
4. each part takes the positions that its neighbours name from other parts, and is drawn by them;
5. sums over all pairs from those of each part, and a step. By row a second mesh comes before it, of charges 1 / S_i.

All of that is the arithmetic of one machine, cut into tasks: of :mod:`nearfar.far.mesh` and
:mod:`nearfar.maps.objective`. Sums are taken in the order of the parts, whose number follows from that of the rows. The
client brings the positions where somebody looks at them, every 50 iterations, and sends them again: so a lost worker
costs no more than the iterations since then.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.engines.dask.rows import Owners, Parts, bounds_of, gathered, kept, taken
from nearfar.errors import NumericalError
from nearfar.far.fields import Potential, linear_kernel
from nearfar.far.mesh import (
    Buffers,
    Influence,
    Mesh,
    bounding_box,
    choose_mesh,
    convolve,
    influence,
    read,
    sort_points,
    spread,
    wanted_mesh,
    wanted_reach,
    warn_of_width,
)
from nearfar.maps.objective import LEAST_S, NeighborObjective, row_normalizer, weighted
from nearfar.maps.solver import Momentum

AHEAD = 3  # iterations whose tasks are handed out before the first of them is waited for

Asked = list[list[tuple[int, Any]]]
"""For each sum of potentials: which charges, and the name of the potential."""


class Place(NamedTuple):
    """Some rows of a map: positions before they are centred, how they move, and the sums of their last step."""

    X: Floats
    solver: Momentum | None
    sums: NDArray[np.float64]


class Plan(NamedTuple):
    """What all parts must know of each other to sum over all pairs."""

    mean: Floats
    low: Floats
    mesh: Mesh
    width: float
    tolerance: float
    n: int

    @property
    def expected_error(self) -> float:
        """As that of the mesh field."""
        return self.mesh.error(self.tolerance)


class Pull(NamedTuple):
    """What draws the points of a part; by row also what their charges do to themselves, and these charges."""

    near: Floats
    mass: float
    charges: list[Floats]


class Positions:
    """The positions of a map in parts on the workers.

    Parameters
    ----------
    client : distributed.Client
    owner : str
        For errors.
    n : int
        Points.

    Attributes
    ----------
    gradient_norm : float
        Length of the gradient of the last step before ``fetch``.
    homes : list of str
        The worker that each part belongs to.
    """

    def __init__(self, client: Any, owner: str, n: int) -> None:
        self.client, self.owner, self.owners = client, owner, Owners(client)
        self.bounds = np.unique(bounds_of(n)).tolist()  # no part is empty
        self.n_parts = len(self.bounds) - 1
        self.homes = [self.owners.of(q, self.n_parts) if self.owners.workers else "" for q in range(self.n_parts)]
        self.n, self.parts, self.gradient_norm = n, Parts(), math.nan
        self.threads = client.ncores().get(self.homes[0], 1)  # of the worker that convolves
        self._Y: Floats | None = None
        self._ahead: deque[Any] = deque()
        self._moved, self._warned = False, False

    def submit(self, part: int, function: Any, *arguments: Any, what: str = "task") -> Any:
        """Submit a task of a part."""
        return self.owners.submit(part, self.n_parts, function, *arguments, what=what)

    def each(self, function: Any, *columns: Any, what: str = "task") -> Parts:
        """Submit a task for each part, of what is in its place in each column; others than lists are for all."""
        return [
            self.submit(q, function, *(one[q] if isinstance(one, list) else one for one in columns), what=what)
            for q in range(self.n_parts)
        ]

    def take(self, Y: Floats) -> None:
        """Send positions that are not those on the workers."""
        if Y is not self._Y:
            none = np.zeros(Y.shape[1] + 1)
            cut = [Place(Y[a:b].copy(), None, none) for a, b in pairwise(self.bounds)]
            self._Y, self.parts, self._moved = Y, self.each(kept, cut), False

    def move(self, parts: Parts, plan: Any) -> None:
        """Let these be the positions; do not run too far ahead of the workers."""
        self.parts, self._moved = parts, True
        self._ahead.append(plan)
        if len(self._ahead) > AHEAD:
            self._wait(self._ahead.popleft())

    def fetch(self, Y: Floats) -> None:
        """Write the positions, if they are those of this array, and send them again: what made them is forgotten."""
        if Y is not self._Y or not self._moved:
            return
        places: list[Place] = [self.gather([part])[0] for part in self.parts]
        while self._ahead:
            self._wait(self._ahead.popleft())
        totals = np.sum([place.sums for place in places], axis=0)
        mean = (totals[:-1] / self.n).astype(Y.dtype)
        cut = [place._replace(X=place.X - mean, sums=np.zeros_like(totals)) for place in places]
        for place, (a, b) in zip(cut, pairwise(self.bounds), strict=True):
            Y[a:b] = place.X
        self.parts, self._moved = self.each(kept, cut), False
        self.gradient_norm = math.sqrt(totals[-1]) if totals[-1] >= 0 else math.nan

    def gather(self, futures: list[Any]) -> Any:
        """Return the results; a part that no worker could hold is named."""
        return gathered(self.owner, self.client, futures, self.bounds)

    def summed(self, items: Parts) -> Any:
        """Add up lists of arrays in a tree of pairs, which are on the same worker if they can."""
        width = 1
        while len(items) > 1:
            pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
            width *= 2
            items = [pair[0] if len(pair) == 1 else self.submit(i * width, added, pair) for i, pair in enumerate(pairs)]
        return items[0]

    def _wait(self, plan: Any) -> None:
        found: Plan = self.gather([plan])[0]
        if found.mesh.coarser > 1 and not self._warned:
            self._warned = True
            warn_of_width(self.owner, found.width, found.expected_error)


class Gradient(NamedTuple):
    """The parts of a gradient: what its tasks will be made of."""

    objective: ClusterObjective
    exaggeration: float
    plan: Any
    potentials: Parts
    total: Any
    pieces: list[Parts]


class ClusterObjective:
    """The cost of a map whose positions are on the workers; an :class:`nearfar.contracts.Objective`.

    Parameters
    ----------
    objective : NeighborObjective
        The same on one machine: its pattern is cut into rows.
    positions : Positions

    Attributes
    ----------
    rows_moved : int
        Positions that go from one worker to another in an iteration.
    """

    def __init__(self, objective: NeighborObjective, positions: Positions) -> None:
        self._inner, self.positions = objective, positions
        self._rows: Parts = []
        self._index: Parts = []
        self._parcels: dict[tuple[str, int], Any] = {}
        self.rows_moved = 0

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Any, float | None]:
        """Return the gradient at Y, for ``ClusterMomentum``; for the cost the positions are written to Y first."""
        positions = self.positions
        if cost:
            positions.fetch(Y)
        positions.take(Y)
        if not self._rows:
            self._send()
        compiled = linear_kernel(positions.owner, self._inner.kernel)
        tolerance = self.facts.tolerance
        wanted = *wanted_mesh(compiled, tolerance), wanted_reach(compiled, tolerance), tolerance
        each, places, rows = positions.each, positions.parts, self._rows
        plan = positions.submit(0, planned, positions.owner, each(told, positions.owner, places), wanted, positions.n)
        names = ["weight", "entropy"] if self.facts.far_log else ["weight"]
        potentials = self._potentials(plan, self._charges, [[(0, name)] for name in names], self._n_charges)
        total = positions.submit(0, summed, each(sums_of, rows, potentials))
        pieces = self._pieces(place_taken, places)
        gradient = Gradient(self, exaggeration, plan, potentials, total, pieces)
        if not cost:
            return gradient, None
        first = [part == 0 for part in range(len(places))]
        costs = each(costed, rows, places, plan, potentials, total, first, self._index, pieces)
        return gradient, float(np.sum(positions.gather(costs)))

    def stepped(self, gradient: Gradient, solver: Momentum | None, rate: float) -> Parts:
        """Return the positions after a step; with a solver all begin anew."""
        each, rows, places = self.positions.each, self._rows, self.positions.parts
        _, exaggeration, plan, potentials, total, pieces = gradient
        facts, needs_sums = self.facts, self.facts.by_row or self.facts.depends
        shares: list[Parts] = [[] for _ in rows]
        if facts.by_row and facts.depends:
            shares = self._pieces(taken, each(normalizer_of, rows, potentials, total, plan))
        given = (potentials, total) if needs_sums else (None, None)
        pulls = each(pulled, rows, places, plan, exaggeration, *given, shares, self._index, pieces, what="pull")
        mass: Any = self._mass
        far: Any = None
        if facts.by_row:
            asked = [list(enumerate(["weight", "entropy"] if facts.far_log else ["weight"]))]
            far = self._potentials(plan, each(charges_of, pulls), asked, 0.0)  # only their gradients are read
        elif facts.depends:
            mass = self.positions.submit(0, summed, each(mass_of, pulls))
        return each(stepped, rows, places, plan, pulls, potentials, total, mass, far, solver, rate, what="step")

    def early(self, kernel: Any = None) -> ClusterObjective:
        """Return the same with KL; with a kernel, under that, by pair."""
        return ClusterObjective(self._inner.early(kernel), self.positions)

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was: rows that are neighbours then are on the same worker."""
        self._rows = []
        return self._inner.reorder(order)

    def advance(self, Y: Floats, iteration: int) -> None:
        """Nothing is learned beside the positions."""

    def _send(self) -> None:
        """Send the rows of the pattern, and which rows of other parts they need."""
        positions = self.positions
        self.facts, self._mass, weights = RowsObjective.facts_of(self._inner)
        cuts, homes, needed = list(pairwise(positions.bounds)), positions.homes, []
        for p, (pattern, rows) in enumerate(RowsObjective.cut(self._inner, positions.bounds)):
            a, b = cuts[p]
            own = None if weights is None else weights[a:b].copy()
            self._rows.append(positions.submit(p, RowsObjective, self.facts, pattern, own, what="rows"))
            needed.append(rows)
        # Of a part elsewhere a worker gets, once, the rows that any of its parts needs.
        parcels = {
            (home, q): np.unique(
                np.concatenate([rows[q] for rows, at in zip(needed, homes, strict=True) if at == home])
            )
            for home in dict.fromkeys(homes)
            for q in range(positions.n_parts)
            if homes[q] != home
        }
        index = [
            [
                np.searchsorted(parcels[home, q], one).astype(np.int32) if homes[q] != home else one
                for q, one in enumerate(rows)
                if one.size
            ]
            for rows, home in zip(needed, homes, strict=True)
        ]
        self._sources = [[q for q, one in enumerate(rows) if one.size] for rows in needed]
        self._index = positions.each(kept, index)
        self.rows_moved = sum(rows.size for rows in parcels.values())
        self._parcels = {at: positions.submit(at[1], kept, rows) for at, rows in parcels.items() if rows.size}
        self._charges: Any = None if weights is None else positions.each(kept, [[weights[a:b].copy()] for a, b in cuts])
        self._n_charges = float(positions.n if weights is None else weights.sum(dtype=np.float64))

    def _pieces(self, function: Any, parts: Parts) -> list[Parts]:
        """Return for each part what it needs other parts for: these, or rows of them that its worker gets."""
        homes, submit = self.positions.homes, self.positions.submit
        sent = {at: submit(at[1], function, parts[at[1]], rows) for at, rows in self._parcels.items()}
        return [
            [sent.get((home, q), parts[q]) for q in sources] for home, sources in zip(homes, self._sources, strict=True)
        ]

    def _potentials(self, plan: Any, charges: Any, asked: Asked, total: float) -> Parts:
        """Return for each part the sums of potentials that are asked for."""
        positions = self.positions
        meshes = positions.each(spread_charges, positions.parts, plan, charges, what="mesh")
        total_mesh, kernel = positions.summed(meshes), self._inner.kernel
        field = positions.submit(0, convolved, total_mesh, plan, asked, kernel, positions.threads)
        return positions.each(potentials_of, positions.parts, plan, charges, field, total)


class ClusterMomentum:
    """Momentum of a map whose positions are on the workers; a :class:`nearfar.contracts.Solver` for its gradients.

    Parameters
    ----------
    positions : Positions
    momentum, longest, n_jobs
        As for :class:`nearfar.maps.solver.Momentum`.
    """

    elsewhere = True

    def __init__(self, positions: Positions, momentum: float, *, longest: float, n_jobs: int) -> None:  # noqa: ARG002
        self._positions, positions.gradient_norm = positions, math.nan
        self._fresh: Momentum | None = Momentum(momentum, longest=longest, centred=False)

    @property
    def gradient_norm(self) -> float:
        """Length of the gradient of the last step before the positions were looked at."""
        return self._positions.gradient_norm

    def step(self, X: Floats, gradient: Gradient, learning_rate: float) -> None:  # noqa: ARG002 - X stays until fetch
        """Move the positions on the workers."""
        parts = gradient.objective.stepped(gradient, self._fresh, learning_rate)
        self._fresh = None
        self._positions.move(parts, gradient.plan)

    def fetch(self, X: Floats) -> None:
        """Write the positions."""
        self._positions.fetch(X)


# What the workers hold and do.


class Facts(NamedTuple):
    """What the rows of all parts have in common."""

    kernel: Any
    divergence: Any
    by_row: bool
    n: int
    dtype: Any
    depends: bool
    """Whether the strengths of pairs depend on q."""
    far_log: float
    tolerance: float


class RowsObjective(NeighborObjective):
    """Some rows of a map: positions are those of these rows, and behind them those that their neighbours name.

    Parameters
    ----------
    facts : Facts
    pattern : tuple of ndarray
        (indptr, columns, p_ij, p_ji), columns numbered as the positions are.
    weights : ndarray, optional
        Importance of these rows.
    """

    def __init__(self, facts: Facts, pattern: tuple[NDArray[Any], ...], weights: Floats | None = None) -> None:
        self._given = facts, pattern, weights
        self._weights, self._n, self._n_jobs = weights, facts.n, 1
        self._by_row, self._dtype, self._ready = facts.by_row, facts.dtype, False
        self._set_kernel(facts.kernel)
        self._divergence = facts.divergence
        self._prepare(tuple(usable(one) for one in pattern))

    def __reduce__(self) -> Any:
        return RowsObjective, self._given

    def __sizeof__(self) -> int:
        """Return the bytes, by which Dask knows that it is not to be moved."""
        return sum(one.nbytes for one in (*self._pattern, *self._strengths))

    @staticmethod
    def facts_of(objective: NeighborObjective) -> tuple[Facts, np.float64, Floats | None]:
        """Return the facts of an objective, the mass of all its rows that does not depend on q, and its weights."""
        objective._prepare()
        kernel, divergence, by_row = objective.kernel, objective._divergence, objective._by_row
        facts = Facts(
            kernel,
            divergence,
            by_row,
            objective._n,
            objective._dtype,
            objective._kind[1],
            objective._formulas.far_log,
            objective._field.tolerance,  # type: ignore[attr-defined] # it is a mesh
        )
        return facts, np.sum(objective._mass_fixed, dtype=np.float64), objective._weights

    @staticmethod
    def cut(objective: NeighborObjective, bounds: Sequence[int]) -> Iterator[tuple[Any, list[NDArray[np.int32]]]]:
        """Yield the pattern of each part, and which rows of each other part it needs, from the start of that part."""
        indptr, columns, p_ij, p_ji = objective._pattern
        for a, b in pairwise(bounds):
            span = slice(int(indptr[a]), int(indptr[b]))
            own = columns[span] - np.uint32(a)  # others wrap around, or are beyond the last
            others = own >= b - a
            needed, numbers = np.unique(columns[span][others], return_inverse=True)
            own[others] = (numbers + (b - a)).astype(np.uint32)
            mine = p_ij[span].copy()
            pattern = indptr[a : b + 1] - indptr[a], own, mine, mine if p_ji is p_ij else p_ji[span].copy()
            cuts = np.searchsorted(needed, bounds)
            yield (
                pattern,
                [
                    needed[low:high].astype(np.int32) - np.int32(start)
                    for (low, high), start in zip(pairwise(cuts), bounds[:-1], strict=True)
                ],
            )

    def for_task(self, X: Floats) -> RowsObjective:
        """Return the same with arrays of its own to write to."""
        mine = copy.copy(self)
        mine._near, mine._mass = np.empty_like(X), np.empty(len(X), X.dtype)
        return mine

    def with_weights(self, potentials: list[Potential]) -> list[Potential]:
        """Return the potentials, those of points of importance multiplied by it."""
        return potentials if self._weights is None else weighted(potentials, self._weights)

    def normalized(self, potentials: list[Potential], total: Floats, plan: Plan) -> tuple[list[Potential], Any, Any]:
        """Return the potentials with the weights, S, and sum q ln q: of each row, or of all."""
        b, potentials = self._formulas.far_log, self.with_weights(potentials)
        if self._by_row:
            S = row_normalizer(plan, potentials[0], mean=total[0] / self._n)  # type: ignore[arg-type] # its error
            return potentials, S, self._q_ln_q(potentials, S) if b else np.zeros(1)
        S = np.maximum(total[:1], LEAST_S)
        sums = [Potential(total[k : k + 1], total) for k in range(len(total))]
        return potentials, S, self._q_ln_q(sums, S) if b else np.zeros(1)

    def pulled(
        self, V: Floats, n: int, S: Any, q_ln_q: Any, potentials: list[Potential], exaggeration: float, shares: Parts
    ) -> Pull:
        """Return what draws the rows; by row S has the shares of the others behind its own."""
        mine = self.for_task(V[:n])
        mine._attract(V, np.concatenate([S, *shares]), exaggeration)
        terms = mine._repel_by_row(potentials, S, q_ln_q) if self._by_row else []
        charges = [term.charges for term in terms if term.charges is not None]
        return Pull(mine._near, float(mine._mass.sum(dtype=np.float64)), charges)

    def gradient(self, pull: Pull, S: Any, q_ln_q: Any, potentials: list[Potential], mass: Any, far: Any) -> Floats:
        """Return the gradient of the rows."""
        mine = copy.copy(self)
        mine._near = pull.near.copy()
        if self._by_row:
            mine._near += far[0].gradient
        else:
            mine._repel_by_pair(potentials, S, q_ln_q, mass)
        return mine._near

    def cost(self, V: Floats, n: int, S: Any, q_ln_q: Any, first: bool) -> float:
        """Return the cost of the rows; by pair that of the sum over all pairs is the first part's."""
        if self._by_row:
            return self._cost(V, S, q_ln_q, n)
        return self._cost(V, S, q_ln_q * first, int(first))


def usable(array: Any) -> Any:
    """Return an array as the compiled loops know it: what comes from another process may be read-only."""
    return np.require(array, requirements=["C", "A", "W"])


def at(place: Place, plan: Plan, index: Sequence[Any] = (), pieces: Sequence[Any] = ()) -> Floats:
    """Return the positions of a part, and behind them the rows that it needs of others, about the mean of all."""
    others = [getattr(one, "X", one)[rows] for one, rows in zip(pieces, index, strict=True)]  # of a part, or of some
    return np.asarray(np.concatenate([place.X, *others]) - plan.mean)


def told(owner: str, place: Place) -> Any:
    """Return what a part tells all others: its sums and its bounding box."""
    return place.sums, bounding_box(owner, usable(place.X), 1)


def planned(owner: str, parts: list[Any], wanted: tuple[int, float, float, float], n: int) -> Plan:
    """Return the mean of all positions and the mesh for them."""
    order, step, reach, tolerance = wanted
    boxes = np.array([box for _, box in parts])
    mean = (np.sum([sums for sums, _ in parts], axis=0)[:-1] / n).astype(boxes.dtype)
    low, high = boxes[:, 0].min(axis=0) - mean, boxes[:, 1].max(axis=0) - mean
    with np.errstate(over="ignore"):
        extent = high - low
    if not np.isfinite(extent).all():
        raise NumericalError(f"{owner}: positions are too far apart for numbers of type {boxes.dtype}.")
    return Plan(mean, low, choose_mesh(extent, order, step, reach, n), float(extent.max()), tolerance, n)


def spread_charges(place: Place, plan: Plan, charges: list[Floats] | None) -> list[Floats]:
    """Return the meshes of a part, one for each kind of charges; None: all are 1."""
    Y, mesh = at(place, plan), plan.mesh
    points = sort_points(Y, plan.low, mesh, 1, Buffers())
    meshes = []
    for one in given_charges(charges, Y):
        meshes.append(np.empty((mesh.rows, mesh.columns), Y.dtype))
        spread(points, mesh, one, meshes[-1], 1)
    return meshes


def given_charges(charges: list[Floats] | None, Y: Floats) -> list[Floats]:
    """Return the charges as the loops take them."""
    return [usable(one) for one in ([Y[:0, 0]] if charges is None else charges)]


def added(pair: list[list[Floats]]) -> list[Floats]:
    """Return the sums of the meshes of two."""
    return [one + other for one, other in zip(*pair, strict=True)]


def convolved(meshes: list[Floats], plan: Plan, asked: Asked, kernel: Any, n_jobs: int) -> list[Any]:
    """Return the potentials on the mesh, and of their influences what the points need to leave themselves out."""
    mesh, compiled, dtype = plan.mesh, linear_kernel("MeshField", kernel), meshes[0].dtype
    padded = [np.zeros((mesh.rows, mesh.shape.columns), dtype) for _ in meshes]
    for whole, one in zip(padded, meshes, strict=True):
        whole[:, : mesh.columns] = one
    sums = [[(k, influence(compiled, name, mesh.shape, np.dtype(dtype))) for k, name in terms] for terms in asked]
    fields = convolve(padded, mesh, sums, n_jobs, Buffers())
    short = np.empty((0, 0), dtype)
    return [
        (
            np.ascontiguousarray(field[:, : mesh.columns]),
            [(k, one._replace(transform=short, wide=None)) for k, one in terms],
        )
        for field, terms in zip(fields, sums, strict=True)
    ]


def potentials_of(
    place: Place,
    plan: Plan,
    charges: list[Floats] | None,
    fields: list[tuple[Floats, list[tuple[int, Influence]]]],
    total: float,
) -> list[Potential]:
    """Return the potentials of a part; ``total`` is the sum of the charges of all points."""
    Y, mesh = at(place, plan), plan.mesh
    points, given = sort_points(Y, plan.low, mesh, 1, Buffers()), given_charges(charges, Y)
    return [
        read(points, mesh, usable(field), [(given[k], one) for k, one in terms], 1, Buffers(), 0, [total] * len(terms))
        for field, terms in fields
    ]


def place_taken(place: Place, rows: NDArray[np.int32]) -> Floats:
    """Return some positions of a part, before they are centred."""
    return taken(place.X, rows)


def sums_of(rows: RowsObjective, potentials: list[Potential]) -> NDArray[np.float64]:
    """Return the sums of the potentials of a part."""
    return np.array([one.value.sum(dtype=np.float64) for one in rows.with_weights(potentials)])


def summed(parts: list[Any]) -> Any:
    """Return the sum of numbers of all parts, in order."""
    return np.sum(parts, axis=0, dtype=np.float64)


def normalizer_of(rows: RowsObjective, potentials: list[Potential], total: Floats, plan: Plan) -> Floats:
    """Return S_i of the rows of a part."""
    return rows.normalized(potentials, total, plan)[1]  # type: ignore[no-any-return]


def pulled(
    rows: RowsObjective,
    place: Place,
    plan: Plan,
    exaggeration: float,
    potentials: list[Potential] | None,
    total: Any,
    shares: list[Floats],
    index: list[NDArray[np.int32]],
    pieces: list[Any],
) -> Pull:
    """Return what draws the points of a part; without sums over all pairs where nothing depends on them."""
    S, q_ln_q, given = np.ones(1), np.zeros(1), potentials or []
    if potentials is not None:
        given, S, q_ln_q = rows.normalized(potentials, total, plan)
    shares = [one[some] for one, some in zip(shares, index, strict=True)] if shares else []
    return rows.pulled(at(place, plan, index, pieces), len(place.X), S, q_ln_q, given, exaggeration, shares)


def charges_of(pull: Pull) -> list[Floats]:
    """Return the charges of a part."""
    return pull.charges


def mass_of(pull: Pull) -> float:
    """Return the mass of a part."""
    return pull.mass


def stepped(
    rows: RowsObjective,
    place: Place,
    plan: Plan,
    pull: Pull,
    potentials: list[Potential],
    total: Floats,
    mass: Any,
    far: list[Potential] | None,
    solver: Momentum | None,
    rate: float,
) -> Place:
    """Return where a part is after a step."""
    potentials, S, q_ln_q = rows.normalized(potentials, total, plan)
    gradient = rows.gradient(pull, S, q_ln_q, potentials, mass, far)
    X, mover = at(place, plan), copy.deepcopy(solver or place.solver)
    assert mover is not None
    mover.step(X, gradient, rate)
    return Place(X, mover, mover.sums)


def costed(
    rows: RowsObjective,
    place: Place,
    plan: Plan,
    potentials: list[Potential],
    total: Floats,
    first: bool,
    index: list[NDArray[np.int32]],
    pieces: list[Any],
) -> float:
    """Return the cost of a part."""
    _, S, q_ln_q = rows.normalized(potentials, total, plan)
    return rows.cost(at(place, plan, index, pieces), len(place.X), S, q_ln_q, first)
