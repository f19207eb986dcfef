"""Kernels: how alike two points of a map are, as a function of their squared distance.

Give an estimator an object of these, or one of your own with the methods ``weight(f)``, ``log_weight(f)`` and
``slope(f)`` of :class:`nearfar.kernels.Kernel`.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float32, types
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_real
from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.errors import InputError

# ------------------------------------------------------------
# The kernels of scores/kernels.py, compiled: w(f), ln w and -w'/w of one squared distance.
#
# Which kernel is told by the length of the tuple ``family``, which numba knows when it compiles, so the branches below
# cost nothing at run time. The error model of NumPy lets a division by zero pass: with Python's check in it no loop
# would
# vectorise. ``constants`` is (1, a, b) in the type of the positions: a literal 1.0 would make everything
# float64.


def typed(compiled, dtype):
    """Return (family, constants) for kernels that work in ``dtype``, from ``Kernel.compiled``."""
    family, (a, b) = compiled
    scalar = np.dtype(dtype).type
    return family, (scalar(1), scalar(a), scalar(b))


@jit(fastmath=FAST, error_model="numpy")
def log_weight(family, constants, f):
    """Return ln w(f)."""
    _, a, b = constants
    if len(family) == 0:
        return -a * f
    if len(family) == 1:
        return -ln1p(f)
    return -ln1p(a * b * f) / a


@jit(fastmath=FAST, error_model="numpy")
def weight(family, constants, f):
    """Return w(f)."""
    one, a, b = constants
    if len(family) == 0:
        return exp(-a * f)
    if len(family) == 1:
        return one / (one + f)
    return exp(-ln1p(a * b * f) / a)


@jit(fastmath=FAST, error_model="numpy")
def pull(family, constants, f):
    """Return -w'(f)/w(f): a rational function of f for each kernel."""
    one, a, b = constants
    if len(family) == 0:
        return a
    if len(family) == 1:
        return one / (one + f)
    return b / (one + a * b * f)


def exp(x):
    """exp(x), in a form that vectorises; compiled code only."""
    raise NotImplementedError


def ln(x):
    """ln(x), x > 0 and normal, in a form that vectorises; compiled code only."""
    raise NotImplementedError


def ln1p(x):
    """ln(1 + x), x >= 0; in float32 to an absolute error of 1e-7, in float64 to a relative one; compiled code only."""
    raise NotImplementedError


@overload(exp)
def _exp_overload(x):
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: _exp64(x)


@overload(ln)
def _ln_overload(x):
    if x == types.float32:
        return lambda x: _ln32(x)
    return lambda x: _ln64(x)


@overload(ln1p)
def _ln1p_overload(x):
    if x == types.float32:
        return lambda x: _ln32(float32(1.0) + x)
    return lambda x: _ln1p64(x)


@jit(fastmath=FAST, error_model="numpy")
def _exp32(x):
    """Exp in float32: 2^n times a polynomial on [-ln2/2, ln2/2], relative error below 2e-7; below -87 it is 1e-38."""
    x = min(max(x, float32(-87.0)), float32(88.0))
    n = np.floor(x * float32(1.44269504) + float32(0.5))
    r = (x - n * float32(0.693359375)) + n * float32(2.12194440e-4)  # ln 2 in two parts
    p = float32(1.0 / 720)
    p = p * r + float32(1.0 / 120)
    p = p * r + float32(1.0 / 24)
    p = p * r + float32(1.0 / 6)
    p = p * r + float32(0.5)
    p = p * r + float32(1.0)
    p = p * r + float32(1.0)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    return p * power.view(np.float32)


@jit(fastmath=FAST, error_model="numpy")
def _ln32(x):
    """Ln in float32: exponent ln 2 + atanh series of the mantissa in [1/sqrt2, sqrt2), relative error about 1e-7."""
    bits = np.float32(x).view(np.int32)
    shifted = np.int32(bits - np.int32(0x3F3504F3))  # so that the mantissa is centred on 1
    n = np.int32(shifted >> np.int32(23))
    m = np.int32(bits - np.int32(n << np.int32(23))).view(np.float32)
    s = (m - float32(1.0)) / (m + float32(1.0))
    z = s * s
    p = float32(2.0 / 9)
    p = p * z + float32(2.0 / 7)
    p = p * z + float32(2.0 / 5)
    p = p * z + float32(2.0 / 3)
    p = p * z + float32(2.0)
    return s * p + float32(n) * float32(0.69314718)


# The float64 ones may not be reordered: what is small in them is what rounding left over.
@jit(fastmath={"contract", "nsz"}, error_model="numpy")
def _exp64(x):
    """Exp in float64, as _exp32; relative error below 3e-16; below -708 it is 3e-308."""
    x = min(max(x, -708.0), 709.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10  # ln 2 in two parts
    p = 1.0 / 479001600
    p = p * r + 1.0 / 39916800
    p = p * r + 1.0 / 3628800
    p = p * r + 1.0 / 362880
    p = p * r + 1.0 / 40320
    p = p * r + 1.0 / 5040
    p = p * r + 1.0 / 720
    p = p * r + 1.0 / 120
    p = p * r + 1.0 / 24
    p = p * r + 1.0 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(np.int32(n)) + np.int64(1023)) << np.int64(52))
    return p * power.view(np.float64)


@jit(fastmath={"contract", "nsz"}, error_model="numpy")
def _ln64(x):
    """Ln in float64, as _ln32; relative error below 3e-16."""
    bits = np.float64(x).view(np.int64)
    shifted = np.int64(bits - np.int64(0x3FE6A09E667F3BCD))  # so that the mantissa is centred on 1
    n = np.int64(shifted >> np.int64(52))
    m = np.int64(bits - np.int64(n << np.int64(52))).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 2.0 / 21
    p = p * z + 2.0 / 19
    p = p * z + 2.0 / 17
    p = p * z + 2.0 / 15
    p = p * z + 2.0 / 13
    p = p * z + 2.0 / 11
    p = p * z + 2.0 / 9
    p = p * z + 2.0 / 7
    p = p * z + 2.0 / 5
    p = p * z + 2.0 / 3
    p = p * z + 2.0
    exponent = np.float64(np.int32(n))
    return s * p + exponent * 1.90821492927058770002e-10 + exponent * 6.93147180369123816490e-01


@jit(fastmath={"contract", "nsz"}, error_model="numpy")
def _ln1p64(x):
    """ln(1 + x) in float64, x >= 0; relative error below 1e-15, for small x by what 1 + x has lost of it."""
    u = 1.0 + x
    return _ln64(u) + (x - (u - 1.0)) / u


# ------------------------------------------------------------
# Kernels of the squared distance: the similarity w(f) of two points of a map, f = ‖y_i - y_j‖².
#
# Source: Melville, "Deriving embedding gradients" (sneer documentation), section on similarity kernels; the heavy-
# tailed
# kernel is that of Yang et al. 2009 (HSSNE), the inhomogeneous one that of Kitazono et al. 2016 (it-SNE).

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


__all__ = ["Exponential", "HeavyTailed", "InhomogeneousStudentT", "Kernel", "StudentT"]
