"""From ids to codes 0, 1, 2, ... in order of first appearance, piece by piece, without holding the input.

Three tables with the same three verbs: ``encode`` a piece, give the ``ids`` so far, ``len``. Integers and strings
live in compact arrays under an open-addressing hash table (compiled); anything else hashable in a dictionary.
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.frames import is_null
from nearfar._core.jit import jit, soonest
from nearfar._core.types import Bytes, Indices, Longs
from nearfar.errors import InputError
from nearfar.relations.kernels import FEW

Scalar = TypeVar("Scalar", bound=np.generic)

_FNV_START, _FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
_ONE, _FIVE, _SHIFT = np.uint64(1), np.uint64(5), np.uint64(32)
_PIECE = 1 << 17


class BadIdError(Exception):
    """An id that cannot be used: its position in the piece, and what was expected of it."""

    def __init__(self, position: int, expected: str, key: object) -> None:
        super().__init__(position, expected, key)
        self.position, self.expected, self.key = position, expected, key


class IntegerCodes:
    """Codes of 64-bit integers: at most 28 bytes an id, and as fast as a plain look-up table when ids are dense.

    A dictionary has them until there were many: nothing is compiled for few.
    """

    def __init__(self) -> None:
        self._first: ObjectCodes | None = ObjectCodes()
        self._n_first = 0  # keys that it was asked for
        self._n = 0
        self._ids = np.empty(16, np.int64)
        self._table = np.full(32, -1, np.int32)

    def __len__(self) -> int:
        return self._n if self._first is None else len(self._first)

    def encode(self, keys: Longs) -> Indices:
        """Return the code of each key, shape (n,); new keys receive new codes."""
        if self._first is not None:
            self._n_first += keys.size
            if self._n_first <= 2 * FEW:  # both ends of the edges
                return self._first.encode(keys.tolist())
            known, self._first = self.ids(), None
            self.encode(known)  # into the table
        codes = np.empty(keys.size, np.int32)
        for start in range(0, keys.size, _PIECE):
            piece = np.ascontiguousarray(keys[start : start + _PIECE])
            self._make_room(piece.size)
            self._n = _encode_integers(piece, codes[start : start + _PIECE], self._table, self._ids, self._n)
        return codes

    def ids(self) -> Longs:
        """Return the ids by code."""
        return self._ids[: self._n].copy() if self._first is None else np.array(self._first.ids(), np.int64)

    def _make_room(self, n_more: int) -> None:
        needed = self._n + n_more
        self._ids = _grown(self._ids, self._n, needed)
        if 2 * needed > self._table.size:
            self._table = np.full(_table_size(needed), -1, np.int32)
            _encode_integers(self._ids[: self._n], np.empty(self._n, np.int32), self._table, self._ids, 0)


class Spellings(NamedTuple):
    """How strings write numbers.

    Attributes
    ----------
    n_numbers : int
        Strings that are whole numbers, or floats with an exponent.
    n_pairs, pair : int, (str, str)
        Pairs of strings that are one whole number, and the first: ``("1", "1.0")``.
    n_blanks, blanks : int, (str, str)
        Pairs of strings, no numbers, that differ by blanks around one of them, and the first.
    large : str
        One that is a float of 2**53 or more; empty if there is none.
    """

    n_numbers: int
    n_pairs: int
    pair: tuple[str, str]
    n_blanks: int
    blanks: tuple[str, str]
    large: str


class StringCodes:
    """Codes of UTF-8 strings that lie in a text; the distinct ones are kept end to end in one array of bytes."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._n = self._n_bytes = 0  # strings, and bytes that were looked at
        self._bytes = np.empty(64, np.uint8)
        self._ends = np.zeros(17, np.int64)  # string k is bytes[ends[k]:ends[k + 1]]
        self._table = np.full(32, -1, np.int32)
        encoded = [string.encode() for string in strings]
        for start in range(0, len(encoded), _PIECE):
            piece = encoded[start : start + _PIECE]
            ends = np.cumsum([0, *map(len, piece)], dtype=np.int32)
            text = np.frombuffer(bytearray(b"".join(piece)), np.uint8)
            self.encode(text, np.stack([ends[:-1], ends[1:]], axis=1))

    def __len__(self) -> int:
        return self._n

    def encode(self, text: Bytes, spans: Indices) -> Indices:
        """Return the code of each ``text[start:end]``, spans of shape (n, 2); new strings receive new codes."""
        codes = np.empty(len(spans), np.int32)
        for start in range(0, len(spans), _PIECE):
            piece = np.ascontiguousarray(spans[start : start + _PIECE])
            n_bytes = int((piece[:, 1] - piece[:, 0]).sum(dtype=np.int64))
            self._n_bytes += n_bytes + len(piece)
            self._make_room(len(piece), n_bytes)
            self._n = self._soonest(_encode_strings)(
                text, piece, codes[start : start + _PIECE], self._table, self._bytes, self._ends, self._n
            )
        return codes

    def find(self, keys: Sequence[str]) -> Indices:
        """Return the code of each string, -1 where it is not there."""
        encoded = [key.encode() for key in keys]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        codes = np.empty(len(keys), np.int32)
        text = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        self._soonest(_find_strings, len(text))(text, spans, codes, self._table, self._bytes, self._ends)
        return codes

    def spellings(self) -> Spellings:
        """Return how the numbers among the strings are written, and which strings differ in that alone."""
        n_numbers, n_pairs, n_blanks, *found = self._soonest(_spellings)(self._bytes, self._ends, self._n, self._table)
        spans = ((self._ends[code], self._ends[code + 1]) if code >= 0 else (0, 0) for code in found)
        odd, plain, blank, bare, large = (self._bytes[first:last].tobytes().decode() for first, last in spans)
        return Spellings(n_numbers, n_pairs, (plain, odd), n_blanks, (bare, blank), large)

    def _soonest(self, function: Callable[..., Any], n_more: int = 0) -> Callable[..., Any]:
        return soonest(function, self._n_bytes + n_more)

    def ids(self) -> list[str]:
        """Return the strings by code."""
        stored = self._bytes[: self._ends[self._n]].tobytes()
        return [stored[a:b].decode() for a, b in pairwise(self._ends[: self._n + 1].tolist())]

    def _make_room(self, n_more: int, n_bytes: int) -> None:
        needed, used = self._n + n_more, int(self._ends[self._n])
        self._bytes = _grown(self._bytes, used, used + n_bytes)
        self._ends = _grown(self._ends, self._n + 1, needed + 1)
        if 2 * needed > self._table.size:
            self._table = np.full(_table_size(needed), -1, np.int32)
            for start in range(0, self._n, _PIECE):  # the strings so far, found where they are kept
                ends = self._ends[start : min(start + _PIECE, self._n) + 1]
                spans = (np.stack([ends[:-1], ends[1:]], axis=1) - ends[0]).astype(np.int32)
                codes = np.empty(len(spans), np.int32)
                text = self._bytes[ends[0] :]
                self._soonest(_encode_strings)(text, spans, codes, self._table, self._bytes, self._ends, start)


class ObjectCodes:
    """Codes of any hashable ids but nulls (None, NaN and their kin)."""

    def __init__(self, ids: Iterable[Hashable] = ()) -> None:
        self._table = _Numbering()
        for key in ids:
            self._table[key]

    def __len__(self) -> int:
        return len(self._table)

    def encode(self, keys: Sequence[Hashable]) -> Indices:
        """Return the code of each key, shape (n,); new keys receive new codes.

        Raises
        ------
        BadIdError
            At the first key that is a null or cannot be hashed.
        """
        try:
            return np.fromiter(map(self._table.__getitem__, keys), np.int32, len(keys))
        except (TypeError, _NullError):
            for position, key in enumerate(keys):
                try:
                    hash(key)
                except TypeError:
                    raise BadIdError(position, "hashable (a number, a string, a tuple, ...)", key) from None
                if is_null(key):
                    raise BadIdError(position, "there, not null", key) from None
            raise

    def find(self, keys: Sequence[Hashable]) -> Indices:
        """Return the code of each key, -1 where it is not there."""
        return np.fromiter((self._table.get(key, -1) for key in keys), np.int32, len(keys))

    def ids(self) -> list[Hashable]:
        """Return the ids by code."""
        return list(self._table)


class _NullError(Exception):
    pass


class _Numbering(dict[Hashable, int]):
    """A dictionary that numbers what it is asked for."""

    def __missing__(self, key: Hashable) -> int:
        if is_null(key):
            raise _NullError
        code = self[key] = len(self)
        return code


def _grown(array: NDArray[Scalar], used: int, needed: int) -> NDArray[Scalar]:
    if needed <= array.size:
        return array
    larger = np.empty(max(needed, array.size + array.size // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


def _table_size(n: int) -> int:
    if n > np.iinfo(np.int32).max:
        raise InputError("Relation.from_edges", "edges", "of fewer than 2**31 distinct ids", f"up to {n}")
    return 1 << int(2 * n - 1).bit_length()


@jit
def _find_integer(key: int, table: Indices, ids: Longs) -> np.uint64:
    """Return the slot of the key, or the free one where it belongs.

    The first slot is the key itself modulo the size, so dense ids lie side by side; collisions draw in the higher
    bits, as Python's dictionaries do.
    """
    mask = np.uint64(table.size) - _ONE
    rest = np.uint64(key)
    slot = rest & mask
    while table[slot] >= 0 and ids[table[slot]] != key:
        rest >>= _FIVE
        slot = (slot * _FIVE + rest + _ONE) & mask
    return slot


@jit
def _encode_integers(keys: Longs, codes: Indices, table: Indices, ids: Longs, n: int) -> int:
    for i in range(keys.size):
        slot = _find_integer(keys[i], table, ids)
        if table[slot] < 0:
            ids[n] = keys[i]
            table[slot] = n
            n += 1
        codes[i] = table[slot]
    return n


@jit
def _find_string(text: Bytes, first: int, last: int, table: Indices, stored: Bytes, ends: Longs) -> np.uint64:
    """Return the slot of ``text[first:last]``, or the free one where it belongs (FNV-1a, linear probing)."""
    hashed = _FNV_START
    for position in range(first, last):
        hashed = (hashed ^ np.uint64(text[position])) * _FNV_PRIME
    mask = np.uint64(table.size) - _ONE
    slot = (hashed ^ (hashed >> _SHIFT)) & mask
    while table[slot] >= 0:
        start = ends[table[slot]]
        same = ends[table[slot] + 1] - start == last - first
        position = first
        while same and position < last:
            same = stored[start + position - first] == text[position]
            position += 1
        if same:
            break
        slot = (slot + _ONE) & mask
    return slot


@jit
def _encode_strings(
    text: Bytes, spans: Indices, codes: Indices, table: Indices, stored: Bytes, ends: Longs, n: int
) -> int:
    for i in range(len(spans)):
        first, last = spans[i]
        slot = _find_string(text, first, last, table, stored, ends)
        if table[slot] < 0:
            ends[n + 1] = ends[n] + (last - first)
            for position in range(first, last):
                stored[ends[n] + position - first] = text[position]
            table[slot] = n
            n += 1
        codes[i] = table[slot]
    return n


@jit
def _find_strings(text: Bytes, spans: Indices, codes: Indices, table: Indices, stored: Bytes, ends: Longs) -> None:
    for i in range(len(spans)):
        first, last = spans[i]
        codes[i] = table[_find_string(text, first, last, table, stored, ends)]


@jit
def _spellings(  # one pass, as a number is written: blanks, sign, zeros, digits, point, exponent
    stored: Bytes, ends: Longs, n: int, table: Indices
) -> tuple[int, int, int, int, int, int, int, int]:
    """Return the counts of numbers and pairs, and the codes of the first ones: see :class:`Spellings`."""
    n_numbers, n_pairs, n_blanks, odd, plain, blank, bare, large = 0, 0, 0, -1, -1, -1, -1, -1
    for k in range(n):
        first, last = ends[k], ends[k + 1]
        while first < last and stored[first] <= 32:
            first += 1
        while first < last and stored[last - 1] <= 32:
            last -= 1
        zeros = first + (first < last and (stored[first] == 43 or stored[first] == 45))  # behind a sign
        digits = _skip_digits(stored, zeros, last, 48)
        point = _skip_digits(stored, digits, last, 57)
        whole = point > zeros
        if whole and point < last:
            end = point + (stored[point] == 46)
            tail = _skip_digits(stored, end, last, 48)
            n_before = point - digits
            if tail < last or end == point:  # more than zeros behind a point
                whole = False
                tail = _skip_digits(stored, end, last, 57)
                if tail + 1 < last and (stored[tail] == 69 or stored[tail] == 101):  # e
                    tail += 1 + (stored[tail + 1] == 43)
                    power = np.int64(0)
                    while tail < last and 48 <= stored[tail] <= 57 and power < 1000:
                        power = 10 * power + np.int64(stored[tail]) - 48
                        tail += 1
                    n_numbers += tail == last
                    if tail == last and n_before > 0 and n_before + power > 16:
                        large = k
            elif n_before > 16 or (n_before == 16 and _number(stored, digits, point) >= 1 << 53):
                large = k
        if whole:
            n_numbers += 1
            start = digits if point > digits else point - 1  # of 00 one is left
            if stored[first] == 45 and start == zeros:
                start = first
            elif stored[first] == 45:
                continue  # -01: its plain form is nowhere in the text
            first, last = start, point
        if first < last and (first > ends[k] or last < ends[k + 1]):
            code = table[_find_string(stored, first, last, table, stored, ends)]
            if code >= 0 and whole:
                n_pairs += 1
                if odd < 0:
                    odd, plain = k, code
            elif code >= 0:
                n_blanks += 1
                if blank < 0:
                    blank, bare = k, code
    return n_numbers, n_pairs, n_blanks, odd, plain, blank, bare, large


@jit
def _skip_digits(stored: Bytes, position: int, last: int, highest: int) -> int:
    while position < last and 48 <= stored[position] <= highest:
        position += 1
    return position


@jit
def _number(stored: Bytes, first: int, last: int) -> int:
    value = np.int64(0)
    for position in range(first, last):
        value = 10 * value + np.int64(stored[position]) - 48
    return int(value)
