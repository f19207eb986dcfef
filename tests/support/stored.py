"""Everything that can be stored, in versions: what is damaged, replaced while it is read, and written by who is killed.

A version is written to a path, and loaded from it: :func:`state_of` says what was found, :func:`check` if it is sound.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nearfar as nf
from nearfar._core import checkpoint

IDS = ["ann", "Zoë", "50%", "new york", "日本"]
VERIFIED = partial(nf.Relation.open, verify=True)
AN_HOUR_AGO = 4000  # seconds: what was left so long ago is removed by the next writer


class UnsoundError(Exception):
    """Something was read that it should not have been."""


class Kind(NamedTuple):
    """A format: what writes a version of it to a path in a folder, and what loads it."""

    name: str
    path: str
    write: Callable[[Path, int], object]
    load: Callable[[Path], Any]
    checksums: bool = True
    state: Callable[[Any], object] = lambda found: state_of(found)


def vectors(version: int, n: int = 5, d: int = 3) -> np.ndarray:
    return np.random.default_rng(version).standard_normal((n, d)).astype(np.float32)


def ids(version: int, n: int = 5) -> list[str]:
    """The first two versions have the same ids, the others as many."""
    names = [*IDS, *(f"id {k}" for k in range(n))][:n]
    return names if version < 2 else [f"{version} {name}" for name in names]


def plain(version: int = 0, n: int = 5) -> nf.Embedding:
    return nf.Embedding(vectors(version, n), ids(version, n), parameters={"version": version})


def two_sided(version: int = 0, n: int = 5) -> nf.Embedding:
    others, of = vectors(version + 50, n).astype(np.float64), [("b", k / 2) for k in range(n)]
    return nf.Embedding(vectors(version, n), ids(version, n), context_vectors=others, context_ids=of)


def density(version: int = 0, n: int = 5) -> nf.DensityEmbedding:
    return nf.DensityEmbedding.from_factors(vectors(version, 6 * n, 1).reshape(n, 3, 2), ids(version, n))


def anchored(version: int = 0, n: int = 5) -> nf.AnchoredEmbedding:
    return nf.AnchoredEmbedding(abs(vectors(version, n)) + 0.1, vectors(version + 50, 3, 2), ids(version, n))


def senses(version: int = 0, n: int = 5) -> nf.SenseEmbedding:
    names, found = ids(version, n), vectors(version, n)
    keys = [(names[0], 0), (names[0], 2), *((name, 0) for name in names[1:-1])]
    return nf.SenseEmbedding(found, keys, weights=[0.5, 0.5, *[1] * (n - 2)], context_vectors=found)


def embedding(suffix: str, make: Callable[..., nf.Embedding], n: int, name: str = "", checksums: bool = True) -> Kind:
    write = lambda path, version: make(version, n).save(path)  # noqa: E731
    return Kind(f"{suffix} {name}".strip(), f"x{suffix}", write, type(make()).load, checksums)


def write_parts(path: Path, version: int, n: int) -> None:
    from nearfar.embedding.content import Content
    from nearfar.embedding.native import write_parts as write

    emb = two_sided(version, n)
    content = Content(emb.vectors, emb.ids, emb.context_vectors, emb.context_ids, {"version": version})
    write("stored", "path", path, content)


def write_relation(path: Path, version: int, n: int) -> None:
    edges = [(f"n{k}", f"n{k * k % 997 % n}", 1.0 + (k + version) % 5) for k in range(n)]
    nf.Relation.from_edges(edges, directed=True, storage=path)


def write_text(path: Path, version: int, n: int) -> None:
    words = [f"w{k * (version + 1) % 5}" for k in range(2 * n)]
    nf.Corpus([words, words[:5]]).encode(min_count=1, folder=path)


def write_checkpoint(path: Path, version: int, n: int) -> None:
    arrays = {"X": vectors(version, n), "order": np.arange(version, version + 4)}
    checkpoint.write("stored", path, checkpoint.Snapshot(arrays, {"epoch": version}, {"kind": "stored"}))


def index(name: str, n: int) -> Kind:
    """Versions look farther and farther; all are of one embedding."""
    emb = nf.Embedding(vectors(0, 8 * n), ids(0, 8 * n))
    write = lambda path, version: emb.index(name, expansion=20 + version, n_jobs=1).save(path)  # noqa: E731
    return Kind(f"index, {name}", "x.index", write, emb.open_index)


def kinds(n: int = 5) -> list[Kind]:
    """All of them, of so many rows, as far as what they need is installed."""
    needs = {".parquet": "pyarrow", ".h5ad": "anndata", "usearch": "usearch", "faiss": "faiss", "lists": "faiss"}
    there = {name for name, package in needs.items() if find_spec(package)}
    suffixes = [".safetensors", ".npz", ".vec", ".bin", ".vec.gz", ".bin.gz", ".csv", *(there & {".parquet", ".h5ad"})]
    of_native = {
        "two-sided": two_sided,
        "density": density,
        "anchored": anchored,
        "senses": senses,
        "int8": lambda *given: plain(*given).quantize(),
        "int4": lambda *given: plain(*given).quantize("int4"),
        "senses, int8": lambda *given: senses(*given).quantize(),
        "anchored, packed": lambda *given: anchored(*given).quantize("int8"),
    }
    return [
        *(embedding(end, plain, n, checksums=end not in (".vec", ".bin", ".csv", ".h5ad")) for end in suffixes),
        *(embedding(".safetensors", make, n, name) for name, make in of_native.items()),
        Kind("parts", "stored", partial(write_parts, n=n), nf.Embedding.load),
        Kind("checkpoint", "x.safetensors", partial(write_checkpoint, n=n), checkpoint.read),
        Kind("relation", "stored", partial(write_relation, n=n), nf.Relation.open),
        Kind("relation, transposed", "stored", partial(write_relation, n=n), VERIFIED, state=transposed),
        Kind("text", "stored", partial(write_text, n=n), nf.EncodedCorpus.open),
        *(index(name, n) for name in ("faiss", "usearch", "lists") if name in there),
    ]


def state_of(found: Any) -> object:
    """Return what was loaded, as values that can be compared."""
    if isinstance(found, nf.Embedding):
        rows = [found.vectors] if found.context_vectors is None else [found.vectors, found.context_vectors]
        return [np.asarray(each).tobytes() for each in rows], found.ids.to_list(), found.parameters
    if isinstance(found, nf.Relation):
        return found.row_ids.to_list(), found.matmat(np.arange(float(found.shape[1])), n_jobs=1).tobytes()
    if isinstance(found, nf.EncodedCorpus):
        counted, words = nf.Relation.from_corpus(found, window=2), found.vocabulary
        return words.words.to_list(), words.counts.tolist(), counted.row_sums.tobytes(), found.n_tokens
    if isinstance(found, nf.index.EmbeddingIndex):
        return found.recall_interval, found._effort, found.search(found.embedding.ids[:5], 3, n_jobs=1)[0].tolist()
    return {name: array.tobytes() for name, array in found.arrays.items()}, found.facts, found.identity


def transposed(found: nf.Relation) -> object:
    """What is needed for it is used where it is there, and made where it is not."""
    return found.row_ids.to_list(), found.rmatmat(np.arange(float(found.shape[0])), n_jobs=1).tobytes()


def check(found: Any) -> None:
    """Refuse rows that are not finite, ids that are not distinct, what does not fit together or cannot be used."""
    if isinstance(found, nf.Embedding):
        X, keys = np.asarray(found.vectors), found.ids.to_list()
        if X.ndim != 2 or len(X) != len(keys) or len(set(keys)) != len(keys) or not np.isfinite(X).all():
            raise UnsoundError(f"vectors of shape {X.shape}, {len(keys)} ids, {len(set(keys))} of them distinct")
        if keys:
            np.testing.assert_array_equal(found[keys[-1]], X[-1])
        if len(keys) > 1 and X.shape[1] and X.size < 10_000:
            found.most_similar(keys[0], topn=1)
        with tempfile.TemporaryDirectory() as folder:
            found.save(Path(folder, "x.safetensors"))
    elif isinstance(found, nf.Relation):
        rows, columns = found.row_ids.to_list(), found.column_ids.to_list()
        if (len(rows), len(columns)) != found.shape or len(set(rows)) != len(rows):
            raise UnsoundError(f"{len(rows)} and {len(columns)} ids for shape {found.shape}")
        product = found.normalized().matmat(np.ones((found.shape[1], 2), np.float32))
        if product.shape != (found.shape[0], 2) or not np.isfinite(product).all():
            raise UnsoundError(f"a product of shape {product.shape}, {np.isfinite(product).sum()} numbers of it finite")
    elif isinstance(found, nf.EncodedCorpus):
        check(nf.Relation.from_corpus(found, window=2))
    else:
        state_of(found)
