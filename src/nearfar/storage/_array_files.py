"""One-dimensional arrays in files: appended to, and mapped into memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray


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

    def append(self, array: NDArray[Any]) -> None:
        """Append a piece."""
        self._file.write(np.ascontiguousarray(array, self._dtype).data.cast("B"))
        self.size += array.size

    def _write_header(self) -> None:
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.size,)}
        npy.write_array_header_1_0(self._file, header)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(OSError):  # what is left in the buffer may not fit either
                self._file.close()
            return
        with self._file:
            self._file.seek(0)
            self._write_header()  # NumPy keeps room in it for a longer shape: it is as long as the first
            self._file.flush()
            os.fsync(self._file.fileno())


def map_npy(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file into memory, read-only.

    Raises
    ------
    ValueError, OSError
        If the file is cut short, is none, or holds something else than numbers.
    """
    # A plain array: kernels would be compiled once more for the subclass.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def map_raw(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file of numbers without any header into memory, read-only; a file that is empty or not there has none."""
    if not path.exists() or path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, mode="r"))
