"""The sum over all pairs of objects: exactly, or near pairs exactly and far ones by chance.

:class:`EveryPair` takes every pair, from a matrix of distances as it stands, its upper triangle, or computed anew from
few columns. :class:`SampledPairs` estimates the same sums in linear time and memory: the objects are put at random into
groups of equal size, and the pairs within the groups are the sample. By symmetry every pair is in it with the same
probability, the number of pairs within groups over that of all. Divided by it, the sum over the sample is an unbiased
estimate of that over all pairs, and so is its gradient. Near pairs, of an object and its nearest neighbours, are all
taken with weight 1, and are left out of the sample.

Groups rather than single pairs: their distances are products of small matrices, and nothing is gathered from afar.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.jit import bind
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.divergences.stress import MetricStress, Stress
from nearfar.errors import InputError
from nearfar.maps.mds import kernels
from nearfar.maps.mds.kernels import GroupFunctions, Groups, Near, Source
from nearfar.search.distances import check_distances

Data = Floats | csr_array
"""Rows of numbers, dense or sparse."""

Metric = str | Callable[..., float]
"""A name of scikit-learn's, or a function of two rows."""
Which = slice | NDArray[np.integer]
"""Some rows."""

FEW_COLUMNS = 6
"""Distances of rows with so few columns are computed each time: that takes no longer than reading them."""
MANY_COLUMNS = 64
"""And of so many, where there are too many to keep."""
MAX_BYTES = 2**31
"""Distances that take more memory are not kept: 32,768 objects in float32."""
DOUBLE_UP_TO = 4096
"""Objects up to which float64 data are worked on in float64."""
ALL_UP_TO = 20_000
"""Rows up to which a finished map is judged by all pairs."""
DRAWS = 2
"""Groups that each point is in, of different members: with a single one nothing would hold the groups together."""
_FRESH, _FRESH_SIZE = 8, 128  # draws that a finished map is judged by, and the size of their groups
_GROUPS, _NEAR_ROWS = 8, 4096  # of a block


class Moments(NamedTuple):
    """Sums over pairs, of the distances r of the data and d of the map, and of the costs."""

    r: float
    r_square: float
    d_square: float
    product: float
    gap: float  # (r - d)²
    cost: float


class _Pairs:
    """What both kinds of sums share.

    Attributes
    ----------
    unit : float
        Root mean square of the distances of the data; 0 where all are. Sums are in this unit.
    total : float
        Sum of all r, in that unit.
    """

    n: int
    dtype: np.dtype[np.floating]
    n_jobs: int
    rows: Rows | None
    unit, total, scale = 0.0, 0.0, 0.0

    @property
    def count(self) -> int:
        """Number of all pairs."""
        return self.n * (self.n - 1) // 2

    def moments(self, Y: Floats, stress: Stress | None = None) -> Moments:
        """Return the sums of positions in units, shape (n, d); by default those of metric stress."""
        raise NotImplementedError

    def _find_unit(self, largest: float) -> None:
        if not largest >= np.finfo(self.dtype).tiny:
            return
        # In two steps: the squares of distances in an odd unit could leave the range of numbers.
        self._rescale(1 / largest)
        found = self.moments(np.zeros((self.n, 1)))
        root = float(np.sqrt(found.r_square / max(self.count, 1)))
        if root > 0:
            within = 1.0 if self.rows is None else self.rows.within
            self.unit, self.total = within * largest * root, found.r / root
            self._rescale(1 / (largest * root))

    def _rescale(self, scale: float) -> None:
        self.scale = scale

    def _points(self, Y: Floats) -> Floats:
        return np.ascontiguousarray(np.asarray(Y).T, dtype=self.dtype)


def _over_blocks(
    kernel: Callable[..., float | None], bounds: NDArray[np.int64], n_jobs: int, *given: Any, own: Floats | None = None
) -> float:
    """Run a kernel on blocks of rows, the last argument of each being a part of ``own``; return the sum of costs."""

    def task(block: int, first: int, last: int) -> float:
        return kernel(first, last, *given, *(() if own is None else (own[block],))) or 0.0

    return float(np.sum(run_blocks(task, bounds, n_jobs)))


def _kernel_of_rows(points: Floats) -> Callable[..., float]:
    return kernels.stress_rows_in_plane if len(points) == 2 else kernels.stress_rows


class EveryPair(_Pairs):
    """All pairs i < j.

    Parameters
    ----------
    n : int
    dtype : dtype
        What is computed in.
    source : Source
        The distances.
    n_jobs : int
    rows : EuclideanRows or MetricRows, optional
        The rows of numbers behind the distances.

    Attributes
    ----------
    bounds : ndarray
        Blocks of rows with equally many pairs; each has its own sums, added up in order.
    """

    def __init__(
        self, n: int, dtype: np.dtype[np.floating], source: Source, n_jobs: int, rows: Rows | None = None
    ) -> None:
        # Read-only, as a matrix that is given may be: the loops are compiled for one kind of array.
        flat = source.flat.view()
        flat.flags.writeable = False
        self.source = source._replace(flat=flat)
        self.n, self.dtype, self.n_jobs, self.rows = n, dtype, n_jobs, rows
        n_blocks = int(np.clip(self.count // 2**17, 1, 16))
        pairs_before = np.cumsum(np.arange(n - 1, -1, -1))
        cuts = np.searchsorted(pairs_before, self.count * np.arange(1, n_blocks) / n_blocks) + 1
        cuts = cuts // 2 * 2  # rows are done by twos
        self.bounds = np.unique(np.concatenate([[0], cuts, [max(n - 1, 1)]])).astype(np.int64)
        self._find_unit(1.0 if source.coordinates.size else float(source.flat.max(initial=0)))

    def stress(self, Y: Floats, stress: Stress) -> tuple[float, NDArray[np.float64]]:
        """Return the cost of positions in units, shape (n, d), and its gradient; the sum over pairs as it is."""
        points = self._points(Y)
        gradients = np.zeros((len(self.bounds) - 1, *points.shape), self.dtype)
        kernel = bind(_kernel_of_rows(points), stress.functions)
        cost = _over_blocks(kernel, self.bounds, self.n_jobs, self.source, points, own=gradients)
        return cost, np.ascontiguousarray(gradients.sum(axis=0, dtype=np.float64).T)

    def moments(self, Y: Floats, stress: Stress | None = None) -> Moments:
        """Return the sums of positions in units, shape (n, d); by default those of metric stress."""
        points = self._points(Y)
        totals = np.zeros((len(self.bounds) - 1, 6))
        kernel = bind(kernels.measure_rows, (stress or MetricStress()).functions)
        _over_blocks(kernel, self.bounds, self.n_jobs, self.source, points, own=totals)
        return Moments(*totals.sum(axis=0))

    def judge(self, Y: Floats, stress: Stress, cost: float) -> tuple[Moments, float]:  # noqa: ARG002 - as sampled pairs
        """Return the sums of a finished map, whose cost the descent knows, and the standard error of that: none."""
        return self.moments(Y)._replace(r=self.total, cost=cost), 0.0

    def squared_product(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of the matrix of squared distances, in units, and a vector."""
        out = np.zeros((len(self.bounds) - 1, self.n))
        vector = np.ascontiguousarray(vector.ravel(), np.float64)
        _over_blocks(kernels.squared_product_rows, self.bounds, self.n_jobs, self.source, vector, own=out)
        return np.asarray(out.sum(axis=0))

    def _rescale(self, scale: float) -> None:
        self.scale = scale
        self.source = self.source._replace(scale=self.source.flat.dtype.type(scale))


def pairs_of_distances(owner: str, D: object, n_jobs: int) -> EveryPair:
    """Return the pairs of a matrix of distances, which is not copied; its upper triangle counts.

    Raises
    ------
    InputError
        Not square, negative (which rows), not symmetric, not zero from an object to itself, NaN or infinite.
    """
    by_columns = isinstance(D, np.ndarray) and D.ndim == 2 and D.flags.f_contiguous
    array: Any = check_distances(owner, D.T if isinstance(D, np.ndarray) and by_columns else D)
    n = len(array)
    dtype = array.dtype if n <= DOUBLE_UP_TO else np.dtype(np.float32)
    return EveryPair(n, dtype, Source(array.reshape(-1), True, np.empty((0, n), dtype), array.dtype.type(1)), n_jobs)


def pairs_of_rows(owner: str, X: Data, metric: Metric, n_jobs: int) -> EveryPair:
    """Return the pairs of rows of numbers, by any metric of scikit-learn.

    Raises
    ------
    InputError
        A metric that is not known or has no value for some pair; more distances than are kept, unless they are
        Euclidean of few columns.
    """
    n, dtype = X.shape[0], kept_dtype(X)
    fits = n * (n - 1) // 2 * dtype.itemsize <= MAX_BYTES
    rows = rows_of(owner, X, metric, dtype, n_jobs)
    if isinstance(rows, EuclideanRows) and are_cheap(n, rows.X.shape[1], dtype.itemsize):
        source = Source(np.empty(0, dtype), False, np.ascontiguousarray(rows.X.T), dtype.type(1))
    elif fits:
        source = Source(triangle(rows, dtype), False, np.empty((0, n), dtype), dtype.type(1))
    else:
        hint = f"metric='euclidean' keeps none for up to {MANY_COLUMNS} columns (take principal components)."
        most, expected = int(np.sqrt(2 * MAX_BYTES / dtype.itemsize)), "rows, whose distances are kept"
        raise InputError(owner, "X", f"of at most {most} {expected}", f"{n} rows", hint)
    return EveryPair(n, dtype, source, n_jobs, rows)


def are_cheap(n: int, p: int, itemsize: int) -> bool:
    """Return whether Euclidean distances of n rows of p numbers are computed anew each time, not kept."""
    return p <= (FEW_COLUMNS if n * (n - 1) // 2 * itemsize <= MAX_BYTES else MANY_COLUMNS)


def kept_dtype(X: Data) -> np.dtype[np.floating]:
    """Return the type that distances of the rows of X are computed in."""
    return np.dtype(np.float64 if X.dtype == np.float64 and X.shape[0] <= DOUBLE_UP_TO else np.float32)


class SampledPairs(_Pairs):
    """Estimates of the sums over all pairs, from the same sample each time.

    Parameters
    ----------
    owner : str
    rows : EuclideanRows or MetricRows
    dtype : dtype
        What is computed in.
    n_neighbors, n_samples : int
        Near pairs of each point, random partners of each.
    rng : numpy.random.Generator
    n_jobs : int
    """

    rows: Rows

    def __init__(
        self,
        owner: str,
        rows: Rows,
        dtype: np.dtype[np.floating],
        n_neighbors: int,
        n_samples: int,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> None:
        self.rows, self.n, self.dtype, self.rng, self.n_jobs = rows, rows.n, dtype, rng, n_jobs
        self.draws = [draw(rows, n_samples // DRAWS + 1, dtype, rng) for _ in range(DRAWS)]
        self.near = self._near_pairs(owner, min(n_neighbors, self.n - 1))
        self._find_unit(max(float(r.max(initial=0)) for r in (*(d.flat for d in self.draws), self.near.lengths)))

    def stress(self, Y: Floats, stress: Stress) -> tuple[float, NDArray[np.float64]]:
        """Return the estimated cost of positions in units, shape (n, d), and its gradient."""
        points = self._points(Y)
        gradient = np.zeros(points.shape)
        of_near = bind(kernels.stress_near, stress.functions)
        of_groups = bind(kernels.stress_groups, GroupFunctions(_kernel_of_rows(points), stress.functions))
        cost = _over_blocks(of_near, even_bounds(self.n, _NEAR_ROWS), self.n_jobs, self.near, points, gradient)
        for groups in self.draws:
            weight = 1 / (DRAWS * self.probability(groups))
            blocks = even_bounds(len(groups.bounds) - 1, _GROUPS)
            cost += weight * _over_blocks(of_groups, blocks, self.n_jobs, groups, points, weight, gradient)
        return cost, np.ascontiguousarray(gradient.T)

    def moments(self, Y: Floats, stress: Stress | None = None) -> Moments:
        """Return the estimated sums of positions in units, shape (n, d); by default those of metric stress."""
        return Moments(*np.mean([self._estimate(groups, Y, stress or MetricStress()) for groups in self.draws], axis=0))

    def judge(self, Y: Floats, stress: Stress, cost: float) -> tuple[Moments, float]:  # noqa: ARG002 - as all pairs
        """Return the sums of a finished map, and the standard error of the cost.

        From all pairs up to ``ALL_UP_TO`` rows, else from samples of its own: the map has been fitted to the first.
        Of a stress that is divided by sum r it is the error of that ratio, times sum r.
        """
        if self.n <= ALL_UP_TO:
            points, scale = self._points(Y), self.dtype.type(self.scale)
            kernel = bind(kernels.measure_tile, stress.functions)
            bounds = even_bounds(self.n, self.rows.tile[0])
            totals = np.zeros((len(bounds) - 1, 6))

            def add(block: int, first: int, last: int) -> None:
                for start, tile in tiles(self.rows, first, last):
                    kernel((first, start), tile, scale, points, totals[block])

            with single_threaded_blas():
                run_blocks(add, bounds, self.rows.n_jobs)
            return Moments(*totals.sum(axis=0)), 0.0
        draws = (draw(self.rows, _FRESH_SIZE, self.dtype, self.rng, self.scale) for _ in range(_FRESH))
        found = np.array([self._estimate(groups, Y, stress) for groups in draws])
        means = Moments(*found.mean(axis=0))
        costs = found[:, 5]
        if stress.per_length:
            costs = costs - means.cost / means.r * found[:, 0]
        return means, float(costs.std(ddof=1) / np.sqrt(_FRESH))

    def probability(self, groups: Groups) -> float:
        """Return how likely a pair is to be within a group."""
        return float(groups.offsets[-1] / max(self.count, 1))

    def _rescale(self, scale: float) -> None:
        self.scale = scale
        number = self.dtype.type(scale)
        self.near = self.near._replace(scale=number)
        self.draws = [groups._replace(scale=number) for groups in self.draws]

    def _estimate(self, groups: Groups, Y: Floats, stress: Stress) -> NDArray[np.float64]:
        points = self._points(Y)
        of_groups, of_near = (
            bind(kernel, stress.functions) for kernel in (kernels.measure_groups, kernels.measure_near)
        )
        blocks, bounds = even_bounds(len(groups.bounds) - 1, _GROUPS), even_bounds(self.n, _NEAR_ROWS)
        totals, near = np.zeros((len(blocks) - 1, 6)), np.zeros((len(bounds) - 1, 2, 6))
        _over_blocks(of_groups, blocks, self.n_jobs, groups, points, own=totals)
        _over_blocks(of_near, bounds, self.n_jobs, self.near, groups.group, points, own=near)
        every, within = near.sum(axis=0)
        return np.asarray(every + (totals.sum(axis=0) - within) / self.probability(groups))

    def _near_pairs(self, owner: str, k: int) -> Near:
        """Return the near pairs; where one is within a group its weight is less by what it counts there."""
        from nearfar.relations.neighbors import neighbor_index

        rows, one = self.rows, self.dtype.type(1)
        if k == 0:
            lengths, weights = np.empty((2, 0), self.dtype)
            lengths.flags.writeable = False
            return Near(np.zeros(self.n + 1, np.int64), np.empty(0, np.int32), lengths, weights, one)
        index = neighbor_index(
            owner, rows.X, metric=rows.metric, method="auto", n_jobs=self.n_jobs, random_state=self.rng
        )
        found = index.neighbors(k)
        here, there = np.repeat(np.arange(self.n), k), found.indices.ravel().astype(np.int64)
        codes = np.minimum(here, there) * self.n + np.maximum(here, there)
        codes, first = np.unique(codes, return_index=True)
        low, high = codes // self.n, codes % self.n
        lengths = found.distances.ravel()[first]
        if self.dtype == np.float64 and isinstance(rows, EuclideanRows):  # they were searched in single precision
            lengths = np.linalg.norm(rows.X[low] - rows.X[high], axis=1)
        weights = np.ones(len(codes))
        for groups in self.draws:
            weights -= (groups.group[low] == groups.group[high]) / (DRAWS * self.probability(groups))
        first_of, others = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((others, first_of))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(first_of, minlength=self.n))])
        lengths, weights = (np.tile(part, 2)[order].astype(self.dtype) for part in (lengths, weights))
        lengths.flags.writeable = False
        return Near(indptr, others[order].astype(np.int32), lengths, weights, one)


def draw(rows: Rows, size: int, dtype: np.dtype[np.floating], rng: np.random.Generator, scale: float = 1.0) -> Groups:
    """Put the rows into random groups of ``size`` or a little more."""
    n = rows.n
    count = max(n // size, 1)
    bounds = np.arange(count + 1) * n // count
    sizes = np.diff(bounds)
    order = rng.permutation(n).astype(np.int32)
    for start, stop in itertools.pairwise(bounds):
        order[start:stop].sort()
    group = np.empty(n, np.int32)
    group[order] = np.repeat(np.arange(count, dtype=np.int32), sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    flat = np.empty(offsets[-1], dtype)
    later = {size: np.triu(np.ones((size, size), np.bool_), 1) for size in set(sizes.tolist())}

    def fill(_: int, first: int, last: int) -> None:
        for g in range(first, last):
            members = order[bounds[g] : bounds[g + 1]]
            flat[offsets[g] : offsets[g + 1]] = rows.between(members, members)[later[len(members)]]

    with single_threaded_blas():
        run_blocks(fill, even_bounds(count, _GROUPS), rows.n_jobs)
    flat.flags.writeable = False  # as the distances of all pairs: the loops are compiled for one kind of array
    return Groups(order, bounds, offsets, flat, group, dtype.type(scale))


# Distances of rows of numbers, a tile of the matrix at a time: the whole of it need never be there.

_CLOSE = 0.02  # of the squared lengths: products lose too many digits of smaller squared distances


class EuclideanRows:
    """Euclidean distances, from blocked products of matrices.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    dtype : dtype
        What is computed in.
    n_jobs : int

    Attributes
    ----------
    X : ndarray of shape (n, p)
        The rows, centred, in units of their largest entry: squares of entries in an odd unit could leave the range of
        numbers, and rows far from the origin would lose the digits of their distances.
    within : float
        That unit; 1 where all rows are alike.
    """

    tile = (64, 4096)
    metric = "euclidean"

    def __init__(self, X: Floats, dtype: np.dtype[np.floating], n_jobs: int) -> None:
        X = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        largest = float(max(X.max(initial=0), -X.min(initial=0)))
        self.within = 1.0
        if largest >= np.finfo(dtype).tiny:
            self.within = largest
            X /= X.dtype.type(largest)
        else:
            X = np.zeros(X.shape)
        self.X = np.ascontiguousarray(X, dtype)
        self.n, self.n_jobs = len(X), n_jobs
        self._norms = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64).astype(dtype)

    def between(self, rows: Which, others: Which) -> Floats:
        """Return the distances of some rows from others, both as indices or slices."""
        X, Z = self.X[rows], self.X[others]
        lengths = self._norms[rows][:, None] + self._norms[others]
        squares = X @ Z.T
        squares *= -2
        squares += lengths
        lengths *= _CLOSE
        i, j = np.nonzero(squares <= lengths)
        for start in range(0, len(i), 2**14):  # from the differences, where products have lost digits
            part = slice(start, start + 2**14)
            gaps = X[i[part]] - Z[j[part]]
            squares[i[part], j[part]] = np.einsum("ij,ij->i", gaps, gaps)
        return np.asarray(np.sqrt(squares, out=squares))

    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the principal axes, one per column, and the sums of squares along them; the largest first."""
        scatter = np.zeros((self.X.shape[1],) * 2)
        for start in range(0, self.n, 4096):
            part = self.X[start : start + 4096].astype(np.float64)
            scatter += part.T @ part
        values, axes = np.linalg.eigh(scatter)
        return axes[:, ::-1], values[::-1]


class MetricRows:
    """Distances by any metric of scikit-learn; X is an ndarray or a CSR array."""

    tile = (256, 4096)
    n_jobs = 1  # a function that is given need not be fit for threads
    within = 1.0

    def __init__(self, owner: str, X: Data, metric: Metric, dtype: np.dtype[np.floating]) -> None:
        self.X, self.n, self.metric = X, int(X.shape[0]), metric
        self._owner, self._dtype = owner, dtype

    def between(self, rows: Which, others: Which) -> Floats:
        """Return the distances of some rows from others, both as indices or slices."""
        found = distances_between(self._owner, self.X[rows], self.X[others], self.metric)
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1) | (found < 0).any(axis=1))
        if bad.size:
            got = f"none, infinite or negative in rows {np.arange(self.n)[rows][bad[:5]].tolist()}"
            raise InputError(
                self._owner, "metric", "one that has a distance for all rows of X", f"{self.metric!r} ({got})"
            )
        return found.astype(self._dtype, copy=False)


def distances_between(owner: str, X: Data, Z: Data, metric: Metric) -> Floats:
    """Return the distances of the rows of two matrices, by any metric of scikit-learn."""
    with np.errstate(all="ignore"):  # what comes out is looked at
        if metric == "cosine" and isinstance(X, np.ndarray) and isinstance(Z, np.ndarray):
            lengths = (np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None] for rows in (X, Z))
            units = [rows / np.where(length == 0, 1, length) for rows, length in zip((X, Z), lengths, strict=True)]
            return np.clip(1 - units[0] @ units[1].T, 0, 2)  # the same bits, without the second that it loads for
        from sklearn.metrics import pairwise_distances
        from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS

        if metric in PAIRWISE_BOOLEAN_FUNCTIONS and isinstance(X, np.ndarray) and isinstance(Z, np.ndarray):
            X, Z = X != 0, Z != 0
        try:  # two arrays, also where they are the same: else some metrics would take their scale from these rows
            return np.asarray(pairwise_distances(X, Z, metric=metric))
        except (ValueError, TypeError) as error:
            expected = "'precomputed', or one that scikit-learn can compute for X"
            raise InputError(owner, "metric", expected, f"{metric!r} ({error})") from error


Rows = EuclideanRows | MetricRows


def rows_of(owner: str, X: Data, metric: Metric, dtype: np.dtype[np.floating], n_jobs: int) -> Rows:
    """Return the rows of a matrix, dense or sparse, with their metric."""
    if isinstance(X, np.ndarray) and isinstance(metric, str) and metric == "euclidean":
        return EuclideanRows(X, dtype, n_jobs)
    return MetricRows(owner, X, metric, dtype)


def tiles(rows: Rows, first: int, last: int) -> Iterator[tuple[int, Floats]]:
    """Yield tiles of the distances of rows first..last, which cover their pairs i < j: the first column, the tile."""
    wide = rows.tile[1]
    for start in range(first, rows.n, wide):
        yield start, rows.between(slice(first, last), slice(start, min(start + wide, rows.n)))


def triangle(rows: Rows, dtype: np.dtype[np.floating]) -> Floats:
    """Return the distances of all pairs i < j, row by row."""
    n = rows.n
    flat = np.empty(n * (n - 1) // 2, dtype)

    def keep(_: int, first: int, last: int) -> None:
        for start, tile in tiles(rows, first, last):
            for i, row in enumerate(tile, first):
                low = max(start, i + 1)
                at = i * n - i * (i + 1) // 2 - i - 1
                flat[at + low : at + start + len(row)] = row[low - start :]

    with single_threaded_blas():
        run_blocks(keep, even_bounds(n, rows.tile[0]), rows.n_jobs)
    return flat
