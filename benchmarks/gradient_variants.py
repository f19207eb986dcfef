"""Which gradient EDRep should follow by default: agreement, loss and time of the three variants.

    python benchmarks/gradient_variants.py --seeds 5

"paper" is eq. (6) of the paper, "forward" leaves out the transposed terms (as the published package does), "full"
adds the far term of the other side, which eq. (6) drops. Undirected: planted graphs over a range of hardness.
Directed: the same graphs with each edge pointing to one end, to node j rather than i with chance theta_j /
(theta_i + theta_j); and two directed graphs with labels from ../shared/data. The loss is the one that the fit
reports at its end.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from _common import ResultFile, say, timed
from communities import draw
from labelled_graphs import read_graph

VARIANTS = ("paper", "forward", "full")
ALPHAS = (1.4, 1.7, 2.0, 2.6, 3.2, 4.1)
REAL = ("email-Eu-core", "polblogs")
N_COMPONENTS, N_EPOCHS, WALK_LENGTH, LEARNING_RATE = 32, 50, 3, 1.0
KEYS = ("graph", "alpha", "directed", "gradient", "seed")


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
        graph = draw(alpha, seed, n_nodes)
        connected = graph.degrees > 0
        yield "dcsbm", alpha, False, graph.adjacency, graph.labels, connected
        pointed = point_edges(graph, np.random.default_rng([seed, 3]))
        yield "dcsbm", alpha, True, pointed, graph.labels, connected
    for name in REAL:
        real = read_graph(name)
        for directed, adjacency in ((False, real.adjacency), (True, real.directed)):
            yield name, None, directed, adjacency, real.labels.argmax(axis=1), real.scored


def fit(adjacency: Any, gradient: str, seed: int) -> tuple[NDArray[Any], float]:
    relation = nf.Relation.from_matrix(adjacency).random_walk(WALK_LENGTH)
    model = nf.EDRep(
        n_components=N_COMPONENTS,
        n_epochs=N_EPOCHS,
        learning_rate=LEARNING_RATE,
        gradient=gradient,
        random_state=seed,
        verbose=0,
    ).fit(relation)
    return model.embedding_, float(model.loss_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alphas", type=float, nargs="*", default=list(ALPHAS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--n-nodes", type=int, default=30_000)
    args = parser.parse_args()
    file = ResultFile("gradient_variants", KEYS)
    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).adjacency
    for gradient in VARIANTS:
        fit(tiny, gradient, 0)
    for seed in range(args.seeds):
        for name, alpha, directed, adjacency, labels, rows in problems(args.alphas, args.n_nodes, seed):
            for gradient in VARIANTS:
                (vectors, loss), seconds = timed(lambda a=adjacency, g=gradient, s=seed: fit(a, g, s))
                result = nf.evaluate.communities(vectors, labels, nodes=rows, random_state=0)
                key = dict(zip(KEYS, (name, alpha, directed, gradient, seed), strict=True))
                found = {"nmi": round(result.nmi, 5), "ami": round(result.ami, 5), "loss": round(loss, 6)}
                file.add({**key, "n_nodes": len(labels), "seconds": round(seconds, 4), **found})
                say(f"{name} alpha {alpha} directed {directed} seed {seed} {gradient}: {found}")


if __name__ == "__main__":
    main()
