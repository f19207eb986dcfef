"""What is known of the rows of an embedding: the columns of a table, joined by id."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nearfar._core.by_id import index_of, near_hint
from nearfar._core.columns import Column, column_of, objects_of
from nearfar._core.frames import is_null
from nearfar._core.ids import Ids
from nearfar._core.types import Longs
from nearfar._core.warn import warn_user
from nearfar.embedding.content import Fact, Value, name_of
from nearfar.errors import InputError

_IDS = ("id", "ids", "index", "row")
_CODE = re.compile(r"[+-]?0\d")  # as a postal code begins
_INT64 = -(2**63), 2**63 - 1
_SAMPLE = 1000  # values of a column that tell whether they are nearly ids
_EXACT = 2**53  # whole numbers that a float holds

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from nearfar.reading.delimited import TextFormat

    Metadata = IntoDataFrame | Mapping[str, Sequence[object]] | str | os.PathLike[str]


class Joined(NamedTuple):
    """A table and the rows of an embedding that its lines are of.

    Parameters
    ----------
    columns : mapping of str to column
        Those of the table as they are given, without that of the ids.
    rows : ndarray of shape (number of lines,)
        The row of each line; -1 for an id that is not there.
    n : int
        Number of rows of the embedding.
    n_missing : int
        Rows of which nothing is known.
    """

    columns: Mapping[str, Sequence[object]]
    rows: Longs
    n: int
    n_missing: int

    def column(self, owner: str, name: str) -> Column:
        """Return a column with its values for each row of the embedding, missing where nothing is known."""
        given = self.columns[name]
        lines = np.full(self.n, -1)
        found = np.flatnonzero(self.rows >= 0)
        lines[self.rows[found]] = found
        return column_of(owner, f"the column {name!r}", given, len(given)).take(lines)

    def values(self, name: str) -> list[object]:
        """Return the values of a column for each row of the embedding, None where nothing is known."""
        given, found = objects_of(self.columns[name]), np.flatnonzero(self.rows >= 0)
        values: list[object] = [None] * self.n
        for row, line in zip(self.rows[found].tolist(), found.tolist(), strict=True):
            value = given[line]
            values[row] = None if is_null(value) else value.item() if isinstance(value, np.generic) else value
        return values


def joined(owner: str, metadata: Metadata, ids: Ids, id_column: str | None) -> Joined:
    """Join a table to ids.

    Parameters
    ----------
    owner : str
        Named in errors.
    metadata : frame, mapping of str to sequence, or path of a CSV file
        A pandas frame is joined by ``id_column``, by its index where that holds ids, else by the column in which most
        ids are found. A frame or a mapping without such a column has one value for each row of the embedding; a warning
        says so, unless it is a mapping without a column of names. A file must have the ids.
    ids : Ids
        Of the rows.
    id_column : str or None
        The column of the ids.

    Returns
    -------
    Joined

    Raises
    ------
    InputError
        If it is no table, none of its ids is known, as where they are written in another way, or an id is met twice.

    Warns
    -----
    NearfarWarning
        If no column holds the ids, and row k goes to id k.
    """
    # Lines have an id each in a column or in the index, or go by row.
    table, index = _table(owner, metadata)
    if id_column is not None and id_column not in table:
        raise InputError(owner, "id_column", f"one of {', '.join(map(repr, table))}", repr(id_column))
    in_file = isinstance(metadata, str | os.PathLike)
    listed = {name: objects_of(values) for name, values in table.items()}
    keys, n = [name_of(key) for key in ids], len(ids)
    row_of = {key: row for row, key in enumerate(keys)}
    if id_column is not None:
        candidates: dict[str | None, Sequence[object]] = {id_column: listed[id_column]}
    else:
        by_row = index == list(range(n)) and not ids.is_range and any(name_of(row) not in row_of for row in range(n))
        candidates = {} if index is None or by_row else {None: index}
        # Where ids are row numbers, any column of small numbers would look like them: its name must say what it is.
        candidates.update({name: listed[name] for name in listed if not ids.is_range or name.lower() in _IDS})
    most, column, rows = 0, None, np.empty(0, np.int64)
    for name, values in candidates.items():
        found = np.array([row_of.get(name_of(value), -1) for value in values], np.int64)
        known = found[found >= 0]
        hits = len(set(known.tolist()))
        if hits == len(known) and hits > most:  # an id occurs once
            most, column, rows = hits, name, found
        elif id_column is not None:
            values = [name_of(value) for value in values]
            if hits:
                twice = next(value for value in values if value in row_of and values.count(value) > 1)
                raise InputError(owner, "metadata", "one line for each id", f"several for {twice!r}")
            got = f"none of them; {id_column!r} holds {', '.join(map(repr, values[:3]))}"
            expected = f"ids of the embedding such as {', '.join(map(repr, keys[:3]))}"
            raise InputError(owner, "metadata", expected, got)
    if not most:
        size = len(next(iter(table.values()))) if table else 0
        if size != n:
            hint = "No column holds the ids; name it with id_column=."
            raise InputError(owner, "metadata", f"{n} rows, or a column with the ids", f"{size} rows", hint)
        told = labels = index is not None and index != list(range(size))
        if not ids.is_range:  # of which line k is the id k
            columns = [values for values in (index, *listed.values()) if values is not None]
            named_once = ([*map(name_of, values[:_SAMPLE])] for values in columns)
            hints = (near_hint(some, keys, 0.5) for some in named_once if len(set(some)) == len(some))
            near, named = next(filter(None, hints), ""), [name for name in listed if name.lower() in _IDS]
            if near or labels or named or in_file:
                shown = index if labels else listed[named[0]] if named else next(iter(columns), [])
                expected = f"a table with ids such as {', '.join(map(repr, ids[:3]))}"
                got = f"one without, such as {', '.join(map(repr, list(shown or [])[:3]))}"
                hint = near or "Name the column of the ids with id_column=."
                raise InputError(owner, "metadata", expected, got, hint)
            # Lists of what surely are no ids go by row.
            names = (len(set(map(str, v))) == size > 1 and all(isinstance(x, str) for x in v) for v in columns)
            told = any(names) or index is not None or not isinstance(metadata, Mapping)
        if told:
            text = "no column holds the ids: row k goes to id k, in the order of the embedding"
            warn_user(f"{owner}: {text}. Give the ids as a column or an index.")
        rows = np.arange(size)
    kept = {name: _read(values) if in_file else values for name, values in table.items() if name != column}
    return Joined(kept, rows, n, n - len(set(rows[rows >= 0].tolist())))


def facts_of(owner: str, metadata: Metadata, ids: Ids, id_column: str | None) -> list[Fact]:
    """Return the columns of a table as files hold them: whole numbers, numbers, truths or text, None for a gap.

    Parameters
    ----------
    owner, metadata, ids, id_column
        As for :func:`joined`.

    Returns
    -------
    list of Fact

    Raises
    ------
    InputError
        As :func:`joined`; and if a column has the name of one that each file has, or none.

    Warns
    -----
    NearfarWarning
        If nothing is known of some ids.
    """
    found, facts = joined(owner, metadata, ids, id_column), list[Fact]()
    if found.n_missing:
        warn_user(f"{owner}: nothing is known of {found.n_missing:,} of {found.n:,} ids; their columns are empty")
    for name in found.columns:
        if name.lower() in ("id", "vector") or not name.strip() or "\0" in name:
            hint = "Rename it, or name the column of the ids with id_column=."
            raise InputError(owner, "metadata", "columns with other names than 'id' and 'vector'", repr(name), hint)
    for name in found.columns:
        values = cast("list[Value]", found.values(name))  # if all are of one of the kinds below
        known = [value for value in values if value is not None]
        if known and all(type(value) is bool for value in known):
            kind = "flag"
        elif known and all(type(value) is int and _INT64[0] <= value <= _INT64[1] for value in known):
            kind = "integer"
        elif known and all(type(value) is float or (type(value) is int and abs(value) <= _EXACT) for value in known):
            kind, values = "number", [None if value is None else float(value) for value in values]
        else:
            kind, values = "text", [None if value is None else str(value) for value in values]
            try:
                "".join(text for text in values if isinstance(text, str)).encode()
            except UnicodeEncodeError as error:
                raise InputError(owner, "metadata", "text that UTF-8 can hold", f"column {name!r}: {error}") from None
        facts.append(Fact(name, kind, values))
    return facts


def _table(owner: str, metadata: Metadata) -> tuple[dict[str, Sequence[object]], list[object] | None]:
    """Return the columns by name, those of a file as text, and the index of a pandas frame or of columns with keys."""
    if isinstance(metadata, str | os.PathLike):
        from nearfar.reading.delimited import FOUND_OUT, read_table

        path, form = os.fspath(metadata), metadata.form if isinstance(metadata, TableFile) else FOUND_OUT
        if not os.path.isfile(path):  # noqa: PTH113
            raise InputError(owner, "metadata", "a CSV file that is there", repr(path))
        return {**read_table(owner, path, form, "metadata")}, None
    table: dict[str, Any]
    index: list[object] | None
    if isinstance(metadata, Mapping):
        try:
            table, index = _with_one_index(owner, {str(name): values for name, values in metadata.items()})
        except TypeError:
            kinds = ", ".join(sorted({type(values).__name__ for values in metadata.values()}))
            raise InputError(owner, "metadata", "a mapping of columns, each a list", f"one of {kinds}") from None
    else:
        try:
            import narwhals as nw

            frame = nw.from_native(metadata, eager_only=True)
        except TypeError:
            expected = "a frame, a mapping of columns, or the path of a CSV file"
            raise InputError(owner, "metadata", expected, type(metadata).__name__) from None
        table = {str(name): frame[name].to_native() for name in frame.columns}
        index = list(metadata.index) if hasattr(metadata, "index") else None
    lengths = {len(values) for values in table.values()}
    if len(lengths) > 1:
        raise InputError(owner, "metadata", "columns of one length", f"lengths {sorted(lengths)}")
    return table, index


def _with_one_index(owner: str, table: Mapping[str, Any]) -> tuple[dict[str, Any], list[object] | None]:
    """Return columns in one order, and their index if some are a Series or a mapping; lists have that of the first."""
    keys = {name: values if isinstance(values, Mapping) else index_of(values) for name, values in table.items()}
    keyed = {name: list(found) for name, found in keys.items() if found is not None}
    index = next(iter(keyed.values()), None)
    if index is not None and any(found != index for found in keyed.values()):
        repeated = next((name for name, found in keyed.items() if len(set(found)) < len(found)), None)
        if repeated is not None:
            raise InputError(owner, f"metadata[{repeated!r}]", "one for each id", "an index with equal labels")
        index = [*dict.fromkeys(chain(*keyed.values()))]
    columns: dict[str, Any] = {}
    for name, values in table.items():
        if isinstance(values, Mapping):
            columns[name] = [values.get(key) for key in index or ()]
        elif name in keyed:
            columns[name] = values if keyed[name] == index else values.reindex(index)
        else:
            columns[name] = values if hasattr(values, "__array__") else list(values)
    return columns, index


@dataclass(frozen=True)
class TableFile(os.PathLike[str]):
    """The path of a table, and what is said of how it is written."""

    path: str
    form: TextFormat

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path


def _read(column: Sequence[object]) -> list[int | float | str | None]:
    """Return a column of a CSV file as numbers if all of it can be read so, else as text; None for an empty field."""
    fields = [str(field) for field in column]
    known = [field for field in fields if field]
    kinds: list[type] = [] if any(_CODE.match(field) or "_" in field for field in known) else [int, float]
    for kind in kinds:
        try:
            return [kind(field) if field else None for field in fields]
        except ValueError:
            continue
    return [field or None for field in fields]
