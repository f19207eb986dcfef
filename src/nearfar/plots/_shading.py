"""A map of very many points as a picture of their density: counts per pixel, the mean colour of the points there.

Transparent dots fail where thousands lie on each other: dense places are all alike, and what is drawn last hides the
rest. A pixel's colour is the mean over its points, and its opacity grows with the logarithm of their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_PIXELS = 1100  # of the longer side
_FAINTEST = 0.4  # opacity of a single point
_FULL = 0.995  # quantile, over the pixels with points, of the number from which a pixel is opaque


def pixel_grid(xy: NDArray[np.float64]) -> tuple[NDArray[np.int64], tuple[int, int], tuple[float, float, float, float]]:
    """Return each point's pixel, the (height, width) in square pixels, and the extent of the picture in data units."""
    low, spans = xy.min(axis=0), np.ptp(xy, axis=0)
    side = float(spans.max()) / (_PIXELS - 4) or 1.0
    low = low - 2 * side  # a margin of two pixels
    width, height = (np.ceil(spans / side).astype(int) + 4).tolist()
    columns, rows = ((xy - low) / side).astype(np.int64).T
    extent = (low[0], low[0] + width * side, low[1], low[1] + height * side)
    return np.minimum(rows, height - 1) * width + np.minimum(columns, width - 1), (height, width), extent


def shade(pixels: NDArray[np.int64], shape: tuple[int, int], colours: NDArray[Any]) -> NDArray[np.float32]:
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


def _spread(layer: NDArray[np.float32]) -> NDArray[np.float32]:
    """Let each point cover the four neighbours of its pixel too, half as strongly."""
    spread = layer.copy()
    spread[1:] += layer[:-1] / 2
    spread[:-1] += layer[1:] / 2
    spread[:, 1:] += layer[:, :-1] / 2
    spread[:, :-1] += layer[:, 1:] / 2
    return spread
