"""A map descends: its phases, and in each the step by momentum and gains, in the order in which they act.

Sources: van der Maaten & Hinton (2008), "Visualizing data using t-SNE", section 3.4; Jacobs (1988), for the gains;
Belkina et al. (2019), "Automated optimized parameters for t-SNE", for the learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Divergence, Kernel, Objective, Place
from nearfar.divergences.probability import KL, linear_formulas, strength_of
from nearfar.kernels import COUNTS, HeavyTailed, either, parameter_of_each

LOOK_EVERY = 50
"""Iterations between two looks at the cost, which stopping rules, callbacks and the progress line go by."""
EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part, and by row. Near
its minimum large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over
them."""
BY_ROW = 4.0
"""By how much the steps of KL by row are longer after the first phase: each row has a normaliser of its own, and groups
move slowly through the rest."""
FALL = 0.16
"""Share of the exaggerated iterations for each of two lesser exaggerations, where t-SNE begins another map."""
_FAR_OFF, SHORT, _LONG = 100.0, 1e-6, 1e-3
"""A kernel below SHORT at this squared distance, in units of its reach, has short tails, one above _LONG tails that
are about as long as those of t-SNE, 1 / 101 there."""
_SIZES = 2.0 ** np.arange(0, -6, -0.5)  # of a map under another kernel, in units of its own
UP, DOWN, LEAST = 0.2, 0.8, 0.01
"""By how much a gain grows, to what share it falls, and what it is at least."""
LONGER, SHORTER = 1.2, 0.5
"""Factors of a step of a learned parameter: where the sign of its derivative stays, where it turns."""
SPREAD = 1e-4
"""Standard deviation of the first component of a start: small, so that points can still pass each other."""
_SQUARES = np.append(0.0, 10.0 ** np.arange(-8, 8.5, 0.5))  # squared distances at which a kernel is looked at
_STEEP = 0.1  # share of its greatest slope


@dataclass(frozen=True)
class Phase:
    """Some iterations with the same cost.

    That is the cost of the fit, or if ``early`` KL in place of its divergence; with a ``kernel``, too, KL by pair under
    it. After the last phase with a kernel the map has ``resized`` times the size at which the fit costs least. A
    learning rate that ``decays`` falls to 0 in a straight line; ``longest`` is the longest step of a point.
    """

    n_iter: int
    exaggeration: float
    learning_rate: float
    momentum: float
    longest: float
    may_stop: bool
    decays: bool = False
    early: bool = False
    kernel: Kernel | None = None
    resized: float = 0.0


class Pace(NamedTuple):
    """The parameters of a map that say how long phases are, and how long steps."""

    learning_rate: float | Literal["auto"]
    max_iter: int
    early_exaggeration: float
    early_exaggeration_iter: int
    exaggeration: float


def phases_of(
    P: Any,
    kernel: Kernel,
    divergence: Divergence,
    normalization: str,
    pace: Pace,
    *,
    decays: bool,
    learns: bool = False,
) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself.

    Where the kernel has shorter tails than t-SNE, or the rows have normalisers of their own, the first phases are those
    of t-SNE: its long tails bring groups together that shorter ones leave apart, and a sheet keeps its order. Under KL
    short tails, and long ones by row, take over while it is exaggerated. A kernel that is learned, or of each point,
    begins by itself, and so do steps that fall to 0.
    The exaggeration of these phases ends in steps. Where attraction
    prevails sheets stay whole and unfold (Böhm, Berens & Kobak 2022); at once they would tear, and short tails do not
    mend what is torn.

    The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
    over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
    shorter, and so the more the harder the divergence pulls. A last phase that ``decays`` has steps that fall to 0.
    """
    n, early, late = P.shape[0], float(pace.early_exaggeration), float(pace.exaggeration)
    reach, _, tail = extent(kernel, n)
    long_tails = tail > SHORT
    for_itself = decays or learns or parameter_of_each(kernel) is not None
    by_row = normalization == "row" and divergence == KL() and long_tails and not for_itself
    rate = late_rate = n / 4 * reach**2
    formulas = linear_formulas(divergence, 1 / ((n - 1) * (1 if normalization == "row" else n)))
    if long_tails:
        longest, momentum = reach, LATE_MOMENTUM[by_row or bool(formulas is not None and formulas.far_log > 0)]
        late_rate *= BY_ROW if by_row else 1.0
    else:
        longest = 0.3 * reach
        if formulas is not None:  # how strongly a typical pair is drawn together, in units of p, which is that of KL
            typical = np.array([P.typical()])
            late_rate = rate / float((strength_of(formulas, typical, typical) / typical)[0])
        # From a map of t-SNE Jensen-Shannon gets further with the longer memory; reverse KL's forces oscillate with it.
        mixes = divergence != KL() and formulas is not None and not formulas.far_log
        momentum = LATE_MOMENTUM[0] if mixes else EARLY_MOMENTUM

    phases, early_iter = [], 0 if normalization == "none" else min(pace.early_exaggeration_iter, pace.max_iter)
    of_kl = divergence == KL()
    of_t_sne = (by_row or tail <= _LONG) if of_kl else not long_tails
    if early_iter and (for_itself or not of_t_sne):
        phases = [Phase(early_iter, early, rate / early, EARLY_MOMENTUM, longest, may_stop=False, early=not of_kl)]
    elif early_iter:  # t-SNE under a kernel of the same reach: exaggerated, less and less towards the end, then not
        student, each = HeavyTailed(1.0, 1 / reach**2), int(FALL * early_iter)
        falls = [(each, early**power) for power in (2 / 3, 1 / 3)]
        first = Phase(early_iter - 2 * each, early, rate / early, EARLY_MOMENTUM, reach, may_stop=False, early=True)
        phases = [replace(first, kernel=student)]
        if of_kl and (by_row or not long_tails):  # less exaggerated, it is a map of its own
            phases[0] = replace(phases[0], resized=1.0)
            phases += [Phase(n_iter, f, rate / f, EARLY_MOMENTUM, longest, may_stop=False) for n_iter, f in falls]
        else:
            falls.append((min(early_iter, (pace.max_iter - early_iter) // 2), 1.0))
            phases += [
                replace(phases[0], n_iter=n_iter, exaggeration=f, learning_rate=rate / f, momentum=LATE_MOMENTUM[0])
                for n_iter, f in falls
            ]
            phases[-1] = replace(phases[-1], resized=1.0 if long_tails else 0.5)  # short: points hardly pass others
    left = pace.max_iter - sum(phase.n_iter for phase in phases)
    phases.append(Phase(left, late, late_rate / late, momentum, longest, may_stop=True, decays=decays))
    if pace.learning_rate == "auto":
        return phases
    return [replace(phase, learning_rate=float(pace.learning_rate)) for phase in phases]


def descend(place: Place, objective: Objective, phases: Sequence[Phase], watch: Any) -> bool:
    """Move ``watch.state.Y`` through all phases by gradient descent with momentum; return whether no look said stop.

    Every 50 iterations ``watch``, a :class:`nearfar.maps.solver.Watch`, looks at the cost of the whole fit, also where
    a phase minimises another one.
    """
    state = watch.state
    for phase in phases:
        watch.best = math.inf, state.n_iter
        state.sort(objective)
        minimised = objective.early(phase.kernel) if phase.early else objective
        scale = 1.0 if phase.kernel is not None else watch.scale
        held = minimised.held  # to places, which say where the mean is, too
        moving = [place.bring(X) for X in (state.Y, np.zeros_like(state.Y), np.ones_like(state.Y))]
        moved, square = np.zeros(state.Y.shape[1]), np.nan
        for t in range(phase.n_iter + 1):
            looks, ends = state.n_iter % LOOK_EVERY == 0, t == phase.n_iter
            if (looks or ends) and state.n_iter:  # their mean is put to 0; a start stays as it is
                Y = place.fetch(moving[0], state.Y)
                if held is None:
                    Y -= Y.mean(axis=0, dtype=np.float64).astype(Y.dtype)
                state.Y, moving[0], moved = Y, place.bring(Y), np.zeros_like(moved)
            if ends:
                break
            cost = objective.value(moving[0]) if looks and minimised is not objective else None
            gradient, own = minimised.evaluate(moving[0], phase.exaggeration, cost=looks and cost is None)
            if looks and watch.look(phase, own if cost is None else cost, float(square) * scale**2):
                return False
            if minimised.advance is not None:
                minimised.advance(moving[0], state.n_iter)
            rate = phase.learning_rate * (1 - t / phase.n_iter if phase.decays else 1.0) * scale
            if held is not None:
                gradient = place.each(implicit, gradient, moving[2], held, rate=rate)[0]
            limits = {"momentum": phase.momentum, "longest": phase.longest, "n": len(state.Y)}
            step = place.each(momentum_step, tuple(moving), gradient, moved=moved, rate=rate, **limits)
            moving, moved, square = [*step[0]], step[1] if held is None else moved, step[2]
            state.n_iter += 1
            watch.trainer.advance()
        if phase.resized:
            costs = [objective.value(place.bring(state.Y * float(size))) for size in _SIZES]
            state.Y = state.Y * float(_SIZES[int(np.argmin(costs))] * phase.resized)
    return True


def momentum_step(
    moving: tuple[Array, Array, Array], g: Array, *, moved: Array, n: int, rate: float, momentum: float, longest: float
) -> tuple[Array, Array]:
    """Move positions by delta-bar-delta, with velocities and gains; return their sum, and that of the squared gradient.

    Before, the mean of all n positions is put to 0, whose sum the last step returned: ``moved``. A step longer than
    ``longest`` is cut to that length. van der Maaten & Hinton (2008), section 3.4; Jacobs (1988).
    """
    xp = namespace_of(g)
    y, velocity, gains = moving
    gains[...] = next_gain(gains, velocity, g, UP, DOWN, LEAST)
    velocity *= momentum
    velocity -= rate * gains * g  # symbol v: momentum v - rate γ g
    wide = xp.asarray(velocity, dtype=xp.float64)  # its square may be beyond float32
    length = xp.asarray(xp.sqrt((wide * wide).sum(1)), dtype=y.dtype)[:, None]
    velocity *= xp.where(length > longest, longest / xp.where(length > longest, length, 1.0), 1.0)
    y += velocity - xp.asarray(moved / n, dtype=y.dtype)
    return y.sum(0, dtype=xp.float64), (g * g).sum(dtype=xp.float64)


def next_gain(gain: Array, velocity: Array, g: Array, up: float, down: float, least: float) -> Array:
    """Return the gain of a coordinate, which grows where the last steps went the right way: one text at all places."""
    opposed = (velocity > 0) & (g < 0) | (velocity < 0) & (g > 0)  # their product might underflow
    grown, fallen = gain + up, gain * down
    return either(opposed, grown, either(fallen > least, fallen, least))  # symbol γ: gain of a coordinate


def extent(kernel: Kernel, n: int) -> tuple[float, float, float]:
    """Return over which distance a kernel falls, how wide a start of n points is that it pulls at once, and its tail.

    Most kernels are steepest at distance 0. One that is flat there, such as 1 / (1 + f^2), would leave points that
    start together where they are. Long tails draw points together that are far apart, as short ones don't.
    """
    levels, pulls, falls = [], [], []
    with np.errstate(all="ignore"):  # far off, where w vanishes
        for square in _SQUARES:
            f = np.full((n, 1), square)  # a row per point, for kernels with parameters per point
            slope, w = -kernel.slope(f), kernel.weight(f)
            levels.append(float(np.max(w)))
            pulls.append(float(np.max(slope)))
            falls.append(float(np.max(slope / w)))
    counts = np.array(levels) >= COUNTS * np.nanmax(levels)
    steepest, fastest = np.nanmax(pulls), np.nanmax(np.array(falls)[counts])
    steepness = falls[0] if falls[0] >= _STEEP * fastest else fastest
    reach = 1 / math.sqrt(steepness) if 0 < steepness < math.inf else 1.0
    first = int(np.argmax(np.array(pulls) >= _STEEP * steepest))
    tail = float(kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max())
    return reach, math.sqrt(_SQUARES[first]) if first else SPREAD, tail


@dataclass
class SignSteps:
    """Steps of parameters against the signs of their derivatives, in their logarithms.

    They get longer while the sign stays, and half as long when it turns (Riedmiller & Braun 1993, "A direct adaptive
    method for faster backpropagation learning": RPROP). So the parameters stay positive, and no learning rate is to be
    found.

    Parameters
    ----------
    steps : ndarray
        The first ones.
    shortest, longest, least, most : float
        Between which steps, and parameters, stay.
    """

    steps: Array
    shortest: float
    longest: float
    least: float
    most: float
    signs: Array | float = 0.0

    def moved(self, parameters: Array, slopes: Array) -> Array:
        """Return the next parameters."""
        signs = np.sign(slopes)
        turned = signs * self.signs
        self.steps = self.steps * np.where(turned > 0, LONGER, np.where(turned < 0, SHORTER, 1.0))
        self.steps = self.steps.clip(self.shortest, self.longest)
        self.signs = signs
        return (parameters * np.exp(-self.steps * signs)).clip(self.least, self.most)


# A pull to given places, with a weight m for each point: sum_i m_i / 2 |y_i - y0_i|^2 beside the cost of the map.


def pull_of(g: Array, y: Array, places: Array, weights: Array) -> tuple[()]:
    """Add what draws rows to their places to a gradient."""
    g += weights[:, None] * (y - places)
    return ()


def cost_of_pull(y: Array, places: Array, weights: Array) -> tuple[Array]:
    """Return what it costs rows to be away from their places."""
    xp = namespace_of(y)
    away = xp.asarray(y - places, dtype=xp.float64)
    return ((weights / 2 * (away * away).sum(1)).sum(),)


def implicit(g: Array, gains: Array, weights: Array, *, rate: float) -> tuple[()]:
    """Make the step of a row that is held the implicit one, which no weight drives past its place.

    With r = rate x gain, y - r (c + m (y - y0)) / (1 + r m) is where y* = y - r c comes to if the pull acts at its end:
    (y* + r m y0) / (1 + r m). The gain is the greatest that the step may take.
    """
    g /= 1 + rate * (gains + UP) * weights[:, None]
    return ()
