"""Stresses: the cost of the distances of a map against those of its data, pair by pair.

The cost of a map is the sum over the pairs i < j. Over ordered pairs, as some sources have it, everything doubles.

Source: Melville, "Deriving embedding gradients" (sneer documentation). The normaliser of Sammon's stress, printed as a
sum of 1/r, is put right to 1 / sum r; see the page on sources.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from nearfar._core.jit import compiled, jit
from nearfar._core.parameters import Part
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.kernels import check_once, plain

# In float32, so that they do not turn positions of that type into float64. Distances are about 1.
_ONE, _TWO, _TINY, _LEAST = np.float32(1), np.float32(2), np.float32(1e-18), np.float32(1e-12)


class StressFunctions(NamedTuple):
    """What compiled code takes: ``cost_and_slope(r, d²)`` returns c(r, d) and c'(r, d) / d."""

    cost_and_slope: Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Stress(Part):
    """Base of the stresses; one of your own is as fast as those of the library.

    A subclass has ``cost_and_slope(r, f)``, a static function of two numbers, which is compiled: with r the distance of
    a pair in the data and ``f = d²`` the square of that in the map it returns c(r, d) and c'(r, d) / d, the derivative
    being in d; both finite at d = 0. Distances are in units of their root mean square.

    ``degree`` says how the cost grows with the unit of length: by its power. ``per_length`` says that the sum of all
    costs is divided by the sum of all r.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> from nearfar.divergences.stress import Stress
    >>> class Robust(Stress):  # a large error costs no more than 1
    ...     degree = 0
    ...
    ...     @staticmethod
    ...     def cost_and_slope(r, f):
    ...         d = np.sqrt(f)
    ...         e = 4 * (r - d)
    ...         return e * e / (1 + e * e), -8 * e / (1 + e * e) ** 2 / max(d, 1e-12)
    >>> X = np.random.default_rng(0).normal(size=(30, 5))
    >>> nf.MDS(stress=Robust()).fit(X).stress_ < nf.MDS(stress=Robust(), max_iter=0).fit(X).stress_
    True
    """

    degree: ClassVar[int]
    per_length: ClassVar[bool] = False
    cost_and_slope: ClassVar[Callable[..., tuple[float, float]]]

    @property
    def functions(self) -> StressFunctions:
        """The compiled form."""
        return StressFunctions(compiled(self.cost_and_slope))


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

    degree = 2

    @staticmethod
    @jit(fastmath=FAST, error_model="numpy")
    def cost_and_slope(r, f):
        """Return the cost of a pair, and its derivative in d over d; compiled code only.

        Parameters
        ----------
        r : float
            Distance in the data.
        f : float
            Squared distance in the map.
        """
        d = math.sqrt(f)
        gap = r - d
        return gap * gap, _TWO - _TWO * r / max(d, _TINY)  # Gradients, metric MDS: (r - d)², and -2 (r - d) / d

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

    degree = 4

    @staticmethod
    @jit(fastmath=FAST, error_model="numpy")
    def cost_and_slope(r, f):
        """Return the cost of a pair, and its derivative in d over d; compiled code only.

        Parameters
        ----------
        r : float
            Distance in the data.
        f : float
            Squared distance in the map.
        """
        gap = r * r - f
        return gap * gap, -_TWO * _TWO * gap  # Gradients, SSTRESS: (r² - d²)², and -4 (r² - d²)

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

    degree = 0
    per_length = True

    @staticmethod
    @jit(fastmath=FAST, error_model="numpy")
    def cost_and_slope(r, f):
        """Return the cost of a pair times sum r, and its derivative in d over d; compiled code only.

        Parameters
        ----------
        r : float
            Distance in the data.
        f : float
            Squared distance in the map.
        """
        d = math.sqrt(f)
        gap = r - d
        share = _ONE / r if r > _LEAST else r - r
        # Gradients, Sammon mapping: (r - d)² / r, and -2 (r - d) / (r d)
        return share * gap * gap, share * (_TWO - _TWO * r / max(d, _TINY))

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
    if not isinstance(stress, Stress):
        names = ", ".join(repr(name) for name in _BY_NAME)
        raise InputError(owner, "stress", f"one of {names} or an object of theirs", repr(stress))
    if type(stress) not in _BY_NAME.values():
        check_once(stress, lambda: _check_slope(owner, stress))
    return stress


def _check_slope(owner: str, stress: Stress) -> None:
    """Refuse a stress without a degree, that is not finite, or whose slope is not that of its cost, at some pairs.

    Where the cost has a kink it may lie within a step: then the slope of one side will do.
    """
    if not isinstance(getattr(stress, "degree", None), (int, float)):
        hint = "The power of the unit of length by which the cost grows, as 2 for (r - d)²."
        raise InputError(owner, "stress", "one with a number for degree", repr(stress), hint)
    function = plain(stress.cost_and_slope)
    with np.errstate(all="ignore"):
        for r in np.array([0.0, 0.3, 1.0, 2.2]):
            for d in np.array([0.0, 0.07, 0.4, 0.9, 1.3, 3.1]):
                step = 1e-6 * max(d, 0.1)
                given = function(r, d * d)
                parts = given if isinstance(given, tuple) else (given,)
                if len(parts) != 2 or any(np.ndim(one) or np.asarray(one).dtype.kind not in "iuf" for one in parts):
                    got = ", ".join(f"{np.asarray(part).dtype} of shape {np.shape(part)}" for part in parts)
                    what = "one whose cost_and_slope returns two real numbers, the cost of a pair and its slope"
                    raise InputError(owner, "stress", what, f"{got} from that of {stress!r}")
                cost, slope = map(float, parts)
                after, before = (float(function(r, (d + s) ** 2)[0]) for s in (step, -step))
                if not (np.isfinite(cost) and np.isfinite(slope)):
                    raise InputError(owner, "stress", "finite", f"{stress!r}, which is not at r = {r}, d = {d}")
                sides = (after - cost) / step, (cost - before) / step, (after - before) / (2 * step)
                allowed = 1e-3 * abs(slope * d) + 1e-4 * (1 + abs(cost))
                if d and min(abs(side - slope * d) for side in sides) > allowed:
                    what = "one whose slope is the derivative of its cost in d, over d"
                    got = f"{stress!r}, which at r = {r}, d = {d} has {slope:.4g} where it is {sides[2] / d:.4g}"
                    raise InputError(owner, "stress", what, got)


def _shares(r: Floats, total: float | None) -> Floats:
    """Return 1 / (r sum r), 0 where r is 0."""
    r = np.asarray(r)
    inverse = np.divide(1, r, out=np.zeros(r.shape, np.result_type(r, np.float32)), where=r > 0)
    total = float(r.sum()) if total is None else total
    return np.asarray(inverse / total if total > 0 else inverse)
