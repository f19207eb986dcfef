"""New rows before a fitted model: the time of one row and of many, and how near the rows of the fit land to themselves.

Planted graphs; walks of length 3, default parameters. One row: the adjacency row of a node with several neighbours,
as a sparse matrix, median of many calls on one worker. Many: the first 10,000 rows with a neighbour, all processors,
best of several calls. The cosines are those of these rows, given as they were in the fit, with their fitted vectors.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile
from lab.measure import timed

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
        "milliseconds_one_row": 1e3 * float(np.median(singles)),
        "rows": len(chosen),
        "rows_per_second": round(len(chosen) / min(batches)),
        "cosine_median": float(np.median(cosines)),
        "cosine_5_percent": float(np.quantile(cosines, 0.05)),
        "cosine_lowest": float(cosines.min()),
    }


def run(file: ResultFile, given: Namespace) -> None:
    for n, d, k in product(given.sizes, given.n_components, given.n_clusters):
        if key := file.new(n, d, k):
            file.add({**key, **measure(n, d, k, given.repeats)})


EXPERIMENT = Experiment("Transforming new rows", run, "n_nodes n_components n_clusters", may_be_missing=True).takes(
    sizes=(30_000, 300_000), n_components=(32, 128), n_clusters=(1, 4), repeats=5
)
