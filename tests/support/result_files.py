"""Made-up result files of the lab, and the pages that are made of them."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_results(folder: Path, name: str, records: list[dict]) -> None:
    machine = {"processor": "Toy CPU", "processors": 2, "memory_gib": 8.0, "system": "Linux", "python": "3.12.1"}
    run = {
        "command": "python x",
        "started": "2025-01-02T03:04:05+00:00",
        "machine": machine,
        "versions": {"numpy": "2.0"},
    }
    content = {"benchmark": name, "runs": [run], "records": [{"run": 0, **record} for record in records]}
    (folder / f"{name}.json").write_text(json.dumps(content))


def page(folder: Path) -> tuple[str, dict[str, list[str]]]:
    """The pages of all families, and the rows of their tables of targets by the first cell."""
    from lab import pages

    text, rows = "", {}
    for name in pages.FAMILIES:
        one = pages.page(name, folder)
        targets = one.split("## Targets")[1].split("\n## ")[0]
        found = [[c.strip() for c in line.split("|")[1:-1]] for line in targets.splitlines() if line.startswith("|")]
        assert found[0] == ["what", "target", "measured", "met"]
        rows |= {row[0]: row[1:] for row in found[2:]}
        text += one
    return text, rows


def told(name: str) -> Callable[[list[dict]], Any]:
    """Return what makes a section from the records of an experiment."""
    from lab.experiment import Section

    def section_of(records: list[dict]) -> Section:
        section = Section()
        importlib.import_module(f"lab.{name}").told(section, records)
        return section

    return section_of
