"""Word2DM that goes on: more text, its own matrices, or skip-gram's vectors, against a random start.

The first articles of the Wikipedia sample, cut in two halves that share a vocabulary (min_count 8). Every start but the
last is trained on the second half; what it begins with was learned from the first. 10 x 10, 2 epochs, one thread: loss
of the last epoch, Spearman's rho on MEN, and the median entropy of all words in nats.
"""

from __future__ import annotations

import copy
from argparse import Namespace

import numpy as np

import nearfar as nf
from lab.data import MEN, articles
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.records import Record, groups

SIZE, N_EPOCHS = 10, 2


def halves(n_words: int) -> tuple[nf.EncodedCorpus, nf.EncodedCorpus, nf.EncodedCorpus]:
    """Return the first half of the articles, the second, and both, by one vocabulary."""
    lines = list(articles(n_words))
    vocabulary = nf.Corpus(lines).vocabulary(min_count=8)
    middle = len(lines) // 2
    first, second, both = (
        nf.Corpus(part).encode(vocabulary=vocabulary) for part in (lines[:middle], lines[middle:], lines)
    )
    return first, second, both


def trial(file: ResultFile, texts: tuple[nf.EncodedCorpus, nf.EncodedCorpus, nf.EncodedCorpus], seed: int) -> None:
    first, second, both = texts

    def model(init: nf.Embedding | None = None) -> nf.Word2DM:
        return nf.Word2DM(SIZE, SIZE, init=init, n_epochs=N_EPOCHS, random_state=seed, n_jobs=1)

    before = model().fit(first)
    vectors = nf.SkipGram(SIZE, n_epochs=4, random_state=seed, n_jobs=1).fit(first).vectors_
    for start, made, corpus in (
        ("random", model(), second),
        ("matrices of the first half", model(before.vectors_), second),
        ("partial_fit after the first half", copy.deepcopy(before), second),
        ("skip-gram vectors of the first half", model(vectors), second),
        ("random, both halves", model(), both),
    ):
        fit = made.partial_fit if start.startswith("partial_fit") else made.fit
        fitted, seconds = timed(fit, corpus)
        record = {
            "loss": float(fitted.loss_curve_[-1]),
            "men": nf.evaluate.word_similarity(fitted.vectors_, MEN).rho,
            "entropy": float(np.nanmedian(fitted.vectors_.entropy())),
            "seconds": seconds,
        }
        file.add({"start": start, "trial": seed, "n_words": corpus.n_tokens, **record})


def run(file: ResultFile, given: Namespace) -> None:
    texts = halves(given.n_words)
    for seed in range(given.trials):
        if file.wants(trial=seed, n_words=texts[2].n_tokens):
            trial(file, texts, seed)


def told(section: Section, records: list[Record]) -> None:
    """Word2DM 10 x 10, 2 epochs on the second half of a text, started in several ways from the first half. Means over
    trials; Spearman's rho on MEN.
    """
    row = "{start} | {trial:count} | {loss:.4f} | {entropy:.2f} | {men:±sd}"
    section.rows("start | trials | loss | median entropy | MEN", row, groups(records, "start"))


EXPERIMENT = Experiment("Warm starts of Word2DM", run, "start trial n_words", "wiki_text8_style word_similarity").takes(
    n_words=1_600_000, trials=3
)
