"""What is compared of data and map, row by row: distances, and what each row says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Distances(Protocol):
    """Distances among n rows, divided by ``unit``."""

    n: int
    unit: float

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the distances from ``rows`` to all rows, shape (q, n): float32, finite, from a row to itself 0."""

    def in_numpy(self) -> Distances:
        """Return the same, by which nothing is compiled."""
        return self


@dataclass(frozen=True, eq=False)
class RowScores:
    """What the sampled rows add up to (``overlaps``), and what each of them says; m rows, s sizes of neighbourhood.

    Parameters
    ----------
    overlaps : ndarray, shape (n - 1,), int64
        For each K, how many neighbours are shared, summed over the rows.
    weighted : ndarray, shape (m,)
        Weighted sum over K of how many neighbours are shared.
    sums : ndarray, shape (m, 3, s)
        By how much the ranks of intruding neighbours exceed k, the same of the lost ones, and how many of the k
        neighbours are shared.
    hits : ndarray, shape (2, m, s)
        Whether the k nearest, in the data and in the map, vote for the label of the row.
    moments : ndarray, shape (m, 5)
        Sums of r, d, r², d², r d over the others.
    pairs : ndarray, shape (2, m, p), float32
        Distances r and d to some others.
    """

    overlaps: NDArray[np.int64]
    weighted: NDArray[np.float64]
    sums: NDArray[np.float64]
    hits: NDArray[np.float64]
    moments: NDArray[np.float64]
    pairs: NDArray[np.float32]
