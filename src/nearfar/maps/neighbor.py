"""`InhomogeneousTSNE`: t-SNE by row in which each point has degrees of freedom of its own, learned with the map."""

from __future__ import annotations

import inspect
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from nearfar import divergences, kernels
from nearfar._core.checks import (
    check_callbacks,
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_random_state,
    check_real,
)
from nearfar._core.parameters import Part
from nearfar.base import FrameOutput, column_names
from nearfar.callbacks import Checkpoint
from nearfar.divergences.probability import KL, JensenShannon, MapDivergence, as_divergence
from nearfar.errors import InputError, NearfarWarning
from nearfar.far.fields import NoisePairs
from nearfar.far.per_point import family_of
from nearfar.kernels import InhomogeneousStudentT, StudentT, as_kernel
from nearfar.maps import start as setup
from nearfar.maps.noise import NoiseObjective
from nearfar.maps.objective import NORMALIZATIONS, MasterObjective, NeighborObjective, Objective, is_linear_time
from nearfar.maps.per_point import Learner, PerPointObjective, is_per_point, per_point_objective
from nearfar.maps.solver import Descent, MapState, Phase
from nearfar.maps.start import symmetric
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nearfar.embedding.vectors import Embedding
    from nearfar.far.fields import Field
    from nearfar.relations.affinities import Affinities

# ------------------------------------------------------------
# What the parameters of a map ask for: its objective, its far field, the phases of its optimisation.

Parts = tuple[Any, Any, str]
"""Divergence, kernel and normalisation."""
FAR = ("auto", "exact", "fft", "barnes-hut", "noise")
EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh."""
TREE_FROM = 6000
"""Points from which on, with three components, far="auto" is the tree."""
EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part. Near its minimum
large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over them."""
_FAR_OFF, _SHORT = 100.0, 1e-6
"""A kernel below _SHORT at this squared distance, in units of its reach, has short tails."""
FEW = (20_000, 50_000)
"""Points below which a mesh is cheap, and its errors do not average out; the second where large forces cancel."""
PER_POINT_TOLERANCE = 0.002
"""Tolerance of the mesh for kernels with a parameter per point, up to FEW points."""
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""


def objective_of(
    estimator: NeighborEmbedding, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int
) -> Objective:
    """Return the objective in linear time if there is one for the parts, else that of the master equation."""
    divergence, kernel, normalization = parts
    noise = noise_of(estimator.far)
    if noise is not None:
        _check_noise(type(estimator).__name__, divergence, kernel, normalization)
        return NoiseObjective(P, kernel, noise, rng=rng, dtype=dtype, n_jobs=n_jobs)
    if is_per_point(kernel, divergence, normalization):
        field = per_point_field_of(estimator, P.shape[0], divergence)
        return per_point_objective(P, kernel, divergence, field, dtype=dtype, n_jobs=n_jobs)
    if is_linear_time(kernel, divergence, normalization):
        field = field_of(estimator, P.shape[0], divergence)
        return NeighborObjective(P, kernel, divergence, normalization, field, dtype=dtype, n_jobs=n_jobs)
    owner = type(estimator).__name__
    if estimator.far not in ("auto", "exact"):
        hint = "Other combinations than the built-in ones are computed pair by pair."
        raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", estimator.far, hint)
    if P.shape[0] > MANY:
        _warn_of_pairs(owner, "This divergence, kernel and normalization", P.shape[0])
    return MasterObjective(symmetric(P) if normalization == "pair" else P, kernel, divergence, normalization)


def simplest(kernel: Any, n: int) -> Any:
    """Return a kernel whose parameters per point are all the same as one with a single parameter."""
    family = family_of(kernel)
    if family is None:
        return kernel
    parameters = np.asarray(getattr(kernel, family.parameter))
    if len(parameters) != n:
        owner, hint = type(kernel).__name__, "They are in the order of the rows."
        raise InputError(owner, family.parameter, f"one number, or one per point ({n})", len(parameters), hint)
    return kernel if np.ptp(parameters) else family.kernel_of(float(parameters[0]))


def noise_of(far: Any) -> NoisePairs | None:
    """Return what ``far`` says about sampled pairs, None if it says another thing."""
    if isinstance(far, str):
        return NoisePairs() if far == "noise" else None
    return far if isinstance(far, NoisePairs) else None


def _check_noise(owner: str, divergence: Any, kernel: Any, normalization: str) -> None:
    is_kl = isinstance(divergence, MapDivergence) and isinstance(divergence.limit(), KL)
    hint = "Sampled pairs are for KL by pair and the built-in kernels; other maps take 'auto'."
    if not is_kl:
        raise InputError(owner, "far", "another than 'noise' for this divergence", repr(divergence), hint)
    if normalization != "pair":
        raise InputError(owner, "far", "another than 'noise' for this normalization", repr(normalization), hint)
    if getattr(kernel, "compiled", None) is None:
        raise InputError(owner, "far", "another than 'noise' for this kernel", repr(kernel), hint)


def field_of(estimator: NeighborEmbedding, n: int, divergence: MapDivergence) -> Field:
    """Return the far field that ``far`` names, or a fresh copy of the one given."""
    from nearfar.far import BarnesHutField, ExactField, MeshField

    owner, far, d = type(estimator).__name__, estimator.far, estimator.n_components
    if not isinstance(far, str):
        if not all(hasattr(far, name) for name in ("place", "evaluate", "total")):
            raise InputError(owner, "far", f"one of {', '.join(map(repr, FAR))} or a field of nearfar.far", repr(far))
        return far.with_params() if isinstance(far, Part) else far
    check_choice(owner, "far", far, FAR)
    if far == "fft" and d > 2:
        hint = "The mesh has one or two dimensions: for three there is far='barnes-hut', too."
        raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
    if far == "barnes-hut" and d > 3:
        raise InputError(owner, "far", "'exact' for more than three components", "'barnes-hut'")
    if far == "fft" or (far == "auto" and d <= 2 and n > EXACT_UP_TO):
        return MeshField(tolerance_of(divergence, n))
    if far == "barnes-hut" or (far == "auto" and d == 3 and n > TREE_FROM):
        return BarnesHutField(angle_of(divergence))
    if far == "auto" and n > MANY:
        _warn_of_pairs(owner, f"{d} components", n)
    return ExactField()


def per_point_field_of(estimator: NeighborEmbedding, n: int, divergence: MapDivergence) -> Field:
    """Return the far field for kernels with a parameter per point; the mesh of few points is finer.

    There a point may have no other within the reach of the narrowest kernels, whose S_i then drowns in a mesh's errors.
    """
    from nearfar.far import MeshField

    field = field_of(estimator, n, divergence)
    if isinstance(estimator.far, str) and isinstance(field, MeshField) and n < FEW[0]:
        return MeshField(min(field.tolerance, PER_POINT_TOLERANCE))
    return field


def tolerance_of(divergence: MapDivergence, n: int) -> float:
    """Return the tolerance of the mesh that leaves the final cost where exact sums bring it.

    KL balances near against far forces of its own size. The others let large far forces cancel, and what is left is
    small against the error of the mesh in a map of few points. In one of many a force is a sum over many, whose errors
    average out: the same tolerance leaves a quarter of the error at 70,000 points that it leaves at 3,000. Jensen and
    Shannon's divergence needs it finer: at 20,000 points 0.02 ends 3.6 % above the cost that 0.001 reaches, reverse
    KL below it.
    """
    divergence = divergence.limit()
    if isinstance(divergence, KL):
        return 0.01 if n < FEW[0] else 0.02
    if n < FEW[1]:
        return 0.001
    return 0.01 if isinstance(divergence, JensenShannon) else 0.02


def angle_of(divergence: MapDivergence) -> float:
    """Return the angle of the tree: smaller where large forces cancel, see ``tolerance_of``."""
    return 0.6 if isinstance(divergence.limit(), KL) else 0.35


@dataclass(frozen=True)
class Pace:
    """How far points may go.

    Parameters
    ----------
    early, late : float
        Learning rate "auto" of the exaggerated phase and of the rest, times the exaggeration.
    longest : float
        Longest step of a point.
    momentum : float
        After the exaggerated phase.
    """

    early: float
    late: float
    longest: float
    momentum: float

    @classmethod
    def of(cls, P: Any, parts: Parts) -> Pace:
        """Return the pace for a relation and the parts of a map.

        The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
        over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
        shorter, and so the more the harder the divergence pulls.
        """
        divergence, kernel, normalization = parts
        n = P.shape[0]
        reach = _reach(kernel, n)
        rate = n / 4 * reach**2
        tail = kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max()
        if tail > _SHORT:
            return cls(rate, rate, reach, LATE_MOMENTUM[getattr(divergence, "far_log", 0.0) > 0])
        return cls(rate, rate / _strength(divergence, P, by_row=normalization == "row"), 0.3 * reach, EARLY_MOMENTUM)


def _reach(kernel: Any, n: int) -> float:
    """Return the length over which a kernel falls, 1 / sqrt(-w'/w) at distance 0; 1 for Student's t."""
    f = np.zeros((n, 1))  # a row per point, for kernels with parameters per point
    steepness = float(np.max(-kernel.slope(f) / kernel.weight(f)))
    return 1 / math.sqrt(steepness) if 0 < steepness < math.inf else 1.0


def _strength(divergence: Any, P: Any, *, by_row: bool) -> float:
    """Return how strongly a typical pair is drawn together, -q D_near at q = p, in units of p, which is that of KL."""
    if not isinstance(divergence, MapDivergence):
        return 1.0
    divergence, n = divergence.limit(), P.shape[0]
    if isinstance(divergence, JensenShannon):
        return -math.log1p(-divergence.kappa) / divergence.kappa
    if isinstance(divergence, KL):
        return 1.0
    typical = float((P.data**2).sum(dtype=np.float64) / P.data.sum(dtype=np.float64))
    eps = divergence.floor / ((n - 1) * (1 if by_row else n))
    b = float(divergence.far_log)
    return 1 - b + b * math.log1p((1 - divergence.floor) * typical / eps)


def phases_of(estimator: NeighborEmbedding, parts: Parts, pace: Pace) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself."""
    divergence, _, normalization = parts
    is_kl = isinstance(divergence, MapDivergence) and isinstance(divergence.limit(), KL)
    if estimator.exaggeration != 1 and not is_kl:
        hint = "The first phase, which KL governs, has early_exaggeration."
        owner, got = type(estimator).__name__, estimator.exaggeration
        raise InputError(owner, "exaggeration", "1 for another divergence than KL", got, hint)
    early_iter = 0 if normalization == "none" else min(estimator.early_exaggeration_iter, estimator.max_iter)
    early, late = float(estimator.early_exaggeration), float(estimator.exaggeration)
    rates = (pace.early / early, pace.late / late)
    if not isinstance(estimator.learning_rate, str):
        rates = (float(estimator.learning_rate),) * 2
    decays = noise_of(estimator.far) is not None  # or the noise would keep the points moving
    phases = [Phase(None, estimator.max_iter - early_iter, late, rates[1], pace.momentum, may_stop=True, decays=decays)]
    if early_iter:
        phases.insert(0, Phase(None if is_kl else KL(), early_iter, early, rates[0], EARLY_MOMENTUM, may_stop=False))
    return phases


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warnings.warn(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One to three components and the "
        "built-in divergences and kernels take (next to) linear time.",
        NearfarWarning,
        stacklevel=5,
    )


# ------------------------------------------------------------
# `NeighborEmbedding`: maps of points or graphs, any divergence x kernel x normalisation, in linear time.


class NeighborEmbedding(FrameOutput):
    """Map of points or of a graph in which neighbours stay neighbours: t-SNE and its whole family.

    Finds points y_i whose similarities, of the kernel w, reproduce those of the data::

        C = sum_ij c(p_ij, q_ij)      q_ij = w(‖y_i - y_j‖²) / S

    with the divergence c. S is the sum over all pairs, or over the row of i. The recipes :class:`TSNE`, :class:`SSNE`,
    :class:`ASNE`, :class:`TASNE`, :class:`HSSNE`, :class:`NeRV` and :class:`JSE` fill in divergence, kernel and
    normalisation. Time is O(n) per iteration with ``far="fft"``, memory about 20 bytes per pair of neighbours.

    Parameters
    ----------
    n_components : int, default=2
        d. With more than three, all pairs of points are summed in every iteration, unless ``far="noise"``.
    divergence : {"kl", "reverse-kl", "nerv", "jensen-shannon"} or object, default="kl"
        The cost c: a name, an object of :mod:`nearfar.divergences` with its own parameters, or one of your own with
        ``value(p, q)`` and ``derivative(p, q)`` (quadratic time).
    kernel : {"student-t", "exponential", "heavy-tailed"} or object, default="student-t"
        The similarity w: a name, an object of :mod:`nearfar.kernels`, or one of your own (quadratic time, like kernels
        with a parameter per point unless ``normalization="row"``).
    normalization : {"pair", "row", "none"}, default="pair"
        How q is normalised: over all pairs, p being made symmetric; each row by itself; not at all, for a divergence
        of your own.
    perplexity : float, sequence of float, or "multiscale", default=30.0
        How many neighbours a point has, as it were; of no use for a relation. See :class:`nearfar.Affinities`.
    n_neighbors : int or "all", optional
        Neighbours searched; by default 3 * perplexity.
    metric : str or callable, default="euclidean"
        Distance of the data, ``"precomputed"`` for a matrix of distances.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, Field or NoisePairs, default="auto"
        Sums over all pairs: pair by pair, on a mesh (one or two components) or by a tree (up to three). ``"auto"`` is
        the mesh for more than 4,000 points, with three components the tree for more than 6,000; tolerance and angle:
        :class:`nearfar.far.MeshField`, :class:`nearfar.far.BarnesHutField`. ``"noise"`` samples pairs, for KL by pair
        and any number of components; :class:`nearfar.far.NoisePairs` says what is then the cost.
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d), default="auto"
        Start: principal components of the data, or eigenvectors of the relation, which is the default where there are
        no data; both scaled to a small spread. An array is taken as it is; with float64 the whole fit runs in it.
    learning_rate : float or "auto", default="auto"
        Length of a step per gradient of the cost as it is reported (as in scikit-learn; openTSNE's is four times that
        for the same step). "auto" is n / (4 exaggeration) for Student's t, and less for kernels that fall quicker.
    max_iter : int, default=750
        Iterations, the early ones included.
    early_exaggeration : float, default=12.0
        Factor of p in the first phase, which KL governs whatever the divergence.
    early_exaggeration_iter : int, default=250
        Iterations of the first phase.
    exaggeration : float, default=1.0
        Factor of p after that, for KL alone.
    min_grad_norm : float, default=1e-7
        Stop when the gradient is no longer than this.
    n_iter_without_progress : int, default=300
        Stop when the cost has not fallen for so many iterations after the first phase.
    callbacks : sequence of callable, optional
        Called every 50 iterations and at the end with a :class:`nearfar.callbacks.Progress`, whose ``epoch`` counts
        iterations and whose ``state.X`` holds the positions; if one returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed of start and neighbour search. The same seed gives the same bits, for any number of workers.
    n_jobs : int, optional
        Number of threads; None means all processors.
    verbose : int, default=0
        1 shows a progress line on a terminal.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, d), float32
        The map, its mean at 0.
    vectors_ : Embedding
        The same with the ids of the relation, or row numbers.
    cost_ : float
        Final cost C, never exaggerated; nats for the built-in divergences. By row: the mean over the rows. With
        sampled pairs the cost of :class:`nearfar.far.NoisePairs`, for the same noise at all times.
    cost_curve_ : ndarray of shape (k, 2), float64
        Iteration and cost then, every 50 iterations and at the end.
    n_iter_ : int
        Iterations run.
    affinities_ : Affinities or None
        The calibrated neighbours of the data; None if a relation was given.
    relation_ : Relation
        What the map shows: that of the affinities, or the one given.
    n_features_in_ : int
        Columns of the data; only if data were given.
    feature_names_in_ : ndarray of shape (p,)
        Their names; only if the data were a frame whose columns have string names.

    See Also
    --------
    nearfar.Affinities : the input side on its own, to be kept and used again.

    Notes
    -----
    Points without any relation (isolates of a graph) take part in the sums over all pairs, and are pushed to the rim.
    Equal rows of data end up close to each other, at most a small jitter apart at the start.

    References
    ----------
    Melville, "Deriving embedding gradients" (sneer documentation). van der Maaten & Hinton (2008), "Visualizing data
    using t-SNE". Belkina et al. (2019), on the learning rate.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5)) + 8 * np.repeat(np.eye(2, 5), 50, axis=0)
    >>> est = nf.NeighborEmbedding(divergence="jensen-shannon", perplexity=10, random_state=0).fit(X)
    >>> est.embedding_.shape
    (100, 2)
    >>> left, right = est.embedding_[:50], est.embedding_[50:]
    >>> gap = np.linalg.norm(left.mean(axis=0) - right.mean(axis=0))
    >>> bool(gap > left.std() + right.std())
    True
    """

    _capabilities: ClassVar[frozenset[str]] = frozenset(
        {"relation-input", "deterministic", "any-n-jobs", "init", "transform"}
    )

    affinities_: Affinities | None
    relation_: Relation
    cost_: float
    cost_curve_: NDArray[np.float64]
    n_iter_: int

    def __init__(
        self,
        n_components: int = 2,
        *,
        divergence: Any = "kl",
        kernel: Any = "student-t",
        normalization: str = "pair",
        perplexity: float | Sequence[float] | str = 30.0,
        n_neighbors: int | str | None = None,
        metric: str | Callable[..., float] = "euclidean",
        far: str | Field = "auto",
        init: Any = "auto",
        learning_rate: float | str = "auto",
        max_iter: int = 750,
        early_exaggeration: float = 12.0,
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        min_grad_norm: float = 1e-7,
        n_iter_without_progress: int = 300,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.divergence = divergence
        self.kernel = kernel
        self.normalization = normalization
        self.perplexity = perplexity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.far = far
        self.init = init
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.early_exaggeration = early_exaggeration
        self.early_exaggeration_iter = early_exaggeration_iter
        self.exaggeration = exaggeration
        self.min_grad_norm = min_grad_norm
        self.n_iter_without_progress = n_iter_without_progress
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Draw the map.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p), Affinities, or Relation
            Rows of numbers (or distances, see ``metric``), whose neighbours are found and calibrated; fitted
            affinities, which are used as they are; or a square relation, such as a graph: by row each row counts the
            same, by pair each entry as it is.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        InputError, DataError
            A parameter that cannot be used, or data that cannot: too few points for the perplexity, NaN (which rows),
            a relation that is not square or has no entry.
        NumericalError
            The map left the finite numbers.
        """
        owner = type(self).__name__
        parts = self._parts(owner)
        self._check_numbers(owner)
        n_jobs, rng = check_n_jobs(owner, self.n_jobs), check_random_state(owner, self.random_state)
        data, affinities, relation = self._input(owner, X, rng)
        n = relation.shape[0]
        check_integer(owner, "n_components", self.n_components, low=1, high=max(n - 1, 1))
        P = setup.probabilities(owner, relation, parts[2])
        Y = setup.start(owner, self.init, data, P, (n, self.n_components), rng, n_jobs)
        parts = (parts[0], self._simplest(parts[1], n), parts[2])
        pace = self._pace(P, parts)
        objective = self._objective(P, parts, Y.dtype, rng, n_jobs)
        descent = Descent(
            scale=1.0 if parts[2] == "pair" else 1 / n,
            longest=pace.longest,
            min_grad_norm=self.min_grad_norm,
            n_iter_without_progress=self.n_iter_without_progress,
            callbacks=tuple(self.callbacks or ()),
            n_jobs=n_jobs,
            verbose=self.verbose,
        )
        phases = phases_of(self, parts, pace)
        state = descent.run(Y, objective, phases)
        self._keep(state, affinities, relation)
        self._keep_learned(objective, state)
        self._keep_features(X, data)
        return self

    def transform(self, X: Any) -> Any:
        """Place new points in the map, which stays as it is.

        Each new point is placed by itself, where its own row of the cost, over the points of the fit, is least: the
        answer does not depend on the points beside it. A point of the fit that is given again lands near itself.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p), or (m, n)
            Rows like those of the fit. After a fit to a relation: how strongly each new object is related to those of
            the fit, as a Relation, which is matched by ids, or as a matrix of n columns.

        Returns
        -------
        ndarray of shape (m, d), in the dtype of the map, or a frame if :meth:`set_output` says so
            After a fit to a relation, a row without any relation goes to the mean of the map.

        Raises
        ------
        NotFittedError
            Before a fit.
        InputError
            X does not fit the data of the fit; a kernel or divergence of one's own.
        UnknownIdError
            A Relation with columns that are no objects of the fit.
        """
        from nearfar.maps.transform import place

        self._check_fitted("transform")
        owner = type(self).__name__
        divergence, kernel, _ = self._parts(owner)
        n_jobs = check_n_jobs(owner, self.n_jobs)
        P_new = self._new_probabilities(owner, X)
        kernel = self._kernel_of_new(kernel)
        placed = place(P_new, self.embedding_, kernel, divergence, n_jobs=n_jobs, owner=f"{owner}.transform")
        return self._output(placed, X)

    @property
    def vectors_(self) -> Embedding:
        """The map with its ids and the parameters; an Embedding."""
        from nearfar.embedding.vectors import Embedding

        self._check_fitted("vectors_")
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        return Embedding(self.embedding_, ids=self.relation_.row_ids, parameters=parameters)

    # ---------------------------------------------------------------- the steps of a fit

    def _named_parts(self) -> tuple[Any, Any, Any]:
        """Return divergence, kernel and normalisation as they were given."""
        return self.divergence, self.kernel, self.normalization

    def _parts(self, owner: str) -> tuple[Any, Any, str]:
        divergence, kernel, normalization = self._named_parts()
        check_choice(owner, "normalization", normalization, NORMALIZATIONS)
        divergence, kernel = as_divergence(owner, divergence), as_kernel(owner, kernel)
        if normalization == "none" and isinstance(divergence, MapDivergence):
            hint = "Those of nearfar.divergences are for probabilities."
            raise InputError(owner, "normalization", "'pair' or 'row' for this divergence", "'none'", hint)
        return divergence, kernel, normalization

    def _check_numbers(self, owner: str) -> None:
        if isinstance(self.learning_rate, str):
            if self.learning_rate != "auto":
                raise InputError(owner, "learning_rate", "a finite number > 0, or 'auto'", repr(self.learning_rate))
        else:
            check_real(owner, "learning_rate", self.learning_rate, low=0, open_low=True)
        check_integer(owner, "max_iter", self.max_iter, low=1)
        check_integer(owner, "early_exaggeration_iter", self.early_exaggeration_iter, low=0)
        check_integer(owner, "n_iter_without_progress", self.n_iter_without_progress, low=0)
        check_real(owner, "early_exaggeration", self.early_exaggeration, low=1)
        check_real(owner, "exaggeration", self.exaggeration, low=0, open_low=True)
        check_real(owner, "min_grad_norm", self.min_grad_norm, low=0)
        if any(isinstance(callback, Checkpoint) for callback in check_callbacks(owner, self.callbacks)):
            hint = "A map continues from a start: init=est.embedding_, early_exaggeration_iter=0."
            raise InputError(owner, "callbacks", "functions of a Progress", "a Checkpoint", hint)

    def _input(self, owner: str, X: Any, rng: np.random.Generator) -> tuple[Any, Affinities | None, Relation]:
        """Return the rows of numbers, if there are any, the affinities and the relation."""
        from nearfar.relations.affinities import Affinities

        if isinstance(X, Relation):
            return None, None, X
        if isinstance(X, Affinities):
            X._check_fitted("relation_")
            return None, X, X.relation_
        data = X if issparse(X) else check_matrix(owner, "X", X)
        affinities = Affinities(
            self.perplexity,
            n_neighbors=self.n_neighbors,
            metric=self.metric,
            n_jobs=self.n_jobs,
            random_state=int(rng.integers(2**31 - 1)),
        )._fit(data, owner)
        return None if self.metric == "precomputed" else data, affinities, affinities.relation_

    def _keep(self, state: MapState, affinities: Affinities | None, relation: Relation) -> None:
        self.embedding_ = state.X
        self.affinities_, self.relation_ = affinities, relation
        self.cost_curve_ = np.column_stack([state.cost_iterations, state.costs])
        self.cost_ = float(state.costs[-1])
        self.n_iter_ = state.n_iter

    def _simplest(self, kernel: Any, n: int) -> Any:
        """Return the kernel for n points, one with a single parameter where that is the same."""
        return simplest(kernel, n)

    def _objective(self, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int) -> Objective:
        """Return what is minimised."""
        return objective_of(self, P, parts, dtype, rng, n_jobs)

    def _pace(self, P: Any, parts: Parts) -> Pace:
        """Return how far points may go."""
        return Pace.of(P, parts)

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        """Keep what was learned beside the map."""

    def _kernel_of_new(self, kernel: Any) -> Any:
        """Return the kernel of new points, or a function of their probabilities that returns one for each."""
        return simplest(kernel, len(self.embedding_))

    def _new_probabilities(self, owner: str, X: Any) -> Any:
        """Return the probabilities of new rows over the points of the fit."""
        if isinstance(X, Relation):
            return setup.matched(f"{owner}.transform", X, self.relation_.row_ids)
        if self.affinities_ is not None:
            names = column_names(X)
            fitted = getattr(self, "feature_names_in_", None)
            if names is not None and fitted is not None and list(names) != list(fitted):
                raise InputError(f"{owner}.transform", "X", f"a frame with the columns {list(fitted)}", list(names))
            return self.affinities_.transform(X if issparse(X) else check_matrix(f"{owner}.transform", "X", X))
        return X if issparse(X) else check_matrix(f"{owner}.transform", "X", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


# ------------------------------------------------------------
# The named methods of the family: a :class:`NeighborEmbedding` with divergence, kernel and normalisation filled in.
#
# =======  ==================  ====================  =============
# recipe   divergence          kernel                normalisation
# =======  ==================  ====================  =============
# TSNE     KL                  Student's t           pair
# SSNE     KL                  exponential           pair
# ASNE     KL                  exponential           row
# TASNE    KL                  Student's t           row
# HSSNE    KL                  heavy-tailed(alpha)   pair
# NeRV     NeRV(lam)           exponential           row
# JSE      Jensen-Shannon      exponential           row
# WSSNE    KL                  Student's t, weighted pair
# =======  ==================  ====================  =============

_SHARED = [
    parameter
    for name, parameter in inspect.signature(NeighborEmbedding).parameters.items()
    if name not in ("divergence", "kernel", "normalization")
]


class Recipe(NeighborEmbedding):
    """Base of the recipes: the parameters of :class:`NeighborEmbedding` without the three that are filled in.

    A recipe's own parameters are those that it annotates, with their defaults; they come after ``n_components``.
    """

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=vars(cls)[name], annotation=annotation)
            for name, annotation in inspect.get_annotations(cls).items()
            if name in vars(cls)
        ]
        cls.__signature__ = inspect.Signature([_SHARED[0], *own, *_SHARED[1:]])

    def __init__(self, n_components: int = 2, **parameters: Any) -> None:
        # Bound to the published signature: a name that is not in it is a TypeError, as anywhere.
        given = self.__signature__.bind(n_components, **parameters)
        given.apply_defaults()
        vars(self).update(given.arguments)


class TSNE(Recipe):
    """t-SNE: KL divergence, Student's t kernel, pairs; the map that everybody knows.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    van der Maaten & Hinton (2008), "Visualizing data using t-SNE".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TSNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "pair"


class SSNE(Recipe):
    """Symmetric SNE: KL divergence, exponential kernel, pairs.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Cook, Sutskever, Mnih & Hinton (2007), "Visualizing similarity data with a mixture of maps".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.SSNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.Exponential(), "pair"


class ASNE(Recipe):
    """SNE, the asymmetric original: KL divergence, exponential kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Hinton & Roweis (2002), "Stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.ASNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.Exponential(), "row"


class TASNE(Recipe):
    """t-ASNE: KL divergence, Student's t kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Melville, "sneer" documentation, embedding methods.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TASNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "row"


class HSSNE(Recipe):
    """Heavy-tailed symmetric SNE: KL divergence, heavy-tailed kernel, pairs; SSNE at alpha = 0, t-SNE at 1.

    Parameters
    ----------
    alpha : float, default=0.5
        Heaviness of the kernel's tail, >= 0, see :class:`nearfar.kernels.HeavyTailed`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Yang, King, Xu & Oja (2009), "Heavy-tailed symmetric stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.HSSNE(perplexity=10, random_state=0, alpha=2.0).fit_transform(X).shape
    (60, 2)
    """

    alpha: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.HeavyTailed(self.alpha), "pair"


class NeRV(Recipe):
    """Neighbour retrieval visualizer: KL and reverse KL mixed, exponential kernel, each row by itself.

    Parameters
    ----------
    lam : float, default=0.5
        From precision (0) to recall (1), see :class:`nearfar.divergences.NeRV`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Venna, Peltonen, Nybo, Aidos & Kaski (2010), "Information retrieval perspective to nonlinear dimensionality
    reduction for data visualization". The precisions of the data are not carried over to the map's kernel, as in sneer.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.NeRV(perplexity=10, random_state=0, lam=0.2).fit_transform(X).shape
    (60, 2)
    """

    lam: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.NeRV(self.lam), kernels.Exponential(), "row"


class JSE(Recipe):
    """Jensen-Shannon embedding: mixture of KL and reverse KL, exponential kernel, each row by itself.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1], see :class:`nearfar.divergences.JensenShannon`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Lee, Renard, Bernard, Dupont & Verleysen (2013), "Type 1 and 2 mixtures of Kullback-Leibler divergences as cost
    functions in dimensionality reduction based on similarity preservation".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.JSE(perplexity=10, random_state=0, kappa=0.2).fit_transform(X).shape
    (60, 2)
    """

    kappa: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.JensenShannon(self.kappa), kernels.Exponential(), "row"


class WSSNE(Recipe):
    """Weighted symmetric SNE (ws-SNE): t-SNE in which points of importance take up more room.

    The similarity of two points is that of t-SNE times the importance of both, ``q_ij = s_i s_j w_ij / S``. Hubs of a
    graph, which crowd the middle of a map by t-SNE, push the others away from them. Time is O(n) per iteration, as for
    :class:`TSNE`.

    Parameters
    ----------
    weights : "degree" or array-like of shape (n,), default="degree"
        Importance s of the points, > 0, whatever its scale; by default the sums of row and column of p (degree
        centrality). With the same for all points the map is that of :class:`TSNE`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes; ``far="noise"`` is not for this map.

    Attributes
    ----------
    weights_ : ndarray of shape (n,), float64
        Importance of the points, its mean 1.

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
    >>> est = nf.WSSNE(perplexity=10, random_state=0).fit(X)
    >>> est.embedding_.shape, bool(est.weights_.max() > 1.2)
    ((60, 2), True)
    """

    weights: str | ArrayLike = "degree"

    weights_: NDArray[np.float64]

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "pair"

    def _objective(self, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int) -> Objective:  # noqa: ARG002
        owner, (divergence, kernel, normalization) = type(self).__name__, parts
        if noise_of(self.far) is not None:
            raise InputError(owner, "far", "another than 'noise' for weighted points", repr(self.far))
        self.weights_ = _importance(owner, self.weights, P)
        field = field_of(self, P.shape[0], divergence)
        return NeighborObjective(
            P, kernel, divergence, normalization, field, dtype=dtype, n_jobs=n_jobs, weights=self.weights_
        )


def _importance(owner: str, weights: Any, P: Any) -> NDArray[np.float64]:
    """Return the importance of the points, its mean 1: as given, or the sums of row and column of P."""
    n = P.shape[0]
    if isinstance(weights, str):
        if weights != "degree":
            raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights))
        found = np.asarray(P.sum(axis=0), np.float64) + np.asarray(P.sum(axis=1), np.float64)
    else:
        try:
            found = np.asarray(weights, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights)) from error
        if found.shape != (n,):
            raise InputError(owner, "weights", f"of shape ({n},), one number per point", f"shape {found.shape}")
        bad = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
        if bad.size:
            raise InputError(owner, "weights", "finite and > 0", f"{found[bad[0]]} for row {bad[0]}")
    found = found / found.max()
    return np.asarray(found / found.mean())


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
