"""Approximate indexes: building, queries per second and recall@10, beside exact search, faiss and usearch themselves.

    python benchmarks/index.py
    python benchmarks/index.py --sizes 100000

Vectors are sums of a centre, one of a thousand, and of noise in 20 directions of 100: real embeddings have few
effective dimensions, too. Queries are other such vectors. Two workers each. faiss and usearch alone answer with scores
of float32 of what they store; nearfar ranks their answers by the vectors and returns ids. faiss is left out where it is
not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, say, timed

KEYS = ("n", "method")
D, TOPN, WORKERS = 100, 10, 2


def points(n: int, n_queries: int) -> tuple[Any, Any]:
    """Return rows of length 1, and queries."""
    rng = np.random.default_rng(0)
    centres, axes = rng.normal(size=(1000, D)), rng.normal(size=(20, D))
    m = n + n_queries
    X = centres[rng.integers(0, 1000, m)] + rng.normal(size=(m, 20)) @ axes / 2 + 0.3 * rng.normal(size=(m, D))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    return X[:n], X[n:]


def recall(found: Any, true: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / TOPN for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    file = ResultFile("index", KEYS)
    for n in args.sizes:
        X, Q = points(n, args.queries)
        emb = nf.Embedding(X)
        n_exact = min(len(Q), max(64, 2 * 10**8 // n))
        true = emb.search(Q, TOPN, n_jobs=WORKERS)[0]

        def measure(name: str, building: float, ask: Any, queries: Any, n: int = n, true: Any = true) -> None:
            seconds = []
            for _ in range(args.repeats):
                found, taken = timed(lambda ask=ask, queries=queries: ask(queries))
                seconds.append(taken)
            per_second = [len(queries) / taken for taken in seconds]
            share = recall(np.asarray(found), true[: len(queries)])
            row = {"n": n, "method": name, "building": building, "per_second": per_second, "recall": share}
            file.add(row)
            say(f"{name}, {n:,}: {building:.0f} s, {np.median(per_second):.0f}/s, recall {share:.3f}")

        measure("nearfar, exact", 0.0, lambda Q, emb=emb: emb.search(Q, TOPN, n_jobs=WORKERS)[0], Q[:n_exact])
        if importlib.util.find_spec("faiss"):
            import faiss

            faiss.omp_set_num_threads(WORKERS)
            flat = faiss.IndexFlatIP(D)
            flat.add(X)
            measure("faiss, flat", 0.0, lambda Q, flat=flat: flat.search(Q, TOPN)[1], Q[:n_exact])
            graph = faiss.IndexHNSWFlat(D, 16, faiss.METRIC_INNER_PRODUCT)
            graph.hnsw.efConstruction, graph.hnsw.efSearch = 128, 64
            _, building = timed(lambda graph=graph, X=X: graph.add(X))
            measure("faiss, HNSW", building, lambda Q, graph=graph: graph.search(Q, TOPN)[1], Q)
        for storage in ("float32", "int8"):
            index, building = timed(lambda emb=emb, s=storage: emb.index("usearch", storage=s, n_jobs=WORKERS))
            name = f"nearfar, usearch, {storage}"
            measure(name, building, lambda Q, index=index: index.search(Q, TOPN, n_jobs=WORKERS)[0], Q)
            if storage == "float32":
                raw = index._backend._index  # the same graph, asked without nearfar
                measure("usearch", building, lambda Q, raw=raw: raw.search(Q, TOPN, threads=WORKERS).keys, Q)


if __name__ == "__main__":
    main()
