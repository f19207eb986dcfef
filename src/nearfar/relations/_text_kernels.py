"""Compiled kernels that cut delimited text into fields, and read numbers from them.

Text is a uint8 array of UTF-8. A record is a line, or several where a quoted field holds line ends. The delimiter is
one byte; a space stands for any run of spaces and tabs. Blanks around an unquoted field do not belong to it. A field
that begins with ``"`` ends at the next ``"`` which is not doubled:

* between commas or semicolons this is RFC 4180: anything else than a delimiter or a line end behind it is an error,
  line ends inside belong to the field;
* between tabs or blanks, where a bare ``"`` is often just a character, a field that is not closed properly within its
  line is taken as it stands.

A record that the text does not hold to its end is left for the next chunk.
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

NEWLINE, RETURN, SPACE, TAB, QUOTE = 10, 13, 32, 9, 34

# What a field is, or why there is none; the negative ones also stand in place of a number of fields.
PLAIN, QUOTED, ESCAPED = 0, 1, 2
INCOMPLETE, STRAY = -1, -2

# How a scan ended.
DONE, RAGGED, STRAY_QUOTE, MISSING = 0, 1, 2, 3

_POWERS = 10.0 ** np.arange(23)  # all exact in float64


@njit(cache=True, nogil=True)
def _skip_blanks(text: Bytes, position: int, stop: int, delimiter: int) -> int:
    while position < stop and (text[position] == SPACE or (text[position] == TAB and delimiter != TAB)):
        position += 1
    return position


@njit(cache=True, nogil=True)
def _line_ends(text: Bytes, position: int, stop: int) -> bool:
    if text[position] == NEWLINE:
        return True
    return bool(text[position] == RETURN and position + 1 < stop and text[position + 1] == NEWLINE)


@njit(cache=True, nogil=True)
def _begins_with(text: Bytes, position: int, stop: int, prefix: Bytes) -> bool:
    if prefix.size == 0 or position + prefix.size > stop:
        return False
    for k in range(prefix.size):  # noqa: SIM110 - compiled
        if text[position + k] != prefix[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _ends_field(byte: int, delimiter: int) -> bool:
    return byte in (delimiter, NEWLINE) or (byte == TAB and delimiter == SPACE)


@njit(cache=True, nogil=True)
def _plain_field(text: Bytes, first: int, stop: int, delimiter: int) -> tuple[int, int]:
    """Return (end of the field, position of the delimiter or newline behind it)."""
    end = first
    other = TAB if delimiter == SPACE else delimiter
    while end < stop and np.int64(text[end]) not in (NEWLINE, delimiter, other):
        end += 1
    last = end
    if end < stop and text[end] == NEWLINE and last > first and text[last - 1] == RETURN:
        last -= 1
    while last > first and (text[last - 1] == SPACE or text[last - 1] == TAB):
        last -= 1
    return last, end


@njit(cache=True, nogil=True)
def _behind_quote(text: Bytes, position: int, stop: int, delimiter: int) -> tuple[int, int]:
    """Return (kind, position of what ends the field), given the position behind a closing quote."""
    end = position if delimiter == SPACE else _skip_blanks(text, position, stop, delimiter)
    if end < stop and text[end] == RETURN:
        end += 1
        if end < stop and text[end] != NEWLINE:
            return STRAY, end
    if end >= stop:
        return INCOMPLETE, end
    return (QUOTED if _ends_field(text[end], delimiter) else STRAY), end


@njit(cache=True, nogil=True)
def _quoted_field(text: Bytes, position: int, stop: int, delimiter: int) -> tuple[int, int, int, int]:
    """Return (kind, end of the field, position of what ends it, newlines inside), from behind the quote on."""
    escaped = False
    newlines = 0
    while position < stop:
        byte = text[position]
        if byte == NEWLINE:
            if delimiter in (TAB, SPACE):
                return STRAY, position, position, 0
            newlines += 1
        elif byte == QUOTE:
            if position + 1 < stop and text[position + 1] == QUOTE:
                escaped = True
                position += 1
            else:
                kind, end = _behind_quote(text, position + 1, stop, delimiter)
                if kind == QUOTED and escaped:
                    kind = ESCAPED
                return kind, position, end, newlines
        position += 1
    return INCOMPLETE, position, position, newlines


@njit(cache=True, nogil=True)
def split_record(
    text: Bytes, position: int, stop: int, delimiter: int, fields: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Cut one record into fields.

    Row k of ``fields`` receives (start, end, kind) of field k, as far as there are rows. Returns (number of fields or
    INCOMPLETE or STRAY, position of the next record, newlines inside quoted fields).
    """
    n = newlines = 0
    while True:
        position = _skip_blanks(text, position, stop, delimiter)
        if position >= stop:
            return INCOMPLETE, position, newlines
        if delimiter == SPACE and n > 0 and _line_ends(text, position, stop):
            return n, position + (1 if text[position] == NEWLINE else 2), newlines
        first, last, end = position, position, position
        kind = STRAY
        if text[position] == QUOTE:
            kind, last, end, inner = _quoted_field(text, position + 1, stop, delimiter)
            if kind == INCOMPLETE or (kind == STRAY and delimiter not in (TAB, SPACE)):
                return kind, position, newlines
            first += kind != STRAY
            newlines += inner
        if kind == STRAY:
            kind = PLAIN
            last, end = _plain_field(text, first, stop, delimiter)
            if end >= stop:
                return INCOMPLETE, position, newlines
        if n < len(fields):
            fields[n, 0], fields[n, 1], fields[n, 2] = first, last, kind
        n += 1
        position = end + 1
        if text[end] == NEWLINE:
            return n, position, newlines


@njit(cache=True, nogil=True)
def next_record(text: Bytes, position: int, stop: int, line: int, comment: Bytes) -> tuple[int, int]:
    """Skip blank and comment lines; return (position, line) of the next record."""
    while position < stop:
        begin = _skip_blanks(text, position, stop, SPACE)
        if begin >= stop or not (_line_ends(text, begin, stop) or _begins_with(text, begin, stop, comment)):
            break
        end = begin
        while end < stop and text[end] != NEWLINE:
            end += 1
        if end >= stop:
            break
        position = end + 1
        line += 1
    return position, line


@njit(cache=True, nogil=True)
def _unescape(text: Bytes, first: int, last: int) -> int:
    """Write ``"`` for every ``""``, in place; return the new end."""
    to = first
    position = first
    while position < last:
        text[to] = text[position]
        position += 2 if text[position] == QUOTE else 1
        to += 1
    return to


@njit(cache=True, nogil=True)
def scan_records(
    text: Bytes,
    position: int,
    stop: int,
    line: int,
    delimiter: int,
    comment: Bytes,
    n_fields: int,
    picks: NDArray[np.int64],
    spans: NDArray[np.int32],
    lines: NDArray[np.int64],
) -> tuple[int, int, int, int, int]:
    """Cut records, and note where their picked fields lie.

    ``spans[row, k]`` receives (start, end) of field ``picks[k]``, ``lines[row]`` the line of the record. The first two
    picks are ids: an unquoted one must not be empty. Stops when ``lines`` is full, at an incomplete record or at an
    error. Returns (rows, position, line, how it ended, number of fields found or pick that is missing).
    """
    fields = np.empty((n_fields, 3), np.int64)
    row = 0
    while row < lines.size:
        position, line = next_record(text, position, stop, line, comment)
        if position >= stop:
            break
        n, after, newlines = split_record(text, position, stop, delimiter, fields)
        if n == INCOMPLETE:
            break
        if n != n_fields:
            return row, position, line, STRAY_QUOTE if n == STRAY else RAGGED, n
        for k in range(picks.size):
            pick = picks[k]
            first, last, kind = fields[pick, 0], fields[pick, 1], fields[pick, 2]
            if kind == ESCAPED:
                last = _unescape(text, first, last)
            if k < 2 and kind == PLAIN and first == last:
                return row, position, line, MISSING, k
            spans[row, k, 0], spans[row, k, 1] = first, last
        lines[row] = line
        row += 1
        position = after
        line += 1 + newlines
    return row, position, line, DONE, 0


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


def as_bytes(text: bytes | bytearray) -> Bytes:
    """View text as an array; writable if it is a bytearray, as the kernels want it."""
    array: NDArray[Any] = np.frombuffer(text, dtype=np.uint8)
    return array
