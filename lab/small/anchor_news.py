"""Small tables of word vectors in a classifier of news: anchors, with WordNet and without, against an own row for each.

Texts are the 20,000 and 12,000 rows of AG News that are at hand for training, without doubles and without those that
are in the test, and all 7,600 rows of the test. Each seed draws the 10 % of training that choose settings and epoch,
start and order. Every method has as many settings, tried with the first seed; the one that does best in the validation
is trained with all seeds. The test is looked at only to be reported.

Times fewer parameters: of the table alone, V d against K d + nnz(T). ``--wordnet FOLDER`` is that of Debian's
``wordnet-base``, or the folder ``corpora/wordnet`` of nltk's data; without it the two lines with domain knowledge are
left out.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.papers.experiment import n_parameters
from lab.records import Record, average, distinct, duration, middle, on_the_same, pick, spread_of, values
from lab.small import news as of_news
from lab.small.factorisation import n_bytes

TRIAL, FINAL = "trial", "final"
UNCOMPRESSED, ANT, KNOWING = "uncompressed", "ANT", "ANT, WordNet"
TIMES = (40, 20)  # fewer parameters
AS_GOOD = 0.01  # difference of accuracies
SLOTS = {20: 16, 40: 8}  # of a row, by how many times fewer parameters there are to be
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    UNCOMPRESSED: {"lr": (0.002, 0.004), "std": (0.1, 0.3)},
    ANT: {"lr": (0.001,), "lr_t": (0.02, 0.01), "std": (0.3,), "n_anchors": (50, 20)},
    KNOWING: {"lr": (0.001,), "lr_t": (0.02, 0.01), "std": (0.3,), "n_anchors": (50,), "unrelated": (0.01, 0.3)},
}


def settings(method: str, times: int | None) -> list[of_news.Setting]:
    """Return the settings that are tried."""
    space = SPACES[method]
    found = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return [setting if times is None else {**setting, "nnz_per_row": SLOTS[times]} for setting in found]


class Bench:
    """The result file, and the texts of each seed."""

    def __init__(self, file: ResultFile, wordnet: Path, n_epochs: int) -> None:
        self.file, self.wordnet, self.n_epochs = file, wordnet, n_epochs
        self.news: Callable[[int], of_news.News] = cache(partial(of_news.numbered, *of_news.read_news()))
        self.pairs: Callable[[int], nf.nn.RelatedPairs] = cache(self._pairs)

    def _pairs(self, seed: int) -> nf.nn.RelatedPairs:
        """Return which words of a vocabulary WordNet relates."""
        names = self.news(seed).vocabulary
        return nf.nn.RelatedPairs(nf.Relation.from_wordnet(self.wordnet, names[of_news.UNKNOWN + 1 :]), names)

    def train(self, method: str, times: int | None, setting: of_news.Setting, seed: int) -> of_news.Run:
        news = self.news(seed)
        if times is None:
            return of_news.fit(news, of_news.vectors, setting, seed, self.n_epochs, of_news.Plain)
        pairs = self.pairs(seed) if method == KNOWING else None
        make = of_news.mixtures if pairs is None else partial(of_news.knowing, pairs=pairs)
        budget = len(news.counts) * of_news.N_COMPONENTS // times
        course = partial(of_news.Course, budget=budget, n_steps=of_news.steps_of(news, self.n_epochs), pairs=pairs)
        return of_news.fit(news, make, setting, seed, self.n_epochs, course)

    def measure(self, method: str, times: int | None, setting: of_news.Setting, seed: int, **key: Any) -> None:
        """Train once, unless that is there."""
        key = {"method": method, "times": times, "seed": seed, **key}
        if not self.file.wants(**key):
            return
        run, news = self.train(method, times, setting, seed), self.news(seed)
        table = run.model.table
        found: dict[str, Any] = {"validation": None}
        if run.epoch:
            found = {"validation": run.validation, "test": of_news.accuracy(run.model, news.test)}
            found |= {"n_parameters": n_parameters(table), "n_bytes": n_bytes(table), "epoch": run.epoch}
        if isinstance(table, nf.nn.AnchorEmbedding):
            found |= {"nnz": table.nnz, "price": float(table.penalty)}
        if method == KNOWING:
            found["n_pairs"] = self.pairs(seed).n_pairs
        parts = {"n_train": news.train, "n_validation": news.validation, "n_test": news.test}
        sizes = {"n_words": len(news.counts)} | {name: len(part.classes) for name, part in parts.items()}
        self.file.add({**key, "setting": setting, **found, **sizes, "cpu_seconds": run.cpu_seconds})

    def final(self, method: str, times: int | None, seed: int) -> None:
        """Train the setting that is chosen with a seed; that of its trial is there already."""
        best = chosen(self.file.records, method, times)
        key = {"part": FINAL, "trial": best and best["trial"]}
        if best and seed != best["seed"]:
            self.measure(method, times, best["setting"], seed, **key)
        elif best and self.file.wants(method=method, times=times, seed=seed, **key):
            self.file.add({**best, **key})


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    bench = Bench(file, given.wordnet, given.epochs)
    methods = (ANT, KNOWING) if given.wordnet.is_dir() else (ANT,)
    cases = [(UNCOMPRESSED, None), *((method, times) for times in TIMES for method in methods)]
    for trial, (method, times) in product(range(given.trials), cases):  # in turns
        bench.measure(method, times, settings(method, times)[trial], given.seeds[0], part=TRIAL, trial=trial)
    for seed, case in product(given.seeds, cases):
        bench.final(*case, seed)


# ---------------------------------------------------------------- the page


def chosen(records: list[Record], method: str, times: int | None) -> Record | None:
    """Return the trial that does best in the validation."""
    tried = [r for r in pick(records, part=TRIAL, method=method, times=times) if r["validation"] is not None]
    return max(tried, key=lambda r: r["validation"]) if tried else None


def finals(records: list[Record], method: str, times: int | None = None) -> list[Record]:
    """Return the runs of the setting that is chosen, one for each seed."""
    best = chosen(records, method, times)
    found = pick(records, part=FINAL, method=method, times=times, trial=best["trial"]) if best else []
    return [r for r in found if r["validation"] is not None]


def told(section: Section, records: list[Record]) -> None:
    whole = finals(records, UNCOMPRESSED)
    cases = [(method, times) for times in sorted(TIMES) for method in (ANT, KNOWING)]
    for method, times in cases:
        _as_good(section, records, method, times)
    if not records:
        return
    n_trials = len({r["trial"] for r in pick(records, part=TRIAL)})
    n_train, n_words, n_pairs = (_ends(distinct(records, name)) for name in ("n_train", "n_words", "n_pairs"))
    section.say(f"""AG News: {n_train} training texts (of 120,000), {records[0]["n_validation"]:,} validation
        texts, {records[0]["n_test"]:,} test texts, without duplicates. The network follows table 5 of the paper; 48
        filters per width and 40 words are our choice. V is {n_words}. {n_trials} settings each, tried with one
        seed. Test accuracy, mean ± standard deviation over seeds. Parameters: V d or K d + nnz(T); bytes include
        indices.""")
    section.say(f"""ANT has three phases: an epoch with a small penalty; a rising one until there are few enough
        entries; none, with zeros fixed. With WordNet ({n_pairs or "no"} pairs), anchors start as the words with the
        most relations, entries of related anchors have no penalty, and anchors shared by unrelated words have one.""")
    rows = [
        ("uncompressed", whole),
        *((f"{method}, {times} times", finals(records, method, times)) for method, times in cases),
    ]
    head = ["table", "anchors", "parameters", "times fewer", "bytes", "accuracy", "in the validation", "time"]
    section.table(head, [_row(name, mine, whole) for name, mine in rows if mine])


def _ends(found: list[int]) -> str:
    """Return the least and the largest, once if they are the same."""
    return " to ".join(f"{x:,}" for x in sorted({found[0], found[-1]})) if found else ""


def _row(name: str, mine: list[Record], whole: list[Record]) -> list[str]:
    anchors = distinct([r["setting"] for r in mine], "n_anchors")
    all_of_them, size = (average(side, "n_parameters") for side in (whole, mine))
    accuracies = [f"{spread_of([100 * x for x in values(mine, part)], 2)} %" for part in ("test", "validation")]
    sizes = [f"{size:,.0f}", f"{all_of_them / size:.1f}" if all_of_them else "–", f"{average(mine, 'n_bytes'):,.0f}"]
    return [name, str(anchors[0]) if anchors else "–", *sizes, *accuracies, duration(middle(mine, "cpu_seconds"))]


def _as_good(section: Section, records: list[Record], method: str, times: int) -> None:
    how = "with WordNet" if method == KNOWING else "without domain knowledge"
    what = f"ANT on AG News, {how}, {times} times fewer parameters: accuracy against the uncompressed table"
    target = section.target(what, "within 1 point")
    ours, theirs = on_the_same("seed", finals(records, method, times), finals(records, UNCOMPRESSED))
    if ours:
        a, b = (average(side, "test") for side in (ours, theirs))
        sizes = {r["seed"]: r["n_parameters"] for r in theirs}
        least = min(sizes[r["seed"]] / r["n_parameters"] for r in ours)
        said = (
            f"{100 * a:.2f} against {100 * b:.2f} % ({100 * (a - b):+.2f}), {least:.1f} times fewer, {len(ours)} seeds"
        )
        target.tell(said, b - a <= AS_GOOD and least >= times)


EXPERIMENT = Experiment("Compressed tables in a news classifier", run, "part method times trial seed", "ag_news").takes(
    wordnet=Path("/usr/share/wordnet"), seeds=(0, 1, 2), trials=4, epochs=3
)
