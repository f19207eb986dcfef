"""Word vectors made small after training: sparse mixtures of anchors, product quantisation and k-SVD at equal bytes.

The vectors are those of skip-gram in ``lab/words/word_models.py``, 289 numbers for each of the 30,000 most frequent
words of the Wikipedia sample, trained with the setting that was found there and kept in ``--cache``. A budget is what
product quantisation takes with sub-vectors of 2, 4 and 8 numbers, a byte each, with its codebooks: about 1/7, 1/14 and
1/25 of float32. ``compress`` has 1,000 anchors, and as many weights for a word as then fit, in float32 or rounded to 8
bits, then also without negative ones; 5 iterations. Bytes are those of the file without ids: indices, codebooks,
anchors and scales count. Codebooks are learned from 16,384 words. Sparse hash + k-SVD has the sizes with which it is
cited, 500 anchors and 10 weights or 1,000 and 20, in float32: it starts from the vectors of the most frequent words,
codes by orthogonal matching pursuit and then improves the anchors one after the other, each with its weights
(approximate K-SVD), as often as ``compress`` does. Quality: the norm of the difference over the norm of the vectors,
MEN, and analogies (3CosAdd among all words). One thread, whose own time is given. ``--n-words``: fewer, for a trial;
``--n-jobs``: threads of the training of vectors.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import ANALOGIES, MEN
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, duration, groups, number, pick
from lab.words.shelf import CACHE, Shelf
from nearfar.tables.compress import Codes, code_rows

SETTING = {"learning_rate": 0.05, "n_epochs": 5}  # the best in word_models.py
SUB_VECTORS = (2, 4, 8)
N_WORDS, N_ANCHORS, N_ITER = 30_000, 1000, 5
N_POINTS = 64  # for each centroid of product quantisation, to train it on
PUBLISHED = ((500, 10), (1000, 20))  # anchors and weights for a word
BATCH = 1024
Matrix = NDArray[np.float32]
Made = tuple[Matrix, int]  # the vectors that come back, and the bytes


@dataclass(frozen=True)
class Task:
    """A method with its sizes, and how to make it."""

    keys: dict[str, Any]
    make: Callable[[Matrix], Made]


def n_bytes(n: int, d: int, n_anchors: int, nnz_per_row: int, number: int) -> int:
    """Return the bytes of mixtures whose numbers have 4 bytes or 1: with indices, and scales of 8-bit numbers."""
    index = 1 if n_anchors <= 256 else 2
    scales = 8 * n_anchors if number == 1 else 0
    return number * n_anchors * d + scales + n * (1 + nnz_per_row * (number + index))


def quantised_bytes(n: int, d: int, sub_vector: int) -> int:
    """Return the bytes of product quantisation: a byte for each sub-vector, and the codebooks."""
    return -(-d // sub_vector) * (n + 256 * sub_vector * 4)


def quantise(vectors: Matrix, sub_vector: int) -> Made:
    """Product quantisation; zeros make the length a multiple of the sub-vectors."""
    n, d = vectors.shape
    parts = -(-d // sub_vector)
    padded = np.zeros((n, parts * sub_vector), np.float32)
    padded[:, :d] = vectors
    quantiser = faiss.ProductQuantizer(padded.shape[1], parts, 8)
    quantiser.cp.max_points_per_centroid = N_POINTS
    quantiser.train(padded)
    return quantiser.decode(quantiser.compute_codes(padded))[:, :d], quantised_bytes(n, d, sub_vector)


def anchored(vectors: Matrix, nnz_per_row: int, n_anchors: int, nonnegative: bool, int8: bool) -> Made:
    """``nf.compress``; the bytes are those of its file."""
    made = nf.compress(
        vectors, n_anchors, nnz_per_row, nonnegative=nonnegative, n_iter=N_ITER, random_state=0, n_jobs=1
    )
    made = made.to_int8() if int8 else made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "small.safetensors")
        made.save(path)
        return made.vectors, path.stat().st_size


def k_svd(vectors: Matrix, n_anchors: int, nnz_per_row: int) -> Made:
    """Approximate K-SVD (Rubinstein, Zibulevsky & Elad 2008), from the most frequent words; all float32 in the end."""
    n, d = vectors.shape
    anchors = vectors[:n_anchors].astype(np.float64)
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    for iteration in range(N_ITER + 1):
        columns, weights = codes(vectors, anchors, nnz_per_row)
        if iteration < N_ITER:
            update_atoms(vectors, anchors, columns, weights)
    single = anchors.astype(np.float32), weights.astype(np.float32)
    return mixtures(columns, single[1], single[0]), n_bytes(n, d, n_anchors, nnz_per_row, 4)


def codes(vectors: Matrix, anchors: NDArray[np.float64], nnz_per_row: int) -> tuple[NDArray[np.int32], Any]:
    """Return anchors and weights of each row by orthogonal matching pursuit, from nothing."""
    n, grams = len(vectors), anchors @ anchors.T
    columns, weights = np.zeros((n, nnz_per_row), np.int32), np.zeros((n, nnz_per_row))
    for start in range(0, n, BATCH):
        some = slice(start, start + BATCH)
        rows = vectors[some].astype(np.float64)
        counts, errors = np.zeros(len(rows), np.int32), np.zeros(len(rows))
        squares = np.square(rows).sum(axis=1)
        code_rows(grams, rows @ anchors.T, squares, False, Codes(columns[some], weights[some], counts, errors))
    return columns, weights


def mixtures(columns: NDArray[np.int32], weights: Any, anchors: Any) -> Matrix:
    """Return T A."""
    made = np.zeros((len(columns), anchors.shape[1]), np.float32)
    for slot in range(columns.shape[1]):
        made += weights[:, slot, None] * anchors[columns[:, slot]]
    return made


def update_atoms(vectors: Matrix, anchors: Any, columns: NDArray[np.int32], weights: Any) -> None:
    """One step of the power method for each atom and its weights, on what the others leave of the rows that use it."""
    left = vectors - mixtures(columns, weights, anchors)
    order = np.argsort(columns, axis=None, kind="stable")
    order = order[weights.ravel()[order] != 0]
    limits = np.searchsorted(columns.ravel()[order], np.arange(len(anchors) + 1))
    for k in range(len(anchors)):
        rows, slots = np.divmod(order[limits[k] : limits[k + 1]], columns.shape[1])
        if not rows.size:
            continue
        own = left[rows] + weights[rows, slots, None] * anchors[k]
        direction = weights[rows, slots] @ own
        anchors[k] = direction / np.linalg.norm(direction)
        weights[rows, slots] = own @ anchors[k]
        left[rows] = own - weights[rows, slots, None] * anchors[k]


def tasks(n: int, d: int, n_anchors: int) -> Iterator[Task]:
    """Yield what is measured, the smallest budget first."""
    yield Task({"method": "vectors"}, lambda vectors: (vectors, vectors.nbytes))
    for k, nnz in PUBLISHED:
        how = {"n_anchors": min(k, n), "nnz_per_row": nnz}
        yield Task({"method": "k-SVD, float32", **how}, partial(k_svd, **how))
    for sub_vector in reversed(SUB_VECTORS):
        yield Task(
            {"method": "product quantisation", "sub_vector": sub_vector}, partial(quantise, sub_vector=sub_vector)
        )
        for nonnegative in (False, True):
            yield from fitting(n, d, n_anchors, sub_vector, nonnegative=nonnegative, int8=True)
    for sub_vector in reversed(SUB_VECTORS):
        yield from fitting(n, d, n_anchors, sub_vector, nonnegative=False, int8=False)


def fitting(n: int, d: int, n_anchors: int, sub_vector: int, *, nonnegative: bool, int8: bool) -> Iterator[Task]:
    """Yield ``compress`` with as many weights as fit the budget, if any do."""
    number = 1 if int8 else 4
    fixed = n_bytes(n, d, n_anchors, 0, number)
    fits = (quantised_bytes(n, d, sub_vector) - fixed) // (n_bytes(n, d, n_anchors, 1, number) - fixed)
    if fits >= 1:
        name = f"compress, {'non-negative' if nonnegative else 'signed'}, {'int8' if int8 else 'float32'}"
        how = {"nnz_per_row": fits, "n_anchors": n_anchors}
        make = partial(anchored, **how, nonnegative=nonnegative, int8=int8)
        yield Task({"method": name, "sub_vector": sub_vector, **how}, make)


def quality(exact: Matrix, found: Matrix, ids: Any) -> dict[str, Any]:
    """Return what the vectors that come back are worth."""
    words = nf.Embedding(found, ids)
    men = nf.evaluate.word_similarity(words, MEN)
    solved = nf.evaluate.word_analogies(words, ANALOGIES)
    return {
        "error": float(np.linalg.norm(found - exact) / np.linalg.norm(exact)),
        "men": men.rho,
        "men_interval": men.interval,
        "analogies": solved.accuracy,
        "n_questions": solved.n_covered,
    }


def run(file: ResultFile, given: Namespace) -> None:
    faiss.omp_set_num_threads(1)
    embedding = Shelf(given.cache, None, given.n_jobs).trained("SkipGram", "plain", 0, **SETTING)[0].embedding
    ids = embedding.ids[: given.n_words]
    vectors = np.ascontiguousarray(embedding.vectors[: given.n_words], np.float32)
    n, d = vectors.shape
    nf.compress(vectors[:50], 5, 2, n_iter=1, n_jobs=1)  # compiles
    for task in tasks(n, d, min(N_ANCHORS, n)):
        key = {**dict.fromkeys(file.keys), **task.keys, "n_words": n}
        if file.wants(**key):
            (found, size), seconds = cpu_timed(task.make, vectors)
            spent = {"d": d, "bytes": size, "cpu_seconds": seconds}
            file.add({**key, **spent, **quality(vectors, found, ids)})


def told(section: Section, records: list[Record]) -> None:
    n_words = max((r["n_words"] for r in records), default=0)
    records = pick(records, n_words=n_words)
    whole = pick(records, method="vectors")
    if not whole:
        return
    d, bytes_whole = whole[0]["d"], whole[0]["bytes"]
    blocks = [mine for size, mine in groups(records, "sub_vector") if size is not None]
    cited = [r for r in pick(records, sub_vector=None) if r not in whole]
    cited.sort(key=lambda r: r["bytes"], reverse=True)
    section.say(f"""Skip-gram vectors of {n_words:,} words, {d} numbers each. Three blocks, of the size of product
        quantisation with one byte per 2, 4 and 8 numbers; sizes include indices, codebooks, anchors and scales.
        k-SVD has the sizes at which sparse hash + k-SVD is cited. Error: norm of the difference over that of the
        vectors. MEN: Spearman's rho with its bootstrap interval. Analogies by 3CosAdd. Time: to compress and
        restore, one thread.""")
    head = ["method", "anchors", "weights a word", "bytes a word", "times smaller", "error", "MEN", "analogies", "time"]
    section.table(head, [_row(r, bytes_whole) for block in (whole, *blocks, cited) for r in block])
    said = _said(blocks)
    if said:
        section.say(f"Number of sizes at which the better 8-bit code beats product quantisation: {', '.join(said)}.")


def _row(record: Record, bytes_whole: int) -> list[str]:
    low, high = record["men_interval"]
    sizes = ["–" if record[key] is None else f"{record[key]:,}" for key in ("n_anchors", "nnz_per_row")]
    sizes += [f"{record['bytes'] / record['n_words']:.0f}", f"{bytes_whole / record['bytes']:.1f}"]
    men, solved = f"{record['men']:.3f} ({low:.3f} – {high:.3f})", f"{100 * record['analogies']:.1f} %"
    seconds = "–" if record["method"] == "vectors" else duration(record.get("cpu_seconds"))
    return [record["method"], *sizes, number(record["error"]), men, solved, seconds]


def _said(blocks: list[list[Record]]) -> list[str]:
    """Say of each measure how often a code in 8 bits does better than product quantisation at equal bytes."""
    both = [
        (ours, theirs[0])
        for block in blocks
        if (theirs := pick(block, method="product quantisation"))
        and (ours := [r for r in block if r["method"].endswith("int8")])
    ]
    measures = {"error": ("error", -1), "MEN": ("men", 1), "analogies": ("analogies", 1)}
    said = []
    for title, (name, sign) in measures.items() if both else []:
        better = sum(max(sign * r[name] for r in ours) > sign * theirs[name] for ours, theirs in both)
        said.append(f"{title} {better} of {len(both)}")
    return said


EXPERIMENT = Experiment(
    "Compressed word vectors",
    run,
    "method sub_vector n_anchors nnz_per_row n_words",
    "wiki_text8_style word_similarity word_analogy",
).takes(cache=CACHE, n_words=N_WORDS, n_jobs=2)
