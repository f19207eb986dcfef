"""Metric stress, SSTRESS and Sammon's stress: all pairs, sampled pairs, SMACOF.

Each fit in a process of its own, from classical scaling, with every other parameter at its default. The stress is that
of all pairs, computed by one NumPy code for all maps, in float64; of 100,000 points (``--sizes 100000 --methods sampled
--sets clusters``) it is what the library estimates. SMACOF is scikit-learn's algorithm (plain Guttman transforms, its
stopping rule at eps = 1e-6) by blocks of rows, as an n x n matrix in float64 and its copies do not fit; it ends after
``--limit`` seconds. Of 2,000 points scikit-learn's own runs too. "bytes" is the largest resident memory during the fit
above that before it.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import Points, clusters, fashion
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.measure import alone, peak_memory, reset_peak_memory, resident_memory
from lab.records import Record, average, duration, mib, percent, pick

ENTRIES = 2**18  # of the matrix of distances at a time: what is done with them stays in the cache
EXACT_UP_TO = 20_000
SETS = {"Fashion-MNIST": fashion, "clusters": clusters}
PEERS = ("SMACOF", "scikit-learn")
SIZE, ABOVE = 20_000, 0.02


def run(file: ResultFile, given: Namespace) -> None:
    for n, stress, method in product(given.sizes, given.stresses, given.methods):
        if (method in PEERS and stress != "metric") or (method == "scikit-learn" and n > 2000):
            continue
        if key := file.new(given.sets[0], n, stress, method):
            found = alone(measure, *key.values(), given.n_jobs, given.limit)
            file.add({**key, **found, "n_jobs": given.n_jobs})


def measure(data: str, n: int, stress: str, method: str, n_jobs: int | None, limit: float) -> dict[str, Any]:
    """Draw one map; return what it took."""
    X, _ = SETS[data](n)
    own = {"stress": stress, "n_jobs": n_jobs, "random_state": 0}
    if method not in PEERS:  # compiles, or loads the kernels
        nf.MDS(pairs=method, n_samples=50, max_iter=2, **own).fit(X[:500])
    Y = nf.classical_mds(X, n_jobs=n_jobs) if method in PEERS else None
    reset_peak_memory()
    before, began, busy = resident_memory(), time.perf_counter(), time.process_time()
    error = None
    if method in PEERS:
        Y, iterations, ended = smacof(X, Y, limit=limit) if method == "SMACOF" else smacof_of_scikit_learn(X, Y)
    else:
        est = nf.MDS(pairs=method, **own).fit(X)
        Y, iterations, ended, error = est.embedding_, est.n_iter_, True, est.stress_error_
    seconds, busy, used = time.perf_counter() - began, time.process_time() - busy, peak_memory() - before
    return {
        "seconds": seconds, "processor_seconds": busy, "bytes": used, "iterations": iterations,
        "converged": ended, "error": error, "value": exact_stress(X, Y, stress) if n <= EXACT_UP_TO else est.stress_,
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


def told(section: Section, records: list[Record]) -> None:
    """From classical scaling, one worker, one run each. SMACOF: scikit-learn's algorithm and stopping rule in blocks of
    rows; scikit-learn's own is listed too. Stress: exact, relative to the map by all pairs; for 100,000 points the
    estimate, with its standard error.
    """
    bars = f"≤ {ABOVE:.0%} above SMACOF's", f"≤ {ABOVE:.0%} above all pairs'"
    whole = section.target(f"MDS, n = {SIZE:,}, exact stress of all pairs and of sampled ones", bars[0])
    other = section.target(f"SSTRESS and Sammon, n = {SIZE:,}, sampled pairs", bars[1])
    large = section.target("MDS with sampled pairs, n = 100,000", "a map, and the standard error of its stress")
    mine = pick(records, n=SIZE, data="Fashion-MNIST")
    compared = {
        "all": ("metric", "all", "SMACOF"), "sampled": ("metric", "sampled", "SMACOF"),
        "sstress": ("sstress", "sampled", "all"), "sammon": ("sammon", "sampled", "all"),
    }  # fmt: skip
    gaps = {name: _above(mine, *how) for name, how in compared.items()}
    for target, names in ((whole, ("all", "sampled")), (other, ("sstress", "sammon"))):
        found = {name: gaps[name] for name in names if gaps[name] is not None}
        if len(found) == 2:
            said = "; ".join(f"{name} {gap:+.2%}" for name, gap in found.items())
            target.tell(said, max(found.values()) <= ABOVE)
    for r in pick(records, n=100_000, stress="metric", method="sampled")[:1]:
        error = f"stress ± {percent(r['error'] / r['value'])}"
        large.tell(f"{duration(r['processor_seconds'])}, {mib(r['bytes'])}, {error}", True)
    shown = []
    for r in sorted(records, key=lambda r: (r["data"], r["n"], r["stress"])):
        above = _above(pick(records, n=r["n"], data=r["data"]), r["stress"], r["method"], "all")
        off = percent(r["error"] / r["value"]) if r["error"] else ""
        shown.append({**r, "above": above, "off": off, "ended": "" if r["converged"] else " (time limit)"})
    section.rows(
        "data | n | stress | method | processor | clock | memory | iterations | above all pairs | error",
        "{data} | {n:,} | {stress} | {method} | {processor_seconds:time} | {seconds:time} | {bytes:MiB}"
        " | {iterations}{ended} | {above:+.2%} | {off}",
        shown,
    )


def _above(records: list[Record], stress: str, method: str, than: str) -> float | None:
    """Return the share by which a method's stress is above another's."""
    ours, theirs = (average(pick(records, stress=stress, method=m), "value") for m in (method, than))
    return None if ours is None or theirs is None else ours / theirs - 1


EXPERIMENT = Experiment("Multidimensional scaling", run, "data n stress method", "fashion_mnist").takes(
    sizes=(2000, 5000, 20_000),
    methods=("all", "sampled", *PEERS),
    stresses=("metric", "sstress", "sammon"),
    sets=Choice(("Fashion-MNIST",), SETS),
    limit=1200.0,
    n_jobs=int,
)
