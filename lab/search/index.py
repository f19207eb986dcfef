"""Approximate indexes: building, queries per second and recall@10, beside exact search, faiss and usearch themselves.

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

import lzma
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import DATA, text_file
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, distinct, pick

D, TOPN, WORDS, TRAINED = 100, 10, 15, 25_000_000
KEPT = Path(tempfile.gettempdir()) / "nearfar-passages.npy"


def passages() -> Any:
    """Return the vectors of all passages, rows of length 1 in an order by chance."""
    if KEPT.exists():
        return np.load(KEPT)
    with lzma.open(DATA / "wiki_text8_style" / "wiki_100M.txt.xz", "rt") as file:
        text = file.read()
    with text_file(text[:TRAINED]) as path:
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


def measure(file: ResultFile, X: Any, Q: Any, repeats: int, graphs: bool) -> None:
    import faiss

    n, emb = len(X), nf.Embedding(X)
    many, one = Q[: min(len(Q), max(256, 2 * 10**8 // n))], Q[:1]
    flat = faiss.IndexFlatIP(D)
    flat.add(X)
    ours, theirs = (lambda Q: emb.search(Q, TOPN, n_jobs=1)[0]), (lambda Q: flat.search(Q, TOPN)[1])
    tasks: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "nearfar, exact": (ours, many),
        "faiss, flat": (theirs, many),
        "nearfar, exact, one query": (ours, one),
        "faiss, flat, one query": (theirs, one),
    }
    building = dict.fromkeys(tasks, 0.0)
    kinds = [("lists", "float32")] * (n >= 100_000) + [("usearch", "float32"), ("usearch", "int8")] * graphs
    for kind, storage in kinds:
        index, seconds = cpu_timed(emb.index, kind, storage=storage, n_jobs=1)
        name = f"nearfar, {kind}" + f", {storage}" * (kind != "lists")
        tasks[name] = (lambda Q, index=index: index.search(Q, TOPN, n_jobs=1)[0]), Q
        raw, effort = index._backend._index, index._effort  # the same index, asked without nearfar
        if kind == "lists":
            other, parameters = "faiss, the same lists", faiss.SearchParametersIVF(nprobe=effort)
            tasks[other] = (lambda Q, raw=raw, p=parameters: raw.search(Q, TOPN, params=p)[1]), Q
        else:
            other = f"usearch, {storage}, the same graph"
            tasks[other] = (lambda Q, raw=raw: raw.search(Q, TOPN, threads=1).keys), Q
        building |= {name: seconds, other: seconds}
    if graphs:
        graph = faiss.IndexHNSWFlat(D, 16, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = 128, 64
        building["faiss, HNSW"] = cpu_timed(lambda: graph.add(X))[1]
        tasks["faiss, HNSW"] = (lambda Q: graph.search(Q, TOPN)[1]), Q
    true = emb.search(Q, TOPN, n_jobs=1)[0]
    found: dict[str, Any] = {}
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _, (name, (ask, queries)) in product(range(repeats), tasks.items()):
        found[name], seconds = cpu_timed(ask, queries)
        taken[name].append(seconds / len(queries))
    for name, spent in taken.items():
        share = recall(np.asarray(found[name]), true[: len(found[name])])
        per_second = [1 / each for each in spent]
        file.add({"n": n, "method": name, "building": building[name], "per_second": per_second, "recall": share})


def run(file: ResultFile, given: Namespace) -> None:
    import faiss
    from threadpoolctl import threadpool_limits

    X = passages()
    with threadpool_limits(1):
        faiss.omp_set_num_threads(1)
        for n in given.sizes:
            measure(file, X[:n], X[-given.queries :], given.repeats, given.graphs)


def told(section: Section, records: list[Record]) -> None:
    """Vectors of a million passages of Wikipedia, 100 components; 10 answers, 1,000 queries at once (256 of the exact
    searches of a million), 1 worker. Queries per processor second, median (least – most); processor seconds of
    building. nearfar looks as far as a recall of .95 needs, and ranks by the vectors; of the same lists faiss ranks by
    their codes. On an idle machine faiss's flat index of 100,000 answered 4,651 a second with 2 workers.
    """
    target = section.target(
        "approximate search of a million vectors: queries per second", "≥ 20 times exact, recall@10 ≥ .95"
    )
    speed = {(r["n"], r["method"]): statistics.median(r["per_second"]) for r in records}
    for ours in pick(records, n=1_000_000, method="nearfar, lists"):
        if exact := speed.get((1_000_000, "nearfar, exact")):
            faster = speed[1_000_000, "nearfar, lists"] / exact
            met = faster >= 20 and ours["recall"] >= 0.95
            target.tell(f"{faster:.0f} times, recall {ours['recall']:.3f}", met)
    target = section.target("exact search of many queries at once against faiss's flat index", "at least as fast")
    sizes = [n for n in distinct(records, "n") if {(n, "nearfar, exact"), (n, "faiss, flat")} <= speed.keys()]
    ratios = {n: speed[n, "nearfar, exact"] / speed[n, "faiss, flat"] for n in sizes}
    if ratios:
        said = ", ".join(f"{ratio:.1f} times ({n:,})" for n, ratio in ratios.items())
        target.tell(said, min(ratios.values()) >= 1)
    section.rows(
        "vectors | method | building | queries per second | recall@10",
        "{n:,} | {method} | {building:.0f} s | {per_second:,.0f} ({least:,.0f} – {most:,.0f}) | {recall:.3f}",
        ({**r, "least": min(r["per_second"]), "most": max(r["per_second"])} for r in records),
    )


EXPERIMENT = Experiment("Approximate search", run, "n method", "wiki_text8_style").takes(
    sizes=(10_000, 100_000, 1_000_000), queries=1000, repeats=5, graphs=False
)
