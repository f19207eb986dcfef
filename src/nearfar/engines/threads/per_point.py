"""Compiled forms of the formulas of :mod:`nearfar.methods.per_point_maps`."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import bind, compiled, jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.divergences.probability import no_strength
from nearfar.engines.threads.loops import Formula, buffers, first_of, second_of, write_offsets
from nearfar.far.per_point import per_point_kernel
from nearfar.kernels import exp
from nearfar.methods.per_point_maps import attraction_of_each, entry_cost_of_each


def _attraction(place, pattern, mine, _theirs, fixed, back, u_ij, u_ji, p, *, cost, alpha):
    Y, S, _ = mine
    kind, none = (fixed is not None, u_ij is not None, p is not None), np.empty(0, Y.dtype)
    packed = Y.dtype == np.float32 and Y.shape[1] == 2
    functions, parameters = per_point_kernel(cost.kernel, Y.dtype)
    near = bind(attraction_packed if packed else attraction_any, (functions, _strength_of(cost), kind))
    scalar = Y.dtype.type
    numbers = parameters, _of_divergence(cost, Y), (1 / S).astype(Y.dtype), scalar(2 * alpha), scalar(cost.smallest)
    entries = (none if part is None else part for part in (fixed, back, u_ij, u_ji, p))
    rows = (len(Y),)
    out = tuple(place.room(name, rows, Y.dtype) for name in ("mass", "rises"))
    out = place.room("pull", Y.shape, Y.dtype), *out
    shared = (*pattern[:2], *entries), numbers, Y.view(np.int64).ravel() if packed else Y, out
    run_blocks(lambda _, start, stop: near(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return out


def _strength_of(cost):
    return compiled(cost.formulas.strength or no_strength)


def _entry_cost(place, pattern, mine, _theirs, p, *, cost):
    Y, S, _ = mine
    functions, parameters = per_point_kernel(cost.kernel, Y.dtype)
    total = bind(near_cost_per_point, (functions, compiled(cost.formulas.entry_cost)))
    numbers, out = (np.log(S).astype(Y.dtype), _of_divergence(cost, Y), Y.dtype.type(cost.smallest)), np.empty(len(Y))
    shared = (*pattern[:2], p), parameters, numbers, Y, out
    run_blocks(lambda _, start, stop: total(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


def _of_divergence(cost, Y):
    return tuple(map(Y.dtype.type, cost.formulas.parameters))


# Compiled, as in engines.threads.maps; ``functions`` are those of a Family, ``parameters`` (theta, its numbers).


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_packed(functions, near, numbers, packed, out, start, stop):
    """Write factor * sum_j (s_ij g_ij + s_ji g_ji)(y_i - y_j), g = -w'/w, for two components in float32.

    Beside it the mass sum_j s_ij of what moves with Y, and sum_j p_ij d ln w_ij / d theta_i if p is given. ``near`` has
    the parts of s_ij and s_ji that stay, what those that move are made of, and p.
    """
    indptr, columns = near[0], near[1]
    (theta, _), _, inverse_S, factor, _ = numbers
    (gradient, mass, rises), scalar = out, np.float32
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, mine, row = columns[begin:end], (theta[i], inverse_S[i]), _of_row(near, begin, end)
        x, y = first_of(packed[i]), second_of(packed[i])
        gx = gy = total = rise = scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - first_of(other), y - second_of(other)
            f, theirs = dx * dx + dy * dy, (theta[j], inverse_S[j] if functions[2][1] else scalar(0))
            k, s, more = _of_pair(functions, row, numbers, f, t, mine, theirs)
            gx += k * dx
            gy += k * dy
            total += s
            rise += more
        gradient[i, 0], gradient[i, 1] = factor * gx, factor * gy
        mass[i], rises[i] = total, rise


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_any(functions, near, numbers, Y, out, start, stop):
    """Do what ``attraction_packed`` does, for any number of components and type of numbers."""
    indptr, columns = near[0], near[1]
    (theta, _), _, inverse_S, factor, _ = numbers
    (gradient, mass, rises), scalar = out, Y.dtype.type
    offsets, f, k = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, mine, row = columns[begin:end], (theta[i], inverse_S[i]), _of_row(near, begin, end)
        write_offsets(Y, i, neighbors, offsets, f)
        total = rise = scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            theirs = theta[j], inverse_S[j] if functions[2][1] else scalar(0)
            k[t], s, more = _of_pair(functions, row, numbers, f[t], t, mine, theirs)
            total += s
            rise += more
        mass[i], rises[i] = total, rise
        for c in range(gradient.shape[1]):
            g = scalar(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _of_row(near, begin, end):
    """Return the entries of a row: slices, as an index that might be negative keeps loops from vectorising."""
    _, _, fixed, fixed_back, u_ij, u_ji, p = near
    return fixed[begin:end], fixed_back[begin:end], u_ij[begin:end], u_ji[begin:end], p[begin:end]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _of_pair(functions, row, numbers, f, t, mine, theirs):
    """Return s_ij g_ij + s_ji g_ji, s_ij as far as it moves with Y, and p_ij d ln w_ij / d theta_i."""
    kernel, strength, kind = functions
    fixed, fixed_back, u_ij, u_ji, p = row
    (_, units), of_divergence, _, _, smallest = numbers
    (a, inverse_S), (b, inverse_S_back), scalar = mine, theirs, u_ij.dtype.type
    s = s_back = moves = rise = f - f
    if kind[1]:
        q = inverse_S * exp(kernel.log_weight(f, a, *units))
        q_back = inverse_S_back * exp(kernel.log_weight(f, b, *units))
        s = moves = scalar(strength(u_ij[t], max(q, smallest), *of_divergence))
        s_back = scalar(strength(u_ji[t], max(q_back, smallest), *of_divergence))
    if kind[0]:
        s, s_back = s + fixed[t], s_back + fixed_back[t]
    if kind[2]:
        rise = p[t] * kernel.rise(f, a, *units)
    return s * kernel.neg_log_slope(f, a, *units) + s_back * kernel.neg_log_slope(f, b, *units), moves, rise


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_cost_per_point(functions, pattern, parameters, numbers, Y, out, start, stop):
    """Write for each row what its entries add to the cost of the rest, in float64."""
    kernel, entry_cost = functions
    (indptr, columns, p_ij), (theta, units) = pattern, parameters
    log_S, of_divergence, smallest = numbers
    offsets, f, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, p, cost = columns[begin:end], p_ij[begin:end], 0.0
        write_offsets(Y, i, neighbors, offsets, f)
        for t in range(neighbors.size):
            log_q = kernel.log_weight(f[t], theta[i], *units) - log_S[i]
            q = max(exp(log_q), smallest)
            more = np.float64(entry_cost(max(p[t], smallest), q, log_q, *of_divergence))
            cost += more if p[t] > 0 else 0.0
        out[i] = cost


FORMS_OF_PAIRS: dict[Formula, Formula] = {
    attraction_of_each: _attraction,
    entry_cost_of_each: _entry_cost,
}
