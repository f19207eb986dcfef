"""EDRep: algorithm 1 of Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling".

Unit vectors x_i of rows and y_a of the others (Y = X with one embedding) are learned from a relation P >= 0. With
r = P 1, a prior p0 over the others with sum 1, and scores over a temperature T::

    L = sum_i r_i log Z_i  -  sum_ia P_ia (x_i . y_a / T + log w_a)  +  (rᵀ X)(Yᵀ p0) / |T|
        far field             near field                                prior

    Z_i = sum_a w_a exp(x_i . y_a / T)

Steps do not notice a factor of the gradient: they are taken against |T| times it. ``force``, the gradient of log Z, is
then that of the far field at x_i / T, and all else is as with T = 1, but for signs where T < 0. The base measure w is
how much an other counts before any vector is known; the far field has it. The paper has P 1 = 1, T = 1 and w = 1; it is
cited by arXiv 2303.17475 v3, its misprints are in the documentation ("Sources").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_sums
from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Ask, FarField, Place, Rows

Step = Callable[[Array, Array, float], None]
"""Moves rows, given their gradient and the rate."""


@dataclass(frozen=True)
class Problem:
    """What is minimised: the relation, and what the loss has beside it.

    ``n_active`` counts the others that have a relation. ``gradient`` is ``"paper"``, ``"forward"`` (without the
    transposed terms) or ``"full"`` (with the term that the paper drops). ``step`` moves rows: a formula. ``of_base`` is
    what the base measure adds to the near part of the loss, ``sum_ia P_ia log w_a``.
    """

    P: object
    two_sided: bool
    r: NDArray[np.float64]
    p0: NDArray[np.float64]
    n_active: int
    gradient: str
    temperature: float
    step: Step
    of_base: float = 0.0


@dataclass
class State:
    """Where a fit stands.

    ``sides`` are the vectors, X or X and Y, as the place has them, ``sums`` are ``Yᵀ p0`` and ``Xᵀ r`` of them, in
    float64. ``far`` is the far field in use: one that gets finer on the way is another. ``losses[e]`` is the loss at
    the start of epoch e, per unit of relation weight.
    """

    sides: list[Rows]
    sums: NDArray[np.float64]
    far: FarField
    rng: np.random.Generator
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


def sums_of(place: Place, problem: Problem, sides: list[Rows]) -> NDArray[np.float64]:
    """Return ``Yᵀ p0`` and ``Xᵀ r``."""
    r, p0 = problem.r, problem.p0
    of_sides = [(sides[1], p0), (sides[0], r)] if problem.two_sided else [(sides[0], p0, r)]
    return np.concatenate([check_sums(weighted, place.each(weighted, *side), len(side) - 1)[1] for side in of_sides])


def descend(
    place: Place, problem: Problem, state: State, rate_of: Callable[[State], float | None],
    after: Callable[[Any, float], bool],
) -> None:  # fmt: skip
    """Algorithm 1, from where ``state`` stands, until there is no further rate or ``after`` an epoch says so."""
    try:
        while (rate := rate_of(state)) is not None:
            state.losses.append(sweep(place, problem, state, rate) / float(problem.r.sum()))
            state.epoch += 1
            if after(state, rate):
                break
    except KeyboardInterrupt:  # some vectors have moved of which these are not the sums
        state.sums = sums_of(place, problem, state.sides)
        raise


def sweep(place: Place, problem: Problem, state: State, rate: float) -> float:
    """Move every vector by one step against its gradient, all gradients taken before; return the loss before."""
    P, r, p0, temperature, sides = problem.P, problem.r, problem.p0, problem.temperature, state.sides
    X, others, two_sided = sides[0], sides[-1], problem.two_sided
    both = not two_sided and problem.gradient != "forward"  # rows are others, too

    # The far field takes the others in: a mixture becomes their Gaussians. It answers about rows in move_rows.
    asked = place.far(state.far, others, problem.n_active, state.rng)
    pull = place.near(P, others, "both" if both else "rows")  # (P + Pᵀ) X, or P Y
    pull_of_others = place.near(P, X, "columns") if two_sided else None  # Pᵀ X
    sums = state.sums if temperature > 0 else -state.sums  # the prior pushes the mean towards zero all the same
    dropped = asked.other_side(X, r, temperature) if problem.gradient == "full" else None  # type: ignore[attr-defined]

    shared = {"sums": sums, "rate": rate, "step": problem.step}
    of_row = (r, None, None) if two_sided else (r, p0, dropped)
    found = place.each(move_rows, X, pull, *of_row, far=asked, temperature=temperature, both=both, **shared)
    sides[0], (near, far_sum, prior), state.sums = check_sums(move_rows, found, 3, 2 - two_sided)
    if two_sided:
        found = place.each(move_others, others, pull_of_others, p0, dropped, **shared)
        sides[1], of_others = check_sums(move_others, found, 1)
        state.sums = np.concatenate((of_others, state.sums))
    cross_entropy = far_sum - (near / 2 if both else near) / temperature  # eq. (4): cross-entropy of P
    return float(cross_entropy - problem.of_base + prior / temperature)  # eq. (5): and the prior


# The formulas, on a block of rows.


def move_rows(
    x: Array, pull: Array, r: Array, p0: Array | None, dropped: Array | None, *, far: Ask, sums: Array,
    temperature: float, both: bool, rate: float, step: Step,
) -> tuple[Array, Array]:  # fmt: skip
    """Take a step with some rows; return the near, far and prior part of their loss before, and p0 x and r x after.

    ``p0`` is that of the rows as others, None where they are none.
    """
    xp = namespace_of(x)
    of_others, of_rows = xp.asarray(sums, dtype=x.dtype)  # Yᵀ p0 and Xᵀ r
    log_z, g = far(x if temperature == 1 else x / temperature)
    parts = (x * pull).sum(1), xp.where(r > 0, r * log_z, 0.0), r * (x @ of_others)
    loss = xp.stack([part.sum(dtype=xp.float64) for part in parts])
    g += of_others  # eq. (6): g = r (force + Yᵀ p0) - (P + Pᵀ) X + p0 Xᵀ r
    g *= xp.asarray(r, dtype=x.dtype)[:, None]
    g -= pull
    if both:
        g += xp.asarray(p0, dtype=x.dtype)[:, None] * of_rows
    if dropped is not None:
        g += dropped
    step(x, g if temperature > 0 else -g, rate)
    return loss, weighted(x, *((r,) if p0 is None else (p0, r)))[0]


def move_others(
    y: Array, pull: Array, p0: Array, dropped: Array | None, *, sums: Array, rate: float, step: Step
) -> tuple[Array]:
    """Take a step with some of the others of a two-sided fit, which have no normaliser; return p0 y after."""
    xp = namespace_of(y)
    g = xp.asarray(p0, dtype=y.dtype)[:, None] * xp.asarray(sums, dtype=y.dtype)[1]
    g -= pull
    if dropped is not None:
        g += dropped
    step(y, g, rate)
    return weighted(y, p0)


def weighted(x: Array, *weights: Array) -> tuple[Array]:
    """Return the sums of some rows by each of the weights."""
    xp = namespace_of(x)
    return (xp.stack([xp.asarray(each, dtype=x.dtype) for each in weights]) @ x,)


def sphere_step(x: Array, g: Array, rate: float) -> None:
    """Turn unit vectors by arcsin(rate) against their gradient, in place; a row without a tangent gradient stays.

    What rounding does to |x| in one step is put right in the next.
    """
    xp = namespace_of(x)
    square = (x * x).sum(1)[:, None]
    there = xp.where(square > 0, square, 1.0)
    g -= (x * g).sum(1)[:, None] / there * x
    length = (g * g).sum(1)[:, None]
    moves = (square > 0) & (length > 0)
    x *= xp.where(moves, (1 - rate * rate) ** 0.5 / xp.sqrt(there), 1.0)
    g *= xp.where(moves, rate / xp.sqrt(xp.where(moves, length, 1.0)), 0.0)
    x -= g  # the step: x <- sqrt(1 - η²) x - η g' / |g'|, g' = g - (g.x) x


def ball_step(x: Array, g: Array, rate: float) -> None:
    """Move rows by ``rate`` against their normalised gradient, in place, and back to the unit ball if they left it."""
    xp = namespace_of(x)
    length = (g * g).sum(1)[:, None]
    moves = length > 0
    g *= xp.where(moves, rate / xp.sqrt(xp.where(moves, length, 1.0)), 0.0)
    x -= g
    square = (x * x).sum(1)[:, None]
    x *= xp.where(moves & (square > 1), 1 / xp.sqrt(xp.where(square > 1, square, 1.0)), 1.0)
