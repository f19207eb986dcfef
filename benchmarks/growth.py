"""Time and memory of EDRep from ten thousand to ten million nodes (mean degree 10, d = 32).

    python benchmarks/growth.py --sizes 10000 100000 1000000 10000000
    python benchmarks/growth.py --sizes 1100000 --mean-degree 8.9 --n-components 128
    python benchmarks/growth.py --sizes 10000000 --n-components 128 --n-epochs 2 --storage

Each size in a process of its own. "peak" is the largest resident memory of the whole process, Python, libraries and the
generation of the graph included; "fit" is what the fit adds to what was there when it began. Processor seconds are
those of all threads, which other work on the machine does not change. With ``--storage`` vectors are in files, of whose
pages the system keeps in memory what it likes, and "anonymous" is the memory that it cannot drop: the peak of that of
the whole process. NMI is taken over at most 100,000 nodes with an edge, drawn at random.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed
from mapped import Peak, status

ALPHA, WALK_LENGTH = 3.0, 3
DEGREE = 10.0
KEYS = ("n_nodes", "n_components", "n_epochs")


def measure(n: int, d: int, n_epochs: int, mean_degree: float, storage: str | None) -> dict[str, Any]:
    """Draw a graph, fit it, and measure both."""
    # Compiles (or loads) the kernels, so that a short fit is not their time.
    small = nf.datasets.dcsbm(2000, alpha=ALPHA, random_state=0).relation.random_walk(WALK_LENGTH)
    nf.EDRep(n_components=d, n_epochs=1, random_state=0, verbose=0).fit(small)

    rng = np.random.default_rng([n, 1])
    graph, drawing = timed(lambda: nf.datasets.dcsbm(n, alpha=ALPHA, mean_degree=mean_degree, random_state=rng))
    labels, degrees, n_edges = graph.labels, graph.degrees, graph.n_edges
    adjacency = graph.adjacency
    del graph
    relation, building = timed(partial(_relation, adjacency))
    del adjacency
    peak_before = peak_memory()
    reset_peak_memory()
    before = resident_memory()
    model = nf.EDRep(n_components=d, n_epochs=n_epochs, random_state=0, storage=storage)
    start, processor = status("RssAnon"), time.process_time()
    with Peak() as anonymous:
        _, seconds = timed(lambda: model.fit(relation))
    processor, peak = time.process_time() - processor, peak_memory()
    connected = np.random.default_rng(0).permutation(np.flatnonzero(degrees))[:100_000]
    nmi = nf.evaluate.communities(model.embedding_[connected], labels[connected], random_state=0).nmi
    wide = {} if mean_degree == DEGREE else {"mean_degree": mean_degree}
    if storage is not None:
        wide["anonymous_bytes"] = round(start + 1e6 * anonymous.megabytes)
    return {
        "n_nodes": n,
        **wide,
        "stored": storage is not None,
        "processor_seconds": round(processor, 2),
        "n_components": d,
        "n_epochs": n_epochs,
        "n_edges": n_edges,
        "draw_seconds": round(drawing, 3),
        "relation_seconds": round(building, 3),
        "seconds": round(seconds, 4),
        "seconds_per_epoch": round(seconds / n_epochs, 5),
        "peak_bytes": max(peak, peak_before),
        "fit_bytes": peak - before,
        "nmi_edges": round(nmi, 5),
    }


def _relation(adjacency: Any) -> nf.Relation:
    return nf.Relation.from_matrix(adjacency).random_walk(WALK_LENGTH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--n-components", type=int, default=32)
    parser.add_argument("--n-epochs", type=int, default=30)
    parser.add_argument("--mean-degree", type=float, default=DEGREE)
    parser.add_argument("--storage", action="store_true", help="vectors in files, in a temporary folder")
    parser.add_argument("--here", action="store_true", help="measure one size in this process, print the record")
    args = parser.parse_args()
    if args.here:
        with tempfile.TemporaryDirectory() as folder:
            given = args.n_components, args.n_epochs, args.mean_degree, folder if args.storage else None
            print(json.dumps(measure(args.sizes[0], *given)))
        return
    file = ResultFile("growth", KEYS)
    for n in args.sizes:
        options = ["--n-components", str(args.n_components), "--n-epochs", str(args.n_epochs)]
        options += ["--mean-degree", str(args.mean_degree), *(["--storage"] if args.storage else [])]
        command = [sys.executable, __file__, "--here", "--sizes", str(n), *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        record = json.loads(done.stdout.splitlines()[-1])
        file.add(record)
        say(f"n={n}: {record['seconds']:.1f} s, peak {record['peak_bytes'] / 2**30:.2f} GiB, {record}")


if __name__ == "__main__":
    main()
