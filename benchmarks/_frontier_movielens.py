"""MovieLens 1M for the frontier: marks from vectors, biases of users and items, and a constant."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from _anchor_movielens import Ratings, read_films, split_of
from _frontier_tables import Descent, Kind, Served, Setting, kinds, trained_of

N_COMPONENTS, N_EPOCHS, BATCH_SIZE = 16, 16, 16_384
LENGTHS, SHIFTS = 0.055, 0.01  # prices of squared vectors and of squared biases
ANCHORS: Setting = {
    "numbers": (16, 8), "rates": (0.03, 0.01), "slots": 16, "anchor_std": 0.5, "row_std": 0.5, "of_anchors": 1.0,
    "l2_anchors": 1e-5,
}  # fmt: skip
WHOLE: tuple[Setting, ...] = tuple({"bits": bits, "rate": rate} for bits in (4, 2) for rate in (0.03, 0.01))
OTHERS: tuple[Setting, ...] = tuple(
    {"rate": rate, "lengths": lengths} for lengths in (LENGTHS, 0.02) for rate in (0.03, 0.01)
)
OF_BIASES = 0.03


class FilmTask:
    """Marks of films."""

    def __init__(self) -> None:
        self.films = read_films()
        self.kinds = kinds(std=0.1, anchors=ANCHORS, whole=WHOLE, others=OTHERS)
        self.trained: dict[Any, Any] = {}

    def run(self, kind: Kind, n_bytes: int, setting: Setting, seed: int) -> dict[str, Any] | None:
        """Train and serve; None if a table does not fit."""
        split = split_of(self.films, seed)
        n_of = (self.films.n_users, self.films.n_items)
        counts = [part.bincount(minlength=n) for part, n in zip(split.train[:2], n_of, strict=True)]
        torch.manual_seed(seed)
        tables = kind.make(counts, N_COMPONENTS, n_bytes, setting)
        if tables is None:
            return None
        key = trained_of(kind, seed, setting, tables)
        if not kind.trained or key not in self.trained:
            self.trained[key] = tables, self._train(kind, tables, split, n_bytes, setting)
        tables, (biases, constant) = self.trained[key] if kind.trained else self.trained.pop(key)
        served = [
            kind.served(table, n_bytes * len(c) // sum(map(len, counts)), setting)
            for table, c in zip(tables, counts, strict=True)
        ]
        size = sum(part.n_bytes for part in served)
        if size > n_bytes:
            return None
        parts = {"validation": split.validation, "test": split.test}
        found = {name: self._error(served, biases, constant, part) for name, part in parts.items()}
        return {"bytes": size, "width": served[0].vectors.shape[1], **found}

    def _train(
        self, kind: Kind, tables: list[nn.Module], split: Any, n_bytes: int, setting: Setting
    ) -> tuple[list[Tensor], float]:
        ratings: Ratings = split.train
        constant = ratings.marks.mean().item()
        biases = [nn.Parameter(torch.zeros(n)) for n in (self.films.n_users, self.films.n_items)]
        n_steps = N_EPOCHS * math.ceil(len(ratings.marks) / BATCH_SIZE)
        course = kind.course(tables, setting, n_bytes, n_steps)
        descent = Descent(course, setting["rate"], biases, OF_BIASES)
        for epoch in range(N_EPOCHS):
            order = torch.randperm(len(ratings.marks))
            for batch in zip(*(part.split(BATCH_SIZE) for part in ratings.take(order)), strict=True):
                users, items = (table(ids) for table, ids in zip(tables, batch, strict=False))
                shifts = [bias.index_select(0, ids) for bias, ids in zip(biases, batch, strict=False)]
                error = (users * items).sum(1) + shifts[0] + shifts[1] + constant - batch[2]
                lengths = (users.square().sum() + items.square().sum()) / len(error)
                of_shifts = shifts[0].square().mean() + shifts[1].square().mean()
                lengths = setting.get("lengths", LENGTHS) * lengths
                descent.step(error.square().mean() + lengths + SHIFTS * of_shifts)
            course.validated(
                lambda: self._error_now(tables, biases, constant, split.validation), (epoch + 1) / N_EPOCHS
            )
        return [bias.detach() for bias in biases], constant

    @torch.no_grad()
    def _error_now(self, tables: list[nn.Module], biases: list[Any], constant: float, part: Ratings) -> float:
        return self._error([Served(table.weight, 0) for table in tables], biases, constant, part)

    @torch.no_grad()
    def _error(self, served: list[Served], biases: list[Any], constant: float, part: Ratings) -> float:
        users, items = served[0].vectors, served[1].vectors
        found = (
            (users[part.users] * items[part.items]).sum(1) + biases[0][part.users] + biases[1][part.items] + constant
        )
        return round((found - part.marks).square().mean().item(), 5)
