"""Columns of a table with what they hold: numbers, truths, dates or text; of frames of any make, and of text files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.columns import is_number
from nearfar._core.frames import columns_of
from nearfar.relations.values import is_missing, kind_of

_CODE = re.compile(r"[+-]?0\d")  # as a postal code begins
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")  # 1.234,5
_TRUTHS = ({"yes": 1.0, "no": 0.0}, {"true": 1.0, "false": 0.0}, {"y": 1.0, "n": 0.0}, {"t": 1.0, "f": 0.0})
_DAY = 86_400.0  # seconds


Kind = Literal["number", "truth", "date", "text", "nothing"]


class Typed(NamedTuple):
    """A column of a table.

    Parameters
    ----------
    name : str
    kind : {"number", "truth", "date", "text", "nothing"}
        What it holds; nothing, where all is missing.
    values : ndarray of float64, shape (n,)
        Numbers, truths as 0 and 1, dates as days since 1970; NaN for what is missing, and for text.
    texts : list of str or None, or None
        What was written, where it was text; None for what is missing.
    """

    name: str
    kind: Kind
    values: NDArray[np.float64]
    texts: list[str | None] | None = None


def typed_columns(owner: str, frame: Any, argument: str = "frame") -> list[Typed]:
    """Return the columns of a frame.

    Raises
    ------
    InputError
        If two columns have one name, or the frame is one that is computed later.
    """
    return [_of_series(str(label), series) for label, series in columns_of(owner, argument, frame)]


def _of_series(name: str, series: Any) -> Typed:
    kind = type(series.dtype).__name__
    if series.dtype.is_numeric():
        array = series.to_numpy()
        return _numbers(name, "number", array if array.dtype.kind in "iuf" else series.to_list())
    if kind == "Boolean":
        return _numbers(name, "truth", series.to_list())
    if kind in ("Date", "Datetime"):
        return _numbers(name, "date", series.dt.timestamp("ms").to_list(), 1000 * _DAY)
    if kind == "Duration":
        return _numbers(
            name, "number", [None if gap is None else gap.total_seconds() for gap in series.to_list()], _DAY
        )
    values = series.to_list()
    if kind == "String":
        return of_texts(name, values)
    if kind in ("Categorical", "Enum"):
        return Typed(name, "text", np.full(len(values), np.nan), [None if is_missing(v) else str(v) for v in values])
    kinds: dict[str, Kind] = {"whole": "number", "number": "number", "truth": "truth"}
    found = kinds.get(kind_of(values))
    if found is not None and not any(isinstance(value, str) for value in values):
        return _numbers(name, found, [None if is_missing(value) else float(value) for value in values])
    return of_texts(name, [None if is_missing(value) else str(value) for value in values])


def _numbers(name: str, kind: Kind, values: Sequence[Any] | NDArray[np.float64], unit: float = 1.0) -> Typed:
    if not isinstance(values, np.ndarray):
        values = np.array([np.nan if is_missing(value) else value for value in values], np.float64)
    numbers = values.astype(np.float64) / unit
    return Typed(name, kind if not np.isnan(numbers).all() else "nothing", numbers)


def of_texts(name: str, given: Sequence[str | None], *, comma: bool = False) -> Typed:
    """Return a column by what is written in it.

    Parameters
    ----------
    name : str
    given : sequence of str or None
    comma : bool, default=False
        Whether numbers may have a decimal comma.
    """
    texts = [None if field is None or is_missing(field) else field.strip() for field in given]
    known = [text for text in texts if text is not None]
    if not known:
        return Typed(name, "nothing", np.full(len(texts), np.nan), texts)
    readers: list[tuple[Kind, Callable[[Sequence[str]], list[float] | None]]]
    readers = [("number", _comma_numbers if comma else _plain), ("truth", _truths), ("date", _dates)]
    for kind, read in readers:
        numbers = read(known)
        if numbers is not None:
            values = np.full(len(texts), np.nan)
            values[[text is not None for text in texts]] = numbers
            return Typed(name, kind, values, texts)
    return Typed(name, "text", np.full(len(texts), np.nan), texts)


def _plain(known: Sequence[str]) -> list[float] | None:
    if all(map(is_number, known)):
        return list(map(float, known))
    return None


def _comma_numbers(known: Sequence[str]) -> list[float] | None:
    """Return numbers of which some have a decimal comma, and perhaps a point after each thousand."""
    if not any(_COMMA.fullmatch(field) for field in known):
        return _plain(known)
    plain = [field.replace(".", "").replace(",", ".") for field in known]
    fits = (_COMMA.fullmatch(field) or re.fullmatch(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)", field) for field in known)
    return _plain(plain) if all(fits) else None


def has_decimal_comma(field: str) -> bool:
    """Whether a field is a number with a decimal comma."""
    return _COMMA.fullmatch(field.strip()) is not None


def _truths(known: Sequence[str]) -> list[float] | None:
    words = [text.lower() for text in known]
    pair = next((pair for pair in _TRUTHS if set(words) <= set(pair)), None)
    return None if pair is None else [pair[word] for word in words]


def _dates(known: Sequence[str]) -> list[float] | None:
    if kind_of(known[:100]) != "date":
        return None
    try:
        days: NDArray[np.float64] = np.array(known, "M8[s]").astype(np.float64) / _DAY
    except ValueError:  # 31.1.2020, 1/31/20: which is the month?
        return None
    return list(days)


def is_code(texts: Sequence[str | None]) -> bool:
    """Whether what is written as numbers are codes: with zeros in front."""
    return any(text is not None and _CODE.match(text) for text in texts)
