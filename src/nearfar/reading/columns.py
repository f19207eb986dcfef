"""What the columns of a table show: their first values, their names, and whether the first line has names.

Values are whole numbers, numbers, dates, truths, amounts, measures, marks or text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from itertools import chain, pairwise, product
from typing import Any, Literal, TypeGuard

import numpy as np

from nearfar._core.columns import is_number as is_plain_number
from nearfar._core.frames import is_null
from nearfar.reading.tables import Table

Kind = Literal["whole", "number", "date", "truth", "amount", "measure", "mark", "text", "nothing"]

_DATE = re.compile(
    r"\d{4}[-/.]\d\d?[-/.]\d\d?(?!\d).*|\d{4}[-/]\d\d(\d\d)?|\d{4}-?[WQ]\d\d?|"  # 2020-01-31, 2020-01, 2020-W05
    r"(WS|SS|WiSe|SoSe|Spring|Summer|Autumn|Fall|Winter|Q[1-4]|H[12])[ -]?\d{4}(/\d\d)?|"  # WS 2021/22, Q1 2020
    r"\d\d?[-/.]\d\d?[-/.]\d{4}\b.*|\d\d?[-/]\d\d?[-/]\d\d( .*)?|"  # 31.1.2020, 1/31/20
    r"\d\d?:\d\d(:\d\d.*)?|"
    r"(\w{3},? )?\d?\d[ -][A-Z][a-z]{2}[a-z]*,?[ -]\d{2,4}.*|"  # 31 Jan 2020
    r"(\w{3,9},? )?[A-Z][a-z]{2}[a-z]* \d?\d,? (\d\d:.*)?\d{4}.*"  # Fri Jan 31 12:00:00 2020
)
_CODE = re.compile(r"0\d")  # as a postal code begins
_WHOLE = re.compile(r"[+-]?\d{1,40}")  # Python refuses thousands of digits
_AMOUNT = re.compile(r"[$€£¥₹]?\s?[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?[%$€£¥₹]?")  # $7, 50%, 1,234.5
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),(\d{1,2}|\d{4,})")  # 1.234,5: with three digits it may be 1,234
_UNITS_OF_NUMBERS = "%$€£¥₹"
_PLAIN = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan|infinity)", re.IGNORECASE)
IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}")  # 1.234.567
_WITH_COMMA = re.compile(r"[+-]?(?=,?\d)([1-9]\d{0,2}(\.\d{3})+|\d*)(,\d+)?")
_WITH_POINT = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?")
_CURRENCY = "EUR|USD|GBP|JPY|CHF|CAD|AUD|NZD|CNY|INR|SEK|NOK|DKK|PLN|BRL|MXN|ZAR|RUB|KRW|TRY|SGD|HKD"
# 75km, EUR 5, 4.1/5; but SRR00123 is a name: any three letters may begin one.
_MEASURE = re.compile(
    rf"[+-]?\d+([.,]\d+)? ?([a-zA-Zµ²]{{1,5}}|[A-Za-z]+/[a-z]+)|\d+[.,]\d+ ?/ ?\d+|({_CURRENCY}) ?(?!0\d)\d[\d.,]*"
)
_MARKED, _MARKED_UP_TO = 10, 0.3  # values, and how many of them one word may stand for
_TRUTHS = frozenset(("true", "false", "yes", "no"))
AMOUNTS = ("whole", "number", "amount")  # kinds that are numbers, as written


def the_words(text: str) -> frozenset[str]:
    """Return the words of a text, which blanks separate."""
    return frozenset(text.split())


MISSING = the_words(r"na n/a n.a. k.a. nan null none nil \n - -- – ? . .. ... : #n/a <na> nat") | {""}


def kind_of(values: Sequence[object]) -> Kind:
    """Return what most values are; one that is missing does not count.

    Parameters
    ----------
    values : sequence
        Texts of a file, or objects of a frame.
    """
    known = known_of(values)
    if not known:
        return "nothing" if values else "text"
    kinds = {_kind(value) for value in known}
    if kinds == {"whole"} and any(isinstance(value, str) and _CODE.match(value) for value in known):
        return "text"
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
        if any(form.fullmatch(value) for form in (_AMOUNT, _COMMA, IN_THOUSANDS)):
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
    return is_plain_number(field.replace(",", "."))


def number_of(field: str) -> float:
    """Return the number that is written in a field, also $7, 50%, 1,234.5 or 1.234,5; ValueError if there is none."""
    if _COMMA.fullmatch(field):
        field = field.replace(".", "").replace(",", ".")
    elif _AMOUNT.fullmatch(field) and not re.fullmatch(r"[+-]?\d+,\d{3}", field):  # 1,234 may be either
        field = field.strip("$€£¥₹% ").replace(",", "")
    return float(field.replace("_", "?"))  # Python alone takes 1_000 for a number


def numbers_written(fields: Sequence[str], *, comma: bool = False) -> list[float] | None:
    """Return the numbers that the fields of a column are, perhaps in thousands and with a unit; None if one is none.

    ``comma`` says that the decimal sign of other columns is a comma; 5.497 may then be a whole number.
    """
    bare = [field.strip(f"{_UNITS_OF_NUMBERS} ") for field in fields]
    for form, thousands in ((_WITH_COMMA, "."), (_PLAIN, ""), (_WITH_POINT, ","), (_WITH_COMMA, "."))[not comma :]:
        if all(map(form.fullmatch, bare)) and len(set(map(unit_of, fields))) == 1:
            return [float(field.replace(thousands, "").replace(",", ".")) for field in bare]
    return None


def unit_of(field: str) -> str:
    """Return the unit of a number that is written in a field: % or a currency; empty for a plain one."""
    return re.sub(f"[^{_UNITS_OF_NUMBERS}]", "", field)


def is_missing(value: object) -> bool:
    """Whether a value marks that there is none."""
    return value.strip().lower() in MISSING if isinstance(value, str) else is_null(value)


def known_of(values: Sequence[object]) -> list[Any]:
    """Return the values that are there; one word among numbers, as nd, n.m. and DNS, says that none is."""
    known = [value for value in values if not is_missing(value)]
    words = {value for value in known if isinstance(value, str) and value[:1].isalpha()}
    if len(words) != 1 or len(known) < _MARKED or (len(*words) == 1 and max(words).isupper()):  # X may be a chromosome
        return known
    rest = [value for value in known if not isinstance(value, str) or value not in words]
    numbers = not is_number(*words) and all(_kind(value) in AMOUNTS for value in rest)
    return rest if numbers and len(known) - len(rest) <= _MARKED_UP_TO * len(known) else known


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


# -- words of names ----------------------------------------------------------------------------------------------------


_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Pairs = tuple[tuple[frozenset[str], frozenset[str]], ...]


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: ``sourceNode_id`` has three."""
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", re.sub(r"^ID(?=[a-z])", "ID ", name)))]


def _pairs(text: str) -> Pairs:
    pairs = (pair.split(" ") for pair in text.split("; "))
    return tuple((frozenset(left.split(",")), frozenset(right.split(","))) for left, right in pairs)


ENDS = _pairs(
    "source,src target,tgt,dst,dest,destination; from to; start end; origin,orig destination,dest; "
    "sender receiver,recipient; head tail; subject,subj object,obj; caller callee,called; citing cited; "
    "follower followee,followed; parent child; von nach; origen destino; origine destinazione; emisor receptor; "
    "depart,départ arrivee,arrivée; expéditeur,expediteur destinataire; remitente destinatario; absender empfänger"
)
"""Words that name the two ends of an edge, the clearest first."""
SIDES = _pairs("left right; first second; one two; out in")
"""Words of sides, which may be all of two names."""
COUNTED = _pairs("u v; s t; i j; a b; 1 2; 0 1; x y")
"""What tells two names apart that are one else."""


# -- what values and the name of a column show -------------------------------------------------------------------------


_TIME_NAME = re.compile(r"(.*[ _-])?(time|timestamp|date|datetime|ts|year)([ _-].*)?|day|month|hour|when|since")
_TIME_WORDS = the_words("time timestamp date datetime year")
_ROW_NAME = re.compile(
    r"(|id|idx|index|row|row_?names?|nr|no|number|#|unnamed: 0|(row|edge|line|record|event)[ _-]?(id|number|index))"
)
_WEIGHTS = frozenset(("weight", "weights", "edge weight", "edgeweight"))
_NUMBERS = the_words("n num nb no nombre número numero anzahl")
_REPEATS = the_words("rep reps replicate replicates obs observations")  # of a measure, whose mean another column has
_RATIOS = the_words("pct percent percentage avg average mean rate ratio share")
SUMS = ("total", "totals", "sum", "grand total", "summe", "gesamt", "insgesamt")
"""What the first field of a row, or of a column, says that sums up the others."""
_STRENGTHS = the_words("""
    weight score scores count counts strength rating ratings stars freq frequency similarity occurrences amount points
    votes confidence passengers quantity trips volume kinship correlation shares hours plays listens clicks views
    visits passes
""")
_DISTANCES = the_words("""
    distance distances dist length len cost costs km miles meters metres meter pvalue pval p qvalue qval q fdr
    evalue rank ranking hops steps days minutes seconds min sec duration delay latency travel traveltime error
    rmsd gap price age lat lon lng latitude longitude diff difference position
""")
# Of a measure, which says how near, fast or hot something is: no mass or money, which relations may have much of.
_WITH_UNIT = re.compile(r".+[(\[]([ms]|°[cf])[)\]]|.+[\W_]([cmknµ]?m|m?s|kmh|km/h|knots|k?hz|dbm|k?pa|bar)[)\]]?")
CODES = the_words(
    "status type etype kind class category flag code version relation rel layer label community channel group lang"
)
SINCE_1973 = 10**8  # seconds; ids are smaller, or of the same size in both columns
KEYS = the_words(
    "id key no number nr num suid uid uuid hash code ref zip plz mmsi imo isbn issn doi ean gtin upc sku siren siret "
    "insee vin iban orcid pmid"
)
_KEY_ENDS = ("nummer", "nr", "number", "code")  # of one word: Kundennr, postcode
_KEY_BEGINS = the_words("id code codigo código")  # of several: code postal
_TEXTS = the_words("text sentence comment review body message answer antwort question abstract tweet post utterance")
_REPEATED = 0.25  # of the values are different, where sentences only name kinds
_LONG, _SHORT = 6, 3  # blanks in most values of a text, and of one that is called so
_GROWING = 5  # values that must grow to look like times
_MOSTLY = 0.5  # of the values are different
_FEW, _OFTEN = 5, 4  # different values of a category, and how often each comes
_LARGE = 10**6  # of counts and ids
_NO_ENDS = {
    "number": "numbers with fractions", "mark": "punctuation", "nothing": "nothing", "truth": "true or false",
    "amount": "amounts", "measure": "amounts",
}  # fmt: skip
_UNITS = (1, 1e3, 1e6, 1e9)


class Column:
    """What a column shows of itself, by its name and its first values; each fact is found once.

    Parameters
    ----------
    at : int
        Its position.
    name : str or None
    values : sequence
        The first ones.
    numeric : bool
        Whether it holds numbers.

    Attributes
    ----------
    kind : str
        What most values are, see :func:`kind_of`.
    lower, words : str, list of str
        The name in lower case, without blanks around, and its words.
    known, diversity : frozenset of str, float
        The different values, and how many of all they are.
    whole, numbers : list of int or None, list of float
        The values as integers if all are, and the numbers among them.
    is_amount : bool
        It holds numbers, perhaps with a unit.
    is_named_time, is_time : bool
        It is called times; it holds times by its name, or dates.
    blanks, is_prose : int, bool
        Blanks in the median value; most values are sentences, which may be short under a name for texts.
    numbers_rows, counts_rows : bool
        It is named as row numbers, or has no name, where others have; it holds 0, 1, 2, ... or 1, 2, 3, ...
    is_named_key : bool
        Its name ends with a word for keys, id, no, code, part number, or begins so.
    is_called_weight, is_strength : bool
        It is called weight; or holds numbers that are strengths by their name.
    is_ratio : bool
        By its name it is a mean or a share of something else.
    is_distance : bool
        By its name it has a unit of measure, or grows where things are less related: a distance, a cost, a rank.
    is_named_code : bool
        Numbers stand for something by the last word of the name: a status, a kind.
    is_category : bool
        It holds few texts, each of which comes often.
    has_fractions, years, days : bool
        It holds numbers, some with a fraction; years; days such as 20190131.
    seconds : bool
        It holds seconds since 1970, or thousandths or millionths of them, by the size of its numbers.
    grows, is_since_start : bool
        Whole numbers grow or stay, and take several values; and so from 0 on, as times since a start do.
    looks_like_ids : bool
        It holds large whole numbers that hardly come again, flags, or not numbers alone.
    why_no_end : str or None
        What makes it no end of an edge, if anything does.
    """

    def __init__(self, at: int, name: str | None, values: Sequence[object], *, numeric: bool) -> None:
        self.at, self.name, self.values = at, name, values
        self.lower, self.words = (name or "").strip().lower(), words_of(name or "")
        last = self.words[-1] if self.words else ""
        begins = len(self.words) > 1 and self.words[0] in _KEY_BEGINS
        self.is_named_key = begins or last in KEYS or last.endswith(_KEY_ENDS)
        self.kind: Kind = kind_of(values) if values or not numeric else "whole"
        if self.kind == "number" and self.is_named_key:  # 1950.149 is no amount
            self.kind, numeric = "text", False
        elif self.kind == "text":  # numbers in most places are those of a column with faults; codes are none
            texts = list(map(str, values))
            numeric = 2 * sum(map(is_number, texts)) >= len(texts) and not any(map(_CODE.match, texts))
        self.numeric = numeric
        self.is_amount = self.numeric or self.kind == "amount"
        self.known = frozenset(map(str, values))
        self.diversity = len(self.known) / max(1, len(values))
        self.is_category = self.kind == "text" and len(self.known) <= min(_FEW, len(values) / _OFTEN)

        self.numbers_rows = name is not None and _ROW_NAME.fullmatch(self.lower) is not None

        self.is_called_weight = self.lower in _WEIGHTS
        counts = self.kind == "whole" and len(self.words) > 1 and self.words[0] in _NUMBERS
        counts = counts and self.words[1] not in _REPEATS
        self.is_strength = self.is_amount and (counts or not _STRENGTHS.isdisjoint(self.words))
        in_percent = self.is_amount and all(value.endswith("%") for value in self.known)
        self.is_ratio = in_percent or not _RATIOS.isdisjoint(self.words)
        said = ["".join(self.words), *(word for word in self.words if len(word) > 1)]
        self.is_distance = not _DISTANCES.isdisjoint(said) or _WITH_UNIT.fullmatch(self.lower) is not None
        self.is_named_code = self.numeric and last in CODES
        t = self.lower == "t" and at != 1  # s and t are source and target
        self.is_named_time = name is not None and (t or _TIME_NAME.fullmatch(self.lower) is not None)
        named = self.is_named_time or not _TIME_WORDS.isdisjoint(self.words)
        self.blanks = sorted(str(value).count(" ") for value in values or ("",))[len(values) // 2]
        sentences = self.kind == "text" and self.diversity > _REPEATED  # not labels of a few kinds
        self.is_prose = sentences and self.blanks >= (_SHORT if self.lower in _TEXTS else _LONG)
        self.is_time = self.kind == "date" or (named and self.kind in ("whole", "number", "text", "nothing"))

        self.whole, self.numbers = whole_numbers_of(values), numbers_of_sample(values)
        whole, numbers, kind = self.whole or [], self.numbers, self.kind
        self.counts_rows = len(whole) > 1 and whole[0] in (0, 1) and whole == [*range(whole[0], whole[0] + len(whole))]
        self.grows = len(values) >= _GROWING and len(self.known) > 2 and grows(self.whole, "or stays")
        self.is_since_start = self.grows and self.diversity > _MOSTLY and min(whole) == 0  # a weight of 0 is none
        large = bool(whole) and max(whole) >= _LARGE and self.diversity > 0.8
        self.looks_like_ids = large or self.known <= {"0", "1"} or kind not in AMOUNTS
        self.has_fractions = kind == "number" and any(value % 1 for value in numbers)
        least, most = (min(numbers), max(numbers)) if len(numbers) == len(values) > 0 else (0, 0)
        self.seconds = any(SINCE_1973 * unit <= least and most < 50 * SINCE_1973 * unit for unit in _UNITS)
        there = whole_numbers_of(known_of(values)) or [0]
        self.years = 1800 <= min(there) <= max(there) < 2100
        self.days = 1800_01_01 <= min(there) <= max(there) < 2100_00_00
        self.why_no_end = "times" if self.is_time or (kind == "number" and self.seconds) else _NO_ENDS.get(kind)
        if kind == "text" and self.numeric and any(value % 1 for value in numbers):
            self.why_no_end = _NO_ENDS["number"]  # but for words
        if not self.is_time and at == 0 and self.numbers_rows and grows(self.whole):
            self.why_no_end = "row numbers"

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The different forms of values: letters as a, digits as 0, each run as one; the rest as it is."""
        plain = (re.sub(r"\d", "0", re.sub(r"[^\W\d_]", "a", value)) for value in self.known)
        return frozenset(re.sub(r"(a|0)\1+", r"\1", value) for value in plain)

    @property
    def width(self) -> int:
        """How many letters each value has, if all have as many; else 0."""
        widths = set(map(len, self.known))
        return widths.pop() if len(widths) == 1 else 0

    @property
    def missing(self) -> float:
        """How many of its values mark that there is none."""
        return sum(map(is_missing, self.values)) / max(1, len(self.values))


def columns_of(table: Table) -> list[Column]:
    """Return what the columns of a table show."""
    names: Sequence[str | None] = table.names or [None] * len(table.head)
    columns = enumerate(zip(names, table.head, table.numeric, strict=True))
    return [Column(k, name, values, numeric=bool(n)) for k, (name, values, n) in columns]


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


def grows(numbers: Sequence[int] | None, or_stays: str = "") -> TypeGuard[Sequence[int]]:
    """Whether there are numbers, and each is larger than the one before; or, if that is said, as large."""
    pairs = pairwise(numbers or ())
    return numbers is not None and all(a <= b if or_stays else a < b for a, b in pairs)


# -- is the first line a header? ---------------------------------------------------------------------------------------
#
# A first line names the columns if it is unlike what is below. Each piece of evidence is a log-odds, and they add up:
# what a name and a value have in common decides, not a list of known names. Where the sum is near zero the question is
# open.


OPEN = 1.0  # log-odds; less than that either way is worth a warning
_SURE = 6.0
_USUAL = {",": 0.5, ";": 0.5, "\t": 0.0, "|": 0.0, ":": -2.0, " ": -1.5}  # how often tables with it have a header
_MOST = 4.0  # of one column's look
_WIDE, _FEW_NAMELESS = 6, 6  # columns of which one, or one in so many, may have no name
_FEW_YEARS, _FEW_STEPS = 3, 5  # numbers in equal steps that are names of columns

# Words that name columns; each is but one piece of evidence.
_NAMES = the_words("""
    id ids key name label node vertex edge link source target src tgt dst dest from to start end origin destination
    sender receiver recipient caller callee parent child head tail subject object predicate relation type kind user item
    person friend author paper citing cited reviewer product buyer seller customer movie film book song artist gene
    protein interactor drug disease chemical cell tissue species word term token context tag city country airport
    station stop page url host domain account wallet follower followee followed follows member group team player company
    supplier owner student teacher course weight count value score rating stars strength distance dist time date
    timestamp year who whom
""")
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
    base = _USUAL.get(delimiter, 0.0)
    stems = [words_of(name) for name in first]
    for left, right in chain.from_iterable(zip(stems, stems[k:], strict=False) for k in (1, 2)):
        # Two names that are one but for what tells the ends of an edge: gene_a and gene_b.
        unlike = [{a, b} for a, b in zip(left, right, strict=False) if a != b]
        pairs = (*ENDS, *SIDES, *COUNTED) if len(left) > 1 else (*ENDS, *SIDES)
        told = (unlike[0] == {a, b} for one, other in pairs for a, b in product(one, other))
        if len(left) == len(right) and len(unlike) == 1 and any(told):
            base += 2.0
            break
    again = [fields for fields in rest if list(fields) == list(first)]
    columns = list(zip(*(fields for fields in rest if list(fields) != list(first)), strict=True))
    nameless = sum(not name for name in first)
    if not columns or nameless > max(1, len(first) // _FEW_NAMELESS) or (nameless and first[0] and len(first) < _WIDE):
        return base + sum(-1.5 * _SURE if _kind(name) in AMOUNTS else _of_name(name) for name in first)
    odds = base - 3 * _SURE * (len(set(first)) < len(first))  # less for a name that comes twice
    if list(first) == list(map(str, range(len(first)))) and delimiter == "," and len(first) > 1:
        ids = {value for column in columns[:2] for value in column}
        if ids & {"0", "1"}:
            return -_SURE
        fractions = any(is_number(value) and float(value) % 1 for column in columns[2:] for value in column)
        return OPEN if fractions else OPEN / 2  # as pandas writes a frame without names
    whole = [k for k, name in enumerate(first) if _WHOLE.fullmatch(name)]
    if len(whole) >= (_FEW_YEARS if all(1800 <= int(first[k]) < 2100 for k in whole) else _FEW_STEPS):
        taken = (whole_numbers_of([row[k] for k in whole]) or () for row in (first, *rest))
        steps = [{b - a for a, b in pairwise(row)} for row in taken]
        in_steps = [len(found) == 1 and found != {0} for found in steps]
        if in_steps[0] and not any(in_steps[1:]):
            return _SURE  # a column for each year, or wavelength
    pool = {value for column in columns for value in column if _kind(value) not in AMOUNTS}
    ends = Counter(value for column in columns[:3] for value in column if _kind(value) not in AMOUNTS)
    # A value that never comes again, among those of the ends, which may do.
    once = min(-math.log((sum(n == 1 for n in ends.values()) + 1) / (len(ends) + 1)), 3.0)
    for name, column in zip(first, columns, strict=True):
        known = [value for value in column if not is_missing(value)]
        numbers = [value for value in known if _kind(value) in AMOUNTS]
        if not name:
            odds += _SURE / 2 if len(numbers) == len(known) > 0 else 0.0  # of row numbers
        elif _kind(name) in AMOUNTS:
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


def _of_look(name: str, column: Sequence[str]) -> float:
    """Judge by what all values have and the name lacks, or the other way: rule of succession, most telling trait."""
    if not column:
        return 0.0
    lengths = {len(value) for value in column}
    tells = len(lengths) == 1 and len(name) not in lengths and len(column) > 2
    for look in _LOOKS:
        here, there = bool(look(name)), [bool(look(value)) for value in column]
        tells = tells or (not any(there) if here else all(there))
    # Less than by that rule, as there are many traits; where none tells: the more values, the more that says.
    return min(math.log((len(column) + 2) / 3), _MOST) if tells else -min(math.log(len(column) + 2) / 5, 1.0)
