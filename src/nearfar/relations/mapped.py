"""Relations in files: made out of core, mapped into memory, fitted as any other.

The system reads the pages of a mapped file when they are needed and drops them when memory is short, so that the
entries of a relation may be many times what memory holds. Everything is computed by the code that computes in memory,
bit for bit the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import available_processors
from nearfar._ids import Ids
from nearfar.errors import InputError
from nearfar.relations._build import check_some_edge
from nearfar.relations._folder import RELATION, Header, map_arrays, read_header, write_header
from nearfar.relations._out_of_core import (
    CsrFiles,
    EdgeFiles,
    pieces_of_edges,
    pieces_of_transpose,
    write_csr,
)
from nearfar.relations.edges import Edges
from nearfar.relations.operators import PIECE, LinearOperator, Sparse
from nearfar.storage._array_files import ArrayFile, map_npy
from nearfar.storage._folders import bad_folder
from nearfar.storage._packed_ids import pack_ids, unpack_ids


class MappedSparse(Sparse):
    """A sparse matrix whose entries stay in the files of a folder; its transpose is made there when first needed.

    Parameters
    ----------
    folder : Path
        A stored relation.

    Raises
    ------
    FileFormatError
        If it is none, of another version, or a file is missing or was cut short.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        header = read_header(self.folder)
        self._identity = _identity(self.folder)
        super().__init__(*map_arrays(self.folder, header), header.shape[1], symmetric=header.symmetric)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: none of the matrix."""
        return 0 if self.row_scale is None else self.row_scale.nbytes

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:  # noqa: ARG002
        """Return None: all entries would be renumbered, in memory."""
        return None

    @cached_property
    def _transposed(self) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float32] | None]:
        if _identity(self.folder) != self._identity:
            raise bad_folder(self.folder, "the relation that was opened", "another one in its place", "Open it again.")
        folder = self.folder / "transposed"
        shape = (self.shape[1], self.shape[0])
        if not (folder / RELATION.header).exists():
            with RELATION.new("Relation", "the transpose's folder", folder) as new:
                pieces = pieces_of_transpose(self.indptr, self.indices, self.data)
                counts = write_csr(new, pieces, shape[0], mirror=False, owner="Relation", n_jobs=available_processors())
                write_header(new, Header(shape, *counts, symmetric=False))
        header = read_header(folder)
        if (header.shape, header.n_entries) != (shape, self.nnz):
            raise bad_folder(folder, f"a transpose of shape {shape} and {self.nnz} entries", f"{header}")
        return map_arrays(folder, header)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self.folder, self.row_scale)  # another process maps the same files


def _identity(folder: Path) -> tuple[int, int]:
    """Return what no other file has while the first one is mapped, even if it was replaced."""
    try:
        found = (folder / "indices.npy").stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _opened_again(folder: Path, row_scale: NDArray[np.float32] | None) -> Sparse:
    return MappedSparse(folder).scaled(row_scale)


class StoredIds(Ids):
    """Ids that are read from their file when they are first looked at.

    Parameters
    ----------
    folder : Path
    name : str
        ``ids`` or ``column_ids``.
    kind : str
        See :mod:`nearfar.storage._packed_ids`.
    n : int
        How many there are.
    """

    __slots__ = ("_kept", "_read")

    def __init__(self, folder: Path, name: str, kind: str, n: int) -> None:
        self._n, self._lookup = n, None
        self._kept: NDArray[np.int64] | list[Any] | None = None
        self._read: Callable[[], Ids] | None = lambda: _read_ids(folder, name, kind, n)

    @property
    def _store(self) -> NDArray[np.int64] | list[Any] | None:  # type: ignore[override]
        read = self._read
        if read is not None:
            ids = read()
            self._kept, self._lookup, self._read = ids._store, ids._lookup, None
        return self._kept

    def __reduce__(self) -> tuple[Any, ...]:
        return Ids, (self.to_numpy() if self.is_integer else self.to_list(),)


def create(
    folder: Path,
    read: Callable[[EdgeFiles], Edges],
    *,
    mirror: bool,
    self_loops: bool,
    n_jobs: int,
    verbose: int,
) -> tuple[MappedSparse, Ids, Ids]:
    """Make a stored relation from edges, out of core; return its operator and ids.

    Parameters
    ----------
    folder : Path
        Where; see :meth:`nearfar.storage._folders.FolderKind.new`.
    read : callable
        Reads the edges into the files that it is given.
    mirror, self_loops : bool
        Whether every edge is stored in both directions, whether those from an object to itself are kept.
    n_jobs, verbose : int
    """
    owner = "Relation.from_edges"
    with RELATION.new(owner, "storage", folder) as new:
        files = EdgeFiles(new)
        edges = read(files)
        row_ids, column_ids = edges.row_ids, edges.column_ids
        kinds = write_ids(owner, new, row_ids, column_ids)
        pieces = pieces_of_edges(edges, self_loops=self_loops)
        counts = write_csr(new, pieces, len(row_ids), mirror=mirror, owner=owner, n_jobs=n_jobs, verbose=verbose)
        check_some_edge(owner, counts[0])
        del edges, pieces
        files.remove()
        write_header(new, Header((len(row_ids), len(column_ids)), *counts, mirror, *kinds))
    return MappedSparse(folder), row_ids, column_ids


def save(folder: Path, operator: LinearOperator, row_ids: Ids, column_ids: Ids) -> None:
    """Store a relation of a single factor.

    Raises
    ------
    InputError
        If it has several, or scaled rows; or if the folder cannot be one.
    """
    owner = "Relation.save"
    if not isinstance(operator, Sparse) or operator.row_scale is not None:
        got = "one with normalised rows" if isinstance(operator, Sparse) else f"a {type(operator).__name__}"
        hint = "Store the relation that it was made of; to make it again takes no time."
        raise InputError(owner, "the relation", "a single matrix as it came", got, hint)
    with RELATION.new(owner, "folder", folder) as new:
        kinds = write_ids(owner, new, row_ids, column_ids)
        with CsrFiles(new) as files:
            for start in range(0, operator.nnz, PIECE):
                piece = slice(start, start + PIECE)
                files.append(operator.indices[piece], None if operator.data is None else operator.data[piece])
            files.write_indptr(operator.indptr)
        weighted = operator.data is not None
        write_header(new, Header(operator.shape, operator.nnz, weighted, operator.symmetric, *kinds))


def stored_ids(operator: MappedSparse) -> tuple[Ids, Ids]:
    """Return the ids of a stored relation, not read yet; the same object twice if rows and columns have the same."""
    folder, header = operator.folder, read_header(operator.folder)
    if header.ids is None or header.column_ids is None:
        raise bad_folder(folder, "a relation with ids", "a transpose")
    row_ids = StoredIds(folder, "ids", header.ids, header.shape[0])
    if header.column_ids == "same":
        return row_ids, row_ids
    return row_ids, StoredIds(folder, "column_ids", header.column_ids, header.shape[1])


def write_ids(owner: str, folder: Path, row_ids: Ids, column_ids: Ids) -> tuple[str, str]:
    """Write the ids; return their kinds."""
    kind, arrays = pack_ids(owner, "ids", row_ids)
    other_kind = "same"
    if column_ids is not row_ids:
        other_kind, others = pack_ids(owner, "column_ids", column_ids)
        arrays |= others
    for name, array in arrays.items():
        with ArrayFile(folder / f"{name}.npy", array.dtype) as file:
            file.append(array)
    return kind, other_kind


def _read_ids(folder: Path, name: str, kind: str, n: int) -> Ids:
    paths = [folder / f"{name}{ending}.npy" for ending in ("", ".data", ".ends")]
    try:
        arrays = {path.stem: np.array(map_npy(path)) for path in paths if path.exists()}
    except (ValueError, OSError, EOFError) as error:
        raise bad_folder(folder, f"one with readable {name}", str(error)) from error
    return unpack_ids(folder, name, kind, arrays, n)
