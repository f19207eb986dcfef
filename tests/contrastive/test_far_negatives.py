"""The noise of EDRep and of maps is that of the contrastive losses: the same numbers from the same scores and draws."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

torch = pytest.importorskip("torch")

import nearfar as nf  # noqa: E402
from nearfar.far import Noise, NoisePairs  # noqa: E402
from nearfar.maps.objective import NoiseObjective  # noqa: E402
from nearfar.methods.noise_maps import Circle  # noqa: E402
from nearfar.nn import UniformNoise, full_softmax, global_nce, local_nce, sampled_softmax  # noqa: E402

# -- EDRep ----------------------------------------------------------------------------------------------------------


def evaluated(rng, n_samples):
    """Return X and Y, the rows of the sample, and log Z and its gradient by ``far.Noise``."""
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(11, 3)) * 0.8
    far = Noise(n_samples)
    far.prepare(Y, len(Y), np.random.default_rng(4), 1)
    log_z, force = np.empty(6), np.empty((6, 3))
    far.evaluate(X, log_z, force)
    return torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y), far.prepared.sampled, log_z, force


@pytest.mark.parametrize("n_samples", [1, 4, 10])
def test_edrep_takes_log_z_from_its_sample_as_the_sampled_softmax_does(rng, n_samples):
    """Z is what stands in the logarithm of the sampled softmax, without the term of a true class beside the sample."""
    X, Y, rows, log_z, force = evaluated(rng, n_samples)
    log_q = UniformNoise(len(Y)).log_prob(torch.from_numpy(rows)).double()
    nothing = torch.full((6,), -200.0, dtype=torch.float64)  # a true class whose exp(score) vanishes
    loss = sampled_softmax(nothing, X @ Y[rows].T, log_q, reduction="none")
    assert_allclose((loss + nothing).detach(), log_z, rtol=0, atol=1e-6)  # log q is float32
    (gradient,) = torch.autograd.grad(loss.sum(), X)
    assert_allclose(gradient, force, rtol=1e-9, atol=1e-12)


def test_edrep_with_all_as_noise_has_the_full_softmax(rng):
    X, Y, _, log_z, force = evaluated(rng, 11)
    target = torch.tensor([3, 0, 10, 3, 7, 1])
    loss = full_softmax(X @ Y.T, target, reduction="none")
    assert_allclose(loss.detach(), log_z - (X * Y[target]).sum(1).detach().numpy(), rtol=1e-12)
    (gradient,) = torch.autograd.grad(loss.sum(), X)
    assert_allclose(gradient, force - Y[target].numpy(), rtol=1e-9, atol=1e-12)


# -- maps -----------------------------------------------------------------------------------------------------------

N = 23
MAPS = {
    "local, t-SNE": NoisePairs(3),
    "local, UMAP": NoisePairs(4, normalizer="umap"),
    "local, a number": NoisePairs(3, normalizer=150.0),
    "global": NoisePairs(4, "global"),
}


def relation(rng):
    A = rng.random((N, N)) ** 3 * (rng.random((N, N)) < rng.uniform(0.1, 0.4, N)[:, None])
    np.fill_diagonal(A, 0)
    return csr_array(A / A.sum())


def candidates(Y, noise, p, drawn):
    """Scores of the losses, a row for each pair of neighbours and each point whose noise stands beside it.

    The score of a pair is the log of its similarity, for "local" in units of Zbar. Return also the weight of each row.
    """
    log_w = -torch.log1p(((Y[:, None] - Y) ** 2).sum(2))  # Student's t
    i, j = (torch.from_numpy(index) for index in np.nonzero(p))
    true, weight = log_w[i, j], torch.from_numpy(p[i.numpy(), j.numpy()])
    if noise.objective == "global":  # among the noise of the first of the pair
        return torch.cat((true[:, None], log_w[i[:, None], drawn[i]]), 1), weight
    each = log_w[torch.arange(N)[:, None], drawn]  # of anybody: the cost takes the mean
    rows = torch.cat((true.repeat_interleave(N)[:, None], each.repeat(len(true), 1)), 1)
    return rows, weight.repeat_interleave(N) / N


@pytest.mark.slow  # compiled in float64 for this alone
@pytest.mark.parametrize("noise", MAPS.values(), ids=MAPS)
def test_the_cost_and_the_gradient_of_maps_are_those_of_the_losses(rng, noise):
    P = relation(rng)
    Y = rng.normal(size=(N, 2)) * [1.5, 0.7]
    made = NoiseObjective(P, nf.kernels.StudentT(), noise, rng=np.random.default_rng(1), dtype=np.float64, n_jobs=1)
    steps = np.array([1, 5, 17, 12])[: noise.n_samples]
    circle = Circle(made._points, steps)
    a = made.level(Y, circle)
    drawn = np.empty((N, len(steps)), int)
    for t, step in enumerate(steps):
        drawn[made._points, t] = np.roll(made._points, -step)

    place = torch.from_numpy(Y.copy()).requires_grad_()
    rows, weight = candidates(place, noise, ((P + P.T) / 2).toarray(), torch.from_numpy(drawn))
    target = torch.zeros(len(rows), dtype=torch.int64)
    if noise.objective == "global":
        losses = global_nce(rows, target, reduction="none")
    else:  # noise of pairs is even over all N (N - 1): a = m Zbar q
        pairs, m = N * (N - 1), len(steps)
        log_zbar = math.log(a * pairs / m)
        log_q = torch.full(rows.shape[1:], -math.log(pairs), dtype=torch.float64)
        losses = local_nce(rows - log_zbar, target, log_q, reduction="none")
    cost = weight @ losses
    assert float(cost.detach()) == pytest.approx(made.value_of(Y, circle), rel=1e-10)
    (gradient,) = torch.autograd.grad(cost, place)
    assert_allclose(made.gradient(Y, circle), gradient, rtol=1e-8, atol=1e-12)
