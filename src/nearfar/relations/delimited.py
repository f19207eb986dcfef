"""Which columns of a table are source, target and weight."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer
from nearfar._core.jit import jit
from nearfar._core.progress import logger
from nearfar.errors import InputError

# ------------------------------------------------------------
# Compiled kernels that cut delimited text into fields, and read numbers from them.
#
# Text is a uint8 array of UTF-8. A record is a line, or several where a quoted field holds line ends. The delimiter is
# one byte; a space stands for any run of spaces and tabs. Blanks around an unquoted field do not belong to it. A field
# that begins with ``"`` ends at the next ``"`` which is not doubled:
#
# * between commas or semicolons this is RFC 4180: anything else than a delimiter or a line end behind it is an error,
#   line ends inside belong to the field;
# * between tabs or blanks, where a bare ``"`` is often just a character, a field that is not closed properly within its
#   line is taken as it stands.
#
# A record that the text does not hold to its end is left for the next chunk.

Bytes = NDArray[np.uint8]

NEWLINE, RETURN, SPACE, TAB, QUOTE = 10, 13, 32, 9, 34

# What a field is, or why there is none; the negative ones also stand in place of a number of fields.
PLAIN, QUOTED, ESCAPED = 0, 1, 2
INCOMPLETE, STRAY = -1, -2

# How a scan ended.
DONE, RAGGED, STRAY_QUOTE, MISSING = 0, 1, 2, 3

_POWERS = 10.0 ** np.arange(23)  # all exact in float64


@jit
def _skip_blanks(text: Bytes, position: int, stop: int, delimiter: int) -> int:
    while position < stop and (text[position] == SPACE or (text[position] == TAB and delimiter != TAB)):
        position += 1
    return position


@jit
def _line_ends(text: Bytes, position: int, stop: int) -> bool:
    if text[position] == NEWLINE:
        return True
    return bool(text[position] == RETURN and position + 1 < stop and text[position + 1] == NEWLINE)


@jit
def _begins_with(text: Bytes, position: int, stop: int, prefix: Bytes) -> bool:
    if prefix.size == 0 or position + prefix.size > stop:
        return False
    for k in range(prefix.size):  # noqa: SIM110 - compiled
        if text[position + k] != prefix[k]:
            return False
    return True


@jit
def _ends_field(byte: int, delimiter: int) -> bool:
    return byte in (delimiter, NEWLINE) or (byte == TAB and delimiter == SPACE)


@jit
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


@jit
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


@jit
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


@jit
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


@jit
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


@jit
def _unescape(text: Bytes, first: int, last: int) -> int:
    """Write ``"`` for every ``""``, in place; return the new end."""
    to = first
    position = first
    while position < last:
        text[to] = text[position]
        position += 2 if text[position] == QUOTE else 1
        to += 1
    return to


@jit
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


def as_bytes(text: bytes | bytearray) -> Bytes:
    """View text as an array; writable if it is a bytearray, as the kernels want it."""
    array: NDArray[Any] = np.frombuffer(text, dtype=np.uint8)
    return array


# ------------------------------------------------------------
# How a text file is laid out, found out from its first lines: delimiter, header, columns.

N_SAMPLE = 100  # lines that are looked at
_CANDIDATES = "\t;, "  # a semicolon before a comma: lines with decimal commas are cut alike by both
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ENDS = {  # first two names, in lower case, that nobody gives to data
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("from", "to"), ("u", "v"), ("node1", "node2"),
    ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"), ("user", "item"), ("user_id", "item_id"), ("head", "tail"),
}  # fmt: skip


@dataclass(frozen=True)
class TextFormat:
    """What the user said about a text file; None and "infer" stand for: find out."""

    delimiter: str | None
    header: bool | Literal["infer"]
    comments: str | None

    @classmethod
    def checked(cls, owner: str, delimiter: object, header: object, comments: object) -> TextFormat:
        """Return the format if each argument can be used.

        Raises
        ------
        InputError
            If not.
        """
        if delimiter is not None and (
            not isinstance(delimiter, str) or len(delimiter) != 1 or not " " <= delimiter <= "~" != delimiter
        ) and delimiter != "\t":  # fmt: skip
            raise InputError(owner, "delimiter", "one ASCII character, a space for any blanks, or None", delimiter)
        if delimiter == '"':
            raise InputError(owner, "delimiter", "another character than the quote", delimiter)
        if header not in (True, False, "infer"):
            raise InputError(owner, "header", "True, False or 'infer'", header)
        if comments is not None and (not isinstance(comments, str) or not comments.strip()):
            raise InputError(owner, "comments", "a text that comment lines begin with, or None", comments)
        return cls(delimiter, header if header == "infer" else bool(header), comments)

    @property
    def comment_bytes(self) -> Bytes:
        """The beginning of a comment line, as an array; empty if there are none."""
        return np.frombuffer(bytearray((self.comments or "").encode()), np.uint8)


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out.

    Attributes
    ----------
    delimiter : int
        The byte between fields; a space for any run of blanks.
    n_fields : int
        How many fields every line has.
    picks : ndarray, int64
        Positions of source, target and, if there is one, weight.
    position, line : int
        Where the first edge may begin: byte of the sample, line counted from 1.
    """

    delimiter: int
    n_fields: int
    picks: NDArray[np.int64]
    position: int
    line: int


@dataclass(frozen=True)
class _Record:
    fields: list[str]
    after: int  # position of the next record
    line_after: int


def find_layout(owner: str, name: str, sample: bytearray, roles: Roles, form: TextFormat) -> Layout | None:
    """Find out how a text is laid out from a sample of whole lines; None if there is no line at all.

    Raises
    ------
    InputError
        If it lacks a column that was asked for.
    """
    text = np.frombuffer(sample, np.uint8)
    delimiter, records = _choose_delimiter(text, form)
    if not records:
        return None
    first, rest = records[0].fields, [record.fields for record in records[1:]]
    with_header = form.header
    if with_header == "infer":
        with_header = roles.named or _looks_like_header(first, rest)
    body = rest if with_header else [first, *rest]
    source, target, weight = choose_columns(
        owner, roles, first if with_header else None, len(first), _third_is_number(body)
    )
    chosen = [source, target] if weight is None else [source, target, weight]
    words = [repr(first[k]) if with_header else str(k) for k in chosen]
    logger.info(
        "%s: columns %s separated by %r, %s; source %s, target %s, weight %s",
        name, len(first), delimiter, "with a header" if with_header else "without a header", words[0], words[1],
        words[2] if weight is not None else "not read",
    )  # fmt: skip
    start = (records[0].after, records[0].line_after) if with_header else (skip_mark(sample), 1)
    return Layout(ord(delimiter), len(first), np.array(chosen, np.int64), *start)


def skip_mark(text: bytes | bytearray) -> int:
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
    code, line = ord(delimiter), 1
    position = skip_mark(text[:3].tobytes())
    fields = np.empty((256, 3), np.int64)
    while len(records) < N_SAMPLE:
        position, line = next_record(text, position, text.size, line, comment)
        n, after, newlines = split_record(text, position, text.size, code, fields)
        if n < 0:
            break
        if n > len(fields):
            fields = np.empty((n, 3), np.int64)
            continue
        line += 1 + newlines
        cut = [_field(text, *field) for field in fields[:n].tolist()]
        records.append(_Record(cut, after, line))
        position = after
    return records


def _field(text: Bytes, first: int, last: int, kind: int) -> str:
    field = text[first:last].tobytes().decode()
    return field.replace('""', '"') if kind == ESCAPED else field


def _looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    lower = [name.lower() for name in first]
    if tuple(lower[:2]) in _ENDS or {"source", "target"} <= set(lower):
        return True
    if not all(first) or len(set(first)) < len(first) or any(_NUMBER.fullmatch(name) for name in first):
        return False
    alike = [fields for fields in rest if len(fields) == len(first)]
    return bool(alike) and any(all(_NUMBER.fullmatch(fields[k]) for fields in alike) for k in range(len(first)))


def _third_is_number(body: Sequence[Sequence[str]]) -> bool:
    """Whether some line has a number in the third place: the others then are errors, found later, not a silent loss."""
    return any(_is_number(fields[2]) for fields in body if len(fields) == 3)


def _is_number(field: str) -> bool:
    try:
        float(field.replace(",", "."))  # also nan, inf and decimal commas, which are refused later
    except ValueError:
        return False
    return True


Name = str | int | None
WeightName = str | int | Literal[False] | None


@dataclass(frozen=True)
class Roles:
    """What the user said about the columns: a name or position each, None to find out, ``weight=False`` for none."""

    source: Name = None
    target: Name = None
    weight: WeightName = None

    @property
    def named(self) -> bool:
        """Whether a column is asked for by name."""
        return any(isinstance(role, str) for role in (self.source, self.target, self.weight))

    def refuse(self, owner: str, kind: str) -> None:
        """Refuse names of columns for an input that has none."""
        for argument, value in (("source", self.source), ("target", self.target), ("weight", self.weight)):
            if value is not None and not (argument == "weight" and value is False):
                raise InputError(owner, argument, f"left out for {kind}, which has no columns to name", value)


def choose_columns(
    owner: str, roles: Roles, names: Sequence[str] | None, n_columns: int, third_is_weight: bool
) -> tuple[int, int, int | None]:
    """Return the positions of source, target and weight (None: there is none).

    Without a word from the user: columns called source and target (in any case of letters), else the first two that are
    not the weight; the weight is the column called weight, or in a table without names the third of three if
    ``third_is_weight``.

    Raises
    ------
    InputError
        If there is no such column, or one column has two roles.
    """
    if n_columns < 2:
        raise InputError(
            owner,
            "edges",
            "a table of at least two columns",
            f"{n_columns} column(s)" + (f": {', '.join(map(repr, names))}" if names else ""),
            "If the columns are separated by something else, pass delimiter.",
        )
    lower = [name.lower() for name in names or ()]
    weight: int | None = None
    if roles.weight is None:
        if lower.count("weight") == 1:
            weight = lower.index("weight")
        elif names is None and n_columns == 3 and third_is_weight:
            weight = 2
        if weight in (
            _position(owner, "source", roles.source, names, n_columns),
            _position(owner, "target", roles.target, names, n_columns),
        ):
            weight = None
    elif roles.weight is not False:
        weight = _position(owner, "weight", roles.weight, names, n_columns)
    ends = [
        _position(owner, "source", roles.source, names, n_columns),
        _position(owner, "target", roles.target, names, n_columns),
    ]
    if ends == [None, None] and lower.count("source") == lower.count("target") == 1:
        ends = [lower.index("source"), lower.index("target")]
    for k in range(2):
        if ends[k] is None:
            taken = {*ends, weight}
            ends[k] = next((c for c in range(n_columns) if c not in taken), None)
    source, target = ends
    if source is None or target is None or len({source, target, weight}) < 3:
        raise InputError(owner, "source, target and weight", "different columns", f"{roles} of {n_columns} columns")
    return source, target, weight


def _position(
    owner: str, argument: str, role: Name | Literal[False], names: Sequence[str] | None, n_columns: int
) -> int | None:
    if role is None:
        return None
    if isinstance(role, (int, np.integer)):
        return check_integer(owner, argument, role, low=0, high=n_columns - 1)
    if not isinstance(role, str):
        raise InputError(owner, argument, "the name or position of a column", role)
    if names is None:
        raise InputError(
            owner,
            argument,
            f"a position from 0 to {n_columns - 1}",
            repr(role),
            "The input names no columns; pass header=True if its first line does.",
        )
    if names.count(role) != 1:
        there = ", ".join(map(repr, names))
        expected = "one of the columns" if role not in names else "a column whose name occurs once"
        raise InputError(owner, argument, f"{expected}: {there}", repr(role))
    return names.index(role)
