"""Each member of the family beside t-SNE: processor time of an iteration, one worker.

Synthetic clusters in 20 dimensions, perplexity 30, from the same affinities. The mean over a whole map of 750
iterations, of 300 above 20,000 points, of 100 for a million (a third of them exaggerated), from the first to the last,
without the start; members take turns, and the shortest run counts.
"""

from __future__ import annotations

import time
from argparse import Namespace
from itertools import product
from typing import Any

import nearfar as nf
from lab.data import clusters
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import say
from lab.records import Record, pick, values

MEMBERS = ("TSNE", "SSNE", "ASNE", "TASNE", "HSSNE", "InhomogeneousTSNE", "NeRV", "JSE", "WSSNE", "UMAP")
SIZES = (1000, 4500, 20_000, 100_000, 1_000_000)
SHORT_FROM, SHORTER_FROM, SLOWER = 20_001, 200_000, 3.0
COMPILED_ON = 50_000


def per_iteration(name: str, affinities: nf.Affinities, n: int) -> float:
    """Return the processor seconds of an iteration, the mean over a map."""
    looks: list[tuple[int, float]] = []
    n_iter = 750 if n < SHORT_FROM else 300 if n < SHORTER_FROM else 100
    more: dict[str, Any] = {"max_iter": n_iter, "early_exaggeration_iter": n_iter // 3}

    def look(progress: Any) -> None:
        looks.append((progress.epoch, time.process_time()))

    getattr(nf, name)(callbacks=[look], min_grad_norm=0.0, random_state=0, n_jobs=1, **more).fit(affinities)
    (first, begun), (last, ended) = looks[0], looks[-1]
    return (ended - begun) / (last - first)


def run(file: ResultFile, given: Namespace) -> None:
    for n in given.sizes:
        affinities, few = (
            nf.Affinities(30, random_state=0, n_jobs=1).fit(clusters(size, n_clusters=20)[0])
            for size in (n, min(n, COMPILED_ON))
        )
        for trial, name in product(range(given.runs if n < SHORT_FROM else 1), given.methods):
            if key := file.new(n, name, trial):
                if not trial:  # compiles
                    getattr(nf, name)(max_iter=60, early_exaggeration_iter=20, random_state=0, n_jobs=1).fit(few)
                file.add({**key, "seconds": per_iteration(name, affinities, n)})
                say(f"{n} {name}")


def told(section: Section, records: list[Record]) -> None:
    """Synthetic clusters, perplexity 30. Processor time of an iteration, one worker, shortest run; in brackets as a
    multiple of t-SNE's.
    """
    sizes = sorted({record["n"] for record in records}) or [*SIZES]
    found = {
        (name, n): min(values(pick(records, n=n, method=name), "seconds"), default=None)
        for name, n in product(MEMBERS, sizes)
    }
    slower = {
        (name, n): seconds / found["TSNE", n]
        for (name, n), seconds in found.items()
        if seconds is not None and found["TSNE", n]
    }
    target = section.target(
        f"an iteration of each member, n = {min(sizes):,} to {max(sizes):,}", f"at most {SLOWER:.0f} times t-SNE's"
    )
    worst = sorted(slower, key=lambda key: -slower[key])
    beyond = [f"{name} {slower[name, n]:.1f} (n = {n:,})" for name, n in worst if slower[name, n] > SLOWER]
    within = next((f"{name} {slower[name, n]:.1f}" for name, n in worst if slower[name, n] <= SLOWER), "")
    if slower:
        target.tell(", ".join([*beyond, f"the others at most {within}"]), not beyond)
    rows = [[name, *(_cell(found[name, n], slower.get((name, n))) for n in sizes)] for name in MEMBERS]
    section.table(["member", *(f"n = {n:,}" for n in sizes)], rows)


def _cell(seconds: float | None, slower: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.2f} ms ({slower:.1f}x)"


EXPERIMENT = Experiment("Members of the family beside t-SNE", run, "n method trial").takes(
    sizes=SIZES, methods=MEMBERS, runs=2
)
