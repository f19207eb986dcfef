"""What an epoch of EDRep on a cluster costs: a model with a few constants, fitted on runs of ``cluster.py``.

Of an epoch over n rows and E stored entries in p parts, d numbers a vector, s products::

    N = tasks                             about (4 + 1/7 + s) p + s * pairs: parts of which one needs rows of another
    R = rows that parts take of others    once per product; M of them from another worker
    bytes = 4 d s M + the moments and the far field

    processor time of client and scheduler = c1 N + c2 * that of all workers
    processor time of all workers          = w1 N + w2 s E d + w3 n d² + w4 n d + w5 s R d + w6 bytes
    growth of a worker's memory            = m0 + (m1 4 E + m2 4 n d + m3 4 R d + m4 4 M d) / workers

On one machine the process of the client also watches the workers; c2 is what that takes, and not there on a cluster.
Times are those of the processor, as other work may share the machine. Constants are not negative and minimise the sum
of squared relative errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import nnls

Record = dict[str, Any]

CLIENT, WORKERS, MEMORY = "client_seconds", "worker_seconds", "worker_peak_bytes"
FEWEST, MOST, ROWS = 8, 256, 65_536  # parts, and rows of a part


def terms(record: Record) -> dict[str, list[float]]:
    """Return what each constant of each of the three is multiplied with."""
    n, d, s, k = (record[name] for name in ("n_nodes", "n_components", "steps", "n_workers"))
    entries, needed, tasks = record["nnz"], record["rows_needed"], record["tasks"]
    moved = record["rows_moved"]
    return {
        CLIENT: [tasks, record[WORKERS]],
        WORKERS: [tasks, s * entries * d, n * d * d, n * d, s * needed * d, record["bytes"]],
        MEMORY: [1.0, 4 * entries / k, 4 * n * d / k, 4 * needed * d / k, 4 * moved * d / k],
    }


def fitted(records: list[Record]) -> dict[str, list[float]]:
    """Return the constants, from the records that are to be fitted."""
    found = {}
    for name in (CLIENT, WORKERS, MEMORY):
        rows = np.array([terms(r)[name] for r in records]) / np.array([[r[name]] for r in records])
        scale = rows.max(axis=0)
        found[name] = (nnls(rows / scale, np.ones(len(rows)))[0] / scale).tolist()
    return found


def predicted(constants: dict[str, list[float]], record: Record) -> dict[str, float]:
    """Return the three numbers for a run, or for one that nobody can do here."""
    of = terms(record)
    return {name: float(np.dot(constants[name], of[name])) for name in constants}


def far_run(n: float, entries: float, d: int, steps: int, n_workers: int, within: float = 0.0) -> Record:
    """Return what a run would have to do on a graph of which a share of the entries stays ``within`` a part.

    The others fall into any of the p parts: a part takes ``(n / p) (1 - exp(-entries / (p n)))`` rows of each. With
    none within, a graph without structure, that is the worst case.
    """
    p = int(np.clip(math.ceil(n / ROWS), FEWEST, MOST))
    own = n * -math.expm1(-within * entries / n)
    others = p * n * -math.expm1(-(1 - within) * entries / (p * n))
    moved = others * (1 - 1 / n_workers)
    moments = (p - p / n_workers) * 8 * d * (d + 1)
    return {
        "n_nodes": n,
        "n_components": d,
        "steps": steps,
        "n_workers": n_workers,
        "n_parts": p,
        "nnz": entries,
        "rows_needed": own + others,
        "rows_moved": moved,
        "tasks": tasks_of(p, steps, p * p),
        "bytes": steps * 4 * d * moved + moments + 20 * d * d * (n_workers - 1),
        WORKERS: 0.0,
    }


def tasks_of(p: int, steps: int, pairs: int) -> float:
    """Return the tasks of an epoch: far field, moments and their tree; products; the step and what is taken of it.

    Products of a relation that was made on the cluster and normalised have p more each.
    """
    tree, left = 0, p
    while left > 1:
        left = -(-left // 8)
        tree += left
    return 2 + p + tree + steps * (pairs + p) + 3 * p
