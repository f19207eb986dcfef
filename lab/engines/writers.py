"""Writers and readers: rows per second of each format, and of other libraries that write or read the same.

    python -m lab run writers --postgres postgresql://tester@/postgres?host=/tmp/socket

100,000 vectors of 100 numbers in float32, ids of text. Seconds are those of the processor, all threads of the program
together: disks and machines that are shared blur the others. That of PostgreSQL's server are not in them. A format
whose package is not installed is left out, PostgreSQL where no address is given. nearfar checks ids and vectors when it
reads, and forces files to the disk; the others do not. ``--formats`` and ``--by`` take only these.
"""

from __future__ import annotations

import importlib.util
import sys
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
    "AnnData": ".h5ad",
    "faiss": ".faiss",
    "usearch": ".usearch",
    "sqlite-vec": ".sqlite",
    "LanceDB": ".lance",
}
PACKAGES = {
    "parquet": "pyarrow", "AnnData": "h5py", "usearch": "usearch", "sqlite-vec": "sqlite_vec", "LanceDB": "lancedb"
}  # fmt: skip
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


def by_anndata(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    import anndata
    import pandas as pd

    path, index = folder / "o.h5ad", pd.DataFrame(index=pd.Index(emb.ids.to_list(), dtype=object))
    cells = anndata.AnnData(obs=index, var=index[:0], obsm={"X": emb.vectors})

    def write() -> None:
        with anndata.settings.override(allow_write_nullable_strings=True):
            cells.write_h5ad(path)

    return {("AnnData", "anndata"): (write, lambda: anndata.read_h5ad(path))}


def by_faiss(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    import faiss

    path = str(folder / "o.faiss")

    def write() -> None:
        flat = faiss.IndexFlatIP(emb.n_components)
        flat.add(emb.vectors)
        faiss.write_index(flat, path)

    return {("faiss", "faiss"): (write, lambda: faiss.read_index(path).reconstruct_n())}


def by_usearch(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    from usearch.index import Index

    path = str(folder / "o.usearch")

    def write() -> None:
        graph = Index(ndim=emb.n_components, metric="cos", dtype="f32")
        graph.add(np.arange(len(emb), dtype=np.uint64), emb.vectors, threads=1)
        graph.save(path)

    def read() -> Any:
        graph = Index.restore(path)
        return graph.get(np.arange(len(emb), dtype=np.uint64))

    return {("usearch", "usearch"): (write, read)}


def by_lancedb(emb: nf.Embedding, folder: Path) -> dict[tuple[str, str], Pair]:
    import lancedb

    database = lancedb.connect(folder)
    write = lambda: database.create_table("o", arrow_table(emb), mode="overwrite")  # noqa: E731
    return {("LanceDB", "lancedb"): (write, lambda: database.open_table("o").to_arrow())}


def by_psycopg(emb: nf.Embedding, address: str) -> dict[tuple[str, str], Pair]:
    import psycopg

    def write() -> None:
        with psycopg.connect(address) as server, server.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS o")
            cursor.execute(f"CREATE TABLE o (id text PRIMARY KEY, vector vector({emb.n_components}))")
            rows = ((key, str(row)) for key, row in zip(emb.ids, emb.vectors.tolist(), strict=True))
            cursor.executemany("INSERT INTO o VALUES (%s, %s)", rows)

    def read() -> Any:
        with psycopg.connect(address) as server:
            return server.execute("SELECT id, vector::real[] FROM o").fetchall()

    return {("PostgreSQL", "psycopg, INSERT and SELECT"): (write, read)}


OTHERS = {
    "numpy": by_numpy,
    "pyarrow": by_pyarrow,
    "pandas": by_pandas,
    "gensim": by_gensim,
    "anndata": by_anndata,
    "faiss": by_faiss,
    "usearch": by_usearch,
    "lancedb": by_lancedb,
}


def pairs_of(
    emb: nf.Embedding, targets: dict[str, str], folder: Path, postgres: str | None
) -> dict[tuple[str, str], Pair]:
    """Return what writes and what reads, by format and program."""
    pairs: dict[tuple[str, str], Pair] = {}
    for kind, target in targets.items():
        if kind not in PACKAGES or importlib.util.find_spec(PACKAGES[kind]):
            pairs[kind, "nearfar"] = partial(emb.save, target, if_exists="replace"), partial(nf.Embedding.load, target)
    for package, make in OTHERS.items():
        pairs |= make(emb, folder) if importlib.util.find_spec(package) else {}
    return pairs | (by_psycopg(emb, postgres) if postgres else {})


def run(file: ResultFile, given: Namespace) -> None:
    sys.argv = ["ADDRESS" if word == given.postgres else word for word in sys.argv]  # it may have a password
    X = np.random.default_rng(0).normal(size=(given.n, given.components)).astype(np.float32)
    emb = nf.Embedding(X, [f"word_{row}" for row in range(given.n)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = {kind: str(folder / f"x{suffix}") for kind, suffix in FILES.items()}
        targets |= {"PostgreSQL": f"{given.postgres}#x"} if given.postgres else {}
        for (kind, by), (write, read) in pairs_of(emb, targets, folder, given.postgres).items():
            if kind not in (given.formats or [kind]) or by not in (given.by or [by]) or not file.new(kind, by):
                continue
            speeds: dict[str, list[float]] = {"writing": [], "reading": []}
            for _ in range(1 if kind == "usearch" else given.repeats):  # it builds a graph each time
                speeds["writing"].append(given.n / cpu_timed(write)[1])
                speeds["reading"].append(given.n / cpu_timed(read)[1])
            target = Path(targets[kind])
            size = sum(path.stat().st_size for path in [target, *target.rglob("*")] if path.is_file())
            sizes = {"n": given.n, "d": given.components, "bytes": size if by == "nearfar" else 0}
            file.add({"format": kind, "by": by, **sizes, **speeds})


def told(section: Section, records: list[Record]) -> None:

    section.say("""100,000 vectors of 100 numbers in float32 (38 MiB), ids of text; medians of three, but one run of
        the text formats, of PostgreSQL and of usearch, which builds a graph by one thread. Seconds are those of the
        processor, all threads together; those of PostgreSQL's server are not in them. nearfar checks ids and
        vectors when it reads; the others do not. LanceDB's size is that of three versions.""")
    kinds = list(dict.fromkeys(r["format"] for r in records))
    section.rows(
        "format | by | rows written per second | rows read per second | size",
        "{format} | {by} | {writing:,.0f} | {reading:,.0f} | {size}",
        sorted(
            ({**r, "size": mib(r["bytes"]) if r["bytes"] else "–"} for r in records),
            key=lambda r: (kinds.index(r["format"]), r["by"] != "nearfar"),
        ),
    )


EXPERIMENT = Experiment(
    "Writers and readers",
    ("format", "by"),
    run,
    {
        "n": 100_000,
        "components": 100,
        "repeats": 3,
        "formats": Choice((), (*FILES, "PostgreSQL")),
        "by": Choice((), ()),
        "postgres": str,
    },
    command="--postgres ADDRESS",
)
