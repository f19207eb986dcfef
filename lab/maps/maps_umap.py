"""nf.UMAP beside umap-learn, whole fits at their defaults, on five sets of data: neighbours kept, groups, time.

Handwritten digits, single cells, a Swiss roll, 100 Gaussian clusters and 5,000 pictures of Fashion-MNIST. umap-learn
needs its package in this environment; with a seed it uses one worker, and so does nearfar here. A new peer is a
function in ``lab/peers`` and a line in METHODS.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import Any

from numpy.typing import NDArray

import nearfar as nf
from lab.data import Points, cells, clusters, digits, fashion, swiss_roll
from lab.experiment import Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import timed
from lab.peers import umap_learn
from lab.records import Record, average, groups, pick

SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": digits,
    "cells": cells,
    "Swiss roll": swiss_roll,
    "clusters": lambda: clusters(5000),
    "Fashion-MNIST": lambda: fashion(5000),
}
METHODS: dict[str, Callable[[Points, int], NDArray[Any]]] = {
    "nearfar": lambda X, seed: nf.UMAP(random_state=seed, n_jobs=1).fit(X).embedding_,
    "umap-learn": umap_learn.fit,
}


def run(file: ResultFile, given: Namespace) -> None:
    for method in given.methods:
        METHODS[method](digits()[0][:300], 0)  # warm-up
    for name in given.sets:
        X, labels = SETS[name]()
        for method, seed in product(given.methods, range(given.seeds)):
            if key := file.new(name, method, seed):
                Y, seconds = timed(METHODS[method], X, seed)
                file.add({**key, "n": len(X), "seconds": seconds, **judged(X, Y, labels)})


def told(section: Section, records: list[Record]) -> None:
    """Defaults of both, one worker."""
    target = section.target("R_NX area of nf.UMAP against umap-learn's, five sets", "above on each")
    both = []
    for _, mine in groups(records, "set"):
        areas = [average(pick(mine, method=m), "auc") for m in ("nearfar", "umap-learn")]
        both += [areas] if None not in areas else []
    if both:
        above = sum(ours > theirs for ours, theirs in both)
        target.tell(f"above on {above} of {len(both)}", above == len(both) == 5)
    section.rows(
        "set | n | method | R_NX area | neighbours kept, 10 | label accuracy, 10 | time",
        "{set} | {n:,} | {method} | {auc:±} | {preservation:±} | {accuracy:±} | {seconds:time}",
        groups(records, "set", "method"),
    )


EXPERIMENT = Experiment("UMAP against umap-learn", run, "set method seed", "fashion_mnist pbmc68k_reduced").takes(
    sets=tuple(SETS), methods=tuple(METHODS), seeds=3
)
