"""Data with a known answer, made on the spot: communities in graphs, senses in text, infections on contacts.

``dcsbm`` draws a degree-corrected stochastic block model and returns a ``Graph``; ``planted_senses`` draws a text
in which some words are ambiguous, and returns it as ``PlantedSenses``; ``simulate_sir`` lets an infection spread over
contacts with times, and returns the state of every node at every time.
"""

from nearfar._core.names import public_names
from nearfar.datasets.epidemics import simulate_sir
from nearfar.datasets.planted_graphs import Graph, dcsbm
from nearfar.datasets.planted_texts import PlantedSenses, planted_senses

__all__ = ["Graph", "PlantedSenses", "dcsbm", "planted_senses", "simulate_sir"]

public_names(__name__, __all__)
