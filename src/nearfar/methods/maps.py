"""Neighbour embedding: the master equation of the source, over all pairs.

Points y_i of a map have squared distances f_ij and similarities w_ij = w(f_ij); q_ij = w_ij / S, S the sum over all
pairs ("pair") or over a row ("row"), or q = w ("none"). The cost of a divergence between p and q has the gradient ::

    dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j),     k_ij = (D_ij - sum_kl q_kl D_kl) w'(f_ij) / S,     D = dC/dq

where the sum over k, l is that over which S goes. Only D is exaggerated: under KL D = -p/q, so that p is. Source:
Melville, "Deriving embedding gradients" (documentation of sneer), the generic gradient; for an asymmetric kernel with a
symmetric q the mean of D_ij and D_ji stands for D_ij. Linear time takes it apart: :mod:`nearfar.methods.linear_maps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.parameters import Part
from nearfar._core.threads import run_blocks
from nearfar.contracts import Divergence, Floats, Kernel, Objective
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.kernels import squared_distances

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
