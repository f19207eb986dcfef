"""The cost of a map with sampled repulsion, and its gradient: noise pairs in place of a far field.

With p_ij = p_ji of sum 1, a = m Zbar / (n (n - 1)), W_i the sum of w over the m noise partners k of i, g = -w'/w and
Delta = y_i - y_j, the costs of :class:`nearfar.far.NoisePairs` have the gradients (noise and Zbar held fixed)::

    local    4 sum_j p_ij a/(w_ij + a) g Delta  -  (2/n) sum_k w_ik/(w_ik + a) g Delta
    global   2 sum_j p_ij (W_i/(w_ij + W_i) + W_j/(w_ij + W_j)) g Delta  -  2 sum_k c w_ik g Delta

where k runs over the pairs of noise in which i is the first or the second, and c = sum_j p_fj / (w_fj + W_f) of the
first, f. Exaggeration by alpha makes of the near part -alpha sum p ln w + ..., as in t-SNE.

As a grows "local" becomes t-SNE's gradient, with the sum over all pairs estimated. What tells "local" from t-SNE is m;
how exactly its mean over the noise is known is another matter, so in a small map more noise is drawn than m per point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL
from nearfar.far.noise_pairs import NoisePairs
from nearfar.far.pairs import ExactField
from nearfar.models.maps import _noise_kernels as kernels
from nearfar.models.maps._neighbor_objective import NeighborObjective

_ROWS = 2048  # of a block of the circle: what is read and written of it stays in the nearest cache
_PAIRS = 2**19  # of noise at least, in each evaluation of "local"
_WIDE = 10  # components from which on neighbours are read one by one
_LEAST_A = 1e-20  # of a map torn so far apart that all of w vanishes

Steps = NDArray[np.int64]


class NoiseObjective(NeighborObjective):
    """KL by pair with the repulsion sampled, the steps anew in each evaluation.

    The near part's pattern and order are those of :class:`NeighborObjective`; no field is asked.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Its total is 1, and (P + Pᵀ) / 2 is what counts; the diagonal does not.
    kernel : Kernel
        With a compiled form.
    noise : NoisePairs
        Which cost.
    rng : Generator
        Of the circle and, by a seed that it gives, of the steps of each evaluation.
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    """

    def __init__(
        self,
        P: Any,
        kernel: Any,
        noise: NoisePairs,
        *,
        rng: np.random.Generator,
        dtype: Any,
        n_jobs: int,
    ) -> None:
        super().__init__(P, kernel, KL(), "pair", ExactField(), dtype=dtype, n_jobs=n_jobs)
        n: int = P.shape[0]
        self._noise, self._m = noise, min(noise.n_samples, n - 1)
        self._code: tuple[int, ...] = () if noise.objective == "local" else (0,)
        self._order = rng.permutation(n).astype(np.int64)
        self._seed, self._evaluations = int(rng.integers(2**63)), 0
        self._drawn = self._m if self._code else max(self._m, -(-_PAIRS // n))
        self._told = self._steps(2 * self._drawn, 2**63)  # the noise of what is reported: the same at all times
        self._sums, self._charges = np.empty((2, n), dtype)

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was; the points stay where they are in the circle."""
        place = np.empty(self._n, np.int64)
        place[order] = np.arange(self._n)
        self._order = place[self._order]
        return super().reorder(order)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y for fresh noise, and if it is asked for the cost for that of all reports."""
        circle = self._circle(Y)
        steps = self._steps(self._drawn, self._evaluations)
        self._evaluations += 1
        gradient = self.gradient(Y, circle, steps, self.level(circle, steps), exaggeration)
        if not cost:
            return gradient, None
        return gradient, self.cost(Y, circle, self._told, self.level(circle, self._told))

    # ---------------------------------------------------------------- noise

    def _steps(self, count: int, key: int) -> Steps:
        """Return different steps along the circle, of a generator that the key starts; all there are, if not more."""
        if count >= self._n - 1:
            return np.arange(1, self._n)
        rng = np.random.default_rng([self._seed, key])
        return rng.choice(self._n - 1, count, replace=False) + 1

    def _circle(self, Y: Floats) -> Floats:
        circle = np.empty((Y.shape[1], 2 * self._n), Y.dtype)
        self._run(lambda _block, start, stop: kernels.lay_out(Y, self._order, circle, start, stop))
        return circle

    def level(self, circle: Floats, steps: Steps) -> float:
        """Return a: m Zbar over the number of ordered pairs; m times the mean of w if Zbar is S."""
        if self._code:
            return 0.0  # "global" has none
        n: int = self._n
        zbar, pairs = self._noise.normalizer, n * (n - 1)
        if not isinstance(zbar, str):
            return self._m * zbar / pairs
        if zbar == "umap":
            return 1.0
        sums = self._noise_weights(circle, steps)
        return max(self._m * float(sums.sum(dtype=np.float64)) / (n * len(steps)), _LEAST_A)

    def _noise_weights(self, circle: Floats, steps: Steps) -> Floats:
        sums = np.empty(self._n, circle.dtype)
        given = (circle, steps, self._compiled_kernel)
        self._run(lambda _block, start, stop: kernels.noise_weights(*given, sums, start, stop))
        return sums

    def _run(self, task: Any) -> None:
        run_blocks(task, even_bounds(self._n, _ROWS), self._n_jobs)

    # ---------------------------------------------------------------- gradient and cost for given noise

    def gradient(self, Y: Floats, circle: Floats, steps: Steps, a: float, exaggeration: float = 1.0) -> Floats:
        """Return the gradient for given steps along the circle, a being held fixed; overwritten by the next call."""
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        scalar, out = Y.dtype.type, self._near
        charges: Floats = np.empty(0, Y.dtype)
        if self._code:
            self._sums[self._order] = self._noise_weights(circle, steps)
        near: Any = kernels.near_wide if Y.shape[1] >= _WIDE else kernels.near_any
        positions: Any = Y
        if Y.dtype == np.float32 and Y.shape[1] == 2:
            near, positions = kernels.near_packed, Y.view(np.int64).ravel()
        kind = (self._compiled_kernel, self._code, scalar(a))
        weights = (self._sums, scalar(exaggeration), scalar(2 if self._code else 4))
        given = (self._graph[:3], *kind, *weights, positions, out, self._charges)
        run_blocks(lambda _block, start, stop: near(*given, start, stop), self._bounds, self._n_jobs)
        if self._code:
            charges = np.tile(self._charges[self._order], 2)
        factor = scalar(2 if self._code else 2 * self._m / (self._n * len(steps)))
        push = (circle, steps, *kind, charges, factor, self._order, out)
        self._run(lambda _block, start, stop: kernels.noise_push(*push, start, stop))
        return out

    def cost(self, Y: Floats, circle: Floats, steps: Steps, a: float) -> float:
        """Return the cost for given steps; "global" takes the first m of them."""
        if self._code:
            self._sums[self._order] = self._noise_weights(circle, steps[: self._m])
        parts = np.zeros(len(self._bounds) - 1)
        level = Y.dtype.type(a)

        def near(block: int, start: int, stop: int) -> None:
            parts[block] = kernels.near_cost(
                self._graph[:3], self._compiled_kernel, self._code, level, self._sums, Y, start, stop
            )

        run_blocks(near, self._bounds, self._n_jobs)
        total = float(parts.sum())
        if self._code:
            return total
        far = np.zeros(len(even_bounds(self._n, _ROWS)) - 1)

        def noise(block: int, start: int, stop: int) -> None:
            far[block] = kernels.noise_cost(circle, steps, self._compiled_kernel, level, start, stop)

        self._run(noise)
        n: int = self._n
        return total + self._m * math.fsum(far) / (n * len(steps))
