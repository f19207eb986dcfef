"""What stands in for the private parts of numba where they cannot be relied on, by what numba documents alone.

Functions are compiled again in each process, since numba's own cache does not see that a function which is called has
changed. A vector is a single number: the loops of the kernels, which count in ``LANES``, do the same by itself. So all
works, more slowly, and gives the same to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import float32, float64, njit
from numba.extending import overload, register_jitable

LANES = 1


def compile_later(function: Callable[..., object], options: dict[str, object], _files: Callable[..., object]):
    """Return a function that numba compiles when it is called."""
    dispatcher = njit(nogil=True, **options)(function)
    dispatcher.nearfar_options = options
    return dispatcher


def options_of(dispatcher) -> dict[str, object]:
    """Return the options that a function of the library is compiled with."""
    return getattr(dispatcher, "nearfar_options", {})


@register_jitable
def zeros_like(array):
    """Return a zero of the array's type."""
    return array.dtype.type(0)


@register_jitable
def load(array, at, n):
    """Return number ``at`` of an array in the order of its memory, zero for n <= 0."""
    return array.reshape(-1)[at] if n > 0 else array.dtype.type(0)


@register_jitable
def store(array, at, n, value):
    """Write number ``at`` of an array in the order of its memory, for n > 0."""
    if n > 0:
        array.reshape(-1)[at] = value


def multiply_add(scale, value, total):
    """Return ``scale * value + total``, in the type of the value."""
    return scale * value + total


@overload(multiply_add)
def _multiply_add(scale, value, total):
    number = float32 if value == float32 else float64
    return lambda scale, value, total: number(scale) * value + total


@register_jitable
def multiply_add_lanes(left, right, total):
    """Return ``left * right + total``."""
    return left * right + total


@register_jitable
def add(left, right):
    """Return ``left + right``."""
    return left + right


@register_jitable
def over_root(value, square, least):
    """Return ``value / (sqrt(square) + least)``."""
    return value / (np.sqrt(square) + least)


@register_jitable
def at_most(value, limit):
    """Return 1 if the value is not above the limit, else 0."""
    return np.int64(value <= limit)


@register_jitable
def lane_sum(value):
    """Return the value."""
    return value


@register_jitable
def multiply_rows(X, x, steps, Y, y, step, n_inner, Z, z, width, n, rows, lanes):
    """Write ``rows`` rows of the product X Y, at most ``lanes`` of its ``n`` columns."""
    left, right, out = X.reshape(-1), Y.reshape(-1), Z.reshape(-1)
    for r in range(rows):
        for c in range(min(n, lanes)):
            total = X.dtype.type(0)
            for k in range(n_inner):
                total += left[x + r * steps[0] + k * steps[1]] * right[y + k * step + c]
            out[z + r * width + c] = total


@register_jitable
def prefetch(array, at):
    """Do nothing."""


@register_jitable
def prefetch_row(array, at, n, vectors):
    """Do nothing."""
