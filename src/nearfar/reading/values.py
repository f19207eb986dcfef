"""What the first values of a column are: whole numbers, numbers, dates, truths, amounts, marks or text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from typing import Literal

import numpy as np

from nearfar._core import columns
from nearfar._core.frames import is_null

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
