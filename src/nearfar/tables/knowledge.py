"""Which objects of a table are related. The penalty on T is then one on T * S, with S = 0 where they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._core.checks import check_integer
from nearfar._core.ids import Ids
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.tables.slots import ragged


class RelatedPairs:
    """Which rows of a table are related, from any relation: in both directions, no row to itself, without weights.

    Parameters
    ----------
    relation : Relation
        What is related to what: every entry is a pair.
    ids : iterable of hashable, or mapping from ids to rows, optional
        The names of rows 0, 1, ... of the table, in this order; or the row of each name. By default the ids of the
        relation are the rows.

    Attributes
    ----------
    n_objects : int
        Rows are below this number.
    n_pairs : int
        Number of pairs, (u, v) and (v, u) being two.

    Raises
    ------
    InputError
        An id of the relation has no row.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2.

    Examples
    --------
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> pairs = nf.nn.RelatedPairs(rel, ["eve", "dan", "bob", "ann"])
    >>> pairs.n_pairs, pairs.neighbors(2)  # of bob
    (4, [0, 3])
    """

    def __init__(self, relation: Relation, ids: Iterable[Hashable] | Mapping[Hashable, int] | None = None) -> None:
        _check_relation(relation)
        if ids is not None and not isinstance(ids, Mapping):
            ids = Ids(ids, owner="RelatedPairs")
        rows, columns = (_rows(found, ids) for found in (relation.row_ids, relation.column_ids))
        ends = [int(part.max(initial=-1)) + 1 for part in (rows, columns)]
        self.n_objects = n = max(*ends, len(ids) if isinstance(ids, Ids) else 0)
        entries = relation.to_scipy().tocoo()
        u, v = rows[entries.coords[0]], columns[entries.coords[1]]
        u, v = u[u != v], v[u != v]
        places = np.unique(np.concatenate([u * n + v, v * n + u]))
        self._start = torch.from_numpy(np.searchsorted(places, np.arange(n + 1) * n))
        self._others = torch.from_numpy(places % max(n, 1))

    @property
    def n_pairs(self) -> int:
        """Number of pairs, in both directions."""
        return len(self._others)

    def neighbors(self, row: int) -> list[int]:
        """Return the rows that a row is related to, in ascending order.

        Parameters
        ----------
        row : int
            In 0 .. n_objects - 1.

        Raises
        ------
        InputError
            There is no such row.
        """
        row = check_integer("RelatedPairs.neighbors", "row", row, low=0, high=self.n_objects - 1)
        found: list[int] = self._others[self._start[row] : self._start[row + 1]].tolist()
        return found

    def __repr__(self) -> str:
        return f"<RelatedPairs of {self.n_objects} objects, {self.n_pairs} pairs>"

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of some rows.

        Parameters
        ----------
        rows : int64 tensor of shape (n,)
            Rows of the table.

        Returns
        -------
        (int64 tensor, int64 tensor), of shape (number of pairs,)
            Positions in ``rows``, ascending, and the rows that these are related to.
        """
        if self._start.device != rows.device:
            self._start, self._others = self._start.to(rows.device), self._others.to(rows.device)
        low, high = (rows + step for step in (0, 1))
        who, places = ragged(*(self._start[end.clamp(max=self.n_objects)] for end in (low, high)))
        return who, self._others[places]

    def with_anchors(self, anchor_ids: Tensor) -> Tensor:
        """Return the entries of T whose object is related to the object of their anchor.

        Parameters
        ----------
        anchor_ids : int64 tensor of shape (K,)
            The object of each anchor.

        Returns
        -------
        int64 tensor
            ``u K + a`` for object u and anchor a, ascending.
        """
        anchors, objects = self.of(anchor_ids)
        return (objects * len(anchor_ids) + anchors).sort().values


def check_pairs(owner: str, pairs: object, n_objects: int) -> None:
    """Refuse what are no pairs, or pairs of other objects."""
    if not isinstance(pairs, RelatedPairs):
        hint = "Make them of a relation: RelatedPairs(relation, ids)."
        raise InputError(owner, "pairs", "RelatedPairs", type(pairs).__name__, hint)
    if pairs.n_objects > n_objects:
        raise InputError(owner, "pairs", f"of at most {n_objects} objects, as in the layer", f"{pairs.n_objects}")


def _check_relation(relation: object) -> None:
    if not isinstance(relation, Relation):
        hint = "Relation.from_edges, from_matrix, from_corpus and from_wordnet make one."
        raise InputError("RelatedPairs", "relation", "a Relation", type(relation).__name__, hint)


def _rows(found: Ids, ids: Ids | Mapping[Hashable, int] | None) -> NDArray[np.int64]:
    """Return the row of each id of a relation."""
    if ids is None:
        if not found.is_integer or (len(found) and found.to_numpy().min() < 0):
            hint = "Say which rows they are: RelatedPairs(relation, names of the rows)."
            raise InputError("RelatedPairs", "ids", "given for a relation whose ids are no rows", None, hint)
        return np.asarray(found.to_numpy(), np.int64)
    rows = ids.rows(found) if isinstance(ids, Ids) else np.array([ids.get(name, -1) for name in found], np.int64)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        some = ", ".join(repr(found[int(k)]) for k in unknown[:3])
        got = f"{len(unknown)} of {len(found)} ids without a row, {some}{', ...' if len(unknown) > 3 else ''}"
        hint = "Give all names of the table, or make the relation of these alone."
        raise InputError("RelatedPairs", "relation", "over known ids", got, hint)
    return rows


# Entries of T without a price are kept as sorted numbers u K + a, for the row u and the anchor a.


def related_slots(places: Tensor, rows: Tensor, columns: Tensor, n_anchors: int) -> Tensor:
    """Return which slots (n, r) of some rows are among the places."""
    wanted = rows[:, None] * n_anchors + columns
    at = torch.searchsorted(places, wanted).clamp_(max=len(places) - 1)
    return places[at] == wanted


def row_penalties(places: Tensor, rows: Tensor, like: Tensor, penalty: float) -> Tensor:
    """Return the penalty of each entry of some rows of T, (n, K) as ``like``: 0 at the places."""
    n_anchors = like.shape[1]
    penalties = torch.full_like(like, penalty)
    start, stop = torch.searchsorted(places, torch.stack([rows, rows + 1]) * n_anchors)
    who, at = ragged(start, stop)
    penalties[who, places[at] % n_anchors] = 0
    return penalties
