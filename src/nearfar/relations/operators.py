"""Non-negative linear operators kept as factors: what a relation is made of.

A sparse matrix, a product, a weighted sum and the mean of the first powers know their product with a dense block, and
that of their transpose; nothing is ever multiplied out. With ``B = diag(s) A`` and ``A`` symmetric, the walk's two
products

    P X   = 1/k (B + B² + ... + Bᵏ) X           T_1 = X + B X,           T_j = X + B T_(j-1),       P X = B T_(k-1) / k
    Pᵀ X  = 1/k (Bᵀ + ... + (Bᵀ)ᵏ) X            (Horner, one product per power)

come from one pass over the structure of ``A`` per power: with ``T' = s ∘ (X + A T'_(j-1))`` both need only ``A`` times
the two blocks side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.relations import _kernels

BLOCK = 2048
"""Rows a worker takes at a time: long enough to hide the hand-out, short enough to balance hubs."""
PIECE = 1 << 20  # stored entries that are looked at together where all are, outside of the kernels


class Workspace:
    """Scratch blocks that outlive a product: fresh memory for each would cost more than the product (page faults)."""

    def __init__(self) -> None:
        self._free: dict[tuple[tuple[int, ...], str], list[Floats]] = {}

    def take(self, n: int, like: Floats) -> Floats:
        """Return an uninitialised block of n rows, of the width and dtype of ``like``."""
        free = self._free.get(((n, *like.shape[1:]), like.dtype.str))
        return free.pop() if free else np.empty((n, *like.shape[1:]), like.dtype)

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
    def apply(self, X: Floats, out: Floats, how: How) -> None:
        """Write ``base + factor * P X`` (``Pᵀ X`` if transposed) to ``out``; ``base`` may be ``out``, X may not."""

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
        out = np.empty((self.shape[0], X.shape[1]), X.dtype)
        self.apply(X, out, How(n_jobs=n_jobs))
        return out

    def rmatmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Return Pᵀ X for X of shape (n, d), in X's dtype; O(nnz d) time."""
        out = np.empty((self.shape[1], X.shape[1]), X.dtype)
        self.apply(X, out, How(transposed=True, n_jobs=n_jobs))
        return out

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
        self.apply(np.ones((self.shape[not transposed], 1)), out, How(transposed=transposed))
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

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        indptr, indices, data = self.indptr, self.indices, self.data
        row_scale, column_scale = self.row_scale, None
        if how.transposed:
            row_scale, column_scale = None, self.row_scale
            if not self.symmetric:
                indptr, indices, data = self._transposed
        base, with_base = (out, False) if how.base is None else (how.base, True)
        kernel = _kernels.product if X.shape[1] > 1 else _kernels.vector_product
        scale = _kernels.NO_SCALE if row_scale is None else row_scale
        rest = (data, scale, column_scale, X, how.factor, base, with_base, out)
        run_blocks(
            lambda _b, start, stop: kernel(indptr, indices, *rest, 0, start, stop),
            even_bounds(len(indptr) - 1, BLOCK),
            how.n_jobs,
        )

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
        from nearfar.relations._csr import transpose

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

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        order = self.factors if how.transposed else self.factors[::-1]
        current = X
        for step in order[:-1]:
            target = how.workspace.take(step.shape[how.transposed], X)
            step.apply(current, target, replace(how, base=None, factor=1.0))
            if current is not X:
                how.workspace.give(current)
            current = target
        order[-1].apply(current, out, how)
        how.workspace.give(current)

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

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        base = how.base
        for weight, term in zip(self.weights, self.terms, strict=True):
            term.apply(X, out, replace(how, base=base, factor=how.factor * weight))
            base = out

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

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        scale = self.scale[:, None].astype(X.dtype, copy=False)
        part = how.workspace.take(self.shape[0], X)
        if how.transposed:
            np.multiply(scale, X, out=part)
            self.inner.apply(part, out, how)
        else:
            self.inner.apply(X, part, replace(how, base=None, factor=1.0))
            part *= scale * X.dtype.type(how.factor)
            np.add(part, 0 if how.base is None else how.base, out=out)
        how.workspace.give(part)

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

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        self.inner.apply(X, out, replace(how, transposed=not how.transposed))

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
        return None if base is None else Walk(base, self.steps)

    @property
    def is_undirected(self) -> bool:
        return self.base.is_undirected

    def apply(self, X: Floats, out: Floats, how: How) -> None:
        T = X
        step = replace(how, base=X, factor=1.0)
        for _ in range(self.steps - 1):
            target = how.workspace.take(len(X), X)
            self.base.apply(T, target, step)
            if T is not X:
                how.workspace.give(T)
            T = target
        self.base.apply(T, out, replace(how, factor=how.factor / self.steps))
        if T is not X:
            how.workspace.give(T)

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
