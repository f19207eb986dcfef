"""A language model with any table of vectors: an LSTM on the next word, and an adaptive softmax."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf

LENGTH = 35  # steps of a window, through which gradients go
CUTOFFS = [500, 2500]  # of the adaptive softmax: words by frequency
FIRST_PRICE = 1e-7  # of an entry of T


def streams_of(texts: list[list[str]]) -> tuple[list[Tensor], int]:
    """Return texts as 64 streams of words (n, 64), numbered by their frequency in the first, and how many it has."""
    number = {word: i for i, (word, _) in enumerate(Counter(texts[0]).most_common())}
    streams = []
    for words in texts:
        ids = torch.tensor([number.get(word, number["<unk>"]) for word in words])
        streams.append(ids.unfold(0, len(ids) // 64, len(ids) // 64).T)
    return streams, len(number)


def windows(streams: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield words and those that follow them, (at most LENGTH, streams)."""
    for start in range(0, len(streams) - 1, LENGTH):
        end = min(start + LENGTH, len(streams) - 1)
        yield streams[start:end], streams[start + 1 : end + 1]


def count_steps(streams: Tensor, epochs: int) -> int:
    return epochs * math.ceil((len(streams) - 1) / LENGTH)


def normal_table(n: int, dim: int, std: float) -> nn.Embedding:
    table = nn.Embedding(n, dim)
    nn.init.normal_(table.weight, std=std)
    return table


def sparse_start(n: int, dim: int, n_anchors: int, slots: int, start: int, std: float) -> nf.nn.AnchorEmbedding:
    """Return a table whose rows start from few anchors, as long: positive mixtures of most would all be alike."""
    table = nf.nn.AnchorEmbedding(n, dim, n_anchors, nnz_per_row=slots, penalty=FIRST_PRICE)
    with torch.no_grad():
        table.values.mul_(math.sqrt(slots / start))
        table.values[:, start:] = 0
        table.anchors.mul_(std)
    return table


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
        # On a processor in float32: oneDNN makes no LSTM in bfloat16 where there is no AVX-512.
        with torch.autocast(words.device.type, torch.bfloat16, enabled=autocast and words.is_cuda):
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
    streams: Tensor,
    epochs: int,
    lr: float,
    course: nf.nn.ParameterBudget | None,
    *,
    of_anchors: float = 0.2,
    of_rows: float = 0.5,
    autocast: bool = False,
    look: Callable[[int], None] | None = None,
) -> None:
    """Train at a rate that falls to 0, whatever the table: by Adam, and T by Adam with a proximal step.

    The rates of anchors and of T are parts of ``lr``; ``look`` is called after each epoch.
    """
    rest, table = [*model.lstm.parameters(), *model.output.parameters()], model.table
    if course:
        # All words move the anchors, so their rate is low. A row of T moves when its word is met: without momentum,
        # which would be of long ago, it goes as far as a row under dense Adam goes in all steps that follow.
        rows = {"params": [table.values], "lr": lr * of_rows, "betas": (0.0, 0.999)}
        of_table: Any = nf.nn.ProxAdam([{"params": [table.anchors], "lr": lr * of_anchors}, rows], lr=lr)
    else:
        of_table = torch.optim.Adam(table.parameters(), lr=lr, fused=True)
    optimizers = [torch.optim.Adam(rest, lr=lr, fused=True), of_table]
    n_steps = count_steps(streams, epochs)
    schedules = [torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, n_steps) for o in optimizers]
    for epoch in range(epochs):
        state = None
        for words, following in windows(streams):
            loss, state = model(words, following, state, autocast)
            loss.backward()
            for part in (*optimizers, *schedules):
                part.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            if course:
                course.step()
        if look:
            look(epoch)
