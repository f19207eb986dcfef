"""From the parameters of EDRep and a relation to a problem, a start, a far field and a solver; all checks are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import (
    check_choice,
    check_flag,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_real,
)
from nearfar.contracts import FarField, Floats, Solver
from nearfar.errors import InputError
from nearfar.models._edrep_solver import Problem, Settings, State
from nearfar.optimize.schedules import SCHEDULES
from nearfar.optimize.sphere import Ball, Sphere
from nearfar.relations.near import OperatorPull, SymmetricPull, symmetric_near_field

if TYPE_CHECKING:
    from nearfar.far.gaussian_mixture import GaussianMixture
    from nearfar.models.edrep import EDRep
    from nearfar.relations.matrix import Relation

GRADIENTS = ("auto", "paper", "forward", "full")


def settings_of(est: EDRep) -> Settings:
    """Check what does not depend on the relation."""
    check_integer("EDRep", "n_components", est.n_components, low=1)
    check_integer("EDRep", "n_clusters", est.n_clusters, low=1)
    return Settings(
        n_epochs=check_integer("EDRep", "n_epochs", est.n_epochs, low=1),
        learning_rate=check_real("EDRep", "learning_rate", est.learning_rate, 0, 1, open_low=True),
        schedule=check_choice("EDRep", "schedule", est.schedule, SCHEDULES),
        tol=check_real("EDRep", "tol", est.tol, low=0),
        callbacks=tuple(est.callbacks or ()),
        verbose=check_integer("EDRep", "verbose", int(est.verbose), low=0),
        n_jobs=check_n_jobs("EDRep", est.n_jobs),
    )


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


def problem_of(est: EDRep, rel: Relation, n_jobs: int) -> Problem:
    """Make the relation ready: pulls, row weights, prior."""
    two_sided = is_two_sided(est, rel)
    gradient = gradient_of(est, rel)
    smaller = min(rel.shape)
    if est.n_components > smaller:
        raise InputError(
            "EDRep", "n_components", f"at most {smaller}, the number of objects of the smaller side", est.n_components
        )
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
        p0=_prior(est, present),
        present=present,
        n_active=n_active,
        gradient=gradient,
    )


def _prior(est: EDRep, present: NDArray[np.bool_]) -> NDArray[np.float64]:
    if np.ndim(est.p0 if est.p0 is not None else ()) == 0:
        check_real("EDRep", "p0", est.p0, 0, 0)
        return np.zeros(present.size)
    p0: NDArray[np.float64] = np.ones(present.size) if est.p0 is None else np.asarray(est.p0, dtype=np.float64)
    if p0.shape != present.shape:
        raise InputError("EDRep", "p0", f"of shape ({present.size},), one number per column", f"shape {p0.shape}")
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


def clustered(state: State, problem: Problem, n_clusters: int, n_jobs: int) -> GaussianMixture:
    """Return the mixture over the clusters of the fitted others."""
    from nearfar.far.clustering import spherical_kmeans
    from nearfar.far.gaussian_mixture import GaussianMixture

    others = state.X if state.Y is None else state.Y
    labels = spherical_kmeans(others, n_clusters, rng=state.rng, n_jobs=n_jobs).labels
    labels = np.where(problem.present, labels, -1)
    return GaussianMixture(n_clusters=int(labels.max()) + 1, labels=labels)


def start_of(est: EDRep, rel: Relation, problem: Problem, rng: np.random.Generator) -> State:
    """Return where the fit starts: random vectors, or those given; zero where there is no relation."""
    representation = Sphere() if est.constraint == "sphere" else Ball()
    d = est.n_components
    two_sided = problem.near_other is not None
    given, given_other = est.init if isinstance(est.init, tuple) and two_sided else (est.init, None)
    rows_present = rel.row_sums > 0 if two_sided else problem.present
    X = representation.project(_vectors(given, rel.row_ids, d, rng, context=False))
    X[~rows_present] = 0
    Y = None
    if two_sided:
        source = given if given_other is None and hasattr(given, "context_vectors") else given_other
        Y = representation.project(_vectors(source, rel.column_ids, d, rng, context=True)).astype(X.dtype, copy=False)
        Y[~problem.present] = 0
    return State(X=X, Y=Y, rng=rng)


def _vectors(given: Any, ids: Any, d: int, rng: np.random.Generator, *, context: bool) -> Floats:
    """Return a start for one side: random, an array, or what an Embedding knows by id and the rest random."""
    from nearfar.embedding import Embedding

    if given is not None and not isinstance(given, Embedding):
        return check_matrix("EDRep", "init", given, rows=len(ids), columns=d).copy()
    X = Sphere().start(len(ids), d, rng)
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
    kept = known_vectors.any(axis=1)  # what was an isolate then may have relations now: it starts at random
    X[found[kept]] = known_vectors[kept]
    return X


def expected_memory(est: EDRep, rel: Relation) -> int:
    """Return relation plus blocks of n x d, in bytes."""
    n, m = rel.shape
    two_sided = is_two_sided(est, rel)
    row = est.n_components * 4
    scratch = rel.operator.scratch_arrays()
    if two_sided:
        blocks = 2 * (n + m) + scratch * max(n, m) + (m if est.gradient == "full" else 0)
    elif gradient_of(est, rel) != "forward" and SymmetricPull.of(rel.operator, 1) is not None:
        blocks = (5 if scratch or est.gradient == "full" else 3) * n
    else:
        blocks = (2 + scratch + (est.gradient == "full")) * n
    if est.far == "exact" and not two_sided:
        blocks += n
    return rel.nbytes + blocks * row
