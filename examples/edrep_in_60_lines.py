"""EDRep in 60 lines of NumPy: the vectors of nf.EDRep to rounding. After it read nearfar/methods/edrep.py.

Algorithm 1 of Dall'Amico & Belliardo, arXiv 2303.17475: unit vectors x_i, and y_a of the others, that minimise

    - sum_ia P_ia x_i . y_a  +  sum_i r_i log sum_a exp(x_i . y_a)  +  (sum_i r_i x_i) . (sum_a p0_a y_a).
"""

from __future__ import annotations

import networkx as nx
import numpy as np

import nearfar as nf


def edrep(P, X, Y=None, n_epochs=30, learning_rate=0.8, transposed=True):
    """Return unit vectors of rows and others of a matrix P, from X and Y; Y = X without one. P has no empty row."""
    two_sided, r = Y is not None, P @ np.ones(P.shape[1], np.float32)
    X, Y = on_sphere(X), on_sphere(X if Y is None else Y)
    p0 = np.full(len(Y), 1 / len(Y), np.float32)
    for epoch in range(n_epochs):
        _, force = far_field(X, Y)
        of_others, of_rows = Y.T @ p0, X.T @ r
        G = r[:, None] * (force + of_others) - P @ Y  # eq. (6): of x_i as a row ...
        H = p0[:, None] * of_rows - P.T @ X  # ... and of y_a as one of the others
        rate = learning_rate * (1 - epoch / n_epochs)
        X, Y = (step(X, G, rate), step(Y, H, rate)) if two_sided else [step(X, G + H if transposed else G, rate)] * 2
    return X, Y


def far_field(X, Y):
    """Return log Z_i and its gradient in x_i, were the others Gaussian."""
    mean = Y.mean(axis=0)
    covariance = Y.T @ Y / len(Y) - np.outer(mean, mean)  # eq. (3)
    curved = X @ covariance
    return np.log(len(Y)) + X @ mean + (X * curved).sum(axis=1) / 2, mean + curved  # eq. (2)


def step(X, G, rate):
    """Turn unit vectors by arcsin(rate) against their gradient."""
    tangent = on_sphere(G - (X * G).sum(axis=1, keepdims=True) * X)
    return on_sphere(np.sqrt(1 - rate**2) * X - rate * tangent)


def on_sphere(X):
    """Return rows of length 1."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


if __name__ == "__main__":
    P = nf.Relation.from_edges(nx.les_miserables_graph()).random_walk(3)
    start = np.random.default_rng(0).standard_normal((P.shape[0], 16), np.float32)
    X, _ = edrep(P.to_scipy(), start, transposed=False)  # as EDRep does for an undirected graph
    print("largest difference:", abs(X - nf.EDRep(16, init=start).fit(P).embedding_).max())
    print(nf.Embedding(X, P.row_ids).most_similar("Valjean", topn=5))
