"""Compiled parts of the mesh for many kernels, see :mod:`nearfar.far.alike`: K numbers side by side at a mesh point.

What a point has of each of the K kernels lies in a table by rows; ``steps`` says where a point is among them, in
between linearly. All loops go through the K numbers as vectors do: a point's weights are found once for all of them.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST, LANES, lane_sum, load, multiply_add, multiply_add_lanes, store, zeros_like
from nearfar.far.mesh_loops import BATCH, write_weights


@jit(inline="always")
def _shares(table, step, k):
    """Return LANES of what a point has of the kernels, from the k-th on, and by how much that rises in a step."""
    m = table.shape[1]
    at = min(int(step), len(table) - 2)
    left = min(m - k, LANES)
    below = load(table, at * m + k, left)
    rise = multiply_add(table.dtype.type(-1), below, load(table, (at + 1) * m + k, left))
    return multiply_add(step - table.dtype.type(at), rise, below), rise


@jit(fastmath=FAST, error_model="numpy")
def spread_shares(spline, rows, points, sources, mesh):
    """Add charges times what points have of the kernels to a mesh of shape (rows, columns, K).

    Whole vectors are written, zeros beyond K: masks take several times as long. Behind the columns that points touch
    there are LANES more. What a point writes next lies in another row: so it need not wait for what it wrote last.
    """
    (taps, _), (charges, steps, table) = spline, sources
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    lanes, m, width = 4 if len(taps) == 4 else 8, mesh.shape[2], mesh.shape[1] * mesh.shape[2]
    w = np.zeros((4 * lanes + 5) * BATCH, mesh.dtype)
    for row in range(first_row, last_row):
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            for p in range(last - first):
                i, column = order[first + p], np.int64(columns[first + p])
                for k in range(0, m, LANES):
                    share = multiply_add(charges[i], _shares(table, steps[i], k)[0], zeros_like(mesh))
                    for b in range(len(taps)):
                        x, at = w[b * BATCH + p], row * width + (column + b) * m + k
                        for a in range(len(taps)):
                            there, weight = at + a * width, x * w[(lanes + a) * BATCH + p]
                            store(mesh, there, LANES, multiply_add(weight, share, load(mesh, there, LANES)))


@jit(fastmath=FAST, error_model="numpy")
def gather_shares(spline, rows, points, sources, fields, outs):
    """Write value and gradient of the potentials of K meshes, summed as points have shares of the kernels.

    ``fields`` are a mesh of shape (rows, columns, K), what is added to each of the K potentials, and the mesh step. Of
    ``outs`` the last is how much the value rises in a step of the table.
    """
    (taps, _), (steps, table), (mesh, constants, step), (value, gradient, rise) = spline, sources, fields, outs
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    lanes, m, width = 4 if len(taps) == 4 else 8, mesh.shape[2], mesh.shape[1] * mesh.shape[2]
    w = np.zeros((4 * lanes + 5) * BATCH, mesh.dtype)
    zero, d = zeros_like(mesh), gradient.shape[1]
    for row in range(first_row, last_row):
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            for p in range(last - first):
                i, column = order[first + p], np.int64(columns[first + p])
                phi = along = across = rising = mesh.dtype.type(0)
                for k in range(0, m, LANES):
                    left = min(m - k, LANES)
                    share, more = _shares(table, steps[i], k)
                    total, total_x, total_y = load(constants, k, left), zero, zero
                    for a in range(len(taps)):
                        at, of_row, slopes = (row + a) * width + column * m + k, zero, zero
                        for b in range(len(taps)):
                            here = load(mesh, at + b * m, left)
                            of_row = multiply_add(w[b * BATCH + p], here, of_row)
                            slopes = multiply_add(w[(2 * lanes + b) * BATCH + p], here, slopes)
                        y = w[(lanes + a) * BATCH + p]
                        total, total_x = multiply_add(y, of_row, total), multiply_add(y, slopes, total_x)
                        total_y = multiply_add(w[(3 * lanes + a) * BATCH + p], of_row, total_y)
                    phi += lane_sum(multiply_add_lanes(share, total, zero))
                    rising += lane_sum(multiply_add_lanes(more, total, zero))
                    along += lane_sum(multiply_add_lanes(share, total_x, zero))
                    across += lane_sum(multiply_add_lanes(share, total_y, zero))
                value[i], rise[i] = phi, rising
                if d > 1:
                    gradient[i, 0] = along / step
                gradient[i, d - 1] = across / step


@jit(fastmath=FAST, error_model="numpy")
def write_own(points, sources, own, out, start, stop):
    """Write what points of charge 1 find of themselves: value, its gradient in steps, how it rises in the table.

    ``own`` are coefficients for each kernel, shape (P, P, K): Horner's rule, once with the powers of the offset across
    the row outside, once with those along it.
    """
    (_, order, columns, offsets), (steps, table) = points, sources
    P, m = own.shape[0], own.shape[2]
    one = own.dtype.type(1)
    half = one / (one + one)
    quarter, zero = half * half, zeros_like(own)
    for p in range(start, stop):
        i = order[p]
        x, y = columns[p] - own.dtype.type(np.int32(columns[p])) - half, offsets[p] - half
        zx, zy = quarter - x * x, quarter - y * y
        phi = along = across = rising = own.dtype.type(0)
        for k in range(0, m, LANES):
            left = min(m - k, LANES)
            share, more = _shares(table, steps[i], k)
            value, slope_y, swapped, slope_x = zero, zero, zero, zero
            for s in range(P):
                of_x, of_y = zero, zero
                for t in range(P):
                    of_x = multiply_add(zx, of_x, load(own, (s * P + t) * m + k, left))
                    of_y = multiply_add(zy, of_y, load(own, (t * P + s) * m + k, left))
                slope_y = multiply_add(zy, slope_y, value)
                value = multiply_add(zy, value, of_x)
                slope_x = multiply_add(zx, slope_x, swapped)
                swapped = multiply_add(zx, swapped, of_y)
            phi += lane_sum(multiply_add_lanes(share, value, zero))
            rising += lane_sum(multiply_add_lanes(more, value, zero))
            along += lane_sum(multiply_add_lanes(share, slope_x, zero))
            across += lane_sum(multiply_add_lanes(share, slope_y, zero))
        out[0, i], out[1, i], out[2, i], out[3, i] = phi, -x * along, -y * across, rising


@jit(fastmath=FAST, error_model="numpy")
def waves_out(wave, spectra, out):
    """Write waves, pairs of a real and an imaginary part, times K real spectra: shape (rows, columns, K, 2)."""
    for r in range(spectra.shape[0]):
        for c in range(spectra.shape[1]):
            real, imaginary, of_each, to = wave[r, c, 0], wave[r, c, 1], spectra[r, c], out[r, c]
            for k in range(len(of_each)):
                to[k, 0] = real * of_each[k]
                to[k, 1] = imaginary * of_each[k]


@jit(fastmath=FAST, error_model="numpy")
def waves_in(waves, spectra, out):
    """Add waves of shape (rows, columns, K, 2) times K real spectra to one of shape (rows, columns, 2)."""
    for r in range(spectra.shape[0]):
        for c in range(spectra.shape[1]):
            of_each, some = spectra[r, c], waves[r, c]
            real = imaginary = out.dtype.type(0)
            for k in range(len(of_each)):
                real += some[k, 0] * of_each[k]
                imaginary += some[k, 1] * of_each[k]
            out[r, c, 0] += real
            out[r, c, 1] += imaginary


# As ``restrict_mesh`` and ``prolong_mesh`` of mesh_loops, with K numbers at each mesh point.


@jit(fastmath=FAST, error_model="numpy")
def restrict_meshes(fine_level, filter_, factor, coarse_level, start, stop):
    """Write charges of the fine meshes on the coarse ones: the transpose of ``prolong_meshes``."""
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    m, order = fine.shape[2], (filter_.size - 1) // (factor - 1)
    line = np.empty(width * m, fine.dtype)
    for M in range(start, stop):
        line[:] = fine.dtype.type(0)
        first = factor * (M - order + 1) + order - 1
        for k in range(max(0, -first), min(filter_.size, len(fine) - first)):
            c, row = filter_[k], fine[first + k].reshape(-1)
            for t in range(width * m):
                line[t] += c * row[t]
        to = coarse[M].reshape(-1)
        to[:] = fine.dtype.type(0)
        for N in range(coarse_width):
            first = factor * (N - order + 1) + order - 1
            some = to[N * m : (N + 1) * m]
            for k in range(max(0, -first), min(filter_.size, width - first)):
                c, there = filter_[k], line[(first + k) * m : (first + k + 1) * m]
                for j in range(m):
                    some[j] += c * there[j]


@jit(fastmath=FAST, error_model="numpy")
def prolong_meshes(coarse_level, filter_, factor, fine_level, start, stop):
    """Add the potentials of the coarse meshes to the fine ones."""
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    m, order = fine.shape[2], (filter_.size - 1) // (factor - 1)
    lowest, highest = start // factor, min(len(coarse), (stop - 1 + filter_.size) // factor + 1)
    long = np.zeros((highest - lowest, width * m), fine.dtype)
    for M in range(lowest, highest):
        line, row = long[M - lowest], coarse[M].reshape(-1)
        for N in range(coarse_width):
            first, some = factor * (N - order + 1) + order - 1, row[N * m : (N + 1) * m]
            for k in range(max(0, -first), min(filter_.size, width - first)):
                c, there = filter_[k], line[(first + k) * m : (first + k + 1) * m]
                for j in range(m):
                    there[j] += c * some[j]
    for r in range(start, stop):
        out = fine[r].reshape(-1)
        for M in range(r // factor, highest):
            k = r - factor * (M - order + 1) - order + 1
            if k < 0:
                break
            if k < filter_.size:
                c, line = filter_[k], long[M - lowest]
                for t in range(width * m):
                    out[t] += c * line[t]
