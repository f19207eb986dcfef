"""Labels of rows in any form: one for each or several, by id or by row; what is missing is left out or refused."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from nearfar._core.by_id import goes_by_index, index_of
from nearfar._core.checks import check_csr
from nearfar._core.columns import column_of, is_missing, objects_of
from nearfar._core.ids import Ids
from nearfar._core.types import Flags, Labels, Longs
from nearfar.errors import InputError, UnknownIdError, counted


def label_codes(
    owner: str, labels: object, n: int, ids: Ids | None = None, chosen: Longs | None = None, hint: str = ""
) -> tuple[Longs, list[Hashable]]:
    """Return the labels of the chosen rows (all by default), numbered 0 .. k - 1, and these; each row must have one."""
    column = column_of(owner, "labels", labels, n, ids)
    rows = np.arange(n) if chosen is None else chosen
    column = column.take(rows)
    if column.missing.any():
        first = rows[column.missing][:5].tolist()
        got = f"None or NaN in {counted(int(column.missing.sum()), 'row')}, first {first}"
        raise InputError(owner, "labels", "given for every scored row", got, hint)
    try:
        return column.levels()
    except TypeError as error:
        raise InputError(owner, "labels", "of one type", f"labels that cannot be compared ({error})") from error


def labelled_rows(owner: str, labels: Labels, n: int, ids: Ids | None) -> tuple[Longs, Flags]:
    """Return the rows that have a label, and which has which, shape (number of rows, n_labels)."""
    indicators = _indicators(owner, labels, n, ids)
    rows = np.flatnonzero(indicators.any(axis=1))
    if len(rows) < 2:
        raise InputError(owner, "labels", "given for at least two vectors", f"{len(rows)}")
    indicators = indicators[rows][:, indicators[rows].any(axis=0)]
    if indicators.shape[1] < 2:
        raise InputError(owner, "labels", "of at least two kinds", f"{indicators.shape[1]}")
    return rows, indicators


def _indicators(owner: str, labels: Labels, n: int, ids: Ids | None) -> Flags:
    """Return which row has which label, shape (n, n_labels)."""
    from scipy.sparse import issparse

    if issparse(labels):
        labels = check_csr(owner, "labels", labels).toarray()
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        if len(labels) != n or labels.dtype.kind not in "buif" or not np.isin(labels, (0, 1)).all():
            raise InputError(owner, "labels", f"indicators, 0 or 1, of shape ({n}, n_labels)", f"{labels!r}")
        return labels.astype(np.bool_)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable) or hasattr(labels, "columns"):
        raise InputError(owner, "labels", "labels by id or by row", type(labels).__name__)
    lists = lists_of(owner, labels, ids)
    if len(lists) != n:
        raise InputError(owner, "labels", f"of {n} rows, one per vector", f"{len(lists)}")
    try:
        codes = {label: code for code, label in enumerate(dict.fromkeys(label for some in lists for label in some))}
    except TypeError as error:
        raise InputError(owner, "labels", "hashable", str(error)) from error
    indicators = np.zeros((n, len(codes)), dtype=np.bool_)
    for row, some in enumerate(lists):
        indicators[row, [codes[label] for label in some]] = True
    # In an order that does not depend on how the labels came.
    return indicators[:, np.lexsort([*indicators[::-1]])] if n else indicators


def lists_of(owner: str, labels: Iterable[object], ids: Ids | None) -> list[list[Hashable]]:
    """Return the labels of each row, none where they are missing.

    Parameters
    ----------
    owner : str
        For messages.
    labels : mapping, pandas Series or iterable
        By id: a mapping or Series, which may repeat ids, to a label or several in a list, tuple, set or array. By row:
        anything else.
    ids : Ids or None
        Of the rows, if they have some.

    Returns
    -------
    list of list

    Raises
    ------
    InputError, UnknownIdError
        If labels belong to ids that are not there, or the rows have no ids.
    """
    index = index_of(labels)
    if isinstance(labels, Mapping):
        if ids is None:
            expected = "one per row with vectors that have no ids"
            raise InputError(owner, "labels", expected, type(labels).__name__, "Give an Embedding for labels by id.")
        keys, values = list(labels), list(labels.values())
    elif index is not None and ids is not None and goes_by_index(owner, "labels", index, ids):
        keys, values = list(index), objects_of(labels)
    else:
        return [_listed(label) for label in objects_of(labels)]
    rows = ids.rows(keys).tolist()
    unknown = [key for key, row in zip(keys, rows, strict=True) if row < 0]
    if unknown:
        hint = "Leave them out of labels; text and numbers are different ids."
        raise UnknownIdError(owner, unknown, hint, known=ids)
    lists: list[list[Hashable]] = [[] for _ in range(len(ids))]
    for row, label in zip(rows, values, strict=True):
        lists[row] += _listed(label)
    return lists


def _listed(label: object) -> list[Hashable]:
    several = list(label) if isinstance(label, (list, tuple, set, frozenset, np.ndarray)) else [label]
    return [one for one in several if not is_missing(one)]
