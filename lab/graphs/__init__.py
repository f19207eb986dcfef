"""Graphs: EDRep beside other embeddings of nodes, and what its far field costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, distinct, groups, middle, pick, ratio

TITLE = "Graphs"
EXPERIMENTS = (
    "speed", "communities", "labelled_graphs", "graphs", "graphs_strongest", "temperature",
    "temperature_choice", "spreading", "genes", "figure1", "figure2", "gradient_variants",
)  # fmt: skip
SHOWN = ("nearfar", "DeepWalk", "node2vec", "ProNE", "NetMF", "Spectral", "GSVD", "Cleora", "EDRep 0.1.2")


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    from lab.graphs.graphs import best_feature, comparisons, reported

    speed, records = pick(read("speed"), n_nodes=300_000, n_components=32), read("graphs")
    compared = comparisons(records)
    faster = ratio(*(pick(speed, method=method) for method in ("nearfar", "package")))
    tied = sum(c.tied for c in compared)
    text = f"""EDRep fits 300,000 nodes {faster:.0f} times faster than the published package. On seven graphs,
        nearfar as its guide says is best or tied in {tied} of {len(compared)} comparisons (labels and links) with
        nine others. {_strongest(read("graphs_strongest"))}"""
    graphs = ("cora", "citeseer", "polblogs", "email-Eu-core", "wikipedia")
    labels, links = {}, {}
    for method in SHOWN:
        mine = [pick(records, method=method, graph=graph) for graph in graphs]
        if all(pick(of, task="labels") and pick(of, task="links") for of in mine):
            labels[method] = statistics.fmean(average(pick(of, task="labels"), "micro 0.5") for of in mine)
            found = [pick(of, task="links") for of in mine]
            links[method] = statistics.fmean(average(reported(of), f"auc {best_feature(of, True)}") for of in found)
    seconds = {m: middle(pick(records, method=m, graph="wikipedia"), "cpu_seconds") for m in labels}
    return text, [
        Bars("labels, half of them known: micro F1", "mean of five graphs", labels),
        Bars("held-out links: AUC", "mean of five graphs", links),
        Bars("time of a fit, 92,000 edges", "processor seconds", seconds, log=True),
    ]


def _strongest(records: list[Record]) -> str:
    """Say how programs of other environments compare, one thread each."""
    found = []
    for task, score, what in (("labels", "micro 0.5", "micro F1 of labels"), ("groups", "nmi", "NMI of groups")):
        mine = pick(records, task=task)
        graphs = distinct(mine, "graph")
        means = {m: average(of, score) for m, of in groups(mine, "method") if distinct(of, "graph") == graphs}
        listed = ", ".join(f"{method} {value:.2f}" for method, value in means.items() if value is not None)
        found += [f"{what}, mean of {len(graphs)} graphs: {listed}"] if listed else []
    return "One thread each, at the defaults: " + "; ".join(found) + "." if found else ""
