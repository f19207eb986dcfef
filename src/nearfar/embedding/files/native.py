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
``weights`` (n,) float32.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import check_version, pack_ids, read_arrays, unpack_ids, write_arrays
from nearfar._core.atomic import FolderKind
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.lazy import LazyRows, Matrix
from nearfar._core.parts import RowsInParts, read_folder, write_folder
from nearfar._version import __version__
from nearfar.embedding.files import mixtures, quantized
from nearfar.embedding.files.content import SAVE, Arrays, Content, dump_parameters, load_parameters
from nearfar.embedding.files.registry import FOLDERS, register
from nearfar.embedding.mixtures import Mixtures, unsigned_dtype
from nearfar.embedding.quantized import CodedRows, QuantizedRows

FORMAT, VERSION = "nearfar.embedding", "1"
FOLDER = FolderKind("folder of vectors", "embedding.json", FORMAT, 1)
_SIDES = {"": "vectors", "context.": "context_vectors"}
Stored = Mapping[str, NDArray[np.generic] | LazyRows]


class _Storage(NamedTuple):
    """How rows stand in a file: its format, that of senses, and the ways of the rows of a side to arrays and back."""

    plain: str
    senses: str
    version: str
    write: Callable[[Matrix, str], tuple[Stored, dict[str, str]]]
    read: Callable[[Path, Arrays, dict[str, str], str], Matrix | None]


def _write_floats(rows: Matrix, side: str) -> tuple[Stored, dict[str, str]]:
    return {_SIDES[side]: rows if isinstance(rows, RowsInParts) else np.asarray(rows)}, {}


def _read_floats(path: Path, arrays: Arrays, metadata: dict[str, str], side: str) -> Matrix | None:  # noqa: ARG001
    return cast("Matrix | None", arrays.get(_SIDES[side]) if side else arrays["vectors"])


_FLOATS = _Storage(FORMAT, "nearfar.senses", VERSION, _write_floats, _read_floats)
_QUANTIZED = _Storage(
    "nearfar.quantized", "nearfar.quantized_senses", quantized.VERSION, quantized.write_rows, quantized.read_rows
)


def to_arrays(content: Content, storage: _Storage = _FLOATS) -> tuple[Stored, dict[str, str]]:
    """Return the arrays and the metadata that stand for the content."""
    ids, form = content.ids, storage.plain
    stored, metadata = storage.write(content.vectors, "")
    arrays = dict(stored)
    if content.weights is not None:
        ids, of_senses = _of_senses(content)
        arrays.update(of_senses)
        form = storage.senses
    kind, names = pack_ids(SAVE, "ids", ids)
    metadata |= {"format": form, "version": storage.version, "nearfar": __version__, "ids": kind}
    if content.context_vectors is not None and content.context_ids is not None:
        metadata["context_ids"] = "same"
        if content.context_ids != ids:
            metadata["context_ids"], others = pack_ids(SAVE, "context_ids", content.context_ids)
            names |= others
        arrays.update(storage.write(content.context_vectors, "context.")[0])
    arrays.update(names)
    return arrays, metadata | {"parameters": dump_parameters(content.parameters)}


_FORMS: dict[type, Callable[[Content], tuple[Stored, dict[str, str]]]] = {  # other than plain vectors
    Mixtures: mixtures.to_arrays,
    QuantizedRows: partial(to_arrays, storage=_QUANTIZED),
    CodedRows: quantized.to_coded_arrays,
}


def from_arrays(path: Path, arrays: Arrays, metadata: dict[str, str]) -> Content:
    """Return the content from its arrays and metadata.

    Raises
    ------
    FileFormatError
        If something is missing or does not fit, or if the file is of a later version of the format.
    """
    others = {
        mixtures.FORMAT: (mixtures.VERSION, mixtures.from_arrays),
        mixtures.PACKED: (mixtures.VERSION, mixtures.from_packed),
        quantized.CODED: (quantized.VERSION, quantized.from_coded_arrays),
    }
    storages = {form: kind for kind in (_FLOATS, _QUANTIZED) for form in (kind.plain, kind.senses)}
    versions = {form: kind.version for form, kind in storages.items()}
    form = check_version(
        path, metadata, "an embedding", versions | {name: known for name, (known, _) in others.items()}
    )
    if form in others:
        return others[form][1](path, arrays, metadata)
    storage = storages[form]
    vectors, weights = cast("Matrix", storage.read(path, arrays, metadata, "")), None
    of_senses = form == storage.senses
    names = unpack_ids(path, "ids", metadata["ids"], arrays, len(arrays["counts"] if of_senses else vectors))
    ids = names
    if of_senses:
        weights, ids = arrays["weights"], _ids_of_senses(path, arrays, names, len(vectors))
    parameters = load_parameters(metadata["parameters"])
    context = storage.read(path, arrays, metadata, "context.")
    if context is None:
        return Content(vectors, ids, parameters=parameters, weights=weights)
    kind = metadata["context_ids"]
    context_ids = names if kind == "same" else unpack_ids(path, "context_ids", kind, arrays, len(context))
    if len(context_ids) != len(context):
        raise bad_file(path, "one with an id for each row of the other side", f"{len(context_ids)} for {len(context)}")
    return Content(vectors, ids, context, context_ids, parameters, weights)


def _of_senses(content: Content) -> tuple[Ids, Arrays]:
    """Return the words, and the arrays that say which of them each sense is of."""
    words: dict[Hashable, int] = {}
    pairs = cast("list[tuple[Hashable, int]]", content.ids.to_list())
    for word, _ in pairs:
        words[word] = words.get(word, 0) + 1
    counts, numbers = (np.array([*values], np.int64) for values in (words.values(), [k for _, k in pairs]))
    arrays = {"counts": counts, "numbers": numbers}
    packed = {name: array.astype(unsigned_dtype(int(array.max(initial=0)))) for name, array in arrays.items()}
    return Ids.of_distinct(words), packed | {"weights": np.asarray(content.weights, np.float32)}


def _ids_of_senses(path: Path, arrays: Arrays, words: Ids, n: int) -> Ids:
    counts, numbers, weights = (arrays[name] for name in ("counts", "numbers", "weights"))
    shapes = counts.ndim, numbers.shape, weights.shape
    if shapes != (1, (n,), (n,)) or {counts.dtype.kind, numbers.dtype.kind} != {"u"} or counts.sum(dtype=object) != n:
        raise bad_file(path, f"one with a word, a number and a weight for each of {n} senses", f"shapes {shapes}")
    of = np.repeat(np.arange(len(words)), counts).tolist()
    return Ids([(words[word], number) for word, number in zip(of, numbers.tolist(), strict=True)])


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
