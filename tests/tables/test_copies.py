"""Copies of a table into which others write the parameters of the one that is trained, and copies that stay.

An average with decay 0 and a momentum encoder with m = 0 take over the last parameters: they are the model then.
"""

import copy
import functools
import io
from contextlib import nullcontext
from itertools import product

import pytest
from descent import descend
from quick import often

torch = pytest.importorskip("torch")

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn  # noqa: E402
from torch_models import Tied  # noqa: E402

from nearfar.errors import InputError  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, ProxSGD, TiedLogits  # noqa: E402

N, D, K = 60, 6, 10
GOAL = torch.randn(5, D, generator=torch.Generator().manual_seed(9))[torch.arange(N) % 5]
OFTEN = 1 / torch.arange(1.0, 46)  # many objects are rare, the last 15 in no batch
ROWS = torch.arange(N)


def table(r, **options):
    torch.manual_seed(1)
    return AnchorEmbedding(N, D, K, nnz_per_row=r, penalty=2e-3, **options)


class Averaged:
    """Of torch."""

    def __init__(self, layer, decay, **options):
        self.model = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(decay), **options)

    def update(self, layer):
        self.model.update_parameters(layer)

    @property
    def layer(self):
        return self.model.module


class AveragedBuffersToo(Averaged):
    """As Lightning does by itself."""

    def __init__(self, layer, decay):
        super().__init__(layer, decay, use_buffers=True)


class Momentum:
    """Of MoCo and BYOL: parameters alone, put into a copy as new arrays."""

    def __init__(self, layer, m):
        self.layer, self.m = copy.deepcopy(layer).requires_grad_(False), m

    def update(self, layer):
        for mine, other in zip(self.layer.parameters(), layer.parameters(), strict=True):
            mine.data = mine.data * self.m + other.data * (1 - self.m)


class MomentumInPlace(Momentum):
    """Of DINO: written in a way that torch does not count."""

    def update(self, layer):
        for mine, other in zip(self.layer.parameters(), layer.parameters(), strict=True):
            mine.data.mul_(self.m).add_((1 - self.m) * other.data)


class TargetNetwork(MomentumInPlace):
    """Of reinforcement learning: nobody freezes it."""

    def __init__(self, layer, m):
        self.layer, self.m = copy.deepcopy(layer), m


class MomentumOfAnother(MomentumInPlace):
    """Of a model that is made anew, from which parameters alone are copied."""

    def __init__(self, layer, m):
        made = AnchorEmbedding(N, D, K, nnz_per_row=layer.nnz_per_row).requires_grad_(False)
        for mine, other in zip(made.parameters(), layer.parameters(), strict=True):
            mine.data.copy_(other.data)
        made(ROWS)
        self.layer, self.m = made, m


class AverageOfState:
    """Of timm: every array of a state."""

    def __init__(self, layer, decay):
        self.layer, self.decay = copy.deepcopy(layer), decay

    def update(self, layer):
        with torch.no_grad():
            for mine, other in zip(self.layer.state_dict().values(), layer.state_dict().values(), strict=True):
                mine.copy_(self.decay * mine + (1 - self.decay) * other)


WAYS = [Averaged, AveragedBuffersToo, Momentum, MomentumInPlace, TargetNetwork, MomentumOfAnother, AverageOfState]


def train(layer, optimizer, steps, after=lambda step: None, seed=2):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        ids = torch.multinomial(OFTEN, 16, True, generator=generator)
        descend(optimizer, (layer(ids) - GOAL[ids]).square().mean())
        after(step)


def same(one, other):
    assert torch.equal(one.eval()(ROWS), other.eval()(ROWS))
    assert torch.equal(one.unmet, other.unmet)
    assert one.nnz == other.nnz
    one.train(), other.train()


TAKEN_OVER = [*product(WAYS, [(ProxAdam, 3)]), *product((Averaged, MomentumInPlace, AverageOfState), [(ProxSGD, K)])]
AT_ONCE = [*product(WAYS[::3], [(ProxAdam, 3)])]


@pytest.mark.parametrize(("way", "how"), often(TAKEN_OVER, AT_ONCE))
def test_what_takes_over_all_parameters_is_the_model(way, how):
    make, r = how
    layer = table(r)
    optimizer, other = make(layer.parameters(), lr=0.05), way(layer, 0.0)

    def after(step):
        if step > 11 and step % 3 == 0:  # the first time late
            other.update(layer)
            if step % 9 == 0:
                same(other.layer, layer)

    train(layer, optimizer, 20, after)
    other.update(layer)
    kept = other.layer.state_dict()
    same(other.layer, layer)
    assert torch.equal(kept["slots.columns"], layer.state_dict()["slots.columns"])
    before = other.layer.eval()(ROWS)
    train(layer, optimizer, 5)  # nobody writes any more
    assert torch.equal(other.layer(ROWS), before)


@pytest.mark.parametrize("way", often(WAYS, WAYS[::3]))
def test_an_average_of_all_slots_is_that_of_t_and_of_the_anchors(way):
    layer = table(K)
    other, average = way(layer, 0.8), None

    def after(step):
        nonlocal average
        other.update(layer)
        parts = [layer.state_dict()["slots.values"], layer.anchors.detach().clone()]
        if average is None:
            average = (
                parts
                if way in (Averaged, AveragedBuffersToo)
                else [a.lerp(b, 0.2) for a, b in zip(start, parts, strict=True)]
            )
        else:
            average = [a.lerp(b, 0.2) for a, b in zip(average, parts, strict=True)]

    start = [layer.values.detach().clone(), layer.anchors.detach().clone()]
    train(layer, ProxAdam(layer.parameters(), lr=0.05), 15, after)
    met = ~layer.unmet
    assert torch.equal(other.layer.columns, layer.columns)
    torch.testing.assert_close(other.layer.state_dict()["slots.values"][met], average[0][met], rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(other.layer.anchors.detach(), average[1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("way", [Averaged, MomentumInPlace, AverageOfState])  # of each kind one
def test_an_average_of_few_slots_is_about_as_good_as_the_model(way):
    layer = table(3)
    other = way(layer, 0.9)
    train(layer, ProxAdam(layer.parameters(), lr=0.1), 70, lambda _: other.update(layer))
    errors = [(one.eval()(ROWS) - GOAL)[:20].square().mean() for one in (other.layer, layer)]
    assert errors[0] < 2 * errors[1] < 0.2 * GOAL[:20].square().mean()
    assert (other.layer.columns.long().sort(1).values.diff(dim=1) > 0).all()


@functools.cache
def trained_apart(r, seed, of_batches):
    torch.manual_seed(seed)
    layer = AnchorEmbedding(N, D, K, nnz_per_row=r, penalty=2e-3)
    train(layer, ProxAdam(layer.parameters(), lr=0.05), 20, seed=of_batches)
    return layer.state_dict()


@pytest.mark.parametrize(("share", "kind"), [(0.5, torch.half), (0.03, torch.float32)])
@pytest.mark.parametrize(("r", "seeds"), [(3, (1, 1)), (K, (1, 2)), (K, (1, 1))])
def test_an_average_of_tables_trained_apart_is_refused_where_their_slots_differ(share, kind, r, seeds):
    """As federated learning and soups make it: of what is of a floating-point type, the rest from one of them."""
    states = [trained_apart(r, seed, k) for k, seed in enumerate(seeds)]
    mean = {
        name: one.to(kind).lerp(two.to(kind), share) if one.is_floating_point() else one
        for (name, one), two in zip(states[0].items(), states[1].values(), strict=True)
    }
    differ, found = (r, seeds) != (K, (1, 1)), table(r)
    with pytest.raises(InputError, match=r"an average of .* AnchorEmbedding\.from") if differ else nullcontext():
        found.load_state_dict(mean)
    assert torch.equal(found.values, mean["slots.values"].float()) == (not differ)


@pytest.mark.parametrize("frozen", often([True, False], [True]))
def test_a_copy_that_nobody_writes_to_stays(frozen):
    layer = table(3)
    optimizer = ProxAdam(layer.parameters(), lr=0.05)
    train(layer, optimizer, 10)
    kept = copy.deepcopy(layer).requires_grad_(not frozen).eval()
    before, state = kept(ROWS), kept.state_dict()["slots.columns"].clone()
    train(layer, optimizer, 15)
    assert torch.equal(kept(ROWS), before)
    assert torch.equal(kept.columns, state)
    assert not torch.equal(layer.columns, state)  # slots have moved


def test_copies_that_are_both_trained_go_their_own_ways():
    ends = []
    for together in (True, False):
        layer = table(3)
        optimizer = ProxAdam(layer.parameters(), lr=0.05)
        train(layer, optimizer, 10)
        other = copy.deepcopy(layer)
        second = ProxSGD(other.parameters(), lr=0.05)
        if together:
            for step in range(12):
                train(layer, optimizer, 1, seed=step)
                train(other, second, 1, seed=100 + step)
        else:
            for step in range(12):
                train(other, second, 1, seed=100 + step)
        ends.append(other.weight)
    assert torch.equal(*ends)


def test_a_copy_that_was_stored_has_no_kin():
    layer = table(3)
    optimizer = ProxAdam(layer.parameters(), lr=0.05)
    train(layer, optimizer, 10)
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    found = torch.load(stream, weights_only=False)
    same(found, layer)
    assert found._kin is not layer._kin
    with torch.no_grad():
        found.values.mul_(0.5)  # by a user: nobody's average
    columns = found.columns.clone()
    train(layer, optimizer, 40)
    found(ROWS)
    assert torch.equal(found.columns, columns)


# -- a head that is tied to a table ------------------------------------------------------------------------------------


def steps(model, optimizer, n=3):
    for _ in range(n):
        ids = torch.randint(N, (16,))
        descend(optimizer, torch.nn.functional.cross_entropy(model(ids), (ids + 3) % N))


def test_a_head_follows_the_copy_that_is_called_in_place_of_its_table():
    model = Tied(table(4), TiedLogits)
    steps(model, ProxAdam(model.parameters(), lr=0.02))
    model.table = copy.deepcopy(model.table)
    steps(model, ProxAdam(model.parameters(), lr=0.02), 10)
    assert torch.equal(model.table.weight, model.head.weight)
    copies = [copy.deepcopy(model.table) for _ in range(2)]
    for one in copies:
        one(ROWS)
    with pytest.raises(InputError, match=r"got 2 copies are called\. Say which: call head\.tie\(table\)"):
        model.head(torch.randn(3, D, requires_grad=True))
    model.head.tie(copies[1])
    model.head(torch.randn(3, D, requires_grad=True))
    assert model.head.__dict__["table"] is copies[1]


def test_heads_of_whole_copies_have_their_own_tables():
    model = Tied(table(4), TiedLogits)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.0))
    optimizer = ProxAdam(model.parameters(), lr=0.02)
    for _ in range(5):
        steps(model, optimizer)
        average.update_parameters(model)
        assert torch.equal(average.module.eval()(ROWS), model.eval()(ROWS))
        model.train()


class AveragedRoundly(Averaged):
    """As on some devices, where the average with decay 0 is rounded."""

    def update(self, layer):
        with torch.no_grad():
            for mine, other in zip(self.layer.parameters(), layer.parameters(), strict=True):
                mine.add_((other - mine) * 1.0000001)


def test_an_average_that_is_rounded_keeps_its_slots():
    layer = table(3)
    optimizer, other = ProxAdam(layer.parameters(), lr=0.05), AveragedRoundly(layer, 0.0)
    train(layer, optimizer, 40, lambda _: other.update(layer))
    torch.testing.assert_close(other.layer.eval()(ROWS), layer.eval()(ROWS), rtol=1e-4, atol=1e-4)
