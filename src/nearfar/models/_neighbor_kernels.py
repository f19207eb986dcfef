"""Kernels of the near part of a map: the forces between points that the data relate, gathered row by row.

Rows of the pattern of P and Pᵀ together are gathered, nothing is scattered: threads never write to the same place. What
is bound by memory here is the reading of the neighbours' positions. With two components in float32 a position is
therefore one number of 64 bits (``packed``), so that a row's neighbours are fetched by vector gathers.

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
def pull_by_p(indptr, columns, p, kernel, factor, packed, out, start, stop):
    """Write factor * sum_j p_ij (-w'/w) (y_i - y_j), all that KL needs: the hot loop of t-SNE."""
    family, constants = kernel
    for i in range(start, stop):
        x, y = _first(packed[i]), _second(packed[i])
        neighbors, strengths = columns[indptr[i] : indptr[i + 1]], p[indptr[i] : indptr[i + 1]]
        gx = gy = np.float32(0)
        for t in range(neighbors.size):
            other = packed[neighbors[t]]
            dx, dy = x - _first(other), y - _second(other)
            k = strengths[t] * pull(family, constants, dx * dx + dy * dy)
            gx += k * dx
            gy += k * dy
        out[i, 0], out[i, 1] = factor * gx, factor * gy


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pull_by_strength(graph, kernel, divergence, inverse_S, factor, Y, packed, out, mass, start, stop):
    """Write factor * sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j), and the mass sum_j s_ij; s is -q D of the near part.

    ``inverse_S`` has one entry for "pair", where P is symmetric, and one per point for "row".
    """
    indptr, columns, own, back = graph
    family, constants = kernel
    code, parameters = divergence
    by_row = inverse_S.size > 1
    offsets, f, k, scales = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        neighbors = columns[begin : begin + m]
        _write_offsets(Y, packed, i, neighbors, offsets, f)
        p, p_back, scale, total = own[begin : begin + m], back[begin : begin + m], inverse_S[0], out.dtype.type(0)
        if by_row:
            scale = inverse_S[i]
            for t in range(m):  # gathered apart: the loop below has only plain reads, and vectorises
                scales[t] = inverse_S[neighbors[t]]
            for t in range(m):
                w = weight(family, constants, f[t])
                s = strength(code, parameters, p[t], w * scale)
                total += s
                s += strength(code, parameters, p_back[t], w * scales[t])
                k[t] = s * pull(family, constants, f[t])
        else:
            for t in range(m):
                s = strength(code, parameters, p[t], weight(family, constants, f[t]) * scale)
                total += s
                k[t] = (s + s) * pull(family, constants, f[t])
        mass[i] = total
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(m):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def strength(code, parameters, p, q):
    """-q D_near: how strongly a pair is drawn together. 0 where p = 0."""
    if len(code) == 0:  # KL
        return p
    first, second, third, tiny = parameters
    if len(code) == 1:  # NeRV and reverse KL: lam, 1 - lam, (1 - floor)/eps
        return first * p + second * q * ln1p(third * p)
    q = max(q, tiny)  # Jensen-Shannon: 1/kappa, kappa/(1 - kappa), 1 - kappa
    return first * q * ln1p(second * p / q)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, divergence, log_S, Y, packed, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    indptr, columns, own, _ = graph
    family, constants = kernel
    code, parameters = divergence
    offsets, f, costs, _ = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, packed, i, columns[begin : begin + m], offsets, f)
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
    if len(code) == 1:
        return first * p * (ln(max(p, tiny)) - log_q) - second * q * ln1p(third * p)
    z = third * (q + second * p)  # kappa p + (1 - kappa) q
    return first * second * p * ln(max(p / z, tiny)) - first * q * ln1p(second * p / q)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _buffers(indptr, start, stop, like):
    """Return room for the offsets of the longest row, and for three numbers per neighbour."""
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    more = np.empty((3, longest), like.dtype)
    return np.empty((like.shape[1], longest), like.dtype), more[0], more[1], more[2]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _write_offsets(Y, packed, i, neighbors, offsets, f):
    """Write y_i - y_j and its squared length for a row of neighbours."""
    if packed.size:
        x, y = _first(packed[i]), _second(packed[i])
        for t in range(neighbors.size):
            other = packed[neighbors[t]]
            dx, dy = x - _first(other), y - _second(other)
            offsets[0, t], offsets[1, t] = dx, dy
            f[t] = dx * dx + dy * dy
        return
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
