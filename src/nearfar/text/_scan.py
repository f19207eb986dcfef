"""One pass over text: every word is numbered, the numbers go to a temporary file, and the text is not needed again.

Workers take pieces of text in turn and number words each by itself, in the order in which they come to it. Afterwards
their words are put together: the most frequent first, those that are equally frequent in the order in which they first
came. So the result does not depend on the number of workers, nor on who took which piece.
"""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import run_blocks
from nearfar.storage._array_files import map_raw
from nearfar.text import _word_kernels as kernels

Bytes = NDArray[np.uint8]
_PLACE = 2**32  # positions within a piece of text are below it
_FIRST_SIZE = 2**14  # words


@dataclass(frozen=True)
class Piece:
    """Where the numbers of a piece of text are: which worker's file, from where, how many."""

    worker: int
    start: int
    size: int


class Scan:
    """The numbered words of a text, all of them; the temporary files go when it does.

    Attributes
    ----------
    words : Words
        The most frequent first.
    counts : ndarray of shape (n_types,), int64
    n_tokens : int
        Words in all.
    pieces : list of Piece
        In the order of the text.
    numbers : list of ndarray, int64
        For each worker, what each of its numbers is in ``words``.
    """

    def __init__(self, pieces: Iterator[tuple[int, Bytes, Bytes]], n_jobs: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nearfar-text-"))
        weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        lock, found = threading.Lock(), dict[int, Piece]()
        workers = [_Worker() for _ in range(n_jobs)]

        def work(k: int, *_: int) -> None:
            with self._path(k).open("wb") as file:
                while True:
                    with lock:  # reading and decompressing is in turn, counting is not
                        item = next(pieces, None)
                    if item is None:
                        return
                    index, text, kinds = item
                    start, size = file.tell() // 4, 0
                    for numbers in workers[k].numbered(text, kinds, index * _PLACE):
                        file.write(numbers.data)
                        size += numbers.size
                    found[index] = Piece(k, start, size)

        run_blocks(work, range(n_jobs + 1), n_jobs)
        self.pieces = [found[index] for index in sorted(found)]
        self._put_together(workers)

    def _path(self, worker: int) -> Path:
        return self._folder / f"{worker}.i32"

    def _put_together(self, workers: list[_Worker]) -> None:
        whole = workers[0]
        places = [np.arange(whole.n_words), *(whole.take_in(other) for other in workers[1:])]
        counts, firsts = whole.counts, whole.firsts
        order = np.lexsort((firsts, -counts))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.words, self.counts = Words(whole.letters, whole.begins, order), counts[order]
        self.n_tokens = int(self.counts.sum())
        self.numbers = [rank[place] for place in places]

    def read(self, piece: Piece) -> NDArray[np.int32]:
        """Return the numbers of a piece, with -1 at the ends of sentences; they are those of its worker."""
        return map_raw(self._path(piece.worker), np.int32)[piece.start : piece.start + piece.size]


class _Worker:
    """A hash table of words that grows."""

    def __init__(self) -> None:
        self._state = np.zeros(1, np.int64)
        self._letters = np.empty(8 * _FIRST_SIZE, np.uint8)
        self._hashes, self._begins = np.zeros(_FIRST_SIZE, np.uint64), np.zeros(_FIRST_SIZE + 1, np.int64)
        self._counts, self._firsts = np.zeros(_FIRST_SIZE, np.int64), np.zeros(_FIRST_SIZE, np.int64)
        self._slots = np.zeros(4 * _FIRST_SIZE, np.int32)

    @property
    def n_words(self) -> int:
        return int(self._state[0])

    def numbered(self, text: Bytes, kinds: Bytes, base: int) -> Iterator[NDArray[np.int32]]:
        """Yield the numbers of all words of a piece of text, in parts."""
        position, why, out = 0, kernels.FULL, np.empty(text.size + 1, np.int32)
        while why == kernels.FULL:
            tables = (self._slots, self._hashes, self._begins, self._counts, self._firsts)
            position, written, why = kernels.number_words(
                text, position, kinds, *tables, base, self._letters, self._state, out
            )
            yield out[:written]
            if why == kernels.FULL:
                self._double()

    def _double(self) -> None:
        self._letters, self._hashes, self._begins, self._counts, self._firsts = (
            np.concatenate([a, np.zeros(self._counts.size if a is self._begins else a.size, a.dtype)])
            for a in (self._letters, self._hashes, self._begins, self._counts, self._firsts)
        )
        self._slots = np.zeros(2 * self._slots.size, np.int32)
        kernels.fill_slots(self._hashes, self.n_words, self._slots)

    def take_in(self, other: _Worker) -> NDArray[np.int64]:
        """Add the words of another worker; return what their numbers become."""
        done, place = 0, np.empty(other.n_words, np.int64)
        theirs = (other.n_words, other._letters, other._begins, other._hashes, other._counts, other._firsts)
        while True:
            tables = (self._slots, self._hashes, self._begins, self._counts, self._firsts)
            done = kernels.merge_words(theirs, done, *tables, self._letters, self._state, place)
            if done == other.n_words:
                return place
            self._double()

    @property
    def letters(self) -> bytes:
        return self._letters[: self._begins[self.n_words]].tobytes()

    @property
    def begins(self) -> NDArray[np.int64]:
        return self._begins[: self.n_words + 1]

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[: self.n_words]

    @property
    def firsts(self) -> NDArray[np.int64]:
        return self._firsts[: self.n_words]


class Words(Sequence[bytes]):
    """Words in UTF-8, in a given order; made when they are asked for, as most are too rare to be.

    Parameters
    ----------
    letters : bytes
        All of them, one after another.
    begins : ndarray of shape (n + 1,), int64
    order : ndarray of shape (n,), int64
    """

    def __init__(self, letters: bytes, begins: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        self._letters, self._starts, self._ends = letters, begins[order], begins[order + 1]

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            spans = zip(self._starts[at].tolist(), self._ends[at].tolist(), strict=True)
            return [self._letters[start:end] for start, end in spans]
        return self._letters[self._starts[at] : self._ends[at]]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self[:])


def kinds_of(between: bytes, ends: bytes) -> Bytes:
    """Return the table of bytes for the kernels."""
    kinds: Any = np.full(256, kernels.WORD, np.uint8)
    kinds[np.frombuffer(between, np.uint8)] = kernels.BETWEEN
    kinds[np.frombuffer(ends, np.uint8)] = kernels.END
    return kinds  # type: ignore[no-any-return]
