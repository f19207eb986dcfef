"""Stability of a map, point by point: how far each lands from its place when the optimisation goes on from nearby.

A point whose neighbours pull it to several places stays where it first came to lie. So all points are moved at random
by about ``radius``, r, some rows are left out, and the optimisation goes on, several times. With y_i the map, z_i a
refit turned and scaled onto it, and L the root mean square distance of the map's points from their mean::

    moved_i     = median over refits of |z_i - y_i| / L
    stability_i = share of refits in which |z_i - y_i| / L <= d

A point is unstable if ``moved_i`` is more than ``limit``, d.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearfar._core.checks import check_integer, check_random_state, check_real
from nearfar._core.types import Doubles, Floats, Longs, Seed
from nearfar.errors import InputError
from nearfar.kernels import parameter_of_each
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.maps.neighbor import NeighborEmbedding
    from nearfar.relations.affinities import Affinities

_OWNER = "evaluate.map_stability"
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
    >>> est = nf.TSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> found = nf.evaluate.map_stability(est, random_state=0)
    >>> found.moved.shape
    (100,)
    """
    from nearfar.maps.neighbor import NeighborEmbedding

    if not isinstance(model, NeighborEmbedding):
        raise InputError(_OWNER, "model", "a fitted map such as nearfar.TSNE", type(model).__name__)
    model._check_fitted("map_stability")
    n_refits = check_integer(_OWNER, "n_refits", n_refits, low=1)
    max_iter = check_integer(_OWNER, "max_iter", max_iter, low=1)
    share = check_real(_OWNER, "share", share, low=0, high=1, open_low=True)
    radius = check_real(_OWNER, "radius", radius, low=0, open_low=True)
    limit = check_real(_OWNER, "limit", limit, low=0, open_low=True)
    rng = check_random_state(_OWNER, random_state)
    shown = _Shown.of(model)
    Y = shown.Y - shown.Y.mean(axis=0)
    n, d = Y.shape
    size = max(float(np.sqrt((Y.astype(np.float64) ** 2).sum(axis=1).mean())), np.finfo(np.float64).tiny)
    away = np.full((n_refits, n), np.nan)
    cut = shown.may_be_cut and n_refits * share >= 1
    for k, rows in enumerate(_samples(n, n_refits, share if cut else 1.0, rng)):
        data, rows = shown.among(rows)
        start = Y[rows] + rng.normal(scale=radius * size / np.sqrt(d), size=(len(rows), d)).astype(Y.dtype)
        seed = int(rng.integers(2**31 - 1))
        Z = shown.refit(data, init=start, max_iter=max_iter, random_state=seed)
        away[k, rows] = np.linalg.norm(_turned(Z, Y[rows]) - Y[rows], axis=1) / size
    judged = np.isfinite(away).any(axis=0)
    moved, stability = np.full(n, np.nan), np.full(n, np.nan)
    moved[judged] = np.nanmedian(away[:, judged], axis=0)
    stability[judged] = (away <= limit).sum(axis=0)[judged] / np.isfinite(away).sum(axis=0)[judged]
    moved, stability = moved[shown.same], stability[shown.same]
    unstable = float((moved[np.isfinite(moved)] > limit).mean())
    return MapStability(moved, stability, unstable, limit, model.relation_.row_ids)


class _Shown(NamedTuple):
    """What a map shows: its different rows, and which of them each row is."""

    model: NeighborEmbedding
    whole: Affinities | Relation
    relation: Relation
    Y: Floats
    same: Longs

    @classmethod
    def of(cls, model: NeighborEmbedding) -> _Shown:
        """Return what a fitted map shows."""
        whole = model.relation_ if model.affinities_ is None else model.affinities_
        copies = model._copies
        if copies is None or model.affinities_ is None:
            return cls(model, whole, model.relation_, model.embedding_, np.arange(len(model.embedding_)))
        return cls(model, whole, model.affinities_._drawn(), model.embedding_[copies.first], copies.same)

    @property
    def may_be_cut(self) -> bool:
        """Whether rows can be left out: not where a kernel has a parameter of each."""
        return parameter_of_each(self.model._checked().kernel) is None

    def among(self, rows: Longs) -> tuple[Affinities | Relation, Longs]:
        """Return what some rows show, and those of them that have a relation to others there."""
        if len(rows) == len(self.Y):
            return (self.whole if self.same.size == len(rows) else self.relation), rows
        P = self.relation.to_scipy().tocsr()
        within = P[rows][:, rows]
        related = np.asarray(within.sum(axis=1)).ravel() > 0
        rows, within = rows[related], within[related][:, related]
        if self.model.affinities_ is not None:  # what was a row of probabilities is one again
            sums: Doubles = np.asarray(within.sum(axis=1)).ravel()
            before: Doubles = np.asarray(P[rows].sum(axis=1)).ravel()
            within.data *= np.repeat(before / np.maximum(sums, np.finfo(np.float32).tiny), np.diff(within.indptr))
        return Relation.from_matrix(within, ids=self.relation.row_ids.take(rows)), rows

    def refit(self, data: Affinities | Relation, **parameters: object) -> Doubles:
        """Return where the optimisation goes from a start, shape (n, d)."""
        from sklearn.base import clone

        usual = clone(type(self.model)()).get_params()
        neighbors = {name: getattr(data, name, usual[name]) for name in _OF_NEIGHBORS}
        settled = {"early_exaggeration_iter": 0, "callbacks": None, "verbose": 0, "storage": None}
        again = clone(self.model).set_params(**neighbors, **settled, **parameters).fit(data)
        places: Doubles = again.embedding_.astype(np.float64)
        return places


def _samples(n: int, count: int, share: float, rng: np.random.Generator) -> Iterator[Longs]:
    """Yield the rows of each refit: windows of a shuffle, which hold each row equally often, or once more."""
    order = np.tile(rng.permutation(n), 2)
    taken = min(n, max(math.ceil(share * n), _FEWEST))
    for k in range(count):
        begin = k * n // count
        yield np.sort(order[begin : begin + taken])


def _turned(Z: Doubles, Y: Floats) -> Doubles:
    """Return Z turned, mirrored, scaled and shifted onto Y."""
    Z, mean = Z - Z.mean(axis=0), Y.mean(axis=0, dtype=np.float64)
    left, stretch, right = np.linalg.svd(Z.T @ (Y.astype(np.float64) - mean))
    scale = stretch.sum() / max(float((Z**2).sum()), np.finfo(np.float64).tiny)
    turned: Doubles = scale * (Z @ left @ right) + mean
    return turned
