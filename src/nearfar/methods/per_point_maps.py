"""Maps by row whose kernel has a parameter for each point, w_ij = w(f_ij; theta_i), in linear time.

As in :mod:`nearfar.methods.linear_maps`, with two kernels in each pair. Near, g = -w'/w and s = -q D_near::

    grad_i = 2 sum_j (s_ij g(f_ij; theta_i) + s_ji g(f_ij; theta_j)) (y_i - y_j)

Far, row i has ``b H_i + mass_i ln S_i``, H_i = sum_j q ln q and mass_i = sum_j s_ij. Between the nodes of
``far.per_point`` both are interpolated, sum_m l_m(theta_i) [b H_i + mass_i ln S_i] under theta_m. So the far part of
the gradient is a sum over the nodes, of that of a map with the kernel of the node in which the row of i counts
l_m(theta_i) times. Under KL it is the gradient of the cost that is reported. Pair by pair there is one node, which
counts once, and whose sums are by each point's own kernel.

Under KL, theta_i enters the cost of its own row alone; with m_i = sum_j p_ij, which is 1 or, for an empty row, 0::

    dC/dtheta_i = m_i d ln S_i / dtheta_i - sum_j p_ij d ln w_ij / dtheta_i

Source: Kitazono, Grozavu, Rogovschi, Omori & Ozawa, "t-distributed stochastic neighbor embedding with inhomogeneous
degrees of freedom" (ICONIP 2016), for learned degrees of freedom; interpolation between kernels is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.namespace import Array, namespace_of
from nearfar.contracts import Floats, Place, Potential, Term
from nearfar.kernels import Family
from nearfar.kernels import Kernel as WithFamily
from nearfar.methods.linear_maps import Cost, Near, Side, entropy, names_of, normalizer, plain


class AskOfNodes(Protocol):
    """Answers of the far field of a map under the kernels of some nodes."""

    error: float

    def potentials(self, terms: Sequence[Term]) -> list[list[Potential]]:
        """Return the potentials of terms, for each node; they are read until the next call."""

    def total(self, terms: Sequence[Sequence[Term]]) -> Potential:
        """Return the sum of the potentials of terms, some for each node."""


class Nodes(NamedTuple):
    """A far field at the positions, under the kernels of nodes, and how much each row has of each of them."""

    asked: AskOfNodes
    shares: Sequence[NDArray[np.float64] | float]


@dataclass(frozen=True)
class CostOfEach(Cost):
    """A cost by row whose kernel has a parameter for each point."""

    @property
    def family(self) -> Family:
        """Kernels with one parameter, of which each point has one."""
        family: Family = cast("WithFamily", self.kernel).family
        return family

    def log_weight_of(self, f: Array, theta: Array) -> Array:
        """Return ln w(f; theta)."""
        return plain(self.family.log_weight)(f, theta, *self.family.numbers)

    def neg_log_slope_of(self, f: Array, theta: Array) -> Array:
        """Return -w'/w."""
        return plain(self.family.neg_log_slope)(f, theta, *self.family.numbers)

    def rise_of(self, f: Array, theta: Array) -> Array:
        """Return d ln w / d theta."""
        return plain(self.family.rise)(f, theta, *self.family.numbers)


class Sums(NamedTuple):
    """What nodes say at some positions: potentials, ln S_i and H_i, each by each node; and between them."""

    potentials: list[list[Potential]]
    logs: list[Floats]
    H: list[Floats]
    log_between: Floats
    between: Floats


def sums_of(cost: CostOfEach, nodes: Nodes) -> Sums:
    """Return the sums over all points, by each node and between them."""
    found = nodes.asked.potentials([Term(name) for name in names_of(cost)])
    logs, H, log_between, between = [], [], np.zeros(cost.n), np.zeros(cost.n)
    for share, (w, *w_ln_w) in zip(nodes.shares, found, strict=True):
        totals = (w.value.sum(dtype=np.float64),)
        S = normalizer(w.value, cost=cost, totals=totals, error=nodes.asked.error)
        logs.append(np.log(S))
        H.append(entropy(S, w.value, w_ln_w[0].value, cost) if w_ln_w else np.zeros(cost.n))
        log_between += share * logs[-1]
        between += share * H[-1]
    return Sums(found, logs, H, log_between, between)


def evaluate(
    place: Place, cost: CostOfEach, near: Near, theta: Floats, nodes: Nodes, Y: Floats, exaggeration: float,
    *, value: bool,
) -> tuple[Floats, float | None, list[Floats]]:  # fmt: skip
    """Return the gradient at Y, the true cost if it is asked for, and ln S_i under the kernel of each node."""
    b, names, all_pairs = cost.far_log, names_of(cost), sums_of(cost, nodes)
    row = Y, np.exp(all_pairs.log_between), theta
    pull, mass = place.pairs(attraction_of_each, near.pattern, row, row, *near.strengths, cost=cost, alpha=exaggeration)
    moves, terms = mass + near.mass, []
    for share, potentials, log_S, H in zip(nodes.shares, *all_pairs[:3], strict=True):
        of_S = share * np.exp(-log_S)
        charges = [part.astype(cost.dtype) for part in (of_S * (moves - b * (log_S + H)), b * of_S)[: len(names)]]
        for own, potential in zip(charges, potentials, strict=True):
            pull += own[:, None] * potential.gradient
        terms.append([Term(name, own) for name, own in zip(names, charges, strict=True)])
    pull += nodes.asked.total(terms).gradient
    if not value:
        return pull, None, all_pairs.logs
    (entries,) = place.pairs(entry_cost_of_each, near.pattern, row, row, near.p, cost=cost)
    return pull, float(entries.sum() + b * all_pairs.between.sum() + cost.formulas.constant * cost.n), all_pairs.logs


# The formulas, for pairs.


def attraction_of_each(
    mine: Side,
    theirs: Side,
    fixed: Array | None,
    fixed_back: Array | None,
    u_ij: Array | None,
    u_ji: Array | None,
    *,
    cost: CostOfEach,
    alpha: float,
) -> tuple[Array, Array | None]:
    """Return what draws i to j, and s_ij as far as it moves with q."""
    ways = mine[0] - theirs[0]
    f = (ways * ways).sum(1)
    xp = namespace_of(f)
    k, moves = xp.zeros_like(f), []
    for (_, S, theta), stays, u in ((mine, fixed, u_ij), (theirs, fixed_back, u_ji)):
        s, both = None, 0.0 if stays is None else stays
        if u is not None:
            q = xp.exp(cost.log_weight_of(f, theta)) * xp.asarray(1 / S, dtype=f.dtype)
            s = cost.strength(u, q)
            both = s if stays is None else s + stays
        k = k + both * cost.neg_log_slope_of(f, theta)
        moves.append(s)
    return (2 * alpha * k)[:, None] * ways, moves[0]


def entry_cost_of_each(mine: Side, theirs: Side, p: Array, *, cost: CostOfEach) -> tuple[Array]:
    """Return what a pair adds to the cost of one with p = 0."""
    xp, (y, S, theta) = namespace_of(p), mine
    f = ((y - theirs[0]) ** 2).sum(1)
    log_q = cost.log_weight_of(f, theta) - xp.asarray(xp.log(S), dtype=p.dtype)
    return (xp.where(p > 0, xp.asarray(cost.entry(p, log_q), dtype=xp.float64), 0.0),)


def rise_of_each(mine: Side, theirs: Side, p: Array, *, cost: CostOfEach) -> tuple[Array]:
    """Return p_ij d ln w_ij / d theta_i."""
    f = ((mine[0] - theirs[0]) ** 2).sum(1)
    return (p * cost.rise_of(f, mine[1]),)  # symbol theta_i: dC/dtheta_i = m_i d ln S_i - sum_j p_ij d ln w_ij
