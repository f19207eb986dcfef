"""nearfar learns vectors for things that are related.

The flat namespace below is loaded lazily (PEP 562): ``import nearfar`` imports next to nothing, a name is imported when
it is first used.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from nearfar._core.names import public_names
from nearfar._version import __version__ as __version__

if TYPE_CHECKING:
    from nearfar import callbacks as callbacks
    from nearfar import datasets as datasets
    from nearfar import divergences as divergences
    from nearfar import errors as errors
    from nearfar import evaluate as evaluate
    from nearfar import far as far
    from nearfar import kernels as kernels
    from nearfar import nn as nn
    from nearfar import plots as plots
    from nearfar import scanpy as scanpy
    from nearfar import viewer as viewer
    from nearfar.cli.warmup import warmup as warmup
    from nearfar.density import composition as composition
    from nearfar.density import hyponymy as hyponymy
    from nearfar.density.composition import compose as compose
    from nearfar.density.embedding import DensityEmbedding as DensityEmbedding
    from nearfar.density.senses import SenseEmbedding as SenseEmbedding
    from nearfar.embedding import index as index
    from nearfar.embedding.anchored import AnchoredEmbedding as AnchoredEmbedding
    from nearfar.embedding.vectors import Embedding as Embedding
    from nearfar.estimators.communities import Communities as Communities
    from nearfar.estimators.communities import communities as communities
    from nearfar.estimators.edrep import EDRep as EDRep
    from nearfar.evaluate.alignment import align as align
    from nearfar.far.softmax import log_normalizers as log_normalizers
    from nearfar.maps.mds.estimator import MDS as MDS
    from nearfar.maps.mds.estimator import classical_mds as classical_mds
    from nearfar.maps.neighbor import NeighborEmbedding as NeighborEmbedding
    from nearfar.maps.recipes import ASNE as ASNE
    from nearfar.maps.recipes import HSSNE as HSSNE
    from nearfar.maps.recipes import JSE as JSE
    from nearfar.maps.recipes import SSNE as SSNE
    from nearfar.maps.recipes import TASNE as TASNE
    from nearfar.maps.recipes import TSNE as TSNE
    from nearfar.maps.recipes import UMAP as UMAP
    from nearfar.maps.recipes import WSSNE as WSSNE
    from nearfar.maps.recipes import InhomogeneousTSNE as InhomogeneousTSNE
    from nearfar.maps.recipes import NeRV as NeRV
    from nearfar.reading.advice import choose as choose
    from nearfar.reading.files import read as read
    from nearfar.reading.preparation import prepare as prepare
    from nearfar.relations.affinities import Affinities as Affinities
    from nearfar.relations.matrix import Relation as Relation
    from nearfar.tables.compress import compress as compress
    from nearfar.text import Corpus as Corpus
    from nearfar.text import EncodedCorpus as EncodedCorpus
    from nearfar.text import Vocabulary as Vocabulary
    from nearfar.words.multisense import MultiSenseWord2DM as MultiSenseWord2DM
    from nearfar.words.skipgram import SkipGram as SkipGram
    from nearfar.words.word2dm import Word2DM as Word2DM

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

_ROOMS = "callbacks datasets divergences errors evaluate far kernels nn plots scanpy viewer"

public_names(__name__, {"__version__", *_ROOMS.split()}, _HOMES)
if find_spec("torch") is None:  # `from nearfar import *` has all names of this list
    globals()["__all__"].remove("nn")
