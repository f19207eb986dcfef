"""Word2DM: kernels against a NumPy twin, gradient, Adam in batches, start, pull, the manners of an estimator."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from quick import with_slow

import nearfar as nf
from nearfar._core.lanes import LANES
from nearfar.errors import NumericalError
from nearfar.words import word2dm as kernels
from nearfar.words.adam import CORRECTIONS
from nearfar.words.windows import SamplingOptions, TextWindows, Windows
from nearfar.words.word2dm import EDGES, measure, sample_pairs

SIZES = [(5, 3), (17, 17), (10, 10), (3, 8), (1, 1), (33, 7), (20, 2)]
OFFSET, RIDGE = 0.7, 0.3


def irregular_windows(n_words=9, n_negative=4, seed=0):
    """Words may come twice in a window, and noise may be the centre; three sentences, one of them empty."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 25)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    inputs = rng.integers(n_words, size=starts[-1]).astype(np.int32)
    outs = rng.integers(n_words, size=(len(sizes), 1 + n_negative)).astype(np.int32)
    return Windows(inputs, starts, outs, np.array([0, 9, 9, 20, len(sizes)]))


def factors(n, m, n_words=9, dtype=np.float32, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(2, n_words, n, m)) / np.sqrt(n * m) * 1.5).astype(dtype)


def tables(*sides):
    """Return tables of rows Bᵀ, padded."""
    made = []
    for B in sides:
        n_words, n, m = B.shape
        table = np.zeros((n_words, -(-n * m // LANES) * LANES), B.dtype)
        table[:, : n * m] = B.swapaxes(1, 2).reshape(n_words, -1)
        made.append(table)
    return made


def unpacked(table, n, m, n_words=9):
    return table.reshape(n_words, -1)[:, : n * m].reshape(n_words, m, n).swapaxes(1, 2)


def groups(windows):
    for w, outs in enumerate(windows.outs):
        yield windows.inputs[windows.starts[w] : windows.starts[w + 1]], outs


def counted(outs):
    return np.array([o == 0 or outs[o] != outs[0] for o in range(len(outs))])


def loss_of(B, C, around, outs):
    """Loss of a window by lemma A.2, pair by pair."""
    total = 0.0
    for t in around:
        for o, counts in enumerate(counted(outs)):
            score = np.linalg.norm(C[outs[o]].T @ B[t]) ** 2 - OFFSET
            total += counts * np.logaddexp(0, -score if o == 0 else score)
    return total


def gradients_of(B, C, around, outs, ridge=RIDGE):
    """Eq. 8, with the sign of the derivative, and the ridge; arrays like B and C."""
    dB, dC = np.zeros_like(B), np.zeros_like(C)
    for t in around:
        for o, counts in enumerate(counted(outs)):
            c = outs[o]
            score = np.linalg.norm(C[c].T @ B[t]) ** 2 - OFFSET
            slope = counts * (1 / (1 + math.exp(-score)) - (o == 0))
            dB[t] += 2 * slope * C[c] @ C[c].T @ B[t]
            dC[c] += 2 * slope * B[t] @ B[t].T @ C[c] + counts * 2 * ridge * C[c] @ C[c].T @ C[c]
        dB[t] += 2 * ridge * B[t] @ B[t].T @ B[t]
    return dB, dC


def down(B, C, around, outs, rate):
    """Return B and C after a step in which no occurrence of a word changes its matrix by a factor of norm above 1/2."""
    sides = [B.copy(), C.copy()]
    squares = [side @ side.swapaxes(1, 2) for side in (B, C)]
    counts = counted(outs)
    scores = np.array([[(squares[0][t] * squares[1][o]).sum() - OFFSET for o in outs] for t in around])
    errors = counts * ((np.arange(len(outs)) == 0) - 1 / (1 + np.exp(-scores)))
    for k, t in enumerate(around):
        matrix = np.tensordot(errors[k], squares[1][outs], 1) - RIDGE * squares[0][t]
        sides[0][t] += min(2 * rate, 0.5 / np.linalg.norm(matrix)) * matrix @ B[t]
    for k, o in enumerate(outs):
        if counts[k]:
            matrix = np.tensordot(errors[:, k], squares[0][around], 1) - len(around) * RIDGE * squares[1][o]
            sides[1][o] += min(2 * rate, 0.5 / np.linalg.norm(matrix)) * matrix @ C[o]
    return sides


def sides(n_inputs, n_outs):
    """What a start needs to know of a source."""
    return SimpleNamespace(ids=range(n_inputs), context_ids=range(n_outs), n_rows=n_inputs)


def options(n, m, batch_size=1, most_rows=100):
    return n, m, np.float32(OFFSET), np.float32(RIDGE), batch_size, most_rows


def by_sgd(windows, rate, B, C):
    """Train; return factors and sums."""
    (n, m), sums = B.shape[1:], np.zeros(2)
    sides = tables(B, C)
    kernels.train_windows(tuple(windows), np.float32(rate), options(n, m), *sides, None, sums)
    assert not any(table[:, n * m :].any() for table in sides)
    return *(unpacked(table, n, m, len(B)) for table in sides), sums


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_the_loss_is_that_of_the_lemma(n, m):
    B, C = factors(n, m)
    windows = irregular_windows()
    *_, sums = by_sgd(windows, 0.0, B, C)
    B, C = B.astype(np.float64), C.astype(np.float64)
    np.testing.assert_allclose(sums[0], sum(loss_of(B, C, *group) for group in groups(windows)), rtol=1e-5)
    assert sums[1] == sum(len(around) * counted(outs).sum() for around, outs in groups(windows))


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_sgd_is_its_twin(n, m):
    B, C = factors(n, m)
    windows = irregular_windows()
    B_new, C_new, sums = by_sgd(windows, 0.1, B, C)
    B, C = B.astype(np.float64), C.astype(np.float64)
    loss = 0.0
    for group in groups(windows):
        loss += loss_of(B, C, *group)
        B, C = down(B, C, *group, rate=0.1)
    np.testing.assert_allclose(sums[0], loss, rtol=1e-5)
    np.testing.assert_allclose(B_new, B, atol=2e-5)
    np.testing.assert_allclose(C_new, C, atol=2e-5)


def test_a_step_is_never_too_long():
    B, C = factors(5, 3)
    B, C = 30 * B, 30 * C
    windows = Windows(np.array([2], np.int32), np.array([0, 1]), np.array([[1, 4]], np.int32), np.array([0, 1]))
    B_new, C_new, _ = by_sgd(windows, 10.0, B, C)
    for old, new in ((B, B_new), (C, C_new)):
        changes = np.linalg.norm(new - old, axis=(1, 2)) / np.linalg.norm(old, axis=(1, 2))
        assert 0.1 < changes.max() <= 0.5
    B_twin, C_twin = down(B.astype(np.float64), C.astype(np.float64), windows.inputs, windows.outs[0], 10.0)
    np.testing.assert_allclose(B_new, B_twin, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(C_new, C_twin, rtol=1e-4, atol=1e-4)


def zero_moments(tables):
    corrections = CORRECTIONS.astype(np.float32)
    return [(np.zeros_like(t), np.zeros_like(t), np.zeros(len(t), np.int64), corrections) for t in tables]


@pytest.mark.slow
def test_a_batch_of_too_many_words_ends_early():
    B, C = factors(5, 3)
    windows = irregular_windows()
    found = []
    for most in (5, 100):
        flat = tables(B, C)
        moments = zero_moments(flat)
        how = np.float32(0.01), options(5, 3, 16, most)
        kernels.train_windows(tuple(windows), *how, *flat, tuple(moments), np.zeros(2))
        found.append(moments[0][2].sum())
    assert found[0] > found[1] == 9


# ---------------------------------------------------------------- the estimator


N_TOPICS = 8


def ambiguous_text(n_sentences=3000, seed=0):
    """Sentences of a topic each; bank k comes in those of topics 2k and 2k + 1, word k, as often, in those of one."""
    rng = np.random.default_rng(seed)
    sentences = []
    for topic in rng.integers(N_TOPICS, size=n_sentences):
        sentence = [f"t{topic}_{k}" for k in rng.integers(10, size=7)]
        sentence.insert(rng.integers(8), f"bank{topic // 2}" if rng.random() < 0.5 else f"word{topic}")
        sentences.append(sentence)
    return nf.Corpus(sentences).encode()


@pytest.fixture(scope="module")
def text():
    return ambiguous_text()


QUICK = {"n_components": 8, "n_factors": 4, "n_epochs": 3, "sample": 0, "random_state": 0, "n_jobs": 1}
BANKS, WORDS = [f"bank{k}" for k in range(N_TOPICS // 2)], [f"word{k}" for k in range(N_TOPICS)]


@pytest.fixture(scope="module")
def mixed(text):
    return nf.Word2DM(**QUICK, ridge=0.05).fit(text).vectors_


@pytest.mark.parametrize(
    "changed", with_slow([{}], slow=[{"shared_negatives": False}, {"optimizer": "adam", "learning_rate": 0.01}])
)
def test_an_ambiguous_word_is_a_mixture(text, mixed, changed):
    words = nf.Word2DM(**{**QUICK, "ridge": 0.05, **changed}).fit(text).vectors_ if changed else mixed
    assert isinstance(words, nf.DensityEmbedding)
    assert list(words) == list(text.vocabulary)
    near = [word for word, _ in words.most_similar("t3_1", topn=10)]
    assert sum(word.startswith("t3_") or word == "word3" for word in near) >= 9
    two, one = words.entropy(BANKS), words.entropy(WORDS)
    assert two.mean() > one.mean() + 0.3
    assert (two[:, None] > one).mean() > 0.9
    for topic in (2, 3):
        assert words.similarity("bank1", f"t{topic}_1") > 5 * words.similarity("bank1", "t6_1")


@pytest.mark.slow
def test_without_the_ridge_all_become_pure(text, mixed):
    """Superposition of two topics and mixture have the same scores; noise of SGD turns the one into the other."""
    pure = nf.Word2DM(**QUICK, ridge=0.0).fit(text).vectors_
    assert pure.entropy(BANKS).max() < 0.02
    assert abs(mixed.entropy(BANKS) - np.log(2)).max() < 0.07
    assert mixed.entropy(WORDS).max() < 0.02


def test_what_a_fit_leaves(text):
    seen = []
    model = nf.Word2DM(
        5, 3, n_epochs=2, sample=0, validation_fraction=0.3, callbacks=[lambda p: seen.append(p.loss)],
        random_state=0, n_jobs=1,
    ).fit(text)  # fmt: skip
    n_words = len(text.vocabulary)
    assert model.factors_.shape == model.context_factors_.shape == (n_words, 5, 3)
    assert model.embedding_.shape == (n_words, 15)
    assert model.n_epochs_ == 2
    assert seen == model.loss_curve_.tolist()
    assert model.loss_curve_[1] < model.loss_curve_[0]
    assert abs(model.validation_curve_[1] / model.loss_curve_[1] - 1) < 0.2
    A = model.factors_[3] @ model.factors_[3].T
    np.testing.assert_allclose(model.vectors_.matrices([text.vocabulary.words[3]])[0], A / np.trace(A), atol=1e-5)
    assert np.trace(A) != pytest.approx(1, abs=1e-3)


def test_the_published_settings():
    model = nf.Word2DM.paper()
    given = model.get_params()
    expected = {
        "n_components": 17, "n_factors": 17, "window": 5, "shrink_window": "sentence", "min_count": 50,
        "n_negative": 5, "shared_negatives": False, "sample": 1e-5, "n_epochs": 4, "optimizer": "adam",
        "learning_rate": 0.001, "min_learning_rate": 0.001, "batch_size": 16, "offset": 0.0, "ridge": 0.0,
        "noise_exponent": 0.75,
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected
    senses, own = nf.MultiSenseWord2DM.paper().get_params(), {"n_components", "n_factors", "offset", "ridge"}
    assert {name: senses[name] for name in expected if name not in own}.items() <= expected.items()
    assert (senses["variant"], senses["noise_column"]) == ("columns", "same")
    start = model._start(sides(200, 200), np.random.default_rng(0))["B"][:, : 17 * 17]
    assert np.abs(start).max() <= 1 / (2 * 17 * 17)
    np.testing.assert_allclose(start.std(), 1 / (math.sqrt(12) * 17 * 17), rtol=0.02)
    assert nf.Word2DM.paper(n_components=4, n_factors=3, n_epochs=1).start_trace == 1 / 144


def test_the_start_has_its_trace():
    start = nf.Word2DM(7, 4, start_trace=2.5)._start(sides(500, 30), np.random.default_rng(0))
    assert start["C"].shape == (30, 32)
    np.testing.assert_allclose((start["B"] ** 2).sum(axis=1).mean(), 2.5, rtol=0.03)


# ---------------------------------------------------------------- the pull


def test_the_pull_is_measured_on_true_pairs(text):
    source = TextWindows(text, SamplingOptions(2, None, 3, False, 0, 0.75))
    around, centres = sample_pairs(source, 7)
    assert len(around) == len(centres) >= 1000
    np.testing.assert_array_equal(sample_pairs(source, 7)[0], around)
    sentences = [set(sentence.tolist()) for sentence in text]
    together = {(a, b) for sentence in sentences for a in sentence for b in sentence}
    assert set(zip(around.tolist(), centres.tolist(), strict=True)) <= together


def test_the_pull_is_the_gradient_of_a_true_pair():
    B, C = factors(5, 3, n_words=200)
    C[:40] *= 1e-3  # tiny, but not orthogonal
    B[:, 3:], C[100:130, :3] = 0, 0  # orthogonal, but not tiny
    row = measure(B, C, OFFSET)
    orthogonal, tiny, (share, norm) = row[0], row[1], np.split(row[2:], 2)
    assert orthogonal == pytest.approx(share[0]) == pytest.approx(0.15, abs=0.02)
    assert 0.2 <= tiny < 0.45
    assert share.sum() == pytest.approx(1)
    alike, pull = [], []
    for b, c in zip(B, C, strict=True):
        A, D = b @ b.T, c @ c.T
        alike.append((A * D).sum() / np.linalg.norm(A) / np.linalg.norm(D))
        dB, _ = gradients_of(b[None], c[None], [0], np.array([0]), ridge=0)
        pull.append(np.linalg.norm(dB))
    for k in range(5):
        inside = (np.array(alike) >= EDGES[k]) & (np.array(alike) < EDGES[k + 1])
        assert inside.mean() == pytest.approx(share[k])
        if inside.any():
            assert np.array(pull)[inside].mean() == pytest.approx(norm[k])
    assert np.isnan(measure(B[:0], C[:0], OFFSET)).all()


def test_a_start_that_is_not_finite():
    with pytest.raises(NumericalError, match=r"the loss is (nan|inf) in epoch 1\. Take a smaller learning_rate"):
        nf.Word2DM(**QUICK, start_trace=1e30).fit(ambiguous_text(99))


@pytest.mark.slow
def test_the_published_start_has_hardly_a_pull_and_the_default_has():
    text = ambiguous_text(800)
    quick = {**QUICK, "n_epochs": 3, "min_count": 1}
    paper, cured = nf.Word2DM.paper(**quick).fit(text), nf.Word2DM(**quick).fit(text)
    assert paper.pull_.tiny[0] == 1
    assert paper.pull_.orthogonal[0] == 0
    assert np.nanmax(paper.pull_.norm[0]) < 1e-4
    assert cured.pull_.tiny[-1] < 0.02
    assert np.nanmin(cured.pull_.norm[0]) > 0.05
    assert cured.pull_.share.shape == (4, 5)
    assert cured.loss_curve_[-1] < paper.loss_curve_[-1] - 0.2
