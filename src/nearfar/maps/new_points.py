"""New points of a map, many at once: where each finds the lowest cost of its own row, all others held fixed.

The cost of a row and its gradient are those of :mod:`nearfar.maps.transform`. All rows look at their costs together, in
float64; each by itself, and what has come to rest is put aside.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Array, namespace_of
from nearfar.divergences.probability import Formulas, no_strength
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import plain

ARMIJO, SHRINK = 1e-4, 0.3
MEDIAN_STEPS = 10
SMALLEST = 1e-300  # what q is taken to be where it has vanished

Limits = tuple[NDArray[np.float64], float, float, int]
"""The box of the map, the longest step, the tolerance, and how many looks there are."""
Carry = tuple[Callable[[NDArray[Any]], Any], Callable[[Any], NDArray[Any]]]
"""What brings an array of NumPy to where points are placed, and fetches one from there."""


def place_together(
    rows: Sequence[NDArray[Any]],
    points: NDArray[np.float64],
    formulas: tuple[KernelFormulas, Formulas],
    limits: Limits,
    out: NDArray[np.float64],
    carry: Carry,
    tile: int,
) -> int:
    """Write the place of each row, the centre for one without neighbours; return how many did not come to rest.

    ``rows`` are where the entries of each row begin, and of the entries the column, p, and what the strength is made
    of; ``points`` is (d, n). A row and a point are a pair, and ``tile`` of them are worked on together.
    """
    (bring, fetch), (indptr, *entries) = carry, rows
    lengths, unfinished = np.diff(indptr), 0
    out[lengths == 0] = points.mean(axis=1)
    cost, eye = _RowCost(bring(points), *formulas), bring(np.eye(len(points)))
    where = bring(limits[0]), *limits[1:]
    powers = np.frexp(lengths - 0.5)[1]  # rows are filled up to a power of 2: their bits do not depend on the others
    for power in np.unique(powers[lengths > 0]).tolist():
        wanted, steps = np.flatnonzero((powers == power) & (lengths > 0)), np.arange(2 ** max(power, 0))
        size = max(1, tile // max(points.shape[1], points.shape[0] * len(steps)))
        for first in range(0, len(wanted), size):
            some = wanted[first : first + size]
            stored = steps < lengths[some][:, None]
            at = np.where(stored, indptr[some][:, None] + steps, 0)
            given = [bring(part) for part in (*(part[at] for part in entries), stored)]
            there, moving = _placed(cost, given, where, eye, bring(np.arange(len(some))))
            out[some], unfinished = fetch(there), unfinished + moving
    return unfinished


class _RowCost(NamedTuple):
    """The cost of rows at some places, half its curvature, and its gradient."""

    points: Array
    kernel: KernelFormulas
    formulas: Formulas

    def __call__(self, x: Array, row: Sequence[Array]) -> tuple[Array, Array, Array]:
        columns, p, fixed, prepared, stored = row
        xp, kernel, formulas, b = namespace_of(x), self.kernel, self.formulas, float(self.formulas.far_log)
        log_weight, slope = plain(kernel.log_weight), plain(kernel.neg_log_slope)
        numbers, parameters = (tuple(map(float, cast("Any", part).parameters)) for part in (kernel, formulas))
        f = 0.0
        for c in range(len(self.points)):
            way = x[:, c, None] - self.points[c]
            f = f + way * way
        level, g = log_weight(f, *numbers), slope(f, *numbers)
        top = xp.amax(level, 1)[:, None]  # all weights may vanish where x is far from every point
        w = xp.exp(level - top)
        total = w.sum(1)
        log_total = xp.log(total)
        log_s, negentropy, far = top[:, 0] + log_total, 0.0, self._moments(x, w * g) / total[:, None]
        if b:
            w = w * (level - top)
            negentropy = w.sum(1) / total - log_total
            of_entropy = self._moments(x, w * g) / total[:, None] - log_total[:, None] * far
        offsets = x[:, None] - self.points.T[columns]
        f = (offsets * offsets).sum(2)
        log_q = log_weight(f, *numbers) - log_s[:, None]
        q = xp.clip(xp.exp(log_q), SMALLEST, None)
        costs = plain(formulas.entry_cost)(p, q, log_q, *parameters)
        near = -fixed - plain(formulas.strength or no_strength)(prepared, q, *parameters)
        near, g = xp.where(stored, near, 0.0), slope(f, *numbers)
        mean = b * negentropy + near.sum(1)
        gradient = ((near * g)[:, :, None] * offsets).sum(1) - mean[:, None] * far
        if b:
            gradient = gradient + b * of_entropy
        value = formulas.constant + b * negentropy + xp.where(stored, costs, 0.0).sum(1)
        return value, 2 * xp.where(stored, p * g, 0.0).sum(1), -2 * gradient

    def _moments(self, x: Array, charges: Array) -> Array:
        """Return sum_j c_j (x - y_j); no product of matrices, in which a row's bits depend on their number."""
        of_points = [(charges * self.points[c]).sum(1) for c in range(len(self.points))]
        return x * charges.sum(1)[:, None] - namespace_of(x).stack(of_points, 1)


def _placed(cost: _RowCost, row: list[Array], limits: tuple[Any, ...], eye: Array, left: Array) -> tuple[Array, int]:
    """Return where rows come to rest, and how many still move after so many looks; ``left`` are their numbers."""
    (low, high), longest, tolerance, most = limits
    xp, starts = namespace_of(low), _starts(row, cost.points)
    x = gradient = step = y = starts[0]
    out, none = xp.empty_like(x), x[:, 0] * 0
    value, curvature, slope, moved = none + np.inf, none + 1, none, none + np.inf
    inverse = eye + none[:, None, None]
    for look in range(most):
        there, bending, ahead = cost(y, row)
        if look < len(starts):
            accepted = taken = there < value
        else:
            accepted = (there <= value + ARMIJO * slope) | (moved <= tolerance)
            taken = accepted & ~(there > value)  # a step of no length that leads up: nothing but rounding is left
            inverse = xp.where(taken[:, None, None], _updated(inverse, y - x, ahead - gradient), inverse)
        x, gradient = (xp.where(taken[:, None], new, old) for new, old in ((y, x), (ahead, gradient)))
        value, curvature = xp.where(taken, there, value), xp.where(taken, bending, curvature)
        if look + 1 < len(starts):
            y = starts[look + 1]
            continue
        if look < len(starts):
            inverse, accepted = eye / curvature[:, None, None], taken | ~taken
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
        step = xp.where(accepted[:, None], fresh, SHRINK * step)
        y = xp.clip(x + step, low, high)
        moved, slope = xp.amax(abs(y - x), 1), (gradient * (y - x)).sum(1)
    out[left] = x
    return out, len(left)


def _starts(row: Sequence[Array], points: Array) -> Array:
    """Return where rows may start: the weighted mean of the neighbours, their weighted median, the first of them."""
    columns, p, _, _, stored = row
    xp = namespace_of(points)
    shares = xp.where(stored, p, 0.0)
    around = points.T[columns]
    likeliest = shares == xp.amax(shares, 1)[:, None]
    first = likeliest & ((1 * likeliest).cumsum(1) == 1)
    mean = x = (shares[:, :, None] * around).sum(1)
    for _ in range(MEDIAN_STEPS):  # Weiszfeld: means weighted by 1/distance, kept finite
        weights = shares / xp.sqrt(((around - x[:, None]) ** 2).sum(2) + 1e-12)
        x = (weights[:, :, None] * around).sum(1) / weights.sum(1)[:, None]
    return xp.stack([mean, x, around[first]])


def _updated(inverse: Array, step: Array, change: Array) -> Array:
    """Return the inverse Hessian (BFGS) after a step and the change of the gradient along it, if that is convex."""
    xp = namespace_of(step)
    change = xp.where(step != 0, change, 0.0)  # none of what the box holds
    along, square, length = (step * change).sum(1), (change * change).sum(1), (step * step).sum(1)
    convex = along > 1e-10 * xp.sqrt(square * length)
    along = xp.where(convex, along, 1.0)[:, None, None]
    turned = (inverse * change[:, None, :]).sum(2)
    curved = (turned * change).sum(1)[:, None, None]
    both = turned[:, :, None] * step[:, None, :] + step[:, :, None] * turned[:, None, :]
    moved = inverse + (1 + curved / along) * step[:, :, None] * step[:, None, :] / along - both / along
    return xp.where(convex[:, None, None], moved, inverse)


def _quasi_newton(gradient: Array, inverse: Array, bowl: Array, free: Array, longest: float) -> tuple[Array, Array]:
    """Return downhill steps, at most ``longest``, of what is free, and inverse Hessians: a bowl where one led up."""
    xp = namespace_of(gradient)

    def steps(inverse: Array) -> tuple[Array, Array, Array]:
        step = xp.where(free, -(inverse * (gradient * free)[:, None, :]).sum(2), 0.0)
        return step, (step * gradient).sum(1), (step * step).sum(1)

    _, slope, square = steps(inverse)
    inverse = xp.where(((slope < 0) | (square == 0))[:, None, None], inverse, bowl)
    step, _, square = steps(inverse)
    shorter = xp.where(square > longest * longest, longest / xp.sqrt(square), 1.0)
    return step * shorter[:, None], inverse
