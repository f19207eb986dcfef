"""Sums over all pairs of points where kernels differ from point to point: w_ij = w(f_ij; theta_i), which is asymmetric.

Pair by pair, a map by row asks for two kinds of potentials, which under one kernel everywhere are the same::

    ``evaluate``    sum_j c_j V(f_ij; theta_i)      each point looks at the others by its own kernel
    ``total``       sum_j c_j V(f_ij; theta_j)      each of the others is seen by its kernel: the gradient alone

In linear time the same is done on a mesh, see :mod:`nearfar.far.alike`. Other fields are those of the kernels of a few
nodes (:mod:`nearfar.far.nodes`), between which each row is interpolated; see :mod:`nearfar.maps.per_point` for what a
map makes of them.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.jit import bind, jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles
from nearfar._core.vector import FAST
from nearfar.contracts import Floats, Kernel, Potential, Term
from nearfar.far.fields import CHUNK, check_positions, term_charges
from nearfar.far.mesh import Buffers
from nearfar.kernels import Family, family_of

_ROWS = 256  # of one block
_WHOLE = 32  # numbers that a loop takes at a time
_KEPT = 2**22  # slopes of all pairs, up to which they are kept until the sums by the kernels of the others


class ExactPerPoint:
    """All pairs of points, any number of components; O(n²) time, O(n) memory, of 16 MiB at most beside it.

    Each pair takes its logarithm and exponential once: what the others find by the kernel of a point is summed from the
    slopes that it finds itself.
    """

    def __init__(self) -> None:
        self._buffers = Buffers()

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions, shape (n, d), and a kernel with n parameters."""
        check_positions("ExactField", Y)
        self._n, self._n_jobs = len(Y), n_jobs
        self._Y = np.zeros((Y.shape[1], -(-self._n // _WHOLE) * _WHOLE), Y.dtype)
        self._Y[:, : self._n] = Y.T
        self._functions, self._parameters = per_point_kernel(kernel, Y.dtype)
        self._rises: Floats | None = None
        self._slopes: dict[str, Floats] = {}

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return what each point finds by its own kernel, a potential per term."""
        (d, width), n = self._Y.shape, self._n
        found = []
        for term in terms:
            size = (n, width) if n * width <= _KEPT else (0, 0)
            slopes = self._buffers.take(term.potential, size, self._Y.dtype)
            out = self._sums(term, slopes, 0, n)
            if slopes.size:
                self._slopes[term.potential] = slopes
            found.append(Potential(out[0], np.ascontiguousarray(out[1 : 1 + d].T)))
        return found

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials by the kernels of the others: the gradient, no values."""
        (d, width), n, dtype = self._Y.shape, self._n, self._Y.dtype
        out, rows = np.zeros((n, d)), min(CHUNK, max(1, _KEPT // width))
        for term in terms:
            charges, kept = self._charges(term), self._slopes.get(term.potential)
            for start in range(0, n, rows):
                stop = min(start + rows, n)
                slopes = np.empty((stop - start, width), dtype) if kept is None else kept[start:stop]
                if kept is None:
                    self._sums(Term(term.potential), slopes, start, stop)
                given = self._Y, slopes, charges, start, out
                run_blocks(
                    lambda _, first, last, given=given: add_columns(*given, first, last),
                    even_bounds(n, _ROWS),
                    self._n_jobs,
                )
        return Potential(np.empty(0, dtype), out.astype(dtype))

    def rises(self) -> NDArray[np.float64]:
        """Return sum_j dw_ij / dtheta_i, shape (n,)."""
        if self._rises is None:
            self.evaluate([Term("weight")])
        return np.asarray(self._rises, np.float64)

    def _charges(self, term: Term) -> Floats:
        """Return the charges, zeros for the columns that are no points."""
        given = term_charges("ExactField", term, self._n, self._Y.dtype)
        charges = np.zeros(self._Y.shape[1], self._Y.dtype)
        charges[: self._n] = 1 if given is None else given
        return charges

    def _sums(self, term: Term, slopes: Floats, start: int, stop: int) -> Floats:
        """Return value, gradient and, kept as a by-product, sums of dw/dtheta of some rows; write their slopes."""
        n, scalar = self._n, self._Y.dtype.type
        kind = len(self._Y) == 2, term.potential == "entropy"
        out, sums = np.empty((2 + len(self._Y), n), scalar), bind(pair_sums, (self._functions, kind))
        shared = self._Y, self._parameters, self._charges(term), (out, slopes, start)
        bounds = start + even_bounds(stop - start, _ROWS)
        run_blocks(lambda _block, first, last: sums(*shared, first, last), bounds, self._n_jobs)
        if term.charges is None and stop - start == n:
            self._rises = out[-1]
        return out


class PerPointFunctions(NamedTuple):
    """Compiled functions of (f, theta, 1, another number); ``name`` as in :class:`nearfar.kernels.KernelFunctions`."""

    name: None
    log_weight: Callable[..., Floats]
    neg_log_slope: Callable[..., Floats]
    rise: Callable[..., Floats]
    together: Callable[..., tuple[Floats, ...]]


def per_point_kernel(
    kernel: Kernel, dtype: DTypeLike
) -> tuple[PerPointFunctions, tuple[Floats, tuple[np.floating, np.floating]]]:
    """Return the compiled functions of a kernel, and (theta of all points, its numbers) in a type."""
    family, theta = parts_of(kernel)
    one, other = map(np.dtype(dtype).type, family.numbers)
    functions = PerPointFunctions(None, family.log_weight, family.neg_log_slope, family.rise, family.together)
    return functions, (np.ascontiguousarray(theta, dtype=dtype), (one, other))


def parts_of(kernel: Kernel) -> tuple[Family, Doubles]:
    """Return the family of a kernel with a parameter for each point, and the parameters."""
    family = family_of(kernel)
    assert family is not None
    return family, np.asarray(getattr(kernel, family.parameter), np.float64)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def pair_sums(functions, Y, parameters, given, outs, start, stop):
    """Write value and gradient of a potential, and sums of c dw/dtheta, at rows ``start`` to ``stop``.

    ``functions`` are those of the kernel, whether there are two components, and whether the potential is w ln w - w.
    Y is (d, columns), zeros behind the points, so that no loop has a remainder that is no vector; ``given`` are the
    charges, zero where there is no point. Of ``outs`` the second takes -V' of each pair, from row ``outs[2]`` on, if it
    has room.
    """
    (d, width), (out, slopes, first_kept), (theta, units) = Y.shape, outs, parameters
    sums, f, forces, charges = np.empty(2 + d), np.empty(CHUNK, Y.dtype), np.empty(width, Y.dtype), given.copy()
    for i in range(start, stop):
        sums[:] = 0.0
        row = slopes[i - first_kept] if slopes.size > 0 else forces
        charges[i] = Y.dtype.type(0)  # the point itself: at distance 0 neither the force nor dw/dtheta is anything
        for first in range(0, width, CHUNK):
            pairs = i, first, min(first + CHUNK, width)
            if functions[1][0]:
                _add_in_plane(functions, Y, pairs, (theta[i], units), charges, row, sums)
            else:
                _add_chunk(functions, Y, pairs, (theta[i], units), charges, row, (f, sums))
        charges[i] = given[i]
        out[0, i] = sums[0]
        for k in range(1, 1 + d):
            out[k, i] = -2.0 * sums[k]
        out[1 + d, i] = sums[1 + d]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_in_plane(functions, Y, pairs, parameters, all_charges, row, sums):
    """Do what ``_add_chunk`` does, with two components."""
    (own, units), (i, first, last), scalar = parameters, pairs, Y.dtype.type
    # Slices, so that no index might be negative, which would keep the loop from vectorising.
    x, y, charges, forces = Y[0, first:last], Y[1, first:last], all_charges[first:last], row[first:last]
    a, b = Y[0, i], Y[1, i]
    total = along = across = rises = scalar(0)
    for j in range(len(x)):
        dx, dy, q = a - x[j], b - y[j], charges[j]
        value, force, rise = _of_pair(functions, dx * dx + dy * dy, own, units)
        forces[j] = force
        total += q * value
        rises += q * rise
        along += q * force * dx
        across += q * force * dy
    sums[0] += total
    sums[1] += along
    sums[2] += across
    sums[3] += rises


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_chunk(functions, Y, pairs, parameters, all_charges, row, outs):
    """Add the others ``first`` to ``last``: sum of c V, of -c V' (y_i - y_j), and of c dw/dtheta; write -V'."""
    (own, units), (i, first, last), (of_f, sums), scalar = parameters, pairs, outs, Y.dtype.type
    d, m, total, rises = len(Y), last - first, scalar(0), scalar(0)
    f, charges, forces = of_f[:m], all_charges[first:last], row[first:last]
    f[:] = scalar(0)
    for k in range(d):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    for j in range(m):
        value, forces[j], rise = _of_pair(functions, f[j], own, units)
        total += charges[j] * value
        rises += charges[j] * rise
    sums[0] += total
    sums[1 + d] += rises
    for k in range(d):
        a, y, total = Y[k, i], Y[k, first:last], scalar(0)
        for j in range(m):
            total += charges[j] * forces[j] * (a - y[j])
        sums[1 + k] += total


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _of_pair(functions, f, own, units):
    """Return V, -V' and dw/dtheta."""
    kernel, kind = functions
    w, log_w, slope, rise = kernel.together(f, own, *units)
    return (w * log_w - w, slope * log_w, rise) if kind[1] else (w, slope, rise)


@jit(fastmath=FAST, error_model="numpy")
def add_columns(Y, slopes, charges, first_row, out, start, stop):
    """Add the gradients at points ``start`` to ``stop`` of what some rows do to them, by the kernels of the rows.

    Four rows together: so the sums are read and written a quarter as often.
    """
    d, m, last = Y.shape[0], stop - start, len(slopes) - 1
    sums, q = np.zeros((d, m), Y.dtype), np.zeros(len(slopes) + 3, Y.dtype)
    q[: len(slopes)] = charges[first_row : first_row + len(slopes)]  # zeros behind the last row
    for r in range(0, len(slopes), 4):
        r1, r2, r3 = min(r + 1, last), min(r + 2, last), min(r + 3, last)
        q0, q1, q2, q3 = q[r], q[r + 1], q[r + 2], q[r + 3]
        row0, row1, row2, row3 = slopes[r], slopes[r1], slopes[r2], slopes[r3]
        row0, row1, row2, row3 = row0[start:stop], row1[start:stop], row2[start:stop], row3[start:stop]
        for k in range(d):
            mine, y, to = Y[k, first_row:], Y[k, start:stop], sums[k]
            a0, a1, a2, a3 = mine[r], mine[r1], mine[r2], mine[r3]
            for j in range(m):
                of_two = q0 * row0[j] * (y[j] - a0) + q1 * row1[j] * (y[j] - a1)
                to[j] += of_two + (q2 * row2[j] * (y[j] - a2) + q3 * row3[j] * (y[j] - a3))
    for k in range(d):
        for j in range(m):
            out[start + j, k] -= 2.0 * sums[k, j]
