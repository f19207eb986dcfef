"""Random features for the softmax kernel, the rivals of the mixture of Gaussians: far fields of one's own.

``exp(x . y)`` is the mean of products ``f(x) f(y)`` over random directions w ~ N(0, I). Summed over the others, the
features give every Z in O(D d)::

    Performer:  exp(x . y) = E exp(w . x - |x|²/2) exp(w . y - |y|²/2),  positive, taken with w and -w
    RFA:        exp(x . y) = exp(|x|²/2 + |y|²/2) E cos(w . (x - y)),    floored where a sum of cosines falls too low

Choromanski et al., "Rethinking attention with Performers" (ICLR 2021), lemma 1; Peng et al., "Random feature attention"
(ICLR 2021), section 3.1; directions orthogonal within blocks of d: Yu et al., "Orthogonal random features" (2016).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from nearfar.contracts import FarField

ENTRIES = 2**19  # of a tile of features, so that it stays near the cache


def orthogonal_directions(n_features: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw N(0, I) directions: uniform ones, lengths from the chi distribution with d degrees of freedom."""
    q, upper = np.linalg.qr(rng.normal(size=(-(-n_features // d), d, d)))
    q *= np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :]  # this makes q uniform over the rotations
    directions = q.swapaxes(1, 2).reshape(-1, d)[:n_features]
    return np.asarray(directions * np.sqrt(rng.chisquare(d, size=n_features))[:, None])


class RandomFeatures(FarField):
    """Drawn directions and the walk over the others; a subclass sums features and evaluates rows, tile by tile."""

    keeps_others, force_is_optional = False, True

    def __init__(self, n_features: int = 1000) -> None:
        self.n_features, self.tile = n_features, max(16, ENTRIES // n_features)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_features={self.n_features})"

    def prepare(self, Y: NDArray[Any], n_active: int, rng: np.random.Generator, n_jobs: int) -> None:
        self.W = orthogonal_directions(self.n_features, Y.shape[1], rng).astype(Y.dtype)
        if n_active < len(Y):  # rows of zeros are absent
            Y = Y[Y.any(axis=1)]
        self.n, self.longest = len(Y), float(np.einsum("ij,ij->i", Y, Y).max())
        with ThreadPoolExecutor(n_jobs) as pool:
            tiles = [Y[start : start + self.tile] for start in range(0, len(Y), self.tile)]
            self.sums = self.joined(np.array([*pool.map(self.of_tile, tiles)]))

    def evaluate(self, X: NDArray[Any], log_z: NDArray[np.float64], force: NDArray[Any] | None) -> None:
        for start in range(0, len(X), self.tile):
            rows = slice(start, start + self.tile)
            log_z[rows], slopes = self.of_rows(X[rows], force is not None)
            if force is not None:
                force[rows] = slopes

    def of_tile(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of the features of some of the others."""
        raise NotImplementedError

    def joined(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return the sums over all tiles."""
        raise NotImplementedError

    def of_rows(self, X: NDArray[Any], with_force: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the estimate of log Z of some rows, and its gradient if it is wanted."""
        raise NotImplementedError


class Performer(RandomFeatures):
    """Positive random features, kept as logarithms."""

    def of_tile(self, Y: NDArray[Any]) -> NDArray[Any]:
        projected, halves = Y @ self.W.T, np.einsum("ij,ij->i", Y, Y)[:, None] / 2
        found = []
        for exponents in (projected - halves, -projected - halves):
            top = exponents.max(axis=0)
            found.append(top + np.log(np.exp(exponents - top).sum(axis=0, dtype=np.float64)))
        return np.array(found)

    def joined(self, sums: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(logsumexp(sums, axis=0) - np.log(2 * self.n_features))

    def of_rows(self, X: NDArray[Any], with_force: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        W, (up, down) = self.W.astype(X.dtype, copy=False), self.sums.astype(X.dtype)
        projected = X @ W.T
        up, down = up + projected, down - projected
        top = np.maximum(up.max(axis=1), down.max(axis=1))[:, None]
        up, down = np.exp(up - top), np.exp(down - top)
        total = up.sum(axis=1, dtype=np.float64) + down.sum(axis=1, dtype=np.float64)
        log_z = np.log(total) + top[:, 0] - np.einsum("ij,ij->i", X, X, dtype=np.float64) / 2
        return log_z, ((up - down) @ W) / total[:, None] - X if with_force else None


class RFA(RandomFeatures):
    """Trigonometric random features. No Z lies below ``n exp(-|x| max |y|)``: there the estimate is floored."""

    def of_tile(self, Y: NDArray[Any]) -> NDArray[Any]:
        squares, projected = np.einsum("ij,ij->i", Y, Y), Y @ self.W.T
        weights = np.exp((squares - squares.dtype.type(self.longest)) / 2)
        return np.array([weights @ np.cos(projected), weights @ np.sin(projected)], np.float64)

    def joined(self, sums: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(sums.sum(axis=0) / self.n_features)

    def of_rows(self, X: NDArray[Any], with_force: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        W, (cosines, sines) = self.W.astype(X.dtype, copy=False), self.sums.astype(X.dtype)
        projected = X @ W.T
        cos, sin = np.cos(projected), np.sin(projected)
        total = (cos @ cosines + sin @ sines).astype(np.float64)
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        norms, longest = np.sqrt(squares), np.sqrt(self.longest)
        floor = np.log(self.n) - norms * longest
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = (squares + self.longest) / 2 + np.log(total)
        floored = ~(estimate > floor)
        total[floored] = 1.0
        force = None
        if with_force:
            force = X + ((cos * sines - sin * cosines) @ W) / total[:, None]
            force[floored] = -longest * X[floored] / np.maximum(norms[floored], 1e-300)[:, None]
        return np.where(floored, floor, estimate), force


RIVALS = {"performer": Performer, "rfa": RFA}
