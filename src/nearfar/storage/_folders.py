"""Folders of arrays that appear whole or not at all, and are checked before they are used.

A folder holds ``.npy`` files and a header, a JSON file written last: format, version, what the kind of folder wants to
say, and the size of every other file.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._version import __version__
from nearfar.errors import FileFormatError, InputError
from nearfar.storage._array_files import map_npy

_TEMPORARY = ".nearfar-"


@dataclass(frozen=True)
class FolderKind:
    """What is stored in a folder of this kind, name of its header, format and version; names of folders within it."""

    what: str
    header: str
    format: str
    version: int
    inner: tuple[str, ...] = ()

    def write_header(self, folder: Path, fields: Mapping[str, Any]) -> None:
        """Write the header, with the sizes of the other files: the last one to be written."""
        files = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
        about = {"format": self.format, "version": self.version, "nearfar": __version__}
        with (folder / self.header).open("x", encoding="utf-8") as file:
            json.dump({**about, **fields, "files": files}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    def read_header(self, folder: Path) -> Mapping[str, Any]:
        """Read the header, and check that every file that it names is there in its size.

        Raises
        ------
        FileFormatError
            If the folder is none of this format and version, or a file is missing or was cut short.
        """
        content = self._content(folder)
        if content is None:
            raise bad_folder(folder, f"a {self.what} stored by nearfar", f"one without a {self.header} that says so")
        if content.get("version") != self.version:
            got = f"version {content.get('version')!r}, written by nearfar {content.get('nearfar')}"
            hint = "Install the nearfar that wrote it."
            raise bad_folder(folder, f"of version {self.version} of the format", got, hint)
        try:
            sizes = {str(name): int(size) for name, size in dict(content["files"]).items()}
        except (KeyError, TypeError, ValueError) as error:
            raise self.bad_header(folder, error) from error
        for name, size in sizes.items():
            path = folder / Path(name).name
            found = path.stat().st_size if path.is_file() else -1
            if found != size:
                got = f"{name} of {found} bytes instead of {size}" if found >= 0 else f"no {name}"
                raise bad_folder(folder, "what was written", got, "Make it again.")
        return content

    def bad_header(self, folder: Path, error: Exception) -> FileFormatError:
        """Return the error for a header whose fields are not what they should be."""
        return bad_folder(folder, f"one with a readable {self.header}", f"{type(error).__name__}: {error}")

    @contextmanager
    def new(self, owner: str, name: str, path: Path) -> Iterator[Path]:
        """Yield a temporary folder that takes the place of ``path`` when the block ends without an error.

        Whatever goes wrong before, an interrupt or a full disk included, leaves what was at ``path`` as it was.

        Parameters
        ----------
        owner, name : str
            For the message of the error: who asks, and which argument the path is.
        path : Path
            Nothing, an empty folder, or a folder of this kind, which is replaced.

        Raises
        ------
        InputError
            If it is something else, or cannot be written to.
        """
        target = self._check_target(owner, name, path)
        temporary = _temporary(target)
        temporary.mkdir()
        try:
            yield temporary
            _put_in_place(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _content(self, folder: Path) -> Mapping[str, Any] | None:
        """Return what the header says, None if it is no header of this kind."""
        try:
            content = json.loads((folder / self.header).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) and content.get("format") == self.format else None

    def _check_target(self, owner: str, name: str, path: Path) -> Path:
        real = Path(os.path.realpath(path))
        if not real.parent.is_dir():
            raise InputError(owner, name, "in a folder that exists", str(path), "Create that folder first.")
        if not os.access(real.parent, os.W_OK | os.X_OK):
            raise InputError(owner, name, "in a folder that you may write to", str(path))
        if real.exists() and not (real.is_dir() and self._is_replaceable(real)):
            what = "a folder with something else in it" if real.is_dir() else "a file"
            hint = "Choose another name, or remove it first."
            raise InputError(owner, name, f"a new folder, or a {self.what} to replace", f"{str(path)!r} ({what})", hint)
        return real

    def _is_replaceable(self, folder: Path) -> bool:
        """Whether nothing but a stored one would be lost."""
        names = [entry.name for entry in folder.iterdir()]
        known = (self.header, *self.inner)
        ours = all(name in known or name.endswith(".npy") or name.startswith(_TEMPORARY) for name in names)
        return not names or (ours and self._content(folder) is not None)


def bad_folder(folder: Path, expected: str, got: str, hint: str = "") -> FileFormatError:
    """Return the error for a folder that is not what it should be, in the form of :mod:`nearfar.errors`."""
    return FileFormatError(f"{folder}: folder must be {expected}; got {got}.{hint and ' ' + hint}")


def mapped(folder: Path, name: str, dtype: type, size: int) -> NDArray[Any]:
    """Map an array of a folder.

    Raises
    ------
    FileFormatError
        If it is not of this type and size.
    """
    try:
        array = map_npy(folder / f"{name}.npy")
    except (ValueError, OSError, EOFError) as error:
        raise bad_folder(folder, f"one with a readable {name}.npy", str(error)) from error
    if array.dtype != dtype or array.shape != (size,):
        expected = f"one whose {name}.npy holds {size} {np.dtype(dtype).name}"
        raise bad_folder(folder, expected, f"{array.dtype}, shape {array.shape}")
    return array


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
