"""Maps on the workers of a Dask cluster: charges on meshes move, and rows of neighbours, never all points.

Each part of the rows of a map stays on one worker: positions, velocities, and its rows of the pattern of P and Pᵀ. To
make it, workers deal the entries of P out to the parts of their rows and of their columns. The tasks of an iteration:

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
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.divergences.probability import KL, Formulas, linear_formulas
from nearfar.engines.dask.rows import Owners, Parts, Rows, bounds_of, gathered, kept, taken
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
    warn_of_width,
)
from nearfar.maps.objective import LEAST_S, NeighborObjective, RowBlocks, row_normalizer, weighted
from nearfar.maps.solver import Descent, MapState, Momentum, Phase

AHEAD = 3  # iterations whose tasks are handed out before the first of them is waited for

Asked = list[list[tuple[int, Any]]]
"""For each sum of potentials: which charges, and the name of the potential."""


def descend(client: Any, descent: Descent, Y: Floats, objective: Any, phases: Sequence[Phase]) -> MapState:
    """Run a descent whose iterations are on the workers of a client; the positions it returns are here."""
    positions = Positions(client, descent.owner, len(Y))
    there = ClusterObjective(objective, positions)
    return replace(descent, solver=partial(ClusterMomentum, positions)).run(Y, there, phases)


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
        self.homes = [self.owners.of(q, self.n_parts) for q in range(self.n_parts)]
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
        rows = self.bounds
        return gathered(f"{self.owner}.fit", self.client, futures, lambda q: f"rows {rows[q]} to {rows[q + 1]}")

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
        The same on one machine: what is in it, not what it would make of P.
    positions : Positions

    Attributes
    ----------
    rows_moved : int
        Positions that go from one worker to another in an iteration.
    """

    def __init__(self, objective: NeighborObjective, positions: Positions) -> None:
        self._inner, self.positions = objective, positions
        self.facts, self._P = RowsObjective.facts_of(objective)
        self._entries: Parts = []
        self._rows: Parts = []
        self.rows_moved = 0

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Any, float | None]:
        """Return the gradient at Y, for ``ClusterMomentum``; for the cost the positions are written to Y first."""
        positions = self.positions
        if cost:
            positions.fetch(Y)
        positions.take(Y)
        self._prepare()
        compiled = linear_kernel(positions.owner, self.facts.kernel)
        tolerance = self.facts.tolerance
        wanted = *wanted_mesh(compiled, tolerance), tolerance
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
        """Return the same with KL; with a kernel, under that, by pair. The workers make it of the rows they have."""
        self._prepare()
        other, total = copy.copy(self), 1.0
        other.facts = self.facts.early(kernel)
        if other.facts.by_row != self.facts.by_row:
            total = float(np.sum(self.positions.gather(self.positions.each(sum_of_both, self._rows))))
        other._rows = self.positions.each(early_of, self._rows, other.facts, total, what="rows")
        other._mass = other._fixed_mass()
        return other

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was: rows that are neighbours then are on the same worker."""
        self._rows = []
        return self._inner.reorder(order)

    def advance(self, Y: Floats, iteration: int) -> None:
        """Nothing is learned beside the positions."""

    def _prepare(self) -> None:
        """Let the workers make the rows of the pattern, in the order of the positions, if they have not yet."""
        if self._rows:
            return
        positions, facts, n = self.positions, self.facts, self.positions.n
        submit, each, bounds, homes = positions.submit, positions.each, positions.bounds, positions.homes
        cuts, every = list(pairwise(bounds)), [bounds] * positions.n_parts
        if not self._entries:
            self._send()
        order, weights = RowsObjective.order_of(self._inner)
        places = np.arange(n, dtype=np.uint32)
        if order is not None:
            places[order] = np.arange(n, dtype=np.uint32)
        place = submit(0, kept, places)
        dealt_out = each(dealt, self._entries, place, every, bounds[:-1])
        given = [[submit(p, itemgetter(q), one) for p, one in enumerate(dealt_out)] for q in range(len(cuts))]
        patterns = each(pattern_of, given, place, cuts, facts, what="pattern")
        local = each(localized, patterns, cuts, every)
        own = [None if weights is None else weights[a:b].copy() for a, b in cuts]
        self._rows = each(rows_of_map, local, facts, own, what="rows")
        needed = each(itemgetter(1), local)
        # Of a part elsewhere a worker gets, once, the rows that any of its parts needs.
        same = {home: [one for one, at in zip(needed, homes, strict=True) if at == home] for home in homes}
        parcels = {
            (home, q): submit(q, united, same[home], q) for home in same for q in range(len(cuts)) if homes[q] != home
        }
        elsewhere = [[parcels.get((home, q)) for q in range(len(cuts))] for home in homes]
        self._index = each(indexed, needed, elsewhere)
        counts = positions.gather(each(sizes_of, needed))
        sizes = dict(
            zip(parcels, positions.gather([submit(at[1], len, one) for at, one in parcels.items()]), strict=True)
        )
        self._sources = [[q for q, count in enumerate(row) if count] for row in counts]
        self._parcels = {at: one for at, one in parcels.items() if sizes[at]}
        self.rows_moved = sum(sizes[at] for at in self._parcels)
        self._mass = self._fixed_mass()
        self._charges: Any = None if weights is None else each(kept, [[one] for one in own])
        self._n_charges = float(n if weights is None else weights.sum(dtype=np.float64))

    def _send(self) -> None:
        """Send P in parts of its rows, or take them where they are on the workers."""
        bounds, factors = self.positions.bounds, self._P.factors
        there = getattr(self._P.source, "row_parts", None)
        if there is None or there[0].client is not self.positions.client:
            for p, (a, b) in enumerate(pairwise(bounds)):
                self._entries.append(self.positions.submit(p, kept, entries_of(self._P.read(a, b)), what="entries"))
            return
        whole = pairwise(bounds_of(self.positions.n))
        parts = [part for part, (a, b) in zip(there, whole, strict=True) if a < b]
        scales = np.broadcast_to(1.0 if factors is None else factors, self.positions.n)
        cut = [scales[a:b].copy() for a, b in pairwise(bounds)]
        self._entries = self.positions.each(entries_of_rows, parts, cut, what="entries")

    def _fixed_mass(self) -> float:
        """Return the mass of all rows, as far as it does not depend on q."""
        return float(np.sum(self.positions.gather(self.positions.each(fixed_mass_of, self._rows))))

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
        total_mesh, kernel = positions.summed(meshes), self.facts.kernel
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
    tolerance: float

    @property
    def formulas(self) -> Formulas:
        """Of the divergence."""
        found = linear_formulas(self.divergence, 1 / ((self.n - 1) * (1 if self.by_row else self.n)))
        assert found is not None
        return found

    @property
    def far_log(self) -> float:
        """Whether, and how much, the far part asks for the entropy."""
        return self.formulas.far_log

    @property
    def depends(self) -> bool:
        """Whether the strengths of pairs depend on q."""
        return self.formulas.strength is not None

    def early(self, kernel: Any = None) -> Facts:
        """Return those with KL; with a kernel, by pair."""
        other = self._replace(divergence=KL())
        return other if kernel is None else other._replace(kernel=kernel, by_row=False)


class RowsObjective(NeighborObjective):
    """Some rows of a map: positions are those of these rows, and behind them those that their neighbours name.

    Parameters
    ----------
    facts : Facts
    pattern : tuple of ndarray
        (indptr, columns, p_ij, p_ji), columns numbered as the positions are; without p_ji where that is the same.
    weights : ndarray, optional
        Importance of these rows.
    """

    def __init__(self, facts: Facts, pattern: tuple[NDArray[Any], ...], weights: Floats | None = None) -> None:
        indptr, columns, *both = (usable(one) for one in pattern)
        self.given = facts, (indptr, columns, *both), weights
        self._weights, self._n, self._n_jobs = weights, facts.n, 1
        self._by_row, self._dtype, self._ready = facts.by_row, facts.dtype, False
        self._set_kernel(facts.kernel)
        self._divergence = facts.divergence
        self._prepare((indptr, columns, both[0], both[-1]))

    def __reduce__(self) -> Any:
        return RowsObjective, self.given

    def __sizeof__(self) -> int:
        """Return the bytes, by which Dask knows that it is not to be moved."""
        return sum(one.nbytes for one in (*self._pattern, *self._strengths))

    @staticmethod
    def facts_of(objective: NeighborObjective) -> tuple[Facts, RowBlocks]:
        """Return the facts of an objective, and its P."""
        one = objective
        tolerance = one._field.tolerance  # type: ignore[attr-defined] # it is a mesh
        return Facts(one.kernel, one._divergence, one._by_row, one._n, one._dtype, tolerance), one._P

    @staticmethod
    def order_of(objective: NeighborObjective) -> tuple[NDArray[np.integer[Any]] | None, Floats | None]:
        """Return the order of the rows of an objective, and their importance in that order."""
        return objective._row_order, objective._weights

    def fixed_mass(self) -> float:
        """Return the mass of the rows, as far as it does not depend on q."""
        return float(np.sum(self._mass_fixed, dtype=np.float64))

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


Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Some rows of P: indptr, columns, probabilities."""


def entries_of(rows: Any) -> Entries:
    """Return the arrays of some rows."""
    return rows.indptr, rows.indices, rows.data


def entries_of_rows(rows: Rows, factors: NDArray[np.float64]) -> Entries:
    """Return the entries of rows that were made on a worker, multiplied by their factors."""
    data = np.ones(rows.indices.size, np.float32) if rows.data is None else rows.data
    return rows.indptr, rows.indices, data * np.repeat(factors.astype(data.dtype), np.diff(rows.indptr))


def dealt(entries: Entries, place: NDArray[np.uint32], bounds: list[int], start: int) -> list[list[Any]]:
    """Return for each part what some rows of P have for its rows of the pattern: of P, and of Pᵀ.

    Each is (rows, columns before they were placed, probabilities).
    """
    indptr, indices, data = entries
    rows = np.repeat(np.arange(start, start + len(indptr) - 1), np.diff(indptr))
    keep = (indices != rows) & (data != 0)
    ends, data = (rows[keep], indices[keep].astype(np.int64)), data[keep]
    found = []
    for own, other in (ends, ends[::-1]):
        here = place[own].astype(np.int64)
        part = np.searchsorted(bounds[1:], here, side="right")
        order = np.argsort(part, kind="stable")
        at = np.searchsorted(part[order], np.arange(len(bounds)))
        found.append([(here[some], other[some], data[some]) for some in (order[a:b] for a, b in pairwise(at))])
    return [list(both) for both in zip(*found, strict=True)]


def pattern_of(pieces: list[list[Any]], place: NDArray[np.uint32], where: tuple[int, int], facts: Facts) -> Any:
    """Return (indptr, columns, p_ij, p_ji) of a part of the pattern, as ``union_pattern`` does; by pair no p_ji."""
    keys, values = [], []
    for side in range(2):
        rows, columns, data = (np.concatenate([piece[side][k] for piece in pieces]) for k in range(3))
        keys.append((rows - where[0]) * facts.n + columns)
        values.append(data.astype(facts.dtype))
    both, number = np.unique(np.concatenate(keys), return_inverse=True)
    p = np.zeros((2, len(both)), facts.dtype)
    p[0][number[: len(keys[0])]] = values[0]
    p[1][number[len(keys[0]) :]] = values[1]
    lengths = np.bincount(both // facts.n, minlength=where[1] - where[0])
    both_ways = p if facts.by_row else [(p[0] + p[1]) * facts.dtype.type(0.5)]
    return np.append(0, np.cumsum(lengths)), place[both % facts.n], *both_ways


def localized(pattern: Any, where: tuple[int, int], bounds: list[int]) -> Any:
    """Return the pattern of a part with columns numbered as its positions are, and which rows of each part it needs."""
    indptr, columns, *p = pattern
    a, b = where
    own = columns - np.uint32(a)  # others wrap around, or are beyond the last
    others = own >= b - a
    needed, numbers = np.unique(columns[others], return_inverse=True)
    own[others] = (numbers + (b - a)).astype(np.uint32)
    cuts = pairwise(np.searchsorted(needed, bounds))
    rows = [
        needed[low:high].astype(np.int32) - np.int32(first)
        for (low, high), first in zip(cuts, bounds[:-1], strict=True)
    ]
    return (indptr, own, *p), rows


def rows_of_map(local: Any, facts: Facts, weights: Floats | None) -> RowsObjective:
    """Return the rows of a part."""
    return RowsObjective(facts, local[0], weights)


def sizes_of(needed: list[NDArray[np.int32]]) -> list[int]:
    """Return how many rows of each part are needed."""
    return [rows.size for rows in needed]


def united(needed: list[list[NDArray[np.int32]]], q: int) -> NDArray[np.int32]:
    """Return the rows of a part that any of some parts needs."""
    return np.unique(np.concatenate([rows[q] for rows in needed]))


def indexed(needed: list[NDArray[np.int32]], parcels: list[NDArray[np.int32] | None]) -> list[NDArray[np.int32]]:
    """Return where the needed rows are: in the parcel of each part, or, where there is none, in the part."""
    return [
        rows if parcel is None else np.searchsorted(parcel, rows).astype(np.int32)
        for rows, parcel in zip(needed, parcels, strict=True)
        if rows.size
    ]


def early_of(rows: RowsObjective, facts: Facts, total: float) -> RowsObjective:
    """Return the rows with the facts of an earlier phase; where they were by row and are by pair, ``total`` is of P."""
    _, (indptr, columns, *p), weights = rows.given
    if len(p) > 1 and not facts.by_row:
        p = [((p[0] + p[1]) / total).astype(facts.dtype)]
    return RowsObjective(facts, (indptr, columns, *p), weights)


def sum_of_both(rows: RowsObjective) -> float:
    """Return the sum of P and Pᵀ in the rows of a part."""
    p_ij, p_ji = rows.given[1][2:]
    return float((p_ij + p_ji).sum(dtype=np.float64))


def fixed_mass_of(rows: RowsObjective) -> float:
    """Return the mass of a part that does not depend on q."""
    return rows.fixed_mass()


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
