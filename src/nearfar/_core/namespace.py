"""The module whose functions an array has: formulas are written once, for arrays of any kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
"""Numbers that formulas take: an array of NumPy, or one of another kind that stands for it, such as a tensor."""
Whole = NDArray[np.int64]
"""Row numbers, of the same kinds."""
Number = Array | float


class Norms(Protocol):
    """What formulas use of linear algebra."""

    def norm(self, x: Array, ord: None, axis: int, /) -> Array:  # noqa: A002 - NumPy's name
        """Return the lengths of vectors."""


class Namespace(Protocol):
    """The functions that formulas use: NumPy and torch have them by one name."""

    float64: type[np.float64]

    @property
    def linalg(self) -> Norms:
        """Linear algebra."""

    @overload
    def asarray(self, x: Whole, /, *, device: object) -> Whole: ...
    @overload
    def asarray(self, x: object, /, *, dtype: object) -> Array: ...

    def arange(self, n: int, /, *, device: object) -> Whole:
        """Return the numbers from 0 on."""

    def argsort(self, x: Whole, /) -> Whole:
        """Return the order of numbers."""

    def zeros_like(self, x: Array, /, *, dtype: object = None) -> Array:
        """Return zeros."""

    def ones_like(self, x: Array, /) -> Array:
        """Return ones."""

    def full_like(self, x: Array, value: float, /) -> Array:
        """Return equal numbers."""

    def stack(self, parts: Sequence[Array], /) -> Array:
        """Return arrays as rows of one."""

    def concatenate(self, parts: Sequence[Array], /) -> Array:
        """Return arrays behind each other."""

    def swapaxes(self, x: Array, first: int, second: int, /) -> Array:
        """Return an array with two axes the other way round."""

    def where(self, condition: object, there: Number, elsewhere: Number, /) -> Array:
        """Return numbers of the one or the other."""

    def clip(self, x: Array, least: float | None, most: float | None, /) -> Array:
        """Return numbers held between two others."""

    def maximum(self, x: Array, y: Array, /) -> Array:
        """Return the larger of each two."""

    def amax(self, x: Array, axis: int, /) -> Array:
        """Return the largest."""

    def exp(self, x: Array, /, *, out: Array | None = None) -> Array:
        """Return e to the power of x."""

    def expm1(self, x: Array, /) -> Array:
        """Return the same less 1."""

    def log(self, x: Array, /) -> Array:
        """Return the natural logarithm."""

    def log1p(self, x: Array, /) -> Array:
        """Return that of 1 + x."""

    def logaddexp(self, x: Array, y: Array, /) -> Array:
        """Return the logarithm of a sum, from those of its parts."""

    def sqrt(self, x: Number, /) -> Array:
        """Return the square root."""


def namespace_of(array: Array) -> Namespace:
    """Return the module of an array's type, NumPy or torch: both have the functions that formulas use, by one name."""
    return cast("Namespace", sys.modules[type(array).__module__.partition(".")[0]])


def of_tensors(formula: Callable[..., object]) -> Callable[..., Any]:
    """Return a formula, whose types are those of NumPy, as one of tensors."""
    return formula
