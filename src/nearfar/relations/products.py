"""Products with sparse matrices on the threads of this machine: of which the products with any operator are made.

What :meth:`LinearOperator.through` asks of an engine is ``Products``. Devices and clusters have others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.relations.kernels import (
    NO_STORED_WEIGHTS,
    NO_WEIGHTS,
    CsrArrays,
    ScaledCsr,
    plain_product,
    plain_total,
    product,
    total,
    vector_product,
)

BLOCK = 2048
"""Rows a thread takes at a time: long enough to hide the hand-out, short enough to balance hubs."""

V = TypeVar("V")


@lru_cache(maxsize=64)
def blocks_of(n: int) -> tuple[int, ...]:
    """Return the bounds of the blocks of n rows."""
    return tuple(even_bounds(n, BLOCK).tolist())


class ScaledSparse(Protocol):
    """``diag(row_scale) A``, as :class:`nearfar.relations.operators.Sparse` has it."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.int32]
    data: NDArray[np.float32] | None
    shape: tuple[int, int]
    symmetric: bool
    row_scale: NDArray[np.float32] | None

    @property
    def is_small(self) -> bool:
        """Whether it is multiplied by SciPy."""

    def stored(self, *, transposed: bool) -> CsrArrays:
        """Return the arrays of A, or those of its transpose."""


class OnWorkers(Protocol):
    """A sparse matrix whose rows are on the workers of a cluster."""

    shape: tuple[int, int]

    def product(self, X: Floats, *, transposed: bool) -> Floats:
        """Return the product with an array of this machine."""


class Products(Protocol[V]):
    """What an engine must know of sparse matrices to multiply with any operator; ``base`` may be None."""

    @property
    def inner(self) -> Products[V]:
        """The same for results in between."""

    def onto(self, made: V) -> Products[V]:
        """Return the same, whose result may take the place of what was made before, also where that is the base."""

    def sparse(self, A: ScaledSparse, X: V, base: V | None, factor: float, *, transposed: bool) -> V:
        """Return ``base + factor * A X``, of A or its transpose."""

    def stored(
        self, A: OnWorkers, rows: Sequence[object], X: V, base: V | None, factor: float, *, transposed: bool
    ) -> V:
        """Return the same for a matrix whose rows, those of the transpose if ``transposed``, are on workers."""

    def scaled(self, scale: NDArray[np.float32], X: V, base: V | None, factor: float) -> V:
        """Return ``base + factor * diag(scale) X``."""

    def give(self, made: V) -> None:
        """Take back a result in between, to be written over."""


class Workspace(dict[tuple[tuple[int, ...], str], list[Floats]]):
    """Scratch blocks that outlive a product: fresh memory for each would cost more than the product (page faults)."""

    def take(self, n: int, like: Floats) -> Floats:
        """Return an uninitialised block of n rows, of the width and dtype of ``like``."""
        free = self.get(((n, *like.shape[1:]), like.dtype.str))
        return free.pop() if free else empty_aligned((n, *like.shape[1:]), like.dtype)

    def give(self, block: Floats) -> None:
        """Hand a block back."""
        self.setdefault((block.shape, block.dtype.str), []).append(block)


class Threads:
    """Products on threads.

    Parameters
    ----------
    n_jobs : int, default=1
    out : ndarray, optional
        For the result, which is a new array without it. May be ``base``, not X.
    overflown : list of int, optional
        Gets the numbers of the blocks of ``out`` in which NaN, infinity or a number near the largest came out; with
        None nobody looks.
    inner : Threads, optional
        Makes the results in between, and keeps their memory.
    """

    def __init__(
        self,
        n_jobs: int = 1,
        out: Floats | None = None,
        overflown: list[int] | None = None,
        inner: Threads | None = None,
    ) -> None:
        self._n_jobs, self._out, self._overflown = n_jobs, out, overflown
        # An engine does not refer to itself, or its memory would be held until the next collection of garbage.
        self._inner = Threads(n_jobs) if inner is None and out is not None else inner
        self._workspace: Workspace = Workspace() if self._inner is None else self._inner._workspace

    @property
    def inner(self) -> Threads:
        """The same for results in between."""
        return self if self._inner is None else self._inner

    def give(self, made: Floats) -> None:
        """Take back a result in between, to be written over."""
        self._workspace.give(made)

    def onto(self, made: Floats) -> Threads:
        """Return the same, whose result takes the place of ``made``."""
        return Threads(self._n_jobs, made, self._overflown, self.inner)

    def sparse(
        self, A: ScaledSparse, X: Floats, base: Floats | None = None, factor: float = 1.0, *, transposed: bool = False
    ) -> Floats:
        """Return ``base + factor * A X``, of A or its transpose, in X's dtype; O(nnz d) time."""
        out = self._workspace.take(A.shape[transposed], X) if self._out is None else self._out
        row_scale, column_scale = (None, A.row_scale) if transposed else (A.row_scale, None)
        blocks = blocks_of(len(out))
        if A.is_small:
            plain_product(_for_scipy(A, transposed=transposed), row_scale, X, factor, base, out)
            for block, rows in enumerate(pairwise(blocks)):
                self._look(block, plain_total, out, *rows)
            return out
        indptr, indices, data = A.stored(transposed=transposed)
        row_scale = NO_WEIGHTS if row_scale is None else row_scale
        kernel = product
        if X.shape[1] == 1:
            kernel = vector_product
            data = NO_STORED_WEIGHTS if data is None else data
            column_scale = NO_WEIGHTS if column_scale is None else column_scale
        matrix = ScaledCsr(indptr, indices, data, row_scale, column_scale)
        given = out[:0] if base is None else base

        def task(block: int, start: int, stop: int) -> None:
            kernel(matrix, X, factor, given, out, (start, stop))
            self._look(block, total, out, start, stop)

        run_blocks(task, blocks, self._n_jobs)
        return out

    def _look(self, block: int, total: Callable[..., float], out: Floats, start: int, stop: int) -> None:
        """Look for what is not finite: that costs little while the block is in the cache."""
        if self._overflown is not None and not isfinite(total(out, start, stop)):
            self._overflown.append(block)

    def stored(
        self,
        A: OnWorkers,
        rows: Sequence[object],  # noqa: ARG002
        X: Floats,
        base: Floats | None,
        factor: float,
        *,
        transposed: bool,
    ) -> Floats:
        """Return the same: X goes to the workers, and the product comes back."""
        found = factor * A.product(X, transposed=transposed)
        out = found if self._out is None else self._out
        out[:] = found if base is None else base + found
        return out

    def scaled(self, scale: NDArray[np.float32], X: Floats, base: Floats | None = None, factor: float = 1.0) -> Floats:
        """Return ``base + factor * diag(scale) X``."""
        out = self._workspace.take(len(X), X) if self._out is None else self._out
        factors = scale[:, None].astype(X.dtype, copy=False) * X.dtype.type(factor)

        def task(block: int, start: int, stop: int) -> None:
            rows = slice(start, stop)
            with np.errstate(all="ignore"):  # nothing is known of X; the result shows it
                np.add(factors[rows] * X[rows], 0 if base is None else base[rows], out=out[rows])
            self._look(block, plain_total, out, start, stop)

        run_blocks(task, blocks_of(len(X)), self._n_jobs)
        return out


# Not with the matrices: what is made of them has others, and pickles and counts of bytes go without.
_FOR_SCIPY: WeakKeyDictionary[ScaledSparse, dict[bool, csr_array[np.float32]]] = WeakKeyDictionary()


def _for_scipy(A: ScaledSparse, *, transposed: bool) -> csr_array[np.float32]:
    """Return A, or Aᵀ diag(row_scale), as SciPy multiplies with it."""
    kept = _FOR_SCIPY.setdefault(A, {})
    if transposed not in kept:
        indptr, indices, data = A.stored(transposed=transposed)
        data = np.ones(indices.size, np.float32) if data is None else data
        if transposed and A.row_scale is not None:
            data = data * A.row_scale[indices]
        shape = A.shape[::-1] if transposed else A.shape
        kept[transposed] = csr_array((data, indices, indptr), shape=shape)
    return kept[transposed]
