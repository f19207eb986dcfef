"""Rows that are read, or computed, when they are asked for: the part of the array interface that this library uses.

Rows in parts are a matrix in several ``.npy`` files of a folder. Each part is written by whoever holds it, whole or not
at all; the header of the folder, written last, names all of them with their sizes and checksums. A part is compared
with its checksum when it is first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from nearfar._core.atomic import (
    FolderKind,
    OpenedFolder,
    atomic_write,
    check_unaltered,
    checksum,
    map_npy,
    map_within,
    whole,
)
from nearfar._core.checks import bad_folder
from nearfar._core.types import Flags, Floats, Integers, RowNumbers
from nearfar._core.vector import read_only
from nearfar.errors import InputError

ROWS = 32768
"""Rows that are formed at once."""
Wanted = int | np.integer | slice | Integers | Flags | Sequence[int]


class LazyRows:
    """A matrix whose rows are read, or computed, when they are asked for.

    A subclass gives ``shape``, ``dtype``, ``nbytes`` and ``rows[...]``, and ``subset`` where it has some rows without
    reading them. Rows that are asked for are a vector for an integer, a matrix for a slice or for row numbers.
    """

    dtype: np.dtype[np.floating] = np.dtype(np.float32)
    ndim = 2
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Wanted) -> Floats:
        raise NotImplementedError

    def subset(self, rows: RowNumbers) -> LazyRows | Floats:
        """Return some rows, read-only."""
        return read_only(self[rows])

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of rows that are formed at once, one block after the other."""
        for start in range(0, len(self), ROWS):
            yield start, min(start + ROWS, len(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        if copy is False:
            raise ValueError("rows that are read when they are asked for cannot become an array without a copy")
        whole = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for start, stop in self.blocks():
            whole[start:stop] = self[start:stop]
        return whole

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers as they are kept."""
        raise NotImplementedError

    def error(self, X: Matrix) -> float:
        """Return how far the rows are from others: the norm of the difference over the norm of the others."""
        differ = whole = 0.0
        for start, stop in self.blocks():
            exact = np.asarray(X[start:stop], np.float64)
            differ += float(np.square(self[start:stop] - exact).sum())
            whole += float(np.square(exact).sum())
        return float(np.sqrt(differ / whole)) if whole else 0.0

    def tobytes(self) -> bytes:
        """Return the bytes of the whole matrix, as of an array."""
        return np.asarray(self).tobytes()


Matrix = Floats | LazyRows
"""Rows of numbers in memory, or that are read when they are asked for."""


# -- rows in parts -----------------------------------------------------------------------------------------------------


class RowsInParts(LazyRows):
    """A matrix whose rows are in the files of a folder.

    Parameters
    ----------
    folder : Path
    name : str
        Files are called NAME-00000.npy, NAME-00001.npy, ...
    bounds : sequence of int
        Part q holds the rows ``bounds[q]:bounds[q + 1]``.
    n_columns : int
    dtype : dtype
    checksums : mapping
        Of the files, by name.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        bounds: Sequence[int],
        n_columns: int,
        dtype: str | np.dtype[np.floating],
        checksums: Mapping[str, int],
    ) -> None:
        self.folder, self.name, self.bounds, self.dtype = Path(folder), name, list(bounds), np.dtype(dtype)
        self.shape = (self.bounds[-1], n_columns)
        self._checksums, self._mapped = checksums, dict[int, Floats]()

    def part(self, q: int) -> Floats:
        """Return the rows of a part, read-only.

        Raises
        ------
        FileFormatError
            If its file is not there, or is not what was written.
        """
        if q not in self._mapped:
            name = part_name(self.name, q)
            try:
                found = map_npy(self.folder / f"{name}.npy")
            except (ValueError, OSError) as error:
                raise bad_folder(self.folder, f"one with a readable {name}.npy", str(error)) from error
            shape = (self.bounds[q + 1] - self.bounds[q], self.shape[1])
            if found.shape != shape or found.dtype != self.dtype:
                got = f"{found.dtype} of shape {found.shape}"
                raise bad_folder(self.folder, f"one whose {name}.npy holds {self.dtype} of shape {shape}", got)
            check_unaltered(self.folder, name, found, self._checksums)
            self._mapped[q] = found
        return self._mapped[q]

    def pieces(self, wanted: list[tuple[int, slice | RowNumbers]]) -> list[Floats]:
        """Return rows of some parts: pairs of the number of a part, and a slice or row numbers within it."""
        return [self.part(q)[rows] for q, rows in wanted]

    def write(self, folder: Path, name: str) -> dict[str, int]:
        """Write every part to another folder; return the checksums of the files."""
        names = [f"{part_name(name, q)}.npy" for q in range(len(self.bounds) - 1)]
        return {file: write_part(folder / file, self.part(q)) for q, file in enumerate(names)}

    # -- as an array -----------------------------------------------------------------------------------------------

    def __getitem__(self, rows: Wanted) -> Floats:
        """Return rows: a vector for an integer, a matrix for a slice, for row numbers or for a mask."""
        n = len(self)
        if isinstance(rows, (int, np.integer)):
            if not -n <= rows < n:
                raise IndexError(f"row {rows} of {n}")
            return self._taken(np.array([rows % n]))[0]
        if not isinstance(rows, slice):
            asked = np.asarray(rows)
            return self._taken(np.flatnonzero(asked) if asked.dtype == bool else asked)
        start, stop, step = rows.indices(n)
        if step != 1:
            return self._taken(np.arange(n)[rows])
        cuts = [(q, slice(max(start - a, 0), min(stop, b) - a)) for q, (a, b) in enumerate(pairwise(self.bounds))]
        found = self.pieces([(q, cut) for q, cut in cuts if cut.start < cut.stop])
        return found[0] if len(found) == 1 else np.concatenate([np.empty((0, self.shape[1]), self.dtype), *found])

    def _taken(self, asked: NDArray[np.generic]) -> Floats:
        rows = asked.astype(np.int64)
        rows = np.where(rows < 0, rows + len(self), rows)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)}")
        out = np.empty((rows.size, self.shape[1]), self.dtype)
        of = np.searchsorted(self.bounds, rows, side="right") - 1
        order = np.argsort(of, kind="stable")
        places = np.split(order, np.flatnonzero(np.diff(of[order])) + 1) if rows.size else []
        wanted = [(int(of[at[0]]), rows[at] - self.bounds[of[at[0]]]) for at in places]
        for at, piece in zip(places, self.pieces(wanted), strict=True):
            out[at] = piece
        return out

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the parts."""
        return pairwise(self.bounds)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"<{self.shape[0]} x {self.shape[1]} {self.dtype} in {len(self.bounds) - 1} parts>"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_mapped": {}}  # another process maps the files itself


def part_name(name: str, q: int) -> str:
    """Return the name of the file of a part, without its ending."""
    return f"{name}-{q:05d}"


def write_part(path: Path, array: NDArray[np.generic]) -> int:
    """Write a ``.npy`` file that appears whole or not at all; return the checksum of its numbers."""
    array = np.ascontiguousarray(array)
    found = checksum(array)

    def check(written: Path) -> None:
        if checksum(map_npy(written)) != found:
            raise bad_folder(path.parent, "what was written", f"an altered {path.name}")

    with atomic_write(path, owner="a part of the vectors", check=check) as file:
        npy.write_array(file, array, allow_pickle=False)
    return found


def write_folder(
    kind: FolderKind, folder: Path, arrays: Mapping[str, NDArray[np.generic] | LazyRows], fields: Mapping[str, object]
) -> None:
    """Write arrays, some of them in parts, and last the header, to a folder that ``kind.new`` gave."""
    checksums, described = dict[str, int](), dict[str, object]()
    for name, array in arrays.items():
        if isinstance(array, RowsInParts):
            checksums |= array.write(folder, name)
            described[name] = {"bounds": list(array.bounds), "columns": array.shape[1], "dtype": array.dtype.name}
        else:
            checksums[f"{name}.npy"] = write_part(folder / f"{name}.npy", np.asarray(array))
            described[name] = None
    kind.write_header(folder, {**fields, "arrays": described}, checksums)


def read_folder(kind: FolderKind, folder: Path) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the arrays of such a folder, those in parts as :class:`RowsInParts`, and what else the header says.

    Raises
    ------
    FileFormatError
        If it is none, or a file is missing or was altered; of parts, when they are read.
    """
    return kind.opened(folder, lambda opened, content: (_arrays_in(kind, opened, content), content))


def _arrays_in(kind: FolderKind, folder: OpenedFolder, content: Mapping[str, Any]) -> dict[str, Any]:
    arrays = dict[str, Any]()
    with kind.reading(folder.path):
        checksums = {str(name): whole(value) for name, value in dict(content["checksums"]).items()}
        for name, facts in dict(content["arrays"]).items():
            if facts is None:
                array = np.array(map_within(folder, name))
                check_unaltered(folder.path, name, array, checksums)
                arrays[name] = array
                continue
            bounds = [whole(bound) for bound in facts["bounds"]]
            if bounds[0] != 0 or (np.diff(bounds) < 0).any() or facts["dtype"] not in ("float32", "float64"):
                raise ValueError(f"parts of {name}")
            if Path(name).name != name:  # its files are opened later, by their paths
                raise ValueError(f"an array named {name!r}")
            arrays[name] = RowsInParts(folder.path, name, bounds, whole(facts["columns"]), facts["dtype"], checksums)
    return arrays


def check_seen(owner: str, name: str, path: Path, seen: Mapping[str, bool]) -> None:
    """Refuse a folder that is not there on some workers of a cluster.

    Raises
    ------
    InputError
        Which worker does not see it.
    """
    blind = [worker for worker, sees in seen.items() if not sees]
    if blind:
        hint = "Parts are written by the workers: take a folder of a file system that all of them share."
        got = f"{str(path)!r}, not seen by {blind[0]}"
        raise InputError(owner, name, "in a folder that all workers see", got, hint)
