"""Kernels of the near part of a map: the forces between points that the data relate, gathered row by row.

Rows of the pattern of P and Pᵀ together are gathered, nothing is scattered: threads never write to the same place. What
is bound by memory here is the reading of the neighbours' positions. With two components in float32 a position is
therefore one number of 64 bits (``packed``), so that a row's neighbours are fetched by vector gathers, and everything
is done in one loop without intermediate arrays, which vectorises and takes half the time.

Names: ``columns`` are the neighbours (uint32: a sign would cost a check per access), ``own`` is p_ij, ``back`` is p_ji,
``kernel`` and ``divergence`` are pairs of a tuple, whose length tells which, and its constants.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.scores._kernels import exp, ln, ln1p, log_weight, pull, weight


@njit(cache=True, nogil=True)
def merged_counts(left, right, out, start, stop):
    """Write how many columns each row of two sparse matrices has together, without the diagonal."""
    for i in range(start, stop):
        a, a_end, b, b_end, count = left[0][i], left[0][i + 1], right[0][i], right[0][i + 1], 0
        while a < a_end or b < b_end:
            at_left = left[1][a] if a < a_end else np.int32(2**31 - 1)
            at_right = right[1][b] if b < b_end else np.int32(2**31 - 1)
            a += at_left <= at_right
            b += at_right <= at_left
            count += min(at_left, at_right) != i
        out[i + 1] = count


@njit(cache=True, nogil=True)
def merged_rows(left, right, indptr, columns, own, back, start, stop):
    """Write the columns that two sparse matrices with sorted rows have together, and the entries of each."""
    zero = own.dtype.type(0)
    for i in range(start, stop):
        a, a_end, b, b_end, at = left[0][i], left[0][i + 1], right[0][i], right[0][i + 1], indptr[i]
        while a < a_end or b < b_end:
            at_left = left[1][a] if a < a_end else np.int32(2**31 - 1)
            at_right = right[1][b] if b < b_end else np.int32(2**31 - 1)
            column = min(at_left, at_right)
            if column != i:
                columns[at] = column
                own[at] = left[2][a] if at_left == column else zero
                back[at] = right[2][b] if at_right == column else zero
                at += 1
            a += at_left == column
            b += at_right == column


@njit(cache=True, nogil=True)
def reordered_rows(graph, order, place, out, start, stop):
    """Write rows order[start] .. of a pattern, their columns renamed by ``place``; an empty ``back`` is left out."""
    indptr, columns, own, back = graph
    new_indptr, new_columns, new_own, new_back = out
    for r in range(start, stop):
        at = new_indptr[r]
        for e in range(indptr[order[r]], indptr[order[r] + 1]):
            new_columns[at] = place[columns[e]]
            new_own[at] = own[e]
            if back.size:
                new_back[at] = back[e]
            at += 1


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pull_packed(indptr, columns, near, kernel, divergence, rows, inverse_S, factor, packed, out, mass, start, stop):
    """Write factor * sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j), by pair half of it, and the mass sum_j s_ij of what moves.

    The hot loop of all maps: one pass, two components in float32. ``near`` are the arrays of ``_strengths``, ``rows``
    is () by pair and (0,) by row, ``inverse_S`` has one entry or one per point.
    """
    family, constants = kernel
    for i in range(start, stop):
        x, y = _first(packed[i]), _second(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, own, back = columns[begin:end], near[0][begin:end], near[1][begin:end], near[2][begin:end]
        scale = inverse_S[i] if len(rows) else inverse_S[0]
        gx = gy = total = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - _first(other), y - _second(other)
            f = dx * dx + dy * dy
            w = weight(family, constants, f)
            scales = scale, inverse_S[j] if len(rows) else scale
            s, both = _strengths(divergence, rows, t, fixed, own, back, w, scales)
            total += s
            k = both * pull(family, constants, f)
            gx += k * dx
            gy += k * dy
        mass[i] = total
        out[i, 0], out[i, 1] = factor * gx, factor * gy


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pull_any(indptr, columns, near, kernel, divergence, rows, inverse_S, factor, Y, out, mass, start, stop):
    """Do what ``pull_packed`` does, for any number of components and type of numbers."""
    family, constants = kernel
    offsets, f, k = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, own, back = columns[begin:end], near[0][begin:end], near[1][begin:end], near[2][begin:end]
        _write_offsets(Y, i, neighbors, offsets, f)
        scale, total = inverse_S[i] if len(rows) else inverse_S[0], out.dtype.type(0)
        for t in range(neighbors.size):
            scales = scale, inverse_S[neighbors[t]] if len(rows) else scale
            s, both = _strengths(divergence, rows, t, fixed, own, back, weight(family, constants, f[t]), scales)
            total += s
            k[t] = both * pull(family, constants, f[t])
        mass[i] = total
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _strengths(divergence, rows, t, fixed, own, back, w, scales):
    """Return the part of s_ij that moves with Y, and s_ij + s_ji; by pair s_ij. s is -q D_near, 0 where p = 0.

    KL and NeRV have a part that stays: ``fixed``. ``own`` and ``back`` are L_ij and L_ji for s = A + q L, which do not
    depend on Y (reverse KL, NeRV), p_ij and p_ji for Jensen and Shannon.
    """
    code, parameters = divergence
    nothing = w - w
    if len(code) == 0:  # KL
        return nothing, fixed[t]
    if len(code) <= 2:  # reverse KL, NeRV
        s = scales[0] * w * own[t]
        both = s + scales[1] * w * back[t] if len(rows) else s
        return s, both if len(code) == 1 else both + fixed[t]
    s = _jensen_shannon(parameters, own[t], w * scales[0])
    return s, s + _jensen_shannon(parameters, back[t], w * scales[1]) if len(rows) else s


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _jensen_shannon(parameters, p, q):
    first, second, _, tiny = parameters  # 1/kappa, kappa/(1 - kappa)
    q = max(q, tiny)
    return first * q * ln1p(second * p / q)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, divergence, log_S, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    indptr, columns, own, _ = graph
    family, constants = kernel
    code, parameters = divergence
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, shift = own[begin : begin + m], log_S[i if log_S.size > 1 else 0]
        for t in range(m):
            costs[t] = _entry_cost(code, parameters, p[t], log_weight(family, constants, f[t]) - shift)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _entry_cost(code, parameters, p, log_q):
    first, second, third, tiny = parameters
    if len(code) == 0:
        return p * (ln(max(p, tiny)) - log_q)
    q = max(exp(log_q), tiny)
    if len(code) <= 2:  # lam, 1 - lam, (1 - floor) / eps
        return first * p * (ln(max(p, tiny)) - log_q) - second * q * ln1p(third * p)
    z = third * (q + second * p)  # kappa p + (1 - kappa) q
    return first * second * p * ln(max(p / z, tiny)) - first * q * ln1p(second * p / q)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _buffers(indptr, start, stop, like):
    """Return room for the offsets of the longest row, and for two numbers per neighbour."""
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    more = np.empty((2, longest), like.dtype)
    return np.empty((like.shape[1], longest), like.dtype), more[0], more[1]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _write_offsets(Y, i, neighbors, offsets, f):
    """Write y_i - y_j and its squared length for a row of neighbours."""
    f[: neighbors.size] = 0
    for c in range(Y.shape[1]):
        for t in range(neighbors.size):
            difference = Y[i, c] - Y[neighbors[t], c]
            offsets[c, t] = difference
            f[t] += difference * difference


@njit(cache=True, nogil=True)
def _first(pair):
    """Return the float32 in the lower half of 64 bits: the first component on a little-endian machine."""
    return np.int32(pair).view(np.float32)


@njit(cache=True, nogil=True)
def _second(pair):
    return np.int32(pair >> 32).view(np.float32)
