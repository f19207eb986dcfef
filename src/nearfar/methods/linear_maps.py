"""Neighbour embedding in linear time: the master equation apart, into what the data relate and sums over all points.

:mod:`nearfar.methods.maps` has the equation, with q_ij, S, and D_ij = dC/dq_ij. D is split into a part near, zero where
p = 0, and a part far, ``b ln q + constant`` (a constant in all of D leaves the gradient as it is)::

    KL               b = 0        -q D_near = p
    Jensen-Shannon   b = 0        -q D_near = (q / kappa) ln(1 + kappa p / ((1 - kappa) q))
    reverse KL       b = 1        -q D_near = q ln(1 + (1 - floor) p / eps)        eps = floor / (n - 1), by row
    NeRV             b = 1 - lam  lam times that of KL + (1 - lam) times that of reverse KL

Near, gathered over the pattern of P and Pᵀ, with the strength s = -q D_near::

    grad_i = 2 sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j)

Far, from the potentials Phi of w and Phi^e of w ln w - w (see ``far.fields``), M = sum q D = b sum q ln q - sum s::

    "pair"  grad_i = (2/S) [b grad Phi^e - (b ln S + M) grad Phi]
    "row"   grad_i = c1_i grad Phi^e + grad Phi^e_c1 + c0_i grad Phi + grad Phi_c0
            with charges c1_i = b/S_i, c0_i = -(b ln S_i + M_i)/S_i

Points of importance s (ws-SNE) have s_i s_j w_ij for w_ij: that is s_i times the potential of the charges s. Near it is
KL's s_ij = p_ij, which knows nothing of them, and -w'/w, in which they cancel.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from nearfar._core.jit import compiled
from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Divergence, Field, Kernel, Place, Rows, Term
from nearfar.divergences.probability import Formulas, linear_formulas, no_strength
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import Kernel as WithFormulas
from nearfar.kernels import KernelFunctions, compiled_kernel

OF_ERROR = 0.01  # what S_i may be of the mean, per error of the field
LEAST_S = 1e-20  # of a point so far from all others that its similarities vanish: its charges stay finite in float32


Side = Sequence[Array]
"""Rows of the first, or the second, of each pair."""


def plain(function: Callable[..., object] | None) -> Callable[..., Array]:
    """Return a formula as plain Python, which takes arrays of any kind too."""
    return cast("Callable[..., Array]", getattr(function, "py_func", function))


@dataclass(frozen=True)
class Cost:
    """What a map of n points costs: a divergence of p and q, and how q is made of a kernel; both have formulas.

    ``by_row`` says that q sums to 1 in each row; else it does over all pairs. What follows from these is worked out
    once: ``formulas`` of the divergence, ``similarity``, those of the kernel; as compiled loops take them the functions
    of the kernel, where it is the same for all points, the strength and the cost of an entry, and the ``numbers`` of
    kernel and divergence in the type of the positions; and what p and q are at least.
    """

    kernel: Kernel
    divergence: Divergence
    by_row: bool
    n: int
    dtype: np.dtype[np.floating]
    formulas: Formulas = field(init=False, repr=False, compare=False)
    similarity: KernelFormulas = field(init=False, repr=False, compare=False)
    compiled: tuple[KernelFunctions | None, Callable[..., Any], Callable[..., Any]] = field(
        init=False, repr=False, compare=False
    )
    numbers: tuple[tuple[np.floating, ...], ...] = field(init=False, repr=False, compare=False)
    smallest: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kernel, scalar = compiled_kernel(self.kernel), self.dtype.type
        formulas = linear_formulas(self.divergence, 1 / ((self.n - 1) * (1 if self.by_row else self.n)))
        assert formulas is not None
        of_both = () if kernel is None else kernel.parameters, formulas.parameters
        vars(self).update(
            formulas=formulas,
            similarity=cast("WithFormulas", self.kernel).formulas(),
            compiled=(
                None if kernel is None else kernel.functions,
                compiled(formulas.strength or no_strength),
                compiled(formulas.entry_cost),
            ),
            numbers=tuple(tuple(map(scalar, some)) for some in of_both),
            smallest=1e-30 if self.dtype == np.float32 else 1e-290,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kernel, self.divergence, self.by_row, self.n, self.dtype)

    def weight(self, f: Array) -> Array:
        """Return w of squared distances."""
        if self.similarity.weight is None:
            return namespace_of(f).exp(self.log_weight(f))
        return plain(self.similarity.weight)(f, *self.similarity.parameters)

    def log_weight(self, f: Array) -> Array:
        """Return ln w."""
        return plain(self.similarity.log_weight)(f, *self.similarity.parameters)

    def neg_log_slope(self, f: Array) -> Array:
        """Return -w'/w."""
        return plain(self.similarity.neg_log_slope)(f, *self.similarity.parameters)

    def strength(self, u: Array, q: Array) -> Array:
        """Return s_ij, as far as it moves with q."""
        q = namespace_of(q).clip(q, self.smallest, None)
        return plain(self.formulas.strength)(u, q, *self.formulas.parameters)


class Near(NamedTuple):
    """What the data say of a map: the pattern of P and Pᵀ, p_ij there, and what the strengths s_ij are made of.

    ``mass`` is sum_j s_ij as far as it does not move with q, ``total_mass`` its sum; ``weights`` is the importance of
    the points, ``of_weights`` sum_ij p_ij ln(s_i s_j).
    """

    pattern: object
    p: Rows
    strengths: tuple[Rows | None, ...]
    mass: Rows
    total_mass: float
    weights: Rows | None = None
    of_weights: float = 0.0


def strengths_of(cost: Cost, p_ij: Array, p_ji: Array) -> tuple[tuple[Array | None, ...], Array | None]:
    """Return what the strengths of pairs are made of, and s_ij as far as it does not move with q.

    That is by row the fixed part of s_ij + s_ji, by pair that of s_ij alone; and what the rest of s_ij and, by row, of
    s_ji is made of. None stands for nothing.
    """
    formulas = cost.formulas
    both: Array | None = None
    fixed: Array | None = None
    moving: list[Array | None] = [None, None]
    if formulas.fixed is not None:
        fixed = formulas.fixed(p_ij)
        both = fixed + formulas.fixed(p_ji) if cost.by_row else fixed
    if formulas.strength is not None:
        prepared = formulas.prepared
        moving = [p if prepared is None else np.asarray(prepared(p), cost.dtype) for p in (p_ij, p_ji)]
    return (both, moving[0], moving[1] if cost.by_row else None), fixed


class Far(NamedTuple):
    """Sums over all points at some positions: potentials of w and, where b > 0, of w ln w - w, and their gradients.

    ``row`` are the rows by which a pair is judged: the position and, by row, the sum of w; ``shared`` is what the
    formulas take beside, the sums of the potentials among it. ``field`` answers about other charges.
    """

    field: Field
    names: tuple[Literal["weight", "entropy"], ...]
    values: list[Rows]
    slopes: list[Rows]
    row: tuple[Rows, ...]
    shared: dict[str, Any]


def far_at(place: Place, cost: Cost, near: Near, field: Field, Y: Rows) -> Far:
    """Return the sums over all points, which the field makes."""
    names: tuple[Literal["weight", "entropy"], ...] = ("weight", "entropy") if cost.formulas.far_log else ("weight",)
    field = place.field(field, Y, cost.kernel)
    potentials = field.evaluate([Term(name, near.weights) for name in names])
    values, slopes = [one.value for one in potentials], [one.gradient for one in potentials]
    if near.weights is not None:
        values[0], slopes[0] = place.each(times, (values[0], slopes[0]), near.weights)[0]
    shared = {"cost": cost, "totals": place.each(sums, *values)[1:], "error": potentials[0].error}
    return Far(field, names, values, slopes, (Y, values[0]) if cost.by_row else (Y,), shared)


def gradient(place: Place, cost: Cost, near: Near, far: Far, exaggeration: float = 1.0) -> Rows:
    """Return the gradient, with P exaggerated (KL only); the potentials of ``far`` are used up."""
    (w, *w_ln_w), slopes, row, shared = far.values, far.slopes, far.row, far.shared
    found = place.pairs(attraction, near.pattern, row, row, *near.strengths, exaggeration=exaggeration, **shared)
    pull, mass = found[0], found[1]
    if not cost.by_row:
        of_pairs = place.each(sums, mass)[1] if cost.formulas.strength is not None else 0.0
        return place.each(push, pull, *slopes, mass=(near.total_mass, of_pairs), **shared)[0]
    pull, *charges = place.each(charge, (pull, mass, *w_ln_w), near.mass, w, *slopes, **shared)[0]
    others = far.field.total([Term(name, each) for name, each in zip(far.names, charges, strict=True)])
    return place.each(add, pull, others.gradient)[0]


def value(place: Place, cost: Cost, near: Near, far: Far) -> float:
    """Return the cost, nats: what the pairs add that the data relate, to that of all pairs as if nothing were."""
    entries = place.pairs(entry_cost, near.pattern, far.row, far.row, near.p, **far.shared)[0]
    found = float(place.each(row_costs, entries, *far.values, **far.shared)[1]) - near.of_weights
    if cost.by_row:
        return found
    totals = [np.array(float(one)) for one in far.shared["totals"]]
    return found + float(far_cost(*totals, cost=cost, totals=totals))


# The formulas, on a block of rows, or of pairs.


def sums(*rows: Array) -> tuple[Array, ...]:
    """Return the sums of rows of numbers."""
    return tuple(row.sum(dtype=namespace_of(row).float64) for row in rows)


def times(moving: tuple[Array, Array], weights: Array) -> tuple[()]:
    """Multiply the potential of points of importance, and its gradient, by it."""
    for one in moving:
        one *= weights if one.ndim == 1 else weights[:, None]
    return ()


def add(pull: Array, more: Array) -> tuple[()]:
    """Add another part of the gradient."""
    pull += more
    return ()


def normalizer(xp: Any, w: Array, *, cost: Cost, totals: Sequence[Array], error: float) -> Array:
    """Return S_i of rows, from the potential of w, or S, one number; ``xp`` is the namespace of the arrays.

    1/S_i is a charge: that of a point far from all others would be huge, and its errors on a mesh would drown the
    rest. So S_i is held above what a field's error lets it be known by.
    """
    total = xp.asarray(totals[0], dtype=xp.float64)
    if not cost.by_row:
        return xp.clip(total, LEAST_S, None)
    least = xp.clip(OF_ERROR * error * total / cost.n, LEAST_S, None)
    return xp.maximum(xp.asarray(w, dtype=xp.float64), least)  # symbol S_i: sum_j w_ij, Phi of charges 1


def entropy(xp: Any, S: Array, w: Array, w_ln_w: Array, cost: Cost) -> Array:
    """Return sum_l q ln q, of rows or of all: the two potentials together are sum w ln w."""
    both = xp.asarray(w, dtype=xp.float64) + xp.asarray(w_ln_w, dtype=xp.float64)
    return xp.clip(both / S - xp.log(S), -2 * math.log(cost.n), 0)


def attraction(
    mine: Side, theirs: Side, fixed: Array | None, u_ij: Array | None, u_ji: Array | None, *,
    cost: Cost, totals: Sequence[Array], error: float, exaggeration: float,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Return what draws i to j, and s_ij as far as it moves with q; ``fixed`` is the rest of s_ij, by row + s_ji."""
    (y, *w_i), (y_j, *w_j) = mine, theirs
    ways = y - y_j
    f = squares(ways)
    s, both = None, 0.0 if fixed is None else fixed
    if u_ij is not None:
        xp, w = namespace_of(f), cost.weight(f)
        s = more = cost.strength(u_ij, w * _inverse(xp, w, w_i, cost, totals, error))
        if u_ji is not None:
            more = s + cost.strength(u_ji, w * _inverse(xp, w, w_j, cost, totals, error))
        both = more if fixed is None else more + fixed
    # symbol s_ij: -q D near, (s_ij + s_ji)(-w'/w)(y_i - y_j)
    k: Array = 2 * exaggeration * (1 if cost.by_row else 2) * both * cost.neg_log_slope(f)
    return k[:, None] * ways, s


def squares(ways: Array) -> Array:
    """Return the squared lengths of rows: by component, as rows are short."""
    total = ways[:, 0] * ways[:, 0]
    for c in range(1, ways.shape[1]):
        total += ways[:, c] * ways[:, c]
    return total


def _inverse(xp: Any, w: Array, of_row: list[Array], cost: Cost, totals: Sequence[Array], error: float) -> Array:
    return xp.asarray(1 / normalizer(xp, *(of_row or [w]), cost=cost, totals=totals, error=error), dtype=w.dtype)


def charge(
    moving: tuple[Array, ...], fixed: Array, w: Array, *slopes: Array, cost: Cost, totals: Sequence[Array], error: float
) -> tuple[()]:
    """Put the charges c0 and c1 of rows in place of their mass and entropy, and add what they do to their own row."""
    xp = namespace_of(w)
    pull, mass, *w_ln_w = moving
    S, b = normalizer(xp, w, cost=cost, totals=totals, error=error), cost.formulas.far_log
    minus_M = mass + fixed
    if b:
        minus_M -= b * (xp.log(S) + entropy(xp, S, w, w_ln_w[0], cost))
        w_ln_w[0][...] = xp.asarray(b / S, dtype=w.dtype)
    mass[...] = xp.asarray(minus_M / S, dtype=w.dtype)  # symbol c0: -(b ln S + M) / S; c1 = b / S
    for charges, slope in zip((mass, *w_ln_w), slopes, strict=True):
        pull += charges[:, None] * slope
    return ()


def push(
    pull: Array, *slopes: Array, mass: tuple[float, Array | float], cost: Cost, totals: Sequence[Array], error: float
) -> tuple[()]:
    """Add the far part of the gradient by pair."""
    xp, b = namespace_of(pull), cost.formulas.far_log
    S = normalizer(xp, pull, cost=cost, totals=totals, error=error)
    H = entropy(xp, S, totals[0], totals[1], cost) if b else 0.0
    M = b * H - mass[0] - xp.asarray(mass[1], dtype=xp.float64)  # symbol M: sum q D = b sum q ln q - sum s
    pull += xp.asarray(-2 * (b * xp.log(S) + M) / S, dtype=pull.dtype) * slopes[0]
    if b:
        pull += xp.asarray(2 * b / S, dtype=pull.dtype) * slopes[1]
    return ()


def entry_cost(
    mine: Side, theirs: Side, p: Array, *, cost: Cost, totals: Sequence[Array], error: float
) -> tuple[Array]:
    """Return what a pair adds to the cost of one with p = 0."""
    xp = namespace_of(p)
    (y, *w_i), (y_j, *_) = mine, theirs
    f = squares(y - y_j)
    S = normalizer(xp, *(w_i or [p]), cost=cost, totals=totals, error=error)
    log_q = cost.log_weight(f) - xp.asarray(xp.log(S), dtype=p.dtype)
    least, q = xp.clip(p, cost.smallest, None), xp.clip(xp.exp(log_q), cost.smallest, None)
    more = plain(cost.formulas.entry_cost)(least, q, log_q, *cost.formulas.parameters)
    return (xp.where(p > 0, xp.asarray(more, dtype=xp.float64), 0.0),)


def row_costs(entries: Array, *values: Array, cost: Cost, totals: Sequence[Array], error: float) -> tuple[Array]:
    """Return the cost of rows; by pair without that of all pairs."""
    found = entries.sum()
    if cost.by_row:
        found = found + far_cost(*values, cost=cost, totals=totals, error=error).sum()
    return (found,)


def far_cost(w: Array, *w_ln_w: Array, cost: Cost, totals: Sequence[Array], error: float = 0.0) -> Array:
    """Return the cost of rows, or of all pairs, as if p were 0."""
    xp = namespace_of(w)
    S = normalizer(xp, w, cost=cost, totals=totals, error=error)
    H = entropy(xp, S, w, w_ln_w[0], cost) if w_ln_w else 0 * S
    return cost.formulas.far_log * H + cost.formulas.constant
