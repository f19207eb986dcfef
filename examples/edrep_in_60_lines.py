"""EDRep in 60 lines, from public parts: the same vectors as nf.EDRep, to the last bit.

Algorithm 1 of Dall'Amico & Belliardo, arXiv 2303.17475: unit vectors x_i that minimise

    - sum_ij p_ij x_i . x_j  +  sum_i log sum_j exp(x_i . x_j)  +  (sum_i x_i) . (sum_j p0_j x_j).
"""

from __future__ import annotations

import networkx as nx
import numpy as np

import nearfar as nf
from nearfar.edrep import Sphere, gradient


def edrep(P: nf.Relation, d: int, n_epochs: int = 30, learning_rate: float = 0.8, seed: int = 0) -> np.ndarray:
    """Return unit vectors for the objects of an undirected relation of at most 65,536 / d objects."""
    n, r = P.shape[0], P.row_sums
    p0 = np.full(n, 1 / n)
    zeros = np.zeros(n)  # the weights of the transposed terms, left out for an undirected relation
    sphere, far = Sphere(), nf.far.GaussianMixture()
    rng = np.random.default_rng(seed)
    X = sphere.project(sphere.start(n, d, rng))
    log_z, force = np.empty(n), np.empty_like(X)
    for epoch in range(n_epochs):
        far.prepare(X, n, rng, n_jobs=1)  # mean and covariance of all vectors, eq. (2)
        far.evaluate(X, log_z, force)  # log Z_i and its gradient, eq. (3)
        G = P.matmat(X, n_jobs=1)  # the near field
        sums = np.stack((p0, r)).astype(X.dtype) @ X
        gradient(X, G, force, log_z, (r, zeros), tuple(sums))  # eq. (6), in place of P X
        sphere.step(X, G, learning_rate * (1 - epoch / n_epochs))
    return X


if __name__ == "__main__":
    P = nf.Relation.from_edges(nx.les_miserables_graph()).random_walk(3)
    X = edrep(P, 16)
    print("the same bits:", np.array_equal(X, nf.EDRep(16, random_state=0, n_jobs=1).fit(P).embedding_))
    print(nf.Embedding(X, P.row_ids).most_similar("Valjean", topn=5))
