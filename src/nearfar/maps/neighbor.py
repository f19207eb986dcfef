"""Maps of points or graphs in which neighbours stay neighbours: any divergence x kernel x normalisation.

:class:`NeighborEmbedding` is the algorithm; the named methods of the family fill in three of its arguments, see
:mod:`nearfar.maps.recipes`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from nearfar._core import checks
from nearfar._core.atomic import folder_with_room
from nearfar._core.checks import (
    Check,
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_random_state,
    check_real,
    or_auto,
    require,
)
from nearfar._core.frames import without
from nearfar._core.ids import Ids, check_columns, rows_and_ids
from nearfar._core.parameters import keeps_arguments
from nearfar._core.types import Numbers, SparseMatrix
from nearfar._core.warn import warn_user
from nearfar.base import PointsLike
from nearfar.callbacks import Trainer
from nearfar.contracts import Divergence, Field, Floats, Kernel, Objective, Place
from nearfar.divergences.probability import KL, accuracy_of, as_divergence, is_kl, linear_formulas
from nearfar.embedding.vectors import Embedding
from nearfar.engines import (
    VERBS,
    Setting,
    asked_engine,
    device_of_engine,
    is_cluster,
    is_device,
    place_of,
)
from nearfar.engines.registry import (
    DASK,
    PLAIN,
    THREADS,
    current_client,
    on_cluster,
    on_device,
)
from nearfar.errors import InputError
from nearfar.far.barnes_hut import BarnesHutField
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.far.mesh import MeshField
from nearfar.far.registry import field_of_map
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, as_kernel, parameter_of_each
from nearfar.maps.density import SHARE, KeptDensity, correlation_of, has_distances, log_of, radii_of_data
from nearfar.maps.growing import GrowingMap
from nearfar.maps.noise import NoiseObjective, check_noise
from nearfar.maps.objective import (
    NORMALIZATIONS,
    NeighborObjective,
    Normalization,
    QuadraticObjective,
    is_linear_time,
    memory_of_pattern,
    probabilities,
)
from nearfar.maps.options import MapOptions
from nearfar.maps.per_point import COMPILED, IN_NUMPY, PerPointObjective, check_points
from nearfar.maps.problem import EXACT_UP_TO, EXACT_WITH_EXP, Data, Parts, Problem, Shown, of_first
from nearfar.maps.schedule import Pace, phases_of
from nearfar.maps.solver import Watch, check_watchers, extent, start
from nearfar.maps.transform import KernelOfEach, matched, place
from nearfar.methods.maps import LOOK_EVERY, AllPairs, MapState, Phase, cost_of_pull, descend, pull_of
from nearfar.relations.affinities import Affinities
from nearfar.relations.copies import Copies, without_copies
from nearfar.relations.matrix import Relation, as_relation, is_relation
from nearfar.relations.neighbors import check_rows, coordinates_of
from nearfar.search.given import are_neighbors
from nearfar.search.lists import FEW

if TYPE_CHECKING:
    from sklearn.utils import Tags

_OF_POINT = 200  # bytes for each point of a map whose pairs are in files
_OF_NEIGHBORS = ("perplexity", "n_neighbors", "metric", "metric_params")
TREE_FROM = 6000
"""Points from which on, with three components, far="auto" is the tree."""
_FELL = 1e-4
"""Share of itself by which the cost of a fit falls at least, once the exaggeration has ended."""
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""


class NeighborEmbedding(GrowingMap):
    """Map of points or of a graph in which neighbours stay neighbours: t-SNE and its whole family.

    Finds points y_i whose similarities, of the kernel w, reproduce those of the data::

        C = sum_ij c(p_ij, q_ij)      q_ij = w(‖y_i - y_j‖²) / S

    with the divergence c. S is the sum over all pairs, or over the row of i. The recipes :class:`TSNE`, :class:`SSNE`,
    :class:`ASNE`, :class:`TASNE`, :class:`HSSNE`, :class:`NeRV` and :class:`JSE` fill in divergence, kernel and
    normalisation. Time is O(n) per iteration with ``far="fft"``, memory about 20 bytes per pair of neighbours.

    Parameters
    ----------
    n_components : int, default=2
        d, the dimensions of the map. With more than three, all pairs of points are summed in every iteration, unless
        ``far="noise"``.
    divergence : {"kl", "reverse-kl", "nerv", "jensen-shannon"} or object, default="kl"
        The cost c: a name, an object of :mod:`nearfar.divergences` with its own parameters, or one of your own with
        ``value(p, q)`` and ``derivative(p, q)`` (quadratic time, unless it has :class:`nearfar.divergences.Formulas`).
    kernel : {"student-t", "exponential", "heavy-tailed"} or object, default="student-t"
        The similarity w: a name, an object of :mod:`nearfar.kernels`, or one of your own (quadratic time, unless it has
        :class:`nearfar.kernels.Formulas`; also with a parameter per point, for at most 20,000 points).
    normalization : {"pair", "row", "none"}, default="pair"
        How q is normalised: over all pairs, p being made symmetric; each row by itself; not at all, for a divergence
        of your own.
    perplexity : float, sequence of float, or "multiscale", default=30.0
        How many neighbours a point has, as it were. Of no use for a relation. The default is lowered to a third of the
        other points, with a warning, where they are few. See :class:`nearfar.Affinities`.
    n_neighbors : int or "all", optional
        Neighbours searched; by default 3 * perplexity.
    metric : str or callable, default="euclidean"
        Distance of the data, such as ``"euclidean"`` or ``"cosine"``. ``"precomputed"`` is for a matrix of distances or
        for neighbours.
    metric_params : dict, optional
        What the metric needs beside two rows, as for :class:`nearfar.Affinities`.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, another name, Field or NoisePairs, default="auto"
        Sums over all pairs: pair by pair, on a mesh (one or two components) or by a tree (up to three). ``"auto"`` is
        the mesh for more than 4,000 points (for kernels with exp or a power 750, 1,500 unless the divergence is KL),
        with three components the tree for more than 6,000; tolerance and angle: :class:`nearfar.far.MeshField`,
        :class:`nearfar.far.BarnesHutField`. ``"noise"`` samples pairs, for KL by pair and any number of components;
        :class:`nearfar.far.NoisePairs` says what is then the cost. Another name is one given to
        :func:`nearfar.far.register_field`.
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
        t-SNE, exaggerated less towards its end; as many of plain t-SNE follow (half of those that are left at most).
    exaggeration : float, default=1.0
        Factor of p after the first phase, for KL alone.
    min_grad_norm : float, default=1e-7
        Stop when the gradient is no longer than this.
    n_iter_without_progress : int, default=300
        Stop when the cost has not fallen for so many iterations after the first phase.
    density_weight : float, default=0.0
        lambda, >= 0: how strongly the map keeps where the data are dense. The last 30 % of the iterations minimise C
        less lambda times the correlation of the log local radii in data and map, see :mod:`nearfar.maps.density`, and
        none ends early. Rows, distances or affinities must be given, no pull; on NumPy or threads.
        :meth:`transform` and :meth:`grow` leave it out, and so do ``cost_`` and :meth:`cost_and_gradient`.
    callbacks : sequence of callable, optional
        Called every 50 iterations and at the end with a :class:`nearfar.callbacks.Progress`, whose ``epoch`` counts
        iterations and whose ``state.X`` holds the positions; if one returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed of start and neighbour search. The same seed gives the same bits, for any number of workers.
    n_jobs : int, optional
        Number of threads; None means all processors.
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
    density_correlation_ : float
        How well the map keeps densities: the correlation of the log local radii in data and map, of a map with any
        ``density_weight``. NaN of a relation without distances. Worked out when it is read.
    affinities_ : Affinities or None
        The calibrated neighbours of the data, a copy of a row having those of its first; None if a relation was given.
    relation_ : Relation
        What the map shows: that of the affinities, or the one given.
    growth_ : Growth
        After :meth:`grow`, or a fit with a pull: the ``status`` of each row, where it was ``before``, its ``shift``,
        whether it belongs ``nowhere``, and which ids ``left``. ``growth_.columns()`` are metadata for a page.
    n_features_in_ : int
        Columns of the data; only if data were given.
    feature_names_in_ : ndarray of shape (p,)
        Their names; only if the data were a frame whose columns have string names.

    See Also
    --------
    nearfar.Affinities : the input side on its own, to be kept and used again.

    Notes
    -----
    Points without any relation (isolates of a graph, rows that have nothing in common with others) take part in the
    sums over all pairs, and are pushed to the rim. Equal rows of data are one point: the map is that of the different
    rows, each copy in the place of its first. ``nearfar.relations.affinities`` says which rows have neighbours.

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

    _checks: ClassVar[dict[str, Check]] = {
        "normalization": partial(check_choice, choices=NORMALIZATIONS),
        "learning_rate": or_auto(partial(check_real, low=0, open_low=True)),
        "max_iter": partial(check_integer, low=1),
        "early_exaggeration_iter": partial(check_integer, low=0),
        "n_iter_without_progress": partial(check_integer, low=0),
        "early_exaggeration": partial(check_real, low=1),
        "exaggeration": partial(check_real, low=0, open_low=True),
        "min_grad_norm": partial(check_real, low=0),
        "density_weight": partial(check_real, low=0),
    }

    divergence: Literal["kl", "reverse-kl", "nerv", "jensen-shannon"] | Divergence
    kernel: Literal["student-t", "exponential", "heavy-tailed"] | Kernel
    normalization: Normalization
    cost_curve_: NDArray[np.float64]
    n_iter_: int

    _usual_neighbors: ClassVar[int | None] = None
    """Neighbours where ``n_neighbors`` is None and there are as many; 3 * perplexity if this is None."""

    @keeps_arguments
    def __init__(
        self,
        n_components: int = 2,
        *,
        divergence: Literal["kl", "reverse-kl", "nerv", "jensen-shannon"] | Divergence = "kl",
        kernel: Literal["student-t", "exponential", "heavy-tailed"] | Kernel = "student-t",
        normalization: Normalization = "pair",
        **options: Unpack[MapOptions],
    ) -> None: ...

    @property
    def _device(self) -> str | None:
        """The device of torch that was asked for."""
        asked_engine(type(self).__name__, self.engine, ready=False)
        return device_of_engine(self.engine)

    def fit(
        self,
        X: Data,
        y: None = None,  # noqa: ARG002 - scikit-learn passes y
        *,
        pull: Embedding | Numbers | None = None,
        pull_weight: float | Numbers | None = None,
    ) -> Self:
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
        pull : Embedding or array-like of shape (n, d), optional
            Positions to which points are drawn: those of an older map, matched by id, or one for each row, NaN for
            none. The map starts there, without an exaggerated phase. Rows without a place find theirs as by
            :meth:`grow`; ids that X lacks are left out.
        pull_weight : float or array-like of shape (n,), optional
            m_i of the pull, (1/n) sum_i m_i / 2 ‖y_i - y0_i‖² beside C; 0 for rows that are free to find another place.
            By default 0.02 n / r² with the radius r of the places, about 0.01 for a map of t-SNE, and beside new rows
            points rest that have nothing to do with these, see :meth:`grow`.

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

        Warns
        -----
        NearfarWarning
            Ctrl-C ended the fit, which keeps the map of about the last look, 50 iterations at most before. Until the
            first one, and while neighbours are searched, KeyboardInterrupt comes out, the estimator as it was.
        """
        parts = self._checked()
        asked = self._asked(parts)
        if self.density_weight and pull is not None:
            raise InputError(type(self).__name__, "density_weight", "0 with a pull", self.density_weight)
        rng = check_random_state(type(self).__name__, self.random_state)
        X, left_out = coordinates_of(type(self).__name__, X, self.metric)
        with self._workers(asked, parts):
            shown = self._related(X, rng, fits=True, on_workers=partial(self._on_workers, asked, parts))
            problem = self._problem(parts, asked, shown)
            drawn = self._drawn(problem, shown, pull, pull_weight, rng)
            Y, reach = self._start(problem, shown, rng) if drawn is None else (drawn.Y, 0.0)
            with self._place(problem) as place, self._trainer() as trainer:
                objective = self._objective(problem._replace(dtype=Y.dtype), place, rng)
                watch = self._watch(Y, problem, trainer)
                if drawn is None:
                    minimised, phases = objective, self._phases(problem)
                    if self.density_weight:  # it counts at the end: none stops before
                        n_jobs = check_n_jobs(type(self).__name__, self.n_jobs)
                        of_data, begins = log_of(radii_of_data(problem.P)), self.max_iter - round(SHARE * self.max_iter)
                        weight = self.density_weight / watch.scale
                        minimised = KeptDensity(objective, place, problem.P, of_data, weight, begins, n_jobs)
                        phases = [replace(phase, may_stop=False) for phase in phases]
                    descend(place, minimised, phases, watch)
                else:
                    drawn.descend(place, objective, self._phases_of_pull(problem, self.max_iter), watch)
        self._keep(shown, objective, watch.state)
        self._keep_features(X, shown.data, left_out)
        self._keep_growth(drawn, pull)
        if drawn is None:
            self._warn_of_rest(watch.state, reach)
        return self

    def transform(self, X: PointsLike) -> Floats:
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
            A row without any relation, or with nothing in common with those of the fit (a warning), goes to the mean
            of the map.

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
        elsewhere = None
        if self._device is not None:
            require(f"{owner}(engine=)", "torch", "torch")
            device = on_device("device")(owner, self._device, "engine")
            elsewhere = partial(on_device("places of new points"), device)
        P_new: SparseMatrix | Numbers
        if isinstance(X, Relation):
            P_new = matched(f"{owner}.transform", X, self.relation_.row_ids)
            ids: Ids | None = X.row_ids
        else:
            X = without(X, self._left_out or getattr(self.affinities_, "_left_out", ()))
            rows, ids = rows_and_ids(f"{owner}.transform", X)
            P_new = rows  # checked by what searches it, or places it
            if self.affinities_ is not None:
                fitted = getattr(self.affinities_, "feature_names_in_", None)
                check_columns(f"{owner}.transform", X, getattr(self, "feature_names_in_", fitted))
                P_new = self.affinities_.transform(rows)
        points = self.embedding_
        if (copies := self._copies) is not None:
            P_new, points = copies.gathered(cast("csr_array", P_new)), points[copies.first]
        placed = place(
            P_new,
            points,
            self._kernel_of_new(kernel),
            divergence,
            n_jobs=check_n_jobs(owner, self.n_jobs),
            owner=f"{owner}.transform",
            elsewhere=elsewhere,
        )
        return self._output(placed, X, lambda: ids)

    def cost_and_gradient(
        self,
        positions: Numbers,
        X: Data | None = None,
        *,
        pull: Embedding | Numbers | None = None,
        pull_weight: float | Numbers | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the cost of a map at some positions, and its gradient: for an optimiser or an analysis of one's own.

        With D_ij = dC/dq_ij, by pair::

            dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j)      k_ij = [D_ij - sum_kl q_kl D_kl] w'(f_ij) / S

        and by row with S_i for S and the sum over the row. All pairs are summed in float64, O(n²) time, whatever
        ``far`` says; nothing is exaggerated. A pull adds ``(1/n) sum_i m_i / 2 |y_i - y0_i|²`` to the cost.

        Parameters
        ----------
        positions : array-like of shape (n, d)
            A row per point, for any d. Copies of a row count by the mean of their positions.
        X : as for :meth:`fit`, optional
            What the map shows; by default that of the fit. A fit is not needed then, nor changed.
        pull, pull_weight : as for :meth:`fit`, optional
            A pull to given places; by default there is none, also after a fit with one.

        Returns
        -------
        cost : float
            As ``cost_`` is reported, which is without a pull: by row the mean over the rows.
        gradient : ndarray of shape (n, d), float64
            Of that cost.

        Raises
        ------
        NotFittedError
            Before a fit, without X.
        InputError
            Positions of another number of rows; sampled pairs, whose cost is another one; a pull that fits no row.

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
            drawn = self.relation_ if self._copies is None else cast("Affinities", self.affinities_)._drawn()
            shown = Shown(drawn, self.affinities_, None, copies=self._copies)
        else:
            X = coordinates_of(owner, X, self.metric)[0]
            shown = self._related(X, check_random_state(owner, self.random_state))
        if self._noise() is not None:
            raise InputError(owner, "far", "another than 'noise'", repr(self.far), "Sampled pairs have another cost.")
        P, copies, n = probabilities(owner, shown.relation, normalization).to_csr(), shown.copies, shown.n_rows
        Y: Floats = check_matrix(owner, "positions", positions, rows=n).astype(np.float64)
        kernel = of_first(self._kernel_for(self._learned_kernel(kernel) if X is None else kernel, n), copies)
        Y = Y if copies is None else copies.means(Y)
        if normalization == "pair":
            P = csr_array((P + P.T) / 2)
        pairs = AllPairs(P, kernel, divergence, normalization, weights=self._weights_of(P, copies))
        value, slopes = pairs.value_and_gradient(Y)
        scale = 1.0 if normalization == "pair" else 1 / len(Y)
        value, gradient = value * scale, np.asarray(slopes * scale, np.float64)
        held = self._pull(owner, shown, pull, pull_weight, Y.shape[1])
        if held is not None:
            held = held.of_different(copies)
            places, weights = np.where(held.known[:, None], held.places, Y), held.weights / len(Y)
            value += float(cost_of_pull(Y, places, weights)[0])
            pull_of(gradient, Y, places, weights)
        return value, gradient if copies is None else np.asarray(copies.shared(gradient), np.float64)

    @property
    def vectors_(self) -> Embedding:
        """The map with its ids and the parameters; an Embedding."""
        self._check_fitted("vectors_")
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        for name in _OF_NEIGHBORS:  # what was used; a relation has none of them
            parameters[name] = getattr(self.affinities_, name, None)
        return Embedding(self.embedding_, ids=self.relation_.row_ids, parameters=parameters)

    @property
    def density_correlation_(self) -> float:
        """The correlation of the log local radii in data and map."""
        self._check_fitted("density_correlation_")
        owner, copies = type(self).__name__, self._copies
        relation = self.relation_ if copies is None else cast("Affinities", self.affinities_)._drawn()
        Y = self.embedding_ if copies is None else self.embedding_[copies.first]
        return correlation_of(probabilities(owner, relation, "pair"), Y, check_n_jobs(owner, self.n_jobs))

    def expected_memory(self, X: Data) -> int:
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
        if is_relation(X):
            relation = as_relation(X, owner, "X")
            return self._memory(0, 0, relation.nnz, relation.shape[0])
        rows = cast("Any", rows_and_ids(owner, X)[0])
        given = are_neighbors(rows, self.metric)
        n = np.shape(rows[0] if given else rows)[0]
        return self._memory(*self._affinities(rows, None, n)._memory(owner, rows))

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
        pattern, beside = memory_of_pattern(nnz, dtype, self.normalization == "row")
        of_density = memory_of_pattern(nnz, dtype, by_row=False)[0] if self.density_weight else 0
        return pattern + of_density, beside

    def _check_memory(self, peak: int, kept: int, nnz: int, n: int, on_workers: bool) -> None:
        """Refuse a fit that does not fit into memory."""
        hint = "Take fewer neighbours (a smaller perplexity, n_neighbors=), or a sample of the rows; transform places"
        hint = f"{hint} the others; or storage=, a folder, which keeps neighbours and probabilities in files."
        checks.check_memory(type(self).__name__, "X", self._memory(peak, kept, nnz, n, on_workers), hint)

    # The steps of a fit.

    def _asked(self, parts: Parts) -> str | Place | None:
        """Return the engine that is asked for; refuse what it does not do, before any work."""
        asked: str | Place | None = asked_engine(type(self).__name__, self.engine, verbs=(*VERBS, "pairs", "field"))
        self._runs_on(asked, asked, parts)
        return asked

    def _workers(self, asked: str | Place | None, parts: Parts) -> AbstractContextManager[object]:
        """Keep a client for the search and the iterations, if workers do them and there is none."""
        if current_client() is not None or not self._on_workers(asked, parts):
            return nullcontext()
        client: AbstractContextManager[object] = on_cluster("client")(f"{type(self).__name__}.fit")
        return client

    def _problem(self, parts: Parts, asked: str | Place | None, shown: Shown) -> Problem:
        """Return what is minimised, and where."""
        owner, n, copies = type(self).__name__, len(shown.relation.row_ids), shown.copies
        check_integer(owner, "n_components", self.n_components, low=1, high=max(shown.n_rows - 1, 1))
        few = n <= FEW and self.far == "auto" and self._runs_on(PLAIN, None, parts)
        engine = asked if asked is not None else PLAIN if few else THREADS
        if self._on_workers(asked, parts, n):
            engine = DASK
        P = probabilities(owner, shown.relation, parts.normalization, on_workers=engine == DASK)
        if self.density_weight and not has_distances(P):
            expected, hint = "0 for a relation, which has no distances", "Give rows, distances, or fitted Affinities."
            raise InputError(owner, "density_weight", expected, self.density_weight, hint)
        if self.storage is not None:
            needed = self._of_pattern(shown.relation.nnz)[0]
            P.storage = folder_with_room(owner, "storage", self.storage, needed)
        kernel = of_first(self._kernel_for(parts.kernel, shown.n_rows), copies)
        return Problem(P, parts.divergence, kernel, parts.normalization, engine, copies=copies)

    def _start(self, problem: Problem, shown: Shown, rng: np.random.Generator) -> tuple[Floats, float]:
        """Return first positions, and the reach of the kernel."""
        owner, n = type(self).__name__, problem.P.shape[0]
        of_rows = shown.affinities is not None and isinstance(self.init, str) and self.init == "pca"
        reach, size = extent(problem.kernel, n)
        rows = shown.data
        if shown.affinities is not None and of_rows:
            rows = cast("Floats | SparseMatrix | None", shown.affinities.rows_)
        shape, n_jobs = (n, self.n_components), check_n_jobs(owner, self.n_jobs)
        return start(owner, self.init, rows, problem.P, shape, rng, n_jobs, size, problem.copies), reach

    def _place(self, problem: Problem) -> AbstractContextManager[Place]:
        """Give the place of the fit."""
        owner = type(self).__name__
        setting = Setting(owner=owner, n_jobs=check_n_jobs(owner, self.n_jobs), P=problem.P, sums_stay=True)
        return place_of(problem.engine, setting)

    def _trainer(self) -> Trainer:
        owner, verbose = type(self).__name__, self.verbose
        return Trainer(owner, self.max_iter, callbacks=self.callbacks, verbose=verbose, unit="iteration", keeps=True)

    def _watch(self, Y: Floats, problem: Problem, trainer: Trainer) -> Watch:
        scale = 1.0 if problem.normalization == "pair" else 1 / len(Y)
        rules = self.min_grad_norm, self.n_iter_without_progress
        return Watch(type(self).__name__, MapState(Y, same=problem.same), scale, *rules, trainer)

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:
        """Set the results."""
        if shown.affinities is not None and not shown.given:
            shown.relation.operator.release()  # type: ignore[attr-defined] # P is done with
        self.embedding_ = state.X
        self.affinities_, self._copies = shown.affinities, shown.copies
        self.relation_ = shown.relation if shown.copies is None else cast("Affinities", shown.affinities).relation_
        self.cost_curve_ = np.column_stack([state.cost_iterations, state.costs])
        self._cost = float(state.costs[-1]) if state.costs else None
        self.n_iter_ = state.seen if state.costs else state.n_iter
        self._keep_learned(objective, state)

    def _related(
        self,
        X: Data,
        rng: np.random.Generator,
        *,
        fits: bool = False,
        on_workers: Callable[[int], bool] | None = None,
    ) -> Shown:
        """Return the relation behind X, its affinities unless X is a relation, and the rows of numbers, if any.

        ``fits`` says that a fit will follow, which must fit into memory; ``on_workers``, whether workers search the
        neighbours of so many points, and make the pattern.
        """
        if is_relation(X):
            shown = Shown(as_relation(X, type(self).__name__, "X"), None, None)
        elif isinstance(X, Affinities):
            X._check_fitted("relation_")
            shown = Shown(X._drawn(), X, None, given=True, copies=X._copies)
        else:
            return self._searched(X, rng, fits, on_workers)
        n, nnz, affinities = shown.relation.shape[0], shown.relation.nnz, shown.affinities
        if fits and nnz > checks.SMALL:
            self._check_memory(0, 0, nnz, n, on_workers is not None and on_workers(n))
        for name in _OF_NEIGHBORS:  # which are given
            value, usual = getattr(self, name), self._published(name)
            used = usual if affinities is None else getattr(affinities, name)
            if not (np.array_equal(value, usual) or np.array_equal(value, used)):
                instead = "a Relation needs none" if affinities is None else f"the Affinities have {used!r}"
                warn_user(f"{type(self).__name__}: {name}={value!r} has no effect: {instead}.")
        return shown

    def _searched(
        self, X: Data, rng: np.random.Generator, fits: bool, on_workers: Callable[[int], bool] | None
    ) -> Shown:
        """Return the relation of rows to their neighbours, which are searched and calibrated."""
        owner = type(self).__name__
        rows, ids = rows_and_ids(owner, X)
        given = are_neighbors(rows, self.metric)
        data, copies = without_copies(owner, check_rows(owner, rows, self.metric), self.metric)
        n = len(data[0]) if given else data.shape[0]
        n_all = n if copies is None else len(copies.same)
        made = self._affinities(data, int(rng.integers(2**31 - 1)), n_all)
        client = current_client() if on_workers is not None and on_workers(n) else None
        if fits and (given or 100 * n > checks.SMALL):
            self._check_memory(*made._memory(owner, data), client is not None)
        if fits and self.storage is not None:  # before the search, which may take an hour
            nnz = made._memory(owner, data)[2]
            folder_with_room(owner, "storage", self.storage, 8 * nnz * (not given) + self._of_pattern(nnz)[0])
        affinities = made._fit(data, ids, owner, client, copies=copies)
        if made.perplexity != self.perplexity:
            warn_user(f"{owner}: perplexity {made.perplexity:.3g}, a third of the {n_all - 1} other points.")
        if not affinities.distances_[:, -1].any():
            warn_user(f"{owner}: all {n} rows of X are equal: a map shows nothing.")
        return Shown(affinities._drawn(), affinities, None if self.metric == "precomputed" else data, copies=copies)

    def _affinities(self, rows: ArrayLike, seed: int | None, n: int) -> Affinities:
        """Return the affinities that a fit to these rows, n with copies, makes, not fitted."""
        k, perplexity, given = self.n_neighbors, self.perplexity, are_neighbors(rows, self.metric)
        if k is None and self._usual_neighbors is not None and not given:
            k = max(min(self._usual_neighbors, np.shape(rows)[0] - 1), 1)
        if n > 3 and isinstance(perplexity, int | float) and perplexity == self._published("perplexity"):
            perplexity = min(perplexity, (n - 1) / 3)
        engine = None
        if self.metric == "precomputed" or (self.metric in ("euclidean", "cosine") and not issparse(rows)):
            asked_engine(type(self).__name__, self.engine, ready=False)
            engine = cast(str, self.engine) if is_device(self.engine) else None
        return Affinities(
            perplexity,
            n_neighbors=k,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
            random_state=seed,
            storage=self.storage,
            engine=engine,
        )

    def _warn_of_rest(self, state: MapState, reach: float) -> None:
        """Say that a map has stayed within the reach of its kernel, at the cost of its start."""
        first, *later = state.costs
        early = state.n_iter < self.early_exaggeration_iter + LOOK_EVERY  # which holds points together
        fell = early or min(later) < first - _FELL * abs(first)
        if not fell and state.X.std(axis=0).max() < reach:
            warn_user(
                f"{type(self).__name__}: the cost never fell: it was {first:.4g} at the start and is {self.cost_:.4g} "
                f"after {state.n_iter} iterations. The kernel may be flat where the points start: give a wider start, "
                "an array of shape (n, d), as init. Or the steps are too short or too few: take a larger learning_rate "
                "or max_iter."
            )

    def _published(self, name: str) -> Any:
        """Return the default of a parameter."""
        return inspect.signature(type(self)).parameters[name].default

    def _checked(self) -> Parts:
        """Return divergence, kernel and normalisation; refuse parameters that cannot be used."""
        owner = type(self).__name__
        divergence, kernel, normalization = self.divergence, self.kernel, self.normalization
        self._check_parameters()
        divergence, kernel = as_divergence(owner, divergence), as_kernel(owner, kernel)
        if normalization == "none" and getattr(divergence, "for_probabilities", False):
            hint = "Those of nearfar.divergences are for probabilities."
            raise InputError(owner, "normalization", "'pair' or 'row' for this divergence", "'none'", hint)
        check_watchers(owner, self.callbacks, "init=est.embedding_, early_exaggeration_iter=0")
        if self.exaggeration != 1 and divergence != KL():
            hint = "The first phase, which KL governs, has early_exaggeration."
            raise InputError(owner, "exaggeration", "1 for another divergence than KL", self.exaggeration, hint)
        return Parts(divergence, kernel, normalization)

    def _kernel_for(self, kernel: Kernel, n: int) -> Kernel:
        """Return the kernel for n points: one with a single parameter where that of all points is the same."""
        name = parameter_of_each(kernel)
        if name is None:
            return kernel
        parameters = np.asarray(getattr(kernel, name))
        if len(parameters) != n:
            owner, hint = type(kernel).__name__, "They are in the order of the rows."
            raise InputError(owner, name, f"one number, or one per point ({n})", len(parameters), hint)
        alike: Kernel = (
            kernel if np.ptp(parameters) else cast("Any", kernel).with_params(**{name: float(parameters[0])})
        )
        return alike

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        """Return what is minimised: in linear time if there is a way for these parts, else pair by pair."""
        P, divergence, kernel, normalization, *_ = problem
        owner, n = type(self).__name__, P.shape[0]
        n_jobs = check_n_jobs(owner, self.n_jobs)
        where: dict[str, Any] = {"dtype": problem.dtype, "n_jobs": n_jobs, "place": place}
        if problem.engine == PLAIN:
            return QuadraticObjective(problem.counted(), kernel, divergence, normalization, problem.weights, n_jobs)
        if (noise := self._noise()) is not None:
            check_noise(owner, problem)
            return NoiseObjective(P, kernel, noise, rng=rng, **where)
        if is_linear_time(kernel, divergence, normalization):
            field = self._field(n, divergence, kernel)
            return NeighborObjective(P, kernel, divergence, normalization, field, weights=problem.weights, **where)
        self._check_arrays(problem)
        per_point = parameter_of_each(kernel) is not None
        if per_point and normalization == "row" and linear_formulas(divergence, 0.5) is not None:
            self._check_pairs(n, COMPILED)
            return PerPointObjective(problem.counted(), kernel, divergence, dtype=problem.dtype, n_jobs=n_jobs)
        self._check_pairs(n, IN_NUMPY if per_point else None)
        return QuadraticObjective(problem.counted(), kernel, divergence, normalization, n_jobs=n_jobs)

    def _check_arrays(self, problem: Problem) -> None:
        """Refuse parts that are for rows that are arrays, at another place than the threads of this machine."""
        if problem.engine not in (PLAIN, THREADS):
            hint = "They have no formulas, or a kernel for each point."
            expected = f"{THREADS!r} for this divergence, kernel and normalization"
            raise InputError(type(self).__name__, "engine", expected, repr(problem.engine), hint)

    def _check_pairs(self, n: int, pairs_a_second: float | None) -> None:
        """Refuse sums over all pairs where something else was asked for, or are too many; warn of many."""
        owner = type(self).__name__
        if self.far not in ("auto", "exact"):
            hint = (
                "Linear time takes a divergence and a kernel with formulas, the same for all points, and probabilities."
            )
            raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", self.far, hint)
        if pairs_a_second is not None:
            check_points(owner, n, self.max_iter, check_n_jobs(owner, self.n_jobs), pairs_a_second)
        elif n > MANY:
            _warn_of_pairs(owner, "This divergence, kernel and normalization", n)

    def _on_workers(self, asked: str | Place | None, parts: Parts, n: int = EXACT_UP_TO + 1) -> bool:
        """Return whether the iterations run on a cluster: by name, or in the context of a client if workers can."""
        return is_cluster(asked) and self._runs_on(DASK, asked, parts, n)

    def _runs_on(
        self, engine: str | Place | None, asked: str | Place | None, parts: Parts, n: int = EXACT_UP_TO + 1
    ) -> bool:
        """Return whether an engine draws n points; what it does not do is refused where it was asked for by name."""
        beyond = next(self._beyond(engine, parts, n), None)
        if beyond is not None and asked is not None:
            raise InputError(type(self).__name__, *beyond, f"Or take engine={THREADS!r}.")
        return beyond is None

    def _beyond(self, engine: str | Place | None, parts: Parts, n: int) -> Iterator[tuple[str, str, str]]:
        """Yield what an engine does not do: an argument, what it may be there, what it is."""
        field, (divergence, kernel, normalization) = self._far(), parts
        if self.density_weight and engine not in (None, PLAIN, THREADS):
            yield "engine", f"{PLAIN!r} or {THREADS!r} with a density_weight", repr(engine)
        if engine == PLAIN and field not in ("auto", "exact"):
            yield "far", f"'auto' or 'exact' with engine={PLAIN!r}", repr(self.far)
        if engine == PLAIN and self.storage is not None:
            yield "storage", f"None with engine={PLAIN!r}", repr(self.storage)
        if engine != DASK:
            return
        # Workers sum charges on a mesh.
        if self.n_components not in (1, 2):
            yield "n_components", "1 or 2 on a cluster, as for the mesh", repr(self.n_components)
        on_mesh = field == "fft" or vars(type(field)).get("in_parts", False) or (field == "auto" and n > EXACT_UP_TO)
        if self._noise() is not None or not on_mesh:
            few = "" if n > EXACT_UP_TO else f", which sums pair by pair up to {EXACT_UP_TO} points"
            yield "far", "'fft', or 'auto' where that is the mesh, on a cluster", f"{self.far!r}{few}"
        if parameter_of_each(kernel) is not None or self._learns:
            yield "kernel", "the same for all points on a cluster", repr(kernel)
        if not is_linear_time(kernel, divergence, normalization):
            together = f"{divergence!r}, {kernel!r} and normalization={normalization!r}"
            yield "divergence", "with a kernel and a normalization of linear time on a cluster", together

    def _noise(self) -> NoisePairs | None:
        """Return what ``far`` says about sampled pairs, None if it says another thing."""
        far = self._far()
        return far if isinstance(far, NoisePairs) else None

    def _far(self) -> str | Field | NoisePairs:
        """Return what sums over all pairs: a field, pairs of noise, or the name of a built-in field."""
        return field_of_map(self.far, owner=type(self).__name__)

    def _field(self, n: int, divergence: Divergence, kernel: Kernel) -> Field:
        """Return the far field that ``far`` names, or a fresh copy of the one given."""
        owner, far, d = type(self).__name__, self._far(), self.n_components
        if not isinstance(far, str):
            return cast(Field, far)  # pairs that are sampled have no field
        if far == "fft" and d > 2:
            hint = "The mesh has one or two dimensions: for three there is far='barnes-hut', too."
            raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
        if far == "barnes-hut" and d > 3:
            raise InputError(owner, "far", "'exact' for more than three components", "'barnes-hut'")
        if far == "auto":  # the quickest for n points
            far, most = "exact", EXACT_UP_TO
            if isinstance(kernel, Exponential | HeavyTailed | InhomogeneousStudentT):
                most = min(EXACT_WITH_EXP[not is_kl(divergence)], most)
            if d <= 2 and n > most:
                far = "fft"
            elif d == 3 and n > TREE_FROM and self._device is None:
                far = "barnes-hut"
            elif n > MANY:
                _warn_of_pairs(owner, f"{d} components", n)
        if far == "exact":
            return ExactField()
        accuracy = accuracy_of(divergence)
        if far == "barnes-hut":
            return BarnesHutField(accuracy.angle)
        return MeshField(accuracy.few if n < accuracy.many_from else accuracy.many)

    @property
    def _learns(self) -> bool:
        """Whether the kernel is learned beside the positions."""
        return False

    def _phases(self, problem: Problem) -> list[Phase]:
        """Return what is minimised when."""
        early = self.early_exaggeration, self.early_exaggeration_iter
        pace = Pace(self.learning_rate, self.max_iter, *early, self.exaggeration)
        decays = self._noise() is not None  # or the noise would keep the points moving
        return phases_of(problem.P, problem.kernel, problem.divergence, problem.normalization, pace, decays=decays)

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        """Keep what was learned beside the map."""

    def _learned_kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel as a fit has left it."""
        return kernel

    def _weights_of(self, P: csr_array, copies: Copies | None) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Return the importance of the points, if they have one."""
        return None

    def _kernel_of_new(self, kernel: Kernel) -> Kernel | KernelOfEach:
        """Return the kernel of new points, or a function of their probabilities that returns one for each."""
        return self._kernel_for(kernel, len(self.embedding_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warn_user(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One to three components (on a "
        "device one or two), and divergences and kernels with formulas, take (next to) linear time."
    )
