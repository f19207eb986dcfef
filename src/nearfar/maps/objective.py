"""What a map minimises: in linear time for what has formulas, pair by pair for all else.

The equations are those of :mod:`nearfar.methods.maps`; here are P, its pattern, and the objectives that the descent
knows.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array, diags_array, issparse

from nearfar._core.atomic import TemporaryArray
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Array, FloatType, Longs
from nearfar.contracts import Divergence, Field, Floats, Kernel, Place, Rows
from nearfar.divergences.probability import KL, linear_formulas, times_log
from nearfar.engines import on_threads
from nearfar.errors import InputError
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.kernels import HeavyTailed, compiled_kernel
from nearfar.methods import affinities
from nearfar.methods.descent import SignSteps
from nearfar.methods.maps import Cost, LinearMap, Near
from nearfar.methods.noise_maps import Circle, global_cost, global_gradient, local_cost, local_gradient, mean_level
from nearfar.methods.tails import slope_in_alpha
from nearfar.relations.matrix import Relation
from nearfar.relations.operators import LinearOperator, Sparse

Normalization = Literal["pair", "row", "none"]
NORMALIZATIONS: tuple[Normalization, ...] = ("pair", "row", "none")
EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh. Measured, as those below,
over whole maps of 500 to 5,000 points."""
EXACT_WITH_EXP = 750, 1500
"""The same for kernels that take exp, a similarity of which takes two to six times as long; other divergences than KL
begin as t-SNE, whose pairs are quick."""
_FEW_ENTRIES = 2**19  # of P, whose pattern NumPy makes in the tenth of a second: nothing is compiled
_OF_FEW = 125  # bytes for each of these entries that NumPy takes
_ROWS = 4096  # of a block where the pattern is made
_AT_ONCE = 2**18  # entries of P that are read together, by each thread
_TOGETHER = 4  # blocks whose pieces are in memory together
_STRIPS, _LEAST_STRIP = 8, 2**20  # parts in which the pattern is made: how many, and of how many entries at least


def is_linear_time(kernel: Kernel, divergence: Divergence, normalization: str) -> bool:
    """Return whether :class:`NeighborObjective` knows this combination."""
    known = normalization != "none" and linear_formulas(divergence, 0.5) is not None
    return known and compiled_kernel(kernel) is not None


class NeighborObjective(LinearMap):
    """Divergences and kernels with formulas, by row or by pair, the far part left to a field.

    Parameters
    ----------
    P : csr_array or RowBlocks of shape (n, n)
        For ``"pair"`` its total is 1, and (P + Pᵀ) / 2 is what counts; for ``"row"`` rows have sum 1 or are empty. The
        diagonal does not count. It is kept: the pattern is made from it anew for each order of the rows.
    kernel : Kernel
    divergence : Divergence
    normalization : {"row", "pair"}
        How q is made from w.
    field : Field
        The sums over all pairs.
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    weights : ndarray of shape (n,), optional
        Importance s_i >= 0 of the points, for KL by pair: s_i s_j w_ij stands for w_ij.
    place : Place, optional
        Where positions are; by default on the threads of this machine.
    """

    def __init__(
        self,
        P: csr_array | RowBlocks,
        kernel: Kernel,
        divergence: Divergence,
        normalization: str,
        field: Field,
        *,
        dtype: FloatType,
        n_jobs: int,
        weights: Floats | None = None,
        place: Place | None = None,
    ) -> None:
        if weights is not None and (normalization == "row" or divergence != KL()):
            wanted = "None for another cost than KL by pair"
            raise InputError("NeighborObjective", "weights", wanted, f"some with {divergence!r}")
        self.place = on_threads(n_jobs) if place is None else place
        self.cost = Cost(kernel, divergence, normalization == "row", P.shape[0], np.dtype(dtype))
        self.field, self.weights, self._n_jobs = field, weights, n_jobs
        self.P = P if isinstance(P, RowBlocks) else RowBlocks(P)
        self.order: NDArray[np.integer] | None = None
        self._pattern: Pattern | None = None
        self._near: Near | None = None

    def near(self) -> Near:
        """Return what the data say of the map, made when it is first asked for: the first order is known late."""
        if self._pattern is None and hasattr(self.place, "pattern_of"):  # some places make it themselves
            self._pattern = self.place.pattern_of(self.P, self.cost, self.order)
        elif self._pattern is None:  # of P and Pᵀ, in the order of the rows
            symmetric, n_jobs = not self.cost.by_row, self._n_jobs
            self._pattern = union_pattern(self.P, self.cost.dtype, symmetric=symmetric, order=self.order, n_jobs=n_jobs)
        self._near = self._near or self._pattern.near(self.place, self.cost, self.weights)
        return self._near

    def early(self, kernel: Kernel | None = None) -> Self:
        """Return the objective with KL, over the same arrays; with a kernel given, under that, by pair."""
        self.near()
        other = copy.copy(self)
        other.cost, other._near = replace(self.cost, divergence=KL()), None
        if kernel is not None:
            if self.cost.by_row:
                other._pattern = cast("Pattern", self._pattern).paired(self.place)
            other.cost = replace(other.cost, kernel=kernel, by_row=False)
        return other

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was, where rows are read faster that lie side by side."""
        if not getattr(self.place, "sorts", False):
            return False
        self.order = order if self.order is None else self.order[order]
        if self.weights is not None:
            self.weights = self.weights[order]
        pattern, self._pattern, self._near = self._pattern, None, None
        in_memory = self.P.storage is None and not hasattr(self.place, "pattern_of")
        if in_memory and pattern is not None:  # elsewhere it is made anew
            self._pattern = pattern.in_order(order, self._n_jobs)
        return True


class Pattern(NamedTuple):
    """Where P or Pᵀ has an entry off the diagonal: rows, columns, p_ij, and p_ji, by pair the same array."""

    indptr: Longs
    columns: NDArray[np.uint32]
    p_ij: Floats
    p_ji: Floats

    def in_order(self, order: NDArray[np.integer], n_jobs: int) -> Pattern:
        """Return that of the same P, row r being row ``order[r]`` of this one, in whose arrays it is.

        A tenth of the time of :func:`union_pattern`, in as little room: rows that will be last are taken out, the
        others move up, and so on.
        """
        lengths, place = np.diff(self.indptr), np.empty(len(order), np.uint32)
        place[order] = np.arange(len(order), dtype=np.uint32)
        indptr = np.append(0, np.cumsum(lengths[order]))
        cuts = np.unique(np.searchsorted(indptr, np.linspace(0, indptr[-1], _STRIPS + 1)))
        arrays = [self.columns, self.p_ij, self.p_ji][: 2 if self.p_ji is self.p_ij else 3]

        def move(number: int, *_: int) -> None:
            for low, high in reversed([*pairwise(cuts.tolist())]):
                bits = arrays[number].view(f"u{arrays[number].itemsize}")  # one type: numbers of a size move alike
                taken = np.empty(indptr[high] - indptr[low], bits.dtype)
                take_out(lengths, place, indptr, (low, high), bits, taken)
                bits[indptr[low] : indptr[high]] = taken

        def rename(_block: int, start: int, stop: int) -> None:
            self.columns[start:stop] = place[self.columns[start:stop]]

        run_blocks(move, range(len(arrays) + 1), n_jobs)
        run_blocks(rename, even_bounds(len(self.columns), _AT_ONCE), n_jobs)
        return self._replace(indptr=indptr)

    def near(self, place: Place, cost: Cost, weights: Floats | None) -> Near:
        """Return what the data say of a map: the parts of strengths that stay as they are."""
        formulas, mass = cost.formulas, np.zeros(len(self.indptr) - 1)
        both: Array | None = None
        moving: list[Array | None] = [None, None]
        if formulas.fixed is not None:
            fixed = formulas.fixed(self.p_ij)
            mass = row_sums(self.indptr, fixed)
            both = fixed + formulas.fixed(self.p_ji) if cost.by_row else fixed
        if formulas.strength is not None:
            prepared = formulas.prepared
            moving = [p if prepared is None else np.asarray(prepared(p), cost.dtype) for p in (self.p_ij, self.p_ji)]
        strengths = both, moving[0], moving[1] if cost.by_row else None
        near = Near(self[:2], self.p_ij, strengths, mass, float(mass.sum()))
        if weights is None:
            return near
        of_weights = float(2 * times_log(row_sums(self.indptr, self.p_ij), weights.astype(np.float64)).sum())
        return near._replace(weights=place.bring(weights.astype(cost.dtype)), of_weights=of_weights)

    def paired(self, _place: Place) -> Pattern:
        """Return the pattern by pair of one by row."""
        p = self.p_ij + self.p_ji
        p /= p.sum(dtype=np.float64)
        return self._replace(p_ij=p, p_ji=p)


def probabilities_of_map(owner: str, relation: Relation, normalization: str, *, on_workers: bool = False) -> RowBlocks:
    """Return P of a map, without self-loops: rows of sum 1 for "row", total 1 for "pair", as it is for "none".

    ``on_workers`` says that rows which are on the workers of a cluster may stay there.

    Raises
    ------
    InputError
        The relation is not square, or has no entry but self-loops.
    """
    if not relation.is_square:
        hint = "A map shows objects of one kind."
        raise InputError(owner, "X", "a square relation, with the same ids on both sides", repr(relation), hint)
    operator = relation.operator
    stays = isinstance(operator, Sparse) or (on_workers and operator.row_parts is not None)
    P = RowBlocks(operator if stays else relation.to_scipy())
    total = P.sums.sum()
    if not total > 0:
        raise InputError(owner, "X", "a relation between different objects", "self-loops alone")
    if normalization == "row":
        P.factors = np.divide(1, P.sums, out=np.zeros_like(P.sums), where=P.sums > 0)
    elif normalization == "pair":
        P.factors = np.full(len(P.sums), 1 / total)
    return P


def memory_of_pattern(nnz: int, dtype: FloatType, by_row: bool) -> tuple[int, int]:
    """Return the bytes that :func:`union_pattern` takes for P with so many entries: the peak of most fits.

    Those of the pattern, which has about 1.45 times as many entries as P; and of a part of it and some rows of P.
    """
    of_number = np.dtype(dtype).itemsize
    numbers = of_number * (1 + by_row)  # by row p_ij and p_ji
    part = min(2 * nnz, max(2 * nnz // _STRIPS, _LEAST_STRIP)) * (4 + of_number)
    beside = part + min(nnz, _TOGETHER * _AT_ONCE) * (12 + numbers)
    return nnz * 29 * (4 + numbers) // 20, _OF_FEW * nnz if nnz <= _FEW_ENTRIES else beside


class RowBlocks:
    """A square sparse matrix of numbers >= 0, read a block of rows at a time.

    Parameters
    ----------
    source : csr_array, or operator with ``shape``, ``nnz`` and ``rows(start, stop)``, of shape (n, n)

    Attributes
    ----------
    source : operator
        What is read.
    sums : ndarray of shape (n,), float64
        Of the rows, without the diagonal.
    out, back : ndarray of shape (n,), int64
        Stored entries of each row and of each column.
    factors : ndarray of shape (n,), float64, or float, or None
        What rows are multiplied by when they are read: each by its own, or all by the same.
    storage : Path or None
        Folder for the pattern that is made of it, see :func:`union_pattern`.
    """

    storage: Path | None = None

    def __init__(self, source: csr_array | LinearOperator) -> None:
        if issparse(source):
            P = csr_array(source)
            if not P.has_canonical_format:  # rows must be sorted; the caller's stay as they are
                P = P.copy()
                P.sum_duplicates()
            source = Sparse(P.indptr, P.indices, P.data, P.shape[1], symmetric=False)
        self.shape, self.source = source.shape, source
        self.factors: NDArray[np.float64] | float | None = None
        n = self.shape[0]
        # Blocks follow from the data alone.
        self.bounds = even_bounds(n, max(64, (_AT_ONCE * n) // max(source.nnz, 1)))
        self.sums, self.out, self.back = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for start, stop in pairwise(self.bounds.tolist()):
            block = self.read(start, stop)
            self.out[start:stop] = np.diff(block.indptr)
            np.add.at(self.back, block.indices, 1)
            self.sums[start:stop] = row_sums(block.indptr, block.data) - block.diagonal(start)

    def read(self, start: int, stop: int) -> csr_array:
        """Return rows start..stop; the order within a row is any, its numbers may be changed."""
        block = self.source.unsorted_rows(start, stop)
        if isinstance(self.factors, np.ndarray):
            factors = self.factors[start:stop].astype(block.dtype)
            block.data *= np.repeat(factors, np.diff(block.indptr))
        elif self.factors is not None:
            block.data *= block.dtype.type(self.factors)
        return block

    def typical(self) -> float:
        """Return the mean of the entries, each weighted by itself."""
        total = squares = 0.0
        for start, stop in pairwise(self.bounds.tolist()):
            data = self.read(start, stop).data
            total += float(data.sum(dtype=np.float64))
            squares += float((data**2).sum(dtype=np.float64))
        return squares / total

    def to_csr(self) -> csr_array:
        """Return all rows, without the diagonal."""
        P = self.read(0, self.shape[0])
        P.sum_duplicates()
        if not P.data.all():
            P.eliminate_zeros()
        if P.diagonal().any():
            P = csr_array(P - diags_array(P.diagonal()))
            P.eliminate_zeros()
        return P


def union_pattern(
    P: csr_array | RowBlocks,
    dtype: FloatType,
    *,
    symmetric: bool = False,
    order: NDArray[np.integer] | None = None,
    n_jobs: int = 1,
) -> Pattern:
    """Return the pattern of where P or Pᵀ has an entry off the diagonal, row r being ``order[r]``.

    If symmetric, p_ij and p_ji are the same array, their mean. P is a csr_array or RowBlocks, and is read several
    times, so that beside the answer there is room for a part of it alone: the entries of some rows of P and of Pᵀ. The
    entries of a row come in the order of the columns of P, whatever ``order`` is. If ``P.storage`` names a folder the
    answer, but for indptr, is mapped from nameless files there, which go with it.
    """
    P = P if isinstance(P, RowBlocks) else RowBlocks(P)
    n, floats = P.shape[0], np.dtype(dtype)
    order = np.arange(n) if order is None else order
    place = np.empty(n, np.uint32)
    place[order] = np.arange(n, dtype=np.uint32)
    if P.storage is None and P.out.sum() <= _FEW_ENTRIES:  # in NumPy, with the same bits
        few = P.read(0, n)
        i, j = np.repeat(np.arange(n), np.diff(few.indptr)), few.indices.astype(np.int64)
        kept = (i != j) & (few.data != 0)
        i, j, given = i[kept], j[kept], few.data[kept].astype(floats)
        pairs = np.sort(np.concatenate([i * n + j, j * n + i]))  # np.unique looks each up, twelve times as long
        another = np.ones(len(pairs), bool)
        another[1:] = pairs[1:] != pairs[:-1]
        pairs = pairs[another]
        p_ij, p_ji = np.zeros((2, len(pairs)), floats)
        p_ij[np.searchsorted(pairs, i * n + j)], p_ji[np.searchsorted(pairs, j * n + i)] = given, given
        sides = [affinities.symmetric(p_ij, p_ji)] if symmetric else [p_ij, p_ji]
        rows = place[pairs // n]
        by_row = np.argsort(rows, kind="stable")
        values = [side[by_row] for side in sides]
        indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
        return Pattern(indptr, place[pairs % n][by_row], values[0], values[-1])
    out, back = P.out[order], P.back[order]
    ends = np.cumsum(out + back)
    most = int(ends[-1]) if n else 0
    strips = np.unique(np.searchsorted(ends, np.arange(1, _STRIPS) * max(most // _STRIPS, _LEAST_STRIP)))
    strips = np.unique([0, *(strips[strips < n] + 1), n]) if n else np.zeros(1, np.int64)

    def room(kind: DTypeLike) -> NDArray[np.generic] | TemporaryArray:
        return np.empty(most, kind) if P.storage is None else TemporaryArray(P.storage, most, kind)

    of_pairs = [room(floats) for _ in range(1 if symmetric else 2)]
    columns, lengths, at = room(np.uint32), np.zeros(n, np.int64), 0
    for low, high in pairwise(strips.tolist()):
        begins = np.append(0, np.cumsum(out[low:high] + back[low:high]))
        begins_back = begins[:-1] + out[low:high]
        limits = begins[:-1], begins[:-1].copy(), begins_back, begins_back.copy()
        part = np.empty(begins[-1], np.uint32), np.empty(begins[-1], floats)
        for first in range(0, len(P.bounds) - 1, _TOGETHER):
            some = P.bounds[first : first + _TOGETHER + 1]
            blocks = run_blocks(lambda _block, start, stop: P.read(start, stop), some, n_jobs)
            for start in some[:-1].tolist():  # in the order of P, whatever the number of threads
                block = blocks.pop(0)
                indptr, indices = np.asarray(block.indptr, np.int64), np.asarray(block.indices, np.int32)
                rows = indptr, indices, np.asarray(block.data, floats)
                scatter_rows(rows, start, place, (low, high), limits[1::2], part)
        merge = partial(_merged, limits, part, place, lengths[low:high], 1 if symmetric else 2)
        bounds = even_bounds(high - low, _ROWS)
        for first in range(0, len(bounds) - 1, _TOGETHER):
            for piece in run_blocks(merge, bounds[first : first + _TOGETHER + 1], n_jobs):
                if symmetric:
                    np.multiply(piece[1], floats.type(0.5), out=piece[1])
                for whole, made in zip((columns, *of_pairs), piece, strict=True):
                    whole[at : at + len(made)] = made
                at += len(piece[0])
    for whole in (columns, *of_pairs):
        whole.resize(at, refcheck=False)
    values = [np.asarray(whole, floats) for whole in of_pairs]
    return Pattern(np.append(0, np.cumsum(lengths)), np.asarray(columns, np.uint32), values[0], values[-1])


def _merged(
    limits: tuple[Longs, Longs, Longs, Longs],
    part: tuple[NDArray[np.uint32], Floats],
    place: NDArray[np.uint32],
    lengths: Longs,
    n_values: int,
    _block: int,
    start: int,
    stop: int,
) -> list[NDArray[np.generic]]:
    """Return [columns, values, ...] of some rows of the pattern."""
    size = int(limits[-1][stop - 1] - limits[0][start])
    made = np.empty(size, np.uint32), *(np.empty(size * (k < n_values), part[1].dtype) for k in range(2))
    merge_rows(limits, part, place, lengths, made, start, stop)
    return [some[: lengths[start:stop].sum()] for some in made[: 1 + n_values]]


def row_sums(indptr: NDArray[np.integer], values: Floats) -> NDArray[np.float64]:
    """Return the sums of the rows of a sparse matrix, in float64."""
    sums, filled = np.zeros(len(indptr) - 1), np.flatnonzero(np.diff(indptr))
    for start in range(0, len(filled), _ROWS):  # in pieces, of which NumPy makes a copy in float64
        rows = filled[start : start + _ROWS]
        begin = indptr[rows[0]]
        sums[rows] = np.add.reduceat(values[begin : indptr[rows[-1] + 1]], indptr[rows] - begin, dtype=np.float64)
    return sums


@jit
def take_out(lengths, place, indptr, wanted, values, taken):
    """Take those rows out of values whose places are wanted, and move up those of lower ones; higher ones are gone."""
    (low, high), at, to = wanted, indptr[0], indptr[0]
    for r in range(lengths.size):
        if place[r] >= high:
            continue
        if place[r] >= low:
            first = indptr[place[r]] - indptr[low]
            for t in range(lengths[r]):
                taken[first + t] = values[at + t]
        else:
            for t in range(lengths[r]):
                values[to + t] = values[at + t]
            to += lengths[r]
        at += lengths[r]


@jit
def scatter_rows(rows, start, place, strip, ends_of, out):
    """Add the entries of some rows of P, from ``start`` on, to a strip of rows of the pattern.

    They come behind the last of P, or of Pᵀ, there. Columns are those of P, not yet their places.
    """
    (indptr, indices, data), (low, high), (ends, ends_back), (columns, values) = rows, strip, ends_of, out
    for i in range(indptr.size - 1):
        r = place[start + i]
        mine = low <= r < high
        for e in range(indptr[i], indptr[i + 1]):
            c = place[indices[e]]
            if c == r or data[e] == 0:
                continue
            if mine:
                at = ends[r - low]
                ends[r - low] = at + 1
                columns[at], values[at] = indices[e], data[e]
            if low <= c < high:
                at = ends_back[c - low]
                ends_back[c - low] = at + 1
                columns[at], values[at] = start + i, data[e]


@jit
def merge_rows(bounds, given, place, lengths, made, start, stop):
    """Write rows in the order of the columns; those of Pᵀ have that already. An empty p_ji: the sum is wanted."""
    begins, ends, begins_back, ends_back = bounds
    columns, values = given
    made_columns, p_ij, p_ji = made
    at = begins[start] - begins[start]
    for r in range(start, stop):
        for e in range(begins[r] + 1, ends[r]):  # by insertion: rows are short, or in order from the start
            c, value, to = columns[e], values[e], e
            while to > begins[r] and columns[to - 1] > c:
                columns[to], values[to] = columns[to - 1], values[to - 1]
                to -= 1
            columns[to], values[to] = c, value
        first, e, back = at, begins[r], begins_back[r]
        while e < ends[r] or back < ends_back[r]:
            here = e < ends[r] and (back >= ends_back[r] or columns[e] <= columns[back])
            there = back < ends_back[r] and (e >= ends[r] or columns[back] <= columns[e])
            made_columns[at] = place[columns[e if here else back]]
            zero = values[begins[r]] - values[begins[r]]
            p, q = values[e] if here else zero, values[back] if there else zero
            if p_ji.size:
                p_ij[at], p_ji[at] = p, q
            else:
                p_ij[at] = p + q
            at += 1
            e, back = e + here, back + there
        lengths[r] = at - first


_PAIRS = 2**19  # of noise at least, in each evaluation of "local"


class NoiseObjective(NeighborObjective):
    """KL by pair with the repulsion sampled, the steps along a circle of the points anew in each evaluation.

    The near part's pattern and order are those of :class:`NeighborObjective`; no field is asked.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Its total is 1, and (P + Pᵀ) / 2 is what counts; the diagonal does not.
    kernel : Kernel
        With formulas.
    noise : NoisePairs
        Which cost.
    rng : Generator
        Of the circle and, by a seed that it gives, of the steps of each evaluation.
    **where
        ``dtype``, ``n_jobs`` and ``place``, as for :class:`NeighborObjective`.
    """

    def __init__(
        self, P: csr_array | RowBlocks, kernel: Kernel, noise: NoisePairs, *, rng: np.random.Generator, **where: Any
    ) -> None:
        super().__init__(P, kernel, KL(), "pair", ExactField(), **where)
        n: int = P.shape[0]
        self._noise, self._m = noise, min(noise.n_samples, n - 1)
        self._ranking = noise.objective == "global"
        self._points = rng.permutation(n).astype(np.int64)
        self._seed, self._evaluations = int(rng.integers(2**63)), 0
        self._drawn = self._m if self._ranking else max(self._m, -(-_PAIRS // n))
        self._reported = self._steps(self._drawn, 2**63)  # the noise of what is reported: the same at all times

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was; the points stay where they are in the circle."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._points = place[self._points]
        return super().reorder(order)

    def evaluate(
        self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False, slope: bool = True
    ) -> tuple[Rows, float | None]:
        """Return the gradient at Y for fresh noise, and the cost for that of all reports, of what is asked for."""
        found = self.value_of(Y, Circle(self._points, self._reported)) if cost else None
        if not slope:
            return None, found
        circle = Circle(self._points, self._steps(self._drawn, self._evaluations))
        self._evaluations += 1
        return self.gradient(Y, circle, exaggeration), found

    def gradient(self, Y: Rows, circle: Circle, exaggeration: float = 1.0) -> Rows:
        """Return the gradient for given noise."""
        parts = self.place, self.cost, self.near(), circle, Y
        if self._ranking:
            return global_gradient(*parts, exaggeration)
        return local_gradient(*parts, self.level(Y, circle), self._m, exaggeration)

    def value_of(self, Y: Rows, circle: Circle) -> float:
        """Return the cost for given noise; "global" takes the first m steps of it."""
        parts = self.place, self.cost, self.near()
        if self._ranking:
            return global_cost(*parts, Circle(circle.order, circle.steps[: self._m]), Y)
        return local_cost(*parts, circle, Y, self.level(Y, circle), self._m)

    def level(self, Y: Rows, circle: Circle) -> Array | float:
        """Return a of "local": m Zbar over the number of ordered pairs."""
        zbar, n = self._noise.normalizer, self.cost.n
        if zbar == "t-sne":
            return mean_level(self.place, self.cost, circle, Y, self._m)
        return 1.0 if zbar == "umap" else self._m * float(zbar) / (n * (n - 1))

    def _steps(self, count: int, key: int) -> NDArray[np.int64]:
        """Return different steps along the circle, of a generator that the key starts; all there are, if not more."""
        if count >= self.cost.n - 1:
            return np.arange(1, self.cost.n)
        rng = np.random.default_rng([self._seed, key])
        return rng.choice(self.cost.n - 1, count, replace=False) + 1


ALPHA_FIRST = 0.5
"""alpha before it is learned."""
ALPHA_EVERY = 10
"""Iterations between two steps of alpha, which take the time of two."""
ALPHA_LEAST, ALPHA_MOST = 0.2, 5.0
"""alpha that is learned stays in between: less is hardly told from the exponential kernel."""


class TailObjective(NeighborObjective):
    """KL by pair under a heavy-tailed kernel whose alpha is learned beside the positions, from some iteration on."""

    def __init__(self, P: RowBlocks, kernel: HeavyTailed, field: Field, begins: int, **where: Any) -> None:
        super().__init__(P, kernel, KL(), "pair", field, **where)
        self.alpha, self._begins = kernel.alpha, begins
        self._steps = SignSteps(np.array(0.05), 1e-3, 0.1, ALPHA_LEAST, ALPHA_MOST)

    def advance(self, Y: Rows, iteration: int) -> None:
        """Let alpha take a step."""
        if iteration < self._begins or iteration % ALPHA_EVERY:
            return
        slope = slope_in_alpha(self.place, self.cost, self.near(), self.field, Y)
        self.alpha = float(self._steps.moved(np.array(self.alpha), np.array(slope)))
        self.cost = replace(self.cost, kernel=HeavyTailed(self.alpha))
