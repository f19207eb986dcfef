"""``relation @ X`` against scipy: both float32, the row-normalised matrix of a planted graph times a dense block.

Best of several alternating runs. "needed" counts the bytes that must move at least once: the relation as it is
stored, X and the result. "gathered" counts a row of X for each stored entry instead: what has to come from memory
where X is larger than the caches (a fraction above 1 means that the caches serve part of it). Both are related to
the copy bandwidth of the machine (all processors, read + write).
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.records import Record, groups, values
from nearfar._core.checks import available_processors
from nearfar._core.threads import even_bounds, run_blocks


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
    pairs = [(timed(lambda: relation @ X)[1], timed(lambda: matrix @ X)[1]) for _ in range(repeats)]
    ours, scipys = map(min, zip(*pairs, strict=True))
    needed = relation.nbytes + 2 * X.nbytes
    gathered = relation.nbytes + matrix.nnz * 4 * d + X.nbytes
    return {
        "nnz": int(matrix.nnz),
        "seconds": ours,
        "scipy_seconds": scipys,
        "ratio": scipys / ours,
        "bandwidth": round(bandwidth),
        "needed_fraction": needed / ours / bandwidth,
        "gathered_fraction": gathered / ours / bandwidth,
    }


def run(file: ResultFile, given: Namespace) -> None:
    for n, d in product(given.sizes, given.n_components):
        if key := file.new(n, d):
            file.add({**key, **measure(n, d, given.repeats, copy_bandwidth())})


def told(section: Section, records: list[Record]) -> None:
    """Best of several alternating runs. Fractions of the bandwidth of a copy: *needed* counts every byte of relation, X
    and result once; *gathered* a row of X per stored entry (above 100 % where caches serve).
    """
    bar = "≥ 4 times faster at each size; fraction of memory bandwidth stated"
    target = section.target("`rel @ X` against scipy, both float32", bar)
    parts = []
    for n, mine in groups(records, "n_nodes"):
        ratios, shares = values(mine, "ratio"), values(mine, "needed_fraction")
        parts.append(f"n = {n:,}: {min(ratios):.1f} to {max(ratios):.1f} times, {min(shares):.0%} to {max(shares):.0%}")
    if records:
        target.tell("; ".join(parts) + " of the copy bandwidth", min(values(records, "ratio")) >= 4)
    section.rows(
        "n | d | nearfar | scipy | ratio | needed | gathered | copy bandwidth",
        "{n_nodes:,} | {n_components} | {seconds:time} | {scipy_seconds:time} | **{ratio:.1f}x**"
        " | {needed_fraction:.0%} | {gathered_fraction:.0%} | {gigabytes:.1f} GB/s",
        groups([{**r, "gigabytes": r["bandwidth"] / 1e9} for r in records], "n_nodes", "n_components"),
    )


EXPERIMENT = Experiment("Products of a relation and a matrix", run, "n_nodes n_components").takes(
    sizes=(30_000, 300_000, 3_000_000), n_components=(32, 128), repeats=7
)
