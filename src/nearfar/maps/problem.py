"""What a map can show, its parts, and what is minimised."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.types import FloatType, Numbers, RowNumbers, SparseMatrix
from nearfar.base import PointsLike
from nearfar.contracts import Divergence, Floats, Kernel, Place
from nearfar.engines.registry import THREADS
from nearfar.kernels import parameter_of_each
from nearfar.maps.objective import Normalization, RowBlocks
from nearfar.relations.affinities import Affinities
from nearfar.relations.copies import Copies
from nearfar.relations.matrix import Relation

EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh. Measured, as those below,
over whole maps of 500 to 5,000 points."""
EXACT_WITH_EXP = 750, 1500
"""The same for kernels that take exp, a similarity of which takes two to six times as long; other divergences than KL
begin as t-SNE, whose pairs are quick."""
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

    @property
    def n_rows(self) -> int:
        """How many rows there are, copies among them."""
        return len(self.relation.row_ids) if self.copies is None else len(self.copies.same)


def of_first(kernel: Kernel, copies: Copies | None) -> Kernel:
    """Return the kernel of the different rows: of copies the parameter of the first counts."""
    name = parameter_of_each(kernel)
    if copies is None or name is None:
        return kernel
    made: Kernel = cast("Any", kernel).with_params(**{name: np.asarray(getattr(kernel, name))[copies.first]})
    return made


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

    @property
    def same(self) -> RowNumbers | None:
        """Which point each row is, where some are copies."""
        return None if self.copies is None else self.copies.same

    def counted(self) -> csr_array:
        """Return P as it counts, all rows of it."""
        P = self.P.to_csr()
        return csr_array((P + P.T) / 2) if self.normalization == "pair" else P
