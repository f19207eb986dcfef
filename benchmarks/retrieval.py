"""Two towers that retrieve films, MovieLens 1M: in-batch negatives with and without the log-q correction.

    python benchmarks/retrieval.py [--seeds 0 1 2] [--temperatures 0.1 0.2 0.4 0.8 1.6]

A rating of 4 or 5 says that the user likes the film. Each rating falls to the test with probability 0.2, to the
validation with 0.1. Films are ranked for every user who likes one in the test: all that anybody rated, but for those
that the user rated outside of the test, with whatever mark. recall@k: the share of the liked films of the test that are
among the first k, or of k where there are more; the mean over users.

A tower is the sum of the vectors of what is known of a user (id, gender, age, occupation) or a film (id, genres), of
length 1; the score is the cosine over a temperature. Every variant sees the same pairs in the same order from the same
start. The temperature is the one with the best recall@10 in the validation of the first seed, chosen for each variant
by itself. A seed draws the split, the start and the order.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import nearfar as nf
from _common import DATA, ResultFile, say
from _nce_sections import CORRECTED, CUTS, PLAIN, PUT_BACK, best_temperature

KEYS = ("method", "temperature", "seed")
FOLDER = DATA / "movielens-1m"
LIKED, TO_TEST, TO_VALIDATION = 4, 0.2, 0.1
N_COMPONENTS, BATCH_SIZE, LEARNING_RATE, N_EPOCHS = 64, 256, 0.01, 3


@dataclass(frozen=True)
class Films:
    """Ratings by numbers of users and films, and the features of both: lists of numbers, 0 where a list has ended."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    liked: NDArray[np.bool_]
    user_features: Tensor
    item_features: Tensor


@dataclass(frozen=True)
class Split:
    """The liked pairs to train on, what each part is judged by, and how often each film is liked."""

    pairs: Tensor
    counts: NDArray[np.int64]
    parts: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]  # (liked, not to be ranked), users x films


def read_films() -> Films:
    with lzma.open(FOLDER / "ratings.tsv.xz", "rt") as file:
        ratings = np.loadtxt(file, skiprows=1, dtype=np.int64)
    user_ids, users = np.unique(ratings[:, 0], return_inverse=True)
    item_ids, items = np.unique(ratings[:, 1], return_inverse=True)
    known: dict[str, dict[int, list[str]]] = {"users": {}, "movies": {}}
    for name, found in known.items():
        with gzip.open(FOLDER / f"{name}.dat.gz", "rt", encoding="latin-1") as lines:
            for line in lines:
                number, *rest = line.rstrip("\n").split("::")
                found[int(number)] = (
                    [f"{k}={x}" for k, x in enumerate(rest[:3])] if name == "users" else rest[-1].split("|")
                )
    return Films(
        users,
        items,
        ratings[:, 2] >= LIKED,
        feature_table([[f"id={i}", *known["users"][i]] for i in user_ids.tolist()]),
        feature_table([[f"id={i}", *known["movies"][i]] for i in item_ids.tolist()]),
    )


def feature_table(names: list[list[str]]) -> Tensor:
    """Return the features of each row as numbers from 1, with 0 where there are no more."""
    numbers: dict[str, int] = {}
    rows = [torch.tensor([numbers.setdefault(name, len(numbers) + 1) for name in row]) for row in names]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def split_of(films: Films, seed: int) -> Split:
    where = np.random.default_rng(seed).random(len(films.users))
    masks = {"test": where < TO_TEST, "validation": (where >= TO_TEST) & (where < TO_TEST + TO_VALIDATION)}
    masks["train"] = ~(masks["test"] | masks["validation"])
    shape = len(films.user_features), len(films.item_features)

    def matrix(which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        dense = np.zeros(shape, dtype=bool)
        dense[films.users[which], films.items[which]] = True
        return dense

    train = masks["train"] & films.liked
    parts = {
        "validation": (matrix(masks["validation"] & films.liked), matrix(masks["train"])),
        "test": (matrix(masks["test"] & films.liked), matrix(~masks["test"])),
    }
    pairs = torch.from_numpy(np.stack([films.users[train], films.items[train]], axis=1))
    return Split(pairs, np.bincount(films.items[train], minlength=shape[1]), parts)


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
    for _ in range(N_EPOCHS):
        for pairs in split.pairs[torch.randperm(len(split.pairs))].split(BATCH_SIZE):
            users, items = pairs.T
            loss = nf.nn.in_batch_nce(
                user_tower(users),
                item_tower(items),
                log_q=None if log_q is None else log_q[items],
                ids=items,
                temperature=temperature,
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        everybody, everything = (torch.arange(len(x)) for x in (films.user_features, films.item_features))
        return user_tower(everybody) / temperature, item_tower(everything)


def judge(scores: Tensor, split: Split, part: str) -> dict[str, Any]:
    """Return recall@k, and how many films are among the first 10 of anybody."""
    liked, not_ranked = (torch.from_numpy(x) for x in split.parts[part])
    judged = liked.any(dim=1)
    ranked = scores.masked_fill(not_ranked, -torch.inf)[judged].topk(max(CUTS)).indices
    hits = liked[judged].gather(1, ranked).cumsum(dim=1)
    n_liked = liked[judged].sum(dim=1)
    recalls = {f"recall@{k}": round((hits[:, k - 1] / n_liked.clamp(max=k)).mean().item(), 5) for k in CUTS}
    return {**recalls, "n_users": int(judged.sum()), "n_films": len(ranked[:, :10].unique())}


def measure(file: ResultFile, films: Films, corrected: bool, temperature: float, seed: int) -> None:
    """Train once, and judge by each way to rank there is."""
    methods = [CORRECTED] if corrected else [PLAIN, PUT_BACK]
    keys = [dict(zip(KEYS, (method, temperature, seed), strict=True)) for method in methods]
    if all(file.find(**key) for key in keys):
        return
    split = split_of(films, seed)
    log_q = nf.nn.InBatchNoise(len(split.counts), split.counts).log_prob(torch.arange(len(split.counts)))
    began = time.process_time()
    found = train(films, split, log_q if corrected else None, temperature, seed)
    seconds = time.process_time() - began
    for key in keys:
        scores = found[0] @ found[1].T + (log_q if key["method"] == PUT_BACK else 0)
        record(file, key, scores, split, seconds)


def record(file: ResultFile, key: dict[str, Any], scores: Tensor, split: Split, seconds: float | None = None) -> None:
    judged = {part: judge(scores, split, part) for part in split.parts}
    file.add({**key, "cpu_seconds": seconds and round(seconds, 1), "n_pairs": len(split.pairs), **judged})
    say(f"{key}: {judged['validation']['recall@10']} (validation), {judged['test']['recall@10']} (test)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.1, 0.2, 0.4, 0.8, 1.6])
    args = parser.parse_args()
    torch.set_num_threads(1)
    file, films = ResultFile("retrieval", KEYS), read_films()
    for seed in args.seeds:
        key = {"method": "popularity", "temperature": None, "seed": seed}
        if not file.find(**key):
            split = split_of(films, seed)
            counts = torch.from_numpy(split.counts).float()
            record(file, key, counts.expand(len(films.user_features), -1), split)
    for temperature in args.temperatures:
        for corrected in (False, True):
            measure(file, films, corrected, temperature, args.seeds[0])
    for seed in args.seeds[1:]:
        for method in (CORRECTED, PLAIN, PUT_BACK):
            measure(file, films, method == CORRECTED, best_temperature(file.records, method, args.seeds[0]), seed)


if __name__ == "__main__":
    main()
