"""Edges from data frames of any make, through narwhals, and from Parquet files, row group by row group."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_path, require
from nearfar._progress import ProgressLine, logger
from nearfar.errors import DataError, InputError
from nearfar.relations._collect import EdgeCollector, numbers
from nearfar.relations._columns import Roles, choose_columns

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


def as_frame(edges: object, owner: str) -> Frame | None:
    """Wrap a data frame of any make, lazy or not; None if it is not one.

    Raises
    ------
    InputError
        If two of its columns have one name.
    """
    try:
        wrapped = nw.from_native(edges, pass_through=True)
    except nw.exceptions.NarwhalsError as error:
        raise InputError(owner, "edges", "a frame that can be read", str(error)) from error
    return wrapped if isinstance(wrapped, (nw.DataFrame, nw.LazyFrame)) else None


def collect_frame(frame: Frame, collector: EdgeCollector, roles: Roles, n_rows: int) -> None:
    """Put the edges of a frame into the collector, ``n_rows`` at a time.

    Parameters
    ----------
    frame : narwhals DataFrame or LazyFrame
        Of a lazy one only the columns that are needed are computed.
    collector : EdgeCollector
        Where the edges go.
    roles : Roles
        Which columns are asked for.
    n_rows : int
        Rows to work on at a time.

    Raises
    ------
    DataError
        For nulls and bad weights; says in which row, counted from 0.
    InputError
        If there is no such column.
    """
    schema = frame.collect_schema()
    names: list[Any] = schema.names()
    types = schema.dtypes()
    labelled = all(isinstance(name, str) for name in names)
    third = len(types) == 3 and types[2].is_numeric()
    chosen = choose_columns(collector.owner, roles, names if labelled else None, len(names), third)
    wanted = [names[k] for k in chosen if k is not None]
    _log("frame", wanted)
    narrow = frame.select(nw.nth(*[k for k in chosen if k is not None]))
    table = narrow.collect() if isinstance(narrow, nw.LazyFrame) else narrow
    for first in range(0, len(table), n_rows):
        _collect_piece(table[first : first + n_rows], wanted, first, "the frame", collector)


def collect_parquet(
    source: str | PathLike[str], collector: EdgeCollector, roles: Roles, n_rows: int, verbose: int
) -> None:
    """Put the edges of a Parquet file into the collector; in memory there is a row group of the columns needed.

    Parameters
    ----------
    source : path
        The file.
    collector : EdgeCollector
        Where the edges go.
    roles : Roles
        Which columns are asked for.
    n_rows : int
        Rows to work on at a time.
    verbose : int
        0 draws no progress line.

    Raises
    ------
    DataError
        If it is no Parquet file or cut short, and as in `collect_frame`.
    InputError
        If there is no such file or column.
    MissingDependencyError
        Without PyArrow.
    """
    owner = collector.owner
    path = check_path(owner, "edges", source, exists=True)
    parquet = require(owner, "pyarrow.parquet", "parquet")
    arrow = require(owner, "pyarrow", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            chosen = choose_columns(owner, roles, names, len(names), False)
            wanted = [names[k] for k in chosen if k is not None]
            _log(repr(str(path)), wanted)
            first = 0
            with ProgressLine("reading", file.metadata.num_rows, verbose, "edge") as progress:
                for batch in file.iter_batches(batch_size=n_rows, columns=wanted):
                    piece = nw.from_native(arrow.Table.from_batches([batch]), eager_only=True).select(wanted)
                    _collect_piece(piece, wanted, first, repr(str(path)), collector)
                    first += len(piece)
                    progress.update(len(piece))
    except (arrow.ArrowException, OSError) as error:
        raise DataError(owner, "edges", "a complete Parquet file", f"{str(path)!r} ({error})") from error


def _log(name: str, wanted: list[Any]) -> None:
    weight = repr(wanted[2]) if len(wanted) == 3 else "not read"
    logger.info("%s: source %r, target %r, weight %s", name, wanted[0], wanted[1], weight)


def _collect_piece(
    piece: nw.DataFrame[Any], names: list[Any], first: int, owner_name: str, collector: EdgeCollector
) -> None:
    def where(k: int, column: str = "") -> str:
        return f"row {first + k} of {owner_name}" + (f", column {column}" if column else "")

    columns = [piece[:, k] for k in range(len(names))]
    ids = [_ids(columns[c], collector.owner, lambda k, c=c: where(k, repr(names[c]))) for c in (0, 1)]  # type: ignore[misc]
    weights = None
    if len(columns) == 3:
        weights = _weights(columns[2], collector.owner, lambda k: where(k, repr(names[2])))
    collector.add_columns(ids[0], ids[1], weights, where)


def _ids(column: nw.Series[Any], owner: str, where: Callable[[int], str]) -> NDArray[np.int64] | list[Any]:
    _refuse_nulls(column, owner, "every id", where)
    if column.dtype.is_integer():
        values = column.to_numpy()
        if values.dtype != np.uint64 or not values.size or values.max() < 2**63:
            return values.astype(np.int64)
    return column.to_list()


def _weights(column: nw.Series[Any], owner: str, where: Callable[[int], str]) -> NDArray[np.float64]:
    if not column.dtype.is_numeric():
        return numbers(column.to_list(), owner, where)
    if not column.dtype.is_float():  # a NaN among floats is told with its edge, later
        _refuse_nulls(column, owner, "every weight", where)
    return column.cast(nw.Float64()).to_numpy().astype(np.float64)


def _refuse_nulls(column: nw.Series[Any], owner: str, what: str, where: Callable[[int], str]) -> None:
    nulls = column.is_null()
    if column.dtype.is_float():
        nulls = nulls | column.is_nan()
    if nulls.any():
        k = int(np.argmax(nulls.to_numpy()))
        raise DataError(owner, what, "there, not null", f"{column[k]} in {where(k)}")
