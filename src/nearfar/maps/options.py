"""The parameters that maps share: their types as keyword arguments, and their defaults.

:class:`nearfar.maps.neighbor.NeighborEmbedding` says what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict

from nearfar._core.types import Numbers, Seed
from nearfar.base import FrameOutput

if TYPE_CHECKING:
    from nearfar.callbacks import Callback
    from nearfar.contracts import Field, Place
    from nearfar.far.fields import NoisePairs
    from nearfar.relations.affinities import Affinities
    from nearfar.relations.copies import Copies
    from nearfar.relations.matrix import Relation


class SampledOptions(TypedDict, total=False):
    """The keyword arguments of a map whose far field is given."""

    perplexity: float | Sequence[float] | Literal["multiscale"]
    n_neighbors: int | Literal["all"] | None
    metric: str | Callable[..., float]
    metric_params: Mapping[str, object] | None
    init: Literal["auto", "pca", "spectral", "random"] | Numbers
    learning_rate: float | Literal["auto"]
    max_iter: int
    early_exaggeration: float
    early_exaggeration_iter: int
    exaggeration: float
    min_grad_norm: float
    n_iter_without_progress: int
    density_weight: float
    callbacks: Sequence[Callback] | None
    random_state: Seed
    n_jobs: int | None
    verbose: int
    storage: str | PathLike[str] | None
    engine: str | Place | None


class MapOptions(SampledOptions, total=False):
    """The keyword arguments of a map."""

    far: str | Field | NoisePairs


class OfMap(FrameOutput):
    """Base of what a map is made of: what is given, with its default, and what a fit makes."""

    n_components: int
    perplexity: float | Sequence[float] | Literal["multiscale"] = 30.0
    n_neighbors: int | Literal["all"] | None = None
    metric: str | Callable[..., float] = "euclidean"
    metric_params: Mapping[str, object] | None = None
    far: str | Field | NoisePairs = "auto"
    init: Literal["auto", "pca", "spectral", "random"] | Numbers = "auto"
    learning_rate: float | Literal["auto"] = "auto"
    max_iter: int = 750
    early_exaggeration: float = 12.0
    early_exaggeration_iter: int = 250
    exaggeration: float = 1.0
    min_grad_norm: float = 1e-7
    n_iter_without_progress: int = 300
    density_weight: float = 0.0
    callbacks: Sequence[Callback] | None = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0
    storage: str | PathLike[str] | None = None
    engine: str | Place | None = None

    affinities_: Affinities | None
    relation_: Relation
    _copies: Copies | None = None
