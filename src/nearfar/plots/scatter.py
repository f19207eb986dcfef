"""A static picture: one dot per vector, coloured by group or by value; of very many, the density of the dots."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.plots._figure import COLOURS, GREY, check_picture_path, finish, new_axes
from nearfar.plots._groups import Groups, groups_of, places_of_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D

_OWNER = "plots.scatter"
_RASTER_FROM = 3000  # dots from which a vector format holds a bitmap of them
_SHADED_FROM = 50_000  # dots from which their density is drawn
_LEGEND_UP_TO = 10  # groups; of more the names are easier to find on the map
_ROBUST_FROM = 100  # values from which the ends of the colour bar leave out the outermost hundredth at either side


def scatter(
    vectors: Any,
    labels: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
    names: str = "auto",
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
    labels : array-like of shape (n,), optional
        Groups, of any type: the 21 largest get a colour each, the rest and those without a label (None, NaN) are grey.
    values : array-like of shape (n,), optional
        Numbers, in place of labels: colours, with a bar; NaN is grey. Of 100 values or more the outermost hundredth at
        either end has the colour of the end.
    names : {"auto", "legend", "map", "none"}
        Where the groups are named: in a legend, on the map where each group is densest, or nowhere; by default in a
        legend up to 10 groups, else on the map.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
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
    X = _checks.check_matrix(_OWNER, "vectors", vectors)
    if X.shape[1] < 2 or X.shape[0] < 1:
        raise InputError(_OWNER, "vectors", "of at least one row and two columns", f"shape {X.shape}")
    if labels is not None and values is not None:
        raise InputError(_OWNER, "values", "None with labels", "both", "Draw two pictures.")
    groups = None if labels is None else groups_of(_OWNER, labels, len(X))
    numbers = None if values is None else check_values(_OWNER, values, len(X))
    names = _checks.check_choice(_OWNER, "names", names, ("auto", "legend", "map", "none"))
    target = check_picture_path(_OWNER, path)

    xy = in_plane(X, X)
    axes = new_axes() if ax is None else ax
    bar = draw_dots(axes, xy, groups, numbers)
    if bar is not None:
        axes.figure.colorbar(bar[0], ax=axes, extend=bar[1])
    if groups is not None:
        _name_groups(axes, xy, groups, names)
    return finish(_OWNER, axes, title, target)


def check_values(owner: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return the numbers that colour n points."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(owner, "values", "numbers", str(error), "Give names of groups as labels=.") from error
    if numbers.shape != (n,):
        raise InputError(owner, "values", f"of shape ({n},), one per vector", f"shape {numbers.shape}")
    return numbers


def in_plane(X: NDArray[Any], of: NDArray[Any]) -> NDArray[np.float64]:
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
    groups: Groups | None,
    values: NDArray[np.float64] | None,
    size: float = 1.0,
) -> tuple[ScalarMappable, str] | None:
    """Draw what is inside the frame of a picture: dots in their colours, and the frame; no names.

    ``size`` is the area of the picture, that of one by itself being 1. For values, return what a colour bar needs: the
    scale, and at which ends there are values beyond it.
    """
    bar = None
    if groups is not None:
        palette = np.array([_rgb(colour) for colour in (*COLOURS, GREY)])  # -1 is the last
        _draw(axes, xy, palette[groups.codes], size)
    elif values is not None:
        colours, bar = _colours_of(values)
        _draw(axes, xy, colours, size)
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
        from nearfar.plots._shading import pixel_grid, shade

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


def _colours_of(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[ScalarMappable, str] | None]:
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
    return colours, (scale, beyond[bool(ends[0] < inner[0]), bool(ends[1] > inner[1])])


def _name_groups(axes: Axes, xy: NDArray[np.float64], groups: Groups, names: str) -> None:
    if names == "auto":
        names = "legend" if len(groups.names) <= _LEGEND_UP_TO else "map"
    if names == "legend":
        axes.legend(handles=legend_handles(groups), loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    elif names == "map":
        _add_names(axes, xy, groups)


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
        text.set_path_effects([withStroke(linewidth=3, foreground="white")])
