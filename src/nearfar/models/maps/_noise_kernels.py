"""Kernels of maps with sampled repulsion.

Pairs of noise need no random number each. The points stand in a random circle, and a sample is a step along it: with a
step s every point r has the partner r + s, and is that of r - s. Steps are drawn evenly from 1 .. n - 1, so for each
point every other one is as likely. All reads are in order, so the loops vectorise, and nothing is scattered. ``circle``
holds, twice in a row, the positions by component: r + s needs no modulo.

Near: as in ``_neighbor_kernels``, ``code`` is () for "local" and (0,) for "global". ``sums`` holds W_i of each point.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.models.maps._neighbor_kernels import _buffers, _first, _second, _write_offsets
from nearfar.scores._kernels import ln, ln1p, log_weight, pull, weight


@njit(cache=True, nogil=True)
def lay_out(Y, order, circle, start, stop):
    """Write the positions of points order[start] .. along the circle, twice."""
    n = order.size
    for c in range(Y.shape[1]):
        for r in range(start, stop):
            value = Y[order[r], c]
            circle[c, r] = value
            circle[c, n + r] = value


# -------------------------------------------------------------------- noise


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def noise_weights(circle, steps, kernel, out, start, stop):
    """Write W_r, the sum of w over the partners of each point."""
    family, constants = kernel
    f = np.empty(stop - start, circle.dtype)
    out[start:stop] = 0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            out[start + t] += weight(family, constants, f[t])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def noise_push(circle, steps, kernel, code, a, charges, factor, order, out, start, stop):
    """Add factor * sum of c w'/w (y_i - y_k) over the noise in which a point is the first or the second.

    c is w / (w + a) for "local"; for "global" w times the charge of the first, twice along the circle in ``charges``.
    """
    family, constants = kernel
    n, d = circle.shape[1] // 2, circle.shape[0]
    f, total = np.empty(stop - start, circle.dtype), np.zeros((d, stop - start), circle.dtype)
    for step in steps:
        for back in range(2):
            shift = n - step if back else step
            _squares(circle, shift, f, start)
            if len(code) == 0:
                for t in range(f.size):
                    w = weight(family, constants, f[t])
                    f[t] = w / (w + a) * pull(family, constants, f[t])
            else:
                first = start + shift if back else start
                for t in range(f.size):
                    f[t] = charges[first + t] * weight(family, constants, f[t]) * pull(family, constants, f[t])
            for c in range(d):
                own, other, row = circle[c, start:stop], circle[c, start + shift : stop + shift], total[c]
                for t in range(f.size):
                    row[t] += f[t] * (own[t] - other[t])
    for c in range(d):
        for t in range(f.size):
            out[order[start + t], c] -= factor * total[c, t]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def noise_cost(circle, steps, kernel, a, start, stop):
    """Return the sum of ln(1 + w / a) over the noise of some points, in float64."""
    family, constants = kernel
    f, cost = np.empty(stop - start, circle.dtype), 0.0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            f[t] = ln1p(weight(family, constants, f[t]) / a)
        for t in range(f.size):
            cost += np.float64(f[t])
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _squares(circle, shift, f, start):
    """Write squared distances of the points from ``start`` on to those ``shift`` further."""
    f[:] = 0
    for c in range(circle.shape[0]):
        own, other = circle[c, start : start + f.size], circle[c, start + shift : start + shift + f.size]
        for t in range(f.size):
            difference = own[t] - other[t]
            f[t] += difference * difference


# -------------------------------------------------------------------- neighbours


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_packed(graph, kernel, code, a, sums, exaggeration, factor, packed, out, charges, start, stop):
    """Write factor * sum_j k_ij (-w'/w)(y_i - y_j), see ``_strength``, for two components in float32.

    Also, for "global", the charge sum_j p_ij / (w_ij + W_i) of each point.
    """
    indptr, columns, p = graph
    family, constants = kernel
    for i in range(start, stop):
        x, y = _first(packed[i]), _second(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, own = columns[begin:end], p[begin:end]
        W = sums[i] if len(code) else a
        gx = gy = charge = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - _first(other), y - _second(other)
            f = dx * dx + dy * dy
            w = weight(family, constants, f)
            share = own[t] / (w + W)
            charge += share
            k = _strength(code, own[t], w, share, a, sums[j] if len(code) else a, exaggeration)
            k *= pull(family, constants, f)
            gx += k * dx
            gy += k * dy
        if len(code):
            charges[i] = charge
        out[i, 0], out[i, 1] = factor * gx, factor * gy


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_any(graph, kernel, code, a, sums, exaggeration, factor, Y, out, charges, start, stop):
    """Do what ``near_packed`` does, for any number of components and type of numbers: component by component."""
    indptr, columns, p = graph
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k = columns[begin:end], f[: end - begin]
        _write_offsets(Y, i, neighbors, offsets, f)
        charge = _to_strengths(k, p[begin:end], neighbors, kernel, code, a, sums, i, exaggeration)
        if len(code):
            charges[i] = charge
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(k.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_wide(graph, kernel, code, a, sums, exaggeration, factor, Y, out, charges, start, stop):
    """Do what ``near_any`` does, neighbour by neighbour: quicker where a position fills a line of the cache."""
    indptr, columns, p = graph
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    rows, zero = offsets.reshape(offsets.shape[1], offsets.shape[0]), out.dtype.type(0)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k, y, g = columns[begin:end], f[: end - begin], Y[i], out[i]
        for t in range(k.size):
            other, row, square = Y[neighbors[t]], rows[t], zero
            for c in range(y.size):
                difference = y[c] - other[c]
                row[c] = difference
                square += difference * difference
            k[t] = square
        charge = _to_strengths(k, p[begin:end], neighbors, kernel, code, a, sums, i, exaggeration)
        if len(code):
            charges[i] = charge
        g[:] = zero
        for t in range(k.size):
            row, strength = rows[t], factor * k[t]
            for c in range(y.size):
                g[c] += strength * row[c]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _to_strengths(k, p, neighbors, kernel, code, a, sums, i, exaggeration):
    """Make of squared distances k_ij (-w'/w); return the charge."""
    family, constants = kernel
    W, charge = sums[i] if len(code) else a, a - a
    for t in range(k.size):
        w = weight(family, constants, k[t])
        share = p[t] / (w + W)
        charge += share
        other = sums[neighbors[t]] if len(code) else a
        k[t] = _strength(code, p[t], w, share, a, other, exaggeration) * pull(family, constants, k[t])
    return charge


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _strength(code, p, w, share, a, other, exaggeration):
    """Return k_ij, for p_ij = p_ji: both a pair's parts, i first and j first, in units of two for "local"."""
    if len(code) == 0:
        return exaggeration * a * share
    return (exaggeration + exaggeration) * p - w * (share + p / (w + other))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, code, a, sums, Y, start, stop):
    """Sum p_ij ln((w_ij + W) / w_ij) over the neighbours of some points, W being a or W_i; in float64."""
    indptr, columns, p = graph
    family, constants = kernel
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        W = sums[i] if len(code) else a
        for t in range(m):
            log_w = log_weight(family, constants, f[t])
            costs[t] = p[begin + t] * (ln(weight(family, constants, f[t]) + W) - log_w)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost
