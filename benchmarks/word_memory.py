"""Memory of words, whatever the length of the text: counting, encoding, training.

    python benchmarks/word_memory.py --copies 1 4 16

The Wikipedia sample (100 million characters) again and again in one file. Each length runs in a process of its own:
``Corpus(file).encode()``, then one epoch of ``SkipGram`` (d = 100) on it. The peak is that of anonymous memory above
the start: pages of the mapped tokens are not counted, the system drops them when memory is short. The bound is the
vocabulary times the model (words as text, counts, two tables of 112 float32 a row, of which one copy is made at the
end) and 1 GiB.
"""

from __future__ import annotations

import argparse
import lzma
import multiprocessing
import multiprocessing.connection
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import DATA, ResultFile, say
from mapped import Peak

PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
D, ROW, COPIES_OF_TABLES, N_JOBS = 100, 112, 4, 2
ALLOWED = 2**30


def measure(path: Path, folder: Path, pipe: multiprocessing.connection.Connection) -> None:
    """Encode and train; send what it cost."""
    import nearfar as nf

    nf.SkipGram(D, sample=0, n_epochs=1).fit([["some", "words"]] * 9)  # compiles
    with Peak() as encoding:
        started = time.perf_counter()
        encoded = nf.Corpus(path, n_jobs=N_JOBS).encode(folder=folder / "encoded")
        encoding_seconds = time.perf_counter() - started
    with Peak() as training:
        started = time.perf_counter()
        nf.SkipGram(D, n_epochs=1, random_state=0, n_jobs=N_JOBS).fit(encoded)
        seconds = time.perf_counter() - started
    words = encoded.vocabulary.words
    model = len(words) * ROW * 4 * COPIES_OF_TABLES + sum(len(word.encode()) + 100 for word in words)
    pipe.send({
        "n_tokens": encoded.n_tokens,
        "n_words": len(words),
        "encoding_seconds": round(encoding_seconds, 2),
        "seconds": round(seconds, 2),
        "encoding_mib": round(encoding.megabytes * 1e6 / 2**20, 1),
        "training_mib": round(training.megabytes * 1e6 / 2**20, 1),
        "bound_mib": round((model + ALLOWED) / 2**20, 1),
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 4, 16])
    args = parser.parse_args()
    file = ResultFile("word_memory", ("copies",))
    text = lzma.decompress(PACKED.read_bytes())
    context = multiprocessing.get_context("spawn")
    for copies in args.copies:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "text.txt")
            with path.open("wb") as out:
                for _ in range(copies):
                    out.write(text)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=measure, args=(path, Path(name), theirs))
            process.start()
            theirs.close()
            record: dict[str, Any] = {"copies": copies, "text_mib": round(path.stat().st_size / 2**20), **ours.recv()}
            process.join()
            file.add(record)
            say(str(record))


if __name__ == "__main__":
    main()
