"""How graphs are embedded here: nearfar and the four methods that planted and labelled graphs compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.figures import BLUE, GREEN, ORANGE, SKY
from lab.peers import deepwalk, edrep_package, spectral

Vectors = NDArray[Any]
LOOKS = {  # title and colour
    "nearfar": ("nearfar EDRep", BLUE),
    "package": ("EDRep 0.1.2", SKY),
    "deepwalk": ("DeepWalk", ORANGE),
    "spectral": ("Bethe-Hessian", GREEN),
}
TITLES = {"nearfar": "nearfar", "package": "EDRep 0.1.2", "deepwalk": "DeepWalk", "spectral": "spectral"}


def edrep(
    adjacency: Any, d: int, seed: int, *, n_epochs: int = 30, learning_rate: float = 0.8, **more: Any
) -> nf.EDRep:
    """Return a fit with the published defaults: walks of three steps."""
    relation = nf.Relation.from_matrix(adjacency).random_walk(3)
    model = nf.EDRep(d, n_epochs=n_epochs, learning_rate=learning_rate, random_state=seed, verbose=0, **more)
    return model.fit(relation)


def embed(method: str, adjacency: Any, d: int, n_groups: int, seed: int, n_walks: int = 40, **how: Any) -> Vectors:
    """Return the vectors that one of the four methods finds."""
    if method == "nearfar":
        return edrep(adjacency, d, seed, **how).embedding_
    if method == "package":
        return edrep_package.embed(adjacency, d, seed=seed, **how)
    if method == "deepwalk":
        return deepwalk.embed(adjacency, d, n_walks=n_walks, seed=seed)
    return spectral.embed(adjacency, n_groups, seed=seed)[0]


def score(graph: nf.datasets.Graph, vectors: Vectors, giant: NDArray[np.bool_]) -> dict[str, float]:
    """Score vectors of a planted graph over the nodes with an edge and over the giant component."""
    found = {}
    for name, nodes in (("edges", graph.degrees > 0), ("giant", giant)):
        result = nf.evaluate.communities(vectors, graph.labels, nodes=nodes, random_state=0)
        found |= {f"nmi_{name}": result.nmi, f"ami_{name}": result.ami}
    return found
