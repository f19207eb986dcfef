"""What the lab tells of records: sections, pages and their targets."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
