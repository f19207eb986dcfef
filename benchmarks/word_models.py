"""Models of words beside each other: vectors and density matrices, on similarities, analogies, phrases and senses.

    python benchmarks/word_models.py --cache FOLDER

The Wikipedia sample of 17 million words. All models have 289 or so numbers for a word, and the same windows, noise and
sampling; EDRep has the counts of the same windows and no sampling at all. Each is tuned alike: of three learning rates
the best on half of MEN (every other pair) is taken, with 5 passes over the text (EDRep: 30 steps); the other half, and
all other sets, are only reported. Phrases by every composition that a model has. For senses, 100 pseudo-words are
planted, pairs of words of equal frequency, and the text is trained on again with the setting that was found; for all
models the neighbours of their two words are those of the skip-gram vectors of the text as it was.

What is trained is kept in FOLDER, what is measured in the result file: a run that was stopped goes on from there, and
runs of some ``--methods`` or ``--parts`` add to each other. ``--lines`` takes the beginning of the text, for trials.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from _common import DATA, TRIAL, ResultFile, say, timed
from nearfar import composition
from nearfar.embedding.density import smat

KEYS = ("part", "method", "set", "composition", "operator", "learning_rate", "n_epochs", "trial")
PARTS = ("tune", "words", "phrases", "senses")
PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
MEN = DATA / "word_similarity" / "EN-MEN-TR-3k.txt"
SIMILARITY = {"wordsim": "EN-WS-353-ALL.txt", "simlex": "EN-SIMLEX-999.txt"}
ANALOGIES = DATA / "word_analogy" / "questions-words.txt.gz"
PHRASES = {"ML2008": "ML2008", "GS2011": "GS2011data", "GS2012": "GS2012data", "ELLDIS": "ELLDIS", "ELLSIM": "ELLSIM"}
WINDOW, MIN_COUNT = 5, 5
N_CANDIDATES = 30_000  # answers to analogies
N_PAIRS, RANKS = 100, (200, 5000)  # pseudo-words, and how frequent their words are
SENSES = ("separation", "chance", "recovered", "entropy_auc", "lowered", "lowered_by_others", "lowered_more")


@dataclass(frozen=True)
class Method:
    """How to make a model, the grid it is tuned on, and how many numbers a word has."""

    make: Callable[..., Any]
    rates: tuple[float, ...]
    epochs: tuple[int, ...]
    n_numbers: int


RATES, EPOCHS = (0.025, 0.05, 0.1), (5,)
METHODS = {
    "SkipGram, 17": Method(lambda **how: nf.SkipGram(17, **how), RATES[:2], EPOCHS, 17),
    "multi-sense, 17": Method(lambda **how: nf.MultiSenseWord2DM(17, n_senses=3, **how), RATES[:2], EPOCHS, 51),
    "SkipGram": Method(lambda **how: nf.SkipGram(289, **how), RATES, EPOCHS, 289),
    "EDRep": Method(lambda **how: nf.EDRep(289, **how), (0.2, 0.4, 0.8), (30,), 289),
    "Word2DM": Method(lambda **how: nf.Word2DM(17, 17, **how), RATES, EPOCHS, 289),
    "multi-sense, columns": Method(
        lambda **how: nf.MultiSenseWord2DM(17, n_senses=17, variant="columns", **how), RATES, EPOCHS, 289
    ),
    "multi-sense, clusters": Method(
        lambda **how: nf.MultiSenseWord2DM(96, n_senses=3, variant="clusters", **how), RATES, EPOCHS, 288
    ),
}


@dataclass(frozen=True)
class Words:
    """What a model made of a text: an embedding, and the sense vectors where a model has them."""

    embedding: nf.Embedding
    senses: Any


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
                with lzma.open(PACKED, "rt") as lines:
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
            arrays = {"factors": model.factors_} if hasattr(model, "factors_") else {"vectors": model.embedding_}
            if hasattr(model, "sense_vectors_"):
                arrays |= {"senses": model.sense_vectors_, "counts": model.sense_counts_}
            save(path, seconds=seconds, loss=float(model.loss_curve_[-1]), **arrays)
        kept = np.load(path)
        ids = self.text(text).vocabulary.words
        if "factors" in kept:
            embedding: nf.Embedding = nf.DensityEmbedding.from_factors(kept["factors"], ids)
        else:
            embedding = nf.Embedding(kept["vectors"], ids)
        return Words(embedding, kept.get("senses")), float(kept["seconds"]), float(kept["loss"])


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


def men(odd: bool) -> list[tuple[str, str, float]]:
    """Return every other pair of MEN: the even ones are tuned on, the odd ones reported."""
    rows = [line.split() for line in MEN.read_text().splitlines()]
    return [(a, b, float(score)) for a, b, score in rows[odd::2]]


def agreement(found: Any, n: int) -> dict[str, Any]:
    """Return what a record says of a correlation."""
    score, *interval = (None if np.isnan(x) else round(x, 4) for x in (found.rho, *found.interval))
    return {"score": score, "interval": interval, "n_covered": found.n_covered, "n": n}


def compositions(embedding: nf.Embedding) -> Iterator[dict[str, Any]]:
    """Yield every way to compose that an embedding has; the spider in the eigenvectors of the mean of all matrices."""
    dense = isinstance(embedding, nf.DensityEmbedding)
    for method in composition.METHODS if dense else composition.VECTOR_METHODS:
        for operator in ("verb", "noun") if method in ("phaser", "fuzz") else ("verb",):
            basis = None
            if method == "spider":
                basis = np.linalg.eigh(smat(embedding.vectors.mean(axis=0, dtype=np.float64)))[1]
            yield {"method": method, "operator": operator, "basis": basis}


class Bench:
    """The parts, for one method each."""

    def __init__(self, file: ResultFile, shelf: Shelf) -> None:
        self.file, self.shelf = file, shelf

    def record(self, part: str, name: str, measure: Callable[[], dict[str, Any]], **keys: Any) -> None:
        key = {"part": part, "method": name, **keys}
        if self.file.find(**key) is None:
            found = measure()
            self.file.add({**key, **found})
            say(f"{key}: {found}")

    def tune(self, name: str) -> None:
        for rate, n_epochs in itertools.product(METHODS[name].rates, METHODS[name].epochs):
            setting = {"learning_rate": rate, "n_epochs": n_epochs}

            def measure(setting: dict[str, Any] = setting) -> dict[str, Any]:
                try:
                    words, seconds, loss = self.shelf.trained(name, "plain", 0, **setting)
                except nf.errors.NumericalError:
                    return {"score": None}  # too large a step
                found = nf.evaluate.word_similarity(words.embedding, men(odd=False), n_bootstrap=1)
                said = {"score": round(found.rho, 4), "seconds": round(seconds, 1), "loss": round(loss, 4)}
                return said | {"n_numbers": METHODS[name].n_numbers}

            self.record("tune", name, measure, **setting)

    def best(self, name: str) -> dict[str, Any]:
        """Return the setting that was best on the half of MEN that is tuned on."""
        tune = [r for r in self.file.records if r["part"] == "tune" and r["method"] == name]
        tried = [r for r in tune if r["score"] is not None]
        if not tried:
            raise SystemExit(f"{name} is not tuned yet: run the part 'tune' first")
        found = max(tried, key=lambda r: r["score"])
        return {key: found[key] for key in ("learning_rate", "n_epochs")}

    def words(self, name: str, trial: int) -> None:
        setting = self.best(name)
        words = self.shelf.trained(name, "plain", trial, **setting)[0].embedding
        sets = {key: DATA / "word_similarity" / file for key, file in SIMILARITY.items()} | {"men": men(odd=True)}
        for key, pairs in sets.items():

            def similarity(pairs: Any = pairs) -> dict[str, Any]:
                found = nf.evaluate.word_similarity(words, pairs)
                return agreement(found, found.n_pairs)

            self.record("words", name, similarity, set=key, trial=trial, **setting)
        for how in ("3CosAdd", "3CosMul"):

            def solved(how: str = how) -> dict[str, Any]:
                found = nf.evaluate.word_analogies(words, ANALOGIES, method=how, n_candidates=N_CANDIDATES)
                return {"score": round(found.accuracy, 4), "n_covered": found.n_covered, "n": found.n_questions}

            self.record("words", name, solved, set=how, trial=trial, **setting)

    def phrases(self, name: str, trial: int) -> None:
        setting = self.best(name)
        words = self.shelf.trained(name, "plain", trial, **setting)[0].embedding
        for (key, file), how in itertools.product(PHRASES.items(), compositions(words)):

            def measure(file: str = file, how: dict[str, Any] = how) -> dict[str, Any]:
                path = DATA / "compositional_ambiguity" / f"{file}.txt.gz"
                found = nf.evaluate.phrases(words, path, **how)
                return agreement(found, found.n_items)

            keys = {"set": key, "composition": how["method"], "operator": how["operator"], "trial": trial}
            self.record("phrases", name, measure, **keys, **setting)

    def senses(self, name: str, trial: int) -> None:
        setting, pairs = self.best(name), self.shelf.pairs()
        words = self.shelf.trained(name, "planted", trial, **setting)[0]
        reference = self.shelf.trained("SkipGram", "plain", 0, **self.best("SkipGram"))[0].embedding
        kinds = {"one vector": None}
        if isinstance(words.embedding, nf.DensityEmbedding):
            kinds = {"eigenvectors": None} | ({} if words.senses is None else {"sense vectors": words.senses})
        for kind, own in kinds.items():

            def measure(own: Any = own) -> dict[str, Any]:
                found = nf.evaluate.sense_induction(words.embedding, pairs, reference=reference, senses=own)
                values = {key: round(getattr(found, key), 4) for key in SENSES}
                known = {key: value for key, value in values.items() if not np.isnan(value)}
                return {"n_covered": found.n_covered, "n": found.n_pairs, **known}

            self.record("senses", name, measure, set=kind, trial=trial, **setting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--n-jobs", type=int, default=2)
    args = parser.parse_args()
    if args.lines is not None and TRIAL is None:
        parser.error("--lines is for trials, whose results go to a folder of their own: set NEARFAR_RESULTS")
    bench = Bench(ResultFile("word_models", KEYS), Shelf(args.cache, args.lines, args.n_jobs))
    for part in args.parts:
        for name in args.methods:
            if part == "tune":
                bench.tune(name)
            else:
                for trial in range(args.runs):
                    getattr(bench, part)(name, trial)


if __name__ == "__main__":
    main()
