"""Word2DM: speed against PyTorch, and what becomes of the pull between true pairs.

    python benchmarks/word2dm.py speed --torch PYTHON [--n-jobs 2] [--sizes 17 10]
    python benchmarks/word2dm.py pull [--n-words 2500000] [--n-epochs 5] [--settings NAME ...]

PYTHON is an interpreter that has PyTorch.

*speed*: the same pairs for all, true ones with 5 noise words each, drawn from the Wikipedia sample (min_count 5,
sample 1e-3, window 5) before the time starts; one pass over them with the same start and rates. PyTorch is batched,
with sparse gradients (SGD and SparseAdam), at every batch size; the page takes its best. nearfar: SGD window by window,
Adam in batches of 16 sentences of 20 centres; "shared" is with noise words shared by a window, as is its default.

*pull*: the first words of the sample, in which 40 pairs of words of alike frequency are made one word each. Epoch by
epoch the share of true pairs that are orthogonal or tiny (see ``Word2DM.pull_``), and the loss; at the end word
similarity (Spearman's rho), how the entropies of the 5,000 most frequent words are spread, and how often that of a
pseudo-word is above that of a word of alike frequency.
"""

from __future__ import annotations

import argparse
import lzma
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import DATA, ResultFile, say
from nearfar._core.vector import empty_aligned
from nearfar.words.windows import SamplingOptions, TextWindows, Windows
from peers.torch_word2dm import train as train_by_torch

KEYS = ("part", "size", "optimizer", "method", "batch", "n_jobs", "trial", "setting", "n_words", "n_epochs")
PACKED = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
SIMILARITY = {"wordsim": "EN-WS-353-ALL.txt", "simlex": "EN-SIMLEX-999.txt", "men": "EN-MEN-TR-3k.txt"}
RATES = {"sgd": 0.025, "adam": 0.001}
BATCHES = (256, 1024, 4096, 16384)
SETTINGS: dict[str, dict[str, Any]] = {
    "published start, no offset, Adam": {"offset": 0.0, "start_trace": None, "ridge": 0.0, "optimizer": "adam"},
    "published start, no offset, SGD": {"offset": 0.0, "start_trace": None, "ridge": 0.0},
    "no offset": {"offset": 0.0, "ridge": 0.0},
    "published start": {"start_trace": None, "ridge": 0.0},
    "offset ln K, start of trace 1": {"ridge": 0.0},
    "default": {},
    "offset ln K + 1, start of trace 3": {"offset": 2.6, "start_trace": 3.0},
    "default, Adam": {"optimizer": "adam"},
}


def articles(n_words: int) -> list[str]:
    """Return the first articles of the sample."""
    lines, n = [], 0
    with lzma.open(PACKED, "rt") as file:
        for line in file:
            lines.append(line)
            n += line.count(" ")
            if n >= n_words:
                break
    return lines


def sample(n_words: int) -> nf.EncodedCorpus:
    """Return the first articles, encoded."""
    return nf.Corpus(articles(n_words)).encode(min_count=5)


# ---------------------------------------------------------------- speed


def windows_of(corpus: nf.EncodedCorpus, n_pairs: int, *, shared: bool) -> Windows:
    """Draw windows until there are so many pairs; 20 centres count as a sentence, for batches of Adam."""
    source = TextWindows(corpus, SamplingOptions(5, "word", 5, shared, 1e-3, 0.75))
    parts: list[Windows] = []
    for block, (start, stop) in enumerate(source.blocks):
        parts += [Windows(*(part.copy() for part in windows)) for windows in source.windows(start, stop, block)]
        if sum(part.inputs.size for part in parts) >= n_pairs:
            break
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    per_sentence = 20 if shared else 20 * round(sizes.sum() / max(sum(map(_n_centres, parts)), 1))
    sentences = np.append(np.arange(0, len(sizes), per_sentence), len(sizes))
    inputs, outs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "outs"))
    return Windows(inputs, starts, outs, sentences)


def _n_centres(windows: Windows) -> int:
    centres = windows.outs[:, 0]
    return int((np.diff(centres) != 0).sum()) + 1


def seconds_of(
    model: nf.Word2DM, arrays: dict[str, NDArray[Any]], windows: Windows, n_jobs: int
) -> tuple[float, float]:
    """Return seconds and loss of a pass, on threads that share the windows as in a fit."""
    from nearfar._core.threads import even_bounds, run_blocks

    train = model._train(arrays)
    bounds = even_bounds(len(windows.sentences) - 1, 200)
    sums = np.zeros((len(bounds), 2))

    def task(block: int, first: int, last: int) -> None:
        cuts = windows.sentences[first : last + 1]
        starts = windows.starts[cuts[0] : cuts[-1] + 1]
        part = Windows(
            windows.inputs[starts[0] : starts[-1]], starts - starts[0], windows.outs[cuts[0] : cuts[-1]], cuts - cuts[0]
        )
        train(part, RATES[model.optimizer], sums[block])

    began = time.perf_counter()
    run_blocks(task, bounds, n_jobs)
    seconds = time.perf_counter() - began
    loss, pairs = sums.sum(axis=0)
    return seconds, float(loss / pairs)


def speed(file: ResultFile, args: argparse.Namespace) -> None:
    corpus = sample(args.n_words)
    n_words = len(corpus.vocabulary)
    drawn = {name: windows_of(corpus, args.n_pairs, shared=name == "shared") for name in ("per pair", "shared")}
    for size in args.sizes:
        for trial in range(args.runs):
            for optimizer in ("sgd", "adam"):
                model = nf.Word2DM(size, size, optimizer=optimizer, offset=0.0, ridge=0.0)
                start = model._start(
                    SimpleNamespace(ids=range(n_words), context_ids=range(n_words)), np.random.default_rng(0)
                )
                key = {"part": "speed", "size": size, "optimizer": optimizer, "n_jobs": args.n_jobs, "trial": trial}
                for name, windows in drawn.items():
                    seconds_of(model, copied(start), head(windows), args.n_jobs)
                    arrays = copied(start)
                    seconds, loss = seconds_of(model, arrays, windows, args.n_jobs)
                    note(file, {**key, "method": f"nearfar, noise {name}"}, windows.inputs.size, seconds, loss)
                if args.torch:
                    by_torch(file, key, args, drawn["per pair"], start)


def copied(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return copies that begin with a cache line, as the tables of a fit do."""
    made = {name: empty_aligned(array.shape, array.dtype) for name, array in arrays.items()}
    for name, array in arrays.items():
        made[name][...] = array
    return made


def head(windows: Windows) -> Windows:
    """Return a few windows, for what is compiled at first use."""
    return Windows(windows.inputs, windows.starts[:9], windows.outs[:8], np.array([0, 8]))


def by_torch(
    file: ResultFile, key: dict[str, Any], args: argparse.Namespace, windows: Windows, start: dict[str, NDArray[Any]]
) -> None:
    size = key["size"]
    tables = tuple(
        np.ascontiguousarray(start[name][:, : size * size].reshape(-1, size, size).swapaxes(1, 2)) for name in "BC"
    )
    for batch in args.batches:
        n_pairs = min(windows.inputs.size, max(args.torch_pairs, 8 * batch))
        pairs = windows.inputs[:n_pairs], windows.outs[:n_pairs]
        rate = RATES[key["optimizer"]]
        found = train_by_torch(args.torch, (tables[0], tables[1]), pairs, key["optimizer"], rate, batch, args.n_jobs)
        name = {"method": "PyTorch", "batch": batch}
        note(
            file,
            {**key, **name},
            n_pairs,
            found["seconds"],
            found["loss"],
            formed=found["formed"],
            torch=found["torch"],
        )


def note(file: ResultFile, key: dict[str, Any], n_pairs: int, seconds: float, loss: float, **more: Any) -> None:
    record = {"pairs": n_pairs, "seconds": round(seconds, 3), "pairs_per_second": round(n_pairs / seconds)}
    file.add({**key, **record, "loss": round(loss, 4), **more})
    say(f"{key}: {record}, loss {loss:.4f}")


# ---------------------------------------------------------------- pull


def pairs_of(corpus: nf.EncodedCorpus, n_pairs: int = 40) -> list[tuple[str, str]]:
    """Return words from the 300th to the 3,300th in pairs of alike frequency."""
    words = [word for word in corpus.vocabulary.words.to_numpy()[300:3300].tolist() if len(word) > 3]
    rows = np.sort(np.random.default_rng(1).permutation(len(words))[: 2 * n_pairs])
    return [(words[rows[2 * k]], words[rows[2 * k + 1]]) for k in range(n_pairs)]


def pull(file: ResultFile, args: argparse.Namespace) -> None:
    corpus = sample(args.n_words)
    pairs = pairs_of(corpus)
    planted = nf.evaluate.plant_pseudowords(corpus, pairs)
    for size in args.sizes:
        for setting in args.settings or SETTINGS:
            changed = dict(SETTINGS[setting])
            if changed.get("start_trace", 1) is None:
                changed["start_trace"] = 1 / (12 * size * size)
            model = nf.Word2DM(size, size, **changed, n_epochs=args.n_epochs, random_state=0, n_jobs=args.n_jobs)
            model.fit(planted)
            key = {"part": "pull", "size": size, "setting": setting, "n_words": args.n_words, "n_epochs": args.n_epochs}
            record = figures(model, pairs)
            file.add({**key, **record})
            say(f"{key}: {record}")


def figures(model: nf.Word2DM, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    words, seen = model.vectors_, model.pull_
    curves = {"loss": model.loss_curve_, "orthogonal": seen.orthogonal, "tiny": seen.tiny}
    record: dict[str, Any] = {name: [round(float(x), 4) for x in curve] for name, curve in curves.items()}
    record["share"] = [round(float(x), 4) for x in seen.share[-1]]
    record["norm"] = [None if np.isnan(x) else float(f"{x:.3g}") for x in seen.norm[-1]]
    for name, path in SIMILARITY.items():
        found = nf.evaluate.word_similarity(words, DATA / "word_similarity" / path)
        record |= {name: round(found.rho, 4), f"{name}_interval": [round(x, 4) for x in found.interval]}
    entropies = words.entropy()[:5000]
    record["entropy"] = [round(float(x), 3) for x in np.quantile(entropies, [0.05, 0.5, 0.95])]
    record["entropy_auc"] = round(nf.evaluate.sense_induction(words, pairs).entropy_auc, 3)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "pull"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[17, 10])
    parser.add_argument("--n-words", type=int, default=2_500_000)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--n-pairs", type=int, default=1_000_000)
    parser.add_argument("--torch-pairs", type=int, default=100_000)
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--n-epochs", type=int, default=5)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS)
    args = parser.parse_args()
    {"speed": speed, "pull": pull}[args.part](ResultFile("word2dm", KEYS), args)


if __name__ == "__main__":
    main()
