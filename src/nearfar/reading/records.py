"""Compiled loops that cut text into records and fields, and read the numbers in these.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.types import Bytes

NEWLINE, RETURN, SPACE, TAB, QUOTE = 10, 13, 32, 9, 34
# What a field is, or why there is none; the negative ones also stand in place of a number of fields.
PLAIN, QUOTED, ESCAPED = 0, 1, 2
INCOMPLETE, STRAY = -1, -2
# How a scan ended.
DONE, RAGGED, STRAY_QUOTE, MISSING = 0, 1, 2, 3


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
    header : ndarray of uint8
        The line that names the columns in lower case, without its end: where it comes again, in any case of letters,
        it is no edge. Empty if there is none.
    position, line : int
        Where the first edge may begin: byte of the sample, line counted from 1.
    n_ids : int
        How many of the picks, from the first, must not be empty.
    """

    delimiter: int
    n_fields: int
    picks: NDArray[np.int64]
    comment: Bytes
    header: Bytes
    position: int
    line: int
    n_ids: int = 2


# What was skipped, as counted by a scan: how many lines, and which was the first.
HEADERS, FIRST_HEADER, ALIKE, FIRST_ALIKE = range(4)
_POWERS = 10.0 ** np.arange(23)  # all exact in float64


@jit
def scan_records(
    text: Bytes,
    position: int,
    line: int,
    layout: Layout,
    spans: NDArray[np.int32],
    lines: NDArray[np.int64],
    skipped: NDArray[np.int64],
) -> tuple[int, int, int, int, int]:
    """Cut records, and write where their picked fields lie.

    ``spans[row, k]`` receives (start, end) of the field ``layout.picks[k]``, ``lines[row]`` the line of the record. The
    first picks may be ids: an unquoted one must not be empty. ``skipped`` counts the lines that are the header again,
    and the comments that have as many fields as records. Stops when ``lines`` is full, at an incomplete record or at an
    error. Returns (rows, position, line, how it ended, number of fields found or pick that is missing).
    """
    picks, fields, row = layout.picks, np.empty((layout.n_fields, 3), np.int64), 0
    comment = layout.comment[0] if layout.comment.size else NEWLINE
    header = layout.header[0] if layout.header.size else NEWLINE  # in lower case
    upper = header - 32 if 97 <= header <= 122 else header
    while row < lines.size:
        begin = _skip_blanks(text, position, SPACE)
        if begin >= text.size:
            break
        byte = text[begin]
        if byte in (NEWLINE, RETURN, comment, header, upper):  # may be no record
            after = _behind_no_record(text, position, line, layout, fields, skipped)
            if after == INCOMPLETE:
                break
            if after > position:
                position = after
                line += 1
                continue
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
            if k < layout.n_ids and kind == PLAIN and first == last:
                return row, position, line, MISSING, k
            spans[row, k, 0], spans[row, k, 1] = first, last
        lines[row] = line
        row += 1
        position = after
        line += 1 + newlines
    return row, position, line, DONE, 0


@jit
def _behind_no_record(
    text: Bytes, position: int, line: int, layout: Layout, fields: NDArray[np.int64], skipped: NDArray[np.int64]
) -> int:
    """Return what is behind a line that is blank, a comment or the header again; the position itself if it is neither.

    Counts those that may be edges.
    """
    blank = _at_line_end(text, _skip_blanks(text, position, SPACE))
    commented = _begins_with(text, position, layout.comment)
    if not (blank or commented or _is_header(text, position, layout.header)):
        return position
    end = position
    while end < text.size and text[end] != NEWLINE:
        end += 1
    if end >= text.size:
        return INCOMPLETE
    if blank:
        return end + 1
    if commented:
        which, mark = ALIKE, _skip_blanks(text, position, SPACE) + layout.comment.size
        alike = mark < end and text[mark] != SPACE and text[mark] != TAB
        if alike:
            alike = split_record(text[: end + 1], position, layout.delimiter, fields)[0] == layout.n_fields
    else:
        which, alike = HEADERS, _before_blanks(text, position, end) == position + layout.header.size
        if not alike:
            return position
    if alike:
        skipped[which + 1] = skipped[which + 1] if skipped[which] else line
        skipped[which] += 1
    return end + 1


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
    while True:
        position, blank = _line_with_text(text, position)
        line += blank
        end = position
        if not _begins_with(text, position, comment):
            return position, line
        while end < text.size and text[end] != NEWLINE:
            end += 1
        if end >= text.size:
            return position, line
        position = end + 1
        line += 1


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


@jit
def _is_header(text: Bytes, position: int, header: Bytes) -> bool:
    """Whether the line at a position begins with the header, in any case of ASCII letters."""
    position = _skip_blanks(text, position, SPACE)
    found = 0 < header.size <= text.size - position
    for k in range(header.size if found else 0):
        byte = text[position + k]
        found = found and (byte + 32 if 65 <= byte <= 90 else byte) == header[k]
    return found


# Inlined: as quick to compile as by themselves, and fewer files of machine code to load.
@jit(inline="always")
def _line_with_text(text: Bytes, position: int) -> tuple[int, int]:
    """Return where the first line with something in it has that, and how many lines were blank."""
    lines = 0
    while position < text.size:
        begin = _skip_blanks(text, position, SPACE)
        if begin >= text.size or not _at_line_end(text, begin):
            break
        while begin < text.size and text[begin] != NEWLINE:
            begin += 1
        if begin >= text.size:
            break
        position = begin + 1
        lines += 1
    return position, lines


@jit(inline="always")
def _begins_with(text: Bytes, position: int, mark: Bytes) -> bool:
    """Whether the line at a position has a mark as the first of what is in it; never an empty one."""
    position = _skip_blanks(text, position, SPACE)
    found = 0 < mark.size <= text.size - position
    for k in range(mark.size):
        found = found and text[position + k] == mark[k]
    return found


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
