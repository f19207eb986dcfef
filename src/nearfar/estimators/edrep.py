"""`EDRep`: unit vectors from any relation, with the softmax normaliser in linear time.

The method is in :mod:`nearfar.methods.edrep`. A fit settles what it is (:mod:`nearfar.estimators.fitting`), runs
(:mod:`nearfar.estimators.fitting`), and keeps its results, which is here, with the parameters and their bounds.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import Check, check_choice, check_flag, check_integer, check_n_jobs, check_real, if_given
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.lazy import RowsInParts
from nearfar._core.parameters import keeps_fields
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Flags, Numbers, RowNumbers, Seed
from nearfar._core.warn import warn_user
from nearfar.base import RelationEmbedder, RelationLike
from nearfar.callbacks import Callback
from nearfar.contracts import FarField, Floats, Place
from nearfar.engines import asked_engine, on_a_cluster, on_cluster
from nearfar.errors import InputError
from nearfar.estimators.fitting import FitState, Settings, memory_of, run, settle, tried
from nearfar.estimators.tasks import OPEN, TASKS, Task, temperature_of, temperature_of_labels
from nearfar.estimators.transform import FittedColumns, weights_of
from nearfar.far.exact import Exact
from nearfar.far.registry import far_field
from nearfar.methods.edrep import CONSTRAINTS, SCHEDULES, onto_sphere
from nearfar.relations.matrix import Relation, as_relation

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from nearfar.embedding.vectors import Embedding

GRADIENTS = ("auto", "paper", "forward", "full")
COLDEST = 0.001  # scores then reach 1,000; their squares, which a mixture of Gaussians forms, are far from any limit
WRONG = 0.1  # mean relative error of the normalisers from which a fit warns
COLLAPSED = 0.9  # mean cosine of the rows, by their weights, from which a fit warns
N_CHECKED_ROWS = 128  # of which normalisers are compared with the exact ones


def check_temperature(owner: str, name: str, value: object) -> float:
    """Return ``value`` as float if scores can be divided by it; 1 for "auto", which will be such a number."""
    if isinstance(value, str) and value == "auto":
        return 1.0
    temperature = check_real(owner, name, value)
    if abs(temperature) < COLDEST:
        hint = "The score is the scalar product divided by it."
        raise InputError(owner, name, f"at least {COLDEST} in size", value, hint)
    return temperature


class Checked(NamedTuple):
    """Rows that are looked at, by number; their weights, log Z as the far field has it, how many others there are.

    ``base`` is the base measure of the far field, if it has one.
    """

    rows: RowNumbers
    weights: Doubles
    log_z: Doubles
    n_active: int
    base: Doubles | None


@keeps_fields
class EDRep(RelationEmbedder):
    """Efficient distributed representations: vectors whose softmax reproduces a relation.

    Minimises, over unit vectors x_i (and y_a, where rows and columns get vectors of their own; else y = x)::

        L = - sum_ia P_ia x_i . y_a  +  sum_i r_i log sum_a exp(x_i . y_a)  +  (sum_i r_i x_i) . (sum_a p0_a y_a)

    with r the row sums of P; scores x_i . y_a are divided by ``temperature`` if it is not 1, and a base measure w
    stands before each exponential. The first sum is the near field, sparse and exact; the normaliser is the far field,
    by default a mixture of Gaussians: O(nnz d + n d²) time per epoch. Memory: the relation and mostly at most 5 arrays
    of n x d, see :meth:`expected_memory`.

    Parameters
    ----------
    n_components : int, optional
        d, the length of a vector: 32, or by the task.
    task : {"links", "items", "labels", "communities"}, optional
        What the vectors are for: hidden relations of one kind of objects, items for users, labels of nodes, groups. It
        sets what is left open below, by the data (``choice_`` says what), and makes of a relation whose rows do not sum
        to 1 what the task needs: ``random_walk(3)``, of two kinds ``normalized(0.5)``. By default the relation is
        fitted as it is, by the method of the paper.
    n_epochs : int, optional
        Sweeps over the relation: 30, or by the task.
    n_clusters : int, optional
        Gaussians in the far field, by default one; more is more exact. More than one: fit with one, cluster the
        vectors, fit again from the start.
    learning_rate : float in (0, 1], default=0.8
        Size of the first step, the sine of the angle by which every vector moves.
    schedule : {"linear", "cosine", "constant", "plateau"}, default="linear"
        How the learning rate goes on: down to 0 at the last epoch, the same along a cosine, not at all, or halved
        whenever 3 epochs brought no lower loss.
    gradient : {"auto", "paper", "forward", "full"}, default="auto"
        ``"paper"``: eq. (6), the normaliser differentiated for the row's own vector only. ``"forward"``: that without
        the transposed terms, half the work; a sink then stays where it starts. ``"full"``: the exact gradient of the
        loss, as the far field estimates it. ``"auto"``: ``"forward"`` where the relation comes from an undirected one
        (its random walk, its row normalisation), where it was measured to be as good, else ``"paper"``; with a base
        measure ``"full"``.
    far : {"gaussian-mixture", "exact", "noise"}, str or FarField, default="gaussian-mixture"
        How normalisers are computed. ``"exact"`` takes quadratic time, ``"noise"`` a sample of the others. Also a name
        given to :func:`nearfar.far.register`, or a far field with its own parameters.
    base_measure : array-like or pandas Series of shape (m,), >= 0, or {"degrees", "uniform"}, optional
        w, how much each column counts before any vector is known: ``softmax(x . y / T + ln w)``. "degrees" are the
        column sums; a Series whose index holds ids goes by id. With one the gradient is "full" by default and there is
        no prior. By default, without a task, there is none.
    refine : float in [0, 1], optional
        The last share of the epochs has a finer far field: up to 512 clusters, 1,024 for up to 50,000 objects of one
        kind, with one covariance. By default 0.1 with a base measure or a temperature in (0, 1), else 0.
    p0 : array-like or pandas Series of shape (m,), >= 0, or 0, optional
        Prior over the columns, scaled to sum 1; a Series whose index holds ids goes by id. By default uniform over
        those that have a relation, and none with a base measure. The number 0 leaves the prior out.
    two_sided : bool, optional
        Whether rows and columns get vectors of their own. By default only where the relation is not square.
    constraint : {"sphere", "ball"}, default="sphere"
        Vectors of length 1, or at most 1.
    temperature : float or "auto", optional
        What scores are divided by: 1, or by the task. "auto" hides a tenth of the relations, and takes it from three
        short fits by how they rank them; for labels of one kind of objects it takes that, from 0.25 to 1.4, at which
        the vectors have up to 20 directions. Low lets them differ. The softmax is that of ``x_i . y_a / temperature``.
        Below 1 it can be steeper, as with vectors of length ``temperature ** -0.5``, and the far field is less exact
        (``far_check_``). Below 0 related objects are pushed apart, softmax(-X Xᵀ): for one kind of objects with
        relations between groups and not within them. At least 0.001 in size.
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
        1 shows progress: a bar on a terminal, a line in a notebook, a line every few seconds in a log.
    storage : path, optional
        Folder for vectors that are too large for memory: they stay in its file ``vectors.npy``, which ``embedding_`` is
        mapped from, and three blocks of n x 32 numbers are in memory in place of three of n x d. A file of an earlier
        fit is replaced when the fit has ended. For undirected relations in one embedding: their walks, their row
        normalisation. Some n x d numbers more are in the folder while the fit runs. The result has the same bits as
        with ``engine="threads"`` in memory, but where isolates are so many that a fit in memory leaves them out. On a
        cluster it is a folder that all workers see, for any relation: vectors stay on the workers, each writes its
        parts in the end, and checkpoints are folders of parts, too. ``embedding_`` then reads what is asked for, by
        rows (``np.asarray`` all of it), and :meth:`nearfar.Embedding.load` opens the folder. For a far field that takes
        moments: the default.
    engine : str or Place, optional
        Where the fit runs, with the same result to the rounding of float32:

        ========================  ====================================================================================
        ``"plain"``               NumPy and SciPy: nothing is compiled for a small relation
        ``"threads"``             compiled code on ``n_jobs`` threads of this machine; with ``storage`` in files
        ``"torch"``               the processor by torch (the extra ``torch``), for far fields that have a form there
        ``"cuda"``, ``"cuda:1"``  the same on a GPU
        ``"dask"``                the workers of the ``dask.distributed.Client`` in use (the extra ``cluster``), else of
                                  a cluster of this machine that ends with the fit
        ========================  ====================================================================================

        or an engine of an installed package, by its name in the entry-point group ``nearfar.engines``, or a
        :class:`nearfar.contracts.Place`. By default on the cluster within the context of a client, else on the plain
        place where no matrix of the relation has more than 3,000 rows or columns or 65,536 stored entries, else on
        threads: the choice depends on the size of the data alone, so the same seed gives the same bits.

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
        How good the far field is at the end, on a fixed sample of rows: ``"relative_error"``, the mean over the rows of
        ``abs(Z estimated / Z exact - 1)``, with ``"low"`` and ``"high"``, its 95 % confidence interval for all rows;
        and the far part of the loss, ``"far"`` as estimated and ``"exact"``, nats per row.
    n_iter_ : int
        Epochs run.
    base_measure_ : ndarray of shape (m,), float64, or None
        w of each column, with mean 1 over those that have one.
    choice_ : str or None
        What the task and a temperature that is "auto" chose, and why, on one line.
    cluster_labels_ : ndarray of shape (m,), int64, or None
        Component of each object in the mixture, -1 for isolates; None with one component.
    n_features_in_ : int
        Columns of the matrix; only if one was given.

    See Also
    --------
    nearfar.log_normalizers : the far field on its own.

    Notes
    -----
    With ``gradient="full"``, two sides and a weak relation, all rows opposite to all columns lower this loss more than
    any structure does (near +1, far -1, prior -1): leave the prior out (``p0=0``) there.

    At a temperature T < 0 the prior is divided by -T: it pushes the mean towards zero all the same.

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

    choice_: str | None = field(default=None, init=False)
    base_measure_: NDArray[np.float64] | None = field(default=None, init=False)

    _checks: ClassVar[dict[str, Check]] = {
        "n_components": if_given(partial(check_integer, low=1)),
        "task": if_given(partial(check_choice, choices=tuple(TASKS))),
        "n_epochs": if_given(partial(check_integer, low=1)),
        "n_clusters": if_given(partial(check_integer, low=1)),
        "learning_rate": partial(check_real, low=0, high=1, open_low=True),
        "schedule": partial(check_choice, choices=SCHEDULES),
        "gradient": partial(check_choice, choices=GRADIENTS),
        "two_sided": if_given(check_flag),
        "constraint": partial(check_choice, choices=CONSTRAINTS),
        "refine": if_given(partial(check_real, low=0, high=1)),
        "temperature": if_given(check_temperature),
        "tol": partial(check_real, low=0),
        "verbose": partial(check_integer, low=0),
    }

    n_components: int | None = field(default=None, kw_only=False)
    task: Task | None = None
    n_epochs: int | None = None
    n_clusters: int | None = None
    learning_rate: float = 0.8
    schedule: Literal["linear", "cosine", "constant", "plateau"] = "linear"
    gradient: Literal["auto", "paper", "forward", "full"] = "auto"
    far: str | FarField = "gaussian-mixture"
    base_measure: Numbers | Literal["degrees", "uniform"] | None = None
    refine: float | None = None
    p0: Numbers | float | None = None
    two_sided: bool | None = None
    constraint: Literal["sphere", "ball"] = "sphere"
    temperature: float | Literal["auto"] | None = None
    init: Numbers | tuple[Numbers, Numbers] | None = None
    tol: float = 0.0
    callbacks: Sequence[Callback] | None = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0
    storage: str | PathLike[str] | None = None
    engine: str | Place | None = None

    def fit(
        self,
        relation: RelationLike,
        y: None = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        resume: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn the vectors.

        Parameters
        ----------
        relation : Relation, matrix of shape (n, m), graph, or edges
            P, non-negative; usually ``rel.random_walk(3)`` or ``rel.normalized()``. A matrix has ids 0 .. n-1. A path,
            a list of tuples or a frame of edges is read by :meth:`Relation.from_edges`. Whole numbers in two or three
            columns without names, which could be edges as well as a matrix, are refused.
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
        MissingDependencyError
            An engine without the package that it needs.
        InputError
            A parameter that cannot be used; an engine that is not there, or that cannot do what is asked; more
            components or clusters than objects; a two-sided relation where one embedding was asked for; a checkpoint
            of another relation or of other parameters, or made under other defaults (which).
        FileFormatError
            ``resume`` is no checkpoint, or a damaged one.
        NumericalError
            The loss left the finite numbers.

        Warns
        -----
        NearfarWarning
            The vectors of the rows nearly coincide; the far field misses normalisers at a low temperature; Ctrl-C ended
            the fit, which keeps the vectors as they were then. Before the end of the first epoch, and with
            ``storage``, KeyboardInterrupt comes out, the estimator as it was.
        """
        rel, parameters = as_relation(relation, "EDRep.fit"), self._given()
        asked_engine("EDRep", self.engine)
        with single_threaded_blas():  # whose own threads wait at full speed for a while, beside those that work
            settings = settle(parameters, rel)
            words = settings.words
            if settings.has_to_try:
                if self.task == "labels" and settings.relation.is_square:
                    temperature, told = temperature_of_labels(settings.problem.P, settings.n_jobs)
                else:
                    temperature, told = temperature_of(rel, partial(tried, parameters, settings, self.engine))
                settings, words = settle({**parameters, "temperature": temperature}, rel), [*words, told]
            choice = f"EDRep(task={self.task!r}): {', '.join(words)}" if words else None
            if choice and self.verbose:
                sys.stderr.write(f"{choice}\n")
            self._keep(settings, run(settings, self.engine, resume))
        self.choice_ = choice
        self._keep_width(relation)
        return self

    def _given(self) -> dict[str, Any]:
        """Return the parameters, each within its bounds, and whose they are."""
        self._check_parameters()
        return {"estimator": type(self).__name__, **self.get_params(deep=False)}

    def _keep(self, settings: Settings, state: FitState) -> None:
        """Set the results: vectors, losses, and what new rows are placed before."""
        problem, kept, base, far = settings.problem, settings.kept, settings.base, state.far
        X, others = state.sides[0], state.sides[-1]  # which are here now, or in files
        far.prepare(others, problem.n_active, state.rng, settings.n_jobs)

        # What far_check_ looks at: a sample of the rows, and log Z of these as the far field has it.
        asked = np.flatnonzero(problem.r > 0)
        asked = np.sort(np.random.default_rng(0).choice(asked, min(N_CHECKED_ROWS, asked.size), replace=False))
        log_z, asking = np.empty(asked.size), X[asked] / problem.temperature
        if far.formula is not None:  # so few rows need no compiled code
            formula, numbers = far.formula(asking.dtype)
            log_z = formula(asking, *numbers)[0]
        else:
            far.evaluate(asking, log_z, np.empty_like(asking))
        weights = None if far.weights is None else settings.spread(np.asarray(far.weights, np.float64))
        rows = asked if kept is None else kept[asked]
        self._checked = Checked(rows, problem.r[asked], log_z, problem.n_active, weights)

        self._ids = settings.relation.row_ids, settings.relation.column_ids
        self._growth: dict[str, object] = {}
        self._settings = {name: settings.parameters[name] for name in OPEN}
        self.embedding_, self.context_embedding_ = settings.spread(X), others if problem.two_sided else None
        self.cluster_labels_ = None if state.labels is None else settings.spread(state.labels, -1)
        self.base_measure_ = base
        self.loss_curve_, self.loss_, self.n_iter_ = np.array(state.losses), state.losses[-1], state.epoch
        # No second copy of the vectors: a far field that reads the others is given those of the estimator.
        if kept is not None and far.keeps_others:
            far = far_field(settings.parameters["far"])
            far = far if base is None else far.with_params(weights=base)  # type: ignore[attr-defined]
            far.prepare(self.embedding_, problem.n_active, state.rng, 1)
        present = settings.spread(settings.present[-1])
        self._fitted_columns = FittedColumns(
            copy.copy(far),
            np.copysign(1.0, problem.temperature) * state.sums[0].astype(others.dtype).astype(np.float64),
            None if present.all() else present,
            settings.parameters["constraint"] == "sphere",
            problem.temperature,
        )

        closeness = float(np.square(state.sums[1] / problem.r.sum()).sum())
        if closeness > COLLAPSED and np.count_nonzero(problem.r) > X.shape[1]:  # few may well be alike
            warn_user(
                f"EDRep.fit: the vectors of rows should differ; got a mean cosine of {closeness:.3f} between them."
                " Their neighbours and scores say little. Try task='items' where columns are items of uneven"
                " popularity, or a temperature below 1."
            )
        coldest, warmest = far.doubtful_between
        read = self.task != "labels" and not isinstance(others, RowsInParts)  # of labels' vectors nobody asks chances
        if read and coldest < problem.temperature < warmest:
            error = self.far_check_["relative_error"]
            if error > WRONG:  # gradients and losses are then those of another softmax
                warn_user(
                    f"EDRep.fit: normalisers should be known to {WRONG:.0%}; got a mean relative error of {error:.2f}"
                    f" at temperature {problem.temperature:g} (far_check_). Rankings may be good all the same;"
                    " probabilities are not."
                    f"{' A temperature from 0.2 on has a smaller one,' if 0 < problem.temperature < 1 else ''}"
                    " far='exact' none."
                )

    def transform(self, P_new: RelationLike, *, engine: str | None = None) -> Floats:
        """Return vectors for new rows; everything that was fitted stays as it is.

        Each row is placed by itself where its own part of the loss is lowest, to rounding, given its relations to the
        fitted columns and their far field. So a row gets the same bits alone as among others.

        Parameters
        ----------
        P_new : Relation, sparse matrix, ndarray or data frame of shape (q, m)
            Relations of new rows to the fitted columns, made as those of the fit were. The columns of a Relation are
            found by their ids, those of a frame by their labels (unless these are the default, 0 to m - 1), in any
            order and not necessarily all; those of a matrix are in the order of the fit. Only the proportions within a
            row count.
        engine : {"threads", "dask"}, optional
            Where rows are placed: on threads of this process, or, a block of rows each, on the workers of a Dask
            cluster, as in :meth:`fit`. By default on a cluster where the vectors are in parts and a client is in use.

        Returns
        -------
        ndarray of shape (q, n_components), or a frame or Embedding if :meth:`set_output` says so
            A row without relations to any object that has a vector gets the zero vector.

        Raises
        ------
        InputError
            Another number of columns, or an entry that is negative, NaN or infinite; vectors, which are no relations.
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
        what = P_new, self._ids[1], self._others, check_n_jobs("EDRep", self.n_jobs)
        if on_a_cluster("EDRep.transform", engine, by_default=isinstance(self._others, RowsInParts)):
            with on_cluster("client")("EDRep.transform") as client:
                elsewhere = partial(on_cluster("places of new nodes"), client, self._fitted_columns)
                placed = self._fitted_columns.transform(*what, elsewhere)
        else:
            placed = self._fitted_columns.transform(*what)

        def ids() -> Ids | None:
            return P_new.row_ids if isinstance(P_new, Relation) else rows_and_ids("EDRep", P_new)[1]

        return self._output(placed, P_new, ids)

    def grow(self, relation: RelationLike, *, n_epochs: int = 5, learning_rate: float = 0.2) -> Self:
        """Take in new objects and new relations: a few epochs from where the vectors are.

        Objects are matched by id. Known ones start at their vectors, new ones where :meth:`transform` puts them (new
        columns at the mean of the rows related to them); those related to nothing known start at random. Objects that
        the new relation lacks are forgotten.

        Parameters
        ----------
        relation : Relation, matrix or data frame of shape (n, m), graph, or edges
            All relations, old and new, made as those of the fit were. The ids of a frame are its labels.
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
            As for :meth:`fit`, or nothing in the relation is known; the estimator then is as before.

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
        self._check_fitted("grow")
        rel = as_relation(relation, "EDRep.grow")
        settings = settle(self._given(), rel)
        if settings.problem.two_sided != (self.context_embedding_ is not None):
            raise InputError("EDRep.grow", "relation", "of as many sides as that of the fit", f"shape {rel.shape}")
        start = self._start_of_growth(settings.relation, settings.n_jobs)
        params = self.get_params(deep=False)
        changed = {"n_epochs": n_epochs, "learning_rate": learning_rate}
        fixed = {"temperature": self._fitted_columns.temperature, "n_components": self.embedding_.shape[1]}
        grown = type(self)().set_params(**{**params, **fixed, **changed, "init": start}).fit(rel)
        kept = (*params, "_settings", "choice_")
        self.__dict__.update({name: value for name, value in vars(grown).items() if name not in kept})
        self._growth = {f"growth_{name}": value for name, value in changed.items()}
        return self

    def _start_of_growth(self, rel: Relation, n_jobs: int) -> Embedding:
        """Return the start of a fit of ``rel``: zero vectors for new objects without relations to known ones.

        New rows are placed as by ``transform``. New columns, and rows that others point to but that point to nobody
        known, start at the mean of those who relate to them.
        """
        from nearfar.embedding.vectors import Embedding

        fitted = self.vectors_
        X, new = _known_rows(fitted.vectors, fitted.ids, rel.row_ids)
        if new.size == len(X):
            got = f"none of its {len(X)} ids ({', '.join(map(repr, rel.row_ids.take(np.arange(2)).to_list()))}, ...)"
            hint = "Give a matrix its ids by Relation.from_matrix(A, ids=...), or start anew with fit."
            raise InputError("EDRep.grow", "relation", "of objects of the fit, known by id", got, hint)
        Y, new_columns = X, new
        if fitted.context_vectors is not None and fitted.context_ids is not None:
            Y, new_columns = _known_rows(fitted.context_vectors, fitted.context_ids, rel.column_ids)
        if new.size:
            pull = rel.operator.matmat(Y, n_jobs=n_jobs)[new]
            present: Flags = np.any(Y, axis=1)
            X[new] = self._fitted_columns.place(pull, weights_of(rel, present, n_jobs)[new], n_jobs)
        new_columns = new_columns[~Y[new_columns].any(axis=1)]
        if new_columns.size:
            Y[new_columns] = onto_sphere(rel.operator.rmatmat(X, n_jobs=n_jobs)[new_columns])
        if Y is X:
            return Embedding(X, rel.row_ids)
        return Embedding(X, rel.row_ids, context_vectors=Y, context_ids=rel.column_ids)

    @property
    def _others(self) -> Floats:
        """The vectors of the columns."""
        return self.embedding_ if self.context_embedding_ is None else self.context_embedding_

    @property
    def far_check_(self) -> dict[str, float]:
        """Relative error of the normalisers at the end, on a sample of rows; O(n d) time at each look."""
        self._check_fitted("far_check_")
        from scipy.special import stdtrit

        checked, n_jobs = self._checked, check_n_jobs("EDRep", self.n_jobs)
        asking = self.embedding_[checked.rows] / self._fitted_columns.temperature
        exact, oracle = np.empty(len(asking)), Exact(checked.base)
        with single_threaded_blas():
            oracle.prepare(self._others, checked.n_active, np.random.default_rng(0), n_jobs)
            bounds = even_bounds(len(asking), 16)
            run_blocks(lambda _b, lo, hi: oracle.evaluate(asking[lo:hi], exact[lo:hi], None), bounds, n_jobs)
        errors = np.abs(np.expm1(np.minimum(checked.log_z - exact, 300.0)))  # their squares stay finite
        mean, margin = float(errors.mean()), 0.0  # no margin where all rows were looked at
        if len(asking) == N_CHECKED_ROWS:
            margin = float(stdtrit(len(asking) - 1, 0.975) * errors.std(ddof=1) / np.sqrt(len(asking)))
        return {
            "relative_error": mean,
            "low": max(0.0, mean - margin),
            "high": mean + margin,
            "far": float((checked.weights * checked.log_z).mean()),
            "exact": float((checked.weights * exact).mean()),
        }

    @property
    def vectors_(self) -> Embedding:
        """The vectors with their ids, both sides of a two-sided fit, and the parameters; an Embedding."""
        from nearfar.embedding.vectors import Embedding

        self._check_fitted("vectors_")
        row_ids, column_ids = self._ids
        two_sided = self.context_embedding_ is not None
        chosen = {name: value for name, value in self._settings.items() if name != "base_measure"}  # vectors have it
        return Embedding(
            self.embedding_,
            ids=row_ids,
            context_vectors=self.context_embedding_,
            context_ids=column_ids if two_sided else None,
            parameters={
                "estimator": type(self).__name__,
                **self.get_params(deep=False),
                **chosen,
                "temperature": self._fitted_columns.temperature,  # scores are read by it, whatever was set since
                **self._growth,
            },
            base_measure=self.base_measure_,
        )

    def expected_memory(self, relation: RelationLike) -> int:
        """Return the bytes that a fit holds at its peak: the relation and the blocks of n x d numbers beside it.

        What is in the files of ``storage`` does not count. Numbers are float32, or float64 if ``init`` is. Where its
        transpose is needed it counts too. Blocks of a few rows per worker, and interpreter and libraries (about
        150 MB), come on top. A fit that would take more than is free is refused. With a device as the engine this is
        the memory of the device, but for the relation, whose entries take 8 bytes there; the machine then holds
        relation and vectors.

        Parameters
        ----------
        relation : Relation, matrix, graph, or edges
            What would be fitted.
        """
        rel = as_relation(relation, "EDRep.expected_memory")
        return memory_of(settle(self._given(), rel))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True  # a matrix is a relation
        tags.transformer_tags.preserves_dtype = []
        return tags


def _known_rows(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, RowNumbers]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))
