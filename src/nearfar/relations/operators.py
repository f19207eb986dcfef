"""Non-negative linear operators, what a relation is made of: what all of them can do, and the sparse matrix.

Those that are made of others are in :mod:`nearfar.relations.composed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._checks import available_processors
from nearfar._parallel import even_bounds, run_blocks
from nearfar._vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.relations import _kernels

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
