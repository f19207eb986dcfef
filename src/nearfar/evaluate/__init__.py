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

from nearfar._core import names
from nearfar.evaluate.alignment import Alignment as Alignment
from nearfar.evaluate.communities import AnchorPurity as AnchorPurity
from nearfar.evaluate.communities import CommunityScores as CommunityScores
from nearfar.evaluate.communities import anchor_purity as anchor_purity
from nearfar.evaluate.communities import communities as communities
from nearfar.evaluate.communities import giant_component as giant_component
from nearfar.evaluate.graphs import LinkPrediction as LinkPrediction
from nearfar.evaluate.graphs import NodeClassification as NodeClassification
from nearfar.evaluate.graphs import link_prediction as link_prediction
from nearfar.evaluate.graphs import node_classification as node_classification
from nearfar.evaluate.neighborhoods import Neighborhoods as Neighborhoods
from nearfar.evaluate.neighborhoods import neighborhoods as neighborhoods
from nearfar.evaluate.ranking import Ranking as Ranking
from nearfar.evaluate.ranking import ranking as ranking
from nearfar.evaluate.selection import Selection as Selection
from nearfar.evaluate.selection import select as select
from nearfar.evaluate.senses import Ambiguity as Ambiguity
from nearfar.evaluate.senses import SenseInduction as SenseInduction
from nearfar.evaluate.senses import ambiguity as ambiguity
from nearfar.evaluate.senses import plant_pseudowords as plant_pseudowords
from nearfar.evaluate.senses import sense_induction as sense_induction
from nearfar.evaluate.spreading import SpreadingReconstruction as SpreadingReconstruction
from nearfar.evaluate.spreading import reconstruct_spreading as reconstruct_spreading
from nearfar.evaluate.stability import MapStability as MapStability
from nearfar.evaluate.stability import Stability as Stability
from nearfar.evaluate.stability import map_stability as map_stability
from nearfar.evaluate.stability import stability as stability
from nearfar.evaluate.words import PhraseSimilarity as PhraseSimilarity
from nearfar.evaluate.words import WordAnalogies as WordAnalogies
from nearfar.evaluate.words import WordSimilarity as WordSimilarity
from nearfar.evaluate.words import phrases as phrases
from nearfar.evaluate.words import word_analogies as word_analogies
from nearfar.evaluate.words import word_similarity as word_similarity

names.public_names(__name__)
