"""Density matrices for properties; words with factors, and words with senses, that several tests take."""

import numpy as np
from hypothesis import strategies as st

import nearfar as nf


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


@st.composite
def densities(draw, k=2):
    """Density matrices of one order, of any rank, with eigenvalues of widely different sizes, among them equal ones."""
    n = draw(st.integers(1, 5))
    made = []
    for _ in range(k):
        weights = np.array(draw(st.lists(st.sampled_from([0.0, 1e-3, 0.2, 1.0, 1.0, 3.0]), min_size=n, max_size=n)))
        weights[draw(st.integers(0, n - 1))] = 1.0
        axes = rotation(n, draw(st.integers(0, 9)))
        made.append(axes @ np.diag(weights / weights.sum()) @ axes.T)
    return np.array(made)


WORDS = ["ann", "bob", "cem", "dot", "nil", ("e", 1), 17]
_RNG = np.random.default_rng(0)
FACTORS = _RNG.standard_normal((7, 4, 3)) * 10.0 ** _RNG.integers(-3, 3, size=(7, 1, 1))
FACTORS[4] = 0
IDS = [("bank", 0), ("bank", 2), ("loan", 0), ("river", 1), ("rare", 0)]
WEIGHTS = [0.7, 0.3, 1, 1, 0]


def small(**more):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5, 3)).astype(np.float32)
    vectors[4] = 0
    options = {"weights": WEIGHTS, "context_vectors": rng.normal(size=(4, 3)).astype(np.float32), **more}
    return nf.SenseEmbedding(vectors, IDS, **options)
