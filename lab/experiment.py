"""What an experiment of the lab is: its data, how it is run, what its section tells, which targets it has.

An experiment is an ``Experiment`` of a module of a family, ``lab/<family>/<name>.py``; the family's ``__init__`` names
it. Where a module has several, the functions of the others are ``run_<name>``, ``told_<name>`` and ``draw_<name>``.
Those of the papers are in ``lab/papers``.
"""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any

from lab import data
from lab.records import Record, duration, filled, table
from lab.results import RESULTS, TABLES, ResultFile

FAMILIES = ("graphs", "maps", "words", "items", "contrastive", "small", "search", "engines")
NOWHERE = {"against": "lab.against"}  # a command, too
WITH = {  # experiments that are in the module of another, of the same idea
    "maps_start": "maps_quality",
    "maps_floor": "maps_quality",
    "temperature_choice": "temperature",
    "anchor_memory": "anchor_steps",
    "cluster_maps": "cluster",
    "figure2": "figure1",
}


@dataclass
class Target:
    """One target: what is compared, what is aimed at, what was measured, whether it is met (None: not measured)."""

    what: str
    target: str
    measured: str = "not measured"
    met: bool | None = None

    def tell(self, measured: str, met: bool | None) -> None:
        self.measured, self.met = measured, met

    def tell_all(self, found: Sequence[tuple[str, bool]]) -> None:
        """Tell what was measured in several cases, and whether each is met; nothing if there is none."""
        if found:
            self.tell(", ".join(said for said, _ in found), all(met for _, met in found))


@dataclass
class Section:
    """What the page of a family tells of an experiment."""

    targets: list[Target] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def target(self, what: str, target: str) -> Target:
        """Return a new target of the section."""
        self.targets.append(Target(what, target))
        return self.targets[-1]

    def say(self, text: str) -> None:
        """Add a paragraph, of a text with any line breaks."""
        self.lines += [*wrap(" ".join(text.split()), 118, break_on_hyphens=False), ""]

    def table(self, head: str | Sequence[str], rows: Iterable[Sequence[object]], mark: str = "") -> None:
        """Add a table; a head may have bars between its names. Between comments with a mark, if a guide includes it."""
        head = head.split(" | ") if isinstance(head, str) else head
        begin, end = ([f"<!-- {mark}: {what} -->", ""] if mark else [] for what in ("table", "end"))
        self.lines += [*begin, *table(head, rows), "", *end]

    def rows(self, head: str, row: str, of: Iterable[Any], mark: str = "") -> None:
        """Add a table whose rows are a template, see :func:`lab.records.filled`, filled with records or with groups."""
        groups = (one[-1] if isinstance(one, tuple) else [one] for one in of)
        self.table(head, ([filled(row, mine)] for mine in groups), mark)

    def picture(self, name: str, title: str) -> None:
        """Add the picture of the experiment, if there is one."""
        if (TABLES / "images" / f"{name}.svg").exists():
            self.lines += [f"![{title}](images/{name}.svg)", ""]


def as_they_are(section: Section, records: list[Record]) -> None:
    # Of an experiment without comparisons: its records, without a word.
    names = list(dict.fromkeys(name for r in records for name in r if name != "run"))

    def cell(name: str, value: object) -> str:
        if value is None:
            return "–"
        if isinstance(value, float):
            return duration(value) if name == "seconds" or name.endswith("_seconds") else f"{value:.4g}"
        return f"{value:,}" if type(value) is int else str(value)

    section.table([n.replace("_", " ") for n in names], [[cell(n, r.get(n)) for n in names] for r in records])


@dataclass(frozen=True)
class Choice:
    """An option with several values of ``every``, of any if that is empty; by default these."""

    default: Sequence[Any]
    every: Iterable[Any]


class Experiment:
    """An experiment of the lab: what its module declares.

    Beside ``run`` the module may have ``told``, whose docstring the section says first, and which takes the section and
    the records, and adds targets, sentences and tables; and ``draw``, which takes the records and returns the figure of
    the section.

    Parameters
    ----------
    title : str
        The title of its section.
    run : callable
        Takes the result file and the options, and measures what the file lacks.
    keys : str
        The fields that tell its records apart.
    data : str
        Folders of the data that it reads, see :data:`lab.data.SOURCES`.
    command : str
        Options of the command that measures all of the section.
    may_be_missing : bool
        Whether nothing is said of it where it is not measured.
    """

    def __init__(
        self,
        title: str,
        run: Callable[[ResultFile, Namespace], None],
        keys: str,
        data: str = "",
        *,
        command: str = "",
        may_be_missing: bool = False,
    ) -> None:
        self.title, self.run, self.keys, self.data = title, run, tuple(keys.split()), tuple(data.split())
        self.command, self.may_be_missing = command, may_be_missing
        self.options: dict[str, Any] = {}

    def takes(self, **options: Any) -> Experiment:
        """Name its options and their defaults.

        A tuple takes several values, of texts those named here; False is a flag; a type is a value of that type, None
        by default; a :class:`Choice` has other values than its default.
        """
        self.options = options
        return self

    @property
    def module(self) -> ModuleType:
        return sys.modules[self.run.__module__]

    @property
    def name(self) -> str:
        """Its name on the command line, and that of its result file: what follows ``run_``, else the module's."""
        return self.run.__name__[len("run_") :] or Path(self.module.__file__ or "").stem

    def _function(self, of: str, otherwise: Any = None) -> Any:
        """Return ``told`` or ``draw`` of its module that belongs to its ``run``."""
        return getattr(self.module, self.run.__name__.replace("run", of, 1), otherwise)

    def tell(self, section: Section, records: list[Record]) -> None:
        """Fill its section: with the docstring of ``told``, and with what that adds."""
        told = self._function("told", as_they_are)
        if told.__doc__:
            section.say(told.__doc__)
        told(section, records)

    @property
    def draw(self) -> Callable[[list[Record]], Any] | None:
        return self._function("draw")

    def measure(self, words: Sequence[str]) -> None:
        """Run it with options of the command line."""
        given = self.parser().parse_args(words)
        data.check(self.data)
        self.run(self.file(given=given), given)

    def file(self, folder: Path = RESULTS, given: Namespace | None = None) -> ResultFile:
        """Return its result file."""
        return ResultFile(self.name, self.keys, folder, given)

    def parser(self) -> ArgumentParser:
        """Return what reads its options."""
        about = cleandoc(self.run.__doc__ or self.module.__doc__ or "")
        parser = ArgumentParser(f"lab run {self.name}", description=about, formatter_class=RawDescriptionHelpFormatter)
        parser.add_argument("--again", action="store_true", help="repeat what is in the result file already")
        parser.add_argument("--budget", type=float, help="processor seconds to stop after")
        for name, default in self.options.items():
            parser.add_argument(f"--{name.replace('_', '-')}", **_how(default))
        return parser


def _how(default: Any) -> dict[str, Any]:
    """Return what argparse is told of an option."""
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, type):
        return {"type": default}
    if isinstance(default, Choice):
        every = tuple(default.every)
        kind = type(every[0]) if every else str
        return {"nargs": "+", "type": kind, "default": default.default, "choices": every or None}
    if not isinstance(default, tuple):
        return {"type": type(default), "default": default}
    kind = type(default[0])
    return {"nargs": "*", "type": kind, "default": default, **({"choices": default} if kind is str else {})}


def family(name: str) -> ModuleType:
    """Return the module of a family: TITLE, EXPERIMENTS, and what the overview tells of it."""
    return importlib.import_module(f"lab.{name}")


def experiments_of(name: str) -> Iterator[Experiment]:
    """Return the experiments of a family in the order of its page."""
    for one in family(name).EXPERIMENTS:
        module = importlib.import_module(NOWHERE.get(one, f"lab.{name}.{WITH.get(one, one)}"))
        yield next(found for found in vars(module).values() if isinstance(found, Experiment) and found.name == one)


def experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    for of in FAMILIES:
        if name in family(of).EXPERIMENTS:
            return next(one for one in experiments_of(of) if one.name == name)
    raise SystemExit(f"there is no experiment {name!r}; python -m lab list names them")
