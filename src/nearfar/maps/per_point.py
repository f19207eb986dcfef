"""The cost of a map by row whose kernel has a parameter for each point, w_ij = w(f_ij; theta_i), in linear time.

As in :mod:`nearfar.maps.objective`, with two kernels in each pair. Near, g = -w'/w and s = -q D_near::

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

from nearfar._core.jit import bind, jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Field, Floats
from nearfar.far.fields import Term
from nearfar.far.per_point import ExactPerPoint, NodeFields, per_point_kernel
from nearfar.kernels import InhomogeneousStudentT, exp, family_of
from nearfar.maps.objective import (
    NeighborObjective,
    buffers,
    is_linear_time,
    row_normalizer,
    row_sums,
    write_offsets,
)

LEARN_FROM = 50
"""Iteration from which degrees of freedom are learned: before, the map has no form."""
LEAST, MOST = 0.5, 100.0
"""Degrees of freedom that are learned stay in between. Beyond, the cost does not fall any more: with more the kernel is
nearly the exponential one, and fewer narrow it, which a mesh would have to follow."""
_OF_ERROR = 1e-4  # as in maps.objective, of a node: what it adds to a row is less by its coefficient
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
    kernel : Exponential, HeavyTailed or InhomogeneousStudentT
        With n parameters.
    divergence : MapDivergence
    field : Field
        For one kernel.
    dtype : dtype
    n_jobs : int
    learner : Learner, optional
        Moves the parameters; KL and inhomogeneous Student's t only.
    """
    if getattr(field, "pair_by_pair", False):
        return PerPointObjective(P, kernel, divergence, ExactPerPoint(), dtype=dtype, n_jobs=n_jobs, learner=learner)
    nodes = NodeFields(field, divergence.limit().accuracy.nodes, limits=None if learner is None else (LEAST, MOST))
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
    """Divergences with formulas by row, under a kernel with a parameter for each point; see per_point_objective."""

    _field: Any  # one that knows of parameters per point
    _per_point = True

    def __init__(
        self, P: Any, kernel: Any, divergence: Any, field: Any, *, dtype: Any, n_jobs: int, learner: Learner | None
    ) -> None:
        super().__init__(P, kernel, divergence, "row", field, dtype=dtype, n_jobs=n_jobs)
        self._learner = learner

    def _set_kernel(self, kernel: Any) -> None:
        self.kernel, self._near_cost = kernel, near_cost_per_point
        self._functions, self._parameters = per_point_kernel(kernel, self._dtype)  # type: ignore[assignment]

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The parameters of the kernel, in the order of the rows."""
        return np.asarray(getattr(self.kernel, self.kernel.family.parameter), np.float64)

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was."""
        self._set_kernel(self.kernel.family.kernel_of(self.parameters[order]))
        if self._learner is not None:
            self._learner.reorder(order)
        return super().reorder(order)

    def advance(self, Y: Floats, iteration: int) -> None:
        """Let the parameters take a step, if they are learned."""
        if self._learner is not None and iteration >= LEARN_FROM:
            nu = self._learner.moved(self.parameters, self.parameter_gradient(Y))
            self._set_kernel(InhomogeneousStudentT(nu))  # type: ignore[arg-type]

    def parameter_gradient(self, Y: Floats) -> NDArray[np.float64]:
        """Return dC/dtheta_i under KL at the positions where ``evaluate`` was called last, shape (n,)."""
        near, rises = np.empty(self._n, Y.dtype), bind(near_rises, self._functions)
        shared = self._pattern[:3], self._parameters, Y, near
        run_blocks(lambda _block, start, stop: rises(*shared, start, stop), self._bounds, self._n_jobs)
        return row_sums(self._pattern[0], self._pattern[2]) * self._slope_of_log_s() - near

    def _slope_of_log_s(self) -> NDArray[np.float64]:
        """Return d ln S_i / dtheta_i."""
        return np.asarray(self._field.rises() / self._S)

    def _attract(self, Y: Floats, S: NDArray[np.float64], exaggeration: float) -> None:
        near = bind(attraction_per_point, (self._functions, self._strength, self._kind))
        factor, inverse = Y.dtype.type(2 * exaggeration), (1 / S).astype(Y.dtype)
        numbers = self._parameters, self._cost_parameters, inverse, factor, self._smallest
        shared = (*self._pattern[:2], *self._strengths), numbers, Y, (self._near, self._mass)
        run_blocks(lambda _block, start, stop: near(*shared, start, stop), self._bounds, self._n_jobs)
        self._mass += self._mass_fixed


class NodesObjective(PerPointObjective):
    """The same in linear time, its far part interpolated between the kernels of some nodes."""

    def _set_kernel(self, kernel: Any) -> None:
        super()._set_kernel(kernel)
        self._field.take(kernel)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        self._prepare()
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        b = self._formulas.far_log
        terms = [Term("weight"), Term("entropy")] if b else [Term("weight")]
        self._field.place(Y, self._n_jobs)
        found = [field.evaluate(terms) for field in self._field.fields]
        normalizers = [row_normalizer(f, one[0], _OF_ERROR) for f, one in zip(self._field.fields, found, strict=True)]
        sums = [self._q_ln_q(one, S) if b else np.zeros(1) for one, S in zip(found, normalizers, strict=True)]
        self._log_S = np.log(normalizers)
        coefficients = self._field.coefficients
        S = np.exp((coefficients * self._log_S).sum(axis=0))
        self._attract(Y, S, exaggeration)
        for node in zip(self._field.fields, found, normalizers, sums, coefficients, strict=True):
            self._near += node[0].total(self._repel_by_row(*node[1:])).gradient
        return self._near, self._cost(Y, S, (coefficients * sums).sum(axis=0)) if cost else None

    def _slope_of_log_s(self) -> NDArray[np.float64]:
        return np.asarray((self._field.slopes() * self._log_S).sum(axis=0))


# Compiled, as in maps.objective; ``functions`` are those of a Family, ``parameters`` (theta, its numbers).


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_per_point(functions, near, numbers, Y, out, start, stop):
    """Write factor * sum_j (s_ij g_ij + s_ji g_ji)(y_i - y_j), g = -w'/w, and the mass sum_j s_ij of what moves with Y.

    ``near`` has the parts of s_ij and s_ji that stay, and what those that move are made of.
    """
    kernel, strength, kind = functions
    indptr, columns, fixed, fixed_back, u_ij, u_ji = near
    (theta, units), of_divergence, inverse_S, factor, smallest = numbers
    (gradient, mass), scalar = out, Y.dtype.type
    offsets, f, k = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors = columns[begin:end]
        forth, back = (fixed[begin:end], u_ij[begin:end]), (fixed_back[begin:end], u_ji[begin:end])
        write_offsets(Y, i, neighbors, offsets, f)
        a, scale, total = theta[i], inverse_S[i], scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            b = theta[j]
            q = scale * exp(kernel.log_weight(f[t], a, *units))
            q_back = inverse_S[j] * exp(kernel.log_weight(f[t], b, *units))
            s, s_all = _one_way(strength, kind, forth, t, max(q, smallest), of_divergence)
            s_back = _one_way(strength, kind, back, t, max(q_back, smallest), of_divergence)[1]
            total += scalar(s)
            g, g_back = kernel.neg_log_slope(f[t], a, *units), kernel.neg_log_slope(f[t], b, *units)
            k[t] = scalar(s_all) * g + scalar(s_back) * g_back
        mass[i] = total
        for c in range(gradient.shape[1]):
            g = scalar(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _one_way(strength, kind, near, t, q, parameters):
    """Return the part of s_ij that depends on q, and all of it."""
    fixed, u = near
    s = q - q
    if kind[1]:
        s = strength(u[t], q, *parameters)
    both = s
    if kind[0]:
        both += fixed[t]
    return s, both


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_cost_per_point(functions, pattern, parameters, numbers, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    kernel, entry_cost = functions
    (indptr, columns, p_ij), (theta, units) = pattern, parameters
    log_S, of_divergence, smallest = numbers
    cost = 0.0
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            if p_ij[e] > 0:
                j, f = columns[e], Y.dtype.type(0)
                for c in range(Y.shape[1]):
                    difference = Y[i, c] - Y[j, c]
                    f += difference * difference
                log_q = kernel.log_weight(f, theta[i], *units) - log_S[i]
                q = max(exp(log_q), smallest)
                cost += np.float64(entry_cost(max(p_ij[e], smallest), q, log_q, *of_divergence))
    return cost


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_rises(kernel, pattern, parameters, Y, out, start, stop):
    """Write sum_j p_ij d ln w_ij / d theta_i."""
    (indptr, columns, p_ij), (theta, units) = pattern, parameters
    offsets, f, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, a, total = p_ij[begin : begin + m], theta[i], out.dtype.type(0)
        for t in range(m):
            total += p[t] * kernel.rise(f[t], a, *units)
        out[i] = total
