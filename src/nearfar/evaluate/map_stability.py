"""Stability of a map, point by point: how far each lands from its place when the optimisation goes on from nearby.

A point whose neighbours pull it to several places stays where it first came to lie. So all points are moved at random
by about ``radius``, r, and the optimisation goes on, several times. With y_i the map, z_i a refit turned onto it, and L
the root mean square distance of the map's points from their mean::

    moved_i = median over refits of |z_i - y_i| / L

A point is unstable if that is more than ``limit``, d.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.checks import check_integer, check_random_state, check_real
from nearfar._core.types import Doubles, Seed
from nearfar.errors import InputError

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.maps.neighbor import NeighborEmbedding

_OWNER = "evaluate.map_stability"


@dataclass(frozen=True, eq=False)
class MapStability:
    """How far the points of a map move when it is optimised again from nearby.

    Parameters
    ----------
    moved : ndarray, shape (n,), float64
        Of each point, in units of the map's size; 0 is as stable as can be.
    unstable : float, in [0, 1]
        Share of the points that move further than ``limit``.
    limit : float
        d.
    ids : Ids
        The ids of the points.
    """

    moved: Doubles = field(repr=False)
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
    n_refits: int = 5,
    max_iter: int = 200,
    radius: float = 0.1,
    limit: float = 0.1,
    random_state: Seed = None,
) -> MapStability:
    """Return how far each point of a map moves when the optimisation goes on from nearby.

    Unlike missing and false neighbours it says where a place is one of several, as for points between two groups.

    Parameters
    ----------
    model : NeighborEmbedding
        A fitted map: :class:`nearfar.TSNE`, :class:`nearfar.UMAP` or another of the family. It stays as it is.
    n_refits : int, default=5
        How often the optimisation goes on.
    max_iter : int, default=200
        Iterations of each: five refits take a little longer than the map.
    radius : float, default=0.1
        Root mean square of the random moves from which refits start, in units of the map's size.
    limit : float, default=0.1
        A point is unstable if it moves further.
    random_state : int, Generator, RandomState or None, default=None
        For the moves, and the noise of UMAP.

    Returns
    -------
    MapStability
        ``metadata["moved"] = found.moved`` makes it a colour of the page of the map.

    Raises
    ------
    NotFittedError
        Before a fit.
    InputError
        If the model is no map of this family, or an argument is out of range.

    Notes
    -----
    Refits are of the fitted affinities or relation, without exaggeration; each is turned and shifted onto the map. The
    source projects ghosts of each point, which push nobody, along with the map, from within a radius r, and calls those
    unstable that end further away than d. Here all points move at once.

    References
    ----------
    Jung, Fujiwara & Jo (2024), "GhostUMAP: measuring pointwise instability in dimensionality reduction" (IEEE VIS).

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5)) + 8 * np.repeat(np.eye(2, 5), 50, axis=0)
    >>> est = nf.TSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> found = nf.evaluate.map_stability(est, max_iter=100, random_state=0)
    >>> found.moved.shape
    (100,)
    """
    from sklearn.base import clone

    from nearfar.maps.neighbor import NeighborEmbedding

    if not isinstance(model, NeighborEmbedding):
        raise InputError(_OWNER, "model", "a fitted map such as nearfar.TSNE", type(model).__name__)
    model._check_fitted("map_stability")
    n_refits = check_integer(_OWNER, "n_refits", n_refits, low=1)
    max_iter = check_integer(_OWNER, "max_iter", max_iter, low=1)
    radius = check_real(_OWNER, "radius", radius, low=0, open_low=True)
    limit = check_real(_OWNER, "limit", limit, low=0, open_low=True)
    rng = check_random_state(_OWNER, random_state)
    Y = model.embedding_ - model.embedding_.mean(axis=0)
    n, d = Y.shape
    size = float(np.sqrt((Y.astype(np.float64) ** 2).sum(axis=1).mean()))
    usual = dict.fromkeys(("perplexity", "n_neighbors", "metric", "metric_params"))
    given = model.relation_ if model.affinities_ is None else model.affinities_
    for name in usual:  # those that the affinities have, or the defaults
        usual[name] = getattr(given, name, clone(type(model)()).get_params()[name])
    refits = np.empty((n_refits, n))
    for k in range(n_refits):
        start = Y + rng.normal(scale=radius * size / np.sqrt(d), size=Y.shape).astype(Y.dtype)
        seed = int(rng.integers(2**31 - 1))
        more = {"init": start, "early_exaggeration_iter": 0, "max_iter": max_iter, "random_state": seed}
        again = clone(model).set_params(**usual, **more, callbacks=None, verbose=0, storage=None)
        refits[k] = np.linalg.norm(_turned(again.fit(given).embedding_, Y) - Y, axis=1)
    moved: Doubles = np.median(refits, axis=0) / max(size, np.finfo(np.float64).tiny)
    return MapStability(moved, float((moved > limit).mean()), limit, model.relation_.row_ids)


def _turned(Z: Doubles, Y: Doubles) -> Doubles:
    """Return Z turned, mirrored and shifted onto Y, whose mean is 0."""
    Z = Z.astype(np.float64) - Z.mean(axis=0, dtype=np.float64)
    left, _, right = np.linalg.svd(Z.T @ Y.astype(np.float64))
    turned: Doubles = Z @ left @ right
    return turned
