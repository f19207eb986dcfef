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


# -- functions that start all parameters anew -------------------------------------------------------------------------


def xavier(layer):
    for p in layer.parameters():
        torch.nn.init.xavier_uniform_(p)


def through_data(layer):
    for p in layer.parameters():
        p.data.uniform_(-0.3, 0.3)


@pytest.mark.parametrize("start", [xavier, through_data])
@pytest.mark.parametrize("sparse", [True, False])
def test_t_is_not_negative_whatever_initialises_it(start, sparse):
    layer = make(sparse=sparse, padding_idx=None)
    start(layer)
    assert (layer.values < 0).any()
    t = torch.zeros(V, K, dtype=torch.float64).scatter(1, layer.columns.long(), layer.values.detach().abs())
    expected = t @ layer.anchors.detach()
    assert_allclose(layer(batch(0)).detach(), expected[batch(0)], atol=1e-14)
    assert_allclose(layer.weight, expected, atol=1e-14)
    assert_allclose(layer.logits(torch.eye(D, dtype=torch.float64)).detach(), expected.T, atol=1e-14)
    optimizer = ProxAdam(layer.parameters(), lr=0.01)
    layer(batch(0)).square().sum().backward()
    with pytest.warns(NearfarWarning, match="entries of T were negative before its first step"):
        optimizer.step()
    for step in range(1, 3):
        optimizer.zero_grad()
        layer(batch(step)).square().sum().backward()
        optimizer.step()
    assert (layer.values >= 0).all()
    never = torch.tensor(sorted(set(range(V)) - set(torch.cat([batch(s) for s in range(3)]).tolist())))
    assert_allclose(layer.values.detach()[never], t.gather(1, layer.columns.long())[never])


def test_a_state_saved_after_an_initialiser_is_loaded(tmp_path):
    layer = make()
    xavier(layer)
    with pytest.warns(NearfarWarning, match="absolute values"):
        state = layer.state_dict()
    other = make(seed=3)
    other.load_state_dict(state)
    assert_allclose(other.weight, layer.weight)
    xavier(layer)
    assert layer.export(tmp_path / "t.safetensors").shape == (V, D)


def test_states_with_negative_entries_name_the_rows():
    layer = make()
    state = layer.state_dict()
    state["slots.values"][[3, 7], 1] = torch.tensor([-0.5, float("inf")], dtype=torch.float64)
    with pytest.raises(InputError, match=r"values must be finite and >= 0; got others in 2 row\(s\): 3, 7"):
        layer.load_state_dict(state)


@pytest.mark.parametrize(
    "write",
    [
        torch.nn.init.normal_,
        torch.nn.init.xavier_uniform_,
        torch.nn.init.orthogonal_,
        lambda w: w.data.uniform_(-1, 1),
        lambda w: w[2].zero_(),
        lambda w: w.__setitem__(2, 0.0),
        lambda w: w.requires_grad_(False),
        lambda w: setattr(w, "requires_grad", False),
        lambda w: torch.nn.init.trunc_normal_(w.T),
    ],
)
def test_to_write_to_the_weight_is_refused(write):
    with pytest.raises(InputError, match="weight must be left as it is: it is made anew at each access"):
        write(make().weight)


def test_the_weight_is_a_tensor_otherwise(tmp_path):
    layer = make()
    assert type(layer.weight + 1) is torch.Tensor
    assert type(torch.nn.functional.embedding(batch(0), layer.weight)) is torch.Tensor
    assert_allclose(torch.nn.functional.embedding(batch(0), layer.weight), layer(batch(0)).detach())
    torch.save(layer.weight.clone(), tmp_path / "w.pt")
    assert_allclose(torch.load(tmp_path / "w.pt"), layer.weight.numpy())
    assert layer.weight.size(0) == V
