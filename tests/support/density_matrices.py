"""Density matrices for properties."""

import numpy as np
from hypothesis import strategies as st


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
