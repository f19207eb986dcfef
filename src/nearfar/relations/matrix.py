"""`Relation`: what is related to what, as a labelled, non-negative, sparse operator kept as factors."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import (
    available_processors,
    check_finite,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_path,
    check_real,
)
from nearfar._ids import Ids
from nearfar.contracts import Floats
from nearfar.errors import InputError, UnknownIdError
from nearfar.relations.sources import RelationSources

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.relations.operators import LinearOperator


class Relation(RelationSources):
    """A labelled, non-negative, sparse matrix P: ``P[i, a]`` says how strongly row object i is related to a.

    Products, weighted sums and walks are kept as factors and never multiplied out; a product with a dense block costs
    O(stored entries x columns of the block). Relations are immutable; every operation returns a new one that shares the
    stored arrays. Make one with :meth:`from_edges`, :meth:`from_matrix` or :meth:`from_corpus`.

    Parameters
    ----------
    operator : LinearOperator
        The factors; shape (n, m).
    row_ids, column_ids : Ids
        Names of the rows and columns. The same names in the same order on both sides make the relation *square*.

    Examples
    --------
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> rel.shape, rel.nnz
    ((3, 3), 4)
    >>> rel.neighbors("bob")
    [('ann', 1.0), ('eve', 1.0)]
    >>> walk = rel.random_walk(2)  # mean of the first two powers of the row-normalised matrix
    >>> walk.to_scipy().toarray().round(2)
    array([[0.25, 0.5 , 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.5 , 0.25]], dtype=float32)
    """

    def __init__(self, operator: LinearOperator, row_ids: Ids, column_ids: Ids) -> None:
        for name, ids, size in (("row_ids", row_ids, 0), ("column_ids", column_ids, 1)):
            if len(ids) != operator.shape[size]:
                raise InputError("Relation", name, f"{operator.shape[size]} ids", f"{len(ids)}")
        self.operator, self.row_ids, self.column_ids = operator, row_ids, column_ids

    # ---------------------------------------------------------------- in files

    def save(self, folder: str | PathLike[str]) -> None:
        """Store the relation in a folder, from which :meth:`open` maps it.

        Parameters
        ----------
        folder : path
            A new folder, or a stored relation that is replaced; it appears whole or not at all.

        Raises
        ------
        InputError
            If the relation has several factors or normalised rows (store what it was made of), the folder is something
            else, or an id is of a kind that cannot be stored.
        """
        from nearfar.relations.mapped import save

        save(check_path("Relation.save", "folder", folder), self.operator, self.row_ids, self.column_ids)

    # ---------------------------------------------------------------- what it is

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return self.operator.shape

    @property
    def nnz(self) -> int:
        """Stored entries, over all factors."""
        return self.operator.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the stored factors in memory; what is mapped from files does not count."""
        return self.operator.nbytes

    @property
    def is_square(self) -> bool:
        """Whether rows and columns are the same objects in the same order."""
        return self.row_ids is self.column_ids or self.row_ids == self.column_ids

    @property
    def row_sums(self) -> NDArray[np.float64]:
        """R = P 1, shape (n,), float64."""
        return self.operator.row_sums

    @property
    def column_sums(self) -> NDArray[np.float64]:
        """Pᵀ 1, shape (m,), float64."""
        return self.operator.column_sums

    @cached_property
    def isolates(self) -> NDArray[np.int64]:
        """Rows without any relation: empty row and, if square, empty column. Positions, int64."""
        empty = self.row_sums == 0
        return np.flatnonzero(empty & (self.column_sums == 0) if self.is_square else empty)

    @cached_property
    def sinks(self) -> NDArray[np.int64]:
        """Rows that are empty while their column is not (square relations only). Positions, int64."""
        if not self.is_square:
            return np.empty(0, np.int64)
        return np.flatnonzero((self.row_sums == 0) & (self.column_sums > 0))

    def describe(self) -> dict[str, Any]:
        """Return the counts that a look at the data starts with.

        Returns
        -------
        dict
            ``n_rows``, ``n_columns``, ``n_entries`` (stored, over all factors), ``isolates``, ``sinks`` (numbers of
            them), ``square`` and ``megabytes`` (in memory).
        """
        return {
            "n_rows": self.shape[0],
            "n_columns": self.shape[1],
            "n_entries": self.nnz,
            "isolates": int(self.isolates.size),
            "sinks": int(self.sinks.size),
            "square": self.is_square,
            "megabytes": round(self.nbytes / 1e6, 3),
        }

    def neighbors(self, id: Hashable) -> list[tuple[Any, float]]:  # noqa: A002 - the field's word
        """Return what a row is related to, strongest first: a list of (id, weight).

        Parameters
        ----------
        id : hashable
            The id of the row.

        Raises
        ------
        UnknownIdError
            If no row has this id.
        """
        row = self.row_ids.get(id)
        if row < 0:
            raise UnknownIdError("Relation.neighbors", [id])
        entries = self.operator.rows(row, row + 1)
        order = np.argsort(-entries.data, kind="stable")
        return [(self.column_ids[int(entries.indices[k])], float(entries.data[k])) for k in order]

    def to_scipy(self) -> csr_array[Any]:
        """Return the matrix multiplied out, float32: for small relations and for checks."""
        return self.operator.rows(0, self.shape[0])

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<Relation {n} x {m}, {self.nnz} stored entries{'' if self.is_square else ', rectangular'}>"

    # ---------------------------------------------------------------- algebra

    @property
    def T(self) -> Relation:  # noqa: N802 - as everywhere in NumPy
        """The transpose: who is related to me."""
        from nearfar.relations.composed import Transposed
        from nearfar.relations.operators import Sparse

        operator = self.operator
        if isinstance(operator, Transposed):
            return Relation(operator.inner, self.column_ids, self.row_ids)
        if isinstance(operator, Sparse) and operator.symmetric and operator.row_scale is None:
            return self
        return Relation(Transposed(operator), self.column_ids, self.row_ids)

    def normalized(self) -> Relation:
        """Return the row-normalised relation; an empty row stays empty."""
        from nearfar.relations.composed import RowScaled
        from nearfar.relations.operators import Sparse

        operator = self.operator
        plain = operator.scaled(None) if isinstance(operator, Sparse) and operator.row_scale is not None else operator
        sums = plain.row_sums
        scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0).astype(np.float32)
        scaled = plain.scaled(scale) if isinstance(plain, Sparse) else RowScaled(scale, plain)
        return Relation(scaled, self.row_ids, self.column_ids)

    def random_walk(self, steps: int = 3) -> Relation:
        """Return the mean of the first ``steps`` powers of the row-normalised relation.

        Entry (i, a) is the probability that a walk from i is at a, averaged over its first ``steps`` steps.

        Parameters
        ----------
        steps : int, default=3, >= 1

        Raises
        ------
        InputError
            If the relation is not square.

        References
        ----------
        Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling", section 4:
        P = (1/w) sum_{t=1..w} (D⁻¹A)ᵗ.
        """
        from nearfar.relations.composed import Walk

        check_integer("Relation.random_walk", "steps", steps, low=1)
        if not self.is_square:
            raise InputError(
                "Relation.random_walk",
                "the relation",
                "square (the same ids on both sides)",
                f"{self.shape[0]} rows and {self.shape[1]} columns of different ids",
                "For two kinds of objects walk on `rel @ rel.T` instead.",
            )
        normalized = self.normalized()
        if steps == 1:
            return normalized
        return Relation(Walk(normalized.operator, steps), self.row_ids, self.column_ids)

    @overload
    def __matmul__(self, other: Relation) -> Relation: ...
    @overload
    def __matmul__(self, other: Any) -> Floats: ...
    def __matmul__(self, other: Any) -> Relation | Floats:
        if not isinstance(other, Relation):
            return self.matmat(other)
        from nearfar.relations.composed import Product, factors_of

        if self.column_ids != other.row_ids:
            raise InputError(
                "Relation @ Relation", "the right factor", "over the left one's columns", _ids_differ(self, other)
            )
        return Relation(
            Product([*factors_of(self.operator), *factors_of(other.operator)]), self.row_ids, other.column_ids
        )

    def __mul__(self, factor: float) -> Relation:
        from nearfar.relations.composed import WeightedSum

        factor = check_real("Relation * factor", "factor", factor, low=0, open_low=True)
        return Relation(WeightedSum([factor], [self.operator]), self.row_ids, self.column_ids)

    __rmul__ = __mul__

    def __add__(self, other: object) -> Relation:
        from nearfar.relations.composed import WeightedSum, terms_of

        if not isinstance(other, Relation):
            return NotImplemented
        if self.row_ids != other.row_ids or self.column_ids != other.column_ids:
            raise InputError("Relation + Relation", "the second term", "over the same ids", _ids_differ(self, other))
        weights, terms = zip(*terms_of(self.operator), *terms_of(other.operator), strict=True)
        return Relation(WeightedSum(weights, terms), self.row_ids, self.column_ids)

    def matmat(self, X: Any, *, n_jobs: int | None = None) -> Floats:
        """Return P X, in parallel.

        Parameters
        ----------
        X : array-like of shape (m, d) or (m,), float32 or float64
            Anything else is converted to float32.
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.

        Returns
        -------
        ndarray of shape (n, d) or (n,), in X's dtype

        Raises
        ------
        InputError
            If X has another number of rows, or holds NaN or infinity in a row that something is related to.
        """
        return self._times(X, transposed=False, n_jobs=n_jobs)

    def rmatmat(self, X: Any, *, n_jobs: int | None = None) -> Floats:
        """Return Pᵀ X for X of shape (n, d) or (n,).

        Parameters
        ----------
        X, n_jobs
            As for :meth:`matmat`.
        """
        return self._times(X, transposed=True, n_jobs=n_jobs)

    def _times(self, X: Any, *, transposed: bool, n_jobs: int | None) -> Floats:
        owner = "Relation.rmatmat" if transposed else "Relation @ X"
        vector = getattr(X, "ndim", 2) == 1
        block = np.asarray(X)[:, None] if vector else X
        block = check_matrix(owner, "X", block, rows=self.shape[not transposed], finite=False)
        workers = available_processors() if n_jobs is None else check_n_jobs(owner, n_jobs)
        out, finite = self.operator.times(block, transposed=transposed, n_jobs=workers)
        if not finite:  # only then: to read all of X once more takes up to a third of the time
            check_finite(owner, "X", block)
        return out[:, 0] if vector else out


def _ids_differ(left: Relation, right: Relation) -> str:
    return f"shapes {left.shape} and {right.shape} with different ids"
