"""Maps by row whose kernel has a parameter for each point, w_ij = w(f_ij; theta_i), in linear time.

As in :mod:`nearfar.methods.linear_maps`, with two kernels in each pair. Near, g = -w'/w and s = -q D_near::

    grad_i = 2 sum_j (s_ij g(f_ij; theta_i) + s_ji g(f_ij; theta_j)) (y_i - y_j)

Far, row i has ``b H_i + mass_i ln S_i``, H_i = sum_j q ln q and mass_i = sum_j s_ij. Between the nodes of
``far.nodes`` both are interpolated, sum_m l_m(theta_i) [b H_i + mass_i ln S_i] under theta_m. So the far part of
the gradient is a sum over the nodes, of that of a map with the kernel of the node in which the row of i counts
l_m(theta_i) times. Under KL it is the gradient of the cost that is reported. Pair by pair, and on a mesh, there is
one node, which counts once, and whose sums are by each point's own kernel.

Under KL, theta_i enters the cost of its own row alone; with m_i = sum_j p_ij, which is 1 or, for an empty row, 0::

    dC/dtheta_i = m_i d ln S_i / dtheta_i - sum_j p_ij d ln w_ij / dtheta_i

Source: Kitazono, Grozavu, Rogovschi, Omori & Ozawa, "t-distributed stochastic neighbor embedding with inhomogeneous
degrees of freedom" (ICONIP 2016), for learned degrees of freedom; interpolation between kernels is our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import numpy as np

from nearfar._core.namespace import Array, namespace_of
from nearfar.contracts import Floats, Place, Potential, Term
from nearfar.kernels import Family
from nearfar.kernels import Kernel as WithFamily
from nearfar.methods.linear_maps import Cost, Near, Side, least_normalizer, names_of, plain


class AskOfNodes(Protocol):
    """Answers of the far field of a map under the kernels of some nodes."""

    error: float

    def potentials(self, terms: Sequence[Term]) -> list[list[Potential]]:
        """Return the potentials of terms, for each node; they are read until the next call."""

    def total(self, terms: Sequence[Sequence[Term]]) -> Potential:
        """Return the sum of the potentials of terms, some for each node."""


class AtNodes(NamedTuple):
    """A far field at the positions, under the kernels of nodes, and how much each row has of them, (n, nodes)."""

    asked: AskOfNodes
    shares: Floats


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
    """What nodes say at some positions, S_i, ln S_i and H_i of shape (n, nodes), and ln S_i and H_i between them.

    H_i is None where the cost has none of it.
    """

    potentials: list[list[Potential]]
    S: Floats
    logs: Floats
    H: Floats | None
    between: Floats


def sums_of(place: Place, cost: CostOfEach, nodes: AtNodes) -> Sums:
    """Return the sums over all points, by each node and between them."""
    found = nodes.asked.potentials([Term(name) for name in names_of(cost)])
    S, *H = (np.array([one.value for one in of_kind]).T for of_kind in zip(*found, strict=True))
    least = least_normalizer(S.sum(axis=0, dtype=np.float64), cost, nodes.asked.error).astype(S.dtype)
    logs, between = np.empty_like(S), np.zeros((len(S), 2), S.dtype)
    place.each(between_nodes, (S, logs, between, *H), nodes.shares, least=least, cost=cost)
    return Sums(found, S, logs, H[0] if H else None, between)


def evaluate(
    place: Place, cost: CostOfEach, near: Near, theta: Floats, nodes: AtNodes, Y: Floats, exaggeration: float,
    *, value: bool, learned: bool = False,
) -> tuple[Floats, float | None, Floats, Floats | None]:  # fmt: skip
    """Return the gradient at Y, the true cost if it is asked for, and ln S_i under the kernel of each node.

    Where theta is ``learned``, also sum_j p_ij d ln w_ij / dtheta_i.
    """
    names, all_pairs = names_of(cost), sums_of(place, cost, nodes)
    row = Y, np.exp(all_pairs.between[:, 0]), theta
    entries = *near.strengths, near.p if learned else None
    pull, mass, rises = place.pairs(attraction_of_each, near.pattern, row, row, *entries, cost=cost, alpha=exaggeration)
    charges = all_pairs.S, *(np.empty_like(all_pairs.S) for _ in names[1:])
    slopes = [potential.gradient for some in zip(*all_pairs.potentials, strict=True) for potential in some]
    rows = nodes.shares, mass, near.mass, all_pairs.logs, all_pairs.H, *slopes
    place.each(charges_of_nodes, (pull, *charges), *rows, cost=cost)
    each = zip(*(some.T for some in charges), strict=True)
    terms = [[Term(name, own) for name, own in zip(names, some, strict=True)] for some in each]
    pull += nodes.asked.total(terms).gradient
    if not value:
        return pull, None, all_pairs.logs, rises
    (costs,) = place.pairs(entry_cost_of_each, near.pattern, row, row, near.p, cost=cost)
    of_all = cost.far_log * all_pairs.between[:, 1].sum(dtype=np.float64) + cost.formulas.constant * cost.n
    return pull, float(costs.sum() + of_all), all_pairs.logs, rises


# The formulas, for rows.


def between_nodes(moving: tuple[Array, ...], shares: Array, *, least: Array, cost: CostOfEach) -> tuple[()]:
    """Put S_i in place of the potential of w, ln S_i beside it, H_i in place of that of w ln w - w; sum over nodes."""
    w, logs, between, *w_ln_w = moving
    xp = namespace_of(w)
    S = xp.maximum(w, least)
    logs[...] = xp.log(S)
    between[:, 0] = (shares * logs).sum(1)
    for both in w_ln_w:
        both[...] = xp.clip((both + w) / S - logs, -2 * math.log(cost.n), 0)
        between[:, 1] = (shares * both).sum(1)
    w[...] = S
    return ()


def charges_of_nodes(
    moving: tuple[Array, ...], shares: Array, mass: Array, fixed: Array, logs: Array, H: Array | None, *slopes: Array,
    cost: CostOfEach,
) -> tuple[()]:  # fmt: skip
    """Put charges in place of S_i, and add to the pull what they do to their own row."""
    xp, b, (pull, S, *of_entropy) = namespace_of(shares), cost.far_log, moving
    of_S, moves = shares / S, xp.asarray(mass + fixed, dtype=pull.dtype)[:, None]
    S[...] = of_S * (moves if H is None else moves - b * (logs + H))
    for charges in of_entropy:
        charges[...] = b * of_S
    each = (some[:, k] for some in (S, *of_entropy) for k in range(S.shape[1]))
    for charges, slope in zip(each, slopes, strict=True):
        pull += charges[:, None] * slope
    return ()


# The formulas, for pairs.


def attraction_of_each(
    mine: Side,
    theirs: Side,
    fixed: Array | None,
    fixed_back: Array | None,
    u_ij: Array | None,
    u_ji: Array | None,
    p: Array | None,
    *,
    cost: CostOfEach,
    alpha: float,
) -> tuple[Array, Array | None, Array | None]:
    """Return what draws i to j, s_ij as far as it moves with q, and p_ij d ln w_ij / d theta_i if p is given."""
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
    # symbol theta_i: dC/dtheta_i = m_i d ln S_i / dtheta_i - sum_j p_ij d ln w_ij / dtheta_i
    rises = None if p is None else p * cost.rise_of(f, mine[2])
    return (2 * alpha * k)[:, None] * ways, moves[0], rises


def entry_cost_of_each(mine: Side, theirs: Side, p: Array, *, cost: CostOfEach) -> tuple[Array]:
    """Return what a pair adds to the cost of one with p = 0."""
    xp, (y, S, theta) = namespace_of(p), mine
    f = ((y - theirs[0]) ** 2).sum(1)
    log_q = cost.log_weight_of(f, theta) - xp.asarray(xp.log(S), dtype=p.dtype)
    return (xp.where(p > 0, xp.asarray(cost.entry(p, log_q), dtype=xp.float64), 0.0),)
