"""Pages from result files: one for each family, in lab/tables; docs/benchmarks.md: ours beside the strongest peer."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

from lab.experiment import FAMILIES, Experiment, Section, Target, experiments_of, family
from lab.figures import Bars, draw_bars, drawing, save
from lab.records import table
from lab.results import DOCS, RESULTS, TABLES, read, records_of, write_text

MET = {True: "yes", False: "**no**", None: "–"}
HOW_TO_READ = """The machine was shared, so times vary; methods that are compared take turns. Times are medians, of
processor time where a page says so; a ratio of times is a ratio of medians. Memory is resident memory. Scores are means
over seeds; ± is half of their 95 % interval (Student's t), unless a section says standard deviation. NMI is normalised
mutual information with the known groups. A dash: not measured."""
OVERVIEW = """nearfar beside the strongest other program of each task, and what it misses. A ratio above 1: nearfar is
better, or faster. All figures are made from `lab/results`, which tells machine, versions and seeds. `python -m lab
repeat FAMILY --data FOLDER` measures what is missing; `pip install ".[bench]"` installs the other programs."""
PAPERS = """The published experiments of the sources, ours beside theirs, are in `lab/tables/papers`. `python -m lab
run NAME` repeats one."""


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
        one.tell(section, content["records"])
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
        *paragraph(HOW_TO_READ),
        *picture_of(name),
        *(line for section in sections for line in section.lines),
        "## Machines and versions",
        "",
        *(machines or ["Nothing is measured yet."]),
        "",
    ])  # fmt: skip


def picture_of(name: str) -> list[str]:
    found = (TABLES / "images" / f"beside-{name}.svg").exists()
    return [f"![{family(name).TITLE}: nearfar beside others](images/beside-{name}.svg)", ""] if found else []


def misses(name: str, folder: Path = RESULTS) -> list[Target]:
    """Return the targets of a family that are not met."""
    sections = [section_of(one, folder, Surroundings()) for one in experiments_of(name)]
    return [target for section in sections for target in section.targets if target.met is False]


def beside(panels: list[Bars]) -> list[str]:
    """Return the table of tasks: our best value, that of the strongest other program, how many times ours is better."""
    rows = []
    for panel in panels:
        ours, other = panel.best(True), panel.best(False)
        if ours and other:
            better = other[1] / ours[1] if panel.less else ours[1] / other[1]
            task = f"{panel.title} ({panel.unit})"
            rows.append(
                [task, shown(ours[1]), f"{shown(other[1])} ({other[0]})", f"{better:.{2 if better < 10 else 0}f}"]
            )
    return table(["task", "nearfar", "strongest other", "ratio"], rows)


def shown(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.4g}" if value >= 1e6 else f"{value:.3g}"


def machines_of(names: set[str], folder: Path) -> str:
    """Say on which machines the records of some experiments were measured."""
    contents = [read(folder / f"{name}.json") for name in sorted(names)]
    known = [
        one["runs"][i]["machine"] for one in contents for i in sorted({r["run"] for r in one["records"] if "run" in r})
    ]
    said = [
        f"{m['processor']}, {m['processors']} processor{'s' * (m['processors'] > 1)}, {m['memory_gib']:.0f} GiB"
        for m in known
    ]
    return "; ".join(sorted(dict.fromkeys(said)))


def overview(folder: Path = RESULTS) -> str:
    """Return the page of all families."""
    lines = ["# Benchmarks", "", *paragraph(OVERVIEW), *paragraph(PAPERS)]
    for name in FAMILIES:
        of, read_of = family(name), set[str]()

        def records(name: str, read_of: set[str] = read_of) -> list[dict[str, Any]]:
            read_of.add(name)
            return records_of(name, folder)

        text, panels = of.overview(records)
        lines += [f"## {of.TITLE}", "", *paragraph(text), *beside(panels), ""]
        missed = [f"- Missed: {t.what}. Aimed at: {t.target}. Measured: {t.measured}." for t in misses(name, folder)]
        lines += [*missed, *([""] if missed else [])]
        lines += paragraph(f"Machine: {machines_of(read_of, folder)}. All tables: `lab/tables/{name}.md`.")
    return "\n".join(lines)


def paragraph(text: str) -> list[str]:
    return [*wrap(" ".join(text.split()), 118, break_on_hyphens=False, break_long_words=False), ""]


def draw(name: str) -> None:
    """Draw the pictures of a family and of its experiments from the result files."""
    with drawing():
        drawn = [(f"beside-{name}", draw_bars(family(name).overview(records_of)[1]))]
        with_pictures = [(one, records_of(one.name)) for one in experiments_of(name) if one.draw]
        drawn += [(one.name, one.draw(records)) for one, records in with_pictures if records]
        for of, figure in drawn:
            if figure:
                save(figure, TABLES / "images" / f"{of}.svg")


def write(names: list[str] | tuple[str, ...] = FAMILIES) -> None:
    """Write the pages and pictures of some families, and the overview."""
    for name in names:
        draw(name)
        write_text(TABLES / f"{name}.md", page(name))
    write_text(DOCS / "benchmarks.md", overview())
