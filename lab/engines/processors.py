"""``relation @ X`` on other kinds of processor against scipy: float32, a graph with weights.

numba makes machine code for the processor that it is told (``NUMBA_CPU_NAME``, without the features of this one), in a
process and a folder of its own. Seconds are those of the processor, the best of several runs that take turns.
``--source DIR`` takes another checkout's src folder; nothing is kept.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, Section
from lab.measure import beside, cpu_timed, say
from lab.records import Record, groups, values
from lab.results import ROOT, ResultFile

PROCESSORS = {"native": {}} | {
    name: {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} for name in ("haswell", "nehalem", "generic")
}
N_NODES, WIDTHS, REPEATS = 30_000, (32, 128), 15


def multiply() -> None:
    """Print, as JSON, what is measured in this process."""
    graph = nf.datasets.dcsbm(N_NODES, alpha=2.0, random_state=0)
    rng = np.random.default_rng(0)
    matrix = graph.adjacency.astype(np.float32)
    matrix.data = rng.uniform(0.5, 2, matrix.nnz).astype(np.float32)
    relation = nf.Relation.from_matrix(matrix + matrix.T).normalized()
    matrix = relation.to_scipy().astype(np.float32)
    records = []
    for d in WIDTHS:
        X = rng.standard_normal((N_NODES, d)).astype(np.float32)
        cold = cpu_timed(lambda X=X: relation @ X)[1]
        pairs = [(cpu_timed(lambda X=X: relation @ X)[1], cpu_timed(lambda X=X: matrix @ X)[1]) for _ in range(REPEATS)]
        ours, scipys = map(min, zip(*pairs, strict=True))
        records.append({"n_components": d, "first_seconds": cold, "seconds": ours, "scipy_seconds": scipys})
    print(json.dumps(records))


def run(file: ResultFile, given: Namespace) -> None:
    source = given.source or ROOT / "src"
    for processor, variables in PROCESSORS.items():
        if not given.source and not file.new(processor, WIDTHS[0]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = beside(source, "lab.engines.processors", NEARFAR_CACHE_DIR=folder, **variables)
        for record in found:
            record |= {"processor": processor, "ratio": record["scipy_seconds"] / record["seconds"]}
            say(str(record)) if given.source else file.add(record)


def told(section: Section, records: list[Record]) -> None:
    """A graph of 30,000 nodes with weights; processor seconds, best of several runs. Machine code for the processor
    named, run on this one; "nehalem" and "generic" have neither masks nor fused multiplication and addition.
    """
    target = section.target("`rel @ X` against scipy on processors without masked loads", "no slower at each width")
    plain = [r for r in records if r["processor"] in ("nehalem", "generic")]
    if plain:
        ratios = values(plain, "ratio")
        target.tell(f"{min(ratios):.1f} to {max(ratios):.1f} times as fast", min(ratios) >= 1)
    section.rows(
        "processor | d | nearfar | scipy | ratio",
        "{processor} | {n_components} | {seconds:time} | {scipy_seconds:time} | {ratio:.1f}x",
        groups(records, "processor", "n_components"),
    )


EXPERIMENT = Experiment("Other processors", run, "processor n_components").takes(source=Path)

if __name__ == "__main__":
    multiply()
