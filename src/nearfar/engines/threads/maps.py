"""Compiled forms of the formulas of maps: of :mod:`nearfar.methods.maps`, ``descent`` and ``density``.

A form for pairs takes the place, the pattern, the rows of both sides and their entries; it returns the sums.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import bind, jit
from nearfar._core.threads import run_blocks
from nearfar._core.vector import FAST
from nearfar.engines.threads.loops import Formula, buffers, first_of, second_of, write_offsets
from nearfar.methods.density import drawn_together, squares
from nearfar.methods.descent import DOWN, LEAST, UP, momentum_step, next_gain
from nearfar.methods.maps import attraction, sum_of_w


def _attraction(place, pattern, mine, _theirs, fixed, u_ij, u_ji, *, cost, totals, error, exaggeration):
    Y, *w = mine
    dtype, none = Y.dtype, np.empty(0, Y.dtype)
    packed = dtype == np.float32 and Y.shape[1] == 2
    kind = fixed is not None, u_ij is not None, u_ji is not None
    functions = *cost.compiled[:2], kind
    near = bind(attraction_packed if packed else attraction_any, functions)
    entries = (none if part is None else part for part in (fixed, u_ij, u_ji))
    factor = dtype.type(2 * exaggeration * (1 if cost.by_row else 2))
    S = sum_of_w(np, *(w or [np.empty(0)]), cost=cost, totals=totals, error=error)
    numbers = *cost.numbers, np.atleast_1d(1 / S).astype(dtype), factor, dtype.type(cost.smallest)
    shared = (*pattern[:2], *entries), numbers, Y.view(np.int64).ravel() if packed else Y
    out = place.room("gradient", Y.shape, dtype), place.room("mass", (len(Y),), dtype)
    run_blocks(lambda _, start, stop: near(*shared, out, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return out


def _momentum_step(moving, g, *, moved, n, rate, momentum, longest):
    scalar, sums = g.dtype.type, np.zeros(g.shape[1] + 1)
    numbers = scalar(rate), scalar(momentum), scalar(UP), scalar(DOWN), scalar(LEAST), scalar(longest)
    move((*moving[:1], g, *moving[1:]), numbers, np.asarray(moved / n, g.dtype), sums)
    return sums[:-1], sums[-1]


def _squares(place, pattern, mine, _theirs):
    (Y,) = mine
    out = place.room("spread", (len(Y),), Y.dtype), place.room("similar", (len(Y),), Y.dtype)
    shared = *pattern[:2], Y, *out
    run_blocks(lambda _, start, stop: sum_squares(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return out


def _drawn_together(place, pattern, mine, _theirs):
    Y, far, near = mine
    out = place.room("drawn", Y.shape, Y.dtype)
    shared = *pattern[:2], Y, far, near, out
    run_blocks(lambda _, start, stop: sum_pulls(*shared, start, stop), place.blocks(pattern[0]), place.n_jobs)
    return (out,)


# Compiled: the forces between points that the data relate. Rows of the pattern of P and Pᵀ together are gathered,
# nothing is scattered: threads never write to the same place. What is bound by memory is the reading of the neighbours'
# positions. With two components in float32 a position is therefore one number of 64 bits, so that a row's neighbours
# are fetched by vector gathers, and all is done in one loop without intermediate arrays, which takes half the time.
#
# ``functions`` are those of the kernel, the strength of the divergence, and of what kind it is: whether it has a part
# that is fixed, one that depends on q, and that in both directions: constants, since all is inlined where it is bound.
# ``near`` is the pattern (columns are uint32: a sign would cost a check per access), and the arrays that strengths are
# made of. ``numbers`` are the parameters of kernel and divergence, 1/S (of each row, or one), a factor, and
# what q is at least. ``out`` are the gradient, factor * sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j), by pair half of it, and
# the mass sum_j s_ij of what depends on q.


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_packed(functions, near, numbers, packed, out, start, stop):
    """Write the forces of some rows, for two components in float32: the hot loop of all maps.

    ``k`` is the near half of k_ij + k_ji; q_ij counts where a strength moves with q, which KL's does not.
    """
    kernel, strength, kind = functions
    indptr, columns, fixed, u_ij, u_ji = near
    parameters, of_divergence, inverse_S, factor, smallest = numbers
    limits = smallest, of_divergence
    gradient, mass = out
    scalar = np.float32
    for i in range(start, stop):
        x, y = first_of(packed[i]), second_of(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, scale = columns[begin:end], inverse_S[i if inverse_S.size > 1 else 0]
        mine = fixed[begin:end], u_ij[begin:end], u_ji[begin:end]
        gx = gy = total = scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - first_of(other), y - second_of(other)
            f = dx * dx + dy * dy
            w = scalar(kernel.weight(f, *parameters))
            back = inverse_S[j] if kind[2] else scale
            q = w * scale, w * back
            s, both = strengths(strength, kind, mine, t, q, limits)
            total += scalar(s)
            k = scalar(both) * scalar(kernel.neg_log_slope(f, *parameters))
            gx += k * dx
            gy += k * dy
        mass[i] = total
        gradient[i, 0], gradient[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_any(functions, near, numbers, Y, out, start, stop):
    """Do what ``attraction_packed`` does, for any number of components and type of numbers."""
    kernel, strength, kind = functions
    indptr, columns, fixed, u_ij, u_ji = near
    parameters, of_divergence, inverse_S, factor, smallest = numbers
    limits = smallest, of_divergence
    gradient, mass = out
    scalar = Y.dtype.type
    offsets, f, k = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, scale, total = columns[begin:end], inverse_S[i if inverse_S.size > 1 else 0], scalar(0)
        mine = fixed[begin:end], u_ij[begin:end], u_ji[begin:end]
        write_offsets(Y, i, neighbors, offsets, f)
        for t in range(neighbors.size):
            w = scalar(kernel.weight(f[t], *parameters))
            back = inverse_S[neighbors[t]] if kind[2] else scale
            q = w * scale, w * back
            s, both = strengths(strength, kind, mine, t, q, limits)
            total += scalar(s)
            k[t] = scalar(both) * scalar(kernel.neg_log_slope(f[t], *parameters))
        mass[i] = total
        for c in range(gradient.shape[1]):
            g = scalar(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def strengths(strength, kind, mine, t, q, limits):
    """Return the part of s_ij that depends on q, and s_ij + s_ji; by pair s_ij."""
    fixed, u_ij, u_ji = mine
    smallest, parameters = limits
    s = smallest - smallest
    if kind[1]:
        s = strength(u_ij[t], max(q[0], smallest), *parameters)
    both = s
    if kind[2]:
        both += strength(u_ji[t], max(q[1], smallest), *parameters)
    if kind[0]:
        both += fixed[t]
    return s, both


gain_of = jit(next_gain, fastmath=FAST, error_model="numpy", forceinline=True)


@jit(fastmath=FAST, error_model="numpy")
def move(state, constants, mean, sums):
    """Move rows; write the sums of their new positions, and of their squared gradient."""
    Y, G, velocity, gains = state
    learning_rate, momentum, up, down, least, longest = constants
    zero, d = Y.dtype.type(0), Y.shape[1]
    for i in range(Y.shape[0]):
        square = zero
        for c in range(d):
            g = G[i, c]
            v = velocity[i, c]
            gain = gain_of(gains[i, c], v, g, up, down, least)
            v = momentum * v - learning_rate * gain * g
            gains[i, c] = gain
            velocity[i, c] = v
            square += v * v
        # A point that would leap is held back, by the same factor in all components.
        shrink = longest / np.sqrt(square) if square > longest * longest else Y.dtype.type(1)
        for c in range(d):
            v = shrink * velocity[i, c]
            velocity[i, c] = v
            Y[i, c] += v - mean[c]
            sums[c] += np.float64(Y[i, c])
            sums[d] += np.float64(G[i, c]) * np.float64(G[i, c])


# Compiled: densities.


@jit(fastmath=FAST, error_model="numpy")
def sum_squares(indptr, columns, Y, spread, similar, start, stop):
    """Write sum_j w_ij f_ij and sum_j w_ij of some rows."""
    zero, one = Y.dtype.type(0), Y.dtype.type(1)
    for i in range(start, stop):
        total = total_w = zero
        for e in range(indptr[i], indptr[i + 1]):
            f = zero
            for c in range(Y.shape[1]):
                way = Y[i, c] - Y[columns[e], c]
                f += way * way
            w = one / np.sqrt(one + f)
            total += w * f
            total_w += w
        spread[i], similar[i] = total, total_w


@jit(fastmath=FAST, error_model="numpy")
def sum_pulls(indptr, columns, Y, far, near, out, start, stop):
    """Write sum_j w_ij [a_i + a_j + w_ij² (b_i + b_j)] (y_i - y_j) of some rows; a are ``far``, b ``near``."""
    zero, one = Y.dtype.type(0), Y.dtype.type(1)
    k, _, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        neighbors = columns[indptr[i] : indptr[i + 1]]
        for t in range(neighbors.size):
            f = zero
            for c in range(Y.shape[1]):
                way = Y[i, c] - Y[neighbors[t], c]
                f += way * way
            square = one / (one + f)
            k[0, t] = np.sqrt(square) * (far[i] + far[neighbors[t]] + square * (near[i] + near[neighbors[t]]))
        for c in range(Y.shape[1]):
            total = zero
            for t in range(neighbors.size):
                total += k[0, t] * (Y[i, c] - Y[neighbors[t], c])
            out[i, c] = total


FORMS: dict[Formula, Formula] = {momentum_step: _momentum_step}
FORMS_OF_PAIRS: dict[Formula, Formula] = {attraction: _attraction, squares: _squares, drawn_together: _drawn_together}
"""The quicker form of a formula for pairs; a formula without one runs as it is."""
