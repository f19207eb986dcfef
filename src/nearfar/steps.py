"""How rows move and where they start: on the sphere or in the ball, at which rate, from which vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.threads import even_bounds
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.methods.edrep import State, Step, ball_step, sphere_step

# Learning rates over the epochs, and when to stop.

SCHEDULES = ("linear", "cosine", "constant", "plateau")
PATIENCE = 3
"""Epochs without progress after which the plateau schedule halves the rate, and after which tolerance stops a run."""


def n_plateaus(losses: Sequence[float]) -> int:
    """Return how many times ``PATIENCE`` epochs in a row brought no new lowest loss."""
    best, since, count = math.inf, 0, 0
    for loss in losses:
        since = 0 if loss < best else since + 1
        best = min(best, loss)
        if since == PATIENCE:
            since, count = 0, count + 1
    return count


@dataclass(frozen=True)
class Rates:
    """The learning rates of a fit: None where it ends.

    They are functions of what came before, so that a resumed run continues exactly. ``"linear"`` falls from ``start``
    to 0 at ``n_epochs`` (EDRep, algorithm 1), ``"cosine"`` the same along a half cosine, ``"constant"`` stays,
    ``"plateau"`` halves whenever ``PATIENCE`` epochs brought no new lowest loss. The last two end where ``PATIENCE``
    epochs lowered the best loss by less than ``tol``, relative to its size.
    """

    schedule: str
    start: float
    n_epochs: int
    tol: float

    def __call__(self, state: State) -> float | None:
        """Return the rate of the next epoch, from the epochs and losses of a state."""
        epoch, losses = state.epoch, state.losses
        if epoch >= self.n_epochs:
            return None
        if self.schedule == "linear":
            return self.start * (1 - epoch / self.n_epochs)
        if self.schedule == "cosine":
            return self.start * (1 + math.cos(math.pi * epoch / self.n_epochs)) / 2
        # Under a falling rate the steps die out by themselves: small progress says nothing.
        if self.tol > 0 and len(losses) > PATIENCE:
            before = min(losses[:-PATIENCE])
            if before - min(losses[-PATIENCE:]) < self.tol * abs(before):
                return None
        return self.start * 0.5 ** n_plateaus(losses) if self.schedule == "plateau" else self.start


# What keeps rows valid, and random starts.

_DRAWN = 2**18  # numbers of a random start that are drawn together


def drawn_bounds(n: int, d: int) -> NDArray[np.int64]:
    """Return the bounds of the blocks of a random start that are drawn by themselves."""
    return even_bounds(n, max(1, _DRAWN // d))


def onto_sphere(X: Floats) -> Floats:
    """Scale rows to unit length, in place, and return them; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    np.divide(X, norms[:, None], out=X, where=norms[:, None] > 0)
    return X


def into_ball(X: Floats) -> Floats:
    """Scale rows longer than 1 to unit length, in place, and return them."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    np.divide(X, np.maximum(norms, 1)[:, None], out=X)
    return X


class Constraint(NamedTuple):
    """What vectors keep to: the function that puts them there, in place, and the formula of their step."""

    project: Callable[[Floats], Floats]
    step: Step


CONSTRAINTS = {"sphere": Constraint(onto_sphere, sphere_step), "ball": Constraint(into_ball, ball_step)}


class Drawn(NamedTuple):
    """Standard normal vectors of which any rows can be drawn by themselves, with the same bits.

    Block b, the rows from ``bounds[b]`` to ``bounds[b + 1]``, is drawn from ``seeds[b]``.
    """

    bounds: NDArray[np.int64]
    seeds: NDArray[np.int64]
    d: int

    @classmethod
    def of(cls, n: int, d: int, rng: np.random.Generator) -> Self:
        """Return n vectors, seeded by a generator."""
        bounds = drawn_bounds(n, d)
        return cls(bounds, rng.integers(2**63, size=len(bounds) - 1), d)

    def part(self, start: int, stop: int) -> Drawn:
        """Return what is needed to draw the rows start..stop, which keep their numbers."""
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = max(int(np.searchsorted(self.bounds, stop)), first)
        return Drawn(self.bounds[first : last + 1], self.seeds[first:last], self.d)

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the rows start..stop."""
        bounds, seeds, d = self.part(start, stop)
        X = empty_aligned((int(bounds[-1] - bounds[0]), d), np.float32)
        for (a, b), seed in zip(pairwise((bounds - bounds[0]).tolist()), seeds, strict=True):
            np.random.default_rng(seed).standard_normal(out=X[a:b], dtype=np.float32)
        return X[start - int(bounds[0]) : stop - int(bounds[0])]


@dataclass(eq=False)
class Start:
    """Vectors that a fit starts from, made where and when they are read: any rows by themselves.

    Row i is row ``source[i]`` of ``given`` where that is >= 0, else the random vector number ``draw[i]``, or i if
    nothing is given; zero where nothing is ``related``. All rows are projected.

    Parameters
    ----------
    project : callable
        Of a constraint.
    drawn : Drawn
    related : ndarray of bool, shape (n,)
    given : array_like of shape (k, d), optional
    source, draw : ndarray of int, shape (n,), optional
    first : int, default=0
        The number of the first row.
    dtype : dtype, optional
    """

    project: Callable[[Floats], Floats]
    drawn: Drawn
    related: NDArray[np.bool_]
    given: Floats | None = None
    source: NDArray[np.int64] | None = None
    draw: NDArray[np.int64] | None = None
    first: int = 0
    dtype: np.dtype[np.floating] | None = None  # that of what is given, or float32
    shape: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.shape = len(self.related), self.drawn.d
        if self.dtype is None:
            self.dtype = np.dtype(np.float32 if self.given is None else self.given.dtype)

    def __getitem__(self, rows: slice) -> Floats:
        """Return some rows, a new array."""
        start, stop, _ = rows.indices(self.shape[0])
        if self.given is None or self.source is None or self.draw is None:
            X = onto_sphere(self.drawn.rows(self.first + start, self.first + stop)).astype(self.dtype, copy=False)
        else:
            X = np.empty((stop - start, self.drawn.d), self.dtype)
            source = self.source[start:stop]
            X[source >= 0] = self.given[source[source >= 0]]
            draw = self.draw[start:stop][source < 0]
            if draw.size:
                X[source < 0] = onto_sphere(self.drawn.rows(draw[0], draw[-1] + 1)[draw - draw[0]])
        self.project(X)
        X[~self.related[start:stop]] = 0
        return X

    def narrowed(self, start: int, stop: int) -> Start | Floats:
        """Return some rows, to be read elsewhere: what makes them, or themselves where something is given."""
        if self.given is not None:
            return self[start:stop]
        drawn = self.drawn.part(self.first + start, self.first + stop)
        return Start(self.project, drawn, self.related[start:stop], first=self.first + start, dtype=self.dtype)
