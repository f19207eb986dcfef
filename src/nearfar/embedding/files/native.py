"""The native file: one safetensors file with everything that an embedding holds, and a checksum over all of it.

Any reader of safetensors reads it. Tensors: ``vectors`` (n, d), ``context_vectors`` (m, d) for a two-sided model, and
the ids as described in :mod:`nearfar._core.arrays`. Metadata: ``format``, ``version`` of the format, ``ids``
and ``context_ids`` (their kind; ``same`` where both sides have the same ids), ``parameters`` (JSON), ``nearfar``
(version of the library that wrote it) and ``checksum``. Vectors that are mixtures of anchors, or in 8 or 4 bits, are
kept as such, see :mod:`nearfar.embedding.files.mixtures` and :mod:`nearfar.embedding.files.quantized`.

Where the vectors are in parts, the same is a folder: a ``.npy`` file for each array, several for ``vectors`` and
``context_vectors``, and ``embedding.json`` with the metadata, sizes and checksums, written last.

Senses have a ``format`` of their own. The ids are the words; ``counts`` (V,) says how many senses each word has, and
for each sense, row by row, there are ``numbers`` (n,), the second part of its id, and ``weights`` (n,) float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import check_version, pack_ids, read_arrays, unpack_ids, write_arrays
from nearfar._core.atomic import FolderKind
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.parts import RowsInParts, read_folder, write_folder
from nearfar._version import __version__
from nearfar.embedding.files import mixtures, quantized
from nearfar.embedding.files.content import SAVE, Content, dump_parameters, load_parameters
from nearfar.embedding.files.registry import FOLDERS, register
from nearfar.embedding.mixtures import Mixtures, unsigned_dtype
from nearfar.embedding.quantized import CodedRows, QuantizedRows

FORMAT, VERSION = "nearfar.embedding", "1"
SENSES = "nearfar.senses"
FOLDER = FolderKind("folder of vectors", "embedding.json", FORMAT, 1)
_FORMS: dict[type, Any] = {  # other than plain vectors
    Mixtures: mixtures.to_arrays,
    QuantizedRows: quantized.to_arrays,
    CodedRows: quantized.to_coded_arrays,
}


def to_arrays(content: Content) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    ids = content.ids
    of_senses: dict[str, NDArray[Any]] = {}
    if content.weights is not None:
        ids, of_senses = _of_senses(content)
    kind, arrays = pack_ids(SAVE, "ids", ids)
    form = SENSES if of_senses else FORMAT
    metadata = {"format": form, "version": VERSION, "nearfar": __version__, "ids": kind}
    arrays |= {"vectors": _as_rows(content.vectors), **of_senses}
    if content.context_vectors is not None and content.context_ids is not None:
        metadata["context_ids"] = "same"
        if content.context_ids != ids:
            metadata["context_ids"], context = pack_ids(SAVE, "context_ids", content.context_ids)
            arrays |= context
        arrays["context_vectors"] = _as_rows(content.context_vectors)
    metadata["parameters"] = dump_parameters(content.parameters)
    return arrays, metadata


def from_arrays(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit, or if the file is of a later version of the format.
    """
    others = {
        mixtures.FORMAT: (mixtures.VERSION, mixtures.from_arrays),
        mixtures.PACKED: (mixtures.VERSION, mixtures.from_packed),
        quantized.FORMAT: (quantized.VERSION, quantized.from_arrays),
        quantized.CODED: (quantized.VERSION, quantized.from_coded_arrays),
    }
    versions = {FORMAT: VERSION, SENSES: VERSION} | {name: version for name, (version, _) in others.items()}
    form = check_version(path, metadata, "an embedding", versions)
    if form in others:
        return others[form][1](path, arrays, metadata)
    vectors, context, weights = arrays["vectors"], arrays.get("context_vectors"), None
    names = unpack_ids(path, "ids", metadata["ids"], arrays, len(arrays["counts"] if form == SENSES else vectors))
    ids = names
    if form == SENSES:
        weights, ids = arrays["weights"], _ids_of_senses(path, arrays, names)
    parameters = load_parameters(metadata["parameters"])
    if context is None:
        return Content(vectors, ids, parameters=parameters, weights=weights)
    kind = metadata["context_ids"]
    context_ids = names if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(context))
    return Content(vectors, ids, context, context_ids, parameters, weights)


def _of_senses(content: Content) -> tuple[Ids, dict[str, NDArray[Any]]]:
    """Return the words, and the arrays that say which of them each sense is of."""
    words: dict[Any, int] = {}
    for word, _ in content.ids:
        words[word] = words.get(word, 0) + 1
    counts, numbers = (np.array([*values], np.int64) for values in (words.values(), [k for _, k in content.ids]))
    arrays = {"counts": counts, "numbers": numbers}
    packed = {name: array.astype(unsigned_dtype(int(array.max(initial=0)))) for name, array in arrays.items()}
    return Ids.of_distinct(words), packed | {"weights": np.asarray(content.weights, np.float32)}


def _ids_of_senses(path: Path, arrays: dict[str, NDArray[Any]], words: Ids) -> Ids:
    counts, numbers, weights = (arrays[name] for name in ("counts", "numbers", "weights"))
    n = len(arrays["vectors"])
    shapes = counts.ndim, numbers.shape, weights.shape
    if shapes != (1, (n,), (n,)) or {counts.dtype.kind, numbers.dtype.kind} != {"u"} or counts.sum(dtype=object) != n:
        raise bad_file(path, f"one with a word, a number and a weight for each of {n} senses", f"shapes {shapes}")
    of = np.repeat(np.arange(len(words)), counts).tolist()
    return Ids([(words[word], number) for word, number in zip(of, numbers.tolist(), strict=True)])


def _as_rows(vectors: Any) -> Any:
    return vectors if isinstance(vectors, RowsInParts) else np.asarray(vectors)


def write(content: Content, path: Path) -> None:
    """Write the native file; the memory needed beside the content is that of the ids, and of rows in parts."""
    arrays, metadata = _FORMS.get(type(content.vectors), to_arrays)(content)
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
    return from_arrays(path, *read_arrays(path))


register("safetensors", [".safetensors"], write=write, read=read, keeps_both_sides=True)
FOLDERS[FOLDER.header] = read_parts
