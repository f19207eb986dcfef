"""The native file of an embedding whose numbers are in 8 or 4 bits: codes and scales, not the vectors.

Tensors: ``codes`` uint8 and ``scales`` uint16 as :mod:`nearfar.embedding.quantized` has them, and ``context.codes`` and
``context.scales`` of the other side; ids. Metadata as in :mod:`nearfar.embedding.files.native`, of another ``format``,
and ``kind``, "int8" or "int4", and ``columns``, the length of a vector. Codes are mapped from the file, not read.

Rows that were trained as whole numbers have a ``format`` of their own: ``codes`` uint8 and ``basis`` float32, and
``bits``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import map_array, pack_ids, unpack_ids
from nearfar._core.checks import bad_file
from nearfar._version import __version__
from nearfar.embedding.files.content import SAVE, Content, dump_parameters, load_parameters
from nearfar.embedding.quantized import KINDS, MOST_BITS, CodedRows, QuantizedRows, code_width

FORMAT, VERSION = "nearfar.quantized", "1"
CODED = "nearfar.coded"


def to_arrays(content: Content) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata that stand for rows of small whole numbers."""
    rows: Any = content.vectors
    kind, arrays = pack_ids(SAVE, "ids", content.ids)
    metadata = {"format": FORMAT, "version": VERSION, "nearfar": __version__, "ids": kind}
    metadata |= {"kind": rows.kind, "columns": str(rows.shape[1])}
    arrays |= {"codes": rows.codes, "scales": rows.scales}
    if content.context_vectors is not None and content.context_ids is not None:
        other: Any = content.context_vectors
        arrays |= {"context.codes": other.codes, "context.scales": other.scales}
        metadata["context_ids"] = "same"
        if content.context_ids != content.ids:
            metadata["context_ids"], packed = pack_ids(SAVE, "context_ids", content.context_ids)
            arrays |= packed
    return arrays, metadata | {"parameters": dump_parameters(content.parameters)}


def from_arrays(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    rows = _rows(path, arrays, metadata, "")
    ids = unpack_ids(path, "ids", metadata.get("ids", ""), arrays, len(rows))
    parameters = load_parameters(metadata["parameters"])
    if "context.codes" not in arrays:
        return Content(rows, ids, parameters=parameters)
    others, kind = _rows(path, arrays, metadata, "context."), metadata.get("context_ids", "")
    context_ids = ids if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(others))
    if len(context_ids) != len(others):
        raise bad_file(path, "one with an id for each row of the other side", f"{len(context_ids)} for {len(others)}")
    return Content(rows, ids, others, context_ids, parameters)


def _rows(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str], side: str) -> QuantizedRows:
    codes, scales = arrays.get(f"{side}codes"), arrays.get(f"{side}scales")
    kind, columns = metadata.get("kind", ""), metadata.get("columns", "")
    if kind not in KINDS or not columns.isdecimal() or len(columns) > 18 or not int(columns):
        raise bad_file(path, "one of kind int8 or int4, with a number of columns", f"kind {kind!r}, {columns!r}")
    if codes is None or scales is None or codes.dtype != np.uint8 or scales.dtype != np.uint16:
        raise bad_file(path, f"one with {side}codes, uint8, and {side}scales, uint16", "others, or none")
    width = code_width(int(columns), kind)
    if codes.ndim != 2 or codes.shape[1] != width or scales.shape != (len(codes),):
        expected = f"one with codes of {width} bytes and a scale for each row"
        raise bad_file(path, expected, f"shapes {codes.shape} and {scales.shape}")
    rows = QuantizedRows(map_array(path, f"{side}codes"), scales, int(columns), kind)
    if not rows.is_finite():
        raise bad_file(path, "one with finite vectors", "scales that are NaN, infinite, negative or too large")
    return rows


def to_coded_arrays(content: Content) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata that stand for rows that share a basis; they have one side."""
    rows: Any = content.vectors
    kind, arrays = pack_ids(SAVE, "ids", content.ids)
    metadata = {"format": CODED, "version": VERSION, "nearfar": __version__, "ids": kind, "bits": str(rows.bits)}
    arrays |= {"codes": rows.codes, "basis": rows.basis}
    return arrays, metadata | {"parameters": dump_parameters(content.parameters)}


def from_coded_arrays(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    codes, basis, bits = arrays.get("codes"), arrays.get("basis"), metadata.get("bits", "")
    if bits not in map(str, range(1, MOST_BITS + 1)):
        raise bad_file(path, f"one of 1 to {MOST_BITS} bits a number", repr(bits))
    if codes is None or basis is None or codes.dtype != np.uint8 or basis.dtype != np.float32:
        raise bad_file(path, "one with codes, uint8, and a basis, float32", "others, or none")
    if basis.ndim not in (1, 2) or 0 in basis.shape or codes.ndim != 2:
        raise bad_file(path, "one with rows of codes and a basis", f"shapes {codes.shape} and {basis.shape}")
    width = -(-len(basis) * int(bits) // 8)
    if codes.shape[1] != width:
        raise bad_file(path, f"one with codes of {width} bytes a row", f"{codes.shape[1]} bytes")
    rows = CodedRows(map_array(path, "codes"), basis, int(bits))
    if not rows.is_finite():
        raise bad_file(path, "one with finite vectors", "a basis that is NaN, infinite or too large")
    ids = unpack_ids(path, "ids", metadata.get("ids", ""), arrays, len(rows))
    return Content(rows, ids, parameters=load_parameters(metadata["parameters"]))
