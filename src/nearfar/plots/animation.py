"""An animation: the moments of an optimisation, one after the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.plots._figure import check_suffix
from nearfar.plots._panels import Colours, Panel, add_key, draw_panel, grid, panels_of
from nearfar.storage.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter
    from matplotlib.figure import Figure

_OWNER = "plots.animation"
_SIDE = 4.75  # inches; with the title a height of 5
_DPI = 120  # an even number of pixels, as .mp4 wants it
_MARGIN = 1.05


def animation(
    frames: Iterable[Any],
    path: str | os.PathLike[str],
    labels: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
    between: int = 3,
    per_second: int = 12,
) -> Path:
    """Write the optimisation of a map as a moving picture.

    Every frame fills the picture, which zooms out as the map grows; on the way from a frame to the next the points move
    in straight lines. The last frame stays for a second, then it begins again.

    Parameters
    ----------
    frames : Frames, or sequence of maps of shape (n, d), d >= 2
        At least one, all of the same points; with more than two columns frames are seen in the principal plane of the
        last.
    path : path
        The file, .gif, or .mp4 where the program ffmpeg is installed. It appears whole or not at all.
    labels : array-like of shape (n,), optional
        Groups, as for :func:`scatter`.
    values : array-like of shape (n,), optional
        Numbers, in place of labels.
    between : int, default=3
        Pictures between two frames.
    per_second : int, default=12
        Pictures per second; .gif counts in hundredths of a second, and players rarely keep up with more than 50.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there is no frame, maps differ in their points, labels or values do not fit them, or ``path`` has another
        suffix or cannot be written.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    All pictures of a .gif are in memory at once, about 2 MB each; it is written to a temporary folder first.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> frames = nf.callbacks.Frames(every=100)
    >>> est = nf.TSNE(perplexity=10, max_iter=200, callbacks=[frames], random_state=0).fit(X)
    >>> nf.plots.animation(frames, "tsne.gif", between=1).name
    'tsne.gif'
    """
    _checks.require(_OWNER, "matplotlib", "plot")
    panels = panels_of(_OWNER, "frames", frames, same_points=True)
    colours = Colours.of(_OWNER, labels, values, len(panels[0].xy))
    between = _checks.check_integer(_OWNER, "between", between, low=0)
    per_second = _checks.check_integer(_OWNER, "per_second", per_second, low=1)
    target = check_suffix(_OWNER, path, (".gif", ".mp4"))
    writer = _writer(target, per_second)

    figure, axes = grid(1, 1, _SIDE, colours)
    ax, keyed = axes[0], False
    with TemporaryDirectory(prefix="nearfar-") as folder:
        film = Path(folder, f"film{target.suffix.lower()}")
        with _filming(writer, figure, film):
            for picture in _pictures(panels, between, hold=per_second):
                ax.clear()
                bar = draw_panel(ax, picture, colours, _SIDE)
                ax.set(xlim=(-_MARGIN, _MARGIN), ylim=(-_MARGIN, _MARGIN))
                ax.set_aspect("equal", adjustable="box")  # the same square in every picture
                if not keyed:
                    add_key(figure, axes, colours, bar)
                    _settle(figure)
                    keyed = True
                writer.grab_frame()
        with atomic_write(target, owner=_OWNER) as file, film.open("rb") as made:
            shutil.copyfileobj(made, file)
    return target


def _writer(target: Path, per_second: int) -> AbstractMovieWriter:
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if target.suffix.lower() == ".gif":
        return PillowWriter(fps=per_second)
    if not FFMpegWriter.isAvailable():
        hint = "Write a .gif, or install ffmpeg."
        raise InputError(_OWNER, "path", "a .gif where the program ffmpeg is not found", repr(target.name), hint)
    return FFMpegWriter(fps=per_second)


def _settle(figure: Figure) -> None:
    """Fix where everything stands: each layout starts from the last, and would move the map by parts of a pixel."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


@contextmanager
def _filming(writer: AbstractMovieWriter, figure: Figure, film: Path) -> Iterator[None]:
    """As matplotlib's ``saving``, whose own error would take the place of one that came before."""
    writer.setup(figure, str(film), _DPI)
    try:
        yield
    except BaseException:
        with suppress(Exception):
            writer.finish()
        raise
    writer.finish()


def _pictures(panels: list[Panel], between: int, hold: int) -> Iterator[Panel]:
    """Yield each frame, scaled to fill the square from -1 to 1, and those on the way to the next."""
    scaled = [Panel(panel.title, _filling(panel.xy)) for panel in panels]
    for one, following in pairwise(scaled):
        for step in np.linspace(0, 1, between + 1, endpoint=False):
            yield Panel(one.title, (1 - step) * one.xy + step * following.xy)
    for _ in range(hold):
        yield scaled[-1]


def _filling(xy: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    low, high = xy.min(axis=0), xy.max(axis=0)
    half = float((high - low).max()) / 2
    return np.asarray((xy - (low + high) / 2) / (half if half > 0 else 1.0))
