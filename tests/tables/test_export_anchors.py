"""The export of an AnchorEmbedding is the layer, and leaves it as it was."""

import pickle
import traceback
from pathlib import Path

import numpy as np
import pytest
from descent import descend
from hazards import leave_group
from numpy.testing import assert_allclose

import nearfar as nf
from nearfar.errors import InputError


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


def test_a_layer_that_cannot_be_exported(tmp_path):
    torch = pytest.importorskip("torch")
    layer = layer_of()
    for arguments, options, message in (
        ((None, named(22)), {}, "ids must be 23, one for each; got 22"),
        ((None, ["a"] * 23), {}, "ids must be distinct; got 'a' more than once"),
        ((None, [[1]] * 23), {}, "ids must be hashable"),
        ((None, "w"), {}, "ids must be a list of names"),
        ((), {"anchor_names": ["a", "b"]}, "anchor_names must be 7, one for each; got 2"),
        ((tmp_path / "nowhere" / "x.safetensors",), {}, "folder that exists"),
        ((tmp_path / "x.pt",), {}, "one of the suffixes"),
        ((tmp_path,), {"anchor_names": None}, "one of the suffixes"),
    ):
        with pytest.raises(InputError, match=message):
            layer.export(*arguments, **options)
    for name, value, message in (
        ("anchors", torch.nan, "anchors must be finite"),
        ("values", torch.nan, "values must be finite in float32, and >= 0"),
        ("values", torch.inf, "values must be finite"),
        ("values", 3e38, "vectors fit float32"),
    ):
        broken = layer_of()
        with torch.no_grad():
            getattr(broken, name)[2, 1] = value
        with pytest.raises(InputError, match=message):
            broken.export(tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def process(rank, init, out):
    """One of two processes: both hold the model, the first one exports alone, and nobody waits for it."""
    import torch

    torch.set_num_threads(1)
    try:
        torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
        model = torch.nn.Sequential(layer_of(), torch.nn.Linear(5, 2))
        model = torch.nn.parallel.DistributedDataParallel(model)
        model(torch.tensor([rank, 3]))
        if rank == 0:
            made = model.module[0].export(Path(out, "x.safetensors"))
            assert made.equals(layer_of().export())
    except Exception:
        Path(out, "error").write_text(traceback.format_exc())
    leave_group(out)


@pytest.mark.slow  # processes of an anchor embedding: test_anchor_processes
def test_one_of_two_processes_exports_alone(tmp_path):
    torch = pytest.importorskip("torch")
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("no gloo")
    torch.multiprocessing.spawn(process, ((tmp_path / "meet").as_uri(), str(tmp_path)), nprocs=2)
    assert not (tmp_path / "error").exists(), (tmp_path / "error").read_text()
    assert nf.Embedding.load(tmp_path / "x.safetensors").equals(layer_of().export())
