"""`Affinities`: from rows of numbers, or their distances, to a relation of calibrated neighbours.

Neighbours are searched, each row of their distances is calibrated, and the relation works its probabilities out when
they are asked for. The formulas are those of :mod:`nearfar.methods.affinities`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import cached_property, partial
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core import checks
from nearfar._core.atomic import folder_with_room, new_array
from nearfar._core.checks import available_processors, check_choice, check_matrix, check_n_jobs, check_real
from nearfar._core.ids import Ids, column_names, rows_and_ids
from nearfar._core.parameters import Parameters
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles, Flags, Floats, Indices, Longs, MatrixLike, RowNumbers, Seed, Singles
from nearfar._core.vector import read_only
from nearfar._core.warn import warn_user
from nearfar.engines import OWN, PLAIN, asked_engine, device_of_engine, is_cluster, on_cluster, on_device
from nearfar.errors import InputError
from nearfar.methods.affinities import calibrated, probabilities, symmetric
from nearfar.relations.copies import Copies, without_copies
from nearfar.relations.matrix import Relation
from nearfar.relations.neighbors import as_fitted, check_rows, coordinates_of, is_searched, neighbor_index
from nearfar.relations.operators import Sparse
from nearfar.search.distances import PrecomputedIndex, are_neighbors
from nearfar.search.lists import FEW, LARGE, VectorIndex, memory_of_search
from nearfar.search.nearest import NeighborIndex, Neighbors, check_k

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from nearfar._core.types import Points

KERNELS = ("gaussian", "uniform")
ENTRIES = 2**26
"""Neighbours of all points together that "multiscale" goes up to: half a gigabyte of numbers and distances."""
AT_LEAST = 32
"""Perplexity that "multiscale" goes up to, however many points there are."""
_AT_ONCE = 4096  # rows that are sorted at a time
_CALIBRATED = 2**24  # neighbours whose probabilities are in memory together
_NOTHING_IN_COMMON = dict.fromkeys(("cosine", "braycurtis", "dice", "hamming", "jaccard", "sokalsneath"), 1.0)
"""The distance, by some metrics, of rows that have nothing in common."""
_ROUNDING = 4e-6  # of that distance


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
        row, or a pair (indices, distances) of neighbours) or what scikit-learn's ``NearestNeighbors`` takes.
    metric_params : dict, optional
        What the metric needs beside two rows, such as ``{"p": 3}`` of "minkowski": handed on to scikit-learn.
    kernel : {"gaussian", "uniform"}, default="gaussian"
        How a row's probabilities fall with distance.
    method : {"auto", "exact", "inverted-lists"}, default="auto"
        How neighbours are searched, see :func:`nearfar.relations.neighbors.nearest_neighbors`.
    n_jobs : int, optional
        Number of threads; None means all processors. Results do not depend on it.
    random_state : int, Generator or None
        For the search by inverted lists.
    storage : path, optional
        Folder for neighbours that are too many for memory: they stay in its files ``indices.npy`` and
        ``distances.npy``, which ``indices_`` and ``distances_`` are mapped from. Files of an earlier fit are replaced
        when all neighbours are found. Neighbours that are given stay where they are. X may be mapped, too
        (``np.load(file, mmap_mode="r")``); its lists, 4 n d bytes, are in memory while it is searched. The numbers are
        the same as without.
    engine : str, optional
        Where neighbours are searched and calibrated:

        ========================  ====================================================================================
        ``"plain"``               NumPy, which is what up to 200 rows run on in any case; more are refused, where they
                                  are dense and the metric is Euclidean or cosine
        ``"threads"``             compiled code on ``n_jobs`` threads of this machine
        ``"torch"``               the processor by torch (the extra ``torch``): every row against every other, for dense
                                  X and the Euclidean or cosine metric, or neighbours or distances that are given
        ``"cuda"``, ``"cuda:1"``  the same on a GPU
        ``"dask"``                the workers of the ``dask.distributed.Client`` in use (the extra ``cluster``), else of
                                  a cluster of this machine that ends with the fit. They search dense rows by the
                                  Euclidean or the cosine metric; other neighbours are found here, and calibrated there.
                                  The numbers are those of threads. The probabilities stay on the workers, too, for maps
                                  within the context of that client
        ========================  ====================================================================================

        By default on the cluster within the context of a client, else on threads. :meth:`transform` searches on
        threads.

    Attributes
    ----------
    relation_ : Relation
        P, shape (n, n), its rows sum to 1 (those without neighbours to 0); its ids are those of an Embedding, of the
        index of a frame or of AnnData, else the row numbers.
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
    feature_names_in_ : ndarray of shape (d,)
        Their names; only if X was a frame whose columns have string names. :meth:`transform` refuses others.

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

    _not_on: ClassVar[Mapping[str, str]] = {OWN: "A search of neighbours does not fit the verbs of a Place."}

    perplexities_: tuple[float, ...]
    relation_: Relation
    indices_: Indices
    distances_: Singles
    betas_: Doubles | None
    intrinsic_dimension_: Doubles | None
    n_features_in_: int
    _copies: Copies | None
    _drawn: Relation
    """What a map shows: that of the different rows."""
    _scales: Scales
    _read_as: Any = ()

    def __init__(
        self,
        perplexity: float | Sequence[float] | str = 30.0,
        *,
        n_neighbors: int | str | None = None,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: Mapping[str, object] | None = None,
        kernel: str = "gaussian",
        method: str = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
        storage: str | PathLike[str] | None = None,
        engine: str | None = None,
    ) -> None:
        self.perplexity, self.n_neighbors, self.metric, self.kernel = perplexity, n_neighbors, metric, kernel
        self.metric_params, self.method = metric_params, method
        self.n_jobs, self.random_state, self.storage = n_jobs, random_state, storage
        self.engine = engine

    def fit(self, X: Points, y: None = None) -> Self:  # noqa: ARG002
        """Find the neighbours of the rows of X and calibrate their probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or tuple of two arrays of shape (n, k)
            Rows of numbers. With ``metric="precomputed"`` distances; or the neighbours that another search has found, a
            pair (indices, distances) in any order, where a row among its own neighbours is passed over. Constant
            columns do no harm, nor do equal distances: where m >= perplexity neighbours are at the smallest distance
            they get 1/m each. X is kept for :meth:`transform`, without a copy where that is possible: leave it as it
            is. Neighbours in int32 and float32, nearest first, are not copied either: they may be mapped from files.
        y : None
            Ignored.

        Returns
        -------
        Affinities
            itself

        Raises
        ------
        MissingDependencyError
            An engine without the package that it needs.
        InputError, DataError
            If an argument is out of its range, X holds NaN (which rows), or distances are negative, not symmetric or
            too few; an engine that is not there, or that does not search such rows.

        Warns
        -----
        NearfarWarning
            If the perplexity is more than a third of n - 1, or there are too few different rows for it; if rows are at
            the greatest distance from all others.

        Notes
        -----
        Equal rows are one: neighbours are the nearest different rows, each by the first of its copies, and all copies
        have the same. By the cosine rows of one direction are equal, by the distances of sets those of the same
        columns. (Of neighbours and of some distances, which are given, nothing is known of copies.)

        Rows with nothing in common (distance 1 by the cosine, ``"jaccard"``, ``"dice"``, ``"sokalsneath"``,
        ``"braycurtis"`` or ``"hamming"``) are no neighbours of each other, whichever come first; nor are those at the
        greatest of the distances that are given, where a row has more of them than neighbours. A row at such a distance
        from all others has no neighbours.
        """
        owner = type(self).__name__
        asked = asked_engine(owner, self.engine, not_on=self._not_on)
        X, self._read_as = coordinates_of(owner, X, self.metric)
        rows, ids = rows_and_ids(owner, X)
        rows, copies = without_copies(owner, check_rows(owner, rows, self.metric), self.metric)
        if asked == PLAIN and is_searched(rows, self.metric) and len(rows) > FEW:
            expected, hint = f"another for more than {FEW} rows", "Take engine='threads': compiled code searches them."
            raise InputError(owner, "engine", expected, f"{PLAIN!r} for {len(rows)}", hint)
        with on_cluster("client")(f"{owner}.fit") if is_cluster(asked) else nullcontext() as client:
            self._fit(rows, ids, owner, client, copies)
        names = column_names(X)
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def _fit(self, X: Any, ids: Ids | None, owner: str, client: Any = None, copies: Copies | None = None) -> Self:
        """Fit rows with these ids, in the name of ``owner``, whom errors and warnings name; on a client's workers.

        With copies X are the different rows, and the ids those of all.
        """
        asked_engine(type(self).__name__, self.engine, not_on=self._not_on, ready=False)
        perplexities_of(owner, self.perplexity, 2)
        check_choice(owner, "kernel", self.kernel, KERNELS)
        workers, device = check_n_jobs(owner, self.n_jobs), device_of_engine(self.engine)
        how: dict[str, Any] = {"metric": self.metric, "metric_params": self.metric_params, "method": self.method}
        how |= {"n_jobs": self.n_jobs, "random_state": self.random_state, "device": device}
        index = neighbor_index(owner, X, argument="engine", **how)
        n = index.n_rows
        n_all = n if copies is None else len(copies.same)
        scales = self._scales_for(owner, n, n_all, index.most)
        k = max(scales.used)
        if 100 * n > checks.SMALL:
            hint = "Take fewer neighbours: a smaller perplexity; or fewer rows; or storage=, a folder for neighbours."
            checks.check_memory(owner, "X", self._memory(owner, X)[0], hint)
        # Neighbours.
        self._index: NeighborIndex = index
        search, there = index.neighbors, None
        if client is not None:
            there = on_cluster("nearest neighbours")(client, f"{owner}.fit", index)
            search = there.neighbors
        room = part = None
        with ExitStack() as files:
            if self.storage is not None and not are_neighbors(X, self.metric):
                folder = folder_with_room(owner, "storage", self.storage, 8 * n_all * k)
                paths = folder / "indices.npy", folder / "distances.npy"
                indices = files.enter_context(new_array(owner, paths[0], (n_all, k), np.int32))
                distances = files.enter_context(new_array(owner, paths[1], (n_all, k), np.float32))
                room, part = Neighbors(indices, distances), Neighbors(indices[:n], distances[:n])
            found = search(k, part)
            found = room or found if copies is None else copies.spread(found, room)
            for path in paths if room else ():  # those of a fit before: of two there is never one file each
                path.unlink(missing_ok=True)
        apart = _NOTHING_IN_COMMON.get(self.metric, math.inf) if isinstance(self.metric, str) else math.inf
        if isinstance(index, PrecomputedIndex) and isinstance(D := index._X, np.ndarray):
            apart = _greatest_of(D, found.distances if copies is None else found.distances[copies.first])
        self.perplexities_, self._scales = scales.perplexities, scales._replace(apart=apart)
        if apart < math.inf:
            blocks = pairwise(even_bounds(n_all, _AT_ONCE).tolist())
            counts = np.concatenate([related(found.distances[start:stop], apart) for start, stop in blocks])
            _warn_of_lonely(owner, np.flatnonzero(counts == 0), n_all, "all others")
            some_are_cut = counts.any() and (counts < found.distances.shape[1]).any()
            scales = self._scales if some_are_cut else scales
        # Their weights are as many bytes as the distances: the relation works them out again where they are asked for.
        parts: list[tuple[Doubles | None, Doubles | None]] = []
        if there is None:
            for start, stop in pairwise(even_bounds(n, max(1, _CALIBRATED // k)).tolist()):
                rows = slice(start, stop) if copies is None else copies.first[start:stop]
                some = Neighbors(found.indices[rows], found.distances[rows])
                parts.append(probabilities_of(some, scales, workers, device)[1:])
        else:
            parts = there.calibrated(partial(_calibrated_part, scales=scales))
        betas, dimensions = (None, None) if parts[0][0] is None else map(np.concatenate, zip(*parts, strict=True))
        # The relation, and that of the different rows.
        different = CalibratedRows(found, betas, scales, copies)
        different.elsewhere = None if there is None else there.rows
        ids = Ids(n_all) if ids is None else ids
        self.n_features_in_ = n_all if self.metric == "precomputed" else int(np.shape(X)[1])
        self.betas_, self.intrinsic_dimension_, self._copies = betas, dimensions, copies
        self.indices_, self.distances_ = found
        if copies is None:
            self.relation_ = self._drawn = Relation(different, ids, ids)
            return self
        if betas is not None and dimensions is not None:
            self.betas_, self.intrinsic_dimension_ = betas[copies.same], dimensions[copies.same]
        self._drawn = Relation(different, Ids(n), Ids(n))
        self.relation_ = Relation(CalibratedRows(found, self.betas_, scales), ids, ids)
        return self

    def _scales_for(self, owner: str, n: int, n_all: int, most: int) -> Scales:
        """Return the perplexities in use and the neighbours of each, for n different rows of all.

        ``most`` is how many neighbours a row has. Perplexities that rows, or neighbours, are too few for are refused;
        where copies make them too few, lower ones are taken.
        """
        asked = perplexities_of(owner, self.perplexity, n)
        perplexities, uniform = asked, self.kernel == "uniform"
        if not uniform and n - 1 <= max(asked) < n_all - 1:
            perplexities = tuple(min(one, max(1.0, (n - 1) / 3)) for one in asked)
            few = f"X has {n} different rows among {n_all}, too few for perplexity {max(asked):g}"
            warn_user(f"{owner}: {few}: {max(perplexities):.3g} is taken.")
        check_k(owner, "n_neighbors", 1, n)
        used = tuple(self._neighbors_used(owner, n_all, most, perplexities))
        if n < n_all:  # of all rows there are more than of different ones
            used = tuple(min(k, most) for k in used)
        largest = max(perplexities)
        if uniform:
            return Scales(self.kernel, perplexities, used)
        if largest >= n - 1:
            hint = f"With {n} points take a perplexity of at most {(n - 1) / 3:.3g}."
            if n < 7:
                hint = "So few points have no neighbourhoods to speak of: take more, or MDS."
            raise InputError(owner, "perplexity", f"below {n - 1}, the number of other points", largest, hint)
        if largest > max(used):
            hint = "3 * perplexity neighbours are usual, and the default."
            raise InputError(owner, "n_neighbors", f"at least the perplexity, {largest:g}", max(used), hint)
        if 3 * largest > n_all - 1 and not isinstance(self.perplexity, str):
            much = f"perplexity {largest:g} is more than a third of the {n_all - 1} other points"
            warn_user(f"{owner}: {much}: neighbourhoods are then all but everything. Take a smaller one.")
        return Scales(self.kernel, perplexities, used)

    def _neighbors_used(self, owner: str, n: int, most: int, perplexities: Sequence[float]) -> list[int]:
        """Return how many neighbours each perplexity takes, of n rows that have at most so many.

        By default that is three for each unit of perplexity, or with uniform weights one.
        """
        if self.n_neighbors is not None:
            k = n - 1 if self.n_neighbors == "all" else check_k(owner, "n_neighbors", self.n_neighbors, n)
            return [k] * len(perplexities)
        wanted = [round(each) if self.kernel == "uniform" else math.floor(3 * each) for each in perplexities]
        return [min(most, max(1, k)) for k in wanted]

    def expected_memory(self, X: Points) -> int:
        """Return the bytes that a fit takes at its peak, beside X.

        From some 20,000 rows on they are within a fifth of what is measured, for dense rows and the Euclidean metric;
        of fewer the search may take some MB less. Interpreter and libraries (about 150 MB) come on top. What is in
        files of ``storage`` does not count; the figure then holds from some 100,000 rows on. A fit that would take more
        than is free is refused.

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
        >>> nf.Affinities(perplexity=30, n_jobs=1).expected_memory(np.zeros((100_000, 50), np.float32)) // 10**6
        219
        """
        owner = f"{type(self).__name__}.expected_memory"
        return self._memory(owner, rows_and_ids(owner, X)[0])[0]

    def _memory(self, owner: str, X: Any) -> tuple[int, int, int, int]:
        """Return the bytes that a fit takes at its peak, those that it keeps, and how many neighbours and rows."""
        given = are_neighbors(X, self.metric)
        n, d = np.shape(X[0] if given else X)
        most, d = (d, 0) if given else (n - 1, 0 if self.metric == "precomputed" else d)
        perplexities = perplexities_of(owner, self.perplexity, n)
        k = max(self._neighbors_used(owner, n, most, perplexities))
        own = 4 * n * d * (1 + (self.metric == "cosine"))  # rows, which are searched in lists of their own
        kept = 16 * n * k + own + 16 * n * len(perplexities)
        n_jobs, exact = check_n_jobs(owner, self.n_jobs), self.method == "exact"
        search = own + memory_of_search((n, d), k, n_jobs, exact=exact) if d else 16 * n * k
        sorting = n_jobs * 16 * _AT_ONCE * k + 16 * n * len(perplexities)  # and precisions of parts, which are joined
        if self.storage is not None and d:  # neighbours are in files; in memory are some, and numbers of lists
            search += 24 * n - 16 * (n * k - min(n * k, _CALIBRATED // 4))
            kept = 16 * n * len(perplexities) + (4 * n * d if self.metric == "cosine" else 0)
            return max(search, kept + 5 * min(n * k, _CALIBRATED) + sorting), kept, n * k, n
        return max(search, kept + 5 * n * k + sorting), kept, n * k, n

    def fit_transform(self, X: Points, y: None = None) -> csr_array[np.float32]:
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

    @property
    def rows_(self) -> MatrixLike | None:
        """The rows that are searched (directions for ``metric="cosine"``); None where distances were given."""
        self._check_fitted("rows_")
        return getattr(self._index, "X", None)

    def transform(self, X: Points) -> csr_array[np.float32]:
        """Return the probabilities of new points over the fitted ones.

        Each row is searched and calibrated by itself: it does not depend on the rows beside it. A fitted point that
        is given again finds itself, at distance 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            With ``metric="precomputed"`` the distances from the fitted points, shape (m, n); after a fit to a pair
            (indices, distances) such a pair, of at least as many neighbours as in the fit.

        Returns
        -------
        csr_array of shape (m, n), float32
            Its rows sum to 1, over as many neighbours as in the fit.
        """
        self._check_fitted("transform")
        owner = f"{type(self).__name__}.transform"
        rows, _ = as_fitted(owner, X, self._read_as, getattr(self, "feature_names_in_", None))
        copies, n = self._copies, self.relation_.shape[0]
        if copies is not None and self.metric == "precomputed":
            rows = check_matrix(type(self).__name__, "X", rows, columns=n)[:, copies.first]
        found = self._index.query(rows, max(self._scales.used))
        workers = check_n_jobs(type(self).__name__, self.n_jobs)
        if self._scales.apart < math.inf:
            lonely = np.flatnonzero(related(found.distances, self._scales.apart) == 0)
            _warn_of_lonely(f"{type(self).__name__}.transform", lonely, len(found.distances), "all rows of the fit")
        asked_engine(type(self).__name__, self.engine, not_on=self._not_on, ready=False)
        weights, _, _ = probabilities_of(found, self._scales, workers, device_of_engine(self.engine))
        indptr, columns, values = _sorted_rows(found.indices, weights, workers)
        columns = columns if copies is None else copies.first.astype(np.int32)[columns]
        return csr_array((values, columns, indptr), shape=(len(weights), n))

    def joint(self) -> Relation:
        """Return the symmetric probabilities of pairs, ``(P + Pᵀ) / 2n``, which sum to 1.

        Returns
        -------
        Relation
            Shape (n, n), symmetric.
        """
        self._check_fitted("joint")
        P = self.relation_.to_scipy()
        n = P.shape[0]
        J = symmetric(P, P.T.tocsr(), n)
        J.sort_indices()
        operator = Sparse(J.indptr.astype(np.int64), J.indices.astype(np.int32), J.data, n, symmetric=True)
        return Relation(operator, self.relation_.row_ids, self.relation_.row_ids)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "relation_")

    def _check_fitted(self, what: str) -> None:
        if not self.__sklearn_is_fitted__():
            from nearfar.errors import NotFittedError

            said = "the affinities must be fitted; got some that are not. Call fit first."
            raise NotFittedError(f"{type(self).__name__}.{what}: {said}")


class Scales(NamedTuple):
    """How distances become probabilities: the kernel, the perplexities, and how many neighbours each takes.

    Rows at the distance ``apart`` are no neighbours, see :func:`related`.
    """

    kernel: str
    perplexities: tuple[float, ...]
    used: tuple[int, ...]
    apart: float = math.inf


def probabilities_of(
    found: Neighbors, scales: Scales, n_jobs: int, device: str | None = None
) -> tuple[Singles, Doubles | None, Doubles | None]:
    """Return the mean of the probabilities by each perplexity, and the precisions and dimensions of each.

    A row has them over the neighbours that it has something in common with.
    """
    (n, k), several = found.distances.shape, len(scales.perplexities)
    p, betas, dimensions = np.zeros((n, k), np.float32), np.zeros((n, several)), np.zeros((n, several))
    formula = calibrated if device is None else partial(on_device("calibration"), device)

    def calibrate(_block: int, start: int, stop: int) -> None:  # some of the rows with so many neighbours
        some = rows[start:stop]
        of_rows, of_scale[0][some], of_scale[1][some] = formula(distances[some, :count], wanted)
        p[some, :count] += of_rows.astype(np.float32) * np.float32(1 / several)

    for scale, (perplexity, nearest) in enumerate(zip(scales.perplexities, scales.used, strict=True)):
        distances = found.distances[:, :nearest]
        counts = related(distances, scales.apart)
        if scales.kernel == "uniform":
            p[:, :nearest] += _even(counts, nearest, several)
            continue
        of_scale = betas[:, scale], dimensions[:, scale]
        for count in np.unique(counts[counts > 0]).tolist():
            rows, wanted = np.flatnonzero(counts == count), min(perplexity, float(count))
            # Blocks of a megabyte: shorter ones would have the threads wait for the interpreter's lock.
            bounds = even_bounds(len(rows), max(1, 2**17 // count)) if device is None else [0, len(rows)]
            run_blocks(calibrate, bounds, n_jobs)
    if scales.kernel == "uniform":
        return p, None, None
    return (p, betas[:, 0], dimensions[:, 0]) if several == 1 else (p, betas, dimensions)


def related(distances: Floats, apart: float) -> Longs:
    """Return how many of the neighbours of each row, nearest first, have something in common with it.

    Those at the distance ``apart``, at the end of the list, have nothing: two or more, or all. A single one may be
    there by chance, and one that is farther away is an opposite: neither is passed over.
    """
    n, k = distances.shape
    if apart == math.inf:
        return np.full(n, k)
    counts = np.count_nonzero(distances < apart * (1 - _ROUNDING), axis=1)
    tied = distances[:, -1] <= apart * (1 + _ROUNDING)
    return np.where(tied & ((counts <= k - 2) | (counts == 0)), counts, k)


def _even(counts: Longs, k: int, scales: int) -> Singles:
    """Return the same probability for the first so many of k neighbours of each row, by one of so many scales."""
    return np.where(np.arange(k) < counts[:, None], 1 / np.maximum(counts[:, None] * scales, 1), 0).astype(np.float32)


def _greatest_of(D: Floats, distances: Singles) -> float:
    """Return the greatest of all, if a row has more others there than in the list of its nearest, or no nearer ones."""
    top = np.float32(D.max())
    for row in np.flatnonzero(distances[:, -1] >= top).tolist():
        all_there = np.count_nonzero(np.delete(D[row], row).astype(np.float32) >= top)
        listed = np.count_nonzero(distances[row] >= top)
        if all_there > listed or listed == distances.shape[1]:
            return float(top)
    return math.inf


def _warn_of_lonely(owner: str, lonely: Longs, n: int, others: str) -> None:
    if len(lonely):
        of_some, of_all = "They have no neighbours: a map draws them at its rim.", "A map of them shows nothing."
        there = f"{len(lonely)} of {n} rows are at the greatest distance from {others}, first {lonely[:5].tolist()}"
        warn_user(f"{owner}: {there}. {of_some if len(lonely) < n else of_all}")


def _calibrated_part(found: Neighbors, scales: Scales) -> tuple[tuple[Doubles | None, Doubles | None], Singles]:
    """Return precisions and dimensions, and what ``CalibratedRows`` makes of them."""
    _, betas, dimensions = probabilities_of(found, scales, 1)
    return (betas, dimensions), CalibratedRows(found, betas, scales).probabilities(0, len(found.indices))


def _sorted_rows(indices: Indices, weights: Singles, n_jobs: int) -> tuple[Longs, Indices, Singles]:
    """Return rows of neighbours as the arrays of a CSR matrix, without the weights that vanished."""
    columns, values = np.empty_like(indices), np.empty_like(weights)

    def sort(_block: int, start: int, stop: int) -> None:
        rows = slice(start, stop)
        order = np.argsort(indices[rows], axis=1)
        columns[rows] = np.take_along_axis(indices[rows], order, 1)
        values[rows] = np.take_along_axis(weights[rows], order, 1)

    run_blocks(sort, even_bounds(len(indices), _AT_ONCE), n_jobs)
    kept = values > 0
    indptr = np.append(0, np.cumsum(kept.sum(axis=1)))
    if indptr[-1] < values.size:
        columns, values = columns[kept], values[kept]
    return indptr, columns.ravel(), values.ravel()


class CalibratedRows(Sparse):
    """The probabilities of neighbours, worked out from their distances a block of rows at a time.

    Where all are needed at once, as for products, they are kept from then on.

    Parameters
    ----------
    found : Neighbors
        Of all rows, nearest first.
    betas : ndarray of shape (n,) or (n, s), float64, or None
        Precisions, of each of s scales; None: all neighbours count the same.
    scales : Scales
    copies : Copies, optional
        The matrix is that of the different rows; ``found`` are the neighbours of all.

    Attributes
    ----------
    elsewhere : list of Future or None
        The same rows on the workers of a cluster, in parts, each a ``Rows``: for maps that are drawn there.
    """

    elsewhere: list[object] | None = None

    def __init__(self, found: Neighbors, betas: Doubles | None, scales: Scales, copies: Copies | None = None) -> None:
        n = len(found.indices) if copies is None else len(copies.first)
        self.shape, self.symmetric, self.is_undirected, self.row_scale = (n, n), False, False, None
        self._found, self._scales = read_only(found), scales
        self._betas = None if betas is None else read_only(betas.reshape(n, len(scales.used)))
        self._copies = copies

    def _columns(self, start: int, stop: int) -> Indices:
        """Return the neighbours of some rows."""
        if self._copies is None:
            return self._found.indices[start:stop]
        return self._copies.same[self._found.indices[self._copies.first[start:stop]]].astype(np.int32)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "elsewhere": None}

    @property
    def row_parts(self) -> list[object] | None:
        """The rows on the workers; None of rows that are scaled."""
        return self.elsewhere if self.row_scale is None else None

    @cached_property
    def nnz(self) -> int:
        """Probabilities that are above 0."""

        def count(_block: int, start: int, stop: int) -> int:
            return int(np.count_nonzero(self.probabilities(start, stop)))

        return sum(run_blocks(count, even_bounds(self.shape[0], _AT_ONCE), available_processors()))

    @cached_property
    def _csr(self) -> tuple[Longs, Indices, Singles]:
        n, n_jobs = self.shape[0], available_processors()
        weights = np.empty((n, self._found.indices.shape[1]), np.float32)

        def fill(_block: int, start: int, stop: int) -> None:
            weights[start:stop] = self.probabilities(start, stop)

        run_blocks(fill, even_bounds(n, _AT_ONCE), n_jobs)
        return read_only(_sorted_rows(self._columns(0, n), weights, n_jobs))

    indptr = property(lambda self: self._csr[0])
    indices = property(lambda self: self._csr[1])
    data = property(lambda self: self._csr[2])

    @property
    def nbytes(self) -> int:
        """Bytes of the neighbours, and of the matrix once it was made."""
        made = (*self.__dict__.get("_csr", ()), *self.__dict__.get("_transposed", ()))
        return sum(a.nbytes for a in (*self._found, self._betas, self.row_scale, *made) if a is not None)

    def transpose_nbytes(self) -> int:
        """Return the bytes that products of the transpose add to ``nbytes``, once there was one."""
        made = 0 if "_csr" in self.__dict__ else 8 * (self.shape[0] + 1 + self.nnz)
        return made + (0 if "_transposed" in self.__dict__ else 8 * (self.shape[1] + 1 + self.nnz))

    def rows(self, start: int, stop: int) -> csr_array[np.float32]:
        """Return rows start..stop multiplied out."""
        if "_csr" in self.__dict__ or self.row_scale is not None or (start == 0 and stop == self.shape[0]):
            return super().rows(start, stop)
        indptr, columns, values = _sorted_rows(self._columns(start, stop), self.probabilities(start, stop), 1)
        return csr_array((values, columns, indptr), shape=(stop - start, self.shape[1]))

    def unsorted_rows(self, start: int, stop: int) -> csr_array[np.float32]:
        """Return rows start..stop, the nearest neighbours first, also of probability 0: several times as quick."""
        values, columns = self.probabilities(start, stop), self._columns(start, stop)
        if self.row_scale is not None:
            values *= self.row_scale[start:stop, None]
        indptr = np.arange(len(values) + 1) * values.shape[1]
        return csr_array((values.ravel(), columns.ravel(), indptr), shape=(stop - start, self.shape[1]))

    def distances(self, start: int, stop: int) -> Doubles:
        """Return the distances of some rows from their neighbours, in the order of :meth:`probabilities`."""
        rows = slice(start, stop) if self._copies is None else self._copies.first[start:stop]
        return self._found.distances[rows].astype(np.float64)

    def probabilities(self, start: int, stop: int) -> Singles:
        """Return the probabilities of some rows, in the order of the neighbours."""
        k, several, apart = self._found.indices.shape[1], len(self._scales.used), self._scales.apart
        weights = np.zeros((stop - start, k), np.float32)
        some = max(1, 2**17 // k)  # rows whose numbers in float64 stay in the cache
        for first in range(start, stop, some):
            rows = slice(first, min(first + some, stop))
            of = rows if self._copies is None else self._copies.first[rows]
            part = weights[first - start : rows.stop - start]
            for scale, nearest in enumerate(self._scales.used):
                distances = self._found.distances[of, :nearest]
                counts = related(distances, apart)
                if self._betas is None:
                    part[:, :nearest] += _even(counts, nearest, several)
                    continue
                near = None if apart == math.inf else np.arange(nearest) < counts[:, None]
                p = probabilities(distances, self._betas[rows, scale], near)
                part[:, :nearest] += p.astype(np.float32) * np.float32(1 / several)
        return weights


def perplexities_of(owner: str, perplexity: object, n: int) -> tuple[float, ...]:
    """Return the perplexities that an argument asks for, for n points, largest first where it leaves the choice.

    "multiscale" is 2^u, u from round(log2(n / 4)) down to 1 (Lee et al. 2015). It begins with a smaller u where three
    neighbours for each unit of perplexity would be more than ``ENTRIES``.
    """
    if isinstance(perplexity, str) and perplexity == "multiscale":
        largest = max(1, round(math.log2(n / 4)))
        while largest > math.log2(AT_LEAST) and 3 * 2**largest * n > ENTRIES:
            largest -= 1
        return tuple(float(2**u) for u in range(largest, 0, -1))
    if isinstance(perplexity, (Sequence, np.ndarray)) and not isinstance(perplexity, str) and np.ndim(perplexity):
        if not len(perplexity):
            raise InputError(owner, "perplexity", "one number, several, or 'multiscale'", "none at all")
        return tuple(check_real(owner, "perplexity", each, low=1.0) for each in perplexity)
    try:
        return (check_real(owner, "perplexity", perplexity, low=1.0),)
    except InputError as error:
        raise InputError(owner, "perplexity", f"{error.expected}, several, or 'multiscale'", error.got) from None


# -- rows to which new ones come: only what the new rows change is made anew -------------------------------------------


_Number = TypeVar("_Number", bound=np.generic)
_MOST = 0.2  # new rows, as a share of the old ones, up to which lists are joined
_WIDER = 2  # how many times as many neighbours of new rows are looked at, to find who has these for neighbours


def can_be_joined(affinities: Affinities, m: int) -> bool:
    """Return whether so many new rows are few beside those of many, which were searched here, and are all different."""
    index = affinities._index
    searched = isinstance(index, VectorIndex) and affinities._copies is None and affinities.storage is None
    return searched and affinities._scales.apart == math.inf and index.n_rows >= LARGE and 0 < m <= _MOST * index.n_rows


def joined(affinities: Affinities, X: Floats, ids: Ids, seed: int, owner: str) -> Affinities:
    """Return the affinities of the rows of some and of new rows X, behind them; no row is a copy of another.

    A row that has new ones among its neighbours is found where it is itself among the nearest ones of these, twice as
    many as there are neighbours: that misses few, whose probabilities are small.
    """
    index, old = cast("VectorIndex", affinities._index), Neighbors(affinities.indices_, affinities.distances_)
    n, k = old.indices.shape
    m, n_jobs = len(X), check_n_jobs(owner, affinities.n_jobs)
    to_old = index.query(X, min(_WIDER * k, n))
    indices, distances = [to_old.indices[:, :k]], [to_old.distances[:, :k]]
    if m > 1:
        given = {"metric": affinities.metric, "n_jobs": affinities.n_jobs, "random_state": seed}
        among = neighbor_index(owner, X, method="auto", **given).neighbors(min(k, m - 1))  # type: ignore[arg-type]
        indices.append(among.indices + np.int32(n))
        distances.append(among.distances)
    near, far = np.concatenate(indices, axis=1), np.concatenate(distances, axis=1)
    order = np.argsort(far, axis=1, kind="stable")[:, :k]  # of those as near, later ones have higher numbers
    of_new = Neighbors(np.take_along_axis(near, order, axis=1), np.take_along_axis(far, order, axis=1))
    changed, of_changed = _entered(old, to_old)
    found = Neighbors(np.concatenate([old.indices, of_new[0]]), np.concatenate([old.distances, of_new[1]]))
    found.indices[changed], found.distances[changed] = of_changed

    again = np.concatenate([changed, np.arange(n, n + m)])
    part = Neighbors(found.indices[again], found.distances[again])
    scales = affinities._scales
    _, betas, dimensions = probabilities_of(part, scales, n_jobs)
    made = copy.copy(affinities)
    made.random_state, made._index = seed, index.with_more_rows(X)
    made.betas_ = _replaced(affinities.betas_, betas, again, m)
    made.intrinsic_dimension_ = _replaced(affinities.intrinsic_dimension_, dimensions, again, m)
    made.indices_, made.distances_ = found
    made.relation_ = made._drawn = Relation(CalibratedRows(found, made.betas_, scales), ids, ids)
    return made


def _entered(old: Neighbors, to_old: Neighbors) -> tuple[RowNumbers, Neighbors]:
    """Return the old rows that new ones become neighbours of, and their neighbours then."""
    n = len(old.indices)
    m, wide = to_old.indices.shape
    row, new, distance = to_old.indices.ravel(), np.repeat(np.arange(n, n + m), wide), to_old.distances.ravel()
    enters = np.flatnonzero(distance < old.distances[row, -1])
    row, new, distance = row[enters], new[enters], distance[enters]
    order = np.lexsort((new, distance, row))
    new, distance = new[order].astype(np.int32), distance[order]
    changed, first, counts = np.unique(row[order], return_index=True, return_counts=True)
    indices, distances = old.indices[changed], old.distances[changed]
    for k in range(int(counts.max(initial=0))):  # one new row after the other: most old ones get one
        some = np.flatnonzero(counts > k)
        one, lines = first[some] + k, slice(None) if k == 0 else some
        stays = distances[lines] <= distance[one, None]
        indices[lines] = _inserted(indices[lines], stays, new[one])
        distances[lines] = _inserted(distances[lines], stays, distance[one])
    return changed.astype(np.int64), Neighbors(indices, distances)


def _inserted(values: NDArray[_Number], stays: Flags, new: NDArray[_Number]) -> NDArray[_Number]:
    """Return lines with one more value each behind those that stay, and the last one gone."""
    found = np.empty_like(values)
    found[:, 1:] = values[:, :-1]
    np.copyto(found, values, where=stays)
    at = np.count_nonzero(stays, axis=1)
    inside = np.flatnonzero(at < values.shape[1])
    found[inside, at[inside]] = new[inside]
    return found


def _replaced(values: Doubles | None, made: Doubles | None, rows: RowNumbers, more: int) -> Doubles | None:
    """Return a number for each row, of which some were made anew; there are more than before."""
    if values is None or made is None:
        return None
    found = np.concatenate([values, np.zeros((more, *values.shape[1:]))])
    found[rows] = made.reshape(len(rows), *values.shape[1:])
    return found
