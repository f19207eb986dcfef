"""Small multiples: maps side by side, in the same colours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from nearfar import _checks
from nearfar.plots._figure import check_picture_path, write
from nearfar.plots._panels import Colours, add_key, draw_panel, grid, panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "plots.small_multiples"
_SIDE = 2.4  # inches of a panel


def small_multiples(
    maps: Iterable[Any] | Mapping[str, Any],
    labels: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
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
        One per map, row by row; the ``figure`` of each is the figure.

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
    colours = Colours.of(_OWNER, labels, values, len(panels[0].xy))
    if columns is not None:
        columns = _checks.check_integer(_OWNER, "columns", columns, low=1)
    target = check_picture_path(_OWNER, path)

    figure, axes = grid(len(panels), columns, _SIDE, colours)
    bars = [draw_panel(ax, panel, colours, _SIDE) for ax, panel in zip(axes, panels, strict=True)]
    add_key(figure, axes, colours, bars[0])
    if title is not None:
        figure.suptitle(title)
    write(_OWNER, figure, target)
    return axes
