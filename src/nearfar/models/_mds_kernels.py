"""Sums over all pairs of points of a map and their distances in the data, each pair once.

``source`` is (flat, square, coordinates): the distances stand in ``flat``, a matrix of n x n where ``square``, else its
upper triangle, row by row; or, where there are ``coordinates``, of shape (p, n), they are computed from those. They are
multiplied by ``scale`` in passing. Every kernel does the pairs of some rows i with all j > i.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import math

import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.divergences._stress_kernels import cost_and_pull

BLOCK = 512  # pairs at a time, so that what lies between the short loops stays in the nearest cache


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _squares(points, i, start, out):
    """Write the squared distances of point i and those from ``start`` on; ``points`` is (d, n)."""
    n = out.shape[0]
    row = points[0]
    at, others = row[i], row[start : start + n]
    for j in range(n):
        t = at - others[j]
        out[j] = t * t
    for c in range(1, points.shape[0]):
        row = points[c]
        at, others = row[i], row[start : start + n]
        for j in range(n):
            t = at - others[j]
            out[j] += t * t


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _distances(source, scale, i, start, out):
    """Write the scaled distances in the data of i and those from ``start`` on."""
    flat, square, coordinates = source
    n = out.shape[0]
    if coordinates.shape[0] > 0:
        _squares(coordinates, i, start, out)
        for j in range(n):
            out[j] = scale * math.sqrt(out[j])
        return
    total = coordinates.shape[1]
    at = i * total + start if square else i * total - i * (i + 1) // 2 + start - i - 1
    row = flat[at : at + n]
    for j in range(n):
        out[j] = scale * row[j]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def stress_rows(first, last, source, scale, points, family, constants, scratch, forces):
    """Return the cost of the pairs of rows first..last, and add its gradient to ``forces``, shape (d, n)."""
    d, n = points.shape
    cost = 0.0
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r, f = scratch[0][:size], scratch[1][:size]
            _distances(source, scale, i, start, r)
            _squares(points, i, start, f)
            part = points.dtype.type(0)
            for j in range(size):
                value, pull = cost_and_pull(family, constants, r[j], f[j])
                part += value
                f[j] = pull
            cost += part
            for c in range(d):
                row, out = points[c], forces[c]
                at, others, target = row[i], row[start : start + size], out[start : start + size]
                moment = points.dtype.type(0)
                for j in range(size):
                    force = f[j] * (at - others[j])
                    moment += force
                    target[j] -= force
                out[i] += moment
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def measure_rows(first, last, source, scale, points, scratch, totals):
    """Add sum r, sum r², sum d², sum r d and sum (r - d)² to ``totals``, each pair in its own precision."""
    n = points.shape[1]
    for i in range(first, last):
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r, f = scratch[0][:size], scratch[1][:size]
            _distances(source, scale, i, start, r)
            _squares(points, i, start, f)
            length, square, own, product, gap = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(size):
                here, there = np.float64(r[j]), math.sqrt(np.float64(f[j]))
                length += here
                square += here * here
                own += there * there
                product += here * there
                gap += (here - there) ** 2
            totals[0] += length
            totals[1] += square
            totals[2] += own
            totals[3] += product
            totals[4] += gap


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def squared_product_rows(first, last, source, scale, vector, scratch, out):
    """Add the product of the matrix of squared distances, of these pairs, and a vector."""
    n = vector.shape[0]
    for i in range(first, last):
        own = 0.0
        for start in range(i + 1, n, BLOCK):
            size = min(BLOCK, n - start)
            r = scratch[0][:size]
            _distances(source, scale, i, start, r)
            others, target = vector[start : start + size], out[start : start + size]
            for j in range(size):
                square = np.float64(r[j]) * np.float64(r[j])
                own += square * others[j]
                target[j] += square * vector[i]
        out[i] += own


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def write_rows(first, last, X, out):
    """Write the distances of rows first..last of X from all later ones into the upper triangle ``out``.

    From the differences, not from scalar products, which would lose the digits of small distances. The others pass
    through the cache once for all these rows.
    """
    n, p = X.shape
    tile = max(16, 32768 // p)
    for low in range(first + 1, n, tile):
        high = min(n, low + tile)
        for i in range(first, min(last, high)):
            x, at = X[i], i * n - i * (i + 1) // 2 - i - 1
            for j in range(max(low, i + 1), high):
                other, total = X[j], X.dtype.type(0)
                for c in range(p):
                    t = other[c] - x[c]
                    total += t * t
                out[at + j] = math.sqrt(total)
