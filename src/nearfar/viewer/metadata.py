"""What is known of the points of a map: columns of a table, joined by id and ready to be written."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar.embedding.files.content import name_of
from nearfar.errors import InputError, NearfarWarning

MOST_COLUMNS = 40
_FEW = 50  # different values: an integer column with no more is one of categories
_IDS = ("id", "ids", "index", "row")
_TEXTS = 0.5  # share of different values from which a column of strings is text: names, not categories


@dataclass(frozen=True, eq=False)
class Column:
    """One thing that is known of each point.

    Parameters
    ----------
    name : str
        Title of the column.
    kind : {"number", "category", "text"}
        How it is shown: by a scale of colours, by a colour for each, or on the card alone.
    values : ndarray of shape (n,)
        float32 with NaN where nothing is known; codes of ``names`` with ``len(names)`` for nothing; or str.
    names : list of str
        Of categories.
    """

    name: str
    kind: str
    values: NDArray[Any]
    names: list[str]

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return the column of some rows."""
        return Column(self.name, self.kind, self.values[rows], self.names)


def columns_of(owner: str, metadata: Any, ids: Ids, id_column: str | None) -> tuple[list[Column], list[str]]:
    """Join a table to ids.

    Parameters
    ----------
    owner : str
        Named in errors.
    metadata : frame, mapping of str to sequence, path of a CSV file, or None
        A pandas frame is joined by ``id_column``, by its index where that holds ids, else by the column in which most
        ids are found; a mapping without such a column has one value for each row of the embedding.
    ids : Ids
        Of the points.
    id_column : str or None
        The column of the ids.

    Returns
    -------
    columns : list of Column
    remarks : list of str
        What the reader of the page should know: ids without metadata, columns left out.
    """
    if metadata is None:
        return [], []
    table, index = _table(owner, metadata)
    size = len(next(iter(table.values()))) if table else 0
    if id_column is not None and id_column not in table:
        raise InputError(owner, "id_column", f"one of {', '.join(map(repr, table))}", repr(id_column))
    keys = [name_of(key) for key in ids]
    row_of = {key: row for row, key in enumerate(keys)}
    where = _rows_of(owner, table, index, row_of, id_column, ids.is_range)
    remarks: list[str] = []
    if where is None:
        if size != len(keys):
            hint = "No column holds the ids; name it with id_column=."
            raise InputError(owner, "metadata", f"{len(keys)} rows, or a column with the ids", f"{size} rows", hint)
        name, rows = None, np.arange(size)
    else:
        name, rows = where
        missing = len(keys) - len(set(rows[rows >= 0].tolist()))
        if missing:
            remarks.append(f"{missing:,} of {len(keys):,} points have no metadata.")
    wanted = [column for column in table if column != name]
    if len(wanted) > MOST_COLUMNS:
        left = f"{len(wanted) - MOST_COLUMNS} of {len(wanted)} columns of the metadata were left out"
        warnings.warn(f"{owner}: {left}; give at most {MOST_COLUMNS}.", NearfarWarning, stacklevel=4)
        remarks.append(left + ".")
    found = rows >= 0
    columns = [_column(column, table[column], rows, found, len(keys)) for column in wanted[:MOST_COLUMNS]]
    return columns, remarks


def _table(owner: str, metadata: Any) -> tuple[dict[str, list[Any]], list[Any] | None]:
    """Return the columns by name, and the index of a pandas frame."""
    if isinstance(metadata, str | os.PathLike):
        import csv
        from pathlib import Path

        path = Path(metadata)
        if not path.is_file():
            raise InputError(owner, "metadata", "a CSV file that is there", repr(str(path)))
        with path.open(encoding="utf-8-sig", newline="") as file:
            try:
                head, *lines = csv.reader(file, dialect="excel-tab" if path.suffix == ".tsv" else "excel")
            except (csv.Error, UnicodeDecodeError, ValueError) as error:
                raise InputError(owner, "metadata", "a CSV file with a line of names", f"{path}: {error}") from None
        for number, line in enumerate(lines, 2):
            if len(line) != len(head):
                got = f"{len(line)} fields in line {number} of {path}"
                raise InputError(owner, "metadata", f"{len(head)} fields in each line", got)
        return {name: [_read(line[at]) for line in lines] for at, name in enumerate(head)}, None
    if isinstance(metadata, Mapping):
        table = {str(name): list(values) for name, values in metadata.items()}
        index: list[Any] | None = None
    else:
        try:
            import narwhals as nw

            frame = nw.from_native(metadata, eager_only=True)
        except TypeError:
            expected = "a frame, a mapping of columns, or the path of a CSV file"
            raise InputError(owner, "metadata", expected, type(metadata).__name__) from None
        table = {str(name): frame[name].to_list() for name in frame.columns}
        index = list(metadata.index) if hasattr(metadata, "index") else None
    lengths = {len(values) for values in table.values()}
    if len(lengths) > 1:
        raise InputError(owner, "metadata", "columns of one length", f"lengths {sorted(lengths)}")
    return table, index


def _read(field: str) -> Any:
    """Return the number that a field of a CSV file holds, None if it is empty, else the field itself."""
    if not field:
        return None
    try:
        return int(field) if field.lstrip("+-").isdigit() else float(field)
    except ValueError:
        return field


def _rows_of(
    owner: str,
    table: Mapping[str, list[Any]],
    index: list[Any] | None,
    row_of: Mapping[str, int],
    id_column: str | None,
    is_range: bool,
) -> tuple[str | None, NDArray[np.int64]] | None:
    """Return the name of the column of ids (None for the index) and each line's row, -1 for an id that is not there."""
    if id_column is not None:
        candidates: dict[str | None, list[Any]] = {id_column: table[id_column]}
    else:
        candidates = {} if index is None else {None: index}
        # Where ids are row numbers, any column of small numbers would look like them: its name must say what it is.
        candidates.update({name: table[name] for name in table if not is_range or name.lower() in _IDS})
    best: tuple[int, str | None, NDArray[np.int64]] | None = None
    for name, values in candidates.items():
        rows = np.array([row_of.get(str(value), -1) for value in values], np.int64)
        known = rows[rows >= 0]
        hits = len(set(known.tolist()))
        if hits and hits == len(known) and (best is None or hits > best[0]):  # an id occurs once
            best = hits, name, rows
        elif id_column is not None:
            values = [str(value) for value in values]
            if hits:
                twice = next(value for value in values if value in row_of and values.count(value) > 1)
                raise InputError(owner, "metadata", "one line for each id", f"several for {twice!r}")
            got = f"none of them; {id_column!r} holds {', '.join(map(repr, values[:3]))}"
            expected = f"ids of the embedding such as {', '.join(map(repr, list(row_of)[:3]))}"
            raise InputError(owner, "metadata", expected, got)
    return None if best is None else best[1:]


def _column(name: str, given: Sequence[Any], rows: NDArray[np.int64], found: NDArray[np.bool_], n: int) -> Column:
    values: list[Any] = [None] * n
    for row, value in zip(rows[found].tolist(), np.flatnonzero(found).tolist(), strict=True):
        values[row] = given[value]
    values = [None if _is_missing(value) else value for value in values]
    known = [value for value in values if value is not None]
    numbers = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known)
    if known and numbers:
        floats = np.array([math.nan if value is None else float(value) for value in values])
        distinct = np.unique(floats[~np.isnan(floats)])
        if len(distinct) > _FEW or (distinct != np.floor(distinct)).any():
            return Column(name, "number", floats.astype(np.float32), [])
    texts = ["" if value is None else str(value) for value in values]
    names = sorted({text for text in texts if text}, key=lambda text: (_as_number(text), text))
    if len(names) > max(_FEW, _TEXTS * len(known)):
        return Column(name, "text", np.array(texts, dtype=object), [])
    code = {text: number for number, text in enumerate(names)}
    return Column(name, "category", np.array([code.get(text, len(names)) for text in texts], np.int64), names)


def _is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf
