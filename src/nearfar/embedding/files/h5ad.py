"""AnnData: the ids are ``obs_names``, the vectors ``obsm["X_nearfar"]``, the parameters ``uns["nearfar"]``.

Of a file by others the only entry of ``obsm`` is read. Such a file holds more than an embedding, so it is not replaced
unless that is said; ``adata.obsm["X_nearfar"] = emb[list(adata.obs_names)]`` adds the vectors to it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar.embedding.files.content import SAVE, Content, jsonable, text_ids
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.tables import Place, rows_of
from nearfar.errors import InputError

KEY = "X_nearfar"
_ABOUT = "nearfar"
_CHUNK = 1 << 18  # numbers


def check(place: Place) -> None:
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


def write(content: Content, path: Path) -> None:
    """Write the vectors, and no matrix ``X``."""
    import h5py

    ids = text_ids(content.ids)
    about = {"ids": "integers" if content.ids.is_integer else "text", "parameters": jsonable(content.parameters)}
    # In memory: on a full disk HDF5 does not give up but ends the process, sooner or later.
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        _fill(file, content, ids, about)
    with atomic_write(path) as opened:
        opened.write(made.getbuffer())


def _fill(file: Any, content: Content, ids: list[str], about: dict[str, Any]) -> None:
    import h5py

    text = h5py.string_dtype()
    _encode(file, "anndata", "0.1.0")
    for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
        _encode(file.create_group(name), "dict", "0.1.0")
    for name, keys in (("obs", ids), ("var", [])):
        frame = _encode(file.create_group(name), "dataframe", "0.2.0")
        frame.attrs.update({"_index": "_index", "column-order": np.array([], text)})
        try:
            labels = frame.create_dataset("_index", data=np.array(keys, object), dtype=text)
        except (ValueError, UnicodeEncodeError) as error:
            raise InputError(SAVE, "ids", "text of UTF-8 without NUL for this format", str(error)) from None
        _encode(labels, "string-array", "0.2.0")
    _encode(file["uns"].create_dataset(_ABOUT, data=json.dumps(about), dtype=text), "string", "0.2.0")
    shape, dtype = content.vectors.shape, content.vectors.dtype
    step = max(1, _CHUNK // shape[1])
    chunks = {"chunks": (min(step, shape[0]), shape[1]), "fletcher32": True} if shape[0] else {}  # with checksums
    vectors = file["obsm"].create_dataset(KEY, shape, dtype, **chunks)
    for start, rows in rows_of(content, step):
        vectors[start : start + len(rows)] = rows
    _encode(vectors, "array", "0.2.0")


def _encode(item: Any, kind: str, version: str) -> Any:
    """Say what an item of the file is, in the words of AnnData; return the item."""
    item.attrs.update({"encoding-type": kind, "encoding-version": version})
    return item


def read(path: Path) -> Content:
    """Read the ids and one entry of ``obsm``, and nothing else of the file."""
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            return _content(path, file)
    except OSError as error:  # that is how h5py reports damage
        raise bad_file(path, "a complete HDF5 file", " ".join(str(error).split())) from error


def _content(path: Path, file: Any) -> Content:
    if not {"obs", "obsm"} <= set(file):
        raise bad_file(path, "one of AnnData, with obs and obsm", f"one with {', '.join(file) or 'nothing'}")
    keys, hint = list(file["obsm"]), "Embedding.from_arrays(adata.obs_names, adata.obsm[...]) takes one of them."
    if KEY not in keys and len(keys) != 1:
        got = ", ".join(map(repr, keys)) or "none"
        raise bad_file(path, f"one with {KEY!r}, or a single entry, in obsm", got, hint)
    vectors, labels = file["obsm"][KEY if KEY in keys else keys[0]], file["obs"][file["obs"].attrs["_index"]]
    labels = labels.get("values") if hasattr(labels, "keys") else labels  # of a nullable array
    if not hasattr(vectors, "dtype") or vectors.dtype.kind != "f" or getattr(labels, "dtype", None) is None:
        raise bad_file(path, "one whose entry of obsm is a matrix of floats, and whose names are text", "others", hint)
    for item in (vectors, labels):
        _check_own(path, item)
    _check_lengths(path, labels)
    ids = labels.asstr()[:].tolist()
    about = {}
    if _ABOUT in file.get("uns", {}):
        _check_own(path, file["uns"][_ABOUT])
        _check_lengths(path, file["uns"][_ABOUT])
        about = json.loads(file["uns"][_ABOUT].asstr()[()])
    if about.get("ids") == "integers":
        ids = [int(key) for key in ids]
    return Content(vectors[:], ids, parameters=about.get("parameters"))


def _check_own(path: Path, item: Any) -> None:
    """Refuse what HDF5 would read from another file: a file from elsewhere must not show what is in yours."""
    if item.file.filename != str(path) or item.external or item.is_virtual:
        raise bad_file(path, "one that holds its own data", f"{item.name} in another file")


def _check_lengths(path: Path, texts: Any) -> None:
    """Refuse texts of more bytes than the file: HDF5 would take memory for what a damaged length says, up to 4 GB."""
    start = texts.id.get_offset()  # None where they are in pieces, which anndata does on demand
    if start is not None and texts.dtype.kind == "O":
        kept = np.fromfile(path, [("length", "<u4"), ("place", "V12")], texts.size, offset=start)
        if kept["length"].sum(dtype=np.int64) > path.stat().st_size:
            raise bad_file(path, "one whose texts are no longer than the file", "a damaged length")


register("h5ad", [".h5ad"], write=write, read=read, check=check, requires=("h5py", "anndata"))
