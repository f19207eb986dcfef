"""Neighbour embedding: the master equation of the source, over all pairs and in linear time.

Points y_i of a map have squared distances f_ij and similarities w_ij = w(f_ij); q_ij = w_ij / S, S the sum over all
pairs ("pair") or over a row ("row"), or q = w ("none"). The cost of a divergence between p and q has the gradient ::

    dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j),     k_ij = (D_ij - sum_kl q_kl D_kl) w'(f_ij) / S,     D = dC/dq

where the sum over k, l is that over which S goes. Only D is exaggerated: under KL D = -p/q, so that p is. Source:
Melville, "Deriving embedding gradients" (documentation of sneer), the generic gradient; for an asymmetric kernel with a
symmetric q the mean of D_ij and D_ji stands for D_ij.

In linear time the equation comes apart, into what the data relate and sums over all points. D is split into a part
near, zero where p = 0, and a part far, ``b ln q + constant`` (a constant in all of D leaves the gradient as it is)::

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

A kernel may have degrees of freedom for each point, w_ij = (1 + f_ij / nu_i)^(-(nu_i + 1) / 2). By row, under KL, nu_i
enters the cost of its own row alone; with m_i = sum_j p_ij, which is 1 or, for an empty row, 0::

    dC/dnu_i = sum_j (m_i q_ij - p_ij) d ln w_ij / dnu_i

Source: Kitazono, Grozavu, Rogovschi, Omori & Ozawa, "t-distributed stochastic neighbor embedding with inhomogeneous
degrees of freedom" (ICONIP 2016).
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.jit import compiled
from nearfar._core.parameters import Part
from nearfar._core.threads import run_blocks
from nearfar._core.types import Array, Doubles, namespace_of
from nearfar.contracts import Divergence, Field, Floats, Kernel, Objective, Place, Rows, Term
from nearfar.divergences.probability import KL, Formulas, linear_formulas, no_strength
from nearfar.errors import InputError
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import InhomogeneousStudentT, compiled_kernel, plain, rise, squared_distances
from nearfar.kernels import Kernel as WithFormulas

_ENTRIES = 2**21  # of a block: 16 MB per array of float64
_TINY = np.finfo(np.float64).tiny


def master(
    Y: Floats, p: Floats, kernel: Kernel, divergence: Divergence, normalization: str, uniform: tuple[float, ...] = ()
) -> tuple[float, Floats]:
    """Return the cost of a map and dC/dY, all pairs at once: the definition. Fits run quicker forms, tested against it.

    The diagonal of ``p`` is 0; ``uniform`` is what a divergence with a floor takes beside p and q.
    """
    f, rows = squared_distances(Y, Y), slice(0, len(Y))
    w, slope = off_diagonal(kernel.weight(f), rows), off_diagonal(kernel.slope(f), rows)
    over = {"pair": (0, 1), "row": (1,)}.get(normalization)  # what q sums to 1 over
    w = (w + w.T) / 2 if normalization == "pair" else w
    S = w.sum(axis=over, keepdims=True) if over else 1.0
    q = w / S  # symbol q_ij: w_ij / S
    D = divergence.derivative(p, np.maximum(q, _TINY), *uniform)  # symbol D_ij: dC/dq_ij
    D = (D + D.T) / 2 if normalization == "pair" else D
    mean = (q * D).sum(axis=over, keepdims=True) if over else 0.0
    k = (D - mean) * slope / S  # symbol k_ij: (D_ij - sum of q D) w'(f_ij) / S
    both = k + k.T
    gradient = 2 * (both.sum(axis=1)[:, None] * Y - both @ Y)  # symbol dC/dy_i: 2 sum_j (k_ij + k_ji)(y_i - y_j)
    costs = np.array(divergence.value(p, np.maximum(q, _TINY), *uniform), np.float64)
    return float(off_diagonal(costs, rows).sum()), gradient


class AllPairs(Objective):
    """What :func:`master` defines, in float64, some rows at a time, for a P that may be sparse.

    Parameters
    ----------
    P : ndarray or sparse array of shape (n, n), >= 0
        What q should be; its diagonal does not count.
    kernel : Kernel
        Its parameters may be one per point: w_ij is then by the parameter of i. One of several scales has as many.
    divergence : Divergence
    normalization : {"row", "pair", "none"}
    weights : ndarray of shape (n,), optional
        Importance s_i of the points: s_i s_j w_ij stands for w_ij everywhere.
    n_jobs : int, default=1
        Threads, each with some rows of its own; no result depends on it.
    """

    def __init__(
        self,
        P: Floats | csr_array,
        kernel: Kernel,
        divergence: Divergence,
        normalization: str,
        *,
        weights: Floats | None = None,
        n_jobs: int = 1,
    ) -> None:
        n, self.n_jobs, several = P.shape[0], n_jobs, getattr(kernel, "scales", (kernel,))
        self._given = P, kernel
        if len(several) > 1 and normalization != "row":
            raise InputError("NeighborEmbedding", "normalization", "'row' for several scales", repr(normalization))
        self.scales = [_Scale(each, n, weights) for each in several]
        self.divergence, self.normalization, self.weights = divergence, normalization, weights
        self.bounds = [*range(0, n, max(1, _ENTRIES // max(n, 1))), n]
        self.few = len(self.bounds) <= 2
        both: list[Any] = [P, P.T] if isinstance(P, np.ndarray) else [P.tocsr(), P.T.tocsr()]
        self.P, self.P_back = both
        if self.few:  # dense, and once for all
            self.P, self.P_back = (self._entries(part, slice(0, n)) for part in (self.P, self.P_back))
        self.symmetric = self.few and np.array_equal(self.P, self.P_back)
        # A divergence that mixes a floor into p needs to know what the uniform distribution is.
        uniform = 1 / (n - 1) if normalization == "row" else 1 / (n * (n - 1))
        self.uniform = (uniform,) if divergence.floor else ()

    def early(self, kernel: Kernel | None = None) -> AllPairs:
        """Return the same with KL; with a kernel given, under that, by pair."""
        if kernel is None:
            return AllPairs(*self._given, KL(), self.normalization, weights=self.weights, n_jobs=self.n_jobs)
        P = csr_array(self._given[0] + self._given[0].T)
        return AllPairs(csr_array(P / P.sum()), kernel, KL(), "pair", n_jobs=self.n_jobs)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is told of by who descends
    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return dC/dY with D exaggerated, and the true cost at Y if it is asked for."""
        dtype, by_pair, several = Y.dtype, self.normalization == "pair", len(self.scales)
        Y = np.asarray(Y, np.float64)
        n, kept = len(Y), [scale.similarities(Y, slice(0, len(Y))) for scale in self.scales] if self.few else None

        def similar(rows: slice) -> list[tuple[Floats, Floats, Floats]]:
            return kept or [scale.similarities(Y, rows) for scale in self.scales]

        S = [np.ones((n, 1))]
        if self.normalization != "none":
            sums = run_blocks(
                lambda _, start, stop: [w.sum(axis=1) for _, w, _ in similar(slice(start, stop))],
                self.bounds,
                self.n_jobs,
            )
            of_rows = [np.concatenate(parts) for parts in zip(*sums, strict=True)]
            S = [np.maximum(np.full(n, one.sum()) if by_pair else one, _TINY)[:, None] for one in of_rows]

        def task(_block: int, start: int, stop: int) -> tuple[float, float, Floats, Floats]:
            rows, mean, gradient, of_mean = slice(start, stop), 0.0, np.zeros_like(Y), np.zeros_like(Y)
            found, p = similar(rows), self.P if self.few else self._entries(self.P, rows)
            shares = [
                ((w + back) / 2 if by_pair and back is not w else w) / one[rows]
                for (_, w, back), one in zip(found, S, strict=True)
            ]
            q = np.maximum(shares[0] if several == 1 else np.mean(shares, axis=0), _TINY)
            D = np.asarray(self.divergence.derivative(p, q, *self.uniform))
            value, D_both = 0.0, D
            if cost:
                costs = np.array(self.divergence.value(p, q, *self.uniform), np.float64)
                value = float(off_diagonal(costs, rows).sum())
            if by_pair and not self.symmetric:
                p_back = self.P_back if self.few else self._entries(self.P_back, rows)
                D_both = (D + np.asarray(self.divergence.derivative(p_back, q, *self.uniform))) / 2
            for scale, share, (f, *_), one in zip(self.scales, shares, found, S, strict=True):
                slope = scale.slope(f, rows) / (several * one[rows])
                of_row = (share * D).sum(axis=1, keepdims=True) if self.normalization == "row" else 0.0
                # symbol ε: exaggeration of D, and so of p, while the first phase lasts
                gradient += forces(Y, (exaggeration * D_both - of_row) * slope, rows)
                if by_pair:  # times sum q D, when all rows are known
                    mean += float((share * D).sum())
                    of_mean += forces(Y, slope, rows)
            return value, mean, gradient, of_mean

        values, means, gradients, of_means = zip(*run_blocks(task, self.bounds, self.n_jobs), strict=True)
        gradient = np.asarray(sum(gradients) - sum(means) * sum(of_means))
        return gradient.astype(dtype, copy=False), float(sum(values)) if cost else None

    def _entries(self, P: Floats | csr_array, rows: slice) -> Floats:
        """Return some rows of P, dense, without the diagonal."""
        part = P[rows]
        return off_diagonal(np.array(part if isinstance(part, np.ndarray) else part.toarray(), np.float64), rows)


class _Scale:
    """A kernel, its parameters possibly one per point; a pair of a point with itself has similarity 0."""

    def __init__(self, kernel: Kernel, n: int, weights: Floats | None) -> None:
        self.kernel, self.weights = kernel, weights
        parameters = kernel.get_params() if isinstance(kernel, Part) else {}
        arrays = {name: np.asarray(value) for name, value in parameters.items()}
        self.per_point = {name: value for name, value in arrays.items() if value.ndim == 1}
        for name, value in self.per_point.items():
            if len(value) != n:
                raise InputError(type(kernel).__name__, name, f"one number, or one per point ({n})", len(value))

    def similarities(self, Y: Floats, rows: slice) -> tuple[Floats, Floats, Floats]:
        """f_ij, w_ij and w_ji for i among the rows and all j."""
        f = squared_distances(Y[rows], Y)
        w = off_diagonal(self._of(rows).weight(f), rows)
        # Row i of the kernel is point i: w_ji is found in the transposed block.
        w_back = off_diagonal(self.kernel.weight(f.T).T, rows) if self.per_point else w
        return f, self._weighted(w, rows), self._weighted(w_back, rows)

    def slope(self, f: Floats, rows: slice) -> Floats:
        """w'(f_ij) for the same."""
        return self._weighted(off_diagonal(self._of(rows).slope(f), rows), rows)

    def _weighted(self, values: Floats, rows: slice) -> Floats:
        return values if self.weights is None else self.weights[rows, None] * values * self.weights

    def _of(self, rows: slice) -> Kernel:
        if not (self.per_point and isinstance(self.kernel, Part)):
            return self.kernel
        return self.kernel.with_params(**{name: value[rows] for name, value in self.per_point.items()})


def forces(Y: Floats, k: Floats, rows: slice) -> Floats:
    """Return 2 sum_j (k_ij + k_ji)(y_i - y_j) for all i, as far as k's rows of this block go."""
    found = k.sum(axis=0)[:, None] * Y - k.T @ Y[rows]
    found[rows] += k.sum(axis=1)[:, None] * Y[rows] - k @ Y
    return np.asarray(2 * found)


def off_diagonal(block: Floats, rows: slice) -> Floats:
    """Set the entries of a point with itself to 0, in place."""
    at = np.arange(rows.start, rows.stop)
    block[at - rows.start, at] = 0
    return np.asarray(block)


def slopes_in_nu(Y: Floats, P: csr_array, nu: Doubles, rows: slice) -> Doubles:
    """Return dC/dnu_i of some rows, in float64."""
    Y = np.asarray(Y, np.float64)
    f = squared_distances(Y[rows], Y)
    w = off_diagonal(InhomogeneousStudentT(nu[rows]).weight(f), rows)
    p = off_diagonal(P[rows].toarray().astype(np.float64), rows)
    q = w / np.maximum(w.sum(axis=1, keepdims=True), _TINY)
    slopes = plain(rise)(f, nu[rows, None], 1.0, 0.5)
    # symbol dC/dnu_i: sum_j (m_i q_ij - p_ij) d ln w_ij / dnu_i
    return np.asarray(((p.sum(axis=1, keepdims=True) * q - p) * slopes).sum(axis=1))


# The equation in linear time.


OF_ERROR = 0.01  # what S_i may be of the mean, per error of the field
LEAST_S = 1e-20  # of a point so far from all others that its similarities vanish: its charges stay finite in float32


Side = Sequence[Array]
"""Rows of the first, or the second, of each pair."""


@dataclass(frozen=True)
class Cost:
    """What a map of n points costs: a divergence of p and q, and how q is made of a kernel; both have formulas.

    ``by_row`` says that q sums to 1 in each row; else it does over all pairs. What follows from these is worked out
    once: ``formulas`` of the divergence and ``similarity``, those of the kernel, in plain Python, which takes arrays of
    any kind; as compiled loops take them the functions of the kernel, where it is the same for all points, the strength
    and the cost of an entry, and the ``numbers`` of kernel and divergence in the type of the positions; and what p and
    q are at least.
    """

    kernel: Kernel
    divergence: Divergence
    by_row: bool
    n: int
    dtype: np.dtype[np.floating]
    formulas: Formulas = field(init=False, repr=False, compare=False)
    similarity: KernelFormulas = field(init=False, repr=False, compare=False)
    compiled: tuple[Any, ...] = field(init=False, repr=False, compare=False)
    numbers: tuple[tuple[np.floating, ...], ...] = field(init=False, repr=False, compare=False)
    smallest: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kernel, scalar = compiled_kernel(self.kernel), self.dtype.type
        formulas = linear_formulas(self.divergence, 1 / ((self.n - 1) * (1 if self.by_row else self.n)))
        given = cast("WithFormulas", self.kernel).formulas()
        assert formulas is not None
        assert given is not None
        similarity = given._replace(
            log_weight=plain(given.log_weight), neg_log_slope=plain(given.neg_log_slope), weight=plain(given.weight)
        )
        of_entries = formulas.strength or no_strength, formulas.entry_cost
        of_both = () if kernel is None else kernel.parameters, formulas.parameters
        vars(self).update(
            formulas=formulas._replace(strength=plain(formulas.strength), entry_cost=plain(formulas.entry_cost)),
            similarity=similarity,
            compiled=(None if kernel is None else kernel.functions, *map(compiled, of_entries)),
            numbers=tuple(tuple(map(scalar, some)) for some in of_both),
            smallest=1e-30 if self.dtype == np.float32 else 1e-290,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kernel, self.divergence, self.by_row, self.n, self.dtype)

    def weight(self, f: Array) -> Array:
        """Return w of squared distances."""
        if self.similarity.weight is None:
            return namespace_of(f).exp(self.log_weight(f))
        return cast(Array, self.similarity.weight(f, *self.similarity.parameters))

    def log_weight(self, f: Array) -> Array:
        """Return ln w."""
        return cast(Array, self.similarity.log_weight(f, *self.similarity.parameters))

    def neg_log_slope(self, f: Array) -> Array:
        """Return -w'/w."""
        return cast(Array, self.similarity.neg_log_slope(f, *self.similarity.parameters))


class Near(NamedTuple):
    """What the data say of a map: the pattern of P and Pᵀ, p_ij there, and what the strengths s_ij are made of.

    ``strengths`` are by row the part of s_ij + s_ji that does not move with q, by pair that of s_ij alone; and what the
    rest of s_ij and, by row, of s_ji is made of. None stands for nothing. ``mass`` is sum_j s_ij as far as it does not
    move with q, ``total_mass`` its sum; ``weights`` is the importance of the points, ``of_weights`` sum_ij p_ij ln(s_i
    s_j).
    """

    pattern: object
    p: Rows
    strengths: tuple[Rows | None, ...]
    mass: Rows
    total_mass: float
    weights: Rows | None = None
    of_weights: float = 0.0


class LinearMap(Objective):
    """The cost of a map and its gradient, in linear time, at a place: near, over a pattern, and far, by a field."""

    place: Place
    cost: Cost
    field: Field

    def near(self) -> Near:
        """Return what the data say of the map."""
        raise NotImplementedError

    def value(self, Y: Rows) -> float:
        """Return the true cost at Y."""
        return cast(float, self.evaluate(Y, cost=True, slope=False)[1])

    def evaluate(
        self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False, slope: bool = True
    ) -> tuple[Rows, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost, nats, of what is asked for."""
        place, of_map, near, found = self.place, self.cost, self.near(), None
        b, by_row = of_map.formulas.far_log, of_map.by_row
        names: tuple[Literal["weight", "entropy"], ...] = ("weight", "entropy") if b else ("weight",)
        # Phi_i = sum_j w_ij and its gradient: pair by pair, or of many points on a mesh.
        field = place.field(self.field, Y, of_map.kernel)
        potentials = field.evaluate([Term(name, near.weights) for name in names])
        (w, *w_ln_w), slopes = [one.value for one in potentials], [one.gradient for one in potentials]
        if near.weights is not None:
            w, slopes[0] = place.each(times, (w, slopes[0]), near.weights)[0]
        totals = place.each(sums, w, *w_ln_w)[1:]  # S, the normaliser: the sum of all Phi_i
        shared: dict[str, Any] = {"cost": of_map, "totals": totals, "error": potentials[0].error}
        sides = (Y, w) if by_row else (Y,)  # by row a pair is judged by S_i, too
        if cost:  # what the pairs add that the data relate, to that of all pairs as if nothing were
            entries = place.pairs(entry_cost, near.pattern, sides, sides, near.p, **shared)[0]
            if by_row:
                found = float(place.each(row_costs, entries, w, *w_ln_w, **shared)[1])
            else:
                of_entries = np.array(float(place.each(sums, entries)[1]) - near.of_weights)
                numbers = [np.array(float(one)) for one in totals]
                found = float(row_costs(of_entries, *numbers, cost=of_map, totals=numbers, error=0.0)[0])
        if not slope:
            return None, found
        of_pairs = place.pairs(  # the near part of k_ij
            attraction, near.pattern, sides, sides, *near.strengths, exaggeration=exaggeration, **shared
        )
        gradient, mass = of_pairs[0], of_pairs[1]
        if not by_row:  # and the far part, the repulsion
            moving = place.each(sums, mass)[1] if of_map.formulas.strength is not None else 0.0
            return place.each(push, gradient, *slopes, mass=(near.total_mass, moving), **shared)[0], found
        gradient, *charges = place.each(charge, (gradient, mass, *w_ln_w), near.mass, w, *slopes, **shared)[0]
        others = field.total([Term(name, each) for name, each in zip(names, charges, strict=True)])
        return place.each(add, gradient, others.gradient)[0], found


# The formulas, on a block of rows, or of pairs.


def sums(*rows: Array) -> tuple[Array, ...]:
    """Return the sums of rows of numbers."""
    return tuple(row.sum(dtype=namespace_of(row).float64) for row in rows)


def times(moving: tuple[Array, Array], weights: Array) -> tuple[()]:
    """Multiply the potential of points of importance, and its gradient, by it."""
    for one in moving:
        one *= weights if one.ndim == 1 else weights[:, None]
    return ()


def add(gradient: Array, more: Array) -> tuple[()]:
    """Add another part of the gradient."""
    gradient += more
    return ()


def sum_of_w(xp: Any, w: Array, *, cost: Cost, totals: Sequence[Array], error: float) -> Array:
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
    s: list[Array] = []
    both: Array | float = 0.0 if fixed is None else fixed
    for u, of_row in ((u_ij, w_i), (u_ji, w_j)):
        if u is not None:
            xp, w = namespace_of(f), cost.weight(f)
            S = sum_of_w(xp, *(of_row or [w]), cost=cost, totals=totals, error=error)
            q = xp.clip(w * xp.asarray(1 / S, dtype=w.dtype), cost.smallest, None)
            s.append(cast("Callable[..., Array]", cost.formulas.strength)(u, q, *cost.formulas.parameters))
    if s:
        both = sum(s) if fixed is None else sum(s) + fixed
    # symbol s_ij: -q D near, 2 (s_ij + s_ji)(-w'/w)(y_i - y_j)
    k: Array = 2 * exaggeration * (1 if cost.by_row else 2) * both * cost.neg_log_slope(f)
    return k[:, None] * ways, s[0] if s else None


def squares(ways: Array) -> Array:
    """Return the squared lengths of rows: by component, as rows are short."""
    total = ways[:, 0] * ways[:, 0]
    for c in range(1, ways.shape[1]):
        total += ways[:, c] * ways[:, c]
    return total


def charge(
    moving: tuple[Array, ...], fixed: Array, w: Array, *slopes: Array, cost: Cost, totals: Sequence[Array], error: float
) -> tuple[()]:
    """Put the charges c0 and c1 of rows in place of their mass and entropy, and add what they do to their own row."""
    xp = namespace_of(w)
    gradient, mass, *w_ln_w = moving
    S, b = sum_of_w(xp, w, cost=cost, totals=totals, error=error), cost.formulas.far_log
    minus_M = mass + fixed
    if b:
        minus_M -= b * (xp.log(S) + entropy(xp, S, w, w_ln_w[0], cost))
        w_ln_w[0][...] = xp.asarray(b / S, dtype=w.dtype)
    mass[...] = xp.asarray(minus_M / S, dtype=w.dtype)  # symbol c0: -(b ln S + M) / S; c1 = b / S
    for charges, slope in zip((mass, *w_ln_w), slopes, strict=True):
        gradient += charges[:, None] * slope
    return ()


def push(
    gradient: Array,
    *slopes: Array,
    mass: tuple[float, Array | float],
    cost: Cost,
    totals: Sequence[Array],
    error: float,
) -> tuple[()]:
    """Add the far part of the gradient, by pair: charges are the same for all.

    Under KL it is 2/S times the gradient of Phi: for Student's t -4 sum_j q_ij w_ij (y_i - y_j).
    """
    xp, b = namespace_of(gradient), cost.formulas.far_log
    S = sum_of_w(xp, gradient, cost=cost, totals=totals, error=error)
    H = entropy(xp, S, totals[0], totals[1], cost) if b else 0.0
    M = b * H - mass[0] - xp.asarray(mass[1], dtype=xp.float64)  # symbol M: sum q D = b sum q ln q - sum s
    gradient += xp.asarray(-2 * (b * xp.log(S) + M) / S, dtype=gradient.dtype) * slopes[0]
    if b:
        gradient += xp.asarray(2 * b / S, dtype=gradient.dtype) * slopes[1]
    return ()


def entry_cost(
    mine: Side, theirs: Side, p: Array, *, cost: Cost, totals: Sequence[Array], error: float
) -> tuple[Array]:
    """Return what a pair adds to the cost of one with p = 0."""
    xp = namespace_of(p)
    (y, *w_i), (y_j, *_) = mine, theirs
    f = squares(y - y_j)
    S = sum_of_w(xp, *(w_i or [p]), cost=cost, totals=totals, error=error)
    log_w = cost.similarity.log_weight(f, *cost.similarity.parameters)
    log_q = log_w - xp.asarray(xp.log(S), dtype=p.dtype)
    least, q = xp.clip(p, cost.smallest, None), xp.clip(xp.exp(log_q), cost.smallest, None)
    more = cost.formulas.entry_cost(least, q, log_q, *cost.formulas.parameters)
    return (xp.where(p > 0, xp.asarray(more, dtype=xp.float64), 0.0),)


def row_costs(
    entries: Array, w: Array, *w_ln_w: Array, cost: Cost, totals: Sequence[Array], error: float
) -> tuple[Array]:
    """Return the cost of rows, or of all pairs: that of their entries, and b sum q ln q + constant as if p were 0."""
    xp = namespace_of(w)
    S = sum_of_w(xp, w, cost=cost, totals=totals, error=error)
    H = entropy(xp, S, w, w_ln_w[0], cost) if w_ln_w else 0 * S
    return (entries.sum() + (cost.formulas.far_log * H + cost.formulas.constant).sum(),)
