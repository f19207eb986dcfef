"""Skip-gram word vectors: nearfar against gensim, speed and quality, side by side.

    python benchmarks/words.py --n-epochs 1 5
    python benchmarks/words.py --n-epochs 1 5 --deterministic
    python benchmarks/words.py --short --runs 8
    python benchmarks/words.py --short SkipGram --runs 6

The Wikipedia sample of 17 million words, a line per article; d = 100, window 5, 5 noise words, min_count 5, sample
1e-3, rate .025, 2 workers, alike for all. gensim 4.4 from lists of words and from a file (``corpus_file``). Words per
second are those of the text (rare ones left out) times the epochs, over the seconds of training alone, and with
counting and encoding. Quality: Spearman's rho with its bootstrap interval on WordSim-353, SimLex-999 and MEN; share of
the Google analogies that are solved (3CosAdd, among all words).

``--deterministic`` fits from the file in turn with ``deterministic=True`` and without, and nothing else. Processor
seconds are those of all threads in training, which other work on the machine does not change. ``--short`` does the same
with one thread for the first million words, none left out, one epoch: of so short a text what is done once for each
word, not for each occurrence, counts most.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gensim.models import Word2Vec

import nearfar as nf
from _common import DATA, ResultFile, peak_memory, reset_peak_memory, resident_memory, say

KEYS = ("method", "source", "n_epochs", "trial")
PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
SIMILARITY = {"wordsim": "EN-WS-353-ALL.txt", "simlex": "EN-SIMLEX-999.txt", "men": "EN-MEN-TR-3k.txt"}
ANALOGIES = DATA / "word_analogy" / "questions-words.txt.gz"
D, WINDOW, NEGATIVE, MIN_COUNT, SAMPLE, RATE, N_JOBS = 100, 5, 5, 5, 1e-3, 0.025, 2
SENTENCE = 10_000  # words, beyond which gensim cuts off
SHORT = 1_000_000  # words of a short text

Result = tuple[nf.Embedding, float, float, float]
"""Vectors, seconds of counting and encoding, seconds of training, the same of all threads together."""


def fit_nearfar(source: Any, n_epochs: int, seed: int, *, shared: bool = True, deterministic: bool = False) -> Result:
    started = time.perf_counter()
    encoded = nf.Corpus(source, n_jobs=N_JOBS).encode(min_count=MIN_COUNT)
    encoding, processor = time.perf_counter() - started, time.process_time()
    model = nf.SkipGram(
        D,
        window=WINDOW,
        n_negative=NEGATIVE,
        shared_negatives=shared,
        sample=SAMPLE,
        learning_rate=RATE,
        n_epochs=n_epochs,
        random_state=seed,
        deterministic=deterministic,
        n_jobs=N_JOBS,
    ).fit(encoded)
    return model.vectors_, encoding, time.perf_counter() - started - encoding, time.process_time() - processor


def fit_short(model: Any, encoded: nf.EncodedCorpus, *, deterministic: bool) -> dict[str, float]:
    """Return the processor seconds of a fit with one thread, and its loss."""
    model.set_params(n_epochs=1, n_jobs=1, deterministic=deterministic)
    started = time.process_time()
    model.fit(encoded)
    return {
        "processor_seconds": round(time.process_time() - started, 3),
        "loss": round(float(model.loss_curve_[-1]), 5),
    }


def short(file: ResultFile, runs: int, wanted: list[str]) -> None:
    """Measure a short text, with and without ``deterministic=True`` in turn; by default all models."""
    words, left = [], SHORT
    with lzma.open(PACKED, "rt") as lines:
        while left:
            words.append(next(lines).split()[:left])
            left -= len(words[-1])
    encoded = nf.Corpus([line for line in words if len(line) > 1]).encode(min_count=1)
    models = {
        "SkipGram by SGD": lambda s: nf.SkipGram(D, random_state=s),
        "SkipGram by Adam": lambda s: nf.SkipGram(D, optimizer="adam", random_state=s),
        "Word2DM by Adam": lambda s: nf.Word2DM(optimizer="adam", random_state=s),
    }
    models = {name: model for name, model in models.items() if not wanted or name.split()[0] in wanted}
    for model in models.values():  # compiles
        fit_short(model(0).set_params(sample=0), nf.Corpus([["some", "words"]] * 9).encode(), deterministic=True)
    for trial in range(runs):
        for name, model in models.items():
            for what in ("deterministic", "without locks"):
                key = {"method": f"{name}, {what}", "source": "a million words", "n_epochs": 1, "trial": trial}
                record = fit_short(model(trial), encoded, deterministic=what == "deterministic")
                file.add({**key, **record})
                say(f"{key}: {record}")


def fit_gensim(source: dict[str, Any], n_epochs: int, seed: int) -> Result:
    started = time.perf_counter()
    model = Word2Vec(
        vector_size=D,
        window=WINDOW,
        negative=NEGATIVE,
        min_count=MIN_COUNT,
        sample=SAMPLE,
        alpha=RATE,
        sg=1,
        workers=N_JOBS,
        seed=seed,
        epochs=n_epochs,
    )
    model.build_vocab(**source)
    encoding, processor = time.perf_counter() - started, time.process_time()
    counts = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
    model.train(**source, **counts, epochs=n_epochs)
    training, processor = time.perf_counter() - started - encoding, time.process_time() - processor
    return nf.Embedding(model.wv.vectors, ids=model.wv.index_to_key), encoding, training, processor


def quality(vectors: nf.Embedding) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, file in SIMILARITY.items():
        found = nf.evaluate.word_similarity(vectors, DATA / "word_similarity" / file)
        record |= {name: round(found.rho, 4), f"{name}_interval": [round(x, 4) for x in found.interval]}
    record["analogies"] = round(nf.evaluate.word_analogies(vectors, ANALOGIES).accuracy, 4)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-epochs", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--deterministic", action="store_true", help="with it and without, from the file")
    parser.add_argument("--short", nargs="*", metavar="MODEL", help="with it and without, of a short text")
    args = parser.parse_args()
    file = ResultFile("words", KEYS)
    if args.short is not None:
        short(file, args.runs, args.short)
        return
    for shared in (True, False):  # compiles
        nf.SkipGram(D, sample=0, n_epochs=1, shared_negatives=shared, deterministic=shared).fit([["some", "words"]] * 9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_bytes(lzma.decompress(PACKED.read_bytes()))
        lines = [line.split() for line in path.read_text().splitlines()]
        lists = [line[k : k + SENTENCE] for line in lines for k in range(0, len(line), SENTENCE)]
        tasks: dict[tuple[str, str], Callable[[int, int], Result]] = {
            ("nearfar", "file"): lambda k, s: fit_nearfar(path, k, s, shared=True),
            ("gensim", "file"): lambda k, s: fit_gensim({"corpus_file": str(path)}, k, s),
            ("nearfar", "lists"): lambda k, s: fit_nearfar(lists, k, s, shared=True),
            ("gensim", "lists"): lambda k, s: fit_gensim({"corpus_iterable": lists}, k, s),
            ("nearfar, noise per pair", "file"): lambda k, s: fit_nearfar(path, k, s, shared=False),
        }
        if args.deterministic:
            tasks = {
                ("nearfar, without locks", "file"): lambda k, s: fit_nearfar(path, k, s),
                ("nearfar, deterministic", "file"): lambda k, s: fit_nearfar(path, k, s, deterministic=True),
            }
        n_tokens = nf.Corpus(path).encode(min_count=MIN_COUNT).n_tokens
        for trial in range(args.runs):
            for n_epochs in args.n_epochs:
                for (method, source), task in tasks.items():
                    reset_peak_memory()
                    before = resident_memory()
                    vectors, encoding, training, processor = task(n_epochs, trial)
                    key = {"method": method, "source": source, "n_epochs": n_epochs, "trial": trial}
                    memory = peak_memory() - before
                    record = {
                        "encoding_seconds": round(encoding, 3),
                        "seconds": round(training, 3),
                        "processor_seconds": round(processor, 2),
                        "words_per_second": round(n_tokens * n_epochs / training),
                        "words_per_second_with_encoding": round(n_tokens * n_epochs / (training + encoding)),
                        "bytes": memory,
                        **quality(vectors),
                    }
                    file.add({**key, **record})
                    say(f"{key}: {record}")


if __name__ == "__main__":
    main()
