"""Edges from delimited text: CSV, TSV and their kin, plain or compressed, from a file or a stream, in chunks.

The first lines tell the layout: the delimiter, whether there is a header, and which columns are source, target and
weight. The text is then read in chunks, which compiled loops cut into fields. An incomplete record at the end of a
chunk is read with the next one, so the size of the chunks does not change the result.

Text is a uint8 array of UTF-8. A record is a line, or several where a quoted field holds line ends. The delimiter is
one byte; a space stands for any run of spaces and tabs. Blanks around an unquoted field do not belong to it. A field
that begins with ``"`` ends at the next ``"`` that is not doubled:

* With commas or semicolons the rules are those of RFC 4180: the closing quote must be followed by a delimiter or a line
  end, and a quoted field may contain line ends.
* With tabs or blanks a bare ``"`` is often just a character: a field whose quote is not closed within its line is read
  as plain text.
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import codecs
import math
import re
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice, pairwise
from os import PathLike
from typing import IO, Any, Literal, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer
from nearfar._core.jit import jit
from nearfar._core.progress import ProgressLine, logger
from nearfar._core.streams import ByteStream
from nearfar.errors import DataError, InputError, NearfarWarning

Bytes = NDArray[np.uint8]
Where = Callable[[int], str]
Records = tuple[Bytes, NDArray[np.int32], Where]
Choose = Callable[["Table"], list[int]]

SAMPLE_LINES = 100  # lines from which the layout is found out
_SAMPLE = 1 << 16  # bytes that are read at a time until there are so many
_ROWS = 1 << 16  # edges that are worked on at a time: what they need stays in the processor's cache
_LONGEST = 1 << 24  # bytes of one record

_CANDIDATES = "\t;, "  # a semicolon before a comma: lines with decimal commas are cut alike by both
_LINE = re.compile(rb"\S[^\n]*\n")  # one with something in it, from there on
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_HEADERS = {  # first two names, in lower case, that show that a line is a header
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("from", "to"), ("u", "v"), ("node1", "node2"),
    ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"), ("user", "item"), ("user_id", "item_id"), ("head", "tail"),
}  # fmt: skip

NEWLINE, RETURN, SPACE, TAB, QUOTE = 10, 13, 32, 9, 34
# What a field is, or why there is none; the negative ones also stand in place of a number of fields.
PLAIN, QUOTED, ESCAPED = 0, 1, 2
INCOMPLETE, STRAY = -1, -2
# How a scan ended.
DONE, RAGGED, STRAY_QUOTE, MISSING = 0, 1, 2, 3


def read_records(
    owner: str,
    source: str | PathLike[str] | IO[Any],
    choose: Choose,
    form: TextFormat,
    chunk_size: int,
    verbose: int,
    *,
    named: bool = False,
    argument: str = "edges",
) -> Generator[Records, None, None]:
    """Yield the fields of some columns of a delimited text, piece by piece.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    source : path, "-" or file object
        Where the text is.
    choose : callable
        Returns the positions of the columns to read, two ids first, from what the first lines show.
    form : TextFormat
        What is known about the text.
    chunk_size : int
        Bytes to read at a time.
    verbose : int
        0 draws no progress line.
    named : bool
        Whether a column is asked for by its name, so that the first line must be a header.
    argument : str
        What the source is called, for messages.

    Yields
    ------
    text : ndarray of uint8
        Valid until the next piece is asked for.
    spans : ndarray of shape (n, number of columns, 2), int32
        Where each field begins and ends; valid as long.
    where : callable
        Says which line a record of the piece is on.

    Raises
    ------
    DataError
        If the text cannot be cut into records; says in which line.
    InputError
        If there is no such file or column.
    """
    with (
        ByteStream(owner, source, argument) as stream,
        ProgressLine("reading", stream.size, verbose, "byte") as progress,
    ):
        buffer, at_end = _read_sample(stream, form)
        _check_utf8(buffer, 1, owner, argument, stream.name)
        layout = find_layout(stream.name, buffer, choose, form, named=named)
        if layout is None:
            if at_end and not buffer.strip():
                return
            layout = Layout(
                ord(form.delimiter or ","), 2, np.array([0, 1]), form.comment_bytes, 0, 1
            )  # the scan says what is wrong
        scanner = _Scanner(owner, argument, stream.name, layout)
        n_raw = 0
        while True:
            yield from scanner.pieces(buffer)
            progress.update(stream.n_raw - n_raw)
            n_raw = stream.n_raw
            buffer = scanner.left
            if at_end:
                break
            more = stream.read(chunk_size)
            buffer += more or _last_newline(buffer)
            at_end = not more
            del more  # or two chunks would be held while the next one is read
        scanner.check_nothing_left()


def _read_sample(stream: ByteStream, form: TextFormat) -> tuple[bytearray, bool]:
    """Read until there are enough lines to judge by; returns (bytes, whether that was all)."""
    buffer, mark = bytearray(), (form.comments or "").encode()
    while more := stream.read(max(_SAMPLE, len(buffer))):
        buffer += more
        end = buffer.rfind(b"\n") + 1
        # Line by line and no further than needed: a list of all of them may take many times the memory of the text.
        found = (line for line in _LINE.finditer(buffer, 0, end) if not mark or not line[0].startswith(mark))
        if sum(1 for _ in islice(found, SAMPLE_LINES)) == SAMPLE_LINES or len(buffer) >= 4 * _LONGEST:
            return buffer, False
    return buffer + _last_newline(buffer), True


def _last_newline(buffer: bytearray) -> bytes:
    return b"\n" if buffer and not buffer.endswith(b"\n") else b""


class _Scanner:
    """Cuts buffers into edges, one after another, and keeps count of the lines; ``left`` belongs to the next buffer."""

    def __init__(self, owner: str, argument: str, name: str, layout: Layout) -> None:
        self._owner, self._argument, self._name, self._layout = owner, argument, name, layout
        self._position, self._line = layout.position, layout.line
        self._spans = np.empty((_ROWS, layout.picks.size, 2), np.int32)
        self._lines = np.empty(_ROWS, np.int64)
        self.left = bytearray()

    def pieces(self, buffer: bytearray) -> Generator[Records, None, None]:
        """Yield the picked fields of all complete records."""
        _check_utf8(buffer, self._line, self._owner, self._argument, self._name, self._position)
        text: Bytes = np.frombuffer(buffer, np.uint8)
        position, rows = self._position, _ROWS
        while rows == _ROWS:
            rows, position, line, status, found = scan_records(
                text, position, self._line, self._layout, self._spans, self._lines
            )  # fmt: skip
            if rows:
                yield text, self._spans[:rows], self._where
            if status != DONE:
                self._refuse(status, line, found, buffer[position : position + 300])
            self._line = line
        self._position = 0
        self.left = bytearray(text[position:].tobytes())
        if len(self.left) > _LONGEST:
            self.check_nothing_left()

    def check_nothing_left(self) -> None:
        """Refuse a record that never ended."""
        if self.left.strip():
            expected = f"complete, below {_LONGEST >> 20} MiB, with every quote closed"
            got = f"{_shown(self.left)} on line {self._line} of {self._name}"
            raise DataError(self._owner, "every line", expected, got)

    def _where(self, row: int) -> str:
        return f"line {self._lines[row]} of {self._name}"

    def _refuse(self, status: int, line: int, found: int, rest: bytearray) -> None:
        where = f"line {line} of {self._name}: {_shown(rest)}"
        if status == MISSING:
            expected, got = "there, not an empty field", f"no {('source', 'target')[found]} on {where}"
            raise DataError(self._owner, "every id", expected, got, 'An id that is empty is written "".')
        if status == STRAY_QUOTE:
            expected = 'with a delimiter or a line end behind the closing quote of a field (a quote inside is "")'
            raise DataError(self._owner, "every line", expected, where)
        by = "blanks" if self._layout.delimiter == SPACE else repr(chr(self._layout.delimiter))
        expected = f"of {self._layout.n_fields} fields separated by {by}, as the first one"
        hint = "Pass delimiter if another one separates the fields, comments if the line is one."
        raise DataError(self._owner, "every line", expected, f"{found} on {where}", hint)


def parse_column(
    owner: str, text: Bytes, spans: NDArray[np.int32], where: Where, argument: str = "every weight"
) -> NDArray[np.float64]:
    """Return a column of numbers; says on which line there is another text."""
    values = np.empty(len(spans))
    parse_numbers(text, np.ascontiguousarray(spans), values)
    for k in np.flatnonzero(np.isnan(values)).tolist():
        field = text[spans[k, 0] : spans[k, 1]].tobytes()
        try:
            values[k] = float(field.replace(b"_", b"?"))  # Python alone takes 1_000 for a number
        except ValueError:
            got, hint = f"{field.decode()!r} in {where(k)}", "Pass weight=False to ignore this column."
            raise DataError(owner, argument, "a number", got, hint) from None
    return values


def _check_utf8(buffer: bytearray, line: int, owner: str, argument: str, name: str, start: int = 0) -> None:
    if buffer.isascii():
        return
    try:
        with memoryview(buffer)[: buffer.rfind(b"\n") + 1] as view:
            codecs.utf_8_decode(view)
    except UnicodeDecodeError as error:
        bad = line + buffer.count(b"\n", start, error.start)
        got = f"{error.reason} ({bytes(buffer[error.start : error.end])!r}) on line {bad} of {name}"
        hint = "Pass open(path, encoding=...) if the file is in another encoding."
        raise DataError(owner, argument, "text in UTF-8", got, hint) from None


def _shown(rest: bytearray) -> str:
    return repr(bytes(rest).split(b"\n")[0].decode(errors="replace").rstrip("\r")[:80])


# -- how a text is laid out, by its first lines ------------------------------------------------------------------------


@dataclass(frozen=True)
class TextFormat:
    """The arguments about a text file; None and "infer" mean that they are found out."""

    delimiter: str | None
    header: bool | Literal["infer"]
    comments: str | None

    @classmethod
    def checked(cls, owner: str, delimiter: object, header: object, comments: object) -> TextFormat:
        """Return the format; raises InputError if an argument cannot be used."""
        if delimiter is not None:
            printable = isinstance(delimiter, str) and len(delimiter) == 1 and " " <= delimiter <= "~"
            if not printable and delimiter != "\t":
                raise InputError(owner, "delimiter", "one ASCII character, a space for any blanks, or None", delimiter)
            if delimiter == '"':
                raise InputError(owner, "delimiter", "another character than the quote", delimiter)
        if header not in (True, False, "infer"):
            raise InputError(owner, "header", "True, False or 'infer'", header)
        if comments is not None and (not isinstance(comments, str) or not comments.strip()):
            raise InputError(owner, "comments", "a text that comment lines begin with, or None", comments)
        return cls(delimiter, header, comments)  # type: ignore[arg-type]

    @property
    def comment_bytes(self) -> Bytes:
        """The beginning of a comment line, as an array; empty if there are none."""
        return np.frombuffer(bytearray((self.comments or "").encode()), np.uint8)


class Layout(NamedTuple):
    """How a text is laid out.

    Attributes
    ----------
    delimiter : int
        The byte between fields; a space for any run of blanks.
    n_fields : int
        How many fields every line has.
    picks : ndarray, int64
        Positions of source, target and, if there is one, weight.
    comment : ndarray of uint8
        What a comment line begins with; empty if there are none.
    position, line : int
        Where the first edge may begin: byte of the sample, line counted from 1.
    """

    delimiter: int
    n_fields: int
    picks: NDArray[np.int64]
    comment: Bytes
    position: int
    line: int


class _Record(NamedTuple):
    fields: list[str]
    after: int  # position of the next record
    line_after: int


def find_layout(
    name: str, sample: bytearray, choose: Choose, form: TextFormat, *, named: bool = False
) -> Layout | None:
    """Find out how a text is laid out from a sample of whole lines; None if there is no line at all.

    Raises
    ------
    InputError
        If it lacks a column that was asked for.
    """
    delimiter, records = _choose_delimiter(np.frombuffer(sample, np.uint8), form)
    if not records:
        return None
    lines = [record.fields for record in records]
    first = lines[0]
    with_header = form.header
    if with_header == "infer":
        with_header = named or _looks_like_header(first, lines[1:])
    head = [fields for fields in lines[bool(with_header) :] if len(fields) == len(first)]
    # One number in a column makes it one of numbers: other values there are then refused, not silently ignored.
    table = Table(
        f"{name}: columns {len(first)} separated by {delimiter!r}, {'with' if with_header else 'without'} a header",
        first if with_header else None,
        list(zip(*head, strict=True)) or [()] * len(first),
        [any(map(is_number, column)) for column in zip(*head, strict=True)] or [False] * len(first),
    )
    picks = choose(table)
    start = records[0][1:] if with_header else (_skip_mark(sample), 1)
    return Layout(ord(delimiter), len(first), np.array(picks, np.int64), form.comment_bytes, *start)


def _skip_mark(text: bytes | bytearray) -> int:
    """Return where the text begins behind a byte order mark."""
    return 3 if text.startswith(b"\xef\xbb\xbf") else 0


def _choose_delimiter(text: Bytes, form: TextFormat) -> tuple[str, list[_Record]]:
    """Return the delimiter and the first records: the candidate that cuts most lines alike.

    Ties go to the one that leaves fewer ids empty, then to the first.
    """
    best, most = " ", (-1.0, -1.0)
    records: list[_Record] = []
    for candidate in form.delimiter or _CANDIDATES:
        found = _first_records(text, candidate, form.comment_bytes)
        n_fields = len(found[0].fields) if found else 0
        alike = [record for record in found if len(record.fields) == n_fields > 1]
        with_ids = [record for record in alike if all(record.fields[:2])]
        share = (len(alike) / len(found), len(with_ids) / len(found)) if found else (0.0, 0.0)
        if not records or share > most:
            best, records, most = candidate, found, share
    return best, records


def _first_records(text: Bytes, delimiter: str, comment: Bytes) -> list[_Record]:
    records: list[_Record] = []
    position, line = _skip_mark(text[:3].tobytes()), 1
    fields = np.empty((256, 3), np.int64)
    while len(records) < SAMPLE_LINES:
        position, line, n, after, newlines = cut_record(text, position, line, comment, ord(delimiter), fields)
        if n < 0:
            break
        if n > len(fields):
            fields = np.empty((n, 3), np.int64)
            continue
        line += 1 + newlines
        records.append(_Record([_field(text, *field) for field in fields[:n].tolist()], after, line))
        position = after
    return records


def _field(text: Bytes, first: int, last: int, kind: int) -> str:
    field = text[first:last].tobytes().decode()
    return field.replace('""', '"') if kind == ESCAPED else field


def _looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    lower = [name.lower() for name in first]
    if tuple(lower[:2]) in _HEADERS or {"source", "target"} <= set(lower):
        return True
    if not all(first) or len(set(first)) < len(first) or any(map(_NUMBER.fullmatch, first)):
        return False
    columns = zip(*(fields for fields in rest if len(fields) == len(first)), strict=True)
    return any(all(map(_NUMBER.fullmatch, column)) for column in columns)


def is_number(field: str) -> bool:
    """Whether a text is a number, perhaps with a decimal comma."""
    try:
        float(field.replace(",", "."))  # also nan, inf and decimal commas, which are refused later
    except ValueError:
        return False
    return True


# -- which columns of a table are source, target and weight ------------------------------------------------------------

Name = str | int | None

# Names of columns that by default are neither weights nor, where there are others, sources or targets.
_TIME_NAME = re.compile(r"(.*[ _-])?(time|timestamp|date|datetime|ts|year)([ _-].*)?|day|month|when|since")
_ROW_NAME = re.compile(r"(|id|idx|index|row|nr|no|number|#|unnamed: 0|(row|edge)[ _-]?(id|number|index))")
_DATE = re.compile(r"\d{4}[-/]\d\d?[-/]\d\d?\b.*|\d\d?[-/.]\d\d?[-/.]\d{4}\b.*")
_WHOLE = re.compile(r"[+-]?\d+")
_SINCE_1973 = 10**8  # seconds; ids are smaller, or of the same size in both columns
_STEP = 10  # the times of contacts are multiples of that or more
_ROWS_IN_A_ROW = 10  # a first column that _grows with each of so many rows numbers them
_PEOPLE = re.compile(
    r"user|customer|reader|listener|viewer|reviewer|rater|buyer|client|member|student|patient|visitor|subscriber|"
    r"author|actor|person|employee|player"
)
_THINGS = re.compile(
    r"item|product|movie|film|book|song|track|album|artist|paper|article|page|url|course|genre|business|restaurant|"
    r"shop|store|tag|event|team|company|group|club|project|repo|repository|game|document|word|query|category|hashtag"
)


@dataclass(frozen=True)
class Roles:
    """The arguments about columns: names or positions, None for the default, ``weight=False`` for no weight.

    ``bipartite`` is None where it is not said; ``taken`` receives which columns were read and which were left out,
    ``warned`` what was warned of.
    """

    source: Name = None
    target: Name = None
    weight: Name | Literal[False] = None
    bipartite: bool | None = False
    taken: dict[str, Any] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

    @property
    def asked(self) -> dict[str, Name | Literal[False]]:
        """The three arguments."""
        return {"source": self.source, "target": self.target, "weight": self.weight}

    @property
    def named(self) -> bool:
        """Whether a column is asked for by name."""
        return any(isinstance(role, str) for role in self.asked.values())

    def warn(self, text: str) -> None:
        """Warn the user, and keep the warning."""
        self.warned.append(text)
        warnings.warn(text, NearfarWarning, stacklevel=8)  # about where the user's own code is

    def refuse(self, owner: str, kind: str) -> None:
        """Refuse names of columns for an input that has none."""
        for argument, value in self.asked.items():
            if value is not None and not (argument == "weight" and value is False):
                raise InputError(owner, argument, f"left out for {kind}, which has no columns to name", value)


class Table(NamedTuple):
    """What is known of a table before it is read.

    Attributes
    ----------
    title : str
        What it is, for the log.
    names : sequence of str or None
        Names of the columns.
    head : sequence of sequences
        The first values of each column.
    numeric : sequence of bool
        Which columns hold numbers.
    """

    title: str
    names: Sequence[str] | None
    head: Sequence[Sequence[Any]]
    numeric: Sequence[bool]

    def label(self, column: int) -> str | int:
        """Return the name of a column, or its position."""
        return column if self.names is None else self.names[column]


def choose_columns(owner: str, roles: Roles, table: Table) -> list[int]:
    """Return the positions of source, target and, if there is one, weight.

    By default source and target are the columns of these names (upper or lower case), else the first two that are not
    the weight. The weight is the column called weight, else the third of three if it holds numbers; columns whose names
    are those of times or of row numbers do not count, nor do those behind the third that hold times.

    Raises
    ------
    InputError
        If there is no such column, one column has two roles, or a default would take times or row numbers for ids.

    Warns
    -----
    NearfarWarning
        If values look as if it did, or names like two kinds of objects while ``roles.bipartite`` is not said.
    """
    names, n_columns = table.names, len(table.head)
    if n_columns < 2:
        got = f"{n_columns} column(s)" + (f": {', '.join(map(repr, names))}" if names else "")
        hint = "If the columns are separated by something else, pass delimiter."
        raise InputError(owner, "edges", "a table of at least two columns", got, hint)
    source, target, weight = (
        None if role is None or role is False else position_of(owner, argument, role, names, n_columns)
        for argument, role in roles.asked.items()
    )
    lower = [name.strip().lower() for name in names or ()]
    if roles.weight is None:
        if lower.count("weight") == 1:
            found: int | None = lower.index("weight")
        else:
            usual = [k for k in range(n_columns) if not lower or not _is_time_or_row(lower[k], k)]
            usual = [k for k in usual if k < 3 or not _are_times(table.head[k])]
            found = usual[2] if len(usual) == 3 and table.numeric[usual[2]] else None
        weight = None if found in (source, target) else found
    if source is None and target is None and lower.count("source") == lower.count("target") == 1:
        source, target = lower.index("source"), lower.index("target")
    free = (column for column in range(n_columns) if column not in {source, target, weight})
    first = next(free, None) if source is None else source
    second = next(free, None) if target is None else target
    if first is None or second is None or len({first, second, weight}) < 3:
        raise InputError(
            owner, "source, target and weight", "different columns", f"{roles.asked} of {n_columns} columns"
        )
    by_name = "weight" in lower or (roles.weight is not None and roles.weight is not False)
    others = [column for column in range(n_columns) if column not in (first, second, weight if by_name else None)]
    defaults = {"source": first} if source is None else {}
    defaults |= {"target": second} if target is None else {}
    if others and defaults:
        _check_ids(owner, table, lower, defaults)
    if others and source is None:
        _check_growing(owner, roles, table, [first, second, others[0]])
    if roles.weight is None and weight is not None:
        _check_weight(owner, roles, table, weight)
    if roles.bipartite is None and names is not None:
        _check_kinds(owner, roles, [names[first], names[second]])
    picks = [first, second] if weight is None else [first, second, weight]
    words = [table.label(column) for column in picks]
    rest = [table.label(column) for column in range(n_columns) if column not in picks]
    roles.taken.update(source=words[0], target=words[1], weight=words[2] if words[2:] else None, left_out=rest)
    logger.info(
        "%s; source %r, target %r, weight %s", table.title, *words[:2], repr(words[2]) if words[2:] else "not read"
    )
    return picks


def is_time(name: str, column: int) -> bool:
    """Whether a column is named as times; by its name in lower case."""
    return _TIME_NAME.fullmatch(name) is not None or (name == "t" and column != 1)  # s and t are source and target


def _is_time_or_row(name: str, column: int) -> bool:
    return is_time(name, column) or _ROW_NAME.fullmatch(name) is not None


def _check_ids(owner: str, table: Table, lower: Sequence[str], defaults: dict[str, int]) -> None:
    """Refuse a default that takes times or row numbers for ids, by the name of a column or by its dates."""
    for role, column in defaults.items():
        values, name = table.head[column], lower[column] if lower else "a column without a name"
        if is_time(name, column) or (values and all(map(_is_date, values))):
            what = "times"
        elif role == "source" and _ROW_NAME.fullmatch(name) and _grows(_whole_numbers(values)):
            what = "row numbers"
        else:
            continue
        expected = f"given where the {role} would be {what}"
        raise InputError(owner, "columns", expected, _shown_column(table, column), _naming(table))


def _check_growing(owner: str, roles: Roles, table: Table, columns: Sequence[int]) -> None:
    """Warn where the numbers of the source, the first of three columns, look like times or row numbers."""
    likely = _times_or_rows(*(table.head[column] for column in columns))
    if likely:
        shown = _shown_column(table, columns[0])
        roles.warn(f"{owner}: {shown} looks like {likely}, and was read as the source. {_naming(table)}")


def _times_or_rows(source: Sequence[Any], target: Sequence[Any], other: Sequence[Any]) -> str | None:
    """Return what the values of the source seem to be if the other two columns are alike and it is unlike them."""
    numbers, seconds, thirds = map(_whole_numbers, (source, target, other))
    if not _grows(numbers, "or stays") or len(numbers) < 3 or numbers[0] == numbers[-1]:
        return None
    in_rows = len(numbers) >= _ROWS_IN_A_ROW and _grows(numbers)
    if all(isinstance(value, str) for value in (*target, *other)) and seconds is thirds is None:
        alike = numbers[0] >= _SINCE_1973 or not {*target}.isdisjoint(other)
        return ("row numbers or times" if in_rows else "times") if alike else None
    if seconds is None or thirds is None:
        return None
    if max(seconds) > 4 * max(thirds) or max(thirds) > 4 * max(seconds):
        return None  # a weight, or ids of another kind
    if in_rows:
        return "row numbers or times"
    steps = len({*numbers}) > 2 and math.gcd(*numbers) >= _STEP
    return "times" if steps or numbers[0] > max(*seconds, *thirds) else None


def _grows(numbers: Sequence[int] | None, or_stays: str = "") -> TypeGuard[Sequence[int]]:
    pairs = pairwise(numbers or ())
    return numbers is not None and all(a <= b if or_stays else a < b for a, b in pairs)


def _is_date(value: object) -> bool:
    return isinstance(value, date) or (isinstance(value, str) and _DATE.fullmatch(value) is not None)


def _are_times(values: Sequence[Any]) -> bool:
    numbers = _whole_numbers(values)
    return numbers is not None and min(numbers) >= _SINCE_1973


def _check_weight(owner: str, roles: Roles, table: Table, column: int) -> None:
    if _are_times(table.head[column]) and table.label(column) != "weight":
        text = f"{owner}: {_shown_column(table, column)} looks like times, and was read as the weight. "
        text += "Pass weight=False to read no weights, or name the weight."
        roles.warn(text)


def _check_kinds(owner: str, roles: Roles, names: Sequence[str]) -> None:
    singular = [re.sub(r"[ _-]?(id|name)?s?$", "", name.strip().lower()) for name in names]
    if any(_PEOPLE.fullmatch(a) and _THINGS.fullmatch(b) for a, b in (singular, singular[::-1])):
        text = f"{owner}: columns {names[0]!r} and {names[1]!r} are of two kinds by their names, and were read as one: "
        text += "the same id in both is one object. Pass bipartite=True to keep them apart, or bipartite=False."
        roles.warn(text)


def _whole_numbers(values: Sequence[Any]) -> list[int] | None:
    """Return values as integers if there are some and all are, as texts or by themselves."""
    if all(isinstance(value, str) and _WHOLE.fullmatch(value) for value in values):
        return list(map(int, values)) or None
    whole = all(isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0 for value in values)
    return list(map(int, values)) or None if whole else None


def _shown_column(table: Table, column: int) -> str:
    values = ", ".join(str(value) for value in table.head[column][:3])
    return f"column {table.label(column)!r} ({values}, ...)"


def _naming(table: Table) -> str:
    there = ", ".join(repr(table.label(column)) for column in range(len(table.head)))
    return f"Name the source and the target by columns=, two of {there}."


def position_of(owner: str, argument: str, role: object, names: Sequence[str] | None, n_columns: int) -> int:
    """Return the position of a column that is asked for by its name or its position."""
    if isinstance(role, (int, np.integer)):
        return check_integer(owner, argument, role, low=0, high=n_columns - 1)
    if not isinstance(role, str):
        raise InputError(owner, argument, "the name or position of a column", role)
    if names is None:
        hint = "The input names no columns; pass header=True if its first line does."
        raise InputError(owner, argument, f"a position from 0 to {n_columns - 1}", repr(role), hint)
    if names.count(role) != 1:
        expected = "one of the columns" if role not in names else "a column whose name occurs once"
        raise InputError(owner, argument, f"{expected}: {', '.join(map(repr, names))}", repr(role))
    return names.index(role)


# -- compiled: text cut into fields, and numbers in it -----------------------------------------------------------------

_POWERS = 10.0 ** np.arange(23)  # all exact in float64


@jit
def scan_records(
    text: Bytes, position: int, line: int, layout: Layout, spans: NDArray[np.int32], lines: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Cut records, and write where their picked fields lie.

    ``spans[row, k]`` receives (start, end) of the field ``layout.picks[k]``, ``lines[row]`` the line of the record. The
    first two picks are ids: an unquoted one must not be empty. Stops when ``lines`` is full, at an incomplete record or
    at an error. Returns (rows, position, line, how it ended, number of fields found or pick that is missing).
    """
    picks, fields, row = layout.picks, np.empty((layout.n_fields, 3), np.int64), 0
    while row < lines.size:
        position, line = next_record(text, position, line, layout.comment)
        if position >= text.size:
            break
        n, after, newlines = split_record(text, position, layout.delimiter, fields)
        if n == INCOMPLETE:
            break
        if n != layout.n_fields:
            return row, position, line, STRAY_QUOTE if n == STRAY else RAGGED, n
        for k in range(picks.size):
            pick = picks[k]
            first, last, kind = fields[pick, 0], fields[pick, 1], fields[pick, 2]
            if kind == ESCAPED:  # write " for every "", in place
                at, end, last = first, last, first
                while at < end:
                    text[last] = text[at]
                    at += 2 if text[at] == QUOTE else 1
                    last += 1
            if k < 2 and kind == PLAIN and first == last:
                return row, position, line, MISSING, k
            spans[row, k, 0], spans[row, k, 1] = first, last
        lines[row] = line
        row += 1
        position = after
        line += 1 + newlines
    return row, position, line, DONE, 0


@jit
def cut_record(
    text: Bytes, position: int, line: int, comment: Bytes, delimiter: int, fields: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Return position and line of the next record, and what ``split_record`` does."""
    position, line = next_record(text, position, line, comment)
    n, after, newlines = split_record(text, position, delimiter, fields)
    return position, line, n, after, newlines


@jit
def next_record(text: Bytes, position: int, line: int, comment: Bytes) -> tuple[int, int]:
    """Skip blank and comment lines; return (position, line) of the next record."""
    while position < text.size:
        begin = _skip_blanks(text, position, SPACE)
        if begin >= text.size:
            break
        skipped = _at_line_end(text, begin)
        if not skipped and 0 < comment.size <= text.size - begin:
            skipped = True
            for k in range(comment.size):
                skipped = skipped and text[begin + k] == comment[k]
        if not skipped:
            break
        while begin < text.size and text[begin] != NEWLINE:
            begin += 1
        if begin >= text.size:
            break
        position = begin + 1
        line += 1
    return position, line


@jit
def split_record(text: Bytes, position: int, delimiter: int, fields: NDArray[np.int64]) -> tuple[int, int, int]:
    """Cut one record into fields.

    Writes (start, end, kind) of field k into row k of ``fields``, which may have too few rows. Returns (number of
    fields or INCOMPLETE or STRAY, position of the next record, newlines inside quoted fields).
    """
    n = newlines = 0
    other = TAB if delimiter == SPACE else delimiter
    while True:
        position = _skip_blanks(text, position, delimiter)
        if position >= text.size:
            return INCOMPLETE, position, newlines
        if delimiter == SPACE and n > 0 and _at_line_end(text, position):
            return n, position + (1 if text[position] == NEWLINE else 2), newlines
        first, last, end = position, position, position
        kind = STRAY
        if text[position] == QUOTE:
            kind, last, end, inner = _quoted_field(text, position + 1, delimiter)
            if kind == INCOMPLETE or (kind == STRAY and delimiter not in (TAB, SPACE)):
                return kind, position, newlines
            first += kind != STRAY
            newlines += inner
        if kind == STRAY:
            kind, end = PLAIN, first
            while end < text.size and text[end] != NEWLINE and text[end] != delimiter and text[end] != other:
                end += 1
            if end >= text.size:
                return INCOMPLETE, position, newlines
            last = _before_blanks(text, first, end)
        if n < len(fields):
            fields[n, 0], fields[n, 1], fields[n, 2] = first, last, kind
        n += 1
        position = end + 1
        if text[end] == NEWLINE:
            return n, position, newlines


# Inlined: as quick to compile as by themselves, and fewer files of machine code to load.
@jit(inline="always")
def _skip_blanks(text: Bytes, position: int, delimiter: int) -> int:
    while position < text.size and (text[position] == SPACE or (text[position] == TAB and delimiter != TAB)):
        position += 1
    return position


@jit(inline="always")
def _before_blanks(text: Bytes, first: int, end: int) -> int:
    """Return the end of a field without the blanks, or the RETURN of a line end, in front of ``end``."""
    if text[end] == NEWLINE and end > first and text[end - 1] == RETURN:
        end -= 1
    while end > first and (text[end - 1] == SPACE or text[end - 1] == TAB):
        end -= 1
    return end


@jit(inline="always")
def _at_line_end(text: Bytes, position: int) -> bool:
    if text[position] == RETURN and position + 1 < text.size:
        position += 1
    return bool(text[position] == NEWLINE)


@jit
def _quoted_field(text: Bytes, position: int, delimiter: int) -> tuple[int, int, int, int]:
    """Return (kind, end of the field, position of what ends it, newlines inside), from behind the quote on."""
    kind, newlines = QUOTED, 0
    while position < text.size:
        if text[position] == NEWLINE:
            if delimiter in (TAB, SPACE):
                return STRAY, position, position, 0
            newlines += 1
        elif text[position] == QUOTE:
            if position + 1 >= text.size or text[position + 1] != QUOTE:
                break
            kind = ESCAPED
            position += 1
        position += 1
    end = position + 1
    if delimiter != SPACE:
        end = _skip_blanks(text, end, delimiter)
    if end < text.size and text[end] == RETURN:
        end += 1
        if end < text.size and text[end] != NEWLINE:
            kind = STRAY
    if end >= text.size:
        kind = INCOMPLETE
    elif text[end] != delimiter and text[end] != NEWLINE and not (text[end] == TAB and delimiter == SPACE):
        kind = STRAY
    return kind, position, end, newlines


@jit
def parse_integers(text: Bytes, spans: NDArray[np.int32], keys: NDArray[np.int64]) -> bool:
    """Read the two ids of each row as integers into ``keys``, shape (rows, 2).

    False at the first that is not written exactly as Python writes an integer of 64 bits: no plus sign, no leading
    zeros, no minus zero.
    """
    for row in range(len(keys)):
        for k in range(2):
            first, last = spans[row, k, 0], spans[row, k, 1]
            negative = last - first > 1 and text[first] == 45
            if negative:
                first += 1
            n_digits = last - first
            if n_digits < 1 or n_digits > 19 or (text[first] == 48 and (n_digits > 1 or negative)):
                return False
            value = np.int64(0)
            for position in range(first, last):
                digit = np.int64(text[position]) - 48
                if digit < 0 or digit > 9:
                    return False
                value = value * 10 + digit
            # 19 digits leave the int64 at most once around, and then below zero.
            if negative:
                value = -value
                if value > 0:
                    return False
            elif value < 0:
                return False
            keys[row, k] = value
    return True


@jit
def parse_numbers(text: Bytes, spans: NDArray[np.int32], values: NDArray[np.float64]) -> None:
    """Read decimal numbers, rounded as Python does; NaN where the text needs a closer look.

    Exact when digits and power of ten are both exact in float64 (Clinger 1990), which most numbers in files are.
    """
    for row in range(len(values)):
        position, last = spans[row]
        values[row] = np.nan
        negative = position < last and text[position] == 45
        position += negative
        digits, scale, n_digits, point = np.int64(0), 0, 0, False
        while position < last and digits < 900_000_000_000_000:
            byte = np.int64(text[position])
            if 48 <= byte <= 57:
                digits = digits * 10 + (byte - 48)
                n_digits += 1
                scale += point
            elif byte == 46 and not point:
                point = True
            else:
                break
            position += 1
        if position == last and n_digits > 0 and scale <= 22:
            value = digits / _POWERS[scale]
            values[row] = -value if negative else value
