"""Writers and readers: rows per second of each format, and of other libraries that write or read the same.

    python -m lab run writers

100,000 vectors of 100 numbers in float32, ids of text. Seconds are those of the processor, all threads of the program
together: disks and machines that are shared blur the others. A format whose package is not installed is left out.
nearfar checks ids and vectors when it reads, and forces files to the disk; the others do not. ``--formats`` and
``--by`` take only these.
"""

from __future__ import annotations

import importlib.util
import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, mib

FILES = {
    "safetensors": ".safetensors",
    "npz": ".npz",
    "parquet": ".parquet",
    "word2vec text": ".vec",
    "word2vec binary": ".bin",
    "projector": ".tsv",
}
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def by_numpy(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    path, ids = folder / "o.npz", np.array(emb.ids.to_list())
    read = lambda: [np.load(path)[name] for name in ("ids", "vectors")]  # noqa: E731
    return {("npz", "NumPy"): (lambda: np.savez(path, ids=ids, vectors=emb.vectors), read)}


def arrow_table(emb: nf.Embedding) -> Any:
    import pyarrow as pa

    flat = pa.array(emb.vectors.reshape(-1))
    return pa.table({"id": emb.ids.to_list(), "vector": pa.FixedSizeListArray.from_arrays(flat, emb.n_components)})


def by_pyarrow(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    from pyarrow import parquet

    path = folder / "o.parquet"
    write, read = (lambda: parquet.write_table(arrow_table(emb), path)), (lambda: parquet.read_table(path))
    return {("parquet", "pyarrow"): (write, read)}


def by_pandas(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    import pandas as pd

    path = folder / "p.parquet"
    frame = pd.DataFrame({"id": emb.ids.to_list(), "vector": list(emb.vectors)})
    return {("parquet", "pandas"): (lambda: frame.to_parquet(path), lambda: pd.read_parquet(path))}


def by_gensim(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    from gensim.models import KeyedVectors

    keyed = emb.to_gensim()

    def pair(binary: bool) -> Pair:
        path = str(folder / f"o{binary}")
        write = lambda: keyed.save_word2vec_format(path, binary=binary)  # noqa: E731
        return write, lambda: KeyedVectors.load_word2vec_format(path, binary=binary)

    return {("word2vec text", "gensim"): pair(False), ("word2vec binary", "gensim"): pair(True)}


OTHERS = {"numpy": by_numpy, "pyarrow": by_pyarrow, "pandas": by_pandas, "gensim": by_gensim}


def pairs_of(emb: nf.Embedding, targets: dict[str, Path], folder: Path) -> dict[tuple[str, str], Pair]:
    """Return what writes and what reads, by format and program."""
    pairs: dict[tuple[str, str], Pair] = {}
    for kind, target in targets.items():
        if kind != "parquet" or importlib.util.find_spec("pyarrow"):
            pairs[kind, "nearfar"] = partial(emb.save, target), partial(nf.Embedding.load, target)
    for package, make in OTHERS.items():
        pairs |= make(emb, folder) if importlib.util.find_spec(package) else {}
    return pairs


def run(file: ResultFile, given: Namespace) -> None:
    X = np.random.default_rng(0).normal(size=(given.n, given.components)).astype(np.float32)
    emb = nf.Embedding(X, [f"word_{row}" for row in range(given.n)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = {kind: folder / f"x{suffix}" for kind, suffix in FILES.items()}
        for (kind, by), (write, read) in pairs_of(emb, targets, folder).items():
            if kind not in (given.formats or [kind]) or by not in (given.by or [by]) or not file.new(kind, by):
                continue
            speeds: dict[str, list[float]] = {"writing": [], "reading": []}
            for _ in range(given.repeats):
                speeds["writing"].append(given.n / cpu_timed(write)[1])
                speeds["reading"].append(given.n / cpu_timed(read)[1])
            size = targets[kind].stat().st_size if by == "nearfar" else 0
            sizes = {"n": given.n, "d": given.components, "bytes": size}
            file.add({"format": kind, "by": by, **sizes, **speeds})


def told(section: Section, records: list[Record]) -> None:
    """100,000 vectors of 100 numbers (38 MiB), ids of text; processor seconds, medians of three, one run of the text
    formats. nearfar checks ids and vectors when it reads; the others do not.
    """
    kinds = list(dict.fromkeys(r["format"] for r in records))
    section.rows(
        "format | by | rows written per second | rows read per second | size",
        "{format} | {by} | {writing:,.0f} | {reading:,.0f} | {size}",
        sorted(
            ({**r, "size": mib(r["bytes"]) if r["bytes"] else "–"} for r in records),
            key=lambda r: (kinds.index(r["format"]), r["by"] != "nearfar"),
        ),
    )


EXPERIMENT = Experiment("Writers and readers", run, "format by").takes(
    n=100_000, components=100, repeats=3, formats=Choice((), tuple(FILES)), by=Choice((), ())
)
