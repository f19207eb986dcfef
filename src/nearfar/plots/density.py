"""Where points are dense: soft contours behind groups, and of very many points a picture of their density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter, label
from scipy.spatial import cKDTree

from nearfar._core.types import Doubles, Flags, Longs, Singles
from nearfar.plots.groups import connected, in_unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PIXELS = 1100  # of the longer side
_FAINTEST = 0.4  # opacity of a single point
_FULL = 0.995  # quantile, over the pixels with points, of the number from which a pixel is opaque
_GRID, _EDGE = 320, 20  # cells of the longer side, and around it, of the density of a group
_BREADTH = (1.2, 4.5)  # cells: the narrowest and the widest kernel
_ISLAND = 0.05  # share of a group from which what lies apart has a contour
_NEAREST, _ASKED = 5, 400  # of a piece: neighbours at least, and points, by which its width is told
_SHARES = (0.95, 0.6)  # of the points of a group within its contours
_FILLS = (0.10, 0.13)  # opacity of what is within
_LEAST = 20  # points of a group with contours


def draw_contours(axes: Axes, xy: Doubles, rows_of_groups: list[Longs], colours: Doubles) -> None:
    """Draw behind each group in which places most of its points are: the smallest with 60 and with 95 % of them."""
    scaled, low, side = in_unit_square(xy)
    at = np.minimum(scaled * _GRID, _GRID - 1).astype(np.int64)
    for rows, colour in zip(rows_of_groups, colours, strict=True):
        if len(rows) < _LEAST:
            continue
        first = at[rows].min(axis=0) - _EDGE
        across, up = (at[rows].max(axis=0) + _EDGE + 1 - first).tolist()
        x, y = (at[rows] - first).T
        density = np.zeros((up, across))
        for piece, breadth in _pieces(scaled[rows] * _GRID):
            counts = np.bincount((y * across + x)[piece], minlength=up * across).reshape(up, across)
            density += gaussian_filter(counts.astype(np.float64), breadth)
        ranked = np.sort(density, axis=None)[::-1]  # above each level lies a share of the points
        within = np.cumsum(ranked) / max(density.sum(), 1e-300)
        levels = [float(ranked[min(int(np.searchsorted(within, share)), ranked.size - 1)]) for share in _SHARES]
        _leave_out_islands(density, levels[0])
        if levels[0] < levels[1] < density.max():
            fills = [(*colour, alpha) for alpha in _FILLS]
            place = [low[c] + (first[c] + np.arange(size) + 0.5) / _GRID * side for c, size in enumerate((across, up))]
            axes.contourf(*place, density, [*levels, 1.01 * density.max()], colors=fills, zorder=0.5)
            axes.contour(*place, density, levels[:1], colors=[(*colour, 0.45)], linewidths=0.7, zorder=0.6)


def _pieces(cells: Doubles) -> list[tuple[Flags, float]]:
    """Return the pieces of a group, each with the breadth of its kernel; what lies around them goes with the largest.

    The kernel is a little less wide than Scott (1992) advises. The width of a piece is told by the way to its nearest
    points, 5 % of them: among those of a Gaussian half are farther away than ``2 sigma sqrt(0.05)``.
    """
    of_point, sizes = connected((cells - cells.min(axis=0)) / (float(np.ptp(cells, axis=0).max()) or 1.0))
    large = [part for part in np.argsort(-sizes, kind="stable").tolist() if sizes[part] >= _ISLAND * len(cells)]
    pieces = []
    for part in large or [-1]:
        mine = of_point == part
        some = cells[mine][:: -(-int(mine.sum()) // _ASKED)]
        k = min(max(_NEAREST, round(_ISLAND * len(some))), len(some) - 1)
        away = np.asarray(cKDTree(some).query(some, [k + 1])[0])
        width = float(np.median(away)) / (2 * np.sqrt(k / len(some)))
        pieces.append((mine, float(np.clip(0.8 * width * mine.sum() ** (-1 / 6), *_BREADTH))))
    pieces[0] = pieces[0][0] | ~np.isin(of_point, large), pieces[0][1]
    return pieces


def _leave_out_islands(density: Doubles, level: float) -> None:
    """Set to 0 what is above a level around few points, apart from the others."""
    parts = np.zeros(density.shape, np.int64)
    count = int(label(density > level, np.ones((3, 3)), output=parts))
    sums = np.bincount(parts.ravel(), density.ravel(), minlength=count + 1)
    small = sums < _ISLAND * density.sum()
    small[0] = False
    density[small[parts]] = 0.0


# A map of very many points as a picture of their density: counts per pixel, the mean colour of the points there.
#
# Transparent dots fail where thousands lie on each other: dense places are all alike, and what is drawn last hides the
# rest. A pixel's colour is the mean over its points, and its opacity grows with the logarithm of their number.


def pixel_grid(xy: Doubles) -> tuple[Longs, tuple[int, int], tuple[float, float, float, float]]:
    """Return each point's pixel, the (height, width) in square pixels, and the extent of the picture in data units."""
    low, spans = xy.min(axis=0), np.ptp(xy, axis=0)
    side = float(spans.max()) / (_PIXELS - 4) or 1.0
    low = low - 2 * side  # a margin of two pixels
    width, height = (np.ceil(spans / side).astype(int) + 4).tolist()
    columns, rows = ((xy - low) / side).astype(np.int64).T
    extent = (low[0], low[0] + width * side, low[1], low[1] + height * side)
    return np.minimum(rows, height - 1) * width + np.minimum(columns, width - 1), (height, width), extent


def shade(pixels: Longs, shape: tuple[int, int], colours: Doubles) -> Singles:
    """Return the picture, shape (height, width, 4), of points with the given colours.

    Parameters
    ----------
    pixels : ndarray, shape (n,)
        Pixel of each point.
    shape : tuple
        Height and width.
    colours : ndarray, shape (n, 3) or (3,)
        Red, green, blue, in [0, 1].
    """
    size = shape[0] * shape[1]
    weights = [None, *(np.broadcast_to(colours[..., c], pixels.shape) for c in range(3))]
    layers = [np.bincount(pixels, weight, minlength=size) for weight in weights]
    counts, *sums = (_spread(layer.astype(np.float32).reshape(shape)) for layer in layers)
    picture = np.ones((*shape, 4), np.float32)
    picture[..., 3] = 0
    drawn = counts > 0
    for c in range(3):
        picture[drawn, c] = sums[c][drawn] / counts[drawn]
    full = max(float(np.quantile(counts[drawn], _FULL)), 1.0 + 1e-6)
    opacity = np.log1p(counts[drawn]) / np.log1p(full)
    picture[drawn, 3] = np.clip(_FAINTEST + (1 - _FAINTEST) * opacity, 0, 1)
    return picture


def _spread(layer: Singles) -> Singles:
    """Let each point cover the four neighbours of its pixel too, half as strongly."""
    spread = layer.copy()
    spread[1:] += layer[:-1] / 2
    spread[:-1] += layer[1:] / 2
    spread[:, 1:] += layer[:, :-1] / 2
    spread[:, :-1] += layer[:, 1:] / 2
    return spread
