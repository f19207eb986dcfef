"""The words nearest to a sense: by their own senses, as far as these are more than rare."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._search import nearest_rows, row_norms, unit_rows
from nearfar.contracts import Floats

RARE = 0.05
"""Senses chosen in a smaller share of a word's contexts do not count."""


def words_near(
    vectors: Floats, shares: NDArray[np.float64], word: int, sense: int, topn: int, *, same_column: bool
) -> list[tuple[int, float]]:
    """Return rows of words and cosines, best first, each word by the nearest of its senses.

    Parameters
    ----------
    vectors : ndarray of shape (n_words, m, n)
        Sense vectors.
    shares : ndarray of shape (n_words, m), float64
        How often each is chosen.
    word, sense : int
        The sense that is asked for; its word is left out.
    topn : int
    same_column : bool
        Whether only senses of the same number are compared.
    """
    compared = shares >= RARE
    compared[word] = False
    if same_column:
        compared[:, np.arange(shares.shape[1]) != sense] = False
    rows, senses = np.nonzero(compared)
    others = vectors[rows, senses]
    k = min(topn * shares.shape[1], len(rows))
    if not k:
        return []
    best, scores = nearest_rows(unit_rows(vectors[word, sense][None]), others, k, norms=row_norms(others))
    nearest: dict[Any, float] = {}
    for row, score in zip(rows[best[0]].tolist(), scores[0].tolist(), strict=True):
        nearest.setdefault(row, score)
    return list(nearest.items())[:topn]
