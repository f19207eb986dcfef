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

from nearfar._core.jit import bind, jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.kernels import ln, ln1p
from nearfar.maps.objective import NeighborObjective, buffers, first_of, second_of, write_offsets

_ROWS = 2048  # of a block of the circle: what is read and written of it stays in the nearest cache
_PAIRS = 2**19  # of noise at least, in each evaluation of "local"
_WIDE = 10  # components from which on neighbours are read one by one
LEAST_A = 1e-20  # of a map torn so far apart that all of w vanishes

Steps = NDArray[np.int64]


class NoiseObjective(NeighborObjective):
    """KL by pair with the repulsion sampled, the steps anew in each evaluation.

    The near part's pattern and order are those of :class:`NeighborObjective`; no field is asked.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Its total is 1, and (P + Pᵀ) / 2 is what counts; the diagonal does not.
    kernel : Kernel
        With formulas.
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
        self._ranking = noise.objective == "global"
        self._order = rng.permutation(n).astype(np.int64)
        self._seed, self._evaluations = int(rng.integers(2**63)), 0
        self._drawn = self._m if self._ranking else max(self._m, -(-_PAIRS // n))
        self._reported = self._steps(2 * self._drawn, 2**63)  # the noise of what is reported: the same at all times
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
        return gradient, self.cost(Y, circle, self._reported, self.level(circle, self._reported))

    # Noise.

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
        if self._ranking:
            return 0.0  # "global" has none
        n: int = self._n
        zbar, pairs = self._noise.normalizer, n * (n - 1)
        if not isinstance(zbar, str):
            return self._m * zbar / pairs
        if zbar == "umap":
            return 1.0
        sums = self._noise_weights(circle, steps)
        return max(self._m * float(sums.sum(dtype=np.float64)) / (n * len(steps)), LEAST_A)

    def _noise_weights(self, circle: Floats, steps: Steps) -> Floats:
        sums = np.empty(self._n, circle.dtype)
        weights = bind(noise_weights, self._functions)
        self._run(lambda _block, start, stop: weights(circle, steps, self._parameters, sums, start, stop))
        return sums

    def _run(self, task: Any) -> None:
        run_blocks(task, even_bounds(self._n, _ROWS), self._n_jobs)

    # Gradient and cost for given noise.

    def gradient(self, Y: Floats, circle: Floats, steps: Steps, a: float, exaggeration: float = 1.0) -> Floats:
        """Return the gradient for given steps along the circle, a being held fixed; overwritten by the next call."""
        self._prepare()
        if self._near.shape != Y.shape:
            self._near = np.empty(Y.shape, Y.dtype)
        scalar, out = Y.dtype.type, self._near
        charges: Floats = np.empty(0, Y.dtype)
        if self._ranking:
            self._sums[self._order] = self._noise_weights(circle, steps)
        packed = Y.dtype == np.float32 and Y.shape[1] == 2
        loop = near_packed if packed else near_wide if Y.shape[1] >= _WIDE else near_any
        functions = self._functions, self._ranking
        near, push = bind(loop, functions), bind(noise_push, functions)
        numbers = self._parameters, scalar(a), scalar(exaggeration), scalar(2 if self._ranking else 4)
        shared = (*self._pattern[:3], self._sums), numbers, Y.view(np.int64).ravel() if packed else Y
        run_blocks(
            lambda _block, start, stop: near(*shared, (out, self._charges), start, stop), self._bounds, self._n_jobs
        )
        if self._ranking:
            charges = np.tile(self._charges[self._order], 2)
        factor = scalar(2 if self._ranking else 2 * self._m / (self._n * len(steps)))
        noise = (circle, steps, self._order), (self._parameters, scalar(a), factor), charges, out
        self._run(lambda _block, start, stop: push(*noise, start, stop))
        return out

    def cost(self, Y: Floats, circle: Floats, steps: Steps, a: float) -> float:
        """Return the cost for given steps; "global" takes the first m of them."""
        self._prepare()
        if self._ranking:
            self._sums[self._order] = self._noise_weights(circle, steps[: self._m])
        parts = np.zeros(len(self._bounds) - 1)
        level = Y.dtype.type(a)
        near_part = bind(near_cost, (self._functions, self._ranking))
        noise_part = bind(noise_cost, self._functions)

        def near(block: int, start: int, stop: int) -> None:
            parts[block] = near_part((*self._pattern[:3], self._sums), (self._parameters, level), Y, start, stop)

        run_blocks(near, self._bounds, self._n_jobs)
        total = float(parts.sum())
        if self._ranking:
            return total
        far = np.zeros(len(even_bounds(self._n, _ROWS)) - 1)

        def noise(block: int, start: int, stop: int) -> None:
            far[block] = noise_part(circle, steps, self._parameters, level, start, stop)

        self._run(noise)
        n: int = self._n
        return total + self._m * math.fsum(far) / (n * len(steps))


# Compiled. Pairs of noise need no random number each. The points stand in a random circle, and a sample is a step along
# it: with a step s every point r has the partner r + s, and is that of r - s. Steps are drawn evenly from 1 .. n - 1,
# so for each point every other one is as likely. All reads are in order, so the loops vectorise, and nothing is
# scattered. ``circle`` holds, twice in a row, the positions by component: r + s needs no modulo.
#
# ``functions`` are those of the kernel, and whether it is "global". ``near`` is the pattern, p_ij and W_i of
# each point; ``numbers`` are the parameters of the kernel, a, the exaggeration and a factor; ``out`` are the gradient
# and the charges.


@jit
def lay_out(Y, order, circle, start, stop):
    """Write the positions of points order[start] .. along the circle, twice."""
    n = order.size
    for c in range(Y.shape[1]):
        for r in range(start, stop):
            value = Y[order[r], c]
            circle[c, r] = value
            circle[c, n + r] = value


@jit(fastmath=FAST, error_model="numpy", inline="always")
def noise_weights(kernel, circle, steps, parameters, out, start, stop):
    """Write W_r, the sum of w over the partners of each point."""
    f = np.empty(stop - start, circle.dtype)
    out[start:stop] = 0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            out[start + t] += kernel.weight(f[t], *parameters)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def noise_push(functions, noise, numbers, charges, out, start, stop):
    """Add factor * sum of c w'/w (y_i - y_k) over the noise in which a point is the first or the second.

    c is w / (w + a) for "local"; for "global" w times the charge of the first, twice along the circle in ``charges``.
    ``noise`` are the circle, the steps and the points along the circle, ``numbers`` the kernel's parameters, a, factor.
    """
    (kernel, ranking), (circle, steps, order), (parameters, a, factor) = functions, noise, numbers
    scalar = circle.dtype.type
    n, d = circle.shape[1] // 2, circle.shape[0]
    f, total = np.empty(stop - start, circle.dtype), np.zeros((d, stop - start), circle.dtype)
    for step in steps:
        for back in range(2):
            shift = n - step if back else step
            _squares(circle, shift, f, start)
            if not ranking:
                for t in range(f.size):
                    w = scalar(kernel.weight(f[t], *parameters))
                    f[t] = w / (w + a) * scalar(kernel.neg_log_slope(f[t], *parameters))
            else:
                first = start + shift if back else start
                for t in range(f.size):
                    w = charges[first + t] * scalar(kernel.weight(f[t], *parameters))
                    f[t] = w * scalar(kernel.neg_log_slope(f[t], *parameters))
            for c in range(d):
                own, other, row = circle[c, start:stop], circle[c, start + shift : stop + shift], total[c]
                for t in range(f.size):
                    row[t] += f[t] * (own[t] - other[t])
    for c in range(d):
        for t in range(f.size):
            out[order[start + t], c] -= factor * total[c, t]


@jit(fastmath=FAST, error_model="numpy", inline="always")
def noise_cost(kernel, circle, steps, parameters, a, start, stop):
    """Return the sum of ln(1 + w / a) over the noise of some points, in float64."""
    f, cost = np.empty(stop - start, circle.dtype), 0.0
    for step in steps:
        _squares(circle, step, f, start)
        for t in range(f.size):
            f[t] = ln1p(circle.dtype.type(kernel.weight(f[t], *parameters)) / a)
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


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_packed(functions, near, numbers, packed, out, start, stop):
    """Write factor * sum_j k_ij (-w'/w)(y_i - y_j), see ``_strength``, for two components in float32.

    Also, for "global", the charge sum_j p_ij / (w_ij + W_i) of each point.
    """
    kernel, ranking = functions
    indptr, columns, p, sums = near
    parameters, a, exaggeration, factor = numbers
    gradient, charges = out
    scalar = np.float32
    for i in range(start, stop):
        x, y = first_of(packed[i]), second_of(packed[i])
        begin, end = indptr[i], indptr[i + 1]
        neighbors, own = columns[begin:end], p[begin:end]
        W = a if not ranking else sums[i]
        gx = gy = charge = np.float32(0)
        for t in range(neighbors.size):
            j = neighbors[t]
            other = packed[j]
            dx, dy = x - first_of(other), y - second_of(other)
            f = dx * dx + dy * dy
            w = scalar(kernel.weight(f, *parameters))
            share = own[t] / (w + W)
            charge += share
            k = _strength(ranking, own[t], w, share, a, a if not ranking else sums[j], exaggeration)
            k *= scalar(kernel.neg_log_slope(f, *parameters))
            gx += k * dx
            gy += k * dy
        if ranking:
            charges[i] = charge
        gradient[i, 0], gradient[i, 1] = factor * gx, factor * gy


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_any(functions, near, numbers, Y, out, start, stop):
    """Do what ``near_packed`` does, for any number of components and type of numbers: component by component."""
    ranking, factor = functions[1], numbers[3]
    indptr, columns, p, sums = near
    gradient, charges = out
    offsets, f, _ = buffers(indptr, start, stop, Y)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k = columns[begin:end], f[: end - begin]
        write_offsets(Y, i, neighbors, offsets, f)
        charge = _to_strengths(functions, k, p[begin:end], neighbors, sums, numbers, i)
        if ranking:
            charges[i] = charge
        for c in range(gradient.shape[1]):
            g = gradient.dtype.type(0)
            for t in range(k.size):
                g += k[t] * offsets[c, t]
            gradient[i, c] = factor * g


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_wide(functions, near, numbers, Y, out, start, stop):
    """Do what ``near_any`` does, neighbour by neighbour: quicker where a position fills a line of the cache."""
    ranking, factor = functions[1], numbers[3]
    indptr, columns, p, sums = near
    gradient, charges = out
    offsets, f, _ = buffers(indptr, start, stop, Y)
    rows, zero = offsets.reshape(offsets.shape[1], offsets.shape[0]), gradient.dtype.type(0)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        neighbors, k, y, g = columns[begin:end], f[: end - begin], Y[i], gradient[i]
        for t in range(k.size):
            other, row, square = Y[neighbors[t]], rows[t], zero
            for c in range(y.size):
                difference = y[c] - other[c]
                row[c] = difference
                square += difference * difference
            k[t] = square
        charge = _to_strengths(functions, k, p[begin:end], neighbors, sums, numbers, i)
        if ranking:
            charges[i] = charge
        g[:] = zero
        for t in range(k.size):
            row, strength = rows[t], factor * k[t]
            for c in range(y.size):
                g[c] += strength * row[c]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _to_strengths(functions, k, p, neighbors, sums, numbers, i):
    """Make of squared distances k_ij (-w'/w); return the charge."""
    kernel, ranking = functions
    parameters, a, exaggeration, _ = numbers
    scalar, charge = k.dtype.type, a - a
    W = a if not ranking else sums[i]
    for t in range(k.size):
        w = scalar(kernel.weight(k[t], *parameters))
        share = p[t] / (w + W)
        charge += share
        other = a if not ranking else sums[neighbors[t]]
        strength = _strength(ranking, p[t], w, share, a, other, exaggeration)
        k[t] = strength * scalar(kernel.neg_log_slope(k[t], *parameters))
    return charge


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _strength(ranking, p, w, share, a, other, exaggeration):
    """Return k_ij, for p_ij = p_ji: both a pair's parts, i first and j first, in units of two for "local"."""
    if not ranking:
        return exaggeration * a * share
    return (exaggeration + exaggeration) * p - w * (share + p / (w + other))


@jit(fastmath=FAST, error_model="numpy", inline="always")
def near_cost(functions, near, numbers, Y, start, stop):
    """Sum p_ij ln((w_ij + W) / w_ij) over the neighbours of some points, W being a or W_i; in float64."""
    kernel, ranking = functions
    indptr, columns, p, sums = near
    parameters, a = numbers
    scalar = Y.dtype.type
    offsets, f, costs = buffers(indptr, start, stop, Y)
    cost = 0.0
    for i in range(start, stop):
        begin, m = indptr[i], indptr[i + 1] - indptr[i]
        write_offsets(Y, i, columns[begin : begin + m], offsets, f)
        W = a if not ranking else sums[i]
        for t in range(m):
            log_w = scalar(kernel.log_weight(f[t], *parameters))
            costs[t] = p[begin + t] * (ln(scalar(kernel.weight(f[t], *parameters)) + W) - log_w)
        for t in range(m):
            cost += np.float64(costs[t])
    return cost
