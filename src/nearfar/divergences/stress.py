"""Stresses: the cost of the distances of a map against those of its data, pair by pair.

The cost of a map is the sum over the pairs i < j. Over ordered pairs, as some sources have it, everything doubles.

Source: Melville, "Deriving embedding gradients" (sneer documentation). The normaliser of Sammon's stress, printed as a
sum of 1/r, is put right to 1 / sum r; see the page on sources.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.errors import InputError

# ------------------------------------------------------------
# The stresses of divergences/stress.py, compiled: cost of a pair and its force.
#
# Which stress is told by the length of the tuple ``family``, which numba knows when it compiles. ``constants`` is
# (1, 2, tiny, least) in the type of the positions: a literal would make everything float64.


def constants_of(dtype):
    """Return the constants for kernels that work in ``dtype``, with distances of about 1."""
    scalar = np.dtype(dtype).type
    return scalar(1), scalar(2), scalar(1e-18), scalar(1e-12)


@jit(fastmath=FAST, error_model="numpy")
def cost_and_pull(family, constants, r, f):
    """Return c(r, d) and c'(d)/d for d² = f, the derivative in d; finite at d = 0.

    Sammon's pairs without a distance (r below ``least``) cost nothing.
    """
    one, two, tiny, least = constants
    if len(family) == 1:
        gap = r * r - f
        return gap * gap, -two * two * gap
    d = math.sqrt(f)
    gap = r - d
    pull = two - two * r / max(d, tiny)
    if len(family) == 0:
        return gap * gap, pull
    share = one / r if r > least else r - r
    return share * gap * gap, share * pull


# What the compiled kernels tell apart, see _stress_kernels.py: a tuple, because its length is known when they compile.
_METRIC: tuple[int, ...] = ()
_SSTRESS: tuple[int, ...] = (0,)
_SAMMON: tuple[int, ...] = (0, 0)


class Stress(Part):
    """Base of the stresses that :class:`nearfar.MDS` knows in compiled form.

    ``degree`` says how the cost grows with the unit of length: by its power.
    """

    family: tuple[int, ...]
    degree: int


@dataclass(frozen=True)
class MetricStress(Stress):
    """Metric stress ``(r - d)²``, the cost of metric multidimensional scaling (Kruskal's raw stress).

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import MetricStress
    >>> r, d = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    >>> MetricStress().value(r, d)
    array([0., 1., 4.])
    """

    family = _METRIC
    degree = 2

    def value(self, r: Floats, d: Floats) -> Floats:
        """Cost of each pair, (r - d)².

        Parameters
        ----------
        r, d : ndarray of the same shape
            Distances of the data and of the map.

        Returns
        -------
        ndarray of the same shape
        """
        return np.asarray((r - d) ** 2)

    def derivative(self, r: Floats, d: Floats) -> Floats:
        """Return the derivative in d, -2 (r - d).

        Parameters
        ----------
        r, d : ndarray of the same shape

        Returns
        -------
        ndarray of the same shape
        """
        return -2 * (r - d)


@dataclass(frozen=True)
class SStress(Stress):
    """SSTRESS ``(r² - d²)²``: large distances count most, and the cost is a polynomial of the coordinates.

    References
    ----------
    Takane, Young & de Leeuw (1977), "Nonmetric individual differences multidimensional scaling".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import SStress
    >>> r, d = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    >>> SStress().value(r, d)
    array([  0.,  25., 144.])
    """

    family = _SSTRESS
    degree = 4

    def value(self, r: Floats, d: Floats) -> Floats:
        """Cost of each pair, (r² - d²)².

        Parameters
        ----------
        r, d : ndarray of the same shape
            Distances of the data and of the map.

        Returns
        -------
        ndarray of the same shape
        """
        return np.asarray((r**2 - d**2) ** 2)

    def derivative(self, r: Floats, d: Floats) -> Floats:
        """Return the derivative in d, -4 d (r² - d²).

        Parameters
        ----------
        r, d : ndarray of the same shape

        Returns
        -------
        ndarray of the same shape
        """
        return np.asarray(-4 * d * (r**2 - d**2))


@dataclass(frozen=True)
class Sammon(Stress):
    """Sammon's stress ``(r - d)² / r``, divided by the sum of all r: small distances count more.

    A pair without a distance, r = 0, is left out: its weight would be infinite.

    References
    ----------
    Sammon (1969), "A nonlinear mapping for data structure analysis".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import Sammon
    >>> r, d = np.array([1.0, 2.0, 4.0, 0.0]), np.array([1.0, 3.0, 2.0, 1.0])
    >>> Sammon().value(r, d).round(3)
    array([0.   , 0.071, 0.143, 0.   ])
    """

    family = _SAMMON
    degree = 0

    def value(self, r: Floats, d: Floats, total: float | None = None) -> Floats:
        """Cost of each pair, (r - d)² / (r sum r).

        Parameters
        ----------
        r, d : ndarray of the same shape
            Distances of the data and of the map.
        total : float, optional
            The sum of r over all pairs; by default that of the r given.

        Returns
        -------
        ndarray of the same shape
        """
        return np.asarray((r - d) ** 2 * _shares(r, total))

    def derivative(self, r: Floats, d: Floats, total: float | None = None) -> Floats:
        """Return the derivative in d, -2 (r - d) / (r sum r).

        Parameters
        ----------
        r, d : ndarray of the same shape
        total : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        return np.asarray(-2 * (r - d) * _shares(r, total))


_BY_NAME = {"metric": MetricStress, "sstress": SStress, "sammon": Sammon}


def as_stress(owner: str, stress: object) -> Stress:
    """Return the stress that a string names, or the object itself."""
    if isinstance(stress, str) and stress in _BY_NAME:
        return _BY_NAME[stress]()
    if not isinstance(stress, MetricStress | SStress | Sammon):
        names = ", ".join(repr(name) for name in _BY_NAME)
        expected = f"one of {names} or an object of theirs"
        raise InputError(owner, "stress", expected, repr(stress))
    return stress


def _shares(r: Floats, total: float | None) -> NDArray[Any]:
    """Return 1 / (r sum r), 0 where r is 0."""
    r = np.asarray(r)
    inverse = np.divide(1, r, out=np.zeros(r.shape, np.result_type(r, np.float32)), where=r > 0)
    total = float(r.sum()) if total is None else total
    return np.asarray(inverse / total if total > 0 else inverse)
