"""Data with a known answer, made on the spot: graphs with planted communities.

``dcsbm`` draws a degree-corrected stochastic block model and returns a ``Graph``.
"""

from __future__ import annotations

from nearfar.datasets.dcsbm import Graph, dcsbm

__all__ = ["Graph", "dcsbm"]
