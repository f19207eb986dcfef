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
    from nearfar.models.maps.inhomogeneous import InhomogeneousTSNE
    from nearfar.models.maps.mds import MDS, classical_mds
    from nearfar.models.maps.neighbor import NeighborEmbedding
    from nearfar.models.maps.recipes import ASNE, HSSNE, JSE, SSNE, TASNE, TSNE, WSSNE, NeRV
    from nearfar.models.words.multisense import MultiSenseWord2DM
    from nearfar.models.words.skipgram import SkipGram
    from nearfar.models.words.word2dm import Word2DM
    from nearfar.relations.affinities import Affinities
    from nearfar.relations.matrix import Relation
    from nearfar.text import Corpus, EncodedCorpus, Vocabulary

# Public name -> module that defines it; a module itself stands for its own name.
_HOMES = {
    "ASNE": "nearfar.models.maps.recipes",
    "Affinities": "nearfar.relations.affinities",
    "AnchoredEmbedding": "nearfar.anchored",
    "Corpus": "nearfar.text",
    "DensityEmbedding": "nearfar.density",
    "EDRep": "nearfar.models.edrep",
    "Embedding": "nearfar.embedding",
    "EncodedCorpus": "nearfar.text",
    "HSSNE": "nearfar.models.maps.recipes",
    "InhomogeneousTSNE": "nearfar.models.maps.inhomogeneous",
    "JSE": "nearfar.models.maps.recipes",
    "MDS": "nearfar.models.maps.mds",
    "MultiSenseWord2DM": "nearfar.models.words.multisense",
    "NeRV": "nearfar.models.maps.recipes",
    "NeighborEmbedding": "nearfar.models.maps.neighbor",
    "Relation": "nearfar.relations.matrix",
    "SSNE": "nearfar.models.maps.recipes",
    "SkipGram": "nearfar.models.words.skipgram",
    "TASNE": "nearfar.models.maps.recipes",
    "TSNE": "nearfar.models.maps.recipes",
    "Vocabulary": "nearfar.text",
    "WSSNE": "nearfar.models.maps.recipes",
    "Word2DM": "nearfar.models.words.word2dm",
    "callbacks": "nearfar.callbacks",
    "classical_mds": "nearfar.models.maps.mds",
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
