"""Labels and links of real graphs at 128 components: nearfar beside nine others, quality and processor time.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/graphs.py
    python benchmarks/graphs.py --graphs cora --methods nearfar DeepWalk --tasks links --draws 3 --budget 300

Graphs as in labelled_graphs.py, nodes without an edge left out. Labels: evaluate.node_classification, micro and macro
F1 at 10, 50 and 90 % of the nodes; split r is the same for all methods and is told from the vectors of seed r modulo
``--seeds`` (a method without a seed is fitted once all the same: its vectors differ by rounding). Links:
evaluate.link_prediction with 20 % of the edges held out (half of them train, half test), each of three features alone
and with the degrees; draw r is the same for all methods. The draw 0 is there to choose the feature: see the page.

Times are processor seconds of the embedding, one thread. ``--budget`` stops after so many processor seconds; what is in
the result file already is not repeated. ``--tune`` prints what each temperature gives for links, by the scalar product
and the degrees, in draws that are not told, and what our ways give for labels in splits that are not: the guide's rules
come from ``--tune --tasks links --draws 15`` on the four smaller graphs, and ``--tune --tasks labels --splits 30`` on
email-Eu-core and blogcatalog.
DeepWalk and node2vec (p = q = 0.25): 10 walks of 80 nodes from each node,
window 10, as node2vec's defaults are. Others: at the defaults of their papers or packages.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nearfar as nf
from _common import ResultFile, say
from _graph_section import GRAPHS
from labelled_graphs import LabelledGraph, read_graph, without_isolates
from peers import deepwalk, edrep_package, factorized, other_graphs

KEYS = ("graph", "task", "method", "repeat")
FRACTIONS, HELD_OUT, FEATURES, D = (0.1, 0.5, 0.9), 0.2, ("hadamard", "l2", "dot"), 128
N_WALKS, WALK_LENGTH = 10, 80
TEMPERATURES, TUNED_AT = (0.5, 0.7, 1.0), 1000  # draws from here on are not told
Vectors = NDArray[np.floating[Any]]


def nearfar(adjacency: Any, seed: int, steps: int = 3, d: int = D, **parameters: Any) -> Vectors:
    relation = nf.Relation.from_matrix(adjacency).random_walk(steps)
    return nf.EDRep(d, random_state=seed, n_jobs=1, **parameters).fit(relation).embedding_


def informed(adjacency: Any, seed: int) -> Vectors:
    """Return vectors from edges that are weighed by how much more often two nodes meet than by chance."""
    relation = nf.Relation.from_matrix(adjacency).ppmi().normalized()
    return nf.EDRep(D, temperature=0.5, random_state=seed, n_jobs=1).fit(relation).embedding_


def both_signs(adjacency: Any, seed: int) -> Vectors:
    """Return nodes that are close to their neighbours beside nodes that are far from them, half the components each."""
    return np.hstack([nearfar(adjacency, seed, 1, D // 2, p0=0, temperature=sign) for sign in (1, -1)])


def walks(adjacency: Any, seed: int, p: float = 1.0, q: float = 1.0) -> Vectors:
    options = {"n_walks": N_WALKS, "walk_length": WALK_LENGTH, "workers": 1}
    return deepwalk.embed(adjacency, D, seed=seed, p=p, q=q, **options)


METHODS: dict[str, Callable[[Any, int], Vectors]] = {
    "nearfar": nearfar,
    "nearfar, temperature 0.5": lambda A, seed: nearfar(A, seed, temperature=0.5),
    "nearfar, 1 step": lambda A, seed: nearfar(A, seed, 1),
    "nearfar, 1 step, temperature 0.5": lambda A, seed: nearfar(A, seed, 1, temperature=0.5),
    "nearfar, PPMI, temperature 0.5": informed,
    "nearfar, 5 steps": lambda A, seed: nearfar(A, seed, 5),
    "nearfar, both signs": both_signs,
    "ProNE": lambda A, seed: factorized.prone(A, D, seed=seed),
    "NetMF": lambda A, seed: factorized.netmf(A, D, seed=seed),
    "NetMF, window 1": lambda A, seed: factorized.netmf(A, D, window=1, seed=seed),
    "Spectral": lambda A, seed: other_graphs.spectral(A, D, seed=seed),
    "GSVD": lambda A, seed: other_graphs.gsvd(A, D, seed=seed),
    "Cleora": lambda A, seed: other_graphs.cleora(A, D, seed=seed),
    "EDRep 0.1.2": lambda A, seed: edrep_package.embed(A, D, seed=seed),
    "DeepWalk": walks,
    "node2vec": lambda A, seed: walks(A, seed, 0.25, 0.25),
}


def embed(method: str, adjacency: Any, seed: int) -> tuple[Vectors, float]:
    """Return the vectors and the processor seconds that they took."""
    adjacency = csr_array(adjacency, dtype=np.float32)
    adjacency.sort_indices()
    began = time.process_time()
    vectors = np.asarray(METHODS[method](adjacency, seed))
    return vectors, round(time.process_time() - began, 3)


def score_labels(graph: LabelledGraph, vectors: Vectors, repeat: int) -> dict[str, float]:
    rows = np.flatnonzero(graph.scored)
    found = nf.evaluate.node_classification(
        vectors[rows], graph.labels[rows], fractions=FRACTIONS, n_repeats=1, random_state=repeat
    )
    scores = {"micro": found.micro, "macro": found.macro}
    return {f"{kind} {share}": round(value, 5) for kind, of in scores.items() for share, value in of.items()}


def score_links(graph: LabelledGraph, method: str, repeat: int) -> dict[str, float]:
    """Return AUC and average precision by each feature, alone and with the degrees, and the time of the one fit."""
    kept: list[tuple[Vectors, float]] = []

    def once(left: nf.Relation) -> Vectors:
        if not kept:
            kept.append(embed(method, left.to_scipy(), repeat))
        return kept[0][0]

    scores: dict[str, float] = {}
    for degrees in (False, True):
        found = nf.evaluate.link_prediction(
            graph.adjacency,
            once,
            held_out=HELD_OUT,
            features=FEATURES,
            degrees=degrees,
            n_repeats=1,
            random_state=repeat,
        )
        more = " + degrees" if degrees else ""
        for kind, of in (("auc", found.auc), ("ap", found.ap)):
            scores |= {f"{kind} {name}{more}": round(value, 5) for name, value in of.items()}
    return {"cpu_seconds": kept[0][1], **scores}


def measure(file: ResultFile, graph: LabelledGraph, task: str, method: str, args: argparse.Namespace) -> None:
    """Measure what is not there yet, until the budget is spent."""
    last: tuple[int, Vectors, float] | None = None
    repeats = range(args.splits if task == "labels" else args.draws)
    for repeat in sorted(repeats, key=lambda r: (r % args.seeds, r)) if task == "labels" else repeats:
        key = dict(zip(KEYS, (graph.name, task, method, repeat), strict=True))
        if file.find(**key):
            continue
        if args.budget and time.process_time() > args.budget:
            raise SystemExit("The budget is spent; start again to go on.")
        if task == "links":
            found = score_links(graph, method, repeat)
        else:
            seed = repeat % args.seeds
            if last is None or last[0] != seed:
                last = (seed, *embed(method, graph.adjacency, seed))
            found = {"cpu_seconds": last[2], **score_labels(graph, last[1], repeat)}
        file.add({**key, **found})
        say(f"{graph.name} {task} {method} {repeat}: {found}")


def tune_labels(graph: LabelledGraph, splits: int) -> None:
    """Print the micro F1 of our ways in other splits than those that are told, by the vectors of another seed."""
    for method in (name for name in METHODS if name.startswith("nearfar")):
        vectors, _ = embed(method, graph.adjacency, TUNED_AT)
        found = [score_labels(graph, vectors, TUNED_AT + split) for split in range(splits)]
        means = ", ".join(f"{share:.0%}: {np.mean([f[f'micro {share}'] for f in found]):.4f}" for share in FRACTIONS)
        say(f"{graph.name}, {method}: {means}")


def tune_links(graph: LabelledGraph, draws: int) -> None:
    """Print the AUC of links at each temperature, and by the PPMI, in other draws than those that are told."""
    ways: dict[str, Callable[[Any, int], Vectors]] = {
        str(t): lambda A, seed, t=t: nearfar(A, seed, temperature=t) for t in TEMPERATURES
    }
    ways["PPMI"] = informed
    found = [
        [
            nf.evaluate.link_prediction(
                graph.adjacency,
                lambda left, draw=draw, way=way: way(left.to_scipy(), draw),
                held_out=HELD_OUT,
                features=["dot"],
                degrees=True,
                n_repeats=1,
                random_state=draw,
            ).auc["dot"]
            for way in ways.values()
        ]
        for draw in range(TUNED_AT, TUNED_AT + draws)
    ]
    n = graph.adjacency.shape[0]
    means = ", ".join(f"{name}: {mean:.4f}" for name, mean in zip(ways, np.mean(found, axis=0), strict=True))
    say(f"{graph.name}, {graph.adjacency.nnz / n:.1f} neighbours a node: {means}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, choices=GRAPHS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--tasks", nargs="+", default=["labels", "links"], choices=["labels", "links"])
    parser.add_argument("--seeds", type=int, default=3, help="fits for the labels")
    parser.add_argument("--splits", type=int, default=10, help="repeats of the labels, over all seeds")
    parser.add_argument(
        "--draws", type=int, default=11, help="repeats of the links, each with a fit; the first is not told"
    )
    parser.add_argument("--budget", type=float, help="processor seconds to stop after")
    parser.add_argument(
        "--tune", action="store_true", help="print what our ways give in repeats that are not told, and stop"
    )
    args = parser.parse_args()
    if args.tune:
        for graph in map(without_isolates, map(read_graph, args.graphs)):
            if "links" in args.tasks:
                tune_links(graph, args.draws)
            if "labels" in args.tasks:
                tune_labels(graph, args.splits)
        return
    file = ResultFile("graphs", KEYS)
    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0)
    tiny_adjacency = tiny.adjacency[tiny.degrees > 0][:, tiny.degrees > 0]
    for method in args.methods:
        if method.startswith(("nearfar", "EDRep", "node2vec", "DeepWalk")):  # those that are compiled at first use
            embed(method, tiny_adjacency, 0)
    for name in args.graphs:
        graph = without_isolates(read_graph(name))
        for method in args.methods:
            if method.startswith("NetMF") and graph.adjacency.shape[0] > factorized.MOST_DENSE:
                continue
            for task in args.tasks:
                measure(file, graph, task, method, args)


if __name__ == "__main__":
    main()
