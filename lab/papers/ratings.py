"""Matrix factorisation of MovieLens 1M with any tables of vectors: data, model, an epoch; ANT and NBANT beside rows.

A rating is ``<users(u), items(i)> + b``, with one number b for all. ``users`` and ``items`` are any modules that turn
ids into vectors.
"""

from __future__ import annotations

import gzip
import lzma
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import nearfar as nf
from lab.papers.experiment import Findings, Panel, Setting, around, line, n_parameters, one_torch_thread

TO_TRAIN, TO_VALIDATION = 0.8, 0.1  # shares of the ratings; the rest is the test
LAST_RATE = 0.02  # the learning rate falls to so much of what it was


def read_rows(path: Path) -> NDArray[np.int64]:
    """Return the numbers of a packed table with a header."""
    with lzma.open(path, "rt") as file:
        return np.loadtxt(file, skiprows=1, dtype=np.int64)


def read_ratings(folder: Path) -> tuple[NDArray[np.int64], ...]:
    return numbered(read_rows(folder / "ratings.tsv.xz"))


def numbered(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return users and items, numbered, and marks of rows of ratings; and the ids of users and items."""
    (user_ids, users), (item_ids, items) = (np.unique(table[:, side], return_inverse=True) for side in (0, 1))
    return users, items, table[:, 2], user_ids, item_ids


def read_facts(name: str, folder: Path) -> dict[int, list[str]]:
    """Return what is known of each user or film, ``users`` or ``movies``, by its id."""
    with gzip.open(folder / f"{name}.dat.gz", "rt", encoding="latin-1") as lines:
        rows = (line.rstrip("\n").split("::") for line in lines)
        return {int(number): rest for number, *rest in rows}


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

    def of_first_users(self, n: int) -> Films:
        """Return the ratings of the first users alone, with all items."""
        return replace(self, ratings=self.ratings.take(self.ratings.users < n), n_users=n)


@dataclass(frozen=True)
class Split:
    """The ratings to train on, to choose by and to report."""

    train: Ratings
    validation: Ratings
    test: Ratings


def read_films(folder: Path) -> Films:
    """Read the ratings and the genres from the folder of MovieLens 1M."""
    users, items, marks, user_ids, item_ids = read_ratings(folder)
    films = read_facts("movies", folder)
    genres = [films[i][-1].split("|") for i in item_ids.tolist()]
    ratings = Ratings(torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy(marks).float())
    return Films(ratings, len(user_ids), len(item_ids), genres)


def split_of(films: Films, seed: int) -> Split:
    """Shuffle once, as the paper does, and cut in three."""
    n = len(films.ratings.marks)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    cuts = round(TO_TRAIN * n), round((TO_TRAIN + TO_VALIDATION) * n)
    return Split(*(films.ratings.take(part) for part in torch.tensor_split(order, cuts)))


class Factorisation(nn.Module):
    """Ratings from the vectors of users and items."""

    users: Any
    items: Any

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


@torch.no_grad()
def squared_error(model: Factorisation, films: Films, part: Ratings) -> float:
    """Return the mean squared error in a part of the ratings."""
    users, items = model.users(torch.arange(films.n_users)), model.items(torch.arange(films.n_items))
    return (model.rate(users[part.users], items[part.items]) - part.marks).square().mean().item()


def falling_rate(optimizer: torch.optim.Optimizer, n_epochs: int) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, LAST_RATE ** (1 / max(n_epochs, 1)))


def train_epoch(
    model: Factorisation,
    optimizer: torch.optim.Optimizer,
    ratings: Ratings,
    price: Callable[[Tensor, Tensor], Tensor],
    batch_size: int,
) -> None:
    """Go through the ratings once, in a new order; ``price`` is what the vectors of a batch add to its error."""
    shuffled = ratings.take(torch.randperm(len(ratings.marks)))
    for batch in zip(*(part.split(batch_size) for part in shuffled), strict=True):  # type: ignore[no-untyped-call]
        users, items = model.users(batch[0]), model.items(batch[1])
        loss = (model.rate(users, items) - batch[2]).square().mean() + price(users, items)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


# ---------------------------------------------------------------- the experiment


_RATINGS_WHOLE: dict[str, Any] = {  # means over seeds 0 to 2, and where it is a pair their standard deviation
    "plain": 0.759,
    "ANT": 0.753,
    "NBANT": 0.765,
    "times": 2.6,
    "purity": 0.58,
    "parameters": (47_900, 1_200),
    "anchors": (15.3, 3.5),
}
_RATINGS_QUICK: dict[str, Any] = {
    "plain": 0.867,
    "ANT": 0.906,
    "NBANT": 0.810,
    "times": 5.2,
    "purity": 0.50,
    "parameters": (51_600, 4_400),
    "anchors": (15.0, 2.7),
}


def movielens(setting: Setting) -> Findings:
    films = read_films(setting.data / "movielens-1m")
    if setting.quick:
        films = films.of_first_users(1500)
    n_epochs, budget = setting.pick(50, 25), setting.pick(60_000, 16_000)
    found: dict[str, list[float]] = {"plain": [], "ANT": [], "NBANT": []}
    sizes: dict[str, list[int]] = {"plain": [], "ANT": [], "NBANT": []}
    purity, anchors, path = [], [], []
    with one_torch_thread():
        for seed, name in product(range(setting.pick(3, 1)), found):
            model, scheduler, error = fitted_ratings(name, films, seed, n_epochs, budget)
            found[name].append(error)
            sizes[name].append(model.n_parameters)
            if name == "ANT":
                of_ten = nf.evaluate.anchor_purity(model.items, films.genres, topn=10, random_state=0)
                purity.append(of_ten.purity)
            if scheduler is not None:
                anchors.append(model.users.n_active)
                path = [epoch["n_anchors"][0] for epoch in scheduler.history]
    loss = {name: np.array(values) for name, values in found.items()}
    of, spread = setting.pick(_RATINGS_WHOLE, _RATINGS_QUICK), 0.0065
    fewer = loss["ANT"] - loss["plain"]
    lines = [
        line("a vector of 16 numbers for each: MSE in the test", found["plain"], around(of["plain"], spread)),
        line(f"ANT, at most {budget:,} parameters: MSE in the test", found["ANT"], around(of["ANT"], spread)),
        line("ANT: parameters", sizes["ANT"], (0, budget)),
        line("ANT less the plain table: MSE", fewer, around(of["ANT"] - of["plain"], spread)),
        line(
            "ANT: how many times fewer parameters", np.array(sizes["plain"]) / sizes["ANT"], around(of["times"], 0.05)
        ),
        line("NBANT: MSE in the test", found["NBANT"], around(of["NBANT"], spread)),
        line("NBANT: parameters", sizes["NBANT"], around(*of["parameters"])),
        line("NBANT: anchors of the best epoch, from 10", anchors, around(*of["anchors"])),
        line("share of the ten films of an anchor that are of one genre", purity, around(of["purity"], 0.035)),
    ]
    curves = {name: (sizes[name], found[name]) for name in found}
    return Findings(
        lines,
        [
            Panel("MovieLens 1M", "parameters", "MSE in the test", curves),
            Panel("number of anchors (NBANT)", "epoch", "anchors", {"NBANT": (range(1, len(path) + 1), path)}),
        ],
    )


def epoch_times(setting: Setting) -> Findings:
    films = read_films(setting.data / "movielens-1m")
    if setting.quick:
        films = films.of_first_users(500)
    seconds: dict[str, list[float]] = {"MF": [], "5 anchors": [], "20 anchors": []}
    with one_torch_thread():
        for seed, name in product(range(setting.pick(3, 1)), seconds):
            split, sides = split_of(films, seed), list[Any]()
            torch.manual_seed(seed)
            for n in (films.n_users, films.n_items):
                k = 0 if name == "MF" else int(name.split()[0])
                sides.append(nf.nn.AnchorEmbedding(n, 16, k, nnz_per_row=k, penalty=2e-6) if k else nn.Embedding(n, 16))
            model = Factorisation(sides[0], sides[1], split.train.marks.mean().item())
            if name == "MF":
                optimizer: Any = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
            else:
                optimizer = nf.nn.ProxAdam(model.parameters(), lr=0.01)
            taken = []
            for _ in range(2):
                began = time.process_time()
                train_epoch(model, optimizer, split.train, lambda *_: torch.zeros(()), 1024)
                taken.append(time.process_time() - began)
            seconds[name].append(min(taken))
    base = np.array(seconds["MF"])
    lines = [line("MF: processor time of an epoch (s)", base, (0, 60))]
    lines += [
        line(f"{name}: processor time of an epoch over that of MF", np.array(seconds[name]) / base, (0.5, 10))
        for name in ("5 anchors", "20 anchors")
    ]
    return Findings(lines)


class Fitted(NamedTuple):
    """A model, what found its number of anchors, and its mean squared error in the test."""

    model: Factorisation
    scheduler: nf.nn.NBANT | None
    error: float


def fitted_ratings(name: str, films: Films, seed: int, n_epochs: int, budget: int) -> Fitted:
    """Train a model with plain tables, ANT or NBANT."""
    split = split_of(films, seed)
    torch.manual_seed(seed)
    model = _ratings_model(name, films, split)
    scheduler = _train_ratings(model, name, films, split, n_epochs, budget)
    return Fitted(model, scheduler, squared_error(model, films, split.test))


def _ratings_model(name: str, films: Films, split: Split) -> Factorisation:
    """Return a model whose tables are plain or of anchors."""
    sides: list[Any] = []
    for n in (films.n_users, films.n_items):
        if name == "plain":
            side: Any = torch.nn.Embedding(n, 16)
            torch.nn.init.normal_(side.weight, std=0.3)
        else:
            k = 30 if name == "NBANT" else 16
            side = nf.nn.AnchorEmbedding(n, 16, k, nnz_per_row=k, penalty=2e-6, anchors=0.5 * torch.randn(k, 16))
            with torch.no_grad():
                side.values.mul_(0.5)
        sides.append(side)
    return Factorisation(sides[0], sides[1], split.train.marks.mean().item())


def _train_ratings(
    model: Factorisation, name: str, films: Films, split: Split, n_epochs: int, budget: int
) -> nf.nn.NBANT | None:
    """Train at a falling rate; go back to the best epoch in the validation, once the budget holds."""
    optimizer: Any
    course = scheduler = None
    sides: list[Any] = [model.users, model.items]
    if name == "plain":
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03, fused=True)
    else:
        optimizer = nf.nn.ProxAdam(model.parameters(), lr=0.03)
    if name == "ANT":
        course = nf.nn.ParameterBudget(sides, n_steps=n_epochs, n_parameters=budget, start=0.3)
    if name == "NBANT":
        scheduler = nf.nn.NBANT(sides, anchor_price=1e-3, penalty=1e-7, initial=10)
        for side in sides:
            side.reset_parameters()
            with torch.no_grad():
                side.values.mul_(0.5)
                side.anchors.mul_(0.5)

    def lengths(users: Tensor, items: Tensor) -> Tensor:
        return 0.034 * (users.square().sum() + items.square().sum()) / len(users)

    rate = falling_rate(optimizer, n_epochs)
    best: tuple[float, dict[str, Tensor]] = (math.inf, {})
    for epoch in range(n_epochs):
        train_epoch(model, optimizer, split.train, lengths, 16_384)
        validation = squared_error(model, films, split.validation)
        fits = course is None or (course.step() and model.n_parameters <= budget)
        if scheduler is not None and epoch < 0.7 * n_epochs:
            scheduler.step(validation)
        if scheduler is not None and epoch >= 0.3 * n_epochs:
            for side in sides:
                side.penalty = min(side.penalty * 1.2, 4.4e-5)
        settled = scheduler is None or epoch >= 0.7 * n_epochs
        if fits and settled and validation < best[0]:
            best = validation, copied(model)
        rate.step()
    model.load_state_dict(best[1])
    return scheduler
