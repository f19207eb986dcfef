"""The table of file formats, and how the name of a file tells its format."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from nearfar._core.atomic import check_target
from nearfar._core.checks import bad_file, check_choice, check_path, require
from nearfar._core.ids import Ids
from nearfar.embedding import native
from nearfar.embedding.content import Content
from nearfar.embedding.files import h5ad, parquet, separated, word2vec
from nearfar.errors import InputError, NearfarError

Made = TypeVar("Made")


class Format(NamedTuple):
    """A file format.

    Parameters
    ----------
    suffixes : tuple of str
        Endings of file names, in lower case.
    write, read : callable
        ``write(content, path)`` raises InputError for what the format cannot hold. Whatever ``read(path)`` raises about
        the content of a file reaches the user as FileFormatError; vectors that are not finite and ids that are not
        distinct are found by the caller.
    ids : callable
        Raises InputError for ids that the format cannot hold, as ``write`` does: before a fit whose vectors go there.
    keeps_both_sides, keeps_columns : bool
        Whether the context side, ids of any kind and parameters come back; whether columns of metadata are written.
    requires : (str, str), optional
        A package that must be installed, and the extra that brings it.
    check : callable, optional
        ``check(owner, path)`` raises InputError, before any work, for a file that may not be replaced.
    """

    suffixes: tuple[str, ...]
    write: Callable[[Content, Path], None]
    read: Callable[[Path], Content]
    ids: Callable[[Ids], object]
    keeps_both_sides: bool = False
    keeps_columns: bool = False
    requires: tuple[str, str] | None = None
    check: Callable[[str, Path], None] | None = None


FORMATS: dict[str, Format] = {
    "safetensors": Format((".safetensors",), native.write, native.read, native.held_ids, keeps_both_sides=True),
    "npz": Format((".npz",), native.write_npz, native.read_npz, native.held_ids, keeps_both_sides=True),
    "parquet": Format(
        (".parquet",),
        parquet.write,
        parquet.read,
        parquet.column_of_ids,
        keeps_columns=True,
        requires=("pyarrow", "parquet"),
    ),
    "h5ad": Format(
        (".h5ad",),
        h5ad.write,
        h5ad.read,
        h5ad.held_ids,
        keeps_columns=True,
        requires=("anndata", "anndata"),
        check=h5ad.check_own,
    ),
    "word2vec-text": Format(
        (".txt", ".vec", ".emb", ".txt.gz", ".vec.gz"), word2vec.write_text, word2vec.read_text, word2vec.held_ids
    ),
    "word2vec-binary": Format((".bin", ".bin.gz"), word2vec.write_binary, word2vec.read_binary, word2vec.held_ids),
    "csv": Format((".csv",), separated.write_csv, separated.read_csv, separated.csv_ids, keeps_columns=True),
    "projector": Format((".tsv",), separated.write_pair, separated.read_pair, separated.pair_ids, keeps_columns=True),
}
"""Every format by its name."""

_FRAME = "emb.to_frame() makes a table for to_sql or lancedb's create_table; nf.Embedding(frame) takes one."
_INDEX = "emb.index().save(path) and emb.open_index(path) keep an index; faiss.write_index writes one of emb.vectors."
_PICKLE = "Embedding.from_gensim(gensim.models.KeyedVectors.load(path)) takes its vectors, if you trust the file."
_NONE = {
    (".kv", ".model"): ("a file that is no pickle: opening one runs what is in it", _PICKLE),
    (".sqlite", ".sqlite3", ".db", ".lance", "postgresql://"): ("a file, not a database", _FRAME),
    (".faiss", ".usearch"): ("a file of vectors, not an index of another library", _INDEX),
}
"""What to use in place of files and addresses that end so."""


def format_of(owner: str, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Return the format of a file: the one that is named, otherwise the one that its suffix tells.

    Raises
    ------
    InputError
        If the format or the suffix is not one of :data:`FORMATS`.
    """
    if format is not None:
        return check_choice(owner, "format", format, FORMATS)
    name = Path(path).name.lower() if isinstance(path, (str, os.PathLike)) else ""
    fitting = {suffix: kind for kind, form in FORMATS.items() for suffix in form.suffixes if name.endswith(suffix)}
    place, got = str(path).partition("#")[0], repr(str(path))
    if re.match("postgres(ql)?://", place):
        place, got = "postgresql://", "the address of a server"  # which may hold a password
    for ends, (expected, hint) in _NONE.items():
        if place.lower().endswith(ends):
            raise InputError(owner, "path", expected, got, hint)
    check_path(owner, "path", path)
    if not fitting:
        known = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
        hint = "Choose one of them, or name the format."
        raise InputError(owner, "path", f"a file name with one of the suffixes {known}", got, hint)
    return fitting[max(fitting, key=len)]


def check_output(
    owner: str,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
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
        if the format cannot hold the ids, or the file is one of others that may not be replaced.
    MissingDependencyError
        If the format needs an optional package that is not installed.
    """
    name = format_of(owner, path, format)
    kind = FORMATS[name]
    if columns and not kind.keeps_columns:
        hint = f"These hold columns: {', '.join(other for other, form in FORMATS.items() if form.keeps_columns)}."
        got = f"some for the format {name!r}, which holds ids and vectors alone"
        raise InputError(owner, "metadata", "left out for a format without columns", got, hint)
    for side in list(ids)[: 1 + kind.keeps_both_sides]:
        kind.ids(side)
    if kind.requires is not None:
        require(owner, *kind.requires)
    target = check_path(owner, "path", path)
    if kind.check is not None:
        kind.check(owner, target)
    check_target(owner, target)
    return name


def load(
    owner: str,
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002
    make: Callable[[Content], Made],
) -> Made:
    """Return what ``make`` makes of the content of a file, or of a folder of parts.

    Raises
    ------
    InputError
        If the file is not there or its suffix is unknown.
    FileFormatError
        If it is truncated, altered or of another kind, or ``make`` refuses its content.
    """
    if format is None and isinstance(path, (str, os.PathLike)) and Path(path, native.FOLDER.header).is_file():
        name, place, kind = "folder", Path(path), FORMATS["safetensors"]._replace(read=native.read_parts)
    else:
        name = format_of(owner, path, format)
        place, kind = check_path(owner, "path", path, exists=True), FORMATS[name]
    if kind.requires is not None:
        require(owner, *kind.requires)
    try:
        return make(kind.read(place))
    except InputError as error:  # of the bytes or the text, or of what they say
        expected = error.expected if error.argument == "path" else f"one whose {error.argument} are {error.expected}"
        raise bad_file(place, expected, str(error.got), error.hint) from error
    except (NearfarError, Warning, OSError):
        raise
    except MemoryError as error:
        raise bad_file(place, "one that fits into memory", str(error) or "no room for it") from error
    except Exception as error:  # damage reaches every corner of a reader
        raise bad_file(place, f"a complete {name} file", f"{type(error).__name__}: {error}") from error
