"""How a text file is laid out, found out from its first lines: delimiter, header, columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._progress import logger
from nearfar.errors import InputError
from nearfar.relations._columns import Roles, choose_columns
from nearfar.relations._text_kernels import ESCAPED, Bytes, next_record, split_record

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
