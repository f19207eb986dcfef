"""`EncodedCorpus`: a text as numbers of words, in memory-mapped files; and the one pass over text that numbers them.

Text is a uint8 array of UTF-8, with a table that says what each byte is: part of a word, between words, or the end of a
sentence. Workers take pieces of text in turn and number words each by itself, in the order in which they come to it, by
an open hash table. The numbers go to temporary files, and the text is not needed again. Afterwards the words of all
workers are put together: the most frequent first, those of equal frequency in the order in which they first came. So
the result does not depend on the number of workers, nor on who took which piece.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from itertools import chain, count
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import ArrayFile, FolderKind, OpenedFolder, check_unaltered, map_within, whole
from nearfar._core.checks import bad_folder, check_integer, check_path, check_real
from nearfar._core.jit import jit
from nearfar._core.notebook import facts_table
from nearfar._core.threads import run_blocks
from nearfar._core.types import Bytes, Longs
from nearfar.errors import DataError, InputError
from nearfar.text.vocabulary import Vocabulary
from nearfar.text.words import only_words

TEXT = FolderKind("text", "text.json", "nearfar.text", 1, inner=("vocabulary.tsv",))
_VOCABULARY = "vocabulary.tsv"
_BLOCK, _PAIRS = 2**20, 2**22  # numbers that are checked together, and whose pairs are counted
_WORKERS = 8  # that count words: each holds all of them, and one alone reads at a time
_ALONE = 2**22  # bytes that one worker has counted before another has begun


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
        self._checksums: Mapping[str, int] = {}

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        start = 0
        for end in self.ends.tolist():
            yield self.tokens[start:end]
            start = end

    def __repr__(self) -> str:
        return f"EncodedCorpus({self.n_tokens} tokens of {len(self.vocabulary)} words, {len(self)} sentences)"

    def _repr_html_(self) -> str:
        most = ", ".join(
            f"{word} ({count})" for word, count in zip(self.vocabulary.words[:8], self.vocabulary.counts, strict=False)
        )
        facts = {"tokens": self.n_tokens, "words": len(self.vocabulary), "sentences": len(self), "most frequent": most}
        return facts_table("EncodedCorpus", facts)

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
        FileFormatError, DataError
            If the text was opened from a folder and altered there.
        """
        path = check_path("EncodedCorpus.save", "folder", folder)
        check_encoded("EncodedCorpus.save", self)  # new checksums must not make what was altered sound
        with TEXT.new("EncodedCorpus.save", "folder", path) as new:
            _write(new, [(self.tokens, self.ends)], self.vocabulary)

    def phrases(self, *, min_count: int = 5, threshold: float = 10.0) -> EncodedCorpus:
        """Return the text with pairs of words that belong together made one word.

        A pair is a phrase where ``(c_ab - min_count) n / (c_a c_b)`` is above ``threshold``, with the counts of the
        pair and of its words, and n different words and pairs. Phrases are made from the left; of three words that
        belong together the first two, and the third by another call. Rare words, which are left out, stand between
        none.

        Parameters
        ----------
        min_count : int, default=5
            Pairs that come no more often are none.
        threshold : float, default=10.0
            The higher, the fewer phrases.

        Returns
        -------
        EncodedCorpus
            In temporary files, with a vocabulary of words and phrases.

        Raises
        ------
        InputError
            An argument that cannot be used.

        References
        ----------
        Mikolov, Sutskever, Chen, Corrado & Dean (2013), "Distributed representations of words and phrases and their
        compositionality", eq. 6, times n as in gensim, so that a threshold suits texts of any length.

        Examples
        --------
        >>> import nearfar as nf
        >>> text = [["in", "new", "york", "in", "may"], ["new", "york", "in", "june"], ["may", "june"]] * 9
        >>> list(nf.Corpus(text).encode().phrases(threshold=0.4).vocabulary)
        ['in', 'may', 'june', 'new_york']
        """
        owner = "EncodedCorpus.phrases"
        check_encoded(owner, self)
        check_integer(owner, "min_count", min_count, low=1)
        check_real(owner, "threshold", threshold, low=0)
        words, counts, ends, n = self.vocabulary.words, self.vocabulary.counts, self.ends, len(self.vocabulary)
        # The pairs that follow each other in a sentence, a n + b, and how often they do.
        pairs, often = np.empty(0, np.int64), np.empty(0, np.int64)
        for start in range(0, self.n_tokens - 1, _PAIRS):
            stop = min(start + _PAIRS, self.n_tokens - 1)
            over = ends[(ends > start) & (ends <= stop)] - 1 - start
            codes, times = np.unique(np.delete(_codes(self.tokens[start : stop + 1], n), over), return_counts=True)
            pairs, place = np.unique(np.concatenate([pairs, codes]), return_inverse=True)
            often = np.bincount(place, np.concatenate([often, times]), minlength=len(pairs)).astype(np.int64)
        n_all = float(n + len(pairs))
        scores = (often - min_count) * n_all / (counts[pairs // n] * counts[pairs % n].astype(np.float64))
        pairs = pairs[(often > min_count) & (scores > threshold)]

        # A phrase takes the place of its first word, as the word n + k of its pair k; its second word goes.
        tokens, made = np.array(self.tokens), np.zeros(self.n_tokens, np.bool_)
        codes = _codes(tokens, n)
        place = np.minimum(np.searchsorted(pairs, codes), max(len(pairs) - 1, 0))
        match = (pairs[place] == codes) if len(pairs) else np.zeros(len(codes), np.bool_)
        match[ends[:-1] - 1] = False  # no phrase goes on in the next sentence
        at = np.arange(len(match))
        before = np.maximum.accumulate(np.where(match, -1, at)) if len(match) else at
        made[:-1] = match & ((at - before) % 2 == 1)  # of matches in a row the first, the third and so on
        tokens[:-1][made[:-1]] = n + place[made[:-1]]
        kept = np.ones(len(tokens), np.bool_)
        kept[1:] = ~made[:-1]
        gone = np.concatenate([[0], np.cumsum(~kept)])
        tokens, ends = tokens[kept], ends - gone[ends]

        both = zip((pairs // n).tolist(), (pairs % n).tolist(), strict=True)
        names = [*map(str, words), *(f"{words[a]}_{words[b]}" for a, b in both)]
        first: dict[str, int] = {}
        same = np.array([first.setdefault(name, k) for k, name in enumerate(names)])  # a name that is twice is one
        counts = np.bincount(same[tokens], minlength=len(names))
        met = np.flatnonzero(counts)
        vocabulary = Vocabulary([names[k] for k in met.tolist()], counts[met])
        numbers = vocabulary.words.rows([names[k] for k in same.tolist()])
        return renumbered(EncodedCorpus(tokens, ends, vocabulary), numbers, vocabulary)

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> EncodedCorpus:
        """Open what :meth:`save` or ``Corpus.encode(folder=...)`` wrote.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        EncodedCorpus
            Its arrays are mapped from the files, which must not be changed in place: numbers that are altered are used,
            and a file that is cut ends the process (SIGBUS). A folder may be replaced: what was opened stays.

        Raises
        ------
        InputError
            If there is no such folder.
        FileFormatError
            If it is none, or a file of it is missing or was cut short. Numbers are looked at when they are trained on,
            and compared with their checksums: then one that stands for no word raises
            :class:`nearfar.errors.DataError`, any other that was altered this error.
        """
        path = check_path("EncodedCorpus.open", "folder", folder)
        if not path.is_dir():
            raise InputError("EncodedCorpus.open", "folder", "a folder that exists", repr(str(path)))
        return TEXT.opened(path, cls._in)

    @classmethod
    def _in(cls, folder: OpenedFolder, content: Mapping[str, Any]) -> EncodedCorpus:
        with TEXT.reading(folder.path):
            n_tokens, n_sentences = whole(content["n_tokens"]), whole(content["n_sentences"])
        tokens = map_within(folder, "tokens", np.int32, n_tokens)
        ends = map_within(folder, "ends", np.int64, n_sentences)
        expected, hint = f"one with a readable {_VOCABULARY}", "Make it again."
        try:
            with folder.file(_VOCABULARY) as file:
                data = file.file.read()
        except OSError as error:
            raise bad_folder(folder.path, expected, str(error), hint) from error
        checksums = content.get("checksums", {})
        if zlib.crc32(data) != checksums.get(_VOCABULARY):
            raise bad_folder(folder.path, "what was written", f"an altered {_VOCABULARY}", hint)
        try:
            vocabulary = Vocabulary._of_file(BytesIO(data), str(folder.path / _VOCABULARY))
        except InputError as error:
            raise bad_folder(folder.path, expected, str(error).rstrip("."), hint) from error
        made = cls(tokens, ends, vocabulary)
        made._folder, made._checksums = folder.path, checksums
        return made


def _codes(tokens: NDArray[np.int32], n: int) -> Longs:
    """Return each word a and the next one b as a n + b."""
    return tokens[:-1].astype(np.int64) * n + tokens[1:]


def check_encoded(owner: str, corpus: EncodedCorpus) -> None:
    """Refuse a text that was altered: compiled code goes where its numbers point.

    Raises
    ------
    DataError
        If a number is none of a word, or the sentences do not make up the text.
    FileFormatError
        If anything is not what was stored.
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
    for name in ("tokens", "ends"):
        check_unaltered(corpus._folder or Path(), name, getattr(corpus, name), corpus._checksums)


Pieces = Iterable[tuple[NDArray[np.integer], Longs]]
"""A text piece by piece: numbers of words, and where sentences end among all."""


def renumbered(corpus: EncodedCorpus, numbers: NDArray[np.integer], vocabulary: Vocabulary) -> EncodedCorpus:
    """Return a text whose word number k is ``numbers[k]`` of another vocabulary, in temporary files."""
    starts = range(0, corpus.n_tokens, _BLOCK)
    words = ((numbers[corpus.tokens[start : start + _BLOCK]], np.empty(0, np.int64)) for start in starts)
    return stored(chain(words, [(np.empty(0, np.int32), corpus.ends)]), vocabulary)


def stored(pieces: Pieces, vocabulary: Vocabulary, folder: Path | None = None) -> EncodedCorpus:
    """Return a text in a folder, or in temporary files that live as long as it."""
    if folder is not None:
        with TEXT.new("Corpus.encode", "folder", folder) as new:
            _write(new, pieces, vocabulary)
        return EncodedCorpus.open(folder)
    temporary = Path(tempfile.mkdtemp(prefix="nearfar-text-"))
    try:
        with (temporary / "tokens").open("xb") as tokens, (temporary / "ends").open("xb") as ends:
            for words, stops in pieces:
                tokens.write(np.ascontiguousarray(words, np.int32).data)
                ends.write(np.ascontiguousarray(stops, np.int64).data)
        # Plain arrays: kernels would be compiled once more for the subclass.
        arrays: list[Any] = [
            np.asarray(np.memmap(file, kind, "r")) if file.stat().st_size else np.empty(0, kind)
            for file, kind in ((temporary / "tokens", np.int32), (temporary / "ends", np.int64))
        ]
        made = EncodedCorpus(arrays[0], arrays[1], vocabulary)
    except BaseException:
        rmtree(temporary, ignore_errors=True)
        raise
    weakref.finalize(made, rmtree, temporary, ignore_errors=True)
    made._folder = temporary
    return made


def _write(folder: Path, pieces: Pieces, vocabulary: Vocabulary) -> None:
    """Write a text to a folder that :meth:`EncodedCorpus.open` opens."""
    with ArrayFile(folder / "tokens.npy", np.int32) as tokens, ArrayFile(folder / "ends.npy", np.int64) as ends:
        for words, stops in pieces:
            tokens.append(words)
            ends.append(stops)
    vocabulary.save(folder / _VOCABULARY)
    TEXT.write_header(folder, {"n_tokens": tokens.size, "n_sentences": ends.size})


_POSITIONS = 2**32  # positions within a piece of text are below it


class Piece(NamedTuple):
    """Where the numbers of a piece of text are: which worker's file, from where, how many."""

    worker: int
    start: int
    size: int


class Scan:
    """The numbered words of a text, all of them; the temporary files go when it does.

    Attributes
    ----------
    counts : ndarray of shape (n_types,), int64
        Of the words, the most frequent first.
    n_tokens : int
        Words in all.
    n_bytes : int
        Bytes of the text, without the ends of its pieces.
    pieces : list of Piece
        In the order of the text.
    numbers : list of ndarray, int64
        For each worker, the place of each of its words among all.
    """

    def __init__(self, texts: Iterator[tuple[Bytes, Cut]], n_jobs: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nearfar-text-"))
        weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        first, n_bytes = list[tuple[Bytes, Cut]](), 0
        while n_bytes <= _ALONE and (piece := next(texts, None)) is not None:
            first.append(piece)
            n_bytes += piece[0].size
        piece = None  # it is let go with the others
        n_jobs = min(n_jobs, _WORKERS) if n_bytes > _ALONE else 1
        lock, found, turns = threading.Lock(), dict[int, Piece](), count()
        tables = [WordTable() for _ in range(n_jobs)]
        self.n_bytes = 0

        def work(worker: int, *_: int) -> None:
            with (self._folder / f"{worker}.i32").open("wb") as file:
                while True:
                    with lock:  # reading and decompressing is in turn, counting is not
                        read = first.pop(0) if first else next(texts, None)
                        if read is None:
                            return
                        index, (text, cut) = next(turns), read
                        self.n_bytes += text.size - 1
                    start = file.tell() // 4
                    for numbers in tables[worker].numbered(text, cut, index * _POSITIONS):
                        file.write(numbers.data)
                    found[index] = Piece(worker, start, file.tell() // 4 - start)

        run_blocks(work, range(n_jobs + 1), n_jobs)
        self.pieces = [found[index] for index in sorted(found)]

        whole = tables[0]
        places = [np.arange(whole.state[0]), *(whole.take_in(table) for table in tables[1:])]
        n = int(whole.state[0])
        order = np.lexsort((whole.firsts[:n], -whole.counts[:n]))
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n)
        self._order, self._begins = order, whole.begins[: n + 1]
        self._letters = whole.letters[: whole.begins[n]].tobytes()
        self.counts = whole.counts[:n][order]
        self.n_tokens = int(self.counts.sum())
        self.numbers = [rank[place] for place in places]

    def words(self, n: int | None = None) -> list[str]:
        """Return the words, or the n most frequent; made when they are asked for, as most are too rare to be."""
        return spelled(self._letters, self._begins, self._order[:n])

    def read(self, piece: Piece) -> NDArray[np.int32]:
        """Return the numbers of a piece, with -1 at the ends of sentences; they are those of its worker."""
        return np.fromfile(self._folder / f"{piece.worker}.i32", np.int32, piece.size, offset=4 * piece.start)

    def in_numbers(self, new: NDArray[np.int32], n_words: int) -> Pieces:
        """Yield the text in the numbers of another vocabulary, of so many words: -1 for those that it has not."""
        numbers = [new[place] for place in self.numbers]  # of each worker
        n_tokens = last_end = 0
        for piece in self.pieces:
            tokens, ends = renumber(self.read(piece), numbers[piece.worker], n_tokens, last_end)
            n_tokens += tokens.size
            last_end = int(ends[-1]) if ends.size else last_end
            yield tokens, ends
        if not n_tokens:
            got = f"none of its {n_words} words"
            raise InputError("Corpus.encode", "vocabulary", "one with words of this text", got)


class Cut(NamedTuple):
    """How text is cut: what each byte is (``kinds_of``), and whether what is no word is left out first."""

    kinds: Bytes
    punctuation_out: bool = False


class Packed(NamedTuple):
    """Words in their order, and how often each came: hashes, where each begins in the letters, counts, letters."""

    hashes: NDArray[np.uint64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]
    letters: NDArray[np.uint8]


class WordTable:
    """A hash table of words that grows, as the kernels take it.

    Attributes
    ----------
    slots : ndarray, int32
        Number of a word + 1, or 0; the size is a power of two, and more than there are words.
    hashes, counts, firsts : ndarray
        Of each word: how often it came, and where first.
    begins, letters : ndarray
        The words one after another.
    state : ndarray of shape (1,), int64
        Number of words.
    """

    _FIRST_SIZE = 2**14  # words

    def __init__(self) -> None:
        n = self._FIRST_SIZE
        self.state, self.slots = np.zeros(1, np.int64), np.zeros(4 * n, np.int32)
        self.hashes, self.begins = np.zeros(n, np.uint64), np.zeros(n + 1, np.int64)
        self.counts, self.firsts = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.letters = np.empty(8 * n, np.uint8)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """What the kernels take, and change."""
        return self.slots, self.hashes, self.begins, self.counts, self.firsts, self.letters, self.state

    def numbered(self, text: Bytes, cut: Cut, base: int) -> Iterator[NDArray[np.int32]]:
        """Yield the numbers of all words of a piece of text, in parts; ``base`` is where the piece begins."""
        text, kinds = only_words(text, cut.kinds) if cut.punctuation_out else text, cut.kinds
        position, full, out = 0, True, np.empty(text.size + 1, np.int32)
        while full:
            position, written, full = number_words((text, kinds), position, base, self.arrays, out)
            yield out[:written]
            if full:
                self._double()

    def take_in(self, other: WordTable) -> NDArray[np.int64]:
        """Add the words of another worker; return what their numbers become."""
        done, n = 0, int(other.state[0])
        place = np.empty(n, np.int64)
        while (done := merge_words(other.arrays, done, self.arrays, place)) < n:
            self._double()
        return place

    @classmethod
    def of(cls, words: Packed) -> WordTable:
        """Return a table from which :meth:`take_in` takes words that :meth:`packed` packed."""
        made, n = cls.__new__(cls), len(words.hashes)
        made.hashes, made.begins = words.hashes.copy(), words.begins.copy()
        made.counts, made.letters = words.counts.copy(), words.letters.copy()
        made.state, made.slots, made.firsts = np.array([n]), np.zeros(1, np.int32), np.zeros(n, np.int64)
        return made

    def packed(self, order: NDArray[np.int64] | None = None) -> Packed:
        """Return the words and their counts without room for more; some of them, in another order, if one is given."""
        n = int(self.state[0])
        begins, letters = self.begins[: n + 1], self.letters[: self.begins[n]]
        if order is None:
            return Packed(self.hashes[:n], begins, self.counts[:n], letters)
        lengths = np.diff(begins)[order]
        ends = np.append(0, np.cumsum(lengths))
        at = np.repeat(begins[order] - ends[:-1], lengths) + np.arange(ends[-1])
        return Packed(self.hashes[order], ends, self.counts[order], letters[at])

    def _double(self) -> None:
        for name in ("letters", "hashes", "begins", "firsts", "counts"):
            array = getattr(self, name)
            more = self.counts.size if name == "begins" else array.size
            setattr(self, name, np.concatenate([array, np.zeros(more, array.dtype)]))
        self.slots = np.zeros(2 * self.slots.size, np.int32)
        fill_slots(self.hashes, self.state[0], self.slots)


def spelled(letters: bytes, begins: NDArray[np.int64], order: NDArray[np.int64]) -> list[str]:
    """Return words in a given order, of which each begins somewhere in the letters, UTF-8."""
    spans = zip(begins[order].tolist(), begins[order + 1].tolist(), strict=True)
    return [letters[start:end].decode("utf-8", "surrogatepass") for start, end in spans]


WORD, BETWEEN, END = 0, 1, 2
"""What a byte is."""
SENTENCE_END = -1
"""What stands between the numbers of the words of two sentences."""
_SEED, _FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


def kinds_of(between: bytes, ends: bytes) -> Bytes:
    """Return the table of bytes for the kernels."""
    kinds = np.full(256, WORD, np.uint8)
    kinds[np.frombuffer(between, np.uint8)] = BETWEEN
    kinds[np.frombuffer(ends, np.uint8)] = END
    return kinds


@jit
def number_words(piece, position, base, table, out):
    """Write the numbers of the words from ``position`` on; return where it ended, how many were written, if it is full.

    ``piece`` is (text, kinds); ``table`` the arrays of a ``WordTable``. It ends early when one of them is full: make
    all larger, and go on.
    """
    text, kinds = piece
    slots, hashes, begins, counts, firsts, letters, state = table
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
                    return first, written, True
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
    return position, written, False


@jit
def _same(letters, start, stop, text, first, length):
    if stop - start != length:
        return False
    for k in range(length):  # noqa: SIM110 - compiled
        if letters[start + k] != text[first + k]:
            return False
    return True


@jit
def merge_words(others, start, table, place):
    """Take in the words of another table from number ``start`` on; write to ``place`` what their numbers become.

    It ends early when an array is full, and returns which word is the next.
    """
    _, other_hashes, other_begins, other_counts, other_firsts, other_letters, other_state = others
    slots, hashes, begins, counts, firsts, letters, state = table
    n_others = other_state[0]
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
                for k in range(length):  # a slice would compile numba's error message about its length, for a second
                    letters[begin + k] = other_letters[first + k]
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


def renumber(
    old: NDArray[np.int32], numbers: NDArray[np.int32], at: int, last_end: int
) -> tuple[NDArray[np.int32], Longs]:
    """Return the new numbers of the words, without those that ``numbers`` maps to -1, and where sentences end.

    ``at`` words were written before, the last sentence ended at ``last_end``; sentences without a word are left out.
    """
    word = old != SENTENCE_END
    new = numbers[old[word]]
    kept = word.copy()
    kept[word] = new >= 0
    ends = at + np.cumsum(kept)[~word]
    return new[new >= 0], ends[np.diff(ends, prepend=last_end) > 0]
