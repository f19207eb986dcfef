"""`EncodedCorpus`: a text as numbers of words, in memory-mapped files."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from shutil import copyfile, rmtree

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_path
from nearfar.errors import DataError, InputError
from nearfar.storage._array_files import ArrayFile, map_npy
from nearfar.storage._folders import FolderKind, bad_folder, mapped
from nearfar.text import _word_kernels as kernels
from nearfar.text._scan import Scan
from nearfar.text.vocabulary import Vocabulary

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
            n_tokens, n_ends = kernels.renumber(old, numbers[piece.worker], new_tokens, new_ends, tokens.size, last_end)
            last_end = int(new_ends[n_ends - 1]) if n_ends else last_end
            tokens.append(new_tokens[:n_tokens])
            ends.append(new_ends[:n_ends])
        return tokens.size, ends.size
