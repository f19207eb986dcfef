"""Inhomogeneous t-SNE: each point looks at the others by a kernel of its own, which is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.parameters import keeps_arguments
from nearfar._core.types import FloatType, Numbers
from nearfar.contracts import Floats, Kernel, Objective, Place
from nearfar.divergences.probability import KL
from nearfar.engines.registry import PLAIN
from nearfar.errors import InputError
from nearfar.kernels import InhomogeneousStudentT, StudentT
from nearfar.maps.per_point import COMPILED, PerPointObjective
from nearfar.maps.recipes import Recipe
from nearfar.maps.settings import MapOptions, MapSettings, Parts, Problem
from nearfar.maps.transform import KernelOfEach
from nearfar.methods.maps import AllPairs, MapState, Phase, SignSteps
from nearfar.methods.per_point_maps import slopes_in_nu
from nearfar.relations.copies import Copies

_LEARN = ("point", "global")
LEARN_FROM = 50
"""Iteration from which degrees of freedom are learned: before, the map has no form."""
EVERY = 2
"""Iterations between two of their steps."""
LEAST, MOST = 0.5, 100.0
"""Degrees of freedom that are learned stay in between. Beyond, the cost does not fall any more: with more the kernel is
nearly the exponential one."""


class InhomogeneousTSNE(Recipe):
    """Inhomogeneous t-SNE: KL divergence, each row by itself, Student's t with learned degrees of freedom.

    Each point looks at the others by a kernel of its own::

        w_ij = (1 + ‖y_i - y_j‖² / nu_i)^(-(nu_i + 1) / 2)

    A point in a dense crowd may have short tails (large nu), one that holds groups together long ones: nu = 1 is
    :class:`TASNE`, nu -> infinity :class:`ASNE` with precision 1/2. All pairs of points are summed in every iteration,
    of at most 20,000; where that takes more than ten minutes a warning says first how long.

    Parameters
    ----------
    degrees_of_freedom : float or array-like of shape (n,), default=10.0
        nu at the start, or as it stays, for all points or each, > 0.
    learn : {"point", "global", False}, default="point"
        Whether nu is learned for each point, as one number for all, or not at all. Learned from iteration 50 on, it
        stays between 0.5 and 100, where nothing is gained by more.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, another name, Field or NoisePairs, default="auto"
        How all pairs are summed: "auto" or "exact" where nu is learned or differs from point to point.

    Attributes
    ----------
    degrees_of_freedom_ : ndarray of shape (n,), float32
        nu of each point, in the order of the rows.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    Notes
    -----
    In each iteration points and degrees of freedom take a step, these in ln nu and by the sign of the derivative
    (RPROP). The derivative is that of the cost as it is reported, whatever the exaggeration.

    :meth:`transform` gives a new point the geometric mean of its neighbours' degrees of freedom, weighted like them.

    References
    ----------
    Kitazono, Grozavu, Rogovschi, Omori & Ozawa (2016), "t-distributed stochastic neighbor embedding with inhomogeneous
    degrees of freedom". There nu is kept positive as a square and takes steps along its derivative.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> est = nf.InhomogeneousTSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> est.degrees_of_freedom_.shape
    (60,)
    """

    degrees_of_freedom: float | Numbers
    learn: Literal["point", "global", False]

    @keeps_arguments
    def __init__(
        self,
        n_components: int = 2,
        *,
        degrees_of_freedom: float | Numbers = 10.0,
        learn: Literal["point", "global", False] = "point",
        **options: Unpack[MapOptions],
    ) -> None: ...

    _grows: ClassVar[bool] = False

    def _parts(self) -> Parts:
        try:
            kernel = InhomogeneousStudentT(self.degrees_of_freedom)
        except InputError:
            what, got = "a positive number, or one per point", repr(self.degrees_of_freedom)
            raise InputError(type(self).__name__, "degrees_of_freedom", what, got) from None
        return Parts(KL(), kernel, "row")

    @property
    def _learns(self) -> bool:  # type: ignore[override]
        return self.learn is not False

    def _settle(self, *, runs: bool = True) -> MapSettings:
        if self.learn is not False and self.learn not in _LEARN:
            raise InputError(type(self).__name__, "learn", "'point', 'global' or False", repr(self.learn))
        return super()._settle(runs=runs)

    def _kernel_of_rows(self, kernel: Kernel, n: int, copies: Copies | None = None) -> Kernel:
        shape = np.shape(_nu_of(kernel))
        if shape and shape[0] != n:
            owner, expected = type(self).__name__, f"one number, or one per point ({n})"
            raise InputError(owner, "degrees_of_freedom", expected, f"{shape[0]} of them")
        return super()._kernel_of_rows(kernel, n, copies)

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if not self._learns:
            return super()._objective(problem, place, rng)
        self._check_pairs(problem, COMPILED)
        nu = np.broadcast_to(_nu_of(problem.kernel), problem.P.shape[0]).copy()
        return LearnedObjective(
            problem.counted(),
            nu,
            together=self.learn == "global",
            plain=problem.engine == PLAIN,
            dtype=problem.dtype,
            n_jobs=problem.settings.n_jobs,
        )

    def _phases(self, problem: Problem, onto_iter: int | None = None) -> list[Phase]:
        # Learned degrees of freedom end nearer to 1 than to the exponential kernel, whose steps are short.
        learns = self._learns and onto_iter is None
        return super()._phases(problem._replace(kernel=StudentT()) if learns else problem, onto_iter)

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        if isinstance(objective, LearnedObjective):
            nu = objective.nu if state.same is None else objective.nu[state.same]
        else:
            nu = np.broadcast_to(np.asarray(self.degrees_of_freedom, np.float64), len(self.embedding_))
        self.degrees_of_freedom_: NDArray[np.float32] = nu.astype(np.float32)

    def _kernel_of_new(self, kernel: Kernel) -> Kernel | KernelOfEach:  # noqa: ARG002 - that of the start, where it is learned
        log_nu = np.log(self.degrees_of_freedom_.astype(np.float64))
        log_nu = log_nu if self._copies is None else log_nu[self._copies.first]
        return lambda P: [InhomogeneousStudentT(float(nu)) for nu in np.exp(P @ log_nu)]

    def _learned_kernel(self, kernel: Kernel) -> Kernel:  # noqa: ARG002
        return InhomogeneousStudentT(self.degrees_of_freedom_)


def _nu_of(kernel: Kernel) -> NDArray[np.float64]:
    """Return the degrees of freedom of all points, or of each; those of Student's t are 1."""
    return np.asarray(getattr(kernel, "nu", 1.0), np.float64)


class LearnedObjective(PerPointObjective):
    """KL by row under degrees of freedom that are on their way.

    Parameters
    ----------
    P : csr_array of shape (n, n)
    nu : ndarray of shape (n,)
        At the start; then as they are.
    together : bool
        One number of degrees of freedom for all points.
    plain : bool
        Whether nothing is compiled.
    dtype, n_jobs
        As for :class:`nearfar.maps.per_point.PerPointObjective`.
    """

    def __init__(
        self, P: csr_array, nu: NDArray[np.float64], *, together: bool, plain: bool, dtype: FloatType, n_jobs: int
    ) -> None:
        super().__init__(P, InhomogeneousStudentT(nu), KL(), dtype=dtype, n_jobs=n_jobs)
        self.nu, self._together, self._plain, self.learns = nu, together, plain, True
        self._steps = SignSteps(np.full(len(nu), 0.1), 1e-4, 0.2, LEAST, MOST)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated, and the true cost if it is asked for."""
        if not self._plain:
            return super().evaluate(Y, exaggeration, cost=cost)
        if self.learns:
            self.slopes = slopes_in_nu(Y, self._P, self.nu, slice(0, len(Y)))
        pairs = AllPairs(self._P, self.cost.kernel, KL(), "row")
        found, gradient = pairs.value_and_gradient(Y, exaggeration, cost=cost)
        return gradient.astype(Y.dtype, copy=False), found if cost else None

    def advance(self, Y: Floats, iteration: int) -> None:  # noqa: ARG002 - where it was evaluated last
        """Let the degrees of freedom take a step, where it is their turn."""
        if self.learns and iteration >= LEARN_FROM:
            slopes = self.slopes.sum() if self._together else self.slopes
            self.nu = np.asarray(self._steps.moved(self.nu, slopes), np.float64)
            self.cost = replace(self.cost, kernel=InhomogeneousStudentT(self.nu))
        self.learns = iteration + 1 >= LEARN_FROM and (iteration + 1) % EVERY == 0
