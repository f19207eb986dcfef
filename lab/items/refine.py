"""What the base measure and the finer far field cost: an epoch beside that of `gradient="full"`, 128 components.

Likes of MovieLens 1M, and a relation of a million rows and as many columns, 20 entries a row, drawn. One thread; the
least of some turns, the fits of one turn after each other. Memory is the peak of the process above that before the fit.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.items.baselines import split_of_items
from lab.measure import peak_memory, reset_peak_memory
from lab.records import Record, groups, pick

MOVIES, MILLION = "MovieLens 1M", "a million x a million"
N, PER_ROW, D = 1_000_000, 20, 128
BEFORE = 'gradient="full"'
FITS: dict[str, dict[str, Any]] = {
    BEFORE: {"refine": 0, "gradient": "full", "p0": 0},
    "base measure": {"refine": 0, "base_measure": "degrees"},
    "base measure, refined": {"base_measure": "degrees"},
}
EPOCHS, TURNS = {MOVIES: 40, MILLION: 10}, {MOVIES: 5, MILLION: 1}


def relation(name: str) -> nf.Relation:
    if name == MOVIES:
        return split_of_items(name, 0)[0].normalized(0.5)
    rng = np.random.default_rng(0)
    columns = (rng.pareto(1.0, (N, PER_ROW)) * N / 100).astype(np.int64) % N  # some are related to many
    ends = np.arange(0, N * PER_ROW + 1, PER_ROW)
    drawn = csr_array((np.ones(N * PER_ROW, np.float32), columns.ravel(), ends), shape=(N, N))
    drawn.sum_duplicates()
    return nf.Relation.from_matrix(drawn, ids=range(N), column_ids=range(N, 2 * N)).normalized(0.5)


def run(file: ResultFile, given: Namespace) -> None:
    for name in given.sets:
        if not any(file.new(name, fit) for fit in FITS):
            continue
        P, n_epochs = relation(name), EPOCHS[name]
        seconds: dict[str, list[float]] = {fit: [] for fit in FITS}
        memory, wrong = {}, {}
        for turn in range(TURNS[name] + 1):
            for fit, how in FITS.items():
                est = nf.EDRep(D, n_epochs=n_epochs if turn else 2, temperature=0.2, random_state=0, n_jobs=1, **how)
                reset_peak_memory()
                begun, before = time.process_time(), peak_memory()
                est.fit(P)
                if turn:  # the first one compiles
                    seconds[fit].append((time.process_time() - begun) / n_epochs)
                    memory[fit], wrong[fit] = peak_memory() - before, est.far_check_["relative_error"]
                del est
        for fit, times in seconds.items():
            file.add({"data": name, "fit": fit, "epoch_s": min(times), "bytes": memory[fit], "far_error": wrong[fit]})


def told(section: Section, records: list[Record]) -> None:
    """Processor time of a whole fit over its epochs, with a base measure and with the finer far field, beside
    `gradient="full"`; temperature 0.2, 128 components, one thread.
    """
    rows = []
    for data, of in groups(records, "data"):
        least = pick(of, fit=BEFORE)[0]["epoch_s"]
        for one in of:
            ratio, size = f"{one['epoch_s'] / least:.2f}", f"{one['bytes'] / 2**30:.2f} GiB"
            rows.append([data, one["fit"], f"{one['epoch_s']:.3f} s", ratio, size, f"{one['far_error']:.3f}"])
    section.table(["relation", "fit", "epoch", "ratio", "memory of the fit", "error of Z"], rows, "refine")


EXPERIMENT = Experiment("What the finer far field costs", run, "data fit", "movielens-1m").takes(sets=(MOVIES, MILLION))
