"""Text cut into records and fields, and the integers in these, by NumPy: nothing is compiled.

Text is bytes of UTF-8. A record is a line, or several where a quoted field holds line ends. The delimiter is one byte;
a space stands for any run of spaces and tabs. Blanks around an unquoted field do not belong to it. A field that begins
with ``"`` ends at the next ``"`` that is not doubled:

* With commas or semicolons the rules are those of RFC 4180: the closing quote must be followed by a delimiter or a line
  end, and a quoted field may contain line ends.
* With tabs or blanks a bare ``"`` is often just a character: a field whose quote is not closed within its line is read
  as plain text.

Lines without a quote that are all alike are cut at once, others one after the other; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Bytes, Doubles, Flags, Longs

SAMPLE_LINES = 200  # from which it is found out how a text is laid out
NEWLINE, TAB = 10, 9
INCOMPLETE, STRAY = -1, -2  # in place of a number of fields
PADDING = bytes(8)
"""What stands behind a text, whose fields are looked at eight bytes at a time."""
_MASKS = np.array([2 ** (8 * k) - 1 for k in range(9)], np.uint64)  # of the first k bytes of eight
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_UNCLOSED = re.compile(rb'"(?:[^"]|"")*"?[ \t]*\r?')  # a quoted field of which the end may still come
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
        How many of the picks, from the first, are ids: a record where one is empty is left out.
    """

    delimiter: str
    n_fields: int
    picks: list[int]
    comment: bytes
    header: bytes
    position: int
    line: int
    n_ids: int = 2


class Skipped(NamedTuple):
    """The lines that are the header again, those of comments that are like records, and those without an id."""

    headers: list[int]
    alike: list[int]
    missing: list[int]


class Fields(NamedTuple):
    """Fields of a text: ``n`` in each record, each ended by a zero byte; ``picks`` are those that were asked for.

    ``stops`` are the places of the zero bytes.
    """

    data: bytes
    stops: Longs
    n: int
    picks: Sequence[int]

    def columns(self) -> list[list[str]]:
        """Return the fields that were asked for, a list for each column."""
        every = self.data.decode().split("\0")
        return [every[pick : -1 : self.n] for pick in self.picks]

    def spans(self, first: int, last: int) -> tuple[Bytes, Longs, Longs]:
        """Return the text, padded, and where fields of some of the columns begin and end, shape (records, columns)."""
        picks, starts = [*self.picks[first:last]], np.concatenate([[0], self.stops[:-1] + 1])
        sides = (side.reshape(-1, self.n) for side in (starts, self.stops))
        if picks != [*range(self.n)]:
            sides = (side.take(picks, axis=1) for side in sides)
        return np.frombuffer(self.data + PADDING, np.uint8), *sides  # type: ignore[return-value]

    def integers(self) -> Longs | None:
        """Return the first two columns that were asked for as integers, shape (records, 2).

        None if a field is not written exactly as Python writes an integer of 64 bits: no plus sign, no leading zeros,
        no minus zero.
        """
        text, starts, stops = self.spans(0, 2)
        negative = (text[starts] == 45) & (stops - starts > 1)
        starts = starts + negative
        lengths = stops - starts
        zeros = (text[starts] == 48) & ((lengths > 1) | negative)
        if lengths.min() < 1 or lengths.max() > 19 or zeros.any():
            return None
        values, good = _digits(text, starts, lengths)
        values = np.where(negative, -values, values)
        over = (values > 0) & negative | (values < 0) & ~negative  # 19 digits run over once at most
        return None if over.any() or not good.all() else values

    def numbers(self, column: int) -> Doubles:
        """Return a column of decimal numbers, rounded as Python does; NaN where the text needs a closer look.

        Exact when digits and power of ten are both exact in float64 (Clinger 1990), which most numbers in files are.
        """
        text, starts, stops = self.spans(column, column + 1)
        starts, stops = starts[:, 0], stops[:, 0]
        negative = (text[starts] == 45) & (stops > starts)
        starts = starts + negative
        points = np.flatnonzero(text == 46)
        at = np.append(points, len(text))[np.searchsorted(points, starts)]
        middle, behind = np.minimum(at, stops), np.maximum(stops - at - 1, 0)
        n = middle - starts + behind
        good = (n > 0) & (n <= 15)
        before, fits = _digits(text, starts, np.where(good, middle - starts, 0))
        after, fit = _digits(text, np.minimum(middle + 1, len(text) - len(PADDING)), np.where(good, behind, 0))
        power = 10 ** np.where(good, behind, 0)
        values = (before * power + after) / power
        return np.where(good & fits & fit, np.where(negative, -values, values), np.nan)


def _digits(text: Bytes, starts: Longs, lengths: Longs) -> tuple[Longs, Flags]:
    """Return up to 19 digits of each field as an integer, 0 for none, and whether it has nothing else."""
    values, good = np.zeros(starts.shape, np.int64), np.ones(starts.shape, np.bool_)
    for k in range(0, int(lengths.max(initial=0)), _DIGITS):
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


Fault = Literal["", "ragged", "stray quote"]


class Cut(NamedTuple):
    """Records of a text.

    Attributes
    ----------
    fields : Fields
    lines : sequence of int
        The line of each record.
    position, line : int
        Of the record that is behind them: an incomplete one, or one with a fault.
    fault : {"", "ragged", "stray quote"}
        What is wrong with that one, if anything is.
    found : int
        Its number of fields.
    """

    fields: Fields
    lines: Sequence[int]
    position: int
    line: int
    fault: Fault = ""
    found: int = 0


class Record(NamedTuple):
    """The fields of a record, where it begins, and where the next one does."""

    fields: list[str]
    at: int
    line: int
    after: int
    line_after: int


def cut_records(data: bytes, position: int, line: int, layout: Layout, skipped: Skipped) -> Cut:
    """Cut all complete records of a text from a position on, up to the first fault."""
    end = data.rfind(b"\n") + 1
    text = data[position:end]
    at_once = None if b'"' in text else _cut_at_once(text, line, layout, skipped)
    if at_once is None:
        return _cut_one_by_one(data, position, line, layout, skipped)
    return Cut(*at_once, max(position, end), line + text.count(b"\n"))


def _cut_at_once(text: bytes, line: int, layout: Layout, skipped: Skipped) -> tuple[Fields, Sequence[int]] | None:
    """Cut whole lines, and say which they are; None if a line has other fields than the rest, or an id is empty."""
    mark, again = layout.delimiter.encode(), Skipped([], [], [])
    text = b"\n" + text.replace(b"\r\n", b"\n")
    lines: Sequence[int] = range(line, line + text.count(b"\n") - 1)
    passed_over = b"|".join([rb"[\n \t]", *map(re.escape, filter(None, (layout.comment, layout.header)))])
    if re.search(rb"(?i)\n(?:%b)" % passed_over, text):
        every = ((k, whole + b"\n") for k, whole in enumerate(text.split(b"\n")[1:-1], line))
        found = [(k, whole) for k, whole in every if whole.strip(b" \t\n") and not _skips(whole, k, layout, again)]
        lines, text = [k for k, _ in found], b"\n" + b"".join(whole for _, whole in found)
    blanks = b" " if mark == b"\t" else b" \t"
    if mark == b" ":
        if b"\t" in text or b"  " in text or b" \n" in text or b"\n " in text:
            text = re.sub(rb"[ \t]+", b" ", text).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    elif any(blank in text for blank in (b" ", b"\t") if blank in blanks):
        marks = re.escape(mark) + rb"\n"
        text = re.sub(rb"[%b]+(?=[%b])|(?<=[%b])[%b]+" % (blanks, marks, marks, blanks), b"", text)
    text = text[1:]
    data, n = text.translate(bytes.maketrans(mark + b"\n", bytes(2))), layout.n_fields
    stops = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
    ends = stops[n - 1 :: n]
    if len(stops) != len(lines) * n or (np.frombuffer(text, np.uint8)[ends] != NEWLINE).any():
        return None
    if layout.n_ids and (np.diff(stops, prepend=-1).reshape(-1, n)[:, layout.picks[: layout.n_ids]] == 1).any():
        return None
    skipped.headers.extend(again.headers)
    skipped.alike.extend(again.alike)
    return Fields(data, stops, n, layout.picks), lines


def _skips(whole: bytes, line: int, layout: Layout, skipped: Skipped) -> bool:
    """Whether a line is a comment or the header again; keeps those that may be edges."""
    bare = whole.strip(b" \t\r\n")
    if layout.comment and bare.startswith(layout.comment):
        is_word = whole.lstrip(b" \t")[len(layout.comment) :][:1] not in (b"\n", b" ", b"\t", b"")
        if is_word and split_record(whole, 0, layout.delimiter)[0] == layout.n_fields:
            skipped.alike.append(line)
        return True
    if layout.header and whole.lstrip(b" \t").rstrip(b"\r\n").rstrip(b" \t").lower() == layout.header:
        skipped.headers.append(line)
        return True
    return False


def _cut_one_by_one(data: bytes, position: int, line: int, layout: Layout, skipped: Skipped) -> Cut:
    parts, lines, found = list[bytes](), list[int](), 0
    fault: Fault = ""
    while (end := data.find(b"\n", position)) >= 0:
        whole = data[position : end + 1]
        if not whole.strip(b" \t").rstrip(b"\n").removesuffix(b"\r") or _skips(whole, line, layout, skipped):
            position, line = end + 1, line + 1
            continue
        n, after, newlines, fields, quoted = split_record(data, position, layout.delimiter)
        if n == INCOMPLETE:
            break
        if n != layout.n_fields:
            fault, found = "stray quote" if n == STRAY else "ragged", n
            break
        if all(fields[pick] or quoted[pick] for pick in layout.picks[: layout.n_ids]):
            parts += [fields[pick] for pick in layout.picks]
            lines.append(line)
        else:
            skipped.missing.append(line)
        position, line = after, line + 1 + newlines
    data, n = b"\0".join([*parts, b""]), len(layout.picks)
    stops = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
    return Cut(Fields(data, stops, n, range(n)), lines, position, line, fault, found)


def records_of(data: bytes, delimiter: str, comment: str = "") -> list[Record]:
    """Return the first records of a text, without blank lines and comments, up to one that is incomplete."""
    position, line, mark, found = 0, 1, comment.encode(), list[Record]()
    while len(found) < SAMPLE_LINES and (end := data.find(b"\n", position)) >= 0:
        bare = data[position:end].strip(b" \t").removesuffix(b"\r")
        if not bare or (mark and bare.startswith(mark)):
            position, line = end + 1, line + 1
            continue
        n, after, newlines, fields, _ = split_record(data, position, delimiter)
        if n < 0:
            break
        found.append(Record([field.decode() for field in fields], position, line, after, line + 1 + newlines))
        position, line = after, line + 1 + newlines
    return found


def split_record(data: bytes, position: int, delimiter: str) -> tuple[int, int, int, list[bytes], list[bool]]:
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
                unclosed = _UNCLOSED.match(data, begins)
                ended = unclosed is not None and unclosed.end() == len(data)
                return (INCOMPLETE if ended else STRAY), position, newlines, fields, quoted
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


# -- numbers in fields -------------------------------------------------------------------------------------------------


def words_of(text: Bytes, starts: Longs, lengths: Longs, k: int = 0) -> NDArray[np.uint64]:
    """Return bytes 8 k to 8 k + 8 of fields as a number each, zeros behind their ends; the text is padded."""
    eights = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))  # of which each begins at another byte
    at = np.minimum(starts + 8 * k, len(eights) - 1)
    return eights[at] & _MASKS[np.clip(lengths - 8 * k, 0, 8)]


def is_integer(field: str) -> bool:
    """Whether a text is an integer of 64 bits as Python writes it."""
    return _INTEGER.fullmatch(field) is not None and -(2**63) <= int(field) < 2**63
