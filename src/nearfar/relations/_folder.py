"""Folders that hold a stored relation: they appear whole or not at all, and are checked before they are used.

==================  ===============================================================================================
file                holds
==================  ===============================================================================================
``relation.json``   format, version, shape, entries, symmetry, kinds of the ids, size of every other file
``indptr.npy``      int64, (n + 1,): row i has the entries ``indptr[i]:indptr[i + 1]``
``indices.npy``     int32, (entries,): their columns, sorted within a row
``data.npy``        float32, (entries,): their weights; not there if all are 1
``ids*.npy``        names of the rows, see :mod:`nearfar.storage._packed_ids`; none if they are 0 .. n - 1
``column_ids*.npy`` names of the columns, if they are others
``transposed``      the same for the transpose, without ids; made when it is first needed
==================  ===============================================================================================
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._version import __version__
from nearfar.errors import FileFormatError, InputError
from nearfar.relations._array_files import map_npy

FORMAT, VERSION = "nearfar.relation", 1
HEADER = "relation.json"
_TEMPORARY = ".nearfar-"

Arrays = tuple[NDArray[np.int64], NDArray[np.int32], "NDArray[np.float32] | None"]


@dataclass(frozen=True)
class Header:
    """What ``relation.json`` says; ``ids`` and ``column_ids`` are kinds, None for a transpose."""

    shape: tuple[int, int]
    n_entries: int
    weighted: bool
    symmetric: bool
    ids: str | None = None
    column_ids: str | None = None


def write_header(folder: Path, header: Header) -> None:
    """Write ``relation.json``, with the sizes of the other files: the last one to be written."""
    files = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
    about = {"format": FORMAT, "version": VERSION, "nearfar": __version__}
    with (folder / HEADER).open("x", encoding="utf-8") as file:
        json.dump({**about, **asdict(header), "files": files}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_header(folder: Path) -> Header:
    """Read ``relation.json``, and check that every file that it names is there in its size.

    Raises
    ------
    FileFormatError
        If the folder is none of this format and version, or a file is missing or was cut short.
    """
    content = _content(folder)
    if content is None:
        raise bad_folder(folder, "a relation stored by nearfar", f"one without a {HEADER} that says so")
    if content.get("version") != VERSION:
        got = f"version {content.get('version')!r}, written by nearfar {content.get('nearfar')}"
        raise bad_folder(folder, f"of version {VERSION} of the format", got, "Install the nearfar that wrote it.")
    try:
        sizes = dict(content["files"])
        fields = {name: content[name] for name in ("n_entries", "weighted", "symmetric", "ids", "column_ids")}
        header = Header(shape=(int(content["shape"][0]), int(content["shape"][1])), **fields)
        if header.symmetric and header.shape[0] != header.shape[1]:
            raise ValueError(f"symmetric with shape {header.shape}")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise bad_folder(folder, f"one with a readable {HEADER}", f"{type(error).__name__}: {error}") from error
    for name, size in sizes.items():
        path = folder / Path(name).name
        found = path.stat().st_size if path.is_file() else -1
        if found != size:
            got = f"{name} of {found} bytes instead of {size}" if found >= 0 else f"no {name}"
            raise bad_folder(folder, "what was written", got, "Make it again.")
    return header


def map_arrays(folder: Path, header: Header) -> Arrays:
    """Map indptr, indices and data.

    Raises
    ------
    FileFormatError
        If they are not what the header says.
    """
    n, n_entries = header.shape[0], header.n_entries
    indptr = _mapped(folder, "indptr", np.int64, n + 1)
    indices = _mapped(folder, "indices", np.int32, n_entries)
    data = _mapped(folder, "data", np.float32, n_entries) if header.weighted else None
    if indptr[0] != 0 or indptr[-1] != n_entries:
        raise bad_folder(folder, f"one whose rows hold its {n_entries} entries", f"{indptr[0]} to {indptr[-1]}")
    return indptr, indices, data


def bad_folder(folder: Path, expected: str, got: str, hint: str = "") -> FileFormatError:
    """Return the error for a folder that is not what it should be, in the form of :mod:`nearfar.errors`."""
    return FileFormatError(f"{folder}: folder must be {expected}; got {got}.{hint and ' ' + hint}")


@contextmanager
def new_folder(owner: str, name: str, path: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of ``path`` when the block ends without an error.

    Whatever goes wrong before, an interrupt or a full disk included, leaves what was at ``path`` as it was.

    Parameters
    ----------
    owner, name : str
        For the message of the error: who asks, and which argument the path is.
    path : Path
        Nothing, an empty folder, or a stored relation, which is replaced.

    Raises
    ------
    InputError
        If it is something else, or cannot be written to.
    """
    target = _check_target(owner, name, path)
    temporary = _temporary(target)
    temporary.mkdir()
    try:
        yield temporary
        _put_in_place(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _content(folder: Path) -> Mapping[str, Any] | None:
    """Return what the header says, None if it is no header of a relation."""
    try:
        content = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def _mapped(folder: Path, name: str, dtype: type, size: int) -> NDArray[Any]:
    try:
        array = map_npy(folder / f"{name}.npy")
    except (ValueError, OSError, EOFError) as error:
        raise bad_folder(folder, f"one with a readable {name}.npy", str(error)) from error
    if array.dtype != dtype or array.shape != (size,):
        expected = f"one whose {name}.npy holds {size} {np.dtype(dtype).name}"
        raise bad_folder(folder, expected, f"{array.dtype}, shape {array.shape}")
    return array


def _check_target(owner: str, name: str, path: Path) -> Path:
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise InputError(owner, name, "in a folder that exists", str(path), "Create that folder first.")
    if not os.access(real.parent, os.W_OK | os.X_OK):
        raise InputError(owner, name, "in a folder that you may write to", str(path))
    if real.exists() and not (real.is_dir() and _is_replaceable(real)):
        what = "a folder with something else in it" if real.is_dir() else "a file"
        hint = "Choose another name, or remove it first."
        raise InputError(owner, name, "a new folder, or a relation to replace", f"{str(path)!r} ({what})", hint)
    return real


def _is_replaceable(folder: Path) -> bool:
    """Whether nothing but a stored relation would be lost."""
    names = [entry.name for entry in folder.iterdir()]
    ours = all(name in (HEADER, "transposed") or name.endswith(".npy") or name.startswith(_TEMPORARY) for name in names)
    return not names or (ours and _content(folder) is not None)


def _put_in_place(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
    else:
        old = _temporary(target)
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    with suppress(OSError):  # the folder is in place: a file system that cannot sync it does not make this fail
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _temporary(target: Path) -> Path:
    return target.parent / f"{_TEMPORARY}{secrets.token_hex(8)}.tmp"
