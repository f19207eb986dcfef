"""What a reproduced experiment is: what is measured here, and the range of our own earlier runs.

What the sources say of it, and the tests of that, are in :mod:`lab.papers.claims` and ``lab/papers/said``.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab.records import half_interval

if TYPE_CHECKING:
    import torch

_Whole = TypeVar("_Whole")
_Quick = TypeVar("_Quick")


@dataclass(frozen=True)
class DataFile:
    """A file that an experiment reads: its place in the folder of data, the sum of its bytes, and where it is from.

    Of a file that was never here nobody knows the sum: ``head`` is what it begins with.
    """

    path: str
    md5: str
    what: str
    head: str = ""

    def check(self, folder: Path) -> None:
        """End the program where the file is missing, or another, and say what to put where."""
        path = folder / self.path
        if not path.is_file():
            sys.exit(f"{path} is not there. It is {self.what}. Name the folder by --data or NEARFAR_DATA.")
        with path.open("rb") as opened:
            first = opened.read(len(self.head.encode()))
            opened.seek(0)
            found = hashlib.file_digest(opened, "md5").hexdigest() if self.md5 else ""
        if first != self.head.encode():
            got = first.decode(errors="replace")
            sys.exit(f"{path} begins with {got!r}, not with {self.head!r}. It should be {self.what}.")
        if found != self.md5:
            sys.exit(f"{path} is another file than the one that the ranges are for. It should be {self.what}.")


@dataclass(frozen=True)
class Setting:
    """How an experiment is run: quick with smaller data and fewer repeats, at most a minute; and the folder of data."""

    quick: bool = False
    data: Path = Path()

    def pick(self, whole: _Whole, quick: _Quick) -> _Whole | _Quick:
        """Return the value of the whole run, or that of the quick one."""
        return quick if self.quick else whole

    def open(self, path: str) -> IO[str]:
        """Open a file of the folder of data as text; .gz and .xz are unpacked."""
        file = self.data / path
        if path.endswith(".gz"):
            return gzip.open(file, "rt", encoding="utf-8")
        return lzma.open(file, "rt", encoding="utf-8") if path.endswith(".xz") else file.open(encoding="utf-8")


@dataclass(frozen=True)
class Line:
    """One figure that is measured: what it is, its values over the seeds, and the range of our own earlier runs.

    There is one value alone if nothing in it is random.
    """

    what: str
    ours: tuple[float, ...]
    within: tuple[float, float]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(np.mean(self.ours))

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % interval of the mean, by Student's t; None for one value."""
        return half_interval(self.ours) if len(self.ours) > 1 else None

    @property
    def as_before(self) -> bool:
        """Whether the mean is in the range of our own earlier runs."""
        low, high = self.within
        return bool(low <= self.mean <= high)

    def cells(self) -> tuple[str, ...]:
        """Return what a table shows of it: what, ours with its interval, the range, and whether it is in it."""
        half, (low, high) = self.half_width, self.within
        mean = f"{self.mean:.4g}" + ("" if half is None else f" ± {half:.2g} (n = {len(self.ours)})")
        if math.isinf(low):
            bounds = f"at most {high:.4g}"
        else:
            bounds = f"at least {low:.4g}" if math.isinf(high) else f"{low:.4g} to {high:.4g}"
        return self.what, mean, bounds, "yes" if self.as_before else "NO"


def line(what: str, ours: ArrayLike, within: tuple[float, float]) -> Line:
    """Return a line of these values."""
    return Line(what, tuple(float(value) for value in np.ravel(np.asarray(ours))), within)


class Table(list[Line]):
    """The lines of an experiment, as they are found."""

    def add(self, what: str, ours: ArrayLike, within: tuple[float, float]) -> None:
        """Add a line of these values."""
        self.append(line(what, ours, within))


def around(mean: float, spread: float) -> tuple[float, float]:
    """Return a range: what was measured with several seeds, and three of their standard deviations to either side."""
    return mean - 3 * spread, mean + 3 * spread


def differences(value: Callable[[Any], float], at: NDArray[Any]) -> NDArray[Any]:
    """Return the central differences of a function of an array."""
    slope = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-6
        slope[index] = (value(at + step) - value(at - step)) / 2e-6
    return slope


@dataclass(frozen=True)
class Panel:
    """A part of a figure: curves by name, on axes of which some are logarithmic ("x", "y", "xy"), or a map.

    The points of a map are coloured by ``labels``, groups, or by ``values``.
    """

    title: str
    x: str = ""
    y: str = ""
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    log: str = ""
    points: NDArray[np.floating] | None = None
    labels: NDArray[np.generic] | None = None
    values: NDArray[np.generic] | None = None


@dataclass(frozen=True)
class Findings:
    """What an experiment returns: its table and its figure."""

    lines: Sequence[Line]
    panels: Sequence[Panel] = ()


@dataclass(frozen=True)
class Experiment:
    """A table, figure or statement of a source that runs on one machine.

    ``item`` is the table, figure or statement; ``here`` whether its data were. The docstring of ``run`` says what is
    run here, and, from "Differs:" on, where that is not what the source ran, and why; ``note`` is what all of a source
    say of that first.
    """

    name: str
    source: str
    item: str
    run: Callable[[Setting], Findings]
    files: tuple[DataFile, ...] = ()
    note: str = ""
    here: bool = True

    @property
    def setting(self) -> str:
        return " ".join((self.run.__doc__ or "").partition("Differs:")[0].split())

    @property
    def differs(self) -> str:
        return " ".join(f"{self.note} {(self.run.__doc__ or '').partition('Differs:')[2]}".split())

    def carry_out(self, setting: Setting) -> Outcome:
        """Run it; end the program where data are missing, or others, and say what to put where."""
        for file in self.files:
            file.check(setting.data)
        start = time.perf_counter()
        findings = self.run(setting)
        return Outcome(self, findings, time.perf_counter() - start, setting.quick)

    def image_name(self, panels: Sequence[Panel]) -> str | None:
        """Return what its picture is called: .svg for curves, .png for maps of many points; None without panels."""
        return self.name + (".png" if any(p.points is not None for p in panels) else ".svg") if panels else None


@dataclass(frozen=True)
class Outcome:
    """What a run gave, and how long it took."""

    experiment: Experiment
    findings: Findings
    seconds: float
    quick: bool

    @property
    def as_before(self) -> bool:
        """Whether every line is in the range of our own earlier runs."""
        return all(line.as_before for line in self.findings.lines)

    def rows(self) -> list[dict[str, object]]:
        """Return the lines for JSON."""
        return [
            {"what": line.what, "ours": line.mean, "half_width": line.half_width, "n": len(line.ours)}
            for line in self.findings.lines
        ]

    def markdown(self) -> str:
        """Return what the command prints: the setting, and each line beside the range of our own earlier runs."""
        told = self.experiment
        rows = [f"| {' | '.join(one.cells())} |" for one in self.findings.lines]
        parts = [
            f"# {told.item} of {told.source}",
            told.setting,
            "\n".join(["| what | ours | range of our earlier runs | inside |", "|---|---|---|---|", *rows]),
            told.differs,
            f"Run it: `python -m lab run {told.name}{' --quick' if self.quick else ''}` ({self.seconds:.0f} s).",
        ]
        return "\n\n".join(parts) + "\n"

    def draw(self, path: Path) -> None:
        """Draw the panels side by side, four in a line."""
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        from nearfar.plots import scatter

        panels = self.findings.panels
        n_columns = min(len(panels), 4)
        n_lines = -(-len(panels) // n_columns)
        with mpl.rc_context({"svg.hashsalt": "nearfar", "font.size": 8}):
            figure = Figure(figsize=(3.4 * n_columns, 3.0 * n_lines), layout="constrained")
            FigureCanvasAgg(figure)
            axes = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
            for ax, panel in zip(axes, panels, strict=False):
                if panel.points is not None:
                    scatter(panel.points, panel.labels, values=panel.values, names="none", ax=ax)
                    ax.set_xticks([])
                    ax.set_yticks([])
                for name, (x, y) in panel.curves.items():
                    ax.plot(x, y, marker="o", markersize=3, label=name)
                if "x" in panel.log:
                    ax.set_xscale("log")
                if "y" in panel.log:
                    ax.set_yscale("log")
                if panel.curves:
                    ax.legend(fontsize=7)
                ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            for ax in axes[len(panels) :]:
                ax.set_axis_off()
            figure.savefig(path, dpi=60, metadata={"Date": None} if path.suffix == ".svg" else None)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Hold torch to one thread, so that sums have one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def n_parameters(table: torch.nn.Module) -> int:
    """Return the parameters of a table as the paper counts them: K d + nnz(T), or all numbers."""
    return int(getattr(table, "n_parameters", 0)) or sum(p.numel() for p in table.parameters())
