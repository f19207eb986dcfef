"""Nearest neighbours in torch: every row against every other, a block of rows at a time, on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearfar.engines.torch import device_of, room, to_device

_TILE = 1 << 24  # distances that are held together, in float64
_SPARE = 8  # candidates beyond k: products find them, direct distances put them in order


def nearest(
    owner: str, device: object, X: NDArray[np.floating[Any]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the k nearest other rows of each row and their squared distances, in no order: a few more than k.

    Candidates come from products in float64 of centred rows; their distances are then measured directly.
    """
    place, n = device_of(owner, device), len(X)
    taken = min(k + _SPARE, n - 1)
    indices, squares = np.empty((n, taken), np.int64), np.empty((n, taken))
    with room(owner, place), torch.no_grad():
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
            indices[start : start + size] = found.cpu().numpy()
            squares[start : start + size] = (between * between).sum(2).cpu().numpy()
    return indices, squares
