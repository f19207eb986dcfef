"""Kernels that differ from point to point, by way of a few that do not: nodes and coefficients.

What a row of a map adds to its far part is a smooth function of its kernel's parameter, F_i(theta) for given positions,
such as ln S_i. So it is interpolated between those of the kernels of some nodes, row by row::

    F_i(theta_i) ~ sum_m l_m(theta_i) F_i(theta_m)        q_ij ~ sum_m l_m(theta_i) w(f_ij; theta_m) / S_i(theta_m)

The nodes are parameters of the range at hand, picked by pivoted QR: those whose kernels span the others best (an
interpolative decomposition). The coefficients are least squares in the value and the slope of the kernel, as it is
(a small map, where S is the same for all) and over S where points lie evenly, and in 1 and ln S. Errors count in
proportion to a kernel with the tails of Student's, 1 / (1 + g f) with g = -w'/w at distance 0: what is far away is
seen by as many more points. Polynomials in ln theta would need two or three nodes more for the same error.

Normalised kernels are interpolated, not kernels: where a point has few others near it, S_i is small, and what the wider
kernels leave of a narrow one would be large against it.

Source: Cheng, Gimbutas, Martinsson & Rokhlin, "On the compression of low rank matrices" (SIAM J. Sci. Comput. 26,
2005), for the decomposition; its use for kernels with parameters per point is our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.scores.kernels import Exponential, InhomogeneousStudentT, Kernel

FEW = 4
"""As many different parameters, or fewer, are nodes themselves: then nothing is interpolated."""
MOST = 24
_TABLE, _SAMPLES = 1024, 96  # steps of the table of coefficients, distances at which kernels are compared
_DAMPING = 3e-3  # of coefficients, beside errors: the fields' own errors grow with them
_COUNTS = 5.0  # errors of 1 and ln S, which have one entry each, by as much more
_THINNED = 8  # steps of the table between two parameters that may become nodes

Array = NDArray[np.float64]


class Family(NamedTuple):
    """Kernels with one parameter: its name, and how far they reach."""

    kernel: type[Kernel]
    parameter: str
    code: tuple[int, ...]
    """As in ``_per_point_kernels``."""
    steepness: Callable[[Any], Any]
    """-w'/w at distance 0."""
    farthest: float
    """Squared distance, in lengths of the widest kernel, beyond which nothing is compared."""

    def kernel_of(self, value: Any) -> Any:
        """Return the kernel with this parameter."""
        return self.kernel(**{self.parameter: value})


FAMILIES = (
    Family(Exponential, "beta", (), lambda beta: beta, 1e2),
    Family(InhomogeneousStudentT, "nu", (0,), lambda nu: (nu + 1) / (2 * nu), 1e5),
)


def family_of(kernel: object) -> Family | None:
    """Return the family of a kernel with one parameter for each point, None for any other kernel."""
    for family in FAMILIES:
        if type(kernel) is family.kernel and np.ndim(getattr(kernel, family.parameter)) == 1:
            return family
    return None


@dataclass(frozen=True)
class Nodes:
    """Nodes of a range of parameters.

    Parameters
    ----------
    family : Family
    values : ndarray of shape (m,), float64
        The nodes, rising.
    table : ndarray of shape (steps + 1, m), float64
        Coefficients at even steps from ``low`` to ``high``, logarithms of parameters; no rows where the parameters are
        nodes themselves.
    low, high : float
    error : float
        Root mean square error of the kernels between the nodes, the largest over the range.
    """

    family: Family
    values: Array
    table: Array
    low: float
    high: float
    error: float

    def cover(self, parameters: Floats) -> bool:
        """Return whether there are coefficients for all of these parameters."""
        if not len(self.table):
            return bool(np.isin(parameters, self.values).all())
        low, high = np.log(np.array([parameters.min(), parameters.max()], np.float64))
        return bool(self.low <= low and high <= self.high)

    def coefficients(self, parameters: Floats) -> Array:
        """Return l_m(theta_i), shape (m, n)."""
        if not len(self.table):
            return np.asarray(self.values[:, None] == np.asarray(parameters, np.float64), np.float64)
        return self._read(self.table, parameters)

    def slopes(self, parameters: Floats) -> Array:
        """Return the derivatives of l_m in theta_i, shape (m, n); only where there is a table."""
        per_step = np.gradient(self.table, axis=0) * (_TABLE / (self.high - self.low))
        return np.asarray(self._read(per_step, parameters) / np.asarray(parameters, np.float64))

    def _read(self, table: Array, parameters: Floats) -> Array:
        steps = (np.log(np.asarray(parameters, np.float64)) - self.low) * (_TABLE / (self.high - self.low))
        steps = steps.clip(0, _TABLE)
        at = np.minimum(steps.astype(np.int64), _TABLE - 1)
        steps -= at
        found = np.empty((table.shape[1], len(at)))
        for out, column in zip(found, table.T, strict=True):
            column = np.ascontiguousarray(column)
            left = column[at]
            np.multiply(column[at + 1] - left, steps, out=out)
            out += left
        return found


def nodes_for(family: Family, parameters: Floats, tolerance: float) -> Nodes:
    """Return nodes for these parameters: themselves if they are few, else as many as the tolerance takes."""
    different = np.unique(np.asarray(parameters, np.float64))
    if len(different) <= FEW:
        return Nodes(family, different, np.empty((0, len(different))), 0.0, 0.0, 0.0)
    return nodes_between(family, float(different[0]), float(different[-1]), tolerance)


def nodes_between(family: Family, lowest: float, highest: float, tolerance: float) -> Nodes:
    """Return nodes for all parameters of a range, as few as leave an error below the tolerance."""
    even = np.linspace(np.log(lowest), np.log(highest), _TABLE + 1)
    theta = np.exp(even)
    steepness = family.steepness(theta)
    farthest = family.farthest / steepness.min()
    f = np.concatenate([[0.0], np.geomspace(1e-2 / steepness.max(), farthest, _SAMPLES)])
    kernel, everywhere = family.kernel_of(theta), np.broadcast_to(f, (len(theta), len(f)))
    w, slope, g = kernel.weight(everywhere), kernel.slope(everywhere), steepness[:, None]
    # Rows are kernels. Their scales are for the kernel that is put together: errors are seen in its units.
    log_w = kernel.log_weight(everywhere)[:, _SAMPLES // 3 :: _SAMPLES // 12]
    shapes = np.hstack([w, slope, w * g, slope * g, np.ones_like(g), np.log(g), log_w])
    far, counts = 1 + g * f, np.full((len(g), 2), _COUNTS)
    scales = np.hstack([far, far**2 / g, far / g, far**2 / g**2, counts, _COUNTS / (1 - log_w)])
    thinned = np.arange(0, len(theta), _THINNED)
    order = thinned[scipy.linalg.qr((shapes * scales)[thinned].T, mode="r", pivoting=True)[1]]
    for m in range(2, MOST + 1):
        chosen = np.sort(order[:m])
        error = _least_squares(shapes[chosen], shapes[thinned], scales[thinned])[1]
        if error < tolerance:
            break
    table, error = _least_squares(shapes[chosen], shapes, scales)
    table[chosen] = np.eye(len(chosen))
    return Nodes(family, theta[chosen], table, float(even[0]), float(even[-1]), error)


def _least_squares(nodes: Array, shapes: Array, scales: Array) -> tuple[Array, float]:
    """Return the coefficients of nodes for each kernel, shape (kernels, nodes), and the largest error of a kernel."""
    m, count = len(nodes), len(shapes)
    small = np.broadcast_to(_DAMPING * np.eye(m), (count, m, m))  # keeps coefficients from growing
    Q, R = np.linalg.qr(np.concatenate([nodes.T * scales[:, :, None], small], axis=1))
    aims = np.einsum("tkm,tk->tm", Q[:, : shapes.shape[1]], shapes * scales)
    table = np.linalg.solve(R, aims[:, :, None])[:, :, 0]
    left = ((table @ nodes - shapes) * scales) ** 2
    return table, float(np.sqrt(left.mean(axis=1).max()))
