"""The objective of a map with sampled repulsion; its equations are those of :mod:`nearfar.methods.noise_maps`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.types import Array, FloatType
from nearfar.contracts import Kernel, Place, Rows
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.kernels import compiled_kernel
from nearfar.maps.objective import NeighborObjective, RowBlocks
from nearfar.maps.settings import Problem
from nearfar.methods.noise_maps import (
    Circle,
    global_cost,
    global_gradient,
    local_cost,
    local_gradient,
    mean_level,
)

_PAIRS = 2**19  # of noise at least, in each evaluation of "local"


def check_noise(problem: Problem) -> None:
    """Refuse sampled pairs for what they are not for."""
    hint = "Sampled pairs are for KL by pair and kernels with formulas; other maps take 'auto'."
    settings = problem.settings
    for what, known, part in (
        ("divergence", settings.divergence == KL(), settings.divergence),
        ("normalization", settings.normalization == "pair", settings.normalization),
        ("kernel", compiled_kernel(problem.kernel) is not None, problem.kernel),
    ):
        if not known:
            raise InputError(settings.owner, "far", f"another than 'noise' for this {what}", repr(part), hint)


class NoiseObjective(NeighborObjective):
    """KL by pair with the repulsion sampled, the steps along a circle of the points anew in each evaluation.

    The near part's pattern and order are those of :class:`NeighborObjective`; no field is asked.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Its total is 1, and (P + Pᵀ) / 2 is what counts; the diagonal does not.
    kernel : Kernel
        With formulas.
    noise : NoisePairs
        Which cost.
    rng : Generator
        Of the circle and, by a seed that it gives, of the steps of each evaluation.
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    place : Place, optional
    """

    def __init__(
        self,
        P: csr_array | RowBlocks,
        kernel: Kernel,
        noise: NoisePairs,
        *,
        rng: np.random.Generator,
        dtype: FloatType,
        n_jobs: int,
        place: Place | None = None,
    ) -> None:
        super().__init__(P, kernel, KL(), "pair", ExactField(), dtype=dtype, n_jobs=n_jobs, place=place)
        n: int = P.shape[0]
        self._noise, self._m = noise, min(noise.n_samples, n - 1)
        self._ranking = noise.objective == "global"
        self._points = rng.permutation(n).astype(np.int64)
        self._seed, self._evaluations = int(rng.integers(2**63)), 0
        self._drawn = self._m if self._ranking else max(self._m, -(-_PAIRS // n))
        self._reported = self._steps(2 * self._drawn, 2**63)  # the noise of what is reported: the same at all times

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was; the points stay where they are in the circle."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._points = place[self._points]
        return super().reorder(order)

    def evaluate(self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Rows, float | None]:
        """Return the gradient at Y for fresh noise, and if it is asked for the cost for that of all reports."""
        circle = Circle(self._points, self._steps(self._drawn, self._evaluations))
        self._evaluations += 1
        gradient = self.gradient(Y, circle, exaggeration)
        return gradient, self.value(Y) if cost else None

    def gradient(self, Y: Rows, circle: Circle, exaggeration: float = 1.0) -> Rows:
        """Return the gradient for given noise."""
        parts = self.place, self.cost, self.near(), circle, Y
        if self._ranking:
            return global_gradient(*parts, exaggeration)
        return local_gradient(*parts, self.level(Y, circle), self._m, exaggeration)

    def value(self, Y: Rows) -> float:
        """Return the cost at Y, for the noise of all reports."""
        return self.value_of(Y, Circle(self._points, self._reported))

    def value_of(self, Y: Rows, circle: Circle) -> float:
        """Return the cost for given noise; "global" takes the first m steps of it."""
        parts = self.place, self.cost, self.near()
        if self._ranking:
            return global_cost(*parts, Circle(circle.order, circle.steps[: self._m]), Y)
        return local_cost(*parts, circle, Y, self.level(Y, circle), self._m)

    def level(self, Y: Rows, circle: Circle) -> Array | float:
        """Return a of "local": m Zbar over the number of ordered pairs."""
        zbar, n = self._noise.normalizer, self.cost.n
        if zbar == "t-sne":
            return mean_level(self.place, self.cost, circle, Y, self._m)
        return 1.0 if zbar == "umap" else self._m * float(zbar) / (n * (n - 1))

    def _steps(self, count: int, key: int) -> NDArray[np.int64]:
        """Return different steps along the circle, of a generator that the key starts; all there are, if not more."""
        if count >= self.cost.n - 1:
            return np.arange(1, self.cost.n)
        rng = np.random.default_rng([self._seed, key])
        return rng.choice(self.cost.n - 1, count, replace=False) + 1
