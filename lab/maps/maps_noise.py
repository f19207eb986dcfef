"""Sampled repulsion, from t-SNE to UMAP: time and quality beside t-SNE by FFT, umap-learn and contrastive-ne.

Fashion-MNIST, 50 principal components. Two graphs: the affinities of perplexity 30, and the symmetric graph of the 15
nearest neighbours with equal weights, which umap-learn and contrastive-ne take too. All start at the first principal
components. The time is that of the optimisation alone, from graph and start to the map, after a warm-up, each program
with its own defaults: 750 iterations here, 200 epochs there. umap-learn needs its package in this environment;
contrastive-ne needs PyTorch, and is run by the interpreter that ``--contrastive`` names. ``--methods`` takes those
whose names begin so.
"""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nearfar as nf
from lab.data import digits, fashion, principal_components
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import timed
from lab.peers import elsewhere, umap_learn
from lab.records import Record, average, number, pick, ratio

N_JOBS, SPREAD = 2, 1e-4
OURS: dict[str, Any] = {
    "t-SNE, all pairs": "auto",
    "local, t-SNE end": nf.far.NoisePairs(),
    "local, t-SNE end, m = 50": nf.far.NoisePairs(50),
    "local, UMAP end": nf.far.NoisePairs(normalizer="umap"),
    "global": nf.far.NoisePairs(objective="global"),
    "global, m = 50": nf.far.NoisePairs(50, "global"),
}
CONTRASTIVE: dict[str, dict[str, Any]] = {
    "contrastive-ne, neg, t-SNE end": {"mode": "neg", "s": 0.0},
    "contrastive-ne, neg, UMAP end": {"mode": "neg", "s": 1.0},
    "contrastive-ne, infonce": {"mode": "infonce"},
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
            entries = matrix.tocoo()
            given = {"rows": entries.row, "columns": entries.col, "start": start, "n_jobs": N_JOBS}
            tasks |= {
                method: partial(elsewhere.run, "contrastive", python=python, **given, **how)
                for method, how in CONTRASTIVE.items()
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


def run(file: ResultFile, given: Namespace) -> None:
    for d in given.components:
        warm_up(d)
    for d, n in product(given.components, given.sizes):
        X, labels = fashion(n)
        start = principal_components(X, d)
        start *= np.float32(SPREAD) / start[:, 0].std()
        for graph, relation in graphs(X).items():
            for method, task in tasks_of(relation, graph, start, given.contrastive).items():
                if method.startswith(tuple(given.methods)) and (key := file.new(n, d, graph, method)):
                    Y, seconds = task()
                    file.add({**key, "seconds": seconds, **judged(X, Y, labels)})


def told(section: Section, records: list[Record]) -> None:
    """Fashion-MNIST. The optimisation alone, from the same graph and start, 2 workers, each program with its own
    iterations. m: noise pairs per pair of neighbours, 5 if not given.
    """
    target = section.target("sampled repulsion, UMAP end, against umap-learn's optimisation, n = 70,000", "less time")
    same = pick(records, n=70_000, n_components=2, graph="15 neighbours")
    ours, theirs = pick(same, method="local, UMAP end"), pick(same, method="umap-learn")
    if ours and theirs:
        aucs = f"R_NX area {number(average(ours, 'auc'))} against {number(average(theirs, 'auc'))}"
        target.tell(f"{ratio(ours, theirs):.1f} times faster; {aucs}", ratio(ours, theirs) > 1)
    section.rows(
        "d | n | graph | method | optimisation | R_NX area | neighbours kept, 10 | trustworthiness, 30"
        " | label accuracy, 10",
        "{n_components} | {n:,} | {graph} | {method} | {seconds:time} | {auc:.3f} ± {auc_error:.3f}"
        " | {preservation:.3f} | {trustworthiness:.3f} | {accuracy:.3f}",
        sorted(records, key=lambda r: (r["n_components"], r["n"], r["graph"])),
    )


EXPERIMENT = Experiment(
    "From t-SNE to UMAP", run, "n n_components graph method", "fashion_mnist", command="--contrastive PYTHON"
).takes(
    sizes=(20_000, 70_000),
    components=(2, 10),
    methods=Choice(("",), ("", *OURS, *CONTRASTIVE, "umap-learn")),
    contrastive=str,
)
