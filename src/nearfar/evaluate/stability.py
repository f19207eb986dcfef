"""Stability: of vectors from one run of a method to the next, and of a map, point by point.

Of vectors it is how many of its nearest neighbours an id keeps. For the k nearest neighbours ``N_a(i)`` and ``N_b(i)``
of i among the shared ids, in the embeddings a and b::

    overlap(a, b) = mean over i of |N_a(i) ∩ N_b(i)| / k

It does not change when an embedding is turned, and is k / (n - 1) for unrelated ones.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.checks import check_choice, check_integer, check_n_jobs, check_random_state, check_real
from nearfar._core.types import Doubles, Floats, Longs, Seed
from nearfar.errors import InputError
from nearfar.evaluate.neighborhoods import is_map
from nearfar.evaluate.words import check_embedding
from nearfar.kernels import parameter_of_each
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.embedding.vectors import Embedding
    from nearfar.maps.neighbor import NeighborEmbedding
    from nearfar.relations.affinities import Affinities

_OWNER = "evaluate.stability"
_OF_MAP = "evaluate.map_stability"
_ALL_IDS, _SOME_IDS = 5000, 1000  # up to so many shared ids all are judged, of more a sample


@dataclass(frozen=True, eq=False)
class Stability:
    """How far embeddings of the same ids agree on nearest neighbours.

    Parameters
    ----------
    overlap : float, in [0, 1]
        Mean share of the k nearest neighbours of an id that two embeddings have in common.
    interval : tuple of float
        Its 95 % interval for other ids like these, and, with three embeddings or more, for other runs like these.
    chance : float
        The overlap of unrelated embeddings, ``k / (n_shared - n_zero - 1)``.
    k : int
        Number of neighbours.
    n_shared : int
        Number of ids that all embeddings have.
    n_zero : int
        How many of them were left out because their vector is 0 in one of the embeddings: nothing is near them.
    pairs : ndarray, shape (s, s), float64
        Overlap of each two of the s embeddings.
    ids : Ids
        The ids that were judged, in the order of the first embedding.
    per_id : ndarray, shape (len(ids),), float64
        Overlap of each of them, mean over all pairs of embeddings.
    metric : str
        By what neighbours are near.
    """

    overlap: float
    interval: tuple[float, float]
    chance: float
    k: int
    n_shared: int
    n_zero: int
    pairs: Doubles = field(repr=False)
    ids: Ids = field(repr=False)
    per_id: Doubles = field(repr=False)
    metric: str = "cosine"

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Stability of {self.n_shared} ids: {self.overlap:.1%} of the {self.k} nearest neighbours are the same"
            f" (interval {low:.1%} to {high:.1%}, by chance {self.chance:.1%})"
        )

    def least_stable(self, topn: int = 10) -> list[tuple[Hashable, float]]:
        """Return the ids whose neighbours differ most.

        Parameters
        ----------
        topn : int, >= 1
            How many at most.

        Returns
        -------
        list of (id, overlap)
            Smallest first; ties in the order of the first embedding.
        """
        topn = check_integer("Stability.least_stable", "topn", topn, low=1)
        order = np.argsort(self.per_id, kind="stable")[:topn]
        return [(self.ids[row], float(self.per_id[row])) for row in order.tolist()]


def stability(
    embeddings: Sequence[Embedding],
    k: int = 10,
    *,
    metric: str | None = None,
    n_sample: int | None = None,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> Stability:
    """Compare the nearest neighbours that embeddings of the same ids give, such as those of different seeds.

    Parameters
    ----------
    embeddings : list of two or more Embedding
        Of any length and number of components; neighbours are sought among the ids that all have. Of two-sided ones
        the first side counts.
    k : int, default=10
        Number of neighbours to compare, at most the number of shared ids less 1.
    metric : {"cosine", "euclidean"}, optional
        What is near: by default Euclidean where all are maps, else the cosine. With "cosine", ids whose vector is 0 in
        one of the embeddings are left out.
    n_sample : int, >= 2, optional
        Judge so many of the shared ids, drawn at random; their neighbours are still sought among all. By default all
        where there are at most 5,000, else 1,000.
    random_state : int, Generator, RandomState or None
        For the draw.
    n_jobs : int or None
        Number of threads; None means all processors. The result does not depend on it.

    Returns
    -------
    Stability
        In O(s n_sample n d) time for s embeddings.

    Raises
    ------
    InputError
        If there are fewer than two embeddings or three shared ids, or an argument is out of range.

    Notes
    -----
    The interval is the mean ± half its width, cut to [0, 1]. Half its width is the root of two squares: 1.96 standard
    errors over the ids, and, with s >= 3 embeddings, the quantile of Student's t with s - 1 degrees of freedom times
    the standard error by the jackknife over the embeddings (pairs that share an embedding are not independent). Two
    embeddings say nothing of how much a third would differ: then only the first counts.

    References
    ----------
    Wendlandt, Kummerfeld & Mihalcea (2018), Factors influencing the surprising instability of word embeddings (overlap
    of the ten nearest neighbours between runs).

    Examples
    --------
    >>> import nearfar as nf
    >>> walk = nf.datasets.dcsbm(300, 3, 12.0, alpha=5.0, random_state=1).relation.random_walk(3)
    >>> seeds = [nf.EDRep(n_components=8, random_state=seed).fit(walk).vectors_ for seed in range(3)]
    >>> found = nf.evaluate.stability(seeds, k=10)
    >>> found.overlap > 3 * found.chance
    True
    """
    if not isinstance(embeddings, (list, tuple)) or len(embeddings) < 2:
        got = f"{len(embeddings)}" if isinstance(embeddings, (list, tuple)) else type(embeddings).__name__
        raise InputError(_OWNER, "embeddings", "a list of at least two embeddings", got)
    for number, embedding in enumerate(embeddings):
        check_embedding(_OWNER, embedding, f"embeddings[{number}]")
    if metric is None:
        metric = "euclidean" if all(map(is_map, embeddings)) else "cosine"
    check_choice(_OWNER, "metric", metric, ("cosine", "euclidean"))
    workers = check_n_jobs(_OWNER, n_jobs)
    rng = check_random_state(_OWNER, random_state)
    ids, rows, n_zero = _shared(embeddings, metric)
    n = len(ids)
    k = check_integer(_OWNER, "k", k, low=1, high=n - 1)
    if n_sample is None:
        n_sample = n if n <= _ALL_IDS else _SOME_IDS
    m = check_integer(_OWNER, "n_sample", n_sample, low=2, high=n)
    judged = np.arange(n) if m == n else np.sort(rng.choice(n, m, replace=False))

    neighbors = [
        _neighbors(np.asarray(emb.vectors[at]), judged, k, metric, workers)
        for emb, at in zip(embeddings, rows, strict=True)
    ]
    s = len(neighbors)
    pairs, per_id = np.eye(s), np.zeros(m)
    for a in range(s):
        for b in range(a):
            both = np.sort(np.concatenate([neighbors[a], neighbors[b]], axis=1), axis=1)
            shared = (both[:, 1:] == both[:, :-1]).sum(axis=1) / neighbors[a].shape[1]  # of neighbours, for each row
            pairs[a, b] = pairs[b, a] = shared.mean()
            per_id += shared
    per_id /= s * (s - 1) / 2
    overlap = float(per_id.mean())
    return Stability(
        overlap=overlap,
        interval=_interval(overlap, per_id, pairs),
        chance=k / (n - 1),
        k=k,
        n_shared=n + n_zero,
        n_zero=n_zero,
        pairs=pairs,
        ids=ids.take(judged),
        per_id=per_id,
        metric=metric,
    )


def _shared(embeddings: Sequence[Embedding], metric: str) -> tuple[Ids, list[Longs], int]:
    """Return the ids that all embeddings have, their rows in each, and how many were left out for a vector of 0."""
    first = embeddings[0].ids
    rows = np.stack([embedding.ids.rows(first) for embedding in embeddings])
    rows = rows[:, (rows >= 0).all(axis=0)]
    if rows.shape[1] < 3:
        some = "; ".join(str(embedding.ids[:3]) for embedding in embeddings[:2])
        hint = f"Text and numbers are different ids; there are {some}."
        raise InputError(_OWNER, "embeddings", "such that all share at least three ids", f"{rows.shape[1]}", hint)
    n_zero = 0
    if metric == "cosine":
        known = np.all([emb.vectors[at].any(axis=1) for emb, at in zip(embeddings, rows, strict=True)], axis=0)
        if known.sum() < 3:
            got = f"all zero but {int(known.sum())}"
            raise InputError(_OWNER, "embeddings", "such that at least three shared vectors are not 0", got)
        n_zero = int((~known).sum())
        rows = rows[:, known]
    return first.take(rows[0]), list(rows), n_zero


def _neighbors(X: Floats, judged: Longs, k: int, metric: str, n_jobs: int) -> Longs:
    """Return the k nearest rows of each judged row, shape (m, k)."""
    from nearfar.search.products import nearest_rows, row_norms, unit_rows

    if metric == "cosine":
        return nearest_rows(unit_rows(X[judged]), X, k, norms=row_norms(X), skip=judged, n_jobs=n_jobs)[0]
    # Of |x - y|² only x . y - |y|² / 2 depends on y: the largest such product is the smallest distance.
    X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    X /= max(float(np.abs(X).max()), np.finfo(np.float64).tiny)
    Y = np.c_[X, -0.5 * np.einsum("ij,ij->i", X, X)]
    Q = np.c_[X[judged], np.ones(len(judged))]
    return nearest_rows(Q, Y, k, skip=judged, n_jobs=n_jobs)[0]


def _interval(overlap: float, per_id: Doubles, pairs: Doubles) -> tuple[float, float]:
    from scipy.stats import norm, t

    s = len(pairs)
    half = norm.ppf(0.975) * per_id.std(ddof=1) / len(per_id) ** 0.5
    if s > 2:
        sums = pairs.sum(axis=1) - 1
        left_out = (sums.sum() - 2 * sums) / ((s - 1) * (s - 2))  # mean over the pairs without each embedding
        error = ((s - 1) / s * ((left_out - left_out.mean()) ** 2).sum()) ** 0.5
        half = (half**2 + (t.ppf(0.975, s - 1) * error) ** 2) ** 0.5
    return max(0.0, float(overlap - half)), min(1.0, float(overlap + half))


# -- of a map, point by point: how far each lands from its place when the optimisation goes on from nearby -------------


_OF_NEIGHBORS = ("perplexity", "n_neighbors", "metric", "metric_params")
_FEWEST = 4  # rows of a refit


@dataclass(frozen=True, eq=False)
class MapStability:
    """How far the points of a map move when it is optimised again from nearby.

    Parameters
    ----------
    moved : ndarray, shape (n,), float64
        Of each point, in units of the map's size; 0 is as stable as can be.
    stability : ndarray, shape (n,), float64
        Of each point, the share of the refits with it in which it stays within ``limit``.
    unstable : float, in [0, 1]
        Share of the points that move further than ``limit``.
    limit : float
        d.
    ids : Ids
        The ids of the points.
    """

    moved: Doubles = field(repr=False)
    stability: Doubles = field(repr=False)
    unstable: float
    limit: float
    ids: Ids = field(repr=False)

    def least_stable(self, topn: int = 10) -> list[tuple[Hashable, float]]:
        """Return the ids that move most.

        Parameters
        ----------
        topn : int, default=10
            How many at most.

        Returns
        -------
        list of (id, moved)
            Largest first; ties in the order of the map.
        """
        topn = check_integer("MapStability.least_stable", "topn", topn, low=1)
        order = np.argsort(-self.moved, kind="stable")[:topn]
        return [(self.ids[row], float(self.moved[row])) for row in order.tolist()]


def map_stability(
    model: NeighborEmbedding,
    *,
    n_refits: int = 4,
    max_iter: int = 100,
    share: float = 0.8,
    radius: float = 0.1,
    limit: float = 0.1,
    random_state: Seed = None,
) -> MapStability:
    """Return how far each point of a map moves when the optimisation goes on from nearby, with other rows.

    Unlike missing and false neighbours it says where a place is one of several, as for points between two groups.

    Parameters
    ----------
    model : NeighborEmbedding
        A fitted map: :class:`nearfar.TSNE`, :class:`nearfar.UMAP` or another of the family. It stays as it is.
    n_refits : int, default=4
        How often the optimisation goes on.
    max_iter : int, default=100
        Iterations of each: four refits take less time than the map.
    share : float, default=0.8
        Share of the rows in each refit, in (0, 1]; each row is in as many refits as others, or in one more. With 1, and
        where there are too few refits for each row to be in one, all are in all, and the starts alone differ.
    radius : float, default=0.1
        Root mean square of the random moves from which refits start, in units of the map's size.
    limit : float, default=0.1
        A point is unstable if it moves further.
    random_state : int, Generator, RandomState or None, default=None
        For the moves, and the noise of UMAP.

    Returns
    -------
    MapStability
        ``vectors.map(model, stability=found)`` makes it a colour of the page of the map.

    Raises
    ------
    NotFittedError
        Before a fit.
    InputError
        If the model is no map of this family, or an argument is out of range.

    Notes
    -----
    Refits are of the fitted affinities or relation among the rows that are there, those of a row with their sum as
    before, without exaggeration. The source projects ghosts of each point, which push nobody, along with the map, from
    within a radius r, and calls those unstable that end further away than d: (r, d)-stability. Here all points move at
    once, and rows are left out as in a jackknife. Rows without a relation to those that are there are not judged then.
    Where a kernel has a parameter of each point, all rows are in all refits.

    References
    ----------
    Jung, Fujiwara & Jo (2024), "GhostUMAP: measuring pointwise instability in dimensionality reduction" (IEEE VIS);
    (2025), "GhostUMAP2: measuring and analyzing (r,d)-stability of UMAP".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5)) + 8 * np.repeat(np.eye(2, 5), 50, axis=0)
    >>> est = nf.TSNE(perplexity=10, max_iter=100, random_state=0).fit(X)
    >>> found = nf.evaluate.map_stability(est, random_state=0)
    >>> found.moved.shape
    (100,)
    """
    from sklearn.base import clone

    from nearfar.maps.neighbor import NeighborEmbedding

    if not isinstance(model, NeighborEmbedding):
        raise InputError(_OF_MAP, "model", "a fitted map such as nearfar.TSNE", type(model).__name__)
    model._check_fitted("map_stability")
    n_refits = check_integer(_OF_MAP, "n_refits", n_refits, low=1)
    max_iter = check_integer(_OF_MAP, "max_iter", max_iter, low=1)
    share = check_real(_OF_MAP, "share", share, low=0, high=1, open_low=True)
    radius = check_real(_OF_MAP, "radius", radius, low=0, open_low=True)
    limit = check_real(_OF_MAP, "limit", limit, low=0, open_low=True)
    rng = check_random_state(_OF_MAP, random_state)
    affinities, copies = model.affinities_, model._copies
    whole: Affinities | Relation = model.relation_ if affinities is None else affinities
    relation, Y, same = model.relation_, model.embedding_, np.arange(len(model.embedding_))
    if affinities is not None and copies is not None:  # of equal rows one is drawn
        whole = relation = affinities._drawn
        Y, same = Y[copies.first], copies.same
    Y = Y - Y.mean(axis=0)
    n, d = Y.shape
    size = max(float(np.sqrt((Y.astype(np.float64) ** 2).sum(axis=1).mean())), np.finfo(np.float64).tiny)
    away = np.full((n_refits, n), np.nan)
    of_each = parameter_of_each(model._settle(runs=False).kernel) is not None  # then no row can be left out
    cut = not of_each and n_refits * share >= 1
    usual = clone(type(model)()).get_params()
    settled = {"early_exaggeration_iter": 0, "max_iter": max_iter, "callbacks": None, "verbose": 0, "storage": None}
    # Windows of a shuffle, which hold each row equally often, or once more.
    order = np.tile(rng.permutation(n), 2)
    taken = min(n, max(math.ceil((share if cut else 1.0) * n), _FEWEST))
    for k in range(n_refits):
        begin = k * n // n_refits
        data, rows = whole, np.sort(order[begin : begin + taken])
        if taken < n:  # the relation of these rows, and those of them that have a relation to others there
            P = relation.to_scipy().tocsr()
            within = P[rows][:, rows]
            related = np.asarray(within.sum(axis=1)).ravel() > 0
            rows, within = rows[related], within[related][:, related]
            if affinities is not None:  # what was a row of probabilities is one again
                sums: Doubles = np.asarray(within.sum(axis=1)).ravel()
                before: Doubles = np.asarray(P[rows].sum(axis=1)).ravel()
                within.data *= np.repeat(before / np.maximum(sums, np.finfo(np.float32).tiny), np.diff(within.indptr))
            data = Relation.from_matrix(within, ids=relation.row_ids.take(rows))
        start = Y[rows] + rng.normal(scale=radius * size / np.sqrt(d), size=(len(rows), d)).astype(Y.dtype)
        seed = int(rng.integers(2**31 - 1))
        neighbors = {name: getattr(data, name, usual[name]) for name in _OF_NEIGHBORS}
        again = clone(model).set_params(**neighbors, **settled, init=start, random_state=seed).fit(data)
        # Turned, mirrored, scaled and shifted onto the places before.
        Z, mean = np.asarray(again.embedding_, np.float64), Y[rows].mean(axis=0, dtype=np.float64)
        Z = Z - Z.mean(axis=0)
        left, stretch, right = np.linalg.svd(Z.T @ (Y[rows].astype(np.float64) - mean))
        scale = stretch.sum() / max(float((Z**2).sum()), np.finfo(np.float64).tiny)
        away[k, rows] = np.linalg.norm(scale * (Z @ left @ right) + mean - Y[rows], axis=1) / size
    judged = np.isfinite(away).any(axis=0)
    moved, stability = np.full(n, np.nan), np.full(n, np.nan)
    moved[judged] = np.nanmedian(away[:, judged], axis=0)
    stability[judged] = (away <= limit).sum(axis=0)[judged] / np.isfinite(away).sum(axis=0)[judged]
    moved, stability = moved[same], stability[same]
    unstable = float((moved[np.isfinite(moved)] > limit).mean())
    return MapStability(moved, stability, unstable, limit, model.relation_.row_ids)
