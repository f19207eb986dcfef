"""Neighbour embedding: the master equation of the source, over all pairs, and the step of its descent.

Points y_i of a map have squared distances f_ij and similarities w_ij = w(f_ij); q_ij = w_ij / S, S the sum over all
pairs ("pair") or over a row ("row"), or q = w ("none"). The cost of a divergence between p and q has the gradient ::

    dC/dy_i = 2 sum_j (k_ij + k_ji) (y_i - y_j),     k_ij = (D_ij - sum_kl q_kl D_kl) w'(f_ij) / S,     D = dC/dq

where the sum over k, l is that over which S goes. Only D is exaggerated: under KL D = -p/q, so that p is. Source:
Melville, "Deriving embedding gradients" (documentation of sneer), the generic gradient; for an asymmetric kernel with a
symmetric q the mean of D_ij and D_ji stands for D_ij. Linear time takes it apart: :mod:`nearfar.maps.objective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from nearfar._core.parameters import Part
from nearfar._core.threads import run_blocks
from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Divergence, Floats, Kernel, Objective, Place
from nearfar.errors import InputError
from nearfar.kernels import either, squared_distances

_ENTRIES = 2**21  # of a block: 16 MB per array of float64
_TINY = np.finfo(np.float64).tiny
_SIZES = 2.0 ** np.arange(0, -6, -0.5)  # of a map under another kernel, in units of its own

LOOK_EVERY = 50
"""Iterations between two looks at the cost, which stopping rules, callbacks and the progress line go by."""
UP, DOWN, LEAST = 0.2, 0.8, 0.01
"""By how much a gain grows, to what share it falls, and what it is at least."""


LONGER, SHORTER = 1.2, 0.5
"""Factors of a step of a learned parameter: where the sign of its derivative stays, where it turns."""


class AllPairs:
    """A cost over all pairs of points and its gradient, in float64, some rows at a time.

    Parameters
    ----------
    P : ndarray or sparse array of shape (n, n), >= 0
        What q should be; its diagonal does not count.
    kernel : Kernel
        Its parameters may be one per point: w_ij is then by the parameter of i.
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
        if len(several) > 1 and normalization != "row":
            raise InputError("NeighborEmbedding", "normalization", "'row' for several scales", repr(normalization))
        self.scales = [_Scale(each, n, weights) for each in several]
        self.divergence, self.normalization = divergence, normalization
        self.bounds = [*range(0, n, max(1, _ENTRIES // max(n, 1))), n]
        self.few = len(self.bounds) <= 2
        self.P, self.P_back = (self._matrix(part) for part in (P, P.T))
        dense = [part for part in (self.P, self.P_back) if isinstance(part, np.ndarray)]
        self.symmetric = self.few and np.array_equal(dense[0], dense[1])
        # A divergence that mixes a floor into p needs to know what the uniform distribution is.
        uniform = 1 / (n - 1) if normalization == "row" else 1 / (n * (n - 1))
        self.floor = (uniform,) if getattr(divergence, "floor", 0.0) else ()

    def _matrix(self, P: Floats | csr_array | csc_array) -> Floats | csr_array:
        """Return p as it is read by rows: dense and once for all where there are few."""
        if self.few:
            dense = P if isinstance(P, np.ndarray) else P.toarray()
            return off_diagonal(np.array(dense, np.float64), slice(0, P.shape[0]))
        return P if isinstance(P, np.ndarray) else P.tocsr()

    def value_and_gradient(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = True) -> tuple[float, Floats]:
        """Return the true cost at Y, 0 if it is not asked for, and dC/dY with D exaggerated."""
        Y = np.asarray(Y, np.float64)
        similar = _Similar(self.scales, Y, keep=self.few)
        normalizers = self._normalizers(similar, len(Y))

        def task(_block: int, start: int, stop: int) -> tuple[float, float, Floats, Floats]:
            rows = slice(start, stop)
            found, value, mean, gradient, of_mean = similar.of(rows), 0.0, 0.0, np.zeros_like(Y), np.zeros_like(Y)
            shares = [self._share(w, w_back, S[rows]) for (_, w, w_back), S in zip(found, normalizers, strict=True)]
            q = shares[0] if len(shares) == 1 else np.mean(shares, axis=0)
            p = self._entries(self.P, rows)
            D = self._derivative(p, q)
            value += self._cost(p, q, rows) if cost else 0.0
            for scale, share, (f, *_), S in zip(self.scales, shares, found, normalizers, strict=True):
                slope = scale.slope(f, rows) / (len(shares) * S[rows])
                k, more = self._k(D, share, slope, rows, exaggeration)
                gradient += forces(Y, k, rows)
                if self.normalization == "pair":  # times sum q D, when all rows are known
                    mean += more
                    of_mean += forces(Y, slope, rows)
            return value, mean, gradient, of_mean

        values, means, gradients, of_means = zip(*run_blocks(task, self.bounds, self.n_jobs), strict=True)
        return sum(values), sum(gradients) - sum(means) * sum(of_means)

    def _k(self, D: Floats, q: Floats, slope: Floats, rows: slice, exaggeration: float) -> tuple[Floats, float]:
        """Return k_ij, by pair without the sum of q D over all pairs, and these rows' part of that."""
        if self.normalization == "row":  # symbol k_ij: (D_ij - sum of q D) w'(f_ij) / S
            return (exaggeration * D - (q * D).sum(axis=1, keepdims=True)) * slope, 0.0
        if self.normalization == "pair":
            D_both = D if self.symmetric else (D + self._derivative(self._entries(self.P_back, rows), q)) / 2
            return exaggeration * D_both * slope, float((q * D).sum())
        return exaggeration * D * slope, 0.0

    def _normalizers(self, similar: _Similar, n: int) -> list[Floats]:
        """S_i, or S, or 1, for each row; shape (n, 1), one for each scale."""
        if self.normalization == "none":
            return [np.ones((n, 1))]
        parts = run_blocks(
            lambda _, start, stop: [w.sum(axis=1) for _, w, _ in similar.of(slice(start, stop))],
            self.bounds,
            self.n_jobs,
        )
        sums = [np.concatenate(part) for part in zip(*parts, strict=True)]
        if self.normalization == "pair":
            sums = [np.full(n, part.sum()) for part in sums]
        return [np.maximum(part, _TINY)[:, None] for part in sums]

    def _share(self, w: Floats, w_back: Floats, S: Floats) -> Floats:
        """Return q_ij; by pair it is symmetric."""
        if self.normalization == "pair" and w_back is not w:
            w = (w + w_back) / 2
        return w / S  # symbol q_ij: w_ij / S

    def _entries(self, P: Floats | csr_array, rows: slice) -> Floats:
        if isinstance(P, np.ndarray) and self.few:
            return P
        part = P[rows]
        return off_diagonal(np.array(part if isinstance(part, np.ndarray) else part.toarray(), np.float64), rows)

    def _derivative(self, p: Floats, q: Floats) -> Floats:
        # symbol D_ij: dC/dq_ij
        return np.asarray(self.divergence.derivative(p, np.maximum(q, _TINY), *self.floor))

    def _cost(self, p: Floats, q: Floats, rows: slice) -> float:
        values = np.array(self.divergence.value(p, np.maximum(q, _TINY), *self.floor), np.float64)
        return float(off_diagonal(values, rows).sum())


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


class _Similar:
    """Similarities of blocks of rows under each scale, made once where they are kept."""

    def __init__(self, scales: list[_Scale], Y: Floats, *, keep: bool) -> None:
        self._scales, self._Y, self._keep = scales, Y, keep
        self._kept: list[tuple[Floats, Floats, Floats]] = []

    def of(self, rows: slice) -> list[tuple[Floats, Floats, Floats]]:
        """Return f_ij, w_ij and w_ji for each scale."""
        if not self._keep:
            return [scale.similarities(self._Y, rows) for scale in self._scales]
        self._kept = self._kept or [scale.similarities(self._Y, rows) for scale in self._scales]
        return self._kept


def forces(Y: Floats, k: Floats, rows: slice) -> Floats:
    """Return 2 sum_j (k_ij + k_ji)(y_i - y_j) for all i, as far as k's rows of this block go."""
    found = k.sum(axis=0)[:, None] * Y - k.T @ Y[rows]
    found[rows] += k.sum(axis=1)[:, None] * Y[rows] - k @ Y
    return np.asarray(2 * found)  # symbol dC/dy_i: 2 sum_j (k_ij + k_ji)(y_i - y_j)


def off_diagonal(block: Floats, rows: slice) -> Floats:
    """Set the entries of a point with itself to 0, in place."""
    at = np.arange(rows.start, rows.stop)
    block[at - rows.start, at] = 0
    return np.asarray(block)


@dataclass(frozen=True)
class Phase:
    """Some iterations with the same cost.

    That is the cost of the fit, or if ``early`` KL in place of its divergence; with a ``kernel``, too, KL by pair under
    it. After the last phase with a kernel the map is resized for the fit. A learning rate that ``decays`` falls to 0 in
    a straight line; ``longest`` is the longest step of a point.
    """

    n_iter: int
    exaggeration: float
    learning_rate: float
    momentum: float
    longest: float
    may_stop: bool
    decays: bool = False
    early: bool = False
    kernel: Kernel | None = None


@dataclass
class MapState:
    """Where a map stands; callbacks may look at ``X``.

    ``Y`` holds the positions in the order in which the solver has them, row r being point ``order[r]``, as they were at
    the last look. ``same`` says, where rows are copies, which point each is.
    """

    Y: Floats
    order: NDArray[np.integer] | None = None
    same: NDArray[np.integer] | None = None
    costs: list[float] = field(default_factory=list)
    cost_iterations: list[int] = field(default_factory=list)
    n_iter: int = 0
    stopped: bool = False

    @property
    def X(self) -> Floats:  # noqa: N802 - as in every state of a solver
        """The positions, a row per point."""
        X = self.Y
        if self.order is not None:
            X = np.empty_like(self.Y)
            X[self.order] = self.Y
        return X if self.same is None else X[self.same]


class Watched(Protocol):
    """What watches a descent, see :func:`descend`."""

    @property
    def state(self) -> MapState:
        """Where the map stands."""

    @property
    def scale(self) -> float:
        """What turns a gradient of the objective into that which steps are made of."""

    def begin(self, objective: Objective) -> None:
        """Prepare a phase."""

    def step(self) -> None:
        """Count an iteration."""

    def look(self, phase: Phase, cost: float | None, square: float) -> bool:
        """Take in how things stand; return whether to stop."""


def descend(place: Place, objective: Objective, phases: Sequence[Phase], watch: Watched) -> bool:
    """Move ``watch.state.Y`` through all phases by gradient descent with momentum; return whether no look said stop.

    ``watch`` may put the rows in another order before a phase (``begin``), counts steps (``step``), and every 50
    iterations is told the phase, the cost of the whole fit, also where a phase minimises another one, and the square of
    the last gradient (``look``). Its ``scale`` turns the gradient of the objective into that which steps are made of.
    """
    state = watch.state
    for phase, after in zip(phases, [*phases[1:], None], strict=True):
        watch.begin(objective)
        minimised = objective.early(phase.kernel) if phase.early else objective
        scale = 1.0 if phase.kernel is not None else watch.scale
        held = minimised.held()  # to places, which say where the mean is, too
        moving = [place.bring(X) for X in (state.Y, np.zeros_like(state.Y), np.ones_like(state.Y))]
        moved, square = np.zeros(state.Y.shape[1]), np.nan
        for t in range(phase.n_iter + 1):
            looks, ends = state.n_iter % LOOK_EVERY == 0, t == phase.n_iter
            if (looks or ends) and state.n_iter:  # their mean is put to 0; a start stays as it is
                Y = place.fetch(moving[0], state.Y)
                if held is None:
                    Y -= Y.mean(axis=0, dtype=np.float64).astype(Y.dtype)
                state.Y, moving[0], moved = Y, place.bring(Y), np.zeros_like(moved)
            if ends:
                break
            cost = objective.value(moving[0]) if looks and minimised is not objective else None
            gradient, own = minimised.evaluate(moving[0], phase.exaggeration, cost=looks and cost is None)
            if looks and watch.look(phase, own if cost is None else cost, float(square) * scale**2):
                return False
            minimised.advance(moving[0], state.n_iter)
            rate = phase.learning_rate * (1 - t / phase.n_iter if phase.decays else 1.0) * scale
            if held is not None:
                gradient = place.each(implicit, gradient, moving[2], held, rate=rate)[0]
            limits = {"momentum": phase.momentum, "longest": phase.longest, "n": len(state.Y)}
            step = place.each(momentum_step, tuple(moving), gradient, moved=moved, rate=rate, **limits)
            moving, moved, square = [*step[0]], step[1] if held is None else moved, step[2]
            watch.step()
        if phase.kernel is not None and (after is None or after.kernel is None):
            # To half the size at which the map costs least: there points hardly pass each other.
            costs = [objective.value(place.bring(state.Y * float(size))) for size in _SIZES]
            state.Y = state.Y * float(_SIZES[int(np.argmin(costs))] / 2)
    return True


def momentum_step(
    moving: tuple[Array, Array, Array], g: Array, *, moved: Array, n: int, rate: float, momentum: float, longest: float
) -> tuple[Array, Array]:
    """Move positions by delta-bar-delta, with velocities and gains; return their sum, and that of the squared gradient.

    Before, the mean of all n positions is put to 0, whose sum the last step returned: ``moved``. A step longer than
    ``longest`` is cut to that length. van der Maaten & Hinton (2008), section 3.4; Jacobs (1988).
    """
    xp = namespace_of(g)
    y, velocity, gains = moving
    gains[...] = next_gain(gains, velocity, g, UP, DOWN, LEAST)
    velocity *= momentum
    velocity -= rate * gains * g  # symbol v: momentum v - rate γ g
    wide = xp.asarray(velocity, dtype=xp.float64)  # its square may be beyond float32
    length = xp.asarray(xp.sqrt((wide * wide).sum(1)), dtype=y.dtype)[:, None]
    velocity *= xp.where(length > longest, longest / xp.where(length > longest, length, 1.0), 1.0)
    y += velocity - xp.asarray(moved / n, dtype=y.dtype)
    return y.sum(0, dtype=xp.float64), (g * g).sum(dtype=xp.float64)


def next_gain(gain: Array, velocity: Array, g: Array, up: float, down: float, least: float) -> Array:
    """Return the gain of a coordinate, which grows where the last steps went the right way: one text at all places."""
    opposed = (velocity > 0) & (g < 0) | (velocity < 0) & (g > 0)  # their product might underflow
    grown, fallen = gain + up, gain * down
    return either(opposed, grown, either(fallen > least, fallen, least))  # symbol γ: gain of a coordinate


@dataclass
class SignSteps:
    """Steps of parameters against the signs of their derivatives, in their logarithms.

    They get longer while the sign stays, and half as long when it turns (Riedmiller & Braun 1993, "A direct adaptive
    method for faster backpropagation learning": RPROP). So the parameters stay positive, and no learning rate is to be
    found.

    Parameters
    ----------
    steps : ndarray
        The first ones.
    shortest, longest, least, most : float
        Between which steps, and parameters, stay.
    """

    steps: Array
    shortest: float
    longest: float
    least: float
    most: float
    signs: Array | float = 0.0

    def moved(self, parameters: Array, slopes: Array) -> Array:
        """Return the next parameters."""
        signs = np.sign(slopes)
        turned = signs * self.signs
        self.steps = self.steps * np.where(turned > 0, LONGER, np.where(turned < 0, SHORTER, 1.0))
        self.steps = self.steps.clip(self.shortest, self.longest)
        self.signs = signs
        return (parameters * np.exp(-self.steps * signs)).clip(self.least, self.most)


# A pull to given places, with a weight m for each point: sum_i m_i / 2 |y_i - y0_i|^2 beside the cost of the map.


def pull_of(g: Array, y: Array, places: Array, weights: Array) -> tuple[()]:
    """Add what draws rows to their places to a gradient."""
    g += weights[:, None] * (y - places)
    return ()


def cost_of_pull(y: Array, places: Array, weights: Array) -> tuple[Array]:
    """Return what it costs rows to be away from their places."""
    xp = namespace_of(y)
    away = xp.asarray(y - places, dtype=xp.float64)
    return ((weights / 2 * (away * away).sum(1)).sum(),)


def implicit(g: Array, gains: Array, weights: Array, *, rate: float) -> tuple[()]:
    """Make the step of a row that is held the implicit one, which no weight drives past its place.

    With r = rate x gain, y - r (c + m (y - y0)) / (1 + r m) is where y* = y - r c comes to if the pull acts at its end:
    (y* + r m y0) / (1 + r m). The gain is the greatest that the step may take.
    """
    g /= 1 + rate * (gains + UP) * weights[:, None]
    return ()
