"""Nearest neighbours: which rows are near which, for any metric, exactly or nearly so.

Euclidean and cosine distances (``1 - cos = |x/|x| - y/|y||² / 2``) are searched by a blocked search of lists of rows:
a single list with all rows, or inverted lists around the centres of a short k-means, of which a query looks at the
nearest ones ("probes"). How many is found on a sample of rows whose true neighbours are searched in all lists: the
smallest number that keeps the share of neighbours that is asked for. Distances that are given are looked up; every
other metric goes to scikit-learn.

For a query x and the members y of a list with centre c the squared distance is, with u = x - c and v = y - c,

    |x - y|² = |u|² + |v|² - 2 u·v

so that products find candidates, eight queries by sixteen members at a time, and what is small against the centre's
distance is never cancelled away. In single precision they err by at most e = g (|u| + |v|)². A candidate therefore
stays while it is within 2 e of the k-th best, and in the end all that stayed are measured again, directly, by
``sum (x_j - y_j)²`` in the precision of the data. The answer is thus that of a direct search among the probed lists:
it depends on no block and no thread; equal distances come in the order of the rows.

Source: the inverted file of Jégou, Douze & Schmid (2011), "Product quantization for nearest neighbor search", section
IV, without its quantised codes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import (
    check_choice,
    check_csr,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_random_state,
    check_sparse,
    require,
)
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST, LANES, at_most, load, multiply_add, read_only, store, zeros_like
from nearfar.contracts import Floats
from nearfar.engines.registry import on_device
from nearfar.errors import DataError, InputError

METHODS = ("auto", "exact", "inverted-lists")
RECALL = 0.99
"""Share of the true neighbours that ``method="inverted-lists"`` finds, on the average."""
FLAT = 4096
"""Up to this many rows one list is searched faster than several."""
TILE = 8
"""Queries whose products are taken together; the members beside them are the LANES of a vector."""
FEW = 200
"""Rows up to which neighbours are found, and maps drawn, without compiled code: on a new machine that takes seconds."""
_LARGE = 10_000  # rows from which "auto" takes inverted lists
_BLOCK = 256  # queries that share their products
_PROBES_AT_ONCE = 2**22  # 32 MiB of lists and distances
_PER_CENTER, _ROUNDS = 20, 5  # of the k-means: rows in the sample for each centre, passes
_TUNING = 300  # queries on which the number of probes is found
_SPARE = 0.2  # share of the permitted misses that is kept in hand: the sample is not all rows
_REACH = 1e15  # widths of the data by which a query may be away from them: squares must not overflow
_WIDTHS = (1e-30, 1e37)  # of the widest column: distances are float32
_AT_ONCE = 4096  # rows whose difference from a centre is taken at once, a multiple of LANES
_ROWS = 512  # of given distances that are sorted or compared at a time
_SLACK = 16  # units in the last place by which two distances of the same pair may differ


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
    """What finds neighbours: made from data, then asked for those of its rows or of new ones."""

    n_rows: int
    """Number of rows that are searched."""
    most: int
    """Neighbours that a row has at most."""

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X; each answer depends on its row alone."""


def nearest_neighbors(
    X: Any,
    k: int,
    *,
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    method: str = "auto",
    n_jobs: int | None = None,
    random_state: Any = None,
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
    metric_params : dict, optional
        What the metric needs beside two rows, for scikit-learn's metrics and functions.
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
        ``indices`` and ``distances``, shape (n, k), int32 and float32.

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
    search: Any = {"metric": metric, "metric_params": metric_params, "method": method, "n_jobs": n_jobs}
    index = neighbor_index(owner, X, **search, random_state=random_state, device=device)
    return index.neighbors(check_k(owner, "k", k, index.n_rows))


class DeviceIndex:
    """Neighbours among the rows of a dense matrix, every row against every other on a device; new rows on threads.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, d)
    metric : {"euclidean", "cosine"}
    method : {"auto", "exact"}
    device : str
    n_jobs : int
        Threads of :meth:`query`.
    argument : str
        By which the device was asked for.
    """

    def __init__(
        self, owner: str, X: Any, *, metric: Any, method: str, device: str, n_jobs: int, argument: str = "device"
    ) -> None:
        from scipy.sparse import issparse

        if issparse(X) or metric not in ("euclidean", "cosine"):
            got = "sparse X" if issparse(X) else f"metric {metric!r}"
            raise InputError(owner, "metric", "'euclidean' or 'cosine' of dense X on a device", got)
        if method == "inverted-lists":
            raise InputError(owner, "method", "'auto' or 'exact' on a device", repr(method))
        self._given = matrix = check_matrix(owner, "X", X)
        if matrix.shape[1] == 0:
            raise InputError(owner, "X", "of one column at least", f"shape {matrix.shape}")
        self._owner, self._cosine, self._device, self._n_jobs = owner, metric == "cosine", device, n_jobs
        self._argument = argument
        self.X = directions(owner, matrix) if self._cosine else matrix
        self.n_rows, self.most = len(matrix), len(matrix) - 1
        self._threads: VectorIndex | None = None

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        found = out or Neighbors(np.empty((self.n_rows, k), np.int32), np.empty((self.n_rows, k), np.float32))
        search = on_device("nearest neighbours")
        for start, indices, squares in search(self._owner, self._device, self.X, k, self._argument):
            if not np.isfinite(squares).all():
                expected, hint = "of numbers whose squares are finite", "Multiply X by a constant."
                raise InputError(self._owner, "X", expected, "larger ones", hint)
            some = _by_distance(indices, squares / 2 if self._cosine else np.sqrt(squares))
            for kept, part in zip(found, some, strict=True):
                kept[start : start + len(part)] = part[:, :k]
        return found

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X, found by :class:`VectorIndex`, exactly."""
        if self._threads is None:
            options: Any = {"cosine": self._cosine, "recall": 1.0, "n_jobs": self._n_jobs}
            self._threads = VectorIndex(self._owner, self._given, rng=np.random.default_rng(0), **options)
        return self._threads.query(X, k)


def neighbor_index(
    owner: str,
    X: Any,
    *,
    metric: str | Callable[..., float],
    method: str,
    n_jobs: int | None,
    random_state: Any,
    metric_params: dict[str, Any] | None = None,
    device: str | None = None,
    argument: str = "device",
) -> NeighborIndex:
    """Return what searches X by this metric; X is checked, ``owner`` is named in messages, as is ``argument``."""
    from scipy.sparse import issparse

    check_choice(owner, "method", method, METHODS)
    workers = check_n_jobs(owner, n_jobs)
    rng = check_random_state(owner, random_state)
    if device is not None:
        require(f"{owner}({argument}=)", "torch", "torch")
        on_device("device")(owner, device, argument)
    if metric_params is not None:
        if not isinstance(metric_params, dict):
            raise InputError(owner, "metric_params", "None or a dict of the metric's parameters", repr(metric_params))
        if metric in ("precomputed", "euclidean", "cosine"):
            raise InputError(owner, "metric_params", f"None for metric {metric!r}", repr(metric_params))
    if are_neighbors(X, metric):
        return GivenIndex(owner, X)
    if metric == "precomputed":
        return PrecomputedIndex(owner, X)
    if device is not None:
        on_it: Any = {"device": device, "n_jobs": workers, "argument": argument}
        return DeviceIndex(owner, X, metric=metric, method=method, **on_it)
    if not is_searched(X, metric):
        if method == "inverted-lists":
            what = "sparse X" if issparse(X) else f"metric {metric!r}"
            expected = "'auto' or 'exact' unless X is dense and the metric 'euclidean' or 'cosine'"
            raise InputError(owner, "method", expected, f"{method!r} with {what}")
        return MetricIndex(owner, X, metric, metric_params, workers)
    matrix = check_matrix(owner, "X", X)
    check_k(owner, "k", 1, len(matrix))
    exact = method == "exact" or (method == "auto" and len(matrix) < _LARGE)
    recall = 1.0 if exact else RECALL
    return VectorIndex(owner, matrix, cosine=metric == "cosine", recall=recall, rng=rng, n_jobs=workers)


def is_searched(X: Any, metric: Any) -> bool:
    """Return whether neighbours are found by the own search: of dense rows, by the Euclidean or the cosine metric."""
    from scipy.sparse import issparse

    return isinstance(metric, str) and metric in ("euclidean", "cosine") and not issparse(X)


def check_k(owner: str, name: str, k: object, n: int) -> int:
    """Return a number of neighbours that n rows have."""
    if n < 2:
        raise InputError(owner, "X", "of two rows at least", f"n_samples = {n}", "A single point has no neighbour.")
    k = check_integer(owner, name, k, low=1)
    if k > n - 1:
        raise InputError(owner, name, f"at most {n - 1}, the number of other rows", k)
    return k


def memory_of_search(shape: tuple[int, int], k: int, n_jobs: int, *, exact: bool) -> int:
    """Return about how many bytes :class:`VectorIndex` takes at its peak to find k neighbours of each row."""
    n, d = shape
    n_lists = 1 if n <= FLAT else round(2 * math.sqrt(n))
    # How many lists are probed is found on a sample: fewer where there are few columns.
    n_probes = n_lists if exact or n < _LARGE else min(n_lists, 4 * d)
    probes = 8 * n_probes * min(n, max(1, _PROBES_AT_ONCE // n_probes))
    work = n_jobs * _BLOCK * (20 * n_probes + 8 * (4 * k + 2 * LANES))
    return 4 * n * d + 16 * n * k + probes + work  # the rows in lists, the answers as found and in order


class VectorIndex:
    """Neighbours among the rows of a dense matrix, by the Euclidean distance or by the angle.

    Parameters
    ----------
    owner : str
    X : ndarray of shape (n, d), float32 or float64, finite
        Kept by reference, unless directions are needed: it must stay as it is.
    cosine : bool
        Whether directions are compared, by 1 - cos.
    recall : float
        Share of the neighbours that is to be found; 1 searches all lists, that is exactly.
    rng : numpy.random.Generator
        Draws the samples of the k-means and of the number of probes.
    n_jobs : int

    Attributes
    ----------
    n_probes : dict of int to int
        How many lists each query looked at, for each number of neighbours that was searched.
    centers : Lists or None
        The centres of the lists, in a single list; None of few rows, which are in one list themselves.
    labels : ndarray of shape (n,), int32, or None
        The list of each row, as soon as there was a search.
    n_lists : int
    approximate : bool
        Whether some lists are passed over.
    """

    in_parts = True  # each row can be searched by itself

    def __init__(
        self, owner: str, X: Floats, *, cosine: bool, recall: float, rng: np.random.Generator, n_jobs: int
    ) -> None:
        self._owner, self._cosine, self._recall, self._rng, self._n_jobs = owner, cosine, recall, rng, n_jobs
        if X.shape[1] == 0:
            got = f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required"
            raise InputError(owner, "X", "of one column at least", got)
        self.X = X = directions(self._owner, X) if cosine else X
        self.n_rows, self.most = len(X), len(X) - 1
        with np.errstate(over="ignore"):
            width = float((X.max(axis=0) - X.min(axis=0)).max()) if len(X) else 0.0
        if width and not cosine and not _WIDTHS[0] < width < _WIDTHS[1]:
            expected = f"of columns whose width is between {_WIDTHS[0]:g} and {_WIDTHS[1]:g}"
            raise InputError(owner, "X", expected, f"{width:g}", "Multiply X by a constant.")
        self.scale = 2.0 ** -math.frexp(width)[1]  # brings the widest column to a width between 1/2 and 1
        self.n_probes: dict[int, int] = {}
        self._lists: Lists | None = None
        self.centers: Lists | None = None
        self.labels: NDArray[np.int32] | None = None
        self.n_lists = 1 if len(X) <= FLAT else round(2 * math.sqrt(len(X)))
        self.approximate = recall < 1 and self.n_lists > 1
        if self.n_lists > 1:
            self.centers = Lists(self._k_means(self.n_lists), self.scale, 1)

    def neighbors(self, k: int, out: Neighbors | None = None, rows: tuple[int, int] | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given.

        ``rows`` says of which rows alone: those from the first number on, up to the second.
        """
        found = self._search(self.X, k, out, skip_self=True, rows=rows)
        if rows is None:
            self._lists = None  # most often there is no further search
        return found

    def without_rows(self) -> VectorIndex:
        """Return the same without rows and labels, which :meth:`with_rows` puts in again: for workers elsewhere."""
        found = copy.copy(self)
        found.X, found.labels, found._lists, found._n_jobs = self.X[:0], None, None, 1
        return found

    def with_rows(self, X: Floats, labels: NDArray[np.int32] | None) -> VectorIndex:
        """Return the same with all rows and the list of each, ready to search."""
        found = copy.copy(self)
        found.X, found.labels = X, labels
        found._lists = Lists(X, self.scale, 1, self.centers, labels)
        return found

    def __sizeof__(self) -> int:
        """Return the bytes, by which Dask knows that it is not to be moved."""
        lists = [one.arrays for one in (self._lists, self.centers) if one is not None]
        return sum(np.asarray(one).nbytes for one in (self.X, self.labels, *chain(*lists)) if one is not None)

    def labels_of(self, X: Floats) -> NDArray[np.int32]:
        """Return the list of each row of X: that of the nearest centre."""
        assert self.centers is not None
        return self.centers.search(X, np.arange(len(X)), 1, self._n_jobs).indices[:, 0]

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X; each answer depends on its row alone."""
        Q, columns = check_matrix(self._owner, "X", X), self.X.shape[1]
        if Q.shape[1] != columns:
            hint = f"X has {Q.shape[1]} features, but {self._owner} is expecting {columns} features as input."
            raise InputError(self._owner, "X", f"of {columns} columns", f"{Q.shape[1]} (shape {Q.shape})", hint)
        if self._cosine:
            Q = directions(self._owner, Q)
        else:
            self._check_reach(Q)
        Q = np.ascontiguousarray(Q, self.X.dtype)
        return self._search(Q, k, None, skip_self=False)

    def _search(
        self, Q: Floats, k: int, out: Neighbors | None, *, skip_self: bool, rows: tuple[int, int] | None = None
    ) -> Neighbors:
        """Return the k nearest rows to each row of Q; ``skip_self``: Q is X; ``rows``: to those of a range alone."""
        if self.n_rows <= FEW and self.n_lists == 1 and rows is None:
            return self._search_few(Q, k, out, skip_self=skip_self)
        if self._lists is None:  # a second copy of the rows, as long as they are searched
            if self.labels is None and self.centers is not None:
                self.labels = self.labels_of(self.X)
            self._lists = Lists(self.X, self.scale, self._n_jobs, self.centers, self.labels)
        lists, (first, last) = self._lists, rows or (0, len(Q))
        if k not in self.n_probes:
            self.n_probes[k] = self.probes_for(k, self.sample()) if self.approximate else self.n_lists
        size = last - first
        found = out or Neighbors(np.empty((size, k), np.int32), np.empty((size, k), np.float32))
        # Rows of a list one after the other: they probe the same.
        order = lists.arrays.members.astype(np.int64) if skip_self else np.arange(len(Q))
        if rows is not None:
            order = order[(order >= first) & (order < last)]
        probes, left = None, order
        for n_probes in sorted({self.n_probes[k], self.n_lists}):
            at_once = max(1, _PROBES_AT_ONCE // max(n_probes, k))
            for start in range(0, len(left), at_once):
                part = left[start : start + at_once]
                if self.centers is not None:
                    probes = self.centers.search(Q, part, n_probes, self._n_jobs)
                found.indices[part - first], found.distances[part - first] = lists.search(
                    Q, part, k, self._n_jobs, probes, skip_self=skip_self
                )
            left = order[found.indices[order - first, -1] < 0]  # their lists hold too few rows: look at all of them
        if self._cosine:
            np.multiply(found.distances, found.distances, out=found.distances)
            np.divide(found.distances, 2, out=found.distances)
        return found

    def _search_few(self, Q: Floats, k: int, out: Neighbors | None, *, skip_self: bool) -> Neighbors:
        """Do the same in NumPy: of few rows, before compiled code is loaded."""
        found = out or Neighbors(np.empty((len(Q), k), np.int32), np.empty((len(Q), k), np.float32))
        X, Q = (np.asarray(rows, np.float64) * self.scale for rows in (self.X, Q))
        for start in range(0, len(Q), FEW):
            some = slice(start, start + FEW)
            squares = np.stack([np.einsum("ij,ij->i", gaps, gaps) for gaps in (q - X for q in Q[some])])
            nearest = _smallest(squares, k, skip_self=skip_self)
            found.indices[some] = nearest.indices
            squares = np.take_along_axis(squares, nearest.indices.astype(np.int64), axis=1) / self.scale**2
            found.distances[some] = squares / 2 if self._cosine else np.sqrt(squares)
        return found

    def sample(self) -> NDArray[np.int64]:
        """Draw the rows on which the number of probes is found."""
        return np.sort(self._rng.choice(self.n_rows, min(_TUNING, self.n_rows), replace=False))

    def probes_for(self, k: int, sample: NDArray[np.int64]) -> int:
        """Return how many lists a query must probe to find the wanted share of its k neighbours, on the average."""
        lists, centers = self._lists, self.centers
        assert lists is not None
        assert centers is not None
        probes = centers.search(self.X, sample, self.n_lists, self._n_jobs)
        found = lists.search(self.X, sample, k, self._n_jobs, probes, skip_self=True).indices
        label = np.empty(self.n_rows, np.int32)
        label[lists.arrays.members] = np.repeat(np.arange(self.n_lists, dtype=np.int32), lists.sizes)
        rank = np.empty_like(probes.indices)
        np.put_along_axis(rank, probes.indices, np.arange(self.n_lists, dtype=np.int32)[None], axis=1)
        needed = np.sort(np.take_along_axis(rank, label[found], axis=1), axis=None)
        permitted = (1.0 - self._recall) * (1.0 - _SPARE)
        return int(needed[math.ceil((1.0 - permitted) * needed.size) - 1]) + 1

    def _k_means(self, n_lists: int) -> Floats:
        """k-means on a sample, from rows drawn at random; a centre without rows moves to the row farthest from its."""
        X, n = self.X, self.n_rows
        chosen = self._rng.choice(n, min(n, _PER_CENTER * n_lists), replace=False)
        centers = X[chosen[:n_lists]]
        sample = X[np.sort(chosen)]
        for _ in range(_ROUNDS):
            nearest = Lists(centers, self.scale, 1).search(sample, np.arange(len(sample)), 1, self._n_jobs)
            labels = nearest.indices[:, 0]
            counts = np.bincount(labels, minlength=n_lists)
            filled = np.flatnonzero(counts)
            order = np.argsort(labels, kind="stable")
            starts = np.cumsum(counts)[filled] - counts[filled]
            centers = np.empty_like(centers)
            centers[filled] = np.add.reduceat(sample[order], starts) / counts[filled, None].astype(X.dtype)
            empty = np.flatnonzero(counts == 0)
            centers[empty] = sample[np.argsort(-nearest.distances[:, 0], kind="stable")[: len(empty)]]
        return centers[_chain(centers)]

    def _check_reach(self, Q: Floats) -> None:
        center = self.X[0].astype(np.float64)
        with np.errstate(over="ignore"):
            beyond = np.flatnonzero((np.abs(Q - center) * self.scale > _REACH).any(axis=1))
        if beyond.size:
            expected = f"within {_REACH:g} times the width of the fitted rows"
            got = f"{beyond.size} row(s) beyond, first {beyond[:5].tolist()}"
            raise InputError(self._owner, "X", expected, got, "Single precision cannot tell their distances apart.")


def directions(owner: str, X: Floats) -> Floats:
    """Return rows of length 1; a row of zeros has no direction and is refused."""
    peak = np.abs(X).max(axis=1, initial=0.0)
    zero = np.flatnonzero(peak == 0)
    if zero.size:
        got = f"{zero.size} row(s) of zeros, first {zero[:5].tolist()}"
        raise InputError(owner, "X", "without rows of zeros under metric='cosine'", got)
    scaled: Floats = X / peak[:, None]  # large numbers would overflow in the squares
    scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return scaled


def _chain(centers: Floats) -> NDArray[np.int64]:
    """Order centres so that each is followed by the nearest of those that are left: neighbours share their lists."""
    left = centers.astype(np.float64)
    left -= left.mean(axis=0)
    squares = np.einsum("ij,ij->i", left, left)
    order = np.arange(len(left))
    for t in range(1, len(left)):
        nearest = t + int(np.argmin(squares[t:] - 2 * (left[t:] @ left[t - 1])))
        for array in (left, squares, order):
            array[[t, nearest]] = array[[nearest, t]]
    return order


class ListArrays(NamedTuple):
    """Rows in lists around centres, as compiled code takes them.

    The members of list a, ``members[starts[a] : starts[a + 1]]`` in the order of the rows, take up whole panels: LANES
    members side by side, coordinate by coordinate, minus their centre and times ``scale``. What fills up the last panel
    is infinitely far away. ``squares`` are those of their norms, ``radii`` the largest norm in each list, and
    ``growth`` is the factor g of the rounding error.
    """

    X: Any
    scale: Any
    centers: Any
    starts: Any
    members: Any
    panel_starts: Any
    panels: Any
    squares: Any
    radii: Any
    growth: Any


class Probes(NamedTuple):
    """The lists that each query of a block looks at, nearest first, and the distances of their centres.

    ``pairs[starts[a] : starts[a + 1]]`` are the positions of list a in ``lists``; ``order`` are the lists that are
    probed, those to begin with first.
    """

    lists: Any
    gaps: Any
    starts: Any
    pairs: Any
    order: Any


class Lists:
    """Rows in lists around centres; by default in a single list around their mean.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Kept by reference.
    scale : float
        A power of 2 that brings the numbers near 1.
    n_jobs : int
    around : Lists, optional
        The centres, in a single list.
    labels : ndarray of shape (n,), integers, optional
        The list of each row; copies of a row must be in the same list.
    """

    def __init__(self, X: Floats, scale: float, n_jobs: int, around: Lists | None = None, labels: Any = None) -> None:
        n, d = X.shape
        centers = None if around is None else around.arrays.X
        if centers is None:
            centers, labels = X.mean(axis=0, dtype=np.float64).astype(X.dtype)[None], np.zeros(n, np.int8)
        members = np.argsort(labels, kind="stable").astype(np.int32)
        self.sizes = np.bincount(labels, minlength=len(centers))
        starts = np.append(0, np.cumsum(self.sizes))
        panel_starts = np.append(0, np.cumsum(-(-self.sizes // LANES)))
        panels = np.zeros((panel_starts[-1], d, LANES), np.float32)
        squares = np.full((panel_starts[-1], LANES), np.inf, np.float32)
        radii = np.zeros(len(centers), np.float32)
        number = X.dtype.type(scale)

        def fill(_block: int, first: int, last: int) -> None:
            for a in range(first, last):
                for start in range(starts[a], starts[a + 1], _AT_ONCE):
                    here = members[start : min(start + _AT_ONCE, starts[a + 1])]
                    gaps = ((X[here] - centers[a]) * number).astype(np.float32)
                    norms = np.einsum("ij,ij->i", gaps, gaps)
                    radii[a] = max(radii[a], np.sqrt(norms.max()))
                    panel = panel_starts[a] + (start - starts[a]) // LANES
                    whole, rest = divmod(len(here), LANES)
                    panels[panel : panel + whole] = gaps[: whole * LANES].reshape(whole, LANES, d).transpose(0, 2, 1)
                    squares[panel : panel + whole] = norms[: whole * LANES].reshape(whole, LANES)
                    if rest:
                        panels[panel + whole, :, :rest] = gaps[whole * LANES :].T
                        squares[panel + whole, :rest] = norms[whole * LANES :]

        run_blocks(fill, even_bounds(len(centers), 16), n_jobs)
        # The error of a sum of d terms in float32, as of a random walk (Higham & Mary 2019, "A new approach to
        # probabilistic rounding error analysis"), with room for the roundings of differences and norms.
        growth = np.float32((4.0 * math.sqrt(d) + 16.0) * 2.0**-24)
        flat = panels.reshape(-1), squares.reshape(-1)
        self.arrays = ListArrays(X, number, centers, starts, members, panel_starts, *flat, radii, growth)

    def search(
        self,
        Q: Floats,
        rows: NDArray[np.int64],
        k: int,
        n_jobs: int,
        probes: Neighbors | None = None,
        *,
        skip_self: bool = False,
    ) -> Neighbors:
        """Return the k nearest rows of X to each of ``Q[rows]`` among the lists that it probes.

        ``probes`` are the lists and the distances of their centres, nearest first; of a single list there is no choice.
        ``skip_self`` says that Q is X, whose rows leave themselves out. Where the lists hold fewer than k rows the
        indices end with -1.
        """
        m, (n_lists, d) = len(rows), self.arrays.centers.shape
        if probes is None:
            probes = Neighbors(np.zeros((m, 1), np.int32), np.zeros((m, 1), np.float32))
        found = Neighbors(np.empty((m, k), np.int32), np.empty((m, k), np.float32))
        by_first = np.argsort(probes.indices[:, 0], kind="stable")  # queries of a block then share most of their lists
        capacity = 4 * k + 2 * LANES
        numbers = np.int16 if n_lists < 2**15 else np.int32  # short ones are sorted in linear time

        queries, arrays = read_only(Q), ListArrays(*map(read_only, self.arrays))

        def task(_block: int, start: int, stop: int) -> None:
            block = by_first[start:stop]
            lists = probes.indices[block]
            pairs = np.argsort(lists.ravel().astype(numbers), kind="stable")
            starts = np.append(0, np.cumsum(np.bincount(lists.ravel(), minlength=n_lists)))
            probed = np.flatnonzero(np.diff(starts))
            # Near lists first: their members make for low thresholds.
            best = np.minimum.reduceat(pairs % lists.shape[1], starts[probed])
            order = probed[np.argsort(best, kind="stable")]
            block_probes = Probes(lists, probes.distances[block], starts, pairs, order)
            out = Neighbors(np.empty((len(block), k), np.int32), np.empty((len(block), k), np.float32))
            size = len(block)
            work = Work(
                np.empty((size, capacity), np.float32),
                np.empty((size, capacity), np.int32),
                np.zeros(size, np.int64),
                np.full(size, _OPEN),
                np.zeros(size, np.float32),
                np.empty(capacity, np.float32),
                np.empty(capacity, self.arrays.X.dtype),
                np.zeros((size + TILE) * d, np.float32),
                np.empty(size, np.float32),
                np.empty(size, np.int64),
                np.empty(TILE * LANES, np.float32),
            )
            search_block(queries, rows[block], skip_self, k, arrays, block_probes, work)
            measure_block(queries, rows[block], arrays, work, out)
            found.indices[block], found.distances[block] = out

        run_blocks(task, even_bounds(m, _BLOCK), n_jobs)
        return found


# Neighbours by any other metric, through scikit-learn, and by distances that are given.


class MetricIndex:
    """Neighbours by a metric of scikit-learn, or among the rows of a sparse matrix.

    Parameters
    ----------
    owner : str
    X : array-like or sparse matrix of shape (n, d)
    metric : str or callable
    metric_params : dict or None
    n_jobs : int
    """

    def __init__(
        self, owner: str, X: Any, metric: str | Callable[..., float], metric_params: dict[str, Any] | None, n_jobs: int
    ) -> None:
        from sklearn.neighbors import NearestNeighbors

        self._owner = owner
        self.X = _rows(owner, X)
        self.n_rows = int(self.X.shape[0])
        self.most = self.n_rows - 1
        check_k(owner, "k", 1, self.n_rows)
        # The parameter p of a Minkowski metric has a place of its own there.
        others = dict(metric_params or {})
        p = {"p": others.pop("p")} if metric == "minkowski" and "p" in others else {}
        self._search = NearestNeighbors(metric=metric, metric_params=others or None, n_jobs=n_jobs, **p)
        try:
            self._search.fit(self.X)
            self._search.kneighbors(self.X[:1], 1)  # some parameters are looked at no earlier
        except (ValueError, TypeError) as error:
            given = "" if metric_params is None else f" with metric_params {metric_params!r}"
            raise InputError(
                owner, "metric", "one that scikit-learn knows for such X", f"{metric!r}{given} ({error})"
            ) from error

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return _written(self._answer(None, k), out)

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X."""
        return self._answer(_rows(self._owner, X, int(self.X.shape[1])), k)

    def _answer(self, X: Any, k: int) -> Neighbors:
        distances, indices = self._search.kneighbors(X, k)
        if not np.all(distances >= 0):
            bad = float(distances[~(distances >= 0)][0])
            raise InputError(self._owner, "metric", "one whose distances are not negative", f"a distance of {bad}")
        return _by_distance(indices, distances)


class PrecomputedIndex:
    """Neighbours by distances that are given.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, n), or sparse matrix of that shape
        A sparse matrix holds the distances of some pairs; what it stores on the diagonal is passed over.
    """

    def __init__(self, owner: str, X: Any) -> None:
        from scipy.sparse import issparse

        self._owner = owner
        self._graph = issparse(X)
        if self._graph:
            self._X: Any = check_csr(owner, "X", X)
            values = self._X.data
        else:
            self._X = values = check_matrix(owner, "X", X)
        self.n_rows = n = int(self._X.shape[0])
        self.most = n - 1
        if self._X.shape != (n, n):
            hint = "Rows of numbers need another metric than 'precomputed'."
            raise InputError(owner, "X", "a square matrix of distances", f"shape {self._X.shape}", hint)
        _check_distances(owner, values, self._X)
        if not self._graph:
            _check_symmetric(owner, self._X)

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        if self._graph:
            return _written(self._from_graph(self._X, k, skip_self=True), out)
        return _written(_smallest(self._X, k, skip_self=True), out)

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows for each row of X, its distances from all rows or, sparse, from some."""
        from scipy.sparse import issparse

        if issparse(X):
            graph = check_csr(self._owner, "X", X, columns=self.n_rows)
            _check_distances(self._owner, graph.data, graph)
            return self._from_graph(graph, k, skip_self=False)
        matrix = check_matrix(self._owner, "X", X, columns=self.n_rows)
        _check_distances(self._owner, matrix, matrix)
        return _smallest(matrix, k, skip_self=False)

    def _from_graph(self, graph: Any, k: int, *, skip_self: bool) -> Neighbors:
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        kept = graph.indices != rows if skip_self else np.ones(graph.nnz, bool)
        rows, columns, values = rows[kept], graph.indices[kept], graph.data[kept].astype(np.float32)
        counts = np.bincount(rows, minlength=graph.shape[0])
        short = np.flatnonzero(counts < k)
        if short.size:
            got = f"{int(counts[short[0]])} in row {int(short[0])} ({short.size} row(s) with fewer)"
            hint = f"Ask for at most {int(counts.min())} neighbours, or store more distances."
            raise DataError(self._owner, "X", f"a graph with {k} distances in each row at least", got, hint)
        order = np.lexsort((columns, values, rows))
        first = (np.cumsum(counts) - counts)[:, None] + np.arange(k)
        chosen = order[first]
        return Neighbors(columns[chosen].astype(np.int32), values[chosen])


def are_neighbors(X: Any, metric: Any) -> bool:
    """Return whether X is the answer of another search, a pair (indices, distances)."""
    there = isinstance(metric, str) and metric == "precomputed" and isinstance(X, tuple) and len(X) == 2
    return there and all(np.ndim(part) == 2 for part in X)


def check_rows(owner: str, X: Any, metric: Any) -> None:
    """Refuse a graph where rows of numbers are asked for.

    Parameters
    ----------
    owner : str
    X : array, tensor or sparse matrix
        Two rows of whole numbers are an ``edge_index`` of PyTorch Geometric; a sparse matrix that is square and
        symmetric, or has an empty diagonal, holds weights of edges, as ``adata.obsp`` does.
    metric : str or callable
        With "precomputed" there are no rows of numbers.

    Raises
    ------
    InputError
        If it is one of these.
    """
    from scipy.sparse import issparse

    n, m = shape if len(shape := tuple(getattr(X, "shape", ()))) == 2 else (0, 0)
    if isinstance(metric, str) and metric == "precomputed":
        return
    rows = "rows of numbers, one for each point"
    if n == 2 < m and "int" in str(getattr(X, "dtype", "")):
        hint = "Relation.from_edges(X.T) is the graph, of which a map can be drawn."
        raise InputError(owner, "X", rows, f"2 rows of {m} whole numbers, as an edge_index has", hint)
    if n == m > 2 and issparse(X) and (not X.diagonal().any() or not (X != X.T).nnz):
        hint = (
            "Relation.from_matrix(X) takes it for affinities, metric='precomputed' for distances; X.toarray(), if its"
            " rows are points and its columns coordinates."
        )
        raise InputError(owner, "X", rows, f"a sparse matrix of {n} x {n}, as a graph has", hint)


class GivenIndex:
    """Neighbours that another search has found.

    Parameters
    ----------
    owner : str
    X : tuple of two array-likes of shape (n, k)
        Row numbers and distances, in any order; a row among its own neighbours is passed over.
    """

    def __init__(self, owner: str, X: Any) -> None:
        self._owner = owner
        indices, distances = self._checked(X, len(X[0]))
        self.n_rows, k = indices.shape
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, self.n_rows, _AT_ONCE)]
        rows = np.arange(self.n_rows)[:, None]
        owned = any((indices[block] == rows[block]).any() for block in blocks)
        self.most = k - owned
        if self.most == 0:
            raise InputError(owner, "X", "neighbours beside the row itself", f"indices of shape {indices.shape}")
        as_wanted = indices.dtype == np.int32 and distances.dtype == np.float32 and indices.flags.c_contiguous
        if as_wanted and not owned and all(_in_order(indices[block], distances[block]) for block in blocks):
            self._found = Neighbors(indices, distances)  # also where they are mapped from a file
            return
        self._found = Neighbors(*(np.empty((self.n_rows, self.most), kind) for kind in (np.int32, np.float32)))
        for block in blocks:
            others = np.where(indices[block] == rows[block], np.inf, distances[block])
            found = _by_distance(indices[block], others)
            self._found.indices[block] = found.indices[:, : self.most]
            self._found.distances[block] = found.distances[:, : self.most]

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        found = (np.ascontiguousarray(part[:, : self._enough(k, self.most)]) for part in self._found)
        return _written(Neighbors(*found), out)

    def query(self, X: Any, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X, a pair (indices, distances) of new rows."""
        if not are_neighbors(X, "precomputed"):
            expected = "a pair (indices, distances) of the neighbours among the rows of the fit"
            raise InputError(self._owner, "X", expected, type(X).__name__, "The fit was to such a pair.")
        found = _by_distance(*self._checked(X, self.n_rows))
        k = self._enough(k, found.indices.shape[1])
        return Neighbors(*(np.ascontiguousarray(part[:, :k]) for part in found))

    def _enough(self, k: int, there: int) -> int:
        if k > there:
            hint = "Search for more, or take fewer (n_neighbors, a smaller perplexity)."
            raise InputError(self._owner, "X", f"{k} neighbours of each row at least", there, hint)
        return k

    def _checked(self, X: Any, n: int) -> tuple[NDArray[np.integer[Any]], Floats]:
        """Return indices and distances; refuse what cannot be neighbours among n rows."""
        indices, distances = np.asarray(X[0]), check_matrix(self._owner, "X[1], the distances", X[1])
        _check_distances(self._owner, distances, distances)
        if indices.shape != distances.shape:
            got = f"{indices.shape} and {distances.shape}"
            raise InputError(self._owner, "X", "indices and distances of one shape", got)
        if indices.dtype.kind not in "iu":
            hint = "They come first: X = (indices, distances)."
            raise InputError(self._owner, "X", "indices that are whole numbers", str(indices.dtype), hint)
        bad, twice = [], []
        for start in range(0, len(indices), _AT_ONCE):
            block = indices[start : start + _AT_ONCE]
            bad.append(np.argwhere((block < 0) | (block >= n)) + np.array([start, 0]))
            ordered = np.sort(block, axis=1)
            twice.append(np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)) + start)
        entries, rows = np.concatenate([np.empty((0, 2), int), *bad]), np.concatenate([np.empty(0, int), *twice])
        if len(entries):
            row, column = entries[0]
            got = f"{indices[row, column]} in row {row} ({len(entries)} such entries)"
            hint = "A search that finds too few often says so by -1: search for more, or fewer neighbours."
            raise DataError(self._owner, "X", f"indices from 0 to {n - 1}", got, hint)
        if len(rows):
            got = f"one twice in row {rows[0]} ({len(rows)} such rows)"
            raise DataError(self._owner, "X", "indices that are different in each row", got)
        return indices, distances


def _written(found: Neighbors, out: Neighbors | None) -> Neighbors:
    """Return neighbours, in the arrays ``out`` if they are given."""
    if out is None:
        return found
    out.indices[:], out.distances[:] = found
    return out


def _rows(owner: str, X: Any, columns: int | None = None) -> Any:
    """Return X as a finite matrix, or as a CSR array if it is sparse."""
    from scipy.sparse import issparse

    return (check_sparse if issparse(X) else check_matrix)(owner, "X", X, columns=columns)


def _by_distance(indices: NDArray[Any], distances: NDArray[Any]) -> Neighbors:
    """Put neighbours in the order of distance, then of rows."""
    order = np.lexsort((indices, distances), axis=1)
    taken = np.take_along_axis(indices, order, 1), np.take_along_axis(distances, order, 1)
    return Neighbors(taken[0].astype(np.int32), taken[1].astype(np.float32))


def _in_order(indices: NDArray[Any], distances: NDArray[Any]) -> bool:
    """Return whether neighbours are in the order of distance, then of rows."""
    steps = np.diff(distances, axis=1)
    return bool(((steps > 0) | ((steps == 0) & (np.diff(indices, axis=1) > 0))).all())


def _smallest(distances: NDArray[Any], k: int, *, skip_self: bool) -> Neighbors:
    """Return the k smallest of each row, without the diagonal if it is the rows' own; ties go to the first."""
    found = Neighbors(np.empty((len(distances), k), np.int32), np.empty((len(distances), k), np.float32))
    for start in range(0, len(distances), _ROWS):
        block = distances[start : start + _ROWS].copy()
        rows = np.arange(len(block))
        if skip_self:
            block[rows, start + rows] = np.inf
        chosen = np.argpartition(block, k - 1, axis=1)[:, :k]
        largest = np.take_along_axis(block, chosen, 1).max(axis=1, keepdims=True)
        tied = np.flatnonzero(np.count_nonzero(block <= largest, axis=1) > k)
        chosen[tied] = np.argsort(block[tied], axis=1, kind="stable")[:, :k]
        nearest = _by_distance(chosen, np.take_along_axis(block, chosen, 1))
        found.indices[start : start + _ROWS], found.distances[start : start + _ROWS] = nearest
    return found


def _check_distances(owner: str, values: NDArray[Any], X: Any) -> None:
    bad = np.flatnonzero(~(values >= 0) | ~np.isfinite(values))
    if not bad.size:
        return
    at = int(bad[0])
    if values.ndim == 2:
        row, column = divmod(at, values.shape[1])
    else:
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    got = f"{values.ravel()[at]} in row {row}, column {column} ({bad.size} such entries)"
    raise DataError(owner, "X", "distances, finite and not negative", got, "Similarities must be turned round first.")


def _check_symmetric(owner: str, X: NDArray[Any]) -> None:
    for start in range(0, len(X), _ROWS):
        block, mirrored = X[start : start + _ROWS, start:], X[start:, start : start + _ROWS].T
        differ = np.abs(block - mirrored) > _SLACK * np.finfo(np.float32).eps * np.maximum(block, mirrored)
        if differ.any():
            i, j = np.unravel_index(int(differ.argmax()), differ.shape)
            a, b = block[i, j], mirrored[i, j]
            got = f"{a} from row {start + i} to {start + j} and {b} back"
            raise DataError(owner, "X", "symmetric distances", got, "Take the mean of X and its transpose.")


# Kernels of the search: a block of queries against the lists that they probe.

_OPEN = np.float32(3e38)  # a threshold that lets everything in, but not what fills up the last vector of a list
_DONE = np.float32(-3e38)  # ... and one that lets nothing in


class Work(NamedTuple):
    """The arrays of a search, made outside of compiled code, because their making would take long to compile."""

    values: Any  # candidates of each query: squared distances, all but
    ids: Any  # ... and rows
    counts: Any  # ... how many
    thresholds: Any  # what a candidate must not exceed
    errors: Any  # of the squared distances
    scratch: Any
    exact: Any
    queries: Any  # minus a centre
    offsets: Any  # ... squares of their norms
    which: Any  # ... which they are
    products: Any


@jit(fastmath=FAST)
def squared_distance(x, y, scale):
    """Return ``sum_j ((x_j - y_j) scale)²``: always in the same order, so that it is the same in both directions."""
    total = x.dtype.type(0)
    for j in range(x.size):
        difference = (x[j] - y[j]) * scale
        total += difference * difference
    return total


@jit(fastmath=FAST)
def centred(x, center, scale, out):
    """Write ``(x - center) scale`` in single precision, return its squared norm."""
    square = np.float32(0)
    for j in range(x.size):
        out[j] = (x[j] - center[j]) * scale
        square += out[j] * out[j]
    return square


@jit
def kth_smallest(values, n, k):
    """Reorder ``values[:n]`` and return the k-th smallest of them (k from 1): Hoare's selection."""
    low, high, k = 0, n - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@jit
def _comes_before(d, i, e, j):
    return d < e or (d == e and i < j)


@jit
def sort_pairs(distances, ids, n):
    """Sort by distance, then by id, in place: a heap sort, short to compile and never slow."""
    for end in range(n, 1, -1):
        # The first round makes the heap, the later ones mend it from the top.
        for start in range(n // 2 - 1 if end == n else 0, -1, -1):
            d, i, at = distances[start], ids[start], start
            while True:
                child = 2 * at + 1
                if child >= end:
                    break
                if child + 1 < end and _comes_before(
                    distances[child], ids[child], distances[child + 1], ids[child + 1]
                ):
                    child += 1
                if not _comes_before(d, i, distances[child], ids[child]):
                    break
                distances[at], ids[at] = distances[child], ids[child]
                at = child
            distances[at], ids[at] = d, i
        last = end - 1
        distances[0], distances[last] = distances[last], distances[0]
        ids[0], ids[last] = ids[last], ids[0]


@jit
def _measure(x, X, scale, ids, n, exact):
    """Write the direct distances of ``ids[:n]`` from x, and sort both."""
    for t in range(n):
        exact[t] = squared_distance(x, X[ids[t]], scale)
    sort_pairs(exact, ids, n)


@jit
def _tighten(x, points, k, candidates, error, room):
    """Drop candidates that cannot be among the k best; return how many are left and the new threshold.

    When too many are too close to tell apart, as among copies of one row, they are measured. Members come in the order
    of their rows and copies are in one list: once k copies are found no later one can take their place.
    """
    (X, scale), (values, ids, n), (scratch, exact) = points, candidates, room
    for t in range(n):  # copying a slice takes seconds to compile
        scratch[t] = values[t]
    bound = kth_smallest(scratch, n, k) + 2 * error
    kept = np.int64(0)  # a literal would have what follows compiled twice
    for t in range(n):
        if values[t] <= bound:
            values[kept], ids[kept] = values[t], ids[t]
            kept += 1
    if 2 * kept > values.size:
        _measure(x, X, scale, ids, kept, exact)
        kept = k
        for t in range(k):
            values[t] = exact[t]
        bound = _DONE if exact[k - 1] == 0 else values[k - 1] + 2 * error
    return kept, bound


@jit
def _products(queries, first, d, panels, squares, panel, out):
    """Write ``|v|² - 2 u·v`` of TILE queries, from row ``first`` on, and the members of a panel."""
    at = panel * d * LANES
    # Unsigned positions: no code is made for counting from the end.
    step = np.uint64(d)
    q0 = np.uint64(first) * step
    q1 = q0 + step
    q2 = q1 + step
    q3 = q2 + step
    q4 = q3 + step
    q5 = q4 + step
    q6 = q5 + step
    q7 = q6 + step
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = zeros_like(panels)
    for j in range(step):
        v = load(panels, at, LANES)
        t0 = multiply_add(queries[q0 + j], v, t0)
        t1 = multiply_add(queries[q1 + j], v, t1)
        t2 = multiply_add(queries[q2 + j], v, t2)
        t3 = multiply_add(queries[q3 + j], v, t3)
        t4 = multiply_add(queries[q4 + j], v, t4)
        t5 = multiply_add(queries[q5 + j], v, t5)
        t6 = multiply_add(queries[q6 + j], v, t6)
        t7 = multiply_add(queries[q7 + j], v, t7)
        at += LANES
    square = load(squares, panel * LANES, LANES)
    store(out, 0 * LANES, LANES, multiply_add(-2.0, t0, square))
    store(out, 1 * LANES, LANES, multiply_add(-2.0, t1, square))
    store(out, 2 * LANES, LANES, multiply_add(-2.0, t2, square))
    store(out, 3 * LANES, LANES, multiply_add(-2.0, t3, square))
    store(out, 4 * LANES, LANES, multiply_add(-2.0, t4, square))
    store(out, 5 * LANES, LANES, multiply_add(-2.0, t5, square))
    store(out, 6 * LANES, LANES, multiply_add(-2.0, t6, square))
    store(out, 7 * LANES, LANES, multiply_add(-2.0, t7, square))


@jit
def _insert(bits, found, members, first, itself, candidates):
    """Add the products of the lanes in ``bits`` to the candidates; there is no branch to be guessed wrongly."""
    (products, at, offset), (values, ids, n) = found, candidates
    for lane in range(LANES):
        if bits >> lane == 0:
            break
        member = members[min(first + lane, members.size - 1)]
        values[n], ids[n] = products[at + lane] + offset, member
        n += (bits >> lane) & (member != itself)
    return n


@jit
def measure_block(Q, rows, lists, work, out):
    """Measure the candidates that are left, and write the nearest, as many as ``out`` has columns.

    Where there are fewer the indices are -1 and the distances infinite.
    """
    exact = work.exact
    k = out.indices.shape[1]
    for i in range(rows.size):
        x, values, ids, n = Q[rows[i]], work.values[i], work.ids[i], work.counts[i]
        if n > k and work.thresholds[i] >= 0:
            n, _ = _tighten(x, (lists.X, lists.scale), k, (values, ids, n), work.errors[i], (work.scratch, exact))
        _measure(x, lists.X, lists.scale, ids, n, exact)
        for t in range(k):
            there = t < n
            out.indices[i, t] = ids[t] if there else -1
            out.distances[i, t] = np.sqrt(exact[t]) / lists.scale if there else np.inf


@jit
def search_block(Q, rows, skip_self, k, lists, probes, work):
    """Find candidates for the k nearest members of the probed lists, for the queries ``Q[rows]``.

    ``skip_self`` says that queries are rows of X, each of which leaves itself out.
    """
    X, scale, centers, starts, members, panel_starts, panels, squares, radii, growth = lists
    values, ids, counts, thresholds, errors, scratch, exact, centred_queries, offsets, who, products = work
    p, d = probes.lists.shape[1], X.shape[1]
    capacity = values.shape[1]
    for a in probes.order:
        active = 0
        for pair in probes.pairs[probes.starts[a] : probes.starts[a + 1]]:
            i = pair // p
            # No member can be nearer than this; the factor makes room for the rounding of both.
            gap = probes.gaps[i, pair % p] * scale * np.float32(0.99999) - radii[a]
            if thresholds[i] < 0 or (gap > 0 and gap * gap > thresholds[i]):
                continue
            u = centred_queries[active * d : (active + 1) * d]
            offsets[active] = centred(Q[rows[i]], centers[a], scale, u)
            error = growth * (np.sqrt(offsets[active]) + radii[a]) ** 2
            if error > errors[i]:
                thresholds[i] += 2 * (error - errors[i])
                errors[i] = error
            who[active] = i
            active += 1
        for low in range(0, active, TILE):
            high = min(low + TILE, active)
            for panel in range(panel_starts[a], panel_starts[a + 1]):
                _products(centred_queries, low, d, panels, squares, panel, products)
                first = starts[a] + (panel - panel_starts[a]) * LANES
                running = False
                for t in range(low, high):
                    i, at = who[t], (t - low) * LANES
                    bits = at_most(load(products, at, LANES), thresholds[i] - offsets[t])
                    running |= thresholds[i] >= 0
                    if bits == 0:
                        continue
                    if counts[i] + LANES > capacity:
                        candidates = values[i], ids[i], counts[i]
                        counts[i], thresholds[i] = _tighten(
                            Q[rows[i]], (X, scale), k, candidates, errors[i], (scratch, exact)
                        )
                        bits = at_most(load(products, at, LANES), thresholds[i] - offsets[t])
                    itself = rows[i] if skip_self else -1
                    found = products, at, offsets[t]
                    counts[i] = _insert(bits, found, members, first, itself, (values[i], ids[i], counts[i]))
                if not running:
                    break
