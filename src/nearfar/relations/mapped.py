"""Relations in files: made out of core, mapped into memory, fitted as any other.

The system reads the pages of a mapped file when they are needed and drops them when memory is short, so that the
entries of a relation may be many times what memory holds. Everything is computed by the code that computes in memory,
bit for bit the same.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from nearfar._core.arrays import pack_ids, unpack_ids
from nearfar._core.atomic import ArrayFile, FolderKind, OpenedFolder, check_unaltered, map_raw, map_within, whole
from nearfar._core.checks import bad_folder
from nearfar._core.ids import Ids
from nearfar._core.progress import ProgressLine
from nearfar._core.threads import even_bounds
from nearfar._core.types import Arrays, Indices, Integers, Longs, Singles
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.relations.kernels import CsrArrays, EdgeArrays, build_csr, by_part
from nearfar.relations.operators import PIECE, Edges, MemoryStore, Sparse, cuts_of_rows, no_edge, rows_of

# Folders that hold a stored relation: they appear whole or not at all, and are checked before they are used.
#
# ==================  ===============================================================================================
# file                holds
# ==================  ===============================================================================================
# ``relation.json``   format, version, shape, entries, symmetry, kinds of the ids, size and checksum of every other file
# ``indptr.npy``      int64, (n + 1,): row i has the entries ``indptr[i]:indptr[i + 1]``
# ``indices.npy``     int32, (entries,): their columns, sorted within a row
# ``data.npy``        float32, (entries,): their weights; not there if all are 1
# ``ids*.npy``        names of the rows, see :mod:`nearfar.embedding.native`; none if they are 0 .. n - 1
# ``column_ids*.npy`` names of the columns, if they are others
# ``transposed``      the same for the transpose, without ids; made when it is first needed, and bound to what it was
#                     made of
# ==================  ===============================================================================================

RELATION = FolderKind("relation", "relation.json", "nearfar.relation", 1, inner=("transposed",))


@dataclass(frozen=True)
class Header:
    """What ``relation.json`` says.

    ``ids`` and ``column_ids`` are kinds, None for a transpose. ``made_of`` is the digest of what a transpose was made
    of; None for a relation.
    """

    shape: tuple[int, int]
    n_entries: int
    weighted: bool
    symmetric: bool
    ids: str | None = None
    column_ids: str | None = None
    made_of: str | None = None
    checksums: Mapping[str, int] = field(default_factory=dict)

    def digest(self) -> str:
        """Return what tells this relation from others, as its checksums do."""
        return blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=16).hexdigest()


def check_entries(folder: Path, arrays: CsrArrays, header: Header) -> None:
    """Read through the entries once: compiled code goes where they point.

    Raises
    ------
    FileFormatError
        If rows do not follow one another, a column is none, or anything is not what was written.
    """
    indptr, indices, _ = arrays
    for start in range(0, len(indptr), PIECE):
        ends = indptr[start : start + PIECE + 1]
        if (ends[1:] < ends[:-1]).any():
            raise bad_folder(folder, "one whose rows follow one another", "others in indptr.npy", _HINT)
    for start in range(0, len(indices), PIECE):
        part = indices[start : start + PIECE]
        if part.min() < 0 or part.max() >= header.shape[1]:
            got = f"{part.min()} .. {part.max()} in indices.npy"
            raise bad_folder(folder, f"one whose columns are 0 .. {header.shape[1] - 1}", got, _HINT)
    for name, array in zip(("indptr", "indices", "data"), arrays, strict=True):
        if array is not None:
            check_unaltered(folder, name, array, header.checksums)


_TRANSPOSED = RELATION.inner[0]
_HINT = "It was altered. Make it again, or fetch it again."


# CSR files of more edges than memory holds.
#
# The entries are dealt out to parts, files of neighbouring rows, in the order in which they come; each part then fits
# into memory, becomes CSR as any edges do, and is appended to the final files. So every byte is written and read in
# sequence, a constant number of times, and the result is bit for bit what memory would have given. Memory: 16 bytes a
# row, the budget, and what the longest row takes if that is more.

BUDGET = 256 << 20
_BYTES_DEALING, _BYTES_SORTING = 128, 32  # working memory an edge, while it is dealt out and while its part is sorted

Pieces = Callable[[int], Iterator[EdgeArrays]]


class EdgeFiles(MemoryStore):
    """Codes and weights of edges, appended to files in a folder, whose names begin with the number of a part."""

    def __init__(self, folder: Path, part: int | None = None) -> None:
        of = "" if part is None else f"{part}."
        self._paths = [folder / f"{of}{name}.edges" for name in ("rows", "columns", "weights")]

    def append(self, rows: Indices, columns: Indices, weights: Singles | None) -> None:
        for path, values in zip(self._paths, (rows, columns, weights), strict=True):
            if values is not None:
                with path.open("ab") as file:
                    file.write(np.ascontiguousarray(values).data.cast("B"))

    def arrays(self) -> EdgeArrays:
        rows, columns, weights = self._paths
        weights_map = map_raw(weights, np.float32) if weights.exists() else None
        return map_raw(rows, np.int32), map_raw(columns, np.int32), weights_map

    def remove(self) -> None:
        """Remove the files; arrays that were handed out must not be used any more."""
        for path in self._paths:
            path.unlink(missing_ok=True)


def write_csr(folder: Path, pieces: Pieces, n_rows: int, *, owner: str, verbose: int = 0) -> tuple[int, bool]:
    """Write ``indptr.npy``, ``indices.npy`` and, unless all entries are 1, ``data.npy``; duplicates add up.

    Parameters
    ----------
    folder : Path
        Where the files go, and meanwhile the parts.
    pieces : callable
        Called twice with a size; yields (rows, columns, weights or None), contiguous, at most so many at a time.
    n_rows : int
    owner : str
        For the message of the error.
    verbose : int

    Returns
    -------
    n_entries : int
    weighted : bool
        Whether there is ``data.npy``.

    Raises
    ------
    DataError
        As :func:`.kernels.build_csr`.
    OSError
        If the disk is full or fails.
    """
    size = max(1, BUDGET // _BYTES_DEALING)
    indptr = np.zeros(n_rows + 1, np.int64)
    for rows, _, _ in pieces(size):
        np.add.at(indptr[1:], rows, 1)
    np.cumsum(indptr, out=indptr)
    bounds = np.array(cuts_of_rows(indptr, max(1, BUDGET // _BYTES_SORTING)), np.int32)
    sizes = np.diff(indptr[bounds]).tolist()
    parts = [EdgeFiles(folder, part) for part in range(len(sizes))]
    with ProgressLine("sorting", 2 * int(indptr[-1]), verbose, "entry") as progress, CsrFiles(folder) as files:
        for rows, columns, weights in pieces(size):
            for part, some in zip(parts, by_part(rows, bounds), strict=True):
                if some.size:
                    part.append(rows[some], columns[some], None if weights is None else weights[some])
            progress.update(rows.size)
        for part, n_entries, (start, stop) in zip(parts, sizes, pairwise(bounds.tolist()), strict=True):
            if not n_entries:  # empty rows
                indptr[start + 1 : stop + 1] = files.indices.size
                continue
            rows, columns, weights = part.arrays()
            ends, indices, data = build_csr(owner, rows - np.int32(start), columns, weights, stop - start)
            indptr[start + 1 : stop + 1] = files.indices.size + ends[1:]
            files.append(indices, data)
            del rows, columns, weights, ends, indices, data  # before the next one comes
            part.remove()
            progress.update(n_entries)
        files.indptr.append(indptr)
        return files.indices.size, files.data is not None


class CsrFiles(ExitStack):
    """The three files of a CSR matrix as they grow; without ``data.npy`` as long as all entries are 1.

    Attributes
    ----------
    indptr, indices, data : ArrayFile
        ``data`` is None until there were other entries than ones, or weights that say so.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.indptr = self.enter_context(ArrayFile(folder / "indptr.npy", np.int64))
        self.indices = self.enter_context(ArrayFile(folder / "indices.npy", np.int32))
        self.data: ArrayFile | None = None

    def append(self, indices: Indices, data: Singles | None) -> None:
        """Append the entries of the next rows; data None: ones."""
        if data is not None and self.data is None:
            self.data = self.enter_context(ArrayFile(self._folder / "data.npy", np.float32))
            for start, stop in pairwise(even_bounds(self.indices.size, PIECE).tolist()):
                self.data.append(np.ones(stop - start, np.float32))
        if self.data is not None:
            self.data.append(np.ones(indices.size, np.float32) if data is None else data)
        self.indices.append(indices)


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
        self._opened, self.header, arrays, self.id_arrays = RELATION.opened(self.folder, _relation_in)
        super().__init__(*arrays, self.header.shape[1], symmetric=self.header.symmetric)
        # Arrays become attributes when they are first asked for.
        self._unread: CsrArrays = (self.__dict__.pop("indptr"), self.__dict__.pop("indices"), self.__dict__.pop("data"))

    def __getattr__(self, name: str) -> Any:
        if name not in ("indptr", "indices", "data") or "_unread" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        check_entries(self.folder, self._unread, self.header)
        self.indptr, self.indices, self.data = self._unread
        return self.__dict__[name]

    def verify(self) -> None:
        """Compare everything with its checksum: entries, weights and ids.

        Raises
        ------
        FileFormatError
            If anything was altered.
        """
        check_entries(self.folder, self._unread, self.header)
        for ids in stored_ids(self):
            len(ids.to_numpy() if ids.is_integer else ids.to_list())

    @cached_property
    def nnz(self) -> int:
        """Stored entries."""
        return int(self._unread[1].size)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: none of the matrix."""
        return 0 if self.row_scale is None else self.row_scale.nbytes

    def transpose_nbytes(self) -> int:
        """Return 0: it is in files, too."""
        return 0

    def without(self, isolates: Longs) -> None:  # noqa: ARG002
        """Return None: all entries would be renumbered, in memory."""
        return

    @cached_property
    def _transposed(self) -> tuple[Integers, Indices, Singles | None]:
        shape, made_of, parent = (self.shape[1], self.shape[0]), self.header.digest(), self._opened
        found = _transpose_in(parent)
        if found is None:
            self._check_current()
            if not os.access(self.folder, os.W_OK):
                elsewhere = mkdtemp(prefix="nearfar-")
                weakref.finalize(self, shutil.rmtree, elsewhere, ignore_errors=True)
                parent = OpenedFolder(Path(elsewhere))
                what = f"the transpose of {self.folder}, which may not be written to, is made in"
                hint = "Set TMPDIR to a folder with room, or copy the relation."
                warn_user(f"Relation: {what} {parent.path / _TRANSPOSED} and not kept. {hint}")
            target, stored = parent.path / _TRANSPOSED, (self.indptr, self.indices, self.data)

            def pieces(size: int) -> Iterator[EdgeArrays]:
                indptr, indices, data = stored  # in the order of the matrix's rows
                for start, stop in pairwise(even_bounds(indices.size, size).tolist()):
                    yield indices[start:stop], rows_of(indptr, start, stop), None if data is None else data[start:stop]

            try:
                with RELATION.new("Relation", "the transpose's folder", target, replace=False) as new:
                    counts = write_csr(new, pieces, shape[0], owner="Relation")
                    RELATION.write_header(new, asdict(Header(shape, *counts, symmetric=False, made_of=made_of)))
                    self._check_current()
            except FileNotFoundError:  # the folder went, and the new one with it
                self._check_current()
                raise
            found = _transpose_in(parent)
        if found is None or (found[0].shape, found[0].n_entries, found[0].made_of) != (shape, self.nnz, made_of):
            expected = f"a transpose of shape {shape} and {self.nnz} entries, made of the relation that it is in"
            hint = "Remove it: it is made again."
            raise bad_folder(parent.path / _TRANSPOSED, expected, "another" if found else "none", hint)
        header, arrays = found
        check_entries(parent.path / _TRANSPOSED, arrays, header)
        return arrays

    def _check_current(self) -> None:
        if not self._opened.is_current():
            raise bad_folder(self.folder, "the relation that was opened", "another one in its place", "Open it again.")

    def __reduce__(self) -> tuple[object, ...]:
        return _opened_again, (self.folder, self.row_scale, self.header.digest())  # another process maps the same files


def _relation_in(folder: OpenedFolder, content: Mapping[str, Any]) -> tuple[OpenedFolder, Header, CsrArrays, Arrays]:
    """Return what ``relation.json`` says, in its types, and the arrays, whose numbers are not looked at yet.

    The last ones are those of the ids by their names.

    Raises
    ------
    FileFormatError
        If it says something else than the files.
    """
    with RELATION.reading(folder.path):
        n_rows, n_columns = (whole(size) for size in content["shape"])
        n_entries, weighted, symmetric = whole(content["n_entries"]), content["weighted"], content["symmetric"]
        if type(weighted) is not bool or type(symmetric) is not bool:
            raise TypeError(f"weighted {weighted!r}, symmetric {symmetric!r}")
        if max(n_rows, n_columns) > np.iinfo(np.int32).max:
            raise ValueError(f"shape {n_rows, n_columns}")
        if symmetric and n_rows != n_columns:
            raise ValueError(f"symmetric with shape {n_rows, n_columns}")
        others = content["ids"], content["column_ids"], content.get("made_of"), content["checksums"]
        header = Header((n_rows, n_columns), n_entries, weighted, symmetric, *others)
    indptr = map_within(folder, "indptr", np.int64, n_rows + 1)
    indices = map_within(folder, "indices", np.int32, n_entries)
    data = map_within(folder, "data", np.float32, n_entries) if weighted else None
    if indptr[0] != 0 or indptr[-1] != n_entries:
        raise bad_folder(folder.path, f"one whose rows hold its {n_entries} entries", f"{indptr[0]} to {indptr[-1]}")
    names = [name.removesuffix(".npy") for name in content["files"] if name.startswith(("ids", "column_ids"))]
    return folder, header, (indptr, indices, data), {name: map_within(folder, name) for name in names}


def _transpose_in(folder: OpenedFolder) -> tuple[Header, CsrArrays] | None:
    """Return the transpose that the folder of a relation has, if it has one."""
    try:
        if folder.folder(_TRANSPOSED).size(RELATION.header) < 0:
            return None
    except FileNotFoundError:
        return None
    return RELATION.opened(folder.path / _TRANSPOSED, _relation_in, folder)[1:3]


def _opened_again(folder: Path, row_scale: Singles | None, digest: str) -> Sparse:
    found = MappedSparse(folder)
    if digest != found.header.digest():
        raise bad_folder(folder, "the relation that was sent", "another one in its place", "Send it again.")
    return found.scaled(row_scale)


class StoredIds(Ids):
    """Ids that are read from their file when they are first looked at.

    Parameters
    ----------
    operator : MappedSparse
        That of the relation, which has them mapped.
    name : str
        ``ids`` or ``column_ids``.
    kind : str
        See :mod:`nearfar.embedding.native`.
    n : int
        How many there are.
    """

    __slots__ = ("_kept", "_unread")

    def __init__(self, operator: MappedSparse, name: str, kind: str, n: int) -> None:
        self._n, self._lookup = n, None
        self._kept: Longs | list[Hashable] | None = None
        arrays = {stem: array for stem, array in operator.id_arrays.items() if stem.partition(".")[0] == name}
        unread = operator.folder, name, kind, arrays, operator.header.checksums
        self._unread: tuple[Path, str, str, Arrays, Mapping[str, int]] | None = unread

    @property
    def _store(self) -> Longs | list[Hashable] | None:  # type: ignore[override]
        if (unread := self._unread) is not None:
            folder, name, kind, arrays, checksums = unread
            own = {stem: np.array(array) for stem, array in arrays.items()}
            for stem, array in own.items():
                check_unaltered(folder, stem, array, checksums)
            ids = unpack_ids(folder, name, kind, own, self._n)
            self._kept, self._lookup, self._unread = ids._store, ids._lookup, None
        return self._kept

    def __reduce__(self) -> tuple[object, ...]:
        return Ids, (self.to_numpy() if self.is_integer else self.to_list(),)


def create(
    folder: Path, read: Callable[[EdgeFiles], Edges], *, mirror: bool, self_loops: bool, verbose: int
) -> tuple[MappedSparse, Ids, Ids]:
    """Make a stored relation from edges, out of core; return its operator and ids.

    Parameters
    ----------
    folder : Path
        Where; see :meth:`nearfar._core.atomic.FolderKind.new`.
    read : callable
        Reads the edges into the files that it is given.
    mirror, self_loops : bool
        Whether every edge is stored in both directions, whether those from an object to itself are kept.
    verbose : int
    """
    owner = "Relation.from_edges"
    with RELATION.new(owner, "storage", folder) as new:
        files = EdgeFiles(new)
        edges = read(files)
        row_ids, column_ids = edges.row_ids, edges.column_ids
        kinds, mirror = write_ids(owner, new, row_ids, column_ids), mirror and row_ids is column_ids
        pieces = partial(edges.pieces, mirror=mirror, self_loops=self_loops)
        counts = write_csr(new, pieces, len(row_ids), owner=owner, verbose=verbose)
        if not counts[0]:
            raise no_edge(owner)
        del edges, pieces
        files.remove()
        RELATION.write_header(new, asdict(Header((len(row_ids), len(column_ids)), *counts, mirror, *kinds)))
    return MappedSparse(folder), row_ids, column_ids


def save(folder: Path, operator: object, row_ids: Ids, column_ids: Ids) -> None:
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
            files.indptr.append(operator.indptr)
        header = Header(operator.shape, operator.nnz, operator.data is not None, operator.symmetric, *kinds)
        RELATION.write_header(new, asdict(header))


def stored_ids(operator: MappedSparse) -> tuple[Ids, Ids]:
    """Return the ids of a stored relation, not read yet; the same object twice if rows and columns have the same."""
    folder, header = operator.folder, operator.header
    if header.ids is None or header.column_ids is None:
        raise bad_folder(folder, "a relation with ids", "a transpose")
    row_ids = StoredIds(operator, "ids", header.ids, header.shape[0])
    if header.column_ids == "same":
        return row_ids, row_ids
    return row_ids, StoredIds(operator, "column_ids", header.column_ids, header.shape[1])


def write_ids(owner: str, folder: Path, row_ids: Ids, column_ids: Ids) -> tuple[str, str]:
    """Write the ids; return their kinds."""
    kind, arrays = pack_ids(owner, "ids", row_ids)
    other_kind, others = ("same", {}) if column_ids is row_ids else pack_ids(owner, "column_ids", column_ids)
    for name, array in (arrays | others).items():
        with ArrayFile(folder / f"{name}.npy", array.dtype) as file:
            file.append(array)
    return kind, other_kind
