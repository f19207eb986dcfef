"""The tables, figures and statements of the five sources that run on one machine: ``python -m lab run NAME``."""

from __future__ import annotations

import importlib

from lab.papers.experiment import Experiment

FAMILIES = ("edrep", "words", "contrastive", "maps", "anchors")


def experiments() -> dict[str, Experiment]:
    """Return every experiment by its name."""
    modules = (importlib.import_module(f"lab.papers.{family}") for family in FAMILIES)
    return {one.name: one for module in modules for one in module.EXPERIMENTS}
