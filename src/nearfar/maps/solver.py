"""The optimisation of a map: first positions, phases of gradient descent with momentum, watched every 50 iterations.

With the gradient g, gains γ and velocity v of each coordinate (delta-bar-delta, Jacobs 1988)::

    γ <- γ + 0.2            where g points against v, so that the last steps went the right way
    γ <- max(0.8 γ, 0.01)   elsewhere
    v <- momentum v - learning_rate γ g,     y <- y + v

A step longer than ``longest`` is cut to that length, and the mean of all positions is kept at 0.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._core.checks import check_matrix, check_rows_differ
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.vector import FAST
from nearfar.callbacks import Progress, Trainer
from nearfar.contracts import Floats, Kernel, Objective
from nearfar.errors import InputError, NumericalError
from nearfar.maps.objective import RowBlocks, union_pattern
from nearfar.methods import maps as methods
from nearfar.methods.maps import DOWN, LEAST, UP
from nearfar.relations.operators import Sparse

INITS = ("auto", "pca", "spectral", "random")
SPREAD = 1e-4
"""Standard deviation of the first component of a start: small, so that points can still pass each other."""
_SQUARES = np.append(0.0, 10.0 ** np.arange(-8, 8.5, 0.5))  # squared distances at which a kernel is looked at
_STEEP = 0.1  # share of its greatest slope
_JITTER = 0.01  # of it, so that rows that are equal do not stay together by symmetry alone
_WIDE = 2000  # columns, from which on the covariance matrix is not the quickest way to principal components
LOOK_EVERY = 50
"""Iterations between two looks at the cost, which stopping rules, callbacks and the progress line go by."""
_SIZES = 2.0 ** np.arange(0, -6, -0.5)  # of a map under another kernel, in units of its own
_SORT_FROM = 10_000  # points; fewer are near enough wherever they are


def extent(kernel: Kernel, n: int) -> tuple[float, float]:
    """Return over which distance a kernel falls, and how wide a start of n points is, so that it pulls at once.

    Most kernels are steepest at distance 0. One that is flat there, such as 1 / (1 + f^2), would leave points that
    start together where they are.
    """
    pulls, falls = [], []
    with np.errstate(all="ignore"):  # far off, where w vanishes
        for square in _SQUARES:
            f = np.full((n, 1), square)  # a row per point, for kernels with parameters per point
            slope = -kernel.slope(f)
            pulls.append(float(np.max(slope)))
            falls.append(float(np.max(slope / kernel.weight(f))))
    steepest, fastest = np.nanmax(pulls), np.nanmax(falls)
    steepness = falls[0] if falls[0] >= _STEEP * fastest else fastest
    reach = 1 / math.sqrt(steepness) if 0 < steepness < math.inf else 1.0
    first = int(np.argmax(np.array(pulls) >= _STEEP * steepest))
    return reach, math.sqrt(_SQUARES[first]) if first else SPREAD


def start(
    owner: str,
    init: Any,
    X: Any,
    P: Any,
    shape: tuple[int, int],
    rng: np.random.Generator,
    n_jobs: int,
    size: float = SPREAD,
) -> Floats:
    """Return first positions, C-contiguous; float64 if such are given, else float32.

    Parameters
    ----------
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d)
        "auto" is PCA of the data, spectral for a relation. An array is taken as it is.
    X : ndarray or sparse matrix of shape (n, p), or None
        The data; None for a relation.
    P : RowBlocks of shape (n, n)
        For the spectral start.
    shape : tuple
        (n, d).
    size : float
        Standard deviation of the first component.
    """
    if not isinstance(init, str):
        if init is None:
            raise InputError(owner, "init", f"one of {', '.join(map(repr, INITS))} or an array", "None")
        given = check_matrix(owner, "init", init, rows=shape[0], columns=shape[1])
        check_rows_differ(owner, "init", given)
        return np.array(given)
    if init not in INITS:
        raise InputError(owner, "init", f"one of {', '.join(map(repr, INITS))} or an array", repr(init))
    if init == "auto":
        init = "spectral" if X is None else "pca"
    if init == "pca" and X is None:
        hint = "Take init='spectral' or 'random'."
        raise InputError(owner, "init", "other than 'pca' where there are no rows of numbers", "'pca'", hint)
    if init == "random" or shape[1] >= shape[0]:
        return rng.normal(0, size, shape).astype(np.float32)
    with single_threaded_blas():  # the same bits for any number of workers
        Y = _principal_components(X, shape[1], rng, n_jobs) if init == "pca" else _spectral(P, shape[1], rng, n_jobs)
    spread = Y[:, 0].std()
    Y *= size / spread if spread > 0 else 0
    return np.ascontiguousarray(Y + rng.normal(0, size * _JITTER, shape), dtype=np.float32)


def _principal_components(X: Any, d: int, rng: np.random.Generator, n_jobs: int) -> NDArray[np.float64]:
    """Scores of the first components, largest first; columns of zeros where X has fewer."""
    n, p = X.shape
    k = min(d, n, p)
    scores = np.zeros((n, d))
    if (issparse(X) and p > 1) or p > _WIDE:
        from sklearn.decomposition import TruncatedSVD

        # Without centring a sparse matrix would stay sparse, but the first component would be the mean.
        model = TruncatedSVD(min(k + 1, min(n, p) - 1) or 1, random_state=int(rng.integers(2**31 - 1)))
        found = model.fit_transform(X)
        found = found - found.mean(axis=0)
        left, sizes, _ = np.linalg.svd(found, full_matrices=False)
        k = min(k, len(sizes))
        scores[:, :k] = left[:, :k] * sizes[:k]
    else:
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        # In another unit, lest squares leave the range of the type: by a power of 2, which rounds nothing.
        unit = np.ldexp(X.dtype.type(1), -int(np.frexp(np.abs(X).max(initial=0))[1]))
        mean = X.mean(axis=0, dtype=np.float64) * float(unit)
        bounds = even_bounds(n, 4096)
        shift = mean.astype(X.dtype)
        parts = run_blocks(lambda _, a, b: (centred := X[a:b] * unit - shift).T @ centred, bounds, n_jobs)
        axes = np.linalg.eigh(sum(parts, np.zeros((p, p))))[1][:, ::-1][:, :k]
        for start, stop in pairwise(bounds.tolist()):
            scores[start:stop, :k] = (X[start:stop] @ axes) * float(unit) - mean @ axes
    return scores * np.where(scores[np.abs(scores).argmax(axis=0), np.arange(d)] < 0, -1, 1)


def _spectral(P: RowBlocks, d: int, rng: np.random.Generator, n_jobs: int) -> NDArray[np.float64]:
    """Eigenvectors of the symmetrically normalised P + Pᵀ after the first, as Laplacian eigenmaps has them."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n = P.shape[0]
    indptr, columns, values, _ = union_pattern(P, np.float32, symmetric=True, n_jobs=n_jobs)
    A = Sparse(indptr, columns.view(np.int32), values, n, symmetric=True)
    degrees = A.matmat(np.ones((n, 1)), n_jobs=n_jobs)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    if n <= 4 * (d + 1):
        vectors = np.linalg.eigh(scale * A.rows(0, n).toarray() * scale.T)[1][:, ::-1][:, 1 : d + 1]
    else:
        first = np.sqrt(degrees / degrees.sum())

        # Without the first eigenvector: where parts are not connected there are several of its eigenvalue, of which the
        # iteration would find a second one by rounding alone, and lay some parts upon each other.
        def times(v: Any) -> Any:
            v = v.reshape(n, 1)
            return scale * A.matmat(scale * v, n_jobs=n_jobs) - first * (first.T @ v)

        normalized = LinearOperator((n, n), matvec=times, dtype=np.float64)
        try:
            values, vectors = eigsh(normalized, d, which="LA", v0=rng.standard_normal(n), tol=1e-4, maxiter=100)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        vectors = vectors[:, np.argsort(-values)]
    Y = np.zeros((n, d))
    Y[:, : vectors.shape[1]] = vectors * scale
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1)


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
    kernel: Any = None


@dataclass
class MapState:
    """Where a map stands; callbacks may look at ``X``.

    ``Y`` holds the positions in the order in which the solver has them, row r being point ``order[r]``: an array, or a
    tensor on a device, which is copied when somebody looks at ``X``. On a cluster they are those of the last look.
    """

    Y: Floats
    order: NDArray[np.integer[Any]] | None = None
    costs: list[float] = field(default_factory=list)
    cost_iterations: list[int] = field(default_factory=list)
    n_iter: int = 0
    stopped: bool = False

    @property
    def X(self) -> Floats:  # noqa: N802 - as in every state of a solver
        """The positions, a row per point."""
        if self.order is None:
            return self.Y if isinstance(self.Y, np.ndarray) else self.Y.cpu().numpy()
        X = np.empty_like(self.Y)
        X[self.order] = self.Y
        return X


@dataclass(frozen=True)
class Descent:
    """How to descend: everything that is the same in all phases.

    ``scale`` turns the objective's cost and gradient into those that are reported: the mean over rows for "row".
    ``solver`` makes the solver of a phase. The gradient is for it alone: an objective and a solver that keep positions
    elsewhere, as on the workers of a cluster, bring those given up to date where the cost is asked for, and in
    ``fetch``.
    """

    owner: str
    scale: float
    min_grad_norm: float
    n_iter_without_progress: int
    callbacks: Sequence[Callable[[Progress], bool | None]] | None
    n_jobs: int
    verbose: int
    solver: Callable[..., Any]

    def run(self, Y: Floats, objective: Objective, phases: Sequence[Phase]) -> MapState:
        """Return the state after all phases; ``Y`` may be moved in place."""
        state = MapState(Y)
        total = sum(phase.n_iter for phase in phases)
        given: Any = {"callbacks": self.callbacks, "verbose": self.verbose, "unit": "iteration"}
        with Trainer(self.owner, total, **given) as trainer:
            for number, phase in enumerate(phases):
                minimised, scale = objective, self.scale  # what the phase before minimised is no longer kept
                many = isinstance(state.Y, np.ndarray) and len(state.Y) >= _SORT_FROM
                if many and objective.reorder(order := z_order(state.Y)):  # neighbours are near in memory, too
                    state.Y = np.ascontiguousarray(state.Y[order])
                    state.order = order if state.order is None else state.order[order]
                if phase.early:
                    minimised, scale = objective.early(phase.kernel), self.scale if phase.kernel is None else 1.0
                solver = self.solver(phase.momentum, longest=phase.longest, n_jobs=self.n_jobs)
                best, best_at = math.inf, state.n_iter
                for t in range(phase.n_iter):
                    look = state.n_iter % LOOK_EVERY == 0
                    # What is reported is always the cost of the whole fit, also where a phase minimises another one.
                    cost = objective.evaluate(state.Y, cost=True)[1] if look and minimised is not objective else None
                    gradient, own_cost = minimised.evaluate(state.Y, phase.exaggeration, cost=look and cost is None)
                    if look:
                        state.stopped = self._look(state, own_cost if cost is None else cost, phase, trainer)
                        if state.costs[-1] < best:
                            best, best_at = state.costs[-1], state.n_iter
                        stalled = state.n_iter - best_at > self.n_iter_without_progress
                        at_rest = solver.gradient_norm * scale <= self.min_grad_norm
                        state.stopped |= phase.may_stop and (stalled or at_rest)
                        if state.stopped:
                            break
                    rate = phase.learning_rate * (1 - t / phase.n_iter if phase.decays else 1.0)
                    minimised.advance(state.Y, state.n_iter)
                    solver.step(state.Y, gradient, rate * scale)
                    state.n_iter += 1
                    trainer.advance()
                if solver.elsewhere:
                    solver.fetch(state.Y)
                if state.stopped:
                    break
                if phase.kernel is not None and (phase is phases[-1] or phases[number + 1].kernel is None):
                    state.Y = _resized(state.Y, objective)
            if state.cost_iterations[-1] != state.n_iter:
                self._look(state, objective.evaluate(state.Y, cost=True)[1], phases[-1], trainer)
        return state

    def _look(self, state: MapState, cost: float | None, phase: Phase, trainer: Trainer) -> bool:
        """Keep the cost and call the callbacks; return whether one of them said stop."""
        if cost is None or not (np.isfinite(cost) and (abs(state.Y) < math.inf).all()):
            raise NumericalError(
                f"{self.owner}: the map left the finite numbers within {state.n_iter} iterations. "
                "Take a smaller learning_rate."
            )
        state.costs.append(cost * self.scale)
        state.cost_iterations.append(state.n_iter)
        return trainer.tell(state.n_iter, state.costs[-1], phase.learning_rate, state, steps=0)


def _resized(Y: Floats, objective: Objective) -> Floats:
    """Return a map in half the size, of some, at which it costs least: in that size points hardly pass each other."""
    costs: Any = [objective.evaluate(Y * float(size), cost=True)[1] for size in _SIZES]
    return Y * float(_SIZES[int(np.argmin(costs))] / 2)


def z_order(Y: Floats) -> NDArray[np.integer[Any]]:
    """Return the rows along a curve, the Z-order of a grid of 1024 x 1024 cells over the first two components."""
    Y = Y[:, :2]
    low, span = Y.min(axis=0), float(np.ptp(Y, axis=0).max())
    cells = ((Y - low) * (1023 / span if span > 0 else 0)).astype(np.uint32)
    code = np.zeros(len(Y), np.uint32)
    for c in range(Y.shape[1]):
        code |= _spread_bits(cells[:, c]) << np.uint32(c)
    return np.argsort(code, kind="stable")


def _spread_bits(v: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Put a zero bit between the bits of 16."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        v = (v | (v << np.uint32(shift))) & np.uint32(mask)
    return v


_ROWS = 2**14  # of a block


class Momentum:
    """Momentum, gains and velocity of a map; a :class:`nearfar.contracts.Solver` for all rows at once.

    Parameters
    ----------
    momentum : float in [0, 1), default=0.8
        Share of the last step in the next one.
    longest : float, default=inf
        Longest step of a point. In a map a step beyond the reach of the kernel's forces may have no way back.
    n_jobs : int, default=1
        Threads; the result does not depend on it.
    centred : bool, default=True
        Whether the mean of the positions is kept at 0; not where they are some of the rows of a map.

    Attributes
    ----------
    gradient_norm : float
        Length of the last gradient.
    sums : ndarray of shape (d + 1,), float64
        Of the positions after the last step, before they were centred, and of the squares of its gradient.

    References
    ----------
    van der Maaten & Hinton (2008), section 3.4; Jacobs (1988), "Increased rates of convergence through learning rate
    adaptation".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.maps.solver import Momentum
    >>> solver, Y = Momentum(), np.array([[-3.0], [1.0], [5.0]])
    >>> for _ in range(100):
    ...     solver.step(Y, 2 * (Y - [[-1.0], [0.0], [1.0]]), learning_rate=0.1)
    >>> bool((abs(Y - [[-1.0], [0.0], [1.0]]) < 1e-3).all())
    True
    """

    elsewhere = False
    """Whether positions may be elsewhere until ``fetch``."""

    def __init__(
        self, momentum: float = 0.8, *, longest: float = math.inf, n_jobs: int = 1, centred: bool = True
    ) -> None:
        self.momentum, self.longest, self._n_jobs, self.centred = momentum, longest, n_jobs, centred
        self.gradient_norm, self.sums = math.nan, np.zeros(0)
        self._velocity: Floats = np.empty((0, 0))
        self._gains: Floats = np.empty((0, 0))

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the positions in place, shape (n, d)."""
        if self._velocity.shape != X.shape:
            self._velocity, self._gains = np.zeros_like(X), np.ones_like(X)
        scalar, bounds = X.dtype.type, even_bounds(len(X), _ROWS)
        constants = tuple(scalar(c) for c in (learning_rate, self.momentum, UP, DOWN, LEAST, self.longest))
        sums = np.zeros((len(bounds) - 1, X.shape[1] + 1))
        state = X, gradient, self._velocity, self._gains
        run_blocks(
            lambda block, start, stop: momentum_step(state, constants, sums[block], start, stop), bounds, self._n_jobs
        )
        totals = self.sums = sums.sum(axis=0)
        self.gradient_norm = math.sqrt(totals[-1]) if totals[-1] >= 0 else math.nan
        if self.centred:
            for column, mean in zip(X.T, totals[:-1] / len(X), strict=True):
                column -= X.dtype.type(mean)


class PlainMomentum(Momentum):
    """The same by its formula, :func:`nearfar.methods.maps.momentum_step`, in NumPy."""

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the positions in place, shape (n, d)."""
        if self._velocity.shape != X.shape:
            self._velocity, self._gains = np.zeros_like(X), np.ones_like(X)
        limits = {"rate": learning_rate, "momentum": self.momentum, "longest": self.longest}
        with np.errstate(all="ignore"):  # what is not finite shows in the next look
            moved, square = methods.momentum_step(X, gradient, self._velocity, self._gains, **limits)
            self.sums = np.append(moved, square)
            self.gradient_norm = math.sqrt(square) if square >= 0 else math.nan
            if self.centred:
                X -= (moved / len(X)).astype(X.dtype)


@jit(fastmath=FAST, error_model="numpy")
def momentum_step(state, constants, sums, start, stop):
    """Move rows start..stop; write the sums of their new positions, and of the squared gradient, to ``sums``."""
    Y, G, velocity, gains = state
    learning_rate, momentum, up, down, least, longest = constants
    zero, d = Y.dtype.type(0), Y.shape[1]
    sums[:] = 0
    for i in range(start, stop):
        square = zero
        for c in range(d):
            g = G[i, c]
            v = velocity[i, c]
            opposed = (v > zero) & (g < zero) | (v < zero) & (g > zero)  # their product might underflow
            gain = gains[i, c] + up if opposed else max(gains[i, c] * down, least)
            v = momentum * v - learning_rate * gain * g
            gains[i, c] = gain
            velocity[i, c] = v
            square += v * v
        # A point that would leap is held back, by the same factor in all components.
        shrink = longest / np.sqrt(square) if square > longest * longest else Y.dtype.type(1)
        for c in range(d):
            v = shrink * velocity[i, c]
            velocity[i, c] = v
            Y[i, c] += v
            sums[c] += np.float64(Y[i, c])
            sums[d] += np.float64(G[i, c]) * np.float64(G[i, c])
