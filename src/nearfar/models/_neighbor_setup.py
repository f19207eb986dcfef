"""What the parameters of a map ask for: its objective, its far field, the phases of its optimisation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from nearfar._checks import check_choice
from nearfar._part import Part
from nearfar.divergences.probability import KL, MapDivergence
from nearfar.errors import InputError, NearfarWarning
from nearfar.models._neighbor_objective import MasterObjective, NeighborObjective, Objective, is_linear_time
from nearfar.models._neighbor_solver import Phase, auto_learning_rate
from nearfar.models._neighbor_start import symmetric

if TYPE_CHECKING:
    from nearfar.far.fields import Field
    from nearfar.models.neighbor import NeighborEmbedding

Parts = tuple[Any, Any, str]
"""Divergence, kernel and normalisation."""
FAR = ("auto", "exact", "fft")
EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh."""
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""


def objective_of(estimator: NeighborEmbedding, P: Any, parts: Parts, dtype: Any, n_jobs: int) -> Objective:
    """Return the objective in linear time if there is one for the parts, else that of the master equation."""
    divergence, kernel, normalization = parts
    if is_linear_time(kernel, divergence, normalization):
        field = field_of(estimator, P.shape[0])
        return NeighborObjective(P, kernel, divergence, normalization, field, dtype=dtype, n_jobs=n_jobs)
    owner = type(estimator).__name__
    if estimator.far not in ("auto", "exact"):
        hint = "Other combinations than the built-in ones are computed pair by pair."
        raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", estimator.far, hint)
    if P.shape[0] > MANY:
        _warn_of_pairs(owner, "This divergence, kernel and normalization", P.shape[0])
    return MasterObjective(symmetric(P) if normalization == "pair" else P, kernel, divergence, normalization)


def field_of(estimator: NeighborEmbedding, n: int) -> Field:
    """Return the far field that ``far`` names, or a fresh copy of the one given."""
    from nearfar.far import ExactField, MeshField

    owner, far, d = type(estimator).__name__, estimator.far, estimator.n_components
    if not isinstance(far, str):
        if not all(hasattr(far, name) for name in ("place", "evaluate")):
            raise InputError(owner, "far", "'auto', 'exact', 'fft' or a field of nearfar.far", repr(far))
        return far.with_params() if isinstance(far, Part) else far
    check_choice(owner, "far", far, FAR)
    if far == "fft" and d > 2:
        hint = "The mesh has one or two dimensions: take far='exact'."
        raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
    if far == "fft" or (far == "auto" and d <= 2 and n > EXACT_UP_TO):
        return MeshField()
    if far == "auto" and n > MANY:
        _warn_of_pairs(owner, f"{d} components", n)
    return ExactField()


def phases_of(estimator: NeighborEmbedding, parts: Parts, n: int, reach: float) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself."""
    divergence, _, normalization = parts
    is_kl = isinstance(divergence, MapDivergence) and isinstance(divergence.limit(), KL)
    if estimator.exaggeration != 1 and not is_kl:
        hint = "The first phase, which KL governs, has early_exaggeration."
        owner, got = type(estimator).__name__, estimator.exaggeration
        raise InputError(owner, "exaggeration", "1 for another divergence than KL", got, hint)

    def phase(what: Any, n_iter: int, exaggeration: float, *, may_stop: bool) -> Phase:
        rate = estimator.learning_rate
        rate = auto_learning_rate(n, exaggeration, reach) if isinstance(rate, str) else float(rate)
        return Phase(what, n_iter, exaggeration, rate, may_stop)

    early_iter = 0 if normalization == "none" else min(estimator.early_exaggeration_iter, estimator.max_iter)
    phases = [phase(None, estimator.max_iter - early_iter, estimator.exaggeration, may_stop=True)]
    if early_iter:
        phases.insert(0, phase(None if is_kl else KL(), early_iter, estimator.early_exaggeration, may_stop=False))
    return phases


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warnings.warn(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One or two components and the "
        "built-in divergences and kernels take linear time.",
        NearfarWarning,
        stacklevel=5,
    )
