"""NumPy's archive: the arrays of the native file, for programs that know only NumPy.

Written arrays: ``vectors``, the ids, the other side and, as JSON text, ``metadata``. An archive by others is read when
it has ``vectors`` (n, d) and, if it names its rows, ``ids`` (integers or text). Objects are never unpickled; damage
shows by the archive's own CRC-32.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar.embedding.files.content import Content
from nearfar.embedding.files.native import from_arrays, to_arrays
from nearfar.errors import InputError


def write(owner: str, content: Content, path: Path) -> None:
    """Write an uncompressed archive."""
    arrays, metadata = to_arrays(owner, content)
    with atomic_write(path, owner=owner) as file:
        np.savez(file, allow_pickle=False, metadata=np.array(json.dumps(metadata)), **arrays)


def read(owner: str, path: Path) -> Content:  # noqa: ARG001 - the readers of all formats are called alike
    """Read an archive, written by this module or by others."""
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except Exception as error:  # damage reaches every corner of the readers of zip and npy
            got = f"{type(error).__name__}: {error}"
            raise bad_file(path, "a NumPy archive (.npz) without objects", got) from error
    metadata = arrays.pop("metadata", None)
    if metadata is None:
        return _from_others(path, arrays)
    try:
        entries = json.loads(str(metadata))
        return from_arrays(path, arrays, dict(entries))
    except (TypeError, json.JSONDecodeError) as error:
        raise bad_file(path, "one with readable metadata", str(error)) from error


def _from_others(path: Path, arrays: dict[str, NDArray[Any]]) -> Content:
    vectors = arrays.get("vectors")
    if vectors is None or vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise bad_file(
            path, "one with an array 'vectors' of two dimensions", f"the arrays {', '.join(arrays) or '(none)'}"
        )
    if vectors.dtype != np.float64:
        vectors = vectors.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise bad_file(path, "one with finite vectors", "NaN or infinity")
    names = arrays.get("ids", np.arange(len(vectors)))
    if names.shape != (len(vectors),) or names.dtype.kind not in "iuU":
        raise bad_file(path, "one with an id for each row, integers or text", f"{names.dtype}, shape {names.shape}")
    try:
        return Content(vectors, Ids(names))
    except InputError as error:
        raise bad_file(path, "one with distinct ids", str(error.got)) from error
