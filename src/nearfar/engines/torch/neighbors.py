"""Nearest neighbours and their calibration in torch, a block of rows at a time, on a device.

Every row is compared with every other. Probabilities are those of :func:`nearfar.relations.affinities.calibrate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar.engines.torch import device_of, room, to_device

_TILE = 1 << 24  # distances that are held together, in float64
_SPARE = 8  # candidates beyond k: products find them, direct distances put them in order


def nearest(
    owner: str, device: object, X: NDArray[np.floating], k: int, argument: str = "device"
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
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


def calibrated(
    owner: str, device: object, distances: NDArray[np.generic], perplexity: float, like: tuple[int, float]
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Return weights, precisions and dimensions of rows of distances.

    ``like`` are the steps that ``calibrate`` takes at most, and the exponent at which a number vanishes.
    """
    place, (n, k) = device_of(owner, device), distances.shape
    weights, betas, dimensions = np.empty((n, k), np.float32), np.empty(n), np.empty(n)
    size = max(1, _TILE // k)
    with room(owner, place), torch.no_grad():
        for start in range(0, n, size):
            rows = slice(start, start + size)
            found = _calibrated(to_device(distances[rows], place).double(), perplexity, *like)
            weights[rows], betas[rows], dimensions[rows] = (part.cpu().numpy() for part in found)
    return weights, betas, dimensions


def _calibrated(r: Tensor, perplexity: float, steps: int, vanishes: float) -> tuple[Tensor, Tensor, Tensor]:
    nearest, k = r.amin(1, keepdim=True), r.shape[1]
    gaps = (r - nearest) * (r + nearest)
    means = gaps.mean(1)
    means = torch.where(means == 0, 1, means)
    gaps /= means[:, None]
    ties = (gaps == 0).sum(1)
    alone, between = (ties < k) & (ties >= perplexity), (ties < perplexity) & (perplexity < k)
    least = torch.where(gaps > 0, gaps, torch.inf).amin(1)
    betas = torch.where(alone, vanishes / least, torch.where(between, _newton(gaps, between, perplexity, steps), 0))
    weights, totals, _, variances = _moments(gaps, betas)
    return (weights / totals[:, None]).float(), betas / means, 2 * betas * betas * variances


def _newton(gaps: Tensor, wanted: Tensor, perplexity: float, steps: int) -> Tensor:
    """Return the beta of each wanted row; whether one of them still moves comes back after each step."""
    t = gaps.new_zeros(len(gaps))
    low, high = torch.full_like(t, -torch.inf), torch.full_like(t, torch.inf)
    moving = wanted
    for _ in range(steps):
        if not bool(moving.any()):
            break
        beta = t.exp()
        _, totals, means, variances = _moments(gaps, beta)
        excess = totals.log() + beta * means - math.log(perplexity)
        low, high = torch.where(excess > 0, t, low), torch.where(excess > 0, high, t)
        slope = beta * beta * variances
        step = torch.where(slope > 0, excess / slope, torch.copysign(torch.full_like(t, 2.0), excess))
        after = t + step.clamp(-2, 2)
        after = torch.where((low < after) & (after < high), after, (low + high) / 2)
        moving = moving & (excess.abs() >= 1e-12) & (after != t)
        t = torch.where(moving, after, t)
    return t.exp()


def _moments(gaps: Tensor, betas: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return exp(-beta g), its sum, and the mean and variance of g under these weights, row by row."""
    weights = (gaps * -betas[:, None]).exp_()
    totals = weights.sum(1)
    means = (weights * gaps).sum(1) / totals
    squares = (weights * gaps * gaps).sum(1) / totals
    return weights, totals, means, (squares - means * means).clamp(min=0)
