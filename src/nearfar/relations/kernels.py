"""Compiled sparse products; CSR arrays from edges, by counting, in linear time.

The products gather the rows of the neighbours in vector registers (``_gather``) and differ in what they make of the
sum. Gathering is bound by memory latency: the rows of the neighbours ``AHEAD`` entries further on are prefetched,
across row boundaries.

For small data nothing is compiled (:func:`is_small`): to compile takes seconds, SciPy takes milliseconds.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, add, lane_sum, load, multiply_add, prefetch, prefetch_row, store, zeros_like
from nearfar._core.types import Indices, Integers, RowNumbers, Singles
from nearfar._core.vector import FAST, read_only
from nearfar.errors import DataError

AHEAD, AHEAD_WIDE = 48, 24
"""How many entries ahead the prefetch runs, for rows of up to 2 vectors and for wider ones: about 96 cache lines. Into
the second-level cache, which has many more requests open at a time than the first (docs/decisions, "How the products
with the relation are taken")."""

NO_WEIGHTS = np.empty(0, np.float32)
"""Stands for "all ones", so that a kernel is compiled once for both."""
NO_STORED_WEIGHTS = read_only(NO_WEIGHTS)  # the same, of the type of stored entries

Whole = TypeVar("Whole", bound=np.integer)
CsrArrays = tuple[Integers, Indices, "Singles | None"]
EdgeArrays = tuple[Indices, Indices, "Singles | None"]
"""Rows, columns, and weights unless all are 1."""

FEW_ENTRIES = 1 << 16
"""Entries that SciPy has multiplied before compiled functions are loaded, let alone compiled."""
FEW_ROWS = 3000  # and columns, of what SciPy multiplies


def is_small(shape: tuple[int, int], n_entries: int) -> bool:
    """Return whether SciPy multiplies with a sparse matrix, in place of compiled code.

    It is for the size of the data alone to decide: the last bits of a product depend on it.
    """
    return max(shape) <= FEW_ROWS and n_entries <= FEW_ENTRIES


class ScaledCsr(NamedTuple):
    """``diag(row_scale) A diag(column_scale)`` for a CSR matrix A, as the kernels take it.

    An empty ``row_scale`` stands for ones. So does None as ``data`` and ``column_scale``, which are looked up for every
    entry: that is settled at compile time, since a test per entry would cost 40 %.
    """

    indptr: Integers
    indices: Indices
    data: Singles | None
    row_scale: Singles
    column_scale: Singles | None


@jit
def _weight(data, column_scale, indices, p):
    if data is None:
        return np.float32(1) if column_scale is None else column_scale[indices[p]]
    return data[p] if column_scale is None else data[p] * column_scale[indices[p]]


@jit
def _write(s, total, base, from_, with_base, out, to, n):
    """Store ``s * total`` (+ base) from registers: the first n lanes."""
    value = load(base, from_, n) if with_base else zeros_like(base)
    store(out, to, n, multiply_add(s, total, value))


@jit(inline="always")  # a call per row would pass the arrays' fields through memory: three times slower
def _gather(indptr, indices, data, column_scale, V, width, i, s, base, with_base, out, at_out):
    """out[at_out + c] = s * sum_j a_ij V[j, c] (+ base[i, c]) for c < width; arrays are given flat.

    One by one: as tuples, products of up to 32 columns take 1.4 times as long.
    """
    last = indices.size - 1
    begin, end = indptr[i], indptr[i + 1]
    if width <= 2 * LANES:  # two accumulators, and masks that are the same for all rows
        t0, t1 = zeros_like(V), zeros_like(V)
        for p in range(begin, end):
            prefetch_row(V, indices[min(p + AHEAD, last)] * width, width, 2)
            at = indices[p] * width
            a = _weight(data, column_scale, indices, p)
            t0 = multiply_add(a, load(V, at, width), t0)
            t1 = multiply_add(a, load(V, at + LANES, width - LANES), t1)
        from_ = i * width
        _write(s, t0, base, from_, with_base, out, at_out, width)
        _write(s, t1, base, from_ + LANES, with_base, out, at_out + LANES, width - LANES)
    else:
        for column in range(0, width, 4 * LANES):
            n = width - column
            t0, t1, t2, t3 = zeros_like(V), zeros_like(V), zeros_like(V), zeros_like(V)
            for p in range(begin, end):
                prefetch_row(V, indices[min(p + AHEAD_WIDE, last)] * width + column, n, 4)
                at = indices[p] * width + column
                a = _weight(data, column_scale, indices, p)
                t0 = multiply_add(a, load(V, at, n), t0)
                t1 = multiply_add(a, load(V, at + LANES, n - LANES), t1)
                t2 = multiply_add(a, load(V, at + 2 * LANES, n - 2 * LANES), t2)
                t3 = multiply_add(a, load(V, at + 3 * LANES, n - 3 * LANES), t3)
            from_, to = i * width + column, at_out + column
            _write(s, t0, base, from_, with_base, out, to, n)
            _write(s, t1, base, from_ + LANES, with_base, out, to + LANES, n - LANES)
            _write(s, t2, base, from_ + 2 * LANES, with_base, out, to + 2 * LANES, n - 2 * LANES)
            _write(s, t3, base, from_ + 3 * LANES, with_base, out, to + 3 * LANES, n - 3 * LANES)


@jit(fastmath=FAST)
def product(matrix, V, factor, base, out, rows):
    """out_(i - start) = base_i + factor * row_scale_i * sum_j a_ij column_scale_j V_j for i in start..stop = rows.

    ``out`` may also hold all rows: then out_i. ``base`` is empty for none, and may be ``out``.
    """
    indptr, indices, data, row_scale, column_scale = matrix
    start, stop = rows
    first = start if out.shape[0] == stop - start else 0
    width, with_base = out.shape[1], base.shape[0] > 0
    flat, flat_base, flat_out = V.reshape(-1), base.reshape(-1), out.reshape(-1)
    for i in range(start, stop):
        s = V.dtype.type(factor * row_scale[i] if row_scale.size > 0 else factor)
        at = (i - first) * width
        _gather(indptr, indices, data, column_scale, flat, width, i, s, flat_base, with_base, flat_out, at)


@jit
def vector_product(matrix, v, factor, base, out, rows):
    """Do what ``product`` does for a single column; shorter, because row sums need it before anything else.

    Empty arrays stand for ones everywhere.
    """
    indptr, indices, data, row_scale, column_scale = matrix
    last, flat, with_base = indices.size - 1, v.reshape(-1), base.shape[0] > 0
    for i in range(rows[0], rows[1]):
        value = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(p + AHEAD, last)]
            prefetch(flat, ahead)
            weight = data[p] if data.size > 0 else np.float32(1)
            if column_scale.size > 0:
                prefetch(column_scale, ahead)
                weight *= column_scale[indices[p]]
            value += weight * flat[indices[p]]
        value *= factor * row_scale[i] if row_scale.size > 0 else factor
        out[i, 0] = base[i, 0] + value if with_base else value


@jit
def total(X, start, stop):
    """Return the sum of the rows start..stop of X, in X's dtype and any order: not finite if an entry is not."""
    flat, end = X.reshape(-1), stop * X.shape[1]
    t0, t1 = zeros_like(flat), zeros_like(flat)
    for at in range(start * X.shape[1], end, 2 * LANES):
        t0 = add(t0, load(flat, at, end - at))
        t1 = add(t1, load(flat, at + LANES, end - at - LANES))
    return lane_sum(add(t0, t1))


@jit(fastmath=FAST)
def pair_start(matrix, X, W, rows):
    """W_i = [x_i | s_i x_i]."""
    d = X.shape[1]
    for i in range(rows[0], rows[1]):
        s = X.dtype.type(matrix.row_scale[i])
        for c in range(d):
            W[i, c] = X[i, c]
            W[i, d + c] = s * X[i, c]


@jit(fastmath=FAST)
def pair_step(matrix, X, W, out, rows):
    """One Horner step of both products: [t | t'] <- [x_i + s_i (A T)_i | s_i (x_i + (A T')_i)], W = [T | T']."""
    indptr, indices, data, scale, _ = matrix
    d = X.shape[1]
    one, flat, scratch = W.dtype.type(1), W.reshape(-1), np.empty(2 * d, W.dtype)
    for i in range(rows[0], rows[1]):
        _gather(indptr, indices, data, None, flat, 2 * d, i, one, scratch, False, scratch, 0)
        s = X.dtype.type(scale[i])
        for c in range(d):
            out[i, c] = X[i, c] + s * scratch[c]
            out[i, d + c] = s * (X[i, c] + scratch[d + c])


@jit(fastmath=FAST)
def pair_finish(matrix, factor, W, out, rows):
    """out_(i - start) = factor * (s_i (A T)_i + (A T')_i), W = [T | T']: the given rows of (P + P^T) X."""
    indptr, indices, data, scale, _ = matrix
    d = W.shape[1] // 2
    one, flat, scratch = W.dtype.type(1), W.reshape(-1), np.empty(2 * d, W.dtype)
    f = W.dtype.type(factor)
    for i in range(rows[0], rows[1]):
        _gather(indptr, indices, data, None, flat, 2 * d, i, one, scratch, False, scratch, 0)
        s = W.dtype.type(scale[i])
        for c in range(d):
            out[i - rows[0], c] = f * (s * scratch[c] + scratch[d + c])


# From edges to CSR arrays, by SciPy.


def build_csr(
    owner: str, rows: NDArray[Whole], columns: NDArray[Whole], weights: Singles | None, n_rows: int
) -> CsrArrays:
    """Return (indptr, indices, data) with sorted distinct columns per row; duplicate edges add up, in their order.

    Parameters
    ----------
    owner : str
        For the message of the error.
    rows, columns : ndarray of shape (n_edges,), int32 or int64
    weights : ndarray of shape (n_edges,), float32, > 0, or None (ones)
    n_rows : int

    Returns
    -------
    indptr : ndarray of shape (n_rows + 1,), int64
    indices : ndarray, int32
    data : ndarray, float32, or None where all entries are 1

    Raises
    ------
    DataError
        If weights that were finite one by one no longer are where duplicates added up.
    """
    stored = np.ones(rows.size, np.float32) if weights is None else weights
    # First by columns, then by rows, each time by counting, which leaves edges of one place in their order.
    by_columns = coo_array((stored, (columns, rows)), (int(columns.max(initial=0)) + 1, n_rows))
    by_columns.has_canonical_format = True  # or SciPy would sort them, and not in this order
    found = by_columns.tocsr().tocsc()
    found.sum_duplicates()
    if not np.isfinite(found.data).all():
        raise DataError(owner, "weight", "small enough to add up in float32", "an infinite sum")
    data = None if weights is None and found.nnz == rows.size else found.data
    return found.indptr.astype(np.int64), found.indices.astype(np.int32, copy=False), data


def mirrored(
    rows: NDArray[Whole], columns: NDArray[Whole], weights: Singles | None
) -> tuple[NDArray[Whole], NDArray[Whole], Singles | None]:
    """Return edges, each beside its mirror image, so that duplicates add up in their order; a self-loop comes once."""
    kept = np.stack([np.ones(rows.size, bool), rows != columns], axis=1).ravel()
    weights = None if weights is None else np.repeat(weights, 2)[kept]
    ends = np.stack([rows, columns], axis=1)
    return ends.ravel()[kept], ends[:, ::-1].ravel()[kept], weights


def by_part(rows: Integers, bounds: Sequence[int] | Integers) -> list[RowNumbers]:
    """Return for each part of rows where its rows stand among some, in their order."""
    part = np.searchsorted(np.asarray(bounds[1:]), rows, side="right")
    order = np.argsort(part.astype(np.uint16) if len(bounds) <= 1 << 16 else part, kind="stable")  # the first: linear
    return np.split(order, np.cumsum(np.bincount(part, minlength=len(bounds) - 1))[:-1])


def transpose(indptr: Integers, indices: Indices, data: Singles | None, n_columns: int) -> CsrArrays:
    """Return the CSR arrays of the transpose; rows stay sorted."""
    stored = np.ones(indices.size, np.int8) if data is None else data
    found = csr_array((stored, indices, indptr), (len(indptr) - 1, n_columns)).tocsc()
    columns = found.indices.astype(np.int32, copy=False)
    return found.indptr.astype(np.int64), columns, None if data is None else found.data
