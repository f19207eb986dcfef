"""Compiled sparse products, and CSR arrays from edges by counting, in linear time.

The products gather the rows of the neighbours in vector registers (``_gather``) and differ in what they make of the
sum. Gathering is bound by memory latency: the rows of the neighbours ``AHEAD`` entries further on are prefetched,
across row boundaries.

For small data nothing is compiled (:func:`is_small`): to compile takes seconds, SciPy and NumPy take milliseconds.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, add, lane_sum, load, multiply_add, prefetch, prefetch_row, store, zeros_like
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Indices, Integers, Longs, Singles
from nearfar._core.vector import FAST, read_only

AHEAD, AHEAD_WIDE = 48, 24
"""How many entries ahead the prefetch runs, for rows of up to 2 vectors and for wider ones: about 96 cache lines. Into
the second-level cache, which has many more requests open at a time than the first (docs/decisions, "How the products
with the relation are taken")."""

NO_WEIGHTS = np.empty(0, np.float32)
"""Stands for "all ones", so that a kernel is compiled once for both."""
NO_STORED_WEIGHTS = NO_WEIGHTS.view()  # the same, of the type of stored entries
NO_STORED_WEIGHTS.flags.writeable = False

Whole = TypeVar("Whole", bound=np.integer)
CsrArrays = tuple[Integers, Indices, "Singles | None"]

FEW_ENTRIES = 1 << 16
"""Entries that SciPy and NumPy have multiplied or sorted before compiled functions are loaded, let alone compiled."""
FEW_ROWS = 3000  # and columns, of what SciPy multiplies
_COUNTED = 1 << 16  # numbers that NumPy sorts by counting: where more are rows, compiled code is ten times as quick
_SORTED = 1 << 19  # edges that NumPy sorts by such numbers in a tenth of a second


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


# From edges to CSR arrays.

RUN = 32  # entries that are sorted by insertion


def build_csr(
    rows: Integers, columns: Integers, weights: Singles | None, n_rows: int, *, mirror: bool, n_jobs: int
) -> CsrArrays:
    """Return (indptr, indices, data) with sorted distinct columns per row; duplicate edges add up.

    Parameters
    ----------
    rows, columns : ndarray of shape (n_edges,), int32 or int64
    weights : ndarray of shape (n_edges,), float32, > 0, or None (ones)
    n_rows : int
    mirror : bool
        Store every edge in both directions, a self-loop once.
    n_jobs : int

    Returns
    -------
    indptr : ndarray of shape (n_rows + 1,), int64
    indices : ndarray, int32
    data : ndarray, float32, or None where all entries are 1
    """
    if rows.size <= _SORTED and n_rows <= _COUNTED:  # by a stable sort of all entries, with the same bits
        if mirror:
            rows, columns, weights = mirrored(rows, columns, weights)
        order = np.lexsort([keys.astype(np.min_scalar_type(keys.max(initial=0))) for keys in (columns, rows)])
        rows, columns = rows[order], columns[order]
        first = np.ones(rows.size, bool)  # of the entries of a place
        first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        indptr, indices = np.searchsorted(rows[first], np.arange(n_rows + 1)), columns[first].astype(np.int32)
        if weights is None and first.all():
            return indptr, indices, None
        data = np.zeros(indices.size, np.float32)
        with np.errstate(over="ignore"):  # is found out later
            np.add.at(data, np.cumsum(first) - 1, np.float32(1) if weights is None else weights[order])
        return indptr, indices, data
    indptr = np.zeros(n_rows + 1, np.int64)
    count_entries(rows, columns, mirror, indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int32)
    data = NO_WEIGHTS if weights is None else np.empty(indptr[-1], np.float32)
    _fill(rows, columns, NO_WEIGHTS if weights is None else weights, mirror, indptr[:-1].copy(), indices, data)
    lengths = np.empty(n_rows, np.int64)
    bounds = even_bounds(n_rows, 16384)
    run_blocks(lambda _b, start, stop: _sort_rows(indptr, indices, data, lengths, start, stop), bounds, n_jobs)
    if lengths.sum() == indices.size:
        return indptr, indices, None if weights is None else data
    if weights is None:  # duplicates of edges without weights: the counts are the weights
        data = np.ones(indices.size, np.float32)
    distinct = np.zeros(n_rows + 1, np.int64)
    np.cumsum(lengths, out=distinct[1:])
    _add_duplicates(indptr, distinct, indices, data)
    return distinct, indices[: distinct[-1]].copy(), data[: distinct[-1]].copy()


def mirrored(
    rows: NDArray[Whole], columns: NDArray[Whole], weights: Singles | None
) -> tuple[NDArray[Whole], NDArray[Whole], Singles | None]:
    """Return edges, each beside its mirror image, so that duplicates add up in their order; a self-loop comes once."""
    kept = np.stack([np.ones(rows.size, bool), rows != columns], axis=1).ravel()
    weights = None if weights is None else np.repeat(weights, 2)[kept]
    ends = np.stack([rows, columns], axis=1)
    return ends.ravel()[kept], ends[:, ::-1].ravel()[kept], weights


def transpose(indptr: Integers, indices: Indices, data: Singles | None, n_columns: int) -> CsrArrays:
    """Return the CSR arrays of the transpose; rows stay sorted."""
    starts = np.zeros(n_columns + 1, np.int64)
    np.cumsum(np.bincount(indices, minlength=n_columns), out=starts[1:])
    if indices.size <= FEW_ENTRIES:
        order = np.argsort(indices.astype(np.min_scalar_type(n_columns)), kind="stable")
        rows = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
        return starts, rows[order], None if data is None else data[order]
    new_indices = np.empty_like(indices)
    new_data = NO_WEIGHTS if data is None else np.empty_like(data)
    stored = NO_STORED_WEIGHTS if data is None else data
    _transpose_fill(*map(read_only, (indptr, indices, stored)), starts[:-1].copy(), new_indices, new_data)
    return starts, new_indices, None if data is None else new_data


def count_entries(rows: Integers, columns: Integers, mirror: bool, counts: Longs) -> None:
    """counts[i + 1] += number of entries of row i."""
    if rows.size > FEW_ENTRIES:
        _count(rows, columns, mirror, counts)
        return
    np.add.at(counts[1:], rows, 1)
    if mirror:
        np.add.at(counts[1:], columns[rows != columns], 1)


@jit
def _count(rows, columns, mirror, counts):
    for e in range(rows.size):
        counts[rows[e] + 1] += 1
        if mirror and rows[e] != columns[e]:
            counts[columns[e] + 1] += 1


@jit
def _fill(rows, columns, weights, mirror, cursor, indices, data):
    weighted = data.size > 0
    for e in range(rows.size):
        i, j = rows[e], columns[e]
        indices[cursor[i]] = j
        if weighted:
            data[cursor[i]] = weights[e]
        cursor[i] += 1
        if mirror and i != j:
            indices[cursor[j]] = i
            if weighted:
                data[cursor[j]] = weights[e]
            cursor[j] += 1


@jit
def _sort_rows(indptr, indices, data, lengths, start, stop):
    """Sort each row by column; ``lengths`` gets the number of distinct columns.

    Stable, so that duplicates add up in the order of the edges in both rows of a pair. Written out because numba's own
    sorts take seconds to compile.
    """
    longest = 0
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    spare_indices = np.empty(longest if longest > RUN else 0, np.int32)
    spare_data = np.empty(spare_indices.size if data.size else 0, np.float32)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        for run in range(begin, end, RUN):
            _insertion_sort(indices, data, run, min(run + RUN, end))
        width = RUN
        while width < end - begin:
            for left in range(begin, end - width, 2 * width):
                _merge_runs(indices, data, left, left + width, min(left + 2 * width, end), spare_indices, spare_data)
            width *= 2
        n_distinct = 0
        for p in range(begin, end):
            if p == begin or indices[p] != indices[p - 1]:
                n_distinct += 1
        lengths[i] = n_distinct


@jit
def _insertion_sort(indices, data, begin, end):
    weighted = data.size > 0
    for p in range(begin + 1, end):
        column = indices[p]
        weight = data[p] if weighted else np.float32(1)
        q = p
        while q > begin and indices[q - 1] > column:
            indices[q] = indices[q - 1]
            if weighted:
                data[q] = data[q - 1]
            q -= 1
        indices[q] = column
        if weighted:
            data[q] = weight


@jit
def _merge_runs(indices, data, begin, middle, end, spare_indices, spare_data):
    """Merge two sorted runs; the left one is put aside and written back with the right one."""
    weighted = data.size > 0
    for k in range(middle - begin):
        spare_indices[k] = indices[begin + k]
        if weighted:
            spare_data[k] = data[begin + k]
    left, right, n_left = 0, middle, middle - begin
    for target in range(begin, end):
        if left < n_left and (right == end or spare_indices[left] <= indices[right]):
            indices[target] = spare_indices[left]
            if weighted:
                data[target] = spare_data[left]
            left += 1
        else:
            indices[target] = indices[right]
            if weighted:
                data[target] = data[right]
            right += 1


@jit
def _add_duplicates(indptr, new_indptr, indices, data):
    """Add up equal columns of sorted rows, in place: the new rows never overtake the old ones."""
    for i in range(indptr.size - 1):
        q = new_indptr[i] - 1
        begin, end = indptr[i], indptr[i + 1]
        previous = -1
        for p in range(begin, end):
            column, weight = indices[p], data[p]
            if column != previous:
                q += 1
                indices[q] = column
                data[q] = weight
                previous = column
            else:
                data[q] += weight


@jit
def _transpose_fill(indptr, indices, data, cursor, new_indices, new_data):
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = cursor[indices[p]]
            new_indices[at] = i
            if data.size > 0:
                new_data[at] = data[p]
            cursor[indices[p]] += 1
