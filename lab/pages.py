"""Pages from result files: one for each family, and the overview, docs/benchmarks.md, with a picture of each family."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

from lab.experiment import FAMILIES, Experiment, Section, Target, experiments_of, family
from lab.figures import draw_bars, drawing, save
from lab.records import table
from lab.results import DOCS, RESULTS, read, records_of, write_text

MET = {True: "yes", False: "**no**", None: "–"}
HOW_TO_READ = """The machine was shared with other work, so times vary between runs; methods that are compared take
turns. Times are medians unless stated otherwise, and a ratio of times is a ratio of medians. Memory
is resident memory. NMI is normalised mutual information with the planted or known groups; 1 is
perfect. A dash: not measured."""
OVERVIEW = """What nearfar was measured by, each family with a picture, ours beside other programs, and what it
misses. Two processors, or one where a page says so.
Every number comes from a committed file of `lab/results`, which tells machine, versions and seeds.
`python -m lab repeat FAMILY --data FOLDER` measures what is missing and writes the page again; `pip
install 'nearfar[bench]'` installs the other programs."""


class Surroundings:
    """Machines and versions, numbered in order of first use."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def number_of(self, run: dict[str, Any]) -> int:
        """Return the number of a run's machine and versions, from 1."""
        m = run["machine"]
        where = f"{m['processor']}, {m['processors']} processors, {m['memory_gib']} GiB, {m['system']}"
        packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        text = f"{where}; Python {m['python']}, {packages}."
        if text not in self.known:
            self.known.append(text)
        return self.known.index(text) + 1

    def measured(self, content: dict[str, Any]) -> list[str]:
        """Say when and where the records that are left were measured."""
        runs = [content["runs"][i] for i in sorted({r["run"] for r in content["records"] if "run" in r})]
        if not runs:
            return []
        days = sorted({run["started"][:10] for run in runs})
        machines = ", ".join(map(str, sorted({self.number_of(run) for run in runs})))
        return [f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))} (machine {machines}).", ""]


def section_of(one: Experiment, folder: Path, surroundings: Surroundings) -> Section:
    """Return what is told of an experiment, with its title and how to repeat it."""
    content = read(folder / f"{one.name}.json")
    section = Section()
    if content["records"] or not one.may_be_missing:
        one.told(section, content["records"])
        head = [f"## {one.title}", "", f"Run `{' '.join(['python -m lab run', one.name, one.command]).strip()}`.", ""]
        measured = ["Not measured yet.", ""]
        if content["records"]:
            measured = [*surroundings.measured(content), *section.lines]
        section.lines = head + measured
    return section


def page(name: str, folder: Path = RESULTS) -> str:
    """Return the page of a family."""
    surroundings = Surroundings()
    sections = [section_of(one, folder, surroundings) for one in experiments_of(name)]
    targets = [target for section in sections for target in section.targets]
    machines = [f"{number}. {text}" for number, text in enumerate(surroundings.known, 1)]
    return "\n".join([
        f"# {family(name).TITLE}: benchmarks",
        "",
        f"Made from `lab/results` by `python -m lab page {name}`; `python -m lab repeat {name}` measures more.",
        "",
        "## Targets",
        "",
        *table(["what", "target", "measured", "met"], [[t.what, t.target, t.measured, MET[t.met]] for t in targets]),
        "",
        *wrap(" ".join(HOW_TO_READ.split()), 118),
        "",
        *(line for section in sections for line in section.lines),
        "## Machines and versions",
        "",
        *(machines or ["Nothing is measured yet."]),
        "",
    ])  # fmt: skip


def misses(name: str, folder: Path = RESULTS) -> list[Target]:
    """Return the targets of a family that are not met."""
    sections = [section_of(one, folder, Surroundings()) for one in experiments_of(name)]
    return [target for section in sections for target in section.targets if target.met is False]


def overview(folder: Path = RESULTS) -> str:
    """Return the page of all families."""
    lines = ["# Benchmarks", "", *wrap(" ".join(OVERVIEW.split()), 118, break_on_hyphens=False), ""]
    for name in FAMILIES:
        of = family(name)
        text, panels = of.overview(partial(records_of, folder=folder))
        lines += [f"## {of.TITLE}", "", *wrap(" ".join(text.split()), 118, break_on_hyphens=False), ""]
        if draw_bars(panels):
            lines += [f"![{of.TITLE}: nearfar beside others](images/lab-{name}.svg)", ""]
        missed = [f"- Missed: {t.what}. Aimed at: {t.target}. Measured: {t.measured}." for t in misses(name, folder)]
        lines += [*missed, *([""] if missed else []), f"[All tables](benchmarks/{name}.md)", ""]
    pages = "\n".join(f"benchmarks/{name}" for name in FAMILIES)
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", pages, "```", ""])


def draw(name: str) -> None:
    """Draw the pictures of a family and of its experiments from the result files."""
    images = DOCS / "images"
    with drawing():
        picture = draw_bars(family(name).overview(records_of)[1])
        drawn = [(f"lab-{name}", picture)]
        with_pictures = [(one, records_of(one.name)) for one in experiments_of(name) if one.draw]
        drawn += [(one.name, one.draw(records)) for one, records in with_pictures if records]
        for of, figure in drawn:
            if figure:
                save(figure, images / f"{of}.svg")


def write(names: list[str] | tuple[str, ...] = FAMILIES) -> None:
    """Write the pages and pictures of some families, and the overview."""
    for name in names:
        draw(name)
        write_text(DOCS / "benchmarks" / f"{name}.md", page(name))
    write_text(DOCS / "benchmarks.md", overview())
