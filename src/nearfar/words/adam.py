"""Adam for rows of tables (Kingma & Ba 2015, algorithm 1, in the order of their section 2).

Each row has moments of its own and a count of its own steps, which corrects them: rows that are rarely touched are not
behind. Rows that are not touched keep their values and their moments.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, load, multiply_add, multiply_add_lanes, over_root, store, zeros_like
from nearfar._core.types import Arrays, Indices, Longs
from nearfar._core.vector import FAST, empty_aligned
from nearfar.contracts import Floats

BETAS = (0.9, 0.999)
EPS = 1e-8
# After so many steps of a row the correction is 1 to the precision of float32.
_t = np.arange(1, 2**14 + 1)
CORRECTIONS = np.sqrt(1 - BETAS[1] ** _t) / (1 - BETAS[0] ** _t)


Moments = tuple[Floats, Floats, Longs, Floats]
"""What Adam keeps of a table: first and second moments, steps of each row (int64), corrections in the table's type.

A plain tuple: numba takes ten times as long to recognise a named one, at every call.
"""


def adam_state(tables: Arrays) -> Arrays:
    """Return the arrays that Adam needs for tables, before the first step."""
    kept: Arrays = {}
    for name, table in tables.items():
        for moment in ("first", "second"):
            kept[f"{name}.{moment}"] = empty_aligned(table.shape, table.dtype)
            kept[f"{name}.{moment}"][...] = 0
        kept[f"{name}.steps"] = np.zeros(len(table), np.int64)
    return kept


def moments_of(arrays: Arrays, name: str) -> Moments:
    """Return the moments of a table from the arrays of ``adam_state``."""
    first, second, steps = (arrays[f"{name}.{what}"] for what in ("first", "second", "steps"))
    return first, second, steps, CORRECTIONS.astype(arrays[name].dtype)


@jit(fastmath=FAST, error_model="numpy")
def adam_row(table, row, change, moments, rate):
    """Move a row of a table along ``change``, which is minus the gradient; ``rate`` is of the table's type."""
    kind, zeros = table.dtype.type, zeros_like(table)
    first, second, steps, corrections = moments
    t = steps[row]
    steps[row] = t + 1
    step = rate * corrections[min(t, corrections.size - 1)]
    width = table.shape[1]
    for k in range(0, width, LANES):
        at, n = np.int64(row) * width + k, width - k
        c = load(change, k, n)
        a = multiply_add(kind(1 - BETAS[0]), c, multiply_add(kind(BETAS[0]), load(first, at, n), zeros))
        square = multiply_add_lanes(c, c, zeros)
        b = multiply_add(kind(1 - BETAS[1]), square, multiply_add(kind(BETAS[1]), load(second, at, n), zeros))
        store(first, at, n, a)
        store(second, at, n, b)
        store(table, at, n, multiply_add(step, over_root(a, b, kind(EPS)), load(table, at, n)))


MOST_ROWS = 2**14
"""Of a table in a batch: 20 MB of sums for each thread at 17 x 17."""


class Batch(NamedTuple):
    """Sums of gradients of the rows of a table that come in a batch."""

    places: Indices  # where the sum of a row is, -1: nowhere yet
    rows: Indices
    sums: Floats
    count: Longs  # how many rows


@jit(inline="always")
def batch_of(table, capacity):
    """Return an empty batch with room for so many rows."""
    places = np.empty(table.shape[0], np.int32)
    for row in range(places.size):
        places[row] = -1
    sums = np.empty(capacity * table.shape[1], table.dtype)
    return Batch(places, np.empty(capacity, np.int32), sums, np.zeros(1, np.int64))


@jit(fastmath=FAST, error_model="numpy")
def collect(gradient, row, batch):
    """Add a gradient to the sum of a row."""
    width, place = gradient.size, batch.places[row]
    if place < 0:
        place = batch.count[0]
        batch.places[row], batch.rows[place] = place, row
        batch.count[0] += 1
        for k in range(width):
            batch.sums[place * width + k] = gradient[k]
    else:
        for k in range(width):
            batch.sums[place * width + k] += gradient[k]


@jit(fastmath=FAST, error_model="numpy")
def end_batch(table, moments, batch, scale, rate):
    """Move each row of a batch along its sum times ``scale``, and empty the batch."""
    width, kind = table.shape[1], table.dtype.type
    for i in range(batch.count[0]):
        change = batch.sums[i * width : (i + 1) * width]
        for k in range(width):
            change[k] *= kind(scale)
        adam_row(table, batch.rows[i], change, moments, rate)
        batch.places[batch.rows[i]] = -1
    batch.count[0] = 0
