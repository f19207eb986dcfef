"""Compiled draws: random bits from a counter (splitmix64), and alias tables.

A block of draws depends on its own seed and on nothing else, so what is drawn is the same on one worker and on many,
and nobody's random state is touched.
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit

STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@jit(inline="always")
def splitmix(state: Any) -> Any:
    """Return the 64 mixed bits of a counter; the next draw uses ``state + STEP``."""
    z = state + STEP
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@jit
def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return Vose's alias table of non-negative weights: (threshold, alias), each of shape (k,).

    A draw takes a uniform cell i and keeps it with probability threshold[i], otherwise takes alias[i].
    """
    k = weights.size
    threshold = weights * (k / weights.sum())
    alias = np.arange(k).astype(np.int32)
    small, large = np.empty(k, np.int32), np.empty(k, np.int32)
    n_small, n_large = 0, 0
    for i in range(k):
        if threshold[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        alias[low] = high
        threshold[high] -= 1.0 - threshold[low]
        if threshold[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    for left in range(n_small):  # what rounding has left over
        i = small[left]
        if weights[i] > 0:
            threshold[i] = 1.0
        else:  # is never drawn
            threshold[i], alias[i] = 0.0, np.argmax(weights)
    for left in range(n_large):
        threshold[large[left]] = 1.0
    return threshold, alias
