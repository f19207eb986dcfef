"""PostgreSQL with pgvector: a table with the columns ``id`` (bigint or text, the primary key) and ``vector``, float32.

Columns of metadata are bigint, double precision, boolean or text. An address is a connection string with the name of
the table behind it: ``postgresql://user@server/shop#items``, or ``#schema.items``. The parameters are the table's
comment. A table is written by one COPY in one transaction: whole or not at all. Tables by others are read when they
have the two columns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.ids import Ids
from nearfar.embedding.files.content import SAVE, Content, Fact, dump_parameters, load_parameters
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.tables import DatabaseTable, column_of_ids, float32_rows
from nearfar.errors import InputError

if TYPE_CHECKING:
    import psycopg

Columns = dict[str, str]

PATIENCE = 10
"""Seconds that a server has to answer, where the address has no ``connect_timeout``."""

_COMMENT = "nearfar "
_LONGEST = 63
_OURS = "id", "vector", ""
_TYPES = {"integer": "bigint", "number": "double precision", "flag": "boolean", "text": "text"}
_KINDS = {kind: name for name, kind in _TYPES.items()} | {"integer": "integer", "smallint": "integer"}
_KINDS |= {"real": "number", "character varying": "text"}
_INTEGERS, _TEXTS = ("smallint", "integer", "bigint"), ("text", "character varying")


def check(place: DatabaseTable) -> None:
    """Say before any work why the table could not be written."""
    with _opened(place) as server:
        _check_new(place, server)


def check_ids(ids: Ids) -> None:
    """Refuse ids that no column of the server holds."""
    texts = column_of_ids(ids)
    odd = next((text for text in texts if "\0" in text), None) if isinstance(texts, list) else None
    if odd is not None:
        raise InputError(SAVE, "ids", "text that the server can hold, without NUL", repr(odd))


def write(content: Content, place: DatabaseTable) -> None:
    """Write the table in one transaction."""
    from psycopg import sql

    is_integer, d = content.ids.is_integer, content.vectors.shape[1]
    blocks, name, facts = float32_rows(content), sql.Identifier(*_name(place)), _checked(content.facts)
    with _opened(place) as server:
        there = _check_new(place, server)
        if there and place.if_exists == "append":
            place.check_fits(is_integer, d, _kind(place, there))
            others = {column: kind for column, kind in there.items() if column not in _OURS}
            facts = place.fitting(facts, {column: _KINDS.get(kind, "") for column, kind in others.items()})
        else:
            _check_pgvector(server, place)
            if there:
                server.execute(sql.SQL("DROP TABLE {}").format(name))
            kind = sql.SQL("bigint" if is_integer else "text")
            columns = [sql.SQL("id {} PRIMARY KEY, vector vector({}) NOT NULL").format(kind, sql.Literal(d))]
            columns += [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(_TYPES[f.kind])) for f in facts]
            server.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(columns)))
            comment = sql.Literal(_COMMENT + dump_parameters(content.parameters))
            server.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, comment))
        head = np.array([d, 0], ">i2").tobytes()  # how pgvector's binary form begins
        names = sql.SQL(", ").join(sql.Identifier(column) for column in ("id", "vector", *(f.name for f in facts)))
        into = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(name, names)
        added = there if there and place.if_exists == "append" else {}
        kinds = [added.get("id", "bigint" if is_integer else "text"), "bytea"]
        kinds += [added.get(fact.name, _TYPES[fact.kind]) for fact in facts]
        values = zip(*(fact.values for fact in facts), strict=True) if facts else repeat(())
        with server.cursor() as cursor, cursor.copy(into) as copy:
            copy.set_types(kinds)
            for ids, rows in blocks:
                for key, row, known in zip(ids, rows.astype(">f4"), islice(values, len(ids)), strict=True):
                    copy.write_row((key, head + row.tobytes(), *known))


def _checked(facts: Sequence[Fact]) -> list[Fact]:
    """Return columns of metadata if PostgreSQL can have them."""
    long = next((fact.name for fact in facts if len(fact.name.encode()) > _LONGEST), None)
    if long is not None:
        raise InputError(
            SAVE, "metadata", f"columns whose names have at most {_LONGEST} bytes", repr(long), "Rename it."
        )
    return list(facts)


def read(place: DatabaseTable) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    from psycopg import sql

    with _opened(place) as server:
        # All that follows is of one moment, whoever writes meanwhile.
        server.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        columns = _columns(server, place)
        if not columns:
            raise place.refused("a table that is there", str(place), "#NAME behind the address names one.")
        is_integer, _ = _kind(place, columns)
        name, kind = sql.Identifier(*_name(place)), "bigint" if is_integer else "text"
        (n,) = server.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone()
        told = _parameters(server, place)
        # In the order in which the rows lie, which is that of writing.
        server.execute("SET LOCAL synchronize_seqscans = off")
        server.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        query = sql.SQL("COPY (SELECT id::{}, vector::vector FROM {}) TO STDOUT (FORMAT binary)")
        ids: list[Hashable] = []
        vectors = np.empty((n, int(columns[""])), np.float32)
        with server.cursor() as cursor, cursor.copy(query.format(sql.SQL(kind), name)) as copy:
            copy.set_types([kind, "bytea"])
            for key, blob in copy.rows():
                if key is None or blob is None:
                    raise place.bad("one without gaps in the columns 'id' and 'vector'", f"a gap in row {len(ids) + 1}")
                row = np.frombuffer(blob, ">f4", offset=4)
                if not vectors.shape[1]:  # of a column without a length
                    vectors = np.empty((n, len(row)), np.float32)
                if len(row) != vectors.shape[1]:
                    raise place.bad("one whose vectors have one length", f"{len(row)} and {vectors.shape[1]}")
                vectors[len(ids)] = row
                ids.append(key)
    return Content(vectors, ids, parameters=None if told is None else load_parameters(told))


@contextmanager
def _opened(place: DatabaseTable) -> Iterator[psycopg.Connection]:
    """Open a connection whose transaction is committed at the end of the block, or taken back."""
    import psycopg
    from psycopg import errors

    try:
        given = psycopg.conninfo.conninfo_to_dict(place.database)
    except psycopg.Error as error:
        raise place.refused("an address such as postgresql://user@server/database#table", error) from None
    try:
        server = psycopg.connect(place.database, connect_timeout=given.get("connect_timeout") or PATIENCE)
    except psycopg.OperationalError as error:
        hint = "Is the server running, and the database there?"
        raise place.refused("the address of a server that answers", _line(error), hint) from None
    try:
        with server:
            yield server
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, says the server ({_line(error)})") from error
    except errors.UniqueViolation as error:
        raise place.repeated(error) from None
    except (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege) as error:
        raise place.refused("a table that you may use", _line(error)) from None
    except errors.DependentObjectsStillExist as error:
        raise place.refused("a table that nothing else depends on", _line(error)) from None
    except (errors.CharacterNotInRepertoire, errors.UntranslatableCharacter) as error:
        argument = "ids" if str(error).rstrip(". ").endswith("column id") else "metadata"
        raise InputError(place.owner, argument, "text that the server can hold, without NUL", _line(error)) from None
    except psycopg.OperationalError as error:
        raise place.refused("the address of a server that stays there", _line(error)) from error
    except psycopg.Error as error:
        raise place.refused("a table that the server can read and write", _line(error)) from error


def _check_new(place: DatabaseTable, server: psycopg.Connection) -> Columns:
    """Return the columns of a table that is there, if it may be added to or replaced."""
    there = _columns(server, place)
    place.check_new(bool(there))
    if there and place.if_exists == "replace" and _parameters(server, place) is None:
        hint = "#NAME behind the address names another; or drop the table yourself."
        raise place.refused("a table that nearfar wrote, to be replaced", f"another, {str(place)!r}", hint)
    return there


def _columns(server: psycopg.Connection, place: DatabaseTable) -> Columns:
    """Return the types of the columns of a table, and as "" the length of its vectors; nothing if there is none."""
    found = server.execute(
        "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        [_regclass(place)],
    ).fetchall()
    columns: Columns = {name: kind.rpartition(".")[2] for name, kind, _ in found}
    lengths = [length for name, _, length in found if name == "vector"]
    return columns | {"": str(max(lengths[0], 0) if lengths else 0)} if columns else {}


def _parameters(server: psycopg.Connection, place: DatabaseTable) -> str | None:
    """Return the parameters that were kept with a table by nearfar."""
    query = "SELECT obj_description(to_regclass(%s), 'pg_class')"
    (told,) = server.execute(query, [_regclass(place)]).fetchone()
    return told[len(_COMMENT) :] if told is not None and told.startswith(_COMMENT) else None


def _kind(place: DatabaseTable, columns: Columns) -> tuple[bool, int]:
    """Return whether the ids of a table are integers, and the length of its vectors."""
    kinds = columns.get("id"), columns.get("vector")
    if kinds[0] not in _INTEGERS + _TEXTS or kinds[1] not in ("vector", "halfvec"):
        got = ", ".join(f"{name} {kind}" for name, kind in columns.items() if name)
        hint = "Read it, and take Embedding.from_arrays."
        raise place.bad("one with a column 'id' of integers or text and a column 'vector' of pgvector", got, hint)
    return kinds[0] in _INTEGERS, int(columns[""])


def _check_pgvector(server: psycopg.Connection, place: DatabaseTable) -> None:
    """Make pgvector ready in the database.

    Raises
    ------
    InputError
        If the server has none, or it must be made ready by somebody else.
    """
    import psycopg

    (there,) = server.execute("SELECT to_regtype('vector')").fetchone()
    if there is None:
        try:
            server.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            hint = "Install pgvector on the server; somebody who may runs: CREATE EXTENSION vector"
            raise place.refused("a database with the extension pgvector", _line(error), hint) from None


def _name(place: DatabaseTable) -> list[str]:
    """Return the schema, if there is one, and the table."""
    return [part for part in place.name.partition(".")[::2] if part]


def _regclass(place: DatabaseTable) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in _name(place))


def _line(error: Exception) -> str:
    """Return what went wrong in one line."""
    return " ".join(str(error).split())


register(
    "postgresql",
    [],
    write=write,
    read=read,
    tables=True,
    check=check,
    prefixes=["postgresql://", "postgres://"],
    requires=("psycopg", "postgres"),
    keeps_columns=True,
    ids=check_ids,
)
