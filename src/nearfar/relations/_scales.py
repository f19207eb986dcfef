"""Several perplexities at once: which ones, and how many neighbours each of them takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nearfar._checks import check_real
from nearfar.errors import InputError

ENTRIES = 2**26
"""Neighbours of all points together that "multiscale" goes up to: half a gigabyte of numbers and distances."""
AT_LEAST = 32
"""Perplexity that "multiscale" goes up to, however many points there are."""


def perplexities_of(owner: str, perplexity: Any, n: int) -> tuple[float, ...]:
    """Return the perplexities that an argument asks for, for n points, largest first where it leaves the choice.

    "multiscale" is 2^u, u from round(log2(n / 4)) down to 1 (Lee et al. 2015). It begins with a smaller u where three
    neighbours for each unit of perplexity would be more than ``ENTRIES``.
    """
    if isinstance(perplexity, str) and perplexity == "multiscale":
        largest = max(1, round(math.log2(n / 4)))
        while largest > math.log2(AT_LEAST) and 3 * 2**largest * n > ENTRIES:
            largest -= 1
        return tuple(float(2**u) for u in range(largest, 0, -1))
    if isinstance(perplexity, (Sequence, np.ndarray)) and not isinstance(perplexity, str) and np.ndim(perplexity):
        if not len(perplexity):
            raise InputError(owner, "perplexity", "one number, several, or 'multiscale'", "none at all")
        return tuple(check_real(owner, "perplexity", each, low=1.0) for each in perplexity)
    try:
        return (check_real(owner, "perplexity", perplexity, low=1.0),)
    except InputError as error:
        raise InputError(owner, "perplexity", f"{error.expected}, several, or 'multiscale'", error.got) from None


def neighbors_of(perplexity: float, *, uniform: bool) -> int:
    """Return how many neighbours a perplexity takes: three for each unit, or with uniform weights one."""
    return max(1, round(perplexity) if uniform else math.floor(3 * perplexity))
