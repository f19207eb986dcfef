"""Words of a text counted and numbered: nearfar against gensim's vocabulary, side by side.

    python benchmarks/text.py --runs 3

The Wikipedia sample of 100 million characters, a line per article. nearfar: ``Corpus(...).encode(min_count=5)``, which
counts, and writes the numbers of all words to a file. gensim: ``build_vocab`` alone, from its reader of files
(``LineSentence``) or from lists; it numbers the words again in every epoch. Megabytes are those of the plain text.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence

import nearfar as nf
from _common import DATA, ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed

KEYS = ("source", "method", "trial")
PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
MIN_COUNT, N_JOBS = 5, 2


def gensim_words(sentences: Any) -> int:
    model = Word2Vec(min_count=MIN_COUNT, workers=N_JOBS)
    model.build_vocab(sentences)
    return len(model.wv)


def nearfar_words(source: Any) -> int:
    return len(nf.Corpus(source, n_jobs=N_JOBS).encode(min_count=MIN_COUNT).vocabulary)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    file = ResultFile("text", KEYS)
    nearfar_words(["compiles the kernels " * MIN_COUNT])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_bytes(lzma.decompress(PACKED.read_bytes()))
        size = path.stat().st_size
        lists = [line.split() for line in path.read_text().splitlines()]
        tasks: dict[tuple[str, str], Callable[[], int]] = {
            ("file", "nearfar"): lambda: nearfar_words(path),
            ("file", "gensim"): lambda: gensim_words(LineSentence(str(path), max_sentence_length=10**9)),
            ("lists", "nearfar"): lambda: nearfar_words(lists),
            ("lists", "gensim"): lambda: gensim_words(lists),
            ("file, xz", "nearfar"): lambda: nearfar_words(PACKED),
        }
        for trial in range(args.runs):
            for (source, method), task in tasks.items():
                reset_peak_memory()
                before = resident_memory()
                n_words, seconds = timed(task)
                record = {"seconds": round(seconds, 3), "bytes": peak_memory() - before, "n_words": n_words}
                speed = round(size / 1e6 / seconds, 1)
                file.add({"source": source, "method": method, "trial": trial, "megabytes_per_second": speed, **record})
                say(f"{source} {method}: {seconds:.2f} s, {speed} MB/s, {n_words} words")


if __name__ == "__main__":
    main()
