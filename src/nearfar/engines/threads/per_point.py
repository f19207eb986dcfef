"""Compiled forms of the formulas of :mod:`nearfar.methods.per_point_maps`."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import bind, compiled, jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.divergences.probability import no_strength
from nearfar.engines.threads.loops import Formula, buffers, write_offsets
from nearfar.far.per_point import per_point_kernel
from nearfar.kernels import exp
from nearfar.methods.per_point_maps import attraction_of_each, entry_cost_of_each, rise_of_each


def _attraction(place, pattern, mine, _theirs, fixed, back, u_ij, u_ji, *, cost, alpha):
    Y, S, _ = mine
    kind, none = (fixed is not None, u_ij is not None), np.empty(0, Y.dtype)
    functions, parameters = per_point_kernel(cost.kernel, Y.dtype)
    near = bind(attraction_per_point, (functions, compiled(cost.formulas.strength or no_strength), kind))
    scalar = Y.dtype.type
    numbers = parameters, _of_divergence(cost, Y), (1 / S).astype(Y.dtype), scalar(2 * alpha), scalar(cost.smallest)
    entries = (none if part is None else part for part in (fixed, back, u_ij, u_ji))
    out = place.room("pull", Y.shape, Y.dtype), place.room("mass", (len(Y),), Y.dtype)
    shared = (*pattern[:2], *entries), numbers, Y, out
    run_blocks(lambda _, start, stop: near(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return out


def _entry_cost(place, pattern, mine, _theirs, p, *, cost):
    Y, S, _ = mine
    functions, parameters = per_point_kernel(cost.kernel, Y.dtype)
    total = bind(near_cost_per_point, (functions, compiled(cost.formulas.entry_cost)))
    numbers, out = (np.log(S).astype(Y.dtype), _of_divergence(cost, Y), Y.dtype.type(cost.smallest)), np.empty(len(Y))
    shared = (*pattern[:2], p), parameters, numbers, Y, out
    run_blocks(lambda _, start, stop: total(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


def _rise(place, pattern, mine, _theirs, p, *, cost):
    Y = mine[0]
    functions, parameters = per_point_kernel(cost.kernel, Y.dtype)
    rises, out = bind(near_rises, functions), np.empty(len(Y), Y.dtype)
    shared = (*pattern[:2], p), parameters, Y, out
    run_blocks(lambda _, start, stop: rises(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


def _of_divergence(cost, Y):
    return tuple(map(Y.dtype.type, cost.formulas.parameters))


# Compiled, as in engines.threads.maps; ``functions`` are those of a Family, ``parameters`` (theta, its numbers).


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_per_point(functions, near, numbers, Y, out, start, stop):
    """Write factor * sum_j (s_ij g_ij + s_ji g_ji)(y_i - y_j), g = -w'/w, and the mass sum_j s_ij of what moves with Y.

    ``near`` has the parts of s_ij and s_ji that stay, and what those that move are made of.
    """
    kernel, strength, kind = functions
    indptr, columns, fixed, fixed_back, u_ij, u_ji = near
    (theta, units), of_divergence, inverse_S, factor, smallest = numbers
    (gradient, mass), scalar = out, Y.dtype.type
    offsets, f, k = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors = columns[begin:end]
        forth, back = (fixed[begin:end], u_ij[begin:end]), (fixed_back[begin:end], u_ji[begin:end])
        write_offsets(Y, i, neighbors, offsets, f)
        a, scale, total = theta[i], inverse_S[i], scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            b = theta[j]
            q = scale * exp(kernel.log_weight(f[t], a, *units))
            q_back = inverse_S[j] * exp(kernel.log_weight(f[t], b, *units))
            s, s_all = _one_way(strength, kind, forth, t, max(q, smallest), of_divergence)
            s_back = _one_way(strength, kind, back, t, max(q_back, smallest), of_divergence)[1]
            total += scalar(s)
            g, g_back = kernel.neg_log_slope(f[t], a, *units), kernel.neg_log_slope(f[t], b, *units)
            k[t] = scalar(s_all) * g + scalar(s_back) * g_back
        mass[i] = total
        for c in range(gradient.shape[1]):
            g = scalar(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _one_way(strength, kind, near, t, q, parameters):
    """Return the part of s_ij that depends on q, and all of it."""
    fixed, u = near
    s = q - q
    if kind[1]:
        s = strength(u[t], q, *parameters)
    both = s
    if kind[0]:
        both += fixed[t]
    return s, both


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_cost_per_point(functions, pattern, parameters, numbers, Y, out, start, stop):
    """Write for each row what its entries add to the cost of the rest, in float64."""
    kernel, entry_cost = functions
    (indptr, columns, p_ij), (theta, units) = pattern, parameters
    log_S, of_divergence, smallest = numbers
    for i in range(start, stop):
        cost = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if p_ij[e] > 0:
                j, f = columns[e], Y.dtype.type(0)
                for c in range(Y.shape[1]):
                    difference = Y[i, c] - Y[j, c]
                    f += difference * difference
                log_q = kernel.log_weight(f, theta[i], *units) - log_S[i]
                q = max(exp(log_q), smallest)
                cost += np.float64(entry_cost(max(p_ij[e], smallest), q, log_q, *of_divergence))
        out[i] = cost


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_rises(kernel, pattern, parameters, Y, out, start, stop):
    """Write sum_j p_ij d ln w_ij / d theta_i."""
    (indptr, columns, p_ij), (theta, units) = pattern, parameters
    offsets, f, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, a, total = p_ij[begin : begin + m], theta[i], out.dtype.type(0)
        for t in range(m):
            total += p[t] * kernel.rise(f[t], a, *units)
        out[i] = total


FORMS_OF_PAIRS: dict[Formula, Formula] = {
    attraction_of_each: _attraction,
    entry_cost_of_each: _entry_cost,
    rise_of_each: _rise,
}
