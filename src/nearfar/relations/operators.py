"""Operators: what a relation is made of. Sparse matrices, their products, sums, scaled rows, transposes and walks.

An operator is a non-negative linear map P, known by its product with a dense block and that of its transpose. Nothing
is multiplied out. The mean of the first k powers of B takes one product per power, by Horner's rule::

    P X = (B + B² + ... + Bᵏ) X / k :      T_1 = X,      T_j = X + B T_(j-1),      P X = B T_k / k

At the end are products on the threads of this machine, and the near field of a fit, which makes them block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from math import isfinite
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse

from nearfar._core.checks import available_processors, check_csr, check_numbers
from nearfar._core.ids import Ids
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles, Flags, Indices, Integers, Longs, MatrixLike, RowNumbers, Singles
from nearfar._core.vector import empty_aligned, read_only
from nearfar.contracts import Floats
from nearfar.errors import DataError, InputError, counted
from nearfar.relations import kernels

BLOCK = 2048
"""Rows a thread takes at a time: long enough to hide the hand-out, short enough to balance hubs."""
_MOST = np.iinfo(np.int32).max  # rows and columns: they are numbered in 32 bits
PIECE = 1 << 20  # stored entries that are looked at together where all are, outside of the kernels


V = TypeVar("V")


class Products(ABC, Generic[V]):
    """What an engine must know of sparse matrices to multiply with any operator.

    ``base`` may be None. The result may take the place of ``out``, also where that is the base; with None it is new.
    """

    def give(self, made: V) -> None:
        """Take back a result in between, to be written over."""

    @abstractmethod
    def sparse(self, A: Any, X: V, base: V | None, factor: float, out: V | None, *, transposed: bool) -> V:
        """Return ``base + factor * A X``, of A or its transpose: a ``Sparse``, or what has its rows on workers."""

    @abstractmethod
    def scaled(self, scale: Singles, X: V, base: V | None, factor: float, out: V | None) -> V:
        """Return ``base + factor * diag(scale) X``."""


class LinearOperator(ABC):
    """A non-negative linear map P of shape (n, m), known by its products."""

    shape: tuple[int, int]
    parts: tuple[LinearOperator, ...] = ()  # the operators that it is made of
    is_undirected = False
    """Whether it is known to be symmetric up to a scaling of the rows, or a mean of powers of such."""
    row_parts: Any = None
    column_parts: Any = None
    """Where they are on the workers of a cluster: its rows, and those of the transpose, in parts."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        """Return rows start..stop multiplied out."""

    def unsorted_rows(self, start: int, stop: int) -> csr_array[np.float32]:
        """Return the same, its entries in any order, some of them 0, where that is quicker."""
        return self.rows(start, stop)

    def columns_of(self, rows: RowNumbers) -> tuple[Integers, RowNumbers]:
        """Return the columns of the entries of some rows, one row after the other, and how many each row has."""
        found = [self.rows(row, row + 1).indices for row in rows.tolist()]
        return np.concatenate([np.empty(0, np.int32), *found]), np.array([len(some) for some in found], np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory (a factor that occurs twice counts twice); what files hold is not counted."""
        return sum(part.nbytes for part in self.parts)

    def transpose_nbytes(self) -> int:
        """Return the bytes that products of the transpose add to ``nbytes``, once there was one."""
        return sum(part.transpose_nbytes() for part in self.parts)

    @cached_property
    def nnz(self) -> int:
        """Stored entries over all factors."""
        return sum(part.nnz for part in self.parts)

    @cached_property
    def is_small(self) -> bool:
        """Whether all sparse matrices that it is made of are multiplied by SciPy, so that nothing is compiled for it.

        For the size of the data alone to decide: the last bits of a product depend on it.
        """
        return bool(self.parts) and all(part.is_small for part in self.parts)

    def matmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return P X for X of shape (m, d), in X's dtype; O(nnz d) time."""
        return times(self, ThreadProducts(n_jobs), X)

    def rmatmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return Pᵀ X for X of shape (n, d), in X's dtype; O(nnz d) time."""
        return times(self, ThreadProducts(n_jobs), X, transposed=True)

    def multiplied(self, X: Floats, *, transposed: bool, n_jobs: int) -> tuple[Floats, bool]:
        """Return P X, or Pᵀ X, and whether NaN, infinity or a number near the largest is in it."""
        out = np.empty((self.shape[transposed], X.shape[1]), X.dtype)
        threads = ThreadProducts(n_jobs, out)
        return times(self, threads, X, out=out, transposed=transposed), bool(threads.overflown)

    @cached_property
    def row_sums(self) -> Doubles:
        """P 1, shape (n,), float64."""
        return np.asarray(self.matmat(np.ones((self.shape[1], 1)), n_jobs=available_processors())[:, 0], np.float64)

    @cached_property
    def column_sums(self) -> Doubles:
        """Pᵀ 1, shape (m,), float64."""
        return np.asarray(self.rmatmat(np.ones((self.shape[0], 1)), n_jobs=available_processors())[:, 0], np.float64)

    def transpose(self) -> LinearOperator:
        """Return Pᵀ."""
        return Transposed(self)

    def __add__(self, other: LinearOperator) -> WeightedSum:
        sums = [one if isinstance(one, WeightedSum) else WeightedSum((1.0,), (one,)) for one in (self, other)]
        return WeightedSum(sums[0].weights + sums[1].weights, sums[0].parts + sums[1].parts)

    def normalized(self, power: float = 1.0) -> LinearOperator:
        """Return P with its rows over a power of their sums; empty rows stay empty."""
        return RowScaled(inverse_of(self.row_sums, power), self)

    def information(self, shift: float) -> LinearOperator | None:  # noqa: ARG002
        """Return positive pointwise mutual information in place of the entries; None where these are not stored."""
        return None

    def without(self, isolates: Longs) -> LinearOperator | None:  # noqa: ARG002
        """Return a square operator without rows that are empty, as their columns are; None where that is not cheap."""
        return None


def inverse_of(sums: Doubles, power: float = 1.0) -> Singles:
    """Return 1 over a power of the sums of rows: 0 for an empty row."""
    sums = sums if power == 1 else sums**power
    return np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0).astype(np.float32)


def rows_of(indptr: Integers, start: int, stop: int) -> Indices:
    """Return the row of each of the stored entries start..stop, int32."""
    first, last = np.searchsorted(indptr, [start, stop - 1], side="right") - 1
    bounds = np.clip(indptr[first : last + 2], start, stop)
    return np.repeat(np.arange(first, last + 1, dtype=np.int32), bounds[1:] - bounds[:-1])


def cuts_of_rows(indptr: Integers, limit: int) -> list[int]:
    """Return bounds of blocks of rows that have at most so many entries each, or one row, and at most so many rows."""
    cuts, n = [0], len(indptr) - 1
    while cuts[-1] < n:
        start = cuts[-1]
        stop = int(np.searchsorted(indptr, int(indptr[start]) + limit, side="right")) - 1
        cuts.append(min(max(stop, start + 1), n, start + limit))
    return cuts


class Sparse(LinearOperator):
    """``diag(row_scale) A`` for a CSR matrix A.

    The arrays are kept as read-only views: relations share them, and arrays that are mapped from files are of the same
    kind then, so that every kernel is compiled once.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,), int64 (or int32)
    indices : ndarray of shape (nnz,), int32
        Sorted and distinct within a row.
    data : ndarray of shape (nnz,), float32, > 0, or None
        None: all entries are 1.
    n_columns : int
    symmetric : bool
        Whether A is symmetric; its transpose is then never built.

    Attributes
    ----------
    row_scale : ndarray of shape (n,), float32, >= 0, or None
        None: all are 1.
    """

    def __init__(
        self, indptr: Integers, indices: Indices, data: Singles | None, n_columns: int, *, symmetric: bool
    ) -> None:
        self.indptr, self.indices, self.data = read_only((indptr, indices, data))
        self.shape = (len(indptr) - 1, n_columns)
        self.symmetric = self.is_undirected = symmetric
        self.row_scale: Singles | None = None

    def __setstate__(self, state: dict[str, object]) -> None:
        # Arrays from a pickle can be written to: for compiled code another type, and for all its kernels another wait.
        self.__dict__.update({k: v if k == "row_scale" else read_only(v) for k, v in state.items()})

    def scaled(self, row_scale: Singles | None) -> Sparse:
        """Return ``diag(row_scale) A``, sharing A; an earlier scale is replaced."""
        new = object.__new__(type(self))
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("row_sums", "column_sums")})
        new.row_scale = row_scale
        return new

    def normalized(self, power: float = 1.0) -> LinearOperator:
        plain = self if self.row_scale is None else self.scaled(None)
        return plain.scaled(inverse_of(plain.row_sums, power))

    def transpose(self) -> LinearOperator:
        return self if self.symmetric and self.row_scale is None else Transposed(self)

    def information(self, shift: float) -> Sparse | None:
        if self.row_scale is not None:
            return None
        counts, indices, data = map(np.concatenate, zip(*self.informed(shift), strict=True))
        indptr = np.append(0, np.cumsum(counts))
        return Sparse(indptr, indices, data, self.shape[1], symmetric=self.symmetric)

    def informed(self, shift: float) -> Iterator[tuple[Longs, Indices, Singles]]:
        """Yield the same, some rows at a time: how many entries are above 0 in each, their columns, and they."""
        rows, columns = self.row_sums, self.row_sums if self.symmetric else self.column_sums
        total = columns.sum()
        for start, stop in pairwise(cuts_of_rows(self.indptr, PIECE)):
            block = self.rows(start, stop)
            # A product of the two sums: a symmetric matrix stays one to the last bit.
            by_chance = np.repeat(rows[start:stop], np.diff(block.indptr)) * columns[block.indices]
            values = np.log(block.data.astype(np.float64) * total / by_chance) - shift
            above = values > 0
            counts = np.diff(np.append(0, np.cumsum(above))[block.indptr])
            yield counts, block.indices[above], values[above].astype(np.float32)

    @cached_property
    def is_small(self) -> bool:
        """Whether it is multiplied by SciPy."""
        return kernels.is_small(self.shape, self.nnz)

    def stored(self, *, transposed: bool) -> kernels.CsrArrays:
        """Return the arrays of A, or those of its transpose."""
        return self._transposed if transposed and not self.symmetric else (self.indptr, self.indices, self.data)

    def without(self, isolates: Longs) -> LinearOperator | None:
        new_index = np.delete(np.arange(self.shape[0]), isolates)
        index_of = np.zeros(self.shape[0], np.int32)
        index_of[new_index] = np.arange(new_index.size, dtype=np.int32)
        indptr = np.append(self.indptr[new_index], self.indptr[-1])
        smaller = Sparse(indptr, index_of[self.indices], self.data, new_index.size, symmetric=self.symmetric)
        smaller.row_scale = None if self.row_scale is None else self.row_scale[new_index]
        smaller.is_small = self.is_small  # a relation in files keeps its isolates, and has the same bits
        return smaller

    @cached_property
    def _transposed(self) -> kernels.CsrArrays:
        return read_only(kernels.transpose(self.indptr, self.indices, self.data, self.shape[1]))

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        span = slice(int(self.indptr[start]), int(self.indptr[stop]))
        indptr = np.asarray(self.indptr[start : stop + 1] - self.indptr[start])
        data = np.ones(span.stop - span.start, np.float32) if self.data is None else self.data[span].copy()
        if self.row_scale is not None:
            data = data * np.repeat(self.row_scale[start:stop], np.diff(indptr))
        return csr_array((data, self.indices[span].copy(), indptr), shape=(stop - start, self.shape[1]))

    def columns_of(self, rows: RowNumbers) -> tuple[Integers, RowNumbers]:
        begins, counts = self.indptr[rows], np.asarray(self.indptr[rows + 1] - self.indptr[rows], np.int64)
        ends = np.cumsum(counts)
        return self.indices[np.repeat(begins - ends + counts, counts) + np.arange(counts.sum())], counts

    @property
    def nbytes(self) -> int:
        arrays = [self.indptr, self.indices, self.data, self.row_scale, *self.__dict__.get("_transposed", ())]
        return sum(a.nbytes for a in arrays if a is not None)

    def transpose_nbytes(self) -> int:
        if self.symmetric or "_transposed" in self.__dict__:
            return 0
        return 8 * (self.shape[1] + 1) + self.nnz * (4 if self.data is None else 8)

    @cached_property
    def nnz(self) -> int:
        return int(self.indices.size)

    @cached_property
    def row_sums(self) -> Doubles:
        """P 1, shape (n,), float64."""
        if self.data is None:
            sums = np.diff(self.indptr).astype(np.float64)
            return sums if self.row_scale is None else sums * self.row_scale
        return super().row_sums

    @cached_property
    def column_sums(self) -> Doubles:
        """Pᵀ 1, shape (m,), float64."""
        if self.symmetric:
            return self.row_sums if self.row_scale is None else super().column_sums
        # One pass in the order of storage, in pieces: no transpose is built for it, nor a copy of all entries.
        sums: Doubles = np.zeros(self.shape[1])
        for start, stop in pairwise(even_bounds(self.nnz, PIECE).tolist()):
            weights = np.ones(stop - start, np.float32) if self.data is None else self.data[start:stop]
            if self.row_scale is not None:
                weights = weights * self.row_scale[rows_of(self.indptr, start, stop)]
            np.add.at(sums, self.indices[start:stop].astype(np.intp), weights.astype(np.float64))
        return sums


class Product(LinearOperator):
    """``parts[0] @ parts[1] @ ...``, applied from the right."""

    def __init__(self, *factors: LinearOperator) -> None:
        flat = (one.parts if isinstance(one, Product) else (one,) for one in factors)
        self.parts = tuple(chain(*flat))
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        block = self.parts[0].rows(start, stop)
        for factor in self.parts[1:]:
            block = csr_array(block @ factor.rows(0, factor.shape[0]))
        return block


class WeightedSum(LinearOperator):
    """``sum_k weights[k] * parts[k]``."""

    def __init__(self, weights: Sequence[float], terms: Sequence[LinearOperator]) -> None:
        self.weights, self.parts, self.shape = tuple(weights), tuple(terms), terms[0].shape
        self.is_undirected = all(term.is_undirected for term in terms)

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        first, *others = [w * term.rows(start, stop) for w, term in zip(self.weights, self.parts, strict=True)]
        return csr_array(sum(others, first))


class RowScaled(LinearOperator):
    """``diag(scale) inner``, mostly rows that sum to 1, for an inner operator that is not one sparse matrix."""

    def __init__(self, scale: Singles, inner: LinearOperator) -> None:
        self.scale, self.inner, self.parts, self.shape = scale, inner, (inner,), inner.shape

    def normalized(self, power: float = 1.0) -> LinearOperator:
        return self.inner.normalized(power)

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        return csr_array(diags_array(self.scale[start:stop]) @ self.inner.rows(start, stop))

    @property
    def nbytes(self) -> int:
        return self.scale.nbytes + self.inner.nbytes


class Transposed(LinearOperator):
    """``innerᵀ``."""

    def __init__(self, inner: LinearOperator) -> None:
        self.inner, self.parts, self.shape = inner, (inner,), (inner.shape[1], inner.shape[0])

    def information(self, shift: float) -> LinearOperator | None:
        made = self.inner.information(shift)
        return None if made is None else made.transpose()

    def transpose(self) -> LinearOperator:
        return self.inner

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        whole = self.inner.rows(0, self.inner.shape[0])
        return csr_array(whole[:, start:stop].T)


class Walk(LinearOperator):
    """Mean of the first ``steps`` powers of a square operator B, by Horner's rule: one product per power."""

    def __init__(self, base: LinearOperator, steps: int) -> None:
        self.base, self.steps, self.parts, self.shape = base, steps, (base,), base.shape
        self.is_undirected = base.is_undirected

    def without(self, isolates: Longs) -> LinearOperator | None:
        base = self.base.without(isolates)
        if base is None:
            return None
        smaller = Walk(base, self.steps)
        for name in {"row_sums", "column_sums"} & self.__dict__.keys():  # they stay what they are, to the last bit
            smaller.__dict__[name] = np.delete(self.__dict__[name], isolates)
        return smaller

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        whole = self.base.rows(0, self.shape[0])
        power = self.base.rows(start, stop)
        mean = power.copy()
        for _ in range(self.steps - 1):
            power = csr_array(power @ whole)
            mean = csr_array(mean + power)
        mean.data /= self.steps  # in place: scipy's own division would make it float64
        return mean


def times(
    P: LinearOperator,
    engine: Products[V],
    X: V,
    base: V | None = None,
    factor: float = 1.0,
    out: V | None = None,
    *,
    transposed: bool = False,
) -> V:
    """Return ``base + factor * P X`` (``Pᵀ X``) by an engine's products with the sparse matrices that P is made of.

    X is as the engine has it. The result may take the place of ``out``, which may be the base, not X.
    """
    if not P.parts:  # a sparse matrix
        return engine.sparse(P, X, base, factor, out, transposed=transposed)
    if isinstance(P, Transposed):
        return times(P.inner, engine, X, base, factor, out, transposed=not transposed)
    if isinstance(P, WeightedSum):
        (weight, term), *others = zip(P.weights, P.parts, strict=True)
        found = times(term, engine, X, base, factor * weight, out, transposed=transposed)
        for weight, term in others:
            found = times(term, engine, X, found, factor * weight, found, transposed=transposed)
        return found
    if isinstance(P, RowScaled) and transposed:
        made = engine.scaled(P.scale, X, None, 1.0, None)
        found = times(P.inner, engine, made, base, factor, out, transposed=True)
    elif isinstance(P, RowScaled):
        made = times(P.inner, engine, X)
        found = engine.scaled(P.scale, made, base, factor, out)
    else:  # a product, or a walk by T <- X + B T
        *inner, last = P.parts if transposed else P.parts[::-1]
        made, each = X, None
        if isinstance(P, Walk):
            inner, each, factor = [last] * (P.steps - 1), X, factor / P.steps
        for operator in inner:
            before, made = made, times(operator, engine, made, each, transposed=transposed)
            if before is not X:
                engine.give(before)
        found = times(last, engine, made, base, factor, out, transposed=transposed)
    if made is not X:
        engine.give(made)
    return found


def scratch_arrays(P: LinearOperator) -> int:
    """Return how many further blocks of the size of X a product with P needs at most."""
    if isinstance(P, Product):
        return 2 if len(P.parts) > 2 else 1
    of_parts = max(map(scratch_arrays, P.parts), default=0)
    if isinstance(P, Walk):
        return min(P.steps - 1, 2) + of_parts
    return of_parts + isinstance(P, RowScaled)


def as_walk(P: LinearOperator) -> tuple[Sparse, int] | None:
    """Return (B, k) if P is the mean of the first k powers of B, a sparse matrix with scaled rows."""
    base, steps = (P.base, P.steps) if isinstance(P, Walk) else (P, 1)
    return (base, steps) if isinstance(base, Sparse) and base.row_scale is not None else None


# From edges or a matrix to the stored operator.


@dataclass(frozen=True)
class Edges:
    """A list of edges, as codes.

    Attributes
    ----------
    rows, columns : ndarray, shape (n_edges,), int32
        Code of the source and of the target of each edge, in the order of the input; duplicates and self-loops as they
        came.
    weights : ndarray, shape (n_edges,), float32, > 0; or None
        None: every edge weighs 1.
    row_ids, column_ids : Ids
        What the codes of ``rows`` and ``columns`` stand for, in order of first appearance; the same object unless the
        edges are bipartite.
    """

    rows: Indices
    columns: Indices
    weights: Singles | None
    row_ids: Ids
    column_ids: Ids

    def some(self, which: slice | Flags) -> Edges:
        """Return some of the edges, of the same ids."""
        weights = None if self.weights is None else self.weights[which]
        return Edges(self.rows[which], self.columns[which], weights, self.row_ids, self.column_ids)

    def entries(self, *, mirror: bool, self_loops: bool) -> kernels.EdgeArrays:
        """Return rows, columns and weights of what the edges make; ``mirror``: in both directions, of one kind."""
        same = self.row_ids is self.column_ids
        kept = self.some(self.rows != self.columns) if same and not self_loops else self
        found = kept.rows, kept.columns, kept.weights
        return kernels.mirrored(*found) if same and mirror else found

    def pieces(self, size: int, *, mirror: bool, self_loops: bool) -> Iterator[kernels.EdgeArrays]:
        """Yield what so many edges at a time make."""
        for start, stop in pairwise(even_bounds(len(self.rows), size).tolist()):
            yield self.some(slice(start, stop)).entries(mirror=mirror, self_loops=self_loops)


class MemoryStore:
    """Where the codes and weights of the edges go, piece by piece: here, to memory."""

    def __init__(self) -> None:
        self._kept: tuple[list[NDArray[Any]], ...] = ([np.empty(0, np.int32)], [np.empty(0, np.int32)], [])

    def append(self, rows: Indices, columns: Indices, weights: Singles | None) -> None:
        """Keep a piece; all pieces have weights, or none has."""
        for kept, part in zip(self._kept, (rows, columns, weights), strict=True):
            if part is not None:
                kept.append(np.ascontiguousarray(part))

    def arrays(self) -> tuple[Indices, Indices, Singles | None]:
        """Return all edges in the order in which they came; the store is empty afterwards."""
        joined = list[Any]()
        for kept in self._kept:  # the pieces of one array go before the next one is made
            joined.append(np.concatenate(kept) if kept else None)
            kept.clear()
        rows, columns, weights = joined
        return rows, columns, weights


def sparse_from_edges(owner: str, edges: Edges, *, mirror: bool, self_loops: bool = True) -> tuple[Sparse, Ids, Ids]:
    """Return the matrix of the edges, in memory, and the ids; ``mirror`` stores edges of one kind in both directions.

    Raises
    ------
    DataError
        If no edge is left, or duplicates add up to more than float32 holds.
    """
    entries = edges.entries(mirror=mirror, self_loops=self_loops)
    if not entries[0].size:
        raise no_edge(owner)
    arrays = kernels.build_csr(owner, *entries, len(edges.row_ids))
    symmetric = mirror and edges.row_ids is edges.column_ids
    return Sparse(*arrays, len(edges.column_ids), symmetric=symmetric), edges.row_ids, edges.column_ids


def no_edge(owner: str) -> DataError:
    """Return the refusal of what holds nothing once self-loops are left out; the reader refuses what held nothing."""
    return DataError(owner, "edges", "at least one edge", "self-loops only, which self_loops=False leaves out")


def sparse_from_matrix(
    owner: str, A: MatrixLike, ids: Iterable[Hashable] | None, column_ids: Iterable[Hashable] | None
) -> tuple[Sparse, Ids, Ids]:
    """Return the operator of a matrix, and the ids: the same object twice where rows and columns are the same.

    Raises
    ------
    InputError, DataError
        See :meth:`nearfar.Relation.from_matrix`.
    """
    # As CSR, float32, sorted, without duplicates and zeros; always a new object.
    is_sparse: bool = issparse(A)
    expected, hint = "a sparse or dense matrix of real numbers", "Edges, files and graphs go to Relation.from_edges."
    try:
        matrix: Any = A if is_sparse else check_numbers(owner, "A", A, expected)
    except InputError as error:
        raise InputError(owner, "A", error.expected, error.got, error.hint or hint) from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        got = f"{type(A).__name__} ({counted(matrix.ndim, 'dimension')} of {matrix.dtype})"
        raise InputError(owner, "A", expected, got, hint)
    if max(matrix.shape) > _MOST:
        hint = "Leave out the rows and columns that are empty."
        raise InputError(owner, "A", f"of at most {_MOST} rows and columns", f"shape {matrix.shape}", hint)
    csr: csr_array[np.float32] = check_csr(owner, "A", matrix) if is_sparse else csr_array(matrix)
    given = csr.data
    with np.errstate(over="ignore"):  # refused below
        csr = csr.astype(np.float32)
    bad = np.flatnonzero(~(csr.data >= 0) | np.isinf(csr.data) | ((csr.data == 0) & (given != 0)))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        where = f"{given[bad[0]]} in row {row}, column {csr.indices[bad[0]]} ({bad.size} such entries)"
        hint = "Negative values in data, NaN and infinity are no weights; float32 has numbers from 1e-45 to 3.4e38."
        hint += " Shift, scale or clip the weights first."
        raise DataError(owner, "A", "finite and non-negative", where, hint)
    csr.eliminate_zeros()
    if csr.nnz == 0:
        hint = "" if min(csr.shape) else f"0 feature(s) (shape={csr.shape}) while a minimum of 1 is required."
        raise DataError(owner, "A", "a matrix with at least one positive entry", f"none in shape {csr.shape}", hint)
    n, m = csr.shape
    row_ids = Ids(n if ids is None else ids, owner=owner, name="ids")
    square = column_ids is None and n == m
    other_ids = row_ids if square else Ids(m if column_ids is None else column_ids, owner=owner, name="column_ids")
    for name, found, size in (("ids", row_ids, n), ("column_ids", other_ids, m)):
        if len(found) != size:
            raise InputError(owner, name, f"{size} ids, one for each of A's", f"{len(found)}")
    data = None if np.all(csr.data == 1) else csr.data
    arrays = (csr.indptr.astype(np.int64), csr.indices.astype(np.int32), data)
    same = row_ids == other_ids
    symmetric = same and all(map(np.array_equal, arrays, kernels.transpose(*arrays, m)))  # type: ignore[arg-type]
    return Sparse(*arrays, m, symmetric=symmetric), row_ids, row_ids if same else other_ids


# Products on the threads of this machine: of which those with any operator are made. Devices and clusters have others.


@lru_cache(maxsize=64)
def blocks_of(n: int) -> tuple[int, ...]:
    """Return the bounds of the blocks of n rows."""
    return tuple(even_bounds(n, BLOCK).tolist())


# Not with the matrices: what is made of them has others, and pickles and counts of bytes go without.
_FOR_SCIPY: WeakKeyDictionary[Sparse, dict[bool, csr_array[np.float32]]] = WeakKeyDictionary()


class ThreadProducts(Products[Floats]):
    """Products on threads.

    Scratch blocks outlive a product: fresh memory for each would cost more than the product (page faults).

    Parameters
    ----------
    n_jobs : int, default=1
    watched : ndarray, optional
        The result that is looked through as it is made.

    Attributes
    ----------
    overflown : list of int
        The numbers of the blocks of ``watched`` in which NaN, infinity or a number near the largest came out. To look
        costs little while a block is in the cache.
    """

    def __init__(self, n_jobs: int = 1, watched: Floats | None = None) -> None:
        self._n_jobs, self._watched = n_jobs, watched
        self.overflown: list[int] = []
        self._free: dict[tuple[tuple[int, ...], np.dtype[Any]], list[Floats]] = {}

    def give(self, made: Floats) -> None:
        """Take back a result in between, to be written over."""
        self._free.setdefault((made.shape, made.dtype), []).append(made)

    def _room(self, n: int, X: Floats) -> Floats:
        """Return an uninitialised block of n rows like those of X."""
        shape = (n, *X.shape[1:])
        free = self._free.get((shape, X.dtype))
        return free.pop() if free else empty_aligned(shape, X.dtype)

    def sparse(
        self, A: Any, X: Floats, base: Floats | None, factor: float, out: Floats | None, *, transposed: bool
    ) -> Floats:
        """Return ``base + factor * A X``, of A or its transpose, in X's dtype; O(nnz d) time."""
        if not isinstance(A, Sparse):  # X goes to the workers, and the product comes back
            found = factor * A.product(X, transposed=transposed)
            out = found if out is None else out
            out[:] = found if base is None else base + found
            return out
        out = self._room(A.shape[transposed], X) if out is None else out
        blocks, watched = blocks_of(len(out)), out is self._watched
        row_scale, column_scale = (None, A.row_scale) if transposed else (A.row_scale, None)
        if A.is_small:  # as the compiled kernels, by a matrix of SciPy: A, or Aᵀ diag(row_scale)
            kept = _FOR_SCIPY.setdefault(A, {})
            if transposed not in kept:
                indptr, indices, data = A.stored(transposed=transposed)
                data = np.ones(indices.size, np.float32) if data is None else data
                data = data if column_scale is None else data * column_scale[indices]
                kept[transposed] = csr_array((data, indices, indptr), shape=A.shape[::-1] if transposed else A.shape)
            dtype = np.float64 if X.shape[1] == 1 else X.dtype
            scale = np.asarray(factor if row_scale is None else factor * row_scale.astype(np.float64)[:, None], dtype)
            with np.errstate(all="ignore"):  # nothing is known of X; the result shows it
                value = kept[transposed] @ X.astype(dtype, copy=False)
                if base is None:
                    np.multiply(value, scale, out=out, casting="same_kind")
                else:
                    value *= scale
                    np.add(base, value, out=out, casting="same_kind")
                if watched:
                    sums = [out[start:stop].sum() for start, stop in pairwise(blocks)]
                    self.overflown += [block for block, found in enumerate(sums) if not isfinite(found)]
            return out
        indptr, indices, data = A.stored(transposed=transposed)
        kernel = kernels.product
        if X.shape[1] == 1:
            kernel = kernels.vector_product
            data = kernels.NO_STORED_WEIGHTS if data is None else data
            column_scale = kernels.NO_WEIGHTS if column_scale is None else column_scale
        scales = kernels.NO_WEIGHTS if row_scale is None else row_scale, column_scale
        csr = kernels.ScaledCsr(indptr, indices, data, *scales)
        matrix, X, given = read_only((csr, X, out[:0] if base is None else base))

        def task(block: int, start: int, stop: int) -> None:
            kernel(matrix, X, factor, given, out, (start, stop))
            if watched and not isfinite(kernels.total(out, start, stop)):
                self.overflown.append(block)

        run_blocks(task, blocks, self._n_jobs)
        return out

    def scaled(self, scale: Singles, X: Floats, base: Floats | None, factor: float, out: Floats | None) -> Floats:
        """Return ``base + factor * diag(scale) X``."""
        made = self._room(len(X), X) if out is None else out
        factors = scale[:, None].astype(X.dtype, copy=False) * X.dtype.type(factor)

        def task(block: int, start: int, stop: int) -> None:
            rows = slice(start, stop)
            with np.errstate(all="ignore"):  # nothing is known of X; the result shows it
                np.add(factors[rows] * X[rows], 0 if base is None else base[rows], out=made[rows])
                if made is self._watched and not isfinite(made[rows].sum()):
                    self.overflown.append(block)

        run_blocks(task, blocks_of(len(X)), self._n_jobs)
        return made


# The near field: the rows of ``(P + Pᵀ) X`` (or of ``P X``), a block at a time.
#
# ``prepare(X)`` is called once per sweep and returns what gives rows of the pull by slices, from several threads; the
# caller may overwrite them. X may change between the blocks of one sweep: what later blocks need was copied or computed
# in ``prepare``. ``n_arrays`` is how many arrays of the size of X it holds.

Room = Callable[[str, tuple[int, int], np.dtype[np.floating]], Floats]
"""Returns an array in a file, by the name, the shape and the dtype."""
SLICE = 32
"""Columns that are in memory together where vectors are in files: two cache lines of float32."""
_ROWS = 2**15  # of X that are read at a time


def near_field(P: LinearOperator, way: str, *, n_jobs: int, room: Room | None = None) -> NearProduct | NearWalk:
    """Return the near field of one embedding: ``P X``, ``Pᵀ X`` for the way "columns", the sum of them for "both".

    With ``room`` vectors are in files: for the rows of a walk alone.
    """
    walk = as_walk(P)
    if walk is None or P.shape[0] != P.shape[1] or way == "columns" or (way == "both" and not walk[0].symmetric):
        return NearProduct(P, transposed=way == "columns", both=way == "both", n_jobs=n_jobs)
    if room is not None:
        return NearSlices(*walk, room, n_jobs=n_jobs)
    return NearWalk(*walk, both=way == "both", n_jobs=n_jobs)


class NearProduct:
    """``P X`` (``Pᵀ X`` if ``transposed``; their sum if ``both``) of any operator, held as one array."""

    def __init__(self, operator: LinearOperator, *, transposed: bool, both: bool, n_jobs: int) -> None:
        self._operator, self._transposed, self._both = operator, transposed, both
        self._threads, self.n_arrays = ThreadProducts(n_jobs), 1 + scratch_arrays(operator)
        self._pull: Floats = np.empty((0, 0))

    def prepare(self, X: Floats) -> Floats:
        shape = (self._operator.shape[self._transposed], X.shape[1])
        if self._pull.shape != shape:
            self._pull = empty_aligned(shape, X.dtype)
        pull = times(self._operator, self._threads, X, out=self._pull, transposed=self._transposed)
        if self._both:
            times(self._operator, self._threads, X, pull, out=pull, transposed=not self._transposed)
        return pull


class NearWalk:
    """The walk on a row-scaled matrix, ``P = (B + ... + Bᵏ)/k``, ``B = diag(s) A``; the last product block by block.

    ``P X``, by Horner's rule in two running blocks of n x d; with ``both`` and a symmetric A ``(P + Pᵀ) X``, from one
    pass over A per power: with ``T'_j = s ∘ (X + A T'_(j-1))`` both products need only A times the two blocks, which
    lie side by side, n x 2d.
    """

    def __init__(self, base: Sparse, steps: int, *, both: bool, n_jobs: int = 1) -> None:
        scale = kernels.NO_WEIGHTS if base.row_scale is None else base.row_scale
        self._matrix = read_only(kernels.ScaledCsr(base.indptr, base.indices, base.data, scale, None))
        self._steps, self._both, self._n_jobs = steps, both, n_jobs
        self._W: Floats = np.empty((0, 0))
        self._spare: Floats = np.empty((0, 0))
        self._with_spare = steps > 1 + (not both)
        self.n_arrays = (1 + both) * (1 + self._with_spare)

    def prepare(self, X: Floats) -> Self:
        n, d = X.shape
        shape = (n, 2 * d if self._both else d)
        if self._W.shape != shape:
            self._W = empty_aligned(shape, X.dtype)
            self._spare = empty_aligned(shape if self._with_spare else (0, 0), X.dtype)
        if self._both:
            self._run(kernels.pair_start, X, self._W)
        elif self._steps == 1:
            np.copyto(self._W, X)
        else:
            self._run(kernels.product, X, 1.0, X, self._W)
        for _ in range(self._steps - 2 + self._both):
            if self._both:
                self._run(kernels.pair_step, X, self._W, self._spare)
            else:  # T <- X + B T
                self._run(kernels.product, self._W, 1.0, X, self._spare)
            self._W, self._spare = self._spare, self._W
        return self

    def _run(self, kernel: Callable[..., None], *arguments: object) -> None:
        bounds = blocks_of(len(self._matrix.indptr) - 1)
        given = *read_only(arguments[:-1]), arguments[-1]  # what is written comes last
        run_blocks(lambda _block, start, stop: kernel(self._matrix, *given, (start, stop)), bounds, self._n_jobs)

    def __getitem__(self, rows: slice) -> Floats:
        start, stop = rows.start, rows.stop
        out = np.empty((stop - start, self._W.shape[1] // (1 + self._both)), self._W.dtype)
        W = read_only(self._W)
        if self._both:
            kernels.pair_finish(self._matrix, 1.0 / self._steps, W, out, (start, stop))
        else:
            kernels.product(self._matrix, W, 1.0 / self._steps, W[:0], out, (start, stop))
        return out


class NearSlices(NearWalk):
    """``P X`` of such a walk for X in a file: a few columns at a time are in memory, the result is in files again.

    Every number is the same to the bit. In memory are at most three blocks of n x SLICE numbers.

    Parameters
    ----------
    base : Sparse
    steps : int
    room : callable
        Returns an array in a file: ``room(name, shape, dtype)``.
    n_jobs : int
    """

    def __init__(self, base: Sparse, steps: int, room: Room, *, n_jobs: int) -> None:
        super().__init__(base, steps, both=False, n_jobs=n_jobs)
        self._room, self.n_arrays = room, min(steps, 3)  # arrays of n x SLICE
        self._pull: list[Floats] = []

    def prepare(self, X: Floats) -> Self:
        """Take in the vectors, shape (n, d)."""
        n, d = X.shape
        if not self._pull:
            widths = [min(SLICE, d - first) for first in range(0, d, SLICE)]
            self._pull = [self._room(f"pull-{k}", (n, width), X.dtype) for k, width in enumerate(widths)]
        columns = empty_aligned(self._pull[0].shape, X.dtype)
        for k, pull in enumerate(self._pull):
            if columns.shape != pull.shape:
                columns = empty_aligned(pull.shape, X.dtype)

            def read(_block: int, start: int, stop: int, out: Floats = columns, first: int = k * SLICE) -> None:
                out[start:stop] = X[start:stop, first : first + out.shape[1]]

            run_blocks(read, even_bounds(n, _ROWS), self._n_jobs)
            if self._steps > 1:
                super().prepare(columns)
            T = self._W if self._steps > 1 else columns
            self._run(kernels.product, T, 1.0 / self._steps, columns[:0], pull)
        self._W = self._spare = columns[:0]  # memory for the sweep
        return self

    def __getitem__(self, rows: slice) -> Floats:
        """Return rows of the pull; the caller may overwrite them."""
        return np.concatenate([pull[rows] for pull in self._pull], axis=1)
