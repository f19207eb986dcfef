"""Time and memory of t-SNE from ten thousand to ten million points (synthetic clusters in 20 dimensions).

    python benchmarks/maps_growth.py --sizes 10000 100000 1000000
    python benchmarks/maps_growth.py --sizes 10000000 --perplexity 10 --n-jobs 1 --storage /some/folder

Each size in a process of its own, which fits the points: neighbours, start by principal components, 250 exaggerated
iterations and 500 plain ones, by default with perplexity 30. "peak" is the largest resident memory of the whole
process, Python, libraries and the points included. What comes before the first iteration, most of all the neighbours,
and the iterations are timed apart; processor seconds are those of all threads together, which other work on the machine
does not change.

With ``--storage`` points, neighbours and their probabilities are in files of that folder, mapped. Pages of mapped files
that the system has not dropped count as resident, too; "anonymous_bytes" is the largest memory that no file stands
behind, sampled every second. Neighbours are then a step of their own, and a line for each step and every 50 iterations
goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import nearfar as nf
from _common import ResultFile, peak_memory, say
from _map_data import clusters, digits

KEYS = ("n", "max_iter", "perplexity", "stored")


def measure(n: int, max_iter: int, perplexity: float, n_jobs: int | None) -> dict[str, float]:
    """Draw the points, find the neighbours, draw the map; measure each."""
    nf.TSNE(max_iter=260, far="fft", random_state=0, verbose=0).fit(digits()[0])  # compiles, or loads the kernels
    X, _ = clusters(n)
    ticks = []
    model = tsne(max_iter, perplexity, n_jobs, lambda _: ticks.append(time.perf_counter()) and None)
    begin, processor = time.perf_counter(), time.process_time()
    model.fit(X)
    processor = time.process_time() - processor
    return {
        "neighbors_seconds": round(ticks[0] - begin, 3),
        "seconds": round(time.perf_counter() - ticks[0], 3),
        "processor_seconds": round(processor, 1),
        "peak_bytes": peak_memory(),
        "kl": float(model.cost_),
    }


def measure_stored(
    folder: Path, limit: float, n: int, max_iter: int, perplexity: float, n_jobs: int | None
) -> dict[str, float]:
    """Do the same with points, neighbours and probabilities in files of a folder; stop after so many seconds."""
    nf.TSNE(max_iter=260, far="fft", random_state=0, verbose=0).fit(digits()[0])
    X = np.load(folder / f"points-{n}.npy", mmap_mode="r")
    anonymous, seen, begin, processor = [0], [], time.perf_counter(), time.process_time()

    def watch() -> None:
        while True:
            anonymous[0] = max(anonymous[0], status("RssAnon"))
            time.sleep(1)

    def tell(what: str) -> None:
        seen.append((time.perf_counter() - begin, time.process_time() - processor))
        memory = ", ".join(f"{name} {status(name) / 2**30:.2f}" for name in ("VmHWM", "VmRSS", "RssAnon"))
        times = f"{seen[-1][0]:.0f} s, processor {seen[-1][1]:.0f} s"
        print(f"{times}, {what}; GiB: {memory}, most {anonymous[0] / 2**30:.2f}", file=sys.stderr, flush=True)

    threading.Thread(target=watch, daemon=True).start()
    found = nf.Affinities(perplexity, n_jobs=n_jobs, random_state=0, storage=folder).fit(X)
    tell("neighbours are found and calibrated")

    def look(progress: nf.callbacks.Progress) -> bool:
        tell(f"iteration {progress.epoch}, KL {progress.loss:.4f}")
        return seen[-1][0] > limit

    model = tsne(max_iter, None, n_jobs, look).set_params(init="pca", storage=folder).fit(found)
    tell("done")
    np.save(folder / f"map-{n}.npy", model.embedding_)
    first = seen[1]  # the look before the first iteration
    return {
        "neighbors_seconds": round(first[0], 3),
        "neighbors_processor_seconds": round(first[1], 1),
        "seconds": round(seen[-1][0] - first[0], 3),
        "processor_seconds": round(seen[-1][1], 1),
        "peak_bytes": peak_memory(),
        "anonymous_bytes": anonymous[0],
        "n_iter": model.n_iter_,
        "kl": float(model.cost_),
    }


def tsne(max_iter: int, perplexity: float | None, n_jobs: int | None, callback: object) -> nf.TSNE:
    """Return the estimator, which does all iterations."""
    given = {} if perplexity is None else {"perplexity": perplexity}
    stops = {"min_grad_norm": 0.0, "n_iter_without_progress": max_iter}
    return nf.TSNE(max_iter=max_iter, far="fft", random_state=0, n_jobs=n_jobs, callbacks=[callback], **stops, **given)


def status(name: str) -> int:
    """Return a number of bytes that the system tells about this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--max-iter", type=int, default=750)
    parser.add_argument("--perplexity", type=float, default=30.0)
    parser.add_argument("--n-jobs", type=int)
    parser.add_argument("--storage", type=Path, help="a folder for points, neighbours and probabilities")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which the map is as it then is")
    parser.add_argument("--here", action="store_true", help="measure one size in this process, print the record")
    parser.add_argument("--points", action="store_true", help="write the points of one size to the folder")
    args = parser.parse_args()
    options = args.sizes[0], args.max_iter, args.perplexity, args.n_jobs
    if args.points:
        np.save(args.storage / f"points-{args.sizes[0]}.npy", clusters(args.sizes[0])[0])
        return
    if args.here:
        storage = (args.storage, args.limit)
        print(json.dumps(measure_stored(*storage, *options) if args.storage else measure(*options)))
        return
    file = ResultFile("maps_growth", KEYS)
    for n in args.sizes:
        command = [sys.executable, __file__, "--sizes", str(n), "--max-iter", str(args.max_iter)]
        command += ["--perplexity", str(args.perplexity)] + (["--n-jobs", str(args.n_jobs)] if args.n_jobs else [])
        if args.storage:
            args.storage.mkdir(parents=True, exist_ok=True)
            command += ["--storage", str(args.storage), "--limit", str(args.limit)]
            subprocess.run([*command, "--points"], check=True)  # elsewhere: what makes them takes memory, too
        printed = subprocess.run([*command, "--here"], check=True, stdout=subprocess.PIPE, text=True).stdout
        kind = {"perplexity": args.perplexity, "stored": bool(args.storage), "n_jobs": args.n_jobs}
        record = {"n": n, "max_iter": args.max_iter, **kind, **json.loads(printed.splitlines()[-1])}
        file.add(record)
        say(f"n={n}: {record['seconds']:.1f} s, peak {record['peak_bytes'] / 2**30:.2f} GiB, {record}")


if __name__ == "__main__":
    main()
