"""What the page draws: where the points are, and the colours and names of the groups of a column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Doubles, Floats, Longs
from nearfar.plots.groups import (
    NAMED_FROM,
    Part,
    densest_places,
    in_view,
    noise_among,
    parts_of,
    rows_of_groups,
    togetherness,
)
from nearfar.plots.names import MOST_NAMED, wrapped
from nearfar.plots.palette import colours_of_groups, hex_of
from nearfar.viewer.metadata import Column

_COLOURED = 1000  # groups with colours of their own, the largest; the others share these


def in_frame(positions: Floats) -> tuple[NDArray[np.uint16], dict[str, object], list[int]]:
    """Return places on a grid of 16 bits, what leads from there back to positions, and the rows that are outside.

    The frame is that of the bulk of the points, see :func:`nearfar.plots.groups.in_view`; others are put at its edge.
    """
    xy = positions.astype(np.float64)
    inside = in_view(xy)
    low, high = xy[inside].min(axis=0), xy[inside].max(axis=0)
    span, middle = float((high - low).max()) or 1.0, (low + high) / 2
    places = np.clip((np.clip(xy, low, high) - middle) / span + 0.5, 0, 1)
    facts: dict[str, object] = {"middle": middle.tolist(), "span": span}
    return np.rint(places * 65535).astype(np.uint16), facts, np.flatnonzero(~inside).tolist()


def group_facts(column: Column, xy: Doubles, place: Longs) -> dict[str, object]:
    """Return the colours of categories, on the light and on the dark page, and where their names stand.

    Parameters
    ----------
    column : Column
        Of categories.
    xy : ndarray, shape (n, 2)
        Positions of the points.
    place : ndarray, shape (n,)
        Where each point is in the file.

    Returns
    -------
    dict
        ``shades`` has the number of the colour for each category, -1 for noise; ``names`` the place of a point, the
        category, its name in lines, its share of the largest, and 0 for a second name.
    """
    codes, order = _largest_first(column)
    few = np.where(codes < _COLOURED, codes, -1)
    centres = densest_places(xy, few, min(len(order), _COLOURED))
    shades = np.full(len(column.names), -1)
    shades[order] = np.arange(len(order)) % _COLOURED
    parts = _parts(codes, len(order), xy)
    most = max((part.size for part in parts), default=1)
    names = [
        [
            int(place[row]),
            int(order[part.group]),
            wrapped(column.names[order[part.group]]),
            part.size / most,
            part.first,
        ]
        for part, row in zip(parts, _rows_at(parts, codes, xy), strict=True)
    ]
    return {
        "light": hex_of(colours_of_groups(centres)),
        "dark": hex_of(colours_of_groups(centres, dark=True)),
        "shades": shades.tolist(),
        "labels": names,
    }


def are_together(column: Column, xy: Doubles) -> bool:
    """Return whether most neighbours on the map are of one category."""
    return togetherness(xy, _largest_first(column)[0]) > NAMED_FROM


def names_of_groups(column: Column, xy: Doubles) -> list[tuple[int, str]]:
    """Return the rows of the points at which the names of categories stand, and these, the largest first."""
    codes, order = _largest_first(column)
    parts = _parts(codes, len(order), xy)
    return [(row, column.names[order[part.group]]) for part, row in zip(parts, _rows_at(parts, codes, xy), strict=True)]


def _largest_first(column: Column) -> tuple[Longs, Longs]:
    """Return the number of each point's category among those that are no noise, and these, the largest first.

    Few keep the order of the categories, which is that of their colours.
    """
    count = len(column.names)
    kept = np.setdiff1d(np.arange(count), np.array(noise_among(column.names), np.int64))
    sizes = np.bincount(column.values.astype(np.int64), minlength=count + 1)[kept]
    order = kept[np.argsort(-sizes, kind="stable")] if len(kept) > _COLOURED else kept
    order = order[np.bincount(column.values.astype(np.int64), minlength=count + 1)[order] > 0]
    number = np.full(count + 1, -1)
    number[order] = np.arange(len(order))
    return number[column.values.astype(np.int64)], order


def _parts(codes: Longs, count: int, xy: Doubles) -> list[Part]:
    """Return where the largest groups are named, the largest first; second names follow all others."""
    sizes = np.bincount(codes[codes >= 0], minlength=count)
    named = np.argsort(-sizes, kind="stable")[:MOST_NAMED]
    number = np.full(count + 1, -1)
    number[named] = np.arange(len(named))
    parts = parts_of(xy, number[codes], len(named))
    found = [Part(int(named[part.group]), part.place, part.size, part.first) for part in parts]
    return sorted(found, key=lambda part: (not part.first, -int(sizes[part.group])))


def _rows_at(parts: list[Part], codes: Longs, xy: Doubles) -> list[int]:
    """Return for each place the row of the nearest point of its group."""
    count = 1 + max((part.group for part in parts), default=-1)
    rows = rows_of_groups(codes, count)
    found = []
    for part in parts:
        mine = rows[part.group]
        found.append(int(mine[((xy[mine] - part.place) ** 2).sum(axis=1).argmin()]))
    return found
