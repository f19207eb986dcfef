"""`Affinities`: from rows of numbers, or their distances, to a relation of calibrated neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_choice, check_n_jobs
from nearfar._ids import Ids
from nearfar._parallel import even_bounds, run_blocks
from nearfar._parameters import Parameters
from nearfar.errors import InputError, NearfarWarning
from nearfar.relations._scales import neighbors_of, perplexities_of
from nearfar.relations.matrix import Relation
from nearfar.relations.neighbors import NeighborIndex, Neighbors, check_k, neighbor_index
from nearfar.relations.perplexity import calibrate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KERNELS = ("gaussian", "uniform")


class Affinities(Parameters):
    """How strongly each point is related to its nearest neighbours: the input of every map.

    Point i takes its k nearest others as neighbours, and a row of probabilities over them,

        p_ij = exp(-beta_i r_ij²) / sum_l exp(-beta_i r_il²),

    beta_i such that the row's entropy is ln(perplexity): all points have equally many neighbours, as it were. With the
    uniform kernel the k neighbours count 1/k each.

    Fitted affinities are kept and used again: for maps by other methods, and to place new points.

    Parameters
    ----------
    perplexity : float, sequence of float, or "multiscale", default=30.0
        Effective number of neighbours, >= 1. It must be below n - 1, and there is a warning above (n - 1) / 3. With
        several, p is the mean of the probabilities that each of them gives. "multiscale" is 2, 4, 8, ... up to about
        n / 4, or less where there would be more than 2**26 neighbours in all (from some 9,000 points on; 32 at least).
    n_neighbors : int or "all", optional
        k; by default 3 * perplexity (the others' weights would be next to nothing), with the uniform kernel the rounded
        perplexity; n - 1 at most. "all" takes everybody, n² numbers: for small data. Of several perplexities each has
        its own k by default, and the given one otherwise.
    metric : str or callable, default="euclidean"
        "euclidean", "cosine", "precomputed" (X is a matrix of distances, or a sparse one with at least k distances a
        row) or what scikit-learn's ``NearestNeighbors`` takes.
    kernel : {"gaussian", "uniform"}, default="gaussian"
        How a row's probabilities fall with distance.
    method : {"auto", "exact", "inverted-lists"}, default="auto"
        How neighbours are searched, see :func:`nearfar.relations.neighbors.nearest_neighbors`.
    n_jobs : int, optional
        Number of threads; None means all processors. Results do not depend on it.
    random_state : int, Generator or None
        For the search by inverted lists.

    Attributes
    ----------
    relation_ : Relation
        P, shape (n, n), its rows sum to 1; ids are the row numbers.
    indices_, distances_ : ndarray of shape (n, k), int32 and float32
        The neighbours, nearest first.
    perplexities_ : tuple of float
        Those in use: several, or one.
    betas_ : ndarray of shape (n,), float64, or None
        Precisions, in one over squared units of distance; None with the uniform kernel. A column for each of several
        perplexities, shape (n, s).
    intrinsic_dimension_ : ndarray of shape (n,) or (n, s), float64, or None
        2 beta² Var_p(r²): how many dimensions the data have around each point; None with the uniform kernel. Where
        there are more than a few, 3 * perplexity neighbours make it too small: take more.
    n_features_in_ : int
        Number of columns of X.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> affinities = nf.Affinities(perplexity=10).fit(X)
    >>> affinities.relation_
    <Relation 100 x 100, 3000 stored entries>
    >>> affinities.transform(X[:2] + 0.1).shape
    (2, 100)

    References
    ----------
    van der Maaten & Hinton (2008), "Visualizing data using t-SNE", sections 2 and 3: p_j|i, perplexity and
    p_ij = (p_j|i + p_i|j) / 2n. Lee, Peluffo-Ordóñez & Verleysen (2015), "Multi-scale similarities in stochastic
    neighbour embedding", for several perplexities; here the kernel of a map has one scale all the same.
    """

    perplexities_: tuple[float, ...]
    relation_: Relation
    indices_: NDArray[np.int32]
    distances_: NDArray[np.float32]
    betas_: NDArray[np.float64] | None
    intrinsic_dimension_: NDArray[np.float64] | None
    n_features_in_: int

    def __init__(
        self,
        perplexity: float | Sequence[float] | str = 30.0,
        *,
        n_neighbors: int | str | None = None,
        metric: str | Callable[..., float] = "euclidean",
        kernel: str = "gaussian",
        method: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.perplexity, self.n_neighbors, self.metric, self.kernel = perplexity, n_neighbors, metric, kernel
        self.method, self.n_jobs, self.random_state = method, n_jobs, random_state

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Find the neighbours of the rows of X and calibrate their probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows of numbers, or distances with ``metric="precomputed"``. Constant columns and copies of rows do no
            harm: where m >= perplexity neighbours are at the smallest distance they get 1/m each. X is kept for
            :meth:`transform`, without a copy where that is possible: leave it as it is.
        y : None
            Ignored.

        Returns
        -------
        Affinities
            itself

        Raises
        ------
        InputError, DataError
            If an argument is out of its range, X holds NaN (which rows), or distances are negative, not symmetric or
            too few.

        Warns
        -----
        NearfarWarning
            If the perplexity is more than a third of n - 1.
        """
        return self._fit(X, type(self).__name__)

    def _fit(self, X: Any, owner: str) -> Self:
        """Fit, in the name of ``owner``: whom errors and warnings name."""
        perplexities_of(owner, self.perplexity, 2)
        check_choice(owner, "kernel", self.kernel, KERNELS)
        workers = check_n_jobs(owner, self.n_jobs)
        index = neighbor_index(
            owner, X, metric=self.metric, method=self.method, n_jobs=self.n_jobs, random_state=self.random_state
        )
        self.perplexities_ = perplexities_of(owner, self.perplexity, index.n_rows)
        k = self._n_neighbors(owner, index.n_rows)
        self._index: NeighborIndex = index
        found = index.neighbors(k)
        self.indices_, self.distances_ = found
        weights, self.betas_, self.intrinsic_dimension_ = self._weights(found, workers)
        self.relation_ = _relation(self.indices_, weights, workers)
        self.n_features_in_ = int(np.shape(X)[1])
        return self

    def fit_transform(self, X: Any, y: None = None) -> csr_array[Any]:
        """Fit, and return the probabilities as a sparse array.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        csr_array of shape (n, n), float32
            Its rows sum to 1.
        """
        return self.fit(X, y).relation_.to_scipy()

    def transform(self, X: Any) -> csr_array[Any]:
        """Return the probabilities of new points over the fitted ones.

        Each row is searched and calibrated by itself: it does not depend on the rows beside it. A fitted point that
        is given again finds itself, at distance 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            With ``metric="precomputed"`` the distances from the fitted points, shape (m, n).

        Returns
        -------
        csr_array of shape (m, n), float32
            Its rows sum to 1, over as many neighbours as in the fit.
        """
        self._check_fitted("transform")
        found = self._index.query(X, self.indices_.shape[1])
        workers = check_n_jobs(type(self).__name__, self.n_jobs)
        weights, _, _ = self._weights(found, workers)
        return _csr(found.indices, weights, len(self.indices_), workers)

    def joint(self) -> Relation:
        """Return the symmetric probabilities of pairs, ``(P + Pᵀ) / 2n``, which sum to 1.

        Returns
        -------
        Relation
            Shape (n, n), symmetric.
        """
        self._check_fitted("joint")
        from nearfar.relations.operators import Sparse

        P = self.relation_.to_scipy()
        n = P.shape[0]
        J = (P + P.T.tocsr()) * np.float32(0.5 / n)
        J.sort_indices()
        operator = Sparse(J.indptr.astype(np.int64), J.indices.astype(np.int32), J.data, n, symmetric=True)
        return Relation(operator, self.relation_.row_ids, self.relation_.row_ids)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(sparse=True, pairwise=self.metric == "precomputed"),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "relation_")

    def _check_fitted(self, what: str) -> None:
        if not hasattr(self, "relation_"):
            from nearfar.errors import NotFittedError

            raise NotFittedError(
                f"{type(self).__name__}.{what}: the affinities must be fitted; got some that are not. Call fit first."
            )

    def _n_neighbors(self, owner: str, n: int) -> int:
        """Return k, after a look at whether the perplexity suits it and the number of points."""
        check_k(owner, "n_neighbors", 1, n)
        uniform, largest = self.kernel == "uniform", max(self.perplexities_)
        if self.n_neighbors == "all":
            k = n - 1
        elif self.n_neighbors is None:
            k = min(n - 1, neighbors_of(largest, uniform=uniform))
        else:
            k = check_k(owner, "n_neighbors", self.n_neighbors, n)
        if uniform:
            return k
        if largest >= n - 1:
            hint = f"With {n} points take a perplexity of at most {(n - 1) / 3:.3g}."
            if n < 7:
                hint = "So few points have no neighbourhoods to speak of: take more, or MDS."
            raise InputError(owner, "perplexity", f"below {n - 1}, the number of other points", largest, hint)
        if largest > k:
            hint = "3 * perplexity neighbours are usual, and the default."
            raise InputError(owner, "n_neighbors", f"at least the perplexity, {largest:g}", k, hint)
        if 3 * largest > n - 1 and not isinstance(self.perplexity, str):
            warnings.warn(
                f"{owner}: perplexity {largest:g} is more than a third of the {n - 1} other points: "
                "neighbourhoods are then all but everything. Take a smaller one.",
                NearfarWarning,
                stacklevel=4,
            )
        return k

    def _weights(
        self, found: Neighbors, n_jobs: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the mean of the probabilities by each perplexity, and the precisions and dimensions of each."""
        uniform, scales = self.kernel == "uniform", self.perplexities_
        k = found.distances.shape[1]
        weights = np.zeros((len(found.distances), k if len(scales) > 1 or uniform else 0), np.float32)
        betas, dimensions = [], []
        for perplexity in scales:
            nearest = k if self.n_neighbors is not None else min(k, neighbors_of(perplexity, uniform=uniform))
            if uniform:
                weights[:, :nearest] += np.float32(1 / (nearest * len(scales)))
                continue
            calibration = calibrate(np.ascontiguousarray(found.distances[:, :nearest]), perplexity, n_jobs=n_jobs)
            betas.append(calibration.betas)
            dimensions.append(calibration.dimensions)
            if len(scales) == 1:
                return calibration.weights, betas[0], dimensions[0]
            weights[:, :nearest] += calibration.weights * np.float32(1 / len(scales))
        return (weights, None, None) if uniform else (weights, np.column_stack(betas), np.column_stack(dimensions))


def _csr(indices: NDArray[np.int32], weights: NDArray[np.float32], n: int, n_jobs: int) -> csr_array[Any]:
    """Return rows of neighbours as a sparse array, columns sorted, without the weights that vanished."""
    from scipy.sparse import csr_array

    columns, values = np.empty_like(indices), np.empty_like(weights)

    def sort(_block: int, start: int, stop: int) -> None:
        rows = slice(start, stop)
        order = np.argsort(indices[rows], axis=1)
        columns[rows] = np.take_along_axis(indices[rows], order, 1)
        values[rows] = np.take_along_axis(weights[rows], order, 1)

    run_blocks(sort, even_bounds(len(indices), 4096), n_jobs)
    kept = values > 0
    indptr = np.zeros(len(indices) + 1, np.int64)
    np.cumsum(kept.sum(axis=1), out=indptr[1:])
    if indptr[-1] == values.size:
        return csr_array((values.ravel(), columns.ravel(), indptr), shape=(len(indices), n))
    return csr_array((values[kept], columns[kept], indptr), shape=(len(indices), n))


def _relation(indices: NDArray[np.int32], weights: NDArray[np.float32], n_jobs: int) -> Relation:
    from nearfar.relations.operators import Sparse

    P = _csr(indices, weights, len(indices), n_jobs)
    ids = Ids(len(indices))
    operator = Sparse(
        P.indptr.astype(np.int64), P.indices.astype(np.int32, copy=False), P.data, len(indices), symmetric=False
    )
    return Relation(operator, ids, ids)
