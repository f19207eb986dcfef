"""In-batch candidates: against the loss on a matrix of scores, in blocks, and in two processes against one."""

import math
import re
import warnings
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch")


import nearfar.nn as nn  # noqa: E402
from nearfar._core import warn  # noqa: E402
from nearfar.errors import InputError, NearfarWarning  # noqa: E402

TEMPERATURE = 0.3


def batch(n=6, d=3, seed=0, dtype=torch.float64):
    """Queries, keys, log q and ids; the first and the fourth key are of one item, the last three of another."""
    rng = np.random.default_rng(seed)
    queries, keys = torch.tensor(rng.normal(size=(2, n, d)), dtype=dtype)
    log_q = torch.tensor(np.log(rng.dirichlet(np.ones(n))))
    return queries, keys, log_q, torch.tensor([5, 2, 8, 5, 9, 9, 9, 2])[:n]


def test_scores_are_scalar_products_and_the_diagonal_is_true():
    queries, keys, _, ids = batch()
    scores, target = nn.in_batch_scores(queries, keys, temperature=TEMPERATURE)
    np.testing.assert_allclose(scores, queries.numpy() @ keys.numpy().T / TEMPERATURE, rtol=1e-12)
    assert target.tolist() == list(range(6))
    masked, _ = nn.in_batch_scores(queries, keys, ids=ids)
    others = (ids[:, None] == ids) & ~torch.eye(6, dtype=torch.bool)
    assert others.sum() == 4
    assert torch.equal(masked < -1e20, others)


def test_log_q_takes_the_popularity_of_keys_out_of_the_loss():
    # At the optimum exp(score) is p(key | query): with scores ln p of a model whose keys come with probability q.
    p = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64)
    q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    losses = nn.in_batch_nce(p.log(), torch.eye(3, dtype=torch.float64), log_q=q.log(), reduction="none")
    expected = -((p / q).diagonal() / (p / q).sum(1)).log()
    torch.testing.assert_close(losses, expected)


# -- the optimum, over all batches of three pairs that a joint distribution can give

JOINT = torch.tensor([[0.33, 0.11], [0.06, 0.50]], dtype=torch.float64)
P = JOINT / JOINT.sum(1, keepdim=True)  # p(key | query): .75, .25; .107, .893
Q = JOINT.sum(0)
BATCHES = []  # queries, keys, probability: each unordered batch once
for pairs in combinations_with_replacement([(x, y) for x in range(2) for y in range(2)], 3):
    ways = math.factorial(3) / math.prod(math.factorial(count) for count in Counter(pairs).values())
    BATCHES.append((*torch.tensor(pairs).T, ways * math.prod(float(JOINT[pair]) for pair in pairs)))


def scores_at_the_optimum(loss):
    """Return the table of scores (query, key) at which the expected loss of a batch is least."""
    rows = torch.eye(2, dtype=torch.float64)

    def value_and_gradient(flat):
        table = torch.from_numpy(flat.reshape(2, 2).copy()).requires_grad_()
        value = sum(weight * loss(table[x], rows[y], y) for x, y, weight in BATCHES)
        value.backward()
        return value.item(), table.grad.numpy().ravel()

    found = minimize(value_and_gradient, np.zeros(4), jac=True, options={"gtol": 1e-7})
    assert np.abs(found.jac).max() < 1e-6
    return torch.from_numpy(found.x.reshape(2, 2))


@pytest.mark.parametrize("with_log_q", [pytest.param(False, marks=pytest.mark.slow), True])
def test_with_ids_the_optimum_is_the_conditional_distribution(with_log_q):
    def loss(queries, keys, ids):
        return nn.in_batch_nce(queries, keys, log_q=Q.log()[ids] if with_log_q else None, ids=ids)

    found = nn.recover_conditional(scores_at_the_optimum(loss), None if with_log_q else Q.log()).exp()
    torch.testing.assert_close(found, P, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_binary_loss_is_consistent_with_all_candidates():
    def loss(queries, keys, ids):
        scores, target = nn.in_batch_scores(queries, keys)
        return nn.local_nce(scores, target, Q.log()[ids])

    torch.testing.assert_close(scores_at_the_optimum(loss).exp(), P, rtol=0, atol=1e-5)


def test_equal_keys_get_the_gradients_of_their_item_with_ids_and_without():
    queries, table, _, ids = batch()
    _, which = ids.unique(return_inverse=True)
    found = []
    for given in (None, ids):
        rows = table.clone().requires_grad_()
        losses = nn.in_batch_nce(queries, rows[which], ids=given, reduction="none")
        losses.sum().backward()
        found.append((losses.detach(), rows.grad))
    count = (ids[:, None] == ids).sum(1)
    torch.testing.assert_close(found[0][0], found[1][0] + count.log())
    torch.testing.assert_close(found[0][1], found[1][1])


def test_autocast_does_not_make_scores_coarse():
    queries, keys, *_ = (part.float() if part.is_floating_point() else part for part in batch(d=3))
    plain = nn.in_batch_nce(queries, keys), nn.in_batch_scores(queries, keys)[0]
    queries.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (queries @ keys.T).dtype == torch.bfloat16
        loss, (scores, _) = nn.in_batch_nce(queries, keys), nn.in_batch_scores(queries, keys)
        loss.backward()
    assert loss.item() == plain[0].item()
    assert torch.equal(scores, plain[1])
    inside = queries.grad.clone()
    queries.grad = None
    nn.in_batch_nce(queries, keys).backward()
    assert torch.equal(queries.grad, inside)


def test_rows_of_one_process_are_gathered_as_they_are():
    rows = torch.ones(2, 3)
    assert nn.gather_rows(rows) is rows


# ------------------------------------------------------------------------------------- two processes


# ------------------------------------------------------------------------------------- the page of benchmarks


def by_scores(q, k, **given):
    return nn.global_nce(*nn.in_batch_scores(q, k, **given))


@pytest.mark.parametrize("ids", [None, torch.tensor([0, 1, 2, 3, 0, 1, 4, 5])], ids=["all", "masked"])
def test_a_temperature_is_learned(ids):
    queries, keys, *_ = batch(8)
    log_scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def loss(log_scale):
        return by_scores(queries, keys, ids=ids, temperature=(-log_scale).exp())

    assert torch.equal(loss(log_scale).detach(), loss(log_scale.detach()[None]))  # of one element, in any shape
    assert loss(log_scale).item() == pytest.approx(by_scores(queries, keys, ids=ids, temperature=math.exp(-1.5)).item())
    assert torch.autograd.gradcheck(loss, log_scale)


@pytest.mark.parametrize(
    "loss",
    [
        nn.global_nce,
        nn.local_nce,
        lambda *given: nn.hinge(*given, negatives="sum"),
        lambda *given: nn.debiased_nce(*given, 1.0, 0.0),
    ],
)
def test_a_scale_may_come_after_the_mask(loss):
    queries, keys, *_ = batch(8)
    ids = torch.tensor([0, 1, 2, 3, 0, 1, 4, 5])
    log_scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def scaled(log_scale):
        scores, target = nn.in_batch_scores(queries, keys, ids=ids)
        return loss(scores * log_scale.exp(), target)

    assert torch.autograd.gradcheck(scaled, log_scale)
    scores, target = nn.in_batch_scores(queries, keys, ids=ids)
    infinite = scores.masked_fill(scores < -1e20, -math.inf)  # the mask of whoever makes scores by hand
    assert torch.equal(loss(scores, target), loss(infinite, target))


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_a_learned_temperature_does_not_round_the_queries(narrow):
    queries, keys, *_ = batch(8)
    queries, keys = queries.to(narrow), keys.to(narrow)
    for score in (nn.in_batch_nce, by_scores):
        found = score(queries, keys, temperature=torch.tensor(0.3))
        assert found.dtype == torch.float32
        assert found.item() == pytest.approx(score(queries, keys, temperature=0.3).item(), rel=1e-5)


def test_the_module_counts_ids_as_training_goes_on_and_keeps_the_counts():
    queries, keys, *_ = batch(8, dtype=torch.float32)
    ids, temperature = torch.tensor([3, -1, 3, 7, 12, 3, 0, 1 << 40]), torch.nn.Parameter(torch.tensor(0.5))
    loss, noise = nn.InBatchNCE(temperature, n_buckets=10), nn.InBatchNoise(10)
    assert list(loss.parameters()) == [temperature]
    for _ in range(3):
        noise.observe(ids % 10)
        found, log_q = loss(queries, keys, ids=ids), noise.log_prob(ids % 10)
        torch.testing.assert_close(found, nn.in_batch_nce(queries, keys, ids=ids, log_q=log_q, temperature=0.5))
    assert log_q.argmax() == 0
    again = nn.InBatchNCE(n_buckets=10)
    again.load_state_dict({name: part for name, part in loss.state_dict().items() if name != "temperature"})
    again.temperature = 0.5
    assert again.half().eval()(queries, keys, ids=ids) == found  # what is seen in evaluation is not counted
    assert again(queries, keys, ids=ids) == found
    assert again.train()(queries, keys, ids=ids) != found
    found.backward()
    assert temperature.grad != 0


def test_the_module_refuses_what_cannot_be_counted():
    queries, keys, *_ = batch(3)
    for ids, told in ((torch.arange(2), "of shape (3,)"), (torch.ones(3), "integers"), (None, "what the keys stand")):
        loss = nn.InBatchNCE()
        with pytest.raises(InputError, match=re.escape(told)):
            loss(queries, keys, ids=ids)
        assert not loss.noise._code("_drawn")
    with pytest.raises(InputError, match="drop_last"):
        nn.InBatchNCE()(queries[:1], keys[:1], ids=torch.arange(1))
    for given, told in (
        ({"temperature": 0}, "temperature must be a finite number > 0"),
        ({"n_buckets": 0}, "n_buckets"),
        ({"gather": 2}, "gather"),
    ):
        with pytest.raises(InputError, match=told):
            nn.InBatchNCE(**given)


def test_ids_without_log_q_are_warned_of_once():
    warn._SAID.clear()
    parts, ids = batch()[:2], torch.arange(6)
    with pytest.warns(NearfarWarning, match="InBatchNCE"):
        nn.in_batch_nce(*parts, ids=ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.in_batch_nce(*parts, ids=ids)
        warn._SAID.clear()
        nn.in_batch_nce(*parts, ids=ids, log_q=torch.zeros(6))
        nn.in_batch_nce(*parts)
