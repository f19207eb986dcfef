"""How maps whose kernel has short tails start: cost and neighbours kept of JSE and NeRV from three starts, four sets.

"own phases" begin with exaggerated KL under the exponential kernel, "t-SNE phases" are the default, and "t-SNE map" is
what the method makes of a whole map by t-SNE: the least cost of three sizes of it.
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
from lab.data import cells, digits, fashion, mnist
from lab.experiment import Experiment, Section
from lab.maps.scores import judged
from lab.measure import cpu_timed
from lab.records import Record, average, duration, groups, interval, middle, pick
from lab.results import ResultFile

SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": digits,
    "cells": cells,
    "MNIST": lambda: mnist(2500),
    "Fashion-MNIST": lambda: fashion(2500),
}
METHODS = {"JSE": nf.JSE, "NeRV": nf.NeRV}
STARTS = ("own phases", "t-SNE phases", "t-SNE map")
SIZES = (0.5, 0.25, 0.125)


def mapped(method: Any, start: str, affinities: nf.Affinities, options: dict[str, Any]) -> Any:
    """Return the fitted map of a method from one of the starts."""
    if start == "t-SNE phases":
        return method(init="pca", **options).fit(affinities)
    own = start == "own phases"
    first = nf.ASNE(init="pca", max_iter=250, **options) if own else nf.TSNE(init="pca", **options)
    Y, later = first.fit(affinities).embedding_, {"early_exaggeration_iter": 0, "max_iter": 500, **options}
    maps = (method(init=Y * np.float32(size), **later).fit(affinities) for size in ((1.0,) if own else SIZES))
    return min(maps, key=lambda est: est.cost_)


def run(file: ResultFile, given: Namespace) -> None:
    for name, seed in product(given.sets, range(given.seeds)):
        (X, labels), options = SETS[name](), {"random_state": seed, "n_jobs": 1}
        affinities = nf.Affinities(30, **options).fit(X)
        for method, start in product(given.methods, STARTS):
            if key := file.new(name, method, start, seed):
                est, seconds = cpu_timed(partial(mapped, METHODS[method], start, affinities, options))
                found = {"n": len(X), "seconds": round(seconds, 3), "cost": round(float(est.cost_), 4)}
                file.add({**key, **found, **judged(X, est.embedding_, labels)})


def told(section: Section, records: list[Record]) -> None:
    target = section.target(
        "cost of JSE from its default start against that from a whole t-SNE map, four sets", "within 1 %"
    )
    above = []
    for _, mine in groups(pick(records, method="JSE"), "set"):
        costs = [average(pick(mine, start=start), "cost") for start in ("t-SNE phases", "t-SNE map")]
        if None not in costs:
            above.append(costs[0] / costs[1] - 1)
    if above:
        target.tell(f"{100 * max(above):.1f} % above at most", len(above) == 4 and max(above) < 0.01)
    section.say("""750 iterations from principal components, perplexity 30, one worker. Own phases: 250 of
        exaggerated KL under the map's own kernel, then the method. t-SNE phases, the default: 250 of exaggerated
        t-SNE, 250 of t-SNE, 250 of the method. t-SNE map: 500 of the method after a whole fit of t-SNE, the best of
        three sizes of that map. Mean over seeds ± half of the 95 % interval (Student's t); of the processor time
        the median.""")
    rows = [
        [name, f"{mine[0]['n']:,}", method, start, *(interval(mine, score) for score in ("cost", "auc", "accuracy")),
         duration(middle(mine, "seconds"))]
        for name, method, start, mine in groups(records, "set", "method", "start")
    ]  # fmt: skip
    section.table(["set", "n", "method", "start", "cost", "R_NX area", "label accuracy, 10", "time"], rows)


EXPERIMENT = Experiment(
    "How maps with short tails start",
    ("set", "method", "start", "seed"),
    run,
    {"sets": tuple(SETS), "methods": tuple(METHODS), "seeds": 3},
    ("mnist", "fashion_mnist", "pbmc68k_reduced"),
)
