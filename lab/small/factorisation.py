"""Matrix factorisation of MovieLens 1M with any table of vectors: data, model, training, random search.

A rating is ``<users(u), items(i)> + b``, with one number b for all: biases of users and films have to be found in the
vectors, for every method alike. ``users`` and ``items`` are any modules that turn ids into vectors; the parameters of
one are its ``n_parameters`` where it has that, otherwise the elements of its parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from nearfar.reproduce.anchors import n_parameters
from torch import Tensor, nn

from lab.items import data

N_COMPONENTS, BATCH_SIZE = 16, 16_384
MOST_EPOCHS, PATIENCE, LAST_RATE = 50, 10, 0.02  # the learning rate falls to LAST_RATE of what it was
TO_TRAIN, TO_VALIDATION = 0.8, 0.1  # shares of the ratings; the rest is the test
Setting = dict[str, Any]
State = dict[str, Any]


class Ratings(NamedTuple):
    """Users and items, numbered, and marks from 1 to 5: three vectors of one length."""

    users: Tensor
    items: Tensor
    marks: Tensor

    def take(self, which: Tensor) -> Ratings:
        return Ratings(*(part[which] for part in self))


@dataclass(frozen=True)
class Films:
    """All ratings, and the genres of each rated item."""

    ratings: Ratings
    n_users: int
    n_items: int
    genres: list[list[str]] = field(repr=False)


@dataclass(frozen=True)
class Split:
    """The ratings to train on, to choose by and to report."""

    train: Ratings
    validation: Ratings
    test: Ratings


def read_films() -> Films:
    table, films = data.read_ratings(), data.read_facts("movies")
    genres = [films[i][-1].split("|") for i in table.item_ids.tolist()]
    ratings = Ratings(*map(torch.from_numpy, (table.users, table.items)), torch.from_numpy(table.marks).float())
    return Films(ratings, len(table.user_ids), len(table.item_ids), genres)


def split_of(films: Films, seed: int) -> Split:
    """Shuffle once, as the paper does, and cut in three."""
    n = len(films.ratings.marks)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    cuts = round(TO_TRAIN * n), round((TO_TRAIN + TO_VALIDATION) * n)
    return Split(*(films.ratings.take(part) for part in torch.tensor_split(order, cuts)))


class Factorisation(nn.Module):
    """Ratings from the vectors of users and items."""

    def __init__(self, users: nn.Module, items: nn.Module, mean: float) -> None:
        super().__init__()
        self.users, self.items = users, items
        self.bias = nn.Parameter(torch.tensor([mean]))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.rate(self.users(users), self.items(items))

    def rate(self, users: Tensor, items: Tensor) -> Tensor:
        """Return ratings from vectors."""
        return (users * items).sum(-1) + self.bias

    @property
    def n_parameters(self) -> int:
        """Parameters of both tables; b is left out."""
        return n_parameters(self.users) + n_parameters(self.items)


def n_bytes(table: nn.Module) -> int:
    """Return the bytes of a trained table, indices included."""
    if hasattr(table, "export"):
        return int(table.export().nbytes)
    if hasattr(table, "kept"):  # entries that are left, each with its column; or rows, each with its number
        n_kept = int(table.kept.sum())
        return 4 * table.n_parameters + (4 * n_kept if table.kept.shape[1] == 1 else n_kept + table.num_embeddings)
    return sum(t.nbytes for t in (*table.parameters(), *table.buffers()))


@torch.no_grad()
def squared_error(model: Factorisation, films: Films, part: Ratings) -> float:
    """Return the mean squared error in a part of the ratings."""
    users, items = model.users(torch.arange(films.n_users)), model.items(torch.arange(films.n_items))
    return (model.rate(users[part.users], items[part.items]) - part.marks).square().mean().item()


def squared_lengths(_model: Factorisation, users: Tensor, items: Tensor, setting: Setting) -> Tensor:
    """Return the price of the vectors of a batch (n, d): long vectors of rare objects do not generalise."""
    return setting["l2"] * (users.square().sum() + items.square().sum()) / len(users)


def adam(model: Factorisation, setting: Setting) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=setting["lr"], fused=True)


class LogUniform(NamedTuple):
    """A positive number whose logarithm is uniform."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        return float(f"{math.exp(rng.uniform(math.log(self.low), math.log(self.high))):.3g}")


class OneOf(NamedTuple):
    """One of several values, all alike."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.values[rng.integers(len(self.values))]


@dataclass(frozen=True)
class Method:
    """A way to hold the vectors of objects, and how it is trained and tuned.

    Parameters
    ----------
    name : str
        What it is called in the results.
    space : dict
        What random search draws, by name.
    table : callable
        Makes a table from the number of ratings of each object, a setting, and the most parameters that it should have.
    optimizer, price : callable
        The optimiser of a model; what is added to the loss of a batch.
    budgets : tuple of int or None
        Most parameters that a trained model may have, each tuned by itself; None: any number.
    course : callable, optional
        Makes, from a model, a setting and a budget, what is told number and size of each epoch by ``step``, to change
        what is to change while a model is trained. It may return another optimiser. No epoch is kept before it is
        ``done``.
    scheduler : callable, optional
        Makes what is told the validation error of each epoch, until the course says that prices are ``rising``.
    """

    name: str
    space: dict[str, LogUniform | OneOf]
    table: Callable[[Tensor, Setting, int | None], nn.Module]
    optimizer: Callable[[Factorisation, Setting], torch.optim.Optimizer] = adam
    price: Callable[[Factorisation, Tensor, Tensor, Setting], Tensor] = squared_lengths
    budgets: tuple[int | None, ...] = (None,)
    course: Callable[[Factorisation, Setting, Any], Any] | None = None
    scheduler: Callable[[Factorisation, Setting], Any] | None = None

    def draw(self, trial: int) -> Setting:
        """Return the setting of a trial; it is the same whatever the number of trials."""
        rng = np.random.default_rng([17, trial])
        return {name: choice.draw(rng) for name, choice in self.space.items()}


class Run(NamedTuple):
    """A trained model in its best epoch within the budget, 0 if there is none, and the time of the processor."""

    model: Factorisation
    scheduler: Any
    course: Any
    epoch: int
    validation: float
    n_epochs: int
    cpu_seconds: float


def fit(
    method: Method,
    films: Films,
    split: Split,
    setting: Setting,
    seed: int,
    budget: int | None = None,
    most_epochs: int = MOST_EPOCHS,
) -> Run:
    """Train at a rate that falls, stop early, and go back to the best epoch within the budget."""
    torch.manual_seed(seed)
    model = Factorisation(*tables_of(method, films, split.train, setting, budget), mean=split.train.marks.mean().item())
    optimizer = method.optimizer(model, setting)
    scheduler = method.scheduler(model, setting) if method.scheduler else None
    course = method.course(model, setting, budget) if method.course else None
    rate = falling_rate(optimizer, most_epochs)
    kept: tuple[int, float, State] = (0, math.inf, {})
    began, epoch = time.process_time(), 0
    while epoch < most_epochs:
        epoch += 1
        train_epoch(method, model, optimizer, split.train, setting)
        error, size, state = squared_error(model, films, split.validation), model.n_parameters, copied(model)
        if not math.isfinite(error):
            break
        if scheduler and not (course and course.rising):
            scheduler.step(error)  # changes the model for the next epoch
        if error < kept[1] and (course is None or course.done) and (budget is None or size <= budget):
            kept = epoch, error, state
        if kept[0] and epoch - kept[0] >= PATIENCE:
            break
        rate.step()
        other = course.step(epoch, size) if course else None
        if other:
            optimizer, rate = other, falling_rate(other, most_epochs - epoch)
    seconds = time.process_time() - began
    if kept[0]:
        model.load_state_dict(kept[2])
    return Run(model, scheduler, course, kept[0], kept[1], epoch, seconds)


def tables_of(
    method: Method, films: Films, ratings: Ratings, setting: Setting, budget: int | None
) -> tuple[nn.Module, nn.Module]:
    """Make the tables of users and items; of a budget both have shares in proportion to their numbers."""
    n = films.n_users + films.n_items
    counts = ratings.users.bincount(minlength=films.n_users), ratings.items.bincount(minlength=films.n_items)
    users, items = (method.table(c, setting, None if budget is None else budget * len(c) // n) for c in counts)
    return users, items


def falling_rate(optimizer: torch.optim.Optimizer, n_epochs: int) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, LAST_RATE ** (1 / max(n_epochs, 1)))


def train_epoch(
    method: Method, model: Factorisation, optimizer: torch.optim.Optimizer, ratings: Ratings, setting: Setting
) -> None:
    """Go through the ratings once, in a new order."""
    shuffled = ratings.take(torch.randperm(len(ratings.marks)))
    for batch in zip(*(part.split(setting.get("batch_size", BATCH_SIZE)) for part in shuffled), strict=True):
        users, items = model.users(batch[0]), model.items(batch[1])
        loss = (model.rate(users, items) - batch[2]).square().mean() + method.price(model, users, items, setting)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def copied(model: nn.Module) -> State:
    return {name: value.clone() for name, value in model.state_dict().items()}
