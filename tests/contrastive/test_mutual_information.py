"""Bounds on mutual information: plain twins, a discrete p by enumeration, Gaussians in closed form; the estimate."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quick import with_slow
from scipy.special import logsumexp

from nearfar.errors import InputError, NearfarWarning, NumericalError

torch = pytest.importorskip("torch")
nn = pytest.importorskip("nearfar.nn")
from nearfar.contrastive import mutual_information  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


SCORES = np.array(
    [
        [1.3, -0.4, 0.9, 2.2, -1.7],
        [0.1, 2.6, -0.8, 0.5, 1.1],
        [-2.1, 0.3, -0.6, 1.9, 0.7],
        [0.8, -1.2, 0.4, 3.1, -0.9],
        [1.6, 0.2, -1.4, -0.3, 0.6],
    ]
)
BASELINE = np.array([0.3, -0.7, 1.1, 0.2, -0.1])


# ---------------------------------------------------------------- plain twins


def parts(scores):
    n = len(scores)
    return np.diag(scores).copy(), np.array([[scores[i, j] for j in range(n) if j != i] for i in range(n)])


def plain_info_nce(joint, others):
    rows = zip(joint, others, strict=True)
    return np.mean([math.log(1 + len(o)) + s - math.log(math.exp(s) + np.exp(o).sum()) for s, o in rows])


def plain_dv(joint, others):
    return joint.mean() - math.log(np.exp(others).mean())


def plain_nwj(joint, others):
    return joint.mean() - np.exp(others - 1).mean()


def plain_tuba(joint, others, log_a):
    a = np.exp(log_a)
    return 1 + (joint - np.log(a)).mean() - (np.exp(others) / a[:, None]).mean()


def plain_js(joint, others):
    return plain_nwj(joint + 1, others + 1)


def plain_js_objective(joint, others):
    return -np.log1p(np.exp(-joint)).mean() - np.log1p(np.exp(others)).mean()


def plain_interpolated(joint, others, alpha, log_q):
    n, k = others.shape
    first, second = 0.0, 0.0
    for i in range(n):
        q = math.exp(log_q[i])
        for j in range(k):
            left = [math.exp(others[i, m]) for m in range(k) if m != j]
            first += joint[i] - math.log(alpha * (math.exp(joint[i]) + sum(left)) / k + (1 - alpha) * q)
            second += math.exp(others[i, j]) / (alpha * np.exp(others[i]).mean() + (1 - alpha) * q)
    return 1 + first / (n * k) - second / (n * k)


def plain_smile(joint, others, tau):
    return joint.mean() - math.log(np.clip(np.exp(others), math.exp(-tau), math.exp(tau)).mean())


A = torch.from_numpy(BASELINE)
BOUNDS = {
    "infonce": (nn.info_nce_bound, plain_info_nce),
    "dv": (nn.dv_bound, plain_dv),
    "nwj": (nn.nwj_bound, plain_nwj),
    "tuba": (partial(nn.tuba_bound, log_baseline=A), partial(plain_tuba, log_a=BASELINE)),
    "js": (nn.js_bound, plain_js),
    "js_objective": (nn.js_objective, plain_js_objective),
    "interpolated": (
        partial(nn.interpolated_bound, alpha=0.3, log_baseline=A),
        partial(plain_interpolated, alpha=0.3, log_q=BASELINE),
    ),
    "smile": (partial(nn.smile_bound, tau=1.5), partial(plain_smile, tau=1.5)),
}
each_bound = pytest.mark.parametrize("name", BOUNDS)


@each_bound
def test_a_bound_is_its_plain_twin(name) -> None:
    bound, plain = BOUNDS[name]
    joint, others = parts(SCORES)
    expected = plain(joint, others)
    assert bound(torch.from_numpy(SCORES)).item() == pytest.approx(expected, rel=1e-12)
    two = bound(torch.from_numpy(joint), torch.from_numpy(others))
    assert two.item() == pytest.approx(expected, rel=1e-12)
    assert two.shape == ()
    wider = np.concatenate([others, others[::-1] - 0.3], axis=1)  # M is not N - 1
    found = bound(torch.from_numpy(joint), torch.from_numpy(wider)).item()
    assert found == pytest.approx(plain(joint, wider), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0])
def test_large_scores_stay_finite_in_single_precision(alpha) -> None:
    large = SCORES * 300
    scores = torch.tensor(large, dtype=torch.float32, requires_grad=True)
    joint, others = parts(large)
    every = np.concatenate([joint[:, None], others], axis=1)
    exact = {
        nn.info_nce_bound: np.mean(math.log(5) + joint - logsumexp(every, axis=1)),
        nn.dv_bound: joint.mean() - (logsumexp(others) - math.log(20)),
    }
    for bound, expected in exact.items():
        assert bound(scores).item() == pytest.approx(expected, rel=1e-5)
    # The last column of the first row is the leave-one-out sum that a subtraction would lose.
    calm = scores - scores.detach().amax(dim=1, keepdim=True)
    total = nn.interpolated_bound(calm, alpha=alpha) + nn.js_objective(scores) + nn.smile_bound(scores)
    (total + nn.info_nce_bound(scores) + nn.dv_bound(scores)).backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()
    assert nn.nwj_bound(scores).item() == -math.inf  # e^929 is no number; it is no NaN either


def test_one_left_out_does_not_cancel() -> None:
    joint = np.array([0.0, 1.0])
    others = np.array([[40.0, 2.0, 39.0], [-3.0, 45.0, 0.5]])  # the sum of a row is its largest entry, up to rounding
    expected = plain_interpolated(joint, others, 0.5, np.zeros(2))
    found = nn.interpolated_bound(torch.from_numpy(joint), torch.from_numpy(others), alpha=0.5)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_half_precision_is_computed_in_single() -> None:
    half = torch.tensor(SCORES).to(torch.bfloat16)
    for bound, _ in BOUNDS.values():
        if not isinstance(bound, partial):
            assert bound(half).dtype == torch.float32
            assert bound(half) == bound(half.float())


# ---------------------------------------------------------------- one is a case of the other

square = st.integers(2, 7).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.floats(-40, 40)))


@given(scores=square, alpha=st.floats(0.001, 1))
def test_ceilings_hold_whatever_the_scores(scores, alpha) -> None:
    n, matrix = len(scores), torch.from_numpy(scores)
    assert nn.info_nce_bound(matrix).item() <= math.log(n) + 1e-12
    assert nn.interpolated_bound(matrix, alpha=alpha).item() <= 1 + math.log((n - 1) / alpha) + 1e-9
    assert nn.interpolated_bound(matrix, alpha=1.0).item() <= math.log(n - 1) + 1e-9
    assert nn.js_objective(matrix).item() <= 0


@given(scores=square)
def test_the_bounds_are_cases_of_each_other(scores) -> None:
    n, matrix = len(scores), torch.from_numpy(scores)
    same = partial(pytest.approx, rel=1e-9, abs=1e-9)
    assert nn.nwj_bound(matrix).item() == same(nn.tuba_bound(matrix, log_baseline=1.0).item())
    assert nn.js_bound(matrix).item() == same(nn.nwj_bound(matrix + 1).item())
    assert nn.smile_bound(matrix, tau=1e3).item() == same(nn.dv_bound(matrix).item())
    # For its best constant, TUBA is DV.
    joint, others = parts(scores)
    log_a = float(logsumexp(others) - math.log(others.size))
    assert nn.tuba_bound(matrix, log_baseline=log_a).item() == same(nn.dv_bound(matrix).item())
    assert nn.interpolated_bound(matrix, alpha=0.0).item() == same(nn.tuba_bound(matrix).item())
    # Without a free part: InfoNCE with one candidate less, each left out in turn.
    if n > 2:
        rows, fewer = torch.from_numpy(joint), torch.from_numpy(others)
        shorter = [
            nn.info_nce_bound(rows, torch.cat([fewer[:, :j], fewer[:, j + 1 :]], 1)).item() for j in range(n - 1)
        ]
        assert nn.interpolated_bound(matrix, alpha=1.0).item() == same(np.mean(shorter))


def test_info_nce_is_the_logarithm_minus_the_ranking_loss() -> None:
    scores = torch.from_numpy(SCORES)
    loss = nn.global_nce(scores, torch.arange(5))
    assert nn.info_nce_bound(scores).item() == pytest.approx(math.log(5) - loss.item(), rel=1e-12)


def test_the_interpolated_bound_can_be_a_nat_above_log_k_over_alpha() -> None:
    scores = 60 * torch.eye(6, dtype=torch.float64) - 30
    assert nn.interpolated_bound(scores, alpha=0.1).item() == pytest.approx(1 + math.log(5 / 0.1), abs=1e-9)


# ---------------------------------------------------------------- a discrete p: every expectation by enumeration

COUNTS = np.array([[7, 1, 2], [1, 9, 1], [2, 1, 3], [1, 2, 4]])
TOTAL = COUNTS.sum()
P = COUNTS / TOTAL
Q = np.outer(P.sum(axis=1), P.sum(axis=0))
LOG_RATIO = np.log(P / Q)
INFORMATION = float((P * LOG_RATIO).sum())
PAIRS = np.array([(i, j) for i, j in np.ndindex(*COUNTS.shape) for _ in range(COUNTS[i, j])])
tables = arrays(np.float64, COUNTS.shape, elements=st.floats(-4, 4))


def enumerated(table):
    """The scores of all true pairs, and for the x of each those of all y: means of them are the expectations."""
    return table[PAIRS[:, 0], PAIRS[:, 1]], table[PAIRS[:, 0]][:, PAIRS[:, 1]]


def test_at_the_log_ratio_the_bounds_are_the_information() -> None:
    joint, others = (torch.from_numpy(part) for part in enumerated(LOG_RATIO))
    exact = pytest.approx(INFORMATION, rel=1e-12)
    assert nn.dv_bound(joint, others).item() == exact
    assert nn.dv_bound(joint + 7, others + 7).item() == exact
    assert nn.nwj_bound(joint + 1, others + 1).item() == exact
    assert nn.js_bound(joint, others).item() == exact
    assert nn.tuba_bound(joint, others.flatten()).item() == exact
    # An offset for each x is what the baseline is there for.
    offsets = torch.from_numpy(np.array([0.4, -2.0, 1.5, 0.1])[PAIRS[:, 0]])
    assert nn.tuba_bound(joint + offsets, others + offsets[:, None], offsets).item() == exact
    assert nn.nwj_bound(joint + 1 + offsets, others + 1 + offsets[:, None]).item() < INFORMATION - 0.1


def every_draw(table, n_others):
    """All draws of a true pair and of other y: (joint, product)."""
    joint, others = enumerated(table)
    columns = np.meshgrid(*[np.arange(TOTAL)] * n_others)
    product = np.stack([others[:, c.ravel()] for c in columns], axis=-1).reshape(-1, n_others)
    return torch.from_numpy(np.repeat(joint, TOTAL**n_others)), torch.from_numpy(product)


@pytest.mark.slow
@settings(max_examples=5)
@given(table=tables)
def test_no_table_gives_more_than_the_information(table) -> None:
    for scores in (table, LOG_RATIO + 0.1 * table):
        joint, others = (torch.from_numpy(part) for part in enumerated(scores))
        for bound in (nn.dv_bound, nn.nwj_bound, nn.js_bound, partial(nn.tuba_bound, log_baseline=0.7)):
            assert bound(joint, others).item() <= INFORMATION + 1e-12
        for n_others in (1, 2):
            drawn = every_draw(scores, n_others)
            assert nn.info_nce_bound(*drawn).item() <= INFORMATION
            for alpha in (0.05, 0.6):
                assert nn.interpolated_bound(*drawn, alpha=alpha).item() <= INFORMATION + 1e-12


def test_smile_is_no_bound() -> None:
    joint, others = (torch.from_numpy(part) for part in enumerated(LOG_RATIO + 20))
    assert nn.smile_bound(joint, others).item() > INFORMATION + 10


def test_the_objective_of_js_is_best_at_the_log_ratio() -> None:
    table = torch.tensor(LOG_RATIO, requires_grad=True)
    value = nn.js_objective(*enumerated(table))
    value.backward()
    assert table.grad.abs().max() < 1e-15
    m = (P + Q) / 2
    divergence = 0.5 * ((P * np.log(P / m)).sum() + (Q * np.log(Q / m)).sum())
    assert value.item() == pytest.approx(2 * divergence - math.log(4), rel=1e-12)


# ---------------------------------------------------------------- Gaussians, where I and the best critic are known


def gaussians(information, n, d, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rho = math.sqrt(-math.expm1(-2 * information / d))
    x = rng.normal(size=(n, d))
    y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(n, d))

    def log_ratio(x, y):
        squares = (x**2).sum(1)[:, None] + (y**2).sum(1)
        return information - (rho**2 * squares - 2 * rho * x @ y.T) / (2 * (1 - rho**2))

    return x.astype(dtype), y.astype(dtype), log_ratio


@pytest.mark.slow
def test_the_exact_critic_finds_the_information_within_its_interval() -> None:
    hits = {"js": 0, "nwj": 0, "dv": 0}
    for seed in range(10):
        x, y, log_ratio = gaussians(1.5, 1024, 20, seed, np.float32)
        critics = {"js": log_ratio, "nwj": lambda x, y, f=log_ratio: f(x, y) + 1, "dv": log_ratio}
        for bound, critic in critics.items():
            found = nn.estimate_mutual_information(x, y, critic=critic, bound=bound, batch_size=64, random_state=0)
            hits[bound] += found.interval[0] <= 1.5 <= found.interval[1]
    assert min(hits.values()) >= 8  # all but one are expected; 3 hold what is 0.1 away


def test_info_nce_stays_below_the_information_and_the_ceiling() -> None:
    x, y, log_ratio = gaussians(2.0, 2048, 20, 0)
    values, drawn = [], log_ratio(x, y).diagonal().mean().item()  # 2 on average
    for batch_size in (8, 64, 256):
        found = nn.estimate_mutual_information(x, y, critic=log_ratio, batch_size=batch_size, random_state=0)
        assert found.value < min(drawn, found.ceiling)
        assert found.ceiling == math.log(batch_size)
        assert len(found.batch_values) == len(x) // batch_size
        assert found.curve.shape == (0, 2)
        values.append(found.value)
    assert values == sorted(values)
    assert values[-1] > drawn - 0.1


# ---------------------------------------------------------------- the estimate


class Quadratic(torch.nn.Module):
    """Holds the log-ratio of two correlated numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x, y):
        a, b, c, d = 12 * self.weights  # a step of these is a large one, one of the baseline is not
        return a * x**2 + b * (y**2).T + c * x @ y.T + d


# All are compared with sums over tables, above.
@pytest.mark.parametrize("bound", with_slow(["infonce"], slow=["tuba", "js"]))
def test_every_bound_reaches_the_information_where_its_critic_can(bound) -> None:
    x, y, _ = gaussians(0.6, 3600, 1, 3)
    critic = Quadratic()
    options = {"batch_size": 100, "n_steps": 150, "learning_rate": 0.005, "random_state": 0}
    found = nn.estimate_mutual_information(x, y, critic=critic, bound=bound, **options)
    slack = 6 * found.spread / math.sqrt(len(found.batch_values)) + 0.02
    assert abs(found.value - 0.6) < slack
    assert slack < 0.4
    assert found.bound == bound
    assert found.critic is critic
    assert not critic.training
    assert critic.weights.grad is None
    assert critic.weights[2] > 0.1
    assert found.interval[0] < found.value < found.interval[1]
    assert found.spread == pytest.approx(found.batch_values.std(ddof=1))
    assert (found.curve[0, 0], found.curve[-1, 0]) == (0, 150)
    assert found.curve[-1, 1] > found.curve[0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["separable", "joint"])
def test_named_critics_do_not_mind_units(critic) -> None:
    x, y, _ = gaussians(0.8, 1500, 1, 5, np.float32)
    options = {"batch_size": 32, "n_steps": 60, "critic": critic, "learning_rate": 3e-3, "random_state": 1}
    found = nn.estimate_mutual_information(1e4 * x[:, 0] + 3e4, np.column_stack([1e-3 * y, np.ones(len(y))]), **options)
    assert 0.55 < found.value < 0.95


def test_linear_dependence_is_seen_by_a_bilinear_critic() -> None:
    x, y, _ = gaussians(0.8, 2000, 4, 6)
    options = {"batch_size": 50, "n_steps": 60, "critic": "bilinear", "learning_rate": 0.03, "random_state": 1}
    found = nn.estimate_mutual_information(torch.from_numpy(x), torch.from_numpy(y), **options)
    assert 0.5 < found.value < 0.95


class Table(torch.nn.Module):
    """A number for each pair of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.zeros(COUNTS.shape))

    def forward(self, x, y):
        return self.scores[x][:, y]


@pytest.mark.slow
def test_a_critic_of_ids_gets_ids() -> None:
    pairs = np.tile(PAIRS, (300, 1)).astype(np.int32)
    options = {"critic": Table(), "learning_rate": 0.08, "n_steps": 120, "random_state": 0}
    found = nn.estimate_mutual_information(pairs[:, 0], pairs[:, 1], bound="tuba", **options)
    assert found.value == pytest.approx(INFORMATION, abs=0.06)


@pytest.mark.slow
def test_a_critic_that_learns_by_heart_does_not_count() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 10)), rng.normal(size=(300, 10))  # independent
    found = nn.estimate_mutual_information(x, y, batch_size=20, n_steps=60, learning_rate=2e-3, random_state=0)
    assert found.curve[-1, 1] < -0.3  # this is what the last critic is worth
    assert abs(found.value) < 0.2


def test_the_seed_fixes_the_result_and_nothing_else_is_touched() -> None:
    x, y, _ = gaussians(0.5, 400, 2, 1)
    copies = x.copy(), y.copy()
    options = {"batch_size": 20, "n_steps": 3, "bound": "interpolated"}
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = nn.estimate_mutual_information(x, y, random_state=4, **options)
    torch.rand(3)
    second = nn.estimate_mutual_information(x, y, random_state=4, **options)
    torch.random.set_rng_state(before)
    third = nn.estimate_mutual_information(x, y, random_state=np.random.default_rng(1), **options)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
    assert (first.batch_values == second.batch_values).all()
    assert (first.curve == second.curve).all()
    assert first.value != third.value
    assert (x == copies[0]).all()
    assert (y == copies[1]).all()


@pytest.mark.parametrize(
    ("options", "ceiling"),
    [
        ({}, math.log(20)),
        ({"bound": "interpolated"}, 1 + math.log(19 / 0.01)),
        ({"bound": "interpolated", "alpha": 1.0}, math.log(19)),
        ({"bound": "interpolated", "alpha": 0}, None),
        ({"bound": "dv"}, None),
        ({"bound": "smile", "tau": 2.0}, None),
    ],
)
def test_ceilings_are_reported(options, ceiling) -> None:
    x, y, log_ratio = gaussians(0.5, 400, 2, 1)
    found = nn.estimate_mutual_information(x, y, critic=log_ratio, batch_size=20, n_steps=1, **options)
    assert found.ceiling == ceiling


@pytest.mark.parametrize("options", [{"bound": "infonce"}, {"bound": "interpolated", "alpha": 1.0}])
def test_a_bound_at_its_ceiling_warns(options) -> None:
    x = np.random.default_rng(0).normal(size=(500, 3))
    options = {"batch_size": 16, "n_steps": 1, "random_state": 0, **options}
    with pytest.warns(NearfarWarning, match=r"stands at 2\.\d\d nats, and with batch_size=16 it cannot be above 2\.7"):
        found = nn.estimate_mutual_information(x, x, critic=lambda x, y: 50 * x @ y.T - 25 * (y**2).sum(1), **options)
    assert found.value > 0.9 * found.ceiling


def test_the_joint_critic_is_a_network_of_both_side_by_side() -> None:
    torch.manual_seed(0)
    critic = nn.JointCritic(3, 2, hidden=(7, 5))
    x, y = torch.randn(4, 3), torch.randn(6, 2)
    weight = torch.cat([critic.of_x.weight, critic.of_y.weight], dim=1)
    for i in range(4):
        for j in range(6):
            first = torch.cat([x[i], y[j]]) @ weight.T + critic.of_x.bias
            assert critic(x, y)[i, j].item() == pytest.approx(critic.of_both(first).item(), abs=1e-5)


def test_other_critics_are_products() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, 3), torch.randn(6, 2)
    bilinear = nn.BilinearCritic(3, 2)
    assert torch.allclose(bilinear(x, y), x @ bilinear.weight.weight @ y.T)
    separable = nn.SeparableCritic(3, 2, n_components=5, hidden=())
    assert torch.allclose(separable(x, y)[2, 4], separable.of_x(x[2]) @ separable.of_y(y[4]))


# ---------------------------------------------------------------- bad input


ROWS = np.random.default_rng(2).normal(size=(200, 2))


def test_a_training_that_diverges_says_so() -> None:
    options = {"batch_size": 10, "n_steps": 50, "random_state": 0}
    with pytest.raises(NumericalError, match=r"objective is -inf at step \d+ of 50. Lower learning_rate"):
        nn.estimate_mutual_information(ROWS, ROWS, critic="joint", bound="nwj", learning_rate=30.0, **options)
    with pytest.raises(NumericalError, match="pairs held out is above the largest number"):
        nn.estimate_mutual_information(ROWS, ROWS, critic=lambda x, y: 1e4 * x @ y.T, bound="nwj", **options)
    with pytest.raises(NumericalError, match="the critic gives NaN or infinity"):
        nn.estimate_mutual_information(ROWS, ROWS, critic=lambda x, y: x @ y.T / 0, **options)


@pytest.mark.slow
def test_copies_of_a_measurement_are_on_one_side():
    rng = np.random.default_rng(0)
    x, y = torch.from_numpy(rng.normal(size=(2, 60, 3)))
    copies = torch.from_numpy(rng.permutation(np.repeat(np.arange(60), 7)))
    which = mutual_information._pair_numbers(x[copies], y[copies])
    parts = mutual_information._split(which, 16, 0.3)
    assert sorted(torch.cat(parts).tolist()) == list(range(420))
    assert sum(len(which[part].unique()) for part in parts) == len(which.unique()) == 60
    assert [len(part) for part in parts] == [294, 63, 63]
    how = {"batch_size": 16, "n_steps": 100, "learning_rate": 0.01, "random_state": 0}
    independent = nn.estimate_mutual_information(x[copies], y[copies], **how)
    assert abs(independent.value) < 0.1  # 0.7 nats where copies are on both sides
    mostly_one = torch.cat([copies, copies.new_zeros(1800)])
    with pytest.raises(InputError, match=r"1807 copies of one pair among 2220 rows"):
        nn.estimate_mutual_information(x[mostly_one], y[mostly_one], **how)
    few = torch.from_numpy(rng.integers(5, size=(2000, 1)))
    for pair in ((few, few), (few * 0.1, few), (x, x), (x, y)):
        assert len(mutual_information._pair_numbers(*pair).unique()) == len(pair[0])
