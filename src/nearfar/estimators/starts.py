"""Where vectors start that are given: arrays, and what an Embedding knows by id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_matrix, check_rows_differ
from nearfar._core.ids import Ids
from nearfar._core.types import RowNumbers
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.steps import Start


class Given(NamedTuple):
    """Rows of a start that are given: row i is ``vectors[source[i]]`` or, where that is < 0, random vector draw[i]."""

    vectors: Floats | None
    source: RowNumbers | None
    draw: RowNumbers | None


def check_start(start: Start) -> None:
    """Refuse a start whose rows do not differ; the first of them mostly tell."""
    related = np.flatnonzero(start.related)
    for rows in (related[:1000], related):
        X = start[: rows[-1] + 1][rows] if rows.size else np.empty((0, 1))
        if not (len(X) > 1 and bool((X[0] == X).all())):
            return
    check_rows_differ("EDRep", "init", X)


def given_rows(init: Any, d: int, ids: Ids, kept: RowNumbers | None, *, columns: bool) -> Given:
    """Return the rows of a start that are given, by ``init`` for objects of these ids, or for those of them kept."""
    if init is None:
        return Given(None, None, None)
    if not hasattr(init, "vectors"):
        array = check_matrix("EDRep", "init", init, rows=len(ids), columns=d)
        source = np.arange(len(ids)) if kept is None else kept
        source = np.where(np.asarray(array.any(axis=1))[source], source, -1)
        return Given(array, source, np.cumsum(source < 0) - 1)
    known, vectors = init.ids, init.vectors
    if columns and init.context_vectors is not None and init.context_ids is not None:
        known, vectors = init.context_ids, init.context_vectors
    if vectors.shape[1] != d:
        raise InputError("EDRep", "init", f"of {d} columns, as n_components says", f"{vectors.shape[1]} columns")
    source = known.rows(ids if kept is None else ids.take(kept))
    found = np.flatnonzero(source >= 0)
    useful = np.asarray(vectors[source[found]]).any(axis=1)  # what was an isolate then may have relations now
    source[found[~useful]] = -1
    return Given(vectors, source, np.arange(len(source)))


def known_rows(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, NDArray[np.int64]]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))
