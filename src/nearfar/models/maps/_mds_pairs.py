"""All pairs of objects with their distances: a matrix as it stands, its upper triangle, or computed from rows anew."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_matrix
from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.divergences.stress import MetricStress, Stress
from nearfar.errors import InputError
from nearfar.models.maps import _mds_kernels as kernels
from nearfar.models.maps._mds_rows import EuclideanRows, Rows, rows_of, triangle

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
        Where the distances come from, see :mod:`nearfar.models.maps._mds_kernels`.
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
        from nearfar.divergences._stress_kernels import constants_of

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
        from nearfar.divergences._stress_kernels import constants_of

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
