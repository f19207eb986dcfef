"""Torch: contrastive losses on scores, noise for candidates, what scores mean, mutual information; small tables."""

from nearfar._core import checks, names

checks.require("nearfar.nn", "torch", "torch")

from nearfar.contrastive.bounds import BilinearCritic as BilinearCritic  # noqa: E402
from nearfar.contrastive.bounds import JointCritic as JointCritic  # noqa: E402
from nearfar.contrastive.bounds import SeparableCritic as SeparableCritic  # noqa: E402
from nearfar.contrastive.bounds import dv_bound as dv_bound  # noqa: E402
from nearfar.contrastive.bounds import info_nce_bound as info_nce_bound  # noqa: E402
from nearfar.contrastive.bounds import interpolated_bound as interpolated_bound  # noqa: E402
from nearfar.contrastive.bounds import js_bound as js_bound  # noqa: E402
from nearfar.contrastive.bounds import js_objective as js_objective  # noqa: E402
from nearfar.contrastive.bounds import nwj_bound as nwj_bound  # noqa: E402
from nearfar.contrastive.bounds import smile_bound as smile_bound  # noqa: E402
from nearfar.contrastive.bounds import tuba_bound as tuba_bound  # noqa: E402
from nearfar.contrastive.encoders import encode_in_chunks as encode_in_chunks  # noqa: E402
from nearfar.contrastive.encoders import matryoshka as matryoshka  # noqa: E402
from nearfar.contrastive.in_batch import InBatchNCE as InBatchNCE  # noqa: E402
from nearfar.contrastive.in_batch import gather_rows as gather_rows  # noqa: E402
from nearfar.contrastive.in_batch import in_batch_nce as in_batch_nce  # noqa: E402
from nearfar.contrastive.in_batch import in_batch_scores as in_batch_scores  # noqa: E402
from nearfar.contrastive.in_batch import siglip as siglip  # noqa: E402
from nearfar.contrastive.in_batch import supcon as supcon  # noqa: E402
from nearfar.contrastive.in_batch import symmetric_nce as symmetric_nce  # noqa: E402
from nearfar.contrastive.losses import SelfNormalization as SelfNormalization  # noqa: E402
from nearfar.contrastive.losses import debiased_nce as debiased_nce  # noqa: E402
from nearfar.contrastive.losses import full_softmax as full_softmax  # noqa: E402
from nearfar.contrastive.losses import global_nce as global_nce  # noqa: E402
from nearfar.contrastive.losses import hinge as hinge  # noqa: E402
from nearfar.contrastive.losses import local_nce as local_nce  # noqa: E402
from nearfar.contrastive.losses import recover_conditional as recover_conditional  # noqa: E402
from nearfar.contrastive.losses import sampled_softmax as sampled_softmax  # noqa: E402
from nearfar.contrastive.losses import self_normalization as self_normalization  # noqa: E402
from nearfar.contrastive.mutual_information import MutualInformation as MutualInformation  # noqa: E402
from nearfar.contrastive.mutual_information import estimate_mutual_information as estimate_mutual_information  # noqa: E402
from nearfar.contrastive.noise import AdaptiveNoise as AdaptiveNoise  # noqa: E402
from nearfar.contrastive.noise import CategoricalNoise as CategoricalNoise  # noqa: E402
from nearfar.contrastive.noise import InBatchNoise as InBatchNoise  # noqa: E402
from nearfar.contrastive.noise import UniformNoise as UniformNoise  # noqa: E402
from nearfar.contrastive.noise import UnigramNoise as UnigramNoise  # noqa: E402
from nearfar.contrastive.sentences import SentenceRankingLoss as SentenceRankingLoss  # noqa: E402
from nearfar.tables.anchors import AnchorEmbedding as AnchorEmbedding  # noqa: E402
from nearfar.tables.anchors import TiedLogits as TiedLogits  # noqa: E402
from nearfar.tables.anchors import softmax_mixture as softmax_mixture  # noqa: E402
from nearfar.tables.bags import EmbeddingBag as EmbeddingBag  # noqa: E402
from nearfar.tables.knowledge import RelatedPairs as RelatedPairs  # noqa: E402
from nearfar.tables.knowledge import choose_anchors as choose_anchors  # noqa: E402
from nearfar.tables.overlap import anchor_overlap as anchor_overlap  # noqa: E402
from nearfar.tables.overlap import unrelated_overlap as unrelated_overlap  # noqa: E402
from nearfar.tables.proximal import ProxAdam as ProxAdam  # noqa: E402
from nearfar.tables.proximal import ProxSGD as ProxSGD  # noqa: E402
from nearfar.tables.proximal import ProxYogi as ProxYogi  # noqa: E402
from nearfar.tables.sizes import NBANT as NBANT  # noqa: E402
from nearfar.tables.sizes import ParameterBudget as ParameterBudget  # noqa: E402
from nearfar.tables.sizes import nbant_objective as nbant_objective  # noqa: E402
from nearfar.tables.small import QuantizedEmbedding as QuantizedEmbedding  # noqa: E402
from nearfar.tables.small import SelectionEmbedding as SelectionEmbedding  # noqa: E402

names.public_names(__name__)
