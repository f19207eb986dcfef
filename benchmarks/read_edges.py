"""How fast edge files are read: nearfar against pandas.read_csv + factorize, in the same run.

    python benchmarks/read_edges.py
    python benchmarks/read_edges.py --integer-edges 500000 --string-edges 100000 --repeats 1

Two files: pairs of integers without a header (TSV), and pairs of names with weights and a header (CSV). Median time of
the repeats, which take turns, and the memory that each needs above the start, measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _common import ResultFile, peak_memory, say, timed


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
    from nearfar.relations.edges import read_edges

    return len(read_edges(path).row_ids)


def with_pandas(path: Path) -> int:
    import pandas as pd

    header = "infer" if path.suffix == ".csv" else None
    frame = pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", header=header)
    stacked = pd.concat([frame.iloc[:, 0], frame.iloc[:, 1]], ignore_index=True)
    return len(pd.factorize(stacked)[1])


READERS: dict[str, Callable[[Path], int]] = {"nearfar": with_nearfar, "pandas": with_pandas}


def _growth(name: str, small: Path, path: Path, pipe: multiprocessing.connection.Connection) -> None:
    READERS[name](small)  # imports and compiled code are not counted
    before = peak_memory()
    READERS[name](path)
    pipe.send(peak_memory() - before)


def memory_of(name: str, small: Path, path: Path) -> int:
    """Return the bytes above what a small file needs, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_growth, args=(name, small, path, theirs))
    process.start()
    theirs.close()  # so that a child that dies is an EOFError here, not a wait without end
    growth = int(ours.recv())
    process.join()
    return growth


def compare(path: Path, small: Path, repeats: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in READERS}
    found = {name: read(small) for name, read in READERS.items()}
    for _ in range(repeats):
        for name, read in READERS.items():
            found[name], seconds = timed(lambda r=read: r(path))
            times[name].append(seconds)
    if len(set(found.values())) > 1:
        raise SystemExit(f"the two disagree on the number of ids: {found}")
    record: dict[str, Any] = {"megabytes": round(path.stat().st_size / 1e6, 3), "n_ids": found["nearfar"]}
    for name in READERS:
        record |= {
            f"{name}_seconds": round(statistics.median(times[name]), 5),
            f"{name}_bytes": memory_of(name, small, path),
        }
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--integer-edges", type=int, default=5_000_000)
    parser.add_argument("--string-edges", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    file = ResultFile("read_edges", ("file",))
    rng = np.random.default_rng(0)
    kinds = (
        ("integers.tsv", write_integers, args.integer_edges),
        ("strings.csv", write_strings, args.string_edges),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, write, n_edges in kinds:
            path, small = Path(folder, name), Path(folder, f"small-{name}")
            write(path, n_edges, rng)
            write(small, min(1000, n_edges), rng)
            record = {"file": name, "n_edges": n_edges, "repeats": args.repeats, **compare(path, small, args.repeats)}
            file.add(record)
            say(str(record))


if __name__ == "__main__":
    main()
