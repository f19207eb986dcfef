"""How good are the vectors: scores against a known answer.

``communities`` compares the clusters of the vectors with known groups; ``giant_component`` says which nodes
hang together.
"""

from __future__ import annotations

from nearfar.evaluate.communities import CommunityScores, communities, giant_component

__all__ = ["CommunityScores", "communities", "giant_component"]
