"""Every loss is compiled as one graph, and is then what it is without."""

import pytest

torch = pytest.importorskip("torch")

import nearfar.nn as nn  # noqa: E402

torch.manual_seed(0)
QUERIES, KEYS = torch.randn(2, 8, 4)
IDS = torch.tensor([0, 1, 2, 3, 0, 1, 4, 5])
SCORES, TARGET, LOG_Q = torch.randn(8, 5), torch.arange(8) % 5, torch.full((5,), -1.6)
SHARES = torch.randn(8, 5).softmax(1)
SCALE = torch.tensor(0.4)
LOSSES = {
    "in_batch_nce": (lambda x: nn.in_batch_nce(x, KEYS), QUERIES),
    "in_batch_nce, of themselves": (lambda x: nn.in_batch_nce(x, x), QUERIES),
    "in_batch_nce, ids, temperature": (lambda x: nn.in_batch_nce(x, KEYS, ids=IDS, temperature=SCALE), QUERIES),
    "in_batch_scores": (lambda x: nn.global_nce(*nn.in_batch_scores(x, KEYS, ids=IDS)), QUERIES),
    "global_nce": (lambda x: nn.global_nce(x, TARGET), SCORES),
    "local_nce": (lambda x: nn.local_nce(x, TARGET, LOG_Q), SCORES),
    "global_nce, shares": (lambda x: nn.global_nce(x, SHARES), SCORES),
    "full_softmax": (lambda x: nn.full_softmax(x, TARGET), SCORES),
    "sampled_softmax": (lambda x: nn.sampled_softmax(x[:, 0], x, LOG_Q), SCORES),
    "hinge": (lambda x: nn.hinge(x, TARGET), SCORES),
    "debiased_nce": (lambda x: nn.debiased_nce(x, TARGET, class_prior=0.0), SCORES),
    "info_nce_bound": (lambda x: nn.info_nce_bound(x[:5, :5]), SCORES),
}


# The compiler makes an object of a function of autograd.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.slow  # the compiler is imported
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_one_graph(name):
    function, start = LOSSES[name]
    found = []
    for call in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        x = start.clone().requires_grad_()
        loss = call(x)
        loss.backward()
        found.append((loss.detach(), x.grad))
    torch.testing.assert_close(found[0], found[1])
