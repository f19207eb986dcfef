"""Steps that keep vectors on the unit sphere or in the unit ball.

On the sphere (EDRep, algorithm 1), with the gradient g of a row x::

    g' = g - (g . x) x          its part in the tangent plane
    g'' = g' / |g'|             of unit length: the step does not depend on the scale of the loss
    x <- sqrt(1 - η²) x - η g''  a rotation by arcsin η, so |x| stays 1 up to rounding, which is removed
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar._vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.optimize import _kernels


class Sphere:
    """Unit vectors and their step.

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling" (EDRep), algorithm 1.
    """

    def start(self, n: int, d: int, rng: np.random.Generator, n_jobs: int = 1) -> NDArray[np.float32]:
        """Return n independent vectors, uniform on the sphere, shape (n, d), float32; the same for any ``n_jobs``."""
        X: NDArray[np.float32] = empty_aligned((n, d), np.float32)
        bounds = even_bounds(n, max(1, 2**18 // d))
        seeds = rng.integers(2**63, size=len(bounds) - 1)

        def task(block: int, start: int, stop: int) -> None:
            np.random.default_rng(seeds[block]).standard_normal(out=X[start:stop], dtype=np.float32)
            self.project(X[start:stop])

        run_blocks(task, bounds, n_jobs)
        return X

    def project(self, X: Floats) -> Floats:
        """Scale the rows of ``X`` to unit length, in place; rows of zeros stay."""
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, norms[:, None], out=X, where=norms[:, None] > 0)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the rows of ``X``, shape (b, d), in place; ``gradient`` is used as scratch.

        ``learning_rate`` is in [0, 1], the sine of the angle moved. A row whose gradient is zero, or points along the
        row itself, stays where it is.
        """
        _kernels.sphere_step(X, gradient, learning_rate)


class Ball(Sphere):
    """Vectors of length at most 1, as in the general form of the EDRep problem (norm-bounded instead of unit)."""

    def project(self, X: Floats) -> Floats:
        """Scale rows longer than 1 to unit length, in place."""
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, np.maximum(norms, 1)[:, None], out=X)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the rows of ``X`` by ``learning_rate`` along their normalised gradients, then project, in place."""
        _kernels.ball_step(X, gradient, learning_rate)
