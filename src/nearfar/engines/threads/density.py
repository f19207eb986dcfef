"""Compiled forms of the formulas of :mod:`nearfar.methods.density`, for any components and type of numbers."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from nearfar._core.jit import jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.engines.threads.loops import Formula
from nearfar.methods.density import drawn_together, squares


def _squares(place, pattern, mine, _theirs, p):
    (Y,) = mine
    out = place.room("spread", (len(Y),), Y.dtype)
    shared = *pattern[:2], p, Y, out
    run_blocks(lambda _, start, stop: sum_squares(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


def _drawn_together(place, pattern, mine, _theirs, p):
    Y, charges = mine
    out = place.room("drawn", Y.shape, Y.dtype)
    shared = *pattern[:2], p, Y, charges, out
    run_blocks(lambda _, start, stop: sum_pulls(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


@jit(fastmath=FAST, error_model="numpy")
def sum_squares(indptr, columns, p, Y, out, start, stop):
    """Write sum_j p_ij f_ij of some rows."""
    zero = Y.dtype.type(0)
    for i in range(start, stop):
        total = zero
        for e in range(indptr[i], indptr[i + 1]):
            f = zero
            for c in range(Y.shape[1]):
                way = Y[i, c] - Y[columns[e], c]
                f += way * way
            total += p[e] * f
        out[i] = total


@jit(fastmath=FAST, error_model="numpy")
def sum_pulls(indptr, columns, p, Y, charges, out, start, stop):
    """Write 2 sum_j p_ij (a_i + a_j)(y_i - y_j) of some rows."""
    zero, two = Y.dtype.type(0), Y.dtype.type(2)
    for i in range(start, stop):
        charge = charges[i]
        for c in range(Y.shape[1]):  # one after the other: a row's neighbours are fetched by vector gathers
            y, total = Y[i, c], zero
            for e in range(indptr[i], indptr[i + 1]):
                j = columns[e]
                total += p[e] * (charge + charges[j]) * (y - Y[j, c])
            out[i, c] = two * total


FORMS_OF_PAIRS: dict[Formula, Formula] = {squares: _squares, drawn_together: _drawn_together}
"""The quicker form of a formula for pairs."""
