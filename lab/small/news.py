"""AG News: texts read, cleaned and numbered; and a convolutional network for them with any table of word vectors.

Of table 5 of the paper the network takes what is known to us: vectors of d = 256, convolutions over 3, 4 and 5 words,
the maximum over the text, dropout, a linear layer. The number of filters and the length of a text are our own.
"""

from __future__ import annotations

import csv
import lzma
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import nearfar as nf
from lab.data import DATA
from lab.papers.ratings import copied

FOLDER = DATA / "ag_news"
N_WORDS, MIN_COUNT = 40, 2  # of a text, at most; how often a word must be there to have a row of its own
TO_VALIDATION = 0.1
NOTHING, UNKNOWN = 0, 1  # rows of the table: where a text has ended, and all words that are not counted
Row = tuple[int, str]
N_COMPONENTS, WIDTHS, N_FILTERS, N_CLASSES = 256, (3, 4, 5), 48, 4
DROPOUT, BATCH_SIZE = 0.5, 256
Setting = dict[str, Any]


# ---------------------------------------------------------------- texts


def read_rows(path: Path, *, header: bool = False) -> list[Row]:
    """Return class, from 0, and text of each line."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        if path.name.endswith(".tsv.xz"):
            found = [line.rstrip("\n").split("\t", 1) for line in file]
        else:
            found = [[row[0], " ".join(row[1:])] for row in list(csv.reader(file))[header:]]
    return [(int(number) - 1, text) for number, text in found]


def words_of(text: str) -> list[str]:
    """Return words and numbers, in lower case, without what is left of HTML.

    A part of the texts has titles that run into what follows (``RuleReuters``): a capital letter after a small one
    begins a word, in every text.
    """
    text = re.sub(r"&lt;.*?&gt;|&?#\d+;|&?(?:quot|amp|lt|gt|nbsp|hellip);", " ", text)
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.findall(r"[a-z]+|\d+", text.lower())


def same(text: str) -> str:
    """Return what is the same for texts that differ in spaces and signs alone."""
    return "".join(words_of(text))


def without(rows: list[Row], others: list[Row]) -> list[Row]:
    """Leave out texts that are among others, and all but the first of those that are the same."""
    seen = {same(text) for _, text in others}
    kept = []
    for row in rows:
        key = same(row[1])
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return kept


class Texts(NamedTuple):
    """Words by number, (n, N_WORDS), and classes, (n,)."""

    words: Tensor
    classes: Tensor

    def take(self, which: Tensor) -> Texts:
        return Texts(self.words[which], self.classes[which])


@dataclass(frozen=True)
class News:
    """Texts to train on, to choose by and to report; how often each word is in those to train on."""

    train: Texts
    validation: Texts
    test: Texts
    vocabulary: list[str]
    counts: Tensor


def read_news(folder: Path = FOLDER) -> tuple[list[Row], list[Row]]:
    """Return rows of training, without doubles and without those of the test, and rows of the test."""
    test = read_rows(folder / "test.csv.xz")
    train = read_rows(folder / "train_subset_20000.csv.xz", header=True) + read_rows(folder / "train_head_12000.tsv.xz")
    return without(train, test), test


def numbered(train: list[Row], test: list[Row], seed: int) -> News:
    """Draw what is for validation, and number the words of the rest by frequency."""
    order = np.random.default_rng(seed).permutation(len(train))
    cut = round(TO_VALIDATION * len(train))
    parts = [[train[i] for i in order[cut:]], [train[i] for i in order[:cut]], test]
    split = [[(number, words_of(text)[:N_WORDS]) for number, text in part] for part in parts]
    count = Counter(word for _, words in split[0] for word in words)
    known = [word for word, n in count.most_common() if n >= MIN_COUNT]
    number_of = {word: i for i, word in enumerate(known, UNKNOWN + 1)}
    texts = []
    for part in split:
        words = torch.full((len(part), N_WORDS), NOTHING)
        for i, (_, found) in enumerate(part):
            words[i, : len(found)] = torch.tensor([number_of.get(word, UNKNOWN) for word in found], dtype=torch.long)
        texts.append(Texts(words, torch.tensor([number for number, _ in part])))
    counts = torch.bincount(texts[0].words.flatten(), minlength=len(known) + 2)
    return News(texts[0], texts[1], texts[2], ["", "?", *known], counts)


# ---------------------------------------------------------------- the network


class Classifier(nn.Module):
    """Vectors of words, convolutions over 3, 4 and 5 of them, the maximum over the text, a linear layer.

    Each different word of a batch is multiplied with all taps once, and a convolution adds up what belongs to its
    words. What is below the maximum has no gradient: the maximum is looked for without one, and computed anew with it.
    """

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.taps = nn.Linear(N_COMPONENTS, sum(WIDTHS) * N_FILTERS, bias=False)
        for part, width in zip(self.taps.weight.split([w * N_FILTERS for w in WIDTHS]), WIDTHS, strict=True):
            nn.init.kaiming_uniform_(part, a=math.sqrt(5 * width))  # as nn.Conv1d does: width * d inputs
        self.biases = nn.Parameter(torch.zeros(len(WIDTHS), N_FILTERS))
        self.dropout = nn.Dropout(DROPOUT)
        self.out = nn.Linear(len(WIDTHS) * N_FILTERS, N_CLASSES)

    def forward(self, texts: Tensor) -> Tensor:
        """Return scores of classes, (n, N_CLASSES), of texts, (n, N_WORDS)."""
        ids, places = torch.unique(texts, return_inverse=True)
        parts = self.taps(self.table(ids)).split([w * N_FILTERS for w in WIDTHS], dim=1)
        found = [self._largest(part, places, width) for part, width in zip(parts, WIDTHS, strict=True)]
        return self.out(self.dropout(torch.relu(torch.cat(found, dim=1) + self.biases.flatten())))

    @staticmethod
    def _largest(products: Tensor, places: Tensor, width: int) -> Tensor:
        """Return the maximum of each filter over a text, from words times taps, (m, width * N_FILTERS)."""
        each = products.detach().view(-1, width, N_FILTERS)
        n = places.shape[1] - width + 1
        total = each[:, 0][places[:, :n]]
        for tap in range(1, width):
            total += each[:, tap][places[:, tap : tap + n]]
        at = total.argmax(1)  # (texts, filters)
        steps = torch.arange(width)
        words = places.gather(1, (at[:, None] + steps[:, None]).flatten(1)).view(-1, width, N_FILTERS)
        which = (words * width + steps[:, None]) * N_FILTERS + torch.arange(N_FILTERS)
        return products.flatten()[which].sum(1)


@torch.no_grad()
def accuracy(model: Classifier, texts: Texts) -> float:
    model.eval()
    right = sum(int((model(words).argmax(1) == classes).sum()) for words, classes in batches(texts, 512))
    model.train()
    return right / len(texts.classes)


def batches(texts: Texts, size: int) -> Iterator[Texts]:
    return (Texts(*pair) for pair in zip(*(part.split(size) for part in texts), strict=True))


class Run(NamedTuple):
    """A network in its best epoch, 0 if there is none, and the time of the processor."""

    model: Classifier
    epoch: int
    validation: float
    n_epochs: int
    cpu_seconds: float


def steps_of(news: News, n_epochs: int) -> int:
    """Return the number of batches of so many epochs."""
    return n_epochs * math.ceil(len(news.train.classes) / BATCH_SIZE)


def fit(
    news: News,
    make: Callable[[News, Setting], nn.Module],
    setting: Setting,
    seed: int,
    n_epochs: int,
    course: Callable[[Classifier, Setting], Any],
) -> Run:
    """Train for some epochs, and go back to the best of those that count."""
    torch.manual_seed(seed)
    model = Classifier(make(news, setting))
    plan = course(model, setting)
    kept: tuple[int, float, Any] = (0, -1.0, None)
    began = time.process_time()
    for epoch in range(1, n_epochs + 1):
        shuffled = news.train.take(torch.randperm(len(news.train.classes)))
        for words, classes in batches(shuffled, BATCH_SIZE):
            loss = nn.functional.cross_entropy(model(words), classes) + plan.price()
            plan.optimizer.zero_grad()
            loss.backward()
            plan.optimizer.step()
            plan.after_step()
        right = accuracy(model, news.validation)
        if plan.counts() and right > kept[1]:
            kept = epoch, right, copied(model)
    if kept[0]:
        model.load_state_dict(kept[2])
    return Run(model, kept[0], kept[1], n_epochs, time.process_time() - began)


class Plain:
    """Adam for everything, from the first epoch to the last, and every epoch counts."""

    def __init__(self, model: Classifier, setting: Setting) -> None:
        self.optimizer = torch.optim.Adam(model.parameters(), lr=setting["lr"], fused=True)

    def price(self) -> Tensor | float:
        """Return what is added to the loss of a batch."""
        return 0.0

    def after_step(self) -> None:
        """Change what is to change after a step."""

    def counts(self) -> bool:
        """Tell whether the model as it is now may be kept."""
        return True


def vectors(news: News, setting: Setting) -> nn.Module:
    """Return an uncompressed table."""
    table = nn.Embedding(len(news.counts), N_COMPONENTS, padding_idx=NOTHING)
    with torch.no_grad():
        table.weight.mul_(setting["std"])
    return table


# ---------------------------------------------------------------- anchors

FIRST_PRICE = 3e-7  # of an entry of T
START, END = 0.2, 0.4  # parts of the training between which the price is found
N_SAMPLED = 256  # words of which a step looks for unrelated pairs


def mixtures(news: News, setting: Setting, anchor_ids: Tensor | None = None) -> nf.nn.AnchorEmbedding:
    """Return a table of anchors; its vectors start about as long as those of an uncompressed one."""
    made = nf.nn.AnchorEmbedding(
        len(news.counts),
        N_COMPONENTS,
        setting["n_anchors"],
        nnz_per_row=setting["nnz_per_row"],
        penalty=FIRST_PRICE,
        padding_idx=NOTHING,
        anchor_ids=anchor_ids,
    )
    with torch.no_grad():
        made.values.mul_(setting["std"])
    return made


def knowing(news: News, setting: Setting, pairs: nf.nn.RelatedPairs) -> nf.nn.AnchorEmbedding:
    """Return a table whose anchors are the words that are related to most others.

    An entry of a word for an anchor that it is related to has no price.
    """
    n_related = [len(pairs.neighbors(i)) for i in range(pairs.n_objects)]
    made = mixtures(news, setting, nf.nn.choose_anchors(setting["n_anchors"], counts=n_related))
    made.set_related(pairs)
    return made


class Course(Plain):
    """Three parts: at a low price of entries, at one that rises until they are few, and the rest.

    In the rest what is 0 stays 0 and nothing has a price, and only these epochs count. With ``pairs``, words that are
    not related have a price for being made of the same anchors.
    """

    def __init__(
        self, model: Classifier, setting: Setting, budget: int, n_steps: int, pairs: nf.nn.RelatedPairs | None = None
    ) -> None:
        self.model, self.setting, self.pairs = model, setting, pairs
        self.table: Any = model.table
        self.budget = nf.nn.ParameterBudget(self.table, n_steps=n_steps, n_parameters=budget, start=START, end=END)
        self._start()

    def _start(self) -> None:
        """Make an optimiser, which knows nothing of steps before."""
        values = self.table.values
        others = [p for p in self.model.parameters() if p is not values]
        groups = [{"params": others}, {"params": [values], "lr": self.setting["lr_t"]}]
        self.optimizer = nf.nn.ProxAdam(groups, lr=self.setting["lr"])

    def price(self) -> Tensor | float:
        """Return the price of what unrelated words share."""
        if self.pairs is None or self.budget.done:
            return 0.0
        return self.setting["unrelated"] * nf.nn.unrelated_overlap(self.table, self.pairs, n_sampled=N_SAMPLED)

    def after_step(self) -> None:
        """Change the price, and start anew where entries are few enough."""
        if self.budget.step():
            self._start()

    def counts(self) -> bool:
        """Tell whether entries are few."""
        return self.budget.done
