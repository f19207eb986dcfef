"""Weighted symmetric SNE: t-SNE in which points have an importance, ``q_ij = s_i s_j w_ij / S``."""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.checks import check_numbers
from nearfar._core.parameters import keeps_arguments
from nearfar._core.types import Numbers
from nearfar.contracts import Objective, Place
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.kernels import StudentT
from nearfar.maps.recipes import Recipe
from nearfar.maps.settings import MapOptions, Parts, Problem
from nearfar.methods.maps import MapState
from nearfar.relations.copies import Copies


class WSSNE(Recipe):
    """Weighted symmetric SNE (ws-SNE): t-SNE in which points of importance take up more room.

    The similarity of two points is that of t-SNE times the importance of both, ``q_ij = s_i s_j w_ij / S``. Hubs of a
    graph, which crowd the middle of a map by t-SNE, push the others away from them. Time is O(n) per iteration, as for
    :class:`TSNE`.

    Parameters
    ----------
    weights : "degree" or array-like of shape (n,), default="degree"
        Importance s of the points, > 0, whatever its scale; by default the sums of row and column of p (degree
        centrality). With the same for all points the map is that of :class:`TSNE`. Of equal rows, which are one point,
        the first counts.

    Attributes
    ----------
    weights_ : ndarray of shape (n,), float64
        Importance of the points, its mean 1.

    See Also
    --------
    NeighborEmbedding : more about the parameters that maps share; methods and attributes.

    Notes
    -----
    Points without any relation have no degree: they are left where they start. ``transform`` places new points as for
    :class:`TSNE`, all fitted points counting the same.

    References
    ----------
    Yang, Peltonen & Kaski (2014), "Optimization equivalence of divergences improves neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> est = nf.WSSNE(perplexity=10, max_iter=300, random_state=0).fit(X)
    >>> est.embedding_.shape, bool(est.weights_.max() > 1.2)
    ((60, 2), True)
    """

    weights: Literal["degree"] | Numbers

    @keeps_arguments
    def __init__(
        self, n_components: int = 2, *, weights: Literal["degree"] | Numbers = "degree", **options: Unpack[MapOptions]
    ) -> None: ...

    weights_: NDArray[np.float64]

    _grows: ClassVar[bool] = False

    def _parts(self) -> Parts:
        return Parts(KL(), StudentT(), "pair")

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if problem.settings.noise is not None:
            raise InputError(problem.settings.owner, "far", "another than 'noise' for weighted points", repr(self.far))
        weights = self._weights_of(problem.P.to_csr(), problem.copies)
        return super()._objective(problem._replace(weights=weights), place, rng)

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        weights = np.empty(len(state.Y))
        weights[slice(None) if state.order is None else state.order] = objective.weights  # type: ignore[attr-defined]
        self.weights_ = weights if state.same is None else weights[state.same]

    def _weights_of(self, P: csr_array, copies: Copies | None) -> NDArray[np.float64]:
        """Return the importance of the points, its mean 1: as given (of copies the first), or what P sums to."""
        owner, weights = type(self).__name__, self.weights
        n = P.shape[0] if copies is None else len(copies.same)
        if isinstance(weights, str):
            if weights != "degree":
                raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights))
            # Gradients, importance weighted kernel: deg_i, of the factor deg_i deg_j of w_ij
            found = np.asarray(P.sum(axis=0), np.float64) + np.asarray(P.sum(axis=1), np.float64)
        else:
            given = check_numbers(owner, "weights", weights, "'degree' or one number > 0 per point")
            found = given.astype(np.float64)
            if found.shape != (n,):
                raise InputError(owner, "weights", f"of shape ({n},), one number per point", f"shape {found.shape}")
            bad = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
            if bad.size:
                raise InputError(owner, "weights", "finite and > 0", f"{found[bad[0]]} for row {bad[0]}")
            found = found if copies is None else found[copies.first]
        found = found / found.max()
        return np.asarray(found / found.mean())
