"""Words made of parts beside fastText: all pairs of the rare words of Luong, Socher & Manning (2013).

The first 2 million words of the Wikipedia sample, two epochs, d = 100, window 5, 5 noise words, words that come 5
times, sample 1e-3, one thread, processor seconds with reading. Most of the 2,034 pairs have a word that the text has
not, which is made of its n-grams or byte pairs; without subwords it has cosine 0 with all. Each seed has the articles
in an order of its own, the same for all programs. fastText at its default rate of .05, and once at .1; nearfar at its
own. It was tuned on other articles (words 5 to 7 million) and every other pair; how much a word's own part weighs, on
other articles alone, by words held out of them: cosines of vectors made of parts against those of the words in all of
the text. The three other sets were looked at, too.
"""

from __future__ import annotations

from argparse import Namespace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import DATA, SIMILARITY, articles, text_file
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.peers import elsewhere
from lab.records import Record, average, groups, half_interval, pick, ratio, values
from lab.words import words_strongest

D, N_WORDS, N_EPOCHS, MIN_COUNT = 100, 2_000_000, 2, 5  # as in words_strongest
SETS = {"rare": DATA / "word_similarity" / "EN-RW-STANFORD.txt", **SIMILARITY}
METHODS: dict[str, Any] = {
    "nearfar, n-grams": "ngrams",
    "fastText": 0.05,
    "nearfar, byte pairs": "bpe",
    "nearfar, words alone": None,
    "fastText, rate .1": 0.1,
}
FASTER = 3.0


@cache
def asked() -> list[str]:
    """Return all words of all sets."""
    lines = [line.split() for path in SETS.values() for line in path.read_text().splitlines()]
    return sorted({word.lower() for line in lines for word in line[:2]})


def fit(method: str, path: Path, seed: int) -> tuple[nf.Embedding, float]:
    """Return the vectors of the words that are asked for, and processor seconds."""
    if method.startswith("fastText"):
        return words_strongest.fit("fastText", path, METHODS[method], seed, asked=np.array(asked()))
    how: Any = {"n_epochs": N_EPOCHS, "min_count": MIN_COUNT, "random_state": seed, "subwords": METHODS[method]}
    vectors, seconds = cpu_timed(lambda: nf.SkipGram(D, n_jobs=1, **how).fit(path).vectors_)
    nothing = np.zeros(D, np.float32)
    return nf.Embedding(np.stack([vectors.get(word, nothing) for word in asked()]), asked()), seconds


def run(file: ResultFile, given: Namespace) -> None:
    nf.SkipGram(D, n_epochs=1, sample=0, subwords=True).fit([["some", "words"]] * 9)  # compiles
    lines = [article.strip() for article in articles(N_WORDS)]
    for seed, method in product(range(given.seeds), given.methods):
        if not (method == "fastText, rate .1" and seed) and (key := file.new(method, seed)):
            order = np.random.default_rng(seed).permutation(len(lines)).tolist()
            with text_file("\n".join(lines[k] for k in order)) as path:
                vectors, seconds = fit(method, path, seed)
            record: dict[str, Any] = {"seconds": seconds}
            for name, pairs in SETS.items():
                found = nf.evaluate.word_similarity(vectors, pairs)
                record |= {name: found.rho, f"{name}_interval": found.interval}
            version = {"version": elsewhere.version("fasttext")} if method.startswith("fastText") else {}
            file.add({**key, **record, **version})


def told(section: Section, records: list[Record]) -> None:
    """Skip-gram of 100 components on 2 million words, two epochs, one thread, reading included. All pairs count:
    unknown words are made of their parts, or have cosine 0. Spearman's rho, over orders of the articles.
    """
    ours, theirs = (pick(records, method=method) for method in ("nearfar, n-grams", "fastText"))
    target = section.target("rare words, all pairs", "≥ fastText's rho")
    faster = section.target("words made of n-grams, one thread", f"≥ {FASTER:.0f} times fastText")
    if ours and theirs:
        mine, other = (average(of, "rare") or 0 for of in (ours, theirs))
        target.tell(f"{mine:.3f} against {other:.3f}", mine >= other)
        faster.tell(f"{ratio(ours, theirs):.1f} times", ratio(ours, theirs) >= FASTER)
    rows = []
    for method, of in groups(records, "method"):
        cells = [f"{average(of, name):.3f}" for name in SETS]
        if len(of) > 1:
            cells[0] += f" ± {half_interval(values(of, 'rare')):.3f}"
        rows.append([method, len(of), *cells, f"{average(of, 'seconds'):.1f} s"])
    section.table(["program", "runs", *SETS, "time"], rows)


EXPERIMENT = Experiment(
    "Words made of parts", run, "method seed", "wiki_text8_style word_similarity", command="--seeds 6"
).takes(seeds=6, methods=tuple(METHODS))
