"""How the cost of a map moves with the heaviness alpha of its kernel's tail, under KL by pair.

With w = (1 + alpha beta f)^(-1/alpha), all is made of sums of w, of w ln w, and of a kernel of the same family::

    D = d ln w / dalpha = -ln w / alpha - (1 - w^alpha) / alpha²
    d ln S / dalpha = sum w D / S = -[sum w ln w / alpha + (sum w - sum w^(1 + alpha)) / alpha²] / S
    w^(1 + alpha) is heavy-tailed with alpha / (1 + alpha) and (1 + alpha) beta

    dC/dalpha = d ln S / dalpha - sum p D

The kernel is that of Yang, King, Xu & Oja (2009), "Heavy-tailed symmetric stochastic neighbor embedding", who leave
alpha to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Field, Place, Rows, Term
from nearfar.kernels import HeavyTailed
from nearfar.methods.maps import Cost, Near, sums


def slope_in_alpha(place: Place, cost: Cost, near: Near, field: Field, Y: Rows) -> float:
    """Return dC/dalpha."""
    kernel = cast("HeavyTailed", cost.kernel)
    alpha, beta = kernel.alpha, float(cast("float", kernel.beta))
    both = place.field(field, Y, kernel).evaluate([Term("weight"), Term("entropy")])
    S, w_ln_w = (float(one) for one in place.each(sums, both[0].value, both[1].value)[1:])
    w_ln_w += S  # the potential is w ln w - w
    power = HeavyTailed(alpha / (1 + alpha), (1 + alpha) * beta)
    (powers,) = place.field(field, Y, power).evaluate([Term("weight")])
    of_powers = float(place.each(sums, powers.value)[1])
    of_S = -(w_ln_w / alpha + (S - of_powers) / alpha**2) / S  # symbol d ln S/dα: sum w D / S
    rows = place.pairs(rise, near.pattern, (Y,), (Y,), near.p, cost=cost, alpha=alpha)[0]
    return of_S - float(place.each(sums, rows)[1])  # symbol dC/dα: d ln S/dα - sum p D


def rise(mine: Sequence[Array], theirs: Sequence[Array], p: Array, *, cost: Cost, alpha: float) -> tuple[Array]:
    """Return p_ij D_ij."""
    xp = namespace_of(p)
    log_w = xp.asarray(cost.log_weight(((mine[0] - theirs[0]) ** 2).sum(1)), dtype=xp.float64)
    D = -log_w / alpha - (1 - xp.exp(alpha * log_w)) / alpha**2  # symbol D: d ln w/dα
    return (p * D,)
