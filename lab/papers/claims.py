"""What a source says of an experiment: its words and their place, what it prints, what is measured, and a test of it.

A claim *holds* if the whole 95 % interval of what was measured passes the test, *does not hold* if the whole interval
fails it, and is *undecided* between. What is not tested or not run says why. Ranges of our own earlier runs, which
``python -m lab run NAME`` compares with, are no part of it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from lab.records import Record, half_interval, pick, values
from lab.results import RESULTS, records_of

HOLDS, FAILS, UNDECIDED = "holds", "**does not hold**", "undecided"
SAID = Path(__file__).parent / "said"


@dataclass(frozen=True)
class Sample:
    """The mean of some values and half of its 95 % interval; 0 where nothing in it is random."""

    mean: float
    half: float
    n: int

    @classmethod
    def of(cls, found: Iterable[float]) -> Sample:
        """Return the mean of values over seeds and half of its interval, by Student's t."""
        numbers = [float(value) for value in found]
        if not numbers:
            raise LookupError("no value was measured")
        return cls(float(np.mean(numbers)), half_interval(numbers) if len(numbers) > 1 else 0.0, len(numbers))

    def less(self, other: Sample) -> Sample:
        """Return the difference to what was drawn independently."""
        return Sample(self.mean - other.mean, math.hypot(self.half, other.half), min(self.n, other.n))

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + (f" ± {self.half:.2g} (n = {self.n})" if self.n > 1 else "")


@dataclass(frozen=True)
class Bounds:
    """What must be true of a value: that it lies between two bounds, on one of them only if they are ``closed``."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def passes(self, value: float) -> bool:
        """Tell whether a value passes; a NaN never does."""
        return self.low <= value <= self.high if self.closed else self.low < value < self.high

    def verdict(self, sample: Sample) -> str:
        """Tell what follows from an interval."""
        ends = sample.mean - sample.half, sample.mean + sample.half
        if all(map(self.passes, ends)):
            return HOLDS
        beside = ends[0] > self.high or ends[1] < self.low  # the whole interval
        return FAILS if beside or not (sample.half or self.passes(sample.mean)) else UNDECIDED

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"{'at most' if self.closed else 'below'} {self.high:.4g}"
        if math.isinf(self.high):
            return f"{'at least' if self.closed else 'above'} {self.low:.4g}"
        return f"{self.low:.4g} to {self.high:.4g}"

    @classmethod
    def read(cls, test: str) -> Bounds:
        """Return what a test says: above, below, at least or at most a number, or "a to b"."""
        *words, last = test.split()
        number = float(last)
        if words[-1] == "to":
            return cls(float(words[0]), number, closed=True)
        low, closed = {
            "above": (True, False),
            "at least": (True, True),
            "below": (False, False),
            "at most": (False, True),
        }[" ".join(words)]
        return cls(low=number, closed=closed) if low else cls(high=number, closed=closed)


class Results:
    """What was measured: lines of the experiments of the papers, and records of the others."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self._folder = folder
        self._files: dict[str, list[Record]] = {}

    def records(self, name: str, **fields: Any) -> list[Record]:
        """Return the records of an experiment of the lab that have these fields."""
        if name not in self._files:
            self._files[name] = records_of(name, self._folder)
        return pick(self._files[name], **fields)

    def values(self, name: str, of: str, **fields: Any) -> list[float]:
        """Return one field of these records, in the order of the file."""
        return values(self.records(name, **fields), of)

    @cached_property
    def papers(self) -> dict[str, Record]:
        """Whole runs of the experiments of the papers, by name."""
        return {r["name"]: r for r in records_of("papers", self._folder) if not r["quick"]}

    def line(self, experiment: str, what: str) -> Sample:
        """Return a line of an experiment of the papers."""
        lines = self.papers[experiment]["lines"] if experiment in self.papers else []
        for line in lines:
            if line["what"] == what:
                return Sample(line["ours"], line["half_width"] or 0.0, line["n"])
        raise LookupError(f"{experiment} has no line {what!r}")


Measure = Callable[[Results], Sample | Iterable[float]]


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, or a figure that it prints.

    ``says`` are words of the source as they stand there, ``place`` is where; ``what`` is measured by ``measure``, and
    ``test`` is what the sentence asks of it. ``printed`` is the figure of the source. Without a measure, ``why`` says
    why it is not tested; with one, why it cannot decide.
    """

    place: str
    says: str
    what: str
    measure: Measure | None = None
    test: Bounds | None = None
    printed: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if (self.measure is None) != (self.test is None) or not (self.why or self.measure):
            raise ValueError(f"a claim has a measure and a test, or says why not; got {self}")

    def sample(self, results: Results) -> Sample | None:
        """Return what was measured; None where nothing is."""
        if self.measure is None:
            return None
        found = self.measure(results)
        return found if isinstance(found, Sample) else Sample.of(found)

    def cells(self, results: Results) -> tuple[str, ...]:
        """Return what a table shows of it."""
        sample = self.sample(results)
        head = f"“{self.says}”", self.place, self.what, self.printed or "no figure"
        if sample is None or self.test is None:
            return *head, "–", "–", self.why
        verdict = f"{UNDECIDED}: {self.why}" if self.why else self.test.verdict(sample)
        return *head, str(sample), str(self.test), verdict


HEAD = ("the source says", "where", "measured", "printed", "ours", "test", "verdict")


@dataclass(frozen=True)
class Printed:
    """A table of a source as it stands there: its columns and rows, and what ours is beside each row.

    ``ours`` has by the number of a row what measures it, or the text that says why nothing does.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    ours: Sequence[Callable[[Results], Any] | str]
    mean_of_ours: str

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.ours) or {len(row) for row in self.rows} != {len(self.columns)}:
            raise ValueError(f"{self.title}: each row must have all columns, and something of ours beside it")

    def table(self, results: Results) -> list[list[str]]:
        """Return the rows with ours at their end."""
        mine = [one if isinstance(one, str) else str(one(results)) for one in self.ours]
        return [[*row, told] for row, told in zip(self.rows, mine, strict=True)]


def _measure(line: dict[str, Any], measures: Mapping[str, Callable[..., Any]]) -> Callable[[Results], Any]:
    """Return what measures a line: a function by its name with what is given to it, or a line of an experiment."""
    given = {name: value for name, value in line.items() if name not in ("what", "printed", "test", "why")}
    if "measure" in given:
        return partial(measures[given.pop("measure")], **given)
    return methodcaller("line", given["experiment"], given.get("line", line.get("what")))


def read_claims(family: str, *functions: Callable[..., Any]) -> tuple[list[Claim], list[Printed]]:
    """Return what ``said/FAMILY.toml`` has: words of the source and the lines that test them, and its tables.

    A line says ``why`` it is not tested or not run, or has a ``test`` and what is measured; ``why`` then says what
    keeps it from deciding. What is measured is an ``experiment`` of the papers, whose line is ``line`` or as ``what``
    says, or a ``measure``, one of the functions, which is given all other fields. A table has ``rows``, cells between
    bars, and beside each what is ``ours``: a measure, or why there is none; one text is for all rows.
    """
    measures = {one.__name__: one for one in functions}
    content = tomllib.loads((SAID / f"{family}.toml").read_text("utf-8"))
    claims = [
        Claim(
            quote["place"],
            quote["says"],
            line["what"],
            _measure(line, measures) if "test" in line else None,
            Bounds.read(line["test"]) if "test" in line else None,
            line.get("printed", ""),
            line.get("why", ""),
        )
        for quote in content["quotes"]
        for line in quote["lines"]
    ]
    tables = []
    for table in content.get("tables", ()):
        rows = [[cell.strip() for cell in row.split("|")] for row in table["rows"].strip().splitlines()]
        ours = [table["ours"]] * len(rows) if isinstance(table["ours"], str) else table["ours"]
        shown = [one if isinstance(one, str) else _measure(one, measures) for one in ours]
        tables.append(Printed(table["title"], table["columns"], rows, shown, table["mean_of_ours"]))
    return claims, tables


_NAMES = ("kappa", "alpha", "lambda", "theta", "nu", "Delta", "times", "sim", "rightarrow", "infty", "propto")
_SIGNS = dict(zip(_NAMES, "καλθνΔ×~→∞∝", strict=True)) | dict.fromkeys(("le", "leq"), "≤") | {"geq": "≥"}
_SIGNS |= dict.fromkeys(("mathbf", "mathcal", "mathbb"), "")
_SIGNS |= dict.fromkeys(("text", "left", "right", "middle", "frac", "underline", "hat", "widehat", "boldsymbol"), "")
"""What commands of TeX stand for."""


def plain(text: str) -> str:
    """Return text without marks of TeX and Markdown, spaces and hyphens of words, to compare quotations by."""
    text = re.sub(r"</?(?:sup|sub|b|i)>|\]\(#[^)]*\)", "", text)
    text = re.sub(r"(?<=[^\W\d_]{2})[-\xad]\s*(?=[^\W\d_]{2})", "", text)  # a minus is beside a symbol or a space
    text = re.sub(r"\\([A-Za-z]+)", lambda found: _SIGNS.get(found[1], found[1]), text)
    return re.sub(r"[\s$*{}\\`\[\]_]", "", text.replace("−", "-")).casefold()


def stands_in(says: str, text: str) -> bool:
    """Tell whether words stand in a plain text, with what " ... " leaves out between them, in this order."""
    at = 0
    for part in says.split(" ... "):
        found = text.find(plain(part), at)
        if found < 0:
            return False
        at = found + len(plain(part))
    return True
