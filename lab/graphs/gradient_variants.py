"""Which gradient EDRep should follow by default: agreement, loss and time of the three variants.

"paper" is eq. (6) of the paper, "forward" leaves out the transposed terms (as the published package does), "full"
adds the far term of the other side, which eq. (6) drops. Undirected: planted graphs over a range of hardness.
Directed: the same graphs with each edge pointing to one end, to node j rather than i with chance theta_j /
(theta_i + theta_j); and two directed graphs with labels. The loss is the one that the fit reports at its end.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.communities import graph_of
from lab.graphs.data import read_graph
from lab.graphs.methods import edrep
from lab.measure import timed
from lab.records import Record, average, duration, groups, middle, number, pick, spread

VARIANTS = ("paper", "forward", "full")
REAL = ("email-Eu-core", "polblogs")


def point_edges(graph: nf.datasets.Graph, rng: np.random.Generator) -> Any:
    """Return the adjacency matrix with each edge in one direction, rather towards the end with the larger theta."""
    i, j = graph.edges.T
    weight_i, weight_j = graph.theta[i], graph.theta[j]
    forward = rng.random(graph.n_edges) * (weight_i + weight_j) < weight_j
    source, target = np.where(forward, i, j), np.where(forward, j, i)
    n = graph.n_nodes
    return csr_array(coo_array((np.ones(graph.n_edges, np.float32), (source, target)), shape=(n, n)))


def problems(alphas: list[float], n_nodes: int, seed: int) -> Any:
    """Yield (name, alpha, directed, adjacency, labels, rows to score)."""
    for alpha in alphas:
        graph = graph_of(alpha, seed, n_nodes)
        connected = graph.degrees > 0
        yield "dcsbm", alpha, False, graph.adjacency, graph.labels, connected
        pointed = point_edges(graph, np.random.default_rng([seed, 3]))
        yield "dcsbm", alpha, True, pointed, graph.labels, connected
    for name in REAL:
        real = read_graph(name)
        for directed, adjacency in ((False, real.adjacency), (True, real.directed)):
            yield name, None, directed, adjacency, real.labels.argmax(axis=1), real.scored


def run(file: ResultFile, given: Namespace) -> None:
    def fit(adjacency: Any, gradient: str, seed: int) -> nf.EDRep:
        return edrep(adjacency, 32, seed, n_epochs=50, learning_rate=1.0, gradient=gradient)

    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).adjacency
    for gradient in VARIANTS:
        fit(tiny, gradient, 0)
    for seed in range(given.seeds):
        for name, alpha, directed, adjacency, labels, rows in problems(given.alphas, given.n_nodes, seed):
            for gradient in VARIANTS:
                if key := file.new(name, alpha, directed, gradient, seed):
                    model, seconds = timed(fit, adjacency, gradient, seed)
                    result = nf.evaluate.communities(model.embedding_, labels, nodes=rows, random_state=0)
                    found = {"nmi": result.nmi, "ami": result.ami, "loss": model.loss_}
                    file.add({**key, "n_nodes": len(labels), "seconds": seconds, **found})


def told(section: Section, records: list[Record]) -> None:
    """NMI: mean ± standard deviation over seeds. Loss: as reported by the fit, mean. Time: median."""
    rows = []
    for graph, directed, alpha, mine in groups(records, "graph", "directed", "alpha"):
        cells: list[str] = []
        for gradient in VARIANTS:
            of = pick(mine, gradient=gradient)
            cells += [spread(of, "nmi"), number(average(of, "loss"), 4), duration(middle(of, "seconds"))]
        rows.append([graph + (f", alpha = {alpha}" if alpha else "") + (", directed" if directed else ""), *cells])
    head = [f"{gradient}: {what}" for gradient in VARIANTS for what in ("NMI", "loss", "time")]
    section.table(["graph", *head], rows)


EXPERIMENT = Experiment("Variants of the gradient", run, "graph alpha directed gradient seed", "graphs").takes(
    alphas=(1.4, 1.7, 2.0, 2.6, 3.2, 4.1), seeds=5, n_nodes=30_000
)
