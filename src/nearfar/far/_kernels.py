"""Compiled kernels of the far field: the mixture of Gaussians, one pass over a block of rows.

Everything is fused per tile of rows, small enough that a tile of X and of the force stay in the L2 cache; the
product with the covariance matrix is left to BLAS.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nearfar._vector import FAST
from nearfar.contracts import Floats


@njit(cache=True, nogil=True, fastmath=FAST)
def _energy(x: Floats, mean: Floats, pull: Floats) -> Any:
    """Turn ``pull = Omega x`` into ``mu + Omega x`` and return ``x . mu + x . Omega x / 2``."""
    half = x.dtype.type(0.5)
    energy = x.dtype.type(0)
    for j in range(x.shape[0]):
        curved = pull[j]
        energy += x[j] * (mean[j] + half * curved)
        pull[j] = mean[j] + curved
    return energy


@njit(cache=True, nogil=True, fastmath=FAST)
def mixture_force(
    X: Floats,
    log_counts: NDArray[np.float64],
    means: Floats,
    covariances: Floats,
    log_z: NDArray[np.float64],
    force: Floats,
) -> None:
    """Write log Z and its gradient for each row of X; components enter one by one, as in a streaming log-sum-exp."""
    n, d = X.shape
    k = means.shape[0]
    tile = max(64, 16384 // d)
    scratch = np.empty((tile if k > 1 else 0, d), X.dtype)
    total = np.ones(tile)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        np.dot(X[low:high], covariances[0], force[low:high])
        for i in range(low, high):
            log_z[i] = log_counts[0] + _energy(X[i], means[0], force[i])
            total[i - low] = 1.0
        for a in range(1, k):
            pulls = scratch[: high - low]
            np.dot(X[low:high], covariances[a], pulls)
            for i in range(low, high):
                pull = pulls[i - low]
                energy = log_counts[a] + _energy(X[i], means[a], pull)
                kept, added = 1.0, math.exp(min(0.0, energy - log_z[i]))
                if energy > log_z[i]:
                    kept, added = math.exp(log_z[i] - energy), 1.0
                    log_z[i] = energy
                total[i - low] = total[i - low] * kept + added
                old, new = X.dtype.type(kept), X.dtype.type(added)
                for j in range(d):
                    force[i, j] = force[i, j] * old + pull[j] * new
        if k > 1:
            for i in range(low, high):
                log_z[i] += math.log(total[i - low])
                scale = X.dtype.type(1.0 / total[i - low])
                for j in range(d):
                    force[i, j] *= scale


@njit(cache=True, nogil=True, fastmath=FAST)
def mixture_energies(
    X: Floats,
    log_counts: NDArray[np.float64],
    means: Floats,
    covariances: Floats,
    energies: NDArray[np.float64],
) -> None:
    """Write the log of each component's share of Z, shape (n, k)."""
    n, d = X.shape
    tile = max(64, 16384 // d)
    scratch = np.empty((tile, d), X.dtype)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        for a in range(means.shape[0]):
            pulls = scratch[: high - low]
            np.dot(X[low:high], covariances[a], pulls)
            for i in range(low, high):
                energies[i, a] = log_counts[a] + _energy(X[i], means[a], pulls[i - low])


@njit(cache=True, nogil=True, fastmath=FAST)
def add_affine(Y: Floats, matrix: Floats, offset: Floats, out: Floats) -> None:
    """Add ``Y matrix + offset`` to ``out``, tile by tile."""
    n, d = Y.shape
    tile = max(64, 16384 // d)
    scratch = np.empty((tile, d), Y.dtype)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        np.dot(Y[low:high], matrix, scratch[: high - low])
        for i in range(low, high):
            for j in range(d):
                out[i, j] += scratch[i - low, j] + offset[j]
