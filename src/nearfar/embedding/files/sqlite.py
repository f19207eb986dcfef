"""SQLite with sqlite-vec: a virtual table ``vec0`` with the columns ``id`` and ``vector``, float32.

``SELECT id, distance FROM embedding WHERE vector MATCH ? AND k = 10`` finds the nearest by the cosine distance. Columns
of metadata filter them, ``AND genre = 'jazz'``; one with gaps is an auxiliary column, which can only be read. A table
``nearfar`` of the same file holds the parameters by the name of the table: what is named there and is a ``vec0`` was
written by nearfar, and may be replaced. A table is written in one transaction: whole or not at all. Tables by others
are read when they have the two columns and hold float32.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice, repeat
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.atomic import check_target
from nearfar._core.checks import check_path
from nearfar.embedding.files.content import ROWS, SAVE, Content, Fact, dump_parameters, load_parameters
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.tables import DatabaseTable, column_of_ids, float32_rows
from nearfar.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import sqlite3

_FULL = "disk is full", "Could not insert a new vector chunk"  # what SQLite says, and what sqlite-vec makes of it
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS, _TAKEN, _MOST = ("id", "vector"), ("rowid", "distance", "k"), 16  # columns of each sort
_KINDS = {"text": "text", "integer": "integer", "float": "number", "boolean": "flag", "int": "integer"}
_COLUMN = re.compile(r"[(,]\s*(\+?)\s*([A-Za-z_]\w*)\s+([A-Za-z]\w*)")
_WAIT = 10.0  # seconds for another process to finish


def check(place: DatabaseTable) -> None:
    """Say before any work why the table could not be written."""
    file = check_target(place.owner, check_path(place.owner, "path", place.database))
    _module(place)
    if file.exists():
        with _opened(place) as (_, database):
            _check_new(place, database)


def write(content: Content, place: DatabaseTable) -> None:
    """Write the table in one transaction."""
    d, new = content.vectors.shape[1], not Path(place.database).exists()
    facts = _checked(content.facts)
    is_integer, name = content.ids.is_integer, _quoted(place.name)
    blocks = float32_rows(content)
    first = next(blocks, None)  # raises for ids that no table holds, before there is a file
    try:
        with _opened(place) as (module, database):
            database.execute("BEGIN IMMEDIATE")
            try:
                there = _check_new(place, database)
                if there is not None and place.if_exists == "append":
                    place.check_fits(is_integer, d, _kind(place, there))
                    facts = _as_there(place, facts, there)
                else:
                    if there is not None:
                        database.execute(f"DROP TABLE {name}")
                    kind = "integer" if is_integer else "text"
                    columns = f"id {kind} primary key, vector float[{d}] distance_metric=cosine"
                    columns += "".join(f", {_declared(fact)}" for fact in facts)
                    database.execute(f"CREATE VIRTUAL TABLE {name} USING vec0({columns})")
                    database.execute("CREATE TABLE IF NOT EXISTS nearfar (name TEXT PRIMARY KEY, parameters TEXT)")
                    told = place.name, dump_parameters(content.parameters)
                    database.execute("INSERT OR REPLACE INTO nearfar VALUES (?, ?)", told)
                names = [_quoted(column) for column in ("id", "vector", *(fact.name for fact in facts))]
                insert = f"INSERT INTO {name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
                values = zip(*(fact.values for fact in facts), strict=True) if facts else repeat(())
                while first is not None:
                    ids, rows = first
                    lines = zip(ids, rows, islice(values, len(ids)), strict=True)
                    database.executemany(insert, ((key, row.data, *known) for key, row, known in lines))
                    first = next(blocks, None)
                database.execute("COMMIT")
            except module.Error as error:
                if "locked" in str(error):
                    raise
                raise _told(place, error) from error
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")
    except BaseException:
        if new:
            _remove_empty(place)
        raise


def read(place: DatabaseTable) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    check_path(place.owner, "path", place.database, exists=True)
    with _opened(place) as (_, database):
        database.execute("BEGIN")  # all that follows is of one moment, whoever writes meanwhile
        definition = _definition(database, place.name)
        if definition is None:
            known = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%vec0%'")]
            hint = f"It has {', '.join(map(repr, known)) or 'no table of vectors'}; #NAME behind the path names one."
            raise place.refused("a table that is there", str(place), hint)
        name = _quoted(place.name)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        if not {"id", "vector"} <= set(columns):
            hint = "Read it, and take Embedding.from_arrays."
            raise place.bad("one with the columns 'id' and 'vector'", f"columns {', '.join(columns)}", hint)
        told = None
        if _definition(database, "nearfar") is not None:
            told = _parameters(database, place)
        (n,) = database.execute(f"SELECT count(*) FROM {name}").fetchone()
        d = _kind(place, definition)[1] if "vec0" in definition else None
        vectors = np.empty((n, d or 0), np.float32)
        ids: list[Hashable] = []
        cursor = database.execute(f"SELECT id, vector FROM {name}")
        while rows := cursor.fetchmany(ROWS):
            if d is None:
                d = len(rows[0][1]) // 4 if isinstance(rows[0][1], bytes) else 0
                vectors = np.empty((n, d), np.float32)
            if any(not isinstance(blob, bytes) or len(blob) != 4 * d or not d for _, blob in rows):
                raise place.bad("one whose vectors are float32, all of one length", "others")
            vectors[len(ids) : len(ids) + len(rows)] = np.frombuffer(
                b"".join(blob for _, blob in rows), np.float32
            ).reshape(len(rows), d)
            ids += [key for key, _ in rows]
    if not all(type(key) is int for key in ids) and not all(type(key) is str for key in ids):
        raise place.bad("one whose ids are all integers or all text", "others")
    return Content(vectors, ids, parameters=load_parameters(told[0]) if told else None)


def _told(place: DatabaseTable, error: Exception) -> Exception:
    """Return what is to be said of an error of SQLite while it writes."""
    told = str(error)
    if "UNIQUE constraint" in told:
        return place.repeated(error)
    if "metadata column" in told:
        return InputError(SAVE, "metadata", "without gaps where the table has none", error)
    if "vec0 constructor" in told:
        return place.refused("a table that sqlite-vec can make", error)
    if any(sign in told for sign in _FULL):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place.database)
    return place.refused("a database that SQLite can write to", error)


def _checked(facts: Sequence[Fact]) -> list[Fact]:
    """Return columns of metadata as sqlite-vec can hold them."""
    unfit = [fact.name for fact in facts if not _NAME.fullmatch(fact.name) or fact.name.lower() in _TAKEN]
    names = [fact.name.lower() for fact in facts]
    unfit += [fact.name for fact in facts if names.count(fact.name.lower()) > 1]
    if unfit:
        expected = (
            f"columns whose names are letters, digits and _, distinct without case, and none of {', '.join(_TAKEN)}"
        )
        raise InputError(SAVE, "metadata", expected, unfit[0], "Rename it for this format.")
    made = [Fact(fact.name, "integer", fact.values) if fact.kind == "flag" and _gaps(fact) else fact for fact in facts]
    for what, some in (
        ("without gaps", [f for f in made if not _gaps(f)]),
        ("with gaps", [f for f in made if _gaps(f)]),
    ):
        if len(some) > _MOST:
            raise InputError(
                SAVE, "metadata", f"at most {_MOST} columns {what} for this format", len(some), "Give fewer."
            )
    return made


def _as_there(place: DatabaseTable, facts: list[Fact], definition: str) -> list[Fact]:
    """Return columns of metadata as a table has them that rows are added to."""
    there = {name: (kind.lower(), plus) for plus, name, kind in _COLUMN.findall(definition) if name not in _OURS}
    made = place.fitting(facts, {name: _KINDS.get(kind, "") for name, (kind, _) in there.items()})
    wanting = [name for name, (_, plus) in there.items() if not plus and name not in {fact.name for fact in made}]
    if wanting:
        raise InputError(SAVE, "metadata", f"given for each column of {place}", f"none for {wanting[0]!r}")
    return made


def _gaps(fact: Fact) -> bool:
    return None in fact.values


def _declared(fact: Fact) -> str:
    """Return a column as it is declared: of metadata, or an auxiliary one, which may have gaps."""
    kind = next(kind for kind, known in _KINDS.items() if known == fact.kind)
    return f"{'+' * _gaps(fact)}{fact.name} {kind}"


def _module(place: DatabaseTable) -> ModuleType:
    """Return a sqlite3 that loads extensions; that of some builds of Python does not."""
    for name in ("sqlite3", "pysqlite3"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module.Connection, "enable_load_extension"):
            return module
    raise MissingDependencyError(
        place.owner, "pysqlite3 (the sqlite3 of this Python loads no extensions)", "sqlite-vec"
    )


@contextmanager
def _opened(place: DatabaseTable) -> Iterator[tuple[ModuleType, sqlite3.Connection]]:
    import sqlite_vec

    module = _module(place)
    with closing(module.connect(place.database, timeout=_WAIT, isolation_level=None)) as database:
        database.enable_load_extension(True)
        sqlite_vec.load(database)
        database.enable_load_extension(False)
        database.execute("PRAGMA trusted_schema = OFF")  # a view of others calls no function that does something
        try:
            yield module, database
        except module.DatabaseError as error:
            if "not a database" in str(error):
                raise place.refused("a SQLite database", f"another file, {place.database!r}") from None
            if "locked" in str(error):
                raise place.refused("a database that nobody else is using", place.database) from None
            raise


def _remove_empty(place: DatabaseTable) -> None:
    """Remove a file that a failed write has made, if nobody else has written to it.

    Who has it open and waits is told by SQLite that it was moved.
    """
    module, file = _module(place), Path(place.database)
    with suppress(module.Error, FileNotFoundError), closing(module.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        if file.stat().st_size == 0:
            file.unlink()


def _check_new(place: DatabaseTable, database: sqlite3.Connection) -> str | None:
    """Return the definition of a table that is there, if it may be added to or replaced."""
    there = _definition(database, place.name)
    place.check_new(there is not None)
    if there is not None and place.if_exists == "replace":
        told = _definition(database, "nearfar") and _parameters(database, place)
        if not told or not re.match(r"CREATE VIRTUAL TABLE\b.*\bUSING vec0\b", there, re.IGNORECASE | re.DOTALL):
            hint = "#NAME behind the path names another; or drop the table yourself."
            raise place.refused("a table that nearfar wrote, to be replaced", f"another, {str(place)!r}", hint)
    return there


def _parameters(database: sqlite3.Connection, place: DatabaseTable) -> tuple[str] | None:
    """Return the parameters that were kept with a table by nearfar."""
    found: tuple[str] | None
    found = database.execute("SELECT parameters FROM nearfar WHERE name = ?", (place.name,)).fetchone()
    return found


def _definition(database: sqlite3.Connection, table: str) -> str | None:
    found = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return None if found is None else str(found[0])


def _kind(place: DatabaseTable, definition: str) -> tuple[bool, int]:
    """Return whether the ids of a table vec0 are integers, and the length of its vectors."""
    found = re.search(r"\bvector\s+(?:float|f32)\[(\d+)\]", definition)
    if found is None:
        raise place.bad("one of sqlite-vec with a column 'vector' of floats", definition)
    return re.search(r"\bid\s+text\b", definition, re.IGNORECASE) is None, int(found[1])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


register(
    "sqlite",
    [".sqlite", ".sqlite3", ".db"],
    write=write,
    read=read,
    tables=True,
    check=check,
    requires=("sqlite_vec", "sqlite-vec"),
    keeps_columns=True,
    ids=column_of_ids,
)
