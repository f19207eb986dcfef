"""The native file: one safetensors file with everything that an embedding holds, and a checksum over all of it.

Any reader of safetensors reads it. Tensors: ``vectors`` (n, d), ``context_vectors`` (m, d) for a two-sided model, and
the ids as described in :mod:`nearfar.storage._packed_ids`. Metadata: ``format``, ``version`` of the format, ``ids``
and ``context_ids`` (their kind; ``same`` where both sides have the same ids), ``parameters`` (JSON), ``nearfar``
(version of the library that wrote it) and ``checksum``: BLAKE2b, 256 bits, hexadecimal, of the whole file with these
64 digits taken as zeros. So a change of any byte shows. Vectors that are mixtures of anchors are kept as such, see
:mod:`nearfar.storage.mixtures`.

The same content gives the same bytes. The file is written by hand rather than with the safetensors package because that
keeps neither the order of the metadata nor, for large arrays, the memory.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearfar._mixtures import Mixtures
from nearfar._version import __version__
from nearfar.storage import mixtures
from nearfar.storage._packed_ids import pack_ids, unpack_ids
from nearfar.storage.atomic import atomic_write
from nearfar.storage.content import Content, bad_file, dump_parameters, load_parameters

FORMAT, VERSION = "nearfar.embedding", "1"

_TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int8": "I8"}
_TYPES |= {"uint8": "U8", "uint16": "U16", "uint32": "U32"}
_NO_CHECKSUM = "0" * 64
_CHECKSUM_KEY = b'"checksum":"'
_CHUNK = 1 << 22
_LARGEST_HEADER = 100_000_000  # what the format allows


def to_arrays(owner: str, content: Content) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    kind, arrays = pack_ids(owner, "ids", content.ids)
    metadata = {"format": FORMAT, "version": VERSION, "nearfar": __version__, "ids": kind}
    arrays["vectors"] = np.asarray(content.vectors)
    if content.context_vectors is not None and content.context_ids is not None:
        metadata["context_ids"] = "same"
        if content.context_ids != content.ids:
            metadata["context_ids"], context = pack_ids(owner, "context_ids", content.context_ids)
            arrays |= context
        arrays["context_vectors"] = content.context_vectors
    metadata["parameters"] = dump_parameters(content.parameters)
    return arrays, metadata


def from_arrays(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit, or if the file is of a later version of the format.
    """
    version = {FORMAT: VERSION, mixtures.FORMAT: mixtures.VERSION}.get(metadata.get("format", ""))
    if version is None:
        raise bad_file(path, "an embedding written by nearfar", f"format {metadata.get('format')!r}")
    if metadata.get("version") != version:
        raise bad_file(
            path,
            f"of version {version} of the format",
            f"version {metadata.get('version')!r}, written by nearfar {metadata.get('nearfar')}",
            "Install a newer nearfar.",
        )
    if metadata["format"] == mixtures.FORMAT:
        return mixtures.from_arrays(path, arrays, metadata)
    vectors = _side(path, arrays, "vectors")
    ids = unpack_ids(path, "ids", metadata.get("ids", ""), arrays, len(vectors))
    parameters = load_parameters(path, metadata.get("parameters", ""))
    if "context_vectors" not in arrays:
        return Content(vectors, ids, parameters=parameters)
    context = _side(path, arrays, "context_vectors")
    if context.shape[1] != vectors.shape[1]:
        raise bad_file(path, "one with vectors of one length", f"{vectors.shape[1]} and {context.shape[1]}")
    kind = metadata.get("context_ids", "")
    context_ids = ids if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(context))
    if len(context_ids) != len(context):
        raise bad_file(path, f"one with {len(context)} context_ids, one for each row", f"{len(context_ids)}")
    return Content(vectors, ids, context, context_ids, parameters)


def write(owner: str, content: Content, path: Path) -> None:
    """Write the native file; the memory needed beside the content is that of the ids."""
    if isinstance(content.vectors, Mixtures):
        write_arrays(owner, path, *mixtures.to_arrays(owner, content, content.vectors))
    else:
        write_arrays(owner, path, *to_arrays(owner, content))


def write_arrays(owner: str, path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Write arrays and metadata with their checksum; the file appears whole or not at all."""
    # The format wants the arrays aligned: eight-byte numbers first, single bytes last.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header = _header(ordered, {**metadata, "checksum": _NO_CHECKSUM})
    digest = hashlib.blake2b(header, digest_size=32)
    for _, array in ordered:
        for chunk in _chunks(array):
            digest.update(chunk)
    with atomic_write(path, owner=owner) as file:
        file.write(_header(ordered, {**metadata, "checksum": digest.hexdigest()}))
        for _, array in ordered:
            for chunk in _chunks(array):
                file.write(chunk)


def read(owner: str, path: Path) -> Content:  # noqa: ARG001 - the readers of all formats are called alike
    """Read the native file, once its checksum is found right."""
    return from_arrays(path, *read_arrays(path))


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata of a file by :func:`write_arrays`, once its checksum is found right."""
    from safetensors import SafetensorError, safe_open

    _verify(path)
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise bad_file(path, "a safetensors file", str(error)) from error
    return arrays, metadata


def _side(path: Path, arrays: dict[str, NDArray[Any]], name: str) -> NDArray[np.floating[Any]]:
    array = arrays.get(name)
    if array is None or array.ndim != 2 or array.dtype not in (np.float32, np.float64):
        got = "none" if array is None else f"{array.dtype}, shape {array.shape}"
        raise bad_file(path, f"one with {name}, a matrix of float32 or float64", got)
    if not np.isfinite(array).all():
        raise bad_file(path, f"one with finite {name}", "NaN or infinity")
    return array


def _header(arrays: list[tuple[str, NDArray[Any]]], metadata: dict[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name, array in arrays:
        stop = start + array.nbytes
        entries[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _chunks(array: NDArray[Any]) -> Iterator[memoryview]:
    if sys.byteorder == "big" or array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK]


def _verify(path: Path) -> None:
    with path.open("rb") as file:
        header, stored = _read_header(path, file)
        digest = hashlib.blake2b(header, digest_size=32)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest().encode() != stored:
        raise bad_file(
            path,
            "what was written",
            "another checksum: it was cut short or altered",
            "Fetch it again, or make it again.",
        )


def _read_header(path: Path, file: BinaryIO) -> tuple[bytes, bytes]:
    """Return the header with zeros in the place of the checksum, and the checksum."""
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > _LARGEST_HEADER:
        raise bad_file(path, "a safetensors file", "something else, or it was cut short")
    text = file.read(length)
    # The metadata come first, so the first occurrence is the key itself; a quote inside a value would be escaped.
    at = text.find(_CHECKSUM_KEY) + len(_CHECKSUM_KEY)
    if len(text) < length or at < len(_CHECKSUM_KEY) or text[at + 64 : at + 65] != b'"':
        raise bad_file(path, "an embedding written by nearfar", "a file without its checksum, or cut short")
    return prefix + text[:at] + _NO_CHECKSUM.encode() + text[at + 64 :], text[at : at + 64]
