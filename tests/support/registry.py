"""What the contract suite runs over.

A new estimator or part enters it by a line here; test_meta.py tells when one is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from glove_example import GloVe
from scipy.sparse import csr_array

import nearfar as nf
from nearfar import far
from nearfar.far.registry import FAR_FIELDS as NAMED


def irregular_graph(rng: np.random.Generator, n: int = 30) -> csr_array:
    """A weighted directed graph with uneven degrees, self-loops, an isolate (row 5) and a sink (row 9)."""
    A = rng.random((n, n)) * (rng.random((n, n)) < rng.uniform(0.05, 0.4, n)[:, None])
    A[5], A[:, 5], A[9] = 0, 0, 0
    A[np.arange(0, n, 7), 2] = 1.5
    A[5, 2] = 0
    return csr_array(A)


OF_MAPS = "deterministic any-n-jobs init transform"
ABILITIES = {
    "EDRep": f"{OF_MAPS} matrix-input isolates-left-out two-sided resume",
    "SkipGram": "deterministic resume two-sided",
    "Word2DM": "deterministic resume two-sided",
    "MultiSenseWord2DM": "deterministic resume",
    "GloVe": "deterministic any-n-jobs resume two-sided matrix-input",
}
"""What an estimator can do, where it is no map: the same seed gives the same bits, for any number of workers; it takes
a start; a matrix is a relation to it; what has no relation gets zeros."""


@dataclass(frozen=True)
class EstimatorCase:
    """An estimator with small parameters."""

    cls: type
    parameters: dict[str, Any]
    name: str
    variant: bool = False  # differs from one above by its kernel, divergence or optimiser, and shares its code
    slow: bool = False  # a loop is compiled for it alone

    def make(self, **changed: Any) -> Any:
        return self.cls(**{**self.parameters, **changed})

    def takes(self, P: csr_array) -> Any:
        """What the estimator is fitted to: a plain matrix, unless that would be data to it."""
        return P if self.can("matrix-input") else nf.Relation.from_matrix(P)

    @property
    def iterations(self) -> str:
        """The parameter that says how long it runs."""
        return "n_epochs" if "n_epochs" in self.cls().get_params() else "max_iter"

    @property
    def workers(self) -> int:
        """As many as give the same bits as any other number of them, at most 2."""
        return 2 if self.can("any-n-jobs") else 1

    def width(self, n_components: int) -> int:
        """How long a row of the embedding is; that of a density matrix is its upper triangle."""
        return n_components * (n_components + 1) // 2 if "DM" in self.cls.__name__ else n_components

    def can(self, capability: str) -> bool:
        return capability in ABILITIES.get(self.cls.__name__, OF_MAPS).split()


_SMALL: dict[str, Any] = {"n_components": 4, "n_epochs": 4, "random_state": 3, "n_jobs": 1}
_MAP: dict[str, Any] = {"n_components": 2, "max_iter": 4, "early_exaggeration_iter": 2, "random_state": 3, "n_jobs": 1}

ESTIMATORS = [
    EstimatorCase(nf.EDRep, _SMALL, "EDRep"),
    EstimatorCase(nf.EDRep, {**_SMALL, "far": "exact", "gradient": "full"}, "EDRep, exact far field"),
    EstimatorCase(nf.EDRep, {**_SMALL, "n_clusters": 2}, "EDRep, two clusters"),
    EstimatorCase(nf.EDRep, {**_SMALL, "two_sided": True, "schedule": "constant"}, "EDRep, two-sided"),
    EstimatorCase(nf.NeighborEmbedding, _MAP, "NeighborEmbedding"),
    EstimatorCase(nf.NeighborEmbedding, {**_MAP, "far": "fft"}, "NeighborEmbedding, mesh"),
    EstimatorCase(nf.TSNE, _MAP, "TSNE"),
    EstimatorCase(nf.TSNE, {**_MAP, "far": "noise"}, "TSNE, sampled pairs"),
    EstimatorCase(nf.SSNE, _MAP, "SSNE", variant=True),
    EstimatorCase(nf.ASNE, _MAP, "ASNE", variant=True),
    EstimatorCase(nf.TASNE, _MAP, "TASNE", variant=True),
    EstimatorCase(nf.InhomogeneousTSNE, _MAP, "InhomogeneousTSNE", variant=True),
    EstimatorCase(nf.HSSNE, {**_MAP, "alpha": 0.3}, "HSSNE", variant=True),
    EstimatorCase(nf.NeRV, {**_MAP, "lam": 0.2}, "NeRV", variant=True),
    EstimatorCase(nf.JSE, {**_MAP, "kappa": 0.2}, "JSE", variant=True),
    EstimatorCase(nf.WSSNE, _MAP, "WSSNE", variant=True),
    EstimatorCase(nf.UMAP, _MAP, "UMAP", variant=True),
    EstimatorCase(nf.SkipGram, _SMALL, "SkipGram"),
    EstimatorCase(
        nf.SkipGram, {**_SMALL, "optimizer": "adam", "shared_negatives": False}, "SkipGram, Adam", variant=True
    ),
    EstimatorCase(nf.Word2DM, {**_SMALL, "n_factors": 3}, "Word2DM"),
    EstimatorCase(
        nf.Word2DM, {**_SMALL, "optimizer": "adam", "batch_size": 5}, "Word2DM, Adam", variant=True, slow=True
    ),
    EstimatorCase(nf.MultiSenseWord2DM, {**_SMALL, "n_senses": 2}, "MultiSenseWord2DM, clusters"),
    EstimatorCase(nf.MultiSenseWord2DM, {**_SMALL, "variant": "columns"}, "MultiSenseWord2DM, columns", variant=True),
    EstimatorCase(GloVe, _SMALL, "GloVe, outside the library"),
]


@dataclass(frozen=True)
class FarCase:
    """A far field with parameters under which it is smooth and close enough to be compared with itself."""

    make: Callable[[], Any]
    name: str
    sampled: bool = False  # which of the others are looked at depends on their order


_MORE_FAR_FIELDS = [
    FarCase(lambda: far.GaussianMixture(n_clusters=3), "gaussian-mixture, three clusters", sampled=True),
    FarCase(lambda: far.Noise(n_samples=15), "noise, some", sampled=True),
]


FAR_FIELDS = [FarCase(partial(far.far_field, name), name) for name in NAMED.names] + _MORE_FAR_FIELDS
"""All far fields that have a name, and some with other parameters."""


# Losses of torch: functions of scores (B, N) and target (B,), each with options. A name is one of `nearfar.nn`, or
# "module:function" for a loss that lives elsewhere. test_loss_contract.py runs over them.
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "global_nce": ("global_nce", {}),
    "global_nce, log q": ("global_nce", {"log_q": [-0.4, -2.1, -1.6, -3.0]}),
    "local_nce": ("local_nce", {}),
    "local_nce, log q": ("local_nce", {"log_q": [-0.4, -2.1, -1.6, -3.0]}),
    "full_softmax": ("full_softmax", {}),
    "hinge": ("hinge", {"margin": 0.7}),
    "hinge, semi-hard": ("hinge", {"margin": 1.3, "negatives": "semi-hard"}),
    "hinge, sum": ("hinge", {"margin": 1.5, "negatives": "sum"}),
    "debiased_nce": ("debiased_nce", {"temperature": 0.6, "class_prior": 0.05, "concentration": 0.5}),
}
