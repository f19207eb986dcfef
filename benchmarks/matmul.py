"""``relation @ X`` against scipy: both float32, the row-normalised matrix of a planted graph times a dense block.

    python benchmarks/matmul.py --sizes 30000 300000 3000000

Best of several alternating runs. "needed" counts the bytes that must move at least once: the relation as it is
stored, X and the result. "gathered" counts a row of X for each stored entry instead: what has to come from memory
where X is larger than the caches (a fraction above 1 means that the caches serve part of it). Both are related to
the copy bandwidth of the machine (all processors, read + write).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, say, timed
from nearfar._core.checks import available_processors
from nearfar._core.threads import even_bounds, run_blocks

KEYS = ("n_nodes", "n_components")


def copy_bandwidth(megabytes: int = 512, repeats: int = 5) -> float:
    """Return the bandwidth of a plain copy by all processors, bytes read + written per second."""
    source = np.ones(megabytes * 2**20 // 4, dtype=np.float32)
    target = np.zeros_like(source)
    workers = available_processors()
    bounds = even_bounds(source.size, -(-source.size // workers))

    def copy(_: int, start: int, stop: int) -> None:
        np.copyto(target[start:stop], source[start:stop])

    best = min(timed(lambda: run_blocks(copy, bounds, workers))[1] for _ in range(repeats))
    return 2 * source.nbytes / best


def measure(n: int, d: int, repeats: int, bandwidth: float) -> dict[str, Any]:
    graph = nf.datasets.dcsbm(n, alpha=2.0, random_state=np.random.default_rng([n, 2]))
    relation = nf.Relation.from_matrix(graph.adjacency).normalized()
    matrix = relation.to_scipy().astype(np.float32)
    X = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    np.testing.assert_allclose(relation @ X, matrix @ X, rtol=1e-4, atol=1e-4)
    ours, scipys = [], []
    for _ in range(repeats):
        ours.append(timed(lambda: relation @ X)[1])
        scipys.append(timed(lambda: matrix @ X)[1])
    needed = relation.nbytes + 2 * X.nbytes
    gathered = relation.nbytes + matrix.nnz * 4 * d + X.nbytes
    return {
        "n_nodes": n,
        "n_components": d,
        "nnz": int(matrix.nnz),
        "seconds": round(min(ours), 6),
        "scipy_seconds": round(min(scipys), 6),
        "ratio": round(min(scipys) / min(ours), 3),
        "bandwidth": round(bandwidth),
        "needed_fraction": round(needed / min(ours) / bandwidth, 4),
        "gathered_fraction": round(gathered / min(ours) / bandwidth, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 300_000, 3_000_000])
    parser.add_argument("--n-components", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    file = ResultFile("matmul", KEYS)
    for n in args.sizes:
        for d in args.n_components:
            record = measure(n, d, args.repeats, copy_bandwidth())
            file.add(record)
            say(str(record))


if __name__ == "__main__":
    main()
