"""Neighbours among vectors, by the Euclidean distance or by the angle.

The cosine distance is half the squared Euclidean distance of the directions: ``1 - cos = |x/|x| - y/|y||² / 2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar._checks import check_matrix
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.relations._inverted_lists import InvertedLists
from nearfar.relations._lists import Found
from nearfar.relations.neighbors import Neighbors

_REACH = 1e15  # widths of the data by which a query may be away from them: squares must not overflow
_WIDTHS = (1e-30, 1e37)  # of the widest column: distances are float32


class VectorIndex:
    """Neighbours among the rows of a dense matrix.

    Parameters
    ----------
    owner : str
    X : ndarray of shape (n, d), float32 or float64, finite
        Kept by reference, unless directions are needed: it must stay as it is.
    cosine : bool
        Whether directions are compared, by 1 - cos.
    recall : float
        Share of the neighbours that is to be found; 1 searches exactly.
    rng : numpy.random.Generator
    n_jobs : int
    """

    def __init__(
        self, owner: str, X: Floats, *, cosine: bool, recall: float, rng: np.random.Generator, n_jobs: int
    ) -> None:
        self._owner, self._cosine, self._recall = owner, cosine, recall
        if X.shape[1] == 0:
            raise InputError(owner, "X", "of one column at least", f"shape {X.shape}")
        with np.errstate(over="ignore"):
            width = float((X.max(axis=0) - X.min(axis=0)).max()) if len(X) and not cosine else 0.0
        if width and not _WIDTHS[0] < width < _WIDTHS[1]:
            expected = f"of columns whose width is between {_WIDTHS[0]:g} and {_WIDTHS[1]:g}"
            raise InputError(owner, "X", expected, f"{width:g}", "Multiply X by a constant.")
        self._index = InvertedLists(self._directions(X) if cosine else X, rng, n_jobs)
        self._n_probes: dict[int, int] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows that are searched."""
        return len(self._index.X)

    def neighbors(self, k: int) -> Neighbors:
        """Return the k nearest other rows of each row."""
        return self._answer(self._index.neighbors(k, self._probes(k)))

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X."""
        Q = check_matrix(self._owner, "X", X, columns=self._index.X.shape[1])
        if not self._cosine:
            self._check_reach(Q)
        return self._answer(self._index.query(self._directions(Q) if self._cosine else Q, k, self._probes(k)))

    def _check_reach(self, Q: Floats) -> None:
        center = self._index.X[0].astype(np.float64)
        with np.errstate(over="ignore"):
            beyond = np.flatnonzero((np.abs(Q - center) * self._index.scale > _REACH).any(axis=1))
        if beyond.size:
            expected = f"within {_REACH:g} times the width of the fitted rows"
            got = f"{beyond.size} row(s) beyond, first {beyond[:5].tolist()}"
            raise InputError(self._owner, "X", expected, got, "Single precision cannot tell their distances apart.")

    def _probes(self, k: int) -> int:
        if self._recall >= 1.0:
            return self._index.n_lists
        if k not in self._n_probes:
            self._n_probes[k] = self._index.probes_for(k, self._recall)
        return self._n_probes[k]

    def _answer(self, found: Found) -> Neighbors:
        indices, distances = found
        if self._cosine:
            distances *= distances / 2
        return Neighbors(indices, distances)

    def _directions(self, X: Floats) -> Floats:
        peak = np.abs(X).max(axis=1, initial=0.0)
        zero = np.flatnonzero(peak == 0)
        if zero.size:
            got = f"{zero.size} row(s) of zeros, first {zero[:5].tolist()}"
            raise InputError(self._owner, "X", "without rows of zeros under metric='cosine'", got)
        scaled: Floats = X / peak[:, None]  # large numbers would overflow in the squares
        scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        return scaled
