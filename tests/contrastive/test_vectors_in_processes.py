"""Losses of vectors in two processes, each with half of the batch, against one with all of it."""

import traceback
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hazards import leave_group  # noqa: E402

import nearfar.nn as nn  # noqa: E402
from nearfar.errors import InputError  # noqa: E402

B, D = 4, 3  # of each process
GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(3, 2 * B, D, dtype=torch.float64, generator=GENERATOR)  # of queries, keys and negatives
LOG_Q = torch.randn(2, 2 * B, dtype=torch.float64, generator=GENERATOR).log_softmax(0)
IDS = torch.tensor([[5, 2, 8, 5, 9, 9, 1, 2], [4, 6, 2, 3, 5, 7, 9, 0]])  # of keys and negatives; some are shared
QUERY_IDS = torch.tensor([1, 2, 3, 3, 4, 1, 5, 2])
LABELS = torch.tensor([0, 0, 1, 1, 0, 2, 2, 1])  # each has its kind, so that all means are of as many


def facts(part):
    return {"log_q": LOG_Q[:, part].flatten(), "ids": IDS[:, part].flatten()}


def counted(queries, keys, negatives, part):
    """Count as training goes on; alone, in the order in which two processes join theirs."""
    loss = nn.InBatchNCE(0.3)
    if part == slice(None):
        loss.noise.observe(torch.cat([IDS[:, :B].flatten(), IDS[:, B:].flatten()]))
        loss.eval()
    return loss(queries, keys, ids=facts(part)["ids"], negatives=negatives)


LOSSES = {
    "in_batch_nce": lambda q, k, n, part: nn.in_batch_nce(q, k, negatives=n, temperature=0.3, **facts(part)),
    "symmetric_nce": lambda q, k, n, part: nn.symmetric_nce(
        q, k, negatives=n, temperature=0.3, query_ids=QUERY_IDS[part], query_log_q=LOG_Q[0, part], **facts(part)
    ),
    "symmetric_nce, plain": lambda q, k, _, __: nn.symmetric_nce(q, k),
    "supcon": lambda q, k, _, part: nn.supcon(q + k, LABELS[part], log_q=LOG_Q[0, part], temperature=0.3),
    "siglip": lambda q, k, n, part: nn.siglip(q, k, negatives=n, temperature=0.3, bias=-1.0, **facts(part)),
    "siglip, plain": lambda q, k, _, __: nn.siglip(q, k),
    "InBatchNCE": counted,
    "in_batch_scores": lambda q, k, _, part: nn.local_nce(
        *nn.in_batch_scores(q, k, ids=IDS[0, part], temperature=0.3), nn.gather_rows(LOG_Q[0, part])
    ),
}


class Model(torch.nn.Module):
    """Encoders of the three sides, a scale and a bias, the same in every process."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.sides = torch.nn.ModuleList([torch.nn.Linear(D, D, dtype=torch.float64) for _ in range(3)])
        self.scale = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.bias = torch.nn.Parameter(torch.tensor(-1.0, dtype=torch.float64))

    def forward(self, inputs):
        return *(side(rows) for side, rows in zip(self.sides, inputs, strict=True)), self.scale.exp(), self.bias * 1


def learned(queries, keys, negatives, scale, bias):
    return nn.siglip(queries, keys, negatives=negatives, temperature=1 / scale, bias=bias)


def gradients(model):
    return [p.grad for p in model.parameters()]


def process(rank, init, out):
    """What one of two processes does with its half of the batch; results, or what went wrong, go to a file."""
    torch.set_num_threads(1)
    found = {}
    try:
        torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
        part = slice(B * rank, B * rank + B)
        for name, loss in LOSSES.items():
            leaves = [rows[part].clone().requires_grad_() for rows in INPUTS]
            value = loss(*leaves, part)
            value.backward()
            found[name] = value.detach(), *(rows.grad for rows in leaves)
            if "siglip" not in name:  # a ring is differentiated once
                leaves = [rows[part].clone().requires_grad_() for rows in INPUTS]
                (slope,) = torch.autograd.grad(loss(*leaves, part), leaves[:1], create_graph=True)
                slope.square().sum().backward()
                found[f"{name}, twice"] = leaves[1].grad
                queries, *others = (rows[part] for rows in INPUTS)
                found[f"{name}, func"] = torch.func.grad(lambda q, loss=loss, others=others: loss(q, *others, part))(
                    queries
                )
        model = torch.nn.parallel.DistributedDataParallel(Model())
        learned(*model(INPUTS[:, part])).backward()
        found["learned"] = gradients(model)

        narrow = [rows[part].bfloat16().requires_grad_() for rows in INPUTS[:2]]
        nn.siglip(*narrow, temperature=0.5, bias=-1.0).backward()
        found["narrow"] = [rows.grad for rows in narrow]

        encoder = torch.nn.parallel.DistributedDataParallel(Model().sides[0])
        queries, keys = (nn.encode_in_chunks(encoder, rows[part].split(3)) for rows in INPUTS[:2])
        nn.in_batch_nce(queries, keys).backward()
        found["chunks"] = gradients(encoder)
        queries, keys, _ = INPUTS[:, part]
        found["alone"] = nn.in_batch_nce(queries, keys, gather=False)
        found["pair"] = nn.in_batch_nce(queries[:1], keys[:1])  # a batch of one in each: two keys in all
        for name, fails in {
            "mixed": lambda: nn.gather_rows(queries if rank else queries.float()),
            "uneven": lambda: nn.siglip(*INPUTS[:2, : 3 + rank]),
            "without": lambda: nn.symmetric_nce(*INPUTS[:2, part], query_ids=QUERY_IDS[part] if rank else None),
            "negatives": lambda: nn.in_batch_nce(*INPUTS[:2, part], negatives=INPUTS[2, : 3 + rank]),
            "vectors": lambda: nn.supcon(INPUTS[0, : 3 + rank], LABELS[: 3 + rank]),
        }.items():
            try:
                fails()
            except InputError as error:
                found[name] = str(error)
    except Exception:
        found["error"] = traceback.format_exc()
    torch.save(found, Path(out, f"{rank}.pt"))
    leave_group(out)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_processes(in_two_processes):
    return in_two_processes(process)


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_are_one_with_the_joined_batch(two_processes, name):
    leaves = [rows.clone().requires_grad_() for rows in INPUTS]
    value = LOSSES[name](*leaves, slice(None))
    value.backward()
    torch.testing.assert_close(sum(result[name][0] for result in two_processes) / 2, value.detach())
    for side, rows in enumerate(leaves):
        if rows.grad is None:
            continue
        mine = torch.cat([result[name][side + 1] for result in two_processes]) / 2  # as DistributedDataParallel does
        torch.testing.assert_close(mine, rows.grad)


@pytest.mark.parametrize("name", [name for name in LOSSES if "siglip" not in name])
def test_a_gradient_is_differentiated_across_processes(two_processes, name):
    leaves = [rows.clone().requires_grad_() for rows in INPUTS]
    (slope,) = torch.autograd.grad(2 * LOSSES[name](*leaves, slice(None)), leaves[:1], create_graph=True)
    slope.square().sum().backward()  # of the sum of the losses of both
    torch.testing.assert_close(torch.cat([result[f"{name}, twice"] for result in two_processes]), leaves[1].grad)


@pytest.mark.parametrize("name", [name for name in LOSSES if "siglip" not in name])
def test_torch_func_goes_across_processes(two_processes, name):
    for result in two_processes:
        torch.testing.assert_close(result[f"{name}, func"], result[name][1])


def test_encoders_scale_and_bias_learn_as_with_the_joined_batch(two_processes):
    model = Model()
    learned(*model(INPUTS)).backward()
    for result in two_processes:
        for mine, theirs in zip(result["learned"], gradients(model), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_the_ring_in_half_precision(two_processes):
    leaves = [rows.bfloat16().requires_grad_() for rows in INPUTS[:2]]
    nn.siglip(*leaves, temperature=0.5, bias=-1.0).backward()
    for side, rows in enumerate(leaves):
        mine = torch.cat([result["narrow"][side] for result in two_processes]) / 2
        assert mine.dtype == torch.bfloat16
        torch.testing.assert_close(mine, rows.grad, rtol=0.02, atol=0.002)


def test_chunks_in_two_processes(two_processes):
    encoder = Model().sides[0]
    nn.in_batch_nce(*(encoder(rows) for rows in INPUTS[:2])).backward()
    for result in two_processes:
        for mine, theirs in zip(result["chunks"], gradients(encoder), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_a_process_can_stay_by_itself(two_processes):
    for rank, result in enumerate(two_processes):
        queries, keys, _ = INPUTS[:, B * rank : B * rank + B]
        torch.testing.assert_close(result["alone"], nn.in_batch_nce(queries, keys))
        assert result["pair"] > 0


def test_what_differs_between_processes_is_told_in_each(two_processes):
    for result in two_processes:
        assert "process 0: shape (4, 3), torch.float32; process 1: shape (4, 3), torch.float64" in result["mixed"]
        assert result["uneven"].startswith("siglip: keys must be alike in all processes; got process 0: shape (3, 3)")
        assert "with_ids=False; process 1" in result["without"]
        assert "n_negatives=3; process 1" in result["negatives"]
        assert result["vectors"].startswith("supcon: vectors must be alike in all processes")
