"""Several maps in one picture: side by side in the same colours, one after the other, or compared by curves."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core import checks as _checks
from nearfar._core.atomic import atomic_write, check_suffix
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import ColumnLike, Doubles
from nearfar.callbacks import Frame, Frames
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.evaluate.neighborhoods import Neighborhoods
from nearfar.plots.fonts import as_written
from nearfar.plots.groups import Colours
from nearfar.plots.palette import COLOURS
from nearfar.plots.scatter import (
    COLUMN,
    LEGEND_UP_TO,
    Bar,
    add_bar,
    check_picture_path,
    draw_dots,
    in_plane,
    legend_handles,
    new_axes,
    new_figure,
    write,
    write_legend,
)

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nearfar.embedding.vectors import Embedding

_OWNER = "plots.small_multiples"
_SIDE = 2.4  # inches of a panel
_KEY, _TITLE, _LINE = 1.2, 0.25, 0.23  # inches: width of a key, height of a title and of a line of the key
_WHOLE = 7.0 * 5.5  # square inches of a picture by itself, for which dots have their full size
_CURVES = "plots.rnx_curves"
_POINTS = 400  # of a curve: more would not be seen
_ONE_STYLE = 7  # curves of the best told colours; more are dashed
_ANIMATION = "plots.animation"
_ANIMATION_SIDE = 4.75  # inches; with the title a height of 5
_DPI = 120  # an even number of pixels, as .mp4 wants it
_MARGIN = 1.05


def small_multiples(
    maps: Frames | Iterable[Embedding | ArrayLike] | Mapping[str, Embedding | ArrayLike],
    labels: ColumnLike | None = None,
    *,
    values: ColumnLike | None = None,
    columns: int | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> list[Axes]:
    """Draw several maps side by side: moments of an optimisation, or different methods on the same data.

    Each is drawn as :func:`scatter` draws it, at its own scale; what the colours mean stands once, on the right.

    Parameters
    ----------
    maps : Frames, mapping of str to map, or sequence of maps
        A map is an Embedding or an array of shape (n, d), d >= 2. Frames are titled by their iterations; with more than
        two columns they are all seen in the principal plane of the last.
    labels : array-like of shape (n,), optional
        Groups, as for :func:`scatter`; every map then has n rows.
    values : array-like of shape (n,), optional
        Numbers, in place of labels.
    columns : int, optional
        Maps in a row of the picture; by default as many as rows.
    title : str, optional
        Title of the whole.
    path : path, optional
        Write the figure there too, as .png, .svg or .pdf; the file appears whole or not at all.

    Returns
    -------
    list of matplotlib.axes.Axes
        One per map, row by row; the ``figure`` of each is the figure: pyplot's, which notebooks show, or with ``path``
        one that is not shown.

    Raises
    ------
    InputError
        If there is nothing to draw, a map cannot be drawn by :func:`scatter`, lengths differ where there are labels or
        values, or ``path`` has another suffix or cannot be written.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    Source: Tufte (1983), The visual display of quantitative information, for the idea and its name.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> frames = nf.callbacks.Frames(every=100)
    >>> est = nf.TSNE(perplexity=10, max_iter=200, callbacks=[frames], random_state=0).fit(X)
    >>> axes = nf.plots.small_multiples(frames)
    >>> [ax.get_title() for ax in axes]
    ['iteration 0', 'iteration 100', 'iteration 200']
    >>> axes = nf.plots.small_multiples({"t-SNE": est.embedding_, "two columns": X[:, :2]}, np.arange(60) % 3)
    >>> len(axes)
    2
    """
    _checks.require(_OWNER, "matplotlib", "plot")
    coloured = labels is not None or values is not None
    panels = panels_of(_OWNER, "maps", maps, same_points=coloured)
    colours = Colours.of(_OWNER, labels, values, len(panels[0].xy), panels[0].ids)
    if columns is not None:
        columns = _checks.check_integer(_OWNER, "columns", columns, low=1)
    target = check_picture_path(_OWNER, path)

    figure, axes = grid(len(panels), columns, _SIDE, colours, shown=path is None)
    palette = _palette(panels, colours)
    bars = [draw_panel(ax, panel, colours, palette, _SIDE) for ax, panel in zip(axes, panels, strict=True)]
    add_key(figure, axes, colours, palette, bars[0])
    if title is not None:
        as_written(figure.suptitle(title))
    write(_OWNER, figure, target)
    return axes


def animation(
    frames: Frames | Iterable[Embedding | ArrayLike],
    path: str | os.PathLike[str],
    labels: ColumnLike | None = None,
    *,
    values: ColumnLike | None = None,
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
    >>> frames = nf.callbacks.Frames(every=50)
    >>> est = nf.TSNE(perplexity=10, max_iter=50, callbacks=[frames], random_state=0).fit(X)
    >>> nf.plots.animation(frames, "tsne.gif", between=1).name
    'tsne.gif'
    """
    _checks.require(_ANIMATION, "matplotlib", "plot")
    panels = panels_of(_ANIMATION, "frames", frames, same_points=True)
    colours = Colours.of(_ANIMATION, labels, values, len(panels[0].xy), panels[0].ids)
    between = _checks.check_integer(_ANIMATION, "between", between, low=0)
    per_second = _checks.check_integer(_ANIMATION, "per_second", per_second, low=1)
    target = check_film(_ANIMATION, path)
    writer = _writer(target, per_second)

    palette = _palette(panels, colours)
    figure, axes = grid(1, 1, _ANIMATION_SIDE, colours)
    ax, keyed = axes[0], False
    with TemporaryDirectory(prefix="nearfar-") as folder:
        film = Path(folder, f"film{target.suffix.lower()}")
        with _filming(writer, figure, film):
            for picture in _pictures(panels, between, hold=per_second):
                ax.clear()
                bar = draw_panel(ax, picture, colours, palette, _ANIMATION_SIDE)
                ax.set(xlim=(-_MARGIN, _MARGIN), ylim=(-_MARGIN, _MARGIN))
                ax.set_aspect("equal", adjustable="box")  # the same square in every picture
                if not keyed:
                    add_key(figure, axes, colours, palette, bar)
                    _settle(figure)
                    keyed = True
                writer.grab_frame()
        with atomic_write(target, owner=_ANIMATION) as file, film.open("rb") as made:
            shutil.copyfileobj(made, file)
    return target


def _writer(target: Path, per_second: int) -> AbstractMovieWriter:
    from matplotlib.animation import FFMpegWriter, PillowWriter

    return (PillowWriter if target.suffix.lower() == ".gif" else FFMpegWriter)(fps=per_second)


def check_film(owner: str, path: str | os.PathLike[str]) -> Path:
    """Refuse the path of a film that cannot be written here."""
    from matplotlib.animation import FFMpegWriter

    target = check_suffix(owner, path, (".gif", ".mp4"))
    if target.suffix.lower() == ".mp4" and not FFMpegWriter.isAvailable():
        hint = "Write a .gif, or install ffmpeg."
        raise InputError(owner, "path", "a .gif where the program ffmpeg is not found", repr(target.name), hint)
    return target


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


def _filling(xy: Doubles) -> Doubles:
    low, high = xy.min(axis=0), xy.max(axis=0)
    half = float((high - low).max()) / 2
    return np.asarray((xy - (low + high) / 2) / (half if half > 0 else 1.0))


@dataclass(frozen=True, eq=False)
class Panel:
    """A map in the plane, and what stands above it."""

    title: str
    xy: Doubles
    ids: Ids | None = None


def panels_of(owner: str, argument: str, maps: object, *, same_points: bool) -> list[Panel]:
    """Return the maps that are given: frames, a mapping of titles to maps, or a sequence of maps.

    Frames with more than two columns are all turned to the principal plane of the last, other maps each to their own.
    """
    what = "frames, maps, or a mapping of titles to maps; at least one"
    named = isinstance(maps, Mapping)
    if isinstance(maps, (str, bytes)) or not isinstance(maps, Iterable):
        raise InputError(owner, argument, what, repr(maps))
    given = list(maps.items()) if isinstance(maps, Mapping) else [("", one) for one in maps]
    if not given:
        raise InputError(owner, argument, what, "none", "Frames are kept by a fit with callbacks=[frames].")
    checked: list[Floats] = []
    names: list[Ids | None] = []
    for number, (title, one) in enumerate(given):
        name = f"{argument}[{title!r}]" if named else f"{argument}[{number}]"
        X = _checks.check_matrix(owner, name, one.positions if isinstance(one, Frame) else one)
        if X.shape[1] < 2 or X.shape[0] < 1:
            raise InputError(owner, name, "of at least one row and two columns", f"shape {X.shape}")
        if same_points and checked and len(X) != len(checked[0]):
            raise InputError(owner, name, f"of {len(checked[0])} rows, like the first", len(X))
        checked.append(X)
        names.append(None if isinstance(one, Frame) else rows_and_ids(owner, one)[1])
        if same_points and names[0] is not None and names[-1] not in (None, names[0]):
            hint = "emb.subset(first.ids) brings the points of another into that order."
            raise InputError(owner, name, "one of the ids of the first, in their order", repr(one), hint)
    frames = all(isinstance(one, Frame) for _, one in given)
    if frames and len({X.shape[1] for X in checked}) > 1:
        raise InputError(owner, argument, "frames of one fit", "different numbers of columns")
    titles = [_title(title, one) for title, one in given]
    planes = [checked[-1]] * len(checked) if frames else checked
    parts = zip(titles, checked, planes, names, strict=True)
    return [Panel(title, in_plane(X, of), ids) for title, X, of, ids in parts]


def _title(title: object, one: object) -> str:
    return f"iteration {one.iteration}" if isinstance(one, Frame) and title == "" else str(title)


def grid(
    count: int, columns: int | None, side: float, colours: Colours, *, shown: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its ``count`` axes, squares of ``side`` inches, with room for a key on the right."""
    across = min(columns or math.ceil(math.sqrt(count)), count)
    down = math.ceil(count / across)
    entries = 0 if colours.groups is None else min(len(colours.groups.names), LEGEND_UP_TO) + 2
    margin = 0.0 if colours.groups is None and colours.values is None else _KEY * max(1, -(-entries // COLUMN))
    height = max(down * (side + _TITLE), _LINE * min(entries, COLUMN))
    figure = new_figure((across * side + margin, height), shown=shown)
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for surplus in axes[count:]:
        surplus.remove()
    return figure, axes[:count]


def _palette(panels: list[Panel], colours: Colours) -> Doubles | None:
    """Return the colours of the groups by their places on the last map; the same on all."""
    return None if colours.groups is None else colours.groups.palette(panels[-1].xy)


def draw_panel(axes: Axes, panel: Panel, colours: Colours, palette: Doubles | None, side: float) -> Bar | None:
    """Draw a map with its title on axes of this size; return what a colour bar needs."""
    bar = draw_dots(axes, panel.xy, colours, palette, side**2 / _WHOLE)
    as_written(axes.set_title(panel.title, fontsize=10))
    return bar


def add_key(figure: Figure, axes: list[Axes], colours: Colours, palette: Doubles | None, bar: Bar | None) -> None:
    """Say once, on the right, what the colours mean."""
    if colours.groups is not None and palette is not None:
        handles = legend_handles(colours.groups, palette)
        columns = -(-len(handles) // COLUMN)
        write_legend(figure.legend(handles=handles, loc="outside right center", frameon=False, ncols=columns))
    elif bar is not None:
        add_bar(figure, axes, bar, aspect=30, shrink=min(1.0, 4.0 / figure.get_figheight()))


def rnx_curves(
    results: Mapping[str, Neighborhoods],
    *,
    ax: Axes | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw R_NX(K) of several maps over the logarithm of K.

    On the left the nearest neighbours, on the right the layout as a whole; the area below a curve, on the axis as it is
    drawn, is in the legend, largest first, with its standard error where a sample was judged.

    Parameters
    ----------
    results : mapping of str to Neighborhoods
        Names and what ``evaluate.neighborhoods`` says of each map; at least one.
    ax : matplotlib Axes, optional
        Where to draw; by default pyplot's current axes if they are empty, else a new figure of pyplot, which notebooks
        show and ``pyplot.show()`` too. With ``path``, a figure that is not shown.
    title : str, optional
        Title of the picture.
    path : path, optional
        Write the figure there too, as .png, .svg or .pdf; the file appears whole or not at all.

    Returns
    -------
    matplotlib.axes.Axes
        ``.figure`` is the figure.

    Raises
    ------
    InputError
        If there is nothing to draw, something else than such a result, or ``path`` has another suffix or cannot be
        written.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    Source: the figures of Lee, Renard, Bernard, Dupont & Verleysen (2013), Type 1 and 2 mixtures of Kullback-Leibler
    divergences as cost functions in dimensionality reduction.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(100, 3)) * [3, 2, 1]
    >>> maps = {"first two": X[:, :2], "last two": X[:, 1:]}
    >>> ax = nf.plots.rnx_curves({name: nf.evaluate.neighborhoods(X, Y) for name, Y in maps.items()})
    >>> len(ax.lines)
    2
    """
    _checks.require(_CURVES, "matplotlib", "plot")
    if not isinstance(results, Mapping) or not results:
        raise InputError(_CURVES, "results", "a mapping of names to results of evaluate.neighborhoods", repr(results))
    for name, result in results.items():
        if not isinstance(result, Neighborhoods):
            raise InputError(_CURVES, f"results[{name!r}]", "a result of evaluate.neighborhoods", repr(result))
    target = check_picture_path(_CURVES, path)

    axes = new_axes(shown=path is None) if ax is None else ax
    lines = []
    for number, (name, result) in enumerate(results.items()):
        sizes = _log_spaced(result.n - 2)
        error = "" if result.n_sample == result.n else f" ± {result.standard_errors['auc']:.3f}"
        style = "-" if number % (2 * _ONE_STYLE) < _ONE_STYLE else "--"
        colour = COLOURS[number % _ONE_STYLE]
        label = f"{name}  {result.auc:.3f}{error}"
        lines += axes.plot(sizes, result.r_nx[sizes - 1], style, color=colour, lw=1.8, label=label)
    _dress(axes)
    order = sorted(range(len(lines)), key=lambda i: -list(results.values())[i].auc)
    by_area = [lines[i] for i in order]
    write_legend(axes.legend(handles=by_area, title="area", frameon=False, loc="best", alignment="left"))
    if title is not None:
        as_written(axes.set_title(title))
    write(_CURVES, axes.figure, target)
    return axes


def _log_spaced(largest: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.unique(np.geomspace(1, largest, _POINTS).round().astype(np.int64))


def _dress(axes: Axes) -> None:
    from matplotlib.ticker import LogFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.set_xlabel("size of neighbourhood K")
    axes.set_ylabel("$R_{NX}(K)$")
    axes.margins(x=0)
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), None)
    axes.grid(color="#DDDDDD", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
