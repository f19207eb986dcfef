"""Sampled repulsion, from t-SNE to UMAP: time and quality beside t-SNE by FFT, umap-learn and contrastive-ne.

    python benchmarks/maps_noise.py --sizes 20000
    python benchmarks/maps_noise.py --sizes 70000 --contrastive PATH/OF/ANOTHER/ENVIRONMENT/bin/python

Fashion-MNIST, 50 principal components. Two graphs: the affinities of perplexity 30, and the symmetric graph of the 15
nearest neighbours with equal weights, which umap-learn and contrastive-ne take too. All start at the first principal
components. The time is that of the optimisation alone, from graph and start to the map, after a warm-up, each program
with its own defaults: 750 iterations here, 200 epochs there. umap-learn needs its package in this environment;
contrastive-ne needs PyTorch, and is run by the interpreter that ``--contrastive`` names.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nearfar as nf
from _common import ResultFile, say, timed
from _map_data import digits, fashion, principal_components
from peers import contrastive, umap_learn

KEYS = ("n", "n_components", "graph", "method")
N_JOBS, SPREAD = 2, 1e-4
OURS: dict[str, Any] = {
    "t-SNE, all pairs": "auto",
    "local, t-SNE end": nf.far.NoisePairs(),
    "local, t-SNE end, m = 50": nf.far.NoisePairs(50),
    "local, UMAP end": nf.far.NoisePairs(normalizer="umap"),
    "global": nf.far.NoisePairs(objective="global"),
    "global, m = 50": nf.far.NoisePairs(50, "global"),
}
CONTRASTIVE = {
    "contrastive-ne, neg, t-SNE end": ("neg", 0.0),
    "contrastive-ne, neg, UMAP end": ("neg", 1.0),
    "contrastive-ne, infonce": ("infonce", None),
}
Task = Callable[[], tuple[NDArray[Any], float]]


def graphs(X: NDArray[Any]) -> dict[str, nf.Relation]:
    """Return the graphs by name, each of symmetric entries."""
    perplexity = nf.Affinities(30, n_jobs=N_JOBS, random_state=0).fit(X).joint()
    nearest = nf.Affinities(15, kernel="uniform", n_jobs=N_JOBS, random_state=0).fit(X).relation_.to_scipy()
    pattern = csr_array(nearest + nearest.T)
    pattern.data[:] = 1
    return {"perplexity 30": perplexity, "15 neighbours": nf.Relation.from_matrix(pattern)}


def nearfar_map(far: Any, relation: nf.Relation, start: NDArray[Any]) -> NDArray[Any]:
    model = nf.TSNE(start.shape[1], far=far, init=start, min_grad_norm=0.0, random_state=0, n_jobs=N_JOBS, verbose=0)
    return model.fit(relation).embedding_


def tasks_of(relation: nf.Relation, name: str, start: NDArray[Any], python: str | None) -> dict[str, Task]:
    """Return what there is to measure on one graph, each with its map and seconds."""
    tasks: dict[str, Task] = {
        method: lambda far=far: timed(lambda: nearfar_map(far, relation, start))
        for method, far in OURS.items()
        if start.shape[1] <= 2 or method != "t-SNE, all pairs"
    }
    if name == "15 neighbours":
        matrix = relation.to_scipy()
        if importlib.util.find_spec("umap"):
            tasks["umap-learn"] = lambda: timed(lambda: umap_learn.optimize(matrix, start, n_jobs=N_JOBS))
        if python is not None:
            tasks |= {
                method: lambda mode=mode, s=s: contrastive.optimize(python, matrix, start, mode, s, N_JOBS)
                for method, (mode, s) in CONTRASTIVE.items()
            }
    return tasks


def warm_up(d: int) -> None:
    X = digits()[0]
    relation = graphs(X)["15 neighbours"]
    start = principal_components(X, d)
    for far in OURS.values():
        nf.TSNE(d, far=far if d > 2 else "fft" if far == "auto" else far, init=start, max_iter=51).fit(relation)
    if importlib.util.find_spec("umap"):
        umap_learn.optimize(relation.to_scipy(), start, n_jobs=N_JOBS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 70_000])
    parser.add_argument("--components", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--methods", nargs="+", help="those whose names begin so; by default all")
    parser.add_argument("--contrastive", metavar="PYTHON", help="interpreter that has contrastive-ne")
    args = parser.parse_args()
    file = ResultFile("maps_noise", KEYS)
    for d in args.components:
        warm_up(d)
        for n in args.sizes:
            X, labels = fashion(n)
            start = principal_components(X, d)
            start *= np.float32(SPREAD) / start[:, 0].std()
            for graph, relation in graphs(X).items():
                for method, task in tasks_of(relation, graph, start, args.contrastive).items():
                    if args.methods and not method.startswith(tuple(args.methods)):
                        continue
                    measure(file, dict(zip(KEYS, (n, d, graph, method), strict=True)), task, X, labels)


def measure(file: ResultFile, key: dict[str, Any], task: Task, X: NDArray[Any], labels: NDArray[Any]) -> None:
    if file.find(**key):
        return
    map_, seconds = task()
    found = nf.evaluate.neighborhoods(X, map_, labels=labels, n_neighbors=(10, 30), random_state=0)
    record = {
        **key,
        "seconds": round(seconds, 3),
        "auc": round(found.auc, 4),
        "auc_error": round(found.standard_errors["auc"], 4),
        "preservation": round(found.preservation[10], 4),
        "trustworthiness": round(found.trustworthiness[30], 4),
        "accuracy": round(found.accuracy[10], 4),
    }
    file.add(record)
    say(str(record))


if __name__ == "__main__":
    main()
