"""`EDRep`: unit vectors from any relation, with the softmax normaliser in linear time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._checks import check_n_jobs, check_random_state
from nearfar.errors import InputError
from nearfar.models import _edrep_setup as setup
from nearfar.models._base import RelationEmbedder, as_relation
from nearfar.models._edrep_solver import FarCheck, descend
from nearfar.models._edrep_transform import FrozenSide, transform

if TYPE_CHECKING:
    from nearfar.contracts import FarField
    from nearfar.embedding import Embedding
    from nearfar.relations.matrix import Relation


class EDRep(RelationEmbedder):
    """Efficient distributed representations: vectors whose softmax reproduces a relation.

    Minimises, over unit vectors x_i (and y_a, where rows and columns get vectors of their own; else y = x)::

        L = - sum_ia P_ia x_i . y_a  +  sum_i r_i log sum_a exp(x_i . y_a)  +  (sum_i r_i x_i) . (sum_a p0_a y_a)

    with r the row sums of P. The first sum is the near field, sparse and exact; the normaliser is the far field, by
    default a mixture of Gaussians: O(nnz d + n d²) time per epoch. Memory: the relation and at most 5 arrays of n x d.

    Parameters
    ----------
    n_components : int, default=32
        d, the length of a vector.
    n_epochs : int, default=30
        Sweeps over the relation.
    n_clusters : int, default=1
        Components of the Gaussian mixture. More than one: fit with one, cluster the vectors, fit again from the start.
    learning_rate : float in (0, 1], default=0.8
        Sine of the angle by which every vector moves in the first epoch.
    schedule : {"linear", "cosine", "constant", "plateau"}, default="linear"
        How the learning rate goes on: down to 0 at the last epoch, the same along a cosine, not at all, or halved
        whenever 3 epochs brought no lower loss.
    gradient : {"auto", "paper", "forward", "full"}, default="auto"
        ``"paper"``: eq. (6), the normaliser differentiated for the row's own vector only. ``"forward"``: that without
        the transposed terms, half the work; a sink then stays where it starts. ``"full"``: the exact gradient of the
        loss, as the far field estimates it. ``"auto"``: ``"forward"`` where the relation comes from an undirected one
        (its random walk, its row normalisation), where it was measured to be as good, else ``"paper"``.
    far : str or FarField, default="gaussian-mixture"
        The normaliser: ``"gaussian-mixture"``, ``"exact"`` (quadratic time), ``"performer"``, ``"rfa"``, ``"noise"`` (a
        sample of the others), or an object of :mod:`nearfar.far` with its own parameters.
    p0 : array-like of shape (m,), >= 0, or 0, optional
        Prior over the columns, scaled to sum 1. By default uniform over those that have a relation. The number 0 leaves
        the prior out.
    two_sided : bool, optional
        Whether rows and columns get vectors of their own. By default only where the relation is not square.
    constraint : {"sphere", "ball"}, default="sphere"
        Vectors of length 1, or at most 1.
    init : array-like of shape (n, d), Embedding, or pair of arrays, optional
        Start, projected to the constraint; random where a row is zero. With float64 the whole fit runs in it. From an
        :class:`nearfar.Embedding` the rows that it knows by id start where they were, others at random. A pair is
        (rows, columns) of a two-sided fit.
    tol : float, default=0
        Stop when 3 epochs lowered the loss by less than this, relative to its size; only under the schedules
        ``"constant"`` and ``"plateau"``. 0 never stops early.
    callbacks : sequence of callable, optional
        Called after every epoch with a :class:`nearfar.callbacks.Progress`; if one returns True, the fit ends (with
        several clusters also before the second fit). :class:`nearfar.callbacks.Checkpoint` keeps the state in a file.
    random_state : int, Generator or None, default=None
        Seed of the start. The same seed gives the same bits, for any number of workers.
    n_jobs : int, optional
        Number of threads; None means all processors.
    verbose : int, default=0
        1 shows a progress line on a terminal.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, d), float32
        The vectors of the rows. A row without any relation (an isolate) gets the zero vector.
    context_embedding_ : ndarray of shape (m, d), float32, or None
        The vectors of the columns of a two-sided fit.
    vectors_ : Embedding
        The same with ids.
    loss_curve_ : ndarray of shape (number of epochs,), float64
        Loss at the start of each epoch, by the far field in use, divided by the sum of the relation's weights; nats.
    loss_ : float
        The last of them.
    far_check_ : dict
        The far part of the final loss on a fixed sample of rows: ``"far"``, as estimated, ``"exact"``, and
        ``"standard_error"`` of the exact mean; nats per row.
    n_iter_ : int
        Epochs run.
    cluster_labels_ : ndarray of shape (m,), int64, or None
        Component of each object in the mixture, -1 for isolates; None with one component.

    See Also
    --------
    nearfar.log_normalizers : the far field on its own.

    Notes
    -----
    With ``gradient="full"``, two sides and a weak relation, all rows opposite to all columns lower this loss more than
    any structure does (near +1, far -1, prior -1): leave the prior out (``p0=0``) there.

    Isolates are left out of every statistic. A sink (empty row, used column) has r = 0, but stays in everybody's
    normaliser and is pulled by Pᵀ.

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling", arXiv 2303.17475 v3,
    algorithm 1, eqs. (2), (3), (5), (6); r != 1 as in its section 5.

    Examples
    --------
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges(tuple(edge) for edge in ("ab", "bc", "ac", "cd", "de", "ef", "df"))
    >>> est = nf.EDRep(n_components=2, random_state=0).fit(rel.random_walk(3))
    >>> est.embedding_.shape
    (6, 2)
    >>> [id for id, score in est.vectors_.most_similar("a", topn=2)]
    ['b', 'c']
    """

    _capabilities: ClassVar[frozenset[str]] = frozenset(
        {
            "relation-input",
            "matrix-input",
            "isolates-left-out",
            "deterministic",
            "any-n-jobs",
            "two-sided",
            "init",
            "transform",
            "resume",
        }
    )

    def __init__(
        self,
        n_components: int = 32,
        *,
        n_epochs: int = 30,
        n_clusters: int = 1,
        learning_rate: float = 0.8,
        schedule: str = "linear",
        gradient: str = "auto",
        far: str | FarField = "gaussian-mixture",
        p0: ArrayLike | None = None,
        two_sided: bool | None = None,
        constraint: str = "sphere",
        init: Any = None,
        tol: float = 0.0,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_epochs = n_epochs
        self.n_clusters = n_clusters
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.gradient = gradient
        self.far = far
        self.p0 = p0
        self.two_sided = two_sided
        self.constraint = constraint
        self.init = init
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    def fit(self, relation: Any, y: None = None, *, resume: Any = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Learn the vectors.

        Parameters
        ----------
        relation : Relation, sparse matrix or ndarray of shape (n, m)
            P, non-negative; usually ``rel.random_walk(3)`` or ``rel.normalized()``. A matrix has ids 0 .. n-1.
        y : None
            Ignored.
        resume : path-like, optional
            File of a :class:`nearfar.callbacks.Checkpoint` of this very fit, which is continued from there: the result
            has the same bits as that of a fit that was never interrupted.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter that cannot be used; more components or clusters than objects; a two-sided relation where one
            embedding was asked for; a checkpoint of another relation or of other parameters (which).
        FileFormatError
            ``resume`` is no checkpoint, or a damaged one.
        NumericalError
            The loss left the finite numbers.
        """
        whole = as_relation(relation)
        settings = setup.settings_of(self, whole)
        rel, kept = setup.without_isolates(self, whole)
        problem = setup.problem_of(self, rel, kept, settings.n_jobs)
        far, solver = setup.far_of(self, problem), setup.solver_of(self)
        if resume is None:
            rng = check_random_state("EDRep", self.random_state)
            state = setup.start_of(self, rel, kept, problem, rng, settings.n_jobs)
        else:
            state = setup.resumed(resume, settings, problem)
        if state.labels is None:
            state = descend(problem, state, far, solver, settings)
            if self.n_clusters > 1 and not state.stopped:
                labels = setup.clustered(state, problem, self.n_clusters, settings.n_jobs)
                state = setup.start_of(self, rel, kept, problem, state.rng, settings.n_jobs)
                state.labels = labels
        if state.labels is not None:
            far = setup.mixture_over(state.labels)
            state = descend(problem, state, far, solver, settings)
        problem.near.release()  # before the vectors are spread over all rows
        self._far_check = FarCheck.of(problem, state, far, kept.rows, settings.n_jobs)
        self._ids = (whole.row_ids, whole.column_ids)
        self._growth: dict[str, Any] = {}
        self.embedding_ = kept.spread(state.X)
        self.context_embedding_ = state.Y
        self._frozen = FrozenSide.of(problem, state, far, self._others, kept, on_sphere=self.constraint == "sphere")
        self.loss_curve_ = np.array(state.losses)
        self.loss_ = state.losses[-1]
        self.n_iter_ = state.epoch
        self.cluster_labels_ = None if state.labels is None else kept.spread(state.labels, -1)
        return self

    def transform(self, P_new: Any) -> NDArray[np.floating[Any]]:
        """Return vectors for new rows; everything that was fitted stays as it is.

        Each row is placed by itself where its own part of the loss is lowest, to rounding, given its relations to the
        fitted columns and their far field. So a row gets the same bits alone as among others.

        Parameters
        ----------
        P_new : Relation, sparse matrix or ndarray of shape (q, m)
            Relations of new rows to the fitted columns, made as those of the fit were. The columns of a Relation are
            found by their ids, in any order and not necessarily all; those of a matrix are in the order of the fit.
            Only the proportions within a row count.

        Returns
        -------
        ndarray of shape (q, n_components)
            A row without relations to any object that has a vector gets the zero vector.

        Raises
        ------
        InputError
            Another number of columns, or an entry that is negative, NaN or infinite.
        UnknownIdError
            A column that was not in the fit.

        Notes
        -----
        A row of the fit, given again, is placed among the others *and itself*. It lands on its vector where the fit
        minimised just that: ``gradient="forward"`` (the default for undirected relations) or two sides, run to the end.

        Examples
        --------
        >>> import nearfar as nf
        >>> edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("d", "f")]
        >>> est = nf.EDRep(2, random_state=0).fit(nf.Relation.from_edges(edges).random_walk(3))
        >>> new = nf.Relation.from_edges([("new", "a"), ("new", "b")], bipartite=True)
        >>> placed = nf.Embedding(est.transform(new), ids=new.row_ids)
        >>> [id for id, score in est.vectors_.most_similar(placed["new"], topn=3)]
        ['a', 'b', 'c']
        """
        self._check_fitted("transform")
        fitted_ids = self._ids[1]
        return transform(self._frozen, P_new, fitted_ids, self._others, check_n_jobs("EDRep", self.n_jobs))

    def grow(self, relation: Any, *, n_epochs: int = 5, learning_rate: float = 0.2) -> Self:
        """Take in new objects and new relations: a few epochs from where the vectors are.

        Objects are matched by id. Known ones start at their vectors, new ones where :meth:`transform` puts them (new
        columns at the mean of the rows related to them); those related to nothing known start at random. Objects that
        the new relation lacks are forgotten.

        Parameters
        ----------
        relation : Relation, sparse matrix or ndarray of shape (n, m)
            All relations, old and new, made as those of the fit were.
        n_epochs : int, default=5
            Sweeps over the relation.
        learning_rate : float in (0, 1], default=0.2
            Of the first of them.

        Returns
        -------
        self
            With the attributes of the new fit. The parameters stay; ``p0`` and labels of a far field that were given as
            arrays must fit the new relation too: set them first.

        Raises
        ------
        InputError
            As for :meth:`fit`; the estimator then is as before.

        Examples
        --------
        >>> import nearfar as nf
        >>> edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("d", "f")]
        >>> est = nf.EDRep(2, random_state=0).fit(nf.Relation.from_edges(edges).random_walk(3))
        >>> before = est.vectors_
        >>> edges += [("f", "g"), ("e", "g")]
        >>> after = est.grow(nf.Relation.from_edges(edges).random_walk(3)).vectors_
        >>> "g" in before, "g" in after
        (False, True)
        """
        from nearfar.models._edrep_growth import start_of_growth

        self._check_fitted("grow")
        rel = as_relation(relation)
        if setup.is_two_sided(self, rel) != (self.context_embedding_ is not None):
            raise InputError("EDRep.grow", "relation", "of as many sides as that of the fit", f"shape {rel.shape}")
        start = start_of_growth(self.vectors_, self._frozen, rel, check_n_jobs("EDRep", self.n_jobs))
        params = self.get_params(deep=False)
        changed = {"n_epochs": n_epochs, "learning_rate": learning_rate}
        grown = type(self)(**{**params, **changed, "init": start}).fit(rel)
        self.__dict__.update({name: value for name, value in vars(grown).items() if name not in params})
        self._growth = {f"growth_{name}": value for name, value in changed.items()}
        return self

    @property
    def _others(self) -> NDArray[np.floating[Any]]:
        """The vectors of the columns."""
        return self.embedding_ if self.context_embedding_ is None else self.context_embedding_

    @property
    def far_check_(self) -> dict[str, float]:
        """The far part of the final loss on a sample of rows, estimated and exact; O(n d) time at each look."""
        self._check_fitted("far_check_")
        return self._far_check.report(self.embedding_, self._others, check_n_jobs("EDRep", self.n_jobs))

    @property
    def vectors_(self) -> Embedding:
        """The vectors with their ids, both sides of a two-sided fit, and the parameters; an Embedding."""
        from nearfar.embedding import Embedding

        self._check_fitted("vectors_")
        row_ids, column_ids = self._ids
        two_sided = self.context_embedding_ is not None
        return Embedding(
            self.embedding_,
            ids=row_ids,
            context_vectors=self.context_embedding_,
            context_ids=column_ids if two_sided else None,
            parameters={"estimator": type(self).__name__, **self.get_params(deep=False), **self._growth},
        )

    def expected_memory(self, relation: Relation) -> int:
        """Return the bytes that a fit holds at its peak: the relation and the blocks of n x d float32 beside it.

        Blocks of a few rows per worker, and interpreter and libraries (about 150 MB), come on top.

        Parameters
        ----------
        relation : Relation, sparse matrix or ndarray
            What would be fitted.
        """
        return setup.expected_memory(self, as_relation(relation))
