"""Two towers that know ids alone, on MovieLens 1M and 100K: what the correction for popularity is worth as called.

A rating of 4 or 5 says that the user likes the film. The split and the ranking are those of :mod:`lab.items.retrieval`.
A tower is a table; the score is the scalar product, or the cosine over a temperature. Nothing is chosen by the data.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.items.data import Split, a_fifth, read_ratings, recalls
from lab.measure import cpu_timed
from lab.records import Record, duration, groups, mean_and_sd, middle

N_COMPONENTS, BATCH_SIZE, LEARNING_RATE, N_EPOCHS = 32, 512, 0.01, 3
SETS = {"1M": 1, "100K": 10}  # how often the epochs: the smaller one has a tenth of the pairs
PLAIN, COUNTED = "in_batch_nce(queries, keys, ids=ids)", "InBatchNCE()(queries, keys, ids=ids)"


def train(split: Split, method: str, cosine: bool, n_epochs: int, seed: int) -> Any:
    torch.manual_seed(seed)
    tables = [nn.Embedding(n, N_COMPONENTS) for n in split.likes.shape]
    for table in tables:
        nn.init.normal_(table.weight, std=0.1)
    optimizer = torch.optim.Adam([table.weight for table in tables], lr=LEARNING_RATE, fused=True)
    temperature = 0.1 if cosine else 1.0
    counted = nf.nn.InBatchNCE(temperature)
    loss_of: Any = counted if method == COUNTED else partial(nf.nn.in_batch_nce, temperature=temperature)

    def vectors(side: int, rows: Tensor) -> Tensor:
        found = tables[side](rows)
        return nn.functional.normalize(found) if cosine else found

    pairs = torch.from_numpy(np.argwhere(split.likes))
    for _ in range(n_epochs):
        for users, items in (batch.T for batch in pairs[torch.randperm(len(pairs))].split(BATCH_SIZE)):
            loss = loss_of(vectors(0, users), vectors(1, items), ids=items)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        everybody, everything = (vectors(side, torch.arange(n)) for side, n in enumerate(split.likes.shape))
        return (everybody @ everything.T).numpy()


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    for name, times in SETS.items():
        ratings = read_ratings(f"MovieLens {name}")
        for seed in given.seeds:
            split = a_fifth(ratings, seed)
            trained = product((PLAIN, COUNTED), ("product", "cosine"))
            for method, score in [("popularity", "–"), *trained]:
                if key := file.new(name, method, score, seed):
                    if method == "popularity":
                        scores, seconds = np.broadcast_to(split.likes.sum(axis=0), split.likes.shape), None
                    else:
                        call = (split, method, score == "cosine", N_EPOCHS * times, seed)
                        scores, seconds = cpu_timed(train, *call)
                    file.add({**key, "cpu_seconds": seconds, **recalls(scores, *split.parts["test"], cuts=(10, 20))})


def told(section: Section, records: list[Record]) -> None:
    section.say(f"""Towers that know ids alone, of {N_COMPONENTS} components, batches of {BATCH_SIZE}, {N_EPOCHS} epochs
        (of the smaller set ten times as many), every loss as it is called, temperature 1 for products and .1 for
        cosines. recall@k by hits / min(k, hidden likes), mean ± standard deviation over the seeds.""")
    rows = [
        [f"MovieLens {data}", method, score, *("{:.3f} ± {:.3f}".format(*mean_and_sd([r[f"recall@{k}"] for r in mine]))
         for k in (10, 20)), duration(middle(mine, "cpu_seconds"))]
        for data, method, score, mine in groups(records, "data", "method", "score")
    ]  # fmt: skip
    section.table(["data", "ranked by", "score", "recall@10", "recall@20", "processor time"], rows)


EXPERIMENT = Experiment(
    "What the correction for popularity is worth as called",
    run,
    "data method score seed",
    "movielens-1m movielens-100k",
).takes(seeds=(0, 1, 2))
