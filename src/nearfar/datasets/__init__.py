"""Data with a known answer, made on the spot: graphs with planted communities, text with planted senses.

``dcsbm`` draws a degree-corrected stochastic block model and returns a ``Graph``; ``planted_senses`` draws a text
in which some words are ambiguous, and returns it as ``PlantedSenses``.
"""

from __future__ import annotations

from nearfar.datasets.planted_graphs import Graph, dcsbm
from nearfar.datasets.planted_texts import PlantedSenses, planted_senses

__all__ = ["Graph", "PlantedSenses", "dcsbm", "planted_senses"]
