"""Community recovery on planted graphs: agreement and time of four methods, from impossible to easy (figure 3A-B).

    python benchmarks/communities.py --graphs 10
    python benchmarks/communities.py --graphs 2 --alphas 2.0 2.3 --methods nearfar spectral

Graphs: n = 30,000 nodes, mean degree 10, 4 communities, propensities U(3, 12)^6, hardness alpha from 0.5 to 4.7.
All methods get the same adjacency matrix. With ``--fit all`` (default) it is the whole graph, isolated nodes
included; with ``--fit giant`` its largest component alone. Scores: NMI of k-means (5 starts, rows scaled to length
1) over the nodes with an edge, and over the giant component. Time: from the adjacency matrix to the vectors,
without k-means, after a small warm-up run. What is in the result file already is not repeated. With
``--without-times`` the agreement alone is kept: for a machine that has other work to do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import IMAGES, ResultFile, mean_and_sd, say, timed
from peers import deepwalk, edrep_package, spectral

N_NODES, N_COMMUNITIES, MEAN_DEGREE = 30_000, 4, 10.0
N_COMPONENTS, N_EPOCHS, WALK_LENGTH, LEARNING_RATE = 32, 30, 3, 0.8  # the defaults of nearfar and of the package
ALPHAS = tuple(round(0.5 + 0.3 * i, 1) for i in range(15))
KEYS = ("n_nodes", "alpha", "graph", "fit", "method")
TITLES = {"nearfar": "nearfar EDRep", "package": "EDRep 0.1.2", "deepwalk": "DeepWalk", "spectral": "Bethe-Hessian"}

Embedder = Callable[[Any, int], NDArray[Any]]  # (adjacency, seed) -> vectors


def fit_nearfar(adjacency: Any, seed: int) -> NDArray[Any]:
    model = nf.EDRep(
        n_components=N_COMPONENTS, n_epochs=N_EPOCHS, learning_rate=LEARNING_RATE, random_state=seed, verbose=0
    )
    return model.fit(nf.Relation.from_matrix(adjacency).random_walk(WALK_LENGTH)).embedding_


def fit_package(adjacency: Any, seed: int) -> NDArray[Any]:
    return edrep_package.embed(
        adjacency,
        N_COMPONENTS,
        walk_length=WALK_LENGTH,
        n_epochs=N_EPOCHS,
        learning_rate=LEARNING_RATE,
        seed=seed,
    )


def fit_spectral(adjacency: Any, seed: int) -> NDArray[Any]:
    return spectral.embed(adjacency, N_COMMUNITIES, seed=seed)[0]


def draw(alpha: float, index: int, n_nodes: int = N_NODES) -> nf.datasets.Graph:
    """Draw graph ``index`` of hardness alpha: a random stream of its own for each."""
    rng = np.random.default_rng([round(1000 * alpha), index])
    return nf.datasets.dcsbm(n_nodes, N_COMMUNITIES, MEAN_DEGREE, alpha=alpha, random_state=rng)


def score(graph: nf.datasets.Graph, vectors: NDArray[Any], giant: NDArray[np.bool_]) -> dict[str, float]:
    """Score vectors over the nodes with an edge and over the giant component."""
    found = {}
    for name, nodes in (("edges", graph.degrees > 0), ("giant", giant)):
        result = nf.evaluate.communities(vectors, graph.labels, nodes=nodes, random_state=0)
        found |= {f"nmi_{name}": round(result.nmi, 5), f"ami_{name}": round(result.ami, 5)}
    return found


def walks_for(alpha: float, n_nodes: int) -> int:
    """Return the fewest walks within 0.01 of DeepWalk's plateau at this alpha: found once, on graph 0, then kept."""
    file = ResultFile("deepwalk_walks", ("n_nodes", "alpha"))
    known = file.find(n_nodes=n_nodes, alpha=alpha)
    if known is None:
        graph = draw(alpha, 0, n_nodes)
        connected = graph.degrees > 0

        def nmi(n_walks: int) -> float:
            vectors = deepwalk.embed(graph.adjacency, N_COMPONENTS, n_walks=n_walks, seed=0)
            found = nf.evaluate.communities(vectors, graph.labels, nodes=connected, random_state=0).nmi
            say(f"DeepWalk, alpha {alpha}: {n_walks} walks, NMI {found:.3f}")
            return found

        n_walks, scores = deepwalk.fewest_walks(nmi)
        known = {"n_nodes": n_nodes, "alpha": alpha, "n_walks": n_walks}
        known["nmi"] = {str(count): round(value, 5) for count, value in scores.items()}
        file.add(known)
    return int(known["n_walks"])


def warm_up(embedders: dict[str, Embedder]) -> None:
    graph = draw(4.0, 0, 2000)
    for embed in embedders.values():
        embed(graph.adjacency, 0)


def run(args: argparse.Namespace) -> None:
    file = ResultFile("communities", KEYS)
    n_walks = 1  # of the warm-up

    def fit_deepwalk(adjacency: Any, seed: int) -> NDArray[Any]:
        return deepwalk.embed(adjacency, N_COMPONENTS, n_walks=n_walks, seed=seed)

    every = {"nearfar": fit_nearfar, "spectral": fit_spectral, "package": fit_package, "deepwalk": fit_deepwalk}
    embedders = {name: every[name] for name in args.methods}
    warm_up(embedders)
    for index in range(args.first_graph, args.graphs):
        for alpha in args.alphas:
            graph = draw(alpha, index, args.n_nodes)
            giant = nf.evaluate.giant_component(graph)
            for fit in args.fit:
                rows = np.flatnonzero(giant) if fit == "giant" else np.arange(graph.n_nodes)
                adjacency = graph.adjacency[rows][:, rows] if fit == "giant" else graph.adjacency
                for name, embed in embedders.items():
                    key = dict(zip(KEYS, (args.n_nodes, alpha, index, fit, name), strict=True))
                    if not args.again and file.find(**key):
                        continue
                    if name == "deepwalk":
                        n_walks = walks_for(alpha, args.n_nodes)
                    time.sleep(1.0)  # threads of the scoring before spin for a while when they are done
                    found, seconds = timed(lambda e=embed, a=adjacency, i=index: e(a, i))
                    vectors = np.zeros((graph.n_nodes, found.shape[1]), dtype=np.float32)
                    vectors[rows] = found
                    scores = score(graph, vectors, giant)
                    extra = {"n_walks": n_walks} if name == "deepwalk" else {}
                    kept = None if args.without_times else round(seconds, 4)
                    file.add({**key, "c_out": round(graph.c_out, 4), "seconds": kept, **scores, **extra})
                    say(f"alpha {alpha} graph {index} fit {fit} {name}: {seconds:.2f} s, NMI {scores['nmi_edges']:.3f}")


def draw_figure(n_nodes: int) -> None:
    """Draw NMI and time against alpha."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = [r for r in ResultFile("communities", KEYS).records if r["n_nodes"] == n_nodes and r["fit"] == "all"]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    colours = {"nearfar": "#0072B2", "package": "#56B4E9", "deepwalk": "#D55E00", "spectral": "#009E73"}
    for method, title in TITLES.items():
        mine = [r for r in records if r["method"] == method]
        alphas = sorted({r["alpha"] for r in mine})
        if not alphas:
            continue
        for axes, name in ((left, "nmi_edges"), (right, "seconds")):
            found = {a: [r[name] for r in mine if r["alpha"] == a and r[name] is not None] for a in alphas}
            known = [a for a in alphas if found[a]]
            means, sds = np.array([mean_and_sd(found[a]) for a in known]).T
            axes.errorbar(known, means, sds, label=title, color=colours[method], capsize=2, lw=1.2)
    left.set(xlabel="hardness α", ylabel="NMI (nodes with an edge)")
    left.axvline(1.0, color="0.7", ls=":", lw=1)
    right.set(xlabel="hardness α", ylabel="seconds", yscale="log")
    left.legend(frameon=False)
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "communities.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=10, help="number of graphs for each alpha")
    parser.add_argument("--first-graph", type=int, default=0, help="number of the first graph")
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    parser.add_argument("--methods", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--fit", nargs="+", default=["all"], choices=["all", "giant"])
    parser.add_argument("--n-nodes", type=int, default=N_NODES)
    parser.add_argument("--without-times", action="store_true", help="keep the agreement, not the seconds")
    parser.add_argument("--again", action="store_true", help="repeat what is in the result file already")
    parser.add_argument("--figure-only", action="store_true", help="draw docs/images/communities.svg and stop")
    args = parser.parse_args()
    if not args.figure_only:
        run(args)
    draw_figure(args.n_nodes)


if __name__ == "__main__":
    main()
