"""Edges from delimited text: CSV, TSV and their kin, plain or compressed, from a file or a stream, in chunks.

A chunk is cut into fields, its ids become codes, its weights numbers, all in compiled loops; then it is forgotten. A
record that a chunk does not hold to its end goes into the next one, so the size of the chunks changes nothing.
"""

from __future__ import annotations

import codecs
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._progress import ProgressLine
from nearfar.errors import DataError
from nearfar.relations._collect import EdgeCollector
from nearfar.relations._columns import Roles
from nearfar.relations._layout import N_SAMPLE, Layout, TextFormat, find_layout
from nearfar.relations._text_kernels import (
    DONE,
    MISSING,
    STRAY_QUOTE,
    as_bytes,
    parse_numbers,
    scan_records,
)
from nearfar.storage._streams import ByteStream

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
