"""Torch: contrastive losses on scores, noise for candidates, what scores mean, mutual information; small tables."""

from nearfar._core import checks, names

# ruff: noqa: E402 - torch is asked for before what needs it

checks.require("nearfar.nn", "torch", "torch")

from nearfar.contrastive.bounds import BilinearCritic as BilinearCritic
from nearfar.contrastive.bounds import JointCritic as JointCritic
from nearfar.contrastive.bounds import SeparableCritic as SeparableCritic
from nearfar.contrastive.bounds import dv_bound as dv_bound
from nearfar.contrastive.bounds import info_nce_bound as info_nce_bound
from nearfar.contrastive.bounds import interpolated_bound as interpolated_bound
from nearfar.contrastive.bounds import js_bound as js_bound
from nearfar.contrastive.bounds import js_objective as js_objective
from nearfar.contrastive.bounds import nwj_bound as nwj_bound
from nearfar.contrastive.bounds import smile_bound as smile_bound
from nearfar.contrastive.bounds import tuba_bound as tuba_bound
from nearfar.contrastive.encoders import encode_in_chunks as encode_in_chunks
from nearfar.contrastive.encoders import matryoshka as matryoshka
from nearfar.contrastive.in_batch import InBatchNCE as InBatchNCE
from nearfar.contrastive.in_batch import gather_rows as gather_rows
from nearfar.contrastive.in_batch import in_batch_nce as in_batch_nce
from nearfar.contrastive.in_batch import in_batch_scores as in_batch_scores
from nearfar.contrastive.in_batch import siglip as siglip
from nearfar.contrastive.in_batch import supcon as supcon
from nearfar.contrastive.in_batch import symmetric_nce as symmetric_nce
from nearfar.contrastive.losses import SelfNormalization as SelfNormalization
from nearfar.contrastive.losses import debiased_nce as debiased_nce
from nearfar.contrastive.losses import full_softmax as full_softmax
from nearfar.contrastive.losses import global_nce as global_nce
from nearfar.contrastive.losses import hinge as hinge
from nearfar.contrastive.losses import local_nce as local_nce
from nearfar.contrastive.losses import recover_conditional as recover_conditional
from nearfar.contrastive.losses import sampled_softmax as sampled_softmax
from nearfar.contrastive.losses import self_normalization as self_normalization
from nearfar.contrastive.mutual_information import MutualInformation as MutualInformation
from nearfar.contrastive.mutual_information import estimate_mutual_information as estimate_mutual_information
from nearfar.contrastive.noise import AdaptiveNoise as AdaptiveNoise
from nearfar.contrastive.noise import CategoricalNoise as CategoricalNoise
from nearfar.contrastive.noise import InBatchNoise as InBatchNoise
from nearfar.contrastive.noise import UniformNoise as UniformNoise
from nearfar.contrastive.noise import UnigramNoise as UnigramNoise
from nearfar.contrastive.sentences import SentenceRankingLoss as SentenceRankingLoss
from nearfar.tables.anchors import AnchorEmbedding as AnchorEmbedding
from nearfar.tables.anchors import TiedLogits as TiedLogits
from nearfar.tables.anchors import softmax_mixture as softmax_mixture
from nearfar.tables.bags import EmbeddingBag as EmbeddingBag
from nearfar.tables.knowledge import RelatedPairs as RelatedPairs
from nearfar.tables.knowledge import choose_anchors as choose_anchors
from nearfar.tables.overlap import anchor_overlap as anchor_overlap
from nearfar.tables.overlap import unrelated_overlap as unrelated_overlap
from nearfar.tables.proximal import ProxAdam as ProxAdam
from nearfar.tables.proximal import ProxSGD as ProxSGD
from nearfar.tables.proximal import ProxYogi as ProxYogi
from nearfar.tables.sizes import NBANT as NBANT
from nearfar.tables.sizes import ParameterBudget as ParameterBudget
from nearfar.tables.sizes import nbant_objective as nbant_objective
from nearfar.tables.small import QuantizedEmbedding as QuantizedEmbedding
from nearfar.tables.small import SelectionEmbedding as SelectionEmbedding

names.public_names(__name__)
