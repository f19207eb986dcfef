"""What a relation in files costs: built out of core and fitted from a mapping, against the same in memory.

python benchmarks/mapped.py [--edges 5000000] [--epochs 5] [--n-components 32] [--limit-mb 0] [--folder /tmp]

Each way runs in a process of its own, compiled beforehand. Keeps the speed of building (MB of text a second), the peak
of anonymous memory above the start while building and fitting (pages of mapped files are not counted: the system drops
them when memory is short), the seconds of the first epoch, which in the mapped case begins with nothing of the files
in the system's cache, of the later ones (median), and the final loss. With --limit-mb neither process may allocate more
than that above its start (RLIMIT_DATA): at sizes where memory fails, the mapped one goes on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import os
import resource
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from _common import ResultFile, say

KEYS = ("edges", "n_components", "limit_mb", "way")


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


def status(field: str) -> int:
    """Return a size from /proc/self/status in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) * 1024


class Peak:
    """The peak of anonymous memory, sampled from a thread, above what there was at the start; in MB."""

    def __init__(self) -> None:
        self._start, self._highest, self._done = status("RssAnon"), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._highest = max(self._highest, status("RssAnon"))

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return max(0, self._highest - self._start) / 1e6


def drop_from_cache(folder: Path) -> None:
    """Ask the system to forget the content of the files: the next one to read them reads the disk."""
    for path in folder.glob("*.npy"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(
    way: str, edges: Path, small: Path, folder: Path, options: Any, pipe: multiprocessing.connection.Connection
) -> None:
    """Build and fit in one way; send a measurement, or the error."""
    import nearfar as nf

    stored = way == "mapped"
    for path, where in ((small, folder / "small"), (edges, folder / "large")):
        if path == edges and options.limit_mb:
            limit = status("VmData") + options.limit_mb * 1_000_000
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            found = measure(nf, path, where if stored else None, options)
        except MemoryError as error:
            found = {"error": f"out of memory: {error}"}
    pipe.send(found)


def measure(nf: Any, edges: Path, storage: Path | None, options: Any) -> dict[str, Any]:
    with Peak() as building:
        start = time.perf_counter()
        relation = nf.Relation.from_edges(edges, storage=storage)
        seconds = time.perf_counter() - start
    if storage is not None:
        drop_from_cache(storage)
        relation = nf.Relation.open(storage)
    ticks = []
    with Peak() as fitting:
        estimator = nf.EDRep(
            options.n_components,
            n_epochs=options.epochs,
            random_state=0,
            callbacks=[lambda _: ticks.append(time.perf_counter()) and None],
        )
        ticks.append(time.perf_counter())
        estimator.fit(relation.random_walk(3))
    epochs = np.diff(ticks).tolist()
    return {
        "build_seconds": round(seconds, 3),
        "build_mb_per_second": round(edges.stat().st_size / 1e6 / seconds, 1),
        "build_mb": round(building.megabytes, 1),
        "fit_mb": round(fitting.megabytes, 1),
        "first_epoch_seconds": round(epochs[0], 3),
        "epoch_seconds": round(statistics.median(epochs[1:] or epochs), 3),
        "loss": round(float(estimator.loss_), 5),
        "stored_mb": 0 if storage is None else round(sum(path.stat().st_size for path in storage.iterdir()) / 1e6, 1),
        "n": relation.shape[0],
        "nnz": relation.nnz,
    }


def in_process(way: str, edges: Path, small: Path, folder: Path, options: Any) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(way, edges, small, folder, options, theirs))
    process.start()
    theirs.close()
    try:
        return dict(ours.recv())
    except EOFError:
        return {"error": "the process died"}
    finally:
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--n-components", type=int, default=32)
    parser.add_argument("--limit-mb", type=int, default=0, help="0: none")
    parser.add_argument("--folder", help="where the files go; a temporary folder by default")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    file = ResultFile("mapped", KEYS)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        edges, small = folder / "edges.csv", folder / "small.csv"
        write_edges(edges, options.edges, max(1, options.edges // 10), rng)
        write_edges(small, 10_000, 1000, rng)
        for way in ("memory", "mapped"):
            found = in_process(way, edges, small, folder, options)
            key = (options.edges, options.n_components, options.limit_mb, way)
            file.add({**dict(zip(KEYS, key, strict=True)), "error": None, **found})
            say(f"{way}: {found}")


if __name__ == "__main__":
    main()
