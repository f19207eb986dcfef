"""The learning rate of skip-gram by the size of the text and the epochs, beside gensim and fastText.

SkipGram at fixed rates and at its own, one thread, all else at its default: Python's documentation
(``pydoc_data.topics``, with the loss on a fifth that is held out, too), the first one, five and all 17 million words of
the Wikipedia sample, one to five epochs. A record has Spearman's rho on each set of word similarity of which the text
knows at least 20 pairs, their mean, and of 17 million words the share of the Google analogies that are solved, too
(3CosAdd).

``--peers`` then takes the first 12 million characters in two epochs, beside gensim (skip-gram) and fastText at the same
rates, and at what is the default of each: 0.025 for gensim, 0.05 with sample 1e-4 for fastText, which runs in an
environment of its own, see lab/peers/elsewhere.py, and has no seed.
"""

from __future__ import annotations

import lzma
import pydoc_data.topics
import statistics
from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import ANALOGIES, DATA, WIKI, articles, text_file
from lab.experiment import Choice, Experiment, ResultFile, Section, Target
from lab.measure import cpu_timed
from lab.peers import elsewhere
from lab.records import Record, average, distinct, duration, middle, number, on_the_same, pick, values
from lab.words import words_strongest

TEXTS = {"python": "Python's documentation", "1M": "1 million", "5M": "5 million", "17M": "17 million"}
BEGINNING, CHARACTERS, PEER_EPOCHS = "2M", 12_000_000, words_strongest.N_EPOCHS
MIN_COUNT, ENOUGH, HELD_OUT = 5, 20, 0.2
RATES, EPOCHS = ("0.025", "0.05", "0.1", "0.2", "auto"), (1, 2, 3, 5)
NEAR, MEN, SEEDS = 0.01, 0.40, 3
PEERS = (
    *product(("nearfar",), (0.025, 0.05, 0.1, "auto")),
    *product(("gensim",), (0.025, 0.05, 0.1)),
    *product(("fastText",), ("its default", 0.05, 0.1)),
)


@cache
def text(name: str) -> nf.EncodedCorpus:
    """Return an encoded text by its name."""
    lines: Iterable[str] | Path
    if name == "python":
        lines = pydoc_data.topics.topics.values()
    elif name == BEGINNING:
        lines = beginning().splitlines()
    else:
        lines = WIKI if name == "17M" else articles(1_000_000 * int(name[:-1]))
    return nf.Corpus(lines, lowercase=True, tokenizer="blanks").encode(min_count=MIN_COUNT)


def beginning() -> str:
    """Return the first characters of Wikipedia."""
    with lzma.open(WIKI, "rt") as file:
        return file.read(CHARACTERS)


def quality(vectors: nf.Embedding, *, analogies: bool) -> dict[str, Any]:
    """Return rho of each set and the pairs that are known of it, the mean, and the analogies solved."""
    sets = {path.stem.removeprefix("EN-"): path for path in sorted((DATA / "word_similarity").glob("EN-*.txt"))}
    found = {name: nf.evaluate.word_similarity(vectors, path, n_bootstrap=1) for name, path in sets.items()}
    record: dict[str, Any] = {name: float(one.rho) for name, one in found.items() if one.n_covered >= ENOUGH}
    record["mean"] = sum(record.values()) / len(record)
    record["covered"] = {name: one.n_covered for name, one in found.items()}
    if analogies:
        record["analogies"] = nf.evaluate.word_analogies(vectors, ANALOGIES).accuracy
    return record


def fit(encoded: nf.EncodedCorpus, n_epochs: int, rate: Any, seed: int, **more: Any) -> nf.SkipGram:
    return nf.SkipGram(learning_rate=rate, n_epochs=n_epochs, random_state=seed, n_jobs=1, **more).fit(encoded)


def own_rate(encoded: nf.EncodedCorpus, n_epochs: int) -> float:
    """Return the rate that a fit would choose."""
    model = nf.SkipGram(n_epochs=n_epochs)
    return model._first_rate(model._windows_of(encoded, 1))


def run(file: ResultFile, given: Namespace) -> None:
    for seed, name, n_epochs, rate in product(given.seed, given.texts, given.epochs, given.rates):
        if key := file.new("nearfar", name, n_epochs, rate if rate == "auto" else float(rate), seed):
            chosen = own_rate(text(name), n_epochs) if rate == "auto" else key["rate"]
            if same := file.find(**{**key, "rate": chosen}) if rate == "auto" else None:  # the bits are the same
                file.add({**same, **key, "chosen": chosen})
                continue
            model, seconds = cpu_timed(fit, text(name), n_epochs, chosen, seed)
            more = {"seconds": seconds, "chosen": model.learning_rate_}
            if name == "python":  # of which the sets know few words
                held = fit(text(name), n_epochs, chosen, seed, validation_fraction=HELD_OUT)
                more["held_out"] = float(held.validation_curve_[-1])
            file.add({**key, **more, **quality(model.vectors_, analogies=name == "17M")})
    if given.peers:
        beside_others(file, given)


def beside_others(file: ResultFile, given: Namespace) -> None:
    with text_file(beginning()) as path:
        for seed, (method, rate) in product(given.seed, PEERS):
            if method == "fastText" and seed:  # it takes none
                continue
            if key := file.new(method, BEGINNING, PEER_EPOCHS, rate, seed):
                if method == "nearfar":
                    model, seconds = cpu_timed(fit, text(BEGINNING), PEER_EPOCHS, rate, seed)
                    vectors, more = model.vectors_, {"chosen": model.learning_rate_}
                else:
                    default = {"rate": 0.05, "sample": 1e-4} if rate == "its default" else {"rate": rate}
                    vectors, seconds = words_strongest.fit(method, path, seed=seed, **default)
                    more = {"version": elsewhere.version("fasttext")} if method == "fastText" else {}
                file.add({**key, "seconds": seconds, **more, **quality(vectors, analogies=False)})


# ---------------------------------------------------------------- the page


def told(section: Section, records: list[Record]) -> None:
    """SkipGram with one thread at its defaults. The mean of Spearman's rho over the sets of which the text knows 20
    pairs: of Python's documentation VERB-143 alone, so the loss on a held-out fifth is told too. Last column: the
    chosen rate; in brackets seeds, where fewer than three.
    """
    beside, records = pick(records, text=BEGINNING), [r for r in records if r["text"] != BEGINNING]
    wiki, python = [r for r in records if r["text"] != "python"], pick(records, text="python")
    target = section.target("skip-gram's own rate, mean over the word sets", f"within {NEAR} of the best fixed one")
    _near_the_best(target, wiki, "mean")
    target = section.target("the same on Python's documentation: VERB-143", f"within {NEAR} of the best fixed one")
    _near_the_best(target, python, "mean")
    target = section.target("the same on Python's documentation: loss held out", f"within {NEAR} of the best fixed one")
    _near_the_best(target, [{**r, "less": -r["held_out"]} for r in python], "less")
    _no_set_below(section, pick(wiki, text="17M", n_epochs=5))
    _against_fasttext(section, beside)
    rows = []
    for name, n_epochs, mine in _cells(records):
        for what in ("mean", "held_out"):
            if any(what in r for r in mine):
                cells = [_mean(pick(mine, rate=rate), what) for rate in (*map(float, RATES[:-1]), "auto")]
                title = TEXTS[name] + ", held out" * (what == "held_out")
                rows.append([title, n_epochs, *cells, number(average(pick(mine, rate="auto"), "chosen"), 2)])
    section.table(["words", "epochs", *RATES[:-1], "its own", "which is"], rows)
    long = pick(wiki, text="17M", n_epochs=5)
    section.say("All sets after five epochs of 17 million words.")
    by_rate = [pick(long, rate=rate) for rate in (*map(float, RATES[:-1]), "auto")]
    rows = [[name, *(_mean(mine, name) for mine in by_rate)] for name in (*_sets(long), "analogies", "mean")]
    section.table(["set", *RATES[:-1], "its own"], rows)
    section.say("""The first two million words in two epochs, one thread, reading included for gensim (default rate
        0.025) and fastText (0.05, sample 1e-4, with subwords, without a seed).""")
    rows = []
    for method, rate in PEERS:
        if mine := pick(beside, method=method, rate=rate):
            shown = f"its own, {mine[0]['chosen']:g}" if rate == "auto" else rate
            scores = (_mean(mine, name) for name in ("mean", "MEN-TR-3k", "WS-353-ALL", "SIMLEX-999"))
            rows.append([method, shown, *scores, duration(middle(mine, "seconds"))])
    section.table(["program", "rate", "mean", "MEN", "WordSim-353", "SimLex-999", "processor time"], rows)


def _cells(records: list[Record]) -> Iterator[tuple[str, int, list[Record]]]:
    """Yield each text, from the shortest, and number of epochs, with their records."""
    for name, n_epochs in product(TEXTS, distinct(records, "n_epochs")):
        if mine := pick(records, text=name, n_epochs=n_epochs):
            yield name, n_epochs, mine


def _sets(records: list[Record]) -> list[str]:
    """Return the names of the sets of word similarity that records have."""
    return sorted({name for record in records for name in record["covered"]})


def _mean(records: list[Record], name: str) -> str:
    """Return a mean over seeds, and how many there are where they are few."""
    seeds = values(records, name)
    return number(average(records, name)) + f" ({len(seeds)})" * (0 < len(seeds) < SEEDS)


def _near_the_best(target: Target, records: list[Record], what: str) -> None:
    """Tell how far the chosen rate is below the best fixed one, each of the seeds that both have."""
    found = []
    for name, n_epochs, mine in _cells(records):
        chosen = {r["seed"]: r[what] for r in pick(mine, rate="auto")}
        behind = []
        for rate in map(float, RATES[:-1]):
            both = [(r[what], chosen[r["seed"]]) for r in pick(mine, rate=rate) if r["seed"] in chosen]
            if both:
                behind.append(statistics.fmean(fixed - own for fixed, own in both))
        if behind:
            found.append((max(behind), f"{TEXTS[name]}, {n_epochs} epoch{'s' * (n_epochs > 1)}"))
    if found:
        most, where = max(found)
        target.tell(f"at most {most:.3f} below ({where}); {len(found)} cases", most <= NEAR)


def _no_set_below(section: Section, records: list[Record]) -> None:
    target = section.target("17 million words, 5 epochs: each set and analogies", f"≥ that of rate 0.025 less {NEAR}")
    own, fixed = pick(records, rate="auto"), pick(records, rate=0.025)
    if own and fixed:
        own, fixed = on_the_same("seed", own, fixed)
        gains = {name: (average(own, name) or 0) - (average(fixed, name) or 0) for name in (*_sets(own), "analogies")}
        worst = min(gains, key=lambda name: gains[name])
        seeds = f"{len(own)} seed{'s' * (len(own) > 1)}"
        target.tell(f"{gains[worst]:+.3f} at least ({worst}), {seeds}", gains[worst] >= -NEAR)


def _against_fasttext(section: Section, records: list[Record]) -> None:
    target = section.target("12 million characters, 2 epochs: MEN", f"≥ {MEN:.2f} and above fastText's default")
    own, theirs = pick(records, method="nearfar", rate="auto"), pick(records, method="fastText", rate="its default")
    if own and theirs:
        ours, other = (average(mine, "MEN-TR-3k") or 0 for mine in (own, theirs))
        target.tell(f"{ours:.3f} / {other:.3f}", ours >= MEN and ours > other)


EXPERIMENT = Experiment(
    "The learning rate by the size of the text",
    run,
    "method text n_epochs rate seed",
    "wiki_text8_style word_similarity word_analogy",
    command="--peers",
).takes(texts=Choice(tuple(TEXTS), TEXTS), epochs=EPOCHS, rates=Choice(RATES, ()), seed=(0, 1, 2), peers=False)
