"""CSR files of more edges than memory holds.

The entries are dealt out to parts, files of neighbouring rows, in the order in which they come; each part then fits
into memory, becomes CSR as any edges do, and is appended to the final files. So every byte is written and read in
sequence, a constant number of times, and the result is bit for bit what memory would have given. Memory: 16 bytes a
row, the budget, and what the longest row takes if that is more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds
from nearfar._progress import ProgressLine
from nearfar.relations._build import check_sums
from nearfar.relations._csr import build_csr, count_entries
from nearfar.relations.edges import Edges
from nearfar.relations.operators import PIECE, rows_of
from nearfar.storage._array_files import ArrayFile, map_raw

BUDGET = 256 << 20
_BYTES_DEALING, _BYTES_SORTING = 128, 32  # working memory an edge, while it is dealt out and while its part is sorted

Piece = tuple[NDArray[np.int32], NDArray[np.int32], "NDArray[np.float32] | None"]
Pieces = Callable[[int], Iterator[Piece]]


class EdgeFiles:
    """Codes and weights of edges, appended to files in a folder; an ``EdgeStore``."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"{name}.edges" for name in ("rows", "columns", "weights")]

    def append(self, rows: NDArray[np.int32], columns: NDArray[np.int32], weights: NDArray[np.float32] | None) -> None:
        for path, values in zip(self._paths, (rows, columns, weights), strict=True):
            if values is not None:
                _append(path, values)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]:
        rows, columns, weights = self._paths
        weights_map = map_raw(weights, np.float32) if weights.exists() else None
        return map_raw(rows, np.int32), map_raw(columns, np.int32), weights_map

    def remove(self) -> None:
        """Remove the files; arrays that were handed out must not be used any more."""
        for path in self._paths:
            path.unlink(missing_ok=True)


def pieces_of_edges(edges: Edges, *, self_loops: bool) -> Pieces:
    """Return a function that cuts edges into pieces of at most so many."""
    drop = not self_loops and edges.row_ids is edges.column_ids

    def pieces(size: int) -> Iterator[Piece]:
        for start, stop in _cuts(edges.rows.size, size):
            rows, columns = np.array(edges.rows[start:stop]), np.array(edges.columns[start:stop])
            weights = None if edges.weights is None else np.array(edges.weights[start:stop])
            if drop:
                keep = rows != columns
                rows, columns = rows[keep], columns[keep]
                weights = None if weights is None else weights[keep]
            yield rows, columns, weights

    return pieces


def pieces_of_transpose(indptr: NDArray[Any], indices: NDArray[np.int32], data: NDArray[np.float32] | None) -> Pieces:
    """Return a function that cuts the entries of the transpose, in the order of the matrix's rows."""

    def pieces(size: int) -> Iterator[Piece]:
        for start, stop in _cuts(indices.size, size):
            weights = None if data is None else np.array(data[start:stop])
            yield np.array(indices[start:stop]), rows_of(indptr, start, stop), weights

    return pieces


def write_csr(
    folder: Path,
    pieces: Pieces,
    n_rows: int,
    *,
    mirror: bool,
    owner: str,
    n_jobs: int,
    verbose: int = 0,
    budget: int | None = None,
) -> tuple[int, bool]:
    """Write ``indptr.npy``, ``indices.npy`` and, unless all entries are 1, ``data.npy``; duplicates add up.

    Parameters
    ----------
    folder : Path
        Where the files go, and meanwhile the parts.
    pieces : callable
        Called twice with a size; yields (rows, columns, weights or None), contiguous, at most so many at a time.
    n_rows : int
    mirror : bool
        Store every edge in both directions, a self-loop once.
    owner : str
        For the message of the error.
    n_jobs, verbose : int
    budget : int, optional
        Bytes of memory to work in, about; ``BUDGET`` by default.

    Returns
    -------
    n_entries : int
    weighted : bool
        Whether there is ``data.npy``.

    Raises
    ------
    DataError
        If duplicates add up to more than float32 holds.
    OSError
        If the disk is full or fails.
    """
    budget = BUDGET if budget is None else budget
    size = max(1, budget // _BYTES_DEALING)
    indptr = np.zeros(n_rows + 1, np.int64)
    for rows, columns, _ in pieces(size):
        count_entries(rows, columns, mirror, indptr)
    np.cumsum(indptr, out=indptr)
    bounds = _part_bounds(indptr, max(1, budget // _BYTES_SORTING))
    sizes = np.diff(indptr[bounds]).tolist()
    paths = [folder / f"{part}.part" for part in range(len(sizes))]
    record = _record(weighted=False)
    with ProgressLine("sorting", 2 * int(indptr[-1]), verbose, "entry") as progress, CsrFiles(folder) as files:
        for rows, columns, weights in pieces(size):
            record = _record(weights is not None)
            progress.update(_deal_out(rows, columns, weights, mirror, bounds, paths))
        for path, n_entries, (start, stop) in zip(paths, sizes, pairwise(bounds.tolist()), strict=True):
            part = _sorted_part(path, record, start, stop, n_jobs)
            check_sums(owner, part[2])
            indptr[start + 1 : stop + 1] = files.n_entries + part[0][1:]
            files.append(*part[1:])
            del part  # before the next one comes
            progress.update(n_entries)
        files.write_indptr(indptr)
        return files.n_entries, files.weighted


class CsrFiles:
    """The three files of a CSR matrix as they grow; without ``data.npy`` as long as all entries are 1."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open = folder, ExitStack()
        self._indices = self._open.enter_context(ArrayFile(folder / "indices.npy", np.int32))
        self._data: ArrayFile | None = None

    @property
    def n_entries(self) -> int:
        """Entries so far."""
        return self._indices.size

    @property
    def weighted(self) -> bool:
        """Whether there were other entries than ones, or weights that say so."""
        return self._data is not None

    def append(self, indices: NDArray[np.int32], data: NDArray[np.float32] | None) -> None:
        """Append the entries of the next rows; data None: ones."""
        if data is not None and self._data is None:
            self._data = self._open.enter_context(ArrayFile(self._folder / "data.npy", np.float32))
            for start, stop in _cuts(self.n_entries, PIECE):
                self._data.append(np.ones(stop - start, np.float32))
        if self._data is not None:
            self._data.append(np.ones(indices.size, np.float32) if data is None else data)
        self._indices.append(indices)

    def write_indptr(self, indptr: NDArray[Any]) -> None:
        """Write where each row starts, and the end."""
        with ArrayFile(self._folder / "indptr.npy", np.int64) as file:
            file.append(indptr)

    def __enter__(self) -> CsrFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, value, trace)


def _part_bounds(indptr: NDArray[np.int64], limit: int) -> NDArray[np.int32]:
    """Cut the rows so that each part has at most ``limit`` entries, or one row, and at most about as many rows."""
    n_rows = len(indptr) - 1
    bounds = [0]
    while bounds[-1] < n_rows:
        start = bounds[-1]
        stop = int(np.searchsorted(indptr, indptr[start] + limit, side="right")) - 1
        bounds.append(min(max(stop, start + 1), n_rows, start + limit))
    return np.array(bounds, np.int32)


def _deal_out(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    weights: NDArray[np.float32] | None,
    mirror: bool,
    bounds: NDArray[np.int32],
    paths: list[Path],
) -> int:
    """Append each entry to the file of its part, in the order of the edges; return how many there are."""
    entries = np.empty((rows.size, 1 + mirror), _record(weights is not None))
    ends = [(rows, columns), (columns, rows)][: 1 + mirror]
    for k, (first, second) in enumerate(ends):
        entries["row"][:, k], entries["column"][:, k] = first, second
        if weights is not None:
            entries["weight"][:, k] = weights
    flat = entries.reshape(-1)
    if mirror:
        twice = np.zeros(entries.shape, np.bool_)
        twice[:, 1] = rows == columns
        flat = flat[~twice.reshape(-1)]
    part = np.searchsorted(bounds, flat["row"], side="right") - 1
    order = np.argsort(part.astype(np.uint16) if len(paths) < 1 << 16 else part, kind="stable")  # the first: linear
    ends_of_parts = np.cumsum(np.bincount(part, minlength=len(paths)))
    flat = flat[order]
    for path, start, stop in zip(paths, [0, *ends_of_parts.tolist()], ends_of_parts.tolist(), strict=False):
        if stop > start:
            _append(path, flat[start:stop])
    return int(flat.size)


def _sorted_part(
    path: Path, record: np.dtype[Any], start: int, stop: int, n_jobs: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float32] | None]:
    """Return the CSR arrays of the rows start..stop, and remove the part's file."""
    if not path.exists():  # empty rows
        return np.zeros(stop - start + 1, np.int64), np.empty(0, np.int32), None
    entries = np.fromfile(path, record)
    path.unlink()
    rows, columns = np.ascontiguousarray(entries["row"]), np.ascontiguousarray(entries["column"])
    weights = np.ascontiguousarray(entries["weight"]) if "weight" in (record.names or ()) else None
    del entries
    rows -= start
    return build_csr(rows, columns, weights, stop - start, mirror=False, n_jobs=n_jobs)


def _record(weighted: bool) -> np.dtype[Any]:
    fields: list[tuple[str, Any]] = [("row", np.int32), ("column", np.int32)]
    return np.dtype([*fields, ("weight", np.float32)] if weighted else fields)


def _cuts(n: int, size: int) -> Iterable[tuple[int, int]]:
    return pairwise(even_bounds(n, size).tolist())


def _append(path: Path, array: NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(np.ascontiguousarray(array).data.cast("B"))
