"""A map descends: in which phases, by which steps, when it stops; and where it starts."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._core.checks import check_callbacks, check_matrix, check_rows_differ
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Numbers, SparseMatrix
from nearfar._core.vector import in_units, unit_of
from nearfar.callbacks import Callback, Checkpoint, Trainer
from nearfar.contracts import Divergence, Floats, Kernel, Objective, Place
from nearfar.divergences.probability import KL, linear_formulas, strength_of
from nearfar.errors import InputError, NumericalError
from nearfar.far.barnes_hut import spread_bits
from nearfar.kernels import HeavyTailed, parameter_of_each, plain
from nearfar.maps.objective import Normalization, RowBlocks, union_pattern
from nearfar.methods.maps import implicit, momentum_step
from nearfar.relations.copies import Copies
from nearfar.relations.operators import Sparse

LOOK_EVERY = 50
"""Iterations between two looks at the cost, which stopping rules, callbacks and the progress line go by."""
EARLY_MOMENTUM = 0.8
LATE_MOMENTUM = (0.9, 0.95)
"""Momentum after the first phase for kernels with long tails; the second where reverse KL has a part. Near its minimum
large forces cancel, and a mesh's errors turn the signs of what is left: the longer memory averages over them."""
FALL = 0.16
"""Share of the exaggerated iterations for each of two lesser exaggerations, where t-SNE begins another map."""
_FAR_OFF, _SHORT = 100.0, 1e-6
"""A kernel below _SHORT at this squared distance, in units of its reach, has short tails."""
_SIZES = 2.0 ** np.arange(0, -6, -0.5)  # of a map under another kernel, in units of its own
_SORT_FROM = 10_000  # points; fewer are near enough wherever they are


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


class Pace(NamedTuple):
    """The parameters of a map that say how long phases are, and how long steps."""

    learning_rate: float | Literal["auto"]
    max_iter: int
    early_exaggeration: float
    early_exaggeration_iter: int
    exaggeration: float


def phases_of(
    P: RowBlocks, kernel: Kernel, divergence: Divergence, normalization: Normalization, pace: Pace, *, decays: bool
) -> list[Phase]:
    """Return what is minimised when: exaggerated KL first, then the divergence itself.

    Where the kernel has short tails and the divergence is another than KL, the first phases are those of t-SNE: its
    long tails bring groups together that short ones leave apart. Their exaggeration ends in steps. Where attraction
    prevails sheets stay whole and unfold (Böhm, Berens & Kobak 2022); at once they would tear, and short tails do not
    mend what is torn.

    The learning rate is n / (4 exaggeration) (Belkina et al. 2019; 4 as in the gradient) for a kernel that falls
    over a length 1. Where its tails are short, a point that leaps too far finds no way back: there the steps are
    shorter, and so the more the harder the divergence pulls. A last phase that ``decays`` has steps that fall to 0.
    """
    n, early, late = P.shape[0], float(pace.early_exaggeration), float(pace.exaggeration)
    reach, _, long_tails = extent(kernel, n)
    rate = late_rate = n / 4 * reach**2
    formulas = linear_formulas(divergence, 1 / ((n - 1) * (1 if normalization == "row" else n)))
    if long_tails:
        longest, momentum = reach, LATE_MOMENTUM[bool(formulas is not None and formulas.far_log > 0)]
    else:
        longest = 0.3 * reach
        if formulas is not None:  # how strongly a typical pair is drawn together, in units of p, which is that of KL
            typical = np.array([P.typical()])
            late_rate = rate / float((strength_of(formulas, typical, typical) / typical)[0])
        # From a map of t-SNE Jensen-Shannon gets further with the longer memory; reverse KL's forces oscillate with it.
        mixes = divergence != KL() and formulas is not None and not formulas.far_log
        momentum = LATE_MOMENTUM[0] if mixes else EARLY_MOMENTUM

    phases, early_iter = [], 0 if normalization == "none" else min(pace.early_exaggeration_iter, pace.max_iter)
    if early_iter and (long_tails or divergence == KL() or parameter_of_each(kernel) is not None):
        of_kl = divergence != KL()
        phases = [Phase(early_iter, early, rate / early, EARLY_MOMENTUM, longest, may_stop=False, early=of_kl)]
    elif early_iter:  # t-SNE under a kernel of the same reach: exaggerated, less and less towards the end, then not
        student, each = HeavyTailed(1.0, 1 / reach**2), int(FALL * early_iter)
        steps = [(early_iter - 2 * each, early, EARLY_MOMENTUM)]
        steps += [(each, early**power, LATE_MOMENTUM[0]) for power in (2 / 3, 1 / 3)]
        steps += [(min(early_iter, (pace.max_iter - early_iter) // 2), 1.0, LATE_MOMENTUM[0])]
        phases = [
            Phase(n_iter, factor, rate / factor, of_step, reach, may_stop=False, early=True, kernel=student)
            for n_iter, factor, of_step in steps
        ]
    left = pace.max_iter - sum(phase.n_iter for phase in phases)
    phases.append(Phase(left, late, late_rate / late, momentum, longest, may_stop=True, decays=decays))
    if pace.learning_rate == "auto":
        return phases
    return [replace(phase, learning_rate=float(pace.learning_rate)) for phase in phases]


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


@dataclass
class Watch:
    """What looks after a descent: it keeps the cost, tells callbacks, and says when to stop.

    ``scale`` turns the objective's cost and gradient into those that are reported: the mean over rows for "row".
    """

    owner: str
    state: MapState
    scale: float
    min_grad_norm: float
    n_iter_without_progress: int
    trainer: Trainer
    lost: str = ""
    """What is said where numbers are not finite."""
    best: tuple[float, int] = (math.inf, 0)
    """The least cost of the phase, and when."""

    def look(self, phase: Phase, cost: float | None, square: float) -> bool:
        """Take in the cost of the fit and the square of the last gradient; return whether the descent should stop."""
        state = self.state
        if cost is None or not (np.isfinite(cost) and (abs(state.Y) < math.inf).all()):
            lost = self.lost or f"the map left the finite numbers within {state.n_iter} iterations."
            raise NumericalError(f"{self.owner}: {lost} Take a smaller learning_rate.")
        state.costs.append(cost * self.scale)
        state.cost_iterations.append(state.n_iter)
        state.stopped = self.trainer.tell(state.n_iter, state.costs[-1], phase.learning_rate, state, steps=0)
        if state.costs[-1] < self.best[0]:
            self.best = state.costs[-1], state.n_iter
        stalled = state.n_iter - self.best[1] > self.n_iter_without_progress
        at_rest = square <= self.min_grad_norm**2  # not in the first iteration, where it is NaN
        state.stopped |= phase.may_stop and (stalled or at_rest)
        return state.stopped


def descend(place: Place, objective: Objective, phases: Sequence[Phase], watch: Watch) -> bool:
    """Move ``watch.state.Y`` through all phases by gradient descent with momentum; return whether no look said stop.

    Every 50 iterations ``watch`` looks at the cost of the whole fit, also where a phase minimises another one.
    """
    state = watch.state
    for phase, after in zip(phases, [*phases[1:], None], strict=True):
        watch.best = math.inf, state.n_iter
        if len(state.Y) >= _SORT_FROM and objective.reorder(order := z_order(state.Y)):  # neighbours side by side
            before = order if state.order is None else state.order[order]
            state.Y, state.order = np.ascontiguousarray(state.Y[order]), before  # together: Ctrl-C may come at any call
        minimised = objective.early(phase.kernel) if phase.early else objective
        scale = 1.0 if phase.kernel is not None else watch.scale
        held = minimised.held  # to places, which say where the mean is, too
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
            state.n_iter += 1
            watch.trainer.advance()
        if phase.kernel is not None and (after is None or after.kernel is None):
            # To half the size at which the map costs least: there points hardly pass each other.
            costs = [objective.value(place.bring(state.Y * float(size))) for size in _SIZES]
            state.Y = state.Y * float(_SIZES[int(np.argmin(costs))] / 2)
    return True


def z_order(Y: Floats) -> NDArray[np.integer]:
    """Return the rows along a curve, the Z-order of a grid of 1024 x 1024 cells over the first two components."""
    Y = Y[:, :2]
    low, span = Y.min(axis=0), float(np.ptp(Y, axis=0).max())
    cells = ((Y - low) * (1023 / span if span > 0 else 0)).astype(np.uint64)
    code, spread = np.zeros(len(Y), np.uint64), cast("Any", plain(spread_bits))
    for c in range(Y.shape[1]):
        code |= spread(cells[:, c], Y.shape[1]) << np.uint64(c)
    return np.argsort(code, kind="stable")


INITS = ("auto", "pca", "spectral", "random")
SPREAD = 1e-4
"""Standard deviation of the first component of a start: small, so that points can still pass each other."""
_SQUARES = np.append(0.0, 10.0 ** np.arange(-8, 8.5, 0.5))  # squared distances at which a kernel is looked at
_STEEP = 0.1  # share of its greatest slope
_JITTER = 0.01  # of it, so that rows that are equal do not stay together by symmetry alone
_WIDE = 2000  # columns, from which on the covariance matrix is not the quickest way to principal components
_FAR = 1e15  # of a position: the squares of distances, summed, are in the range of float32


def extent(kernel: Kernel, n: int) -> tuple[float, float, bool]:
    """Return over which distance a kernel falls, how wide a start of n points is that it pulls at once, and its tails.

    Most kernels are steepest at distance 0. One that is flat there, such as 1 / (1 + f^2), would leave points that
    start together where they are. Long tails draw points together that are far apart, as short ones don't.
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
    has_tails = bool(kernel.weight(np.full((n, 1), _FAR_OFF * reach**2)).max() > _SHORT)
    return reach, math.sqrt(_SQUARES[first]) if first else SPREAD, has_tails


def check_watchers(owner: str, callbacks: object, again: str) -> tuple[Callback, ...]:
    """Return the callbacks of a map, none for None; what keeps checkpoints is refused, ``again`` says what to do."""
    checked = check_callbacks(owner, callbacks)
    if any(isinstance(callback, Checkpoint) for callback in checked):
        hint = f"A map continues from a start: {again}."
        raise InputError(owner, "callbacks", "functions of a Progress", "a Checkpoint", hint)
    return checked


def given_start(owner: str, init: object, words: Sequence[str], shape: tuple[int, int]) -> Floats:
    """Return positions that are given in place of one of the words, checked."""
    if init is None or isinstance(init, str):
        raise InputError(owner, "init", f"one of {', '.join(map(repr, words))} or an array", repr(init))
    given = check_matrix(owner, "init", init, rows=shape[0], columns=shape[1])
    check_rows_differ(owner, "init", given)
    return given


def start(
    owner: str,
    init: str | Numbers,
    X: Floats | SparseMatrix | None,
    P: RowBlocks,
    shape: tuple[int, int],
    rng: np.random.Generator,
    n_jobs: int,
    size: float = SPREAD,
    copies: Copies | None = None,
) -> Floats:
    """Return first positions, C-contiguous; float64 if such are given, else float32.

    Parameters
    ----------
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d)
        "auto" is PCA of the data, spectral for a relation. An array is taken as it is; with copies it has all rows, and
        of copies the first counts.
    X : ndarray or sparse matrix of shape (n, p), or None
        The data; None for a relation.
    P : RowBlocks of shape (n, n)
        For the spectral start.
    shape : tuple
        (n, d).
    size : float
        Standard deviation of the first component.
    """
    if not (isinstance(init, str) and init in INITS):
        given = given_start(owner, init, INITS, shape if copies is None else (len(copies.same), shape[1]))
        if (largest := float(np.abs(given).max())) > _FAR:
            raise InputError(owner, "init", f"of positions up to {_FAR:g}", f"{largest:g}", "Divide it by a constant.")
        return np.array(given if copies is None else given[copies.first])
    if init == "auto":
        init = "spectral" if X is None else "pca"
    if init == "pca" and X is None:
        hint = "Take init='spectral' or 'random'."
        raise InputError(owner, "init", "other than 'pca' where there are no rows of numbers", "'pca'", hint)
    if init == "random" or shape[1] >= shape[0]:
        return rng.normal(0, size, shape).astype(np.float32)
    with single_threaded_blas():  # the same bits for any number of workers
        if X is not None and init == "pca":
            Y = _principal_components(X, shape[1], rng, n_jobs)
        else:
            Y = _spectral(P, shape[1], rng, n_jobs)
    Y = in_units(Y)[0].astype(np.float64, copy=False)
    spread = Y[:, 0].std()
    Y *= size / spread if spread > 0 else 0
    return np.ascontiguousarray(Y + rng.normal(0, size * _JITTER, shape), dtype=np.float32)


def _principal_components(
    X: Floats | SparseMatrix, d: int, rng: np.random.Generator, n_jobs: int
) -> NDArray[np.float64]:
    """Scores of the first components, largest first; columns of zeros where X has fewer."""
    n, p = X.shape
    k = min(d, n, p)
    scores = np.zeros((n, d))
    if (issparse(X) and p > 1) or p > _WIDE:
        from sklearn.decomposition import TruncatedSVD

        # Without centring a sparse matrix would stay sparse, but the first component would be the mean.
        model = TruncatedSVD(min(k + 1, min(n, p) - 1) or 1, random_state=int(rng.integers(2**31 - 1)))
        rows: Any = X
        unit = unit_of(rows if isinstance(X, np.ndarray) else rows.data)
        with np.errstate(invalid="ignore"):  # the shares of the variance, where there is none
            found = model.fit_transform(rows if unit == 1 else rows / unit) * unit
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
        def times(v: NDArray[np.float64]) -> NDArray[np.float64]:
            v = v.reshape(n, 1)
            return scale * A.matmat(scale * v, n_jobs=n_jobs) - first * (first.T @ v)

        normalized = LinearOperator((n, n), matvec=times, dtype=np.float64)
        pairs: tuple[NDArray[np.inexact], NDArray[np.inexact]]
        try:
            pairs = eigsh(normalized, d, which="LA", v0=rng.standard_normal(n), tol=1e-4, maxiter=100)
        except ArpackNoConvergence as error:
            pairs = error.eigenvalues, error.eigenvectors
        levels, vectors = (np.asarray(part, np.float64) for part in pairs)
        vectors = vectors[:, np.argsort(-levels)]
    Y = np.zeros((n, d))
    Y[:, : vectors.shape[1]] = vectors * scale
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1)
