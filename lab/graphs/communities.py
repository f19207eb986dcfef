"""Community recovery on planted graphs: agreement and time of four methods, from impossible to easy.

Graphs: n = 30,000 nodes, mean degree 10, 4 communities, propensities U(3, 12)^6, hardness alpha from 0.5 to 4.7.
All methods get the same adjacency matrix. With ``--fit all`` it is the whole graph, isolated nodes included; with
``--fit giant`` its largest component alone. Scores: NMI of k-means (5 starts, rows scaled to length 1) over the nodes
with an edge, and over the giant component. Time: from the adjacency matrix to the vectors, without k-means, after a
small warm-up run. ``--without-times`` keeps the agreement alone: for a machine that has other work to do.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.figures import axes
from lab.graphs.methods import LOOKS, TITLES, embed, score
from lab.measure import timed
from lab.peers import deepwalk
from lab.records import (
    Record,
    average,
    distinct,
    duration,
    groups,
    mean_and_sd,
    middle,
    on_the_same,
    pick,
    ratio,
    spread,
    values,
)

N_COMMUNITIES, N_COMPONENTS = 4, 32
ALPHAS = tuple(round(0.5 + 0.3 * i, 1) for i in range(15))
NMI_SCORES = {"nmi_edges": "nodes with an edge", "nmi_giant": "giant component"}
NO_WORSE = 0.005  # difference of two mean NMIs that is taken for noise


def graph_of(alpha: float, index: int, n_nodes: int = 30_000) -> nf.datasets.Graph:
    """Draw graph ``index`` of hardness alpha: a random stream of its own for each."""
    rng = np.random.default_rng([round(1000 * alpha), index])
    return nf.datasets.dcsbm(n_nodes, N_COMMUNITIES, 10.0, alpha=alpha, random_state=rng)


def walks_for(alpha: float, n_nodes: int) -> int:
    """Return the fewest walks within 0.01 of DeepWalk's plateau at this alpha: found once, on graph 0, then kept."""
    file = ResultFile("deepwalk_walks", ("n_nodes", "alpha"))
    known = file.find(n_nodes=n_nodes, alpha=alpha)
    if known is None:
        graph = graph_of(alpha, 0, n_nodes)
        connected = graph.degrees > 0

        def nmi(n_walks: int) -> float:
            vectors = deepwalk.embed(graph.adjacency, N_COMPONENTS, n_walks=n_walks, seed=0)
            return nf.evaluate.communities(vectors, graph.labels, nodes=connected, random_state=0).nmi

        n_walks, scores = deepwalk.fewest_walks(nmi)
        known = {"n_nodes": n_nodes, "alpha": alpha, "n_walks": n_walks}
        file.add({**known, "nmi": dict(zip(map(str, scores), scores.values(), strict=True))})
    return int(known["n_walks"])


def run(file: ResultFile, given: Namespace) -> None:
    for method in given.methods:
        embed(method, graph_of(4.0, 0, 2000).adjacency, N_COMPONENTS, N_COMMUNITIES, 0, n_walks=1)  # warm-up
    for index, alpha in product(range(given.first_graph, given.graphs), given.alphas):
        graph = graph_of(alpha, index, given.n_nodes)
        giant = nf.evaluate.giant_component(graph)
        for fit, method in product(given.fit, given.methods):
            if key := file.new(given.n_nodes, alpha, index, fit, method):
                rows = np.flatnonzero(giant) if fit == "giant" else np.arange(graph.n_nodes)
                adjacency = graph.adjacency[rows][:, rows] if fit == "giant" else graph.adjacency
                walks = {"n_walks": walks_for(alpha, given.n_nodes)} if method == "deepwalk" else {}
                time.sleep(1.0)  # threads of the scoring before spin for a while when they are done
                found, seconds = timed(embed, method, adjacency, N_COMPONENTS, N_COMMUNITIES, index, **walks)
                vectors = np.zeros((graph.n_nodes, found.shape[1]), dtype=np.float32)
                vectors[rows] = found
                kept = None if given.without_times else seconds
                file.add({**key, "c_out": graph.c_out, "seconds": kept, **score(graph, vectors, giant), **walks})


def draw(records: list[Record]) -> Any:
    """Draw NMI and time against alpha."""
    records = pick(records, n_nodes=30_000, fit="all")
    figure, ((left, right),) = axes(1, 2)
    for method, (title, colour) in LOOKS.items():
        for ax, name in ((left, "nmi_edges"), (right, "seconds")):
            found = {alpha: values(mine, name) for alpha, mine in groups(pick(records, method=method), "alpha")}
            known = [alpha for alpha in found if found[alpha]]
            means, sds = zip(*(mean_and_sd(found[alpha]) for alpha in known), strict=True) if known else ((), ())
            ax.errorbar(known, means, sds, label=title, color=colour, capsize=2, lw=1.2)
    left.set(xlabel="hardness α", ylabel="NMI (nodes with an edge)")
    left.axvline(1.0, color="0.7", ls=":", lw=1)
    right.set(xlabel="hardness α", ylabel="seconds", yscale="log")
    left.legend(frameon=False)
    return figure


def told(section: Section, records: list[Record]) -> None:
    records = pick(records, n_nodes=30_000)
    _ahead(section, records, "spectral", "the spectral method", "at most 0.02 below", lambda gain: gain >= -0.02)
    _ahead(section, records, "deepwalk", "DeepWalk", "above", lambda gain: gain > 0)
    _faster_than_deepwalk(section, records)
    section.picture("communities", "NMI and time against alpha")
    section.say("""n = 30,000, mean degree 10, 4 communities, propensities U(3, 12)⁶; k-means with 5 starts on rows
        of length 1, not timed. DeepWalk: walks of 40 nodes, window 10, 5 noise nodes, gensim with 2 workers, the
        fewest walks within 0.01 of its plateau.""")
    for fit, title in (("all", "Fitted on the whole graph"), ("giant", "Fitted on the giant component")):
        if mine := pick(records, fit=fit):
            section.lines += [f"### {title}", ""]
            _comparison(section, mine, fit)
            for score in _scores_of(fit):
                section.say(f"NMI over the {NMI_SCORES[score]}, mean ± standard deviation over the graphs.")
                _by_alpha(section, mine, partial(spread, name=score))
            section.say("Time, median over the graphs.")
            _by_alpha(section, mine, lambda rs: duration(middle(rs, "seconds")))


def _scores_of(fit: str) -> list[str]:
    """A fit on the giant component has no vectors for the nodes outside."""
    return ["nmi_giant"] if fit == "giant" else list(NMI_SCORES)


def _by_alpha(section: Section, records: list[Record], cell: Callable[[list[Record]], str]) -> None:
    known = [m for m in TITLES if pick(records, method=m)]
    rows = [[alpha, *(cell(pick(mine, method=m)) for m in known)] for alpha, mine in groups(records, "alpha")]
    section.table(["alpha", *(TITLES[m] for m in known)], rows)


def _pairs(records: list[Record], other: str, fit: str) -> Iterable[tuple[float, list[Record], list[Record]]]:
    """Yield (alpha, ours, theirs) for each alpha >= 2: the graphs that both were run on."""
    for alpha in (a for a in distinct(records, "alpha") if a >= 2):
        mine = pick(records, fit=fit, alpha=alpha)
        ours, theirs = on_the_same("graph", pick(mine, method="nearfar"), pick(mine, method=other))
        if ours:
            yield alpha, ours, theirs


def _gain(ours: list[Record], theirs: list[Record], score: str) -> float:
    """Return our mean score minus theirs."""
    return (average(ours, score) or 0.0) - (average(theirs, score) or 0.0)


def _ratio(ours: list[Record], theirs: list[Record]) -> float:
    """Return their median time over ours, on the graphs of which both have one."""
    return ratio(*on_the_same("graph", *([r for r in rs if r["seconds"] is not None] for rs in (ours, theirs))))


def _comparison(section: Section, records: list[Record], fit: str) -> None:
    """Add a row for each other method and alpha >= 2 that both were run on."""
    scores = _scores_of(fit)
    rows = [
        [TITLES[other], alpha, len(x), *(f"{_gain(x, y, score):+.3f}" for score in scores), f"{_ratio(x, y):.1f}x"]
        for other in ("spectral", "deepwalk", "package")
        for alpha, x, y in _pairs(records, other, fit)
    ]
    if rows:
        head = ["against", "alpha", "graphs", *(f"NMI, {NMI_SCORES[s]}" for s in scores), "times faster"]
        section.say("Difference between nearfar and each other method, on the graphs that both were run on.")
        section.table(head, rows)


def _ahead(
    section: Section, records: list[Record], other: str, name: str, bar: str, met: Callable[[float], bool]
) -> None:
    """Tell the smallest gain at alpha >= 2 against another method, where it is, and on how much it rests."""
    target = section.target(f"NMI at alpha ≥ 2, both sets of nodes, against {name}", bar)
    pairs = [(fit, *pair) for fit in distinct(records, "fit") for pair in _pairs(records, other, fit)]
    gains = {
        f"alpha {alpha}, {NMI_SCORES[score]}" + (", fitted there" if fit == "giant" else ""): _gain(x, y, score)
        for fit, alpha, x, y in pairs
        for score in _scores_of(fit)
    }
    if gains:
        where = min(gains, key=gains.__getitem__)
        n_alphas, n_graphs = len({alpha for _, alpha, *_ in pairs}), min(len(ours) for *_, ours, _ in pairs)
        rests = f"alphas: {n_alphas}, graphs at each: {n_graphs} or more"
        target.tell(f"{gains[where]:+.3f} at worst ({where}); {rests}", met(gains[where]))


def _faster_than_deepwalk(section: Section, records: list[Record]) -> None:
    bar = "≥ 50 times faster where NMI is within 0.005"
    target = section.target("Time against DeepWalk (2 workers), alpha ≥ 2", bar)
    pairs = list(_pairs(records, "deepwalk", "all"))
    fair = [_ratio(x, y) for _, x, y in pairs if _gain(x, y, "nmi_edges") >= -NO_WORSE]
    if pairs:
        ratios = [ratio for ratio in fair if ratio > 0]  # not every run was timed
        shown = f"{min(ratios):.0f} to {max(ratios):.0f} times, " if ratios else ""
        met = bool(ratios) and min(ratios) >= 50
        target.tell(f"{shown}NMI as good or better at {len(fair)} of {len(pairs)} alphas", met)


EXPERIMENT = Experiment(
    "Communities in planted graphs", run, "n_nodes alpha graph fit method", command="--fit all giant"
).takes(
    graphs=10,
    first_graph=0,
    alphas=ALPHAS,
    methods=tuple(LOOKS),
    fit=Choice(("all",), ("all", "giant")),
    n_nodes=30_000,
    without_times=False,
)
