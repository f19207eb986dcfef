"""Several maps in one picture: side by side in the same colours, or compared by curves."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core import checks as _checks
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import ColumnLike
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.evaluate.neighborhoods import Neighborhoods
from nearfar.plots.groups import Colours
from nearfar.plots.names import as_written
from nearfar.plots.palette import COLOURS
from nearfar.plots.scatter import (
    COLUMN,
    LEGEND_UP_TO,
    add_bar,
    add_legend,
    check_picture_path,
    draw_dots,
    in_plane,
    new_axes,
    new_figure,
    write,
    write_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.embedding.vectors import Embedding

_OWNER = "plots.small_multiples"
_SIDE = 2.4  # inches of a panel
_KEY, _TITLE, _LINE = 1.2, 0.25, 0.23  # inches: width of a key, height of a title and of a line of the key
_WHOLE = 7.0 * 5.5  # square inches of a picture by itself, for which dots have their full size
_CURVES = "plots.rnx_curves"
_POINTS = 400  # of a curve: more would not be seen
_ONE_STYLE = 7  # curves of the best told colours; more are dashed


def small_multiples(
    maps: Iterable[Embedding | ArrayLike] | Mapping[str, Embedding | ArrayLike],
    labels: ColumnLike | None = None,
    *,
    values: ColumnLike | None = None,
    columns: int | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> list[Axes]:
    """Draw several maps side by side, such as those of different methods on the same data.

    All are drawn as :func:`scatter` draws the largest, each at its own scale; what the colours mean stands once, on the
    right.

    Parameters
    ----------
    maps : mapping of str to map, or sequence of maps
        A map is an Embedding or an array of shape (n, d), d >= 2.
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
    >>> est = nf.TSNE(perplexity=10, max_iter=200, random_state=0).fit(X)
    >>> axes = nf.plots.small_multiples({"t-SNE": est.embedding_, "two columns": X[:, :2]}, np.arange(60) % 3)
    >>> [ax.get_title() for ax in axes]
    ['t-SNE', 'two columns']
    """
    _checks.require(_OWNER, "matplotlib", "plot")
    titles, rows, ids = _checked(maps, same_points=labels is not None or values is not None)
    colours = Colours.of(_OWNER, labels, values, len(rows[0]), ids)
    if columns is not None:
        columns = _checks.check_integer(_OWNER, "columns", columns, low=1)
    target = check_picture_path(_OWNER, path)

    across = min(columns or math.ceil(math.sqrt(len(rows))), len(rows))
    down = math.ceil(len(rows) / across)
    entries = 0 if colours.groups is None else min(len(colours.groups.names), LEGEND_UP_TO) + 2
    key = 0.0 if colours.groups is None and colours.values is None else _KEY * max(1, -(-entries // COLUMN))
    height = max(down * (_SIDE + _TITLE), _LINE * min(entries, COLUMN))
    figure = new_figure((across * _SIDE + key, height), shown=path is None)
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for surplus in axes[len(rows) :]:
        surplus.remove()
    axes = axes[: len(rows)]

    planes = [in_plane(X) for X in rows]
    palette = None if colours.groups is None else colours.groups.palette(planes[-1])  # the same on all
    bars = []
    for ax, xy, name in zip(axes, planes, titles, strict=True):
        bars.append(draw_dots(ax, xy, colours, palette, _SIDE**2 / _WHOLE, max(map(len, planes))))
        as_written(ax.set_title(name, fontsize=10))
    if colours.groups is not None and palette is not None:
        add_legend(figure, colours.groups, palette, loc="outside right center")
    elif bars[0] is not None:
        add_bar(figure, axes, bars[0], aspect=30, shrink=min(1.0, 4.0 / figure.get_figheight()))
    if title is not None:
        as_written(figure.suptitle(title))
    write(_OWNER, figure, target)
    return axes


def _checked(maps: object, *, same_points: bool) -> tuple[list[str], list[Floats], Ids | None]:
    """Return titles and rows of the maps that are given, and the ids of the first."""
    what = "maps, or a mapping of titles to maps; at least one"
    if isinstance(maps, (str, bytes)) or not isinstance(maps, Iterable):
        raise InputError(_OWNER, "maps", what, repr(maps))
    given = {f"maps[{key!r}]" if isinstance(maps, Mapping) else f"maps[{at}]": key for at, key in enumerate(maps)}
    if not given:
        raise InputError(_OWNER, "maps", what, "none")
    titles: list[str] = []
    rows: list[Floats] = []
    first: Ids | None = None
    for name, key in given.items():
        one = maps[key] if isinstance(maps, Mapping) else key
        X, (_, ids) = _checks.check_matrix(_OWNER, name, one), rows_and_ids(_OWNER, one)
        if X.shape[1] < 2 or X.shape[0] < 1:
            raise InputError(_OWNER, name, "of at least one row and two columns", f"shape {X.shape}")
        if same_points and rows and len(X) != len(rows[0]):
            raise InputError(_OWNER, name, f"of {len(rows[0])} rows, like the first", len(X))
        first = first if rows else ids
        if same_points and first is not None and ids not in (None, first):
            hint = "emb.subset(first.ids) brings the points of another into that order."
            raise InputError(_OWNER, name, "one of the ids of the first, in their order", repr(one), hint)
        titles.append(str(key) if isinstance(maps, Mapping) else "")
        rows.append(X)
    return titles, rows, first


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
    from matplotlib.ticker import LogFormatter

    target = check_picture_path(_CURVES, path)

    axes = new_axes(shown=path is None) if ax is None else ax
    lines = []
    for number, (name, result) in enumerate(results.items()):
        sizes = np.unique(np.geomspace(1, result.n - 2, _POINTS).round().astype(np.int64))
        error = "" if result.n_sample == result.n else f" ± {result.standard_errors['auc']:.3f}"
        style = "-" if number % (2 * _ONE_STYLE) < _ONE_STYLE else "--"
        colour = COLOURS[number % _ONE_STYLE]
        label = f"{name}  {result.auc:.3f}{error}"
        lines += axes.plot(sizes, result.r_nx[sizes - 1], style, color=colour, lw=1.8, label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.set_xlabel("size of neighbourhood K")
    axes.set_ylabel("$R_{NX}(K)$")
    axes.margins(x=0)
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), None)
    axes.grid(color="#DDDDDD", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    order = sorted(range(len(lines)), key=lambda i: -list(results.values())[i].auc)
    by_area = [lines[i] for i in order]
    write_legend(axes.legend(handles=by_area, title="area", frameon=False, loc="best", alignment="left"))
    if title is not None:
        as_written(axes.set_title(title))
    write(_CURVES, axes.figure, target)
    return axes
