"""Peak memory of training with an anchor embedding, against nn.Embedding and Adam; tables of ten million rows.

    python benchmarks/anchor_memory.py

A classifier of texts by the mean of the vectors of their tokens, batches of 256 texts of 100 tokens drawn by Zipf's
law, d = 256, three steps on one of them. Each in a process of its own: the most memory that was resident at any time,
from making the table on, less what was before it. V = 2 million with 100 anchors and with nn.Embedding; V = 10 million
with 100 anchors; V = 267,735 (the words of WikiText-103) with 1,000.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection

from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed

DIM, N_STEPS = 256, 3
OURS, THEIRS = "AnchorEmbedding, ProxAdam", "nn.Embedding, Adam"
# Objects, anchors (none: a row of its own for each).
TABLES = ((2_000_000, 100), (2_000_000, None), (10_000_000, 100), (267_735, 1_000))


def measure(n_words: int, n_anchors: int | None, pipe: multiprocessing.connection.Connection) -> None:
    """Train in this process; send what it took."""
    import torch

    import nearfar as nf
    from anchor_steps import LENGTH, LR, PENALTY, TEXTS, training_step, zipf

    torch.set_num_threads(1)
    torch.manual_seed(0)
    adam, prox_adam = torch.optim.Adam, nf.nn.ProxAdam

    def train(n_words: int, n_anchors: int | None, n_steps: int) -> dict[str, object]:
        if n_anchors is None:
            table = torch.nn.Embedding(n_words, DIM)
            step = training_step(table, lambda t, h: [adam([*t.parameters(), *h.parameters()], lr=LR)])
        else:
            table = nf.nn.AnchorEmbedding(n_words, DIM, n_anchors, penalty=PENALTY)
            step = training_step(table, lambda t, h: [prox_adam([*t.parameters(), *h.parameters()], lr=LR)])
        ids = zipf(n_words, (TEXTS, LENGTH), 0)
        steps = [timed(lambda: step(ids)) for _ in range(n_steps)]
        losses = [round(loss, 6) for loss, _ in steps]
        return {"losses": losses, "seconds": round(min(took for _, took in steps), 4)}

    train(1_000, n_anchors and 10, 2)  # what the first call of anything loads is not of the table
    reset_peak_memory()
    before = resident_memory()
    found = train(n_words, n_anchors, N_STEPS)
    pipe.send({**found, "mib": round((peak_memory() - before) / 2**20, 1)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divide", type=int, default=1, help="so many times fewer objects, for a trial")
    args = parser.parse_args()
    file = ResultFile("anchor_memory", ("n_words", "n_anchors", "method"))
    context = multiprocessing.get_context("spawn")
    for n_words, n_anchors in TABLES:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(n_words // args.divide, n_anchors, theirs))
        process.start()
        theirs.close()
        method = THEIRS if n_anchors is None else OURS
        record = {"n_words": n_words // args.divide, "n_anchors": n_anchors, "method": method, **ours.recv()}
        process.join()
        file.add(record)
        say(str(record))


if __name__ == "__main__":
    main()
