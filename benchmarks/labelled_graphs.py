"""Known groups in real graphs: agreement, classification and time of the same four methods.

    python benchmarks/labelled_graphs.py
    python benchmarks/labelled_graphs.py --graphs cora polblogs --seeds 2

The graphs are read from ../shared/data/graphs. Directions, weights and self-loops are dropped, so that all methods can
take them, and nodes without an edge, but in polblogs+isolates, which shows what these do. One label per node: NMI of
k-means over the nodes with a label and an edge, with as many clusters as labels. Several labels per node (blogcatalog,
wikipedia): DeepWalk's protocol, evaluate.node_classification on a random half of the nodes (and on 10 % and 90 %),
micro and macro F1 over 5 splits. DeepWalk makes 40 walks per node, more than it needs on most of these graphs: its
time here is not its best.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from _common import DATA, IMAGES, ResultFile, mean_and_sd, say, timed
from peers import deepwalk, edrep_package, spectral

N_EPOCHS, WALK_LENGTH, LEARNING_RATE, N_WALKS = 50, 3, 1.0, 40
FRACTIONS, N_SPLITS = (0.1, 0.5, 0.9), 5
SINGLE = ("email-Eu-core", "polblogs", "polblogs+isolates", "cora", "citeseer", "musae-git")
MULTI = ("blogcatalog", "wikipedia")
METHODS = ("nearfar", "package", "deepwalk", "spectral")
LOOKS = {  # title and colour
    "nearfar": ("nearfar EDRep", "#0072B2"),
    "package": ("EDRep 0.1.2", "#56B4E9"),
    "deepwalk": ("DeepWalk", "#D55E00"),
    "spectral": ("Bethe-Hessian", "#009E73"),
}
KEYS = ("graph", "method", "n_components", "seed")
# edges file, its delimiter, header lines; labels file, its delimiter, header lines, column of the label
FILES: dict[str, tuple[str, str, int, str, str, int, int]] = {
    "email-Eu-core": ("edges.txt.gz", " ", 0, "department-labels.txt", " ", 0, 1),
    "polblogs": ("edges.tsv.gz", "\t", 0, "nodes.tsv.gz", "\t", 1, 2),
    "cora": ("edges.tsv.gz", "\t", 0, "labels.tsv.gz", "\t", 1, 1),
    "citeseer": ("edges.tsv.gz", "\t", 0, "labels.tsv.gz", "\t", 1, 1),
    "musae-git": ("edges.csv.xz", ",", 1, "target.csv.xz", ",", 1, 2),
    "musae-facebook": ("edges.csv.xz", ",", 1, "target.csv.xz", ",", 1, 3),  # of temperature.py
    "blogcatalog": ("edges.tsv.xz", "\t", 0, "labels.tsv.gz", "\t", 0, 1),
    "wikipedia": ("edges.tsv.xz", "\t", 0, "labels.tsv.gz", "\t", 0, 1),
}


@dataclass
class LabelledGraph:
    """A graph with labels: adjacency (symmetric, ones), directed (as in the file), labels (n, k) of 0 and 1."""

    name: str
    adjacency: Any
    directed: Any
    labels: NDArray[np.bool_]

    @property
    def scored(self) -> NDArray[np.bool_]:
        """The nodes with a label and an edge."""
        return self.labels.any(axis=1) & (np.diff(self.adjacency.indptr) > 0)


def read_graph(name: str, folder: Path = DATA / "graphs") -> LabelledGraph:
    """Read one of the labelled graphs, nodes without an edge included."""
    edge_file, edge_sep, edge_skip, label_file, label_sep, label_skip, column = FILES[name]
    edges = np.array(_rows(folder / name / edge_file, edge_sep, edge_skip), dtype=np.int64)[:, :2]
    table = _rows(folder / name / label_file, label_sep, label_skip)
    nodes = np.array([int(row[0]) for row in table])
    values = np.array([row[column] for row in table])
    known = values != "-1"  # a node without a label
    n = int(max(edges.max(), nodes.max())) + 1
    kinds, codes = np.unique(values[known], return_inverse=True)
    labels = np.zeros((n, kinds.size), dtype=np.bool_)
    labels[nodes[known], codes] = True
    edges = edges[edges[:, 0] != edges[:, 1]]
    directed = csr_array(coo_array((np.ones(len(edges), np.float32), edges.T), shape=(n, n)))
    directed.data[:] = 1.0  # repeated edges had added up
    adjacency = csr_array(directed + directed.T)
    adjacency.data[:] = 1.0
    adjacency.sort_indices()
    return LabelledGraph(name, adjacency, directed, labels)


def without_isolates(graph: LabelledGraph) -> LabelledGraph:
    """Return the graph of the nodes that have an edge."""
    kept = np.flatnonzero(np.diff(graph.adjacency.indptr))
    parts = (csr_array(matrix[kept][:, kept]) for matrix in (graph.adjacency, graph.directed))
    return LabelledGraph(graph.name, *parts, graph.labels[kept])


def _rows(path: Path, delimiter: str, skip: int) -> list[list[str]]:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=delimiter))[skip:]


def embed(method: str, adjacency: Any, n_components: int, n_groups: int, seed: int) -> NDArray[Any]:
    """Return the vectors that a method finds."""
    if method == "nearfar":
        relation = nf.Relation.from_matrix(adjacency).random_walk(WALK_LENGTH)
        model = nf.EDRep(
            n_components=n_components, n_epochs=N_EPOCHS, learning_rate=LEARNING_RATE, random_state=seed, verbose=0
        )
        return model.fit(relation).embedding_
    if method == "package":
        return edrep_package.embed(
            adjacency,
            n_components,
            walk_length=WALK_LENGTH,
            n_epochs=N_EPOCHS,
            learning_rate=LEARNING_RATE,
            seed=seed,
        )
    if method == "deepwalk":
        return deepwalk.embed(adjacency, n_components, n_walks=N_WALKS, seed=seed)
    return spectral.embed(adjacency, n_groups, seed=seed)[0]


def score(graph: LabelledGraph, vectors: NDArray[Any], seed: int) -> dict[str, float]:
    """Return NMI and AMI, or micro and macro F1 for each share of training nodes."""
    rows = np.flatnonzero(graph.scored)
    if graph.name in SINGLE:
        result = nf.evaluate.communities(vectors, graph.labels.argmax(axis=1), nodes=rows, random_state=seed)
        return {"nmi": round(result.nmi, 5), "ami": round(result.ami, 5)}
    found = nf.evaluate.node_classification(
        vectors[rows], graph.labels[rows], fractions=FRACTIONS, n_repeats=N_SPLITS, random_state=seed
    )
    micro = {f"micro_{fraction}": round(value, 5) for fraction, value in found.micro.items()}
    return micro | {f"macro_{fraction}": round(value, 5) for fraction, value in found.macro.items()}


def draw_figure(n_components: int = 32) -> None:
    """Draw agreement and time of each method on each graph with one label per node."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = [r for r in ResultFile("labelled_graphs", KEYS).records if r["n_components"] in (0, n_components)]
    graphs = [name for name in SINGLE if any(r["graph"] == name for r in records)]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for at, (method, (title, colour)) in enumerate(LOOKS.items()):
        for axes, name in ((left, "nmi"), (right, "seconds")):
            found = [[r[name] for r in records if (r["graph"], r["method"]) == (graph, method)] for graph in graphs]
            means, sds = np.array([mean_and_sd(values) if values else (np.nan, 0.0) for values in found]).T
            if name == "seconds":  # some seeds ran beside other programs
                means = np.array([min(values, default=np.nan) for values in found])
            places = np.arange(len(graphs)) + 0.2 * (at - 1.5)
            axes.bar(places, means, 0.2, yerr=sds if name == "nmi" else None, color=colour, label=title, capsize=1.5)
    for axes in (left, right):
        axes.set_xticks(range(len(graphs)), graphs, rotation=30, ha="right")
    left.set(ylabel="NMI")
    right.set(ylabel="seconds", yscale="log")
    left.legend(frameon=False)
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "labelled_graphs.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=SINGLE + MULTI, choices=SINGLE + MULTI)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--n-components", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--again", action="store_true", help="repeat what is in the result file already")
    parser.add_argument("--figure-only", action="store_true", help="draw docs/images/labelled_graphs.svg and stop")
    args = parser.parse_args()
    if args.figure_only:
        draw_figure()
        return
    file = ResultFile("labelled_graphs", KEYS)
    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).adjacency
    for method in args.methods:
        embed(method, tiny, 8, 4, 0)  # warm-up
    for name in args.graphs:
        graph = read_graph(name.removesuffix("+isolates"))
        if not name.endswith("+isolates"):
            graph = without_isolates(graph)
        for method in args.methods:
            # The spectral method has as many columns as groups and no choice of size.
            for d in args.n_components if method != "spectral" else [0]:
                for seed in range(args.seeds):
                    key = dict(zip(KEYS, (name, method, d, seed), strict=True))
                    if not args.again and file.find(**key):
                        continue
                    vectors, seconds = timed(
                        lambda g=graph, m=method, d=d, s=seed: embed(m, g.adjacency, d, g.labels.shape[1], s)
                    )
                    scores = score(graph, vectors, seed)
                    file.add({**key, "seconds": round(seconds, 4), **scores})
                    say(f"{name} {method} d={d} seed {seed}: {seconds:.2f} s {scores}")
    draw_figure()


if __name__ == "__main__":
    main()
