"""Metric stress, SSTRESS and Sammon's stress: all pairs, sampled pairs, SMACOF.

    python benchmarks/mds.py --sizes 2000 5000 20000
    python benchmarks/mds.py --sizes 100000 --methods sampled --sets clusters

Each fit in a process of its own, from classical scaling, with every other parameter at its default. The stress is that
of all pairs, computed by one NumPy code for all maps, in float64; of 100,000 points it is what the library estimates.
SMACOF is scikit-learn's algorithm (plain Guttman transforms, its stopping rule at eps = 1e-6) by blocks of rows, as an
n x n matrix in float64 and its copies do not fit; of 2,000 points scikit-learn's own runs too. "bytes" is the largest
resident memory during the fit above that before it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say
from _map_data import Points, clusters, fashion

KEYS = ("data", "n", "stress", "method")
SETS = {"Fashion-MNIST": fashion, "clusters": clusters}
ENTRIES = 2**18  # of the matrix of distances at a time: what is done with them stays in the cache
EXACT_UP_TO = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    parser.add_argument("--methods", nargs="+", default=["all", "sampled", "SMACOF", "scikit-learn"])
    parser.add_argument("--stresses", nargs="+", default=["metric", "sstress", "sammon"])
    parser.add_argument("--sets", choices=SETS, default="Fashion-MNIST")
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which SMACOF ends")
    parser.add_argument("--n-jobs", type=int)
    parser.add_argument("--here", action="store_true", help="do the first of each in this process, print the record")
    args = parser.parse_args()
    if args.here:
        record = measure(args.sets, args.sizes[0], args.stresses[0], args.methods[0], args.n_jobs, args.limit)
        print(json.dumps(record))
        return
    file = ResultFile("mds", KEYS)
    jobs = [] if args.n_jobs is None else ["--n-jobs", str(args.n_jobs)]
    for n in args.sizes:
        for stress in args.stresses:
            for method in args.methods:
                peer = method in ("SMACOF", "scikit-learn")
                if (peer and stress != "metric") or (method == "scikit-learn" and n > 2000):
                    continue
                what = ["--sizes", str(n), "--stresses", stress, "--methods", method, "--sets", args.sets]
                command = [sys.executable, __file__, "--here", *what, "--limit", str(args.limit), *jobs]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                file.add(json.loads(output.splitlines()[-1]))
                say(f"{file.records[-1]}")


def measure(
    data: str, n: int, stress: str, method: str, n_jobs: int | None, limit: float
) -> dict[str, float | str | None]:
    """Draw one map; return the record."""
    X, _ = SETS[data](n)
    own = {"stress": stress, "n_jobs": n_jobs, "random_state": 0}
    if method in ("all", "sampled"):  # compiles, or loads the kernels
        nf.MDS(pairs=method, n_samples=50, max_iter=2, **own).fit(X[:500])
    Y = nf.classical_mds(X, n_jobs=n_jobs) if method in ("SMACOF", "scikit-learn") else None
    reset_peak_memory()
    before, began, busy = resident_memory(), time.perf_counter(), time.process_time()
    error = None
    if method == "SMACOF":
        Y, iterations, ended = smacof(X, Y, limit=limit)
    elif method == "scikit-learn":
        Y, iterations, ended = smacof_of_scikit_learn(X, Y)
    else:
        est = nf.MDS(pairs=method, **own).fit(X)
        Y, iterations, ended, error = est.embedding_, est.n_iter_, True, est.stress_error_
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    used = peak_memory() - before
    value = exact_stress(X, Y, stress) if n <= EXACT_UP_TO else est.stress_
    return {
        "data": data, "n": n, "stress": stress, "method": method, "seconds": round(seconds, 3),
        "processor_seconds": round(busy, 3), "bytes": used, "iterations": iterations, "converged": ended,
        "value": value, "error": error, "n_jobs": n_jobs,
    }  # fmt: skip


def smacof(
    X: Points, Y: NDArray[np.floating], *, eps: float = 1e-6, max_iter: int = 1000, limit: float = np.inf
) -> tuple[NDArray[np.float64], int, bool]:
    """Return the positions of SMACOF, the iterations, whether it has come to rest.

    The Guttman transform is Y <- B(Y) Y / n, with B = -r/d off the diagonal and rows that add up to 0. It rests, as
    scikit-learn's, when the stress has fallen by less than ``eps`` times half the sum of the squared distances of the
    map.
    """
    n, began, last = len(X), time.perf_counter(), np.inf
    R = np.empty((n, n), np.float32)
    for part in parts(n):
        R[part] = distances(X[part], X)
    Y = Y.astype(np.float64)
    for iteration in range(1, max_iter + 1):
        moved, stress, squares = np.empty_like(Y), 0.0, 0.0
        for part in parts(n):
            d = distances(Y[part], Y)
            stress += float(np.square(R[part] - d).sum()) / 2
            squares += float(np.square(d).sum())
            d[d == 0] = 1e-5
            ratio = R[part] / d
            moved[part] = (ratio.sum(axis=1)[:, None] * Y[part] - ratio @ Y) / n
        if (last - stress) / (squares / 2) < eps:  # of the positions before this step
            return Y, iteration - 1, True
        last, Y = stress, moved
        if time.perf_counter() - began > limit:
            return Y, iteration, False
    return Y, max_iter, False


def smacof_of_scikit_learn(X: Points, Y: NDArray[np.floating]) -> tuple[NDArray[np.float64], int, bool]:
    """Return what scikit-learn's SMACOF makes of the same distances and start."""
    from sklearn.manifold import smacof as theirs

    how = {"n_init": 1, "max_iter": 1000, "eps": 1e-6, "normalized_stress": False, "return_n_iter": True}
    Y, _, iterations = theirs(distances(X, X), init=Y.astype(np.float64), **how)
    return Y, iterations, True


def parts(n: int) -> Iterator[slice]:
    """Return blocks of rows of an n x n matrix."""
    rows = max(ENTRIES // n, 1)
    return (slice(start, start + rows) for start in range(0, n, rows))


def distances(A: NDArray[np.floating], B: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the Euclidean distances of rows, from scalar products in float64."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    squares = A @ B.T
    squares *= -2
    squares += np.square(A).sum(axis=1)[:, None]
    squares += np.square(B).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)


def exact_stress(X: Points, Y: NDArray[np.floating], stress: str) -> float:
    """Return the stress of a map over all pairs, in float64."""
    total, weight = 0.0, 0.0
    for part in parts(len(X)):
        r, d = distances(X[part], X), distances(Y[part], Y)
        own = np.arange(len(r)), part.start + np.arange(len(r))
        r[own] = d[own] = 0
        if stress == "sstress":
            r, d = np.square(r), np.square(d)
        gap = np.square(r - d)
        if stress == "sammon":
            weight += float(r.sum())
            gap = np.divide(gap, r, out=np.zeros_like(r), where=r > 0)
        total += float(gap.sum())
    return total / weight if stress == "sammon" else total / 2


if __name__ == "__main__":
    main()
