"""Matrix factorisation of MovieLens 1M with any table of vectors: training and random search.

A rating is ``<users(u), items(i)> + b``, with one number b for all: biases of users and films have to be found in the
vectors, for every method alike. ``users`` and ``items`` are any modules that turn ids into vectors; the parameters of
one are its ``n_parameters`` where it has that, otherwise the elements of its parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import nearfar as nf
from lab.papers import ratings as movielens
from lab.papers.ratings import Factorisation, Films, Ratings, Split, copied, falling_rate, squared_error

N_COMPONENTS, BATCH_SIZE = 16, 16_384
MOST_EPOCHS, PATIENCE = 50, 10
Setting = dict[str, Any]
State = dict[str, Any]


def n_bytes(table: nn.Module) -> int:
    """Return the bytes of a trained table, indices included."""
    if isinstance(table, nf.nn.AnchorEmbedding):
        return int(table.export().nbytes)
    if hasattr(table, "kept"):  # entries that are left, each with its column; or rows, each with its number
        n_kept = int(table.kept.sum())
        return 4 * table.n_parameters + (4 * n_kept if table.kept.shape[1] == 1 else n_kept + table.num_embeddings)
    return sum(t.nbytes for t in (*table.parameters(), *table.buffers()))


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

    def price(users: Tensor, items: Tensor) -> Tensor:
        return method.price(model, users, items, setting)

    began, epoch = time.process_time(), 0
    while epoch < most_epochs:
        epoch += 1
        movielens.train_epoch(model, optimizer, split.train, price, setting.get("batch_size", BATCH_SIZE))
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
