"""Names of groups on a map: wrapped, sized by group, each near its densest place and where it hides least.

A name looks for its place on a grid over the picture, the largest group first, and all look again once the others have
found theirs. It pays for points that it hides, for the way to its group, and for lines that cross it; on another name,
or over the edge, it never lies.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.ndimage import binary_closing

from nearfar._core.types import Doubles, Flags, Longs
from nearfar._core.warn import warn_once
from nearfar.plots.groups import Groups, Part
from nearfar.plots.palette import contrast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

MOST_NAMED = 150  # groups, the largest
_LINE, _LONGEST, _LINES = 16, 26, 3  # letters of a usual line and of the longest, and lines
_SIZES = ((12, 9.0, 13.0), (30, 8.0, 11.5), (60, 6.5, 9.5), (MOST_NAMED, 5.5, 8.5))  # points, of up to so many names
_OF_PART = 0.82  # of the size, for a second name
_CELL = 4.0  # points: a side of a cell of the grid
_PAD = 2.0  # points, around a name
_MARGINS = (0.04, 0.08, 0.12, 0.16, 0.20)  # share of the picture on either side of the points
_NO_ROOM, _MARGIN_COST = 20.0, 1.5  # of a name without a place, and of a margin as wide as the picture
_SHRINK, _SMALLEST = 0.85, 4.5  # of the letters where there is no room, and points
_HIDES, _HIDES_OWN, _AWAY, _CROSSES = 5.0, 3.0, 1 / 50, 2.0  # costs: of covering others, own, a point away, a line
_NEAR, _ACROSS = 0.7, 2.0  # costs: of being beside others, of lying half on one's own
_LEADS, _OVER = 0.8, 0.4  # costs: of a line, of each cell of others below it
_MAY_HIDE = 0.12  # share of its own group that a name may hide
_LOOKED_AT, _ROUNDS = 300, 2  # places for which lines are looked at, and times that all names look again
_FAINT, _WHOLE = 0.08, 60.0  # weight of points without a group, and of a whole group, beside that of a cell
_STEPS = 40  # along a line, at which the ink below it is looked at
_BESIDE = 2  # cells between a name and its group, up to which no line is needed
_LED = 7.0  # points away, from which a line leads to the group
_INK = 4.5  # contrast of names on white


@dataclass(eq=False)
class _Name:
    """A name to be placed, all in points from the lower left of the axes."""

    text: Text
    part: Part
    colour: Doubles
    box: Doubles  # width and height
    anchor: Doubles
    centre: Doubles | None = None
    cost: float = np.inf
    touches: bool = False  # its group, and so needs no line

    @property
    def line(self) -> tuple[Doubles, Doubles] | None:
        """From the edge of the name to its group, if it is away."""
        if self.centre is None or self.touches:
            return None
        start = np.clip(self.anchor, self.centre - self.box / 2, self.centre + self.box / 2)
        return (start, self.anchor) if np.hypot(*(self.anchor - start)) > _LED else None


def wrapped(name: str) -> str:
    """Return a name in up to three lines of about equal length, cut off after that."""
    pieces = [piece for piece in re.findall(r"\s*[^\s_/-]{1,20}[_/-]*|\s*[_/-]+", name.strip()) if piece.strip()]
    total = sum(map(_width, pieces))
    count = min(_LINES, -(-total // _LINE))
    for room in range(-(-total // max(count, 1)), _LONGEST + 1):
        lines = _lines(pieces, room)
        if len(lines) <= count:
            return "\n".join(lines)
    lines = _lines(pieces, _LONGEST)
    return "\n".join(lines[:_LINES]) + " …" * (len(lines) > _LINES)


def in_legend(names: list[str], most: int) -> list[str]:
    """Return names as a legend has room for them: long ones in lines, of more than so many lines the first alone."""
    texts = [name if _width(name) <= _LONGEST else wrapped(name) for name in names]
    if sum(text.count("\n") + 1 for text in texts) <= most:
        return texts
    return [first + " …" * bool(more) for first, more, _ in (text.partition("\n") for text in texts)]


def _lines(pieces: list[str], room: int) -> list[str]:
    lines = [""]
    for piece in pieces:
        if lines[-1] and _width(lines[-1]) + _width(piece) > room:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return lines


def _width(text: str) -> int:
    """Return how many letters wide a text is; those of Chinese count twice."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def draw_names(
    axes: Axes, xy: Doubles, groups: Groups, parts: list[Part], colours: Doubles, box: tuple[Doubles, Doubles]
) -> list[str]:
    """Set the limits of the axes so that the names have room, write them, and return those that have none.

    Parameters
    ----------
    axes : Axes
        With the size that they will have.
    xy : ndarray, shape (n, 2)
    groups : Groups
    parts : list of Part
        What is to be named.
    colours : ndarray, shape (n_groups, 3)
    box : two ndarrays of shape (2,)
        The lower left and the upper right of what is to be seen.
    """
    figure = axes.figure.canvas.figure
    frame = axes.get_window_extent().get_points() * 72 / figure.dpi
    room: Doubles = frame[1] - frame[0]
    names = _names(axes, groups, parts, colours, float(np.clip(np.sqrt(room.prod() / (450 * 330)), 0.55, 1.0)))
    while True:
        for name in names:
            extent = name.text.get_window_extent()
            name.box = np.array([extent.width, extent.height]) * 72 / figure.dpi + 2 * _PAD
        low, scale = _arrange(names, xy, groups, box, room)
        if all(name.centre is not None for name in names) or float(names[0].text.get_fontsize()) * _SHRINK <= _SMALLEST:
            break
        for name in names:
            name.text.set_fontsize(float(name.text.get_fontsize()) * _SHRINK)
    _write(axes, names, low, scale)
    show_box(axes, low, low + room / scale)
    return [groups.names[name.part.group] for name in names if name.centre is None and name.part.first]


def _arrange(
    names: list[_Name], xy: Doubles, groups: Groups, box: tuple[Doubles, Doubles], room: Doubles
) -> tuple[Doubles, float]:
    """Place names with the margin that suits them best, wider ones only while they get better; return the view."""
    least, best = np.inf, _view(box, room, _MARGINS[0])
    places: list[_Name] = []
    for margin in _MARGINS:
        view = _view(box, room, margin)
        _place(names, xy, groups, view, room)
        cost = float(np.mean([min(name.cost, _NO_ROOM) for name in names])) + _MARGIN_COST * margin
        if cost >= least:
            break
        best, least, places = view, cost, [replace(name) for name in names]
    names[:] = places
    return best


def _names(axes: Axes, groups: Groups, parts: list[Part], colours: Doubles, factor: float) -> list[_Name]:
    from matplotlib.patheffects import withStroke

    smallest, largest = next(sizes for most, *sizes in _SIZES if len(colours) <= most or most == MOST_NAMED)
    most = max(int(groups.sizes.max()), 1)
    names = []
    for part in parts:
        size = factor * (smallest + (largest - smallest) * np.sqrt(groups.sizes[part.group] / most))
        text = axes.text(
            0,
            0,
            wrapped(groups.names[part.group]),
            color=ink_of(colours[part.group]),
            fontsize=size if part.first else _OF_PART * size,
            weight="bold" if part.first else "normal",
            ha="center",
            va="center",
            linespacing=1.05,
            zorder=5,
            clip_on=False,
        )
        text.set_in_layout(False)
        as_written(text).set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        names.append(_Name(text, part, colours[part.group], np.zeros(2), np.zeros(2)))
    names.sort(key=lambda name: (not name.part.first, -name.part.size))
    return names


def ink_of(colour: Doubles) -> Doubles:
    """Return a colour dark enough to read."""
    while contrast(colour) < _INK:
        colour = 0.94 * colour
    return colour


def show_box(axes: Axes, low: Doubles, high: Doubles) -> None:
    """Let axes show all from the lower left to the upper right; limits set for good would not bend to the shape."""
    axes.margins(0)
    axes.dataLim.set_points(np.array([low, high]))
    axes.autoscale_view()


def _view(box: tuple[Doubles, Doubles], room: Doubles, margin: float) -> tuple[Doubles, float]:
    """Return the lower left of the picture, and the scale, with a margin around what is to be seen."""
    low, high = box
    span = high - low
    scale = float((room * (1 - 2 * margin) / np.maximum(span, 1e-9 * float(span.max()) or 1.0)).min())
    return (low + high) / 2 - room / scale / 2, scale


# The search for places, on a grid of cells.


class _Own(NamedTuple):
    """Where the group of a name is.

    Parameters
    ----------
    cells : ndarray
        1 in each cell with points of the group.
    weight : float
        Of a cell: those of a small group weigh more.
    sums : ndarray
        Of the cells, with a margin, see :func:`_sums`.
    filled : ndarray
        Of the cells among its points, too.
    """

    cells: Doubles
    weight: float
    sums: Doubles
    filled: Doubles

    @classmethod
    def of(cls, at: Longs, shape: tuple[int, ...]) -> _Own:
        """Return that of points in some cells."""
        cells = np.zeros(shape)
        cells[tuple(at.T)] = 1.0
        padded = np.pad(cells, _BESIDE)
        near = np.ones((2 * _BESIDE + 1, 2 * _BESIDE + 1), np.bool_)
        filled = binary_closing(padded > 0, near)[_BESIDE:-_BESIDE, _BESIDE:-_BESIDE]
        return cls(cells, 1 + _WHOLE / max(cells.sum(), 1.0), _sums(padded), _sums(filled.astype(np.float64)))


def _place(names: list[_Name], xy: Doubles, groups: Groups, view: tuple[Doubles, float], room: Doubles) -> None:
    low, scale = view
    shape = tuple(np.maximum(np.ceil(room / _CELL).astype(int), 1).tolist())
    at = np.floor((xy - low) * scale / _CELL)
    inside = ((at >= 0) & (at < shape)).all(axis=1)
    cells, codes = at[inside].astype(np.int64), groups.codes[inside]
    inked = np.zeros(shape)
    inked[tuple(cells[codes < 0].T)] = _FAINT
    own: dict[int, _Own] = {}
    for name in names:
        group = name.part.group
        name.anchor, name.centre, name.cost = (name.part.place - low) * scale, None, np.inf
        if group not in own:
            own[group] = _Own.of(cells[codes == group], shape)
            inked = np.maximum(inked, own[group].weight * own[group].cells)
    alone = []
    for name in names:
        mine = own[name.part.group]
        alone.append(_Costs.of(name, np.maximum(inked - mine.weight * mine.cells, 0), mine, room))
    for _ in range(1 + _ROUNDS):
        before = _centres(names)
        for name, costs in zip(names, alone, strict=True):
            name.centre = None
            if costs is not None:
                _find_place(name, names, costs)
        if np.array_equal(before, _centres(names), equal_nan=True):
            break


def _centres(names: list[_Name]) -> Doubles:
    """Return where names are, NaN where they have no place, shape (n_names, 2)."""
    return np.array([(np.nan, np.nan) if name.centre is None else name.centre for name in names])


def _sums(cells: Doubles) -> Doubles:
    """Return the sum of what is below and left of each corner of the grid."""
    sums = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1))
    sums[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
    return sums


def _within(sums: Doubles, width: int, height: int) -> Doubles:
    """Return the sum within a box, for each of its places on the grid."""
    return sums[width:, height:] - sums[:-width, height:] - sums[width:, :-height] + sums[:-width, :-height]


class _Costs(NamedTuple):
    """What the places of a name cost, whatever is beside them.

    Parameters
    ----------
    ink : ndarray
        Of other groups, in each cell.
    cells : tuple of int
        Width and height of the name.
    across, up : ndarray
        Centres of the places, in points.
    beside : ndarray
        Cells of the own group that the name would be on or beside, at each place.
    cost : ndarray
        Infinite where the name would be cut off.
    """

    ink: Doubles
    cells: tuple[int, int]
    across: Doubles
    up: Doubles
    beside: Doubles
    cost: Doubles

    @classmethod
    def of(cls, name: _Name, ink: Doubles, own: _Own, room: Doubles) -> _Costs | None:
        """Return those of a name, None where it has no room at all."""
        (width, height), shape = np.ceil(name.box / _CELL).astype(int).tolist(), ink.shape
        if width > shape[0] or height > shape[1]:
            return None
        beside = _within(own.sums, width + 2 * _BESIDE, height + 2 * _BESIDE)
        mine = _within(own.sums[_BESIDE:-_BESIDE, _BESIDE:-_BESIDE], width, height)
        across = ((np.arange(mine.shape[0]) + width / 2) * _CELL)[:, None]
        up = ((np.arange(mine.shape[1]) + height / 2) * _CELL)[None, :]
        sideways = np.maximum(abs(across - name.anchor[0]) - name.box[0] / 2, 0)
        above = np.maximum(abs(up - name.anchor[1]) - name.box[1] / 2, 0)
        around = _within(_sums(np.pad(ink, _BESIDE)), width + 2 * _BESIDE, height + 2 * _BESIDE)
        cost = (_HIDES * _within(_sums(ink), width, height) + _NEAR * around) / (width * height)
        share = np.clip(mine / max(own.sums[-1, -1], 1.0), 0, 1)
        cost += _HIDES_OWN * (np.sqrt(share) + 2 * np.maximum(share - _MAY_HIDE, 0))  # well inside, or beside it
        part_on = _within(own.filled, width, height) / (width * height)
        cost += 4 * _ACROSS * part_on * (1 - part_on)
        cost += _AWAY * np.hypot(sideways, above)
        cost += 0.3 * np.hypot((across - name.anchor[0]) / name.box[0], (up - name.anchor[1]) / name.box[1]).clip(0, 1)
        cost[(across + name.box[0] / 2 > room[0]) | (up + name.box[1] / 2 > room[1])] = np.inf
        return cls(ink, (width, height), across, up, beside, cost)


def _find_place(name: _Name, names: list[_Name], costs: _Costs) -> None:
    """Give a name the place that costs least, beside the places of the others and the ink of other groups."""
    others = [other for other in names if other is not name and other.centre is not None]
    cost = costs.cost.copy()
    for other in others:
        assert other.centre is not None
        first = np.floor((other.centre - other.box / 2) / _CELL + 1e-6).astype(np.int64) - costs.cells + 1
        last = np.ceil((other.centre + other.box / 2) / _CELL - 1e-6).astype(np.int64)
        cost[max(first[0], 0) : last[0], max(first[1], 0) : last[1]] = np.inf  # what would lie on it
    flat = cost.ravel()
    best = np.argpartition(flat, min(_LOOKED_AT, flat.size - 1))[:_LOOKED_AT]
    best = best[np.isfinite(flat[best])]
    if not best.size:
        return
    x, y = np.unravel_index(best, cost.shape)
    centres = np.column_stack([costs.across[x, 0], costs.up[0, y]])
    touching = costs.beside[x, y] > 0.5
    total = flat[best] + _CROSSES * _crossings(name, centres, touching, others)
    total += np.where(touching, 0.0, _LEADS + _OVER * _passed(name, centres, costs.ink))
    at = int(total.argmin())
    name.centre, name.cost, name.touches = centres[at], float(total[at]), bool(touching[at])


def _crossings(name: _Name, centres: Doubles, touching: Flags, others: list[_Name]) -> Doubles:
    """Return how many lines and names a name at each of some places would cross, shape (n_places,)."""
    if not others:
        return np.zeros(len(centres))
    starts = np.clip(name.anchor, centres - name.box / 2, centres + name.box / 2)[:, None]
    led = (~touching & (np.hypot(*(name.anchor - starts[:, 0]).T) > _LED))[:, None]
    theirs = np.array([other.centre for other in others])
    boxes = np.array([other.box for other in others])
    crossed = led & _meet_box(starts, name.anchor, theirs, boxes)
    count: Doubles = crossed.sum(axis=1).astype(np.float64)
    lines = np.array([other.line for other in others if other.line is not None]).reshape(-1, 2, 2)
    count += _meet_box(lines[:, 0], lines[:, 1], centres[:, None], name.box).sum(axis=1)
    count += (led & _meet(starts, name.anchor, lines[:, 0], lines[:, 1])).sum(axis=1)
    return count


def _passed(name: _Name, centres: Doubles, ink: Doubles) -> Doubles:
    """Return how much ink lies under the line to its group from a name at each of some places, shape (n_places,)."""
    starts = np.clip(name.anchor, centres - name.box / 2, centres + name.box / 2)
    way = name.anchor - starts
    steps = (np.arange(_STEPS) + 0.5) / _STEPS
    at = np.floor((starts[:, None] + steps[:, None] * way[:, None]) / _CELL).astype(np.int64)
    x, y = np.clip(at, 0, np.array(ink.shape) - 1).transpose(2, 0, 1)
    return ink[x, y].mean(axis=1) * np.hypot(*way.T) / _CELL


def _meet_box(start: Doubles, end: Doubles, centre: Doubles, box: Doubles) -> Flags:
    """Whether lines meet boxes, by where the line enters and leaves the stripes of the box."""
    way = np.asarray(end - start)
    way = np.where(abs(way) < 1e-9, 1e-9, way)
    one, other = (centre - box / 2 - start) / way, (centre + box / 2 - start) / way
    enters = np.minimum(one, other)
    leaves = np.maximum(one, other)
    first, last = np.maximum(enters[..., 0], enters[..., 1]), np.minimum(leaves[..., 0], leaves[..., 1])
    return np.asarray((first < last) & (last > 0) & (first < 1))


def _meet(starts: Doubles, end: Doubles, start: Doubles, stop: Doubles) -> Flags:
    """Whether lines to one end cross other lines."""
    apart = _side(starts, end, start) * _side(starts, end, stop) < 0
    return np.asarray(apart & (_side(start, stop, starts) * _side(start, stop, end) < 0))


def _side(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """Return more than 0 where c is on the left of the way from a to b."""
    way, to = b - a, c - a
    return way[..., 0] * to[..., 1] - way[..., 1] * to[..., 0]


def _write(axes: Axes, names: list[_Name], low: Doubles, scale: float) -> None:
    """Put the names to their places, and draw the lines to their groups."""
    from matplotlib.patheffects import withStroke

    for name in names:
        if name.centre is None:
            name.text.remove()
            continue
        name.text.set_position(tuple((low + name.centre / scale).tolist()))
        line = name.line
        if line is not None:
            ends = low + np.array(line) / scale
            [drawn] = axes.plot(*ends.T, color=ink_of(name.colour), lw=0.7, zorder=4, solid_capstyle="round")
            drawn.set_path_effects([withStroke(linewidth=2.2, foreground=(1, 1, 1, 0.8))])
            drawn.set_in_layout(False)
            axes.plot(*ends[1], "o", color=ink_of(name.colour), ms=2.4, mec="white", mew=0.5, zorder=4.5)


# -- text of the user: as it is written, in the fonts that matplotlib knows --------------------------------------------


# Families that have many scripts, for letters that those of the picture lack.
_MANY_SCRIPTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei"),
    *("SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Malgun Gothic", "Yu Gothic"),
    *("Apple SD Gothic Neo", "Arial Unicode MS", "Nirmala UI", "Noto Sans", "Segoe UI", "FreeSans", "DejaVu Sans"),
)
_BOX = "\u25a1"  # for a letter that no font has


def as_written(text: Text) -> Text:
    """Return a text of a picture that comes from the user, in which $ is no sign of mathematics."""
    text.set_parse_math(False)
    shown, families = shown_in(text.get_text(), text.get_fontfamily())
    text.set_fontfamily(families)
    text.set_text(shown)
    return text


def shown_in(text: str, families: list[str]) -> tuple[str, list[str]]:
    """Return a text, and families of fonts, these first, that have its letters; one that none has becomes a box.

    Half a character, which is in no font, becomes a question mark.
    """
    shown = text.encode("utf-8", "replace").decode()
    lacking = frozenset(filter(str.isprintable, shown)) - _letters_of(families)
    if lacking:
        families = [*families, *_others()]
        lacking -= _letters_of(families)
    if lacking:
        warn_once(
            "Some letters are in no font that matplotlib knows: boxes are drawn. Install one that has them, such as"
            " Noto Sans CJK for Chinese, or name one in matplotlib's font.family."
        )
    return "".join(_BOX if letter in lacking else letter for letter in shown), families


def _letters_of(families: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*map(_letters_of_one, families))


@lru_cache(maxsize=32)  # those of a font for Chinese take some MB
def _letters_of_one(family: str) -> frozenset[str]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(map(chr, get_font(findfont(FontProperties(family=[family]))).get_charmap()))


@cache
def _others() -> list[str]:
    from matplotlib.font_manager import fontManager

    return [family for family in _MANY_SCRIPTS if family in fontManager.get_font_names()]
