"""Maps of points or graphs in which neighbours stay neighbours: any divergence x kernel x normalisation.

:class:`NeighborEmbedding` is the algorithm; the named methods of the family are recipes, which fill in three arguments.

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
WSSNE    KL                  Student's t, weighted pair
=======  ==================  ====================  =============

``InhomogeneousTSNE`` learns a kernel for each point.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from nearfar import divergences, kernels
from nearfar._core import checks
from nearfar._core.atomic import folder_with_room
from nearfar._core.checks import (
    check_callbacks,
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_random_state,
    check_real,
    or_auto,
    require,
)
from nearfar._core.ids import Ids, check_columns, rows_and_ids
from nearfar._core.parameters import Part
from nearfar.base import FrameOutput
from nearfar.callbacks import Checkpoint, Trainer
from nearfar.contracts import Field, Floats, Objective, Place
from nearfar.divergences.probability import KL, as_divergence, linear_formulas, strength_of
from nearfar.embedding.vectors import Embedding
from nearfar.engines import (
    VERBS,
    Setting,
    asked_engine,
    check_verbs,
    device_of_engine,
    engine_of,
    is_device,
    place_of,
)
from nearfar.engines.registry import (
    DASK,
    ENGINES,
    PLAIN,
    THREADS,
    current_client,
    on_a_cluster,
    on_cluster,
    on_device,
    refused_on_cluster,
)
from nearfar.errors import InputError, NearfarWarning
from nearfar.far.barnes_hut import BarnesHutField
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.far.mesh import MeshField
from nearfar.kernels import HeavyTailed, InhomogeneousStudentT, StudentT, as_kernel, compiled_kernel, family_of
from nearfar.maps.noise import NoiseObjective
from nearfar.maps.objective import (
    NORMALIZATIONS,
    NeighborObjective,
    QuadraticObjective,
    is_linear_time,
    memory_of_pattern,
    probabilities,
    value_and_gradient,
)
from nearfar.maps.per_point import Learner, is_per_point, per_point_objective
from nearfar.maps.solver import MapState, Watch, extent, start
from nearfar.maps.transform import matched, place
from nearfar.methods.maps import LOOK_EVERY, Phase, descend
from nearfar.relations.affinities import Affinities
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.neighbors import FEW, are_neighbors, check_rows

_OF_NEIGHBORS = ("perplexity", "n_neighbors", "metric", "metric_params")
FAR = ("auto", "exact", "fft", "barnes-hut", "noise")
EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh."""
TREE_FROM = 6000
"""Points from which on, with three components, far="auto" is the tree."""
_FELL = 1e-4
"""Share of itself by which the cost of a fit falls at least, once the exaggeration has ended."""
EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part. Near its minimum
large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over them."""
_FAR_OFF, _SHORT = 100.0, 1e-6
"""A kernel below _SHORT at this squared distance, in units of its reach, has short tails."""
FEW_POINTS, PER_POINT_TOLERANCE = 20_000, 0.002
"""Tolerance of the mesh for kernels with a parameter per point, up to so many points: one may have no other within the
reach of the narrowest kernels, whose S_i then drowns in a mesh's errors."""
_OF_POINT = 200  # bytes for each point of a map whose pairs are in files
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""


class Parts(NamedTuple):
    """The parts of a map."""

    divergence: Any
    kernel: Any
    normalization: str


class Shown(NamedTuple):
    """What a map shows: a relation, the affinities behind it, and the rows of numbers behind these, if there are.

    ``given`` says that affinities were, who may need what workers have of them.
    """

    relation: Relation
    affinities: Affinities | None
    data: Any
    given: bool = False


class Problem(NamedTuple):
    """What is minimised: the probabilities of the data, the parts of the map, where, and the importance of points."""

    P: Any
    divergence: Any
    kernel: Any
    normalization: str
    engine: Any = THREADS
    dtype: Any = np.float32
    weights: Any = None

    def counted(self) -> Any:
        """Return P as it counts, all rows of it."""
        P: Any = self.P if issparse(self.P) else self.P.to_csr()
        return csr_array((P + P.T) / 2) if self.normalization == "pair" else P


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
        ``value(p, q)`` and ``derivative(p, q)`` (quadratic time, unless it has :class:`nearfar.divergences.Formulas`).
    kernel : {"student-t", "exponential", "heavy-tailed"} or object, default="student-t"
        The similarity w: a name, an object of :mod:`nearfar.kernels`, or one of your own (quadratic time, unless it has
        :class:`nearfar.kernels.Formulas`; also with a parameter per point unless ``normalization="row"``).
    normalization : {"pair", "row", "none"}, default="pair"
        How q is normalised: over all pairs, p being made symmetric; each row by itself; not at all, for a divergence
        of your own.
    perplexity : float, sequence of float, or "multiscale", default=30.0
        How many neighbours a point has, as it were; of no use for a relation. See :class:`nearfar.Affinities`.
    n_neighbors : int or "all", optional
        Neighbours searched; by default 3 * perplexity.
    metric : str or callable, default="euclidean"
        Distance of the data, ``"precomputed"`` for a matrix of distances or for neighbours.
    metric_params : dict, optional
        What the metric needs beside two rows, as for :class:`nearfar.Affinities`.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, Field or NoisePairs, default="auto"
        Sums over all pairs: pair by pair, on a mesh (one or two components) or by a tree (up to three). ``"auto"`` is
        the mesh for more than 4,000 points, with three components the tree for more than 6,000; tolerance and angle:
        :class:`nearfar.far.MeshField`, :class:`nearfar.far.BarnesHutField`. ``"noise"`` samples pairs, for KL by pair
        and any number of components; :class:`nearfar.far.NoisePairs` says what is then the cost.
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d), default="auto"
        Start: principal components of the data (also of those behind given Affinities), or eigenvectors of the
        relation, which is the default where a relation or affinities are given; both scaled to a spread of 1e-4, or
        for a kernel that is flat at distance 0 to one at which it pulls. An array is taken as it is; with float64 the
        whole fit runs in it. A fit whose cost never fell warns.
    learning_rate : float or "auto", default="auto"
        Length of a step per gradient of the cost as it is reported (as in scikit-learn; openTSNE's is four times that
        for the same step). "auto" is n / (4 exaggeration) for Student's t, and less for kernels that fall quicker.
    max_iter : int, default=750
        Iterations, the early ones included.
    early_exaggeration : float, default=12.0
        Factor of p in the first phase, which KL governs whatever the divergence.
    early_exaggeration_iter : int, default=250
        Iterations of the first phase. Where the kernel has short tails and the divergence is not KL, it is a phase of
        t-SNE, and as many iterations of plain t-SNE follow (half of those that are left at most).
    exaggeration : float, default=1.0
        Factor of p after the first phase, for KL alone.
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
    device : str, optional
        Going away in version 0.4: ``engine`` takes its place.
    verbose : int, default=0
        1 shows progress: a bar on a terminal, a line in a notebook, a line every few seconds in a log.
    storage : path, optional
        Folder for what is too large for memory: the neighbours, as for :class:`nearfar.Affinities`, and while the map
        is drawn their probabilities in both directions, in nameless files, which are gone when the fit ends, however
        it ends. For KL by pair; other costs, :class:`WSSNE` and all pairs keep as much in memory besides. The map has
        the same bits as with ``engine="threads"`` in memory.
    engine : str or Place, optional
        Where the map is drawn.

        ``"plain"``: NumPy, pair by pair in float64, with nothing compiled. ``"threads"``: those of this machine.

        ``"torch"``, ``"cuda"``, ``"cuda:1"``: by torch (the extra ``torch``) on the processor or a device: neighbours,
        positions, forces, steps and the places of new points; for ``far="exact"`` and ``"fft"``, one of which
        ``"auto"`` then is, and ``"noise"``. Neighbours in sparse rows, by another metric than the Euclidean and cosine,
        and of new points are searched on threads.

        ``"dask"``: the workers of a cluster, that of the ``dask.distributed.Client`` in use, else one of this machine
        that ends with the fit. They search the neighbours, and do maps whose far field is the mesh, under a kernel that
        is the same for all points. The map is the same to the rounding of its numbers, with the same bits for any
        number of workers.

        A :class:`nearfar.contracts.Place` of one's own with the verb ``pairs``, or an engine of an installed package.

        By default such maps are drawn on a cluster within the context of a client; all others, up to 200 points where
        ``far`` is ``"auto"``, in plain NumPy, else on threads: by the size of the data alone, so that the same seed
        gives the same bits.

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
    >>> est = nf.NeighborEmbedding(divergence="jensen-shannon", perplexity=10, max_iter=300, random_state=0).fit(X)
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

    _checks: ClassVar[dict[str, Any]] = {
        "normalization": partial(check_choice, choices=NORMALIZATIONS),
        "learning_rate": or_auto(partial(check_real, low=0, open_low=True)),
        "max_iter": partial(check_integer, low=1),
        "early_exaggeration_iter": partial(check_integer, low=0),
        "n_iter_without_progress": partial(check_integer, low=0),
        "early_exaggeration": partial(check_real, low=1),
        "exaggeration": partial(check_real, low=0, open_low=True),
        "min_grad_norm": partial(check_real, low=0),
    }

    affinities_: Affinities | None
    relation_: Relation
    cost_: float
    cost_curve_: NDArray[np.float64]
    n_iter_: int

    _usual_neighbors: ClassVar[int | None] = None
    """Neighbours where ``n_neighbors`` is None and there are as many; 3 * perplexity if this is None."""

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
        metric_params: dict[str, Any] | None = None,
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
        device: str | None = None,
        verbose: int = 0,
        storage: str | PathLike[str] | None = None,
        engine: str | Place | None = None,
    ) -> None:
        self.n_components = n_components
        self.divergence = divergence
        self.kernel = kernel
        self.normalization = normalization
        self.perplexity = perplexity
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.metric_params = metric_params
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
        self.device = device
        self.verbose = verbose
        self.storage = storage
        self.engine = engine

    @property
    def _device(self) -> str | None:
        """The device of torch that was asked for, by the engine or by its own name."""
        return device_of_engine(engine_of(type(self).__name__, self.engine, self.device))

    def fit(self, X: Any, y: None = None, *, engine: str | None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Draw the map.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p), Embedding, AnnData, Affinities, Relation or graph
            Rows of numbers (with ``metric="precomputed"`` distances, or a pair (indices, distances) of neighbours),
            whose neighbours are found and calibrated; fitted affinities, which are used as they are; or a square
            relation, or a graph of networkx or PyTorch Geometric: by row each row counts the same, by pair each entry
            as it is.
        y : None
            Ignored.
        engine : str, optional
            Going away in version 0.4: that of the constructor takes its place.

        Returns
        -------
        self

        Raises
        ------
        MissingDependencyError
            An engine without the package that it needs.
        InputError, DataError
            A parameter that cannot be used, or not on this engine; or data that cannot: too few points for the
            perplexity, NaN (which rows), a relation that is not square or has no entry.
        NumericalError
            The map left the finite numbers.
        """
        parts, asked = self._checked(), self._asked(engine)
        rng = check_random_state(type(self).__name__, self.random_state)
        with self._workers(asked, parts):
            shown = self._related(X, rng, fits=True, on_workers=partial(self._on_workers, asked, parts))
            problem = self._problem(parts, asked, shown)
            Y, reach = self._start(problem, shown, rng)
            with self._place(problem) as place, self._trainer() as trainer:
                objective = self._objective(problem._replace(dtype=Y.dtype), place, rng)
                watch = self._watch(Y, problem, trainer)
                descend(place, objective, self._phases(problem), watch)
        self._keep(shown, objective, watch.state)
        self._keep_features(X, shown.data)
        self._warn_of_rest(watch.state, reach)
        return self

    def transform(self, X: Any) -> Any:
        """Place new points in the map, which stays as it is.

        Each new point is placed by itself, where its own row of the cost, over the points of the fit, is least: the
        answer does not depend on the points beside it, on a device to rounding. A point of the fit that is given
        again lands near itself.

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
            X does not fit the data of the fit; a kernel or divergence without formulas; a device that is not there.
        UnknownIdError
            A Relation with columns that are no objects of the fit.
        """
        self._check_fitted("transform")
        owner = type(self).__name__
        divergence, kernel, _ = self._checked()
        where: dict[str, Any] = {"n_jobs": check_n_jobs(owner, self.n_jobs), "owner": f"{owner}.transform"}
        if self._device is not None:
            device = self._torch_device()
            where["elsewhere"] = partial(on_device("places of new points"), device)
        if isinstance(X, Relation):
            P_new = matched(f"{owner}.transform", X, self.relation_.row_ids)
            ids: Ids | None = X.row_ids
        else:
            rows, ids = rows_and_ids(f"{owner}.transform", X)
            checked = issparse(rows) or are_neighbors(rows, getattr(self.affinities_, "metric", None))
            P_new = rows if checked else check_matrix(f"{owner}.transform", "X", rows)
            if self.affinities_ is not None:
                fitted = getattr(self.affinities_, "feature_names_in_", None)
                check_columns(f"{owner}.transform", X, getattr(self, "feature_names_in_", fitted))
                P_new = self.affinities_.transform(P_new)
        kernel = self._kernel_of_new(kernel)
        placed = place(P_new, self.embedding_, kernel, divergence, **where)
        return self._output(placed, X, lambda: ids)

    def cost_and_gradient(self, positions: Any, X: Any = None) -> tuple[float, NDArray[np.float64]]:
        """Return the cost of a map at some positions, and its gradient: for an optimiser or an analysis of one's own.

        With D_ij = dC/dq_ij, by pair::

            dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j)      k_ij = [D_ij - sum_kl q_kl D_kl] w'(f_ij) / S

        and by row with S_i for S and the sum over the row. All pairs are summed in float64, O(n²) time, whatever
        ``far`` says; nothing is exaggerated.

        Parameters
        ----------
        positions : array-like of shape (n, d)
            A row per point, for any d.
        X : as for :meth:`fit`, optional
            What the map shows; by default that of the fit. A fit is not needed then, nor changed.

        Returns
        -------
        cost : float
            As ``cost_`` is reported: by row the mean over the rows.
        gradient : ndarray of shape (n, d), float64
            Of that cost.

        Raises
        ------
        NotFittedError
            Before a fit, without X.
        InputError
            Positions of another number of rows; sampled pairs, whose cost is another one.

        References
        ----------
        Melville, "Deriving embedding gradients" (sneer documentation), the generic gradient.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> X = np.random.default_rng(0).normal(size=(60, 4))
        >>> est = nf.TSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
        >>> cost, gradient = est.cost_and_gradient(est.embedding_)
        >>> bool(abs(cost - est.cost_) < 1e-4), gradient.shape
        (True, (60, 2))
        """
        owner = f"{type(self).__name__}.cost_and_gradient"
        divergence, kernel, normalization = self._checked()
        if X is None:
            self._check_fitted("cost_and_gradient")
            relation = self.relation_
        else:
            relation = self._related(X, check_random_state(owner, self.random_state)).relation
        if self._noise() is not None:
            raise InputError(owner, "far", "another than 'noise'", repr(self.far), "Sampled pairs have another cost.")
        P = probabilities(owner, relation, normalization).to_csr()
        Y = check_matrix(owner, "positions", positions, rows=P.shape[0]).astype(np.float64)
        kernel = self._kernel_for(self._learned_kernel(kernel) if X is None else kernel, len(Y))
        if normalization == "pair":
            P = csr_array((P + P.T) / 2)
        value, slopes = value_and_gradient(Y, P, kernel, divergence, normalization, weights=self._weights_of(P))
        scale = 1.0 if normalization == "pair" else 1 / len(Y)
        return value * scale, np.asarray(slopes * scale, np.float64)

    @property
    def vectors_(self) -> Embedding:
        """The map with its ids and the parameters; an Embedding."""
        self._check_fitted("vectors_")
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        for name in _OF_NEIGHBORS:  # what was used; a relation has none of them
            parameters[name] = getattr(self.affinities_, name, None)
        return Embedding(self.embedding_, ids=self.relation_.row_ids, parameters=parameters)

    # The steps of a fit.

    def _asked(self, of_fit: Any) -> Any:
        """Return the engine that is asked for; refuse what it does not do, before any work."""
        owner = type(self).__name__
        asked = asked_engine(owner, self.engine, self.device, of_fit)
        if asked is not None and not isinstance(asked, str):
            check_verbs(owner, asked, (*VERBS, "pairs"))
        self._is_plain(asked, 0)
        return asked

    @contextmanager
    def _workers(self, asked: Any, parts: Parts) -> Iterator[None]:
        """Keep a client for the search and the iterations, if workers do them and there is none."""
        if current_client() is not None or not self._on_workers(asked, parts):
            yield
            return
        with on_cluster("client")(f"{type(self).__name__}.fit"):
            yield

    def _problem(self, parts: Parts, asked: Any, shown: Shown) -> Problem:
        """Return what is minimised, and where."""
        owner, n = type(self).__name__, len(shown.relation.row_ids)
        check_integer(owner, "n_components", self.n_components, low=1, high=max(n - 1, 1))
        engine = self._engine(asked, parts, n)
        P = probabilities(owner, shown.relation, parts.normalization, on_workers=engine == DASK)
        if self.storage is not None:
            needed = self._of_pattern(shown.relation.nnz)[0]
            P.storage = folder_with_room(owner, "storage", self.storage, needed)
        return Problem(P, parts.divergence, self._kernel_for(parts.kernel, n), parts.normalization, engine)

    def _engine(self, asked: Any, parts: Parts, n: int) -> Any:
        """Return where n points are drawn: as is asked for, on workers that are there, or as their number says."""
        if self._on_workers(asked, parts, n):
            return DASK
        if asked is not None and asked not in ENGINES:
            return asked
        return PLAIN if self._is_plain(asked, n) else THREADS

    def _start(self, problem: Problem, shown: Shown, rng: np.random.Generator) -> tuple[Floats, float]:
        """Return first positions, and the reach of the kernel."""
        owner, n = type(self).__name__, problem.P.shape[0]
        of_rows = shown.affinities is not None and np.array_equal(self.init, "pca")
        reach, size = extent(problem.kernel, n)
        rows = shown.affinities.rows_ if shown.affinities is not None and of_rows else shown.data
        shape, n_jobs = (n, self.n_components), check_n_jobs(owner, self.n_jobs)
        return start(owner, self.init, rows, problem.P, shape, rng, n_jobs, size), reach

    @contextmanager
    def _place(self, problem: Problem) -> Iterator[Place]:
        """Give the place of the fit."""
        owner = type(self).__name__
        setting = Setting(
            owner=owner,
            n_jobs=check_n_jobs(owner, self.n_jobs),
            P=problem.P,
            sums_stay=True,
        )
        with place_of(problem.engine, setting) as place:
            yield place

    def _trainer(self) -> Trainer:
        given: Any = {"callbacks": self.callbacks, "verbose": self.verbose, "unit": "iteration"}
        return Trainer(type(self).__name__, self.max_iter, **given)

    def _watch(self, Y: Floats, problem: Problem, trainer: Trainer) -> Watch:
        scale = 1.0 if problem.normalization == "pair" else 1 / len(Y)
        rules = self.min_grad_norm, self.n_iter_without_progress
        return Watch(type(self).__name__, MapState(Y), scale, *rules, trainer)

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:
        """Set the results."""
        if shown.affinities is not None and not shown.given:
            shown.relation.operator.release()  # type: ignore[attr-defined] # P is done with
        self.embedding_ = state.X
        self.affinities_, self.relation_ = shown.affinities, shown.relation
        self.cost_curve_ = np.column_stack([state.cost_iterations, state.costs])
        self.cost_ = float(state.costs[-1])
        self.n_iter_ = state.n_iter
        self._keep_learned(objective, state)

    def _related(
        self,
        X: Any,
        rng: np.random.Generator,
        *,
        fits: bool = False,
        on_workers: Callable[[int], bool] | None = None,
    ) -> Shown:
        """Return the relation behind X, its affinities unless X is a relation, and the rows of numbers, if any.

        ``fits`` says that a fit will follow, which must fit into memory; ``on_workers``, whether workers search the
        neighbours of so many points, and make the pattern.
        """
        if isinstance(X, Relation) or hasattr(X, "number_of_edges") or hasattr(X, "edge_index"):  # of other packages
            shown = Shown(as_relation(X), None, None)
        elif isinstance(X, Affinities):
            X._check_fitted("relation_")
            shown = Shown(X.relation_, X, None, given=True)
        else:
            return self._searched(X, rng, fits, on_workers)
        n, nnz = shown.relation.shape[0], shown.relation.nnz
        if fits and nnz > checks.SMALL:
            self._check_memory(0, 0, nnz, n, on_workers is not None and on_workers(n))
        self._warn_of_unused(shown.affinities)
        return shown

    def _searched(self, X: Any, rng: np.random.Generator, fits: bool, on_workers: Any) -> Shown:
        """Return the relation of rows to their neighbours, which are searched and calibrated."""
        owner = type(self).__name__
        rows, ids = rows_and_ids(owner, X)
        given = are_neighbors(rows, self.metric)
        check_rows(owner, rows, self.metric)
        data = rows if given or issparse(rows) else check_matrix(owner, "X", rows)
        made = self._affinities(data, int(rng.integers(2**31 - 1)))
        n = len(data[0]) if given else data.shape[0]
        client = current_client() if on_workers is not None and on_workers(n) else None
        if fits and (given or 100 * n > checks.SMALL):
            self._check_memory(*made._memory(owner, data), client is not None)
        if fits and self.storage is not None:  # before the search, which may take an hour
            nnz = made._memory(owner, data)[2]
            folder_with_room(owner, "storage", self.storage, 8 * nnz * (not given) + self._of_pattern(nnz)[0])
        affinities = made._fit(data, ids, owner, client)
        return Shown(affinities.relation_, affinities, None if self.metric == "precomputed" else data)

    def _affinities(self, rows: Any, seed: Any) -> Affinities:
        """Return the affinities that a fit to these rows makes, not fitted."""
        k = self.n_neighbors
        if k is None and self._usual_neighbors is not None and not are_neighbors(rows, self.metric):
            k = max(min(self._usual_neighbors, np.shape(rows)[0] - 1), 1)
        search: Any = {name: getattr(self, name) for name in ("metric", "metric_params", "n_jobs")}
        if self.metric == "precomputed" or (self.metric in ("euclidean", "cosine") and not issparse(rows)):
            engine = engine_of(type(self).__name__, self.engine, self.device)
            search["engine"] = engine if is_device(engine) else None
        return Affinities(self.perplexity, n_neighbors=k, **search, random_state=seed, storage=self.storage)

    def expected_memory(self, X: Any) -> int:
        """Return the bytes that a fit takes at its peak, beside X.

        That is where the relations of both directions are joined: some 15 to 40 bytes for each neighbour of each point
        beside the neighbours, and about 90 where a relation starts from its eigenvectors.
        From some 10,000 points on the figure is within a fifth of what is measured, for dense rows and the Euclidean
        metric, and for relations. Interpreter and libraries (about 150 MB) come on top. What is in files of ``storage``
        does not count; the figure then holds from some 100,000 points on. A fit that would take more than is free is
        refused. With a device of torch this is the memory of this machine.

        Parameters
        ----------
        X : as for :meth:`fit`
            What would be fitted.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> nf.TSNE(perplexity=30, n_jobs=1).expected_memory(np.zeros((100_000, 50), np.float32)) // 10**6
        304
        """
        owner = f"{type(self).__name__}.expected_memory"
        if isinstance(X, Affinities):
            X._check_fitted("relation_")
            return self._memory(0, 0, X.relation_.nnz, X.relation_.shape[0])
        if isinstance(X, Relation) or hasattr(X, "number_of_edges") or hasattr(X, "edge_index"):
            relation = as_relation(X)
            return self._memory(0, 0, relation.nnz, relation.shape[0])
        rows = rows_and_ids(owner, X)[0]
        return self._memory(*self._affinities(rows, None)._memory(owner, rows))

    def _memory(self, peak: int, kept: int, nnz: int, n: int, on_workers: bool = False) -> int:
        """Return the bytes of a fit whose affinities take and keep so many, and have so many entries and rows."""
        pattern, beside = self._of_pattern(nnz)
        divergence = as_divergence(type(self).__name__, self.divergence)
        # By row, or for another divergence, strengths are made of the pattern, which are in memory.
        in_files = self.storage is not None and self.normalization == "pair" and divergence == KL()
        needed = beside + _OF_POINT * n if in_files else pattern + beside
        if on_workers:  # P alone, as it is sent
            needed = 8 * nnz
        formulas = linear_formulas(divergence, 1.0)
        if formulas is not None and formulas.prepared is not None:  # strengths are prepared for either direction
            needed = needed * 6 // 5
        if isinstance(self.init, str) and (self.init == "spectral" or (self.init == "auto" and not peak)):
            needed = max(needed, 90 * nnz)  # of the eigenvectors of a relation
        return max(peak, kept + needed)

    def _of_pattern(self, nnz: int) -> tuple[int, int]:
        """Return the bytes of the pattern of so many entries, which may be in files, and of what is made beside it."""
        given = None if isinstance(self.init, str) else getattr(self.init, "dtype", np.float64)
        dtype = np.float64 if given == np.float64 else np.float32
        return memory_of_pattern(nnz, dtype, self.normalization == "row")

    def _check_memory(self, peak: int, kept: int, nnz: int, n: int, on_workers: bool) -> None:
        """Refuse a fit that does not fit into memory."""
        hint = "Take fewer neighbours (a smaller perplexity, n_neighbors=), or a sample of the rows; transform places"
        hint = f"{hint} the others; or storage=, a folder, which keeps neighbours and probabilities in files."
        checks.check_memory(type(self).__name__, "X", self._memory(peak, kept, nnz, n, on_workers), hint)

    def _warn_of_rest(self, state: MapState, reach: float) -> None:
        """Say that a map has stayed within the reach of its kernel, at the cost of its start."""
        first, *later = state.costs
        early = state.n_iter < self.early_exaggeration_iter + LOOK_EVERY  # which holds points together
        fell = early or min(later) < first - _FELL * abs(first)
        if not fell and state.X.std(axis=0).max() < reach:
            warnings.warn(
                f"{type(self).__name__}: the cost never fell: it was {first:.4g} at the start and is {self.cost_:.4g} "
                f"after {state.n_iter} iterations. The kernel may be flat where the points start: give a wider start, "
                "an array of shape (n, d), as init. Or the steps are too short or too few: take a larger learning_rate "
                "or max_iter.",
                NearfarWarning,
                stacklevel=3,
            )

    def _warn_of_unused(self, affinities: Affinities | None) -> None:
        """Warn of parameters of the neighbours that were set, where the neighbours are given."""
        published = inspect.signature(type(self)).parameters
        for name in _OF_NEIGHBORS:
            value: Any = getattr(self, name)
            used: Any = getattr(affinities, name, None)
            if not (np.array_equal(value, published[name].default) or np.array_equal(value, used)):
                instead = "a Relation needs none" if affinities is None else f"the Affinities have {used!r}"
                warnings.warn(
                    f"{type(self).__name__}: {name}={value!r} has no effect: {instead}.", NearfarWarning, stacklevel=4
                )

    def _checked(self) -> Parts:
        """Return divergence, kernel and normalisation; refuse parameters that cannot be used."""
        owner = type(self).__name__
        divergence, kernel, normalization = self.divergence, self.kernel, self.normalization
        self._check_parameters()
        divergence, kernel = as_divergence(owner, divergence), as_kernel(owner, kernel)
        if normalization == "none" and getattr(divergence, "for_probabilities", False):
            hint = "Those of nearfar.divergences are for probabilities."
            raise InputError(owner, "normalization", "'pair' or 'row' for this divergence", "'none'", hint)
        if any(isinstance(callback, Checkpoint) for callback in check_callbacks(owner, self.callbacks)):
            hint = "A map continues from a start: init=est.embedding_, early_exaggeration_iter=0."
            raise InputError(owner, "callbacks", "functions of a Progress", "a Checkpoint", hint)
        if self.exaggeration != 1 and divergence != KL():
            hint = "The first phase, which KL governs, has early_exaggeration."
            raise InputError(owner, "exaggeration", "1 for another divergence than KL", self.exaggeration, hint)
        return Parts(divergence, kernel, normalization)

    def _kernel_for(self, kernel: Any, n: int) -> Any:
        """Return the kernel for n points: one with a single parameter where that of all points is the same."""
        family = family_of(kernel)
        if family is None:
            return kernel
        parameters = np.asarray(getattr(kernel, family.parameter))
        if len(parameters) != n:
            owner, hint = type(kernel).__name__, "They are in the order of the rows."
            raise InputError(owner, family.parameter, f"one number, or one per point ({n})", len(parameters), hint)
        return kernel if np.ptp(parameters) else family.kernel_of(float(parameters[0]))

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        """Return what is minimised: in linear time if there is a way for these parts, else pair by pair."""
        P, divergence, kernel, normalization, *_ = problem
        owner, n = type(self).__name__, P.shape[0]
        where: Any = {"dtype": problem.dtype, "n_jobs": check_n_jobs(owner, self.n_jobs), "place": place}
        if problem.engine == PLAIN:
            return QuadraticObjective(problem.counted(), kernel, divergence, normalization, problem.weights)
        if (noise := self._noise()) is not None:
            self._check_noise(problem)
            return NoiseObjective(P, kernel, noise, rng=rng, **where)
        if is_linear_time(kernel, divergence, normalization):
            field = self._field(n, divergence)
            return NeighborObjective(P, kernel, divergence, normalization, field, weights=problem.weights, **where)
        self._check_arrays(problem)
        if is_per_point(kernel, divergence, normalization):
            field = self._field(n, divergence, per_point=True)
            return per_point_objective(P, kernel, divergence, field, **where)
        self._check_pairs(n)
        return QuadraticObjective(problem.counted(), kernel, divergence, normalization)

    def _check_noise(self, problem: Problem) -> None:
        """Refuse sampled pairs for what they are not for."""
        hint = "Sampled pairs are for KL by pair and kernels with formulas; other maps take 'auto'."
        for what, known, part in (
            ("divergence", problem.divergence == KL(), problem.divergence),
            ("normalization", problem.normalization == "pair", problem.normalization),
            ("kernel", compiled_kernel(problem.kernel) is not None, problem.kernel),
        ):
            if not known:
                raise InputError(type(self).__name__, "far", f"another than 'noise' for this {what}", repr(part), hint)

    def _check_arrays(self, problem: Problem) -> None:
        """Refuse parts that are for rows that are arrays, at another place than the threads of this machine."""
        if problem.engine not in (PLAIN, THREADS):
            hint = "They have no formulas, or a kernel for each point."
            expected = f"{THREADS!r} for this divergence, kernel and normalization"
            raise InputError(type(self).__name__, "engine", expected, repr(problem.engine), hint)

    def _check_pairs(self, n: int) -> None:
        """Refuse sums over all pairs where something else was asked for, and warn of many."""
        owner = type(self).__name__
        if self.far not in ("auto", "exact"):
            hint = "Linear time takes a divergence and a kernel with formulas, and probabilities."
            raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", self.far, hint)
        if n > MANY:
            _warn_of_pairs(owner, "This divergence, kernel and normalization", n)

    def _on_workers(self, asked: Any, parts: Parts, n: int = EXACT_UP_TO + 1) -> bool:
        """Return whether the iterations run on a cluster: by name, or in the context of a client if workers can.

        Workers sum charges on a mesh. What they cannot do is refused where they were asked for by name.
        """
        owner, (divergence, kernel, normalization) = type(self).__name__, parts
        engine = asked if asked in ENGINES else None
        if asked != engine or not on_a_cluster(f"{owner}.fit", engine):
            return False
        require(f"{owner}.fit", "distributed", "cluster")
        with_formulas = is_linear_time(kernel, divergence, normalization)
        together = f"{divergence!r}, {kernel!r} and normalization={normalization!r}"
        in_parts = self.far == "fft" if isinstance(self.far, str) else vars(type(self.far)).get("in_parts", False)
        on_mesh = in_parts or (isinstance(self.far, str) and self.far == "auto" and n > EXACT_UP_TO)
        far = repr(self.far) if n > EXACT_UP_TO else f"{self.far!r}, which sums pair by pair up to {EXACT_UP_TO} points"
        one_kernel = family_of(kernel) is None and getattr(self, "learn", False) is False
        for argument, fine, expected, got in (
            (
                "n_components",
                self.n_components in (1, 2),
                "1 or 2 on a cluster, as for the mesh",
                repr(self.n_components),
            ),
            ("far", self._noise() is None and on_mesh, "'fft', or 'auto' where that is the mesh, on a cluster", far),
            ("kernel", one_kernel, "the same for all points on a cluster", repr(kernel)),
            ("divergence", with_formulas, "with a kernel and a normalization of linear time on a cluster", together),
        ):
            if not fine and engine is None:
                return False
            if not fine:
                raise refused_on_cluster(owner, argument, expected, got)
        return True

    def _noise(self) -> NoisePairs | None:
        """Return what ``far`` says about sampled pairs, None if it says another thing."""
        if isinstance(self.far, str):
            return NoisePairs() if self.far == "noise" else None
        far: Any = self.far
        return far if hasattr(far, "n_samples") else None

    def _field(self, n: int, divergence: Any, *, per_point: bool = False) -> Field:
        """Return the far field that ``far`` names, or a fresh copy of the one given."""
        owner, far, d = type(self).__name__, self.far, self.n_components
        if not isinstance(far, str):
            if not all(hasattr(far, name) for name in ("place", "evaluate", "total")):
                raise InputError(
                    owner, "far", f"one of {', '.join(map(repr, FAR))} or a field of nearfar.far", repr(far)
                )
            return far.with_params() if isinstance(far, Part) else far
        check_choice(owner, "far", far, FAR)
        if far == "fft" and d > 2:
            hint = "The mesh has one or two dimensions: for three there is far='barnes-hut', too."
            raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
        if far == "barnes-hut" and d > 3:
            raise InputError(owner, "far", "'exact' for more than three components", "'barnes-hut'")
        accuracy = divergence.accuracy
        if far == "fft" or (far == "auto" and d <= 2 and n > EXACT_UP_TO):
            tolerance = accuracy.few if n < accuracy.many_from else accuracy.many
            return MeshField(min(tolerance, PER_POINT_TOLERANCE) if per_point and n < FEW_POINTS else tolerance)
        if far == "barnes-hut" or (far == "auto" and d == 3 and n > TREE_FROM and self._device is None):
            return BarnesHutField(accuracy.angle)
        if far == "auto" and n > MANY:
            _warn_of_pairs(owner, f"{d} components", n)
        return ExactField()

    def _torch_device(self) -> Any:
        """Return the device that was asked for."""
        owner, name = type(self).__name__, "device" if self.device is not None else "engine"
        require(f"{owner}({name}=)", "torch", "torch")
        return on_device("device")(owner, self._device, name)

    def _is_plain(self, asked: str | None, n: int) -> bool:
        """Return whether n points are drawn in plain NumPy: by name, or so few that nothing need be compiled for them.

        Raises
        ------
        InputError
            By name, what is not done there.
        """
        for argument, fine, expected in (
            ("far", isinstance(self.far, str) and self.far in ("auto", "exact"), "'auto' or 'exact'"),
            ("storage", self.storage is None, "None"),
            ("learn", not getattr(self, "learn", False), "False"),
        ):
            if not fine and asked == PLAIN:
                value = getattr(self, argument)
                hint = "Take engine='threads'."
                raise InputError(type(self).__name__, argument, f"{expected} with engine={PLAIN!r}", repr(value), hint)
            if not fine:
                return False
        return asked == PLAIN or (asked is None and n <= FEW and self.far == "auto")

    def _phases(self, problem: Problem) -> list[Phase]:
        """Return what is minimised when: exaggerated KL first, then the divergence itself.

        Where the kernel has short tails and the divergence is another than KL, the first phases are those of t-SNE,
        exaggerated and then not: its long tails bring groups together that short ones leave apart.

        The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
        over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
        shorter, and so the more the harder the divergence pulls.
        """
        P, divergence, kernel, normalization, *_ = problem
        n = P.shape[0]
        reach, _ = extent(kernel, n)
        early_rate = late_rate = n / 4 * reach**2
        formulas = linear_formulas(divergence, 1 / ((n - 1) * (1 if normalization == "row" else n)))
        has_tails = kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max() > _SHORT
        if has_tails:
            longest, momentum = reach, LATE_MOMENTUM[bool(formulas is not None and formulas.far_log > 0)]
        else:
            longest, momentum = 0.3 * reach, EARLY_MOMENTUM
            if formulas is not None:  # how strongly a typical pair is drawn together, in units of p, that of KL
                typical = np.array([P.typical()])
                late_rate /= float((strength_of(formulas, typical, typical) / typical)[0])
        early, late = float(self.early_exaggeration), float(self.exaggeration)
        rates = early_rate / early, late_rate / late
        if self.learning_rate != "auto":
            rates = (float(self.learning_rate),) * 2
        early_iter = 0 if normalization == "none" else min(self.early_exaggeration_iter, self.max_iter)
        decays = self._noise() is not None  # or the noise would keep the points moving
        as_tsne = not has_tails and divergence != KL() and family_of(kernel) is None
        more = min(early_iter, (self.max_iter - early_iter) // 2) if as_tsne else 0
        phases = []
        if as_tsne and early_iter:
            student, given = HeavyTailed(1.0, 1 / reach**2), self.learning_rate != "auto"
            options: Any = {"longest": reach, "may_stop": False, "early": True, "kernel": student}
            phases.append(Phase(early_iter, early, rates[0], EARLY_MOMENTUM, **options))
            phases.append(Phase(more, 1.0, rates[1] if given else early_rate, LATE_MOMENTUM[0], **options))
        elif early_iter:
            options = {"longest": longest, "may_stop": False, "early": divergence != KL()}
            phases.append(Phase(early_iter, early, rates[0], EARLY_MOMENTUM, **options))
        n_iter = self.max_iter - early_iter - more
        phases.append(Phase(n_iter, late, rates[1], momentum, longest, may_stop=True, decays=decays))
        return phases

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        """Keep what was learned beside the map."""

    def _learned_kernel(self, kernel: Any) -> Any:
        """Return the kernel as a fit has left it."""
        return kernel

    def _weights_of(self, P: Any) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Return the importance of the points, if they have one."""
        return None

    def _kernel_of_new(self, kernel: Any) -> Any:
        """Return the kernel of new points, or a function of their probabilities that returns one for each."""
        return self._kernel_for(kernel, len(self.embedding_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warnings.warn(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One to three components (on a "
        "device one or two), and divergences and kernels with formulas, take (next to) linear time.",
        NearfarWarning,
        stacklevel=5,
    )


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
        own = {
            name: inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=vars(cls)[name], annotation=annotation
            )
            for name, annotation in inspect.get_annotations(cls).items()
            if name in vars(cls) and not name.startswith("_")
        }
        # A parameter that the class fills in is not shared, one with another default is its own.
        shared = [parameter for parameter in _SHARED[1:] if parameter.name not in vars(cls)]
        cls.__signature__ = inspect.Signature([_SHARED[0], *own.values(), *shared])

    def __init__(self, n_components: int = 2, **parameters: Any) -> None:
        # Bound to the published signature: a name that is not in it is a TypeError, as anywhere.
        try:
            given = self.__signature__.bind(n_components, **parameters)
        except TypeError as error:
            known = ", ".join(self.__signature__.parameters)
            raise TypeError(f"{type(self).__name__}() {error}; its parameters are {known}") from None
        given.apply_defaults()
        vars(self).update(given.arguments)


class TSNE(Recipe):
    """t-SNE: KL divergence, Student's t kernel, pairs; the map that everybody knows.

    Parameters
    ----------
    dof : float, default=1.0
        Degrees of freedom of Student's t, > 0, ``w = (1 + f / dof)^(-(dof + 1) / 2)``. Below 1 the tails are heavier,
        and clusters show finer structure; with many it is symmetric SNE.
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    van der Maaten & Hinton (2008), "Visualizing data using t-SNE". For ``dof``: Kobak, Linderman, Steinerberger, Kluger
    & Berens (2019), "Heavy-tailed kernels reveal a finer cluster structure in t-SNE visualisations".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TSNE(perplexity=10, max_iter=300, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    dof: float = 1.0

    divergence, normalization = divergences.KL(), "pair"

    @property
    def kernel(self) -> Any:
        """Student's t with ``dof`` degrees of freedom."""
        dof = check_real(type(self).__name__, "dof", self.dof, low=0, open_low=True)
        return StudentT() if dof == 1 else kernels.HeavyTailed(2 / (dof + 1), (dof + 1) / (2 * dof))


class SSNE(Recipe):
    """Symmetric SNE: KL divergence, exponential kernel, pairs.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Cook, Sutskever, Mnih & Hinton (2007), "Visualizing similarity data with a mixture of maps".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.SSNE(perplexity=10, max_iter=300, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    divergence, kernel, normalization = divergences.KL(), kernels.Exponential(), "pair"


class ASNE(Recipe):
    """SNE, the asymmetric original: KL divergence, exponential kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Hinton & Roweis (2002), "Stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.ASNE(perplexity=10, max_iter=300, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    divergence, kernel, normalization = divergences.KL(), kernels.Exponential(), "row"


class TASNE(Recipe):
    """t-ASNE: KL divergence, Student's t kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Melville, "sneer" documentation, embedding methods.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TASNE(perplexity=10, max_iter=300, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    divergence, kernel, normalization = divergences.KL(), kernels.StudentT(), "row"


class HSSNE(Recipe):
    """Heavy-tailed symmetric SNE: KL divergence, heavy-tailed kernel, pairs; SSNE at alpha = 0, t-SNE at 1.

    Parameters
    ----------
    alpha : float, default=0.5
        Heaviness of the kernel's tail, >= 0, see :class:`nearfar.kernels.HeavyTailed`.
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Yang, King, Xu & Oja (2009), "Heavy-tailed symmetric stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.HSSNE(perplexity=10, max_iter=300, random_state=0, alpha=2.0).fit_transform(X).shape
    (60, 2)
    """

    alpha: float = 0.5

    divergence, normalization = divergences.KL(), "pair"

    @property
    def kernel(self) -> Any:
        """The heavy-tailed kernel of ``alpha``."""
        return kernels.HeavyTailed(self.alpha)


class NeRV(Recipe):
    """Neighbour retrieval visualizer: KL and reverse KL mixed, exponential kernel, each row by itself.

    Parameters
    ----------
    lam : float, default=0.5
        From precision (0) to recall (1), see :class:`nearfar.divergences.NeRV`.
    floor : float, default=0.01
        What the reverse divergence takes p to be at least, as a share of the uniform distribution, in (0, 1).
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Venna, Peltonen, Nybo, Aidos & Kaski (2010), "Information retrieval perspective to nonlinear dimensionality
    reduction for data visualization". The precisions of the data are not carried over to the map's kernel, as in sneer.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.NeRV(perplexity=10, max_iter=300, random_state=0, lam=0.2).fit_transform(X).shape
    (60, 2)
    """

    lam: float = 0.5
    floor: float = 0.01

    kernel, normalization = kernels.Exponential(), "row"

    @property
    def divergence(self) -> Any:
        """The divergence of ``lam`` and ``floor``."""
        return divergences.NeRV(self.lam, self.floor)


class JSE(Recipe):
    """Jensen-Shannon embedding: mixture of KL and reverse KL, exponential kernel, each row by itself.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1], see :class:`nearfar.divergences.JensenShannon`.
    floor : float, default=0.01
        As for :class:`NeRV`; of use at kappa = 1 only.
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Lee, Renard, Bernard, Dupont & Verleysen (2013), "Type 1 and 2 mixtures of Kullback-Leibler divergences as cost
    functions in dimensionality reduction based on similarity preservation".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.JSE(perplexity=10, max_iter=300, random_state=0, kappa=0.2).fit_transform(X).shape
    (60, 2)
    """

    kappa: float = 0.5
    floor: float = 0.01

    kernel, normalization = kernels.Exponential(), "row"

    @property
    def divergence(self) -> Any:
        """The divergence of ``kappa`` and ``floor``."""
        return divergences.JensenShannon(self.kappa, self.floor)


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
    n_components, metric, metric_params, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, \
device, verbose, storage, engine
        As for :class:`NeighborEmbedding`, like methods and attributes.

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
    perplexity: float | Sequence[float] | str = 10.0
    n_samples: int = 15

    _usual_neighbors: ClassVar[int | None] = 15
    divergence, normalization = divergences.KL(), "pair"

    @property
    def far(self) -> Any:  # type: ignore[override]  # filled in, not a parameter
        """The pairs of noise."""
        return NoisePairs(self.n_samples, normalizer="umap")

    @property
    def kernel(self) -> Any:
        """The heavy-tailed kernel nearest to the curve of ``min_dist`` and ``spread``."""
        owner = type(self).__name__
        spread = check_real(owner, "spread", self.spread, low=0, open_low=True)
        return _kernel_of_curve(check_real(owner, "min_dist", self.min_dist, low=0, high=spread), spread)


@cache
def _kernel_of_curve(min_dist: float, spread: float) -> kernels.HeavyTailed:
    """Return the heavy-tailed kernel that is nearest to UMAP's curve, least squares over distances up to 3 spreads."""
    from scipy.optimize import curve_fit

    distance = np.linspace(0, 3, 300)
    wanted = np.minimum(1, np.exp(min_dist / spread - distance))

    def weight(distance: Any, log_alpha: float, log_beta: float) -> Any:
        return (1 + np.exp(log_alpha + log_beta) * distance**2) ** -np.exp(-log_alpha)

    # At alpha = e^-7 the kernel is exponential to three digits.
    (log_alpha, log_beta), _ = curve_fit(weight, distance, wanted, p0=(0, 0), bounds=((-7, -7), (7, 7)))
    return kernels.HeavyTailed(float(np.exp(log_alpha)), float(np.exp(log_beta)) / spread**2)


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
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
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
    >>> est = nf.WSSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> est.embedding_.shape, bool(est.weights_.max() > 1.2)
    ((60, 2), True)
    """

    weights: str | ArrayLike = "degree"

    weights_: NDArray[np.float64]

    divergence, kernel, normalization = divergences.KL(), kernels.StudentT(), "pair"

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if self._noise() is not None:
            raise InputError(type(self).__name__, "far", "another than 'noise' for weighted points", repr(self.far))
        self.weights_ = self._weights_of(problem.P.to_csr())
        return super()._objective(problem._replace(weights=self.weights_), place, rng)

    def _weights_of(self, P: Any) -> NDArray[np.float64]:
        return _importance(type(self).__name__, self.weights, P)


def _importance(owner: str, weights: Any, P: Any) -> NDArray[np.float64]:
    """Return the importance of the points, its mean 1: as given, or the sums of row and column of P."""
    n = P.shape[0]
    if isinstance(weights, str):
        if weights != "degree":
            raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights))
        # Gradients, importance weighted kernel: deg_i, of the factor deg_i deg_j of w_ij
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
    n_components, perplexity, n_neighbors, metric, metric_params, far, init, learning_rate, max_iter, \
early_exaggeration, early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, \
random_state, n_jobs, device, verbose, storage, engine
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
    >>> est = nf.InhomogeneousTSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> est.degrees_of_freedom_.shape
    (60,)
    """

    degrees_of_freedom: Any = 10.0
    learn: Any = "point"

    divergence, normalization = divergences.KL(), "row"

    @property
    def kernel(self) -> Any:
        """Student's t with the degrees of freedom at the start."""
        try:
            return InhomogeneousStudentT(self.degrees_of_freedom)
        except InputError:
            what, got = "a positive number, or one per point", repr(self.degrees_of_freedom)
            raise InputError(type(self).__name__, "degrees_of_freedom", what, got) from None

    def _checked(self) -> Parts:
        if self.learn is not False and self.learn not in _LEARN:
            raise InputError(type(self).__name__, "learn", "'point', 'global' or False", repr(self.learn))
        return super()._checked()

    def _kernel_for(self, kernel: Any, n: int) -> Any:
        if np.ndim(kernel.nu) and len(kernel.nu) != n:
            owner, expected = type(self).__name__, f"one number, or one per point ({n})"
            raise InputError(owner, "degrees_of_freedom", expected, f"{len(kernel.nu)} of them")
        return super()._kernel_for(kernel, n)

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if self.learn is False or self._noise() is not None:  # the noise is refused there
            return super()._objective(problem, place, rng)
        owner, n, divergence = type(self).__name__, problem.P.shape[0], problem.divergence
        kernel = InhomogeneousStudentT(np.broadcast_to(np.asarray(problem.kernel.nu, np.float64), n).copy())  # type: ignore[arg-type]
        where: Any = {"dtype": problem.dtype, "n_jobs": check_n_jobs(owner, self.n_jobs), "place": place}
        self._check_arrays(problem)
        learner = Learner(n, together=self.learn == "global")
        field = self._field(n, divergence, per_point=True)
        return per_point_objective(problem.P, kernel, divergence, field, learner=learner, **where)

    def _phases(self, problem: Problem) -> list[Phase]:
        # Learned degrees of freedom end nearer to 1 than to the exponential kernel, whose steps are short.
        return super()._phases(problem if self.learn is False else problem._replace(kernel=StudentT()))

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        n = len(state.Y)
        if hasattr(objective, "parameters"):
            nu = np.empty(n)
            nu[slice(None) if state.order is None else state.order] = objective.parameters
        else:
            nu = np.broadcast_to(np.asarray(self.degrees_of_freedom, np.float64), n)
        self.degrees_of_freedom_: NDArray[np.float32] = nu.astype(np.float32)

    def _kernel_of_new(self, kernel: Any) -> Any:  # noqa: ARG002 - that of the start, where it is learned
        log_nu = np.log(self.degrees_of_freedom_.astype(np.float64))
        return lambda P: [InhomogeneousStudentT(float(nu)) for nu in np.exp(P @ log_nu)]

    def _learned_kernel(self, kernel: Any) -> Any:  # noqa: ARG002
        return InhomogeneousStudentT(self.degrees_of_freedom_)  # type: ignore[arg-type]
