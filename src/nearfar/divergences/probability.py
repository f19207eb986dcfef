"""Divergences of probabilities: the cost of q, the map's, against p, the data's, entry by entry.

Source: Melville, "Deriving embedding gradients" (sneer documentation); NeRV: Venna et al. 2010; Jensen-Shannon: Lee et
al. 2013 (JSE). The signs of two of the printed derivatives are put right: reverse KL is ln(q/p) + 1, Jensen-Shannon
+(1/kappa) ln(q/z); see the page on sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from nearfar._core.checks import check_real
from nearfar._core.parameters import Part
from nearfar.contracts import Floats
from nearfar.errors import InputError


class MapDivergence(Part):
    """Base of the divergences whose far field is known in closed form.

    Where p = 0 the derivative in q is ``far_log ln q`` + constant, and a constant in all of D = dC/dq leaves the
    gradient of a normalised q as it is. What remains near is ``near_derivative``, which is 0 where p = 0.
    """

    floor: float = 0.0

    @property
    def far_log(self) -> float:
        """Coefficient of ln q in the derivative where p = 0."""
        return 0.0

    def limit(self) -> MapDivergence:
        """Return the divergence that this one is at an end of its parameter, or itself."""
        return self


@dataclass(frozen=True)
class KL(MapDivergence):
    """Kullback-Leibler divergence KL(P‖Q) = sum p ln(p/q), nats: a neighbour that the map has lost costs much.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import KL
    >>> p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    >>> print(f"{KL().value(p, q).sum():.4f}")
    0.3466
    """

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:  # noqa: ARG002
        """Cost of each entry, p ln(p/q).

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities, q > 0.
        uniform : float, optional
            Probability of an entry if all were equal; of use to the divergences that have a floor.

        Returns
        -------
        ndarray of the same shape, nats
        """
        return np.asarray(xlogy(p, p) - xlogy(p, q), np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:  # noqa: ARG002
        """Return the derivative in q, -p/q.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        return -p / q


@dataclass(frozen=True)
class ReverseKL(MapDivergence):
    """Reverse Kullback-Leibler divergence KL(Q‖P) = sum q ln(q/p), nats: a false neighbour in the map costs much.

    It is infinite where p = 0 < q, so p has a floor: it is mixed with a little of the uniform distribution,
    ``(1 - floor) p + floor uniform``.

    Parameters
    ----------
    floor : float, default=0.01
        Share of probability that is spread evenly over all pairs (over all others of a row), in (0, 1).

    Raises
    ------
    InputError
        If the floor is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import ReverseKL
    >>> p, q = np.array([0.25, 0.5, 0.25]), np.array([0.5, 0.5, 0.0])
    >>> print(f"{ReverseKL().value(p, q).sum():.4f}")
    0.3466
    """

    floor: float = 0.01

    def __post_init__(self) -> None:
        _check_floor("ReverseKL", self.floor)

    @property
    def far_log(self) -> float:
        """Coefficient of ln q in the derivative where p = 0."""
        return 1.0

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry, q ln(q/p).

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities; p > 0 unless ``uniform`` is given.
        uniform : float, optional
            Probability of an entry if all were equal: p is mixed with it. 0: p is taken as it is.

        Returns
        -------
        ndarray of the same shape, nats
        """
        return np.asarray(xlogy(q, q) - xlogy(q, floored(p, self.floor, uniform)), np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q, ln(q/p) + 1.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        return np.log(q / floored(p, self.floor, uniform)) + 1


@dataclass(frozen=True)
class NeRV(MapDivergence):
    """Neighbour retrieval visualizer: ``lam KL(P‖Q) + (1 - lam) KL(Q‖P)``, nats (Venna et al. 2010).

    Between recall (lam = 1) and precision (lam = 0). The floor of :class:`ReverseKL` is for the reverse part only.

    Parameters
    ----------
    lam : float, default=0.5
        Weight of KL(P‖Q), in [0, 1].
    floor : float, default=0.01
        Share of probability that is spread evenly over all pairs, in (0, 1).

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import KL, NeRV
    >>> p, q = np.array([0.5, 0.4, 0.1]), np.array([0.25, 0.5, 0.25])
    >>> bool((NeRV(lam=1.0).value(p, q) == KL().value(p, q)).all())
    True
    """

    lam: float = 0.5
    floor: float = 0.01

    def __post_init__(self) -> None:
        check_real("NeRV", "lam", self.lam, low=0, high=1)
        _check_floor("NeRV", self.floor)

    @property
    def far_log(self) -> float:
        """Coefficient of ln q in the derivative where p = 0."""
        return 1.0 - self.lam

    def limit(self) -> MapDivergence:
        """Return KL at lam = 1, reverse KL at lam = 0, itself in between."""
        return KL() if self.lam == 1 else ReverseKL(self.floor) if self.lam == 0 else self

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry.

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities; p > 0 unless ``uniform`` is given.
        uniform : float, optional
            As for :meth:`ReverseKL.value`.

        Returns
        -------
        ndarray of the same shape, nats
        """
        if self.lam == 1:
            return KL().value(p, q)
        reverse = ReverseKL(self.floor).value(p, q, uniform)
        return self.lam * KL().value(p, q) + (1 - self.lam) * reverse

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        if self.lam == 1:
            return KL().derivative(p, q)
        return self.lam * KL().derivative(p, q) + (1 - self.lam) * ReverseKL(self.floor).derivative(p, q, uniform)


@dataclass(frozen=True)
class JensenShannon(MapDivergence):
    """Generalised Jensen-Shannon divergence of JSE, nats (Lee et al. 2013).

    ``KL(P‖Z) / (1 - kappa) + KL(Q‖Z) / kappa`` with ``Z = kappa P + (1 - kappa) Q``: KL(P‖Q) at kappa = 0, KL(Q‖P) at
    kappa = 1, and finite without a floor in between.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1].
    floor : float, default=0.01
        As for :class:`ReverseKL`; of use at kappa = 1 only.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import JensenShannon
    >>> p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    >>> print(f"{JensenShannon(kappa=0.5).value(p, q).sum():.4f}")
    0.4315
    """

    kappa: float = 0.5
    floor: float = 0.01

    def __post_init__(self) -> None:
        check_real("JensenShannon", "kappa", self.kappa, low=0, high=1)
        _check_floor("JensenShannon", self.floor)

    def limit(self) -> MapDivergence:
        """Return KL at kappa = 0, reverse KL at kappa = 1, itself in between."""
        return KL() if self.kappa == 0 else ReverseKL(self.floor) if self.kappa == 1 else self

    @property
    def far_log(self) -> float:
        """Coefficient of ln q in the derivative where p = 0."""
        return 1.0 if self.kappa == 1 else 0.0

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry.

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities.
        uniform : float, optional
            As for :meth:`ReverseKL.value`; of use at kappa = 1 only.

        Returns
        -------
        ndarray of the same shape, nats
        """
        if self.limit() is not self:
            return self.limit().value(p, q, uniform)  # type: ignore[attr-defined, no-any-return]
        k, q = self.kappa, _positive(q)
        log_qz = -np.log1p(k * (p - q) / q)  # ln(q/z), precise for small kappa
        return np.asarray((xlogy(p, p) - xlogy(p, q) + p * log_qz) / (1 - k) + q * log_qz / k, np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q, (1/kappa) ln(q/z).

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        if self.limit() is not self:
            return self.limit().derivative(p, q, uniform)  # type: ignore[attr-defined, no-any-return]
        q = _positive(q)
        return -np.log1p(self.kappa * (p - q) / q) / self.kappa


_BY_NAME = {"kl": KL, "reverse-kl": ReverseKL, "nerv": NeRV, "jensen-shannon": JensenShannon}


def as_divergence(owner: str, divergence: object) -> Any:
    """Return the divergence that a string names, or an object that has a divergence's methods."""
    if isinstance(divergence, str) and divergence in _BY_NAME:
        return _BY_NAME[divergence]()
    if isinstance(divergence, type) or not all(hasattr(divergence, name) for name in ("value", "derivative")):
        names = ", ".join(repr(name) for name in _BY_NAME)
        raise InputError(
            owner, "divergence", f"one of {names} or a divergence object", repr(divergence), "See nearfar.divergences."
        )
    return divergence


def floored(p: Floats, floor: float, uniform: float) -> Floats:
    """Return p mixed with a little of the uniform distribution, or p itself where none is given."""
    return (1 - floor) * p + floor * uniform if uniform else p


def _positive(q: Floats) -> Floats:
    """Return q with what has vanished in rounding (far apart under an exponential kernel) as the smallest number."""
    return np.maximum(q, np.finfo(q.dtype).tiny)


def _check_floor(owner: str, floor: float) -> None:
    check_real(owner, "floor", floor, low=0, high=1, open_low=True, open_high=True)
