"""Phrases: which pairs become one word, and where."""

import numpy as np
import pytest

import nearfar as nf
from nearfar.text import encoded as module


def texts(seed=0, n=300):
    rng = np.random.default_rng(seed)
    words = [f"w{k}" for k in range(12)]
    lines = [[words[k] for k in rng.choice(12, p=np.arange(12, 0, -1) / 78, size=rng.integers(1, 9))] for _ in range(n)]
    for line in lines[::2]:
        line += ["new", "york"]
    for line in lines[::3]:
        line += ["the", "new", "york", "times", "new", "york"]
    return lines


def told(corpus):
    return [[corpus.vocabulary.words[token] for token in sentence] for sentence in corpus]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("min_count", "threshold"), [(1, 0.1), (9, 0.4), pytest.param(5, 0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("block", [7, 2**22])
def test_phrases_are_those_of_gensim(seed, min_count, threshold, block, monkeypatch):
    gensim = pytest.importorskip("gensim.models.phrases")
    monkeypatch.setattr(module, "_PAIRS", block)
    lines = texts(seed)
    found = nf.Corpus(lines).encode(min_count=1).phrases(min_count=min_count, threshold=threshold)
    theirs = gensim.Phrases(lines, min_count=min_count, threshold=threshold)
    assert told(found) == [theirs[line] for line in lines]
    tokens = np.array(found.tokens)
    assert found.vocabulary.counts.tolist() == np.bincount(tokens).tolist()
    assert (np.diff(found.vocabulary.counts) <= 0).all()
    assert any("new_york" in line for line in told(found))


def test_phrases_grow_by_another_call_and_are_trained_on():
    corpus = nf.Corpus([["the", "new", "york", "times", "was", "read"], ["was", "the", "read"]] * 9).encode()
    once = corpus.phrases(min_count=1, threshold=0.5)
    assert {"the_new", "york_times"} < set(once.vocabulary)
    twice = once.phrases(min_count=1, threshold=0.5)
    assert max(word.count("_") for word in twice.vocabulary) > max(word.count("_") for word in once.vocabulary)
    assert len(nf.SkipGram(4, n_epochs=1, sample=0, random_state=0).fit(once).vectors_) == len(once.vocabulary)


def test_no_phrase_reaches_over_the_end_of_a_sentence():
    corpus = nf.Corpus([["york", "new"], ["york", "new"]] * 20).encode()
    assert set(corpus.phrases(min_count=1, threshold=0.0).vocabulary) == {"york_new"}
    lone = nf.Corpus([["a"], ["b"]] * 20).encode().phrases(min_count=1, threshold=0.0)
    assert told(lone) == [["a"], ["b"]] * 20


def test_a_word_that_reads_like_a_phrase_is_the_same_word():
    corpus = nf.Corpus([["new_york", "is", "new", "york"]] * 10 + [["is"], ["is", "big"], ["big"]] * 9).encode()
    assert told(corpus.phrases(min_count=1, threshold=0.5))[0].count("new_york") == 2
