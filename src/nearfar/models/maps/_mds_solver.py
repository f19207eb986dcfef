"""The optimisation of a map of distances: L-BFGS on the stress, which falls at every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import single_threaded_blas
from nearfar._progress import ProgressLine
from nearfar.divergences.stress import Stress
from nearfar.errors import NumericalError
from nearfar.models.maps._mds_pairs import Pairs
from nearfar.models.maps._mds_sample import SampledPairs
from nearfar.optimize.callbacks import Progress

_MEMORY = 10  # steps that L-BFGS remembers
_WINDOW = 5  # iterations over which the stress must fall
_PERFECT = 1e-14  # of the stress of a map in one point


@dataclass
class MapState:
    """Where the map stands: ``X`` are the positions."""

    X: NDArray[np.float64]
    losses: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Descent:
    """How to descend.

    ``factor`` turns the sum over pairs, in units, into the stress that is reported.
    """

    pairs: Pairs | SampledPairs
    stress: Stress
    factor: float
    max_iter: int
    tol: float
    callbacks: Sequence[Callable[[Progress], bool | None]]
    verbose: int

    def run(self, Y: NDArray[np.float64]) -> MapState:
        """Return the state after the last iteration; positions in units."""
        from scipy.optimize import minimize

        shape, began = Y.shape, time.perf_counter()
        state = MapState(Y)
        count = max(self.pairs.count, 1)

        def value_and_gradient(y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            cost, gradient = self.pairs.stress(y.reshape(shape), self.stress)
            return cost / count, gradient.ravel() / count

        with ProgressLine("map", self.max_iter, self.verbose, "iteration") as line, single_threaded_blas():
            state.losses.append(value_and_gradient(Y.ravel())[0] * count * self.factor)
            if self.max_iter == 0:
                return state

            def after(intermediate_result: Any) -> None:
                state.X = intermediate_result.x.reshape(shape).copy()
                state.losses.append(float(intermediate_result.fun) * count * self.factor)
                line.update(1, state.losses[-1])
                if self._told_to_stop(state, time.perf_counter() - began) or self._at_rest(state.losses):
                    raise StopIteration

            minimize(
                value_and_gradient,
                Y.ravel(),
                jac=True,
                method="L-BFGS-B",
                callback=after,
                options={
                    "maxcor": _MEMORY,
                    "maxiter": self.max_iter,
                    "maxfun": 20 * self.max_iter,
                    "ftol": 0,
                    "gtol": 0,
                },
            )
        if not (np.isfinite(state.losses[-1]) and np.isfinite(state.X).all()):
            raise NumericalError(f"MDS: the map left the finite numbers within {len(state.losses)} iterations.")
        return state

    def _at_rest(self, losses: list[float]) -> bool:
        if losses[-1] <= _PERFECT * self.factor * self.pairs.count:
            return True
        return len(losses) > _WINDOW and losses[-1 - _WINDOW] - losses[-1] <= self.tol * losses[-1 - _WINDOW]

    def _told_to_stop(self, state: MapState, seconds: float) -> bool:
        if not self.callbacks:
            return False
        progress = Progress(len(state.losses) - 1, self.max_iter, state.losses[-1], 1.0, state, seconds)
        answers = [callback(progress) for callback in self.callbacks]  # each is called, also after one that said stop
        return any(answer is True for answer in answers)
