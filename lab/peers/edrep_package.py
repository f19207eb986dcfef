"""The published package EDRep 0.1.2, called as its own NodeEmbedding means to.

Its ``NodeEmbedding`` passes a keyword that the function it calls does not have, so it always raises TypeError; its
``CreateEmbedding`` is called directly, with P the mean of the first powers of the row-normalised matrix.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


def transition(adjacency: Any) -> Any:
    """Return the row-normalised matrix, float64; rows without an edge stay empty."""
    A = csr_array(adjacency, dtype=np.float64)
    rows = np.asarray(A.sum(axis=1)).ravel()
    return csr_array(A * (1.0 / np.where(rows > 0, rows, 1.0))[:, None])


def embed(
    adjacency: Any,
    n_components: int,
    *,
    walk_length: int = 3,
    n_epochs: int = 30,
    learning_rate: float = 0.8,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return vectors of shape (n, n_components); time includes making the row-normalised matrix."""
    from EDRep import CreateEmbedding

    np.random.seed(seed)  # noqa: NPY002 - the package draws from the global state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that isolated rows do not sum to 1
        how = {"dim": n_components, "n_epochs": n_epochs, "sum_partials": True, "eta": learning_rate, "verbose": False}
        result = CreateEmbedding([transition(adjacency)] * walk_length, **how)
    return result.X
