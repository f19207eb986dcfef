"""Rows of others' AnnData: what is asked for is read from the file by h5py, without the package anndata.

The layout is that of AnnData 0.7 and later (its "on-disk format"): ``obs`` is a group of columns, a matrix is an array,
or a group of the arrays of a sparse one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from nearfar._core.checks import bad_file, check_path, require
from nearfar._core.opened import OpenedFile
from nearfar._core.threads import even_bounds
from nearfar.embedding.files.h5ad import check_lengths, check_links
from nearfar.errors import NearfarError

if TYPE_CHECKING:
    import h5py

_PIECES = 16  # of a sample, spread over the file

Ranges = Sequence[tuple[int, int]]


class AnnotatedFile:
    """An open file of AnnData.

    Parameters
    ----------
    opened : OpenedFile
    file : h5py.File

    Attributes
    ----------
    obsm : mapping of str to group or dataset
        Matrices, by their names.
    X : group or dataset, or None
    n : int
        Number of rows.
    """

    def __init__(self, opened: OpenedFile, file: h5py.File) -> None:
        obs = file["obs"]
        if not hasattr(obs, "keys") or "_index" not in obs.attrs:
            raise bad_file(opened.path, "one of AnnData 0.7 or later", "one of another layout of obs")
        self._opened, self._obs, self._names = opened, obs, obs[obs.attrs["_index"]]
        self.obsm: Mapping[str, Any] = file.get("obsm", {})
        self.X: Any = file.get("X")
        names = self._names["values"] if hasattr(self._names, "keys") else self._names  # of a nullable array
        self.n = int(names.shape[0])

    def names(self, ranges: Ranges) -> list[str]:
        """Return the names of some rows."""
        return [str(name) for name in self._column(self._names, ranges)]

    def columns(self, ranges: Ranges) -> dict[str, list[object]]:
        """Return what ``obs`` says of some rows."""
        order = self._obs.attrs.get("column-order", [])
        return {str(name): self._column(self._obs[name], ranges) for name in order}

    def size(self, which: str) -> int:
        """Return the bytes of a matrix."""
        item = self._matrix(which)
        parts = [item[name] for name in ("data", "indices")] if hasattr(item, "keys") else [item]
        return sum(part.size * part.dtype.itemsize for part in parts)

    def sampled(self, n_rows: int) -> Ranges:
        """Return ranges of about so many rows, spread over all."""
        if n_rows >= self.n:
            return [(0, self.n)]
        pieces = min(_PIECES, n_rows)
        starts = even_bounds(self.n, -(-self.n // pieces))[:-1].tolist()
        return [(start, min(start + n_rows // pieces, self.n)) for start in starts]

    def rows(self, which: str, ranges: Ranges) -> Any:
        """Return some rows of a matrix: an array, or a sparse one."""
        item = self._matrix(which)
        if not hasattr(item, "keys"):
            return _pieces(item, ranges)
        kind, (n, n_columns) = item.attrs.get("encoding-type", ""), item.attrs["shape"].tolist()
        if kind == "csc_matrix":
            arrays = tuple(item[name][:] for name in ("data", "indices", "indptr"))
            whole = csr_array(csc_array(arrays, (n, n_columns)))
            return vstack([whole[a:b] for a, b in ranges], format="csr")
        indptr = item["indptr"][:]
        parts = []
        for a, b in ranges:
            at = slice(int(indptr[a]), int(indptr[b]))
            arrays = item["data"][at], item["indices"][at], indptr[a : b + 1] - indptr[a]
            parts.append(csr_array(arrays, (b - a, n_columns)))
        return vstack(parts, format="csr")

    def _matrix(self, which: str) -> Any:
        item = self.X if which == "X" else self.obsm[which]
        if hasattr(item, "keys") and item.attrs.get("encoding-type") not in ("csr_matrix", "csc_matrix"):
            raise bad_file(self._opened.path, f"one whose {which} is a matrix", "a frame")
        return item

    def _column(self, item: Any, ranges: Ranges) -> list[object]:
        """Return some entries of a column: numbers, truths, texts; None where there is none."""
        if hasattr(item, "keys"):
            if "categories" in item:
                return _named(_pieces(item["codes"], ranges), self._column(item["categories"], [(0, 2**62)]))
            pairs = zip(self._column(item["values"], ranges), _pieces(item["mask"], ranges).tolist(), strict=True)
            return [None if missing else value for value, missing in pairs]
        if "categories" in item.attrs:  # of AnnData 0.7
            categories = self._column(item.file[item.attrs["categories"]], [(0, 2**62)])
            return _named(_pieces(item, ranges), categories)
        if item.dtype.kind in "OS":
            check_lengths(self._opened, item)
            item = item.asstr()
        values: list[object] = _pieces(item, ranges).tolist()
        return [None if value != value else value for value in values]


def _pieces(item: Any, ranges: Ranges) -> Any:
    return np.concatenate([item[a:b] for a, b in ranges])


def _named(codes: Any, categories: Sequence[object]) -> list[object]:
    return [None if code < 0 else categories[code] for code in codes.tolist()]


@contextmanager
def open_annotated(owner: str, path: Path) -> Generator[AnnotatedFile]:
    """Open a file of AnnData.

    Raises
    ------
    FileFormatError
        If it is no such file, or data of another file are linked in it.
    """
    h5py = require(owner, "h5py", "anndata")
    check_path(owner, "FILE", path, exists=True)
    try:
        with OpenedFile(path) as opened, h5py.File(opened.file, "r") as file:
            check_links(path, file, file)
            yield AnnotatedFile(opened, file)
    except NearfarError:
        raise
    except (OSError, KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:  # as h5py tells damage
        raise bad_file(path, "one of AnnData", " ".join(str(error).split())[:200]) from error
