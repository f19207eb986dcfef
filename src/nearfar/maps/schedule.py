"""What a map minimises when, and in which steps: the phases of its descent."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from nearfar.contracts import Divergence, Kernel
from nearfar.divergences.probability import KL, linear_formulas, strength_of
from nearfar.kernels import HeavyTailed, parameter_of_each
from nearfar.maps.objective import Normalization, RowBlocks
from nearfar.maps.solver import extent
from nearfar.methods.maps import Phase

EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part. Near its minimum
large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over them."""
FALL = 0.16
"""Share of the exaggerated iterations for each of two lesser exaggerations, where t-SNE begins another map."""
_FAR_OFF, _SHORT = 100.0, 1e-6
"""A kernel below _SHORT at this squared distance, in units of its reach, has short tails."""


class Pace(NamedTuple):
    """The parameters of a map that say how long phases are, and how long steps."""

    learning_rate: float | Literal["auto"]
    max_iter: int
    early_exaggeration: float
    early_exaggeration_iter: int
    exaggeration: float


def phases_of(
    P: RowBlocks, kernel: Kernel, divergence: Divergence, normalization: Normalization, pace: Pace, *, decays: bool
) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself.

    Where the kernel has short tails and the divergence is another than KL, the first phases are those of t-SNE: its
    long tails bring groups together that short ones leave apart. Their exaggeration ends in steps. Where attraction
    prevails sheets stay whole and unfold (Böhm, Berens & Kobak 2022); at once they would tear, and short tails do not
    mend what is torn.

    The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
    over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
    shorter, and so the more the harder the divergence pulls. A last phase that ``decays`` has steps that fall to 0.
    """
    n, early, late = P.shape[0], float(pace.early_exaggeration), float(pace.exaggeration)
    reach, _ = extent(kernel, n)
    rate = late_rate = n / 4 * reach**2
    formulas = linear_formulas(divergence, 1 / ((n - 1) * (1 if normalization == "row" else n)))
    long_tails = has_tails(kernel, n)
    if long_tails:
        longest, momentum = reach, LATE_MOMENTUM[bool(formulas is not None and formulas.far_log > 0)]
    else:
        longest = 0.3 * reach
        if formulas is not None:  # how strongly a typical pair is drawn together, in units of p, which is that of KL
            typical = np.array([P.typical()])
            late_rate = rate / float((strength_of(formulas, typical, typical) / typical)[0])
        # From a map of t-SNE Jensen-Shannon gets further with the longer memory; reverse KL's forces oscillate with it.
        mixes = divergence != KL() and formulas is not None and not formulas.far_log
        momentum = LATE_MOMENTUM[0] if mixes else EARLY_MOMENTUM

    phases, early_iter = [], 0 if normalization == "none" else min(pace.early_exaggeration_iter, pace.max_iter)
    if early_iter and (long_tails or divergence == KL() or parameter_of_each(kernel) is not None):
        of_kl = divergence != KL()
        phases = [Phase(early_iter, early, rate / early, EARLY_MOMENTUM, longest, may_stop=False, early=of_kl)]
    elif early_iter:  # t-SNE under a kernel of the same reach: exaggerated, less and less towards the end, then not
        student, each = HeavyTailed(1.0, 1 / reach**2), int(FALL * early_iter)
        steps = [(early_iter - 2 * each, early, EARLY_MOMENTUM)]
        steps += [(each, early**power, LATE_MOMENTUM[0]) for power in (2 / 3, 1 / 3)]
        steps += [(min(early_iter, (pace.max_iter - early_iter) // 2), 1.0, LATE_MOMENTUM[0])]
        phases = [
            Phase(n_iter, factor, rate / factor, of_step, reach, may_stop=False, early=True, kernel=student)
            for n_iter, factor, of_step in steps
        ]
    left = pace.max_iter - sum(phase.n_iter for phase in phases)
    phases.append(Phase(left, late, late_rate / late, momentum, longest, may_stop=True, decays=decays))
    if pace.learning_rate == "auto":
        return phases
    return [replace(phase, learning_rate=float(pace.learning_rate)) for phase in phases]


def has_tails(kernel: Kernel, n: int) -> bool:
    """Return whether a kernel draws points together that are far apart, as short tails don't."""
    reach, _ = extent(kernel, n)
    return bool(kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max() > _SHORT)
