"""Nearest neighbours: which rows are near which, for any metric, exactly or nearly so.

Euclidean and cosine distances are searched by the library's own blocked search (:mod:`nearfar.relations._lists`);
distances that are there already are looked up; every other metric goes to scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_choice, check_integer, check_matrix, check_n_jobs, check_random_state
from nearfar.errors import InputError

METHODS = ("auto", "exact", "inverted-lists")
RECALL = 0.99
"""Share of the true neighbours that ``method="inverted-lists"`` finds, on the average."""
_LARGE = 10_000  # rows from which "auto" takes inverted lists


class Neighbors(NamedTuple):
    """Nearest neighbours of some rows, nearest first; ties in the order of the rows.

    Parameters
    ----------
    indices : ndarray of shape (n, k), int32
        Row numbers of the neighbours.
    distances : ndarray of shape (n, k), float32
        In the units of the metric.
    """

    indices: NDArray[np.int32]
    distances: NDArray[np.float32]


class NeighborIndex(Protocol):
    """What finds neighbours: made from data, then asked for those of its own rows or of new ones."""

    @property
    def n_rows(self) -> int:
        """Number of rows that are searched."""

    def neighbors(self, k: int) -> Neighbors:
        """Return the k nearest other rows of each row."""

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X; each answer depends on its row alone."""


def nearest_neighbors(
    X: Any,
    k: int,
    *,
    metric: str | Callable[..., float] = "euclidean",
    method: str = "auto",
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Neighbors:
    """Find the k nearest other rows of each row.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Rows of numbers. With ``metric="precomputed"`` the distances themselves: a square matrix, or a sparse one that
        stores at least k distances in each row, such as scikit-learn's ``kneighbors_graph`` makes.
    k : int, in [1, n - 1]
        How many. A row is never its own neighbour; a copy of it is, at distance 0.
    metric : str or callable, default="euclidean"
        "euclidean", "cosine" (1 - cos; the fast ones), "precomputed", or what scikit-learn's ``NearestNeighbors``
        takes.
    method : {"auto", "exact", "inverted-lists"}, default="auto"
        Inverted lists find 99 % of the neighbours, on the average; "auto" takes them from 10,000 rows on. They serve
        the Euclidean and the cosine metric of dense X; other metrics are always exact.
    n_jobs : int, optional
        Number of threads; None means all processors. The result does not depend on it.
    random_state : int, Generator or None
        For inverted lists: where their centres start.

    Returns
    -------
    Neighbors
        ``indices`` and ``distances``, shape (n, k), int32 and float32.

    Raises
    ------
    InputError
        If k is not in [1, n - 1], or X holds NaN (which rows), or precomputed distances are negative, not symmetric or
        too few.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.relations.neighbors import nearest_neighbors
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [0.0, 1.0]])
    >>> nearest_neighbors(X, 2).indices
    array([[2, 3],
           [2, 3],
           [3, 0],
           [2, 0]], dtype=int32)

    References
    ----------
    Jégou, Douze & Schmid (2011), "Product quantization for nearest neighbor search", section IV: the inverted file,
    here without codes.
    """
    owner = "nearest_neighbors"
    index = neighbor_index(owner, X, metric=metric, method=method, n_jobs=n_jobs, random_state=random_state)
    return index.neighbors(check_k(owner, "k", k, index.n_rows))


def neighbor_index(
    owner: str, X: Any, *, metric: str | Callable[..., float], method: str, n_jobs: int | None, random_state: Any
) -> NeighborIndex:
    """Return what searches X by this metric; X is checked, ``owner`` is named in messages."""
    check_choice(owner, "method", method, METHODS)
    workers = check_n_jobs(owner, n_jobs)
    rng = check_random_state(owner, random_state)
    if metric == "precomputed":
        from nearfar.relations._other_neighbors import PrecomputedIndex

        return PrecomputedIndex(owner, X)
    from scipy.sparse import issparse

    if issparse(X) or metric not in ("euclidean", "cosine"):
        from nearfar.relations._other_neighbors import MetricIndex

        if method == "inverted-lists":
            what = "sparse X" if issparse(X) else f"metric {metric!r}"
            expected = "'auto' or 'exact' unless X is dense and the metric 'euclidean' or 'cosine'"
            raise InputError(owner, "method", expected, f"{method!r} with {what}")
        return MetricIndex(owner, X, metric, workers)
    from nearfar.relations._vector_neighbors import VectorIndex

    matrix = check_matrix(owner, "X", X)
    check_k(owner, "k", 1, len(matrix))
    exact = method == "exact" or (method == "auto" and len(matrix) < _LARGE)
    return VectorIndex(
        owner, matrix, cosine=metric == "cosine", recall=1.0 if exact else RECALL, rng=rng, n_jobs=workers
    )


def check_k(owner: str, name: str, k: object, n: int) -> int:
    """Return a number of neighbours that n rows have."""
    if n < 2:
        raise InputError(owner, "X", "of two rows at least", f"n_samples = {n}", "A single point has no neighbour.")
    k = check_integer(owner, name, k, low=1)
    if k > n - 1:
        raise InputError(owner, name, f"at most {n - 1}, the number of other rows", k)
    return k
