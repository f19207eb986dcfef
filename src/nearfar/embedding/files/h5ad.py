"""AnnData: the ids are ``obs_names``, the vectors ``obsm["X_nearfar"]``, the parameters ``uns["nearfar"]``.

Metadata are columns of ``obs``, text as categories. Of a file by others the only entry of ``obsm`` is read. Such a file
holds more than an embedding, so it is not replaced: ``adata.obsm["X_nearfar"] = emb[list(adata.obs_names)]`` adds the
vectors to it. Files are read and written by the package anndata, item by item.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file, require
from nearfar._core.ids import Ids
from nearfar.embedding.content import SAVE, Content, held_texts, jsonable
from nearfar.errors import InputError, NearfarError

if TYPE_CHECKING:
    import h5py

KEY = "X_nearfar"
_ABOUT = "nearfar"
_UNFIT = re.compile(r"[\0\ud800-\udfff]")
_TYPES = {"integer": ("int64", "Int64"), "number": ("float64", "float64"), "flag": ("bool", "boolean")}
"""Of pandas, for columns without gaps and with some."""


@contextmanager
def opened(path: Path, owner: str = "nearfar") -> Iterator[h5py.File]:
    """Open a file of AnnData, whose items ``anndata.io.read_elem`` reads.

    Raises
    ------
    MissingDependencyError
        If the package anndata is not installed.
    FileFormatError
        If it is no such file, or an item of it cannot be read.
    """
    h5py, _ = require(owner, "h5py", "anndata"), require(owner, "anndata", "anndata")
    try:
        with h5py.File(path, "r", locking=False) as file:
            if "obs" not in file:
                raise bad_file(path, "one of AnnData, with obs", f"one with {', '.join(file) or 'nothing'}")
            yield file
    except NearfarError:
        raise
    except Exception as error:  # of damage HDF5 and anndata say all sorts of things
        got = " ".join(f"{type(error).__name__}: {error}".split())
        raise bad_file(path, "a complete file of AnnData", got[:200]) from error


def is_own(path: Path) -> bool:
    """Whether a file of AnnData is one that nearfar wrote: vectors and nothing else."""
    try:
        with opened(path) as file:
            return _ABOUT in file.get("uns", {}) and KEY in file.get("obsm", {})
    except NearfarError:  # said by what reads it
        return False


def check_own(owner: str, path: Path) -> None:
    """Refuse to replace a file that holds the work of others."""
    import h5py

    if path.is_file() and h5py.is_hdf5(path) and not is_own(path):
        hint = f'adata.obsm["{KEY}"] = emb[list(adata.obs_names)] adds the vectors; or remove the file first.'
        raise InputError(owner, "path", "a new file, or one that holds an embedding only", repr(str(path)), hint)


def held_ids(ids: Ids) -> list[str]:
    """Return the ids as ``obs_names``.

    Raises
    ------
    InputError
        If they have no form as text, or HDF5 cannot hold it.
    """
    return held_texts(ids, _UNFIT, "text of UTF-8 without NUL for this format")


def write(content: Content, path: Path) -> None:
    """Write the vectors, and no matrix ``X``."""
    import anndata
    import h5py
    import pandas as pd

    obs = pd.DataFrame(index=pd.Index(held_ids(content.ids), dtype=object))
    for name, kind, values in content.facts:
        if name == "_index" or "/" in name or name in (".", ".."):
            expected = "columns whose names HDF5 takes: without /, and not _index"
            raise InputError(SAVE, "metadata", expected, repr(name), "Rename it for this format.")
        if kind == "text":
            texts = sorted({str(value) for value in values if value is not None})
            if any(map(_UNFIT.search, texts)):
                raise InputError(SAVE, "metadata", "text without NUL for this format", repr(name))
            obs[name] = pd.Categorical(values, pd.Index(texts, dtype=object))
        else:
            obs[name] = pd.array(values, _TYPES[kind][None in values])
    about = {"ids": "integers" if content.ids.is_integer else "text", "parameters": jsonable(content.parameters)}
    made = {"obsm": {KEY: np.asarray(content.vectors)}, "uns": {_ABOUT: json.dumps(about)}}
    adata = anndata.AnnData(obs=obs, var=obs.iloc[:0, :0], **made)
    whole = io.BytesIO()  # HDF5 ends the process where the disk is full
    with h5py.File(whole, "w") as file:
        anndata.io.write_elem(file, "/", adata)
    with atomic_write(path, check=read) as target:
        target.write(whole.getbuffer())


def read(path: Path) -> Content:
    """Read the ids and one entry of ``obsm``, and nothing else of the file."""
    with opened(path) as file:
        from anndata.io import read_elem

        hint = "Embedding.from_arrays(adata.obs_names, adata.obsm[...]) takes one of them."
        keys = list(file.get("obsm", {}))
        if KEY not in keys and len(keys) != 1:
            got = ", ".join(map(repr, keys)) or "none"
            raise bad_file(path, f"one with {KEY!r}, or a single entry, in obsm", got, hint)
        vectors = read_elem(file["obsm"][KEY if KEY in keys else keys[0]])
        if not isinstance(vectors, np.ndarray) or vectors.dtype.kind != "f":
            raise bad_file(path, "one whose entry of obsm is a matrix of floats", type(vectors).__name__, hint)
        ids = read_elem(file["obs"]).index.tolist()
        about = json.loads(read_elem(file["uns"][_ABOUT])) if _ABOUT in file.get("uns", {}) else {}
    if about.get("ids") == "integers":
        ids = [int(key) for key in ids]
    return Content(vectors, Ids(ids), parameters=about.get("parameters") or {})
