"""Which columns of a table are coordinates of its rows: row numbers, ids and labels are none.

A column is judged by its name and its values together, as those of edges are (:mod:`nearfar.reading.facts`). Whole
numbers that are all different and leave no gap count the rows, unless the name says that they measure: a year, an age,
a distance. Whole numbers that are all different, in a column that is named as a key or after a kind of objects, are
ids; a column that is called id is one even where ids come again.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._core.frames import array_of, columns_of, labels_of, taken
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.reading.ends import are_named_ends, is_of_objects
from nearfar.reading.facts import Column
from nearfar.reading.names import the_words

NoCoordinate = Literal["row numbers", "ids", "labels"]

LABELS = ("label", "labels", "class", "target", "species")
"""What a column is called that holds the labels of the rows."""
_IDS = the_words("id ids uid uuid suid guid")
_AXES = the_words("x y z t")  # of which row k may have k
_ROWS = re.compile(r"unnamed: ?\d+(_level_\d+)?|level_\d+|row_?num(ber)?|rn|seq(uence)?|serial|rank")
_OBJECTS = re.compile(
    r"(sample|subject|case|participant|respondent|cell|gene|order|invoice|ticket|transaction|account|session|record|"
    r"row|line|image|file|household|obs|observation|entry|object|house|passenger|staff|unit|patient)"
    r"([ _-]?(ids?|no|nr|num|number|key|code))?"
)
_EDGE = 3  # columns: the ends and a weight
_FEW = 10  # rows: of fewer, different whole numbers without a gap may be anything
_LOOKED_AT = 100  # rows that most columns are told by
_NEARLY_ALL = 0.999  # of the variance
_SAMPLE = 10_000  # rows whose variance is looked at


def why_none(name: object, values: NDArray[Any]) -> NoCoordinate | None:
    """Return what makes a column of numbers no coordinate of the rows; None if it may be one.

    Parameters
    ----------
    name : object
        None, or no text, where columns have no names.
    values : ndarray of shape (n,)
        Numbers; NaN for what is missing.

    Returns
    -------
    {"row numbers", "ids", "labels"} or None
    """
    with np.errstate(invalid="ignore"):
        if values.dtype.kind == "b" or not _are_whole(values[:_LOOKED_AT]) or not _are_whole(values):
            return None
    column = Column(0, name if isinstance(name, str) else None, [], "whole", numeric=True)
    if column.lower in LABELS:
        return "labels"
    last = column.words[-1] if column.words else ""
    head, is_id = values[:_LOOKED_AT], last in _IDS
    if not is_id and len(np.unique(head)) < len(head):
        return None
    ordered = np.sort(values)
    distinct = bool((ordered[1:] > ordered[:-1]).all())
    counts = distinct and len(values) > 1 and ordered[-1] - ordered[0] == len(values) - 1
    numbered = column.numbers_rows or _ROWS.fullmatch(column.lower) is not None
    if counts and ordered[0] in (0, 1) and (numbered or is_id or last in ("no", "nr", "num", "number")):
        return "row numbers"
    if is_id:
        return "ids"
    of_objects = _OBJECTS.fullmatch(column.lower) is not None or is_of_objects(column.lower)
    if distinct and len(values) > 1 and (numbered or column.is_named_key or of_objects):
        return "row numbers" if numbered and (counts or bool((values[1:] > values[:-1]).all())) else "ids"
    measures = column.is_time or column.is_distance or column.is_strength or column.lower in _AXES
    if not counts or len(values) < _FEW or measures:
        return None
    return "row numbers" if ordered[0] in (0, 1) else "ids"


def _are_whole(values: NDArray[Any]) -> bool:
    return bool((values % 1 == 0).all())  # NaN and infinity leave NaN


def coordinates_of_frame(owner: str, X: Any) -> tuple[Any, tuple[Hashable, ...]]:
    """Return the columns of a frame that are coordinates of its rows, and the names of the others.

    Parameters
    ----------
    owner : str
        For messages.
    X : frame of pandas, polars or pyarrow

    Returns
    -------
    frame
        X itself where nothing is left out, else a frame of the same make.
    tuple of hashable
        The columns that were left out.

    Raises
    ------
    InputError
        If a column holds no numbers (which column and row), two columns have one name, none is left, or it is a frame
        of edges.

    Warns
    -----
    NearfarWarning
        If columns are left out; if one column has nearly all of the distance, so that the others do not count.
    """
    names = labels_of(X)
    if len(set(names)) < len(names):
        columns_of(owner, "X", X)  # says which
    columns = [series for _, series in columns_of(owner, "X", X)] if may_be_edges(names) else []
    if sum(not (column.dtype.is_float() and ((column.drop_nulls() % 1) > 0).any()) for column in columns) > 1:
        hint = "nf.Relation.from_edges(X) is their relation, of which TSNE draws a map; X.to_numpy() takes the numbers."
        got = f"a frame of edges by its columns {', '.join(map(repr, names))}"
        raise InputError(owner, "X", "rows of numbers, one for each point", got, hint)
    matrix = array_of(owner, "X", X)
    if matrix.dtype.kind == "O":  # nullable columns, truths beside numbers
        matrix = matrix.astype(np.float64)
    elif matrix.dtype.kind not in "fiub":  # refused where it is checked
        return X, ()
    left_out = {k: why for k, name in enumerate(names) if (why := why_none(name, matrix[:, k]))}
    kept = [k for k in range(len(names)) if k not in left_out]
    if not kept:
        got = _told([names[k] for k in left_out], list(left_out.values())) or "no column"
        raise InputError(owner, "X", "a frame with a column of coordinates", got, "X.to_numpy() takes all columns.")
    if left_out:
        told = _told([names[k] for k in left_out], list(left_out.values()))
        text = f"{owner}: left out, as no coordinates: {told}; {len(kept)} column{'s' * (len(kept) > 1)} left."
        warn_user(f"{text} X.to_numpy() takes all.")
    warn_of_scale(owner, [names[k] for k in kept], matrix[:, kept] if left_out else matrix)
    return (taken(X, kept), tuple(names[k] for k in left_out)) if left_out else (X, ())


def may_be_edges(names: Sequence[object]) -> bool:
    """Whether a table of so few columns has two that are named as the ends of edges."""
    return len(names) <= _EDGE and are_named_ends(names)


def _told(names: Sequence[object], reasons: Sequence[str]) -> str:
    return ", ".join(f"{name!r} ({why})" for name, why in zip(names, reasons, strict=True))


def has_other_scale(matrix: NDArray[Any]) -> int | None:
    """Return the column that has nearly all of the variance, and so of the distances; None if there is none."""
    if matrix.shape[1] < 2 or len(matrix) < 2:
        return None
    with np.errstate(all="ignore"):
        spread = np.var(matrix[:: -(-len(matrix) // _SAMPLE)], axis=0, dtype=np.float64)
        k = int(np.argmax(spread))
        others = np.delete(spread, k)
        return k if others.max() > 0 and spread[k] > _NEARLY_ALL * spread.sum() else None


def warn_of_scale(owner: str, names: Sequence[object], matrix: NDArray[Any]) -> None:
    """Warn of a column beside which the others do not count."""
    k = has_other_scale(matrix)
    if k is not None:
        text = f"{owner}: column {names[k]!r} has nearly all of the distance between rows, as its numbers are larger;"
        warn_user(f"{text} nf.prepare(frame), --prepare on the command line, brings columns to one scale.")
