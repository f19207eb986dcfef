"""The contracts: what each part of a method must offer, and nothing more.

Every method of this library minimises a near part, a sum over the observed relations, plus a far part, a normaliser
over all pairs (see the guide "Near and far field"). A part keeps to one of the protocols below, and knows nothing of
its neighbours; the guide "Extending" writes one of each. Data flows one way::

    EDRep    relation ──▶ near and far field (FarField) ──▶ gradient ──▶ step ──▶ vectors               at a Place
    a map    relation ──▶ objective (Kernel, Divergence, Field) ──▶ descent in phases ──▶ positions
    words    text, relation ──▶ windows ──▶ changes of their rows ──▶ vectors                      by a Learner

Arrays are float32 in hot loops and float64 where a part is used on its own with float64 input. ``n`` counts rows, ``m``
columns (the others that a row is compared with), ``d`` is ``n_components``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nearfar._core.names import public_names
from nearfar._core.types import Floats

__all__ = [
    "Ask",
    "Divergence",
    "FarField",
    "Field",
    "Floats",
    "Kernel",
    "Learner",
    "Objective",
    "Place",
    "Potential",
    "Term",
]

Rows = Any
"""Rows as a place has them: an array, a tensor, parts on workers, a file."""


@runtime_checkable
class Place(Protocol):
    """Place: where a fit runs. Plain NumPy, the threads of this machine, files, a device, the workers of a cluster.

    It keeps rows of numbers and does the three things that a method does with them: it sums over what is related
    (``near``), it sums over all others (``far``), and it lets each row take a step (``each``). A method is written in
    these verbs, and knows no place; formulas are functions of arrays of any kind (see :mod:`nearfar.methods`). What a
    place cannot do it refuses by an error when it is asked, before a row has moved.
    """

    def bring(self, X: Rows) -> Rows:
        """Return rows as they are here, to be moved in place.

        ``X`` has ``shape``, ``dtype``, and rows by slices: an array, rows in files, or rows that are made when they
        are read. An array may be taken as it is.
        """

    def fetch(self, rows: Rows, X: Rows) -> Rows:
        """Return rows as an array, or as what reads them by slices; in ``X``, an array of their shape, or a new one."""

    def near(self, P: Any, X: Rows, way: str) -> Rows:
        """Return ``P X`` (``way="rows"``), ``Pᵀ X`` (``"columns"``) or their sum (``"both"``).

        It is read until the next call, while ``X`` may move; the formulas of ``each`` may overwrite it.
        """

    def pairs(
        self, formula: Any, pattern: Any, mine: Sequence[Rows], theirs: Sequence[Rows], *entries: Any, **shared: Any
    ) -> tuple[Rows, ...]:
        """Sum what a formula says of each stored pair (i, j) over the pairs of row i; return the sums, as rows.

        ``pattern`` is ``(indptr, columns)`` of a sparse matrix, or what stands for one; ``entries`` are arrays of a
        number for each stored pair, or None. The formula is called as ``formula(mine, theirs, *entries, **shared)``
        with the rows of i and the rows of j for each of many pairs. It returns a tuple of arrays, a row for each pair,
        or None in place of zeros. What is returned is read until the next call with this formula. Columns have 32 bits.
        """

    def far(self, far: FarField, others: Rows, n_active: int, rng: np.random.Generator) -> Ask:
        """Return what answers about all others, who may move as soon as rows do; ``n_active`` of them are related."""

    def field(self, field: Field, Y: Rows, kernel: Kernel) -> Field:
        """Return the field of a map over positions, none of which moves before all sums are known.

        Charges and potentials are rows of the place.
        """

    def each(self, formula: Any, X: Rows, *rows: Rows, **shared: Any) -> tuple[Rows, ...]:
        """Let a formula change every block of ``X`` in place; return the rows, and the sums of what it returned.

        ``X`` is rows, or a tuple of rows that change together. The formula is called as ``formula(x, *blocks,
        **shared)``. Each of ``rows`` is rows of this place, an array of one number per row, or None; ``shared`` is the
        same for all blocks: numbers, small arrays, an ``Ask``. It returns a tuple of small arrays or numbers, which are
        added up over the blocks, in float64 and in their order.
        """


@runtime_checkable
class Ask(Protocol):
    """Answers of a far field at a place.

    Optional: ``other_side(X, r, temperature)`` returns, as rows of the place, the gradient of ``sum_i r_i log Z_i`` in
    the others for scores over a temperature, times the temperature; ``gradient="full"`` needs it.
    """

    def __call__(self, x: Rows) -> tuple[Rows, Rows]:
        """Return log Z, shape (b,), float64, and its gradient, shape (b, d), for a block of rows."""


@runtime_checkable
class Learner(Protocol):
    """Learner: trains a word model, a pass over its text at a time, where the place that made it has its tables.

    Words do not fit the verbs of a :class:`Place`: a step moves the rows of one window of words, and the next window
    may read them. So a place makes a learner of a model's tables, of where its windows come from and of its formula
    (see :func:`nearfar.engines.learner_of`), and decides what follows what: each window, or windows in batches, on
    tables that threads share, on copies that are put together, or on a device. What it cannot do is refused when it is
    made.
    """

    def run_epoch(
        self, blocks: Sequence[tuple[int, int]], seeds: NDArray[np.int64], rates: Sequence[float]
    ) -> tuple[float, int]:
        """Train once on every block of the text, and leave the result in the arrays of the model.

        ``blocks`` are (start, stop). With each come the seed of its windows and the rate of its steps. Returned are the
        sum of the losses of all pairs, each before its step, nats, and the number of pairs; those of noise count.
        """


@runtime_checkable
class FarField(Protocol):
    """Far field of the softmax: the normaliser ``Z_i = sum_a exp(x_i . y_a)`` over all others, and its gradient.

    It works in two steps: ``prepare`` takes in all the others once per sweep, ``evaluate`` then answers for blocks of
    rows, from several threads at once. The far fields of maps (:class:`nearfar.far.ExactField`) work in the same two
    steps, with a kernel of the distance in place of the exponential: ``place(Y, kernel, n_jobs)`` takes in all
    positions, ``evaluate(terms)`` answers for all points at once.

    One of your own inherits from this class, and has what it leaves open as it stands here.
    """

    keeps_others: bool = True
    """Whether ``evaluate`` reads the others again, who must then stay as they are."""

    force_is_optional: bool = False
    """Whether ``evaluate`` takes None for ``force``."""

    takes_weights: bool = False
    """Whether ``with_params(weights=w)`` gives it a base measure."""

    weights: Floats | None = None
    """Its base measure w, shape (m,): how much each of the others counts; None where all count 1."""

    takes_moments: bool = False
    """Whether the others may be taken in by parts, see :meth:`nearfar.far.GaussianMixture.add_moments`."""

    splits: bool = False
    """Whether it is one Gaussian that a fit may split in clusters, see :meth:`nearfar.far.GaussianMixture.split`."""

    other_side: Callable[[Floats, NDArray[np.float64], Floats, Floats, int], None] | None = None
    """Adds the gradient in the others, for ``EDRep(gradient="full")``; see :meth:`nearfar.far.Exact.other_side`."""

    of_columns: Callable[[NDArray[np.int64]], FarField] | None = None
    """Returns the far field for some columns of the relation alone, by their numbers in ascending order.

    EDRep then leaves isolates out, and ``Y`` has these rows. Without it the rows of ``Y`` are all columns, in order.
    """

    formula: Callable[[Any], tuple[Any, tuple[Any, ...]]] | None = None
    """Returns, once prepared, a formula of log Z and its gradient, by the type of the rows, and the numbers that it
    takes beside a block of rows: what a place runs, in a form of its own where it has one, in place of ``evaluate``."""

    doubtful_between: tuple[float, float] = (-math.inf, math.inf)
    """The temperatures at which a fit has to compare log Z with the exact one, on a sample of the rows."""

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:
        """Take in the others, shape (m, d); rows of zeros are absent, ``n_active`` counts the rest.

        They may be kept by reference: the caller leaves them unchanged until the last ``evaluate``, unless
        ``keeps_others`` is False.
        """

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats) -> None:
        """Write log Z_i, shape (b,), and its gradient in x_i, shape (b, d), of a block of rows."""


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

    One of your own inherits from :class:`nearfar.divergences.Divergence`, which has ``formulas`` for linear time, too,
    or from this class.
    """

    @property
    def floor(self) -> float:
        """Which share of p is spread evenly; above 0 both functions take the probability of an even entry as well."""
        return 0.0

    @property
    def for_probabilities(self) -> bool:
        """Whether it takes no similarities that are not normalised."""
        return False

    def value(self, p: Floats, q: Floats) -> NDArray[np.float64]:
        """Cost of each entry, same shape as ``p``; the total is their sum."""

    def derivative(self, p: Floats, q: Floats) -> Floats:
        """Return the derivative of the cost of each entry in its q."""


@dataclass(frozen=True)
class Term:
    """What is asked of a field: a potential and its charges.

    Parameters
    ----------
    potential : {"weight", "entropy"}
        V = w, or V = w ln w - w.
    charges : ndarray of shape (n,), optional
        Of the points, of any sign; None: all are 1.
    """

    potential: Literal["weight", "entropy"]
    charges: Floats | None = None


@dataclass(frozen=True)
class Potential:
    """What a field answers.

    Parameters
    ----------
    value : ndarray of shape (n,)
        Phi_i, the point itself left out.
    gradient : ndarray of shape (n, d)
        Gradient of Phi_i in y_i.
    error : float
        How well these are known: relative error of the forces, 0 for exact ones.
    """

    value: Floats
    gradient: Floats
    error: float = 0.0


@runtime_checkable
class Field(Protocol):
    """Far field of a map: sums over all pairs of points, exact or in linear time."""

    def place(self, Y: Floats, kernel: Any, n_jobs: int) -> None:
        """Take in the positions, shape (n, d), and the kernel; ``Y`` is not changed until the next call."""

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potential of each term, in the dtype of the positions.

        The arrays may be reused by the next call.
        """

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials of one or more terms."""


@runtime_checkable
class Objective(Protocol):
    """What a map minimises.

    ``held`` is how strongly each row is drawn to a place, of which a step takes account; None where none is. On a
    cluster positions and gradient stay on the workers: the gradient is for the solver of that cluster alone.
    """

    held: Rows = None

    advance: Callable[[Rows, int], None] | None = None
    """Lets what is learned beside the positions take a step, if anything is, where the gradient was taken last; it is
    called with the positions and the number of the iteration."""

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient, shape (n, d), which the next call may overwrite, and if asked for the true cost."""

    def value(self, Y: Rows) -> float:
        """Return the true cost."""
        return cast(float, self.evaluate(Y, cost=True)[1])

    def early(self, kernel: Kernel | None = None) -> Objective:  # noqa: ARG002
        """Return the same with KL for the divergence; with a kernel, which then stands for its own, by pair.

        By default it is one of KL, and this is itself.
        """
        return self

    def reorder(self, order: NDArray[np.integer]) -> bool:  # noqa: ARG002
        """Let row r be what row ``order[r]`` was, if that makes anything quicker; return whether it was done."""
        return False


public_names(__name__, __all__)
