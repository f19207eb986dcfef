"""What is given of each column of a relation: a base measure, a prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_choice, check_numbers
from nearfar._core.types import Doubles, Flags, RowNumbers
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation


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
