"""How maps whose kernel has short tails start: cost and neighbours kept of JSE and NeRV from three starts, four sets.

    python benchmarks/maps_start.py
    python benchmarks/maps_start.py --sets digits --seeds 1

"own phases" begin with exaggerated KL under the exponential kernel, "t-SNE phases" are the default, and "t-SNE map" is
what the method makes of a whole map by t-SNE: the least cost of three sizes of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, say
from _map_data import cells, digits, fashion, mnist

KEYS = ("set", "method", "start", "seed")
SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": digits,
    "cells": cells,
    "MNIST": lambda: mnist(2500),
    "Fashion-MNIST": lambda: fashion(2500),
}
METHODS = {"JSE": nf.JSE, "NeRV": nf.NeRV}
STARTS = ("own phases", "t-SNE phases", "t-SNE map")
SIZES = (0.5, 0.25, 0.125)


def draw(method: Any, start: str, affinities: nf.Affinities, options: dict[str, Any]) -> Any:
    """Return the fitted map of a method from one of the starts."""
    if start == "t-SNE phases":
        return method(init="pca", **options).fit(affinities)
    own = start == "own phases"
    first = nf.ASNE(init="pca", max_iter=250, **options) if own else nf.TSNE(init="pca", **options)
    Y, later = first.fit(affinities).embedding_, {"early_exaggeration_iter": 0, "max_iter": 500, **options}
    maps = (method(init=Y * np.float32(size), **later).fit(affinities) for size in ((1.0,) if own else SIZES))
    return min(maps, key=lambda est: est.cost_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    file = ResultFile("maps_start", KEYS)
    for name in args.sets:
        X, labels = SETS[name]()
        for seed in range(args.seeds):
            options = {"random_state": seed, "n_jobs": 1}
            affinities = nf.Affinities(30, **options).fit(X)
            for method in args.methods:
                for start in STARTS:
                    key = dict(zip(KEYS, (name, method, start, seed), strict=True))
                    if file.find(**key):
                        continue
                    run = (METHODS[method], start, affinities, options)
                    started = time.process_time()
                    est = draw(*run)
                    seconds = time.process_time() - started
                    found = nf.evaluate.neighborhoods(
                        X, est.embedding_, labels=labels, n_neighbors=(10,), random_state=0
                    )
                    scores = {"cost": est.cost_, "auc": found.auc, "accuracy": found.accuracy[10]}
                    rounded = {score: round(float(np.asarray(value)), 4) for score, value in scores.items()}
                    file.add({**key, "n": len(X), "seconds": round(seconds, 3), **rounded})
                    say(f"{key} {seconds:.2f} s {rounded}")


if __name__ == "__main__":
    main()
