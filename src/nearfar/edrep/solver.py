"""The optimisation behind EDRep: algorithm 1 of the paper, sweep by sweep.

The loss, for rows x_i and others y_a (``Y = X`` with one embedding), r = P 1 and p0 with sum 1::

    L = - tr(Xᵀ P Y)  +  sum_i r_i log Z_i  +  (rᵀ X)(Yᵀ p0),     Z_i = sum_a exp(x_i . y_a)

and its gradient with one embedding, eq. (6), the log-normaliser being differentiated for the row's own vector only::

    g_i = - ((P + Pᵀ) X)_i + r_i (∂ log Z_i / ∂ x_i + Xᵀ p0) + p0_i Xᵀ r
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.progress import ProgressLine
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.vector import FAST, empty_aligned
from nearfar.callbacks import Progress
from nearfar.contracts import FarField, Floats, Solver
from nearfar.errors import NumericalError
from nearfar.relations.near import NearField

# ------------------------------------------------------------
# Kernels of the solvers: one step of a block of rows, in place.


@jit(fastmath=FAST)
def sphere_step(X, G, learning_rate):
    """Move each row along the sphere: x <- sqrt(1 - η²) x - η g''; a row without a tangent gradient stays.

    What rounding did to the length of x in one step is put right in the next: a pass over the row less.
    """
    eta = X.dtype.type(learning_rate)
    keep = X.dtype.type(np.sqrt(1.0 - learning_rate * learning_rate))
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        along, square = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            along += x[c] * g[c]
            square += x[c] * x[c]
        if not square > 0:
            continue
        along /= square
        length = X.dtype.type(0)
        for c in range(d):
            g[c] -= along * x[c]
            length += g[c] * g[c]
        if not length > 0:
            continue
        stay, move = keep / np.sqrt(square), eta / np.sqrt(length)
        for c in range(d):
            x[c] = stay * x[c] - move * g[c]


@jit(fastmath=FAST)
def ball_step(X, G, learning_rate):
    """Move each row by η against its normalised gradient, and back to the unit ball if it left it."""
    one = X.dtype.type(1)
    eta = X.dtype.type(learning_rate)
    d = X.shape[1]
    for i in range(X.shape[0]):
        x, g = X[i], G[i]
        length = X.dtype.type(0)
        for c in range(d):
            length += g[c] * g[c]
        if not length > 0:
            continue
        move = eta / np.sqrt(length)
        norm = X.dtype.type(0)
        for c in range(d):
            x[c] -= move * g[c]
            norm += x[c] * x[c]
        if norm > 1:
            scale = one / np.sqrt(norm)
            for c in range(d):
                x[c] *= scale


# ------------------------------------------------------------
# Learning rates over the epochs, and when to stop.

SCHEDULES = ("linear", "cosine", "constant", "plateau")
PATIENCE = 3
"""Epochs without progress after which the plateau schedule halves the rate, and after which tolerance stops a run."""


def learning_rate(schedule: str, start: float, epoch: int, n_epochs: int, losses: Sequence[float]) -> float:
    """Return the rate of ``epoch`` (from 0): a function of what came before, so that a resumed run continues exactly.

    ``"linear"`` falls from ``start`` to 0 at ``n_epochs`` (EDRep, algorithm 1), ``"cosine"`` the same along a half
    cosine, ``"constant"`` stays, ``"plateau"`` halves whenever ``PATIENCE`` epochs brought no new lowest loss.
    """
    if schedule == "linear":
        return start * (1 - epoch / n_epochs)
    if schedule == "cosine":
        return start * (1 + math.cos(math.pi * epoch / n_epochs)) / 2
    if schedule == "plateau":
        return start * 0.5 ** n_plateaus(losses)
    return start


def n_plateaus(losses: Sequence[float]) -> int:
    """Return how many times ``PATIENCE`` epochs in a row brought no new lowest loss."""
    best, since, count = math.inf, 0, 0
    for loss in losses:
        since = 0 if loss < best else since + 1
        best = min(best, loss)
        if since == PATIENCE:
            since, count = 0, count + 1
    return count


def has_converged(losses: Sequence[float], tol: float) -> bool:
    """Return whether the last ``PATIENCE`` epochs lowered the best loss by less than ``tol`` relative to its size."""
    if tol <= 0 or len(losses) <= PATIENCE:
        return False
    before = min(losses[:-PATIENCE])
    return before - min(losses[-PATIENCE:]) < tol * abs(before)


# ------------------------------------------------------------
# Steps that keep vectors on the unit sphere or in the unit ball.
#
# On the sphere (EDRep, algorithm 1), with the gradient g of a row x::
#
#     g' = g - (g . x) x          its part in the tangent plane
#     g'' = g' / |g'|             of unit length: the step does not depend on the scale of the loss
#     x <- sqrt(1 - η²) x - η g''  a rotation by arcsin η, so |x| stays 1 up to rounding, which is removed


class Sphere:
    """Unit vectors and their step.

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling" (EDRep), algorithm 1.
    """

    def start(self, n: int, d: int, rng: np.random.Generator, n_jobs: int = 1) -> NDArray[np.float32]:
        """Return n independent vectors, uniform on the sphere, shape (n, d), float32; the same for any ``n_jobs``."""
        X: NDArray[np.float32] = empty_aligned((n, d), np.float32)
        bounds = even_bounds(n, max(1, 2**18 // d))
        seeds = rng.integers(2**63, size=len(bounds) - 1)

        def task(block: int, start: int, stop: int) -> None:
            np.random.default_rng(seeds[block]).standard_normal(out=X[start:stop], dtype=np.float32)
            self.project(X[start:stop])

        run_blocks(task, bounds, n_jobs)
        return X

    def project(self, X: Floats) -> Floats:
        """Scale the rows of ``X`` to unit length, in place; rows of zeros stay."""
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, norms[:, None], out=X, where=norms[:, None] > 0)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the rows of ``X``, shape (b, d), in place; ``gradient`` is used as scratch.

        ``learning_rate`` is in [0, 1], the sine of the angle moved. A row whose gradient is zero, or points along the
        row itself, stays where it is.
        """
        sphere_step(X, gradient, learning_rate)


class Ball(Sphere):
    """Vectors of length at most 1, as in the general form of the EDRep problem (norm-bounded instead of unit)."""

    def project(self, X: Floats) -> Floats:
        """Scale rows longer than 1 to unit length, in place."""
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, np.maximum(norms, 1)[:, None], out=X)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move the rows of ``X`` by ``learning_rate`` along their normalised gradients, then project, in place."""
        ball_step(X, gradient, learning_rate)


# ------------------------------------------------------------
# Kernel of EDRep: the gradient of a block of rows and its share of the loss.


@jit(fastmath=FAST)
def gradient(X, pull, force, log_z, r, others, p0, rows, loss):
    """pull_i <- -pull_i + r_i (force_i + others) + p0_i rows: eq. (6) for a block, in place.

    ``others`` is Yᵀ p0 and ``rows`` is Xᵀ r; ``rows`` is None where the gradient goes without that term. ``loss`` gets
    the block's sums of x . pull, r log Z and r x . others.
    """
    d = X.shape[1]
    near, far, prior = 0.0, 0.0, 0.0
    for i in range(X.shape[0]):
        ri = X.dtype.type(r[i])
        pi = X.dtype.type(p0[i])
        dot_pull, dot_others = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            dot_pull += X[i, c] * pull[i, c]
            dot_others += X[i, c] * others[c]
        for c in range(d):
            pull[i, c] = ri * (force[i, c] + others[c]) - pull[i, c]
        if rows is not None:
            for c in range(d):
                pull[i, c] += pi * rows[c]
        near += dot_pull
        prior += r[i] * dot_others
        if r[i] > 0:
            far += r[i] * log_z[i]
    loss[0] = near
    loss[1] = far
    loss[2] = prior


@jit(fastmath=FAST)
def other_gradient(pull, p0, rows):
    """pull_a <- -pull_a + p0_a rows: the other side of a two-sided relation, in place."""
    for a in range(pull.shape[0]):
        p = pull.dtype.type(p0[a])
        for c in range(pull.shape[1]):
            pull[a, c] = p * rows[c] - pull[a, c]


@dataclass(frozen=True)
class Sums:
    """``Yᵀ p0`` and ``Xᵀ r`` of the vectors as they stand; made block by block while they are still in the cache."""

    others: Floats
    rows: Floats

    @classmethod
    def of(cls, parts: NDArray[np.float64], X: Floats) -> Sums:
        """Add the blocks' sums in order: the same bits for any number of workers."""
        others, rows = parts.sum(axis=0).astype(X.dtype)
        return cls(others, rows)


@dataclass
class State:
    """Where a run stands: all that is needed to continue it.

    ``Y`` is None with one embedding; ``losses[e]`` is the loss at the start of epoch e, per unit of relation weight.
    """

    X: Floats
    Y: Floats | None
    rng: np.random.Generator
    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    sums: Sums | None = None
    labels: NDArray[np.integer[Any]] | None = None
    stopped: bool = False

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        arrays: dict[str, NDArray[Any]] = {"X": self.X, "losses": np.array(self.losses, np.float64)}
        if self.Y is not None:
            arrays["Y"] = self.Y
        if self.sums is not None:
            arrays["sums"] = np.stack([self.sums.others, self.sums.rows])
        if self.labels is not None:
            arrays["labels"] = self.labels.astype(np.int64, copy=False)
        return arrays, {"epoch": self.epoch, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Return the state of a snapshot; what made a run stop is forgotten, so that it can go on."""
        bits = getattr(np.random, facts["rng"]["bit_generator"])()
        bits.state = facts["rng"]
        return cls(
            X=arrays["X"],
            Y=arrays.get("Y"),
            rng=np.random.Generator(bits),
            epoch=facts["epoch"],
            losses=arrays["losses"].tolist(),
            sums=Sums(*arrays["sums"]) if "sums" in arrays else None,
            labels=arrays.get("labels"),
        )


@dataclass(frozen=True)
class Problem:
    """A relation made ready: its pulls, row weights r, prior p0, which of the others are present and how many."""

    near: NearField
    near_other: NearField | None
    r: NDArray[np.float64]
    p0: NDArray[np.float64]
    present: NDArray[np.bool_]
    n_active: int
    gradient: str

    @property
    def loss_scale(self) -> float:
        """Sum of the relation's weights."""
        return float(self.r.sum())


@dataclass(frozen=True)
class Settings:
    """How to descend; ``identity`` tells a run from others, ``started`` is when it began."""

    n_epochs: int
    learning_rate: float
    schedule: str
    tol: float
    callbacks: tuple[Callable[[Progress], bool | None], ...]
    verbose: int
    n_jobs: int
    identity: Callable[[], dict[str, Any]] = dict
    started: float = field(default_factory=time.perf_counter)


def descend(problem: Problem, state: State, far: FarField, solver: Solver, settings: Settings) -> State:
    """Descend from ``state``, in place, to the last epoch, to convergence, or until a callback says stop."""
    with ProgressLine("EDRep", settings.n_epochs, settings.verbose, "epoch") as line, single_threaded_blas():
        while not (state.stopped or state.epoch >= settings.n_epochs or _converged(state, settings)):
            rate = learning_rate(
                settings.schedule, settings.learning_rate, state.epoch, settings.n_epochs, state.losses
            )
            sweep = _sweep if state.Y is None else _two_sided_sweep
            loss = sweep(problem, state, far, solver, rate, settings.n_jobs) / problem.loss_scale
            if not np.isfinite(loss):
                raise NumericalError(
                    f"EDRep.fit: the loss must stay finite; got {loss} in epoch {state.epoch + 1} "
                    f"at learning rate {rate:.3g}. Try learning_rate={settings.learning_rate / 2:.3g}."
                )
            state.losses.append(loss)
            state.epoch += 1
            line.update(loss=loss)
            seconds = time.perf_counter() - settings.started
            report = Progress(state.epoch, settings.n_epochs, loss, rate, state, seconds, settings.identity)
            answers = [callback(report) for callback in settings.callbacks]  # all of them see every epoch
            state.stopped = any(answers)
    return state


def _converged(state: State, settings: Settings) -> bool:
    # Under a falling schedule the steps die out by themselves: small progress says nothing there.
    return settings.schedule in ("constant", "plateau") and has_converged(state.losses, settings.tol)


def _sweep(problem: Problem, state: State, far: FarField, solver: Solver, rate: float, n_jobs: int) -> float:
    """One epoch with one embedding; returns the loss before the step."""
    X, r, p0 = state.X, problem.r, problem.p0
    far.prepare(X.copy() if keeps_others(far) else X, problem.n_active, state.rng, n_jobs)
    problem.near.prepare(X)
    bounds = row_blocks(X)
    sums = state.sums or Sums.of(_block_sums((p0, r), X, n_jobs), X)
    rows = None if problem.gradient == "forward" else sums.rows
    losses, parts = np.zeros((len(bounds) - 1, 3)), np.empty((len(bounds) - 1, 2, X.shape[1]))
    transposed = _transposed_force(problem, state, far, X, n_jobs)

    def task(block: int, start: int, stop: int) -> None:
        x, pull = X[start:stop], problem.near.block(start, stop)
        force, log_z = np.empty_like(x), np.empty(stop - start)
        far.evaluate(x, log_z, force)
        gradient(x, pull, force, log_z, r[start:stop], sums.others, p0[start:stop], rows, losses[block])
        if transposed is not None:
            pull += transposed[start:stop]
        solver.step(x, pull, rate)
        parts[block] = _weighted((p0, r), x, start, stop)

    run_blocks(task, bounds, n_jobs)
    state.sums = Sums.of(parts, X)
    near, far_sum, prior = losses.sum(axis=0)
    return float(far_sum + prior - (near if problem.gradient == "forward" else near / 2))


def _two_sided_sweep(problem: Problem, state: State, far: FarField, solver: Solver, rate: float, n_jobs: int) -> float:
    """One epoch with two embeddings, both gradients taken before either side moves; returns the loss before."""
    X, Y, r, p0 = state.X, state.Y, problem.r, problem.p0
    assert Y is not None
    assert problem.near_other is not None
    near_other = problem.near_other
    far.prepare(Y, problem.n_active, state.rng, n_jobs)  # Y moves only after the last row has asked
    problem.near.prepare(Y)
    near_other.prepare(X)
    others = _block_sums((p0,), Y, n_jobs).sum(axis=0)[0].astype(Y.dtype)
    rows = _block_sums((r,), X, n_jobs).sum(axis=0)[0].astype(X.dtype)
    transposed = _transposed_force(problem, state, far, Y, n_jobs)
    bounds = row_blocks(X)
    losses = np.zeros((len(bounds) - 1, 3))

    def task(block: int, start: int, stop: int) -> None:
        x, pull = X[start:stop], problem.near.block(start, stop)
        force, log_z = np.empty_like(x), np.empty(stop - start)
        far.evaluate(x, log_z, force)
        # p0 belongs to the others: without the term of ``rows`` the kernel does not use what stands in its place.
        gradient(x, pull, force, log_z, r[start:stop], others, r[start:stop], None, losses[block])
        solver.step(x, pull, rate)

    def other_task(_block: int, start: int, stop: int) -> None:
        pull = near_other.block(start, stop)
        other_gradient(pull, p0[start:stop], rows)
        if transposed is not None:
            pull += transposed[start:stop]
        solver.step(Y[start:stop], pull, rate)

    run_blocks(task, bounds, n_jobs)
    run_blocks(other_task, row_blocks(Y), n_jobs)
    near, far_sum, prior = losses.sum(axis=0)
    return float(far_sum + prior - near)


def _transposed_force(problem: Problem, state: State, far: FarField, Y: Floats, n_jobs: int) -> Floats | None:
    """Return the gradient of ``sum_i r_i log Z_i`` in the others, which eq. (6) drops; only for ``"full"``."""
    if problem.gradient != "full":
        return None
    out = problem.near.scratch(Y.shape) if state.Y is None else np.empty_like(Y)
    out[:] = 0
    far.other_side(state.X, problem.r, Y, out, n_jobs)  # type: ignore[attr-defined]  # checked when the run was set up
    return out


def keeps_others(far: FarField) -> bool:
    """Return whether a far field reads the others while it is asked, so that they must not move meanwhile."""
    return bool(getattr(far, "keeps_others", True))


def row_blocks(X: Floats) -> NDArray[np.int64]:
    """Return the blocks of a sweep: as many rows as keep x, pull and force in the second-level cache."""
    return even_bounds(len(X), int(np.clip(2**16 // X.shape[1], 128, 8192)))


def _weighted(weights: Sequence[NDArray[np.float64]], X: Floats, start: int, stop: int) -> Floats:
    """Return ``Xᵀ w`` for a block of rows, shape (len(weights), d)."""
    return np.stack([w[start:stop] for w in weights]).astype(X.dtype) @ X


def _block_sums(weights: Sequence[NDArray[np.float64]], X: Floats, n_jobs: int) -> NDArray[np.float64]:
    """Return ``Xᵀ w`` of each block, shape (blocks, len(weights), d)."""
    bounds = row_blocks(X)
    parts = np.empty((len(bounds) - 1, len(weights), X.shape[1]))

    def task(block: int, start: int, stop: int) -> None:
        parts[block] = _weighted(weights, X[start:stop], start, stop)

    run_blocks(task, bounds, n_jobs)
    return parts


N_CHECKED_ROWS = 128


@dataclass(frozen=True)
class FarCheck:
    """The far part of the loss on a fixed sample of rows, by the far field; the exact one is computed on demand."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    log_z: NDArray[np.float64]
    n_active: int

    @classmethod
    def of(cls, problem: Problem, state: State, far: FarField, kept: NDArray[np.int64] | None, n_jobs: int) -> FarCheck:
        """Ask the far field, prepared from the final vectors, about the sample; ``kept`` names the rows outside."""
        rows = np.flatnonzero(problem.r > 0)
        rows = np.sort(np.random.default_rng(0).choice(rows, min(N_CHECKED_ROWS, rows.size), replace=False))
        X, log_z = state.X[rows], np.empty(rows.size)
        with single_threaded_blas():
            far.prepare(state.X if state.Y is None else state.Y, problem.n_active, state.rng, n_jobs)
            far.evaluate(X, log_z, np.empty_like(X))
        return cls(rows if kept is None else kept[rows], problem.r[rows], log_z, problem.n_active)

    def report(self, X: Floats, others: Floats, n_jobs: int) -> dict[str, float]:
        """Return the mean of ``r_i log Z_i`` over the sample: estimated, exact, and the exact one's standard error."""
        from nearfar.far.exact import Exact

        oracle, exact = Exact(), np.empty(self.rows.size)
        sample = X[self.rows]
        with single_threaded_blas():
            oracle.prepare(others, self.n_active, np.random.default_rng(0), n_jobs)
            bounds = even_bounds(self.rows.size, 16)
            run_blocks(lambda _b, lo, hi: oracle.evaluate(sample[lo:hi], exact[lo:hi], None), bounds, n_jobs)
        terms = self.weights * exact
        spread = float(terms.std(ddof=1) / np.sqrt(terms.size)) if terms.size > 1 else float("inf")
        return {
            "far": float((self.weights * self.log_z).mean()),
            "exact": float(terms.mean()),
            "standard_error": spread,
        }
