"""Operators made of operators: products, weighted sums, scaled rows, transposes, walks.

They know their product with a dense block, and that of their transpose; nothing is ever multiplied out. With
``B = diag(s) A`` and ``A`` symmetric, the walk's two products

    P X   = 1/k (B + B² + ... + Bᵏ) X           T_1 = X + B X,           T_j = X + B T_(j-1),       P X = B T_(k-1) / k
    Pᵀ X  = 1/k (Bᵀ + ... + (Bᵀ)ᵏ) X            (Horner, one product per power)

come from one pass over the structure of ``A`` per power: with ``T' = s ∘ (X + A T'_(j-1))`` both need only ``A`` times
the two blocks side by side (:mod:`nearfar.relations.near`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from nearfar._core.checks import available_processors
from nearfar._core.ids import Ids
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.errors import DataError, InputError
from nearfar.relations import kernels as _kernels
from nearfar.relations.kernels import build_csr, transpose

if TYPE_CHECKING:
    from nearfar.relations.edges import Edges

# ------------------------------------------------------------
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
    for name, given, size in (("ids", row_ids, n), ("column_ids", other_ids, m)):
        if len(given) != size:
            raise InputError(owner, name, f"{size} ids, one for each of A's", f"{len(given)}")
    if row_ids == other_ids:
        other_ids = row_ids
    return _sparse(csr, square=row_ids is other_ids), row_ids, other_ids


def _sparse(csr: csr_array[Any], *, square: bool) -> Sparse:
    m = csr.shape[1]
    data = None if np.all(csr.data == 1) else csr.data
    operator = Sparse(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), data, m, symmetric=False)
    arrays = (operator.indptr, operator.indices, operator.data)
    operator.symmetric = square and all(
        a is b or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(arrays, transpose(*arrays, m), strict=True)
    )
    return operator


def checked_csr(owner: str, A: Any) -> csr_array[Any]:
    """Return A as CSR, float32, sorted, without duplicates and zeros; a new object wherever A would change.

    Raises
    ------
    InputError
        If A is not a matrix of numbers.
    DataError
        If an entry is NaN, infinite or negative, or there is none.
    """
    from scipy.sparse import csr_array, issparse

    try:
        matrix: Any = A if issparse(A) else np.asarray(A)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise ValueError(f"{matrix.ndim} dimension(s) of {matrix.dtype}")
        csr: csr_array[Any] = csr_array(matrix, copy=True)
        csr.sum_duplicates()
        with np.errstate(over="ignore"):  # refused below
            csr = csr.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        got = f"{type(A).__name__} ({error})"
        hint = "Edges, files and graphs go to Relation.from_edges."
        raise InputError(owner, "A", "a sparse or dense matrix of real numbers", got, hint) from error
    bad = np.flatnonzero(~(csr.data >= 0) | np.isinf(csr.data))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        where = f"{csr.data[bad[0]]} in row {row}, column {csr.indices[bad[0]]} ({bad.size} such entries)"
        raise DataError(owner, "A", "finite and non-negative", where, "Shift or clip the weights first.")
    csr.eliminate_zeros()
    if csr.nnz == 0:
        raise DataError(owner, "A", "a matrix with at least one positive entry", f"none in shape {csr.shape}")
    return csr


# ------------------------------------------------------------
# Non-negative linear operators, what a relation is made of: what all of them can do, and the sparse matrix.
#
# Those that are made of others are in :mod:`nearfar.relations.operators`.

BLOCK = 2048
"""Rows a worker takes at a time: long enough to hide the hand-out, short enough to balance hubs."""
PIECE = 1 << 20  # stored entries that are looked at together where all are, outside of the kernels


@lru_cache(maxsize=64)
def blocks_of(n: int) -> tuple[int, ...]:
    """Return the bounds of the blocks of n rows."""
    return tuple(even_bounds(n, BLOCK).tolist())


class Workspace:
    """Scratch blocks that outlive a product: fresh memory for each would cost more than the product (page faults)."""

    def __init__(self) -> None:
        self._free: dict[tuple[tuple[int, ...], str], list[Floats]] = {}

    def take(self, n: int, like: Floats) -> Floats:
        """Return an uninitialised block of n rows, of the width and dtype of ``like``."""
        free = self._free.get(((n, *like.shape[1:]), like.dtype.str))
        return free.pop() if free else empty_aligned((n, *like.shape[1:]), like.dtype)

    def give(self, block: Floats) -> None:
        """Hand a block back."""
        self._free.setdefault((block.shape, block.dtype.str), []).append(block)


@dataclass(frozen=True)
class How:
    """How a product is to be taken: ``base + factor * P X``, with P or its transpose, by how many workers."""

    base: Floats | None = None
    factor: float = 1.0
    transposed: bool = False
    n_jobs: int = 1
    workspace: Workspace = field(default_factory=Workspace)


class LinearOperator(ABC):
    """A non-negative linear map, P: (n, m), known by its products."""

    shape: tuple[int, int]

    @abstractmethod
    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        """Write ``base + factor * P X`` (``Pᵀ X`` if transposed) to ``out``; ``base`` may be ``out``, X may not.

        Returns False if NaN, infinity or a number near the largest came out.
        """

    @abstractmethod
    def rows(self, start: int, stop: int) -> csr_array[Any]:
        """Return rows start..stop multiplied out."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the arrays in memory (a factor that occurs twice counts twice); what files hold is not counted."""

    @property
    @abstractmethod
    def nnz(self) -> int:
        """Stored entries over all factors."""

    def matmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return P X for X of shape (m, d), in X's dtype; O(nnz d) time."""
        return self.times(X, transposed=False, n_jobs=n_jobs)[0]

    def rmatmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return Pᵀ X for X of shape (n, d), in X's dtype; O(nnz d) time."""
        return self.times(X, transposed=True, n_jobs=n_jobs)[0]

    def times(self, X: Floats, *, transposed: bool, n_jobs: int) -> tuple[Floats, bool]:
        """Return P X or Pᵀ X, and what ``apply`` says of it."""
        out = np.empty((self.shape[transposed], X.shape[1]), X.dtype)
        return out, self.apply(X, out, How(transposed=transposed, n_jobs=n_jobs))

    def scratch_arrays(self) -> int:
        """Return how many further blocks of the size of X a product needs at most."""
        return 0

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:  # noqa: ARG002
        """Return a square operator without rows that are empty, as their columns are; None where that is not cheap."""
        return None

    @property
    def is_undirected(self) -> bool:
        """Whether it is known to be symmetric up to a scaling of the rows, and means of powers of such."""
        return False

    @cached_property
    def row_sums(self) -> NDArray[np.float64]:
        """P 1, shape (n,), float64."""
        return self._sums(transposed=False)

    @cached_property
    def column_sums(self) -> NDArray[np.float64]:
        """Pᵀ 1, shape (m,), float64."""
        return self._sums(transposed=True)

    def _sums(self, *, transposed: bool) -> NDArray[np.float64]:
        out = np.empty((self.shape[transposed], 1))
        how = How(transposed=transposed, n_jobs=available_processors())
        self.apply(np.ones((self.shape[not transposed], 1)), out, how)
        return out[:, 0]


def rows_of(indptr: NDArray[Any], start: int, stop: int) -> NDArray[np.int32]:
    """Return the row of each of the stored entries start..stop, int32."""
    first, last = np.searchsorted(indptr, [start, stop - 1], side="right") - 1
    lengths = np.diff(np.clip(indptr[first : last + 2], start, stop))
    return np.repeat(np.arange(first, last + 1, dtype=np.int32), lengths)


def _read_only(*arrays: Any) -> tuple[Any, ...]:
    views = [None if array is None else array.view() for array in arrays]
    for view in views:
        if view is not None:
            view.flags.writeable = False
    return tuple(views)


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
        self.indptr: NDArray[Any]
        self.indices: NDArray[np.int32]
        self.data: NDArray[np.float32] | None
        self.indptr, self.indices, self.data = _read_only(indptr, indices, data)
        self.shape = (len(indptr) - 1, n_columns)
        self.symmetric, self.row_scale = symmetric, row_scale

    def scaled(self, row_scale: NDArray[np.float32] | None) -> Sparse:
        """Return ``diag(row_scale) A``, sharing A; an earlier scale is replaced."""
        new = object.__new__(type(self))
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("row_sums", "column_sums")})
        new.row_scale = row_scale
        return new

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        indptr, indices, data = self.indptr, self.indices, self.data
        row_scale, column_scale = self.row_scale, None
        if how.transposed:
            row_scale, column_scale = None, self.row_scale
            if not self.symmetric:
                indptr, indices, data = self._transposed
        base, with_base = (out, False) if how.base is None else (how.base, True)
        kernel = _kernels.vector_product if X.shape[1] == 1 else _kernels.product
        scale = _kernels.NO_SCALE if row_scale is None else row_scale
        rest = (data, scale, column_scale, X, how.factor, base, with_base, out)
        overflown: list[int] = []

        def task(block: int, start: int, stop: int) -> None:
            kernel(indptr, indices, *rest, 0, start, stop)
            if not isfinite(_kernels.total(out, start, stop)):  # costs little while the block is in the cache
                overflown.append(block)

        run_blocks(task, blocks_of(len(indptr) - 1), how.n_jobs)
        return not overflown

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:
        new_index = np.delete(np.arange(self.shape[0]), isolates)
        index_of = np.zeros(self.shape[0], np.int32)
        index_of[new_index] = np.arange(new_index.size, dtype=np.int32)
        return Sparse(
            np.append(self.indptr[new_index], self.indptr[-1]),
            index_of[self.indices],
            self.data,
            new_index.size,
            symmetric=self.symmetric,
            row_scale=None if self.row_scale is None else self.row_scale[new_index],
        )

    @property
    def is_undirected(self) -> bool:
        return self.symmetric

    @cached_property
    def _transposed(self) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float32] | None]:
        from nearfar.relations.kernels import transpose

        indptr, indices, data = _read_only(*transpose(self.indptr, self.indices, self.data, self.shape[1]))
        return indptr, indices, data

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

    @property
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


class Product(LinearOperator):
    """``factors[0] @ factors[1] @ ...``, applied from the right."""

    def __init__(self, factors: Sequence[LinearOperator]) -> None:
        self.factors = tuple(factors)
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        order = self.factors if how.transposed else self.factors[::-1]
        current = X
        for step in order[:-1]:
            target = how.workspace.take(step.shape[how.transposed], X)
            step.apply(current, target, replace(how, base=None, factor=1.0))
            if current is not X:
                how.workspace.give(current)
            current = target
        finite = order[-1].apply(current, out, how)
        how.workspace.give(current)
        return finite

    def scratch_arrays(self) -> int:
        return 2 if len(self.factors) > 2 else 1

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        block = self.factors[0].rows(start, stop)
        for factor in self.factors[1:]:
            block = csr_array(block @ factor.rows(0, factor.shape[0]))
        return block

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self.factors)

    @property
    def nnz(self) -> int:
        return sum(f.nnz for f in self.factors)


class WeightedSum(LinearOperator):
    """``sum_k weights[k] * terms[k]``."""

    def __init__(self, weights: Sequence[float], terms: Sequence[LinearOperator]) -> None:
        self.weights, self.terms = tuple(weights), tuple(terms)
        self.shape = terms[0].shape

    @property
    def is_undirected(self) -> bool:
        return all(term.is_undirected for term in self.terms)

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        base, finite = how.base, True
        for weight, term in zip(self.weights, self.terms, strict=True):
            finite &= term.apply(X, out, replace(how, base=base, factor=how.factor * weight))
            base = out
        return finite

    def scratch_arrays(self) -> int:
        return max(term.scratch_arrays() for term in self.terms)

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        parts = [w * t.rows(start, stop) for w, t in zip(self.weights, self.terms, strict=True)]
        return csr_array(sum(parts[1:], parts[0]))

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.terms)

    @property
    def nnz(self) -> int:
        return sum(t.nnz for t in self.terms)


class RowScaled(LinearOperator):
    """``diag(scale) inner``, for an inner operator that is not one sparse matrix."""

    def __init__(self, scale: NDArray[np.float32], inner: LinearOperator) -> None:
        self.scale, self.inner, self.shape = scale, inner, inner.shape

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        scale = self.scale[:, None].astype(X.dtype, copy=False)
        part = how.workspace.take(self.shape[0], X)
        if how.transposed:
            with np.errstate(all="ignore"):  # of X nothing is known, the result says it
                np.multiply(scale, X, out=part)
            finite = self.inner.apply(part, out, how)
        else:
            finite = self.inner.apply(X, part, replace(how, base=None, factor=1.0))
            with np.errstate(all="ignore"):
                part *= scale * X.dtype.type(how.factor)
                np.add(part, 0 if how.base is None else how.base, out=out)
        how.workspace.give(part)
        return finite

    def scratch_arrays(self) -> int:
        return 1 + self.inner.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        return csr_array(diags_array(self.scale[start:stop]) @ self.inner.rows(start, stop))

    @property
    def nbytes(self) -> int:
        return self.scale.nbytes + self.inner.nbytes

    @property
    def nnz(self) -> int:
        return self.inner.nnz


class Transposed(LinearOperator):
    """``innerᵀ``."""

    def __init__(self, inner: LinearOperator) -> None:
        self.inner, self.shape = inner, (inner.shape[1], inner.shape[0])

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        return self.inner.apply(X, out, replace(how, transposed=not how.transposed))

    def scratch_arrays(self) -> int:
        return self.inner.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.inner.rows(0, self.inner.shape[0])
        return csr_array(whole[:, start:stop].T)

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    @property
    def nnz(self) -> int:
        return self.inner.nnz


class Walk(LinearOperator):
    """Mean of the first ``steps`` powers of a square operator B, by Horner's rule: one product per power."""

    def __init__(self, base: LinearOperator, steps: int) -> None:
        self.base, self.steps, self.shape = base, steps, base.shape

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:
        base = self.base.without(isolates)
        if base is None:
            return None
        smaller = Walk(base, self.steps)
        for name in {"row_sums", "column_sums"} & self.__dict__.keys():  # they stay what they are, to the last bit
            smaller.__dict__[name] = np.delete(self.__dict__[name], isolates)
        return smaller

    @property
    def is_undirected(self) -> bool:
        return self.base.is_undirected

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        T = X
        step = replace(how, base=X, factor=1.0)
        for _ in range(self.steps - 1):
            target = how.workspace.take(len(X), X)
            self.base.apply(T, target, step)
            if T is not X:
                how.workspace.give(T)
            T = target
        finite = self.base.apply(T, out, replace(how, factor=how.factor / self.steps))
        if T is not X:
            how.workspace.give(T)
        return finite

    def scratch_arrays(self) -> int:
        return min(self.steps - 1, 2) + self.base.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.base.rows(0, self.shape[0])
        power = self.base.rows(start, stop)
        total = power.copy()
        for _ in range(self.steps - 1):
            power = csr_array(power @ whole)
            total = csr_array(total + power)
        total.data /= self.steps  # in place: scipy's own division would make it float64
        return total

    @property
    def nbytes(self) -> int:
        return self.base.nbytes

    @property
    def nnz(self) -> int:
        return self.base.nnz


def factors_of(operator: LinearOperator) -> tuple[LinearOperator, ...]:
    """Return the factors of a product, of anything else itself."""
    return operator.factors if isinstance(operator, Product) else (operator,)


def terms_of(operator: LinearOperator) -> list[tuple[float, LinearOperator]]:
    """Return the weighted terms of a sum, of anything else itself."""
    if isinstance(operator, WeightedSum):
        return list(zip(operator.weights, operator.terms, strict=True))
    return [(1.0, operator)]
