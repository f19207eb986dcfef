"""What relations are made from, as types. Only for type checkers: nothing here is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from os import PathLike
from typing import IO, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from narwhals.typing import IntoFrame
    from numpy.typing import ArrayLike

    from nearfar._core.types import Annotated, EdgeIndex, GraphLike, MatrixLike


class Taken(TypedDict, total=False):
    """Which columns of a table were read, and which were left out: names, or positions where there are none."""

    source: str | int
    target: str | int
    time: str | int
    end: str | int
    weight: str | int | None
    left_out: list[str | int]
    form: str  # of a text: what separates its fields, and whether there is a header


class _Counts(TypedDict):
    n_rows: int
    n_columns: int
    n_entries: int
    isolates: int
    sinks: int
    square: bool
    megabytes: float


class Description(_Counts, total=False):
    """What :meth:`nearfar.Relation.describe` returns."""

    columns: Taken


if TYPE_CHECKING:
    Points = MatrixLike | IntoFrame | Annotated | tuple[ArrayLike, ArrayLike]
    EdgeSource = str | PathLike[str] | IO[str] | IO[bytes] | Iterable[object] | IntoFrame | GraphLike | EdgeIndex
    Length = float | timedelta | np.timedelta64
