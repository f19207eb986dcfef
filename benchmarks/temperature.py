"""Temperature and walk length of EDRep on labelled graphs: classification, clusters and held-out edges.

    python benchmarks/temperature.py
    python benchmarks/temperature.py --graphs musae-facebook --deepwalk      DeepWalk too, on these graphs

Defaults otherwise, 64 components. F1: micro, of a logistic regression on a random half of the nodes with a label and an
edge (one label per node), or as in labelled_graphs.py (several); columns of the vectors standardised. NMI: of k-means
with as many clusters as labels, and with 100. Held out: a tenth of the edges, in another fit; the mean of log softmax
of them in both directions by the exact normaliser, in nats. The seed draws the start, the split and the edges.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, triu

import nearfar as nf
from _common import ResultFile, say, timed
from labelled_graphs import LabelledGraph, read_graph, without_isolates
from peers import deepwalk

KEYS = ("graph", "method", "walk_length", "temperature", "seed")
GRAPHS = ("email-Eu-core", "polblogs", "cora", "citeseer", "wikipedia", "musae-facebook", "musae-git")
N_COMPONENTS, N_CLUSTERS, N_WALKS, MOST_HELD_OUT = 64, 100, 10, 2000


def micro_f1(vectors: NDArray[Any], labels: NDArray[np.bool_], rng: np.random.Generator) -> float:
    """Return micro F1 of a multinomial logistic regression trained on a random half of the rows."""
    from sklearn.linear_model import LogisticRegression

    if labels.sum(axis=1).max() > 1:
        found = nf.evaluate.node_classification(vectors, labels, fractions=0.5, n_repeats=1, random_state=rng)
        return found.micro[0.5]
    spread = vectors.std(axis=0)
    vectors = (vectors - vectors.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    train, test = np.array_split(rng.permutation(len(vectors)), 2)
    kinds = labels.argmax(axis=1)
    model = LogisticRegression(max_iter=300).fit(vectors[train], kinds[train])
    return float((model.predict(vectors[test]) == kinds[test]).mean())


def without_edges(adjacency: Any, rng: np.random.Generator) -> tuple[Any, NDArray[np.int64]]:
    """Return the graph without a tenth of its edges, and those of them whose ends still have an edge, both ways."""
    edges = np.stack(triu(adjacency, 1).nonzero())
    out = rng.random(edges.shape[1]) < 0.1
    kept = np.concatenate((edges[:, ~out], edges[::-1, ~out]), axis=1)
    graph = csr_array(coo_array((np.ones(kept.shape[1], np.float32), kept), shape=adjacency.shape))
    linked = np.diff(graph.indptr) > 0
    held = edges[:, out]
    held = held[:, linked[held].all(axis=0)]
    held = np.concatenate((held, held[::-1]), axis=1)
    return graph, held[:, rng.permutation(held.shape[1])[:MOST_HELD_OUT]]


def log_likelihood(model: nf.EDRep, pairs: NDArray[np.int64]) -> float:
    """Return the mean of log softmax of the pairs, by the exact normaliser."""
    X, there = model.embedding_, model.embedding_.any(axis=1)
    sources, targets = pairs
    log_z = nf.log_normalizers(X[sources], X[there], method="exact", temperature=model.temperature)
    return float(np.mean(np.einsum("ij,ij->i", X[sources], X[targets]) / model.temperature - log_z))


def measure(file: ResultFile, graph: LabelledGraph, key: dict[str, Any]) -> None:
    if file.find(**key):
        return
    seed, walk_length, temperature = key["seed"], key["walk_length"], key["temperature"]
    found: dict[str, float] = {}
    if key["method"] == "deepwalk":
        vectors, seconds = timed(
            lambda: deepwalk.embed(graph.adjacency, N_COMPONENTS, n_walks=N_WALKS, seed=seed, workers=1)
        )
    else:
        model = nf.EDRep(N_COMPONENTS, temperature=temperature, random_state=seed, n_jobs=1)
        relation = nf.Relation.from_matrix(graph.adjacency).random_walk(walk_length)
        _, seconds = timed(lambda: model.fit(relation))
        vectors, found["relative_error"] = model.embedding_, model.far_check_["relative_error"]
        part, held = without_edges(graph.adjacency, np.random.default_rng(seed))
        found["held_out"] = log_likelihood(model.fit(nf.Relation.from_matrix(part).random_walk(walk_length)), held)
    rows = np.flatnonzero(graph.scored)
    found["f1"] = micro_f1(vectors[rows], graph.labels[rows], np.random.default_rng(seed))
    if graph.labels.sum(axis=1).max() == 1:
        kinds = graph.labels.argmax(axis=1)
        for name, k in (("nmi", None), ("nmi_100", N_CLUSTERS)):
            found[name] = nf.evaluate.communities(
                vectors, kinds, nodes=rows, n_clusters=k, n_init=1 if k else 5, random_state=seed
            ).nmi
    file.add({**key, "seconds": round(seconds, 3), **{name: round(value, 5) for name, value in found.items()}})
    say(f"{key}: {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, choices=GRAPHS)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1.0, 0.5, 0.2, 0.1])
    parser.add_argument("--walks", type=int, nargs="+", default=[3, 1])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--deepwalk", action="store_true")
    args = parser.parse_args()
    file = ResultFile("temperature", KEYS)
    nf.EDRep(8, random_state=0).fit(nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).relation)  # warm-up
    for name in args.graphs:
        graph = without_isolates(read_graph(name))
        settings = [("nearfar", walk, t) for walk in args.walks for t in args.temperatures]
        for method, walk, temperature in [*settings, *([("deepwalk", None, None)] if args.deepwalk else [])]:
            for seed in range(args.seeds):
                measure(file, graph, dict(zip(KEYS, (name, method, walk, temperature, seed), strict=True)))


if __name__ == "__main__":
    main()
