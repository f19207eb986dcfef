"""Noise of contrastive objectives: what is drawn against what ``log_prob`` says, and against definitions."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chisquare

torch = pytest.importorskip("torch")

from nearfar.errors import InputError  # noqa: E402
from nearfar.nn import AdaptiveNoise, CategoricalNoise, InBatchNoise, UniformNoise, UnigramNoise  # noqa: E402

COUNTS = [120, 3, 0, 41, 999, 7, 0, 56, 1, 260]  # irregular, with ids that never occur
PROBABILITIES = np.array([0.31, 0.0, 0.02, 0.17, 0.0, 0.44, 0.06])
SCORES = torch.tensor([[0.3, -1.2, 2.0, 0.1, -math.inf], [-0.7, 1.9, -0.2, 0.0, 0.4], [3.0, 3.1, -2.0, 1.0, 1.0]])


def observed(ids=(4, 0, 4, 2, 5, 4, 0, 5), n=6):
    """An in-batch noise whose batch is its data."""
    noise = InBatchNoise(n, np.bincount(ids, minlength=n))
    noise.observe(torch.tensor(ids))
    return noise


def over_scores(scores):
    noise = AdaptiveNoise(lambda: scores)
    noise.sample(scores.shape[:-1])  # from now on log_prob speaks of them
    return noise


POWERS = np.array(COUNTS, float) ** 0.75
# name -> (noise, its probabilities of ids 0 .. n - 1 by hand)
NOISE = {
    "uniform": (lambda: UniformNoise(11), np.full(11, 1 / 11)),
    "unigram": (lambda: UnigramNoise(COUNTS), POWERS / POWERS.sum()),
    "unigram, power 0": (lambda: UnigramNoise(COUNTS, 0), (POWERS > 0) / 8),
    "own": (lambda: CategoricalNoise(PROBABILITIES), PROBABILITIES),
    "in batch": (observed, np.array([2, 0, 1, 0, 3, 2]) / 8),
    "adaptive": (lambda: over_scores(SCORES[0]), SCORES[0].double().softmax(0).numpy()),
}
every_noise = pytest.mark.parametrize(("make", "q"), NOISE.values(), ids=NOISE)
TABLES = {name: NOISE[name][0] for name in ("uniform", "unigram", "own", "in batch")}
all_tables = pytest.mark.parametrize("make", [*TABLES.values(), lambda: InBatchNoise(5)], ids=[*TABLES, "not observed"])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def all_log_probs(noise, n):
    return noise.log_prob(torch.arange(n))


# -- draws ----------------------------------------------------------------------------------------------------------


@every_noise
def test_ids_are_drawn_as_often_as_log_prob_says(make, q):
    noise = make()
    ids = noise.sample((100, 1000), generator=seeded())
    assert ids.shape == (100, 1000)
    assert ids.dtype == torch.int64
    counts = np.bincount(ids.flatten().numpy(), minlength=q.size)
    assert counts.size == q.size
    assert counts[q == 0].sum() == 0
    assert chisquare(counts[q > 0], 100_000 * q[q > 0] / q.sum()).pvalue > 1e-3
    log_q = all_log_probs(noise, q.size)
    assert log_q.dtype == torch.float32
    with np.errstate(divide="ignore"):
        assert_allclose(log_q.numpy(), np.log(q), rtol=1e-5, atol=1e-6)


@every_noise
def test_a_generator_decides_all_and_the_global_one_is_left_alone(make, q):
    noise = make()
    before = torch.random.get_rng_state()
    first, second, other = (noise.sample(50, generator=seeded(s)) for s in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = noise.sample(50)
        torch.manual_seed(5)
        assert torch.equal(noise.sample(50), first)


@every_noise
@pytest.mark.parametrize("shape", [(), (0,), 7, (2, 3, 4), torch.Size([5, 1]), [6]])
def test_samples_have_the_shape_that_was_asked_for(make, q, shape):
    noise = make()
    ids = noise.sample(shape)
    assert ids.shape == torch.empty(shape).shape
    assert noise.log_prob(ids).shape == ids.shape
    assert torch.isfinite(noise.log_prob(ids)).all()  # what was drawn has a probability


weights = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1, max_size=60).filter(lambda w: max(w) > 1e-9)


@given(weights, st.sampled_from([1.0, 0.75, 0.3]))
def test_the_alias_table_holds_the_probabilities(counts, power):
    """What the table gives is added up exactly: no draws."""
    noise = UnigramNoise(counts, power)
    n = len(counts)
    kept = noise._threshold.double().numpy()
    table = kept / n
    np.add.at(table, noise._code("_alias").numpy(), (1 - kept) / n)
    w = np.array(counts)
    q = np.where(w > 0, np.exp(power * np.log(np.where(w > 0, w, 1) / w.max())), 0)
    assert_allclose(table, q / q.sum(), atol=2e-7 / n)
    assert (table[w == 0] == 0).all()
    assert_allclose(all_log_probs(noise, n).exp().sum(), 1, atol=1e-5)


def test_a_rare_id_keeps_its_share():
    noise = CategoricalNoise([1 - 1e-9, 1e-9])
    assert float(noise._threshold[1]) == pytest.approx(2e-9, rel=1e-6)
    assert noise.log_prob(torch.tensor([1])).item() == pytest.approx(math.log(1e-9), rel=1e-6)


def test_large_powers_and_counts_are_no_infinities():
    q = all_log_probs(UnigramNoise([1e300, 5e299, 1.0], 4), 3).exp()
    assert_allclose(q.numpy(), [16 / 17, 1 / 17, 0], rtol=1e-5)


def test_counts_may_be_tensors_arrays_or_lists_and_are_not_changed():
    given = torch.tensor(COUNTS)
    array = np.array(COUNTS)
    array.setflags(write=False)
    made = [UnigramNoise(form) for form in (given, array, COUNTS, given.float().requires_grad_())]
    for noise in made[1:]:
        assert torch.equal(all_log_probs(noise, 10), all_log_probs(made[0], 10))
    assert given.tolist() == COUNTS


# -- modules --------------------------------------------------------------------------------------------------------


@all_tables
def test_state_dict_pickle_and_copies_give_the_same_draws(make):
    noise = make()
    if isinstance(noise, InBatchNoise):
        noise.observe(torch.tensor([1, 0, 4, 4]))
    again = pickle.loads(pickle.dumps(noise))
    other = copy.deepcopy(noise)
    for name, table in other.state_dict().items():
        table.copy_(torch.zeros_like(table))
        assert name in noise.state_dict()
    assert list(noise.parameters()) == []
    other.load_state_dict(noise.state_dict())
    for twin in (again, other):
        assert torch.equal(twin.sample(40, generator=seeded()), noise.sample(40, generator=seeded()))
        assert torch.equal(all_log_probs(twin, noise.n), all_log_probs(noise, noise.n))


@all_tables
def test_the_type_of_a_model_leaves_the_tables_alone(make):
    noise = make()
    if isinstance(noise, InBatchNoise):
        noise.observe(torch.tensor([2, 2, 0, 1]))
    model = torch.nn.ModuleDict({"layer": torch.nn.Linear(2, 2), "noise": copy.deepcopy(noise)})
    for change in (model.half, model.bfloat16, model.double, lambda: model.to(torch.float16)):
        moved = change()["noise"]
        assert torch.equal(all_log_probs(moved, noise.n), all_log_probs(noise, noise.n))
        assert torch.equal(moved.sample(99, generator=seeded()), noise.sample(99, generator=seeded()))


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_a_noise_that_has_moved_draws_where_it_is(make):
    noise = make()
    moved = copy.deepcopy(noise).to("meta")  # a device that every machine has
    assert all(table.device.type == "meta" for table in moved.buffers())
    assert moved.sample((3, 4)).device.type == "meta"
    assert moved.sample((3, 4)).shape == (3, 4)
    with pytest.raises(InputError, match=r"generator must be on the device of the noise, meta; got cpu\. Make it by"):
        moved.sample(3, generator=seeded())
    with pytest.raises(InputError, match="ids must be on the device of the noise, meta; got cpu"):
        moved.log_prob(torch.tensor([0]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_a_noise_on_a_gpu_draws_the_same_distribution(make):
    noise = make()
    q = all_log_probs(noise, noise.n).double().exp().numpy()
    moved = copy.deepcopy(noise).to("cuda")
    ids = moved.sample(200_000, generator=torch.Generator("cuda").manual_seed(0))
    assert ids.device.type == "cuda"
    assert moved.log_prob(ids).device.type == "cuda"
    counts = np.bincount(ids.cpu().numpy(), minlength=noise.n)
    assert chisquare(counts[q > 0], 200_000 * q[q > 0] / q.sum()).pvalue > 1e-3
    assert counts[q == 0].sum() == 0


# -- the batch as noise ---------------------------------------------------------------------------------------------


def plain_estimate(batches, n, rate):
    """Gaps between draws of an item, each folded in by itself: evenly at first, then by the rate."""
    gap, last, hits, t = np.zeros(n), np.zeros(n), np.zeros(n), 0
    for batch in batches:
        for item in batch:
            t += 1
            hits[item] += 1
            gap[item] += max(1 / hits[item], rate) * (t - last[item] - gap[item])
            last[item] = t
    return -np.log(np.where(hits > 0, gap, t + 1))


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=1), min_size=1, max_size=60), st.floats(0.05, 0.9))
def test_the_estimate_is_that_of_gaps_between_draws(batches, rate):
    noise = InBatchNoise(7, rate=rate)
    for batch in batches:
        noise.observe(torch.tensor(batch))
    assert_allclose(all_log_probs(noise, 7).numpy(), plain_estimate(batches, 7, rate), rtol=1e-4, atol=1e-5)


def test_batches_of_any_size_are_counted_in_draws():
    ids = np.random.default_rng(0).choice(4, size=300, p=[0.6, 0.25, 0.1, 0.05])
    sizes = np.cumsum([1, 40, 3, 100, 7, 99])
    cut, whole = InBatchNoise(4, rate=0.001), InBatchNoise(4, rate=0.001)
    for batch in np.split(ids, sizes):
        cut.observe(torch.from_numpy(batch))
    whole.observe(torch.from_numpy(ids))
    # Evenly averaged, the mean gap is the place of the last hit over the number of hits.
    last = np.array([np.flatnonzero(ids == k)[-1] + 1 for k in range(4)])
    expected = np.log(np.bincount(ids) / last)
    for noise in (cut, whole):
        assert_allclose(all_log_probs(noise, 4).numpy(), expected, rtol=1e-5)


def test_many_draws_of_an_item_in_one_batch_are_as_many_gaps():
    noise = InBatchNoise(2, rate=0.1)
    for _ in range(100):
        noise.observe(torch.tensor([1, 0]))  # every second draw: gaps of 2
    noise.observe(torch.zeros(30, dtype=torch.int64))  # 30 gaps of 1
    expected = 1 + (2 - 1) * 0.9**30
    assert float(noise.log_prob(torch.tensor([0]))) == pytest.approx(-math.log(expected), abs=1e-6)


def test_counts_are_exact_and_nothing_is_learned_from_batches():
    noise = InBatchNoise(4, counts=[6, 0, 3, 1])
    expected = [math.log(0.6), -math.inf, math.log(0.3), math.log(0.1)]
    for _ in range(3):
        assert all_log_probs(noise, 4).tolist() == pytest.approx(expected)
        noise.observe(torch.tensor([1, 1, 1]))
    assert noise.sample(20).unique().tolist() == [1]


def test_an_item_that_was_never_seen_is_rarer_than_all_that_were():
    noise = InBatchNoise(3)
    noise.observe(torch.tensor([0] * 30 + [1]))
    assert noise.log_prob(torch.tensor([2])).item() == pytest.approx(-math.log(32))
    assert noise.log_prob(torch.tensor([2])) < noise.log_prob(torch.tensor([1]))


# -- the model as noise ---------------------------------------------------------------------------------------------


def test_adaptive_noise_draws_each_row_by_its_own_scores():
    table = torch.nn.Parameter(SCORES.clone())
    noise = AdaptiveNoise(lambda rows: table[rows])
    rows = torch.tensor([2, 0])
    ids = noise.sample((2, 50_000), rows, generator=seeded())
    assert not ids.requires_grad
    for row, drawn in zip(rows, ids, strict=True):
        q = SCORES[row].double().softmax(0).numpy()
        counts = np.bincount(drawn.numpy(), minlength=5)
        assert counts[q == 0].sum() == 0
        assert chisquare(counts[q > 0], 50_000 * q[q > 0] / q.sum()).pvalue > 1e-3
    # log_prob is that of the sample, also when the model has moved, and has no gradient.
    with torch.no_grad():
        table.zero_()
    expected = SCORES[rows].log_softmax(1).gather(1, ids)
    assert torch.allclose(noise.log_prob(ids), expected)
    assert not noise.log_prob(ids).requires_grad
    assert torch.equal(noise.log_prob(ids[:, 0]), noise.log_prob(ids)[:, 0])  # (B,): the true ids, for example
    assert noise.log_prob(ids.reshape(2, 10, -1)).shape == (2, 10, 5000)


def test_adaptive_noise_in_half_precision_is_computed_in_float32():
    scores = torch.tensor([[11.0, 4.0, 9.5]], dtype=torch.float16)
    noise = AdaptiveNoise(lambda: scores)
    ids = noise.sample((1, 4))
    assert noise.log_prob(ids).dtype == torch.float32
    assert torch.allclose(noise.log_prob(torch.arange(3)[None]), scores.float().log_softmax(1))


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [None, [5, 1, 3, 8, 2, 2]])
def test_no_whole_number_is_where_tools_average(counts):
    torch.manual_seed(0)
    for noise in (InBatchNoise(6, counts), UnigramNoise([5, 1, 3, 8, 2, 2])):
        if isinstance(noise, InBatchNoise):
            noise.observe(torch.tensor([0, 3, 3, 5]))
        assert all(part.is_floating_point() for name, part in noise.named_buffers() if name != "_batch")
        average = torch.optim.swa_utils.AveragedModel(
            noise, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
        ).module
        ids = torch.arange(6)
        torch.testing.assert_close(average.log_prob(ids), noise.log_prob(ids))
