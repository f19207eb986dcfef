"""What a map is made of: its parameters, what is decided before the data are read, and what is minimised of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.types import FloatType, Numbers, Seed, SparseMatrix
from nearfar.base import FrameOutput, PointsLike
from nearfar.callbacks import Callback
from nearfar.contracts import Divergence, Field, Floats, Kernel, Place
from nearfar.engines import THREADS
from nearfar.far.fields import NoisePairs
from nearfar.maps.objective import Normalization, RowBlocks
from nearfar.methods.affinities import symmetric
from nearfar.relations.affinities import Affinities
from nearfar.relations.copies import Copies
from nearfar.relations.matrix import Relation

EXACT_UP_TO = 4000
"""Points up to which all pairs take no longer than the mesh; above, far="auto" is the mesh. Measured, as those below,
over whole maps of 500 to 5,000 points."""
EXACT_WITH_EXP = 750, 1500
"""The same for kernels that take exp, a similarity of which takes two to six times as long; other divergences than KL
begin as t-SNE, whose pairs are quick."""
Data = PointsLike | Affinities | tuple[Numbers, Numbers]
"""What a map can show: rows of numbers, a relation, affinities; neighbours and their distances."""


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


class Parts(NamedTuple):
    """The parts of a map."""

    divergence: Divergence | str
    kernel: Kernel | str
    normalization: Normalization


@dataclass(frozen=True)
class MapSettings:
    """What is decided of a map before its data are read.

    ``far`` is what sums over all pairs: a field, pairs of noise, which ``noise`` are then, too, or a word; ``engine``
    what was asked for, None where the size of the data decides. ``kernel_of_steps`` is what the steps of a fit from the
    start suit, where the kernel is learned and will be another.
    """

    owner: str
    divergence: Divergence
    kernel: Kernel
    normalization: Normalization
    far: str | Field | NoisePairs
    noise: NoisePairs | None
    engine: str | Place | None
    n_jobs: int
    kernel_of_steps: Kernel | None = None


class Shown(NamedTuple):
    """What a map shows: a relation, the affinities behind it, and the rows of numbers behind these, if there are.

    ``given`` says that affinities were, who may need what workers have of them. With copies all these are of the
    different rows.
    """

    relation: Relation
    affinities: Affinities | None
    data: Floats | SparseMatrix | None
    given: bool = False
    copies: Copies | None = None


class Problem(NamedTuple):
    """What is minimised: the probabilities of the data, the parts of the map, where, and the importance of points.

    The kernel is that of the points: with copies there is one for each of the different rows.
    """

    P: RowBlocks
    settings: MapSettings
    kernel: Kernel
    engine: str | Place = THREADS
    dtype: FloatType = np.float32
    weights: NDArray[np.float64] | None = None
    copies: Copies | None = None

    def counted(self) -> csr_array:
        """Return P as it counts, all rows of it."""
        P = self.P.to_csr()
        return csr_array(symmetric(P, P.T)) if self.settings.normalization == "pair" else P
