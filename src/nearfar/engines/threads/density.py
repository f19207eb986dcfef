"""Compiled forms of the formulas of :mod:`nearfar.methods.density`, for any components and type of numbers."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.engines.threads.loops import Formula, buffers
from nearfar.methods.density import drawn_together, squares


def _squares(place, pattern, mine, _theirs):
    (Y,) = mine
    out = place.room("spread", (len(Y),), Y.dtype), place.room("similar", (len(Y),), Y.dtype)
    shared = *pattern[:2], Y, *out
    run_blocks(lambda _, start, stop: sum_squares(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return out


def _drawn_together(place, pattern, mine, _theirs):
    Y, far, near = mine
    out = place.room("drawn", Y.shape, Y.dtype)
    shared = *pattern[:2], Y, far, near, out
    run_blocks(lambda _, start, stop: sum_pulls(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


@jit(fastmath=FAST, error_model="numpy")
def sum_squares(indptr, columns, Y, spread, similar, start, stop):
    """Write sum_j w_ij f_ij and sum_j w_ij of some rows."""
    zero, one = Y.dtype.type(0), Y.dtype.type(1)
    for i in range(start, stop):
        total = total_w = zero
        for e in range(indptr[i], indptr[i + 1]):
            f = zero
            for c in range(Y.shape[1]):
                way = Y[i, c] - Y[columns[e], c]
                f += way * way
            w = one / np.sqrt(one + f)
            total += w * f
            total_w += w
        spread[i], similar[i] = total, total_w


@jit(fastmath=FAST, error_model="numpy")
def sum_pulls(indptr, columns, Y, far, near, out, start, stop):
    """Write sum_j w_ij [a_i + a_j + w_ij² (b_i + b_j)] (y_i - y_j) of some rows; a are ``far``, b ``near``."""
    zero, one = Y.dtype.type(0), Y.dtype.type(1)
    k, _, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        neighbors = columns[indptr[i] : indptr[i + 1]]
        for t in range(neighbors.size):
            f = zero
            for c in range(Y.shape[1]):
                way = Y[i, c] - Y[neighbors[t], c]
                f += way * way
            square = one / (one + f)
            k[0, t] = np.sqrt(square) * (far[i] + far[neighbors[t]] + square * (near[i] + near[neighbors[t]]))
        for c in range(Y.shape[1]):
            total = zero
            for t in range(neighbors.size):
                total += k[0, t] * (Y[i, c] - Y[neighbors[t], c])
            out[i, c] = total


FORMS_OF_PAIRS: dict[Formula, Formula] = {squares: _squares, drawn_together: _drawn_together}
"""The quicker form of a formula for pairs."""
