"""The export of an AnchorEmbedding is the layer, and leaves it as it was."""

import pickle

import numpy as np
import pytest
from descent import descend
from numpy.testing import assert_allclose

import nearfar as nf


def named(n):
    return [f"w{i}" for i in range(n)]


def layer_of(n=23, d=5, k=7, r=3, seed=0, **options):
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    return nf.nn.AnchorEmbedding(n, d, k, nnz_per_row=r, **options)


def train(layer, steps=6):
    """Some steps that touch different rows, so that others owe; a large penalty makes zeros."""
    import torch

    optimizer = nf.nn.ProxSGD(layer.parameters(), lr=0.02)
    for step in range(steps):
        descend(optimizer, (layer(torch.randint(23, (6,)) if step else torch.arange(23)) - 1).square().sum())


def test_an_export_is_the_layer_and_leaves_it_as_it_was(tmp_path):
    layer = layer_of(padding_idx=-1, penalty=3.0)
    train(layer)
    before = pickle.dumps(layer._shrinkage.applied)
    made = layer.export(tmp_path / "x.safetensors", named(23))
    assert pickle.dumps(layer._shrinkage.applied) == before
    assert_allclose(np.asarray(made), layer.weight.detach(), atol=1e-6)
    assert 0 < made.nnz == layer.nnz < 22 * 3
    assert made.n_parameters == layer.n_parameters
    assert not made["w22"].any()
    assert made.parameters["penalty"] == 3.0
    assert nf.Embedding.load(tmp_path / "x.safetensors").equals(made)
    kept = np.asarray(made)
    train(layer)
    assert (np.asarray(made) == kept).all()
    assert nf.evaluate.anchor_purity(layer, ["x"] * 23).purity == 1


def test_anchors_that_are_switched_off_are_left_out():
    layer = layer_of()
    layer.n_active = 4
    made = layer.export(anchor_names=list("abcdefg"))
    assert list(made.anchor_names) == list("abcd")
    assert made.anchors.shape == (4, 5)
    assert_allclose(np.asarray(made), layer.weight.detach(), atol=1e-6)
    assert made.n_parameters == layer.n_parameters
    import torch

    with torch.no_grad():
        layer.anchors[5] = torch.nan  # nobody uses it
    assert layer.export().equals(nf.AnchoredEmbedding(made.weights, made.anchors))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_an_export_is_float32(dtype):
    torch = pytest.importorskip("torch")
    layer = layer_of(dtype=getattr(torch, dtype))
    made = layer.export()
    assert made.anchors.dtype == np.float32
    assert_allclose(made.anchors, layer.anchors.detach().float(), rtol=1e-7)
    assert_allclose(np.asarray(made), layer.weight.detach().float(), rtol=0.02, atol=0.02)
