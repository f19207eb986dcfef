"""The paper of all pictures: a figure of its own, and its file.

Without pyplot: no window opens, no global setting changes, nothing stays in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.storage.atomic import atomic_write, check_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
# First Okabe & Ito's colours, but for yellow and black, which are too pale and too dark for small dots: told apart with
# every common kind of colour blindness. The others lie far, in Oklab and as a deuteranope sees them, from all before.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B3A1E"),
    *("#8F70EF", "#58CF68", "#AF1818", "#979700", "#004868", "#FF8F87", "#9F2880"),
    *("#007000", "#806840", "#EF8FFF", "#380087", "#877097", "#680050", "#6838AF"),
)
GREY = "#BBBBBB"


def check_picture_path(owner: str, path: str | os.PathLike[str] | None) -> Path | None:
    """Return where the picture is to be written, if anywhere; said to be impossible before anything is drawn."""
    return None if path is None else check_suffix(owner, path, PICTURES)


def check_suffix(owner: str, path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    """Return the path of a file that could be written, of one of these kinds."""
    target = _checks.check_path(owner, "path", path)
    if target.suffix.lower() not in suffixes:
        raise InputError(owner, "path", f"a file name ending in {', '.join(suffixes)}", repr(target.name))
    check_target(owner, target)
    return target


def new_figure(size: tuple[float, float] = (7.0, 5.5)) -> Figure:
    """Return a figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes() -> Axes:
    """Return the axes of a new figure."""
    return new_figure().add_subplot()


def finish(owner: str, axes: Axes, title: str | None, target: Path | None) -> Axes:
    """Give the picture its title and its file; return the axes."""
    if title is not None:
        axes.set_title(title)
    write(owner, axes.figure, target)
    return axes


def write(owner: str, figure: Any, target: Path | None) -> None:
    """Write the figure, if it is to be written."""
    if target is not None:
        kind = target.suffix.lower()[1:]
        # Without a date the same picture is the same file.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with atomic_write(target, owner=owner) as file:
            figure.savefig(file, format=kind, metadata=metadata)
