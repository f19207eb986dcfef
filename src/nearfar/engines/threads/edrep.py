"""Compiled forms of the formulas of :mod:`nearfar.methods.edrep`, each tested against its formula."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.engines.threads.loops import Formula
from nearfar.methods.edrep import ball_step, loss_gradient, mixture, sphere_step


def _loss_gradient(
    x: Floats, pull: Floats, log_z: Floats | None, force: Floats | None, r: Floats | None, p0: Floats | None,
    sums: Floats,
) -> tuple[tuple[float, ...], Floats]:  # fmt: skip
    nothing = np.zeros(len(x))
    if r is None:
        r, log_z, force = nothing, nothing, pull
    # A pair of vectors: of rows of one array the loop takes five times as long.
    of_others, of_rows = sums.astype(x.dtype)
    loss = loss_gradient_rows(x, pull, force, log_z, (r, nothing if p0 is None else p0), (of_others, of_rows))
    return loss[:1] if r is nothing else loss, pull


def _mixture(x: Floats, log_counts: Floats, means: Floats, covariances: Floats) -> tuple[NDArray[np.float64], Floats]:
    log_z, force = np.empty(len(x)), np.empty_like(x)
    x = x if x.flags.writeable else x.copy()  # the kernel would be compiled once more for it
    mixture_rows(x, log_counts, means, covariances, log_z, force)
    return log_z, force


@jit(fastmath=FAST)
def loss_gradient_rows(X, pull, force, log_z, weights, sums):
    """Turn the pull of a block of rows into their gradient, in place; return the block's parts of the loss.

    Eq. (6), ``pull_i <- r_i (force_i + Yᵀ p0) - pull_i + p0_i Xᵀ r``; ``weights`` are r and p0, ``sums`` are Yᵀ p0 and
    Xᵀ r. Of a pull P X alone, the gradient "forward", p0 is 0.
    """
    r, p0 = weights
    of_others, of_rows = sums
    d = X.shape[1]
    near, far, prior = 0.0, 0.0, 0.0
    for i in range(X.shape[0]):
        ri = X.dtype.type(r[i])
        pi = X.dtype.type(p0[i])
        dot_pull, dot_others = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            dot_pull += X[i, c] * pull[i, c]
            dot_others += X[i, c] * of_others[c]
        for c in range(d):
            pull[i, c] = ri * (force[i, c] + of_others[c]) - pull[i, c]
        for c in range(d):
            pull[i, c] += pi * of_rows[c]
        near += dot_pull
        prior += r[i] * dot_others
        if r[i] > 0:
            far += r[i] * log_z[i]
    return near, far, prior


@jit(fastmath=FAST)
def _energy(x, mean, slope):
    """Turn ``slope = Omega x`` into ``mu + Omega x`` and return ``x . mu + x . Omega x / 2``."""
    half = x.dtype.type(0.5)
    energy = x.dtype.type(0)
    for j in range(x.shape[0]):
        curved = slope[j]
        energy += x[j] * (mean[j] + half * curved)
        slope[j] = mean[j] + curved
    return energy


@jit(fastmath=FAST)
def mixture_rows(X, log_counts, means, covariances, log_z, force):
    """Write log Z, eq. (2), and its gradient for each row of X.

    Tiles of rows stay in the L2 cache; their products with the covariances are left to BLAS. Components enter one by
    one, as in a streaming log-sum-exp: ``force`` is the sum of ``mu + Omega x`` weighted by ``exp(energy - log_z)``.
    """
    n, d = X.shape
    k = means.shape[0]
    tile = max(64, 16384 // d)
    scratch = np.empty((tile if k > 1 else 0, d), X.dtype)
    total = np.empty(tile)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        total[:] = 1.0
        for a in range(k):
            slopes = force[low:high] if a == 0 else scratch[: high - low]
            np.dot(X[low:high], covariances[a], slopes)
            for i in range(low, high):
                slope = slopes[i - low]
                energy = log_counts[a] + _energy(X[i], means[a], slope)
                if a == 0:
                    log_z[i] = energy
                    continue
                kept, added = 1.0, math.exp(min(0.0, energy - log_z[i]))
                if energy > log_z[i]:
                    kept, added = math.exp(log_z[i] - energy), 1.0
                    log_z[i] = energy
                total[i - low] = total[i - low] * kept + added
                old, new = X.dtype.type(kept), X.dtype.type(added)
                for j in range(d):
                    force[i, j] = force[i, j] * old + slope[j] * new
        if k > 1:
            for i in range(low, high):
                log_z[i] += math.log(total[i - low])
                scale = X.dtype.type(1.0 / total[i - low])
                for j in range(d):
                    force[i, j] *= scale


@jit(fastmath=FAST)
def _sphere_step(X, G, learning_rate):
    """Take the step on the sphere."""
    eta = X.dtype.type(learning_rate)
    keep = X.dtype.type(np.sqrt(1.0 - learning_rate * learning_rate))
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        along, square = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            along += x[c] * g[c]
            square += x[c] * x[c]
        if not square > 0:
            continue
        along /= square
        length = X.dtype.type(0)
        for c in range(d):
            g[c] -= along * x[c]
            length += g[c] * g[c]
        if not length > 0:
            continue
        stay, move = keep / np.sqrt(square), eta / np.sqrt(length)
        for c in range(d):
            x[c] = stay * x[c] - move * g[c]


@jit(fastmath=FAST)
def _ball_step(X, G, learning_rate):
    one = X.dtype.type(1)
    eta = X.dtype.type(learning_rate)
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        length = X.dtype.type(0)
        for c in range(d):
            length += g[c] * g[c]
        if not length > 0:
            continue
        move = eta / np.sqrt(length)
        norm = X.dtype.type(0)
        for c in range(d):
            x[c] -= move * g[c]
            norm += x[c] * x[c]
        if norm > 1:
            scale = one / np.sqrt(norm)
            for c in range(d):
                x[c] *= scale


FORMS: dict[Formula, Formula] = {
    loss_gradient: _loss_gradient,
    mixture: _mixture,
    sphere_step: _sphere_step,
    ball_step: _ball_step,
}
"""The quicker form of a formula; a formula without one runs as it is."""
