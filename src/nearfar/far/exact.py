"""The exact far field of vectors, streamed: no more than one tile of scores is ever held. All the others, or a sample.

That of the points of a map is in ``fields.py``.

``log Z_i = log sum_a exp(x_i . y_a)`` with gradient ``sum_a S_ia y_a``, ``S = softmax(X Yᵀ)``. Tile by tile the running
maximum, the sum and the pull of each row are kept, rescaled when the maximum grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.far.registry import FarPart
from nearfar.methods.edrep import softmax

_TILE_ROWS, _TILE_OTHERS = 256, 2048
_ROWS = 2**16  # that are looked at together


class Streamed(FarPart):
    """Log Z by a softmax over vectors, one tile of scores at a time: what ``prepare`` leaves are :class:`Others`."""

    takes_weights = True

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        """Write log Z and its gradient for a block of rows; safe from several threads at once.

        Parameters
        ----------
        X : ndarray, shape (b, d)
            Rows, of the dtype of Y.
        log_z : ndarray of float64, shape (b,)
            Written: natural log of Z, or of the estimate of it.
        force : ndarray, shape (b, d), or None
            Written: its gradient in x_i, the softmax mean of the others. None leaves it out, at half the time.
        """
        others: Others = self.prepared
        stream_softmax(X, others, log_z, force)
        log_z += others.log_scale

    def other_side(self, X: Floats, r: Floats, Y: Floats, out: Floats, n_jobs: int) -> None:
        """Add to ``out`` the gradient of ``sum_i r_i log Z_i`` in each y_a: ``sum_i r_i S_ia x_i``.

        Two passes over all pairs. Of a sample only its rows have one.

        Parameters
        ----------
        X : ndarray, shape (n, d)
            All rows.
        r : ndarray, shape (n,)
            Weight of each row.
        Y : ndarray, shape (m, d)
            The others, as given to ``prepare``.
        out : ndarray, shape (m, d)
            Added to, in place; rows of absent objects are left as they are.
        n_jobs : int
            Number of threads.
        """
        prepared: Others = self.prepared
        rows, log_w = prepared.indices(), prepared.log_weights
        if prepared.active is not None:
            Y, log_w = Y[rows], None if log_w is None else log_w[rows]
        elif prepared.sampled is not None:  # of which the weights are those of the sample already
            Y = Y[rows]
        others, log_z, weights = Others(Y, None, log_w), np.empty(len(X)), np.asarray(r, dtype=np.float64)

        def normalise(_: int, start: int, stop: int) -> None:
            stream_softmax(X[start:stop], others, log_z[start:stop], None)

        def add(_: int, start: int, stop: int) -> None:
            pull = np.zeros((stop - start, X.shape[1]))
            for low in range(0, len(X), _TILE_OTHERS):
                block = slice(low, low + _TILE_OTHERS)
                shares = Y[start:stop] @ X[block].T
                shares -= log_z[block].astype(X.dtype)
                if log_w is not None:
                    shares += log_w[start:stop, None]
                np.exp(shares, out=shares)
                shares *= weights[block].astype(X.dtype)
                pull += shares @ X[block]
            out[rows[start:stop]] += pull.astype(out.dtype)

        with single_threaded_blas():
            run_blocks(normalise, even_bounds(len(X), _TILE_ROWS), n_jobs)
            run_blocks(add, even_bounds(len(Y), _TILE_ROWS), n_jobs)


def stream_softmax(X: Floats, others: Others, log_z: NDArray[np.float64], force: Floats | None) -> None:
    """Write log Z and, unless ``force`` is None, the softmax means of ``others``, for rows of X."""
    for start in range(0, len(X), _TILE_ROWS):
        rows = slice(start, start + _TILE_ROWS)
        log_z[rows], mean = softmax(X[rows], others.blocks(_TILE_OTHERS), mean=force is not None)
        if force is not None:
            force[rows] = mean


@dataclass(frozen=True, eq=False)
class Exact(Streamed):
    """All scores, one tile at a time: O(n m d) time, constant extra memory.

    The oracle of the linear-time far fields. Scores are formed in the dtype of the vectors, sums in float64.

    Parameters
    ----------
    weights : ndarray of float64, shape (m,), >= 0, optional
        The base measure w, 1 by default: ``Z_i = sum_a w_a exp(x_i . y_a)``. One of weight 0 is absent.

    Raises
    ------
    InputError
        ``weights`` are no such vector.

    Examples
    --------
    >>> import numpy as np
    >>> far = Exact()
    >>> Y = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> far.prepare(Y, n_active=2, rng=np.random.default_rng(0), n_jobs=1)
    >>> log_z, force = np.empty(1), np.empty((1, 2))
    >>> far.evaluate(np.zeros((1, 2)), log_z, force)
    >>> np.exp(log_z), force
    (array([2.]), array([[0.5, 1. ]]))

    Source: the SoftMax normaliser of Dall'Amico & Belliardo (2024), arXiv 2303.17475, eq. (1).
    """

    keeps_others = True
    doubtful_between = (0, 0)

    weights: Floats | None = field(default=None, repr=False)

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:  # noqa: ARG002
        """Take in the others.

        Parameters
        ----------
        Y : ndarray of float32 or float64, shape (m, d)
            Kept by reference.
        n_active : int
            Number of present objects. When it is below m, rows of zeros are absent.
        rng : numpy.random.Generator
            Not used.
        n_jobs : int
            Not used.

        Raises
        ------
        InputError
            ``n_active`` is not a possible count, or not the number of rows that are not zero.
        """
        vars(self)["_state"] = Others.of("Exact.prepare", Y, n_active, self.weights)


@dataclass(frozen=True, eq=False)
class Noise(Streamed):
    """A sample of the others, drawn anew at each ``prepare``: O(n K d) time, O(K d) memory.

    The estimate of Z is unbiased: the sample is uniform, without replacement. With as many samples as others it is
    exact. The gradient is that of the estimate's own log, a softmax mean over the sample.

    Parameters
    ----------
    n_samples : int, >= 1
        K, the size of the sample; at most all others are taken.
    weights : ndarray of float64, shape (m,), >= 0, optional
        The base measure w, 1 by default: ``Z_i = sum_a w_a exp(x_i . y_a)``. One of weight 0 is absent.

    Raises
    ------
    InputError
        ``n_samples`` is not a positive integer; ``weights`` are no such vector.

    Examples
    --------
    >>> import numpy as np
    >>> far = Noise(n_samples=10)
    >>> far.prepare(np.eye(3), n_active=3, rng=np.random.default_rng(0), n_jobs=1)
    >>> log_z = np.empty(1)
    >>> far.evaluate(np.zeros((1, 3)), log_z, None)
    >>> np.exp(log_z).round(12)
    array([3.])

    Source: sampled softmax with a uniform proposal, Stratos, notes on noise contrastive estimation, appendix C.
    """

    doubtful_between = (0, 1)

    n_samples: int = 1000
    weights: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_integer("Noise", "n_samples", self.n_samples, low=1)
        super().__post_init__()

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:  # noqa: ARG002
        """Draw the sample.

        Parameters
        ----------
        Y : ndarray of float32 or float64, shape (m, d)
            The others; the sampled rows are copied.
        n_active : int
            Number of present objects. When it is below m, rows of zeros are absent and never drawn.
        rng : numpy.random.Generator
            Source of the sample.
        n_jobs : int
            Not used.

        Raises
        ------
        InputError
            ``n_active`` is not a possible count, or not the number of rows that are not zero.
        """
        others = Others.of("Noise.prepare", Y, n_active, self.weights)
        present = others.indices()
        size = min(self.n_samples, len(present))
        rows = present[np.sort(rng.choice(len(present), size=size, replace=False))]
        log_weights = None if others.log_weights is None else others.log_weights[rows]
        vars(self)["_state"] = Others(Y[rows], None, log_weights, rows, math.log(len(present) / size))


class Others(NamedTuple):
    """The others without the absent ones.

    Parameters
    ----------
    vectors : ndarray, shape (m, d)
        As they came.
    active : ndarray of bool, shape (m,), or None
        Which rows take part; None means all of them, rows of zeros too.
    log_weights : ndarray, shape (m,), or None
        Logarithms of their weights, in the dtype of the vectors; None where all are 1.
    sampled : ndarray of int64, or None
        Where they are a sample, their numbers among all others.
    log_scale : float
        The logarithm of how many each of them then stands for.
    """

    vectors: Floats
    active: NDArray[np.bool_] | None
    log_weights: Floats | None = None
    sampled: NDArray[np.int64] | None = None
    log_scale: float = 0.0

    @classmethod
    def of(cls, owner: str, vectors: Floats, n_active: int, weights: Floats | None = None) -> Others:
        """Take all rows when ``n_active`` is their number, otherwise those that are not zero; none of weight 0."""
        if not 1 <= n_active <= len(vectors):
            raise InputError(owner, "n_active", f"in [1, {len(vectors)}], the number of others", n_active)
        if weights is not None:
            if len(weights) != len(vectors):
                raise InputError(owner, "weights", f"of length {len(vectors)}, one per object", len(weights))
            with np.errstate(divide="ignore"):
                log_weights = np.log(weights).astype(vectors.dtype)
            return cls(vectors, None if np.all(weights) else np.asarray(weights) > 0, log_weights)
        if n_active == len(vectors):
            return cls(vectors, None)
        starts = range(0, len(vectors), _ROWS)
        active = np.concatenate([vectors[start : start + _ROWS].any(axis=1) for start in starts])
        if int(active.sum()) != n_active:
            raise InputError(owner, "n_active", "the number of rows that are not zero", n_active)
        return cls(vectors, active)

    def blocks(self, size: int) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield the active rows, at most ``size`` at a time, and the logarithms of their weights."""
        for start in range(0, len(self.vectors), size):
            part = slice(start, start + size)
            block, log_weights = self.vectors[part], None if self.log_weights is None else self.log_weights[part]
            if self.active is not None:
                active = self.active[part]
                block, log_weights = block[active], None if log_weights is None else log_weights[active]
            if len(block):
                yield block, log_weights

    def indices(self) -> NDArray[np.int64]:
        """Return the positions of the active rows."""
        if self.sampled is not None:
            return self.sampled
        if self.active is None:
            return np.arange(len(self.vectors), dtype=np.int64)
        return np.flatnonzero(self.active)
