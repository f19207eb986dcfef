"""Neighbours that other libraries find: any metric by scikit-learn, every row against every other on a device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.checks import check_matrix, check_sparse
from nearfar.contracts import Floats
from nearfar.engines.registry import on_device
from nearfar.errors import InputError
from nearfar.search.distances import check_comparable
from nearfar.search.lists import VectorIndex, directions
from nearfar.search.nearest import RANGE, Neighbors, by_distance, check_k

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Metric = str | Callable[..., float]


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
        self._search = NearestNeighbors(metric=metric, metric_params=others or None, n_jobs=n_jobs, **p)
        try:
            with _quietly():
                self._search.fit(self.X)
                self._search.kneighbors(self.X[:1], 1)  # some parameters are looked at no earlier
        except (ValueError, TypeError) as error:
            given = "" if metric_params is None else f" with metric_params {metric_params!r}"
            raise InputError(
                owner, "metric", "one that scikit-learn knows for such X", f"{metric!r}{given} ({error})"
            ) from error

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return self._answer(None, k).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X."""
        from scipy.sparse import csr_array, issparse

        rows = self._rows(X, int(self.X.shape[1]))
        if issparse(rows) != issparse(self.X):
            rows = csr_array(rows) if issparse(self.X) else csr_array(rows).toarray()
        return self._answer(rows, k) if rows.shape[0] else Neighbors.empty(0, k)

    def _answer(self, X: Floats | csr_array[np.floating] | None, k: int) -> Neighbors:
        with _quietly():
            distances, indices = self._search.kneighbors(X, k)
        if (distances < 0).any():
            bad = float(distances[distances < 0][0])
            raise InputError(self._owner, "metric", "one whose distances are not negative", f"a distance of {bad}")
        if not (np.isfinite(distances) & (distances <= RANGE[1])).all():
            expected = f"of rows between which metric={self._metric!r} has distances up to {RANGE[1]:g}"
            bad = float(distances[~(distances <= RANGE[1])][0])
            raise InputError(self._owner, "X", expected, f"a distance of {bad}", "Multiply X by a constant.")
        return by_distance(indices, distances)

    def _rows(self, X: object, columns: int | None = None) -> Floats | csr_array[np.floating]:
        """Return X as a finite matrix, or as a CSR array if it is sparse."""
        from scipy.sparse import issparse

        owner = self._owner
        rows: Floats | csr_array[np.floating] = (check_sparse if issparse(X) else check_matrix)(
            owner, "X", X, columns=columns
        )
        check_comparable(owner, rows, self._metric)
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
