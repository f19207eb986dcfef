"""The Penn Treebank for the frontier: a language model whose input and output are one table, as in the paper.

Words are read from the table, go through an LSTM, and a linear layer brings what comes out to the length of the
vectors; scores are products with the table, plus a number for each word. It is trained by a sampled softmax, and judged
by the full one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf
from _frontier_tables import Descent, Kind, Setting, kinds, trained_of
from anchor_language import streams_of_all, windows

N_COMPONENTS, HIDDEN, N_EPOCHS, DROPOUT, N_SAMPLED = 64, 128, 1, 0.1, 600
ANCHORS: Setting = {
    "numbers": (64, 32), "rates": (0.1, 0.2), "slots": 16, "anchor_std": 0.3, "row_std": 1.0, "of_anchors": 0.2,
    "l2_anchors": 0.0,
}  # fmt: skip
BLOCKS: tuple[tuple[int, float, list[list[float]]], ...] = (  # bits, rate, width and share of the bytes of each
    (2, 0.1, [[24, 0.55], [40, 0.3], [96, 0.15]]),
    (2, 0.1, [[16, 0.5], [32, 0.3], [80, 0.2]]),
    (2, 0.1, [[28, 0.65], [68, 0.35]]),
    (4, 0.1, [[16, 0.6], [32, 0.4]]),
    (3, 0.1, [[16, 0.55], [24, 0.3], [64, 0.15]]),
    (2, 0.2, [[24, 0.55], [40, 0.3], [96, 0.15]]),
)
WHOLE: tuple[Setting, ...] = (
    *({"bits": bits, "blocks": blocks, "rate": rate} for bits, rate, blocks in BLOCKS),
    {"bits": 2, "own": 0.25, "rate": 0.1},
)
OTHERS: tuple[Setting, ...] = tuple({"rate": rate} for rate in (0.1, 0.03))
FREQUENT: tuple[Setting, ...] = tuple(
    {"components": r, "quantize": "int4", "rate": rate}
    for r, rate in ((24, 0.2), (16, 0.2), (32, 0.2), (24, 0.1), (48, 0.2), (32, 0.1), (16, 0.1))
)
OF_NETWORK = 0.008


class Model(nn.Module):
    """Table, LSTM, linear layer, the table again."""

    def __init__(self, table: nn.Module, counts: Tensor) -> None:
        super().__init__()
        self.table, self.dropout = table, nn.Dropout(DROPOUT)
        with torch.no_grad():
            width = table(torch.zeros(1, dtype=torch.long)).shape[-1]
        self.lstm, self.out = nn.LSTM(width, HIDDEN), nn.Linear(HIDDEN, width)
        self.bias = nn.Parameter((counts.float() + 1).log() - (counts.sum() + len(counts)).log())
        self.noise = (counts.float() + 1).pow(0.75)
        self.log_q = (self.noise / self.noise.sum()).log()

    def forward(self, words: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return what is multiplied with the table (n, d), and the state after the words."""
        found, state = self.lstm(self.table(words), state)
        return self.out(self.dropout(found)).flatten(0, 1), tuple(part.detach() for part in state)

    def loss(self, hidden: Tensor, following: Tensor) -> Tensor:
        """Return the sampled softmax."""
        noise = torch.multinomial(self.noise, N_SAMPLED, replacement=True)
        ids = torch.cat([following, noise])
        rows, shifts = self.table(ids), self.bias[ids]
        n = len(following)
        true = (hidden * rows[:n]).sum(1) + shifts[:n]
        return nf.nn.sampled_softmax(true, hidden @ rows[n:].T + shifts[n:], self.log_q[noise], following, noise)


class LanguageTask:
    """Next words."""

    def __init__(self) -> None:
        self.streams = streams_of_all()
        self.counts = self.streams["train"].flatten().bincount()
        self.kinds = kinds(std=0.1, anchors=ANCHORS, whole=WHOLE, others=OTHERS, selection=FREQUENT)
        self.trained: dict[Any, Any] = {}

    def run(self, kind: Kind, n_bytes: int, setting: Setting, seed: int) -> dict[str, Any] | None:
        """Train and serve; None if the table does not fit."""
        torch.manual_seed(seed)
        tables = kind.make([self.counts], N_COMPONENTS, n_bytes, setting)
        if tables is None:
            return None
        key = trained_of(kind, seed, setting, tables)
        if not kind.trained or key not in self.trained:
            self.trained[key] = tables, self._train(kind, tables, n_bytes, setting)
        tables, model = self.trained[key] if kind.trained else self.trained.pop(key)
        served = kind.served(tables[0], n_bytes, setting)
        if served.n_bytes > n_bytes:
            return None
        model.table = nn.Embedding.from_pretrained(served.vectors)
        parts = {"validation": "valid", "test": "test"}
        found = {name: round(self._perplexity(model, part), 3) for name, part in parts.items()}
        return {"bytes": served.n_bytes, "width": served.vectors.shape[1], **found}

    def _train(self, kind: Kind, tables: list[nn.Module], n_bytes: int, setting: Setting) -> Model:
        model, streams = Model(tables[0], self.counts), self.streams["train"]
        n_steps = N_EPOCHS * len(list(windows(streams)))
        course = kind.course(tables, setting, n_bytes, n_steps)
        network = [p for name, p in model.named_parameters() if not name.startswith("table.")]
        descent = Descent(course, setting["rate"], network, OF_NETWORK)
        for epoch in range(N_EPOCHS):
            state = None
            for words, following in windows(streams):
                hidden, state = model(words, state)
                descent.step(model.loss(hidden, following.flatten()))
            course.validated(lambda: math.log(self._perplexity(model, "valid")), (epoch + 1) / N_EPOCHS)
        return model

    @torch.no_grad()
    def _perplexity(self, model: Model, part: str) -> float:
        model.eval()
        total, state, n = 0.0, None, 0
        table = model.table.weight
        for words, following in windows(self.streams[part]):
            hidden, state = model(words, state)
            scores = hidden @ table.T + model.bias
            total += nn.functional.cross_entropy(scores, following.flatten(), reduction="sum").item()
            n += following.numel()
        model.train()
        return math.exp(total / n)
