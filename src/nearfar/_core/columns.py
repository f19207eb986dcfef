"""A column of data as people have it, read once: what its values are, which are missing, and how they are written.

A list or tuple, an array (also a masked one), a column of pandas, polars or pyarrow of any type. Missing are None, NaN,
NaT, pandas' NA, what an array masks, and the empty text.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Hashable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._core.by_id import in_order_of
from nearfar._core.frames import is_null
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Flags, Longs, RowNumbers
from nearfar.errors import InputError

if TYPE_CHECKING:
    import narwhals as nw

Kind = Literal["whole", "number", "date", "truth", "text", "other"]
Unit = Literal["Y", "M", "D", "m", "s", "ms", "us", "ns"]
_UNITS: tuple[Unit, ...] = ("D", "m", "s", "ms", "us", "ns")  # in which times are written, coarsest first
_WHOLE_FLOATS = 1e15  # up to which a float is written without a power of ten


@dataclass(frozen=True, eq=False)
class Column:
    """A column of data.

    Parameters
    ----------
    kind : {"whole", "number", "date", "truth", "text", "other"}
        Whole numbers, numbers, dates and times, yes or no, text, or other things that can be told apart.
    values : ndarray of shape (n,)
        Integers (objects beyond 64 bits), floats, datetime64, bool or objects; anything where a value is missing.
    missing : ndarray of bool, shape (n,)
        Where there is none.
    order : list of str, optional
        The names of the categories in their order, empty ones too.
    """

    kind: Kind
    values: NDArray[Any]
    missing: Flags
    order: list[str] | None = None

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.values)

    @property
    def known(self) -> NDArray[Any]:
        """The values that are there."""
        return self.values[~self.missing] if self.missing.any() else self.values

    @property
    def is_whole(self) -> bool:
        """Whether all are whole numbers, also where floats hold them, as pandas does beside a missing one."""
        if self.kind != "number":
            return self.kind == "whole"
        known = self.known
        return bool((np.isfinite(known) & (known == np.floor(known)) & (abs(known) < _WHOLE_FLOATS)).all())

    def take(self, rows: RowNumbers) -> Column:
        """Return the values of some rows; that of row -1 is missing."""
        return Column(self.kind, self.values[rows], self.missing[rows] | (rows < 0), self.order)

    def levels(self) -> tuple[Longs, list[Hashable]]:
        """Return the number of each value among the different ones, -1 where it is missing, and these, sorted.

        Raises
        ------
        TypeError
            If values of several types have no order.
        """
        different: list[Hashable]
        if self.kind in ("text", "other"):
            listed = self.known.tolist()
            different = sorted(dict.fromkeys(listed))
            number = {value: at for at, value in enumerate(different)}
            of_known = np.fromiter(map(number.__getitem__, listed), np.int64, len(listed))
        else:
            found, of_known = np.unique(self.known, return_inverse=True)
            different = list(found)
        codes = np.full(len(self), -1)
        codes[~self.missing] = of_known
        return codes, different

    def groups(self, declared: int = 0) -> tuple[Longs, list[str]]:
        """Return the number of each value among the groups, -1 where it is missing, and the names of the groups.

        They are in the order of an ordered category; else numbers and dates ascend, also numbers that text holds, and
        other text is sorted. Of up to so many ``declared`` categories the empty ones are groups, too: the others have
        then the same number in each part of a table.
        """
        try:
            codes, different = self.levels()
        except TypeError:  # values of several types have no order of their own
            texts = np.array(self.texts(), dtype=object)
            return Column("text", texts, self.missing).groups()
        names = self._written(different)
        if self.order is not None:
            there = self.order if len(self.order) <= declared else [name for name in self.order if name in set(names)]
            ordered = list(dict.fromkeys([*there, *names]))
        elif self.kind == "text":
            ordered = sorted(names, key=as_number_first)
        else:
            return codes, names
        number = {name: at for at, name in enumerate(ordered)}
        return np.array([*map(number.__getitem__, names), -1])[codes], ordered

    def texts(self) -> list[str]:
        """Return each value as it is written, the empty text where it is missing."""
        if not self.missing.any():
            return self._written(self.values)
        texts = np.full(len(self), "", dtype=object)
        texts[~self.missing] = self._written(self.known)
        return texts.tolist()

    def _written(self, values: NDArray[Any] | Sequence[Hashable]) -> list[str]:
        if self.kind == "text" or not len(values):
            return list(values)
        if self.kind == "date":
            times: NDArray[np.datetime64] = np.asarray(values)
            unit: Any = np.datetime_data(times.dtype)[0]
            if unit not in "YM":  # else the coarsest that writes all times in full
                unit = next(one for one in _UNITS if (times.astype(f"M8[{one}]") == times).all())
            return [text.replace("T", " ") for text in np.datetime_as_string(times, unit).tolist()]
        if self.kind == "number" and self.is_whole:
            values = np.asarray(values).astype(np.int64)
        elif self.kind == "number" and self.values.dtype == np.float64:
            values = np.asarray(values).tolist()
        return list(map(str, values))

    def numbers(self, owner: str, name: str) -> Doubles:
        """Return the values as float64, NaN where one is missing; of dates the milliseconds since 1970.

        Raises
        ------
        InputError
            If the values are no numbers.
        """
        found = np.full(len(self), np.nan)
        known = self.known
        try:
            if self.kind == "date":
                known = (known - np.datetime64(0, "ms")) / np.timedelta64(1, "ms")
            elif self.kind == "other":
                raise ValueError(f"{type(known[0]).__name__} such as {known[0]}")
            found[~self.missing] = known.astype(np.float64)
        except (ValueError, OverflowError) as error:
            raise InputError(owner, name, "numbers or dates", str(error), "Give names of groups as labels=.") from None
        return found


def column_of(owner: str, name: str, values: object, n: int, ids: Ids | None = None, *, also: str = "") -> Column:
    """Return what is given for each of n rows, that of a Series or a mapping by the ids.

    Parameters
    ----------
    owner, name : str
        For messages.
    values : object
        A column as people have it, or one that was read.
    n : int
        Number of rows.
    ids : Ids or None
        Of the rows, if they have some.
    also : str
        What else the argument may be, for messages.

    Returns
    -------
    Column

    Raises
    ------
    InputError, UnknownIdError
        As :func:`nearfar._core.by_id.in_order_of`, or if there is not one value for each row.
    """
    if isinstance(values, Column):
        return values
    values = in_order_of(owner, name, values, ids)
    hidden = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else False
    series = _series_of(values)
    try:
        array = np.asarray(values) if series is None and hasattr(values, "__array__") else None
    except (TypeError, ValueError, RuntimeError) as error:  # such as a tensor on a device
        raise InputError(owner, name, "an array, a list or a column of a frame", str(error)) from error
    column, shape = None, () if array is None else array.shape
    if series is not None:
        column = _of_series(owner, name, series)
    elif array is not None and array.ndim == 1:
        column = _of_array(owner, name, array)
    elif array is None and isinstance(values, Iterable) and not isinstance(values, (str, bytes, Set)):
        column = _of_objects(owner, name, list(values))
    if column is None or len(column) != n:
        got = f"shape {shape if column is None else (len(column),)}"
        raise InputError(owner, name, f"{also}of shape ({n},), one per vector", got)
    return Column(column.kind, column.values, column.missing | hidden, column.order)


def objects_of(values: Iterable[object]) -> list[object]:
    """Return a column of any kind as a list of Python's objects, as they are; nothing is told of what is missing."""
    series = _series_of(values)
    if series is not None:
        return list(series.to_list())
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":  # which would become whole numbers
        values = values.astype(f"{values.dtype.kind}8[us]")
    return list(values.tolist())


def is_missing(value: object) -> bool:
    """Whether a value is none, or the empty text."""
    return value == "" if isinstance(value, str) else is_null(value)


def is_number(field: str | bytes) -> bool:
    """Whether a text is a number as ``float`` reads it, without underscores."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in str(field)


def as_number_first(text: str) -> tuple[float, list[Any]]:
    """Return a key that puts numbers in their order, before other text, and numbers within text too."""
    number = float(text) if is_number(text) else math.inf
    parts = re.split(r"([0-9]+)", text)
    parts[1::2] = map(int, parts[1::2])
    return (math.inf if math.isnan(number) else number), parts


def _series_of(values: object) -> nw.Series[Any] | None:
    """Return a column of pandas, polars or pyarrow in one form; None of anything else."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return None
    import narwhals as nw

    library = type(values).__module__.partition(".")[0]
    given: Any = values
    if library == "pandas" and hasattr(values, "dtype") and not (hasattr(values, "iloc") or hasattr(values, "levels")):
        # an index of one level, a bare array
        given = sys.modules["pandas"].Series(values)
    elif library == "pyarrow" and not hasattr(values, "chunks") and hasattr(values, "type"):
        given = sys.modules["pyarrow"].chunked_array([values])
    found = nw.from_native(given, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def _of_series(owner: str, name: str, series: nw.Series[Any]) -> Column:
    import narwhals as nw

    missing, dtype = series.is_null().to_numpy(), series.dtype
    if missing.any() and dtype.is_integer():
        series = series.fill_null(0)
    elif missing.any() and dtype == nw.Boolean:
        series = series.fill_null(False)
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)  # as clocks there show it
    column = _of_array(owner, name, series.to_numpy())
    if isinstance(dtype, nw.Enum):
        categories = list(dtype.categories)
    elif dtype == nw.Categorical and series.implementation.is_pandas():
        categories = series.to_native().cat.categories.tolist()
    else:
        return Column(column.kind, column.values, column.missing | missing)
    order = [text for text in _of_objects(owner, name, categories).texts() if text]
    if not isinstance(dtype, nw.Enum) and order == sorted(order):  # as pandas does by itself
        order.sort(key=as_number_first)
    return Column(column.kind, column.values, column.missing | missing, order)


def _of_array(owner: str, name: str, array: NDArray[Any]) -> Column:
    kind = array.dtype.kind
    if kind in "biu":
        return Column("truth" if kind == "b" else "whole", array, np.zeros(len(array), np.bool_))
    if kind == "f":
        floats = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
        return Column("number", floats, np.isnan(floats))
    if kind == "M":
        fine = np.datetime_data(array.dtype)[0] in ("ps", "fs", "as")  # of which few know anything
        return Column("date", array.astype("M8[ns]") if fine else array, np.isnat(array))
    if kind == "m":
        array = array.astype("m8[us]").astype(object)
    elif kind in "cV":
        raise InputError(owner, name, "names, numbers or dates", str(array.dtype))
    return _of_objects(owner, name, array.tolist())


def _of_objects(owner: str, name: str, listed: list[Any]) -> Column:
    types = set(map(type, listed))
    if types <= {str}:
        missing = np.fromiter(map("".__eq__, listed), np.bool_, len(listed))
    elif types <= {int, bool}:
        missing = np.zeros(len(listed), np.bool_)
    else:
        missing = np.fromiter(map(is_missing, listed), np.bool_, len(listed))
    known = [value for value, gone in zip(listed, missing, strict=True) if not gone] if missing.any() else listed
    kind, values = _typed(owner, name, known)
    if not missing.any():
        return Column(kind, values, missing)
    whole = np.zeros(len(listed), values.dtype)
    whole[~missing] = values
    return Column(kind, whole, missing)


def _typed(owner: str, name: str, known: list[Any]) -> tuple[Kind, NDArray[Any]]:
    """Return what values are, none of which is missing, and these as an array."""
    types = set(map(type, known))

    def all_are(*kinds: type) -> bool:
        return all(issubclass(one, kinds) for one in types)

    if all_are(bool, np.bool_):
        return "truth" if known else "number", np.array(known, np.bool_ if known else np.float64)
    mixed = bool(types & {bool, np.bool_})
    whole = (value.is_finite() and value % 1 == 0 for value in known if isinstance(value, Decimal))
    if all_are(int, np.integer, Decimal) and not mixed and all(whole):
        integers = list(map(int, known))
        for dtype in (np.int64, np.uint64):
            with suppress(OverflowError):
                return "whole", np.array(integers, dtype)
        return "other" if max(map(abs, integers)) > sys.float_info.max else "whole", np.array(integers, object)
    if all_are(int, float, np.integer, np.floating, Decimal) and not mixed:
        return "number", np.array(list(map(float, known)))
    if all_are(str, bytes):
        if types != {str}:
            known = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else str(v) for v in known]
        return "text", np.array(known, dtype=object)
    if all_are(date, np.datetime64):
        return "date", np.array(list(map(_time_of, known)))
    values = np.fromiter(known, dtype=object, count=len(known))
    try:
        list(map(hash, known))
    except TypeError as error:
        expected = f"of shape ({len(known)},), a name, a number or a date each"
        raise InputError(owner, name, expected, str(error)) from None
    return "other", values


def _time_of(value: Any) -> np.datetime64:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=None)  # as clocks there show it
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
