"""New rows before a fitted model: the time of one row and of many, and how near the rows of the fit land to themselves.

    python benchmarks/transform.py --sizes 30000 300000 --n-components 32 128

Planted graphs; walks of length 3, default parameters. One row: the adjacency row of a node with several neighbours,
as a sparse matrix, median of many calls on one worker. Many: the first 10,000 rows with a neighbour, all processors,
best of several calls. The cosines are those of these rows, given as they were in the fit, with their fitted vectors.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, say, timed

KEYS = ("n_nodes", "n_components", "n_clusters")
N_MANY = 10_000


def measure(n: int, d: int, n_clusters: int, repeats: int) -> dict[str, Any]:
    graph = nf.datasets.dcsbm(n, alpha=3.0, random_state=np.random.default_rng([n, 3]))
    walk = graph.relation.random_walk(3)
    est = nf.EDRep(d, n_clusters=n_clusters, random_state=0).fit(walk)
    adjacency = graph.relation.to_scipy()
    degrees = np.diff(adjacency.indptr)
    one = adjacency[[int(np.flatnonzero(degrees >= 5)[0])]]
    chosen = np.flatnonzero(degrees > 0)[:N_MANY]
    many = adjacency[chosen]
    est.transform(one)  # compiles
    est.set_params(n_jobs=1)
    singles = [timed(lambda: est.transform(one))[1] for _ in range(20 * repeats)]
    est.set_params(n_jobs=None)
    batches = [timed(lambda: est.transform(many))[1] for _ in range(repeats)]
    X = est.embedding_[chosen]
    cosines = np.sum(est.transform(walk)[chosen] * X, axis=1)
    return {
        "n_nodes": n,
        "n_components": d,
        "n_clusters": n_clusters,
        "milliseconds_one_row": round(1e3 * float(np.median(singles)), 4),
        "rows": len(chosen),
        "rows_per_second": round(len(chosen) / min(batches)),
        "cosine_median": round(float(np.median(cosines)), 5),
        "cosine_5_percent": round(float(np.quantile(cosines, 0.05)), 5),
        "cosine_lowest": round(float(cosines.min()), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 300_000])
    parser.add_argument("--n-components", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--n-clusters", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    file = ResultFile("transform", KEYS)
    for n in args.sizes:
        for d in args.n_components:
            for k in args.n_clusters:
                record = measure(n, d, k, args.repeats)
                file.add(record)
                say(str(record))


if __name__ == "__main__":
    main()
