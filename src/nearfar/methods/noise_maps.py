"""Maps with sampled repulsion: pairs of neighbours are told from pairs of noise; no sum over all pairs is asked for.

With p_ij = p_ji of sum 1, a = m Zbar / (n (n - 1)), W_i the sum of w over the m noise partners k of i, g = -w'/w and
Delta = y_i - y_j, the costs of :class:`nearfar.far.NoisePairs` have the gradients (noise and Zbar held fixed)::

    local    4 sum_j p_ij a/(w_ij + a) g Delta  -  (2/n) sum_k w_ik/(w_ik + a) g Delta
    global   2 sum_j p_ij (W_i/(w_ij + W_i) + W_j/(w_ij + W_j)) g Delta  -  2 sum_k c w_ik g Delta

where k runs over the pairs of noise in which i is the first or the second, and c = sum_j p_fj / (w_fj + W_f) of the
first, f. Exaggeration by alpha makes of the near part -alpha sum p ln w + ..., as in t-SNE.

As a grows "local" becomes t-SNE's gradient, with the sum over all pairs estimated. What tells "local" from t-SNE is m;
how exactly its mean over the noise is known is another matter, so in a small map more noise is drawn than m per point.

Source: Damrich, Böhm, Hamprecht & Kobak (2023), "From t-SNE to UMAP with contrastive learning", equations 3 to 7.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nearfar._core.types import Array, Longs, namespace_of
from nearfar.contracts import Place, Rows
from nearfar.methods.maps import Cost, Near, Side, add, squares, sums

LEAST_A = 1e-20  # of a map torn so far apart that all of w vanishes
_AT_ONCE = 2**17  # pairs of noise that are worked on together


class Circle:
    """Pairs of noise, n of them for each step: the points stand in a random circle, and a sample is a step along it.

    With a step s every point r has the partner r + s, and is that of r - s. Steps are drawn evenly from 1 .. n - 1, so
    for each point every other one is as likely, and no pair needs a random number of its own. It stands in for the
    pattern of a place's ``pairs``.

    Parameters
    ----------
    order : ndarray of shape (n,), int64
        The points along the circle.
    steps : ndarray of shape (k,), int64
    """

    def __init__(self, order: Longs, steps: Longs) -> None:
        self.order, self.steps = order, steps
        self.laid: object = None
        """What a place keeps of the positions along the circle, while they stay."""

    def sums(
        self,
        formula: Callable[..., tuple[Any, ...]],
        mine: Sequence[Any],
        theirs: Sequence[Any],
        entries: object,
        shared: Mapping[str, object],
    ) -> tuple[Any, ...]:
        """Return the sums of a formula over the pairs of which each point is the first.

        ``entries`` are nothing, or True: then a pair does the opposite to its second, which counts, too.
        """
        n, like = len(self.order), mine[0]
        xp = namespace_of(like)
        order, at_once = xp.asarray(self.order, device=like.device), max(1, _AT_ONCE // n)
        along = [xp.concatenate([part[order]] * min(at_once, len(self.steps))) for part in mine]
        beside = [xp.concatenate([part[order]] * 2) for part in theirs]  # r + s needs no modulo
        found: list[list[Array]] = []
        for start in range(0, len(self.steps), at_once):
            some = self.steps[start : start + at_once].tolist()
            second = [xp.concatenate([part[step : step + n] for step in some]) for part in beside]
            parts = formula([part[: len(some) * n] for part in along], second, **shared)
            found.append([_of_points(part.reshape(len(some), n, *part.shape[1:]), some, entries) for part in parts])
        place_of = xp.argsort(order)
        return tuple(sum(parts)[place_of] for parts in zip(*found, strict=True))


def _of_points(part: Array, steps: Sequence[int], both: object) -> Array:
    """Return the sums over steps; if ``both``, less those of the pairs of which a point is the second."""
    total: Array = part.sum(0)
    if both:
        xp = namespace_of(part)
        total = total - xp.stack([xp.roll(row, step, 0) for row, step in zip(part, steps, strict=True)]).sum(0)
    return total


def local_gradient(
    place: Place, cost: Cost, near: Near, circle: Circle, Y: Rows, a: Array | float, m: int, exaggeration: float
) -> Rows:
    """Return the gradient of "local" for some noise, a held fixed."""
    pull = place.pairs(local_pull, near.pattern, (Y,), (Y,), near.p, cost=cost, a=a, exaggeration=exaggeration)[0]
    share = 2 * m / (cost.n * len(circle.steps))
    (pushed,) = place.pairs(local_push, circle, (Y,), (Y,), True, cost=cost, a=a, share=share)
    return place.each(add, pull, pushed)[0]


def global_gradient(place: Place, cost: Cost, near: Near, circle: Circle, Y: Rows, exaggeration: float) -> Rows:
    """Return the gradient of "global" for some noise."""
    (W,) = place.pairs(weight, circle, (Y,), (Y,), cost=cost)
    pull, c = place.pairs(global_pull, near.pattern, (Y, W), (Y, W), near.p, cost=cost, exaggeration=exaggeration)
    (pushed,) = place.pairs(global_push, circle, (Y, c), (Y, c), True, cost=cost)
    return place.each(add, pull, pushed)[0]


def mean_level(place: Place, cost: Cost, circle: Circle, Y: Rows, m: int) -> Array:
    """Return a where Zbar is S: m times the mean of w, estimated by the noise."""
    (W,) = place.pairs(weight, circle, (Y,), (Y,), cost=cost)
    _, total = place.each(sums, W)
    # symbol a: m Zbar / (n (n - 1)), Zbar = S
    return namespace_of(total).clip(total * (m / (cost.n * len(circle.steps))), LEAST_A, None)


def local_cost(place: Place, cost: Cost, near: Near, circle: Circle, Y: Rows, a: Array | float, m: int) -> float:
    """Return the cost of "local" for some noise."""
    (entries,) = place.pairs(local_entry_cost, near.pattern, (Y,), (Y,), near.p, cost=cost, a=a)
    (of_noise,) = place.pairs(local_noise_cost, circle, (Y,), (Y,), cost=cost, a=a)
    found, far = (float(place.each(sums, part)[1]) for part in (entries, of_noise))
    return found + m / (cost.n * len(circle.steps)) * far


def global_cost(place: Place, cost: Cost, near: Near, circle: Circle, Y: Rows) -> float:
    """Return the cost of "global" for some noise."""
    (W,) = place.pairs(weight, circle, (Y,), (Y,), cost=cost)
    (entries,) = place.pairs(global_entry_cost, near.pattern, (Y, W), (Y, W), near.p, cost=cost)
    return float(place.each(sums, entries)[1])


# The formulas, for pairs.


def local_pull(
    mine: Side, theirs: Side, p: Array, *, cost: Cost, a: Array | float, exaggeration: float
) -> tuple[Array]:
    """Return what draws i to j, where each pair is told from noise by itself."""
    ways, f = _apart(mine, theirs)
    k = 4 * exaggeration * _level(a, f) * p / (cost.weight(f) + _level(a, f)) * cost.neg_log_slope(f)
    return (k[:, None] * ways,)


def local_push(mine: Side, theirs: Side, *, cost: Cost, a: Array | float, share: float) -> tuple[Array]:
    """Return what drives a pair of noise apart."""
    ways, f = _apart(mine, theirs)
    w = cost.weight(f)
    return ((-share * w / (w + _level(a, f)) * cost.neg_log_slope(f))[:, None] * ways,)


def global_pull(mine: Side, theirs: Side, p: Array, *, cost: Cost, exaggeration: float) -> tuple[Array, Array]:
    """Return what draws i to j, where the neighbour is told from all noise of i together; and the part of c."""
    ways, f = _apart(mine, theirs)
    w = cost.weight(f)
    share = p / (w + mine[1])  # symbol W_i: sum of w over the noise of i; c_i is the sum of p / (w + W_i)
    k = 2 * (2 * exaggeration * p - w * (share + p / (w + theirs[1]))) * cost.neg_log_slope(f)
    return k[:, None] * ways, share


def global_push(mine: Side, theirs: Side, *, cost: Cost) -> tuple[Array]:
    """Return what drives a pair of noise apart, by the charge of its first."""
    ways, f = _apart(mine, theirs)
    return ((-2 * mine[1] * cost.weight(f) * cost.neg_log_slope(f))[:, None] * ways,)


def weight(mine: Side, theirs: Side, *, cost: Cost) -> tuple[Array]:
    """Return w of a pair of noise."""
    return (cost.weight(_apart(mine, theirs)[1]),)


def local_entry_cost(mine: Side, theirs: Side, p: Array, *, cost: Cost, a: Array | float) -> tuple[Array]:
    """Return p ln((w + a) / w)."""
    f = _apart(mine, theirs)[1]
    return (_wide(p * (namespace_of(f).log(cost.weight(f) + _level(a, f)) - cost.log_weight(f))),)


def global_entry_cost(mine: Side, theirs: Side, p: Array, *, cost: Cost) -> tuple[Array]:
    """Return p ln((w + W) / w)."""
    f = _apart(mine, theirs)[1]
    return (_wide(p * (namespace_of(f).log(cost.weight(f) + mine[1]) - cost.log_weight(f))),)


def local_noise_cost(mine: Side, theirs: Side, *, cost: Cost, a: Array | float) -> tuple[Array]:
    """Return ln(1 + w / a) of a pair of noise."""
    f = _apart(mine, theirs)[1]
    return (_wide(namespace_of(f).log1p(cost.weight(f) / _level(a, f))),)


def _apart(mine: Side, theirs: Side) -> tuple[Array, Array]:
    """Return y_i - y_j and its square."""
    ways = mine[0] - theirs[0]
    return ways, squares(ways)


def _level(a: Array | float, like: Array) -> Array:
    """Return a in the type of the positions."""
    return namespace_of(like).asarray(a, dtype=like.dtype)


def _wide(values: Array) -> Array:
    xp = namespace_of(values)
    return xp.asarray(values, dtype=xp.float64)
