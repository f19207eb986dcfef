"""Inhomogeneous t-SNE: each point looks at the others by a kernel of its own, which is learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_n_jobs
from nearfar._core.parameters import keeps_arguments
from nearfar._core.types import Numbers, Seed
from nearfar.callbacks import Callback
from nearfar.contracts import Field, Kernel, Objective, Place
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.far.fields import NoisePairs
from nearfar.kernels import InhomogeneousStudentT, StudentT
from nearfar.maps.per_point import Learner, per_point_objective
from nearfar.maps.problem import Parts, Problem
from nearfar.maps.recipes import Recipe
from nearfar.maps.solver import MapState
from nearfar.maps.transform import KernelOfEach
from nearfar.methods.maps import Phase

_LEARN = ("point", "global")


class InhomogeneousTSNE(Recipe):
    """Inhomogeneous t-SNE: KL divergence, each row by itself, Student's t with learned degrees of freedom.

    Each point looks at the others by a kernel of its own::

        w_ij = (1 + ‖y_i - y_j‖² / nu_i)^(-(nu_i + 1) / 2)

    A point in a dense crowd may have short tails (large nu), one that holds groups together long ones: nu = 1 is
    :class:`TASNE`, nu -> infinity :class:`ASNE` with precision 1/2. Time is O(n) per iteration with ``far="fft"``, up
    to three times that of t-SNE.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the map.
    degrees_of_freedom : float or array-like of shape (n,), default=10.0
        nu at the start, or as it stays, for all points or each, > 0.
    learn : {"point", "global", False}, default="point"
        Whether nu is learned for each point, as one number for all, or not at all. Learned from iteration 50 on, it
        stays between 0.5 and 100, where nothing is gained by more.
    perplexity : float, sequence of float, or "multiscale", default=30.0
        How many neighbours a point has, as it were; of no use for a relation.
    n_neighbors : int or "all", optional
        Neighbours searched; by default 3 * perplexity.
    metric : str or callable, default="euclidean"
        Distance of the data, ``"precomputed"`` for a matrix of distances or for neighbours.
    metric_params : dict, optional
        What the metric needs beside two rows.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, another name, Field or NoisePairs, default="auto"
        How all pairs are summed: pair by pair, on a mesh, or by a tree; ``"noise"`` is not for this map.
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d), default="auto"
        Start: principal components of the data, eigenvectors of the relation, random, or positions.
    learning_rate : float or "auto", default="auto"
        Length of a step per gradient of the cost.
    max_iter : int, default=750
        Iterations, the early ones included.
    early_exaggeration : float, default=12.0
        Factor of the data's probabilities in the first phase.
    early_exaggeration_iter : int, default=250
        Iterations of the first phase.
    exaggeration : float, default=1.0
        Factor of them after the first phase.
    min_grad_norm : float, default=1e-7
        Stop when the gradient is no longer than this.
    n_iter_without_progress : int, default=300
        Stop when the cost has not fallen for so many iterations after the first phase.
    density_weight : float, default=0.0
        How strongly the map keeps where the data are dense, see :class:`NeighborEmbedding`.
    callbacks : sequence of callable, optional
        Called every 50 iterations and at the end; if one returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed of start and neighbour search. The same seed gives the same bits.
    n_jobs : int, optional
        Number of threads; None means all processors.
    device : str, optional
        Going away in version 0.4: ``engine`` takes its place.
    verbose : int, default=0
        1 shows progress.
    storage : path, optional
        Folder for neighbours and probabilities that are too large for memory.
    engine : str or Place, optional
        Where the map is drawn: by default as the size of the data says.

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

    On the mesh, kernels of all nu are sums of those of some seven to nine.

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
        perplexity: float | Sequence[float] | Literal["multiscale"] = 30.0,
        n_neighbors: int | Literal["all"] | None = None,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: Mapping[str, object] | None = None,
        far: str | Field | NoisePairs = "auto",
        init: Literal["auto", "pca", "spectral", "random"] | Numbers = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        max_iter: int = 750,
        early_exaggeration: float = 12.0,
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        min_grad_norm: float = 1e-7,
        n_iter_without_progress: int = 300,
        density_weight: float = 0.0,
        callbacks: Sequence[Callback] | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        storage: str | PathLike[str] | None = None,
        engine: str | Place | None = None,
    ) -> None: ...

    _grows: ClassVar[bool] = False

    def _filled(self) -> Parts:
        try:
            kernel = InhomogeneousStudentT(self.degrees_of_freedom)
        except InputError:
            what, got = "a positive number, or one per point", repr(self.degrees_of_freedom)
            raise InputError(type(self).__name__, "degrees_of_freedom", what, got) from None
        return Parts(KL(), kernel, "row")

    @property
    def _learns(self) -> bool:
        return self.learn is not False

    def _checked(self) -> Parts:
        if self.learn is not False and self.learn not in _LEARN:
            raise InputError(type(self).__name__, "learn", "'point', 'global' or False", repr(self.learn))
        return super()._checked()

    def _kernel_for(self, kernel: Kernel, n: int) -> Kernel:
        shape = np.shape(_nu_of(kernel))
        if shape and shape[0] != n:
            owner, expected = type(self).__name__, f"one number, or one per point ({n})"
            raise InputError(owner, "degrees_of_freedom", expected, f"{shape[0]} of them")
        return super()._kernel_for(kernel, n)

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if self.learn is False or self._noise() is not None:  # the noise is refused there
            return super()._objective(problem, place, rng)
        owner, n, divergence = type(self).__name__, problem.P.shape[0], problem.divergence
        kernel = InhomogeneousStudentT(np.broadcast_to(_nu_of(problem.kernel), n).copy())
        self._check_arrays(problem)
        learner = Learner(n, together=self.learn == "global")
        field = self._field(n, divergence, kernel)
        return per_point_objective(
            problem.P,
            kernel,
            divergence,
            field,
            learner=learner,
            dtype=problem.dtype,
            n_jobs=check_n_jobs(owner, self.n_jobs),
            place=place,
        )

    def _phases(self, problem: Problem) -> list[Phase]:
        # Learned degrees of freedom end nearer to 1 than to the exponential kernel, whose steps are short.
        return super()._phases(problem if self.learn is False else problem._replace(kernel=StudentT()))

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        n = len(state.Y)
        if hasattr(objective, "parameters"):
            nu = np.empty(n)
            nu[slice(None) if state.order is None else state.order] = objective.parameters
            nu = nu if state.same is None else nu[state.same]
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
