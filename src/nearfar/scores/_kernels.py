"""The kernels of scores/kernels.py, compiled: w(f), ln w and -w'/w of one squared distance.

Which kernel is told by the length of the tuple ``family``, which numba knows when it compiles, so the branches below
cost nothing at run time. The error model of NumPy lets a division by zero pass: with Python's check in it no loop would
vectorise. ``constants`` is (1, a, b) in the type of the positions: a literal 1.0 would make everything
float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import numpy as np
from numba import float32, njit, types
from numba.extending import overload

from nearfar._vector import FAST


def typed(compiled, dtype):
    """Return (family, constants) for kernels that work in ``dtype``, from ``Kernel.compiled``."""
    family, (a, b) = compiled
    scalar = np.dtype(dtype).type
    return family, (scalar(1), scalar(a), scalar(b))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def log_weight(family, constants, f):
    """Return ln w(f)."""
    _, a, b = constants
    if len(family) == 0:
        return -a * f
    if len(family) == 1:
        return -ln1p(f)
    return -ln1p(a * b * f) / a


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def weight(family, constants, f):
    """Return w(f)."""
    one, a, b = constants
    if len(family) == 0:
        return exp(-a * f)
    if len(family) == 1:
        return one / (one + f)
    return exp(-ln1p(a * b * f) / a)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
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
@njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
def _ln1p64(x):
    """ln(1 + x) in float64, x >= 0; relative error below 1e-15, for small x by what 1 + x has lost of it."""
    u = 1.0 + x
    return _ln64(u) + (x - (u - 1.0)) / u
