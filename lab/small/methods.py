"""The methods that are compared on MovieLens 1M, each with the space in which it is tuned.

Relatives of anchors are as large as a budget allows. A new one is a function and a line in RELATIVES.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf
from lab.papers.ratings import Factorisation
from lab.peers import small_tables as peers
from lab.small.factorisation import MOST_EPOCHS, N_COMPONENTS, LogUniform, Method, OneOf, Setting, squared_lengths

LARGE, SMALL = 60_000, 30_000  # parameters, at most
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
# ---------------------------------------------------------------- other ways to make a vector

ALL = {"lr": LogUniform(0.006, 0.04), "l2": LogUniform(0.02, 0.08), "std": LogUniform(0.03, 0.3)}


def hash_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return hash embeddings: what the weights leave of the budget is for shared vectors."""
    n, k = len(counts), setting["n_hashes"]
    return peers.HashTable(n, N_COMPONENTS, (most - n * k) // N_COMPONENTS, n_hashes=k, std=setting["std"])


def bucket_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return rows for the most frequent objects, and buckets for the others: a share of the rows, 1,000 at most."""
    rows = most // N_COMPONENTS
    n_buckets = min(round(setting["shared"] * rows), 1000)
    return peers.BucketTable(
        len(counts), N_COMPONENTS, counts, rows - n_buckets, n_buckets=n_buckets, std=setting["std"]
    )


def mixed_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return mixed dimensions at the lowest temperature within the budget, in steps of 0.02."""
    for step in range(400):
        options = {"n_blocks": setting["n_blocks"], "temperature": 0.02 * step, "base_dim": setting["base_dim"]}
        made = peers.MixedDimensionTable(len(counts), N_COMPONENTS, counts, std=setting["std"], **options)
        if made.n_parameters <= most:
            break
    return made


def low_rank_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return a table of the highest rank within the budget."""
    rank = most // (len(counts) + N_COMPONENTS)
    return peers.LowRankTable(len(counts), N_COMPONENTS, rank, std=setting["std"])


def train_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return a tensor train of three cores, of the highest rank within the budget."""
    n = len(counts)
    side = round(n ** (1 / 3))
    rows = (side, side, -(-n // side**2))
    dims = setting["dim_shape"]
    ends = rows[0] * dims[0] + rows[2] * dims[2]
    rank = max(r for r in range(1, 100) if r * ends + r * r * rows[1] * dims[1] <= most)
    return peers.TensorTrainTable(n, N_COMPONENTS, rows, dims, rank, std=setting["std"])


def code_table(counts: Tensor, setting: Setting, most: Any) -> nn.Module:
    """Return quotients and remainders with as many remainders as the budget allows."""
    n = len(counts)
    m = max(m for m in range(1, n + 1) if (-(-n // m) + m) * N_COMPONENTS <= most)
    return peers.QuotientRemainderTable(n, N_COMPONENTS, m, std=setting["std"])


# ---------------------------------------------------------------- selection


def whole(counts: Tensor, setting: Setting, _most: Any, *, kind: Any, **how: Any) -> nn.Module:
    """Return a table of all entries, of a kind that is pruned later."""
    return kind(len(counts), N_COMPONENTS, std=setting["std"], **how)


shrinking_entries, shrinking_rows = (partial(whole, kind=peers.ShrinkingTable, rows=rows) for rows in (False, True))
entries, noisy_rows = (partial(whole, kind=kind) for kind in (nf.nn.SelectionEmbedding, peers.VocabularyDropoutTable))


def with_subgradient(model: Factorisation, users: Tensor, items: Tensor, setting: Setting) -> Tensor:
    """Return the price of lengths, and of all absolute values until the tables have been pruned."""
    price = squared_lengths(model, users, items, setting)
    if not model.pruned:
        price = price + setting["l1"] * (model.users.penalty() + model.items.penalty())
    return price


def with_divergence(model: Factorisation, users: Tensor, items: Tensor, setting: Setting) -> Tensor:
    """Return the price of lengths, and of vectors that bear no noise, until the tables have been pruned."""
    price = squared_lengths(model, users, items, setting)
    if model.pruned:
        return price
    return price + setting["divergence"] * (model.users.divergence() + model.items.divergence())


class ShrinkingAdam(torch.optim.Adam):
    """Adam, and after each step the proximal step of a penalty, until the tables have been pruned."""

    def __init__(self, model: Factorisation, setting: Setting) -> None:
        super().__init__(model.parameters(), lr=setting["lr"], fused=True)
        self.model, self.price = model, setting["l1"]

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        if not self.model.pruned:
            for table in (self.model.users, self.model.items):
                table.shrink(self.param_groups[0]["lr"] * self.price)
        return loss


class Pruning:
    """Two parts of a training: with a penalty; then what has the smallest scores, in both tables alike, is taken out.

    What is left fills the budget. It is trained on without the penalty, by an optimiser that starts anew.
    """

    def __init__(self, model: Factorisation, setting: Setting, budget: int) -> None:
        self.model, self.setting, self.budget = model, setting, budget
        model.pruned = self.done = False

    def step(self, epoch: int, _size: int) -> torch.optim.Optimizer | None:
        """Prune after ``dense_epochs``; return the optimiser of the rest."""
        if self.done or epoch < self.setting["dense_epochs"]:
            return None
        tables = (self.model.users, self.model.items)
        scores = torch.cat([table.scores.flatten() for table in tables])
        n_kept = self.budget // (N_COMPONENTS if tables[0].kept.shape[1] == 1 else 1)
        threshold = scores.topk(n_kept + 1).values[-1].item()
        for table in tables:
            table.prune(threshold)
            table.eval()  # no more noise
        self.model.pruned = self.done = True
        return torch.optim.Adam(self.model.parameters(), lr=self.setting["last_lr"], fused=True)


# ---------------------------------------------------------------- all that are tuned

PRUNED = {**ALL, "dense_epochs": OneOf((5, 10, 15)), "last_lr": LogUniform(0.002, 0.01)}
relative = partial(Method, budgets=(LARGE, SMALL))
pruned = partial(relative, course=Pruning)
BLOCKS = {"n_blocks": OneOf((4, 8, 16)), "base_dim": OneOf((8, 16))}
CORES = OneOf(((2, 4, 2), (4, 2, 2), (2, 2, 4)))
DIVERGENCE = LogUniform(3e-7, 3e-5)
RELATIVES = [
    relative("hash embeddings", {**ALL, "n_hashes": OneOf((1, 2))}, hash_table),
    relative("bucket hash", {**ALL, "shared": LogUniform(0.02, 0.5)}, bucket_table),
    relative("mixed dimensions", {**ALL, **BLOCKS}, mixed_table),
    relative("low rank", ALL, low_rank_table),
    relative("tensor train", {**ALL, "dim_shape": CORES}, train_table),
    relative("quotient and remainder", ALL, code_table),
    pruned("slimming", {**PRUNED, "l1": LogUniform(1e-6, 1e-4)}, entries, price=with_subgradient),
    pruned("sparse CBOW", {**PRUNED, "l1": LogUniform(3e-4, 0.03)}, shrinking_entries, ShrinkingAdam),
    pruned("group lasso", {**PRUNED, "l1": LogUniform(0.001, 0.1)}, shrinking_rows, ShrinkingAdam),
    pruned("vocabulary dropout", {**PRUNED, "divergence": DIVERGENCE}, noisy_rows, price=with_divergence),
]
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
