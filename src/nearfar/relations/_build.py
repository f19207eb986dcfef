"""From edges or a matrix to the stored operator."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar._ids import Ids
from nearfar.errors import DataError, InputError
from nearfar.relations._csr import build_csr, transpose
from nearfar.relations.operators import Sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.relations.edges import Edges


def sparse_from_edges(owner: str, edges: Edges, *, mirror: bool, self_loops: bool, n_jobs: int) -> Sparse:
    """Return the matrix of the edges, in memory; ``mirror`` stores each in both directions.

    Raises
    ------
    DataError
        If no edge is left, or duplicates add up to more than float32 holds.
    """
    rows, columns, weights = edges.rows, edges.columns, edges.weights
    if not self_loops and edges.row_ids is edges.column_ids:
        keep = rows != columns
        rows, columns = rows[keep], columns[keep]
        weights = None if weights is None else weights[keep]
    check_some_edge(owner, rows.size)
    indptr, indices, data = build_csr(rows, columns, weights, len(edges.row_ids), mirror=mirror, n_jobs=n_jobs)
    check_sums(owner, data)
    return Sparse(indptr, indices, data, len(edges.column_ids), symmetric=mirror)


def check_some_edge(owner: str, n_edges: int) -> None:
    """Refuse what holds nothing once self-loops are left out; what held nothing before was refused by the reader."""
    if not n_edges:
        raise DataError(owner, "edges", "at least one edge", "self-loops only, which self_loops=False leaves out")


def check_sums(owner: str, data: Any) -> None:
    """Refuse weights that were finite one by one, and no longer are where duplicates added up."""
    if data is not None and not np.isfinite(data).all():
        raise DataError(owner, "weight", "small enough to add up in float32", "an infinite sum")


def sparse_from_matrix(
    owner: str, A: Any, ids: Iterable[Hashable] | None, column_ids: Iterable[Hashable] | None
) -> tuple[Sparse, Ids, Ids]:
    """Return the operator of a matrix, and the ids: the same object twice where rows and columns are the same.

    Raises
    ------
    InputError, DataError
        See :meth:`nearfar.Relation.from_matrix`.
    """
    csr = checked_csr(owner, A)
    n, m = csr.shape
    row_ids = Ids(n if ids is None else ids, owner=owner, name="ids")
    if column_ids is not None:
        other_ids = Ids(column_ids, owner=owner, name="column_ids")
    else:
        other_ids = row_ids if n == m else Ids(m)
    for name, given, size in (("ids", row_ids, n), ("column_ids", other_ids, m)):
        if len(given) != size:
            raise InputError(owner, name, f"{size} ids, one for each of A's", f"{len(given)}")
    if row_ids == other_ids:
        other_ids = row_ids
    return _sparse(csr, square=row_ids is other_ids), row_ids, other_ids


def _sparse(csr: csr_array[Any], *, square: bool) -> Sparse:
    m = csr.shape[1]
    data = None if np.all(csr.data == 1) else csr.data
    operator = Sparse(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), data, m, symmetric=False)
    arrays = (operator.indptr, operator.indices, operator.data)
    operator.symmetric = square and all(
        a is b or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(arrays, transpose(*arrays, m), strict=True)
    )
    return operator


def checked_csr(owner: str, A: Any) -> csr_array[Any]:
    """Return A as CSR, float32, sorted, without duplicates and zeros; a new object wherever A would change.

    Raises
    ------
    InputError
        If A is not a matrix of numbers.
    DataError
        If an entry is NaN, infinite or negative, or there is none.
    """
    from scipy.sparse import csr_array, issparse

    try:
        matrix: Any = A if issparse(A) else np.asarray(A)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise ValueError(f"{matrix.ndim} dimension(s) of {matrix.dtype}")
        csr: csr_array[Any] = csr_array(matrix, copy=True)
        csr.sum_duplicates()
        with np.errstate(over="ignore"):  # refused below
            csr = csr.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        got = f"{type(A).__name__} ({error})"
        hint = "Edges, files and graphs go to Relation.from_edges."
        raise InputError(owner, "A", "a sparse or dense matrix of real numbers", got, hint) from error
    bad = np.flatnonzero(~(csr.data >= 0) | np.isinf(csr.data))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        where = f"{csr.data[bad[0]]} in row {row}, column {csr.indices[bad[0]]} ({bad.size} such entries)"
        raise DataError(owner, "A", "finite and non-negative", where, "Shift or clip the weights first.")
    csr.eliminate_zeros()
    if csr.nnz == 0:
        raise DataError(owner, "A", "a matrix with at least one positive entry", f"none in shape {csr.shape}")
    return csr
