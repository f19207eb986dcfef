"""NumPy's archive: the arrays of the native file, for programs that know only NumPy.

Written arrays: ``vectors``, the ids, the other side and, as JSON text, ``metadata``. An archive by others is read when
it has ``vectors`` (n, d) and, if it names its rows, ``ids`` (integers or text). Objects are never unpickled; damage
shows by the archive's own CRC-32.
"""

from __future__ import annotations

import errno
import json
import zipfile
from pathlib import Path

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.opened import OpenedFile
from nearfar.embedding.files.content import Content
from nearfar.embedding.files.native import from_arrays, to_arrays


def write(content: Content, path: Path) -> None:
    """Write an uncompressed archive."""
    of_content, metadata = to_arrays(content)
    arrays = {"metadata": np.array(json.dumps(metadata)), **of_content}
    # np.savez of older versions leaves the archive open where the disk is full.
    with atomic_write(path, check=_check) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _check(path: Path) -> None:
    """Compare all members of an archive with their CRC-32."""
    with OpenedFile(path) as opened, zipfile.ZipFile(opened.file) as archive:
        altered = archive.testzip()
    if altered is not None:
        raise bad_file(path, "what was written", f"an altered {altered}")


def read(path: Path) -> Content:
    """Read an archive, written by this module or by others."""
    with OpenedFile(path) as opened, np.load(opened.file, allow_pickle=False) as archive, np.errstate(all="ignore"):
        for member in archive.zip.infolist():
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # they unpack without a bound
                got = f"another method for {member.filename}"
                raise bad_file(path, "one that is packed as NumPy does, by deflate or not at all", got)
        try:
            arrays = {name: archive[name] for name in archive.files}
        except OSError as error:
            if error.errno != errno.EINVAL:  # what a member leads to that begins before the file
                raise
            raise bad_file(path, "a complete npz file", str(error)) from error
    metadata = arrays.pop("metadata", None)
    if metadata is not None:
        return from_arrays(path, arrays, dict(json.loads(str(metadata))))
    vectors = arrays.get("vectors")
    if vectors is None:
        raise bad_file(path, "one with an array 'vectors'", f"the arrays {', '.join(arrays) or '(none)'}")
    names = arrays.get("ids", np.arange(len(vectors)))
    if names.ndim != 1 or names.dtype.kind not in "iuU":
        raise bad_file(path, "one with an id for each row, integers or text", f"{names.dtype}, shape {names.shape}")
    return Content(vectors, names)
