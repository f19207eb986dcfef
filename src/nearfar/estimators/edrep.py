"""`EDRep`: unit vectors from any relation, with the softmax normaliser in linear time.

The method is in :mod:`nearfar.methods.edrep`; here are its parameters and their checks, ids, start and results.
"""

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core import checks
from nearfar._core.checkpoint import check_array, generator_of, restoring
from nearfar._core.checks import (
    Check,
    check_choice,
    check_flag,
    check_integer,
    check_n_jobs,
    check_random_state,
    check_real,
    if_given,
)
from nearfar._core.ids import rows_and_ids
from nearfar._core.parts import RowsInParts
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Flags, Numbers, RowNumbers, Seed
from nearfar._core.warn import warn_user
from nearfar.base import RelationEmbedder, RelationLike, identity_of
from nearfar.callbacks import Callback, Trainer
from nearfar.contracts import FarField, Floats, Place, Rows
from nearfar.engines import Setting, asked_engine, default_engine, place_of
from nearfar.engines.registry import on_a_cluster, on_cluster
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.estimators.given import base_measure_of, check_start, given_rows, known_rows, prior_of
from nearfar.estimators.tasks import KNOWN, OPEN, TASKS, TRIAL_EPOCHS, Task, made_for, temperature_of
from nearfar.estimators.transform import FittedColumns, weights_of
from nearfar.far.exact import Exact
from nearfar.far.gaussian_mixture import centers_of, spherical_kmeans
from nearfar.far.registry import far_field
from nearfar.methods.edrep import Problem, State, descend
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.near import SLICE, near_field
from nearfar.steps import CONSTRAINTS, SCHEDULES, Drawn, Rates, Start, onto_sphere

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from nearfar._core.ids import Ids
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.operators import LinearOperator

Kind = TypeVar("Kind", bound=np.generic)

GRADIENTS = ("auto", "paper", "forward", "full")
COLDEST = 0.001  # scores then reach 1,000; their squares, which a mixture of Gaussians forms, are far from any limit
_WEIGHTS = (1e-30, 1e38)  # their sums, of both directions, in float32
REFINE = 0.1  # the share of the epochs with a finer far field, by default
# Its clusters, and up to how many objects of one embedding there are twice as many: an epoch stays cheap.
MOST_CLUSTERS, MANY = 512, 50_000
WRONG = 0.1  # mean relative error of the normalisers from which a fit warns
COLLAPSED = 0.9  # mean cosine of the rows, by their weights, from which a fit warns
N_CHECKED_ROWS = 128  # of which normalisers are compared with the exact ones
_HINT = "Resume with the same relation and parameters, or start a new fit with init=."


def check_temperature(owner: str, name: str, value: object) -> float:
    """Return ``value`` as float if scores can be divided by it; 1 for "auto", which will be such a number."""
    if isinstance(value, str) and value == "auto":
        return 1.0
    temperature = check_real(owner, name, value)
    if abs(temperature) < COLDEST:
        hint = "The score is the scalar product divided by it."
        raise InputError(owner, name, f"at least {COLDEST} in size", value, hint)
    return temperature


class Fitted(NamedTuple):
    """What is fitted of a relation: all of its rows (``kept`` None) or some, and which of each side have a vector.

    ``base`` is the base measure of all columns.
    """

    relation: Relation
    operator: LinearOperator
    kept: RowNumbers | None
    present: list[Flags]
    base: NDArray[np.float64] | None = None

    def spread(self, values: NDArray[Kind], missing: float = 0) -> NDArray[Kind]:
        """Return the values of all rows from those of the rows that were kept."""
        if self.kept is None:
            return values
        whole = np.full((self.relation.operator.shape[0], *values.shape[1:]), missing, values.dtype)
        whole[self.kept] = values
        return whole


class FitState(State):
    """All that is needed to continue a fit; ``X`` and ``Y`` (None with one embedding) are its vectors."""

    @property
    def X(self) -> Rows:  # noqa: N802 - the letter of the paper
        """The vectors of the rows."""
        return self.sides[0]

    @property
    def Y(self) -> Rows | None:  # noqa: N802
        """The vectors of the columns of a two-sided fit, or None."""
        return self.sides[1] if len(self.sides) == 2 else None

    def fetch(self, place: Place, sides: Sequence[Rows]) -> None:
        """Bring the vectors up to date from where they are."""
        self.sides = [place.fetch(here, there) for here, there in zip(sides, self.sides, strict=True)]

    def check_finite(self, owner: str, rate: float, start: float) -> None:
        """Refuse a loss, or sums over all vectors after a step, that are not finite.

        Raises
        ------
        NumericalError
        """
        if not (np.isfinite(self.losses[-1]) and (self.sums is None or np.isfinite(self.sums).all())):
            raise NumericalError(
                f"{owner}: loss and vectors must stay finite; got others, at a loss of {self.losses[-1]}, in epoch "
                f"{self.epoch} at learning rate {rate:.3g}. Try learning_rate={start / 2:.3g}."
            )

    def snapshot(self) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        kept = {"X": self.X, "Y": self.Y, "sums": self.sums, "labels": self.labels, "centers": self.centers}
        arrays: dict[str, NDArray[np.generic]] = {name: array for name, array in kept.items() if array is not None}
        arrays["losses"] = np.array(self.losses, np.float64)
        return arrays, {"epoch": self.epoch, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        facts: Mapping[str, Any],
        sizes: Sequence[int],
        d: int,
        n_clusters: int,
    ) -> Self:
        """Return the state of a snapshot, for sides of so many rows.

        Raises
        ------
        InputError
            If it has other rows or sides.
        ValueError, TypeError, LookupError, ArithmeticError
            If it is the state of no fit of ``d`` components and at most ``n_clusters`` clusters.
        """
        sides = {"X": arrays["X"], **({"Y": arrays["Y"]} if "Y" in arrays else {})}
        if [len(side) for side in sides.values()] != list(sizes):
            got = f"one of {[len(side) for side in sides.values()]}"
            raise InputError("EDRep.fit", "resume", f"a state of {list(sizes)} rows", got)
        dtype, epoch, losses = arrays["X"].dtype, facts["epoch"], arrays["losses"]
        if dtype not in (np.float32, np.float64) or type(epoch) is not int:
            raise TypeError(f"vectors of {dtype}, epoch {epoch!r}")
        rows = {**dict(zip(sides, sizes, strict=True)), "sums": 2, "centers": len(arrays.get("centers", ()))}
        for name in rows.keys() & arrays.keys():
            check_array(name, arrays[name], dtype, (rows[name], d))
        check_array("losses", losses, np.float64, (epoch,))
        if "labels" in arrays:
            check_array("labels", arrays["labels"], np.int64, (sizes[-1],), low=-1, high=n_clusters - 1)
        return cls(
            sides=list(sides.values()),
            rng=generator_of(facts["rng"]),
            epoch=epoch,
            losses=losses.tolist(),
            **{name: arrays.get(name) for name in ("sums", "labels", "centers")},
        )


class Checked(NamedTuple):
    """Rows that are looked at, by number; their weights, log Z as the far field has it, how many others there are."""

    rows: RowNumbers
    weights: Doubles
    log_z: Doubles
    n_active: int


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
        short fits by how they rank them. Low lets them differ. The softmax is that of ``x_i . y_a / temperature``.
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

    choice_: str | None = None
    base_measure_: NDArray[np.float64] | None = None
    _settings: Mapping[str, object] = MappingProxyType({})  # what was open, in the fit

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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        task: Task | None = None,
        n_epochs: int | None = None,
        n_clusters: int | None = None,
        learning_rate: float = 0.8,
        schedule: Literal["linear", "cosine", "constant", "plateau"] = "linear",
        gradient: Literal["auto", "paper", "forward", "full"] = "auto",
        far: str | FarField = "gaussian-mixture",
        base_measure: Numbers | Literal["degrees", "uniform"] | None = None,
        refine: float | None = None,
        p0: Numbers | float | None = None,
        two_sided: bool | None = None,
        constraint: Literal["sphere", "ball"] = "sphere",
        temperature: float | Literal["auto"] | None = None,
        init: Numbers | tuple[Numbers, Numbers] | None = None,
        tol: float = 0.0,
        callbacks: Sequence[Callback] | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        storage: str | PathLike[str] | None = None,
        engine: str | Place | None = None,
    ) -> None:
        self.n_components: Any = n_components  # None is open: a number in the copy that fits
        self.task = task
        self.n_epochs: Any = n_epochs
        self.n_clusters: Any = n_clusters
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.gradient = gradient
        self.far = far
        self.base_measure = base_measure
        self.refine = refine
        self.p0 = p0
        self.two_sided = two_sided
        self.constraint = constraint
        self.temperature: Any = temperature
        self.init = init
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.storage = storage
        self.engine = engine

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
        rel = as_relation(relation, "EDRep.fit")
        self._check_parameters()
        asked = asked_engine("EDRep", self.engine)
        whole, made = self._chosen(rel, asked)
        whole._fit(made, asked, resume)
        parameters = self._parameter_names()
        self.__dict__.update({name: value for name, value in vars(whole).items() if name not in parameters})
        self._keep_width(relation)
        return self

    def _fit(self, rel: Relation, asked: str | Place | None, resume: str | PathLike[str] | None) -> None:
        """Fit a relation as it is, with nothing left open."""
        with single_threaded_blas():  # whose own threads wait at full speed for a while, beside those that work
            problem, far, rows = self._problem(rel)
            n_jobs, several = check_n_jobs("EDRep", self.n_jobs), self.n_clusters > 1
            setting = Setting(
                owner="EDRep",
                n_jobs=n_jobs,
                storage=self.storage,
                P=problem.P,
                far=far,
                gradient=problem.gradient,
                two_sided=problem.two_sided,
                several=several,
                check_memory=partial(self._check_memory, problem, rows),
            )
            # What tells this fit from others is also what its defaults stood for.
            in_use: dict[str, object] = {"gradient": problem.gradient, "p0": problem.p0, "two_sided": problem.two_sided}
            in_use["far"] = far if hasattr(far, "get_params") else type(far).__name__
            trainer = Trainer(
                "EDRep",
                self.n_epochs,
                callbacks=self.callbacks,
                verbose=self.verbose,
                total=self.n_epochs * (1 + several),
                identity=cache(partial(identity_of, self, rel, n_jobs, in_use)),
                keeps=self.storage is None,  # vectors in files, or on workers, have checkpoints
            )
            engine = default_engine(rel.operator, self.storage) if asked is None else asked
            with place_of(engine, setting) as place, trainer:
                if resume is None:
                    state = self._start(rows)
                else:
                    sizes = [len(related) for related in rows.present]
                    with restoring(resume):
                        taken = trainer.resume(resume, _HINT)
                        state = FitState.restored(*taken, sizes, self.n_components, self.n_clusters)
                self._descend(place, problem, far, state, trainer)
                if several and state.labels is None and not trainer.stopped:  # with a mixture over the clusters
                    rng = state.rng
                    labels = spherical_kmeans(state.sides[-1], self.n_clusters, rng=rng, n_jobs=n_jobs).labels
                    trainer.done = 0
                    del state  # its memory, before the new vectors come
                    state = self._start(rows, rng)
                    state.labels = np.where(rows.present[-1], labels, -1)
                    self._descend(place, problem, far, state, trainer)
                if isinstance(state.X, RowsInParts):
                    state.sides = self._written(rel, state)
            self._keep(problem, far, rows, state)

    def _chosen(self, rel: Relation, asked: str | Place | None = None, *, tries: bool = True) -> tuple[EDRep, Relation]:
        """Return the same estimator with nothing left open, and the relation that it fits."""
        given = {name: getattr(self, name) for name in OPEN if getattr(self, name) is not None}
        made = made_for(self.task, rel, given)
        whole, words = copy.copy(self), made.words
        vars(whole).update(made.settings)
        if whole.temperature == "auto":
            whole.temperature = KNOWN
            if tries:
                whole.temperature, found = temperature_of(rel, partial(self._tried, whole, rel, asked))
                words = [*words, found]
        if whole.base_measure is not None and whole.p0 is None:
            whole.p0 = 0
        whole._settings = {**made.settings, "temperature": whole.temperature}
        whole.choice_ = f"EDRep(task={self.task!r}): {', '.join(words)}" if words else None
        if whole.choice_ and self.verbose and tries:
            sys.stderr.write(f"{whole.choice_}\n")
        return whole, made.relation

    def _tried(self, whole: EDRep, of: Relation, asked: str | Place | None, rel: Relation, temperature: float) -> EDRep:
        """Return a short fit, at a temperature, of what is known of a relation."""
        short = copy.copy(self)
        quiet = {"callbacks": None, "verbose": 0, "storage": None, "init": None, "refine": 0, "tol": 0}
        vars(short).update(quiet, n_components=whole.n_components, n_epochs=TRIAL_EPOCHS, temperature=temperature)
        if self.base_measure is not None and not isinstance(self.base_measure, str):
            base = base_measure_of(whole.base_measure, of, two_sided=whole._is_two_sided(of))
            short.base_measure = np.where(rel.column_sums > 0, base, 0.0)  # type: ignore[arg-type]
        short, made = short._chosen(rel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearfarWarning)  # the whole fit says what it finds
            short._fit(made, asked, None)
        if short.n_iter_ < TRIAL_EPOCHS:  # Ctrl-C has ended this fit, and is meant for the whole
            raise KeyboardInterrupt
        return short

    def _descend(self, place: Place, problem: Problem, far: FarField, state: FitState, trainer: Trainer) -> None:
        """Run algorithm 1 from where a state stands; tell callbacks after each epoch."""
        moving: list[Rows] | None = None
        coarse, n_clusters = self._refinement(problem)

        def done(state: Any, sides: list[Rows], rate: float) -> bool:
            nonlocal moving
            moving = sides
            state.check_finite("EDRep.fit", rate, self.learning_rate)
            refines = state.epoch == coarse < self.n_epochs
            if trainer.callbacks or refines:
                state.fetch(place, sides)
            if refines:
                n_jobs, weights = check_n_jobs("EDRep", self.n_jobs), far.weights  # type: ignore[attr-defined]
                state.centers = centers_of(state.sides[-1], n_clusters, weights, state.rng, n_jobs)
            return trainer.tell(state.epoch, state.losses[-1], rate, state)

        rates = Rates(self.schedule, self.learning_rate, self.n_epochs, self.tol)
        try:
            sides = descend(place, problem, _FarOf(far), state, rates, done)
        except KeyboardInterrupt:
            if moving is not None:  # as they are in the middle of an epoch, of which the sums are not
                state.fetch(place, moving)
                state.sums = None
            raise
        state.fetch(place, sides)

    # What is asked for, and where.

    def _problem(self, rel: Relation) -> tuple[Problem, FarField, Fitted]:
        """Return what is minimised, by which far field, and which rows of the relation that is."""
        far = far_field(self.far, owner="EDRep")
        two_sided = self._is_two_sided(rel)
        gradient = self._gradient(rel)
        self._check_together(rel, far, gradient)
        rows = self._rows(rel, far, two_sided)
        n_active = int(rows.present[-1].sum())
        if self.n_clusters > n_active:
            expected = f"at most {n_active}, the objects with a relation"
            raise InputError("EDRep", "n_clusters", expected, self.n_clusters)
        base = base_measure_of(self.base_measure, rel, two_sided=two_sided)
        rows = rows._replace(base=base)
        if base is not None:
            far = far.with_params(weights=base)  # type: ignore[attr-defined]
        if rows.kept is not None:
            far = far.of_columns(rows.kept)  # type: ignore[misc]
        P, step = rows.operator, CONSTRAINTS[self.constraint].step
        p0 = prior_of(self.p0, rel, rows.kept, rows.present[-1])
        if not _WEIGHTS[0] < (total := float(P.row_sums.sum())) < _WEIGHTS[1]:
            expected = f"of weights whose sum is between {_WEIGHTS[0]:g} and {_WEIGHTS[1]:g}"
            raise InputError("EDRep", "P", expected, f"{total:.3g}", "Multiply them by a constant.")
        of_base = 0.0 if base is None else float(rel.column_sums @ np.log(np.where(base > 0, base, 1.0)))
        what = (P, two_sided, P.row_sums, p0, n_active, gradient, float(self.temperature), step, of_base)
        return Problem(*what), far, rows

    def _check_together(self, rel: Relation, far: FarField, gradient: str) -> None:
        """Refuse parameters that do not go together, or not with the relation."""
        if self.n_clusters > 1 and self.far != "gaussian-mixture":
            raise InputError("EDRep", "n_clusters", "1 unless far='gaussian-mixture'", self.n_clusters)
        if self.base_measure is not None and not far.takes_weights:
            expected = "one that takes a base measure (gaussian-mixture, exact, noise)"
            raise InputError("EDRep", "far", expected, self.far, "Or leave base_measure out.")
        if self.refine and not self._refines():
            raise InputError("EDRep", "refine", "0 or None unless far='gaussian-mixture' with one cluster", self.refine)
        if gradient == "full" and far.other_side is None:
            expected = "one that knows the gradient of the others (gaussian-mixture, exact, noise)"
            raise InputError("EDRep", "far", expected, self.far, "Or choose gradient='paper'.")
        smaller = min(rel.operator.shape)
        if self.n_components > smaller:
            expected = f"at most {smaller}, the number of objects of the smaller side"
            raise InputError("EDRep", "n_components", expected, self.n_components)

    def _refines(self) -> bool:
        """Whether the far field has a finer form for the last epochs."""
        return isinstance(self.far, str) and self.far == "gaussian-mixture" and self.n_clusters == 1

    def _share_refined(self) -> float:
        """Return the share of the epochs with a finer far field."""
        if self.refine is not None or not self._refines():
            return self.refine or 0.0
        return REFINE if self.n_epochs > 1 and (self.base_measure is not None or 0 < self.temperature < 1) else 0.0

    def _refinement(self, problem: Problem) -> tuple[int, int]:
        """Return after which epoch the far field gets finer, 0 for never, and of how many clusters it then is."""
        share = self._share_refined()
        few = not problem.two_sided and problem.n_active <= MANY
        n = problem.n_active
        n_clusters = min(MOST_CLUSTERS * (1 + few), max(n // 2, min(n, MOST_CLUSTERS)))
        if not share or n_clusters < 2:
            return 0, 1
        return max(1, self.n_epochs - math.ceil(share * self.n_epochs)), n_clusters

    # What is learned.

    def _keep(self, problem: Problem, far: FarField, rows: Fitted, state: FitState) -> None:
        """Set the results: vectors, losses, and what new rows are placed before."""
        rel, kept = rows.relation, rows.kept
        others = state.sides[-1]
        far = _FarOf(far)(state)
        far.prepare(others, problem.n_active, state.rng, check_n_jobs("EDRep", self.n_jobs))
        self._checked_rows = self._checked(problem, far, kept, state.X)
        closeness = 0.0 if state.sums is None else float(np.square(state.sums[1] / problem.r.sum()).sum())
        if closeness > COLLAPSED and np.count_nonzero(problem.r) > self.n_components:  # few may well be alike
            warn_user(
                f"EDRep.fit: the vectors of rows should differ; got a mean cosine of {closeness:.3f} between them."
                " Their neighbours and scores say little. Try task='items' where columns are items of uneven"
                " popularity, or a temperature below 1."
            )
        self._ids = rel.row_ids, rel.column_ids
        self._growth: dict[str, object] = {}
        self.embedding_ = rows.spread(state.X)
        self.cluster_labels_ = None if state.labels is None else rows.spread(state.labels, -1)
        self.context_embedding_ = state.Y
        self.base_measure_ = rows.base
        self.loss_curve_, self.loss_, self.n_iter_ = np.array(state.losses), state.losses[-1], state.epoch
        # No second copy of the vectors: a far field that reads the others is given those of the estimator.
        if kept is not None and far.keeps_others:
            far = far_field(self.far)
            if self.base_measure_ is not None:
                far = far.with_params(weights=self.base_measure_)  # type: ignore[attr-defined]
            far.prepare(self.embedding_, problem.n_active, state.rng, 1)
        prior = state.sums[0] if state.sums is not None else problem.p0.astype(others.dtype) @ others
        present = rows.spread(rows.present[-1])
        self._fitted_columns = FittedColumns(
            copy.copy(far),
            np.copysign(1.0, problem.temperature) * prior.astype(np.float64),
            None if present.all() else present,
            self.constraint == "sphere",
            problem.temperature,
        )
        coldest, warmest = far.doubtful_between
        if coldest < problem.temperature < warmest and not isinstance(others, RowsInParts):
            error = self.far_check_["relative_error"]
            if error > WRONG:  # gradients and losses are then those of another softmax
                warn_user(
                    f"EDRep.fit: normalisers should be known to {WRONG:.0%}; got a mean relative error of {error:.2f}"
                    f" at temperature {problem.temperature:g} (far_check_). Rankings may be good all the same;"
                    " probabilities are not."
                    f"{' A temperature from 0.2 on has a smaller one,' if 0 < problem.temperature < 1 else ''}"
                    " far='exact' none."
                )

    @staticmethod
    def _checked(problem: Problem, far: FarField, kept: RowNumbers | None, X: Floats) -> Checked:
        """Return a sample of the rows X; ``kept`` are the numbers of all of them, where some are left out."""
        asked = np.flatnonzero(problem.r > 0)
        asked = np.sort(np.random.default_rng(0).choice(asked, min(N_CHECKED_ROWS, asked.size), replace=False))
        log_z, asking = np.empty(asked.size), X[asked] / problem.temperature
        if far.formula is not None:  # so few rows need no compiled code
            formula, numbers = far.formula(asking.dtype)
            log_z = formula(asking, *numbers)[0]
        else:
            far.evaluate(asking, log_z, np.empty_like(asking))
        return Checked(asked if kept is None else kept[asked], problem.r[asked], log_z, problem.n_active)

    def _is_two_sided(self, rel: Relation) -> bool:
        """Return whether rows and columns get vectors of their own."""
        two_sided = not rel.is_square
        if self.two_sided is not None:
            two_sided = bool(self.two_sided)
            if not two_sided and not rel.is_square:
                got = f"False for {rel.shape[0]} rows and {rel.shape[1]} columns of different ids"
                raise InputError("EDRep", "two_sided", "True or None where the relation is not square", got)
        if self.n_components == 1 and self.constraint == "sphere":
            hint = "A unit vector of one number is 1 or -1 and cannot move. constraint='ball' takes one component."
            raise InputError("EDRep", "n_components", "at least 2 with constraint='sphere'", 1, hint)
        if two_sided and self.temperature < 0:
            hint = "Fit with the positive one and mirror the vectors of one side."
            raise InputError("EDRep", "temperature", "> 0 with two sides", self.temperature, hint)
        return two_sided

    def _gradient(self, rel: Relation) -> str:
        """Return the gradient that ``"auto"`` stands for, see docs/decisions, "The default gradient"."""
        if self.gradient != "auto":
            return self.gradient
        if self.base_measure is not None:
            return "full"
        return "forward" if rel.operator.is_undirected else "paper"

    def _rows(self, rel: Relation, far: FarField, two_sided: bool) -> Fitted:
        """Return what is fitted of a relation.

        Isolates would only cost time and cache. They are kept where there are two sides, factors that do not allow it
        cheaply, a far field that does not say how it is told which columns are left, or so few isolates that a copy
        of the column numbers needs more memory than their vectors. What is left in then has zero vectors, which no sum
        notices.
        """
        P, kept = rel.operator, None
        saved = rel.isolates.size * self.n_components * 4 * 3  # three blocks at least
        worth = saved and saved >= P.nnz * 4 + P.shape[0] * 24
        if worth and self.storage is None and not two_sided and far.of_columns is not None:
            smaller = P.without(rel.isolates)
            if smaller is not None:
                P, kept = smaller, np.delete(np.arange(P.shape[0]), rel.isolates)
        r = P.row_sums
        present = [r > 0, P.column_sums > 0] if two_sided else [(P.column_sums > 0) | (r > 0)]
        return Fitted(rel, P, kept, present)

    def _written(self, rel: Relation, state: FitState) -> list[Rows]:
        """Let workers write the vectors that they have to the storage; return them as they are in the files."""
        from nearfar.embedding.files import Content
        from nearfar.embedding.files.native import FOLDER, read_parts, write_parts

        folder = FOLDER.check("EDRep", "storage", checks.check_path("EDRep", "storage", self.storage))
        ids = rel.row_ids, None if state.Y is None else rel.column_ids
        write_parts("EDRep", "storage", folder, Content(state.X, ids[0], state.Y, ids[1], self._facts()))
        written = read_parts(folder)
        return [written.vectors] if state.Y is None else [written.vectors, written.context_vectors]

    def _start(self, rows: Fitted, rng: np.random.Generator | None = None) -> FitState:
        """Return where the fit starts: ``init``, an array or what an Embedding knows by id.

        Random where that has nothing, or zeros, which have no direction in which to move; zero without a relation.
        """
        rng = check_random_state("EDRep", self.random_state) if rng is None else rng
        rel, present = rows.relation, rows.present
        inits = (self.init, self.init if hasattr(self.init, "context_vectors") else None)
        if len(present) == 2 and isinstance(self.init, tuple):
            inits = self.init
        sides: list[Start] = []
        for side, (init, ids, related) in enumerate(zip(inits, (rel.row_ids, rel.column_ids), present, strict=False)):
            given = given_rows(init, self.n_components, ids, rows.kept, columns=side == 1)
            n_random = len(related) if given.draw is None else int(given.draw[-1]) + 1
            drawn = Drawn.of(n_random, self.n_components, rng)
            sides.append(Start(CONSTRAINTS[self.constraint].project, drawn, related, *given))
        if len(present) == 1 and inits[0] is not None:  # with two sides the other one may tell them apart
            check_start(sides[0])
        for other in sides[1:]:  # of one dtype
            other.dtype = sides[0].dtype
        return FitState(sides, rng)

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
        self._check_parameters()
        whole, made = self._chosen(rel, tries=False)
        if whole._is_two_sided(rel) != (self.context_embedding_ is not None):
            raise InputError("EDRep.grow", "relation", "of as many sides as that of the fit", f"shape {rel.shape}")
        start = self._start_of_growth(made, check_n_jobs("EDRep", self.n_jobs))
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
        X, new = known_rows(fitted.vectors, fitted.ids, rel.row_ids)
        if new.size == len(X):
            got = f"none of its {len(X)} ids ({', '.join(map(repr, rel.row_ids.take(np.arange(2)).to_list()))}, ...)"
            hint = "Give a matrix its ids by Relation.from_matrix(A, ids=...), or start anew with fit."
            raise InputError("EDRep.grow", "relation", "of objects of the fit, known by id", got, hint)
        Y, new_columns = X, new
        if fitted.context_vectors is not None and fitted.context_ids is not None:
            Y, new_columns = known_rows(fitted.context_vectors, fitted.context_ids, rel.column_ids)
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

        checked, n_jobs = self._checked_rows, check_n_jobs("EDRep", self.n_jobs)
        asking = self.embedding_[checked.rows] / self._fitted_columns.temperature
        exact, oracle = np.empty(len(asking)), Exact(self.base_measure_)
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
        return Embedding(
            self.embedding_,
            ids=row_ids,
            context_vectors=self.context_embedding_,
            context_ids=column_ids if two_sided else None,
            parameters={
                **self._facts(),
                "temperature": self._fitted_columns.temperature,  # scores are read by it, whatever was set since
                **self._growth,
            },
            base_measure=self.base_measure_,
        )

    def _facts(self) -> dict[str, object]:
        """Return how the vectors are made, for who reads them."""
        chosen = {name: value for name, value in self._settings.items() if name != "base_measure"}  # vectors have it
        return {"estimator": type(self).__name__, **self.get_params(deep=False), **chosen}

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
        self._check_parameters()
        whole, rel = self._chosen(rel, tries=False)
        rows = whole._rows(rel, far_field(self.far, owner="EDRep"), whole._is_two_sided(rel))
        return whole._memory(rows, whole._gradient(rel))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True  # a matrix is a relation
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_memory(self, problem: Problem, rows: Fitted) -> None:
        """Refuse a fit that does not fit into the memory of this machine."""
        rel = rows.relation
        if sum(rel.operator.shape) * self.n_components > checks.SMALL:
            hint = "Take fewer components, or keep the relation in files: Relation.from_edges(..., storage=folder)."
            checks.check_memory("EDRep", "relation", self._memory(rows, problem.gradient) - rel.nbytes, hint)

    def _memory(self, rows: Fitted, gradient: str) -> int:
        """Return the bytes of a fit."""
        (n, m), P, blocks, numbers = rows.operator.shape, rows.operator, 0, 0
        two_sided, full = len(rows.present) == 2, gradient == "full"
        keeps = m if far_field(self.far).keeps_others else 0  # a copy
        if two_sided:
            blocks = 2 * (n + m) + 2 * P.scratch_arrays() * max(n, m)
        elif self.storage is not None and P.as_walk() is not None:
            numbers = n * min(P.as_walk()[1], 3) * min(SLICE, self.n_components)  # type: ignore[index]
        else:
            blocks = n * (1 + near_field(P, both=gradient != "forward", n_jobs=1).n_arrays)
        blocks += keeps + full * (m + n * (self.temperature != 1))  # the rows over the temperature
        if self._share_refined():
            blocks += 3 * min(m, 20 * 2 * MOST_CLUSTERS)  # the sample in which centers_of looks
        if self.n_clusters > 1:
            blocks += 2 * min(m, max(5_000, 100 * self.n_clusters))  # the sample in which spherical_kmeans starts
        nbytes = rows.relation.nbytes + (P.transpose_nbytes() if two_sided or gradient != "forward" else 0)
        if rows.kept is not None:  # columns have other numbers, and in the end vectors are spread over all rows
            nbytes += P.nnz * 4 + n * 8
            blocks = max(blocks, n + rows.relation.shape[0])
        init, width = self.init[0] if isinstance(self.init, tuple) else self.init, 4  # bytes of a number
        with suppress(ValueError):  # what is no array is refused by itself
            width = 8 if not hasattr(init, "vectors") and np.asarray(init).dtype == np.float64 else 4
        return int(nbytes + (numbers + blocks * self.n_components) * width)


class _FarOf:
    """The far field of a state, made once for the same clusters: places keep what they know of it."""

    def __init__(self, far: FarField) -> None:
        self._far: Any = far
        self._made: FarField = far
        self._clusters: tuple[object, object] = (None, None)

    def __call__(self, state: State) -> FarField:
        clusters = state.labels, state.centers
        if any(new is not old for new, old in zip(clusters, self._clusters, strict=True)):
            self._clusters = clusters
            if state.centers is not None:
                self._made = self._far.with_params(centers=state.centers, covariance="tied")
            else:
                n_clusters = int(state.labels.max()) + 1  # type: ignore[union-attr]
                self._made = self._far.with_params(n_clusters=n_clusters, labels=state.labels)
        return self._made
