"""Nearest neighbours and their calibration in torch, a block of rows at a time, on a device.

Every row is compared with every other. Calibration is the formula of :mod:`nearfar.methods.affinities`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from nearfar._core.types import Doubles, Floats, Longs, Singles, of_tensors
from nearfar.engines.torch import device_of, room, to_device
from nearfar.methods import affinities

_TILE = 1 << 24  # distances that are held together, in float64
_SPARE = 8  # candidates beyond k: products find them, direct distances put them in order


def nearest(
    owner: str, device: object, X: Floats, k: int, argument: str = "device"
) -> Iterator[tuple[int, Longs, Doubles]]:
    """Yield the k nearest other rows of some rows and their squared distances, in no order: a few more than k.

    The number of the first of these rows comes with them. Candidates come from products in float64 of centred rows;
    their distances are then measured directly.
    """
    place, n = device_of(owner, device, argument), len(X)
    taken = min(k + _SPARE, n - 1)
    with room(owner, place, argument):
        points = to_device(X, place).double()
        points -= points.mean(0)
        lengths = (points * points).sum(1)
        size = max(1, _TILE // max(n, taken * X.shape[1]))
        for start in range(0, n, size):
            rows = points[start : start + size]
            values = torch.addmm(lengths[None], rows, points.T, alpha=-2)  # less the row's own length: the same order
            values.diagonal(start).fill_(torch.inf)
            found = values.topk(taken, dim=1, largest=False, sorted=False).indices
            between = points[found] - rows[:, None]
            yield start, found.cpu().numpy(), (between * between).sum(2).cpu().numpy()


def calibrated(device: object, distances: Floats, perplexity: float) -> tuple[Singles, Doubles, Doubles]:
    """Return weights, precisions and dimensions of rows of distances."""
    place, (n, k) = device_of("calibrate", device), distances.shape
    weights, betas, dimensions = np.empty((n, k), np.float32), np.empty(n), np.empty(n)
    size, formula = max(1, _TILE // k), of_tensors(affinities.calibrated)
    with room("calibrate", place), torch.no_grad():
        for start in range(0, n, size):
            rows = slice(start, start + size)
            found = formula(to_device(distances[rows], place), perplexity)
            weights[rows], betas[rows], dimensions[rows] = (part.cpu().numpy() for part in found)
    return weights, betas, dimensions
