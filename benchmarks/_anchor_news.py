"""AG News: reading, cleaning, numbering."""

from __future__ import annotations

import csv
import lzma
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from _common import DATA

FOLDER = DATA / "ag_news"
N_WORDS, MIN_COUNT = 40, 2  # of a text, at most; how often a word must be there to have a row of its own
TO_VALIDATION = 0.1
NOTHING, UNKNOWN = 0, 1  # rows of the table: where a text has ended, and all words that are not counted

Row = tuple[int, str]


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
