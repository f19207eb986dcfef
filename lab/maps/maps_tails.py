"""The tail of a map's kernel, given and learned: what it costs, and the neighbours kept.

Single cells and 5,000 pictures of Fashion-MNIST, perplexity 30, one worker. HSSNE with some alpha and a learned one,
by pair; t-ASNE and inhomogeneous t-SNE with degrees of freedom for all points and for each, by row.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import cells, fashion
from lab.experiment import Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import cpu_timed
from lab.records import Record, average, groups, pick

SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "cells": cells,
    "Fashion-MNIST": lambda: fashion(5000),
}
GIVEN, WITHIN = (0.25, 0.5, 1.0, 2.0), 1.01
METHODS: dict[str, Callable[..., Any]] = {
    **{f"HSSNE, alpha {alpha:g}": partial(nf.HSSNE, alpha=alpha) for alpha in GIVEN},
    "HSSNE, alpha learned": partial(nf.HSSNE, alpha="learn"),
    "t-ASNE, nu 1": nf.TASNE,
    "inhomogeneous t-SNE, one nu learned": partial(nf.InhomogeneousTSNE, learn="global"),
    "inhomogeneous t-SNE, nu of each learned": nf.InhomogeneousTSNE,
}


def run(file: ResultFile, given: Namespace) -> None:
    for name in given.sets:
        X, labels = SETS[name]()
        affinities = nf.Affinities(30, random_state=0, n_jobs=1).fit(X)
        for method in given.methods:
            METHODS[method](max_iter=60, early_exaggeration_iter=30, random_state=0, n_jobs=1).fit(affinities)
            for seed in range(given.seeds):
                if key := file.new(name, method, seed):
                    est, seconds = cpu_timed(METHODS[method](random_state=seed, n_jobs=1).fit, affinities)
                    tail = getattr(est, "alpha_", None) or getattr(est, "degrees_of_freedom_", 1.0)
                    scores = judged(X, est.embedding_, labels)
                    found = {"cost": est.cost_, "tail": float(np.median(tail)), "seconds": seconds}
                    file.add({**key, "n": len(X), **found, **scores})


def told(section: Section, records: list[Record]) -> None:
    """Perplexity 30, one worker; time without neighbours. The tail is alpha or nu (median). Costs by pair and by row
    cannot be compared.
    """
    target = section.target("cost of HSSNE with a learned alpha", "at most 1 % above the least of those given")
    costs = {
        (name, method): average(mine, "cost")
        for name, method in product(SETS, METHODS)
        if (mine := pick(records, set=name, method=method))
    }
    told_of, within = [], []
    for name in SETS:
        learned = costs.get((name, "HSSNE, alpha learned"))
        others = [cost for (of, method), cost in costs.items() if of == name and method.startswith("HSSNE, alpha ")]
        if learned is not None and len(others) > 1:
            least = min(cost for cost in others if cost is not None and cost != learned)
            told_of.append(f"{name} {learned:.3f}, the least of the others {least:.3f}")
            within.append(learned <= WITHIN * least)
    if told_of:
        target.tell("; ".join(told_of), len(within) == len(SETS) and all(within))
    section.rows(
        "set | n | method | tail | cost | R_NX area | time",
        "{set} | {n:,} | {method} | {tail:.2f} | {cost:.3f} | {auc:±} | {seconds:time}",
        groups(records, "set", "method"),
    )


EXPERIMENT = Experiment(
    "Tails of kernels, given and learned", run, "set method seed", "fashion_mnist pbmc68k_reduced"
).takes(sets=tuple(SETS), methods=tuple(METHODS), seeds=3)
