"""Experiments of the sources whose data are not here: they run where ``--data FOLDER`` has them."""

from __future__ import annotations

import csv
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.papers.experiment import DataFile, Experiment, Findings, Setting, Table, one_torch_thread
from lab.peers.random_features import RFA, Performer

from .approximation import median_errors

if TYPE_CHECKING:
    from lab.papers.ratings import Films

ANY = (-np.inf, np.inf)  # no earlier run says where a figure should be

SETS = {0: (163_473, 300), 7: (273_930, 300), 16: (292_967, 300), 30: (45_742, 100), 187: (192_415, 300)}
SETS |= {224: (99_884, 200)}
"""Vectors of the NLPL repository by their id: how many, and of what length."""


def _of_nlpl(number: int) -> DataFile:
    n, d = SETS[number]
    what = f"model.txt of the set {number} of vectors.nlpl.eu/repository, in word2vec's text format"
    return DataFile(f"nlpl/{number}/model.txt", "", what, f"{n} {d}")


def read_vectors(setting: Setting, path: str) -> NDArray[np.float32]:
    """Return the vectors of a file in word2vec's text format."""
    with setting.open(path) as file:
        n, d = map(int, file.readline().split())
        found = np.empty((n, d), np.float32)
        for row, line in zip(found, file, strict=False):
            row[:] = line.rstrip().rsplit(" ", d)[1:]
    return found


def normalisers(lines: Table, name: str, vectors: NDArray[Any], n_rows: int, draws: range) -> None:
    """Add the errors of Z of a set of vectors: of mixtures, and of random features with D = 1,000."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    for scaling, scale in (("mean norm 1", norms.mean()), ("unit rows", np.where(norms > 0, norms, 1))):
        X = np.ascontiguousarray(vectors / scale, dtype=np.float32)
        ways: dict[str, dict[str, Any]] = {f"mixture of {k}": {"n_clusters": k} for k in (1, 2, 5)}
        ways |= {"Performer, D = 1,000": {"method": Performer(1000)}, "RFA, D = 1,000": {"method": RFA(1000)}}
        for way, errors in median_errors(X, n_rows, draws, ways).items():
            lines.add(f"{name}, {scaling}: {way}, median relative error of Z", errors, ANY)


def _nlpl(setting: Setting) -> Findings:
    """Vectors of six sets, mean norm 1 and unit rows, 1,000 rows exactly, ten draws of random features.

    Differs: Not run: the data are not here.
    """
    lines = Table()
    for number in SETS:
        vectors = read_vectors(setting, _of_nlpl(number).path)
        normalisers(lines, f"NLPL {number}", vectors, setting.pick(1000, 100), range(setting.pick(10, 2)))
    return Findings(lines)


_RATINGS = DataFile("ml-25m/ratings.csv", "", "ratings.csv of MovieLens 25M (grouplens.org)", "userId,movieId,rating,")
_FILMS = DataFile("ml-25m/movies.csv", "", "movies.csv of MovieLens 25M (grouplens.org)", "movieId,title,genres")


def read_films(setting: Setting) -> Films:
    """Read the ratings and the genres of MovieLens 25M."""
    import torch

    from lab.papers.ratings import Films, Ratings

    with setting.open(_RATINGS.path) as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(0, 1, 2), dtype=np.float64)
    (user_ids, users), (item_ids, items) = (
        np.unique(table[:, side].astype(np.int64), return_inverse=True) for side in (0, 1)
    )
    with setting.open(_FILMS.path) as file:
        genres = {int(row[0]): row[2].split("|") for row in list(csv.reader(file))[1:]}
    marks = torch.from_numpy(table[:, 2]).float()
    ratings = Ratings(torch.from_numpy(users), torch.from_numpy(items), marks)
    return Films(ratings, len(user_ids), len(item_ids), [genres[item] for item in item_ids.tolist()])


def _movielens_25m(setting: Setting) -> Findings:
    """MovieLens 25M as MovieLens 1M: vectors of 16 numbers, 50 epochs, ANT at a quarter and a half of the plain table,
    NBANT.

    Differs: Not run: the data are not here.
    """
    from lab.papers.ratings import fitted_ratings

    films = read_films(setting)
    n_epochs = setting.pick(50, 8)
    plain = 16 * (films.n_users + films.n_items)
    lines = Table()
    with one_torch_thread():
        for name, budget in (("plain", plain), ("ANT", plain // 4), ("ANT", plain // 2), ("NBANT", plain)):
            found = [fitted_ratings(name, films, seed, n_epochs, budget) for seed in range(setting.pick(3, 1))]
            what = name if name != "ANT" else f"ANT, at most {budget:,} parameters"
            lines.add(f"{what}: MSE in the test", [one.error for one in found], ANY)
            lines.add(f"{what}: parameters", [one.model.n_parameters for one in found], ANY)
    return Findings(lines)


_WIKITEXT = tuple(
    DataFile(f"wikitext-103/wiki.{part}.tokens", "", f"wiki.{part}.tokens of WikiText-103", " ")
    for part in ("train", "test")
)


def _wikitext(setting: Setting) -> Findings:
    """The LSTM of the Penn Treebank on WikiText-103, vectors of 400 numbers; ANT at a 16th and an 80th of them.

    Differs: Not run: the data are not here. The paper trains an AWD-LSTM of four layers.
    """
    from .anchors import train_language
    from .language import streams_of

    texts = []
    for part in _WIKITEXT:
        with setting.open(part.path) as file:
            texts.append(file.read().replace("\n", " <eos> ").split())
    (streams, n), d = streams_of(texts), setting.pick(400, 16)
    fit = partial(train_language, streams, n, d, setting=setting)
    lines = Table()
    with one_torch_thread():
        for times in setting.pick((None, 16, 80), (None, 16)):
            perplexity, size = fit(None if times is None else n * d // times)
            name = "plain table" if times is None else f"ANT, {times} times fewer"
            lines.add(f"{name}: perplexity in the test", perplexity, ANY)
            lines.add(f"{name}: parameters", size, ANY)
    return Findings(lines)


OF_EDREP = (
    Experiment(
        "edrep-figure-1-nlpl",
        "L. Dall'Amico and E. Belliardo, EDRep (arXiv 2303.17475 v3)",
        "figure 1, the sets of the paper",
        _nlpl,
        tuple(map(_of_nlpl, SETS)),
        here=False,
    ),
)
OF_ANCHORS = (
    Experiment(
        "ant-movielens-25m",
        "P. P. Liang and others, Anchor & Transform (ICLR 2021)",
        "table 3",
        _movielens_25m,
        (_RATINGS, _FILMS),
        here=False,
    ),
    Experiment(
        "ant-wikitext-103",
        "P. P. Liang and others, Anchor & Transform (ICLR 2021)",
        "table 12",
        _wikitext,
        _WIKITEXT,
        here=False,
    ),
)
