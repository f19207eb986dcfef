"""What the first values of a column are, and what they and its name show: times, row numbers, strengths, ids, ...

Values are whole numbers, numbers, dates, truths, amounts, measures, marks or text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeGuard

import numpy as np

from nearfar._core import columns
from nearfar._core.frames import is_null
from nearfar.reading.names import the_words, words_of
from nearfar.reading.tables import Table

Kind = Literal["whole", "number", "date", "truth", "amount", "measure", "mark", "text", "nothing"]

_DATE = re.compile(
    r"\d{4}[-/.]\d\d?[-/.]\d\d?(?!\d).*|\d{4}[-/]\d\d|\d{4}-?W\d\d|"  # 2020-01-31, 2020-01, 2020-W05
    r"\d\d?[-/.]\d\d?[-/.]\d{4}\b.*|\d\d?[-/]\d\d?[-/]\d\d( .*)?|"  # 31.1.2020, 1/31/20
    r"\d\d?:\d\d(:\d\d.*)?|"
    r"(\w{3},? )?\d?\d[ -][A-Z][a-z]{2}[a-z]*,?[ -]\d{2,4}.*|"  # 31 Jan 2020
    r"(\w{3,9},? )?[A-Z][a-z]{2}[a-z]* \d?\d,? (\d\d:.*)?\d{4}.*"  # Fri Jan 31 12:00:00 2020
)
_WHOLE = re.compile(r"[+-]?\d{1,40}")  # Python refuses thousands of digits
_AMOUNT = re.compile(r"[$€£¥₹]?\s?[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?[%$€£¥₹]?")  # $7, 50%, 1,234.5
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),(\d{1,2}|\d{4,})")  # 1.234,5: with three digits it may be 1,234
_CURRENCY = "EUR|USD|GBP|JPY|CHF|CAD|AUD|NZD|CNY|INR|SEK|NOK|DKK|PLN|BRL|MXN|ZAR|RUB|KRW|TRY|SGD|HKD"
# 75km, EUR 5; but SRR00123 is a name: any three letters may begin one.
_MEASURE = re.compile(rf"[+-]?\d+([.,]\d+)? ?([a-zA-Zµ²]{{1,5}}|[A-Za-z]+/[a-z]+)|({_CURRENCY}) ?(?!0\d)\d[\d.,]*")
_TRUTHS = frozenset(("true", "false", "yes", "no"))
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "\\n", "-", "--", "?", ".", "#n/a", "<na>", "nat"))


def kind_of(values: Sequence[object]) -> Kind:
    """Return what most values are; one that is missing does not count.

    Parameters
    ----------
    values : sequence
        Texts of a file, or objects of a frame.
    """
    known = [value for value in values if not is_missing(value)]
    if not known:
        return "nothing" if values else "text"
    kinds = {_kind(value) for value in known}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {"whole", "number"}:
        return "number"
    if kinds <= {"whole", "number", "amount"}:
        return "amount"
    return "text"


def _kind(value: object) -> Kind:
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return "whole"
        if is_number(value) and not value.lstrip("+-").isdecimal():
            return "number"
        if value.lower() in _TRUTHS:
            return "truth"
        if not any(map(str.isalnum, value)) and value.isascii():
            return "mark"
        if _DATE.fullmatch(value):
            return "date"
        if _AMOUNT.fullmatch(value) or _COMMA.fullmatch(value):
            return "amount"
        return "measure" if _MEASURE.fullmatch(value) else "text"
    if isinstance(value, (bool, np.bool_)):
        return "truth"
    if isinstance(value, (int, np.integer)):
        return "whole"
    if isinstance(value, (float, np.floating, Decimal)):
        return "whole" if value % 1 == 0 else "number"
    return "date" if isinstance(value, (date, time, np.datetime64)) else "text"


def is_number(field: str) -> bool:
    """Whether a text is a number, perhaps with a decimal comma, which is refused later; inf and nan are."""
    return columns.is_number(field.replace(",", "."))


def number_of(field: str) -> float:
    """Return the number that is written in a field, also $7, 50%, 1,234.5 or 1.234,5; ValueError if there is none."""
    if _COMMA.fullmatch(field):
        field = field.replace(".", "").replace(",", ".")
    elif _AMOUNT.fullmatch(field) and not re.fullmatch(r"[+-]?\d+,\d{3}", field):  # 1,234 may be either
        field = field.strip("$€£¥₹% ").replace(",", "")
    return float(field.replace("_", "?"))  # Python alone takes 1_000 for a number


def unit_of(field: str) -> str:
    """Return the unit of a number that is written in a field: % or a currency; empty for a plain one."""
    return re.sub(r"[^%$€£¥₹]", "", field)


def is_missing(value: object) -> bool:
    """Whether a value marks that there is none."""
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return is_null(value)


def whole_numbers_of(values: Sequence[object]) -> list[int] | None:
    """Return values as integers if there are some and all are, as texts or by themselves."""
    texts = [value for value in values if isinstance(value, str) and _WHOLE.fullmatch(value)]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    found = [int(value) for value in texts or numbers if isinstance(value, str) or value % 1 == 0]
    return found if found and len(found) == len(values) else None


def numbers_of_sample(values: Sequence[object]) -> list[float]:
    """Return the numbers among values."""
    found = []
    for value in values:
        if isinstance(value, str) and is_number(value):
            found.append(float(value.replace(",", ".")))
        elif isinstance(value, (int, float, Decimal, np.number)) and not isinstance(value, bool):
            found.append(float(value))
    return found


def shape_of(value: object) -> str:
    """Return how a value looks: its letters as a, its digits as 0, each run as one; the rest as it is."""
    return re.sub(r"0+", "0", re.sub(r"a+", "a", re.sub(r"\d", "0", re.sub(r"[^\W\d_]", "a", str(value)))))


# -- what they and the name of the column show -------------------------------------------------------------------------


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
    rmsd gap price age lat lon lng latitude longitude diff difference
    """
)
_CODES = the_words("status type kind class category flag code version")
_SINCE_1973 = 10**8  # seconds; ids are smaller, or of the same size in both columns
_KEYS = the_words("id key no number nr num suid uid uuid hash code ref")
_GROWING = 5  # values that must grow to look like times
_MOSTLY = 0.5  # of the values are different
_LARGE = 10**6  # of counts and ids
_NO_ENDS = {
    "mark": "punctuation", "nothing": "nothing", "truth": "true or false", "amount": "amounts", "measure": "amounts",
}  # fmt: skip
_UNITS = (1, 1e3, 1e6, 1e9)


@dataclass(frozen=True, eq=False)
class Column:
    """What a column shows of itself."""

    at: int
    name: str | None
    values: Sequence[object]
    kind: Kind
    numeric: bool

    @property
    def lower(self) -> str:
        """The name in lower case, without blanks around."""
        return (self.name or "").strip().lower()

    @cached_property
    def words(self) -> list[str]:
        """The words of the name."""
        return words_of(self.name or "")

    @cached_property
    def known(self) -> frozenset[str]:
        """The different values."""
        return frozenset(map(str, self.values))

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The different forms of values: letters and digits alike."""
        return frozenset(map(shape_of, self.known))

    @property
    def width(self) -> int:
        """How many letters each value has, if all have as many; else 0."""
        widths = set(map(len, self.known))
        return widths.pop() if len(widths) == 1 else 0

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
        return self.diversity == 1 and len(self.values) > 2 and self.is_named_key

    @property
    def is_named_key(self) -> bool:
        """Whether its name ends with a word for keys: id, no, code."""
        return bool(self.words) and self.words[-1] in _KEYS

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
        return len(self.values) >= _GROWING and len(self.known) > 2 and grows(whole_numbers_of(self.values), "or stays")

    @property
    def is_since_start(self) -> bool:
        """Whether it grows from 0 on, as times since a start do; a weight of 0 is none."""
        return self.grows and self.diversity > _MOSTLY and min(whole_numbers_of(self.values) or [1]) == 0

    @property
    def looks_like_ids(self) -> bool:
        """Whether it holds large whole numbers that hardly come again, flags, or not numbers alone."""
        numbers = whole_numbers_of(self.values)
        large = numbers is not None and max(numbers) >= _LARGE and self.diversity > 0.8
        return large or self.known <= {"0", "1"} or self.kind not in ("whole", "number", "amount")

    @property
    def is_called_weight(self) -> bool:
        """Whether it is called weight."""
        return self.lower in _WEIGHTS

    @property
    def is_strength(self) -> bool:
        """Whether it holds numbers that are strengths by their name."""
        return self.is_amount and not _STRENGTHS.isdisjoint(self.words)

    @property
    def is_distance(self) -> bool:
        """Whether by its name it grows where things are less related: a distance, a time, a cost, a rank."""
        joined = "".join(self.words)
        return joined in _DISTANCES or any(len(word) > 1 and word in _DISTANCES for word in self.words)

    @property
    def is_named_code(self) -> bool:
        """Whether numbers stand for something by the last word of the name: a status, a kind."""
        return self.numeric and bool(self.words) and self.words[-1] in _CODES

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
    def days(self) -> bool:
        """Whether it holds days such as 20190131."""
        numbers = whole_numbers_of(self.values)
        return numbers is not None and all(
            1800 <= day // 10_000 < 2100 and 1 <= day // 100 % 100 <= 12 and 1 <= day % 100 <= 31 for day in numbers
        )

    @property
    def why_no_end(self) -> str | None:
        """What makes it no end of an edge, if anything does."""
        if self.is_time:
            return "times"
        if self.at == 0 and self.numbers_rows and grows(whole_numbers_of(self.values)):
            return "row numbers"
        if self.kind == "number":
            return "times" if self.seconds else "numbers with fractions"
        return _NO_ENDS.get(self.kind)


def columns_of(table: Table) -> list[Column]:
    """Return what the columns of a table show."""
    made = []
    for k, (values, numeric) in enumerate(zip(table.head, table.numeric, strict=True)):
        kind = kind_of(values) if values or not numeric else "whole"
        made.append(Column(k, None if table.names is None else table.names[k], values, kind, bool(numeric)))
    return made


def grows_within(groups: Sequence[object], values: Sequence[object]) -> bool:
    """Whether numbers grow or stay within each run of equal groups, often, and begin anew with the next one."""
    within, between = _steps(groups, values)
    rising = sum(step > 0 for step in within)
    return rising >= _GROWING and min(within) >= 0 and any(step < 0 for step in between)


def counts_within(groups: Sequence[object], values: Sequence[object]) -> bool:
    """Whether numbers are 1, 2, 3, ... within each of several runs of equal groups, as ranks are."""
    within, between = _steps(groups, values)
    numbers = numbers_of_sample(values)
    begins = [number for number, (a, b) in zip(numbers[1:], pairwise(groups), strict=False) if a != b]
    return len(within) >= _GROWING and {*within} == {1.0} and {*numbers[:1], *begins} == {1.0} and bool(between)


def _steps(groups: Sequence[object], values: Sequence[object]) -> tuple[list[float], list[float]]:
    """Return by how much numbers grow from line to line within a run of equal groups, and from one run to the next."""
    numbers = numbers_of_sample(values)
    if len(numbers) < len(groups):
        return [], []
    steps = [(a == b, y - x) for (a, b), (x, y) in zip(pairwise(groups), pairwise(numbers), strict=True)]
    return [step for same, step in steps if same], [step for same, step in steps if not same]


def is_time(name: str, column: int) -> bool:
    """Whether a column is named as times; by its name in lower case."""
    return _TIME_NAME.fullmatch(name) is not None or (name == "t" and column != 1)  # s and t are source and target


def grows(numbers: Sequence[int] | None, or_stays: str = "") -> TypeGuard[Sequence[int]]:
    """Whether there are numbers, and each is larger than the one before; or, if that is said, as large."""
    pairs = pairwise(numbers or ())
    return numbers is not None and all(a <= b if or_stays else a < b for a, b in pairs)
