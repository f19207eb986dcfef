"""Tables wherever they come from: texts, Parquet files, frames of any make through narwhals, arrays and tuples."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from decimal import Decimal
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import OpenedFile
from nearfar._core.checks import check_path, require
from nearfar._core.frames import is_series
from nearfar._core.progress import ProgressLine
from nearfar._core.types import Doubles, Flags, Longs
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError, NearfarError
from nearfar.reading.columns import IN_THOUSANDS, is_number, number_of, numbers_written, unit_of
from nearfar.reading.delimited import FOUND_OUT, TextFormat, text_table
from nearfar.reading.records import SAMPLE_LINES
from nearfar.reading.tables import Column, Piece, Table, Where, among, numbers_of, place, without_ids

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.dtypes import DType
    from narwhals.typing import IntoDataFrame, IntoLazyFrame, IntoSeries

    Frame = nw.DataFrame[IntoDataFrame] | nw.LazyFrame[IntoLazyFrame]

TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".csv.zst", ".tsv", ".tsv.gz", ".parquet", ".pq")
"""What a table may end in."""
N_ROWS = 1 << 18  # of an array, a frame or a list of tuples that are worked on at a time: some 64 bytes each
_SHAPES = {"edges": "an array of shape (n_edges, 2 or 3)", "contacts": "an array of at least three columns"}
_TUPLES = {"edges": "a tuple of 2 or 3", "contacts": "a tuple of three or more, all alike: source, target, time"}
_WIDTHS = {"edges": range(2, 4), "contacts": range(3, 1 << 16)}
_OF_COUNTS = "For counts of pairs pass [(u, v, n) for (u, v), n in counts.items()]."
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
        with path.open("rb") if path.is_file() else nullcontext() as file:
            return file is not None and file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


@contextmanager
def parquet_of(owner: str, argument: str, path: Path) -> Iterator[Any]:
    """Give what reads Parquet files; what it says of this one, which is not complete, is told."""
    try:
        yield require(owner, "pyarrow.parquet", "parquet")
    except (NearfarError, Warning):
        raise
    except Exception as error:  # damage reaches every corner of a reader
        got = f"{str(path)!r} ({type(error).__name__}: {error})"
        raise DataError(owner, argument, "a complete Parquet file", got) from error


def open_table(
    owner: str, argument: str, source: Any, *, form: TextFormat = FOUND_OUT, names: Sequence[str] = (), verbose: int = 0
) -> AbstractContextManager[Table]:
    """Give the table in a text, a Parquet file, a frame of any make, an array or an iterable of tuples.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    argument : {"edges", "contacts"} or str
        What the source is called. Edges have two or three columns in an array or in tuples, contacts three or more.
    source : path, "-", file object, frame, array or iterable of tuples
    form : TextFormat
        What is known of a text.
    names : sequence of str
        The columns that are asked for by name.
    verbose : int
        0 draws no progress line.

    Raises
    ------
    DataError, InputError
        If it is none of these, or damaged; if a tuple or an array has too few or too many columns.
    """
    if is_parquet(source):
        return _parquet_table(owner, argument, source, verbose)
    if is_text(source):
        return text_table(owner, argument, source, form, names=names, verbose=verbose)
    if isinstance(source, np.ndarray):
        numbers, shape = source.dtype.kind in "iuf", source.shape
        if (numbers or source.ndim > 1) and (source.ndim != 2 or shape[1] not in _WIDTHS[argument]):
            hint = "A matrix of relations goes to Relation.from_matrix." if numbers and argument == "edges" else ""
            hint = "One edge is one row: pass edges.T." if source.ndim == 2 == shape[0] and shape[1] > 3 else hint
            raise InputError(owner, argument, _SHAPES[argument], f"shape {shape}", hint)
        if numbers:

            def pieces(_owner: str, picks: Sequence[int], _n_ids: int) -> Generator[Piece, None, None]:
                for first in range(0, len(source), N_ROWS):
                    where = place(f"{argument}[", first, "]")
                    yield [source[first : first + N_ROWS, k] for k in picks], [where] * (len(picks) + 1)

            head = source[:SAMPLE_LINES].T.tolist()
            return nullcontext(Table("the array", None, head, [True] * len(head), pieces=pieces))
        source = source.tolist()
    else:
        source = with_index(owner, source)
        if not isinstance(source, (Sequence, Iterator)):
            import narwhals as nw

            try:
                frame = nw.from_native(source, pass_through=True)
            except nw.exceptions.NarwhalsError as error:  # two columns of one name
                raise InputError(owner, argument, "a frame that can be read", str(error)) from error
            if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
                return nullcontext(frame_table(frame))
    other = isinstance(source, (Mapping, str, bytes, bytearray)) or hasattr(source, "shape")
    if other or not isinstance(source, Iterable):
        graph = "a graph of networkx, igraph or PyTorch Geometric, " * (argument == "edges")
        expected = f"a path, an open file, a data frame, {graph}{_SHAPES[argument]} or an iterable of tuples"
        hint = "A matrix, or the neighbours in AnnData, go to Relation.from_matrix." if hasattr(source, "shape") else ""
        hint = hint_of_mapping(source) if isinstance(source, Mapping) else hint
        raise InputError(owner, argument, expected, type(source).__name__, hint)
    return nullcontext(_tuples_table(owner, argument, iter(source)))


def is_text(source: object) -> TypeGuard[str | PathLike[str] | IO[str] | IO[bytes]]:
    """Whether it is a path, "-" or an open file."""
    return isinstance(source, (str, PathLike)) or hasattr(source, "read")


def _tuples_table(owner: str, argument: str, tuples: Iterator[Any]) -> Table:
    piece = list(islice(tuples, N_ROWS))
    width = len(piece[0]) if piece and isinstance(piece[0], (Sequence, np.ndarray)) else min(_WIDTHS[argument])
    fits = width in _WIDTHS[argument]
    one = argument.removesuffix("s")

    def checked(piece: list[Any], first: int) -> list[Any]:
        where = place(f"{argument}[", first, "]")
        expected = f"a tuple of {width}, as the first one" if fits and first + len(piece) > 1 else _TUPLES[argument]
        for k, row in enumerate(piece):
            if type(row) is not tuple and (isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray)):
                raise DataError(owner, f"every {one}", expected, f"{row!r} in {where(k)}")
            if len(row) != width or not fits:
                raise DataError(owner, f"every {one}", expected, f"{len(row)} fields in {where(k)}: {row!r}")
        return piece

    counts = [row for row in piece[:SAMPLE_LINES] if isinstance(row, (tuple, list)) and _is_counted(row)]
    if counts and len(counts) == len(piece[:SAMPLE_LINES]):  # each pair would be a node, related to a number
        got = f"a pair and a number in {argument}[0]: {piece[0]!r}"
        raise DataError(owner, f"every {one}", "(u, v) or (u, v, n)", got, _OF_COUNTS)
    head = list(zip(*checked(piece, 0)[:SAMPLE_LINES], strict=True))

    def pieces(_owner: str, picks: Sequence[int], _n_ids: int) -> Generator[Piece, None, None]:
        rows, first = piece, 0
        while rows:
            columns = list(zip(*rows, strict=True))
            yield [columns[k] for k in picks], [place(f"{argument}[", first, "]")] * (len(picks) + 1)
            first += len(rows)
            rows = checked(list(islice(tuples, N_ROWS)), first)

    return Table("the tuples", None, head, [False] * len(head), by_position=True, pieces=pieces)


def _is_counted(row: Sequence[Any]) -> bool:
    """Whether it is an item of ``Counter(pairs)``: a pair and a number."""
    return len(row) == 2 and isinstance(row[0], tuple) and len(row[0]) == 2 and isinstance(row[1], (int, float))


def hint_of_mapping(edges: Mapping[object, object]) -> str:
    """Return how a dictionary becomes edges: counts of pairs, lists of neighbours, or neighbours with attributes."""
    key, value = next(iter(edges.items()), (None, None))
    if _is_counted((key, value)):
        return _OF_COUNTS
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        of = "dicts" if isinstance(value, Mapping) else "lists"
        return f"Neighbours of nodes are read as a graph: networkx.from_dict_of_{of}(edges)."
    return ""


def frame_table(frame: Frame) -> Table:
    """Return the table in a frame; of a lazy one only the columns that are needed are computed."""
    import narwhals as nw

    schema = frame.collect_schema()
    names: list[str] = schema.names()
    first_ones = frame.select(nw.nth(*range(min(_LOOKED_AT, len(names))))).head(SAMPLE_LINES) if names else frame
    head = first_ones.collect() if isinstance(first_ones, nw.LazyFrame) else first_ones

    def pieces(owner: str, picks: Sequence[int], n_ids: int) -> Generator[Piece, None, None]:
        narrow = frame.select(nw.nth(*picks))
        whole = narrow.collect() if isinstance(narrow, nw.LazyFrame) else narrow
        parts = (whole[first : first + N_ROWS] for first in range(0, len(whole), N_ROWS))
        return _frame_pieces(owner, parts, [names[k] for k in picks], n_ids, "the frame")

    return table_of("the frame", labels_of(names), schema.dtypes(), head)._replace(pieces=pieces)


@contextmanager
def _parquet_table(owner: str, argument: str, source: object, verbose: int) -> Iterator[Table]:
    """Give the table in a Parquet file; in memory there is a row group of the columns needed."""
    import narwhals as nw

    path = check_path(owner, argument, source, exists=True)
    arrow = require(owner, "pyarrow", "parquet")
    shown = repr(str(path))
    with (
        parquet_of(owner, argument, path) as parquet,
        OpenedFile(path) as opened,
        parquet.ParquetFile(opened.file, page_checksum_verification=True) as file,
    ):
        told, there = file.schema_arrow.pandas_metadata or {}, file.schema_arrow.names
        # The named index of pandas, which it writes last, is in front; one without a name is left out.
        index = [name for name in told.get("index_columns", ()) if isinstance(name, str) and name in there]
        named = [name for name in index if not _NAMELESS.fullmatch(name)]
        names = named + [name for name in there if name not in index]
        types = nw.from_native(file.schema_arrow.empty_table().select(names), eager_only=True).schema.dtypes()
        few = list(islice(file.iter_batches(SAMPLE_LINES, columns=names[:_LOOKED_AT]), 1))
        sample = arrow.Table.from_batches(few, None if few else arrow.schema([]))
        head = nw.from_native(sample.select(names[:_LOOKED_AT] if few else []), eager_only=True)

        def pieces(owner: str, picks: Sequence[int], n_ids: int) -> Generator[Piece, None, None]:
            wanted = [names[k] for k in picks]
            batches = file.iter_batches(batch_size=N_ROWS, columns=wanted)
            parts = (nw.from_native(arrow.Table.from_batches([b]), eager_only=True).select(wanted) for b in batches)
            with ProgressLine("reading", file.metadata.num_rows, verbose, "edge") as progress:
                for piece, places in _frame_pieces(owner, parts, wanted, n_ids, shown):
                    yield piece, places
                    progress.update(len(piece[0]))

        yield table_of(shown, names, types, head)._replace(pieces=pieces)


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


def _are_numbers(values: Sequence[object]) -> bool:
    """Whether values of a column of objects are numbers: Decimal, or written as text."""
    there = [value for value in values if value is not None]
    return bool(there) and all(
        isinstance(value, Decimal)
        or (isinstance(value, (int, float)) and not isinstance(value, bool))
        or (isinstance(value, str) and is_number(value) and "," not in value)
        for value in there
    )


def _frame_pieces(
    owner: str, parts: Iterable[nw.DataFrame[IntoDataFrame]], names: Sequence[str], n_ids: int, shown: str
) -> Generator[Piece, None, None]:
    """Give the parts of a frame column by column, but for rows without an id, which are told at the end."""
    first, gaps = 0, list[int]()
    for part in parts:
        places = [place("row ", first, f" of {shown}, column {name!r}") for name in names]
        places.append(place("row ", first, f" of {shown}"))
        missing = np.zeros(len(part), np.bool_)
        for k in range(n_ids):
            missing |= _nulls(part[:, k])
        gaps += (first + np.flatnonzero(missing)).tolist()
        first += len(part)
        if missing.any():
            kept = np.flatnonzero(~missing).tolist()
            part, places = part[kept], [among(kept, where) for where in places]
        yield [part[:, k] for k in range(len(names))], places
    if gaps:
        warn_user(f"{owner}: {without_ids(len(gaps), 'row', shown, gaps[0])}")


def ids_of(owner: str, column: Any, where: Where) -> Column:
    """Return the ids in a column of an array, of a frame, where none is missing, or of tuples.

    Whole numbers are integers, also those that came as floats (pandas makes them of integers with a gap) or Decimal
    (databases write integers so). Bytes are text. Dates of pandas are those of Python.

    Raises
    ------
    DataError
        If an id is a Decimal with a fraction, bytes that are not UTF-8, a date with nanoseconds, or a whole
        number so large that floats have no place for all its digits.
    """
    if not is_series(column):
        return whole_numbers(owner, column, where) if isinstance(column, np.ndarray) else column
    if column.dtype.is_integer() or column.dtype.is_float():
        numbers = column.to_numpy()
        if column.dtype.is_float() and (not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any()):
            check_exact(owner, numbers, where)
            return [int(key) if key.is_integer() else key for key in numbers.tolist()]
        return whole_numbers(owner, numbers, where)
    keys: list[Any] = column.to_list()
    kinds = set(map(type, keys))
    if kinds.isdisjoint((Decimal, bytes)) and not any(issubclass(kind, datetime) for kind in kinds):
        return keys
    for k, key in enumerate(keys):
        if isinstance(key, Decimal):
            if key != key.to_integral_value():
                got, hint = f"{key} in {where(k)}", "Read the column as text."
                raise DataError(owner, "every id", "a whole number in a column of Decimal", got, hint)
            keys[k] = int(key)
        elif isinstance(key, bytes):
            try:
                keys[k] = key.decode()
            except UnicodeDecodeError:
                got, hint = f"{key!r} in {where(k)}", "bytes.hex makes text of them."
                raise DataError(owner, "every id", "text in UTF-8 if it is binary", got, hint) from None
        elif hasattr(key, "to_pydatetime"):
            if key.nanosecond:
                got, hint = f"{key} in {where(k)}", "Round the column, or make text of it."
                raise DataError(owner, "every id", "a date to the microsecond", got, hint)
            keys[k] = key.to_pydatetime()
    return keys


def whole_numbers(owner: str, column: NDArray[np.number], where: Where) -> Longs | list[int]:
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


def weights_of(owner: str, column: Any, where: Where) -> Doubles:
    """Return the weights in a column of an array, of a frame, or of tuples; in a frame text may be numbers."""
    if not is_series(column):
        return column.astype(np.float64) if isinstance(column, np.ndarray) else numbers_of(owner, column, where)
    if not column.dtype.is_numeric():
        return numbers_of_texts(owner, column.to_list(), where)
    if not column.dtype.is_float():  # a NaN among floats is reported with its edge, later
        refuse_nulls(owner, column, "every weight", where)
    import narwhals as nw

    return column.cast(nw.Float64()).to_numpy().astype(np.float64)


def numbers_of_texts(owner: str, values: Sequence[Any], where: Where) -> Doubles:
    """Return weights, of which some or all may be written as texts."""
    with suppress(TypeError, ValueError):  # quick, for what is usual: text alone
        if "_" not in "".join(values):
            return np.fromiter(map(float, values), np.float64, len(values))
    written = {k: value for k, value in enumerate(values) if isinstance(value, str)}
    grouped = len(written) == len(values) and any(map(IN_THOUSANDS.fullmatch, values))
    if grouped and (read := numbers_written(values, comma=True)):
        return np.array(read)
    numbers = [*values]
    for k, value in written.items():
        with suppress(ValueError):
            numbers[k] = number_of(value)
    found = numbers_of(owner, numbers, where)
    units = {unit_of(value): k for k, value in reversed(written.items())}
    if len(units) > 1:
        shown = " and ".join(f"{values[k]!r} in {where(k)}" for k in sorted(units.values()))
        raise DataError(owner, "every weight", "in one unit", shown, "Write all with it, or none.")
    return found


def times_of(owner: str, column: Any, where: Where) -> Sequence[object] | NDArray[Any]:
    """Return the times in a column of an array, of a frame, or of tuples, none of which may be missing in a frame."""
    if not is_series(column):
        return column
    refuse_nulls(owner, column, "every time", where)
    plain = getattr(column.dtype, "time_zone", "") is None  # moments without a zone
    return column.to_numpy() if plain or column.dtype.is_numeric() else column.to_list()


def refuse_nulls(owner: str, column: nw.Series[IntoSeries], what: str, where: Where) -> None:
    """Refuse a column of a frame with missing values."""
    nulls = _nulls(column)
    if nulls.any():
        k = int(np.argmax(nulls))
        raise DataError(owner, what, "there, not null", f"{column[k]} in {where(k)}")


def _nulls(column: nw.Series[IntoSeries]) -> Flags:
    """Return which values of a column are missing: null, or NaN among floats."""
    nulls = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    return nulls.to_numpy()
