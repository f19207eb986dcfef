"""Arrays as loops like them: aligned, read-only, and in units in which squares are numbers."""

from __future__ import annotations

from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Floats

CACHE_LINE = 64  # bytes
FAST = {"reassoc", "contract", "nsz", "arcp"}
"""For ``njit(fastmath=...)``: sums may be reordered, so that they vectorise; infinities and NaN keep their meaning."""
_SAFE = (1e-15, 1e15)  # largest entries whose squares, summed, neither overflow nor vanish in float32

T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


@overload
def read_only(value: NDArray[Scalar]) -> NDArray[Scalar]: ...
@overload
def read_only(value: T) -> T: ...
def read_only(value: object) -> object:
    """Return a view that cannot be written, also of a tuple's arrays, so that none is compiled for twice."""
    if isinstance(value, tuple):
        return value._make(map(read_only, value)) if hasattr(value, "_make") else tuple(map(read_only, value))
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def empty_aligned(shape: tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]:
    """Return an uninitialised array that begins with a cache line, as those of NumPy need not.

    Where rows are gathered from anywhere, a row of 32 float32 is then 2 lines instead of 3.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def unit_of(entries: Floats) -> float:
    """Return 1, or, where squares in float32 could overflow or vanish, the largest entry."""
    largest = max(float(entries.max(initial=0)), -float(entries.min(initial=0)))
    return 1.0 if largest == 0 or _SAFE[0] <= largest <= _SAFE[1] else largest


def in_units(X: Floats) -> tuple[Floats, float]:
    """Return X in its unit, as it is where that is 1, and the unit."""
    unit = unit_of(X)
    return (X if unit == 1 else X.astype("f8") / unit), unit
