"""The named methods of the family: recipes, which fill in three arguments of :class:`NeighborEmbedding`.

=======  ==================  ====================  =============
recipe   divergence          kernel                normalisation
=======  ==================  ====================  =============
TSNE     KL                  Student's t           pair
SSNE     KL                  exponential           pair
ASNE     KL                  exponential           row
TASNE    KL                  Student's t           row
HSSNE    KL                  heavy-tailed(alpha)   pair
NeRV     NeRV(lam)           exponential           row
JSE      Jensen-Shannon      exponential           row
UMAP     KL, sampled pairs   heavy-tailed          pair
=======  ==================  ====================  =============

``WSSNE`` weighs the points, ``InhomogeneousTSNE`` learns a kernel for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, cast

import numpy as np
from scipy.sparse import csr_array

from nearfar import divergences
from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_numbers, check_real
from nearfar._core.ids import Ids
from nearfar._core.parameters import filled_in, keeps_fields
from nearfar._core.types import Doubles, Numbers, Singles
from nearfar.contracts import Divergence, Kernel, Objective, Place
from nearfar.divergences.probability import KL, JensenShannon
from nearfar.engines import PLAIN
from nearfar.errors import InputError
from nearfar.far.fields import NoisePairs
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, StudentT
from nearfar.maps.drawing import MapSettings, Parts, Problem, Shown
from nearfar.maps.neighbor import NeighborEmbedding
from nearfar.maps.objective import ALPHA_FIRST, Normalization, TailObjective
from nearfar.maps.per_point import COMPILED, LearnedObjective
from nearfar.maps.solver import MapState
from nearfar.maps.transform import KernelOfEach
from nearfar.relations.copies import Copies


@keeps_fields
class Recipe(NeighborEmbedding):
    """Base of the recipes: a :class:`NeighborEmbedding` whose three parts follow from parameters of its own.

    The parts can be read by their names, and not be set.
    """

    _fixed: ClassVar[Parts]
    """The parts, where no parameter of the recipe's own has to do with them."""

    def _parts(self) -> Parts:
        """Return the parts, by the parameters as they are now."""
        return self._fixed

    divergence: Divergence = filled_in("The divergence of the recipe.", lambda recipe: recipe._parts().divergence)
    kernel: Kernel = filled_in("The kernel of the recipe.", lambda recipe: recipe._parts().kernel)
    normalization: Normalization = filled_in(
        "The normalisation of the recipe.", lambda recipe: recipe._parts().normalization
    )


@keeps_fields
class TSNE(Recipe):
    """t-SNE: KL divergence, Student's t kernel, pairs; the map that everybody knows.

    Parameters
    ----------
    dof : float, default=1.0
        Degrees of freedom of Student's t, > 0, ``w = (1 + f / dof)^(-(dof + 1) / 2)``. Below 1 the tails are heavier,
        and clusters show finer structure; with many it is symmetric SNE.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    van der Maaten & Hinton (2008), "Visualizing data using t-SNE". For ``dof``: Kobak, Linderman, Steinerberger, Kluger
    & Berens (2019), "Heavy-tailed kernels reveal a finer cluster structure in t-SNE visualisations".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TSNE(perplexity=10, max_iter=100, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    dof: float = 1.0

    def _parts(self) -> Parts:
        dof = check_real(type(self).__name__, "dof", self.dof, low=0, open_low=True)
        kernel = StudentT() if dof == 1 else HeavyTailed(2 / (dof + 1), (dof + 1) / (2 * dof))
        return Parts(KL(), kernel, "pair")


@keeps_fields
class SSNE(Recipe):
    """Symmetric SNE: KL divergence, exponential kernel, pairs.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Cook, Sutskever, Mnih & Hinton (2007), "Visualizing similarity data with a mixture of maps".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.SSNE(perplexity=10, max_iter=100, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    _fixed = Parts(KL(), Exponential(), "pair")


@keeps_fields
class ASNE(Recipe):
    """SNE, the asymmetric original: KL divergence, exponential kernel, each row by itself.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Hinton & Roweis (2002), "Stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.ASNE(perplexity=10, max_iter=100, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    _fixed = Parts(KL(), Exponential(), "row")


@keeps_fields
class TASNE(Recipe):
    """t-ASNE: KL divergence, Student's t kernel, each row by itself.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Melville, "sneer" documentation, embedding methods.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TASNE(perplexity=10, max_iter=100, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    _fixed = Parts(KL(), StudentT(), "row")


@keeps_fields
class HSSNE(Recipe):
    """Heavy-tailed symmetric SNE: KL divergence, heavy-tailed kernel, pairs; SSNE at alpha = 0, t-SNE at 1.

    Parameters
    ----------
    alpha : float or "learn", default=0.5
        Heaviness of the kernel's tail, >= 0, see :class:`nearfar.HeavyTailed`. "learn" finds the one, from 0.2 to 5,
        at which the cost is least, after the first phase; at the least cost fewer neighbours may be kept than by t-SNE.

    Attributes
    ----------
    alpha_ : float
        The heaviness of the tail, given or learned.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Yang, King, Xu & Oja (2009), "Heavy-tailed symmetric stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.HSSNE(perplexity=10, max_iter=100, random_state=0, alpha=2.0).fit_transform(X).shape
    (60, 2)
    """

    alpha: float | Literal["learn"] = 0.5

    def _parts(self) -> Parts:
        alpha: object = ALPHA_FIRST if self.alpha == "learn" else self.alpha
        if isinstance(alpha, str):
            raise InputError(type(self).__name__, "alpha", "a number >= 0, or 'learn'", repr(alpha))
        learns = self.alpha == "learn"
        steps = StudentT() if learns else None  # alpha is learned from the first phase on, which is its own
        return Parts(KL(), HeavyTailed(cast("float", alpha)), "pair", learns, steps)

    def _beyond(self, settings: MapSettings, engine: str | Place | None, n: int) -> tuple[str, str, str] | None:
        if engine == PLAIN and settings.learns:
            return "alpha", f"a number with engine={PLAIN!r}", repr(self.alpha)
        return super()._beyond(settings, engine, n)

    def _check_grows(self, owner: str, settings: MapSettings) -> None:
        if settings.learns:
            hint = "Take HSSNE(alpha=est.alpha_), or est.grow."
            raise InputError(owner, "alpha", "a number for a fit with a pull on some points", repr(self.alpha), hint)
        super()._check_grows(owner, settings)

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        settings, kernel = problem.settings, HeavyTailed(ALPHA_FIRST)
        if not settings.learns:
            return super()._objective(problem, place, rng)
        if settings.noise is not None:
            raise InputError(settings.owner, "far", "another than 'noise' with alpha='learn'", repr(self.far))
        field = self._field(settings, problem.P.shape[0], kernel)
        where: dict[str, Any] = {"dtype": problem.dtype, "n_jobs": settings.n_jobs, "place": place}
        return TailObjective(problem.P, kernel, field, self.early_exaggeration_iter, **where)

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:
        super()._keep(shown, objective, state)
        if isinstance(objective, TailObjective):
            self.alpha_ = objective.alpha
        elif self.alpha != "learn":  # as a map that grows keeps it
            self.alpha_ = float(self.alpha)

    def _learned_kernel(self, kernel: Kernel) -> Kernel:
        return HeavyTailed(self.alpha_) if self.alpha == "learn" else kernel


@keeps_fields
class NeRV(Recipe):
    """Neighbour retrieval visualizer: KL and reverse KL mixed, exponential kernel, each row by itself.

    Parameters
    ----------
    lam : float, default=0.5
        From precision (0) to recall (1), see :class:`nearfar.divergences.NeRV`.
    floor : float, default=0.01
        What the reverse divergence takes p to be at least, as a share of the uniform distribution, in (0, 1).

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Venna, Peltonen, Nybo, Aidos & Kaski (2010), "Information retrieval perspective to nonlinear dimensionality
    reduction for data visualization". The precisions of the data are not carried over to the map's kernel, as in sneer.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.NeRV(perplexity=10, max_iter=100, random_state=0, lam=0.2).fit_transform(X).shape
    (60, 2)
    """

    lam: float = 0.5
    floor: float = 0.01

    def _parts(self) -> Parts:
        return Parts(divergences.NeRV(self.lam, self.floor), Exponential(), "row")


@keeps_fields
class JSE(Recipe):
    """Jensen-Shannon embedding: mixture of KL and reverse KL, exponential kernel, each row by itself.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1], see :class:`nearfar.divergences.JensenShannon`.
    floor : float, default=0.01
        As for :class:`NeRV`; of use at kappa = 1 only.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    References
    ----------
    Lee, Renard, Bernard, Dupont & Verleysen (2013), "Type 1 and 2 mixtures of Kullback-Leibler divergences as cost
    functions in dimensionality reduction based on similarity preservation".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.JSE(perplexity=10, max_iter=100, random_state=0, kappa=0.2).fit_transform(X).shape
    (60, 2)
    """

    kappa: float = 0.5
    floor: float = 0.01

    def _parts(self) -> Parts:
        return Parts(JensenShannon(self.kappa, self.floor), Exponential(), "row")


@keeps_fields
class UMAP(Recipe):
    """UMAP: pairs of neighbours are told from pairs drawn at random, each pair by itself; clusters stand apart.

    The cost is that of :class:`nearfar.far.NoisePairs` with the normaliser of UMAP, under the heavy-tailed kernel that
    comes nearest to::

        w(distance) = 1 up to min_dist, exp(-(distance - min_dist) / spread) beyond it

    Parameters
    ----------
    min_dist : float, default=0.1
        Distance below which points in the map count as equally near, in [0, spread]: smaller values pack them closer.
    spread : float, default=1.0
        Length over which the similarity falls by a factor of e beyond it, > 0.
    perplexity : float, default=10.0
        As for :class:`NeighborEmbedding`.
    n_neighbors : int or None, default=None
        As for :class:`NeighborEmbedding`; None is 15, or all others where there are fewer; of neighbours that are given
        all, up to 3 * perplexity.
    n_samples : int, default=15
        Pairs of noise for each pair of neighbours, see :class:`nearfar.far.NoisePairs`.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    Notes
    -----
    umap-learn has another kernel, ``1 / (1 + a d^(2b))``, with a and b fitted to the same curve; its graph is a fuzzy
    union of neighbourhoods, where this has calibrated probabilities; and it draws noise by degree, five pairs for each
    pair of neighbours. ``python -m lab run maps_umap`` compares the maps of both on five sets of data.

    References
    ----------
    McInnes, Healy & Melville (2018), "UMAP: uniform manifold approximation and projection for dimension reduction".
    Damrich, Böhm, Hamprecht & Kobak (2023), "From t-SNE to UMAP with contrastive learning".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.UMAP(min_dist=0.3, max_iter=200, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    min_dist: float = 0.1
    spread: float = 1.0
    n_samples: int = 15
    perplexity: float | Sequence[float] | Literal["multiscale"] = 10.0
    far: NoisePairs = filled_in("The pairs of noise.", lambda umap: NoisePairs(umap.n_samples, normalizer="umap"))

    _usual_neighbors: ClassVar[int | None] = 15

    def _parts(self) -> Parts:
        owner = type(self).__name__
        spread = check_real(owner, "spread", self.spread, low=0, open_low=True)
        min_dist = check_real(owner, "min_dist", self.min_dist, low=0, high=spread)
        return Parts(KL(), _kernel_of_curve(min_dist, spread), "pair")


_EXPONENTIAL = 7.0  # at alpha = e^-7 the kernel is the exponential one to three digits
_STUCK = 1e12  # of the damping: no step is small enough to help


@cache
def _kernel_of_curve(min_dist: float, spread: float) -> HeavyTailed:
    """Return the heavy-tailed kernel that is nearest to UMAP's curve, least squares over distances up to 3 spreads."""
    square = np.linspace(0, 3, 300) ** 2
    wanted = np.minimum(1, np.exp(min_dist / spread - np.sqrt(square)))
    found, damping, least = np.zeros(2), 1e-3, math.inf  # ln alpha and ln beta
    moved, slope, curvature = found, np.zeros(2), np.eye(2)
    while damping < _STUCK:  # Levenberg and Marquardt; to import SciPy's takes longer than the whole of this
        f, power = np.exp(moved.sum()) * square, np.exp(-moved[0])
        w = (1 + f) ** -power
        error = w - wanted
        if (cost := float(error @ error)) < least:
            found, least, damping = moved, cost, damping / 4
            in_beta = -w * power * f / (1 + f)
            slopes = np.stack([w * power * np.log1p(f) + in_beta, in_beta])
            slope, curvature = slopes @ error, slopes @ slopes.T
        else:
            damping *= 4
        free = np.abs(found - np.sign(slope) * 1e-9) <= _EXPONENTIAL
        step = np.zeros(2)
        step[free] = np.linalg.solve((curvature * (1 + damping * np.eye(2)))[np.ix_(free, free)], slope[free])
        moved = np.clip(found - step, -_EXPONENTIAL, _EXPONENTIAL)
    alpha, beta = np.exp(found)
    return HeavyTailed(float(alpha), float(beta) / spread**2)


@keeps_fields
class WSSNE(Recipe):
    """Weighted symmetric SNE (ws-SNE): t-SNE in which points of importance take up more room.

    The similarity of two points is that of t-SNE times the importance of both, ``q_ij = s_i s_j w_ij / S``. Hubs of a
    graph, which crowd the middle of a map by t-SNE, push the others away from them. Time is O(n) per iteration, as for
    :class:`TSNE`.

    Parameters
    ----------
    weights : "degree" or array-like of shape (n,), default="degree"
        Importance s of the points, > 0, whatever its scale; by default the sums of row and column of p (degree
        centrality). With the same for all points the map is that of :class:`TSNE`. Of equal rows, which are one point,
        the first counts.

    Attributes
    ----------
    weights_ : ndarray of shape (n,), float64
        Importance of the points, its mean 1.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    Notes
    -----
    Points without any relation have no degree: they are left where they start. ``transform`` places new points as for
    :class:`TSNE`, all fitted points counting the same.

    References
    ----------
    Yang, Peltonen & Kaski (2014), "Optimization equivalence of divergences improves neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> est = nf.WSSNE(perplexity=10, max_iter=100, random_state=0).fit(X)
    >>> est.embedding_.shape, bool(est.weights_.max() > 1.2)
    ((60, 2), True)
    """

    weights: Literal["degree"] | Numbers = "degree"

    _grows: ClassVar[bool] = False
    _fixed = Parts(KL(), StudentT(), "pair")

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if problem.settings.noise is not None:
            raise InputError(problem.settings.owner, "far", "another than 'noise' for weighted points", repr(self.far))
        weights = self._weights_of(problem.P.to_csr(), problem.copies, problem.ids)
        return super()._objective(problem._replace(weights=weights), place, rng)

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:
        super()._keep(shown, objective, state)
        weights = np.empty(len(state.Y))
        weights[slice(None) if state.order is None else state.order] = objective.weights  # type: ignore[attr-defined]
        self.weights_ = weights if state.same is None else weights[state.same]

    def _weights_of(self, P: csr_array, copies: Copies | None, ids: Ids | None) -> Doubles:
        """Return the importance of the points, its mean 1: as given (of copies the first), or what P sums to."""
        owner, weights = type(self).__name__, self.weights
        n = P.shape[0] if copies is None else len(copies.same)
        if isinstance(weights, str):
            if weights != "degree":
                raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights))
            # ws-SNE, weighted kernel: deg_i, of the factor deg_i deg_j of w_ij
            found = np.asarray(P.sum(axis=0), np.float64) + np.asarray(P.sum(axis=1), np.float64)
        else:
            weights = in_order_of(owner, "weights", weights, ids)
            given = check_numbers(owner, "weights", weights, "'degree' or one number > 0 per point")
            found = given.astype(np.float64)
            if found.shape != (n,):
                raise InputError(owner, "weights", f"of shape ({n},), one number per point", f"shape {found.shape}")
            bad = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
            if bad.size:
                raise InputError(owner, "weights", "finite and > 0", f"{found[bad[0]]} for row {bad[0]}")
            found = found if copies is None else found[copies.first]
        found = found / found.max()
        return np.asarray(found / found.mean())


_LEARN = ("point", "global")


@keeps_fields
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
        Whether nu is learned for each point, as one number for all, or not at all. It takes a step in every second
        iteration from the 51st on, and stays between 0.5 and 100, where nothing is gained by more.
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
    Points take a step in each iteration, degrees of freedom in every second one, in ln nu and by the sign of the
    derivative (RPROP). The derivative is that of the cost as it is reported, whatever the exaggeration.

    :meth:`transform` gives a new point the geometric mean of its neighbours' degrees of freedom, weighted like them.

    References
    ----------
    Kitazono, Grozavu, Rogovschi, Omori & Ozawa (2016), "t-distributed stochastic neighbor embedding with inhomogeneous
    degrees of freedom". There nu is kept positive as a square and takes steps along its derivative.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> est = nf.InhomogeneousTSNE(perplexity=10, max_iter=100, random_state=0).fit(X)
    >>> est.degrees_of_freedom_.shape
    (60,)
    """

    degrees_of_freedom: float | Numbers = 10.0
    learn: Literal["point", "global", False] = "point"

    _grows: ClassVar[bool] = False

    def _parts(self) -> Parts:
        if self.learn is not False and self.learn not in _LEARN:
            raise InputError(type(self).__name__, "learn", "'point', 'global' or False", repr(self.learn))
        try:
            kernel = InhomogeneousStudentT(self.degrees_of_freedom)
        except InputError:
            what, got = "a positive number, or one per point", repr(self.degrees_of_freedom)
            raise InputError(type(self).__name__, "degrees_of_freedom", what, got) from None
        # Learned degrees of freedom end nearer to 1 than to the exponential kernel, whose steps are short.
        learned = (False, None) if self.learn is False else (True, StudentT())
        return Parts(KL(), kernel, "row", *learned)

    def _kernel_of_rows(self, kernel: Kernel, n: int, copies: Copies | None = None) -> Kernel:
        shape = np.shape(getattr(kernel, "nu", 1.0))
        if shape and shape[0] != n:
            owner, expected = type(self).__name__, f"one number, or one per point ({n})"
            raise InputError(owner, "degrees_of_freedom", expected, f"{shape[0]} of them")
        return super()._kernel_of_rows(kernel, n, copies)

    def _pairs_a_second(self, settings: MapSettings) -> float | None:
        return COMPILED if settings.learns else super()._pairs_a_second(settings)

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if not problem.settings.learns:
            return super()._objective(problem, place, rng)
        self._check_pairs(problem)
        nu = np.asarray(getattr(problem.kernel, "nu", 1.0), np.float64)  # that of Student's t is 1
        nu = np.broadcast_to(nu, problem.P.shape[0]).copy()
        return LearnedObjective(
            problem.counted(),
            nu,
            together=self.learn == "global",
            plain=problem.engine == PLAIN,
            dtype=problem.dtype,
            n_jobs=problem.settings.n_jobs,
        )

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:
        super()._keep(shown, objective, state)
        if isinstance(objective, LearnedObjective):
            nu = objective.nu if state.same is None else objective.nu[state.same]
        else:
            nu = np.broadcast_to(np.asarray(self.degrees_of_freedom, np.float64), len(self.embedding_))
        self.degrees_of_freedom_: Singles = nu.astype(np.float32)

    def _kernel_of_new(self, kernel: Kernel) -> Kernel | KernelOfEach:  # noqa: ARG002 - that of the start, where it is learned
        log_nu = np.log(self.degrees_of_freedom_.astype(np.float64))
        log_nu = log_nu if self._copies is None else log_nu[self._copies.first]
        return lambda P: [InhomogeneousStudentT(float(nu)) for nu in np.exp(P @ log_nu)]

    def _learned_kernel(self, kernel: Kernel) -> Kernel:  # noqa: ARG002
        return InhomogeneousStudentT(self.degrees_of_freedom_)
