"""Normalisers of EDRep: log Z of a block of rows and its gradient, exact or by Gaussians, on arrays of any kind.

Equations by the numbers of Dall'Amico & Belliardo, arXiv 2303.17475 v3. An other counts by its weight w; the paper has
w = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nearfar._core.types import Array, namespace_of


def softmax(x: Array, others: Iterable[tuple[Array, Array | None]], *, mean: bool = True) -> tuple[Array, Array | None]:
    """Return log Z of some rows among others, and with ``mean`` its gradient, their softmax mean.

    The others come in blocks, with the logarithms of their weights, None where all are 1.
    """
    xp = namespace_of(x)
    top = xp.full_like(x[:, 0], -np.inf)
    total = xp.zeros_like(top, dtype=xp.float64)
    pull = xp.zeros_like(x, dtype=xp.float64) if mean else None
    for y, log_weights in others:
        scores = x @ y.T
        if log_weights is not None:
            scores += log_weights
        new_top = xp.maximum(top, xp.amax(scores, 1))
        scores -= new_top[:, None]
        xp.exp(scores, out=scores)
        shrink = xp.exp(xp.asarray(top, dtype=xp.float64) - xp.asarray(new_top, dtype=xp.float64))
        total = total * shrink + scores.sum(1, dtype=xp.float64)  # eq. (1): Z = sum_a w_a exp(x . y_a)
        if pull is not None:
            pull *= shrink[:, None]
            pull += scores @ y
        top = new_top
    log_z = xp.log(total) + top
    return log_z, None if pull is None else xp.asarray(pull / total[:, None], dtype=x.dtype)


def mixture(
    x: Array, log_counts: Sequence[float], means: Sequence[Array], covariances: Sequence[Array]
) -> tuple[Array, Array]:
    """Return log Z of some rows and its gradient, were the others of each cluster Gaussian; linear time."""
    xp = namespace_of(x)
    found: tuple[Array, Array] | None = None
    for log_count, mean, covariance in zip(log_counts, means, covariances, strict=True):
        pull = x @ covariance
        terms = pull / 2
        terms += mean
        terms *= x
        energy = log_count + xp.asarray(terms.sum(1), dtype=xp.float64)  # eq. (2): Z = sum of π exp(x.μ + x.Ωx / 2)
        pull += mean
        if found is None:
            found = energy, pull
            continue
        log_z, force = found
        total = xp.logaddexp(log_z, energy)
        force *= xp.asarray(xp.exp(log_z - total), dtype=x.dtype)[:, None]
        pull *= xp.asarray(xp.exp(energy - total), dtype=x.dtype)[:, None]
        force += pull
        found = total, force
    assert found is not None  # there is a cluster
    return found


def tied_mixture(x: Array, log_counts: Array, means: Array, covariance: Array) -> tuple[Array, Array]:
    """Return log Z of some rows and its gradient, were the others of each cluster Gaussian with one covariance Ω.

    ``Z = exp(x.Ωx / 2) sum_c π_c exp(x.μ_c)``: a softmax over the means.
    """
    xp = namespace_of(x)
    log_z, force = softmax(x, [(means, log_counts)])
    assert force is not None  # it is asked for
    pull = x @ covariance
    log_z += xp.asarray((x * pull).sum(1), dtype=xp.float64) / 2
    force += pull
    return log_z, force


def moments(y: Array, w: Array | None = None) -> tuple[Array, Array]:
    """Return the sums of y and of y yᵀ over some members of a cluster, by their weights; those of all blocks add up."""
    xp = namespace_of(y)
    if w is None:
        return xp.ones_like(y[:, 0]) @ y, y.T @ y  # one array on both sides: BLAS forms one triangle
    rooted = y * xp.sqrt(w)[:, None]
    return w @ y, rooted.T @ rooted


def gaussian(count: float, total: Array, outer: Array, *, several: bool) -> tuple[Array, Array]:
    """Return mean and covariance of a cluster from its moments; the covariance of one member is 0."""
    mean = total / count
    return mean, (outer / count - mean[:, None] * mean) * several  # eq. (3): μ and Ω of a cluster


def pooled(counts: Array, means: Array, outer: Array) -> Array:
    """Return the covariance within clusters, one for all, from their sizes, means and the sum of y yᵀ over all."""
    covariance: Array = (outer - (means.T * counts) @ means) / counts.sum()
    return covariance
