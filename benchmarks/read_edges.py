"""How fast edge files are read: nearfar against pandas.read_csv + factorize, in the same run.

python benchmarks/read_edges.py [--integer-edges 5000000] [--string-edges 1000000] [--repeats 3]

Prints one row per file: size, MB/s of both (best of the repeats, interleaved), their ratio, and the peak of memory
that each needs above the start, measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


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


def _peak(name: str, small: Path, path: Path, pipe: multiprocessing.connection.Connection) -> None:
    READERS[name](small)  # imports and compiled code are not counted
    before = _high_water()
    READERS[name](path)
    pipe.send((_high_water() - before) / 1024)


def _high_water() -> int:
    """Return the largest memory of this process so far, in KiB (Linux; getrusage would count the parent's)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


def peak_memory(name: str, small: Path, path: Path) -> float:
    """Return MiB above what a small file needs, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(name, small, path, theirs))
    process.start()
    process.join()
    return float(ours.recv())


def compare(path: Path, small: Path, repeats: int) -> str:
    megabytes = path.stat().st_size / 1e6
    best = dict.fromkeys(READERS, float("inf"))
    found = {name: read(small) for name, read in READERS.items()}
    for _ in range(repeats):
        for name, read in READERS.items():
            start = time.perf_counter()
            found[name] = read(path)
            best[name] = min(best[name], time.perf_counter() - start)
    if len(set(found.values())) > 1:
        raise SystemExit(f"the two disagree on the number of ids: {found}")
    speed = {name: megabytes / seconds for name, seconds in best.items()}
    peaks = {name: peak_memory(name, small, path) for name in READERS}
    ratio = speed["nearfar"] / speed["pandas"]
    return (
        f"{path.name:<14}{megabytes:>8.1f}{speed['nearfar']:>12.1f}{speed['pandas']:>12.1f}{ratio:>8.2f}"
        f"{peaks['nearfar']:>14.0f}{peaks['pandas']:>14.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--integer-edges", type=int, default=5_000_000)
    parser.add_argument("--string-edges", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        integers, strings = Path(folder, "integers.tsv"), Path(folder, "strings.csv")
        small_integers, small_strings = Path(folder, "small.tsv"), Path(folder, "small.csv")
        write_integers(integers, options.integer_edges, rng)
        write_integers(small_integers, 1000, rng)
        write_strings(strings, options.string_edges, rng)
        write_strings(small_strings, 1000, rng)
        print("file                MB  nearfar MB/s pandas MB/s   ratio   nearfar MiB    pandas MiB")
        print(compare(integers, small_integers, options.repeats))
        print(compare(strings, small_strings, options.repeats))


if __name__ == "__main__":
    main()
