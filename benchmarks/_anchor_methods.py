"""The methods that are compared on MovieLens 1M, each with the space in which it is tuned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

import nearfar as nf
from _anchor_movielens import (
    MOST_EPOCHS,
    N_COMPONENTS,
    Factorisation,
    LogUniform,
    Method,
    OneOf,
    Setting,
    squared_lengths,
)
from _anchor_movielens_section import LARGE, SMALL
from _anchor_relatives import RELATIVES

FIRST_ANCHORS, MOST_ANCHORS = 10, 30  # NBANT: the paper starts from 10
FIRST_PRICE, RISE = 2e-6, 1.2  # price of an entry of T at first, lambda 2; its rise in an epoch, once it rises


# ---------------------------------------------------------------- uncompressed


def vectors(n_components: int) -> Callable[[Tensor, Setting, int | None], nn.Module]:
    """Return what makes an uncompressed table."""

    def table(counts: Tensor, setting: Setting, _most: int | None) -> nn.Module:
        made = nn.Embedding(len(counts), n_components)
        nn.init.normal_(made.weight, std=setting["std"])
        return made

    return table


# ---------------------------------------------------------------- anchors


def mixtures(counts: Tensor, setting: Setting, _most: int | None) -> nf.nn.AnchorEmbedding:
    """Return a table of anchors, with a slot for each anchor in each row; vectors start as short as others do."""
    k = setting["n_anchors"]
    start = 0.5 * torch.randn(k, N_COMPONENTS)
    made = nf.nn.AnchorEmbedding(len(counts), N_COMPONENTS, k, nnz_per_row=k, penalty=FIRST_PRICE, anchors=start)
    with torch.no_grad():
        made.values.mul_(0.5)
    return made


def prox_adam(model: Factorisation, setting: Setting) -> torch.optim.Optimizer:
    return nf.nn.ProxAdam(model.parameters(), lr=setting["lr"])


def lengths_and_anchors(model: Factorisation, users: Tensor, items: Tensor, setting: Setting) -> Tensor:
    """Return the price of vectors, and of anchors: with long anchors T could be small, and its price without effect."""
    anchors = sum(table.anchors.square().sum() for table in (model.users, model.items))
    return squared_lengths(model, users, items, setting) + setting["l2_anchors"] * anchors


class Course:
    """Three parts of a training: with a low price of entries of T, with one that rises, and with the zeros kept.

    The price is found by the budget; where there is none, it rises to the one that ``setting`` gives. What it took off
    from entries that are worth more is given back in the end: without a price, by an optimiser that starts anew, where
    what is 0 stays 0.
    """

    def __init__(self, model: Factorisation, setting: Setting, budget: int | None) -> None:
        self.tables, self.model, self.setting = (model.users, model.items), model, setting
        self.rising = self.done = False
        start = setting["dense_epochs"] / MOST_EPOCHS
        self.budget = None
        if budget is not None:
            self.budget = nf.nn.ParameterBudget(self.tables, n_steps=MOST_EPOCHS, n_parameters=budget, start=start)

    @property
    def price(self) -> float:
        """The price of an entry of T."""
        return float(self.tables[0].penalty)

    def step(self, epoch: int, _size: int) -> torch.optim.Optimizer | None:
        """Set prices for the next epoch; return another optimiser where it is to change."""
        if self.done:
            return None
        self.rising = epoch >= self.setting["dense_epochs"]
        self.done = self.budget.step() if self.budget else self._at_last_price()
        return nf.nn.ProxAdam(self.model.parameters(), lr=self.setting["last_lr"]) if self.done else None

    def _at_last_price(self) -> bool:
        """Raise the price, or fix the zeros where it is high enough."""
        if not self.rising:
            return False
        high = self.price >= self.setting["price"]
        for table in self.tables:
            table.zeros_fixed = high
            table.penalty *= 1.0 if high else RISE
        return high


ANT = Method(
    "ANT",
    {
        "lr": LogUniform(0.02, 0.045),
        "l2": LogUniform(0.02, 0.045),
        "l2_anchors": LogUniform(1e-6, 1e-4),
        "n_anchors": OneOf((12, 14, 16, 20)),
        "dense_epochs": OneOf((15, 20)),
        "last_lr": LogUniform(0.002, 0.008),
    },
    mixtures,
    prox_adam,
    lengths_and_anchors,
    (LARGE,),
    Course,
)
ANT_SMALL = replace(ANT, name="ANT, small", space={**ANT.space, "n_anchors": OneOf((6, 8, 10, 12))}, budgets=(SMALL,))


def most_mixtures(counts: Tensor, setting: Setting, most: int | None) -> nf.nn.AnchorEmbedding:
    """Return a table with all anchors that NBANT may find: vectors start as long as with the first of them."""
    made = mixtures(counts, {**setting, "n_anchors": MOST_ANCHORS}, most)
    with torch.no_grad():
        made.values.mul_(math.sqrt(MOST_ANCHORS / FIRST_ANCHORS))
        made.values[made.columns >= FIRST_ANCHORS] = 0
    return made


def grow_and_shrink(model: Factorisation, _setting: Setting) -> nf.nn.NBANT:
    """Judge by the error plus a price for each parameter: of an entry of T, and for an anchor of all its components."""
    tables = [model.users, model.items]
    return nf.nn.NBANT(tables, anchor_price=(1 + N_COMPONENTS) * FIRST_PRICE, initial=FIRST_ANCHORS)


NBANT = Method("NBANT", {}, most_mixtures, prox_adam, lengths_and_anchors, course=Course, scheduler=grow_and_shrink)


# ---------------------------------------------------------------- all that are tuned

UNCOMPRESSED = {
    "lr": LogUniform(0.003, 0.02),
    "l2": LogUniform(0.03, 0.08),
    "std": LogUniform(0.03, 0.3),
    "batch_size": OneOf((2048, 4096, 8192)),
}
METHODS = {
    method.name: method
    for method in (
        Method("uncompressed", UNCOMPRESSED, vectors(N_COMPONENTS)),
        ANT,
        ANT_SMALL,
        Method("6 components", UNCOMPRESSED, vectors(6)),
        Method("3 components", UNCOMPRESSED, vectors(3)),
        *RELATIVES,
    )
}
