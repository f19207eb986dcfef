"""Recommendation from likes, MovieLens 1M: EDRep on two sides and what else there is, from the likes alone.

    python benchmarks/recommend.py [--seeds 0 1 2]

A rating of 4 or 5 says that the user likes the film. Two ways to hold out. "a fifth": as in retrieval.py, each rating
falls to the test with probability 0.2, to the validation with 0.1. "last": of each user whose times are known (2,999 of
6,040) and who likes five films or more the last liked one, and the last but one for validation; nothing is drawn, the
seed is that of the start. Films are ranked for every user with a held-out like: all that anybody rated, but for those
that the user rated outside of the test. recall@k: the share of the held-out likes among the first k, or of k where
there are more; the mean over users. Models are fitted to the likes of the training part.

"log p": the logarithm of how often a film is liked is added to the score. EDRep: score x . y / temperature. PureSVD:
the likes, projected on the first right singular vectors. All with 32 components.
"""

from __future__ import annotations

import argparse
import lzma
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

import nearfar as nf
from _common import DATA, ResultFile, say

KEYS = ("held_out", "method", "seed")
FOLDER = DATA / "movielens-1m"
LIKED, TO_TEST, TO_VALIDATION, N_COMPONENTS = 4, 0.2, 0.1, 32
CUTS = (10, 50)
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
    """Return recall at each cut, the mean over the users who like something."""
    judged = np.flatnonzero(liked.any(axis=1))
    scores = np.where(seen[judged], -np.inf, scores[judged])
    best = np.sort(np.argpartition(-scores, max(CUTS), axis=1)[:, : max(CUTS)], axis=1)
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    ranked = np.take_along_axis(best, order, axis=1)
    hits = np.take_along_axis(liked[judged], ranked, axis=1).cumsum(axis=1)
    n_liked = liked[judged].sum(axis=1)
    found = {f"recall@{k}": round(float((hits[:, k - 1] / np.minimum(n_liked, k)).mean()), 5) for k in CUTS}
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
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", help="those whose names begin so")
    args = parser.parse_args()
    file, ratings = ResultFile("recommend", KEYS), read_ratings()
    for held_out in ("a fifth", "last"):
        for seed in args.seeds:
            split = split_of(ratings, held_out, seed)
            log_p = np.log(np.maximum(split.likes.sum(axis=0), 0.5))
            for name, make in methods(split, seed).items():
                if args.methods and not name.startswith(tuple(args.methods)):
                    continue
                plain, biased = (
                    {"held_out": held_out, "method": name + more, "seed": seed} for more in ("", " + log p")
                )
                if file.find(**plain):
                    continue
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
