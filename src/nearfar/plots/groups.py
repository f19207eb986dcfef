"""Groups of points and what colours them: which are noise, where they are on a map, and whether they hold together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter, label
from scipy.spatial import cKDTree

from nearfar._core.columns import column_of
from nearfar._core.ids import Ids
from nearfar._core.types import ColumnLike, Doubles, Flags, Longs
from nearfar.errors import InputError
from nearfar.plots.palette import COLOURS, colours_of_groups

NAMED_FROM = 0.5  # togetherness of groups with names on the map
_CELLS = 24  # a side of the map, for finding where a group is densest
_FINE = 40  # a side of the map, for finding the parts of a group
_PART, _PART_POINTS, _FAR = 0.1, 10, 0.15  # of a part with a name of its own: share, points, and sides of the map away
_SEEN, _ASKED, _NEAREST = 100_000, 2000, 10  # points, those asked, neighbours of each: whether groups hold together
_BULK_FROM, _TAIL, _AFAR = 30, 0.02, 0.015  # points from which some may be left out of view, quantile, share of these
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")  # that colour bars know
_GROWN = {"known", "new", "changed", "moved", "belongs nowhere"}  # what nearfar.maps.growing.Growth says of points
_NOISE = re.compile(r"-1(?:[_ :].*)?|noise|outliers?|unknown|unlabell?ed|unassigned", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of points, in the order of their labels.

    Parameters
    ----------
    codes : ndarray, shape (n,), int64
        Number of each point's group; -1 for noise and without a label.
    names : list of str
        Of the groups.
    rest : str
        What the other points are; empty where there are none.
    """

    codes: Longs
    names: list[str]
    rest: str

    @property
    def sizes(self) -> Longs:
        """Points of each group."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    @property
    def largest(self) -> Longs:
        """Those with points, the largest first."""
        return np.argsort(-self.sizes, kind="stable")[: np.count_nonzero(self.sizes)]

    def palette(self, xy: Doubles) -> Doubles:
        """Return the colour of each group on this map, shape (n_groups, 3)."""
        return colours_of_groups(densest_places(xy, self.codes, len(self.names)))


@dataclass(frozen=True, eq=False)
class Colours:
    """What colours points: groups or values of them, or neither."""

    groups: Groups | None
    values: Doubles | None
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
    if column.kind == "number":
        fractions = column.known[column.known != np.floor(column.known)]
        if fractions.size:
            got = f"numbers such as {fractions[0].item()!r}"
            raise InputError(owner, "labels", "names of groups", got, "Give numbers as values=.")
    codes, names = column.groups(len(COLOURS))
    noise = noise_among(names)
    number = np.full(len(names) + 1, -1)  # the last is that of no label
    kept = [at for at in range(len(names)) if at not in noise]
    number[kept] = np.arange(len(kept))
    rest = ["noise (-1)" if names[at] == "-1" else names[at] for at in noise if (codes == at).any()]
    rest += ["no label"] * bool(column.missing.any())
    return Groups(number[codes], [names[at] for at in kept], ", ".join(rest))


def noise_among(names: Sequence[str]) -> list[int]:
    """Return which groups are none: the noise of HDBSCAN (-1) and of BERTopic (-1_...), and what says so.

    Beside other negative numbers, or with no 0, -1 is a class of its own. Of a grown map, known points are none.
    """
    found = [at for at, name in enumerate(names) if _NOISE.fullmatch(name)]
    whole = [name for name in names if re.fullmatch(r"-?\d+", name) and name != "-1"]
    if whole and ("0" not in whole or any(name.startswith("-") for name in whole)):
        found = [at for at in found if names[at] != "-1"]
    if _GROWN.issuperset(names):
        found += [at for at, name in enumerate(names) if name == "known"]
    return found


# Where groups are on a map.


class Part(NamedTuple):
    """A place at which a group is named."""

    group: int
    place: Doubles
    size: int
    first: bool


def densest_places(xy: Doubles, codes: Longs, count: int) -> Doubles:
    """Return where each of ``count`` groups is densest, shape (count, 2).

    Not the mean of all, which may fall between the parts of a group. NaN for an empty one.
    """
    scaled, low, side = in_unit_square(xy)
    groups = rows_of_groups(codes, count)
    places = np.array([_densest(scaled[rows]) if len(rows) else (np.nan,) * 2 for rows in groups]).reshape(count, 2)
    return np.asarray(low + side * places)


def parts_of(xy: Doubles, codes: Longs, count: int) -> list[Part]:
    """Return the densest place of each group, and those of its other parts far away from there."""
    scaled, low, side = in_unit_square(xy)
    parts: list[Part] = []
    for group, rows in enumerate(rows_of_groups(codes, count)):
        mine = scaled[rows]
        of_point, sizes = connected(mine)
        order = np.argsort(-sizes, kind="stable")
        places: list[Doubles] = []
        for part in order[sizes[order] > 0].tolist():
            if places and (sizes[part] < _PART * len(rows) or sizes[part] < _PART_POINTS):
                break
            place = _densest(mine[of_point == part])
            if all(np.hypot(*(place - other)) >= _FAR for other in places):
                parts.append(Part(group, low + side * place, int(sizes[part]), not places))
                places.append(place)
    return parts


def rows_of_groups(codes: Longs, count: int) -> list[Longs]:
    """Return the rows of each of ``count`` groups."""
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(count + 1))
    return [order[first:last] for first, last in pairwise(cuts.tolist())]


def togetherness(xy: Doubles, codes: Longs) -> float:
    """Return how far neighbours on the map are of one group: 1 if all are, 0 at chance."""
    known = np.random.default_rng(0).permutation(np.flatnonzero(codes >= 0))[:_SEEN]
    if len(known) < 3:
        return 0.0
    chance = float(((np.bincount(codes[known]) / len(known)) ** 2).sum())
    asked = known[:_ASKED]
    nearest = np.asarray(cKDTree(xy[known]).query(xy[asked], min(_NEAREST, len(known) - 1) + 1)[1])
    alike = float((codes[known][nearest[:, 1:]] == codes[asked, None]).mean())
    return (alike - chance) / (1 - chance) if chance < 1 else 1.0


def in_view(xy: Doubles) -> Flags:
    """Return which points a picture shows: all, but for a few, 1.5 %, that are far from the bulk.

    Far is more than the width of the middle 96 % away from these, which is 8 standard deviations of a Gaussian.
    """
    everything = np.ones(len(xy), np.bool_)
    if len(xy) < _BULK_FROM:
        return everything
    low, high = np.quantile(xy, (_TAIL, 1 - _TAIL), axis=0)
    width = np.maximum(high - low, 0.3 * (high - low).max())
    inside: Flags = ((xy >= low - width) & (xy <= high + width)).all(axis=1)
    return inside if (~inside).sum() <= max(1, _AFAR * len(xy)) else everything


def in_unit_square(xy: Doubles) -> tuple[Doubles, Doubles, float]:
    """Return places in the unit square, its lower left and its side; what is out of view is at its edge."""
    seen = xy[in_view(xy)]
    low, side = seen.min(axis=0), float(np.ptp(seen, axis=0).max()) or 1.0
    return np.clip((xy - low) / side, 0.0, 1.0), low, side


def _densest(xy: Doubles) -> Doubles:
    return np.median(xy[densest(xy, _CELLS)], axis=0)


def densest(xy: Doubles, cells: int) -> Flags:
    """Return which points are in the densest place of the unit square.

    That is, of the cells of a grid, the one that has most points together with the eight around it.
    """
    at = np.minimum(xy * cells, cells - 1).astype(np.int64)
    counts = np.zeros((cells + 2, cells + 2), np.int64)
    for across, up in np.ndindex(3, 3):
        np.add.at(counts, (at[:, 0] + across, at[:, 1] + up), 1)
    best = np.array(np.unravel_index(counts.argmax(), counts.shape)) - 1
    return np.asarray((abs(at - best) <= 1).all(axis=1))


def connected(xy: Doubles) -> tuple[Longs, Longs]:
    """Return the connected part of the unit square in which each point is, -1 for none, and the size of each part."""
    at = np.minimum(xy * _FINE, _FINE - 1).astype(np.int64)
    counts = np.bincount(at[:, 0] * _FINE + at[:, 1], minlength=_FINE * _FINE).reshape(_FINE, _FINE)
    smooth = gaussian_filter(counts.astype(np.float64), 1.0)
    parts = np.zeros((_FINE, _FINE), np.int64)
    count = label(smooth > 0.1 * smooth.max(), np.ones((3, 3)), output=parts)
    of_point = parts[at[:, 0], at[:, 1]] - 1
    return of_point, np.bincount(of_point[of_point >= 0], minlength=int(count))
