"""Write the files of a release into tests/files/VERSION: small ones of each format, and what is in them.

Run once for each release, after its version was set: ``python tests/files/make.py``. The files are committed and never
made again: test_old_files.py reads those of all releases. They are made by this code alone, from no data.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import nearfar as nf
from nearfar.callbacks import Checkpoint

IDS = ["ann", "Zoë", "new york", "日本"]
VECTORS = np.array([[1.5, -2, 0.25], [0, 3, 1], [-1, 0.5, 2], [4, 1, -0.75]], np.float32)
CONTEXT = np.array([[0.5, 1, 0], [2, -1, 3]], np.float32)
EDGES = [("ann", "bob", 1.5), ("bob", "cy", 2.0), ("cy", "dan", 0.5), ("dan", "ann", 1.0), ("ann", "cy", 3.0)]
TEXT = [["the", "sea", "the", "ship"], ["a", "sea", "a", "ship"]] * 3
FIT = {"n_components": 2, "n_epochs": 6, "random_state": 0, "n_jobs": 1}
SUFFIXES = {".safetensors": "", ".npz": "", ".parquet": "pyarrow", ".h5ad": "anndata"}
SUFFIXES |= {".txt": "", ".vec.gz": "", ".bin": "", ".tsv": ""}


def graph() -> nf.Relation:
    return nf.Relation.from_edges(EDGES, directed=True)


def plain() -> nf.Embedding:
    return nf.Embedding(VECTORS, IDS, parameters={"n_components": 3})


def kinds() -> dict[str, nf.Embedding]:
    """Embeddings of every kind, which the native file keeps as they are."""
    weights = np.array([[0.5, 0.5], [1, 0], [0, 2], [0.25, 0.75]])
    factors = np.stack([VECTORS, VECTORS[::-1]], axis=2)
    senses = [("ann", 0), ("ann", 2), ("Zoë", 0), ("日本", 1)]
    two_sided = nf.Embedding(VECTORS, IDS, context_vectors=CONTEXT, context_ids=[("b", 1), 2.5])
    many = nf.SenseEmbedding(VECTORS, senses, weights=[0.5, 0.5, 1, 1], context_vectors=VECTORS)
    return {
        "two-sided": two_sided,
        "integers": nf.Embedding(VECTORS.astype(np.float64), [7, -1, 40, 2]),
        "density": nf.DensityEmbedding.from_factors(factors, IDS),
        "anchored": nf.AnchoredEmbedding(weights, CONTEXT, IDS),
        "anchored-packed": nf.AnchoredEmbedding(weights, CONTEXT, IDS).quantize(),
        "senses": many,
        "senses-int4": many.quantize("int4"),
        "int8": plain().quantize("int8"),
        "int4": plain().quantize("int4"),
    }


def write(folder: Path) -> None:
    """Write everything."""
    folder.mkdir()
    for suffix, package in SUFFIXES.items():
        if package and importlib.util.find_spec(package) is None:
            sys.exit(f"{package} must be installed for {suffix}")
        plain().save(folder / f"plain{suffix}")
    values = {}
    for name, made in kinds().items():
        made.save(folder / f"{name}.safetensors")
        values[name] = np.asarray(made.vectors, np.float64).tolist()
    graph().save(folder / "relation")
    nf.Relation.from_edges(EDGES, bipartite=True).save(folder / "bipartite")
    nf.Corpus(TEXT).encode(min_count=1, folder=folder / "text")
    nf.Corpus(TEXT).vocabulary().save(folder / "words.tsv")
    stop = [Checkpoint(folder / "edrep.checkpoint", every=3), lambda progress: progress.epoch == 3]
    nf.EDRep(**FIT, callbacks=stop).fit(graph())
    stop = [Checkpoint(folder / "skipgram.checkpoint", every=3), lambda progress: progress.epoch == 3]
    nf.SkipGram(**FIT, min_count=1, sample=0, learning_rate=None, callbacks=stop).fit(TEXT)
    for kind in ("faiss", "usearch"):
        plain().index(kind, n_jobs=1).save(folder / f"{kind}.index")
    (folder / "values.json").write_text(json.dumps(values))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write(Path(__file__).parent / nf.__version__)
