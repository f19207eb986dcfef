"""Sums over all pairs of points where kernels differ from point to point: w_ij = w(f_ij; theta_i), which is asymmetric.

Pair by pair, a map by row asks for two kinds of potentials, which under one kernel everywhere are the same::

    ``evaluate``    sum_j c_j V(f_ij; theta_i)      each point looks at the others by its own kernel
    ``total``       sum_j c_j V(f_ij; theta_j)      each of the others is seen by its kernel: the gradient alone

In linear time the same is done on a mesh, see :mod:`nearfar.far.alike`. Other fields are those of the kernels of a few
nodes (:mod:`nearfar.far.nodes`), between which each row is interpolated; see :mod:`nearfar.maps.per_point` for what a
map makes of them.
"""
# mypy: disable-error-code="misc,no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.jit import bind
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles
from nearfar.contracts import Floats, Kernel, Potential, Term
from nearfar.far.fields import CHUNK, check_positions, term_charges
from nearfar.far.mesh import Buffers
from nearfar.far.per_point_loops import add_columns, pair_sums
from nearfar.kernels import Family, family_of

_ROWS = 256  # of one block
_WHOLE = 32  # numbers that a loop takes at a time
_KEPT = 2**22  # slopes of all pairs, up to which they are kept until the sums by the kernels of the others


class ExactPerPoint:
    """All pairs of points, any number of components; O(n²) time, O(n) memory, of 16 MiB at most beside it.

    Each pair takes its logarithm and exponential once: what the others find by the kernel of a point is summed from the
    slopes that it finds itself.
    """

    with_rises = True
    """Whether ``evaluate`` finds what ``rises`` returns, too: a tenth of its time."""

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
            self.with_rises = True
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
        learns = self.with_rises and term.charges is None and stop - start == n
        kind = len(self._Y) == 2, term.potential == "entropy", learns
        out, sums = np.empty((2 + len(self._Y), n), scalar), bind(pair_sums, (self._functions, kind))
        shared = self._Y, self._parameters, self._charges(term), (out, slopes, start)
        bounds = start + even_bounds(stop - start, _ROWS)
        run_blocks(lambda _block, first, last: sums(*shared, first, last), bounds, self._n_jobs)
        if learns:
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
