"""Edges from anything that holds some: files, streams, data frames, graphs, arrays, tuples.

Whatever comes in, the same comes out: a code for the source and the target of every edge, a weight, and the ids that
the codes stand for, in order of first appearance. Readers work through their input in pieces and keep codes only.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_flag, check_integer, check_path, require
from nearfar._core.ids import Ids
from nearfar._core.progress import ProgressLine, logger
from nearfar._core.streams import ByteStream
from nearfar.errors import DataError, InputError
from nearfar.relations.delimited import (
    DONE,
    MISSING,
    N_SAMPLE,
    STRAY_QUOTE,
    Bytes,
    Layout,
    Roles,
    TextFormat,
    as_bytes,
    choose_columns,
    find_layout,
    parse_integers,
    parse_numbers,
    scan_records,
)
from nearfar.relations.factorize import BadIdError, IntegerCodes, ObjectCodes, StringCodes

# ------------------------------------------------------------
# Where every reader puts its edges, piece by piece: ids become codes, weights are checked, and only codes are kept.

Column = NDArray[np.int64] | Sequence[Any]
Where = Callable[[int], str]


class EdgeStore(Protocol):
    """Where the codes and weights of the edges go, piece by piece."""

    def append(self, rows: NDArray[np.int32], columns: NDArray[np.int32], weights: NDArray[np.float32] | None) -> None:
        """Keep a piece; all pieces have weights, or none has."""

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]:
        """Return all edges in the order in which they came; the store is empty afterwards."""


class MemoryStore:
    """Edges in memory."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int32]] = []
        self._columns: list[NDArray[np.int32]] = []
        self._weights: list[NDArray[np.float32]] = []

    def append(self, rows: NDArray[np.int32], columns: NDArray[np.int32], weights: NDArray[np.float32] | None) -> None:
        self._rows.append(np.ascontiguousarray(rows))
        self._columns.append(np.ascontiguousarray(columns))
        if weights is not None:
            self._weights.append(weights)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]:
        weights = _joined(self._weights, np.float32) if self._weights else None
        return _joined(self._rows, np.int32), _joined(self._columns, np.int32), weights


class EdgeCollector:
    """Edges in the making.

    A side (there are two if bipartite, else one for both ends) starts out with integer codes. What is no integer turns
    it, with the ids so far, into codes of strings (text) or of any objects.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    bipartite : bool
        Whether sources and targets are of different kinds, each with ids of their own.
    store : EdgeStore, optional
        Where the codes go; memory by default.
    """

    def __init__(self, owner: str, bipartite: bool, store: EdgeStore | None = None) -> None:
        self.owner = owner
        self._store = MemoryStore() if store is None else store
        self._sides: list[IntegerCodes | StringCodes | ObjectCodes] = [IntegerCodes() for _ in range(1 + bipartite)]

    def add_ids(self, keys: Sequence[Any], side: int = 0) -> None:
        """Enter ids without an edge, any hashable ones."""
        self._encode(side, keys, lambda _: "a node")

    def add_text(
        self, text: Bytes, spans: NDArray[np.int32], weights: NDArray[np.float64] | None, where: Where
    ) -> None:
        """Enter edges whose ids lie in a text, spans of shape (n, 2, 2): integers as long as all are, then strings."""
        if all(isinstance(side, IntegerCodes) for side in self._sides):
            keys = np.empty((len(spans), 2), np.int64)
            if parse_integers(text, spans, keys):
                self.add_columns(keys[:, 0], keys[:, 1], weights, where)
                return
            self._sides = [StringCodes(map(str, side.ids().tolist())) for side in self._sides]  # type: ignore[union-attr]
        first, last = self._sides[0], self._sides[-1]
        assert isinstance(first, StringCodes)
        assert isinstance(last, StringCodes)
        if first is last:
            codes = first.encode(text, spans.reshape(-1, 2)).reshape(-1, 2)
            self._add(codes[:, 0], codes[:, 1], weights, where)
        else:
            self._add(first.encode(text, spans[:, 0]), last.encode(text, spans[:, 1]), weights, where)

    def add_columns(self, sources: Column, targets: Column, weights: NDArray[np.float64] | None, where: Where) -> None:
        """Enter edges given as two columns, each an int64 array or a sequence of objects."""
        if len(self._sides) == 2:
            self._add(
                self._encode(0, sources, lambda k: where(k)),
                self._encode(1, targets, lambda k: where(k)),
                weights,
                where,
            )
            return
        both: Column
        if isinstance(sources, np.ndarray) and isinstance(targets, np.ndarray):
            both = np.stack([sources, targets], axis=1).reshape(-1)
        else:
            both = [None] * (2 * len(sources))
            both[0::2], both[1::2] = _listed(sources), _listed(targets)
        codes = self._encode(0, both, lambda k: where(k // 2)).reshape(-1, 2)
        self._add(codes[:, 0], codes[:, 1], weights, where)

    def finish(self) -> Edges:
        """Return the edges; the collector is empty afterwards."""
        rows, columns, weights = self._store.arrays()
        if not rows.size:
            raise DataError(self.owner, "edges", "at least one edge of weight > 0", "none", "Is this the right input?")
        ids = []
        while self._sides:  # each table goes before the next list of ids comes
            ids.append(Ids.of_distinct(self._sides.pop(0).ids()))
        return Edges(rows, columns, weights, ids[0], ids[-1])

    def _encode(self, side: int, keys: Column, where: Where) -> NDArray[np.int32]:
        codes = self._sides[side]
        if isinstance(keys, np.ndarray) and isinstance(codes, IntegerCodes):
            return codes.encode(keys)
        try:
            return self._objects(side).encode(_listed(keys))
        except BadIdError as error:
            raise DataError(
                self.owner, "every id", error.expected, f"{error.key!r} in {where(error.position)}"
            ) from None

    def _id(self, side: int, code: np.int32) -> Any:
        key = self._sides[side].ids()[code]
        return key.item() if isinstance(key, np.generic) else key

    def _objects(self, side: int) -> ObjectCodes:
        codes = self._sides[side]
        if not isinstance(codes, ObjectCodes):
            ids = codes.ids()
            codes = self._sides[side] = ObjectCodes(_listed(ids))
        return codes

    def _add(
        self,
        rows: NDArray[np.int32],
        columns: NDArray[np.int32],
        weights: NDArray[np.float64] | None,
        where: Where,
    ) -> None:
        stored = None
        if weights is not None:
            with np.errstate(over="ignore"):
                stored = weights.astype(np.float32)
            good = np.isfinite(stored) & (weights >= 0)
            if not good.all():
                k = int(np.argmin(good))
                pair = f"{self._id(0, rows[k])!r} -> {self._id(-1, columns[k])!r}"
                raise DataError(
                    self.owner,
                    "every weight",
                    "a number >= 0, finite in float32",
                    f"{weights[k]:g} in {where(k)} ({pair})",
                    "Correct or drop such edges, or pass weight=False to ignore the weights.",
                )
            kept = stored > 0
            if not kept.all():
                rows, columns, stored = rows[kept], columns[kept], stored[kept]
        self._store.append(rows, columns, stored)


def numbers(values: Iterable[Any], owner: str, where: Where) -> NDArray[np.float64]:
    """Return weights that came as Python objects as an array; a text is not a number."""
    listed = list(values)
    found = np.empty(len(listed))
    for k, value in enumerate(listed):
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(owner, "every weight", "a number", f"{value!r} in {where(k)}") from None
    return found


def _listed(column: Column) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _joined(pieces: list[Any], dtype: type) -> NDArray[Any]:
    joined = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    pieces.clear()
    return joined


# ------------------------------------------------------------
# Edges from data frames of any make, through narwhals, and from Parquet files, row group by row group.

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


# ------------------------------------------------------------
# Edges of a networkx graph: Graph, DiGraph and their multi-edge versions.


def collect_graph(graph: Any, collector: EdgeCollector, roles: Roles, bipartite: bool, n_rows: int) -> None:
    """Put the nodes, in the order of the graph, and the edges into the collector; an undirected edge comes once."""
    Roles(roles.source, roles.target).refuse(collector.owner, "a networkx graph")
    name = _weight_name(graph, roles, collector.owner)
    kinds = _kinds(graph, collector.owner) if bipartite else {}
    if not bipartite:
        collector.add_ids(list(graph.nodes))
    else:
        rows, columns = _two_sides(graph, kinds)
        collector.add_ids(rows, 0)
        collector.add_ids(columns, 1)
    edges = _oriented(graph, kinds, collector.owner)
    while piece := list(islice(edges, n_rows)):

        def where(k: int, piece: list[Any] = piece) -> str:
            return f"the edge {piece[k][0]!r} -> {piece[k][1]!r}"

        weights = None
        if name is not None:
            weights = numbers((data.get(name, 1) for _, _, data in piece), collector.owner, where)
        collector.add_columns([e[0] for e in piece], [e[1] for e in piece], weights, where)


def _weight_name(graph: Any, roles: Roles, owner: str) -> str | None:
    if roles.weight is False:
        return None
    wanted = "weight" if roles.weight is None else roles.weight
    if any(wanted in data for _, _, data in graph.edges(data=True)):
        return wanted  # type: ignore[return-value]
    if roles.weight is None:
        return None
    there = sorted({str(key) for _, _, data in graph.edges(data=True) for key in data})
    expected = f"an attribute of the edges: {', '.join(there) or 'there is none'}"
    raise InputError(owner, "weight", expected, repr(wanted))


def _kinds(graph: Any, owner: str) -> dict[Any, int]:
    """Return the kind of each node, 0 for rows and 1 for columns; empty when the direction of edges has to tell."""
    kinds = dict(graph.nodes(data="bipartite"))
    unknown = [node for node, kind in kinds.items() if kind not in (0, 1)]
    if unknown and not graph.is_directed():
        raise InputError(
            owner,
            "bipartite",
            "False for an undirected graph whose nodes don't tell their kind",
            f"True, and node {unknown[0]!r} without attribute bipartite = 0 or 1",
        )
    return {} if unknown else {node: int(kind) for node, kind in kinds.items()}


def _two_sides(graph: Any, kinds: dict[Any, int]) -> tuple[list[Any], list[Any]]:
    """Return the nodes that are rows and those that are columns; without kinds an isolated node is a row."""
    if kinds:
        return [n for n, kind in kinds.items() if kind == 0], [n for n, kind in kinds.items() if kind == 1]
    columns = [n for n, degree in graph.in_degree() if degree]
    return [n for n, degree in graph.out_degree() if degree or not graph.in_degree(n)], columns


def _oriented(graph: Any, kinds: dict[Any, int], owner: str) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    for u, v, data in graph.edges(data=True):
        if kinds and kinds[u] == kinds[v]:
            raise DataError(owner, "every edge", "between the two kinds", f"{u!r} -> {v!r}, both of one kind")
        yield (v, u, data) if kinds and kinds[u] == 1 else (u, v, data)


# ------------------------------------------------------------
# Edges from delimited text: CSV, TSV and their kin, plain or compressed, from a file or a stream, in chunks.
#
# A chunk is cut into fields, its ids become codes, its weights numbers, all in compiled loops; then it is forgotten. A
# record that a chunk does not hold to its end goes into the next one, so the size of the chunks changes nothing.

__all__ = ["TextFormat", "collect_text"]

_ROWS = 1 << 16  # edges that are worked on at a time: what they need stays in the processor's cache
_SAMPLE = 1 << 16
_LONGEST = 1 << 24  # bytes of one record


def collect_text(
    source: str | PathLike[str] | IO[Any],
    collector: EdgeCollector,
    roles: Roles,
    form: TextFormat,
    chunk_size: int,
    verbose: int,
) -> None:
    """Put the edges of a delimited text into the collector.

    Parameters
    ----------
    source : path, "-" or file object
        Where the text is.
    collector : EdgeCollector
        Where the edges go.
    roles : Roles
        Which columns are asked for.
    form : TextFormat
        What is known about the text.
    chunk_size : int
        Bytes to read at a time.
    verbose : int
        0 draws no progress line.

    Raises
    ------
    DataError
        If the text cannot be read as edges; says in which line.
    InputError
        If there is no such file or column.
    """
    with ByteStream(collector.owner, source) as stream, ProgressLine(
        "reading", stream.size, verbose, "byte"
    ) as progress:  # fmt: skip
        buffer, at_end = _read_sample(stream, form)
        _check_utf8(buffer, 1, collector.owner, stream.name)
        layout = find_layout(collector.owner, stream.name, buffer, roles, form)
        if layout is None:
            if buffer.strip():
                layout = Layout(ord(form.delimiter or ","), 2, np.array([0, 1]), 0, 1)  # the scan says what is wrong
            else:
                return
        reader = _Reader(collector, layout, form, stream.name)
        n_raw = 0
        while True:
            buffer = reader.consume(buffer)
            progress.update(stream.n_raw - n_raw)
            n_raw = stream.n_raw
            if at_end:
                break
            more = stream.read(chunk_size)
            buffer += more or _last_newline(buffer)
            at_end = not more
        reader.check_nothing_left(buffer)


def _read_sample(stream: ByteStream, form: TextFormat) -> tuple[bytearray, bool]:
    """Read until there are enough lines to judge by; returns (bytes, whether that was all)."""
    buffer, mark = bytearray(), (form.comments or "").encode()
    while more := stream.read(max(_SAMPLE, len(buffer))):
        buffer += more
        lines = [line.strip() for line in bytes(buffer).split(b"\n")[:-1]]
        skipped = sum(not line or (mark != b"" and line.startswith(mark)) for line in lines)
        if len(lines) - skipped >= N_SAMPLE or len(buffer) >= 4 * _LONGEST:
            return buffer, False
    return buffer + _last_newline(buffer), True


def _last_newline(buffer: bytearray) -> bytes:
    return b"\n" if buffer and not buffer.endswith(b"\n") else b""


class _Reader:
    """Turns buffers into edges, one after another, and keeps count of the lines."""

    def __init__(self, collector: EdgeCollector, layout: Layout, form: TextFormat, name: str) -> None:
        self._collector, self._layout, self._name = collector, layout, name
        self._owner = collector.owner
        self._comment = form.comment_bytes
        self._position, self._line = layout.position, layout.line
        self._spans = np.empty((_ROWS, layout.picks.size, 2), np.int32)
        self._lines = np.empty(_ROWS, np.int64)

    def consume(self, buffer: bytearray) -> bytearray:
        """Take all complete records; return what is left."""
        _check_utf8(buffer, self._line, self._owner, self._name, self._position)
        text = as_bytes(buffer)
        position, rows = self._position, _ROWS
        while rows == _ROWS:
            rows, position, line, status, found = scan_records(
                text, position, text.size, self._line, self._layout.delimiter, self._comment,
                self._layout.n_fields, self._layout.picks, self._spans, self._lines,
            )  # fmt: skip
            if rows:
                self._add(text, rows)
            if status != DONE:
                self._refuse(status, line, found, buffer[position : position + 300])
            self._line = line
        self._position = 0
        left = bytearray(text[position:].tobytes())
        if len(left) > _LONGEST:
            self.check_nothing_left(left)
        return left

    def check_nothing_left(self, left: bytearray) -> None:
        """Refuse a record that never ended."""
        if left.strip():
            raise DataError(
                self._owner,
                "every line",
                f"complete, below {_LONGEST >> 20} MiB, with every quote closed",
                f"{_shown(left)} on line {self._line} of {self._name}",
            )

    def _add(self, text: NDArray[np.uint8], rows: int) -> None:
        weights = None
        if self._layout.picks.size == 3:
            weights = self._weights(text, np.ascontiguousarray(self._spans[:rows, 2]))
        self._collector.add_text(text, np.ascontiguousarray(self._spans[:rows, :2]), weights, self._where)

    def _weights(self, text: NDArray[np.uint8], spans: NDArray[np.int32]) -> NDArray[np.float64]:
        values = np.empty(len(spans))
        parse_numbers(text, spans, values)
        for k in np.flatnonzero(np.isnan(values)).tolist():
            field = text[spans[k, 0] : spans[k, 1]].tobytes()
            try:
                values[k] = float(field.replace(b"_", b"?"))  # Python alone takes 1_000 for a number
            except ValueError:
                hint = "Pass weight=False to ignore this column."
                raise DataError(
                    self._owner, "every weight", "a number", f"{field.decode()!r} in {self._where(k)}", hint
                ) from None
        return values

    def _where(self, row: int) -> str:
        return f"line {self._lines[row]} of {self._name}"

    def _refuse(self, status: int, line: int, found: int, rest: bytearray) -> None:
        where = f"line {line} of {self._name}: {_shown(rest)}"
        if status == MISSING:
            which = "source" if found == 0 else "target"
            expected, got = "there, not an empty field", f"no {which} on {where}"
            raise DataError(self._owner, "every id", expected, got, 'An id that is empty is written "".')
        if status == STRAY_QUOTE:
            expected = 'with a delimiter or a line end behind the closing quote of a field (a quote inside is "")'
            raise DataError(self._owner, "every line", expected, where)
        n_fields = self._layout.n_fields
        by = "blanks" if self._layout.delimiter == 32 else repr(chr(self._layout.delimiter))
        raise DataError(
            self._owner,
            "every line",
            f"of {n_fields} fields separated by {by}, as the first one",
            f"{found} on {where}",
            "Pass delimiter if another one separates the fields, comments if the line is one.",
        )


def _check_utf8(buffer: bytearray, line: int, owner: str, name: str, start: int = 0) -> None:
    if buffer.isascii():
        return
    end = buffer.rfind(b"\n") + 1
    try:
        with memoryview(buffer)[:end] as view:
            codecs.utf_8_decode(view)
    except UnicodeDecodeError as error:
        bad = line + buffer.count(b"\n", start, error.start)
        raise DataError(
            owner,
            "edges",
            "text in UTF-8",
            f"{error.reason} ({bytes(buffer[error.start : error.end])!r}) on line {bad} of {name}",
            "Pass open(path, encoding=...) if the file is in another encoding.",
        ) from None


def _shown(rest: bytearray) -> str:
    return repr(bytes(rest).split(b"\n")[0].decode(errors="replace").rstrip("\r")[:80])


OWNER = "Relation.from_edges"
CHUNK = 16 << 20
_BYTES_A_ROW = 64  # what a row of an array, a frame or a list of tuples takes while it is worked on, about


@dataclass(frozen=True)
class Edges:
    """A list of edges, as codes.

    Attributes
    ----------
    rows, columns : ndarray, shape (n_edges,), int32
        Code of the source and of the target of each edge, in the order of the input; duplicates and self-loops as they
        came.
    weights : ndarray, shape (n_edges,), float32, > 0; or None
        None: every edge weighs 1.
    row_ids, column_ids : Ids
        What the codes of ``rows`` and ``columns`` stand for, in order of first appearance; the same object unless the
        edges are bipartite.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    row_ids: Ids
    column_ids: Ids


def read_edges(
    edges: Any,
    *,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | Literal[False] | None = None,
    bipartite: bool = False,
    delimiter: str | None = None,
    header: bool | Literal["infer"] = "infer",
    comments: str | None = "#",
    chunk_size: int = CHUNK,
    verbose: int = 0,
    owner: str = OWNER,
    store: EdgeStore | None = None,
) -> Edges:
    r"""Read edges from a file, a stream, a data frame, a graph, an array or an iterable of tuples.

    Parameters
    ----------
    edges : path, "-", file object, data frame, networkx graph, ndarray or iterable
        * path to a text file of one edge a line (.csv, .tsv, .txt, ...; gzip, xz and bzip2 are recognised by their
          content) or to a Parquet file; ``"-"`` is standard input; an open file, of text or bytes, is read from where
          it stands;
        * pandas, Polars, PyArrow or any other frame that narwhals wraps, lazy ones too;
        * networkx graph: ids in the order of ``graph.nodes``, isolated nodes too;
        * integer array of shape (n_edges, 2), or with weights (n_edges, 3); of floats if the ids are whole numbers;
        * iterable, also a generator, of ``(source, target)`` or all of ``(source, target, weight)``, ids of any
          hashable type.
    source, target : str or int, optional
        Column of a file or a frame, by name or position from 0. By default the columns called source and target (in
        any case of letters), else the first two that are not the weight.
    weight : str, int or False, optional
        Column of the weights; for a networkx graph an edge attribute, 1 where an edge lacks it; False: every edge
        weighs 1. By default the column or attribute called weight; in a table without names the third of exactly
        three, if its values are numbers. What was chosen is logged. Edges of weight 0 are left out, their ids stay.
    bipartite : bool
        Sources and targets are of different kinds (users and items), each with ids of their own. In a networkx graph
        the node attribute ``bipartite`` (0 or 1) tells the kinds; without it, the direction of the edges.
    delimiter : str, optional
        One character between the fields of a text file; a space stands for any run of spaces and tabs. By default found
        out from the first 100 lines: tab, comma, semicolon or space.
    header : bool or "infer"
        Whether the first line of a text file names the columns. By default it does if columns are asked for by name, if
        its names are known ones (source and target, from and to, ...), or if none of its fields is a number while a
        whole column below is.
    comments : str, optional
        Lines of a text file that begin with it are skipped, as are blank ones.
    chunk_size : int
        Bytes of text to read at a time; other inputs are worked through in pieces of about as much memory. Changes the
        memory needed beside the result, never the result.
    verbose : int
        0 draws no progress line.
    owner : str
        Who asks, for messages.
    store : EdgeStore, optional
        Where the codes and weights are kept; memory by default.

    Returns
    -------
    Edges
        12 bytes an edge and the ids; O(n_edges) time.

    Raises
    ------
    DataError
        For what the input holds: weights that are negative, infinite, NaN or no numbers, missing ids, lines with too
        many or too few fields, bytes that are not UTF-8, a file cut short, no edges at all. Says in which line, row or
        tuple.
    InputError
        If the input is of no kind that can be read, is not there, or lacks a column that was asked for.

    Notes
    -----
    Ids of a text file become integers if every one, over the whole file, is written as Python writes a 64-bit integer;
    otherwise all are strings, exactly as written. Blanks around a field are not part of it unless it is quoted. An
    empty field is a missing id, a quoted empty one (``""``) an empty string. Weights are kept in float32.

    Examples
    --------
    >>> found = read_edges([("ann", "bob", 2.0), ("bob", "cem", 1.0)])
    >>> found.rows, found.columns, found.row_ids.to_list()
    (array([0, 1], dtype=int32), array([1, 2], dtype=int32), ['ann', 'bob', 'cem'])

    >>> import io
    >>> read_edges(io.StringIO("user,item\n7,3\n7,8\n"), bipartite=True).column_ids
    Ids([3, 8], n=2)
    """
    from nearfar.relations.delimited import Roles

    roles = Roles(source, target, weight)
    collector = EdgeCollector(owner, check_flag(owner, "bipartite", bipartite), store)
    chunk_size = check_integer(owner, "chunk_size", chunk_size, low=1, high=1 << 30)
    n_rows = max(1, chunk_size // _BYTES_A_ROW)
    if isinstance(edges, (str, PathLike)) and str(edges) != "-" and _is_parquet(edges):
        collect_parquet(edges, collector, roles, n_rows, verbose)
    elif isinstance(edges, (str, PathLike)) or hasattr(edges, "read"):
        form = TextFormat.checked(owner, delimiter, header, comments)
        collect_text(edges, collector, roles, form, chunk_size, verbose)
    elif is_directed(edges) is not None:
        collect_graph(edges, collector, roles, bipartite, n_rows)
    elif isinstance(edges, np.ndarray):
        _collect_array(edges, collector, roles, n_rows)
    else:
        _collect_other(edges, collector, roles, n_rows)
    return collector.finish()


def is_directed(edges: object) -> bool | None:
    """Return whether a networkx graph is directed, None for anything else."""
    networkx = sys.modules.get("networkx")  # who holds a graph has imported it
    if networkx is None or not isinstance(edges, networkx.Graph):
        return None
    return bool(edges.is_directed())


def _is_parquet(path: str | PathLike[str]) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _collect_other(edges: Any, collector: EdgeCollector, roles: Roles, n_rows: int) -> None:
    if not isinstance(edges, (Sequence, Iterator)):
        frame = as_frame(edges, collector.owner)
        if frame is not None:
            collect_frame(frame, collector, roles, n_rows)
            return
    if isinstance(edges, (Mapping, bytes, bytearray)) or hasattr(edges, "shape") or not isinstance(edges, Iterable):
        raise InputError(
            collector.owner,
            "edges",
            "a path, an open file, a data frame, a networkx graph, an array of shape (n_edges, 2 or 3) or an "
            "iterable of tuples",
            type(edges).__name__,
            "A matrix goes to Relation.from_matrix." if hasattr(edges, "shape") else "",
        )
    roles.refuse(collector.owner, "an iterable of tuples")
    _collect_tuples(iter(edges), collector, roles.weight is not False, n_rows)


def _collect_tuples(edges: Iterator[Any], collector: EdgeCollector, weighted: bool, n_rows: int) -> None:

    width, done = 0, 0
    while piece := list(islice(edges, n_rows)):
        first = done

        def where(k: int, first: int = first) -> str:
            return f"edges[{first + k}]"

        width = width or (len(piece[0]) if isinstance(piece[0], (Sequence, np.ndarray)) else 2)
        _check_widths(piece, width, collector.owner, where)
        columns = list(zip(*piece, strict=True))
        weights = numbers(columns[2], collector.owner, where) if weighted and width == 3 else None
        collector.add_columns(columns[0], columns[1], weights, where)
        done += len(piece)


def _check_widths(piece: list[Any], width: int, owner: str, where: Any) -> None:
    expected = f"a tuple of {width}, as the first one" if width in (2, 3) else "a tuple of 2 or 3"
    for k, edge in enumerate(piece):
        if type(edge) is not tuple and (isinstance(edge, (str, bytes)) or not isinstance(edge, (Sequence, np.ndarray))):
            raise DataError(owner, "every edge", expected, f"{edge!r} in {where(k)}")
        if len(edge) != width or width not in (2, 3):
            raise DataError(owner, "every edge", expected, f"{len(edge)} fields in {where(k)}: {edge!r}")


def _collect_array(edges: NDArray[Any], collector: EdgeCollector, roles: Roles, n_rows: int) -> None:
    from nearfar.relations.delimited import choose_columns

    owner = collector.owner
    if edges.dtype.kind not in "iuf":
        if edges.ndim != 1 and not (edges.ndim == 2 and edges.shape[1] in (2, 3)):
            raise InputError(owner, "edges", "an array of shape (n_edges, 2 or 3)", f"shape {edges.shape}")
        _collect_other(edges.tolist(), collector, roles, n_rows)
        return
    if edges.ndim != 2 or edges.shape[1] not in (2, 3):
        hint = "A matrix of relations goes to Relation.from_matrix."
        raise InputError(owner, "edges", "an array of shape (n_edges, 2 or 3)", f"shape {edges.shape}", hint)
    source, target, weight = choose_columns(owner, roles, None, edges.shape[1], True)
    for first in range(0, len(edges), n_rows):
        piece = edges[first : first + n_rows]

        def where(k: int, first: int = first) -> str:
            return f"edges[{first + k}]"

        weights = None if weight is None else piece[:, weight].astype(np.float64)
        ids = [_whole(piece[:, column], owner, where) for column in (source, target)]
        collector.add_columns(ids[0], ids[1], weights, where)


def _whole(column: NDArray[Any], owner: str, where: Any) -> NDArray[np.int64] | list[int]:
    """Return ids as int64, or as a list of Python integers when they don't fit."""
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            good = (column == np.floor(column)) & (np.abs(column) < 2.0**63)
        if not good.all():
            k = int(np.argmin(good))
            raise DataError(owner, "every id", "a whole number in an array of floats", f"{column[k]} in {where(k)}")
    elif column.dtype == np.uint64 and column.size and column.max() >= 2**63:
        listed: list[int] = column.tolist()
        return listed
    return column.astype(np.int64)
