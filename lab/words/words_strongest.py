"""Skip-gram beside fastText and gensim on 2 million words, two epochs, one thread each.

fastText is skip-gram with subwords at its own rate of .05; nearfar and gensim at .025 and .05. Similarity: all pairs of
words that the text has. fastText runs in an environment of its own: see lab/peers/elsewhere.py.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import SIMILARITY, articles, text_file
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.peers import elsewhere
from lab.records import Record, groups

D, N_WORDS, N_EPOCHS, MIN_COUNT = 100, 2_000_000, 2, 5
METHODS = ("nearfar", "gensim", "fastText")


def fit(method: str, path: Path, rate: float, seed: int, **more: Any) -> tuple[nf.Embedding, float]:
    """Return vectors and seconds, of reading and training; ``more`` is for fastText."""
    if method == "fastText":
        given: Any = {"d": D, "n_epochs": N_EPOCHS, "rate": rate, "min_count": MIN_COUNT, **more}
        found, seconds = elsewhere.run("fasttext", path=str(path), **given)
        return nf.Embedding(found["vector"], found["word"].tolist()), seconds
    if method == "nearfar":
        how: Any = {"learning_rate": rate, "n_epochs": N_EPOCHS, "min_count": MIN_COUNT, "random_state": seed}
        return cpu_timed(lambda: nf.SkipGram(D, n_jobs=1, **how).fit(path).vectors_)
    from gensim.models import Word2Vec

    how = {"alpha": rate, "epochs": N_EPOCHS, "min_count": MIN_COUNT, "seed": seed, "vector_size": D}
    model, seconds = cpu_timed(lambda: Word2Vec(corpus_file=str(path), sg=1, workers=1, **how))
    return nf.Embedding(model.wv.vectors, ids=model.wv.index_to_key), seconds


def run(file: ResultFile, given: Namespace) -> None:
    nf.SkipGram(D, n_epochs=1, sample=0).fit([["some", "words"]] * 9)  # compiles
    with text_file("\n".join(articles(N_WORDS))) as path:
        for seed, method, rate in product(range(given.seeds), METHODS, given.rates):
            if (method == "fastText") <= (seed == 0 and rate == 0.05) and (key := file.new(method, rate, seed)):
                vectors, seconds = fit(method, path, rate, seed)
                found = {s: nf.evaluate.word_similarity(vectors, at).rho for s, at in SIMILARITY.items()}
                version = {"version": elsewhere.version("fasttext")} if method == "fastText" else {}
                file.add({**key, "seconds": seconds, **found, **version})


def told(section: Section, records: list[Record]) -> None:
    """Skip-gram of 100 components on 2 million words, two epochs, one thread, reading included; fastText with its
    subwords. Spearman's rho.
    """
    section.rows(
        f"program | learning rate | {' | '.join(SIMILARITY)} | time",
        f"{{method}} | {{rate:g}} | {' | '.join(f'{{{name}:.3f}}' for name in SIMILARITY)} | {{seconds:time}}",
        groups(records, "method", "rate"),
    )


EXPERIMENT = Experiment(
    "Skip-gram beside fastText and gensim", run, "method rate seed", "wiki_text8_style word_similarity"
).takes(rates=(0.025, 0.05), seeds=1)
