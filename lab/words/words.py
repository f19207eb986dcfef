"""Skip-gram word vectors: nearfar against gensim, speed and quality, side by side.

The Wikipedia sample of 17 million words, a line per article; d = 100, window 5, 5 noise words, min_count 5, sample
1e-3, rate .025, 2 workers, alike for all. gensim 4.4 from lists of words and from a file (``corpus_file``). Words per
second are those of the text (rare ones left out) times the epochs, over the seconds of training alone, and with
counting and encoding. Quality: Spearman's rho with its bootstrap interval on WordSim-353, SimLex-999 and MEN; share of
the Google analogies that are solved (3CosAdd, among all words).

``--deterministic`` fits from the file in turn with ``deterministic=True`` and without, for each number of
``--workers``, and nothing else. Processor seconds are those of all threads in training, which other work on the machine
does not change. ``--short MODEL ...`` (``--runs 8``) does the same with one thread for the first million words, none
left out, one epoch: of so short a text what is done once for each word, not for each occurrence, counts most. A new
peer is a function and a line in TASKS.
"""

from __future__ import annotations

import lzma
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import ANALOGIES, SIMILARITY, WIKI, articles, text_file
from lab.experiment import Choice, Experiment, ResultFile, Section, Target
from lab.measure import measured
from lab.records import Record, average, duration, groups, mib, middle, number, pick, values

D, WINDOW, NEGATIVE, MIN_COUNT, SAMPLE, RATE, N_JOBS = 100, 5, 5, 5, 1e-3, 0.025, 2
SENTENCE = 10_000  # words, beyond which gensim cuts off
Result = tuple[nf.Embedding, float, float, float]
Source = Any  # a file, or lists of words
FASTER, PAIR_FASTER, SLOWER = 4.0, 1.8, 1.3  # the last: at most, where bits do not depend on the number of threads
SPEEDS = ("words_per_second", "words_per_second_with_encoding")
SETS = ("wordsim", "simlex", "men")
DETERMINISTIC = ("nearfar, deterministic", "nearfar, without locks")
DETERMINISTIC_ADAM = ("nearfar by Adam, deterministic", "nearfar by Adam, without locks")
ADAM: dict[str, Any] = {"optimizer": "adam", "learning_rate": None}
SHORT, N_SHORT = "a million words", 1_000_000
MODELS: dict[str, Callable[[int], Any]] = {
    "SkipGram by SGD": lambda seed: nf.SkipGram(D, random_state=seed),
    "SkipGram by Adam": lambda seed: nf.SkipGram(D, optimizer="adam", random_state=seed),
    "Word2DM by Adam": lambda seed: nf.Word2DM(optimizer="adam", random_state=seed),
}


def fit_nearfar(source: Source, n_epochs: int, seed: int, workers: int, **how: Any) -> Result:
    started = time.perf_counter()
    encoded = nf.Corpus(source, n_jobs=N_JOBS).encode(min_count=MIN_COUNT)
    encoding, processor = time.perf_counter() - started, time.process_time()
    same: Any = {"window": WINDOW, "n_negative": NEGATIVE, "sample": SAMPLE, "learning_rate": RATE}
    same |= {"n_epochs": n_epochs}
    model = nf.SkipGram(D, **(same | how), random_state=seed, n_jobs=workers).fit(encoded)
    return model.vectors_, encoding, time.perf_counter() - started - encoding, time.process_time() - processor


def fit_gensim(source: Source, n_epochs: int, seed: int, workers: int) -> Result:
    from gensim.models import Word2Vec

    text = {"corpus_file": str(source)} if isinstance(source, Path) else {"corpus_iterable": source}
    same = {"window": WINDOW, "negative": NEGATIVE, "sample": SAMPLE, "alpha": RATE, "epochs": n_epochs}
    started = time.perf_counter()
    model = Word2Vec(vector_size=D, min_count=MIN_COUNT, sg=1, workers=workers, seed=seed, **same)
    model.build_vocab(**text)
    encoding, processor = time.perf_counter() - started, time.process_time()
    counts = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
    model.train(**text, **counts, epochs=n_epochs)
    training, processor = time.perf_counter() - started - encoding, time.process_time() - processor
    return nf.Embedding(model.wv.vectors, ids=model.wv.index_to_key), encoding, training, processor


TASKS: dict[tuple[str, str], Callable[[Source, int, int, int], Result]] = {
    ("nearfar", "file"): partial(fit_nearfar, shared_negatives=True),
    ("gensim", "file"): fit_gensim,
    ("nearfar", "lists"): partial(fit_nearfar, shared_negatives=True),
    ("gensim", "lists"): fit_gensim,
    ("nearfar, noise per pair", "file"): partial(fit_nearfar, shared_negatives=False),
}
IN_TURN: dict[tuple[str, str], Callable[[Source, int, int, int], Result]] = {
    ("nearfar, without locks", "file"): fit_nearfar,
    ("nearfar, deterministic", "file"): partial(fit_nearfar, deterministic=True),
    ("nearfar by Adam, without locks", "file"): partial(fit_nearfar, **ADAM),
    ("nearfar by Adam, deterministic", "file"): partial(fit_nearfar, deterministic=True, **ADAM),
}


def fit_short(model: Any, encoded: nf.EncodedCorpus, *, deterministic: bool) -> dict[str, float]:
    """Return the processor seconds of a fit with one thread, and its loss."""
    model.set_params(n_epochs=1, n_jobs=1, deterministic=deterministic)
    started = time.process_time()
    model.fit(encoded)
    return {"processor_seconds": time.process_time() - started, "loss": float(model.loss_curve_[-1])}


def short(file: ResultFile, runs: int, wanted: list[str]) -> None:
    """Measure a short text, with and without ``deterministic=True`` in turn."""
    words, left = [], N_SHORT
    for article in articles(N_SHORT):
        words.append(article.split()[:left])
        left -= len(words[-1])
    encoded = nf.Corpus([line for line in words if len(line) > 1]).encode(min_count=1)
    models = {name: MODELS[name] for name in MODELS if name.split()[0] in wanted}
    for model in models.values():  # compiles
        fit_short(model(0).set_params(sample=0), nf.Corpus([["some", "words"]] * 9).encode(), deterministic=True)
    for trial, name, what in product(range(runs), models, ("deterministic", "without locks")):
        if key := file.new(f"{name}, {what}", SHORT, 1, trial, 1):
            file.add({**key, **fit_short(models[name](trial), encoded, deterministic=what == "deterministic")})


def quality(vectors: nf.Embedding) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, path in SIMILARITY.items():
        found = nf.evaluate.word_similarity(vectors, path)
        record |= {name: found.rho, f"{name}_interval": found.interval}
    return record | {"analogies": nf.evaluate.word_analogies(vectors, ANALOGIES).accuracy}


def run(file: ResultFile, given: Namespace) -> None:
    if given.short:
        short(file, given.runs, given.short)
        return
    for shared in (True, False):  # compiles
        nf.SkipGram(D, sample=0, n_epochs=1, shared_negatives=shared, deterministic=shared).fit([["some", "words"]] * 9)
    if given.deterministic:
        nf.SkipGram(D, sample=0, n_epochs=1, optimizer="adam", deterministic=True).fit([["some", "words"]] * 9)
    with text_file(lzma.decompress(WIKI.read_bytes())) as path:
        lines = [line.split() for line in path.read_text().splitlines()]
        sources = {
            "file": path,
            "lists": [line[k : k + SENTENCE] for line in lines for k in range(0, len(line), SENTENCE)],
        }
        n_tokens = nf.Corpus(path).encode(min_count=MIN_COUNT).n_tokens
        tasks = IN_TURN if given.deterministic else TASKS
        counts = given.workers if given.deterministic else (N_JOBS,)
        for trial, n_epochs, workers, ((method, source), task) in product(
            range(given.runs), given.n_epochs, counts, tasks.items()
        ):
            if key := file.new(method, source, n_epochs, trial, workers):
                made, _, memory = measured(task, sources[source], n_epochs, trial, workers)
                vectors, encoding, training, processor = made
                found = {
                    "encoding_seconds": encoding,
                    "seconds": training,
                    "processor_seconds": processor,
                    "words_per_second": round(n_tokens * n_epochs / training),
                    "words_per_second_with_encoding": round(n_tokens * n_epochs / (training + encoding)),
                    "bytes": memory,
                }
                file.add({**key, **found, **quality(vectors)})


# ---------------------------------------------------------------- the page


def told(section: Section, records: list[Record]) -> None:
    """17 million words of Wikipedia, d = 100, window 5, 5 noise words, sample 1e-3, rate .025, 2 workers. Words/s:
    words that are kept, times epochs, a second. Quality: Spearman's rho, and the share of analogies solved.
    """
    brief = pick(records, source=SHORT)
    records = [r for r in records if r["source"] != SHORT]
    for source, (name, what) in product(
        ("file", "lists"), zip(SPEEDS, ("training alone", "with encoding"), strict=True)
    ):
        where = "a file" if source == "file" else source
        target = section.target(f"skip-gram from {where}, {what}", f"≥ {FASTER:.0f} times gensim")
        _speed(target, records, "nearfar", source, name, FASTER)
    target = section.target("skip-gram, noise drawn for each pair", f"≥ {PAIR_FASTER} times gensim")
    _speed(target, records, "nearfar, noise per pair", "file", SPEEDS[0], PAIR_FASTER)
    for n_epochs in (1, 5):
        _quality(section, records, n_epochs)
    _deterministic(section, records, "skip-gram, deterministic", DETERMINISTIC)
    _deterministic(section, records, "skip-gram by Adam, deterministic", DETERMINISTIC_ADAM)
    _short(section, brief)
    rows = []
    for n_epochs, source, method, mine in groups(records, "n_epochs", "source", "method"):
        if method not in DETERMINISTIC + DETERMINISTIC_ADAM:
            speeds = [f"{(middle(mine, name) or 0) / 1e6:.2f} M" for name in SPEEDS]
            rows.append([n_epochs, source, method, *speeds, *_scores(mine), mib(middle(mine, "bytes"))])
    of_quality = ["WordSim-353", "SimLex-999", "MEN", "analogies"]
    section.table(["epochs", "source", "program", "words/s", "with encoding", *of_quality, "memory"], rows)
    free = [r for r in records if r["method"] in DETERMINISTIC + DETERMINISTIC_ADAM]
    if free:
        section.say("""With `deterministic=True` and without, in turn, one epoch from a file. Least of the times,
        means of the rest.""")
        rows = []
        for method, workers, mine in groups(free, "method", "workers"):
            times = [duration(min(values(mine, name))) for name in ("seconds", "processor_seconds")]
            rows.append([method.removeprefix("nearfar").strip(", "), workers, *times, *_scores(mine)])
        section.table(["training", "threads", "time", "processor time", *of_quality], rows)
    if brief:
        section.say("""The same for a million words, one thread, so that only the copies differ: times of each pair,
        their median.""")
        rows = []
        for name in dict.fromkeys(r["method"].partition(", ")[0] for r in brief):
            if ratios := _ratios(brief, name):
                both = _both(brief, name)
                cells = [
                    f"{statistics.median(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} pairs",
                ]
                seconds = [duration(middle(mine, "processor_seconds")) for mine in both]
                rows.append([name, *seconds, *cells, *(number(average(mine, "loss")) for mine in both)])
        head = ["model", "processor time: without locks", "deterministic", "times", "least and most", "loss", "loss"]
        section.table(head, rows)


def _scores(records: list[Record]) -> list[str]:
    return [number(average(records, name)) for name in (*SETS, "analogies")]


def _both(records: list[Record], name: str) -> list[list[Record]]:
    """Return the records of a model without locks, and deterministic."""
    return [pick(records, method=f"{name}, {how}") for how in ("without locks", "deterministic")]


def _ratios(records: list[Record], name: str) -> list[float]:
    """Return the times of a deterministic fit, in those of the fit without locks beside it, pair by pair."""
    free, ours = ({r["trial"]: r["processor_seconds"] for r in mine} for mine in _both(records, name))
    return [ours[trial] / free[trial] for trial in ours if trial in free]


def _short(section: Section, records: list[Record]) -> None:
    """Tell the processor time of Adam on a short text where the bits do not depend on the number of threads."""
    target = section.target("Adam, deterministic, of a short text", f"≤ {SLOWER} times the time of one thread")
    found = {name: ratios for name in MODELS if name.endswith("Adam") and (ratios := _ratios(records, name))}
    if found:
        middles = {name: statistics.median(ratios) for name, ratios in found.items()}
        said = [
            f"{name.split()[0]} {middles[name]:.2f} times ({min(r):.2f} to {max(r):.2f})" for name, r in found.items()
        ]
        target.tell(", ".join(said), max(middles.values()) <= SLOWER)


def _speed(target: Target, records: list[Record], method: str, source: str, name: str, wanted: float) -> None:
    ratios = []
    for _, mine in groups(pick(records, source=source), "n_epochs"):
        ours, theirs = (middle(pick(mine, method=m), name) for m in (method, "gensim"))
        if ours and theirs:
            ratios.append(ours / theirs)
    if ratios:
        target.tell(" and ".join(f"{r:.1f}" for r in ratios) + " times", min(ratios) >= wanted)


def _deterministic(section: Section, records: list[Record], what: str, methods: tuple[str, str]) -> None:
    """Tell the time where the bits do not depend on the number of threads, against threads without locks."""
    target = section.target(what, f"≤ {SLOWER} times the time without locks")
    said, met = [], True
    for workers, mine in groups([r for r in records if r["method"] in methods], "workers"):
        ours, free = (pick(mine, method=method) for method in methods)
        slower = min(values(ours, "seconds")) / min(values(free, "seconds"))
        said.append(f"{slower:.2f} times with {workers}")
        met &= slower <= SLOWER
    if said:
        target.tell(f"{', '.join(said)} threads", met)


def _quality(section: Section, records: list[Record], n_epochs: int) -> None:
    """Ours may lie below gensim's as far as gensim's own bootstrap interval reaches."""
    what = f"skip-gram quality, {n_epochs} epoch{'s' * (n_epochs > 1)}"
    target = section.target(what, "no worse than gensim's within the interval")
    mine = [pick(records, n_epochs=n_epochs, method=method, source="file") for method in ("nearfar", "gensim")]
    if all(mine):
        means = {name: [average(m, name) or 0 for m in mine] for name in (*SETS, "analogies")}
        low = {name: min(r[f"{name}_interval"][0] for r in mine[1]) for name in SETS}
        said = ", ".join(f"{name} {ours:.3f} / {theirs:.3f}" for name, (ours, theirs) in means.items())
        target.tell(said, all(means[name][0] >= low[name] for name in SETS))


EXPERIMENT = Experiment(
    "Skip-gram against gensim",
    run,
    "method source n_epochs trial workers",
    "wiki_text8_style word_similarity word_analogy",
).takes(n_epochs=(1, 5), runs=1, deterministic=False, workers=(1, 2, 4, 8), short=Choice((), ("SkipGram", "Word2DM")))
