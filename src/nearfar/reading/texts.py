"""Texts among the columns of a table: which one holds them, and which their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from nearfar._core.frames import columns_of, is_frame, is_null
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.reading.columns import Column

LOOKED_AT, _BLANKS = 1000, 3  # rows that tell a table; words with so many blanks are texts


def rows_of(owner: str, argument: str, source: Any) -> Iterator[object]:
    """Return the rows of a frame as mappings, those of an array of texts as lists, the items of all else."""
    if is_frame(source):
        columns = {label: column.to_list() for label, column in columns_of(owner, argument, source)}
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return iter(source.tolist() if isinstance(source, np.ndarray) and source.dtype.kind in "OU" else source)


def column_of_texts(owner: str, argument: str, rows: Sequence[Any], *, named: bool) -> tuple[Any, Any] | None:
    """Return which column of a table holds texts, and, if asked, which their names; None for rows that are no table.

    Rows are mappings, or lists, of which every other one has a text with blanks. What is left out is told.

    Raises
    ------
    InputError
        Several columns of texts, or none.
    """
    some = rows[:LOOKED_AT]
    listed = all(isinstance(row, (list, tuple)) for row in some)
    if listed and 2 * sum(any(str(part).count(" ") >= _BLANKS for part in row) for row in some) < len(some):
        return None
    if not listed and not all(isinstance(row, Mapping) for row in some):
        return None
    keys: list[Any] = list(range(max(map(len, some))) if listed else dict.fromkeys(chain(*some)))
    columns = [Column(0, "text" if listed else str(k), [cell(row, k) for row in some], numeric=False) for k in keys]
    found = [key for key, column in zip(keys, columns, strict=True) if column.is_prose]
    if listed and not found:  # words, some of which have blanks
        return None
    if len(found) != 1:
        got = f"{', '.join(map(repr, found)) or 'none'} of the columns {', '.join(map(repr, keys))}"
        hint = f"Pass one alone: [row[{(found or keys)[0]!r}] for row in rows], or that column of the frame."
        raise InputError(owner, argument, "a table with one column of texts", got, hint)
    others, name = [key for key in keys if key != found[0]], None
    for key in reversed(others) if named else ():
        name = key if len({str(cell(row, key)) for row in rows} - {""}) == len(rows) else name
    if others:
        left_out = ", ".join(repr(key) for key in others if key != name) or "nothing"
        as_names = "" if name is None else f", {name!r} their names"
        warn_user(f"{owner}: column {found[0]!r} holds the texts{as_names}; left out: {left_out}.")
    return found[0], name


def cell(row: Any, key: Any) -> Any:
    """Return what a row of a table has in a column, "" for nothing."""
    found = row.get(key) if isinstance(row, Mapping) else row[key] if key < len(row) else None
    return "" if is_null(found) else found
