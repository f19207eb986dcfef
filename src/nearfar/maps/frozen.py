"""Some points of a map move while all others rest: the cost of t-SNE, at the price of those that move.

The cost is KL by pair under the kernel of the map, less what no move changes::

    C = -sum_(i or j moves) p_ij ln w_ij + ln Z,      Z = Z_rest + sum_moving (2 Phi_rest(y_i) + Phi_moving(y_i))

The potential of the points that rest is a function of the place alone: on a mesh it is made once, and read where it is
asked for. So an iteration costs what moves, however many rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nearfar._core.jit import bind
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import RowNumbers
from nearfar.contracts import Field, Floats, Kernel, Objective, Place, Potential, Term
from nearfar.divergences.probability import KL, accuracy_of
from nearfar.engines import in_numpy, on_threads
from nearfar.far.fields import ExactField, linear_kernel, pair_sums, pair_sums_any
from nearfar.far.mesh import (
    Buffers,
    MeshField,
    choose_mesh,
    convolve,
    influence,
    read,
    sort_points,
    spread,
    wanted_mesh,
)
from nearfar.kernels import squared_distances
from nearfar.maps.objective import RowBlocks
from nearfar.maps.pull import Pull
from nearfar.maps.settings import EXACT_UP_TO
from nearfar.methods.linear_maps import Cost, attraction, entry_cost
from nearfar.methods.maps import cost_of_pull, pull_of

STRONGEST = 15
"""Neighbours to whose places a point may jump, and by whom groups hang together."""
_ROWS = 64  # of a block, where all points that rest are summed
_COARSEST = 0.1
_MARGIN = 0.25  # of a map's width that the mesh reaches beyond the points that rest


class InNumPy:
    """Pair by pair in NumPy: the reference, and what few points need no compiled code for."""

    def __init__(self, Y: Floats, kernel: Kernel) -> None:
        self._Y, self._kernel = np.asarray(Y, np.float64), kernel

    def at(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the potential at some places, and its gradient."""
        f = squared_distances(np.asarray(X, np.float64), self._Y)
        slope = 2 * self._kernel.slope(f)
        gradient = slope.sum(axis=1)[:, None] * X - slope @ self._Y
        return self._kernel.weight(f).sum(axis=1).astype(X.dtype), gradient.astype(X.dtype)


class FieldInNumPy:
    """The same as a field: sums over points at these points, each left out of its own."""

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:  # noqa: ARG002 - of all fields
        """Take in the positions and the kernel."""
        self._Y, self._rest, self._own = Y, InNumPy(Y, kernel), float(kernel.weight(np.zeros((1, 1)))[0, 0])

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potential of w, once for each term."""
        value, gradient = self._rest.at(self._Y)
        return [Potential(value - self._Y.dtype.type(self._own), gradient) for _ in terms]

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the potential of w."""
        return self.evaluate(terms)[0]


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
        self._tolerance, self._read = tolerance, Buffers()
        low, high = Y.min(axis=0), Y.max(axis=0)
        self._cover(low, high)

    def _cover(self, low: Floats, high: Floats) -> None:
        """Make the potential on a mesh of a box and some room around it."""
        Y, n_jobs, room, buffers = self._Y, self._n_jobs, _MARGIN * (high - low).max(), Buffers()
        self._low, self._high = low - room, high + room
        self._mesh = mesh = choose_mesh(self._high - self._low, *wanted_mesh(self._kernel, self._tolerance), len(Y))
        rho = np.empty((mesh.rows, mesh.shape.columns), Y.dtype)
        spread(sort_points(Y, self._low, mesh, n_jobs, buffers), mesh, np.empty(0, Y.dtype), rho, n_jobs)
        self._influence = influence(self._kernel, "weight", mesh.shape, Y.dtype)
        self._potential = convolve([rho], mesh, [[(0, self._influence)]], n_jobs, buffers)[0]

    def at(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the potential at some places, and its gradient."""
        low, high = X.min(axis=0), X.max(axis=0)
        if (low < self._low).any() or (high > self._high).any():
            self._cover(np.minimum(low, self._low), np.maximum(high, self._high))
        points = sort_points(X, self._low, self._mesh, self._n_jobs, self._read)
        parts = [
            (np.zeros(len(X), X.dtype), self._influence)
        ]  # places have no charge: nothing of their own to leave out
        totals = [float(len(self._Y))]
        return read(points, self._mesh, self._potential, parts, self._n_jobs, self._read, "at", totals)


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
    def place(self) -> Place:
        """Where what moves is computed."""
        return in_numpy() if self.plain else on_threads(self.n_jobs)

    @property
    def _tolerance(self) -> float:
        accuracy = accuracy_of(KL())
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
        return MeshField(min(self._tolerance * math.sqrt(self.n / m), _COARSEST))

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
        self._stiffness = (self.pull.weights / self.n).astype(self.dtype)
        self._places = np.where(self._stiffness[:, None] > 0, self.pull.places, 0).astype(self.dtype)

    def held(self) -> Floats:
        """Return how strongly the points that move are drawn to places."""
        return self._stiffness

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
        """Return the gradient at Y, with what new points have to do with each other exaggerated, and the cost."""
        self._Y[: self.m] = Y
        p = self._p if exaggeration == 1 else np.where(self._is_new, exaggeration * self._p, self._p)
        rows, numbers = (self._Y,), {"cost": self.cost, "totals": [np.ones(1)], "error": 0.0, "exaggeration": 1.0}
        found = self.place.pairs(attraction, self._pattern, rows, rows, p, None, None, **numbers)
        Z, slope = self.sums(Y)
        gradient = found[0][: self.m] + self.dtype.type(2 / (self.Z or Z)) * slope
        pull_of(gradient, Y, self._places, self._stiffness)
        return gradient, self._cost(Y, Z) if cost else None

    def value(self, Y: Floats) -> float:
        """Return the cost, up to a constant."""
        self._Y[: self.m] = Y
        return self._cost(Y, self.sums(Y)[0])

    def _cost(self, Y: Floats, Z: float) -> float:
        numbers = {"cost": self.cost, "totals": [np.ones(1)], "error": 0.0}
        entries = self.place.pairs(entry_cost, self._pattern, (self._Y,), (self._Y,), self._counted, **numbers)[0]
        far = math.log(Z) if self.Z is None else Z / self.Z
        of_pull = float(cost_of_pull(Y, self._places, self._stiffness)[0])
        return far + float(entries[: self.m].sum()) - self._of_p + of_pull
