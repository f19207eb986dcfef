"""The optimisation behind EDRep: the sweeps of algorithm 1 of the paper, and their steps.

The loss, for rows x_i and others y_a (``Y = X`` with one embedding), r = P 1 and p0 with sum 1::

    L = - tr(Xᵀ P Y)  +  sum_i r_i log Z_i  +  (rᵀ X)(Yᵀ p0),     Z_i = sum_a exp(x_i . y_a)

and its gradient with one embedding, eq. (6), the log-normaliser being differentiated for the row's own vector only::

    g_i = - ((P + Pᵀ) X)_i + r_i (∂ log Z_i / ∂ x_i + Xᵀ p0) + p0_i Xᵀ r

With scores x . y over a temperature T, Z_i = sum_a exp(x_i . y_a / T) and the two other terms are divided by T (the
third by -T where T < 0). Steps are taken against |T| times the gradient, a factor that they do not notice: ``force`` is
then that of the far field at x_i / T, and all else is as above, but for signs where T < 0.

The step on the sphere::

    g' = g - (g . x) x           its part in the tangent plane
    g'' = g' / |g'|              of unit length: the step does not depend on the scale of the loss
    x <- sqrt(1 - η²) x - η g''  a rotation by arcsin η, so |x| stays 1 up to rounding, which is removed
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checkpoint import check_array, generator_of
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST, empty_aligned
from nearfar.contracts import FarField, Floats, Solver
from nearfar.errors import InputError
from nearfar.relations.near import NearField, NearProduct, near_field
from nearfar.relations.operators import LinearOperator


@dataclass(frozen=True)
class Problem:
    """What an engine sweeps over: the relation P and what the loss has beside it.

    ``r`` are the row sums, ``p0`` is the prior; ``n_active`` counts the others that have a relation; ``gradient`` is
    ``"paper"``, ``"forward"`` or ``"full"``; the score is ``x . y / temperature``.
    """

    P: LinearOperator
    two_sided: bool
    r: NDArray[np.float64]
    p0: NDArray[np.float64]
    n_active: int
    gradient: str
    temperature: float = 1.0


@dataclass
class State:
    """Where a fit stands: all that is needed to continue it.

    ``Y`` is None with one embedding; ``losses[e]`` is the loss at the start of epoch e, per unit of relation weight;
    ``sums`` are ``Yᵀ p0`` and ``Xᵀ r`` of the vectors as they stand, made while these are still in the cache.
    """

    X: Floats
    Y: Floats | None
    rng: np.random.Generator
    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    sums: Floats | None = None
    labels: NDArray[np.integer[Any]] | None = None

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        arrays: dict[str, Any] = {"X": self.X, "Y": self.Y, "sums": self.sums, "labels": self.labels}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        arrays["losses"] = np.array(self.losses, np.float64)
        return arrays, {"epoch": self.epoch, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], sizes: Sequence[int], d: int, n_clusters: int
    ) -> Self:
        """Return the state of a snapshot, for sides of so many rows.

        Raises
        ------
        InputError
            If it has other rows or sides.
        ValueError, TypeError, LookupError, ArithmeticError
            If it is the state of no fit of ``d`` components and at most ``n_clusters`` clusters.
        """
        sides = {"X": arrays["X"], **({"Y": arrays["Y"]} if "Y" in arrays else {})}
        if [len(side) for side in sides.values()] != list(sizes):
            got = f"one of {[len(side) for side in sides.values()]}"
            raise InputError("EDRep.fit", "resume", f"a state of {list(sizes)} rows", got)
        dtype, epoch, losses = arrays["X"].dtype, facts["epoch"], arrays["losses"]
        if dtype not in (np.float32, np.float64) or type(epoch) is not int:
            raise TypeError(f"vectors of {dtype}, epoch {epoch!r}")
        for (name, side), size in zip(sides.items(), sizes, strict=True):
            check_array(name, side, dtype, (size, d))
        check_array("losses", losses, np.float64, (epoch,))
        if "sums" in arrays:
            check_array("sums", arrays["sums"], dtype, (2, d))
        if "labels" in arrays:
            check_array("labels", arrays["labels"], np.int64, (sizes[-1],), low=-1, high=n_clusters - 1)
        return cls(
            X=arrays["X"],
            Y=arrays.get("Y"),
            rng=generator_of(facts["rng"]),
            epoch=epoch,
            losses=losses.tolist(),
            sums=arrays.get("sums"),
            labels=arrays.get("labels"),
        )


@dataclass(eq=False)
class Step:
    """One step of many rows, a block at a time; what an engine does with the rows that it holds.

    ``pull(start, stop)`` returns rows of the near field, which are overwritten; ``added`` is a further gradient, if
    there is one; ``sums`` are ``Yᵀ p0`` and ``Xᵀ r``, with the sign of the temperature. Written per block: the three
    parts of the loss before, and ``weights @ X`` after the step.
    """

    X: Floats
    pull: Callable[[int, int], Floats]
    r: NDArray[np.float64]
    p0: NDArray[np.float64]
    added: Floats | None
    weights: Floats
    far: FarField
    solver: Solver
    rate: float
    sums: tuple[Floats, Floats]
    temperature: float
    losses: NDArray[np.float64]
    products: NDArray[np.float64]

    def rows(self, block: int, start: int, stop: int) -> None:
        """Move rows: those that have a normaliser."""
        x, pull = self.X[start:stop], self.pull(start, stop)
        force, log_z = np.empty_like(x), np.empty(stop - start)
        self.far.evaluate(x if self.temperature == 1 else x / self.temperature, log_z, force)
        self.losses[block] = gradient(x, pull, force, log_z, (self.r[start:stop], self.p0[start:stop]), self.sums)
        if self.added is not None:
            pull += self.added[start:stop]
        if self.temperature < 0:
            np.negative(pull, out=pull)
        self.solver.step(x, pull, self.rate)
        self.products[block] = self.weights[:, start:stop] @ x

    def others(self, block: int, start: int, stop: int) -> None:
        """Move the others of a two-sided fit, which have no normaliser of their own: their r is zero."""
        y, pull = self.X[start:stop], self.pull(start, stop)
        self.losses[block] = gradient(
            y, pull, pull, self.r[start:stop], (self.r[start:stop], self.p0[start:stop]), self.sums
        )
        if self.added is not None:
            pull += self.added[start:stop]
        self.solver.step(y, pull, self.rate)
        self.products[block] = self.weights[:, start:stop] @ y


@dataclass(eq=False)
class Threads:
    """The engine of this machine's processors: compiled loops over blocks of rows, on ``n_jobs`` threads."""

    problem: Problem
    n_jobs: int
    near: NearField | None = None  # made by the first sweep
    near_other: NearField | None = None  # of the others of a two-sided fit

    def fetch(self, state: State) -> None:
        """Do nothing: the vectors are where they are."""

    def sweep(self, state: State, far: FarField, solver: Solver, rate: float) -> float:
        """Move every vector by one step against its gradient; return the loss before.

        Far and near fields are prepared from the vectors as they stand, so rows may move one after the other. With two
        sides both gradients are taken before either side moves.
        """
        problem, n_jobs = self.problem, self.n_jobs
        if self.near is None and problem.two_sided:
            self.near = NearProduct(problem.P, n_jobs=n_jobs)
            self.near_other = NearProduct(problem.P, transposed=True, n_jobs=n_jobs)
        elif self.near is None:
            both, scratch = problem.gradient != "forward", problem.gradient == "full"
            self.near = near_field(problem.P, both=both, n_jobs=n_jobs, scratch=scratch)
        near, near_other = self.near, self.near_other
        X, Y, r, p0, temperature = state.X, state.Y, problem.r, problem.p0, problem.temperature
        others = X if Y is None else Y
        moving = Y is None and getattr(far, "keeps_others", True)  # while rows still ask about them
        far.prepare(others.copy() if moving else others, problem.n_active, state.rng, n_jobs)
        near.prepare(others)
        if near_other is not None:
            near_other.prepare(X)
        both = Y is None and problem.gradient != "forward"  # whether the rows are others, too, as in eq. (6)
        zeros = np.zeros(max(len(X), len(others)))
        # Blocks of as many rows as keep x, pull and force in the second-level cache.
        block_size = int(np.clip(2**16 // X.shape[1], 128, 8192))
        bounds, other_bounds = even_bounds(len(X), block_size), even_bounds(len(others), block_size)
        weights = (np.stack((p0, r)) if Y is None else r[None]).astype(X.dtype)
        other_weights = p0[None].astype(X.dtype)
        if state.sums is None:  # in the first epoch; later ones find those that the steps before them left
            sides = [(weights, X, bounds)] if Y is None else [(other_weights, Y, other_bounds), (weights, X, bounds)]
            products = [[w[:, a:b] @ V[a:b] for a, b in pairwise(limits.tolist())] for w, V, limits in sides]
            state.sums = np.concatenate([np.sum(side, axis=0, dtype=np.float64) for side in products]).astype(X.dtype)
        sums = (state.sums[0], state.sums[1])
        if temperature < 0:  # the prior pushes the mean towards zero all the same
            sums = (-sums[0], -sums[1])
        transposed: Floats | None = None
        if problem.gradient == "full":  # the gradient of sum_i r_i log Z_i in the others, which eq. (6) drops
            transposed = near.scratch(others.shape)
            transposed[:] = 0
            far.other_side(X if temperature == 1 else X / temperature, r, others, transposed, n_jobs)  # type: ignore[attr-defined]  # checked before
            if temperature != 1:
                transposed *= temperature  # of the loss times the temperature, as the rest
        step = Step(
            X,
            near.block,
            r,
            p0 if both else zeros,
            transposed if Y is None else None,
            weights,
            far,
            solver,
            rate,
            sums,
            temperature,
            np.empty((len(bounds) - 1, 3)),
            np.empty((len(bounds) - 1, len(weights), X.shape[1])),
        )
        run_blocks(step.rows, bounds, n_jobs)
        losses = step.losses.sum(axis=0)
        state.sums = step.products.sum(axis=0).astype(
            X.dtype
        )  # in the order of the blocks: the same bits for any n_jobs
        if near_other is not None:
            step = replace(
                step,
                X=others,
                pull=near_other.block,
                r=zeros,
                p0=p0,
                added=transposed,
                weights=other_weights,
                losses=np.empty((len(other_bounds) - 1, 3)),
                products=np.empty((len(other_bounds) - 1, 1, X.shape[1])),
            )
            run_blocks(step.others, other_bounds, n_jobs)
            state.sums = np.concatenate((step.products.sum(axis=0).astype(X.dtype), state.sums))
        near_sum, far_sum, prior = losses
        return float(far_sum + prior / temperature - (near_sum / 2 if both else near_sum) / temperature)


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


_DRAWN = 2**18  # numbers of a random start that are drawn together


class Sphere:
    """Unit vectors and their step, see the module.

    Examples
    --------
    >>> import numpy as np
    >>> X = Sphere().start(4, 2, np.random.default_rng(0))
    >>> Sphere().step(X, np.ones((4, 2), np.float32), learning_rate=0.5)
    >>> np.linalg.norm(X, axis=1).round(6)
    array([1., 1., 1., 1.], dtype=float32)

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling" (EDRep), algorithm 1.
    """

    torch_form: ClassVar[str | None] = "nearfar.engines.torch.edrep:sphere_step"

    def start(
        self, n: int, d: int, rng: np.random.Generator, n_jobs: int = 1, out: Floats | None = None
    ) -> NDArray[np.float32]:
        """Return independent vectors, uniform on the sphere.

        Parameters
        ----------
        n, d : int
            Number of vectors, and their dimension.
        rng : numpy.random.Generator
        n_jobs : int, default=1
            Number of threads. It does not change the result.
        out : ndarray of shape (n, d), float32, optional
            Where they are written; a new array by default.

        Returns
        -------
        ndarray of shape (n, d), float32
        """
        X: NDArray[np.float32] = empty_aligned((n, d), np.float32) if out is None else out
        bounds = even_bounds(n, max(1, _DRAWN // d))
        seeds = rng.integers(2**63, size=len(bounds) - 1)

        def task(block: int, start: int, stop: int) -> None:
            np.random.default_rng(seeds[block]).standard_normal(out=X[start:stop], dtype=np.float32)
            self.project(X[start:stop])

        run_blocks(task, bounds, n_jobs)
        return X

    @staticmethod
    def seeds(n: int, d: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the bounds of the blocks that :meth:`start` draws by themselves, and the seed of each.

        Parameters
        ----------
        n, d : int
        rng : numpy.random.Generator

        Returns
        -------
        (ndarray, ndarray)
        """
        bounds = even_bounds(n, max(1, _DRAWN // d))
        return bounds, rng.integers(2**63, size=len(bounds) - 1)

    def drawn(
        self, bounds: NDArray[np.int64], seeds: NDArray[np.int64], start: int, stop: int, d: int
    ) -> NDArray[np.float32]:
        """Return some rows of what :meth:`start` returns.

        Parameters
        ----------
        bounds, seeds : ndarray
            As :meth:`seeds` gives them.
        start, stop : int
            Which rows.
        d : int

        Returns
        -------
        ndarray of shape (stop - start, d), float32
        """
        blocks = [k for k, (a, b) in enumerate(pairwise(bounds)) if a < stop and b > start]
        first = int(bounds[blocks[0]]) if blocks else start
        X: NDArray[np.float32] = empty_aligned((int(bounds[blocks[-1] + 1]) - first if blocks else 0, d), np.float32)
        for k in blocks:
            own = X[int(bounds[k]) - first : int(bounds[k + 1]) - first]
            np.random.default_rng(seeds[k]).standard_normal(out=own, dtype=np.float32)
            self.project(own)
        return X[start - first : stop - first]

    def project(self, X: Floats) -> Floats:
        """Scale rows to unit length, in place; rows of zeros stay.

        Parameters
        ----------
        X : ndarray of shape (n, d), float32 or float64

        Returns
        -------
        ndarray of shape (n, d)
            ``X`` itself.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, norms[:, None], out=X, where=norms[:, None] > 0)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move unit vectors against their gradient, in place.

        A row whose gradient is zero, or points along the row itself, stays where it is.

        Parameters
        ----------
        X, gradient : ndarray of shape (b, d), float32 or float64
            The vectors and the gradient of the loss in them. ``gradient`` is overwritten.
        learning_rate : float in [0, 1]
            Sine of the angle moved.
        """
        sphere_step(X, gradient, learning_rate)


class Ball(Sphere):
    """Vectors of length at most 1, as in the general form of the EDRep problem (norm-bounded instead of unit).

    Examples
    --------
    >>> import numpy as np
    >>> Ball().project(np.array([[3.0, 4.0], [0.1, 0.0]]))
    array([[0.6, 0.8],
           [0.1, 0. ]])

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling" (EDRep).
    """

    torch_form: ClassVar[str | None] = "nearfar.engines.torch.edrep:ball_step"

    def project(self, X: Floats) -> Floats:
        """Scale rows longer than 1 to unit length, in place.

        Parameters
        ----------
        X : ndarray of shape (n, d), float32 or float64

        Returns
        -------
        ndarray of shape (n, d)
            ``X`` itself.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        np.divide(X, np.maximum(norms, 1)[:, None], out=X)
        return X

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move vectors along their normalised gradients, then project, in place.

        Parameters
        ----------
        X, gradient : ndarray of shape (b, d), float32 or float64
            The vectors and the gradient of the loss in them. ``gradient`` is overwritten.
        learning_rate : float
            Length of the step.
        """
        ball_step(X, gradient, learning_rate)


# Compiled loops over a block of rows, in place.


@jit(fastmath=FAST)
def gradient(X, pull, force, log_z, weights, sums):
    """Turn the pull of a block of rows into their gradient: eq. (6), in place; return the block's parts of the loss.

    ``pull_i <- -pull_i + r_i (force_i + Yᵀ p0) + p0_i Xᵀ r``

    Parameters
    ----------
    X : ndarray of shape (b, d)
        The rows.
    pull : ndarray of shape (b, d)
        Rows of ``(P + Pᵀ) X``, or of ``P X`` with zeros for p0; overwritten.
    force : ndarray of shape (b, d)
        Gradient of log Z_i in x_i, from the far field.
    log_z : ndarray of float64, shape (b,)
        log Z_i.
    weights : pair of ndarray of float64, shape (b,)
        r and p0 of the rows.
    sums : pair of ndarray of shape (d,)
        ``Yᵀ p0`` and ``Xᵀ r``.

    Returns
    -------
    near, far, prior : float
        The sums of x . pull, r log Z and r x . Yᵀ p0.

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling" (EDRep), eqs. (5), (6).
    """
    r, p0 = weights
    of_others, of_rows = sums
    d = X.shape[1]
    near, far, prior = 0.0, 0.0, 0.0
    for i in range(X.shape[0]):
        ri = X.dtype.type(r[i])
        pi = X.dtype.type(p0[i])
        dot_pull, dot_others = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            dot_pull += X[i, c] * pull[i, c]
            dot_others += X[i, c] * of_others[c]
        for c in range(d):
            pull[i, c] = ri * (force[i, c] + of_others[c]) - pull[i, c]
        for c in range(d):
            pull[i, c] += pi * of_rows[c]
        near += dot_pull
        prior += r[i] * dot_others
        if r[i] > 0:
            far += r[i] * log_z[i]
    return near, far, prior


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
