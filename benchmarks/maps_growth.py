"""Time and memory of t-SNE from ten thousand to a million points (synthetic clusters in 20 dimensions, perplexity 30).

    python benchmarks/maps_growth.py --sizes 10000 100000 1000000

Each size in a process of its own, which fits the points: neighbours, start by principal components, 250 exaggerated
iterations and 500 plain ones. "peak" is the largest resident memory of the whole process, Python, libraries and the
points included. What comes before the first iteration, most of all the neighbours, and the iterations are timed apart;
processor seconds are those of all threads together, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import nearfar as nf
from _common import ResultFile, peak_memory, say
from _map_data import clusters, digits

KEYS = ("n", "max_iter")


def measure(n: int, max_iter: int) -> dict[str, float]:
    """Draw the points, find the neighbours, draw the map; measure each."""
    nf.TSNE(max_iter=260, far="fft", random_state=0, verbose=0).fit(digits()[0])  # compiles, or loads the kernels
    X, _ = clusters(n)
    ticks = []
    model = nf.TSNE(
        max_iter=max_iter,
        min_grad_norm=0.0,
        n_iter_without_progress=max_iter,
        far="fft",
        random_state=0,
        callbacks=[lambda _: ticks.append(time.perf_counter()) and None],
    )
    begin, processor = time.perf_counter(), time.process_time()
    model.fit(X)
    processor = time.process_time() - processor
    return {
        "n": n,
        "max_iter": max_iter,
        "neighbors_seconds": round(ticks[0] - begin, 3),
        "seconds": round(time.perf_counter() - ticks[0], 3),
        "processor_seconds": round(processor, 1),
        "peak_bytes": peak_memory(),
        "kl": float(model.cost_),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--max-iter", type=int, default=750)
    parser.add_argument("--here", action="store_true", help="measure one size in this process, print the record")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(measure(args.sizes[0], args.max_iter)))
        return
    file = ResultFile("maps_growth", KEYS)
    for n in args.sizes:
        command = [sys.executable, __file__, "--here", "--sizes", str(n), "--max-iter", str(args.max_iter)]
        record = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        file.add(record)
        say(f"n={n}: {record['seconds']:.1f} s, peak {record['peak_bytes'] / 2**30:.2f} GiB, {record}")


if __name__ == "__main__":
    main()
