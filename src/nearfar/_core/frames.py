"""Frames of pandas, polars or pyarrow where numbers are asked for: which column and which row hold none."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import InputError

_TEXTS = ("String", "Categorical", "Enum", "Binary")
_TIMES = ("Date", "Datetime", "Duration", "Time")
_PREPARE = "nf.prepare(frame) codes text and dates, and fills what is missing; or leave the column out."


def is_null(value: object) -> bool:
    """Whether a value stands for none: None, NaN, NaT, pandas' NA or what an array masks."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, np.ndarray) and not value.size:
        return False  # no truth value; older versions of NumPy warn of it
    try:
        return bool(value != value)  # NaN and NaT differ from themselves
    except (TypeError, ValueError, ArithmeticError):
        return type(value).__name__ == "NAType"  # pandas' NA has no truth value


def is_series(value: object) -> bool:
    """Whether it is a column as narwhals wraps it, which is not loaded to find out: that takes a tenth of a fit."""
    narwhals = sys.modules.get("narwhals")
    return narwhals is not None and isinstance(value, narwhals.Series)


def is_frame(value: object) -> bool:
    """Whether it is a table with columns that may have types of their own."""
    kind = type(value)  # whose attributes cost nothing, unlike those of a lazy frame
    return hasattr(kind, "columns") and hasattr(kind, "shape") and (hasattr(kind, "iloc") or hasattr(kind, "schema"))


def labels_of(frame: Any) -> list[Any]:
    """Return the names of the columns, as they are."""
    return list(frame.column_names if hasattr(type(frame), "column_names") else frame.columns)


def without(X: Any, left_out: Sequence[Hashable]) -> Any:
    """Return a frame without the columns that a fit has left out; anything else as it is."""
    if not left_out or not is_frame(X):
        return X
    return taken(X, [k for k, name in enumerate(labels_of(X)) if name not in left_out])


def taken(frame: Any, kept: list[int]) -> Any:
    """Return some columns of a frame, by their positions."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, kept]
    return frame.select([labels_of(frame)[k] for k in kept])


def array_of(owner: str, name: str, frame: Any) -> NDArray[Any]:
    """Return what NumPy makes of a frame that holds numbers and truths alone.

    Parameters
    ----------
    owner, name : str
        Who asks, and for what.
    frame : frame of pandas, polars or pyarrow
        Nullable columns without a gap, and truths, are numbers.

    Raises
    ------
    InputError
        For text, dates, lists, and what is missing where no NaN says so: says what, in which column and row.
    """
    try:
        array: NDArray[Any] | None = np.asarray(frame)
    except (TypeError, ValueError):  # pyarrow finds no common type
        array = None
    numeric = array is not None and array.dtype.kind in "fiub"
    if array is not None and numeric and hasattr(frame, "iloc"):
        return array
    columns = columns_of(owner, name, frame)
    for label, series in columns:  # an array of polars may count the days of dates
        found = None if numeric and series.dtype.is_numeric() else _fault(series)
        if found is not None:
            got = f"{found[0]} in column {label!r}, row {found[1]}"
            raise InputError(owner, name, "a matrix of numbers", got, _PREPARE)
    if array is not None and array.ndim == 2:  # pandas makes one dimension of no rows of dates
        return array
    return np.array([series.to_list() for _, series in columns], object).reshape(len(columns), len(frame)).T


def columns_of(owner: str, name: str, frame: Any) -> list[tuple[Any, Any]]:
    """Return the labels of a frame's columns, as they are, each with its column as narwhals wraps it.

    Raises
    ------
    InputError
        If two columns have one label, or the frame is one that is computed later.
    """
    import narwhals as nw

    labels = labels_of(frame)
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        got = f"{labels.count(twice)} columns called {twice!r}"
        raise InputError(owner, name, "a frame whose columns have different names", got, "Rename one, or drop it.")
    wrapped = nw.from_native(frame, pass_through=True)
    if not isinstance(wrapped, nw.DataFrame):
        raise InputError(owner, name, "a frame in memory", type(frame).__name__, "Compute it first: collect().")
    return [(label, wrapped[:, k]) for k, label in enumerate(labels)]


def _fault(series: Any) -> tuple[str, int] | None:
    """Return what a column holds that is no number, and where first."""
    kind = type(series.dtype).__name__
    gaps = series.is_null().to_numpy()
    if kind not in ("Object", "Unknown"):
        others = "lists" if kind in ("List", "Array") else f"values of type {kind}"
        what = "text" if kind in _TEXTS else "dates" if kind in _TIMES else others
        what = "" if series.dtype.is_numeric() or kind == "Boolean" else what
        if what and not gaps.all():
            row = int(np.argmin(gaps))
            return f"{what} such as {_shown(series[row : row + 1].to_list()[0])}", row
        return ("a missing value", int(np.argmax(gaps))) if gaps.any() else None
    for row, value in enumerate(series.to_list()):
        if is_null(value):
            return "a missing value", row
        if isinstance(value, (str, bytes)):
            return f"text such as {_shown(value)}", row
        try:
            float(value)
        except (TypeError, ValueError):
            return f"{type(value).__name__} such as {_shown(value)}", row
    return None


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
