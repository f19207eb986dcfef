"""`EDRep`: unit vectors from any relation, with the softmax normaliser in linear time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import (
    check_callbacks,
    check_choice,
    check_flag,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_path,
    check_random_state,
    check_real,
)
from nearfar._core.vector import empty_aligned
from nearfar.base import RelationEmbedder, as_relation, identity_of
from nearfar.contracts import FarField, Floats, Solver
from nearfar.edrep.solver import SCHEDULES, Ball, FarCheck, Problem, Settings, Sphere, State, descend
from nearfar.edrep.transform import FrozenSide, place, transform, weights_of
from nearfar.errors import InputError
from nearfar.relations.near import OperatorPull, WalkPull, symmetric_near_field

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.embedding.vectors import Embedding
    from nearfar.far.gaussian_mixture import GaussianMixture
    from nearfar.relations.matrix import Relation

# ------------------------------------------------------------
# From the parameters of EDRep and a relation to a problem, a start, a far field and a solver; all checks are here.

GRADIENTS = ("auto", "paper", "forward", "full")


def settings_of(est: EDRep, relation: Relation | None = None) -> Settings:
    """Check what does not depend on the relation, which is needed only to tell this fit from others."""
    check_integer("EDRep", "n_components", est.n_components, low=1)
    check_integer("EDRep", "n_clusters", est.n_clusters, low=1)
    n_jobs = check_n_jobs("EDRep", est.n_jobs)
    return Settings(
        n_epochs=check_integer("EDRep", "n_epochs", est.n_epochs, low=1),
        learning_rate=check_real("EDRep", "learning_rate", est.learning_rate, 0, 1, open_low=True),
        schedule=check_choice("EDRep", "schedule", est.schedule, SCHEDULES),
        tol=check_real("EDRep", "tol", est.tol, low=0),
        callbacks=check_callbacks("EDRep", est.callbacks),
        verbose=check_integer("EDRep", "verbose", est.verbose, low=0),
        n_jobs=n_jobs,
        identity=dict if relation is None else cache(partial(identity_of, est, relation, n_jobs)),
    )


def resumed(path: Any, settings: Settings, problem: Problem) -> State:
    """Return the state that a checkpoint of this very fit holds."""
    from nearfar._core import checkpoint

    owner = "EDRep.fit"
    file = check_path(owner, "resume", path, exists=True)
    snapshot = checkpoint.read(file)
    checkpoint.check_same(owner, "resume", repr(str(file)), snapshot.identity, settings.identity())
    state = State.restored(snapshot.arrays, snapshot.facts)
    if len(state.X) != len(problem.r) or (state.Y is None) != (problem.near_other is None):
        raise InputError(owner, "resume", f"a state of {len(problem.r)} rows", f"{len(state.X)} rows in {str(file)!r}")
    return state


def is_two_sided(est: EDRep, rel: Relation) -> bool:
    """Return whether rows and columns get vectors of their own."""
    if est.two_sided is None:
        return not rel.is_square
    two_sided = check_flag("EDRep", "two_sided", est.two_sided)
    if not two_sided and not rel.is_square:
        got = f"False for {rel.shape[0]} rows and {rel.shape[1]} columns of different ids"
        raise InputError("EDRep", "two_sided", "True or None where the relation is not square", got)
    return two_sided


def gradient_of(est: EDRep, rel: Relation) -> str:
    """Return the gradient variant that ``"auto"`` stands for (docs/decisions, "The default gradient")."""
    gradient = check_choice("EDRep", "gradient", est.gradient, GRADIENTS)
    if gradient != "auto":
        return gradient
    return "forward" if rel.operator.is_undirected else "paper"


@dataclass(frozen=True)
class Kept:
    """Which of the n rows take part in a fit: all of them where ``rows`` is None."""

    n: int
    rows: NDArray[np.int64] | None = None

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to the rows that take part, from something that all n rows have."""
        return values if self.rows is None else values[self.rows]

    def spread(self, values: NDArray[Any], missing: float = 0) -> NDArray[Any]:
        """Return the values of all n rows, ``missing`` for those that take no part."""
        if self.rows is None:
            return values
        whole = np.full((self.n, *values.shape[1:]), missing, values.dtype)
        whole[self.rows] = values
        return whole


def without_isolates(est: EDRep, rel: Relation) -> tuple[Relation, Kept]:
    """Return the relation of those that have one: the others would only cost time and cache.

    All are kept where there are two sides, factors that do not allow it cheaply, or so few isolates that a copy of the
    column numbers needs more memory than their vectors. What is left in then has zero vectors, which no sum notices.
    """
    n = rel.shape[0]
    smaller = min(rel.shape)
    if est.n_components > smaller:
        raise InputError(
            "EDRep", "n_components", f"at most {smaller}, the number of objects of the smaller side", est.n_components
        )
    saved = rel.isolates.size * est.n_components * 4 * 3  # three blocks at least
    copied = rel.nnz * 4 + n * 24
    if is_two_sided(est, rel) or saved < copied or getattr(est.far, "labels", None) is not None:
        return rel, Kept(n)
    operator = rel.operator.without(rel.isolates)
    if operator is None:
        return rel, Kept(n)
    kept = np.delete(np.arange(n), rel.isolates)
    ids = rel.row_ids.take(kept)
    return type(rel)(operator, ids, ids), Kept(n, kept)


def problem_of(est: EDRep, rel: Relation, kept: Kept, n_jobs: int) -> Problem:
    """Make the relation ready: pulls, row weights, prior."""
    two_sided = is_two_sided(est, rel)
    gradient = gradient_of(est, rel)
    present = rel.column_sums > 0
    if not two_sided:
        present |= rel.row_sums > 0
    n_active = int(present.sum())
    if est.n_clusters > n_active:
        raise InputError("EDRep", "n_clusters", f"at most {n_active}, the objects with a relation", est.n_clusters)
    operator = rel.operator
    return Problem(
        near=OperatorPull(operator, n_jobs=n_jobs) if two_sided else symmetric_near_field(operator, gradient, n_jobs),
        near_other=OperatorPull(operator, transposed=True, n_jobs=n_jobs) if two_sided else None,
        r=rel.row_sums,
        p0=_prior(est, present, kept if not two_sided else Kept(present.size)),
        present=present,
        n_active=n_active,
        gradient=gradient,
    )


def _prior(est: EDRep, present: NDArray[np.bool_], kept: Kept) -> NDArray[np.float64]:
    given: Any = est.p0
    if isinstance(given, (int, float)) and given == 0:
        return np.zeros(present.size)
    try:
        p0: NDArray[np.float64] = np.ones(kept.n) if est.p0 is None else np.asarray(est.p0, dtype=np.float64)
    except (TypeError, ValueError):
        p0 = np.empty(())
    if p0.ndim == 0:
        raise InputError("EDRep", "p0", f"0, or an array of shape ({kept.n},)", est.p0)
    if p0.shape != (kept.n,):
        raise InputError("EDRep", "p0", f"of shape ({kept.n},), one number per column", f"shape {p0.shape}")
    p0 = kept.take(p0)
    p0 = np.where(present, p0, 0.0)
    if not (np.isfinite(p0).all() and (p0 >= 0).all() and p0.sum() > 0):
        raise InputError("EDRep", "p0", "finite, >= 0, and positive for some object with a relation", est.p0)
    p0 /= p0.sum()
    return p0


def solver_of(est: EDRep) -> Solver:
    """Return the step that keeps the constraint."""
    return Sphere() if check_choice("EDRep", "constraint", est.constraint, ("sphere", "ball")) == "sphere" else Ball()


def far_of(est: EDRep, problem: Problem) -> FarField:
    """Return the far field of the (first) fit."""
    from nearfar.far.softmax import far_field

    far = far_field(est.far, owner="EDRep")
    if est.n_clusters > 1 and est.far != "gaussian-mixture":
        raise InputError("EDRep", "n_clusters", "1 unless far='gaussian-mixture'", est.n_clusters)
    if problem.gradient == "full" and not hasattr(far, "other_side"):
        raise InputError(
            "EDRep", "far", "one that knows the gradient of the others (gaussian-mixture, exact, noise)", est.far,
            "Or choose gradient='paper'.",
        )  # fmt: skip
    return far


def clustered(state: State, problem: Problem, n_clusters: int, n_jobs: int) -> NDArray[np.int64]:
    """Return the clusters of the fitted others, -1 for what is not there."""
    from nearfar.far.gaussian_mixture import spherical_kmeans

    others = state.X if state.Y is None else state.Y
    labels = spherical_kmeans(others, n_clusters, rng=state.rng, n_jobs=n_jobs).labels
    return np.where(problem.present, labels, -1)


def mixture_over(labels: NDArray[np.integer[Any]]) -> GaussianMixture:
    """Return the far field of the second fit."""
    from nearfar.far.gaussian_mixture import GaussianMixture

    return GaussianMixture(n_clusters=int(labels.max()) + 1, labels=labels)


def start_of(
    est: EDRep,
    rel: Relation,
    kept: Kept,
    problem: Problem,
    rng: np.random.Generator,
    n_jobs: int,
) -> State:
    """Return where the fit starts: random vectors, or those given; zero where there is no relation."""
    representation = Sphere() if est.constraint == "sphere" else Ball()
    d = est.n_components
    two_sided = problem.near_other is not None
    given, given_other = est.init if isinstance(est.init, tuple) and two_sided else (est.init, None)
    rows_present = rel.row_sums > 0 if two_sided else problem.present
    X = representation.project(_vectors(given, rel.row_ids, kept, d, rng, n_jobs, context=False))
    X[~rows_present] = 0
    Y = None
    if two_sided:
        source = given if given_other is None and hasattr(given, "context_vectors") else given_other
        Y = representation.project(_vectors(source, rel.column_ids, Kept(rel.shape[1]), d, rng, n_jobs, context=True))
        Y = Y.astype(X.dtype, copy=False)
        Y[~problem.present] = 0
    return State(X=X, Y=Y, rng=rng)


def _vectors(
    given: Any, ids: Any, kept: Kept, d: int, rng: np.random.Generator, n_jobs: int, *, context: bool
) -> Floats:
    """Return a start for one side: an array, or what an Embedding knows by id; random where these are 0 or None."""
    from nearfar.embedding.vectors import Embedding

    if given is not None and not isinstance(given, Embedding):
        array = check_matrix("EDRep", "init", given, rows=kept.n, columns=d)
        rows = np.arange(kept.n) if kept.rows is None else kept.rows
        array = np.take(array, rows, axis=0, out=empty_aligned((len(rows), d), array.dtype), mode="clip")
        unknown = np.flatnonzero(~array.any(axis=1))  # a vector of zeros has no direction in which to move
        array[unknown] = Sphere().start(unknown.size, d, rng, n_jobs)
        return array
    X = Sphere().start(len(ids), d, rng, n_jobs)
    if given is None:
        return X
    known, vectors = (given.ids, given.vectors)
    if context and given.context_vectors is not None and given.context_ids is not None:
        known, vectors = given.context_ids, given.context_vectors
    if vectors.shape[1] != d:
        raise InputError("EDRep", "init", f"of {d} columns, as n_components says", f"{vectors.shape[1]} columns")
    rows = known.rows(ids)
    found = np.flatnonzero(rows >= 0)
    known_vectors = vectors[rows[found]]
    useful = known_vectors.any(axis=1)  # what was an isolate then may have relations now: it starts at random
    X[found[useful]] = known_vectors[useful]
    return X


def expected_memory(est: EDRep, rel: Relation) -> int:
    """Return relation plus blocks of n x d, in bytes."""
    n, m = rel.shape
    two_sided = is_two_sided(est, rel)
    row = est.n_components * 4
    scratch = rel.operator.scratch_arrays()
    if two_sided:
        blocks = 2 * (n + m) + scratch * max(n, m) + (m if est.gradient == "full" else 0)
    else:
        gradient = gradient_of(est, rel)
        full = gradient == "full"
        walk = WalkPull.of(rel.operator, both=gradient != "forward", n_jobs=1)
        blocks = n * (2 + scratch + full if walk is None else 1 + walk.n_arrays(scratch=full))
    if est.far == "exact" and not two_sided:
        blocks += n
    return rel.nbytes + blocks * row


# ------------------------------------------------------------
# Growth: what is known starts where it was, what is new where its relations put it.


def start_of_growth(fitted: Embedding, frozen: FrozenSide, relation: Relation, n_jobs: int) -> Embedding:
    """Return the start of a fit of ``relation``: zero vectors for new objects without relations to known ones.

    New rows are placed as by ``transform``. New columns, and rows that others point to but that point to nobody known,
    start at the mean of those who relate to them.
    """
    from nearfar.embedding.vectors import Embedding

    X, new = _known(fitted.vectors, fitted.ids, relation.row_ids)
    if fitted.context_vectors is None or fitted.context_ids is None:
        _place_rows(frozen, relation, X, X.copy(), new, n_jobs)
        _place_by_others(relation, X, X, new, n_jobs)
        return Embedding(X, relation.row_ids)
    Y, new_columns = _known(fitted.context_vectors, fitted.context_ids, relation.column_ids)
    _place_rows(frozen, relation, X, Y, new, n_jobs)
    _place_by_others(relation, X, Y, new_columns, n_jobs)
    return Embedding(X, relation.row_ids, context_vectors=Y, context_ids=relation.column_ids)


def _known(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, NDArray[np.int64]]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))


def _place_rows(
    frozen: FrozenSide, relation: Relation, X: Floats, others: Floats, new: NDArray[np.int64], n_jobs: int
) -> None:
    """Write the vectors of new rows with relations to known columns."""
    if new.size:
        pull = relation.operator.matmat(others, n_jobs=n_jobs)[new]
        present: NDArray[np.bool_] = np.any(others, axis=1)
        X[new] = place(frozen, pull, weights_of(relation, present, n_jobs)[new], n_jobs)


def _place_by_others(relation: Relation, X: Floats, Y: Floats, new: NDArray[np.int64], n_jobs: int) -> None:
    """Write to the new rows of ``Y`` that are still zero the direction of ``Pᵀ X``; ``Y`` may be ``X``."""
    new = new[~Y[new].any(axis=1)]
    if new.size:
        Y[new] = Sphere().project(relation.operator.rmatmat(X, n_jobs=n_jobs)[new])


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
        settings = settings_of(self, whole)
        rel, kept = without_isolates(self, whole)
        problem = problem_of(self, rel, kept, settings.n_jobs)
        far, solver = far_of(self, problem), solver_of(self)
        if resume is None:
            rng = check_random_state("EDRep", self.random_state)
            state = start_of(self, rel, kept, problem, rng, settings.n_jobs)
        else:
            state = resumed(resume, settings, problem)
        if state.labels is None:
            state = descend(problem, state, far, solver, settings)
            if self.n_clusters > 1 and not state.stopped:
                labels = clustered(state, problem, self.n_clusters, settings.n_jobs)
                state = start_of(self, rel, kept, problem, state.rng, settings.n_jobs)
                state.labels = labels
        if state.labels is not None:
            far = mixture_over(state.labels)
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
        self._check_fitted("grow")
        rel = as_relation(relation)
        if is_two_sided(self, rel) != (self.context_embedding_ is not None):
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
        from nearfar.embedding.vectors import Embedding

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
        return expected_memory(self, as_relation(relation))
