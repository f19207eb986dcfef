"""Rows of small whole numbers in the native file: codes and scales, not the vectors.

Tensors: ``codes`` uint8 and ``scales`` uint16 as :mod:`nearfar.embedding.quantized` has them, and ``context.codes`` and
``context.scales`` of the other side. Metadata beside those of :mod:`nearfar.embedding.files.native`: ``kind``, "int8"
or "int4", and ``columns``, the length of a vector. Codes are mapped from the file, not read.

Rows that were trained as whole numbers have a ``format`` of their own: ``codes`` uint8 and ``basis`` float32, and
``bits``.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from nearfar._core.arrays import map_array, pack_ids, unpack_ids
from nearfar._core.checks import bad_file
from nearfar._core.lazy import Matrix
from nearfar._version import __version__
from nearfar.embedding.files.content import SAVE, Arrays, Content, dump_parameters, load_parameters
from nearfar.embedding.quantized import KINDS, MOST_BITS, CodedRows, QuantizedRows, code_width

VERSION = "1"
CODED = "nearfar.coded"


def write_rows(rows: Matrix, side: str) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for the rows of a side, "" or "context."."""
    rows = cast("QuantizedRows", rows)
    metadata = {"kind": rows.kind, "columns": str(rows.shape[1])}
    return {f"{side}codes": rows.codes, f"{side}scales": rows.scales}, metadata


def read_rows(path: Path, arrays: Arrays, metadata: dict[str, str], side: str) -> QuantizedRows | None:
    """Return the rows of a side; None if the file does not have it.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    codes, scales = arrays.get(f"{side}codes"), arrays.get(f"{side}scales")
    if side and codes is None:
        return None
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


def to_coded_arrays(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for rows that share a basis; they have one side."""
    rows = cast("CodedRows", content.vectors)
    kind, arrays = pack_ids(SAVE, "ids", content.ids)
    metadata = {"format": CODED, "version": VERSION, "nearfar": __version__, "ids": kind, "bits": str(rows.bits)}
    arrays |= {"codes": rows.codes, "basis": rows.basis}
    return arrays, metadata | {"parameters": dump_parameters(content.parameters)}


def from_coded_arrays(path: Path, arrays: Arrays, metadata: dict[str, str]) -> Content:
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
