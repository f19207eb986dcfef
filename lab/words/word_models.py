"""Models of words beside each other: vectors and density matrices, on similarities, phrases and ambiguity.

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

What is trained is kept in ``--cache FOLDER``, what is measured in the result file: a run that was stopped goes on from
there, and runs of some ``--methods`` or ``--parts`` add to each other. ``--lines`` takes the beginning of the text, for
trials, whose results go to a folder of their own: set NEARFAR_RESULTS.
"""

from __future__ import annotations

import gzip
import itertools
import statistics
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import DATA, MEN, SIMILARITY
from lab.experiment import Experiment, Section, Target
from lab.records import Record, average, number, pick, spread_of, values
from lab.results import ResultFile
from lab.words.shelf import CACHE, METHODS, SEED_EPOCHS, Shelf, Words, lines_of, save
from nearfar.density import composition
from nearfar.density.matrices import smat

PARTS = ("tune", "words", "phrases", "homonyms", "senses")
SETS = {"wordsim": SIMILARITY["wordsim"], "simlex": SIMILARITY["simlex"]} | {
    name: DATA / "word_similarity" / f"EN-{file}.txt"
    for name, file in {"mturk": "MTurk-287", "verb": "VERB-143", "yp": "YP-130"}.items()
}
PHRASES = {"ML2008": "ML2008", "GS2011": "GS2011data", "GS2012": "GS2012data", "ELLDIS": "ELLDIS", "ELLSIM": "ELLSIM"}
N_SPLITS, N_BOOTSTRAP = 5, 200
# Words that dictionaries list as homonyms, of unrelated meanings, and that are no forms of frequent other words.
HOMONYMS = """
bank bark bass bat bear board bolt bow bowl box brake calf case cell chip clip club coach count court crane date deck
diamond drill duck fair fan file firm fly foil fork gum hail hamper hide iron jam jar lap lead light lime lock log match
mine mint mole mould novel organ page palm park pen perch pitch plant plot pole pool port pound press pupil racket rail
rank ring rock rose ruler sack scale seal second sentence shed sink slip sole spell spring squash staff star stable
stern stick strike tank tap temple tie till tip toast toll train trunk yard wave yarn
"""
SENSES = ("separation", "chance", "recovered", "entropy_auc", "lowered", "lowered_by_others", "lowered_more")
DISAMBIGUATION = ("ML2008", "GS2011", "GS2012")
SHOWN = {
    "wordsim": "WordSim-353",
    "men": "MEN, half",
    "mturk": "MTurk-287",
    "simlex": "SimLex-999",
    "verb": "VERB-143",
    "yp": "YP-130",
}
FIXED = ("mult", "add", "kronecker", "verb", "phaser")
MATRICES = "phrases: density matrices against skip-gram, compositions chosen on one half"


def men(odd: bool) -> list[tuple[str, str, float]]:
    """Return every other pair of MEN: the even ones are tuned on, the odd ones reported."""
    rows = [line.split() for line in MEN.read_text().splitlines()]
    return [(a, b, float(score)) for a, b, score in rows[odd::2]]


def agreement(found: Any, n: int) -> dict[str, Any]:
    """Return what a record says of a correlation."""
    score, *interval = (None if np.isnan(x) else x for x in (found.rho, *found.interval))
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
    from nearfar.evaluate.words import _averaged, _known, _read

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


def judge(path: Path, embedding: nf.Embedding, files: dict[str, Path]) -> None:
    """Write the similarities of all phrases of some sets by every composition of an embedding."""
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


def judgements(path: Path) -> dict[str, Judged]:
    """Return what :func:`judge` wrote, by set."""
    kept = np.load(path)
    names = kept["names"].tolist()
    sets = [key.removesuffix(" scores") for key in kept if key.endswith(" scores")]
    return {key: Judged(names, kept[key], kept[f"{key} scores"], kept[f"{key} verbs"]) for key in sets}


def default_of(judged: Judged) -> str:
    """Return the composition that nothing is chosen for: Phaser with the verb as operator, of vectors the product."""
    return "phaser" if "phaser" in judged.names else "mult"


def of_default(trials: list[Judged]) -> np.ndarray:
    """Return the mean rho over trials by that composition, of all items and then of each bootstrap sample."""
    rng = np.random.default_rng(0)
    rows = trials[0].names.index(default_of(trials[0]))
    items = [np.flatnonzero(trials[0].verbs == verb) for verb in range(int(trials[0].verbs.max()) + 1)]
    drawn = [np.arange(len(trials[0].scores))]
    drawn += [
        np.concatenate([items[verb] for verb in rng.integers(len(items), size=len(items))]) for _ in range(N_BOOTSTRAP)
    ]
    found = [[rho_of(one.similarities[[rows]][:, of], one.scores[of])[0] for one in trials] for of in drawn]
    return np.array(found).mean(axis=1)


def compared(seen: dict[str, list[Judged]]) -> Iterator[tuple[str, Record]]:
    """Yield what is told of a set for each model, given its trials; the first model is what others are held against."""
    told = {name: told_of(trials) for name, trials in seen.items()}
    by_default = {name: of_default(trials) for name, trials in seen.items()}
    against = next(iter(told))
    first, theirs, _ = told[against]
    for name, (scores, drawn, chosen) in told.items():
        trials = seen[name]
        fixed = np.array([rho_of(one.similarities, one.scores) for one in trials])
        favourite = max(dict.fromkeys(chosen), key=chosen.count)
        yield (
            name,
            {
                "told": scores,
                "interval": np.quantile(drawn, [0.025, 0.975]).tolist(),
                "difference": float(np.mean(scores) - np.mean(first)),
                "difference_interval": np.quantile(drawn - theirs, [0.025, 0.975]).tolist(),
                "chosen": [favourite, chosen.count(favourite) / len(chosen)],
                "all_items": {how: row.tolist() for how, row in zip(trials[0].names, fixed.T, strict=True)},
                "n_covered": len(trials[0].scores),
                "n_verbs": int(trials[0].verbs.max()) + 1,
                "against": against,
                "default": [default_of(trials[0]), float(by_default[name][0])],
                "default_difference": float(by_default[name][0] - by_default[against][0]),
                "default_interval": np.quantile(
                    by_default[name][1:] - by_default[against][1:], [0.025, 0.975]
                ).tolist(),
            },
        )


class Bench:
    """The parts, for one method each."""

    def __init__(self, file: ResultFile, cache: Path, lines: int, n_jobs: int) -> None:
        self.file, self.shelf = file, Shelf(cache, None, n_jobs)
        self.short = Shelf(cache / "short", lines, n_jobs)

    def new(self, part: str, name: str, **keys: Any) -> dict[str, Any]:
        """Return the fields of a record that has still to be measured; else none."""
        key = {"part": part, "method": name, **keys}
        return key if self.file.wants(**key) else {}

    def tune(self, name: str) -> None:
        for rate, n_epochs in itertools.product(METHODS[name].rates, METHODS[name].epochs):
            setting = {"learning_rate": rate, "n_epochs": n_epochs}
            if key := self.new("tune", name, **setting):
                try:
                    words, seconds, loss = self.shelf.trained(name, "plain", 0, **setting)
                except nf.errors.NumericalError:
                    self.file.add({**key, "score": None})  # too large a step
                    continue
                found = nf.evaluate.word_similarity(words.embedding, men(odd=False), n_bootstrap=1)
                said = {"score": found.rho, "seconds": seconds, "loss": loss}
                self.file.add({**key, **said, "n_numbers": METHODS[name].n_numbers})

    def best(self, name: str) -> dict[str, Any]:
        """Return the setting that was best on the half of MEN that is tuned on."""
        tried = [r for r in pick(self.file.records, part="tune", method=name) if r["score"] is not None]
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
        for of, pairs in sets.items():
            if key := self.new("words", name, set=of, trial=trial):
                found = nf.evaluate.word_similarity(embedding, pairs)
                more = {"loss": loss, "n_numbers": METHODS[name].n_numbers}
                self.file.add({**key, **agreement(found, found.n_pairs), **more})

    def homonyms(self, name: str, trial: int) -> None:
        words, _ = self.of_seed(name, trial)
        if words.entropic is not None and (key := self.new("homonyms", name, trial=trial)):
            named = words.entropic.words if isinstance(words.entropic, nf.SenseEmbedding) else words.entropic.ids
            counts = words.vocabulary.counts[words.vocabulary.words.rows(named)]
            found = nf.evaluate.ambiguity(words.entropic, HOMONYMS.split(), counts)
            values = ("auc", "corrected_auc", "correlation", "corrected_correlation")
            said = {name: getattr(found, name) for name in (*values, "interval", "n_covered")}
            self.file.add({**key, **said, "n": found.n_words})

    def judged(self, name: str, trial: int) -> dict[str, Judged]:
        """Return the similarities of all phrases by every composition, from the cache if they are there."""
        path = self.short.folder / f"phrases {name.replace(', ', '-')} {trial}.npz"
        files = {key: DATA / "compositional_ambiguity" / f"{file}.txt.gz" for key, file in PHRASES.items()}
        if not path.exists():
            judge(path, self.of_seed(name, trial)[0].of(set().union(*map(words_of, files.values()))), files)
        return judgements(path)

    def phrases(self, names: list[str], n_trials: int) -> None:
        """Compare all methods; the first is what the others are held against."""
        seen = {name: [self.judged(name, trial) for trial in range(n_trials)] for name in names}
        for key in PHRASES:
            for name, record in compared({name: [trial[key] for trial in trials] for name, trials in seen.items()}):
                self.file.add({"part": "phrases", "method": name, "set": key, **record})

    def senses(self, name: str, trial: int) -> None:
        setting, pairs = self.best(name), self.shelf.pairs()
        words = self.shelf.trained(name, "planted", trial, **setting)[0]
        own_vectors = words.kept.get("senses")
        reference = self.shelf.trained("SkipGram", "plain", 0, **self.best("SkipGram"))[0].embedding
        kinds = {"one vector": None}
        if isinstance(words.embedding, nf.DensityEmbedding):
            kinds = {"eigenvectors": None} | ({} if own_vectors is None else {"sense vectors": own_vectors})
        for kind, own in kinds.items():
            if key := self.new("senses", name, set=kind, trial=trial, **setting):
                found = nf.evaluate.sense_induction(words.embedding, pairs, reference=reference, senses=own)
                known = {value: x for value in SENSES if not np.isnan(x := getattr(found, value))}
                self.file.add({**key, "n_covered": found.n_covered, "n": found.n_pairs, **known})


def run(file: ResultFile, given: Namespace) -> None:
    bench = Bench(file, given.cache, lines_of(given), given.n_jobs)
    for part in given.parts:
        if part == "phrases":
            bench.phrases(given.methods, given.runs)
        elif part == "tune":
            for name in given.methods:
                bench.tune(name)
        else:
            for name, trial in product(given.methods, range(1 if part == "senses" else given.runs)):
                getattr(bench, part)(name, trial)


# ---------------------------------------------------------------- the page


def told(section: Section, records: list[Record]) -> None:
    """4.3 million words of Wikipedia, 3 passes, windows of 5, 5 noise words, sample 1e-3; mean ± standard deviation
    over seeds. Numbers: stored for a word. Rates are the best of three on every other pair of MEN (17 million words, 5
    passes), and 0.05 for models of 17 numbers; the MEN shown is the other half. Spearman's rho.
    """
    phrases = [r for r in pick(records, part="phrases") if "told" in r]
    target = section.target(MATRICES, "better on two of three sets of disambiguation")
    tell_ahead(target, phrases, DISAMBIGUATION, 2)
    _words_table(section, [r for r in pick(records, part="words") if "loss" in r])
    section.say("""**Phrases.** A composition is chosen on one half of each set and told on the other, without a
        pair of verbs in common; five ways to cut, all seeds. In brackets 95 % intervals of a bootstrap over the
        pairs of verbs, the choice made anew.""")
    _phrases_table(section, phrases)
    section.say("The same with compositions that are not chosen, all items: mean over seeds (least – most).")
    _fixed_table(section, phrases)
    section.say("""**Homonyms.** P(the entropy of a homonym is larger than that of another word), of any other, and
        of 200 that come as often; rank correlation of entropy, and of its rank among equally frequent words, with
        the count. Means over seeds; the widest of the bootstrap intervals.""")
    _homonyms_table(section, pick(records, part="homonyms"))
    section.say("""**Planted senses**, one seed, 17 million words, 5 passes, 100 pseudo-words. Separation: how well
        two senses separate the neighbours of the two words (chance: shuffled). Recovered: the share of their ten
        neighbours each that are nearest to the senses. Entropy: P that it exceeds that of an unplanted word of the
        same frequency. Lowered: the share of neighbours that lower the entropy by Phaser; of other words; and that
        lower it more than the other word.""")
    _senses_table(section, pick(records, part="senses"))


def _methods(records: list[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Yield methods in the order of the result file, with their records."""
    for method in dict.fromkeys(r["method"] for r in records):
        yield method, pick(records, method=method)


def _words_table(section: Section, records: list[Record]) -> None:
    rows = []
    for method, mine in _methods(records):
        scores = [values(pick(mine, set=name), "score") for name in SHOWN]
        first = [method, mine[0]["n_numbers"], max(map(len, scores)), number(average(mine, "loss"))]
        rows.append([*first, *map(spread_of, scores)])
    section.table(["model", "numbers", "seeds", "loss", *SHOWN.values()], rows)


def bracketed(limits: list[float]) -> str:
    return f"[{limits[0]:.2f}, {limits[1]:.2f}]"


def cells_of(r: Record) -> list[str]:
    """Return what was chosen most often, rho and the difference to the first model."""
    gap = f"{r['difference']:+.3f} {bracketed(r['difference_interval'])}" if r["method"] != r["against"] else "–"
    told = f"{spread_of(r['told'])} {bracketed(r['interval'])}"
    return [f"{r['chosen'][0]} ({r['chosen'][1]:.0%})", told, gap]


def _phrases_table(section: Section, records: list[Record]) -> None:
    rows = [
        [r["set"], r["method"], len(r["told"]), *cells_of(r), r["n_covered"], r["n_verbs"]]
        for r in sorted(records, key=lambda r: list(PHRASES).index(r["set"]))
    ]
    against = records[0]["against"] if records else "the first"
    head = ["set", "model", "seeds", "chosen most often", "rho", f"difference to {against}", "items", "pairs of verbs"]
    section.table(head, rows)


def _fixed_table(section: Section, records: list[Record]) -> None:
    rows = []
    for (method, mine), how in product(_methods(records), FIXED):
        found = {r["set"]: r["all_items"][how] for r in mine if how in r["all_items"]}
        cells = {name: f"{statistics.fmean(of):.3f} ({min(of):.2f} – {max(of):.2f})" for name, of in found.items()}
        rows += [[method, how, *(cells.get(name, "–") for name in PHRASES)]] if cells else []
    section.table(["model", "composition", *PHRASES], rows)


def _homonyms_table(section: Section, records: list[Record]) -> None:
    for _, mine in _methods(records):
        mine[0]["widest"] = bracketed([min(r["interval"][0] for r in mine), max(r["interval"][1] for r in mine)])
    section.rows(
        "model | seeds | any word | equally frequent words | correlation | corrected | homonyms",
        "{method} | {trial:count} | {auc:±sd} | {corrected_auc:±sd} {widest} | {correlation:±sd}"
        " | {corrected_correlation:±sd} | {n_covered}",
        _methods(records),
    )


def _senses_table(section: Section, records: list[Record]) -> None:
    section.rows(
        "model | senses | separation | chance | recovered | entropy | lowered | by others | more",
        f"{{method}} | {{set}} | {' | '.join(f'{{{name}:.2f}}' for name in SENSES)}",
        ((pick(mine, set=kind),) for _, mine in _methods(records) for kind in dict.fromkeys(r["set"] for r in mine)),
    )


def tell_ahead(target: Target, records: list[Record], sets: Sequence[str], wanted: int) -> None:
    """Tell of the model that is best on some sets; met if its interval of the difference is above 0 on so many."""
    best: list[tuple[int, float, str]] = []
    for method, mine in _methods(records):
        found = [r for r in mine if r["set"] in sets]
        if found and not method.startswith("SkipGram"):
            above = sum(r["difference_interval"][0] > 0 for r in found)
            shown = [f"{r['difference']:+.3f} {bracketed(r['difference_interval'])} on {r['set']}" for r in found]
            mean = statistics.fmean(r["difference"] for r in found)
            best.append((above, mean, f"{method}: {', '.join(shown)}"))
    if best:
        target.tell(max(best)[2], max(best)[0] >= wanted)


EXPERIMENT = Experiment(
    "Word models",
    run,
    "part method set composition operator learning_rate n_epochs trial",
    "wiki_text8_style word_similarity compositional_ambiguity",
).takes(cache=CACHE, methods=tuple(METHODS), parts=PARTS, runs=3, lines=int, n_jobs=2)
