"""`InhomogeneousTSNE`: t-SNE by row in which each point has degrees of freedom of its own, learned with the map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.models.maps._neighbor_objective import Objective
from nearfar.models.maps._neighbor_setup import Pace, Parts, noise_of, objective_of, per_point_field_of
from nearfar.models.maps._neighbor_solver import MapState
from nearfar.models.maps._per_point_objective import Learner, PerPointObjective, per_point_objective
from nearfar.models.maps.recipes import Recipe
from nearfar.scores.kernels import InhomogeneousStudentT, StudentT

_LEARN = ("point", "global")


class InhomogeneousTSNE(Recipe):
    """Inhomogeneous t-SNE: KL divergence, each row by itself, Student's t with learned degrees of freedom.

    Each point looks at the others by a kernel of its own::

        w_ij = (1 + ‖y_i - y_j‖² / nu_i)^(-(nu_i + 1) / 2)

    A point in a dense crowd may have short tails (large nu), one that holds groups together long ones: nu = 1 is
    :class:`TASNE`, nu -> infinity :class:`ASNE` with precision 1/2. Time is O(n) per iteration with ``far="fft"``, at
    most some six times that of TASNE.

    Parameters
    ----------
    degrees_of_freedom : float or array-like of shape (n,), default=10.0
        nu at the start, or as it stays, for all points or each, > 0.
    learn : {"point", "global", False}, default="point"
        Whether nu is learned for each point, as one number for all, or not at all. Learned from iteration 50 on, it
        stays between 0.5 and 100, where nothing is gained by more.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    Attributes
    ----------
    degrees_of_freedom_ : ndarray of shape (n,), float32
        nu of each point, in the order of the rows.

    Notes
    -----
    In each iteration points and degrees of freedom take a step, these in ln nu and by the sign of the derivative
    (RPROP). The derivative is that of the cost as it is reported, whatever the exaggeration.

    :meth:`transform` gives a new point the geometric mean of its neighbours' degrees of freedom, weighted like them.

    On the mesh, kernels of all nu are put together from those of up to ten, with forces within 1 % of the exact ones.

    References
    ----------
    Kitazono, Grozavu, Rogovschi, Omori & Ozawa (2016), "t-distributed stochastic neighbor embedding with inhomogeneous
    degrees of freedom". There nu is kept positive as a square and takes steps along its derivative.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> est = nf.InhomogeneousTSNE(perplexity=10, random_state=0).fit(X)
    >>> est.degrees_of_freedom_.shape
    (60,)
    """

    degrees_of_freedom: Any = 10.0
    learn: Any = "point"

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return KL(), InhomogeneousStudentT(self.degrees_of_freedom), "row"

    def _parts(self, owner: str) -> tuple[Any, Any, str]:
        if self.learn is not False and self.learn not in _LEARN:
            raise InputError(owner, "learn", "'point', 'global' or False", repr(self.learn))
        try:
            return super()._parts(owner)
        except InputError:
            what, got = "a positive number, or one per point", repr(self.degrees_of_freedom)
            raise InputError(owner, "degrees_of_freedom", what, got) from None

    def _simplest(self, kernel: Any, n: int) -> Any:
        try:
            return super()._simplest(kernel, n)
        except InputError:
            owner, got = type(self).__name__, f"{len(self.degrees_of_freedom)} of them"
            raise InputError(owner, "degrees_of_freedom", f"one number, or one per point ({n})", got) from None

    def _objective(self, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int) -> Objective:
        if self.learn is False or noise_of(self.far) is not None:  # the noise is refused there
            return objective_of(self, P, parts, dtype, rng, n_jobs)
        n = P.shape[0]
        kernel = InhomogeneousStudentT(np.broadcast_to(np.asarray(parts[1].nu, np.float64), n).copy())  # type: ignore[arg-type]
        learner = Learner(n, together=self.learn == "global")
        field = per_point_field_of(self, n, parts[0])
        return per_point_objective(P, kernel, parts[0], field, dtype=dtype, n_jobs=n_jobs, learner=learner)

    def _pace(self, P: Any, parts: Parts) -> Pace:
        # Learned degrees of freedom end nearer to 1 than to the exponential kernel, whose pace is slow.
        return super()._pace(P, parts if self.learn is False else (parts[0], StudentT(), parts[2]))

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        n = len(state.Y)
        if isinstance(objective, PerPointObjective):
            nu = np.empty(n)
            nu[slice(None) if state.order is None else state.order] = objective.parameters
        else:
            nu = np.broadcast_to(np.asarray(self.degrees_of_freedom, np.float64), n)
        self.degrees_of_freedom_: NDArray[np.float32] = nu.astype(np.float32)

    def _kernel_of_new(self, kernel: Any) -> Any:  # noqa: ARG002 - that of the start, where it is learned
        log_nu = np.log(self.degrees_of_freedom_.astype(np.float64))
        return lambda P: [InhomogeneousStudentT(float(nu)) for nu in np.exp(P @ log_nu)]
