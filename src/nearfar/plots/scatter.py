"""A static picture: one dot per vector, coloured by group or by value; of very many, the density of the dots."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core import checks as _checks
from nearfar._core.atomic import atomic_write, check_suffix
from nearfar._core.columns import Column, column_of
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import ColumnLike
from nearfar.contracts import Floats
from nearfar.embedding.files.content import name_of
from nearfar.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    from nearfar.embedding.vectors import Embedding

_OWNER = "plots.scatter"
_RASTER_FROM = 3000  # dots from which a vector format holds a bitmap of them
_SHADED_FROM = 50_000  # dots from which their density is drawn
_LEGEND_UP_TO = 10  # groups; of more the names are easier to find on the map
_ROBUST_FROM = 100  # values from which the ends of the colour bar leave out the outermost hundredth at either side
_PIXELS = 1100  # of the longer side
_FAINTEST = 0.4  # opacity of a single point
_FULL = 0.995  # quantile, over the pixels with points, of the number from which a pixel is opaque
_WORD_SIZE, _LIFT, _APART = 7.0, 1.5, 1.0  # points: of a word, above its dot, beside other words
_WORDS, _LOOKED_AT = 300, 20_000  # words written, rows from which they are taken
_CELLS = 24  # a side of the map, for finding where a group is densest
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")  # that colour bars know
PICTURES = (".png", ".svg", ".pdf")
# First Okabe & Ito's colours, but for yellow and black, which are too pale and too dark for small dots: told apart with
# every common kind of colour blindness. The others lie far, in Oklab and as a deuteranope sees them, from all before.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B3A1E"),
    *("#8F70EF", "#58CF68", "#AF1818", "#979700", "#004868", "#FF8F87", "#9F2880"),
    *("#007000", "#806840", "#EF8FFF", "#380087", "#877097", "#680050", "#6838AF"),
)
GREY = "#BBBBBB"


class Bar(NamedTuple):
    """What a colour bar needs: the scale, at which ends there are values beyond it, and whether they are dates."""

    scale: ScalarMappable
    extend: str
    dates: bool


def scatter(
    vectors: Embedding | ArrayLike,
    labels: ColumnLike | None = None,
    *,
    values: ColumnLike | None = None,
    names: str = "auto",
    words: bool | ColumnLike = False,
    ax: Axes | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw vectors, or a map, as dots in the plane.

    A handful of points or millions: dots are smaller and more transparent where there are more, and from 50,000 on the
    picture shows their density, each pixel in the mean colour of its points.

    Parameters
    ----------
    vectors : Embedding or array-like of shape (n, d), n >= 1, d >= 2
        Two columns are drawn as they are; more are first turned to their two principal components, each with its
        largest loading positive.
    labels : array-like of shape (n,), or mapping from ids, optional
        Groups: text, whole numbers, dates, categories. Those of a pandas Series or a mapping go by the ids of an
        Embedding or frame, others by row; a Series with the index 0 .. n - 1, where these are not the ids, goes by row
        with a warning. The 21 largest get a colour each, in the order of an ordered category, of numbers or of the
        alphabet; the rest and those without a label (None, NaN, NA, the empty text, masked) are grey.
    values : array-like of shape (n,), or mapping from ids, optional
        Numbers or dates, in place of labels, by id as these: colours, with a bar; a missing one is grey. Of 100 values
        or more the outermost hundredth at either end has the colour of the end.
    names : {"auto", "legend", "map", "none"}
        Where the groups are named: in a legend, on the map where each group is densest, or nowhere; by default in a
        legend up to 10 groups, else on the map.
    words : bool or array-like of shape (n,), default=False
        What is written at the dots: True is the ids of an Embedding. A word that would lie on one of an earlier row is
        left out, so the most important should come first; files of word vectors begin with the most frequent words. An
        empty or missing word is none. At most 300 are written.
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
        If the vectors are not finite or have one column, lengths differ, labels are numbers with fractions, both labels
        and values are given, or ``path`` has another suffix or cannot be written.
    MissingDependencyError
        If matplotlib is not installed.

    Examples
    --------
    >>> import nearfar as nf
    >>> ax = nf.plots.scatter([[0, 1], [1, 0], [1, 1]], ["a", "b", "b"], title="three dots")
    >>> ax.get_title()
    'three dots'
    """
    _checks.require(_OWNER, "matplotlib", "plot")
    rows, ids = rows_and_ids(_OWNER, vectors)
    X = _checks.check_matrix(_OWNER, "vectors", rows)
    if X.shape[1] < 2 or X.shape[0] < 1:
        raise InputError(_OWNER, "vectors", "of at least one row and two columns", f"shape {X.shape}")
    colours = Colours.of(_OWNER, labels, values, len(X), ids)
    names = _checks.check_choice(_OWNER, "names", names, ("auto", "legend", "map", "none"))
    texts = None if words is False else _texts(words, len(X), ids)
    target = check_picture_path(_OWNER, path)

    xy = in_plane(X, X)
    axes = new_axes(shown=path is None) if ax is None else ax
    bar = draw_dots(axes, xy, colours)
    if bar is not None:
        add_bar(axes.figure, axes, bar)
    if colours.groups is not None:
        _name_groups(axes, xy, colours.groups, names)
    if title is not None:
        as_written(axes.set_title(title))
    if texts is not None:
        _write_words(axes, xy, texts)
    write(_OWNER, axes.figure, target)
    return axes


def _texts(words: bool | ColumnLike, n: int, ids: Ids | None) -> list[str]:
    """Return what is written at n dots."""
    if words is not True:
        return column_of(_OWNER, "words", words, n, ids, also="True, False or ").texts()
    if ids is None:
        hint = "Give the words themselves."
        raise InputError(_OWNER, "words", "a text for each vector, unless these are an Embedding", "True", hint)
    return list(map(name_of, ids))


def _write_words(axes: Axes, xy: NDArray[np.float64], texts: list[str]) -> None:
    """Write words above their dots, the first first, each where none of those written is in its way."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patheffects import withStroke
    from matplotlib.textpath import TextPath

    font = FontProperties(size=_WORD_SIZE)
    figure = axes.figure.canvas.figure

    def width(text: str) -> float:
        return float(TextPath((0, 0), _drawable(text).replace("$", r"\$"), prop=font).get_extents().width)

    @cache
    def advance(letter: str) -> float:  # of one letter: measuring each word takes long
        return width(f"n{letter}n") - width("nn")

    figure.draw_without_rendering()  # the axes take on their size
    points = axes.transData.transform(xy) * 72 / figure.dpi
    frame = axes.get_window_extent().get_points() * 72 / figure.dpi
    boxes = np.empty((0, 4))  # left, bottom, right, top
    for text, place, (x, y) in zip(texts[:_LOOKED_AT], xy, points, strict=False):
        if len(boxes) == _WORDS:
            break
        if not text.strip():
            continue
        half = 0.5 * sum(map(advance, text)) + _APART
        box = np.array([x - half, y, x + half, y + _LIFT + 1.2 * _WORD_SIZE])
        outside = box[0] < frame[0, 0] or box[2] > frame[1, 0] or box[3] > frame[1, 1]
        if outside or ((box[:2] < boxes[:, 2:]) & (box[2:] > boxes[:, :2])).all(axis=1).any():
            continue
        boxes = np.vstack([boxes, box])
        note = axes.annotate(
            text,
            place,
            xytext=(0, _LIFT),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontproperties=font,
            color="#333333",
        )
        as_written(note).set_path_effects([withStroke(linewidth=2, foreground="white")])


def in_plane(X: Floats, of: Floats) -> NDArray[np.float64]:
    """Return X in the plane that shows the vectors ``of`` best: two columns are the plane themselves."""
    if X.shape[1] == 2:
        return X.astype(np.float64)
    mean = of.mean(axis=0, dtype=np.float64)
    covariance = (of.T @ of).astype(np.float64) / of.shape[0] - np.outer(mean, mean)
    _, directions = np.linalg.eigh(covariance)
    plane = directions[:, :-3:-1]  # the two largest, largest first
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    turned: NDArray[np.float64] = X @ plane - mean @ plane
    return turned


def draw_dots(
    axes: Axes,
    xy: NDArray[np.float64],
    colours: Colours,
    size: float = 1.0,
) -> Bar | None:
    """Draw what is inside the frame of a picture: dots in their colours, and the frame; no names.

    ``size`` is the area of the picture, that of one by itself being 1. For values, return what a colour bar needs: the
    scale, and at which ends there are values beyond it.
    """
    bar = None
    if colours.groups is not None:
        palette = np.array([_rgb(colour) for colour in (*COLOURS, GREY)])  # -1 is the last
        _draw(axes, xy, palette[colours.groups.codes], size)
    elif colours.values is not None:
        of_values, bar = _colours_of(colours.values, colours.dates)
        _draw(axes, xy, of_values, size)
    else:
        _draw(axes, xy, _rgb(COLOURS[0]), size)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set_color(GREY)
    return bar


def _rgb(colour: str) -> NDArray[np.float64]:
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(colour))


def _draw(axes: Axes, xy: NDArray[np.float64], colours: NDArray[np.float64], size: float) -> None:
    """Draw points of the given colours, one for all or one for each."""
    n = len(xy)
    if n >= _SHADED_FROM:
        pixels, shape, extent = pixel_grid(xy)
        axes.imshow(shade(pixels, shape, colours), origin="lower", extent=extent)
        return
    if colours.ndim == 2:  # a fixed shuffle, so that no group hides those drawn before it
        order = np.random.default_rng(0).permutation(n)
        xy, colours = xy[order], colours[order]
    axes.scatter(
        xy[:, 0],
        xy[:, 1],
        color=colours,
        s=size * float(np.clip(25_000 / n, 0.8, 40.0)),  # points squared
        alpha=float(np.clip((2000 / n) ** 0.25, 0.4, 0.9)),
        linewidths=0.0,
        rasterized=n >= _RASTER_FROM,
    )


def _colours_of(values: NDArray[np.float64], dates: bool) -> tuple[NDArray[np.float64], Bar | None]:
    """Return the colour of each value, and what a colour bar needs, if there is a value."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    known = np.isfinite(values)
    colours = np.tile(_rgb(GREY), (len(values), 1))
    if not known.any():
        return colours, None
    ends = np.array([values[known].min(), values[known].max()])
    inner = np.quantile(values[known], [0.01, 0.99]) if known.sum() >= _ROBUST_FROM else ends
    scale = ScalarMappable(Normalize(*inner), colormaps["cividis"])
    colours[known] = scale.to_rgba(values[known])[:, :3]
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    return colours, Bar(scale, beyond[bool(ends[0] < inner[0]), bool(ends[1] > inner[1])], dates)


def add_bar(figure: Figure | SubFigure, axes: Axes | list[Axes], bar: Bar, **layout: Any) -> None:
    """Say by a colour bar beside the axes what the colours of values mean."""
    from matplotlib import dates

    if bar.dates:
        layout["ticks"] = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
        layout["format"] = dates.ConciseDateFormatter(layout["ticks"])  # type: ignore[no-untyped-call]
    figure.colorbar(bar.scale, ax=axes, extend=bar.extend, **layout)


def as_written(text: Text) -> Text:
    """Return a text of a picture that comes from the user, in which $ is no sign of mathematics."""
    text.set_parse_math(False)
    text.set_text(_drawable(text.get_text()))
    return text


def _drawable(text: str) -> str:
    """Return a text with ? for what is half a character, which no font has."""
    return text.encode("utf-8", "replace").decode()


def _name_groups(axes: Axes, xy: NDArray[np.float64], groups: Groups, names: str) -> None:
    if names == "auto":
        names = "legend" if len(groups.names) <= _LEGEND_UP_TO else "map"
    if names == "legend":
        handles = legend_handles(groups)
        write_legend(axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False))
    elif names == "map":
        _add_names(axes, xy, groups)


def write_legend(legend: Legend) -> None:
    """Write the names of a legend as they are."""
    for text in legend.get_texts():
        as_written(text)


def legend_handles(groups: Groups) -> list[Line2D]:
    """Return what a legend shows of the groups: a dot and a name each."""
    from matplotlib.lines import Line2D

    texts = groups.names + [groups.rest] * bool(groups.rest)
    colours = [*COLOURS[: len(groups.names)], GREY]
    return [
        Line2D([], [], ls="", marker="o", color=colour, label=text)
        for colour, text in zip(colours, texts, strict=False)
    ]


def _add_names(axes: Axes, xy: NDArray[np.float64], groups: Groups) -> None:
    from matplotlib.patheffects import withStroke

    places = places_of_names(xy, groups, (0.02, 0.036))  # about right on a figure of the default size
    for name, (x, y), colour in zip(groups.names, places, COLOURS, strict=False):
        text = axes.text(x, y, name, color=0.7 * _rgb(colour), ha="center", va="center", weight="bold", size=10)
        as_written(text).set_path_effects([withStroke(linewidth=3, foreground="white")])


# Groups of points: which of them get a colour, and where on a map their names stand.


@dataclass(frozen=True, eq=False)
class Groups:
    """The largest groups of points, as many as there are colours, in the order of their labels.

    Parameters
    ----------
    codes : ndarray, shape (n,), int64
        Number of each point's group; -1 for those of other groups and without a label.
    names : list of str
        Of the groups.
    rest : str
        What the other points are; empty where there are none.
    """

    codes: NDArray[np.int64]
    names: list[str]
    rest: str


@dataclass(frozen=True, eq=False)
class Colours:
    """What colours points: groups or values of them, or neither."""

    groups: Groups | None
    values: NDArray[np.float64] | None
    dates: bool = False

    @classmethod
    def of(
        cls, owner: str, labels: ColumnLike | None, values: ColumnLike | None, n: int, ids: Ids | None = None
    ) -> Colours:
        """Check labels or values of n points."""
        if labels is not None and values is not None:
            raise InputError(owner, "values", "None with labels", "both", "Draw two pictures.")
        if labels is not None:
            return cls(groups_of(owner, labels, n, ids), None)
        if values is None:
            return cls(None, None)
        column = column_of(owner, "values", values, n, ids)
        if column.kind != "date":
            return cls(None, column.numbers(owner, "values"))
        known = column.known.astype("M8[D]")  # NumPy 2.0 compares in nanoseconds, which end in 2262
        if not ((known >= _FIRST_DAY) & (known <= _LAST_DAY)).all():
            raise InputError(owner, "values", "dates of the years 1 to 9999", "others")
        from matplotlib.dates import date2num

        days = date2num(column.values)  # type: ignore[no-untyped-call]
        return cls(None, np.where(column.missing, np.nan, days), dates=True)


def groups_of(owner: str, labels: ColumnLike, n: int, ids: Ids | None = None) -> Groups:
    """Check the labels of n points, those of a Series or a mapping by the ids, and find the groups."""
    column = column_of(owner, "labels", labels, n, ids)
    _check_not_values(owner, column)
    codes, names = column.groups()
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    shown = np.sort(np.argsort(-sizes, kind="stable")[: len(COLOURS)])
    number = np.full(len(names) + 1, -1)  # the last is that of no label
    number[shown] = np.arange(shown.size)
    others = len(names) - shown.size
    rest = [f"{others} others"] * (others > 0) + ["no label"] * bool(column.missing.any())
    return Groups(number[codes], [names[at] for at in shown.tolist()], ", ".join(rest))


def _check_not_values(owner: str, column: Column) -> None:
    if column.kind == "number":
        fractions = column.known[column.known != np.floor(column.known)]
        if fractions.size:
            got = f"numbers such as {fractions[0].item()!r}"
            raise InputError(owner, "labels", "names of groups", got, "Give numbers as values=.")


def places_of_names(xy: NDArray[np.float64], groups: Groups, letter: tuple[float, float]) -> NDArray[np.float64]:
    """Return where to write the name of each group, shape (n_groups, 2): where it is densest, names apart.

    ``letter`` is the width and the height of one, as a share of the longer side of the map.
    """
    low, side = xy.min(axis=0), float(np.ptp(xy, axis=0).max()) or 1.0
    scaled = (xy - low) / side
    places = np.array([_densest(scaled[groups.codes == group]) for group in range(len(groups.names))])
    boxes = np.array([[letter[0] * len(name), letter[1]] for name in groups.names])
    for _ in range(100):  # a name that lies on another one moves up or down, in small steps
        gaps = places[:, None] - places
        overlaps = (boxes[:, None] + boxes) / 2 - abs(gaps)
        touching = (overlaps > 0).all(axis=2) & ~np.eye(len(places), dtype=np.bool_)
        if not touching.any():
            break
        ahead = np.where(gaps[..., 1] == 0, np.triu(touching) * 2.0 - 1, np.sign(gaps[..., 1]))
        places[:, 1] += 0.3 * (touching * ahead * overlaps[..., 1]).sum(axis=1)
    placed: NDArray[np.float64] = low + side * places
    return placed


def _densest(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of the points in the densest place of the unit square.

    Not the mean of all, which may fall between the parts of a group.
    """
    place: NDArray[np.float64] = np.median(xy[densest(xy, _CELLS)], axis=0)
    return place


def densest(xy: NDArray[np.float64], cells: int) -> NDArray[np.bool_]:
    """Return which points are in the densest place of the unit square.

    That is, of the cells of a grid, the one that has most points together with the eight around it.
    """
    at = np.minimum(xy * cells, cells - 1).astype(np.int64)
    counts = np.zeros((cells + 2, cells + 2), np.int64)
    for across, up in np.ndindex(3, 3):
        np.add.at(counts, (at[:, 0] + across, at[:, 1] + up), 1)
    best = np.array(np.unravel_index(counts.argmax(), counts.shape)) - 1
    return np.asarray((abs(at - best) <= 1).all(axis=1))


# A map of very many points as a picture of their density: counts per pixel, the mean colour of the points there.
#
# Transparent dots fail where thousands lie on each other: dense places are all alike, and what is drawn last hides the
# rest. A pixel's colour is the mean over its points, and its opacity grows with the logarithm of their number.


def pixel_grid(xy: NDArray[np.float64]) -> tuple[NDArray[np.int64], tuple[int, int], tuple[float, float, float, float]]:
    """Return each point's pixel, the (height, width) in square pixels, and the extent of the picture in data units."""
    low, spans = xy.min(axis=0), np.ptp(xy, axis=0)
    side = float(spans.max()) / (_PIXELS - 4) or 1.0
    low = low - 2 * side  # a margin of two pixels
    width, height = (np.ceil(spans / side).astype(int) + 4).tolist()
    columns, rows = ((xy - low) / side).astype(np.int64).T
    extent = (low[0], low[0] + width * side, low[1], low[1] + height * side)
    return np.minimum(rows, height - 1) * width + np.minimum(columns, width - 1), (height, width), extent


def shade(pixels: NDArray[np.int64], shape: tuple[int, int], colours: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the picture, shape (height, width, 4), of points with the given colours.

    Parameters
    ----------
    pixels : ndarray, shape (n,)
        Pixel of each point.
    shape : tuple
        Height and width.
    colours : ndarray, shape (n, 3) or (3,)
        Red, green, blue, in [0, 1].
    """
    size = shape[0] * shape[1]
    weights = [None, *(np.broadcast_to(colours[..., c], pixels.shape) for c in range(3))]
    layers = [np.bincount(pixels, weight, minlength=size) for weight in weights]
    counts, *sums = (_spread(layer.astype(np.float32).reshape(shape)) for layer in layers)
    picture = np.ones((*shape, 4), np.float32)
    picture[..., 3] = 0
    drawn = counts > 0
    for c in range(3):
        picture[drawn, c] = sums[c][drawn] / counts[drawn]
    full = max(float(np.quantile(counts[drawn], _FULL)), 1.0 + 1e-6)
    opacity = np.log1p(counts[drawn]) / np.log1p(full)
    picture[drawn, 3] = np.clip(_FAINTEST + (1 - _FAINTEST) * opacity, 0, 1)
    return picture


def _spread(layer: NDArray[np.float32]) -> NDArray[np.float32]:
    """Let each point cover the four neighbours of its pixel too, half as strongly."""
    spread = layer.copy()
    spread[1:] += layer[:-1] / 2
    spread[:-1] += layer[1:] / 2
    spread[:, 1:] += layer[:, :-1] / 2
    spread[:, :-1] += layer[:, 1:] / 2
    return spread


# Figures and their files, without pyplot: no window opens, no global setting changes, nothing stays in memory.


def check_picture_path(owner: str, path: str | os.PathLike[str] | None) -> Path | None:
    """Return where the picture is to be written, if anywhere; said to be impossible before anything is drawn."""
    return None if path is None else check_suffix(owner, path, PICTURES)


def new_figure(size: tuple[float, float] = (7.0, 5.5), *, shown: bool = False) -> Figure:
    """Return a figure of this size in inches; pyplot's, if it is to be shown."""
    if shown:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(*, shown: bool) -> Axes:
    """Return pyplot's current axes if nothing is drawn there, else the axes of a new figure."""
    if shown:
        from matplotlib import pyplot

        if pyplot.get_fignums() and not pyplot.gca().has_data():
            return pyplot.gca()
    return new_figure(shown=shown).add_subplot()


def write(owner: str, figure: Figure | SubFigure, target: Path | None) -> None:
    """Write the figure, if it is to be written."""
    if target is not None:
        kind = target.suffix.lower()[1:]
        # Without a date the same picture is the same file.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with atomic_write(target, owner=owner) as file:
            figure.canvas.figure.savefig(file, format=kind, metadata=metadata)
