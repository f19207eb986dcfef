"""EDRep on the workers of a Dask cluster: an epoch sums d x d statistics as a tree and moves rows that are needed.

The tasks of a sweep, for each part q of the rows:

1. the moments of its vectors, added up in a tree; the far field is made of the total and goes to all;
2. its rows of the pull, by products that take the rows they need from other parts (:mod:`nearfar.engines.dask.rows`);
3. the step, by the compiled loops of one machine; its parts of the loss and of the two sums go back to the client.

A lost worker's arrays are made again by Dask, from the tasks that made them. The tasks are functions of their input
alone, so the vectors come out the same.
"""

from __future__ import annotations

import copy
import os
from itertools import pairwise
from operator import getitem, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_finite
from nearfar._core.parts import RowsInParts, check_seen, part_name, write_part
from nearfar._core.threads import even_bounds, single_threaded_blas
from nearfar._core.vector import empty_aligned
from nearfar.contracts import FarField, Floats, Solver
from nearfar.edrep.solver import Problem, Sphere, State, Step
from nearfar.engines.dask.rows import Owners, Parts, Products, bounds_of, gathered, kept, sent
from nearfar.errors import InputError
from nearfar.relations.operators import LinearOperator, Sparse


class RowsOnWorkers(RowsInParts):
    """Vectors whose parts are on workers: what is asked for is fetched, and each worker writes the parts that it has.

    Parameters
    ----------
    engine : Workers
    parts : list of Future
    bounds : list of int
    n_columns : int
    dtype : dtype
    """

    def __init__(self, engine: Workers, parts: Parts, bounds: list[int], n_columns: int, dtype: Any) -> None:
        super().__init__(Path(), "", bounds, n_columns, dtype, {})
        self.parts, self._engine = parts, engine

    def pieces(self, wanted: list[tuple[int, Any]]) -> list[NDArray[Any]]:
        """Fetch rows of some parts."""
        submit, n = self._engine.owners.submit, len(self.parts)
        return self._engine.gather([submit(q, n, getitem, self.parts[q], rows) for q, rows in wanted])

    def write(self, folder: Path, name: str) -> dict[str, int]:
        """Let each worker write its parts to a folder that all of them see."""
        submit, n = self._engine.owners.submit, len(self.parts)
        names = [f"{part_name(name, q)}.npy" for q in range(n)]
        done = [submit(q, n, write_part, folder / names[q], part, what="file") for q, part in enumerate(self.parts)]
        return dict(zip(names, self._engine.gather(done), strict=True))


class Workers:
    """The engine of a cluster: vectors and relation in parts on its workers.

    Parameters
    ----------
    problem : Problem
    client : distributed.Client
    in_parts : bool
        Whether vectors stay on the workers: :meth:`fetch` gives the state arrays that fetch what is asked for.
    """

    def __init__(self, problem: Problem, client: Any, *, in_parts: bool = False) -> None:
        if problem.gradient == "full":
            raise InputError("EDRep", "gradient", "'paper' or 'forward' with engine='dask'", "full")
        self.problem, self.client, self.owners = problem, client, Owners(client)
        self._state: State | None = None
        self._in_parts = in_parts
        n, m = problem.P.shape
        self._rows, self._columns = bounds_of(n), bounds_of(m)
        self._X: Parts = []
        self._Y: Parts | None = None
        zeros = np.zeros(max(n, m))
        both = not problem.two_sided and problem.gradient != "forward"
        prior_of_rows = problem.p0 if both else zeros
        weights = np.stack((problem.p0, problem.r)) if not problem.two_sided else problem.r[None]
        self._of_rows = self._cut(self._rows, problem.r, prior_of_rows, weights)
        self._of_columns = self._cut(self._columns, zeros, problem.p0, problem.p0[None]) if problem.two_sided else []
        self._products: Products | None = None

    def _cut(self, bounds: list[int], r: Any, p0: Any, weights: Any) -> Parts:
        parts = [(r[a:b], p0[a:b], weights[:, a:b]) for a, b in pairwise(bounds)]
        return [self.owners.submit(q, len(parts), kept, part) for q, part in enumerate(parts)]

    def start(self, d: int, rng: np.random.Generator, present: list[NDArray[np.bool_]], solver: Any) -> State:
        """Return where a fit starts, as one machine draws it, each part on its worker."""
        sides = []
        for bounds, related in zip((self._rows, self._columns), present, strict=False):
            parts, (blocks, seeds), n = [], Sphere.seeds(bounds[-1], d, rng), len(bounds) - 1
            for q, (a, b) in enumerate(pairwise(bounds)):
                i, j = int(np.searchsorted(blocks, a, side="right")) - 1, int(np.searchsorted(blocks, b))
                own = blocks[i : j + 1], seeds[i:j], a, b
                parts.append(self.owners.submit(q, n, drawn, own, d, related[a:b], solver, what="start"))
            sides.append(RowsOnWorkers(self, parts, bounds, d, np.float32))
        rows: list[Any] = [*sides, None]
        return State(X=rows[0], Y=rows[1], rng=rng)

    def sweep(self, state: State, far: FarField, solver: Solver, rate: float) -> float:
        """Move every vector by one step against its gradient; return the loss before."""
        problem, submit, temperature = self.problem, self.owners.submit, self.problem.temperature
        if state is not self._state:
            self._take(state)
        X, others = self._X, self._X if self._Y is None else self._Y
        others_bounds = self._rows if self._Y is None else self._columns
        assert self._products is not None
        assert state.sums is not None
        sums = (state.sums[0], state.sums[1])
        if temperature < 0:
            sums = (-sums[0], -sums[1])
        prepared = self._far_field(far, others, others_bounds, state)
        pull = problem.P.through(self._products, others)
        if problem.gradient != "forward" and not problem.two_sided:
            pull = problem.P.through(self._products, others, pull, transposed=True)
        done = [
            submit(
                q,
                len(X),
                moved,
                X[q],
                pull[q],
                self._of_rows[q],
                prepared,
                solver,
                rate,
                sums,
                temperature,
                what="step",
            )
            for q in range(len(X))
        ]
        done_others = []
        if self._Y is not None:
            pull = problem.P.through(self._products, X, transposed=True)
            n = len(self._Y)
            done_others = [
                submit(q, n, moved, y, pull[q], self._of_columns[q], None, solver, rate, sums, temperature, what="step")
                for q, y in enumerate(self._Y)
            ]
        self._X = [submit(q, len(done), itemgetter(0), part) for q, part in enumerate(done)]
        if self._Y is not None:
            self._Y = [submit(q, len(done_others), itemgetter(0), part) for q, part in enumerate(done_others)]
        asked = [submit(q, len(p), itemgetter(1), part) for p in (done, done_others) for q, part in enumerate(p)]
        found = self.gather(asked)
        losses = np.sum([losses for losses, _ in found[: len(X)]], axis=0)
        products = np.sum([products for _, products in found[: len(X)]], axis=0)
        if self._Y is not None:
            of_others = np.sum([products for _, products in found[len(X) :]], axis=0)
            products = np.concatenate((of_others, products))
        state.sums = products.astype(state.sums.dtype)
        near, far_sum, prior = losses
        both = self._Y is None and problem.gradient != "forward"
        return float(far_sum + prior / temperature - (near / 2 if both else near) / temperature)

    def fetch(self, state: State) -> None:
        """Bring the vectors to the client, a part at a time; or say where they are."""
        if state is not self._state:
            return
        if self._in_parts:
            d, dtype, X, Y = state.X.shape[1], state.X.dtype, self._X, self._Y
            whole: Any = RowsOnWorkers(self, X, self._rows, d, dtype)
            state.X, state.Y = whole, None if Y is None else RowsOnWorkers(self, Y, self._columns, d, dtype)  # type: ignore[assignment]
            return
        for array, parts, bounds in ((state.X, self._X, self._rows), (state.Y, self._Y, self._columns)):
            if array is None or parts is None:
                continue
            for part, (a, b) in zip(parts, pairwise(bounds), strict=True):
                array[a:b] = self.gather([part])[0]

    def prepared(self, far: FarField, state: State) -> FarField:
        """Return the far field over the others of a state, made of sums of the parts."""
        if state is not self._state:
            self._take(state)
        others, bounds = (self._X, self._rows) if self._Y is None else (self._Y, self._columns)
        return self.gather([self._far_field(far, others, bounds, state)])[0]  # type: ignore[no-any-return]

    def check_seen(self, owner: str, name: str, folder: Path) -> None:
        """Refuse a folder whose place is not there on some workers."""
        check_seen(owner, name, folder, self.client.run(os.path.isdir, str(folder.parent)))

    def _take(self, state: State) -> None:
        """Send the vectors of a state to the workers, in tasks that know them: they can be run again."""
        self._state, self._X = state, self._sent(state.X, self._rows)
        self._Y = None if state.Y is None else self._sent(state.Y, self._columns)
        if self._products is None:
            self._products = Products(self.owners, state.X.shape[1])
        if state.sums is None:
            sides = [(self._X, self._of_rows), *([] if self._Y is None else [(self._Y, self._of_columns)])]
            products = []
            for parts, constants in sides[::-1]:  # of the others first
                n = len(parts)
                own = [self.owners.submit(q, n, weighted, x, constants[q]) for q, x in enumerate(parts)]
                products.append(np.sum(self.gather(own), axis=0))
            state.sums = np.concatenate(products).astype(state.X.dtype)

    def _sent(self, V: Any, bounds: list[int]) -> Parts:
        """Return the parts of vectors on the workers, which read themselves what is in files."""
        return V.parts if isinstance(V, RowsOnWorkers) else sent(self.owners, V, bounds)

    def _far_field(self, far: FarField, others: Parts, bounds: list[int], state: State) -> Any:
        """Return the far field over all others, as a future: from sums of the parts, or on one worker from all rows."""
        submit, n_active = self.owners.submit, self.problem.n_active
        if getattr(far, "takes_moments", False):
            n = len(others)
            unprepared = submit(0, n, kept, far)
            totals = [submit(q, n, moments, unprepared, y, bounds[q]) for q, y in enumerate(others)]
            total, shape = self.owners.joined(totals, n, added), (bounds[-1], state.X.shape[1])
            return submit(0, n, far_of_moments, unprepared, total, shape, state.X.dtype, n_active)
        prepared = submit(0, len(others), far_of_all, far, others, n_active, state.rng)
        state.rng.bit_generator.state = self.gather([submit(0, len(others), itemgetter(1), prepared)])[0]
        return submit(0, len(others), itemgetter(0), prepared)

    def gather(self, futures: list[Any]) -> list[Any]:
        """Return the results; rows that no worker could hold are named."""
        bounds = self._rows

        def where(part: int) -> str:
            return f"rows {bounds[part]} to {bounds[part + 1]}" if part < len(bounds) - 1 else f"part {part}"

        return gathered("EDRep.fit", self.client, futures, where)


def placed_on_workers(
    client: Any, fitted: Any, P: LinearOperator, columns: Any, weights: NDArray[np.float64], others: Any
) -> tuple[Floats, int]:
    """Return the vectors of new rows, and how many still moved; see :class:`nearfar.edrep.transform.FittedColumns`."""
    owners, bounds = Owners(client), bounds_of(P.shape[0])
    products, n = Products(owners, others.shape[1]), len(bounds) - 1
    Y = sent(owners, others, bounds_of(len(others)))
    if columns is not None:  # what is chosen of the others, in another order: a product with a matrix of ones
        ends = np.arange(len(columns) + 1)
        Y = Sparse(ends, columns.astype(np.int32), None, len(others), symmetric=False).through(products, Y)
    pull, far = P.through(products, Y), owners.submit(0, n, kept, fitted)
    done = [
        owners.submit(q, n, placed, far, pull[q], weights[a:b], what="placing")
        for q, (a, b) in enumerate(pairwise(bounds))
    ]
    found = gathered("EDRep.transform", client, done, lambda q: f"rows {bounds[q]} to {bounds[q + 1]}")
    vectors = np.concatenate([part for part, _ in found])
    if not np.isfinite(vectors.sum()):
        check_finite("EDRep.transform", "the fitted vectors", np.asarray(others))
    return vectors, sum(unfinished for _, unfinished in found)


# What the tasks do.


def placed(fitted: Any, pull: Floats, weights: NDArray[np.float64]) -> tuple[Floats, int]:
    """Return the vectors of some new rows, and how many still moved."""
    return fitted.placed(pull, weights, 1)  # type: ignore[no-any-return]


def drawn(own: tuple[Any, Any, int, int], d: int, related: NDArray[np.bool_], solver: Any) -> Floats:
    """Return a part of a random start; zeros for what has no relation."""
    X: Floats = Sphere().drawn(*own, d)
    solver.project(X)
    X[~related] = 0
    return X


def weighted(X: Floats, constants: Any) -> NDArray[np.float64]:
    """Return the sums of a part by its weights."""
    X = aligned(X)
    with single_threaded_blas():
        return (constants[2].astype(X.dtype) @ X).astype(np.float64)  # type: ignore[no-any-return]


def moments(far: Any, Y: Floats, start: int) -> NDArray[np.float64]:
    """Return the sums of a part."""
    with single_threaded_blas():
        return far.moments(aligned(Y), start)  # type: ignore[no-any-return]


def added(totals: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of sums, in order."""
    return np.sum(totals, axis=0)  # type: ignore[no-any-return]


def far_of_moments(far: Any, total: Any, shape: tuple[int, int], dtype: Any, n_active: int) -> Any:
    """Return the far field of a total: none of the others is read, so none is there."""
    made = copy.copy(far)
    made.prepare(np.broadcast_to(np.zeros((), dtype), shape), n_active, np.random.default_rng(0), 1, total)
    return made


def far_of_all(far: Any, others: list[Floats], n_active: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a far field that was given all others, and where its draws ended."""
    made, rng = copy.copy(far), copy.deepcopy(rng)
    with single_threaded_blas():
        made.prepare(np.concatenate(others), n_active, rng, 1)
    return made, rng.bit_generator.state


def moved(
    X: Floats, pull: Floats, constants: Any, far: Any, solver: Solver, rate: float, sums: Any, temperature: float
) -> tuple[Floats, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return a part after a step, and what it gives to loss and sums; without ``far`` it is one of the others."""
    r, p0, weights = constants
    X, pull = aligned(X), aligned(pull)
    bounds = even_bounds(len(X), int(np.clip(2**16 // X.shape[1], 128, 8192)))
    losses, products = np.zeros((len(bounds) - 1, 3)), np.zeros((len(bounds) - 1, len(weights), X.shape[1]))
    step = Step(
        X, lambda a, b: pull[a:b], r, p0, None, weights.astype(X.dtype), far, solver, rate, sums, temperature,
        losses, products,
    )  # fmt: skip
    with single_threaded_blas():
        for block, (start, stop) in enumerate(pairwise(bounds.tolist())):
            (step.others if far is None else step.rows)(block, start, stop)
    return X, (losses.sum(axis=0), products.sum(axis=0))


def aligned(X: Floats) -> Floats:
    """Return an array whose memory begins where arrays of this process do: BLAS sums in another order elsewhere."""
    fresh: Floats = empty_aligned(X.shape, X.dtype)
    fresh[:] = X
    return fresh
