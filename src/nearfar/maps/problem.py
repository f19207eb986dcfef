"""What a map can show, its parts, and what is minimised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.types import FloatType, Numbers, SparseMatrix
from nearfar.base import PointsLike
from nearfar.contracts import Divergence, Floats, Kernel, Place
from nearfar.engines.registry import THREADS
from nearfar.maps.objective import Normalization, RowBlocks
from nearfar.relations.affinities import Affinities
from nearfar.relations.copies import Copies
from nearfar.relations.matrix import Relation

Data = PointsLike | Affinities | tuple[Numbers, Numbers]
"""What a map can show: rows of numbers, a relation, affinities; neighbours and their distances."""


class Parts(NamedTuple):
    """The parts of a map."""

    divergence: Divergence
    kernel: Kernel
    normalization: Normalization


class Shown(NamedTuple):
    """What a map shows: a relation, the affinities behind it, and the rows of numbers behind these, if there are.

    ``given`` says that affinities were, who may need what workers have of them. With copies all these are of the
    different rows.
    """

    relation: Relation
    affinities: Affinities | None
    data: Floats | SparseMatrix | None
    given: bool = False
    copies: Copies | None = None


class Problem(NamedTuple):
    """What is minimised: the probabilities of the data, the parts of the map, where, and the importance of points.

    With copies there is a point for each of the different rows.
    """

    P: RowBlocks
    divergence: Divergence
    kernel: Kernel
    normalization: Normalization
    engine: str | Place = THREADS
    dtype: FloatType = np.float32
    weights: NDArray[np.float64] | None = None
    copies: Copies | None = None

    def counted(self) -> csr_array:
        """Return P as it counts, all rows of it."""
        P = self.P.to_csr()
        return csr_array((P + P.T) / 2) if self.normalization == "pair" else P
