"""Two towers that retrieve films, MovieLens 1M: in-batch negatives with and without the log-q correction.

A rating of 4 or 5 says that the user likes the film. Each rating falls to the test with probability 0.2, to the
validation with 0.1. Films are ranked for every user who likes one in the test: all that anybody rated, but for those
that the user rated outside of the test, with whatever mark.

A tower is the sum of the vectors of what is known of a user (id, gender, age, occupation) or a film (id, genres), of
length 1; the score is the cosine over a temperature. Every variant sees the same pairs in the same order from the same
start. The temperature is the one with the best recall@10 in the validation of the first seed, chosen for each variant
by itself. A seed draws the split, the start and the order.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.items.data import FOLDER, Ratings, Split, a_fifth, read_ratings, recalls
from lab.measure import cpu_timed
from lab.papers.ratings import read_facts
from lab.records import Record, duration, mean_and_sd, middle, pick, spread_of

N_COMPONENTS, BATCH_SIZE, LEARNING_RATE, N_EPOCHS = 64, 256, 0.01, 3
# What the films of a model are ranked by: scores trained with the correction, without it, and without it but with log q
# added when ranking, as the theory of noise-contrastive estimation has it.
CORRECTED, PLAIN, PUT_BACK = "corrected", "not corrected", "not corrected, log q put back"
CUTS = (10, 20, 50, 100)


@dataclass(frozen=True)
class Films:
    """Ratings, and the features of users and films: lists of numbers, 0 where a list has ended."""

    ratings: Ratings
    user_features: Tensor
    item_features: Tensor


def read_films() -> Films:
    ratings, users, films = read_ratings(), read_facts("users", FOLDER), read_facts("movies", FOLDER)
    of_users = [[f"id={i}", *(f"{k}={x}" for k, x in enumerate(users[i][:3]))] for i in ratings.user_ids.tolist()]
    of_films = [[f"id={i}", *films[i][-1].split("|")] for i in ratings.item_ids.tolist()]
    return Films(ratings, feature_table(of_users), feature_table(of_films))


def feature_table(names: list[list[str]]) -> Tensor:
    """Return the features of each row as numbers from 1, with 0 where there are no more."""
    numbers: dict[str, int] = {}
    rows = [torch.tensor([numbers.setdefault(name, len(numbers) + 1) for name in row]) for row in names]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class Tower(nn.Module):
    """The sum of the vectors of an object's features, of length 1."""

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        self.register_buffer("features", features)
        self.vectors = nn.EmbeddingBag(int(features.max()) + 1, N_COMPONENTS, mode="sum", padding_idx=0)
        nn.init.normal_(self.vectors.weight, std=0.1)

    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.normalize(self.vectors(self.features[rows]))


def train(films: Films, split: Split, log_q: Tensor | None, temperature: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the vectors of users, over the temperature, and of films."""
    torch.manual_seed(seed)
    user_tower, item_tower = Tower(films.user_features), Tower(films.item_features)
    optimizer = torch.optim.Adam([*user_tower.parameters(), *item_tower.parameters()], lr=LEARNING_RATE, fused=True)
    ratings = films.ratings
    liked = split.likes[ratings.users, ratings.items]
    every = torch.from_numpy(np.stack([ratings.users[liked], ratings.items[liked]], axis=1))
    for _ in range(N_EPOCHS):
        for pairs in every[torch.randperm(len(every))].split(BATCH_SIZE):
            users, items = pairs.T
            how = {"log_q": None if log_q is None else log_q[items], "ids": items, "temperature": temperature}
            loss = nf.nn.in_batch_nce(user_tower(users), item_tower(items), **how)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        everybody, everything = (torch.arange(len(x)) for x in (films.user_features, films.item_features))
        return user_tower(everybody) / temperature, item_tower(everything)


def measure(file: ResultFile, films: Films, corrected: bool, temperature: float, seed: int) -> None:
    """Train once, and judge by each way to rank there is."""
    wanted = [CORRECTED] if corrected else [PLAIN, PUT_BACK]
    keys = [key for method in wanted if (key := file.new(method, temperature, seed))]
    if keys:
        split = a_fifth(films.ratings, seed)
        counts = split.likes.sum(axis=0)
        log_q = nf.nn.InBatchNoise(len(counts), counts).log_prob(torch.arange(len(counts)))
        found, seconds = cpu_timed(train, films, split, log_q if corrected else None, temperature, seed)
        for key in keys:
            scores = found[0] @ found[1].T + (log_q if key["method"] == PUT_BACK else 0)
            keep(file, key, scores.numpy(), split, seconds)


def keep(file: ResultFile, key: dict[str, Any], scores: Any, split: Split, seconds: float | None = None) -> None:
    judged = {part: recalls(scores, *split.parts[part], cuts=CUTS) for part in split.parts}
    file.add({**key, "cpu_seconds": seconds, "n_pairs": int(split.likes.sum()), **judged})


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    films, first = read_films(), given.seeds[0]
    for seed in given.seeds:
        if key := file.new("popularity", None, seed):
            split = a_fifth(films.ratings, seed)
            keep(file, key, np.broadcast_to(split.likes.sum(axis=0), split.likes.shape), split)
    for temperature, corrected in product(given.temperatures, (False, True)):
        measure(file, films, corrected, temperature, first)
    for seed, method in product(given.seeds[1:], (CORRECTED, PLAIN, PUT_BACK)):
        measure(file, films, method == CORRECTED, best_temperature(file.records, method, first), seed)


def best_temperature(records: list[Record], method: str, seed: int) -> float | None:
    """Return the temperature that does best in the validation of this seed."""
    tried = pick(records, method=method, seed=seed)
    return max(tried, key=lambda r: r["validation"]["recall@10"])["temperature"] if tried else None


def told(section: Section, records: list[Record]) -> None:
    """20 % of all ratings held out for the test, 10 % for validation; 4 and 5 are liked. Ranked is every film that the
    user has not rated outside the test. Towers of 64 components, batches of 256; the temperature by the validation of
    the first seed. Mean ± standard deviation over three seeds. Films: distinct ones among the first 10 of all users.
    """
    first = min((r["seed"] for r in records), default=0)
    methods = ("popularity", PLAIN, PUT_BACK, CORRECTED)
    best = {method: best_temperature(records, method, first) for method in methods}
    chosen = {method: pick(records, method=method, temperature=best[method]) for method in methods}
    _target(section, chosen[CORRECTED], chosen[PLAIN])
    rows = []
    for method, mine in chosen.items():
        if mine:
            cells = [spread_of([r["test"][f"recall@{k}"] for r in mine], 4) for k in CUTS]
            films, name = statistics.fmean(r["test"]["n_films"] for r in mine), method
            name = f"in-batch negatives, {method}" if best[method] else method
            rows.append([name, best[method] or "–", *cells, f"{films:,.0f}", duration(middle(mine, "cpu_seconds"))])
    head = ["ranked by", "temperature", *(f"recall@{k}" for k in CUTS), "films", "processor time"]
    section.table(head, rows, "retrieval")


def _target(section: Section, ours: list[Record], theirs: list[Record]) -> None:
    what = "retrieval on MovieLens 1M, in-batch negatives with log-q correction: recall@10"
    target = section.target(what, "above without it")
    of = [{r["seed"]: r["test"]["recall@10"] for r in side} for side in (ours, theirs)]
    seeds = sorted(of[0].keys() & of[1].keys())
    if seeds:
        a, b = ([side[seed] for seed in seeds] for side in of)
        said = ["{:.4f} ± {:.4f}".format(*mean_and_sd(side)) for side in (a, b)]
        target.tell(f"{said[0]} against {said[1]}, {len(seeds)} seeds", all(x > y for x, y in zip(a, b, strict=True)))


EXPERIMENT = Experiment("Retrieval on MovieLens 1M", run, "method temperature seed", "movielens-1m").takes(
    seeds=(0, 1, 2), temperatures=(0.1, 0.2, 0.4, 0.8, 1.6)
)
