"""Peak memory of training with an anchor embedding, against nn.Embedding and Adam; tables of ten million rows.

A classifier of texts by the mean of the vectors of their tokens, batches of 256 texts of 100 tokens drawn by Zipf's
law, d = 256, three steps on one of them. Each in a process of its own: the most memory that was resident at any time,
from making the table on, less what was before it. V = 2 million with 100 anchors and with nn.Embedding; V = 10 million
with 100 anchors; V = 267,735 (the words of WikiText-103) with 1,000. ``--divide``: so many times fewer objects, for a
trial.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch

import nearfar as nf
from lab.experiment import Experiment, Section
from lab.measure import alone, measured, timed
from lab.records import Record, duration, pick
from lab.results import ResultFile
from lab.small.anchor_steps import DIM, LENGTH, LR, OURS, PENALTY, TEXTS, training_step, zipf

THEIRS = "nn.Embedding, Adam"
# Objects, anchors (none: a row of its own for each).
TABLES = ((2_000_000, 100), (2_000_000, None), (10_000_000, 100), (267_735, 1_000))
N_BESIDE, N_LARGE, GIB_LARGE = 2_000_000, 10_000_000, 8
N_MANY, ANCHORS_MANY = 267_735, 1_000


def train(n_words: int, n_anchors: int | None, n_steps: int) -> dict[str, Any]:
    table: Any = torch.nn.Embedding(n_words, DIM) if n_anchors is None else None
    table = table or nf.nn.AnchorEmbedding(n_words, DIM, n_anchors, penalty=PENALTY)
    kind = torch.optim.Adam if n_anchors is None else nf.nn.ProxAdam
    step = training_step(table, lambda t, h: [kind([*t.parameters(), *h.parameters()], lr=LR)])
    ids = zipf(n_words, (TEXTS, LENGTH), 0)
    losses, seconds = zip(*(timed(lambda: step(ids)) for _ in range(n_steps)), strict=True)
    return {"losses": [round(loss, 6) for loss in losses], "seconds": round(min(seconds), 4)}


def measure(n_words: int, n_anchors: int | None) -> dict[str, Any]:
    """Train in this process; return what it took."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train(1_000, n_anchors and 10, 2)  # what the first call of anything loads is not of the table
    found, _, memory = measured(lambda: train(n_words, n_anchors, 3))
    return {**found, "mib": round(memory / 2**20, 1)}


def run(file: ResultFile, given: Namespace) -> None:
    for n_words, n_anchors in TABLES:
        if key := file.new(n_words // given.divide, n_anchors, THEIRS if n_anchors is None else OURS):
            file.add({**key, **alone(measure, n_words // given.divide, n_anchors)})


def told(section: Section, records: list[Record]) -> None:
    beside = section.target(f"peak memory of training, V = {N_BESIDE:,}, against `{THEIRS}`", "under a fifth")
    large = section.target(f"peak memory of training, V = {N_LARGE:,}", f"at most {GIB_LARGE} GiB")
    many = section.target(f"V = {N_MANY:,} with {ANCHORS_MANY:,} anchors", "trains in 24 GiB")
    ours, theirs = (pick(records, n_words=N_BESIDE, method=name) for name in (OURS, THEIRS))
    if ours and theirs:
        share = ours[0]["mib"] / theirs[0]["mib"]
        beside.tell(f"{share:.3f} of it", share < 1 / 5)
    for target, n_words, allowed in ((large, N_LARGE, GIB_LARGE), (many, N_MANY, 24)):
        for record in pick(records, n_words=n_words, method=OURS):
            held, losses = record["mib"] / 1024, record["losses"]
            met = held <= allowed and losses[-1] < losses[0]
            target.tell(f"{held:.2f} GiB, loss {losses[0]:.4f} to {losses[-1]:.4f}", met)
    section.say("""Peak resident memory from the construction of the table on, minus the memory before it, in
        separate processes: three steps of a classifier on the mean of 100 vectors, on one batch of 256 texts, d =
        256. Time of the fastest step, one thread.""")
    rows = []
    for r in sorted(records, key=lambda r: (r["n_words"], r["method"])):
        anchors = "–" if r["n_anchors"] is None else f"{r['n_anchors']:,}"
        memory, seconds = f"{r['mib'] / 1024:.2f} GiB", duration(r["seconds"])
        rows.append([f"{r['n_words']:,}", f"`{r['method']}`", anchors, memory, seconds])
    section.table(["V", "method", "anchors", "peak memory", "step"], rows)


EXPERIMENT = Experiment(
    "Memory of anchor embeddings in training", ("n_words", "n_anchors", "method"), run, {"divide": 1}
)
