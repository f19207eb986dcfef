"""NBANT: eq. 34 against the paper's table, algorithm 2 step by step, and what comes back when anchors do."""

import copy
import io
import math

import pytest
from descent import descend

torch = pytest.importorskip("torch")

from nearfar.errors import NearfarWarning  # noqa: E402
from nearfar.nn import NBANT, AnchorEmbedding, ProxAdam, nbant_objective  # noqa: E402

TINY = 1e-300  # a price that no loss feels: the objective is the loss
SMALL, LARGE = (math.log(84.5), 171_000, 500), (math.log(79.4), 214_000, 1_000)


def make(n=20, d=3, k=12, r=12, seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(n, d, k, nnz_per_row=r, **options)


def free(layers, **options):
    """A scheduler whose objective is the loss."""
    return NBANT(layers, **{"anchor_price": TINY, "penalty": 0, **options})


def numbers(scheduler, losses):
    """The numbers of anchors after each of the losses."""
    found = []
    for loss in losses:
        scheduler.step(loss)
        found.append([layer.n_active for layer in scheduler.layers])
    return found


# -- the objective ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "price", "printed"),
    [
        (LARGE, 2e-5, "4.61"),
        (LARGE, 1e-4, "4.69"),
        (LARGE, 1e-1, "104.6"),
        (SMALL, 2e-5, "4.62"),
        (SMALL, 1e-4, "4.66"),
        (SMALL, 1e-1, "54.6"),
    ],
)
def test_the_objective_is_that_of_table_14(model, price, printed):
    value = nbant_objective(*model, penalty=1e-6, anchor_price=price)
    assert f"{value:.{len(printed.partition('.')[2])}f}" == printed


def test_an_epoch_is_recorded_with_the_objective_of_all_tables():
    layers = [make(penalty=0.002), make(n=31, penalty=0.003, seed=1)]
    scheduler = NBANT(layers, anchor_price=0.01, initial=5)
    with torch.no_grad():
        layers[0].values[:7] = 0
    for layer in layers:  # what it started with is what it goes on with
        layer.penalty = 1.0
    scheduler.step(torch.tensor(0.5))
    expected = 0.5 + 0.002 * 13 * 5 + 0.008 * 5 + 0.003 * 31 * 5 + 0.007 * 5
    (record,) = scheduler.history
    assert record.pop("objective") == pytest.approx(expected, rel=1e-12)
    assert record == {"epoch": 1, "loss": 0.5, "n_anchors": [5, 5], "nnz": [65, 155]}
    given = NBANT(layers, anchor_price=0.01, initial=4, penalty=0.001)
    given.step(0)
    total = nbant_objective(0, 13 * 4 + 31 * 4, 8, penalty=0.001, anchor_price=0.01)
    assert given.history[0]["objective"] == pytest.approx(total, rel=1e-12)


# -- grow, keep, shrink -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "change"),
    [
        ([3], 1),
        ([3, 5], 1),
        ([3, 2, 1], 1),
        ([3, 3, 1], 1),
        ([3, 3, 3], 1),
        ([1, 2, 3], -1),
        ([1, 1, 2], -1),
        ([1, 3, 2], 0),
        ([3, 1, 2], 0),
        ([1, 2, 9, 8, 7], 1),  # only the last three count
    ],
)
@pytest.mark.parametrize("delta", [1, 2])
def test_the_last_three_epochs_decide(losses, change, delta):
    layer = make(k=18)
    scheduler = free(layer, initial=9, step_size=delta)
    numbers(scheduler, losses[:-1])
    before = layer.n_active
    scheduler.step(losses[-1])
    assert layer.n_active - before == change * delta


def test_a_walk_in_full():
    losses = [9, 8, 7, 6, 7, 8, 9, 8, 8, 8]
    assert numbers(free(make(), initial=4), losses) == [[k] for k in (5, 6, 7, 8, 8, 7, 6, 6, 7, 8)]


def test_the_number_stays_between_one_and_all():
    up = free(make(), initial=8, step_size=3)
    assert numbers(up, [4, 3, 2, 1]) == [[11], [12], [12], [12]]
    down = free(make(), initial=2, step_size=3)
    assert numbers(down, [1, 2, 3, 4, 5]) == [[5], [8], [5], [2], [1]]
    unequal = free([make(k=9), make(k=6)], initial=5)
    assert numbers(unequal, [3, 2, 1]) == [[6, 6]] * 3


def test_anchors_that_do_not_pay_are_taken_back():
    scheduler = NBANT(make(), anchor_price=0.1, penalty=0, initial=4)
    # The loss is the same: the price of 4, 5, 6 rises twice; back at 5, the objective has risen and fallen.
    assert numbers(scheduler, [1.0] * 4) == [[5], [6], [5], [5]]
    assert scheduler.best["n_anchors"] == [4]


def test_tables_take_turns():
    layers = [make(), make(seed=1)]
    # After turns of the first table the objective falls, after those of the second it rises.
    losses = [50, 40, 45, 35, 40, 30, 35, 25]
    found = numbers(free(layers, initial=3, tied=False), losses)
    assert found == [[4, 3], [4, 4], [5, 4], [5, 5], [6, 5], [6, 4], [7, 4], [7, 3]]
    tied = free([make(), make(seed=1)], initial=3)
    assert numbers(tied, losses[:4]) == [[4, 4], [5, 5], [5, 5], [5, 5]]
    alone = free(layers[0], initial=3, tied=False)
    assert numbers(alone, losses) == [[k] for k in (4, 5, 5, 5, 5, 5, 5, 5)]


# -- training ---------------------------------------------------------------------------------------------------------


def train(layer, optimizer, steps=3):
    for _ in range(steps):
        descend(optimizer, (layer(torch.arange(layer.num_embeddings)) - 0.5).square().sum())


def test_the_best_epoch_can_be_had_again():
    layer = make()
    scheduler = free(layer, initial=5)
    assert scheduler.best is None
    assert not scheduler.is_best
    scheduler.use_best()  # nothing to use yet
    optimizer = ProxAdam(layer.parameters(), lr=0.02)
    for loss in (3, 1, 2, 1):
        train(layer, optimizer)
        weight = layer.weight
        scheduler.step(loss)
        assert scheduler.is_best == (len(scheduler.history) <= 2)
        if scheduler.is_best:
            best, state = weight, copy.deepcopy(layer.state_dict())
    assert (scheduler.best["epoch"], scheduler.best["n_anchors"]) == (2, [6])  # the first of equal ones
    layer.load_state_dict(state)
    scheduler.use_best()
    assert layer.n_active == 6
    assert layer.weight.equal(best)


# -- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_a_search_goes_on_from_its_state(tied):
    losses = [9, 8, 7, 8, 9, 7, 6, 5]
    layers = [make(), make(seed=1)]
    whole = numbers(free(layers, initial=3, tied=tied), losses)
    first = free(layers, initial=3, tied=tied)
    numbers(first, losses[:5])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = free([make(), make(seed=1)], initial=4, tied=tied)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert second.history == first.history
    assert numbers(second, losses[5:]) == whole[5:]
    assert len(first.history) == 5  # not shared
    assert second.best == {**second.history[7]}


# -- bad input --------------------------------------------------------------------------------------------------------


def test_a_table_without_entries_warns_with_the_epoch():
    layers = [make(), make(seed=1)]
    scheduler = free(layers, initial=5)
    scheduler.step(1.0)
    with torch.no_grad():
        layers[1].values.zero_()
    with pytest.warns(NearfarWarning, match="all of T is 0 in table 1 after epoch 2"):
        scheduler.step(1.0)
