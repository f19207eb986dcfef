"""The cost of a map and its gradient in linear time: a near part on the support of P, a far part from a field.

The master equation (``_master``) with D = D_near + D_far, where D_far(q) = b ln q + const and D_near = 0 wherever
p = 0 (a constant in all of D leaves the gradient as it is)::

    KL               b = 0        -q D_near = p
    Jensen-Shannon   b = 0        -q D_near = (q / kappa) ln(1 + kappa p / ((1 - kappa) q))
    reverse KL       b = 1        -q D_near = q ln(1 + (1 - floor) p / eps)        eps = floor / (n - 1), by row
    NeRV             b = 1 - lam  lam times that of KL + (1 - lam) times that of reverse KL

Near, gathered over the pattern of P and Pᵀ, with s = -q D_near::

    grad_i = 2 sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j)

Far, from the potentials Phi of w and Phi^e of w ln w - w (see ``far.fields``), M = sum q D = b sum q ln q - sum s::

    "pair"  grad_i = (2/S) [b grad Phi^e - (b ln S + M) grad Phi]
    "row"   grad_i = b (c1_i grad Phi^e + grad Phi^e_c1) + c0_i grad Phi + grad Phi_c0
            with charges c1_i = 1/S_i, c0_i = -(b ln S_i + M_i)/S_i

Points of importance s (WSSNE) have s_i s_j w_ij for w_ij: that is s_i times the potential of the charges s. Near it is
KL's s_ij = p_ij, which knows nothing of them, and -w'/w, in which they cancel.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import xlogy

from nearfar._core.checks import check_choice
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL, JensenShannon, MapDivergence, NeRV, ReverseKL
from nearfar.errors import InputError
from nearfar.far.fields import Field, Potential, Term
from nearfar.kernels import exp, ln, ln1p, log_weight, pull, squared_distances, typed, weight

# ------------------------------------------------------------
# The master equation of neighbour embedding, for any divergence, kernel and normalisation; plain, exact, quadratic.
#
# A map of points y_i has squared distances f_ij = ‖y_i - y_j‖², similarities w_ij = w(f_ij) and, from them, q_ij::
#
#     "row"     q_ij = w_ij / S_i             S_i = sum_j w_ij
#     "pair"    q_ij = (w_ij + w_ji) / 2 S    S = sum_ij w_ij; w_ij / S for a kernel with the same parameters everywhere
#     "none"    q_ij = w_ij
#
# Its cost is C = sum_ij c(p_ij, q_ij) over all i != j, and with D_ij = dC/dq_ij the gradient is::
#
#     dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j)
#
#     "row"     k_ij = (D_ij - sum_l q_il D_il) w'_ij / S_i
#     "pair"    k_ij = ((D_ij + D_ji) / 2 - sum_kl q_kl D_kl) w'_ij / S
#     "none"    k_ij = D_ij w'_ij
#
# Everything is done for a block of rows at a time: O(n² d) time, O(block n) memory. The linear-time objective of
# ``_neighbor_objective`` is tested against this module, and what that one does not know (a divergence or kernel of
# one's
# own, parameters per point, no normalisation) is optimised with this one.
#
# Source: Melville, "Deriving embedding gradients" (sneer documentation), the generic gradient; for an asymmetric kernel
# with a symmetric q the mean of D_ij and D_ji stands for D_ij.

NORMALIZATIONS = ("pair", "row", "none")
_ENTRIES = 2**21  # of a block: 16 MB per array of float64
_TINY = np.finfo(np.float64).tiny


def value_and_gradient(
    Y: Floats,
    P: Any,
    kernel: Any,
    divergence: Any,
    normalization: str,
    *,
    exaggeration: float = 1.0,
    weights: Floats | None = None,
    block: int | None = None,
) -> tuple[float, Floats]:
    """Return the cost of a map and its gradient, from one pass.

    Parameters
    ----------
    Y : ndarray of shape (n, d)
        Positions.
    P : ndarray or sparse array of shape (n, n), >= 0
        What q should be: rows of sum 1 for ``"row"``, total 1 for ``"pair"``. The diagonal does not count.
    kernel : Kernel
        With ``weight(f)`` and ``slope(f)``.
    divergence : Divergence
        With ``value(p, q)`` and ``derivative(p, q)``.
    normalization : {"row", "pair", "none"}
        How q is made from w.
    exaggeration : float, default=1
        Factor a of P in the gradient, k = (a p - q)(-w'/w) for KL; not in the cost. Only KL has a meaning for it.
    weights : ndarray of shape (n,), optional
        Importance s_i of the points (ws-SNE): s_i s_j w_ij stands for w_ij everywhere.
    block : int, optional
        Rows at a time; chosen by memory if not given.

    Returns
    -------
    cost : float
        Sum over all entries (over all rows for ``"row"``), nats for the divergences of :mod:`nearfar.divergences`.
    gradient : ndarray of shape (n, d), float64

    Raises
    ------
    InputError
        An unknown normalisation, or parameters of the kernel that are not one per point.
    """
    check_choice("value_and_gradient", "normalization", normalization, NORMALIZATIONS)
    Y = np.asarray(Y, np.float64)
    n = len(Y)
    view = _Map(Y, P, kernel, divergence, normalization, block or max(1, _ENTRIES // n), weights)
    S = view.normalizer()
    cost, mean = 0.0, 0.0
    from_D, from_mean = np.zeros_like(Y), np.zeros_like(Y)
    for rows in view.blocks():
        f, w, w_back = view.similarities(rows)
        q = _off_diagonal((w + w_back) / (2 * S[rows]) if normalization == "pair" else w / S[rows], rows)
        p = view.entries(rows)
        D = view.derivative(p, q)
        cost += float(view.cost(p, q, rows))
        scaled = view.slope(f, rows) / S[rows]
        if normalization == "row":
            from_D += _pull(Y, (exaggeration * D - (q * D).sum(axis=1, keepdims=True)) * scaled, rows)
        elif normalization == "pair":
            mean += float((q * D).sum())
            D_mean = (D + view.derivative(view.entries(rows, transposed=True), q)) / 2
            from_D += _pull(Y, exaggeration * D_mean * scaled, rows)
            from_mean += _pull(Y, scaled, rows)
        else:
            from_D += _pull(Y, exaggeration * D * scaled, rows)
    return cost, from_D - mean * from_mean


def _pull(Y: Floats, k: Floats, rows: slice) -> Floats:
    """2 sum_j (k_ij + k_ji)(y_i - y_j) for all i, as far as k's rows of this block go."""
    pull = k.sum(axis=0)[:, None] * Y - k.T @ Y[rows]
    pull[rows] += k.sum(axis=1)[:, None] * Y[rows] - k @ Y
    return np.asarray(2 * pull)


@dataclass
class _Map:
    """A map and the parts of its cost, a block of rows at a time; diagonals are 0."""

    Y: Floats
    P: Any
    kernel: Any
    divergence: Any
    normalization: str
    block: int
    weights: Floats | None = None

    def __post_init__(self) -> None:
        n = len(self.Y)
        P, sparse = self.P, bool(issparse(self.P))  # mypy takes what issparse approves for something without methods
        self.P = P.tocsr() if sparse else np.asarray(P, np.float64)
        self._P_back = P.T.tocsr() if sparse else self.P.T
        # Built-in divergences mix a floor into p: they need to know what the uniform distribution is.
        uniform = 1 / (n - 1) if self.normalization == "row" else 1 / (n * (n - 1))
        self._floor = {"uniform": uniform} if isinstance(self.divergence, MapDivergence) else {}
        parameters = self.kernel.get_params() if hasattr(self.kernel, "get_params") else {}
        self._per_point = {name: np.asarray(value) for name, value in parameters.items() if np.ndim(value) == 1}
        for name, value in self._per_point.items():
            if len(value) != n:
                raise InputError(type(self.kernel).__name__, name, f"one number, or one per point ({n})", len(value))

    def blocks(self) -> Iterator[slice]:
        n = len(self.Y)
        return (slice(start, min(start + self.block, n)) for start in range(0, n, self.block))

    def similarities(self, rows: slice) -> tuple[Floats, Floats, Floats]:
        """f_ij, w_ij and w_ji for i in the block and all j."""
        f = squared_distances(self.Y[rows], self.Y)
        w = _off_diagonal(self._kernel_of(rows).weight(f), rows)
        # Row i of the kernel is point i: w_ji is found in the transposed block.
        w_back = _off_diagonal(self.kernel.weight(f.T).T, rows) if self._per_point else w
        return f, self._weighted(w, rows), self._weighted(w_back, rows)

    def slope(self, f: Floats, rows: slice) -> Floats:
        return self._weighted(_off_diagonal(self._kernel_of(rows).slope(f), rows), rows)

    def _weighted(self, values: Floats, rows: slice) -> Floats:
        return values if self.weights is None else self.weights[rows, None] * values * self.weights

    def normalizer(self) -> Floats:
        """S_i, or S, or 1, for each row; shape (n, 1)."""
        n = len(self.Y)
        if self.normalization == "none":
            return np.ones((n, 1))
        sums = np.concatenate([self.similarities(rows)[1].sum(axis=1) for rows in self.blocks()])
        if self.normalization == "pair":
            sums[:] = sums.sum()
        return np.asarray(np.maximum(sums, _TINY)[:, None])

    def entries(self, rows: slice, *, transposed: bool = False) -> Floats:
        """p_ij, or p_ji, for i in the block and all j."""
        part = (self._P_back if transposed else self.P)[rows]
        return _off_diagonal(np.array(part.toarray() if hasattr(part, "toarray") else part, np.float64), rows)

    def derivative(self, p: Floats, q: Floats) -> Floats:
        return np.asarray(self.divergence.derivative(p, np.maximum(q, _TINY), **self._floor))

    def cost(self, p: Floats, q: Floats, rows: slice) -> float:
        values = np.array(self.divergence.value(p, np.maximum(q, _TINY), **self._floor), np.float64)
        return float(_off_diagonal(values, rows).sum())

    def _kernel_of(self, rows: slice) -> Any:
        if not self._per_point:
            return self.kernel
        return self.kernel.with_params(**{name: value[rows] for name, value in self._per_point.items()})


def _off_diagonal(block: Any, rows: slice) -> Floats:
    """Set the entries of a point with itself to 0, in place."""
    at = np.arange(rows.start, rows.stop)
    block[at - rows.start, at] = 0
    return np.asarray(block)


# ------------------------------------------------------------
# Kernels of the near part of a map: the forces between points that the data relate, gathered row by row.
#
# Rows of the pattern of P and Pᵀ together are gathered, nothing is scattered: threads never write to the same place.
# What
# is bound by memory here is the reading of the neighbours' positions. With two components in float32 a position is
# therefore one number of 64 bits (``packed``), so that a row's neighbours are fetched by vector gathers, and everything
# is done in one loop without intermediate arrays, which vectorises and takes half the time.
#
# Names: ``columns`` are the neighbours (uint32: a sign would cost a check per access), ``own`` is p_ij, ``back`` is
# p_ji,
# ``kernel`` and ``divergence`` are pairs of a tuple, whose length tells which, and its constants.


@jit
def merged_counts(left, right, out, start, stop):
    """Write how many columns each row of two sparse matrices has together, without the diagonal."""
    for i in range(start, stop):
        a, a_end, b, b_end, count = left[0][i], left[0][i + 1], right[0][i], right[0][i + 1], 0
        while a < a_end or b < b_end:
            at_left = left[1][a] if a < a_end else np.int32(2**31 - 1)
            at_right = right[1][b] if b < b_end else np.int32(2**31 - 1)
            a += at_left <= at_right
            b += at_right <= at_left
            count += min(at_left, at_right) != i
        out[i + 1] = count


@jit
def merged_rows(left, right, indptr, columns, own, back, start, stop):
    """Write the columns that two sparse matrices with sorted rows have together, and the entries of each."""
    zero = own.dtype.type(0)
    for i in range(start, stop):
        a, a_end, b, b_end, at = left[0][i], left[0][i + 1], right[0][i], right[0][i + 1], indptr[i]
        while a < a_end or b < b_end:
            at_left = left[1][a] if a < a_end else np.int32(2**31 - 1)
            at_right = right[1][b] if b < b_end else np.int32(2**31 - 1)
            column = min(at_left, at_right)
            if column != i:
                columns[at] = column
                own[at] = left[2][a] if at_left == column else zero
                back[at] = right[2][b] if at_right == column else zero
                at += 1
            a += at_left == column
            b += at_right == column


@jit
def reordered_rows(graph, order, place, out, start, stop):
    """Write rows order[start] .. of a pattern, their columns renamed by ``place``; an empty ``back`` is left out."""
    indptr, columns, own, back = graph
    new_indptr, new_columns, new_own, new_back = out
    for r in range(start, stop):
        at = new_indptr[r]
        for e in range(indptr[order[r]], indptr[order[r] + 1]):
            new_columns[at] = place[columns[e]]
            new_own[at] = own[e]
            if back.size:
                new_back[at] = back[e]
            at += 1


@jit(fastmath=FAST, error_model="numpy")
def pull_packed(indptr, columns, near, kernel, divergence, rows, inverse_S, factor, packed, out, mass, start, stop):
    """Write factor * sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j), by pair half of it, and the mass sum_j s_ij of what moves.

    The hot loop of all maps: one pass, two components in float32. ``near`` are the arrays of ``_strengths``, ``rows``
    is () by pair and (0,) by row, ``inverse_S`` has one entry or one per point.
    """
    family, constants = kernel
    for i in range(start, stop):
        x, y = _first(packed[i]), _second(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, own, back = columns[begin:end], near[0][begin:end], near[1][begin:end], near[2][begin:end]
        scale = inverse_S[i] if len(rows) else inverse_S[0]
        gx = gy = total = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - _first(other), y - _second(other)
            f = dx * dx + dy * dy
            w = weight(family, constants, f)
            scales = scale, inverse_S[j] if len(rows) else scale
            s, both = _strengths(divergence, rows, t, fixed, own, back, w, scales)
            total += s
            k = both * pull(family, constants, f)
            gx += k * dx
            gy += k * dy
        mass[i] = total
        out[i, 0], out[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy")
def pull_any(indptr, columns, near, kernel, divergence, rows, inverse_S, factor, Y, out, mass, start, stop):
    """Do what ``pull_packed`` does, for any number of components and type of numbers."""
    family, constants = kernel
    offsets, f, k = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, fixed, own, back = columns[begin:end], near[0][begin:end], near[1][begin:end], near[2][begin:end]
        _write_offsets(Y, i, neighbors, offsets, f)
        scale, total = inverse_S[i] if len(rows) else inverse_S[0], out.dtype.type(0)
        for t in range(neighbors.size):
            scales = scale, inverse_S[neighbors[t]] if len(rows) else scale
            s, both = _strengths(divergence, rows, t, fixed, own, back, weight(family, constants, f[t]), scales)
            total += s
            k[t] = both * pull(family, constants, f[t])
        mass[i] = total
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy")
def _strengths(divergence, rows, t, fixed, own, back, w, scales):
    """Return the part of s_ij that moves with Y, and s_ij + s_ji; by pair s_ij. s is -q D_near, 0 where p = 0.

    KL and NeRV have a part that stays: ``fixed``. ``own`` and ``back`` are L_ij and L_ji for s = A + q L, which do not
    depend on Y (reverse KL, NeRV), p_ij and p_ji for Jensen and Shannon.
    """
    code, parameters = divergence
    nothing = w - w
    if len(code) == 0:  # KL
        return nothing, fixed[t]
    if len(code) <= 2:  # reverse KL, NeRV
        s = scales[0] * w * own[t]
        both = s + scales[1] * w * back[t] if len(rows) else s
        return s, both if len(code) == 1 else both + fixed[t]
    s = _jensen_shannon(parameters, own[t], w * scales[0])
    return s, s + _jensen_shannon(parameters, back[t], w * scales[1]) if len(rows) else s


@jit(fastmath=FAST, error_model="numpy")
def _jensen_shannon(parameters, p, q):
    first, second, _, tiny = parameters  # 1/kappa, kappa/(1 - kappa)
    q = max(q, tiny)
    return first * q * ln1p(second * p / q)


@jit(fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, divergence, log_S, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    indptr, columns, own, _ = graph
    family, constants = kernel
    code, parameters = divergence
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        p, shift = own[begin : begin + m], log_S[i if log_S.size > 1 else 0]
        for t in range(m):
            costs[t] = _entry_cost(code, parameters, p[t], log_weight(family, constants, f[t]) - shift)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost


@jit(fastmath=FAST, error_model="numpy")
def _entry_cost(code, parameters, p, log_q):
    first, second, third, tiny = parameters
    if len(code) == 0:
        return p * (ln(max(p, tiny)) - log_q)
    q = max(exp(log_q), tiny)
    if len(code) <= 2:  # lam, 1 - lam, (1 - floor) / eps
        return first * p * (ln(max(p, tiny)) - log_q) - second * q * ln1p(third * p)
    z = third * (q + second * p)  # kappa p + (1 - kappa) q
    return first * second * p * ln(max(p / z, tiny)) - first * q * ln1p(second * p / q)


@jit(fastmath=FAST, error_model="numpy")
def _buffers(indptr, start, stop, like):
    """Return room for the offsets of the longest row, and for two numbers per neighbour."""
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    more = np.empty((2, longest), like.dtype)
    return np.empty((like.shape[1], longest), like.dtype), more[0], more[1]


@jit(fastmath=FAST, error_model="numpy")
def _write_offsets(Y, i, neighbors, offsets, f):
    """Write y_i - y_j and its squared length for a row of neighbours."""
    f[: neighbors.size] = 0
    for c in range(Y.shape[1]):
        for t in range(neighbors.size):
            difference = Y[i, c] - Y[neighbors[t], c]
            offsets[c, t] = difference
            f[t] += difference * difference


@jit
def _first(pair):
    """Return the float32 in the lower half of 64 bits: the first component on a little-endian machine."""
    return np.int32(pair).view(np.float32)


@jit
def _second(pair):
    return np.int32(pair >> 32).view(np.float32)


_BLOCKS = 128  # of rows with equally many entries: enough for the slowest worker not to be waited for
_ROWS = 2048  # of a block where the pattern is made
_OF_ERROR = 0.01  # what S_i may be of the mean, per error of the field
_LEAST_S = 1e-20  # of a point so far from all others that its similarities vanish: its charges stay finite in float32


class Objective:
    """What a map minimises."""

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient, shape (n, d), which the next call may overwrite, and if asked for the true cost."""
        raise NotImplementedError

    def with_divergence(self, divergence: Any) -> Objective:
        """Return the same with another divergence."""
        raise NotImplementedError

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:  # noqa: ARG002
        """Let row r be what row ``order[r]`` was, if that makes anything quicker; return whether it was done."""
        return False

    def advance(self, Y: Floats, iteration: int) -> None:
        """Let what is learned beside the positions take a step, where the gradient at ``Y`` was taken last."""


@dataclass(frozen=True)
class MasterObjective(Objective):
    """Any divergence, kernel and normalisation, in quadratic time."""

    P: Any
    kernel: Any
    divergence: Any
    normalization: str

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient and the cost."""
        value, gradient = value_and_gradient(
            Y, self.P, self.kernel, self.divergence, self.normalization, exaggeration=exaggeration
        )
        return gradient.astype(Y.dtype, copy=False), value if cost else None

    def with_divergence(self, divergence: Any) -> MasterObjective:
        """Return the same with another divergence."""
        return replace(self, divergence=divergence)


def is_linear_time(kernel: Any, divergence: Any, normalization: str) -> bool:
    """Return whether :class:`NeighborObjective` knows this combination."""
    known = type(divergence) in (KL, ReverseKL, NeRV, JensenShannon)
    return known and getattr(kernel, "compiled", None) is not None and normalization != "none"


class NeighborObjective(Objective):
    """The built-in divergences and kernels, by row or by pair, with the far part left to a field.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        For ``"pair"`` its total is 1, and (P + Pᵀ) / 2 is what counts; for ``"row"`` rows have sum 1 or are empty. The
        diagonal does not count.
    kernel : Kernel
        With a compiled form.
    divergence : MapDivergence
        KL, ReverseKL, NeRV or JensenShannon.
    normalization : {"row", "pair"}
        How q is made from w.
    field : Field
        The sums over all pairs.
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    weights : ndarray of shape (n,), optional
        Importance s_i >= 0 of the points, for KL by pair: s_i s_j w_ij stands for w_ij.
    """

    _near_cost = staticmethod(near_cost)

    def __init__(
        self,
        P: Any,
        kernel: Any,
        divergence: Any,
        normalization: str,
        field: Field,
        *,
        dtype: Any,
        n_jobs: int,
        weights: Floats | None = None,
    ) -> None:
        self._weights = None if weights is None else np.asarray(weights, dtype)
        self._field, self._n_jobs, self._n = field, n_jobs, P.shape[0]
        self._by_row, self._dtype = normalization == "row", np.dtype(dtype)
        self._take(kernel)
        self._near, self._mass = np.empty((self._n, 0), dtype), np.empty(self._n, dtype)
        self._pattern(P)
        self._set_divergence(divergence)

    def _take(self, kernel: Any) -> None:
        self.kernel, self._compiled_kernel = kernel, typed(kernel.compiled, self._dtype)

    def with_divergence(self, divergence: Any) -> NeighborObjective:
        """Return the objective with another divergence, over the same arrays."""
        other = copy.copy(self)
        other._set_divergence(divergence)
        return other

    def _set_divergence(self, divergence: Any) -> None:
        self._divergence = divergence.limit()
        if self._weights is not None and (self._by_row or not isinstance(self._divergence, KL)):
            wanted = "None for another cost than KL by pair"
            raise InputError("NeighborObjective", "weights", wanted, f"some with {divergence!r}")
        self._compiled_divergence, self._eps = _compiled(
            self._divergence, self._n, by_row=self._by_row, dtype=self._dtype
        )
        own, back = self._graph[2:]
        none, by_row = own[:0], self._by_row
        self._rows: tuple[int, ...] = (0,) if by_row else ()
        self._mass_fixed: Any = 0.0
        if isinstance(self._divergence, KL):  # all it asks of the pattern is p_ij + p_ji, whatever S is
            self._strengths, self._rows = (own + back if by_row else own, none, none), ()
            self._mass_fixed = self._mass_of_p
        elif isinstance(self._divergence, JensenShannon):
            self._strengths = none, own, back
        else:
            lam, rest, per_p = self._compiled_divergence[1][:3]
            logs = rest * np.log1p(per_p * own)
            logs_back = rest * np.log1p(per_p * back) if by_row else logs
            fixed = none if not lam else lam * (own + back) if by_row else lam * own
            self._strengths, self._mass_fixed = (fixed, logs, logs_back), lam * self._mass_of_p

    def _pattern(self, P: Any) -> None:
        indptr, columns, own, back = union_pattern(P, self._dtype.type, self._n_jobs)
        self._mass_of_p = np.add.reduceat(np.append(own, 0), indptr[:-1], dtype=np.float64) * (np.diff(indptr) > 0)
        if not self._by_row:
            own += back
            own *= self._dtype.type(0.5)
            back = own
        self._set_graph(indptr, columns, own, back)

    def _set_graph(self, *graph: NDArray[Any]) -> None:
        indptr = graph[0]
        cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], _BLOCKS + 1)).clip(0, self._n)
        self._bounds = np.unique(np.concatenate([[0], cuts, [self._n]])).astype(np.int64)
        self._graph = graph

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was: of use where rows that are neighbours then lie side by side."""
        indptr, columns, own, back = self._graph
        place = np.empty(self._n, np.uint32)
        place[order] = np.arange(self._n, dtype=np.uint32)
        new_indptr = np.zeros(self._n + 1, np.int64)
        np.cumsum(np.diff(indptr)[order], out=new_indptr[1:])
        given = (indptr, columns, own, back if self._by_row else back[:0])
        made = (new_indptr, *(np.empty_like(values) for values in given[1:]))
        run_blocks(
            lambda _block, start, stop: reordered_rows(given, order, place, made, start, stop),
            even_bounds(self._n, _ROWS),
            self._n_jobs,
        )
        self._mass_of_p = self._mass_of_p[order]
        if self._weights is not None:
            self._weights = self._weights[order]
        self._set_graph(*made[:3], made[3] if self._by_row else made[2])
        self._set_divergence(self._divergence)
        return True

    # ---------------------------------------------------------------- gradient

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        self._field.place(Y, self.kernel, self._n_jobs)
        b = self._divergence.far_log
        names = ("weight", "entropy") if b else ("weight",)
        potentials = self._field.evaluate([Term(name, self._weights) for name in names])  # type: ignore[arg-type]
        if self._weights is not None:
            by = self._weights
            potentials = [Potential(by * each.value, by[:, None] * each.gradient) for each in potentials]
        S = self._normalizer(potentials[0])
        self._pull(Y, S, exaggeration)
        q_ln_q = self._q_ln_q(potentials, S) if b else np.zeros(1)
        if self._by_row:
            self._far_by_row(self._field, potentials, S, q_ln_q)
        else:
            self._far_by_pair(potentials, S, q_ln_q)
        return self._near, self._cost(Y, S, q_ln_q) if cost else None

    def _normalizer(self, weights: Potential) -> NDArray[np.float64]:
        """S of all pairs, shape (1,), or S_i of each row."""
        if self._by_row:
            return row_normalizer(self._field, weights)
        return np.asarray(np.maximum(weights.value.sum(dtype=np.float64, keepdims=True), _LEAST_S))

    def _pull(self, Y: Floats, S: NDArray[np.float64], exaggeration: float) -> None:
        """Write the near part of the gradient, and per row the mass sum_j s_ij."""
        factor = Y.dtype.type(2 * exaggeration * (1 if self._by_row else 2))
        inverse = (1 / S).astype(Y.dtype)
        parts = (self._strengths, self._compiled_kernel, self._compiled_divergence, self._rows, inverse, factor)
        pull: Any = pull_any
        positions: Any = Y
        if Y.dtype == np.float32 and Y.shape[1] == 2:
            pull, positions = pull_packed, Y.view(np.int64).ravel()
        given, out = (*self._graph[:2], *parts, positions), (self._near, self._mass)
        run_blocks(lambda _block, start, stop: pull(*given, *out, start, stop), self._bounds, self._n_jobs)
        self._mass += self._mass_fixed

    def _far_by_pair(self, potentials: list[Potential], S: NDArray[np.float64], q_ln_q: NDArray[np.float64]) -> None:
        b, scalar = self._divergence.far_log, self._near.dtype.type
        M = b * q_ln_q[0] - self._mass.sum(dtype=np.float64)
        self._near += scalar(-2 * (b * np.log(S[0]) + M) / S[0]) * potentials[0].gradient
        if b:
            self._near += scalar(2 * b / S[0]) * potentials[1].gradient

    def _far_by_row(
        self,
        field: Field,
        potentials: list[Potential],
        S: NDArray[np.float64],
        q_ln_q: NDArray[np.float64],
        share: Any = 1.0,
    ) -> None:
        """Add the far part of the gradient, each row counting as much as its share."""
        b, dtype = self._divergence.far_log, self._near.dtype
        c0 = (share * (self._mass - b * (np.log(S) + q_ln_q)) / S).astype(dtype)
        self._near += c0[:, None] * potentials[0].gradient
        terms = [Term("weight", c0)]
        if b:
            c1 = (b * share / S).astype(dtype)
            self._near += c1[:, None] * potentials[1].gradient
            terms.append(Term("entropy", c1))
        self._near += field.total(terms).gradient

    # ---------------------------------------------------------------- cost

    def _q_ln_q(self, potentials: list[Potential], S: NDArray[np.float64]) -> NDArray[np.float64]:
        """sum_l q ln q, of each row or of all: the two potentials together are sum w ln w."""
        w_ln_w = potentials[0].value.astype(np.float64) + potentials[1].value
        if not self._by_row:
            w_ln_w = w_ln_w.sum(keepdims=True)
        return np.clip(w_ln_w / S - np.log(S), -2 * np.log(self._n), 0)

    def _cost(self, Y: Floats, S: NDArray[np.float64], q_ln_q: NDArray[np.float64]) -> float:
        log_S = np.log(S).astype(Y.dtype)
        parts = np.zeros(len(self._bounds) - 1)

        def task(block: int, start: int, stop: int) -> None:
            parts[block] = self._near_cost(
                self._graph, self._compiled_kernel, self._compiled_divergence, log_S, Y, start, stop
            )

        run_blocks(task, self._bounds, self._n_jobs)
        b = self._divergence.far_log
        cost = parts.sum() + b * (q_ln_q.sum() - np.log(self._eps) * len(S))
        if isinstance(self._divergence, JensenShannon):
            cost -= np.log1p(-self._divergence.kappa) / self._divergence.kappa * len(S)
        if self._weights is not None:  # - sum p ln(s_i s_j), where p is symmetric
            indptr, own = self._graph[0], self._graph[2]
            mass = np.add.reduceat(np.append(own, 0), indptr[:-1], dtype=np.float64) * (np.diff(indptr) > 0)
            cost -= 2 * xlogy(mass, self._weights.astype(np.float64)).sum()
        return float(cost)


def row_normalizer(field: Field, weights: Potential, of_error: float = _OF_ERROR) -> NDArray[np.float64]:
    """Return S_i of each row, from the potential of w.

    1/S_i is a charge: that of a point far from all others would be huge, and its errors on a mesh would drown the
    rest. So S_i is held above what a field's error lets it be known by.
    """
    S = weights.value.astype(np.float64)
    error = float(getattr(field, "expected_error", 0.0))
    return np.asarray(np.maximum(S, max(_LEAST_S, of_error * error * S.mean())))


def union_pattern(P: Any, scalar: Any, n_jobs: int) -> tuple[NDArray[Any], ...]:
    """Return (indptr, columns, own, back): where P or Pᵀ has an entry off the diagonal, p_ij and p_ji there."""
    P = csr_array(P)
    if not P.has_canonical_format:
        P = P.copy()
        P.sum_duplicates()  # sorts too
    Pt = P.T.tocsr()
    n = P.shape[0]
    left, right = (
        (A.indptr.astype(np.int64), A.indices.astype(np.int32, copy=False), A.data.astype(scalar, copy=False))
        for A in (P, Pt)
    )
    indptr = np.zeros(n + 1, np.int64)
    bounds = even_bounds(n, _ROWS)
    run_blocks(lambda _b, start, stop: merged_counts(left, right, indptr, start, stop), bounds, n_jobs)
    np.cumsum(indptr, out=indptr)
    columns, own, back = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1], scalar), np.empty(indptr[-1], scalar)
    run_blocks(
        lambda _b, start, stop: merged_rows(left, right, indptr, columns, own, back, start, stop),
        bounds,
        n_jobs,
    )
    return indptr, columns, own, back


def _compiled(divergence: Any, n: int, *, by_row: bool, dtype: Any) -> tuple[Any, float]:
    """Return ((code, constants), eps) for the kernels; eps is the floor of one entry, 1 where there is none."""
    scalar = np.dtype(dtype).type
    tiny = 1e-30 if scalar is np.float32 else 1e-290
    code: tuple[int, ...]
    eps = 1.0
    if isinstance(divergence, KL):
        code, constants = (), (0.0, 0.0, 0.0, tiny)
    elif isinstance(divergence, JensenShannon):
        kappa = divergence.kappa
        code, constants = (0, 0, 0), (1 / kappa, kappa / (1 - kappa), 1 - kappa, tiny)
    else:
        b = divergence.far_log
        eps = divergence.floor / ((n - 1) if by_row else n * (n - 1))
        code, constants = (0,) if b == 1 else (0, 0), (1 - b, b, (1 - divergence.floor) / eps, tiny)
    return (code, tuple(scalar(c) for c in constants)), eps
