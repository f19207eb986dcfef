"""Gradient descent with momentum and a gain per coordinate, for maps.

With the gradient g, gains γ and velocity v of each coordinate (delta-bar-delta, Jacobs 1988)::

    γ <- γ + 0.2            where g points against v, so that the last steps went the right way
    γ <- max(0.8 γ, 0.01)   elsewhere
    v <- momentum v - learning_rate γ g,     y <- y + v

A step longer than ``longest`` is cut to that length, and the mean of all positions is kept at 0.
"""

from __future__ import annotations

import math

import numpy as np

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.optimize import _momentum_kernels as kernels

_UP, _DOWN, _LEAST = 0.2, 0.8, 0.01
_ROWS = 2**14  # of a block


class Momentum:
    """Momentum, gains and velocity of a map; a :class:`nearfar.contracts.Solver` for all rows at once.

    Parameters
    ----------
    momentum : float in [0, 1), default=0.8
        Share of the last step in the next one.
    longest : float, default=inf
        Longest step of a point. In a map a step beyond the reach of the kernel's forces may have no way back.
    n_jobs : int, default=1
        Threads; the result does not depend on it.

    Attributes
    ----------
    gradient_norm : float
        Length of the last gradient.

    References
    ----------
    van der Maaten & Hinton (2008), section 3.4; Jacobs (1988), "Increased rates of convergence through learning rate
    adaptation".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.optimize.momentum import Momentum
    >>> solver, Y = Momentum(), np.array([[-3.0], [1.0], [5.0]])
    >>> for _ in range(100):
    ...     solver.step(Y, 2 * (Y - [[-1.0], [0.0], [1.0]]), learning_rate=0.1)
    >>> bool((abs(Y - [[-1.0], [0.0], [1.0]]) < 1e-3).all())
    True
    """

    def __init__(self, momentum: float = 0.8, *, longest: float = math.inf, n_jobs: int = 1) -> None:
        self.momentum, self.longest, self._n_jobs = momentum, longest, n_jobs
        self.gradient_norm = math.nan
        self._velocity: Floats = np.empty((0, 0))
        self._gains: Floats = np.empty((0, 0))

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the positions in place, shape (n, d), and centre them."""
        if self._velocity.shape != X.shape:
            self._velocity, self._gains = np.zeros_like(X), np.ones_like(X)
        scalar, bounds = X.dtype.type, even_bounds(len(X), _ROWS)
        constants = tuple(scalar(c) for c in (learning_rate, self.momentum, _UP, _DOWN, _LEAST, self.longest))
        sums = np.zeros((len(bounds) - 1, X.shape[1] + 1))

        def move(block: int, start: int, stop: int) -> None:
            kernels.momentum_step(X, gradient, self._velocity, self._gains, constants, sums[block], start, stop)

        run_blocks(move, bounds, self._n_jobs)
        totals = sums.sum(axis=0)
        self.gradient_norm = math.sqrt(totals[-1]) if totals[-1] >= 0 else math.nan
        centre = (totals[:-1] / len(X)).astype(X.dtype)
        run_blocks(lambda _block, start, stop: kernels.shift(X, centre, start, stop), bounds, self._n_jobs)
