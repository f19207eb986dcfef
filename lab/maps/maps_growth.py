"""Time and memory of t-SNE from ten thousand to ten million points (synthetic clusters in 20 dimensions).

Each size in a process of its own, which fits the points: neighbours, start by principal components, 250 exaggerated
iterations and 500 plain ones, by default with perplexity 30. "peak" is the largest resident memory of the whole
process, Python, libraries and the points included. What comes before the first iteration, most of all the neighbours,
and the iterations are timed apart; processor seconds are those of all threads together, which other work on the machine
does not change.

With ``--storage FOLDER`` (``--sizes 10000000 --perplexity 10 --n-jobs 1``) points, neighbours and their probabilities
are in files of that folder, mapped. Pages of mapped files that the system has not dropped count as resident, too;
"anonymous_bytes" is the largest memory that no file stands behind, sampled all the while. Neighbours are then a step of
their own, and a line for each step and every 50 iterations goes to standard error. ``--limit``: seconds after which the
map is as it then is.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import clusters, digits
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import Peak, alone, cpu_timed, peak_memory, status
from lab.records import Record, duration, exponent, gib, pick

MOST_GIB, MOST_SECONDS = 2.5, 250  # of a map of a million points
STORED = 10_000_000  # points of a map whose neighbours are in files
LINEAR = 1.15  # exponent up to which growth counts as linear


def tsne(max_iter: int, n_jobs: int | None, callback: object, **given: Any) -> nf.TSNE:
    """Return the estimator, which does all iterations."""
    stops = {"min_grad_norm": 0.0, "n_iter_without_progress": max_iter}
    return nf.TSNE(max_iter=max_iter, far="fft", random_state=0, n_jobs=n_jobs, callbacks=[callback], **stops, **given)


def warm_up() -> None:
    nf.TSNE(max_iter=260, far="fft", random_state=0).fit(digits()[0])  # compiles, or loads the kernels


def measure(n: int, max_iter: int, perplexity: float, n_jobs: int | None) -> dict[str, float]:
    """Draw the points, find the neighbours, draw the map; measure each."""
    warm_up()
    X, _ = clusters(n)
    ticks: list[float] = []
    model = tsne(max_iter, n_jobs, lambda _: ticks.append(time.perf_counter()) and None, perplexity=perplexity)
    begin = time.perf_counter()
    _, processor = cpu_timed(lambda: model.fit(X))
    return {
        "neighbors_seconds": ticks[0] - begin,
        "seconds": time.perf_counter() - ticks[0],
        "processor_seconds": processor,
        "peak_bytes": peak_memory(),
        "kl": float(model.cost_),
    }


def write_points(folder: Path, n: int) -> None:
    np.save(folder / f"points-{n}.npy", clusters(n)[0])


def measure_stored(
    n: int, max_iter: int, perplexity: float, n_jobs: int | None, folder: Path, limit: float
) -> dict[str, float]:
    """Do the same with points, neighbours and probabilities in files of a folder; stop after so many seconds."""
    warm_up()
    X = np.load(folder / f"points-{n}.npy", mmap_mode="r")
    seen: list[tuple[float, float]] = []
    start, begin, processor = status("RssAnon"), time.perf_counter(), time.process_time()

    def tell(what: str) -> None:
        seen.append((time.perf_counter() - begin, time.process_time() - processor))
        memory = ", ".join(f"{name} {gib(status(name))}" for name in ("VmHWM", "VmRSS", "RssAnon"))
        print(f"{seen[-1][0]:.0f} s, processor {seen[-1][1]:.0f} s, {what}; {memory}", file=sys.stderr, flush=True)

    def look(progress: nf.callbacks.Progress) -> bool:
        tell(f"iteration {progress.epoch}, KL {progress.loss:.4f}")
        return seen[-1][0] > limit

    with Peak() as anonymous:
        found = nf.Affinities(perplexity, n_jobs=n_jobs, random_state=0, storage=folder).fit(X)
        tell("neighbours are found and calibrated")
        model = tsne(max_iter, n_jobs, look).set_params(init="pca", storage=folder).fit(found)
    tell("done")
    np.save(folder / f"map-{n}.npy", model.embedding_)
    first = seen[1]  # the look before the first iteration
    return {
        "neighbors_seconds": first[0],
        "neighbors_processor_seconds": first[1],
        "seconds": seen[-1][0] - first[0],
        "processor_seconds": seen[-1][1],
        "peak_bytes": peak_memory(),
        "anonymous_bytes": round(start + 1e6 * anonymous.megabytes),
        "n_iter": model.n_iter_,
        "kl": float(model.cost_),
    }


def run(file: ResultFile, given: Namespace) -> None:
    for n in given.sizes:
        if key := file.new(n, given.max_iter, given.perplexity, bool(given.storage)):
            how = n, given.max_iter, given.perplexity, given.n_jobs
            if given.storage:
                given.storage.mkdir(parents=True, exist_ok=True)
                alone(write_points, given.storage, n)  # elsewhere: what makes them takes memory, too
            found = alone(measure_stored, *how, given.storage, given.limit) if given.storage else alone(measure, *how)
            file.add({**key, "n_jobs": given.n_jobs, **found})


def told(section: Section, records: list[Record]) -> None:
    """Synthetic clusters in 20 dimensions, perplexity 30, 750 iterations, two threads; one run of each, all
    included.
    """
    linear = section.target(
        "t-SNE from 10,000 to 1,000,000 points", f"time linear (exponent ≤ {LINEAR}), within {MOST_GIB} GiB"
    )
    fast = section.target("t-SNE of 1,000,000 points, the whole fit", f"within {MOST_SECONDS} s on two cores")
    files = section.target(
        f"t-SNE of {STORED:,} points on a machine of 24 GiB", "drawn, neighbours and probabilities in files"
    )
    records = sorted(records, key=lambda r: r["n"])
    mine, stored = ([r for r in records if bool(r.get("stored")) == kind] for kind in (False, True))
    if len(mine) > 1:
        whole = exponent([(r["n"], r["processor_seconds"]) for r in mine])
        peak, largest = max(r["peak_bytes"] for r in mine) / 2**30, mine[-1]["n"]
        met = whole <= LINEAR and peak <= MOST_GIB if largest >= 1_000_000 else None
        linear.tell(f"n^{whole:.2f}; {peak:.2f} GiB at n = {largest:,}", met)
    for record in pick(mine, n=1_000_000):
        seconds = record["processor_seconds"] / 2
        said = f"{duration(2 * seconds)} of processor time, {duration(seconds)} on each of two"
        fast.tell(said, seconds <= MOST_SECONDS)
    for r in pick(stored, n=STORED):
        memory = f"{gib(r['anonymous_bytes'])} without what is mapped"
        said = f"{r['n_iter']} iterations, {duration(r['processor_seconds'])} of one thread, {memory}"
        files.tell(said, r["n_iter"] == r["max_iter"])
    section.rows(
        "n | processor time of the whole fit | of a point | cost | peak memory of the process",
        "{n:,} | {processor_seconds:time} | {each:.0f} µs | {kl:.3f} | {peak_bytes:GiB}",
        ({**r, "each": 1e6 * r["processor_seconds"] / r["n"]} for r in mine),
    )
    if stored:
        section.say("With `storage=folder`: points, neighbours and probabilities are mapped from files; one thread.")
        for r in stored:
            r["descent"] = r["processor_seconds"] - r["neighbors_processor_seconds"]
            r["clock"] = r["neighbors_seconds"] + r["seconds"]
        section.rows(
            "n | perplexity | iterations | processor time: neighbours, start | descent | by the clock | cost"
            " | memory without mapped files | with them",
            "{n:,} | {perplexity:g} | {n_iter} | {neighbors_processor_seconds:time} | {descent:time} | {clock:time}"
            " | {kl:.3f} | {anonymous_bytes:GiB} | {peak_bytes:GiB}",
            stored,
        )


EXPERIMENT = Experiment("Scaling of maps", run, "n max_iter perplexity stored").takes(
    sizes=(10_000, 100_000, 1_000_000), max_iter=750, perplexity=30.0, n_jobs=int, storage=Path, limit=1e9
)
