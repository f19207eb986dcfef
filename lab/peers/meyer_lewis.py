"""Word2DM and multi-sense Word2DM by the code of Meyer and Lewis, on a text of ours.

The models are the classes of a clone of github.com/francois-meyer/lexical-ambiguity-dms, which need PyTorch. How pairs
are drawn follows its ``utils.py``: words are left out by word2vec's rule with the threshold 1e-5, sentences of more
than 100 words or of one are left out, a sentence has one window of 1 to 5 words, the word itself is no neighbour, five
words of noise for each pair, in proportion to the counts to the power of .75, 16 sentences a step. Adam with the rate
.001, as in its scripts.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf

SIZE, RATE, SENTENCES, WINDOW, NOISE, SAMPLE, LONGEST = 17, 0.001, 16, 5, 5, 1e-5, 100
MODELS = {
    "Word2DM": ("word2dm", "Word2DM", ()),
    "multi-sense": ("word2dm_ms", "Word2DMMS", ("many2many", "one", "dot", 0)),
}
Numbers = NDArray[np.int64]


def factors(
    clone: Path, name: str, vocabulary: nf.Vocabulary, text: Iterable[list[str]], seed: int
) -> tuple[NDArray[np.float32], float]:
    """Return the matrices B of all words after one pass, (words, 17, 17), and the mean loss of the last steps."""
    import torch

    module, made, more = MODELS[name]
    sys.path.insert(0, str(clone / "code" / "src"))
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model: Any = getattr(importlib.import_module(module), made)(len(vocabulary), SIZE, SIZE, *more)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=RATE)
    losses = []
    for targets, contexts, noise in steps(vocabulary, text, np.random.default_rng(seed)):
        optimizer.zero_grad()
        loss = model(*map(torch.from_numpy, (targets, contexts, noise)), len(targets))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.B_target.weight.detach().numpy().reshape(-1, SIZE, SIZE), float(np.mean(losses[-1000:]))


def steps(
    vocabulary: nf.Vocabulary, text: Iterable[list[str]], rng: np.random.Generator
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Yield the pairs of each step, and their noise, as rows of words."""
    counts = np.asarray(vocabulary.counts, np.float64)
    rare = SAMPLE * counts.sum() / counts
    kept = np.minimum(np.sqrt(rare) + rare, 1.0)
    ends = np.cumsum(counts**0.75)
    row_of = {word: row for row, word in enumerate(vocabulary)}
    sentences = iter(text)
    while batch := list(islice(sentences, SENTENCES)):
        pairs = [pairs_of(np.array([row_of[w] for w in words if w in row_of], np.int64), kept, rng) for words in batch]
        targets, contexts = (np.concatenate([side[k] for side in pairs]) for k in (0, 1))
        if len(targets) > 1:
            drawn = np.searchsorted(ends, rng.random((len(targets), NOISE)) * ends[-1], side="right")
            yield targets, contexts, drawn.astype(np.int64)


def pairs_of(rows: Numbers, kept: NDArray[np.float64], rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the words of a sentence and those around them, in pairs."""
    rows = rows[rng.random(len(rows)) < kept[rows]]
    if not 1 < len(rows) <= LONGEST:
        rows = rows[:0]
    at = np.arange(len(rows))
    apart = np.abs(at[:, None] - at)
    near = (apart <= rng.integers(1, WINDOW + 1)) & (rows[:, None] != rows)
    centres, others = np.nonzero(near)
    return rows[centres], rows[others]
