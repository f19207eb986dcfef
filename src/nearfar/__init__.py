"""nearfar learns vectors for things that are related.

The flat namespace below is loaded lazily (PEP 562): ``import nearfar`` imports next to nothing, a name is imported when
it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nearfar._version import __version__

if TYPE_CHECKING:
    from nearfar import (
        callbacks,
        composition,
        datasets,
        divergences,
        errors,
        evaluate,
        far,
        hyponymy,
        kernels,
        nn,
        plots,
    )
    from nearfar._warmup import warmup
    from nearfar.anchored import AnchoredEmbedding
    from nearfar.composition import compose
    from nearfar.compression import compress
    from nearfar.density import DensityEmbedding
    from nearfar.embedding import Embedding
    from nearfar.far.softmax import log_normalizers
    from nearfar.models.edrep import EDRep
    from nearfar.models.inhomogeneous import InhomogeneousTSNE
    from nearfar.models.mds import MDS, classical_mds
    from nearfar.models.multisense import MultiSenseWord2DM
    from nearfar.models.neighbor import NeighborEmbedding
    from nearfar.models.recipes import ASNE, HSSNE, JSE, SSNE, TASNE, TSNE, WSSNE, NeRV
    from nearfar.models.skipgram import SkipGram
    from nearfar.models.word2dm import Word2DM
    from nearfar.relations.affinities import Affinities
    from nearfar.relations.matrix import Relation
    from nearfar.text import Corpus, EncodedCorpus, Vocabulary

# Public name -> module that defines it; a module itself stands for its own name.
_HOMES = {
    "ASNE": "nearfar.models.recipes",
    "Affinities": "nearfar.relations.affinities",
    "AnchoredEmbedding": "nearfar.anchored",
    "Corpus": "nearfar.text",
    "DensityEmbedding": "nearfar.density",
    "EDRep": "nearfar.models.edrep",
    "Embedding": "nearfar.embedding",
    "EncodedCorpus": "nearfar.text",
    "HSSNE": "nearfar.models.recipes",
    "InhomogeneousTSNE": "nearfar.models.inhomogeneous",
    "JSE": "nearfar.models.recipes",
    "MDS": "nearfar.models.mds",
    "MultiSenseWord2DM": "nearfar.models.multisense",
    "NeRV": "nearfar.models.recipes",
    "NeighborEmbedding": "nearfar.models.neighbor",
    "Relation": "nearfar.relations.matrix",
    "SSNE": "nearfar.models.recipes",
    "SkipGram": "nearfar.models.skipgram",
    "TASNE": "nearfar.models.recipes",
    "TSNE": "nearfar.models.recipes",
    "Vocabulary": "nearfar.text",
    "WSSNE": "nearfar.models.recipes",
    "Word2DM": "nearfar.models.word2dm",
    "callbacks": "nearfar.callbacks",
    "classical_mds": "nearfar.models.mds",
    "compose": "nearfar.composition",
    "compress": "nearfar.compression",
    "composition": "nearfar.composition",
    "datasets": "nearfar.datasets",
    "divergences": "nearfar.divergences",
    "errors": "nearfar.errors",
    "evaluate": "nearfar.evaluate",
    "far": "nearfar.far",
    "hyponymy": "nearfar.hyponymy",
    "kernels": "nearfar.kernels",
    "log_normalizers": "nearfar.far.softmax",
    "nn": "nearfar.nn",
    "plots": "nearfar.plots",
    "warmup": "nearfar._warmup",
}

__all__ = [  # noqa: RUF022 - in the order of sorted()
    "ASNE",
    "Affinities",
    "AnchoredEmbedding",
    "Corpus",
    "DensityEmbedding",
    "EDRep",
    "Embedding",
    "EncodedCorpus",
    "HSSNE",
    "InhomogeneousTSNE",
    "JSE",
    "MDS",
    "MultiSenseWord2DM",
    "NeRV",
    "NeighborEmbedding",
    "Relation",
    "SSNE",
    "SkipGram",
    "TASNE",
    "TSNE",
    "Vocabulary",
    "WSSNE",
    "Word2DM",
    "__version__",
    "callbacks",
    "classical_mds",
    "compose",
    "composition",
    "compress",
    "datasets",
    "divergences",
    "errors",
    "evaluate",
    "far",
    "hyponymy",
    "kernels",
    "log_normalizers",
    "nn",
    "plots",
    "warmup",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nearfar' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"nearfar.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
