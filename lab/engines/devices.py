"""What runs on a device, timed there: EDRep, t-SNE exact and on a mesh, affinities, skip-gram, Word2DM, in-batch NCE.

    python -m lab run devices --device cuda
    python -m lab run devices --device cpu --divide 1000    a trial

At full size: EDRep of 10 million nodes and 1 billion stored entries, d = 128, 30 epochs of a walk of one step; 250
iterations of t-SNE of 50,000 points with the exact far field; affinities of 100,000 points; 750 iterations of t-SNE of
a million points on the mesh, after the neighbours; an epoch of skip-gram, d = 100, and of Word2DM, of 100 and 10
million words drawn by Zipf's law; forward and backward of in-batch NCE, B = 2^17, d = 256. ``--divide`` makes all of
them so many times smaller. Records say on which device they were taken.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.records import Record, duration


def engine_of(device: str | None) -> str:
    """Return the engine of an estimator that computes there."""
    return {"cpu": "torch", None: "threads"}.get(device) or str(device)


def edrep(device: str, divide: int) -> dict[str, Any]:
    """Time a fit of a random graph; most of it is products of a sparse matrix and the vectors."""
    n, degree, d, n_epochs = 10_000_000 // divide, 100, 128, 30
    rng = np.random.default_rng(0)
    indices = rng.integers(n, size=n * degree, dtype=np.int32)
    A = csr_array((np.ones(indices.size, np.float32), indices, np.arange(0, indices.size + 1, degree)), shape=(n, n))
    walk = nf.Relation.from_matrix(A).random_walk(1)
    est = nf.EDRep(d, n_epochs=n_epochs, gradient="forward", random_state=0, engine=engine_of(device))
    seconds = timed(lambda: est.fit(walk))[1]
    # Read at least: each entry, a vector for it, and per epoch a few passes over the vectors.
    read = n_epochs * walk.nnz * (8 + 4 * d)
    return {"n": n, "nnz": walk.nnz, "seconds": seconds, "gb_per_s": read / seconds / 1e9, "loss": est.loss_}


def tsne(device: str, divide: int) -> dict[str, Any]:
    """Time the iterations of a map, neighbours included."""
    n = max(100, 50_000 // divide)
    X = np.random.default_rng(0).normal(size=(n, 20))
    est = nf.TSNE(perplexity=10, max_iter=250, far="exact", random_state=0, engine=engine_of(device))
    return {"n": n, "seconds": timed(lambda: est.fit(X))[1], "cost": est.cost_}


def affinities(device: str, divide: int) -> dict[str, Any]:
    """Time neighbours, all rows against all, and their calibration."""
    n = max(200, 100_000 // divide)
    X = np.random.default_rng(0).normal(size=(n, 50)).astype(np.float32)
    return {"n": n, "seconds": timed(lambda: nf.Affinities(30, engine=engine_of(device)).fit(X))[1]}


def tsne_mesh(device: str, divide: int) -> dict[str, Any]:
    """Time a map after its neighbours, which are found on threads."""
    n, rng = max(200, 1_000_000 // divide), np.random.default_rng(0)
    X = (rng.normal(size=(n, 50)) + 6 * rng.normal(size=(20, 50))[rng.integers(20, size=n)]).astype(np.float32)
    found = nf.Affinities(30, random_state=0).fit(X)
    est = nf.TSNE(far="fft", random_state=0, engine=engine_of(device))
    return {"n": n, "seconds": timed(lambda: est.fit(found))[1], "cost": est.cost_}


def skipgram(device: str, divide: int) -> dict[str, Any]:
    """Time an epoch over a text without structure."""
    return _words(nf.SkipGram(100, n_epochs=1, random_state=0, engine=engine_of(device)), 100_000_000 // divide)


def word2dm(device: str, divide: int) -> dict[str, Any]:
    """Time an epoch of density matrices over a text without structure."""
    return _words(nf.Word2DM(n_epochs=1, random_state=0, engine=engine_of(device)), 10_000_000 // divide)


def _words(model: Any, n: int) -> dict[str, Any]:
    rng, n_words = np.random.default_rng(0), max(100, n // 1000)
    ranks = (n_words ** rng.random(n) - 1).astype(np.int32)  # as likely as 1 / (rank + 1)
    counts = np.bincount(ranks, minlength=n_words)
    words = nf.Vocabulary([f"w{k}" for k in np.flatnonzero(counts)], counts[counts > 0])
    numbers = np.full(n_words, -1, np.int32)
    numbers[[int(word[1:]) for word in words]] = np.arange(len(words))
    corpus = nf.EncodedCorpus(numbers[ranks], np.append(np.arange(20, n, 20), n), words)
    seconds = timed(lambda: model.fit(corpus))[1]
    return {"n": n, "seconds": seconds, "words_per_s": n / seconds, "loss": float(model.loss_curve_[-1])}


def in_batch_nce(device: str, divide: int) -> dict[str, Any]:
    """Time a step, and the memory that it takes beside the vectors."""
    batch, d = max(64, 2**17 // divide), 256
    queries, keys = (torch.nn.functional.normalize(torch.randn(batch, d, device=device)) for _ in range(2))
    queries.requires_grad_()
    keys.requires_grad_()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()

    def step() -> float:
        loss = nf.nn.in_batch_nce(queries, keys, temperature=0.1)
        loss.backward()
        return loss.item()  # waits for the device

    step()
    loss, seconds = timed(step)
    above = None if device == "cpu" else torch.cuda.max_memory_allocated() - before
    return {"n": batch, "seconds": seconds, "loss": loss, "bytes_above": above}


TASKS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    task.__name__: task for task in (edrep, tsne, affinities, tsne_mesh, skipgram, word2dm, in_batch_nce)
}


def run(file: ResultFile, given: Namespace) -> None:
    name = torch.cuda.get_device_name() if given.device != "cpu" else "processor, by torch"
    for task in given.tasks:
        if key := file.new(task, name, given.divide):
            file.add({**key, "torch": torch.__version__, **TASKS[task](given.device, given.divide)})


SAID = {
    "in_batch_nce": "in-batch NCE, forward and backward, d = 256",
    "tsne": "t-SNE, all pairs, 250 iterations, neighbours included",
    "affinities": "neighbours and affinities, d = 50",
    "tsne_mesh": "t-SNE on the mesh, 750 iterations",
    "skipgram": "skip-gram, an epoch, d = 100",
    "word2dm": "Word2DM, an epoch, 17 x 17",
    "edrep": "EDRep, 30 epochs, d = 128, 100 entries a row",
}


def told(section: Section, records: list[Record]) -> None:
    """One run of each, the first of its process, with the start of CUDA, compiling and transfers. Sizes are points,
    nodes, words or pairs of a batch.
    """
    section.rows(
        "task | size | device | time",
        "{said} | {n:,} | {device} | {took}",
        ({**r, "said": SAID[r["task"]], "took": duration(r["seconds"])} for r in records if r["divide"] == 1),
    )


EXPERIMENT = Experiment("On a device", run, "task device divide", may_be_missing=True).takes(
    device="cuda", divide=1, tasks=tuple(TASKS)
)
