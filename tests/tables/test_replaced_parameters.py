"""A table whose parameters are replaced by others, as loaders and wrappers of models do, is that table still."""

import copy

import numpy as np
import pytest
from descent import descend
from quick import often

torch = pytest.importorskip("torch")

import nearfar as nf  # noqa: E402
from nearfar.errors import InputError  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, RelatedPairs  # noqa: E402

N, D, K = 40, 6, 8


def table(**options):
    torch.manual_seed(0)
    return AnchorEmbedding(N, D, K, nnz_per_row=4, **options)


def train(layer, optimizer, steps=20):
    torch.manual_seed(1)
    for _ in range(steps):  # the upper half of the objects is in no batch
        descend(optimizer, (layer(torch.randint(N // 2, (16,))) - 1).square().mean())


def by_assign(layer):
    layer.load_state_dict({name: part.clone() for name, part in layer.state_dict().items()}, assign=True)
    return layer


def by_meta(layer):
    with torch.device("meta"):
        made = table(anchor_ids=None if layer.anchor_ids is None else layer.anchor_ids.to("meta"))
    made.load_state_dict({name: part.clone() for name, part in layer.state_dict().items()}, assign=True)
    return made


def by_attribute(layer):
    layer.slots.values = torch.nn.Parameter(layer.state_dict()["slots.values"].clone())
    layer.anchors = torch.nn.Parameter(layer.anchors.detach().clone())
    return layer


WAYS = {"assign": by_assign, "meta": by_meta, "attribute": by_attribute}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize("way", often(WAYS, ["assign"]))
def test_it_is_what_it_was_with_the_rows_that_no_batch_met(way):
    layer = table()
    train(layer, ProxAdam(layer.parameters(), lr=0.02))
    rows, before = torch.arange(N), copy.deepcopy(layer).eval()
    after = WAYS[way](layer).eval()
    assert torch.equal(after(rows), before(rows))
    assert not after(rows[N // 2 :]).any()
    assert torch.equal(after.unmet, before.unmet)
    assert int(after.unmet.sum()) >= N // 2
    assert after.nnz == before.nnz
    with pytest.warns(match="were in no batch"):
        found = after.export()
    with pytest.warns(match="were in no batch"):
        assert (found.vectors == before.export().vectors).all()


@pytest.mark.parametrize("way", often(WAYS, ["meta"]))
def test_training_goes_on_as_after_a_plain_load(way):
    ends = []
    for replace in (by_plain, WAYS[way]):
        layer = table()
        train(layer, ProxAdam(layer.parameters(), lr=0.02), 3)
        layer = replace(layer)
        train(layer, ProxAdam(layer.parameters(), lr=0.02), 10)
        assert (layer.values >= 0).all()
        ends.append(layer.weight)
    torch.testing.assert_close(*ends, rtol=0, atol=0)


def by_plain(layer):
    layer.load_state_dict(layer.state_dict())
    return layer


@every_way
@pytest.mark.parametrize("other", [torch.optim.SparseAdam, torch.optim.SGD])
def test_other_optimisers_are_refused_before_their_first_step(way, other):
    layer = WAYS[way](table())
    before = layer.values.detach().clone()
    with pytest.raises(InputError, match=f"optimizer must be ProxSGD, ProxAdam or ProxYogi; got {other.__name__}"):
        descend(other([layer.values], lr=0.1), layer(torch.tensor([1, 2])).sum())
    assert torch.equal(layer.values, before)


@every_way
def test_entries_without_a_price_come_along(way):
    graph = nf.Relation.from_matrix(np.roll(np.eye(N), 3, axis=1))
    layer = table(anchor_ids=torch.arange(K))
    layer.set_related(RelatedPairs(graph))
    assert torch.equal(WAYS[way](layer)._unpenalized, layer._unpenalized)
