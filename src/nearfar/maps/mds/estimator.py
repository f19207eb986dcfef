"""`MDS`: maps whose distances are those of the data: metric stress, SSTRESS, Sammon's stress, classical scaling.

With the distances r of the data and d of the map, L-BFGS lowers the sum of costs c(r, d) over the pairs i < j, whose
gradient in the position y_i is ``sum_j c'(r_ij, d_ij) / d_ij (y_i - y_j)``. It starts from classical scaling, the
eigenvectors of ``-1/2 J R² J`` (J centres) times the roots of their eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from nearfar._core import checks
from nearfar._core.by_id import in_order_of
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.jit import bind
from nearfar._core.parameters import keeps_fields
from nearfar._core.threads import single_threaded_blas
from nearfar._core.types import Doubles, Floats, Numbers, TableLike
from nearfar.base import FrameOutput, PointsLike
from nearfar.callbacks import Callback, Trainer
from nearfar.divergences.stress import Stress, as_stress
from nearfar.engines import DASK, DEVICES, OWN, PLAIN, asked_engine
from nearfar.errors import InputError, NumericalError, counted
from nearfar.maps.mds.kernels import stress_of_point
from nearfar.maps.mds.pairs import (
    ALL_UP_TO,
    DRAWS,
    Data,
    EuclideanRows,
    EveryPair,
    Metric,
    SampledPairs,
    are_cheap,
    distances_between,
    kept_dtype,
    pairs_of_distances,
    pairs_of_rows,
    rows_of,
)
from nearfar.maps.solver import check_watchers, given_start
from nearfar.relations.neighbors import as_fitted, check_rows, coordinates_of
from nearfar.search.distances import check_comparable, check_distances_from
from nearfar.search.lists import memory_of_search

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from sklearn.utils import Tags

    from nearfar.embedding.vectors import Embedding

INITS = ("classical", "random")
_MEMORY = 10  # steps that L-BFGS remembers
_WINDOW = 5  # iterations over which the stress must fall
_PERFECT = 1e-14  # of the stress of a map in one point
_DENSE_UP_TO = 300  # objects, up to which all eigenvectors are computed at once
_JITTER = 1e-3  # of the unit
_LANDMARKS = 500
_REACH = 1e100  # whose square float64 holds
_DISTANCES = 2**22  # of new points at a time


@dataclass
class MapState:
    """Where the map stands: ``X`` are the positions and ``cost`` their sum, in a unit of the solver's own."""

    X: Doubles
    losses: list[float] = field(default_factory=list)
    cost: float = 0.0


@keeps_fields
class MDS(FrameOutput):
    """Multidimensional scaling: positions whose distances are, as nearly as they can be, those of the data.

    With the distances r of the data and d of the map, summed over the pairs i < j, it minimises::

        metric    sum (r - d)²
        sstress   sum (r² - d²)²
        sammon    sum (r - d)² / r  /  sum r

    by L-BFGS from classical scaling; any other cost of r and d may be given. Up to 20,000 rows on all pairs: O(n²) time
    per iteration, and memory for the distances, n²/2 float32, unless they are given or cheap to compute anew: Euclidean
    of at most 6 columns (64 for more than 32,768 rows). Beyond on a sample, in linear time and memory: near pairs
    exactly, far ones by chance, weighted so that the sum is an unbiased estimate of that over all pairs.

    Parameters
    ----------
    n_components : int, default=2
        d, below the number of rows.
    stress : {"metric", "sstress", "sammon"} or Stress, default="metric"
        What is minimised; see :mod:`nearfar.divergences`. One of your own is a
        :class:`nearfar.divergences.stress.Stress`.
    metric : str or callable, default="euclidean"
        Distance of two rows: one of those of scikit-learn's ``pairwise_distances``, or ``"precomputed"``: X holds
        distances.
    init : {"classical", "random"} or array-like of shape (n, d), default="classical"
        Start: classical scaling (PCA, where distances are Euclidean; of sampled pairs by another metric that of some
        landmarks), a normal distribution of fitting size, or given positions.
    pairs : {"auto", "all", "sampled"}, default="auto"
        The pairs of the sum. "auto" samples them above 20,000 rows; a precomputed matrix always has all.
    n_neighbors : int, default=15
        Near field of sampled pairs: so many nearest neighbours of each row count exactly.
    n_samples : int, default=1000
        Far field of sampled pairs: so many random partners of each row. The stress ends about 2d / n_samples above that
        of all pairs or nearer; time and memory are in proportion. Of no more than n_samples + 1 rows all pairs are
        taken.
    max_iter : int, default=500
        Iterations at most.
    tol : float, default=1e-6
        Stop when 5 iterations lowered the stress by no more than this share of it.
    callbacks : sequence of callable, optional
        Called after every iteration with a :class:`nearfar.callbacks.Progress`; if one returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed of a random start and of sampled pairs; with all pairs, the classical start has no chance in it.
    n_jobs : int, optional
        Number of threads; None means all processors. The result does not depend on it.
    verbose : int, default=0
        1 shows progress: a bar on a terminal, a line in a notebook, a line every few seconds in a log.
    engine : {"threads"}, optional
        Where pairs are summed: on ``n_jobs`` threads of this machine, which is the default, also in the context of a
        Dask client. The other engines of nearfar are refused.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, d)
        The positions, centred; float64 where X is, else float32.
    stress_ : float
        What was minimised, in the unit of the distances (metric: squared; sstress: to the fourth). Over all pairs, up
        to 20,000 rows also where they were sampled; beyond, an estimate from a sample of its own.
    stress_error_ : float
        Standard error of ``stress_``, 0 where it is that of all pairs.
    normalized_stress_ : float
        ``sum (r - d)² / sum r²``, whatever was minimised.
    kruskal_stress_ : float
        Kruskal's stress-1, ``sqrt(sum (r - d)² / sum d²)``, whatever was minimised; infinite where all
        positions are one.
    stress_curve_ : ndarray of shape (k + 1,), k iterations
        The stress of the start and after each iteration; of sampled pairs that of the sample, which ends a little lower
        than that of all.
    n_iter_ : int
        Iterations run.
    vectors_ : Embedding
        The positions with ids 0 .. n - 1.

    See Also
    --------
    nearfar.classical_mds : the start by itself.

    Notes
    -----
    Sums are in float64 for float64 data of at most 4,096 rows, else in float32, added up in float64. A precomputed
    matrix is not copied, and only its upper triangle is used. Dissimilarities need not be distances in any space: the
    stress then stays above 0 in any number of dimensions. Points in the very same place with a distance between them
    feel no force from each other; the classical start moves them apart.

    Sampled pairs: the rows are put at random into groups of n_samples / 2 + 1, twice, and a pair within a group is in
    the sample. Each pair is with the same probability, by whose inverse the sum is weighted; near pairs are left out of
    it and counted once each. The sample stays the same during a fit, so that L-BFGS can descend.

    References
    ----------
    Melville, "Deriving embedding gradients" (sneer documentation). Borg & Groenen (2005), "Modern multidimensional
    scaling". Sammon (1969), "A nonlinear mapping for data structure analysis". Takane, Young & de Leeuw (1977),
    "Nonmetric individual differences multidimensional scaling". Liu & Nocedal (1989), on L-BFGS. Horvitz & Thompson
    (1952), on sums over samples. Gower (1968), "Adding a point to vector diagrams in multivariate analysis", on new
    points.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> D = np.array([[0.0, 3, 5, 4], [3, 0, 4, 5], [5, 4, 0, 3], [4, 5, 3, 0]])
    >>> est = nf.MDS(metric="precomputed").fit(D)
    >>> print(f"{est.kruskal_stress_:.4f}")
    0.0000
    >>> round(float(np.linalg.norm(est.embedding_[0] - est.embedding_[2])), 4)
    5.0
    """

    _not_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (PLAIN, *DEVICES, DASK, OWN), "Pairs are summed by compiled code, on the threads of this machine alone."
    )

    _checks: ClassVar[dict[str, Callable[[str, str, object], object]]] = {
        "max_iter": partial(checks.check_integer, low=0),
        "tol": partial(checks.check_real, low=0),
        "pairs": partial(checks.check_choice, choices=("auto", "all", "sampled")),
        "n_neighbors": partial(checks.check_integer, low=0),
        "n_samples": partial(checks.check_integer, low=2),
    }

    n_components: int = field(default=2, kw_only=False)
    stress: str | Stress = "metric"
    metric: Metric = "euclidean"
    init: str | Numbers = "classical"
    pairs: str = "auto"
    n_neighbors: int = 15
    n_samples: int = 1000
    max_iter: int = 500
    tol: float = 1e-6
    callbacks: Sequence[Callback] | None = None
    random_state: int | np.random.Generator | None = None
    n_jobs: int | None = None
    verbose: int = 0
    engine: str | None = None

    def fit(self, X: PointsLike, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Draw the map.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p), or array-like of shape (n, n)
            Rows of numbers, or their distances with ``metric="precomputed"``: symmetric, not negative, 0 on the
            diagonal.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter that cannot be used, another engine; as many components as rows; NaN or infinite entries (which
            rows); distances that are negative, not symmetric, or not 0 from a row to itself; a metric that scikit-learn
            does not know; ``pairs="sampled"`` of a precomputed matrix.
        NumericalError
            The map left the finite numbers.

        Warns
        -----
        NearfarWarning
            Ctrl-C ended the fit, which keeps the map of the last iteration; before the first one KeyboardInterrupt
            comes out, the estimator as it was.
        """
        stress = as_stress("MDS", self.stress)
        self._check_parameters()
        asked_engine("MDS", self.engine, not_on=self._not_on)
        callbacks = check_watchers("MDS", self.callbacks, "init=est.embedding_")
        rng = checks.check_random_state("MDS", self.random_state)
        X, read_as = coordinates_of("MDS", X, self.metric)
        rows, ids = rows_and_ids("MDS", X)
        rows = check_rows("MDS", rows, self.metric)
        pairs, data = self._pairs(rows, rng)
        row_ids = Ids.of_rows(pairs.n, ids, owner="MDS")
        d = checks.check_integer("MDS", "n_components", self.n_components, low=1, high=max(pairs.n - 1, 1))
        init = self.init
        if not (isinstance(init, str) and init in INITS):
            init = given_start("MDS", in_order_of("MDS", "init", init, row_ids), INITS, (pairs.n, d))
        dtype = data.dtype if data.dtype == np.float64 else np.float32
        state = MapState(np.zeros((pairs.n, d)), [0.0])
        if pairs.unit > 0:
            state = MapState(start(init, pairs, d, rng))
            with Trainer(
                "MDS", self.max_iter, callbacks=callbacks, verbose=self.verbose, unit="iteration", keeps=True
            ) as trainer:
                self._descend(state, pairs, stress, self.tol, trainer)
        Y = (state.X - state.X.mean(axis=0)).astype(dtype)
        self.embedding_ = Y * Y.dtype.type(pairs.unit)
        self.stress_curve_ = np.array(state.losses)
        self.n_iter_ = len(state.losses) - 1
        self.stress_ = self.stress_error_ = self.normalized_stress_ = self.kruskal_stress_ = 0.0
        if pairs.unit > 0:  # what the positions, in units, are worth
            sums, error = pairs.judge(Y, stress, state.cost)
            factor = _factor(stress, pairs, sums.r)
            self.stress_, self.stress_error_ = float(sums.cost * factor), float(error * factor)
            self.normalized_stress_ = float(sums.gap / sums.r_square)
            self.kruskal_stress_ = float(np.sqrt(sums.gap / sums.d_square)) if sums.d_square > 0 else float("inf")
        self._keep_features(X, data, read_as)
        self._ids = row_ids
        self._unit, self._rows = pairs.unit, None if self._given_distances() else data
        return self

    def transform(self, X: TableLike) -> Floats:
        """Place new points in the map, which stays as it is.

        Each is placed by itself, where the sum of its own costs over all points of the fit is least: L-BFGS from where
        least squares of squared distances put it (Gower 1968), and from the middle of its three nearest points; the
        better one counts. A point of the fit that is given again lands near itself. O(n) time per point and step.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p), or array-like of shape (m, n)
            Rows like those of the fit, which are kept for this; with ``metric="precomputed"`` the distances from the
            points of the fit.

        Returns
        -------
        ndarray of shape (m, d), in the dtype of the map, or a frame if :meth:`set_output` says so

        Raises
        ------
        NotFittedError
            Before a fit.
        InputError
            X does not fit the data of the fit; NaN, or distances that are negative.
        """
        self._check_fitted("transform")
        owner = "MDS.transform"
        checks.check_finite(owner, "embedding_", self.embedding_)
        stress = as_stress(owner, self.stress)
        given, ids = as_fitted(owner, X, self._read_as, getattr(self, "feature_names_in_", None))
        rows = self._new_rows(owner, given)
        placed = np.zeros((rows.shape[0], self.embedding_.shape[1]))
        if self._unit > 0:
            Y = self.embedding_.astype(np.float64) / self._unit
            at_once = max(1, _DISTANCES // len(Y))
            with single_threaded_blas():
                for first in range(0, len(placed), at_once):
                    part = slice(first, first + at_once)
                    distances = self._distances_from(owner, rows[part])
                    bad = first + np.flatnonzero(~((distances >= 0) & (distances <= _REACH * self._unit)).all(axis=1))
                    if bad.size:
                        expected = f"of rows whose distances are up to {_REACH:g} times those of the fit"
                        got = f"others, or none, in {counted(bad.size, 'row')}, first {bad[:5].tolist()}"
                        raise InputError(owner, "X", expected, got)
                    placed[part] = [_placed(r / self._unit, Y, stress) for r in distances]
            placed *= self._unit
        return self._output(placed.astype(self.embedding_.dtype), X, lambda: ids)

    def _given_distances(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def _new_rows(self, owner: str, X: object) -> Data:
        """Check rows like those of the fit, or distances from its points."""
        from scipy.sparse import csr_array, issparse

        if self._rows is None:
            if issparse(X):
                expected = "a dense matrix with metric='precomputed'"
                raise InputError(owner, "X", expected, "a sparse one", "Every pair counts.")
            return check_distances_from(owner, X, len(self.embedding_))
        rows = _checked_rows(owner, X, self.metric)
        if rows.shape[1] != self._rows.shape[1]:
            got = f"{rows.shape[1]} (shape {rows.shape})"
            hint = f"X has {rows.shape[1]} features, but MDS is expecting {self._rows.shape[1]} features as input."
            raise InputError(owner, "X", f"of {self._rows.shape[1]} columns", got, hint)
        if issparse(rows) == issparse(self._rows):
            return rows
        return csr_array(rows) if issparse(self._rows) else csr_array(rows).toarray()

    def _distances_from(self, owner: str, rows: Data) -> Doubles:
        """Return the distances of new rows from those of the fit; each row's do not depend on the others."""
        if self._rows is None:
            return np.asarray(rows, np.float64)
        if isinstance(self._rows, np.ndarray) and isinstance(rows, np.ndarray) and self.metric == "euclidean":
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(rows, self._rows))
        found = [distances_between(owner, rows[[i]], self._rows, self.metric)[0] for i in range(rows.shape[0])]
        return np.array(found, np.float64)

    def _descend(
        self, state: MapState, pairs: EveryPair | SampledPairs, stress: Stress, tol: float, trainer: Trainer
    ) -> None:
        """Lower the stress by L-BFGS, of which no step raises it."""
        from scipy.optimize import minimize

        shape, count = state.X.shape, max(pairs.count, 1)
        factor = _factor(stress, pairs, pairs.total)

        def value_and_gradient(y: Doubles) -> tuple[float, Doubles]:
            cost, gradient = pairs.stress(y.reshape(shape), stress)
            return cost / count, gradient.ravel() / count

        def after(intermediate_result: OptimizeResult) -> None:
            state.X = intermediate_result.x.reshape(shape).copy()
            losses = state.losses
            state.cost = float(intermediate_result.fun) * count
            losses.append(state.cost * factor)
            told = trainer.tell(len(losses) - 1, losses[-1], 1.0, state)
            before = losses[max(len(losses) - 1 - _WINDOW, 0)]
            at_rest = len(losses) > _WINDOW and before - losses[-1] <= tol * before
            if told or at_rest or losses[-1] <= _PERFECT * factor * count:
                raise StopIteration

        n_iter = trainer.n_epochs
        with single_threaded_blas():
            state.cost = value_and_gradient(state.X.ravel())[0] * count
            state.losses.append(state.cost * factor)
            if n_iter > 0:
                minimize(
                    value_and_gradient,
                    state.X.ravel(),
                    jac=True,
                    method="L-BFGS-B",
                    callback=after,
                    options={"maxcor": _MEMORY, "maxiter": n_iter, "maxfun": 20 * n_iter, "ftol": 0, "gtol": 0},
                )
        if not (np.isfinite(state.losses[-1]) and np.isfinite(state.X).all()):
            raise NumericalError(f"MDS: the map left the finite numbers within {len(state.losses)} iterations.")

    def _pairs(self, X: object, rng: np.random.Generator) -> tuple[EveryPair | SampledPairs, Data]:
        """Check X and return its pairs, all or sampled, and itself as an array or a sparse matrix."""
        pairs, n_neighbors, n_samples = self.pairs, self.n_neighbors, self.n_samples
        n_jobs = checks.check_n_jobs("MDS", self.n_jobs)
        if self._given_distances():
            if pairs == "sampled":
                raise InputError("MDS", "pairs", "'all' or 'auto' with metric='precomputed'", "'sampled'")
            return _all_pairs("MDS", X, self.metric, n_jobs)
        data = _checked_rows("MDS", X, self.metric)
        hint = "Take pairs='sampled', fewer of them (n_samples=), or a sample of the rows; transform places the others."
        checks.check_memory("MDS", "X", self._memory(data), hint)
        if self._takes_all(data.shape[0]):
            return pairs_of_rows("MDS", data, self.metric, n_jobs), data
        dtype = kept_dtype(data)
        rows = rows_of("MDS", data, self.metric, dtype, n_jobs)
        return SampledPairs("MDS", rows, dtype, n_neighbors, n_samples, rng, n_jobs), data

    def _takes_all(self, n: int) -> bool:
        """Return whether all pairs of n rows are taken, unless they were sampled."""
        return self.pairs == "all" or n <= max(self.n_samples + 1, ALL_UP_TO if self.pairs == "auto" else 1)

    def expected_memory(self, X: TableLike) -> int:
        """Return the bytes that a fit takes at its peak, beside X.

        For all pairs these are the distances, unless they are given or cheap to compute anew; for a sample those of the
        sample, or the search for near pairs. From some thousand rows on the figure is within a fifth of what is
        measured, for dense rows. Interpreter and libraries (about 150 MB) come on top. A fit that would take more than
        is free is refused.

        Parameters
        ----------
        X : as for :meth:`fit`
            What would be fitted.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> nf.MDS().expected_memory(np.zeros((10_000, 50), np.float32)) // 10**6
        209
        """
        rows = rows_and_ids("MDS.expected_memory", X)[0]
        return self._memory(rows if hasattr(rows, "dtype") else np.asarray(rows))

    def _memory(self, X: Data) -> int:
        """Return the bytes of a fit to checked rows."""
        n, p = int(X.shape[0]), int(X.shape[1])
        size, euclidean = int(kept_dtype(X).itemsize), isinstance(X, np.ndarray) and self.metric == "euclidean"
        descent = 400 * n * self.n_components  # ten steps of L-BFGS, the gradients of blocks
        if self._given_distances():
            return descent
        rows = size * n * p if euclidean else 8 * 256 * n  # in another unit; some distances by scikit-learn
        if self._takes_all(n):
            return descent + rows + (0 if euclidean and are_cheap(n, p, size) else size * n * (n - 1) // 2)
        sample, k = size * n * self.n_samples // DRAWS, min(self.n_neighbors, n - 1)
        near = (
            memory_of_search((n, p), k, checks.check_n_jobs("MDS", self.n_jobs), exact=False) if euclidean and k else 0
        )
        return sample + rows + max(near, descent + 24 * n * k)

    @property
    def vectors_(self) -> Embedding:
        """The map with its ids and the parameters; an Embedding."""
        from nearfar.embedding.vectors import Embedding

        self._check_fitted("vectors_")
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        return Embedding(self.embedding_, ids=self._ids, parameters=parameters)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


def _placed(r: Doubles, Y: Doubles, stress: Stress) -> Doubles:
    """Return the position of a new point, r from those at Y, in units: the better end of two starts."""
    from scipy.optimize import minimize

    points, gradient = np.ascontiguousarray(Y.T), np.empty(Y.shape[1])
    kernel = bind(stress_of_point, stress.functions)

    def value_and_gradient(y: Doubles) -> tuple[float, Doubles]:
        return kernel(r, points, y, gradient) / len(r), gradient / len(r)

    # ‖y - y_i‖² = r_i² for all i, centred over i, is linear in y.
    squares = (Y**2).sum(axis=1) - r**2
    linear = np.linalg.lstsq(Y - Y.mean(axis=0), (squares - squares.mean()) / 2, rcond=None)[0]
    nearest = Y[np.argsort(r, kind="stable")[:3]].mean(axis=0)
    ends = [
        minimize(
            value_and_gradient, y, jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-12, "gtol": 1e-9}
        )
        for y in (linear, nearest)
    ]
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x)


def _factor(stress: Stress, pairs: EveryPair | SampledPairs, total: float) -> float:
    """Return what turns a sum over pairs in units into the stress that is reported; ``total`` is sum r in units."""
    with np.errstate(over="ignore", under="ignore"):
        factor = float(np.float64(pairs.unit) ** stress.degree) / (total if stress.per_length else 1.0)
    if not 0 < factor * pairs.count < np.inf:
        hint = "The stress would leave the range of float64."
        raise InputError("MDS", "X", "in another unit", f"distances of about {pairs.unit:.3g}", hint)
    return factor


def _all_pairs(owner: str, X: object, metric: Metric, n_jobs: int) -> tuple[EveryPair, Data]:
    """Check X and return its pairs, and itself as an array or a sparse matrix."""
    from scipy.sparse import issparse

    if isinstance(metric, str) and metric == "precomputed":
        if issparse(X):
            expected = "a dense matrix with metric='precomputed'"
            raise InputError(owner, "X", expected, "a sparse one", "Every pair counts.")
        pairs = pairs_of_distances(owner, X, n_jobs)
        return pairs, pairs.source.flat.reshape(pairs.n, pairs.n)
    data = _checked_rows(owner, X, metric)
    return pairs_of_rows(owner, data, metric, n_jobs), data


def _checked_rows(owner: str, X: object, metric: Metric) -> Data:
    """Return X as a finite matrix with rows and columns, or as a CSR array if it is sparse."""
    from scipy.sparse import issparse

    if not (isinstance(metric, str) or callable(metric)):
        raise InputError(owner, "metric", "the name of a metric, 'precomputed' or a function", repr(metric))
    data: Data = checks.check_sparse(owner, "X", X) if issparse(X) else checks.check_matrix(owner, "X", X)
    if data.shape[0] < 1 or data.shape[1] < 1:
        got = f"{min(data.shape)} feature(s) (shape={data.shape}) while a minimum of 1 is required"
        raise InputError(owner, "X", "of at least one row and one column", got)
    check_comparable(owner, data, metric)
    return data


def start(init: str | Numbers, pairs: EveryPair | SampledPairs, d: int, rng: np.random.Generator) -> Doubles:
    """Return first positions in units, shape (n, d).

    A random start is scaled to have the lowest metric stress; a given one is taken as it is.
    """
    if not isinstance(init, str):
        return np.asarray(init, np.float64) / pairs.unit
    if init == "classical":
        Y, values = classical(pairs, d)
        together = len(np.unique(Y, axis=0)) < len(Y)
        if not together and np.all(Y.any(axis=0)) and np.all(values > 0):
            return Y
        # No force would part points in one place, or fill empty columns. What is added depends on nothing.
        noise = np.random.default_rng(0).normal(0, _JITTER, Y.shape)
        return np.asarray(Y + (noise if together else noise * ~Y.any(axis=0)))
    Y = rng.normal(size=(pairs.n, d))
    sums = pairs.moments(Y)
    return np.asarray(Y * (sums.product / sums.d_square))


def classical_mds(
    X: TableLike, n_components: int = 2, *, metric: Metric = "euclidean", n_jobs: int | None = None
) -> Floats:
    """Return the coordinates of classical scaling: exact where distances are Euclidean, and there PCA.

    The eigenvectors of ``-1/2 J R² J``, with the squared distances R² and J that centres, for the largest eigenvalues,
    times the root of these. It minimises the error of the scalar products (strain), not that of the distances.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p), or array-like of shape (n, n)
        Rows of numbers, or their distances with ``metric="precomputed"``.
    n_components : int, default=2
        d, below n.
    metric : str or callable, default="euclidean"
        As for :class:`nearfar.MDS`.
    n_jobs : int, optional
        Number of threads; None means all processors.

    Returns
    -------
    ndarray of shape (n, d)
        Centred, with the largest spread first; float64 where X is, else float32. A column of zeros where an eigenvalue
        is not positive: the distances have no more dimensions, or are not Euclidean.

    Raises
    ------
    InputError
        As for :meth:`nearfar.MDS.fit`.

    References
    ----------
    Torgerson (1952), "Multidimensional scaling: I. Theory and method". Gower (1966), "Some distance properties of
    latent root and vector methods used in multivariate analysis".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> Y = nf.classical_mds([[0.0, 0.0], [4.0, 0.0], [4.0, 3.0]], 2)
    >>> round(float(np.linalg.norm(Y[0] - Y[2])), 4)
    5.0
    """
    X = coordinates_of("classical_mds", X, metric)[0]
    pairs, data = _all_pairs("classical_mds", X, metric, checks.check_n_jobs("classical_mds", n_jobs))
    d = checks.check_integer("classical_mds", "n_components", n_components, low=1, high=max(pairs.n - 1, 1))
    Y = classical(pairs, d)[0] * pairs.unit if pairs.unit > 0 else np.zeros((pairs.n, d))
    return Y.astype(data.dtype if data.dtype == np.float64 else np.float32)


def classical(pairs: EveryPair | SampledPairs, d: int) -> tuple[Doubles, Doubles]:
    """Return the coordinates of classical scaling in units, shape (n, d), and the eigenvalues behind them.

    The largest eigenvalues of ``B = -1/2 J R² J`` (J centres) and their vectors, times the root of the eigenvalue; a
    column of zeros where that is not positive. Of Euclidean rows that is PCA. Where pairs are sampled, by any other
    metric, it is done for some rows, the landmarks, and the others stand where their distances from these put them:
    with their squares δ, the means μ and the eigenvalues λ of the landmarks at -1/2 V^T (δ - μ) / √λ. The sign: the
    entry farthest from 0 is positive.

    Source: de Silva & Tenenbaum (2004), "Sparse multidimensional scaling using landmark points".
    """
    n = pairs.n
    if isinstance(pairs.rows, EuclideanRows) and pairs.rows.X.shape[1] <= n:
        axes, squares = pairs.rows.axes()
        k = min(d, len(squares))
        Y, values = np.zeros((n, d)), np.zeros(d)
        Y[:, :k] = pairs.rows.X @ (pairs.scale * axes[:, :k]).astype(pairs.rows.X.dtype)
        values[:k] = pairs.scale**2 * squares[:k]
    elif isinstance(pairs, SampledPairs):
        rows = pairs.rows
        chosen = np.sort(pairs.rng.choice(n, min(_LANDMARKS, n), replace=False))
        squares = np.square(pairs.scale * rows.between(chosen, chosen), dtype=np.float64)
        means = squares.mean(axis=0)
        centred = squares - means
        centred -= centred.mean(axis=1, keepdims=True)
        values, vectors = _eigenpairs(-(centred + centred.T) / 4, d)
        roots = np.sqrt(np.where(values > 0, values, np.inf))
        Y = np.empty((n, d))
        for first in range(0, n, 1024):
            members = np.arange(first, min(first + 1024, n))
            found = np.square(pairs.scale * rows.between(members, chosen), dtype=np.float64)
            Y[members] = (means - found) @ vectors / (2 * roots)
        Y, values = Y - Y.mean(axis=0), values * n / len(chosen)
    else:
        values, vectors = _eigenpairs_of_all(pairs, d)
        Y = vectors * np.sqrt(np.maximum(values, 0))
    noise = n * np.finfo(pairs.dtype).eps * max(values[0], 0)
    Y = np.where(values > noise, Y, 0)
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1), values


def _eigenpairs(B: Doubles, d: int) -> tuple[Doubles, Doubles]:
    """Return the largest d eigenvalues of B and their vectors."""
    from scipy.linalg import eigh

    n = len(B)
    with single_threaded_blas():
        values, vectors = eigh(B, subset_by_index=[n - d, n - 1])
    return values[::-1], vectors[:, ::-1]


def _eigenpairs_of_all(pairs: EveryPair, d: int) -> tuple[Doubles, Doubles]:
    n = pairs.n
    if n <= max(_DENSE_UP_TO, 4 * d):
        squares = np.column_stack([pairs.squared_product(unit) for unit in np.eye(n)])
        squares -= squares.mean(axis=0)
        squares -= squares.mean(axis=1, keepdims=True)
        return _eigenpairs(-squares / 2, d)
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def product(vector: Doubles) -> Doubles:
        found = pairs.squared_product(vector - vector.mean())
        return np.asarray((found.mean() - found) / 2)

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    first = np.random.default_rng(0).normal(size=n)
    try:
        with single_threaded_blas():
            values, vectors = eigsh(operator, d, which="LA", v0=first, tol=1e-9, maxiter=100, ncv=min(n, 2 * d + 12))
    except ArpackNoConvergence as error:  # eigenvalues close together: any mixture of their vectors is as good a start
        values, vectors = np.zeros(d), np.zeros((n, d))
        values[: len(error.eigenvalues)], vectors[:, : len(error.eigenvalues)] = error.eigenvalues, error.eigenvectors
    order = np.argsort(-values)
    return values[order], vectors[:, order]
