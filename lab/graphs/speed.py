"""EDRep against the published package: the same relation, size, epochs and learning rate, side by side.

The two take turns. Time: from the same adjacency matrix to the vectors, after a small warm-up run. ``--runs 1`` is
enough for 300,000 nodes.
"""

from __future__ import annotations

import time
from argparse import Namespace
from itertools import product

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.methods import embed, score
from lab.measure import measured
from lab.records import Record, average, groups, mib, middle, pick, ratio, spread, times

METHODS = ("nearfar", "package")
SCORES = ("nmi_edges", "nmi_giant")
NO_WORSE = 0.005  # difference of two mean NMIs that is taken for noise


def run(file: ResultFile, given: Namespace) -> None:
    tiny = nf.datasets.dcsbm(2000, alpha=3.0, random_state=0).adjacency
    for d, method in product(given.n_components, METHODS):
        embed(method, tiny, d, 4, 0)
    for n in given.sizes:
        graph = nf.datasets.dcsbm(n, alpha=3.0, random_state=np.random.default_rng([n, 0]))
        giant = nf.evaluate.giant_component(graph)
        for d, trial, method in product(given.n_components, range(given.runs), METHODS):
            if key := file.new(n, d, method, trial):
                time.sleep(1.0)  # threads of the scoring before spin for a while when they are done
                vectors, seconds, memory = measured(embed, method, graph.adjacency, d, 4, trial)
                spent = {"seconds": seconds, "bytes": memory}
                file.add({**key, "n_edges": graph.n_edges, **spent, **score(graph, vectors, giant)})


def told(section: Section, records: list[Record]) -> None:
    """Same planted graph, relation, epochs and learning rate. From the adjacency matrix to the vectors, median over
    runs (shortest – longest). Memory: how far the process grew.
    """
    rows = []
    for n in (30_000, 300_000):
        target = section.target(
            f"EDRep fit against the published package, n = {n:,}", "≥ 20 times faster, NMI within 0.005"
        )
        ratios, worse = {}, []
        for d, mine in groups(pick(records, n_nodes=n), "n_components"):
            both = [pick(mine, method=method) for method in METHODS]
            if all(both):
                ratios[d] = ratio(*both)
                means = [[average(who, score) or 0 for who in both] for score in SCORES]
                worse += [theirs - ours for ours, theirs in means]
                cells = [[show(who) for who in both] for show in (times, _nmi, lambda who: mib(middle(who, "bytes")))]
                rows.append([f"{n:,}", d, len(both[0]), *cells[0], f"**{ratios[d]:.1f}x**", *cells[1], *cells[2]])
        if ratios:
            said = ", ".join(f"{ratio:.1f} times at d = {d}" for d, ratio in ratios.items())
            met = min(ratios.values()) >= 20 and max(worse) <= NO_WORSE
            target.tell(f"{said}; NMI {0.0 - max(worse):+.3f} at worst", met)
    head = ["n", "d", "runs", "nearfar", "package", "ratio", "NMI", "NMI, package", "memory", "memory, package"]
    section.table(head, rows)


def _nmi(records: list[Record]) -> str:
    return spread(records, "nmi_edges")


EXPERIMENT = Experiment("EDRep against the published package", run, "n_nodes n_components method trial").takes(
    sizes=(30_000, 300_000), n_components=(32, 128), runs=3
)
