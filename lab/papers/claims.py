"""What a source says of an experiment: its words and their place, what it prints, what is measured, and a test of it.

A claim *holds* if the whole 95 % interval of what was measured passes the test, *does not hold* if the whole interval
fails it, and is *undecided* between. What is not tested or not run says why. Ranges of our own earlier runs, which
``python -m lab run NAME`` compares with, are no part of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lab.records import Record, half_interval, pick, values
from lab.results import RESULTS, records_of

HOLDS, FAILS, UNDECIDED = "holds", "**does not hold**", "undecided"
NO_DATA = "the data are not here"


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


def above(value: float) -> Bounds:
    return Bounds(low=value)


def below(value: float) -> Bounds:
    return Bounds(high=value)


def at_least(value: float) -> Bounds:
    return Bounds(low=value, closed=True)


def at_most(value: float) -> Bounds:
    return Bounds(high=value, closed=True)


def between(low: float, high: float) -> Bounds:
    return Bounds(low, high, closed=True)


def zero(error: float = 1e-9) -> Bounds:
    """Return the test that a value is 0, up to rounding."""
    return Bounds(-error, error, closed=True)


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
    why it is not tested.
    """

    place: str
    says: str
    what: str
    measure: Measure | None = None
    test: Bounds | None = None
    printed: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if (self.measure is None) != (self.test is None) or bool(self.why) == bool(self.measure):
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
        return *head, str(sample), str(self.test), self.test.verdict(sample)


HEAD = ("the source says", "where", "measured", "printed", "ours", "test", "verdict")


def one_line(experiment: str, what: str) -> Callable[[Results], Sample]:
    """Return what measures by a line of an experiment of the papers."""
    return lambda results: results.line(experiment, what)


@dataclass(frozen=True)
class Quote:
    """Words of a source as they stand there, and their place; claims are made of them by what tests them."""

    place: str
    says: str

    def tested(self, what: str, measure: Measure, test: Bounds, printed: str = "") -> Claim:
        return Claim(self.place, self.says, what, measure, test, printed)

    def untested(self, what: str, why: str, printed: str = "") -> Claim:
        return Claim(self.place, self.says, what, printed=printed, why=f"not tested: {why}")

    def not_run(self, what: str, why: str = NO_DATA, printed: str = "") -> Claim:
        """Return a claim whose experiment is not run, and why."""
        return Claim(self.place, self.says, what, printed=printed, why=f"not run: {why}")

    def without_data(self, what: str, command: str, printed: str = "") -> Claim:
        """Return a claim whose data are not here, and the experiment that runs where they are."""
        return self.not_run(what, f"{NO_DATA}: `python -m lab run {command} --data FOLDER`", printed)


@dataclass(frozen=True)
class Printed:
    """A table of a source as it stands there: its columns and rows, and what ours is beside each row.

    ``ours`` has by the number of a row what measures it, or the text that says why nothing does.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    ours: Sequence[Callable[[Results], str] | str]
    mean_of_ours: str

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.ours) or {len(row) for row in self.rows} != {len(self.columns)}:
            raise ValueError(f"{self.title}: each row must have all columns, and something of ours beside it")

    def table(self, results: Results) -> list[list[str]]:
        """Return the rows with ours at their end."""
        mine = [one if isinstance(one, str) else one(results) for one in self.ours]
        return [[*row, told] for row, told in zip(self.rows, mine, strict=True)]


_NAMES = ("kappa", "alpha", "lambda", "theta", "nu", "Delta", "times", "sim", "rightarrow", "infty", "propto")
_SIGNS = dict(zip(_NAMES, "καλθνΔ×~→∞∝", strict=True)) | dict.fromkeys(("le", "leq"), "≤") | {"geq": "≥"}
_SIGNS |= dict.fromkeys(("mathbf", "mathcal", "mathbb"), "")
_SIGNS |= dict.fromkeys(("text", "left", "right", "middle", "frac", "underline", "hat", "widehat", "boldsymbol"), "")
"""What commands of TeX stand for."""


def plain(text: str) -> str:
    """Return text without marks of TeX and Markdown, spaces and hyphens, to compare quotations by."""
    text = re.sub(r"</?(?:sup|sub|b|i)>|\]\(#[^)]*\)", "", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: _SIGNS.get(found[1], found[1]), text)
    return re.sub(r"[\s$*{}\\`\[\]_-]", "", text).casefold()


def stands_in(says: str, text: str) -> bool:
    """Tell whether words stand in a plain text, with what " ... " leaves out between them, in this order."""
    at = 0
    for part in says.split(" ... "):
        found = text.find(plain(part), at)
        if found < 0:
            return False
        at = found + len(plain(part))
    return True
