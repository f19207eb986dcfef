"""Compiled Adam: the step of one row of a table (Kingma & Ba 2015, algorithm 1, in the order of their section 2).

A row has moments of its own and a count of its own steps, by which its moments are corrected: rows that are touched
rarely are not behind. Rows that are not touched stay as they are, and so do their moments.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST

BETAS = (0.9, 0.999)
EPS = 1e-8
# After so many steps of a row the correction is 1 to the precision of float32.
_t = np.arange(1, 2**14 + 1)
CORRECTIONS = np.sqrt(1 - BETAS[1] ** _t) / (1 - BETAS[0] ** _t)


@jit(fastmath=FAST, error_model="numpy")
def adam_row(table, row, width, change, first, second, counts, rate, corrections):
    """Move a row of ``width`` numbers along ``change``, which is minus the gradient.

    ``first`` and ``second`` are the moments, flat as ``table`` is; ``counts`` the steps of each row, int64;
    ``corrections`` is CORRECTIONS in the type of the table, and ``rate`` is of that type, too.
    """
    kind = table.dtype.type
    b1, b2, eps = kind(BETAS[0]), kind(BETAS[1]), kind(EPS)
    rest1, rest2 = kind(1 - BETAS[0]), kind(1 - BETAS[1])
    t = counts[row]
    counts[row] = t + 1
    step = rate * corrections[min(t, corrections.size - 1)]
    at = row * width
    x, m, v = table[at : at + width], first[at : at + width], second[at : at + width]
    for k in range(width):
        c = change[k]
        a, b = b1 * m[k] + rest1 * c, b2 * v[k] + rest2 * c * c
        m[k], v[k] = a, b
        x[k] += step * a / (np.sqrt(b) + eps)
