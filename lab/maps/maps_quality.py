"""How well maps of the family keep neighbourhoods: R_NX of several methods on several sets of points.

Perplexity 30, every other parameter at its default. R_NX area: over neighbourhoods of all sizes, logarithmically
weighted; of more than 5,000 points on 1,000 rows, against all.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_s_curve, make_swiss_roll

import nearfar as nf
from lab.data import Points, cells, clusters, digits, fashion, mnist, papers, principal_components, simplex, swiss_roll
from lab.experiment import Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import cpu_timed, timed
from lab.records import Record, average, distinct, groups, number, pick

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
                Y, seconds = timed(METHODS[method], X)
                file.add({**key, "n": len(X), "seconds": seconds, **judged(X, Y, labels, near=5)})


def told(section: Section, records: list[Record]) -> None:
    """Perplexity 30; the best in bold. t-NeRV, t-JSE: the divergences with t-SNE's kernel and normalisation."""
    methods = distinct(records, "method")
    order = [m for m in FIRST if m in methods]
    methods = order + [m for m in methods if m not in order]
    target = section.target("R_NX area of NeRV, JSE and HSSNE against t-SNE on four sets", "a table")
    sets = [(name, {r["method"]: r for r in mine}) for name, mine in groups(records, "set")]
    if records:
        wins = {name: max(order, key=lambda m, of=of: of[m]["auc"] if m in of else 0) for name, of in sets}
        said = "; ".join(f"{name}: {method} wins" for name, method in wins.items())
        target.tell(said, len(sets) == 4 and len(order) == 4)
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


EXPERIMENT = Experiment("Quality of maps", run, "set method", "fashion_mnist pbmc68k_reduced").takes(
    sets=tuple(SETS), methods=tuple(METHODS)
)


# ---------------------------------------------------------------- maps start


def sheet(name: str, seed: int, n: int = 1000) -> tuple[Points, NDArray[np.int64]]:
    """Return points of a curved surface in space, another draw for each seed, and in which tenth each is along it."""
    rng = np.random.default_rng(seed)
    if name == "torus":
        along, around = rng.uniform(0, 2 * np.pi, (2, n))
        radius = 2 + np.cos(around)
        X = np.stack([radius * np.cos(along), radius * np.sin(along), np.sin(around)], axis=1)
    elif name == "sphere":
        X = rng.normal(size=(n, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        along = X[:, 2]
    else:
        make = {"swiss roll": make_swiss_roll, "S-curve": make_s_curve}[name]
        X, along = make(n, random_state=seed)
    return X.astype(np.float32), np.argsort(np.argsort(along)) * 10 // n


SHEETS = ("swiss roll", "S-curve", "torus", "sphere")
SETS_OF_STARTS: dict[str, Callable[[int], tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": lambda _: digits(),
    "cells": lambda _: cells(),
    "MNIST": lambda _: mnist(2500),
    "Fashion-MNIST": lambda _: fashion(2500),
    "s1k": lambda _: simplex(),
    "Cora": lambda _: papers(),
    "blobs": lambda _: clusters(2000, n_clusters=20),
    **{name: partial(sheet, name) for name in SHEETS},
}
STARTED = {"JSE": nf.JSE, "NeRV": nf.NeRV, "HSSNE": nf.HSSNE, "SSNE": nf.SSNE, "ASNE": nf.ASNE, "t-ASNE": nf.TASNE}
STARTS = ("own phases", "default", "t-SNE map")
SIZES = (0.5, 0.25, 0.125)


def mapped(method: Any, start: str, affinities: nf.Affinities, options: dict[str, Any]) -> Any:
    """Return the fitted map of a method from one of the starts."""
    if start == "default":
        return method(init="pca", **options).fit(affinities)
    own = start == "own phases"
    first = nf.ASNE(init="pca", max_iter=250, **options) if own else nf.TSNE(init="pca", **options)
    Y, later = first.fit(affinities).embedding_, {"early_exaggeration_iter": 0, "max_iter": 500, **options}
    maps = (method(init=Y * np.float32(size), **later).fit(affinities) for size in ((1.0,) if own else SIZES))
    return min(maps, key=lambda est: est.cost_)


def run_maps_start(file: ResultFile, given: Namespace) -> None:
    """How well maps start: cost and neighbours kept of each member from its default start and from a whole map.

    Seven sets, and four curved sheets, each seed with other points. The default is to begin as t-SNE; "own phases" of
    JSE, NeRV and HSSNE would begin with exaggerated KL under the exponential kernel. "t-SNE map" is what the method
    makes of a whole map by t-SNE: the least cost of three sizes of it.
    """
    for name, seed in product(given.sets, range(given.seeds)):
        (X, labels), options = SETS_OF_STARTS[name](seed), {"random_state": seed, "n_jobs": 1}
        affinities = nf.Affinities(30, **options).fit(X)
        for method, start in product(given.methods, STARTS):
            if start == STARTS[0] and method not in tuple(STARTED)[:3]:  # its default
                continue
            if key := file.new(name, method, start, seed):
                est, seconds = cpu_timed(mapped, STARTED[method], start, affinities, options)
                spent = {"seconds": seconds, "cost": float(est.cost_)}
                file.add({**key, "n": len(X), **spent, **judged(X, est.embedding_, labels)})


def told_maps_start(section: Section, records: list[Record]) -> None:
    """750 iterations from principal components, perplexity 30, one worker. Own phases: 250 of exaggerated KL under the
    map's own kernel. Default of JSE, NeRV, HSSNE: 250 of exaggerated t-SNE, 250 of t-SNE, 250 of the method; of the
    others 170 of exaggerated t-SNE, 80 and 500 of the method. t-SNE map: 500 of the method after a whole fit of t-SNE.
    """
    target = section.target(
        "cost of each member from its default start against that from a whole t-SNE map, each set", "within 1 %"
    )
    above = []
    for name, method, mine in groups(records, "set", "method"):
        costs = [average(pick(mine, start=start), "cost") for start in STARTS[1:]]
        if None not in costs:
            above.append((costs[0] / costs[1] - 1, f"{method}, {name}"))
    if above:
        (most, where), all_sets = max(above), len(above) == len(STARTED) * len(SETS_OF_STARTS)
        target.tell(f"{100 * most:.1f} % above at most ({where})", all_sets and most < 0.01)
    section.rows(
        "set | n | method | start | cost | R_NX area | label accuracy, 10 | time",
        "{set} | {n:,} | {method} | {start} | {cost:±} | {auc:±} | {accuracy:±} | {seconds:time}",
        groups(records, "set", "method", "start"),
    )


START_EXPERIMENT = Experiment(
    "How maps start", run_maps_start, "set method start seed", "mnist fashion_mnist pbmc68k_reduced s1k graphs"
).takes(sets=tuple(SETS_OF_STARTS), methods=tuple(STARTED), seeds=3)


# ---------------------------------------------------------------- maps floor


FLOORS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SMALLEST = 1e-12
KERNELS = {"row": "exponential", "pair": "student-t"}


def run_maps_floor(file: ResultFile, _given: Namespace) -> None:
    """What the floor of reverse KL and NeRV does: maps from the nearest neighbours and a floor, beside maps from all
    of P.

    The original of these methods has a dense P, Gaussian over all pairs, and needs no floor but that p is a number
    above 0. The fast path has P on the nearest neighbours, and spreads a share ``floor`` of it evenly over all
    pairs. scikit-learn's digits, perplexity 30, all sums exact.
    """
    X = digits()[0]
    P = {
        "all pairs": nf.Affinities(30, n_neighbors="all").fit(X),
        "neighbours": nf.Affinities(30, random_state=0).fit(X),
    }
    wanted = [("all pairs", SMALLEST), *(("neighbours", floor) for floor in FLOORS)]
    for divergence, (normalization, kernel), (which, floor) in product(
        (nf.divergences.ReverseKL, nf.divergences.NeRV), KERNELS.items(), wanted
    ):
        if key := file.new(divergence.__name__, normalization, which, floor):
            parts = {"divergence": divergence(floor=floor), "kernel": kernel, "normalization": normalization}
            model = nf.NeighborEmbedding(**parts, init="spectral", far="exact", random_state=0)
            Y, seconds = timed(model.fit_transform, P[which])
            file.add({**key, "n": len(X), "seconds": seconds, **judged(X, Y)})


def told_maps_floor(section: Section, records: list[Record]) -> None:
    """Digits, perplexity 30, exact sums, same start. Row: the exponential kernel (published NeRV); pair: Student's t. P
    over all pairs is the original, where the floor only keeps p above 0.
    """
    target = section.target("the floor of reverse KL and NeRV against the dense original", "a table")
    if records:
        target.tell(f"{len(records)} maps", True)
    section.rows(
        "divergence | normalisation | P | floor | R_NX area | trustworthiness at 30 | continuity at 30",
        "{divergence} | {normalization} | {P} | {floor:g} | {auc:.4f} | {trustworthiness:.4f} | {continuity:.4f}",
        records,
    )


FLOOR_EXPERIMENT = Experiment("The floor of reverse KL and NeRV", run_maps_floor, "divergence normalization P floor")
