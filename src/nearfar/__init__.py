"""nearfar learns vectors for things that are related.

The flat namespace below is loaded lazily (PEP 562): ``import nearfar`` imports next to nothing, a name is imported when
it is first used.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from nearfar._core.names import public_names
from nearfar._version import __version__

if TYPE_CHECKING:
    from nearfar import callbacks, datasets, divergences, errors, evaluate, far, kernels, nn, plots, scanpy, viewer
    from nearfar.cli.warmup import warmup
    from nearfar.density import composition, hyponymy
    from nearfar.density.composition import compose
    from nearfar.density.embedding import DensityEmbedding
    from nearfar.density.senses import SenseEmbedding
    from nearfar.embedding import index
    from nearfar.embedding.anchored import AnchoredEmbedding
    from nearfar.embedding.vectors import Embedding
    from nearfar.estimators.communities import Communities, communities
    from nearfar.estimators.edrep import EDRep
    from nearfar.evaluate.alignment import align
    from nearfar.far.softmax import log_normalizers
    from nearfar.maps.mds.estimator import MDS, classical_mds
    from nearfar.maps.neighbor import NeighborEmbedding
    from nearfar.maps.recipes import ASNE, HSSNE, JSE, SSNE, TASNE, TSNE, UMAP, WSSNE, InhomogeneousTSNE, NeRV
    from nearfar.reading.advice import choose
    from nearfar.reading.files import read
    from nearfar.reading.preparation import prepare
    from nearfar.relations.affinities import Affinities
    from nearfar.relations.matrix import Relation
    from nearfar.tables.compress import compress
    from nearfar.text import Corpus, EncodedCorpus, Vocabulary
    from nearfar.words.multisense import MultiSenseWord2DM
    from nearfar.words.skipgram import SkipGram
    from nearfar.words.word2dm import Word2DM

# The public names by the module that defines them, or that they are; modules of this folder are not named.
_HOMES = {
    ".cli.warmup": {"warmup"},
    ".density.composition": {"compose", "composition"},
    ".density.embedding": {"DensityEmbedding"},
    ".density.hyponymy": {"hyponymy"},
    ".density.senses": {"SenseEmbedding"},
    ".embedding.anchored": {"AnchoredEmbedding"},
    ".embedding.index": {"index"},
    ".embedding.vectors": {"Embedding"},
    ".estimators.communities": {"Communities", "communities"},
    ".estimators.edrep": {"EDRep"},
    ".evaluate.alignment": {"align"},
    ".far.softmax": {"log_normalizers"},
    ".maps.mds.estimator": {"MDS", "classical_mds"},
    ".maps.neighbor": {"NeighborEmbedding"},
    ".maps.recipes": {"ASNE", "HSSNE", "InhomogeneousTSNE", "JSE", "NeRV", "SSNE", "TASNE", "TSNE", "UMAP", "WSSNE"},
    ".reading.advice": {"choose"},
    ".reading.files": {"read"},
    ".reading.preparation": {"prepare"},
    ".relations.affinities": {"Affinities"},
    ".relations.matrix": {"Relation"},
    ".tables.compress": {"compress"},
    ".text": {"Corpus", "EncodedCorpus", "Vocabulary"},
    ".words.multisense": {"MultiSenseWord2DM"},
    ".words.skipgram": {"SkipGram"},
    ".words.word2dm": {"Word2DM"},
}

__all__ = [  # noqa: RUF022 - in the order of sorted()
    "ASNE",
    "Affinities",
    "AnchoredEmbedding",
    "Communities",
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
    "SenseEmbedding",
    "SkipGram",
    "TASNE",
    "TSNE",
    "UMAP",
    "Vocabulary",
    "WSSNE",
    "Word2DM",
    "__version__",
    "align",
    "callbacks",
    "choose",
    "classical_mds",
    "communities",
    "compose",
    "composition",
    "compress",
    "datasets",
    "divergences",
    "errors",
    "evaluate",
    "far",
    "hyponymy",
    "index",
    "kernels",
    "log_normalizers",
    "nn",
    "plots",
    "prepare",
    "read",
    "scanpy",
    "viewer",
    "warmup",
]
if find_spec("torch") is None:  # `from nearfar import *` has all names of this list
    __all__.remove("nn")

public_names(__name__, {*__all__, "nn"}, _HOMES)
