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


Model = tuple[list[bytes], NDArray[np.float32], Parts | None]
"""The words as bytes, their vectors, and parts, if words have some."""


def read(path: Path, file: BufferedReader, size: int) -> Model:
    """Read a model from a file of at most ``size`` bytes, of which ``MAGIC`` was read.

    Raises
    ------
    FileFormatError
        If it is truncated, quantised, or of a version that is not known.
    """

    def short() -> FileFormatError:
        return bad_file(path, "a complete model file of fastText", "one that was cut short, or numbers that lie")

    def numbers(layout: str) -> tuple[int, ...]:
        data = file.read(struct.calcsize(layout))
        if len(data) < struct.calcsize(layout):
            raise short()
        return struct.unpack(layout, data)

    def text() -> bytes:
        """Return the bytes before the next zero, which is left out as well."""
        found = b""
        while (end := (ahead := file.peek()).find(b"\0")) < 0:
            if len(found) > _LONGEST:
                raise bad_file(path, f"one of words of at most {_LONGEST:,} bytes", "a longer one")
            if not ahead:
                raise short()
            found += file.read(len(ahead))
        return found + file.read(end + 1)[:-1]

    def rows(n: int, d: int) -> NDArray[np.float32]:
        if 4 * n * d > size:
            raise short()
        try:
            made = np.empty((n, d), "<f4")
        except (MemoryError, ValueError) as error:
            raise bad_file(path, "one whose vectors fit into memory", f"{n} rows of {d} numbers") from error
        view, at = made.reshape(-1).view(np.uint8).data, 0
        while at < len(view):
            n_read = file.readinto(view[at:])
            if not n_read:
                raise short()
            at += n_read
        if not all(np.isfinite(made[k : k + _WORDS]).all() for k in range(0, n, _WORDS)):
            raise bad_file(path, "one of finite vectors", "NaN or infinity")
        return made.astype(np.float32, copy=False)

    (version,) = numbers("<i")
    if version not in _VERSIONS:
        raise bad_file(path, f"a model file of fastText of version {' or '.join(map(str, _VERSIONS))}", str(version))
    given = dict(zip(_PARAMETERS, numbers("<12id"), strict=False))
    n_entries, n_words, n_labels, _, n_pruned = numbers("<iiiqq")
    d, n_buckets, longest = given["dim"], given["bucket"], given["maxn"]
    if version == 11 and given["model"] == _SUPERVISED:  # which had no n-grams of characters
        longest = 0
    sound = d > 0 and n_words >= 0 and n_labels >= 0 and n_entries == n_words + n_labels and n_buckets >= 0
    if not sound or not 0 <= longest <= LONGEST or (longest and not n_buckets):
        raise bad_file(path, "a model file of fastText", f"{n_words} words of {d} numbers and {n_buckets} buckets")
    if 10 * n_entries > size:
        raise short()
    words = []
    for _ in range(n_entries):
        word = text()
        if numbers("<qb")[1] == 0:  # else a label
            words.append(word)
    if n_pruned > 0 or numbers("<?")[0]:
        hint = "The .bin beside it, or model.get_words() and get_word_vector() by fastText, have whole ones."
        raise bad_file(path, "a model file of fastText that holds vectors", "a quantised one (.ftz)", hint)
    n_rows, width = numbers("<qq")
    if (n_rows, width, len(words)) != (n_words + n_buckets, d, n_words):
        got = f"{n_rows} rows of {width} numbers for {len(words)} words and {n_buckets} buckets"
        raise bad_file(path, "a model file of fastText", got)
    vectors, buckets = rows(n_words, d), rows(n_buckets, d)
    numbers("<?")
    n_outputs, width = numbers("<qq")
    left = 4 * n_outputs * width
    if n_outputs < 0 or width < 0:
        raise short()
    while left > 0:  # the matrix of outputs is passed over
        n_read = len(file.read(min(left, _CHUNK)))
        if not n_read:
            raise short()
        left -= n_read
    if not longest:
        return words, vectors, None
    parts = Parts(NGrams(max(given["minn"], 1), longest, n_buckets), np.arange(n_buckets), buckets, MEAN)
    for start in range(0, len(words), _WORDS):  # a word's own row becomes the mean of it and of those of its n-grams
        some = words[start : start + _WORDS]
        n_grams = np.diff(parts.cutter.cut(some).starts).astype(np.float32)
        n_grams[[word == _NO_SUBWORDS for word in some]] = 0
        of_some = vectors[start : start + _WORDS]
        of_some += n_grams[:, None] * parts.vectors_of(some)
        of_some /= (1 + n_grams)[:, None]
    return words, vectors, parts
