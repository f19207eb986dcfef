"""The learning rate of skip-gram by the size of the text and the epochs, beside gensim and fastText.

SkipGram at fixed rates and at its own, one thread: Python's documentation (``pydoc_data.topics``), the first one, five
and all 17 million words of the Wikipedia sample, one to five epochs. All else is at its default. Each record has
Spearman's rho on every set of word similarity and how many of its pairs the text knows; a mean is one over the sets of
which it knows at least 20 pairs. Of Wikipedia, the share of the Google analogies that are solved, too (3CosAdd).
"""

from __future__ import annotations

import pydoc_data.topics
from argparse import Namespace
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import ANALOGIES, DATA, WIKI, articles
from lab.experiment import Choice, Experiment, ResultFile
from lab.measure import cpu_timed

SETS = {path.stem.removeprefix("EN-"): path for path in sorted((DATA / "word_similarity").glob("EN-*.txt"))}
TEXTS = ("python", "1M", "5M", "17M")
MIN_COUNT, ENOUGH = 5, 20
RATES, EPOCHS = ("0.025", "0.05", "0.1", "0.2", "auto"), (1, 2, 3, 5)


@cache
def text(name: str) -> nf.EncodedCorpus:
    """Return an encoded text by its name."""
    lines: Iterable[str] | Path
    if name == "python":
        lines = pydoc_data.topics.topics.values()
    else:
        lines = WIKI if name == "17M" else articles(1_000_000 * int(name[:-1]))
    return nf.Corpus(lines, lowercase=True).encode(min_count=MIN_COUNT)


def quality(vectors: nf.Embedding, analogies: bool) -> dict[str, Any]:
    """Return rho and the pairs that are known of each set, their mean, and the analogies solved."""
    found = {name: nf.evaluate.word_similarity(vectors, path, n_bootstrap=1) for name, path in SETS.items()}
    known = {name: one for name, one in found.items() if one.n_covered >= ENOUGH}
    record: dict[str, Any] = {name: float(one.rho) for name, one in known.items()}
    record["mean"] = sum(record.values()) / len(record)
    record["covered"] = {name: one.n_covered for name, one in found.items()}
    if analogies:
        record["analogies"] = nf.evaluate.word_analogies(vectors, ANALOGIES).accuracy
    return record


def fit(encoded: nf.EncodedCorpus, n_epochs: int, rate: Any, seed: int) -> nf.SkipGram:
    return nf.SkipGram(learning_rate=rate, n_epochs=n_epochs, random_state=seed, n_jobs=1).fit(encoded)


def run(file: ResultFile, given: Namespace) -> None:
    for seed, name, n_epochs, rate in product(given.seed, given.texts, given.epochs, given.rates):
        if key := file.new("nearfar", name, n_epochs, rate if rate == "auto" else float(rate), seed):
            model, seconds = cpu_timed(fit, text(name), n_epochs, key["rate"], seed)
            chosen = {"seconds": seconds, "chosen": model.learning_rate_}
            file.add({**key, **chosen, **quality(model.vectors_, name == "17M")})


EXPERIMENT = Experiment(
    "The learning rate by the size of the text",
    ("method", "text", "n_epochs", "rate", "seed"),
    run,
    {"texts": Choice(TEXTS, TEXTS), "epochs": EPOCHS, "rates": Choice(RATES, ()), "seed": (0, 1, 2)},
    ("wiki_text8_style", "word_similarity", "word_analogy"),
)
