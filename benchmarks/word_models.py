"""Models of words beside each other: vectors and density matrices, on similarities, phrases and ambiguity.

    python benchmarks/word_models.py --cache FOLDER [--runs 3]

The first articles of the Wikipedia sample, 4.3 million words, three passes, several seeds. SkipGram, Word2DM and the
large multi-sense model have 289 or so numbers for a word, two others 17 numbers for a vector. Windows, noise and
sampling are the same for all. Learning rates are those that were best on half of MEN (every other pair) in the part
"tune", on all 17 million words with 5 passes; models of 17 numbers take 0.05. The other half of MEN is reported.

*phrases*: a composition is chosen on one half of each set and told on the other, the halves having no pair of verbs in
common; then the halves change places, and that for several ways to cut. Intervals, 95 %, are those of a bootstrap over
the pairs of verbs, with the choice made anew in each sample: a model is as uncertain as its choice.

*homonyms*: whether words that people call ambiguous have larger entropies than words that come as often.

*tune*, *senses*: one seed on all words, 5 passes. For senses, 100 pseudo-words are planted, pairs of words of equal
frequency; the neighbours of their two words are those of the skip-gram vectors of the text as it was.

What is trained is kept in FOLDER, what is measured in the result file: a run that was stopped goes on from there, and
runs of some ``--methods`` or ``--parts`` add to each other. ``--lines`` takes the beginning of the text, for trials.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from _common import DATA, TRIAL, ResultFile, say, timed
from nearfar import composition
from nearfar.embedding.matrices import smat

KEYS = ("part", "method", "set", "composition", "operator", "learning_rate", "n_epochs", "trial")
PARTS = ("tune", "words", "phrases", "homonyms", "senses")
LINES, SEED_EPOCHS = 6450, 3  # of the parts with several seeds
PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
MEN = DATA / "word_similarity" / "EN-MEN-TR-3k.txt"
SIMILARITY = {
    "wordsim": "EN-WS-353-ALL.txt",
    "simlex": "EN-SIMLEX-999.txt",
    "mturk": "EN-MTurk-287.txt",
    "verb": "EN-VERB-143.txt",
    "yp": "EN-YP-130.txt",
}
ANALOGIES = DATA / "word_analogy" / "questions-words.txt.gz"
PHRASES = {"ML2008": "ML2008", "GS2011": "GS2011data", "GS2012": "GS2012data", "ELLDIS": "ELLDIS", "ELLSIM": "ELLSIM"}
WINDOW, MIN_COUNT = 5, 5
N_SPLITS, N_BOOTSTRAP = 5, 200
# Words that dictionaries list as homonyms, of unrelated meanings, and that are no forms of frequent other words.
HOMONYMS = """
bank bark bass bat bear board bolt bow bowl box brake calf case cell chip clip club coach count court crane date deck
diamond drill duck fair fan file firm fly foil fork gum hail hamper hide iron jam jar lap lead light lime lock log match
mine mint mole mould novel organ page palm park pen perch pitch plant plot pole pool port pound press pupil racket rail
rank ring rock rose ruler sack scale seal second sentence shed sink slip sole spell spring squash staff star stable
stern stick strike tank tap temple tie till tip toast toll train trunk yard wave yarn
"""
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


def name_of(how: dict[str, Any]) -> str:
    """Return the name of a composition."""
    return how["method"] if how["operator"] == "verb" else f"{how['method']}, noun"


def rounded(values: Any) -> list[float]:
    """Return numbers for a record."""
    return [round(float(value), 4) for value in values]


def told_of(trials: list[Judged]) -> tuple[list[float], np.ndarray, list[str]]:
    """Return what is told of each trial, the means over trials of bootstrap samples, and what was chosen.

    Halves and samples are the same for all models that know the same words.
    """
    rng = np.random.default_rng(0)
    n_verbs = int(trials[0].verbs.max()) + 1
    halves = np.array([rng.permutation(n_verbs) < n_verbs // 2 for _ in range(N_SPLITS)])
    items = [np.flatnonzero(trials[0].verbs == verb) for verb in range(n_verbs)]
    everything = np.arange(len(trials[0].scores))
    values, chosen = zip(*(trial.told(halves, everything) for trial in trials), strict=True)
    drawn = []
    for _ in range(N_BOOTSTRAP):
        rows = np.concatenate([items[verb] for verb in rng.integers(n_verbs, size=n_verbs)])
        drawn.append(np.mean([trial.told(halves, rows)[0] for trial in trials]))
    return list(values), np.array(drawn), list(itertools.chain.from_iterable(chosen))


def words_of(path: Path) -> set[str]:
    """Return all words of a file, in small letters, and more."""
    data = path.read_bytes()
    return set((gzip.decompress(data) if path.suffix == ".gz" else data).decode().lower().split())


def verbs_of(path: Path, embedding: nf.Embedding) -> list[frozenset[str]]:
    """Return the verbs of each item of a set whose words are known, in the order in which they are judged."""
    from nearfar.evaluate.phrases import _averaged, _known, _read

    items = [item for item in _averaged(_read(path)) if all(_known(embedding, side, True) for side in item[:2])]
    return [
        frozenset(word for side in item[:2] for clause in side for role, word in clause if role == "verb")
        for item in items
    ]


@dataclass(frozen=True)
class Judged:
    """A set of phrases as one trained model sees it, by every composition."""

    names: list[str]
    similarities: np.ndarray  # (compositions, items)
    scores: np.ndarray
    verbs: np.ndarray  # number of the pair of verbs of each item

    def told(self, halves: np.ndarray, rows: np.ndarray) -> tuple[float, list[str]]:
        """Return the mean rho on one half of the composition that is best on the other, and which ones these are.

        ``halves``, (splits, pairs of verbs), is true for the first half; ``rows`` are items, perhaps some repeatedly.
        """
        found, chosen = [], []
        for first in halves[:, self.verbs[rows]]:
            rhos = [rho_of(self.similarities[:, rows[half]], self.scores[rows[half]]) for half in (first, ~first)]
            for here, there in (rhos, rhos[::-1]):
                best = int(np.argmax(np.nan_to_num(here, nan=-2.0)))
                found.append(there[best])
                chosen.append(self.names[best])
        return float(np.nanmean(found)), chosen


def rho_of(rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of each row with the scores."""
    from nearfar.evaluate.words import spearman

    return spearman(rows, np.broadcast_to(scores, rows.shape))


class Bench:
    """The parts, for one method each."""

    def __init__(self, file: ResultFile, cache: Path, lines: int | None, n_jobs: int) -> None:
        self.file, self.shelf = file, Shelf(cache, None, n_jobs)
        self.short = Shelf(cache / "short", lines or LINES, n_jobs)

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

    def of_seed(self, name: str, trial: int) -> tuple[Words, float]:
        """Return what a method makes of the short text, and its last loss."""
        rate = self.best(name)["learning_rate"] if len(METHODS[name].rates) > 1 else METHODS[name].rates[0]
        words, _, loss = self.short.trained(name, "plain", trial, rate, SEED_EPOCHS)
        return words, loss

    def words(self, name: str, trial: int) -> None:
        words, loss = self.of_seed(name, trial)
        sets: dict[str, Any] = {key: DATA / "word_similarity" / file for key, file in SIMILARITY.items()}
        sets["men"] = men(odd=True)
        asked = set().union(words_of(MEN), *(words_of(path) for path in sets.values() if isinstance(path, Path)))
        embedding = words.of(asked)
        for key, pairs in sets.items():

            def similarity(pairs: Any = pairs) -> dict[str, Any]:
                found = nf.evaluate.word_similarity(embedding, pairs)
                more = {"loss": round(loss, 4), "n_numbers": METHODS[name].n_numbers}
                return agreement(found, found.n_pairs) | more

            self.record("words", name, similarity, set=key, trial=trial)

    def homonyms(self, name: str, trial: int) -> None:
        words, _ = self.of_seed(name, trial)
        if words.entropic is None:
            return

        def measure() -> dict[str, Any]:
            named = words.entropic.words if isinstance(words.entropic, nf.SenseEmbedding) else words.entropic.ids
            counts = words.vocabulary.counts[words.vocabulary.words.rows(named)]
            found = nf.evaluate.ambiguity(words.entropic, HOMONYMS.split(), counts)
            values = ("auc", "corrected_auc", "correlation", "corrected_correlation")
            said = {key: round(getattr(found, key), 4) for key in values}
            interval = [round(x, 4) for x in found.interval]
            return said | {"interval": interval, "n_covered": found.n_covered, "n": found.n_words}

        self.record("homonyms", name, measure, trial=trial)

    def judged(self, name: str, trial: int) -> dict[str, Judged]:
        """Return the similarities of all phrases by every composition, from the cache if they are there."""
        path = self.short.folder / f"phrases {name.replace(', ', '-')} {trial}.npz"
        files = {key: DATA / "compositional_ambiguity" / f"{file}.txt.gz" for key, file in PHRASES.items()}
        if not path.exists():
            embedding = self.of_seed(name, trial)[0].of(set().union(*map(words_of, files.values())))
            arrays: dict[str, Any] = {}
            for key, file in files.items():
                rows: list[Any] = []
                for how in compositions(embedding):
                    found = nf.evaluate.phrases(embedding, file, **how, n_bootstrap=1)
                    rows.append(found.similarities)
                    arrays[f"{key} scores"] = found.scores
                arrays[key] = np.stack(rows)
                verbs = verbs_of(file, embedding)
                numbers = {pair: k for k, pair in enumerate(dict.fromkeys(verbs))}
                arrays[f"{key} verbs"] = np.array([numbers[pair] for pair in verbs])
            save(path, **arrays, names=np.array([name_of(how) for how in compositions(embedding)]))
        kept = np.load(path)
        names = kept["names"].tolist()
        return {key: Judged(names, kept[key], kept[f"{key} scores"], kept[f"{key} verbs"]) for key in PHRASES}

    def phrases(self, names: list[str], n_trials: int) -> None:
        """Compare all methods; the first is what the others are held against."""
        seen = {name: [self.judged(name, trial) for trial in range(n_trials)] for name in names}
        for key in PHRASES:
            told = {name: told_of([trial[key] for trial in trials]) for name, trials in seen.items()}
            for name, (values, drawn, chosen) in told.items():
                first, theirs, _ = told[names[0]]
                sets = [trial[key] for trial in seen[name]]
                fixed = np.array([rho_of(one.similarities, one.scores) for one in sets])
                favourite = max(dict.fromkeys(chosen), key=chosen.count)
                record = {
                    "told": rounded(values),
                    "interval": rounded(np.quantile(drawn, [0.025, 0.975])),
                    "difference": round(float(np.mean(values) - np.mean(first)), 4),
                    "difference_interval": rounded(np.quantile(drawn - theirs, [0.025, 0.975])),
                    "chosen": [favourite, round(chosen.count(favourite) / len(chosen), 2)],
                    "all_items": {how: rounded(row) for how, row in zip(sets[0].names, fixed.T, strict=True)},
                    "n_covered": len(sets[0].scores),
                    "n_verbs": int(sets[0].verbs.max()) + 1,
                    "against": names[0],
                }
                self.file.add({"part": "phrases", "method": name, "set": key, **record})
                say(f"{key} {name}: {record}")

    def senses(self, name: str, trial: int) -> None:
        setting, pairs = self.best(name), self.shelf.pairs()
        words = self.shelf.trained(name, "planted", trial, **setting)[0]
        own_vectors = words.kept.get("senses")
        reference = self.shelf.trained("SkipGram", "plain", 0, **self.best("SkipGram"))[0].embedding
        kinds = {"one vector": None}
        if isinstance(words.embedding, nf.DensityEmbedding):
            kinds = {"eigenvectors": None} | ({} if own_vectors is None else {"sense vectors": own_vectors})
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
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--n-jobs", type=int, default=2)
    args = parser.parse_args()
    if args.lines is not None and TRIAL is None:
        parser.error("--lines is for trials, whose results go to a folder of their own: set NEARFAR_RESULTS")
    bench = Bench(ResultFile("word_models", KEYS), args.cache, args.lines, args.n_jobs)
    for part in args.parts:
        if part == "phrases":
            bench.phrases(args.methods, args.runs)
            continue
        for name in args.methods:
            if part == "tune":
                bench.tune(name)
            else:
                for trial in range(1 if part == "senses" else args.runs):
                    getattr(bench, part)(name, trial)


if __name__ == "__main__":
    main()
