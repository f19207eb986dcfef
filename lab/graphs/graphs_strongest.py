"""Graphs beside the strongest programs, one thread for all: labels from vectors, and groups from edges.

Labels: 128 components at the defaults of each program, micro F1 of a logistic regression on half of the nodes. Groups:
Leiden (modularity) and Infomap, which choose the number of groups themselves, beside k-means of EDRep's vectors, which
is told it; NMI with the planted groups of 10,000 nodes (4 groups, mean degree 10), by hardness, and with those of real
graphs. Peers run in environments of their own: see lab/peers/elsewhere.py.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import LabelledGraph, read_graph, without_isolates
from lab.graphs.graphs import D, nearfar
from lab.measure import cpu_timed
from lab.peers import elsewhere
from lab.records import Record, groups, pick

GRAPHS = ("email-Eu-core", "cora", "wikipedia")
ALPHAS = ("1.5", "2", "3")
WITH_GROUPS = ("email-Eu-core", "polblogs")
VECTORS = {"nearfar": "", "Cleora": "cleora", "PecanPy": "pecanpy", "nodevectors": "nodevectors", "GRAPE": "grape"}
GROUPS = {"nearfar": "", "Leiden": "leiden", "Infomap": "infomap"}


def edges_of(adjacency: Any) -> NDArray[np.int64]:
    """Return all edges, both ways."""
    return np.stack(adjacency.nonzero(), axis=1).astype(np.int64)


def vectors_of(method: str, adjacency: Any, seed: int) -> tuple[NDArray[Any], float]:
    if method == "nearfar":
        return cpu_timed(nearfar, adjacency, seed)
    return elsewhere.run(VECTORS[method], edges=edges_of(adjacency), n=adjacency.shape[0], d=D, seed=seed)


def groups_of(method: str, adjacency: Any, labels: NDArray[Any], rows: NDArray[Any], seed: int) -> tuple[float, float]:
    """Return the NMI with known groups, and the seconds to the vectors or groups."""
    from sklearn.metrics import normalized_mutual_info_score

    if method == "nearfar":
        vectors, seconds = cpu_timed(nearfar, adjacency, seed, d=32)
        return nf.evaluate.communities(vectors, labels, nodes=rows, random_state=seed).nmi, seconds
    found, seconds = elsewhere.run(GROUPS[method], edges=edges_of(adjacency), n=adjacency.shape[0], seed=seed)
    return float(normalized_mutual_info_score(labels[rows], found[rows])), seconds


def with_groups(name: str, seed: int) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return the edges of a graph, its groups, and which nodes are scored."""
    if name in WITH_GROUPS:
        real: LabelledGraph = without_isolates(read_graph(name))
        return real.adjacency, real.labels.argmax(axis=1), np.flatnonzero(real.scored)
    planted = nf.datasets.dcsbm(10_000, 4, 10.0, alpha=float(name), random_state=seed)
    return planted.adjacency, planted.labels, np.flatnonzero(planted.degrees)


def run(file: ResultFile, given: Namespace) -> None:
    nearfar(nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).adjacency, 0)  # compiles
    for name, seed, method in product(given.graphs, range(given.seeds), given.methods):
        if key := file.new(name, "labels", method, seed):
            graph = without_isolates(read_graph(name))
            vectors, seconds = vectors_of(method, graph.adjacency, seed)
            facts = {"n": graph.adjacency.shape[0], "seconds": seconds, **told_by(method)}
            file.add({**key, **facts, **graph.f1(vectors, (0.1, 0.5), 5, seed)})
    for name, seed, method in product((*ALPHAS, *WITH_GROUPS), range(given.seeds), GROUPS):
        if key := file.new(name, "groups", method, seed):
            adjacency, labels, rows = with_groups(name, seed)
            nmi, seconds = groups_of(method, adjacency, labels, rows, seed)
            file.add({**key, "n": adjacency.shape[0], "seconds": seconds, "nmi": nmi, **told_by(method)})


def told_by(method: str) -> dict[str, str]:
    """Return the version of a peer."""
    name = VECTORS.get(method) or GROUPS.get(method)
    return {"version": elsewhere.version(name)} if name else {}


def told(section: Section, records: list[Record]) -> None:
    """One thread each, at its defaults, 128 components. Labels: micro F1, 10 % and 50 % known. Groups: NMI; of EDRep
    k-means of 32 components; Leiden and Infomap choose the number. Processor time to vectors or groups. Means over
    seeds.
    """
    shown = {"labels": ("micro 0.1", "micro 0.5"), "groups": ("nmi",)}
    for task, scores in shown.items():
        section.rows(
            f"graph, or hardness | nodes | program | {' | '.join(scores)} | time",
            f"{{graph}} | {{n:,}} | {{method}} | {' | '.join(f'{{{s}:.3f}}' for s in scores)} | {{seconds:time}}",
            groups(pick(records, task=task), "graph", "method"),
        )


EXPERIMENT = Experiment("Graphs beside the strongest programs", run, "graph task method seed", "graphs").takes(
    graphs=GRAPHS, seeds=2, methods=tuple(VECTORS)
)
