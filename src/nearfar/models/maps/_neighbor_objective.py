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

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL, JensenShannon, NeRV, ReverseKL
from nearfar.errors import InputError
from nearfar.far.fields import Field, Potential, Term
from nearfar.models.maps import _neighbor_kernels as kernels
from nearfar.models.maps._master import value_and_gradient
from nearfar.scores._kernels import typed

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

    _near_cost = staticmethod(kernels.near_cost)

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
        self.kernel, self._compiled_kernel = kernel, typed(kernel.compiled, self._dtype)  # type: ignore[no-untyped-call]

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
            lambda _block, start, stop: kernels.reordered_rows(given, order, place, made, start, stop),
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
        pull: Any = kernels.pull_any
        positions: Any = Y
        if Y.dtype == np.float32 and Y.shape[1] == 2:
            pull, positions = kernels.pull_packed, Y.view(np.int64).ravel()
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
    run_blocks(lambda _b, start, stop: kernels.merged_counts(left, right, indptr, start, stop), bounds, n_jobs)
    np.cumsum(indptr, out=indptr)
    columns, own, back = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1], scalar), np.empty(indptr[-1], scalar)
    run_blocks(
        lambda _b, start, stop: kernels.merged_rows(left, right, indptr, columns, own, back, start, stop),
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
