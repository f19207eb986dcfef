"""Word vectors of 10 and of 100 million words: time and memory of all from a file on, beside gensim and fastText.

The Wikipedia sample of 17 million words, its beginning or again and again; each time the words that come less than 100
times in it are other ones, so that the vocabulary grows with the text as that of a real one does. One file, a line per
article. Each method counts the words and trains skip-gram on them in a process of its own: d = 100, window 5, 5 noise
words, min_count 5, sample 1e-3, rate .05, one epoch, two threads. gensim reads the file itself (``corpus_file``).
fastText without subwords learns what the other two do; with them (``fastText, subwords``) it is fastText as it comes.

Seconds are processor seconds, of all threads, from the file to the vectors. Memory is the peak of anonymous memory
above the start, after all that is imported and compiled; pages of mapped files, which the system drops, do not count.
The bound is the vocabulary times the model, see ``word_memory``, and 1 GiB.
"""

from __future__ import annotations

import os
import tempfile
import time
from argparse import Namespace
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import articles
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import Peak, alone, say
from lab.peers import elsewhere
from lab.records import Record, groups, middle, pick, ratio
from lab.words.word_memory import ALLOWED, COPIES_OF_TABLES, ROW

D, MIN_COUNT, SAMPLE, RATE, N_JOBS = 100, 5, 1e-3, 0.05, 2
RARE, SAMPLE_WORDS = 100, 17_000_000
FASTER = 3
METHODS = ("nearfar", "gensim", "fastText", "nearfar, subwords", "fastText, subwords")


def write_text(path: Path, millions: int) -> int:
    """Write so many million words, and return how many exactly."""
    lines = [line.split() for line in articles(SAMPLE_WORDS)]
    counts = Counter(word for line in lines for word in line)
    rare = {word for word, count in counts.items() if count < RARE}
    n = 0
    with path.open("w") as out:
        for turn in range(1 + 10**6 * millions // SAMPLE_WORDS):
            new = {word: f"{word}{turn}" for word in rare} if turn else {}
            for line in lines:
                if n >= 10**6 * millions:
                    return n
                out.write(" ".join(new.get(word, word) for word in line) + "\n")
                n += len(line)
    return n


def nearfar_vectors(path: str, subwords: bool) -> dict[str, Any]:
    """Count, encode and train; return what each took."""
    how: Any = {"learning_rate": RATE, "sample": SAMPLE, "n_epochs": 1, "random_state": 0, "n_jobs": N_JOBS}
    how["subwords"] = subwords or None
    nf.SkipGram(D, **(how | {"sample": 0, "min_count": 1})).fit([["some", "words"]] * 9)  # compiles
    nf.Corpus(["some words"]).encode(min_count=1)
    with Peak() as peak:
        started, processor = time.perf_counter(), time.process_time()
        encoded = nf.Corpus(Path(path), n_jobs=N_JOBS).encode(min_count=MIN_COUNT)
        reading = time.process_time() - processor
        nf.SkipGram(D, **how).fit(encoded)
        seconds, clock = time.process_time() - processor, time.perf_counter() - started
    words = encoded.vocabulary.words
    found = {"n_words": len(words), "reading_seconds": reading, "seconds": seconds, "clock_seconds": clock}
    found |= {"memory_mib": peak.megabytes * 1e6 / 2**20}
    if not subwords:  # whose rows are those of the parts, too
        model = len(words) * ROW * 4 * COPIES_OF_TABLES + sum(len(word.encode()) + 100 for word in words)
        found |= {"bound_mib": (model + ALLOWED) / 2**20}
    return found


def gensim_vectors(path: str) -> dict[str, Any]:
    from gensim.models import Word2Vec

    how: Any = {"vector_size": D, "min_count": MIN_COUNT, "sample": SAMPLE, "alpha": RATE, "sg": 1, "workers": N_JOBS}
    with Peak() as peak:
        started, processor = time.perf_counter(), time.process_time()
        model = Word2Vec(**how)
        model.build_vocab(corpus_file=path)
        reading = time.process_time() - processor
        counts = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
        model.train(corpus_file=path, **counts, epochs=1)
        seconds, clock = time.process_time() - processor, time.perf_counter() - started
    found = {"n_words": len(model.wv), "reading_seconds": reading, "seconds": seconds, "clock_seconds": clock}
    return {**found, "memory_mib": peak.megabytes * 1e6 / 2**20}


def fasttext_vectors(path: str, longest: int) -> dict[str, Any]:
    """Train fastText with subwords of 3 letters to so many, or with none (0)."""
    given: Any = {"path": path, "d": D, "rate": RATE, "min_count": MIN_COUNT, "sample": SAMPLE, "n_threads": N_JOBS}
    (n_words, clock, memory), seconds = elsewhere.run("fasttext_of_file", **given, longest=longest)
    return {"n_words": int(n_words), "seconds": seconds, "clock_seconds": clock, "memory_mib": memory / 2**20}


TASKS = {
    "nearfar": partial(nearfar_vectors, subwords=False),
    "gensim": gensim_vectors,
    "fastText": partial(fasttext_vectors, longest=0),
    "nearfar, subwords": partial(nearfar_vectors, subwords=True),
    "fastText, subwords": partial(fasttext_vectors, longest=6),
}


def run(file: ResultFile, given: Namespace) -> None:
    for millions in given.millions:
        wanted = [(method, key) for method in given.methods if (key := file.new(millions, method))]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            path = Path(folder, "text.txt")
            n = write_text(path, millions)
            for method, key in wanted:
                say(f"{millions} million words, {method}")
                found = alone(TASKS[method], str(path))
                file.add({**key, "n_tokens": n, "text_mib": path.stat().st_size / 2**20, **found})


def told(section: Section, records: list[Record]) -> None:
    """Skip-gram from a file: counting, numbering and one epoch, d = 100, two threads. The text is the Wikipedia sample,
    again and again, each time with rare words of its own. Processor time; anonymous memory above the start.
    """
    target = section.target("100 million words, memory of the whole way", "≤ vocabulary x model + 1 GiB")
    if ours := pick(records, method="nearfar", millions=100):
        memory, bound = (float(middle(ours, name) or 0) for name in ("memory_mib", "bound_mib"))
        target.tell(f"{memory:,.0f} of {bound:,.0f} MiB", memory <= bound)
    faster = section.target("the whole way from a file, of the longest text of both", "≥ 3 times gensim and fastText")
    times = {}
    for method in METHODS[1:3]:
        lengths = {r["millions"] for r in pick(records, method=method)}
        if both := lengths & {r["millions"] for r in pick(records, method="nearfar")}:
            mine, theirs = (pick(records, method=m, millions=max(both)) for m in ("nearfar", method))
            times[f"{method} {ratio(mine, theirs):.1f} times ({max(both)} million words)"] = ratio(mine, theirs)
    if times:
        faster.tell(", ".join(times), min(times.values()) >= FASTER)
    rows = []
    for millions, method, mine in groups(records, "millions", "method"):
        cells = [middle(mine, name) for name in ("n_words", "seconds", "clock_seconds", "memory_mib", "bound_mib")]
        n_words, seconds, clock, memory, bound = cells
        per_million = np.divide(seconds or 0, (middle(mine, "n_tokens") or 1) / 1e6)
        reading = middle(mine, "reading_seconds")
        share = "–" if reading is None else f"{reading / (middle(mine, 'n_tokens') or 1) * 1e6:.2f} s"
        more = "–" if bound is None else f"{bound:,.0f} MiB"
        rows.append(
            [f"{millions} M", method, f"{n_words:,.0f}", f"{per_million:.2f} s", share, f"{clock:,.0f} s",
             f"{memory:,.0f} MiB", more]
        )  # fmt: skip
    head = "words | program | different ones | per million words | of it reading | by the clock | memory | bound"
    section.table(head, rows)


EXPERIMENT = Experiment("Long texts", run, "millions method", "wiki_text8_style").takes(
    millions=(10, 100), methods=METHODS
)
