"""Graphs: EDRep beside other embeddings of nodes, and what its far field costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, distinct, groups, middle, pick

TITLE = "Graphs"
EXPERIMENTS = (
    "speed", "communities", "found_communities", "labelled_graphs", "graphs", "graphs_strongest", "temperature",
    "temperature_choice", "nested_labels", "spreading", "genes", "figure1", "figure2", "gradient_variants",
)  # fmt: skip
SHOWN = ("nearfar", "DeepWalk", "node2vec", "ProNE", "NetMF", "Spectral", "GSVD", "Cleora", "EDRep 0.1.2")


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    from lab.graphs.graphs import best_feature, comparisons, reported

    records, compared = read("graphs"), comparisons(read("graphs"))
    text = f"""On seven graphs, nearfar as its guide says is best or tied in {sum(c.tied for c in compared)} of
        {len(compared)} comparisons (labels and links) with nine others."""
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
        Bars("time of a fit, 92,000 edges", "processor seconds", seconds, less=True, log=True),
        *_large(read),
        *_strongest(read("graphs_strongest")),
    ]


def _large(read: Callable[[str], list[Record]]) -> list[Bars]:
    """Return the tasks of one peer each: the published package, DeepWalk, Gene2Vec."""
    speed = pick(read("speed"), n_nodes=300_000, n_components=32)
    planted = [r for r in read("communities") if r["alpha"] >= 2]
    outbreaks = [r for r in read("spreading") if (r["n_components"], r["n_walks"]) in ((30, 0), (30, 10))]
    names = {"nearfar": "nearfar", "edrep": "nearfar", "package": "EDRep 0.1.2", "deepwalk": "DeepWalk"}
    names |= {"spectral": "a spectral method of planted groups", "gene2vec": "Gene2Vec"}

    def by(records: list[Record], name: str) -> dict[str, float | None]:
        return {names[m]: average(of, name) for m, of in groups(records, "method") if m in names}

    flat = [{**r, "macro_f1": statistics.fmean(r["macro_f1"])} for r in outbreaks]
    fits = {names[m]: middle(of, "seconds") for m, of in groups(speed, "method")}
    genes = [r for r in read("genes") if r["setting"] in chosen(read("genes"))]
    return [
        Bars("EDRep of 300,000 nodes, 32 components", "seconds", fits, less=True, drawn=False),
        Bars("planted communities, alpha from 2", "mean NMI", by(planted, "nmi_edges"), drawn=False),
        Bars("states of an outbreak, 4 % of them known", "macro F1", by(flat, "macro_f1"), drawn=False),
        Bars("pairs of genes, held out", "accuracy", by(genes, "accuracy"), drawn=False),
    ]


def chosen(records: list[Record]) -> set[str]:
    """Return the setting of each method that is best on the pairs that teach."""
    return {
        max((middle(of, "learn_auc") or 0, setting) for setting, of in groups(mine, "setting"))[1]
        for method, mine in groups(records, "method")
    }


def _strongest(records: list[Record]) -> list[Bars]:
    """Return the tasks of programs of other environments, one thread each, at their defaults."""
    found = []
    for task, score, what in (("labels", "micro 0.5", "micro F1 of labels"), ("groups", "nmi", "NMI of groups")):
        mine = pick(records, task=task)
        graphs = distinct(mine, "graph")
        means = {m: average(of, score) for m, of in groups(mine, "method") if distinct(of, "graph") == graphs}
        found.append(Bars(f"one thread, defaults: {what}", f"mean of {len(graphs)} graphs", means, drawn=False))
    return found
