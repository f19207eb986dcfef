"""AnnData: the ids are ``obs_names``, the vectors ``obsm["X_nearfar"]``, the parameters ``uns["nearfar"]``.

Metadata are columns of ``obs``, text as categories. Of a file by others the only entry of ``obsm`` is read. Such a file
holds more than an embedding, so it is not replaced unless that is said; ``adata.obsm["X_nearfar"] =
emb[list(adata.obs_names)]`` adds the vectors to it.

Behind the end is a checksum, see :mod:`nearfar.embedding.files.seals`, so that damage is found before HDF5 sees it. Who
opens the file to write to it cuts it off: HDF5 does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file, require
from nearfar._core.ids import Ids
from nearfar._core.opened import OpenedFile
from nearfar.embedding.files.content import SAVE, Content, Fact, Json, jsonable, text_ids
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.seals import check_seal, seal
from nearfar.embedding.files.tables import DatabaseTable, rows_of
from nearfar.errors import InputError

if TYPE_CHECKING:
    import io

    import h5py
    from _typeshed import ReadableBuffer, WriteableBuffer

Result = TypeVar("Result")
Item = TypeVar("Item", bound="h5py.Group | h5py.Dataset")
KEY = "X_nearfar"
_ABOUT = "nearfar"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CHUNK = 1 << 18  # numbers


def check(place: DatabaseTable) -> None:
    """Refuse to replace a file that holds the work of others."""
    import h5py

    path = Path(place.database)
    if place.if_exists != "replace" or not path.is_file() or not h5py.is_hdf5(path):
        return
    with h5py.File(path, "r", locking=False) as file:
        if _ABOUT in file.get("uns", {}):
            return
    hint = f'adata.obsm["{KEY}"] = emb[list(adata.obs_names)] adds the vectors. To replace the file, remove it first.'
    raise place.refused("a new file, or one that holds an embedding only", repr(str(path)), hint)


def held_ids(ids: Ids) -> list[str]:
    """Return the ids as ``obs_names``.

    Raises
    ------
    InputError
        If they have no form as text, or HDF5 cannot hold it.
    """
    texts = text_ids(ids)
    odd = next((text for text in texts if "\0" in text or _SURROGATE.search(text)), None)
    if odd is not None:
        raise InputError(SAVE, "ids", "text of UTF-8 without NUL for this format", repr(odd))
    return texts


def write(content: Content, path: Path) -> None:
    """Write the vectors, and no matrix ``X``."""
    import h5py

    ids = held_ids(content.ids)
    about = {"ids": "integers" if content.ids.is_integer else "text", "parameters": jsonable(content.parameters)}
    # HDF5 ends the process where it may write no more, so the room is taken before: also what it keeps beside text.
    texts = [ids, *([str(value) for value in fact.values] for fact in content.facts)]
    size = int(np.prod(content.vectors.shape)) * content.vectors.dtype.itemsize
    size += sum(4 * len(text) + 64 for column in texts for text in column) + size // 4 + (1 << 20)
    check = partial(_check_written, content.vectors.shape)
    with (
        atomic_write(path, check=check) as opened,
        Path(opened.name).open("r+b", buffering=0) as both,  # HDF5 reads, too
    ):
        target = _Reserved(both, size)
        try:
            with h5py.File(target, "w") as file:
                _fill(file, content, ids, about)
        except OSError:
            target.finish()
            raise
        target.finish()
        seal(opened)


def _check_written(shape: tuple[int, int], path: Path) -> None:
    import h5py

    with OpenedFile(path) as opened:
        check_seal(opened)
        with h5py.File(opened.file, "r") as file:
            found = file["obsm"][KEY].shape
    if found != shape:
        raise bad_file(path, f"one with vectors of shape {shape}", f"shape {found}")


class _Reserved:
    """A file whose room on the disk is taken first, and which keeps an error to itself until the end.

    Parameters
    ----------
    file : binary file without a buffer
        What is written to.
    size : int
        Bytes that will do.

    Raises
    ------
    OSError
        The disk, or the limit of the process, does not have so many.
    """

    def __init__(self, file: io.FileIO, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        self._file, self._end = file, 0
        self._error: OSError | None = None
        self.tell = file.tell

    def finish(self) -> None:
        """Give back the room that was not needed; raise the first error that there was."""
        self._file.truncate(self._end)
        if self._error is not None:
            raise self._error

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset + self._end, 0) if whence == 2 else self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes | None:
        return self._file.read(size)

    def write(self, data: ReadableBuffer) -> int:
        def whole() -> int:
            left = memoryview(data)
            while len(left):
                left = left[self._file.write(left) :]
            return size

        size = len(memoryview(data))
        written = self._tried(whole, size)
        self._end = max(self._end, self._file.tell())
        return written

    def truncate(self, size: int) -> int:
        self._end = size
        return size

    def flush(self) -> None:
        self._tried(self._file.flush, None)

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        return self._tried(lambda: self._file.readinto(buffer), len(memoryview(buffer)))

    def _tried(self, task: Callable[[], Result], otherwise: Result) -> Result:
        if self._error is None:
            try:
                return task()
            except OSError as error:
                self._error = error
        return otherwise


def _fill(file: h5py.File, content: Content, ids: list[str], about: dict[str, Json]) -> None:
    import h5py

    text = h5py.string_dtype()
    _encode(file, "anndata", "0.1.0")
    for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
        _encode(file.create_group(name), "dict", "0.1.0")
    for name, keys in (("obs", ids), ("var", [])):
        frame = _encode(file.create_group(name), "dataframe", "0.2.0")
        facts = content.facts if name == "obs" else ()
        frame.attrs.update({"_index": "_index", "column-order": np.array([fact.name for fact in facts], text)})
        for fact in facts:
            _add_column(frame, fact)
        labels = frame.create_dataset("_index", data=np.array(keys, object), dtype=text)
        _encode(labels, "string-array", "0.2.0")
    _encode(file["uns"].create_dataset(_ABOUT, data=json.dumps(about), dtype=text), "string", "0.2.0")
    shape, dtype = content.vectors.shape, content.vectors.dtype
    step = max(1, _CHUNK // shape[1])
    chunks = {"chunks": (min(step, shape[0]), shape[1]), "fletcher32": True} if shape[0] else {}  # with checksums
    vectors = file["obsm"].create_dataset(KEY, shape, dtype, **chunks)
    for start, rows in rows_of(content, step):
        vectors[start : start + len(rows)] = rows
    _encode(vectors, "array", "0.2.0")


def _add_column(frame: h5py.Group, fact: Fact) -> None:
    """Add a column to a data frame of AnnData: text as categories, whole numbers and truths with a mask of the gaps."""
    import h5py

    gaps = np.array([value is None for value in fact.values], bool)
    if fact.name == "_index" or "/" in fact.name or fact.name in (".", ".."):
        expected = "columns whose names HDF5 takes: without /, and not _index"
        raise InputError(SAVE, "metadata", expected, repr(fact.name), "Rename it for this format.")
    if fact.kind == "number":
        values = np.array([np.nan if value is None else value for value in fact.values])
        _encode(frame.create_dataset(fact.name, data=values), "array", "0.2.0")
        return
    if fact.kind == "text":
        group = _encode(frame.create_group(fact.name), "categorical", "0.2.0")
        names = sorted({value for value in fact.values if value is not None})
        code = {value: at for at, value in enumerate(names)} | {None: -1}
        group.attrs["ordered"] = False
        codes = np.array([code[value] for value in fact.values], np.min_scalar_type(-max(len(names), 1)))
        _encode(group.create_dataset("codes", data=codes), "array", "0.2.0")
        try:
            categories = group.create_dataset("categories", data=np.array(names, object), dtype=h5py.string_dtype())
        except ValueError as error:
            raise InputError(SAVE, "metadata", "text without NUL for this format", f"{fact.name!r}: {error}") from None
        _encode(categories, "string-array", "0.2.0")
        return
    values = np.array([value or 0 for value in fact.values], np.int64 if fact.kind == "integer" else bool)
    if not gaps.any():
        _encode(frame.create_dataset(fact.name, data=values), "array", "0.2.0")
        return
    kind = "nullable-integer" if fact.kind == "integer" else "nullable-boolean"
    group = _encode(frame.create_group(fact.name), kind, "0.1.0")
    for part, data in (("values", values), ("mask", gaps)):
        _encode(group.create_dataset(part, data=data), "array", "0.2.0")


def _encode(item: Item, kind: str, version: str) -> Item:
    """Say what an item of the file is, in the words of AnnData; return the item."""
    item.attrs.update({"encoding-type": kind, "encoding-version": version})
    return item


def read(path: Path) -> Content:
    """Read the ids and one entry of ``obsm``, and nothing else of the file."""
    import h5py

    with OpenedFile(path) as opened:
        check_seal(opened)
        try:
            with h5py.File(opened.file, "r") as file:
                return _content(opened, file)
        except OSError as error:  # that is how h5py reports damage
            raise bad_file(path, "a complete HDF5 file", " ".join(str(error).split())) from error


def _content(opened: OpenedFile, file: h5py.File) -> Content:
    path = opened.path
    if not {"obs", "obsm"} <= set(file):
        raise bad_file(path, "one of AnnData, with obs and obsm", f"one with {', '.join(file) or 'nothing'}")
    keys, hint = list(file["obsm"]), "Embedding.from_arrays(adata.obs_names, adata.obsm[...]) takes one of them."
    if KEY not in keys and len(keys) != 1:
        got = ", ".join(map(repr, keys)) or "none"
        raise bad_file(path, f"one with {KEY!r}, or a single entry, in obsm", got, hint)
    vectors = _item(path, file["obsm"], KEY if KEY in keys else keys[0])
    labels = _item(path, file["obs"], file["obs"].attrs["_index"])
    labels = labels.get("values") if hasattr(labels, "keys") else labels  # of a nullable array
    if not hasattr(vectors, "dtype") or vectors.dtype.kind != "f" or getattr(labels, "dtype", None) is None:
        raise bad_file(path, "one whose entry of obsm is a matrix of floats, and whose names are text", "others", hint)
    for item in (vectors, labels):
        _check_own(path, file, item)
    check_lengths(opened, labels)
    ids = labels.asstr()[:].tolist()
    about = {}
    if _ABOUT in file.get("uns", {}):
        _check_own(path, file, file["uns"][_ABOUT])
        check_lengths(opened, file["uns"][_ABOUT])
        about = json.loads(file["uns"][_ABOUT].asstr()[()])
    if about.get("ids") == "integers":
        ids = [int(key) for key in ids]
    return Content(vectors[:], ids, parameters=about.get("parameters"))


def _item(path: Path, group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    """Return an item of a group, if it is no link to another file."""
    import h5py

    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        raise bad_file(path, "one that holds its own data", f"{group.name}/{name} in another file")
    return group[name]


def _check_own(path: Path, file: h5py.File, item: h5py.Dataset) -> None:
    """Refuse what HDF5 would read from another file: a file from elsewhere must not show what is in yours."""
    if item.file.filename != file.filename or item.external or item.is_virtual:
        raise bad_file(path, "one that holds its own data", f"{item.name} in another file")


def check_lengths(opened: OpenedFile, texts: h5py.Dataset) -> None:
    """Refuse texts of more bytes than the file: HDF5 would take memory for what a damaged length says, up to 4 GB."""
    start = texts.id.get_offset()  # None where they are in pieces, which anndata does on demand
    if start is not None and texts.dtype.kind == "O":
        opened.file.seek(start)
        kept = np.fromfile(opened.file, [("length", "<u4"), ("place", "V12")], texts.size)
        if kept["length"].sum(dtype=np.int64) > opened.size:
            raise bad_file(opened.path, "one whose texts are no longer than the file", "a damaged length")


def is_own(path: Path) -> bool:
    """Whether a file of AnnData is one that nearfar wrote: vectors and nothing else."""
    h5py = require("nearfar", "h5py", "anndata")
    try:
        with h5py.File(path, "r", locking=False) as file:
            return _ABOUT in file.get("uns", {}) and KEY in file.get("obsm", {})
    except OSError:  # said by what reads it
        return False


def check_links(path: Path, file: h5py.File, group: h5py.Group) -> None:
    """Refuse links, and what HDF5 would read from another file."""
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise bad_file(path, "one that holds its own data", f"{group.name}/{name}, a link")
        item = group[name]
        if isinstance(item, h5py.Group):
            check_links(path, file, item)
        elif isinstance(item, h5py.Dataset):
            _check_own(path, file, item)


register(
    "h5ad",
    [".h5ad"],
    write=write,
    read=read,
    check=check,
    requires=("h5py", "anndata"),
    keeps_columns=True,
    ids=held_ids,
)
