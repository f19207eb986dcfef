"""Bags of objects: those of torch.nn.EmbeddingBag, for any table."""

import pytest

torch = pytest.importorskip("torch")

from nearfar.nn import AnchorEmbedding, EmbeddingBag, QuantizedEmbedding, SelectionEmbedding  # noqa: E402

V, D = 30, 4
IDS = torch.tensor([3, 1, 3, 29, 0, 7, 7, 2])
OFFSETS = torch.tensor([0, 2, 2, 7])  # one bag without objects
TABLES = {
    "anchors": lambda **o: AnchorEmbedding(V, D, 5, **o),
    "whole numbers": lambda **o: QuantizedEmbedding(V, D, **o),
    "torch": lambda **o: torch.nn.Embedding(V, D, **o),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", ["offsets", "last offset", "matrix"])
@pytest.mark.parametrize("padding", [None, 3, -1])
def test_a_bag_is_that_of_torch(name, mode, form, padding):
    torch.manual_seed(0)
    own = padding if padding != -1 else None
    table = TABLES[name](padding_idx=own)
    bag = EmbeddingBag(
        table, mode, padding_idx=padding if own is None else None, include_last_offset=form == "last offset"
    )
    offsets = torch.cat([OFFSETS, torch.tensor([8])]) if form == "last offset" else OFFSETS
    given = (IDS.reshape(4, 2),) if form == "matrix" else (IDS, offsets)
    found = bag(*given)
    rows = table(torch.arange(V)).detach()
    expected = torch.nn.functional.embedding_bag(
        given[0], rows, *given[1:], mode=mode, padding_idx=padding, include_last_offset=form == "last offset"
    )
    torch.testing.assert_close(found.detach(), expected)
    found.sum().backward()
    assert any(p.grad is not None for p in table.parameters())


def test_weights_and_lengths():
    torch.manual_seed(0)
    table = SelectionEmbedding(V, D, std=1.0).double()
    weights = torch.rand(8, dtype=torch.float64, requires_grad=True)
    bag = EmbeddingBag(table, "sum", max_norm=1.5)
    rows = table.weight.detach()
    short = rows * (1.5 / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    assert (rows.norm(dim=1) > 1.5).any()
    assert (rows.norm(dim=1) < 1.5).any()
    expected = torch.nn.functional.embedding_bag(IDS, short, OFFSETS, mode="sum", per_sample_weights=weights.detach())
    torch.testing.assert_close(bag(IDS, OFFSETS, weights), expected)
    assert torch.autograd.gradcheck(lambda w: bag(IDS, OFFSETS, w), (weights,))
    torch.testing.assert_close(table.weight.detach(), rows)  # parameters stay
