"""SkipGram: the kernel against a NumPy twin, its gradient, its optimum, and the manners of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import InputError, NotFittedError, NumericalError
from nearfar.models import _skipgram_kernels as kernels
from nearfar.models._word_trainer import Sample

MASK = 2**64 - 1
WIDTH, D = 32, 20  # padded


class SplitMix:
    """The random numbers of the kernels, in Python's integers."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def unit(self):
        return (self.bits() >> 11) * 2.0**-53

    def below(self, n):
        return ((self.bits() >> 32) * n) >> 32


def loss_of(X, Y, outs):
    """Loss of a window, all pairs: float64."""
    L = X @ Y.T
    sign = np.where(np.arange(len(outs)) == 0, 1.0, -1.0)
    counts = np.array([o == 0 or outs[o] != outs[0] for o in range(len(outs))])
    return (np.logaddexp(0, -sign * L) * counts).sum(), counts.sum() * len(X)


def gradient_of(X, Y, outs):
    L = X @ Y.T
    sign = np.where(np.arange(len(outs)) == 0, 1.0, -1.0)
    counts = np.array([o == 0 or outs[o] != outs[0] for o in range(len(outs))])
    G = -sign * counts / (1 + np.exp(sign * L))  # dloss/dL
    return G @ Y, G.T @ X


def twin(text, noise, shared, window, rate, seed, X, Y):
    """What train_block does, one window after another."""
    tokens, ends, start, stop, keep = text
    random, sums = SplitMix(seed), np.zeros(2)

    def draw():
        thresholds, aliases, k = noise
        found = []
        for _ in range(k):
            cell = random.below(len(thresholds))
            found.append(cell if random.unit() < thresholds[cell] else int(aliases[cell]))
        return found

    coming, first, sentence = draw(), start, int(np.searchsorted(ends, start, side="right"))
    while first < stop:
        last = min(int(ends[sentence]), stop)
        words = [w for w in tokens[first:last] if keep.size == 0 or keep[w] >= 1 or random.unit() < keep[w]]
        for i, word in enumerate(words):
            reach = window - random.below(window)
            around = [words[j] for j in range(max(0, i - reach), min(len(words), i + reach + 1)) if j != i]
            for group in ([around] if shared else [[w] for w in around]) if around else []:
                outs, coming = [word, *coming], draw()
                sums += loss_of(X[group], Y[outs], outs)
                dX, dY = gradient_of(X[group], Y[outs], outs)
                np.add.at(X, group, -rate * dX)
                np.add.at(Y, outs, -rate * dY)
        first, sentence = last, sentence + 1
    return sums


def irregular_text(n_words=9, seed=0):
    rng = np.random.default_rng(seed)
    lengths = np.array([1, 13, 2, 30, 7, 50, 1])
    tokens = np.minimum(rng.geometric(0.25, lengths.sum()) - 1, n_words - 1).astype(np.int32)
    return tokens, np.cumsum(lengths)


def tables(n_words, seed=1):
    rng = np.random.default_rng(seed)
    X, Y = np.zeros((2, n_words, WIDTH), np.float32)
    X[:, :D], Y[:, :D] = rng.normal(size=(2, n_words, D)) / 3
    return X, Y


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_negative", [1, 5, 8])
def test_the_kernel_is_its_twin(shared, n_negative):
    """Every random number, update and loss; blocks that begin and end within sentences, too."""
    tokens, ends = irregular_text()
    counts = np.bincount(tokens, minlength=9)
    drawn = Sample.of(counts, 0.05, 0.75, n_negative)
    X, Y = tables(9)
    X64, Y64 = X.astype(np.float64), Y.astype(np.float64)
    for start, stop, seed in ((0, 40, 7), (40, len(tokens), 2**63 - 5)):
        text, sums = (tokens, ends, start, stop, drawn.keep), np.zeros(2)
        kernels.train_block(
            text, drawn.noise, shared, 3, np.float32(0.2), seed, X.reshape(-1), Y.reshape(-1), WIDTH, sums
        )
        expected = twin(text, drawn.noise, shared, 3, 0.2, seed, X64, Y64)
        np.testing.assert_allclose(sums, expected, rtol=1e-4)
        assert sums[1] == expected[1]
        np.testing.assert_allclose(X, X64, atol=2e-4)
        np.testing.assert_allclose(Y, Y64, atol=2e-4)
    assert not X[:, D:].any()
    assert np.abs(X64 - tables(9)[0]).max() > 0.1


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(3)
    X, Y, outs = rng.normal(size=(4, 6)), rng.normal(size=(5, 6)), [3, 1, 3, 0, 2]  # noise that is the centre itself
    for k, table in enumerate((X, Y)):
        analytic, numeric = gradient_of(X, Y, outs)[k], np.empty_like(table)
        for index in np.ndindex(table.shape):
            values = []
            for step in (1e-6, -1e-6):
                table[index] += step
                values.append(loss_of(X, Y, outs)[0])
                table[index] -= step
            numeric[index] = (values[0] - values[1]) / 2e-6
        np.testing.assert_allclose(analytic, numeric, atol=1e-8)


def test_rate_zero_moves_nothing():
    tokens, ends = irregular_text()
    X, Y = tables(9)
    before, drawn, sums = (X.copy(), Y.copy()), Sample.of(np.bincount(tokens), 0, 1, 5), np.zeros(2)
    text = (tokens, ends, 0, len(tokens), drawn.keep)
    kernels.train_block(text, drawn.noise, True, 4, np.float32(0), 5, X.reshape(-1), Y.reshape(-1), WIDTH, sums)
    np.testing.assert_array_equal((X, Y), before)
    assert sums[0] > 0


def test_what_is_drawn():
    counts = np.array([5000, 800, 90, 5])
    drawn = Sample.of(counts, 0.01, 0.75, 3)
    N = counts.sum()
    expected = np.minimum((np.sqrt(counts / (0.01 * N)) + 1) * 0.01 * N / counts, 1)
    np.testing.assert_allclose(drawn.keep, expected, rtol=1e-6)
    tokens = np.repeat(np.arange(4, dtype=np.int32), 50_000)
    out = np.empty(len(tokens), np.int32)
    n = kernels.kept_words(tokens, 0, len(tokens), drawn.keep, np.full(1, 11, np.uint64), out)
    np.testing.assert_allclose(np.bincount(out[:n]) / 50_000, expected, atol=0.01)
    state, coming, Y = np.full(1, 3, np.uint64), np.empty(4, np.int64), np.zeros(4 * 16, np.float32)
    drawn_words = []
    for _ in range(20_000):
        kernels._draw(drawn.noise, state, coming, Y, 16)
        drawn_words += coming[1:].tolist()
    share = np.bincount(drawn_words, minlength=4) / len(drawn_words)
    np.testing.assert_allclose(share, counts**0.75 / (counts**0.75).sum(), atol=0.006)


def test_the_optimum_is_shifted_mutual_information():
    """Levy & Goldberg 2014: with noise from the marginal, x_o . y_c = PMI(o, c) - ln K."""
    rng = np.random.default_rng(0)
    joint = rng.gamma(2.0, size=(6, 6))
    joint = (joint + joint.T) / (2 * joint.sum())
    pairs = rng.choice(36, size=400_000, p=joint.ravel())
    sentences = [[f"w{a}", f"w{b}"] for a, b in zip(*np.unravel_index(pairs, (6, 6)), strict=True)]
    model = nf.SkipGram(
        n_components=8, window=1, n_negative=2, sample=0, noise_exponent=1, learning_rate=0.08, n_epochs=12,
        min_learning_rate=1e-5, random_state=0, n_jobs=1,
    ).fit(sentences)  # fmt: skip
    order = [model.vocabulary_[f"w{k}"] for k in range(6)]
    scores = (model.embedding_ @ model.context_embedding_.T)[np.ix_(order, order)]
    counts = np.zeros((6, 6))
    np.add.at(counts, np.unravel_index(pairs, (6, 6)), 1)
    counts += counts.T
    marginal = counts.sum(axis=1)
    # A noise word that is the centre is not counted: the noise that a pair meets is a little less often its own centre.
    expected = np.log(counts * counts.sum() / np.outer(marginal, marginal)) - np.log(2)
    assert np.corrcoef(scores.ravel(), expected.ravel())[0, 1] > 0.98


# ---------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def topics():
    """Two topics that share function words."""
    rng = np.random.default_rng(0)
    words = [[f"{name}{k}" for k in range(20)] for name in ("sea", "sky")]
    sentences = []
    for _ in range(4000):
        topic = words[rng.integers(2)]
        sentences.append([topic[k] if rng.random() < 0.7 else "the" for k in rng.integers(20, size=9)])
    return nf.Corpus(sentences).encode()


QUICK = {"n_components": 12, "n_epochs": 4, "learning_rate": 0.05, "random_state": 0}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_topics_are_told_apart(topics, n_jobs, shared):
    model = nf.SkipGram(**QUICK, shared_negatives=shared, n_jobs=n_jobs).fit(topics)
    near = [word for word, _ in model.vectors_.most_similar("sea3", topn=15)]
    assert sum(word.startswith("sea") for word in near) >= 14
    assert model.loss_curve_.shape == (4,)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.embedding_.dtype == np.float32
    assert list(model.vectors_) == list(topics.vocabulary)
    assert model.validation_curve_.size == 0


def test_one_worker_gives_the_same_bits(topics):
    one, other = (nf.SkipGram(**QUICK, n_jobs=1).fit(topics) for _ in range(2))
    np.testing.assert_array_equal(one.embedding_, other.embedding_)
    np.testing.assert_array_equal(one.context_embedding_, other.context_embedding_)
    assert not np.array_equal(clone(one).set_params(random_state=1).fit(topics).embedding_, one.embedding_)


def test_the_loss_does_not_depend_on_the_workers(topics):
    """In the first epoch of so short a text each of two workers learns half of it from nothing."""
    one, two = (nf.SkipGram(**QUICK, n_jobs=n).fit(topics).loss_curve_ for n in (1, 2))
    np.testing.assert_allclose(one[:1], two[:1], rtol=0.05)
    np.testing.assert_allclose(one[1:], two[1:], rtol=0.005)


def test_validation_callbacks_and_stopping(topics):
    seen = []
    model = nf.SkipGram(
        **QUICK, n_jobs=1, validation_fraction=0.3, callbacks=[lambda p: seen.append((p.epoch, p.loss)) or p.epoch == 3]
    ).fit(topics)
    assert model.n_epochs_ == 3
    assert seen == list(enumerate(model.loss_curve_, 1))
    assert model.validation_curve_.shape == (3,)
    assert model.validation_curve_[-1] < model.validation_curve_[0]
    assert abs(model.validation_curve_[-1] / model.loss_curve_[-1] - 1) < 0.1


def test_text_of_any_kind_and_a_file_of_vectors(tmp_path):
    path = tmp_path / "text"
    path.write_text("the sea the ship\n" * 30)
    model = nf.SkipGram(4, sample=0, n_epochs=1, n_jobs=1, random_state=0).fit(path)
    again = nf.SkipGram(4, sample=0, n_epochs=1, n_jobs=1, random_state=0).fit([["the", "sea", "the", "ship"]] * 30)
    np.testing.assert_array_equal(model.embedding_, again.embedding_)
    model.vectors_.save(tmp_path / "words.safetensors")
    loaded = nf.Embedding.load(tmp_path / "words.safetensors")
    np.testing.assert_array_equal(loaded["sea"], model.vectors_["sea"])
    assert nf.SkipGram(4, max_size=2, sample=0, n_epochs=1).fit(path).embedding_.shape == (2, 4)


def test_a_rate_that_is_too_large_is_told(topics):
    with pytest.raises(NumericalError, match=r"the loss is (nan|inf) in epoch 1\. Take a smaller learning_rate"):
        nf.SkipGram(**{**QUICK, "learning_rate": 1e30}, n_jobs=1).fit(topics)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"window": 0}, "window"),
        ({"n_negative": 0}, "n_negative"),
        ({"shared_negatives": 1}, "shared_negatives"),
        ({"sample": -1.0}, "sample"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"n_epochs": 0}, "n_epochs"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"callbacks": 3}, "callbacks"),
        ({"callbacks": [Checkpoint("x")]}, "callbacks must be others than a Checkpoint"),
        ({"min_count": 10**6}, "min_count must be a count that at least one word reaches"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        nf.SkipGram(**arguments).fit([["the", "sea"]] * 10)


def test_nothing_to_learn_from():
    with pytest.raises(InputError, match="one with sentences of at least two words"):
        nf.SkipGram().fit([["the"], ["sea"]] * 9)
    with pytest.raises(InputError, match=r"sample must be one that leaves pairs of words; got no pair.*sample=0"):
        nf.SkipGram(random_state=0).fit([["the", "sea"]] * 9)
    with pytest.raises(NotFittedError, match="Call fit first"):
        _ = nf.SkipGram().vectors_
