"""Kernels of the squared distance: the similarity w(f) of two points of a map, f = ‖y_i - y_j‖².

Source: Melville, "Deriving embedding gradients" (sneer documentation), section on similarity kernels; the heavy-tailed
kernel is that of Yang et al. 2009 (HSSNE), the inhomogeneous one that of Kitazono et al. 2016 (it-SNE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._checks import check_real
from nearfar._part import Part
from nearfar.contracts import Floats
from nearfar.errors import InputError

# What the compiled kernels tell apart, see scores/_kernels.py: a tuple, because its length is known when they compile.
_EXPONENTIAL: tuple[int, ...] = ()
_STUDENT_T: tuple[int, ...] = (0,)
_HEAVY_TAILED: tuple[int, ...] = (0, 0)

_AS_EXPONENTIAL = 1e-10  # below this alpha the heavy-tailed kernel is the exponential one to float64's precision


class Kernel(Part):
    """A similarity of two points that falls with their squared distance; the base of one's own.

    A subclass gives three methods, elementwise on arrays. As a :class:`nearfar.contracts.Score` it is ``ln w``.
    """

    def weight(self, f: Floats) -> Floats:
        """Similarity w(f) > 0.

        Parameters
        ----------
        f : ndarray
            Squared distances, of any shape (for a kernel with parameters per point: of shape (n, m), row i is point i).

        Returns
        -------
        ndarray of the same shape
        """
        raise NotImplementedError

    def log_weight(self, f: Floats) -> Floats:
        """Return ln w(f), precise where w itself has vanished.

        Parameters
        ----------
        f : ndarray
            Squared distances.

        Returns
        -------
        ndarray of the same shape
        """
        return np.log(self.weight(f))

    def slope(self, f: Floats) -> Floats:
        """dw/df, which is negative.

        Parameters
        ----------
        f : ndarray
            Squared distances.

        Returns
        -------
        ndarray of the same shape
        """
        raise NotImplementedError

    @property
    def compiled(self) -> tuple[tuple[int, ...], tuple[float, float]] | None:
        """Which of the compiled kernels computes the same, and its two parameters; None for none of them."""
        return None

    def value(self, X: Floats, Y: Floats) -> Floats:
        """Score of all pairs, ln w.

        Parameters
        ----------
        X, Y : ndarray of shape (n, d) and (m, d)

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self.log_weight(squared_distances(X, Y))

    def pull(self, X: Floats, Y: Floats, weights: Floats) -> Floats:
        """Gradient of ``sum_ia weights[i, a] ln w(‖x_i - y_a‖²)`` in X.

        Parameters
        ----------
        X, Y : ndarray of shape (n, d) and (m, d)
        weights : ndarray of shape (n, m)

        Returns
        -------
        ndarray of shape (n, d)
        """
        f = squared_distances(X, Y)
        K: Floats = 2 * weights * self.slope(f) / self.weight(f)
        return np.asarray(K.sum(axis=1)[:, None] * X - K @ Y)


@dataclass(frozen=True)
class Exponential(Kernel):
    """Gaussian of the distance, ``w = exp(-beta f)``; the kernel of SNE.

    Parameters
    ----------
    beta : float or array-like of shape (n,), default=1.0
        Precision, > 0, per unit of squared distance; one for all points or one per point (row).

    Raises
    ------
    InputError
        If a precision is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.kernels import Exponential
    >>> Exponential(beta=2.0).weight(np.array([0.0, 0.5]))
    array([1.        , 0.36787944])
    """

    beta: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        _check_per_point("Exponential", "beta", self.beta)

    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.exp(self.log_weight(f)))

    def log_weight(self, f: Floats) -> Floats:
        return -_per_row(self.beta, f) * f

    def slope(self, f: Floats) -> Floats:
        return -_per_row(self.beta, f) * self.weight(f)

    @property
    def compiled(self) -> tuple[tuple[int, ...], tuple[float, float]] | None:
        """The compiled form, None with a precision per point."""
        return (_EXPONENTIAL, (float(self.beta), 0.0)) if np.ndim(self.beta) == 0 else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class StudentT(Kernel):
    """Student's t with one degree of freedom, ``w = 1 / (1 + f)``; the kernel of t-SNE.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.kernels import StudentT
    >>> StudentT().weight(np.array([0.0, 1.0, 3.0]))
    array([1.  , 0.5 , 0.25])
    """

    def weight(self, f: Floats) -> Floats:
        return 1 / (1 + f)

    def log_weight(self, f: Floats) -> Floats:
        return -np.log1p(f)

    def slope(self, f: Floats) -> Floats:
        return -((1 + f) ** -2)

    @property
    def compiled(self) -> tuple[tuple[int, ...], tuple[float, float]]:
        """The compiled form."""
        return _STUDENT_T, (1.0, 1.0)


@dataclass(frozen=True)
class HeavyTailed(Kernel):
    """Heavy-tailed kernel, ``w = (alpha beta f + 1)^(-1/alpha)``; the kernel of HSSNE (Yang et al. 2009).

    Between the exponential (alpha = 0) and Student's t (alpha = 1), and beyond it.

    Parameters
    ----------
    alpha : float, default=0.5
        Heaviness of the tail, >= 0.
    beta : float, default=1.0
        Precision, > 0, per unit of squared distance: -w'/w at distance 0.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.kernels import HeavyTailed
    >>> HeavyTailed(alpha=0.5).weight(np.array([0.0, 2.0]))
    array([1.  , 0.25])
    """

    alpha: float = 0.5
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_real("HeavyTailed", "alpha", self.alpha, low=0)
        check_real("HeavyTailed", "beta", self.beta, low=0, open_low=True)

    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.exp(self.log_weight(f)))

    def log_weight(self, f: Floats) -> Floats:
        if self.alpha < _AS_EXPONENTIAL:
            return -self.beta * f
        return np.asarray(-np.log1p(self.alpha * self.beta * f) / self.alpha)

    def slope(self, f: Floats) -> Floats:
        return -self.beta * self.weight(f) / (1 + self.alpha * self.beta * f)

    @property
    def compiled(self) -> tuple[tuple[int, ...], tuple[float, float]]:
        """The compiled form."""
        if self.alpha < _AS_EXPONENTIAL:
            return _EXPONENTIAL, (float(self.beta), 0.0)
        if self.alpha == self.beta == 1:
            return _STUDENT_T, (1.0, 1.0)
        return _HEAVY_TAILED, (float(self.alpha), float(self.beta))


@dataclass(frozen=True)
class InhomogeneousStudentT(Kernel):
    """Student's t with degrees of freedom per point, ``w_ij = (1 + f_ij / nu_i)^(-(nu_i + 1) / 2)`` (it-SNE).

    nu = 1 is Student's t of t-SNE; nu -> infinity is the exponential kernel with precision 1/2.

    Parameters
    ----------
    nu : float or array-like of shape (n,), default=10.0
        Degrees of freedom, > 0; one for all points or one per point (row).

    Raises
    ------
    InputError
        If a number of degrees of freedom is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.kernels import InhomogeneousStudentT
    >>> InhomogeneousStudentT(nu=[1.0, 3.0]).weight(np.array([[0.0, 3.0], [3.0, 0.0]]))
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    nu: float | Sequence[float] = 10.0

    def __post_init__(self) -> None:
        _check_per_point("InhomogeneousStudentT", "nu", self.nu)

    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.exp(self.log_weight(f)))

    def log_weight(self, f: Floats) -> Floats:
        nu = _per_row(self.nu, f)
        return np.asarray(-(nu + 1) / 2 * np.log1p(f / nu))

    def slope(self, f: Floats) -> Floats:
        nu = _per_row(self.nu, f)
        return np.asarray(-self.weight(f) * (nu + 1) / (2 * (nu + f)))

    @property
    def compiled(self) -> tuple[tuple[int, ...], tuple[float, float]] | None:
        """The compiled form: with one nu it is a heavy-tailed kernel. None with one per point."""
        if np.ndim(self.nu):
            return None
        nu = float(self.nu)  # type: ignore[arg-type]
        return HeavyTailed(2 / (nu + 1), (nu + 1) / (2 * nu)).compiled


_BY_NAME = {"exponential": Exponential, "student-t": StudentT, "heavy-tailed": HeavyTailed}


def as_kernel(owner: str, kernel: object) -> Any:
    """Return the kernel that a string names, or an object that has a kernel's methods."""
    if isinstance(kernel, str) and kernel in _BY_NAME:
        return _BY_NAME[kernel]()
    if isinstance(kernel, type) or not all(hasattr(kernel, name) for name in ("weight", "log_weight", "slope")):
        names = ", ".join(repr(name) for name in _BY_NAME)
        raise InputError(owner, "kernel", f"one of {names} or a kernel object", repr(kernel), "See nearfar.kernels.")
    return kernel


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Return ‖x_i - y_a‖², shape (n, m), without cancellation; for small arrays."""
    f = np.zeros((len(X), len(Y)), X.dtype)
    for x, y in zip(X.T, Y.T, strict=True):
        f += (x[:, None] - y) ** 2
    return f


def _check_per_point(owner: str, name: str, value: ArrayLike) -> None:
    if np.ndim(value) == 0:
        check_real(owner, name, value, low=0, open_low=True)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(owner, name, "a positive number, or one per point", repr(value))


def _per_row(value: ArrayLike, f: Floats) -> NDArray[Any]:
    """Return a parameter so that it broadcasts over the rows of f."""
    array = np.asarray(value, dtype=f.dtype)
    return array[:, None] if array.ndim and f.ndim == 2 else array
