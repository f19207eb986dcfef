"""Small tables of word vectors in a classifier of news: anchors, with WordNet and without, against an own row for each.

    python benchmarks/anchor_news.py [--wordnet /usr/share/wordnet] [--trials 4] [--seeds 0 1 2] [--epochs 3]

Texts are the 20,000 and 12,000 rows of AG News that are at hand for training, without doubles and without those that
are in the test, and all 7,600 rows of the test. Each seed draws the 10 % of training that choose settings and epoch,
start and order. Every method has as many settings, tried with the first seed; the one that does best in the validation
is trained with all seeds. The test is looked at only to be reported.

Times fewer parameters: of the table alone, V d against K d + nnz(T). WordNet is Debian's ``wordnet-base``, or the
folder ``corpora/wordnet`` of nltk's data; without it the two lines with domain knowledge are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

import nearfar as nf
from _anchor_movielens import n_bytes, n_parameters
from _anchor_news import UNKNOWN, News, numbered, read_news
from _anchor_news_network import (
    N_COMPONENTS,
    Course,
    Plain,
    Run,
    Setting,
    accuracy,
    fit,
    knowing,
    mixtures,
    steps_of,
    vectors,
)
from _anchor_news_section import ANT, FINAL, KEYS, KNOWING, TIMES, TRIAL, UNCOMPRESSED, chosen
from _common import ResultFile, say

SLOTS = {20: 16, 40: 8}  # of a row, by how many times fewer parameters there are to be
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    UNCOMPRESSED: {"lr": (0.002, 0.004), "std": (0.1, 0.3)},
    ANT: {"lr": (0.001,), "lr_t": (0.02, 0.01), "std": (0.3,), "n_anchors": (50, 20)},
    KNOWING: {"lr": (0.001,), "lr_t": (0.02, 0.01), "std": (0.3,), "n_anchors": (50,), "unrelated": (0.01, 0.3)},
}


def settings(method: str, times: int | None) -> list[Setting]:
    """Return the settings that are tried."""
    space = SPACES[method]
    found = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return [setting if times is None else {**setting, "nnz_per_row": SLOTS[times]} for setting in found]


class Bench:
    """The result file, and the texts of each seed."""

    def __init__(self, wordnet: Path, n_epochs: int) -> None:
        self.file, self.wordnet, self.n_epochs = ResultFile("anchor_news", KEYS), wordnet, n_epochs
        self.rows = read_news()
        self.news: Callable[[int], News] = cache(partial(numbered, *self.rows))
        self.pairs: Callable[[int], nf.nn.RelatedPairs] = cache(self._pairs)

    def _pairs(self, seed: int) -> nf.nn.RelatedPairs:
        """Return which words of a vocabulary WordNet relates."""
        names = self.news(seed).vocabulary
        return nf.nn.RelatedPairs(nf.Relation.from_wordnet(self.wordnet, names[UNKNOWN + 1 :]), names)

    def train(self, method: str, times: int | None, setting: Setting, seed: int) -> Run:
        news = self.news(seed)
        if times is None:
            return fit(news, vectors, setting, seed, self.n_epochs, Plain)
        budget = len(news.counts) * N_COMPONENTS // times
        if method == ANT:
            course = partial(Course, budget=budget, n_steps=steps_of(news, self.n_epochs))
            return fit(news, mixtures, setting, seed, self.n_epochs, course)
        pairs = self.pairs(seed)
        course = partial(Course, budget=budget, n_steps=steps_of(news, self.n_epochs), pairs=pairs)
        return fit(news, partial(knowing, pairs=pairs), setting, seed, self.n_epochs, course)

    def measure(self, method: str, times: int | None, setting: Setting, seed: int, **key: Any) -> None:
        """Train once, unless that is there."""
        key = {"method": method, "times": times, "seed": seed, **key}
        if self.file.find(**key):
            return
        run, news = self.train(method, times, setting, seed), self.news(seed)
        table = run.model.table
        found: dict[str, Any] = {"validation": None}
        if run.epoch:
            found = {"validation": round(run.validation, 5), "test": round(accuracy(run.model, news.test), 5)}
            found |= {"n_parameters": n_parameters(table), "n_bytes": n_bytes(table), "epoch": run.epoch}
        if isinstance(table, nf.nn.AnchorEmbedding):
            found |= {"nnz": table.nnz, "price": float(f"{table.penalty:.3g}")}
        if method == KNOWING:
            found["n_pairs"] = self.pairs(seed).n_pairs
        parts = {"n_train": news.train, "n_validation": news.validation, "n_test": news.test}
        sizes = {"n_words": len(news.counts)} | {name: len(part.classes) for name, part in parts.items()}
        self.file.add({**key, "setting": setting, **found, **sizes, "cpu_seconds": round(run.cpu_seconds, 1)})
        told = ", ".join(f"{name} {value}" for name, value in (key | found).items())
        say(f"{told}, {run.cpu_seconds:.0f} s; {setting}")

    def final(self, method: str, times: int | None, seed: int) -> None:
        """Train the setting that is chosen with a seed; that of its trial is there already."""
        best = chosen(self.file.records, method, times)
        if best is None:
            return
        key = {"part": FINAL, "trial": best["trial"]}
        if seed != best["seed"]:
            self.measure(method, times, best["setting"], seed, **key)
        elif not self.file.find(method=method, times=times, seed=seed, **key):
            self.file.add({**best, **key})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), metavar="FOLDER")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--trials", type=int, choices=range(1, 5), default=4, help="settings that are tried")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(args.wordnet, args.epochs)
    methods = (ANT, KNOWING) if args.wordnet.is_dir() else (ANT,)
    cases = [(UNCOMPRESSED, None), *((method, times) for times in TIMES for method in methods)]
    for trial in range(args.trials):  # in turns
        for method, times in cases:
            setting = settings(method, times)[trial]
            bench.measure(method, times, setting, args.seeds[0], part=TRIAL, trial=trial)
    for seed in args.seeds:
        for method, times in cases:
            bench.final(method, times, seed)


if __name__ == "__main__":
    main()
