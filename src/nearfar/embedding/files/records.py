"""Where the ids of a binary file of word vectors end: rows of an id, a blank, d float32, and a line feed or none.

Nothing marks the end of an id but the first blank, so an id that holds one, as other programs write it, makes of its
rest numbers, and of the last numbers the beginning of the next id. That shows: every row or none ends with a line feed,
ids have no control characters and are UTF-8, numbers are neither absurdly large nor small, and the last row ends where
the file does. If ids that end at their first blank do not fit so, all other ways to cut the file are looked through,
row by row. If one fits, and no other, it is right.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import bad_file
from nearfar.errors import FileFormatError

_USUAL = (1e-18, 1e10)  # numbers of vectors, but 0: of text, those that end with a blank are less, many others more
_AT_ONCE = 1 << 16  # numbers that are looked at together: they stay in the cache
_ID, _CONTROL = re.compile(rb"[^\x00-\x1f\x7f]{0,1024}"), re.compile(rb"[\x00-\x1f\x7f]")
_TRIES = 100_000, 8  # blanks that are tried before it is given up: so many, and so many for each row

Cut = tuple[int, int]
"""Where an id begins, and the blank behind it."""


def read_rows(path: Path, data: bytes, vectors: NDArray[np.float32], *, marked: bool) -> list[bytes]:
    """Write the numbers of all rows to ``vectors``, and return the ids.

    Parameters
    ----------
    path : Path
        For errors.
    data : bytes
        The rows.
    vectors : ndarray of shape (n, d)
        How many there are, and of how many numbers.
    marked : bool
        Whether blanks in ids are escaped.

    Raises
    ------
    FileFormatError
        If the rows are fewer or more, or cannot be told apart.
    """
    n, d = vectors.shape
    found = _to_first_blanks(path, data, vectors)
    names, problem = found.names, found.problem
    if marked or not n:
        if problem is not None:
            raise problem
        return names
    letters = b" ".join(names)
    clean, usual = not _CONTROL.search(letters), problem is None and _usual(vectors)
    fits = problem is None and clean and found.n_feeds in (0, n - 1) and _is_utf8(letters)
    if fits and usual:
        return names
    ways = _ways(data, n, d)
    if len(ways) == 1:
        for row, (_, space) in enumerate(ways[0]):
            vectors[row] = np.frombuffer(data, "<f4", d, space + 1)
        return [data[at:space] for at, space in ways[0]]
    if problem is not None:
        raise problem
    if clean and (usual or (fits and not ways)):
        return names
    odd = next((name for name in names if _CONTROL.search(name)), b"")
    got = f"control characters in ids, such as {odd[:40]!r}" if odd else f"numbers up to {np.abs(vectors).max():.3g}"
    hint = "It is no file of word vectors, or its ids have blanks: write it as text, or with another sign for blanks."
    raise bad_file(path, "in word2vec's binary format, whose ids end at the first blank", got, hint)


def too_short(path: Path, n: int, row: int, hint: str = "") -> FileFormatError:
    """Return the error for a file that ends within a row."""
    return bad_file(path, f"one of {n} rows, as its first line says", f"its end in row {row + 1}", hint)


class _Found(NamedTuple):
    """Rows whose ids end at their first blanks, what is wrong with them, and line feeds between them."""

    names: list[bytes]
    problem: FileFormatError | None
    n_feeds: int


def _to_first_blanks(path: Path, data: bytes, vectors: NDArray[np.float32]) -> _Found:
    (n, d), names, n_feeds, at = vectors.shape, list[bytes](), 0, 0
    text = not _CONTROL.search(data[:1000].translate(None, b"\t\n\r"))
    hint = "It looks like text: format='word2vec-text' reads it." if text else ""
    for row in range(n):
        while data[at : at + 1] == b"\n":
            at += 1
            n_feeds += row > 0
        space = data.find(b" ", at)
        if space < 0 or space + 1 + 4 * d > len(data):
            return _Found(names, too_short(path, n, row, hint), n_feeds)
        names.append(data[at:space])
        vectors[row] = np.frombuffer(data, "<f4", d, space + 1)
        at = space + 1 + 4 * d
    problem = None
    if data[at:].strip(b"\n"):
        got = f"{len(data) - at} bytes after the last of them"
        problem = bad_file(path, f"one of {n} rows, as its first line says", got, hint)
    return _Found(names, problem, n_feeds)


def _usual(vectors: NDArray[np.float32]) -> bool:
    """Whether all numbers are as those of vectors are."""
    step = max(1, _AT_ONCE // vectors.shape[1])
    for start in range(0, len(vectors), step):
        sizes = np.abs(vectors[start : start + step])
        n_small = np.count_nonzero(sizes < _USUAL[0]) - np.count_nonzero(sizes == 0)
        if n_small or not sizes.max() <= _USUAL[1]:  # NaN is not, either
            return False
    return True


def _ways(data: bytes, n: int, d: int) -> list[list[Cut]]:
    """Return the ways to cut the file into rows, two at most."""
    found: list[list[Cut]] = []
    for end in (b"\n", b""):
        found += [way for way in _ways_with(data, n, d, end) if way not in found]
    return found[:2]


def _ways_with(data: bytes, n: int, d: int, end: bytes) -> list[list[Cut]]:
    """Return the way to cut the file into rows that end so; nothing if there is none, one of several twice."""
    # For each row, by where the next one begins: in how many ways one comes there, and the last row of one of them.
    steps: list[dict[int, tuple[int, Cut]]] = []
    starts, tries = {0: 1}, _TRIES[0] + _TRIES[1] * n
    for row in range(n):
        ends: dict[int, tuple[int, Cut]] = {}
        for at, n_ways in starts.items():
            for space in _blanks(data, at):
                tries -= 1
                after = space + 1 + 4 * d
                whole = not data[after:].strip(b"\n") if row == n - 1 else data.startswith(end, after)
                if after <= len(data) and whole and _usual(np.frombuffer(data, "<f4", d, space + 1)[None]):
                    after += len(end)
                    ends[after] = ends.get(after, (0, (at, space)))[0] + n_ways, (at, space)
        if not ends or tries < 0:
            return []
        steps.append(ends)
        starts = {after: min(ways, 2) for after, (ways, _) in ends.items()}
    cuts, after = list[Cut](), next(iter(starts))
    for ends in reversed(steps):
        cuts.append(ends[after][1])
        after = cuts[-1][0]
    return [cuts[::-1]] * min(sum(starts.values()), 2)


def _blanks(data: bytes, at: int) -> list[int]:
    """Return where an id that begins there may end."""
    found, space = _ID.match(data, at), at
    stop, spaces = found.end() if found else at, list[int]()
    while (space := data.find(b" ", space + 1, stop)) >= 0:
        spaces.append(space)
    return [space for space in spaces if _is_utf8(data[at:space])]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
