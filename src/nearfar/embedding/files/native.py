"""The native file: one safetensors file with everything that an embedding holds, and a checksum over all of it.

Any reader of safetensors reads it. Tensors: ``vectors`` (n, d), ``context_vectors`` (m, d) for a two-sided model, and
the ids as described in :mod:`nearfar._core.arrays`. Metadata: ``format``, ``version`` of the format, ``ids``
and ``context_ids`` (their kind; ``same`` where both sides have the same ids), ``parameters`` (JSON), ``nearfar``
(version of the library that wrote it) and ``checksum``. Vectors in 8 or 4 bits have other tensors in a ``format`` of
its own, see :mod:`nearfar.embedding.files.quantized`; for mixtures of anchors there is
:mod:`nearfar.embedding.files.mixtures`.

Where the vectors are in parts, the same is a folder: a ``.npy`` file for each array, several for ``vectors`` and
``context_vectors``, and ``embedding.json`` with the metadata, sizes and checksums, written last.

Senses have a ``format`` of their own, and another in 8 or 4 bits. The ids are the words; ``counts`` (V,) says how many
senses each word has, and for each sense, row by row, there are ``numbers`` (n,), the second part of its id, and
``weights`` (n,) float32; of the words perhaps ``word_counts`` (V,) int64 and ``apartness`` (V,) float32. A base measure
is ``base_measure`` (m,) float64.

Parts of words are ``parts`` (k, width), ``parts.keys`` (k,) int64, and the metadata ``parts``, JSON: ``kind`` ("ngrams"
with ``shortest``, ``longest`` and ``n_buckets``; "bpe" with the tensor ``parts.merges``, JSON of the letters and of the
pairs; "given" with ``parts.words``, ids of the kind ``words``, and ``parts.starts``, ``parts.of_words`` and
``parts.weights`` in rows of these), ``scale`` and ``order``, see :mod:`nearfar.embedding.parts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import check_version, pack_ids, read_arrays, unpack_ids, write_arrays
from nearfar._core.atomic import FolderKind
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.lazy import LazyRows, Matrix
from nearfar._core.parts import RowsInParts, read_folder, write_folder
from nearfar._core.types import Arrays
from nearfar._version import __version__
from nearfar.embedding.files import mixtures, quantized
from nearfar.embedding.files.content import SAVE, Content, dump_parameters, load_parameters
from nearfar.embedding.mixtures import Mixtures, unsigned_dtype
from nearfar.embedding.parts import Parts
from nearfar.embedding.quantized import CodedRows, QuantizedRows

FORMAT, VERSION = "nearfar.embedding", "1"
FOLDER = FolderKind("folder of vectors", "embedding.json", FORMAT, 1)
Stored = Mapping[str, NDArray[np.generic] | LazyRows]


class Form(NamedTuple):
    """How rows stand in a file: the format, that of senses, the ways of rows of both sides to arrays and back."""

    name: str
    version: str
    write: Callable[[Content], tuple[Stored, dict[str, str]]]
    read: Callable[[Path, Arrays, dict[str, str]], tuple[Matrix, Matrix | None]]
    senses: str = ""


def _write_floats(content: Content) -> tuple[Stored, dict[str, str]]:
    sides = {"vectors": content.vectors, "context_vectors": content.context_vectors}
    kept = {name: rows for name, rows in sides.items() if rows is not None}
    return {name: rows if isinstance(rows, RowsInParts) else np.asarray(rows) for name, rows in kept.items()}, {}


def _read_floats(path: Path, arrays: Arrays, metadata: dict[str, str]) -> tuple[Matrix, Matrix | None]:  # noqa: ARG001
    return arrays["vectors"], arrays.get("context_vectors")


FLOATS = Form(FORMAT, VERSION, _write_floats, _read_floats, "nearfar.senses")
QUANTIZED = Form("nearfar.quantized", quantized.VERSION, quantized.write, quantized.read, "nearfar.quantized_senses")
CODED = Form(quantized.CODED, quantized.VERSION, quantized.write_coded, quantized.read_coded)
MIXED = Form(mixtures.FORMAT, mixtures.VERSION, mixtures.write, mixtures.read)
PACKED = Form(mixtures.PACKED, mixtures.VERSION, mixtures.write, mixtures.read_packed)
_OF_ROWS: dict[type, Form] = {Mixtures: MIXED, QuantizedRows: QUANTIZED, CodedRows: CODED}


def to_arrays(content: Content, form: Form = FLOATS) -> tuple[Stored, dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    ids, name = content.ids, form.name
    stored, told = form.write(content)
    arrays = dict(stored)
    if content.weights is not None:
        ids, of_senses = _of_senses(content)
        arrays.update(of_senses)
        name = form.senses
    kind, names = pack_ids(SAVE, "ids", ids)
    metadata = {"format": name, "version": form.version, "nearfar": __version__, "ids": kind} | told
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
    forms = {name: form for form in (FLOATS, QUANTIZED, CODED, MIXED, PACKED) for name in (form.name, form.senses)}
    del forms[""]
    name = check_version(path, metadata, "an embedding", {name: form.version for name, form in forms.items()})
    vectors, context = forms[name].read(path, arrays, metadata)
    weights, of_senses, counts, apartness = None, name == forms[name].senses, None, None
    names = unpack_ids(path, "ids", metadata["ids"], arrays, len(arrays["counts"] if of_senses else vectors))
    ids = names
    if of_senses:
        weights, ids = arrays["weights"], _ids_of_senses(path, arrays, names, len(vectors))
        counts, apartness = (
            _of_each_word(path, arrays, key, dtype, len(names))
            for key, dtype in (("word_counts", np.int64), ("apartness", np.float32))
        )
    parameters = load_parameters(metadata["parameters"])
    parts = Parts.from_arrays(json.loads(metadata["parts"]), arrays) if "parts" in metadata else None
    if parts is not None and parts.n_components != vectors.shape[1]:
        raise bad_file(path, f"one with parts of words of {vectors.shape[1]} numbers", f"{parts.n_components}")
    base = arrays.get("base_measure")
    if context is None:
        _check_base(path, base, len(vectors))
        return Content(vectors, ids, None, None, parameters, weights, (), base, parts, counts, apartness)
    kind = metadata["context_ids"]
    context_ids = names if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(context))
    if len(context_ids) != len(context):
        raise bad_file(path, "one with an id for each row of the other side", f"{len(context_ids)} for {len(context)}")
    _check_base(path, base, len(context))
    return Content(vectors, ids, context, context_ids, parameters, weights, (), base, parts, counts, apartness)


def _check_base(path: Path, base: NDArray[np.generic] | None, m: int) -> None:
    """Refuse a base measure that is not a number >= 0 for each row of its side."""
    if base is None:
        return
    if base.shape != (m,) or base.dtype != np.float64 or not (np.isfinite(base).all() and (base >= 0).all()):  # type: ignore[operator]
        raise bad_file(path, f"one with a base measure >= 0 of {m} rows", f"{base.dtype} of shape {base.shape}")


def _of_senses(content: Content) -> tuple[Ids, Arrays]:
    """Return the words, and the arrays that say which of them each sense is of."""
    words: dict[Hashable, int] = {}
    pairs = cast("list[tuple[Hashable, int]]", content.ids.to_list())
    for word, _ in pairs:
        words[word] = words.get(word, 0) + 1
    counts, numbers = (np.array([*values], np.int64) for values in (words.values(), [k for _, k in pairs]))
    arrays = {"counts": counts, "numbers": numbers}
    packed = {name: array.astype(unsigned_dtype(int(array.max(initial=0)))) for name, array in arrays.items()}
    packed["weights"] = np.asarray(content.weights, np.float32)
    if content.counts is not None:
        packed["word_counts"] = np.asarray(content.counts, np.int64)
    if content.apartness is not None:
        packed["apartness"] = np.asarray(content.apartness, np.float32)
    return Ids.of_distinct(words), packed


def _of_each_word(path: Path, arrays: Arrays, name: str, dtype: type, n: int) -> NDArray[Any] | None:
    """Return what a file tells of each of n words, or None."""
    found = arrays.get(name)
    if found is not None and (
        found.shape != (n,) or found.dtype != dtype or (found < 0).any() or np.isinf(found).any()
    ):
        raise bad_file(path, f"one with {name} of {n} words", f"{found.dtype} of shape {found.shape}")
    return found


def _ids_of_senses(path: Path, arrays: Arrays, words: Ids, n: int) -> Ids:
    counts, numbers, weights = (arrays[name] for name in ("counts", "numbers", "weights"))
    shapes = counts.ndim, numbers.shape, weights.shape
    if shapes != (1, (n,), (n,)) or {counts.dtype.kind, numbers.dtype.kind} != {"u"} or counts.sum(dtype=object) != n:
        raise bad_file(path, f"one with a word, a number and a weight for each of {n} senses", f"shapes {shapes}")
    of = np.repeat(np.arange(len(words)), counts).tolist()
    return Ids([(words[word], number) for word, number in zip(of, numbers.tolist(), strict=True)])


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
    return from_arrays(path, *read_arrays(path, quantized.MAPPED))
