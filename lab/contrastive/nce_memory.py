"""Memory of ranking NCE with in-batch negatives, forward and backward, against the plain formulation.

B queries and keys of d = 64, float32. What the allocator of torch holds at most beyond what was there before, as the
profiler records it, in matrices of B x B float32. "scores given": beyond the scores themselves, which are an argument
that wants a gradient. "in all": from queries and keys, whatever is made on the way. The resident memory of a process
of its own is beside it, and the seconds (one thread) of the best of three.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product

from lab.experiment import Experiment, ResultFile, Section
from lab.measure import alone, measured, timed
from lab.records import Record, duration, groups, number, pick

D, REPEATS = 64, 3
METHODS = ("global_nce", "cross_entropy", "in_batch_nce", "cross_entropy(queries @ keys.T)")
GIVEN, IN_ALL = "scores given", "in all"
# What is compared, from where its memory is counted, what it stands beside.
COMPARED = {"global_nce": (GIVEN, "cross_entropy"), "in_batch_nce": (IN_ALL, "cross_entropy(queries @ keys.T)")}
# The gradient is a matrix; beside it are a few numbers for each row.
ALLOWED = 1.01


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


def measure(method: str, size: int) -> dict[str, float]:
    """Run a method in this process; return what it took."""
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

    def forget() -> None:
        for given in filter(lambda x: x is not None, (queries, keys, scores)):
            given.grad = None

    def step() -> float:
        forget()
        loss = losses[method]()
        loss.backward()
        return loss.item()

    small = torch.zeros(2, 2, requires_grad=True)  # what the first call of anything loads is not of the method
    cross_entropy(small, torch.tensor([0, 1])).backward()
    value, _, resident = measured(step)
    seconds = min(timed(step)[1] for _ in range(REPEATS))
    forget()
    matrix = 4 * size * size
    held = peak_bytes(step) / matrix
    return {"matrices": held, "resident_matrices": resident / matrix, "seconds": seconds, "loss": value}


def run(file: ResultFile, given: Namespace) -> None:
    for size, method in product(given.sizes, METHODS):
        if key := file.new(size, method):
            file.add({**key, **alone(measure, method, size)})


def told(section: Section, records: list[Record]) -> None:
    """Forward and backward, d = 64, float32, one thread; in units of a B x B float32 matrix. Held: the peak of the
    allocator above its start. Resident: of the process. Scores given: their gradient is counted. In all: from the
    vectors. `cross_entropy` is torch's.
    """
    rows = []
    for method, (given, plain) in COMPARED.items():
        what = f"memory of {method}, B in-batch negatives, {given}"
        target = section.target(what, "no more than one B x B matrix")
        found = []
        for size, mine in groups(pick(records, method=method), "size"):
            theirs = pick(records, method=plain, size=size)
            if theirs:
                for r in (*mine, *theirs):
                    memory = (number(r[name], 2) for name in ("matrices", "resident_matrices"))
                    rows.append([f"{size:,}", f"`{r['method']}`", given, *memory, duration(r["seconds"])])
                said = f"{mine[0]['matrices']:.2f} against {theirs[0]['matrices']:.2f} (B = {size:,})"
                found.append((said, mine[0]["matrices"] <= ALLOWED))
        target.tell_all(found)
    section.table(["B", "loss", "counted", "held", "resident", "time"], rows)


EXPERIMENT = Experiment("Memory of contrastive losses", run, "size method").takes(sizes=(4096, 8192))
