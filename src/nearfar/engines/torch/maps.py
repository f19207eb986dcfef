"""New points of a map on a device: those of :mod:`nearfar.maps.transform`, many at once, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar.divergences.probability import Formulas, no_strength
from nearfar.engines.torch import plain, room, to_device
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import Kernel
from nearfar.maps.transform import ARMIJO, MEDIAN_STEPS, SHRINK, SMALLEST

_TILE = 1 << 24  # pairs of neighbours that are worked on together


# New points, see nearfar.maps.transform: the same looks at the same costs, of many points at once, in float64.

Limits = tuple[NDArray[np.float64], float, float, int]
"""The box of the map, the longest step, the tolerance, and how many looks there are."""


def place_rows(
    device: torch.device,
    owner: str,
    rows: Sequence[NDArray[np.generic]],
    points: NDArray[np.float64],
    kernel: Kernel,
    formulas: Formulas,
    limits: Limits,
    out: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Write the place of each row, as :func:`nearfar.maps.transform.place_rows`; return how many did not come to rest.

    ``rows`` are where the entries of each row begin, and of the entries the column, p, and what is prepared of p.
    """
    indptr, *entries = rows
    lengths, unfinished = np.diff(indptr), 0
    wanted = np.flatnonzero(lengths)
    out[lengths == 0] = points.mean(axis=1)
    with room(owner, device, "engine"), torch.no_grad():
        cost = _RowCost(to_device(points, device), kernel, formulas)
        size = max(1, _TILE // max(points.shape[1], points.shape[0] * int(lengths.max(initial=1))))
        for first in range(0, len(wanted), size):
            some = wanted[first : first + size]
            steps = np.arange(lengths[some].max())
            stored = steps < lengths[some][:, None]
            at = np.where(stored, indptr[some][:, None] + steps, 0)  # rows are filled up by what is not stored
            given = [to_device(part[at], device) for part in entries]
            there, moving = _placed(cost, [*given, to_device(stored, device)], limits)
            out[some], unfinished = there.cpu().numpy(), unfinished + moving
    return np.array([unfinished])


class _RowCost:
    """The cost of rows at some places, half its curvature, and its gradient."""

    def __init__(self, points: Tensor, kernel: Kernel, formulas: Formulas) -> None:
        self.points, self._formulas = points, formulas
        made = cast("KernelFormulas", kernel.formulas())
        self._log_weight, self._slope = plain(made.log_weight), plain(made.neg_log_slope)
        self._numbers = tuple(map(float, cast("tuple[float, ...]", made.parameters)))
        self._parameters = tuple(map(float, formulas.parameters))

    def __call__(self, x: Tensor, row: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        columns, p, fixed, prepared, stored = row
        b = float(self._formulas.far_log)
        f = torch.zeros((len(x), self.points.shape[1]), dtype=x.dtype, device=x.device)
        for own, others in zip(x.T, self.points, strict=True):
            f += (own[:, None] - others).square_()
        level, g = self._log_weight(f, *self._numbers), self._slope(f, *self._numbers)
        top = level.amax(1, keepdim=True)  # all weights may vanish where x is far from every point
        w = (level - top).exp()
        total = w.sum(1)
        log_total = total.log()
        log_s, negentropy, far = (
            top[:, 0] + log_total,
            torch.zeros_like(total),
            self._moments(x, w * g) / total[:, None],
        )
        if b:
            w *= level - top
            negentropy = w.sum(1) / total - log_total
            of_entropy = self._moments(x, w * g) / total[:, None] - log_total[:, None] * far
        offsets = x[:, None] - self.points.T[columns]
        f = (offsets * offsets).sum(2)
        log_q = self._log_weight(f, *self._numbers) - log_s[:, None]
        q = log_q.exp().clamp(min=SMALLEST)
        costs = plain(self._formulas.entry_cost)(p, q, log_q, *self._parameters)
        near = -fixed - plain(self._formulas.strength or no_strength)(prepared, q, *self._parameters)
        near, g = torch.where(stored, near, 0), self._slope(f, *self._numbers)
        mean = b * negentropy + near.sum(1)
        gradient = ((near * g)[:, :, None] * offsets).sum(1) - mean[:, None] * far
        if b:
            gradient += b * of_entropy
        value = self._formulas.constant + b * negentropy + torch.where(stored, costs, 0).sum(1)
        return value, 2 * torch.where(stored, p * g, 0).sum(1), -2 * gradient

    def _moments(self, x: Tensor, charges: Tensor) -> Tensor:
        """Return sum_j c_j (x - y_j)."""
        return x * charges.sum(1, keepdim=True) - charges @ self.points.T


def _placed(cost: _RowCost, row: list[Tensor], limits: Limits) -> tuple[Tensor, int]:
    """Return where rows come to rest, and how many still move after so many looks."""
    box, longest, tolerance, most = limits
    low, high = to_device(box, cost.points.device)
    starts = _starts(row, cost.points)
    m, d = starts.shape[1:]
    out, left, eye = torch.empty_like(starts[0]), torch.arange(m, device=low.device), torch.eye(d).to(low)
    x = gradient = step = y = starts[0]
    value, curvature, slope = low.new_full((m,), torch.inf), low.new_ones(m), low.new_zeros(m)
    inverse = eye.expand(m, d, d)
    moved = value
    for look in range(most):
        there, bending, ahead = cost(y, row)
        if look < len(starts):
            accepted = taken = there < value
        else:
            accepted = (there <= value + ARMIJO * slope) | (moved <= tolerance)
            taken = accepted & ~(there > value)  # a step of no length that leads up: nothing but rounding is left
            inverse = torch.where(taken[:, None, None], _updated(inverse, y - x, ahead - gradient), inverse)
        x, gradient = (torch.where(taken[:, None], new, old) for new, old in ((y, x), (ahead, gradient)))
        value, curvature = torch.where(taken, there, value), torch.where(taken, bending, curvature)
        if look + 1 < len(starts):
            y = starts[look + 1]
            continue
        if look < len(starts):
            inverse, accepted = eye / curvature[:, None, None], torch.ones_like(taken)
        else:
            moving = ~accepted | (taken & (moved > tolerance))
            out[left[~moving]] = x[~moving]
            row = [part[moving] for part in row]
            left, x, gradient, step, accepted = (part[moving] for part in (left, x, gradient, step, accepted))
            value, curvature, inverse = (part[moving] for part in (value, curvature, inverse))
            if not len(left):
                break
        held = ((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0))
        fresh, inverse = _quasi_newton(gradient, inverse, eye / curvature[:, None, None], ~held, longest)
        step = torch.where(accepted[:, None], fresh, SHRINK * step)
        y = (x + step).clamp(low, high)
        moved, slope = (y - x).abs().amax(1), (gradient * (y - x)).sum(1)
    out[left] = x
    return out, len(left)


def _starts(row: Sequence[Tensor], points: Tensor) -> Tensor:
    """Return where rows may start: the weighted mean of the neighbours, their weighted median, the first of them."""
    columns, p, _, _, stored = row
    shares = torch.where(stored, p, 0)
    around = points.T[columns]
    best = (shares == shares.amax(1, keepdim=True)).int().cumsum(1).eq(0).sum(1)  # the first of the likeliest
    mean = x = (shares[:, :, None] * around).sum(1)
    for _ in range(MEDIAN_STEPS):
        weights = shares / ((around - x[:, None]).square().sum(2) + 1e-12).sqrt()
        x = (weights[:, :, None] * around).sum(1) / weights.sum(1, keepdim=True)
    return torch.stack([mean, x, around[torch.arange(len(best), device=best.device), best]])


def _updated(inverse: Tensor, step: Tensor, change: Tensor) -> Tensor:
    """Return the inverse Hessian (BFGS) after a step and the change of the gradient along it, if that is convex."""
    change = torch.where(step != 0, change, 0)  # none of what the box holds
    along, square, length = (step * change).sum(1), change.square().sum(1), step.square().sum(1)
    convex = along > 1e-10 * (square * length).sqrt()
    along = torch.where(convex, along, 1)[:, None, None]
    turned = (inverse @ change[:, :, None])[:, :, 0]
    curved = (turned * change).sum(1)[:, None, None]
    both = turned[:, :, None] * step[:, None, :]
    moved = inverse + (1 + curved / along) * step[:, :, None] * step[:, None, :] / along - (both + both.mT) / along
    return torch.where(convex[:, None, None], moved, inverse)


def _quasi_newton(
    gradient: Tensor, inverse: Tensor, bowl: Tensor, free: Tensor, longest: float
) -> tuple[Tensor, Tensor]:
    """Return downhill steps, at most ``longest``, of what is free, and inverse Hessians: a bowl where one led up."""

    def steps(inverse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        step = torch.where(free, -(inverse @ (gradient * free)[:, :, None])[:, :, 0], 0)
        return step, (step * gradient).sum(1), step.square().sum(1)

    _, slope, square = steps(inverse)
    inverse = torch.where(((slope < 0) | (square == 0))[:, None, None], inverse, bowl)
    step, _, square = steps(inverse)
    shorter = torch.where(square > longest * longest, longest / square.sqrt(), 1)
    return step * shorter[:, None], inverse
