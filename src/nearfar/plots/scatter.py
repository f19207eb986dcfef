"""A static picture: one dot per vector, coloured by group or by value; of very many, the density of the dots."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core import checks as _checks
from nearfar._core.atomic import atomic_write, check_suffix
from nearfar._core.columns import column_of
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import ColumnLike, Doubles, Flags
from nearfar._core.warn import warn_user
from nearfar.contracts import Floats
from nearfar.embedding.content import name_of
from nearfar.errors import InputError
from nearfar.plots.density import draw_contours, pixel_grid, shade
from nearfar.plots.groups import NAMED_FROM, Colours, Groups, in_view, parts_of, rows_of_groups, togetherness
from nearfar.plots.names import MOST_NAMED, as_written, draw_names, in_legend, show_box, shown_in
from nearfar.plots.palette import COLOURS, GREY, LIGHT_END, SCALE, hex_of, rgb_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend

    from nearfar.embedding.vectors import Embedding

_OWNER = "plots.scatter"
_RASTER_FROM = 3000  # dots from which a vector format holds a bitmap of them
_SHADED_FROM = 50_000  # dots from which their density is drawn
_CONTOURS_FROM = 1000  # dots
_CONTOURED_FROM = 0.75  # togetherness of groups with contours
LEGEND_UP_TO, COLUMN = 40, 20  # groups in a legend, and in a column of it
_AREAS = ((12, 39.0), (30, 65.0), (10**9, 100.0))  # square inches of a figure with names of up to so many groups
_ROBUST_FROM = 100  # values from which the ends of the colour bar leave out the outermost hundredth at either side
_UNKNOWN = 0.45  # opacity of points without a group or value, as a share of that of others
_WORD_SIZE, _LIFT, _APART = 7.0, 1.5, 1.0  # points: of a word, above its dot, beside other words
_WORDS, _LOOKED_AT = 300, 20_000  # words written, rows from which they are taken
_MARGIN = 0.04  # share of the picture around the points
_INK, _SOFT = "#22262B", "#7A828A"  # of titles and what is below them
_NOTE: dict[str, Any] = {"fontsize": 8, "color": _SOFT}
PICTURES = (".png", ".svg", ".pdf")


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
    subtitle: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw vectors, or a map, as dots in the plane.

    A handful of points or millions: dots are smaller and more transparent where there are more, and from 50,000 on the
    picture shows their density, each pixel in the mean colour of its points. From 1,000 points on, contours show where
    each group is. At most 1.5 % of the points may lie outside the picture, far from all others; triangles at its edge
    show them.

    Parameters
    ----------
    vectors : Embedding or array-like of shape (n, d), n >= 1, d >= 2
        Two columns are drawn as they are; more are first turned to their two principal components, each with its
        largest loading positive.
    labels : array-like of shape (n,), or mapping from ids, optional
        Groups: text, whole numbers, dates, categories. Those of a pandas Series or a mapping go by the ids of an
        Embedding or frame, others by row; a Series with the index 0 .. n - 1, where these are not the ids, goes by row
        with a warning. Each has a colour, in the order of an ordered category, of numbers or of the alphabet; of more
        than twelve it goes by the place on the map. Noise (-1 beside 0, ``-1_...``, "noise", "unknown") and points
        without a label (None, NaN, NA, the empty text, masked) are grey, below the others.
    values : array-like of shape (n,), or mapping from ids, optional
        Numbers or dates, in place of labels, by id as these: colours, with a bar; a missing one is grey. Of 100 values
        or more the outermost hundredth at either end has the colour of the end.
    names : {"auto", "legend", "map", "none"}
        Where the groups are named: in a legend, on the map (the 150 largest), or nowhere; by default on the map where
        most neighbours there are of one group.
    words : bool or array-like of shape (n,), default=False
        What is written at the dots: True is the ids of an Embedding. A word that would lie on one of an earlier row is
        left out, so the most important should come first; files of word vectors begin with the most frequent words. An
        empty or missing word is none. At most 300 are written.
    ax : matplotlib Axes, optional
        Where to draw; by default pyplot's current axes if they are empty, else a new figure of pyplot, which notebooks
        show and ``pyplot.show()`` too. With ``path``, a figure that is not shown.
    title : str, optional
        Title of the picture.
    subtitle : str, optional
        Below the title; by default the number of points and the method of an Embedding.
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

    xy, groups = in_plane(X), colours.groups
    together = 0.0 if groups is None else togetherness(xy, groups.codes)
    if names == "auto":
        names = "map" if together > NAMED_FROM and texts is None else "legend"
    count = len(groups.names) if groups is not None and names == "map" else 0
    if ax is None:  # of the shape of the map, with room for names of so many groups
        area = next(area for most, area in _AREAS if count <= most)
        across, up = np.ptp(xy[in_view(xy)], axis=0)
        shape = float(np.clip(1.15 * across / up, 1.0, 1.7)) if up > 0 else 1.7
        axes = new_axes(((area * shape) ** 0.5, (area / shape) ** 0.5), shown=path is None)
    else:
        axes = ax
    palette = None if groups is None else groups.palette(xy)
    bar = draw_dots(axes, xy, colours, palette)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if bar is not None:
        add_bar(axes.figure, axes, bar, aspect=32, shrink=0.6)
    if title is not None:
        method = getattr(vectors, "parameters", {}).get("estimator")
        usual = f"{len(X):,} points" + (f", {method}" if method else "")
        below = usual if subtitle is None else subtitle  # in grey, from the left edge of the map on
        pad = 22.0 if below else 8.0
        as_written(axes.set_title(title, x=0.0, ha="left", weight="bold", fontsize=14, color=_INK, pad=pad))
        if below:
            where: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
            as_written(axes.annotate(below, (0, 1), (0, 7), **where, fontsize=9.5, color=_SOFT))
    if groups is not None and palette is not None:
        if together > _CONTOURED_FROM and len(xy) >= _CONTOURS_FROM:
            draw_contours(axes, xy, rows_of_groups(groups.codes, len(groups.names)), palette)
        if names == "legend":
            add_legend(axes, groups, palette, loc="center left", bbox_to_anchor=(1.0, 0.5))
        elif names == "map" and groups.names:
            _name_on_map(axes, xy, groups, palette)
    if texts is not None:
        _write_words(axes, xy, texts)
    write(_OWNER, axes.figure, target)
    return axes


def _name_on_map(axes: Axes, xy: Doubles, groups: Groups, palette: Doubles) -> None:
    """Name the groups on the map; what is the grey of the others, and how many have no name, is said below."""
    axes.figure.canvas.figure.draw_without_rendering()  # the axes take on their size
    named = groups.largest[:MOST_NAMED]
    parts = [part for part in parts_of(xy, groups.codes, len(groups.names)) if part.group in set(named.tolist())]
    inside = xy[in_view(xy)]
    left = draw_names(axes, xy, groups, parts, palette, (inside.min(axis=0), inside.max(axis=0)))
    notes = [f"grey: {groups.rest}"] if groups.rest else []
    if unnamed := len(groups.largest) - len(named) + len(left):
        notes.append(f"{unnamed:,} group{'s' * (unnamed > 1)} without a name")
    if notes:
        note = axes.annotate("; ".join(notes), (0, 0), xycoords="axes fraction", va="bottom", **_NOTE)
        as_written(note).set_in_layout(False)
    if left:
        warn_user(f"{_OWNER}: no room for the names of {len(left)} groups, such as {left[0]!r}. Give larger axes.")


def _texts(words: bool | ColumnLike, n: int, ids: Ids | None) -> list[str]:
    """Return what is written at n dots."""
    if words is not True:
        return column_of(_OWNER, "words", words, n, ids, also="True, False or ").texts()
    if ids is None:
        hint = "Give the words themselves."
        raise InputError(_OWNER, "words", "a text for each vector, unless these are an Embedding", "True", hint)
    return list(map(name_of, ids))


def _write_words(axes: Axes, xy: Doubles, texts: list[str]) -> None:
    """Write words above their dots, the first first, each where none of those written is in its way."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patheffects import withStroke
    from matplotlib.textpath import TextPath

    figure = axes.figure.canvas.figure

    def width(text: str) -> float:
        shown, families = shown_in(text, FontProperties().get_family())
        font = FontProperties(family=families, size=_WORD_SIZE)
        return float(TextPath((0, 0), shown.replace("$", r"\$"), prop=font).get_extents().width)

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
            fontsize=_WORD_SIZE,
            color="#333333",
        )
        as_written(note).set_path_effects([withStroke(linewidth=2, foreground="white")])


def in_plane(X: Floats) -> Doubles:
    """Return X in the plane that shows it best: two columns are the plane themselves."""
    if X.shape[1] == 2:
        return X.astype(np.float64)
    mean = X.mean(axis=0, dtype=np.float64)
    covariance = (X.T @ X).astype(np.float64) / X.shape[0] - np.outer(mean, mean)
    _, directions = np.linalg.eigh(covariance)
    plane = directions[:, :-3:-1]  # the two largest, largest first
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    return X @ plane - mean @ plane


def draw_dots(
    axes: Axes, xy: Doubles, colours: Colours, palette: Doubles | None, size: float = 1.0, many: int = 0
) -> Bar | None:
    """Draw what is inside the frame of a picture: dots in their colours, and the frame; no names.

    ``palette`` has the colours of the groups, ``size`` is the area of the picture, that of one by itself being 1, and
    ``many`` are the points of the largest one beside it, which says how all are drawn. For values, return what a colour
    bar needs: the scale, and at which ends there are values beyond it.
    """
    bar, known = None, np.ones(len(xy), np.bool_)
    of_points = np.tile(rgb_of(COLOURS[0]), (len(xy), 1))
    if colours.groups is not None and palette is not None:
        known = colours.groups.codes >= 0
        of_points = np.vstack([palette, rgb_of(GREY)])[colours.groups.codes]  # -1 is the last
    elif colours.values is not None:
        known = np.isfinite(colours.values)
        of_points, bar = _colours_of(colours.values, colours.dates)
    inside = in_view(xy)
    _draw(axes, xy[inside], of_points[inside], known[inside], size, max(many, int(inside.sum())))
    low, high = xy[inside].min(axis=0), xy[inside].max(axis=0)
    margin = _MARGIN * (float((high - low).max()) or 1.0)
    low, high = low - margin, high + margin
    show_box(axes, low, high)
    outside, shades = xy[~inside], of_points[~inside]
    if len(outside):  # triangles at the edge of the picture, and how many there are
        at = np.clip(outside, low, high)
        side = np.hstack([low - outside, outside - high])[:, [0, 2, 1, 3]].argmax(axis=1)
        for number, marker in enumerate("<>v^"):
            if (side == number).any():
                x, y = at[side == number].T
                axes.scatter(x, y, c=shades[side == number], marker=marker, s=22, clip_on=False, zorder=3)
        text = f"{len(outside):,} point{'s' * (len(outside) > 1)} outside"
        axes.annotate(text, (1, 0), xycoords="axes fraction", ha="right", va="bottom", **_NOTE)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    for spine in axes.spines.values():
        spine.set_color(GREY)
    return bar


def _draw(axes: Axes, xy: Doubles, colours: Doubles, known: Flags, size: float, many: int) -> None:
    """Draw points of the given colours, as so many, those of which nothing is known first and fainter."""
    if many >= _SHADED_FROM:
        pixels, shape, extent = pixel_grid(xy)
        for some, opacity in ((~known, _UNKNOWN), (known, 1.0)):
            if some.any():
                picture = shade(pixels[some], shape, colours[some])
                picture[..., 3] *= opacity
                axes.imshow(picture, origin="lower", extent=extent, zorder=1)
        return
    alpha = float(np.clip((2000 / many) ** 0.25, 0.4, 0.9))
    drawn = np.column_stack([colours, np.where(known, alpha, _UNKNOWN * alpha)])
    if (drawn == drawn[0]).all():
        order, drawn = np.arange(len(xy)), drawn[:1]
    else:  # a fixed shuffle: no group hides those drawn before it
        order = np.random.default_rng(0).permutation(len(xy))
        order = order[np.argsort(known[order], kind="stable")]
        drawn = drawn[order]
    axes.scatter(
        xy[order, 0],
        xy[order, 1],
        color=drawn,
        s=size * float(np.clip(25_000 / many, 0.8, 40.0)),  # points squared
        linewidths=0.0,
        rasterized=many >= _RASTER_FROM,
    )


def _colours_of(values: Doubles, dates: bool) -> tuple[Doubles, Bar | None]:
    """Return the colour of each value, and what a colour bar needs, if there is a value."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    known = np.isfinite(values)
    colours = np.tile(rgb_of(GREY), (len(values), 1))
    if not known.any():
        return colours, None
    ends = np.array([values[known].min(), values[known].max()])
    inner = np.quantile(values[known], [0.01, 0.99]) if known.sum() >= _ROBUST_FROM else ends
    scale = ScalarMappable(Normalize(*inner), LinearSegmentedColormap.from_list("nearfar", SCALE[:LIGHT_END]))
    colours[known] = scale.to_rgba(values[known])[:, :3]
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    return colours, Bar(scale, beyond[bool(ends[0] < inner[0]), bool(ends[1] > inner[1])], dates)


def add_bar(figure: Figure | SubFigure, axes: Axes | list[Axes], bar: Bar, **layout: Any) -> None:
    """Say by a colour bar beside the axes what the colours of values mean."""
    from matplotlib import dates

    if bar.dates:
        layout["ticks"] = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
        layout["format"] = dates.ConciseDateFormatter(layout["ticks"])  # type: ignore[no-untyped-call]
    drawn = figure.colorbar(bar.scale, ax=axes, extend=bar.extend, **layout)
    drawn.outline.set_visible(False)
    drawn.ax.tick_params(color=GREY, labelcolor=_INK, labelsize=9)


def write_legend(legend: Legend) -> None:
    """Write the names of a legend, and its title, as they are."""
    for text in (*legend.get_texts(), legend.get_title()):
        as_written(text)


def add_legend(where: Axes | Figure, groups: Groups, palette: Doubles, **layout: Any) -> None:
    """Name the groups in a legend: a dot and a name each, of many those of the largest."""
    from matplotlib.lines import Line2D

    shown, more = np.sort(groups.largest[:LEGEND_UP_TO]).tolist(), len(groups.largest[LEGEND_UP_TO:])
    names = [groups.names[at] for at in shown] + [f"and {more:,} smaller ones"] * bool(more)
    names += [groups.rest] * bool(groups.rest)
    colours = [*hex_of(palette[shown]), *["none"] * bool(more), GREY]
    texts = in_legend(names, 2 * COLUMN)
    handles = [Line2D([], [], ls="", marker="o", color=c, label=text) for c, text in zip(colours, texts, strict=False)]
    columns = -(-sum(text.count("\n") + 1 for text in texts) // COLUMN)
    write_legend(where.legend(handles=handles, frameon=False, ncols=columns, **layout))


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


def new_axes(size: tuple[float, float] = (7.0, 5.5), *, shown: bool) -> Axes:
    """Return pyplot's current axes if nothing is drawn there, else the axes of a new figure."""
    if shown:
        from matplotlib import pyplot

        if pyplot.get_fignums() and not pyplot.gca().has_data():
            return pyplot.gca()
    return new_figure(size, shown=shown).add_subplot()


def write(owner: str, figure: Figure | SubFigure, target: Path | None) -> None:
    """Write the figure, if it is to be written."""
    if target is not None:
        kind = target.suffix.lower()[1:]
        # Without a date the same picture is the same file.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with atomic_write(target, owner=owner) as file:
            figure.canvas.figure.savefig(file, format=kind, metadata=metadata)
