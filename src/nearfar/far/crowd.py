"""Where the parameters of kernels are that differ from point to point, and the few kernels that serve for all of them.

Nodes are picked by pivoted QR among parameters of the range at hand: those whose kernels span the others best, which
count by how many points have them. Coefficients are least squares in the values and slopes of the kernel. Errors count
in proportion to a kernel with the tails of Student's, 1 / (1 + g f) with g = -w'/w at distance 0: what is far away is
seen by as many more points.

Source: Cheng, Gimbutas, Martinsson & Rokhlin, "On the compression of low rank matrices" (SIAM J. Sci. Comput. 26,
2005), for the decomposition; its use for kernels with parameters per point is our own.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.linalg

from nearfar._core.types import Doubles
from nearfar.contracts import Kernel
from nearfar.far.nodes import FEW, least_squares
from nearfar.kernels import Family

MOST = 16
_STEPS, _THINNED = 512, 4  # of the table of coefficients; those between two parameters that may become nodes
_SAMPLES = 96  # distances at which kernels are compared
_SMOOTH = 5  # such parameters over which the numbers of points are averaged
_EVEN = 0.25  # weight of the range, beside that of the points in it
_DAMPING = 1e-4  # of coefficients, beside errors: the errors of the mesh grow with them
_MARGIN = 1.25  # where parameters move, nodes serve beyond them by this factor, so that they need not be chosen often


class Basis(NamedTuple):
    """Nodes for a potential: their kernels, coefficients at the steps of a table, errors there, root mean squares."""

    kernels: tuple[Kernel, ...]
    table: Doubles
    errors: Doubles


@dataclass(frozen=True)
class Crowd:
    """Where the parameters of all points are, and nodes for them.

    Parameters
    ----------
    family : Family
    theta : ndarray of shape (steps + 1,), float64
        Rising, even in their logarithms; or the few different ones that there are.
    shares : ndarray, float64
        How many of the points are near each of those that may become nodes: every ``_THINNED``-th.
    """

    family: Family
    theta: Doubles
    shares: Doubles
    of_potentials: dict[tuple[str, float], Basis] = field(default_factory=dict)

    @classmethod
    def of(cls, family: Family, parameters: Doubles, limits: tuple[float, float] | None) -> Crowd:
        """Return that of these parameters; of more than those at hand where they will move between limits."""
        if limits is None:
            different, counts = np.unique(parameters, return_counts=True)
            if len(different) <= FEW:
                return cls(family, different, counts / len(parameters))
        low, high = float(parameters.min()), float(parameters.max())
        if limits is not None:
            low, high = max(low / _MARGIN, limits[0]), min(high * _MARGIN, limits[1])
        ends = np.log(low), np.log(high)
        counts = np.histogram(np.log(parameters), bins=_STEPS // _THINNED + 1, range=ends)[0]
        smooth = np.convolve(counts / len(parameters), np.full(_SMOOTH, 1 / _SMOOTH), "same")
        return cls(family, np.exp(np.linspace(*ends, _STEPS + 1)), smooth)

    @property
    def few(self) -> bool:
        """Whether there are but few different parameters: each is a node."""
        return len(self.theta) <= FEW

    @property
    def log_step(self) -> float:
        """The logarithm of the quotient of a parameter of the table and the one before it."""
        return float(np.log(self.theta[-1] / self.theta[0]) / _STEPS)

    def steps_of(self, parameters: Doubles) -> Doubles | None:
        """Return where parameters are in the table; None if some are beyond it."""
        if self.few:
            steps = np.searchsorted(self.theta, parameters).clip(0, len(self.theta) - 1)
            return steps.astype(np.float64) if (self.theta[steps] == parameters).all() else None
        steps = (np.log(parameters) - np.log(self.theta[0])) / self.log_step
        within = bool(steps.min() > -1e-6 and steps.max() < _STEPS + 1e-6)
        return np.asarray(steps.clip(0, _STEPS)) if within else None

    def candidates(self) -> tuple[Doubles, Doubles]:
        """Return the parameters that may become nodes, and what errors of each weigh."""
        if self.few:
            return self.theta, self.shares
        return self.theta[::_THINNED], (1 - _EVEN) * self.shares + _EVEN * self.shares.mean()

    def basis(self, potential: str, tolerance: float) -> Basis:
        """Return nodes for a potential, as few as leave an error below the tolerance."""
        key = potential, tolerance
        if key not in self.of_potentials:
            self.of_potentials[key] = self._basis(potential, tolerance)
        return self.of_potentials[key]

    def _basis(self, potential: str, tolerance: float) -> Basis:
        if self.few:
            table = np.eye(len(self.theta))
            kernels = tuple(self.family.kernel_of(float(value)) for value in self.theta)
            return Basis(kernels, np.vstack([table, table[-1:]]), np.zeros(len(table) + 1))
        shapes, scales = _shapes(self.family, self.theta, potential)
        thinned, weights = np.arange(0, len(self.theta), _THINNED), self.candidates()[1]
        seen = shapes[thinned] * scales[thinned] * np.sqrt(weights)[:, None]
        order = thinned[scipy.linalg.qr(seen.T, mode="r", pivoting=True)[1]]
        for m in range(2, MOST + 1):
            chosen = np.sort(order[:m])
            errors = least_squares(shapes[chosen], shapes[thinned], scales[thinned], _DAMPING)[1]
            if np.sqrt((weights * errors**2).sum() / weights.sum()) < tolerance:
                break
        table, errors = least_squares(shapes[chosen], shapes, scales, _DAMPING)
        table[chosen] = np.eye(len(chosen))
        return Basis(tuple(self.family.kernel_of(float(value)) for value in self.theta[chosen]), table, errors)


def _shapes(family: Family, theta: Doubles, potential: str) -> tuple[Doubles, Doubles]:
    """Return values and slopes of kernels at some distances, a row for each, and what errors in them count."""
    g = family.steepness(theta)
    f = np.concatenate([[0.0], np.geomspace(1e-2 / g.max(), family.farthest / g.min(), _SAMPLES)])
    kernel, everywhere, g = family.kernel_of(theta), np.broadcast_to(f, (len(theta), len(f))), g[:, None]
    log_w, slope = kernel.log_weight(everywhere), kernel.slope(everywhere)
    w = np.exp(log_w)
    value, slope = (w, slope) if potential == "weight" else (w * log_w - w, slope * log_w)
    far = (1 + g * f) * np.maximum(g, 1)  # S falls with the steepness, and forces are over it
    return np.hstack([value, slope]), np.hstack([far, (1 + g * f) * far / g])
