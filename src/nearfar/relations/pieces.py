"""What readers of edges yield, piece by piece: ids of sources and targets, weights, and where each edge stands."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import DataError

Where = Callable[[int], str]
Weights = NDArray[np.float64] | None
Column = NDArray[np.int64] | Sequence[Hashable]
Pieces = Generator[tuple[Column, Column, Weights, Where], None, None]


def place(before: str, first: int, after: str = "") -> Where:
    """Return what says where edge k of a piece is, whose first one is number ``first`` of the input."""
    return lambda k: f"{before}{first + k}{after}"


def whole_numbers(owner: str, column: NDArray[np.number], where: Where) -> NDArray[np.int64] | list[int]:
    """Return ids as int64, or as a list of Python integers when they don't fit."""
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):  # of NaN; half precision has no 2**63
            good = (column == np.floor(column)) & (np.abs(column) < 2.0**63)
        if not good.all():
            k = int(np.argmin(good))
            raise DataError(owner, "every id", "a whole number in an array of floats", f"{column[k]} in {where(k)}")
        check_exact(owner, column, where)
    elif column.dtype == np.uint64 and column.size and column.max() >= 2**63:
        return list(map(int, column))
    return column.astype(np.int64)


def check_exact(owner: str, column: NDArray[np.number], where: Where) -> None:
    """Refuse ids in floats so large that two whole numbers become one: from 2**53 on, in float32 from 2**24 on."""
    limit = 2.0 ** (np.finfo(column.dtype).nmant + 1)  # type: ignore[type-var]
    large = np.abs(column) >= limit
    if large.any():
        k = int(np.argmax(large))
        hint = "Two ids may have become one. Read the column as integers or text where it comes from."
        got = f"{column[k]:.0f} in {where(k)}, in {column.dtype}"
        raise DataError(owner, "every id", f"below {limit:.0f} where it came through floats", got, hint)


def numbers_of(owner: str, values: Sequence[SupportsFloat | str], where: Where) -> NDArray[np.float64]:
    """Return weights that came as Python objects as an array; a text is not a number."""
    found = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(owner, "every weight", "a number", f"{value!r} in {where(k)}") from None
    return found
