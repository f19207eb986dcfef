"""A uniform sample stands for all the others: ``Z_i`` is about ``(m / K) sum_{a in sample} exp(x_i . y_a)``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_integer
from nearfar.contracts import Floats
from nearfar.far._base import FarPart, Others
from nearfar.far.exact import add_other_side, stream_softmax


@dataclass(frozen=True, eq=False)
class Noise(FarPart):
    """A sample of the others, drawn anew at each ``prepare``: O(n K d) time, O(K d) memory.

    The estimate of Z is unbiased: the sample is uniform, without replacement. With as many samples as others it is
    exact. The gradient is that of the estimate's own log, a softmax mean over the sample.

    Parameters
    ----------
    n_samples : int, >= 1
        K, the size of the sample; at most all others are taken.

    Raises
    ------
    InputError
        ``n_samples`` is not a positive integer.

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

    n_samples: int = 1000

    def __post_init__(self) -> None:
        check_integer("Noise", "n_samples", self.n_samples, low=1)

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
        others = Others.of("Noise.prepare", Y, n_active)
        size = min(self.n_samples, n_active)
        drawn = np.sort(rng.choice(n_active, size=size, replace=False))
        rows = drawn if others.active is None else others.indices()[drawn]
        self._remember((Others(Y[rows], None), rows, math.log(n_active / size)))

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        """Write the estimate of log Z and its gradient for a block of rows; safe from several threads at once.

        Parameters
        ----------
        X : ndarray, shape (b, d)
            Rows, of the dtype of Y.
        log_z : ndarray of float64, shape (b,)
            Written: natural log of the estimate of Z.
        force : ndarray, shape (b, d), or None
            Written: its gradient in x_i. None leaves it out.
        """
        sample, _, log_scale = self._prepared()
        stream_softmax(X, sample, log_z, force)
        log_z += log_scale

    def other_side(self, X: Floats, r: Floats, Y: Floats, out: Floats, n_jobs: int) -> None:
        """Add to ``out`` the gradient of ``sum_i r_i log Z_i`` in each y_a; only sampled rows have one.

        Parameters
        ----------
        X : ndarray, shape (n, d)
            All rows.
        r : ndarray, shape (n,)
            Weight of each row.
        Y : ndarray, shape (m, d)
            The others, as given to ``prepare``.
        out : ndarray, shape (m, d)
            Added to, in place.
        n_jobs : int
            Number of threads.
        """
        _, rows, _ = self._prepared()
        add_other_side(X, r, Y[rows], out, rows, n_jobs)
