"""Nearest neighbours: which rows are near which, for any metric, exactly or nearly so.

Euclidean and cosine distances (``1 - cos = |x/|x| - y/|y||² / 2``) are searched by a blocked search of lists of rows
(:mod:`nearfar.search.lists`). Distances that are given are looked up (:mod:`nearfar.search.distances`); every other
metric goes to scikit-learn, and every row is compared with every other on a device (:mod:`nearfar.search.elsewhere`).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import ne
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from nearfar._core import checks
from nearfar._core.checks import require
from nearfar._core.frames import is_frame, without
from nearfar._core.ids import Ids, check_columns, rows_and_ids
from nearfar._core.types import Seed
from nearfar.engines import on_device
from nearfar.errors import InputError
from nearfar.search import distances
from nearfar.search.elsewhere import DeviceIndex, Metric, MetricIndex
from nearfar.search.lists import LARGE, VectorIndex
from nearfar.search.nearest import NeighborIndex, Neighbors, check_k

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

METHODS = ("auto", "exact", "inverted-lists")
RECALL = 0.99
"""Share of the true neighbours that ``method="inverted-lists"`` finds, on the average."""


def nearest_neighbors(
    X: ArrayLike | sparray | spmatrix | distances.Pair,
    k: int,
    *,
    metric: Metric = "euclidean",
    method: Literal["auto", "exact", "inverted-lists"] = "auto",
    n_jobs: int | None = None,
    random_state: Seed = None,
    device: str | None = None,
) -> Neighbors:
    """Find the k nearest other rows of each row.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Rows of numbers. With ``metric="precomputed"`` the distances themselves: a square matrix, or a sparse one that
        stores at least k distances in each row, such as scikit-learn's ``kneighbors_graph`` makes; or the answer of
        another search, a pair (indices, distances) of arrays of shape (n, k) at least, in which a row may be among its
        own neighbours: it is passed over.
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
    device : str, optional
        None: the threads of this machine. ``"cuda"``, ``"cuda:1"`` or ``"cpu"``: every row against every other by torch
        (the extra ``torch``), exactly, for dense X and the Euclidean or cosine metric. Of many rows that are equally
        near, others may be taken.

    Returns
    -------
    Neighbors
        ``indices`` and ``distances``, shape (n, k), int32 and float32. Of rows at the same distance the first are
        taken, also where cosines of whole numbers, or most of those in a list, differ by rounding alone.

    Raises
    ------
    InputError
        If k is not in [1, n - 1], or X holds NaN (which rows), or precomputed distances are negative, not symmetric or
        too few; a device that is not there, or that does not know the metric or the method.

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
    index = neighbor_index(
        owner, X, metric=metric, method=method, n_jobs=n_jobs, random_state=random_state, device=device
    )
    return index.neighbors(check_k(owner, "k", k, index.n_rows))


def neighbor_index(
    owner: str,
    X: object,
    *,
    metric: Metric,
    method: str,
    n_jobs: int | None,
    random_state: Seed,
    metric_params: Mapping[str, object] | None = None,
    device: str | None = None,
    argument: str = "device",
) -> NeighborIndex:
    """Return what searches X by this metric; X is checked, ``owner`` is named in messages, as is ``argument``."""
    checks.check_choice(owner, "method", method, METHODS)
    workers = checks.check_n_jobs(owner, n_jobs)
    rng = checks.check_random_state(owner, random_state)
    if device is not None:
        require(f"{owner}({argument}=)", "torch", "torch")
        on_device("device")(owner, device, argument)
    if metric_params is not None:
        if not isinstance(metric_params, dict):
            raise InputError(owner, "metric_params", "None or a dict of the metric's parameters", repr(metric_params))
        if metric in ("precomputed", "euclidean", "cosine"):
            raise InputError(owner, "metric_params", f"None for metric {metric!r}", repr(metric_params))
    if distances.are_neighbors(X, metric):
        return distances.GivenIndex(owner, X)
    if metric == "precomputed":
        return distances.PrecomputedIndex(owner, X)
    if device is not None:
        return DeviceIndex(owner, X, metric=metric, method=method, device=device, n_jobs=workers, argument=argument)
    if not is_searched(X, metric):
        if method == "inverted-lists":
            what = "sparse X" if issparse(X) else f"metric {metric!r}"
            expected = "'auto' or 'exact' unless X is dense and the metric 'euclidean' or 'cosine'"
            raise InputError(owner, "method", expected, f"{method!r} with {what}")
        return MetricIndex(owner, X, metric, metric_params, workers)
    matrix = checks.check_matrix(owner, "X", X)
    check_k(owner, "k", 1, len(matrix))
    exact = method == "exact" or (method == "auto" and len(matrix) < LARGE)
    recall = 1.0 if exact else RECALL
    return VectorIndex(owner, matrix, cosine=metric == "cosine", recall=recall, rng=rng, n_jobs=workers)


def is_searched(X: object, metric: object) -> bool:
    """Return whether neighbours are found by the own search: of dense rows, by the Euclidean or the cosine metric."""
    return isinstance(metric, str) and metric in ("euclidean", "cosine") and not issparse(X)


def check_rows(owner: str, X: object, metric: object) -> Any:
    """Return rows of numbers that may be compared; refuse a graph in their place.

    Parameters
    ----------
    owner : str
    X : array, tensor or sparse matrix
        Two rows of whole numbers are an ``edge_index`` of PyTorch Geometric; a sparse matrix that is square and
        symmetric, or has an empty diagonal, holds weights of edges, as ``adata.obsp`` does.
    metric : str or callable
        With "precomputed" there are no rows of numbers: distances are checked, a pair of neighbours stays as it is.

    Returns
    -------
    ndarray or csr_array
        Finite, in float32 or float64; a sparse one in the type of its entries. None is the caller's own array.

    Raises
    ------
    InputError
        If it is one of these, holds NaN, or rows that the metric has no distances of.
    """
    if distances.are_neighbors(X, metric):
        return X
    if isinstance(metric, str) and metric == "precomputed":
        return distances.check_distances(owner, X)
    n, m = shape if len(shape := tuple(getattr(X, "shape", ()))) == 2 else (0, 0)
    rows = "rows of numbers, one for each point"
    if n == 2 < m and "int" in str(getattr(X, "dtype", "")):
        hint = "Relation.from_edges(X.T) is the graph, of which a map can be drawn."
        raise InputError(owner, "X", rows, f"2 rows of {m} whole numbers, as an edge_index has", hint)
    checked: Any = checks.check_sparse(owner, "X", X) if issparse(X) else checks.check_matrix(owner, "X", X)
    if issparse(X) and n == m > 2 and not (checked.diagonal().any() and ne(checked, checked.T).nnz):
        hint = "Relation.from_matrix(X) takes it for affinities, metric='precomputed' for distances; X.toarray(), if"
        hint += " its rows are points and its columns coordinates."
        raise InputError(owner, "X", rows, f"a sparse matrix of {n} x {n}, as a graph has", hint)
    distances.check_comparable(owner, checked, metric)
    return checks.own(checked, X)


def coordinates_of(owner: str, X: Any, metric: object = None) -> tuple[Any, Any]:
    """Return the columns of a frame that are coordinates of its rows, and the names of the others.

    Anything but a frame has coordinates alone, and a frame may hold distances (``"precomputed"``). Of a table that was
    prepared, or read, it is said how its columns were coded.
    """
    if (prepared := getattr(X, "prepared", None)) is not None:
        return X, prepared.coding
    if not is_frame(X) or (isinstance(metric, str) and metric == "precomputed"):
        return X, ()
    from nearfar.reading.preparation import coordinates_of_frame

    return coordinates_of_frame(owner, X)


def as_fitted(owner: str, X: Any, read_as: Any, names: NDArray[np.object_] | None) -> tuple[Any, Ids | None]:
    """Return the rows of X and their ids, made as those of a fit were; refuse a frame with other columns.

    Parameters
    ----------
    owner : str
    X : object
        What a fit takes.
    read_as : tuple of hashable, or Prepared
        What :func:`coordinates_of` said of the fit: names of columns that were left out, or how columns were coded.
    names : ndarray of str or None
        Of the columns of the fit.
    """
    was_prepared, is_prepared = not isinstance(read_as, tuple), getattr(X, "prepared", None) is not None
    if (was_prepared and (is_frame(X) or is_prepared)) or (is_prepared and names is not None):
        from nearfar.reading.preparation import coded_as

        X = coded_as(owner, X, read_as if names is None or was_prepared else names)
    elif not was_prepared:
        X = without(X, read_as)
    check_columns(owner, X, names)
    return rows_and_ids(owner, X)
