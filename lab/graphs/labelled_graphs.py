"""Known groups in real graphs: agreement, classification and time of four methods.

Directions, weights and self-loops are dropped, so that all methods can take the graphs, and nodes without an edge, but
in polblogs+isolates, which shows what these do. One label per node: NMI of k-means over the nodes with a label and an
edge, with as many clusters as labels. Several labels per node (blogcatalog, wikipedia): DeepWalk's protocol,
evaluate.node_classification on a random half of the nodes (and on 10 % and 90 %), micro and macro F1 over 5 splits.
DeepWalk makes 40 walks per node, more than it needs on most of these graphs: its time here is not its best.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.figures import axes
from lab.graphs.data import MULTI, SINGLE, LabelledGraph, read_graph, without_isolates
from lab.graphs.methods import LOOKS, TITLES, embed
from lab.measure import timed
from lab.records import Record, distinct, duration, groups, interval, mean_and_sd, pick, values

FRACTIONS, N_SPLITS = (0.1, 0.5, 0.9), 5
HOW = {"n_epochs": 50, "learning_rate": 1.0}


def score(graph: LabelledGraph, vectors: NDArray[Any], seed: int) -> dict[str, float]:
    """Return NMI and AMI, or micro and macro F1 for each share of training nodes."""
    if graph.name in SINGLE:
        kinds, rows = graph.labels.argmax(axis=1), np.flatnonzero(graph.scored)
        result = nf.evaluate.communities(vectors, kinds, nodes=rows, random_state=seed)
        return {"nmi": result.nmi, "ami": result.ami}
    found = graph.f1(vectors, FRACTIONS, N_SPLITS, seed)
    return {name.replace(" ", "_"): value for name, value in found.items()}


def run(file: ResultFile, given: Namespace) -> None:
    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0).adjacency
    for method in given.methods:
        embed(method, tiny, 8, 4, 0)  # warm-up
    for name, method in product(given.graphs, given.methods):
        graph = read_graph(name.removesuffix("+isolates"))
        if not name.endswith("+isolates"):
            graph = without_isolates(graph)
        # The spectral method has as many columns as groups and no choice of size.
        for d, seed in product(given.n_components if method != "spectral" else [0], range(given.seeds)):
            if key := file.new(name, method, d, seed):
                how = HOW if method in ("nearfar", "package") else {}
                vectors, seconds = timed(embed, method, graph.adjacency, d, graph.labels.shape[1], seed, **how)
                file.add({**key, "seconds": seconds, **score(graph, vectors, seed)})


def draw(records: list[Record]) -> Any:
    """Draw agreement and time of each method on each graph with one label per node, 32 components."""
    records = [r for r in records if r["n_components"] in (0, 32)]
    graphs = [name for name in SINGLE if pick(records, graph=name)]
    figure, ((left, right),) = axes(1, 2)
    for at, (method, (title, colour)) in enumerate(LOOKS.items()):
        mine = [pick(records, graph=graph, method=method) for graph in graphs]
        places = np.arange(len(graphs)) + 0.2 * (at - 1.5)
        scores = [mean_and_sd(values(rs, "nmi")) if rs else (np.nan, 0.0) for rs in mine]
        means, sds = zip(*scores, strict=True) if scores else ((), ())
        left.bar(places, means, 0.2, yerr=sds, color=colour, label=title, capsize=1.5)
        shortest = [min(values(rs, "seconds"), default=np.nan) for rs in mine]  # some ran beside other programs
        right.bar(places, shortest, 0.2, color=colour)
    for ax in (left, right):
        ax.set_xticks(range(len(graphs)), graphs, rotation=30, ha="right")
    left.set(ylabel="NMI")
    right.set(ylabel="seconds", yscale="log")
    left.legend(frameon=False)
    return figure


def told(section: Section, records: list[Record]) -> None:
    """Same graph without directions and weights; DeepWalk has 40 walks per node. In brackets the shortest time.
    polblogs+isolates: nearfar gives nodes without an edge zero vectors, which change nothing, EDRep 0.1.2 random ones,
    which count in the normaliser.
    """
    single, multi = ([r for r in records if name in r] for name in ("nmi", "micro_0.5"))
    if single:
        section.say("One label per node: NMI of k-means with as many clusters as labels.")
        _by_graph(section, single, lambda rs: interval(rs, "nmi"))
        section.picture("labelled_graphs", "NMI and time on graphs with known groups, 32 components")
    if multi:
        section.say("""Several labels per node: micro / macro F1 of one-vs-rest logistic regression, half of the
        nodes known.""")
        _by_graph(section, multi, lambda rs: f"{interval(rs, 'micro_0.5')} / {interval(rs, 'macro_0.5')}")


def _by_graph(section: Section, records: list[Record], cell: Callable[[list[Record]], str]) -> None:
    columns = [(m, d) for m in TITLES for d in distinct(pick(records, method=m), "n_components")]
    rows = []
    for graph, of in groups(records, "graph"):
        both = [pick(of, method=m, n_components=d) for m, d in columns]
        rows.append([graph, *(f"{cell(rs)} ({duration(min(values(rs, 'seconds')))})" if rs else "–" for rs in both)])
    section.table(["graph", *(TITLES[m] + (f", d = {d}" if d else "") for m, d in columns)], rows)


EXPERIMENT = Experiment("Labelled graphs", run, "graph method n_components seed", "graphs").takes(
    graphs=SINGLE + MULTI, methods=tuple(LOOKS), seeds=3, n_components=(32, 128)
)
