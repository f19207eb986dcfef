"""How many senses words have: homonyms and pseudo-words against words of one sense and words that come as often.

MultiSenseWord2DM at its defaults on the first articles of the Wikipedia sample, 4.35 million words, and once on all of
it, in which 250 pairs of words of equal frequency, none of them in the lists, were made one, so that two senses are
certain. Homonyms: words of unrelated meanings, of the kind that norms list (Twilley et al. 1994, Armstrong, Tokowicz &
Plaut 2012), and names that are words or several names. Words of one sense: days and months, numbers, kin, peoples and
countries, professions, elements, animals. All lists were made beforehand, but for a second one of homonyms, made when
the others had been looked at. Rules are found on one half of each of the others, by a hash of the word, and on the
pseudo-words. The half that is held out was looked at with older rules, and the limit of apartness was raised twice for
its words of one sense: their share is no longer held out.

A word of the lists need not have both its meanings in the text: all of *hide* is the verb. So some places of each
homonym were read, ten, of those for development ten or sixteen, the other words' before their scores were known.
``seen`` are those in which a second meaning that has nothing to do with the first, that of a name included, came at
least twice.

The length of a word is beside its apartness: short words are homonyms whatever a text says of them, so that a list of
homonyms is told from other words without reading.

Words are compared by the next words alone. On the halves for development, homonyms of the first text are told with .73
where words are compared by windows of five words, with .75 by windows of one word, .79 by one word with its side, .75
by two with their sides. Passes over the text from 3 to 10, rates from .05 to .2, 50 to 200 numbers, 3 to 10 noise
words, 8 to 30 near words among 2,000 to 10,000 make no difference of .02, nor do both kinds of vectors together.
Without subsampling homonyms are told as well, words of one sense worse.

Scores that were no better, with words compared by windows of five, the first on the half that is held out, the others
on that for development: how near a word is to the 30 words nearest to it, beside how near these are to theirs; how the
words nearest to it, or those that come with it, hang together without it; the largest eigenvalues of its contexts;
whether the same split is found in other parts of the text; what two senses gain, beside its error; what the wide
contexts of places held out tell of the words beside. Nor did it help to split articles in place of contexts, into
three to eight parts, or several times, to take the mean; nor 1,200 contexts in place of 200, of 61 million words; nor a
regression on these and 90 other scores that told pseudo-words best. Pseudo-words that are split by their two words are
no more apart: the contexts of a word of one sense have parts as far from each other. How a word's places crowd in the
text, and how wide its contexts are, tells homonyms from frequent words a little, but also words of one sense.
"""

from __future__ import annotations

import hashlib
import itertools
import lzma
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import WIKI
from lab.experiment import Experiment, Section
from lab.records import Record, average, pick, spread
from lab.results import ResultFile
from lab.words.shelf import MIN_COUNT, lines_of

LINES, ALL, N_PAIRS, N_EQUAL, N_BOOTSTRAP = 6800, 25_791, 250, 200, 1000
HALVES = ("development", "held out")
SECOND, NEW = "homonyms, second list", "new"
# By name, in n_senses.txt: a word may be in several.
WORDS = {
    name: words.split()
    for name, _, words in (
        part.partition("\n") for part in Path(__file__).with_suffix(".txt").read_text("utf-8").split("# ")[1:]
    )
}
LISTS = ("homonyms", "names", "one sense")
ASKED = ("january", "seven", "husband", "apple", "java", "seal", "bank", "bass", "spring", "russian")


def half_of(word: str) -> str:
    """Return which half of its list a word is in."""
    return HALVES[hashlib.md5(word.encode(), usedforsecurity=False).digest()[0] % 2]


def pairs_of(vocabulary: nf.Vocabulary, seed: int) -> list[tuple[str, str]]:
    """Return pairs of words of no list that are next to each other in the order of their frequency."""
    listed = {word for name in (*LISTS, "second") for word in WORDS[name]}
    counts = vocabulary.counts
    words = [word for k, word in enumerate(vocabulary.words) if k >= 150 and counts[k] >= 30 and word not in listed]
    chosen = np.random.default_rng(seed).permutation(len(words) // 2)[:N_PAIRS]
    return [(words[2 * k], words[2 * k + 1]) for k in chosen.tolist()]


def interval(values: np.ndarray) -> list[float]:
    """Return the mean and its bootstrap interval, 95 %."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(N_BOOTSTRAP, len(values)))].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def shares_below(scores: np.ndarray, counts: np.ndarray, asked: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each asked word the share of the ``N_EQUAL`` others next to it in frequency with a smaller score."""
    order = others[np.argsort(-counts[others], kind="stable")]
    width = min(N_EQUAL, len(order))
    first = np.clip(np.searchsorted(-counts[order], -counts[asked]) - width // 2, 0, len(order) - width)
    near = scores[order[first[:, None] + np.arange(width)]]
    own = scores[asked][:, None]
    return ((near < own) + 0.5 * (near == own)).mean(axis=1)


def measure(text: nf.EncodedCorpus, seed: int, n_jobs: int) -> list[dict[str, Any]]:
    """Return a record for each list and half."""
    pairs = pairs_of(text.vocabulary, seed)
    planted = nf.evaluate.plant_pseudowords(text, pairs)
    started = time.process_time()
    model = nf.MultiSenseWord2DM(random_state=seed, n_jobs=n_jobs).fit(planted)
    seconds = time.process_time() - started
    vocabulary, scores = model.vocabulary_, model.apartness_
    assert vocabulary is not None
    counts, n_senses = vocabulary.counts, (model.sense_counts_ > 0).sum(axis=1)
    shortness = -np.array([len(str(word)) for word in vocabulary.words], float)
    groups = {(kind, half): [w for w in WORDS[kind] if half_of(w) == half] for kind in LISTS for half in HALVES}
    groups[SECOND, NEW] = WORDS["second"]
    for kind, half in (*(("homonyms", half) for half in HALVES), (SECOND, NEW)):
        groups[f"{kind}, both meanings seen", half] = [w for w in groups[kind, half] if w in WORDS["seen"]]
    groups["pseudo-words", "all"] = ["|".join(pair) for pair in pairs]
    rows = {key: vocabulary.words.rows(list(dict.fromkeys(words))) for key, words in groups.items()}
    rows = {key: found[found >= 0] for key, found in rows.items()}
    rows = {key: found[~np.isnan(scores[found])] for key, found in rows.items()}
    listed = np.concatenate([*rows.values()])
    any_word = np.setdiff1d(np.flatnonzero(~np.isnan(scores) & (np.arange(len(scores)) >= 150)), listed)
    one = np.concatenate([rows["one sense", half] for half in HALVES])
    senses = model.senses_
    told = {
        word: [
            f"{sense.weight:.2f} " + " ".join(str(near) for near, _ in sense.nearest)
            for sense in senses.senses_of(word, 6)
        ]
        for word in ASKED
    }
    records = []
    for (kind, half), asked in rows.items():
        controls = rows["one sense", half] if half in HALVES else one
        split = n_senses[asked] > 1
        record = {
            "kind": kind, "half": half, "n_words": len(asked), "several": float(split.mean()),
            "as_frequent": interval(shares_below(scores, counts, asked, any_word)),
            "one_sense": interval(shares_below(scores, counts, asked, controls)),
            "number_as_frequent": interval(shares_below(n_senses.astype(float), counts, asked, any_word)),
            "shortness_as_frequent": interval(shares_below(shortness, counts, asked, any_word)),
            "seconds": seconds, "several_of_all": float((n_senses[any_word] > 1).mean()),
        }  # fmt: skip
        if kind == "pseudo-words":
            record["told"] = told
        records.append(record)
    return records


def run(file: ResultFile, given: Namespace) -> None:
    lines_of(given)
    for n_lines, runs in ((given.lines or LINES, given.runs), (ALL, given.runs_of_all)):
        text = None
        for trial in range(runs):
            if file.wants(kind="pseudo-words", half="all", trial=trial, lines=n_lines):
                text = encoded(n_lines) if text is None else text
                for record in measure(text, trial, given.n_jobs):
                    file.add({"lines": n_lines, "trial": trial, "n_tokens": text.n_tokens, **record})


def encoded(n_lines: int) -> nf.EncodedCorpus:
    """Return the first articles of the sample."""
    with lzma.open(WIKI, "rt") as lines:
        return nf.Corpus(itertools.islice(lines, n_lines)).encode(min_count=MIN_COUNT)


def _shown(records: list[Record], name: str) -> str:
    middle, low, high = (np.mean([record[name][k] for record in records]) for k in range(3))
    return f"{middle:.3f} [{low:.2f}, {high:.2f}]"


def told(section: Section, records: list[Record]) -> None:
    """MultiSenseWord2DM at its defaults on Wikipedia with 250 pseudo-words, each of two words of equal frequency.
    Several: the share that gets several senses. P: that a word is further apart than one of 200 that come as often, any
    other, or a word of one sense; by number: by the number of senses; by shortness: by fewer letters, without text. In
    brackets bootstrap intervals, means over seeds. Rules were found on the halves for development. Both meanings seen:
    homonyms that had both at two of ten places that were read.
    """
    controls = section.target("words of one sense, other half, that get one", "90 %")
    homonyms = section.target("homonyms, held out, against words as frequent", "0.75")
    second = section.target("homonyms of the second list, against words as frequent", "0.75")
    for (kind, half), target in {("homonyms", HALVES[1]): homonyms, (SECOND, NEW): second}.items():
        for mine in _of(records, kind, half, LINES):
            value = float(np.mean([r["as_frequent"][0] for r in mine]))
            target.tell(f"{value:.3f}", value >= 0.75)
    for mine in _of(records, "one sense", HALVES[1], LINES):
        share = 1 - float(np.mean([r["several"] for r in mine]))
        controls.tell(f"{share:.1%}", share >= 0.9)
    for n_lines in dict.fromkeys(r["lines"] for r in records):
        rows = []
        for kind, half in dict.fromkeys((r["kind"], r["half"]) for r in records):
            for mine in _of(records, kind, half, n_lines):
                against = "–" if kind == "one sense" else _shown(mine, "one_sense")
                spelled = "–" if kind == "pseudo-words" else _shown(mine, "shortness_as_frequent")
                shown = (_shown(mine, "as_frequent"), against, _shown(mine, "number_as_frequent"), spelled)
                rows.append([kind, half, mine[0]["n_words"], spread(mine, "several"), *shown, len(mine)])
        first = pick(records, lines=n_lines)[0]
        section.say(
            f"""{first["n_tokens"] / 1e6:.1f} million words; of words in no list {
                average(pick(records, lines=n_lines), "several_of_all"):.0%} get several senses."""
        )
        columns = ["words", "half", "n", "several", "P, any word as frequent", "P, words of one sense", "P, by number"]
        section.table([*columns, "P, by shortness", "seeds"], rows)
    for mine in _of(records, "pseudo-words", "all", LINES):
        section.say("What a reader sees of ten words, seed 0; of those with two senses each is a line.")
        section.table(
            ["word", "weight and nearest words"],
            [[word, line] for word, lines in mine[0]["told"].items() for line in lines],
        )


def _of(records: list[Record], kind: str, half: str, n_lines: int) -> list[list[Record]]:
    """Return the records of all seeds as one list, or no list where there are none."""
    found = pick(records, kind=kind, half=half, lines=n_lines)
    return [found] if found else []


EXPERIMENT = Experiment("How many senses", run, "lines kind half trial", "wiki_text8_style").takes(
    runs=3, runs_of_all=1, lines=int, n_jobs=2
)
