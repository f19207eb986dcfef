"""The contracts: what each part of a method must offer, and nothing more.

Every method of this library minimises a near part, a sum over the observed relations, plus a far part, a normaliser
over all pairs (see the guide "Near and far field"). It is assembled from six kinds of parts. A part keeps to one of the
protocols below, has at most four methods, and knows nothing of its neighbours. Data flows one way::

    relation ──near──▶ gradient ──▶ solver ──▶ vectors ──▶ Embedding
    vectors ──score──▶ far field ──▲       divergence ties the two sides together

EDRep fixes its score (the dot product) and its divergence (the cross-entropy): both are folded into the kernels of its
far field and its gradient, and no object stands for them. The tests write the two down as ``Score`` and
``Divergence``, and find the loss that EDRep reports. A method that leaves these open takes parts that keep to them.

Arrays are float32 in hot loops and float64 where a part is used on its own with float64 input. ``n`` counts rows, ``m``
columns (the others that a row is compared with), ``d`` is ``n_components``.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@runtime_checkable
class Operator(Protocol):
    """Relation: how strongly row i is related to column a, ``P[i, a] >= 0``, known by its products.

    The operators of :mod:`nearfar.relations` know more: their sums, their factors, whether they are symmetric.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""

    def matmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """P X for X of shape (m, d); O(nnz d) time for every factor of P."""

    def rmatmat(self, X: Floats, *, n_jobs: int) -> Floats:
        """Pᵀ X for X of shape (n, d)."""

    def rows(self, start: int, stop: int) -> Any:
        """Rows start..stop multiplied out, as a scipy CSR array."""


@runtime_checkable
class Representation(Protocol):
    """Representation: what stands for an object, and what keeps it valid."""

    def start(self, n: int, d: int, rng: np.random.Generator, n_jobs: int = 1) -> Floats:
        """Return a valid start, shape (n, d), float32."""

    def project(self, X: Floats) -> Floats:
        """Return the nearest valid representations, in place where possible."""


@runtime_checkable
class Score(Protocol):
    """Score: how alike two representations are; larger is more alike."""

    def value(self, X: Floats, Y: Floats) -> Floats:
        """All scores, shape (n, m)."""

    def pull(self, X: Floats, Y: Floats, weights: Floats) -> Floats:
        """Gradient of ``sum_ia weights[i, a] * score(x_i, y_a)`` in X, shape (n, d)."""


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
class Divergence(Protocol):
    """Divergence: the cost of model probabilities q against observed p."""

    def value(self, p: Floats, q: Floats) -> NDArray[np.float64]:
        """Cost of each entry, same shape as ``p``; the total is their sum."""

    def derivative(self, p: Floats, q: Floats) -> Floats:
        """Return the derivative of the cost of each entry in its q."""


@runtime_checkable
class Solver(Protocol):
    """Solver: one step of a block of rows against its gradient, in place, keeping the representation valid."""

    def step(self, X: Floats, gradient: Floats, learning_rate: float) -> None:
        """Move ``X``, shape (b, d); ``gradient`` may be used as scratch."""
