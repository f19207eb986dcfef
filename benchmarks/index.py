"""Approximate indexes: building, queries per second and recall@10, beside exact search, faiss and usearch themselves.

    python benchmarks/index.py
    python benchmarks/index.py --sizes 100000 --graphs

Vectors are those of a million passages of English Wikipedia: the weighted mean of the vectors of 15 words (Arora, Liang
& Ma 2017, "A simple but tough-to-beat baseline for sentence embeddings"), less the mean of all, at length 1. The words'
vectors are of SkipGram on the first 25 MB of the text. Queries are other passages. The passages are made once, and kept
in the folder for temporary files.

One worker each; times are those of the processor, so that other work on the machine counts less, and methods take
turns. ``--graphs`` adds the graphs (usearch, and HNSW of faiss), which take minutes to build for a million. faiss and
usearch alone answer with scores of float32 of what they store; nearfar ranks their answers by the vectors and returns
ids.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

import nearfar as nf
from _common import DATA, ResultFile, say

KEYS = ("n", "method")
D, TOPN, WORDS, TRAINED = 100, 10, 15, 25_000_000
KEPT = Path(tempfile.gettempdir()) / "nearfar-passages.npy"


def passages() -> Any:
    """Return the vectors of all passages, rows of length 1 in an order by chance."""
    if KEPT.exists():
        return np.load(KEPT)
    with lzma.open(DATA / "wiki_text8_style" / "wiki_100M.txt.xz", "rt") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_text(text[:TRAINED])
        encoded = nf.Corpus(path, n_jobs=1).encode(min_count=5)
        words = nf.SkipGram(D, n_epochs=2, random_state=0, n_jobs=1).fit(encoded).vectors_
    rows = words.ids.rows(text.split())
    rows = rows[rows >= 0]
    share = np.bincount(rows, minlength=len(words)) / len(rows)
    weighted = (1e-3 / (1e-3 + share))[:, None] * words.vectors
    n = len(rows) // WORDS
    X = np.empty((n, D), np.float32)
    for start in range(0, n, 2**15):
        stop = min(start + 2**15, n)
        X[start:stop] = weighted[rows[start * WORDS : stop * WORDS].reshape(-1, WORDS)].sum(axis=1)
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = X[np.random.default_rng(0).permutation(n)]
    np.save(KEPT, X)
    return X


def recall(found: Any, true: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / TOPN for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


def seconds_of(task: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a task gives, and its seconds of processor time."""
    started = time.process_time()
    return task(), time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--graphs", action="store_true")
    args = parser.parse_args()
    file, X = ResultFile("index", KEYS), passages()
    with threadpool_limits(1):
        faiss.omp_set_num_threads(1)
        for n in args.sizes:
            measure(file, X[:n], X[-args.queries :], args.repeats, args.graphs)


def measure(file: ResultFile, X: Any, Q: Any, repeats: int, graphs: bool) -> None:
    n, emb = len(X), nf.Embedding(X)
    n_exact = min(len(Q), max(256, 2 * 10**8 // n))
    flat = faiss.IndexFlatIP(D)
    flat.add(X)
    building = {
        "nearfar, exact": 0.0,
        "faiss, flat": 0.0,
        "nearfar, exact, one query": 0.0,
        "faiss, flat, one query": 0.0,
    }
    tasks: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "nearfar, exact": (lambda Q: emb.search(Q, TOPN, n_jobs=1)[0], Q[:n_exact]),
        "faiss, flat": (lambda Q: flat.search(Q, TOPN)[1], Q[:n_exact]),
        "nearfar, exact, one query": (lambda Q: emb.search(Q, TOPN, n_jobs=1)[0], Q[:1]),
        "faiss, flat, one query": (lambda Q: flat.search(Q, TOPN)[1], Q[:1]),
    }
    kinds = [("lists", "float32")] * (n >= 100_000) + [("usearch", "float32"), ("usearch", "int8")] * graphs
    for kind, storage in kinds:
        name = f"nearfar, {kind}" + f", {storage}" * (kind != "lists")
        index, building[name] = seconds_of(lambda k=kind, s=storage: emb.index(k, storage=s, n_jobs=1))
        tasks[name] = (lambda Q, index=index: index.search(Q, TOPN, n_jobs=1)[0], Q)
        raw, effort = index._backend._index, index._effort  # the same index, asked without nearfar
        if kind == "lists":
            name, parameters = "faiss, the same lists", faiss.SearchParametersIVF(nprobe=effort)
            tasks[name] = (lambda Q, raw=raw, p=parameters: raw.search(Q, TOPN, params=p)[1], Q)
        else:
            name = f"usearch, {storage}, the same graph"
            tasks[name] = (lambda Q, raw=raw: raw.search(Q, TOPN, threads=1).keys, Q)
        building[name] = building[list(building)[-1]]
        say(f"{name}: built in {building[name]:.0f} s, effort {effort}, recall {index.recall:.3f}")
    if graphs:
        graph = faiss.IndexHNSWFlat(D, 16, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = 128, 64
        building["faiss, HNSW"] = seconds_of(lambda: graph.add(X))[1]
        tasks["faiss, HNSW"] = (lambda Q: graph.search(Q, TOPN)[1], Q)
    true = emb.search(Q, TOPN, n_jobs=1)[0]
    found: dict[str, Any] = {}
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, (ask, queries) in tasks.items():
            found[name], seconds = seconds_of(lambda ask=ask, queries=queries: ask(queries))
            taken[name].append(seconds / len(queries))
    for name, times in taken.items():
        share = recall(np.asarray(found[name]), true[: len(found[name])])
        per_second = [1 / each for each in times]
        file.add({"n": n, "method": name, "building": building[name], "per_second": per_second, "recall": share})
        say(f"{name}, {n:,}: {np.median(per_second):.0f}/s, recall {share:.3f}")


if __name__ == "__main__":
    main()
