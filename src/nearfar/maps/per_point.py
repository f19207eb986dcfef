"""The objective of a map by row whose kernel has a parameter for each point: sums over all pairs, on all threads.

The cost is that of :mod:`nearfar.methods.maps`. A row says all of its own forces: S_i, the mean of q D, and so k_ij
for all j. So each pair is looked at twice, once from either side, in the memory of some rows.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.jit import bind, jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles, FloatType
from nearfar._core.vector import FAST
from nearfar._core.warn import warn_user
from nearfar.contracts import Divergence, Floats, Kernel, Objective
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.far.fields import CHUNK
from nearfar.kernels import InhomogeneousStudentT, exp, rise
from nearfar.methods.descent import SignSteps
from nearfar.methods.maps import LEAST_S, AllPairs, Cost, slopes_in_nu

MOST_POINTS = 20_000
"""Points of a map whose pairs are all summed in every iteration, under a kernel with a parameter for each point."""
_ROWS, _BLOCKS = 64, 32  # of a block, at least; as many sums over all points are in memory
COMPILED, IN_NUMPY = 4e8, 1e7
"""How many pairs a thread does in a second: measured with 5,000 points in a plane, on a processor with AVX2."""
_LONG = 600  # seconds


def check_points(owner: str, n: int, n_iter: int, n_jobs: int, pairs_a_second: float | None) -> None:
    """Refuse sums over all pairs of too many points; say how long those of many will take. None: there are none."""
    if pairs_a_second is None:
        return
    if n > MOST_POINTS:
        expected = f"at most {MOST_POINTS:,} rows for a kernel with a parameter for each point"
        hint = "Take a kernel that is the same for all points, or a sample of the rows: transform places the others."
        raise InputError(owner, "X", expected, f"{n:,} rows", hint)
    seconds = n * n * n_iter / (pairs_a_second * n_jobs)
    if seconds > _LONG:
        warn_user(
            f"{owner}: {n_iter} iterations over all pairs of {n:,} points will take about {seconds / 60:.0f} minutes "
            f"on {n_jobs} threads."
        )


class PerPointObjective(Objective):
    """Divergences with formulas by row, under a kernel with a parameter for each point.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Rows of sum 1, or empty, without a diagonal.
    kernel : Exponential, HeavyTailed or InhomogeneousStudentT
        With n parameters.
    divergence : Divergence
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    """

    learns = False
    """Whether ``evaluate`` also finds dC/dnu: for KL and the inhomogeneous Student's t."""
    slopes: Doubles
    """dC/dnu_i where ``evaluate`` was called last, if it ``learns``."""

    def __init__(self, P: csr_array, kernel: Kernel, divergence: Divergence, *, dtype: FloatType, n_jobs: int) -> None:
        self.cost = Cost(kernel, divergence, True, P.shape[0], np.dtype(dtype))
        self._P, self._n_jobs = P.astype(dtype), n_jobs
        self._pattern = P.indptr.astype(np.int64), P.indices.astype(np.int64)  # one type: the loop is compiled for it

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        n, dtype, of_divergence = len(Y), Y.dtype, self.cost.formulas
        of_kernel = self.cost.kernel.formulas()  # type: ignore[attr-defined]
        functions = of_kernel.log_weight, of_kernel.neg_log_slope, rise, *self.cost.compiled[1:]
        sums = bind(row_sums, (self.learns, *functions))  # a tuple of functions alone would be one of pointers
        parameters = np.zeros((3, n), dtype)
        for row, value in zip(parameters, of_kernel.parameters, strict=False):
            row[:] = value
        p = self._P.data
        fixed = np.zeros_like(p) if of_divergence.fixed is None else of_divergence.fixed(p)
        moving = p if of_divergence.prepared is None else np.asarray(of_divergence.prepared(p), dtype)
        P = *self._pattern, p, fixed, moving
        numbers = tuple(map(dtype.type, (self.cost.smallest, of_divergence.far_log, exaggeration)))
        of_rows, rows = np.empty((2, n)), np.ascontiguousarray(Y.T)
        shared = rows, parameters, P, (*numbers, tuple(map(dtype.type, of_divergence.parameters)))

        def task(_block: int, start: int, stop: int) -> Floats:
            forces = np.zeros_like(rows)
            sums(*shared, (forces, of_rows), start, stop)
            return forces

        blocks = run_blocks(task, even_bounds(n, max(_ROWS, -(-n // _BLOCKS))), self._n_jobs)
        gradient = np.ascontiguousarray(np.sum(blocks, axis=0, dtype=np.float64).T, dtype)
        self.slopes = of_rows[1]
        return gradient, float(of_rows[0].sum() + of_divergence.constant * n) if cost else None

    def early(self, kernel: Kernel | None = None) -> Self:  # noqa: ARG002 - no phase gives one for these kernels
        """Return the same with KL."""
        other = copy.copy(self)
        other.cost = Cost(self.cost.kernel, KL(), True, self.cost.n, self.cost.dtype)
        return other


NU_FROM = 50
"""Iteration from which degrees of freedom are learned: before, the map has no form."""
NU_EVERY = 2
"""Iterations between two of their steps."""
NU_LEAST, NU_MOST = 0.5, 100.0
"""Degrees of freedom that are learned stay in between. Beyond, the cost does not fall any more: with more the kernel is
nearly the exponential one."""


class LearnedObjective(PerPointObjective):
    """KL by row under degrees of freedom that are on their way.

    Parameters
    ----------
    P : csr_array of shape (n, n)
    nu : ndarray of shape (n,)
        At the start; then as they are.
    together : bool
        One number of degrees of freedom for all points.
    plain : bool
        Whether nothing is compiled.
    dtype, n_jobs
        As for :class:`PerPointObjective`.
    """

    def __init__(
        self, P: csr_array, nu: Doubles, *, together: bool, plain: bool, dtype: FloatType, n_jobs: int
    ) -> None:
        super().__init__(P, InhomogeneousStudentT(nu), KL(), dtype=dtype, n_jobs=n_jobs)
        self.nu, self._together, self._plain, self.learns = nu, together, plain, True
        self._steps = SignSteps(np.full(len(nu), 0.1), 1e-4, 0.2, NU_LEAST, NU_MOST)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated, and the true cost if it is asked for."""
        if not self._plain:
            return super().evaluate(Y, exaggeration, cost=cost)
        if self.learns:
            self.slopes = slopes_in_nu(Y, self._P, self.nu, slice(0, len(Y)))
        return AllPairs(self._P, self.cost.kernel, KL(), "row").evaluate(Y, exaggeration, cost=cost)

    def advance(self, Y: Floats, iteration: int) -> None:  # noqa: ARG002 - where it was evaluated last
        """Let the degrees of freedom take a step, where it is their turn."""
        if self.learns and iteration >= NU_FROM:
            slopes = self.slopes.sum() if self._together else self.slopes
            self.nu = np.asarray(self._steps.moved(self.nu, slopes), np.float64)
            self.cost = replace(self.cost, kernel=InhomogeneousStudentT(self.nu))
        self.learns = iteration + 1 >= NU_FROM and (iteration + 1) % NU_EVERY == 0


@jit(fastmath=FAST, error_model="numpy", inline="always")
def row_sums(functions, Y, parameters, P, numbers, outs, start, stop):
    """Add 2 k_ij (y_i - y_j) of rows ``start`` to ``stop`` to the forces on all points; write their costs and slopes.

    ``functions`` are whether the kernel is learned, its functions, and those of the divergence. Y and the forces are
    (d, n), ``P`` has what strengths are made of beside its entries. The slopes are dC/dnu_i.
    """
    learns, _, neg_log_slope, rise_of, strength, entry_cost = functions
    (indptr, columns, p, fixed, moving), (forces, of_rows) = P, outs
    smallest, b, alpha, of_divergence = numbers
    (d, n), scalar, longest = Y.shape, Y.dtype.type, 0
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    f, log_w, k, s = np.empty(n, Y.dtype), np.empty(n, Y.dtype), np.empty(n, Y.dtype), np.empty(longest, Y.dtype)
    sums = np.empty(3)
    for i in range(start, stop):
        theta = parameters[0, i], parameters[1, i], parameters[2, i]
        f[:] = scalar(0)
        for c in range(d):
            own, others = Y[c, i], Y[c]
            for j in range(n):
                f[j] += (own - others[j]) * (own - others[j])
        log_w[i] = k[i] = scalar(0)
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk(functions, theta, f[first:last], (log_w[first:last], k[first:last]), sums)
            first = last
        S = max(sums[0], LEAST_S)
        log_S = np.log(S)
        H = min(sums[1] / S - log_S, 0.0)  # sum of q ln q
        begin, mass, cost, slope = indptr[i], 0.0, 0.0, 0.0
        for t in range(indptr[i + 1] - begin):
            j, e = columns[begin + t], begin + t
            log_q = log_w[j] - scalar(log_S)
            q = max(exp(log_q), smallest)
            s[t] = fixed[e] + scalar(strength(moving[e], q, *of_divergence))
            cost += np.float64(entry_cost(max(p[e], smallest), q, log_q, *of_divergence))
            mass += s[t]
            if learns:
                slope += s[t] * rise_of(f[j], *theta)
        level, of_log = scalar((b * (H + log_S) - mass) / S), scalar(b / S)
        for j in range(n):
            k[j] *= level - of_log * log_w[j]
        for t in range(indptr[i + 1] - begin):
            j = columns[begin + t]
            k[j] += alpha * s[t] * neg_log_slope(f[j], *theta)
        for c in range(d):
            own, others, out, force = Y[c, i], Y[c], forces[c], scalar(0)
            for j in range(n):
                one = (k[j] + k[j]) * (own - others[j])
                out[j] -= one
                force += one
            out[i] += force
        of_rows[0, i] = cost + b * H
        of_rows[1, i] = mass * sums[2] / S - slope


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_chunk(functions, theta, f, outs, sums):
    """Write ln w and -w' of some others, and add w, w ln w and dw/dnu."""
    learns, log_weight, neg_log_slope, rise_of, _, _ = functions
    (log_w, k), zero = outs, f.dtype.type(0)
    S, E, R = zero, zero, zero
    for j in range(len(f)):
        log = log_weight(f[j], *theta)
        w = exp(log)
        log_w[j] = log
        k[j] = w * neg_log_slope(f[j], *theta)
        S += w
        E += w * log
        if learns:
            R += w * rise_of(f[j], *theta)
    sums[0] += S
    sums[1] += E
    sums[2] += R
