"""Kernels of the calibration: one row at a time, in float64."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
import math

import numpy as np
from numba import njit

_VANISHES = 745.0  # exp(-745) is 0 in double precision, all but
_TRIES = 100


@njit(cache=True, nogil=True)
def _moments(gaps, beta):
    """Return S = sum exp(-beta g), and the mean and variance of g under the weights."""
    total, first, second = 0.0, 0.0, 0.0
    for g in gaps:
        weight = math.exp(-beta * g)
        total += weight
        first += weight * g
        second += weight * g * g
    mean = first / total
    return total, mean, max(second / total - mean * mean, 0.0)


@njit(cache=True, nogil=True)
def _solve(gaps, wanted):
    """Return the beta at which the entropy is ``wanted``: Newton's steps in ln beta, kept inside a shrinking interval.

    The entropy falls from ln(number of gaps) to ln(number of gaps that are 0); ``wanted`` lies between the two, and
    the mean of the gaps is 1.
    """
    low, high = -np.inf, np.inf
    t = 0.0
    for _ in range(_TRIES):
        beta = math.exp(t)
        total, mean, variance = _moments(gaps, beta)
        excess = math.log(total) + beta * mean - wanted
        if abs(excess) < 1e-12:
            break
        if excess > 0:
            low = t
        else:
            high = t
        slope = -beta * beta * variance
        step = -excess / slope if slope < 0 else np.inf * excess
        step = min(max(step, -2.0), 2.0)
        if not low < t + step < high:
            step = 0.5 * (low + high) - t
        if t + step == t:
            break
        t += step
    return math.exp(t)


@njit(cache=True, nogil=True)
def calibrate_rows(distances, wanted, weights, betas, dimensions, start, stop):
    """Write weights, beta and intrinsic dimension of rows ``start`` to ``stop``; ``wanted`` is ln(perplexity)."""
    k = distances.shape[1]
    gaps = np.empty(k)
    for i in range(start, stop):
        nearest = np.inf
        for j in range(k):
            nearest = min(nearest, distances[i, j])
        mean, ties, smallest = 0.0, 0, np.inf
        for j in range(k):
            # r² - r_min², as a product: no cancellation, and no underflow before it is scaled.
            r = float(distances[i, j])
            gaps[j] = (r - nearest) * (r + nearest)
            mean += gaps[j] / k
            if gaps[j] > 0:
                smallest = min(smallest, gaps[j])
            else:
                ties += 1
        beta, variance = 0.0, 0.0
        if ties < k:
            for j in range(k):
                gaps[j] /= mean
            if math.log(ties) >= wanted:  # only the nearest, all alike, are left
                beta = _VANISHES * (mean / smallest)
            elif math.log(k) > wanted:
                beta = _solve(gaps, wanted)
        total, _, variance = _moments(gaps, beta)
        for j in range(k):
            weights[i, j] = math.exp(-beta * gaps[j]) / total
        dimensions[i] = 2.0 * beta * beta * variance
        betas[i] = beta / mean if beta > 0 else 0.0
