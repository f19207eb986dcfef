"""Kernels that differ from point to point, by way of a few that do not: nodes and coefficients.

What a row of a map adds to its far part is a smooth function of its kernel's parameter, F_i(theta) for given
positions, such as ln S_i. So it is interpolated between those of the kernels of some nodes, row by row::

    F_i(theta_i) ~ sum_m l_m(theta_i) F_i(theta_m)        q_ij ~ sum_m l_m(theta_i) w(f_ij; theta_m) / S_i(theta_m)

The nodes are parameters of the range at hand, picked by pivoted QR: those whose kernels span the others best (an
interpolative decomposition). Where parameters are learned, half of the weight is on the range and half on the points,
and the error is the largest where there are points. The coefficients are least squares in the value and the slope of
the kernel, as it is (a small map, where S is the same for all) and over S where points lie evenly, and in 1 and ln S.
Errors count in proportion to a kernel with the tails of Student's, 1 / (1 + g f) with g = -w'/w at distance 0: what
is far away is seen by as many more points. Polynomials in ln theta would need two or three nodes more for the same
error.

Normalised kernels are interpolated, not kernels: where a point has few others near it, S_i is small, and what the
wider kernels leave of a narrow one would be large against it.

Source: Cheng, Gimbutas, Martinsson & Rokhlin, "On the compression of low rank matrices" (SIAM J. Sci. Comput. 26,
2005), for the decomposition; its use for kernels with parameters per point is our own.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.types import Doubles
from nearfar.contracts import Field, Floats, Kernel, Potential, Term
from nearfar.far.per_point import parts_of
from nearfar.kernels import Family

FEW = 4
"""As many different parameters, or fewer, are nodes themselves: then nothing is interpolated."""
MOST = 24
_TABLE, _SAMPLES = 1024, 96  # steps of the table of coefficients, distances at which kernels are compared
_DAMPING = 3e-3  # of coefficients, beside errors: the fields' own errors grow with them
_COUNTS = 5.0  # errors of 1 and ln S, which have one entry each, by as much more
_THINNED = 8  # steps of the table between two parameters that may become nodes
_SMOOTH = 5  # such parameters over which the numbers of points are averaged
_MARGIN = 1.25  # where parameters move, nodes reach beyond them by this factor, so that they need not be chosen often
_WORSE = 2.0  # and are chosen anew when the error has grown by this one


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
    errors : ndarray of shape (steps + 1,), float64
        Root mean square error of the kernel at each step.
    """

    family: Family
    values: Doubles
    table: Doubles
    low: float
    high: float
    errors: Doubles

    def error(self, parameters: Floats) -> float:
        """Return the root mean square error of the kernels of these parameters."""
        return float(np.sqrt(np.mean(self._read(self.errors[:, None] ** 2, parameters)))) if len(self.table) else 0.0

    def cover(self, parameters: Floats) -> bool:
        """Return whether there are coefficients for all of these parameters."""
        if not len(self.table):
            return bool(np.isin(parameters, self.values).all())
        low, high = np.log(np.array([parameters.min(), parameters.max()], np.float64))
        return bool(self.low <= low and high <= self.high)

    def coefficients(self, parameters: Floats) -> Doubles:
        """Return l_m(theta_i), shape (m, n)."""
        if not len(self.table):
            return np.asarray(self.values[:, None] == np.asarray(parameters, np.float64), np.float64)
        return self._read(self.table, parameters)

    def slope_of(self, parameters: Floats, values: Floats) -> Doubles:
        """Return sum_m dl_m / dtheta_i values_mi, shape (n,); only where there is a table."""
        found = np.empty(len(parameters))
        _sum_rows(self._slopes, self._steps(parameters), values, found)
        return np.asarray(found / np.asarray(parameters, np.float64))

    @cached_property
    def _slopes(self) -> Doubles:
        return np.ascontiguousarray(np.gradient(self.table, axis=0) * (_TABLE / (self.high - self.low)))

    def _steps(self, parameters: Floats) -> Doubles:
        """Return where parameters are in the table."""
        steps = (np.log(np.asarray(parameters, np.float64)) - self.low) * (_TABLE / (self.high - self.low))
        return np.asarray(steps.clip(0, _TABLE))

    def _read(self, table: Doubles, parameters: Floats) -> Doubles:
        found = np.empty((table.shape[1], len(parameters)))
        _read_rows(np.ascontiguousarray(table), self._steps(parameters), found)
        return found


@jit(error_model="numpy")
def _read_rows(table, steps, out):
    """Write the rows of a table, in between linearly; out is (columns, n)."""
    for i in range(len(steps)):
        at = min(int(steps[i]), len(table) - 2)
        part = steps[i] - at
        for k in range(table.shape[1]):
            out[k, i] = table[at, k] + part * (table[at + 1, k] - table[at, k])


@jit(error_model="numpy")
def _sum_rows(table, steps, values, out):
    """Write the sums of such rows times values, of shape (columns, n)."""
    for i in range(len(steps)):
        at, total = min(int(steps[i]), len(table) - 2), 0.0
        part = steps[i] - at
        for k in range(table.shape[1]):
            total += (table[at, k] + part * (table[at + 1, k] - table[at, k])) * values[k, i]
        out[i] = total


def nodes_for(family: Family, parameters: Floats, tolerance: float, limits: tuple[float, float] | None = None) -> Nodes:
    """Return nodes for these parameters: themselves if they are few, else as many as the tolerance takes.

    With ``limits`` parameters move: nodes also serve for such as have moved a little, and the error is the largest
    where there are points, not over the range.
    """
    different = np.unique(np.asarray(parameters, np.float64))
    low, high = float(different[0]), float(different[-1])
    if limits is None:
        if len(different) <= FEW:
            return Nodes(family, different, np.empty((0, len(different))), 0.0, 0.0, np.empty(0))
        return nodes_between(family, low, high, tolerance)
    low, high = max(low / _MARGIN, limits[0]), min(high * _MARGIN, limits[1])
    found = np.log(np.asarray(parameters, np.float64))
    crowd = np.histogram(found, bins=_TABLE // _THINNED + 1, range=(np.log(low), np.log(high)))[0] / len(found)
    return _nodes(family, low, high, tolerance, np.convolve(crowd, np.full(_SMOOTH, 1 / _SMOOTH), "same"))


@lru_cache(maxsize=16)
def nodes_between(family: Family, lowest: float, highest: float, tolerance: float) -> Nodes:
    """Return nodes for all parameters of a range alike, as few as leave an error below the tolerance for each."""
    return _nodes(family, lowest, highest, tolerance, None)


def _nodes(family: Family, lowest: float, highest: float, tolerance: float, crowd: Doubles | None) -> Nodes:
    """Return nodes for a range; ``crowd`` is the share of points at each of the parameters that may become nodes."""
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
    weighted = (shapes * scales)[thinned].T
    if crowd is not None:
        weighted *= np.sqrt((crowd + crowd.mean()) / 2)
    order = thinned[scipy.linalg.qr(weighted, mode="r", pivoting=True)[1]]
    for m in range(2, MOST + 1):
        chosen = np.sort(order[:m])
        errors = least_squares(shapes[chosen], shapes[thinned], scales[thinned], _DAMPING)[1]
        if (errors if crowd is None else errors[crowd > 0]).max() < tolerance:
            break
    table, errors = least_squares(shapes[chosen], shapes, scales, _DAMPING)
    table[chosen] = np.eye(len(chosen))
    return Nodes(family, theta[chosen], table, float(even[0]), float(even[-1]), errors)


def least_squares(nodes: Doubles, shapes: Doubles, scales: Doubles, damping: float) -> tuple[Doubles, Doubles]:
    """Return the coefficients of nodes for each kernel, shape (kernels, nodes), and the error of each kernel."""
    m, squares = len(nodes), (scales**2).T
    products = ((nodes[:, None] * nodes).reshape(m * m, -1) @ squares).T.reshape(-1, m, m)
    products += damping**2 * np.eye(m)  # keeps coefficients from growing
    aims = (nodes @ (squares * shapes.T)).T
    table = np.linalg.solve(products, aims[:, :, None])[:, :, 0]
    left = ((table @ nodes - shapes) * scales) ** 2
    return np.asarray(table, np.float64), np.asarray(np.sqrt(left.mean(axis=1)), np.float64)


class NodesOfAll:
    """Nodes for the parameters of all points, and how much each has of them.

    Parameters
    ----------
    error : float
        Of a kernel between the nodes, which decides how many there are.
    limits : tuple of two floats, optional
        Given where the parameters will move, but not beyond. Then nodes are chosen for more than those at hand.

    Attributes
    ----------
    nodes : Nodes
    coefficients : ndarray of shape (m, n)
        Of the nodes, for each point.
    """

    nodes: Nodes | None = None
    coefficients: NDArray[np.float64]

    def __init__(self, error: float, *, limits: tuple[float, float] | None = None) -> None:
        self._error, self._limits = error, limits

    def take(self, kernel: Kernel) -> None:
        """Take in a kernel with a parameter for each point; choose nodes unless those that there are serve."""
        family, parameters = parts_of(kernel)
        if self.nodes is None or not self._serves(self.nodes, family, parameters):
            self.nodes = nodes_for(family, parameters, self._error, self._limits)
        self._parameters, self.coefficients = parameters, self.nodes.coefficients(parameters)

    def _serves(self, nodes: Nodes, family: Family, parameters: Doubles) -> bool:
        known = nodes.family == family and nodes.cover(parameters)
        return known and (self._limits is None or nodes.error(parameters) < _WORSE * self._error)

    def kernels(self) -> list[Kernel]:
        """Return the kernels of the nodes."""
        assert self.nodes is not None
        return [self.nodes.family.kernel_of(float(value)) for value in self.nodes.values]

    def slope_of(self, values: Floats) -> NDArray[np.float64]:
        """Return the derivatives in the parameters of what is interpolated; ``values`` at the nodes, shape (m, n)."""
        assert self.nodes is not None
        return self.nodes.slope_of(self._parameters, values)


class SummedNodes:
    """The far field of a map under several kernels, as a place asks it: a field for each.

    Parameters
    ----------
    base : Field
        For one kernel; others get copies.
    """

    keeps_others = False
    """Nobody moves before all sums are known."""

    def __init__(self, base: Field) -> None:
        self._fields: list[Any] = [base]

    def prepare(self, Y: Floats, kernels: Sequence[Kernel], n_jobs: int) -> None:
        """Take in positions and kernels."""
        missing = len(kernels) - len(self._fields)
        self._fields = self._fields[: len(kernels)] + [_copy(self._fields[0]) for _ in range(missing)]
        for field, kernel in zip(self._fields, kernels, strict=True):
            field.place(Y, kernel, n_jobs)

    def potentials(self, terms: Sequence[Term]) -> list[list[Potential]]:
        """Return the potentials of terms under each kernel; they are read until the next call."""
        return [field.evaluate(terms) for field in self._fields]

    def total(self, terms: Sequence[Sequence[Term]]) -> Potential:
        """Return the sum of the potentials of terms, some under each kernel."""
        first, *others = (field.total(some) for field, some in zip(self._fields, terms, strict=True))
        for other in others:
            first.value[...] += other.value
            first.gradient[...] += other.gradient
        return cast("Potential", first)

    @property
    def error(self) -> float:
        """What the fields say of their error, the largest."""
        return max(float(getattr(field, "expected_error", 0.0)) for field in self._fields)


def _copy(field: Field) -> Field:
    return field.with_params() if isinstance(field, Part) else copy.deepcopy(field)
