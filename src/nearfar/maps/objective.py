"""The cost of a map and its gradient: in linear time for what has formulas, pair by pair for all else.

A map of points y_i has squared distances f_ij = ‖y_i - y_j‖², similarities w_ij = w(f_ij) and, from them, q_ij::

    "row"     q_ij = w_ij / S_i             S_i = sum_j w_ij
    "pair"    q_ij = (w_ij + w_ji) / 2 S    S = sum_ij w_ij; w_ij / S for a kernel with the same parameters everywhere
    "none"    q_ij = w_ij

Its cost is C = sum_ij c(p_ij, q_ij) over all i != j, and with D_ij = dC/dq_ij the gradient is::

    dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j)

    "row"     k_ij = (D_ij - sum_l q_il D_il) w'_ij / S_i
    "pair"    k_ij = ((D_ij + D_ji) / 2 - sum_kl q_kl D_kl) w'_ij / S
    "none"    k_ij = D_ij w'_ij

With several scales h, by row, q_ij is the mean of the q_ij^h = w^h_ij / S^h_i, and k_ij that of
(D_ij - sum_l q_il^h D_il) w'^h_ij / S^h_i (Lee et al. 2015).

:func:`value_and_gradient` does just that, a block of rows at a time. :class:`NeighborObjective` splits D into a part
near, zero where p = 0, and a part far, ``b ln q + constant`` (a constant in all of D leaves the gradient as it is)::

    KL               b = 0        -q D_near = p
    Jensen-Shannon   b = 0        -q D_near = (q / kappa) ln(1 + kappa p / ((1 - kappa) q))
    reverse KL       b = 1        -q D_near = q ln(1 + (1 - floor) p / eps)        eps = floor / (n - 1), by row
    NeRV             b = 1 - lam  lam times that of KL + (1 - lam) times that of reverse KL

Near, gathered over the pattern of P and Pᵀ, with the strength s = -q D_near::

    grad_i = 2 sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j)

Far, from the potentials Phi of w and Phi^e of w ln w - w (see ``far.fields``), M = sum q D = b sum q ln q - sum s::

    "pair"  grad_i = (2/S) [b grad Phi^e - (b ln S + M) grad Phi]
    "row"   grad_i = b (c1_i grad Phi^e + grad Phi^e_c1) + c0_i grad Phi + grad Phi_c0
            with charges c1_i = 1/S_i, c0_i = -(b ln S_i + M_i)/S_i

Points of importance s (WSSNE) have s_i s_j w_ij for w_ij: that is s_i times the potential of the charges s. Near it is
KL's s_ij = p_ij, which knows nothing of them, and -w'/w, in which they cancel.

Source: Melville, "Deriving embedding gradients" (sneer documentation), the generic gradient; for an asymmetric kernel
with a symmetric q the mean of D_ij and D_ji stands for D_ij.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse
from scipy.special import xlogy

from nearfar._core.atomic import TemporaryArray
from nearfar._core.checks import check_choice
from nearfar._core.jit import bind, compiled, jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Field, Floats
from nearfar.divergences.probability import KL, is_kl, linear_formulas, no_strength
from nearfar.errors import InputError
from nearfar.far.fields import Potential, Term
from nearfar.kernels import compiled_kernel, exp
from nearfar.methods.maps import AllPairs
from nearfar.relations.matrix import Relation
from nearfar.relations.neighbors import FEW
from nearfar.relations.operators import Sparse

NORMALIZATIONS = ("pair", "row", "none")
_BLOCKS = 128  # of rows with equally many entries: enough for the slowest worker not to be waited for
_ROWS = 4096  # of a block where the pattern is made
_AT_ONCE = 2**18  # entries of P that are read together, by each thread
_TOGETHER = 4  # blocks whose pieces are in memory together
_STRIPS, _LEAST_STRIP = 8, 2**20  # parts in which the pattern is made: how many, and of how many entries at least
OF_ERROR = 0.01  # what S_i may be of the mean, per error of the field
LEAST_S = 1e-20  # of a point so far from all others that its similarities vanish: its charges stay finite in float32


def is_linear_time(kernel: Any, divergence: Any, normalization: str) -> bool:
    """Return whether :class:`NeighborObjective` knows this combination."""
    known = normalization != "none" and linear_formulas(divergence, 0.5) is not None
    return known and compiled_kernel(kernel) is not None


class NeighborObjective:
    """Divergences and kernels with formulas, by row or by pair, the far part left to a field.

    Parameters
    ----------
    P : csr_array or RowBlocks of shape (n, n)
        For ``"pair"`` its total is 1, and (P + Pᵀ) / 2 is what counts; for ``"row"`` rows have sum 1 or are empty. The
        diagonal does not count. It is kept: the pattern is made from it anew for each order of the rows.
    kernel : Kernel
    divergence : Divergence
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

    _per_point = False
    """Whether pairs (i, j) and (j, i) have kernels of their own, so that s_ij and s_ji are kept apart."""

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
        self._P = P if isinstance(P, RowBlocks) else RowBlocks(P)
        self._row_order: NDArray[np.integer[Any]] | None = None
        self._set_kernel(kernel)
        self._near, self._mass = np.empty((self._n, 0), dtype), np.empty(self._n, dtype)
        self._divergence, self._ready = divergence, False
        if weights is not None and (self._by_row or not is_kl(divergence)):
            wanted = "None for another cost than KL by pair"
            raise InputError("NeighborObjective", "weights", wanted, f"some with {divergence!r}")

    def _set_kernel(self, kernel: Any) -> None:
        found = compiled_kernel(kernel)
        assert found is not None
        self.kernel, self._functions = kernel, found.functions
        self._parameters = tuple(map(self._dtype.type, found.parameters))
        self._near_cost = near_cost

    def _prepare(self, pattern: tuple[NDArray[Any], ...] = ()) -> None:
        """Make what the descent reads, if that has not happened yet: late, since the first order is known late.

        That is (indptr, columns, p_ij, p_ji) of the pattern of P and Pᵀ, unless given, and blocks of equal work.
        """
        if not self._ready:
            self._pattern = pattern or union_pattern(
                self._P, self._dtype, symmetric=not self._by_row, order=self._row_order, n_jobs=self._n_jobs
            )
            indptr = self._pattern[0]
            n = len(indptr) - 1
            cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], _BLOCKS + 1)).clip(0, n)
            self._bounds = np.unique(np.concatenate([[0], cuts, [n]])).astype(np.int64)
            self._set_divergence(self._divergence)
            self._ready = True

    def _set_divergence(self, divergence: Any) -> None:
        n, scalar = self._n, self._dtype.type
        found = linear_formulas(divergence, 1 / (n - 1) if self._by_row else 1 / (n * (n - 1)))
        assert found is not None
        self._divergence, self._formulas = divergence, found
        self._strength = compiled(found.strength or no_strength)
        self._cost_parameters = tuple(scalar(value) for value in found.parameters)
        self._smallest = scalar(1e-30 if scalar is np.float32 else 1e-290)  # p and q are not taken to be less
        indptr, _, *both = self._pattern
        self._mass_fixed: Any = 0.0
        fixed, prepared = [both[0][:0]] * 2, [both[0][:0]] * 2
        if found.fixed is not None:
            fixed = [found.fixed(p) for p in both]
            self._mass_fixed = row_sums(indptr, fixed[0])
        if found.strength is not None:
            prepared = both if found.prepared is None else [np.asarray(found.prepared(p), scalar) for p in both]
        self._kind = found.fixed is not None, found.strength is not None
        # The parts of s_ij and s_ji that do not depend on q, and what those that do are made of.
        if not self._per_point:
            fixed = [fixed[0] + fixed[1] if self._by_row else fixed[0]]
        self._strengths: tuple[Any, ...] = (*fixed, *prepared)

    def early(self, kernel: Any = None) -> NeighborObjective:
        """Return the objective with KL, over the same arrays; with a kernel given, under that, by pair."""
        self._prepare()
        other = copy.copy(self)
        if kernel is not None:
            indptr, columns, p_ij, p_ji = self._pattern
            other._set_kernel(kernel)
            if self._by_row:
                p = p_ij + p_ji
                p /= p.sum(dtype=np.float64)
                other._by_row, other._pattern = False, (indptr, columns, p, p)
        other._set_divergence(KL())
        return other

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was: of use where rows that are neighbours then lie side by side."""
        self._row_order = order if self._row_order is None else self._row_order[order]
        if self._weights is not None:
            self._weights = self._weights[order]
        # The old arrays go before the new ones are made: both together would be what a fit takes most memory for.
        self._pattern, self._strengths, self._mass_fixed, self._ready = (), (), 0.0, False
        return True

    def advance(self, Y: Floats, iteration: int) -> None:
        """Nothing is learned beside the positions."""

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        self._prepare()
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        b, weights = self._formulas.far_log, self._weights
        self._field.place(Y, self.kernel, self._n_jobs)
        names: Any = ("weight", "entropy") if b else ("weight",)
        potentials = self._field.evaluate([Term(name, weights) for name in names])
        if weights is not None:
            potentials = weighted(potentials, weights)
        if self._by_row:
            S = self._S = row_normalizer(self._field, potentials[0])
        else:
            S = np.maximum(potentials[0].value.sum(dtype=np.float64, keepdims=True), LEAST_S)
        self._attract(Y, S, exaggeration)
        q_ln_q = self._q_ln_q(potentials, S) if b else np.zeros(1)
        if self._by_row:
            self._near += self._field.total(self._repel_by_row(potentials, S, q_ln_q)).gradient
        else:
            self._repel_by_pair(potentials, S, q_ln_q, self._mass.sum(dtype=np.float64))
        return self._near, self._cost(Y, S, q_ln_q) if cost else None

    def _attract(self, Y: Floats, S: NDArray[np.float64], exaggeration: float) -> None:
        """Write the near part of the gradient, and per row the mass sum_j s_ij."""
        packed = Y.dtype == np.float32 and Y.shape[1] == 2
        kind = *self._kind, self._by_row and self._kind[1]  # by row, strengths that do not depend on q are one sum
        near = bind(attraction_packed if packed else attraction, (self._functions, self._strength, kind))
        factor = Y.dtype.type(2 * exaggeration * (1 if self._by_row else 2))
        numbers = self._parameters, self._cost_parameters, (1 / S).astype(Y.dtype), factor, self._smallest
        shared = (*self._pattern[:2], *self._strengths), numbers, Y.view(np.int64).ravel() if packed else Y
        out = self._near, self._mass
        run_blocks(lambda _block, start, stop: near(*shared, out, start, stop), self._bounds, self._n_jobs)
        self._mass += self._mass_fixed

    def _repel_by_pair(
        self, potentials: list[Potential], S: NDArray[np.float64], q_ln_q: NDArray[np.float64], mass: np.float64
    ) -> None:
        """Add the far part of the gradient, from the sums over all pairs."""
        b, scalar = self._formulas.far_log, self._dtype.type
        M = b * q_ln_q[0] - mass
        self._near += scalar(-2 * (b * np.log(S[0]) + M) / S[0]) * potentials[0].gradient
        if b:
            self._near += scalar(2 * b / S[0]) * potentials[1].gradient

    def _repel_by_row(
        self, potentials: list[Potential], S: NDArray[np.float64], q_ln_q: NDArray[np.float64], share: Any = 1.0
    ) -> list[Term]:
        """Add the far part of the gradient but for the sum of some terms, each row counting as much as its share."""
        b, dtype = self._formulas.far_log, self._near.dtype
        c0 = (share * (self._mass - b * (np.log(S) + q_ln_q)) / S).astype(dtype)
        self._near += c0[:, None] * potentials[0].gradient
        terms = [Term("weight", c0)]
        if b:
            c1 = (b * share / S).astype(dtype)
            self._near += c1[:, None] * potentials[1].gradient
            terms.append(Term("entropy", c1))
        return terms

    # Cost.

    def _q_ln_q(self, potentials: list[Potential], S: NDArray[np.float64]) -> NDArray[np.float64]:
        """sum_l q ln q, of each row or of all: the two potentials together are sum w ln w."""
        w_ln_w = potentials[0].value.astype(np.float64) + potentials[1].value
        if not self._by_row:
            w_ln_w = w_ln_w.sum(keepdims=True)
        return np.clip(w_ln_w / S - np.log(S), -2 * np.log(self._n), 0)

    def _cost(self, Y: Floats, S: NDArray[np.float64], q_ln_q: NDArray[np.float64], n_sums: int | None = None) -> float:
        """Return the cost of the rows, and that of so many sums of all q: one by pair, one for each row."""
        formulas = self._formulas
        numbers = np.log(S).astype(Y.dtype), self._cost_parameters, self._smallest
        total = bind(self._near_cost, (self._functions, compiled(formulas.entry_cost)))
        shared = self._pattern[:3], self._parameters, numbers, Y
        parts = run_blocks(lambda _block, start, stop: total(*shared, start, stop), self._bounds, self._n_jobs)
        n_sums = len(S) if n_sums is None else n_sums
        cost = np.sum(parts) + formulas.far_log * q_ln_q.sum() + formulas.constant * n_sums
        if self._weights is not None:  # - sum p ln(s_i s_j), where p is symmetric
            mass = row_sums(self._pattern[0], self._pattern[2])
            cost -= 2 * xlogy(mass, self._weights.astype(np.float64)).sum()
        return float(cost)


def weighted(potentials: list[Potential], weights: Floats) -> list[Potential]:
    """Return the potentials of points of importance: that of a point is multiplied by its own."""
    return [Potential(weights * each.value, weights[:, None] * each.gradient) for each in potentials]


def row_normalizer(
    field: Field, weights: Potential, of_error: float = OF_ERROR, mean: float | None = None
) -> NDArray[np.float64]:
    """Return S_i of each row, from the potential of w; the mean is that of these rows, unless given.

    1/S_i is a charge: that of a point far from all others would be huge, and its errors on a mesh would drown the
    rest. So S_i is held above what a field's error lets it be known by.
    """
    S = weights.value.astype(np.float64)
    error = float(getattr(field, "expected_error", 0.0))
    return np.asarray(np.maximum(S, max(LEAST_S, of_error * error * (S.mean() if mean is None else mean))))


def probabilities(owner: str, relation: Relation, normalization: str, *, on_workers: bool = False) -> RowBlocks:
    """Return P of a map, without self-loops: rows of sum 1 for "row", total 1 for "pair", as it is for "none".

    ``on_workers`` says that rows which are on the workers of a cluster may stay there.

    Raises
    ------
    InputError
        The relation is not square, or has no entry but self-loops.
    """
    if not relation.is_square:
        hint = "A map shows objects of one kind."
        raise InputError(owner, "X", "a square relation, with the same ids on both sides", repr(relation), hint)
    operator = relation.operator
    stays = isinstance(operator, Sparse) or (on_workers and hasattr(operator, "row_parts"))
    P = RowBlocks(operator if stays else relation.to_scipy())
    total = P.sums.sum()
    if not total > 0:
        raise InputError(owner, "X", "a relation between different objects", "self-loops alone")
    if normalization == "row":
        P.factors = np.divide(1, P.sums, out=np.zeros_like(P.sums), where=P.sums > 0)
    elif normalization == "pair":
        P.factors = np.full(len(P.sums), 1 / total)
    return P


def memory_of_pattern(nnz: int, dtype: Any, by_row: bool) -> tuple[int, int]:
    """Return the bytes that :func:`union_pattern` takes for P with so many entries: the peak of most fits.

    Those of the pattern, which has about 1.45 times as many entries as P; and of a part of it and some rows of P.
    """
    of_number = np.dtype(dtype).itemsize
    part = min(2 * nnz, max(2 * nnz // _STRIPS, _LEAST_STRIP)) * (4 + of_number)
    numbers = of_number * (1 + by_row)  # by row p_ij and p_ji
    return nnz * 29 * (4 + numbers) // 20, part + min(nnz, _TOGETHER * _AT_ONCE) * (12 + numbers)


class RowBlocks:
    """A square sparse matrix of numbers >= 0, read a block of rows at a time.

    Parameters
    ----------
    source : csr_array, or operator with ``shape``, ``nnz`` and ``rows(start, stop)``, of shape (n, n)

    Attributes
    ----------
    source : operator
        What is read.
    sums : ndarray of shape (n,), float64
        Of the rows, without the diagonal.
    out, back : ndarray of shape (n,), int64
        Stored entries of each row and of each column.
    factors : ndarray of shape (n,), float64, or float, or None
        What rows are multiplied by when they are read: each by its own, or all by the same.
    storage : Path or None
        Folder for the pattern that is made of it, see :func:`union_pattern`.
    """

    storage: Path | None = None

    def __init__(self, source: Any) -> None:
        if issparse(source):
            P: Any = csr_array(source)  # type: ignore[call-overload]
            if not P.has_canonical_format:  # rows must be sorted; the caller's stay as they are
                P = P.copy()
                P.sum_duplicates()
            source = Sparse(P.indptr, P.indices, P.data, P.shape[1], symmetric=False)
        self.shape, self.source = source.shape, source
        self.factors: NDArray[np.float64] | float | None = None
        n = self.shape[0]
        # Blocks follow from the data alone.
        self.bounds = even_bounds(n, max(64, (_AT_ONCE * n) // max(source.nnz, 1)))
        self.sums, self.out, self.back = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for start, stop in pairwise(self.bounds.tolist()):
            block = self.read(start, stop)
            self.out[start:stop] = np.diff(block.indptr)
            np.add.at(self.back, block.indices, 1)
            self.sums[start:stop] = row_sums(block.indptr, block.data) - block.diagonal(start)

    def read(self, start: int, stop: int) -> Any:
        """Return rows start..stop as a csr_array; the order within a row is any, its numbers may be changed."""
        block = getattr(self.source, "unsorted_rows", self.source.rows)(start, stop)
        if isinstance(self.factors, np.ndarray):
            factors = self.factors[start:stop].astype(block.dtype)
            block.data *= np.repeat(factors, np.diff(block.indptr))
        elif self.factors is not None:
            block.data *= block.dtype.type(self.factors)
        return block

    def typical(self) -> float:
        """Return the mean of the entries, each weighted by itself."""
        total = squares = 0.0
        for start, stop in pairwise(self.bounds.tolist()):
            data = self.read(start, stop).data
            total += float(data.sum(dtype=np.float64))
            squares += float((data**2).sum(dtype=np.float64))
        return squares / total

    def to_csr(self) -> Any:
        """Return all rows, without the diagonal."""
        P = self.read(0, self.shape[0])
        P.sum_duplicates()
        if not P.data.all():
            P.eliminate_zeros()
        if P.diagonal().any():
            P = csr_array(P - diags_array(P.diagonal()))
            P.eliminate_zeros()
        return P


def union_pattern(
    P: Any,
    dtype: Any,
    *,
    symmetric: bool = False,
    order: NDArray[np.integer[Any]] | None = None,
    n_jobs: int = 1,
) -> tuple[NDArray[Any], ...]:
    """Return (indptr, columns, p_ij, p_ji) of where P or Pᵀ has an entry off the diagonal, row r being ``order[r]``.

    If symmetric, p_ij and p_ji are the same array, their mean. P is a csr_array or RowBlocks, and is read several
    times, so that beside the answer there is room for a part of it alone: the entries of some rows of P and of Pᵀ. The
    entries of a row come in the order of the columns of P, whatever ``order`` is. If ``P.storage`` names a folder the
    answer, but for indptr, is mapped from nameless files there, which go with it.
    """
    P = P if isinstance(P, RowBlocks) else RowBlocks(P)
    n, dtype = P.shape[0], np.dtype(dtype)
    order = np.arange(n) if order is None else order
    if n <= FEW:
        return _few_pattern(P.to_csr().toarray().astype(dtype), order, symmetric)
    place = np.empty(n, np.uint32)
    place[order] = np.arange(n, dtype=np.uint32)
    out, back = P.out[order], P.back[order]
    ends = np.cumsum(out + back)
    most = int(ends[-1]) if n else 0
    strips = np.unique(np.searchsorted(ends, np.arange(1, _STRIPS) * max(most // _STRIPS, _LEAST_STRIP)))
    strips = np.unique([0, *(strips[strips < n] + 1), n]) if n else np.zeros(1, np.int64)
    room: Any = np.empty if P.storage is None else partial(TemporaryArray, P.storage)
    values = [room(most, dtype) for _ in range(1 if symmetric else 2)]
    columns, lengths, at = room(most, np.uint32), np.zeros(n, np.int64), 0
    for low, high in pairwise(strips.tolist()):
        begins = np.append(0, np.cumsum(out[low:high] + back[low:high]))
        begins_back = begins[:-1] + out[low:high]
        limits = begins[:-1], begins[:-1].copy(), begins_back, begins_back.copy()
        part = np.empty(begins[-1], np.uint32), np.empty(begins[-1], dtype)
        for first in range(0, len(P.bounds) - 1, _TOGETHER):
            some = P.bounds[first : first + _TOGETHER + 1]
            blocks = run_blocks(lambda _block, start, stop: P.read(start, stop), some, n_jobs)
            for start in some[:-1].tolist():  # in the order of P, whatever the number of threads
                block = blocks.pop(0)
                indptr, indices = np.asarray(block.indptr, np.int64), np.asarray(block.indices, np.int32)
                rows = indptr, indices, np.asarray(block.data, dtype)
                scatter_rows(rows, start, place, (low, high), limits[1::2], part)
        merge = partial(_merged, limits, part, place, lengths[low:high], 1 if symmetric else 2)
        bounds = even_bounds(high - low, _ROWS)
        for first in range(0, len(bounds) - 1, _TOGETHER):
            for piece in run_blocks(merge, bounds[first : first + _TOGETHER + 1], n_jobs):
                if symmetric:
                    np.multiply(piece[1], dtype.type(0.5), out=piece[1])
                for whole, made in zip((columns, *values), piece, strict=True):
                    whole[at : at + len(made)] = made
                at += len(piece[0])
    for whole in (columns, *values):
        whole.resize(at, refcheck=False)
    columns, *values = map(np.asarray, (columns, *values))
    return np.append(0, np.cumsum(lengths)), columns, values[0], values[-1]


def _few_pattern(P: NDArray[Any], order: NDArray[np.integer[Any]], symmetric: bool) -> tuple[NDArray[Any], ...]:
    """Return the pattern of a small dense matrix, with the same bits, in NumPy."""
    place = np.empty(len(P), np.uint32)
    place[order] = np.arange(len(P), dtype=np.uint32)
    rows, columns = np.nonzero(((P != 0) | (P.T != 0))[order])
    p_ij, p_ji = P[order[rows], columns], P[columns, order[rows]]
    if symmetric:
        p_ij = p_ji = (p_ij + p_ji) * P.dtype.type(0.5)
    return np.append(0, np.cumsum(np.bincount(rows, minlength=len(P)))), place[columns], p_ij, p_ji


def _merged(
    limits: Any, part: Any, place: Any, lengths: Any, n_values: int, _block: int, start: int, stop: int
) -> list[NDArray[Any]]:
    """Return [columns, values, ...] of some rows of the pattern."""
    size = int(limits[-1][stop - 1] - limits[0][start])
    made = np.empty(size, np.uint32), *(np.empty(size * (k < n_values), part[1].dtype) for k in range(2))
    merge_rows(limits, part, place, lengths, made, start, stop)
    return [some[: lengths[start:stop].sum()] for some in made[: 1 + n_values]]


def row_sums(indptr: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums of the rows of a sparse matrix, in float64."""
    sums, filled = np.zeros(len(indptr) - 1), np.flatnonzero(np.diff(indptr))
    for start in range(0, len(filled), _ROWS):  # in pieces, of which NumPy makes a copy in float64
        rows = filled[start : start + _ROWS]
        begin = indptr[rows[0]]
        sums[rows] = np.add.reduceat(values[begin : indptr[rows[-1] + 1]], indptr[rows] - begin, dtype=np.float64)
    return sums


# Compiled: the forces between points that the data relate. Rows of the pattern of P and Pᵀ together are gathered,
# nothing is scattered: threads never write to the same place. What is bound by memory is the reading of the neighbours'
# positions. With two components in float32 a position is therefore one number of 64 bits, so that a row's neighbours
# are fetched by vector gathers, and all is done in one loop without intermediate arrays, which takes half the time.
#
# ``functions`` are those of the kernel, the strength of the divergence, and of what kind it is: whether it has a part
# that is fixed, one that depends on q, and that in both directions: constants, since all is inlined where it is bound.
# ``near`` is the pattern (columns are uint32: a sign would cost a check per access), and the arrays of strengths of
# ``_set_divergence``. ``numbers`` are the parameters of kernel and divergence, 1/S (of each row, or one), a factor, and
# what q is at least. ``out`` are the gradient, factor * sum_j (s_ij + s_ji)(-w'/w)(y_i - y_j), by pair half of it, and
# the mass sum_j s_ij of what depends on q.


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction_packed(functions, near, numbers, packed, out, start, stop):
    """Write the forces of some rows, for two components in float32: the hot loop of all maps."""
    kernel, strength, kind = functions
    indptr, columns, fixed, u_ij, u_ji = near
    parameters, of_divergence, inverse_S, factor, smallest = numbers
    limits = smallest, of_divergence
    gradient, mass = out
    scalar = np.float32
    for i in range(start, stop):
        x, y = first_of(packed[i]), second_of(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, scale = columns[begin:end], inverse_S[i if inverse_S.size > 1 else 0]
        mine = fixed[begin:end], u_ij[begin:end], u_ji[begin:end]
        gx = gy = total = scalar(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - first_of(other), y - second_of(other)
            f = dx * dx + dy * dy
            w = scalar(kernel.weight(f, *parameters))
            back = inverse_S[j] if kind[2] else scale
            q = w * scale, w * back
            s, both = strengths(strength, kind, mine, t, q, limits)
            total += scalar(s)
            k = scalar(both) * scalar(kernel.neg_log_slope(f, *parameters))
            gx += k * dx
            gy += k * dy
        mass[i] = total
        gradient[i, 0], gradient[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy", inline="always")
def attraction(functions, near, numbers, Y, out, start, stop):
    """Do what ``attraction_packed`` does, for any number of components and type of numbers."""
    kernel, strength, kind = functions
    indptr, columns, fixed, u_ij, u_ji = near
    parameters, of_divergence, inverse_S, factor, smallest = numbers
    limits = smallest, of_divergence
    gradient, mass = out
    scalar = Y.dtype.type
    offsets, f, k = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, scale, total = columns[begin:end], inverse_S[i if inverse_S.size > 1 else 0], scalar(0)
        mine = fixed[begin:end], u_ij[begin:end], u_ji[begin:end]
        write_offsets(Y, i, neighbors, offsets, f)
        for t in range(neighbors.size):
            w = scalar(kernel.weight(f[t], *parameters))
            back = inverse_S[neighbors[t]] if kind[2] else scale
            q = w * scale, w * back
            s, both = strengths(strength, kind, mine, t, q, limits)
            total += scalar(s)
            k[t] = scalar(both) * scalar(kernel.neg_log_slope(f[t], *parameters))
        mass[i] = total
        for c in range(gradient.shape[1]):
            g = scalar(0)
            for t in range(neighbors.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def strengths(strength, kind, mine, t, q, limits):
    """Return the part of s_ij that depends on q, and s_ij + s_ji; by pair s_ij."""
    fixed, u_ij, u_ji = mine
    smallest, parameters = limits
    s = smallest - smallest
    if kind[1]:
        s = strength(u_ij[t], max(q[0], smallest), *parameters)
    both = s
    if kind[2]:
        both += strength(u_ji[t], max(q[1], smallest), *parameters)
    if kind[0]:
        both += fixed[t]
    return s, both


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_cost(functions, pattern, parameters, numbers, Y, start, stop):
    """Sum over the pattern of what its entries add to the cost of the rest, in float64."""
    kernel, entry_cost = functions
    indptr, columns, p_ij = pattern
    log_S, of_divergence, smallest = numbers
    scalar = Y.dtype.type
    cost = 0.0
    for i in range(start, stop):
        shift = log_S[i if log_S.size > 1 else 0]
        for e in range(indptr[i], indptr[i + 1]):
            if p_ij[e] > 0:
                j, f = columns[e], scalar(0)
                for c in range(Y.shape[1]):
                    difference = Y[i, c] - Y[j, c]
                    f += difference * difference
                log_q = scalar(kernel.log_weight(f, *parameters)) - shift
                q = max(exp(log_q), smallest)
                cost += np.float64(entry_cost(max(p_ij[e], smallest), q, log_q, *of_divergence))
    return cost


@jit
def scatter_rows(rows, start, place, strip, ends_of, out):
    """Add the entries of some rows of P, from ``start`` on, to a strip of rows of the pattern.

    They come behind the last of P, or of Pᵀ, there. Columns are those of P, not yet their places.
    """
    (indptr, indices, data), (low, high), (ends, ends_back), (columns, values) = rows, strip, ends_of, out
    for i in range(indptr.size - 1):
        r = place[start + i]
        mine = low <= r < high
        for e in range(indptr[i], indptr[i + 1]):
            c = place[indices[e]]
            if c == r or data[e] == 0:
                continue
            if mine:
                at = ends[r - low]
                ends[r - low] = at + 1
                columns[at], values[at] = indices[e], data[e]
            if low <= c < high:
                at = ends_back[c - low]
                ends_back[c - low] = at + 1
                columns[at], values[at] = start + i, data[e]


@jit
def merge_rows(bounds, given, place, lengths, made, start, stop):
    """Write rows in the order of the columns; those of Pᵀ have that already. An empty p_ji: the sum is wanted."""
    begins, ends, begins_back, ends_back = bounds
    columns, values = given
    made_columns, p_ij, p_ji = made
    at = begins[start] - begins[start]
    for r in range(start, stop):
        for e in range(begins[r] + 1, ends[r]):  # by insertion: rows are short, or in order from the start
            c, value, to = columns[e], values[e], e
            while to > begins[r] and columns[to - 1] > c:
                columns[to], values[to] = columns[to - 1], values[to - 1]
                to -= 1
            columns[to], values[to] = c, value
        first, e, back = at, begins[r], begins_back[r]
        while e < ends[r] or back < ends_back[r]:
            here = e < ends[r] and (back >= ends_back[r] or columns[e] <= columns[back])
            there = back < ends_back[r] and (e >= ends[r] or columns[back] <= columns[e])
            made_columns[at] = place[columns[e if here else back]]
            zero = values[begins[r]] - values[begins[r]]
            p, q = values[e] if here else zero, values[back] if there else zero
            if p_ji.size:
                p_ij[at], p_ji[at] = p, q
            else:
                p_ij[at] = p + q
            at += 1
            e, back = e + here, back + there
        lengths[r] = at - first


@jit(fastmath=FAST, error_model="numpy")
def buffers(indptr, start, stop, like):
    """Return room for the offsets of the longest row, and for two numbers per neighbour."""
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    more = np.empty((2, longest), like.dtype)
    return np.empty((like.shape[1], longest), like.dtype), more[0], more[1]


@jit(fastmath=FAST, error_model="numpy")
def write_offsets(Y, i, neighbors, offsets, f):
    """Write y_i - y_j and its squared length for a row of neighbours."""
    f[: neighbors.size] = 0
    for c in range(Y.shape[1]):
        for t in range(neighbors.size):
            difference = Y[i, c] - Y[neighbors[t], c]
            offsets[c, t] = difference
            f[t] += difference * difference


@jit
def first_of(pair):
    """Return the float32 in the lower half of 64 bits: the first component on a little-endian machine."""
    return np.int32(pair).view(np.float32)


@jit
def second_of(pair):
    """Return the float32 in the upper half."""
    return np.int32(pair >> 32).view(np.float32)


@dataclass(frozen=True)
class QuadraticObjective:
    """Any divergence, kernel and normalisation, pair by pair in NumPy; see :class:`nearfar.methods.maps.AllPairs`."""

    P: Any
    kernel: Any
    divergence: Any
    normalization: str
    weights: Any = None

    @cached_property
    def _pairs(self) -> AllPairs:
        return all_pairs(self.P, self.kernel, self.divergence, self.normalization, weights=self.weights)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient and the cost."""
        value, gradient = self._pairs.value_and_gradient(Y, exaggeration, cost=cost)
        return gradient.astype(Y.dtype, copy=False), value if cost else None

    def early(self, kernel: Any = None) -> QuadraticObjective:
        """Return the same with KL; with a kernel given, under that, by pair."""
        if kernel is None:
            return replace(self, divergence=KL())
        P = csr_array(self.P + self.P.T)
        return QuadraticObjective(csr_array(P / P.sum()), kernel, KL(), "pair")

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:  # noqa: ARG002
        """Do nothing: no order is quicker than another."""
        return False

    def advance(self, Y: Floats, iteration: int) -> None:
        """Nothing is learned beside the positions."""


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
    """Return the cost of a map and its gradient, from one pass over all pairs.

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
    pairs = all_pairs(P, kernel, divergence, normalization, weights=weights, block=block)
    return pairs.value_and_gradient(Y, exaggeration)


def all_pairs(P: Any, kernel: Any, divergence: Any, normalization: str, **options: Any) -> AllPairs:
    """Return the master equation of these parts, if they go together.

    Raises
    ------
    InputError
        An unknown normalisation; several scales of a kernel by another than ``"row"``.
    """
    check_choice("value_and_gradient", "normalization", normalization, NORMALIZATIONS)
    if len(getattr(kernel, "scales", (kernel,))) > 1 and normalization != "row":
        raise InputError("value_and_gradient", "normalization", "'row' for several scales", repr(normalization))
    return AllPairs(P, kernel, divergence, normalization, **options)
