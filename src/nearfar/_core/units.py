"""Numbers in a unit in which their squares, and sums of squares, stay within the range of float32."""

from __future__ import annotations

from nearfar._core.types import Floats

_SAFE = (1e-15, 1e15)  # largest entries whose squares, summed, neither overflow nor vanish in float32


def unit_of(entries: Floats) -> float:
    """Return 1, or, where squares in float32 could overflow or vanish, the largest entry."""
    largest = max(float(entries.max(initial=0)), -float(entries.min(initial=0)))
    return 1.0 if largest == 0 or _SAFE[0] <= largest <= _SAFE[1] else largest


def in_units(X: Floats) -> tuple[Floats, float]:
    """Return X in its unit, as it is where that is 1, and the unit."""
    unit = unit_of(X)
    return (X if unit == 1 else X.astype("f8") / unit), unit
