"""Torch: contrastive losses on scores, noise for candidates, what scores mean, mutual information; small tables."""

from nearfar._checks import require

require("nearfar.nn", "torch", "torch")

from nearfar.nn._anchor_starts import choose_anchors  # noqa: E402 - torch first, with its own message
from nearfar.nn._critics import BilinearCritic, JointCritic, SeparableCritic  # noqa: E402
from nearfar.nn.anchor_knowledge import RelatedPairs, anchor_overlap, unrelated_overlap  # noqa: E402
from nearfar.nn.anchor_mixtures import softmax_mixture  # noqa: E402
from nearfar.nn.anchors import AnchorEmbedding  # noqa: E402
from nearfar.nn.bounds import (  # noqa: E402
    dv_bound,
    info_nce_bound,
    interpolated_bound,
    js_bound,
    js_objective,
    nwj_bound,
    smile_bound,
    tuba_bound,
)
from nearfar.nn.factored_tables import LowRankEmbedding, MixedDimensionEmbedding, TensorTrainEmbedding  # noqa: E402
from nearfar.nn.hard_negatives import debiased_nce, hinge  # noqa: E402 - torch first, with its own message
from nearfar.nn.hashed_tables import BucketEmbedding, HashEmbedding, QuotientRemainderEmbedding  # noqa: E402
from nearfar.nn.in_batch import gather_rows, in_batch_nce, in_batch_scores  # noqa: E402
from nearfar.nn.losses import full_softmax, global_nce, local_nce, sampled_softmax  # noqa: E402
from nearfar.nn.moving_noise import AdaptiveNoise, InBatchNoise  # noqa: E402
from nearfar.nn.mutual_information import MutualInformation, estimate_mutual_information  # noqa: E402
from nearfar.nn.nbant import NBANT, nbant_objective  # noqa: E402
from nearfar.nn.noise import CategoricalNoise, UniformNoise, UnigramNoise  # noqa: E402
from nearfar.nn.proximal import ProxAdam, ProxSGD, ProxYogi  # noqa: E402
from nearfar.nn.recovery import SelfNormalization, recover_conditional, self_normalization  # noqa: E402
from nearfar.nn.selection import SelectionEmbedding, VocabularyDropoutEmbedding  # noqa: E402

__all__ = [
    "NBANT",
    "AdaptiveNoise",
    "AnchorEmbedding",
    "BilinearCritic",
    "BucketEmbedding",
    "CategoricalNoise",
    "HashEmbedding",
    "InBatchNoise",
    "JointCritic",
    "LowRankEmbedding",
    "MixedDimensionEmbedding",
    "MutualInformation",
    "ProxAdam",
    "ProxSGD",
    "ProxYogi",
    "QuotientRemainderEmbedding",
    "RelatedPairs",
    "SelectionEmbedding",
    "SelfNormalization",
    "SeparableCritic",
    "TensorTrainEmbedding",
    "UniformNoise",
    "UnigramNoise",
    "VocabularyDropoutEmbedding",
    "anchor_overlap",
    "choose_anchors",
    "debiased_nce",
    "dv_bound",
    "estimate_mutual_information",
    "full_softmax",
    "gather_rows",
    "global_nce",
    "hinge",
    "in_batch_nce",
    "in_batch_scores",
    "info_nce_bound",
    "interpolated_bound",
    "js_bound",
    "js_objective",
    "local_nce",
    "nbant_objective",
    "nwj_bound",
    "recover_conditional",
    "sampled_softmax",
    "self_normalization",
    "smile_bound",
    "softmax_mixture",
    "tuba_bound",
    "unrelated_overlap",
]
