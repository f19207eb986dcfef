"""Nearest neighbours of all rows, at equal recall: nearfar, hnswlib and faiss, side by side.

    python benchmarks/neighbors.py --sets pixels components --runs 3
    python benchmarks/neighbors.py --sets components --methods "nearfar exact" "faiss flat" --runs 1
    python benchmarks/neighbors.py --compile

Fashion-MNIST, 70,000 images, as 784 pixels and as 50 principal components; k = 90, 2 workers. Time is that of building
and searching for all rows. Recall is measured on 1,000 rows against the exact neighbours. nearfar aims at 0.99 by
itself (its tuning is part of the time); the peers get the smallest ef or nprobe that reaches 0.99 on these rows, and
hnswlib the smallest ef_construction of 50, 100, 200 for which some ef does (their tuning is not counted). The methods
take turns.

``--compile`` measures the first call in a new process with an empty cache, and with a filled one.
"""

from __future__ import annotations

import argparse
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _common import DATA, ResultFile, say, timed
from _map_data import principal_components
from nearfar.relations.neighbors import nearest_neighbors
from peers.neighbor_search import FaissFlat, FaissLists, Hnsw

KEYS = ("data", "n", "method", "trial")
K, N_JOBS, RECALL, N_CHECKED = 90, 2, 0.99, 1000
Points = NDArray[np.float32]
FIRST_CALL = (
    "import time, numpy as np\n"
    "from nearfar.relations.affinities import Affinities\n"
    "X = np.random.default_rng(0).random((5000, 10), np.float32)\n"
    "start = time.perf_counter(); Affinities(method='inverted-lists', random_state=0).fit(X)\n"
    "print(time.perf_counter() - start)"
)


def pixels() -> Points:
    raw = lzma.decompress((DATA / "fashion_mnist" / "images_70000x28x28_uint8.raw.xz").read_bytes())
    return np.frombuffer(raw, "u1").reshape(-1, 784).astype(np.float32)


def points(data: str) -> Points:
    return pixels() if data == "pixels" else principal_components(pixels(), 50)


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
    X = points(data)
    checked = Checked(X)
    nearest_neighbors(X[:5000], K, method="inverted-lists", random_state=0)  # compiles
    peers = {method: tuned(X, method, checked) for method in methods if not method.startswith("nearfar")}
    for trial in range(runs):
        for method in methods:
            if file.find(data=data, n=len(X), method=method, trial=trial):
                continue
            task, settings = peers.get(method, (None, {}))
            how = "exact" if method == "nearfar exact" else "inverted-lists"
            found, seconds = timed(task or partial(nearfar, X, how, trial))
            record = {"data": data, "n": len(X), "d": X.shape[1], "k": K, "method": method, "trial": trial}
            record |= {"seconds": round(seconds, 3), "recall": round(checked.recall(found[checked.rows]), 5)}
            record |= {"n_jobs": N_JOBS, "settings": settings}
            file.add(record)
            say(str(record))


def first_call(file: ResultFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NEARFAR_CACHE_DIR": folder}
        for method in ("nearfar, first call", "nearfar, first call, cached"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL], env=environment, capture_output=True, text=True, check=True
            )
            record = {"data": "random", "n": 5000, "d": 10, "k": K, "method": method, "trial": 0}
            file.add(record | {"seconds": round(float(done.stdout), 3)})
            say(f"{method}: {done.stdout.strip()} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=["pixels", "components"], default=[])
    parser.add_argument("--methods", nargs="+", default=["nearfar", "hnswlib", "faiss lists"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    file = ResultFile("neighbors", KEYS)
    for data in args.sets:
        measure(file, data, args.methods, args.runs)
    if args.compile:
        first_call(file)


if __name__ == "__main__":
    main()
