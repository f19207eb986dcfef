"""Memory of ranking NCE with in-batch negatives, forward and backward, against the plain formulation.

    python benchmarks/nce_memory.py --sizes 4096 8192

B queries and keys of d = 64, float32. What the allocator of torch holds at most beyond what was there before, as the
profiler records it, in matrices of B x B float32. "scores given": beyond the scores themselves, which are an argument
that wants a gradient. "in all": from queries and keys, whatever is made on the way. The resident memory of a process
of its own is beside it, and the seconds (one thread) of the best of three.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
from collections.abc import Callable

from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed

D, REPEATS = 64, 3
METHODS = ("global_nce", "cross_entropy", "in_batch_nce", "cross_entropy(queries @ keys.T)")


def peak_bytes(task: Callable[[], object]) -> int:
    """Return what the allocator of torch held at most during a task, beyond what it held before: exact, on the CPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        task()
    held = peak = 0
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def measure(method: str, size: int, pipe: multiprocessing.connection.Connection) -> None:
    """Run a method in this process; send what it took."""
    import torch

    import nearfar.nn as nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    queries, keys = (torch.nn.functional.normalize(torch.randn(size, D)).requires_grad_() for _ in range(2))
    target = torch.arange(size)
    scores = (queries @ keys.T / 0.1).detach().requires_grad_() if method in METHODS[:2] else None
    cross_entropy = torch.nn.functional.cross_entropy
    losses: dict[str, Callable[[], torch.Tensor]] = {
        "global_nce": lambda: nn.global_nce(scores, target),
        "cross_entropy": lambda: cross_entropy(scores, target),
        "in_batch_nce": lambda: nn.in_batch_nce(queries, keys, temperature=0.1),
        "cross_entropy(queries @ keys.T)": lambda: cross_entropy(queries @ keys.T / 0.1, target),
    }

    def step() -> float:
        queries.grad = keys.grad = None
        if scores is not None:
            scores.grad = None
        loss = losses[method]()
        loss.backward()
        return loss.item()

    small = torch.zeros(2, 2, requires_grad=True)  # what the first call of anything loads is not of the method
    cross_entropy(small, torch.tensor([0, 1])).backward()
    reset_peak_memory()
    before = resident_memory()
    value = step()
    resident = peak_memory() - before
    seconds = min(timed(step)[1] for _ in range(REPEATS))
    queries.grad = keys.grad = None
    if scores is not None:
        scores.grad = None
    matrix = 4 * size * size
    pipe.send({
        "matrices": round(peak_bytes(step) / matrix, 4),
        "resident_matrices": round(resident / matrix, 3),
        "seconds": round(seconds, 4),
        "loss": round(value, 6),
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192])
    args = parser.parse_args()
    file = ResultFile("nce_memory", ("size", "method"))
    context = multiprocessing.get_context("spawn")
    for size in args.sizes:
        for method in METHODS:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=measure, args=(method, size, theirs))
            process.start()
            theirs.close()
            record = {"size": size, "method": method, **ours.recv()}
            process.join()
            file.add(record)
            say(str(record))


if __name__ == "__main__":
    main()
