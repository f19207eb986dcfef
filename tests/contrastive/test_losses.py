"""Contrastive losses: closed forms by hand, NumPy twins, gradients, masks, half precision, memory."""

import math
from itertools import pairwise

import numpy as np
import pytest
from quick import with_slow
from scipy.special import expit, logsumexp

torch = pytest.importorskip("torch")

import nearfar.nn as nn  # noqa: E402
from nearfar.contrastive import rows as _rows  # noqa: E402
from nearfar.words import skipgram as kernels  # noqa: E402

INF = math.inf
HALVES = (torch.float16, torch.bfloat16)


def candidates(seed=0, n_rows=5, n=4, masked=True):
    """Irregular scores of float64, targets in different columns, and a noise candidate or two masked."""
    rng = np.random.default_rng(seed)
    scores, target = rng.normal(size=(n_rows, n)) * 2, rng.integers(n, size=n_rows)
    if masked:
        scores[1, (target[1] + 1) % n] = scores[3, (target[3] + 2) % n] = -INF
    return torch.tensor(scores), torch.tensor(target)


def noise_log_q(n=4, seed=1):
    return torch.tensor(np.log(np.random.default_rng(seed).dirichlet(np.ones(n))))


# Twins: each takes arrays and returns a loss per row.


def twin_global(s, t, log_q=0.0):
    logits = s - log_q
    return logsumexp(logits, axis=1) - logits[np.arange(len(t)), t]


def twin_local(s, t, log_q=None):
    logits = s if log_q is None else s - log_q - np.log((s > -INF).sum(1, keepdims=True) - 1)
    sign = np.where(np.arange(s.shape[1]) == t[:, None], 1, -1)
    return -np.log(expit(sign * logits)).sum(1)


def twin_hinge(s, t, margin, negatives):
    losses = []
    for row, column in zip(s, t, strict=True):
        true, noise = row[column], np.delete(row, column)
        noise = noise[noise > -INF]
        if negatives == "semi-hard":
            below = noise[noise < true]
            noise = [below.max() if below.size else noise.min()] if noise.size else noise
        terms = [max(0.0, margin - true + x) for x in noise]
        losses.append(sum(terms) if negatives == "sum" else max(terms, default=0.0))
    return np.array(losses)


def twin_debiased(s, t, temperature, prior, beta):
    losses = []
    for row, column in zip(s, t, strict=True):
        noise = np.delete(row, column)
        pos, neg = np.exp(row[column] / temperature), np.exp(noise[noise > -INF] / temperature)
        imp = neg**beta
        total = (imp * neg).sum() / imp.mean()
        if prior:
            total = max((total - prior * len(neg) * pos) / (1 - prior), len(neg) * np.exp(-1 / temperature))
        losses.append(-np.log(pos / (pos + total)))
    return np.array(losses)


LOSSES = {
    "global": (nn.global_nce, twin_global, {}),
    "global, log q": (nn.global_nce, twin_global, {"log_q": noise_log_q()}),
    "global, log q per row": (nn.global_nce, twin_global, {"log_q": noise_log_q() - torch.arange(5.0)[:, None]}),
    "local": (nn.local_nce, twin_local, {}),
    "local, log q": (nn.local_nce, twin_local, {"log_q": noise_log_q()}),
    "local, log q per row": (nn.local_nce, twin_local, {"log_q": noise_log_q() - torch.arange(5.0)[:, None] / 3}),
    "full": (nn.full_softmax, twin_global, {}),
    "hinge": (nn.hinge, twin_hinge, {"margin": 0.7, "negatives": "hardest"}),
    "hinge, semi-hard": (nn.hinge, twin_hinge, {"margin": 1.3, "negatives": "semi-hard"}),
    "hinge, sum": (nn.hinge, twin_hinge, {"margin": 1.5, "negatives": "sum"}),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def as_numpy(options):
    return {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in options.items()}


@every_loss
def test_a_loss_is_its_twin_in_every_reduction(name):
    loss, twin, options = LOSSES[name]
    scores, target = candidates()
    expected = twin(scores.numpy(), target.numpy(), **as_numpy(options))
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(loss(scores, target, reduction="none", **options), expected, rtol=1e-12)
    np.testing.assert_allclose(loss(scores, target, reduction="sum", **options), expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(loss(scores, target, **options), expected.mean(), rtol=1e-12)
    wider = loss(scores.float(), target.int(), reduction="none", **options)
    np.testing.assert_allclose(wider, expected, rtol=2e-5)
    assert wider.dtype == torch.float32


@every_loss
def test_rows_of_different_lengths_are_padded_by_minus_infinity(name, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 9)  # two rows at a time
    loss, _, options = LOSSES[name]
    scores, target = candidates(5, masked=False)
    lengths = [4, 2, 3, 4, 3]
    target = torch.minimum(target, torch.tensor(lengths) - 1)
    padded = scores.masked_fill(torch.arange(4) >= torch.tensor(lengths)[:, None], -INF).requires_grad_()
    found = loss(padded, target, reduction="none", **options)
    found.sum().backward()
    for row, length in enumerate(lengths):
        own = scores[row : row + 1, :length].clone().requires_grad_()
        part = {
            k: v[row : row + 1, :length] if v.ndim == 2 else v[:length]
            for k, v in options.items() if isinstance(v, torch.Tensor)
        }  # fmt: skip
        alone = loss(own, target[row : row + 1], **{**options, **part})
        alone.backward()
        torch.testing.assert_close(found[row], alone)
        torch.testing.assert_close(padded.grad[row, :length], own.grad[0])
    assert not padded.grad[padded.detach() == -INF].any()


@pytest.mark.parametrize("name", ["global, log q", "global, log q per row", "local", "local, log q per row"])
@pytest.mark.parametrize("dtype", [torch.float64, *HALVES])
def test_blocks_of_rows_change_nothing(name, dtype, monkeypatch):
    loss, _, options = LOSSES[name]
    found = []
    for block in (2**20, 9):  # two rows and one row at the end
        monkeypatch.setattr(_rows, "BLOCK", block)
        scores, target = candidates(6)
        scores = scores.to(dtype).requires_grad_()
        log_q = options["log_q"].clone().requires_grad_() if options else None
        value = loss(scores, target, log_q, reduction="none")
        (value * torch.arange(1.0, 6)).sum().backward()
        found.append((value.detach(), scores.grad, *([log_q.grad] if options else [])))
    for one, many in zip(*found, strict=True):
        torch.testing.assert_close(one, many)
    assert list(pairwise([0, 2, 4, 5])) == [(rows.start, rows.stop) for rows in _rows.row_blocks(5, 4)]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize(
    "name", with_slow(["global, log q per row", "local, log q"], slow=["global, log q", "local, log q per row"])
)
def test_gradients_in_log_q_have_gradients(name):
    loss, _, options = LOSSES[name]
    scores, target = candidates(masked=False)
    given = scores.requires_grad_(), options["log_q"].clone().requires_grad_()
    weights = torch.arange(1.0, 1 + len(scores), dtype=torch.float64)

    def weighed(scores, log_q):
        return weights @ loss(scores, target, log_q, reduction="none")

    assert torch.autograd.gradcheck(weighed, given, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(weighed, given, check_fwd_over_rev=True, fast_mode=True)


def test_half_precision_loses_nothing_over_many_candidates():
    # In bfloat16, ln 70000 = 11.156 would be 11.1875, and 70000 is beyond float16.
    for dtype in HALVES:
        scores = torch.zeros(1, 70_000, dtype=dtype)
        target = torch.tensor([69_999])
        assert nn.global_nce(scores, target).item() == pytest.approx(math.log(70_000), rel=1e-6)
        uniform = torch.full((70_000,), -math.log(70_000), dtype=torch.float64)
        assert nn.global_nce(scores, target, uniform).item() == pytest.approx(math.log(70_000), rel=1e-6)
        assert nn.local_nce(scores, target).item() == pytest.approx(70_000 * math.log(2), rel=1e-6)


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_large_scores_stay_finite(size):
    scores = torch.tensor([[size, -size, 0.0], [-size, size, 0.0]]).requires_grad_()
    target = torch.tensor([0, 0])
    for loss in (nn.global_nce, nn.local_nce):
        scores.grad = None
        values = loss(scores, target, reduction="none")
        values.sum().backward()
        assert values[0].item() == (0 if loss is nn.global_nce else pytest.approx(math.log(2)))
        assert values[1] >= size
        torch.testing.assert_close(scores.grad[1, :2], torch.tensor([-1.0, 1.0]))
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("loss", [nn.global_nce, nn.local_nce])
def test_a_far_better_true_candidate_keeps_its_digits(loss):
    scores = torch.tensor([[30.0, -30.0]]).requires_grad_()
    value = loss(scores, torch.tensor([0]))
    value.backward()
    if loss is nn.local_nce:  # each term by itself is small
        assert value.item() == pytest.approx(2 * math.exp(-30), rel=1e-5)
        torch.testing.assert_close(scores.grad, torch.tensor([[-1.0, 1.0]]) * math.exp(-30), rtol=1e-5, atol=0)
    else:
        assert 0 <= value.item() < 1e-6


# ------------------------------------------------------------------------------------- sampled softmax


def sampled(seed=0, n_rows=4, m=6, n=5):
    """Scores of true and of drawn classes, logs of their probabilities, ids of both; some draws hit."""
    rng = np.random.default_rng(seed)
    theta, q = rng.normal(size=(n_rows, n)), rng.dirichlet(np.ones(n))
    true, drawn = rng.integers(n, size=n_rows), rng.integers(n, size=(n_rows, m))
    rows = np.arange(n_rows)
    parts = theta[rows, true], theta[rows[:, None], drawn], np.log(q)[drawn], true, drawn
    return [torch.tensor(part) for part in parts]


def test_sampled_softmax_is_its_twin():
    true, noise, log_q, true_ids, noise_ids = sampled()
    hits = noise_ids == true_ids[:, None]
    assert 0 < hits.sum() < hits.numel() / 2
    for ids in ((), (true_ids, noise_ids)):
        terms = (noise - log_q).exp() / noise.shape[1] * (~hits if ids else 1)
        expected = -true + (true.exp() + terms.sum(1)).log()
        torch.testing.assert_close(nn.sampled_softmax(true, noise, log_q, *ids, reduction="none"), expected)
    shared = nn.sampled_softmax(true, noise, log_q[0], true_ids, noise_ids[0])
    each = nn.sampled_softmax(true, noise, log_q[0].expand(4, 6), true_ids, noise_ids[0].expand(4, 6))
    torch.testing.assert_close(shared, each)
    narrow = nn.sampled_softmax(true.half(), noise.half(), log_q)
    assert narrow.dtype == torch.float32


def test_padding_of_sampled_softmax_is_as_if_it_were_not_there():
    """Draws that hit the true class count in m, padding does not."""
    true, noise, log_q, true_ids, noise_ids = sampled()
    lengths = torch.tensor([6, 2, 4, 1])
    padded = noise.masked_fill(torch.arange(6) >= lengths[:, None], -INF).requires_grad_()
    for ids in ((), (true_ids, noise_ids)):
        found = nn.sampled_softmax(true, padded, log_q, *ids, reduction="none")
        for row, n in enumerate(lengths):
            at = slice(row, row + 1)
            of_row = [true_ids[at], noise_ids[at, :n]] if ids else []
            alone = nn.sampled_softmax(true[at], noise[at, :n], log_q[at, :n], *of_row)
            torch.testing.assert_close(found[row], alone)
    (slope,) = torch.autograd.grad(found.sum(), padded)
    assert slope.isfinite().all()
    assert not slope[padded.detach() == -INF].any()
    nothing = nn.sampled_softmax(true[:1], torch.full((1, 3), -INF).double(), log_q[:1, :3])
    assert nothing == 0


def test_the_gradient_of_sampled_softmax_is_right():
    true, noise, log_q, *ids = sampled()
    inputs = [part.requires_grad_() for part in (true, noise, log_q)]
    assert torch.autograd.gradcheck(lambda *parts: nn.sampled_softmax(*parts, *ids, reduction="none"), inputs)


def test_sampled_softmax_with_all_classes_once_is_the_full_softmax():
    scores, target = candidates(masked=False)
    uniform = torch.full((4,), -math.log(4), dtype=torch.float64)
    true = scores.gather(1, target[:, None])[:, 0]
    value = nn.sampled_softmax(true, scores, uniform, target, torch.arange(4), reduction="none")
    torch.testing.assert_close(value, nn.full_softmax(scores, target, reduction="none"))


# ------------------------------------------------------------------------------------- debiased


def cosines(seed=0, masked=True):
    scores, target = candidates(seed, masked=masked)
    return torch.tanh(scores).masked_fill(scores == -INF, -INF), target


DEBIASED = [(0.5, 0.0, 0.0), (0.5, 0.1, 0.0), (0.3, 0.05, 0.0), (0.7, 0.0, 1.0), (0.5, 0.1, 0.5), (1.0, 0.6, 2.0)]


@pytest.mark.parametrize("options", DEBIASED)
def test_debiased_loss_is_its_twin_and_its_gradient_is_right(options):
    for seed in range(3):
        scores, target = cosines(seed)
        expected = twin_debiased(scores.numpy(), target.numpy(), *options)
        np.testing.assert_allclose(nn.debiased_nce(scores, target, *options, reduction="none"), expected, rtol=1e-12)
    scores, target = cosines(3, masked=False)
    assert torch.autograd.gradcheck(lambda s: nn.debiased_nce(s, target, *options), scores.requires_grad_())


def test_debiased_loss_without_prior_and_concentration_is_info_nce():
    scores, target = candidates(masked=True)
    value = nn.debiased_nce(10 * scores, target, temperature=0.05, class_prior=0, concentration=0, reduction="none")
    torch.testing.assert_close(value, nn.global_nce(scores / 0.005, target, reduction="none"))


def test_debiased_loss_at_its_floor():
    scores = torch.tensor([[1.0, -0.9, -0.8, -1.0]], dtype=torch.float64)
    value = nn.debiased_nce(scores, torch.tensor([0]), temperature=0.5, class_prior=0.1)
    assert value.item() == pytest.approx(math.log(1 + 3 * math.exp(-2) / math.exp(2)))


def test_debiased_loss_of_half_precision_and_small_temperature():
    scores, target = cosines(masked=False)
    for dtype in HALVES:
        narrow = scores.to(dtype)
        expected = twin_debiased(narrow.double().numpy(), target.numpy(), 0.01, 0.1, 0.5)  # e^100 is beyond float32
        found = nn.debiased_nce(narrow, target, 0.01, 0.1, 0.5, reduction="none")
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------- beside other parts


def test_the_loss_of_skip_gram_windows_is_local_nce():
    # A window of words around a centre; the third noise word is the centre itself, and does not count.
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(2, 9, 32)).astype(np.float32)
    inputs, outs = np.array([4, 0, 4, 7, 2], np.int32), np.array([3, 1, 8, 3, 5, 1], np.int32)
    sums = np.zeros(2)
    starts = np.array([0, len(inputs)])
    kernels.train_windows((inputs, starts, outs[None], np.array([0, 1])), np.float32(0), X, Y, None, sums)
    scores = torch.tensor(X[inputs] @ Y[outs].T)
    scores[:, 1:] = scores[:, 1:].masked_fill(torch.tensor(outs[1:] == outs[0]), -INF)
    losses = nn.local_nce(scores, torch.zeros(len(inputs), dtype=torch.int64), reduction="sum")
    assert sums[0] == pytest.approx(losses.item(), rel=1e-5)
    assert sums[1] == (scores > -INF).sum()


@pytest.mark.parametrize("loss", [nn.global_nce, nn.local_nce])
def test_beyond_the_scores_there_is_one_matrix(loss):
    from lab.contrastive.nce_memory import peak_bytes

    n = 1536
    scores = torch.randn(n, n, requires_grad=True)
    target = torch.arange(n)
    peak = peak_bytes(lambda: loss(scores, target).backward())
    assert 1 <= peak / (4 * n * n) < 1.01
