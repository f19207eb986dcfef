"""What a reproduced experiment is: what was published, what is measured here, and the range that ours must stay in."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.atomic import atomic_write
from nearfar.errors import InputError

if TYPE_CHECKING:
    import torch

_OWNER = "reproduce.run"
_Whole = TypeVar("_Whole")
_Quick = TypeVar("_Quick")


@dataclass(frozen=True)
class DataFile:
    """A file that an experiment reads.

    Parameters
    ----------
    path : str
        Its place in the folder of data.
    md5 : str
        The sum of its bytes, in hexadecimal digits.
    what : str
        What it is and where it comes from.
    """

    path: str
    md5: str
    what: str


@dataclass(frozen=True)
class Setting:
    """How an experiment is run.

    Parameters
    ----------
    quick : bool
        Smaller data and fewer repeats: at most a minute.
    data : Path
        The folder of data.
    n_jobs : int or None
        Threads.
    """

    quick: bool = False
    data: Path = Path()
    n_jobs: int | None = None

    def pick(self, whole: _Whole, quick: _Quick) -> _Whole | _Quick:
        """Return one of two values.

        Parameters
        ----------
        whole, quick : object
            That for the whole run, and that for the quick one.

        Returns
        -------
        object
        """
        return quick if self.quick else whole

    def open(self, path: str) -> IO[str]:
        """Open a file of the folder of data as text; .gz and .xz are unpacked.

        Parameters
        ----------
        path : str
            Its place in the folder.

        Returns
        -------
        text file
        """
        file = self.data / path
        if path.endswith(".gz"):
            return gzip.open(file, "rt", encoding="utf-8")
        return lzma.open(file, "rt", encoding="utf-8") if path.endswith(".xz") else file.open(encoding="utf-8")


@dataclass(frozen=True)
class Line:
    """One figure of a table: what is measured, what the source prints, ours over the seeds, and its range.

    Parameters
    ----------
    what : str
        What is measured, and in which unit.
    ours : array_like
        One value for each seed or draw; one value alone if nothing in it is random.
    within : (float, float)
        Where the mean of ``ours`` must lie.
    published : str
        What the source prints; empty if it prints none that is known here.
    """

    what: str
    ours: tuple[float, ...]
    within: tuple[float, float]
    published: str = ""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(np.mean(self.ours))

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % interval of the mean, by Student's t; None for one value."""
        n = len(self.ours)
        if n < 2:
            return None
        from scipy.stats import t

        return float(t.ppf(0.975, n - 1) * np.std(self.ours, ddof=1) / math.sqrt(n))

    @property
    def holds(self) -> bool:
        """Whether the mean is in the range."""
        low, high = self.within
        return bool(low <= self.mean <= high)


def line(what: str, ours: ArrayLike, within: tuple[float, float], published: str = "") -> Line:
    """Return a line of these values."""
    return Line(what, tuple(float(value) for value in np.ravel(np.asarray(ours))), within, published)


class Table(list[Line]):
    """The lines of an experiment, as they are found."""

    def add(self, what: str, ours: ArrayLike, within: tuple[float, float], published: str = "") -> None:
        """Add a line of these values."""
        self.append(line(what, ours, within, published))


def around(mean: float, spread: float) -> tuple[float, float]:
    """Return a range: what was measured with several seeds, and three of their standard deviations to either side.

    Parameters
    ----------
    mean, spread : float
        Mean and standard deviation over the seeds.

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> around(0.5, 0.125)
    (0.125, 0.875)
    """
    return mean - 3 * spread, mean + 3 * spread


@dataclass(frozen=True)
class Panel:
    """A part of a figure: curves, or a map.

    Parameters
    ----------
    title, x, y : str
        What is written above it and at its axes.
    curves : mapping of str to (array_like, array_like)
        Abscissas and ordinates, by name.
    log : str
        Axes that are logarithmic: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    points : ndarray of shape (n, 2), optional
        A map.
    labels : ndarray of shape (n,), optional
        Colours of its points, by group.
    values : ndarray of shape (n,), optional
        Colours of its points, by number, in place of labels.
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
    """What an experiment returns.

    Parameters
    ----------
    lines : sequence of Line
        The table.
    panels : sequence of Panel
        The figure.
    """

    lines: Sequence[Line]
    panels: Sequence[Panel] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a source that runs on one machine.

    Parameters
    ----------
    name : str
        What ``nearfar reproduce`` calls it.
    source, item : str
        The source, and which table, figure or statement of it.
    claim : str
        What the source says.
    setting : str
        What is run here.
    differs : str
        Where ours differs from what was published, and why; what stands in for data that cannot be had.
    run : callable
        Takes a :class:`Setting` and returns :class:`Findings`.
    files : tuple of DataFile
        The data that it reads.
    needs : str
        A package beyond the dependencies: ``"torch"`` or nothing.
    """

    name: str
    source: str
    item: str
    claim: str
    setting: str
    differs: str
    run: Callable[[Setting], Findings]
    files: tuple[DataFile, ...] = ()
    needs: str = ""

    def missing(self, data: Path) -> list[str]:
        """Return, for each file that is not there or is another one, what to put where.

        Parameters
        ----------
        data : Path
            The folder of data.

        Returns
        -------
        list of str
        """
        found = []
        for file in self.files:
            path = data / file.path
            if not path.is_file():
                found.append(f"{path} is not there. It is {file.what}")
            elif (other := _md5(path)) != file.md5:
                found.append(
                    f"{path} is another file than the one that the ranges are for: its MD5 sum is {other}, not"
                    f" {file.md5}. It should be {file.what}"
                )
        return found


@dataclass(frozen=True)
class Outcome:
    """What a run gave.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    findings : Findings
        Table and figure.
    seconds : float
        How long it took.
    quick : bool
        Whether it was the quick run.
    """

    experiment: Experiment
    findings: Findings
    seconds: float
    quick: bool

    @property
    def holds(self) -> bool:
        """Whether every line is in its range."""
        return all(line.holds for line in self.findings.lines)

    def rows(self) -> list[dict[str, object]]:
        """Return the lines for a table or for JSON."""
        return [
            {
                "what": line.what,
                "published": line.published or None,
                "ours": line.mean,
                "half_width": line.half_width,
                "n": len(line.ours),
                "within": list(line.within),
                "holds": line.holds,
            }
            for line in self.findings.lines
        ]

    def markdown(self, image: str | None = None) -> str:
        """Return a page: claim, setting, table, picture, where ours differs and why.

        Parameters
        ----------
        image : str, optional
            Address of the picture.

        Returns
        -------
        str
        """
        told = self.experiment
        rows = [
            f"| {one.what} | {one.published or '–'} | {shown(one)} | {bounds(one)} | {'yes' if one.holds else 'NO'} |"
            for one in self.findings.lines
        ]
        command = f"nearfar reproduce {told.name}{' --quick' if self.quick else ''}"
        parts = [
            f"# {told.item} of {told.source}",
            f"**Published.** {told.claim}",
            f"**Here.** {told.setting}",
            "| what | published | ours | range | holds |\n|---|---|---|---|---|\n" + "\n".join(rows),
            f"**Where they differ.** {told.differs}",
            f"Run it: `{command}` ({self.seconds:.0f} s).",
        ]
        if image:
            parts.insert(4, f"![{told.item}]({image})")
        return "\n\n".join(parts) + "\n"

    def image_name(self) -> str | None:
        """Return what the picture is called: .svg for curves, .png for maps of many points; None without panels."""
        if not self.findings.panels:
            return None
        return self.experiment.name + (".png" if any(p.points is not None for p in self.findings.panels) else ".svg")

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the panels.

        Parameters
        ----------
        path : path-like
            The picture; its suffix tells the format.
        """
        draw(self.findings.panels, path)


def shown(line: Line) -> str:
    """Return the mean with its interval, as text."""
    half = line.half_width
    mean = f"{line.mean:.4g}"
    return mean if half is None else f"{mean} ± {half:.2g} (n = {len(line.ours)})"


def bounds(line: Line) -> str:
    """Return the range, as text."""
    low, high = line.within
    if math.isinf(low):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if math.isinf(high) else f"{low:.4g} to {high:.4g}"


def carry_out(experiment: Experiment, setting: Setting) -> Outcome:
    """Run an experiment whose data are there.

    Raises
    ------
    InputError
        If a file is missing or another one.
    """
    missing = experiment.missing(setting.data)
    if missing:
        raise InputError(
            _OWNER,
            "data",
            f"a folder with the data of {experiment.name}",
            str(setting.data),
            "; ".join(missing) + ". Name the folder by --data or in the variable NEARFAR_DATA.",
        )
    start = time.perf_counter()
    findings = experiment.run(setting)
    return Outcome(experiment, findings, time.perf_counter() - start, setting.quick)


def draw(panels: Iterable[Panel], path: str | os.PathLike[str]) -> None:
    """Draw panels side by side, four in a line."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from nearfar.plots import scatter

    panels = list(panels)
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
        kind = Path(path).suffix[1:] or "png"
        with atomic_write(path, owner=_OWNER) as file:
            figure.savefig(file, format=kind, dpi=60, metadata={"Date": None} if kind == "svg" else None)


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


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
