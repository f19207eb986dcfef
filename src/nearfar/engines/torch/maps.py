"""Maps in torch: cost, gradient and descent of :mod:`nearfar.maps`, with the positions on a device throughout.

Per iteration a field on a mesh asks for the corners of the map, 2 d numbers; nothing else comes back but the cost, and
the positions where a callback asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar.contracts import Objective
from nearfar.divergences.probability import no_strength
from nearfar.engines.torch import form_of, plain, room, to_device
from nearfar.far.fields import Potential, Term
from nearfar.maps import objective as threads
from nearfar.maps.noise import LEAST_A
from nearfar.maps.solver import Descent, MapState, Phase
from nearfar.maps.transform import ARMIJO, MEDIAN_STEPS, SHRINK, SMALLEST
from nearfar.methods.maps import momentum_step

_TILE = 1 << 24  # pairs of neighbours that are worked on together


def descend(
    owner: str, descent: Descent, Y: NDArray[Any], objective: Objective, phases: Sequence[Phase], device: torch.device
) -> MapState:
    """Run a descent on a device; the positions in the state that is returned are there.

    Raises
    ------
    InputError
        The objective, or its field, does not run on a device; the memory of the device is full.
    """
    with room(owner, device):
        there = form_of(owner, "device", objective)(owner, objective, device)
        positions: Any = torch.from_numpy(Y).to(device)
        return replace(descent, solver=Momentum).run(positions, there, phases)


class NeighborObjective(threads.NeighborObjective):
    """The objective of the threads, its pattern copied to the device; the formulas are evaluated on tensors.

    What is made once, the pattern and what divergences make of p, is made on the processor.
    """

    def __init__(self, owner: str, objective: threads.NeighborObjective, device: torch.device) -> None:
        vars(self).update(vars(objective))
        self._device = device
        self._copies: dict[int, Tensor] = {}  # of the arrays of the pattern
        self._field = form_of(owner, "far", self._field)(owner, self._field, device)
        self._s = None if self._weights is None else self._copy(self._weights)
        self._set_kernel(self.kernel)

    def _copy(self, array: NDArray[Any]) -> Tensor:
        """Return the copy of an array on the device; those of the pattern are made once."""
        if id(array) in self._copies:
            return self._copies[id(array)]
        whole: Any = array.view(np.int32) if array.dtype == np.uint32 else array
        return torch.from_numpy(np.ascontiguousarray(whole)).to(self._device)

    def _set_kernel(self, kernel: Any) -> None:
        super()._set_kernel(kernel)
        formulas = kernel.formulas()
        self._log_weight, self._slope, self._weight = map(plain, (*formulas[:2], formulas.weight))
        self._numbers = tuple(map(float, self._parameters))

    def _set_divergence(self, divergence: Any) -> None:
        super()._set_divergence(divergence)
        self._copies = {id(array): self._copy(array) for array in self._pattern[:3]}
        self._fixed_mass = self._copy(np.broadcast_to(self._mass_fixed, self._n).astype(self._dtype))
        self._there = [self._copy(array) for array in self._strengths]
        if hasattr(self, "_blocks"):
            return
        indptr = self._pattern[0]
        lengths, points = self._copy(np.diff(indptr)), torch.arange(self._n, dtype=torch.int32, device=self._device)
        self._rows = torch.repeat_interleave(points, lengths, output_size=int(indptr[-1]))
        cuts = np.searchsorted(indptr, np.arange(_TILE, indptr[-1], _TILE), side="right") - 1
        self._blocks = [*pairwise(np.unique([0, *cuts, self._n]).tolist())]
        if self._s is not None:
            self._shares = self._copy(threads.row_sums(indptr, self._pattern[2]))

    def evaluate(self, Y: Any, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Any, float | None]:
        """Return the gradient at Y, a tensor, and the true cost if it is asked for. See the base."""
        self._prepare()
        b, s = self._formulas.far_log, self._s
        self._field.place(Y, self.kernel, self._n_jobs)
        names: Any = ("weight", "entropy") if b else ("weight",)
        charges: Any = s
        potentials: Any = self._field.evaluate([Term(name, charges) for name in names])
        if s is not None:
            potentials = [Potential(s * each.value, s[:, None] * each.gradient) for each in potentials]
        S = self._normalizer(potentials[0].value)
        gradient, mass = self._attracted(Y, S, exaggeration)
        q_ln_q = self._entropies(potentials, S) if b else S.new_zeros(1)
        if self._by_row:
            self._add_repulsion(gradient, mass, potentials, S, q_ln_q)
        else:
            M = b * q_ln_q - mass.sum(dtype=torch.float64)
            gradient += (-2 * (b * S.log() + M) / S).to(Y.dtype) * potentials[0].gradient
            if b:
                gradient += (2 * b / S).to(Y.dtype) * potentials[1].gradient
        return gradient, self._total_cost(Y, S, q_ln_q) if cost else None

    def _normalizer(self, values: Tensor) -> Tensor:
        """Return S_i of each row, held up as :func:`nearfar.maps.objective.row_normalizer` does, or S, one number."""
        if not self._by_row:
            return torch.clamp(values.sum(0, keepdim=True, dtype=torch.float64), min=threads.LEAST_S)
        S, error = values.double(), float(getattr(self._field, "expected_error", 0.0))
        return torch.maximum(S, (threads.OF_ERROR * error * S.mean()).clamp(min=threads.LEAST_S))

    def _entropies(self, potentials: Any, S: Tensor) -> Tensor:
        """sum_l q ln q, of each row or of all."""
        w_ln_w = potentials[0].value.double() + potentials[1].value
        found: Tensor = (w_ln_w if self._by_row else w_ln_w.sum()) / S - S.log()
        return found.clamp(-2 * math.log(self._n), 0)

    def _add_repulsion(self, gradient: Tensor, mass: Tensor, potentials: Any, S: Tensor, q_ln_q: Tensor) -> None:
        """Add the far part of the gradient by row."""
        b, dtype = self._formulas.far_log, gradient.dtype
        c0: Any = ((mass - b * (S.log() + q_ln_q)) / S).to(dtype)
        gradient += c0[:, None] * potentials[0].gradient
        terms = [Term("weight", c0)]
        if b:
            c1: Any = (b / S).to(dtype)
            gradient += c1[:, None] * potentials[1].gradient
            terms.append(Term("entropy", c1))
        gradient += self._field.total(terms).gradient

    # Near: pairs of neighbours, some rows at a time.

    def _pairs(self, Y: Tensor) -> Iterator[tuple[slice, slice, Tensor, Tensor, Tensor, Tensor, Tensor]]:
        """Yield rows, their entries, where rows begin, first and second points, y_i - y_j and its square."""
        indptr, columns = (self._copy(array) for array in self._pattern[:2])
        for start, stop in self._blocks:
            begin, end = int(self._pattern[0][start]), int(self._pattern[0][stop])
            entries = slice(begin, end)
            first, second = self._rows[entries], columns[entries]
            offsets = Y.index_select(0, first) - Y.index_select(0, second)
            square = (offsets * offsets).sum(1)
            yield slice(start, stop), entries, indptr[start : stop + 1] - begin, first, second, offsets, square

    def _weights_at(self, f: Tensor) -> Tensor:
        """Return w of squared distances."""
        w: Tensor = (
            self._log_weight(f, *self._numbers).exp() if self._weight is None else self._weight(f, *self._numbers)
        )
        return w

    def _attracted(self, Y: Tensor, S: Tensor, exaggeration: float) -> tuple[Tensor, Tensor]:
        """Return the near part of the gradient, and per row the mass sum_j s_ij."""
        gradient, mass = torch.zeros_like(Y), Y.new_zeros(self._n)
        fixed, u_ij, u_ji = self._there
        has_fixed, moves = self._kind
        strength, of_divergence = plain(self._formulas.strength), tuple(map(float, self._cost_parameters))
        inverse, least = (1 / S).to(Y.dtype), float(self._smallest)
        for rows, entries, begins, first, second, offsets, f in self._pairs(Y):
            both: Any = 0.0
            if moves:
                w = self._weights_at(f)
                q = (w * (inverse.index_select(0, first) if self._by_row else inverse)).clamp(min=least)
                both = strength(u_ij[entries], q, *of_divergence)
                mass[rows] = _row_sums(both, begins)
                if self._by_row:
                    q = (w * inverse.index_select(0, second)).clamp(min=least)
                    both = both + strength(u_ji[entries], q, *of_divergence)
            if has_fixed:
                both = both + fixed[entries]
            k = both * self._slope(f, *self._numbers)
            gradient[rows] = _row_sums(k[:, None] * offsets, begins)
        gradient *= 2 * exaggeration * (1 if self._by_row else 2)
        return gradient, mass.add_(self._fixed_mass)

    def _total_cost(self, Y: Tensor, S: Tensor, q_ln_q: Tensor) -> float:
        formulas, least = self._formulas, float(self._smallest)
        entry_cost, of_divergence = plain(formulas.entry_cost), tuple(map(float, self._cost_parameters))
        p_ij, log_S = self._copy(self._pattern[2]), S.log().to(Y.dtype)
        total = formulas.far_log * q_ln_q.sum() + formulas.constant * len(S)
        for _, entries, _, first, _, _, f in self._pairs(Y):
            p = p_ij[entries]
            log_q = self._log_weight(f, *self._numbers) - (log_S.index_select(0, first) if self._by_row else log_S)
            costs = entry_cost(p.clamp(min=least), log_q.exp().clamp(min=least), log_q, *of_divergence)
            total = total + torch.where(p > 0, costs, 0).sum(dtype=torch.float64)
        if self._s is not None:  # - sum p ln(s_i s_j), where p is symmetric
            total = total - 2 * torch.xlogy(self._shares, self._s.double()).sum()
        return float(total)


class NoiseObjective(NeighborObjective):
    """The objective of sampled pairs, see :mod:`nearfar.maps.noise`: the steps along the circle are drawn there."""

    def __init__(self, owner: str, objective: Any, device: torch.device) -> None:
        super().__init__(owner, objective, device)
        self._drawn_by = objective
        self._circle = self._copy(objective._order)

    def evaluate(self, Y: Any, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Any, float | None]:
        """Return the gradient for fresh noise, and the cost for that of all reports if it is asked for."""
        self._prepare()
        noise = self._drawn_by
        steps = noise._steps(noise._drawn, noise._evaluations)
        noise._evaluations += 1
        gradient = self._gradient(Y, steps, exaggeration)
        return gradient, self._cost_of(Y, noise._reported) if cost else None

    def _gradient(self, Y: Tensor, steps: NDArray[np.int64], exaggeration: float) -> Tensor:
        noise, p_ij = self._drawn_by, self._copy(self._pattern[2])
        a, W = self._level(Y, steps)
        gradient, charges = torch.zeros_like(Y), Y.new_zeros(self._n)
        for rows, entries, begins, first, second, offsets, f in self._pairs(Y):
            w, p = self._weights_at(f), p_ij[entries]
            share = p / (w + (a if W is None else W.index_select(0, first)))
            if W is None:
                k = exaggeration * a * share
            else:
                k = 2 * exaggeration * p - w * (share + p / (w + W.index_select(0, second)))
                charges[rows] = _row_sums(share, begins)
            gradient[rows] = _row_sums((k * self._slope(f, *self._numbers))[:, None] * offsets, begins)
        gradient *= 4 if W is None else 2
        circle, own = Y[self._circle], charges[self._circle]
        push = torch.zeros_like(circle)
        for back, ways, f in self._noise_pairs(circle, steps):
            w = self._weights_at(f)
            k = (w / (w + a) if W is None else own * w) * self._slope(f, *self._numbers)
            forces = k[:, :, None] * ways
            # A point is the second of a pair where the one a step back is the first.
            push += forces.sum(0) - forces.gather(1, back[:, :, None].expand_as(forces)).sum(0)
        push *= 2 if W is not None else 2 * noise._m / (self._n * len(steps))
        return gradient.index_add_(0, self._circle, push, alpha=-1)

    def _noise_pairs(self, circle: Tensor, steps: NDArray[np.int64]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield for some steps who is that far behind each point, the way from who is ahead, and its square."""
        n, points = self._n, torch.arange(self._n, device=circle.device)
        for some in to_device(steps, circle.device).split(max(1, _TILE // circle.numel())):  # type: ignore[no-untyped-call]
            ways = circle - circle[(points + some[:, None]) % n]
            yield (points - some[:, None]) % n, ways, (ways * ways).sum(2)

    def _level(self, Y: Tensor, steps: NDArray[np.int64]) -> tuple[Any, Tensor | None]:
        """Return a of "local", or W_i of "global"."""
        noise, zbar = self._drawn_by, self._drawn_by._noise.normalizer
        if not noise._ranking and zbar != "t-sne":
            return noise.level(None, steps), None
        sums = Y.new_zeros(self._n)
        for _, _, f in self._noise_pairs(Y[self._circle], steps):
            sums += self._weights_at(f).sum(0)
        if noise._ranking:
            return 0.0, torch.empty_like(sums).index_copy_(0, self._circle, sums)
        mean = sums.sum(dtype=torch.float64) / (self._n * len(steps))
        return (noise._m * mean).clamp(min=LEAST_A).to(Y.dtype), None

    def _cost_of(self, Y: Tensor, steps: NDArray[np.int64]) -> float:
        noise, p_ij = self._drawn_by, self._copy(self._pattern[2])
        a, W = self._level(Y, steps[: noise._m] if noise._ranking else steps)
        total = Y.new_zeros((), dtype=torch.float64)
        for _, entries, _, first, _, _, f in self._pairs(Y):
            w = self._weights_at(f) + (a if W is None else W.index_select(0, first))
            total += (p_ij[entries] * (w.log() - self._log_weight(f, *self._numbers))).sum(dtype=torch.float64)
        if W is None:
            for _, _, f in self._noise_pairs(Y[self._circle], steps):
                part = (self._weights_at(f) / a).log1p().sum(dtype=torch.float64)
                total += noise._m / (self._n * len(steps)) * part
        return float(total)


def _row_sums(values: Tensor, begins: Tensor) -> Tensor:
    """Return the sums of rows that begin, and end, there."""
    return torch.segment_reduce(values, "sum", offsets=begins, axis=0, unsafe=True)


class Momentum:
    """The solver of :class:`nearfar.maps.solver.Momentum`, all on the device."""

    elsewhere = False  # the positions that are given are those on the device

    def __init__(self, momentum: float = 0.8, *, longest: float = math.inf, n_jobs: int = 1) -> None:  # noqa: ARG002
        self.momentum, self.longest = momentum, longest
        self._state: tuple[Tensor, Tensor] | None = None
        self._square: Any = math.nan

    @property
    def gradient_norm(self) -> float:
        """Length of the last gradient: one number that is brought back where it is asked for."""
        return math.sqrt(float(self._square))

    def step(self, X: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move the positions in place, and centre them."""
        if self._state is None:
            self._state = torch.zeros_like(X), torch.ones_like(X)
        limits: Any = {"rate": learning_rate, "momentum": self.momentum, "longest": self.longest}
        moved, self._square = momentum_step(X, gradient, *self._state, **limits)
        X -= (moved / len(X)).to(X.dtype)


# New points, see nearfar.maps.transform: the same looks at the same costs, of many points at once, in float64.


def place_rows(
    device: torch.device,
    owner: str,
    rows: Sequence[NDArray[Any]],
    points: NDArray[np.float64],
    kernel: Any,
    formulas: Any,
    limits: tuple[NDArray[np.float64], float, float, int],
    out: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Write the place of each row, as :func:`nearfar.maps.transform.place_rows`; return how many did not come to rest.

    ``rows`` are where the entries of each row begin, and of the entries the column, p, and what is prepared of p.
    """
    indptr, *entries = rows
    lengths, unfinished = np.diff(indptr), 0
    wanted = np.flatnonzero(lengths)
    out[lengths == 0] = points.mean(axis=1)
    with room(owner, device), torch.no_grad():
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

    def __init__(self, points: Tensor, kernel: Any, formulas: Any) -> None:
        self.points, self._formulas = points, formulas
        made = kernel.formulas()
        self._log_weight, self._slope = plain(made.log_weight), plain(made.neg_log_slope)
        self._numbers = tuple(map(float, made.parameters))
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


def _placed(cost: _RowCost, row: list[Tensor], limits: Any) -> tuple[Tensor, int]:
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
