"""Time of a training step with an anchor embedding, against nn.Embedding; lazy against eager proximal steps.

step: a classifier of texts by the mean of the vectors of their tokens, V = 100,000, d = 256, 50 anchors, batches of
256 texts of 100 tokens, drawn by Zipf's law or evenly; forward, backward and optimiser, in processor time. The same
model with nn.Embedding and Adam, as it comes and fused, and with sparse=True and SparseAdam. prox: the step of the
optimiser alone, V = 500,000, 100 anchors, for batches of 1,024 and of 25,600 draws of Zipf's law. Lazy is the step as
it is; eager is the same step and then the threshold for all rows at once, on the 8 slots of a row; with a dense T, as
in the authors' code, it is the step of all of a V x K matrix with dense gradients. What is timed is the step alone,
never the gradient before it. other: Adam's step of a small model that has nothing to do with the table, while one
lives and while none does. One thread; the methods take turns, the middle of their times is given. ``--n-words``:
fewer words, for a trial.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import chain, product
from typing import Any

import torch

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import alone, cpu_timed, measured, timed
from lab.records import Record, groups, middle, pick

N_WORDS, DIM, N_ANCHORS = 100_000, 256, 50
TEXTS, LENGTH, CLASSES = 256, 100, 4
MANY_WORDS, MANY_ANCHORS = 500_000, 100
BATCHES = (1_024, 25_600)
LR, PENALTY, EPS = 1e-3, 1e-6, 1e-8
Step = Callable[[torch.Tensor], float]
OURS = "AnchorEmbedding, ProxAdam"
# What a step stands beside, how many times its time is allowed.
BESIDE = {"nn.Embedding, Adam": 1.1, "nn.Embedding, fused Adam": 1.1, "nn.Embedding, SparseAdam": 1.0}
FASTER = 20
ALONE, BESIDE_TABLE, STEPS_OF_ANOTHER = "Adam, no table", "Adam, a table lives", 2_000


def zipf(n: int, size: tuple[int, ...], seed: int) -> torch.Tensor:
    """Draw words with chances proportional to 1 / rank."""
    generator = torch.Generator().manual_seed(seed)
    heap = torch.cumsum(1 / torch.arange(1, n + 1, dtype=torch.float64), 0)
    return torch.searchsorted(heap, torch.rand(size, dtype=torch.float64, generator=generator) * heap[-1])


def evenly(n: int, size: tuple[int, ...], seed: int) -> torch.Tensor:
    """Draw words with equal chances: few come twice in a batch."""
    return torch.randint(n, size, generator=torch.Generator().manual_seed(seed))


DRAWS = {"zipf": (zipf, "Zipf's law"), "even": (evenly, "even draws")}


def training_step(table: torch.nn.Module, optimizers: Callable[..., list[torch.optim.Optimizer]]) -> Step:
    """Return a function that makes one step of a classifier on a batch (TEXTS, LENGTH), and returns its loss."""
    head = torch.nn.Linear(DIM, CLASSES)
    optimizers_here = optimizers(table, head)
    target = torch.arange(TEXTS) % CLASSES

    def step(ids: torch.Tensor) -> float:
        loss = torch.nn.functional.cross_entropy(head(table(ids).mean(1)), target)
        for optimizer in optimizers_here:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers_here:
            optimizer.step()
        return loss.item()

    return step


def tables(n_words: int) -> dict[str, Step]:
    """Return the step of each method."""
    ours = nf.nn.AnchorEmbedding(n_words, DIM, N_ANCHORS, penalty=PENALTY)
    dense, fused, sparse = (torch.nn.Embedding(n_words, DIM, sparse=flag) for flag in (False, False, True))

    def one(optimizer: Any, **how: Any) -> Callable[..., list[torch.optim.Optimizer]]:
        return lambda table, head: [optimizer([*table.parameters(), *head.parameters()], lr=LR, **how)]

    adam, sparse_adam = torch.optim.Adam, torch.optim.SparseAdam
    both = lambda t, h: [sparse_adam(t.parameters(), lr=LR), adam(h.parameters(), lr=LR)]  # noqa: E731
    return {
        OURS: training_step(ours, one(nf.nn.ProxAdam)),
        "nn.Embedding, Adam": training_step(dense, one(adam)),
        "nn.Embedding, fused Adam": training_step(fused, one(adam, fused=True)),
        "nn.Embedding, SparseAdam": training_step(sparse, both),
    }


def take_turns(steps: dict[str, Callable[[int], float]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each method in each round, the first of which, a warm-up, does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeats + 1):
        for name, step in steps.items():
            took = step(turn)
            if turn:
                seconds[name].append(took)
    return seconds


def measure_steps(file: ResultFile, n_words: int, repeats: int, seed: int) -> None:
    for draw, (draw_from, _) in DRAWS.items():
        torch.manual_seed(seed)
        batches = [draw_from(n_words, (TEXTS, LENGTH), 1000 * seed + turn) for turn in range(repeats + 1)]

        def one(turn: int, step: Step, batches: Any = batches) -> float:
            return cpu_timed(lambda: step(batches[turn]))[1]

        rounds = {name: partial(one, step=step) for name, step in tables(n_words).items()}
        keep(file, take_turns(rounds, repeats), "step", n_words, TEXTS * LENGTH, seed, draw)


class Rows:
    """T in slots, as the layer has it, lazy; eager is the same step, then the threshold for all rows at once."""

    def __init__(self, optimizer: str, n_words: int) -> None:
        self.layer = nf.nn.AnchorEmbedding(n_words, DIM, MANY_ANCHORS, penalty=PENALTY)
        self.optimizer = getattr(nf.nn, optimizer)([self.layer.values], lr=LR)

    def slopes(self, ids: torch.Tensor) -> None:
        self.layer.values.grad = None
        self.layer(ids).square().mean().backward()

    def lazy(self) -> None:
        self.optimizer.step()

    @torch.no_grad()
    def eager(self) -> None:
        self.optimizer.step()
        values, v = self.layer.values, self.optimizer.state[self.layer.values].get("v")
        values.sub_(LR * PENALTY if v is None else v.sqrt().add_(EPS).reciprocal_().mul_(LR * PENALTY)).clamp_(min=0)
        self.layer._accept()  # it was not another optimiser


class Dense:
    """T as a dense matrix (V, K) with dense gradients and moments, as in the released code."""

    def __init__(self, optimizer: str, n_words: int) -> None:
        self.table = torch.nn.Embedding(n_words, MANY_ANCHORS)
        self.table.weight.data.abs_()
        self.anchors = torch.randn(MANY_ANCHORS, DIM)
        names = ("m", "v") if optimizer == "ProxAdam" else ()
        self.state = {name: torch.zeros_like(self.table.weight) for name in names}
        self.n_steps = 0

    def slopes(self, ids: torch.Tensor) -> None:
        self.table.weight.grad = None
        (self.table(ids) @ self.anchors).square().mean().backward()

    @torch.no_grad()
    def eager(self) -> None:
        t, slope = self.table.weight, self.table.weight.grad
        if not self.state:
            t.sub_(slope, alpha=LR).sub_(LR * PENALTY).clamp_(min=0)
            return
        self.n_steps += 1
        self.state["m"].lerp_(slope, 0.1)
        self.state["v"].mul_(0.999).addcmul_(slope, slope, value=0.001)
        metric = self.state["v"].sqrt().add_(EPS)
        threshold = LR * (1 - 0.999**self.n_steps) ** 0.5
        t.addcdiv_(self.state["m"], metric, value=-threshold / (1 - 0.9**self.n_steps))
        t.sub_(metric.reciprocal_().mul_(threshold * PENALTY)).clamp_(min=0)


def measure_prox(file: ResultFile, n_words: int, repeats: int, seed: int) -> None:
    for batch, name in product(BATCHES, ("ProxSGD", "ProxAdam")):
        batches = [zipf(n_words, (batch,), 1000 * seed + turn) for turn in range(repeats + 1)]
        torch.manual_seed(seed)
        lazy, slots, dense = Rows(name, n_words), Rows(name, n_words), Dense(name, n_words)

        def one(turn: int, at: Rows | Dense, step: Callable[[], None], batches: Any = batches) -> float:
            at.slopes(batches[turn])
            return timed(step)[1]

        methods = {
            f"{name}, lazy": partial(one, at=lazy, step=lazy.lazy),
            f"{name}, eager": partial(one, at=slots, step=slots.eager),
            f"{name}, eager, dense T": partial(one, at=dense, step=dense.eager),
        }
        keep(file, take_turns(methods, repeats), "prox", n_words, batch, seed)


def measure_other(file: ResultFile, n_words: int, repeats: int, seed: int) -> None:
    """A table that lives looks once at each optimiser; the ways take turns, as a hook of torch is the process's."""
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(layer.parameters(), lr=LR)
    layer(torch.ones(2, 8)).sum().backward()

    def one(_: int, table: bool) -> float:
        held = nf.nn.AnchorEmbedding(n_words, DIM, N_ANCHORS) if table else None
        optimizer.step()
        seconds = cpu_timed(lambda: [optimizer.step() for _ in range(STEPS_OF_ANOTHER)])[1]
        del held
        return seconds / STEPS_OF_ANOTHER

    ways = {ALONE: partial(one, table=False), BESIDE_TABLE: partial(one, table=True)}
    keep(file, take_turns(ways, repeats), "other", n_words, 2, seed)


def keep(
    file: ResultFile,
    found: dict[str, list[float]],
    part: str,
    n_words: int,
    batch: int,
    seed: int,
    draw: str | None = None,
) -> None:
    for method, seconds in found.items():
        key = dict(zip(file.keys, (part, n_words, method, batch, draw, seed), strict=True))
        spent = {"seconds": statistics.median(seconds), "best": min(seconds)}
        file.add({**{name: value for name, value in key.items() if value is not None}, **spent})


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    for seed in given.seeds:
        if "step" in given.parts:
            measure_steps(file, given.n_words or N_WORDS, given.repeats, seed)
        if "prox" in given.parts:
            measure_prox(file, given.n_words or MANY_WORDS, given.repeats, seed)
        if "other" in given.parts:
            measure_other(file, given.n_words or N_WORDS, given.repeats, seed)


def told(section: Section, records: list[Record]) -> None:
    """step: forward, backward and optimiser of a classifier on the mean of 100 vectors; 50 anchors. prox: the optimiser
    alone, 100 anchors. Eager: the same step and thresholds of all rows: the 8 slots of each row, or a dense T as in the
    authors' code, with which the target compares. Words by Zipf's law, or evenly. One thread, median; of step,
    processor time.
    """
    for name, allowed in BESIDE.items():
        target = section.target(f"training step of `{OURS}` against `{name}`", f"at most {allowed} times")
        found = []
        for draw, (_, words) in DRAWS.items():
            steps = pick(records, part="step", n_words=N_WORDS, draw=draw)
            ours, theirs = (middle(pick(steps, method=method), "seconds") for method in (OURS, name))
            if ours and theirs:
                found.append((f"{ours / theirs:.2f} times ({words})", ours <= allowed * theirs))
        target.tell_all(found)
    for name in ("ProxSGD", "ProxAdam"):
        _lazy(section, records, name)
    other = section.target("Adam's step of a model without a table, while a table lives", "at most 1.05 times")
    beside, plain = (middle(pick(records, part="other", method=way), "seconds") for way in (BESIDE_TABLE, ALONE))
    if beside and plain:
        other.tell(f"{beside / plain:.2f} times", beside <= 1.05 * plain)
    drawn = [{"draw": "zipf", "words": DRAWS[r.get("draw", "zipf")][1], **r} for r in records if r["part"] != "other"]
    of_parts = reversed([of for *_, of in groups(drawn, "part", "n_words", "batch", "draw")])
    section.rows(
        "part | V | draws in a batch | words | method | time",
        "{part} | {n_words:,} | {batch:,} | {words} | `{method}` | {seconds:time}",
        chain.from_iterable(groups(of, "method") for of in of_parts),
    )


def _lazy(section: Section, records: list[Record], name: str) -> None:
    what = f"lazy step of `{name}` against the eager one, V = {MANY_WORDS:,}"
    target = section.target(what, f"at least {FASTER} times faster")
    found = []
    for batch, same in groups(pick(records, part="prox", n_words=MANY_WORDS), "batch"):
        ways = ("lazy", "eager, dense T", "eager")
        lazy, dense, slots = (middle(pick(same, method=f"{name}, {way}"), "seconds") for way in ways)
        if lazy and dense and slots:
            said = f"{dense / lazy:.0f} times (batches of {batch:,}; {slots / lazy:.1f} on slots)"
            found.append((said, dense >= FASTER * lazy))
    target.tell_all(found)


EXPERIMENT = Experiment("Training steps of anchor embeddings", run, "part n_words method batch draw seed").takes(
    parts=("step", "prox", "other"), repeats=20, seeds=(0, 1, 2), n_words=int
)


# ---------------------------------------------------------------- anchor memory


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
    return {"losses": losses, "seconds": min(seconds)}


def measure(n_words: int, n_anchors: int | None) -> dict[str, Any]:
    """Train in this process; return what it took."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train(1_000, n_anchors and 10, 2)  # what the first call of anything loads is not of the table
    found, _, memory = measured(lambda: train(n_words, n_anchors, 3))
    return {**found, "mib": memory / 2**20}


def run_anchor_memory(file: ResultFile, given: Namespace) -> None:
    """Peak memory of training with an anchor embedding, against nn.Embedding and Adam; tables of ten million rows.

    A classifier of texts by the mean of the vectors of their tokens, batches of 256 texts of 100 tokens drawn by
    Zipf's law, d = 256, three steps on one of them. Each in a process of its own: the most memory that was resident
    at any time, from making the table on, less what was before it. V = 2 million with 100 anchors and with
    nn.Embedding; V = 10 million with 100 anchors; V = 267,735 (the words of WikiText-103) with 1,000. ``--divide``:
    so many times fewer objects, for a trial.
    """
    for n_words, n_anchors in TABLES:
        if key := file.new(n_words // given.divide, n_anchors, THEIRS if n_anchors is None else OURS):
            file.add({**key, **alone(measure, n_words // given.divide, n_anchors)})


def told_anchor_memory(section: Section, records: list[Record]) -> None:
    """Peak resident memory from the construction of the table on, in processes of their own: three steps of a
    classifier, a batch of 256 texts, d = 256. Fastest step, one thread.
    """
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
    row = "{n_words:,} | `{method}` | {n_anchors:,} | {bytes:GiB} | {seconds:time}"
    sized = sorted(({**r, "bytes": r["mib"] * 2**20} for r in records), key=lambda r: (r["n_words"], r["method"]))
    section.rows("V | method | anchors | peak memory | step", row, sized)


MEMORY_EXPERIMENT = Experiment(
    "Memory of anchor embeddings in training", run_anchor_memory, "n_words n_anchors method"
).takes(divide=1)
