"""The near field: the rows of ``(P + Pᵀ) X`` (or of ``P X``), a block at a time.

``prepare(X)`` is called once per sweep, ``block`` then from several threads. X may change between the blocks of one
sweep: what later blocks need was copied or computed in ``prepare``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from nearfar._core.threads import run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.relations import kernels as _kernels
from nearfar.relations.operators import How, LinearOperator, Sparse, Walk, Workspace, blocks_of


class NearField(Protocol):
    """The pull of the observed relations."""

    def prepare(self, X: Floats) -> None:
        """Take in the vectors, shape (m, d)."""

    def block(self, start: int, stop: int) -> Floats:
        """Return rows start..stop of the pull, shape (stop - start, d); the caller may overwrite them."""

    def scratch(self, shape: tuple[int, int]) -> Floats:
        """Return an array that the caller may use until the next ``prepare``."""

    def release(self) -> None:
        """Give the memory back; ``prepare`` takes it again."""


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
            self._pull = empty_aligned((n, X.shape[1]), X.dtype)
        self._operator.apply(X, self._pull, self._how)
        if self._both:
            other = replace(self._how, base=self._pull, transposed=not self._how.transposed)
            self._operator.apply(X, self._pull, other)

    def block(self, start: int, stop: int) -> Floats:
        return self._pull[start:stop]

    def scratch(self, shape: tuple[int, int]) -> Floats:
        return np.empty(shape, self._pull.dtype)

    def release(self) -> None:
        self._pull = np.empty((0, 0), self._pull.dtype)
        self._how = replace(self._how, workspace=Workspace())


class WalkPull:
    """The walk on a row-scaled matrix, ``P = (B + ... + Bᵏ)/k``, ``B = diag(s) A``; the last product block by block.

    ``P X``, by Horner's rule in two running blocks of n x d; with ``both`` and a symmetric A ``(P + Pᵀ) X``, from one
    pass over A per power: the running blocks of the two products lie side by side, n x 2d.
    """

    def __init__(self, base: Sparse, steps: int, *, both: bool, n_jobs: int = 1) -> None:
        assert base.row_scale is not None
        assert base.symmetric or not both
        self._arrays = (base.indptr, base.indices, base.data, base.row_scale)
        self._scale, self._steps, self._both, self._n_jobs = base.row_scale, steps, both, n_jobs
        self._bounds = blocks_of(base.shape[0])
        self._W: Floats = np.empty((0, 0))
        self._spare: Floats = np.empty((0, 0))

    @staticmethod
    def of(operator: LinearOperator, *, both: bool, n_jobs: int) -> WalkPull | None:
        """Return the pull if the operator is such a walk, else None."""
        base, steps = (operator.base, operator.steps) if isinstance(operator, Walk) else (operator, 1)
        if isinstance(base, Sparse) and base.row_scale is not None and (base.symmetric or not both):
            return WalkPull(base, steps, both=both, n_jobs=n_jobs)
        return None

    def n_arrays(self, *, scratch: bool) -> int:
        """Return how many arrays of n x d are held, with or without the caller's ``scratch``."""
        return (1 + self._both) * (2 if scratch or self._needs_spare else 1)

    @property
    def _needs_spare(self) -> bool:
        return self._steps > 1 + (not self._both)

    def prepare(self, X: Floats) -> None:
        n, d = X.shape
        shape = (n, 2 * d if self._both else d)
        if self._W.shape != shape:
            self._W = empty_aligned(shape, X.dtype)
            self._spare = empty_aligned(shape if self._needs_spare else (0, 0), X.dtype)
        if self._both:
            self._run(_kernels.pair_start, self._scale, X, self._W)
            for _ in range(self._steps - 1):
                self._run(_kernels.pair_step, *self._arrays, X, self._W, self._spare)
                self._W, self._spare = self._spare, self._W
        elif self._steps == 1:
            np.copyto(self._W, X)
        else:
            self._step(X, X, self._W)
            for _ in range(self._steps - 2):
                self._step(X, self._W, self._spare)
                self._W, self._spare = self._spare, self._W

    def block(self, start: int, stop: int) -> Floats:
        out = np.empty((stop - start, self._W.shape[1] // (1 + self._both)), self._W.dtype)
        if self._both:
            _kernels.pair_finish(*self._arrays, 1.0 / self._steps, self._W, out, start, stop)
        else:
            factor = 1.0 / self._steps
            _kernels.product(*self._arrays, None, self._W, factor, out, False, out, start, start, stop)
        return out

    def scratch(self, shape: tuple[int, int]) -> Floats:
        n, d = shape
        if self._spare.size < n * d:
            self._spare = empty_aligned(self._W.shape, self._W.dtype)
        return self._spare.reshape(-1)[: n * d].reshape(n, d)

    def release(self) -> None:
        self._W = self._spare = np.empty((0, 0), self._W.dtype)

    def _step(self, X: Floats, source: Floats, target: Floats) -> None:
        """Target = X + B source."""
        self._run(_kernels.product, *self._arrays, None, source, 1.0, X, True, target, 0)

    def _run(self, kernel: Callable[..., None], *arguments: Any) -> None:
        run_blocks(lambda _block, start, stop: kernel(*arguments, start, stop), self._bounds, self._n_jobs)


def symmetric_near_field(operator: LinearOperator, gradient: str, n_jobs: int) -> NearField:
    """Return the pull of a square relation with one embedding: ``P X`` if forward, else ``(P + Pᵀ) X``."""
    both = gradient != "forward"
    return WalkPull.of(operator, both=both, n_jobs=n_jobs) or OperatorPull(operator, both=both, n_jobs=n_jobs)
