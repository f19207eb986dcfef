"""Phrases: pairs of words that come together far more often than by chance become one word, as ``new_york``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**22  # tokens at a time


class Joined(NamedTuple):
    """A text in which pairs are one word.

    Attributes
    ----------
    tokens : ndarray of int32
        With the pair number k as the word n + k.
    ends : ndarray of int64
    pairs : ndarray of int64
        As a n + b.
    """

    tokens: NDArray[np.int32]
    ends: NDArray[np.int64]
    pairs: NDArray[np.int64]


def joined(
    tokens: NDArray[np.int32], ends: NDArray[np.int64], counts: NDArray[np.int64], min_count: int, threshold: float
) -> Joined:
    """Make pairs of words that belong together one word, from the left, see :meth:`nearfar.EncodedCorpus.phrases`."""
    n = len(counts)
    pairs, often = _counted(tokens, ends, n)
    n_all = float(n + len(pairs))
    scores = (often - min_count) * n_all / (counts[pairs // n] * counts[pairs % n].astype(np.float64))
    found = pairs[(often > min_count) & (scores > threshold)]
    tokens, made = np.array(tokens), np.zeros(len(tokens), np.bool_)
    codes = _codes(tokens, n)
    place = np.minimum(np.searchsorted(found, codes), max(len(found) - 1, 0))
    match = (found[place] == codes) if len(found) else np.zeros(len(codes), np.bool_)
    match[ends[:-1] - 1] = False  # no phrase goes on in the next sentence
    at = np.arange(len(match))
    before = np.maximum.accumulate(np.where(match, -1, at)) if len(match) else at
    made[:-1] = match & ((at - before) % 2 == 1)  # of matches in a row the first, the third and so on
    tokens[:-1][made[:-1]] = n + place[made[:-1]]
    kept = np.ones(len(tokens), np.bool_)
    kept[1:] = ~made[:-1]
    gone = np.concatenate([[0], np.cumsum(~kept)])
    return Joined(tokens[kept], ends - gone[ends], found)


def _counted(tokens: NDArray[np.int32], ends: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of words that follow each other in a sentence, as a n + b, and how often they do."""
    pairs, often = np.empty(0, np.int64), np.empty(0, np.int64)
    for start in range(0, len(tokens) - 1, _BLOCK):
        stop = min(start + _BLOCK, len(tokens) - 1)
        codes = _codes(tokens[start : stop + 1], n)
        over = ends[(ends > start) & (ends <= stop)] - 1 - start
        found, times = np.unique(np.delete(codes, over), return_counts=True)
        pairs, place = np.unique(np.concatenate([pairs, found]), return_inverse=True)
        often = np.bincount(place, np.concatenate([often, times]), minlength=len(pairs)).astype(np.int64)
    return pairs, often


def _codes(tokens: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    return tokens[:-1].astype(np.int64) * n + tokens[1:]
