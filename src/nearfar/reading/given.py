"""What is given where a relation is taken: edges, a matrix of relations, or what could be either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._core.frames import is_null
from nearfar._core.types import Doubles
from nearfar.errors import NearfarError
from nearfar.reading.frames import open_table
from nearfar.reading.graphs import is_graph
from nearfar.reading.roles import Kind, kind_of_table

if TYPE_CHECKING:
    from nearfar.relations.operators import LinearOperator

_FEW = 3  # rows; with more, an array of 2 or 3 columns of whole numbers is a list of edges as well as a matrix
_EDGE = 3  # columns: the ends and a weight
_LOOKED_AT = 1000  # tuples of a list
_FEWEST, _SAMPLED = 8, 60  # rows of a matrix: fewer say nothing, so many are looked at
PAIRS = Kind("graph", "two or three columns of whole numbers (kind='table' for numbers)", sure=False)
"""What could be either."""


def form_of(relation: object) -> Literal["edges", "matrix", "folder", "either", "nothing"]:
    """Return what a relation is given as.

    Parameters
    ----------
    relation : object
        No :class:`nearfar.Relation`.

    Returns
    -------
    {"edges", "matrix", "folder", "either", "nothing"}
        Edges are a path, an open file, a graph, an iterator or another iterable, a list of tuples of two or three or of
        pairs of texts, a frame of edges by :func:`kind_of_frame`, or one with a column that holds no numbers. A matrix
        is all else that has rows and columns, such as a frame with the same labels on both sides. Whole numbers of
        shape (n, 2), (n, 3) or (2, n) with n > 3, in an array, a list or a frame without an index, could be either.
        None of all this is nothing.
    """
    if isinstance(relation, (str, PathLike)):
        return "folder" if Path(relation).is_dir() else "edges"
    if hasattr(relation, "read") or is_graph(relation) or isinstance(relation, (Iterator, Set)):
        return "edges"
    if hasattr(relation, "to_delayed") and hasattr(relation, "npartitions") and hasattr(relation, "columns"):
        return "edges"  # a frame of Dask
    import narwhals as nw

    try:
        frame = nw.from_native(relation, pass_through=True)
    except nw.exceptions.NarwhalsError:  # two columns of one name
        return "matrix"
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        try:
            found = kind_of_frame("as_relation", relation)
        except NearfarError:  # nodes, an index without a name: the reader of edges says so
            return "edges"
        is_matrix = found.kind == "matrix" or (found.kind == "table" and _are_numbers(relation))
        return "matrix" if is_matrix else "either" if found is PAIRS else "edges"
    if isinstance(relation, (list, tuple)):
        some = relation[:_LOOKED_AT]
        if not some or not all(isinstance(row, (tuple, list, np.ndarray)) and len(row) in (2, 3) for row in some):
            counted = bool(some) and isinstance(some[0], tuple) and len(some[0]) == 2 and isinstance(some[0][0], tuple)
            return "edges" if counted else "matrix"  # the first is an item of a count of pairs
        ends = [end for row in some for end in row[:2]]
        if any(isinstance(end, (float, np.floating)) and end % 1 != 0 for end in ends):
            return "matrix"
        of_numbers = all(isinstance(end, (int, float, np.number)) for end in ends)
        if any(isinstance(row, tuple) for row in some) or not of_numbers:
            return "edges"
        return _form_of_array(np.asarray(relation))
    if isinstance(relation, np.ndarray) and relation.ndim == 2:
        return _form_of_array(relation)
    known = ("shape", "__array__", "obsp", "vectors", "vocabulary")  # the last two are refused in their own words
    if any(hasattr(relation, name) for name in known):
        return "matrix"
    return "edges" if isinstance(relation, Iterable) and not isinstance(relation, (Mapping, bytes)) else "nothing"


def kind_of_frame(owner: str, frame: Any) -> Kind:
    """Return what a frame of any make holds, by the roles of its columns: edges, points, a text; a matrix, vectors.

    Two or three columns of whole numbers whose names do not say what they are could be :data:`PAIRS` or points; what a
    file does not show makes points of them: truths, numbers below 0, an index that is no numbering.

    Raises
    ------
    DataError
        If it is nodes and what is known of them.
    """
    if is_square_frame(frame):
        return Kind("matrix", "a frame with the same names on both sides")
    with open_table(owner, "source", frame) as table:
        first = [value for column in table.head for value in column[:1] if isinstance(value, (list, tuple, np.ndarray))]
        if any(np.asarray(value).dtype.kind in "biuf" for value in first):
            return Kind("vectors", "a frame with a column of vectors")
        found = kind_of_table(owner, table, "the frame")
    if found.sure or len(table.head) > _EDGE or not _are_numbers(frame):
        return found
    index: Any = getattr(frame, "index", ())
    few = _FEW - (table.names is None)  # without names they are as those of a file
    numbered = len(index) == 0 or (index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index))))
    if numbered:
        A = np.array([[np.nan if is_null(value) else value for value in column] for column in table.head], np.float64)
        if _form_of_array(A.T, few) == "either":
            return PAIRS
    return Kind("table", "a row of numbers for each point")


def is_square_frame(relation: Any) -> bool:
    """Return whether it is a pandas frame whose index and columns have the same labels, in any order."""
    if not hasattr(relation, "iloc") or not hasattr(relation, "columns"):
        return False
    index, columns = relation.index, relation.columns
    if list(columns) == list(range(len(columns))) == list(index):  # without names
        A = np.asarray(relation) if all(kind.kind in "biuf" for kind in relation.dtypes) else np.empty((0, 0))
        return A.size > 0 and bool(len(A) > _FEW or (A == A.T).all() or (A == 0).any())
    unique = len(index) == len(columns) and index.is_unique and columns.is_unique
    return bool(unique and set(index) == set(columns))


def why_distances(given: object, weights: LinearOperator) -> str:
    """Return what shows that a matrix holds distances and no weights; "" if nothing does.

    ``weights`` is what was made of it. Distances are a full, symmetric matrix with zeros on its diagonal alone, where
    no way round is shorter, also of the square roots; or a sparse one as searches for neighbours return it, as many
    entries in each row, which grow as they are stored.
    """
    n, m = weights.shape
    if n != m or n < _FEWEST:
        return ""
    if issparse(given) and _grows(given):
        return "entries grow within each row, as those of nearest neighbours do"
    if weights.nnz != n * (n - 1):
        return ""
    some = min(n, _SAMPLED)
    S = weights.rows(0, some)[:, :some].toarray().astype(np.float64)
    apart = ~np.eye(len(S), dtype=np.bool_)
    if np.diagonal(S).any() or not S[apart].all() or not np.allclose(S, S.T):
        return ""
    mixed = np.zeros_like(S)
    upper = np.triu_indices(len(S), 1)
    mixed[upper] = np.random.default_rng(0).permutation(S[upper])  # numbers as wide that are no distances
    mixed += mixed.T
    if np.ptp(S[apart]) == 0 or not (_is_metric(S) or (_is_metric(np.sqrt(S)) and not _is_metric(np.sqrt(mixed)))):
        return ""
    return "it is full, symmetric, zero on the diagonal alone, and no way round is shorter"


def _grows(A: Any) -> bool:
    """Whether the entries of each row of a CSR matrix are as many and grow as they are stored, not by column."""
    if A.format != "csr":
        return False
    k = np.diff(A.indptr[: _SAMPLED + 1])
    if k[0] < 3 or (k != k[0]).any():
        return False
    columns, steps = (np.diff(part[: k.sum()].astype(np.float64).reshape(len(k), -1)) for part in (A.indices, A.data))
    return bool((columns < 0).any() and (steps >= 0).all() and (steps > 0).any(axis=1).all())


def _is_metric(S: Doubles) -> bool:
    """Whether no pair has a way round, over a third object, that is shorter by more than rounding."""
    return all(((S[:, [k]] + S[k]) * (1 + 1e-4) >= S).all() for k in range(len(S)))


def _are_numbers(frame: Any) -> bool:
    """Whether all columns of a frame are of numbers, or of truths."""
    import narwhals as nw

    return all(kind.is_numeric() or kind == nw.Boolean for kind in nw.from_native(frame).collect_schema().dtypes())


def _form_of_array(A: NDArray[Any], few: int = _FEW) -> Literal["edges", "matrix", "either"]:
    if A.ndim != 2:
        return "matrix"
    if A.dtype.kind not in "biuf":
        return "edges" if A.shape[1] in (2, 3) and A.shape[0] > 0 else "matrix"
    if A.dtype.kind == "b" or max(A.shape) <= few or not (A.shape[1] in (2, 3) or A.shape[0] == 2):
        return "matrix"
    ends = A[:, :2] if A.shape[1] in (2, 3) else A
    with np.errstate(invalid="ignore"):
        whole = bool((ends % 1 == 0).all() and (ends >= 0).all())
    return "either" if whole and bool((ends > 1).any()) else "matrix"
