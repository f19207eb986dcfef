"""The CRC-32 of a whole file within it, for formats that leave room for it but have no checksum of all they hold.

A seal is the checksum, of what stands before it and of what follows, and a mark. It stands where the readers of the
format do not look: behind the end of HDF5, before the footer of Parquet. Whoever writes such a file anew leaves it out.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nearfar._core.atomic import checksum
from nearfar._core.checks import bad_file
from nearfar._core.opened import OpenedFile

_MARK = b"nearfar crc 1\n\0\0"
_LENGTH = 4 + len(_MARK)


def seal(file: BinaryIO, n_behind: int = 0) -> None:
    """Put a seal into a file that was written, before so many bytes at its end."""
    file.flush()
    with OpenedFile(Path(file.name)) as written:
        start = written.size - n_behind
        found = checksum(written.mapped(np.uint8, 0, (start,)))
        behind = written.mapped(np.uint8, start, (n_behind,)).tobytes()
    file.seek(start, os.SEEK_SET)
    file.write(zlib.crc32(behind, found).to_bytes(4, "little") + _MARK + behind)
    file.flush()


def check_seal(file: OpenedFile, n_behind: int = 0) -> None:
    """Compare a file with its seal, if there is one.

    Raises
    ------
    FileFormatError
        If it is not what was written.
    """
    start = file.size - n_behind - _LENGTH
    if start < 0:
        return
    stored = file.mapped(np.uint8, start, (_LENGTH,)).tobytes()
    if not stored.endswith(_MARK):
        return
    behind = file.mapped(np.uint8, start + _LENGTH, (n_behind,)).data
    if zlib.crc32(behind, checksum(file.mapped(np.uint8, 0, (start,)))) != int.from_bytes(stored[:4], "little"):
        raise bad_file(file.path, "what was written", "one that was altered", "Fetch it again, or make it again.")
