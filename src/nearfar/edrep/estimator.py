"""`EDRep`: unit vectors from any relation, with the softmax normaliser in linear time."""

from __future__ import annotations

import copy
import sys
import warnings
from contextlib import nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core import checks
from nearfar._core.checkpoint import restoring
from nearfar._core.checks import (
    check_choice,
    check_flag,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_path,
    check_random_state,
    check_real,
    check_rows_differ,
    require,
)
from nearfar._core.ids import in_order_of, rows_and_ids
from nearfar._core.parts import RowsInParts
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.vector import empty_aligned
from nearfar.base import RelationEmbedder, identity_of
from nearfar.callbacks import Trainer
from nearfar.contracts import Engine, FarField, Floats
from nearfar.edrep.solver import SCHEDULES, Ball, Problem, Sphere, State, Threads, has_converged, learning_rate
from nearfar.edrep.transform import FittedColumns, weights_of
from nearfar.engines.dask.edrep import Workers, placed_on_workers
from nearfar.engines.dask.rows import client_of, on_a_cluster
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.far.exact import Exact
from nearfar.far.gaussian_mixture import GaussianMixture, spherical_kmeans
from nearfar.far.softmax import far_field
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.near import SLICE, NearField, NearSlices, near_field

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.operators import LinearOperator

CONSTRAINTS = ("sphere", "ball")
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

GRADIENTS = ("auto", "paper", "forward", "full")
N_CHECKED_ROWS = 128
COLDEST = 0.001  # scores then reach 1,000; their squares, which a mixture of Gaussians forms, are far from any limit
COLLAPSED = 0.9  # mean cosine of the rows, by their weights, from which a fit warns
_HINT = "Resume with the same relation and parameters, or start a new fit with init=."


class EDRep(RelationEmbedder):
    """Efficient distributed representations: vectors whose softmax reproduces a relation.

    Minimises, over unit vectors x_i (and y_a, where rows and columns get vectors of their own; else y = x)::

        L = - sum_ia P_ia x_i . y_a  +  sum_i r_i log sum_a exp(x_i . y_a)  +  (sum_i r_i x_i) . (sum_a p0_a y_a)

    with r the row sums of P; scores x_i . y_a are divided by ``temperature`` if it is not 1. The first sum is the near
    field, sparse and exact; the normaliser is the far field, by default a mixture of Gaussians: O(nnz d + n d²) time
    per epoch. Memory: the relation and at most 5 arrays of n x d.

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
        sample of the others), a name given to :func:`nearfar.far.register`, or a far field with its own parameters.
    p0 : array-like or pandas Series of shape (m,), >= 0, or 0, optional
        Prior over the columns, scaled to sum 1; a Series whose index holds ids goes by id. By default uniform over
        those that have a relation. The number 0 leaves the prior out.
    two_sided : bool, optional
        Whether rows and columns get vectors of their own. By default only where the relation is not square.
    constraint : {"sphere", "ball"}, default="sphere"
        Vectors of length 1, or at most 1.
    temperature : float, default=1
        What scores are divided by: the softmax is that of ``x_i . y_a / temperature``. Below 1 it can be steeper, as
        with vectors of length ``temperature ** -0.5``, and the far field is less exact (``far_check_``). Below 0
        related objects are pushed apart, softmax(-X Xᵀ): for one kind of objects with relations between groups and not
        within them. At least 0.001 in size.
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
    device : str, optional
        Where the sweeps run: None on the threads of this machine; ``"cuda"``, ``"cuda:1"`` or ``"cpu"`` by torch (the
        extra ``torch``), with the same result to the rounding of float32. For ``far="gaussian-mixture"`` and
        ``"exact"``.
    verbose : int, default=0
        1 shows progress: a bar on a terminal, a line in a notebook, a line every few seconds in a log.
    storage : path, optional
        Folder for vectors that are too large for memory: they stay in its file ``vectors.npy``, which ``embedding_`` is
        mapped from, and three blocks of n x 32 numbers are in memory in place of three of n x d. A file of an earlier
        fit is replaced when the fit has ended. For undirected relations in one embedding: their walks, their row
        normalisation. Some n x d numbers more are in the folder while the fit runs. The result has the same bits as
        without, but where isolates are so many that a fit in memory leaves them out. On a cluster it is a folder that
        all workers see, for any relation: vectors stay on the workers, each writes its parts in the end, and
        checkpoints are folders of parts, too. ``embedding_`` then reads what is asked for, by rows (``np.asarray`` all
        of it), and :meth:`nearfar.Embedding.load` opens the folder. For a far field that takes moments: the default.

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
    cluster_labels_ : ndarray of shape (m,), int64, or None
        Component of each object in the mixture, -1 for isolates; None with one component.

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
        temperature: float = 1.0,
        init: Any = None,
        tol: float = 0.0,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        storage: Any = None,
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
        self.temperature = temperature
        self.init = init
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.storage = storage

    # C901: it is one algorithm, read from top to bottom. ARG002: scikit-learn passes y.
    def fit(self, relation: Any, y: None = None, *, resume: Any = None, engine: str | None = None) -> Self:  # noqa: ARG002, C901
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
        engine : {"threads", "dask"}, optional
            Where the sweeps run: on threads of this process, or on the workers of a Dask cluster, that of the
            ``dask.distributed.Client`` in use, else one of this machine that ends with the fit. By default on a
            cluster within the context of a client, else on threads. The vectors are the same to the rounding of
            float32, for any number of workers.

        Returns
        -------
        self

        Raises
        ------
        MissingDependencyError
            ``engine="dask"`` without the extra ``[cluster]``.
        InputError
            A parameter that cannot be used; more components or clusters than objects; a two-sided relation where one
            embedding was asked for; a checkpoint of another relation or of other parameters (which).
        FileFormatError
            ``resume`` is no checkpoint, or a damaged one.
        NumericalError
            The loss left the finite numbers.

        Warns
        -----
        NearfarWarning
            The vectors of the rows nearly coincide.
        """
        rel = as_relation(relation)
        check_integer("EDRep", "n_components", self.n_components, low=1)
        check_integer("EDRep", "n_clusters", self.n_clusters, low=1)
        check_integer("EDRep", "n_epochs", self.n_epochs, low=1)
        check_real("EDRep", "learning_rate", self.learning_rate, 0, 1, open_low=True)
        check_choice("EDRep", "schedule", self.schedule, SCHEDULES)
        check_real("EDRep", "tol", self.tol, low=0)
        check_integer("EDRep", "verbose", self.verbose, low=0)
        n_jobs = check_n_jobs("EDRep", self.n_jobs)
        far = far_field(self.far, owner="EDRep")
        two_sided, gradient, P, kept = self._variant(rel)
        if self.n_clusters > 1 and self.far != "gaussian-mixture":
            raise InputError("EDRep", "n_clusters", "1 unless far='gaussian-mixture'", self.n_clusters)
        if gradient == "full" and not hasattr(far, "other_side"):
            expected = "one that knows the gradient of the others (gaussian-mixture, exact, noise)"
            raise InputError("EDRep", "far", expected, self.far, "Or choose gradient='paper'.")
        (n, m), d = rel.operator.shape, self.n_components
        if d > min(n, m):
            expected = f"at most {min(n, m)}, the number of objects of the smaller side"
            raise InputError("EDRep", "n_components", expected, d)
        r = P.row_sums
        present = [r > 0, P.column_sums > 0] if two_sided else [(P.column_sums > 0) | (r > 0)]
        if self.n_clusters > present[-1].sum():
            expected = f"at most {present[-1].sum()}, the objects with a relation"
            raise InputError("EDRep", "n_clusters", expected, self.n_clusters)

        # The prior p0: sum 1, zero for columns without a relation; or all zero.
        prior: Any = self.p0
        if isinstance(prior, (int, float)) and prior == 0:
            p0 = np.zeros(P.shape[1])
        else:
            given = in_order_of("EDRep", "p0", prior, rel.column_ids) if hasattr(prior, "iloc") else prior
            try:
                p0 = np.ones(m) if given is None else np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                p0 = np.empty(())
            if p0.shape != (m,):
                got = f"an array of shape {p0.shape}" if p0.ndim else prior
                raise InputError("EDRep", "p0", f"0, or one number per column, of shape ({m},)", got)
            p0 = np.where(present[-1], p0 if kept is None else p0[kept], 0.0)
            if not (np.isfinite(p0).all() and (p0 >= 0).all() and p0.any()):
                raise InputError("EDRep", "p0", "finite, >= 0, and positive for some object with a relation", prior)
            p0 /= p0.max()  # the sum of large numbers may be infinite
            p0 /= p0.sum()

        if self.storage is not None and self.device is not None:
            raise InputError("EDRep", "storage", "None with a device", repr(str(self.storage)))
        n_active = int(present[-1].sum())
        problem = Problem(P, two_sided, r, p0, n_active, gradient, float(self.temperature))
        on_cluster = on_a_cluster("EDRep.fit", engine) if engine is not None or "distributed" in sys.modules else False
        if on_cluster and self.device is not None:
            raise InputError("EDRep", "device", "None on a cluster, whose workers use their threads", self.device)
        near = None if self.storage is None or on_cluster else self._near(P, gradient, n_jobs, two_sided=two_sided)
        folder = self._folder_of_parts(far) if on_cluster and self.storage is not None else None
        if not on_cluster and (n + m) * d > checks.SMALL:
            hint = "Take fewer components, or keep the relation in files: Relation.from_edges(..., storage=folder)."
            checks.check_memory("EDRep", "relation", self._memory(rel, two_sided, gradient, P, kept) - rel.nbytes, hint)
        sphere = Sphere() if check_choice("EDRep", "constraint", self.constraint, CONSTRAINTS) == "sphere" else Ball()
        with (
            Trainer(
                "EDRep",
                self.n_epochs,
                callbacks=self.callbacks,
                verbose=self.verbose,
                total=self.n_epochs * (1 + (self.n_clusters > 1)),
                identity=cache(partial(identity_of, self, rel, n_jobs)),
            ) as trainer,
            single_threaded_blas(),
            client_of("EDRep.fit") if on_cluster else nullcontext() as client,
        ):
            workers = Workers(problem, client, in_parts=folder is not None) if on_cluster else None
            sweeper: Engine
            if workers is not None:
                sweeper = workers
            else:
                sweeper = Threads(problem, n_jobs, near) if self.device is None else self._on_device(problem, far)
            if workers is not None and folder is not None:
                workers.check_seen("EDRep", "storage", folder)
            room = partial(self._room, "vectors.partial") if near is not None else None
            if resume is None:
                rng = check_random_state("EDRep", self.random_state)
                if workers is not None and folder is not None and self.init is None:
                    state = workers.start(d, rng, present, sphere)
                else:
                    state = self._start(rel, kept, present, sphere, rng, n_jobs, room)
            else:
                with restoring(resume):
                    sizes = [len(related) for related in present]
                    state = State.restored(*trainer.resume(resume, _HINT), sizes, self.n_components, self.n_clusters)
                    if folder is None:  # what was in parts comes here
                        state.X, state.Y = np.asarray(state.X), None if state.Y is None else np.asarray(state.Y)
                    if near is not None:
                        stored = self._room("vectors.partial", state.X.shape, state.X.dtype)
                        stored[...] = state.X
                        state.X = stored
            while True:  # with several clusters twice: the second time with a mixture over the clusters of the first
                far = far if state.labels is None else GaussianMixture(int(state.labels.max()) + 1, state.labels)
                for epoch in range(state.epoch, self.n_epochs):
                    if self.schedule in ("constant", "plateau") and has_converged(state.losses, self.tol):
                        break  # under a falling rate the steps die out by themselves: small progress says nothing
                    rate = learning_rate(self.schedule, self.learning_rate, epoch, self.n_epochs, state.losses)
                    loss = sweeper.sweep(state, far, sphere, rate) / float(r.sum())
                    assert state.sums is not None  # those of the vectors after the step, over every row
                    if not (np.isfinite(loss) and np.isfinite(state.sums).all()):
                        raise NumericalError(
                            f"EDRep.fit: loss and vectors must stay finite; got others, at a loss of {loss}, in epoch "
                            f"{epoch + 1} at learning rate {rate:.3g}. Try learning_rate={self.learning_rate / 2:.3g}."
                        )
                    state.losses.append(loss)
                    state.epoch = epoch + 1
                    if trainer.callbacks:
                        sweeper.fetch(state)
                    if trainer.tell(state.epoch, loss, rate, state):
                        break
                sweeper.fetch(state)
                others = state.X if state.Y is None else state.Y
                if self.n_clusters == 1 or state.labels is not None or trainer.stopped:
                    break
                rng = state.rng
                labels = spherical_kmeans(others, self.n_clusters, rng=rng, n_jobs=n_jobs).labels
                del state, others  # their memory, before the new vectors come
                state = self._start(rel, kept, present, sphere, rng, n_jobs, room)
                state.labels = np.where(present[-1], labels, -1)
            if near is not None:
                for path in Path(self.storage).glob("pull-*.npy"):
                    path.unlink()
                partial_file = Path(self.storage, "vectors.partial.npy")  # an earlier fit's file stays until now
                partial_file.replace(partial_file.with_name("vectors.npy"))

            # What is learned. far_check_ compares log Z of some rows with the exact one.
            has_relation = present[-1]
            if workers is not None and folder is not None:
                far = workers.prepared(far, state)
                state.X, state.Y = self._written(folder, rel, state)
            del sweeper, workers, near, problem, r  # their memory, before the vectors are spread over all rows
            if folder is None:
                far.prepare(others, n_active, state.rng, n_jobs)
            r = rel.operator.row_sums if kept is None else rel.operator.row_sums[kept]
            rows = np.flatnonzero(r > 0)
            rows = np.sort(np.random.default_rng(0).choice(rows, min(N_CHECKED_ROWS, rows.size), replace=False))
            log_z = np.empty(rows.size)
            asking = state.X[rows] / float(self.temperature)
            far.evaluate(asking, log_z, np.empty_like(asking))
            self._checked_rows = (rows if kept is None else kept[rows], r[rows], log_z, n_active)
            closeness = 0.0 if state.sums is None else float(np.square(state.sums[1] / r.sum()).sum())
            if closeness > COLLAPSED and rows.size > self.n_components:  # few may well be alike
                warnings.warn(
                    f"EDRep.fit: the vectors of rows should differ; got a mean cosine of {closeness:.3f} between them."
                    " Their neighbours and scores say little. Try p0=relation.column_sums where columns are items of"
                    " uneven popularity, or a temperature below 1.",
                    NearfarWarning,
                    stacklevel=2,
                )
            self._ids = (rel.row_ids, rel.column_ids)
            self._growth: dict[str, Any] = {}
            self.embedding_, self.cluster_labels_ = state.X, state.labels
            if kept is not None:
                n = rel.operator.shape[0]
                self.embedding_ = _spread(state.X, kept, n)
                self.cluster_labels_ = None if state.labels is None else _spread(state.labels, kept, n, missing=-1)
                has_relation = _spread(has_relation, kept, n)
            self.context_embedding_ = state.Y
            self.loss_curve_ = np.array(state.losses)
            self.loss_ = state.losses[-1]
            self.n_iter_ = state.epoch
            # No second copy of the vectors: a far field that reads the others is given those of the estimator.
            if kept is not None and getattr(far, "keeps_others", True):
                far.prepare(self.embedding_, n_active, state.rng, 1)
            prior = state.sums[0] if state.sums is not None else p0.astype(others.dtype) @ others
            self._fitted_columns = FittedColumns(
                copy.copy(far),
                np.copysign(1.0, self.temperature) * prior.astype(np.float64),
                None if has_relation.all() else has_relation,
                self.constraint == "sphere",
                float(self.temperature),
            )
        return self

    def _on_device(self, problem: Problem, far: FarField) -> Engine:
        """Return the engine of the device that was asked for."""
        require("EDRep(device=)", "torch", "torch")
        from nearfar.engines.torch.edrep import Device

        return Device.of(problem, self.device, far)

    def _variant(self, rel: Relation) -> tuple[bool, str, LinearOperator, Rows | None]:
        """Return what parameters leave open until the relation is known.

        That is: whether rows and columns get vectors of their own; the gradient that ``"auto"`` stands for (see
        docs/decisions, "The default gradient"); the operator that is fitted, and its rows, None for all.

        Isolates would only cost time and cache. They are kept where there are two sides, factors that do not allow it
        cheaply, or so few isolates that a copy of the column numbers needs more memory than their vectors. What is
        left in then has zero vectors, which no sum notices.
        """
        if self.n_components == 1 and self.constraint == "sphere":
            hint = "A unit vector of one number is 1 or -1 and cannot move. constraint='ball' takes one component."
            raise InputError("EDRep", "n_components", "at least 2 with constraint='sphere'", 1, hint)
        two_sided = not rel.is_square
        if self.two_sided is not None:
            two_sided = check_flag("EDRep", "two_sided", self.two_sided)
            if not two_sided and not rel.is_square:
                got = f"False for {rel.shape[0]} rows and {rel.shape[1]} columns of different ids"
                raise InputError("EDRep", "two_sided", "True or None where the relation is not square", got)
        if abs(check_real("EDRep", "temperature", self.temperature)) < COLDEST:
            hint = "The score is the scalar product divided by it."
            raise InputError("EDRep", "temperature", f"at least {COLDEST} in size", self.temperature, hint)
        if two_sided and self.temperature < 0:
            hint = "Fit with the positive one and mirror the vectors of one side."
            raise InputError("EDRep", "temperature", "> 0 with two sides", self.temperature, hint)
        gradient = check_choice("EDRep", "gradient", self.gradient, GRADIENTS)
        if gradient == "auto":
            gradient = "forward" if rel.operator.is_undirected else "paper"
        P = rel.operator
        saved = rel.isolates.size * self.n_components * 4 * 3  # three blocks at least
        if (
            saved
            and self.storage is None
            and not two_sided
            and saved >= P.nnz * 4 + P.shape[0] * 24
            and getattr(self.far, "labels", None) is None
        ):
            smaller = P.without(rel.isolates)
            if smaller is not None:
                return two_sided, gradient, smaller, np.delete(np.arange(P.shape[0]), rel.isolates)
        return two_sided, gradient, P, None

    def _folder_of_parts(self, far: FarField) -> Path:
        """Return the storage of a fit on a cluster, in which workers write their parts in the end."""
        from nearfar.embedding.files.native import FOLDER

        folder = FOLDER.check("EDRep", "storage", check_path("EDRep", "storage", self.storage))
        if self.n_clusters > 1 or not getattr(far, "takes_moments", False):
            got = f"far={self.far!r}, n_clusters={self.n_clusters}"
            hint = "Others need all vectors in one place: leave storage out."
            raise InputError("EDRep", "far", "a mixture of known clusters with storage on a cluster", got, hint)
        return folder

    def _written(self, folder: Path, rel: Relation, state: State) -> tuple[Any, Any]:
        """Let the workers write the vectors; return them as they are in the files."""
        from nearfar.embedding.files import Content
        from nearfar.embedding.files.native import read_parts, write_parts

        ids = rel.row_ids, None if state.Y is None else rel.column_ids
        content = Content(state.X, ids[0], state.Y, ids[1], self._facts())
        write_parts("EDRep", "storage", folder, content)
        written = read_parts(folder)
        return written.vectors, written.context_vectors

    def _near(self, P: LinearOperator, gradient: str, n_jobs: int, *, two_sided: bool) -> NearField:
        """Return the near field whose arrays are files of the storage."""
        if two_sided:
            hint = "It is for one embedding, whose vectors are the largest part by far; or for two on a cluster."
            raise InputError("EDRep", "storage", "None with two sides", repr(str(self.storage)), hint)
        walk = P.as_walk()
        if walk is None or gradient != "forward":
            hint = "An undirected relation's random_walk or normalized() is one, with gradient='auto'."
            got = f"a folder for gradient {gradient!r} of {type(P).__name__}"
            raise InputError(
                "EDRep", "storage", "None unless the relation is a walk with gradient='forward'", got, hint
            )
        return NearSlices(*walk, self._room, n_jobs=n_jobs)

    def _room(self, name: str, shape: tuple[int, int], dtype: Any) -> Floats:
        """Return an array in a file of the storage; an older file is replaced, not written to."""
        folder = check_path("EDRep", "storage", self.storage)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.npy"
        path.unlink(missing_ok=True)
        return np.asarray(np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape))

    def _start(
        self,
        rel: Relation,
        kept: Rows | None,
        present: list[Mask],
        sphere: Sphere,
        rng: np.random.Generator,
        n_jobs: int,
        room: Any,
    ) -> State:
        """Return where the fit starts: ``init``, an array or what an Embedding knows by id.

        ``room`` returns an array in a file of the storage, by shape and dtype; None for memory.
        Random where that has nothing, or zeros, which have no direction in which to move; zero without a relation.
        """
        inits = (self.init, self.init if hasattr(self.init, "context_vectors") else None)
        if len(present) == 2 and isinstance(self.init, tuple):
            inits = self.init
        sides: list[Floats] = []
        for init, ids, related in zip(inits, (rel.row_ids, rel.column_ids), present, strict=False):
            n, d = len(related), self.n_components
            if init is None or hasattr(init, "vectors"):
                out = None if room is None else room((n, d), np.float32)
                X: Floats = Sphere().start(n, d, rng, n_jobs, out)
            else:
                array = check_matrix("EDRep", "init", init, rows=len(ids), columns=d)
                rows = np.arange(n) if kept is None else kept
                out = empty_aligned((n, d), array.dtype) if room is None else room((n, d), array.dtype)
                X = np.take(array, rows, axis=0, out=out, mode="clip")
                unknown = np.flatnonzero(~X.any(axis=1))
                X[unknown] = Sphere().start(unknown.size, d, rng, n_jobs)
            if hasattr(init, "vectors"):
                known, vectors = init.ids, init.vectors
                if sides and init.context_vectors is not None and init.context_ids is not None:
                    known, vectors = init.context_ids, init.context_vectors
                if vectors.shape[1] != d:
                    expected = f"of {d} columns, as n_components says"
                    raise InputError("EDRep", "init", expected, f"{vectors.shape[1]} columns")
                rows = known.rows(ids if kept is None else ids.take(kept))
                found = np.flatnonzero(rows >= 0)
                known_vectors = vectors[rows[found]]
                useful = known_vectors.any(axis=1)  # what was an isolate then may have relations now
                X[found[useful]] = known_vectors[useful]
            sphere.project(X)
            if init is not None and len(present) == 1:  # with two sides the other one may tell them apart
                check_rows_differ("EDRep", "init", X[related])
            X[~related] = 0
            sides.append(X)
        X, Y = sides[0], sides[1].astype(sides[0].dtype, copy=False) if len(sides) == 2 else None
        return State(X=X, Y=Y, rng=rng)

    def transform(self, P_new: Any, *, engine: str | None = None) -> Any:
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
            with client_of("EDRep.transform") as client:
                elsewhere = partial(placed_on_workers, client, self._fitted_columns)
                placed = self._fitted_columns.transform(*what, elsewhere)
        else:
            placed = self._fitted_columns.transform(*what)
        known = isinstance(P_new, Relation)
        return self._output(placed, P_new, lambda: P_new.row_ids if known else rows_and_ids("EDRep", P_new)[1])

    def grow(self, relation: Any, *, n_epochs: int = 5, learning_rate: float = 0.2) -> Self:
        """Take in new objects and new relations: a few epochs from where the vectors are.

        Objects are matched by id. Known ones start at their vectors, new ones where :meth:`transform` puts them (new
        columns at the mean of the rows related to them); those related to nothing known start at random. Objects that
        the new relation lacks are forgotten.

        Parameters
        ----------
        relation : Relation, sparse matrix, ndarray, data frame or graph of shape (n, m)
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
        rel = as_relation(relation)
        if self._variant(rel)[0] != (self.context_embedding_ is not None):
            raise InputError("EDRep.grow", "relation", "of as many sides as that of the fit", f"shape {rel.shape}")
        start = self._start_of_growth(rel, check_n_jobs("EDRep", self.n_jobs))
        params = self.get_params(deep=False)
        changed = {"n_epochs": n_epochs, "learning_rate": learning_rate}
        grown = type(self)(**{**params, **changed, "init": start}).fit(rel)
        self.__dict__.update({name: value for name, value in vars(grown).items() if name not in params})
        self._growth = {f"growth_{name}": value for name, value in changed.items()}
        return self

    def _start_of_growth(self, rel: Relation, n_jobs: int) -> Embedding:
        """Return the start of a fit of ``rel``: zero vectors for new objects without relations to known ones.

        New rows are placed as by ``transform``. New columns, and rows that others point to but that point to nobody
        known, start at the mean of those who relate to them.
        """
        from nearfar.embedding.vectors import Embedding

        fitted = self.vectors_
        X, new = _known(fitted.vectors, fitted.ids, rel.row_ids)
        if new.size == len(X):
            got = f"none of its {len(X)} ids ({', '.join(map(repr, rel.row_ids.take(np.arange(2)).to_list()))}, ...)"
            hint = "Give a matrix its ids by Relation.from_matrix(A, ids=...), or start anew with fit."
            raise InputError("EDRep.grow", "relation", "of objects of the fit, known by id", got, hint)
        Y, new_columns = X, new
        if fitted.context_vectors is not None and fitted.context_ids is not None:
            Y, new_columns = _known(fitted.context_vectors, fitted.context_ids, rel.column_ids)
        if new.size:
            pull = rel.operator.matmat(Y, n_jobs=n_jobs)[new]
            present: Mask = np.any(Y, axis=1)
            X[new] = self._fitted_columns.place(pull, weights_of(rel, present, n_jobs)[new], n_jobs)
        new_columns = new_columns[~Y[new_columns].any(axis=1)]
        if new_columns.size:
            Y[new_columns] = Sphere().project(rel.operator.rmatmat(X, n_jobs=n_jobs)[new_columns])
        if Y is X:
            return Embedding(X, rel.row_ids)
        return Embedding(X, rel.row_ids, context_vectors=Y, context_ids=rel.column_ids)

    @property
    def _others(self) -> NDArray[np.floating[Any]]:
        """The vectors of the columns."""
        return self.embedding_ if self.context_embedding_ is None else self.context_embedding_

    @property
    def far_check_(self) -> dict[str, float]:
        """Relative error of the normalisers at the end, on a sample of rows; O(n d) time at each look."""
        from scipy.special import stdtrit

        self._check_fitted("far_check_")
        rows, weights, log_z, n_active = self._checked_rows
        X, oracle, exact = self.embedding_[rows] / self._fitted_columns.temperature, Exact(), np.empty(rows.size)
        n_jobs = check_n_jobs("EDRep", self.n_jobs)
        with single_threaded_blas():
            oracle.prepare(self._others, n_active, np.random.default_rng(0), n_jobs)
            bounds = even_bounds(rows.size, 16)
            run_blocks(lambda _b, lo, hi: oracle.evaluate(X[lo:hi], exact[lo:hi], None), bounds, n_jobs)
        errors = np.abs(np.expm1(np.minimum(log_z - exact, 300.0)))  # their squares stay finite
        mean, margin = float(errors.mean()), 0.0  # no margin where all rows were looked at
        if rows.size == N_CHECKED_ROWS:
            margin = float(stdtrit(rows.size - 1, 0.975) * errors.std(ddof=1) / np.sqrt(rows.size))
        return {
            "relative_error": mean,
            "low": max(0.0, mean - margin),
            "high": mean + margin,
            "far": float((weights * log_z).mean()),
            "exact": float((weights * exact).mean()),
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
        )

    def _facts(self) -> dict[str, Any]:
        """Return how the vectors are made, for who reads them."""
        return {"estimator": type(self).__name__, **self.get_params(deep=False)}

    def expected_memory(self, relation: Relation) -> int:
        """Return the bytes that a fit holds at its peak: the relation and the blocks of n x d numbers beside it.

        What is in the files of ``storage`` does not count. Numbers are float32, or float64 if ``init`` is. Where its
        transpose is needed it counts too. Blocks of a few rows per worker, and interpreter and libraries (about
        150 MB), come on top. A fit that would take more than is free is refused. With ``device`` this is the memory of
        the device, but for the relation, whose entries take 8 bytes there; the machine then holds relation and vectors.

        Parameters
        ----------
        relation : Relation, sparse matrix or ndarray
            What would be fitted.
        """
        rel = as_relation(relation)
        return self._memory(rel, *self._variant(rel))

    def _memory(
        self, rel: Relation, two_sided: bool, gradient: str, operator: LinearOperator, kept: Rows | None
    ) -> int:
        """Return the bytes of a fit of this variant."""
        (n, m), numbers = operator.shape, 0
        if two_sided and self.storage is not None:
            self._near(operator, gradient, 1, two_sided=True)  # which refuses it
        if two_sided:
            blocks = 2 * (n + m) + 2 * operator.scratch_arrays() * max(n, m) + (m if gradient == "full" else 0)
        else:
            if self.storage is None:
                near = near_field(operator, both=gradient != "forward", n_jobs=1, scratch=gradient == "full")
            else:
                near = self._near(operator, gradient, 1, two_sided=two_sided)
            blocks = n * (1 + near.n_arrays)
            if self.storage is not None:
                blocks, numbers = 0, n * near.n_arrays * min(SLICE, self.n_components)
            blocks += n * (self.far == "exact")
        blocks += n * (gradient == "full" and self.temperature != 1)  # the rows over the temperature
        if self.n_clusters > 1:
            blocks += 2 * min(m, max(5_000, 100 * self.n_clusters))  # the sample in which spherical_kmeans starts
        if kept is not None:  # in the end vectors are spread over all rows
            blocks = max(blocks, n + rel.shape[0])
        init = self.init[0] if isinstance(self.init, tuple) else self.init
        is_double = False
        with suppress(ValueError):  # what is no array is refused by itself
            is_double = not hasattr(init, "vectors") and np.asarray(init).dtype == np.float64
        nbytes = rel.nbytes + (numbers + blocks * self.n_components) * (8 if is_double else 4)
        if two_sided or gradient != "forward":
            nbytes += operator.transpose_nbytes()
        if kept is not None:  # columns have other numbers then
            nbytes += operator.nnz * 4 + n * 8
        return nbytes


def _spread(values: NDArray[Any], kept: NDArray[np.int64], n: int, missing: float = 0) -> NDArray[Any]:
    """Return the values of all n rows from those of the rows that were kept."""
    whole = np.full((n, *values.shape[1:]), missing, values.dtype)
    whole[kept] = values
    return whole


def _known(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, NDArray[np.int64]]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))
