"""From the parameters of EDRep and a relation to a problem, a start, a far field and a solver; all checks are here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import (
    check_callbacks,
    check_choice,
    check_flag,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_path,
    check_real,
)
from nearfar._vector import empty_aligned
from nearfar.contracts import FarField, Floats, Solver
from nearfar.errors import InputError
from nearfar.models._edrep_solver import Problem, Settings, State
from nearfar.models._identity import check_same, identity_of
from nearfar.optimize.schedules import SCHEDULES
from nearfar.optimize.sphere import Ball, Sphere
from nearfar.relations.near import OperatorPull, WalkPull, symmetric_near_field

if TYPE_CHECKING:
    from nearfar.far.gaussian_mixture import GaussianMixture
    from nearfar.models.edrep import EDRep
    from nearfar.relations.matrix import Relation

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
    from nearfar.storage import checkpoint

    owner = "EDRep.fit"
    file = check_path(owner, "resume", path, exists=True)
    snapshot = checkpoint.read(file)
    check_same(owner, "resume", repr(str(file)), snapshot.identity, settings.identity())
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
    from nearfar.far.clustering import spherical_kmeans

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
    from nearfar.embedding import Embedding

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
