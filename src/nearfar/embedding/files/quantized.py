"""Rows of small whole numbers in the native file: codes and scales, not the vectors.

Tensors: ``codes`` uint8 and ``scales`` uint16 as :mod:`nearfar.embedding.quantized` has them, and ``context.codes`` and
``context.scales`` of the other side. Metadata beside those of :mod:`nearfar.embedding.files.native`: ``kind``, "int8"
or "int4", and ``columns``, the length of a vector. Codes are mapped from the file, not read.

Rows that were trained as whole numbers have a ``format`` of their own: ``codes`` uint8 and ``basis`` float32, and
``bits``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from nearfar._core.checks import bad_file
from nearfar._core.types import Arrays
from nearfar.embedding.files.content import Content
from nearfar.embedding.quantized import KINDS, MOST_BITS, CodedRows, QuantizedRows, code_width

VERSION = "1"
CODED = "nearfar.coded"
MAPPED = ("codes", "context.codes")


def write(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for rows in 8 or 4 bits."""
    rows, others = cast("QuantizedRows", content.vectors), cast("QuantizedRows | None", content.context_vectors)
    arrays: Arrays = {"codes": rows.codes, "scales": rows.scales}
    if others is not None:
        arrays |= {"context.codes": others.codes, "context.scales": others.scales}
    return arrays, {"kind": rows.kind, "columns": str(rows.shape[1])}


def read(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[QuantizedRows, QuantizedRows | None]:
    """Return the rows of both sides from their arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    others = _rows(path, arrays, metadata, "context.") if "context.codes" in arrays else None
    return _rows(path, arrays, metadata, ""), others


def _rows(path: Path, arrays: Arrays, metadata: Mapping[str, str], side: str) -> QuantizedRows:
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
    rows = QuantizedRows(codes, scales, int(columns), kind)
    if not rows.is_finite():
        raise bad_file(path, "one with finite vectors", "scales that are NaN, infinite, negative or too large")
    return rows


def write_coded(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for rows that share a basis; they have one side."""
    rows = cast("CodedRows", content.vectors)
    return {"codes": rows.codes, "basis": rows.basis}, {"bits": str(rows.bits)}


def read_coded(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[CodedRows, None]:
    """Return the same rows from their arrays and metadata.

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
    rows = CodedRows(codes, basis, int(bits))
    if not rows.is_finite():
        raise bad_file(path, "one with finite vectors", "a basis that is NaN, infinite or too large")
    return rows, None
