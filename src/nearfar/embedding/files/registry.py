"""The registry of file formats: which there are, and how the name of a file tells its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nearfar._core.atomic import check_target
from nearfar._core.checks import bad_file, check_choice, check_path, require
from nearfar._core.ids import Ids
from nearfar.embedding.files.content import Content
from nearfar.embedding.files.tables import IF_EXISTS, DatabaseTable
from nearfar.errors import InputError, NearfarError

Made = TypeVar("Made")


class Format(NamedTuple):
    """A file format, see :func:`register`."""

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Content, Any], None]
    read: Callable[[Any], Content]
    keeps_both_sides: bool = False
    requires: tuple[str, str] | None = None
    tables: bool = False
    check: Callable[[DatabaseTable], None] | None = None
    prefixes: tuple[str, ...] = ()
    keeps_columns: bool = False
    ids: Callable[[Ids], object] | None = None


_PICKLES = (".kv", ".model")  # of gensim

FORMATS: dict[str, Format] = {}
"""Every format by its name."""
FOLDERS: dict[str, Callable[[Path], Content]] = {}
"""What reads a folder that has no suffix, by the name of its header."""


def register(
    name: str,
    suffixes: Iterable[str],
    *,
    write: Callable[[Content, Path], None] | Callable[[Content, DatabaseTable], None],
    read: Callable[[Path], Content] | Callable[[DatabaseTable], Content],
    keeps_both_sides: bool = False,
    requires: tuple[str, str] | None = None,
    tables: bool = False,
    check: Callable[[DatabaseTable], None] | None = None,
    prefixes: Iterable[str] = (),
    keeps_columns: bool = False,
    ids: Callable[[Ids], object] | None = None,
) -> None:
    """Make a file format known to ``Embedding.save`` and ``load``, and to the command line.

    Parameters
    ----------
    name : str
        Name of the format, for ``format=``, ``--from`` and ``--to``. A format of the same name is replaced.
    suffixes : iterable of str
        Endings of file names, such as ``".npz"``, in lower case.
    write : callable
        ``write(content, path)`` writes a :class:`Content`. It opens the file by :func:`atomic_write`, so that the file
        appears whole or not at all, and raises InputError for ids that the format cannot hold.
    read : callable
        ``read(path)`` returns a :class:`Content`. Whatever it raises about the content of the file reaches the user as
        FileFormatError. Vectors that are not finite and ids that are not distinct are found by the caller.
    keeps_both_sides : bool
        Whether the context side, ids of any kind and parameters come back. Without it ``save`` warns where there is
        another side.
    requires : (str, str), optional
        A package that must be installed, and the extra of nearfar that brings it.
    tables : bool
        Whether it is a database. ``write`` and ``read`` get a :class:`DatabaseTable` then, and raise InputError about
        its path where it cannot be used.
    check : callable, optional
        ``check(place)`` raises InputError, before any work, where a place could not be written to.
    prefixes : iterable of str
        Beginnings of addresses, such as ``"postgresql://"``, for a database that is no file.
    keeps_columns : bool
        Whether ``write`` writes ``content.facts``, the columns of metadata. Without it ``save`` refuses metadata.
    ids : callable, optional
        ``ids(ids)`` raises InputError for ids that the format cannot hold, as ``write`` does. It is asked before a fit
        whose vectors go to a file.

    Raises
    ------
    InputError
        If a suffix does not begin with a dot or belongs to another format.
    """
    endings = tuple(suffixes)
    for suffix in endings:
        taken = [other.name for other in FORMATS.values() if suffix in other.suffixes and other.name != name]
        if not suffix.startswith(".") or suffix != suffix.lower() or taken:
            got = f"{suffix!r}, that of {taken[0]}" if taken else repr(suffix)
            raise InputError("register", "suffixes", "a dot and lower-case letters, and of no other format", got)
    kept = keeps_both_sides, requires, tables, check, tuple(prefixes), keeps_columns, ids
    FORMATS[name] = Format(name, endings, write, read, *kept)


def check_format(owner: str, name: str, value: str) -> str:
    """Return the name of a format if there is one of that name."""
    if value not in FORMATS:
        _import_installed_formats()
    return check_choice(owner, name, value, FORMATS)


def format_of(owner: str, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Return the format of a file: the one that is named, otherwise the one that its suffix tells.

    Raises
    ------
    InputError
        If the format or the suffix is not one of :data:`FORMATS`.
    """
    if format is not None:
        return check_format(owner, "format", format)
    found = _by_name(str(path))
    if found is None:
        _import_installed_formats()
        found = _by_name(str(path))
    if found is None or not FORMATS[found].tables:
        check_path(owner, "path", path)
    if found is None and str(path).lower().endswith(_PICKLES):
        hint = "Embedding.from_gensim(gensim.models.KeyedVectors.load(path)) takes its vectors, if you trust the file."
        raise InputError(
            owner, "path", "a file that is no pickle: opening one runs what is in it", repr(str(path)), hint
        )
    if found is None:
        known = ", ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
        hint = "Choose one of them, or name the format."
        raise InputError(owner, "path", f"a file name with one of the suffixes {known}", repr(str(path)), hint)
    return found


def check_output(
    owner: str,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    if_exists: str | None = None,
    *,
    columns: bool = False,
    ids: Iterable[Ids] = (),
) -> str:
    """Check, before any work, that an embedding, with columns of metadata or without, could be written to ``path``.

    The format is returned. ``ids`` are those of its rows, and of its other side, where they are known.

    Raises
    ------
    InputError
        If the suffix is unknown, the folder does not exist or cannot be written to, or the path is not a plain file;
        if the format cannot hold the ids;
        if a server does not answer, or a table is there and may not be replaced.
    MissingDependencyError
        If the format needs an optional package that is not installed.
    """
    kind = FORMATS[format_of(owner, path, format)]
    if if_exists is not None:
        check_choice(owner, "if_exists", if_exists, IF_EXISTS)
    if columns and not kind.keeps_columns:
        hint = f"These hold columns: {', '.join(other.name for other in FORMATS.values() if other.keeps_columns)}."
        got = f"some for the format {kind.name!r}, which holds ids and vectors alone"
        raise InputError(owner, "metadata", "left out for a format without columns", got, hint)
    if kind.ids is not None:
        for side in list(ids)[: 1 + kind.keeps_both_sides]:
            kind.ids(side)
    if kind.requires is not None:
        require(owner, *kind.requires)
    target = target_of(owner, kind, path, if_exists)
    if kind.check is not None:
        kind.check(target if kind.tables else DatabaseTable(owner, str(path), if_exists=if_exists or "replace"))
    if kind.tables:
        return kind.name
    check_target(owner, target)
    if if_exists == "append":
        hint = "A database has tables to add to: .sqlite, .lance, postgresql://."
        raise InputError(owner, "if_exists", f"'fail' or 'replace' for the format {kind.name!r}", if_exists, hint)
    if if_exists == "fail" and target.exists():
        raise InputError(
            owner, "path", "a file that is not there yet", repr(str(path)), 'if_exists="replace" allows it.'
        )
    return kind.name


def target_of(owner: str, kind: Format, path: str | os.PathLike[str], if_exists: str | None = None) -> Any:
    """Return what a format writes to or reads from: a path, or the place of a table."""
    if not kind.tables:
        return check_path(owner, "path", path)
    database, table = str(path), ""
    if "#" in database and not database.lower().endswith(kind.suffixes):
        database, _, table = database.rpartition("#")
    return DatabaseTable(owner, database, table, if_exists or "fail")


def load(
    owner: str,
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002
    make: Callable[[Content], Made],
) -> Made:
    """Return what ``make`` makes of the content of a file, of a folder of parts or of a table.

    Raises
    ------
    InputError
        If the file is not there or its suffix is unknown; if a server does not answer, or has no such table.
    FileFormatError
        If it is truncated, altered or of another kind, or ``make`` refuses its content.
    """
    kind = _folder_at(path) if format is None else None
    if kind is None:
        kind = FORMATS[format_of(owner, path, format)]
        if not kind.tables:
            check_path(owner, "path", path, exists=True)
    if kind.requires is not None:
        require(owner, *kind.requires)
    place = target_of(owner, kind, path)
    bad = place.bad if kind.tables else partial(bad_file, place)
    try:
        return make(kind.read(place))
    except InputError as error:
        if kind.tables and error.argument == "path":  # about the place, not about what is in it
            raise
        raise bad(f"one whose {error.argument} are {error.expected}", str(error.got), error.hint) from error
    except (NearfarError, Warning, OSError):
        raise
    except MemoryError as error:
        raise bad("one that fits into memory", str(error) or "no room for it") from error
    except Exception as error:  # damage reaches every corner of a reader
        raise bad(f"a complete {kind.name} file", f"{type(error).__name__}: {error}") from error


def _folder_at(path: object) -> Format | None:
    """Return how to read a folder, if there is one with a header that is known."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_dir():
        return None
    found = [read for header, read in FOLDERS.items() if (Path(path) / header).is_file()]
    return Format("folder", (), write=_no_writer, read=found[0]) if found else None


def _no_writer(_content: Content, _path: Path) -> None:
    raise AssertionError  # folders are written by who holds the parts


def _by_name(path: str) -> str | None:
    """Return the format that the name of a file, or the address of a database, tells; behind a # is a table."""
    for kind in FORMATS.values():
        if path.startswith(kind.prefixes):
            return kind.name
    found = _by_suffix(Path(path).name.lower())
    if found is None and "#" in path:
        found = _by_suffix(Path(path.rpartition("#")[0]).name.lower())
        found = found if found and FORMATS[found].tables else None
    return found


def _by_suffix(file: str) -> str | None:
    fitting = {suffix: kind.name for kind in FORMATS.values() for suffix in kind.suffixes if file.endswith(suffix)}
    return fitting[max(fitting, key=len)] if fitting else None


@cache
def _import_installed_formats() -> None:
    """Import the formats of other packages, which name a module as an entry point of the group nearfar.formats."""
    for point in entry_points(group="nearfar.formats"):
        point.load()
