"""ParameterBudget: sizes that are reached for any loss and rate, whatever the penalty that it starts from."""

import json

import pytest
from descent import descend
from quick import with_slow

torch = pytest.importorskip("torch")

from nearfar.nn import AnchorEmbedding, ParameterBudget, ProxAdam, ProxSGD, ProxYogi  # noqa: E402

V, D, K = 120, 8, 6


def make(seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(V, D, K, **{"nnz_per_row": K, **options})


def train(layers, optimizer, budget, steps, scale=1.0, goal_seed=3):
    """Fit rows that are one of six vectors, times ``scale``."""
    generator = torch.Generator().manual_seed(goal_seed)
    goal = torch.randn(K, D, generator=generator)[torch.arange(V) % K]
    for _ in range(steps):
        ids = torch.randint(V, (60,), generator=generator)
        loss = sum((layer(ids) - goal[ids]).square().mean() for layer in layers) * scale
        descend(optimizer, loss)
        budget.step()
    return loss.item() / scale


@pytest.mark.parametrize(
    ("optimizer", "penalty", "scale"),
    with_slow([(ProxAdam, 1e-8, 1.0)], slow=[(ProxSGD, 1e-3, 30.0), (ProxYogi, 1e-3, 30.0)]),
)
def test_the_size_is_reached_whatever_price_and_loss_are(optimizer, penalty, scale):
    layer = make(penalty=penalty)
    lr = 0.5 / scale if optimizer is ProxSGD else 0.03
    made = optimizer(layer.parameters(), lr=lr)
    budget = ParameterBudget(layer, n_steps=100, n_parameters=K * D + 200, optimizer=made)
    assert layer.n_parameters == K * D + V * K
    train([layer], made, budget, 59, scale)
    assert not budget.done
    before = layer.n_parameters
    train([layer], made, budget, 1, scale)
    assert budget.done
    assert layer.zeros_fixed
    assert not made.state
    assert K * D + 100 < layer.n_parameters <= K * D + 200 < before + 60
    train([layer], made, budget, 20, scale)
    assert layer.n_parameters <= K * D + 200
    assert [record["step"] for record in budget.history] == [*range(30, 60), 60]


def test_tables_share_a_budget_of_bytes_and_the_smallest_entries_go(tmp_path):
    small, large = make(), make(seed=1, dtype=torch.float64)
    optimizer = ProxAdam([*small.parameters(), *large.parameters()], lr=0.03)
    least = 2 * 4 * (K * D + V + 1)
    budget = ParameterBudget([small, large], n_steps=30, nbytes=least + 5 * 300)
    assert budget.size == small.export().nbytes + large.export().nbytes
    train([small, large], optimizer, budget, 17)
    large.settle(), small.settle()
    shares = [(la.values * la.anchors.norm(dim=1)[la.columns.long()]).detach().flatten() for la in (small, large)]
    budget.step()
    exported = [layer.export(tmp_path / "t.safetensors") for layer in (small, large)]
    assert sum(table.nbytes for table in exported) == budget.size == least + 5 * 300
    least_kept = torch.cat(shares).sort(descending=True).values[299]
    for layer, share in zip((small, large), shares, strict=True):
        assert torch.equal(layer.values.flatten() > 0, share >= least_kept)
    assert optimizer.state  # no optimiser was given


def test_rows_that_no_batch_met_take_no_part():
    layer = make()
    optimizer = ProxAdam(layer.parameters(), lr=0.03)
    budget = ParameterBudget(layer, n_steps=1, n_parameters=K * D + 30, end=1.0)
    layer(torch.arange(10)).square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        layer.values[10:] *= 100
    assert budget.step()
    assert layer.nnz == 30
    assert not layer.values[10:].any()


def test_a_search_goes_on_from_its_state():
    ends = []
    for cut in (False, True):
        layer = make()
        optimizer = ProxAdam(layer.parameters(), lr=0.03)
        budget = ParameterBudget(layer, n_steps=60, n_parameters=K * D + 200)
        train([layer], optimizer, budget, 25)
        if cut:
            state = json.loads(json.dumps(budget.state_dict()))
            layer.penalty = 7.0
            budget = ParameterBudget(layer, n_steps=60, n_parameters=K * D + 200)
            budget.load_state_dict(state)
        train([layer], optimizer, budget, 15, goal_seed=4)
        ends.append((layer.weight, budget.state_dict()))
    assert torch.equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
