"""The senses of a density matrix: its eigenvectors, and the words that are nearest to each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._ids import Ids
from nearfar._search import nearest_rows
from nearfar.contracts import Floats
from nearfar.scores.density import leading, svec


class Sense(NamedTuple):
    """One eigenvector of a word's density matrix: its weight, itself, and the ids nearest to it."""

    weight: float
    vector: NDArray[np.float64]
    nearest: list[tuple[Any, float]]


def senses_of(
    matrix: Floats, rows: Floats, norms: NDArray[np.float64], ids: Ids, own: int | None, n_senses: int, topn: int
) -> list[Sense]:
    """Return the heaviest eigenvectors v with the ids of largest ``vᵀA v / ‖A‖``, but for the row ``own``."""
    weights, axes = leading(matrix, n_senses)
    k = min(topn, len(rows) - (own is not None))
    nearest: list[list[tuple[Any, float]]] = [[] for _ in axes]
    if k and len(axes):
        queries = svec(axes[:, :, None] * axes[:, None, :])
        skip = None if own is None else np.full(len(axes), own)
        found = nearest_rows(queries, rows, k, norms=norms, skip=skip)
        nearest = [
            [(ids[row], score) for row, score in zip(*pair, strict=True)]
            for pair in zip(*(part.tolist() for part in found), strict=True)
        ]
    return [Sense(*sense) for sense in zip(weights.tolist(), axes, nearest, strict=True)]
