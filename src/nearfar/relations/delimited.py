"""Edges from delimited text: CSV, TSV and their kin, plain or compressed, from a file or a stream, in chunks.

The first lines tell the layout: the delimiter, whether there is a header, and which columns are source, target and
weight. The text is then read in chunks, which compiled loops cut into fields. An incomplete record at the end of a
chunk is read with the next one, so the size of the chunks does not change the result.

What a record and a field are: :mod:`nearfar.relations.records`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import IO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.progress import ProgressLine
from nearfar._core.streams import ByteStream
from nearfar._core.types import Bytes
from nearfar.errors import DataError, InputError
from nearfar.relations.columns import Table
from nearfar.relations.records import (
    DONE,
    ESCAPED,
    MISSING,
    SPACE,
    STRAY_QUOTE,
    Layout,
    cut_record,
    parse_numbers,
    scan_records,
)

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


def read_records(
    owner: str,
    source: str | PathLike[str] | IO[str] | IO[bytes],
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
