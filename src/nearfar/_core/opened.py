"""Files and folders that are opened once: what is checked, what is read and what is mapped are one and the same.

A name leads to another file as soon as somebody replaces it. Who opens a name twice may check one file and read
another; who opens several files of a folder by their paths may get some of one version and some of the next. So each
file is opened once, by its descriptor, and those of a folder through the descriptor of the folder.
"""

from __future__ import annotations

import os
import stat
import weakref
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nearfar._core.checks import bad_folder
from nearfar.errors import FileFormatError

Scalar = TypeVar("Scalar", bound=np.generic)

# Not on Windows, where what is open cannot be replaced.
_WITHIN = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, and no pipe that keeps one waiting
_BY_DESCRIPTOR = "/proc/self/fd"  # of Linux; what others have opens no file anew, and so not at its start


class OpenedFile:
    """A file that was opened once; what takes its name afterwards is another one.

    Parameters
    ----------
    path : Path
    within : int, optional
        Descriptor of the folder that it is in. Links are not followed then.

    Attributes
    ----------
    file : BufferedReader
    path : Path
        For messages.
    """

    def __init__(self, path: Path, within: int | None = None) -> None:
        def opener(name: str, flags: int) -> int:
            return os.open(name, flags if within is None else flags | _PLAIN, dir_fd=within)

        self.path = path
        self.file: BufferedReader = open(path if within is None else path.name, "rb", opener=opener)  # noqa: SIM115

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self.file.fileno()).st_size

    @property
    def name(self) -> str:
        """The name by which another library opens this very file; its path, where the system has no such names."""
        name = f"{_BY_DESCRIPTOR}/{self.file.fileno()}"
        return name if Path(name).exists() else str(self.path)

    def mapped(self, dtype: type[Scalar] | np.dtype[Scalar], start: int, shape: tuple[int, ...]) -> NDArray[Scalar]:
        """Map numbers of the file into memory, read-only; they outlive this object.

        Raises
        ------
        ValueError
            If the file ends before them: to touch what is not there would end the process.
        """
        end = start + int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        if min(shape, default=0) < 0 or not start <= end <= self.size:  # sizes of texts overflow in NumPy before 2.2
            raise ValueError(f"{np.dtype(dtype)} of shape {shape} in a file of {self.size} bytes")
        if start == end:  # nothing can be mapped
            return np.empty(shape, dtype)
        # A plain array: kernels would be compiled once more for the subclass.
        return np.asarray(np.memmap(self.file, dtype, "r", start, shape))

    def npy(self) -> NDArray[Any]:
        """Map the array of a ``.npy`` file.

        Raises
        ------
        ValueError
            If the file is cut short, is none, or holds something else than numbers.
        """
        self.file.seek(0)
        try:
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(self.file)]
            shape, fortran, dtype = read(self.file)
        except OSError:
            raise
        except Exception as error:  # a header is a Python literal: of a damaged one the parsers say all sorts of things
            raise ValueError(f"no .npy file: {error}") from error
        if dtype.hasobject or (fortran and len(shape) > 1):
            raise ValueError(f"no .npy file of numbers, row by row: {dtype}")
        return self.mapped(dtype, self.file.tell(), shape)

    def close(self) -> None:
        """Close it."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class OpenedFolder:
    """A folder that was opened once: its files are found in it also where another one took its name.

    Parameters
    ----------
    path : Path
        For messages, and where the system has no descriptors of folders.
    within : OpenedFolder, optional
        The folder that it is in. Links are not followed then.

    Raises
    ------
    OSError
        If there is none.
    """

    def __init__(self, path: Path, within: OpenedFolder | None = None) -> None:
        self.path, self.descriptor = path, None
        if _WITHIN:
            flags = os.O_RDONLY | os.O_DIRECTORY
            if within is None:
                self.descriptor = os.open(path, flags)
            else:
                self.descriptor = os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=within.descriptor)
            weakref.finalize(self, os.close, self.descriptor)
        self._stat = path.stat() if self.descriptor is None else os.fstat(self.descriptor)

    def is_current(self) -> bool:
        """Whether its path leads to it still."""
        try:
            return os.path.samestat(self.path.stat(), self._stat)
        except OSError:
            return False

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of files and of folders in it."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        return [name for name, inner in found if not inner], [name for name, inner in found if inner]

    def size(self, name: str) -> int:
        """Return the bytes of a plain file in it; -1 if there is none.

        Raises
        ------
        FileFormatError
            If the name leads out of the folder.
        """
        place = self._place(name)
        try:
            found = os.stat(place, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return -1
        if stat.S_ISLNK(found.st_mode):
            raise self.refused("one with files of its own", f"a link, {name}", "Put the file itself there.")
        return found.st_size if stat.S_ISREG(found.st_mode) else -1

    def file(self, name: str) -> OpenedFile:
        """Open a file in it; names that lead out of the folder are refused, as by :meth:`size`."""
        self._place(name)
        return OpenedFile(self.path / name, self.descriptor)

    def folder(self, name: str) -> OpenedFolder:
        """Open a folder in it."""
        return OpenedFolder(self.path / name, self)

    def refused(self, expected: str, got: str, hint: str = "") -> FileFormatError:
        """Return the error for a folder that is not what it should be."""
        return bad_folder(self.path, expected, got, hint)

    def _place(self, name: str) -> str | Path:
        if Path(name).name != name or name in ("", ".", "..") or "\\" in name:
            raise self.refused("one with files of its own", f"a file named {name!r}", "It was altered.")
        return name if self.descriptor is not None else self.path / name
