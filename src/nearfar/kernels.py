"""Kernels: how alike two points of a map are, w(f), as a function of their squared distance f = ‖y_i - y_j‖².

Each kernel is written once, as ``ln w`` and ``-w'/w`` in plain numbers (:class:`Formulas`). NumPy evaluates them on
arrays, and the loops of a map compile them in. A kernel of one's own does the same, see the guide "Extending".

Source: Melville, "Deriving embedding gradients" (sneer documentation), section on similarity kernels; the heavy-tailed
kernel is that of Yang et al. 2009 (HSSNE), the inhomogeneous one that of Kitazono et al. 2016 (it-SNE).
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nearfar import contracts
from nearfar._core.checks import check_numbers, check_real
from nearfar._core.jit import at_first, bind, compiled, jit
from nearfar._core.names import public_names
from nearfar._core.notebook import brief_fields
from nearfar._core.parameters import Part
from nearfar._core.types import Floats, Numbers, namespace_of
from nearfar._core.vector import FAST
from nearfar.errors import InputError

Values = TypeVar("Values")
"""A number, an array, a tensor."""

# Exponential and logarithms that vectorise in compiled code. On arrays they are NumPy's, on tensors torch's.


def exp(x: Values) -> Values:
    """exp(x) for the formulas of a kernel or a divergence: compiled, it vectorises.

    Parameters
    ----------
    x : float or ndarray

    Returns
    -------
    float or ndarray
        In float32 to a relative error of 2e-7.

    Examples
    --------
    >>> import nearfar as nf
    >>> float(nf.kernels.exp(0.0))
    1.0
    """
    return x.exp() if hasattr(x, "exp") else cast(Values, np.exp(cast(Floats, x)))


def ln(x: Values) -> Values:
    """ln(x), x > 0, for the formulas of a kernel or a divergence: compiled, it vectorises.

    Parameters
    ----------
    x : float or ndarray
        Not denormal.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> import nearfar as nf
    >>> float(nf.kernels.ln(1.0))
    0.0
    """
    return x.log() if hasattr(x, "log") else cast(Values, np.log(cast(Floats, x)))


def ln1p(x: Values) -> Values:
    """ln(1 + x), x >= 0, for the formulas of a kernel or a divergence: compiled, it vectorises.

    Parameters
    ----------
    x : float or ndarray

    Returns
    -------
    float or ndarray
        In float32 to an absolute error of 1e-7, in float64 to a relative one of 1e-15.

    Examples
    --------
    >>> import nearfar as nf
    >>> float(nf.kernels.ln1p(0.0))
    0.0
    """
    return x.log1p() if hasattr(x, "log1p") else cast(Values, np.log1p(cast(Floats, x)))


def either(condition: Any, one: Values, other: Any) -> Values:
    """Return one where a condition holds, else the other: of arrays, of tensors, or compiled of numbers."""
    return namespace_of(condition).where(condition, one, other)


@at_first
def _tell_numba() -> None:
    from numba import types
    from numba.extending import overload

    def by_type(function, of_float32, of_float64):
        overload(function)(lambda x: of_float32 if x == types.float32 else of_float64)

    @overload(either)
    def of_either(condition, one, other):
        return lambda condition, one, other: one if condition else other

    by_type(exp, lambda x: _exp32(x), lambda x: _exp64(x))
    by_type(ln, lambda x: _ln32(x), lambda x: _ln64(x))
    by_type(ln1p, lambda x: _ln32(np.float32(1.0) + x), lambda x: _ln1p64(x))
    by_type(_precise_ln1p, lambda x: _precise32(x), lambda x: _ln1p64(x))


# The polynomials in float32 have the least largest relative error of their degree, found by Lawson's algorithm, among
# those that are right at 0.
@jit(fastmath=FAST, error_model="numpy")
def _exp32(x):
    """Exp in float32: 2^n times a polynomial on [-ln2/2, ln2/2], relative error below 2e-7; below -87 it is 1e-38."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    n = np.rint(x * np.float32(1.44269504))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)  # ln 2 in two parts
    p = np.float32(0.008290315)
    p = p * r + np.float32(0.04189793)
    p = p * r + np.float32(0.16667636)
    p = p * r + np.float32(0.49999151)
    p = p * r + np.float32(0.9999997)
    p = p * r + np.float32(1.0)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    return p * power.view(np.float32)


@jit(fastmath=FAST, error_model="numpy")
def _exponent32(x):
    """n, with x = 2^n m, m in [1/sqrt2, sqrt2)."""
    return np.int32(np.int32(np.float32(x).view(np.int32) - np.int32(0x3F3504F3)) >> np.int32(23))


@jit(fastmath=FAST, error_model="numpy")
def _ln_of_parts(n, z):
    """Return n ln 2 + ln(1 + z), by a polynomial on [1/sqrt2 - 1, sqrt2 - 1]: nothing is divided."""
    p = np.float32(-0.10082383)
    p = p * z + np.float32(0.16180506)
    p = p * z + np.float32(-0.17243226)
    p = p * z + np.float32(0.19906883)
    p = p * z + np.float32(-0.24971229)
    p = p * z + np.float32(0.33334714)
    p = p * z + np.float32(-0.50000322)
    p = p * z + np.float32(1.0)
    return p * z + np.float32(n) * np.float32(0.69314718)


@jit(fastmath=FAST, error_model="numpy")
def _ln32(x):
    """Ln in float32, relative error below 3e-7."""
    n = _exponent32(x)
    m = np.int32(np.float32(x).view(np.int32) - np.int32(n << np.int32(23))).view(np.float32)
    return _ln_of_parts(n, m - np.float32(1.0))


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


class Formulas(NamedTuple):
    """The formulas of a kernel: what a map needs of it in linear time.

    Functions of a squared distance and the ``parameters``, each of which is handed on as an argument. They are plain
    Python, of numbers as of arrays, or compiled by numba. Numbers in them are best given as parameters, which come in
    the type of the positions: a literal makes float64 of float32, which is as right, but takes longer. A float64 of
    NumPy, which does so on arrays, too, is refused.

    Parameters
    ----------
    log_weight : callable
        ``log_weight(f, *parameters)`` is ln w(f).
    neg_log_slope : callable
        ``neg_log_slope(f, *parameters)`` is -w'(f) / w(f) >= 0, w' the derivative in f.
    parameters : tuple of float, default=()
    weight : callable, optional
        w(f), where there is a quicker way than the exponential of its logarithm.
    steepness : float, optional
        Largest -w'/w where w is no less than a tenth of its largest, from which the step of a mesh follows. By default
        it is looked for.
    heaviness : float, optional
        Of the tail: alpha of the heavy-tailed kernel that falls as slowly, 0 for an exponential one. By default it is
        looked for.

    Examples
    --------
    >>> import nearfar as nf
    >>> formulas = nf.kernels.StudentT().formulas()
    >>> formulas.steepness, formulas.heaviness
    (1.0, 1.0)
    """

    log_weight: Callable[..., float | Floats]
    neg_log_slope: Callable[..., float | Floats]
    parameters: tuple[float | Numbers, ...] = ()
    weight: Callable[..., float | Floats] | None = None
    steepness: float | None = None
    heaviness: float | None = None


class KernelFunctions(NamedTuple):
    """The compiled functions of a kernel, which loops over pairs of points call with (f, *parameters).

    ``name`` comes first so that numba does not take the tuple for one of pointers to functions of one type.
    """

    name: None
    log_weight: Callable[..., Floats]
    weight: Callable[..., Floats]
    neg_log_slope: Callable[..., Floats]


def plain(function: Any) -> Any:
    """Return a formula as plain Python, which takes arrays of any kind too; None for None."""
    return getattr(function, "py_func", function)


class CompiledKernel(NamedTuple):
    """A kernel in linear time: its compiled functions, parameters, and what a mesh must know of it."""

    functions: KernelFunctions
    parameters: tuple[float, ...]
    steepness: float
    heaviness: float

    def log_weight(self, f: Floats) -> Floats:
        """Return ln w of an array."""
        return cast(Floats, plain(self.functions.log_weight)(f, *self.parameters))

    def slope(self, f: Floats) -> Floats:
        """Return w' of an array."""
        return -np.exp(self.log_weight(f)) * plain(self.functions.neg_log_slope)(f, *self.parameters)


class Kernel(Part):
    """A similarity of two points that falls with their squared distance; the base of one's own.

    A subclass gives :meth:`formulas`, and with them takes part in all that is quick. Or it gives :meth:`weight` and
    :meth:`slope`, elementwise on arrays: then all pairs of points are summed in every iteration.
    """

    def formulas(self) -> Formulas | None:
        """Return the formulas, None if there are none.

        Returns
        -------
        Formulas or None
        """
        return None

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
        formulas = self.formulas()
        if formulas is not None and formulas.weight is None:
            return np.asarray(np.exp(self.log_weight(f)))
        return self._values("weight", f)

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
        return np.log(self.weight(f)) if self.formulas() is None else self._values("log_weight", f)

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
        return np.asarray(-self.weight(f) * self._values("neg_log_slope", f))

    def _values(self, name: str, f: Floats) -> Floats:
        """Return one of the formulas on an array; a parameter per point is one per row."""
        formulas = self.formulas()
        if formulas is None:
            raise NotImplementedError(f"{type(self).__name__} must give formulas, or weight and slope")
        function = getattr(formulas, name)
        parameters = [np.asarray(value, f.dtype) for value in formulas.parameters]
        parameters = [value[:, None] if value.ndim and f.ndim == 2 else value for value in parameters]
        return np.asarray(plain(function)(f, *parameters))


@jit(fastmath=FAST, error_model="numpy")
def _exponential_log_weight(f, beta, *_):
    return -beta * f  # Gradients, exponential kernel: w = exp(-beta f)


@jit(fastmath=FAST, error_model="numpy")
def _exponential_weight(f, beta):
    return exp(-beta * f)


@jit(fastmath=FAST, error_model="numpy")
def _exponential_neg_log_slope(f, beta, *_):
    return beta


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
    __repr__ = brief_fields

    def __post_init__(self) -> None:
        _check_per_point("Exponential", "beta", self.beta)

    def formulas(self) -> Formulas:
        functions = _exponential_log_weight, _exponential_neg_log_slope
        return Formulas(*functions, (self.beta,), _exponential_weight, self.beta, 0.0)  # type: ignore[arg-type]


@jit(fastmath=FAST, error_model="numpy")
def _student_log_weight(f, one):
    return -ln1p(f)


@jit(fastmath=FAST, error_model="numpy")
def _student_weight(f, one):
    return one / (one + f)  # Gradients, t-distribution kernel: w = 1 / (1 + f)


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

    def formulas(self) -> Formulas:
        return Formulas(_student_log_weight, _student_weight, (1.0,), _student_weight, 1.0, 1.0)  # -w'/w = w


@jit(fastmath=FAST, error_model="numpy")
def _heavy_log_weight(f, one, alpha, beta):
    return -ln1p(alpha * beta * f) / alpha  # Gradients, heavy-tailed kernel: w = (alpha beta f + 1)^(-1/alpha)


@jit(fastmath=FAST, error_model="numpy")
def _heavy_weight(f, one, alpha, beta):
    return exp(-ln1p(alpha * beta * f) / alpha)


@jit(fastmath=FAST, error_model="numpy")
def _heavy_neg_log_slope(f, one, alpha, beta):
    return beta / (one + alpha * beta * f)


_AS_EXPONENTIAL = 1e-10  # below this alpha the heavy-tailed kernel is the exponential one to float64's precision


@dataclass(frozen=True)
class HeavyTailed(Kernel):
    """Heavy-tailed kernel, ``w = (alpha beta f + 1)^(-1/alpha)``; the kernel of HSSNE (Yang et al. 2009).

    Between the exponential (alpha = 0) and Student's t (alpha = 1), and beyond it.

    Parameters
    ----------
    alpha : float, default=0.5
        Heaviness of the tail, >= 0.
    beta : float or array-like of shape (n,), default=1.0
        Precision, > 0, per unit of squared distance: -w'/w at distance 0; one for all points or one per point (row).

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
    beta: float | Sequence[float] = 1.0
    __repr__ = brief_fields

    def __post_init__(self) -> None:
        check_real("HeavyTailed", "alpha", self.alpha, low=0)
        _check_per_point("HeavyTailed", "beta", self.beta)

    def formulas(self) -> Formulas:
        beta = self.beta
        if self.alpha < _AS_EXPONENTIAL:
            return Exponential(beta).formulas()
        if self.alpha == 1 and np.ndim(beta) == 0 and beta == 1:
            return StudentT().formulas()
        functions, parameters = (_heavy_log_weight, _heavy_neg_log_slope), (1.0, self.alpha, beta)
        return Formulas(*functions, parameters, _heavy_weight, cast(float, beta), self.alpha)


def _precise_ln1p(x):
    """ln(1 + x), x >= 0, with a small relative error also where x is small: with many degrees of freedom it is."""
    return np.log1p(x)


@jit(fastmath=FAST, error_model="numpy")
def _precise32(x):
    """As _ln32 of 1 + x; nothing of x is lost, where the exponent is 0 the mantissa less 1 is x itself."""
    n = _exponent32(np.float32(1.0) + x)
    scale = np.int32(np.int32(np.int32(127) - n) << np.int32(23)).view(np.float32)  # 2^-n
    return _ln_of_parts(n, x * scale + (scale - np.float32(1.0)))


@jit(fastmath=FAST, error_model="numpy")
def _inhomogeneous_log_weight(f, nu, one, half):
    # Gradients, inhomogeneous t-SNE: w = (1 + f/nu)^(-(nu + 1)/2)
    return -half * (nu + one) * _precise_ln1p(f / nu)


@jit(fastmath=FAST, error_model="numpy")
def _inhomogeneous_neg_log_slope(f, nu, one, half):
    return half * (nu + one) / (nu + f)


@jit(fastmath=FAST, error_model="numpy")
def rise(f, nu, one, half):
    """Return d ln w / d nu of the inhomogeneous Student's t."""
    x = f / nu
    return half * ((nu + one) * x / (nu + f) - _precise_ln1p(x))


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

    nu: float | Numbers = 10.0
    __repr__ = brief_fields  # a number for each point may be a list

    def __post_init__(self) -> None:
        _check_per_point("InhomogeneousStudentT", "nu", self.nu)

    def formulas(self) -> Formulas:
        nu = self.nu
        if np.ndim(nu) == 0:  # a heavy-tailed kernel
            nu = cast(float, nu)
            return HeavyTailed(2 / (nu + 1), (nu + 1) / (2 * nu)).formulas()
        return Formulas(_inhomogeneous_log_weight, _inhomogeneous_neg_log_slope, (nu, 1.0, 0.5))


@dataclass(frozen=True)
class Multiscale(Kernel):
    """Several kernels at once: q is the mean of their similarities, each normalised by itself, row by row.

    ``q_ij = mean_h w_h(f_ij) / sum_k w_h(f_ik)``: what multi-scale neighbour embedding gives a map, to match
    ``perplexity="multiscale"`` of its data. Wide kernels see far apart points, narrow ones near points.

    Parameters
    ----------
    scales : sequence of Kernel
        The kernels, at least one, each with a single parameter for all points.

    Raises
    ------
    InputError
        If there is none, or one is no kernel.

    Notes
    -----
    For row normalisation. All pairs of points are summed in every iteration, for each scale: small maps only. Lee et
    al. add the scales one after the other during the optimisation; here all are there from the first iteration on.

    References
    ----------
    Lee, Peluffo-Ordóñez & Verleysen (2015), "Multi-scale similarities in stochastic neighbour embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> affinities = nf.Affinities("multiscale").fit(X)
    >>> scales = [nf.kernels.Exponential(1 / u) for u in affinities.perplexities_]  # u ** (-2 / n_components)
    >>> est = nf.NeighborEmbedding(kernel=nf.kernels.Multiscale(scales), normalization="row", max_iter=100)
    >>> est.fit(affinities).embedding_.shape
    (60, 2)
    """

    scales: Sequence[Kernel]

    def __post_init__(self) -> None:
        scales = tuple(self.scales) if isinstance(self.scales, Sequence) else ()
        if not scales or not all(isinstance(kernel, Kernel) and parameter_of_each(kernel) is None for kernel in scales):
            expected = "a sequence of kernels, each with one parameter for all points"
            raise InputError("Multiscale", "scales", expected, repr(self.scales))
        object.__setattr__(self, "scales", scales)

    # Of all scales before they are normalised: what the start of a map goes by.
    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.mean([kernel.weight(f) for kernel in self.scales], axis=0))

    def slope(self, f: Floats) -> Floats:
        return np.asarray(np.mean([kernel.slope(f) for kernel in self.scales], axis=0))


_BY_NAME = {"exponential": Exponential, "student-t": StudentT, "heavy-tailed": HeavyTailed}


def as_kernel(owner: str, kernel: object) -> contracts.Kernel:
    """Return the kernel that a string names, or an object that has a kernel's methods; one that cannot be is refused.

    Raises
    ------
    InputError
        Another thing; a kernel that rises, whose slope is not that of its weight, or whose formulas contradict each
        other; one whose functions return another shape than they are given, or other numbers than real ones.
    """
    if isinstance(kernel, str) and kernel in _BY_NAME:
        return _BY_NAME[kernel]()
    if isinstance(kernel, type) or not isinstance(kernel, contracts.Kernel):
        names = ", ".join(repr(name) for name in _BY_NAME)
        hint = "See nearfar.kernels."
        if isinstance(kernel, (list, tuple)) or (isinstance(kernel, str) and kernel == "multiscale"):
            hint = "Several kernels at once are kernels.Multiscale([...])."
        raise InputError(owner, "kernel", f"one of {names} or a kernel object", repr(kernel), hint)
    if parameter_of_each(kernel) is None:
        check_once(kernel, lambda: _check_slope(owner, kernel))
    return kernel


def check_once(part: object, check: Callable[[], None]) -> None:
    """Check a part, unless an equal one has been found good."""
    try:
        good = part in _GOOD
    except TypeError:  # no hash
        check()
        return
    if not good:
        check()
        _GOOD.add(part)


_GOOD: set[object] = set()
COUNTS = 0.1
"""Share of its largest weight from which on it matters how a kernel falls."""


def check_answer(
    owner: str,
    argument: str,
    part: object,
    name: str,
    found: object,
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float64,
) -> None:
    """Refuse what a function of a part has made of such arrays, unless it is real numbers of that shape, not wider.

    Another shape would be stretched by what it meets, and a map drawn of another cost. Numbers that a formula makes
    wider take up to three times as long in compiled loops.

    Raises
    ------
    InputError
        With the shape and type of both.
    """
    array, dtype = np.asarray(found), np.dtype(dtype)
    if array.shape != shape or array.dtype.kind != "f" or array.itemsize > dtype.itemsize:
        what = f"one whose {name} returns what it is given, {dtype} of shape {shape}"
        hint = "" if dtype == np.float64 else "Numbers that are parameters come in the type of the positions."
        raise InputError(owner, argument, what, f"{array.dtype} of shape {array.shape} from {name} of {part!r}", hint)


def _check_slope(owner: str, kernel: contracts.Kernel) -> None:
    """Refuse a kernel that rises somewhere, or whose slope is not that of its weight, by differences at some points.

    And one of whose functions returns another shape than it is given, or other than real numbers.
    """
    f, step = np.geomspace(1e-3, 1e3, 25)[None], 1e-5
    with np.errstate(all="ignore"):
        # Each function returns the shape that it is given, and real numbers.
        two = np.concatenate([f, f[:, ::-1]])
        formulas = _formulas_in_use(kernel)
        if formulas is not None:
            for name in ("log_weight", "neg_log_slope", "weight"):
                given = getattr(formulas, name)
                if given is None:
                    continue
                function = plain(given)
                found, more = (function(part, *formulas.parameters) for part in (two, 2 * two))
                # That of an exponential kernel is a number, the same at all distances.
                is_number = name == "neg_log_slope" and np.ndim(found) == 0 and np.asarray(found).dtype.kind in "iuf"
                if not (is_number and found == more):
                    check_answer(owner, "kernel", kernel, name, found, two.shape)
                    narrow = function(
                        two.astype(np.float32), *map(np.float32, cast("tuple[float, ...]", formulas.parameters))
                    )
                    check_answer(owner, "kernel", kernel, name, narrow, two.shape, np.float32)
        for name in ("weight", "slope"):
            function = getattr(kernel, name)
            found = function(f)
            count = len(found) if np.ndim(found) == 2 else 1  # with a parameter for each point: a row of each
            check_answer(owner, "kernel", kernel, name, found, (count, f.shape[1]))
            more = two if count == 1 else f[:, 1:]
            check_answer(owner, "kernel", kernel, name, function(more), (max(count, len(more)), more.shape[1]))
        w, slope, ahead, behind = (
            kernel.weight(f),
            kernel.slope(f),
            *(kernel.weight(f * (1 + s)) for s in (step, -step)),
        )
        log_w = np.log(w) if compiled_kernel(kernel) is None else cast(Kernel, kernel).log_weight(f)
    tiny = np.asarray(w) < 1e-200
    for wrong, expected in (
        (~np.isfinite(w) | ~np.isfinite(slope) | (w < 0), "finite and positive"),
        (slope > 0, "one that falls with distance"),
        (abs((ahead - behind) / (2 * step * f) - slope) > 1e-3 * abs(slope) + 1e-6 * w / f, "one whose slope is w'"),
        (~tiny & (abs(np.log(np.where(tiny, 1, w)) - log_w) > 1e-6 * (1 + abs(log_w))), "one whose log_weight is ln w"),
    ):
        if np.any(wrong):
            at = np.broadcast_to(f, np.shape(wrong))[wrong][0]
            raise InputError(owner, "kernel", expected, f"{kernel!r}, which is not at f = {at:.3g}")


def compiled_kernel(kernel: object) -> CompiledKernel | None:
    """Return a kernel as compiled loops take it; None if it has no formulas, or a parameter for each point.

    Nor has it where a class below the one that gives the formulas gives another weight or slope.
    """
    formulas = _formulas_in_use(kernel)
    if formulas is None:
        return None
    log_weight = compiled(formulas.log_weight)
    weight = bind(_exp_of, (None, log_weight)) if formulas.weight is None else compiled(formulas.weight)
    functions = KernelFunctions(None, log_weight, weight, compiled(formulas.neg_log_slope))
    steepness, heaviness = formulas.steepness, formulas.heaviness
    if steepness is None or heaviness is None:
        f = np.geomspace(1e-12, 1e12, 193)
        with np.errstate(all="ignore"):
            g = plain(formulas.neg_log_slope)(np.append(0.0, f), *formulas.parameters) * np.ones(len(f) + 1)
            log_w = plain(formulas.log_weight)(np.append(0.0, f), *formulas.parameters)
        counts = log_w >= np.nanmax(log_w) + np.log(COUNTS)
        steepness = float(np.nanmax(g[counts])) if steepness is None else steepness
        tail = (f * steepness > 1) & (g[1:] > 0)
        if heaviness is None:
            heaviness = float(((1 / g[1:][tail] - 1 / steepness) / f[tail]).max(initial=0.0))
    numbers = tuple(map(float, cast("tuple[float, ...]", formulas.parameters)))
    return CompiledKernel(functions, numbers, float(steepness), float(heaviness))


def _formulas_in_use(kernel: object) -> Formulas | None:
    """Return the formulas that linear time takes, if there are."""
    for cls in type(kernel).__mro__:
        if "formulas" in vars(cls):
            break
        if vars(cls).keys() & {"weight", "log_weight", "slope"}:
            return None
    formulas: Formulas | None = kernel.formulas() if hasattr(kernel, "formulas") else None
    if formulas is None or any(np.ndim(value) for value in formulas.parameters):
        return None
    return formulas


@jit(fastmath=FAST, error_model="numpy")
def _exp_of(functions, *args):
    return exp(functions[1](*args))


def parameter_of_each(kernel: object) -> str | None:
    """Return the name of the parameter that a kernel has for each point, None if there is none."""
    name = {Exponential: "beta", HeavyTailed: "beta", InhomogeneousStudentT: "nu"}.get(type(kernel))
    return name if name is not None and np.ndim(getattr(kernel, name)) == 1 else None


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
    array = check_numbers(owner, name, value, "a positive number, or one per point")
    in_range = array.ndim == 1 and bool(((array > 0) & (array <= np.finfo(np.float32).max)).all())
    if array.dtype.kind not in "iuf" or not in_range:
        raise InputError(owner, name, "a positive number, or one per point", repr(value))


__all__ = [
    "Exponential",
    "Formulas",
    "HeavyTailed",
    "InhomogeneousStudentT",
    "Kernel",
    "Multiscale",
    "StudentT",
    "exp",
    "ln",
    "ln1p",
]

public_names(__name__, __all__)
