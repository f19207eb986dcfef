"""The objective of a map that learns how heavy its kernel's tail is, by :mod:`nearfar.methods.tails`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from nearfar.contracts import Field, Rows
from nearfar.divergences.probability import KL
from nearfar.kernels import HeavyTailed
from nearfar.maps.objective import NeighborObjective, RowBlocks
from nearfar.methods.maps import SignSteps
from nearfar.methods.tails import slope_in_alpha

START = 0.5
"""alpha before it is learned."""
EVERY = 10
"""Iterations between two steps of alpha, which take the time of two."""
LEAST, MOST = 0.2, 5.0
"""alpha that is learned stays in between: less is hardly told from the exponential kernel."""


class TailObjective(NeighborObjective):
    """KL by pair under a heavy-tailed kernel whose alpha is learned beside the positions, from some iteration on."""

    def __init__(self, P: RowBlocks, kernel: HeavyTailed, field: Field, begins: int, **where: Any) -> None:
        super().__init__(P, kernel, KL(), "pair", field, **where)
        self._begins, self._steps = begins, SignSteps(np.array(0.05), 1e-3, 0.1, LEAST, MOST)

    @property
    def alpha(self) -> float:
        """How heavy the tail is now."""
        return cast("HeavyTailed", self.cost.kernel).alpha

    def slope(self, Y: Rows) -> float:
        """Return dC/dalpha."""
        return slope_in_alpha(self.place, self.cost, self.near(), self.field, Y)

    def advance(self, Y: Rows, iteration: int) -> None:
        """Let alpha take a step."""
        if iteration < self._begins or iteration % EVERY:
            return
        alpha = self._steps.moved(np.array(self.alpha), np.array(self.slope(Y)))
        self.cost = replace(self.cost, kernel=HeavyTailed(float(alpha)))
