"""The near field: the rows of ``(P + Pᵀ) X`` (or of ``P X``), a block at a time.

``prepare(X)`` is called once per sweep, ``block`` then from several threads. X may change between the blocks of one
sweep: what later blocks need was copied or computed in ``prepare``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar.relations import _kernels
from nearfar.relations.operators import BLOCK, How, LinearOperator, Sparse, Walk

Floats = NDArray[np.floating[Any]]


class NearField(Protocol):
    """The pull of the observed relations."""

    def prepare(self, X: Floats) -> None:
        """Take in the vectors, shape (m, d)."""

    def block(self, start: int, stop: int) -> Floats:
        """Return rows start..stop of the pull, shape (stop - start, d); the caller may overwrite them."""

    def scratch(self, shape: tuple[int, int]) -> Floats:
        """Return an array that the caller may use until the next ``prepare``."""


class OperatorPull:
    """``P X`` (``Pᵀ X`` if ``transposed``; their sum if ``both``) of any operator, held as one array."""

    def __init__(
        self, operator: LinearOperator, *, transposed: bool = False, both: bool = False, n_jobs: int = 1
    ) -> None:
        self._operator, self._both = operator, both
        self._how = How(transposed=transposed, n_jobs=n_jobs)
        self._pull: Floats = np.empty((0, 0))

    def prepare(self, X: Floats) -> None:
        n = self._operator.shape[self._how.transposed]
        if self._pull.shape != (n, X.shape[1]):
            self._pull = np.empty((n, X.shape[1]), X.dtype)
        self._operator.apply(X, self._pull, self._how)
        if self._both:
            other = replace(self._how, base=self._pull, transposed=not self._how.transposed)
            self._operator.apply(X, self._pull, other)

    def block(self, start: int, stop: int) -> Floats:
        return self._pull[start:stop]

    def scratch(self, shape: tuple[int, int]) -> Floats:
        return np.empty(shape, self._pull.dtype)


class SymmetricPull:
    """``(P + Pᵀ) X`` for the walk on a symmetric matrix: both products from one pass per power.

    Holds two blocks of n x 2d; the last product is made when a block is asked for.
    """

    def __init__(self, base: Sparse, steps: int, n_jobs: int = 1) -> None:
        assert base.row_scale is not None
        self._arrays = (base.indptr, base.indices, base.data, base.row_scale)
        self._scale, self._steps, self._n_jobs = base.row_scale, steps, n_jobs
        self._bounds = even_bounds(base.shape[0], BLOCK)
        self._W: Floats = np.empty((0, 0))
        self._spare: Floats = np.empty((0, 0))

    @staticmethod
    def of(operator: LinearOperator, n_jobs: int) -> SymmetricPull | None:
        """Return the pull if the operator is a walk on a row-scaled symmetric matrix, else None."""
        base, steps = (operator.base, operator.steps) if isinstance(operator, Walk) else (operator, 1)
        if isinstance(base, Sparse) and base.symmetric and base.row_scale is not None:
            return SymmetricPull(base, steps, n_jobs)
        return None

    def prepare(self, X: Floats) -> None:
        n, d = X.shape
        if self._W.shape != (n, 2 * d):
            self._W = np.empty((n, 2 * d), X.dtype)
            self._spare = np.empty((n, 2 * d), X.dtype) if self._steps > 1 else self._spare
        W, spare = self._W, self._spare
        scale, arrays = self._scale, self._arrays
        run_blocks(lambda _b, lo, hi: _kernels.pair_start(scale, X, W, lo, hi), self._bounds, self._n_jobs)
        for _ in range(self._steps - 1):
            source, target = W, spare

            def task(_block: int, lo: int, hi: int, source: Floats = source, target: Floats = target) -> None:
                _kernels.pair_step(*arrays, X, source, target, lo, hi)

            run_blocks(task, self._bounds, self._n_jobs)
            W, spare = spare, W
        self._W, self._spare = W, spare

    def block(self, start: int, stop: int) -> Floats:
        out = np.empty((stop - start, self._W.shape[1] // 2), self._W.dtype)
        _kernels.pair_finish(*self._arrays, 1.0 / self._steps, self._W, out, start, stop)
        return out

    def scratch(self, shape: tuple[int, int]) -> Floats:
        n, d = shape
        if self._spare.size < n * d:
            self._spare = np.empty((n, 2 * d), self._W.dtype)
        return self._spare.reshape(-1)[: n * d].reshape(n, d)


def symmetric_near_field(operator: LinearOperator, gradient: str, n_jobs: int) -> NearField:
    """Return the pull of a square relation with one embedding: ``P X`` if forward, else ``(P + Pᵀ) X``."""
    if gradient == "forward":
        return OperatorPull(operator, n_jobs=n_jobs)
    return SymmetricPull.of(operator, n_jobs) or OperatorPull(operator, both=True, n_jobs=n_jobs)
