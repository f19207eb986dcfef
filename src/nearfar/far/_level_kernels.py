"""Compiled passage between a mesh and one of F times its step, by the two-scale relation of B-splines.

A B-spline of order P and F times the step is the sum of fine ones with the coefficients C of ``filter_``, (F - 1) P + 1
of them. A point in cell c touches the mesh points c .. c + P - 1, so mesh point M of the coarse mesh takes part in
those of the fine mesh from F (M - P + 1) + P - 1 on. Both kernels work on some rows of what they write.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def restrict(fine, width, filter_, factor, coarse, coarse_width, start, stop):
    """Write charges of the fine mesh, ``width`` columns of it, on the coarse one: the transpose of ``prolong``."""
    line = np.empty(width, fine.dtype)
    for M in range(start, stop):
        first = _first(M, filter_.size, factor)
        line[:] = fine.dtype.type(0)
        for k in range(max(0, -first), min(filter_.size, fine.shape[0] - first)):
            c, row = filter_[k], fine[first + k]
            for t in range(width):
                line[t] += c * row[t]
        coarse[M] = fine.dtype.type(0)
        for N in range(coarse_width):
            first, total = _first(N, filter_.size, factor), fine.dtype.type(0)
            for k in range(max(0, -first), min(filter_.size, width - first)):
                total += filter_[k] * line[first + k]
            coarse[M, N] = total


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def prolong(coarse, coarse_width, filter_, factor, fine, width, start, stop):
    """Add the potential of the coarse mesh to the fine one.

    First along the rows of the coarse mesh, which are few, then across them.
    """
    lowest, highest = start // factor, min(coarse.shape[0], (stop - 1 + filter_.size) // factor + 1)
    long = np.zeros((highest - lowest, width), fine.dtype)
    for M in range(lowest, highest):
        line = long[M - lowest]
        for N in range(coarse_width):
            first, value = _first(N, filter_.size, factor), coarse[M, N]
            for k in range(max(0, -first), min(filter_.size, width - first)):
                line[first + k] += value * filter_[k]
    for m in range(start, stop):
        out = fine[m]
        for M in range(m // factor, highest):
            k = m - _first(M, filter_.size, factor)
            if k < 0:
                break
            if k < filter_.size:
                c, line = filter_[k], long[M - lowest]
                for t in range(width):
                    out[t] += c * line[t]


@njit(cache=True, nogil=True)
def _first(M, taps, factor):
    """Return the first mesh point of the fine mesh that takes part in point M of the coarse one."""
    order = (taps - 1) // (factor - 1)
    return factor * (M - order + 1) + order - 1
