"""Senses in a file: how small they are beside the density matrices that they make, and what rounding costs.

MultiSenseWord2DM at its defaults (100 numbers, up to 3 senses) on the first articles of the Wikipedia sample, 4.3
million words, three passes. 100 pseudo-words are planted, pairs of words of equal frequency made one, so that of each
place it is known which word was there. Which word a sense stands for is learned from every other place and told of the
rest. For each storage: the bytes of its file; the share of places whose sense is of the right word, and of those that
are right if each pseudo-word is taken to be the more frequent one of its two words; of those whose sense is that of
float32; and the share of the ten words nearest to a sense that are those of float32. ``--lines`` takes the beginning of
the text, for trials, whose results go to a folder of their own: set NEARFAR_RESULTS.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, Section
from lab.measure import timed
from lab.records import Record, average, number, pick, spread
from lab.results import ResultFile
from lab.words.shelf import CACHE, SEED_EPOCHS, WINDOW, Shelf, lines_of

STORAGES = (None, "int8", "int4")
N_PLACES, N_WORDS, TOPN = 200, 300, 10  # places of a pseudo-word, words whose neighbours are compared, and how many
Place = tuple[str, str, list[str]]
GOAL = 100


def places(shelf: Shelf) -> Iterator[Place]:
    """Yield a pseudo-word, the word that was there, and the words around, for some places of each pseudo-word."""
    before, after = shelf.text("plain"), shelf.text("planted")
    old, new = (text.vocabulary.words.to_list() for text in (before, after))
    planted = {"|".join(pair) for pair in shelf.pairs()}
    ids = np.array([word in planted for word in new])
    counts = dict(zip(new, after.vocabulary.counts.tolist(), strict=True))
    seen: Counter[str] = Counter()
    for left, right in zip(before, after, strict=True):
        for at in np.flatnonzero(ids[right]).tolist():
            word = new[right[at]]
            seen[word] += 1
            if seen[word] % max(1, counts[word] // N_PLACES) == 0:
                around = right[max(0, at - WINDOW) : at + WINDOW + 1]
                yield word, old[left[at]], [new[k] for k in around]


def told_right(chosen: list[Any], found: list[Place]) -> float:
    """Return the share of places whose sense stands for the word that was there; senses are named by other places."""
    votes: dict[Any, Counter[str]] = defaultdict(Counter)
    for sense, (_, word, _) in zip(chosen[::2], found[::2], strict=True):
        votes[sense][word] += 1
    meant = {sense: words.most_common(1)[0][0] for sense, words in votes.items()}
    return float(
        np.mean([meant.get(sense) == word for sense, (_, word, _) in zip(chosen[1::2], found[1::2], strict=True)])
    )


def measure(shelf: Shelf, seed: int, n_jobs: int) -> Iterator[dict[str, Any]]:
    """Fit once; yield a record for each storage, float32 first."""
    text, found = shelf.text("planted"), list(places(shelf))
    model = nf.MultiSenseWord2DM(n_epochs=SEED_EPOCHS, window=WINDOW, random_state=seed, n_jobs=n_jobs)
    exact, seconds = timed(lambda: model.fit(text).senses_)
    n, asked = exact.n_components, [word for word in exact.words[:5000] if len(word) > 3][:: 5000 // N_WORDS]
    matrices = 4 * len(exact.words) * n * (n + 1) // 2
    first: tuple[list[Any], list[set[str]]] | None = None
    for storage in STORAGES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "senses.safetensors")
            exact.save(path, quantize=storage)
            senses = nf.SenseEmbedding.load(path)
            size = path.stat().st_size
            chosen = [senses.sense_of(word, around) for word, _, around in found]
            shown = [senses.senses_of(word, TOPN, n_candidates=10_000) for word in asked]
            near = [{word for word, _ in sense.nearest} for of_word in shown for sense in of_word]
        first = first or (chosen, near)
        yield {
            "storage": storage or "float32",
            "bytes": size,
            "bytes_of_matrices": matrices,
            "right": told_right(chosen, found),
            "right_by_frequency": told_right([word for word, _, _ in found], found),
            "same_sense": float(np.mean([a == b for a, b in zip(chosen, first[0], strict=True)])),
            "same_nearest": sum(len(a & b) for a, b in zip(near, first[1], strict=True)) / sum(map(len, near)),
            "n_words": len(exact.words),
            "n_senses": len(exact),
            "n_places": len(found),
            "fit_seconds": seconds,
        }


def run(file: ResultFile, given: Namespace) -> None:
    shelf = Shelf(given.cache / "short", lines_of(given), given.n_jobs)
    for trial in range(given.runs):
        if any(file.wants(storage=storage or "float32", trial=trial) for storage in STORAGES):
            for record in measure(shelf, trial, given.n_jobs):
                file.add({"trial": trial, **record})


def told(section: Section, records: list[Record]) -> None:
    target, rows = (
        section.target("file of senses against density matrices of the same words", f"{GOAL} times smaller"),
        [],
    )
    smaller: dict[str, float] = {}
    for storage in dict.fromkeys(r["storage"] for r in records):
        mine = pick(records, storage=storage)
        smaller[storage] = min(r["bytes_of_matrices"] / r["bytes"] for r in mine)
        shown = [spread(mine, name) for name in ("right", "same_sense", "same_nearest")]
        rows.append([storage, f"{mine[0]['bytes'] / 1e6:.2f} MB", number(smaller[storage], 0), *shown, len(mine)])
    if smaller:
        times, best = max((times, storage) for storage, times in smaller.items())
        target.tell(f"{times:.0f} times ({best})", times >= GOAL)
    for of in records[:1]:
        guessed = number(average(records, "right_by_frequency"))
        section.say(f"""MultiSenseWord2DM at its defaults on 4.3 million words of Wikipedia, 3 passes;
        {of["n_words"]:,} words, {of["n_senses"]:,} senses, whose density matrices take
        {of["bytes_of_matrices"] / 1e6:.0f} MB. Right word: of 100 pseudo-words, each of two words of equal
        frequency, `sense_of` tells which of the two was there, at half of {of["n_places"]:,} places; the other half
        names the senses. The more frequent of the two is right in {guessed}. Mean ± standard deviation over seeds.""")
    section.table(
        ["storage", "file", "times smaller", "right word", "same sense", "same ten nearest words", "seeds"], rows
    )


EXPERIMENT = Experiment("Senses in a file", run, "storage trial", "wiki_text8_style").takes(
    cache=CACHE, runs=3, lines=int, n_jobs=2
)
