"""In-batch candidates: against the loss on a matrix of scores, in blocks, and in two processes against one."""

import math
import subprocess
import sys
import traceback
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch")

from hazards import leave_group  # noqa: E402
from result_files import page, write_results  # noqa: E402

import nearfar.nn as nn  # noqa: E402
from nearfar.contrastive import rows as _rows  # noqa: E402
from nearfar.errors import InputError  # noqa: E402

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


@pytest.mark.parametrize("with_log_q", [False, True])
@pytest.mark.parametrize("with_ids", [False, True])
def test_the_fused_loss_is_that_on_the_matrix(with_log_q, with_ids, monkeypatch):
    queries, keys, log_q, ids = batch()
    log_q, ids = log_q if with_log_q else None, ids if with_ids else None
    weights = torch.tensor([1.0, 0.5, -2.0, 3.0, 1.0, 0.2], dtype=torch.float64)
    found = []
    for block in (None, 2**20, 13):  # two rows at a time
        inputs = [part.clone().requires_grad_() for part in (queries, keys)]
        if block is None:
            scores, target = nn.in_batch_scores(*inputs, ids=ids, temperature=TEMPERATURE)
            if with_ids:  # the true key counts as often as its id comes
                scores = scores + (ids[:, None] == ids).sum(1).log().diag()
            losses = nn.global_nce(scores, target, log_q, reduction="none")
        else:
            monkeypatch.setattr(_rows, "BLOCK", block)
            losses = nn.in_batch_nce(*inputs, log_q=log_q, ids=ids, temperature=TEMPERATURE, reduction="none")
        (weights @ losses).backward()
        found.append((losses.detach(), *(part.grad for part in inputs)))
    for other in found[1:]:
        for one, many in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, many)
    options = {"log_q": log_q, "ids": ids, "temperature": TEMPERATURE}
    assert nn.in_batch_nce(queries, keys, **options).item() == pytest.approx(found[0][0].mean().item())
    assert nn.in_batch_nce(queries, keys, **options, reduction="sum").item() == pytest.approx(found[0][0].sum().item())


def test_the_gradient_of_the_fused_loss_is_right(monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 13)
    queries, keys, log_q, ids = batch()

    def losses(queries, keys):
        return nn.in_batch_nce(queries, keys, log_q=log_q, ids=ids, temperature=0.7, reduction="none")

    assert torch.autograd.gradcheck(losses, (queries.requires_grad_(), keys.requires_grad_()))


def test_queries_may_be_their_own_keys():
    rows = batch()[0].requires_grad_()
    nn.in_batch_nce(rows, rows, temperature=2.0).backward()
    other = rows.detach().clone().requires_grad_()
    scores, target = nn.in_batch_scores(other, other, temperature=2.0)
    torch.nn.functional.cross_entropy(scores, target).backward()
    torch.testing.assert_close(rows.grad, other.grad)


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

    found = minimize(value_and_gradient, np.zeros(4), jac=True, options={"gtol": 1e-9})
    assert np.abs(found.jac).max() < 1e-6
    return torch.from_numpy(found.x.reshape(2, 2))


@pytest.mark.parametrize("with_log_q", [False, True])
def test_with_ids_the_optimum_is_the_conditional_distribution(with_log_q):
    def loss(queries, keys, ids):
        return nn.in_batch_nce(queries, keys, log_q=Q.log()[ids] if with_log_q else None, ids=ids)

    found = nn.recover_conditional(scores_at_the_optimum(loss), None if with_log_q else Q.log()).exp()
    torch.testing.assert_close(found, P, rtol=0, atol=1e-5)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    queries, keys, log_q, ids = batch(dtype=dtype)
    options = {"log_q": log_q, "ids": ids, "temperature": 0.05}
    found = []
    for wide in (False, True):
        inputs = [(part.float() if wide else part).clone().requires_grad_() for part in (queries, keys)]
        loss = nn.in_batch_nce(*inputs, **options)
        loss.backward()
        found.append((loss, *(part.grad for part in inputs)))
        assert nn.in_batch_scores(*inputs)[0].dtype == loss.dtype == torch.float32
    assert found[0][0].item() == found[1][0].item()
    for narrow, full in zip(found[0][1:], found[1][1:], strict=True):
        assert narrow.dtype == dtype
        torch.testing.assert_close(narrow, full.to(dtype))


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


def test_no_matrix_of_scores_is_ever_held():
    from lab.contrastive.nce_memory import peak_bytes

    n = 2048
    queries, keys = (torch.randn(n, 8).requires_grad_() for _ in range(2))
    ids = torch.arange(n) // 2
    peak = peak_bytes(lambda: nn.in_batch_nce(queries, keys, ids=ids, log_q=torch.zeros(n)).backward())
    assert peak / (4 * n * n) < 0.8


def test_rows_of_one_process_are_gathered_as_they_are():
    rows = torch.ones(2, 3)
    assert nn.gather_rows(rows) is rows


# ------------------------------------------------------------------------------------- two processes


ALONE = """
import os, sys, torch
from nearfar._core import processes

torch.distributed.init_process_group("gloo", init_method=sys.argv[1], rank=0, world_size=1)
rows = torch.ones(6, 3, requires_grad=True)
processes.check_alike("owner", "rows", rows)
joined = processes.join_rows(rows)
(joined * torch.arange(3)).sum().backward()
assert torch.equal(joined, rows)
assert rows.grad.tolist() == [[0, 1, 2]] * 6
os._exit(0)  # to take a group apart may wait for ever
"""


@pytest.mark.slow
def test_joining_the_rows_of_a_process_that_is_alone(tmp_path):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("no gloo")
    subprocess.run([sys.executable, "-c", ALONE, (tmp_path / "meet").as_uri()], check=True, timeout=120)


def towers(seed=3):
    """Two small encoders, the same for every process."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.nn.Linear(3, 4, bias=False, dtype=torch.float64) for _ in range(2)]
    with torch.no_grad():
        for tower in made:
            tower.weight.copy_(torch.randn(4, 3, dtype=torch.float64, generator=generator))
    return made


def in_batch_by(kind, queries, keys, log_q, ids):
    if kind == "fused":
        return nn.in_batch_nce(queries, keys, log_q=log_q, ids=ids, temperature=TEMPERATURE)
    scores, target = nn.in_batch_scores(queries, keys, ids=ids, temperature=TEMPERATURE)
    return nn.local_nce(scores, target, nn.gather_rows(log_q))


def process(rank, init, out):
    """What one of two processes does with its half of the batch; results, or what went wrong, go to a file."""
    torch.set_num_threads(1)
    found = {}
    try:
        torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
        queries, keys, log_q, ids = (part[4 * rank : 4 * rank + 4] for part in batch(8))
        for kind in ("fused", "matrix"):
            query_tower, key_tower = (torch.nn.parallel.DistributedDataParallel(tower) for tower in towers())
            loss = in_batch_by(kind, query_tower(queries), key_tower(keys), log_q, ids)
            loss.backward()
            found[kind] = loss.detach(), query_tower.module.weight.grad, key_tower.module.weight.grad
        found["alone"] = (
            nn.in_batch_nce(queries, keys, gather=False),
            nn.in_batch_scores(queries, keys, gather=False)[1],
        )
        found["target"] = nn.in_batch_scores(queries, keys)[1]
        narrow = [part.bfloat16().requires_grad_() for part in (queries, keys)]
        nn.in_batch_nce(*narrow).backward()
        found["narrow"] = [part.grad for part in narrow]
        found["pair"] = nn.in_batch_nce(queries[:1], keys[:1])  # a batch of one in each: two keys in all
        for name, fails in {
            "uneven": lambda: nn.in_batch_nce(queries[: 3 + rank], keys[: 3 + rank]),
            "mixed": lambda: nn.gather_rows(queries if rank else queries.float()),
            "without": lambda: nn.in_batch_nce(queries, keys, log_q=log_q if rank else None),
        }.items():
            try:
                fails()
            except InputError as error:
                found[name] = str(error)
    except Exception:
        found["error"] = traceback.format_exc()
    torch.save(found, Path(out, f"{rank}.pt"))
    leave_group(out)


@pytest.fixture(scope="module")
def two_processes(in_two_processes):
    return in_two_processes(process)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fused", "matrix"])
def test_two_processes_are_one_with_the_joined_batch(two_processes, kind):
    queries, keys, log_q, ids = batch(8)
    query_tower, key_tower = towers()
    loss = in_batch_by(kind, query_tower(queries), key_tower(keys), log_q, ids)
    loss.backward()
    first, second = (result[kind] for result in two_processes)
    assert abs(first[0] - second[0]) > 1e-3  # each has the loss of its own queries
    torch.testing.assert_close((first[0] + second[0]) / 2, loss.detach())
    for mine, theirs, joined in zip(first[1:], second[1:], (query_tower, key_tower), strict=True):
        assert torch.equal(mine, theirs)  # averaged by DistributedDataParallel
        torch.testing.assert_close(mine, joined.weight.grad)


@pytest.mark.slow
def test_a_process_can_stay_by_itself(two_processes):
    queries, keys, *_ = batch(8)
    for rank, result in enumerate(two_processes):
        mine = slice(4 * rank, 4 * rank + 4)
        loss, target = result["alone"]
        torch.testing.assert_close(loss, nn.in_batch_nce(queries[mine], keys[mine]))
        assert target.tolist() == [0, 1, 2, 3]
        assert result["target"].tolist() == list(range(8))[mine]
        assert result["pair"] > 0


@pytest.mark.slow
def test_half_precision_in_two_processes(two_processes):
    queries, keys = (part.bfloat16().requires_grad_() for part in batch(8)[:2])
    (2 * nn.in_batch_nce(queries, keys)).backward()  # the sum of the means of both
    for side, whole in enumerate((queries, keys)):
        joined = torch.cat([result["narrow"][side] for result in two_processes])
        assert joined.dtype == torch.bfloat16
        torch.testing.assert_close(joined, whole.grad, rtol=0.02, atol=0.002)


@pytest.mark.slow
def test_what_differs_between_processes_is_told_in_each(two_processes):
    for result in two_processes:
        uneven = "in_batch_nce: keys must be alike in all processes; got process 0: shape (3, 3), torch.float64"
        assert result["uneven"].startswith(uneven)
        assert "process 1: shape (4, 3)" in result["uneven"]
        assert "Drop the last, smaller batch." in result["uneven"]
        assert "process 0: shape (4, 3), torch.float32; process 1: shape (4, 3), torch.float64" in result["mixed"]
        assert "with_log_q=False" in result["without"]
        assert "with_log_q=True" in result["without"]


# ------------------------------------------------------------------------------------- the page of benchmarks


@pytest.mark.parametrize(("matrices", "met"), [(1.0004, "yes"), (1.2, "**no**")])
def test_memory_is_beside_the_plain_formulation(tmp_path, matrices, met):
    from lab.contrastive.nce_memory import METHODS

    records = [
        {"size": size, "method": method, "matrices": m, "resident_matrices": m + 0.2, "seconds": 0.5, "loss": 8.0}
        for size in (4096, 8192)
        for method, m in zip(METHODS, (matrices, 3.0, 0.2, 3.5), strict=True)
    ]
    write_results(tmp_path, "nce_memory", records)
    text, bars = page(tmp_path)
    found = bars["memory of global_nce, B in-batch negatives, scores given"]
    assert found[1:] == [f"{matrices:.2f} against 3.00 (B = 4,096), {matrices:.2f} against 3.00 (B = 8,192)", met]
    assert bars["memory of in_batch_nce, B in-batch negatives, in all"][2] == "yes"
    assert "| 8,192 | `in_batch_nce` | in all | 0.20 | 0.40 | 0.50 s |" in text


def by_scores(q, k, **given):
    return nn.global_nce(*nn.in_batch_scores(q, k, **given))


LEARNED = {
    "in_batch_nce": nn.in_batch_nce,
    "global_nce": by_scores,
    "local_nce": lambda *rows, **given: nn.local_nce(*nn.in_batch_scores(*rows, **given)),
    "hinge": lambda *rows, **given: nn.hinge(*nn.in_batch_scores(*rows, **given)),
    "debiased_nce": lambda *rows, **given: nn.debiased_nce(*nn.in_batch_scores(*rows, **given), 1.0, 0.0),
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("ids", [None, torch.tensor([0, 1, 2, 3, 0, 1, 4, 5])], ids=["all", "masked"])
def test_a_temperature_is_learned(name, ids):
    queries, keys, *_ = batch(8)
    queries, keys = (torch.nn.functional.normalize(rows.double(), dim=-1) for rows in (queries, keys))
    log_scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def loss(log_scale):
        return LEARNED[name](queries, keys, ids=ids, temperature=(-log_scale).exp())

    assert torch.equal(loss(log_scale).detach(), loss(log_scale.detach()[None]))  # of one element, in any shape
    fixed = LEARNED[name](queries, keys, ids=ids, temperature=math.exp(-1.5))
    assert loss(log_scale).item() == pytest.approx(fixed.item())
    assert torch.autograd.gradcheck(loss, log_scale)


@pytest.mark.parametrize("name", [name for name in LEARNED if name != "in_batch_nce"])
def test_a_scale_may_come_after_the_mask(name):
    queries, keys, *_ = batch(8)
    ids = torch.tensor([0, 1, 2, 3, 0, 1, 4, 5])
    loss = {
        "global_nce": nn.global_nce,
        "local_nce": nn.local_nce,
        "hinge": lambda *given: nn.hinge(*given, negatives="sum"),
        "debiased_nce": lambda *given: nn.debiased_nce(*given, 1.0, 0.0),
    }[name]
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


@pytest.mark.parametrize("score", [nn.in_batch_nce, nn.in_batch_scores])
@pytest.mark.parametrize("wrong", [torch.tensor(0.0), torch.tensor(-1.0), torch.tensor([1.0, 2.0]), torch.tensor(2)])
def test_temperatures_that_are_none_are_refused(score, wrong):
    with pytest.raises(InputError, match="temperature must be"):
        score(*batch(8)[:2], temperature=wrong)
