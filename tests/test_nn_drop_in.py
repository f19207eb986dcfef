"""AnchorEmbedding where a torch.nn.Embedding stood: clipping, initialisers, tying, export, loops of trainers."""

from __future__ import annotations

import io

import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

import nearfar as nf  # noqa: E402
from nearfar.errors import InputError, NearfarWarning  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, ProxSGD, ProxYogi  # noqa: E402

V, D, K, R = 23, 5, 7, 3


def make(seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(V, D, K, **{"nnz_per_row": R, "penalty": 0.02, "dtype": torch.float64, **options})


def batch(step, n=6):
    return torch.randint(V, (n,), generator=torch.Generator().manual_seed(step))


# -- dense gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [ProxSGD, ProxAdam, ProxYogi])
@pytest.mark.parametrize("tied", [False, True])
def test_dense_gradients_train_as_sparse_ones(optimizer, tied):
    ends = []
    for sparse in (True, False):
        layer = make(sparse=sparse, padding_idx=4)
        made = optimizer(layer.parameters(), lr=0.01 if tied else 0.05)
        for step in range(12):
            made.zero_grad()
            layer.n_active = 5 if 4 <= step < 8 else K
            out = layer.logits(layer(batch(step))) if tied else layer(batch(step))
            (out - 0.5).square().mean().backward()
            assert layer.values.grad.is_sparse == (sparse and not tied)
            made.step()
        ends.append(layer.state_dict())
    for name, part in ends[0].items():
        assert torch.equal(part, ends[1][name]), name


@pytest.mark.parametrize("clip", [torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_])
def test_dense_gradients_are_clipped(clip):
    layer = make(sparse=False)
    optimizer, before = ProxSGD(layer.parameters(), lr=1.0), layer.values.detach().clone()
    (100 * layer(batch(0))).sum().backward()
    clip(layer.parameters(), 0.01)
    assert layer.values.grad.abs().max() <= 0.01
    optimizer.step()
    assert 0 < (layer.values.detach() - before).abs().max() <= 0.0301  # the gradient and the penalty


def test_dense_gradients_of_the_other_terms_and_of_copies():
    layer = make(sparse=False)
    pairs = nf.nn.RelatedPairs(nf.Relation.from_edges([(0, 1), (2, 3)]), range(V))
    nf.nn.unrelated_overlap(layer, pairs, n_sampled=5).backward()
    assert not layer.values.grad.is_sparse
    assert not AnchorEmbedding.from_pretrained(torch.randn(V, D), K, sparse=False).sparse
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert not torch.load(file, weights_only=False).sparse
    with pytest.raises(InputError, match="sparse must be"):
        make(sparse=1)
