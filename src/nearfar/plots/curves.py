"""Curves that compare maps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.evaluate.neighborhoods import Neighborhoods
from nearfar.plots._figure import COLOURS, check_picture_path, finish, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "plots.rnx_curves"
_POINTS = 400  # of a curve: more would not be seen
_ONE_STYLE = 7  # curves of the best told colours; more are dashed


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
    _checks.require(_OWNER, "matplotlib", "plot")
    if not isinstance(results, Mapping) or not results:
        raise InputError(_OWNER, "results", "a mapping of names to results of evaluate.neighborhoods", repr(results))
    for name, result in results.items():
        if not isinstance(result, Neighborhoods):
            raise InputError(_OWNER, f"results[{name!r}]", "a result of evaluate.neighborhoods", repr(result))
    target = check_picture_path(_OWNER, path)

    axes = new_axes() if ax is None else ax
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
    axes.legend(handles=[lines[i] for i in order], title="area", frameon=False, loc="best", alignment="left")
    return finish(_OWNER, axes, title, target)


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
