"""SkipGram: the kernel against a NumPy twin, its optimum, and the manners of an estimator."""

import numpy as np
import pytest
from word_models import Rows

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import InputError
from nearfar.words import skipgram as kernels
from nearfar.words.adam import adam_state, moments_of
from nearfar.words.windows import Windows

WIDTH, D = 32, 20  # padded


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


def twin(windows, rate, X, Y):
    """What train_windows does, to Rows."""
    sums = np.zeros(2)
    for w, outs in enumerate(windows.outs):
        group = windows.inputs[windows.starts[w] : windows.starts[w + 1]]
        x, y = X.values[group], Y.values[outs]
        sums += loss_of(x, y, outs)
        dX, dY = gradient_of(x, y, outs)
        for row, gradient in zip(group, dX, strict=True):
            X.move(row, -gradient, rate)
        for o, row in enumerate(outs):
            if o == 0 or row != outs[0]:
                Y.move(row, -dY[o], rate)
    return sums


def irregular_windows(n_words=9, n_negative=5, seed=0, shared=True):
    """Words may come twice in a window, and noise may be the centre."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 40) if shared else np.ones(90, int)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    inputs = rng.integers(n_words, size=starts[-1]).astype(np.int32)
    outs = rng.integers(n_words, size=(len(sizes), 1 + n_negative)).astype(np.int32)
    return Windows(inputs, starts, outs, np.array([0, len(sizes)]))


def tables(n_words, seed=1):
    rng = np.random.default_rng(seed)
    X, Y = np.zeros((2, n_words, WIDTH), np.float32)
    X[:, :D], Y[:, :D] = (rng.normal(size=(2, n_words, D)) / 3).astype(np.float32)
    return X, Y


def run(windows, rate, X, Y, adam=False):
    """Train; return (loss, pairs), and the arrays with the moments."""
    arrays, sums = {"X": X, "Y": Y, **(adam_state({"X": X, "Y": Y}) if adam else {})}, np.zeros(2)
    moments = (moments_of(arrays, "X"), moments_of(arrays, "Y")) if adam else None
    kernels.train_windows(tuple(windows), np.float32(rate), X, Y, moments, sums)
    return sums, arrays


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_negative", [1, 5, 8])
def test_the_kernel_is_its_twin(shared, n_negative, adam):
    rate, close = (0.01, 2e-4) if adam else (0.2, 1e-5)
    start, sides = tables(9), [Rows(table, adam) for table in tables(9)]
    windows = irregular_windows(9, n_negative, shared=shared)
    sums, arrays = run(windows, rate, *tables(9), adam=adam)
    expected = twin(windows, rate, *sides)
    np.testing.assert_allclose(sums, expected, rtol=1e-5)
    assert sums[1] == expected[1]
    for name, side in zip("XY", sides, strict=True):
        np.testing.assert_allclose(arrays[name], side.values, atol=close)
        assert not arrays[name][:, D:].any()
        if adam:
            np.testing.assert_array_equal(arrays[f"{name}.steps"], side.steps)
            np.testing.assert_allclose(arrays[f"{name}.first"], side.first, atol=close)
            np.testing.assert_allclose(arrays[f"{name}.second"], side.second, atol=close)
    assert np.abs(sides[0].values - start[0]).max() > (0.02 if adam else 0.1)


@pytest.mark.parametrize("adam", [False, True])
def test_rate_zero_moves_nothing(adam):
    sums, arrays = run(irregular_windows(), 0, *tables(9), adam=adam)
    assert sums[0] > 0
    np.testing.assert_array_equal((arrays["X"], arrays["Y"]), tables(9))
    assert not any(arrays[name].any() for name in arrays if "." in name)


def test_the_optimum_has_odds_since_noise_that_is_the_centre_does_not_count():
    """Of every window that can be drawn the step is added up: 0 at x_o . y_c = ln of the odds of c, less ln (K q_c)."""
    rng = np.random.default_rng(5)
    joint, q = rng.dirichlet(np.ones(9)).reshape(3, 3), np.array([0.5, 0.2, 0.3])
    p = joint / joint.sum(1, keepdims=True)  # p[o, c] of the centre c, given a word o around

    def mean_step(scores):
        X, total = np.eye(3, 16, dtype=np.float32), np.zeros((3, 3))
        start = np.zeros((3, 16), np.float32)
        start[:, :3] = scores.T  # x_o . y_c = scores[o, c]
        for o, c, *noise in np.ndindex(3, 3, 3, 3):  # K = 2
            Y = start.copy()
            kernels.skipgram_step(np.int32([o]), np.int32([c, *noise]), 1.0, X.copy(), Y)
            total += joint[o, c] * q[noise].prod() * (Y - start)[:, :3].T
        return np.abs(total).max()

    assert mean_step(np.log(p / (1 - p)) - np.log(2 * q)) < 1e-6
    assert mean_step(np.log(p) - np.log(2 * q)) > 0.01  # where every draw of noise would count


def test_the_first_step_of_adam_is_the_rate():
    """Whatever the size of the gradient: sign(g) * rate."""
    X, Y = tables(3)
    before = X.copy()
    run(Windows(np.int32([1]), np.array([0, 1]), np.int32([[2, 0]]), np.array([0, 1])), 0.01, X, Y, adam=True)
    moved = X - before
    np.testing.assert_allclose(np.abs(moved[1, :D]), 0.01, rtol=1e-3)
    assert not moved[[0, 2]].any()


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


@pytest.mark.parametrize("params", [{}, {"shared_negatives": False}, {"optimizer": "adam", "learning_rate": None}])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_topics_are_told_apart(topics, n_jobs, params):
    model = nf.SkipGram(**{**QUICK, **params}, n_jobs=n_jobs).fit(topics)
    near = [word for word, _ in model.vectors_.most_similar("sea3", topn=15)]
    assert sum(word.startswith("sea") for word in near) >= 14
    assert model.loss_curve_.shape == (4,)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.embedding_.dtype == np.float32
    assert list(model.vectors_) == list(topics.vocabulary)
    assert model.validation_curve_.size == 0


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


def test_a_checkpoint_is_of_one_fit(topics, tmp_path):
    path = tmp_path / "run.safetensors"
    nf.SkipGram(**QUICK, callbacks=[Checkpoint(path)]).fit(topics)
    tokens = topics.tokens.copy()
    tokens[-1] += 1
    other = nf.EncodedCorpus(tokens, topics.ends, topics.vocabulary)
    with pytest.raises(InputError, match=r"differs in the text's words: "):
        nf.SkipGram(**QUICK).fit(other, resume=path)
    ends = topics.ends.copy()
    ends[0] -= 1
    with pytest.raises(InputError, match=r"differs in the text's sentences: "):
        nf.SkipGram(**QUICK).fit(nf.EncodedCorpus(topics.tokens, ends, topics.vocabulary), resume=path)
    nf.SkipGram(**QUICK, n_jobs=2).fit(topics, resume=path)  # has no effect on what is computed


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
