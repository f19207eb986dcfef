"""The native file: one safetensors file with everything that an embedding holds, and a checksum over all of it.

Any reader of safetensors reads it. Tensors: ``vectors`` (n, d), ``context_vectors`` (m, d) for a two-sided model, and
the ids as described in :mod:`nearfar._core.arrays`. Metadata: ``format``, ``version`` of the format, ``ids``
and ``context_ids`` (their kind; ``same`` where both sides have the same ids), ``parameters`` (JSON), ``nearfar``
(version of the library that wrote it) and ``checksum``.

Where the vectors are in parts, the same is a folder: a ``.npy`` file for each array, several for ``vectors`` and
``context_vectors``, and ``embedding.json`` with the metadata, sizes and checksums, written last. In NumPy's archive
(``.npz``) ``metadata`` is JSON text beside the arrays, and damage shows by the archive's own CRC-32; one by others is
read when it has ``vectors`` (n, d) and, if it names its rows, ``ids`` (integers or text). Objects are never unpickled.

Senses have a ``format`` of their own, and another in 8 or 4 bits. The ids are the words; ``counts`` (V,) says how many
senses each word has, and for each sense, row by row, there are ``numbers`` (n,), the second part of its id, and
``weights`` (n,) float32; of the words perhaps ``word_counts`` (V,) int64 and ``apartness`` (V,) float32. A base measure
is ``base_measure`` (m,) float64.

Parts of words are ``parts`` (k, width), ``parts.keys`` (k,) int64, and the metadata ``parts``, JSON: ``kind`` ("ngrams"
with ``shortest``, ``longest`` and ``n_buckets``; "bpe" with the tensor ``parts.merges``, JSON of the letters and of the
pairs; "given" with ``parts.words``, ids of the kind ``words``, and ``parts.starts``, ``parts.of_words`` and
``parts.weights`` in rows of these), ``scale`` and ``order``, see :mod:`nearfar.embedding.parts`.

Rows that are no array of floats have other tensors, in a ``format`` of their own:

- In 8 or 4 bits: ``codes`` uint8 and ``scales`` uint16 as :mod:`nearfar.embedding.packed` has them, and
  ``context.codes`` and ``context.scales`` of the other side; ``kind``, "int8" or "int4", and ``columns``, the length of
  a vector. Codes are mapped from the file, not read.
- Trained as whole numbers: ``codes`` uint8 and ``basis`` float32, and ``bits``.
- Mixtures of anchors: ``anchors`` (K, d) float32; of T, row by row and without its zeros, ``weights`` (nnz,) float32
  and ``columns`` (nnz,); ``counts`` (n,), how many entries each row has. Columns and counts are of the smallest
  unsigned type that holds them. Where numbers were rounded to 8 bits, anchors and weights are int8, and
  ``anchors.scale`` and ``weights.scale``, float32 (K,), are what they are multiples of, for each anchor. Names of the
  anchors are ids as ``anchor_names``. In a two-sided model the rows of the other side are the last of T:
  ``context_rows`` of them, with ``context_ids``.
- The same, packed: whole numbers of as few bits as are needed, one after the other, the lowest bit first: ``weights``
  (plus ``least``, which is 0 or negative), ``columns`` and ``counts``, uint8. Metadata ``packed`` ("int8" or "int4"),
  ``bits`` (of the three), ``rows``, ``entries`` and ``least``.
"""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import check_version, pack_ids, read_arrays, unpack_ids, write_arrays
from nearfar._core.atomic import FolderKind, OpenedFile, atomic_write, read_npy
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.lazy import LazyRows, Matrix, read_folder, write_folder
from nearfar._core.types import Arrays
from nearfar._version import __version__
from nearfar.embedding.content import SAVE, Content, dump_parameters, load_parameters
from nearfar.embedding.packed import (
    KINDS,
    MOST_BITS,
    CodedRows,
    Mixtures,
    QuantizedRows,
    Scales,
    code_width,
    unsigned_dtype,
)
from nearfar.embedding.parts import Parts

FOLDER = FolderKind("folder of vectors", "embedding.json", "nearfar.embedding", 1)
_PACKED = "nearfar.anchored.packed"
Stored = Mapping[str, NDArray[np.generic] | LazyRows]


class Form(NamedTuple):
    """How rows stand in a file: the format, that of senses, the ways of rows of both sides to arrays and back."""

    name: str
    write: Callable[[Content], tuple[Stored, dict[str, str]]]
    read: Callable[[Path, Arrays, dict[str, str]], tuple[Matrix, Matrix | None]]
    senses: str = ""


def _write_floats(content: Content) -> tuple[Stored, dict[str, str]]:
    sides = {"vectors": content.vectors, "context_vectors": content.context_vectors}
    return {name: rows for name, rows in sides.items() if rows is not None}, {}


def _read_floats(path: Path, arrays: Arrays, metadata: dict[str, str]) -> tuple[Matrix, Matrix | None]:  # noqa: ARG001
    return arrays["vectors"], arrays.get("context_vectors")


def _write_quantized(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for rows in 8 or 4 bits."""
    rows, others = cast("QuantizedRows", content.vectors), cast("QuantizedRows | None", content.context_vectors)
    arrays: Arrays = {"codes": rows.codes, "scales": rows.scales}
    if others is not None:
        arrays |= {"context.codes": others.codes, "context.scales": others.scales}
    return arrays, {"kind": rows.kind, "columns": str(rows.shape[1])}


def _read_quantized(path: Path, arrays: Arrays, metadata: dict[str, str]) -> tuple[Matrix, Matrix | None]:
    """Return the rows of both sides from their arrays and metadata."""
    kind, columns = metadata.get("kind", ""), metadata.get("columns", "")
    if kind not in KINDS or not columns.isdecimal() or len(columns) > 18 or not int(columns):
        raise bad_file(path, "one of kind int8 or int4, with a number of columns", f"kind {kind!r}, {columns!r}")
    width, sides = code_width(int(columns), kind), list[QuantizedRows]()
    for side in ("", "context.") if "context.codes" in arrays else ("",):
        codes, scales = arrays.get(f"{side}codes"), arrays.get(f"{side}scales")
        if codes is None or scales is None or codes.dtype != np.uint8 or scales.dtype != np.uint16:
            raise bad_file(path, f"one with {side}codes, uint8, and {side}scales, uint16", "others, or none")
        if codes.ndim != 2 or codes.shape[1] != width or scales.shape != (len(codes),):
            expected = f"one with codes of {width} bytes and a scale for each row"
            raise bad_file(path, expected, f"shapes {codes.shape} and {scales.shape}")
        sides.append(QuantizedRows(codes, scales, int(columns), kind))
        if not sides[-1].is_finite():
            raise bad_file(path, "one with finite vectors", "scales that are NaN, infinite, negative or too large")
    return sides[0], sides[1] if len(sides) > 1 else None


def _write_coded(content: Content) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata that stand for rows that share a basis; they have one side."""
    rows = cast("CodedRows", content.vectors)
    scales = {} if rows.scales is None else {"scales": rows.scales}
    return {"codes": rows.codes, "basis": rows.basis, **scales}, {"bits": str(rows.bits)}


def _read_coded(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[CodedRows, None]:
    """Return the same rows from their arrays and metadata."""
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
    scales = arrays.get("scales")
    if scales is not None and (scales.dtype != np.uint8 or scales.shape != (len(codes),)):
        raise bad_file(path, "one with a byte for the scale of each row", f"{scales.dtype} of shape {scales.shape}")
    rows = CodedRows(codes, basis, int(bits), scales)
    if not rows.is_finite():
        raise bad_file(path, "one with finite vectors", "a basis that is NaN, infinite or too large")
    return rows, None


def _write_mixtures(content: Content) -> tuple[Arrays, dict[str, str]]:
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
            least = min(int(arrays["weights"].min(initial=0)), 0)
            metadata |= {"format": _PACKED, "packed": mixtures.scales.packed, "least": str(least)}
            metadata |= {"rows": str(len(arrays["counts"])), "entries": str(len(arrays["columns"]))}
            bits = []
            for name, above in (("weights", -least), ("columns", 0), ("counts", 0)):
                numbers = arrays[name].astype(np.int64) + above
                bits.append(int(numbers.max(initial=0)).bit_length())
                places = (numbers[:, None] >> np.arange(bits[-1])) & 1
                arrays[name] = np.packbits(places.astype(np.uint8).ravel(), bitorder="little")
            metadata["bits"] = ",".join(map(str, bits))
    return arrays, metadata


def _read_mixtures(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[Mixtures, Mixtures | None]:
    """Return the mixtures of both sides from their arrays and metadata."""
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


def _read_packed(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> tuple[Mixtures, Mixtures | None]:
    """Return the same from packed arrays and metadata."""
    texts = [metadata.get(name, "") for name in ("rows", "entries")] + metadata.get("bits", "").split(",")
    least, packed = metadata.get("least", ""), metadata.get("packed")
    known = all(text.isdecimal() and len(text) < 16 for text in [*texts, least.removeprefix("-")]) and len(texts) == 5
    if not known or packed not in KINDS or not -128 <= int(least) <= 0:
        got = f"packed {packed!r}, least {least!r}, numbers {texts}"
        raise bad_file(path, "one that says how weights and indices are packed", got)
    n_rows, n_entries, *bits = map(int, texts)
    largest = 2**32 - 1
    sizes = (n_entries, 127, -int(least)), (n_entries, largest, 0), (n_rows, largest, 0)
    for name, width, (n, most, above) in zip(("weights", "columns", "counts"), bits, sizes, strict=True):
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
    return _read_mixtures(path, arrays, metadata)


def _array(path: Path, arrays: Arrays, name: str, *types: str) -> NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.dtype.name not in types:
        raise bad_file(path, f"one with {name}, {' or '.join(types)}", "none" if array is None else f"{array.dtype}")
    return array


FLOATS = Form("nearfar.embedding", _write_floats, _read_floats, "nearfar.senses")
_OF_ROWS = {
    QuantizedRows: Form("nearfar.quantized", _write_quantized, _read_quantized, "nearfar.quantized_senses"),
    CodedRows: Form("nearfar.coded", _write_coded, _read_coded),
    Mixtures: Form("nearfar.anchored", _write_mixtures, _read_mixtures),
}
_FORMS = (FLOATS, *_OF_ROWS.values(), Form(_PACKED, _write_mixtures, _read_packed))
_VERSION = "1"  # of each of them


def to_arrays(content: Content, form: Form = FLOATS) -> tuple[Stored, dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    ids, name = content.ids, form.name
    stored, told = form.write(content)
    arrays = dict(stored)
    if content.weights is not None:  # the ids are the words, and arrays say which of them each sense is of
        name, words = form.senses, dict[Hashable, int]()
        pairs = cast("list[tuple[Hashable, int]]", content.ids.to_list())
        for word, _ in pairs:
            words[word] = words.get(word, 0) + 1
        ids = Ids(words, distinct=True)
        for of_senses, values in (("counts", [*words.values()]), ("numbers", [number for _, number in pairs])):
            arrays[of_senses] = np.array(values, unsigned_dtype(max(values, default=0)))
        arrays["weights"] = np.asarray(content.weights, np.float32)
        if content.counts is not None:
            arrays["word_counts"] = np.asarray(content.counts, np.int64)
        if content.apartness is not None:
            arrays["apartness"] = np.asarray(content.apartness, np.float32)
    kind, names = pack_ids(SAVE, "ids", ids)
    metadata = {"format": name, "version": _VERSION, "nearfar": __version__, "ids": kind} | told
    if content.context_vectors is not None and content.context_ids is not None:
        metadata["context_ids"] = "same"
        if content.context_ids != ids:
            metadata["context_ids"], others = pack_ids(SAVE, "context_ids", content.context_ids)
            names |= others
    arrays.update(names)
    if content.base_measure is not None:
        arrays["base_measure"] = np.asarray(content.base_measure, np.float64)
    if content.parts is not None:
        facts, of_parts = content.parts.to_arrays()
        arrays.update(of_parts)
        metadata["parts"] = json.dumps(facts, sort_keys=True)
    return arrays, metadata | {"parameters": dump_parameters(content.parameters)}


def from_arrays(path: Path, arrays: Arrays, metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit, or if the file is of a later version of the format.
    """
    forms = {name: form for form in _FORMS for name in (form.name, form.senses) if name}
    name = check_version(path, metadata, "an embedding", dict.fromkeys(forms, _VERSION))
    vectors, context = forms[name].read(path, arrays, metadata)
    of_senses, n = name == forms[name].senses, len(vectors)
    names = unpack_ids(path, "ids", metadata["ids"], arrays, len(arrays["counts"]) if of_senses else n)
    made = Content(vectors, names, context, parameters=load_parameters(metadata["parameters"]))
    if of_senses:
        counts, numbers, weights = (arrays[key] for key in ("counts", "numbers", "weights"))
        shapes, kinds = (counts.ndim, numbers.shape, weights.shape), {counts.dtype.kind, numbers.dtype.kind}
        if shapes != (1, (n,), (n,)) or kinds != {"u"} or counts.sum(dtype=object) != n:
            got = f"shapes {shapes}"
            raise bad_file(path, f"one with a word, a number and a weight for each of {n} senses", got)
        of = np.repeat(np.arange(len(names)), counts).tolist()
        made.ids = Ids([(names[word], number) for word, number in zip(of, numbers.tolist(), strict=True)])
        made.weights, made.counts, made.apartness = weights, arrays.get("word_counts"), arrays.get("apartness")
        for key, dtype in (("word_counts", np.int64), ("apartness", np.float32)):
            found = arrays.get(key, np.zeros(len(names), dtype))
            if found.shape != (len(names),) or found.dtype != dtype or (found < 0).any() or np.isinf(found).any():
                raise bad_file(path, f"one with {key} of {len(names)} words", f"{found.dtype} of shape {found.shape}")
    if "parts" in metadata:
        made.parts = Parts.from_arrays(json.loads(metadata["parts"]), arrays)
        if made.parts.n_components != vectors.shape[1]:
            expected = f"one with parts of words of {vectors.shape[1]} numbers"
            raise bad_file(path, expected, f"{made.parts.n_components}")
    if context is not None:
        kind, n = metadata["context_ids"], len(context)
        made.context_ids = names if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, n)
        if len(made.context_ids) != n:
            got = f"{len(made.context_ids)} for {n}"
            raise bad_file(path, "one with an id for each row of the other side", got)
    if (base := arrays.get("base_measure")) is not None:
        if base.shape != (n,) or base.dtype != np.float64 or not (np.isfinite(base).all() and (base >= 0).all()):
            raise bad_file(path, f"one with a base measure >= 0 of {n} rows", f"{base.dtype} of shape {base.shape}")
        made.base_measure = base
    return made


def held_ids(ids: Ids) -> None:
    """Refuse ids that the file cannot hold: others than strings, numbers, None, bytes, dates and tuples of them."""
    pack_ids(SAVE, "ids", ids)


def write(content: Content, path: Path) -> None:
    """Write the native file; the memory needed beside the content is that of the ids, and of rows in parts."""
    arrays, metadata = to_arrays(content, _OF_ROWS.get(type(content.vectors), FLOATS))
    write_arrays(SAVE, path, {name: np.asarray(array) for name, array in arrays.items()}, metadata)


def write_parts(owner: str, argument: str, path: Path, content: Content) -> None:
    """Write the same as a folder, in which vectors may be in parts; it appears whole or not at all."""
    arrays, metadata = to_arrays(content)
    with FOLDER.new(owner, argument, path) as folder:
        write_folder(FOLDER, folder, arrays, {"metadata": metadata})


def read_parts(path: Path) -> Content:
    """Read such a folder; vectors stay in its files until they are asked for."""
    arrays, header = read_folder(FOLDER, path)
    return from_arrays(path, arrays, dict(header["metadata"]))


def read(path: Path) -> Content:
    """Read the native file, after its checksum was checked."""
    return from_arrays(path, *read_arrays(path, ("codes", "context.codes")))


def write_npz(content: Content, path: Path) -> None:
    """Write an uncompressed archive."""

    def check(written: Path) -> None:
        with OpenedFile(written) as opened, zipfile.ZipFile(opened.file) as archive:
            altered = archive.testzip()
        if altered is not None:
            raise bad_file(written, "what was written", f"an altered {altered}")

    of_content, metadata = to_arrays(content)
    arrays = {"metadata": np.array(json.dumps(metadata)), **of_content}
    # np.savez of older versions leaves the archive open where the disk is full.
    with atomic_write(path, check=check) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def read_npz(path: Path) -> Content:
    """Read an archive, written by this module or by others."""
    with OpenedFile(path) as opened, zipfile.ZipFile(opened.file) as archive, np.errstate(all="ignore"):
        arrays = {}
        for member in archive.infolist():
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # they unpack without a bound
                got = f"another method for {member.filename}"
                raise bad_file(path, "one that is packed as NumPy does, by deflate or not at all", got)
            try:
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = read_npy(file)
            except OSError as error:
                if error.errno != errno.EINVAL:  # what a member leads to that begins before the file
                    raise
                raise bad_file(path, "a complete npz file", str(error)) from error
    metadata = arrays.pop("metadata", None)
    if metadata is not None:
        return from_arrays(path, arrays, dict(json.loads(str(metadata))))
    vectors = arrays.get("vectors")
    if vectors is None:
        raise bad_file(path, "one with an array 'vectors'", f"the arrays {', '.join(arrays) or '(none)'}")
    names = arrays.get("ids", np.arange(len(vectors)))
    if names.ndim != 1 or names.dtype.kind not in "iuU":
        raise bad_file(path, "one with an id for each row, integers or text", f"{names.dtype}, shape {names.shape}")
    return Content(vectors, Ids(names))
