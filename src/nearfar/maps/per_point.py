"""The cost of a map by row whose kernel has a parameter for each point, w_ij = w(f_ij; theta_i), in linear time.

As in ``_neighbor_objective``, with two kernels in each pair. Near, g = -w'/w and s = -q D_near::

    grad_i = 2 sum_j (s_ij g(f_ij; theta_i) + s_ji g(f_ij; theta_j)) (y_i - y_j)

Far, row i has ``b H_i + mass_i ln S_i``, H_i = sum_j q ln q and mass_i = sum_j s_ij. Between the nodes of
``far.per_point`` both are interpolated, sum_m l_m(theta_i) [b H_i + mass_i ln S_i] under theta_m. So the far part of
the gradient is a sum over the nodes, of that of a map with the kernel of the node in which the row of i counts
l_m(theta_i) times. Under KL it is the gradient of the cost that is reported.

Under KL, theta_i enters the cost of its own row alone; with m_i = sum_j p_ij, which is 1 or, for an empty row, 0::

    dC/dtheta_i = m_i d ln S_i / dtheta_i - sum_j p_ij d ln w_ij / dtheta_i

Source: Kitazono, Grozavu, Rogovschi, Omori & Ozawa, "t-distributed stochastic neighbor embedding with inhomogeneous
degrees of freedom" (ICONIP 2016), for learned degrees of freedom; interpolation between kernels is our own.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL
from nearfar.far.fields import ExactField, Field, Potential, Term
from nearfar.far.per_point import ExactPerPoint, NodeFields, family_of, log_weight, pull, rise, typed_kernel
from nearfar.kernels import InhomogeneousStudentT, exp
from nearfar.maps.objective import (
    NeighborObjective,
    _buffers,
    _entry_cost,
    _jensen_shannon,
    _write_offsets,
    is_linear_time,
    row_normalizer,
)

# ------------------------------------------------------------
# Kernels of the near part of a map by row whose kernel differs from point to point, gathered row by row.
#
# Names as in ``_neighbor_kernels``; ``kernel`` is (family, units, theta) of ``far._per_point_kernels``.


@jit(fastmath=FAST, error_model="numpy")
def pull_rows(indptr, columns, near, kernel, divergence, inverse_S, factor, Y, out, mass, start, stop):
    """Write factor * sum_j (s_ij g_ij + s_ji g_ji)(y_i - y_j), g = -w'/w, and the mass sum_j s_ij of what moves with Y.

    ``near`` are the parts of s_ij and s_ji that stay (KL, NeRV), and what those that move are made of.
    """
    family, units, theta = kernel
    offsets, f, k = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, fixed_back = columns[begin:end], near[0][begin:end], near[1][begin:end]
        own, back = near[2][begin:end], near[3][begin:end]
        _write_offsets(Y, i, neighbors, offsets, f)
        a, scale, total = theta[i], inverse_S[i], out.dtype.type(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            b = theta[j]
            s, s_back = _moving(divergence, kernel, t, own, back, a, b, f[t], scale, inverse_S[j])
            total += s
            if len(divergence[0]) == 0 or len(divergence[0]) == 2:
                s, s_back = s + fixed[t], s_back + fixed_back[t]
            k[t] = s * pull(family, units, a, f[t]) + s_back * pull(family, units, b, f[t])
        mass[i] = total
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy")
def _moving(divergence, kernel, t, own, back, a, b, f, scale, scale_back):
    """Return the parts of s_ij and s_ji that move with Y; s is -q D_near, 0 where p = 0."""
    code, parameters = divergence
    family, units, _ = kernel
    if len(code) == 0:  # KL
        return f - f, f - f
    q, q_back = scale * exp(log_weight(family, units, a, f)), scale_back * exp(log_weight(family, units, b, f))
    if len(code) <= 2:  # reverse KL, NeRV
        return q * own[t], q_back * back[t]
    return _jensen_shannon(parameters, own[t], q), _jensen_shannon(parameters, back[t], q_back)


@jit(fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, divergence, log_S, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    indptr, columns, own, _ = graph
    family, units, theta = kernel
    code, parameters = divergence
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, shift, a = own[begin : begin + m], log_S[i], theta[i]
        for t in range(m):
            costs[t] = _entry_cost(code, parameters, p[t], log_weight(family, units, a, f[t]) - shift)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost


@jit(fastmath=FAST, error_model="numpy")
def near_rises(graph, kernel, Y, out, start, stop):
    """Write sum_j p_ij d ln w_ij / d theta_i."""
    indptr, columns, own, _ = graph
    family, units, theta = kernel
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, a, total = own[begin : begin + m], theta[i], out.dtype.type(0)
        for t in range(m):
            total += p[t] * rise(family, units, a, f[t])
        out[i] = total


LEARN_FROM = 50
"""Iteration from which degrees of freedom are learned: before, the map has no form."""
LEAST, MOST = 0.5, 100.0
"""Degrees of freedom that are learned stay in between. Beyond, the cost does not fall any more: with more the kernel is
nearly the exponential one, and fewer narrow it, which a mesh would have to follow."""
NODE_ERROR, FINE_NODE_ERROR = 0.01, 0.002
"""Error of a kernel between nodes; the second for other divergences than KL, where large forces cancel."""
_OF_ERROR = 1e-4  # as in _neighbor_objective, of a node: what it adds to a row is less by its coefficient
# Of ln nu: first step, factors after one that went on and one that turned round, shortest and longest step.
_STEP, _UP, _DOWN, _SHORTEST, _LONGEST = 0.05, 1.2, 0.5, 1e-4, 0.1


def is_per_point(kernel: Any, divergence: Any, normalization: str) -> bool:
    """Return whether :func:`per_point_objective` knows this combination."""
    family = family_of(kernel)
    return family is not None and normalization == "row" and is_linear_time(family.kernel_of(1.0), divergence, "row")


def per_point_objective(
    P: Any, kernel: Any, divergence: Any, field: Field, *, dtype: Any, n_jobs: int, learner: Learner | None = None
) -> PerPointObjective:
    """Return the objective of a map by row, exact where the field is, else by nodes.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Rows of sum 1, or empty.
    kernel : Exponential or InhomogeneousStudentT
        With n parameters.
    divergence : MapDivergence
    field : Field
        For one kernel.
    dtype : dtype
    n_jobs : int
    learner : Learner, optional
        Moves the parameters; KL and inhomogeneous Student's t only.
    """
    if isinstance(field, ExactField):
        return PerPointObjective(P, kernel, divergence, ExactPerPoint(), dtype=dtype, n_jobs=n_jobs, learner=learner)
    error = NODE_ERROR if isinstance(divergence.limit(), KL) else FINE_NODE_ERROR
    nodes = NodeFields(field, error, limits=None if learner is None else (LEAST, MOST))
    return NodesObjective(P, kernel, divergence, nodes, dtype=dtype, n_jobs=n_jobs, learner=learner)


class Learner:
    """Degrees of freedom on their way.

    In each iteration each ln nu_i takes a step against the sign of its derivative; steps get longer while the sign
    stays, and half as long when it turns (Riedmiller & Braun 1993, "A direct adaptive method for faster
    backpropagation learning": RPROP). So nu_i stays positive, and no learning rate is to be found.

    Parameters
    ----------
    n : int
        Points.
    together : bool
        One number of degrees of freedom for all points.
    """

    def __init__(self, n: int, *, together: bool) -> None:
        self._together = together
        self._steps, self._signs = np.full(n, _STEP), np.zeros(n)

    def moved(self, nu: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the next degrees of freedom."""
        if self._together:
            gradient = np.full_like(gradient, gradient.sum())
        signs = np.sign(gradient)
        turned = signs * self._signs
        self._steps *= np.where(turned > 0, _UP, np.where(turned < 0, _DOWN, 1.0))
        self._steps.clip(_SHORTEST, _LONGEST, out=self._steps)
        self._signs = signs
        return np.asarray((nu * np.exp(-self._steps * signs)).clip(LEAST, MOST))

    def reorder(self, order: NDArray[np.integer[Any]]) -> None:
        """Let row r be what row ``order[r]`` was."""
        self._steps, self._signs = self._steps[order], self._signs[order]


class PerPointObjective(NeighborObjective):
    """The built-in divergences by row, under a kernel with a parameter for each point; see per_point_objective."""

    _near_cost = staticmethod(near_cost)
    _field: Any  # one that knows of parameters per point

    def __init__(
        self, P: Any, kernel: Any, divergence: Any, field: Any, *, dtype: Any, n_jobs: int, learner: Learner | None
    ) -> None:
        super().__init__(P, kernel, divergence, "row", field, dtype=dtype, n_jobs=n_jobs)
        self._learner = learner

    def _take(self, kernel: Any) -> None:
        self.kernel, self._compiled_kernel = kernel, typed_kernel(kernel, self._dtype)

    def _set_divergence(self, divergence: Any) -> None:
        super()._set_divergence(divergence)
        own, back = self._graph[2:]
        none, code = own[:0], self._compiled_divergence[0]
        lam = 1.0 if isinstance(self._divergence, KL) else self._compiled_divergence[1][0]
        fixed = (lam * own, lam * back) if len(code) in (0, 2) else (none, none)
        moving = (none, none) if len(code) == 0 else self._strengths[1:]
        self._strengths = *fixed, *moving

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The parameters of the kernel, in the order of the rows."""
        family = family_of(self.kernel)
        assert family is not None
        return np.asarray(getattr(self.kernel, family.parameter), np.float64)

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was."""
        family = family_of(self.kernel)
        assert family is not None
        self._take(family.kernel_of(self.parameters[order]))
        if self._learner is not None:
            self._learner.reorder(order)
        return super().reorder(order)

    def advance(self, Y: Floats, iteration: int) -> None:
        """Let the parameters take a step, if they are learned."""
        if self._learner is not None and iteration >= LEARN_FROM:
            nu = self._learner.moved(self.parameters, self.parameter_gradient(Y))
            self._take(InhomogeneousStudentT(nu))  # type: ignore[arg-type]

    def parameter_gradient(self, Y: Floats) -> NDArray[np.float64]:
        """Return dC/dtheta_i under KL at the positions where ``evaluate`` was called last, shape (n,)."""
        near = np.empty(self._n, Y.dtype)
        run_blocks(
            lambda _block, start, stop: near_rises(self._graph, self._compiled_kernel, Y, near, start, stop),
            self._bounds,
            self._n_jobs,
        )
        return self._mass_of_p * self._slope_of_log_s() - near

    def _slope_of_log_s(self) -> NDArray[np.float64]:
        """Return d ln S_i / dtheta_i."""
        return np.asarray(self._field.rises() / self._S)

    def _normalizer(self, weights: Potential) -> NDArray[np.float64]:
        self._S = super()._normalizer(weights)
        return self._S

    def _pull(self, Y: Floats, S: NDArray[np.float64], exaggeration: float) -> None:
        factor, inverse = Y.dtype.type(2 * exaggeration), (1 / S).astype(Y.dtype)
        pull: Any = pull_rows
        given = (*self._graph[:2], self._strengths, self._compiled_kernel, self._compiled_divergence, inverse, factor)
        out = (self._near, self._mass)
        run_blocks(lambda _block, start, stop: pull(*given, Y, *out, start, stop), self._bounds, self._n_jobs)
        self._mass += self._mass_fixed


class NodesObjective(PerPointObjective):
    """The same in linear time, its far part interpolated between the kernels of some nodes."""

    def _take(self, kernel: Any) -> None:
        super()._take(kernel)
        self._field.take(kernel)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        b = self._divergence.far_log
        terms = [Term("weight"), Term("entropy")] if b else [Term("weight")]
        self._field.place(Y, self._n_jobs)
        found = [field.evaluate(terms) for field in self._field.fields]
        normalizers = [row_normalizer(f, one[0], _OF_ERROR) for f, one in zip(self._field.fields, found, strict=True)]
        sums = [self._q_ln_q(one, S) if b else np.zeros(1) for one, S in zip(found, normalizers, strict=True)]
        self._log_S = np.log(normalizers)
        coefficients = self._field.coefficients
        S = np.exp((coefficients * self._log_S).sum(axis=0))
        self._pull(Y, S, exaggeration)
        for node in zip(self._field.fields, found, normalizers, sums, coefficients, strict=True):
            self._far_by_row(*node)
        return self._near, self._cost(Y, S, (coefficients * sums).sum(axis=0)) if cost else None

    def _slope_of_log_s(self) -> NDArray[np.float64]:
        return np.asarray((self._field.slopes() * self._log_S).sum(axis=0))
