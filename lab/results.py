"""Result files, and where results, pages and pictures go.

A result file is ``results/<name>.json``::

    {"benchmark": name,
     "runs":    [{"command": ..., "started": ..., "seeds": {...}, "machine": {...}, "versions": {...}}, ...],
     "records": [{"run": 0, ...one measurement...}, ...]}

Every record points to the run that made it, so an experiment can be done in slices, on several days; a slice that is
there already is not repeated.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.measure import say

ROOT = Path(__file__).absolute().parent.parent
# Trial runs go to a folder of their own, not to the committed results, pages and pictures.
TRIAL = os.environ.get("NEARFAR_RESULTS")
RESULTS = Path(TRIAL) if TRIAL else ROOT / "lab" / "results"
TABLES = Path(TRIAL) if TRIAL else ROOT / "lab" / "tables"
DOCS = Path(TRIAL) if TRIAL else ROOT / "docs"
# Packages whose versions a result file tells.
PACKAGES = (
    "numpy", "scipy", "numba", "scikit-learn", "gensim", "EDRep", "faiss-cpu", "hnswlib", "openTSNE", "umap-learn",
    "torch", "pyarrow", "pandas", "usearch", "scikit-network", "pycleora", "implicit",
)  # fmt: skip
SEEDS = ("seeds", "seed", "trials", "runs", "graphs", "splits", "draws")  # options that say what is drawn, how often


class ResultFile:
    """One result file: what is there is kept, every new record is on the disk at once.

    ``keys`` name the fields that tell records apart, ``given`` are the options of the run, ``folder`` is for tests.
    """

    def __init__(self, name: str, keys: Iterable[str], folder: Path = RESULTS, given: Namespace | None = None) -> None:
        self.path = folder / f"{name}.json"
        self.keys = tuple(keys)
        self.given = vars(given) if given else {}
        self.content: dict[str, Any] = {"benchmark": name, **read(self.path)}
        self._run: int | None = None

    @property
    def records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = self.content["records"]
        return records

    def find(self, **fields: Any) -> dict[str, Any] | None:
        """Return the record with these fields, None if there is none."""
        return next((r for r in self.records if all(r.get(k) == v for k, v in fields.items())), None)

    def wants(self, **fields: Any) -> bool:
        """Tell whether a record has still to be measured; end the run where its processor seconds are spent."""
        if self.find(**fields) and not self.given.get("again"):
            return False
        budget = self.given.get("budget")
        if budget and time.process_time() > budget:
            raise SystemExit("The budget is spent; start again to go on.")
        return True

    def new(self, *values: Any) -> dict[str, Any]:
        """Return the fields of a record that has still to be measured, by the values of the keys; else none."""
        key = dict(zip(self.keys, values, strict=True))
        return key if self.wants(**key) else {}

    def add(self, record: dict[str, Any]) -> None:
        """Store a record, in place of the one with the same keys, and say what it is."""
        if self._run is None:
            self.content["runs"].append(this_run(self.given))
            self._run = len(self.content["runs"]) - 1
        same = {key: record.get(key) for key in self.keys}
        record = {name: value if name in same else rounded(value) for name, value in record.items()}
        self.content["records"] = [r for r in self.records if any(r.get(k) != v for k, v in same.items())] + [
            {"run": self._run, **record}
        ]
        write_text(self.path, _dump(self.content))
        say(", ".join(f"{name} {value}" for name, value in record.items() if not isinstance(value, list | dict)))


def rounded(value: Any) -> Any:
    """Return what is measured with eight digits: nothing here is more precise."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def read(path: Path) -> dict[str, Any]:
    """Return runs and records of a file; none where it is not there. The first files had records by name alone."""
    content = json.loads(path.read_text()) if path.exists() else {}
    if content and "records" not in content:
        content = {"records": [{"case": name, **record} for name, record in content.items()]}
    return {"runs": [], "records": [], **content}


def records_of(name: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the records of an experiment; none where it was not measured."""
    records: list[dict[str, Any]] = read(folder / f"{name}.json")["records"]
    return records


def _dump(content: dict[str, Any]) -> str:
    """JSON with one line per run and per record, so that a difference between versions can be read."""
    head = json.dumps(content["benchmark"])
    blocks = []
    for part in ("runs", "records"):
        lines = ",\n  ".join(json.dumps(entry) for entry in content[part])
        blocks.append(f' "{part}": [\n  {lines}\n ]')
    return f'{{"benchmark": {head},\n' + ",\n".join(blocks) + "\n}\n"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from nearfar._core.atomic import atomic_write

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, owner="lab") as file:
        file.write(text.encode())


def this_run(given: dict[str, Any]) -> dict[str, Any]:
    """Describe this process: command, time, seeds, machine, versions."""
    return {
        "command": " ".join(["python -m lab", *sys.argv[1:]]),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seeds": {name: given[name] for name in SEEDS if name in given},
        "machine": machine(),
        "versions": versions(),
    }


def machine() -> dict[str, Any]:
    """Describe the machine: processor, number of processors that may be used, memory, system."""
    model = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of nearfar and of what the lab uses."""
    import nearfar

    found = {"nearfar": nearfar.__version__}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
