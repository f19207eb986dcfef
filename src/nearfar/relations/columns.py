"""Which columns of a table are source, target and weight: by what was asked for, by their names, by their values.

What the default passes over is said in the relation's repr; where the choice is open a warning says what was chosen and
how to choose otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import Literal, NamedTuple, TypeGuard

import numpy as np

from nearfar._core.checks import check_integer
from nearfar._core.progress import logger
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.relations.inputs import Taken
from nearfar.relations.values import (
    Kind,
    is_missing,
    kind_of,
    numbers_of_sample,
    shape_of,
    the_words,
    whole_numbers_of,
    words_of,
)

Name = str | int | None

# Names of columns that by default are neither weights nor, where there are others, sources or targets.
_TIME_NAME = re.compile(r"(.*[ _-])?(time|timestamp|date|datetime|ts|year)([ _-].*)?|day|month|hour|when|since")
_TIME_WORDS = the_words("time timestamp date datetime year")
_ROW_NAME = re.compile(
    r"(|id|idx|index|row|row_?names?|nr|no|number|#|unnamed: 0|(row|edge|line|record|event)[ _-]?(id|number|index))"
)
_WEIGHTS = frozenset(("weight", "weights", "edge weight", "edgeweight"))
_STRENGTHS = the_words(
    """
    weight score scores count counts strength rating ratings stars freq frequency similarity occurrences amount points
    votes confidence passengers quantity trips volume kinship correlation shares hours plays listens clicks views
    """
)
_DISTANCES = the_words(
    """
    distance distances dist length len cost costs km miles meters metres meter pvalue pval p qvalue qval q fdr
    evalue rank ranking hops steps days minutes seconds min sec duration delay latency travel traveltime error
    rmsd gap price age lat lon lng latitude longitude
    """
)


def _pairs(text: str) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    pairs = (pair.split(" ") for pair in text.split("; "))
    return tuple((frozenset(left.split(",")), frozenset(right.split(","))) for left, right in pairs)


# Words that name the two ends of an edge, the clearest first; and what tells two names apart that are one else.
_ENDS = _pairs(
    "source,src target,tgt,dst,dest,destination; from to; start end; origin,orig destination,dest; "
    "sender receiver,recipient; head tail; subject,subj object,obj; caller callee,called; citing cited; "
    "follower followee,followed; parent child"
)
_COUNTED = _pairs("u v; s t; i j; a b; 1 2; 0 1; x y; out in")
_SINCE_1973 = 10**8  # seconds; ids are smaller, or of the same size in both columns
_BEGINS = the_words("start from")
_PLACES = the_words("id node vertex station stop point location place city airport name")
_KEYS = the_words("id key no number nr num suid uid uuid hash code ref")
_FEW = 0.25  # of the different values of another column
_TRIED = 8  # columns that can be ends
_HARDLY = 0.1  # by how much two columns must look more like ends than others
_GROWING = 5  # values that must grow to look like times
_LARGE = 10**6  # of counts and ids
_NO_ENDS = {
    "mark": "punctuation", "nothing": "nothing", "truth": "true or false", "amount": "amounts", "measure": "amounts",
}  # fmt: skip
_SHORT = 3  # words of a name
_UNITS = (1, 1e3, 1e6, 1e9)
_STEP = 10  # the times of contacts are multiples of that or more
_ROWS_IN_A_ROW = 10  # a first column that grows with each of so many rows numbers them
_MATRIX = 5  # columns of numbers without names
_CLEARLY = 0.5  # by how much two other columns must look more like ends than the first two
_PEOPLE = re.compile(
    r"user|customer|reader|listener|viewer|reviewer|rater|buyer|client|member|student|patient|visitor|subscriber|"
    r"author|actor|person|employee|player"
)
_THINGS = re.compile(
    r"item|product|movie|film|book|song|track|album|artist|paper|article|page|url|course|genre|business|restaurant|"
    r"shop|store|tag|event|team|company|group|club|project|repo|repository|game|document|word|query|category|hashtag"
)


@dataclass(frozen=True)
class Roles:
    """The arguments about columns: names or positions, None for the default, ``weight=False`` for no weight.

    ``bipartite`` is None where it is not said; ``taken`` receives which columns were read and which were left out,
    ``warned`` what was warned of.
    """

    source: Name = None
    target: Name = None
    weight: Name | Literal[False] = None
    bipartite: bool | None = False
    taken: Taken = field(default_factory=Taken)
    warned: list[str] = field(default_factory=list)

    @property
    def asked(self) -> dict[str, Name | Literal[False]]:
        """The three arguments."""
        return {"source": self.source, "target": self.target, "weight": self.weight}

    @property
    def names(self) -> list[str]:
        """The columns that are asked for by name."""
        return [role for role in self.asked.values() if isinstance(role, str)]

    def warn(self, text: str) -> None:
        """Warn the user, and keep the warning."""
        self.warned.append(text)
        warn_user(text)

    def refuse(self, owner: str, kind: str) -> None:
        """Refuse names of columns for an input that has none."""
        for argument, value in self.asked.items():
            if value is not None and not (argument == "weight" and value is False):
                raise InputError(owner, argument, f"left out for {kind}, which has no columns to name", value)


class Table(NamedTuple):
    """What is known of a table before it is read.

    Attributes
    ----------
    title : str
        What it is, for the log.
    names : sequence of str or None
        Names of the columns.
    head : sequence of sequences
        The first values of each column.
    numeric : sequence of bool
        Which columns hold numbers.
    form : str
        What a text was taken for: "tabs, a header".
    """

    title: str
    names: Sequence[str] | None
    head: Sequence[Sequence[object]]
    numeric: Sequence[bool]
    form: str = ""

    def label(self, column: int) -> str | int:
        """Return the name of a column, or its position."""
        return column if self.names is None else self.names[column]


@dataclass(frozen=True, eq=False)
class _Column:
    """What a column shows of itself."""

    at: int
    name: str | None
    values: Sequence[object]
    kind: Kind
    numeric: bool

    @property
    def lower(self) -> str:
        return (self.name or "").strip().lower()

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.name or "")

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(map(str, self.values))

    @cached_property
    def shapes(self) -> frozenset[str]:
        return frozenset(map(shape_of, self.known))

    @property
    def is_time(self) -> bool:
        """Whether it holds times by its name, or dates."""
        named = self.name is not None and (is_time(self.lower, self.at) or not _TIME_WORDS.isdisjoint(self.words))
        return self.kind == "date" or (named and self.kind in ("whole", "number", "text", "nothing"))

    @cached_property
    def diversity(self) -> float:
        """How many of its values are different."""
        return len(self.known) / max(1, len(self.values))

    @property
    def missing(self) -> float:
        """How many of its values mark that there is none."""
        return sum(map(is_missing, self.values)) / max(1, len(self.values))

    @property
    def is_key(self) -> bool:
        """Whether it may be the key of the rows."""
        return self.diversity == 1 and len(self.values) > 2 and bool(self.words) and self.words[-1] in _KEYS

    @property
    def numbers_rows(self) -> bool:
        """Whether it is named as row numbers; or has no name, where others have."""
        return self.name is not None and _ROW_NAME.fullmatch(self.lower) is not None

    @property
    def counts_rows(self) -> bool:
        """Whether it holds 0, 1, 2, ... or 1, 2, 3, ..."""
        numbers = whole_numbers_of(self.values)
        return (
            numbers is not None
            and len(numbers) > 1
            and numbers[0] in (0, 1)
            and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        )

    @property
    def is_amount(self) -> bool:
        """Whether it holds numbers, perhaps with a unit."""
        return self.numeric or self.kind == "amount"

    @property
    def grows(self) -> bool:
        """Whether whole numbers grow or stay, and take several values."""
        return (
            len(self.values) >= _GROWING and len(self.known) > 2 and _grows(whole_numbers_of(self.values), "or stays")
        )

    @property
    def looks_like_ids(self) -> bool:
        """Whether it holds large whole numbers that hardly come again, flags, or not numbers alone."""
        numbers = whole_numbers_of(self.values)
        large = numbers is not None and max(numbers) >= _LARGE and self.diversity > 0.8
        return large or self.known <= {"0", "1"} or self.kind not in ("whole", "number", "amount")

    @property
    def is_strength(self) -> bool:
        """Whether it holds numbers that are strengths by their name."""
        return self.is_amount and not _STRENGTHS.isdisjoint(self.words)

    @property
    def is_distance(self) -> bool:
        joined = "".join(self.words)
        return joined in _DISTANCES or any(len(word) > 1 and word in _DISTANCES for word in self.words)

    @property
    def seconds(self) -> bool:
        """Whether it holds seconds since 1970, or thousandths or millionths of them, by the size of its numbers."""
        numbers = numbers_of_sample(self.values)
        whole = len(numbers) == len(self.values) > 0
        return whole and any(
            _SINCE_1973 * unit <= min(numbers) <= max(numbers) < 50 * _SINCE_1973 * unit for unit in _UNITS
        )

    @property
    def years(self) -> bool:
        """Whether it holds years."""
        numbers = whole_numbers_of(self.values)
        return numbers is not None and 1800 <= min(numbers) <= max(numbers) < 2100

    @property
    def why_no_end(self) -> str | None:
        """What makes it no end of an edge, if anything does."""
        if self.is_time:
            return "times"
        if self.at == 0 and self.numbers_rows and _grows(whole_numbers_of(self.values)):
            return "row numbers"
        if self.kind == "number":
            return "times" if self.seconds else "numbers with fractions"
        return {"mark": "punctuation", "nothing": "nothing", "truth": "true or false", "amount": "amounts"}.get(
            self.kind
        )


def choose_columns(owner: str, roles: Roles, table: Table) -> list[int]:
    """Return the positions of source, target and, if there is one, weight.

    By default source and target are the two columns whose names say so (source and target, from and to, ...), else the
    first two that can be ends of edges. Times, row numbers, numbers with fractions, and columns of punctuation cannot;
    other columns come before the first two where their values or names clearly have more in common. The weight is the
    column called weight, the only one called a strength (score, count, rating, ...), or the only other one, if it holds
    numbers and is neither a time, a row number nor, by its name, a distance.

    Raises
    ------
    InputError
        If there is no such column, one column has two roles, or no two columns can be ends of edges.

    Warns
    -----
    NearfarWarning
        If the choice is open; or if names are of two kinds of objects while ``roles.bipartite`` is not said.
    """
    names, n_columns = table.names, len(table.head)
    if n_columns < 2:
        got = f"{n_columns} column(s)" + (f": {', '.join(map(repr, names))}" if names else "")
        hint = "If the columns are separated by something else, pass delimiter."
        raise InputError(owner, "edges", "a table of at least two columns", got, hint)
    source, target, weight = (
        None if role is None or role is False else position_of(owner, argument, role, names, n_columns)
        for argument, role in roles.asked.items()
    )
    columns = [
        _Column(
            k,
            None if names is None else names[k],
            values,
            kind_of(values) if values or not numeric else "whole",
            bool(numeric),
        )
        for k, (values, numeric) in enumerate(zip(table.head, table.numeric, strict=True))
    ]
    asked = [k for k in (source, target, weight) if k is not None]
    ends_asked = source is not None and target is not None
    if source is None or target is None:
        _refuse_matrix(owner, table, columns, asked)
        ends = _Ends(owner, roles, table, columns, source, target, weight)
        source, target = ends.found()
        columns = [column for column in columns if column.at not in ends.told]
    if len({source, target, weight}) < 3:
        raise InputError(
            owner, "source, target and weight", "different columns", f"{roles.asked} of {n_columns} columns"
        )
    if roles.weight is None:
        before = min(source, target) if names is None else 0  # whole numbers in front, without a name, are no weights
        texts = not ends_asked and all(kind_of(table.head[k]) == "text" for k in (source, target))
        others = [
            c for c in columns if c.at not in (source, target) and (c.at >= before or texts or c.kind == "number")
        ]
        weight = _find_weight(owner, roles, table, others, (source, target))
    if roles.bipartite is None and names is not None:
        _check_kinds(owner, roles, [names[source], names[target]])
    picks = [source, target] if weight is None else [source, target, weight]
    words = [table.label(column) for column in picks]
    rest = [table.label(column) for column in range(n_columns) if column not in picks]
    roles.taken.update(
        {"source": words[0], "target": words[1], "weight": words[2] if words[2:] else None, "left_out": rest}
    )
    if table.form:
        roles.taken["form"] = table.form
    logger.info(
        "%s; source %r, target %r, weight %s", table.title, *words[:2], repr(words[2]) if words[2:] else "not read"
    )
    return picks


# -- which two columns are the ends ------------------------------------------------------------------------------------


@dataclass
class _Ends:
    """The choice of the source and the target; what is asked for is not chosen."""

    owner: str
    roles: Roles
    table: Table
    columns: Sequence[_Column]
    source: int | None
    target: int | None
    weight: int | None
    told: list[int] = field(default_factory=list)  # columns that were warned of, and are no weights

    def found(self) -> tuple[int, int]:
        """Return the two; warns where that is open, and refuses where it cannot be."""
        asked = {self.source, self.target, self.weight} - {None}
        free = [column for column in self.columns if column.at not in asked]
        called = [column for column in free if column.lower in _WEIGHTS]
        if len(called) == 1 and self.weight is None and len(free) > 2:
            free.remove(called[0])
        named = _by_names(free) if self.source is self.target is None else []
        if named:
            return self._named(named)
        if len(free) + sum(at is not None for at in (self.source, self.target)) == 2:
            return self._of_two(free)
        could = [column for column in free if column.why_no_end is None and not self._is_measure(column)]
        if self.source is not None or self.target is not None:
            return self._with_one_given(could, free)
        if len(could) < 2:
            self._refuse(free)
        return self._by_values(could)

    def _named(self, pairs: Sequence[tuple[_Column, _Column]]) -> tuple[int, int]:
        """Return the first of the pairs whose names say so; a later one may be other things."""
        first, second = pairs[0]
        other = next((pair for pair in pairs[1:] if _is_another(pair, pairs[0])), None)
        names = [column.name for column in self.columns]
        twice = next((column for column in self.columns if column.name and names.count(column.name) > 1), None)
        if other is not None:
            return self._warn(other[0], "an end of an edge, too", first.at, second.at)
        if twice is not None and twice not in pairs[0]:
            return self._warn(twice, "an end of an edge, too, as two columns have this name", first.at, second.at)
        return first.at, second.at

    def _of_two(self, free: Sequence[_Column]) -> tuple[int, int]:
        """There is no choice; numbers at dates are no edges."""
        if sorted(column.kind for column in free) == ["date", "number"]:
            self._refuse(free)
        left = iter(free)
        first = next(left).at if self.source is None else self.source
        second = next(left).at if self.target is None else self.target
        fractions = [any(value % 1 for value in numbers_of_sample(column.values)) for column in free]
        if len(free) == 2 and all(fractions) and all(isinstance(column.values[0], str) for column in free):
            shown = " and ".join(_shown(self.table, column) for column in free)
            self.roles.warn(f"{self.owner}: {shown} hold numbers with fractions, which were read as ids.")
        return first, second

    def _is_measure(self, column: _Column) -> bool:
        """Whether it is named as a weight or a distance, and is not needed as an end."""
        measures = column.lower in _WEIGHTS or column.is_strength or (column.is_distance and column.numeric)
        return measures and len(self.columns) > 2

    def _with_one_given(self, could: Sequence[_Column], free: Sequence[_Column]) -> tuple[int, int]:
        if not could:
            self._refuse(free)
        return (could[0].at, self.target) if self.source is None else (self.source, could[0].at)  # type: ignore[return-value]

    def _refuse(self, free: Sequence[_Column]) -> None:
        column = next((column for column in free if column.why_no_end is not None), None)
        given = {"source": self.source, "target": self.target}
        role = next(role for role, at in given.items() if at is None)
        if column is None:
            got = f"{self.roles.asked} of {len(self.columns)} columns"
            raise InputError(self.owner, "source, target and weight", "different columns", got)
        expected = f"given where the {role} would be {column.why_no_end}"
        raise InputError(self.owner, "columns", expected, _shown(self.table, column), self._naming)

    @property
    def _naming(self) -> str:
        there = ", ".join(repr(self.table.label(column.at)) for column in self.columns)
        return f"Name the source and the target by columns=, two of {there}."

    def _warn(self, left_out: _Column, what: str, first: int, second: int) -> tuple[int, int]:
        read = f"{self.table.label(first)!r} -> {self.table.label(second)!r} is read"
        shown = _shown(self.table, left_out)
        if what != "a weight" and (left_out.kind != "number" or left_out.seconds):
            self.told.append(left_out.at)
        self.roles.warn(f"{self.owner}: {shown} looks like {what}; {read}. {self._naming}")
        return first, second

    def _by_values(self, could: Sequence[_Column]) -> tuple[int, int]:
        first, second, *others_left = could
        if others_left and first.at == 0 and first.counts_rows and second.kind == others_left[0].kind == "text":
            self.told.append(first.at)
            return second.at, others_left[0].at
        if others_left:
            likely = _times_or_rows(first.values, second.values, others_left[0].values)
            named = first.name is not None and len(first.name) > 1 and second.kind == others_left[0].kind == "text"
            if likely and first.at == 0 and (first.seconds or named):
                self.told.append(first.at)
                return second.at, others_left[0].at
            if likely and first.at == 0:
                return self._warn(first, likely, second.at, others_left[0].at)
        scores = {(a, b): _likeness(a, b, could) for a, b in combinations(could[:_TRIED], 2)}
        best = max(scores, key=lambda pair: scores[pair])
        if self.table.names is not None:
            others = [score for pair, score in scores.items() if not _alike(pair, best)]
            if scores[best] < 0 or (others and scores[best] - max(others) < _HARDLY):
                out = next(column for column in could if column not in best)
                return self._warn(out, "an end of an edge, too", best[0].at, best[1].at)
            return self._open_or(best)
        if best != (first, second) and scores[best] > scores[first, second] + _CLEARLY:
            between = next(column for column in could if column not in best)
            what = "names of relations" if between.at == best[0].at + 1 else "no end of an edge"
            what = "another name of the one before" if _alike((between, first), (best[0], first)) else what
            what = "a weight" if between.numeric and best[0].kind == best[1].kind == "text" else what
            return self._warn(between, what, best[0].at, best[1].at)
        if others_left and _may_be_relations(second, first, others_left[0]):
            return self._warn(second, "names of relations", first.at, second.at)
        passed = [column for column in self.columns[: first.at] if column.kind == "number" and not column.seconds]
        if passed:
            return self._warn(passed[0], str(passed[0].why_no_end), first.at, second.at)
        return self._open_or((first, second))

    def _open_or(self, ends: tuple[_Column, _Column]) -> tuple[int, int]:
        """Return two columns; warns if there are many and nothing but their places says that they are the ends."""
        a, b = ends
        told = _by_names([a, b]) or {*a.words[-1:]} & {*b.words} or _of_two_kinds(a.name, b.name)
        told = told or any({*a.words} & sources or {*b.words} & targets for sources, targets in _ENDS)
        if len(self.columns) >= _MATRIX and not told and not (a.known & b.known):
            others = sum(column.numeric for column in self.columns if column not in ends)
            if others >= _MATRIX - 1 or self.table.names is None:
                return self._warn(a, "an end of an edge by its place alone", a.at, b.at)
        return a.at, b.at


def _by_names(columns: Sequence[_Column]) -> list[tuple[_Column, _Column]]:
    """Return the pairs of columns whose names say that they are the ends, with the same other words: from and to node.

    The best first: that of more different values, of text before numbers, the first.
    """
    could = [column for column in columns if column.name is not None and column.why_no_end != "times"]
    for kinds in (*((pair,) for pair in _ENDS), _COUNTED):
        found = []
        for (sources, targets), a, b in product(kinds, could, could):
            left, right = set(a.words), set(b.words)
            if a is b or not (left & sources and right & targets):
                continue
            if kinds is _COUNTED and (len(left) == 1 or sum(_stem(c) == left - sources for c in could) > 2):
                continue  # a, b, c; or x1, x2, x3
            alike = left - sources == right - targets
            fits = a.kind == b.kind and a.kind not in ("number", "truth", "amount")
            if (
                left & _BEGINS
                and a.kind in ("whole", "number")
                and (a.years or ("start" in left and left - sources - _PLACES))
            ):
                continue  # where an interval begins and ends
            if alike or (kinds is not _COUNTED and fits and max(len(left), len(right)) <= _SHORT):
                few = a.diversity + b.diversity < 2 * _FEW * max(column.diversity for column in could)
                found.append((not alike, few, not fits, len(a.words), a.kind != "text", a.at + b.at, a.at, b.at))
        if found:
            best = min(found)[:3]
            at = {column.at: column for column in could}
            return [(at[pair[-2]], at[pair[-1]]) for pair in sorted(found) if pair[:3] == best]
    return []


def _stem(column: _Column) -> set[str]:
    """Return the words of a name without what counts: numbers, and letters such as a and b."""
    counters = {word for sides in _COUNTED for side in sides for word in side}
    return {word for word in column.words if not word.isdecimal() and word not in counters}


def _likeness(a: _Column, b: _Column, all_columns: Sequence[_Column]) -> float:
    """How much two columns look like the two ends of edges."""
    score = (0.5 if a.name is not None else 0.8) * (a.kind == b.kind)
    if a.name is not None and b.name is not None:
        common = {*a.words} & {*b.words}
        score += 3.0 if _by_names([a, b]) else 1.5 if common and a.words[-1] == b.words[-1] else 0.0
        key = next(column for column in all_columns if column.kind in ("whole", "text"))
        score -= 1.5 * (key in (a, b) and key.is_key and len(all_columns) > 2)
        score -= 2.0 * max(a.missing, b.missing)
    if a.kind == b.kind == "text":
        score += 2.0 * min(1.0, 4 * len(a.known & b.known) / max(1, min(len(a.known), len(b.known))))
        score += len(a.shapes & b.shapes) / max(1, len(a.shapes | b.shapes))
    else:
        score += 1.5 * len(a.known & b.known) / max(1, len(a.known | b.known))
    sorted_ones = 0.5 if len(a.known) == 1 < len(a.values) and a.name is not None else 1.0  # the first may be sorted
    score += 1.5 * min(sorted_ones if a is all_columns[0] else a.diversity, b.diversity)
    score += _of_two_kinds(a.name, b.name)
    pairs = len(set(zip(map(str, a.values), map(str, b.values), strict=True)))
    if len(a.known) == len(b.known) == pairs < len(a.values):
        score -= 3.0  # one is the label of the other
    may_be_constant = a.name is None or len(all_columns) < _MATRIX
    constant = [column for column in (a, b) if len(column.known) == 1 < len(column.values) - 1]
    score -= 2.0 * sum(not may_be_constant or column.at > all_columns[0].at for column in constant)
    at = [column.at for column in all_columns]
    return score - 0.3 * at.index(a.at) - 0.3 * (at.index(b.at) - at.index(a.at) - 1)


def _alike(pair: tuple[_Column, _Column], other: tuple[_Column, _Column]) -> bool:
    """Whether two pairs say the same: a column may be the label of another."""
    return all(
        a is b or len(set(zip(map(str, a.values), map(str, b.values), strict=True))) == len(a.known) == len(b.known)
        for a, b in zip(pair, other, strict=True)
    )


def _is_another(pair: tuple[_Column, _Column], best: tuple[_Column, _Column]) -> bool:
    """Whether a pair of columns may as well be the ends: of other things, told apart by more than the best's names."""
    tells = all(len(column.known) > 1 and column.missing < 0.5 for column in pair)
    more = {*best[0].words} < {*pair[0].words}
    return {*pair}.isdisjoint(best) and tells and not more and not _alike(pair, best)


def _may_be_relations(column: _Column, before: _Column, behind: _Column) -> bool:
    """Whether a column of few texts between two of many looks like kinds of relations."""
    few = len(column.known) <= max(1, min(len(before.known), len(behind.known)) // 3)
    return few and column.kind == before.kind == behind.kind == "text" and len(column.values) > 3


def is_time(name: str, column: int) -> bool:
    """Whether a column is named as times; by its name in lower case."""
    return _TIME_NAME.fullmatch(name) is not None or (name == "t" and column != 1)  # s and t are source and target


def _times_or_rows(source: Sequence[object], target: Sequence[object], other: Sequence[object]) -> str | None:
    """Return what the values of the source seem to be if the other two columns are alike and it is unlike them."""
    numbers, seconds, thirds = map(whole_numbers_of, (source, target, other))
    if not _grows(numbers, "or stays") or len(numbers) < 3 or numbers[0] == numbers[-1]:
        return None
    in_rows = len(numbers) >= _ROWS_IN_A_ROW and _grows(numbers)
    if all(isinstance(value, str) for value in (*target, *other)) and seconds is thirds is None:
        alike = numbers[0] >= _SINCE_1973 or not {*target}.isdisjoint(other)
        return ("row numbers or times" if in_rows else "times") if alike else None
    if seconds is None or thirds is None:
        return None
    if max(seconds) > 4 * max(thirds) or max(thirds) > 4 * max(seconds):
        return None  # a weight, or ids of another kind
    if in_rows:
        return "row numbers or times"
    steps = len({*numbers}) > 2 and math.gcd(*numbers) >= _STEP
    return "times" if steps or numbers[0] > max(*seconds, *thirds) else None


def _grows(numbers: Sequence[int] | None, or_stays: str = "") -> TypeGuard[Sequence[int]]:
    pairs = pairwise(numbers or ())
    return numbers is not None and all(a <= b if or_stays else a < b for a, b in pairs)


def _refuse_matrix(owner: str, table: Table, columns: Sequence[_Column], asked: Sequence[int]) -> None:
    """Refuse many columns of numbers without names, and a square table whose names come again in its first column."""
    names = table.names
    numbers = all(column.kind in ("whole", "number", "nothing") for column in columns)
    vectors = columns[0].kind == "text" and all(column.kind in ("whole", "number") for column in columns[1:])
    vectors = vectors and sum(column.kind == "number" for column in columns) >= _MATRIX - 2
    square = (
        names is not None and len(names) > 3 and list(map(str, columns[0].values))[: len(names) - 1] == list(names[1:])
    )
    if asked or not (square or (names is None and (numbers or vectors) and len(columns) >= _MATRIX)):
        return
    expected = "a table whose columns are the ends of edges and a weight"
    got = f"{len(columns)} columns of numbers without names" if numbers else "ids and vectors of numbers"
    hint = "A matrix of relations goes to Relation.from_matrix, vectors to Embedding.load, points to a map, neighbours "
    hint += "of points to Relation.from_edges as pairs. "
    if square:
        got = "a square matrix with names"
    raise InputError(owner, "edges", expected, got, hint + "If two columns are the ends, name them by columns=.")


# -- which column is the weight ----------------------------------------------------------------------------------------


def _find_weight(
    owner: str, roles: Roles, table: Table, others: Sequence[_Column], ends: tuple[int, int]
) -> int | None:
    """Return the column of the weights, None if there is none.

    It is called so; or is the only one of a name that means a strength, the only one of numbers behind the ends, or the
    only one at all.
    """
    called = [column for column in others if column.lower in _WEIGHTS]
    if len(called) == 1:
        return called[0].at
    usual = [column for column in others if not _is_passed_over(column)]
    strengths = [column for column in usual if column.is_strength and not column.is_distance]
    if len(strengths) == 1:
        return strengths[0].at
    numbers = [column for column in usual if column.is_amount and not (column.is_distance and len(usual) > 1)]
    if len(numbers) == 1 and len(usual) > 1 and table.names is not None:
        usual = [column for column in numbers if column.at > max(ends) and not column.looks_like_ids]
    if len(usual) != 1:
        return None
    column = usual[0]
    reads = f"weight={table.label(column.at)!r} reads it as it is"
    if column.numeric and column.seconds:
        return None  # times without doubt
    if column.grows and table.names is None:
        why = f"grows from line to line, as times do; it was read as the weight. {reads}"
        roles.warn(f"{owner}: {_shown(table, column)} {why}, weight=False says that it is none.")
        return column.at
    if column.numeric and column.is_distance:
        why = f"is no strength by its name, and larger weights mean more related; it was left out. {reads}"
    elif column.kind == "measure" or (column.kind == "truth" and (column.name is None or len(column.name) == 1)):
        why = "holds no plain numbers; it was left out. Make numbers of it to read it as the weight"
    else:
        return column.at if column.is_amount else None
    roles.warn(f"{owner}: {_shown(table, column)} {why}, weight=False says that it is none.")
    return None


def _is_passed_over(column: _Column) -> bool:
    late = column.at > 2 and column.seconds
    named = column.name is not None and (is_time(column.lower, column.at) or column.numbers_rows)
    ids = len(column.words) > 1 and column.words[-1] in ("id", "ids")
    rows = column.at == 0 and column.counts_rows
    return late or named or ids or rows or column.is_time or (column.kind in ("mark", "nothing") and not column.numeric)


def _of_two_kinds(*names: str | None) -> bool:
    """Whether two names are of people and of things."""
    singular = [re.sub(r"[ _-]?(id|name)?s?$", "", (name or "").strip().lower()) for name in names]
    return any(_PEOPLE.fullmatch(a) and _THINGS.fullmatch(b) for a, b in (singular, singular[::-1]))


def _check_kinds(owner: str, roles: Roles, names: Sequence[str]) -> None:
    if _of_two_kinds(*names):
        text = f"{owner}: columns {names[0]!r} and {names[1]!r} are of two kinds by their names, and were read as one: "
        text += "the same id in both is one object. Pass bipartite=True to keep them apart, or bipartite=False."
        roles.warn(text)


def _shown(table: Table, column: _Column) -> str:
    values = ", ".join(str(value) for value in column.values[:3])
    return f"column {table.label(column.at)!r} ({values}, ...)"


def position_of(owner: str, argument: str, role: object, names: Sequence[str] | None, n_columns: int) -> int:
    """Return the position of a column that is asked for by its name or its position."""
    if isinstance(role, (int, np.integer)):
        return check_integer(owner, argument, role, low=0, high=n_columns - 1)
    if not isinstance(role, str):
        raise InputError(owner, argument, "the name or position of a column", role)
    if names is None:
        hint = "The input names no columns; pass header=True if its first line does."
        raise InputError(owner, argument, f"a position from 0 to {n_columns - 1}", repr(role), hint)
    if names.count(role) != 1:
        expected = "one of the columns" if role not in names else "a column whose name occurs once"
        raise InputError(owner, argument, f"{expected}: {', '.join(map(repr, names))}", repr(role))
    return names.index(role)
