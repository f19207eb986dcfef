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

# Public name -> module that defines it, or that it is; modules of this folder are not named.
_HOMES = {
    "ASNE": "nearfar.maps.recipes",
    "Affinities": "nearfar.relations.affinities",
    "AnchoredEmbedding": "nearfar.embedding.anchored",
    "Communities": "nearfar.estimators.communities",
    "Corpus": "nearfar.text",
    "DensityEmbedding": "nearfar.density.embedding",
    "EDRep": "nearfar.estimators.edrep",
    "Embedding": "nearfar.embedding.vectors",
    "EncodedCorpus": "nearfar.text",
    "HSSNE": "nearfar.maps.recipes",
    "InhomogeneousTSNE": "nearfar.maps.recipes",
    "JSE": "nearfar.maps.recipes",
    "MDS": "nearfar.maps.mds.estimator",
    "MultiSenseWord2DM": "nearfar.words.multisense",
    "NeRV": "nearfar.maps.recipes",
    "NeighborEmbedding": "nearfar.maps.neighbor",
    "Relation": "nearfar.relations.matrix",
    "SSNE": "nearfar.maps.recipes",
    "SenseEmbedding": "nearfar.density.senses",
    "SkipGram": "nearfar.words.skipgram",
    "TASNE": "nearfar.maps.recipes",
    "TSNE": "nearfar.maps.recipes",
    "Vocabulary": "nearfar.text",
    "UMAP": "nearfar.maps.recipes",
    "WSSNE": "nearfar.maps.recipes",
    "Word2DM": "nearfar.words.word2dm",
    "align": "nearfar.evaluate.alignment",
    "choose": "nearfar.reading.advice",
    "classical_mds": "nearfar.maps.mds.estimator",
    "communities": "nearfar.estimators.communities",
    "compose": "nearfar.density.composition",
    "composition": "nearfar.density.composition",
    "compress": "nearfar.tables.compress",
    "hyponymy": "nearfar.density.hyponymy",
    "index": "nearfar.embedding.index",
    "log_normalizers": "nearfar.far.softmax",
    "prepare": "nearfar.reading.preparation",
    "read": "nearfar.reading.files",
    "warmup": "nearfar.cli.warmup",
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


if not TYPE_CHECKING:
    __getattr__, __dir__ = public_names(__name__, {*__all__, "nn"}, _HOMES)
