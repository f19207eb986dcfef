"""The sweeps of EDRep on one device: the formulas of :mod:`nearfar.edrep.solver`, with relation and vectors there.

Per epoch a few numbers come back: the loss, and the sums that the state keeps. All else stays on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearfar.contracts import FarField, Solver
from nearfar.edrep.solver import Problem, State
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.engines.torch.operators import Products
from nearfar.engines.torch.softmax import block_rows

OWNER = "EDRep"


@dataclass(eq=False)
class Device:
    """The engine of one device. On the processor the vectors are those of the state, and are moved in place.

    Beside the relation it holds the vectors, their pull, a copy of the others where the far field reads them again, and
    at most two more arrays of n x d while a product is made.
    """

    problem: Problem
    device: torch.device
    _state: State | None = field(default=None, init=False)  # whose vectors are on the device
    _products: Products | None = field(default=None, init=False)
    _far: Any = field(default=None, init=False)  # the far field, and its form

    @classmethod
    def of(cls, problem: Problem, device: object, far: FarField) -> Device:
        """Return the engine of a device.

        Raises
        ------
        InputError
            No such device; a far field that does not run there.
        """
        form_of(OWNER, "far", far)
        return cls(problem, device_of(OWNER, device))

    def fetch(self, state: State) -> None:
        """Copy the vectors to those of the state; on the processor they are the same."""
        if state is self._state and self.device.type != "cpu":
            for host, moved in zip((state.X, state.Y), self._sides, strict=False):
                if host is not None:
                    torch.from_numpy(host).copy_(moved)

    def _take(self, state: State) -> Products:
        """Bring a state that was not seen before; return the relation, which is brought once."""
        self._sides = []  # those of another state, before the new ones come
        sides = (state.X,) if state.Y is None else (state.X, state.Y)
        self._sides = [torch.from_numpy(side).to(self.device) for side in sides]
        dtype = self._sides[0].dtype
        if self._products is None or self._products.dtype != dtype:
            self._products = Products(OWNER, self.device, dtype)
            self._r, self._p0 = (to_device(numbers, self.device) for numbers in (self.problem.r, self.problem.p0))
        self._state = state
        return self._products

    def sweep(self, state: State, far: FarField, solver: Solver, rate: float) -> float:
        """Move every vector by one step against its gradient; return the loss before. See :class:`Threads`."""
        with room(OWNER, self.device), torch.no_grad():
            products = self._products
            if state is not self._state or products is None:
                products = self._take(state)
            if self._far is None or self._far[0] is not far:
                self._far = (far, form_of(OWNER, "far", far)(OWNER, "far", far, self.device))
            return self._sweep(state, products, self._far[1], form_of(OWNER, "constraint", solver), rate)

    def _sweep(self, state: State, products: Products, far: Any, step: Any, rate: float) -> float:
        problem, r, p0, temperature = self.problem, self._r, self._p0, self.problem.temperature
        X, others, two_sided = self._sides[0], self._sides[-1], len(self._sides) == 2
        moving = not two_sided and getattr(self._far[0], "keeps_others", True)  # while rows still ask about them
        far.prepare(others.clone() if moving else others, problem.n_active)
        P = self.problem.P
        pull = P.through(products, others)
        both = not two_sided and problem.gradient != "forward"
        if both:
            pull = P.through(products, others, pull, transposed=True)
        pull_others = P.through(products, X, transposed=True) if two_sided else None
        if state.sums is None:
            sums = torch.stack((_weighted(p0, others), _weighted(r, X))).to(X.dtype)
        else:
            sums = to_device(state.sums, self.device)
        of_others, of_rows = sums if temperature > 0 else -sums
        added = None
        if problem.gradient == "full":
            added = far.other_side(X if temperature == 1 else X / temperature, r, others)
            if temperature != 1:
                added *= temperature
        parts = X.new_zeros(3, dtype=torch.float64)
        new_sums = X.new_zeros(sums.shape, dtype=torch.float64)
        for rows in _blocks(X):
            x, near, weight = X[rows], pull[rows], r[rows]
            log_z, force = far.evaluate(x if temperature == 1 else x / temperature)
            parts[0] += (x * near).sum(1).sum(dtype=torch.float64)
            parts[1] += torch.where(weight > 0, weight * log_z, 0.0).sum()
            parts[2] += weight @ (x @ of_others).double()
            gradient = (force.add_(of_others)).mul_(weight.to(x.dtype)[:, None]).sub_(near)
            if both:
                gradient.addr_(p0[rows].to(x.dtype), of_rows)
            if added is not None and not two_sided:
                gradient += added[rows]
            step(x, gradient if temperature > 0 else gradient.neg_(), rate)
            new_sums[1] += weight.to(x.dtype) @ x
            if not two_sided:
                new_sums[0] += p0[rows].to(x.dtype) @ x
        if pull_others is not None:
            for rows in _blocks(others):
                y, gradient = others[rows], pull_others[rows].neg_().addr_(p0[rows].to(X.dtype), of_rows)
                step(y, gradient if added is None else gradient.add_(added[rows]), rate)
                new_sums[0] += p0[rows].to(X.dtype) @ y
        near_sum, far_sum, prior, *flat = torch.cat((parts, new_sums.flatten())).tolist()  # the one copy back
        state.sums = np.array(flat, state.X.dtype).reshape(2, -1)
        return float(far_sum + prior / temperature - (near_sum / 2 if both else near_sum) / temperature)


def _blocks(X: Tensor) -> Iterator[slice]:
    """Yield blocks of rows."""
    size = block_rows(X.shape[1])
    return (slice(start, start + size) for start in range(0, len(X), size))


def _weighted(weights: Tensor, X: Tensor) -> Tensor:
    """Return ``weights @ X``, products in the dtype of X, sums over blocks in float64."""
    total = X.new_zeros(X.shape[1], dtype=torch.float64)
    for rows in _blocks(X):
        total += weights[rows].to(X.dtype) @ X[rows]
    return total


def sphere_step(X: Tensor, gradient: Tensor, rate: float) -> None:
    """Move each row along the sphere, in place, see :class:`nearfar.edrep.Sphere`."""
    square = (X * X).sum(1, keepdim=True)
    tangent = gradient - (X * gradient).sum(1, keepdim=True) / square * X
    length = (tangent * tangent).sum(1, keepdim=True)
    moves = (square > 0) & (length > 0)
    moved = X * ((1 - rate * rate) ** 0.5 / square.sqrt()) - tangent * (rate / length.sqrt())
    X.copy_(torch.where(moves, moved, X))


def ball_step(X: Tensor, gradient: Tensor, rate: float) -> None:
    """Move each row against its normalised gradient, in place, and back to the unit ball if it left it."""
    length = (gradient * gradient).sum(1, keepdim=True)
    moved = X - gradient * (rate / length.sqrt())
    moved /= (moved * moved).sum(1, keepdim=True).sqrt().clamp(min=1)
    X.copy_(torch.where(length > 0, moved, X))
