"""Time of a training step with an anchor embedding, against nn.Embedding; lazy against eager proximal steps.

    python benchmarks/anchor_steps.py --parts step prox

step: a classifier of texts by the mean of the vectors of their tokens, V = 100,000, d = 256, 50 anchors, batches of
256 texts of 100 tokens, drawn by Zipf's law or evenly; forward, backward and optimiser, in processor time. The same
model with nn.Embedding and Adam, as it comes and fused, and with sparse=True and SparseAdam. prox: the step of the
optimiser alone, V = 500,000, 100 anchors, for batches of 1,024 and of 25,600 draws of Zipf's law. Lazy is the step as
it is; eager is the same step and then the threshold for all rows at once, on the 8 slots of a row; with a dense T, as
in the authors' code, it is the step of all of a V x K matrix with dense gradients. What is timed is the step alone,
never the gradient before it.
One thread; the methods take turns, the middle of their times is given.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

import nearfar as nf
from _common import ResultFile, say, timed

N_WORDS, DIM, N_ANCHORS = 100_000, 256, 50
TEXTS, LENGTH, CLASSES = 256, 100, 4
MANY_WORDS, MANY_ANCHORS = 500_000, 100
BATCHES = (1_024, 25_600)
LR, PENALTY, EPS = 1e-3, 1e-6, 1e-8

Step = Callable[[torch.Tensor], float]


def zipf(n: int, size: tuple[int, ...], seed: int) -> torch.Tensor:
    """Draw words with chances proportional to 1 / rank."""
    generator = torch.Generator().manual_seed(seed)
    heap = torch.cumsum(1 / torch.arange(1, n + 1, dtype=torch.float64), 0)
    return torch.searchsorted(heap, torch.rand(size, dtype=torch.float64, generator=generator) * heap[-1])


def evenly(n: int, size: tuple[int, ...], seed: int) -> torch.Tensor:
    """Draw words with equal chances: few come twice in a batch."""
    return torch.randint(n, size, generator=torch.Generator().manual_seed(seed))


DRAWS = {"zipf": zipf, "even": evenly}


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
    adam, sparse_adam = torch.optim.Adam, torch.optim.SparseAdam
    return {
        "AnchorEmbedding, ProxAdam": training_step(
            ours, lambda t, h: [nf.nn.ProxAdam([*t.parameters(), *h.parameters()], lr=LR)]
        ),
        "nn.Embedding, Adam": training_step(dense, lambda t, h: [adam([*t.parameters(), *h.parameters()], lr=LR)]),
        "nn.Embedding, fused Adam": training_step(
            fused, lambda t, h: [adam([*t.parameters(), *h.parameters()], lr=LR, fused=True)]
        ),
        "nn.Embedding, SparseAdam": training_step(
            sparse, lambda t, h: [sparse_adam(t.parameters(), lr=LR), adam(h.parameters(), lr=LR)]
        ),
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
    for draw, draw_from in DRAWS.items():
        torch.manual_seed(seed)
        batches = [draw_from(n_words, (TEXTS, LENGTH), 1000 * seed + turn) for turn in range(repeats + 1)]

        def one(turn: int, step: Step, batches=batches) -> float:
            start = time.process_time()
            step(batches[turn])
            return time.process_time() - start

        rounds = {name: partial(one, step=step) for name, step in tables(n_words).items()}
        for name, seconds in take_turns(rounds, repeats).items():
            record = {"part": "step", "n_words": n_words, "method": name, "batch": TEXTS * LENGTH, "draw": draw}
            keep(file, {**record, "seed": seed}, seconds)


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
    for batch in BATCHES:
        batches = [zipf(n_words, (batch,), 1000 * seed + turn) for turn in range(repeats + 1)]
        for name in ("ProxSGD", "ProxAdam"):
            torch.manual_seed(seed)
            lazy, slots, dense = Rows(name, n_words), Rows(name, n_words), Dense(name, n_words)

            def one(turn: int, at: Rows | Dense, step: Callable[[], None], batches=batches) -> float:
                at.slopes(batches[turn])
                return timed(step)[1]

            methods = {
                f"{name}, lazy": partial(one, at=lazy, step=lazy.lazy),
                f"{name}, eager": partial(one, at=slots, step=slots.eager),
                f"{name}, eager, dense T": partial(one, at=dense, step=dense.eager),
            }
            for method, seconds in take_turns(methods, repeats).items():
                record = {"part": "prox", "n_words": n_words, "method": method, "batch": batch, "seed": seed}
                keep(file, record, seconds)


def keep(file: ResultFile, record: dict[str, object], seconds: list[float]) -> None:
    record = {**record, "seconds": round(statistics.median(seconds), 6), "best": round(min(seconds), 6)}
    file.add(record)
    say(str(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("step", "prox"), default=["step", "prox"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--n-words", type=int, help="fewer words, for a trial")
    args = parser.parse_args()
    torch.set_num_threads(1)
    file = ResultFile("anchor_steps", ("part", "n_words", "method", "batch", "draw", "seed"))
    for seed in args.seeds:
        if "step" in args.parts:
            measure_steps(file, args.n_words or N_WORDS, args.repeats, seed)
        if "prox" in args.parts:
            measure_prox(file, args.n_words or MANY_WORDS, args.repeats, seed)


if __name__ == "__main__":
    main()
