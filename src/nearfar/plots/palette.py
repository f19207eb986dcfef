"""Colours of groups and of values: one palette for pictures and pages.

Distances between colours are those of Oklab (Ottosson 2020), in which 0.02 is about the least that is seen. Every
colour has a contrast of 3 at least on white, and its companion on the dark page there.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from nearfar._core.types import Doubles, Flags, Longs

# First Okabe & Ito's colours, with the pale ones darkened; the others lie far from all before.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B88700", "#3A9BDB"),
    *("#5B3A1E", "#8F70EF", "#3B7A1E", "#AF1818", "#004868", "#C23FB8"),
)
GREY = "#BBBBBB"  # of points without a group
SCALE = ("#440154", "#472D7B", "#3B528B", "#2C728E", "#21918C", "#28AE80", "#5EC962", "#ADDC30", "#FDE725")  # viridis
LIGHT_END = 8  # colours of the scale that are seen on white
MOST = 120  # colours; of more groups some have the same, far from each other
BACKS = ("#FFFFFF", "#14171B")  # behind the points: of pictures and the light page, and of the dark one
_CONTRAST = 3.05
_ROUNDS, _NEAR = 8, 5  # of exchanges; nearest groups that must not look alike

_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def rgb_of(colour: str) -> Doubles:
    """Return red, green and blue, in [0, 1], of ``#rrggbb``."""
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255


def hex_of(colours: Doubles) -> list[str]:
    """Return colours, shape (n, 3), as ``#rrggbb``."""
    return ["#{:02X}{:02X}{:02X}".format(*row) for row in np.rint(255 * colours).astype(int).tolist()]


def oklab(colours: Doubles) -> Doubles:
    """Return lightness, green to red and blue to yellow of colours, shape (..., 3)."""
    return np.cbrt(_linear(colours) @ _CONES.T) @ _LAB.T


def contrast(colours: Doubles, behind: str = BACKS[0]) -> Doubles:
    """Return the contrast of colours, shape (..., 3), with what is behind them, as the WCAG define it."""
    shares = np.array([0.2126, 0.7152, 0.0722])
    one, other = _linear(colours) @ shares, float(_linear(rgb_of(behind)) @ shares)
    return (np.maximum(one, other) + 0.05) / (np.minimum(one, other) + 0.05)


def _linear(colours: Doubles) -> Doubles:
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def _of_oklch(lightness: Doubles, chroma: Doubles, hue: Doubles) -> tuple[Doubles, Flags]:
    """Return colours of given lightness, chroma and hue, and which of them screens can show."""
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
    linear = (lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_CONES).T
    shown = ((linear >= -1e-9) & (linear <= 1 + 1e-9)).all(axis=-1)
    linear = np.clip(linear, 0, 1)
    colours: Doubles = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return colours, np.asarray(shown)


def _on_dark(colours: Doubles) -> Doubles:
    """Return lighter colours of the same hue, shape (n, 3)."""
    lab = oklab(colours)
    chroma, hue = np.hypot(lab[:, 1], lab[:, 2]), np.arctan2(lab[:, 2], lab[:, 1])
    for _ in range(60):  # less chroma, until screens can show it
        found, shown = _of_oklch(lab[:, 0] + 0.19, chroma, hue)
        if shown.all():
            break
        chroma = np.where(shown, chroma, 0.95 * chroma)
    return found


@cache
def _far_apart(count: int, dark: bool) -> Doubles:
    """Return this many colours, each as far as can be from those before, in the order of their hues."""
    lightness = np.linspace(0.52, 0.88, 19) if dark else np.linspace(0.36, 0.70, 18)
    axes = (lightness, np.linspace(0.09, 0.26, 10), np.radians(np.arange(0, 360, 4)))
    colours, shown = _of_oklch(*(axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")))
    colours = colours[shown & (contrast(colours, BACKS[dark]) >= _CONTRAST)]
    lab = oklab(colours)
    taken = [int(np.linalg.norm(lab - oklab(rgb_of(COLOURS[0])), axis=1).argmin())]
    gaps = np.linalg.norm(lab - lab[taken[0]], axis=1)
    while len(taken) < count:
        taken.append(int(gaps.argmax()))
        gaps = np.minimum(gaps, np.linalg.norm(lab - lab[taken[-1]], axis=1))
    hues = np.arctan2(lab[taken, 2], lab[taken, 1])
    return colours[np.array(taken)[np.argsort(hues, kind="stable")]]


def colours_of_groups(centres: Doubles, *, dark: bool = False) -> Doubles:
    """Return a colour for each group, shape (n, 3).

    Up to twelve groups have fixed colours, in their order. Of more the hue goes by the direction from the middle of the
    map, and neighbours exchange colours where these look alike.

    Parameters
    ----------
    centres : ndarray, shape (n, 2)
        Where the groups are on the map.
    dark : bool, default=False
        For the dark page.
    """
    n = len(centres)
    if n <= len(COLOURS):
        fixed = np.array([rgb_of(colour) for colour in COLOURS[:n]]).reshape(n, 3)
        return _on_dark(fixed) if dark else fixed
    colours = _far_apart(min(n, MOST), dark)
    away = centres - np.median(centres, axis=0)
    around = np.argsort(np.arctan2(away[:, 1], away[:, 0]), kind="stable")
    of_group = np.empty(n, np.int64)
    of_group[around] = np.arange(n) * len(colours) // n
    if n <= 4 * MOST:
        _exchange(of_group, around, oklab(colours), centres)
    return colours[of_group]


def _exchange(of_group: Longs, around: Longs, lab: Doubles, centres: Doubles) -> None:
    """Let groups of like direction exchange colours while that makes near ones more different."""
    n = len(of_group)
    away = np.linalg.norm(centres[:, None] - centres, axis=2)
    near = np.zeros((n, n))  # 1 for the nearest groups, in either direction
    np.put_along_axis(near, np.argsort(away, axis=1, kind="stable")[:, 1 : _NEAR + 1], 1.0, axis=1)
    near = np.maximum(near, near.T)
    np.fill_diagonal(near, 0.0)
    alike = 1 / (((lab[:, None] - lab) ** 2).sum(axis=2) + 1e-3)
    start, reach = of_group.copy(), max(2, n // 7)

    def strays(group: int, colour: int) -> bool:  # too far from the colour of its direction
        away = abs(int(start[group]) - colour)
        return min(away, len(lab) - away) > reach * len(lab) // n

    for _ in range(_ROUNDS):
        changed = False
        for at in range(n):
            for step in range(1, 2 * reach):
                one, other = int(around[at]), int(around[(at + step) % n])
                mine, theirs = int(of_group[one]), int(of_group[other])
                if mine == theirs or strays(one, theirs) or strays(other, mine):
                    continue
                gain = (near[one] - near[other]) * (alike[mine] - alike[theirs])[of_group]
                gain[[one, other]] = 0.0  # their own pair stays as it is
                if gain.sum() > 1e-9:
                    of_group[one], of_group[other] = theirs, mine
                    changed = True
        if not changed:
            break
