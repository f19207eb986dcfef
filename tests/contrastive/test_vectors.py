"""Losses of vectors, in blocks, against those of whole matrices: values, gradients, theirs, and all that is combined.

Every loss is here once, with all that it takes at the same time; what one of them alone promises stands below.
"""

import math

import pytest
from quick import often, with_slow

torch = pytest.importorskip("torch")

import plain_losses as plain  # noqa: E402

import nearfar.nn as nn  # noqa: E402
from nearfar.contrastive import rows as _rows  # noqa: E402
from nearfar.errors import InputError  # noqa: E402

B, M, D = 6, 4, 3
GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


QUERIES, KEYS, NEGATIVES = normal(B, D), normal(B, D), normal(M, D)
LOG_Q, QUERY_LOG_Q = normal(B + M).log_softmax(0), normal(B).log_softmax(0)
# The first, the fourth and a negative are of one item; so are the last two; one negative is the second key.
IDS = torch.tensor([5, 2, 8, 5, 9, 9, 2, 7, 5, 1])
QUERY_IDS = torch.tensor([1, 1, 2, 3, 4, 2])
LABELS = torch.tensor([0, 1, 0, 2, 1, 0])  # one comes once
SHARES = normal(B, B + M).softmax(1)
SHARES[0, 3] = 0
SHARES /= SHARES.sum(1, keepdim=True)
WEIGHTS = torch.tensor([1.0, 0.5, -2.0, 3.0, 1.0, 0.2], dtype=torch.float64)
SCALE, BIAS = torch.tensor(0.4, dtype=torch.float64), torch.tensor(-1.5, dtype=torch.float64)
T = 0.7


def of_pairs(function, **options):
    def loss(queries, keys, *, reduction="none"):
        return function(queries, keys, temperature=T, reduction=reduction, **options)

    return loss


def of_negatives(function, **options):
    def loss(queries, keys, negatives, *, reduction="none"):
        return function(queries, keys, negatives=negatives, temperature=T, reduction=reduction, **options)

    return loss


def joined(reference, **options):
    return lambda queries, keys, negatives: reference(queries, torch.cat([keys, negatives]), temperature=T, **options)


def both_ways(queries, keys, negatives, log_q=None, ids=None, query_log_q=None, query_ids=None):
    there = joined(plain.ranking, log_q=log_q, ids=ids)(queries, keys, negatives)
    return (there + plain.ranking(keys, queries, query_log_q, query_ids, temperature=T)) / 2


def supervised(vectors, log_q=None):
    found = plain.supervised(vectors, LABELS, log_q, T)
    return torch.stack([vectors.new_zeros(()) if loss is None else loss for loss in found])


EVERYTHING = {"log_q": LOG_Q, "ids": IDS}
OF_QUERIES = {"query_log_q": QUERY_LOG_Q, "query_ids": QUERY_IDS}
PAIRS, ALL = (QUERIES, KEYS), (QUERIES, KEYS, NEGATIVES)
# name: the loss, what it is by hand, of which vectors
LOSSES = {
    "in_batch_nce": (of_pairs(nn.in_batch_nce), lambda q, k: plain.ranking(q, k, temperature=T), PAIRS),
    "in_batch_nce, negatives": (of_negatives(nn.in_batch_nce), joined(plain.ranking), ALL),
    "in_batch_nce, negatives, log_q, ids": (
        of_negatives(nn.in_batch_nce, **EVERYTHING),
        joined(plain.ranking, **EVERYTHING),
        ALL,
    ),
    "in_batch_nce, negatives, log_q, shares": (
        of_negatives(nn.in_batch_nce, log_q=LOG_Q, target=SHARES),
        joined(plain.ranking, log_q=LOG_Q, target=SHARES),
        ALL,
    ),
    "symmetric_nce": (
        of_pairs(nn.symmetric_nce),
        lambda q, k: (plain.ranking(q, k, temperature=T) + plain.ranking(k, q, temperature=T)) / 2,
        PAIRS,
    ),
    "symmetric_nce, negatives, log_q, ids": (
        of_negatives(nn.symmetric_nce, **EVERYTHING, **OF_QUERIES),
        lambda *vectors: both_ways(*vectors, **EVERYTHING, **OF_QUERIES),
        ALL,
    ),
    "supcon": (
        lambda v, **more: nn.supcon(v, LABELS, temperature=T, **{"reduction": "none", **more}),
        supervised,
        (QUERIES,),
    ),
    "supcon, log_q": (
        lambda v, **more: nn.supcon(v, LABELS, log_q=QUERY_LOG_Q, temperature=T, **{"reduction": "none", **more}),
        lambda v: supervised(v, QUERY_LOG_Q),
        (QUERIES,),
    ),
    "siglip": (of_pairs(nn.siglip, bias=-1.5), lambda q, k: plain.sigmoid(q, k, temperature=T, bias=-1.5), PAIRS),
    "siglip, negatives, log_q, ids": (
        of_negatives(nn.siglip, bias=BIAS, **EVERYTHING),
        joined(plain.sigmoid, bias=-1.5, **EVERYTHING),
        ALL,
    ),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
# The others are the same with less.
WHOLE = {"in_batch_nce, negatives, log_q, ids", "symmetric_nce, negatives, log_q, ids", "supcon, log_q"}
WHOLE |= {"in_batch_nce, negatives, log_q, shares", "siglip, negatives, log_q, ids"}
every_whole_loss = pytest.mark.parametrize("name", often(LOSSES, WHOLE))
# What torch loads for derivatives in a direction is written in what it deprecates.
forward_mode = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


@pytest.fixture(autouse=True)
def _two_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 23)


def leaves(vectors):
    return tuple(part.clone().requires_grad_() for part in vectors)


@every_loss
def test_the_loss_is_that_on_the_matrix(name):
    loss, reference, vectors = LOSSES[name]
    found = []
    for call in (loss, reference):
        parts = leaves(vectors)
        losses = call(*parts)
        (WEIGHTS @ losses).backward()
        found.append((losses.detach(), *(part.grad for part in parts)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)
    n = 5 if "supcon" in name else B  # one has no loss
    assert loss(*vectors, reduction="sum").item() == pytest.approx(found[0][0].sum().item())
    assert loss(*vectors, reduction="mean").item() == pytest.approx(found[0][0].sum().item() / n)


@forward_mode
@pytest.mark.parametrize("name", often(LOSSES, {name for name in WHOLE if "in_batch" not in name}))
def test_gradients_and_their_gradients_are_those_of_differences(name):
    loss, _, vectors = LOSSES[name]
    along = "symmetric" not in name  # one pass has no derivative in a direction but under torch.func
    assert torch.autograd.gradcheck(loss, leaves(vectors), check_forward_ad=along, fast_mode=True)
    assert torch.autograd.gradgradcheck(loss, leaves(vectors), check_fwd_over_rev=along, fast_mode=True)


@forward_mode
@every_whole_loss
def test_torch_func_finds_what_it_finds_on_the_matrix(name):
    from torch.func import grad, hessian, jacrev, jvp, vmap

    loss, reference, (first, *others) = LOSSES[name]

    def weighed(function):
        return lambda vectors: WEIGHTS @ function(vectors, *others)

    mine, theirs = weighed(loss), weighed(reference)
    twice = torch.stack([first, 0.5 * first])
    torch.testing.assert_close(grad(mine)(first), grad(theirs)(first))
    torch.testing.assert_close(vmap(grad(mine))(twice), torch.stack([grad(theirs)(each) for each in twice]))
    torch.testing.assert_close(hessian(mine)(first), hessian(theirs)(first))
    torch.testing.assert_close(
        jvp(mine, (first,), (others[0] if others else first,))[1],
        jvp(theirs, (first,), (others[0] if others else first,))[1],
    )
    third = [grad(lambda v, f=f: (jacrev(f)(v) ** 2).sum() ** 2)(first) for f in (mine, theirs)]
    torch.testing.assert_close(*third)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_and_half_precision_do_not_round_the_scores(name, dtype):
    loss, _, vectors = LOSSES[name]
    found = []
    for inside in (False, True):
        parts = leaves(part.to(dtype) for part in vectors)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            value = loss(*parts, reduction="mean")
            value.backward()
        assert value.dtype == torch.float32
        assert all(part.grad.dtype == dtype for part in parts)
        found.append((value.detach(), *(part.grad for part in parts)))
    for plainly, inside in zip(*found, strict=True):
        assert torch.equal(plainly, inside)
    wide = loss(*(part.to(dtype).double() for part in vectors), reduction="mean")
    assert found[0][0].item() == pytest.approx(wide.item(), rel=1e-5)


@pytest.mark.parametrize("loss", [nn.in_batch_nce, nn.symmetric_nce, nn.siglip], ids=lambda loss: loss.__name__)
def test_scale_and_bias_are_learned(loss):
    def value(log_scale, bias):
        more = {"bias": bias} if loss is nn.siglip else {}
        return loss(*PAIRS, negatives=NEGATIVES, log_q=LOG_Q, temperature=(-log_scale).exp(), **more)

    given = leaves((SCALE, BIAS))
    assert torch.autograd.gradcheck(value, given if loss is nn.siglip else (given[0], -1.5))
    of_several = torch.stack([value(SCALE, BIAS), value(SCALE[None], BIAS[None])])
    assert of_several[0] == of_several[1]


@pytest.mark.parametrize("loss", [nn.in_batch_nce, nn.symmetric_nce, nn.siglip], ids=lambda loss: loss.__name__)
def test_negatives_of_a_query_are_candidates_of_all(loss):
    of_each = normal(B, 2, D)
    together = loss(*PAIRS, negatives=of_each.reshape(2 * B, D), reduction="none")
    assert torch.equal(loss(*PAIRS, negatives=of_each, reduction="none"), together)
    assert (together > loss(*PAIRS, reduction="none")).all()
    one = loss(QUERIES[:1], KEYS[:1], negatives=NEGATIVES) if loss is not nn.symmetric_nce else together[0]
    assert one > 0  # a batch of one has something to tell its key from


def test_a_negative_that_is_the_true_key_is_masked_by_its_id():
    ids = torch.arange(B + 1)
    copy = KEYS[:1]
    unmasked = nn.in_batch_nce(*PAIRS, negatives=copy, ids=ids, reduction="none")
    ids[B] = 0
    masked = nn.in_batch_nce(*PAIRS, negatives=copy, ids=ids, reduction="none")
    without = nn.in_batch_nce(*PAIRS, reduction="none")
    assert masked[0] < unmasked[0]
    own = (QUERIES[0] @ KEYS[0]).exp()
    rest = (QUERIES[0] @ KEYS[1:].T).exp().sum()
    assert masked[0].item() == pytest.approx(-math.log(2 * own / (2 * own + rest)))  # it counts twice
    torch.testing.assert_close(masked[1:], unmasked[1:])
    assert (masked[1:] > without[1:]).all()  # to the others it is one more


def test_scores_with_negatives_are_what_the_fused_loss_has():
    scores, target = nn.in_batch_scores(*PAIRS, negatives=NEGATIVES, temperature=T)
    assert scores.shape == (B, B + M)
    torch.testing.assert_close(
        nn.global_nce(scores, target, LOG_Q), nn.in_batch_nce(*PAIRS, negatives=NEGATIVES, log_q=LOG_Q, temperature=T)
    )
    masked, _ = nn.in_batch_scores(*PAIRS, negatives=NEGATIVES, ids=IDS)
    assert (masked < -1e20).sum() == 2 + 1 + 2 + 2  # in the rows of 5, 2, 5 and both of 9


def test_if_all_keys_are_of_one_item_nothing_is_to_be_told():
    parts = leaves(PAIRS)
    ids = torch.zeros(B, dtype=torch.int64)
    loss = nn.in_batch_nce(*parts, ids=ids)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert max(float(part.grad.abs().max()) for part in parts) < 1e-12
    left = -torch.nn.functional.logsigmoid((QUERIES * KEYS).sum(1) / 0.1 - 10)
    torch.testing.assert_close(nn.siglip(*PAIRS, ids=ids, reduction="none"), left)  # the true pairs alone


def test_the_sigmoid_loss_is_that_of_local_nce_with_its_bias():
    """ln(N - 1) of the binary loss is what the bias stands for."""
    scores, target = nn.in_batch_scores(*PAIRS, temperature=T)
    found = nn.siglip(*PAIRS, temperature=T, bias=-math.log(B - 1), log_q=LOG_Q[:B], reduction="none")
    torch.testing.assert_close(found, nn.local_nce(scores, target, LOG_Q[:B], reduction="none"))


# -- shares as targets of losses of scores


@pytest.mark.parametrize("loss", [nn.global_nce, nn.full_softmax], ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
def test_shares_stand_in_place_of_a_column(loss, narrow):
    scores = leaves((QUERIES @ KEYS.T,))[0]
    shares = SHARES[:, :B] / SHARES[:, :B].sum(1, keepdim=True)
    given = shares if narrow is None else shares.to(narrow)
    values = loss(scores, given, reduction="none")
    torch.testing.assert_close(values, -(given.double() * scores.log_softmax(1)).sum(1))
    assert torch.autograd.gradcheck(lambda s: loss(s, given, reduction="none"), scores, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda s: loss(s, given, reduction="none"), scores, fast_mode=True)
    columns = torch.tensor([2, 0, 3, 1, 0, 5])
    certain = torch.nn.functional.one_hot(columns, B).double()
    torch.testing.assert_close(loss(scores, certain), loss(scores, columns))


def test_shares_of_masked_candidates_are_none():
    scores = (QUERIES @ KEYS.T).index_fill(1, torch.tensor([2]), -math.inf)
    shares = torch.full((B, B), 1 / B, dtype=torch.float64)
    with pytest.raises(InputError, match="target must be 0 where the score is masked"):
        nn.global_nce(scores, shares)
    shares = shares.index_fill(1, torch.tensor([2]), 0) * B / (B - 1)
    kept = [0, 1, 3, 4, 5]
    torch.testing.assert_close(nn.global_nce(scores, shares), nn.global_nce(scores[:, kept], shares[:, kept]))


# -- what cannot be used


@pytest.mark.parametrize(
    "name", with_slow(["supcon"], slow=["symmetric_nce, negatives, log_q, ids", "in_batch_nce, negatives, log_q, ids"])
)
def test_no_matrix_of_scores_is_ever_held(name, monkeypatch):
    from lab.contrastive.nce_memory import peak_bytes

    monkeypatch.setattr(_rows, "BLOCK", 2**12)
    n = 256
    queries, keys, negatives = (torch.randn(n, 8).requires_grad_() for _ in range(3))
    ids, log_q = torch.arange(2 * n) // 2, torch.full((2 * n,), -7.0)
    calls = {
        "in_batch_nce": lambda: nn.in_batch_nce(queries, keys, negatives=negatives, ids=ids, log_q=log_q),
        "symmetric_nce": lambda: nn.symmetric_nce(
            queries, keys, negatives=negatives, ids=ids, log_q=log_q, query_ids=ids[:n], query_log_q=log_q[:n]
        ),
        "supcon": lambda: nn.supcon(queries, ids[:n]),
    }
    peak = peak_bytes(lambda: calls[name.split(",")[0]]().backward())
    assert peak / (4 * n * n) < 0.6
