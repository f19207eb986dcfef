"""Proximal optimisers: known minima, lazy against eager shrinkage, what other parameters get, what is refused."""

import copy
import gc
import weakref
from itertools import product

import pytest
from descent import descend
from numpy.testing import assert_allclose
from quick import with_slow

torch = pytest.importorskip("torch")

from torch.optim.optimizer import _global_optimizer_pre_hooks  # noqa: E402

from nearfar.errors import InputError, NearfarWarning, NumericalError  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, ProxSGD, ProxYogi  # noqa: E402
from nearfar.tables.anchors import owners  # noqa: E402

MAKE = {
    "sgd": lambda params, lr=0.05: ProxSGD(params, lr=lr),
    "adam": lambda params, lr=0.05: ProxAdam(params, lr=lr, betas=(0.9, 0.99)),
    "yogi": lambda params, lr=0.05: ProxYogi(params, lr=lr, betas=(0.8, 0.98), eps=1e-2, initial=1e-3),
}
every = pytest.mark.parametrize("name", MAKE)


def table(n=11, k=4, r=4, seed=0, **options):
    """A table whose rows of T are its vectors: the anchors are the unit vectors, and stay so."""
    torch.manual_seed(seed)
    layer = AnchorEmbedding(n, k, k, nnz_per_row=r, dtype=torch.float64, anchors=torch.eye(k), **options)
    layer.anchors.requires_grad_(False)
    return layer


@pytest.mark.parametrize(("name", "r"), with_slow([("sgd", 4)], slow=[*product(("adam", "yogi"), (2, 4)), ("sgd", 2)]))
def test_the_minimum_of_a_quadratic_is_reached(name, r):
    # sum_i c_i / 2 (t_i - b_i)^2 + penalty t_i, t >= 0: t_i = max(b_i - penalty / c_i, 0). Curvatures far apart: a
    # threshold that is not in the optimiser's metric ends elsewhere. With two slots, the others must be found.
    layer = table(n=4, r=r, penalty=0.2)
    curvature = torch.tensor([4.0, 0.25, 1.0, 10.0], dtype=torch.float64)
    centre = torch.tensor(
        [[1.0, 0.5, -1.0, 0.015], [0.04, 2.0, 0.15, 0.5], [0.04, 0.7, 0.19, 0.0], [0.3, 0.1, 0.1, 0.3]],
        dtype=torch.float64,
    )
    optimizer, ids = MAKE[name]([layer.values]), torch.arange(4)
    for lr in [0.15] if name == "sgd" else [0.05, 0.01, 0.002]:
        optimizer.param_groups[0]["lr"] = lr
        for _ in range(200 if name == "sgd" else 90 if r == 4 else 400):
            descend(optimizer, (curvature / 2 * (layer(ids) - centre).square()).sum())
    expected = (centre - 0.2 / curvature).clamp(min=0)
    assert_allclose(layer.weight.detach(), expected, atol=2e-3)
    assert (layer.weight.detach() == 0).equal(expected == 0)
    # Karush, Kuhn, Tucker: the slope is -penalty where t > 0 and not below it elsewhere.
    slope = curvature * (layer.weight.detach() - centre)
    assert_allclose(slope[expected > 0], -0.2, atol=2e-2)
    assert (slope[expected == 0] >= -0.2).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "r"), [("adam", 2), ("sgd", 2), ("sgd", 4), ("yogi", 2), ("yogi", 4)])
def test_fixed_zeros_stay_and_the_others_go_where_the_loss_is_least(name, r):
    layer = table(n=4, r=r, penalty=0.2)
    centre = torch.tensor([[1.0, 0.5, 0.06, -1], [0.05, 2, 0.06, 0], [0.04, 0.7, 0, 0.3], [0.3, 0.05, 0, 0.6]])
    optimizer = MAKE[name]([layer.values])

    def train(rows, steps):
        for _ in range(steps if name == "adam" else 3 * steps):
            descend(optimizer, (layer(rows) - centre.double()[rows]).square().sum())

    train(torch.arange(4), 90)
    found = layer.weight.detach().clone()
    assert 4 < layer.nnz < 9
    layer.zeros_fixed = True
    assert layer.weight.detach().equal(found)
    states = copy.deepcopy(layer.state_dict())
    train(torch.arange(3), 1)
    assert layer.weight.detach()[3].equal(found[3])  # nothing is owed
    for lr in (0.02, 0.002):
        optimizer.param_groups[0]["lr"] = lr
        train(torch.arange(4), 80)
    assert (layer.weight.detach() == 0).equal(found == 0)
    assert_allclose(layer.weight.detach(), torch.where(found > 0, centre.double(), 0), atol=1e-3)
    centre[0, :2] = torch.tensor([-1.0, 3.0])
    optimizer.param_groups[0]["lr"] = 0.04
    train(torch.arange(4), 100)
    assert layer.weight.detach()[0, 0] == 0
    centre[0, :2] = torch.tensor([1.0, 0.5])
    train(torch.arange(4), 150)
    assert_allclose(layer.weight.detach(), torch.where(found > 0, centre.double(), 0), atol=1e-2)  # it may return
    optimizer.param_groups[0]["lr"] = 0.004
    layer.load_state_dict(states)
    assert layer.weight.detach().equal(found)
    assert layer.zeros_fixed
    layer.zeros_fixed = False  # as before: the objective has its minimum where it was
    train(torch.arange(4), 100)
    assert_allclose(layer.weight.detach(), (centre.double() - 0.1).clamp(min=0), atol=1e-2)
    layer.zeros_fixed = True
    layer.reset_parameters()
    assert not layer.zeros_fixed


def eager(name, start, batches, goals, penalty, lr):
    """The same with every row shrunk in every step, on plain tensors; rows that are not touched keep their moments."""
    t, m, v = start.clone(), torch.zeros_like(start), torch.full_like(start, 1e-3 if name == "yogi" else 0.0)
    beta1, beta2, eps = {"sgd": (0, 0, 0), "adam": (0.9, 0.99, 1e-8), "yogi": (0.8, 0.98, 1e-2)}[name]
    known = torch.zeros_like(t, dtype=torch.bool)
    for step, (ids, goal, price) in enumerate(zip(batches, goals, penalty, strict=True), 1):
        touched = torch.zeros(len(t), 1, dtype=torch.bool)
        touched[ids] = True
        slope = torch.zeros_like(t).index_add(0, ids, 2 * (t[ids] - goal))
        if name == "sgd":
            t = (t - lr * (slope + price)).clamp(min=0)
            continue
        m = torch.where(touched, beta1 * m + (1 - beta1) * slope, m)
        by = slope**2 - v if name == "adam" else -torch.sign(v - slope**2) * slope**2
        v = torch.where(touched, v + (1 - beta2) * by, v)
        known |= touched
        metric = torch.where(known, v.sqrt() + eps, torch.inf)
        a = lr * (1 - beta2**step) ** 0.5
        t = torch.where(touched, t - a / (1 - beta1**step) * m / metric, t)
        t = (t - a * price / metric).clamp(min=0)
    return t


def test_a_step_touches_the_rows_of_the_batch_alone():
    layer = table(n=1000, penalty=0.01)
    optimizer = ProxAdam([layer.values], lr=0.1)
    before = layer.values.detach().clone()
    layer(torch.tensor([3, 700])).square().sum().backward()
    optimizer.step()
    changed = (layer.values.detach() != before).any(1).nonzero()[:, 0]
    assert changed.tolist() == [3, 700]
    state = optimizer.state[layer.values]
    assert {name: tuple(s.shape) for name, s in state.items() if torch.is_tensor(s)} == {"m": (1000, 4), "v": (1000, 4)}


@pytest.mark.parametrize("optimizer", [ProxSGD, ProxAdam, ProxYogi])
def test_rows_that_no_batch_meets_shrink_in_a_metric_of_their_own_only(optimizer):
    layer = AnchorEmbedding(9, 4, 3, penalty=0.5)
    start = layer.values.detach().clone()
    made = optimizer(layer.parameters(), lr=0.1)
    for _ in range(5):
        descend(made, layer(torch.arange(6)).square().sum())
    never = torch.arange(6, 9)
    layer.settle()
    if optimizer is ProxSGD:
        assert_allclose(layer.values[never].detach(), (start[never] - 5 * 0.1 * 0.5).clamp(min=0), atol=1e-6)
    else:
        assert torch.equal(layer.values[never], start[never])
    with torch.no_grad():
        layer.values[never] = 0
    assert not layer(never).any()
    assert layer(torch.arange(6)).shape == (6, 4)


def test_values_written_between_a_call_and_its_step_are_those_that_the_step_starts_from():
    layer, ids = table(penalty=0.2), torch.tensor([2, 5])
    optimizer, start = ProxSGD([layer.values], lr=0.01), layer.weight.detach()
    layer(ids).sum().backward()
    with torch.no_grad():
        layer.values.mul_(3)
    optimizer.step()
    expected = (3 * start - 0.01 * 0.2).clamp(min=0)
    expected[ids] = (3 * start[ids] - 0.01 * (1 + 0.2)).clamp(min=0)
    assert_allclose(layer(torch.arange(len(start))).detach(), expected, atol=1e-14)


@every
def test_an_empty_batch_is_a_step_for_rows_that_owe(name):
    layer = table(penalty=0.5)
    optimizer, before = MAKE[name]([layer.values]), layer.nnz
    for ids in (torch.arange(11), torch.zeros(0, dtype=torch.long)):
        descend(optimizer, layer(ids).sum())
    assert layer.nnz < before


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("shape", [(5, 3), ()])
def test_other_parameters_are_trained_as_by_torch(decay, shape):
    torch.manual_seed(0)
    start, ends = torch.randn(shape, dtype=torch.float64), []
    for make in (ProxAdam, torch.optim.AdamW):
        x = torch.nn.Parameter(start.clone())
        # eps is added to the root before its correction here, after it in torch
        optimizer = make([{"params": [x], "weight_decay": decay, "name": "x"}], lr=0.03, eps=1e-14)
        for _ in range(30):
            descend(optimizer, (x - 1).pow(4).sum())
        ends.append(x.detach())
    assert_allclose(*ends, rtol=1e-9)
    x = torch.nn.Parameter(start.clone())
    x.grad = torch.full_like(x, 3.0)
    assert ProxSGD([x], lr=0.1, weight_decay=decay).step(lambda: 7.0) == 7.0
    assert_allclose(x.detach(), start * (1 - 0.1 * decay) - 0.3)  # it decays apart from the gradient


def test_entries_have_their_own_price_and_no_decay():
    layer = table()
    optimizer = ProxAdam(
        [{"params": [layer.values], "weight_decay": 0.1}, {"params": [torch.nn.Parameter(torch.ones(2))]}]
    )
    before = layer.weight.detach().clone()
    with pytest.raises(InputError, match=r"weight_decay must be 0 for T; got 0\.1"):
        descend(optimizer, layer(torch.tensor([1, 2])).sum())
    assert torch.equal(layer.weight.detach(), before)


def test_sparse_gradients_of_other_tables_are_taken_as_by_sparse_adam():
    ends = []
    for make in (ProxAdam, torch.optim.SparseAdam):
        torch.manual_seed(0)
        other = torch.nn.Embedding(6, 3, sparse=True, dtype=torch.float64)
        optimizer = make(other.parameters(), lr=0.05)
        for n in range(10):
            descend(optimizer, other(torch.tensor([n % 4, 1, 1])).pow(2).sum())
        ends.append(other.weight.detach())
    assert_allclose(*ends, rtol=1e-9)


@every
def test_a_penalty_that_takes_everything_warns_with_the_step(name):
    layer = table(penalty=1e4)
    optimizer = MAKE[name]([layer.values])
    layer(torch.arange(11)).sum().backward()
    with pytest.warns(NearfarWarning, match=r"all of T is 0 after step 1\b.* Lower penalty, now 10000"):
        optimizer.step()
    assert layer.nnz == 0


@every
def test_a_loss_that_is_nan_stops_before_anything_changes(name):
    layer = table()
    optimizer = MAKE[name](layer.parameters())
    for step in (1, 2):
        before = layer.weight.detach()
        (layer(torch.tensor([1, 2])).sum() * float("nan")).backward()
        with pytest.raises(NumericalError, match=f"gradient of T is NaN or infinite at step {step}; nothing was"):
            optimizer.step()
        assert layer.weight.detach().equal(before)
        optimizer.zero_grad()
        layer(torch.tensor([1, 2])).square().sum().backward()
        optimizer.step()


# -- between the layer and its optimiser ------------------------------------------------------------------------------


def test_rows_are_read_without_the_optimiser():
    gc.freeze()  # what is there already is not looked at below
    layer = table(n=4, r=3, penalty=0.5)
    optimizer = ProxAdam([layer.values], lr=0.01)
    for ids in (torch.arange(4), torch.tensor([1]), torch.tensor([2])):
        descend(optimizer, layer(ids).square().sum())
    before, stored = layer.weight.detach(), layer.values.detach().clone()
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    assert layer.weight.detach().equal(before)
    layer.settle()
    assert (layer.values < stored)[0].any()  # there was something to come
    assert layer.weight.detach().equal(before)


def test_optimisers_of_other_models_are_looked_at_once_and_only_while_a_table_lives():
    gc.collect()
    gc.freeze()
    weight = torch.nn.Parameter(torch.ones(3))
    other = torch.optim.Adam([weight])
    layer = AnchorEmbedding(10, 4, 3, sparse=False)
    assert len(_global_optimizer_pre_hooks) == 1
    descend(other, weight.sum())
    other.add_param_group({"params": [layer.values]})
    with pytest.raises(InputError, match="optimizer must be"):
        descend(other, layer(torch.tensor([1])).sum())
    del layer, other
    gc.collect()
    assert bool(_global_optimizer_pre_hooks) == bool(owners())


@pytest.mark.parametrize("sparse", with_slow([False], slow=[True]))
def test_tools_that_ask_for_the_state_of_an_optimiser_leave_no_trace(sparse):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def steps(layer, optimizer, seed):
        torch.manual_seed(seed)
        for _ in range(5):
            descend(optimizer, layer(torch.randint(5, (8,))).square().mean())
        optimizer.zero_grad()

    ends = []
    for asked in (True, False):
        layer = table(r=3, sparse=sparse)
        optimizer = ProxAdam(layer.parameters(), lr=0.02)
        before = layer.weight.detach()
        if asked:  # makes a step without a gradient
            get_state_dict(layer, optimizer)
        assert torch.equal(layer.weight, before)
        steps(layer, optimizer, 0)
        assert layer.unmet.sum() >= 6
        if asked:
            states = copy.deepcopy(get_state_dict(layer, optimizer))
            layer = table(r=3, seed=4, sparse=sparse)
            optimizer = ProxAdam(layer.parameters(), lr=0.02)
            set_state_dict(layer, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
        steps(layer, optimizer, 1)
        ends.append(layer.state_dict())
    for name, part in ends[0].items():
        assert torch.equal(part, ends[1][name]), name
