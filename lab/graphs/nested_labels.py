"""Labels of groups that stand side by side, and of groups within groups: the task beside fixed temperatures.

Planted graphs of 1,000 nodes, 20 to 42 groups, 25 to 50 neighbours a node, broad degrees (``even``: equal ones);
in ``nested`` a third of the edges stay within groups of six groups. One step of the walk, of sparse graphs three; F1 as
in items/tasks.py: micro, a tenth known. ``64 + 64`` are two fits side by side, each with half the components: one at
temperature 1, one at .5 with four clusters. The seed draws graph, split and start.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import LabelledGraph, read_graph, without_isolates
from lab.items.tasks import KNOWN, LABELLED, N_SPLITS, TASK
from lab.records import Record, distinct, groups, interval, pick
from nearfar.estimators.tasks import DENSE, WALK

SETTINGS = {TASK: (0, 0), "T 1": (128, 0), "T 0.5, 4 clusters": (0, 128), "96 + 32": (96, 32), "64 + 64": (64, 64)}
"""Components at temperature 1, and at temperature .5 with four clusters."""
PLANTED = {
    "even": {"k": 40, "degree": 32, "outside": 0.75},
    "broad": {"k": 40, "degree": 32, "outside": 0.7, "broad": True},
    "dense": {"k": 20, "degree": 60, "outside": 0.8, "broad": True},
    "nested": {"k": 42, "degree": 32, "outside": 0.4, "broad": True, "nested": 0.3},
}
N_NODES = 1000


def planted(
    name: str, seed: int, *, k: int, degree: float, outside: float, broad: bool = False, nested: float = 0.0
) -> LabelledGraph:
    """Return a graph of groups; ``outside`` and ``nested`` are the shares of edges anywhere, and within six groups."""
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, k + 1) ** 0.8 if broad else np.ones(k)
    group = rng.choice(k, N_NODES, p=sizes / sizes.sum())
    theta = rng.pareto(2.2, N_NODES) + 0.3 if broad else np.ones(N_NODES)
    expected = np.full((N_NODES, N_NODES), outside * degree / N_NODES)
    for kinds, share in ((group, 1 - outside - nested), (group // 6, nested)):
        expected += (kinds[:, None] == kinds) * (share * degree / np.bincount(kinds)[kinds])[:, None]
    expected = (expected + expected.T) / 2 * np.sqrt(np.outer(theta, theta)) / theta.mean()
    upper = np.triu(rng.random(expected.shape) < np.minimum(expected, 1), 1)
    linked = (edges := upper | upper.T).any(axis=1)
    adjacency = csr_array(edges[np.ix_(linked, linked)].astype(np.float32))
    return LabelledGraph(name, adjacency, adjacency, np.eye(k, dtype=np.bool_)[group[linked]])


def vectors_of(relation: nf.Relation, at_one: int, lower: int, seed: int) -> Any:
    how = {"random_state": seed, "n_jobs": 1}
    if not at_one + lower:
        return nf.EDRep(task="labels", **how).fit(relation).embedding_
    walk = relation.random_walk(1 if relation.nnz > DENSE * relation.shape[0] else WALK)
    fits = [nf.EDRep(at_one, **how)] if at_one else []
    fits += [nf.EDRep(lower, temperature=0.5, n_clusters=4, **how)] if lower else []
    return np.hstack([fit.fit(walk).embedding_ for fit in fits])


def run(file: ResultFile, given: Namespace) -> None:
    for name, seed in product(given.graphs, range(given.seeds)):
        graph = planted(name, seed, **PLANTED[name]) if name in PLANTED else without_isolates(read_graph(name))
        for setting, sizes in SETTINGS.items():
            if key := file.new(name, setting, seed):
                vectors = vectors_of(nf.Relation.from_matrix(graph.adjacency), *sizes, seed)
                file.add({**key, "score": graph.f1(vectors, (KNOWN,), N_SPLITS, seed)[f"micro {KNOWN}"]})


def told(section: Section, records: list[Record]) -> None:
    """Micro F1 of labels, a tenth known. `broad`, `dense`, `even` and `nested` are planted."""
    rows = []
    for name, of in groups(records, "graph"):
        rows.append([name, *(interval(pick(of, setting=setting), "score") for setting in distinct(records, "setting"))])
    section.table(["graph", *distinct(records, "setting")], rows, "nested labels")


EXPERIMENT = Experiment("Labels of groups within groups", run, "graph setting seed", "graphs").takes(
    graphs=(*PLANTED, *LABELLED), seeds=3
)
