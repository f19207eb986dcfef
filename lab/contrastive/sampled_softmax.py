"""A language model of the Penn Treebank with sampled softmax, beside full softmax.

The next word from the four before it: their vectors side by side, one hidden layer (tanh), a vector and a bias for each
of the 10,000 words that may come. All train on the same batches from the same start by Adam, whose rate falls linearly
to 0; one more, by ranking, starts at the frequencies of the words. A batch has one sample of noise words,
drawn with repeats and shared by its rows.

Three losses of the same samples: sampled softmax, the same without its correction by log q, and the ranking loss
corrected by log q. Perplexity is by the full softmax, whatever the training was: of the scores as they are, and of
scores plus log q, which is what those of an uncorrected model have to be taken for when its noise was drawn from q.
"""

from __future__ import annotations

import lzma
import math
from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nearfar as nf
from lab.data import DATA
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, duration, groups, middle, number, pick

LOSSES = ("not corrected", "sampled softmax", "ranking")
INFORMED = "ranking, from word frequencies"
CONTEXT, N_COMPONENTS = 4, 128
BATCH_SIZE, LEARNING_RATE, N_EPOCHS = 512, 0.002, 1


def read_words() -> dict[str, Tensor]:
    """Return the words of each part by number, with the end of each line as one."""
    numbers: dict[str, int] = {}
    parts = {}
    for part in ("train", "valid", "test"):
        with lzma.open(DATA / "ptb" / f"ptb.{part}.txt.xz", "rt") as file:
            words = file.read().replace("\n", " <eos> ").split()
        parts[part] = torch.tensor([numbers.setdefault(word, len(numbers)) for word in words])
    return parts


def windows_of(words: Tensor) -> Tensor:
    """Return each word with those before it, (n, CONTEXT + 1); the first ones follow ends of lines."""
    return torch.cat([words[-1].expand(CONTEXT), words]).unfold(0, CONTEXT + 1, 1)


class NextWord(nn.Module):
    """The hidden layer of a context, and what there is of each word that may follow."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, N_COMPONENTS)
        self.hidden = nn.Linear(CONTEXT * N_COMPONENTS, N_COMPONENTS)
        self.next_words = nn.Embedding(n_words, N_COMPONENTS)
        self.biases = nn.Embedding(n_words, 1)
        nn.init.normal_(self.next_words.weight, std=N_COMPONENTS**-0.5)
        nn.init.zeros_(self.biases.weight)

    def forward(self, contexts: Tensor) -> Tensor:
        return torch.tanh(self.hidden(self.words(contexts).flatten(1)))

    def scores_of_all(self, hidden: Tensor) -> Tensor:
        return hidden @ self.next_words.weight.T + self.biases.weight[:, 0]

    def scores_of(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Return the scores of words shared by all rows, (B, m)."""
        return hidden @ self.next_words(words).T + self.biases(words)[:, 0]

    def scores_of_each(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Return the score of one word for each row, (B,)."""
        return (hidden * self.next_words(words)).sum(dim=1) + self.biases(words)[:, 0]


def sampled_loss(model: NextWord, hidden: Tensor, target: Tensor, drawn: Tensor, noise: Any, loss: str) -> Tensor:
    """Return the loss of the true words and a sample of noise words."""
    true, others = model.scores_of_each(hidden, target), model.scores_of(hidden, drawn)
    log_q = noise.log_prob(drawn)
    if loss in ("ranking", INFORMED):
        scores = torch.cat([true[:, None], others], dim=1)
        candidates_log_q = torch.cat([noise.log_prob(target)[:, None], log_q.expand_as(others)], dim=1)
        return nf.nn.global_nce(scores, torch.zeros_like(target), candidates_log_q)
    if loss == "not corrected":
        log_q = torch.full_like(log_q, -math.log(len(drawn)))  # as if m q were 1
    return nf.nn.sampled_softmax(true, others, log_q, true_ids=target, noise_ids=drawn)


def train(windows: Tensor, counts: Tensor, noise: Any, n_samples: int, loss: str) -> NextWord:
    """Train by the full softmax, or with samples where there is noise."""
    torch.manual_seed(0)
    model = NextWord(len(counts))
    if loss == INFORMED:
        model.biases.weight.data[:, 0] = (counts / counts.sum()).log()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    n_steps = N_EPOCHS * math.ceil(len(windows) / BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, n_steps)
    orders, draws = (torch.Generator().manual_seed(seed) for seed in (1, 2))
    for _ in range(N_EPOCHS):
        for batch in torch.randperm(len(windows), generator=orders).split(BATCH_SIZE):
            hidden, target = model(windows[batch, :-1]), windows[batch, -1]
            if noise is None:
                value = nf.nn.full_softmax(model.scores_of_all(hidden), target)
            else:
                drawn = noise.sample((n_samples,), generator=draws)
                value = sampled_loss(model, hidden, target, drawn, noise, loss)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def perplexities(model: NextWord, windows: Tensor, log_q: Tensor | None) -> list[float]:
    """Return those of the scores and, if there is noise, of scores plus log q."""
    sums = np.zeros(1 if log_q is None else 2)
    for batch in windows.split(1024):
        scores = model.scores_of_all(model(batch[:, :-1]))
        for k in range(len(sums)):
            found = scores if k == 0 else scores + log_q
            sums[k] += nn.functional.cross_entropy(found, batch[:, -1], reduction="sum").item()
    found: list[float] = np.exp(sums / len(windows)).tolist()
    return found


def measure(file: ResultFile, parts: dict[str, Tensor], name: str | None, n_samples: int, loss: str) -> None:
    key = file.new(name, n_samples, loss)
    if not key:
        return
    counts = torch.bincount(parts["train"])
    noise: Any = None
    if name is not None:
        noise = nf.nn.UniformNoise(len(counts)) if name == "uniform" else nf.nn.UnigramNoise(counts, power=1.0)
    windows = {part: windows_of(words) for part, words in parts.items()}
    model, seconds = cpu_timed(train, windows["train"], counts, noise, n_samples, loss)
    log_q = None if noise is None else noise.log_prob(torch.arange(len(counts)))
    found = {part: perplexities(model, windows[part], log_q) for part in ("valid", "test")}
    file.add({**key, "cpu_seconds": seconds, "n_words": len(windows["train"]), **found})


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    parts = read_words()
    for noise, n_samples, loss in product(given.noise, given.samples, LOSSES):
        # Uniform noise takes the same from the scores of all words, which a ranking does not see.
        if (noise, loss) != ("uniform", "ranking"):
            measure(file, parts, noise, n_samples, loss)
    measure(file, parts, "unigram", max(given.samples), INFORMED)
    measure(file, parts, None, len(torch.unique(parts["train"])), "full softmax")


def told(section: Section, records: list[Record]) -> None:
    """Penn Treebank, 10,000 words; the next word from the previous four. 128 components, one epoch, same batches, start
    and rates. Perplexity by the full softmax. Not corrected: without log q, where both losses are the same. Log q put
    back: added to the scores of that model. With uniform noise ranking is the same with and without correction.
    """
    what = "sampled softmax on PTB with log-q correction, noise of word frequencies: perplexity"
    target = section.target(what, "below that without it")
    full = pick(records, loss="full softmax")
    said, better, rows = [], [], []
    for noise, m, mine in groups([r for r in records if r["noise"]], "noise", "n_samples"):
        found = {r["loss"]: r["test"] for r in mine}
        plain, put_back = found.get("not corrected", (None, None))
        corrected, ranking = (found[x][0] if x in found else None for x in ("sampled softmax", "ranking"))
        ranking = plain if noise == "uniform" else ranking
        cells = [number(x, 1) for x in (corrected, ranking, plain, put_back)]
        rows.append([noise, m, *cells, duration(middle(mine, "cpu_seconds"))])
        if noise == "unigram" and corrected and plain:
            said.append(f"{corrected:.0f} against {plain:.0f} ({m} samples)")
            better.append(corrected < plain)
    for r in full:
        rows.append([r["loss"], "–", number(r["test"][0], 1), *"–––", duration(r["cpu_seconds"])])
        if better:
            target.tell(f"{', '.join(said)}; full softmax {r['test'][0]:.0f}", all(better))
    informed = [r["test"][0] for r in pick(records, loss=INFORMED)]
    head = ["noise", "samples", "sampled softmax", "ranking", "not corrected", "log q put back", "processor time"]
    section.table(head, rows)
    section.say(f"""Without the correction, scores estimate p / q. With log q put back, word frequencies are known
        from the start; ranking with 500 samples that starts at them reaches
        {number(informed[0] if informed else None, 1)}. With few samples the optimum of sampled softmax differs,
        that of ranking is right for any number.""")


EXPERIMENT = Experiment("Sampled softmax on the Penn Treebank", run, "noise n_samples loss", "ptb").takes(
    samples=(20, 100, 500), noise=("unigram", "uniform")
)
