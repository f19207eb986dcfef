"""The stresses of divergences/stress.py, compiled: cost of a pair and its force.

Which stress is told by the length of the tuple ``family``, which numba knows when it compiles. ``constants`` is
(1, 2, tiny, least) in the type of the positions: a literal would make everything float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"
import math

import numpy as np
from numba import njit

from nearfar._vector import FAST


def constants_of(dtype):
    """Return the constants for kernels that work in ``dtype``, with distances of about 1."""
    scalar = np.dtype(dtype).type
    return scalar(1), scalar(2), scalar(1e-18), scalar(1e-12)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def cost_and_pull(family, constants, r, f):
    """Return c(r, d) and c'(d)/d for d² = f, the derivative in d; finite at d = 0.

    Sammon's pairs without a distance (r below ``least``) cost nothing.
    """
    one, two, tiny, least = constants
    if len(family) == 1:
        gap = r * r - f
        return gap * gap, -two * two * gap
    d = math.sqrt(f)
    gap = r - d
    pull = two - two * r / max(d, tiny)
    if len(family) == 0:
        return gap * gap, pull
    share = one / r if r > least else r - r
    return share * gap * gap, share * pull
