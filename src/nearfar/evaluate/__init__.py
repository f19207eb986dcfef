"""How good are the vectors: scores against a known answer, and maps against their data.

``neighborhoods`` says what a map keeps of the neighbours and distances of its data; ``communities`` compares the
clusters of the vectors with known groups; ``giant_component`` says which nodes hang together; ``word_similarity`` and
``word_analogies`` compare words with what people say of them.
"""

from __future__ import annotations

from nearfar.evaluate.communities import CommunityScores, communities, giant_component
from nearfar.evaluate.neighborhoods import Neighborhoods, neighborhoods
from nearfar.evaluate.words import WordAnalogies, WordSimilarity, word_analogies, word_similarity

__all__ = [
    "CommunityScores",
    "Neighborhoods",
    "WordAnalogies",
    "WordSimilarity",
    "communities",
    "giant_component",
    "neighborhoods",
    "word_analogies",
    "word_similarity",
]
