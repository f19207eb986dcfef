"""Maps that grow: rows that come later, beside a fit to all rows, the old map's ``transform``, and going on from it.

A t-SNE map of the old rows takes in new ones by ``grow``: a class that it has not seen, a random fifth of all, or half
of a class, whose other half it has. Accuracy: that of the labels of the new rows by their ten nearest points in the
map. Shift: how far old points have moved, the median, in radii of the map (root mean square), without any alignment.
Piece: the share of a new class in its largest piece, points being together that are within three times the median
distance to the fifth neighbour.

``--sizes``: processor time of ``grow`` with a hundredth of new rows beside that of the fit (synthetic clusters in 20
dimensions), each size in a process of its own; once the new rows are like the old, once a cluster of their own.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

import nearfar as nf
from lab.data import Points, cells, clusters, digits, fashion, mnist
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import alone, cpu_timed, timed
from lab.records import Record, average, groups, percent, pick

SETS: dict[str, Callable[[], tuple[Points, NDArray[Any]]]] = {
    "digits": digits,
    "Fashion-MNIST": lambda: fashion(6000),
    "MNIST": lambda: mnist(6000),
    "cells": cells,
}
UNSEEN = {"digits": range(10), "Fashion-MNIST": (8,), "MNIST": (4, 7), "cells": (0, 1, 9)}
HALVES = {"digits": (1, 8, 9), "Fashion-MNIST": (8,)}
NEAR, ITERATIONS = 10, 100
ACCURACY, SHIFT, PIECE, TIME = 0.02, 0.015, 0.05, 0.1
METHODS = ("transform", "refit", "grown", "fresh")


def parts(name: str, labels: NDArray[Any], seed: int) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield what is new, and which rows those are."""
    rng = np.random.default_rng(seed)
    for c in UNSEEN[name]:
        yield f"class {c}", labels == c
    yield "random fifth", rng.random(len(labels)) < 0.2
    for c in HALVES.get(name, ()):
        yield f"half of class {c}", (labels == c) & (rng.random(len(labels)) < 0.5)


def accuracy(Y: NDArray[Any], labels: NDArray[Any], new: NDArray[np.int64]) -> float:
    """Return the share of new points most of whose nearest points have their label."""
    near = KDTree(Y).query(Y[new], NEAR + 1)[1]
    others = [row[row != point][:NEAR] for row, point in zip(near, new, strict=True)]
    return float(np.mean([np.bincount(labels[o]).argmax() == labels[p] for o, p in zip(others, new, strict=True)]))


def piece(Y: NDArray[Any]) -> float:
    """Return the share of some points in the largest piece of them."""
    tree = KDTree(Y)
    reach = 3 * float(np.median(tree.query(Y, 6)[0][:, 5]))
    ends = tree.query_pairs(reach, output_type="ndarray")
    A = csr_array((np.ones(len(ends)), ends.T), shape=(len(Y), len(Y)))
    return float(np.bincount(connected_components(A, directed=False)[1]).max() / len(Y))


def measure(X: Points, labels: NDArray[Any], new: NDArray[np.bool_], seed: int) -> dict[str, float]:
    """Draw all four maps of rows, the old ones first."""
    order = np.concatenate([np.flatnonzero(~new), np.flatnonzero(new)])
    X, labels, n = X[order], labels[order], int((~new).sum())
    rows, found = np.arange(n, len(X)), {}
    old, of_fit = timed(nf.TSNE(random_state=seed).fit, X[:n])
    before = old.embedding_
    size = np.sqrt(((before - before.mean(axis=0)) ** 2).sum(axis=1).mean())
    transformed = np.concatenate([before, old.transform(X[n:])])
    again = {"early_exaggeration_iter": 0, "max_iter": ITERATIONS, "random_state": seed}
    refit = nf.TSNE(init=transformed, **again).fit(X).embedding_
    fresh = nf.TSNE(random_state=seed).fit(X).embedding_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that some rows may belong nowhere
        _, seconds = timed(old.grow, X[n:])
    maps = dict(zip(METHODS, (transformed, refit, old.embedding_, fresh), strict=True))
    for method, Y in maps.items():
        found[f"{method}_accuracy"], found[f"{method}_piece"] = accuracy(Y, labels, rows), piece(Y[n:])
    for method in ("refit", "grown"):
        away = np.sqrt(((maps[method][:n] - before) ** 2).sum(axis=1)) / size
        found[f"{method}_shift"] = float(np.median(away))
    near = KDTree(old.embedding_).query(old.embedding_[n:], NEAR + 1)[1][:, 1:]
    mine = labels[near] == labels[n:, None]
    found["old_share"] = float((near < n)[mine].mean()) if mine.any() else 0.0
    return found | {"nowhere": float(old.growth_.nowhere[n:].mean()), "of_fit": of_fit, "seconds": seconds}


def measure_shuffled(X: Points, seed: int) -> dict[str, float]:
    """Return the share of rows with shuffled columns that are told to belong nowhere."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(X[rng.choice(len(X), 100, replace=False)], axis=1)
    est = nf.TSNE(random_state=seed).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)
        return {"nowhere": float(est.grow(shuffled).growth_.nowhere[len(X) :].mean())}


def measure_size(n: int, group: bool) -> dict[str, float]:
    """Draw a map of n points and let it grow by a hundredth, which may be a group of their own."""
    warnings.simplefilter("ignore", nf.errors.NearfarWarning)
    X, _ = clusters(n + n // 100)
    if group:
        X[n:] = clusters(n // 100, n_clusters=1)[0]
    for size in (1500, 12_000):  # compiles, or loads the kernels
        nf.TSNE(max_iter=260, far="fft", random_state=0).fit(X[:size]).grow(X[-200:])
    est = nf.TSNE(random_state=0)
    (_, whole), (_, more) = cpu_timed(lambda: est.fit(X[:n])), cpu_timed(lambda: est.grow(X[n:]))
    in_piece = {"grown_piece": piece(est.embedding_[n:])} if group else {}
    return {"fit_seconds": whole, "grow_seconds": more, "share": more / whole} | in_piece


def run(file: ResultFile, given: Namespace) -> None:
    for name in given.sets:
        X, labels = SETS[name]()
        for seed in range(given.seeds):
            for what, new in parts(name, labels, seed):
                if key := file.new(name, what, seed):
                    file.add({**key, "n": len(X), "new": int(new.sum()), **measure(X, labels, new, seed)})
            if name == "digits" and (key := file.new(name, "shuffled", seed)):
                file.add({**key, "n": len(X), "new": 100, **measure_shuffled(X, seed)})
    for n in given.sizes:
        for what, group in ((f"{n:,}", False), (f"{n:,}, a new group", True)):
            if key := file.new("clusters", what, 0):
                file.add({**key, "n": n, "new": n // 100, **alone(measure_size, n, group)})


def told(section: Section, records: list[Record]) -> None:
    near = section.target("t-SNE, new rows: label accuracy by grow beside a fit to all", f"at most {ACCURACY} below")
    still = section.target("t-SNE, new rows: median shift of old points", f"≤ {SHIFT} radii of the map")
    whole = section.target("t-SNE, unseen classes: share in the largest piece beside a fit to all", f"- {PIECE}")
    share = section.target("t-SNE, 1,000,000 + 10,000 rows: grow beside the fit", f"≤ {percent(TIME)} of the time")
    cases = [r for r in records if "grown_accuracy" in r]
    mean = [mine for *_, mine in groups(cases, "set", "what")]
    if mean:
        lacking = [(average(m, "fresh_accuracy") or 0) - (average(m, "grown_accuracy") or 0) for m in mean]
        near.tell(f"at most {max(lacking):.3f} below, {len(mean)} cases", max(lacking) <= ACCURACY)
        shifts = [average(m, "grown_shift") or 0 for m in mean]
        still.tell(f"at most {max(shifts):.4f}", max(shifts) <= SHIFT)
    classes = [m for m in mean if m[0]["what"].startswith("class")]
    if classes:
        gaps = [(average(m, "fresh_piece") or 0) - (average(m, "grown_piece") or 0) for m in classes]
        met = sum(gap <= PIECE for gap in gaps)
        whole.tell(f"within in {met} of {len(gaps)}, at most {max(gaps):.3f} smaller", met == len(gaps))
    shares = [r["share"] for r in pick(records, set="clusters", n=1_000_000)]
    if shares:
        share.tell(f"{', '.join(map(percent, shares))} of the processor time", max(shares) <= TIME)
    section.say(f"""New rows by `grow`, by `transform`, by {ITERATIONS} iterations of a fit from there ("refit"),
        by a fit to all. Accuracy: labels of new rows by {NEAR} nearest points. Shift: of old points, median, in
        radii. Piece: the share of a class's new rows in its largest piece.""")
    section.rows(
        "set | new rows | transform | refit | grow | fit to all | shift: refit | grow | piece: grow | fit to all",
        "{set} | {what} | {transform_accuracy:±} | {refit_accuracy:±} | {grown_accuracy:±} | {fresh_accuracy:±}"
        " | {refit_shift:±} | {grown_shift:±} | {grown_piece:±} | {fresh_piece:±}",
        groups(cases, "set", "what"),
    )
    halves = [r for r in cases if r["what"].startswith("half")]
    if halves:
        apart = average(halves, "old_share")
        lost = average([r for mine in classes for r in mine], "nowhere")
        shuffled = average(pick(records, what="shuffled"), "nowhere")
        section.say(f"""Half of a class whose other half is there makes no island: {percent(apart)} of the nearest
            points of its own class are old. Told to belong nowhere: {percent(lost)} of the rows of unseen classes,
            {percent(shuffled)} of digits with shuffled pixels.""")
    if sizes := pick(records, set="clusters"):
        section.say("Processor time on synthetic clusters in 20 dimensions, a hundredth of the rows new:")
        section.rows(
            "n | new rows | fit | grow | share",
            "{what} | {new:,} | {fit_seconds:time} | {grow_seconds:time} | {share:%}",
            sorted(sizes, key=lambda r: (r["n"], r["what"])),
        )


EXPERIMENT = Experiment("Maps that grow", run, "set what seed", "fashion_mnist mnist pbmc68k_reduced").takes(
    sets=tuple(SETS), seeds=5, sizes=(1_000_000,)
)
