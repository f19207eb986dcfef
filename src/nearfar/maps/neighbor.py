"""Maps of points or graphs in which neighbours stay neighbours: any divergence x kernel x normalisation.

:class:`NeighborEmbedding` is the algorithm; the named methods of the family fill in three of its arguments, see
:mod:`nearfar.maps.recipes`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_matrix, check_n_jobs, check_random_state, require
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import Numbers, SparseMatrix
from nearfar._core.warn import warn_user
from nearfar.base import PointsLike
from nearfar.contracts import Floats
from nearfar.embedding.vectors import Embedding
from nearfar.engines import DASK, asked_engine, current_client, device_of_engine, on_cluster, on_device
from nearfar.errors import InputError
from nearfar.far.fields import NoisePairs
from nearfar.far.registry import field_of_map
from nearfar.maps.drawing import OF_NEIGHBORS, Data, Shown
from nearfar.maps.growing import GrowingMap, Growth, away_from_known, pull_on
from nearfar.maps.objective import probabilities_of_map
from nearfar.maps.solver import start
from nearfar.maps.terms import correlation_of
from nearfar.maps.transform import matched, places_of_new
from nearfar.methods.affinities import symmetric
from nearfar.methods.descent import LOOK_EVERY, cost_of_pull, extent, pull_of
from nearfar.methods.maps import AllPairs
from nearfar.relations.affinities import Affinities
from nearfar.relations.matrix import Relation, as_relation, is_relation
from nearfar.relations.neighbors import coordinates_of
from nearfar.search.distances import are_neighbors

if TYPE_CHECKING:
    from sklearn.utils import Tags

_FELL = 1e-4
"""Share of itself by which the cost of a fit falls at least, once the exaggeration has ended."""


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
        The cost c: a name, an object of :mod:`nearfar.divergences` with its own parameters, or one of your own: a
        :class:`nearfar.divergences.Divergence` with ``value(p, q)`` and ``derivative(p, q)`` (quadratic time, unless it
        has :class:`nearfar.divergences.Formulas`).
    kernel : {"student-t", "exponential", "heavy-tailed"} or object, default="student-t"
        The similarity w: a name, an object of :mod:`nearfar.kernels`, or one of your own (quadratic time, unless it has
        :class:`nearfar.kernels.Formulas`; also with a parameter per point, for at most 20,000 points).
    normalization : {"pair", "row", "none"}, default="pair"
        How q is normalised: over all pairs, p being made symmetric; each row by itself; not at all, for a divergence
        of your own. Over pairs, a kernel with a parameter per point counts by the mean of w_ij and w_ji: p is
        symmetric, so q should be.
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
        for a kernel that is flat at distance 0 to one at which it pulls. An array is taken as it is, a frame or an
        Embedding by its ids; with float64 the whole fit runs in it. A fit whose cost never fell warns.
    learning_rate : float or "auto", default="auto"
        Length of a step per gradient of the cost as it is reported (as in scikit-learn; openTSNE's is four times that
        for the same step). "auto" is n / (4 exaggeration) for Student's t, less for kernels that fall quicker, and
        for long tails by row four times that after the first phase.
    max_iter : int, default=750
        Iterations, the early ones included.
    early_exaggeration : float, default=12.0
        Factor of p in the first phase, which KL governs whatever the divergence.
    early_exaggeration_iter : int, default=250
        Iterations of the first phase. For kernels with shorter tails than t-SNE, and for KL by row, it begins as t-SNE,
        and is exaggerated less towards its end; for other divergences than KL, and tails between those of the
        exponential and t-SNE, it is t-SNE to its end, and as many of plain t-SNE follow (half of those that are left at
        most).
    exaggeration : float, default=1.0
        Factor of p after the first phase, for KL alone.
    min_grad_norm : float, default=1e-7
        Stop when the gradient is no longer than this.
    n_iter_without_progress : int, default=300
        Stop when the cost has not fallen for so many iterations after the first phase.
    density_weight : float, default=0.0
        lambda, >= 0: how strongly the map keeps where the data are dense. The last 30 % of the iterations minimise C
        less lambda times the correlation of the log local radii in data and map, see :mod:`nearfar.maps.terms`, and
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
            Positions to which points are drawn: those of an older map, or a frame, matched by id, or one for each row,
            NaN for none. The map starts there, without an exaggerated phase. Rows without a place find theirs as by
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
        settings = self._settle()
        owner = settings.owner
        if self.density_weight and pull is not None:
            raise InputError(owner, "density_weight", "0 with a pull", self.density_weight)
        rng = check_random_state(owner, self.random_state)
        X, read_as = coordinates_of(owner, X, self.metric)
        client: AbstractContextManager[object] = nullcontext()
        if settings.engine == DASK and current_client() is None:  # one for the search and the iterations
            client = on_cluster("client")(f"{owner}.fit")
        with client:
            shown = self._related(X, rng, settings, fits=True)
            problem = self._problem(settings, shown)
            reach, size, _ = extent(problem.kernel, problem.P.shape[0])
            of_rows = Y = onto = None
            if pull is not None or pull_weight is not None:
                of_rows = pull_on(f"{owner}.fit", shown, pull, pull_weight, self.n_components)
            if of_rows is None or not isinstance(self.init, str):
                rows: Any = shown.data
                if shown.affinities is not None and isinstance(self.init, str) and self.init == "pca":
                    rows = shown.affinities.rows_
                shape = problem.P.shape[0], self.n_components
                init = self.init if isinstance(self.init, str) else in_order_of(owner, "init", self.init, shown.ids)
                Y = start(owner, init, rows, problem.P, shape, rng, settings.n_jobs, size, problem.copies)
            if of_rows is not None:
                onto = self._onto(problem, shown, of_rows, Y, rng, rests=pull_weight is None)
            objective, state = self._draw(problem, cast("Floats", Y) if onto is None else onto.Y, rng, onto)
        self._keep(shown, objective, state)
        self._keep_features(X, shown.data, read_as)
        if of_rows is not None:  # what has become of the points of the map that this one was drawn onto
            ids = getattr(pull, "ids", None)
            left = None if ids is None else ids.take(np.flatnonzero(self.vectors_.ids.rows(ids) < 0))
            before = of_rows.places.astype(self.embedding_.dtype)
            away = away_from_known(self.affinities_, ~of_rows.known)
            self.growth_ = Growth.of(self.embedding_, before, ~of_rows.known, away, left)
            self.growth_.warn(f"{owner}.fit")
            return self
        first, *later = state.costs
        early = state.n_iter < self.early_exaggeration_iter + LOOK_EVERY  # which holds points together
        fell = early or min(later) < first - _FELL * abs(first)
        if not fell and state.X.std(axis=0).max() < reach:  # it cost the start
            warn_user(
                f"{owner}: the cost never fell: it was {first:.4g} at the start and is {self.cost_:.4g} after "
                f"{state.n_iter} iterations. The kernel may be flat where the points start: give a wider start, an "
                "array of shape (n, d), as init. Or the steps are too short or too few: take a larger learning_rate or "
                "max_iter."
            )
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
        settings, elsewhere = self._settle(runs=False), None
        owner = settings.owner
        asked_engine(owner, self.engine, ready=False)
        if (name := device_of_engine(self.engine)) is not None:
            require(f"{owner}(engine=)", "torch", "torch")
            device = on_device("device")(owner, name, "engine")
            elsewhere = partial(on_device("places of new points"), device)
        P_new: SparseMatrix | Numbers
        if isinstance(X, Relation):
            P_new = matched(f"{owner}.transform", X, self.relation_.row_ids)
            ids: Ids | None = X.row_ids
        else:
            rows, ids = self._rows_as_fitted(f"{owner}.transform", X)
            P_new = rows  # checked by what searches it, or places it
            if self.affinities_ is not None:
                P_new = self.affinities_.transform(rows)
        points = self.embedding_
        if (copies := self._copies) is not None:
            P_new, points = copies.gathered(cast("csr_array", P_new)), points[copies.first]
        placed = places_of_new(
            P_new,
            points,
            self._kernel_of_new(settings.kernel),
            settings.divergence,
            n_jobs=settings.n_jobs,
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
        settings = self._settle(runs=False)
        kernel, normalization = settings.kernel, settings.normalization
        if X is None:
            self._check_fitted("cost_and_gradient")
            drawn = self.relation_ if self._copies is None else cast("Affinities", self.affinities_)._drawn
            shown = Shown(drawn, self.affinities_, None, self.relation_.row_ids, copies=self._copies)
        else:
            X = coordinates_of(owner, X, self.metric)[0]
            shown = self._related(X, check_random_state(owner, self.random_state), settings)
        if isinstance(field_of_map(self.far, owner=settings.owner), NoisePairs):
            raise InputError(owner, "far", "another than 'noise'", repr(self.far), "Sampled pairs have another cost.")
        P, copies = probabilities_of_map(owner, shown.relation, normalization).to_csr(), shown.copies
        n = P.shape[0] if copies is None else len(copies.same)
        Y: Floats = check_matrix(owner, "positions", positions, rows=n).astype(np.float64)
        kernel = self._kernel_of_rows(self._learned_kernel(kernel) if X is None else kernel, n, copies)
        Y = Y if copies is None else copies.means(Y)
        if normalization == "pair":
            P = csr_array(symmetric(P, P.T))
        pairs = AllPairs(P, kernel, settings.divergence, normalization, weights=self._weights_of(P, copies, shown.ids))
        slopes, found = pairs.evaluate(Y, cost=True)
        scale = 1.0 if normalization == "pair" else 1 / len(Y)
        value, gradient = cast(float, found) * scale, np.asarray(slopes * scale, np.float64)
        if pull is not None or pull_weight is not None:
            held = pull_on(owner, shown, pull, pull_weight, Y.shape[1]).of_different(copies)
            places, weights = np.where(held.known[:, None], held.places, Y), held.weights / len(Y)
            value += float(cost_of_pull(Y, places, weights)[0])
            pull_of(gradient, Y, places, weights)
        return value, gradient if copies is None else np.asarray(copies.shared(gradient), np.float64)

    @property
    def vectors_(self) -> Embedding:
        """The map with its ids and the parameters; an Embedding."""
        self._check_fitted("vectors_")
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        for name in OF_NEIGHBORS:  # what was used; a relation has none of them
            parameters[name] = getattr(self.affinities_, name, None)
        return Embedding(self.embedding_, ids=self.relation_.row_ids, parameters=parameters)

    @property
    def density_correlation_(self) -> float:
        """The correlation of the log local radii in data and map."""
        self._check_fitted("density_correlation_")
        owner, copies = type(self).__name__, self._copies
        relation = self.relation_ if copies is None else cast("Affinities", self.affinities_)._drawn
        Y = self.embedding_ if copies is None else self.embedding_[copies.first]
        return correlation_of(probabilities_of_map(owner, relation, "pair"), Y, check_n_jobs(owner, self.n_jobs))

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
        owner, settings = f"{type(self).__name__}.expected_memory", self._settle(runs=False)
        if isinstance(X, Affinities):
            X._check_fitted("relation_")
            return self._memory(settings, 0, 0, X.relation_.nnz, X.relation_.shape[0])
        if is_relation(X):
            relation = as_relation(X, owner, "X")
            return self._memory(settings, 0, 0, relation.nnz, relation.shape[0])
        rows = cast("Any", rows_and_ids(owner, X)[0])
        given = are_neighbors(rows, self.metric)
        n = np.shape(rows[0] if given else rows)[0]
        return self._memory(settings, *self._affinities(rows, None, n)._memory(owner, rows))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
