"""What is given of the rows and columns of a fit: a base measure, a prior, vectors to start from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_choice, check_matrix, check_numbers, check_rows_differ
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Flags, RowNumbers
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.steps import Start


def base_measure_of(given: Any, rel: Relation, *, two_sided: bool) -> Doubles | None:
    """Return the base measure: mean 1 over the columns that have one, 0 for those without a relation."""
    if given is None:
        return None
    sums = rel.column_sums
    absent = sums == 0 if two_sided else (sums == 0) & (rel.row_sums == 0)
    if isinstance(given, str):
        check_choice("EDRep", "base_measure", given, ("degrees", "uniform"))
        w = np.asarray(sums if given == "degrees" else ~absent, np.float64)
    else:
        ordered = in_order_of("EDRep", "base_measure", given, rel.column_ids)
        expected = "'degrees', or one number per column"
        w = check_numbers("EDRep", "base_measure", ordered, expected).astype(np.float64)
    if w.shape != sums.shape or not (np.isfinite(w).all() and (w >= 0).all()):
        got = f"numbers of shape {w.shape}, the least {w.min(initial=0.0):.3g}"
        raise InputError("EDRep", "base_measure", f"finite, >= 0, one for each of {len(sums)} columns", got)
    for wrong, what, hint in (
        ((sums > 0) & (w == 0), "> 0 for a column with relations", "No row could be related to it."),
        (absent & (w > 0), "0 for a column without relations", "It has no vector."),
    ):
        if wrong.any():
            ids = ", ".join(map(repr, rel.column_ids.take(np.flatnonzero(wrong)[:3]).to_list()))
            raise InputError("EDRep", "base_measure", what, f"another for {wrong.sum()}, the first: {ids}", hint)
    return w * (np.count_nonzero(w) / w.sum())  # type: ignore[no-any-return]


def prior_of(given: Any, rel: Relation, kept: RowNumbers | None, present: Flags) -> Doubles:
    """Return p0 of the columns that are fitted: sum 1, zero for those without a relation; or all zero."""
    if isinstance(given, (int, float)) and given == 0:
        return np.zeros(len(present))
    m = rel.operator.shape[1]
    p0 = np.ones(m)
    if given is not None:
        ordered = in_order_of("EDRep", "p0", given, rel.column_ids)
        p0 = check_numbers("EDRep", "p0", ordered, "0, or one number per column").astype(np.float64)
    if p0.shape != (m,):
        got = f"an array of shape {p0.shape}" if p0.ndim else given
        raise InputError("EDRep", "p0", f"0, or one number per column, of shape ({m},)", got)
    p0 = np.where(present, p0 if kept is None else p0[kept], 0.0)
    if not (np.isfinite(p0).all() and (p0 >= 0).all() and p0.any()):
        raise InputError("EDRep", "p0", "finite, >= 0, and positive for some object with a relation", given)
    p0 /= p0.max()  # the sum of large numbers may be infinite
    return p0 / p0.sum()  # type: ignore[no-any-return]


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


def known_rows(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, RowNumbers]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))
