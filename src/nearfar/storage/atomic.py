"""Files that appear whole or not at all.

The new content goes to a temporary file in the same folder, is forced to the disk, and takes the place of the old
file in one step. Whatever goes wrong before that step, a full disk or an interrupt included, leaves the old file as it
was and removes the temporary one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nearfar.errors import InputError

__all__ = ["atomic_write", "check_target"]


def check_target(owner: str, path: Path) -> Path:
    """Return the real path of a file that could be written, symbolic links followed.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written to, or the path is there but not a plain file.
    """
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise InputError(owner, "path", "in a folder that exists", repr(str(path)), "Create the folder first.")
    if real.exists() and not real.is_file():
        what = "a folder" if real.is_dir() else "a device or pipe"
        raise InputError(owner, "path", "a plain file", f"{str(path)!r} ({what})")
    if not os.access(real.parent, os.W_OK | os.X_OK):
        raise InputError(owner, "path", "in a folder that you may write to", repr(str(path)))
    return real


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, owner: str = "atomic_write") -> Iterator[BinaryIO]:
    """Open a file for writing bytes; it takes the place of ``path`` when the block ends without an error.

    Parameters
    ----------
    path : path-like
        The file to write. A symbolic link is followed; the permissions of an existing file are kept.
    owner : str
        For the message of the error.

    Yields
    ------
    binary file

    Raises
    ------
    InputError
        If the path cannot be written to, see :func:`check_target`.
    OSError
        If the disk is full or fails; the old file is intact.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from nearfar.storage import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder, "notes.txt")
    ...     with atomic_write(target) as file:
    ...         _ = file.write(b"whole")
    ...     target.read_bytes()
    b'whole'
    """
    target = check_target(owner, Path(path))
    temporary = target.parent / f".nearfar-{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # The file is already in place: a file system that cannot sync a folder does not make the write fail.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
