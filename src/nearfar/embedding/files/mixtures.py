"""The native file of an embedding whose vectors are mixtures of anchors: the factors, not the vectors.

Tensors: ``anchors`` (K, d) float32; of T, row by row and without its zeros, ``weights`` (nnz,) float32 and ``columns``
(nnz,); ``counts`` (n,), how many entries each row has. Columns and counts are of the smallest unsigned type that holds
them. Where numbers were rounded to 8 bits, anchors and weights are int8, and ``anchors.scale`` and ``weights.scale``,
float32 (K,), are what they are multiples of, for each anchor. Ids, and names of the anchors as ``anchor_names``.
Metadata as in :mod:`nearfar.embedding.files.native`, of another ``format``. In a two-sided model the rows of the other
side are the last of T: ``context_rows`` of them, with ``context_ids``.

The packed form, of a ``format`` of its own, holds whole numbers of as few bits as are needed, one after the other, the
lowest bit first: ``weights`` (plus ``least``, which is 0 or negative), ``columns`` and ``counts``, uint8. Metadata
``packed`` ("int8" or "int4"), ``bits`` (of the three), ``rows``, ``entries`` and ``least``. All else is as above.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import pack_ids, unpack_ids
from nearfar._core.checks import bad_file
from nearfar._core.types import Arrays
from nearfar.embedding.files.content import SAVE, Content
from nearfar.embedding.mixtures import Mixtures, Scales, unsigned_dtype
from nearfar.embedding.quantized import KINDS

FORMAT, VERSION = "nearfar.anchored", "1"
PACKED = "nearfar.anchored.packed"


def write(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for mixtures."""
    mixtures, other = cast("Mixtures", content.vectors), cast("Mixtures | None", content.context_vectors)
    names, arrays = pack_ids(SAVE, "anchor_names", mixtures.names)
    metadata = {"anchor_names": names}
    if other is not None:
        mixtures = mixtures.stacked(other)
        metadata["context_rows"] = str(len(other))
    arrays |= {name: getattr(mixtures, name) for name in ("anchors", "weights", "columns", "counts")}
    if mixtures.scales is not None:
        of_anchors, of_weights, _ = mixtures.scales
        arrays["anchors"] = np.rint(mixtures.anchors / of_anchors[:, None]).astype(np.int8)
        arrays["weights"] = np.rint(mixtures.weights / of_weights[mixtures.columns]).astype(np.int8)
        arrays |= {"anchors.scale": of_anchors, "weights.scale": of_weights}
        if mixtures.scales.packed:
            _pack(arrays, metadata, mixtures.scales.packed)
    return arrays, metadata


def read(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[Mixtures, Mixtures | None]:
    """Return the mixtures of both sides from their arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    anchors, weights = (_array(path, arrays, name, "float32", "int8") for name in ("anchors", "weights"))
    columns, counts = (_array(path, arrays, name, "uint8", "uint16", "uint32") for name in ("columns", "counts"))
    dimensions = (anchors.ndim, weights.ndim, columns.ndim, counts.ndim)
    if dimensions != (2, 1, 1, 1) or 0 in anchors.shape:
        raise bad_file(path, "one with a matrix of anchors and lists of entries", f"dimensions {dimensions}")
    if not columns.size == weights.size == int(counts.sum(dtype=np.uint64)):
        got = f"{columns.size} columns, {weights.size} weights and counts of {int(counts.sum(dtype=np.uint64))}"
        raise bad_file(path, "one with a column for each weight, and rows that hold them all", got)
    if columns.size and int(columns.max()) >= len(anchors):
        raise bad_file(path, f"one with columns in 0 .. {len(anchors) - 1}", str(int(columns.max())))
    names = unpack_ids(path, "anchor_names", metadata.get("anchor_names", ""), arrays, len(anchors))
    below = metadata.get("context_rows", "0")
    n_context = int(below) if below.isdecimal() and len(below) < 19 else len(counts) + 1
    if n_context > len(counts):
        raise bad_file(path, f"one with at most {len(counts)} rows of another side", below)
    scales = None
    if anchors.dtype != weights.dtype:
        raise bad_file(path, "one with anchors and weights of one type", f"{anchors.dtype} and {weights.dtype}")
    if anchors.dtype == np.int8:
        units = [_array(path, arrays, f"{name}.scale", "float32") for name in ("anchors", "weights")]
        scales = Scales(units[0], units[1], metadata.get("packed", ""))
        if not all(scale.shape == (len(anchors),) and (scale > 0).all() for scale in units):
            raise bad_file(path, f"one with {len(anchors)} positive scales", "others")
        with np.errstate(over="ignore"):  # checked below
            anchors, weights = anchors * scales.anchors[:, None], weights * scales.weights[columns]
    mixtures = Mixtures(weights, columns, counts, anchors, names, scales)
    if not mixtures.is_finite():
        raise bad_file(path, "one with finite vectors", "NaN, infinity or numbers too large for float32")
    return mixtures.split(len(counts) - n_context) if "context_rows" in metadata else (mixtures, None)


def _pack(arrays: Arrays, metadata: dict[str, str], packed: str) -> None:
    """Replace weights, columns and counts by their bits."""
    least = min(int(arrays["weights"].min(initial=0)), 0)
    metadata |= {"format": PACKED, "packed": packed, "least": str(least)}
    metadata |= {"rows": str(len(arrays["counts"])), "entries": str(len(arrays["columns"]))}
    bits = []
    for name, above in (("weights", -least), ("columns", 0), ("counts", 0)):
        numbers = arrays[name].astype(np.int64) + above
        bits.append(int(numbers.max(initial=0)).bit_length())
        places = np.arange(bits[-1])
        arrays[name] = np.packbits(((numbers[:, None] >> places) & 1).astype(np.uint8).ravel(), bitorder="little")
    metadata["bits"] = ",".join(map(str, bits))


def read_packed(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[Mixtures, Mixtures | None]:
    """Return the same from packed arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit.
    """
    texts = [metadata.get(name, "") for name in ("rows", "entries")] + metadata.get("bits", "").split(",")
    least, packed = metadata.get("least", ""), metadata.get("packed")
    known = all(text.isdecimal() and len(text) < 16 for text in [*texts, least.removeprefix("-")]) and len(texts) == 5
    if not known or packed not in KINDS or not -128 <= int(least) <= 0:
        got = f"packed {packed!r}, least {least!r}, numbers {texts}"
        raise bad_file(path, "one that says how weights and indices are packed", got)
    n_rows, n_entries, *bits = map(int, texts)
    largest = (127, 2**32 - 1, 2**32 - 1)
    for name, n, width, most, above in zip(
        ("weights", "columns", "counts"),
        (n_entries, n_entries, n_rows),
        bits,
        largest,
        (-int(least), 0, 0),
        strict=True,
    ):
        array = _array(path, arrays, name, "uint8")
        if array.ndim != 1 or width > 32 or len(array) != -(-n * width // 8):
            raise bad_file(path, f"one with {n} numbers of {width} bits as {name}", f"shape {array.shape}")
        places = np.unpackbits(array, count=n * width, bitorder="little").reshape(n, width)
        numbers = places.astype(np.int64) @ (1 << np.arange(width, dtype=np.int64)) - above
        if int(numbers.max(initial=0)) > most:
            raise bad_file(path, f"one with {name} of at most {most}", str(int(numbers.max())))
        smallest = np.dtype(np.int8) if name == "weights" else unsigned_dtype(int(numbers.max(initial=0)))
        arrays[name] = numbers.astype(smallest)
    arrays["columns"] = arrays["columns"].astype(unsigned_dtype(max(len(arrays.get("anchors", ())) - 1, 0)))
    return read(path, arrays, metadata)


def _array(path: Path, arrays: Arrays, name: str, *types: str) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.dtype.name not in types:
        raise bad_file(path, f"one with {name}, {' or '.join(types)}", "none" if array is None else f"{array.dtype}")
    return array
