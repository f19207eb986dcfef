"""A language model of the Penn Treebank whose input table is small.

    python benchmarks/anchor_language.py [--methods uncompressed ANT] [--fewer 3.3 5.2 8.3] [--seeds 0 1 2]
    python benchmarks/anchor_language.py --hidden 650 --epochs 40 --dropout 0.5 --device cuda

The next word from all before it, by an LSTM of one layer, in as many streams as a batch has rows: an uncompressed table
of the words that are read, mixtures of anchors, or shorter vectors and a linear map. The output, an adaptive softmax,
is the same for all, and not tied to the table: it is not counted. Every learning rate runs with every seed; the one
that does best in the validation, on average, is told. Seeds draw starts and dropout; streams are the same. Products of
matrices in LSTM and output are in bfloat16 while it is trained, perplexities in float32.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf
from _anchor_language_section import ALLOWED, ANT, EPOCHS, HIDDEN, KEYS, LOW_RANK, UNCOMPRESSED
from _common import ResultFile, say
from sampled_softmax import read_words

N_COMPONENTS, N_STREAMS, LENGTH = 200, 64, 35
CUTOFFS = [500, 2500]  # of the adaptive softmax: words by frequency
FIRST_PRICE = 1e-7  # of an entry of T

Setting = dict[str, Any]
RATES, DROPOUT = (0.008, 0.012, 0.016, 0.02), 0.2  # what is tuned; what is not
# Of anchors: their part of the parameters, and their rate and that of T as parts of the model's.
OF_ANT: Setting = {
    "std": 0.2, "anchors": 0.27, "slots": 64, "start": 8, "dense": 0.15, "fixed": 0.6, "of_anchors": 0.2, "of_rows": 0.5
}  # fmt: skip
OF_METHODS: dict[str, Setting] = {UNCOMPRESSED: {"std": 0.1}, ANT: OF_ANT, LOW_RANK: {"std": 0.1}}


def streams_of_all() -> dict[str, Tensor]:
    """Return each part in parallel streams (n, N_STREAMS), words numbered by frequency; less than a row is left out."""
    parts = read_words()
    order = torch.bincount(parts["train"]).argsort(descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    return {
        part: ranks[words].unfold(0, len(words) // N_STREAMS, len(words) // N_STREAMS).T
        for part, words in parts.items()
    }


def windows(streams: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield words and those that follow them, (at most LENGTH, N_STREAMS)."""
    for start in range(0, len(streams) - 1, LENGTH):
        end = min(start + LENGTH, len(streams) - 1)
        yield streams[start:end], streams[start + 1 : end + 1]


def count_steps(streams: Tensor, epochs: int) -> int:
    return epochs * math.ceil((len(streams) - 1) / LENGTH)


# ---------------------------------------------------------------- tables


def normal_table(n: int, dim: int, std: float) -> nn.Embedding:
    table = nn.Embedding(n, dim)
    nn.init.normal_(table.weight, std=std)
    return table


class LowRank(nn.Module):
    """Short vectors and a linear map."""

    def __init__(self, n: int, dim: int, rank: int, std: float) -> None:
        super().__init__()
        self.vectors = normal_table(n, rank, std)
        self.map = nn.Linear(rank, dim, bias=False)
        nn.init.normal_(self.map.weight, std=rank**-0.5)  # vectors start as long as those of the others

    def forward(self, ids: Tensor) -> Tensor:
        return self.map(self.vectors(ids))


def table_of(method: str, n: int, dim: int, setting: Setting, budget: int) -> nn.Module:
    if method == UNCOMPRESSED:
        return normal_table(n, dim, setting["std"])
    if method == LOW_RANK:
        return LowRank(n, dim, budget // (n + dim), setting["std"])
    k = round(setting["anchors"] * budget / dim)
    table = nf.nn.AnchorEmbedding(n, dim, k, nnz_per_row=setting["slots"], penalty=FIRST_PRICE)
    with torch.no_grad():  # positive mixtures of most anchors would all be alike: rows start with few, as long
        table.values.mul_(math.sqrt(setting["slots"] / setting["start"]))
        table.values[:, setting["start"] :] = 0
        table.anchors.mul_(setting["std"])
    return table


def n_parameters(table: nn.Module) -> int:
    if isinstance(table, nf.nn.AnchorEmbedding):
        return table.n_parameters
    return sum(p.numel() for p in table.parameters())


def n_bytes(table: nn.Module) -> int:
    """Return the bytes of a trained table, indices included."""
    if isinstance(table, nf.nn.AnchorEmbedding):
        return int(table.export().nbytes)
    return sum(t.nbytes for t in table.state_dict().values())


# ---------------------------------------------------------------- the model


class LanguageModel(nn.Module):
    """Table, LSTM, adaptive softmax."""

    def __init__(self, table: nn.Module, n: int, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.table, self.dropout = table, nn.Dropout(dropout)
        self.lstm = nn.LSTM(dim, hidden)
        self.output = nn.AdaptiveLogSoftmaxWithLoss(hidden, n, CUTOFFS, div_value=2.0)

    def forward(self, words: Tensor, following: Tensor, state: Any, autocast: bool = False) -> tuple[Tensor, Any]:
        """Return the mean loss, and the state after the words."""
        vectors = self.table(words)
        with torch.autocast(words.device.type, torch.bfloat16, enabled=autocast):
            found, state = self.lstm(self.dropout(vectors), state)
            loss = self.output(self.dropout(found).flatten(0, 1), following.flatten()).loss
        return loss, tuple(part.detach() for part in state)


@torch.no_grad()
def perplexity(model: LanguageModel, streams: Tensor) -> float:
    model.eval()
    total, state = 0.0, None
    for words, following in windows(streams):
        loss, state = model(words, following, state)
        total += loss.item() * words.numel()
    model.train()
    return math.exp(total / (streams.numel() - streams.shape[1]))


def train(
    model: LanguageModel,
    streams: dict[str, Tensor],
    setting: Setting,
    epochs: int,
    course: nf.nn.ParameterBudget | None,
) -> None:
    """Train at a rate that falls to 0, whatever the table: by Adam, and T by Adam with a proximal step."""
    rest = [*model.lstm.parameters(), *model.output.parameters()]
    lr, table = setting["lr"], model.table
    if course:
        # All words move the anchors, so their rate is low. A row of T moves when its word is met: without momentum,
        # which would be of long ago, it goes as far as a row under dense Adam goes in all steps that follow.
        anchors = {"params": [table.anchors], "lr": lr * setting["of_anchors"]}
        rows = {"params": [table.values], "lr": lr * setting["of_rows"], "betas": (0.0, 0.999)}
        of_table: torch.optim.Optimizer = nf.nn.ProxAdam([anchors, rows], lr=lr)
    else:
        of_table = torch.optim.Adam(table.parameters(), lr=lr, fused=True)
    optimizers = [torch.optim.Adam(rest, lr=lr, fused=True), of_table]
    n_steps = count_steps(streams["train"], epochs)
    schedules = [torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, n_steps) for o in optimizers]
    step = 0
    for epoch in range(epochs):
        state = None
        for words, following in windows(streams["train"]):
            loss, state = model(words, following, state, autocast=True)
            loss.backward()
            for part in (*optimizers, *schedules):
                part.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            step += 1
            if course:
                course.step()
        size = n_parameters(model.table)
        say(f"    {epoch + 1}: {perplexity(model, streams['valid']):.2f} in the validation, {size:,} parameters")


def measure(
    file: ResultFile,
    streams: dict[str, Tensor],
    method: str,
    fewer: float | None,
    setting: Setting,
    seed: int,
    args: Any,
) -> None:
    """Train with one setting and one seed, if that is not done already, and keep what comes out."""
    text = json.dumps(setting)
    key = dict(zip(KEYS, (args.hidden, args.epochs, method, fewer, text, seed), strict=True))
    if file.find(**key):
        return
    n = int(streams["train"].max()) + 1
    budget = n * N_COMPONENTS if fewer is None else math.floor(n * N_COMPONENTS / fewer)
    torch.manual_seed(seed)
    table = table_of(method, n, N_COMPONENTS, setting, budget)
    model = LanguageModel(table, n, N_COMPONENTS, args.hidden, setting["dropout"]).to(streams["train"].device)
    n_steps = count_steps(streams["train"], args.epochs)
    course = None
    if method == ANT:
        parts = {"start": setting["dense"], "end": setting["fixed"]}
        course = nf.nn.ParameterBudget(model.table, n_steps=n_steps, n_parameters=budget, **parts)
    say(f"{method}, {fewer}, {text}, seed {seed}")
    began = time.process_time()
    train(model, streams, setting, args.epochs, course)
    seconds, size = time.process_time() - began, n_parameters(model.table)
    found = {part: round(perplexity(model, streams[part]), 3) for part in ("valid", "test")}
    price = {"price": model.table.penalty} if course else {}
    sizes = {"n_parameters": size, "n_bytes": n_bytes(model.table)}
    file.add({**key, **sizes, **price, **found, "cpu_seconds": round(seconds, 1)})
    say(f"  test {found['test']}, {size:,} parameters, {seconds:.0f} s of the processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=tuple(OF_METHODS), default=[UNCOMPRESSED, ANT])
    parser.add_argument("--fewer", type=float, nargs="+", default=list(ALLOWED), help="times fewer parameters")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES), help="learning rates to choose from")
    parser.add_argument("--dropout", type=float, default=DROPOUT)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(1)
    streams = {part: words.to(args.device) for part, words in streams_of_all().items()}
    file = ResultFile("anchor_language", KEYS)
    sizes = [(method, fewer) for method in args.methods for fewer in ([None] if method == UNCOMPRESSED else args.fewer)]
    for seed, (method, fewer), lr in itertools.product(args.seeds, sizes, args.rates):
        setting = {"lr": lr, "dropout": args.dropout, **OF_METHODS[method]}
        measure(file, streams, method, fewer, setting, seed, args)


if __name__ == "__main__":
    main()
