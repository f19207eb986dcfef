"""Recommendation from likes, MovieLens 1M: EDRep on two sides and what else there is, from the likes alone.

    OPENBLAS_NUM_THREADS=1 python benchmarks/recommend.py [--seeds 0 1 2] [--held-out last] [--budget 300]

A rating of 4 or 5 says that the user likes the film. Two ways to hold out. "a fifth": as in retrieval.py, each rating
falls to the test with probability 0.2, to the validation with 0.1. "last": of each user whose times are known (2,999 of
6,040) and who likes five films or more the last liked one, and the last but one for validation; nothing is drawn, the
seed is that of the start. Films are ranked for every user with a held-out like: all that anybody rated, but for those
that the user rated outside of the test. recall@k: the share of the held-out likes among the first k, or of k where
there are more; the mean over users. Models are fitted to the likes of the training part.

"log p": the logarithm of how often a film is liked is added to the score. EDRep: score x . y / temperature. PureSVD:
the likes, projected on the first right singular vectors. Towers: a vector of length 1 for each user and each film,
from a table or, of the films, from ANT's anchors, trained by nn.in_batch_nce with the log-q correction, score cosine /
temperature. ALS and BPR are those of implicit 0.7. All with 32 components. ALS is the best of six settings in the
validation of the first seed (``--tune`` tries them); the others have one, which was not searched for.
``--budget`` stops after so many processor seconds; what is in the result file already is not repeated.
"""

from __future__ import annotations

import argparse
import lzma
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse.linalg import svds

import nearfar as nf
from _common import DATA, ResultFile, say

KEYS = ("held_out", "method", "seed")
FOLDER = DATA / "movielens-1m"
LIKED, TO_TEST, TO_VALIDATION, N_COMPONENTS = 4, 0.2, 0.1, 32
CUTS = (10, 50)
N_EPOCHS, BATCH_SIZE, LEARNING_RATE, N_ANCHORS = 4, 512, 0.01, 200
# What --tune tries; of each the first is the one that was best in the validation of the first seed, and is used.
SETTINGS: dict[str, list[dict[str, float]]] = {
    "towers": [{"temperature": 0.15}],
    "ANT towers": [{"temperature": 0.15}],
    "ALS (implicit)": [{"alpha": a, "regularization": r} for a in (5, 1) for r in (0.01, 1.0, 10.0)],
    "BPR (implicit)": [{"learning_rate": 0.05, "regularization": 0.01}],
}
Mask = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ratings:
    """All ratings by numbers of users and films; ``times`` is -1 where it is not known."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    liked: Mask
    times: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.users.max()) + 1, int(self.items.max()) + 1


@dataclass(frozen=True)
class Split:
    """What to train on, users x films, and of each part (what is liked in it, what is not to be ranked)."""

    likes: Mask
    parts: dict[str, tuple[Mask, Mask]]


def read_ratings() -> Ratings:
    with lzma.open(FOLDER / "ratings.tsv.xz", "rt") as file:
        ratings = np.loadtxt(file, skiprows=1, dtype=np.int64)
    with lzma.open(FOLDER / "ratings_timestamps_users_1-2999.tsv.xz", "rt") as file:
        timed = np.loadtxt(file, skiprows=1, dtype=np.int64)
    known = dict(zip(zip(*timed[:, :2].T.tolist(), strict=True), timed[:, 3].tolist(), strict=True))
    times = np.array([known.get(pair, -1) for pair in zip(*ratings[:, :2].T.tolist(), strict=True)])
    users, items = (np.unique(ratings[:, side], return_inverse=True)[1] for side in (0, 1))
    return Ratings(users, items, ratings[:, 2] >= LIKED, times)


def split_of(ratings: Ratings, held_out: str, seed: int) -> Split:
    if held_out == "a fifth":
        where = np.random.default_rng(seed).random(len(ratings.users))
        test, validation = where < TO_TEST, (where >= TO_TEST) & (where < TO_TEST + TO_VALIDATION)
    else:
        test, validation = last_likes(ratings)

    def matrix(which: Mask) -> Mask:
        dense = np.zeros(ratings.shape, dtype=bool)
        dense[ratings.users[which], ratings.items[which]] = True
        return dense

    train = ~(test | validation)
    parts = {
        "validation": (matrix(validation & ratings.liked), matrix(train)),
        "test": (matrix(test & ratings.liked), matrix(~test)),
    }
    return Split(matrix(train & ratings.liked), parts)


def last_likes(ratings: Ratings) -> tuple[Mask, Mask]:
    """Return the masks of the last like of each user, and of the last but one; ties by position in the file."""
    eligible = np.flatnonzero(ratings.liked & (ratings.times >= 0))
    order = eligible[np.lexsort((ratings.times[eligible], ratings.users[eligible]))]
    users = ratings.users[order]
    last = np.append(users[1:] != users[:-1], True)
    enough = np.bincount(users, minlength=ratings.shape[0])[users] >= 5
    masks = np.zeros((2, len(ratings.users)), dtype=bool)
    masks[0, order[last & enough]] = True
    masks[1, order[np.flatnonzero(last & enough) - 1]] = True
    return masks[0], masks[1]


def recalls(scores: Scores, liked: Mask, seen: Mask) -> dict[str, float]:
    """Return recall and NDCG at each cut, the mean over the users who like something."""
    judged = np.flatnonzero(liked.any(axis=1))
    scores = np.where(seen[judged], -np.inf, scores[judged])
    best = np.sort(np.argpartition(-scores, max(CUTS), axis=1)[:, : max(CUTS)], axis=1)
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    ranked = np.take_along_axis(best, order, axis=1)
    hits = np.take_along_axis(liked[judged], ranked, axis=1).cumsum(axis=1)
    n_liked = liked[judged].sum(axis=1)
    found = {f"recall@{k}": round(float((hits[:, k - 1] / np.minimum(n_liked, k)).mean()), 5) for k in CUTS}
    weights = 1 / np.log2(np.arange(2, max(CUTS) + 2))
    gains = (np.diff(hits, axis=1, prepend=0) * weights).cumsum(axis=1)
    most = weights.cumsum()
    for k in CUTS:
        found[f"ndcg@{k}"] = round(float((gains[:, k - 1] / most[np.minimum(n_liked, k) - 1]).mean()), 5)
    return found | {"n_users": len(judged), "n_films": len(np.unique(ranked[:, :10]))}


def edrep(likes: nf.Relation, seed: int, **parameters: Any) -> tuple[Scores, NDArray[np.float32]]:
    """Return the scores of a fit, and the vectors of the users."""
    model = nf.EDRep(N_COMPONENTS, random_state=seed, n_jobs=1, **parameters).fit(likes.normalized())
    return model.embedding_ @ model.context_embedding_.T / model.temperature, model.embedding_


def skipgram(likes: nf.Relation, seed: int) -> tuple[Scores, NDArray[np.float32]]:
    model = nf.SkipGram(N_COMPONENTS, n_epochs=10, random_state=seed, n_jobs=1).fit(likes)
    vectors = model.vectors_
    assert vectors.context_vectors is not None
    scores = np.full(likes.shape, -np.inf, np.float32)
    at = likes.row_ids.rows(vectors.ids), likes.column_ids.rows(vectors.context_ids)
    scores[np.ix_(*at)] = vectors.vectors @ vectors.context_vectors.T
    return scores, vectors.vectors


def towers(split: Split, seed: int, temperature: float, n_anchors: int = 0) -> tuple[Scores, None]:
    """Train a table of users and one of films, or anchors for the films, by in-batch NCE with the log-q correction."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    users, items = (torch.from_numpy(side.astype(np.int64)) for side in split.likes.nonzero())
    n_users, n_items = split.likes.shape
    user_table = torch.nn.Embedding(n_users, N_COMPONENTS)
    torch.nn.init.normal_(user_table.weight, std=0.1)
    if n_anchors:
        item_table: Any = nf.nn.AnchorEmbedding(n_items, N_COMPONENTS, n_anchors, sparse=False)
        optimizer: Any = nf.nn.ProxAdam([*user_table.parameters(), *item_table.parameters()], lr=LEARNING_RATE)
    else:
        item_table = torch.nn.Embedding(n_items, N_COMPONENTS)
        torch.nn.init.normal_(item_table.weight, std=0.1)
        optimizer = torch.optim.Adam([*user_table.parameters(), *item_table.parameters()], lr=LEARNING_RATE)
    unit = torch.nn.functional.normalize
    log_q = nf.nn.InBatchNoise(n_items, items.bincount(minlength=n_items)).log_prob(torch.arange(n_items))
    for _ in range(N_EPOCHS):
        for batch in torch.randperm(len(users)).split(BATCH_SIZE):
            u, i = users[batch], items[batch]
            loss = nf.nn.in_batch_nce(
                unit(user_table(u)), unit(item_table(i)), log_q=log_q[i], ids=i, temperature=temperature
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        item_table.eval()
        x, y = unit(user_table.weight), unit(item_table(torch.arange(n_items)))
        return (x @ y.T / temperature).numpy(), None


def from_implicit(name: str, matrix: Any, seed: int, **setting: Any) -> tuple[Scores, None]:
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking

    kind = AlternatingLeastSquares if name == "als" else BayesianPersonalizedRanking
    model = kind(factors=N_COMPONENTS, random_state=seed, num_threads=1, **setting)
    model.fit(matrix.astype(np.float32).tocsr(), show_progress=False)
    return model.user_factors @ model.item_factors.T, None


def others(name: str, split: Split, seed: int, setting: dict[str, float]) -> tuple[Scores, None]:
    """Return the scores of one of those that have settings."""
    if name.endswith("towers"):
        return towers(split, seed, setting["temperature"], N_ANCHORS if name.startswith("ANT") else 0)
    return from_implicit(name[:3].lower(), csr_matrix(split.likes.astype(np.float32)), seed, **setting)


def methods(split: Split, seed: int) -> dict[str, Any]:
    """Return, by name, what gives scores and the vectors of the users."""
    matrix = csr_array(split.likes.astype(np.float32))
    likes = nf.Relation.from_matrix(matrix, column_ids=range(matrix.shape[1]))
    popularity = likes.column_sums
    start = np.random.default_rng(seed).normal(size=min(matrix.shape))

    def pure_svd() -> tuple[Scores, None]:
        right = svds(matrix.astype(np.float64), N_COMPONENTS, v0=start)[2]
        return matrix @ right.T @ right, None

    cold = {"temperature": 0.1}
    return {
        "popularity": lambda: (np.tile(popularity, (matrix.shape[0], 1)), None),
        "PureSVD": pure_svd,
        "SkipGram": lambda: skipgram(likes, seed),
        "EDRep, defaults": lambda: edrep(likes, seed),
        "EDRep, temperature 0.1": lambda: edrep(likes, seed, **cold),
        "EDRep, p0 = popularity": lambda: edrep(likes, seed, p0=popularity),
        "EDRep, temperature 0.2, p0 = popularity": lambda: edrep(likes, seed, temperature=0.2, p0=popularity),
        "EDRep, temperature 0.1, p0 = popularity": lambda: edrep(likes, seed, **cold, p0=popularity),
        **{name: lambda name=name: others(name, split, seed, SETTINGS[name][0]) for name in SETTINGS},
    }


def tune(ratings: Ratings, held_out: str, names: list[str] | None) -> None:
    """Print the recall in the validation of the first seed for all settings."""
    split = split_of(ratings, held_out, 0)
    for name, settings in SETTINGS.items():
        for setting in settings if not names or name.startswith(tuple(names)) else []:
            began = time.process_time()
            scores, _ = others(name, split, 0, setting)
            seconds = time.process_time() - began
            say(f"{name} {setting}: {recalls(scores, *split.parts['validation'])} {seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", help="those whose names begin so")
    parser.add_argument("--held-out", nargs="+", default=["a fifth", "last"], choices=["a fifth", "last"])
    parser.add_argument("--budget", type=float, help="processor seconds to stop after")
    parser.add_argument("--tune", action="store_true", help="print the validation of all settings, and stop")
    args = parser.parse_args()
    file, ratings = ResultFile("recommend", KEYS), read_ratings()
    if args.tune:
        tune(ratings, args.held_out[0], args.methods)
        return
    for held_out in args.held_out:
        for seed in args.seeds:
            split = split_of(ratings, held_out, seed)
            log_p = np.log(np.maximum(split.likes.sum(axis=0), 0.5))
            for name, make in methods(split, seed).items():
                if args.methods and not name.startswith(tuple(args.methods)):
                    continue
                plain, biased = (
                    {"held_out": held_out, "method": name + more, "seed": seed} for more in ("", " + log p")
                )
                known = file.find(**plain)
                if known and "ndcg@10" in known["test"]:
                    continue
                if args.budget and time.process_time() > args.budget:
                    raise SystemExit("The budget is spent; start again to go on.")
                began = time.process_time()
                scores, users = make()
                facts: dict[str, Any] = {"cpu_seconds": round(time.process_time() - began, 2)}
                if users is not None:
                    mean = users.mean(axis=0, dtype=np.float64) / np.sqrt(
                        (users.astype(np.float64) ** 2).sum(axis=1).mean()
                    )
                    facts["mean_cosine"] = round(float(mean @ mean), 4)
                for key, ranking in ((plain, scores), (biased, scores + log_p)):
                    if key is biased and users is None:
                        continue
                    file.add({**key, **facts, **{part: recalls(ranking, *split.parts[part]) for part in split.parts}})
                    say(f"{key}: {file.records[-1]}")


if __name__ == "__main__":
    main()
