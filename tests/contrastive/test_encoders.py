"""Chunks that are encoded twice, and prefixes of vectors: the same gradients as of the whole and by hand."""

from functools import partial
from itertools import product

import pytest
from quick import often

torch = pytest.importorskip("torch")

from torch.nn.functional import normalize  # noqa: E402

import nearfar.nn as nn  # noqa: E402

GENERATOR = torch.Generator().manual_seed(0)
INPUTS, ANSWERS = torch.randn(2, 12, 4, dtype=torch.float64, generator=GENERATOR)
LABELS = torch.arange(12) % 4
LOSSES = {
    "in_batch_nce": nn.in_batch_nce,
    "symmetric_nce": partial(nn.symmetric_nce, temperature=0.5),
    "siglip": nn.siglip,
    "supcon": lambda q, k: nn.supcon(torch.cat([q, k]), torch.cat([LABELS, LABELS])),
    "matryoshka": lambda q, k: nn.matryoshka(nn.in_batch_nce, q, k, dims=(2, 6)),
    "hinge": lambda q, k: nn.hinge(*nn.in_batch_scores(normalize(q), normalize(k))),
}


class Encoder(torch.nn.Module):
    """With dropout twice; of tensors, or of dicts of them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 16),
            torch.nn.Dropout(0.5),
            torch.nn.GELU(),
            torch.nn.Linear(16, 6),
            torch.nn.Dropout(0.2),
        ).double()
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        return self.layers(inputs["rows"] if isinstance(inputs, dict) else inputs)


def taken(loss, encode, twice=False):
    """Return the loss, the gradients, and the next random number, of two encoders or of one for both sides."""
    towers = [Encoder()] * 2 if twice else [Encoder(), Encoder()]
    torch.manual_seed(5)
    value = loss(*(encode(tower, part) for tower, part in zip(towers, (INPUTS, ANSWERS), strict=True)))
    value.backward()
    return value.detach(), *(p.grad for tower in towers for p in tower.parameters()), torch.rand(1)


@pytest.mark.parametrize(
    ("name", "twice"), often(product(LOSSES, (False, True)), lambda name, twice: not twice or name == "in_batch_nce")
)
def test_the_gradient_is_that_of_all_chunks_at_once(name, twice):
    loss = LOSSES[name]
    """Of the same draws of dropout, which are made chunk by chunk in both."""
    whole = taken(loss, lambda encoder, rows: torch.cat([encoder(chunk) for chunk in rows.split(5)]), twice)
    chunks = taken(loss, lambda encoder, rows: nn.encode_in_chunks(encoder, rows.split(5)), twice)
    of_dicts = taken(
        loss, lambda encoder, rows: nn.encode_in_chunks(encoder, [{"rows": r} for r in rows.split(5)]), twice
    )
    for found in (chunks, of_dicts):
        for mine, theirs in zip(found, whole, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


def test_chunks_are_encoded_twice_and_without_gradients_once():
    encoder = Encoder()
    vectors = nn.encode_in_chunks(encoder, INPUTS.split(5))
    assert encoder.calls == 3
    vectors.sum().backward()
    assert encoder.calls == 6
    with torch.no_grad():
        nn.encode_in_chunks(encoder, INPUTS.split(5))
    assert encoder.calls == 9


def test_activations_of_one_chunk_are_held():
    from lab.contrastive.nce_memory import peak_bytes

    wide = torch.nn.Sequential(torch.nn.Linear(4, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 2))
    rows = torch.randn(512, 4)
    peaks = [
        peak_bytes(lambda encode=encode: encode().square().sum().backward())
        for encode in (lambda: wide(rows), lambda: nn.encode_in_chunks(wide, rows.split(32)))
    ]
    assert peaks[1] < peaks[0] / 5


# -- prefixes


@pytest.mark.parametrize("loss", [nn.in_batch_nce, nn.siglip, nn.symmetric_nce], ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("weights", [None, (0.5, 0, 2)])
def test_a_loss_of_prefixes_is_their_sum(loss, weights):
    found = []
    for of_prefixes in (True, False):
        parts = [part.clone().requires_grad_() for part in (INPUTS, ANSWERS)]
        options = {"temperature": 0.5, "reduction": "none"}
        if of_prefixes:
            values = nn.matryoshka(partial(loss, **options), *parts, dims=(1, 3, 4), weights=weights)
        else:
            values = sum(
                w * loss(*(part[:, :n] for part in parts), **options)
                for n, w in zip((1, 3, 4), weights or (1, 1, 1), strict=True)
            )
        assert values.shape == (12,)
        values.sum().backward()
        found.append((values.detach(), *(part.grad for part in parts)))
    torch.testing.assert_close(*found)


def test_the_gradient_of_prefixes_is_right():
    def loss(queries, keys):
        return nn.in_batch_nce(normalize(queries), normalize(keys), log_q=torch.full((12,), -2.5), ids=LABELS)

    parts = [part.clone().requires_grad_() for part in (INPUTS, ANSWERS)]
    assert torch.autograd.gradcheck(
        lambda *given: nn.matryoshka(loss, *given, dims=(2, 4), weights=(2, 1)), parts, fast_mode=True
    )


# -- the benchmark
