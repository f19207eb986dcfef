"""Probabilities from scores of contrastive losses, and how far a model is from needing no normaliser."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")

from nearfar.nn import SelfNormalization, UnigramNoise, recover_conditional, self_normalization  # noqa: E402


def rows(rng, B, n):
    return torch.from_numpy(rng.dirichlet(np.full(n, 0.7), size=B) + 1e-9)


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("N", [2, 3, 17])
def test_the_optimum_of_each_loss_gives_back_the_conditional(rng, N, per_row):
    p, q = rows(rng, 5, 7), rows(rng, 5, 7)
    log_p, log_q = p.log() - p.sum(1).log()[:, None], q.log() if per_row else q[2].log()
    c = torch.from_numpy(rng.normal(size=(5, 1))) * 30
    found = {
        "global": recover_conditional(log_p - log_q + c, log_q),
        "global, log_q in training": recover_conditional(log_p + c),
        "local": recover_conditional(log_p - log_q - math.log(N - 1), log_q, "local", N),
        "local, log_q in training": recover_conditional(log_p, loss="local"),
    }
    for name, log_found in found.items():
        assert log_found.dtype == torch.float64, name
        torch.testing.assert_close(log_found, log_p, rtol=0, atol=1e-12, msg=name)


def test_rows_of_different_lengths_have_their_mean_number_of_candidates(rng):
    """Rows of 2 and of 6 candidates, half of each, and no log q: the step at the optimum is 0 on average."""
    p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    scores = (p / q).log() - math.log(3)  # one noise candidate, and five
    step = -p * torch.sigmoid(-scores) + (1 + 5) / 2 * q * torch.sigmoid(scores)
    torch.testing.assert_close(step, torch.zeros(3).double())
    found = recover_conditional(scores[None], q.log(), "local", n_candidates=4)
    torch.testing.assert_close(found.exp()[0], p)
    found = recover_conditional(scores[None] + math.log(3 / 1.5), q.log(), "local", n_candidates=2.5)
    torch.testing.assert_close(found.exp()[0], p)


@given(arrays(np.float64, (3, 4), elements=st.floats(-80, 80)), st.floats(-50, 50), st.integers(2, 50))
def test_global_is_normalised_and_local_moves_with_the_scores(s, c, N):
    scores, log_q = torch.from_numpy(s), torch.tensor([0.5, 0.2, 0.2, 0.1]).log()
    ranked = recover_conditional(scores, log_q)
    torch.testing.assert_close(ranked.exp().sum(1), torch.ones(3).double())
    torch.testing.assert_close(recover_conditional(scores + c, log_q), ranked, rtol=0, atol=1e-9)
    binary = recover_conditional(scores, log_q, "local", N)
    torch.testing.assert_close(recover_conditional(scores + c, log_q, "local", N), binary + c, rtol=0, atol=1e-9)
    # Both order the ids alike, and are the same once the sums are taken away.
    sums = self_normalization(scores, log_q, N).log_sums
    torch.testing.assert_close(binary - sums[:, None], ranked, rtol=0, atol=1e-9)


def test_self_normalization_tells_a_constant_from_a_spread(rng):
    p = rows(rng, 200, 6)
    log_p = p.log() - p.sum(1).log()[:, None]
    z = torch.from_numpy(rng.normal(0.4, 0.25, size=200))
    measured = self_normalization(log_p + z[:, None])
    assert isinstance(measured, SelfNormalization)
    assert torch.allclose(measured.log_sums, z)
    assert measured.mean == pytest.approx(float(z.mean()))
    assert measured.spread == pytest.approx(float(z.std(correction=0)))
    assert measured.largest == pytest.approx(float(z.abs().max()))
    alike = self_normalization(log_p - 3)
    assert alike.mean == pytest.approx(-3)
    assert alike.spread == pytest.approx(0, abs=1e-12)
    assert alike.largest == pytest.approx(3)
    assert self_normalization(log_p[:1]).spread == 0  # one context has no spread


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores = torch.tensor([[9.0, 8.5, 3.0, -2.0]], dtype=dtype, requires_grad=True)
    log_q = UnigramNoise([5, 3, 2, 9]).log_prob(torch.arange(4))
    found = recover_conditional(scores, log_q)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, (scores.detach().float() + log_q).log_softmax(1))
    found[0, 0].backward()  # differentiable: it can stand in a loss
    assert scores.grad.dtype == dtype
    assert not self_normalization(scores).log_sums.requires_grad


def test_a_masked_id_has_probability_zero():
    found = recover_conditional(torch.tensor([[1.0, -math.inf, 0.0]])).exp()
    torch.testing.assert_close(found, torch.tensor([[math.e, 0.0, 1.0]]) / (math.e + 1))
