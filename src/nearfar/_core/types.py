"""Types of what a caller may give, by what it has: the packages that make it need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class HasArray(Protocol):
    """What NumPy makes an array of: an array, a frame, a tensor, an Embedding."""

    def __array__(self) -> NDArray[np.generic]:
        """Return the array."""


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""

    def tocsr(self) -> object:
        """Return it by rows."""


class Graph(Protocol):
    """A graph of networkx."""

    def number_of_edges(self) -> int:
        """Return how many edges there are."""


class EdgeIndex(Protocol):
    """A graph of PyTorch Geometric."""

    @property
    def edge_index(self) -> object:
        """Sources and targets."""


class Annotated(Protocol):
    """An AnnData object."""

    @property
    def obs_names(self) -> object:
        """Names of the rows."""

    @property
    def obsm(self) -> object:
        """Arrays with the same rows."""


FloatType = np.dtype[np.floating] | type[np.floating]
"""float32 or float64, however it is said."""
Numbers = HasArray | Sequence[float] | Sequence[Sequence[float]] | Sequence[HasArray]
"""What stands for an array of numbers of one or two dimensions; unlike NumPy's ``ArrayLike`` no text."""
Table = Numbers | SparseMatrix | Annotated
"""Rows of numbers, which may have ids."""
