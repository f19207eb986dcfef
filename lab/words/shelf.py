"""Texts and models of words that are trained once and kept in a folder."""

from __future__ import annotations

import itertools
import lzma
import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import WIKI
from lab.measure import timed
from lab.results import TRIAL

LINES, SEED_EPOCHS = 6450, 3  # of the parts with several seeds
WINDOW, MIN_COUNT = 5, 5
N_PAIRS, RANKS = 100, (200, 5000)  # pseudo-words, and how frequent their words are


@dataclass(frozen=True)
class Method:
    """How to make a model, the grid it is tuned on, and how many numbers a word has."""

    make: Callable[..., Any]
    rates: tuple[float, ...]
    epochs: tuple[int, ...]
    n_numbers: int


RATES, EPOCHS = (0.025, 0.05, 0.1), (5,)
METHODS = {
    "SkipGram": Method(lambda **how: nf.SkipGram(289, **how), RATES, EPOCHS, 289),
    "SkipGram, 17": Method(lambda **how: nf.SkipGram(17, **how), (0.05,), EPOCHS, 17),
    "multi-sense, 17": Method(lambda **how: nf.MultiSenseWord2DM(17, n_senses=3, **how), (0.05,), EPOCHS, 51),
    "EDRep": Method(lambda **how: nf.EDRep(289, **how), (0.2, 0.4, 0.8), (30,), 289),
    "Word2DM": Method(lambda **how: nf.Word2DM(17, 17, **how), RATES, EPOCHS, 289),
    "multi-sense, columns": Method(
        lambda **how: nf.MultiSenseWord2DM(17, n_senses=17, variant="columns", **how), RATES, EPOCHS, 289
    ),
    "multi-sense, clusters": Method(
        lambda **how: nf.MultiSenseWord2DM(96, n_senses=3, variant="clusters", **how), RATES, EPOCHS, 288
    ),
}


def lines_of(given: Namespace) -> int:
    """Return how many lines of the text are taken: fewer, by ``--lines``, in a trial."""
    if given.lines is not None and TRIAL is None:
        raise SystemExit("--lines is for trials, whose results go to a folder of their own: set NEARFAR_RESULTS")
    return given.lines or LINES


class Words:
    """What a model made of a text: plain vectors, factors of matrices, or sense vectors and how often each was met."""

    def __init__(self, kept: Any, vocabulary: nf.Vocabulary) -> None:
        self.kept, self.vocabulary = kept, vocabulary

    @cached_property
    def entropic(self) -> Any:
        """What has entropies and senses; None for vectors."""
        if "senses" in self.kept:
            counts, vectors = self.kept["counts"], self.kept["senses"]
            rows, numbers = np.nonzero(counts)
            weights = counts[rows, numbers] / counts.sum(axis=1)[rows]
            names = self.vocabulary.words.to_list()
            ids = [(names[row], number) for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)]
            return nf.SenseEmbedding(vectors[rows, numbers], ids, weights=weights)
        if "factors" in self.kept:
            return nf.DensityEmbedding.from_factors(self.kept["factors"], self.vocabulary.words)
        return None

    @cached_property
    def embedding(self) -> nf.Embedding:
        """Vectors or density matrices of all words."""
        if isinstance(self.entropic, nf.SenseEmbedding):
            return nf.DensityEmbedding.from_senses(self.entropic)
        return nf.Embedding(self.kept["vectors"], self.vocabulary.words) if self.entropic is None else self.entropic

    def of(self, words: set[str]) -> nf.Embedding:
        """Vectors or density matrices of some words, those that are known."""
        if not isinstance(self.entropic, nf.SenseEmbedding):
            return self.embedding.subset([word for word in self.vocabulary if word in words])
        return nf.DensityEmbedding.from_senses(self.entropic.subset([w for w in self.entropic.words if w in words]))


class Shelf:
    """Texts and trained models in a folder: what is there is not made again."""

    def __init__(self, folder: Path, n_lines: int | None, n_jobs: int | None) -> None:
        self.folder, self.n_lines, self.n_jobs = folder, n_lines, n_jobs
        folder.mkdir(parents=True, exist_ok=True)

    def text(self, name: str) -> nf.EncodedCorpus:
        """Return the text as it is, "plain", or with pseudo-words, "planted"."""
        path = self.folder / name
        if not path.exists():
            if name == "plain":
                with lzma.open(WIKI, "rt") as lines:
                    nf.Corpus(itertools.islice(lines, self.n_lines)).encode(min_count=MIN_COUNT, folder=path)
            else:
                nf.evaluate.plant_pseudowords(self.text("plain"), self.pairs()).save(path)
        return nf.EncodedCorpus.open(path)

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of words that are next to each other among some words in the order of their frequency."""
        vocabulary = self.text("plain").vocabulary
        words = [word for word in vocabulary.words[RANKS[0] : RANKS[1]] if len(word) > 3]
        chosen = np.sort(np.random.default_rng(0).choice(len(words), 2 * N_PAIRS, replace=False)).tolist()
        return [(words[a], words[b]) for a, b in zip(chosen[::2], chosen[1::2], strict=True)]

    def trained(
        self, name: str, text: str, seed: int, learning_rate: float, n_epochs: int
    ) -> tuple[Words, float, float]:
        """Return a model's words, its seconds and its last loss."""
        path = self.folder / f"{name.replace(', ', '-')} {text} {learning_rate} {n_epochs} {seed}.npz"
        if not path.exists():
            settings = {"learning_rate": learning_rate, "n_epochs": n_epochs, "random_state": seed}
            settings["n_jobs"] = self.n_jobs
            model, seconds = timed(lambda: fit(name, self.text(text), settings))
            if isinstance(model, nf.MultiSenseWord2DM):
                arrays = {"senses": model.sense_vectors_, "counts": model.sense_counts_}
            else:
                arrays = {"factors": model.factors_} if hasattr(model, "factors_") else {"vectors": model.embedding_}
            save(path, seconds=seconds, loss=float(model.loss_curve_[-1]), **arrays)
        kept = np.load(path)
        return Words(kept, self.text(text).vocabulary), float(kept["seconds"]), float(kept["loss"])


def fit(name: str, text: nf.EncodedCorpus, settings: dict[str, Any]) -> Any:
    """Train a model; EDRep on the conditional probabilities of the same windows, counted here."""
    method = METHODS[name]
    if name == "EDRep":
        relation = nf.Relation.from_corpus(text, window=WINDOW, weighting="conditional", n_jobs=settings["n_jobs"])
        return method.make(**settings).fit(relation)
    return method.make(window=WINDOW, **settings).fit(text)


def save(path: Path, **arrays: Any) -> None:
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.replace(path)


CACHE = Path(tempfile.gettempdir()) / "nearfar-lab"
