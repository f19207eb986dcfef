"""The cost of a map with sampled repulsion, and its gradient: noise pairs in place of a far field.

With p_ij = p_ji of sum 1, a = m Zbar / (n (n - 1)), W_i the sum of w over the m noise partners k of i, g = -w'/w and
Delta = y_i - y_j, the costs of :class:`nearfar.far.NoisePairs` have the gradients (noise and Zbar held fixed)::

    local    4 sum_j p_ij a/(w_ij + a) g Delta  -  (2/n) sum_k w_ik/(w_ik + a) g Delta
    global   2 sum_j p_ij (W_i/(w_ij + W_i) + W_j/(w_ij + W_j)) g Delta  -  2 sum_k c w_ik g Delta

where k runs over the pairs of noise in which i is the first or the second, and c = sum_j p_fj / (w_fj + W_f) of the
first, f. Exaggeration by alpha makes of the near part -alpha sum p ln w + ..., as in t-SNE.

As a grows "local" becomes t-SNE's gradient, with the sum over all pairs estimated. What tells "local" from t-SNE is m;
how exactly its mean over the noise is known is another matter, so in a small map more noise is drawn than m per point.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.kernels import ln, ln1p, log_weight, pull, weight
from nearfar.maps.objective import NeighborObjective, _buffers, _first, _second, _write_offsets

# ------------------------------------------------------------
# Kernels of maps with sampled repulsion.
#
# Pairs of noise need no random number each. The points stand in a random circle, and a sample is a step along it: with
# a
# step s every point r has the partner r + s, and is that of r - s. Steps are drawn evenly from 1 .. n - 1, so for each
# point every other one is as likely. All reads are in order, so the loops vectorise, and nothing is scattered.
# ``circle``
# holds, twice in a row, the positions by component: r + s needs no modulo.
#
# Near: as in ``_neighbor_kernels``, ``code`` is () for "local" and (0,) for "global". ``sums`` holds W_i of each point.


@jit
def lay_out(Y, order, circle, start, stop):
    """Write the positions of points order[start] .. along the circle, twice."""
    n = order.size
    for c in range(Y.shape[1]):
        for r in range(start, stop):
            value = Y[order[r], c]
            circle[c, r] = value
            circle[c, n + r] = value


# -------------------------------------------------------------------- noise


@jit(fastmath=FAST, error_model="numpy")
def noise_weights(circle, steps, kernel, out, start, stop):
    """Write W_r, the sum of w over the partners of each point."""
    family, constants = kernel
    f = np.empty(stop - start, circle.dtype)
    out[start:stop] = 0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            out[start + t] += weight(family, constants, f[t])


@jit(fastmath=FAST, error_model="numpy")
def noise_push(circle, steps, kernel, code, a, charges, factor, order, out, start, stop):
    """Add factor * sum of c w'/w (y_i - y_k) over the noise in which a point is the first or the second.

    c is w / (w + a) for "local"; for "global" w times the charge of the first, twice along the circle in ``charges``.
    """
    family, constants = kernel
    n, d = circle.shape[1] // 2, circle.shape[0]
    f, total = np.empty(stop - start, circle.dtype), np.zeros((d, stop - start), circle.dtype)
    for step in steps:
        for back in range(2):
            shift = n - step if back else step
            _squares(circle, shift, f, start)
            if len(code) == 0:
                for t in range(f.size):
                    w = weight(family, constants, f[t])
                    f[t] = w / (w + a) * pull(family, constants, f[t])
            else:
                first = start + shift if back else start
                for t in range(f.size):
                    f[t] = charges[first + t] * weight(family, constants, f[t]) * pull(family, constants, f[t])
            for c in range(d):
                own, other, row = circle[c, start:stop], circle[c, start + shift : stop + shift], total[c]
                for t in range(f.size):
                    row[t] += f[t] * (own[t] - other[t])
    for c in range(d):
        for t in range(f.size):
            out[order[start + t], c] -= factor * total[c, t]


@jit(fastmath=FAST, error_model="numpy")
def noise_cost(circle, steps, kernel, a, start, stop):
    """Return the sum of ln(1 + w / a) over the noise of some points, in float64."""
    family, constants = kernel
    f, cost = np.empty(stop - start, circle.dtype), 0.0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            f[t] = ln1p(weight(family, constants, f[t]) / a)
        for t in range(f.size):
            cost += np.float64(f[t])
    return cost


@jit(fastmath=FAST, error_model="numpy")
def _squares(circle, shift, f, start):
    """Write squared distances of the points from ``start`` on to those ``shift`` further."""
    f[:] = 0
    for c in range(circle.shape[0]):
        own, other = circle[c, start : start + f.size], circle[c, start + shift : start + shift + f.size]
        for t in range(f.size):
            difference = own[t] - other[t]
            f[t] += difference * difference


# -------------------------------------------------------------------- neighbours


@jit(fastmath=FAST, error_model="numpy")
def near_packed(graph, kernel, code, a, sums, exaggeration, factor, packed, out, charges, start, stop):
    """Write factor * sum_j k_ij (-w'/w)(y_i - y_j), see ``_strength``, for two components in float32.

    Also, for "global", the charge sum_j p_ij / (w_ij + W_i) of each point.
    """
    indptr, columns, p = graph
    family, constants = kernel
    for i in range(start, stop):
        x, y = _first(packed[i]), _second(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, own = columns[begin:end], p[begin:end]
        W = sums[i] if len(code) else a
        gx = gy = charge = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - _first(other), y - _second(other)
            f = dx * dx + dy * dy
            w = weight(family, constants, f)
            share = own[t] / (w + W)
            charge += share
            k = _strength(code, own[t], w, share, a, sums[j] if len(code) else a, exaggeration)
            k *= pull(family, constants, f)
            gx += k * dx
            gy += k * dy
        if len(code):
            charges[i] = charge
        out[i, 0], out[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy")
def near_any(graph, kernel, code, a, sums, exaggeration, factor, Y, out, charges, start, stop):
    """Do what ``near_packed`` does, for any number of components and type of numbers: component by component."""
    indptr, columns, p = graph
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k = columns[begin:end], f[: end - begin]
        _write_offsets(Y, i, neighbors, offsets, f)
        charge = _to_strengths(k, p[begin:end], neighbors, kernel, code, a, sums, i, exaggeration)
        if len(code):
            charges[i] = charge
        for c in range(out.shape[1]):
            g = out.dtype.type(0)
            for t in range(k.size):
                g += k[t] * offsets[c, t]
            out[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy")
def near_wide(graph, kernel, code, a, sums, exaggeration, factor, Y, out, charges, start, stop):
    """Do what ``near_any`` does, neighbour by neighbour: quicker where a position fills a line of the cache."""
    indptr, columns, p = graph
    offsets, f, _ = _buffers(indptr, start, stop, Y)
    rows, zero = offsets.reshape(offsets.shape[1], offsets.shape[0]), out.dtype.type(0)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k, y, g = columns[begin:end], f[: end - begin], Y[i], out[i]
        for t in range(k.size):
            other, row, square = Y[neighbors[t]], rows[t], zero
            for c in range(y.size):
                difference = y[c] - other[c]
                row[c] = difference
                square += difference * difference
            k[t] = square
        charge = _to_strengths(k, p[begin:end], neighbors, kernel, code, a, sums, i, exaggeration)
        if len(code):
            charges[i] = charge
        g[:] = zero
        for t in range(k.size):
            row, strength = rows[t], factor * k[t]
            for c in range(y.size):
                g[c] += strength * row[c]


@jit(fastmath=FAST, error_model="numpy")
def _to_strengths(k, p, neighbors, kernel, code, a, sums, i, exaggeration):
    """Make of squared distances k_ij (-w'/w); return the charge."""
    family, constants = kernel
    W, charge = sums[i] if len(code) else a, a - a
    for t in range(k.size):
        w = weight(family, constants, k[t])
        share = p[t] / (w + W)
        charge += share
        other = sums[neighbors[t]] if len(code) else a
        k[t] = _strength(code, p[t], w, share, a, other, exaggeration) * pull(family, constants, k[t])
    return charge


@jit(fastmath=FAST, error_model="numpy")
def _strength(code, p, w, share, a, other, exaggeration):
    """Return k_ij, for p_ij = p_ji: both a pair's parts, i first and j first, in units of two for "local"."""
    if len(code) == 0:
        return exaggeration * a * share
    return (exaggeration + exaggeration) * p - w * (share + p / (w + other))


@jit(fastmath=FAST, error_model="numpy")
def near_cost(graph, kernel, code, a, sums, Y, start, stop):
    """Sum p_ij ln((w_ij + W) / w_ij) over the neighbours of some points, W being a or W_i; in float64."""
    indptr, columns, p = graph
    family, constants = kernel
    offsets, f, costs = _buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        _write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        W = sums[i] if len(code) else a
        for t in range(m):
            log_w = log_weight(family, constants, f[t])
            costs[t] = p[begin + t] * (ln(weight(family, constants, f[t]) + W) - log_w)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost


_ROWS = 2048  # of a block of the circle: what is read and written of it stays in the nearest cache
_PAIRS = 2**19  # of noise at least, in each evaluation of "local"
_WIDE = 10  # components from which on neighbours are read one by one
_LEAST_A = 1e-20  # of a map torn so far apart that all of w vanishes

Steps = NDArray[np.int64]


class NoiseObjective(NeighborObjective):
    """KL by pair with the repulsion sampled, the steps anew in each evaluation.

    The near part's pattern and order are those of :class:`NeighborObjective`; no field is asked.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Its total is 1, and (P + Pᵀ) / 2 is what counts; the diagonal does not.
    kernel : Kernel
        With a compiled form.
    noise : NoisePairs
        Which cost.
    rng : Generator
        Of the circle and, by a seed that it gives, of the steps of each evaluation.
    dtype : dtype
        Of the positions.
    n_jobs : int
        Threads; no result depends on it.
    """

    def __init__(
        self,
        P: Any,
        kernel: Any,
        noise: NoisePairs,
        *,
        rng: np.random.Generator,
        dtype: Any,
        n_jobs: int,
    ) -> None:
        super().__init__(P, kernel, KL(), "pair", ExactField(), dtype=dtype, n_jobs=n_jobs)
        n: int = P.shape[0]
        self._noise, self._m = noise, min(noise.n_samples, n - 1)
        self._code: tuple[int, ...] = () if noise.objective == "local" else (0,)
        self._order = rng.permutation(n).astype(np.int64)
        self._seed, self._evaluations = int(rng.integers(2**63)), 0
        self._drawn = self._m if self._code else max(self._m, -(-_PAIRS // n))
        self._told = self._steps(2 * self._drawn, 2**63)  # the noise of what is reported: the same at all times
        self._sums, self._charges = np.empty((2, n), dtype)

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was; the points stay where they are in the circle."""
        place = np.empty(self._n, np.int64)
        place[order] = np.arange(self._n)
        self._order = place[self._order]
        return super().reorder(order)

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y for fresh noise, and if it is asked for the cost for that of all reports."""
        circle = self._circle(Y)
        steps = self._steps(self._drawn, self._evaluations)
        self._evaluations += 1
        gradient = self.gradient(Y, circle, steps, self.level(circle, steps), exaggeration)
        if not cost:
            return gradient, None
        return gradient, self.cost(Y, circle, self._told, self.level(circle, self._told))

    # ---------------------------------------------------------------- noise

    def _steps(self, count: int, key: int) -> Steps:
        """Return different steps along the circle, of a generator that the key starts; all there are, if not more."""
        if count >= self._n - 1:
            return np.arange(1, self._n)
        rng = np.random.default_rng([self._seed, key])
        return rng.choice(self._n - 1, count, replace=False) + 1

    def _circle(self, Y: Floats) -> Floats:
        circle = np.empty((Y.shape[1], 2 * self._n), Y.dtype)
        self._run(lambda _block, start, stop: lay_out(Y, self._order, circle, start, stop))
        return circle

    def level(self, circle: Floats, steps: Steps) -> float:
        """Return a: m Zbar over the number of ordered pairs; m times the mean of w if Zbar is S."""
        if self._code:
            return 0.0  # "global" has none
        n: int = self._n
        zbar, pairs = self._noise.normalizer, n * (n - 1)
        if not isinstance(zbar, str):
            return self._m * zbar / pairs
        if zbar == "umap":
            return 1.0
        sums = self._noise_weights(circle, steps)
        return max(self._m * float(sums.sum(dtype=np.float64)) / (n * len(steps)), _LEAST_A)

    def _noise_weights(self, circle: Floats, steps: Steps) -> Floats:
        sums = np.empty(self._n, circle.dtype)
        given = (circle, steps, self._compiled_kernel)
        self._run(lambda _block, start, stop: noise_weights(*given, sums, start, stop))
        return sums

    def _run(self, task: Any) -> None:
        run_blocks(task, even_bounds(self._n, _ROWS), self._n_jobs)

    # ---------------------------------------------------------------- gradient and cost for given noise

    def gradient(self, Y: Floats, circle: Floats, steps: Steps, a: float, exaggeration: float = 1.0) -> Floats:
        """Return the gradient for given steps along the circle, a being held fixed; overwritten by the next call."""
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        scalar, out = Y.dtype.type, self._near
        charges: Floats = np.empty(0, Y.dtype)
        if self._code:
            self._sums[self._order] = self._noise_weights(circle, steps)
        near: Any = near_wide if Y.shape[1] >= _WIDE else near_any
        positions: Any = Y
        if Y.dtype == np.float32 and Y.shape[1] == 2:
            near, positions = near_packed, Y.view(np.int64).ravel()
        kind = (self._compiled_kernel, self._code, scalar(a))
        weights = (self._sums, scalar(exaggeration), scalar(2 if self._code else 4))
        given = (self._graph[:3], *kind, *weights, positions, out, self._charges)
        run_blocks(lambda _block, start, stop: near(*given, start, stop), self._bounds, self._n_jobs)
        if self._code:
            charges = np.tile(self._charges[self._order], 2)
        factor = scalar(2 if self._code else 2 * self._m / (self._n * len(steps)))
        push = (circle, steps, *kind, charges, factor, self._order, out)
        self._run(lambda _block, start, stop: noise_push(*push, start, stop))
        return out

    def cost(self, Y: Floats, circle: Floats, steps: Steps, a: float) -> float:
        """Return the cost for given steps; "global" takes the first m of them."""
        if self._code:
            self._sums[self._order] = self._noise_weights(circle, steps[: self._m])
        parts = np.zeros(len(self._bounds) - 1)
        level = Y.dtype.type(a)

        def near(block: int, start: int, stop: int) -> None:
            parts[block] = near_cost(
                self._graph[:3], self._compiled_kernel, self._code, level, self._sums, Y, start, stop
            )

        run_blocks(near, self._bounds, self._n_jobs)
        total = float(parts.sum())
        if self._code:
            return total
        far = np.zeros(len(even_bounds(self._n, _ROWS)) - 1)

        def noise(block: int, start: int, stop: int) -> None:
            far[block] = noise_cost(circle, steps, self._compiled_kernel, level, start, stop)

        self._run(noise)
        n: int = self._n
        return total + self._m * math.fsum(far) / (n * len(steps))
