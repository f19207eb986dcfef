"""What the compiled loops over pairs of points share."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from collections.abc import Callable

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.vector import FAST

Formula = Callable[..., object]
"""A formula of a method, or the compiled form of one."""


@jit(fastmath=FAST, error_model="numpy")
def buffers(indptr, start, stop, like):
    """Return room for the offsets of the longest row, and for two numbers per neighbour."""
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    more = np.empty((2, longest), like.dtype)
    return np.empty((like.shape[1], longest), like.dtype), more[0], more[1]


@jit(fastmath=FAST, error_model="numpy")
def write_offsets(Y, i, neighbors, offsets, f):
    """Write y_i - y_j and its squared length for a row of neighbours."""
    f[: neighbors.size] = 0
    for c in range(Y.shape[1]):
        for t in range(neighbors.size):
            difference = Y[i, c] - Y[neighbors[t], c]
            offsets[c, t] = difference
            f[t] += difference * difference


@jit
def first_of(pair):
    """Return the float32 in the lower half of 64 bits: the first component on a little-endian machine."""
    return np.int32(pair).view(np.float32)


@jit
def second_of(pair):
    """Return the float32 in the upper half."""
    return np.int32(pair >> 32).view(np.float32)
