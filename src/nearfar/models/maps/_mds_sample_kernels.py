"""Sums over the pairs within groups of points, and over near pairs.

``groups`` is (order, bounds, offsets, flat): the members of group g are ``order[bounds[g] : bounds[g + 1]]``, and the
distances of its pairs i < j, row by row, stand in ``flat[offsets[g] : offsets[g + 1]]``. ``near`` is (indptr, others,
lengths, weights), every pair in the rows of both its points.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import njit

from nearfar._vector import FAST
from nearfar.divergences._stress_kernels import cost_and_pull
from nearfar.models.maps._mds_kernels import measure, measure_rows, stress_rows


@njit(cache=True, nogil=True)
def _gather(points, order, first, here):
    """Copy the positions of the members of a group."""
    for c in range(here.shape[0]):
        for k in range(here.shape[1]):
            here[c, k] = points[c, order[first + k]]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def stress_groups(first, last, groups, scale, points, family, constants, scratch, weight, forces):
    """Return the cost of the pairs within groups first..last, and add ``weight`` times its gradient to ``forces``.

    Those are float64 of shape (d, n); no two groups have a member in common.
    """
    order, bounds, offsets, flat = groups
    d, cost = points.shape[0], 0.0
    for g in range(first, last):
        size = bounds[g + 1] - bounds[g]
        here = np.empty((d, size), points.dtype)
        pulls = np.zeros((d, size), points.dtype)
        _gather(points, order, bounds[g], here)
        source = (flat[offsets[g] : offsets[g + 1]], False, np.empty((0, size), points.dtype))
        cost += stress_rows(0, size, source, scale, here, family, constants, scratch, pulls)
        for c in range(d):
            for k in range(size):
                forces[c, order[bounds[g] + k]] += weight * pulls[c, k]
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def measure_groups(first, last, groups, scale, points, family, constants, scratch, totals):
    """Add what ``measure`` adds, for the pairs within groups first..last."""
    order, bounds, offsets, flat = groups
    for g in range(first, last):
        size = bounds[g + 1] - bounds[g]
        here = np.empty((points.shape[0], size), points.dtype)
        _gather(points, order, bounds[g], here)
        source = (flat[offsets[g] : offsets[g + 1]], False, np.empty((0, size), points.dtype))
        measure_rows(0, size, source, scale, here, family, constants, scratch, totals)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def stress_near(first, last, near, scale, points, family, constants, forces):
    """Return the cost of the near pairs of rows first..last, half of each, and add its gradient to ``forces``."""
    indptr, others, lengths, weights = near
    d, cost = points.shape[0], 0.0
    for i in range(first, last):
        for at in range(indptr[i], indptr[i + 1]):
            j = others[at]
            f = points.dtype.type(0)
            for c in range(d):
                t = points[c, i] - points[c, j]
                f += t * t
            value, pull = cost_and_pull(family, constants, scale * lengths[at], f)
            cost += np.float64(weights[at] * value) / 2
            pull *= weights[at]
            for c in range(d):
                forces[c, i] += pull * (points[c, i] - points[c, j])
    return cost


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def measure_near(first, last, near, members, scale, points, family, constants, scratch, every, within):
    """Add what ``measure`` adds for the near pairs of rows first..last to ``every``, each once.

    To ``within`` are added those whose points are in the same group, ``members`` being the group of each point.
    """
    indptr, others, lengths, _ = near
    r, f = scratch[0][:1], scratch[1][:1]
    for i in range(first, last):
        for at in range(indptr[i], indptr[i + 1]):
            j = others[at]
            if j > i:
                r[0], f[0] = scale * lengths[at], 0
                for c in range(points.shape[0]):
                    t = points[c, i] - points[c, j]
                    f[0] += t * t
                measure(r, f, family, constants, every)
                if members[i] == members[j]:
                    measure(r, f, family, constants, within)
