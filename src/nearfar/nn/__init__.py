"""Torch: contrastive losses on scores, noise for candidates, what scores mean, mutual information; small tables."""

from nearfar._core.checks import require
from nearfar._core.names import public_names

require("nearfar.nn", "torch", "torch")

from nearfar.contrastive.bounds import (  # noqa: E402
    BilinearCritic,
    JointCritic,
    SeparableCritic,
    dv_bound,
    info_nce_bound,
    interpolated_bound,
    js_bound,
    js_objective,
    nwj_bound,
    smile_bound,
    tuba_bound,
)
from nearfar.contrastive.encoders import encode_in_chunks, matryoshka  # noqa: E402
from nearfar.contrastive.in_batch import (  # noqa: E402
    InBatchNCE,
    gather_rows,
    in_batch_nce,
    in_batch_scores,
    siglip,
    supcon,
    symmetric_nce,
)
from nearfar.contrastive.losses import (  # noqa: E402
    SelfNormalization,
    debiased_nce,
    full_softmax,
    global_nce,
    hinge,
    local_nce,
    recover_conditional,
    sampled_softmax,
    self_normalization,
)
from nearfar.contrastive.mutual_information import MutualInformation, estimate_mutual_information  # noqa: E402
from nearfar.contrastive.noise import AdaptiveNoise, CategoricalNoise, InBatchNoise, UniformNoise, UnigramNoise  # noqa: E402
from nearfar.contrastive.sentences import SentenceRankingLoss  # noqa: E402
from nearfar.tables.anchors import AnchorEmbedding, TiedLogits, softmax_mixture  # noqa: E402
from nearfar.tables.bags import EmbeddingBag  # noqa: E402
from nearfar.tables.knowledge import RelatedPairs, choose_anchors  # noqa: E402
from nearfar.tables.overlap import anchor_overlap, unrelated_overlap  # noqa: E402
from nearfar.tables.proximal import ProxAdam, ProxSGD, ProxYogi  # noqa: E402
from nearfar.tables.sizes import NBANT, ParameterBudget, nbant_objective  # noqa: E402
from nearfar.tables.small import QuantizedEmbedding, SelectionEmbedding  # noqa: E402

__all__ = [
    "NBANT",
    "AdaptiveNoise",
    "AnchorEmbedding",
    "BilinearCritic",
    "CategoricalNoise",
    "EmbeddingBag",
    "InBatchNCE",
    "InBatchNoise",
    "JointCritic",
    "MutualInformation",
    "ParameterBudget",
    "ProxAdam",
    "ProxSGD",
    "ProxYogi",
    "QuantizedEmbedding",
    "RelatedPairs",
    "SelectionEmbedding",
    "SelfNormalization",
    "SentenceRankingLoss",
    "SeparableCritic",
    "TiedLogits",
    "UniformNoise",
    "UnigramNoise",
    "anchor_overlap",
    "choose_anchors",
    "debiased_nce",
    "dv_bound",
    "encode_in_chunks",
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
    "matryoshka",
    "nbant_objective",
    "nwj_bound",
    "recover_conditional",
    "sampled_softmax",
    "self_normalization",
    "siglip",
    "smile_bound",
    "softmax_mixture",
    "supcon",
    "symmetric_nce",
    "tuba_bound",
    "unrelated_overlap",
]

public_names(__name__, __all__)
