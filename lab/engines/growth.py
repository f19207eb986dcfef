"""Time and memory of EDRep from ten thousand to ten million nodes (mean degree 10, d = 32).

    python -m lab run growth
    python -m lab run growth --sizes 1100000 --mean-degree 8.9 --n-components 128
    python -m lab run growth --sizes 10000000 --n-components 128 --n-epochs 2 --storage

Each size in a process of its own. "peak" is the largest resident memory of the whole process, Python, libraries and the
generation of the graph included; "fit" is what the fit adds to what was there when it began. Processor seconds are
those of all threads, which other work on the machine does not change. With ``--storage`` vectors are in files, of whose
pages the system keeps in memory what it likes, and "anonymous" is the memory that it cannot drop: the peak of that of
the whole process. NMI is taken over at most 100,000 nodes with an edge, drawn at random.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from itertools import pairwise
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import Peak, alone, peak_memory, reset_peak_memory, resident_memory, status, timed
from lab.records import Record, duration, exponent, gib, pick

LINEAR = 1.15  # exponent up to which growth counts as linear
MOST_SECONDS, MOST_GIB = 40, 8  # of a fit with d = 128: of a million nodes, and of ten million
DEGREE = 10.0


def measure(n: int, d: int, n_epochs: int, mean_degree: float, stored: bool) -> dict[str, Any]:
    """Draw a graph, fit it, and measure both."""
    # Compiles (or loads) the kernels, so that a short fit is not their time.
    small = nf.datasets.dcsbm(2000, alpha=3.0, random_state=0).relation.random_walk(3)
    nf.EDRep(n_components=d, n_epochs=1, random_state=0, verbose=0).fit(small)

    rng = np.random.default_rng([n, 1])
    graph, drawing = timed(lambda: nf.datasets.dcsbm(n, alpha=3.0, mean_degree=mean_degree, random_state=rng))
    labels, degrees, n_edges = graph.labels, graph.degrees, graph.n_edges
    adjacency = graph.adjacency
    del graph
    relation, building = timed(_relation, adjacency)
    del adjacency
    peak_before = peak_memory()
    reset_peak_memory()
    before, start = resident_memory(), status("RssAnon")
    with tempfile.TemporaryDirectory() as folder, Peak() as anonymous:
        model = nf.EDRep(n_components=d, n_epochs=n_epochs, random_state=0, storage=folder if stored else None)
        processor = time.process_time()
        _, seconds = timed(lambda: model.fit(relation))
        processor, peak = time.process_time() - processor, peak_memory()
        connected = np.random.default_rng(0).permutation(np.flatnonzero(degrees))[:100_000]
        vectors = model.embedding_[connected]
    nmi = nf.evaluate.communities(vectors, labels[connected], random_state=0).nmi
    return {
        **({} if mean_degree == DEGREE else {"mean_degree": mean_degree}),
        **({"anonymous_bytes": round(start + 1e6 * anonymous.megabytes)} if stored else {}),
        "stored": stored,
        "processor_seconds": processor,
        "n_edges": n_edges,
        "draw_seconds": drawing,
        "relation_seconds": building,
        "seconds": seconds,
        "seconds_per_epoch": seconds / n_epochs,
        "peak_bytes": max(peak, peak_before),
        "fit_bytes": peak - before,
        "nmi_edges": nmi,
    }


def _relation(adjacency: Any) -> nf.Relation:
    return nf.Relation.from_matrix(adjacency).random_walk(3)


def run(file: ResultFile, given: Namespace) -> None:
    for n in given.sizes:
        if key := file.new(n, given.n_components, given.n_epochs):
            file.add({**key, **alone(measure, *key.values(), given.mean_degree, given.storage)})


def told(section: Section, records: list[Record]) -> None:
    """One run per size, each in a process of its own; alpha = 3. The peak includes the drawing of the graph."""
    mine, wide = (sorted(pick(records, n_components=d), key=lambda r: r["n_nodes"]) for d in (32, 128))
    what = "Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32"
    slope = section.target(what, f"linear: log-log slope ≤ {LINEAR}")
    peak = section.target("10M nodes, 50M edges: peak memory of the whole process", "≤ 12 GiB")
    what = "1.1M nodes, 4.9M edges, d = 128: the whole fit of 30 epochs"
    fast = section.target(what, f"≤ {MOST_SECONDS} s on two cores")
    what = "10M nodes, 50M edges, d = 128, vectors in files: memory of the process"
    room = section.target(what, f"≤ {MOST_GIB} GiB")
    if len(mine) > 1:
        time = exponent([(r["n_nodes"], r["seconds_per_epoch"]) for r in mine])
        memory = exponent([(r["n_nodes"], r["fit_bytes"]) for r in mine if r["fit_bytes"] > 0])
        largest = mine[-1]["n_nodes"]
        met = max(time, memory) <= LINEAR if largest >= 10_000_000 else None
        slope.tell(f"time ~ n^{time:.2f}, memory of the fit ~ n^{memory:.2f} (up to {largest:,})", met)
    for r in mine:
        if r["n_nodes"] >= 10_000_000:
            peak.tell(gib(r["peak_bytes"]), r["peak_bytes"] <= 12 * 2**30)
    for r in wide:
        if not r["stored"] and (r["n_nodes"], r["n_epochs"]) == (1_100_000, 30):
            both = r["processor_seconds"]
            said = f"{duration(both)} of processor time, {duration(both / 2)} on each of two"
            fast.tell(said, both / 2 <= MOST_SECONDS)
        if r["stored"] and r["n_nodes"] == 10_000_000:
            held = r["anonymous_bytes"]
            room.tell(f"{gib(held)}, that of mapped files not counted", held <= MOST_GIB * 2**30)
    for r in mine:
        r["each"] = r["seconds_per_epoch"] / r["n_nodes"] * 1e9
    for two in pairwise(mine):
        two[1]["slope"] = exponent([(r["n_nodes"], r["seconds_per_epoch"]) for r in two])
    section.rows(
        "nodes | edges | epochs | per epoch | fit | per node and epoch | slope from the previous size"
        " | memory of the fit | peak | NMI",
        "{n_nodes:,} | {n_edges:,} | {n_epochs} | {seconds_per_epoch:time} | {seconds:time} | {each:.0f} ns"
        " | {slope:.2f} | {fit_bytes:GiB} | {peak_bytes:GiB} | {nmi_edges:.3f}",
        mine,
    )
    if wide:
        section.say("128 components. Pages of files (`storage`) are not counted as memory.")
        of_files = [{"where": "in files", "bytes": r["anonymous_bytes"], **r} for r in wide if r["stored"]]
        section.rows(
            "nodes | edges | vectors | epochs | per epoch | fit | processor time | memory of the process",
            "{n_nodes:,} | {n_edges:,} | {where} | {n_epochs} | {seconds_per_epoch:time} | {seconds:time}"
            " | {processor_seconds:time} | {bytes:GiB}",
            [{"where": "in memory", "bytes": r["peak_bytes"], **r} for r in wide if not r["stored"]] + of_files,
        )


EXPERIMENT = Experiment("Scaling of EDRep", run, "n_nodes n_components n_epochs").takes(
    sizes=(10_000, 100_000, 1_000_000, 10_000_000), n_components=32, n_epochs=30, mean_degree=DEGREE, storage=False
)
