"""From ids to codes 0, 1, 2, ... in order of first appearance, piece by piece, without holding the input.

Three tables with the same verbs: ``encode`` a piece, give the ``ids`` so far, ``len``. Integers, and many strings, live
in compact arrays under a hash table that NumPy looks up; anything else hashable in a dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.frames import is_null
from nearfar._core.types import Bytes, Flags, Indices, Longs
from nearfar.errors import InputError
from nearfar.reading.records import PADDING, words_of

Scalar = TypeVar("Scalar", bound=np.generic)
Words = NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
_PIECE = 1 << 17
_DENSE = 1 << 22  # integers of which a table has the codes


class _Table:
    """Codes of numbers of 64 bits, by open addressing: all keys of a piece are looked up at once."""

    def __init__(self) -> None:
        self.n = 0
        self.keys = np.empty(16, np.uint64)
        self._slots = np.full(32, -1, np.int32)

    def encode(self, keys: Words) -> tuple[Indices, Longs]:
        """Return the code of each key, and where the first of each new key stands, in the order of their codes."""
        codes, left, slots = np.full(len(keys), -1, np.int32), np.arange(len(keys)), self._first_slots(keys)
        while left.size:
            found = self._slots[slots]
            same = (self.keys[found] == keys[left]) & (found >= 0)
            codes[left[same]] = found[same]
            other = (found >= 0) & ~same
            left, slots = left[other], (slots[other] + 1) & (len(self._slots) - 1)
        missing = np.flatnonzero(codes < 0)
        if not missing.size:
            return codes, missing
        new, first, which = np.unique(keys[missing], return_index=True, return_inverse=True)
        order = np.argsort(first)
        named = np.empty(len(new), np.int32)
        named[order] = np.arange(self.n, self.n + len(new), dtype=np.int32)
        codes[missing] = named[which.reshape(-1)]
        self.n += len(new)
        if self.n > np.iinfo(np.int32).max:
            raise InputError("Relation.from_edges", "edges", "of fewer than 2**31 distinct ids", f"up to {self.n}")
        self.keys = _grown(self.keys, self.n - len(new), self.n)
        self.keys[named] = new
        if 2 * self.n > len(self._slots):
            self._slots = np.full(2 << int(2 * self.n - 1).bit_length(), -1, np.int32)
            named = np.arange(self.n, dtype=np.int32)
        slots = self._first_slots(self.keys[named])
        while named.size:  # each takes the next free slot; where several meet one has it
            free = self._slots[slots] < 0
            self._slots[slots[free]] = named[free]
            lost = self._slots[slots] != named
            named, slots = named[lost], (slots[lost] + 1) & (len(self._slots) - 1)
        return codes, missing[first[order]]

    def _first_slots(self, keys: Words) -> Longs:
        mixed = (keys ^ (keys >> _HALF)) * _MIX[0]
        return (mixed >> _HALF).astype(np.int64) & (len(self._slots) - 1)


class IntegerCodes:
    """Codes of 64-bit integers; those of small ones are looked up by the integer itself."""

    def __init__(self) -> None:
        self._table = _Table()
        self._small = np.empty(0, np.int32)  # -1 for an integer without a code

    def __len__(self) -> int:
        return self._table.n

    def encode(self, keys: Longs) -> Indices:
        """Return the code of each key, shape (n,); new keys receive new codes."""
        codes = np.empty(len(keys), np.int32)
        for start in range(0, len(keys), _PIECE):
            piece, into = keys[start : start + _PIECE], codes[start : start + _PIECE]
            into[:] = -1
            small = bool(piece.min() >= 0 and piece.max() < _DENSE)
            if small:
                more = int(piece.max()) + 1 - len(self._small)
                self._small = np.append(self._small, np.full(max(more, 0), -1, np.int32))
                into[:] = self._small[piece]
            left = np.flatnonzero(into < 0)
            into[left] = self._table.encode(piece[left].view(np.uint64))[0]
            if small:
                self._small[piece[left]] = into[left]
        return codes

    def ids(self) -> Longs:
        """Return the ids by code."""
        return self._table.keys[: len(self)].view(np.int64).copy()


class StringCodes:
    """Codes of many strings; the distinct ones are kept in UTF-8, end to end in one array of bytes."""

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self._table = _Table()  # of their hashes
        self._bytes = np.zeros(64, np.uint8)
        self._ends = np.zeros(17, np.int64)  # string k is bytes[ends[k]:ends[k + 1]]
        self.encode(ids)

    def __len__(self) -> int:
        return self._table.n

    def encode(self, keys: Sequence[str]) -> Indices:
        """Return the code of each string, shape (n,); new strings receive new codes."""
        encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
        lengths = np.fromiter(map(len, encoded), np.int64, len(keys))
        text = np.frombuffer(b"".join(encoded) + PADDING, np.uint8)
        return self.encode_fields(text, np.cumsum(lengths) - lengths, lengths)

    def encode_fields(self, text: Bytes, starts: Longs, lengths: Longs) -> Indices:
        """Return the codes of strings that lie in a text, which :data:`.records.PADDING` ends."""
        hashes, codes, left = _hashes(text, starts, lengths), np.empty(len(starts), np.int32), np.arange(len(starts))
        while left.size:
            found, new = self._table.encode(hashes[left])
            self._keep(text, starts[left[new]], lengths[left[new]])
            codes[left] = found
            left = left[~self._are(found, text, starts[left], lengths[left])]
            hashes[left] += _MIX[1]  # another string of the same hash
        return codes

    def _keep(self, text: Bytes, starts: Longs, lengths: Longs) -> None:
        n, used, more = len(self) - len(starts), int(self._ends[len(self) - len(starts)]), int(lengths.sum())
        self._bytes = _grown(self._bytes, used, used + more + len(PADDING))
        self._ends = _grown(self._ends, n + 1, n + len(starts) + 1)
        self._ends[n + 1 : n + 1 + len(starts)] = used + np.cumsum(lengths)
        at = np.repeat(starts - (self._ends[n : n + len(starts)] - used), lengths) + np.arange(more)
        self._bytes[used : used + more] = text[at]

    def _are(self, codes: Indices, text: Bytes, starts: Longs, lengths: Longs) -> Flags:
        """Whether the strings are those of the codes."""
        kept, ends = self._ends[codes], self._ends[codes + 1]
        same: Flags = ends - kept == lengths
        for k in range((int(lengths.max(initial=0)) + 7) // 8):
            some = np.flatnonzero(lengths > 8 * k) if k else slice(None)
            mine = words_of(text, starts[some], lengths[some], k)
            same[some] &= words_of(self._bytes, kept[some], (ends - kept)[some], k) == mine
        return same

    def ids(self) -> list[str]:
        """Return the strings by code."""
        raw, ends = self._bytes[: self._ends[len(self)]].tobytes(), pairwise(self._ends[: len(self) + 1].tolist())
        if raw.isascii():
            text = raw.decode()
            return [text[a:b] for a, b in ends]
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in ends]


def _hashes(text: Bytes, starts: Longs, lengths: Longs) -> Words:
    hashed = words_of(text, starts, lengths) ^ (lengths.astype(np.uint64) * _MIX[1])
    for k in range(1, (int(lengths.max(initial=0)) + 7) // 8):
        some = np.flatnonzero(lengths > 8 * k)
        before = hashed[some]
        hashed[some] = (before ^ (before >> _HALF)) * _MIX[0] + words_of(text, starts[some], lengths[some], k)
    return hashed


class ObjectCodes(dict[Hashable, int]):
    """Codes of any hashable ids but nulls (None, NaN and their kin): a dictionary that numbers what it is asked for."""

    def __missing__(self, key: Hashable) -> int:
        if not isinstance(key, str) and is_null(key):
            raise TypeError("null")
        code = self[key] = len(self)
        return code

    def encode(self, keys: Sequence[Hashable]) -> Indices:
        """Return the code of each key, shape (n,); new keys receive new codes. TypeError: some are none."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, len(keys))

    def ids(self) -> list[Hashable]:
        """Return the ids by code."""
        return list(self)


def _grown(array: NDArray[Scalar], used: int, needed: int) -> NDArray[Scalar]:
    if needed <= array.size:
        return array
    larger = np.empty(max(needed, array.size + array.size // 2), array.dtype)
    larger[:used] = array[:used]
    return larger
