"""LanceDB: the table of a database, with the columns ``id`` (int64 or text), ``vector`` (d numbers) and metadata.

``folder/people.lance`` is the table ``people`` of the database ``folder``, which ``lancedb.connect("folder")`` opens.
float32 and float64 stay what they are; the parameters travel in the schema's metadata. A new version of the table is
there when it is complete, or not at all; LanceDB keeps earlier versions until its ``optimize`` removes them.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from nearfar._core.atomic import check_target
from nearfar._core.checks import check_path
from nearfar.embedding.files.content import ROWS, Content
from nearfar.embedding.files.parquet import batches_of, content_of
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.tables import DatabaseTable, column_of_ids
from nearfar.errors import InputError

if TYPE_CHECKING:
    import lancedb

_FULL = "No space left", "os error 28"


def check(place: DatabaseTable) -> None:
    """Say before any work why the table could not be written."""
    folder = _folder(place)
    if folder.is_dir():
        place.check_new(True)
    else:
        check_target(place.owner, folder)


def write(content: Content, place: DatabaseTable) -> None:
    """Write the table, some rows at a time, as one new version."""
    import pyarrow
    from pyarrow import compute

    folder = _folder(place)
    there = folder.exists()
    place.check_new(there)
    batches = batches_of(content, ROWS)
    schema = next(batches)
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches)
    try:
        if not there:
            with TemporaryDirectory(prefix=".nearfar-", dir=folder.parent) as new:
                _connected(new).create_table(folder.stem, reader, schema=schema)
                _put_in_place(place, Path(new, folder.name), folder)
        elif place.if_exists == "replace":
            _connected(folder.parent).create_table(folder.stem, reader, schema=schema, mode="overwrite")
        else:
            table = _opened(place, folder)
            fields = [table.schema.field(name).type for name in ("id", "vector")]
            found = pyarrow.types.is_integer(fields[0]), getattr(fields[1], "list_size", 0)
            place.check_fits(content.ids.is_integer, content.vectors.shape[1], found)
            kinds = {"int64": "integer", "double": "number", "bool": "flag", "string": "text"}
            others = [field for field in table.schema if field.name not in ("id", "vector")]
            known = {field.name: kinds.get(str(field.type), "") for field in others}
            content.facts = place.fitting(content.facts, known)
            batches = batches_of(content, ROWS)
            reader = pyarrow.RecordBatchReader.from_batches(next(batches), batches)
            known = table.search().select(["id"]).limit(max(table.count_rows(), 1)).to_arrow().column("id")
            ids = pyarrow.array(content.ids.to_list(), known.type)
            again = compute.filter(ids, compute.is_in(ids, known.combine_chunks()))
            if len(again):
                raise place.repeated(repr(again[0].as_py()))
            table.add(reader)
    except (RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        told = " ".join(str(error).split())
        if "No space left" in told:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place.database) from error
        if isinstance(error, ValueError):
            raise place.refused("a table that LanceDB can write", told) from error
        raise OSError(errno.EIO, f"LanceDB could not write: {told}", place.database) from error


def read(place: DatabaseTable) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    table = _opened(place, _folder(place))
    names = table.schema.names
    some = [name for name in ("id", "vector") if name in names]
    found = table.search().select(some).limit(max(table.count_rows(), 1)).to_arrow()
    return content_of(place.bad, found, names)


def _folder(place: DatabaseTable) -> Path:
    """Return the folder of the table."""
    folder = check_path(place.owner, "path", place.database)
    if place.table:
        hint = f"The table {place.table!r} is {folder.parent / place.table}.lance."
        raise place.refused("a table, a folder FOLDER/NAME.lance", repr(str(place)), hint)
    if not re.fullmatch(r"[\w.-]+", folder.stem, re.ASCII):
        raise place.refused("one whose name LanceDB takes: letters, digits, _, - and .", repr(folder.stem))
    if folder.is_file():
        raise place.refused("a table, a folder FOLDER/NAME.lance", f"{place.database!r} (a file)")
    return folder


def _put_in_place(place: DatabaseTable, new: Path, folder: Path) -> None:
    try:
        new.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        raise place.refused("a table that nobody else is writing to", str(place)) from None


def _connected(folder: Path | str) -> lancedb.DBConnection:
    import lancedb

    return lancedb.connect(folder)


def _opened(place: DatabaseTable, folder: Path) -> lancedb.table.Table:
    if not folder.exists():
        raise place.refused("a table that is there", str(place))
    try:
        return _connected(folder.parent).open_table(folder.stem)
    except (ValueError, RuntimeError) as error:
        raise place.bad("one of LanceDB", " ".join(str(error).split())) from error


register(
    "lance",
    [".lance"],
    write=write,
    read=read,
    tables=True,
    check=check,
    requires=("lancedb", "lancedb"),
    keeps_columns=True,
    ids=column_of_ids,
)
