"""What relations are made from, as types. Only for type checkers: nothing here is loaded."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import timedelta
from os import PathLike
from typing import IO, TYPE_CHECKING, Protocol, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from narwhals.typing import IntoFrame
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix


class Graph(Protocol):
    """A graph of networkx."""

    def is_directed(self) -> bool:
        """Whether edges have a direction."""


class WithEdgeIndex(Protocol):
    """A graph of PyTorch Geometric."""

    @property
    def edge_index(self) -> object:
        """A tensor of shape (2, n_edges)."""


class Annotated(Protocol):
    """AnnData."""

    @property
    def obsp(self) -> Mapping[str, Matrix]:
        """Matrices of pairs of observations."""

    @property
    def obs_names(self) -> Iterable[Hashable]:
        """Names of the observations."""


class WithVectors(Protocol):
    """An Embedding."""

    @property
    def vectors(self) -> ArrayLike:
        """Its rows."""


class Taken(TypedDict, total=False):
    """Which columns of a table were read, and which were left out: names, or positions where there are none."""

    source: str | int
    target: str | int
    time: str | int
    end: str | int
    weight: str | int | None
    left_out: list[str | int]


class _Counts(TypedDict):
    n_rows: int
    n_columns: int
    n_entries: int
    isolates: int
    sinks: int
    square: bool
    megabytes: float


class Description(_Counts, total=False):
    """What :meth:`nearfar.Relation.describe` returns."""

    columns: Taken


if TYPE_CHECKING:
    Matrix = ArrayLike | sparray | spmatrix
    Points = Matrix | IntoFrame | WithVectors | Annotated | tuple[ArrayLike, ArrayLike]
    EdgeSource = str | PathLike[str] | IO[str] | IO[bytes] | Iterable[object] | IntoFrame | Graph | WithEdgeIndex
    Length = float | timedelta | np.timedelta64
