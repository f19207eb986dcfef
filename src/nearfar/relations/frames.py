"""Edges from data frames of any make, through narwhals, and from Parquet files, row group by row group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_path, require
from nearfar._core.progress import ProgressLine
from nearfar.errors import DataError, InputError
from nearfar.relations.columns import Roles, Table, choose_columns
from nearfar.relations.delimited import SAMPLE_LINES, Where
from nearfar.relations.pieces import Column, Pieces, Weights, numbers_of, place

if TYPE_CHECKING:
    from narwhals.dtypes import DType
    from narwhals.typing import IntoDataFrame, IntoLazyFrame, IntoSeries

    Frame = nw.DataFrame[IntoDataFrame] | nw.LazyFrame[IntoLazyFrame]

_LOOKED_AT = 4  # columns of a table, from the first, among which source and target are by default


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
    labelled = all(isinstance(name, str) for name in names)
    first_ones = frame.select(nw.nth(*range(min(_LOOKED_AT, len(names))))).head(SAMPLE_LINES) if names else frame
    head = first_ones.collect() if isinstance(first_ones, nw.LazyFrame) else first_ones
    picks = choose_columns(owner, roles, table_of("the frame", names if labelled else None, schema.dtypes(), head))
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
            names = file.schema_arrow.names
            types = nw.from_native(file.schema_arrow.empty_table(), eager_only=True).schema.dtypes()
            few = list(islice(file.iter_batches(SAMPLE_LINES, columns=names[:_LOOKED_AT]), 1))
            head = nw.from_native(arrow.Table.from_batches(few, None if few else arrow.schema([])), eager_only=True)
            table = table_of(shown, names, types, head)
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


def table_of(title: str, names: list[str] | None, types: Sequence[DType], head: nw.DataFrame[IntoDataFrame]) -> Table:
    """Return what is known of a frame by the types of its columns and the first rows of the first columns."""
    values: list[Sequence[object]] = [head[:, k].to_list() for k in range(head.shape[1])]
    return Table(title, names, values + [[]] * (len(types) - len(values)), [kind.is_numeric() for kind in types])


def _table_piece(
    owner: str, piece: nw.DataFrame[IntoDataFrame], names: Sequence[str], first: int, shown: str
) -> tuple[Column, Column, Weights, Where]:
    places = [place("row ", first, f" of {shown}, column {name!r}") for name in names]
    source, target, *weight = [piece[:, k] for k in range(len(names))]
    weights = numbers_of_column(owner, weight[0], places[2]) if weight else None
    ids = [ids_of_column(owner, *column) for column in ((source, places[0]), (target, places[1]))]
    return ids[0], ids[1], weights, place("row ", first, f" of {shown}")


def ids_of_column(owner: str, column: nw.Series[IntoSeries], where: Where) -> Column:
    """Return the ids in a column of a frame, none of which may be missing."""
    refuse_nulls(owner, column, "every id", where)
    if column.dtype.is_integer():
        values = column.to_numpy()
        if values.dtype != np.uint64 or not values.size or values.max() < 2**63:
            return values.astype(np.int64)
    return column.to_list()


def numbers_of_column(owner: str, column: nw.Series[IntoSeries], where: Where) -> NDArray[np.float64]:
    """Return the weights in a column of a frame."""
    if not column.dtype.is_numeric():
        return numbers_of(owner, column.to_list(), where)
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
