"""What is doubtful about the ids of a relation, found in one pass over their table when all edges are read.

Rules, of one table of ids (both ends of the edges, or one side of two kinds):

* An id and its text, ``1`` and ``"1"`` or ``b"1"`` and ``"1"``, are warned of wherever both are there.
* Texts of one number, ``1.0`` or ``01`` beside ``1``, are warned of where half the ids or more are numbers: among words
  they may be meant. Of other texts only blanks around one count: ``"ann "`` beside ``"ann"``. Upper and lower case is
  often meant, and two kinds may number their objects alike: nothing is said.
* Whole numbers of 2**53 or more that came through floats (``1.2e17`` as text, where half the ids are numbers) are
  refused: two of them may have become one.
* A word for something missing (NULL, nan, ...) stays an id; Namibia is NA. It is warned of where it is an end of at
  least twice as many edges as the others in its column on average, and of no fewer than any of them, or ten times as
  many as they on average.

Integers need no look. Of a text file an id costs about 10 ns, of a frame or of tuples up to 300 ns.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from contextlib import suppress

import numpy as np

from nearfar._core.types import Indices
from nearfar._core.warn import warn_user
from nearfar.errors import DataError
from nearfar.relations.factorize import IntegerCodes, ObjectCodes, StringCodes

Codes = IntegerCodes | StringCodes | ObjectCodes

_MISSING = (
    "NULL", "Null", "null", "\\N", "nan", "NaN", "NAN", "NaT", "None", "none", "N/A", "n/a", "NA", "#N/A", "<NA>",
    "nil", "undefined", "-", "--", "?", "",
)  # fmt: skip
_EXACT = 2.0**53  # from there on floats skip whole numbers
_ROWS = 1 << 20  # edges that are counted at a time
_WHOLE = re.compile(r"\s*([+-]?\d+)(\.0*)?\s*")
_ODD = re.compile(r"\n(?:[+ \t]|-?0\d|[+-]?\d+\.|[+-]?\d[\d.]*[eE])")
_BLOCK = 1 << 16


def check_ids(owner: str, codes: Codes, columns: Sequence[Indices]) -> None:
    """Warn of what is doubtful about a table of ids, and refuse what went wrong; see the head of the module.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    codes : IntegerCodes, StringCodes or ObjectCodes
        The table.
    columns : sequence of ndarray of int32
        Codes of the columns of edges whose ids it holds.

    Raises
    ------
    DataError
        For whole numbers that lost digits in floats.
    """
    if isinstance(codes, IntegerCodes):
        return
    told = _of_texts(owner, codes) if isinstance(codes, StringCodes) else _of_objects(owner, codes)
    for code, word in zip(codes.find(_MISSING).tolist(), _MISSING, strict=True):
        told += [_of_missing(word, code, column, len(codes)) for column in columns if code >= 0]
    for text in filter(None, told):
        warn_user(f"{owner}: {text}")


def _of_texts(owner: str, codes: StringCodes) -> list[str]:
    """Look at texts: two of one number, a number that lost digits."""
    told, found = codes.spellings(), []
    numeric = 2 * told.n_numbers >= len(codes)
    if numeric and told.large:
        hint = "Two ids may have become one. Write the column as integers or text where it comes from."
        expected = "written with all its digits, not as a float of 2**53 or more"
        raise DataError(owner, "every id", expected, repr(told.large), hint)
    if told.n_blanks:
        found.append(_different(*told.blanks, told.n_blanks, "Leave out the blanks around ids if they are the same."))
    if numeric and told.n_pairs:
        found.append(_different(*told.pair, told.n_pairs, "Write each in one way if they are the same."))
    return found


def _of_objects(owner: str, codes: ObjectCodes) -> list[str]:
    """Look at ids of any kind: an id beside its text."""
    keys = codes.ids()
    kinds = set(map(type, keys))
    for kind in kinds:
        if issubclass(kind, (float, np.floating)):
            _check_floats(owner, [key for key in keys if type(key) is kind])
    texts = [key for key in keys if isinstance(key, str)]
    if len(texts) == len(keys):
        blocks = ("\n" + "\n".join(texts[k : k + _BLOCK]) + "\n" for k in range(0, len(texts), _BLOCK))
        if any(" \n" in lines or "\t\n" in lines or _ODD.search(lines) for lines in blocks):  # quick, for what is rare
            with suppress(UnicodeEncodeError):  # lone surrogates, which no text file brings
                return _of_texts(owner, StringCodes(texts))
        return []
    others: list[Hashable] = []
    for text in texts:
        match = _WHOLE.fullmatch(text)
        others.append(int(match[1]) if match and len(match[1]) < 4300 else text)
    pairs: list[tuple[Hashable, Hashable]] = [
        (other, text) for other, text in zip(others, texts, strict=True) if other is not text
    ]
    raw = [key for key in keys if isinstance(key, bytes)] if bytes in kinds else []
    pairs += [(key.decode("utf-8", "replace"), key) for key in raw]
    found = codes.find([other for other, _ in pairs])
    there = np.flatnonzero(found >= 0).tolist()
    if not there:
        return []
    one, other = keys[found[there[0]]], pairs[there[0]][1]
    return [_different(one, other, len(there), "Give all ids one type if they are the same.")]


def _check_floats(owner: str, keys: Sequence[object]) -> None:
    values = np.array(keys, np.float64)
    large = np.isfinite(values) & (np.abs(values) >= _EXACT)
    if large.any():
        hint = "Two ids may have become one. Read the column as integers or text where it comes from."
        got = repr(keys[int(np.argmax(large))])
        raise DataError(owner, "every id", "below 2**53 where it came through floats", got, hint)


def _different(one: object, other: object, n: int, hint: str) -> str:
    pairs = "is 1 such pair" if n == 1 else f"are {n} such pairs"
    return f"{one!r} and {other!r} are different ids; there {pairs}. {hint}"


def _of_missing(word: str, code: int, column: Indices, n: int) -> str:
    """Return what to tell of a word that may stand for something missing; nothing if it is no hub of the column."""
    counts = np.zeros(n, np.int64)
    for first in range(0, len(column), _ROWS):
        counts += np.bincount(column[first : first + _ROWS], minlength=n)
    ends, counts[code] = int(counts[code]), 0
    usual = counts.sum() / max(np.count_nonzero(counts), 1)
    if not usual or ends < max(2 * usual, 2) or ends < min(int(counts.max()), 10 * usual):
        return ""
    return (
        f"the id {word!r} is an end of {ends} of {len(column)} edges; does it stand for what is missing? "
        "It draws all its neighbours together: leave such edges out."
    )
