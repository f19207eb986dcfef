"""Words of a text counted and numbered: nearfar against gensim's vocabulary, side by side.

The Wikipedia sample of 100 million characters, a line per article. nearfar: ``Corpus(...).encode(min_count=5)``, which
counts, and writes the numbers of all words to a file. gensim: ``build_vocab`` alone, from its reader of files
(``LineSentence``) or from lists; it numbers the words again in every epoch. Both cut at blanks; to leave punctuation
out, of which this text has none, takes nearfar a fifth more processor time. Megabytes are those of the plain text.
"""

from __future__ import annotations

import lzma
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import WIKI, text_file
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import measured
from lab.records import Record, distinct, mib, middle, pick, ratio, times

MIN_COUNT, N_JOBS = 5, 2
SCAN_FASTER = 3.0


def gensim_words(sentences: Any) -> int:
    from gensim.models import Word2Vec
    from gensim.models.word2vec import LineSentence

    if isinstance(sentences, Path):
        sentences = LineSentence(str(sentences), max_sentence_length=10**9)
    model = Word2Vec(min_count=MIN_COUNT, workers=N_JOBS)
    model.build_vocab(sentences)
    return len(model.wv)


def nearfar_words(source: Any) -> int:
    return len(nf.Corpus(source, tokenizer="blanks", n_jobs=N_JOBS).encode(min_count=MIN_COUNT).vocabulary)


def run(file: ResultFile, given: Namespace) -> None:
    nearfar_words(["compiles the kernels " * MIN_COUNT])
    with text_file(lzma.decompress(WIKI.read_bytes())) as path:
        lists = [line.split() for line in path.read_text().splitlines()]
        tasks: dict[tuple[str, str], Callable[[], int]] = {
            ("file", "nearfar"): lambda: nearfar_words(path),
            ("file", "gensim"): lambda: gensim_words(path),
            ("lists", "nearfar"): lambda: nearfar_words(lists),
            ("lists", "gensim"): lambda: gensim_words(lists),
            ("file, xz", "nearfar"): lambda: nearfar_words(WIKI),
        }
        for trial, ((source, method), task) in product(range(given.runs), tasks.items()):
            if key := file.new(source, method, trial):
                n_words, seconds, memory = measured(task)
                found = {"megabytes_per_second": path.stat().st_size / 1e6 / seconds, "n_words": n_words}
                file.add({**key, **found, "seconds": seconds, "bytes": memory})


def told(section: Section, records: list[Record]) -> None:
    """17.2 million words of Wikipedia, 79,706 distinct words. nearfar counts the words and writes their numbers to a
    file; gensim counts them (`build_vocab`). Median of alternating runs.
    """
    rows = []
    for source in distinct(records, "source") or ["file", "lists"]:
        ours, theirs = (pick(records, source=source, method=method) for method in ("nearfar", "gensim"))
        if source != "file, xz":
            where = "a file" if source == "file" else source
            target = section.target(f"encoding of text, from {where}", f"≥ {SCAN_FASTER:.0f} times gensim")
            if ours and theirs:
                target.tell(f"{ratio(ours, theirs):.1f} times", ratio(ours, theirs) >= SCAN_FASTER)
        for mine in filter(None, (ours, theirs)):
            speed = f"{middle(mine, 'megabytes_per_second'):.0f} MB/s"
            rows.append([source, mine[0]["method"], len(mine), times(mine), speed, mib(middle(mine, "bytes"))])
    section.table(["source", "program", "runs", "time", "speed", "memory"], rows)


EXPERIMENT = Experiment("Encoding text", run, "source method trial", "wiki_text8_style").takes(runs=3)
