"""Sums over all pairs of points of a map: the far field of the neighbour-embedding family.

Outside the pairs that the data relate, every force of the family is the gradient of a scalar potential (see the guide
"Near and far field")::

    Phi_i = sum_{j != i} c_j V(f_ij),     V(f) = w(f)  or  V(f) = w ln w - w   (V' = w' and V' = w' ln w)

with the kernel w, squared distances f and charges c. A field is asked for such potentials and their gradients, and
knows nothing of divergences or normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from nearfar.contracts import Floats
from nearfar.scores.kernels import Kernel


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
    """

    value: Floats
    gradient: Floats


@runtime_checkable
class Field(Protocol):
    """Sums over all pairs of points, exact or in linear time."""

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in the positions, shape (n, d), and the kernel; ``Y`` is not changed until the next call."""

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return a potential per term, in the dtype of the positions; the arrays may be reused by the next call."""

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials of one or more terms."""
