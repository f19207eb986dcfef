"""Which files a text is in: one, those of a folder or of a pattern of names, several, those behind a URL."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import IO

from nearfar._core.checks import check_path, is_pattern, require
from nearfar._core.streams import ByteStream
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError
from nearfar.text.encoded import TEXT

File = str | PathLike[str] | IO[str] | IO[bytes] | io.IOBase
TextSource = File | Sequence[PathLike[str]] | Iterable[str] | Iterable[Sequence[str]]

_SHOWN = 5  # names of files in a warning
_LOOKED_AT = 512  # bytes that tell a text


def files_of(source: object) -> list[File] | None:
    """Return what can be opened, in the order in which it is read; None for Python objects.

    Raises
    ------
    InputError
        If there is no such file.

    Warns
    -----
    NearfarWarning
        Files of a folder or a pattern that are no text, and are left out.
    """
    if isinstance(source, str) and "://" in source and not source.strip().count(" "):
        fsspec = require("Corpus", "fsspec", "cluster")
        try:
            found = list(fsspec.open_files(source, "rb"))
            there = bool(found) and found[0].fs.exists(found[0].path)
        except (ImportError, OSError, ValueError) as error:
            got = f"{source!r} ({error})"
            raise InputError("Corpus", "source", "a URL that fsspec can open", got) from error
        if not there:
            raise InputError("Corpus", "source", "the URL of a file that exists", repr(source))
        return found
    if isinstance(source, (list, tuple)) and source and hasattr(source[0], "fs"):  # of fsspec
        return list(source)
    if isinstance(source, (str, PathLike)):
        if str(source) == "-":
            return ["-"]
        path, hint = check_path("Corpus", "source", source), "A text itself goes into a list: Corpus([text])."
        if is_pattern(path):
            files = matching(path)
            if not files:
                raise InputError("Corpus", "source", "a pattern that names of files match", repr(str(path)), hint)
            return [*_texts_among(files, str(path))]
        if isinstance(source, str) and not path.exists():
            raise InputError("Corpus", "source", "a file or folder that exists", repr(source), hint)
        return [*_texts_in(path)] if path.is_dir() else [path]
    if isinstance(source, (list, tuple)) and source and all(isinstance(item, PathLike) for item in source):
        return [file for item in source for file in (_texts_in(Path(item)) if Path(item).is_dir() else [item])]
    given = source[0] if isinstance(source, (list, tuple)) and source else None
    if isinstance(given, str) and os.path.isfile(given):  # noqa: PTH113 - Path.is_file fails on long sentences
        hint = "Several files are given as paths: [Path(name) for name in names]."
        raise InputError("Corpus", "source", "paths, or sentences", f"the name of a file, {given!r}", hint)
    if isinstance(source, io.IOBase) and source.closed:
        raise InputError("Corpus", "source", "an open file", "one that was closed")
    return [source] if isinstance(source, io.IOBase) else None


def matching(pattern: str | PathLike[str]) -> list[Path]:
    """Return the files whose names match, and those in folders that do, hidden ones left out; each once, in order."""
    found = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207 - it may be absolute
    return list(dict.fromkeys(file for path in found for file in (inside(path) if path.is_dir() else [path])))


def _texts_in(folder: Path) -> list[Path]:
    if (folder / TEXT.header).is_file() and (folder / "tokens.npy").is_file():
        hint = "EncodedCorpus.open opens it."
        raise InputError("Corpus", "source", "a folder of text", f"{str(folder)!r}, a text that is encoded", hint)
    files = inside(folder)
    if not files:
        raise InputError("Corpus", "source", "a folder with files", repr(str(folder)))
    return _texts_among(files, str(folder))


def inside(folder: Path) -> list[Path]:
    """Return the files of a folder and of those in it, without hidden ones, in the order of their names."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _texts_among(files: list[Path], where: str) -> list[Path]:
    """Return the files that begin as text does, and tell of the others."""
    others = {file: what for file in files if (what := _no_text(file))}
    if len(others) == len(files):  # the reader says what they are, and what can be done
        return files
    if others:
        shown = ", ".join(f"{file.name!r} ({what})" for file, what in list(others.items())[:_SHOWN])
        more = ", ..." if len(others) > _SHOWN else ""
        warn_user(
            f"Corpus: {len(others)} of {len(files)} files of {where!r} are no text and are left out: {shown}{more}"
        )
    return [file for file in files if file not in others]


def _no_text(file: Path) -> str:
    """Return what a file is that is no text, by its beginning, packed or not; "" for a text."""
    try:
        with ByteStream("Corpus", file, "source") as stream:
            head = stream.read(_LOOKED_AT)
    except DataError as error:
        return str(error.got).partition(": ")[0]
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))  # UTF-16 and UTF-32
    return "" if marked or b"\0" not in head else "bytes of no text"
