"""Tables of other people against loops over what they hold."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from lab.peers import small_tables as peers  # noqa: E402

V, D = 23, 6
IDS = torch.tensor([[3, 19, 3], [0, 22, 19]])
COUNTS = torch.tensor([1, 9, 2, 2, 7, 20, 3, 1, 1, 4, 12, 5, 1, 1, 2, 1, 15, 3, 2, 1, 8, 1, 2])


def hashes(table):
    (a, c), n = table.hashes.T.tolist(), len(table.buckets)
    return [
        sum(table.importance[i, j] * table.buckets[(a[j] * i + c[j]) % (2**31 - 1) % n] for j in range(len(a)))
        for i in range(V)
    ]


def mixed_dimensions(table):
    rows = [table.blocks[b][p] for b, p in zip(table.block_of.tolist(), table.place.tolist(), strict=True)]
    maps = [table.maps[str(b)] if str(b) in table.maps else torch.eye(D) for b in table.block_of.tolist()]
    return [row @ by.double() for row, by in zip(rows, maps, strict=True)]


def tensor_train(table):
    digits, cells = list(np.ndindex(2, 3, 4))[:V], list(np.ndindex(1, 3, 2))
    matrices = [[[core[:, i[k], j[k]] for k, core in enumerate(table.cores)] for j in cells] for i in digits]
    return [torch.stack([torch.linalg.multi_dot(m)[0, 0] for m in row]) for row in matrices]


# name: the table, its rows by hand, its parameters
TABLES = {
    "hashes": (lambda: peers.HashTable(V, D, 7, n_hashes=3, std=1), hashes, 7 * D + V * 3),
    "buckets": (
        lambda: peers.BucketTable(V, D, COUNTS, 4, n_buckets=5, std=1),
        lambda t: [t.vectors[row] for row in t.place.tolist()],
        (4 + 5) * D,
    ),
    "mixed dimensions": (
        lambda: peers.MixedDimensionTable(V, D, COUNTS, n_blocks=4, temperature=0.6, base_dim=D, std=1),
        mixed_dimensions,
        2 * 6 + 2 * 6 + (4 * 4 + 4 * D) + (15 * 2 + 2 * D),  # a quarter of the mass each; 6 (4 / 2)^-0.6 is nearly 4
    ),
    "low rank": (lambda: peers.LowRankTable(V, D, 2, std=1), lambda t: t.vectors @ t.map, V * 2 + 2 * D),
    "tensor train": (
        lambda: peers.TensorTrainTable(V, D, (2, 3, 4), (1, 3, 2), 3, std=1),
        tensor_train,
        2 * 1 * 3 + 3 * 3 * 3 * 3 + 3 * 4 * 2,
    ),
    "quotients": (
        lambda: peers.QuotientRemainderTable(V, D, 9, std=1),
        lambda t: [t.quotients[i // 9] * t.remainders[i % 9] for i in range(V)],
        (3 + 9) * D,
    ),
    "rows": (lambda: peers.ShrinkingTable(V, D, rows=True, std=1), lambda t: t.vectors, V * D),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("ids", [IDS, torch.arange(V).flip(0).repeat(2)])
def test_a_call_gives_the_rows_of_a_dense_table(name, ids):
    torch.manual_seed(0)
    make, by_hand, n_parameters = TABLES[name]
    table = make().double()
    dense = torch.stack(list(by_hand(table))).detach()
    assert_allclose(table(ids).detach(), dense[ids], atol=1e-13)
    assert_allclose(table.weight.detach(), dense, atol=1e-13)
    assert table.n_parameters == n_parameters
    if name == "buckets":
        assert table.place[[5, 16, 10, 1]].tolist() == [0, 1, 2, 3]  # the most frequent have rows of their own


@pytest.mark.parametrize("rows", [True, False])
def test_shrinking_and_pruning_leave_the_largest(rows):
    torch.manual_seed(0)
    table = peers.ShrinkingTable(V, D, rows=rows, std=1)
    before, by = table.vectors.detach().clone(), 2.0 if rows else 0.7
    sizes = before.norm(dim=1, keepdim=True).expand(V, D) if rows else before.abs()
    table.shrink(by)
    assert_allclose(table.weight.detach(), before * (1 - by / sizes).clamp(min=0), atol=1e-6)
    assert table.n_parameters == (sizes > by).sum()
    table.prune(0.5)
    assert torch.equal(table.weight != 0, sizes - by > 0.5)


@pytest.mark.slow
def test_noise_is_as_large_as_its_rate_and_its_divergence_that_of_the_prior():
    table = peers.VocabularyDropoutTable(V, D, std=1)
    clean = table.eval().weight.detach()
    draws = torch.stack([table.train()(torch.arange(V)) for _ in range(1000)]).detach()
    assert_allclose(draws.mean(0), clean, atol=0.03)
    assert_allclose((draws.std(0) / clean.abs()).flatten(), math.exp(-1.5), rtol=0.1)
    # KL of N(1, a) from the prior 1/|x|: E log|1 + sqrt(a) z| - log(a)/2 + constant, by quadrature.
    z = torch.linspace(-9, 9, 400_001, dtype=torch.float64)
    weight = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])

    def exact(log_rate):
        spread = math.exp(log_rate / 2)
        return -0.5 * log_rate + (weight * torch.log((1 + spread * z).abs().clamp_min(1e-300))).sum().item()

    for log_rate in (-8.0, -3.0, 0.0, 3.0):
        table.log_rate.data.fill_(log_rate)
        assert table.divergence().item() / V == pytest.approx(exact(log_rate) - exact(10.0), abs=0.02)
