"""Every layer can be made without memory, on the device meta, and filled from a state, as from_pretrained does."""

import pytest

torch = pytest.importorskip("torch")

import nearfar.nn as nn  # noqa: E402

N, D = 100, 8
COUNTS = 1e3 / torch.arange(1, N + 1)
LAYERS = {
    "AnchorEmbedding": lambda: nn.AnchorEmbedding(N, D, 10),
    "AnchorEmbedding of ids": lambda: nn.AnchorEmbedding(N, D, 10, anchor_ids=torch.arange(10)),
    "QuantizedEmbedding": lambda: nn.QuantizedEmbedding(N, D),
    "QuantizedEmbedding of low rank": lambda: nn.QuantizedEmbedding(N, D, rank=4),
    "SelectionEmbedding": lambda: nn.SelectionEmbedding(N, D),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_made_on_meta_is_the_one_of_the_state(name):
    real = LAYERS[name]()
    with torch.device("meta"):
        made = LAYERS[name]()
    assert all(part.is_meta for part in made.parameters())
    made.load_state_dict(real.state_dict(), assign=True)
    ids = torch.tensor([[3, 99], [3, 0]])
    assert torch.equal(made.eval()(ids), real.eval()(ids))
    assert torch.equal(made.weight, real.weight)


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_noise_made_on_meta_is_that_of_the_state(counts):
    real = nn.InBatchNoise(N, counts)
    real.observe(torch.tensor([1, 5, 1]))
    with torch.device("meta"):
        made = nn.InBatchNoise(N, counts)
    made.load_state_dict(real.state_dict(), assign=True)
    for noise in (real, made):
        noise.observe(torch.tensor([2, 5]))
    assert torch.equal(made.log_prob(torch.arange(6)), real.log_prob(torch.arange(6)))
    assert set(made.sample((20,)).tolist()) <= {2, 5}
