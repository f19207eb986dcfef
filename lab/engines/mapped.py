"""What a relation in files costs: built out of core and fitted from a mapping, against the same in memory.

Each way runs in a process of its own, compiled beforehand. Keeps the speed of building (MB of text a second), the peak
of anonymous memory above the start while building and fitting (pages of mapped files are not counted: the system drops
them when memory is short), the seconds of the first epoch, which in the mapped case begins with nothing of the files
in the system's cache, of the later ones (median), and the final loss. With ``--limit-mb`` neither process may allocate
more than that above its start (RLIMIT_DATA): at sizes where memory fails, the mapped one goes on. ``--folder`` says
where the files go; a temporary folder by default.
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from argparse import Namespace
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile
from lab.measure import Peak, alone, status, timed


def write_edges(path: Path, n_edges: int, n_nodes: int, rng: np.random.Generator) -> None:
    """Write lines of two numbers of nine digits: ends drawn so that some have far more edges than others."""
    powers = 10 ** np.arange(8, -1, -1)
    with path.open("wb") as file:
        for start in range(0, n_edges, 500_000):
            size = (min(500_000, n_edges - start), 2)
            ends = (n_nodes * rng.random(size) ** 2).astype(np.int64) * 7919 % 999_999_937
            lines = np.full((len(ends), 20), ord(","), np.uint8)
            lines[:, :9], lines[:, 10:19] = (ends[:, k, None] // powers % 10 + ord("0") for k in (0, 1))
            lines[:, 19] = ord("\n")
            file.write(lines.tobytes())


def drop_from_cache(folder: Path) -> None:
    """Ask the system to forget the content of the files: the next one to read them reads the disk."""
    for path in folder.glob("*.npy"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_way(way: str, folder: Path, given: Namespace) -> dict[str, Any]:
    """Build and fit in one way; return a measurement, or the error."""
    for size in ("small", "large"):
        if size == "large" and given.limit_mb:
            limit = status("VmData") + given.limit_mb * 1_000_000
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            found = measure(folder / f"{size}.csv", folder / size if way == "mapped" else None, given)
        except MemoryError as error:
            found = {"error": f"out of memory: {error}"}
    return found


def measure(edges: Path, storage: Path | None, given: Namespace) -> dict[str, Any]:
    with Peak() as building:
        relation, seconds = timed(lambda: nf.Relation.from_edges(edges, storage=storage))
    if storage is not None:
        drop_from_cache(storage)
        relation = nf.Relation.open(storage)
    ticks: list[float] = []
    look = lambda _: ticks.append(time.perf_counter()) and None  # noqa: E731
    with Peak() as fitting:
        estimator = nf.EDRep(given.n_components, n_epochs=given.epochs, random_state=0, callbacks=[look])
        ticks.append(time.perf_counter())
        estimator.fit(relation.random_walk(3))
    epochs = np.diff(ticks).tolist()
    return {
        "build_seconds": seconds,
        "build_mb_per_second": edges.stat().st_size / 1e6 / seconds,
        "build_mb": building.megabytes,
        "fit_mb": fitting.megabytes,
        "first_epoch_seconds": epochs[0],
        "epoch_seconds": statistics.median(epochs[1:] or epochs),
        "loss": float(estimator.loss_),
        "stored_mb": 0 if storage is None else sum(path.stat().st_size for path in storage.iterdir()) / 1e6,
        "n": relation.shape[0],
        "nnz": relation.nnz,
    }


def run(file: ResultFile, given: Namespace) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write_edges(folder / "large.csv", given.edges, max(1, given.edges // 10), rng)
        write_edges(folder / "small.csv", 10_000, 1000, rng)
        for way in ("memory", "mapped"):
            if key := file.new(given.edges, given.n_components, given.limit_mb, way):
                try:
                    found = alone(one_way, way, folder, given)
                except BrokenProcessPool:
                    found = {"error": "the process died"}
                file.add({**key, "error": None, **found})


EXPERIMENT = Experiment(
    "Relations larger than memory", run, "edges n_components limit_mb way", may_be_missing=True
).takes(edges=5_000_000, epochs=5, n_components=32, limit_mb=0, folder=Path)
