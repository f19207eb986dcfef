"""Folders that hold a stored relation: they appear whole or not at all, and are checked before they are used.

==================  ===============================================================================================
file                holds
==================  ===============================================================================================
``relation.json``   format, version, shape, entries, symmetry, kinds of the ids, size of every other file
``indptr.npy``      int64, (n + 1,): row i has the entries ``indptr[i]:indptr[i + 1]``
``indices.npy``     int32, (entries,): their columns, sorted within a row
``data.npy``        float32, (entries,): their weights; not there if all are 1
``ids*.npy``        names of the rows, see :mod:`nearfar.storage._packed_ids`; none if they are 0 .. n - 1
``column_ids*.npy`` names of the columns, if they are others
``transposed``      the same for the transpose, without ids; made when it is first needed
==================  ===============================================================================================
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearfar.storage._folders import FolderKind, bad_folder, mapped

RELATION = FolderKind("relation", "relation.json", "nearfar.relation", 1, inner=("transposed",))

Arrays = tuple[NDArray[np.int64], NDArray[np.int32], "NDArray[np.float32] | None"]


@dataclass(frozen=True)
class Header:
    """What ``relation.json`` says; ``ids`` and ``column_ids`` are kinds, None for a transpose."""

    shape: tuple[int, int]
    n_entries: int
    weighted: bool
    symmetric: bool
    ids: str | None = None
    column_ids: str | None = None


def write_header(folder: Path, header: Header) -> None:
    """Write ``relation.json``: the last file to be written."""
    RELATION.write_header(folder, asdict(header))


def read_header(folder: Path) -> Header:
    """Read ``relation.json``, and check that every file that it names is there in its size.

    Raises
    ------
    FileFormatError
        If the folder is none of this format and version, or a file is missing or was cut short.
    """
    content = RELATION.read_header(folder)
    try:
        fields = {name: content[name] for name in ("n_entries", "weighted", "symmetric", "ids", "column_ids")}
        header = Header(shape=(int(content["shape"][0]), int(content["shape"][1])), **fields)
        if header.symmetric and header.shape[0] != header.shape[1]:
            raise ValueError(f"symmetric with shape {header.shape}")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RELATION.bad_header(folder, error) from error
    return header


def map_arrays(folder: Path, header: Header) -> Arrays:
    """Map indptr, indices and data.

    Raises
    ------
    FileFormatError
        If they are not what the header says.
    """
    n, n_entries = header.shape[0], header.n_entries
    indptr = mapped(folder, "indptr", np.int64, n + 1)
    indices = mapped(folder, "indices", np.int32, n_entries)
    data = mapped(folder, "data", np.float32, n_entries) if header.weighted else None
    if indptr[0] != 0 or indptr[-1] != n_entries:
        raise bad_folder(folder, f"one whose rows hold its {n_entries} entries", f"{indptr[0]} to {indptr[-1]}")
    return indptr, indices, data
