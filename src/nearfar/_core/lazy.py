"""Rows that are read, or computed, when they are asked for: the part of the array interface that this library uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.types import Floats, RowNumbers

ROWS = 32768
"""Rows that are formed at once."""
Asked = int | np.integer | slice | NDArray[np.integer] | NDArray[np.bool_] | Sequence[int]


class LazyRows:
    """A matrix whose rows are read, or computed, when they are asked for.

    A subclass gives ``shape``, ``dtype``, ``nbytes`` and ``rows[...]``, and ``subset`` where it has some rows without
    reading them. Rows that are asked for are a vector for an integer, a matrix for a slice or for row numbers.
    """

    dtype: np.dtype[np.floating] = np.dtype(np.float32)
    ndim = 2
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Asked) -> Floats:
        raise NotImplementedError

    def subset(self, rows: RowNumbers) -> LazyRows | Floats:
        """Return some rows, read-only."""
        found = self[rows].view()
        found.flags.writeable = False
        return found

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of rows that are formed at once, one block after the other."""
        for start in range(0, len(self), ROWS):
            yield start, min(start + ROWS, len(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        if copy is False:
            raise ValueError("rows that are read when they are asked for cannot become an array without a copy")
        whole = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for start, stop in self.blocks():
            whole[start:stop] = self[start:stop]
        return whole

    @property
    def T(self) -> Floats:  # noqa: N802 - as an array has it
        """The transpose, as an array."""
        found: Floats = np.asarray(self, self.dtype).T
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers as they are kept."""
        raise NotImplementedError

    def error(self, X: Matrix) -> float:
        """Return how far the rows are from others: the norm of the difference over the norm of the others."""
        differ = whole = 0.0
        for start, stop in self.blocks():
            exact = np.asarray(X[start:stop], np.float64)
            differ += float(np.square(self[start:stop] - exact).sum())
            whole += float(np.square(exact).sum())
        return float(np.sqrt(differ / whole)) if whole else 0.0

    def tobytes(self) -> bytes:
        """Return the bytes of the whole matrix, as of an array."""
        return np.asarray(self).tobytes()


Matrix = Floats | LazyRows
"""Rows of numbers in memory, or that are read when they are asked for."""
