"""Word2DM that goes on: more text, its own matrices, or skip-gram's vectors, against a random start.

    python benchmarks/warm_start.py [--n-words 1600000] [--trials 3]

The first articles of the Wikipedia sample, cut in two halves that share a vocabulary (min_count 8). Every start but the
last is trained on the second half; what it begins with was learned from the first. 10 x 10, 2 epochs, one thread: loss
of the last epoch, Spearman's rho on MEN, and the median entropy of all words in nats.
"""

from __future__ import annotations

import argparse
import copy
import time

import numpy as np

import nearfar as nf
from _common import DATA, ResultFile, say
from word2dm import articles

MEN = DATA / "word_similarity" / "EN-MEN-TR-3k.txt"
SIZE, N_EPOCHS = 10, 2


def halves(n_words: int) -> tuple[nf.EncodedCorpus, nf.EncodedCorpus, nf.EncodedCorpus]:
    """Return the first half of the articles, the second, and both, by one vocabulary."""
    lines = articles(n_words)
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
        began = time.perf_counter()
        fitted = made.partial_fit(corpus) if start.startswith("partial_fit") else made.fit(corpus)
        seconds = time.perf_counter() - began
        record = {
            "loss": round(float(fitted.loss_curve_[-1]), 4),
            "men": round(nf.evaluate.word_similarity(fitted.vectors_, MEN).rho, 4),
            "entropy": round(float(np.nanmedian(fitted.vectors_.entropy())), 3),
            "seconds": round(seconds, 1),
        }
        file.add({"start": start, "trial": seed, "n_words": corpus.n_tokens, **record})
        say(f"{start}, trial {seed}: {record}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-words", type=int, default=1_600_000)
    parser.add_argument("--trials", type=int, default=3)
    args = parser.parse_args()
    texts = halves(args.n_words)
    file = ResultFile("warm_start", ("start", "trial", "n_words"))
    for seed in range(args.trials):
        trial(file, texts, seed)


if __name__ == "__main__":
    main()
