"""Word2DM: speed against PyTorch, and what becomes of the pull between true pairs.

``--part speed --torch PYTHON``, an interpreter that has PyTorch: the same pairs for all, true ones with 5 noise words
each, drawn from the Wikipedia sample (min_count 5, sample 1e-3, window 5) before the time starts; one pass over them
with the same start and rates. PyTorch is batched, with sparse gradients (SGD and SparseAdam), at every batch size; the
page takes its best. nearfar: SGD window by window, Adam in batches of 16 sentences of 20 centres; "shared" is with
noise words shared by a window, as is its default.

``--part pull``: the first words of the sample, in which 40 pairs of words of alike frequency are made one word each.
Epoch by epoch the share of true pairs that are orthogonal or tiny (see ``Word2DM.pull_``), and the loss; at the end
word similarity (Spearman's rho), how the entropies of the 5,000 most frequent words are spread, and how often that of a
pseudo-word is above that of a word of alike frequency.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import SIMILARITY, articles
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.peers import elsewhere
from lab.records import Record, distinct, groups, middle, pick
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.words.windows import SamplingOptions, TextWindows, Windows

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
FASTER = {"sgd": 5.0, "adam": 3.0}
NAMES = {"sgd": "SGD", "adam": "Adam"}


def sample(n_words: int) -> nf.EncodedCorpus:
    """Return the first articles, encoded."""
    return nf.Corpus(list(articles(n_words))).encode(min_count=5)


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
    n_centres = sum(int((np.diff(part.outs[:, 0]) != 0).sum()) + 1 for part in parts)
    per_sentence = 20 if shared else 20 * round(sizes.sum() / max(n_centres, 1))
    sentences = np.append(np.arange(0, len(sizes), per_sentence), len(sizes))
    inputs, outs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "outs"))
    return Windows(inputs, starts, outs, sentences)


def seconds_of(
    model: nf.Word2DM, arrays: dict[str, NDArray[Any]], windows: Windows, n_jobs: int
) -> tuple[float, float]:
    """Return seconds and loss of a pass, on threads that share the windows as in a fit."""
    train = model._train(arrays, RATES[model.optimizer])
    bounds = even_bounds(len(windows.sentences) - 1, 200)
    sums = np.zeros((len(bounds), 2))

    def task(block: int, first: int, last: int) -> None:
        cuts = windows.sentences[first : last + 1]
        starts = windows.starts[cuts[0] : cuts[-1] + 1]
        inputs, outs = windows.inputs[starts[0] : starts[-1]], windows.outs[cuts[0] : cuts[-1]]
        train(Windows(inputs, starts - starts[0], outs, cuts - cuts[0]), RATES[model.optimizer], sums[block])

    _, seconds = timed(lambda: run_blocks(task, bounds, n_jobs))
    loss, pairs = sums.sum(axis=0)
    return seconds, float(loss / pairs)


def speed(file: ResultFile, given: Namespace) -> None:
    corpus = sample(given.n_words)
    ids = range(len(corpus.vocabulary))
    drawn = {name: windows_of(corpus, given.n_pairs, shared=name == "shared") for name in ("per pair", "shared")}
    for size, trial, optimizer in product(given.sizes, range(given.runs), RATES):
        model = nf.Word2DM(size, size, optimizer=optimizer, offset=0.0, ridge=0.0)
        start = model._start(SimpleNamespace(n_rows=len(ids), context_ids=ids), np.random.default_rng(0))
        key = {"part": "speed", "size": size, "optimizer": optimizer, "n_jobs": given.n_jobs, "trial": trial}
        for name, windows in drawn.items():
            seconds_of(model, copied(start), head(windows), given.n_jobs)
            seconds, loss = seconds_of(model, copied(start), windows, given.n_jobs)
            note(file, {**key, "method": f"nearfar, noise {name}"}, windows.inputs.size, seconds, loss)
        if given.torch:
            by_torch(file, key, given, drawn["per pair"], start)


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
    file: ResultFile, key: dict[str, Any], given: Namespace, windows: Windows, start: dict[str, NDArray[Any]]
) -> None:
    size, optimizer = key["size"], key["optimizer"]
    B, C = (np.ascontiguousarray(start[name][:, : size * size].reshape(-1, size, size).swapaxes(1, 2)) for name in "BC")
    for batch in given.batches:
        n_pairs = min(windows.inputs.size, max(given.torch_pairs, 8 * batch))
        how = {"inputs": windows.inputs[:n_pairs], "outs": windows.outs[:n_pairs], "batch": batch}
        how |= {"optimizer": optimizer, "rate": RATES[optimizer]}
        found, seconds = elsewhere.run("word2dm", python=given.torch, n_jobs=given.n_jobs, B=B, C=C, **how)
        more = {"formed": bool(found["formed"]), "torch": str(found["torch"])}
        note(file, {**key, "method": "PyTorch", "batch": batch}, n_pairs, seconds, float(found["loss"]), **more)


def note(file: ResultFile, key: dict[str, Any], n_pairs: int, seconds: float, loss: float, **more: Any) -> None:
    record = {"pairs": n_pairs, "seconds": seconds, "pairs_per_second": round(n_pairs / seconds)}
    file.add({**key, **record, "loss": loss, **more})


# ---------------------------------------------------------------- pull


def pairs_of(corpus: nf.EncodedCorpus, n_pairs: int = 40) -> list[tuple[str, str]]:
    """Return words from the 300th to the 3,300th in pairs of alike frequency."""
    words = [word for word in corpus.vocabulary.words.to_numpy()[300:3300].tolist() if len(word) > 3]
    rows = np.sort(np.random.default_rng(1).permutation(len(words))[: 2 * n_pairs])
    return [(words[rows[2 * k]], words[rows[2 * k + 1]]) for k in range(n_pairs)]


def pull(file: ResultFile, given: Namespace) -> None:
    corpus = sample(given.n_words)
    pairs = pairs_of(corpus)
    planted = nf.evaluate.plant_pseudowords(corpus, pairs)
    for size, setting in product(given.sizes, given.settings):
        key = {"part": "pull", "size": size, "setting": setting, "n_words": given.n_words, "n_epochs": given.n_epochs}
        if file.wants(**key):
            changed = dict(SETTINGS[setting])
            if changed.get("start_trace", 1) is None:
                changed["start_trace"] = 1 / (12 * size * size)
            model = nf.Word2DM(size, size, **changed, n_epochs=given.n_epochs, random_state=0, n_jobs=given.n_jobs)
            file.add({**key, **figures(model.fit(planted), pairs)})


def figures(model: nf.Word2DM, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    words, seen = model.vectors_, model.pull_
    curves = {"loss": model.loss_curve_, "orthogonal": seen.orthogonal, "tiny": seen.tiny, "share": seen.share[-1]}
    record: dict[str, Any] = {name: [float(x) for x in curve] for name, curve in curves.items()}
    record["norm"] = [None if np.isnan(x) else float(x) for x in seen.norm[-1]]
    for name, path in SIMILARITY.items():
        found = nf.evaluate.word_similarity(words, path)
        record |= {name: found.rho, f"{name}_interval": found.interval}
    entropies = np.quantile(words.entropy()[:5000], [0.05, 0.5, 0.95])
    record["entropy"] = entropies.tolist()
    return record | {"entropy_auc": nf.evaluate.sense_induction(words, pairs).entropy_auc}


def run(file: ResultFile, given: Namespace) -> None:
    for part in given.part:
        {"speed": speed, "pull": pull}[part](file, given)


def told(section: Section, records: list[Record]) -> None:
    """Pairs per second on 2 workers; a true pair has five noise words."""
    of_speed, rows = pick(records, part="speed"), []
    for size, optimizer in product(distinct(of_speed, "size") or (17, 10), RATES):
        mine = pick(of_speed, size=size, optimizer=optimizer)
        ours, shared = (
            middle(pick(mine, method=f"nearfar, noise {how}"), "pairs_per_second") for how in ("per pair", "shared")
        )
        what = f"Word2DM {size} x {size}, {NAMES[optimizer]}, pairs/s, noise per pair"
        target = section.target(what, f"≥ {FASTER[optimizer]:.0f} times PyTorch")
        batches = [
            (middle(of, "pairs_per_second"), batch) for batch, of in groups(pick(mine, method="PyTorch"), "batch")
        ]
        if ours and shared and batches:
            best, batch = max(batches)
            target.tell(f"{ours / best:.1f} times", ours >= FASTER[optimizer] * best)
            said = [f"{value / 1e3:,.0f} k" for value in (ours, shared, best)]
            rows.append([f"{size} x {size}", NAMES[optimizer], *said, batch])
    section.table(["size", "optimiser", "noise per pair", "noise shared", "PyTorch", "at batch size"], rows)
    section.say("""Tiny, orthogonal: share of true pairs whose matrices are so after the last epoch. Spearman's rho.
        Entropies of the 5,000 most frequent words (5 %, median, 95 %). Ambiguous above: how often a pseudo-word has a
        larger entropy than a word of similar frequency.""")
    last = [{**r, **{name: r[name][-1] for name in ("loss", "tiny", "orthogonal")}} for r in pick(records, part="pull")]
    section.rows(
        "size | setting | loss | tiny | orthogonal | WordSim-353 | SimLex-999 | MEN | entropy | ambiguous above",
        "{size} x {size} | {setting} | {loss:.3f} | {tiny:share} | {orthogonal:share} | {wordsim:.3f} | {simlex:.3f}"
        " | {men:.3f} | {entropies} | {entropy_auc:.2f}",
        ({**r, "entropies": " – ".join(f"{x:.2f}" for x in r["entropy"])} for r in last),
    )


EXPERIMENT = Experiment(
    "Density matrices of words",
    run,
    "part size optimizer method batch n_jobs trial setting n_words n_epochs",
    "wiki_text8_style word_similarity",
    command="--torch PYTHON",
).takes(
    part=("speed", "pull"),
    sizes=(17, 10),
    n_words=2_500_000,
    n_jobs=2,
    runs=1,
    torch=str,
    n_pairs=1_000_000,
    torch_pairs=100_000,
    batches=BATCHES,
    n_epochs=5,
    settings=tuple(SETTINGS),
)
