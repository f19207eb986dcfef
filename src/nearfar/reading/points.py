"""Tables with a row for each point: which columns are coordinates, which name or colour the points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearfar._core.checks import check_path
from nearfar._core.columns import is_number, objects_of
from nearfar._core.frames import columns_of, is_null
from nearfar._core.ids import Ids, distinct, which_matrix
from nearfar._core.types import Doubles, Singles
from nearfar._core.warn import warn_user
from nearfar.embedding.files.h5ad import opened
from nearfar.errors import DataError, InputError
from nearfar.reading import preparation
from nearfar.reading.columns import SUMS, is_missing, known_of, numbers_written
from nearfar.reading.delimited import FOUND_OUT, TextFormat, read_columns
from nearfar.reading.frames import parquet_of
from nearfar.reading.tables import position_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.embedding.metadata import Metadata

NAMES = ("name", "names", "id", "index", "")
"""What a column is called that by default holds the names of the rows."""
_CELLS = ("cell_type", "celltype", "leiden", "louvain")  # what else of obs
_SHOWN = 40  # columns of a picture
_PIECES = 16  # of a sample, spread over the file
_TOTAL_OF = 3  # rows at least
_NO_LABEL = frozenset(("", "nan", "na", "n/a", "<na>", "null"))


@dataclass(frozen=True, repr=False)
class Points(preparation.Rows):
    """A table with a row of coordinates for each point: every estimator takes it in place of X.

    Parameters
    ----------
    vectors : ndarray or sparse matrix, shape (n, d)
        The coordinates.
    ids : Ids
        Names of the points.
    told : str
        What was read, and what was left out.
    known : mapping of str to sequence, or frame, optional
        What else is known of the points, such as their labels: ``metadata`` of a map page.
    prepared : Prepared, optional
        How columns became the coordinates, for :func:`nearfar.prepare` of new rows; None where there were none.
    roles : mapping of str to object
        What was read, by its role: ``numbers``, ``names``, ``labels``, ``left_out``, what was ``prepared``.
    colours : mapping of str to sequence
        What colours the points of a picture: ``labels``, groups, or ``values``.
    """

    vectors: Singles | Doubles | csr_array[np.float64]
    ids: Ids
    told: str
    known: Metadata | None = field(default=None, compare=False)
    prepared: preparation.Prepared | None = field(default=None, compare=False)
    roles: Mapping[str, object] = field(default_factory=dict, compare=False)
    colours: Mapping[str, object] = field(default_factory=dict, compare=False)
    _why = ""

    def __str__(self) -> str:
        """Return the repr with a line for each thing that is told of the columns."""
        told = [f"  {part}" for part in self.told.split("; ") if part]
        other = "  otherwise: Relation.from_edges(path, columns=(source, target)), or nf.prepare(frame[columns])"
        return "\n".join([f"<Points {len(self)} x {self.shape[1]}, {self._why}>", *told, other])

    def __repr__(self) -> str:
        return f"<Points {len(self)} x {self.shape[1]}, {', '.join(filter(None, (self.told, self._why)))}>"


class _Read(NamedTuple):
    """The columns of a file: their names if there are any, what they hold, the number of rows, and where row k is."""

    names: Sequence[str] | None
    columns: list[preparation.Typed]
    written: list[Sequence[object]]
    n: int
    where: Callable[[int], str]

    def shown(self, k: int) -> str:
        """Return a column for a message."""
        return str(k) if self.names is None else repr(self.names[k])

    def names_rows(self, k: int) -> bool:
        """Whether a column holds texts, or numbers written as codes, another in each row."""
        column, texts = self.columns[k], self.columns[k].texts or []
        of_names = column.kind == "text" or preparation.has_codes(column)
        return of_names and None not in texts and len(set(texts)) == self.n > 1

    def no_number(self, k: int) -> int | None:
        """Return the first row of a column that holds no number, and not true or false."""
        column, written = self.columns[k], self.written[k]
        if column.kind in ("number", "truth"):
            missing = np.isnan(column.values)
            plain = column.kind == "number" or {str(field).lower() for field in written} <= {"true", "false"}
            return None if plain and not missing.any() else int(np.argmax(missing))
        return next((row for row, v in enumerate(written) if is_missing(v) or not is_number(str(v))), 0)


def read_table(
    file: str | object,
    names: str | None,
    labels: str | None,
    *,
    owner: str,
    form: TextFormat | None = None,
    distances: bool = False,
    index: Ids | None = None,
) -> Points:
    """Return the coordinates of a table, and what else it holds.

    Numbers stay as they are; columns are coded, as by :func:`nearfar.prepare`, where some are no numbers, or of
    different scales.

    Parameters
    ----------
    file : str, open file or frame
    names, labels : str or None
        Columns that are asked for, by name or position. By default those that are called so; names may be ids, too.
    owner : str
        For messages.
    form : TextFormat, optional
        What is said of how a text is written; found out by default.
    distances : bool, default=False
        The numbers are distances: none is left out but names, and none coded.
    index : Ids, optional
        Names of the rows, unless they are 0 .. n - 1.

    Raises
    ------
    InputError, DataError
        If there is no such file or column, two columns have one name, a line has another number of fields, no column
        is left, or a distance is missing or no number.
    """
    read = _read(owner, file, form)
    if not read.n:
        raise DataError(owner, "source", "a table with at least one row of numbers", "none")
    every = ", ".join(map(read.shown, range(len(read.columns)))) or "none"
    numbers = [column.values for column in read.columns if column.kind == "number"]
    if not distances and len(numbers) == read.n > 2:  # as many columns as rows
        square = np.array(numbers)
        distances = np.count_nonzero(square) == read.n * (read.n - 1) and preparation.may_be_distances(square)
        if distances:
            warn_user(f"{owner}: the numbers may be distances between the rows: metric='precomputed' takes them so.")
    by_name = _column(owner, "names", names, read, NAMES)
    by_label = _column(owner, "labels", labels, read, preparation.LABELS)
    n, columns = read.n, read.columns
    if names is None and by_name is not None and len(set(read.written[by_name])) < n:
        by_name = None  # called so, but not the names of rows
    others = [] if distances else [k for k in range(len(columns)) if k not in (by_name, by_label)]
    left_out = {}
    for k in others:
        column = columns[k]
        why = preparation.why_none(read.names and column.name, column.values) if column.kind == "number" else None
        if why is not None and not (why == "labels" and labels is not None):
            left_out[k] = why
    if by_name is None:
        by_name = next((k for k, why in left_out.items() if why == "ids" and len(set(read.written[k])) == n), None)
        left_out.pop(-1 if by_name is None else by_name, None)
    used = [k for k in range(len(columns)) if k not in (by_name, by_label, *left_out)]
    naming = [k for k in (used if distances else others) if by_name is None and read.names_rows(k)]
    codes = [k for k in naming if distances or preparation.has_codes(columns[k])][:1]
    bad = next(((k, row) for k in used if k not in codes and (row := read.no_number(k)) is not None), None)
    if distances and bad is not None:
        hint = f"A column of names is given by --names, one of groups by --labels; there are {every}."
        k, row = bad
        got = f"{read.written[k][row]!r} in column {read.shown(k)} {read.where(row)}"
        raise DataError(owner, "every distance", "a number", got, hint)
    X = np.array([columns[k].values for k in used if k not in codes]).T
    prepare = not distances and (bad is not None or not X.size or preparation.has_other_scale(X) is not None)
    by_name = next(iter(naming if prepare else codes), by_name)
    used = [k for k in used if k != by_name]
    if not used:
        raise DataError(owner, "source", "a table with a column of coordinates", f"columns {every}")
    if prepare:
        made = preparation.prepared([columns[k] for k in used], Ids(n), owner=owner, argument="source")
        X = made.vectors
    else:
        medians = zip(used, np.median(X, axis=0).tolist(), strict=True)
        as_they_are = [preparation.Coding(columns[k].name, "number", fill=median) for k, median in medians]
        made = preparation.Prepared(X, Ids(n), as_they_are, {columns[k].name: why for k, why in left_out.items()})
    made._named = "" if by_name is None else columns[by_name].name
    said: dict[str, object] = {"numbers": X.shape[1]}
    said |= {role: read.shown(k) for role, k in (("names", by_name), ("labels", by_label)) if k is not None}
    if left_out:
        said["left_out"] = ", ".join(f"{read.shown(k)} ({why})" for k, why in left_out.items())
    told = [made.told] * bool(prepare) + [f"{role.replace('_', ' ')} {what}" for role, what in said.items()][1:]
    said |= {"prepared": made.told} if prepare else {}
    colours = {} if by_label is None else _colours(read.written[by_label])
    if index is None or index.is_range:
        written = [] if by_name is None else _integers(read.written[by_name])
        index = Ids.of_rows(n, [field for field in written if field is not None] or None, owner=owner)
    known = {"label": list(*colours.values())} if colours else dict[str, list[object]]()
    shown = [k for k in range(len(columns)) if k not in (by_name, by_label)]
    for k in shown if len(shown) < _SHOWN else left_out:  # of the coordinates only a few say anything
        column = columns[k]
        values: list[object] = [None if np.isnan(x) else int(x) if x % 1 == 0 else x for x in column.values.tolist()]
        known[column.name] = values if column.kind == "number" else [*read.written[k]]
    beside = {"id": [*index], **known} if known else None
    return Points(np.ascontiguousarray(X), index, "; ".join(told), beside, made, said, colours)


def read_annotated(
    owner: str, file: str, obsm: str | None, labels: str | None, *, most: float = math.inf, sample: int = 0
) -> Points:
    """Return the rows of a file of AnnData, with which matrix and labels these are, and the columns of obs.

    Of a matrix of more bytes than ``most`` a sample of rows of so many bytes is read.

    Raises
    ------
    InputError, FileFormatError
        If it is no such file, or there is no such matrix or column.

    Warns
    -----
    NearfarWarning
        If a sample was read.
    """
    from types import SimpleNamespace

    from scipy.sparse import csr_array, vstack

    with opened(check_path(owner, "source", file, exists=True), owner) as there:
        from anndata.io import read_elem, sparse_dataset

        which = which_matrix(owner, SimpleNamespace(obsm=there.get("obsm", {}), X=there.get("X")), obsm)
        matrix: Any = there["X"] if which == "X" else there["obsm"][which]
        is_sparse = hasattr(matrix, "keys")
        size = sum(part.nbytes for part in ((matrix["data"], matrix["indices"]) if is_sparse else (matrix,)))
        matrix = sparse_dataset(matrix) if is_sparse else matrix
        obs = read_elem(there["obs"])
        n = len(obs)
        n_rows = n if size <= most else max(sample * n // size, 1)
        pieces = min(_PIECES, n_rows) if n_rows < n else 1
        ranges = [(k * n // pieces, min(k * n // pieces + n_rows // pieces, n)) for k in range(pieces)]
        some = [matrix[a:b] for a, b in ranges]
        rows = vstack([csr_array(part) for part in some], format="csr") if is_sparse else np.concatenate(some)
    obs = obs.iloc[np.concatenate([np.arange(a, b) for a, b in ranges])]
    names = [str(name) for name in obs.index]
    columns = {str(name): [None if is_null(value) else value for value in objects_of(obs[name])] for name in obs}
    if len(names) < n:
        read = f"{len(names):,} of {n:,} rows were read, as a sample."
        warn_user(f"{owner}: {file!r} has {size / 1e9:,.1f} GB: {read}")
    if labels is not None and labels not in columns:
        raise InputError(owner, "labels", f"one of {', '.join(map(repr, columns)) or 'no column of obs'}", repr(labels))
    by_label = labels or next((name for name in columns if name.lower() in (*preparation.LABELS, *_CELLS)), None)
    said: dict[str, object] = {"matrix": "X" if which == "X" else f"obsm[{which!r}]"}
    said |= {} if by_label is None else {"labels": repr(by_label)}
    known = [None if is_missing(v) and not isinstance(v, str) else v for v in columns[by_label]] if by_label else []
    told, colours = ", ".join(f"{role} {what}" for role, what in said.items()), _colours(known) if by_label else {}
    ids = Ids.of_rows(len(names), distinct(owner, names))
    return Points(rows, ids, told, columns or None, None, said, colours)


def _read(owner: str, file: Any, form: TextFormat | None) -> _Read:
    frame = file
    if isinstance(file, str) and file.lower().endswith((".parquet", ".pq")):
        path = check_path(owner, "source", file, exists=True)
        with parquet_of(owner, "source", path) as parquet:
            frame = parquet.read_table(path)
    elif isinstance(file, str) or hasattr(file, "read"):
        table, fields, where = read_columns(owner, file, form or FOUND_OUT, "source")
        if fields and len(fields[0]) > _TOTAL_OF and str(fields[0][-1]).strip().lower() in SUMS:
            warn_user(f"{owner}: the last row, {fields[0][-1]!r}, sums up the others; it was left out.")
            fields = [column[:-1] for column in fields]
        known = (known_of([*map(str.strip, column)]) for column in fields if table.form.startswith("semicolons"))
        comma = any(any("," in text for text in some) and numbers_written(some, comma=True) for some in known)
        titles = table.names or list(map(str, range(len(fields))))
        texts = [preparation.of_texts(name, column, comma=comma) for name, column in zip(titles, fields, strict=True)]
        return _Read(table.names, texts, [*fields], len(fields[0]) if fields else 0, lambda k: f"on {where(k)}")
    written: list[Sequence[object]] = [series.to_list() for _, series in columns_of(owner, "source", frame)]
    columns = preparation.typed_columns(owner, frame, "source")
    columns = [one._replace(name="" if one.name.startswith("__index_level_") else one.name) for one in columns]
    return _Read([one.name for one in columns], columns, written, int(frame.shape[0]), "in row {}".format)


def _column(owner: str, option: str, asked: str | None, read: _Read, usual: Sequence[str]) -> int | None:
    names, width = read.names, len(read.columns)
    if asked is None:
        found = [k for k, name in enumerate(names or ()) if name.lower() in usual]
        return found[0] if len(found) == 1 else None
    is_position = names is None and asked.isdecimal() and int(asked) < width
    return position_of(owner, option, int(asked) if is_position else asked, names, width)


def _integers(fields: Sequence[object]) -> list[int | str | None]:
    """Return integers if all are written as Python writes them, else text; None stays."""
    texts = [None if field is None else str(field) for field in fields]
    whole = all(text.isdecimal() and str(int(text)) == text for text in texts if text is not None)
    return [None if text is None else int(text) if whole else text for text in texts]


def _colours(column: Sequence[object]) -> dict[str, Any]:
    """Return a column as groups, or as values if it holds numbers with fractions; None for what is missing."""
    fields = [None if field is None or str(field).lower() in _NO_LABEL else str(field) for field in column]
    typed = preparation.of_texts("", fields)
    if typed.kind == "number" and bool((typed.values % 1 > 0).any()):
        return {"values": typed.values.tolist()}
    labels = np.empty(len(fields), object)
    labels[:] = _integers(fields)
    return {"labels": labels}
