"""The tasks of the frontier: films, news and next words, each a model, a training and an error of any table."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf
from lab.items.data import FOLDER
from lab.papers.language import windows
from lab.papers.ratings import Ratings, Split, read_films, split_of
from lab.small import news as of_news
from lab.small.anchor_language import streams_of_all
from lab.small.kinds import Descent, Kind, Served, Setting, kinds, trained_of


class Task:
    """What is the same for all tasks: a table is made, trained, served and judged.

    ``counts`` are those of the objects of each table, ``train`` returns what else there is of a model, and ``error``
    that of a part, "validation" or "test", with the tables as they are served.
    """

    n_components: int
    kinds: dict[str, Kind]

    def __init__(self) -> None:
        self.trained: dict[Any, Any] = {}

    def run(self, kind: Kind, n_bytes: int, setting: Setting, seed: int) -> dict[str, Any] | None:
        """Train and serve; None if a table does not fit."""
        counts = self.counts(seed)
        torch.manual_seed(seed)
        tables = kind.make(counts, self.n_components, n_bytes, setting)
        if tables is None:
            return None
        key = trained_of(kind, seed, setting, tables)
        if not kind.trained or key not in self.trained:
            self.trained[key] = tables, self.train(kind, tables, n_bytes, setting, seed)
        tables, model = self.trained[key] if kind.trained else self.trained.pop(key)
        rows = sum(map(len, counts))
        served = [kind.served(t, n_bytes * len(c) // rows, setting) for t, c in zip(tables, counts, strict=True)]
        size = sum(part.n_bytes for part in served)
        if size > n_bytes:
            return None
        found = {part: self.error(model, served, part, seed) for part in ("validation", "test")}
        return {"bytes": size, "width": served[0].vectors.shape[1], **found}


# ---------------------------------------------------------------- MovieLens 1M


class FilmTask(Task):
    """Marks of films from vectors, biases of users and items, and a constant."""

    n_components, n_epochs, batch_size = 16, 16, 16_384
    lengths, shifts, of_biases = 0.055, 0.01, 0.03  # prices of squared vectors and of squared biases; rate of biases

    def __init__(self) -> None:
        super().__init__()
        self.films = read_films(FOLDER)
        anchors = {
            "numbers": (16, 8), "rates": (0.03, 0.01), "slots": 16, "anchor_std": 0.5, "row_std": 0.5,
            "of_anchors": 1.0, "l2_anchors": 1e-5,
        }  # fmt: skip
        whole = [{"bits": bits, "rate": rate} for bits in (4, 2) for rate in (0.03, 0.01)]
        others = [{"rate": rate, "lengths": lengths} for lengths in (self.lengths, 0.02) for rate in (0.03, 0.01)]
        self.kinds = kinds(std=0.1, anchors=anchors, whole=whole, others=others)

    def counts(self, seed: int) -> list[Tensor]:
        train = split_of(self.films, seed).train
        return [train.users.bincount(minlength=self.films.n_users), train.items.bincount(minlength=self.films.n_items)]

    def train(self, kind: Kind, tables: list[nn.Module], n_bytes: int, setting: Setting, seed: int) -> Any:
        split: Split = split_of(self.films, seed)
        ratings: Ratings = split.train
        constant = ratings.marks.mean().item()
        biases = [nn.Parameter(torch.zeros(n)) for n in (self.films.n_users, self.films.n_items)]
        course = kind.course(tables, setting, n_bytes, self.n_epochs * math.ceil(len(ratings.marks) / self.batch_size))
        descent = Descent(course, setting["rate"], biases, self.of_biases)

        def now() -> float:
            return self.error((biases, constant), [Served(table.weight, 0) for table in tables], "validation", seed)

        for epoch in range(self.n_epochs):
            shuffled = ratings.take(torch.randperm(len(ratings.marks)))
            for batch in zip(*(part.split(self.batch_size) for part in shuffled), strict=True):
                users, items = (table(ids) for table, ids in zip(tables, batch, strict=False))
                shifts = [bias.index_select(0, ids) for bias, ids in zip(biases, batch, strict=False)]
                error = (users * items).sum(1) + shifts[0] + shifts[1] + constant - batch[2]
                lengths = (users.square().sum() + items.square().sum()) / len(error)
                of_shifts = shifts[0].square().mean() + shifts[1].square().mean()
                lengths = setting.get("lengths", self.lengths) * lengths
                descent.step(error.square().mean() + lengths + self.shifts * of_shifts)
            course.validated(now, (epoch + 1) / self.n_epochs)
        return [bias.detach() for bias in biases], constant

    @torch.no_grad()
    def error(self, model: Any, served: list[Served], part: str, seed: int) -> float:
        (of_users, of_items), constant = model
        users, items, marks = getattr(split_of(self.films, seed), part)
        found = (served[0].vectors[users] * served[1].vectors[items]).sum(1) + of_users[users] + of_items[items]
        return (found + constant - marks).square().mean().item()


# ---------------------------------------------------------------- AG News


class Words(nn.Module):
    """A table of any kind in which the row of no word is 0."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.table(ids).masked_fill((ids == of_news.NOTHING)[..., None], 0.0)
        return found


class Sized(of_news.Classifier):
    """The network for vectors of the length that a table has."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__(Words(table))
        with torch.no_grad():
            width = table(torch.zeros(1, dtype=torch.long)).shape[-1]
        self.taps = nn.Linear(width, sum(of_news.WIDTHS) * of_news.N_FILTERS, bias=False)
        for part, w in zip(
            self.taps.weight.split([w * of_news.N_FILTERS for w in of_news.WIDTHS]), of_news.WIDTHS, strict=True
        ):
            nn.init.kaiming_uniform_(part, a=math.sqrt(5 * w))


class NewsTask(Task):
    """Classes of news by a convolutional network over word vectors of any length."""

    n_components, n_epochs, batch_size, of_network = 64, 2, 256, 0.002

    def __init__(self) -> None:
        super().__init__()
        self.news: Callable[[int], of_news.News] = cache(partial(of_news.numbered, *of_news.read_news()))
        anchors = {
            "numbers": (32, 16), "rates": (0.03, 0.01), "slots": 8, "anchor_std": 0.3, "row_std": 1.0,
            "of_anchors": 0.2, "l2_anchors": 0.0,
        }  # fmt: skip
        whole = [{"bits": bits, "own": own, "rate": 0.05} for own in (0.5, 0.25) for bits in (2, 3)]
        others = [{"rate": rate, "std": std} for std in (0.3, 0.1) for rate in (0.03, 0.1)]
        frequent = [
            {"components": r, "quantize": "int4", "rate": rate, "std": 0.1}
            for r, rate in ((8, 0.1), (12, 0.1), (16, 0.2), (24, 0.1))
        ]
        self.kinds = kinds(std=0.3, anchors=anchors, whole=whole, others=others, selection=frequent)

    def counts(self, seed: int) -> list[Tensor]:
        return [self.news(seed).counts]

    def train(self, kind: Kind, tables: list[nn.Module], n_bytes: int, setting: Setting, seed: int) -> Sized:
        news, model = self.news(seed), Sized(tables[0])
        course = kind.course(
            tables, setting, n_bytes, self.n_epochs * math.ceil(len(news.train.classes) / self.batch_size)
        )
        network = [p for name, p in model.named_parameters() if not name.startswith("table.")]
        descent = Descent(course, setting["rate"], network, self.of_network)
        for epoch in range(self.n_epochs):
            order = torch.randperm(len(news.train.classes))
            for words, classes in of_news.batches(news.train.take(order), self.batch_size):
                descent.step(nn.functional.cross_entropy(model(words), classes))
            course.validated(lambda: 1 - of_news.accuracy(model, news.validation), (epoch + 1) / self.n_epochs)
        return model

    def error(self, model: Sized, served: list[Served], part: str, seed: int) -> float:
        model.table = Words(nn.Embedding.from_pretrained(served[0].vectors))
        return 1 - of_news.accuracy(model, getattr(self.news(seed), part))


# ---------------------------------------------------------------- Penn Treebank


N_COMPONENTS, HIDDEN, N_EPOCHS, DROPOUT, N_SAMPLED = 64, 128, 1, 0.1, 600
BLOCKS: tuple[tuple[int, float, list[list[float]]], ...] = (  # bits, rate, width and share of the bytes of each
    (2, 0.1, [[24, 0.55], [40, 0.3], [96, 0.15]]),
    (2, 0.1, [[16, 0.5], [32, 0.3], [80, 0.2]]),
    (2, 0.1, [[28, 0.65], [68, 0.35]]),
    (4, 0.1, [[16, 0.6], [32, 0.4]]),
    (3, 0.1, [[16, 0.55], [24, 0.3], [64, 0.15]]),
    (2, 0.2, [[24, 0.55], [40, 0.3], [96, 0.15]]),
)


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


class LanguageTask(Task):
    """Next words: input and output are one table, as in the paper.

    Words are read from the table, go through an LSTM, and a linear layer brings what comes out to the length of the
    vectors; scores are products with the table, plus a number for each word. It is trained by a sampled softmax, and
    judged by the full one.
    """

    n_components, of_network = N_COMPONENTS, 0.008

    def __init__(self) -> None:
        super().__init__()
        self.streams = streams_of_all()
        anchors = {
            "numbers": (64, 32), "rates": (0.1, 0.2), "slots": 16, "anchor_std": 0.3, "row_std": 1.0,
            "of_anchors": 0.2, "l2_anchors": 0.0,
        }  # fmt: skip
        whole = [{"bits": bits, "blocks": blocks, "rate": rate} for bits, rate, blocks in BLOCKS]
        whole.append({"bits": 2, "own": 0.25, "rate": 0.1})
        frequent = [
            {"components": r, "quantize": "int4", "rate": rate}
            for r, rate in ((24, 0.2), (16, 0.2), (32, 0.2), (24, 0.1), (48, 0.2), (32, 0.1), (16, 0.1))
        ]
        others = [{"rate": rate} for rate in (0.1, 0.03)]
        self.kinds = kinds(std=0.1, anchors=anchors, whole=whole, others=others, selection=frequent)

    def counts(self, _seed: int) -> list[Tensor]:
        return [self.streams["train"].flatten().bincount()]

    def train(self, kind: Kind, tables: list[nn.Module], n_bytes: int, setting: Setting, seed: int) -> Model:
        model, streams = Model(tables[0], self.counts(seed)[0]), self.streams["train"]
        course = kind.course(tables, setting, n_bytes, N_EPOCHS * len(list(windows(streams))))
        network = [p for name, p in model.named_parameters() if not name.startswith("table.")]
        descent = Descent(course, setting["rate"], network, self.of_network)
        for epoch in range(N_EPOCHS):
            state = None
            for words, following in windows(streams):
                hidden, state = model(words, state)
                descent.step(model.loss(hidden, following.flatten()))
            course.validated(lambda: math.log(self._perplexity(model, "valid")), (epoch + 1) / N_EPOCHS)
        return model

    def error(self, model: Model, served: list[Served], part: str, _seed: int) -> float:
        model.table = nn.Embedding.from_pretrained(served[0].vectors)
        return self._perplexity(model, "valid" if part == "validation" else part)

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
