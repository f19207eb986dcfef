"""Phrases by the size of the text: vectors, density matrices and senses of a folder of text, for more and more words.

``--text FOLDER`` is a folder of texts, packed (.xz, .gz) or not; ``python -m lab.words.debian_text FOLDER`` makes one
of Debian's documentation. Its files are taken in an order that is random and always the same, and of their lines the
words of letters alone, in lower case; lines that begin with "<" are left out. A size is the first so many million
words; the last is all that there is. Each model makes ``--epochs`` passes with the settings that a plain call has,
windows of 5 words and words that occur 5 times. ``--name`` is what the text is called in the results.

Phrases are judged as in "word_models": a composition is chosen on one half of each set and told on the other, with
intervals of a bootstrap over the pairs of verbs. ``--sets FOLDER`` has further sets, files of one of the forms that
``nf.evaluate.phrases`` reads, such as KS2013-CoNLL.txt of github.com/francois-meyer/lexical-ambiguity-dms.

Vectors of the words that are asked for are kept in ``--cache FOLDER``: a run that was stopped goes on from there.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import lzma
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import DATA, SIMILARITY
from lab.experiment import Experiment
from lab.measure import timed
from lab.results import ResultFile
from lab.words.shelf import CACHE, MIN_COUNT, WINDOW
from lab.words.word_models import PHRASES, Judged, compared, judge, judgements, words_of

MODELS: dict[str, Callable[..., Any]] = {
    "SkipGram": lambda **how: nf.SkipGram(289, **how),
    "Word2DM": lambda **how: nf.Word2DM(17, 17, **how),
    "multi-sense": lambda **how: nf.MultiSenseWord2DM(96, n_senses=3, **how),
}
OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}


def lines_of(folder: Path) -> Iterator[list[str]]:
    """Yield the lines of all files as lists of words; the order of the files depends on their names alone."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest()):
        with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.startswith("<") and (words := re.findall("[a-z]+", line.lower())):
                    yield words


def first(lines: Iterator[list[str]], n_words: int) -> Iterator[list[str]]:
    """Yield lines until they have so many words."""
    for line in lines:
        if n_words <= 0:
            return
        yield line
        n_words -= len(line)


class Text:
    """The first words of a text, encoded in the cache."""

    def __init__(self, given: Namespace, millions: int) -> None:
        self.given, self.millions = given, millions
        self.folder = given.cache / f"{given.name} {millions}"
        self.folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def corpus(self) -> nf.EncodedCorpus:
        path = self.folder / "encoded"
        if not path.exists():
            if self.given.text is None:
                raise SystemExit("--text FOLDER: where the text is")
            lines = first(lines_of(Path(self.given.text)), self.millions * 1_000_000)
            nf.Corpus(lines).encode(min_count=MIN_COUNT, folder=path)
        return nf.EncodedCorpus.open(path)

    def embedding(self, name: str, seed: int, asked: set[str]) -> tuple[nf.Embedding, dict[str, Any]]:
        """Return the words that are asked for, of a trained model, and what is said of its training."""
        path = self.folder / f"{name} {self.given.epochs} {seed}.safetensors"
        load = nf.Embedding if name == "SkipGram" else nf.DensityEmbedding
        if not path.exists():
            how = {"n_epochs": self.given.epochs, "random_state": seed, "n_jobs": self.given.n_jobs}
            model, seconds = timed(lambda: MODELS[name](window=WINDOW, **how).fit(self.corpus))
            if name == "multi-sense":
                senses = model.senses_
                found = nf.DensityEmbedding.from_senses(senses.subset([w for w in senses.words if w in asked]))
            else:
                found = model.vectors_.subset([word for word in self.corpus.vocabulary if word in asked])
            said = {"seconds": seconds, "loss": float(model.loss_curve_[-1]), "n_words": self.corpus.n_tokens}
            said["vocabulary"] = len(self.corpus.vocabulary)
            type(found)(found.vectors, found.ids, parameters=said).save(path)
        embedding = load.load(path)
        return embedding, dict(embedding.parameters)


def run(file: ResultFile, given: Namespace) -> None:
    sets = {key: DATA / "compositional_ambiguity" / f"{name}.txt.gz" for key, name in PHRASES.items()}
    if given.sets:
        sets |= {path.stem.partition("-")[0]: path for path in sorted(Path(given.sets).iterdir())}
    asked = set().union(*map(words_of, [*sets.values(), *SIMILARITY.values()]))
    for millions in given.sizes:
        text = Text(given, millions)
        of_size = {"text": given.name, "size": millions, "n_epochs": given.epochs}
        seen: dict[str, list[dict[str, Judged]]] = {}
        for name, trial in itertools.product(given.methods, range(given.runs)):
            key = {**of_size, "method": name, "trial": trial}
            embedding, said = text.embedding(name, trial, asked)
            found = {of: nf.evaluate.word_similarity(embedding, path).rho for of, path in SIMILARITY.items()}
            file.add({**key, "set": "words", **said, **found})
            path = text.folder / f"phrases {name} {given.epochs} {trial}.npz"
            if not path.exists():
                judge(path, embedding, sets)
            seen.setdefault(name, []).append(judgements(path))
        for of in sets:
            trials = {name: [trial[of] for trial in trials] for name, trials in seen.items()}
            for name, record in compared(trials):
                file.add({**of_size, "method": name, "set": of, **record})


EXPERIMENT = Experiment(
    "Phrases by the size of the text",
    ("text", "size", "n_epochs", "method", "set", "trial"),
    run,
    {
        "text": str,
        "name": "wikipedia",
        "sets": str,
        "cache": CACHE / "more",
        "methods": tuple(MODELS),
        "sizes": (4, 16, 64),
        "epochs": 1,
        "runs": 3,
        "n_jobs": 1,
    },
    ("compositional_ambiguity", "word_similarity"),
    command="--text FOLDER",
)
