"""Which columns of a table are source, target and weight: by what was asked for, by their names, by their values.

A default that would take times or row numbers for ids is refused; where values only look like that, a warning says so.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Literal, NamedTuple, TypeGuard

import numpy as np

from nearfar._core.checks import check_integer
from nearfar._core.progress import logger
from nearfar.errors import InputError, NearfarWarning
from nearfar.relations.inputs import Taken

Name = str | int | None

# Names of columns that by default are neither weights nor, where there are others, sources or targets.
_TIME_NAME = re.compile(r"(.*[ _-])?(time|timestamp|date|datetime|ts|year)([ _-].*)?|day|month|when|since")
_ROW_NAME = re.compile(r"(|id|idx|index|row|nr|no|number|#|unnamed: 0|(row|edge)[ _-]?(id|number|index))")
_DATE = re.compile(r"\d{4}[-/]\d\d?[-/]\d\d?\b.*|\d\d?[-/.]\d\d?[-/.]\d{4}\b.*")
_WHOLE = re.compile(r"[+-]?\d+")
_SINCE_1973 = 10**8  # seconds; ids are smaller, or of the same size in both columns
_STEP = 10  # the times of contacts are multiples of that or more
_ROWS_IN_A_ROW = 10  # a first column that _grows with each of so many rows numbers them
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
    def named(self) -> bool:
        """Whether a column is asked for by name."""
        return any(isinstance(role, str) for role in self.asked.values())

    def warn(self, text: str) -> None:
        """Warn the user, and keep the warning."""
        self.warned.append(text)
        warnings.warn(text, NearfarWarning, stacklevel=8)  # about where the user's own code is

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
    """

    title: str
    names: Sequence[str] | None
    head: Sequence[Sequence[object]]
    numeric: Sequence[bool]

    def label(self, column: int) -> str | int:
        """Return the name of a column, or its position."""
        return column if self.names is None else self.names[column]


def choose_columns(owner: str, roles: Roles, table: Table) -> list[int]:
    """Return the positions of source, target and, if there is one, weight.

    By default source and target are the columns of these names (upper or lower case), else the first two that are not
    the weight. The weight is the column called weight, else the third of three if it holds numbers; columns whose names
    are those of times or of row numbers do not count, nor do those behind the third that hold times.

    Raises
    ------
    InputError
        If there is no such column, one column has two roles, or a default would take times or row numbers for ids.

    Warns
    -----
    NearfarWarning
        If values look as if it did, or names like two kinds of objects while ``roles.bipartite`` is not said.
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
    lower = [name.strip().lower() for name in names or ()]
    if roles.weight is None:
        if lower.count("weight") == 1:
            found: int | None = lower.index("weight")
        else:
            usual = [k for k in range(n_columns) if not lower or not _is_time_or_row(lower[k], k)]
            usual = [k for k in usual if k < 3 or not _are_times(table.head[k])]
            found = usual[2] if len(usual) == 3 and table.numeric[usual[2]] else None
        weight = None if found in (source, target) else found
    if source is None and target is None and lower.count("source") == lower.count("target") == 1:
        source, target = lower.index("source"), lower.index("target")
    free = (column for column in range(n_columns) if column not in {source, target, weight})
    first = next(free, None) if source is None else source
    second = next(free, None) if target is None else target
    if first is None or second is None or len({first, second, weight}) < 3:
        raise InputError(
            owner, "source, target and weight", "different columns", f"{roles.asked} of {n_columns} columns"
        )
    by_name = "weight" in lower or (roles.weight is not None and roles.weight is not False)
    others = [column for column in range(n_columns) if column not in (first, second, weight if by_name else None)]
    defaults = {"source": first} if source is None else {}
    defaults |= {"target": second} if target is None else {}
    if others and defaults:
        _check_ids(owner, table, lower, defaults)
    if others and source is None:
        _check_growing(owner, roles, table, [first, second, others[0]])
    if roles.weight is None and weight is not None:
        _check_weight(owner, roles, table, weight)
    if roles.bipartite is None and names is not None:
        _check_kinds(owner, roles, [names[first], names[second]])
    picks = [first, second] if weight is None else [first, second, weight]
    words = [table.label(column) for column in picks]
    rest = [table.label(column) for column in range(n_columns) if column not in picks]
    roles.taken.update(
        {"source": words[0], "target": words[1], "weight": words[2] if words[2:] else None, "left_out": rest}
    )
    logger.info(
        "%s; source %r, target %r, weight %s", table.title, *words[:2], repr(words[2]) if words[2:] else "not read"
    )
    return picks


def is_time(name: str, column: int) -> bool:
    """Whether a column is named as times; by its name in lower case."""
    return _TIME_NAME.fullmatch(name) is not None or (name == "t" and column != 1)  # s and t are source and target


def _is_time_or_row(name: str, column: int) -> bool:
    return is_time(name, column) or _ROW_NAME.fullmatch(name) is not None


def _check_ids(owner: str, table: Table, lower: Sequence[str], defaults: dict[str, int]) -> None:
    """Refuse a default that takes times or row numbers for ids, by the name of a column or by its dates."""
    for role, column in defaults.items():
        values, name = table.head[column], lower[column] if lower else "a column without a name"
        if is_time(name, column) or (values and all(map(_is_date, values))):
            what = "times"
        elif role == "source" and _ROW_NAME.fullmatch(name) and _grows(_whole_numbers(values)):
            what = "row numbers"
        else:
            continue
        expected = f"given where the {role} would be {what}"
        raise InputError(owner, "columns", expected, _shown_column(table, column), _naming(table))


def _check_growing(owner: str, roles: Roles, table: Table, columns: Sequence[int]) -> None:
    """Warn where the numbers of the source, the first of three columns, look like times or row numbers."""
    likely = _times_or_rows(*(table.head[column] for column in columns))
    if likely:
        shown = _shown_column(table, columns[0])
        roles.warn(f"{owner}: {shown} looks like {likely}, and was read as the source. {_naming(table)}")


def _times_or_rows(source: Sequence[object], target: Sequence[object], other: Sequence[object]) -> str | None:
    """Return what the values of the source seem to be if the other two columns are alike and it is unlike them."""
    numbers, seconds, thirds = map(_whole_numbers, (source, target, other))
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


def _is_date(value: object) -> bool:
    return isinstance(value, date) or (isinstance(value, str) and _DATE.fullmatch(value) is not None)


def _are_times(values: Sequence[object]) -> bool:
    numbers = _whole_numbers(values)
    return numbers is not None and min(numbers) >= _SINCE_1973


def _check_weight(owner: str, roles: Roles, table: Table, column: int) -> None:
    if _are_times(table.head[column]) and table.label(column) != "weight":
        text = f"{owner}: {_shown_column(table, column)} looks like times, and was read as the weight. "
        text += "Pass weight=False to read no weights, or name the weight."
        roles.warn(text)


def _check_kinds(owner: str, roles: Roles, names: Sequence[str]) -> None:
    singular = [re.sub(r"[ _-]?(id|name)?s?$", "", name.strip().lower()) for name in names]
    if any(_PEOPLE.fullmatch(a) and _THINGS.fullmatch(b) for a, b in (singular, singular[::-1])):
        text = f"{owner}: columns {names[0]!r} and {names[1]!r} are of two kinds by their names, and were read as one: "
        text += "the same id in both is one object. Pass bipartite=True to keep them apart, or bipartite=False."
        roles.warn(text)


def _whole_numbers(values: Sequence[object]) -> list[int] | None:
    """Return values as integers if there are some and all are, as texts or by themselves."""
    texts = [value for value in values if isinstance(value, str) and _WHOLE.fullmatch(value)]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    found = [int(value) for value in texts or numbers if isinstance(value, str) or value % 1 == 0]
    return found if found and len(found) == len(values) else None


def _shown_column(table: Table, column: int) -> str:
    values = ", ".join(str(value) for value in table.head[column][:3])
    return f"column {table.label(column)!r} ({values}, ...)"


def _naming(table: Table) -> str:
    there = ", ".join(repr(table.label(column)) for column in range(len(table.head)))
    return f"Name the source and the target by columns=, two of {there}."


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
