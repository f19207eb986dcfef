"""Files and folders that appear whole or not at all and are opened once, and arrays in files.

New content goes to a temporary file or folder beside the old one, is forced to the disk, and takes its place in one
step. Whatever goes wrong before that step, a full disk or an interrupt included, leaves the old one as it was and
removes the temporary one. What a killed process left is removed by the next one that writes there: who writes holds a
lock on it.

A name leads to another file as soon as somebody replaces it. Who opens a name twice may check one file and read
another; who opens several files of a folder by their paths may get some of one version and some of the next. So each
file is opened once, by its descriptor, and those of a folder through the descriptor of the folder: what is checked,
what is read and what is mapped are one and the same.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Self, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from nearfar._core.checks import bad_folder, check_path
from nearfar._version import __version__
from nearfar.errors import FileFormatError, InputError, NearfarError

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

__all__ = ["atomic_write", "check_suffix", "check_target"]

_TEMPORARY = ".nearfar-"
_LEFT_OVER = 3600  # seconds: a younger one may not be locked yet, or be that of an earlier version, which had no locks
_PIECE = 1 << 20  # numbers that are read together

# Not on Windows, where what is open cannot be replaced.
_WITHIN = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, and no pipe that keeps one waiting
_BY_DESCRIPTOR = "/proc/self/fd"  # of Linux; what others have opens no file anew, and so not at its start

Scalar = TypeVar("Scalar", bound=np.generic)
Made = TypeVar("Made")


def check_suffix(owner: str, path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """Return the path of a file of one of these kinds that could be written.

    Raises
    ------
    InputError
        If its suffix is another, or as for :func:`check_target`.
    """
    target = check_path(owner, "path", path)
    if target.suffix.lower() not in suffixes:
        raise InputError(owner, "path", f"a file name ending in {', '.join(suffixes)}", repr(target.name))
    check_target(owner, target)
    return target


def check_target(owner: str, path: Path) -> Path:
    """Return the real path of a file that could be written, symbolic links followed.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written to, or the path is there but not a plain file.
    """
    real = _in_writable_folder(owner, "path", path)
    if real.exists() and not real.is_file():
        what = "a folder" if real.is_dir() else "a device or pipe"
        raise InputError(owner, "path", "a plain file", f"{str(path)!r} ({what})")
    return real


def _in_writable_folder(owner: str, name: str, path: Path) -> Path:
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise InputError(owner, name, "in a folder that exists", repr(str(path)), "Create the folder first.")
    if not os.access(real.parent, os.W_OK | os.X_OK):
        raise InputError(owner, name, "in a folder that you may write to", repr(str(path)))
    return real


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, owner: str = "atomic_write", check: Callable[[Path], object] | None = None
) -> Iterator[BinaryIO]:
    """Open a file for writing bytes; it takes the place of ``path`` when the block ends without an error.

    Parameters
    ----------
    path : path-like
        The file to write. A symbolic link is followed; the permissions of an existing file are kept.
    owner : str
        For the message of the error.
    check : callable, optional
        ``check(path)`` looks at the new file before the old one goes, and raises for one that could not be read.

    Yields
    ------
    binary file

    Raises
    ------
    InputError
        If the path cannot be written to, see :func:`check_target`.
    OSError
        If the disk is full or fails, or ``check`` refuses the new file; the old file is intact.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from nearfar._core.atomic import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder, "notes.txt")
    ...     with atomic_write(target) as file:
    ...         _ = file.write(b"whole")
    ...     target.read_bytes()
    b'whole'
    """
    target = check_target(owner, Path(path))
    _remove_left_overs(target.parent)
    temporary = _temporary(target)
    try:
        with temporary.open("xb") as file, _locked(temporary):
            yield file
            file.flush()
            if check is None:
                _force_to_disk(file)
            else:
                _force_and_check(file, check, temporary, target)
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o7777)
            if os.name == "posix":  # elsewhere an open file cannot be renamed
                temporary.replace(target)
        if os.name != "posix":
            temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _force_and_check(file: BinaryIO, check: Callable[[Path], object], temporary: Path, target: Path) -> None:
    """Read what was written, which is in memory still, while the disk takes its time: before the old file is gone."""
    with ThreadPoolExecutor(1) as beside:
        try:
            forced = beside.submit(_force_to_disk, file)
        except RuntimeError:  # Python starts no threads when it ends
            _force_to_disk(file)
            forced = None
        try:
            check(temporary)
        except Exception as error:  # of damage readers say all sorts of things
            told = str(error).replace(str(temporary), "the new file")
            said = f"what was written could not be read ({told}); what was there before stays"
            raise OSError(errno.EIO, said, str(target)) from error
        if forced is not None:
            forced.result()


def _temporary(target: Path) -> Path:
    return target.parent / f"{_TEMPORARY}{secrets.token_hex(8)}.tmp"


@contextmanager
def _locked(temporary: Path) -> Iterator[None]:
    """Hold a lock on a temporary file or folder, where the system has locks."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _remove_left_overs(folder: Path) -> None:
    """Remove the temporary files and folders of processes that were killed."""
    if fcntl is None:
        return
    for path in folder.glob(f"{_TEMPORARY}*.tmp"):
        with suppress(OSError):  # somebody else's, or somebody else removes it
            if time.time() - path.stat().st_mtime < _LEFT_OVER:
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            finally:
                os.close(descriptor)


def _force_to_disk(file: IO[bytes] | IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # What is in it is already in place: a file system that cannot sync a folder does not make the write fail.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_NPY_KEY = re.compile(r"""\s*['"](?P<key>\w+)['"]\s*:\s*(?P<value>'[^']*'|"[^"]*"|\([\d\s,]*\)|True|False)\s*,?""")


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array of numbers or text in the ``.npy`` format: its shape, whether by columns, its dtype.

    NumPy reads it by the parser of Python, which may fail where two threads parse at once (Python 3.11 counts their
    depth together).

    Raises
    ------
    ValueError
        If it is none, or that of records or objects.
    """
    start = file.read(8)
    width = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(start)
    if width is None:
        raise ValueError(f"no .npy file: it begins with {start!r}")
    size = int.from_bytes(file.read(width), "little")
    text = file.read(min(size, 1 << 16)).decode("latin1").strip()
    fields, at = {}, 1
    while found := _NPY_KEY.match(text, at):
        fields[found["key"]], at = found["value"], found.end()
    if text[:1] != "{" or text[at:].strip() != "}" or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"no .npy file of numbers or text: its header is {text[:80]!r}")
    try:
        shape = tuple(int(n) for n in fields["shape"].strip("() ,").split(",") if n.strip())
        dtype = np.dtype(fields["descr"][1:-1])
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"no .npy file: its header is {text[:80]!r}") from error
    if dtype.names is not None:
        raise ValueError(f"no .npy file of numbers or text: its header is {text[:80]!r}")
    return shape, fields["fortran_order"] == "True", dtype


def read_npy(file: IO[bytes]) -> NDArray[Any]:
    """Read an array of numbers or text from a stream in the ``.npy`` format.

    Raises
    ------
    ValueError
        If it is cut short, is none, or holds something else.
    """
    shape, by_columns, dtype = npy_header(file)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are pickles")
    size = math.prod(shape) * dtype.itemsize
    data = file.read(size + 1)  # not all that a packed file may hold
    if len(data) != size:
        raise ValueError(f"{dtype} of shape {shape} in {'more' if len(data) > size else len(data)} bytes")
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if by_columns else "C")


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
        shape, fortran, dtype = npy_header(self.file)
        if dtype.hasobject or (fortran and len(shape) > 1):
            raise ValueError(f"no .npy file of numbers, row by row: {dtype}")
        return self.mapped(dtype, self.file.tell(), shape)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.file.close()


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
            raise bad_folder(self.path, "one with files of its own", f"a link, {name}", "Put the file itself there.")
        return found.st_size if stat.S_ISREG(found.st_mode) else -1

    def file(self, name: str) -> OpenedFile:
        """Open a file in it; names that lead out of the folder are refused, as by :meth:`size`."""
        self._place(name)
        return OpenedFile(self.path / name, self.descriptor)

    def folder(self, name: str) -> OpenedFolder:
        """Open a folder in it."""
        return OpenedFolder(self.path / name, self)

    def _place(self, name: str) -> str | Path:
        if Path(name).name != name or name in ("", ".", "..") or "\\" in name:
            raise bad_folder(self.path, "one with files of its own", f"a file named {name!r}", "It was altered.")
        return name if self.descriptor is not None else self.path / name


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder with ``.npy`` files and a header, a JSON file that is written last.

    The header is the manifest: it holds format, version, what the kind of folder adds, the size of every other file,
    the checksum of its array (of a file without one: of its bytes), and its own. They are CRC-32, which memory reads
    through faster than a disk is read.

    Parameters
    ----------
    what : str
        What is stored, for messages.
    header : str
        Name of the header.
    format, version
        What the header says.
    inner : tuple of str
        Names of other files and folders within it.
    """

    what: str
    header: str
    format: str
    version: int
    inner: tuple[str, ...] = ()

    def write_header(
        self, folder: Path, fields: Mapping[str, object], checksums: Mapping[str, int] | None = None
    ) -> None:
        """Write the header, with the sizes and checksums of the other files: the last one to be written."""
        others = [folder / name for name in self.inner if (folder / name).is_file()]
        arrays = sorted(folder.glob("*.npy"))
        content = {"format": self.format, "version": self.version, "nearfar": __version__, **fields}
        content["files"] = {path.name: path.stat().st_size for path in [*arrays, *others]}
        if checksums is None:
            checksums = {path.name: checksum(map_npy(path)) for path in arrays}
            checksums |= {path.name: checksum(map_raw(path, np.uint8)) for path in others}
        content["checksums"] = dict(checksums)
        with (folder / self.header).open("x", encoding="utf-8") as file:
            json.dump({**content, "checksum": _checksum_of(content)}, file, indent=1)
            _force_to_disk(file)

    def opened(
        self, path: Path, read: Callable[[OpenedFolder, Mapping[str, Any]], Made], within: OpenedFolder | None = None
    ) -> Made:
        """Return what ``read`` makes of a folder and its header, both opened once; anew if another took its place.

        Raises
        ------
        FileFormatError
            As :meth:`read_header` and ``read`` do, or if there is no folder.
        """
        while True:
            try:
                folder = OpenedFolder(path, within)
            except OSError as error:
                raise bad_folder(path, f"a {self.what} stored by nearfar", f"none ({error.strerror})") from error
            try:
                return read(folder, self.read_header(folder))
            except FileFormatError:
                if folder.is_current():
                    raise

    def read_header(self, folder: OpenedFolder) -> Mapping[str, Any]:
        """Read the header, and check that every file that it names is there in its size.

        Raises
        ------
        FileFormatError
            If the folder is none of this format and version, if a file is missing or was cut short, or if a name leads
            out of the folder.
        """
        content = self._content(folder)
        if content is None:
            got = f"one without a {self.header} that says so"
            raise bad_folder(folder.path, f"a {self.what} stored by nearfar", got)
        if content.get("checksum") != _checksum_of(content):
            raise bad_folder(folder.path, "what was written", f"an altered {self.header}", "Make it again.")
        if content.get("version") != self.version:
            got = f"version {content.get('version')!r}, written by nearfar {content.get('nearfar')}"
            hint = "Install the nearfar that wrote it."
            raise bad_folder(folder.path, f"of version {self.version} of the format", got, hint)
        with self.reading(folder.path):
            sizes = {str(name): whole(size) for name, size in dict(content["files"]).items()}
            if not isinstance(content["checksums"], dict):
                raise TypeError("checksums that are no JSON object")
            for name, size in sizes.items():
                found = folder.size(name)
                if found != size:
                    got = f"{name} of {found} bytes instead of {size}" if found >= 0 else f"no {name}"
                    raise bad_folder(folder.path, "what was written", got, "Make it again.")
        return content

    @contextmanager
    def reading(self, folder: Path) -> Iterator[None]:
        """Tell of fields that are not what they should be as of a header that cannot be read.

        Raises
        ------
        FileFormatError
            In place of whatever a wrong field led to.
        """
        try:
            yield
        except NearfarError:
            raise
        except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"
            raise bad_folder(folder, f"one with a readable {self.header}", got) from error

    @contextmanager
    def new(self, owner: str, name: str, path: Path, *, replace: bool = True) -> Iterator[Path]:
        """Yield a temporary folder that takes the place of ``path`` when the block ends without an error.

        Whatever goes wrong before, an interrupt or a full disk included, leaves what was at ``path`` as it was.

        Parameters
        ----------
        owner, name : str
            For the message of the error: who asks, and which argument the path is.
        path : Path
            Nothing, an empty folder, or a folder of this kind, which is replaced.
        replace : bool
            False: one that another process put there meanwhile is as good, and stays.

        Raises
        ------
        InputError
            If it is something else, or cannot be written to.
        """
        target = self.check(owner, name, path)
        _remove_left_overs(target.parent)
        temporary = _temporary(target)
        temporary.mkdir()
        try:
            with _locked(temporary):
                yield temporary
                self.opened(temporary, lambda *_: None)  # what could not be read takes no place
                if replace or not (target / self.header).exists():
                    self.check(owner, name, path)  # again: somebody may have put files there
                    _put_in_place(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _content(self, folder: OpenedFolder) -> Mapping[str, Any] | None:
        """Return what the header says, None if it is no header of this kind."""
        try:
            with folder.file(self.header) as file:
                content = json.loads(file.file.read().decode())
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) and content.get("format") == self.format else None

    def check(self, owner: str, name: str, path: Path) -> Path:
        """Return the real path of a folder that :meth:`new` could make.

        Raises
        ------
        InputError
            If it could not.
        """
        real = _in_writable_folder(owner, name, path)
        while real.exists():
            what, folder = "a file", None
            with suppress(NotADirectoryError, FileNotFoundError):  # gone meanwhile
                folder, what = OpenedFolder(real), "a folder with something else in it"
                if self._is_replaceable(folder):
                    return real
            if folder is None or folder.is_current():  # else another writer put a new one in its place
                break
        if real.exists():
            hint = "Choose another name, or remove it first."
            raise InputError(owner, name, f"a new folder, or a {self.what} to replace", f"{str(path)!r} ({what})", hint)
        return real

    def _is_replaceable(self, folder: OpenedFolder) -> bool:
        """Whether nothing but a stored one would be lost: no file that it does not name."""
        files, folders = folder.names()
        content = self._content(folder)
        if content is None:
            return not files and not folders
        named = content.get("files")
        known = {self.header, *self.inner, *(named if isinstance(named, dict) else ())}
        others = [name for name in (*files, *folders) if not name.startswith(_TEMPORARY)]
        inner = [folder.folder(name) for name in folders if name in known]
        return all(name in known for name in others) and all(map(self._is_replaceable, inner))


def whole(value: object) -> int:
    """Return what a header says if it is a number of things.

    Raises
    ------
    TypeError
        If it is not.
    """
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise TypeError(f"{value!r} in place of a count")
    return value


def checksum(array: NDArray[np.generic]) -> int:
    """Return the CRC-32 of the numbers of an array, as they lie in a file."""
    found, flat = 0, array.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        found = zlib.crc32(np.ascontiguousarray(flat[start : start + _PIECE]).view(np.uint8).data, found)
    return found


def check_unaltered(folder: Path, name: str, array: NDArray[np.generic], checksums: Mapping[str, int]) -> None:
    """Compare an array with its checksum; files of this process alone have no checksums.

    Raises
    ------
    FileFormatError
        If it is another one, or there is none for this array alone.
    """
    if checksums and checksum(array) != checksums.get(f"{name}.npy"):
        raise bad_folder(folder, "what was written", f"an altered {name}.npy", "Make it again, or fetch it again.")


def _checksum_of(content: Mapping[str, object]) -> int:
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def map_within(
    folder: OpenedFolder, name: str, dtype: type[np.generic] | None = None, size: int | None = None
) -> NDArray[Any]:
    """Map an array of a folder, whatever its type and shape unless they are given.

    Raises
    ------
    FileFormatError
        If it is not there, is none, or is not of this type and size.
    """
    try:
        with folder.file(f"{name}.npy") as file:
            array = file.npy()
    except (ValueError, OSError, EOFError) as error:
        raise bad_folder(folder.path, f"one with a readable {name}.npy", str(error)) from error
    if dtype is not None and (array.dtype != dtype or array.shape != (size,)):
        expected = f"one whose {name}.npy holds {size} {np.dtype(dtype).name}"
        raise bad_folder(folder.path, expected, f"{array.dtype}, shape {array.shape}")
    return array


def _put_in_place(temporary: Path, target: Path) -> None:
    """Give a folder its name; what had it before has the temporary one then, where the system can exchange names."""
    if not target.exists():
        temporary.rename(target)
    elif not _exchange(temporary, target):
        old = _temporary(target)
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step, so that there is always something of each name; False where that cannot be."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # Linux alone has it
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(first), here, os.fsencode(second), ctypes.c_uint(exchange)) == 0)


class ArrayFile:
    """A one-dimensional array that grows in a ``.npy`` file; whole when the block ends without an error.

    Parameters
    ----------
    path : Path
        A file that is not there yet.
    dtype : dtype
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._dtype, self.size = np.dtype(dtype), 0
        self._file = path.open("xb")
        self._write_header()

    def append(self, array: NDArray[np.generic]) -> None:
        """Append a piece."""
        self._file.write(np.ascontiguousarray(array, self._dtype).data.cast("B"))
        self.size += array.size

    def _write_header(self) -> None:
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.size,)}
        npy.write_array_header_1_0(self._file, header)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, error: type[BaseException] | None, *_more: object) -> None:
        if error is not None:
            with suppress(OSError):  # what is left in the buffer may not fit either
                self._file.close()
            return
        with self._file:
            self._file.seek(0)
            self._write_header()  # NumPy keeps room in it for a longer shape: it is as long as the first
            _force_to_disk(self._file)


def folder_with_room(owner: str, name: str, value: object, nbytes: int) -> Path:
    """Return a folder for arrays of so many bytes, made if it is not there.

    Raises
    ------
    InputError
        About the argument ``name``: no path, no folder that can be made or written to, or too little of its disk free.
    """
    folder = check_path(owner, name, value)
    expected, got = "a folder that you may write to, or that can be made", repr(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(owner, name, expected, f"{got} ({error.strerror})") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(owner, name, expected, f"{got} (read-only)")
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        expected = f"a folder on a disk with {nbytes / 1e9:.3g} GB free"
        raise InputError(owner, name, expected, f"{got} on one with {free / 1e9:.3g} GB", "Choose another disk.")
    return folder


@contextmanager
def new_array(
    owner: str, path: Path, shape: tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]
) -> Iterator[NDArray[Scalar]]:
    """Yield a new array in a file, to be written in any order; the file is at ``path`` when the block ends.

    It stays mapped after that. An error in the block leaves what was at ``path``.

    Raises
    ------
    OSError
        If the disk is full or fails.
    """
    with atomic_write(path, owner=owner) as file:
        header = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(file, header)
        file.flush()
        start = file.tell()
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here; where a mapped page is written, the end
            os.posix_fallocate(file.fileno(), start, math.prod(shape) * np.dtype(dtype).itemsize)
        array = np.memmap(file.name, dtype, "r+", start, shape)
        yield np.asarray(array)
        array.flush()


class TemporaryArray:
    """A one-dimensional array in a file without a name, filled from its start on; the file goes with the array.

    Parameters
    ----------
    folder : Path
    most : int
        Numbers that it may have to hold; the disk is asked for those that are written alone.
    dtype : dtype
    """

    def __init__(self, folder: Path, most: int, dtype: DTypeLike) -> None:  # noqa: ARG002 - as for numpy.empty
        self._dtype, self._size = np.dtype(dtype), 0
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this array; what maps it keeps it
        weakref.finalize(self, self._file.close)

    def __setitem__(self, where: slice, values: NDArray[np.generic]) -> None:
        if where.start != self._size:
            raise IndexError(f"numbers are written in order: {self._size} are there, the next got {where.start}")
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._size += len(values)

    def resize(self, size: int, *, refcheck: bool = False) -> None:  # noqa: ARG002 - as for an ndarray
        """Leave out the numbers from ``size`` on."""
        self._size = min(size, self._size)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        self._file.flush()
        return np.asarray(np.memmap(self._file, self._dtype, "r+", shape=(self._size,)))


def map_npy(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file into memory, read-only.

    Raises
    ------
    ValueError, OSError
        If the file is cut short, is none, or holds something else than numbers.
    """
    with OpenedFile(path) as file:
        return file.npy()


def map_raw(path: Path, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]:
    """Map a file of numbers without any header into memory, read-only; a file that is not there has none."""
    if not path.exists():
        return np.empty(0, dtype)
    with OpenedFile(path) as file:
        return file.mapped(dtype, 0, (file.size // np.dtype(dtype).itemsize,))
