"""Maps that keep where the data are dense, beside umap-learn's densMAP: local radii, neighbours, time.

Single cells, 5,000 pictures of Fashion-MNIST and of MNIST. The local radius of a point is the mean square of the
distances from its 30 nearest; their logarithms in data and map are correlated. In the map the nearest are once those of
the data, once those of the map. umap-learn needs its package in this environment; with a seed it uses one worker, and
so does nearfar here.
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
from lab.experiment import Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import cpu_timed
from lab.peers import umap_learn
from lab.records import Record, average, groups, pick

NEAR = 30
LEVEL = 0.005  # the half of a usual interval of these means
SETS: dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]] = {
    "cells": cells,
    "Fashion-MNIST": lambda: fashion(5000),
    "MNIST": lambda: mnist(5000),
}


def nearfar_map(make: Callable[..., Any], weight: float, X: NDArray[Any], *, seed: int) -> NDArray[Any]:
    return make(density_weight=weight, random_state=seed, n_jobs=1).fit(X).embedding_


METHODS: dict[str, Callable[..., NDArray[Any]]] = {
    "nf.TSNE": partial(nearfar_map, nf.TSNE, 0.0),
    "nf.TSNE, weight 0.3": partial(nearfar_map, nf.TSNE, 0.3),
    "nf.TSNE, weight 2": partial(nearfar_map, nf.TSNE, 2.0),
    "nf.UMAP": partial(nearfar_map, nf.UMAP, 0.0),
    "nf.UMAP, weight 0.3": partial(nearfar_map, nf.UMAP, 0.3),
    "nf.UMAP, weight 2": partial(nearfar_map, nf.UMAP, 2.0),
    "umap-learn": umap_learn.fit,
    "densMAP": partial(umap_learn.fit, densmap=True),
}


def log_radii(X: NDArray[Any], near: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the logarithm of the mean square of the distances from some neighbours."""
    squares = [((X[j] - x).astype(np.float64) ** 2).sum(axis=1).mean() for x, j in zip(X, near, strict=True)]
    return np.asarray(np.log(np.array(squares) + np.finfo(float).tiny))


def correlations(X: NDArray[Any], Y: NDArray[Any]) -> dict[str, float]:
    """Return the correlations of the log local radii, by the neighbours of the data and by those of each."""
    in_data, in_map = (nf.relations.neighbors.nearest_neighbors(of, NEAR).indices for of in (X, Y))
    wanted = log_radii(X, in_data)
    found = {"radii": log_radii(Y, in_data), "own_radii": log_radii(Y, in_map)}
    return {name: float(np.corrcoef(wanted, each)[0, 1]) for name, each in found.items()}


def run(file: ResultFile, given: Namespace) -> None:
    for method in given.methods:
        METHODS[method](digits()[0][:300], seed=0)  # warm-up
    for name in given.sets:
        X, labels = SETS[name]()
        for method, seed in product(given.methods, range(given.seeds)):
            if key := file.new(name, method, seed):
                Y, seconds = cpu_timed(METHODS[method], X, seed=seed)
                scores = {**correlations(X, Y), **judged(X, Y, labels)}
                file.add({**key, "n": len(X), "seconds": seconds, **scores})


def told(section: Section, records: list[Record]) -> None:
    """Defaults but for the weight of the density, one worker. Correlation of the log local radii in data and map, by
    the 30 nearest in the data, or by those of each.
    """
    what = "nf.UMAP, weight 2, against densMAP: local radii by the neighbours of the data, by those of each, R_NX area"
    target = section.target(what, f"none more than {LEVEL} below")
    both = []
    for name, mine in groups(records, "set"):
        ours, theirs = (pick(mine, method=m) for m in ("nf.UMAP, weight 2", "densMAP"))
        for score in ("radii", "own_radii", "auc"):
            pair = average(ours, score), average(theirs, score)
            both += [(name, score, *pair)] if None not in pair else []
    if both:
        said = ", ".join(f"{name} {score.replace('_', ' ')} {a:.3f} and {b:.3f}" for name, score, a, b in both)
        target.tell(said, len(both) == 3 * len(SETS) and all(a > b - LEVEL for *_, a, b in both))
    section.rows(
        "set | n | method | radii, neighbours of the data | radii, neighbours of each | R_NX area | time",
        "{set} | {n:,} | {method} | {radii:±} | {own_radii:±} | {auc:±} | {seconds:time}",
        groups(records, "set", "method"),
    )


EXPERIMENT = Experiment(
    "Maps that keep densities", run, "set method seed", "fashion_mnist mnist pbmc68k_reduced"
).takes(sets=tuple(SETS), methods=tuple(METHODS), seeds=3)
