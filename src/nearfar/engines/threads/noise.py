"""Compiled forms of the formulas of :mod:`nearfar.methods.noise_maps`, for the pattern of the data and for a circle."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from functools import partial

import numpy as np

from nearfar._core.jit import bind, jit
from nearfar._core.threads import even_bounds, run_rows
from nearfar._core.vector import FAST
from nearfar.engines.threads.loops import Formula, buffers, first_of, second_of, write_offsets
from nearfar.methods import noise_maps as methods

_ROWS = 2048  # of a block of the circle: what is read and written of it stays in the nearest cache
_WIDE = 10  # components from which on neighbours are read one by one


# With sides (Y,) neighbours and noise are told apart by a; with (Y, W) and (Y, c) by what belongs to a point.


def _near(place, pattern, mine, _theirs, p, *, cost, exaggeration, a=0.0):
    """Return the pull of the neighbours, and the charge of each point where they are told from all of W."""
    (Y, W), ranking = _sides(mine), len(mine) > 1
    dtype, packed = Y.dtype, Y.dtype == np.float32 and Y.shape[1] == 2
    loop = near_packed if packed else near_wide if Y.shape[1] >= _WIDE else near_any
    near, numbers = bind(loop, (cost.compiled[0], ranking)), (a, exaggeration, 2 if ranking else 4)
    shared = (*pattern[:2], p, W), (cost.numbers[0], *map(dtype.type, numbers))
    out = place.room("pull", Y.shape, dtype), place.room("charges", (len(Y),), dtype)
    given = Y.view(np.int64).ravel() if packed else Y
    run_rows(partial(near, *shared, given, out), place.blocks(pattern[0]), place.n_jobs)
    return out if ranking else out[:1]


def _push(place, circle, mine, _theirs, _both, *, cost, a=0.0, share=2.0):
    """Return what the noise drives apart, in both directions; by the charge of its first if there are charges."""
    (Y, c), ranking = _sides(mine), len(mine) > 1
    laid, out = _laid(place, circle, Y), place.room("push", Y.shape, Y.dtype)
    push = bind(noise_push, (cost.compiled[0], ranking))
    charges = np.tile(c[circle.order], 2) if ranking else c
    noise = (laid, circle.steps, circle.order), (cost.numbers[0], *map(Y.dtype.type, (a, share))), charges, out
    run_rows(partial(push, *noise), even_bounds(len(Y), _ROWS), place.n_jobs)
    return (out,)


def _weight(place, circle, mine, _theirs, *, cost):
    Y = mine[0]
    laid, along, parameters = _laid(place, circle, Y), np.empty(len(Y), Y.dtype), cost.numbers[0]
    weights = bind(noise_weights, cost.compiled[0])
    run_rows(partial(weights, laid, circle.steps, parameters, along), even_bounds(len(Y), _ROWS), place.n_jobs)
    W = place.room("W", (len(Y),), Y.dtype)
    W[circle.order] = along
    return (W,)


def _sides(mine):
    """Return positions, and what belongs to a point beside them; nothing where there is none."""
    return mine if len(mine) > 1 else (mine[0], np.empty(0, mine[0].dtype))


def _laid(place, circle, Y):
    """Return the positions along the circle, twice in a row; they stay while the circle is in use."""
    if circle.laid is None:
        circle.laid = laid = np.empty((Y.shape[1], 2 * len(Y)), Y.dtype)
        run_rows(partial(lay_out, Y, circle.order, laid), even_bounds(len(Y), _ROWS), place.n_jobs)
    return circle.laid


# Compiled. All reads along the circle are in order, so the loops vectorise, and nothing is scattered. ``circle`` holds,
# twice in a row, the positions by component: r + s needs no modulo.
#
# ``functions`` are those of the kernel, and whether it is "global". ``near`` is the pattern, p_ij and W_i of
# each point; ``numbers`` are the parameters of the kernel, a, the exaggeration and a factor; ``out`` are the gradient
# and the charges.


@jit
def lay_out(Y, order, circle, start, stop):
    """Write the positions of points order[start] .. along the circle, twice."""
    n = order.size
    for c in range(Y.shape[1]):
        for r in range(start, stop):
            value = Y[order[r], c]
            circle[c, r] = value
            circle[c, n + r] = value


@jit(fastmath=FAST, error_model="numpy", inline="always")
def noise_weights(kernel, circle, steps, parameters, out, start, stop):
    """Write W_r, the sum of w over the partners of each point."""
    f = np.empty(stop - start, circle.dtype)
    out[start:stop] = 0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            out[start + t] += kernel.weight(f[t], *parameters)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def noise_push(functions, noise, numbers, charges, out, start, stop):
    """Write factor * sum of c w'/w (y_i - y_k) over the noise in which a point is the first or the second.

    c is w / (w + a) for "local"; for "global" w times the charge of the first, twice along the circle in ``charges``.
    ``noise`` are the circle, the steps and the points along the circle, ``numbers`` the kernel's parameters, a, factor.
    """
    (circle, steps, order), factor = noise, numbers[2]
    n, d = circle.shape[1] // 2, circle.shape[0]
    f, total = np.empty(stop - start, circle.dtype), np.zeros((d, stop - start), circle.dtype)
    whole = f.size == n  # all points are here: a pair is looked at once, from its first
    seconds = np.zeros((d, 2 * n if whole else 0), circle.dtype)
    for step in steps:
        for back in range(1 if whole else 2):
            shift = n - step if back else step
            _squares(circle, shift, f, start)
            _to_pushes(functions, f, numbers, charges[start + back * shift : stop + back * shift])
            for c in range(d):
                own, other, row = circle[c, start:stop], circle[c, start + shift : stop + shift], total[c]
                if whole:
                    second = seconds[c, shift : shift + n]
                    for t in range(n):
                        push = f[t] * (own[t] - other[t])
                        row[t] += push
                        second[t] += push
                else:
                    for t in range(f.size):
                        row[t] += f[t] * (own[t] - other[t])
    for c in range(d):
        row = total[c]
        for t in range(seconds.shape[1] // 2):
            row[t] -= seconds[c, t] + seconds[c, n + t]
        for t in range(f.size):
            out[order[start + t], c] = -factor * row[t]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _to_pushes(functions, f, numbers, charges):
    """Make of squared distances what drives a pair apart, by the charge of its first if there are charges."""
    (kernel, ranking), (parameters, a, _) = functions, numbers
    scalar = f.dtype.type
    if not ranking:
        for t in range(f.size):
            w = scalar(kernel.weight(f[t], *parameters))
            f[t] = w / (w + a) * scalar(kernel.neg_log_slope(f[t], *parameters))
    else:
        for t in range(f.size):
            w = charges[t] * scalar(kernel.weight(f[t], *parameters))
            f[t] = w * scalar(kernel.neg_log_slope(f[t], *parameters))


@jit(fastmath=FAST, error_model="numpy")
def _squares(circle, shift, f, start):
    """Write squared distances of the points from ``start`` on to those ``shift`` further."""
    f[:] = 0
    for c in range(circle.shape[0]):
        own, other = circle[c, start : start + f.size], circle[c, start + shift : start + shift + f.size]
        for t in range(f.size):
            difference = own[t] - other[t]
            f[t] += difference * difference


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_packed(functions, near, numbers, packed, out, start, stop):
    """Write factor * sum_j k_ij (-w'/w)(y_i - y_j), see ``_strength``, for two components in float32.

    Also, for "global", the charge sum_j p_ij / (w_ij + W_i) of each point.
    """
    kernel, ranking = functions
    indptr, columns, p, sums = near
    parameters, a, exaggeration, factor = numbers
    gradient, charges = out
    scalar = np.float32
    for i in range(start, stop):
        x, y = first_of(packed[i]), second_of(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, own = columns[begin:end], p[begin:end]
        W = a if not ranking else sums[i]
        gx = gy = charge = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - first_of(other), y - second_of(other)
            f = dx * dx + dy * dy
            w = scalar(kernel.weight(f, *parameters))
            share = own[t] / (w + W)
            charge += share
            k = _strength(ranking, own[t], w, share, a, a if not ranking else sums[j], exaggeration)
            k *= scalar(kernel.neg_log_slope(f, *parameters))
            gx += k * dx
            gy += k * dy
        if ranking:
            charges[i] = charge
        gradient[i, 0], gradient[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_any(functions, near, numbers, Y, out, start, stop):
    """Do what ``near_packed`` does, for any number of components and type of numbers: component by component."""
    ranking, factor = functions[1], numbers[3]
    indptr, columns, p, sums = near
    gradient, charges = out
    offsets, f, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k = columns[begin:end], f[: end - begin]
        write_offsets(Y, i, neighbors, offsets, f)
        charge = _to_strengths(functions, k, p[begin:end], neighbors, sums, numbers, i)
        if ranking:
            charges[i] = charge
        for c in range(gradient.shape[1]):
            g = gradient.dtype.type(0)
            for t in range(k.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_wide(functions, near, numbers, Y, out, start, stop):
    """Do what ``near_any`` does, neighbour by neighbour: quicker where a position fills a line of the cache."""
    ranking, factor = functions[1], numbers[3]
    indptr, columns, p, sums = near
    gradient, charges = out
    offsets, f, _ = buffers(indptr, start, stop, Y)
    rows, zero = offsets.reshape(offsets.shape[1], offsets.shape[0]), gradient.dtype.type(0)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k, y, g = columns[begin:end], f[: end - begin], Y[i], gradient[i]
        for t in range(k.size):
            other, row, square = Y[neighbors[t]], rows[t], zero
            for c in range(y.size):
                difference = y[c] - other[c]
                row[c] = difference
                square += difference * difference
            k[t] = square
        charge = _to_strengths(functions, k, p[begin:end], neighbors, sums, numbers, i)
        if ranking:
            charges[i] = charge
        g[:] = zero
        for t in range(k.size):
            row, strength = rows[t], factor * k[t]
            for c in range(y.size):
                g[c] += strength * row[c]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _to_strengths(functions, k, p, neighbors, sums, numbers, i):
    """Make of squared distances k_ij (-w'/w); return the charge."""
    kernel, ranking = functions
    parameters, a, exaggeration, _ = numbers
    scalar, charge = k.dtype.type, a - a
    W = a if not ranking else sums[i]
    for t in range(k.size):
        w = scalar(kernel.weight(k[t], *parameters))
        share = p[t] / (w + W)
        charge += share
        other = a if not ranking else sums[neighbors[t]]
        strength = _strength(ranking, p[t], w, share, a, other, exaggeration)
        k[t] = strength * scalar(kernel.neg_log_slope(k[t], *parameters))
    return charge


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _strength(ranking, p, w, share, a, other, exaggeration):
    """Return k_ij, for p_ij = p_ji: both a pair's parts, i first and j first, in units of two for "local"."""
    if not ranking:
        return exaggeration * a * share
    return (exaggeration + exaggeration) * p - w * (share + p / (w + other))


FORMS_OF_PAIRS: dict[Formula, Formula] = {
    methods.local_pull: _near,
    methods.global_pull: _near,
    methods.local_push: _push,
    methods.global_push: _push,
    methods.weight: _weight,
}
