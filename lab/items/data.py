"""MovieLens 1M: ratings, films, what is held out, and how a ranking is judged."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.data import DATA
from lab.papers import ratings

FOLDER = DATA / "movielens-1m"
LIKED, TO_TEST, TO_VALIDATION, N_COMPONENTS = 4, 0.2, 0.1, 32
Mask = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ratings:
    """All ratings by numbers of users and films, and the ids of both."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    marks: NDArray[np.int64]
    user_ids: NDArray[np.int64]
    item_ids: NDArray[np.int64]

    @property
    def liked(self) -> Mask:
        return self.marks >= LIKED

    def matrix(self, which: Mask) -> Mask:
        """Return users x films: where there is one of these ratings."""
        dense = np.zeros((len(self.user_ids), len(self.item_ids)), dtype=bool)
        dense[self.users[which], self.items[which]] = True
        return dense


@dataclass(frozen=True)
class Split:
    """What to train on, users x films, and of each part (what is liked in it, what is not to be ranked)."""

    likes: Mask
    parts: dict[str, tuple[Mask, Mask]]


def read_ratings(name: str = "MovieLens 1M") -> Ratings:
    if name == "MovieLens 1M":
        return Ratings(*ratings.read_ratings(FOLDER))
    with lzma.open(DATA / "movielens-100k" / "u.data.xz", "rt") as file:
        return Ratings(*ratings.numbered(np.loadtxt(file, dtype=np.int64)))


def split_of(ratings: Ratings, test: Mask, validation: Mask) -> Split:
    train = ~(test | validation)
    parts = {
        "validation": (ratings.matrix(validation & ratings.liked), ratings.matrix(train)),
        "test": (ratings.matrix(test & ratings.liked), ratings.matrix(~test)),
    }
    return Split(ratings.matrix(train & ratings.liked), parts)


def a_fifth(ratings: Ratings, seed: int) -> Split:
    """Hold out each rating for the test with probability 0.2, for the validation with 0.1."""
    where = np.random.default_rng(seed).random(len(ratings.users))
    return split_of(ratings, where < TO_TEST, (where >= TO_TEST) & (where < TO_TEST + TO_VALIDATION))


def recalls(scores: Scores, liked: Mask, seen: Mask, cuts: Sequence[int] = (10, 50)) -> dict[str, float]:
    """Return recall and NDCG at each cut, the mean over the users who like something.

    recall@k: the share of the held-out likes among the first k, or of k where there are more.
    """
    judged = np.flatnonzero(liked.any(axis=1))
    scores = np.where(seen[judged], -np.inf, scores[judged])
    best = np.sort(np.argpartition(-scores, max(cuts), axis=1)[:, : max(cuts)], axis=1)
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    ranked = np.take_along_axis(best, order, axis=1)
    hits = np.take_along_axis(liked[judged], ranked, axis=1).cumsum(axis=1)
    n_liked = liked[judged].sum(axis=1)
    found = {f"recall@{k}": float((hits[:, k - 1] / np.minimum(n_liked, k)).mean()) for k in cuts}
    weights = 1 / np.log2(np.arange(2, max(cuts) + 2))
    gains = (np.diff(hits, axis=1, prepend=0) * weights).cumsum(axis=1)
    most = weights.cumsum()
    for k in cuts:
        found[f"ndcg@{k}"] = float((gains[:, k - 1] / most[np.minimum(n_liked, k) - 1]).mean())
    return found | {"n_users": len(judged), "n_films": len(np.unique(ranked[:, :10]))}
