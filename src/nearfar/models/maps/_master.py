"""The master equation of neighbour embedding, for any divergence, kernel and normalisation; plain, exact, quadratic.

A map of points y_i has squared distances f_ij = ‖y_i - y_j‖², similarities w_ij = w(f_ij) and, from them, q_ij::

    "row"     q_ij = w_ij / S_i             S_i = sum_j w_ij
    "pair"    q_ij = (w_ij + w_ji) / 2 S    S = sum_ij w_ij; w_ij / S for a kernel with the same parameters everywhere
    "none"    q_ij = w_ij

Its cost is C = sum_ij c(p_ij, q_ij) over all i != j, and with D_ij = dC/dq_ij the gradient is::

    dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j)

    "row"     k_ij = (D_ij - sum_l q_il D_il) w'_ij / S_i
    "pair"    k_ij = ((D_ij + D_ji) / 2 - sum_kl q_kl D_kl) w'_ij / S
    "none"    k_ij = D_ij w'_ij

Everything is done for a block of rows at a time: O(n² d) time, O(block n) memory. The linear-time objective of
``_neighbor_objective`` is tested against this module, and what that one does not know (a divergence or kernel of one's
own, parameters per point, no normalisation) is optimised with this one.

Source: Melville, "Deriving embedding gradients" (sneer documentation), the generic gradient; for an asymmetric kernel
with a symmetric q the mean of D_ij and D_ji stands for D_ij.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from nearfar._checks import check_choice
from nearfar.contracts import Floats
from nearfar.divergences.probability import MapDivergence
from nearfar.errors import InputError
from nearfar.scores.kernels import squared_distances

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
