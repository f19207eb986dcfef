"""The learning rate that word models choose by the text."""

from functools import cache

import numpy as np
import pytest
from quick import often
from sklearn.base import clone

import nearfar as nf
from nearfar._core import progress
from nearfar.words.training import RateOfText

MODELS = {
    "SkipGram": nf.SkipGram(8, n_epochs=3, random_state=0, n_jobs=1),
    "Word2DM": nf.Word2DM(3, 2, n_epochs=3, random_state=0, n_jobs=1),
    "MultiSenseWord2DM": nf.MultiSenseWord2DM(4, n_senses=2, n_epochs=3, random_state=0, n_jobs=1),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@cache
def a_text(n=27_000, n_words=2700, seed=0):
    """So many words of a vocabulary in which the rule is above its lowest rate."""
    words = np.random.default_rng(seed).permutation(np.arange(n) % n_words)
    return nf.Corpus([[f"w{word}" for word in line] for line in words.reshape(-1, 9)]).encode()


def test_the_rule():
    rule = RateOfText()
    lengths = 10.0 ** np.arange(3, 12)
    rates = [rule(n, 10**6) for n in lengths]
    assert rates[0] == rule.highest
    assert rates[-1] == rule.lowest
    assert (np.diff(rates) <= 0).all()
    assert set(rates) <= {0.2, 0.14, 0.1, 0.071, 0.05, 0.035, 0.025}
    assert rule(1e6, 10**6) == 0.14
    assert rule(62e6, 80_000) == 0.05  # 17 million words, five epochs
    assert rule(1e4, 1327) == 0.05  # sqrt(v) / 700
    assert rule(1e4, 9) == rule.few
    assert (rule(1e4, 10**6, 12), rule(1e4, 10**6, 1)) == (0.1, 0.2)  # words around
    assert nf.Word2DM._rate_of_text(1e4, 9) == nf.MultiSenseWord2DM._rate_of_text(1e4, 9) == 0.05
    assert nf.Word2DM._rate_of_text(1e4, 10**6) == 0.1
    assert nf.MultiSenseWord2DM._rate_of_text(62e6, 80_000) == 0.025


@pytest.mark.parametrize("name", often(MODELS, ["SkipGram"]))
def test_what_is_chosen_is_what_could_be_given(name, monkeypatch):
    model, text = MODELS[name], a_text()
    monkeypatch.setattr(type(model), "_rate_of_text", RateOfText(highest=0.071))  # no model's fixed one
    model = clone(model).set_params(n_epochs=1)
    chosen = clone(model).fit(text)
    assert chosen.learning_rate == "auto"
    assert chosen.learning_rate_ == 0.071
    given = clone(model).set_params(learning_rate=chosen.learning_rate_).fit(text)
    np.testing.assert_array_equal(chosen.embedding_, given.embedding_)
    assert chosen.vectors_.parameters["learning_rate"] == given.learning_rate_ == chosen.learning_rate_
    assert clone(model).set_params(learning_rate=0.0123).fit(a_text(900, 90)).learning_rate_ == 0.0123


@pytest.mark.parametrize("name", often(MODELS, ["SkipGram", "MultiSenseWord2DM"]))
def test_where_it_is_fixed(name):
    model, text = MODELS[name], a_text(900, 90)
    fixed = model._rates
    assert clone(model).set_params(learning_rate=None).fit(text).learning_rate_ == fixed["sgd"]
    assert clone(model).set_params(optimizer="adam").fit(text).learning_rate_ == fixed["adam"]
    graph = nf.datasets.dcsbm(60, 2, 5.0, alpha=3.0, random_state=0).relation
    assert clone(model).set_params(n_epochs=1).fit(graph).learning_rate_ == fixed["sgd"]


def test_words_left_out_do_not_count():
    text, model = a_text(), clone(MODELS["SkipGram"]).set_params(sample=1e-4)
    counts = text.vocabulary.counts
    share = 1e-4 * counts.sum() / counts
    left = float(counts @ (np.sqrt(share) + share))
    assert model.fit(text).learning_rate_ == model._rate_of_text(3 * left, 2700)


def test_a_partial_fit_goes_by_all_text(monkeypatch):
    model = clone(MODELS["SkipGram"])
    monkeypatch.setattr(type(model), "_rate_of_text", RateOfText(at_million=0.024))
    first = model.fit(a_text()).learning_rate_
    assert model.partial_fit(a_text(seed=1)).learning_rate_ == model._rate_of_text(3 * 54_000, 2700) < first


def test_the_progress_line_says_it(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LOG_EVERY", 1e-9)
    model = clone(MODELS["SkipGram"]).set_params(verbose=1).fit(a_text())
    assert f"SkipGram, learning_rate {model.learning_rate_:g}: " in capsys.readouterr().err


def test_a_vocabulary_that_counts_fewer_words_than_the_text_has(monkeypatch):
    model, text = clone(MODELS["SkipGram"]).set_params(sample=0), a_text()
    monkeypatch.setattr(type(model), "_rate_of_text", RateOfText(at_million=0.016))
    bare = nf.Vocabulary(list(text.vocabulary), np.ones(2700, np.int64))
    found = model.fit(nf.EncodedCorpus(text.tokens, text.ends, bare)).learning_rate_
    assert found == model._rate_of_text(3 * 27_000, 2700) < model._rate_of_text(3 * 2700, 2700)


@pytest.mark.slow
def test_wider_windows_take_a_smaller_one():
    model, text = clone(MODELS["SkipGram"]).set_params(n_epochs=1), a_text(36_000, 4000)
    rates = [{"window": 5}, {"window": 11}, {"shrink_window": None}, {"window": 11, "shared_negatives": False}]
    assert [clone(model).set_params(**how).fit(text).learning_rate_ for how in rates] == [0.1, 0.05, 0.05, 0.1]


def test_where_a_vector_takes_all_steps_of_a_window_it_falls_below_what_is_lowest():
    """At 0.025 the senses of windows of 40 words and more diverged."""
    chosen = {around: nf.MultiSenseWord2DM._rate_of_text(1e6, 10**5, around) for around in (6, 20, 40, 80, 200)}
    assert chosen == {6: 0.05, 20: 0.025, 40: 0.013, 80: 0.0063, 200: 0.0022}
    assert nf.SkipGram._rate_of_text(1e6, 10**5, 200) == 0.025


def test_windows_are_no_wider_than_sentences():
    """A window of 60 words in sentences of 9 has 8 words around; it was taken for one of 61."""
    text = nf.Corpus([f"w{k % 700}" for k in range(at, at + 9)] for at in range(0, 90_000, 9)).encode()
    model = nf.MultiSenseWord2DM(4, n_senses=1, n_epochs=1, sample=0, window=60, random_state=0, n_jobs=1)
    assert model.fit(text).learning_rate_ == 0.025
    assert model._rate_of_text(90_000, 700, 61) < 0.01
