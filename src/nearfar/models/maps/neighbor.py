"""`NeighborEmbedding`: maps of points or graphs, any divergence x kernel x normalisation, in linear time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._checks import (
    check_callbacks,
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_random_state,
    check_real,
)
from nearfar.divergences.probability import MapDivergence, as_divergence
from nearfar.errors import InputError
from nearfar.models._frames import FrameOutput, column_names
from nearfar.models.maps import _neighbor_start as setup
from nearfar.models.maps._master import NORMALIZATIONS
from nearfar.models.maps._neighbor_objective import Objective
from nearfar.models.maps._neighbor_setup import Pace, Parts, objective_of, phases_of, simplest
from nearfar.models.maps._neighbor_solver import Descent, MapState
from nearfar.optimize.callbacks import Checkpoint
from nearfar.relations.matrix import Relation
from nearfar.scores.kernels import as_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nearfar.embedding import Embedding
    from nearfar.far.fields import Field
    from nearfar.relations.affinities import Affinities


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
        from nearfar.models.maps._map_transform import place

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
        from nearfar.embedding import Embedding

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
