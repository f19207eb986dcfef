"""Where every reader puts its edges, piece by piece: ids become codes, weights are checked, and only codes are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._ids import Ids
from nearfar.errors import DataError
from nearfar.relations._factorize import BadIdError, IntegerCodes, ObjectCodes, StringCodes
from nearfar.relations._text_kernels import Bytes, parse_integers
from nearfar.relations.edges import Edges

Column = NDArray[np.int64] | Sequence[Any]
Where = Callable[[int], str]


class EdgeStore(Protocol):
    """Where the codes and weights of the edges go, piece by piece."""

    def append(self, rows: NDArray[np.int32], columns: NDArray[np.int32], weights: NDArray[np.float32] | None) -> None:
        """Keep a piece; all pieces have weights, or none has."""

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]:
        """Return all edges in the order in which they came; the store is empty afterwards."""


class MemoryStore:
    """Edges in memory."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int32]] = []
        self._columns: list[NDArray[np.int32]] = []
        self._weights: list[NDArray[np.float32]] = []

    def append(self, rows: NDArray[np.int32], columns: NDArray[np.int32], weights: NDArray[np.float32] | None) -> None:
        self._rows.append(np.ascontiguousarray(rows))
        self._columns.append(np.ascontiguousarray(columns))
        if weights is not None:
            self._weights.append(weights)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]:
        weights = _joined(self._weights, np.float32) if self._weights else None
        return _joined(self._rows, np.int32), _joined(self._columns, np.int32), weights


class EdgeCollector:
    """Edges in the making.

    A side (there are two if bipartite, else one for both ends) starts out with integer codes. What is no integer turns
    it, with the ids so far, into codes of strings (text) or of any objects.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    bipartite : bool
        Whether sources and targets are of different kinds, each with ids of their own.
    store : EdgeStore, optional
        Where the codes go; memory by default.
    """

    def __init__(self, owner: str, bipartite: bool, store: EdgeStore | None = None) -> None:
        self.owner = owner
        self._store = MemoryStore() if store is None else store
        self._sides: list[IntegerCodes | StringCodes | ObjectCodes] = [IntegerCodes() for _ in range(1 + bipartite)]

    def add_ids(self, keys: Sequence[Any], side: int = 0) -> None:
        """Enter ids without an edge, any hashable ones."""
        self._encode(side, keys, lambda _: "a node")

    def add_text(
        self, text: Bytes, spans: NDArray[np.int32], weights: NDArray[np.float64] | None, where: Where
    ) -> None:
        """Enter edges whose ids lie in a text, spans of shape (n, 2, 2): integers as long as all are, then strings."""
        if all(isinstance(side, IntegerCodes) for side in self._sides):
            keys = np.empty((len(spans), 2), np.int64)
            if parse_integers(text, spans, keys):
                self.add_columns(keys[:, 0], keys[:, 1], weights, where)
                return
            self._sides = [StringCodes(map(str, side.ids().tolist())) for side in self._sides]  # type: ignore[union-attr]
        first, last = self._sides[0], self._sides[-1]
        assert isinstance(first, StringCodes)
        assert isinstance(last, StringCodes)
        if first is last:
            codes = first.encode(text, spans.reshape(-1, 2)).reshape(-1, 2)
            self._add(codes[:, 0], codes[:, 1], weights, where)
        else:
            self._add(first.encode(text, spans[:, 0]), last.encode(text, spans[:, 1]), weights, where)

    def add_columns(self, sources: Column, targets: Column, weights: NDArray[np.float64] | None, where: Where) -> None:
        """Enter edges given as two columns, each an int64 array or a sequence of objects."""
        if len(self._sides) == 2:
            self._add(
                self._encode(0, sources, lambda k: where(k)),
                self._encode(1, targets, lambda k: where(k)),
                weights,
                where,
            )
            return
        both: Column
        if isinstance(sources, np.ndarray) and isinstance(targets, np.ndarray):
            both = np.stack([sources, targets], axis=1).reshape(-1)
        else:
            both = [None] * (2 * len(sources))
            both[0::2], both[1::2] = _listed(sources), _listed(targets)
        codes = self._encode(0, both, lambda k: where(k // 2)).reshape(-1, 2)
        self._add(codes[:, 0], codes[:, 1], weights, where)

    def finish(self) -> Edges:
        """Return the edges; the collector is empty afterwards."""
        rows, columns, weights = self._store.arrays()
        if not rows.size:
            raise DataError(self.owner, "edges", "at least one edge of weight > 0", "none", "Is this the right input?")
        ids = []
        while self._sides:  # each table goes before the next list of ids comes
            ids.append(Ids.of_distinct(self._sides.pop(0).ids()))
        return Edges(rows, columns, weights, ids[0], ids[-1])

    def _encode(self, side: int, keys: Column, where: Where) -> NDArray[np.int32]:
        codes = self._sides[side]
        if isinstance(keys, np.ndarray) and isinstance(codes, IntegerCodes):
            return codes.encode(keys)
        try:
            return self._objects(side).encode(_listed(keys))
        except BadIdError as error:
            raise DataError(
                self.owner, "every id", error.expected, f"{error.key!r} in {where(error.position)}"
            ) from None

    def _id(self, side: int, code: np.int32) -> Any:
        key = self._sides[side].ids()[code]
        return key.item() if isinstance(key, np.generic) else key

    def _objects(self, side: int) -> ObjectCodes:
        codes = self._sides[side]
        if not isinstance(codes, ObjectCodes):
            ids = codes.ids()
            codes = self._sides[side] = ObjectCodes(_listed(ids))
        return codes

    def _add(
        self,
        rows: NDArray[np.int32],
        columns: NDArray[np.int32],
        weights: NDArray[np.float64] | None,
        where: Where,
    ) -> None:
        stored = None
        if weights is not None:
            with np.errstate(over="ignore"):
                stored = weights.astype(np.float32)
            good = np.isfinite(stored) & (weights >= 0)
            if not good.all():
                k = int(np.argmin(good))
                pair = f"{self._id(0, rows[k])!r} -> {self._id(-1, columns[k])!r}"
                raise DataError(
                    self.owner,
                    "every weight",
                    "a number >= 0, finite in float32",
                    f"{weights[k]:g} in {where(k)} ({pair})",
                    "Correct or drop such edges, or pass weight=False to ignore the weights.",
                )
            kept = stored > 0
            if not kept.all():
                rows, columns, stored = rows[kept], columns[kept], stored[kept]
        self._store.append(rows, columns, stored)


def numbers(values: Iterable[Any], owner: str, where: Where) -> NDArray[np.float64]:
    """Return weights that came as Python objects as an array; a text is not a number."""
    listed = list(values)
    found = np.empty(len(listed))
    for k, value in enumerate(listed):
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(owner, "every weight", "a number", f"{value!r} in {where(k)}") from None
    return found


def _listed(column: Column) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _joined(pieces: list[Any], dtype: type) -> NDArray[Any]:
    joined = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    pieces.clear()
    return joined
