"""Recommendation from likes, MovieLens 1M: EDRep on two sides and what else there is, from the likes alone.

Run it with OPENBLAS_NUM_THREADS=1. A rating of 4 or 5 says that the user likes the film. Two ways to hold out. "a
fifth": each rating falls to the test with probability 0.2, to the validation with 0.1. "last": of each user whose times
are known (2,999 of 6,040) and who likes five films or more the last liked one, and the last but one for validation;
nothing is drawn, the seed is that of the start. Films are ranked for every user with a held-out like: all that anybody
rated, but for those that the user rated outside of the test. Models are fitted to the likes of the training part.

"log p": the logarithm of how often a film is liked is added to the score. EDRep: score x . y / temperature, of the task
with ln w. PureSVD: the likes, projected on the first right singular vectors. Towers: a vector of length 1 for each user
and each film, from a table or, of the films, from ANT's anchors, trained by nn.in_batch_nce with the log-q correction,
score cosine / temperature. ALS and BPR are those of implicit 0.7, LightFM with the WARP loss. All with 32 components
but EASE, a linear model of all pairs of films. ALS is the best of six settings in the validation of the first seed
(``--tune`` tries them), EASE of three; the others have one, which was not searched for. ``--methods`` takes those whose
names begin so. A new peer is a function in ``lab/peers`` and a line in ``methods``.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse.linalg import svds

import nearfar as nf
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.items.data import FOLDER, Mask, Ratings, Scores, Split, a_fifth, read_ratings, recalls, split_of
from lab.measure import cpu_timed, say
from lab.papers.ratings import read_rows
from lab.peers import elsewhere
from lab.records import Record, groups

N_COMPONENTS = 32
BY_TASK = 'EDRep(task="items")'
N_EPOCHS, BATCH_SIZE, LEARNING_RATE, N_ANCHORS = 4, 512, 0.01, 200
# What --tune tries; of each the first is the one that was best in the validation of the first seed, and is used.
SETTINGS: dict[str, list[dict[str, float]]] = {
    "towers": [{"temperature": 0.15}],
    "ANT towers": [{"temperature": 0.15}],
    "ALS (implicit)": [{"alpha": a, "regularization": r} for a in (5, 1) for r in (0.01, 1.0, 10.0)],
    "BPR (implicit)": [{"learning_rate": 0.05, "regularization": 0.01}],
    "EASE": [{"penalty": penalty} for penalty in (500.0, 250.0, 1000.0)],
}


def read_times(ratings: Ratings) -> NDArray[np.int64]:
    """Return when each rating was given; -1 where it is not known."""
    timed = read_rows(FOLDER / "ratings_timestamps_users_1-2999.tsv.xz")
    known = dict(zip(zip(*timed[:, :2].T.tolist(), strict=True), timed[:, 3].tolist(), strict=True))
    pairs = zip(ratings.user_ids[ratings.users].tolist(), ratings.item_ids[ratings.items].tolist(), strict=True)
    return np.array([known.get(pair, -1) for pair in pairs])


def last_likes(ratings: Ratings, moments: NDArray[np.int64]) -> tuple[Mask, Mask]:
    """Return the masks of the last like of each user, and of the last but one; ties by position in the file."""
    eligible = np.flatnonzero(ratings.liked & (moments >= 0))
    order = eligible[np.lexsort((moments[eligible], ratings.users[eligible]))]
    users = ratings.users[order]
    last = np.append(users[1:] != users[:-1], True)
    enough = np.bincount(users, minlength=len(ratings.user_ids))[users] >= 5
    masks = np.zeros((2, len(ratings.users)), dtype=bool)
    masks[0, order[last & enough]] = True
    masks[1, order[np.flatnonzero(last & enough) - 1]] = True
    return masks[0], masks[1]


def edrep(likes: nf.Relation, seed: int, **parameters: Any) -> tuple[Scores, NDArray[np.float32]]:
    """Return the scores of a fit, and the vectors of the users."""
    model = nf.EDRep(N_COMPONENTS, random_state=seed, n_jobs=1, **parameters).fit(likes.normalized())
    return model.embedding_ @ model.context_embedding_.T / model.temperature, model.embedding_


def by_task(likes: nf.Relation, seed: int) -> tuple[Scores, None]:
    """Return the scores of the plain call of the task, base measure included."""
    model = nf.EDRep(task="items", random_state=seed, n_jobs=1).fit(likes)
    with np.errstate(divide="ignore"):
        log_w = np.log(model.base_measure_)
    scores = model.embedding_ @ model.context_embedding_.T / model.vectors_.parameters["temperature"]
    return scores + log_w.astype(np.float32), None


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


def ease(matrix: Any, penalty: float) -> tuple[Scores, None]:
    """EASE (Steck 2019), eq. (8): the closed form of a linear model of items whose weights have no diagonal."""
    gram = np.asarray((matrix.T @ matrix).todense(), np.float64)
    inverse = np.linalg.inv(gram + penalty * np.eye(len(gram)))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return np.asarray(matrix @ weights, np.float32), None


def others(name: str, split: Split, seed: int, setting: dict[str, float]) -> tuple[Scores, None]:
    """Return the scores of one of those that have settings."""
    if name.endswith("towers"):
        return towers(split, seed, setting["temperature"], N_ANCHORS if name.startswith("ANT") else 0)
    if name == "EASE":
        return ease(csr_array(split.likes.astype(np.float32)), **setting)
    return from_implicit(name[:3].lower(), csr_matrix(split.likes.astype(np.float32)), seed, **setting)


def lightfm(split: Split, seed: int) -> tuple[tuple[Scores, None], float]:
    """Return the scores, and the processor seconds that it tells itself."""
    users, items = split.likes.nonzero()
    given = {"users": users, "items": items, "shape": split.likes.shape, "d": N_COMPONENTS}
    scores, seconds = elsewhere.run("lightfm", **given, seed=seed)
    return (scores, None), seconds


def methods(split: Split, seed: int) -> dict[str, Any]:
    """Return, by name, what gives scores and the vectors of the users, with its processor seconds."""
    matrix = csr_array(split.likes.astype(np.float32))
    likes = nf.Relation.from_matrix(matrix, column_ids=range(matrix.shape[1]))
    popularity = likes.column_sums
    start = np.random.default_rng(seed).normal(size=min(matrix.shape))

    def pure_svd() -> tuple[Scores, None]:
        right = svds(matrix.astype(np.float64), N_COMPONENTS, v0=start)[2]
        return matrix @ right.T @ right, None

    cold = {"temperature": 0.1}
    here = {
        "popularity": lambda: (np.tile(popularity, (matrix.shape[0], 1)), None),
        "PureSVD": pure_svd,
        "SkipGram": lambda: skipgram(likes, seed),
        BY_TASK: lambda: by_task(likes, seed),
        "EDRep, defaults": lambda: edrep(likes, seed),
        "EDRep, temperature 0.1": lambda: edrep(likes, seed, **cold),
        "EDRep, p0 = popularity": lambda: edrep(likes, seed, p0=popularity),
        "EDRep, temperature 0.2, p0 = popularity": lambda: edrep(likes, seed, temperature=0.2, p0=popularity),
        "EDRep, temperature 0.1, p0 = popularity": lambda: edrep(likes, seed, **cold, p0=popularity),
        **{name: lambda name=name: others(name, split, seed, SETTINGS[name][0]) for name in SETTINGS},
    }
    return {name: partial(cpu_timed, make) for name, make in here.items()} | {"LightFM": lambda: lightfm(split, seed)}


def tune(split: Split, names: list[str]) -> None:
    """Print the recall in the validation of the first seed for all settings."""
    for name, settings in SETTINGS.items():
        for setting in settings if name.startswith(tuple(names)) else []:
            (scores, _), seconds = cpu_timed(others, name, split, 0, setting)
            say(f"{name} {setting}: {recalls(scores, *split.parts['validation'])} {seconds:.1f} s")


def run(file: ResultFile, given: Namespace) -> None:
    ratings = read_ratings()
    last = split_of(ratings, *last_likes(ratings, read_times(ratings)))
    for held_out, seed in product(given.held_out, given.seeds):
        split = last if held_out == "last" else a_fifth(ratings, seed)
        if given.tune:
            tune(split, given.methods)
            return
        log_p = np.log(np.maximum(split.likes.sum(axis=0), 0.5))
        for name, make in methods(split, seed).items():
            if name.startswith(tuple(given.methods)) and (key := file.new(held_out, name, seed)):
                (scores, users), seconds = make()
                facts: dict[str, Any] = {"cpu_seconds": seconds}
                if users is not None:
                    wide = users.astype(np.float64)
                    mean = wide.mean(axis=0) / np.sqrt((wide**2).sum(axis=1).mean())
                    facts["mean_cosine"] = float(mean @ mean)
                rankings = {"": scores} if users is None else {"": scores, " + log p": scores + log_p}
                for more, ranking in rankings.items():
                    judged = {part: recalls(ranking, *split.parts[part]) for part in split.parts}
                    file.add({**key, "method": name + more, **facts, **judged})


def told(section: Section, records: list[Record]) -> None:
    """Ratings of 4 and 5 are likes; 32 components, the task takes 128. A fifth: 20 % of all ratings held out. Last: the
    last like of each of 2,999 users. Ranked is every film that the user has not rated outside the test. *+ log p*: the
    logarithm of how often a film is liked is added. Cosine: mean between users. Films: distinct ones among the first 10
    of all users. Towers: a vector for each user and film, in-batch NCE with log q; ANT: 200 anchors. ALS is the best of
    six settings by the validation; towers, ANT and BPR were not tuned.
    """
    flat = []  # what is told of a test, by what was held out for it
    for r in records:
        seen = {**r["test"], "cosine": r.get("mean_cosine")}
        flat.append({"method": r["method"], **{f"{r['held_out']}, {name}": value for name, value in seen.items()}})
    section.rows(
        "ranked by | a fifth: recall@10 | recall@50 | last: recall@10 | last: recall@50 | last: NDCG@10 | cosine"
        " | films",
        "{method} | {a fifth, recall@10:±} | {a fifth, recall@50:±} | {last, recall@10:±} | {last, recall@50:±}"
        " | {last, ndcg@10:±} | {a fifth, cosine:±} | {a fifth, n_films:,.0f}",
        groups(flat, "method"),
        "recommend",
    )


EXPERIMENT = Experiment("Recommendation from likes on MovieLens 1M", run, "held_out method seed", "movielens-1m").takes(
    seeds=(0, 1, 2),
    methods=Choice(("",), ("", "popularity", "PureSVD", "SkipGram", "EDRep", *SETTINGS, "LightFM")),
    held_out=("a fifth", "last"),
    tune=False,
)
