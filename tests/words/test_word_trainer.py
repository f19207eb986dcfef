"""What word models train on: windows, drawn as a plain twin draws them, and the manners of the trainer."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from quick import often
from sklearn.base import clone
from word_models import TEXT, assert_same, clusters, columns, skipgram, word2dm

import nearfar as nf
from nearfar._core.random import alias_draw
from nearfar.callbacks import Checkpoint, EarlyStopping, Progress
from nearfar.contracts import Learner
from nearfar.engines import learner_of
from nearfar.words import windows as kernels
from nearfar.words.adam import BETAS
from nearfar.words.training import Copies, Share, Training, TrainingState, put_together
from nearfar.words.windows import (
    SHRINK,
    SamplingOptions,
    TextWindows,
    keep_probabilities,
    noise_table,
    pieces_of,
    read_only,
)

MASK = 2**64 - 1


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

    def alias(self, table):
        bits = self.bits()
        cell = ((bits >> 32) * len(table)) >> 32
        entry = int(table[cell])
        return cell if bits & 0xFFFFFFFF < entry >> 32 else entry & 0xFFFFFFFF


def kept(tokens, ends, start, stop, keep, random):
    """Sentences of kept words of a block."""
    found, first = [], start
    for end in ends:
        if end > start and first < stop:
            words = [int(w) for w in tokens[first : min(end, stop)] if not keep.size or random.unit() < keep[w]]
            found += [words] if len(words) > 1 else []
            first = min(end, stop)
    return found


def twin(sentences, pieces, how, noise, random):
    """Windows (inputs, outs) and how many each part of a sentence has."""
    windows, counts = [], []
    spans, at = [], 0
    for words in sentences:
        spans.append((at, words))
        at += len(words)
    for first, last in pieces:
        for begin, words in spans:
            here = range(max(first, begin), min(last, begin + len(words)))
            before = len(windows)
            if not here:
                continue
            reach = how.window - random.below(how.window) if how.shrink_window == "sentence" else how.window
            for i in (k - begin for k in here):
                if how.shrink_window == "word":
                    reach = how.window - random.below(how.window)
                around = words[max(0, i - reach) : i] + words[i + 1 : i + reach + 1]
                windows += [
                    (group, [words[i], *(random.alias(noise) for _ in range(how.n_negative))])
                    for group in ([around] if how.shared_negatives else [[word] for word in around])
                ]
            counts.append(len(windows) - before)
    return windows, counts


def irregular_text(n_words=9, seed=0):
    rng = np.random.default_rng(seed)
    lengths = np.array([1, 13, 2, 30, 7, 50, 1])
    tokens = np.minimum(rng.geometric(0.25, lengths.sum()) - 1, n_words - 1).astype(np.int32)
    return nf.EncodedCorpus(tokens, np.cumsum(lengths), nf.Vocabulary(map(str, range(9)), np.bincount(tokens)))


@pytest.mark.parametrize("shrink", SHRINK)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("sample", [0, 0.05])
@pytest.mark.parametrize("together", [1, 2])
def test_windows_are_those_of_the_twin(shrink, shared, sample, together, monkeypatch):
    """Every random number; blocks and pieces that begin and end within sentences, too."""
    monkeypatch.setattr("nearfar.words.windows.PIECE", 24)
    corpus, how = irregular_text(), SamplingOptions(3, shrink, 4, shared, sample, 0.75, together)
    source = TextWindows(corpus, how)
    for start, stop, seed in ((0, 40, 7), (40, corpus.n_tokens, 2**63 - 5)):
        random = SplitMix(seed)
        sentences = kept(corpus.tokens, corpus.ends, start, stop, source.keep, random)
        pieces = list(pieces_of(np.cumsum([len(words) for words in sentences]), 24, together))
        assert max(last - first for first, last in pieces) == 24 or sample
        expected, counts = twin(sentences, pieces, how, source.noise, random)
        found, found_counts = [], []
        for windows in source.windows(start, stop, seed):
            bounds = zip(windows.starts, windows.starts[1:], strict=False)
            found += [
                (windows.inputs[a:b].tolist(), o.tolist()) for (a, b), o in zip(bounds, windows.outs, strict=True)
            ]
            found_counts += np.diff(windows.sentences).tolist()
            assert windows.sentences[-1] == len(windows.outs)
        assert found == expected
        assert found_counts == counts


def test_what_is_drawn():
    counts = np.array([5000, 800, 90, 5])
    N = counts.sum()
    keep = keep_probabilities(counts, 0.01)
    expected = np.minimum((np.sqrt(counts / (0.01 * N)) + 1) * 0.01 * N / counts, 1)
    np.testing.assert_allclose(keep, expected, rtol=1e-6)
    tokens = np.repeat(np.arange(4, dtype=np.int32), 50_000)
    out, ends = np.empty(len(tokens), np.int32), np.array([len(tokens)])
    state = np.full(1, 11, np.uint64)
    text = read_only(tokens), read_only(ends)
    n, _ = kernels.kept_words(text, (0, len(tokens), 0), keep, state, out, np.empty(9, np.int64))
    np.testing.assert_allclose(np.bincount(out[:n]) / 50_000, expected, atol=0.01)


@pytest.mark.parametrize("weights", [[5000, 800, 90, 5], [3, 0, 0, 1], [7], [1, 1, 1]])
def test_noise_in_proportion_to_a_power(weights):
    weights = np.array(weights)
    table, random = noise_table(weights, 0.75), np.random.default_rng(1)
    drawn = [alias_draw(bits, table) for bits in random.integers(2**64, size=20_000, dtype=np.uint64)]
    share = np.bincount(drawn, minlength=len(weights)) / len(drawn)
    np.testing.assert_allclose(share, weights**0.75 / (weights**0.75).sum(), atol=0.012)
    assert not share[weights == 0].any()


def test_pieces_end_with_sentences_where_they_can():
    ends = np.array([4, 7, 9, 30, 33])
    assert list(pieces_of(ends, 10, 1)) == [(0, 9), (9, 19), (19, 29), (29, 33)]
    assert list(pieces_of(ends, 10, 2)) == [(0, 7), (7, 9), (9, 19), (19, 29), (29, 33)]
    assert list(pieces_of(ends[:0], 10, 1)) == []


# ---------------------------------------------------------------- the trainer


def a_text(n_sentences=9000, seed=0):
    rng = np.random.default_rng(seed)
    sentences = [[f"{'ab'[k % 2]}{w}" for w in rng.integers(30, size=9)] for k in range(n_sentences)]
    return nf.Corpus(sentences).encode()


QUICK = {"n_components": 8, "n_epochs": 6, "random_state": 0, "n_jobs": 1, "sample": 0, "learning_rate": 0.05}


GIVEN = nf.Embedding(np.random.default_rng(0).normal(size=(2, 5)), ["ship", "the"])
FITS = {
    "skip-gram": skipgram(),
    "a rate by the text": skipgram(learning_rate="auto", subwords=True),
    "held out": skipgram(optimizer="adam", shared_negatives=False, validation_fraction=0.3),
    "the mean": skipgram(cbow=True),
    "frozen": skipgram(init=GIVEN, frozen=True),
    "byte pairs": word2dm(subwords="bpe"),
    "Word2DM by Adam": word2dm(optimizer="adam"),
    "clusters": clusters(n_senses=3, new_sense_threshold=0.5),
    "senses chosen": clusters(validation_fraction=0.3),
    "columns by Adam": columns(optimizer="adam"),
}


OFTEN = [(name, "text") for name in ("a rate by the text", "held out", "the mean", "frozen", "clusters")]
OFTEN += [(name, "relation") for name in ("skip-gram", "columns by Adam")]


@pytest.mark.parametrize(("name", "of"), often(itertools.product(FITS, ["text", "relation"]), OFTEN))
def test_a_seed_fixes_the_bits_also_of_a_fit_that_was_interrupted(name, of, monkeypatch, tmp_path):
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 40)
    model = FITS[name]
    if of == "relation" and (model.subwords or model.init is not None):
        pytest.skip("of words alone")
    corpus = TEXT if of == "text" else nf.Relation.from_edges([*itertools.pairwise("abcda")]).random_walk(2)
    path, model = tmp_path / "run.safetensors", clone(model).set_params(n_epochs=3)
    whole = clone(model).fit(corpus)
    assert_same(clone(model).fit(corpus), whole)
    for epoch in (1, 3):
        stop = [Checkpoint(path, every=1), lambda progress, epoch=epoch: progress.epoch == epoch]
        clone(model).set_params(callbacks=stop).fit(corpus)
        assert_same(clone(model).fit(corpus, resume=path), whole)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(corpus).embedding_, whole.embedding_)


def test_the_rate_falls_linearly_over_all_epochs(monkeypatch):
    rates, told = [], []
    steps = nf.SkipGram._train

    def spied(self, arrays, highest):
        train = steps(self, arrays, highest)
        return lambda windows, rate, sums: rates.append(rate) or train(windows, rate, sums)

    monkeypatch.setattr(nf.SkipGram, "_train", spied)
    look = [lambda progress: told.append(progress.learning_rate)]
    nf.SkipGram(**QUICK, min_learning_rate=0.01, callbacks=look).fit(a_text(4000))
    np.testing.assert_allclose(told, np.maximum(0.05 * (1 - np.arange(1, 7) / 6), 0.01))
    assert rates[0] == 0.05
    assert rates[-1] == 0.01
    assert (np.diff(rates) <= 0).all()
    middle = len(rates) // 2
    assert abs(rates[middle] - 0.025) < 0.001


@pytest.mark.parametrize(
    ("patience", "tol", "losses", "stops"),
    [
        (1, 0, [3.0, 2.0, 2.0, 1.0], [False, False, True, False]),
        (2, 0, [3.0, 2.0, 2.0, 2.1, 1.9], [False, False, False, True, False]),
        (2, 0.1, [3.0, 2.0, 1.9, 1.85, 1.0], [False, False, False, True, False]),
        (3, 0, [1.0, 2.0, 3.0, 4.0], [False, False, False, True]),
    ],
)
def test_when_early_stopping_stops(patience, tol, losses, stops):
    rule = EarlyStopping(patience, tol)
    for k, expected in enumerate(stops, 1):
        state = TrainingState({}, np.random.default_rng(), 0, [], losses[:k])
        assert rule(Progress(k, 9, 1.0, 0.1, state)) is expected


def test_early_stopping_ends_a_fit():
    text, stop = a_text(3000), EarlyStopping(tol=0.5)
    model = nf.SkipGram(**QUICK, validation_fraction=0.2, callbacks=[stop]).fit(text)
    assert model.n_epochs_ == 2


def test_what_is_held_out_is_not_trained_on(monkeypatch):
    """Each block has words of its own: those that are held out stay where they start."""
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 2_000)
    rng = np.random.default_rng(0)
    n = 48  # blocks
    tokens = np.concatenate([rng.integers(5, size=2_000) + 5 * k for k in range(n)]).astype(np.int32)
    words = nf.Vocabulary(map(str, range(5 * n)), np.bincount(tokens))
    text = nf.EncodedCorpus(tokens, np.arange(10, len(tokens) + 1, 10), words)
    model = nf.SkipGram(**{**QUICK, "n_epochs": 1}, noise_exponent=0.75, validation_fraction=0.25).fit(text)
    still = np.abs(model.embedding_).max(axis=1) <= 0.5 / 8
    assert still.reshape(n, 5).all(axis=1).sum() == still.reshape(n, 5).any(axis=1).sum() == 12


DETERMINISTIC = [
    nf.SkipGram(8, n_epochs=4, sample=0, learning_rate=0.05),
    nf.SkipGram(8, n_epochs=3, sample=0, optimizer="adam", shared_negatives=False),
    nf.Word2DM(4, 3, n_epochs=4, sample=0, learning_rate=0.1),
    nf.Word2DM(4, 3, n_epochs=3, sample=0, optimizer="adam", batch_size=8),
]


@pytest.mark.parametrize(
    "model", often(DETERMINISTIC, DETERMINISTIC[1:2]), ids=["skip-gram", "by Adam", "Word2DM", "Word2DM by Adam"]
)
def test_deterministic_is_the_same_for_any_number_of_workers(model, monkeypatch, tmp_path):
    """Also where a fit is interrupted, and where an odd number of blocks leaves one without a partner."""
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 63)
    text = a_text(250)
    model = clone(model).set_params(random_state=3, deterministic=True, validation_fraction=0.2, n_jobs=1)
    one, plain = clone(model).fit(text), clone(model).set_params(deterministic=False).fit(text)
    stop = [Checkpoint(tmp_path / "run.safetensors", every=1), lambda p: p.epoch == 2]
    clone(model).set_params(n_jobs=3, callbacks=stop).fit(text)
    resumed = clone(model).set_params(n_jobs=2).fit(text, resume=tmp_path / "run.safetensors")
    for n_jobs in (3, 8):
        many = clone(model).set_params(n_jobs=n_jobs).fit(text)
        for name in ("embedding_", "loss_curve_", "validation_curve_"):
            np.testing.assert_array_equal(getattr(many, name), getattr(one, name))
            np.testing.assert_array_equal(getattr(resumed, name), getattr(one, name))
    assert not np.array_equal(one.embedding_, plain.embedding_)
    np.testing.assert_allclose(one.loss_curve_[-1], plain.loss_curve_[-1], rtol=0.03)
    assert one.n_pairs_ == plain.n_pairs_


def test_who_trains_is_chosen_in_one_place():
    pytest.importorskip("torch")
    text = a_text(20)
    windows = TextWindows(text, SamplingOptions(2, None, 1, True, 0, 0.75))
    for model, expected in (
        (nf.SkipGram(16), "Shared"),
        (nf.SkipGram(16, deterministic=True), "Copies"),
        (nf.SkipGram(16, engine="torch"), "Batches"),
        (nf.SkipGram(16, engine="threads", deterministic=True), "Copies"),
        (nf.MultiSenseWord2DM(16), "Shared"),
    ):
        arrays = model._start(windows, np.random.default_rng(0))
        training = Training("test", model, arrays, windows, windows.blocks, 0.1, 0, 1, lambda _: None, model.engine)
        learner = learner_of(training)
        assert isinstance(learner, Learner)
        assert type(learner).__name__ == expected


def test_deterministic_in_a_relation_and_with_more_text(monkeypatch):
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 250)
    relation = nf.datasets.dcsbm(90, alpha=3.0, random_state=0).relation.random_walk(2)
    found = []
    for n_jobs in (1, 2):
        model = nf.SkipGram(6, n_epochs=2, random_state=0, n_jobs=n_jobs, deterministic=True)
        vectors = clone(model).fit(relation).embedding_
        found.append((vectors, model.fit(a_text(300)).partial_fit(a_text(400)).embedding_))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_copies_are_put_together_like_steps_one_after_the_other():
    """Along a parabola the sum of both is where twice the steps lead; rows that are not due stay where they are."""
    rng = np.random.default_rng(0)
    table, at, steps = rng.normal(size=(7, 5)), rng.normal(size=(7, 5)), np.array([0, 1, 3, 10, 40, 200, 9])
    share = 1 - np.exp(-0.05 * steps)
    one = table + share[:, None] * (at - table)
    other, before = one.copy(), table.copy()
    put_together(table, one, other, np.arange(6), 0.5 * (1 + np.exp(-0.05 * steps[:6])), 0, 6)
    expected = before + (1 - np.exp(-0.1 * steps))[:, None] * (at - before)
    np.testing.assert_allclose(table[:6], expected[:6], rtol=1e-12)
    np.testing.assert_array_equal(table[6], before[6])
    for copy in (one, other):
        np.testing.assert_array_equal(copy[:6], table[:6])


def test_moments_of_copies_are_joined_like_steps_one_after_the_other():
    """Where all steps see the same both copies have what both together would; unseen rows stay, one copy's are its."""
    begun, first, second = np.array([0, 4, 5, 7, 0]), np.array([0, 0, 40, 0, 2]), np.array([0, 0, 30, 9, 0])
    moments, total = dict(zip(("x.first", "x.second"), BETAS, strict=True)), begun + first + second
    copies = [
        {name: 3 * (1 - beta ** (begun + own))[:, None] for name, beta in moments.items()} | {"x.steps": begun + own}
        for own in (first, second)
    ]
    arrays = {"x.steps": begun}
    training = SimpleNamespace(arrays=arrays)
    Copies._join_moments(SimpleNamespace(_moments_of=["x"], _training=training, _copies=copies), 1)
    for copy in copies:
        for name, beta in moments.items():
            np.testing.assert_allclose(copy[name][:, 0], 3 * (1 - beta**total), rtol=1e-12)
    for of in (arrays, *copies):
        np.testing.assert_array_equal(of["x.steps"], total)


def test_sentences_of_one_word_are_passed_over():
    alone = nf.SkipGram(**QUICK).fit([["the", "sea", "the"]] * 20)
    among = nf.SkipGram(**QUICK).fit([["the", "sea", "the"]] * 20 + [["sea"]] * 5)
    assert among.loss_curve_[0] != alone.loss_curve_[0]  # it counts among the noise
    np.testing.assert_allclose(among.loss_curve_, alone.loss_curve_, rtol=0.05)


@pytest.mark.slow
def test_a_sentence_of_ten_million_words():
    tokens = np.random.default_rng(0).integers(50, size=10_000_000, dtype=np.int32)
    text = nf.EncodedCorpus(tokens, np.array([tokens.size]), nf.Vocabulary(map(str, range(50)), np.bincount(tokens)))
    model = nf.SkipGram(4, window=1, n_negative=1, sample=0, n_epochs=1, random_state=0, n_jobs=1).fit(text)
    assert np.isfinite(model.loss_curve_).all()


@pytest.mark.parametrize(
    "model", [nf.SkipGram(4, n_jobs=1), nf.Word2DM(3, 2, n_jobs=1), nf.MultiSenseWord2DM(4, n_jobs=1)]
)
def test_any_true_answer_of_a_callback_stops(model):
    """NumPy's own True, too: comparisons of losses give it."""
    model.set_params(sample=0, callbacks=[lambda progress: progress.epoch >= np.int64(2)])
    assert model.fit([["the", "sea", "the", "ship"]] * 20).n_epochs_ == 2


def test_copies_are_put_together_where_as_many_steps_would_have_led(rng):
    """f = (1 - e^(-2 k)) / (2 (1 - e^(-k))) of the sum of both ways; all of it where one copy moved alone."""
    before, one, other = rng.normal(size=(3, 5, 16)).astype(np.float32)
    k, rows, ends = np.array([0.3, 1.0, 2.5]), np.array([4, 0, 2]), np.array([3])
    f = (1 - np.exp(-2 * k * 0.5)) / (2 * (1 - np.exp(-k * 0.5)))
    for alone, factors in ((False, f), (True, np.ones(3))):
        arrays = [part.copy() for part in (before, one, other)]
        shares = [Share(arrays[0], arrays[1:], rows, ends, k)]
        Copies._put_together(SimpleNamespace(_shares=shares), 0, 0.5, 1, alone=alone)
        expected = before.copy()
        expected[rows] += factors[:, None] * ((one - before) + (other - before))[rows]
        for array in arrays:
            np.testing.assert_allclose(array[rows], expected[rows], rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(arrays[0][[1, 3]], before[[1, 3]])
