"""The theory of noise-contrastive estimation, statement by statement, with the losses that are shipped.

X and Y are finite and all distributions known, so every expectation is a sum over all that can be drawn, and every
optimum is found to float64: nothing here is sampled. Where a statement has a condition, the test also
shows that it fails without.
"""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quick import often, with_slow
from scipy.optimize import minimize

torch = pytest.importorskip("torch")

from nearfar.nn import (  # noqa: E402
    AdaptiveNoise,
    full_softmax,
    global_nce,
    local_nce,
    recover_conditional,
    sampled_softmax,
    self_normalization,
)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


JOINT = f64([[0.11, 0.02, 0.17, 0.05], [0.01, 0.21, 0.06, 0.03], [0.09, 0.04, 0.04, 0.17]])
P_X, P_Y = JOINT.sum(1), JOINT.sum(0)
P = JOINT / P_X[:, None]  # p(y|x)
I_XY = float((JOINT * (P / P_Y).log()).sum())
NOISE = {
    "marginal": P_Y.expand(3, 4),
    "uniform": torch.full((3, 4), 0.25, dtype=torch.float64),
    "another": f64([0.1, 0.15, 0.05, 0.7]).expand(3, 4),
    "of its own for each x": f64([[0.6, 0.2, 0.1, 0.1], [0.3, 0.3, 0.3, 0.1], [0.1, 0.2, 0.3, 0.4]]),
}
every_noise = pytest.mark.parametrize("q", NOISE.values(), ids=NOISE)
# Each noise once, each N at least once.
SIZES = dict(zip(NOISE, (4, 3, 2, 3), strict=True))
GAMES = often([(NOISE[name], N) for name, N in SIZES.items()], lambda q, N: N != 3)
some_games = pytest.mark.parametrize(("q", "N"), GAMES, ids=[*SIZES])


class Game:
    """All that can happen: x, the true y, and N - 1 draws of noise; the true one stands in every column in turn."""

    def __init__(self, joint, q, N):
        n_x, n_y = joint.shape
        tuples = torch.cartesian_prod(*[torch.arange(n_y)] * N)
        self.x = torch.arange(n_x).repeat_interleave(len(tuples))
        ids = tuples.repeat(n_x, 1)
        noise = q[self.x[:, None], ids[:, 1:]]
        self.weight = joint[self.x, ids[:, 0]] * noise.prod(1)
        self.target = torch.arange(len(ids)) % N
        self.ids = ids.gather(1, (torch.arange(N) - self.target[:, None]) % N)
        self.log_q = q.log()[self.x[:, None], self.ids]

    def loss(self, loss, scores, *, explicit=False):
        """The expected loss of a table of scores (X, Y); ``explicit`` gives the loss log q."""
        rows = scores[self.x[:, None], self.ids]
        return self.weight @ loss(rows, self.target, self.log_q if explicit else None, reduction="none")


def optimum(objective, start):
    """Return where a smooth function is least, and its value there."""

    def value_and_gradient(flat):
        at = torch.from_numpy(flat.copy()).reshape(start.shape).requires_grad_()
        value = objective(at)
        (gradient,) = torch.autograd.grad(value, at)
        return float(value.detach()), gradient.numpy().ravel()

    found = minimize(value_and_gradient, start.numpy().ravel(), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert np.abs(found.jac).max() < 1e-7, found.message
    return torch.from_numpy(found.x).reshape(start.shape), found.fun


def close(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


START = torch.zeros(3, 4).double()


@functools.cache
def least_local(q, N):
    """Return where local NCE is least, and its value there."""
    game = Game(JOINT, q, N)
    return optimum(lambda s: game.loss(local_nce, s), START)


# -- optima ---------------------------------------------------------------------------------------------------------


@some_games
def test_local_nce_is_least_at_the_log_ratio_less_the_log_of_n_minus_1(q, N):
    s, _ = least_local(q, N)
    close(s, (P / q).log() - math.log(N - 1))
    close(recover_conditional(s, q.log(), "local", N).exp(), P)
    if q is NOISE["marginal"]:  # pointwise mutual information, shifted
        close(s, (JOINT / (P_X[:, None] * P_Y)).log() - math.log(N - 1))


@some_games
def test_global_nce_is_least_at_the_log_ratio_up_to_a_constant_for_each_x(q, N):
    game = Game(JOINT, q, N)
    start = START + torch.tensor([[3.0], [-1.0], [0.5]])  # the constant stays where it was
    s, _ = optimum(lambda s: game.loss(global_nce, s), start)
    rest = s - (P / q).log()
    close(rest, rest[:, :1].expand(3, 4))
    assert float(rest[:, 0].std()) > 0.5
    close(recover_conditional(s, q.log()).exp(), P)


@pytest.mark.parametrize("q", often(NOISE.values(), lambda q: q is NOISE["another"]), ids=[*NOISE])
def test_with_log_q_the_scores_are_log_probabilities(q):
    game = Game(JOINT, q, 3)
    local, _ = optimum(lambda s: game.loss(local_nce, s, explicit=True), START)
    close(local, P.log())  # without a normaliser
    ranked, _ = optimum(lambda s: game.loss(global_nce, s, explicit=True), START)
    close(ranked.log_softmax(1), P.log())
    assert float((ranked.logsumexp(1)).abs().max()) > 0.1  # with one


# -- mutual information ---------------------------------------------------------------------------------------------


def best_bound(joint, N):
    """Return the bound by the optimal critic, which is that of any N, and the information."""
    marginal = joint.sum(0).expand_as(joint)
    critic = (joint / (joint.sum(1)[:, None] * marginal)).log()
    return math.log(N) - float(Game(joint, marginal, N).loss(global_nce, critic)), float((joint * critic).sum())


@pytest.mark.parametrize("N", with_slow([3], slow=[2, 4]))
def test_the_bound_of_the_best_critic_rises_with_n_and_stays_below_the_information(N):
    bounds = [best_bound(JOINT, n)[0] for n in (N, N + 1)]
    assert 0 < bounds[0] < bounds[1] < min(I_XY, math.log(N))
    game = Game(JOINT, NOISE["marginal"], N)
    _, least = optimum(lambda s: game.loss(global_nce, s), START)
    assert math.log(N) - least == pytest.approx(bounds[0], abs=1e-9)  # no critic does better


@pytest.mark.parametrize("N", [2, 3])
def test_the_logarithm_of_n_is_what_holds_the_bound_of_a_strong_relation(N):
    joint = torch.eye(16, dtype=torch.float64) * 0.99 + 0.01 / 16  # y is nearly always that of x
    bound, information = best_bound(joint / joint.sum(), N)
    assert information > 2.6
    assert 0.9 * math.log(N) < bound < math.log(N)


@given(arrays(np.float64, (3, 4), elements=st.floats(-30, 30)), st.integers(2, 4))
def test_no_critic_exceeds_the_information(scores, N):
    bound = math.log(N) - float(Game(JOINT, NOISE["marginal"], N).loss(global_nce, torch.from_numpy(scores)))
    assert bound <= min(I_XY, math.log(N)) + 1e-12


@given(arrays(np.float32, (5, 6), elements=st.floats(-300, 300, width=32)), st.integers(0, 5))
def test_no_batch_exceeds_log_n_by_a_rounding_error(scores, column):
    for kind in (torch.float32, torch.float16, torch.float64):
        loss = global_nce(torch.from_numpy(scores).to(kind), torch.full((5,), column), reduction="none")
        assert (math.log(6) - loss <= math.log(6)).all()


def test_only_noise_of_the_marginal_bounds_the_information():
    q = NOISE["another"]
    game = Game(JOINT, q, 5)
    bound = math.log(5) - float(game.loss(global_nce, (P / q).log()))
    assert bound > I_XY + 0.05
    assert bound < I_XY + float((P_Y * (P_Y / q[0]).log()).sum())  # what it bounds instead


# -- divergences ----------------------------------------------------------------------------------------------------


def jensen_shannon(p, q, share):
    """The Jensen-Shannon divergence of p (with weight ``share``) and q, row by row."""
    mean = share * p + (1 - share) * q
    return share * (p * (p / mean).log()).sum(1) + (1 - share) * (q * (q / mean).log()).sum(1)


@some_games
def test_the_least_local_loss_is_an_entropy_less_a_jensen_shannon_divergence(q, N):
    """Lemma 2.1: N (H(1/N) - JS(p, q)), the divergence with weights 1/N and (N - 1)/N."""
    _, least = least_local(q, N)
    entropy = math.log(N) - (N - 1) / N * math.log(N - 1)
    divergence = float(P_X @ jensen_shannon(P, q, 1 / N))
    assert least == pytest.approx(N * (entropy - divergence), abs=1e-10)
    if N == 2:
        assert least == pytest.approx(math.log(4) - 2 * divergence, abs=1e-10)
    # At equal distributions nothing can be told apart: each candidate is true with probability 1/N.
    equal = Game(JOINT, P, N)
    s, least = optimum(lambda s: equal.loss(local_nce, s), START)
    close(torch.sigmoid(s), torch.full((3, 4), 1 / N, dtype=torch.float64))
    assert least == pytest.approx(N * entropy, abs=1e-10)


# -- sampled softmax ------------------------------------------------------------------------------------------------

THETA = f64([0.3, -1.1, 0.9, 0.2, -0.4])
TRUE = 2
OTHERS = torch.tensor([0, 1, 3, 4])
EXACT = THETA.softmax(0) - torch.nn.functional.one_hot(torch.tensor(TRUE), 5)  # gradient of the full softmax


def on_the_others(weights):
    """Noise that never draws the true class."""
    q = torch.zeros(5).double()
    q[OTHERS] = weights[OTHERS] / weights[OTHERS].sum()
    return q


Q_UNIFORM, Q_OTHER = f64([0.2] * 5), f64([0.4, 0.1, 0.2, 0.05, 0.25])
PROPOSALS = {"uniform": Q_UNIFORM, "another": Q_OTHER, "adaptive": THETA.softmax(0)}
every_proposal = pytest.mark.parametrize("q", PROPOSALS.values(), ids=PROPOSALS)
every_m = pytest.mark.parametrize("m", [1, 2, 3])


def sampled(theta, q, m, *, mask=False):
    """All draws of m from q, their probabilities, and the sampled softmax of each."""
    drawn = torch.cartesian_prod(*[q.nonzero()[:, 0]] * m).reshape(-1, m)
    ids = (torch.full((len(drawn),), TRUE), drawn) if mask else ()
    losses = sampled_softmax(theta[TRUE].expand(len(drawn)), theta[drawn], q.log()[drawn], *ids, reduction="none")
    return q[drawn].prod(1), losses


@every_proposal
@every_m
def test_the_normaliser_of_the_sampled_softmax_is_unbiased(q, m):
    """Lemma C.1: E[Z] = Z, for any noise; if it draws the true class, hits must be masked."""
    exact = float(THETA.exp().sum())
    for noise, mask in ((on_the_others(q), False), (q, True)):
        weight, losses = sampled(THETA, noise, m, mask=mask)
        assert float(weight.sum()) == pytest.approx(1, abs=1e-12)
        assert float(weight @ (losses + THETA[TRUE]).exp()) == pytest.approx(exact, rel=1e-12)
    weight, losses = sampled(THETA, q, m)  # not masked: the true class is counted twice
    assert float(weight @ (losses + THETA[TRUE]).exp()) == pytest.approx(exact + float(THETA[TRUE].exp()), rel=1e-12)


def sampled_gradient(q, m, *, mask=False):
    theta = THETA.clone().requires_grad_()
    weight, losses = sampled(theta, q, m, mask=mask)
    (gradient,) = torch.autograd.grad(weight @ losses, theta)
    return gradient


@every_m
def test_the_gradient_of_the_sampled_softmax_is_exact_with_the_models_own_noise(m):
    """Lemma C.2 where it holds: q proportional to exp theta on the others."""
    close(sampled_gradient(on_the_others(THETA.exp()), m), EXACT, 1e-14)
    noise = AdaptiveNoise(lambda scores: scores.index_fill(1, torch.tensor([TRUE]), -math.inf))
    theta = THETA[None].float().requires_grad_()
    drawn = noise.sample((1, m), theta)
    true = torch.tensor([TRUE])
    # Not only on average: whatever is drawn, the loss is that of the full softmax.
    found = sampled_softmax(theta[:, TRUE], theta.gather(1, drawn), noise.log_prob(drawn), true, drawn)
    torch.testing.assert_close(found, full_softmax(theta, true), rtol=1e-6, atol=0)


@every_m
@pytest.mark.parametrize("name", ["uniform", "another"])
def test_the_gradient_of_the_sampled_softmax_is_biased_in_every_component_otherwise(name, m):
    """Lemma C.2 where it does not hold: E[1/Z] > 1/Z, also in the component of the true class."""
    bias = sampled_gradient(on_the_others(PROPOSALS[name]), m) - EXACT
    assert float(bias.abs().min()) > 1e-4
    assert float(bias[TRUE]) > 0.01  # it is pulled too little
    more = sampled_gradient(on_the_others(PROPOSALS[name]), m + 1) - EXACT
    assert float(more[TRUE]) < float(bias[TRUE])
    # Noise of the model over all classes, hits masked, has another number of terms each time: biased as well.
    masked = sampled_gradient(THETA.softmax(0), m, mask=True) - EXACT
    assert float(masked.abs().min()) > 1e-4


# -- consistency ----------------------------------------------------------------------------------------------------

TRUTH = f64([1.0, -0.7])
Q = f64([0.3, 0.1, 0.25, 0.35]).expand(3, 4)
FEATURES = torch.from_numpy(np.random.default_rng(7).normal(size=(3, 4, 2)) * [[[1.0]], [[0.3]], [[2.0]]])
# Each row holds the same four vectors in an order of its own: Z(x) is the same for all x.
LEVEL = FEATURES[0][torch.tensor([[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]])]


def log_linear(features):
    """Return p(x, y) of the model at the truth."""
    return P_X[:, None] * (features @ TRUTH).softmax(1)


def fitted(loss, features, joint, *, offsets=0, N=3):
    """Fit theta, and offsets: 0, one for all x, or one for each; return theta and the scores."""
    game = Game(joint, Q, N)

    def scores(free):
        return features @ free[:2] + (free[2:, None] if offsets else 0)

    free, _ = optimum(lambda free: game.loss(loss, scores(free), explicit=True), torch.zeros(2 + offsets).double())
    return free[:2], scores(free)


def error(*args, **options):
    return float((fitted(*args, **options)[0] - TRUTH).norm())


@pytest.mark.parametrize("N", with_slow([2], slow=[4]))
def test_ranking_is_consistent_where_binary_is_not_and_an_offset_for_each_x_repairs_it(N):
    joint = log_linear(FEATURES)
    log_z = (FEATURES @ TRUTH).logsumexp(1)
    assert float(log_z.std()) > 0.3  # the normaliser varies
    assert error(global_nce, FEATURES, joint, N=N) < 1e-6
    assert error(local_nce, FEATURES, joint, N=N) > 0.1
    assert error(local_nce, FEATURES, joint, N=N, offsets=1) > 0.1  # one number for all x is not enough
    assert self_normalization(fitted(local_nce, FEATURES, joint, N=N, offsets=1)[1]).spread > 0.02
    theta, scores = fitted(local_nce, FEATURES, joint, N=N, offsets=3)
    close(theta, TRUTH, 1e-6)
    assert self_normalization(scores).largest < 1e-6
    close(recover_conditional(scores, loss="local").exp(), joint / P_X[:, None])


def test_binary_is_consistent_if_the_normaliser_does_not_depend_on_x():
    joint = log_linear(LEVEL)
    assert error(local_nce, LEVEL, joint) > 0.1
    assert error(local_nce, LEVEL, joint, offsets=1) < 1e-6
    assert error(global_nce, LEVEL, joint) < 1e-6
