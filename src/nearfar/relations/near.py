"""The near field: the rows of ``(P + Pᵀ) X`` (or of ``P X``), a block at a time.

Where X is too large for memory, :class:`NearSlices` takes a few of its columns at a time.

``prepare(X)`` is called once per sweep and returns what gives rows of the pull by slices, from several threads; the
caller may overwrite them. X may change between the blocks of one sweep: what later blocks need was copied or computed
in ``prepare``. ``n_arrays`` is how many arrays of the size of X it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.relations.kernels import NO_WEIGHTS, ScaledCsr, pair_finish, pair_start, pair_step, product
from nearfar.relations.operators import LinearOperator, Sparse, Threads, as_walk, blocks_of, scratch_arrays, times

Room = Callable[[str, tuple[int, int], np.dtype[np.floating]], Floats]
"""Returns an array in a file, by the name, the shape and the dtype."""


def near_field(P: LinearOperator, way: str, *, n_jobs: int, room: Room | None = None) -> NearProduct | NearWalk:
    """Return the near field of one embedding: ``P X``, ``Pᵀ X`` for the way "columns", the sum of them for "both".

    With ``room`` vectors are in files: for the rows of a walk alone.
    """
    walk = as_walk(P)
    square = P.shape[0] == P.shape[1]
    if walk is None or not square or way == "columns" or (way == "both" and not walk[0].symmetric):
        return NearProduct(P, transposed=way == "columns", both=way == "both", n_jobs=n_jobs)
    if room is not None:
        return NearSlices(*walk, room, n_jobs=n_jobs)
    return NearWalk(*walk, both=way == "both", n_jobs=n_jobs)


class NearProduct:
    """``P X`` (``Pᵀ X`` if ``transposed``; their sum if ``both``) of any operator, held as one array."""

    def __init__(
        self, operator: LinearOperator, *, transposed: bool = False, both: bool = False, n_jobs: int = 1
    ) -> None:
        self._operator, self._transposed, self._both = operator, transposed, both
        self._threads, self.n_arrays = Threads(n_jobs), 1 + scratch_arrays(operator)
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
        scale = NO_WEIGHTS if base.row_scale is None else base.row_scale
        self._matrix = ScaledCsr(base.indptr, base.indices, base.data, scale, None)
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
            self._run(pair_start, X, self._W)
            for _ in range(self._steps - 1):
                self._run(pair_step, X, self._W, self._spare)
                self._W, self._spare = self._spare, self._W
            return self
        if self._steps == 1:
            np.copyto(self._W, X)
        else:
            self._run(product, X, 1.0, X, self._W)
        for _ in range(self._steps - 2):  # T <- X + B T
            self._run(product, self._W, 1.0, X, self._spare)
            self._W, self._spare = self._spare, self._W
        return self

    def _run(self, kernel: Callable[..., None], *arguments: object) -> None:
        bounds = blocks_of(len(self._matrix.indptr) - 1)
        run_blocks(lambda _block, start, stop: kernel(self._matrix, *arguments, (start, stop)), bounds, self._n_jobs)

    def __getitem__(self, rows: slice) -> Floats:
        start, stop = rows.start, rows.stop
        out = np.empty((stop - start, self._W.shape[1] // (1 + self._both)), self._W.dtype)
        if self._both:
            pair_finish(self._matrix, 1.0 / self._steps, self._W, out, (start, stop))
        else:
            product(self._matrix, self._W, 1.0 / self._steps, out[:0], out, (start, stop))
        return out


SLICE = 32
"""Columns that are in memory together where vectors are in files: two cache lines of float32."""
_ROWS = 2**15  # of X that are read at a time


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
            self._run(product, T, 1.0 / self._steps, columns[:0], pull)
        self._W = self._spare = columns[:0]  # memory for the sweep
        return self

    def __getitem__(self, rows: slice) -> Floats:
        """Return rows of the pull; the caller may overwrite them."""
        return np.concatenate([pull[rows] for pull in self._pull], axis=1)
