"""Phrases by the size of the text: vectors, density matrices and senses of a folder of text, for more and more words.

``--text FOLDER`` is a folder of texts, packed (.xz, .gz) or not; ``python -m lab.words.debian_text FOLDER`` makes one
of Debian's documentation. Its files are taken in an order that is random and always the same, and of their lines the
words of letters alone, in lower case; lines that begin with "<" are left out. A size is the first so many million
words; the last is all that there is. Each model makes ``--epochs`` passes with the settings that a plain call has but
``sample=1e-4``: windows of 5 words, words that occur 5 times. The text has the name of its folder in the results; by
default it is the Wikipedia sample.

Phrases are judged as in "word_models": a composition is chosen on one half of each set and told on the other, with
intervals of a bootstrap over the pairs of verbs. ``--sets FOLDER`` has further sets, files of one of the forms that
``nf.evaluate.phrases`` reads, such as KS2013-CoNLL.txt of github.com/francois-meyer/lexical-ambiguity-dms.

``--authors CLONE`` is a clone of that repository: its models can be trained beside ours with PyTorch. They, and the
matrices of places, have one seed.

Vectors of the words that are asked for are kept in ``--cache FOLDER``: a run that was stopped goes on from there.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import DATA, SIMILARITY, WIKI
from lab.experiment import Choice, Experiment, Section
from lab.figures import BLUE, GREEN, GREY, ORANGE, axes
from lab.measure import timed
from lab.peers import meyer_lewis
from lab.records import Record, average, groups, number, pick
from lab.results import ResultFile
from lab.words.shelf import CACHE, MIN_COUNT, WINDOW
from lab.words.word_models import (
    FIXED,
    PHRASES,
    Judged,
    bracketed,
    cells_of,
    compared,
    judge,
    judgements,
    tell_ahead,
    words_of,
)

MODELS: dict[str, Callable[..., Any]] = {
    "SkipGram": lambda **how: nf.SkipGram(289, **how),
    "Word2DM": lambda **how: nf.Word2DM(17, 17, **how),
    "multi-sense": lambda **how: nf.MultiSenseWord2DM(96, n_senses=3, **how),
}
OF_PLACES: dict[str, dict[str, Any]] = {  # of the mean vectors around the places of a word, 17 numbers
    "places": {},
    "Context2DM": {"n_senses": "auto", "sense_weights": "equal"},
}
AUTHORS = {f"{name}, authors' code": name for name in meyer_lewis.MODELS}
SETS = ("ML2008", "GS2011", "GS2012", "KS2013")  # those of the paper
SAMPLE = 1e-4
COLOURS = {"SkipGram": BLUE, "Word2DM": ORANGE, "multi-sense": GREEN}
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


def places_of(lines: Iterator[list[str]], vectors: nf.Embedding, asked: set[str]) -> Iterator[tuple[Any, list[str]]]:
    """Yield the places of some words in each line, as the mean vectors of the words within the window."""
    for line in lines:
        words = [word for word in line if word in vectors]
        at = np.array([k for k, word in enumerate(words) if word in asked], np.int64)
        if len(words) > 1 and len(at):
            X = vectors[words]
            sums = np.concatenate([np.zeros_like(X[:1]), np.cumsum(X, axis=0, dtype=np.float64)])
            low, high = np.maximum(at - WINDOW, 0), np.minimum(at + WINDOW + 1, len(words))
            yield (sums[high] - sums[low] - X[at]) / (high - low - 1)[:, None], [words[k] for k in at]


class Text:
    """The first words of a text, encoded in the cache."""

    def __init__(self, given: Namespace, millions: int) -> None:
        self.given, self.millions = given, millions
        self.folder = given.cache / f"{Path(given.text).name} {millions}"
        self.folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def corpus(self) -> nf.EncodedCorpus:
        path = self.folder / "encoded"
        if not path.exists():
            nf.Corpus(self.lines()).encode(min_count=MIN_COUNT, folder=path)
        return nf.EncodedCorpus.open(path)

    def lines(self) -> Iterator[list[str]]:
        """Yield its lines as lists of words."""
        return first(lines_of(Path(self.given.text)), self.millions * 1_000_000)

    def embedding(self, name: str, seed: int, asked: set[str]) -> tuple[nf.Embedding, dict[str, Any]]:
        """Return the words that are asked for, of a trained model, and what is said of its training."""
        path = self.folder / f"{name} {self.given.epochs} {seed}.safetensors"
        if not path.exists():
            (found, loss), seconds = timed(lambda: self.trained(name, seed, asked))
            said = {"seconds": seconds, "loss": loss, "n_words": self.corpus.n_tokens}
            said["vocabulary"] = len(self.corpus.vocabulary)
            type(found)(found.vectors, found.ids, parameters=said).save(path)
        embedding = (nf.Embedding if name == "SkipGram" else nf.DensityEmbedding).load(path)
        return embedding, dict(embedding.parameters)

    def trained(self, name: str, seed: int, asked: set[str]) -> tuple[nf.Embedding, float]:
        """Train a model; return vectors or density matrices of the words that are asked for, and the last loss."""
        vocabulary = self.corpus.vocabulary
        known = [word for word in vocabulary if word in asked]
        if name in AUTHORS:
            clone = Path(self.given.authors)
            factors, loss = meyer_lewis.factors(clone, AUTHORS[name], vocabulary, self.lines(), seed)
            return nf.DensityEmbedding.from_factors(factors[vocabulary.words.rows(known)], known), loss
        how = {"n_epochs": self.given.epochs, "random_state": seed, "n_jobs": self.given.n_jobs}
        make = MODELS.get(name, lambda **how: nf.SkipGram(17, **how))
        model = make(window=WINDOW, sample=SAMPLE, **how).fit(self.corpus)
        loss = float(model.loss_curve_[-1])
        if name in OF_PLACES:
            places = places_of(self.lines(), model.vectors_, set(known))
            return nf.DensityEmbedding.from_contexts(places, **OF_PLACES[name]), loss
        if name == "multi-sense":
            senses = model.senses_
            return nf.DensityEmbedding.from_senses(senses.subset([w for w in senses.words if w in asked])), loss
        return model.vectors_.subset(known), loss


def run(file: ResultFile, given: Namespace) -> None:
    sets = {key: DATA / "compositional_ambiguity" / f"{PHRASES[key]}.txt.gz" for key in SETS if key in PHRASES}
    if given.sets:
        sets |= {path.stem.partition("-")[0]: path for path in sorted(Path(given.sets).iterdir())}
    asked = set().union(*map(words_of, [*sets.values(), *SIMILARITY.values()]))
    if given.authors:
        for what, largest in meyer_lewis.agreement(Path(given.authors)).items():
            file.add({"method": what, "set": "agreement", "largest": largest})
    for millions in given.sizes:
        text = Text(given, millions)
        of_size = {"text": Path(given.text).name, "size": millions, "n_epochs": given.epochs}
        seen: dict[str, list[dict[str, Judged]]] = {}
        trials = ((name, trial) for name in given.methods for trial in range(given.runs if name in MODELS else 1))
        for name, trial in trials:
            key = {**of_size, "method": name, "trial": trial}
            embedding, said = text.embedding(name, trial, asked)
            found = {of: nf.evaluate.word_similarity(embedding, path).rho for of, path in SIMILARITY.items()}
            file.add({**key, "set": "words", **said, **found})
            path = text.folder / f"phrases {name} {given.epochs} {trial}.npz"
            if not (path.exists() and sets.keys() <= judgements(path).keys()):
                judge(path, embedding, sets)
            seen.setdefault(name, []).append(judgements(path))
        for of in sets:
            for name, record in compared({name: [trial[of] for trial in trials] for name, trials in seen.items()}):
                file.add({**of_size, "method": name, "set": of, **record})


# ---------------------------------------------------------------- the page

FACTS = [
    ("text", "ukWaC and Wackypedia, 2.8 billion words", "as shown below"),
    ("sets", "ML2008, GS2011, GS2012, KS2013-CoNLL", "the same; ML2010 and KS2014 are in neither"),
    ("words, sample", "that occur 50 times, 1e-5", "that occur 5 times, 1e-4"),
    ("window", "1 to 5, one for a sentence; no word is its own neighbour", "1 to 5, one for a place"),
    ("noise", "5 words for each pair", "5 for each window; `shared_negatives=False` is theirs"),
    ("start", "entries uniform in ± 1 / 2nm", "of trace 1"),
    ("offset, ridge", "none", "ln 5, .005"),
    ("steps", "Adam at .001, 16 sentences, 4 passes", "SGD at its own rate, a window, one pass"),
    ("multi-sense", "columns, noise in the column that the pair chose", "clusters of contexts"),
    ("BERT2DM", "last layer of BERT, 17 directions, stop words left out", "any vectors: `from_contexts(dim=17)`"),
    ("Context2DM", "Ward's clusters, 2 to 10, all of one weight", "the same, by `from_contexts`"),
    ("composition", "the object first, adjectives on nouns", "the same"),
    ("the composition told", "the best of five on all items", "chosen on one half, told on the other"),
    (
        "interval",
        "a t-test of 100 bootstrap samples of items, as if each were new data",
        "bootstrap over pairs of verbs",
    ),
]


def told(section: Section, records: list[Record]) -> None:
    """One pass over the first words of a text, sample 1e-4, windows of 5, words that occur 5 times. SkipGram 289,
    Word2DM 17 x 17, multi-sense 96 x 3: about as many numbers. places, Context2DM: `from_contexts` of the means of
    SkipGram's 17 numbers around each place, or of the centres of their clusters. Authors' code: Meyer and Lewis, same
    text; its loss is of six pairs, 4.159 = 6 ln 2 where nothing is learned. wikipedia: other articles than above;
    debian: its documentation. Mean ± standard deviation over seeds; Spearman's rho.
    """
    phrases = [r for r in records if "told" in r]
    target = section.target(
        "phrases after 16 times more text: density matrices against skip-gram", f"better on three of {', '.join(SETS)}"
    )
    largest = max((r["size"] for r in pick(phrases, text="wikipedia")), default=0)
    of_largest = pick(phrases, text="wikipedia", size=largest)
    tell_ahead(target, [r for r in of_largest if r["method"] in ("Word2DM", "multi-sense")], SETS, 3)
    section.say("""`Word2DM.paper()`, and `MultiSenseWord2DM` with `variant="columns"` and `noise_column="same"`,
        have the settings of the code of Meyer and Lewis (github.com/francois-meyer/lexical-ambiguity-dms); its other
        variants are not here. The paper's figures could not be read: none is shown.""")
    section.table(["", "the authors' code", "here"], FACTS)
    section.say("""The largest differences of the two programs on made vectors: entries of the matrix of a phrase of
        five words, traces of products of matrices.""")
    section.rows("what | difference", "{method} | {largest:.0e}", pick(records, set="agreement"))
    section.rows(
        "text | million words | model | seeds | loss | WordSim-353 | MEN | SimLex-999",
        "{text} | {millions} | {method} | {trial:count} | {loss:.3f} | {wordsim:±sd} | {men:±sd} | {simlex:±sd}",
        (
            ([r | {"millions": f"{r['n_words'] / 1e6:.1f}"} for r in mine],)
            for *_, mine in groups(pick(records, set="words"), "text", "size", "method")
        ),
    )
    section.say("""Phrases: a composition is chosen on one half of each set and told on the other. In brackets 95 %
        intervals of a bootstrap over the pairs of verbs, all seeds.""")
    rows = []
    for text, of, size, method, mine in groups(phrases, "text", "set", "size", "method"):
        rows.append([text, of, size, method, *cells_of(mine[0]), mine[0]["n_covered"]])
    head = ["text", "set", "size", "model", "chosen most often", "rho", "difference to SkipGram", "items"]
    section.table(head, rows)
    section.say("""Without a choice: Phaser with the verb as operator, against the product of SkipGram's vectors;
        all items.""")
    rows = []
    for text, size, method, mine in groups(phrases, "text", "size", "method"):
        of = {r["set"]: r for r in mine if "default" in r}
        if of and method != mine[0]["against"]:
            cells = [f"{r['default_difference']:+.3f} {bracketed(r['default_interval'])}" for r in of.values()]
            told = dict(zip(of, cells, strict=True))
            rows.append([text, size, method, *(told.get(name, "–") for name in SETS)])
    section.table(["text", "size", "model", *SETS], rows)
    section.say("The same with compositions that are not chosen, all items: mean over seeds.")
    rows = []
    for text, size, method, mine in groups(phrases, "text", "size", "method"):
        for how in FIXED:
            found = {r["set"]: average([{"rho": rho} for rho in r["all_items"].get(how, [])], "rho") for r in mine}
            cells = [number(found.get(of)) for of in SETS]
            rows += [[text, size, method, how, *cells]] if set(cells) != {"–"} else []
    section.table(["text", "size", "model", "composition", *SETS], rows)
    section.picture("more_text", "Phrases by the size of the text")


def draw(records: list[Record]) -> Any:
    """Draw rho over the size of the text, a panel for each set."""
    phrases = [r for r in pick(records, text="wikipedia") if "told" in r and r["method"] in COLOURS]
    figure, (line,) = axes(1, len(SETS), 12.0, 2.6, sharey=True)
    for ax, of in zip(line, SETS, strict=True):
        for shift, (method, colour) in enumerate(COLOURS.items()):
            mine = sorted(pick(phrases, set=of, method=method), key=lambda r: r["size"])
            if mine:
                x = [r["size"] * 1.06**shift for r in mine]
                y = [sum(r["told"]) / len(r["told"]) for r in mine]
                low, high = zip(*(r["interval"] for r in mine), strict=True)
                ax.plot(x, y, "o-", ms=3, lw=1, color=colour, label=method)
                ax.vlines(x, low, high, color=colour, lw=0.8)
        ax.axhline(0, color=GREY, lw=0.5)
        sizes = sorted({r["size"] for r in phrases})
        ax.set(title=of, xscale="log", xlabel="million words")
        ax.set_xticks(sizes, map(str, sizes))
        ax.minorticks_off()
    line[0].set_ylabel("Spearman's rho, 95 % intervals")
    line[-1].legend(frameon=False, fontsize=6, loc="lower right")
    return figure


EXPERIMENT = Experiment(
    "Phrases by the size of the text",
    run,
    "text size n_epochs method set trial",
    "wiki_text8_style compositional_ambiguity word_similarity",
    command="--text FOLDER",
).takes(
    text=str(WIKI.parent),
    sets=str,
    cache=CACHE / "more",
    methods=Choice(tuple(MODELS), (*MODELS, *OF_PLACES, *AUTHORS)),
    sizes=(4, 16, 64),
    epochs=1,
    runs=3,
    n_jobs=1,
    authors=str,
)
