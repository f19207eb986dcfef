"""How good are the vectors: scores against a known answer, and maps against their data.

``neighborhoods`` says what a map keeps of the neighbours and distances of its data; ``communities`` compares the
clusters of the vectors with known groups; ``giant_component`` says which nodes hang together; ``word_similarity``,
``word_analogies`` and ``phrases`` compare words and what is composed of them with what people say; ``sense_induction``
looks for senses where ``plant_pseudowords`` has planted them; ``ambiguity`` says whether ambiguous words have larger
entropies than words that come as often; ``anchor_purity`` says whether an anchor stands for one kind of objects.
``stability`` says how far runs of a method agree, ``map_stability`` which points of a map have other places;
``link_prediction`` and ``node_classification`` how much of a graph its vectors know, ``ranking`` how much of what is
hidden, items or links, comes first; ``select`` chooses parameters by labels or links; ``reconstruct_spreading`` tells
who is infected when from a few observations.
"""

from nearfar._core.names import public_names
from nearfar.evaluate.alignment import Alignment
from nearfar.evaluate.communities import AnchorPurity, CommunityScores, anchor_purity, communities, giant_component
from nearfar.evaluate.graphs import LinkPrediction, NodeClassification, link_prediction, node_classification
from nearfar.evaluate.neighborhoods import Neighborhoods, neighborhoods
from nearfar.evaluate.ranking import Ranking, ranking
from nearfar.evaluate.selection import Selection, select
from nearfar.evaluate.senses import Ambiguity, SenseInduction, ambiguity, plant_pseudowords, sense_induction
from nearfar.evaluate.spreading import SpreadingReconstruction, reconstruct_spreading
from nearfar.evaluate.stability import MapStability, Stability, map_stability, stability
from nearfar.evaluate.words import (
    PhraseSimilarity,
    WordAnalogies,
    WordSimilarity,
    phrases,
    word_analogies,
    word_similarity,
)

__all__ = [
    "Alignment",
    "Ambiguity",
    "AnchorPurity",
    "CommunityScores",
    "LinkPrediction",
    "MapStability",
    "Neighborhoods",
    "NodeClassification",
    "PhraseSimilarity",
    "Ranking",
    "Selection",
    "SenseInduction",
    "SpreadingReconstruction",
    "Stability",
    "WordAnalogies",
    "WordSimilarity",
    "ambiguity",
    "anchor_purity",
    "communities",
    "giant_component",
    "link_prediction",
    "map_stability",
    "neighborhoods",
    "node_classification",
    "phrases",
    "plant_pseudowords",
    "ranking",
    "reconstruct_spreading",
    "select",
    "sense_induction",
    "stability",
    "word_analogies",
    "word_similarity",
]

public_names(__name__, __all__)
