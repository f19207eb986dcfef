"""Text cut into records and fields, and the numbers in these, by NumPy: nothing is compiled.

Text is bytes of UTF-8. A record is a line, or several where a quoted field holds line ends. The delimiter is one byte;
a space stands for any run of spaces and tabs. Blanks around an unquoted field do not belong to it. A field that begins
with ``"`` ends at the next ``"`` that is not doubled:

* With commas or semicolons the rules are those of RFC 4180: the closing quote must be followed by a delimiter or a line
  end, and a quoted field may contain line ends.
* With tabs or blanks a bare ``"`` is often just a character: a field whose quote is not closed within its line is read
  as plain text.

Where there is no quote all lines are cut at once, else one after the other; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Bytes, Flags, Longs

NEWLINE, RETURN, TAB = 10, 13, 9
INCOMPLETE, STRAY = -1, -2  # in place of a number of fields
DONE, RAGGED, STRAY_QUOTE, MISSING = 0, 1, 2, 3  # how a cut ended
HEADERS, FIRST_HEADER, ALIKE, FIRST_ALIKE = range(4)
"""What was skipped: how many lines that are the header again, or comments like records, and which was the first."""
PADDING = bytes(8)
"""What stands behind a text, whose fields are looked at eight bytes at a time."""
_BLANK = np.isin(np.arange(256), (32, TAB))
_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)
_MASKS = np.array([2 ** (8 * k) - 1 for k in range(9)], np.uint64)  # of the first k bytes of eight
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_DIGITS = 8  # that are read at once
_TENS = 10 ** np.arange(_DIGITS + 1)
_SHIFTS = 8 * np.arange(_DIGITS, -1, -1, dtype=np.uint64)  # of 64 bits nothing is left


class Layout(NamedTuple):
    """How a text is laid out.

    Attributes
    ----------
    delimiter : str
        The character between fields; a space for any run of blanks.
    n_fields : int
        How many fields every line has.
    picks : list of int
        Positions of source, target and, if there is one, weight.
    comment : bytes
        What a comment line begins with; empty if there are none.
    header : bytes
        The line that names the columns in lower case, without its end: where it comes again, in any case of letters,
        it is no edge. Empty if there is none.
    position, line : int
        Where the first edge may begin: byte of the sample, line counted from 1.
    n_ids : int
        How many of the picks, from the first, must not be empty.
    """

    delimiter: str
    n_fields: int
    picks: list[int]
    comment: bytes
    header: bytes
    position: int
    line: int
    n_ids: int = 2


class Cut(NamedTuple):
    """Records of a text.

    Attributes
    ----------
    text : ndarray of uint8
    spans : ndarray of shape (n, number of picks, 2), int32
        Where the picked fields begin and end.
    lines : ndarray of shape (n,)
        The line of each record.
    position, line : int
        Of the record that is behind them: an incomplete one, or one with a fault.
    status, found : int
        How it ended; the number of fields, or the pick that is missing.
    """

    text: Bytes
    spans: NDArray[np.int32]
    lines: Longs
    position: int
    line: int
    status: int = DONE
    found: int = 0


class Record(NamedTuple):
    """The fields of a record, where it begins, and where the next one does."""

    fields: list[str]
    at: int
    line: int
    after: int
    line_after: int


def cut_records(data: bytes, position: int, line: int, layout: Layout, skipped: Longs) -> Cut:
    """Cut all complete records of a text from a position on, up to the first fault."""
    end = data.rfind(b"\n") + 1
    if b'"' in data[position:end]:
        return _cut_one_by_one(data, position, line, layout, skipped)
    return _cut_at_once(data, position, max(position, end), line, layout, skipped)


def _cut_at_once(data: bytes, position: int, end: int, line: int, layout: Layout, skipped: Longs) -> Cut:
    text: Bytes = np.frombuffer(data + PADDING, np.uint8)
    body = text[:end]
    newlines = np.flatnonzero(body[position:] == NEWLINE) + position
    begins = np.concatenate([[position], newlines[:-1] + 1])[: len(newlines)]
    kept = _are_records(text, begins, newlines, line, layout, skipped)
    if layout.delimiter == " ":
        apart = _BLANK[body]
        apart[newlines] = True
        returns = newlines[(newlines > begins) & (text[newlines - 1] == RETURN)] - 1
        apart[returns] = True
        apart[:position] = True
        edges = np.flatnonzero(apart[1:] != apart[:-1]) + 1
        edges = edges if not len(apart) or apart[0] else np.concatenate([[0], edges])
        starts, stops = edges[::2], edges[1::2]
    else:
        stops = np.flatnonzero((body[position:] == ord(layout.delimiter)) | (body[position:] == NEWLINE)) + position
        starts = np.concatenate([[position], stops[:-1] + 1])[: len(stops)]
    lines, begins, newlines = np.flatnonzero(kept) + line, begins[kept], newlines[kept]
    if not kept.all():
        record = np.searchsorted(newlines, starts)
        inside = record < len(newlines)
        inside[inside] = starts[inside] >= begins[record[inside]]
        starts, stops = starts[inside], stops[inside]
    n, n_fields, status, found = len(newlines), layout.n_fields, DONE, 0
    if len(stops) != n * n_fields or (n and (stops[n_fields - 1 :: n_fields] > newlines).any()) or (
        n and (starts[::n_fields] < begins).any()
    ):  # fmt: skip
        counts = np.diff(np.searchsorted(starts, np.append(begins, end)))
        n = int(np.argmax(counts != n_fields))
        status, found = RAGGED, int(counts[n])
    spans = np.empty((n, len(layout.picks), 2), np.int64)
    for k, pick in enumerate(layout.picks):
        first, last = starts[: n * n_fields][pick::n_fields], stops[: n * n_fields][pick::n_fields]
        spans[:, k, 0], spans[:, k, 1] = first, last
        if layout.delimiter != " ":
            _strip(text, spans[:, k], newlines[:n] if pick == n_fields - 1 else None)
    empty = spans[:, : layout.n_ids, 0] == spans[:, : layout.n_ids, 1]
    if empty.any():
        n = int(np.argmax(empty.any(axis=1)))
        status, found = MISSING, int(np.argmax(empty[n]))
    at, at_line = (end, line + len(kept)) if status == DONE else (int(begins[n]), int(lines[n]))
    return Cut(text, spans[:n].astype(np.int32), lines[:n], at, at_line, status, found)


def _are_records(text: Bytes, begins: Longs, newlines: Longs, line: int, layout: Layout, skipped: Longs) -> Flags:
    """Return which lines are records: not blank, no comment, not the header again; counts those that may be edges."""
    at, left = begins.copy(), np.arange(len(begins))
    while (left := left[_BLANK[text[at[left]]]]).size:
        at[left] += 1
    kept: Flags = text[at] != NEWLINE
    kept &= (text[at] != RETURN) | (at + 1 != newlines)
    for mark in filter(None, (layout.comment, layout.header)):
        left = np.flatnonzero(kept)
        for k, byte in enumerate(mark):
            here = text[np.minimum(at[left] + k, len(text) - 1)]
            left = left[(here if mark is layout.comment else _LOWER[here]) == byte]
            if not left.size:
                break
        for k in left.tolist():
            whole = text[begins[k] : newlines[k] + 1].tobytes()
            kept[k] = not _skips(whole, int(line + k), layout, skipped)
    return kept


def _skips(whole: bytes, line: int, layout: Layout, skipped: Longs) -> bool:
    """Whether a line is a comment or the header again; counts those that may be edges."""
    bare = whole.strip(b" \t\r\n")
    if layout.comment and bare.startswith(layout.comment):
        rest = whole.lstrip(b" \t")[len(layout.comment) :]
        alike = rest[:1] not in (b"\n", b" ", b"\t", b"")
        which, alike = ALIKE, alike and split_record(whole, 0, layout.delimiter)[0] == layout.n_fields
    elif layout.header and whole.lstrip(b" \t").rstrip(b"\r\n").rstrip(b" \t").lower() == layout.header:
        which, alike = HEADERS, True
    else:
        return False
    if alike:
        skipped[which + 1] = skipped[which + 1] if skipped[which] else line
        skipped[which] += 1
    return True


def _strip(text: Bytes, spans: Longs, newlines: Longs | None) -> None:
    """Take the blanks around fields out of their spans, in place; with the line ends of fields that are the last."""
    if newlines is not None:
        spans[:, 1] -= (spans[:, 1] > spans[:, 0]) & (text[spans[:, 1] - 1] == RETURN)
    for side, step in ((0, 1), (1, -1)):
        left = np.arange(len(spans))
        while left.size:
            here = spans[left, side] - side
            left = left[_BLANK[text[here]] & (spans[left, 0] < spans[left, 1])]
            spans[left, side] += step


def _cut_one_by_one(data: bytes, position: int, line: int, layout: Layout, skipped: Longs) -> Cut:
    parts: list[bytes] = []
    lines: list[int] = []
    status, found = DONE, 0
    while position < len(data):
        end = data.find(b"\n", position)
        if end < 0:
            break
        whole = data[position : end + 1]
        if not whole.strip(b" \t").rstrip(b"\n").removesuffix(b"\r") or _skips(whole, line, layout, skipped):
            position, line = end + 1, line + 1
            continue
        n, after, newlines, fields, quoted = split_record(data, position, layout.delimiter)
        if n == INCOMPLETE:
            break
        if n != layout.n_fields:
            status, found = STRAY_QUOTE if n == STRAY else RAGGED, n
            break
        missing = next((k for k, p in enumerate(layout.picks[: layout.n_ids]) if not (fields[p] or quoted[p])), None)
        if missing is not None:
            status, found = MISSING, missing
            break
        parts += [fields[pick] for pick in layout.picks]
        lines.append(line)
        position, line = after, line + 1 + newlines
    ends = np.cumsum([0, *map(len, parts)])
    spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, len(layout.picks), 2).astype(np.int32)
    text = np.frombuffer(b"".join(parts) + PADDING, np.uint8)
    return Cut(text, spans, np.array(lines, np.int64), position, line, status, found)


def records_of(data: bytes, delimiter: str, comment: bytes) -> Iterator[Record]:
    """Yield the records of a text, one after the other, without blank lines and comments, up to what is incomplete."""
    position, line = 0, 1
    while (end := data.find(b"\n", position)) >= 0:
        bare = data[position:end].strip(b" \t").removesuffix(b"\r")
        if not bare or (comment and bare.startswith(comment)):
            position, line = end + 1, line + 1
            continue
        n, after, newlines, fields, _ = split_record(data, position, delimiter)
        if n < 0:
            return
        yield Record([field.decode() for field in fields], position, line, after, line + 1 + newlines)
        position, line = after, line + 1 + newlines


Split = tuple[int, int, int, list[bytes], list[bool]]


def split_record(data: bytes, position: int, delimiter: str) -> Split:
    """Cut one record into fields.

    Returns (number of fields or INCOMPLETE or STRAY, position of the next record, newlines inside quoted fields, the
    fields, which of them are quoted).
    """
    end = data.find(b"\n", position)
    if end >= 0 and data.find(b'"', position, end) < 0:
        whole, mark = data[position:end].removesuffix(b"\r"), delimiter.encode()
        if delimiter == " ":
            fields = [field for field in whole.replace(b"\t", b" ").split(b" ") if field]
        else:
            fields = [field.strip(b" \t") for field in whole.split(mark)]
        return len(fields), end + 1, 0, fields, [False] * len(fields)
    quoted_field, plain_field = _fields_of(delimiter)
    fields, newlines, strict = [], 0, delimiter not in "\t "
    quoted: list[bool] = []
    if delimiter == " ":
        position = _skip(data, position)
    while True:
        match = quoted_field.match(data, position)
        is_quoted = match is not None
        if match is None:
            begins = _skip(data, position, only_spaces=delimiter == "\t")
            if strict and data.startswith(b'"', begins):
                return (INCOMPLETE if _has_no_end(data, begins) else STRAY), position, newlines, fields, quoted
            match = plain_field.match(data, position)
        if match is None:
            return INCOMPLETE, position, newlines, fields, quoted
        field = match[1].replace(b'""', b'"') if is_quoted else match[1].strip(b" \t")
        newlines += match[1].count(b"\n")
        fields.append(field)
        quoted.append(is_quoted)
        position = match.end()
        if match[2].endswith(b"\n"):
            return len(fields), position, newlines, fields, quoted


@cache
def _fields_of(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return what matches a quoted and a plain field, with what ends it as the second group."""
    mark, inside = re.escape(delimiter.encode()), rb'[^"]'
    if delimiter == " ":
        end = rb"([ \t]+(?:\r?\n)?|\r?\n)"
        return re.compile(rb'"((?:[^"\n]|"")*)"' + end), re.compile(rb"([^ \t\n]*?)" + end)
    blanks = rb"[ \t]*"
    if delimiter == "\t":
        blanks, inside = rb" *", rb'[^"\n]'
    end = rb"(" + mark + rb"|\r?\n)"
    quoted = rb"%b\"((?:%b|\"\")*)\"%b%b" % (blanks, inside, blanks, end)
    return re.compile(quoted), re.compile(rb"([^" + mark + rb"\n]*?)" + end)


def _skip(data: bytes, position: int, *, only_spaces: bool = False) -> int:
    while position < len(data) and (data[position] == 32 or (data[position] == TAB and not only_spaces)):
        position += 1
    return position


def _has_no_end(data: bytes, begins: int) -> bool:
    """Whether the closing quote of a field, or what is behind it, is not there as yet."""
    match = re.compile(rb'"(?:[^"]|"")*"?[ \t]*\r?').match(data, begins)
    return match is not None and match.end() == len(data)


# -- numbers in fields -------------------------------------------------------------------------------------------------


def words_of(text: Bytes, starts: Longs, lengths: Longs, k: int = 0) -> NDArray[np.uint64]:
    """Return bytes 8 k to 8 k + 8 of fields as a number each, zeros behind their ends; the text is padded."""
    eights = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))  # of which each begins at another byte
    at = np.minimum(starts + 8 * k, len(eights) - 1)
    return eights[at] & _MASKS[np.clip(lengths - 8 * k, 0, 8)]


def is_integer(field: str) -> bool:
    """Whether a text is an integer of 64 bits as Python writes it."""
    return _INTEGER.fullmatch(field) is not None and -(2**63) <= int(field) < 2**63


def parse_integers(text: Bytes, spans: NDArray[np.int32], keys: Longs) -> bool:
    """Read the two ids of each row as integers into ``keys``, shape (rows, 2).

    False if any is not written exactly as Python writes an integer of 64 bits: no plus sign, no leading zeros, no minus
    zero.
    """
    starts, stops = spans[..., 0].reshape(-1).astype(np.int64), spans[..., 1].reshape(-1)
    negative = (text[starts] == 45) & (stops - starts > 1)
    starts += negative
    lengths = stops - starts
    zeros = (text[starts] == 48) & ((lengths > 1) | negative)
    if not len(starts) or lengths.min() < 1 or lengths.max() > 19 or zeros.any():
        return not len(starts)
    values, good = _digits(text, starts, lengths)
    if not good.all():
        return False
    values = np.where(negative, -values, values)
    keys[:] = values.reshape(keys.shape)
    return not bool(((values > 0) & negative | (values < 0) & ~negative).any())  # 19 digits run over once at most


def _digits(text: Bytes, starts: Longs, lengths: Longs) -> tuple[Longs, Flags]:
    """Return up to 19 digits of each field as an integer, 0 for none, and whether it has nothing else."""
    values, good = np.zeros(len(starts), np.int64), np.ones(len(starts), np.bool_)
    for k in range(0, max(1, int(lengths.max(initial=0))), _DIGITS):
        n = np.clip(lengths - k, 0, _DIGITS)
        # The digits of a word end where it does, behind zeros; then pairs, fours and eights are added up.
        words = words_of(text, starts + k, n) << _SHIFTS[n]
        tens = words ^ (np.uint64(0x3030303030303030) & ~_MASKS[_DIGITS - n])
        good &= ((tens + np.uint64(0x7676767676767676)) | tens) & np.uint64(0x8080808080808080) == 0
        tens = (tens * np.uint64(2561)) >> np.uint64(8)
        tens = ((tens & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
        tens = ((tens & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
        values = values * _TENS[n] + tens.astype(np.int64) if k else tens.astype(np.int64)
    return values, good


def parse_numbers(text: Bytes, spans: NDArray[np.int32], values: NDArray[np.float64]) -> None:
    """Read decimal numbers, rounded as Python does; NaN where the text needs a closer look.

    Exact when digits and power of ten are both exact in float64 (Clinger 1990), which most numbers in files are.
    """
    starts, stops = spans[:, 0].astype(np.int64), spans[:, 1].astype(np.int64)
    negative = (text[starts] == 45) & (stops > starts)
    starts += negative
    points = np.flatnonzero(text == 46)
    at = np.append(points, len(text))[np.searchsorted(points, starts)]
    has_point = at < stops
    middle = np.where(has_point, at, stops)
    behind = np.where(has_point, stops - at - 1, 0)
    n = middle - starts + behind
    good = (n > 0) & (n <= 15)
    before, fits = _digits(text, starts, np.where(good, middle - starts, 0))
    after, fit = _digits(text, np.minimum(middle + 1, len(text) - len(PADDING)), np.where(good, behind, 0))
    power = 10 ** np.where(good, behind, 0)
    values[:] = (before * power + after) / power
    np.negative(values, out=values, where=negative)
    values[~(good & fits & fit)] = np.nan
