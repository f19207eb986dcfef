"""`EncodedCorpus`: a text as numbers of words, in memory-mapped files."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import ArrayFile, FolderKind, bad_folder, map_npy, map_raw, mapped
from nearfar._core.checks import check_path
from nearfar._core.jit import jit
from nearfar._core.threads import run_blocks
from nearfar.errors import DataError, InputError
from nearfar.text.vocabulary import Vocabulary

# ------------------------------------------------------------
# Compiled kernels that cut text into words and number them, and that renumber what was cut.
#
# Text is a uint8 array of UTF-8. A table tells of each byte what it is: part of a word, between words, or the end of a
# sentence. Words are numbered in the order in which they come, by an open hash table: ``slots`` holds number + 1, or 0.

WORD, BETWEEN, END = 0, 1, 2
"""What a byte is."""
SENTENCE_END = -1
"""What stands between the numbers of the words of two sentences; a rare word is one that ``numbers`` maps to it."""
DONE, FULL = 0, 1

_SEED, _FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


@jit
def number_words(text, position, kinds, slots, hashes, begins, counts, firsts, base, letters, state, out):
    """Write the numbers of the words from ``position`` on; return where it ended, how many were written, and why.

    ``begins`` and ``letters`` hold the words one after another, ``counts`` how often each came, ``firsts`` where it
    came first: ``base`` + position. ``state`` is (number of words,). It ends early when an array is full: make all
    larger, and go on. ``slots`` is a power of two, and more than the others hold.
    """
    n_words, written, stop = state[0], 0, text.size
    mask = np.uint64(slots.size - 1)
    while position < stop:
        kind = kinds[text[position]]
        if kind != WORD:
            if kind == END:
                out[written] = SENTENCE_END
                written += 1
            position += 1
            continue
        first, h = position, _SEED
        while position < stop and kinds[text[position]] == WORD:
            h = (h ^ np.uint64(text[position])) * _FACTOR
            position += 1
        h ^= h >> np.uint64(32)
        length = position - first
        at = h & mask
        while True:
            word = np.int64(slots[at]) - 1
            if word < 0:
                if n_words == counts.size or begins[n_words] + length > letters.size:
                    state[0] = n_words
                    return first, written, FULL
                word = n_words
                n_words += 1
                slots[at] = n_words
                hashes[word], counts[word], firsts[word] = h, 0, base + first
                start = begins[word]
                for k in range(length):
                    letters[start + k] = text[first + k]
                begins[word + 1] = start + length
                break
            if hashes[word] == h and _same(letters, begins[word], begins[word + 1], text, first, length):
                break
            at = (at + np.uint64(1)) & mask
        counts[word] += 1
        out[written] = word
        written += 1
    state[0] = n_words
    return position, written, DONE


@jit
def _same(letters, start, stop, text, first, length):
    if stop - start != length:
        return False
    for k in range(length):  # noqa: SIM110 - compiled
        if letters[start + k] != text[first + k]:
            return False
    return True


@jit
def merge_words(others, start, slots, hashes, begins, counts, firsts, letters, state, place):
    """Take in the words of another table from number ``start`` on; write to ``place`` what their numbers become.

    ``others`` is (number of words, letters, begins, hashes, counts, firsts), the rest as in ``number_words``. It ends
    early when an array is full, and returns which word is the next.
    """
    n_others, other_letters, other_begins, other_hashes, other_counts, other_firsts = others
    n_words, mask = state[0], np.uint64(slots.size - 1)
    for other in range(start, n_others):
        first, h = other_begins[other], other_hashes[other]
        length = other_begins[other + 1] - first
        at = h & mask
        while True:
            word = np.int64(slots[at]) - 1
            if word < 0:
                if n_words == counts.size or begins[n_words] + length > letters.size:
                    state[0] = n_words
                    return other
                word = n_words
                n_words += 1
                slots[at] = n_words
                hashes[word], counts[word], firsts[word] = h, 0, other_firsts[other]
                begin = begins[word]
                letters[begin : begin + length] = other_letters[first : first + length]
                begins[word + 1] = begin + length
                break
            if hashes[word] == h and _same(letters, begins[word], begins[word + 1], other_letters, first, length):
                break
            at = (at + np.uint64(1)) & mask
        counts[word] += other_counts[other]
        firsts[word] = min(firsts[word], other_firsts[other])
        place[other] = word
    state[0] = n_words
    return n_others


@jit
def fill_slots(hashes, n_words, slots):
    """Enter all words in an empty table."""
    mask = np.uint64(slots.size - 1)
    for word in range(n_words):
        at = hashes[word] & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = word + 1


@jit
def renumber(old, numbers, tokens, ends, at, last_end):
    """Write the new numbers of the words, without those that ``numbers`` maps to -1, and where sentences end.

    ``at`` words were written before, the last sentence ended at ``last_end``; sentences without a word are left out.
    Return how many words and ends were written.
    """
    n_tokens = n_ends = 0
    for k in range(old.size):
        if old[k] == SENTENCE_END:
            if at + n_tokens > last_end:
                last_end = at + n_tokens
                ends[n_ends] = last_end
                n_ends += 1
        elif numbers[old[k]] >= 0:
            tokens[n_tokens] = numbers[old[k]]
            n_tokens += 1
    return n_tokens, n_ends


# ------------------------------------------------------------
# One pass over text: every word is numbered, the numbers go to a temporary file, and the text is not needed again.
#
# Workers take pieces of text in turn and number words each by itself, in the order in which they come to it. Afterwards
# their words are put together: the most frequent first, those that are equally frequent in the order in which they
# first
# came. So the result does not depend on the number of workers, nor on who took which piece.

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
        position, why, out = 0, FULL, np.empty(text.size + 1, np.int32)
        while why == FULL:
            tables = (self._slots, self._hashes, self._begins, self._counts, self._firsts)
            position, written, why = number_words(text, position, kinds, *tables, base, self._letters, self._state, out)
            yield out[:written]
            if why == FULL:
                self._double()

    def _double(self) -> None:
        self._letters, self._hashes, self._begins, self._counts, self._firsts = (
            np.concatenate([a, np.zeros(self._counts.size if a is self._begins else a.size, a.dtype)])
            for a in (self._letters, self._hashes, self._begins, self._counts, self._firsts)
        )
        self._slots = np.zeros(2 * self._slots.size, np.int32)
        fill_slots(self._hashes, self.n_words, self._slots)

    def take_in(self, other: _Worker) -> NDArray[np.int64]:
        """Add the words of another worker; return what their numbers become."""
        done, place = 0, np.empty(other.n_words, np.int64)
        theirs = (other.n_words, other._letters, other._begins, other._hashes, other._counts, other._firsts)
        while True:
            tables = (self._slots, self._hashes, self._begins, self._counts, self._firsts)
            done = merge_words(theirs, done, *tables, self._letters, self._state, place)
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
    kinds: Any = np.full(256, WORD, np.uint8)
    kinds[np.frombuffer(between, np.uint8)] = BETWEEN
    kinds[np.frombuffer(ends, np.uint8)] = END
    return kinds


TEXT = FolderKind("text", "text.json", "nearfar.text", 1, inner=("vocabulary.tsv",))
_VOCABULARY = "vocabulary.tsv"
_BLOCK = 2**20  # numbers that are checked together


class EncodedCorpus:
    """Words of a text as numbers, sentence by sentence; what is trained on.

    Made by :meth:`Corpus.encode`, or opened from a folder by :meth:`open`. Iterating gives the sentences, arrays of
    int32. The numbers lie in files that are mapped into memory, so that a text may be larger than that.

    Parameters
    ----------
    tokens : ndarray of shape (n_tokens,), int32
        Numbers of the words, rare ones left out.
    ends : ndarray of shape (n_sentences,), int64
        Where each sentence ends in ``tokens``; no sentence is empty.
    vocabulary : Vocabulary
        Counts are those in this text, unless a vocabulary was given.

    See Also
    --------
    Corpus : text, and how it is cut into words.

    Examples
    --------
    >>> import nearfar as nf
    >>> encoded = nf.Corpus(["the sea the ship", "the sea"]).encode(min_count=2)
    >>> list(encoded.vocabulary), [sentence.tolist() for sentence in encoded]
    (['the', 'sea'], [[0, 1, 0], [0, 1]])
    """

    def __init__(self, tokens: NDArray[np.int32], ends: NDArray[np.int64], vocabulary: Vocabulary) -> None:
        self.tokens, self.ends, self.vocabulary = tokens, ends, vocabulary
        self._folder: Path | None = None

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        start = 0
        for end in self.ends.tolist():
            yield self.tokens[start:end]
            start = end

    def __repr__(self) -> str:
        return f"EncodedCorpus({self.n_tokens} tokens of {len(self.vocabulary)} words, {len(self)} sentences)"

    @property
    def n_tokens(self) -> int:
        """Number of words in the text, rare ones left out."""
        return int(self.tokens.size)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that :meth:`open` opens without reading it.

        Parameters
        ----------
        folder : path-like
            New, empty, or a text stored by nearfar, which is replaced. It appears whole or not at all.

        Raises
        ------
        InputError
            If it is something else, or cannot be written to.
        """
        with TEXT.new("EncodedCorpus.save", "folder", check_path("EncodedCorpus.save", "folder", folder)) as new:
            for name, dtype in (("tokens", np.int32), ("ends", np.int64)):
                if self._folder is not None:
                    copyfile(self._folder / f"{name}.npy", new / f"{name}.npy")
                    continue
                with ArrayFile(new / f"{name}.npy", dtype) as file:
                    file.append(getattr(self, name))
            _finish(new, self.n_tokens, len(self), self.vocabulary)

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> EncodedCorpus:
        """Open what :meth:`save` or ``Corpus.encode(folder=...)`` wrote.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        EncodedCorpus
            Its arrays are mapped from the files, which must stay where they are.

        Raises
        ------
        InputError
            If there is no such folder.
        FileFormatError
            If it is none, or a file of it is missing or was cut short. Numbers are looked at when they are trained on:
            then :class:`nearfar.errors.DataError` tells of some that stand for no word.
        """
        path = check_path("EncodedCorpus.open", "folder", folder)
        if not path.is_dir():
            raise InputError("EncodedCorpus.open", "folder", "a folder that exists", repr(str(path)))
        content = TEXT.read_header(path)
        try:
            n_tokens, n_sentences = int(content["n_tokens"]), int(content["n_sentences"])
        except (KeyError, TypeError, ValueError) as error:
            raise TEXT.bad_header(path, error) from error
        tokens, ends = mapped(path, "tokens", np.int32, n_tokens), mapped(path, "ends", np.int64, n_sentences)
        try:
            vocabulary = Vocabulary.load(path / _VOCABULARY)
        except InputError as error:
            expected = f"one with a readable {_VOCABULARY}"
            raise bad_folder(path, expected, str(error).rstrip("."), "Make it again.") from error
        made = cls(tokens, ends, vocabulary)
        made._folder = path
        return made


def check_encoded(owner: str, corpus: EncodedCorpus) -> None:
    """Refuse a text that was altered: compiled code goes where its numbers point.

    Raises
    ------
    DataError
        If a number is none of a word, or the sentences do not make up the text.
    """
    hint = "Encode the text again: it was altered."
    n_words, last = len(corpus.vocabulary), 0
    for start in range(0, corpus.n_tokens, _BLOCK):
        part = corpus.tokens[start : start + _BLOCK]
        if part.min() < 0 or part.max() >= n_words:
            wrong = int(np.flatnonzero((part < 0) | (part >= n_words))[0])
            expected = f"one whose tokens are numbers of its {n_words} words"
            raise DataError(owner, "corpus", expected, f"{part[wrong]} at place {start + wrong}", hint)
    for start in range(0, len(corpus), _BLOCK):
        part = np.diff(corpus.ends[start : start + _BLOCK], prepend=last)
        last += int(part.sum())
        if part.min() < 1:
            raise DataError(owner, "corpus", "one whose sentences end one after another", "other ends", hint)
    if last != corpus.n_tokens:
        raise DataError(owner, "corpus", f"one whose last sentence ends at {corpus.n_tokens}", last, hint)


def _finish(folder: Path, n_tokens: int, n_sentences: int, vocabulary: Vocabulary) -> None:
    vocabulary.save(folder / _VOCABULARY)
    TEXT.write_header(folder, {"n_tokens": n_tokens, "n_sentences": n_sentences})


def encode(scan: Scan, vocabulary: Vocabulary, folder: Path | None, *, own: bool) -> EncodedCorpus:
    """Return the text of a scan in the numbers of a vocabulary, in ``folder`` or in temporary files.

    ``own`` says that the vocabulary is the scan's own, without its rarest words.
    """
    numbers = _numbers(scan, vocabulary, own=own)

    def write(new: Path) -> tuple[int, int]:
        sizes = _write(scan, numbers, new)
        if not sizes[0]:
            got = f"none of its {len(vocabulary)} words"
            raise InputError("Corpus.encode", "vocabulary", "one with words of this text", got)
        return sizes

    if folder is not None:
        with TEXT.new("Corpus.encode", "folder", folder) as new:
            _finish(new, *write(new), vocabulary)
        return EncodedCorpus.open(folder)
    return in_temporary_files(write, vocabulary)


def in_temporary_files(write: Callable[[Path], object], vocabulary: Vocabulary) -> EncodedCorpus:
    """Return the text whose ``tokens.npy`` and ``ends.npy`` are written to a folder that lives as long as it."""
    temporary = Path(tempfile.mkdtemp(prefix="nearfar-text-"))
    try:
        write(temporary)
        made = EncodedCorpus(map_npy(temporary / "tokens.npy"), map_npy(temporary / "ends.npy"), vocabulary)
    except BaseException:
        rmtree(temporary, ignore_errors=True)
        raise
    weakref.finalize(made, rmtree, temporary, ignore_errors=True)
    made._folder = temporary
    return made


def renumbered(corpus: EncodedCorpus, numbers: NDArray[np.integer], vocabulary: Vocabulary) -> EncodedCorpus:
    """Return a text whose word number k is ``numbers[k]`` of another vocabulary, in temporary files."""

    def write(folder: Path) -> None:
        with ArrayFile(folder / "tokens.npy", np.int32) as tokens, ArrayFile(folder / "ends.npy", np.int64) as ends:
            for start in range(0, corpus.n_tokens, _BLOCK):
                tokens.append(numbers[corpus.tokens[start : start + _BLOCK]])
            ends.append(corpus.ends)

    return in_temporary_files(write, vocabulary)


def _numbers(scan: Scan, vocabulary: Vocabulary, *, own: bool) -> list[NDArray[np.int32]]:
    """Return for each worker of the scan what its numbers become; -1 for words that the vocabulary has not."""
    if own:
        new = np.arange(len(scan.words), dtype=np.int32)
        new[len(vocabulary) :] = -1
    else:
        words = (word.decode("utf-8", "surrogatepass") for word in scan.words)
        new = vocabulary.words.rows(words).astype(np.int32)
    return [new[place] for place in scan.numbers]


def _write(scan: Scan, numbers: list[NDArray[np.int32]], folder: Path) -> tuple[int, int]:
    last_end = 0
    with ArrayFile(folder / "tokens.npy", np.int32) as tokens, ArrayFile(folder / "ends.npy", np.int64) as ends:
        for piece in scan.pieces:
            old = scan.read(piece)
            new_tokens, new_ends = np.empty(old.size, np.int32), np.empty(old.size, np.int64)
            n_tokens, n_ends = renumber(old, numbers[piece.worker], new_tokens, new_ends, tokens.size, last_end)
            last_end = int(new_ends[n_ends - 1]) if n_ends else last_end
            tokens.append(new_tokens[:n_tokens])
            ends.append(new_ends[:n_ends])
        return tokens.size, ends.size
