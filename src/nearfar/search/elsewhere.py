"""Neighbours that other libraries find: any metric by scikit-learn, every row against every other on a device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from nearfar._core.checks import check_matrix, check_sparse
from nearfar.contracts import Floats
from nearfar.engines import on_device
from nearfar.errors import InputError
from nearfar.search.distances import check_comparable
from nearfar.search.lists import VectorIndex, are_whole, directions, settle_cosines
from nearfar.search.nearest import RANGE, Neighbors, best_first, by_distance, check_k

Metric = str | Callable[..., float]
SETS = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
"""Metrics that look at which entries are not 0."""
_ROWS = 256  # of equal distances whose ties are looked for together
_ROUNDING = 1e-6


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
        self, owner: str, X: object, metric: Metric, metric_params: Mapping[str, object] | None, n_jobs: int
    ) -> None:
        from sklearn.neighbors import NearestNeighbors

        self._owner = owner
        self._metric = metric
        self.X = self._rows(X)
        self.n_rows = int(self.X.shape[0])
        self.most = self.n_rows - 1
        check_k(owner, "k", 1, self.n_rows)
        # The parameter p of a Minkowski metric has a place of its own there.
        others = dict(metric_params or {})
        p = {"p": others.pop("p")} if metric == "minkowski" and "p" in others else {}
        # Threads would share the one buffer that scikit-learn's Mahalanobis distance has, and find others.
        workers = 1 if metric == "mahalanobis" else n_jobs
        self._search = NearestNeighbors(metric=metric, metric_params=others or None, n_jobs=workers, **p)
        self._of_sets = isinstance(metric, str) and metric in SETS
        try:
            with _quietly():
                self._search.fit(self._seen(self.X))
                self._search.kneighbors(self._seen(self.X[:1]), 1)  # some parameters are looked at no earlier
        except (ValueError, TypeError) as error:
            given = "" if metric_params is None else f" with metric_params {metric_params!r}"
            got = f"{metric!r}{given} ({error})"
            raise InputError(owner, "metric", "one that scikit-learn knows for such X", got) from error

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        if self._search.metric != "cosine":
            return self._answer(None, k).written(out)
        values = self.X.data if issparse(self.X) else self.X
        found = self._answer(None, min(k + 1, self.most))
        settle_cosines(found, self.X, are_whole(values))
        return found.first(k).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X."""
        rows = self._rows(X, int(self.X.shape[1]))
        if issparse(rows) != issparse(self.X):
            rows = csr_array(rows) if issparse(self.X) else csr_array(rows).toarray()
        return self._answer(rows, k) if rows.shape[0] else Neighbors.empty(0, k)

    def _answer(self, X: Floats | csr_array[np.floating] | None, k: int) -> Neighbors:
        most = self.most if X is None else self.n_rows
        with _quietly():
            distances, indices = self._search.kneighbors(None if X is None else self._seen(X), min(k + 1, most))
        if (distances < 0).any():
            bad = float(distances[distances < 0][0])
            raise InputError(self._owner, "metric", "one whose distances are not negative", f"a distance of {bad}")
        if not (np.isfinite(distances) & (distances <= RANGE[1])).all():
            expected = f"of rows between which metric={self._metric!r} has distances up to {RANGE[1]:g}"
            bad = float(distances[~(distances <= RANGE[1])][0])
            raise InputError(self._owner, "X", expected, f"a distance of {bad}", "Multiply X by a constant.")
        found = by_distance(indices, distances.astype(np.float32))
        nearest, ends = found.first(k), found.distances[:, k - 1]
        tied = np.flatnonzero(found.distances[:, -1] <= ends) if found.distances.shape[1] > k else np.empty(0, int)
        tied = tied[np.argsort(ends[tied], kind="stable")]
        for start in range(0, len(tied), _ROWS):  # rows whose k-th neighbour is not the only one at its distance
            # Their last neighbours are the first of all at that distance.
            rows = tied[start : start + _ROWS]
            radius = float(ends[rows].max()) * (1 + _ROUNDING) + np.finfo(np.float32).tiny
            with _quietly():
                all_near = self._search.radius_neighbors(self._seen((self.X if X is None else X)[rows]), radius)
            for row, end, away, others in zip(rows.tolist(), ends[rows], *all_near, strict=True):
                near = away.astype(np.float32)
                kept = (near <= end) & (others != (row if X is None else -1))
                if np.count_nonzero(kept) >= k:
                    some = best_first(others[kept][None], near[kept][None], k)
                    nearest.indices[row], nearest.distances[row] = some[0][0], some[1][0]
        return nearest

    def _seen(self, X: Floats | csr_array[np.floating]) -> Any:
        """Return rows as scikit-learn's metrics of sets want them."""
        return X != 0 if self._of_sets else X

    def _rows(self, X: object, columns: int | None = None) -> Floats | csr_array[np.floating]:
        """Return X as a finite matrix, or as a CSR array if it is sparse."""
        check = check_sparse if issparse(X) else check_matrix
        rows: Floats | csr_array[np.floating] = check(self._owner, "X", X, columns=columns)
        check_comparable(self._owner, rows, self._metric)
        return rows


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what is said of numbers: those that come out are looked at, and sets are what their metrics are of."""
    from sklearn.exceptions import DataConversionWarning

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)
        yield


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
        self, owner: str, X: object, *, metric: Metric, method: str, device: str, n_jobs: int, argument: str = "device"
    ) -> None:
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
        found = out or Neighbors.empty(self.n_rows, k)
        search = on_device("nearest neighbours")
        for start, indices, squares in search(self._owner, self._device, self.X, k, self._argument):
            if not np.isfinite(squares).all():
                expected, hint = "of numbers whose squares are finite", "Multiply X by a constant."
                raise InputError(self._owner, "X", expected, "larger ones", hint)
            some = by_distance(indices, squares / 2 if self._cosine else np.sqrt(squares))
            for kept, part in zip(found, some, strict=True):
                kept[start : start + len(part)] = part[:, :k]
        return found

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X, found by :class:`VectorIndex`, exactly."""
        if self._threads is None:
            rng, cosine, jobs = np.random.default_rng(0), self._cosine, self._n_jobs
            self._threads = VectorIndex(self._owner, self._given, cosine=cosine, recall=1.0, rng=rng, n_jobs=jobs)
        return self._threads.query(X, k)
