"""The native file: one safetensors file with everything that an embedding holds, and a checksum over all of it.

Any reader of safetensors reads it. Tensors: ``vectors`` (n, d), ``context_vectors`` (m, d) for a two-sided model, and
the ids as described in :mod:`nearfar._core.arrays`. Metadata: ``format``, ``version`` of the format, ``ids``
and ``context_ids`` (their kind; ``same`` where both sides have the same ids), ``parameters`` (JSON), ``nearfar``
(version of the library that wrote it) and ``checksum``. Vectors that are mixtures of anchors are kept as such, see
:mod:`nearfar.embedding.files.mixtures`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import check_version, pack_ids, read_arrays, unpack_ids, write_arrays
from nearfar._version import __version__
from nearfar.embedding.files import mixtures
from nearfar.embedding.files.content import SAVE, Content, dump_parameters, load_parameters
from nearfar.embedding.files.registry import register
from nearfar.embedding.mixtures import Mixtures

FORMAT, VERSION = "nearfar.embedding", "1"


def to_arrays(content: Content) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    kind, arrays = pack_ids(SAVE, "ids", content.ids)
    metadata = {"format": FORMAT, "version": VERSION, "nearfar": __version__, "ids": kind}
    arrays["vectors"] = np.asarray(content.vectors)
    if content.context_vectors is not None and content.context_ids is not None:
        metadata["context_ids"] = "same"
        if content.context_ids != content.ids:
            metadata["context_ids"], context = pack_ids(SAVE, "context_ids", content.context_ids)
            arrays |= context
        arrays["context_vectors"] = np.asarray(content.context_vectors)
    metadata["parameters"] = dump_parameters(content.parameters)
    return arrays, metadata


def from_arrays(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit, or if the file is of a later version of the format.
    """
    versions = {FORMAT: VERSION, mixtures.FORMAT: mixtures.VERSION}
    if check_version(path, metadata, "an embedding", versions) == mixtures.FORMAT:
        return mixtures.from_arrays(path, arrays, metadata)
    vectors, context = arrays["vectors"], arrays.get("context_vectors")
    ids = unpack_ids(path, "ids", metadata["ids"], arrays, len(vectors))
    parameters = load_parameters(metadata["parameters"])
    if context is None:
        return Content(vectors, ids, parameters=parameters)
    kind = metadata["context_ids"]
    context_ids = ids if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(context))
    return Content(vectors, ids, context, context_ids, parameters)


def write(content: Content, path: Path) -> None:
    """Write the native file; the memory needed beside the content is that of the ids."""
    factored = isinstance(content.vectors, Mixtures)
    write_arrays(SAVE, path, *(mixtures.to_arrays(content) if factored else to_arrays(content)))


def read(path: Path) -> Content:
    """Read the native file, after its checksum was checked."""
    return from_arrays(path, *read_arrays(path))


register("safetensors", [".safetensors"], write=write, read=read, keeps_both_sides=True)
