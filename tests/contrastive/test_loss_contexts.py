"""Every loss in every context of real training: it works.

Several processes are in test_vectors_in_processes.py, derivatives in test_loss_contract.py and test_vectors.py.
"""

from itertools import product

import pytest
from quick import often

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import nearfar.nn as nn  # noqa: E402

B, D = 8, 5
LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 4, 2])
LOG_Q = torch.full((B,), 1 / B).log()
COUNTED = nn.InBatchNCE(n_buckets=7)
COUNTED.noise.observe(LABELS)
COUNTED.eval()


def on_scores(loss, **options):
    """Return a loss of the scores of queries and keys, true on the diagonal."""
    return lambda queries, keys: loss(queries @ keys.T, torch.arange(len(keys), device=keys.device), **options)


def sampled(queries, keys):
    """Return the sampled softmax, whose candidates are the keys."""
    scores = queries @ keys.T
    return nn.sampled_softmax(scores.diagonal(), scores, LOG_Q)


LOSSES = {
    "global_nce": on_scores(nn.global_nce, log_q=LOG_Q),
    "local_nce": on_scores(nn.local_nce, log_q=LOG_Q),
    "hinge": on_scores(nn.hinge),
    "debiased_nce": on_scores(nn.debiased_nce, class_prior=0.1),
    "full_softmax": on_scores(nn.full_softmax),
    "sampled_softmax": sampled,
    "in_batch_nce": lambda queries, keys: nn.in_batch_nce(queries, keys, ids=LABELS, log_q=LOG_Q),
    "InBatchNCE": lambda queries, keys: COUNTED(queries, keys, ids=LABELS),
    "symmetric_nce": lambda queries, keys: nn.symmetric_nce(queries, keys, ids=LABELS),
    "supcon": lambda queries, keys: nn.supcon(queries + keys, LABELS),
    "siglip": lambda queries, keys: nn.siglip(queries, keys, ids=LABELS, temperature=0.5, bias=-1.0),
}


def vectors():
    """Return queries and keys, in reach of every loss."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, D, generator=generator).tanh().mul(0.4).requires_grad_() for _ in range(2)]


def slopes(loss, parts):
    """Return the loss and its gradients."""
    value = loss(*parts)
    return value.detach(), *torch.autograd.grad(value, parts)


def same(found, expected, **tolerances):
    """Compare losses and gradients."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other.double(), **(tolerances or {"rtol": 1e-5, "atol": 1e-6}))


def full_graph(loss):
    """A compiled loss gives the same value and gradients, in one graph."""
    torch._dynamo.reset()
    same(slopes(torch.compile(loss, fullgraph=True, backend="aot_eager"), vectors()), slopes(loss, vectors()))


def bfloat16(loss):
    """Under autocast it is near to that in float32, and finite."""
    with torch.autocast("cpu", torch.bfloat16):
        found = slopes(loss, vectors())
    same(found, slopes(loss, vectors()), rtol=0.1, atol=0.05)


def float16(loss):
    """Encoders under autocast train with scaled gradients."""
    torch.manual_seed(0)
    encoder = torch.nn.Linear(D, D)
    optimizer, scaler = torch.optim.SGD(encoder.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    start = encoder.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            value = loss(*map(encoder, vectors()))
        assert value.isfinite()
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
    assert not torch.equal(encoder.weight, start)


def checkpointing(loss):
    """Checkpointing of both kinds gives the same gradients."""
    expected = slopes(loss, vectors())
    for reentrant in (False, True):
        parts = vectors()
        value = checkpoint(loss, *parts, use_reentrant=reentrant)
        value.backward()
        same((value.detach(), *(part.grad for part in parts)), expected)


def chunks(loss):
    """With encoders in chunks the gradient is that of the whole batch."""
    torch.manual_seed(0)
    encoder, found = torch.nn.Linear(D, D), []
    for encode in (encoder, lambda rows: nn.encode_in_chunks(encoder, rows.split(3))):
        encoder.zero_grad()
        loss(*map(encode, vectors())).backward()
        found.append([encoder.weight.grad, encoder.bias.grad])
    same(*found)


CONTEXTS = {
    "full graph": full_graph,
    "bfloat16": bfloat16,
    "float16, scaled": float16,
    "checkpointing": checkpointing,
    "chunks (GradCache)": chunks,
}
QUICK = {"global_nce", "in_batch_nce", "siglip"}
SLOW = {"full graph", "float16, scaled", "bfloat16", "checkpointing"}
CELLS = often(product(LOSSES, CONTEXTS), lambda loss, name: loss in QUICK and name not in SLOW)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize(("loss", "context"), CELLS)
def test_a_loss_works(loss, context):
    CONTEXTS[context](LOSSES[loss])
