"""Kernels of the near part of a map by row whose kernel differs from point to point, gathered row by row.

Names as in ``_neighbor_kernels``; ``kernel`` is (family, units, theta) of ``far._per_point_kernels``.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.far._per_point_kernels import log_weight, pull, rise
from nearfar.models.maps._neighbor_kernels import _buffers, _entry_cost, _jensen_shannon, _write_offsets
from nearfar.scores._kernels import exp


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pull_rows(indptr, columns, near, kernel, divergence, inverse_S, factor, Y, out, mass, start, stop):
    """Write factor * sum_j (s_ij g_ij + s_ji g_ji)(y_i - y_j), g = -w'/w, and the mass sum_j s_ij of what moves with Y.

    ``near`` are the parts of s_ij and s_ji that stay (KL, NeRV), and what those that move are made of.
    """
    family, units, theta = kernel
    offsets, f, k = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, fixed_back = columns[begin:end], near[0][begin:end], near[1][begin:end]
        own, back = near[2][begin:end], near[3][begin:end]
        _write_offsets(Y, i, neighbors, offsets, f)
        a, scale, total = theta[i], inverse_S[i], out.dtype.type(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            b = theta[j]
            s, s_back = _moving(divergence, kernel, t, own, back, a, b, f[t], scale, inverse_S[j])
            total += s
            if len(divergence[0]) == 0 or len(divergence[0]) == 2:
                s, s_back = s + fixed[t], s_back + fixed_back[t]
            k[t] = s * pull(family, units, a, f[t]) + s_back * pull(family, units, b, f[t])
        mass[i] = total
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _moving(divergence, kernel, t, own, back, a, b, f, scale, scale_back):
    """Return the parts of s_ij and s_ji that move with Y; s is -q D_near, 0 where p = 0."""
    code, parameters = divergence
    family, units, _ = kernel
    if len(code) == 0:  # KL
        return f - f, f - f
    q, q_back = scale * exp(log_weight(family, units, a, f)), scale_back * exp(log_weight(family, units, b, f))
    if len(code) <= 2:  # reverse KL, NeRV
        return q * own[t], q_back * back[t]
    return _jensen_shannon(parameters, own[t], q), _jensen_shannon(parameters, back[t], q_back)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, divergence, log_S, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    indptr, columns, own, _ = graph
    family, units, theta = kernel
    code, parameters = divergence
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, shift, a = own[begin : begin + m], log_S[i], theta[i]
        for t in range(m):
            costs[t] = _entry_cost(code, parameters, p[t], log_weight(family, units, a, f[t]) - shift)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_rises(graph, kernel, Y, out, start, stop):
    """Write sum_j p_ij d ln w_ij / d theta_i."""
    indptr, columns, own, _ = graph
    family, units, theta = kernel
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, a, total = own[begin : begin + m], theta[i], out.dtype.type(0)
        for t in range(m):
            total += p[t] * rise(family, units, a, f[t])
        out[i] = total
