"""EDRep: algorithm 1 of Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling".

Unit vectors x_i of rows and y_a of the others (Y = X with one embedding) are learned from a relation P >= 0. With
r = P 1, a prior p0 over the others with sum 1, and scores over a temperature T::

    L = sum_i r_i log Z_i  -  sum_ia P_ia (x_i . y_a / T + log w_a)  +  (rᵀ X)(Yᵀ p0) / |T|
        far field             near field                                prior

    Z_i = sum_a w_a exp(x_i . y_a / T)

Steps do not notice a factor of the gradient: they are taken against |T| times it. ``force``, the gradient of log Z, is
then that of the far field at x_i / T, and all else, as the ``pull`` of the near field, (P + Pᵀ) X, is as with T = 1,
but for signs where T < 0. The base measure w is how much an other counts before any vector is known; the far field has
it. The paper has P 1 = 1, T = 1 and w = 1; it is cited by arXiv 2303.17475 v3, its misprints are in the documentation
("Sources").

The equations stand from the top down, as the algorithm meets them; below are what vectors keep to, the rates, and where
vectors start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from nearfar._core.checks import check_sums
from nearfar._core.threads import even_bounds
from nearfar._core.types import Array, Doubles, Flags, Longs, Singles, namespace_of
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Ask, FarField, Floats, Place, Rows

Step = Callable[[Array, Array, float], None]
"""Moves rows, given their gradient and the rate."""


@dataclass(frozen=True)
class Problem:
    """What is minimised: the relation, and what the loss has beside it.

    ``n_active`` counts the others that have a relation. ``gradient`` is ``"paper"``, as printed, ``"forward"``, that
    without the terms of Pᵀ, which is the default of undirected relations, or ``"full"``, with the term that the paper
    drops. ``step`` moves rows: a formula. ``of_base`` is what the base measure adds to the near part of the loss,
    ``sum_ia P_ia log w_a``.
    """

    P: object
    two_sided: bool
    r: Doubles
    p0: Doubles
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
    sums: Doubles
    far: FarField
    rng: np.random.Generator
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


def sums_of(place: Place, problem: Problem, sides: list[Rows]) -> Doubles:
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

    shared = {"far": asked, "sums": sums, "temperature": temperature, "transposed": both or two_sided, "rate": rate}
    shared |= {"gradient": loss_gradient, "step": problem.step}
    of_row = (r, None, None) if two_sided else (r, p0, dropped)
    found = place.each(move_rows, X, pull, *of_row, **shared)
    sides[0], (near, far_sum, prior), state.sums = check_sums(move_rows, found, 3, 2 - two_sided)
    if two_sided:
        found = place.each(move_rows, others, pull_of_others, None, p0, dropped, **shared)
        sides[1], _, of_others = check_sums(move_rows, found, 1, 1)
        state.sums = np.concatenate((of_others, state.sums))
    cross_entropy = far_sum - (near / 2 if both else near) / temperature  # eq. (4): cross-entropy; next, the prior
    return float(cross_entropy - problem.of_base + prior / temperature)  # eq. (5): (4), as ln Z - x.Px + x.(Yᵀp0)


# The formulas, on a block of rows.


def move_rows(
    x: Array, pull: Array, r: Array | None, p0: Array | None, dropped: Array | None, *, far: Ask, sums: Array,
    temperature: float, transposed: bool, rate: float, gradient: Callable[..., Any], step: Step,
) -> tuple[Array, Array]:  # fmt: skip
    """Take a step with some rows; return their parts of the loss before, and p0 x and r x after.

    Of two sides, rows have no ``p0``, and the others, who have no normaliser, no ``r``. ``transposed`` says whether the
    gradient has the terms of Pᵀ.
    """
    log_z, force = (None, None) if r is None else far(x if temperature == 1 else x / temperature)
    loss, g = gradient(x, pull, log_z, force, r, p0 if transposed else None, sums)
    if dropped is not None:
        g += dropped
    step(x, g if temperature > 0 else -g, rate)
    return loss, weighted(x, *(weights for weights in (p0, r) if weights is not None))[0]


def loss_gradient(
    x: Array, pull: Array, log_z: Any, force: Any, r: Array | None, p0: Array | None, sums: Array
) -> tuple[Array, Array]:
    """Return the parts of the loss of some rows, near, far and prior, and their gradient, in place of what is given.

    ``pull`` is (P + Pᵀ) X. Under the gradient "forward" it is P X, and ``p0`` is None: the last term is left out, too.
    Others who have no normaliser come without ``r``, and have the near part alone.
    """
    xp = namespace_of(x)
    of_others, of_rows = xp.asarray(sums, dtype=x.dtype)  # Yᵀ p0 and Xᵀ r
    parts = [(x * pull).sum(1)]
    if r is None:
        g = -pull
    else:
        parts += [xp.where(r > 0, r * log_z, 0.0), r * (x @ of_others)]
        g = force  # eq. (6): g = r (force + Yᵀ p0) - (P + Pᵀ) X + p0 Xᵀ r
        g += of_others
        g *= xp.asarray(r, dtype=x.dtype)[:, None]
        g -= pull
    if p0 is not None:
        g += xp.asarray(p0, dtype=x.dtype)[:, None] * of_rows
    return xp.stack([part.sum(dtype=xp.float64) for part in parts]), g


def weighted(x: Array, *weights: Array) -> tuple[Array]:
    """Return the sums of some rows by each of the weights."""
    xp = namespace_of(x)
    return (xp.asarray(xp.concatenate(weights), dtype=x.dtype).reshape(len(weights), -1) @ x,)


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


# Normalisers: log Z of a block of rows and its gradient, exact or by Gaussians. An other counts by its weight w.


def softmax(x: Array, others: Iterable[tuple[Array, Array | None]], *, mean: bool = True) -> tuple[Array, Array | None]:
    """Return log Z of some rows among others, and with ``mean`` its gradient, their softmax mean.

    The others come in blocks, with the logarithms of their weights, None where all are 1.
    """
    xp = namespace_of(x)
    top = xp.full_like(x[:, 0], -np.inf)
    total = xp.zeros_like(top, dtype=xp.float64)
    force = xp.zeros_like(x, dtype=xp.float64) if mean else None
    for y, log_weights in others:
        scores = x @ y.T
        if log_weights is not None:
            scores += log_weights
        new_top = xp.maximum(top, xp.amax(scores, 1))
        scores -= new_top[:, None]
        xp.exp(scores, out=scores)
        shrink = xp.exp(xp.asarray(top, dtype=xp.float64) - xp.asarray(new_top, dtype=xp.float64))
        total = total * shrink + scores.sum(1, dtype=xp.float64)  # eq. (1): Z = sum exp(x.y_a); here with weights
        if force is not None:
            force *= shrink[:, None]
            force += scores @ y
        top = new_top
    log_z = xp.log(total) + top
    return log_z, None if force is None else xp.asarray(force / total[:, None], dtype=x.dtype)


def mixture(
    x: Array, log_counts: Sequence[float], means: Sequence[Array], covariances: Sequence[Array]
) -> tuple[Array, Array]:
    """Return log Z of some rows and its gradient, were the others of each cluster Gaussian; linear time.

    ``log_counts`` are ln(π m): with sizes for shares Z is the sum over all m others, not their mean.
    """
    xp = namespace_of(x)
    found: tuple[Array, Array] | None = None
    for log_count, mean, covariance in zip(log_counts, means, covariances, strict=True):
        slope = x @ covariance
        terms = slope / 2
        terms += mean
        terms *= x
        energy = log_count + xp.asarray(terms.sum(1), dtype=xp.float64)  # eq. (2): Z = m sum π exp(x.μ + x.Ωx/2)
        slope += mean
        if found is None:
            found = energy, slope
            continue
        log_z, force = found
        total = xp.logaddexp(log_z, energy)
        force *= xp.asarray(xp.exp(log_z - total), dtype=x.dtype)[:, None]
        slope *= xp.asarray(xp.exp(energy - total), dtype=x.dtype)[:, None]
        force += slope
        found = total, force
    assert found is not None  # there is a cluster
    return found


def tied_mixture(x: Array, log_counts: Array, means: Array, covariance: Array) -> tuple[Array, Array]:
    """Return log Z of some rows and its gradient, were the others of each cluster Gaussian with one covariance Ω.

    ``Z = exp(x.Ωx / 2) sum_c π_c exp(x.μ_c)``: a softmax over the means.
    """
    xp = namespace_of(x)
    log_z, force = softmax(x, [(means, log_counts)])
    assert force is not None  # it is asked for
    slope = x @ covariance
    log_z += xp.asarray((x * slope).sum(1), dtype=xp.float64) / 2
    force += slope
    return log_z, force


def moments(y: Array, w: Array | None = None) -> tuple[Array, Array]:
    """Return the sums of y and of y yᵀ over some members of a cluster, by their weights; those of all blocks add up."""
    xp = namespace_of(y)
    if w is None:
        return xp.ones_like(y[:, 0]) @ y, y.T @ y  # one array on both sides: BLAS forms one triangle
    rooted = y * xp.sqrt(w)[:, None]
    return w @ y, rooted.T @ rooted


def gaussian(count: float, total: Array, outer: Array, several: bool) -> tuple[Array, Array]:
    """Return mean and covariance of a cluster from its moments; unless it has several members, a covariance of 0.

    It divides by the number of members, the paper by one less.
    """
    mean = total / count
    return mean, (outer / count - mean[:, None] * mean) * several  # eq. (3): μ and Ω of a cluster


def pooled(counts: Array, means: Array, outer: Array) -> Array:
    """Return the covariance within clusters, one for all, from their sizes, means and the sum of y yᵀ over all."""
    return (outer - (means.T * counts) @ means) / counts.sum()


# What vectors keep to, and how far they move.


def onto_sphere(X: Floats) -> Floats:
    """Scale rows to unit length, in place, and return them; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    np.divide(X, norms[:, None], out=X, where=norms[:, None] > 0)
    return X


def into_ball(X: Floats) -> Floats:
    """Scale rows longer than 1 to unit length, in place, and return them."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    np.divide(X, np.maximum(norms, 1)[:, None], out=X)
    return X


class Constraint(NamedTuple):
    """What vectors keep to: the function that puts them there, in place, and the formula of their step."""

    project: Callable[[Floats], Floats]
    step: Step


CONSTRAINTS = {"sphere": Constraint(onto_sphere, sphere_step), "ball": Constraint(into_ball, ball_step)}


SCHEDULES = ("linear", "cosine", "constant", "plateau")
PATIENCE = 3
"""Epochs without progress after which the plateau schedule halves the rate, and after which tolerance stops a run."""


@dataclass(frozen=True)
class Rates:
    """The learning rates of a fit: None where it ends.

    They are functions of what came before, so that a resumed run continues exactly. ``"linear"`` falls from ``start``
    to 0 at ``n_epochs`` (EDRep, algorithm 1), ``"cosine"`` the same along a half cosine, ``"constant"`` stays,
    ``"plateau"`` halves whenever ``PATIENCE`` epochs brought no new lowest loss. The last two end where ``PATIENCE``
    epochs lowered the best loss by less than ``tol``, relative to its size.
    """

    schedule: str
    start: float
    n_epochs: int
    tol: float

    def __call__(self, state: State) -> float | None:
        """Return the rate of the next epoch, from the epochs and losses of a state."""
        epoch, losses = state.epoch, state.losses
        if epoch >= self.n_epochs:
            return None
        if self.schedule == "linear":
            return self.start * (1 - epoch / self.n_epochs)
        if self.schedule == "cosine":
            return self.start * (1 + math.cos(math.pi * epoch / self.n_epochs)) / 2
        # Under a falling rate the steps die out by themselves: small progress says nothing.
        if self.tol > 0 and len(losses) > PATIENCE:
            before = min(losses[:-PATIENCE])
            if before - min(losses[-PATIENCE:]) < self.tol * abs(before):
                return None
        if self.schedule == "constant":
            return self.start
        best, since, n_plateaus = math.inf, 0, 0
        for loss in losses:
            since = 0 if loss < best else since + 1
            best = min(best, loss)
            if since == PATIENCE:
                since, n_plateaus = 0, n_plateaus + 1
        return self.start * 0.5**n_plateaus


# Random starts, by blocks of rows.

_DRAWN = 2**18  # numbers of a random start that are drawn together


def drawn_bounds(n: int, d: int) -> Longs:
    """Return the bounds of the blocks of a random start that are drawn by themselves."""
    return even_bounds(n, max(1, _DRAWN // d))


class Drawn(NamedTuple):
    """Standard normal vectors of which any rows can be drawn by themselves, with the same bits.

    Block b, the rows from ``bounds[b]`` to ``bounds[b + 1]``, is drawn from ``seeds[b]``.
    """

    bounds: Longs
    seeds: Longs
    d: int

    @classmethod
    def of(cls, n: int, d: int, rng: np.random.Generator) -> Self:
        """Return n vectors, seeded by a generator."""
        bounds = drawn_bounds(n, d)
        return cls(bounds, rng.integers(2**63, size=len(bounds) - 1), d)

    def part(self, start: int, stop: int) -> Drawn:
        """Return what is needed to draw the rows start..stop, which keep their numbers."""
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = max(int(np.searchsorted(self.bounds, stop)), first)
        return Drawn(self.bounds[first : last + 1], self.seeds[first:last], self.d)

    def rows(self, start: int, stop: int) -> Singles:
        """Return the rows start..stop."""
        bounds, seeds, d = self.part(start, stop)
        X = empty_aligned((int(bounds[-1] - bounds[0]), d), np.float32)
        for (a, b), seed in zip(pairwise((bounds - bounds[0]).tolist()), seeds, strict=True):
            np.random.default_rng(seed).standard_normal(out=X[a:b], dtype=np.float32)
        return X[start - int(bounds[0]) : stop - int(bounds[0])]


@dataclass(eq=False)
class Start:
    """Vectors that a fit starts from, made where and when they are read: any rows by themselves.

    Row i is row ``source[i]`` of ``given`` where that is >= 0, else the random vector number ``draw[i]``, or i if
    nothing is given; zero where nothing is ``related``. All rows are projected.

    Parameters
    ----------
    project : callable
        Of a constraint.
    drawn : Drawn
    related : ndarray of bool, shape (n,)
    given : array_like of shape (k, d), optional
    source, draw : ndarray of int, shape (n,), optional
    first : int, default=0
        The number of the first row.
    dtype : dtype, optional
    """

    project: Callable[[Floats], Floats]
    drawn: Drawn
    related: Flags
    given: Floats | None = None
    source: Longs | None = None
    draw: Longs | None = None
    first: int = 0
    dtype: np.dtype[np.floating] | None = None  # that of what is given, or float32
    shape: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.shape = len(self.related), self.drawn.d
        if self.dtype is None:
            self.dtype = np.dtype(np.float32 if self.given is None else self.given.dtype)

    def __getitem__(self, rows: slice) -> Floats:
        """Return some rows, a new array."""
        start, stop, _ = rows.indices(self.shape[0])
        if self.given is None or self.source is None or self.draw is None:
            X = onto_sphere(self.drawn.rows(self.first + start, self.first + stop)).astype(self.dtype, copy=False)
        else:
            X = np.empty((stop - start, self.drawn.d), self.dtype)
            source = self.source[start:stop]
            X[source >= 0] = self.given[source[source >= 0]]
            draw = self.draw[start:stop][source < 0]
            if draw.size:
                X[source < 0] = onto_sphere(self.drawn.rows(draw[0], draw[-1] + 1)[draw - draw[0]])
        self.project(X)
        X[~self.related[start:stop]] = 0
        return X

    def narrowed(self, start: int, stop: int) -> Start | Floats:
        """Return some rows, to be read elsewhere: what makes them, or themselves where something is given."""
        if self.given is not None:
            return self[start:stop]
        drawn = self.drawn.part(self.first + start, self.first + stop)
        return Start(self.project, drawn, self.related[start:stop], first=self.first + start, dtype=self.dtype)
