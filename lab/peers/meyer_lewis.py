"""Word2DM and multi-sense Word2DM by the code of Meyer and Lewis, on a text of ours.

The models are the classes of a clone of github.com/francois-meyer/lexical-ambiguity-dms, which need PyTorch. How pairs
are drawn follows its ``utils.py``: words are left out by word2vec's rule with the threshold 1e-5, sentences of more
than 100 words or of one are left out, a sentence has one window of 1 to 5 words, the word itself is no neighbour, five
words of noise for each pair, in proportion to the counts to the power of .75, 16 sentences a step. Adam with the rate
.001, as in its scripts. Its compositions, and BERT2DM and Context2DM, are compared with ours on made vectors.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
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


def agreement(clone: Path) -> dict[str, float]:
    """Return the largest differences between the matrices of the clone and ours, on made vectors."""
    sys.path.insert(0, str(clone / "code" / "src"))
    nothing = ModuleType("nltk.corpus")
    nothing.stopwords = SimpleNamespace(words=lambda _: ["few"])  # type: ignore[attr-defined]  # of no use here
    sys.modules.setdefault("nltk", ModuleType("nltk"))
    sys.modules.setdefault("nltk.corpus", nothing)
    rng = np.random.default_rng(0)
    ids = [f"w{k}" for k in range(40)]
    vocabulary = SimpleNamespace(itos=ids, stoi={word: row for row, word in enumerate(ids)})
    numbers, senses = rng.integers(40, size=3000), rng.integers(3, size=3000)
    X = 2 * rng.normal(size=(40, 3, 24))[numbers, senses] + rng.normal(size=(3000, 24))
    words = [ids[k] for k in numbers]

    def theirs(name: str, kind: str, cluster: bool, reduction: str | None) -> NDArray[np.float64]:
        made = getattr(importlib.import_module(name), kind)(vocabulary)
        for row, x in zip(numbers, X, strict=True):
            made.add_word_rep(row, x)
        if cluster:
            made.cluster_word_reps(cluster_alg="hac", cluster_eval="vrc")
        if reduction:
            made.reduce_word_reps(dim=SIZE, reduce_alg=reduction)
        else:
            made.initialise_dms(X.shape[1])
        made.build_dms()
        made.normalise()
        return np.asarray(made.dm)

    def apart(a: NDArray[np.float64], ours: nf.DensityEmbedding) -> float:
        """Compare what does not change with the basis: the traces of products."""
        b = ours.matrices(ids)
        return float(np.abs(np.einsum("aij,bij->ab", a, a) - np.einsum("aij,bij->ab", b, b)).max())

    make = nf.DensityEmbedding.from_contexts
    clusters: Any = {"n_senses": "auto", "sense_weights": "equal"}
    found = {
        "BERT2DM, PCA": apart(theirs("bert2dm", "Bert2DM", False, "pca"), make(X, words, dim=SIZE)),
        "BERT2DM, SVD": apart(theirs("bert2dm", "Bert2DM", False, "svd"), make(X, words, dim=SIZE, reduction="svd")),
        "BERT2DM, clusters": apart(theirs("bert2dm", "Bert2DM", True, "pca"), make(X, words, dim=SIZE, **clusters)),
        "Context2DM": apart(theirs("context2dm", "Context2DM", True, None), make(X, words, **clusters)),
    }
    ours = nf.DensityEmbedding.from_factors(rng.normal(size=(40, SIZE, 5)), ids)
    composed = importlib.import_module("density_matrices").DensityMatrices(vocabulary, ours.matrices())
    tags = ["adj", "noun", "verb", "adj", "noun"]
    for name in ("mult", "add", "kronecker", "phaser_verb", "phaser_noun", "fuzz_verb", "fuzz_noun"):
        method, _, operator = name.partition("_")
        how: Any = {"method": method, "operator": operator or "verb"}
        phrase = nf.compose(ours, subject=("w0", "w1"), verb="w2", object=("w3", "w4"), **how)
        found[name.replace("_", ", ")] = float(np.abs(composed.compose(ids[:5], name, tags) - phrase).max())
    return found
