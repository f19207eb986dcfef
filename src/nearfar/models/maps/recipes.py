"""The named methods of the family: a :class:`NeighborEmbedding` with divergence, kernel and normalisation filled in.

=======  ==================  ====================  =============
recipe   divergence          kernel                normalisation
=======  ==================  ====================  =============
TSNE     KL                  Student's t           pair
SSNE     KL                  exponential           pair
ASNE     KL                  exponential           row
TASNE    KL                  Student's t           row
HSSNE    KL                  heavy-tailed(alpha)   pair
NeRV     NeRV(lam)           exponential           row
JSE      Jensen-Shannon      exponential           row
WSSNE    KL                  Student's t, weighted pair
=======  ==================  ====================  =============
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import divergences, kernels
from nearfar.errors import InputError
from nearfar.models.maps._neighbor_objective import NeighborObjective, Objective
from nearfar.models.maps._neighbor_setup import Parts, field_of, noise_of
from nearfar.models.maps.neighbor import NeighborEmbedding

_SHARED = [
    parameter
    for name, parameter in inspect.signature(NeighborEmbedding).parameters.items()
    if name not in ("divergence", "kernel", "normalization")
]


class Recipe(NeighborEmbedding):
    """Base of the recipes: the parameters of :class:`NeighborEmbedding` without the three that are filled in.

    A recipe's own parameters are those that it annotates, with their defaults; they come after ``n_components``.
    """

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=vars(cls)[name], annotation=annotation)
            for name, annotation in inspect.get_annotations(cls).items()
            if name in vars(cls)
        ]
        cls.__signature__ = inspect.Signature([_SHARED[0], *own, *_SHARED[1:]])

    def __init__(self, n_components: int = 2, **parameters: Any) -> None:
        # Bound to the published signature: a name that is not in it is a TypeError, as anywhere.
        given = self.__signature__.bind(n_components, **parameters)
        given.apply_defaults()
        vars(self).update(given.arguments)


class TSNE(Recipe):
    """t-SNE: KL divergence, Student's t kernel, pairs; the map that everybody knows.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    van der Maaten & Hinton (2008), "Visualizing data using t-SNE".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TSNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "pair"


class SSNE(Recipe):
    """Symmetric SNE: KL divergence, exponential kernel, pairs.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Cook, Sutskever, Mnih & Hinton (2007), "Visualizing similarity data with a mixture of maps".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.SSNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.Exponential(), "pair"


class ASNE(Recipe):
    """SNE, the asymmetric original: KL divergence, exponential kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Hinton & Roweis (2002), "Stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.ASNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.Exponential(), "row"


class TASNE(Recipe):
    """t-ASNE: KL divergence, Student's t kernel, each row by itself.

    Parameters
    ----------
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Melville, "sneer" documentation, embedding methods.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TASNE(perplexity=10, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "row"


class HSSNE(Recipe):
    """Heavy-tailed symmetric SNE: KL divergence, heavy-tailed kernel, pairs; SSNE at alpha = 0, t-SNE at 1.

    Parameters
    ----------
    alpha : float, default=0.5
        Heaviness of the kernel's tail, >= 0, see :class:`nearfar.kernels.HeavyTailed`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Yang, King, Xu & Oja (2009), "Heavy-tailed symmetric stochastic neighbor embedding".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.HSSNE(perplexity=10, random_state=0, alpha=2.0).fit_transform(X).shape
    (60, 2)
    """

    alpha: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.HeavyTailed(self.alpha), "pair"


class NeRV(Recipe):
    """Neighbour retrieval visualizer: KL and reverse KL mixed, exponential kernel, each row by itself.

    Parameters
    ----------
    lam : float, default=0.5
        From precision (0) to recall (1), see :class:`nearfar.divergences.NeRV`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Venna, Peltonen, Nybo, Aidos & Kaski (2010), "Information retrieval perspective to nonlinear dimensionality
    reduction for data visualization". The precisions of the data are not carried over to the map's kernel, as in sneer.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.NeRV(perplexity=10, random_state=0, lam=0.2).fit_transform(X).shape
    (60, 2)
    """

    lam: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.NeRV(self.lam), kernels.Exponential(), "row"


class JSE(Recipe):
    """Jensen-Shannon embedding: mixture of KL and reverse KL, exponential kernel, each row by itself.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1], see :class:`nearfar.divergences.JensenShannon`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes.

    References
    ----------
    Lee, Renard, Bernard, Dupont & Verleysen (2013), "Type 1 and 2 mixtures of Kullback-Leibler divergences as cost
    functions in dimensionality reduction based on similarity preservation".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.JSE(perplexity=10, random_state=0, kappa=0.2).fit_transform(X).shape
    (60, 2)
    """

    kappa: float = 0.5

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.JensenShannon(self.kappa), kernels.Exponential(), "row"


class WSSNE(Recipe):
    """Weighted symmetric SNE (ws-SNE): t-SNE in which points of importance take up more room.

    The similarity of two points is that of t-SNE times the importance of both, ``q_ij = s_i s_j w_ij / S``. Hubs of a
    graph, which crowd the middle of a map by t-SNE, push the others away from them. Time is O(n) per iteration, as for
    :class:`TSNE`.

    Parameters
    ----------
    weights : "degree" or array-like of shape (n,), default="degree"
        Importance s of the points, > 0, whatever its scale; by default the sums of row and column of p (degree
        centrality). With the same for all points the map is that of :class:`TSNE`.
    n_components, perplexity, n_neighbors, metric, far, init, learning_rate, max_iter, early_exaggeration, \
early_exaggeration_iter, exaggeration, min_grad_norm, n_iter_without_progress, callbacks, random_state, n_jobs, verbose
        As for :class:`NeighborEmbedding`, like methods and attributes; ``far="noise"`` is not for this map.

    Attributes
    ----------
    weights_ : ndarray of shape (n,), float64
        Importance of the points, its mean 1.

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
    >>> est = nf.WSSNE(perplexity=10, random_state=0).fit(X)
    >>> est.embedding_.shape, bool(est.weights_.max() > 1.2)
    ((60, 2), True)
    """

    weights: str | ArrayLike = "degree"

    weights_: NDArray[np.float64]

    def _named_parts(self) -> tuple[Any, Any, Any]:
        return divergences.KL(), kernels.StudentT(), "pair"

    def _objective(self, P: Any, parts: Parts, dtype: Any, rng: np.random.Generator, n_jobs: int) -> Objective:  # noqa: ARG002
        owner, (divergence, kernel, normalization) = type(self).__name__, parts
        if noise_of(self.far) is not None:
            raise InputError(owner, "far", "another than 'noise' for weighted points", repr(self.far))
        self.weights_ = _importance(owner, self.weights, P)
        field = field_of(self, P.shape[0], divergence)
        return NeighborObjective(
            P, kernel, divergence, normalization, field, dtype=dtype, n_jobs=n_jobs, weights=self.weights_
        )


def _importance(owner: str, weights: Any, P: Any) -> NDArray[np.float64]:
    """Return the importance of the points, its mean 1: as given, or the sums of row and column of P."""
    n = P.shape[0]
    if isinstance(weights, str):
        if weights != "degree":
            raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights))
        found = np.asarray(P.sum(axis=0), np.float64) + np.asarray(P.sum(axis=1), np.float64)
    else:
        try:
            found = np.asarray(weights, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(owner, "weights", "'degree' or one number > 0 per point", repr(weights)) from error
        if found.shape != (n,):
            raise InputError(owner, "weights", f"of shape ({n},), one number per point", f"shape {found.shape}")
        bad = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
        if bad.size:
            raise InputError(owner, "weights", "finite and > 0", f"{found[bad[0]]} for row {bad[0]}")
    found = found / found.max()
    return np.asarray(found / found.mean())
