"""Several maps in one picture: what is given, the colours they share, and a figure with room for a key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.optimize.callbacks import Frame
from nearfar.plots._figure import new_figure
from nearfar.plots._groups import Groups, groups_of
from nearfar.plots.scatter import check_values, draw_dots, in_plane, legend_handles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KEY, _TITLE, _LINE = 1.2, 0.25, 0.23  # inches: width of a key, height of a title and of a line of the key
_WHOLE = 7.0 * 5.5  # square inches of a picture by itself, for which dots have their full size


@dataclass(frozen=True, eq=False)
class Panel:
    """A map in the plane, and what stands above it."""

    title: str
    xy: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Colours:
    """Groups or values of the points, the same in every panel."""

    groups: Groups | None
    values: NDArray[np.float64] | None

    @classmethod
    def of(cls, owner: str, labels: ArrayLike | None, values: ArrayLike | None, n: int) -> Colours:
        """Check labels or values of n points."""
        if labels is not None and values is not None:
            raise InputError(owner, "values", "None with labels", "both", "Draw two pictures.")
        groups = None if labels is None else groups_of(owner, labels, n)
        return cls(groups, None if values is None else check_values(owner, values, n))


def panels_of(owner: str, argument: str, maps: Any, *, same_points: bool) -> list[Panel]:
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
    checked: list[NDArray[Any]] = []
    for number, (title, one) in enumerate(given):
        name = f"{argument}[{title!r}]" if named else f"{argument}[{number}]"
        X = _checks.check_matrix(owner, name, one.positions if isinstance(one, Frame) else one)
        if X.shape[1] < 2 or X.shape[0] < 1:
            raise InputError(owner, name, "of at least one row and two columns", f"shape {X.shape}")
        if same_points and checked and len(X) != len(checked[0]):
            raise InputError(owner, name, f"of {len(checked[0])} rows, like the first", len(X))
        checked.append(X)
    frames = all(isinstance(one, Frame) for _, one in given)
    if frames and len({X.shape[1] for X in checked}) > 1:
        raise InputError(owner, argument, "frames of one fit", "different numbers of columns")
    titles = [_title(title, one) for title, one in given]
    planes = [checked[-1]] * len(checked) if frames else checked
    return [Panel(title, in_plane(X, of)) for title, X, of in zip(titles, checked, planes, strict=True)]


def _title(title: Any, one: Any) -> str:
    return f"iteration {one.iteration}" if isinstance(one, Frame) and title == "" else str(title)


def grid(count: int, columns: int | None, side: float, colours: Colours) -> tuple[Figure, list[Axes]]:
    """Return a figure and its ``count`` axes, squares of ``side`` inches, with room for a key on the right."""
    across = min(columns or math.ceil(math.sqrt(count)), count)
    down = math.ceil(count / across)
    entries = 0 if colours.groups is None else len(colours.groups.names) + 1
    margin = 0.0 if colours.groups is None and colours.values is None else _KEY
    figure = new_figure((across * side + margin, max(down * (side + _TITLE), _LINE * entries)))
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for surplus in axes[count:]:
        surplus.remove()
    return figure, axes[:count]


def draw_panel(axes: Axes, panel: Panel, colours: Colours, side: float) -> Any:
    """Draw a map with its title on axes of this size; return what a colour bar needs."""
    bar = draw_dots(axes, panel.xy, colours.groups, colours.values, side**2 / _WHOLE)
    axes.set_title(panel.title, fontsize=10)
    return bar


def add_key(figure: Figure, axes: list[Axes], colours: Colours, bar: Any) -> None:
    """Say once, on the right, what the colours mean."""
    if colours.groups is not None:
        figure.legend(handles=legend_handles(colours.groups), loc="outside right center", frameon=False)
    elif bar is not None:
        figure.colorbar(bar[0], ax=axes, extend=bar[1], aspect=30, shrink=min(1.0, 4.0 / figure.get_figheight()))
