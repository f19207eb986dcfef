"""Which columns of a table are source, target and weight: by what was asked for, by their names, by their values.

What the default passes over is said in the relation's repr; where the choice is open a warning says what was chosen and
how to choose otherwise.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise, permutations, product
from typing import NamedTuple

from nearfar._core.columns import is_number
from nearfar._core.progress import logger
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError, counted
from nearfar.reading.columns import (
    CODES,
    COUNTED,
    ENDS,
    KEYS,
    SIDES,
    SINCE_1973,
    Column,
    columns_of,
    counts_within,
    grows,
    grows_within,
    is_missing,
    kind_of,
    the_words,
)
from nearfar.reading.tables import Roles, Table, position_of

_COUNTED = (*SIDES, *COUNTED)  # what tells two names apart that are one else
_COUNTERS = frozenset(word for sides in _COUNTED for side in sides for word in side)

_IDS = KEYS - the_words("no number nr num")  # not of what is counted
_OF_EACH = CODES - KEYS | {"name"}  # what two unlike things have: the version of an app and of a system
_PLACE = the_words("lat lon lng long latitude longitude")
_AXIS = the_words("coordinate coord coords pos position utm easting northing")
_PLACES = the_words("id node vertex station stop point location place city airport name")
_FEW = 0.25  # of the different values of another column
_SPREAD = 4  # times as large as their number are ids that do not count
_TRIED = 8  # columns that can be ends
_SHORT = 3  # words of a name

_STARS, _UNLIKE = 10, 1.5  # of a rating, at most; times as large are ids of items as those of users, or the other way
_AGREE = 10  # rows that are no chance
_STEP = 10  # the times of contacts are multiples of that or more
_LETTERS = ({"i", "j"}, {"u", "v"}, {"s", "t"})  # names of two ends in formulas
_OF_NAMES = ({"first", "last"}, {"given", "family"}, {"forename", "surname"}, {"vorname", "nachname"})
_RELATED = the_words("related other linked matched similar adjacent connected neighbour neighbor partner next")
_INITIALS = ("ft", "st", "od")  # of from and to, source and target, origin and destination
_ROWS_IN_A_ROW = 10  # a first column that grows with each of so many rows numbers them
_MATRIX = 5  # columns of numbers without names
_PARAGRAPH = 25  # blanks in a text that is more than a remark on a thing
_EDGE, _WIDE = 3, 7  # columns: the ends and a weight; and many
_TIMES = 5  # values that must be in steps
_FEW_SHARED = 8  # different values, of which half are in two columns
_HARDLY_AGAIN = 0.75  # of the ends are different where rows are things of their own
_ONCE = 0.95  # of the values of ends that come once each
_CLASSES = 3  # different numbers of many, that are classes rather than weights
_CODE = 7  # digits: fewer have incomes and prices
_LARGE = 1000  # whole numbers that may be codes
_CLEARLY = 0.5  # by how much two other columns must look more like ends than the first two
_PEOPLE = the_words(
    "user customer reader listener viewer reviewer rater buyer client member student patient visitor subscriber author "
    "actor person employee player"
)
_THINGS = the_words(
    "item product movie film book song track album artist paper article page url course genre business restaurant shop "
    "store tag event team company group club project repo repository game document word query category hashtag"
)


class _Ends(NamedTuple):
    """Source and target; and a column that may be an end, too, or is something else, which ``what`` tells."""

    source: Column
    target: Column
    odd: Column | None = None
    what: str = ""


def _find_ends(
    owner: str, roles: Roles, table: Table, columns: Sequence[Column], asked: Sequence[int | None]
) -> tuple[int, int, int | None]:
    """Return source and target, of which one may be asked for, and a column that was told of and is no weight.

    Warns where the choice is open, and refuses where there is none.
    """
    source, target, weight = asked
    if table.says and source is target is None:
        return 0, 1, None
    missing = [role for role, at in (("source", source), ("target", target)) if at is None]
    free = [column for column in columns if column.at not in asked]
    called = [column for column in free if column.is_called_weight]
    if len(called) == 1 and weight is None and len(free) > 2:
        free.remove(called[0])
    choices = ", ".join(repr(table.label(column.at)) for column in columns)
    naming = f"Name the source and the target by columns=, two of {choices}."
    could, pairs = free, _by_names(free) if len(missing) == 2 else []
    if not pairs and len(free) > len(missing):
        could = [column for column in free if column.why_no_end is None]
        if len(columns) > 2:  # what is named as a weight or a distance is not needed as an end
            could = [column for column in could if not (column.is_strength or (column.is_distance and column.numeric))]
        could = [column for column in could if not _is_made_of(column, free)]
        could = _without_events(could, timed=any(column.is_time for column in free))
        stems = Counter(frozenset(_stem(column)) for column in could)
        single = [column for column in could if stems[stem := frozenset(_stem(column))] <= 2 or not stem]
        if len(single) == 1 and len(missing) == 2 and len(could) > _EDGE:  # pupil, friend 1, friend 2, friend 3
            single.append(next(column for column in could if column is not single[0]))
        could = single if len(single) >= len(missing) else could  # not round 1, round 2, round 3
        could = _without_quantities(could) if table.names is not None else could
        filled = [column for column in could if "" not in column.known]  # an end is never empty
        could = filled if len(filled) == 2 == len(could) - 1 or _are_several(filled) else could
    if len(could) < len(missing):
        no_end = next((column for column in free if column.why_no_end is not None), None)
        if no_end is None:
            got = f"{roles.asked} of {len(columns)} columns"
            raise InputError(owner, "source, target and weight", "different columns", got)
        expected = f"given where the {missing[0]} would be {no_end.why_no_end}"
        raise InputError(owner, "columns", expected, shown_column(table, no_end), naming)
    if source is not None or target is not None:
        return (source, could[0].at, None) if source is not None else (could[0].at, target, None)  # type: ignore[return-value]
    if pairs:
        found = _of_named(columns, pairs)
    elif len(free) > 2:
        found = _by_values(owner, table, columns, could)
    else:  # there is no choice
        found = _Ends(free[0], free[1])
        fractions = [column.numeric and any(value % 1 for value in column.numbers) for column in free]
        if all(fractions) and all(isinstance(column.values[0], str) for column in free):
            shown = " and ".join(shown_column(table, column) for column in free)
            roles.warn(f"{owner}: {shown} hold numbers with fractions, which were read as ids.")
    first, second, odd, what = found
    if odd is not None and what:
        read = f"{table.label(first.at)!r} -> {table.label(second.at)!r}"
        roles.warn(f"{owner}: {shown_column(table, odd)} looks like {what}; {read} is read. {naming}")
    may_be_weight = what == "a weight" or (odd is not None and odd.kind == "number" and not odd.seconds)
    return first.at, second.at, None if odd is None or may_be_weight else odd.at


def _of_named(columns: Sequence[Column], pairs: Sequence[tuple[Column, Column]]) -> _Ends:
    """Return the first of the pairs whose names say so, or one that tells more apart; a later one may be others.

    Two columns of one name may tell more apart, too: the accounts at the banks from which and to which.
    """
    best, could = pairs[0], [column for column in columns if column.name and column.why_no_end is None]
    twins = [pair for pair in combinations(could, 2) if pair[0].name == pair[1].name]
    for pair in (*pairs[1:], *twins):
        if _determines(pair, best) and not (_determines(best, pair) or {*best[0].words} < {*pair[0].words}):
            best = pair
    for pair in pairs:  # other things, told apart by more than the names of the best
        tells = all(len(column.known) > 1 and column.missing < 0.5 for column in pair)
        more = {*best[0].words} < {*pair[0].words}
        if {*pair}.isdisjoint(best) and tells and not more and not _determines(best, pair):
            return _Ends(*best, pair[0], "an end of an edge, too")
    return _Ends(*best)


def _by_values(owner: str, table: Table, columns: Sequence[Column], could: Sequence[Column]) -> _Ends:
    """Return the two of the columns that look most like ends, of those that can be."""
    named = table.names is not None
    aligned = []  # texts that a length and an interval within it follow, as in tables of alignments
    for column in () if named else columns[:-3]:
        behind = [other.whole for other in columns[column.at + 1 : column.at + 4]]
        if column.kind == "text" and all(behind):
            rows = zip(*filter(None, behind), strict=True)
            aligned += [column] if all(0 <= start < end <= length for length, start, end in rows) else []
    if len(aligned) == 2:
        return _Ends(aligned[0], aligned[1])
    if len(could) > 2 and could[0].at == 0:  # a first column may number the rows, or hold times
        first, second, third = could[:3]
        texts = second.kind == third.kind == "text"
        likely = _times_or_rows(first, second, third)
        sure = first.seconds or (first.name is not None and len(first.name) > 1 and texts)
        sure = sure or (likely == "times" and _are_apart(first, second, third))
        if first.counts_rows and texts:
            return _Ends(second, third, first)
        if likely and not (first.is_named_key and _have_in_common(first, second)):
            return _Ends(second, third, first, "" if sure else likely)
    if _are_three_of_whole_numbers(columns, could):
        return _Ends(could[0], could[1])
    scores = {(a, b): _likeness(a, b, could) for a, b in combinations(could[:_TRIED], 2)}
    best = max(scores, key=lambda pair: scores[pair])
    others = [column for column in could if column not in best]
    if not named:  # the first two, or others that look clearly more like ends, which is told
        first, second, *others = could
        worded = [column for column in could if column.kind == "text"]
        codes = [(a, b) for a, b in combinations(worded, 2) if a.width == b.width and a.shapes & b.shapes]
        if len(codes) == 1 and _likeness(*codes[0], could) - scores[first, second] > _CLEARLY:
            return _Ends(*codes[0])  # codes of one form, also far behind
        if scores[best] - scores[first, second] > _CLEARLY:
            (a, b), between = best, next(column for column in could if column not in best)
            few = len(columns) == 3 <= len(between.values) and a.kind == b.kind
            amounts = between.numeric and not (between.years or between.grows or between.seconds)
            amounts = amounts and a.kind == "text" and not between.looks_like_ids
            relations = between.kind == "text" and between.at == 1 and between.shapes.isdisjoint(a.shapes | b.shapes)
            if (few and (relations or amounts)) or (_is_label(between, first) and {first, could[2]} == {*best}):
                return _Ends(*best)  # in front of a relation or a weight; or read under either name
            what = "names of relations" if between.at == best[0].at + 1 else "no end of an edge"
            what = "ranks" if counts_within(first.values, between.values) else what
            what = "a weight" if between.numeric and best[0].kind == best[1].kind == "text" else what
            return _Ends(*best, between, what)
        best = first, second
        few = bool(others) and len(second.known) <= max(1, min(len(first.known), len(others[0].known)) // 3)
        if few and first.kind == second.kind == others[0].kind == "text" and len(second.values) > 3:
            return _Ends(*best, second, "names of relations")
        if others and others[0].kind == second.kind == "whole" and counts_within(first.values, second.values):
            return _Ends(*best, second, "ranks")
        if not any(len(column.known) > 2 for column in others):
            return _Ends(*best)  # no other tells apart what ends would
    a, b = best  # of many columns something else than their places must say that they are the ends
    amounts = named and len(columns) > _EDGE and any(column.is_amount for column in columns)
    if amounts and a.is_category and b.is_category and a.known.isdisjoint(b.known):
        raise Kind("table", "amounts by category").refused(owner)
    ends = _by_names([a, b]) or of_two_kinds(a.name, b.name)
    n, both = len(a.values), f"{a.name!r} and {b.name!r}"
    again = sum(str(x) == str(y) for x, y in zip(a.values, b.values, strict=True))
    if named and n >= _MANY and len(columns) > _EDGE and not ends:
        if len(a.known | b.known) > _HARDLY_AGAIN * 2 * n:
            raise Kind("table", f"{both} hardly come again: a row is a thing of its own").refused(owner)
        if 2 * again > n or min(len(a.known), len(b.known)) <= 2:
            raise Kind("table", f"{both} say the same in most rows, or one of two things").refused(owner)
        if {*a.words} ^ {*b.words} in _OF_NAMES:
            raise Kind("table", f"{both} are the parts of one name").refused(owner)
    is_log = 0 < sum(column.kind == "date" for column in columns) <= 2  # who did what, and when
    pairs, again = _pairs(a, b), max(a.diversity, b.diversity) < _ONCE and not (a.seconds or b.seconds)
    keys = all(any(_pairs(end, c) == len(end.known) for end in best) for c in others)  # one tells each of the others
    keys = keys and bool(others) and again and pairs > max(len(a.known), len(b.known))
    told = is_log or keys or are_named_ends([a.name, b.name], perhaps=True)
    alone = named and scores[best] < 0
    if len(columns) >= _MATRIX and not told and not (a.known & b.known):
        numbers = sum(column.numeric and not column.years for column in columns if column not in best)
        keys = pairs == n and max(a.diversity, b.diversity) < 0.5 and not (a.is_category or b.is_category)
        if named and numbers >= _MATRIX - 1 and not keys:
            raise Kind("table", "numbers, and two columns that are ends by their places alone").refused(owner)
        alone = alone or not named
    return _Ends(a, b, a, "an end of an edge by its place alone") if alone else _Ends(a, b)


def _by_names(columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Return the pairs of columns whose names say that they are the ends, with the same other words: from and to node.

    The best first: that of more different values, of text before numbers, the first.
    """
    could = [column for column in columns if column.name is not None and column.why_no_end != "times"]
    for kinds in (*((pair,) for pair in ENDS), _COUNTED):
        found = {}
        pairs = [
            (sources, targets, a, b)
            for sources, targets in kinds
            for a, b in product(*([c for c in could if not side.isdisjoint(c.words)] for side in (sources, targets)))
            if a is not b and targets.isdisjoint(a.words) and sources.isdisjoint(b.words)  # not of a target's source
        ]
        for sources, targets, a, b in pairs:
            left, right = set(a.words), set(b.words)
            if kinds is _COUNTED and (len(left) == 1 or sum(_stem(c) == _stem(a) for c in could) > 2):
                continue  # a, b, c; or x1, x2, x3
            if kinds is _COUNTED and not _AXIS.isdisjoint(left):
                continue  # X and Y Coordinate
            if kinds is _COUNTED and ((a.has_fractions and b.has_fractions) or "" in a.known | b.known):
                continue  # v0, v1; type 1 and, of some, type 2
            alike = left - sources == right - targets
            fits = a.kind == b.kind and a.kind not in ("number", "truth", "amount")
            of_interval = a.years or (a.seconds and b.seconds) or ("start" in left and left - sources - _PLACES)
            of_interval = of_interval or (a.is_distance and b.is_distance)
            if left & {"start", "from"} and a.kind in ("whole", "number") and of_interval:
                continue  # where an interval begins and ends
            if alike or (kinds is not _COUNTED and fits and max(len(left), len(right)) <= _SHORT):
                few = a.diversity + b.diversity < 2 * _FEW * max(column.diversity for column in could)
                counts = any(c.kind == "whole" and not c.is_named_key for c in (a, b))  # ports beside addresses
                order = not alike, counts, few, not fits, len(a.words), a.kind != "text", a.at + b.at, a.at, b.at
                found[order] = a, b
        if found:
            best = min(found)[:4]
            return [found[order] for order in sorted(found) if order[:4] == best]
    more = [(a, b) for a, b in permutations(could, 2) if b.words[1:] == a.words and b.words[0] in _RELATED]
    if more and all(column.why_no_end is None for column in more[0]):
        return more[:1]
    could = [column for column in could if column.why_no_end is None and column.lower[1:].isalpha()]
    twins = [(a, b) for a, b in combinations(could, 2) if a.lower[1:] == b.lower[1:] and a.kind == b.kind]
    return [(a, b) for a, b in twins if a.lower[0] + b.lower[0] in _INITIALS and len(a.lower) > _SHORT]  # fbus and tbus


def are_named_ends(names: Sequence[object], *, perhaps: bool = False) -> bool:
    """Return whether two names say that their columns are the ends of edges: source and target, user and item.

    Perhaps they do so where one is named as an end, or both end in one word.
    """
    if not all(isinstance(name, str) for name in names):
        return False
    a, b = (Column(k, str(name), [], numeric=False) for k, name in enumerate(names))
    found = _by_names([a, b])
    roles = frozenset(word for sources, targets in ENDS for word in sources | targets)
    one, other = sorted(({*a.words}, {*b.words}), key=len)
    alike = a.words[-1:] == b.words[-1:] != []
    more = alike and one < other and not one <= KEYS | _OF_EACH  # patent and citation patent
    clearly = bool(found) and not (roles | _PLACES).isdisjoint(found[0][0].words)  # not of features 1 and 2
    if clearly or more or {a.lower, b.lower} == {"u", "v"} or of_two_kinds(a.name, b.name):
        return True
    hints = found or {a.lower, b.lower} in _LETTERS or (alike and a.words[-1] not in _OF_EACH)
    return perhaps and bool(hints or any({*a.words} & sources or {*b.words} & targets for sources, targets in ENDS))


def _stem(column: Column) -> set[str]:
    """Return the words of a name without what counts: numbers, single letters, first and second."""
    return {word for word in column.words if len(word) > 1 and not word.isdecimal() and word not in _COUNTERS}


def _likeness(a: Column, b: Column, all_columns: Sequence[Column]) -> float:
    """How much two columns look like the two ends of edges."""
    score = (0.5 if a.name is not None else 0.8) * (a.kind == b.kind)
    if a.name is not None and b.name is not None:
        last, other = a.words[-1:], b.words[-1:]
        keys = last == other != [] or not (_IDS.isdisjoint(last) or _IDS.isdisjoint(other))
        score += 3.0 if _by_names([a, b]) else 1.5 if keys else 0.0
        key = next(column for column in all_columns if column.kind in ("whole", "text"))
        is_of_rows = key.is_named_key and key.diversity == 1 and len(key.values) > 2
        score -= 1.5 * (key in (a, b) and is_of_rows and len(all_columns) > 2)
        score -= 2.0 * max(a.missing, b.missing)
    if a.kind == b.kind == "text":
        score += 2.0 * min(1.0, 4 * len(a.known & b.known) / max(1, min(len(a.known), len(b.known))))
        score += len(a.shapes & b.shapes) / max(1, len(a.shapes | b.shapes))
    else:
        score += 1.5 * len(a.known & b.known) / max(1, len(a.known | b.known))
    sorted_ones = 0.5 if len(a.known) == 1 < len(a.values) and a.name is not None else 1.0  # the first may be sorted
    score += 1.5 * min(sorted_ones if a is all_columns[0] else a.diversity, b.diversity)
    score += of_two_kinds(a.name, b.name)
    again = 2 * sum(str(x) == str(y) for x, y in zip(a.values, b.values, strict=False)) > len(a.values) > 2
    fewer, more = sorted((len(a.known), len(b.known)))
    if again or _is_label(a, b):  # one says the other again; few edges lead from a node to itself
        score -= 3.0
    elif a.name is not None and fewer < more == _pairs(a, b) < len(b.values):
        score -= 1.0  # each of one is of one of the other, as a gene is of a species
    may_be_constant = a.name is None or len(all_columns) < _MATRIX
    constant = [column for column in (a, b) if len(column.known) == 1 < len(column.values) - 1]
    score -= 2.0 * sum(not may_be_constant or column.at > all_columns[0].at for column in constant)
    at = [column.at for column in all_columns]
    return score - 0.3 * at.index(a.at) - 0.3 * (at.index(b.at) - at.index(a.at) - 1)


def _pairs(a: Column, b: Column) -> int:
    """Return how many different pairs two columns have; -1 where one was not looked at, so that it tells no other."""
    if len(a.values) != len(b.values):
        return -1
    return len(set(zip(map(str, a.values), map(str, b.values), strict=True)))


def _have_in_common(a: Column, b: Column) -> bool:
    """Whether half of the values of a column, several, are in another one, as of players who meet."""
    return 2 * len(a.known & b.known) >= max(min(len(a.known), len(b.known)), _FEW_SHARED)


def _is_label(a: Column, b: Column) -> bool:
    """Whether one column is another name of the other: each value comes with one alone, some again."""
    return len(a.known) == len(b.known) == _pairs(a, b) < len(a.values)


def _determines(pair: tuple[Column, Column], other: tuple[Column, Column]) -> bool:
    """Whether each end of a pair tells that of another one: a person tells the family, not the other way."""
    return all(_pairs(a, b) == len(a.known) for a, b in zip(pair, other, strict=True))


def _is_told_by(other: Column, column: Column) -> bool:
    """Whether a column is of another one that comes again, and not of the pair, as the price of a product is.

    What is called a strength is so only where unusual values come again so often that this is no chance.
    """
    if column.is_called_weight or len(column.known) < 2 or _pairs(other, column) != len(other.known):
        return False
    usual = Counter(map(str, column.values)).most_common(1)[0][0]
    both = zip(map(str, other.values), map(str, column.values), strict=True)
    unusual = [key for key, value in both if value != usual]
    again = 2 * len(other.known) <= len(other.values) and len(column.known) > 2 and not column.is_strength
    return again or len(unusual) - len({*unusual}) >= _AGREE


def _is_made_of(column: Column, columns: Sequence[Column]) -> bool:
    """Whether each text holds those of two other columns, as the name of an edge holds its ends."""
    texts = [other for other in columns if other is not column and other.kind == "text" and other.values]
    if column.kind != "text" or len(column.values) < 2:
        return False
    whole = list(map(str, column.values))
    pairs = [zip(whole, map(str, other.values), strict=True) for other in texts]
    return sum(all(2 < len(part) < len(text) and part in text for text, part in both) for both in pairs) > 1


def _without_quantities(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that are more likely ends under names.

    Texts come before whole numbers that are called no id; texts of many values before categories, unless what is left
    is one thing under two names.
    """
    if sum(column.kind == "text" for column in columns) > 1:
        columns = [c for c in columns if c.kind == "text" or c.is_named_key or _may_name_things(c)]
    many = [column for column in columns if not column.is_category or _may_name_things(column)]
    return many if _are_several(many) else [*columns]


def _are_several(columns: Sequence[Column]) -> bool:
    """Whether columns are of more than one thing under several names."""
    return any(_pairs(a, b) > max(len(a.known), len(b.known)) for a, b in combinations(columns, 2))


def _without_events(columns: Sequence[Column], *, timed: bool) -> list[Column]:
    """Return the columns but for a key of each row, beside two texts that come again: of a result, a flight.

    Beside a time a code will do, as that of a commit.
    """
    once = [column for column in columns if column.diversity == 1 and len(column.values) >= _MANY]
    keys = [column for column in once if column.is_named_key or (timed and column.width)]
    keys = [key for key in keys if not any(_have_in_common(key, c) for c in columns if c is not key)]
    events = [column for column in keys if not is_of_objects(column.lower)]
    again = sum(column.kind == "text" and not column.is_category for column in columns if column not in once)
    return [column for column in columns if column not in events] if again > 1 else [*columns]


def _may_name_things(column: Column) -> bool:
    """Whether a name is a letter of formulas, or ends with that of people or things: game, steam_user."""
    return len(column.lower) == 1 or any(is_of_objects(name) for name in (column.lower, *column.words[-1:]))


def _are_three_of_whole_numbers(columns: Sequence[Column], could: Sequence[Column]) -> bool:
    """Whether the first two are the ends: that small numbers of a third come again in the first says nothing.

    Not where the second counts within the first, as ranks do, where the third is named as a key, or where the last two
    have values in common and the first has none of them, or counts the rows.
    """
    if len(columns) != _EDGE or len(could) != _EDGE or not all(column.whole for column in could):
        return False
    first, second, third = could
    most = max(len(first.known), len(second.known))
    behind = 2 * len(second.known & third.known) >= min(len(second.known), len(third.known))
    if behind and (first.counts_rows or first.known.isdisjoint(second.known)):
        return False
    return not (counts_within(first.values, second.values) or third.is_named_key or len(third.known) > most)


def _are_apart(times: Column, first: Column, second: Column) -> bool:
    """Whether whole numbers, in steps of ten or more, are unlike those of two other columns, which are alike."""
    numbers = [column.whole for column in (times, first, second)]
    few = len(times.values) < _TIMES
    if few or not all(numbers) or first.years or second.years or not _in_steps(numbers[0] or []):
        return False
    (low, high), one, other = ((min(found), max(found)) for found in filter(None, numbers))
    among = one[0] <= other[1] and other[0] <= one[1]
    common = len(first.known & second.known) >= max(2.0, _FEW * min(len(first.known), len(second.known)))
    return among and (common or high < min(one[0], other[0]) or low > max(one[1], other[1]))


def _times_or_rows(source: Column, target: Column, other: Column) -> str | None:
    """Return what the values of the source seem to be if the other two columns are alike and it is unlike them."""
    numbers, seconds, thirds = source.whole, target.whole, other.whole
    if not grows(numbers, "or stays") or len(numbers) < 3 or numbers[0] == numbers[-1]:
        return None
    in_rows = len(numbers) >= _ROWS_IN_A_ROW and grows(numbers)
    if all(isinstance(value, str) for value in (*target.values, *other.values)) and seconds is thirds is None:
        alike = numbers[0] >= SINCE_1973 or not target.known.isdisjoint(other.known)
        return ("row numbers or times" if in_rows else "times") if alike else None
    if seconds is None or thirds is None or max(seconds) > 4 * max(thirds) or max(thirds) > 4 * max(seconds):
        return None  # a weight, or ids of another kind
    if in_rows:
        return "row numbers or times"
    return "times" if _in_steps(numbers) or numbers[0] > max(*seconds, *thirds) else None


def _in_steps(numbers: Sequence[int]) -> bool:
    return len({*numbers}) > 2 and math.gcd(*numbers) >= _STEP


# -- what is plainly no list of edges ----------------------------------------------------------------------------------


_NODES = (the_words("id node nodeid name key"), the_words("label name group title class community category"))
_LABELS = the_words("label labels class target species group cluster category sentiment community")
_MANY = 12  # rows: of so many, each a thing of its own, numbers describe the things
_OFTEN = 20  # rows, and ...
_OF_FEW = 0.25  # ... of different labels, that say what a label is
_TO_MATRIX = "A matrix of relations goes to Relation.from_matrix, vectors to Embedding.load, points to a map. "


class Kind(NamedTuple):
    """What a file or an object holds, what tells so, and what to do with it."""

    kind: str
    why: str
    hint: str = "nf.read(path, kind='table') takes it for points."
    column: int = -1  # of a table that holds sentences
    roles: Roles | None = None  # of the columns of edges
    sure: bool = True  # not where values alone say it

    def refused(self, owner: str) -> InputError:
        """Return the refusal where edges are read."""
        kinds = {"table": "points: ", "text": "a text: "}
        hint = f"{self.hint} If two columns are the ends, name them by columns=."
        expected = "a table whose columns are the ends of edges"
        return InputError(owner, "edges", expected, f"{kinds.get(self.kind, '')}{self.why}", hint)


def other_than_edges(table: Table, columns: Sequence[Column], *, edges_asked: bool) -> Kind | None:
    """Return what a table is that is plainly no list of edges; None for one that may be.

    Where edges are asked for, numbers with fractions that are no text are refused one by one, as ids.
    """
    n, names = len(columns), table.names
    if n < 2:
        return Kind("table", "one column")
    first, second, kinds = columns[0], columns[1], [column.kind for column in columns]
    numbers = [column for column in columns if column.kind in ("whole", "number")]
    named = names is not None and bool(_by_names(columns))
    rows = [column.numbers for column in columns]
    is_symmetric = rows == list(map(list, zip(*rows, strict=False)))
    if names is not None and n > 3 and (is_symmetric or list(map(str, first.values))[: n - 1] == list(names[1:])):
        return Kind("table", "a square matrix with names", _TO_MATRIX)
    if names is None and n >= _MATRIX and all(kind in ("whole", "number", "nothing") for kind in kinds):
        most = max((number for column in columns[2:] for number in column.numbers), default=0)
        if not (_have_in_common(first, second) and min(first.whole or [0]) > most):  # or ids, larger than others
            return Kind("table", f"{n} columns of numbers without names", _TO_MATRIX)
    if n == 2 and "date" in kinds and numbers:
        return Kind("table", "numbers at dates")
    amounts = any(column.is_amount for column in columns)
    several = names is not None or sum(column.has_fractions for column in columns) > 1
    several = several or (first.diversity == 1 and first.kind == "text" and sum(c.is_amount for c in columns) >= 4)
    keys = [column for column in columns if not column.is_prose and len(column.known) < len(column.values)]
    prose = [c for c in columns if c.is_prose and not any(_is_label(key, c) for key in keys)]  # no long names of those
    sentences = sorted(prose, key=lambda column: -column.blanks)
    told = not (sentences and sentences[0].blanks >= _PARAGRAPH)
    keys = [c for c in columns if len(c.words) > 1 and c.words[-1] in _IDS and c.diversity < 1]  # X_id and Y_id
    named = named or (len(keys) == 2 and keys[0].words[-1] == keys[1].words[-1])
    if not named and several and amounts and told and (of_measures := _of_measures(columns)):
        return of_measures
    if named or (names is not None and of_two_kinds(*names[:2])):
        return None
    written = not edges_asked or all(isinstance(v, str) for column in columns for v in column.values[:1])
    apart = first.has_fractions and second.has_fractions
    one = n == 2 and first.has_fractions != second.has_fractions
    apart = apart or (one and (first.known.isdisjoint(second.known) or (first.lower, second.lower) == ("x", "y")))
    if len(numbers) == n <= _EDGE and apart and written:
        return Kind("table", "columns of numbers with fractions")
    if len(numbers) == n == _EDGE and names is None and first.has_fractions and not first.seconds:
        return Kind("table", "columns of numbers, the first with fractions")
    if sentences:
        hint = "nf.read(path) reads it as a text; columns= names two columns that are ids."
        shown = ", and not read in ".join(f"column {table.label(column.at)!r}" for column in sentences)
        return Kind("text", f"sentences in {shown}", hint, sentences[0].at)
    if names is None:
        points = n > 2 and all(kind == "number" for kind in kinds[1:]) and not first.seconds
        return Kind("table", f"an id and {n - 1} numbers with fractions in each row") if points else None
    once = first.diversity == 1 and len(first.values) > 2 and first.known.isdisjoint(second.known)
    nodes = first.lower in _NODES[0] and second.lower in _NODES[1]
    often = len(first.values) >= _OFTEN and second.diversity < _OF_FEW and second.lower in _LABELS
    if once and n <= _EDGE and (nodes or often):
        hint = "They go to metadata= of a page, or labels= of a picture, beside a relation or vectors."
        return Kind("nodes", f"each {first.name!r} once, with its {second.name!r}: nodes, no edges", hint)
    if kinds.count("number") >= _EDGE and sum(not column.numeric for column in columns) <= 1:
        return Kind("table", "columns of numbers with fractions")
    return _of_things(columns) if amounts else None


def _of_things(columns: Sequence[Column]) -> Kind | None:
    """Return what shows that each row is a thing of its own: one name or key in each, beside what is no id."""
    first, others = columns[0], columns[1:]
    numbers = [column for column in others if column.is_amount and not column.is_named_key]
    if len(numbers) == len(others) > 1 and first.numeric and (first.is_distance or first.is_strength):
        return Kind("table", "columns of numbers that measure something")
    if of_two_kinds(*(column.name for column in columns)):
        return None
    told = [c for c in columns if c.is_named_key or c.seconds or c.is_strength or is_of_objects(c.lower)]
    told += [c for c in columns if c.is_time and len(columns) < _MATRIX]
    letters = others and {first.lower, others[0].lower} in _LETTERS
    if len(numbers) == len(others) > 2 and first.numeric and not told and not letters:
        return Kind("table", "columns of numbers, none of them named as an id")
    once = first.diversity == 1 and len(first.values) > 2 and bool(numbers)
    texts = [column for column in columns if column.kind == "text"]
    if not once or any(not a.known.isdisjoint(b.known) for a, b in combinations(texts, 2)):
        return None
    named = len(others) > 1 and (first.lower in (*_NODES[0], "names") or is_of_objects(first.lower))
    known = named and not any(column.is_strength for column in numbers)
    if not (known or (first.kind == "text" and len(numbers) == len(others))):
        return None
    return Kind("table", f"what is known of each {first.name!r}, which comes once")


def _of_measures(columns: Sequence[Column]) -> Kind | None:
    """Return what shows that a table is of measures.

    Each row is a thing of its own: one name or key in each, and several measures of it (row numbers name nothing, and
    what comes again with a key of its own may be an end; beside categories alone any text may be the key); or there are
    measures, some with fractions, and times, beside one text; or two columns tell the place of each row.
    """
    first, *others = [column for column in columns if not column.numbers_rows] or columns
    texts = [column for column in columns if column.kind == "text" and not (column.is_category or column.numeric)]
    keys = texts if len(texts) == 1 else [column for column in texts if column.diversity == 1]
    own = [column for column in columns if column.is_named_key and len(column.words) == 1 and column.diversity == 1]
    if own and not texts and (first.is_category or first.has_fractions):  # "id" behind numbers and categories
        first, others = own[0], [column for column in columns if column is not own[0]]
    elif first.is_category and len(keys) == 1 and sum(column.has_fractions for column in others) > 1:
        first, others = keys[0], [column for column in columns if column is not keys[0]]
    n, texts = len(first.values), [column for column in others if column.kind == "text"]
    measures = [c for c in others if c.is_amount and not c.is_named_key and not c.is_time and len(c.known) > 2]
    once = n >= _MANY and first.diversity == 1 and first.kind in ("text", "whole") and not first.is_time
    things = frozenset(value for value in first.known if not is_missing(value))
    if any(_have_in_common(a, b) for a, b in combinations([c for c in texts if not c.is_category], 2)):
        return None  # two players in each game
    keys = [c for c in columns if c.is_named_key and c.diversity == 1 and min(c.whole or [0]) >= _LARGE]
    if any(_have_in_common(key, c) for key in keys for c in others if c.whole and max(c.whole) >= _LARGE):
        return None  # a river that flows into another one
    keyed = any(column.is_named_key and len(column.known) > 1 for column in others)
    if once and not (first.seconds or keyed) and all(things.isdisjoint(column.known) for column in texts):
        categories = all(column.is_category or column.diversity == 1 for column in texts)
        pairs = of_two_kinds(*(column.name for column in columns))
        enough = 4 if pairs else 2 if categories and (first.kind == "text" or first.is_named_key) else 3
        if len(measures) >= enough:
            return Kind("table", f"what is known of each {first.name or first.at!r}, which comes once")
    texts = [column for column in columns if column.kind == "text" and not (column.is_time or column.numeric)]
    others = [column for column in columns if column not in texts]
    told = [
        a for a in texts if n >= _MANY and all(b is a or len(b.known) < _pairs(a, b) == len(a.known) for b in texts)
    ]
    one = len(texts) == 1 or any(a.name and a.diversity < _HARDLY_AGAIN for a in told)  # others are known by it
    measured = all(c.is_time or c.seconds or (c.is_amount and not c.is_named_key) for c in others)
    places = [column for column in columns if column.has_fractions and not _PLACE.isdisjoint(column.words)]
    apart = len(places) == 2 and n >= _MANY and _pairs(*places) > _ONCE * n  # each row is at a place of its own
    fractions = sum(column.has_fractions for column in others)
    series = columns[0].is_time and columns[0].diversity == 1 and measured and len(others) == len(columns) >= _MATRIX
    if (one and measured and fractions > 1) or apart or series:
        return Kind("table", "measures at times or places, or of one text")
    return None


def of_two_kinds(*names: str | None) -> bool:
    """Whether of some names one is of people and another of things."""
    singular = [re.sub(r"[ _-]?(id|name)?s?$", "", (name or "").strip().lower()) for name in names]
    people, things = ({k for k, name in enumerate(singular) if name in kind} for kind in (_PEOPLE, _THINGS))
    return bool(people and things) and len(people | things) > 1


def is_of_objects(name: str) -> bool:
    """Return whether a name is that of one person or thing, perhaps as its id: customer, movieId; not customers."""
    singular = re.sub(r"[ _-]?(id|no|nr|name)$", "", name.strip().lower())
    return singular in _PEOPLE | _THINGS


def shown_column(table: Table, column: Column) -> str:
    """Return a column for a message: its name and first values."""
    values = ", ".join(str(value) for value in column.values[:3])
    return f"column {table.label(column.at)!r} ({values}, ...)"


# -- source, target and weight -----------------------------------------------------------------------------------------


def choose_columns(owner: str, roles: Roles, table: Table, columns: list[Column] | None = None) -> list[int]:
    """Return the positions of source, target and, if there is one, weight; ``columns`` are known to be of edges.

    By default source and target are the two columns whose names say so (source and target, from and to, ...), else the
    first two that can be ends of edges. Times, row numbers, numbers with fractions, and columns of punctuation cannot;
    under names, texts come before whole numbers that are called no id, and before categories; other columns come before
    the first two where their values or names clearly have more in common. The weight is the
    column called weight, the only one called a strength (score, count, rating, ...), or of few columns the only other
    one, if it holds numbers and is neither a time, a row number, classes, signs, amounts in several units nor, by its
    name, a distance.

    Raises
    ------
    InputError
        If there is no such column, one column has two roles, or no two columns can be ends of edges.

    Warns
    -----
    NearfarWarning
        If the choice is open.
    """
    names, n_columns = table.names, len(table.head)
    if table.by_position:
        roles.refuse(owner, "an iterable of tuples")
        roles.picks[:] = range(n_columns if roles.weight is not False else 2)
        return roles.picks
    if n_columns < 2:
        got = f"{counted(n_columns, 'column')}" + (f": {', '.join(map(repr, names))}" if names else "")
        hint = "If the columns are separated by something else, pass delimiter."
        raise InputError(owner, "edges", "a table of at least two columns", got, hint)
    source, target, weight = (
        None if role is None or role is False else position_of(owner, argument, role, names, n_columns)
        for argument, role in roles.asked.items()
    )
    asked = [k for k in (source, target, weight) if k is not None]
    may_be_others = columns is None and not asked and not table.says
    all_columns = columns = columns or columns_of(table)
    ends_asked = source is not None and target is not None
    if source is None or target is None:
        if may_be_others and (other := other_than_edges(table, columns, edges_asked=True)):
            raise other.refused(owner)
        source, target, no_weight = _find_ends(owner, roles, table, columns, (source, target, weight))
        columns = [column for column in columns if column.at != no_weight]
    if len({source, target, weight}) < 3:
        got = f"{roles.asked} of {n_columns} columns"
        raise InputError(owner, "source, target and weight", "different columns", got)
    if roles.weight is None:
        before = min(source, target) if names is None else 0  # whole numbers in front, without a name, are no weights
        texts = not ends_asked and all(kind_of(table.head[k]) == "text" for k in (source, target))
        others = [c for c in columns if c.at not in (source, target)]
        others = [c for c in others if c.at >= before or texts or c.kind == "number"]
        if any(c.words[-1:] in (["unit"], ["units"], ["uom"]) and len(c.known) > 1 for c in all_columns):
            others = [c for c in others if c.is_called_weight]  # amounts in several units
        tell = [c for c in all_columns if c.at in (source, target) or not c.is_amount]
        others = [c for c in others if not any(c is not one and _is_told_by(one, c) for one in tell)]
        weight = _find_weight(owner, roles, table, others, (source, target))
    picks = roles.picks
    picks[:] = [source, target] if weight is None else [source, target, weight]
    kinds = _why_two_kinds(table, all_columns[source], all_columns[target]) if roles.bipartite is None else ""
    if kinds:
        roles.taken["kinds"] = kinds
        if names is None and not table.says:
            one = "bipartite=False says that they are of one."
            roles.warn(f"{owner}: {kinds} were read as of two kinds, users and items; {one}")
    if not (asked or table.says):
        doubt = _doubt_of_edges(owner, table, all_columns, picks, kinds)
        if doubt and not roles.warned:
            roles.warn(f"{owner}: {doubt}")
    words = [table.label(column) for column in picks]
    rest = [table.label(column) for column in range(n_columns) if column not in picks]
    named_weight = None if weight is None else words[2]
    roles.taken.update({"source": words[0], "target": words[1], "weight": named_weight, "left_out": rest})
    if table.form:
        roles.taken["form"] = table.form
    ends = all_columns[picks[0]], all_columns[picks[1]]
    of_ends = "named as an end" if _by_names(ends) else _why_two_kinds(table, *ends) or "can be an end"
    reasons = roles.taken["roles"] = list[tuple[str | int, str, str]]()  # each column with what it was read as, and why
    for column in all_columns:
        if column.at in picks:
            role = ("source", "target", "weight")[picks.index(column.at)]
            is_strength = column.is_called_weight or column.is_strength
            of_weight = "named as a strength" if is_strength else "the only numbers left that can be one"
            why = of_weight if role == "weight" else of_ends
            why = why if roles.asked[role] is None else "asked for"
        else:
            role = "left out"
            why = column.why_no_end or ("a text" if column.kind == "text" else "neither an end nor the only strength")
            if column.is_distance and column.numeric:
                why = "a distance, cost or place by its name: larger is less related"
            elif column.is_named_code:
                why = "numbers that stand for kinds, by its name"
        reasons.append((table.label(column.at), role, why))
    read = "not read" if weight is None else repr(named_weight)
    logger.info("%s; source %r, target %r, weight %s", table.title, *words[:2], read)
    return picks


def _why_two_kinds(table: Table, source: Column, target: Column) -> str:
    """Return what says that the ends are of two kinds of things; "" if nothing does before all edges are read.

    Names do: user and item, or two nouns before one word, order_id and product_id. Not where each row is a thing that
    points to another row, employee_id and manager_id, or most ids are on both sides.
    """
    if table.says == "bip":
        return "the file says '% bip'"
    if source.name is None:
        columns = columns_of(table)  # what users say of more items, or fewer: ids of unlike range, stars, seconds
        if len(columns) != _MATRIX - 1 or {source.at, target.at} != {0, 1} or not columns[3].seconds:
            return ""
        users, items, stars = (column.whole or [0] for column in columns[:3])
        less, more = sorted((max(users), max(items)))
        ratings = less > 0 and more > _UNLIKE * less and min(stars) > 0 and 2 < max(stars) <= _STARS
        return "whole numbers of unlike range, a rating and seconds" if ratings else ""
    a, b = source, target
    keys = len(a.words) > 1 and len(b.words) > 1 and a.words[-1] == b.words[-1] and a.words[-1] in KEYS
    apart = keys and {*a.words[:-1]}.isdisjoint(b.words[:-1])
    few = a.whole and b.whole and max(*a.whole, *b.whole) <= _SPREAD * len(a.known | b.known)  # 1, 2, 3, ...
    points = 2 * len(a.known & b.known) > len(b.known) and (a.diversity == 1 or not few)
    told = of_two_kinds(a.name, b.name) or (apart and not points and not _by_names([a, b]))
    return f"{a.name!r} and {b.name!r} by their names" if told else ""


def kind_of_table(owner: str, table: Table, name: str) -> Kind:
    """Return what a table holds: points, of which doubts are told, a text, or else edges, of one kind or two.

    Nodes and what is known of them are refused.
    """
    columns = columns_of(table)
    other = other_than_edges(table, columns, edges_asked=False)
    if other is not None and other.kind == "nodes":
        raise DataError(owner, "source", "pairs, a table, vectors or a text", f"{other.why}: {name}", other.hint)
    roles = Roles(bipartite=None, silent=True)
    if other is None:
        try:
            source, target, *_ = choose_columns("Relation.from_edges", roles, table, columns)
        except InputError as error:
            other = Kind("table", str(error.got).removeprefix("points: "))
    if other is not None:
        words = max(columns, key=lambda column: column.blanks, default=None)
        known = any(c.is_amount or c.is_category or c.kind in ("date", "truth", "measure") for c in columns)
        if words is not None and words.blanks > 1 and not known:
            return Kind("text", f"phrases in column {table.label(words.at)!r}", column=words.at)
        if other.kind == "table" and (doubt := _doubt_of_points(table, columns)):
            warn_user(f"{owner}: {doubt}")
        return other
    if "kinds" in roles.taken:
        return Kind("two kinds", roles.taken["kinds"], roles=roles)
    if are_named_ends([columns[at].name for at in (source, target)]):
        return Kind("graph", "two columns are named as the ends of an edge", roles=roles)
    shown = " and ".join(repr(table.label(k)) for k in (source, target))
    return Kind("graph", f"columns {shown} can be the ends of edges", roles=roles, sure=False)


def _doubt_of_edges(owner: str, table: Table, columns: Sequence[Column], picks: Sequence[int], kinds: str) -> str:
    """Return what makes it doubtful that two columns are the ends of edges; "" if nothing does.

    Their places alone say so, and another text tells as much apart (such ends with gaps are refused); one holds whole
    numbers without a name of ids; one tells the other, as a thing tells what is known of it (the first lines of a list
    that is sorted by the other do so, too); or both hold numbers that hardly come again, as amounts do.
    """
    a, b, *weights = (columns[at] for at in picks)
    fewer, more = sorted((a, b), key=lambda column: len(column.known))
    n, names, whys = len(a.values), (a.name, b.name), list[str]()
    named, of_two, wide = table.names is not None, of_two_kinds(*names), len(columns) > _EDGE
    shared = sum(not is_missing(value) for value in a.known & b.known)
    told = shared or kinds or any(column.is_strength or column.is_called_weight for column in weights)
    both = f"{table.label(a.at)!r} and {table.label(b.at)!r}"
    if wide and not (told or are_named_ends(names, perhaps=True)):
        if named and max([*map(str, end.values)].count("") for end in (a, b)) > 1:  # once: of a row of totals
            raise Kind("table", f"columns {both} could be ends by their places alone, and have gaps").refused(owner)
        texts = [c for c in columns if c.kind == "text" and not c.numeric and c.why_no_end is None and c.diversity < 1]
        texts = [c for c in texts if all(c is not end and _pairs(end, c) > len(end.known) for end in (a, b))]
        many = n >= _MANY or (named and len(columns) >= _MATRIX)
        whys += [f"their places alone say so, and {table.label(c.at)!r} could be one" for c in texts[:many]]
    sure = len(columns) < _MATRIX if of_two else are_named_ends(names) or {a.lower, b.lower} in _LETTERS
    if n >= _MANY and (wide or named) and not sure:
        unlike = wide and named and not _have_in_common(a, b)
        numbers = [end for end in (a, b) if unlike and end.whole and not end.is_named_key]
        whys += [f"{table.label(end.at)!r} holds whole numbers, which no name calls ids" for end in numbers]
        runs = 1 + sum(x != y for x, y in pairwise(map(str, fewer.values)))
        tells = 2 * shared < len(fewer.known) and 0 < _pairs(a, b) <= len(more.known)
        if tells and not len(fewer.known) == runs < n:
            whys.append(f"each {table.label(more.at)!r} has one {table.label(fewer.at)!r} alone")
    again = (a.is_named_key and b.is_named_key) or len(a.known | b.known) <= 2 * n * _HARDLY_AGAIN
    if n >= _MANY and wide and named and a.whole and b.whole and not again:
        whys.append("they hold numbers of which hardly one comes again")
    ways = "columns=(source, target), or kind='table'"
    return _though(f"{both} were read as the ends of edges", whys[-1], ways) if whys else ""


def _doubt_of_points(table: Table, columns: Sequence[Column]) -> str:
    """Return what makes it doubtful that a row is a point; "" if nothing does.

    A column holds numbers but for some words; or two hold texts or large whole numbers that come again, each pair once.
    """
    for column in (column for column in columns if column.kind == "text" and column.numeric):
        word = next((v for v in map(str, column.values) if not (is_number(v.replace(",", ".")) or is_missing(v))), "")
        read, why = f"{table.label(column.at)!r} was read as text", f"it holds numbers but for such as {word!r}"
        return _though(read, why, "a file without these, or without their lines")
    for column in (c for c in columns if c.whole and c.width >= _CODE and not (c.is_named_key or c.days or c.seconds)):
        measures = column.is_time or column.is_strength or column.is_distance or grows(column.whole, "or stays")
        if not measures and any(number % 100 for number in column.whole or ()):  # measures are rounded, codes are not
            read, why = f"{table.label(column.at)!r} was read as a measure", "all its numbers have as many digits"
            return _though(read, why, "a file without it, or with text in it, such as in front of codes")
    again = [c for c in columns if c.why_no_end is None and not c.years and c.diversity < _HARDLY_AGAIN]
    codes = [c for c in again if c.kind == "text" or min(c.whole or [0]) >= _LARGE]
    for a, b in combinations(codes[:_TRIED], 2):
        if _pairs(a, b) == len(a.values) >= _MANY:
            both = f"({table.label(a.at)!r}, {table.label(b.at)!r})"
            why = f"each pair of {both} comes once, as edges do"
            return _though("a row was read as a point", why, f"Relation.from_edges(path, columns={both})")
    return ""


def _though(read: str, why: str, ways: str) -> str:
    """Return what was read, what speaks against it, and what reads it otherwise."""
    return f"{read}, though {why}. Otherwise: {ways}."


def _find_weight(owner: str, roles: Roles, table: Table, others: Sequence[Column], ends: tuple[int, int]) -> int | None:
    """Return the column of the weights, None if there is none.

    It is called so; or is the only one of a name that means a strength, the only one of numbers behind the ends, or the
    only one at all.
    """
    called = [column for column in others if column.is_called_weight]
    if len(called) == 1:
        return called[0].at
    usual, named = [], table.names is not None
    for column in others:
        late, rows = column.at > 2 and column.seconds, column.at == 0 and column.counts_rows
        nothing = column.kind in ("mark", "nothing") and not column.numeric
        nothing = nothing or (named and len(column.values) >= _MANY and column.missing > 0.5)
        is_id = column.numbers_rows or (len(column.words) > 1 and column.is_named_key)
        if not (late or rows or nothing or is_id or column.is_time or column.is_named_time or column.years):
            usual.append(column)
    strengths = [column for column in usual if column.is_strength and not column.is_distance]
    strengths = [column for column in strengths if not column.is_ratio] or strengths
    whole = any(column.whole and not (column.is_distance or column.is_named_code) for column in usual)
    if len(strengths) == 1 and not (strengths[0].is_ratio and whole and named):  # moves, share of moves by night
        return strengths[0].at
    numbers = [column for column in usual if column.is_amount and not (column.is_distance and len(usual) > 1)]
    if len(numbers) == 1 and len(usual) > 1 and named:
        usual = [column for column in numbers if column.at > max(ends) and not column.looks_like_ids]
    if len(usual) != 1 or (named and len(table.head) >= _WIDE and not strengths):
        return None  # of so many columns a weight is called a strength
    column = usual[0]
    times = column.numeric and (column.seconds or (column.grows and column.days))
    least, most = min(column.numbers, default=0), max(column.numbers, default=0)
    if times or column.is_named_code or least < 0 >= most or (column.is_since_start and not named):
        return None
    classes = len(column.known) <= _CLASSES < len(column.values) / _ROWS_IN_A_ROW
    unlikely = column.missing or (len(others) > 1 and (classes or least < 0))
    if named and ((unlikely and not column.is_strength) or counts_within(table.head[ends[0]], column.values)):
        return None  # or ranks
    truths = column.kind == "truth" and (column.name is None or len(column.name) == 1)
    reads = f"weight={table.label(column.at)!r} reads it as it is"
    why, is_read = "", column.is_amount
    if not named and (column.grows or (column.numeric and grows_within(table.head[ends[0]], column.values))):
        how = "from line to line, as times do" if column.grows else "for each source, as distances and ranks do"
        why, is_read = f"grows {how}; it was read as the weight. {reads}", True
    elif column.numeric and column.is_distance:
        why = f"is no strength by its name, and larger weights mean more related; it was left out. {reads}"
        is_read = False
    elif column.kind == "measure" or truths:
        why = "holds no plain numbers; it was left out. Make numbers of it to read it as the weight"
        is_read = False
    if why:
        roles.warn(f"{owner}: {shown_column(table, column)} {why}, weight=False says that it is none.")
    return column.at if is_read else None
