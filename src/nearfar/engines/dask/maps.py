"""The place of maps on the workers of a Dask cluster: charges on meshes move, and rows of neighbours, never all points.

Each part of the rows of a map stays on one worker: positions, velocities, and its rows of the pattern of P and Pᵀ. To
make it, workers deal the entries of P out to the parts of their rows and of their columns. The tasks of an iteration:

1. the bounding box of all positions, from those of each part: it chooses the mesh;
2. each part spreads its charges on a mesh of its own, and these are added up in a tree of pairs;
3. one task convolves the sum with the kernel; each part reads its potentials from the result;
4. each part takes the positions that its neighbours name from other parts, and is drawn by them;
5. sums over all pairs from those of each part, and a step. By row a second mesh comes before it, of charges 1 / S_i.

The algebra is that of :mod:`nearfar.methods.maps`, whose formulas run on each part as on one thread. ``each``
waits until somebody asks for what it makes: formulas that follow each other are one task, and sums stay on the workers.
They are taken in the order of the parts, whose number follows from that of the rows. The client brings the positions
where somebody looks at them, every 50 iterations, and sends them again: so a lost worker costs no more than the
iterations since then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.contracts import Floats, Kernel, Potential, Term
from nearfar.divergences.probability import times_log
from nearfar.engines.dask.client import gathered, rows_of
from nearfar.engines.dask.rows import Owners, Parts, Rows, aligned, bounds_of, item, kept, n_needed, taken
from nearfar.engines.threads import Threads
from nearfar.errors import NumericalError
from nearfar.far import mesh as threads
from nearfar.far.fields import linear_kernel
from nearfar.maps.objective import Pattern, RowBlocks, row_sums
from nearfar.methods.affinities import symmetric
from nearfar.methods.maps import Cost, Near, sums
from nearfar.relations.kernels import by_part

if TYPE_CHECKING:
    from distributed import Client, Future
    from scipy.sparse import csr_array

AHEAD = 3  # iterations whose tasks are handed out before the first of them is waited for

Result = tuple[tuple[NDArray[Any], ...], list[Floats]]
"""What a task makes: blocks of rows, and sums."""
Charged = list[list[tuple[int, str]]]
"""For each sum of potentials: which charges, and the name of the potential."""
Node = tuple[object, ...]
"""What stands for a value in a task: its kind, and which of the inputs, or the value itself."""


Tree = tuple[Callable[..., object], bool, Sequence[Node], Sequence[Node], Mapping[str, Node]]
"""A formula that will run: whether its rows change together, what stands for them, for other rows, and for the rest."""
Parcels = Mapping[tuple[str, int], "Future"]
"""The rows of a part that a worker needs, by its address and the part."""
Boxed = tuple[tuple[Floats, Floats], list[Floats]]
"""The bounding box of a part, and sums."""
OnMesh = tuple[Floats, list[tuple[int, threads.Influence]]]
"""Potentials on the mesh, and which charges made them under which influence."""
S = TypeVar("S", bound=np.generic)


class Plan(NamedTuple):
    """What all parts must know of each other to sum over all pairs."""

    low: Floats
    mesh: threads.Mesh
    width: float
    error: float  # of forces, as that of the mesh field


# What a task is made of: a tree whose leaves are numbers, or count the futures that the task is given.


class Inputs(list["Future"]):
    """The futures that a task is given."""

    def number(self, future: Future) -> int:
        """Return which one a future is."""
        self.append(future)
        return len(self) - 1


class Kept:
    """Rows that are made: a future of a result for each part."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def made(self) -> Parts:
        """Return the futures."""
        return self.parts

    def node(self, q: int, inputs: Inputs, at: int) -> Node:
        """Return what stands for a block of a part in a task."""
        return "block", inputs.number(self.parts[q]), at

    def total_of(self, told: Parts) -> None:
        """There are no sums."""

    def __getitem__(self, at: int) -> Picked:
        return Picked(self, at)


class Picked(NamedTuple):
    """Rows on the workers: one of those that are made together."""

    of: Kept | Later
    at: int

    def node(self, q: int, inputs: Inputs) -> Node:
        """Return what stands for a part in a task."""
        return self.of.node(q, inputs, self.at)


class Later:
    """Rows that a formula will change, when somebody asks for them, and the sums of what it returns."""

    def __init__(
        self,
        place: MapWorkers,
        formula: Callable[..., object],
        moving: Picked | tuple[Picked, ...],
        rows: Sequence[object],
        shared: Mapping[str, object],
    ) -> None:
        self._place, self._formula, self._together = place, formula, type(moving) is tuple
        self._moving = cast("tuple[Picked, ...]", moving if self._together else (moving,))
        self._rows, self._shared, self._count = rows, shared, len(self._moving)
        self.parts: Parts = []
        self._total: Future | None = None

    def __getitem__(self, at: Any) -> Any:
        if at == 0:
            found = tuple(Picked(self, k) for k in range(self._count))
            return found if self._together else found[0]
        return Sums(self) if isinstance(at, slice) else Sum(self, at - 1)

    def made(self) -> Parts:
        """Return the futures of the results, whose tasks are handed out now if they were not."""
        if not self.parts:
            self.parts = self._place.tasks(ran, self._tree)
            self._moving, self._rows, self._shared = (), (), {}  # or what was before would stay on the workers, too
        return self.parts

    def total(self) -> Future:
        """Return the future of the sums."""
        if self._total is None:
            place, parts = self._place, self.parts
            each = place.submit_each(itemgetter(1), parts) if parts else place.tasks(sums_of, self._tree)
            self._total = place.submit(0, summed, each)
        return self._total

    def total_of(self, told: Parts) -> None:
        """Take the sums from what the parts have told, which saves a task of each."""
        self._total = self._place.submit(0, summed_of_told, told)

    def node(self, q: int, inputs: Inputs, at: int) -> Node:
        """Return what stands for a block of a part in a task: the formula itself where it has not run."""
        if self.parts:
            return "block", inputs.number(self.parts[q]), at
        return "run", self._tree(q, inputs), at

    def _tree(self, q: int, inputs: Inputs) -> Node:
        moving = [one.node(q, inputs) for one in self._moving]
        rows = [self._place.node(one, q, inputs) for one in self._rows]
        shared = {name: self._place.node(one, q, inputs) for name, one in self._shared.items()}
        return self._formula, self._together, moving, rows, shared


class Sums:
    """The sums of a formula, on the workers; formulas read them there."""

    def __init__(self, of: Later) -> None:
        self._of = of

    def node(self, _q: int, inputs: Inputs) -> Node:
        """Return what stands for them in a task."""
        return "is", inputs.number(self._of.total())

    def __iter__(self) -> Iterator[Floats]:
        return iter(self._of._place.gather([self._of.total()])[0])


class Sum(NamedTuple):
    """One of them."""

    of: Later
    at: int

    def node(self, _q: int, inputs: Inputs) -> Node:
        """Return what stands for it in a task."""
        return "item", inputs.number(self.of.total()), self.at

    def __float__(self) -> float:
        return float(list(Sums(self.of))[self.at])


class Error(NamedTuple):
    """The error of a mesh, which its plan knows."""

    plan: Future

    def node(self, _q: int, inputs: Inputs) -> Node:
        """Return what stands for it in a task."""
        return "item", inputs.number(self.plan), Plan._fields.index("error")


class MapWorkers:
    """The place of a map: rows in parts on workers, and nothing is waited for until somebody looks.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    client : distributed.Client
    n : int
        Points.

    Attributes
    ----------
    homes : list of str
        The worker that each part belongs to.
    rows_moved : int
        Positions that go from one worker to another in an iteration.
    """

    sorts = True

    def __init__(self, owner: str, client: Client, n: int) -> None:
        self.owner, self.client, self.owners = owner, client, Owners(client)
        self.bounds = np.unique(bounds_of(n)).tolist()  # no part is empty
        self.n, self.n_parts, self.rows_moved = n, len(self.bounds) - 1, 0
        self.submit_each = partial(self.owners.each, self.n_parts)
        self.homes = [self.owners.of(q, self.n_parts) for q in range(self.n_parts)]
        self._threads = client.ncores().get(self.homes[0], 1)  # of the worker that convolves
        self._held: dict[int, tuple[object, object]] = {}  # with the object whose id is the key
        self._ahead: deque[Future] = deque()
        self._warned = False

    def submit(self, part: int, function: Callable[..., object], *arguments: object, what: str = "task") -> Future:
        """Submit a task of a part."""
        return self.owners.submit(part, self.n_parts, function, *arguments, what=what)

    def bring(self, X: Floats) -> Picked:
        """Send rows."""
        cut: list[Result] = [((X[a:b].copy(),), []) for a, b in pairwise(self.bounds)]
        return Kept(self.submit_each(kept, cut))[0]

    def fetch(self, rows: Picked, X: Floats) -> Floats:
        """Bring the rows, and send what was made with them again: what made them is forgotten."""
        found = [self.gather([part])[0] for part in rows.of.made()]
        while self._ahead:
            self._wait(self._ahead.popleft())
        for (blocks, _), (a, b) in zip(found, pairwise(self.bounds), strict=True):
            X[a:b] = blocks[rows.at]
        rows.of.parts = self.submit_each(kept, found)
        return X

    def each(
        self, formula: Callable[..., object], X: Picked | tuple[Picked, ...], *rows: object, **shared: object
    ) -> Any:
        """Let the formula change the rows, when somebody asks for them."""
        return Later(self, formula, X, rows, shared)

    def pairs(
        self,
        formula: Callable[..., object],
        pattern: PatternOnWorkers,
        _mine: Sequence[Picked],  # which are theirs, too
        theirs: Sequence[Picked],
        *entries: object,
        **shared: object,
    ) -> Kept:
        """Return the sums over the pairs of each row, which takes the rows that it needs from other parts."""
        pieces = [pattern.pieces(one) for one in theirs]

        def tree(q: int, inputs: Inputs) -> tuple[object, ...]:
            own = [one.node(q, inputs) for one in theirs]
            others = [
                [
                    ("is", inputs.number(one)) if at is None else ("block", inputs.number(one), at)
                    for one, at in of_row[q]
                ]
                for of_row in pieces
            ]
            of_pairs = [self.node(one, q, inputs) for one in entries]
            named = {name: self.node(one, q, inputs) for name, one in shared.items()}
            index, local = inputs.number(pattern.index[q]), pattern.local.node(q, inputs, 0)
            return formula, local, own, others, index, of_pairs, named

        return Kept(self.tasks(paired, tree, what="pull"))

    def field(self, field: threads.MeshField, Y: Picked, kernel: Kernel) -> MeshOnWorkers:
        """Return the mesh for the positions, and what it answers."""
        Y.of.made()
        wanted = *threads.wanted_mesh(linear_kernel(self.owner, kernel, field.work), field.tolerance), field.tolerance
        boxes = self.tasks(boxed, Y.node, self.owner, what="task")
        Y.of.total_of(boxes)
        plan = self.submit(0, planned, self.owner, boxes, wanted, self.n)
        self._ahead.append(plan)
        if len(self._ahead) > AHEAD:  # not too far ahead of the workers
            self._wait(self._ahead.popleft())
        return MeshOnWorkers(self, Y, plan, kernel)

    def pattern_of(self, P: RowBlocks, cost: Cost, order: NDArray[np.integer] | None) -> PatternOnWorkers:
        """Let the workers make the pattern of P and Pᵀ, row r being ``order[r]``."""
        submit, each, bounds, homes = self.submit, self.submit_each, self.bounds, self.homes
        cuts, every = list(pairwise(bounds)), [bounds] * self.n_parts
        places = np.arange(self.n, dtype=np.uint32)
        if order is not None:
            places[order] = np.arange(self.n, dtype=np.uint32)
        where = submit(0, kept, places)
        dealt_out = each(dealt, self.held(P, self._entries), where, every, bounds[:-1])
        given = [[submit(p, itemgetter(q), one) for p, one in enumerate(dealt_out)] for q in range(len(cuts))]
        split = each(localized, each(pattern_of, given, where, cuts, cost, what="pattern"), cuts, every)
        needed = each(itemgetter(1), split)
        # Of a part elsewhere a worker gets, once, the rows that any of its parts needs.
        same = {home: [one for one, at in zip(needed, homes, strict=True) if at == home] for home in homes}
        parcels = {
            (home, q): submit(q, united, same[home], q) for home in same for q in range(len(cuts)) if homes[q] != home
        }
        index = each(indexed, needed, [[parcels.get((home, q)) for q in range(len(cuts))] for home in homes])
        counts = self.gather(each(n_needed, split))
        of_parcels = self.gather([submit(at[1], len, one) for at, one in parcels.items()])
        sizes = dict(zip(parcels, of_parcels, strict=True))
        self.rows_moved = sum(sizes.values())
        sources = [[q for q, count in enumerate(row) if count] for row in counts]
        local = Kept(each(itemgetter(0), split, what="rows"))
        return PatternOnWorkers(self, local, index, sources, {at: one for at, one in parcels.items() if sizes[at]})

    def node(self, value: object, q: int, inputs: Inputs) -> Node:
        """Return what stands in a task for rows, numbers of one per row, numbers for all, or an object."""
        if isinstance(value, (Picked, Sums, Sum, Error)):
            return value.node(q, inputs)
        if isinstance(value, tuple):
            return "tuple", [self.node(one, q, inputs) for one in value]
        if value is None or isinstance(value, (int, float, str)):
            return "given", value
        if np.shape(cast(ArrayLike, value))[:1] == (self.n,):  # of one number per row
            return cast(Picked, self.held(value, self.bring)).node(q, inputs)
        return "is", inputs.number(self.held(value))

    def held(self, value: object, make: Callable[[Any], object] | None = None) -> Any:
        """Return the future of an object that workers keep: it is sent once, and what it makes for itself stays."""
        if id(value) not in self._held:
            self._held[id(value)] = value, self.submit(0, kept, value) if make is None else make(value)
        return self._held[id(value)][1]

    def gather(self, futures: Parts) -> list[Any]:
        """Return the results; rows that no worker could hold are named."""
        return gathered(f"{self.owner}.fit", self.client, futures, rows_of(self.bounds))

    def _entries(self, P: RowBlocks) -> Parts:
        """Return P in parts of its rows: sent, or taken where they are on the workers."""
        there, ends = P.source.row_parts, list(pairwise(self.bounds))
        if there is None or there[0].client is not self.client:
            return self.submit_each(kept, [entries_of(P.read(a, b)) for a, b in ends], what="entries")
        some = [part for part, (a, b) in zip(there, pairwise(bounds_of(self.n)), strict=True) if a < b]
        scales = np.broadcast_to(1.0 if P.factors is None else P.factors, self.n)
        return self.submit_each(entries_of_rows, some, [scales[a:b].copy() for a, b in ends], what="entries")

    def tasks(
        self, function: Callable[..., object], tree: Callable[[int, Inputs], object], *first: object, what: str = "step"
    ) -> Parts:
        """Submit a task for each part: of what is given first, and of a tree and the futures that it counts."""
        tasks = []
        for q in range(self.n_parts):
            inputs = Inputs()
            of_part = tree(q, inputs)
            tasks.append(self.submit(q, function, *first, of_part, *inputs, what=what))
        return tasks

    def _wait(self, plan: Future) -> None:
        found: Plan = self.gather([plan])[0]
        if found.mesh.coarser > 1 and not self._warned:
            self._warned = True
            threads.warn_of_width(self.owner, found.width, found.error)


class MeshOnWorkers:
    """A field of a map: a mesh that is spread over the parts.

    Parameters
    ----------
    place : MapWorkers
    Y : Picked
        Positions.
    plan : Future
    kernel : Kernel
    """

    def __init__(self, place: MapWorkers, Y: Picked, plan: Future, kernel: Kernel) -> None:
        self._place, self._Y, self._plan, self._kernel = place, Y, plan, kernel

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potentials of terms with the same charges."""
        place, charges = self._place, cast("Picked | None", terms[0].charges)
        total: object = place.n
        if charges is not None:  # the sum of their numbers, which stay as they are
            rows = charges
            total = place.held(rows.of, lambda _: Later(place, sums, rows, (), {}).total())
        return self._answers([charges], [[(0, term.potential)] for term in terms], total)

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials of terms, each with its charges; the gradient alone means something."""
        sums: Charged = [[(k, term.potential) for k, term in enumerate(terms)]]
        return self._answers([cast("Picked | None", term.charges) for term in terms], sums, 0.0)[0]

    def _answers(self, charges: Sequence[Picked | None], sums: Charged, total: object) -> list[Potential]:
        place, plan = self._place, self._plan
        for one in charges:
            if one is not None:
                one.of.made()

        def of_mesh(q: int, inputs: Inputs) -> list[Node]:
            return [place.node(one, q, inputs) for one in (self._Y, *charges)]

        items, width = place.tasks(spread_charges, of_mesh, plan, what="mesh"), 1
        while len(items) > 1:  # in a tree of pairs, which are on the same worker if they can
            pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
            width *= 2
            items = [
                pair[0] if len(pair) == 1 else place.submit(i * width, added, pair) for i, pair in enumerate(pairs)
            ]
        field = place.submit(0, convolved, items[0], plan, sums, self._kernel, place._threads)
        found = Kept(place.tasks(potentials_of, of_mesh, plan, field, total, what="task"))
        error: Any = Error(plan)
        return [Potential(found[2 * k], found[2 * k + 1], error) for k in range(len(sums))]  # type: ignore[arg-type]


class PatternOnWorkers:
    """The pattern of P and Pᵀ in parts of its rows, and which rows each part needs of the others.

    Attributes
    ----------
    local : Kept
        Of each part indptr, columns numbered as its rows and behind them those that it needs, p_ij, and p_ji.
    index : list of Future
        Where the rows are that a part needs: in what comes of each other part.
    """

    def __init__(
        self, place: MapWorkers, local: Kept, index: Parts, sources: list[list[int]], parcels: Parcels
    ) -> None:
        self._place, self.local, self.index, self._sources, self._parcels = place, local, index, sources, parcels

    def pieces(self, rows: Picked) -> list[list[tuple[Future, int | None]]]:
        """Return for each part what it needs other parts for: these, and which block, or rows that its worker gets."""
        parts, submit, homes = rows.of.made(), self._place.submit, self._place.homes
        sent = {at: submit(at[1], taken_of, parts[at[1]], rows.at, some) for at, some in self._parcels.items()}
        return [
            [(sent[home, q], None) if (home, q) in sent else (parts[q], rows.at) for q in of]
            for home, of in zip(homes, self._sources, strict=True)
        ]

    def near(self, place: MapWorkers, cost: Cost, weights: Floats | None) -> Near:
        """Return what the data say of the map."""
        parts, formulas = self.local.made(), cost.formulas
        made = Kept(place.submit_each(strengths_here, parts, place.held(cost), what="rows"))
        both = formulas.strength is not None
        given = formulas.fixed is not None, both, both and cost.by_row
        fixed, u_ij, u_ji = (made[k] if there else None for k, there in enumerate(given))
        total = float(np.sum(place.gather(place.submit_each(item, made.made(), 1, 0))))
        near = Near(self, self.local[2], (fixed, u_ij, u_ji), made[3], total)
        if weights is None:
            return near
        cut = [weights[a:b].astype(np.float64) for a, b in pairwise(place.bounds)]
        of_weights = float(np.sum(place.gather(place.submit_each(of_weights_here, parts, cut))))
        return near._replace(weights=place.bring(weights.astype(cost.dtype)), of_weights=of_weights)

    def paired(self, place: MapWorkers) -> PatternOnWorkers:
        """Return the pattern by pair of one by row."""
        parts = self.local.made()
        total = float(np.sum(place.gather(place.submit_each(sum_of_both, parts))))
        local = Kept(place.submit_each(paired_of, parts, total, what="rows"))
        return PatternOnWorkers(place, local, self.index, self._sources, self._parcels)


# What the workers do.


def value_of(node: Any, inputs: Sequence[Any]) -> Any:
    """Return what a node of a task stands for."""
    match node:
        case "given", value:
            return value
        case "is", at:
            return inputs[at]
        case "item", at, which:
            return inputs[at][which]
        case "block", at, which:
            return inputs[at][0][which]
        case "tuple", nodes:
            return tuple(value_of(each, inputs) for each in nodes)
        case "run", tree, at:
            return ran(tree, *inputs)[0][at]


def ran(tree: Tree, *inputs: object) -> Result:
    """Return copies of rows after a formula, and the sums of what that returned."""
    formula, together, *nodes, shared = tree
    moving, rows = ([value_of(node, inputs) for node in some] for some in nodes)
    X = tuple(aligned(block) for block in moving)
    named = {name: value_of(node, inputs) for name, node in shared.items()}
    X, *sums = Threads(1).each(formula, X if together else X[0], *rows, **named)
    return X if together else (X,), sums


def sums_of(tree: Tree, *inputs: object) -> list[Floats]:
    """Return the sums of what a formula returns."""
    return ran(tree, *inputs)[1]


def paired(tree: tuple[Any, ...], *inputs: Any) -> Result:
    """Return the sums over the pairs of the rows of a part, by their own rows and those of other parts."""
    formula, local, own, others, index, entries, shared = tree
    (indptr, columns, *_), rows = inputs[local[1]][0], inputs[index]
    sides = []
    for mine, pieces in zip(own, others, strict=True):
        behind = [value_of(piece, inputs)[some] for piece, some in zip(pieces, rows, strict=True)]
        sides.append(np.concatenate([value_of(mine, inputs), *behind]))
    of_pairs = [usable(value_of(node, inputs)) if node[0] != "given" else None for node in entries]
    named = {name: value_of(node, inputs) for name, node in shared.items()}
    found = Threads(1).pairs(formula, (usable(indptr), usable(columns)), sides, sides, *of_pairs, **named)
    return tuple(part[: len(indptr) - 1] for part in found), []


def strengths_here(local: Result, cost: Cost) -> Result:
    """Return of a part what strengths are made of, and the mass of what does not move with q."""
    near = Pattern(*local[0]).near(Threads(1), cost, None)
    return cast("tuple[NDArray[Any], ...]", (*near.strengths, near.mass)), [near.mass.sum()]


def of_weights_here(local: Result, weights: NDArray[np.float64]) -> float:
    """Return the part of the cost that importance makes, as it stays."""
    indptr, _, p, _ = local[0]
    return float(2 * times_log(row_sums(indptr, p), weights).sum())


def sum_of_both(local: Result) -> float:
    """Return the sum of P and Pᵀ in the rows of a part."""
    return float((local[0][2] + local[0][3]).sum(dtype=np.float64))


def paired_of(local: Result, total: float) -> Result:
    """Return the rows of a part by pair, ``total`` being the sum of P and Pᵀ."""
    indptr, columns, p_ij, p_ji = local[0]
    p = ((p_ij + p_ji) / total).astype(p_ij.dtype)
    return (indptr, columns, p, p), []


def taken_of(made: Result, at: int, rows: NDArray[np.int32]) -> Floats:
    """Return some rows of a part."""
    return taken(made[0][at], rows)


Entries = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Some rows of P: indptr, columns, probabilities."""


def entries_of(rows: csr_array) -> Entries:
    """Return the arrays of some rows."""
    return rows.indptr, rows.indices, rows.data


def entries_of_rows(rows: Rows, factors: NDArray[np.float64]) -> Entries:
    """Return the entries of rows that were made on a worker, multiplied by their factors."""
    data = np.ones(rows.indices.size, np.float32) if rows.data is None else rows.data
    return rows.indptr, rows.indices, data * np.repeat(factors.astype(data.dtype), np.diff(rows.indptr))


def dealt(entries: Entries, place: NDArray[np.uint32], bounds: list[int], start: int) -> list[list[Entries]]:
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
        found.append([(here[some], other[some], data[some]) for some in by_part(here, bounds)])
    return [list(both) for both in zip(*found, strict=True)]


def pattern_of(pieces: list[list[Entries]], place: NDArray[np.uint32], where: tuple[int, int], cost: Cost) -> Pattern:
    """Return a part of the pattern, as ``union_pattern`` does."""
    keys, values = [], []
    for side in range(2):
        rows, columns, data = (np.concatenate([piece[side][k] for piece in pieces]) for k in range(3))
        keys.append((rows - where[0]) * cost.n + columns)
        values.append(data.astype(cost.dtype))
    both, number = np.unique(np.concatenate(keys), return_inverse=True)
    p = np.zeros((2, len(both)), cost.dtype)
    p[0][number[: len(keys[0])]] = values[0]
    p[1][number[len(keys[0]) :]] = values[1]
    lengths = np.bincount(both // cost.n, minlength=where[1] - where[0])
    if not cost.by_row:
        p[:] = symmetric(p[0], p[1])
    return Pattern(np.append(0, np.cumsum(lengths)), place[both % cost.n], p[0], p[1] if cost.by_row else p[0])


def localized(pattern: Pattern, where: tuple[int, int], bounds: list[int]) -> tuple[Result, list[NDArray[np.int32]]]:
    """Return the pattern of a part with columns numbered as its positions are, and which rows of each part it needs."""
    indptr, columns, *p = pattern
    a, b = where
    own = columns - np.uint32(a)  # others wrap around, or are beyond the last
    others = own >= b - a
    needed, numbers = np.unique(columns[others], return_inverse=True)
    own[others] = (numbers + (b - a)).astype(np.uint32)
    cuts = zip(pairwise(np.searchsorted(needed, bounds)), bounds[:-1], strict=True)
    rows = [needed[low:high].astype(np.int32) - np.int32(first) for (low, high), first in cuts]
    return ((indptr, own, *p), []), rows


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


def usable(array: NDArray[S]) -> NDArray[S]:
    """Return an array as the compiled loops know it: what comes from another process may be read-only."""
    return np.require(array, requirements=["C", "A", "W"])


def boxed(owner: str, node: Node, made: Result) -> Boxed:
    """Return the bounding box of the positions of a part, and the sums that were made with them."""
    return threads.bounding_box(owner, usable(value_of(node, [made])), 1), made[1]


def planned(owner: str, boxes: list[Boxed], wanted: tuple[int, float, float, float], n: int) -> Plan:
    """Return the mesh for all positions."""
    order, step, reach, tolerance = wanted
    ends = np.array([box for box, _ in boxes])
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    with np.errstate(over="ignore"):
        extent = high - low
    if not np.isfinite(extent).all():
        raise NumericalError(f"{owner}: positions are too far apart for numbers of type {ends.dtype}.")
    mesh = threads.choose_mesh(extent, order, step, reach, n)
    return Plan(low, mesh, float(extent.max()), mesh.error(tolerance))


def spread_charges(plan: Plan, nodes: Sequence[Node], *inputs: object) -> list[Floats]:
    """Return the meshes of a part, one for each kind of charges; None: all are 1."""
    (Y, charges), mesh = on_mesh(nodes, inputs), plan.mesh
    points = threads.sort_points(Y, plan.low, mesh, 1, threads.Buffers())
    meshes = []
    for one in charges:
        meshes.append(np.empty((mesh.rows, mesh.columns), Y.dtype))
        threads.spread(points, mesh, one, meshes[-1], 1)
    return meshes


def on_mesh(nodes: Sequence[Node], inputs: Sequence[object]) -> tuple[Floats, list[Floats]]:
    """Return positions and charges as the loops take them."""
    Y, *charges = (value_of(node, inputs) for node in nodes)
    Y = usable(Y)
    return Y, [Y[:0, 0] if one is None else usable(one) for one in charges]


def added(pair: list[list[Floats]]) -> list[Floats]:
    """Return the sums of the meshes of two."""
    return [one + other for one, other in zip(*pair, strict=True)]


def convolved(meshes: list[Floats], plan: Plan, charged: Charged, kernel: Kernel, n_jobs: int) -> list[OnMesh]:
    """Return the potentials on the mesh, and of their influences what the points need to leave themselves out."""
    mesh, compiled, dtype = plan.mesh, linear_kernel("MeshField", kernel, {}), meshes[0].dtype
    padded = [np.zeros((mesh.rows, mesh.shape.columns), dtype) for _ in meshes]
    for whole, one in zip(padded, meshes, strict=True):
        whole[:, : mesh.columns] = one
    sums = [
        [(k, threads.influence(compiled, name, mesh.shape, np.dtype(dtype))) for k, name in terms] for terms in charged
    ]
    fields = threads.convolve(padded, mesh, sums, n_jobs, threads.Buffers())
    short = np.empty((0, 0), dtype)
    return [
        (
            np.ascontiguousarray(field[:, : mesh.columns]),
            [(k, one._replace(transform=short, wide=None)) for k, one in terms],
        )
        for field, terms in zip(fields, sums, strict=True)
    ]


def potentials_of(plan: Plan, fields: list[OnMesh], total: ArrayLike, nodes: Sequence[Node], *inputs: object) -> Result:
    """Return values and gradients of the potentials of a part; ``total`` is the sum of the charges of all points."""
    (Y, charges), mesh = on_mesh(nodes, inputs), plan.mesh
    points = threads.sort_points(Y, plan.low, mesh, 1, threads.Buffers())
    blocks: list[Floats] = []
    of_all = float(np.sum(total))  # a number, or the one sum that a formula returned
    for field, terms in fields:
        parts = [(charges[k], one) for k, one in terms]
        blocks += threads.read(points, mesh, usable(field), parts, 1, threads.Buffers(), 0, [of_all] * len(terms))
    return tuple(blocks), []


def summed_of_told(told: list[Boxed]) -> list[Floats]:
    """Return the sums of what all parts have told."""
    return summed([sums for _, sums in told])


def summed(parts: list[list[Floats]]) -> list[Floats]:
    """Return the sums of numbers of all parts, in order."""
    return [np.sum(some, axis=0, dtype=np.float64) for some in zip(*parts, strict=True)]
