"""Edges from data frames of any make, through narwhals, and from Parquet files, row group by row group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_path, require
from nearfar._core.progress import ProgressLine
from nearfar.errors import DataError, InputError
from nearfar.relations.columns import Roles, Table, choose_columns
from nearfar.relations.delimited import SAMPLE_LINES
from nearfar.relations.pieces import Column, Pieces, Weights, Where, numbers_of, place, whole_numbers
from nearfar.relations.values import is_number, kind_of

if TYPE_CHECKING:
    import pyarrow.parquet
    from narwhals.dtypes import DType
    from narwhals.typing import IntoDataFrame, IntoLazyFrame, IntoSeries

    Frame = nw.DataFrame[IntoDataFrame] | nw.LazyFrame[IntoLazyFrame]

_LOOKED_AT = 32  # columns of a table, from the first, whose values are looked at


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


def frame_of(owner: str, edges: object, argument: str = "edges") -> Frame | None:
    """Wrap a data frame of any make, lazy or not; None if it is not one.

    Of pandas the levels of an index that have names come as columns in front, those of a Series too.
    """
    with_levels = _with_levels(owner, edges, argument)
    try:
        wrapped = nw.from_native(with_levels, pass_through=True)
    except nw.exceptions.NarwhalsError as error:  # two columns of one name
        raise InputError(owner, argument, "a frame that can be read", str(error)) from error
    return wrapped if isinstance(wrapped, (nw.DataFrame, nw.LazyFrame)) else None


def _with_levels(owner: str, frame: Any, argument: str) -> object:
    """Return a frame of pandas, or a Series, with the named levels of its index as its first columns."""
    levels = [name for name in getattr(getattr(frame, "index", None), "names", ()) if name is not None]
    if not levels or not hasattr(frame, "reset_index"):
        return frame
    if hasattr(frame, "to_frame"):
        frame = frame.to_frame("n" if frame.name is None else frame.name)
    kept = [level for level in levels if not _counts_rows(frame.index.get_level_values(level))]
    try:
        return frame.reset_index(level=kept) if kept else frame
    except ValueError as error:
        hint = "reset_index() makes columns of the levels of an index."
        raise InputError(
            owner, argument, "a frame whose index and columns have distinct names", str(error), hint
        ) from None


def _counts_rows(labels: Any) -> bool:
    return labels.dtype.kind in "iu" and bool((np.asarray(labels) == np.arange(len(labels))).all())


def names_of(names: Sequence[object]) -> list[str] | None:
    """Return the names of columns as text; None if none is text, as of a frame that was made without names."""
    return [str(name) for name in names] if any(isinstance(name, str) for name in names) else None


def frame_pieces(owner: str, frame: Frame, roles: Roles, n_rows: int) -> Pieces:
    """Yield the edges of a frame; of a lazy one only the columns that are needed are computed."""
    schema = frame.collect_schema()
    names = schema.names()
    first_ones = frame.select(nw.nth(*range(min(_LOOKED_AT, len(names))))).head(SAMPLE_LINES) if names else frame
    head = first_ones.collect() if isinstance(first_ones, nw.LazyFrame) else first_ones
    picks = choose_columns(owner, roles, table_of("the frame", names_of(names), schema.dtypes(), head))
    narrow = frame.select(nw.nth(*picks))
    table = narrow.collect() if isinstance(narrow, nw.LazyFrame) else narrow
    for first in range(0, len(table), n_rows):
        yield _table_piece(owner, table[first : first + n_rows], [names[k] for k in picks], first, "the frame")


def parquet_pieces(owner: str, source: object, roles: Roles, n_rows: int, verbose: int) -> Pieces:
    """Yield the edges of a Parquet file; in memory there is a row group of the columns needed."""
    path = check_path(owner, "edges", source, exists=True)
    parquet = require(owner, "pyarrow.parquet", "parquet")
    arrow = require(owner, "pyarrow", "parquet")
    shown = repr(str(path))
    try:
        with parquet.ParquetFile(path) as file:
            names = _names_in_order(file)
            types = nw.from_native(file.schema_arrow.empty_table().select(names), eager_only=True).schema.dtypes()
            few = list(islice(file.iter_batches(SAMPLE_LINES, columns=names[:_LOOKED_AT]), 1))
            head = nw.from_native(arrow.Table.from_batches(few, None if few else arrow.schema([])), eager_only=True)
            table = table_of(shown, names, types, head.select(names[:_LOOKED_AT]) if few else head)
            wanted = [names[k] for k in choose_columns(owner, roles, table)]
            first = 0
            with ProgressLine("reading", file.metadata.num_rows, verbose, "edge") as progress:
                for batch in file.iter_batches(batch_size=n_rows, columns=wanted):
                    piece = nw.from_native(arrow.Table.from_batches([batch]), eager_only=True).select(wanted)
                    yield _table_piece(owner, piece, wanted, first, shown)
                    first += len(piece)
                    progress.update(len(piece))
    except (arrow.ArrowException, OSError) as error:
        raise DataError(owner, "edges", "a complete Parquet file", f"{shown} ({error})") from error


def _names_in_order(file: pyarrow.parquet.ParquetFile) -> list[str]:
    """Return the names of the columns: first those that were the index of a pandas frame, which it keeps last.

    An index without a name is no column.
    """
    names: list[str] = file.schema_arrow.names
    said = json.loads((file.schema_arrow.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in said.get("index_columns", ()) if isinstance(name, str) and name in names]
    named = [name for name in index if not name.startswith("__index_level_")]
    return named + [name for name in names if name not in index]


def table_of(
    title: str, names: Sequence[str] | None, types: Sequence[DType], head: nw.DataFrame[IntoDataFrame]
) -> Table:
    """Return what is known of a frame by the types of its columns and the first rows of the first columns."""
    values: list[Sequence[object]] = [head[:, k].to_list() for k in range(head.shape[1])]
    values += [[]] * (len(types) - len(values))
    numeric = [
        kind.is_numeric() or (bool(column) and kind_of(column) in ("whole", "number"))
        for kind, column in zip(types, values, strict=True)
    ]
    return Table(title, names, values, numeric)


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

    Floats and decimals that are whole are integers, and bytes in UTF-8 are text, as databases export them.

    Raises
    ------
    DataError
        If an id is missing, a number has a fraction or is a float beyond 2**53, or bytes are no text.
    """
    refuse_nulls(owner, column, "every id", where)
    if column.dtype.is_integer():
        values = column.to_numpy()
        if values.dtype != np.uint64 or not values.size or values.max() < 2**63:
            return values.astype(np.int64)
    if column.dtype.is_float():
        return whole_numbers(owner, column.to_numpy().astype(np.float64), where)
    ids = column.to_list()
    kinds = set(map(type, ids))
    return [_plain(owner, key, where, k) for k, key in enumerate(ids)] if kinds & {Decimal, bytes, float} else ids


def _plain(owner: str, key: object, where: Where, k: int) -> Any:
    """Return an id as an integer or text, if it is a decimal, a float or bytes."""
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise DataError(owner, "every id", "text in UTF-8, or a number", f"{key!r} in {where(k)}") from None
    if isinstance(key, (Decimal, float)):
        if key % 1 != 0:
            hint = "Make text of such ids, or integers."
            raise DataError(owner, "every id", "a whole number", f"{key} in {where(k)}", hint)
        return int(key)
    return key


def numbers_of_column(owner: str, column: nw.Series[IntoSeries], where: Where) -> NDArray[np.float64]:
    """Return the weights in a column of a frame; numbers that are written as text are read, as those of a file."""
    if not column.dtype.is_numeric():
        values = [float(value) if isinstance(value, str) and is_number(value) else value for value in column.to_list()]
        return numbers_of(owner, values, where)
    if not column.dtype.is_float():  # a NaN among floats is reported with its edge, later
        refuse_nulls(owner, column, "every weight", where)
    return column.cast(nw.Float64()).to_numpy().astype(np.float64)


def refuse_nulls(owner: str, column: nw.Series[IntoSeries], what: str, where: Where) -> None:
    """Refuse a column of a frame with missing values."""
    nulls = column.is_null()
    if column.dtype.is_float():
        nulls = nulls | column.is_nan()
    if nulls.any():
        k = int(np.argmax(nulls.to_numpy()))
        raise DataError(owner, what, "there, not null", f"{column[k]} in {where(k)}")
