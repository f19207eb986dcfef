"""Rows in parts on the workers, and products of sparse matrices with them.

A part is a range of rows; ``bounds`` says which. The vectors of each part are one array on some worker, the rows of a
sparse matrix are blocks in CSR form beside them. A block knows which rows of the others it reads, in order; in a
product it gets these rows alone, from the part of each::

    needed rows of part q for block p  =  X_q[rows_pq]         a task where X_q is, for each pair (p, q) that has some
    out_p                              =  base_p + factor * A_p [X_0[rows_p0]; X_1[rows_p1]; ...]

Columns keep their order within a row, so a product sums in the order of the compiled kernel of one machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.lazy import RowsInParts
from nearfar._core.types import Indices, Longs, Singles
from nearfar._core.vector import empty_aligned, read_only
from nearfar.contracts import Floats
from nearfar.engines.dask.client import gathered
from nearfar.relations import operators
from nearfar.relations.kernels import NO_STORED_WEIGHTS, NO_WEIGHTS, ScaledCsr, product, vector_product
from nearfar.relations.operators import LinearOperator, Sparse

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
Parts = list["Future"]
"""A future for each part."""


ROWS = 65_536
"""Rows of a part: its vectors are 32 MiB at d = 128."""
FEWEST, MOST = 8, 256  # parts


def bounds_of(n: int) -> list[int]:
    """Return the bounds of the parts of n rows: they do not depend on the workers, so neither do the sums."""
    n_parts = int(np.clip(-(-n // ROWS), FEWEST, MOST))
    return (np.arange(n_parts + 1) * n // n_parts).tolist()


def kept(value: T) -> T:
    """Return what is given: the task from which a worker gets it, also a second time."""
    return value


FAN_IN = 8  # items that one task joins


class Owners:
    """Which worker each part belongs to: neighbouring parts to the same one. Tasks of a part run there if they can.

    So only rows move that one part needs of another. Another worker may take a task where the owner is lost or busy.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.workers = sorted(client.ncores())
        self._cut: dict[int, tuple[NDArray[Any], Parts]] = {}  # with the array whose id is the key

    def of(self, part: int, n_parts: int) -> str:
        """Return the address of the owner of a part; nothing where there is no worker yet."""
        return str(self.workers[part * len(self.workers) // n_parts]) if self.workers else ""

    def submit(
        self, part: int, n_parts: int, function: Callable[..., object], *arguments: object, what: str = "task"
    ) -> Future:
        """Submit a task of a part. It may hold its data, so that they can be made again where a worker is lost.

        Dask warns of large ones: scattered data would spare the scheduler their memory, and be lost with their worker.
        """
        where = {"workers": [self.of(part, n_parts)], "allow_other_workers": True} if len(self.workers) > 1 else {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(function, *arguments, pure=False, key=named(what, part), **where)

    def each(self, n: int, function: Callable[..., object], *columns: object, what: str = "task") -> Parts:
        """Submit a task for each of n parts, of what is in its place in each column; others than lists are for all."""
        rows = ([one[q] if isinstance(one, list) else one for one in columns] for q in range(n))
        return [self.submit(q, n, function, *row, what=what) for q, row in enumerate(rows)]

    def cut(self, numbers: NDArray[Any]) -> Parts:
        """Return numbers of one per row in parts, which are sent once."""
        if id(numbers) not in self._cut:
            parts = [numbers[a:b] for a, b in pairwise(bounds_of(len(numbers)))]
            self._cut[id(numbers)] = numbers, self.each(len(parts), kept, parts)
        return self._cut[id(numbers)][1]

    def joined(
        self, items: Parts, n_parts: int, function: Callable[..., object], *arguments: object, what: str = "task"
    ) -> Future:
        """Join what the parts have, at least one item, in a tree of ``function(items, *arguments)``."""
        while len(items) > 1:
            groups = [items[i : i + FAN_IN] for i in range(0, len(items), FAN_IN)]
            items = [self.submit(i * FAN_IN, n_parts, function, g, *arguments, what=what) for i, g in enumerate(groups)]
        return items[0]


def sent(owners: Owners, V: RowsInParts | Floats, bounds: Sequence[int]) -> Parts:
    """Return the parts of a matrix on the workers, which read themselves what is in files."""
    n = len(bounds) - 1
    if isinstance(V, RowsInParts):
        return owners.each(n, rows_between, V, list(bounds[:-1]), list(bounds[1:]), what="file")
    return owners.each(n, kept, [np.array(V[a:b]) for a, b in pairwise(bounds)])


def rows_between(V: RowsInParts, start: int, stop: int) -> Floats:
    """Return rows out of files."""
    return np.array(V[start:stop])


class Rows(NamedTuple):
    """Some rows of a sparse matrix in CSR form, with the factors of rows and columns that stand outside of it."""

    indptr: Longs
    indices: Indices
    data: Singles | None
    row_scale: Singles | None
    column_scale: Singles | None


class Block(NamedTuple):
    """Rows whose columns are numbered by the rows that they need; ``needed[q]`` are those of part q, from its start."""

    matrix: ScaledCsr
    needed: list[Indices]


def rows_of_sparse(A: Sparse, start: int, stop: int, *, transposed: bool) -> Rows:
    """Return rows start..stop of a sparse matrix or of its transpose; views."""
    indptr, indices, data = A.stored(transposed=transposed)
    row_scale, column_scale = (None, A.row_scale) if transposed else (A.row_scale, None)
    span = slice(int(indptr[start]), int(indptr[stop]))
    return Rows(
        np.asarray(indptr[start : stop + 1] - indptr[start], np.int64),
        np.asarray(indices[span]),
        None if data is None else np.asarray(data[span]),
        None if row_scale is None else np.asarray(row_scale[start:stop]),
        column_scale,
    )


def block_of(rows: Rows, bounds: Sequence[int]) -> Block:
    """Return the rows with columns that are numbered anew, by the rows that are needed."""
    needed, local = np.unique(rows.indices, return_inverse=True)
    cuts = np.searchsorted(needed, bounds)
    column_scale = None if rows.column_scale is None else rows.column_scale[needed]
    row_scale = NO_WEIGHTS if rows.row_scale is None else rows.row_scale
    matrix = ScaledCsr(rows.indptr, local.astype(np.int32), rows.data, row_scale, column_scale)
    first = np.asarray(bounds[:-1])
    parts = [(needed[a:b] - start).astype(np.int32) for (a, b), start in zip(pairwise(cuts), first, strict=True)]
    return Block(matrix, parts)


def n_needed(block: tuple[object, list[Indices]]) -> list[int]:
    """Return how many rows of each part a block needs, which are its second item."""
    return [rows.size for rows in block[1]]


def item(value: Any, *path: int) -> Any:
    """Return an item of an item ... of what a task has made."""
    return reduce(getitem, path, value)


def aligned(X: Floats) -> Floats:
    """Return an array whose memory begins where arrays of this process do: BLAS sums in another order elsewhere."""
    fresh: Floats = empty_aligned(X.shape, X.dtype)
    fresh[:] = X
    return fresh


def taken(X: Floats, rows: Indices) -> Floats:
    """Return rows of a part: all of them without a copy."""
    return X if rows.size == len(X) else X[rows]


def multiplied(block: Block, base: Floats | None, factor: float, width: int, *pieces: Floats) -> Floats:
    """Return ``base + factor * A X`` for the rows of a block, from the rows that it needs."""
    V = pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros((0, width), np.float32)
    n, dtype = len(block.matrix.indptr) - 1, V.dtype if base is None else base.dtype
    out = np.zeros((n, width), dtype) if base is None else base.copy()
    if not V.size:
        return out
    matrix, kernel = block.matrix, product
    if width == 1:
        kernel = vector_product
        matrix = matrix._replace(
            data=NO_STORED_WEIGHTS if matrix.data is None else matrix.data,
            column_scale=NO_WEIGHTS if matrix.column_scale is None else matrix.column_scale,
        )
    matrix, V, given = read_only((matrix, np.ascontiguousarray(V), out[:0] if base is None else out))
    kernel(matrix, V, factor, given, out, (0, n))
    return out


def scaled(scale: Singles, X: Floats, base: Floats | None, factor: float) -> Floats:
    """Return ``base + factor * diag(scale) X`` for a part."""
    out = X * (scale[:, None] * factor).astype(X.dtype)
    return out if base is None else out + base


Stored = tuple[Parts, list[list[int]], dict[tuple[int, int], "Future"]]
"""Blocks of a matrix, how many rows each needs of each part, and which these are."""


class ClusterProducts(operators.Products[Parts]):
    """Products of operators with vectors in parts; what :func:`~nearfar.relations.operators.times` asks for.

    Parameters
    ----------
    owners : Owners
    width : int
        d.
    """

    def __init__(self, owners: Owners, width: int) -> None:
        self.owners, self.width = owners, width
        self._blocks: dict[tuple[int, bool], Stored] = {}
        self._kept: list[LinearOperator] = []  # so that no id is given twice

    def sparse(
        self, A: Any, X: Parts, base: Parts | None, factor: float, out: Parts | None, *, transposed: bool
    ) -> Parts:
        """Return ``base + factor * A X``, of A or its transpose; its rows are sent the first time, or there already."""
        submit, each = self.owners.submit, self.owners.each
        if (id(A), transposed) not in self._blocks:
            rows = A.column_parts if transposed else A.row_parts
            if isinstance(A, Sparse):
                spans = pairwise(bounds_of(A.shape[transposed]))
                rows = [rows_of_sparse(A, a, b, transposed=transposed) for a, b in spans]
            blocks = each(len(rows), block_of, list(rows), tuple(bounds_of(A.shape[not transposed])), what="block")
            counts = gathered("Relation", self.owners.client, each(len(rows), n_needed, blocks))
            pairs = [(p, q) for p, row in enumerate(counts) for q, count in enumerate(row) if count]
            needed = {(p, q): submit(q, len(counts[p]), item, blocks[p], 1, q) for p, q in pairs}
            self._blocks[id(A), transposed] = (blocks, counts, needed)
            self._kept.append(A)
        blocks, _, needed = self._blocks[id(A), transposed]
        products = []
        for p, block in enumerate(blocks):
            pieces = [submit(q, len(X), taken, X[q], needed[p, q]) for q in range(len(X)) if (p, q) in needed]
            own = None if base is None else base[p]
            products.append(submit(p, len(blocks), multiplied, block, own, factor, self.width, *pieces, what="product"))
        return products

    def scaled(self, scale: Singles, X: Parts, base: Parts | None, factor: float, out: Parts | None) -> Parts:
        """Return ``base + factor * diag(scale) X``."""
        return self.owners.each(len(X), scaled, self.owners.cut(scale), X, base, factor)


_count = 0


def named(what: str, part: int) -> str:
    """Return a new name of a task that says of which part it is."""
    global _count
    _count += 1
    return f"nearfar-{what}-of-part-{part}-{_count}-{np.random.default_rng().integers(2**63):x}"
