"""Made-up result files of benchmarks, and the page that is made of them."""

from __future__ import annotations

import json
from pathlib import Path


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
    """The page, and the rows of the table of targets by their first cell."""
    from report import report

    text = report(folder)
    targets = text.split("## Targets")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in targets.splitlines() if line.startswith("|")]
    assert rows[0] == ["what", "target", "measured", "met"]
    return text, {row[0]: row[1:] for row in rows[2:]}
