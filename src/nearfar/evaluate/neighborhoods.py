"""Judging maps: what a map keeps of the neighbours and the distances of the data that it was made from.

With the ranks ρ_ij of j among the neighbours of i in the data and r_ij in the map (1 for the nearest, the point itself
left out, equal distances in the order of the rows), all that is said of neighbours follows from pairs of ranks::

    Q_NX(K) = |{(i, j): ρ_ij <= K, r_ij <= K}| / (K n)       R_NX(K) = ((n - 1) Q_NX(K) - K) / (n - 1 - K)

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import _checks
from nearfar.errors import InputError
from nearfar.evaluate._distances import Euclidean, distances_of
from nearfar.evaluate._labels import label_codes

if TYPE_CHECKING:
    from nearfar.evaluate._ranks import RowScores

_OWNER = "evaluate.neighborhoods"
_SIZES = (5, 15, 50)  # where the caller gives none, those that the rows allow
_ALL_ROWS, _SOME_ROWS = 5000, 1000  # up to so many rows all are judged, of more a sample
_PAIRS = 2**22  # for the rank correlation of the distances


@dataclass(frozen=True, eq=False, repr=False)
class Neighborhoods:
    """What a map keeps of its data. 1 is the best value of all but the stresses, whose best is 0.

    What depends on the size k of a neighbourhood is a dictionary with k as its key.

    Parameters
    ----------
    n : int
        Number of rows.
    n_sample : int
        Number of rows that were judged, against all n.
    auc : float
        Area under R_NX(K) over the logarithm of K, ``sum_K R_NX(K) / K / sum_K 1 / K``: the quality of neighbourhoods
        of all sizes in one number, about 0 for an unrelated map.
    trustworthiness : dict of int to float, in [0, 1]
        Low where points that are far apart in the data are neighbours in the map.
    continuity : dict of int to float, in [0, 1]
        Low where neighbours in the data are far apart in the map.
    preservation : dict of int to float, in [0, 1]
        Mean share of the k neighbours in the data that are among the k neighbours in the map: Q_NX(k).
    accuracy : dict of int to float, in [0, 1], or None without labels
        Share of rows whose label is that of most of their k neighbours in the map.
    input_accuracy : dict of int to float, in [0, 1], or None without labels
        The same in the data.
    scale : float
        The factor s by which the distances d of the map fit the distances r of the data best,
        ``sum r d / sum d²``. Both stresses are measured after this scaling: a map has no unit of its own.
    normalized_stress : float, in [0, 1]
        ``sum (r - s d)² / sum r²``.
    stress_1 : float, >= 0
        Kruskal's stress-1, ``sqrt(sum (r - s d)² / sum (s d)²)``.
    spearman : float, in [-1, 1]
        Shepard correlation: the rank correlation of the distances in data and map; 0 where either are all equal.
    pearson : float, in [-1, 1]
        Their linear correlation.
    q_nx, r_nx : ndarray, shape (n - 2,), float64
        The curves for K = 1 .. n - 2: ``r_nx[K - 1]`` is R_NX(K).
    standard_errors : dict
        Of ``auc``, ``trustworthiness``, ``continuity``, ``preservation``, ``accuracy`` and ``input_accuracy``, as
        estimates for all rows; each of the form of what it belongs to. 0 where all rows were judged.
    """

    n: int
    n_sample: int
    auc: float
    trustworthiness: dict[int, float]
    continuity: dict[int, float]
    preservation: dict[int, float]
    accuracy: dict[int, float] | None
    input_accuracy: dict[int, float] | None
    scale: float
    normalized_stress: float
    stress_1: float
    spearman: float
    pearson: float
    q_nx: NDArray[np.float64] = field(repr=False)
    r_nx: NDArray[np.float64] = field(repr=False)
    standard_errors: dict[str, Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the two curves, as plain numbers and dictionaries.

        Returns
        -------
        dict
            For a JSON file or a row of a table. The curves have n - 2 numbers each: they stay arrays.
        """
        return {name: value for name, value in vars(self).items() if name not in ("q_nx", "r_nx")}

    def __repr__(self) -> str:
        tables = {
            "trustworthiness": self.trustworthiness,
            "continuity": self.continuity,
            "preservation": self.preservation,
            "label accuracy, map": self.accuracy,
            "label accuracy, data": self.input_accuracy,
        }
        lines = ["k" + " " * 21 + "".join(f"{k:>8}" for k in self.trustworthiness)]
        lines += [
            f"{name:<22}" + "".join(f"{value:8.4f}" for value in table.values())
            for name, table in tables.items()
            if table is not None
        ]
        judged = "" if self.n_sample == self.n else f", {self.n_sample} of them judged"
        error = "" if self.n_sample == self.n else f" ± {self.standard_errors['auc']:.4f}"
        scaled = f"(stress-1 {self.stress_1:.4f}, map times {self.scale:.4g})"
        return "\n  ".join(
            [
                f"Neighborhoods of {self.n} rows{judged}",
                f"{'area under R_NX':<22}{self.auc:8.4f}{error}",
                *lines,
                f"{'stress':<22}{self.normalized_stress:8.4f} {scaled}",
                f"{'Shepard correlation':<22}{self.spearman:8.4f} (Pearson {self.pearson:.4f})",
            ]
        )


def neighborhoods(
    X: Any,
    Y: Any,
    *,
    labels: ArrayLike | None = None,
    metric: str = "euclidean",
    n_neighbors: int | Sequence[int] | None = None,
    n_sample: int | None = None,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Neighborhoods:
    """Judge a map by the neighbours and the distances that it keeps.

    Neighbours are those of smallest distance, in single precision; of equally distant rows the first ones. Distances in
    the map are Euclidean.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, D), n >= 3
        The data. With ``metric="precomputed"`` a dense matrix of shape (n, n), >= 0: row i holds the distances from i,
        it need not be symmetric, and its diagonal does not count.
    Y : Embedding or array-like of shape (n, d)
        The map, with any number of columns.
    labels : array-like of shape (n,), optional
        A known group of each row: integers, strings or booleans.
    metric : str
        Distance in the data: ``"euclidean"``, ``"cosine"``, ``"manhattan"`` (these three for sparse X too),
        ``"braycurtis"``, ``"canberra"``, ``"chebyshev"``, ``"correlation"``, ``"hamming"``, ``"sqeuclidean"``, of
        non-zero entries as sets ``"dice"``, ``"jaccard"``, ``"rogerstanimoto"``, ``"russellrao"``, ``"sokalsneath"``,
        ``"yule"``, or ``"precomputed"``.
    n_neighbors : int or sequence of int, in [1, n - 2], optional
        Sizes k of neighbourhoods; by default those of 5, 15 and 50 that are below n / 2, or 1.
    n_sample : int, in [2, n], optional
        Judge so many rows, drawn at random; their neighbours are still sought among all. By default all rows where
        there are at most 5,000, else 1,000.
    random_state : int, Generator, RandomState or None
        For the draw. The same number draws the same rows: compare maps of the same data so.
    n_jobs : int or None
        Number of threads; None means all processors. The result does not depend on it.

    Returns
    -------
    Neighborhoods
        In O(n_sample n (D + log n)) time; beside X, memory in proportion to n and to ``n_jobs``.

    Raises
    ------
    InputError
        If X or Y is not finite, their numbers of rows differ, there are fewer than 3, a row has no label, all rows of X
        or of Y are the same, the metric has no value for a pair of rows, or an argument is out of range.

    Notes
    -----
    Means over a sample of rows are unbiased; their standard errors are in the result. The stresses are sums over the
    sampled rows and all others. The rank correlation is exact up to 2,048 rows; beyond, it is that of about four
    million random pairs with a sampled row.

    Trustworthiness and continuity are divided by the largest sum that they can have for k, below n / 2 and above.

    References
    ----------
    Venna & Kaski (2006), Local multidimensional scaling (trustworthiness, continuity).

    Lee, Renard, Bernard, Dupont & Verleysen (2013), Type 1 and 2 mixtures of Kullback-Leibler divergences as cost
    functions in dimensionality reduction (R_NX and its area over log K; the area here is theirs, K = 1 .. n - 2).

    Kruskal (1964), Multidimensional scaling by optimizing goodness of fit (stress-1).

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) * [5.0, 2.0, 0.1]
    >>> flat = nf.evaluate.neighborhoods(X, X[:, :2], n_neighbors=10)  # the plane of the two long axes
    >>> line = nf.evaluate.neighborhoods(X, X[:, :1], n_neighbors=10)
    >>> flat.auc > 0.9 > line.auc
    True
    >>> flat.trustworthiness[10] > 0.99
    True
    """
    data = distances_of(_OWNER, X, metric)
    n = data.n
    if n < 3:
        raise InputError(_OWNER, "X", "of at least 3 rows", f"{n}")
    coordinates = _checks.check_matrix(_OWNER, "Y", Y, rows=n)
    if coordinates.shape[1] < 1:
        raise InputError(_OWNER, "Y", "of at least one column", f"shape {coordinates.shape}")
    plane = Euclidean(coordinates)
    ks = _sizes(n_neighbors, n)
    codes = None if labels is None else label_codes(_OWNER, labels, n)
    rng = _checks.check_random_state(_OWNER, random_state)
    rows = _sampled_rows(n_sample, n, rng)
    workers = _checks.check_n_jobs(_OWNER, n_jobs)

    from nearfar.evaluate._ranks import score_rows

    weights, offset = _area_weights(n)
    found = score_rows(data, plane, rows, ks, weights, codes, _partners(rows, n, rng), workers)
    sizes = np.arange(1, n - 1)
    q_nx = found.overlaps[:-1] / (sizes * len(rows))
    return Neighborhoods(
        n=n,
        n_sample=len(rows),
        q_nx=q_nx,
        r_nx=((n - 1) * q_nx - sizes) / (n - 1 - sizes),
        **_neighbor_scores(found, offset, ks, n, codes is not None),
        **_distance_scores(found, data.unit, plane.unit),
    )


def _sizes(n_neighbors: int | Sequence[int] | None, n: int) -> NDArray[np.int64]:
    if n_neighbors is None:
        return np.array([k for k in _SIZES if k < n / 2] or [1])
    given = [n_neighbors] if np.ndim(n_neighbors) == 0 else list(n_neighbors)  # type: ignore[arg-type]
    sizes = sorted({_checks.check_integer(_OWNER, "n_neighbors", k, low=1, high=n - 2) for k in given})
    if not sizes:
        raise InputError(_OWNER, "n_neighbors", "at least one size", "none")
    return np.array(sizes)


def _sampled_rows(n_sample: int | None, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if n_sample is None:
        n_sample = n if n <= _ALL_ROWS else _SOME_ROWS
    m = _checks.check_integer(_OWNER, "n_sample", n_sample, low=2, high=n)
    return np.arange(n) if m == n else np.sort(rng.choice(n, m, replace=False))


def _partners(rows: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return for each row places among its others: all of them, or random ones where these would be too many."""
    m = len(rows)
    if m * (n - 1) <= _PAIRS:
        return np.broadcast_to(np.arange(n - 1), (m, n - 1))
    return rng.integers(n - 1, size=(m, max(1, _PAIRS // m)))


def _area_weights(n: int) -> tuple[NDArray[np.float64], float]:
    """Return weights and offset that turn a row's numbers of shared neighbours, K = 1 .. n - 1, into its area.

    The area is linear in Q_NX, hence the mean of the rows' own areas, which have a standard error.
    """
    sizes = np.arange(1, n - 1)
    shares = (1 / sizes) / (1 / sizes).sum() / (n - 1 - sizes)
    return np.append(shares * (n - 1) / sizes, 0.0), float((shares * sizes).sum())


def _neighbor_scores(found: RowScores, offset: float, ks: NDArray[np.int64], n: int, labelled: bool) -> dict[str, Any]:
    """Return the means over the judged rows, and their standard errors for a sample without replacement."""
    # The largest sum of ranks beyond k that k neighbours can have.
    worst = np.where(ks < n / 2, ks * (2 * n - 3 * ks - 1), (n - ks) * (n - ks - 1)) / 2
    rows = {
        "trustworthiness": 1 - found.intruders / worst,
        "continuity": 1 - found.lost / worst,
        "preservation": found.shared / ks,
        "accuracy": found.hits[1],
        "input_accuracy": found.hits[0],
    }
    areas = found.weighted - offset
    m = len(areas)
    factor = ((1 - m / n) / m) ** 0.5

    def by_size(values: NDArray[np.float64]) -> dict[int, float]:
        return dict(zip(ks.tolist(), values.tolist(), strict=True))

    known = [name for name in rows if labelled or "accuracy" not in name]
    scores: dict[str, Any] = dict.fromkeys(rows) | {name: by_size(rows[name].mean(axis=0)) for name in known}
    errors: dict[str, Any] = dict.fromkeys(rows) | {
        name: by_size(factor * rows[name].std(axis=0, ddof=1)) for name in known
    }
    errors["auc"] = factor * float(areas.std(ddof=1))
    return {"auc": float(areas.mean()), "standard_errors": errors} | scores


def _distance_scores(found: RowScores, data_unit: float, map_unit: float) -> dict[str, Any]:
    r_sum, d_sum, rr, dd, rd = found.moments.sum(axis=0).tolist()
    for name, squares in (("X", rr), ("Y", dd)):
        if squares == 0:
            raise InputError(_OWNER, name, "of rows that are not all the same", "distances that are all 0")
    from nearfar.evaluate._rank_kernels import mean_ranks

    fit = rd**2 / (rr * dd)  # squared cosine of the angle between r and d: 1 where they are proportional
    count = len(found.moments) * len(found.overlaps)
    covariance = rd / count - r_sum * d_sum / count**2
    variances = max(rr / count - (r_sum / count) ** 2, 0.0), max(dd / count - (d_sum / count) ** 2, 0.0)
    r_ranks, d_ranks = (mean_ranks(side.ravel()) for side in found.pairs)
    return {
        "scale": rd / dd * (data_unit / map_unit),
        "normalized_stress": max(0.0, 1 - fit),
        "stress_1": max(0.0, 1 / fit - 1) ** 0.5 if fit > 0 else np.inf,
        "spearman": _correlation(r_ranks, d_ranks),
        "pearson": _bounded(covariance, *variances),
    }


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    return _bounded(float((a * b).sum()), float((a * a).sum()), float((b * b).sum()))


def _bounded(covariance: float, *variances: float) -> float:
    """Return the correlation, 0 where one side does not vary."""
    if min(variances) == 0:
        return 0.0
    return float(np.clip(covariance / (variances[0] * variances[1]) ** 0.5, -1, 1))
