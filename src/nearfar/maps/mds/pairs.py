"""Near pairs exactly and far pairs by chance: estimates of sums over all pairs, in linear time and memory.

The points are put at random into groups of equal size, and the pairs within the groups are the sample. Every pair is in
it with the same probability, by symmetry: the number of pairs within groups over that of all, known exactly. Divided by
it, the sum over the sample is an unbiased estimate of that over all pairs, and so is its gradient. The near pairs, of a
point and its nearest neighbours, are taken one and all with weight 1, and are left out of the sample.

Groups rather than single pairs: their distances are products of small matrices, and nothing is gathered from afar.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_matrix
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.divergences.stress import MetricStress, Sammon, Stress
from nearfar.errors import InputError
from nearfar.maps.mds import kernels
from nearfar.maps.mds import kernels as _mds_kernels

# ------------------------------------------------------------
# All pairs of objects with their distances: a matrix as it stands, its upper triangle, or computed from rows anew.

FEW_COLUMNS = 6
"""Distances of rows with so few columns are computed each time: that takes no longer than reading them."""
MANY_COLUMNS = 64
"""And of so many, where there are too many to keep."""
MAX_BYTES = 2**31
"""Distances that take more memory are not kept: 32,768 objects in float32."""
DOUBLE_UP_TO = 4096
"""Objects up to which float64 data are worked on in float64."""
_SYMMETRY = 1e-5  # of the largest distance: rounding of float32
_ROWS = 256


@dataclass
class Pairs:
    """The distances r of all pairs i < j, in units of their root mean square.

    Parameters
    ----------
    n : int
    dtype : dtype
        What is computed in.
    source : tuple
        Where the distances come from, see :mod:`nearfar.maps.mds.kernels`.
    n_jobs : int
    rows : EuclideanRows or MetricRows, optional
        The rows of numbers behind the distances.

    Attributes
    ----------
    unit : float
        Root mean square of the distances of the data; 0 where all are.
    total : float
        Sum of all r, in that unit.
    bounds : ndarray
        Blocks of rows with equally many pairs; each has its own sums, added up in order.
    """

    n: int
    dtype: Any
    source: tuple[NDArray[Any], bool, NDArray[Any]]
    n_jobs: int
    rows: Rows | None = None
    unit: float = field(init=False, default=0.0)
    total: float = field(init=False, default=0.0)
    bounds: NDArray[np.int64] = field(init=False)
    _scale: Any = field(init=False)

    def __post_init__(self) -> None:
        n, count = self.n, self.count
        n_blocks = int(np.clip(count // 2**17, 1, 16))
        pairs_before = np.cumsum(np.arange(n - 1, -1, -1))
        cuts = np.searchsorted(pairs_before, count * np.arange(1, n_blocks) / n_blocks) + 1
        self.bounds = np.unique(np.concatenate([[0], cuts, [max(n - 1, 1)]])).astype(np.int64)
        flat, _, coordinates = self.source
        largest = 1.0 if coordinates.size else float(flat.max(initial=0))
        if not largest >= np.finfo(self.dtype).tiny:
            return
        # In two steps: the squares of distances in an odd unit could leave the range of numbers.
        self._scale = flat.dtype.type(1 / largest)
        length, square = self._lengths()
        root = float(np.sqrt(square / max(count, 1)))
        if root > 0:
            within = self.rows.within if self.rows is not None else 1.0
            self.unit, self.total = within * largest * root, length / root
            self._scale = flat.dtype.type(1 / (largest * root))

    @property
    def count(self) -> int:
        """Number of pairs."""
        return self.n * (self.n - 1) // 2

    @property
    def scale(self) -> float:
        """What the distances of ``rows`` are multiplied by."""
        return float(self._scale)

    def measures(self, Y: Floats, stress: Stress | None = None) -> NDArray[np.float64]:
        """Return sum r, sum r², sum d², sum r d, sum (r - d)² and the cost for positions in units, shape (n, d)."""
        from nearfar.divergences.stress import constants_of

        points, family = self._points(Y), (stress or MetricStress()).family
        constants = constants_of(np.float64)  # type: ignore[no-untyped-call]
        totals = np.zeros((len(self.bounds) - 1, 6))

        def task(block: int, start: int, stop: int) -> None:
            parts = (self.source, self._scale, points, family, constants, self._scratch())
            kernels.measure_rows(start, stop, *parts, totals[block])

        run_blocks(task, self.bounds, self.n_jobs)
        return np.asarray(totals.sum(axis=0))

    def stress(self, Y: Floats, stress: Stress) -> tuple[float, NDArray[np.float64]]:
        """Return the cost of positions in units, shape (n, d), and its gradient; the sum over pairs as it is."""
        from nearfar.divergences.stress import constants_of

        points = self._points(Y)
        parts = (self.source, self._scale, points, stress.family)
        constants = constants_of(self.dtype)  # type: ignore[no-untyped-call]
        n_blocks = len(self.bounds) - 1
        costs = np.zeros(n_blocks)
        forces = np.zeros((n_blocks, *points.shape), self.dtype)

        def task(block: int, start: int, stop: int) -> None:
            costs[block] = kernels.stress_rows(start, stop, *parts, constants, self._scratch(), forces[block])

        run_blocks(task, self.bounds, self.n_jobs)
        return float(costs.sum()), np.ascontiguousarray(forces.sum(axis=0, dtype=np.float64).T)

    def squared_product(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of the matrix of squared distances, in units, and a vector."""
        out = np.zeros((len(self.bounds) - 1, self.n))
        vector = np.ascontiguousarray(vector.ravel(), np.float64)

        def task(block: int, start: int, stop: int) -> None:
            kernels.squared_product_rows(start, stop, self.source, self._scale, vector, self._scratch(), out[block])

        run_blocks(task, self.bounds, self.n_jobs)
        return np.asarray(out.sum(axis=0))

    def _lengths(self) -> tuple[float, float]:
        totals = np.zeros((len(self.bounds) - 1, 2))

        def task(block: int, start: int, stop: int) -> None:
            kernels.length_rows(start, stop, self.source, self._scale, self._scratch(), totals[block])

        run_blocks(task, self.bounds, self.n_jobs)
        length, square = totals.sum(axis=0).tolist()
        return length, square

    def _points(self, Y: Floats) -> Floats:
        return np.ascontiguousarray(np.asarray(Y).T, dtype=self.dtype)

    def _scratch(self) -> Floats:
        return np.empty((2, kernels.BLOCK), self.dtype)


def pairs_of_distances(owner: str, D: Any, n_jobs: int) -> Pairs:
    """Return the pairs of a matrix of distances, which is not copied; its upper triangle counts.

    Raises
    ------
    InputError
        Not square, negative (which rows), not symmetric, not zero from an object to itself, NaN or infinite.
    """
    D = np.asarray(D)
    try:
        array = check_matrix(owner, "X", D.T if D.ndim == 2 and D.flags.f_contiguous else D)
    except InputError as error:
        if error.expected != "finite":
            raise
        hint = "Between the parts of a graph there is no distance: fit each by itself, or give a large number."
        raise InputError(owner, "X", "finite", error.got, hint) from None
    n = len(array)
    if array.shape != (n, n):
        raise InputError(owner, "X", "a square matrix of distances with metric='precomputed'", f"shape {D.shape}")
    _check_distances(owner, array, n_jobs)
    dtype = array.dtype if n <= DOUBLE_UP_TO else np.dtype(np.float32)
    return Pairs(n, dtype, (array.reshape(-1), True, np.empty((0, n), dtype)), n_jobs)


def pairs_of_rows(owner: str, X: Any, metric: Any, n_jobs: int) -> Pairs:
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
    few = isinstance(rows, EuclideanRows) and rows.X.shape[1] <= (FEW_COLUMNS if fits else MANY_COLUMNS)
    if not fits and not few:
        hint = f"metric='euclidean' keeps none for up to {MANY_COLUMNS} columns (take principal components)."
        most, expected = int(np.sqrt(2 * MAX_BYTES / dtype.itemsize)), "rows, whose distances are kept"
        raise InputError(owner, "X", f"of at most {most} {expected}", f"{n} rows", hint)
    if isinstance(rows, EuclideanRows) and few:
        source = np.empty(0, dtype), False, np.ascontiguousarray(rows.X.T)
    else:
        source = triangle(rows, dtype), False, np.empty((0, n), dtype)
    return Pairs(n, dtype, source, n_jobs, rows)


def kept_dtype(X: Any) -> Any:
    """Return the type that distances of the rows of X are computed in."""
    return np.dtype(np.float64 if X.dtype == np.float64 and X.shape[0] <= DOUBLE_UP_TO else np.float32)


def _check_distances(owner: str, D: Floats, n_jobs: int) -> None:
    n = len(D)
    bounds = even_bounds(n, _ROWS)
    negative, skew = np.zeros(n, np.bool_), np.zeros(n)

    def task(_: int, start: int, stop: int) -> None:
        negative[start:stop] = (D[start:stop] < 0).any(axis=1)
        skew[start:stop] = np.abs(D[start:stop] - D[:, start:stop].T).max(axis=1)

    run_blocks(task, bounds, n_jobs)
    largest = float(max((D[start:stop].max() for start, stop in itertools.pairwise(bounds)), default=0.0))
    wrong = {
        "distances >= 0": negative,
        "symmetric": skew > _SYMMETRY * largest,
        "0 from an object to itself": np.abs(np.diagonal(D)) > _SYMMETRY * largest,
    }
    for expected, rows in wrong.items():
        if rows.any():
            found = np.flatnonzero(rows)
            got = f"others in {found.size} row(s), first {found[:5].tolist()}"
            raise InputError(owner, "X", f"{expected} with metric='precomputed'", got)


# ------------------------------------------------------------
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

    tile = (256, 512)

    def __init__(self, X: Floats, dtype: Any, n_jobs: int) -> None:
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

    def block(self, first: int, last: int, start: int, stop: int) -> Floats:
        """Return the distances of rows first..last from rows start..stop."""
        rows, others = slice(first, last), slice(start, stop)
        return _distances(self.X[rows], self.X[others], self._norms[rows], self._norms[others])

    def group(self, members: NDArray[Any]) -> Floats:
        """Return the distances of some rows from each other."""
        return self.between(members, members)

    def between(self, rows: NDArray[Any], others: NDArray[Any]) -> Floats:
        """Return the distances of some rows from others."""
        return _distances(self.X[rows], self.X[others], self._norms[rows], self._norms[others])

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

    def __init__(self, owner: str, X: Any, metric: str | Callable[..., float], dtype: Any) -> None:
        self.X, self.n = X, int(X.shape[0])
        self._owner, self._metric, self._dtype = owner, metric, dtype

    def block(self, first: int, last: int, start: int, stop: int) -> Floats:
        """Return the distances of rows first..last from rows start..stop."""
        return self.between(np.arange(first, last), np.arange(start, stop))

    def group(self, members: NDArray[Any]) -> Floats:
        """Return the distances of some rows from each other."""
        return self.between(members, members)

    def between(self, rows: NDArray[Any], others: NDArray[Any]) -> Floats:
        """Return the distances of some rows from others."""
        from sklearn.metrics import pairwise_distances

        try:  # two arrays, also where they are the same: else some metrics would take their scale from these rows
            found = np.asarray(pairwise_distances(self.X[rows], self.X[others], metric=self._metric))
        except (ValueError, TypeError) as error:
            expected = "'precomputed', or one that scikit-learn can compute for X"
            raise InputError(self._owner, "metric", expected, f"{self._metric!r} ({error})") from error
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1) | (found < 0).any(axis=1))
        if bad.size:
            got = f"none, infinite or negative in row(s) {rows[bad[:5]].tolist()}"
            raise InputError(
                self._owner, "metric", "one that has a distance for all rows of X", f"{self._metric!r} ({got})"
            )
        return found.astype(self._dtype, copy=False)


Rows = EuclideanRows | MetricRows


def rows_of(owner: str, X: Any, metric: Any, dtype: Any, n_jobs: int) -> Rows:
    """Return the rows of a matrix, dense or sparse, with their metric."""
    if isinstance(X, np.ndarray) and isinstance(metric, str) and metric == "euclidean":
        return EuclideanRows(X, dtype, n_jobs)
    return MetricRows(owner, X, metric, dtype)


def each_tile(rows: Rows, task: Callable[[int, int, int, Floats], None]) -> None:
    """Call ``task(block, first, start, tile)`` for tiles that cover all pairs i < j; the blocks are those of rows."""
    wide = rows.tile[1]

    def work(block: int, first: int, last: int) -> None:
        for start in range(first, rows.n, wide):
            stop = min(start + wide, rows.n)
            task(block, first, start, rows.block(first, last, start, stop))

    with single_threaded_blas():
        run_blocks(work, tile_bounds(rows), rows.n_jobs)


def tile_bounds(rows: Rows) -> NDArray[np.int64]:
    """Return the bounds of the blocks of rows that :func:`each_tile` does."""
    return even_bounds(rows.n, rows.tile[0])


def triangle(rows: Rows, dtype: Any) -> Floats:
    """Return the distances of all pairs i < j, row by row."""
    flat = np.empty(rows.n * (rows.n - 1) // 2, dtype)
    each_tile(rows, lambda _, first, start, tile: kernels.keep_tile(first, start, tile, rows.n, flat))
    return flat


def _distances(rows: Floats, others: Floats, norms: Floats, other_norms: Floats) -> Floats:
    products = rows @ others.T
    kernels.distances_of_products(products, norms, other_norms, rows, others, rows.dtype.type(_CLOSE))
    return products


EXACT_UP_TO = 20_000
"""Rows up to which a finished map is judged by all pairs."""
DRAWS = 2
"""Groups that each point is in, of different members: with a single one nothing would hold the groups together."""
_FRESH, _FRESH_SIZE = 8, 128  # draws that a finished map is judged by, and the size of their groups
_SAMPLE_ROWS = 4096


@dataclass(frozen=True)
class Draw:
    """All points in random groups, with the distances within.

    Parameters
    ----------
    groups : tuple
        As the kernels of :mod:`nearfar.maps.mds.kernels` have it.
    members : ndarray of shape (n,)
        The group of each point.
    probability : float
        That a pair is within a group.
    """

    groups: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], Floats]
    members: NDArray[np.int32]
    probability: float

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Blocks of groups."""
        return even_bounds(len(self.groups[1]) - 1, 8)


def draw(rows: Rows, size: int, dtype: Any, rng: np.random.Generator) -> Draw:
    """Put the rows into groups of ``size`` or a little more."""
    n = rows.n
    count = max(n // size, 1)
    bounds = np.arange(count + 1) * n // count
    order = rng.permutation(n).astype(np.int32)
    members = np.empty(n, np.int32)
    members[order] = np.repeat(np.arange(count, dtype=np.int32), np.diff(bounds))
    pairs = np.diff(bounds) * (np.diff(bounds) - 1) // 2
    offsets = np.concatenate([[0], np.cumsum(pairs)])
    flat = np.empty(offsets[-1], dtype)

    def fill(_: int, first: int, last: int) -> None:
        for g in range(first, last):
            own = order[bounds[g] : bounds[g + 1]]
            own.sort()
            _mds_kernels.keep_tile(0, 0, rows.group(own), len(own), flat[offsets[g] : offsets[g + 1]])

    with single_threaded_blas():
        run_blocks(fill, even_bounds(count, 8), rows.n_jobs)
    return Draw((order, bounds, offsets, flat), members, float(offsets[-1] / max(n * (n - 1) // 2, 1)))


class SampledPairs:
    """Estimates of what :class:`nearfar.maps.mds.pairs.Pairs` sums up, from the same sample each time.

    Parameters
    ----------
    owner : str
    rows : EuclideanRows or MetricRows
    dtype : dtype
        What is computed in.
    metric : str or callable
    n_neighbors, n_samples : int
        Near pairs of each point, random partners of each.
    rng : numpy.random.Generator
    n_jobs : int

    Attributes
    ----------
    unit : float
        Root mean square of the distances of the data, estimated; 0 where all are.
    total : float
        Sum of all r in that unit, estimated.
    """

    def __init__(
        self,
        owner: str,
        rows: Rows,
        dtype: Any,
        metric: Any,
        n_neighbors: int,
        n_samples: int,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> None:
        self.rows, self.n, self.dtype, self.n_jobs = rows, rows.n, np.dtype(dtype), n_jobs
        self.rng = rng
        self.draws = [draw(rows, n_samples // DRAWS + 1, dtype, rng) for _ in range(DRAWS)]
        self.near = self._near(owner, metric, min(n_neighbors, self.n - 1))
        self.unit, self.total, self.scale = 0.0, 0.0, 0.0
        largest = max(float(flat.max(initial=0)) for flat in (*(d.groups[3] for d in self.draws), self.near[2]))
        if not largest >= np.finfo(self.dtype).tiny:
            return
        self.scale = 1 / largest
        length, square = self.measures(np.zeros((self.n, 1)))[:2]
        root = float(np.sqrt(square / self.count))
        self.unit, self.total = rows.within * largest * root, float(length / root)
        self.scale = 1 / (largest * root)

    @property
    def count(self) -> int:
        """Number of all pairs."""
        return self.n * (self.n - 1) // 2

    def stress(self, Y: Floats, stress: Stress) -> tuple[float, NDArray[np.float64]]:
        """Return the estimated cost of positions in units, shape (n, d), and its gradient."""
        from nearfar.divergences.stress import constants_of

        points = self._points(Y)
        constants = constants_of(self.dtype)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), points, stress.family, constants)
        bounds = even_bounds(self.n, _SAMPLE_ROWS)
        costs, forces = np.zeros(len(bounds) - 1), np.zeros(points.shape)

        def near(block: int, first: int, last: int) -> None:
            costs[block] = kernels.stress_near(first, last, self.near, *parts, forces)

        run_blocks(near, bounds, self.n_jobs)
        cost = float(costs.sum())
        for one in self.draws:
            cost += self._far(one, parts, forces)
        return cost, np.ascontiguousarray(forces.T)

    def _far(self, one: Draw, parts: tuple[Any, ...], forces: NDArray[np.float64]) -> float:
        """Return the cost that one draw estimates, and add its gradient to ``forces``."""
        weight, costs = 1 / (DRAWS * one.probability), np.zeros(len(one.bounds) - 1)

        def task(block: int, first: int, last: int) -> None:
            arguments = (one.groups, *parts, self._scratch(), weight, forces)
            costs[block] = kernels.stress_groups(first, last, *arguments)

        run_blocks(task, one.bounds, self.n_jobs)
        return weight * float(costs.sum())

    def measures(self, Y: Floats, stress: Stress | None = None) -> NDArray[np.float64]:
        """Return estimates of sum r, sum r², sum d², sum r d, sum (r - d)² and the cost, from the same sample."""
        return np.asarray(np.mean([self._estimate(one, Y, stress or MetricStress()) for one in self.draws], axis=0))

    def judge(self, Y: Floats, stress: Stress) -> tuple[NDArray[np.float64], float]:
        """Return the same of a finished map, and the standard error of the last of them.

        From all pairs up to ``EXACT_UP_TO`` rows, else from samples of its own: the map has been fitted to the first.
        That of Sammon's stress is the error of the cost that is divided by sum r.
        """
        if self.n <= EXACT_UP_TO:
            return self._of_all_pairs(Y, stress), 0.0
        found = np.array(
            [self._estimate(draw(self.rows, _FRESH_SIZE, self.dtype, self.rng), Y, stress) for _ in range(_FRESH)]
        )
        means = found.mean(axis=0)
        costs = found[:, 5]
        if isinstance(stress, Sammon):
            costs = costs - means[5] / means[0] * found[:, 0]
        return means, float(costs.std(ddof=1) / np.sqrt(_FRESH))

    def _estimate(self, one: Draw, Y: Floats, stress: Stress) -> NDArray[np.float64]:
        from nearfar.divergences.stress import constants_of

        constants = constants_of(np.float64)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), self._points(Y), stress.family, constants)
        bounds = even_bounds(self.n, _SAMPLE_ROWS)
        totals, near = np.zeros((len(one.bounds) - 1, 6)), np.zeros((len(bounds) - 1, 2, 6))

        def groups(block: int, first: int, last: int) -> None:
            kernels.measure_groups(first, last, one.groups, *parts, self._scratch(), totals[block])

        def pairs(block: int, first: int, last: int) -> None:
            arguments = (self.near, one.members, *parts, self._scratch(), *near[block])
            kernels.measure_near(first, last, *arguments)

        run_blocks(groups, one.bounds, self.n_jobs)
        run_blocks(pairs, bounds, self.n_jobs)
        every, within = near.sum(axis=0)
        return np.asarray(every + (totals.sum(axis=0) - within) / one.probability)

    def _of_all_pairs(self, Y: Floats, stress: Stress) -> NDArray[np.float64]:
        from nearfar.divergences.stress import constants_of

        constants = constants_of(np.float64)  # type: ignore[no-untyped-call]
        parts = (self.dtype.type(self.scale), self._points(Y), stress.family, constants)
        totals = np.zeros((len(tile_bounds(self.rows)) - 1, 6))

        def add(block: int, first: int, start: int, tile: Floats) -> None:
            _mds_kernels.measure_tile(first, start, tile, *parts, self._scratch(), totals[block])

        each_tile(self.rows, add)
        return np.asarray(totals.sum(axis=0))

    def _near(self, owner: str, metric: Any, k: int) -> tuple[Any, ...]:
        """Return the near pairs as the kernels have them; a pair within a group is taken out there by its weight."""
        from nearfar.relations.neighbors import neighbor_index

        X = self.rows.X
        if k == 0:
            empty = np.empty(0, np.int32)
            return np.zeros(self.n + 1, np.int64), empty, np.empty(0, self.dtype), np.empty(0, self.dtype)
        index = neighbor_index(owner, X, metric=metric, method="auto", n_jobs=self.n_jobs, random_state=self.rng)
        found = index.neighbors(k)
        here, there = np.repeat(np.arange(self.n), k), found.indices.ravel().astype(np.int64)
        codes = np.minimum(here, there) * self.n + np.maximum(here, there)
        codes, first = np.unique(codes, return_index=True)
        low, high = codes // self.n, codes % self.n
        lengths = self._lengths(low, high, found.distances.ravel()[first])
        weights = np.ones(len(codes))
        for one in self.draws:
            weights -= (one.members[low] == one.members[high]) / (DRAWS * one.probability)
        rows, others = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((others, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n))])
        values = (np.concatenate([part, part])[order].astype(self.dtype) for part in (lengths, weights))
        return indptr, others[order].astype(np.int32), *values

    def _lengths(self, low: NDArray[Any], high: NDArray[Any], found: Floats) -> Floats:
        """Return the distances of pairs: those that were found, anew where they are computed in double precision."""
        if self.dtype == np.float32 or not isinstance(self.rows, EuclideanRows):
            return found
        gaps = self.rows.X[low] - self.rows.X[high]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)))

    def _points(self, Y: Floats) -> Floats:
        return np.ascontiguousarray(np.asarray(Y).T, dtype=self.dtype)

    def _scratch(self) -> Floats:
        return np.empty((2, _mds_kernels.BLOCK), self.dtype)
