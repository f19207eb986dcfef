"""The tables, figures and statements of the five sources that run on one machine: ``python -m lab run NAME``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from lab.papers.experiment import Experiment

FAMILIES = ("edrep", "words", "contrastive", "maps", "anchors")


def experiments_of(family: str) -> Sequence[Experiment]:
    """Return the experiments of a source, in the order of its page."""
    found: Sequence[Experiment] = importlib.import_module(f"lab.papers.{family}").EXPERIMENTS
    return found


def experiments() -> dict[str, Experiment]:
    """Return every experiment by its name."""
    return {one.name: one for family in FAMILIES for one in experiments_of(family)}
