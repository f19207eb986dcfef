"""What the parameters of a map ask for: its objective, its far field, the phases of its optimisation."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar._checks import check_choice
from nearfar._part import Part
from nearfar.divergences.probability import KL, JensenShannon, MapDivergence
from nearfar.errors import InputError, NearfarWarning
from nearfar.far._per_point_nodes import family_of
from nearfar.far.noise_pairs import NoisePairs
from nearfar.models.maps._neighbor_objective import MasterObjective, NeighborObjective, Objective, is_linear_time
from nearfar.models.maps._neighbor_solver import Phase
from nearfar.models.maps._neighbor_start import symmetric
from nearfar.models.maps._noise_objective import NoiseObjective
from nearfar.models.maps._per_point_objective import is_per_point, per_point_objective

if TYPE_CHECKING:
    from nearfar.far.fields import Field
    from nearfar.models.maps.neighbor import NeighborEmbedding

Parts = tuple[Any, Any, str]
"""Divergence, kernel and normalisation."""
FAR = ("auto", "exact", "fft", "barnes-hut", "noise")
EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh."""
TREE_FROM = 6000
"""Points from which on, with three components, far="auto" is the tree."""
EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part. Near its minimum
large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over them."""
_FAR_OFF, _SHORT = 100.0, 1e-6
"""A kernel below _SHORT at this squared distance, in units of its reach, has short tails."""
FEW = (20_000, 50_000)
"""Points below which a mesh is cheap, and its errors do not average out; the second where large forces cancel."""
PER_POINT_TOLERANCE = 0.002
"""Tolerance of the mesh for kernels with a parameter per point, up to FEW points."""
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""


def objective_of(
    estimator: NeighborEmbedding, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int
) -> Objective:
    """Return the objective in linear time if there is one for the parts, else that of the master equation."""
    divergence, kernel, normalization = parts
    noise = noise_of(estimator.far)
    if noise is not None:
        _check_noise(type(estimator).__name__, divergence, kernel, normalization)
        return NoiseObjective(P, kernel, noise, rng=rng, dtype=dtype, n_jobs=n_jobs)
    if is_per_point(kernel, divergence, normalization):
        field = per_point_field_of(estimator, P.shape[0], divergence)
        return per_point_objective(P, kernel, divergence, field, dtype=dtype, n_jobs=n_jobs)
    if is_linear_time(kernel, divergence, normalization):
        field = field_of(estimator, P.shape[0], divergence)
        return NeighborObjective(P, kernel, divergence, normalization, field, dtype=dtype, n_jobs=n_jobs)
    owner = type(estimator).__name__
    if estimator.far not in ("auto", "exact"):
        hint = "Other combinations than the built-in ones are computed pair by pair."
        raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", estimator.far, hint)
    if P.shape[0] > MANY:
        _warn_of_pairs(owner, "This divergence, kernel and normalization", P.shape[0])
    return MasterObjective(symmetric(P) if normalization == "pair" else P, kernel, divergence, normalization)


def simplest(kernel: Any, n: int) -> Any:
    """Return a kernel whose parameters per point are all the same as one with a single parameter."""
    family = family_of(kernel)
    if family is None:
        return kernel
    parameters = np.asarray(getattr(kernel, family.parameter))
    if len(parameters) != n:
        owner, hint = type(kernel).__name__, "They are in the order of the rows."
        raise InputError(owner, family.parameter, f"one number, or one per point ({n})", len(parameters), hint)
    return kernel if np.ptp(parameters) else family.kernel_of(float(parameters[0]))


def noise_of(far: Any) -> NoisePairs | None:
    """Return what ``far`` says about sampled pairs, None if it says another thing."""
    if isinstance(far, str):
        return NoisePairs() if far == "noise" else None
    return far if isinstance(far, NoisePairs) else None


def _check_noise(owner: str, divergence: Any, kernel: Any, normalization: str) -> None:
    is_kl = isinstance(divergence, MapDivergence) and isinstance(divergence.limit(), KL)
    hint = "Sampled pairs are for KL by pair and the built-in kernels; other maps take 'auto'."
    if not is_kl:
        raise InputError(owner, "far", "another than 'noise' for this divergence", repr(divergence), hint)
    if normalization != "pair":
        raise InputError(owner, "far", "another than 'noise' for this normalization", repr(normalization), hint)
    if getattr(kernel, "compiled", None) is None:
        raise InputError(owner, "far", "another than 'noise' for this kernel", repr(kernel), hint)


def field_of(estimator: NeighborEmbedding, n: int, divergence: MapDivergence) -> Field:
    """Return the far field that ``far`` names, or a fresh copy of the one given."""
    from nearfar.far import BarnesHutField, ExactField, MeshField

    owner, far, d = type(estimator).__name__, estimator.far, estimator.n_components
    if not isinstance(far, str):
        if not all(hasattr(far, name) for name in ("place", "evaluate", "total")):
            raise InputError(owner, "far", f"one of {', '.join(map(repr, FAR))} or a field of nearfar.far", repr(far))
        return far.with_params() if isinstance(far, Part) else far
    check_choice(owner, "far", far, FAR)
    if far == "fft" and d > 2:
        hint = "The mesh has one or two dimensions: for three there is far='barnes-hut', too."
        raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
    if far == "barnes-hut" and d > 3:
        raise InputError(owner, "far", "'exact' for more than three components", "'barnes-hut'")
    if far == "fft" or (far == "auto" and d <= 2 and n > EXACT_UP_TO):
        return MeshField(tolerance_of(divergence, n))
    if far == "barnes-hut" or (far == "auto" and d == 3 and n > TREE_FROM):
        return BarnesHutField(angle_of(divergence))
    if far == "auto" and n > MANY:
        _warn_of_pairs(owner, f"{d} components", n)
    return ExactField()


def per_point_field_of(estimator: NeighborEmbedding, n: int, divergence: MapDivergence) -> Field:
    """Return the far field for kernels with a parameter per point; the mesh of few points is finer.

    There a point may have no other within the reach of the narrowest kernels, whose S_i then drowns in a mesh's errors.
    """
    from nearfar.far import MeshField

    field = field_of(estimator, n, divergence)
    if isinstance(estimator.far, str) and isinstance(field, MeshField) and n < FEW[0]:
        return MeshField(min(field.tolerance, PER_POINT_TOLERANCE))
    return field


def tolerance_of(divergence: MapDivergence, n: int) -> float:
    """Return the tolerance of the mesh that leaves the final cost where exact sums bring it.

    KL balances near against far forces of its own size. The others let large far forces cancel, and what is left is
    small against the error of the mesh in a map of few points. In one of many a force is a sum over many, whose errors
    average out: the same tolerance leaves a quarter of the error at 70,000 points that it leaves at 3,000. Jensen and
    Shannon's divergence needs it finer: at 20,000 points 0.02 ends 3.6 % above the cost that 0.001 reaches, reverse
    KL below it.
    """
    divergence = divergence.limit()
    if isinstance(divergence, KL):
        return 0.01 if n < FEW[0] else 0.02
    if n < FEW[1]:
        return 0.001
    return 0.01 if isinstance(divergence, JensenShannon) else 0.02


def angle_of(divergence: MapDivergence) -> float:
    """Return the angle of the tree: smaller where large forces cancel, see ``tolerance_of``."""
    return 0.6 if isinstance(divergence.limit(), KL) else 0.35


@dataclass(frozen=True)
class Pace:
    """How far points may go.

    Parameters
    ----------
    early, late : float
        Learning rate "auto" of the exaggerated phase and of the rest, times the exaggeration.
    longest : float
        Longest step of a point.
    momentum : float
        After the exaggerated phase.
    """

    early: float
    late: float
    longest: float
    momentum: float

    @classmethod
    def of(cls, P: Any, parts: Parts) -> Pace:
        """Return the pace for a relation and the parts of a map.

        The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
        over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
        shorter, and so the more the harder the divergence pulls.
        """
        divergence, kernel, normalization = parts
        n = P.shape[0]
        reach = _reach(kernel, n)
        rate = n / 4 * reach**2
        tail = kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max()
        if tail > _SHORT:
            return cls(rate, rate, reach, LATE_MOMENTUM[getattr(divergence, "far_log", 0.0) > 0])
        return cls(rate, rate / _strength(divergence, P, by_row=normalization == "row"), 0.3 * reach, EARLY_MOMENTUM)


def _reach(kernel: Any, n: int) -> float:
    """Return the length over which a kernel falls, 1 / sqrt(-w'/w) at distance 0; 1 for Student's t."""
    f = np.zeros((n, 1))  # a row per point, for kernels with parameters per point
    steepness = float(np.max(-kernel.slope(f) / kernel.weight(f)))
    return 1 / math.sqrt(steepness) if 0 < steepness < math.inf else 1.0


def _strength(divergence: Any, P: Any, *, by_row: bool) -> float:
    """Return how strongly a typical pair is drawn together, -q D_near at q = p, in units of p, which is that of KL."""
    if not isinstance(divergence, MapDivergence):
        return 1.0
    divergence, n = divergence.limit(), P.shape[0]
    if isinstance(divergence, JensenShannon):
        return -math.log1p(-divergence.kappa) / divergence.kappa
    if isinstance(divergence, KL):
        return 1.0
    typical = float((P.data**2).sum(dtype=np.float64) / P.data.sum(dtype=np.float64))
    eps = divergence.floor / ((n - 1) * (1 if by_row else n))
    b = float(divergence.far_log)
    return 1 - b + b * math.log1p((1 - divergence.floor) * typical / eps)


def phases_of(estimator: NeighborEmbedding, parts: Parts, pace: Pace) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself."""
    divergence, _, normalization = parts
    is_kl = isinstance(divergence, MapDivergence) and isinstance(divergence.limit(), KL)
    if estimator.exaggeration != 1 and not is_kl:
        hint = "The first phase, which KL governs, has early_exaggeration."
        owner, got = type(estimator).__name__, estimator.exaggeration
        raise InputError(owner, "exaggeration", "1 for another divergence than KL", got, hint)
    early_iter = 0 if normalization == "none" else min(estimator.early_exaggeration_iter, estimator.max_iter)
    early, late = float(estimator.early_exaggeration), float(estimator.exaggeration)
    rates = (pace.early / early, pace.late / late)
    if not isinstance(estimator.learning_rate, str):
        rates = (float(estimator.learning_rate),) * 2
    decays = noise_of(estimator.far) is not None  # or the noise would keep the points moving
    phases = [Phase(None, estimator.max_iter - early_iter, late, rates[1], pace.momentum, may_stop=True, decays=decays)]
    if early_iter:
        phases.insert(0, Phase(None if is_kl else KL(), early_iter, early, rates[0], EARLY_MOMENTUM, may_stop=False))
    return phases


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warnings.warn(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One to three components and the "
        "built-in divergences and kernels take (next to) linear time.",
        NearfarWarning,
        stacklevel=5,
    )
