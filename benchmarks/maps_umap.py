"""nf.UMAP beside umap-learn, whole fits at their defaults, on five sets of data: neighbours kept, groups, time.

    python benchmarks/maps_umap.py
    python benchmarks/maps_umap.py --seeds 5 --methods nearfar

Handwritten digits, single cells, a Swiss roll, 100 Gaussian clusters and 5,000 pictures of Fashion-MNIST. umap-learn
needs its package in this environment; with a seed it uses one worker, and so does nearfar here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, say, timed
from _map_data import cells, clusters, digits, fashion, swiss_roll
from peers import umap_learn

KEYS = ("set", "method", "seed")
SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": digits,
    "cells": cells,
    "Swiss roll": swiss_roll,
    "clusters": lambda: clusters(5000),
    "Fashion-MNIST": lambda: fashion(5000),
}
METHODS = ("nearfar", "umap-learn")


def draw(method: str, X: NDArray[Any], seed: int) -> NDArray[Any]:
    """Return the map of a method at its defaults."""
    if method == "nearfar":
        return nf.UMAP(random_state=seed, n_jobs=1).fit(X).embedding_
    return umap_learn.fit(X, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    file = ResultFile("maps_umap", KEYS)
    for method in args.methods:
        draw(method, digits()[0][:300], 0)  # warm-up
    for name in args.sets:
        X, labels = SETS[name]()
        for method in args.methods:
            for seed in range(args.seeds):
                key = dict(zip(KEYS, (name, method, seed), strict=True))
                if file.find(**key):
                    continue
                map_, seconds = timed(lambda X=X, m=method, s=seed: draw(m, X, s))
                found = nf.evaluate.neighborhoods(X, map_, labels=labels, n_neighbors=(10,), random_state=0)
                scores = {"auc": found.auc, "preservation": found.preservation[10], "accuracy": found.accuracy[10]}
                rounded = {score: round(float(np.asarray(value)), 4) for score, value in scores.items()}
                file.add({**key, "n": len(X), "seconds": round(seconds, 3), **rounded})
                say(f"{key} {seconds:.2f} s {rounded}")


if __name__ == "__main__":
    main()
