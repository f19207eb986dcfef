"""The module whose functions an array has: formulas are written once, for arrays of any kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

import numpy as np

from nearfar._core.types import Floats, Longs

Array = Floats
"""Numbers that formulas take: an array of NumPy, or one of another kind that stands for it, such as a tensor."""
Number = Array | float


class Norms(Protocol):
    """What formulas use of linear algebra."""

    norm: Callable[[Array, None, int], Array]


class Namespace(Protocol):
    """The functions that formulas use: NumPy and torch have them by one name. NumPy's own types say Any of many."""

    float64: type[np.float64]
    linalg: Norms

    ones_like: Callable[[Array], Array]
    full_like: Callable[[Array, float], Array]
    stack: Callable[[Sequence[Array]], Array]
    concatenate: Callable[[Sequence[Array]], Array]
    swapaxes: Callable[[Array, int, int], Array]
    argsort: Callable[[Longs], Longs]
    where: Callable[[object, Number, Number], Array]
    clip: Callable[[Array, float | None, float | None], Array]
    maximum: Callable[[Array, Array], Array]
    amax: Callable[[Array, int], Array]
    expm1: Callable[[Array], Array]
    log: Callable[[Array], Array]
    log1p: Callable[[Array], Array]
    logaddexp: Callable[[Array, Array], Array]
    sqrt: Callable[[Number], Array]

    @overload
    def asarray(self, x: Longs, /, *, device: object) -> Longs: ...
    @overload
    def asarray(self, x: object, /, *, dtype: object) -> Array: ...

    def arange(self, n: int, /, *, device: object) -> Longs:
        """Return the numbers from 0 on."""

    def zeros_like(self, x: Array, /, *, dtype: object = None) -> Array:
        """Return zeros."""

    def exp(self, x: Array, /, *, out: Array | None = None) -> Array:
        """Return e to the power of x."""


def namespace_of(array: Array) -> Namespace:
    """Return the module of an array's type, NumPy or torch: both have the functions that formulas use, by one name."""
    return cast("Namespace", sys.modules[type(array).__module__.partition(".")[0]])


def of_tensors(formula: Callable[..., object]) -> Callable[..., Any]:
    """Return a formula, whose types are those of NumPy, as one of tensors."""
    return formula
