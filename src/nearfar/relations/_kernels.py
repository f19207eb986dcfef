"""Kernels of the sparse products: rows of a CSR matrix times a dense block.

All of them gather the neighbours' rows in vector registers (`_gather`), and differ in what they make of the sum.
Gathering is bound by memory latency: the rows of the neighbours ``AHEAD`` entries further on
are prefetched, across row boundaries. ``data`` and ``column_scale`` may be None (all ones): that is settled at compile
time, a test per entry would cost 40 %. An empty ``row_scale`` means the same.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from nearfar._vector import FAST, LANES, add, lane_sum, load, multiply_add, prefetch, prefetch_row, store, zeros_like

NO_SCALE = np.empty(0, np.float32)
AHEAD, AHEAD_WIDE = 48, 24
"""How many entries ahead the prefetch runs, for rows of up to 2 vectors and for wider ones: about 96 cache lines. Into
the second-level cache, which has many more requests open at a time than the first (docs/decisions, "How the products
with the relation are taken")."""


@register_jitable
def _weight(data, column_scale, indices, p):
    if data is None:
        return np.float32(1) if column_scale is None else column_scale[indices[p]]
    return data[p] if column_scale is None else data[p] * column_scale[indices[p]]


@register_jitable
def _write(s, total, base, from_, with_base, out, to, n):
    """Store ``s * total`` (+ base) from registers: the first n lanes."""
    value = load(base, from_, n) if with_base else zeros_like(base)
    store(out, to, n, multiply_add(s, total, value))


@njit(inline="always")  # a call per row would pass the arrays' fields through memory: three times slower
def _gather(indptr, indices, data, column_scale, V, width, i, s, base, with_base, out, at_out):
    """out[at_out + c] = s * sum_j a_ij V[j, c] (+ base[i, c]) for c < width; arrays are given flat."""
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


@njit(cache=True, nogil=True, fastmath=FAST)
def product(indptr, indices, data, row_scale, column_scale, V, factor, base, with_base, out, first, start, stop):
    """out_(i - first) = base_i + factor * row_scale_i * sum_j a_ij column_scale_j V_j for i in start..stop.

    ``base`` may be ``out`` where ``first`` is 0.
    """
    width = out.shape[1]
    flat, flat_base, flat_out = V.reshape(-1), base.reshape(-1), out.reshape(-1)
    for i in range(start, stop):
        s = V.dtype.type(factor * row_scale[i] if row_scale.size > 0 else factor)
        at = (i - first) * width
        _gather(indptr, indices, data, column_scale, flat, width, i, s, flat_base, with_base, flat_out, at)


@njit(cache=True, nogil=True)
def total(X, start, stop):
    """Return the sum of the rows start..stop of X, in X's dtype and any order: not finite if an entry is not."""
    flat, end = X.reshape(-1), stop * X.shape[1]
    t0, t1 = zeros_like(flat), zeros_like(flat)
    for at in range(start * X.shape[1], end, 2 * LANES):
        t0 = add(t0, load(flat, at, end - at))
        t1 = add(t1, load(flat, at + LANES, end - at - LANES))
    return lane_sum(add(t0, t1))


@njit(cache=True, nogil=True)
def vector_product(
    indptr, indices, data, row_scale, column_scale, v, factor, base, with_base, out, _first, start, stop
):
    """Do what ``product`` does for a single column; shorter, because row sums need it before anything else."""
    last, flat = indices.size - 1, v.reshape(-1)
    for i in range(start, stop):
        value = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(p + AHEAD, last)]
            prefetch(flat, ahead)
            if column_scale is not None:
                prefetch(column_scale, ahead)
            value += _weight(data, column_scale, indices, p) * flat[indices[p]]
        value *= factor * row_scale[i] if row_scale.size > 0 else factor
        out[i, 0] = base[i, 0] + value if with_base else value


@njit(cache=True, nogil=True, fastmath=FAST)
def pair_start(scale, X, W, start, stop):
    """W_i = [x_i | s_i x_i]."""
    d = X.shape[1]
    for i in range(start, stop):
        s = X.dtype.type(scale[i])
        for c in range(d):
            W[i, c] = X[i, c]
            W[i, d + c] = s * X[i, c]


@njit(cache=True, nogil=True, fastmath=FAST)
def pair_step(indptr, indices, data, scale, X, W, out, start, stop):
    """One Horner step of both products: [t | t'] <- [x_i + s_i (A T)_i | s_i (x_i + (A T')_i)], W = [T | T']."""
    d = X.shape[1]
    width = 2 * d
    one = W.dtype.type(1)
    flat = W.reshape(-1)
    scratch = np.empty(width, W.dtype)
    for i in range(start, stop):
        _gather(indptr, indices, data, None, flat, width, i, one, scratch, False, scratch, 0)
        s = X.dtype.type(scale[i])
        for c in range(d):
            out[i, c] = X[i, c] + s * scratch[c]
            out[i, d + c] = s * (X[i, c] + scratch[d + c])


@njit(cache=True, nogil=True, fastmath=FAST)
def pair_finish(indptr, indices, data, scale, factor, W, out, start, stop):
    """out_(i - start) = factor * (s_i (A T)_i + (A T')_i), W = [T | T']: the rows start..stop of (P + P^T) X."""
    d = W.shape[1] // 2
    one = W.dtype.type(1)
    flat = W.reshape(-1)
    scratch = np.empty(2 * d, W.dtype)
    f = W.dtype.type(factor)
    for i in range(start, stop):
        _gather(indptr, indices, data, None, flat, 2 * d, i, one, scratch, False, scratch, 0)
        s = W.dtype.type(scale[i])
        for c in range(d):
            out[i - start, c] = f * (s * scratch[c] + scratch[d + c])
