"""Files that faiss and usearch open as their own, with the ids behind.

``.faiss`` is an ``IndexFlatIP`` of the vectors as they are, in an ``IndexIDMap2`` if ids are integers. It is written
and read here without faiss; of files by others the flat kinds are read. ``.usearch`` is a graph of neighbours by the
cosine, float32 or float64, which is built in memory. Its keys are the ids if these are integers >= 0, else the numbers
of the rows.

Both programs stop where their index ends. Behind it are the ids and the parameters as JSON, with the CRC-32 of all
before, the length of the JSON and a mark. So damage is found before a library sees it; a ``.usearch`` without that is
refused. :meth:`nearfar.Embedding.index` makes indexes to search in; these are files to hand on.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Hashable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import available_memory, bad_file
from nearfar._core.opened import OpenedFile
from nearfar.contracts import Floats
from nearfar.embedding.files.content import SAVE, Content, jsonable
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.tables import column_of_ids, float32_rows, rows_of
from nearfar.errors import InputError

_MARK = b"nearfar rows 1\n\0"
_TAIL = 4 + 8 + len(_MARK)  # checksum, length, mark
_PIECE = 1 << 20
_HEADER = np.dtype([("d", "<i4"), ("n", "<i8"), ("unused", "<i8", 2), ("trained", "?"), ("metric", "<i4")])
_FLAT, _MAPPED = (b"IxFI", b"IxF2", b"IxFl"), (b"IxMp", b"IxM2")
_INNER_PRODUCT = 0
_FOLLOWED = (1 << 20, 1 << 20 | 1)  # what faiss does not look at, and writes as 2**20 twice: there are ids behind
_LINKS = 300  # bytes of a row of a graph beside its vector


class About(TypedDict, total=False):
    """What stands behind an index."""

    ids: Iterable[Hashable] | None
    shape: list[int]
    dtype: str
    parameters: dict[str, object]


def write_faiss(content: Content, path: Path) -> None:
    """Write a flat index, some rows at a time."""
    n, d = content.vectors.shape
    header = np.array((d, n, _FOLLOWED, True, _INNER_PRODUCT), _HEADER).tobytes()
    column_of_ids(content.ids)  # raises for ids that it cannot hold
    mapped = content.ids.is_integer and not content.ids.is_range
    with atomic_write(path, check=_check) as file:
        if mapped:
            file.write(_MAPPED[1] + header)
        file.write(_FLAT[0] + header + np.int64(n * d).tobytes())
        for _, rows in float32_rows(content):
            file.write(rows.astype("<f4", copy=False).data)
        if mapped:
            file.write(np.int64(n).tobytes() + content.ids.to_numpy().astype("<i8").tobytes())
        _write_end(file, content, "keys" if mapped else _listed(content))


def write_usearch(content: Content, path: Path) -> None:
    """Build the graph, with one thread so that the same content gives the same bytes, and write it.

    usearch builds in memory. That is the vectors once more and about 300 bytes a row; where so much is not there,
    InputError says so before any work.
    """
    from usearch.index import Index

    n, d = content.vectors.shape
    needed, there = n * (d * content.vectors.dtype.itemsize + _LINKS), available_memory()
    if there is not None and needed > there:
        got = f"'.usearch', which needs {needed / 1e9:,.1f} GB of memory where {there / 1e9:,.1f} GB are free"
        hint = "Save as .faiss or .parquet, which are written some rows at a time."
        raise InputError(SAVE, "path", "of a format whose file fits into memory while it is built", got, hint)
    ids = column_of_ids(content.ids)
    keys = np.arange(len(ids), dtype=np.uint64)
    if not isinstance(ids, list) and _are_keys(ids.tolist()):
        keys = ids.astype(np.uint64)
    dtype = "f64" if content.vectors.dtype == np.float64 else "f32"
    index = Index(ndim=content.vectors.shape[1], metric="cos", dtype=dtype)
    for start, rows in rows_of(content):
        index.add(keys[start : start + len(rows)], rows, threads=1)
    with atomic_write(path, check=_check) as file:
        try:
            index.save(file.name)
        except RuntimeError as error:  # that is how usearch reports a full disk
            raise OSError(errno.EIO, f"usearch could not write ({error}); is the disk full?", str(path)) from error
        file.seek(0, os.SEEK_END)
        _write_end(file, content, _listed(content))


def read_faiss(path: Path) -> Content:
    """Read a flat index, of others too."""
    with OpenedFile(path) as file:
        data = file.file.read()  # once: what is compared with the checksum is what is parsed
    about, end = _about(path, data)
    index = BytesIO(data)
    kind, d, n, followed = _header(path, index)
    if followed and not about:
        raise bad_file(path, "what was written", "one that was cut short")
    mapped = kind in _MAPPED
    if mapped:
        kind, d, n, _ = _header(path, index)
    if kind not in _FLAT:
        hint = "faiss.read_index(path).reconstruct_n() gives what it keeps; Embedding.from_arrays takes that."
        raise bad_file(path, "a flat index, which keeps the vectors", f"one of kind {kind!r}", hint)
    vectors = _array(path, index, data, end, n * d, "<f4").reshape(n, d)
    keys = _array(path, index, data, end, n, "<i8") if mapped else np.arange(n)
    if index.tell() != end:
        raise bad_file(path, "one that ends with its index", f"{end - index.tell()} bytes more")
    ids = about.get("ids")
    if ids is None or ids == "keys":
        ids = keys.tolist()
    return Content(vectors.astype(np.float32, copy=False), ids, parameters=about.get("parameters"))


def read_usearch(path: Path) -> Content:
    """Read a graph that was written here."""
    from usearch.index import Index

    with OpenedFile(path) as file:
        about, _ = _about(path, file.mapped(np.uint8, 0, (file.size,)).data)
        if not about:
            hint = (
                "Embedding.from_arrays(index.keys, index.get(index.keys)) takes what usearch's Index.restore(path) "
                "reads."
            )
            raise bad_file(path, "one that Embedding.save wrote", "another", hint)
        n, d = about["shape"]
        ids = list(about["ids"] or range(n))
        if not n:
            return Content(np.empty((0, d), about["dtype"]), [], parameters=about["parameters"])
        keys = np.array(ids, np.uint64) if _are_keys(ids) else np.arange(n, dtype=np.uint64)
        index = cast("Index", Index.restore(file.name))
    vectors = np.stack(cast("Sequence[Floats]", index.get(keys)))
    return Content(vectors, ids, parameters=about["parameters"])


def _are_keys(ids: Sequence[object]) -> bool:
    """Whether ids can be the keys of a graph; usearch itself finds none of 2**63 or more."""
    return all(type(key) is int and 0 <= key < 2**63 for key in ids)


def _listed(content: Content) -> list[Hashable] | None:
    """Return the ids for the end of a file, tuples as text; None if they are the numbers of the rows."""
    if content.ids.is_range:
        return None
    keys = content.ids.to_list()
    return [*column_of_ids(content.ids)] if keys and type(keys[0]) is tuple else keys


def _write_end(file: BinaryIO, content: Content, ids: list[Hashable] | str | None) -> None:
    """Write what stands behind the index."""
    about = {"ids": ids, "shape": content.vectors.shape, "dtype": content.vectors.dtype.name}
    text = json.dumps(about | {"parameters": jsonable(content.parameters)}, sort_keys=True).encode()
    file.flush()
    checksum = zlib.crc32(text, _checksum(file))
    file.write(text + checksum.to_bytes(4, "little") + len(text).to_bytes(8, "little") + _MARK)


def _checksum(file: BinaryIO) -> int:
    """Return the CRC-32 of what was written so far, by whom ever."""
    found = 0
    with OpenedFile(Path(file.name)) as written:
        while piece := written.file.read(_PIECE):
            found = zlib.crc32(piece, found)
    return found


def _about(path: Path, data: bytes | memoryview) -> tuple[About, int]:
    """Return what stands behind the index, and where the index ends; nothing of a file by others."""
    tail = bytes(data[-_TAIL:])
    if not tail.endswith(_MARK) or len(tail) < _TAIL:
        return {}, len(data)
    end = len(data) - _TAIL - int.from_bytes(tail[4:12], "little")
    if end < 0:
        raise bad_file(path, "what was written", "an altered end")
    if zlib.crc32(memoryview(data)[:-_TAIL]) != int.from_bytes(tail[:4], "little"):
        raise bad_file(path, "what was written", "one that was altered")
    about: About = json.loads(bytes(data[end:-_TAIL]))
    return about, end


def _check(path: Path) -> None:
    """Refuse a file that was not written as its checksum says."""
    with OpenedFile(path) as file:
        about, _ = _about(path, file.mapped(np.uint8, 0, (file.size,)).data)
    if not about:
        raise bad_file(path, "what was written", "one that was cut short")


def _header(path: Path, file: BinaryIO) -> tuple[bytes, int, int, bool]:
    """Return the kind of an index, the length of its vectors and their number, and whether ids are to stand behind."""
    kind, raw = file.read(4), file.read(_HEADER.itemsize)
    if len(raw) < _HEADER.itemsize:
        raise bad_file(path, "an index of faiss", "a shorter file")
    header = np.frombuffer(raw, _HEADER)[0]
    if header["metric"] > 1:  # other metrics have an argument
        file.read(4)
    return kind, int(header["d"]), int(header["n"]), tuple(header["unused"].tolist()) == _FOLLOWED


def _array(path: Path, file: BinaryIO, data: bytes, end: int, size: int, dtype: str) -> NDArray[np.generic]:
    """Return an array with its length before it, which the file has reached."""
    length = int.from_bytes(file.read(8), "little")
    if size < 0 or length != size or size * np.dtype(dtype).itemsize > end - file.tell():
        raise bad_file(path, f"one with {size} numbers", f"{length}, or a shorter file")
    array = np.frombuffer(data, dtype, size, file.tell())
    file.seek(array.nbytes, os.SEEK_CUR)
    return array


register("faiss", [".faiss"], write=write_faiss, read=read_faiss, ids=column_of_ids)
register(
    "usearch", [".usearch"], write=write_usearch, read=read_usearch, requires=("usearch", "index"), ids=column_of_ids
)
