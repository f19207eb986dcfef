"""Probabilities of neighbours: of each row by its perplexity, of each pair by both rows; on arrays of any kind.

The bandwidth of a row is that at which its probabilities have the wanted perplexity. Their entropy H falls with beta,
``dH/dln beta = -beta² Var_p(r²)``, so that Newton's steps in ln beta, held in an interval, take a handful of passes.

Symbols are those of van der Maaten & Hinton (2008), "Visualizing data using t-SNE", sections 2 and 3, and of Lee,
Peluffo-Ordóñez & Verleysen (2015), "Multi-scale similarities in stochastic neighbour embedding", for D.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearfar._core.types import Array, namespace_of

STEPS = 100  # of Newton's method, at most
VANISHES = 745.0  # exp(-745) is 0 in double precision, all but


def probabilities(r: Array, beta: Array, related: Any = None) -> Array:
    """Return p of rows of distances by their precisions; with ``related``, flags, over those neighbours alone."""
    r = np.asarray(r, np.float64)
    nearest = r.min(axis=1, keepdims=True)
    p: Array = (r - nearest) * (r + nearest)  # r² - r_min²: without cancellation
    p *= -beta[:, None]
    np.exp(p, out=p)
    if related is not None:
        p *= related
    p /= np.maximum(p.sum(axis=1), np.finfo(float).tiny)[:, None]  # symbol p_j|i: exp(-beta_i r²) / sum of the same
    return p


def calibrated(r: Array, perplexity: float) -> tuple[Array, Array, Array]:
    """Return p of rows of distances, the precisions beta at which ``H(p) = ln(perplexity)``, and the dimensions.

    Where m >= perplexity distances are the smallest they get 1/m each; where all are equal beta is 0.
    """
    xp, k = namespace_of(r), r.shape[1]
    r = xp.asarray(r, dtype=xp.float64)
    nearest = xp.amin(r, 1)[:, None]
    gaps = (r - nearest) * (r + nearest)  # r² - r_min²: without cancellation, and without underflow before it is scaled
    unit = gaps.mean(1)
    unit[unit == 0] = 1  # all distances alike
    gaps /= unit[:, None]
    # The entropy falls with beta from ln k to the logarithm of the number of gaps that are 0.
    ties = (gaps == 0).sum(1)
    beta, t = xp.zeros_like(unit), xp.zeros_like(unit)
    alone = (ties < k) & (ties >= perplexity)  # only the nearest, all alike, are left
    beta[alone] = VANISHES / xp.amin(xp.where(gaps[alone] > 0, gaps[alone], math.inf), 1)
    rows = xp.where((ties < perplexity) & (perplexity < k))[0]  # those that are not done
    beta[rows] = 1.0
    low, high = xp.full_like(t, -math.inf), xp.full_like(t, math.inf)
    for _ in range(STEPS):
        if not len(rows):
            break
        before, b = t[rows], beta[rows]
        _, total, mean, variance = weighed(gaps[rows], b)
        excess = xp.log(total) + b * mean - math.log(perplexity)  # symbol H: ln S + beta <r²> = ln(perplexity)
        low[rows] = xp.where(excess > 0, before, low[rows])
        high[rows] = xp.where(excess > 0, high[rows], before)
        slope = b * b * variance
        two = xp.copysign(xp.full_like(excess, 2.0), excess)
        step = xp.where(slope > 0, excess / xp.where(slope > 0, slope, 1.0), two)
        after = before + xp.clip(step, -2.0, 2.0)
        inside = (low[rows] < after) & (after < high[rows])
        after = xp.where(inside, after, 0.5 * (low[rows] + high[rows]))
        moving = (xp.abs(excess) >= 1e-12) & (after != before)
        rows = rows[moving]
        t[rows] = after[moving]
        beta[rows] = xp.exp(t[rows])
    weights, total, _, variance = weighed(gaps, beta)
    weights /= total[:, None]
    return weights, beta / unit, 2.0 * beta * beta * variance  # symbol D: 2 beta² Var_p(r²), how many dimensions


def weighed(gaps: Array, beta: Array) -> tuple[Array, Array, Array, Array]:
    """Return exp(-beta g), its sum S, and the mean and variance of g under these weights, row by row."""
    xp = namespace_of(gaps)
    weights = gaps * -beta[:, None]
    xp.exp(weights, out=weights)
    total = weights.sum(1)
    mean = xp.einsum("ij,ij->i", weights, gaps) / total
    square = xp.einsum("ij,ij,ij->i", weights, gaps, gaps) / total
    return weights, total, mean, xp.clip(square - mean * mean, 0.0, None)


def symmetric(p: Any, back: Any, n: int = 1) -> Any:
    """Return the probabilities of pairs from those of rows, in both directions, arrays or sparse matrices.

    n is the number of rows, or 1 where all p together sum to 1 already.
    """
    return (p + back) * p.dtype.type(0.5 / n)  # symbol p_ij: (p_j|i + p_i|j) / 2n
