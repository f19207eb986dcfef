"""What is doubtful about ids, in one pass over the final ones, however they came."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from nearfar._core.ids import Ids
from nearfar._core.types import Indices

# Words that stand for no id at all; and those that may be names, as NA is Namibia.
_NOBODY = frozenset(("NULL", "null", "\\N", "nan", "NaN", "None", "<NA>", "#N/A", "N/A", "undefined", "nil"))
_PERHAPS = frozenset(("NA", "n/a", "na", "-", "--", "?", "none", "missing", "unknown", "UNKNOWN", "Unknown"))
_MANY = 2.0  # of the edges of a usual id


def doubts_of_ids(row_ids: Ids, column_ids: Ids, rows: Indices, columns: Indices) -> Iterator[str]:
    """Yield what is doubtful.

    Two kinds of doubts: an id and its text are both there (1 and "1", "1.0" and "1"), so what may be one object is two;
    a word for a missing value is an end of two edges or more, or one that may be a name of more than twice as many as
    usual, so that it draws together what has nothing in common. Integers have neither.
    """
    sides = [(row_ids, rows), (column_ids, columns)]
    one = column_ids is row_ids
    for ids, codes in sides[:1] if one else sides:
        if not ids.is_integer:
            listed = ids.to_list()
            yield from _equal_as_text(listed)
            yield from _missing(listed, [rows, columns] if one else [codes])


def _equal_as_text(ids: Sequence[Hashable]) -> Iterator[str]:
    odd = [key for key in ids if type(key) is not str or key[-2:] == ".0"]
    if not odd or len(odd) == len(ids):
        return
    texts = {key for key in ids if type(key) is str}
    pairs = [(key, as_text) for key in odd if (as_text := _as_text(key)) in texts and as_text != key]
    if pairs:
        one, other = pairs[0]
        yield (
            f"{one!r} and {other!r} are different ids, and there are {len(pairs)} such pairs; make all ids text, or "
            "all integers, if they are of one object"
        )


def _as_text(key: Hashable) -> str | None:
    """Return the text that may be meant by an id of another type, or by a number with a fraction of zero."""
    if isinstance(key, bytes):
        return key.decode(errors="replace")
    if isinstance(key, float) and key % 1 == 0:
        return str(int(key))
    return str(key).removesuffix(".0") if isinstance(key, (int, float, str, np.generic)) else None


def _missing(ids: Sequence[Hashable], ends: Sequence[Indices]) -> Iterator[str]:
    found = [k for k, key in enumerate(ids) if type(key) is str and (key in _NOBODY or key in _PERHAPS)]
    usual = sum(map(len, ends)) / len(ids) if found else 0.0
    for k in found:
        n = sum(int(np.count_nonzero(codes == k)) for codes in ends)
        if n >= 2 and (ids[k] in _NOBODY or n > _MANY * max(usual, 2.0)):
            yield (
                f"{ids[k]!r} is an end of {n} edges, and may stand for ids that are missing; leave such edges out if "
                "it is nobody's name"
            )
