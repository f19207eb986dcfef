"""Sums over all pairs of points where kernels differ from point to point: w_ij = w(f_ij; theta_i), which is asymmetric.

Pair by pair, a map by row asks for two kinds of potentials, which under one kernel everywhere are the same::

    ``evaluate``    sum_j c_j V(f_ij; theta_i)      each point looks at the others by its own kernel
    ``total``       sum_j c_j V(f_ij; theta_j)      each of the others is seen by its kernel

In linear time there are fields of the kernels of a few nodes, between which each row is interpolated: see
``_per_point_nodes``, and ``models._per_point_objective`` for what a map makes of them.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.far.fields import Field, Potential, Term, check_positions, term_charges
from nearfar.kernels import Exponential, InhomogeneousStudentT, Kernel, exp, ln

# ------------------------------------------------------------
# Kernels that differ from point to point, compiled: w(f; theta) of a pair, and sums over all pairs of points.
#
# Which kernel is told by the length of the tuple ``family``, as in scores/_kernels.py: () exponential with precisions
# theta, (0,) inhomogeneous Student's t with degrees of freedom theta. ``units`` is (1, 1/2) in the type of the
# positions.

CHUNK = 1024  # others whose sums stay in the type of the positions; the chunks are added up in float64


@jit(fastmath={"contract", "nsz"}, error_model="numpy")
def ln1p(one, x):
    """ln(1 + x), x >= 0, with a small relative error also where x is small: with many degrees of freedom it is."""
    u = one + x
    return ln(u) + (x - (u - one)) / u


@jit(fastmath=FAST, error_model="numpy")
def log_weight(family, units, theta, f):
    """Return ln w(f; theta)."""
    one, half = units
    if len(family) == 0:
        return -theta * f
    return -half * (theta + one) * ln1p(one, f / theta)


@jit(fastmath=FAST, error_model="numpy")
def pull(family, units, theta, f):
    """Return -w'/w, w' the derivative in f."""
    one, half = units
    if len(family) == 0:
        return theta
    return half * (theta + one) / (theta + f)


@jit(fastmath=FAST, error_model="numpy")
def rise(family, units, theta, f):
    """Return d ln w / d theta."""
    one, half = units
    if len(family) == 0:
        return -f
    x = f / theta
    return half * ((theta + one) * x / (theta + f) - ln1p(one, x))


@jit(fastmath=FAST, error_model="numpy")
def pair_sums(Y, start, stop, kernel, mine, kinds, charges, outs):
    """Write values and gradients of potentials at rows ``start`` to ``stop``, and sums of dw/dtheta.

    ``Y`` has shape (d, n), ``kernel`` is (family, units, theta). ``mine`` is (0,) for the kernel of the row, () for
    that of each of the others. ``kinds`` are those of w, of w ln w - w and of dw/dtheta: () for what is not asked for,
    (0,) for charges of one, (0, 0) for given ``charges``; the last has charges of one. Each of ``outs`` has shape
    (1 + d, n), the last (1, n).
    """
    d, n = Y.shape
    sums = np.empty((3, 1 + d))
    buffers = np.empty((3, CHUNK), Y.dtype)
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk(Y, i, first, last, kernel, mine, kinds, charges, buffers, sums)
            first = last
        for kind in range(2):
            if outs[kind].shape[1] > 0:
                outs[kind][0, i] = sums[kind, 0]
                for k in range(1, 1 + d):
                    outs[kind][k, i] = -2.0 * sums[kind, k]
        if len(kinds[2]) > 0:
            outs[2][0, i] = sums[2, 0]


@jit(fastmath=FAST, error_model="numpy")
def _add_chunk(Y, i, first, last, kernel, mine, kinds, charges, buffers, sums):
    """Add the others ``first`` to ``last``: sum of c V, and of -c V' (y_i - y_j)."""
    family, units, theta = kernel
    weight_kind, entropy_kind, rise_kind = kinds
    m = last - first
    own, others = theta[i], theta[first:last]
    weight_charge, entropy_charge = charges[0][first:last], charges[1][first:last]
    f, weight_force, entropy_force = buffers[0, :m], buffers[1, :m], buffers[2, :m]
    zero = Y.dtype.type(0)
    f[:] = zero
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    w_sum, e_sum, r_sum = zero, zero, zero
    for j in range(m):
        t = own if len(mine) > 0 else others[j]
        log_w = log_weight(family, units, t, f[j])
        w = exp(log_w)
        force = w * pull(family, units, t, f[j])
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w_sum += value
            weight_force[j] = slope
        if len(entropy_kind) > 0:
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e_sum += value
            entropy_force[j] = slope
        if len(rise_kind) > 0:
            r_sum += w * rise(family, units, t, f[j])
    sums[0, 0] += w_sum
    sums[1, 0] += e_sum
    sums[2, 0] += r_sum
    _add_forces(Y, i, first, last, kinds, weight_force, entropy_force, sums)


@jit(fastmath=FAST, error_model="numpy")
def _add_forces(Y, i, first, last, kinds, weight_force, entropy_force, sums):
    weight_kind, entropy_kind, _ = kinds
    m, zero = last - first, Y.dtype.type(0)
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        w_sum, e_sum = zero, zero
        for j in range(m):
            if len(weight_kind) > 0:
                w_sum += weight_force[j] * (a - y[j])
            if len(entropy_kind) > 0:
                e_sum += entropy_force[j] * (a - y[j])
        sums[0, 1 + k] += w_sum
        sums[1, 1 + k] += e_sum


# ------------------------------------------------------------
# Kernels that differ from point to point, by way of a few that do not: nodes and coefficients.
#
# What a row of a map adds to its far part is a smooth function of its kernel's parameter, F_i(theta) for given
# positions,
# such as ln S_i. So it is interpolated between those of the kernels of some nodes, row by row::
#
#     F_i(theta_i) ~ sum_m l_m(theta_i) F_i(theta_m)        q_ij ~ sum_m l_m(theta_i) w(f_ij; theta_m) / S_i(theta_m)
#
# The nodes are parameters of the range at hand, picked by pivoted QR: those whose kernels span the others best (an
# interpolative decomposition). The coefficients are least squares in the value and the slope of the kernel, as it is
# (a small map, where S is the same for all) and over S where points lie evenly, and in 1 and ln S. Errors count in
# proportion to a kernel with the tails of Student's, 1 / (1 + g f) with g = -w'/w at distance 0: what is far away is
# seen by as many more points. Polynomials in ln theta would need two or three nodes more for the same error.
#
# Normalised kernels are interpolated, not kernels: where a point has few others near it, S_i is small, and what the
# wider
# kernels leave of a narrow one would be large against it.
#
# Source: Cheng, Gimbutas, Martinsson & Rokhlin, "On the compression of low rank matrices" (SIAM J. Sci. Comput. 26,
# 2005), for the decomposition; its use for kernels with parameters per point is our own.

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


_MARGIN = 1.5  # where parameters move, nodes reach beyond them by this factor, so that they need not be chosen often
_ROWS = 256


def typed_kernel(kernel: Any, dtype: Any) -> tuple[tuple[int, ...], tuple[Any, Any], Floats]:
    """Return (family, units, parameters) for the compiled kernels."""
    family, parameters = _parts_of(kernel)
    scalar = np.dtype(dtype).type
    return family.code, (scalar(1), scalar(0.5)), np.ascontiguousarray(parameters, dtype=dtype)


def _parts_of(kernel: Any) -> tuple[Family, NDArray[np.float64]]:
    family = family_of(kernel)
    assert family is not None
    return family, np.asarray(getattr(kernel, family.parameter), np.float64)


class ExactPerPoint:
    """All pairs of points, any number of components; O(n²) time, O(n) memory."""

    def place(self, Y: Floats, kernel: Any, n_jobs: int) -> None:
        """Take in positions, shape (n, d), and a kernel with n parameters."""
        check_positions("ExactField", Y)
        self._Y, self._kernel, self._n_jobs = np.ascontiguousarray(Y.T), typed_kernel(kernel, Y.dtype), n_jobs

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return what each point finds by its own kernel, a potential per term."""
        return [self._sums((0,), term) for term in terms]

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials by the kernels of the others."""
        first, *others = (self._sums((), term) for term in terms)
        for other in others:
            first.value[...] += other.value
            first.gradient[...] += other.gradient
        return first

    def rises(self) -> NDArray[np.float64]:
        """Return sum_j dw_ij / dtheta_i, shape (n,)."""
        return np.asarray(self._sums((0,), None).value, np.float64)

    def _sums(self, mine: tuple[int, ...], term: Term | None) -> Potential:
        """Return the potential of a term, or without one the sums of dw/dtheta, which have no gradient."""
        d, n = self._Y.shape
        filler = np.empty(0, self._Y.dtype)
        asked = 2 if term is None else ("weight", "entropy").index(term.potential)
        charges = None if term is None else term_charges("ExactField", term, n, self._Y.dtype)
        kinds = tuple(() if k != asked else (0,) if charges is None else (0, 0) for k in range(3))
        outs = tuple(np.empty((1 if k == 2 else 1 + d, n if k == asked else 0), self._Y.dtype) for k in range(3))
        given = (filler if charges is None else charges,) * 2

        def task(_block: int, start: int, stop: int) -> None:
            pair_sums(self._Y, start, stop, self._kernel, mine, kinds, given, outs)

        run_blocks(task, even_bounds(n, _ROWS), self._n_jobs)
        return Potential(outs[asked][0], np.ascontiguousarray(outs[asked][1:].T))


class NodeFields:
    """Fields of the kernels of some nodes, each a copy of one field, and how much a row has of each.

    Parameters
    ----------
    base : Field
    error : float
        Of a kernel between the nodes, which decides how many there are.
    limits : tuple of two floats, optional
        Given where the parameters will move, but not beyond. Then nodes are chosen for more than those at hand.

    Attributes
    ----------
    nodes : Nodes
    fields : list of Field
        One for each node.
    coefficients : ndarray of shape (m, n)
        Of the nodes, for each point.
    """

    nodes: Nodes
    coefficients: NDArray[np.float64]

    def __init__(self, base: Field, error: float, *, limits: tuple[float, float] | None = None) -> None:
        self._base, self._error, self._limits = base, error, limits
        self.fields: list[Field] = []

    def take(self, kernel: Any) -> None:
        """Take in a kernel with a parameter for each point; choose nodes unless those that there are serve."""
        family, parameters = _parts_of(kernel)
        if not self.fields or self.nodes.family is not family or not self.nodes.cover(parameters):
            if self._limits is not None:
                least, most = self._limits
                low, high = max(parameters.min() / _MARGIN, least), min(parameters.max() * _MARGIN, most)
                self.nodes = nodes_between(family, float(low), float(high), self._error)
            else:
                self.nodes = nodes_for(family, parameters, self._error)
            missing = len(self.nodes.values) - len(self.fields)
            self.fields = self.fields[: len(self.nodes.values)] + [_copy(self._base) for _ in range(missing)]
        self._parameters, self.coefficients = parameters, self.nodes.coefficients(parameters)

    def place(self, Y: Floats, n_jobs: int) -> None:
        """Give the positions to all fields."""
        for value, field in zip(self.nodes.values, self.fields, strict=True):
            field.place(Y, self.nodes.family.kernel_of(float(value)), n_jobs)

    def slopes(self) -> NDArray[np.float64]:
        """Return the derivatives of the coefficients in the parameters, shape (m, n)."""
        return self.nodes.slopes(self._parameters)


def _copy(field: Field) -> Field:
    return field.with_params() if isinstance(field, Part) else copy.deepcopy(field)
