"""Memory of words, whatever the length of the text: counting, encoding, training.

The Wikipedia sample (100 million characters) again and again in one file. Each length runs in a process of its own:
``Corpus(file).encode()``, then one epoch of ``SkipGram`` (d = 100) on it. The peak is that of anonymous memory above
the start: pages of the mapped tokens are not counted, the system drops them when memory is short. The bound is the
vocabulary times the model (words as text, counts, two tables of 112 float32 a row, of which one copy is made at the
end) and 1 GiB.
"""

from __future__ import annotations

import lzma
from argparse import Namespace
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.data import WIKI, text_file
from lab.experiment import Experiment, Record, ResultFile, Section
from lab.measure import Peak, alone, timed

D, ROW, COPIES_OF_TABLES, N_JOBS = 100, 112, 4, 2
ALLOWED = 2**30


def measure(path: Path, folder: Path) -> dict[str, Any]:
    """Encode and train; return what it cost."""
    nf.SkipGram(D, sample=0, n_epochs=1).fit([["some", "words"]] * 9)  # compiles
    with Peak() as encoding:
        encoded, encoding_seconds = timed(lambda: nf.Corpus(path, n_jobs=N_JOBS).encode(folder=folder / "encoded"))
    with Peak() as training:
        _, seconds = timed(lambda: nf.SkipGram(D, n_epochs=1, random_state=0, n_jobs=N_JOBS).fit(encoded))
    words = encoded.vocabulary.words
    model = len(words) * ROW * 4 * COPIES_OF_TABLES + sum(len(word.encode()) + 100 for word in words)
    return {
        "n_tokens": encoded.n_tokens,
        "n_words": len(words),
        "encoding_seconds": encoding_seconds,
        "seconds": seconds,
        "encoding_mib": encoding.megabytes * 1e6 / 2**20,
        "training_mib": training.megabytes * 1e6 / 2**20,
        "bound_mib": (model + ALLOWED) / 2**20,
    }


def run(file: ResultFile, given: Namespace) -> None:
    text = lzma.decompress(WIKI.read_bytes())
    for copies in given.copies:
        if key := file.new(copies):
            with text_file(b"") as path:
                with path.open("wb") as out:
                    for _ in range(copies):
                        out.write(text)
                size = round(path.stat().st_size / 2**20)
                file.add({**key, "text_mib": size, **alone(measure, path, path.parent)})


def told(section: Section, records: list[Record]) -> None:
    """Anonymous memory above the start, a process for each text: the Wikipedia sample, repeated."""
    target = section.target("memory of encoding and training, text of any length", "≤ vocabulary x model + 1 GiB")
    if records:
        peaks = [max(r["encoding_mib"], r["training_mib"]) for r in records]
        longest = max(r["text_mib"] for r in records)
        met = all(peak <= r["bound_mib"] for peak, r in zip(peaks, records, strict=True))
        target.tell(f"at most {max(peaks):,.0f} MiB, of texts up to {longest:,} MiB", met)
    section.rows(
        "text | words | encoding | training | memory: encoding | training | bound",
        "{text_mib:,.0f} MiB | {millions:,.1f} M | {encoding_seconds:time} | {seconds:time} | {encoding_mib:,.0f} MiB"
        " | {training_mib:,.0f} MiB | {bound_mib:,.0f} MiB",
        ({**r, "millions": r["n_tokens"] / 1e6} for r in sorted(records, key=lambda r: r["copies"])),
    )


EXPERIMENT = Experiment("Memory of word models", run, "copies", "wiki_text8_style").takes(copies=(1, 4, 16))
