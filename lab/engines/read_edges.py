"""How fast edge files are read: nearfar against pandas.read_csv + factorize, in the same run.

Two files: pairs of integers without a header (TSV), and pairs of names with weights and a header (CSV). Median time of
the repeats, which take turns, and the memory that each needs above the start, measured in a process of its own.
"""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from lab.experiment import Experiment, Record, ResultFile, Section
from lab.measure import alone, peak_memory, timed


def write_integers(path: Path, n_edges: int, rng: np.random.Generator) -> None:
    ids = (rng.pareto(1.5, size=(n_edges, 2)) * 20_000).astype(np.int64) % 1_000_000
    with path.open("w") as file:
        for block in np.array_split(ids, max(1, n_edges // 250_000)):
            file.write("\n".join(f"{u}\t{v}" for u, v in block.tolist()) + "\n")


def write_strings(path: Path, n_edges: int, rng: np.random.Generator) -> None:
    names = np.array([f"{k:x}-läufer {k % 97}" for k in rng.permutation(200_000).tolist()])
    ids = (rng.pareto(1.5, size=(n_edges, 2)) * 5_000).astype(np.int64) % len(names)
    with path.open("w", encoding="utf-8") as file:
        file.write("source,target,weight\n")
        for block in np.array_split(ids, max(1, n_edges // 250_000)):
            pairs = names[block].tolist()
            file.write("\n".join(f"{u},{v},{len(u) / 8}" for u, v in pairs) + "\n")


def with_nearfar(path: Path) -> int:
    from nearfar.reading.edges import read_edges

    return len(read_edges(path).row_ids)


def with_pandas(path: Path) -> int:
    import pandas as pd

    header = "infer" if path.suffix == ".csv" else None
    frame = pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", header=header)
    stacked = pd.concat([frame.iloc[:, 0], frame.iloc[:, 1]], ignore_index=True)
    return len(pd.factorize(stacked)[1])


READERS: dict[str, Callable[[Path], int]] = {"nearfar": with_nearfar, "pandas": with_pandas}


def growth(name: str, small: Path, path: Path) -> int:
    """Return the bytes above what a small file needs."""
    READERS[name](small)  # imports and compiled code are not counted
    before = peak_memory()
    READERS[name](path)
    return peak_memory() - before


def compare(path: Path, small: Path, repeats: int) -> dict[str, Any]:
    spent: dict[str, list[float]] = {name: [] for name in READERS}
    found = {name: read(small) for name, read in READERS.items()}
    for _, (name, read) in product(range(repeats), READERS.items()):
        found[name], seconds = timed(read, path)
        spent[name].append(seconds)
    if len(set(found.values())) > 1:
        raise SystemExit(f"the two disagree on the number of ids: {found}")
    record: dict[str, Any] = {"megabytes": path.stat().st_size / 1e6, "n_ids": found["nearfar"]}
    for name in READERS:
        record[f"{name}_seconds"] = statistics.median(spent[name])
        record[f"{name}_bytes"] = alone(growth, name, small, path)
    return record


def run(file: ResultFile, given: Namespace) -> None:
    rng = np.random.default_rng(0)
    kinds = {"integers.tsv": (write_integers, given.integer_edges), "strings.csv": (write_strings, given.string_edges)}
    with tempfile.TemporaryDirectory() as folder:
        for name, (write, n_edges) in kinds.items():
            path, small = Path(folder, name), Path(folder, f"small-{name}")
            write(path, n_edges, rng)
            write(small, min(1000, n_edges), rng)
            if key := file.new(name):
                file.add({**key, "n_edges": n_edges, "repeats": given.repeats, **compare(path, small, given.repeats)})


def told(section: Section, records: list[Record]) -> None:
    """From a file to ids and encoded edges, against `pandas.read_csv` and `factorize`; median of alternating runs.
    Memory: increase in a fresh process.
    """
    for r in records:
        r["ours"], r["theirs"] = (r["megabytes"] / r[f"{who}_seconds"] for who in READERS)
        r["ratio"] = r["ours"] / r["theirs"]
    section.rows(
        "file | edges | size | nearfar | pandas | ratio | memory | memory, pandas",
        "{file} | {n_edges:,} | {megabytes:.0f} MB | {ours:.0f} MB/s | {theirs:.0f} MB/s | {ratio:.2f}x"
        " | {nearfar_bytes:MiB} | {pandas_bytes:MiB}",
        records,
    )


EXPERIMENT = Experiment("Reading edge files", run, "file").takes(
    integer_edges=5_000_000, string_edges=1_000_000, repeats=3
)
