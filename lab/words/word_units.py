"""CBOW, paragraph vectors and phrases beside gensim, on small texts; one thread, processor seconds.

CBOW and phrases: the first million words of the Wikipedia sample. CBOW in five epochs at rates .05 and .1, d = 100,
words that come 5 times; rho of similarity. Phrases: all words, pairs that come more than 5 times with a score above 10;
both read lists of words, and the texts that come out are compared. Paragraph vectors (PV-DBOW): 4,000 articles of AG
News in an order drawn at random, d = 100, as many pairs of a document and a word as ten passes have; the share of
classes told right by a logistic regression on vectors of length 1, three folds.
"""

from __future__ import annotations

import csv
import lzma
import re
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import DATA, SIMILARITY, articles
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, groups

D, MIN_COUNT, N_WORDS, N_EPOCHS, N_DOCUMENTS, N_PASSES = 100, 5, 1_000_000, 5, 4000, 10
Found = dict[str, Any]
Lines = list[list[str]]


def cbow(method: str, lines: Lines, rate: float, seed: int) -> Found:
    if method == "nearfar":
        how: Any = {"cbow": True, "learning_rate": rate, "n_epochs": N_EPOCHS, "random_state": seed, "n_jobs": 1}
        vectors, seconds = cpu_timed(lambda: nf.SkipGram(D, **how).fit(lines).vectors_)
    else:
        from gensim.models import Word2Vec

        how = {"sg": 0, "alpha": rate, "epochs": N_EPOCHS, "seed": seed, "workers": 1, "min_count": MIN_COUNT}
        model, seconds = cpu_timed(lambda: Word2Vec(lines, vector_size=D, **how))
        vectors = nf.Embedding.from_gensim(model)
    return {"seconds": seconds, "value": nf.evaluate.word_similarity(vectors, SIMILARITY["men"]).rho}


def phrases(method: str, lines: Lines) -> tuple[Lines, float]:
    """Return the text with phrases, and seconds of finding and writing them."""
    if method == "nearfar":
        found, seconds = cpu_timed(lambda: nf.Corpus(lines, n_jobs=1).encode(min_count=1).phrases())
        words = np.array(list(found.vocabulary), object)
        return [words[sentence].tolist() for sentence in found], seconds
    from gensim.models.phrases import Phrases

    def of_gensim() -> Lines:
        model = Phrases(lines)
        return [model[line] for line in lines]

    return cpu_timed(of_gensim)


def documents(method: str, texts: Lines, classes: np.ndarray, seed: int) -> Found:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    if method == "nearfar":
        relation = nf.Relation.from_documents(texts)
        n_epochs = max(1, round(N_PASSES * relation.row_sums.sum() / (500 * relation.shape[1])))
        how: Any = {"n_epochs": n_epochs, "random_state": seed, "n_jobs": 1}
        X, seconds = cpu_timed(lambda: nf.SkipGram(D, **how).fit(nf.Relation.from_documents(texts)).embedding_)
    else:
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument

        tagged = [TaggedDocument(words, [k]) for k, words in enumerate(texts)]
        how = {"dm": 0, "vector_size": D, "min_count": MIN_COUNT, "epochs": N_PASSES, "workers": 1, "seed": seed}
        model, seconds = cpu_timed(lambda: Doc2Vec(tagged, **how))
        X = model.dv.vectors
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    right = cross_val_score(LogisticRegression(max_iter=500, C=10), X, classes, cv=3).mean()
    return {"seconds": seconds, "value": float(right)}


def news() -> tuple[Lines, np.ndarray]:
    """Return articles of AG News as lists of words, and their classes."""
    with lzma.open(DATA / "ag_news" / "train_subset_20000.csv.xz", "rt") as file:
        rows = list(csv.reader(file))[1:]
    order = np.random.default_rng(0).permutation(len(rows))[:N_DOCUMENTS].tolist()
    texts = [re.findall(r"[a-z]+", f"{rows[k][1]} {rows[k][2]}".lower()) for k in order]
    return texts, np.array([int(rows[k][0]) for k in order])


def run(file: ResultFile, given: Namespace) -> None:
    nf.SkipGram(D, n_epochs=1, sample=0, cbow=True).fit([["some", "words"]] * 9)  # compiles
    nf.SkipGram(D, n_epochs=1).fit(nf.Relation.from_documents(["some words"] * 9))
    phrases("nearfar", [["some", "words"]] * 9)
    lines = [article.split() for article in articles(N_WORDS) if article.strip()]
    cut = [line[k : k + 10_000] for line in lines for k in range(0, len(line), 10_000)]  # where gensim cuts
    texts, classes = news()
    tasks: dict[str, Callable[[str, int], Found]] = {
        "CBOW, rate .05": lambda method, seed: cbow(method, cut, 0.05, seed),
        "CBOW, rate .1": lambda method, seed: cbow(method, cut, 0.1, seed),
        "paragraph vectors": lambda method, seed: documents(method, texts, classes, seed),
    }
    for task, seed, method in product(tasks, range(given.seeds), ("nearfar", "gensim")):
        if key := file.new(task, method, seed):
            file.add({**key, **tasks[task](method, seed)})
    theirs: Lines = []
    for method in ("gensim", "nearfar"):
        if key := file.new("phrases", method, 0):
            found, seconds = phrases(method, cut)
            theirs = theirs or found
            same = [one == other for one, other in zip(found, theirs, strict=True)]
            file.add({**key, "seconds": seconds, "value": float(np.mean(same))})


def told(section: Section, records: list[Record]) -> None:
    """CBOW on a million words, five epochs: rho on MEN. Paragraph vectors of 4,000 articles of AG News: share of the
    classes told right. Phrases on the same million words: share of lines that come out as gensim's. One thread each.
    """
    section.rows(
        "what | program | result | time",
        "{task} | {method} | {value:.3f} | {seconds:time}",
        groups(records, "task", "method"),
    )


EXPERIMENT = Experiment(
    "CBOW, documents and phrases beside gensim", run, "task method seed", "wiki_text8_style word_similarity ag_news"
).takes(seeds=3)
