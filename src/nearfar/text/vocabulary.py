"""`Vocabulary`: words, their numbers and how often they came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import check_numbers, check_path
from nearfar._core.ids import Ids
from nearfar._core.streams import TextStream
from nearfar.errors import DataError, InputError, UnknownIdError

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_PLAIN, _ESCAPED = {escaped: plain for plain, escaped in _ESCAPES.items()}, re.compile(r"(\\.)")
_HEADER = "word\tcount\n"


class Vocabulary:
    """Words with their counts, the most frequent first; a word's number is its place.

    That of a model that went on with more text (``partial_fit``) has its words in the order in which they came in.

    Parameters
    ----------
    words : iterable of str
        Distinct. Sorted by count, the most frequent first; words that are equally frequent keep their order.
    counts : array-like of shape (n,), int
        How often each came in the text, at least 1.

    Attributes
    ----------
    counts : ndarray of shape (n,), int64, read-only
    words : Ids
        A sequence of str.

    Raises
    ------
    InputError
        Words that are not distinct or no strings, or counts that do not go with them.

    Examples
    --------
    >>> from nearfar import Vocabulary
    >>> vocabulary = Vocabulary(["sea", "the", "ship"], [2, 9, 2])
    >>> list(vocabulary), vocabulary.counts.tolist(), vocabulary["ship"]
    (['the', 'sea', 'ship'], [9, 2, 2], 2)
    >>> "sea" in vocabulary
    True
    """

    def __init__(self, words: Iterable[str], counts: ArrayLike) -> None:
        words = list(words)
        given = self._checked(words, counts)
        order = np.argsort(-given, kind="stable")
        self._keep([words[k] for k in order], given[order])

    @classmethod
    def _in_order(cls, words: list[str], counts: NDArray[np.int64]) -> Vocabulary:
        """Make one of what the library counted itself: words keep their places, whatever their counts."""
        made = cls.__new__(cls)
        made._keep(words, counts)
        return made

    @staticmethod
    def _checked(words: list[str], counts: ArrayLike) -> NDArray[np.int64]:
        if wrong := [word for word in words if not isinstance(word, str) or not word]:
            raise InputError("Vocabulary", "words", "strings with at least one character", repr(wrong[0]))
        given = check_numbers("Vocabulary", "counts", counts, f"{len(words)} integers, one per word")
        if given.shape != (len(words),) or (given.size and given.dtype.kind not in "iu"):
            expected = f"{len(words)} integers, one per word"
            raise InputError("Vocabulary", "counts", expected, f"{given.dtype} of shape {given.shape}")
        if given.size and given.min() < 1:
            raise InputError("Vocabulary", "counts", "at least 1", int(given.min()))
        if given.size and given.max() >= 2**63:
            raise InputError("Vocabulary", "counts", "below 2**63", int(given.max()))
        return given.astype(np.int64)

    def _keep(self, words: list[str], counts: NDArray[np.int64]) -> None:
        self.words = Ids(words, owner="Vocabulary", name="words")
        self.counts = counts
        self.counts.setflags(write=False)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return cast("Iterator[str]", iter(self.words))

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __getitem__(self, word: str) -> int:
        row = self.words.get(word)
        if row < 0:
            raise UnknownIdError("Vocabulary", [word], known=self.words)
        return row

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Vocabulary) and self.words == other.words
        return same and np.array_equal(self.counts, cast("Vocabulary", other).counts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words, {self.n_tokens} tokens)"

    @cached_property
    def n_tokens(self) -> int:
        """Sum of the counts."""
        return int(self.counts.sum())

    def save(self, path: str | PathLike[str]) -> None:
        r"""Write a text file: the header ``word<TAB>count``, then a line per word.

        Parameters
        ----------
        path : path-like
            The file appears whole or not at all. In words, a tab, a line end or a backslash is written as ``\t``,
            ``\n``, ``\r`` or ``\\``.

        Raises
        ------
        InputError
            If the path cannot be written to.
        """
        table = str.maketrans(_ESCAPES)
        target = check_path("Vocabulary.save", "path", path)
        with atomic_write(target, owner="Vocabulary.save", check=Vocabulary.load) as file:
            file.write(_HEADER.encode())
            for word, count in zip(self, self.counts.tolist(), strict=True):
                file.write(f"{word.translate(table)}\t{count}\n".encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Vocabulary:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        Vocabulary

        Raises
        ------
        InputError
            If there is no such file.
        DataError
            If it is no such file (which line).
        """
        path = check_path("Vocabulary.load", "path", path, exists=True)
        return cls._of_file(path, str(path))

    @classmethod
    def _of_file(cls, file: Path | IO[bytes], shown: str) -> Vocabulary:
        words, counts = [], []
        with TextStream("Vocabulary.load", file, "path", joined=False) as stream:
            data = b"".join(iter(lambda: stream.read(1 << 20), b"")).replace(b"\r\n", b"\n")  # words have no line end
        if not data.startswith(_HEADER.encode()) or not data.endswith(b"\n"):
            got = f"{shown!r}, which is another file or was cut short"
            raise DataError("Vocabulary.load", "path", "a vocabulary that nearfar wrote", got)
        for number, line in enumerate(data.split(b"\n")[1:-1], 2):
            word, _, count = line.rpartition(b"\t")
            try:
                if not word or not count.isdigit() or len(count) > 19 or int(count) >= 1 << 63:
                    raise ValueError(line)
                parts = _ESCAPED.split(word.decode("utf-8", "surrogatepass"))
                words.append("".join(_PLAIN.get(part, part) for part in parts))
            except ValueError as error:
                got = f"line {number}: {line[:80]!r}"
                raise DataError("Vocabulary.load", "path", "lines of a word, a tab and a count", got) from error
            counts.append(int(count))
        return cls._in_order(words, cls._checked(words, np.array(counts, np.int64)))


def keep_probabilities(counts: NDArray[np.int64], sample: float) -> NDArray[np.float32]:
    """Return word2vec's (sqrt(c / (t N)) + 1) t N / c, at most 1; empty if all words are kept (t = 0)."""
    if sample == 0:
        return np.empty(0, np.float32)
    relative = sample * counts.sum() / counts
    return np.minimum(np.sqrt(relative) + relative, 1).astype(np.float32)
