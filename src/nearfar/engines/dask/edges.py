"""Relations from the partitions of a Dask frame: the edges stay on the workers, in rows of a sparse matrix.

1. Each partition is read as any data frame: columns, weights, codes for the ids that it holds.
2. The client numbers the ids of all partitions in order of first appearance; it keeps them, and nothing else.
3. Each partition deals its edges out by part of the rows; each part sorts what it got and adds up duplicates, in the
   order of the partitions. So the matrix is the very one that one machine makes of the same edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter, itemgetter, methodcaller
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy.sparse import csr_array, vstack

from nearfar._core.checks import require
from nearfar._core.ids import Ids
from nearfar._core.types import Indices, Integers, Longs, Singles, Taken
from nearfar._core.warn import warn_user
from nearfar.contracts import Floats
from nearfar.engines.dask.client import gathered
from nearfar.engines.dask.rows import ClusterProducts, Owners, Parts, Rows, bounds_of, item, kept
from nearfar.errors import DataError, InputError, counted
from nearfar.reading.edges import read_edges
from nearfar.relations.kernels import build_csr, by_part, mirrored
from nearfar.relations.operators import Edges, LinearOperator, RowScaled, inverse_of, no_edge, times

if TYPE_CHECKING:
    from distributed import Client
    from pandas import DataFrame

OWNER = "Relation.from_edges"


Piece = tuple[Integers, Integers, Singles | None]
"""Some edges: rows, columns, and weights unless all are 1."""


N_ENTRIES = attrgetter("indices.size")
"""The stored entries of some rows."""


class ClusterSparse(LinearOperator):
    """A sparse matrix whose rows are on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    shape : tuple of int
    rows, columns : list of Future
        Parts of the matrix and of its transpose, each a ``Rows``; the same list where it is symmetric.
    nnz : int
    """

    def __init__(self, client: Client, shape: tuple[int, int], rows: Parts, columns: Parts, nnz: int) -> None:
        self.client, self.shape, self.nnz = client, shape, nnz
        self.row_parts, self.column_parts, self._products = rows, columns, ClusterProducts(Owners(client), 1)
        self._last: tuple[int, Rows] | None = None
        self.symmetric = self.is_undirected = rows is columns

    def __reduce__(self) -> NoReturn:
        hint = "nf.Relation.from_matrix(rel.to_scipy(), rel.row_ids, rel.column_ids) brings them to this machine."
        got = "one whose entries are on a cluster"
        raise InputError("Relation", "the relation", "on this machine, to be copied or pickled", got, hint)

    def product(self, X: Floats, *, transposed: bool) -> Floats:
        """Send X to the workers and take the product back: for what the client does once, as sums of rows."""
        cut = [X[a:b].copy() for a, b in pairwise(bounds_of(self.shape[not transposed]))]
        parts = [self._products.owners.submit(q, len(cut), kept, part) for q, part in enumerate(cut)]
        self._products.width = X.shape[1]
        found = times(self, self._products, parts, transposed=transposed)
        return np.concatenate(gathered("Relation", self.client, found))

    def normalized(self, power: float = 1.0) -> LinearOperator:
        """Return the matrix with its rows over a power of their sums; empty rows stay empty."""
        made = RowScaled(inverse_of(self.row_sums, power), self)
        made.is_undirected = self.is_undirected
        return made

    def rows(self, start: int, stop: int) -> csr_array:
        """Bring some rows to the client; the last part stays, for those who read one after the other."""
        parts = []
        for number, (a, b) in enumerate(pairwise(bounds_of(self.shape[0]))):
            low, high = max(a, start), min(b, stop)
            if low < high:
                if self._last is None or self._last[0] != number:
                    self._last = (number, gathered("Relation", self.client, [self.row_parts[number]])[0])
                part = self._last[1]
                data = np.ones(part.indices.size, np.float32) if part.data is None else part.data
                whole = csr_array((data, part.indices, part.indptr), shape=(b - a, self.shape[1]))
                parts.append(whole[low - a : high - a])
        return csr_array(vstack(parts, format="csr"))


def operator_of_frame(
    frame: Any,
    asked: dict[str, Any],
    taken: dict[str, object],
    *,
    mirror: bool,
    bipartite: bool | None,
    self_loops: bool,
) -> tuple[LinearOperator, Ids, Ids]:
    """Return the matrix of the edges in a Dask frame, on the workers of the client in use, and the ids.

    Raises
    ------
    InputError
        There is no client; partitions have other columns than the first, or ids of another type.
    DataError
        As for a data frame; the partition is named. All partitions are empty.
    """
    distributed = require(OWNER, "distributed", "cluster")
    try:
        client = distributed.Client.current()
    except ValueError as error:
        hint = "The edges stay on its workers: with dask.distributed.Client(...): relation = ..."
        raise InputError(OWNER, "edges", "a Dask frame in the context of a client", "no client", hint) from error
    owners, partitions = Owners(client), client.compute(frame.to_delayed())
    n_read = len(partitions)
    given = asked, bool(bipartite), self_loops
    read = owners.each(n_read, edges_of, partitions, list(range(n_read)), *given, what="edges")
    found = gathered(OWNER, client, owners.each(n_read, itemgetter(1), read), "partition {}".format)
    if all(facts is None for facts in found):
        raise DataError(OWNER, "edges", "at least one edge", f"{len(found)} empty partitions")
    first = next(facts for facts in found if facts is not None)
    for i, facts in enumerate(found):
        if facts is not None and facts["columns"] != first["columns"]:
            expected, got = f"the same columns in all partitions, {first['columns']}", facts["columns"]
            raise InputError(OWNER, "edges", expected, f"{got} in partition {i}")
    if missing := sum(facts["missing"] for facts in found if facts is not None):
        warn_user(f"{OWNER}: in {counted(missing, 'row')} of the Dask frame there is no source or no target; left out")
    taken.update(first["taken"])
    if bipartite is None:  # a few edges, read here for the warning that names of columns tell of two kinds
        some = owners.submit(0, n_read, methodcaller("head", 20), partitions[found.index(first)])
        known: Taken = {}
        read_edges(gathered(OWNER, client, [some])[0], **asked, bipartite=None, taken=known)
        if "kinds" in known:
            text = f"columns are of two kinds, {known['kinds']}, and were read as one: an id in both is one object."
            warn_user(f"{OWNER}: {text} Pass bipartite=True to keep them apart, or bipartite=False.")
    lists = [[None if facts is None else facts["ids"][side] for facts in found] for side in range(1 + bool(bipartite))]
    ids, codes = zip(*map(numbered, lists), strict=True)
    n, m = len(ids[0]), len(ids[-1])
    parts = [
        owners.submit(i, n_read, dealt, part, [maps[i] for maps in codes], (bounds_of(n), bounds_of(m)), mirror)
        for i, part in enumerate(read)
        if found[i] is not None
    ]

    sides: list[Parts] = []
    for side, size in enumerate((n,) if mirror else (n, m)):
        bounds = list(pairwise(bounds_of(size)))
        own = [owners.each(len(parts), item, parts, side, p) for p in range(len(bounds))]
        sides.append(owners.each(len(bounds), rows_of_edges, own, bounds, what="rows"))
    rows, columns = sides[0], sides[-1]  # the same list where it is symmetric
    nnz = int(sum(gathered(OWNER, client, owners.each(len(rows), N_ENTRIES, rows))))
    if not nnz:
        raise no_edge(OWNER)
    return ClusterSparse(client, (n, m), rows, columns, nnz), ids[0], ids[-1]


def numbered(parts: list[list[object] | Longs | None]) -> tuple[Ids, list[Indices | None]]:
    """Return all ids in order of first appearance, and for each partition the number of each of its ids.

    Raises
    ------
    InputError
        Some partitions have integers for ids and others do not.
    """
    numeric = [isinstance(part, np.ndarray) for part in parts if part is not None]
    if any(numeric) and not all(numeric):
        odd = next(i for i, part in enumerate(parts) if part is not None and isinstance(part, np.ndarray) != numeric[0])
        first, second = ("integers", "other objects") if numeric[0] else ("other objects", "integers")
        expected = f"ids of one type: {first} in the first partition"
        raise InputError(OWNER, "edges", expected, f"{second} in partition {odd}")
    number: dict[object, int] = {}
    maps: list[Indices | None] = []
    for part in parts:
        if part is None:
            maps.append(None)
            continue
        keys: Iterable[object] = part.tolist() if isinstance(part, np.ndarray) else part
        maps.append(np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int32, len(part)))
    return Ids(number, distinct=True), maps


# What the tasks do.


def edges_of(
    frame: DataFrame, number: int, asked: dict[str, Any], bipartite: bool, self_loops: bool
) -> tuple[Edges | None, dict[str, object] | None]:
    """Return the edges of a partition, and what the client must know of it; None for an empty one."""
    if not len(frame):
        return None, None
    taken: Taken = {}
    try:
        edges = read_edges(frame, **asked, bipartite=bipartite, taken=taken)
    except InputError as error:
        where = f"{error.got} of partition {number}"
        raise type(error)(error.owner, error.argument, error.expected, where, error.hint) from error
    ids = [edges.row_ids, edges.column_ids][: 1 + bipartite]
    columns = [str(name) for name in frame.columns]
    ends = [columns.index(end) if isinstance(end, str) else end for end in (taken["source"], taken["target"])]
    facts: dict[str, object] = {
        "columns": columns,
        "missing": int(frame.iloc[:, ends].isna().any(axis=1).sum()),  # told there, where nobody may see it
        "taken": taken,
        "ids": [side.to_numpy() if side.is_integer else side.to_list() for side in ids],
    }
    if not self_loops and not bipartite:
        edges = edges.some(edges.rows != edges.columns)
    return edges, facts


def dealt(
    read: tuple[Edges, object], maps: list[Indices], bounds: tuple[list[int], list[int]], mirror: bool
) -> list[list[Piece]]:
    """Return the edges of a partition by part of their rows, and, unless mirrored, by part of their columns."""
    edges = read[0]
    rows, columns, weights = maps[0][edges.rows], maps[-1][edges.columns], edges.weights
    if mirror:
        rows, columns, weights = mirrored(rows, columns, weights)
    sides = [(rows, columns, bounds[0])] if mirror else [(rows, columns, bounds[0]), (columns, rows, bounds[1])]
    return [
        [(own[at], other[at], None if weights is None else weights[at]) for at in by_part(own, limits)]
        for own, other, limits in sides
    ]


def rows_of_edges(pieces: list[Piece], where: tuple[int, int]) -> Rows:
    """Return the rows of a part from the pieces of all partitions."""
    start, stop = where
    rows = np.concatenate([piece[0] for piece in pieces]) - np.int32(start)
    columns = np.concatenate([piece[1] for piece in pieces])
    weights = None
    if any(piece[2] is not None for piece in pieces):
        weights = np.concatenate(
            [np.ones(len(piece[0]), np.float32) if piece[2] is None else piece[2] for piece in pieces]
        )
    indptr, indices, data = build_csr(OWNER, rows, columns, weights, stop - start)
    return Rows(np.asarray(indptr, np.int64), indices, data, None, None)
