"""Nearest neighbours of all rows, at equal recall: nearfar, hnswlib and faiss, side by side.

Fashion-MNIST, 70,000 images, as 784 pixels and as 50 principal components; k = 90, 2 workers. Time is that of building
and searching for all rows. Recall is measured on 1,000 rows against the exact neighbours. nearfar aims at 0.99 by
itself (its tuning is part of the time); the peers get the smallest ef or nprobe that reaches 0.99 on these rows, and
hnswlib the smallest ef_construction of 50, 100, 200 for which some ef does (their tuning is not counted). The methods
take turns. ``--compile`` measures the first call in a new process with an empty cache, and with a filled one.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.data import Points, pixels, principal_components
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.measure import beside, timed
from lab.peers.neighbor_search import FaissFlat, FaissLists, Hnsw
from lab.records import Record, average, duration, groups, middle, number, pick, ratio, times
from lab.results import ROOT
from nearfar.relations.affinities import Affinities
from nearfar.relations.neighbors import nearest_neighbors

K, N_JOBS, RECALL, N_CHECKED = 90, 2, 0.99, 1000
NAMES = {"pixels": "784 pixels", "components": "50 components"}
METHODS = ("nearfar", "hnswlib", "faiss lists", "nearfar exact", "faiss flat")


class Checked:
    """Rows whose true neighbours are known."""

    def __init__(self, X: Points) -> None:
        self.rows = np.sort(np.random.default_rng(1).choice(len(X), N_CHECKED, replace=False))
        self.true = without_itself(FaissFlat(X, N_JOBS).search(X[self.rows], K + 1, 0), self.rows)

    def recall(self, indices: NDArray[np.integer[Any]]) -> float:
        """Return the share of the true neighbours that is among the indices of the checked rows."""
        return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(indices, self.true, strict=True)]) / K)


def without_itself(indices: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return K of K + 1 indices: without the row's own, or without the last where it is not among them."""
    kept = indices != rows[:, None]
    kept[kept.all(axis=1), -1] = False
    return indices[kept].reshape(len(indices), K)


def nearfar(X: Points, method: str, trial: int) -> NDArray[Any]:
    return nearest_neighbors(X, K, method=method, n_jobs=N_JOBS, random_state=trial).indices


def peer(X: Points, make: Callable[[Points, int], Any], breadth: int) -> NDArray[Any]:
    return without_itself(make(X, N_JOBS).search(X, K + 1, breadth), np.arange(len(X)))


def breadth_for(X: Points, made: Any, checked: Checked) -> int | None:
    """Return the smallest breadth of a peer that reaches the recall."""
    for breadth in made.breadths:
        found = without_itself(made.search(X[checked.rows], K + 1, breadth), checked.rows)
        if checked.recall(found) >= RECALL:
            return breadth
    return None


def tuned(X: Points, method: str, checked: Checked) -> tuple[Callable[[], NDArray[Any]], dict[str, Any]]:
    """Return a peer's run at the recall that is asked for, and its settings."""
    if method == "faiss flat":
        return partial(peer, X, FaissFlat, 0), {}
    if method == "faiss lists":
        nprobe = breadth_for(X, FaissLists(X, N_JOBS), checked)
        return partial(peer, X, FaissLists, nprobe), {"nprobe": nprobe}
    for ef_construction in (50, 100, 200):
        make = partial(Hnsw, ef_construction=ef_construction)
        ef = breadth_for(X, make(X, N_JOBS), checked)
        if ef is not None:
            return partial(peer, X, make, ef), {"M": 16, "ef_construction": ef_construction, "ef": ef}
    raise RuntimeError(f"hnswlib does not reach a recall of {RECALL}")


def measure(file: ResultFile, data: str, methods: list[str], runs: int) -> None:
    X = pixels() if data == "pixels" else principal_components(pixels(), 50)
    checked = Checked(X)
    nearest_neighbors(X[:5000], K, method="inverted-lists", random_state=0)  # compiles
    peers = {method: tuned(X, method, checked) for method in methods if not method.startswith("nearfar")}
    for trial, method in product(range(runs), methods):
        if key := file.new(data, len(X), method, trial):
            task, settings = peers.get(method, (None, {}))
            how = "exact" if method == "nearfar exact" else "inverted-lists"
            found, seconds = timed(task or partial(nearfar, X, how, trial))
            facts = {"d": X.shape[1], "k": K, "n_jobs": N_JOBS, "settings": settings, "seconds": seconds}
            file.add({**key, **facts, "recall": checked.recall(found[checked.rows])})


def first_call(file: ResultFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for method in ("nearfar, first call", "nearfar, first call, cached"):
            seconds = beside(ROOT / "src", "lab.search.neighbors", NEARFAR_CACHE_DIR=folder)
            key = {"data": "random", "n": 5000, "method": method, "trial": 0}
            file.add({**key, "d": 10, "k": K, "seconds": seconds})


def run(file: ResultFile, given: Namespace) -> None:
    for data in given.sets:
        measure(file, data, given.methods, given.runs)
    if given.compile:
        first_call(file)


def told(section: Section, records: list[Record]) -> None:
    """All 70,000 images, 90 neighbours, 2 workers, index construction included. nearfar tunes itself to a recall of
    0.99, within its time; the settings of the others were found beforehand. Median over runs (shortest – longest).
    """
    rows = []
    for data, name in NAMES.items():
        what = f"neighbour search on Fashion-MNIST, {name}, against hnswlib at equal recall"
        target = section.target(what, "no slower")
        mine = pick(records, data=data)
        ours, theirs = pick(mine, method="nearfar"), pick(mine, method="hnswlib")
        if ours and theirs:
            target.tell(f"{ratio(ours, theirs):.1f} times faster", ratio(ours, theirs) >= 1.0)
        for method, who in sorted(groups(mine, "method"), key=lambda group: not group[0].startswith("nearfar")):
            settings = ", ".join(f"{key} {value}" for key, value in who[0]["settings"].items())
            rows.append([name, method, settings, len(who), times(who), number(average(who, "recall"), 4)])
    section.table(["data", "search", "settings", "runs", "time", "recall"], rows)
    first = [pick(records, method=f"nearfar, first call{more}") for more in ("", ", cached")]
    if all(first):
        plain, cached = (duration(middle(who, "seconds")) for who in first)
        section.say(f"The first call in a new process, compilation included: {plain}; when compiled before: {cached}.")


EXPERIMENT = Experiment(
    "Nearest-neighbour search", run, "data n method trial", "fashion_mnist", command="--compile"
).takes(sets=tuple(NAMES), methods=Choice(METHODS[:3], METHODS), runs=3, compile=False)

if __name__ == "__main__":
    rows = np.random.default_rng(0).random((5000, 10), np.float32)
    print(timed(Affinities(method="inverted-lists", random_state=0).fit, rows)[1])
