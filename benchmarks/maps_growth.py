"""Time and memory of t-SNE from ten thousand to a million points (synthetic clusters in 20 dimensions, perplexity 30).

    python benchmarks/maps_growth.py --sizes 10000 100000 1000000

Each size in a process of its own. "peak" is the largest resident memory of the whole process, Python, libraries and the
points included. The neighbours and the gradient phase (250 exaggerated iterations, 500 plain) are timed apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import nearfar as nf
from _common import ResultFile, peak_memory, say, timed
from _map_data import clusters, digits

KEYS = ("n", "max_iter")


def measure(n: int, max_iter: int) -> dict[str, float]:
    """Draw the points, find the neighbours, draw the map; measure each."""
    nf.TSNE(max_iter=260, far="fft", random_state=0, verbose=0).fit(digits()[0])  # compiles, or loads the kernels
    X, _ = clusters(n)
    affinities, neighbors = timed(lambda: nf.Affinities(perplexity=30, random_state=0).fit(X))
    model = nf.TSNE(
        max_iter=max_iter,
        min_grad_norm=0.0,
        n_iter_without_progress=max_iter,
        far="fft",
        random_state=0,
        verbose=0,
    )
    _, seconds = timed(lambda: model.fit(affinities))
    return {
        "n": n,
        "max_iter": max_iter,
        "neighbors_seconds": round(neighbors, 3),
        "seconds": round(seconds, 3),
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
