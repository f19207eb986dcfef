"""How well maps of the family keep neighbourhoods: R_NX of several methods on several sets of points.

Perplexity 30, every other parameter at its default. R_NX area: over neighbourhoods of all sizes, logarithmically
weighted; of more than 5,000 points on 1,000 rows, against all.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import nearfar as nf
from lab.data import Points, cells, digits, fashion, principal_components, swiss_roll
from lab.experiment import Experiment, Section
from lab.maps.scores import judged
from lab.measure import timed
from lab.records import Record, distinct, groups, number
from lab.results import ResultFile

SETS: dict[str, Callable[[], Any]] = {
    "digits": digits,
    "Fashion-MNIST": lambda: fashion(20_000),
    "swiss roll": swiss_roll,
    "single cells": cells,
}
METHODS: dict[str, Callable[[Points], Any]] = {
    "PCA": lambda X: principal_components(X, 2),
    **{
        name: lambda X, make=make: make().set_params(perplexity=30, random_state=0).fit_transform(X)
        for name, make in {
            "t-SNE": nf.TSNE,
            "NeRV": nf.NeRV,
            "JSE": nf.JSE,
            "HSSNE": nf.HSSNE,
            "SSNE": nf.SSNE,
            "ASNE": nf.ASNE,
            "t-ASNE": nf.TASNE,
            "t-NeRV": partial(nf.NeighborEmbedding, divergence="nerv"),
            "t-JSE": partial(nf.NeighborEmbedding, divergence="jensen-shannon"),
        }.items()
    },
}
FIRST = ("t-SNE", "NeRV", "JSE", "HSSNE")


def run(file: ResultFile, given: Namespace) -> None:
    for name in given.sets:
        X, labels = SETS[name]()
        for method in given.methods:
            if key := file.new(name, method):
                Y, seconds = timed(partial(METHODS[method], X))
                file.add({**key, "n": len(X), "seconds": round(seconds, 3), **judged(X, Y, labels, near=5)})


def told(section: Section, records: list[Record]) -> None:
    methods = distinct(records, "method")
    order = [m for m in FIRST if m in methods]
    methods = order + [m for m in methods if m not in order]
    target = section.target("R_NX area of NeRV, JSE and HSSNE against t-SNE on four sets", "a table")
    sets = [(name, {r["method"]: r for r in mine}) for name, mine in groups(records, "set")]
    if records:
        wins = {name: max(order, key=lambda m, of=of: of[m]["auc"] if m in of else 0) for name, of in sets}
        said = "; ".join(f"{name}: {method} wins" for name, method in wins.items())
        target.tell(said, len(sets) == 4 and len(order) == 4)
    section.say("""Perplexity 30, all other parameters at their defaults; the best of a row in bold. t-NeRV and
        t-JSE combine the divergence of NeRV and of JSE with t-SNE's kernel and its normalisation over all pairs.""")
    for score, title in (
        ("auc", "Area under R_NX (1 is perfect, 0 is chance)"),
        ("trustworthiness", "Trustworthiness at 30"),
        ("continuity", "Continuity at 30"),
        ("accuracy", "Label accuracy of the 5 nearest neighbours in the map"),
    ):
        section.say(f"{title}:")
        rows = []
        for name, of in sets:
            best = max(r[score] for r in of.values())
            cells = [number(of[m][score]) if m in of else "–" for m in methods]
            rows.append([name, *(f"**{cell}**" if m in of and of[m][score] == best else cell
                                 for m, cell in zip(methods, cells, strict=True))])  # fmt: skip
        section.table(["set", *methods], rows)


EXPERIMENT = Experiment(
    "Quality of maps",
    ("set", "method"),
    run,
    {"sets": tuple(SETS), "methods": tuple(METHODS)},
    ("fashion_mnist", "pbmc68k_reduced"),
)
