"""Judging maps: what a map keeps of the neighbours and the distances of the data that it was made from.

With the ranks ρ_ij of j among the neighbours of i in the data and r_ij in the map (1 for the nearest, the point itself
left out, equal distances in the order of the rows), all that is said of neighbours follows from pairs of ranks::

    Q_NX(K) = |{(i, j): ρ_ij <= K, r_ij <= K}| / (K n)       R_NX(K) = ((n - 1) Q_NX(K) - K) / (n - 1 - K)

"""
# mypy: disable-error-code="misc,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from nearfar._core import checks as _checks
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import ColumnLike, Doubles, Flags, Floats, Longs, Seed, Singles
from nearfar._core.vector import FAST, in_units, unit_of
from nearfar._core.warn import warn_user
from nearfar.embedding.vectors import Embedding, Fitted
from nearfar.errors import InputError
from nearfar.evaluate import few_rows
from nearfar.evaluate.few_rows import Distances, Judged, RowScores
from nearfar.evaluate.labels import label_codes
from nearfar.evaluate.related import FAR, Related, shares_of
from nearfar.relations.matrix import Relation, as_relation, is_relation
from nearfar.relations.neighbors import coordinates_of, nearest_neighbors
from nearfar.search.distances import check_comparable, check_distances
from nearfar.search.elsewhere import SETS
from nearfar.search.lists import directions

_OWNER = "evaluate.neighborhoods"
_SIZES = (5, 15, 50)  # where the caller gives none, those that the rows allow
_ASKED, _NAMED = 15, 5  # neighbours that are asked for their labels, rows at odds with these that are shown
_ALL_ROWS, _SOME_ROWS = 5000, 1000  # up to so many rows all are judged, of more a sample
_PAIRS, _DRAWN = 2**22, 2**20  # for the rank correlation of the distances: all, or drawn of more
_BLOCK = 2**22  # distances of a block, in each of the two spaces
_ROUNDING = 1e-12  # what it leaves of 1 - cos of rows of one direction
_DIGIT = 11  # bits: three passes, and counts that stay in the first-level cache
_VALUES = 1 << _DIGIT
# Those of scikit-learn and SciPy that need no more than the two rows.
_SPARSE = ("euclidean", "cosine", "manhattan")
_NUMBERS = (*_SPARSE, "braycurtis", "canberra", "chebyshev", "correlation", "hamming", "sqeuclidean")

METRICS = (*_NUMBERS, *SETS, "precomputed")
_ALSO = {"cityblock": "manhattan", "l1": "manhattan", "l2": "euclidean"}

RELATION = "relation"
"""What stands for the metric where a relation judges."""
_NO_SCORES = ("q_nx", "r_nx", "missing", "false", "metric")


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
    missing, false : dict of int to ndarray of shape (n,), float32, in [0, 1]; or None
        With ``per_point``, of every row. ``missing[k]`` is the share of its k neighbours in the data that are not
        among its 3 k neighbours in the map, ``false[k]`` the share of its k neighbours in the map that are not among
        its 3 k neighbours in the data.
    metric : str
        The distance in the data by which the map was judged; "relation" where that is a relation.
    at_odds : dict of id to label, or None without labels
        Rows whose label at most one of their 15 nearest neighbours in the data has, while most of these have another,
        which is told. Of more than 5,000 rows only with ``per_point``.
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
    q_nx: Doubles = field(repr=False)
    r_nx: Doubles = field(repr=False)
    standard_errors: dict[str, float | dict[int, float] | None] = field(repr=False)
    missing: dict[int, Singles] | None = field(default=None, repr=False)
    false: dict[int, Singles] | None = field(default=None, repr=False)
    metric: str = "euclidean"
    at_odds: dict[Hashable, Hashable] | None = None

    def to_dict(self) -> dict[str, object]:
        """Return all scores but the two curves and what is said of each row, as plain numbers and dictionaries.

        Returns
        -------
        dict
            For a JSON file or a row of a table.
        """
        return {name: value for name, value in vars(self).items() if name not in _NO_SCORES}

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
        by = "the relation" if self.metric == RELATION else f"metric={self.metric!r}"
        judged += "" if self.metric == "euclidean" else f", by {by}"
        error = "" if self.n_sample == self.n else f" ± {self.standard_errors['auc']:.4f}"
        if self.at_odds:
            some = ", ".join(f"{key!r} ({label!r})" for key, label in list(self.at_odds.items())[:_NAMED])
            some += " ..." * (len(self.at_odds) > _NAMED)
            lines.append(f"{len(self.at_odds)} rows at odds with their label: {some}")
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
    X: Embedding | ArrayLike | csr_array[np.float64] | Relation,
    Y: Embedding | ArrayLike | Fitted,
    *,
    labels: ColumnLike | None = None,
    metric: str | None = None,
    n_neighbors: int | Sequence[int] | None = None,
    n_sample: int | None = None,
    per_point: bool = False,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> Neighborhoods:
    """Judge a map by the neighbours and the distances that it keeps.

    Neighbours are those of smallest distance, in single precision; of equally distant rows the first ones. Distances in
    the map are Euclidean.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, D), n >= 3
        The data. With ``metric="precomputed"`` a dense matrix of shape (n, n), >= 0: row i holds the distances from i,
        it need not be symmetric, and its diagonal does not count; where that is the largest of each row, they are
        similarities, which are refused. Or a Relation or a graph, of which a map was drawn: what is related is near,
        the stronger the nearer, all else as far as the steps to it; with ``per_point`` its relations alone count.
    Y : Embedding, fitted map, or array-like of shape (n, d)
        The map, with any number of columns. If both have ids (an Embedding, the index of a frame) other than row
        numbers, these must be the same in the same order.
    labels : array-like of shape (n,), or mapping from ids, optional
        A known group of each row, as for :func:`communities`; those of a pandas Series or a mapping are found by the
        ids of X.
    metric : str, optional
        Distance in the data; by default that which drew the map, where Y knows it (a fitted map, its ``vectors_``, also
        from a file), else the Euclidean: ``"euclidean"``, ``"cosine"``, ``"manhattan"`` (these three for sparse X too),
        ``"braycurtis"``, ``"canberra"``, ``"chebyshev"``, ``"correlation"``, ``"hamming"``, ``"sqeuclidean"``, of
        non-zero entries as sets ``"dice"``, ``"jaccard"``, ``"rogerstanimoto"``, ``"russellrao"``, ``"sokalsneath"``,
        ``"yule"``, or ``"precomputed"``.
    n_neighbors : int or sequence of int, in [1, n - 2], optional
        Sizes k of neighbourhoods; by default those of 5, 15 and 50 that are below n / 2, or 1.
    n_sample : int, in [2, n], optional
        Judge so many rows, drawn at random; their neighbours are still sought among all. By default all rows where
        there are at most 5,000, else 1,000.
    per_point : bool, default=False
        Say of every row, not of a sample, which share of its neighbours the map lost, and which share of those that it
        shows are false: ``missing`` and ``false``. From 10,000 rows on 99 % of the neighbours are found, on the
        average. Precomputed distances must be symmetric for it.
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

    Warns
    -----
    NearfarWarning
        If the map was drawn by a metric that is none of these, or from a relation that is not X: it is judged by the
        Euclidean distance.

    Notes
    -----
    Means over a sample of rows are unbiased; their standard errors are in the result. The stresses are sums over the
    sampled rows and all others. The rank correlation is exact up to 2,048 rows, if all are judged; else it is
    that of about a million random pairs with a sampled row.

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
    if hasattr(Y, "get_params") and not hasattr(Y, "embedding_"):
        raise InputError(_OWNER, "Y", "a fitted map", f"{type(Y).__name__}, which is not", "Call fit first.")
    data: Distances
    ids: Ids | None
    if is_relation(X):
        if metric is not None:
            raise InputError(_OWNER, "metric", "left out where X is a relation", repr(metric))
        data = Related(_OWNER, as_relation(X, _OWNER, "X"))
        metric, ids = RELATION, data.ids
    else:
        if metric is None:
            shape = tuple(X.shape if hasattr(X, "shape") else _checks.check_numbers(_OWNER, "X", X).shape)
            metric = metric_of(_OWNER, Y, distances=len(shape) == 2 and shape[0] == shape[1])
        X = coordinates_of(_OWNER, X, metric)[0]
        data, ids = distances_of(_OWNER, X, metric), rows_and_ids(_OWNER, X)[1]
    Y, n = getattr(Y, "vectors_", Y), data.n
    if n < 3:
        raise InputError(_OWNER, "X", "of at least 3 rows", f"{n}")
    coordinates = _checks.check_matrix(_OWNER, "Y", Y, rows=n)
    if coordinates.shape[1] < 1:
        raise InputError(_OWNER, "Y", "of at least one column", f"shape {coordinates.shape}")
    plane = Euclidean(coordinates)
    if n_neighbors is None:
        ks = np.array([k for k in _SIZES if k < n / 2] or [1])
    else:
        given = [n_neighbors] if np.ndim(n_neighbors) == 0 else list(n_neighbors)  # type: ignore[arg-type]
        ks = np.array(sorted({_checks.check_integer(_OWNER, "n_neighbors", k, low=1, high=n - 2) for k in given}))
        if not len(ks):
            raise InputError(_OWNER, "n_neighbors", "at least one size", "none")
    others = rows_and_ids(_OWNER, Y)[1]
    if not (ids is None or others is None or ids.is_range or others.is_range or ids == others):
        hint = "Put the rows in one order: Embedding.subset, or DataFrame.loc."
        raise InputError(_OWNER, "Y", "of the ids of X, in their order", f"{others!r}, not {ids!r}", hint)
    codes, different = (None, []) if labels is None else label_codes(_OWNER, labels, n, ids)
    rng = _checks.check_random_state(_OWNER, random_state)
    m = n if n <= _ALL_ROWS else _SOME_ROWS
    m = m if n_sample is None else _checks.check_integer(_OWNER, "n_sample", n_sample, low=2, high=n)
    rows = np.arange(n) if m == n else np.sort(rng.choice(n, m, replace=False))
    workers = _checks.check_n_jobs(_OWNER, n_jobs)

    weights, offset = _area_weights(n)
    if m * (n - 1) <= (_PAIRS if m == n else _DRAWN):  # places among the others of each row: all, or random ones
        partners = np.broadcast_to(np.arange(n - 1), (m, n - 1))
    else:
        partners = rng.integers(n - 1, size=(m, max(1, _DRAWN // m)))
    found = score_rows(data, plane, Judged(rows, ks, weights, codes, partners), workers)
    sizes = np.arange(1, n - 1)
    q_nx = found.overlaps[:-1] / (sizes * len(rows))
    missing = false = at_odds = None
    if codes is not None and (n <= _ALL_ROWS or per_point):
        k = min(_ASKED, n - 1)
        if isinstance(data, Related):
            near = data.shares(nearest_neighbors(coordinates, k, n_jobs=workers, random_state=0).indices, k).near
        else:
            near = nearest_neighbors(X, k, metric=metric, n_jobs=workers, random_state=0).indices
        at_odds, names = {}, Ids(n) if ids is None else ids
        same = (codes[near] == codes[:, None]).sum(axis=1)
        for row in np.flatnonzero(same <= 1).tolist():  # whose label hardly a neighbour has; most have another
            votes = np.bincount(codes[near[row]])
            if 2 * votes.max() > k and votes.argmax() != codes[row]:
                at_odds[names[row]] = different[int(votes.argmax())]
    if _checks.check_flag(_OWNER, "per_point", per_point):
        k = min(FAR * int(ks[-1]), n - 1)
        in_map = nearest_neighbors(coordinates, k, n_jobs=workers, random_state=0).indices
        if isinstance(data, Related):
            kept = [data.shares(in_map, k) for k in ks.tolist()]
        else:
            found_near = nearest_neighbors(X, k, metric=metric, n_jobs=workers, random_state=0)
            kept = [shares_of(found_near, in_map, k) for k in ks.tolist()]
        missing = dict(zip(ks.tolist(), (one.missing for one in kept), strict=True))
        false = dict(zip(ks.tolist(), (one.false for one in kept), strict=True))
    return Neighborhoods(
        n=n,
        missing=missing,
        false=false,
        n_sample=len(rows),
        metric=metric,
        at_odds=at_odds,
        q_nx=q_nx,
        r_nx=((n - 1) * q_nx - sizes) / (n - 1 - sizes),
        **_neighbor_scores(found, offset, ks, n, codes is not None),
        **_distance_scores(found, data.unit, plane.unit),
    )


def is_map(drawn: object) -> bool:
    """Whether an Embedding or what was fitted is a map: its parameters say by what it was drawn."""
    parameters = getattr(getattr(drawn, "vectors_", drawn), "parameters", None)
    return isinstance(parameters, Mapping) and "metric" in parameters


def metric_of(owner: str, drawn: object, *, distances: bool = False) -> str:
    """Return the metric that drew a map, if it is known, else the Euclidean.

    Parameters
    ----------
    owner : str
        Named in warnings.
    drawn : Embedding, fitted map or array-like
        The parameters of the first two hold the metric; that of a map of a relation is None.
    distances : bool
        Whether the data may be distances, which drew a map by ``metric="precomputed"``.

    Warns
    -----
    NearfarWarning
        If the metric is not one of those by which maps are judged, or it was a relation that drew the map.
    """
    if not is_map(drawn):
        return "euclidean"
    parameters: Mapping[str, object] = getattr(drawn, "vectors_", drawn).parameters  # type: ignore[attr-defined]
    metric = parameters["metric"]
    metric = _ALSO.get(metric, metric) if isinstance(metric, str) else metric
    if metric in METRICS and (metric != "precomputed" or distances) and not parameters.get("metric_params"):
        return str(metric)
    drawn_by, instead = f"by metric={metric!r}, by which it cannot be judged here", "metric= for another"
    if metric is None:
        drawn_by, instead = "from a relation, which was not given", "the relation, or metric="
    text = f"{owner}: the map was drawn {drawn_by}: it is by the Euclidean distance. Give {instead}."
    warn_user(text)
    return "euclidean"


def _area_weights(n: int) -> tuple[Doubles, float]:
    """Return weights and offset that turn a row's numbers of shared neighbours, K = 1 .. n - 1, into its area.

    The area is linear in Q_NX, hence the mean of the rows' own areas, which have a standard error.
    """
    sizes = np.arange(1, n - 1)
    shares = (1 / sizes) / (1 / sizes).sum() / (n - 1 - sizes)
    return np.append(shares * (n - 1) / sizes, 0.0), float((shares * sizes).sum())


def _neighbor_scores(found: RowScores, offset: float, ks: Longs, n: int, labelled: bool) -> dict[str, Any]:
    """Return the means over the judged rows, and their standard errors for a sample without replacement."""
    # The largest sum of ranks beyond k that k neighbours can have.
    worst = np.where(ks < n / 2, ks * (2 * n - 3 * ks - 1), (n - ks) * (n - ks - 1)) / 2
    rows = {
        "trustworthiness": 1 - found.sums[:, 0] / worst,
        "continuity": 1 - found.sums[:, 1] / worst,
        "preservation": found.sums[:, 2] / ks,
        "accuracy": found.hits[1] if labelled else None,
        "input_accuracy": found.hits[0] if labelled else None,
    }
    areas = found.weighted - offset
    m = len(areas)
    factor = ((1 - m / n) / m) ** 0.5

    means: dict[str, Any] = dict.fromkeys(rows)
    errors: dict[str, Any] = dict.fromkeys(rows)
    for name, values in rows.items():
        if values is not None:
            means[name] = dict(zip(ks.tolist(), values.mean(axis=0).tolist(), strict=True))
            errors[name] = dict(zip(ks.tolist(), (factor * values.std(axis=0, ddof=1)).tolist(), strict=True))
    errors["auc"] = factor * float(areas.std(ddof=1))
    return {"auc": float(areas.mean()), "standard_errors": errors, **means}


def _distance_scores(found: RowScores, data_unit: float, map_unit: float) -> dict[str, Any]:
    r_sum, d_sum, rr, dd, rd = found.moments.sum(axis=0).tolist()
    for name, squares in (("X", rr), ("Y", dd)):
        if squares == 0:
            raise InputError(_OWNER, name, "of rows that are not all the same", "distances that are all 0")

    fit = rd**2 / (rr * dd)  # squared cosine of the angle between r and d: 1 where they are proportional
    count = len(found.moments) * len(found.overlaps)
    covariance = rd / count - r_sum * d_sum / count**2
    variances = max(rr / count - (r_sum / count) ** 2, 0.0), max(dd / count - (d_sum / count) ** 2, 0.0)
    a, b = (ranks - ranks.mean() for ranks in (few_rows.mean_ranks_of(side.ravel()) for side in found.pairs))
    return {
        "scale": rd / dd * (data_unit / map_unit),
        "normalized_stress": max(0.0, 1 - fit),
        "stress_1": max(0.0, 1 / fit - 1) ** 0.5 if fit > 0 else np.inf,
        "spearman": _bounded(float((a * b).sum()), float((a * a).sum()), float((b * b).sum())),
        "pearson": _bounded(covariance, *variances),
    }


def _bounded(covariance: float, *variances: float) -> float:
    """Return the correlation, 0 where one side does not vary."""
    if min(variances) == 0:
        return 0.0
    return float(np.clip(covariance / (variances[0] * variances[1]) ** 0.5, -1, 1))


# Neighbours in the data against neighbours in the map, in blocks of a few rows on several threads. Counts are integers
# and sums are kept per row, so that the result does not depend on the blocks or the threads.


def score_rows(data: Distances, plane: Distances, judged: Judged, n_jobs: int) -> RowScores:
    """Compare the neighbours of some rows in the data with those in the map.

    Parameters
    ----------
    data, plane : Distances
        In the data and in the map, each divided by its unit.
    judged : Judged
        Which rows, and by what.
    n_jobs : int
        Number of threads.

    Returns
    -------
    RowScores
        O(m n (log n + columns)) time; a few arrays of 2**22 numbers, or of length n, per thread.
    """
    rows, ks, weights, labels, partners = judged
    n, m, s = data.n, len(rows), len(ks)
    sums, pairs = np.zeros((m, 3, s)), np.empty((2, *partners.shape), np.float32)
    found = RowScores(np.zeros(n - 1, np.int64), np.zeros(m), sums, np.zeros((2, m, s)), np.zeros((m, 5)), pairs)
    if m * n <= few_rows.FEW:
        few_rows.score_few(found, data.in_numpy(), plane.in_numpy(), judged, n_jobs)
        return found
    scratches: list[_Scratch] = []  # one for each thread
    free: list[_Scratch] = []

    def task(_block: int, start: int, stop: int) -> None:
        try:
            scratch = free.pop()
        except IndexError:
            scratch = _Scratch(n, 0 if labels is None else int(labels.max()) + 1)
            scratches.append(scratch)
        distances = np.empty((2, stop - start, n), np.float32)
        for space, out in zip((data, plane), distances, strict=True):
            space.write(rows[start:stop], out)
        for at in range(start, stop):
            row, lines = int(rows[at]), distances[:, at - start]
            found.pairs[:, at] = lines[:, partners[at] + (partners[at] >= row)]
            found.moments[at] = distance_moments(*lines)
            for line, order in zip(lines, scratch.orders, strict=True):
                nearest_first(line, row, order, *scratch.sorting)
            found.weighted[at] = compare_orders(
                *scratch.orders, ks, weights, (scratch.ranks, scratch.fresh), (scratch.overlaps, found.sums[at])
            )
            if labels is not None:
                for order, hits in zip(scratch.orders, found.hits[:, at], strict=True):
                    hits[:] = [vote(labels, order, k, scratch.votes) == labels[row] for k in ks]
        free.append(scratch)

    with single_threaded_blas():
        run_blocks(task, even_bounds(m, int(np.clip(_BLOCK // n, 4, 64))), n_jobs)
    for scratch in scratches:
        found.overlaps[:] += scratch.overlaps
    return found


class _Scratch:
    """The arrays of one thread."""

    def __init__(self, n: int, n_labels: int) -> None:
        self.orders = np.empty((2, n - 1), np.int32)
        self.sorting = np.empty(n - 1, np.uint32), np.empty(n - 1, np.uint32), np.empty(n - 1, np.int32)
        self.ranks = np.empty(n, np.int32)
        self.fresh = np.empty(n - 1, np.uint8)
        self.overlaps = np.zeros(n - 1, np.int64)
        self.votes = np.zeros(n_labels, np.int64)


# Distances from some rows to all rows, a block at a time.


def distances_of(owner: str, X: object, metric: str) -> Distances:
    """Check X and return its distances."""
    from scipy.sparse import issparse

    metric = _checks.check_choice(owner, "metric", metric, METRICS)
    sparse = issparse(X)
    if sparse and metric not in _SPARSE:
        known = ", ".join(repr(name) for name in _SPARSE)
        raise InputError(owner, "X", f"dense with metric={metric!r}", "a sparse matrix", f"Sparse X: {known}.")
    if metric == "precomputed":
        return _Precomputed(owner, X)
    checked: Any = (_checks.check_sparse if sparse else _checks.check_matrix)(owner, "X", X)
    if checked.shape[1] < 1:
        raise InputError(owner, "X", "of at least one column", f"shape {checked.shape}")
    check_comparable(owner, checked, metric)
    if sparse:
        wide = checked.astype(np.float64, copy=False)
        return _SparseEuclidean(wide) if metric == "euclidean" else _Pairwise(owner, wide, metric)
    if metric == "euclidean":
        return Euclidean(checked)
    if metric == "cosine":
        return _Cosine(owner, checked)
    return _Pairwise(owner, checked != 0 if metric in SETS else checked, metric)


class Euclidean:
    """Euclidean distances of the rows of a dense matrix."""

    def __init__(self, X: Floats) -> None:
        self.n = len(X)
        self._X, self.unit = in_units(X)

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        euclidean_rows(self._X, rows, out)

    def in_numpy(self) -> Distances:
        """Return the same by SciPy."""
        return _PlainEuclidean(self._X, self.unit)


class _PlainEuclidean(Distances):
    """Euclidean distances, where few are asked for."""

    def __init__(self, X: Floats, unit: float) -> None:
        self.n, self.unit, self._X = len(X), unit, X

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows, of their differences."""
        from scipy.spatial.distance import cdist

        out[:] = cdist(self._X[rows], self._X)


class _Precomputed(Distances):
    """Distances that are there already; row i holds those from row i."""

    def __init__(self, owner: str, X: object) -> None:
        D = check_distances(owner, X, directed=True)
        assert isinstance(D, np.ndarray)  # a sparse matrix was refused
        self.n = len(D)
        self._D, self.unit = in_units(D)

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        np.add(self._D[rows], 0, out=out, casting="same_kind")  # a negative zero becomes zero
        out[np.arange(len(rows)), rows] = 0


class _SparseEuclidean(Distances):
    """Euclidean distances of sparse rows, ``r² = |x|² + |y|² - 2 x . y`` in float64."""

    def __init__(self, X: csr_array[np.float64]) -> None:
        self.n = X.shape[0]
        self.unit = unit_of(X.data)
        self._X: Any = X / self.unit
        self._squares: Doubles = np.asarray(self._X.multiply(self._X).sum(axis=1)).ravel()

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        lengths = self._squares[rows][:, None] + self._squares
        squares = lengths - 2 * (self._X[rows] @ self._X.T).toarray()
        squares[squares < 1e-14 * lengths] = 0  # what rounding leaves of the difference of equal rows
        np.sqrt(squares, out=out, casting="same_kind")
        out[np.arange(len(rows)), rows] = 0


class _Cosine(Distances):
    """One less the cosines of the rows of a dense matrix, in float64."""

    unit = 1.0

    def __init__(self, owner: str, X: Floats) -> None:
        self.n = len(X)
        self._X = directions(owner, X.astype(np.float64))

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        np.subtract(1, self._X[rows] @ self._X.T, out=out, casting="same_kind")
        out[out < _ROUNDING] = 0
        out[np.arange(len(rows)), rows] = 0


class _Pairwise(Distances):
    """Distances by scikit-learn."""

    unit = 1.0

    def __init__(self, owner: str, X: Floats | csr_array[np.float64] | Flags, metric: str) -> None:
        self.n = X.shape[0]
        self._owner, self._X, self._metric = owner, X, metric

    def write(self, rows: Longs, out: Singles) -> None:
        """Write the distances from ``rows`` to all rows."""
        from sklearn.metrics import pairwise_distances

        found = np.asarray(pairwise_distances(self._X[rows], self._X, metric=self._metric))
        found[np.arange(len(rows)), rows] = 0
        with np.errstate(over="ignore"):
            np.maximum(found, 0, out=out, casting="same_kind")
        bad = rows[~np.isfinite(out).all(axis=1)]
        if bad.size:
            got = f"NaN or an infinite distance from {bad.size} or more rows, first {bad[:5].tolist()}"
            raise InputError(self._owner, "X", f"such that metric={self._metric!r} has a value for all pairs", got)


# Compiled loops over one row. The bits of a non-negative float32, read as an integer, grow with the number, so that
# distances are sorted by counting, digit by digit. Such a sort is stable: equal ones stay in the order of the rows.


@jit(fastmath=FAST)
def euclidean_rows(X, queries, out):
    """Write the Euclidean distances of rows ``queries`` of X from all rows, shape (q, n), float32.

    From the differences, not from scalar products: those would lose all digits of points much closer to each other than
    to the origin. X passes through the cache once for all queries.
    """
    n, d = X.shape
    tile = max(16, 32768 // d)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        for q in range(queries.shape[0]):
            x = X[queries[q]]
            for j in range(low, high):
                total = X.dtype.type(0)
                for c in range(d):
                    difference = X[j, c] - x[c]
                    total += difference * difference
                out[q, j] = math.sqrt(total)


@jit
def nearest_first(distances, itself, order, keys, other_keys, other_order):
    """Write the indices of all rows but ``itself`` by growing distance, ties by index: each of three digits is counted.

    ``distances``: (n,) float32, >= 0, finite, no negative zero; ``order``: (n - 1,) int32. The rest is scratch of
    length n - 1: keys uint32, ``other_order`` int32.
    """
    bits = distances.view(np.uint32)
    t = 0
    for j in range(distances.shape[0]):
        if j != itself:
            keys[t], order[t] = bits[j], j
            t += 1
    counts = np.zeros((3, _VALUES), np.int64)
    for key in keys:
        counts[0, key & (_VALUES - 1)] += 1
        counts[1, (key >> _DIGIT) & (_VALUES - 1)] += 1
        counts[2, key >> (2 * _DIGIT)] += 1
    from_keys, from_order, to_keys, to_order = keys, order, other_keys, other_order
    for digit in range(3):
        first = 0
        for value in range(_VALUES):
            count = counts[digit, value]
            counts[digit, value] = first
            first += count
        for t in range(keys.shape[0]):
            value = (from_keys[t] >> (digit * _DIGIT)) & (_VALUES - 1)
            place = counts[digit, value]
            counts[digit, value] = place + 1
            to_keys[place], to_order[place] = from_keys[t], from_order[t]
        from_keys, to_keys = to_keys, from_keys
        from_order, to_order = to_order, from_order
    for t in range(keys.shape[0]):  # an odd number of passes ends in the scratch
        order[t] = from_order[t]


@jit
def compare_orders(true_order, map_order, ks, weights, scratch, out):
    """Compare the neighbours of one row in the data with those in the map; return its weighted overlap.

    Parameters
    ----------
    true_order, map_order : (n - 1,) int32
        The other rows, nearest first.
    ks : (s,) int64
        Sizes of neighbourhoods, growing.
    weights : (n - 1,) float64
        For each K = 1 .. n - 1 the weight of the overlap of the two K-neighbourhoods in the result.
    scratch : (n,) int32 and (n - 1,) uint8
        Ranks, and how many neighbours the two neighbourhoods come to share at K (0, 1 or 2).
    out : (n - 1,) int64 and (3, s) float64
        To the K-th of the first is added how many neighbours the two K-neighbourhoods share. In the second for each k:
        by how much the ranks of the intruders of the map exceed k, the same of those that it lost, and how many
        neighbours are shared.
    """
    (ranks, fresh), (overlaps, sums) = scratch, out
    others = true_order.shape[0]
    for t in range(others):
        ranks[true_order[t]] = t + 1
        fresh[t] = 0
    sums[:] = 0
    largest = ks[-1]
    for t in range(others):
        map_rank, true_rank = t + 1, ranks[map_order[t]]
        fresh[max(map_rank, true_rank) - 1] += 1
        if min(map_rank, true_rank) <= largest:
            for s in range(ks.shape[0]):
                k = ks[s]
                if map_rank <= k and true_rank <= k:
                    sums[2, s] += 1
                elif map_rank <= k:
                    sums[0, s] += true_rank - k
                elif true_rank <= k:
                    sums[1, s] += map_rank - k
    shared = 0
    total = 0.0
    for t in range(others):
        shared += fresh[t]
        overlaps[t] += shared
        total += weights[t] * shared
    return total


@jit
def vote(labels, order, k, votes):
    """Return the most frequent label among the k nearest; of several, the one of the nearest of their rows.

    ``votes``: scratch, one zero per label; left so.
    """
    most = 0
    for t in range(k):
        votes[labels[order[t]]] += 1
        most = max(most, votes[labels[order[t]]])
    winner = -1
    for t in range(k):
        label = labels[order[t]]
        if winner < 0 and votes[label] == most:
            winner = label
    for t in range(k):
        votes[labels[order[t]]] = 0
    return winner


@jit(fastmath=FAST)
def distance_moments(true_distances, map_distances):
    """Return the sums of r, d, r², d² and r d over one row, float64; the row itself adds nothing."""
    r_sum, d_sum, rr, dd, rd = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(true_distances.shape[0]):
        r, d = np.float64(true_distances[j]), np.float64(map_distances[j])
        r_sum += r
        d_sum += d
        rr += r * r
        dd += d * d
        rd += r * d
    return r_sum, d_sum, rr, dd, rd
