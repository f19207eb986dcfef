"""Compiled draws: random bits from a counter (splitmix64), and alias tables.

A block of draws depends on its own seed alone, so what is drawn is the same on one worker and on many, and nobody's
random state is touched. Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators"; Vose (1991), "A
linear algorithm for generating random numbers with a given distribution".
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit, soonest
from nearfar._core.types import Doubles, Indices

STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31, _S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_UNIT = np.float64(2.0**-53)
_STEPS = 16  # for each weight of a table


@jit(inline="always")
def splitmix(state: np.uint64) -> np.uint64:
    """Return the 64 mixed bits of a counter; the next draw uses ``state + STEP``."""
    z = state + STEP
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@jit(inline="always")
def unit_of(bits: np.uint64) -> np.float64:
    """Return the number in [0, 1) that 64 random bits stand for."""
    return np.float64(bits >> _S11) * _UNIT


@jit(inline="always")
def below(bits: np.uint64, n: int) -> np.int64:
    """Return the integer in [0, n), n < 2**32, that 64 random bits stand for."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


def alias_table(weights: Doubles) -> tuple[Doubles, Indices]:
    """Return Vose's alias table of non-negative weights: (threshold, alias), each of shape (k,).

    A draw takes a uniform cell i and keeps it with probability threshold[i], otherwise takes alias[i].
    """
    return soonest(alias_loop, _STEPS * weights.size)(weights)


@jit
def alias_loop(weights: Doubles) -> tuple[Doubles, Indices]:
    """Return what ``alias_table`` does: its loop, for compiled code."""
    k, total, heaviest = weights.size, 0.0, 0
    for i in range(k):
        total += weights[i]
        if weights[i] > weights[heaviest]:
            heaviest = i
    threshold, alias, waiting = np.empty(k), np.empty(k, np.int32), np.empty(k, np.int32)
    scale = k / total
    n_small, n_large = 0, 0  # `waiting` holds the cells below 1 from its front, the others from its back
    for i in range(k):
        threshold[i], alias[i] = weights[i] * scale, i
        if threshold[i] < 1.0:
            waiting[n_small] = i
            n_small += 1
        else:
            n_large += 1
            waiting[k - n_large] = i
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = waiting[n_small], waiting[k - n_large]
        alias[low] = high
        threshold[high] -= 1.0 - threshold[low]
        if threshold[high] < 1.0:
            n_large -= 1
            waiting[n_small] = high
            n_small += 1
    for left in range(n_small):  # what rounding has left over
        i = waiting[left]
        if weights[i] > 0:
            threshold[i] = 1.0
        else:  # is never drawn
            threshold[i], alias[i] = 0.0, heaviest
    for left in range(n_large):
        threshold[waiting[k - 1 - left]] = 1.0
    return threshold, alias


def packed_alias_table(weights: Doubles) -> NDArray[np.uint64]:
    """Return an alias table with both numbers of a cell in one: 2**32 * threshold, and the alias."""
    thresholds, aliases = alias_table(weights)
    whole = thresholds >= 1
    aliases = np.where(whole, np.arange(len(weights)), aliases)
    high = np.where(whole, 0, np.floor(thresholds * 2.0**32)).astype(np.uint64)
    return high << _S32 | aliases.astype(np.uint64)


@jit(inline="always")
def alias_draw(bits: np.uint64, table: NDArray[np.uint64]) -> np.int32:
    """Return what 64 random bits draw from a table of ``packed_alias_table``: half of them for the cell."""
    cell = ((bits >> _S32) * np.uint64(table.size)) >> _S32
    entry = table[np.int64(cell)]
    other = entry & _LOW
    return np.int32(cell if (bits & _LOW) < (entry >> _S32) else other)
