"""Temperature and walk length of EDRep on labelled graphs: classification, clusters and held-out edges.

Defaults otherwise, 64 components. F1: micro, of a logistic regression on a random half of the nodes with a label and an
edge (one label per node), or as in labelled_graphs.py (several); columns of the vectors standardised. NMI: of k-means
with as many clusters as labels, and with 100. Held out: a tenth of the edges, in another fit; the mean of log softmax
of them in both directions by the exact normaliser, in nats. The seed draws the start, the split and the edges.
``--deepwalk`` adds DeepWalk.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, triu

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import WITH_GROUPS, LabelledGraph, read_graph, without_isolates
from lab.measure import timed
from lab.peers import deepwalk
from lab.records import Record, groups, interval, pick

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


def measure(
    file: ResultFile, graph: LabelledGraph, method: str, walk: int | None, heat: float | None, seed: int
) -> None:
    key = file.new(graph.name, method, walk, heat, seed)
    if not key:
        return
    found: dict[str, float] = {}
    if method == "deepwalk":
        how = {"n_walks": N_WALKS, "seed": seed, "workers": 1}
        vectors, seconds = timed(deepwalk.embed, graph.adjacency, N_COMPONENTS, **how)
    else:
        model = nf.EDRep(N_COMPONENTS, temperature=heat, random_state=seed, n_jobs=1)
        _, seconds = timed(lambda: model.fit(nf.Relation.from_matrix(graph.adjacency).random_walk(walk)))
        vectors, found["relative_error"] = model.embedding_, model.far_check_["relative_error"]
        part, held = without_edges(graph.adjacency, np.random.default_rng(seed))
        found["held_out"] = log_likelihood(model.fit(nf.Relation.from_matrix(part).random_walk(walk)), held)
    rows = np.flatnonzero(graph.scored)
    found["f1"] = micro_f1(vectors[rows], graph.labels[rows], np.random.default_rng(seed))
    if graph.labels.sum(axis=1).max() == 1:
        kinds = graph.labels.argmax(axis=1)
        for name, k in (("nmi", None), ("nmi_100", N_CLUSTERS)):
            how = {"n_clusters": k, "n_init": 1 if k else 5, "random_state": seed}
            found[name] = nf.evaluate.communities(vectors, kinds, nodes=rows, **how).nmi
    file.add({**key, "seconds": seconds, **found})


def run(file: ResultFile, given: Namespace) -> None:
    nf.EDRep(8, random_state=0).fit(nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).relation)  # warm-up
    settings = [("nearfar", walk, heat) for walk in given.walks for heat in given.temperatures]
    settings += [("deepwalk", None, None)] if given.deepwalk else []
    for name in given.graphs:
        graph = without_isolates(read_graph(name))
        for setting, seed in product(settings, range(given.seeds)):
            measure(file, graph, *setting, seed)


def told(section: Section, records: list[Record]) -> None:
    """64 components. F1: micro, half of the nodes known. NMI: k-means with as many clusters as labels, and with 100.
    Held out: mean log softmax of a tenth of the edges, by the exact normaliser, in nats. Error: of Z at the end
    (`far_check_`). DeepWalk: 10 walks per node.
    """
    rows = []
    scores = ("f1", "nmi", "nmi_100", "held_out", "relative_error")
    for graph, of in groups(records, "graph"):
        settings = [(method == "nearfar", walk or 0, heat or 0, mine)
                    for method, walk, heat, mine in groups(of, "method", "walk_length", "temperature")]  # fmt: skip
        for ours, walk, heat, mine in sorted(settings, key=lambda s: s[:3], reverse=True):
            named = [walk, heat] if ours else ["DeepWalk", "–"]
            rows.append([graph, *named, *(interval(mine, name) for name in scores)])
    head = ["graph", "walk", "temperature", "F1", "NMI", "NMI, 100", "held out", "error"]
    section.table(head, rows, "temperature")


EXPERIMENT = Experiment(
    "Temperature and walk length of EDRep",
    run,
    "graph method walk_length temperature seed",
    "graphs",
    command="--deepwalk",
).takes(graphs=WITH_GROUPS, temperatures=(1.0, 0.5, 0.2, 0.1), walks=(3, 1), seeds=3, deepwalk=False)


# ---------------------------------------------------------------- temperature choice


TEMPERATURES, DEFAULT, WALK_LENGTH = (0.25, 0.5, 1.0, 2.0, 4.0), 1.0, 3


def choose(graph: LabelledGraph, by: str, seed: int) -> dict[str, Any]:
    """Return the scores of all temperatures where one is chosen and where it is tested, and three of the latter."""

    def method(relation: nf.Relation, **params: Any) -> nf.EDRep:
        return nf.EDRep(N_COMPONENTS, random_state=seed, n_jobs=1, **params).fit(relation.random_walk(WALK_LENGTH))

    labels = np.where(graph.scored[:, None], graph.labels, False) if by == "labels" else None
    relation, grid = nf.Relation.from_matrix(graph.adjacency), {"temperature": TEMPERATURES}
    found, seconds = timed(lambda: nf.evaluate.select(method, grid, relation, labels, n_repeats=1, random_state=seed))
    choice, test = (found.repeats[part][0] for part in ("choice", "test"))
    return {
        "seconds": seconds,
        "measure": found.measure,
        "chosen": found.best_params["temperature"],
        "score_default": float(test[TEMPERATURES.index(DEFAULT)]),
        "score_chosen": found.score,
        "score_best": float(test.max()),
        **{name: dict(zip(map(str, TEMPERATURES), scores.tolist(), strict=True))
           for name, scores in (("choice", choice), ("test", test))},
    }  # fmt: skip


def run_temperature_choice(file: ResultFile, given: Namespace) -> None:
    """What choosing the temperature of EDRep brings on labelled graphs, with the choice and its test on different
    parts.

    `evaluate.select` with one repeat: by labels (micro F1; half of the labelled nodes choose by cross-validation,
    half test) or by hidden links (AUC of the Hadamard features; half of the edges are hidden, a third of them
    chooses, a third tests). 64 components, walks of 3 steps, defaults otherwise. The seed draws the start and the
    split.
    """
    for name in given.graphs:
        graph = without_isolates(read_graph(name))
        for by, seed in product(given.by, range(given.seeds)):
            if key := file.new(name, by, seed):
                file.add({**key, **choose(graph, by, seed)})


def told_temperature_choice(section: Section, records: list[Record]) -> None:
    """`evaluate.select` among 0.25, 0.5, 1, 2 and 4. Default: 1. Chosen: on another part than the one told. Best: the
    highest score, which no choice can know. Gain: chosen minus default.
    """
    section.lines += ["<!-- temperature choice: table -->", ""]
    titles = {
        "labels": "Micro F1 of labels: half of the labelled nodes choose by cross-validation, half test.",
        "links": "AUC of links: half of the edges hidden; a third of them trains, chooses, tests.",
    }
    for by, title in titles.items():
        rows = []
        for graph, mine in groups(pick(records, by=by), "graph"):
            mine = [{**r, "gain": r["score_chosen"] - r["score_default"]} for r in mine]
            scores = [interval(mine, name) for name in ("score_default", "score_chosen", "score_best", "gain")]
            heats = ", ".join(f"{r['chosen']:g}" for r in sorted(mine, key=lambda r: r["seed"]))
            rows.append([graph, *scores, heats])
        section.say(title)
        section.table(["graph", "default", "chosen", "best", "gain", "temperatures chosen"], rows)
    section.lines += ["<!-- temperature choice: end -->", ""]


CHOICE_EXPERIMENT = Experiment(
    "Choosing the temperature of EDRep", run_temperature_choice, "graph by seed", "graphs"
).takes(graphs=WITH_GROUPS, by=("labels", "links"), seeds=3)
