"""Operators: what a relation is made of. Sparse matrices, their products, sums, scaled rows, transposes and walks.

An operator is a non-negative linear map P, known by its product with a dense block and that of its transpose. Nothing
is multiplied out. The mean of the first k powers of B takes one product per power, by Horner's rule::

    P X = (B + B² + ... + Bᵏ) X / k :      T_1 = X,      T_j = X + B T_(j-1),      P X = B T_k / k
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse

from nearfar._core.checks import available_processors, check_csr
from nearfar._core.ids import Ids
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned, read_only
from nearfar.contracts import Floats
from nearfar.errors import DataError, InputError
from nearfar.relations.kernels import (
    NO_STORED_WEIGHTS,
    NO_WEIGHTS,
    CsrArrays,
    ScaledCsr,
    build_csr,
    is_small,
    plain_product,
    plain_total,
    product,
    total,
    transpose,
    vector_product,
)

if TYPE_CHECKING:
    from nearfar.relations.edges import Edges

BLOCK = 2048
"""Rows a thread takes at a time: long enough to hide the hand-out, short enough to balance hubs."""
_ENTRIES = 1 << 22  # weighed at once
_MOST = np.iinfo(np.int32).max  # rows and columns: they are numbered in 32 bits
PIECE = 1 << 20  # stored entries that are looked at together where all are, outside of the kernels


@lru_cache(maxsize=64)
def blocks_of(n: int) -> tuple[int, ...]:
    """Return the bounds of the blocks of n rows."""
    return tuple(even_bounds(n, BLOCK).tolist())


class Workspace(dict[tuple[tuple[int, ...], str], list[Floats]]):
    """Scratch blocks that outlive a product: fresh memory for each would cost more than the product (page faults)."""

    def take(self, n: int, like: Floats) -> Floats:
        """Return an uninitialised block of n rows, of the width and dtype of ``like``."""
        free = self.get(((n, *like.shape[1:]), like.dtype.str))
        return free.pop() if free else empty_aligned((n, *like.shape[1:]), like.dtype)

    def give(self, block: Floats) -> None:
        """Hand a block back."""
        self.setdefault((block.shape, block.dtype.str), []).append(block)


@dataclass(frozen=True)
class ProductOptions:
    """Which product: ``base + factor * P X``, of P or its transpose, on so many threads.

    ``overflown`` gets the numbers of the blocks in which NaN, infinity or a number near the largest came out; with None
    nobody looks.
    """

    base: Floats | None = None
    factor: float = 1.0
    transposed: bool = False
    n_jobs: int = 1
    workspace: Workspace = field(default_factory=Workspace)
    overflown: list[int] | None = None

    def inner(self, base: Floats | None = None) -> ProductOptions:
        """Return the options of an intermediate product."""
        return replace(self, base=base, factor=1.0, overflown=None)


class Products(Protocol):
    """What an engine must know of sparse matrices to multiply with any operator."""

    def sparse(self, A: Sparse, X: Any, base: Any, factor: float, *, transposed: bool) -> Any:
        """Return ``base + factor * A X``, of A or its transpose; ``base`` may be None."""

    def scaled(self, scale: NDArray[np.float32], X: Any, base: Any, factor: float) -> Any:
        """Return ``base + factor * diag(scale) X``; ``base`` may be None."""


class LinearOperator(ABC):
    """A non-negative linear map P of shape (n, m), known by its products."""

    shape: tuple[int, int]
    parts: tuple[LinearOperator, ...] = ()  # the operators that it is made of
    is_undirected = False
    """Whether it is known to be symmetric up to a scaling of the rows, or a mean of powers of such."""

    @abstractmethod
    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        """Write ``base + factor * P X`` (``Pᵀ X`` if transposed) to ``out``; ``base`` may be ``out``, X may not."""

    def through(
        self,
        engine: Products,  # noqa: ARG002
        X: Any,  # noqa: ARG002
        base: Any = None,  # noqa: ARG002
        factor: float = 1.0,  # noqa: ARG002
        *,
        transposed: bool = False,  # noqa: ARG002
    ) -> Any:
        """Return ``base + factor * P X`` by an engine's products with what P is made of; X is as the engine has it."""
        raise InputError("EDRep", "relation", "one made of sparse matrices on a device or cluster", type(self).__name__)

    @abstractmethod
    def rows(self, start: int, stop: int) -> csr_array[Any]:
        """Return rows start..stop multiplied out."""

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
        out = np.empty((self.shape[0], X.shape[1]), X.dtype)
        self.apply(X, out, ProductOptions(n_jobs=n_jobs))
        return out

    def rmatmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return Pᵀ X for X of shape (n, d), in X's dtype; O(nnz d) time."""
        out = np.empty((self.shape[1], X.shape[1]), X.dtype)
        self.apply(X, out, ProductOptions(transposed=True, n_jobs=n_jobs))
        return out

    @cached_property
    def row_sums(self) -> NDArray[np.float64]:
        """P 1, shape (n,), float64."""
        return self._sums(transposed=False)

    @cached_property
    def column_sums(self) -> NDArray[np.float64]:
        """Pᵀ 1, shape (m,), float64."""
        return self._sums(transposed=True)

    def _sums(self, *, transposed: bool) -> NDArray[np.float64]:
        sums = np.empty((self.shape[transposed], 1))
        options = ProductOptions(transposed=transposed, n_jobs=available_processors())
        self.apply(np.ones((self.shape[not transposed], 1)), sums, options)
        return sums[:, 0]

    def transpose(self) -> LinearOperator:
        """Return Pᵀ."""
        return Transposed(self)

    def normalized(self) -> LinearOperator:
        """Return P with rows that sum to 1; empty rows stay empty."""
        return RowScaled(inverse_of(self.row_sums), self)

    def as_factors(self) -> tuple[LinearOperator, ...]:
        """Return the factors of a product, of anything else itself."""
        return (self,)

    def as_terms(self) -> tuple[tuple[float, LinearOperator], ...]:
        """Return the weighted terms of a sum, of anything else itself."""
        return ((1.0, self),)

    def as_walk(self) -> tuple[Sparse, int] | None:
        """Return (B, k) if this is the mean of the first k powers of B, a sparse matrix with scaled rows."""
        return None

    def information(self, shift: float) -> LinearOperator | None:  # noqa: ARG002
        """Return positive pointwise mutual information in place of the entries; None where these are not stored."""
        return None

    def scratch_arrays(self) -> int:
        """Return how many further blocks of the size of X a product needs at most."""
        return max((part.scratch_arrays() for part in self.parts), default=0)

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:  # noqa: ARG002
        """Return a square operator without rows that are empty, as their columns are; None where that is not cheap."""
        return None


def inverse_of(sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the factors by which rows of these sums are scaled to sum 1: 0 for an empty row."""
    return np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0).astype(np.float32)


def rows_of(indptr: NDArray[Any], start: int, stop: int) -> NDArray[np.int32]:
    """Return the row of each of the stored entries start..stop, int32."""
    first, last = np.searchsorted(indptr, [start, stop - 1], side="right") - 1
    lengths = np.diff(np.clip(indptr[first : last + 2], start, stop))
    return np.repeat(np.arange(first, last + 1, dtype=np.int32), lengths)


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
    row_scale : ndarray of shape (n,), float32, >= 0, or None
    """

    def __init__(
        self,
        indptr: NDArray[Any],
        indices: NDArray[np.int32],
        data: NDArray[np.float32] | None,
        n_columns: int,
        *,
        symmetric: bool,
        row_scale: NDArray[np.float32] | None = None,
    ) -> None:
        self.indptr, self.indices, self.data = read_only((indptr, indices, data))
        self.shape = (len(indptr) - 1, n_columns)
        self.symmetric = self.is_undirected = symmetric
        self.row_scale = row_scale

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays from a pickle can be written to: for compiled code another type, and for all its kernels another wait.
        self.__dict__.update({k: v if k == "row_scale" else read_only(v) for k, v in state.items()})

    def scaled(self, row_scale: NDArray[np.float32] | None) -> Sparse:
        """Return ``diag(row_scale) A``, sharing A; an earlier scale is replaced."""
        new = object.__new__(type(self))
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("row_sums", "column_sums")})
        new.row_scale = row_scale
        return new

    def normalized(self) -> LinearOperator:
        plain = self if self.row_scale is None else self.scaled(None)
        return plain.scaled(inverse_of(plain.row_sums))

    def transpose(self) -> LinearOperator:
        return self if self.symmetric and self.row_scale is None else Transposed(self)

    def information(self, shift: float) -> Sparse | None:
        if self.row_scale is not None:
            return None
        rows, columns = self.row_sums, self.row_sums if self.symmetric else self.column_sums
        kept: list[Any] = []
        for start in range(0, self.nnz, _ENTRIES):
            block = slice(start, min(start + _ENTRIES, self.nnz))
            i, j = rows_of(self.indptr, block.start, block.stop), self.indices[block]
            weights = 1.0 if self.data is None else self.data[block].astype(np.float64)
            # A product of the two sums: a symmetric matrix stays one to the last bit.
            values = np.log(weights * rows.sum() / (rows[i] * columns[j])) - shift
            above = values > 0
            kept.append((i[above], j[above], values[above].astype(np.float32)))
        i, indices, data = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=self.shape[0]))]).astype(self.indptr.dtype)
        return Sparse(indptr, indices, data, self.shape[1], symmetric=self.symmetric)

    def as_walk(self) -> tuple[Sparse, int] | None:
        return None if self.row_scale is None else (self, 1)

    @cached_property
    def is_small(self) -> bool:
        """Whether it is multiplied by SciPy."""
        return is_small(self.shape, self.nnz)

    def _stored(self, *, transposed: bool) -> CsrArrays:
        """Return the arrays of A, or those of its transpose."""
        return self._transposed if transposed and not self.symmetric else (self.indptr, self.indices, self.data)

    def _plain(self, *, transposed: bool) -> csr_array[Any]:
        """Return A, or Aᵀ diag(row_scale), as SciPy multiplies with it."""
        kept = _PLAIN.setdefault(self, {})
        if transposed not in kept:
            indptr, indices, data = self._stored(transposed=transposed)
            data = np.ones(indices.size, np.float32) if data is None else data
            if transposed and self.row_scale is not None:
                data = data * self.row_scale[indices]
            shape = self.shape[::-1] if transposed else self.shape
            kept[transposed] = csr_array((data, indices, indptr), shape=shape)
        return kept[transposed]

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        row_scale, column_scale = self.row_scale, None
        if options.transposed:
            row_scale, column_scale = None, self.row_scale
        blocks = blocks_of(len(out))
        if self.is_small:
            A = self._plain(transposed=options.transposed)
            plain_product(A, row_scale, X, options.factor, options.base, out)
            if options.overflown is not None:
                ends = enumerate(pairwise(blocks))
                options.overflown.extend(block for block, rows in ends if not isfinite(plain_total(out, *rows)))
            return
        indptr, indices, data = self._stored(transposed=options.transposed)
        row_scale = NO_WEIGHTS if row_scale is None else row_scale
        kernel = product
        if X.shape[1] == 1:
            kernel = vector_product
            data = NO_STORED_WEIGHTS if data is None else data
            column_scale = NO_WEIGHTS if column_scale is None else column_scale
        matrix = ScaledCsr(indptr, indices, data, row_scale, column_scale)
        base = out[:0] if options.base is None else options.base

        def task(block: int, start: int, stop: int) -> None:
            kernel(matrix, X, options.factor, base, out, (start, stop))
            # The look costs little while the block is in the cache.
            if options.overflown is not None and not isfinite(total(out, start, stop)):
                options.overflown.append(block)

        run_blocks(task, blocks, options.n_jobs)

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        return engine.sparse(self, X, base, factor, transposed=transposed)

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:
        new_index = np.delete(np.arange(self.shape[0]), isolates)
        index_of = np.zeros(self.shape[0], np.int32)
        index_of[new_index] = np.arange(new_index.size, dtype=np.int32)
        smaller = Sparse(
            np.append(self.indptr[new_index], self.indptr[-1]),
            index_of[self.indices],
            self.data,
            new_index.size,
            symmetric=self.symmetric,
            row_scale=None if self.row_scale is None else self.row_scale[new_index],
        )
        smaller.is_small = self.is_small  # a relation in files keeps its isolates, and has the same bits
        return smaller

    @cached_property
    def _transposed(self) -> CsrArrays:
        return read_only(transpose(self.indptr, self.indices, self.data, self.shape[1]))

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        span = slice(int(self.indptr[start]), int(self.indptr[stop]))
        indptr = np.asarray(self.indptr[start : stop + 1] - self.indptr[start])
        data = np.ones(span.stop - span.start, np.float32) if self.data is None else self.data[span].copy()
        if self.row_scale is not None:
            data = data * np.repeat(self.row_scale[start:stop], np.diff(indptr))
        return csr_array((data, self.indices[span].copy(), indptr), shape=(stop - start, self.shape[1]))

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
    def row_sums(self) -> NDArray[np.float64]:
        """P 1, shape (n,), float64."""
        if self.data is None:
            sums = np.diff(self.indptr).astype(np.float64)
            return sums if self.row_scale is None else sums * self.row_scale
        return self._sums(transposed=False)

    @cached_property
    def column_sums(self) -> NDArray[np.float64]:
        """Pᵀ 1, shape (m,), float64."""
        if self.symmetric and self.row_scale is None:
            return self.row_sums
        if self.symmetric:
            return self._sums(transposed=True)
        # One pass in the order of storage, in pieces: no transpose is built for it, nor a copy of all entries.
        sums: NDArray[np.float64] = np.zeros(self.shape[1])
        for start, stop in pairwise(even_bounds(self.nnz, PIECE).tolist()):
            weights = np.ones(stop - start, np.float32) if self.data is None else self.data[start:stop]
            if self.row_scale is not None:
                weights = weights * self.row_scale[rows_of(self.indptr, start, stop)]
            np.add.at(sums, self.indices[start:stop].astype(np.intp), weights.astype(np.float64))
        return sums


# Not with the matrices: what is made of them has others, and pickles and counts of bytes go without.
_PLAIN: WeakKeyDictionary[Sparse, dict[bool, csr_array[Any]]] = WeakKeyDictionary()


class Product(LinearOperator):
    """``factors[0] @ factors[1] @ ...``, applied from the right."""

    def __init__(self, factors: Sequence[LinearOperator]) -> None:
        self.factors = self.parts = tuple(factors)
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def as_factors(self) -> tuple[LinearOperator, ...]:
        return self.factors

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        *inner, last = self.factors if options.transposed else self.factors[::-1]
        current = X
        for factor in inner:
            target = options.workspace.take(factor.shape[options.transposed], X)
            factor.apply(current, target, options.inner())
            if current is not X:
                options.workspace.give(current)
            current = target
        last.apply(current, out, options)
        options.workspace.give(current)

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        *inner, last = self.factors if transposed else self.factors[::-1]
        for operator in inner:
            X = operator.through(engine, X, transposed=transposed)
        return last.through(engine, X, base, factor, transposed=transposed)

    def scratch_arrays(self) -> int:
        return 2 if len(self.factors) > 2 else 1

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        block = self.factors[0].rows(start, stop)
        for factor in self.factors[1:]:
            block = csr_array(block @ factor.rows(0, factor.shape[0]))
        return block


class WeightedSum(LinearOperator):
    """``sum_k weights[k] * terms[k]``."""

    def __init__(self, weights: Sequence[float], terms: Sequence[LinearOperator]) -> None:
        self.weights, self.terms = tuple(weights), tuple(terms)
        self.parts, self.shape = self.terms, terms[0].shape
        self.is_undirected = all(term.is_undirected for term in terms)

    def as_terms(self) -> tuple[tuple[float, LinearOperator], ...]:
        return tuple(zip(self.weights, self.terms, strict=True))

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        base = options.base
        for weight, term in self.as_terms():
            term.apply(X, out, replace(options, base=base, factor=options.factor * weight))
            base = out

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        for weight, term in self.as_terms():
            base = term.through(engine, X, base, factor * weight, transposed=transposed)
        return base

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        first, *others = [weight * term.rows(start, stop) for weight, term in self.as_terms()]
        return csr_array(sum(others, first))


class RowScaled(LinearOperator):
    """``diag(scale) inner``, rows that sum to 1, for an inner operator that is not one sparse matrix."""

    def __init__(self, scale: NDArray[np.float32], inner: LinearOperator) -> None:
        self.scale, self.inner, self.parts, self.shape = scale, inner, (inner,), inner.shape

    def normalized(self) -> LinearOperator:
        return self

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        scale = self.scale[:, None].astype(X.dtype, copy=False)
        scratch = options.workspace.take(self.shape[0], X)
        with np.errstate(all="ignore"):  # nothing is known of X; the result shows it
            if options.transposed:
                np.multiply(scale, X, out=scratch)
                self.inner.apply(scratch, out, options)
            else:
                self.inner.apply(X, scratch, replace(options, base=None, factor=1.0))
                scratch *= scale * X.dtype.type(options.factor)
                np.add(scratch, 0 if options.base is None else options.base, out=out)
        options.workspace.give(scratch)

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        if transposed:
            return self.inner.through(engine, engine.scaled(self.scale, X, None, 1.0), base, factor, transposed=True)
        return engine.scaled(self.scale, self.inner.through(engine, X), base, factor)

    def scratch_arrays(self) -> int:
        return 1 + self.inner.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
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

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        self.inner.apply(X, out, replace(options, transposed=not options.transposed))

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        return self.inner.through(engine, X, base, factor, transposed=not transposed)

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.inner.rows(0, self.inner.shape[0])
        return csr_array(whole[:, start:stop].T)


class Walk(LinearOperator):
    """Mean of the first ``steps`` powers of a square operator B, by Horner's rule: one product per power."""

    def __init__(self, base: LinearOperator, steps: int) -> None:
        self.base, self.steps, self.parts, self.shape = base, steps, (base,), base.shape
        self.is_undirected = base.is_undirected

    def as_walk(self) -> tuple[Sparse, int] | None:
        walk = self.base.as_walk()
        return (walk[0], self.steps) if walk is not None and walk[1] == 1 else None

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:
        base = self.base.without(isolates)
        if base is None:
            return None
        smaller = Walk(base, self.steps)
        for name in {"row_sums", "column_sums"} & self.__dict__.keys():  # they stay what they are, to the last bit
            smaller.__dict__[name] = np.delete(self.__dict__[name], isolates)
        return smaller

    def apply(self, X: Floats, out: Floats, options: ProductOptions) -> None:
        T = X
        for _ in range(self.steps - 1):
            target = options.workspace.take(len(X), X)
            self.base.apply(T, target, options.inner(base=X))
            if T is not X:
                options.workspace.give(T)
            T = target
        self.base.apply(T, out, replace(options, factor=options.factor / self.steps))
        if T is not X:
            options.workspace.give(T)

    def through(
        self, engine: Products, X: Any, base: Any = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Any:
        T = X
        for _ in range(self.steps - 1):
            T = self.base.through(engine, T, X, transposed=transposed)
        return self.base.through(engine, T, base, factor / self.steps, transposed=transposed)

    def scratch_arrays(self) -> int:
        return min(self.steps - 1, 2) + self.base.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.base.rows(0, self.shape[0])
        power = self.base.rows(start, stop)
        mean = power.copy()
        for _ in range(self.steps - 1):
            power = csr_array(power @ whole)
            mean = csr_array(mean + power)
        mean.data /= self.steps  # in place: scipy's own division would make it float64
        return mean


# From edges or a matrix to the stored operator.


def sparse_from_edges(owner: str, edges: Edges, *, mirror: bool, self_loops: bool, n_jobs: int) -> Sparse:
    """Return the matrix of the edges, in memory; ``mirror`` stores each in both directions.

    Raises
    ------
    DataError
        If no edge is left, or duplicates add up to more than float32 holds.
    """
    rows, columns, weights = edges.rows, edges.columns, edges.weights
    if not self_loops and edges.row_ids is edges.column_ids:
        keep = rows != columns
        rows, columns = rows[keep], columns[keep]
        weights = None if weights is None else weights[keep]
    check_some_edge(owner, rows.size)
    indptr, indices, data = build_csr(rows, columns, weights, len(edges.row_ids), mirror=mirror, n_jobs=n_jobs)
    check_sums(owner, data)
    return Sparse(indptr, indices, data, len(edges.column_ids), symmetric=mirror)


def check_some_edge(owner: str, n_edges: int) -> None:
    """Refuse what holds nothing once self-loops are left out; what held nothing before was refused by the reader."""
    if not n_edges:
        raise DataError(owner, "edges", "at least one edge", "self-loops only, which self_loops=False leaves out")


def check_sums(owner: str, data: Any) -> None:
    """Refuse weights that were finite one by one, and no longer are where duplicates added up."""
    if data is not None and not np.isfinite(data).all():
        raise DataError(owner, "weight", "small enough to add up in float32", "an infinite sum")


def sparse_from_matrix(
    owner: str, A: Any, ids: Iterable[Hashable] | None, column_ids: Iterable[Hashable] | None
) -> tuple[Sparse, Ids, Ids]:
    """Return the operator of a matrix, and the ids: the same object twice where rows and columns are the same.

    Raises
    ------
    InputError, DataError
        See :meth:`nearfar.Relation.from_matrix`.
    """
    csr = checked_csr(owner, A)
    n, m = csr.shape
    row_ids = Ids(n if ids is None else ids, owner=owner, name="ids")
    if column_ids is not None:
        other_ids = Ids(column_ids, owner=owner, name="column_ids")
    else:
        other_ids = row_ids if n == m else Ids(m)
    for name, found, size in (("ids", row_ids, n), ("column_ids", other_ids, m)):
        if len(found) != size:
            raise InputError(owner, name, f"{size} ids, one for each of A's", f"{len(found)}")
    if row_ids == other_ids:
        other_ids = row_ids
    data = None if np.all(csr.data == 1) else csr.data
    arrays = (csr.indptr.astype(np.int64), csr.indices.astype(np.int32), data)
    symmetric = row_ids is other_ids and all(
        a is b or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(arrays, transpose(*arrays, m), strict=True)
    )
    return Sparse(*arrays, m, symmetric=symmetric), row_ids, other_ids


def checked_csr(owner: str, A: Any) -> csr_array[Any]:
    """Return A as CSR, float32, sorted, without duplicates and zeros; a new object wherever A would change.

    Raises
    ------
    InputError
        If A is not a matrix of numbers.
    DataError
        If an entry is NaN, infinite or negative, or there is none.
    """
    try:
        matrix: Any = A if issparse(A) else np.asarray(A)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise ValueError(f"{matrix.ndim} dimension(s) of {matrix.dtype}")
    except (TypeError, ValueError) as error:
        got = f"{type(A).__name__} ({error})"
        hint = "Edges, files and graphs go to Relation.from_edges."
        raise InputError(owner, "A", "a sparse or dense matrix of real numbers", got, hint) from error
    if max(matrix.shape) > _MOST:
        hint = "Leave out the rows and columns that are empty."
        raise InputError(owner, "A", f"of at most {_MOST} rows and columns", f"shape {matrix.shape}", hint)
    csr: csr_array[Any] = check_csr(owner, "A", matrix) if issparse(A) else csr_array(matrix)
    if issparse(A) and matrix.format == "csr":  # the same arrays
        csr = csr.copy()
    csr.sum_duplicates()
    given = csr.data
    with np.errstate(over="ignore"):  # refused below
        csr = csr.astype(np.float32, copy=False)
    bad = np.flatnonzero(~(csr.data >= 0) | np.isinf(csr.data))
    if not bad.size and given.dtype != np.float32:
        bad = np.flatnonzero((csr.data == 0) & (given != 0))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        where = f"{given[bad[0]]} in row {row}, column {csr.indices[bad[0]]} ({bad.size} such entries)"
        hint = "Shift, scale or clip the weights first: float32 has numbers from 1e-45 to 3.4e38."
        raise DataError(owner, "A", "finite and non-negative", where, hint)
    csr.eliminate_zeros()
    if csr.nnz == 0:
        raise DataError(owner, "A", "a matrix with at least one positive entry", f"none in shape {csr.shape}")
    return csr
