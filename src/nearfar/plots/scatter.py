"""A static picture: one dot per vector, coloured by group or by value.

Drawn on a Figure of its own, without pyplot: no window opens, no global setting changes, nothing stays in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.storage.atomic import atomic_write, check_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "plots.scatter"
# Okabe & Ito's colours, told apart with every common kind of colour blindness; yellow is too pale for small dots.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "^", "s")  # with the markers, 21 groups can be told apart
_OTHERS = "#BBBBBB"
_RASTER_FROM = 3000  # dots from which a vector format holds a bitmap of them
_SUFFIXES = (".png", ".svg", ".pdf")


def scatter(
    vectors: Any,
    labels: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw vectors as dots in the plane.

    Parameters
    ----------
    vectors : Embedding or array-like of shape (n, d), n >= 1, d >= 2
        Two columns are drawn as they are; more are first turned to their two principal components, each with its
        largest loading positive.
    labels : array-like of shape (n,), optional
        Colours. Floats are values, with a colour bar (NaN is grey). Everything else is a group, with a legend: the 21
        largest groups get a colour and a marker each, the rest are grey.
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
        If the vectors are not finite or have one column, lengths differ, or ``path`` has another suffix or cannot be
        written.
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
    colours = None if labels is None else np.asarray(labels)
    if colours is not None and colours.shape != (X.shape[0],):
        raise InputError(_OWNER, "labels", f"of shape ({X.shape[0]},), one per vector", f"shape {colours.shape}")
    target = None if path is None else _checks.check_path(_OWNER, "path", path)
    if target is not None and target.suffix.lower() not in _SUFFIXES:
        raise InputError(_OWNER, "path", f"a file name ending in {', '.join(_SUFFIXES)}", repr(target.name))
    if target is not None:
        check_target(_OWNER, target)

    xy = X if X.shape[1] == 2 else _principal_plane(X)
    axes = _new_axes() if ax is None else ax
    if colours is None:
        _dots(axes, xy, color=_COLOURS[0])
    elif colours.dtype.kind == "f":
        _draw_values(axes, xy, colours)
    else:
        _draw_groups(axes, xy, colours)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    if title is not None:
        axes.set_title(title)
    if target is not None:
        _write(axes, target)
    return axes


def _principal_plane(X: NDArray[Any]) -> NDArray[np.float64]:
    mean = X.mean(axis=0, dtype=np.float64)
    covariance = (X.T @ X).astype(np.float64) / X.shape[0] - np.outer(mean, mean)
    _, directions = np.linalg.eigh(covariance)
    plane = directions[:, :-3:-1]  # the two largest, largest first
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    turned: NDArray[np.float64] = X @ plane - mean @ plane
    return turned


def _new_axes() -> Axes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 5.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def _dots(axes: Axes, xy: NDArray[Any], n: int | None = None, **style: Any) -> Any:
    """Draw dots, smaller and more transparent where there are many (``n`` in the whole picture)."""
    n = xy.shape[0] if n is None else n
    size = float(np.clip(2e4 / n, 0.5, 30.0))  # points squared
    alpha = float(np.clip((3000 / n) ** 0.5, 0.15, 0.85))
    style = {"s": size, "alpha": alpha, "linewidths": 0.0, "rasterized": n >= _RASTER_FROM} | style
    return axes.scatter(xy[:, 0], xy[:, 1], **style)


def _draw_values(axes: Axes, xy: NDArray[Any], values: NDArray[Any]) -> None:
    known = np.isfinite(values)
    if not known.all():
        _dots(axes, xy[~known], len(xy), color=_OTHERS)
    if known.any():
        drawn = _dots(axes, xy[known], len(xy), c=values[known], cmap="cividis")
        bar = axes.figure.colorbar(drawn, ax=axes)
        if bar.solids is not None:
            bar.solids.set_alpha(1.0)


def _draw_groups(axes: Axes, xy: NDArray[Any], labels: NDArray[Any]) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    texts = np.array([str(label) for label in labels.tolist()], dtype=object)
    try:
        names, first, codes, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    except TypeError:  # labels of several types have no order of their own
        names, first, codes, sizes = np.unique(
            texts.astype(str), return_index=True, return_inverse=True, return_counts=True
        )
    most = len(_COLOURS) * len(_MARKERS)
    shown = np.sort(np.argsort(-sizes, kind="stable")[:most])
    rank = np.full(names.size, -1)
    rank[shown] = np.arange(shown.size)
    group = rank[codes]
    palette = np.array([to_rgba(colour) for colour in _COLOURS])
    if (group < 0).any():
        _dots(axes, xy[group < 0], len(xy), color=_OTHERS)
    # A fixed shuffle within each marker, so that no group hides those drawn before it.
    order = np.random.default_rng(0).permutation(len(xy))
    for m, marker in enumerate(_MARKERS):
        rows = order[(group[order] >= 0) & (group[order] // len(_COLOURS) == m)]
        if rows.size:
            _dots(axes, xy[rows], len(xy), color=palette[group[rows] % len(_COLOURS)], marker=marker)
    handles = [
        Line2D([], [], ls="", marker=_MARKERS[r // len(_COLOURS)], color=_COLOURS[r % len(_COLOURS)], label=text)
        for r, text in enumerate(texts[first[shown]])
    ]
    if (group < 0).any():
        text = f"{names.size - shown.size} others"
        handles.append(Line2D([], [], ls="", marker="o", color=_OTHERS, label=text))
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _write(axes: Axes, target: Path) -> None:
    kind = target.suffix.lower()[1:]
    # Without a date the same picture is the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with atomic_write(target, owner=_OWNER) as file:
        axes.figure.savefig(file, format=kind, metadata=metadata)  # type: ignore[union-attr]
