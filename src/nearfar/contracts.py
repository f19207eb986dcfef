"""The contracts: what each part of a method must offer, and nothing more.

Every method of this library minimises a near part, a sum over the observed relations, plus a far part, a normaliser
over all pairs (see the guide "Near and far field"). A part keeps to one of the protocols below, has at most four
methods, and knows nothing of its neighbours; the guide "Extending" writes one of each. Data flows one way::

    EDRep    relation ──▶ gradient, far field (FarField) ──▶ Solver ──▶ vectors
    a map    relation ──▶ objective (Kernel, Divergence, Field) ──▶ descent in phases ──▶ positions

Arrays are float32 in hot loops and float64 where a part is used on its own with float64 input. ``n`` counts rows, ``m``
columns (the others that a row is compared with), ``d`` is ``n_components``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@runtime_checkable
class FarField(Protocol):
    """Far field of the softmax: the normaliser ``Z_i = sum_a exp(x_i . y_a)`` over all others, and its gradient.

    It works in two steps: ``prepare`` takes in all the others once per sweep, ``evaluate`` then answers for blocks of
    rows, from several threads at once. The far fields of maps (:class:`nearfar.far.ExactField`) work in the same two
    steps, with a kernel of the distance in place of the exponential: ``place(Y, kernel, n_jobs)`` takes in all
    positions, ``evaluate(terms)`` answers for all points at once.

    Optional: a method ``other_side(X, r, Y, out, n_jobs)`` gives the gradient in the others, see
    :meth:`nearfar.far.Exact.other_side`, which ``EDRep(gradient="full")`` needs. The attribute ``keeps_others`` is
    False where ``evaluate`` does not read the others again; ``force_is_optional`` is True where it takes None for
    ``force``.
    """

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:
        """Take in the others, shape (m, d); rows of zeros are absent, ``n_active`` counts the rest.

        They may be kept by reference: the caller leaves them unchanged until the last ``evaluate``, unless
        ``keeps_others`` is False.
        """

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats) -> None:
        """Write log Z_i, shape (b,), and its gradient in x_i, shape (b, d), of a block of rows."""


@runtime_checkable
class Solver(Protocol):
    """Solver: one step of a block of rows against its gradient, in place, keeping the representation valid."""

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move ``X``, shape (b, d); ``gradient`` may be used as scratch."""


@runtime_checkable
class Engine(Protocol):
    """Engine: where the sweeps of EDRep run. The threads of this machine, a device, or the workers of a cluster.

    It is made of the problem, the relation included, and does with it all arithmetic that grows with the number of
    objects: pull, far field, step, and the sums over all rows. The estimator keeps the algorithm: learning rates,
    stopping, callbacks, checkpoints, ids.
    """

    def sweep(self, state: Any, far: FarField, solver: Solver, rate: float) -> float:
        """Move every vector one step from where ``state`` says they are; return the loss before.

        A state that it has not seen is read: ``X``, ``Y``. After that the vectors may be elsewhere until ``fetch``;
        ``sums`` of the state, of shape (2, d), are always those after the step.
        """

    def fetch(self, state: Any) -> None:
        """Bring ``X`` and ``Y`` of the state up to date."""


@runtime_checkable
class Kernel(Protocol):
    """Kernel of a map: how alike two points are, as a function of their squared distance.

    For linear time it also has ``formulas``, see :class:`nearfar.kernels.Kernel`.
    """

    def weight(self, f: Floats) -> Floats:
        """Return w(f) > 0 of squared distances, elementwise."""

    def slope(self, f: Floats) -> Floats:
        """dw/df, which is not positive."""


@runtime_checkable
class Divergence(Protocol):
    """Divergence of a map: the cost of its probabilities q against those of the data, p.

    For linear time it also has ``formulas``, see :class:`nearfar.divergences.Divergence`.
    """

    def value(self, p: Floats, q: Floats) -> NDArray[np.float64]:
        """Cost of each entry, same shape as ``p``; the total is their sum."""

    def derivative(self, p: Floats, q: Floats) -> Floats:
        """Return the derivative of the cost of each entry in its q."""


@runtime_checkable
class Field(Protocol):
    """Far field of a map: sums over all pairs of points, exact or in linear time."""

    def place(self, Y: Floats, kernel: Any, n_jobs: int) -> None:
        """Take in the positions, shape (n, d), and the kernel; ``Y`` is not changed until the next call."""

    def evaluate(self, terms: Sequence[Any]) -> list[Any]:
        """Return a :class:`nearfar.far.Potential` for each :class:`nearfar.far.Term`, in the dtype of the positions.

        The arrays may be reused by the next call.
        """

    def total(self, terms: Sequence[Any]) -> Any:
        """Return the sum of the potentials of one or more terms."""


@runtime_checkable
class Objective(Protocol):
    """What a map minimises.

    On a cluster positions and gradient stay on the workers: the gradient is for the solver of that cluster alone.
    """

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient, shape (n, d), which the next call may overwrite, and if asked for the true cost."""

    def early(self, kernel: Any = None) -> Objective:
        """Return the same with KL for the divergence; with a kernel, which then stands for its own, by pair."""

    def reorder(self, order: NDArray[np.integer[Any]]) -> bool:
        """Let row r be what row ``order[r]`` was, if that makes anything quicker; return whether it was done."""

    def advance(self, Y: Floats, iteration: int) -> None:
        """Let what is learned beside the positions take a step, where the gradient at ``Y`` was taken last."""
