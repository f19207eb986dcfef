"""What runs on a device, timed there: EDRep, exact t-SNE, in-batch NCE.

    python benchmarks/devices.py --device cuda
    python benchmarks/devices.py --device cpu --divide 1000    a trial

At full size: EDRep of 10 million nodes and 1 billion stored entries, d = 128, 30 epochs of a walk of one step; 250
iterations of t-SNE of 50,000 points with the exact far field; forward and backward of in-batch NCE, B = 2^17, d = 256.
``--divide`` makes all of them so many times smaller. Records say on which device they were taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

import nearfar as nf
from _common import ResultFile, say, timed


def edrep(device: str, divide: int) -> dict[str, Any]:
    """Time a fit of a random graph; most of it is products of a sparse matrix and the vectors."""
    n, degree, d, n_epochs = 10_000_000 // divide, 100, 128, 30
    rng = np.random.default_rng(0)
    indices = rng.integers(n, size=n * degree, dtype=np.int32)
    A = csr_array((np.ones(indices.size, np.float32), indices, np.arange(0, indices.size + 1, degree)), shape=(n, n))
    walk = nf.Relation.from_matrix(A).random_walk(1)
    est = nf.EDRep(d, n_epochs=n_epochs, gradient="forward", random_state=0, device=device)
    seconds = timed(lambda: est.fit(walk))[1]
    # Read at least: each entry, a vector for it, and per epoch a few passes over the vectors.
    read = n_epochs * walk.nnz * (8 + 4 * d)
    return {"n": n, "nnz": walk.nnz, "seconds": seconds, "gb_per_s": read / seconds / 1e9, "loss": est.loss_}


def tsne(device: str, divide: int) -> dict[str, Any]:
    """Time the iterations of a map, neighbours included."""
    n = max(100, 50_000 // divide)
    X = np.random.default_rng(0).normal(size=(n, 20))
    est = nf.TSNE(perplexity=10, max_iter=250, far="exact", random_state=0, device=device)
    return {"n": n, "seconds": timed(lambda: est.fit(X))[1], "cost": est.cost_}


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


TASKS: dict[str, Callable[[str, int], dict[str, Any]]] = {"edrep": edrep, "tsne": tsne, "in_batch_nce": in_batch_nce}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--divide", type=int, default=1, help="so many times smaller, for a trial")
    parser.add_argument("--only", choices=TASKS, help="one of them")
    args = parser.parse_args()
    name = torch.cuda.get_device_name() if args.device != "cpu" else "processor, by torch"
    file = ResultFile("devices", ("task", "device", "divide"))
    for task, measure in TASKS.items():
        if args.only in (None, task):
            found = measure(args.device, args.divide)
            file.add({"task": task, "device": name, "torch": torch.__version__, "divide": args.divide, **found})
            say(str(file.records[-1]))


if __name__ == "__main__":
    main()
