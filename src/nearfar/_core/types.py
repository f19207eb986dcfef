"""Types that many modules use: arrays by their numbers, and what a caller may give, by what it has.

The packages that make what is given need not be there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.integer]
Longs = NDArray[np.int64]
RowNumbers = NDArray[np.int64]
"""Which rows of a matrix, or which nodes."""
Indices = NDArray[np.int32]
"""The same as sparse matrices and compiled loops hold them."""
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Arrays = dict[str, NDArray[Any]]
"""Of whatever types a file or a model has, by name."""


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


class GraphLike(Protocol):
    """A graph of networkx."""

    def is_directed(self) -> bool:
        """Whether edges have a direction."""


class EdgeIndex(Protocol):
    """A graph of PyTorch Geometric."""

    @property
    def edge_index(self) -> object:
        """Sources and targets, shape (2, n_edges)."""


class Annotated(Protocol):
    """An AnnData object."""

    @property
    def obs_names(self) -> Iterable[Hashable]:
        """Names of the rows."""

    @property
    def obsp(self) -> Mapping[str, MatrixLike]:
        """Matrices of pairs of rows."""


class Series(Protocol):
    """A column of pandas, with its index."""

    @property
    def index(self) -> Iterable[Hashable]:
        """The ids."""

    def to_dict(self) -> Mapping[Hashable, float]:
        """Return the numbers by id."""


class Taken(TypedDict, total=False):
    """Which columns of a table were read, and which were left out: names, or positions where there are none."""

    source: str | int
    target: str | int
    time: str | int
    end: str | int
    weight: str | int | None
    left_out: list[str | int]
    form: str  # of a text: what separates its fields, and whether there is a header
    kinds: str  # what says that source and target are of two kinds
    roles: list[tuple[str | int, str, str]]  # each column, what it was read as, and why


class Description(TypedDict):
    """What :meth:`nearfar.Relation.describe` returns."""

    n_rows: int
    n_columns: int
    n_entries: int
    isolates: int
    sinks: int
    square: bool
    megabytes: float
    columns: NotRequired[Taken]


Seed = int | np.random.Generator | np.random.RandomState | None
FloatType = np.dtype[np.floating] | type[np.floating]
"""float32 or float64, however it is said."""
MatrixLike = ArrayLike | SparseMatrix
Numbers = HasArray | Sequence[float] | Sequence[Sequence[float]] | Sequence[HasArray]
"""What stands for an array of numbers of one or two dimensions; unlike NumPy's ``ArrayLike`` no text."""
TableLike = Numbers | SparseMatrix | Annotated
"""Rows of numbers, which may have ids."""
ColumnLike = Iterable[object] | HasArray
"""One thing for each row: by id a mapping or a Series, by row a list, an array or a column of any library."""
Labels = Iterable[object] | SparseMatrix
"""By id: a mapping or a Series from ids to a label, or to several. By row: labels, lists of labels, or indicators."""

if TYPE_CHECKING:  # a frame of any make is known to type checkers alone
    Points = MatrixLike | IntoFrame | Annotated | tuple[ArrayLike, ArrayLike]
    EdgeSource = str | PathLike[str] | IO[str] | IO[bytes] | Iterable[object] | IntoFrame | GraphLike | EdgeIndex
Length = float | timedelta | np.timedelta64
"""How long something is, in the unit of times, or a duration."""


Array = Floats
"""Numbers that formulas take: an array of NumPy, or one of another kind that stands for it, such as a tensor."""


def namespace_of(array: Array) -> ModuleType:
    """Return the module of an array's type, NumPy or torch: both have the functions that formulas use, by one name."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def of_tensors(formula: Callable[..., object]) -> Callable[..., Any]:
    """Return a formula, whose types are those of NumPy, as one of tensors."""
    return formula
