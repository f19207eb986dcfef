"""What names of columns say: their words, the two ends of an edge, and whether the first line of a table has names.

A first line names the columns if it is unlike what is below. Each piece of evidence is a log-odds, and they add up:
what a name and a value have in common decides, not a list of known names. Where the sum is near zero the question is
open.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

from nearfar.reading.columns import is_missing, is_number, number_of

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Pairs = tuple[tuple[frozenset[str], frozenset[str]], ...]


def the_words(text: str) -> frozenset[str]:
    """Return the words of a text, which blanks separate."""
    return frozenset(text.split())


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: ``sourceNode_id`` has three."""
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", name))]


def _pairs(text: str) -> Pairs:
    pairs = (pair.split(" ") for pair in text.split("; "))
    return tuple((frozenset(left.split(",")), frozenset(right.split(","))) for left, right in pairs)


ENDS = _pairs(
    "source,src target,tgt,dst,dest,destination; from to; start end; origin,orig destination,dest; "
    "sender receiver,recipient; head tail; subject,subj object,obj; caller callee,called; citing cited; "
    "follower followee,followed; parent child"
)
"""Words that name the two ends of an edge, the clearest first."""
SIDES = _pairs("left right; first second; one two; out in")
"""Words of sides, which may be all of two names."""
COUNTED = _pairs("u v; s t; i j; a b; 1 2; 0 1; x y")
"""What tells two names apart that are one else."""


# -- is the first line a header? ---------------------------------------------------------------------------------------


OPEN = 1.0  # log-odds; less than that either way is worth a warning
_SURE = 6.0
_USUAL = {",": 0.5, ";": 0.5, "\t": 0.0, "|": 0.0, ":": -2.0, " ": -1.5}  # how often tables with it have a header
_MOST = 4.0  # of one column's look

# Words that name columns; each is but one piece of evidence.
_NAMES = the_words(
    """
    id ids key name label node vertex edge link source target src tgt dst dest from to start end origin destination
    sender receiver recipient caller callee parent child head tail subject object predicate relation type kind user item
    person friend author paper citing cited reviewer product buyer seller customer movie film book song artist gene
    protein interactor drug disease chemical cell tissue species word term token context tag city country airport
    station stop page url host domain account wallet follower followee followed follows member group team player company
    supplier owner student teacher course weight count value score rating stars strength distance dist time date
    timestamp year who whom
    """
)
_LOOKS: tuple[Callable[[str], object], ...] = (
    lambda field: any(map(str.isdigit, field)),
    str.isupper,
    str.islower,
    lambda field: field[:1].isupper(),
    lambda field: "_" in field,
    lambda field: " " in field,
    re.compile(r".*[:/@|#]").match,
    re.compile(r".*[.-]").match,
    str.isascii,
    lambda field: len(field) > 24,
)


def header_odds(first: Sequence[str], rest: Sequence[Sequence[str]], delimiter: str = ",") -> float:
    """Return the log-odds that the first record names the columns of the others.

    Parameters
    ----------
    first : sequence of str
        The fields of the first record.
    rest : sequence of sequences
        Those of the next ones, of as many fields.
    delimiter : str
        What separates the fields: tables that are separated by blanks seldom have a header.
    """
    again = [fields for fields in rest if list(fields) == list(first)]
    columns = list(zip(*(fields for fields in rest if list(fields) != list(first)), strict=True))
    nameless = sum(not name for name in first)
    if not columns or nameless > 1 or (nameless and first[0]):
        odds = sum(-1.5 * _SURE if _is_weight(name) else _of_name(name) for name in first)
        return odds + _of_ends(first) + _USUAL.get(delimiter, 0.0)
    odds = _USUAL.get(delimiter, 0.0) + _of_ends(first)
    if len(set(first)) < len(first):
        odds -= 3 * _SURE
    if list(first) == list(map(str, range(len(first)))) and delimiter == "," and len(first) > 1:
        ids = {value for column in columns[:2] for value in column}
        if ids & {"0", "1"}:
            return -_SURE
        fractions = any(is_number(value) and float(value) % 1 for column in columns[2:] for value in column)
        return OPEN if fractions else OPEN / 2  # as pandas writes a frame without names
    pool = {value for column in columns for value in column if not _is_weight(value)}
    once = _of_once([value for column in columns[:3] for value in column if not _is_weight(value)])
    for name, column in zip(first, columns, strict=True):
        known = [value for value in column if not is_missing(value)]
        numbers = [value for value in known if _is_weight(value)]
        if not name:
            odds += _SURE / 2 if len(numbers) == len(known) > 0 else 0.0  # of row numbers
        elif _is_weight(name):
            odds -= 1.5 * _SURE if numbers or not known else -_SURE / 4  # a frame without names has 0, 1, 2
        elif is_missing(name):
            continue
        elif known and len(numbers) == len(known):
            odds += _SURE
        elif len(numbers) > len(known) / 2:
            odds += _SURE / 2
        elif name in pool:
            odds -= _SURE
        else:
            odds += _of_name(name) + _of_look(name, known) + once
    return odds + (math.log1p(len(again)) if odds > -OPEN else 0.0)


def _is_weight(field: str) -> bool:
    """Whether a field can be read as a weight, or nearly."""
    if is_number(field):
        return True
    try:
        number_of(field)
    except ValueError:
        return False
    return True


def _of_name(name: str) -> float:
    """Judge by words that name columns, in a short name."""
    words = words_of(name)
    if not name or name != name.strip() or re.search(r"[\n\",;]|^/|://", name):
        return -2.0
    if name[0].isdigit():
        return -1.0
    if 0 < len(words) <= 4 and any(word in _NAMES for word in words) and len(name) <= 30:
        return 2.5 if max(map(len, words)) > 1 else 0.5
    return -0.25


def _of_ends(names: Sequence[str]) -> float:
    """Judge by two names that are one but for what tells the ends of an edge: gene_a and gene_b."""
    stems = [words_of(name) for name in names]
    for k, left in enumerate(stems[:-1]):
        for right in stems[k + 1 : k + 3]:
            unlike = [{a, b} for a, b in zip(left, right, strict=False) if a != b]
            pairs = (*ENDS, *SIDES, *COUNTED) if len(left) > 1 else (*ENDS, *SIDES)
            ends = (unlike[0] == {a, b} for one, other in pairs for a, b in product(one, other))
            if len(left) == len(right) and len(unlike) == 1 and any(ends):
                return 2.0
    return 0.0


def _of_look(name: str, column: Sequence[str]) -> float:
    """Judge by what all values have and the name lacks, or the other way: rule of succession, most telling trait."""
    if not column:
        return 0.0
    telling = math.log((len(column) + 2) / 3)  # less than by that rule, as there are many traits
    lengths = {len(value) for value in column}
    found = -min(math.log(len(column) + 2) / 5, 1.0)  # nothing: the more values, the more that says
    for look in _LOOKS:
        here, there = bool(look(name)), [bool(look(value)) for value in column]
        if (here and not any(there)) or (not here and all(there)):
            found = max(found, telling)
    if len(lengths) == 1 and len(name) not in lengths and len(column) > 2:
        found = max(found, telling)
    return min(found, _MOST)


def _of_once(values: Sequence[str]) -> float:
    """Judge by a value that never comes again, among those of the ends, which may do."""
    counts = Counter(values)
    once = sum(n == 1 for n in counts.values())
    return min(-math.log((once + 1) / (len(counts) + 1)), 3.0)
