"""Model files of fastText, read only: ``model.bin``, its words, and the vectors of their n-grams.

After two numbers that say what it is, a file holds parameters, the words with their counts, and the matrix of inputs:
a row for each word, then one for each bucket of n-grams, see :class:`nearfar.text.subwords.NGrams`. A word's vector is
the mean of its own row and those of its n-grams. The matrix of outputs, which stands last, is not kept. Files whose
matrix is quantised (``.ftz``) are refused: they hold codes in place of rows.
"""

from __future__ import annotations

import struct
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import bad_file
from nearfar.embedding.parts import MEAN, Parts
from nearfar.errors import FileFormatError
from nearfar.text.subwords import LONGEST, NGrams

MAGIC = struct.pack("<i", 793712314)
_VERSIONS, _SUPERVISED = (11, 12), 3
_PARAMETERS = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "rate")
_LONGEST = 1 << 16  # bytes of a word
_CHUNK, _WORDS = 1 << 20, 4096
_NO_SUBWORDS = b"</s>"  # the end of a line is one of fastText's words, without n-grams


class Model(NamedTuple):
    """What is kept of a file: the words as bytes, their vectors, and parts, if words have some."""

    words: list[bytes]
    vectors: NDArray[np.float32]
    parts: Parts | None


class _Bytes:
    """The bytes of a file, one after the other; where they end early, the file is no whole one."""

    def __init__(self, path: Path, held: bytes, file: BufferedReader, size: int) -> None:
        self._path, self._held, self._file, self._size, self._at = path, held, file, size, 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        """Return numbers of a layout of ``struct``."""
        data = self._held[self._at : self._at + struct.calcsize(layout)]
        self._at += len(data)
        data += self._file.read(struct.calcsize(layout) - len(data))
        if len(data) < struct.calcsize(layout):
            raise self.short()
        return struct.unpack(layout, data)

    def text(self) -> bytes:
        """Return the bytes before the next zero, which is left out as well."""
        while (end := self._held.find(b"\0", self._at)) < 0:
            if len(self._held) - self._at > _LONGEST:
                raise bad_file(self._path, f"one of words of at most {_LONGEST:,} bytes", "a longer one")
            more = self._file.read(_CHUNK)
            if not more:
                raise self.short()
            self._held, self._at = self._held[self._at :] + more, 0
        found, self._at = self._held[self._at : end], end + 1
        return found

    def rows(self, n: int, d: int) -> NDArray[np.float32]:
        """Return a matrix."""
        self.check(4 * n * d)
        try:
            made = np.empty((n, d), "<f4")
        except (MemoryError, ValueError) as error:
            raise bad_file(self._path, "one whose vectors fit into memory", f"{n} rows of {d} numbers") from error
        view = made.reshape(-1).view(np.uint8).data
        held = self._held[self._at : self._at + len(view)]
        view[: len(held)], at = held, len(held)
        self._at += len(held)
        while at < len(view):
            read = self._file.readinto(view[at:])
            if not read:
                raise self.short()
            at += read
        if not all(np.isfinite(made[k : k + _WORDS]).all() for k in range(0, n, _WORDS)):
            raise bad_file(self._path, "one of finite vectors", "NaN or infinity")
        return made.astype(np.float32, copy=False)

    def skip(self, n: int) -> None:
        """Pass over bytes."""
        n -= len(self._held) - self._at
        while n > 0:
            read = len(self._file.read(min(n, _CHUNK)))
            if not read:
                raise self.short()
            n -= read

    def check(self, n: int) -> None:
        """Refuse what says that more bytes follow than the file has."""
        if n > self._size:
            raise self.short()

    def short(self) -> FileFormatError:
        """Return the error for a file that ends too early."""
        return bad_file(self._path, "a complete model file of fastText", "one that was cut short, or numbers that lie")


def read(path: Path, held: bytes, file: BufferedReader, size: int) -> Model:
    """Read a model from what follows ``MAGIC``: bytes that were read already, and a file of at most ``size`` bytes.

    Raises
    ------
    FileFormatError
        If it is truncated, quantised, or of a version that is not known.
    """
    source = _Bytes(path, held, file, size)
    (version,) = source.numbers("<i")
    if version not in _VERSIONS:
        raise bad_file(path, f"a model file of fastText of version {' or '.join(map(str, _VERSIONS))}", str(version))
    given = dict(zip(_PARAMETERS, source.numbers("<12id"), strict=False))
    n_entries, n_words, n_labels, _, n_pruned = source.numbers("<iiiqq")
    d, n_buckets, longest = given["dim"], given["bucket"], given["maxn"]
    if version == 11 and given["model"] == _SUPERVISED:  # which had no n-grams of characters
        longest = 0
    sound = d > 0 and n_words >= 0 and n_labels >= 0 and n_entries == n_words + n_labels and n_buckets >= 0
    if not sound or not 0 <= longest <= LONGEST or (longest and not n_buckets):
        raise bad_file(path, "a model file of fastText", f"{n_words} words of {d} numbers and {n_buckets} buckets")
    source.check(10 * n_entries)
    words = []
    for _ in range(n_entries):
        word = source.text()
        if source.numbers("<qb")[1] == 0:  # else a label
            words.append(word)
    if n_pruned > 0 or source.numbers("<?")[0]:
        hint = "The .bin beside it, or model.get_words() and get_word_vector() by fastText, have whole ones."
        raise bad_file(path, "a model file of fastText that holds vectors", "a quantised one (.ftz)", hint)
    n_rows, width = source.numbers("<qq")
    if (n_rows, width, len(words)) != (n_words + n_buckets, d, n_words):
        got = f"{n_rows} rows of {width} numbers for {len(words)} words and {n_buckets} buckets"
        raise bad_file(path, "a model file of fastText", got)
    vectors = source.rows(n_words, d)
    buckets = source.rows(n_buckets, d)
    source.numbers("<?")
    n_outputs, width = source.numbers("<qq")
    if n_outputs < 0 or width < 0:
        raise source.short()
    source.skip(4 * n_outputs * width)
    if not longest:
        return Model(words, vectors, None)
    parts = Parts(NGrams(max(given["minn"], 1), longest, n_buckets), np.arange(n_buckets), buckets, MEAN)
    _add_parts(words, vectors, parts)
    return Model(words, vectors, parts)


def _add_parts(words: list[bytes], vectors: NDArray[np.float32], parts: Parts) -> None:
    """Make the own rows of words the means of these and of the rows of their n-grams."""
    for start in range(0, len(words), _WORDS):
        some = words[start : start + _WORDS]
        n = np.diff(parts.cutter.cut(some).starts).astype(np.float32)
        n[[word == _NO_SUBWORDS for word in some]] = 0
        rows = vectors[start : start + _WORDS]
        rows += n[:, None] * parts.vectors_of(some)
        rows /= (1 + n)[:, None]
