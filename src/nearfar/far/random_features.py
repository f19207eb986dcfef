"""Random features for the softmax kernel: ``exp(x . y)`` as the mean of products ``f(x) f(y)`` over random directions.

Summed over the others once, the features give every Z in O(D d). Two choices of features, the rivals of the mixture of
Gaussians:

    Performer:  ``exp(x . y) = E exp(w . x - |x|²/2) exp(w . y - |y|²/2)``,  positive, taken with w and -w;
    RFA:        ``exp(x . y) = exp(|x|²/2 + |y|²/2) E cos(w . (x - y))``,    may fall below zero;   w ~ N(0, I).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer
from nearfar._core.threads import even_bounds, ordered_sum, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.far.exact import FarPart, Others

_TILE_ENTRIES = 2**19  # of a tile of features, so that it stays near the cache


def orthogonal_directions(n_features: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw N(0, I) directions, orthogonal within each block of d.

    Parameters
    ----------
    n_features : int
        Number of directions.
    d : int
        Dimension.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of float64, shape (n_features, d)
        Uniform directions, lengths from the chi distribution with d degrees of freedom.

    Source: Yu et al. (2016), orthogonal random features; Choromanski et al. (2021), section 2.4.
    """
    q, upper = np.linalg.qr(rng.normal(size=(-(-n_features // d), d, d)))
    q *= np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :]  # this makes q uniform over the rotations
    directions = q.swapaxes(1, 2).reshape(-1, d)[:n_features]
    return directions * np.sqrt(rng.chisquare(d, size=n_features))[:, None]


class _RandomFeatures(FarPart):
    """Drawn directions and the walk over rows, tile by tile; a subclass sums its features and evaluates a tile."""

    n_features: int

    def __post_init__(self) -> None:
        check_integer(type(self).__name__, "n_features", self.n_features, low=1)

    @property
    def _tile(self) -> int:
        return max(16, _TILE_ENTRIES // self.n_features)

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:
        """Draw directions and sum the features of the others.

        Parameters
        ----------
        Y : ndarray of float32 or float64, shape (m, d)
            The others.
        n_active : int
            Number of present objects. When it is below m, rows of zeros are absent.
        rng : numpy.random.Generator
            Source of the directions.
        n_jobs : int
            Number of threads; the result has the same bits for any number.

        Raises
        ------
        InputError
            ``n_active`` is not a possible count, or not the number of rows that are not zero.
        """
        others = Others.of(f"{type(self).__name__}.prepare", Y, n_active)
        directions = orthogonal_directions(self.n_features, Y.shape[1], rng).astype(Y.dtype)
        self._remember((directions, *self._sums(others, directions, n_jobs)))

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        """Write the estimate of log Z and its gradient for a block of rows; safe from several threads at once.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (b, d)
            Rows.
        log_z : ndarray of float64, shape (b,)
            Written: natural log of the estimate of Z.
        force : ndarray of the dtype of X, shape (b, d), or None
            Written: its gradient in x_i. None leaves it out.
        """
        state = self._prepared()
        for start in range(0, len(X), self._tile):
            rows = slice(start, start + self._tile)
            self._evaluate_tile(state, X[rows], log_z[rows], None if force is None else force[rows])

    def _sums(self, others: Others, directions: Floats, n_jobs: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def _evaluate_tile(self, state: Any, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Performer(_RandomFeatures):
    """Positive random features, in hyperbolic pairs: O((n + m) d D) time, O(d D) memory.

    The estimate of Z is unbiased and positive; its variance falls as 1 / D. Directions are drawn anew at each
    ``prepare``, orthogonal within blocks of d. Everything is kept as logarithms, so nothing overflows.

    Parameters
    ----------
    n_features : int, >= 1
        D, the number of random directions; each gives two features, with w and with -w.

    Raises
    ------
    InputError
        ``n_features`` is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(50, 3)) / 3
    >>> far = Performer(n_features=3000)
    >>> far.prepare(Y, n_active=50, rng=rng, n_jobs=1)
    >>> log_z = np.empty(50)
    >>> far.evaluate(Y, log_z, None)
    >>> bool(abs(log_z - np.log(np.exp(Y @ Y.T).sum(axis=1))).max() < 0.1)
    True

    Source: Choromanski et al. (2021), "Rethinking attention with Performers", lemma 1.
    """

    n_features: int = 1000

    def _sums(self, others: Others, directions: Floats, n_jobs: int) -> tuple[Any, ...]:
        Y = others.vectors
        # log sum_a exp(+-w_f . y_a - |y_a|²/2) per direction, streamed: a running maximum and sum for each part of Y.
        bounds = even_bounds(len(Y), max(self._tile, -(-len(Y) // 64)))
        tops = np.full((len(bounds) - 1, 2, self.n_features), -np.inf)
        sums = np.zeros_like(tops)

        def add(part: int, start: int, stop: int) -> None:
            for low in range(start, stop, self._tile):
                block = others.rows(low, min(low + self._tile, stop))
                if len(block):
                    _add_exponentials(block, directions, tops[part], sums[part])

        with single_threaded_blas():
            run_blocks(add, bounds, n_jobs)
        top = tops.max(axis=0)
        log_sums = top + np.log((sums * np.exp(tops - top)).sum(axis=0))
        return (log_sums - np.log(2 * self.n_features),)

    def _evaluate_tile(self, state: Any, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        directions, log_sums = state
        projected = X @ directions.astype(X.dtype, copy=False).T
        up = projected + log_sums[0].astype(X.dtype)
        down = log_sums[1].astype(X.dtype) - projected
        top = np.maximum(up.max(axis=1), down.max(axis=1))[:, None]
        up = np.exp(np.subtract(up, top, out=up), out=up)
        down = np.exp(np.subtract(down, top, out=down), out=down)
        total = up.sum(axis=1, dtype=np.float64) + down.sum(axis=1, dtype=np.float64)
        log_z[:] = np.log(total) + top[:, 0] - np.einsum("ij,ij->i", X, X, dtype=np.float64) / 2
        if force is not None:
            up -= down
            force[:] = (up @ directions.astype(X.dtype, copy=False)) / total[:, None] - X


def _add_exponentials(Y: Floats, directions: Floats, top: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add ``exp(+-w . y - |y|²/2 - top)`` of all rows, raising ``top`` where an exponent exceeds it; in place."""
    projected = Y @ directions.T
    halves = np.einsum("ij,ij->i", Y, Y)[:, None] / 2
    for sign, exponents in enumerate((projected - halves, -projected - halves)):
        new_top = np.maximum(top[sign], exponents.max(axis=0))
        exponents -= new_top.astype(Y.dtype)
        total[sign] *= np.exp(top[sign] - new_top)
        total[sign] += np.exp(exponents, out=exponents).sum(axis=0, dtype=np.float64)
        top[sign] = new_top


@dataclass(frozen=True, eq=False)
class RFA(_RandomFeatures):
    """Trigonometric random features: O((n + m) d D) time, O(d D) memory.

    The estimate of Z is unbiased before the floor. Being a sum of cosines it can come out too small, or negative: it is
    floored at ``n_active exp(-|x| max |y|)``, below which no Z can lie. A floored row's gradient is that of the floor.

    Parameters
    ----------
    n_features : int, >= 1
        D, the number of random directions; each gives a sine and a cosine.

    Raises
    ------
    InputError
        ``n_features`` is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(50, 3)) / 3
    >>> far = RFA(n_features=3000)
    >>> far.prepare(Y, n_active=50, rng=rng, n_jobs=1)
    >>> log_z = np.empty(50)
    >>> far.evaluate(Y, log_z, None)
    >>> bool(abs(log_z - np.log(np.exp(Y @ Y.T).sum(axis=1))).max() < 0.1)
    True

    Source: Peng et al. (2021), "Random feature attention", section 3.1.
    """

    n_features: int = 1000

    def _sums(self, others: Others, directions: Floats, n_jobs: int) -> tuple[Any, ...]:
        longest = max(float(np.einsum("ij,ij->i", Y_block, Y_block).max()) for Y_block, _ in others.blocks(4096))

        def add(start: int, stop: int, total: NDArray[np.float64]) -> None:
            for low in range(start, stop, self._tile):
                block = others.rows(low, min(low + self._tile, stop))
                squares = np.einsum("ij,ij->i", block, block)
                weights = np.exp((squares - squares.dtype.type(longest)) / 2)
                projected = block @ directions.T
                total[: self.n_features] += weights @ np.cos(projected)
                total[self.n_features :] += weights @ np.sin(projected)

        sums = ordered_sum(len(others.vectors), 2 * self.n_features, add, n_jobs).reshape(2, -1)
        return sums / self.n_features, longest, np.log(others.size)

    def _evaluate_tile(self, state: Any, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        directions, sums, longest, log_active = state
        directions = directions.astype(X.dtype, copy=False)
        cosines, sines = sums.astype(X.dtype)
        projected = X @ directions.T
        cos, sin = np.cos(projected), np.sin(projected)
        total = (cos @ cosines + sin @ sines).astype(np.float64)
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        norms = np.sqrt(squares)
        floor = log_active - norms * np.sqrt(longest)
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = (squares + longest) / 2 + np.log(total)
        floored = ~(estimate > floor)
        log_z[:] = np.where(floored, floor, estimate)
        if force is None:
            return
        slopes = cos * sines - sin * cosines
        total[floored] = 1.0
        force[:] = X + (slopes @ directions) / total[:, None]
        force[floored] = -np.sqrt(longest) * X[floored] / np.maximum(norms[floored], 1e-300)[:, None]
