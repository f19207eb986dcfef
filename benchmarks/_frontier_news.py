"""AG News for the frontier: a convolutional network over word vectors of any length."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from _anchor_news import NOTHING, News, Texts, numbered, read_news
from _anchor_news_network import N_FILTERS, WIDTHS, Classifier, batches
from _frontier_tables import Descent, Kind, Setting, kinds, trained_of

N_COMPONENTS, N_EPOCHS, BATCH_SIZE = 64, 2, 256
ANCHORS: Setting = {
    "numbers": (32, 16), "rates": (0.03, 0.01), "slots": 8, "anchor_std": 0.3, "row_std": 1.0, "of_anchors": 0.2,
    "l2_anchors": 0.0,
}  # fmt: skip
WHOLE: tuple[Setting, ...] = tuple({"bits": bits, "own": own, "rate": 0.05} for own in (0.5, 0.25) for bits in (2, 3))
OTHERS: tuple[Setting, ...] = tuple({"rate": rate, "std": std} for std in (0.3, 0.1) for rate in (0.03, 0.1))
FREQUENT: tuple[Setting, ...] = tuple(
    {"components": r, "quantize": "int4", "rate": rate, "std": 0.1}
    for r, rate in ((8, 0.1), (12, 0.1), (16, 0.2), (24, 0.1))
)
OF_NETWORK = 0.002


class Words(nn.Module):
    """A table of any kind in which the row of no word is 0."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.table(ids).masked_fill((ids == NOTHING)[..., None], 0.0)
        return found


class Sized(Classifier):
    """The network for vectors of the length that a table has."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__(Words(table))
        with torch.no_grad():
            width = table(torch.zeros(1, dtype=torch.long)).shape[-1]
        self.taps = nn.Linear(width, sum(WIDTHS) * N_FILTERS, bias=False)
        for part, w in zip(self.taps.weight.split([w * N_FILTERS for w in WIDTHS]), WIDTHS, strict=True):
            nn.init.kaiming_uniform_(part, a=math.sqrt(5 * w))


class NewsTask:
    """Classes of news."""

    def __init__(self) -> None:
        self.rows = read_news()
        self.kinds = kinds(std=0.3, anchors=ANCHORS, whole=WHOLE, others=OTHERS, selection=FREQUENT)
        self.news: dict[int, News] = {}
        self.trained: dict[Any, Any] = {}

    def run(self, kind: Kind, n_bytes: int, setting: Setting, seed: int) -> dict[str, Any] | None:
        """Train and serve; None if the table does not fit."""
        if seed not in self.news:
            self.news[seed] = numbered(*self.rows, seed)
        news = self.news[seed]
        torch.manual_seed(seed)
        tables = kind.make([news.counts], N_COMPONENTS, n_bytes, setting)
        if tables is None:
            return None
        key = trained_of(kind, seed, setting, tables)
        if not kind.trained or key not in self.trained:
            self.trained[key] = tables, self._train(kind, tables, news, n_bytes, setting)
        tables, model = self.trained[key] if kind.trained else self.trained.pop(key)
        served = kind.served(tables[0], n_bytes, setting)
        if served.n_bytes > n_bytes:
            return None
        model.table = Words(nn.Embedding.from_pretrained(served.vectors))
        parts = {"validation": news.validation, "test": news.test}
        found = {name: round(self._errors(model, part), 5) for name, part in parts.items()}
        return {"bytes": served.n_bytes, "width": served.vectors.shape[1], **found}

    def _train(self, kind: Kind, tables: list[nn.Module], news: News, n_bytes: int, setting: Setting) -> Sized:
        model = Sized(tables[0])
        n_steps = N_EPOCHS * math.ceil(len(news.train.classes) / BATCH_SIZE)
        course = kind.course(tables, setting, n_bytes, n_steps)
        network = [p for name, p in model.named_parameters() if not name.startswith("table.")]
        descent = Descent(course, setting["rate"], network, OF_NETWORK)
        for epoch in range(N_EPOCHS):
            order = torch.randperm(len(news.train.classes))
            for words, classes in batches(news.train.take(order), BATCH_SIZE):
                descent.step(nn.functional.cross_entropy(model(words), classes))
            course.validated(lambda: self._errors(model, news.validation), (epoch + 1) / N_EPOCHS)
        return model

    @torch.no_grad()
    def _errors(self, model: Sized, texts: Texts) -> float:
        model.eval()
        wrong = sum(int((model(words).argmax(1) != classes).sum()) for words, classes in batches(texts, 512))
        model.train()
        return wrong / len(texts.classes)
