"""Weighted symmetric SNE: t-SNE in which points have an importance, ``q_ij = s_i s_j w_ij / S``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.checks import check_numbers
from nearfar._core.parameters import keeps_arguments
from nearfar._core.types import Numbers, Seed
from nearfar.callbacks import Callback
from nearfar.contracts import Field, Objective, Place
from nearfar.divergences.probability import KL
from nearfar.errors import InputError
from nearfar.far.fields import NoisePairs
from nearfar.kernels import StudentT
from nearfar.maps.problem import Parts, Problem
from nearfar.maps.recipes import Recipe
from nearfar.maps.solver import MapState
from nearfar.relations.copies import Copies


class WSSNE(Recipe):
    """Weighted symmetric SNE (ws-SNE): t-SNE in which points of importance take up more room.

    The similarity of two points is that of t-SNE times the importance of both, ``q_ij = s_i s_j w_ij / S``. Hubs of a
    graph, which crowd the middle of a map by t-SNE, push the others away from them. Time is O(n) per iteration, as for
    :class:`TSNE`.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the map.
    weights : "degree" or array-like of shape (n,), default="degree"
        Importance s of the points, > 0, whatever its scale; by default the sums of row and column of p (degree
        centrality). With the same for all points the map is that of :class:`TSNE`. Of equal rows, which are one point,
        the first counts.
    perplexity : float, sequence of float, or "multiscale", default=30.0
        How many neighbours a point has, as it were; of no use for a relation.
    n_neighbors : int or "all", optional
        Neighbours searched; by default 3 * perplexity.
    metric : str or callable, default="euclidean"
        Distance of the data, ``"precomputed"`` for a matrix of distances or for neighbours.
    metric_params : dict, optional
        What the metric needs beside two rows.
    far : {"auto", "exact", "fft", "barnes-hut", "noise"}, another name, Field or NoisePairs, default="auto"
        How all pairs are summed: pair by pair, on a mesh, or by a tree; ``"noise"`` is not for this map.
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d), default="auto"
        Start: principal components of the data, eigenvectors of the relation, random, or positions.
    learning_rate : float or "auto", default="auto"
        Length of a step per gradient of the cost.
    max_iter : int, default=750
        Iterations, the early ones included.
    early_exaggeration : float, default=12.0
        Factor of the data's probabilities in the first phase.
    early_exaggeration_iter : int, default=250
        Iterations of the first phase.
    exaggeration : float, default=1.0
        Factor of them after the first phase.
    min_grad_norm : float, default=1e-7
        Stop when the gradient is no longer than this.
    n_iter_without_progress : int, default=300
        Stop when the cost has not fallen for so many iterations after the first phase.
    density_weight : float, default=0.0
        How strongly the map keeps where the data are dense, see :class:`NeighborEmbedding`.
    callbacks : sequence of callable, optional
        Called every 50 iterations and at the end; if one returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed of start and neighbour search. The same seed gives the same bits.
    n_jobs : int, optional
        Number of threads; None means all processors.
    verbose : int, default=0
        1 shows progress.
    storage : path, optional
        Folder for neighbours and probabilities that are too large for memory.
    engine : str or Place, optional
        Where the map is drawn: by default as the size of the data says.

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
        self,
        n_components: int = 2,
        *,
        weights: Literal["degree"] | Numbers = "degree",
        perplexity: float | Sequence[float] | Literal["multiscale"] = 30.0,
        n_neighbors: int | Literal["all"] | None = None,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: Mapping[str, object] | None = None,
        far: str | Field | NoisePairs = "auto",
        init: Literal["auto", "pca", "spectral", "random"] | Numbers = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        max_iter: int = 750,
        early_exaggeration: float = 12.0,
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        min_grad_norm: float = 1e-7,
        n_iter_without_progress: int = 300,
        density_weight: float = 0.0,
        callbacks: Sequence[Callback] | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        storage: str | PathLike[str] | None = None,
        engine: str | Place | None = None,
    ) -> None: ...

    weights_: NDArray[np.float64]

    _grows: ClassVar[bool] = False

    def _filled(self) -> Parts:
        return Parts(KL(), StudentT(), "pair")

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        if self._noise() is not None:
            raise InputError(type(self).__name__, "far", "another than 'noise' for weighted points", repr(self.far))
        weights = self._weights_of(problem.P.to_csr(), problem.copies)
        return super()._objective(problem._replace(weights=weights), place, rng)

    def _keep_learned(self, objective: Objective, state: MapState) -> None:
        weights = np.empty(len(state.Y))
        weights[slice(None) if state.order is None else state.order] = objective.weights  # type: ignore[attr-defined]
        self.weights_ = weights if state.same is None else weights[state.same]

    def _weights_of(self, P: csr_array, copies: Copies | None) -> NDArray[np.float64]:
        return _importance(type(self).__name__, self.weights, P, copies)


def _importance(
    owner: str, weights: Literal["degree"] | Numbers, P: csr_array, copies: Copies | None
) -> NDArray[np.float64]:
    """Return the importance of the points, its mean 1: as given (of copies the first), or what P sums to."""
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
