"""Edges from data frames of any make, through narwhals, and from Parquet files, row group by row group."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import OpenedFile
from nearfar._core.checks import check_path, require
from nearfar._core.progress import ProgressLine
from nearfar.errors import DataError, InputError, NearfarError
from nearfar.reading.columns import is_number, number_of, unit_of
from nearfar.reading.delimited import SAMPLE_LINES
from nearfar.reading.roles import choose_columns
from nearfar.reading.tables import (
    Column,
    Pieces,
    Roles,
    Table,
    Weights,
    Where,
    check_exact,
    numbers_of,
    place,
    whole_numbers,
)

if TYPE_CHECKING:
    import pyarrow
    from narwhals.dtypes import DType
    from narwhals.typing import IntoDataFrame, IntoLazyFrame, IntoSeries

    Frame = nw.DataFrame[IntoDataFrame] | nw.LazyFrame[IntoLazyFrame]

_LOOKED_AT = 32  # columns of a table, from the first, whose values are looked at
_NAMELESS = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


def is_parquet(source: object) -> bool:
    """Whether it is the path of a Parquet file, by its name or its first bytes."""
    if not isinstance(source, (str, PathLike)):
        return False
    path = Path(source)
    if path.suffix.lower() in (".parquet", ".pq"):
        return True
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


@contextmanager
def parquet_of(owner: str, argument: str, path: Path) -> Iterator[Any]:
    """Give what reads Parquet files; what it says of this one, which is not complete, is told."""
    parquet, arrow = require(owner, "pyarrow.parquet", "parquet"), require(owner, "pyarrow", "parquet")
    try:
        yield parquet
    except (arrow.ArrowException, OSError) as error:
        raise DataError(owner, argument, "a complete Parquet file", f"{str(path)!r} ({error})") from error


def frame_of(owner: str, edges: object, argument: str = "edges") -> Frame | None:
    """Wrap a data frame of any make, lazy or not; None if it is not one."""
    try:
        wrapped = nw.from_native(edges, pass_through=True)
    except nw.exceptions.NarwhalsError as error:  # two columns of one name
        raise InputError(owner, argument, "a frame that can be read", str(error)) from error
    return wrapped if isinstance(wrapped, (nw.DataFrame, nw.LazyFrame)) else None


def frame_pieces(owner: str, frame: Frame, roles: Roles, n_rows: int) -> Pieces:
    """Yield the edges of a frame; of a lazy one only the columns that are needed are computed."""
    schema = frame.collect_schema()
    names: list[str] = schema.names()
    labels = labels_of(names)
    first_ones = frame.select(nw.nth(*range(min(_LOOKED_AT, len(names))))).head(SAMPLE_LINES) if names else frame
    head = first_ones.collect() if isinstance(first_ones, nw.LazyFrame) else first_ones
    table = table_of("the frame", labels, schema.dtypes(), head)
    picks = choose_columns(owner, roles, table)
    narrow = frame.select(nw.nth(*picks))
    whole = narrow.collect() if isinstance(narrow, nw.LazyFrame) else narrow
    for first in range(0, len(whole), n_rows):
        yield _table_piece(owner, whole[first : first + n_rows], [names[k] for k in picks], first, "the frame")


def parquet_pieces(owner: str, source: object, roles: Roles, n_rows: int, verbose: int) -> Pieces:
    """Yield the edges of a Parquet file; in memory there is a row group of the columns needed."""
    path = check_path(owner, "edges", source, exists=True)
    parquet = require(owner, "pyarrow.parquet", "parquet")
    arrow = require(owner, "pyarrow", "parquet")
    shown = repr(str(path))
    try:
        with OpenedFile(path) as opened, parquet.ParquetFile(opened.file, page_checksum_verification=True) as file:
            names = _names_in_order(file.schema_arrow)
            types = nw.from_native(file.schema_arrow.empty_table().select(names), eager_only=True).schema.dtypes()
            few = list(islice(file.iter_batches(SAMPLE_LINES, columns=names[:_LOOKED_AT]), 1))
            sample = arrow.Table.from_batches(few, None if few else arrow.schema([]))
            head = nw.from_native(sample.select(names[:_LOOKED_AT] if few else []), eager_only=True)
            table = table_of(shown, names, types, head)
            picks = choose_columns(owner, roles, table)
            wanted = [names[k] for k in picks]
            first = 0
            with ProgressLine("reading", file.metadata.num_rows, verbose, "edge") as progress:
                for batch in file.iter_batches(batch_size=n_rows, columns=wanted):
                    piece = nw.from_native(arrow.Table.from_batches([batch]), eager_only=True).select(wanted)
                    yield _table_piece(owner, piece, wanted, first, shown)
                    first += len(piece)
                    progress.update(len(piece))
    except (NearfarError, Warning):
        raise
    except Exception as error:  # damage reaches every corner of a reader
        got = f"{shown} ({type(error).__name__}: {error})"
        raise DataError(owner, "edges", "a complete Parquet file", got) from error


def table_of(title: str, names: list[str] | None, types: Sequence[DType], head: nw.DataFrame[IntoDataFrame]) -> Table:
    """Return what is known of a frame by the types of its columns and the first rows of the first columns."""
    values: list[Sequence[object]] = [head[:, k].to_list() for k in range(head.shape[1])]
    values += [[]] * (len(types) - len(values))
    numeric = [kind.is_numeric() or _are_numbers(column) for kind, column in zip(types, values, strict=True)]
    return Table(title, names, values, numeric)


def labels_of(names: Sequence[object]) -> list[str] | None:
    """Return the names of columns as text, ``0`` too where others are text; None if none of them is text."""
    return [str(name) for name in names] if any(isinstance(name, str) for name in names) else None


def with_index(owner: str, edges: object) -> object:
    """Return a frame of pandas with the named levels of its index as columns in front; all else as it is.

    So counts by pairs, ``frame.groupby(["user", "item"]).size()``, are a table of user, item and number. An index of
    one level that numbers the rows stays out, named or not.

    Raises
    ------
    InputError
        For a Series that does not have two levels, a level without a name beside another one, and a level that is
        called like a column.
    """
    pandas = sys.modules.get("pandas")  # who holds a frame has imported it
    if pandas is None or not isinstance(edges, (pandas.DataFrame, pandas.Series)):
        return edges
    levels = list(edges.index.names)
    is_series = isinstance(edges, pandas.Series)
    if not is_series and len(levels) == 1 and (levels[0] is None or edges.index.equals(pandas.RangeIndex(len(edges)))):
        return edges
    got = f"a {'Series' if is_series else 'frame'} with the index {levels}"
    hint = "reset_index() makes columns of its index."
    if None in levels or (is_series and len(levels) < 2):
        raise InputError(owner, "edges", "a frame whose columns hold the ids, or an iterable of tuples", got, hint)
    try:
        return edges.reset_index()
    except ValueError as error:  # a level is called like a column
        raise InputError(owner, "edges", "a frame whose index and columns have different names", got, hint) from error


def _names_in_order(schema: pyarrow.Schema) -> list[str]:
    """Return the columns of a file with the named index of pandas, which it writes last, in front.

    An index without a name is left out, as a frame's is.
    """
    told = schema.pandas_metadata or {}
    index = [name for name in told.get("index_columns", ()) if isinstance(name, str) and name in schema.names]
    named = [name for name in index if not _NAMELESS.fullmatch(name)]
    return named + [name for name in schema.names if name not in index]


def _are_numbers(values: Sequence[object]) -> bool:
    """Whether values of a column of objects are numbers: Decimal, or written as text."""
    there = [value for value in values if value is not None]
    return bool(there) and all(
        isinstance(value, Decimal)
        or (isinstance(value, (int, float)) and not isinstance(value, bool))
        or (isinstance(value, str) and is_number(value) and "," not in value)
        for value in there
    )


def _table_piece(
    owner: str, piece: nw.DataFrame[IntoDataFrame], names: Sequence[str], first: int, shown: str
) -> tuple[Column, Column, Weights, Where]:
    places = [place("row ", first, f" of {shown}, column {name!r}") for name in names]
    source, target, *weight = [piece[:, k] for k in range(len(names))]
    weights = numbers_of_column(owner, weight[0], places[2]) if weight else None
    ids = [ids_of_column(owner, *column) for column in ((source, places[0]), (target, places[1]))]
    return ids[0], ids[1], weights, place("row ", first, f" of {shown}")


def ids_of_column(owner: str, column: nw.Series[IntoSeries], where: Where) -> Column:
    """Return the ids in a column of a frame, none of which may be missing.

    Whole numbers are integers, also those that came as floats (pandas makes them of integers with a gap) or Decimal
    (databases write integers so). Bytes are text. Dates of pandas are those of Python.

    Raises
    ------
    DataError
        If an id is missing, a Decimal with a fraction, bytes that are not UTF-8, a date with nanoseconds, or a whole
        number so large that floats have no place for all its digits.
    """
    refuse_nulls(owner, column, "every id", where)
    dtype = column.dtype
    if dtype.is_integer():
        integers = column.to_numpy()
        if integers.dtype != np.uint64 or not integers.size or integers.max() < 2**63:
            return integers.astype(np.int64)
    if dtype.is_float():
        floats = column.to_numpy()
        if not np.isfinite(floats).all() or (floats != np.floor(floats)).any():
            check_exact(owner, floats, where)
            return [int(key) if key.is_integer() else key for key in floats.tolist()]
        return whole_numbers(owner, floats, where)
    keys: list[Hashable] = column.to_list()
    kinds = set(map(type, keys))
    if kinds.isdisjoint((Decimal, bytes)) and not any(issubclass(kind, datetime) for kind in kinds):
        return keys
    return [_plain_id(owner, key, k, where) for k, key in enumerate(keys)]


def _plain_id(owner: str, key: Hashable, k: int, where: Where) -> Hashable:
    if isinstance(key, Decimal):
        if key != key.to_integral_value():
            hint = "Read the column as text."
            raise DataError(owner, "every id", "a whole number in a column of Decimal", f"{key} in {where(k)}", hint)
        return int(key)
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            hint = "bytes.hex makes text of them."
            raise DataError(
                owner, "every id", "text in UTF-8 if it is binary", f"{key!r} in {where(k)}", hint
            ) from None
    if isinstance(key, datetime) and hasattr(key, "to_pydatetime"):
        if getattr(key, "nanosecond", 0):
            hint = "Round the column, or make text of it."
            raise DataError(owner, "every id", "a date to the microsecond", f"{key} in {where(k)}", hint)
        plain: Hashable = key.to_pydatetime()
        return plain
    return key


def numbers_of_column(owner: str, column: nw.Series[IntoSeries], where: Where) -> NDArray[np.float64]:
    """Return the weights in a column of a frame; numbers that are written as text are numbers."""
    if not column.dtype.is_numeric():
        values = column.to_list()
        units = {unit_of(value): k for k, value in reversed([*enumerate(values)]) if isinstance(value, str)}
        if len(units) > 1:
            shown = " and ".join(f"{values[k]!r} in {where(k)}" for k in sorted(units.values()))
            raise DataError(owner, "every weight", "in one unit", shown, "Write all with it, or none.")
        return numbers_of(owner, [_number(value) for value in values], where)
    if not column.dtype.is_float():  # a NaN among floats is reported with its edge, later
        refuse_nulls(owner, column, "every weight", where)
    return column.cast(nw.Float64()).to_numpy().astype(np.float64)


def _number(value: Any) -> Any:
    """Return the number that is written in a text, and all else as it is."""
    try:
        return number_of(value) if isinstance(value, str) else value
    except ValueError:
        return value


def refuse_nulls(owner: str, column: nw.Series[IntoSeries], what: str, where: Where) -> None:
    """Refuse a column of a frame with missing values."""
    nulls = column.is_null()
    if column.dtype.is_float():
        nulls = nulls | column.is_nan()
    if nulls.any():
        k = int(np.argmax(nulls.to_numpy()))
        raise DataError(owner, what, "there, not null", f"{column[k]} in {where(k)}")
